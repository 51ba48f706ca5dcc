"""OpenAI's moderation endpoint as a judge, or any service that answers alike.

Its own categories (``hate/threatening``, ``self-harm/intent``, ...) become those that are wanted here by a declared
map: the highest of the named scores. The fingerprint covers the endpoint, the requested model and the map; the version
is the model as the service names it, such as ``omni-moderation-2024-09-26``. As with ``llm``, all answers under one
fingerprint come from one model.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from core.data.vocabulary import category_name
from core.errors import InputError
from tasks.judges import Answer, Verdict
from tasks.judges.asking import ServiceJudge, fingerprint_of
from tasks.judges.endpoint import OPENAI, Service, Sleep, UnusableError
from tasks.readers.verdicts import MAPS, CategoryMap
from tasks.settings import settings
from tasks.specs import load_spec

ALGORITHM = 1
"""Raise it with any change of code that can change a score: it is part of the fingerprint."""

DEFAULT_MODEL = "omni-moderation-latest"


class OpenAiModerationJudge(ServiceJudge):
    """Scores texts by OpenAI's moderation endpoint.

    The score of a category is the highest of the service's scores that the map names for it. The service's own
    ``flagged`` follows thresholds that it does not tell; it goes into the rationale and decides nothing.

    Parameters
    ----------
    map : CategoryMap or Path, optional
        By default the file that ``ASSAY_JUDGE_MAP`` names, else the one that comes with assay.
    service : Service, optional
        By default the one that the environment names, else OpenAI's.
    sleep : callable, optional
        As in `ServiceJudge`.

    Raises
    ------
    core.errors.InputError
        The map or the address cannot be used.
    """

    name = "openai-moderation"

    def __init__(
        self,
        map: CategoryMap | Path | None = None,  # noqa: A002 (as readers call it)
        service: Service | None = None,
        *,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        given = map or settings().judge_map or MAPS / "openai-moderation.yaml"
        found = given if isinstance(given, CategoryMap) else load_spec(given, CategoryMap)
        self.map = {category_name(name): natives for name, natives in found.categories.items()}
        if not self.map or not all(self.map.values()):
            raise InputError.of("openai-moderation", "the map names no categories, or a category without any")
        model = settings().judge_model or DEFAULT_MODEL
        super().__init__(service or Service.of(settings(), "moderations", default=OPENAI), model, sleep=sleep)

    @property
    def categories(self) -> tuple[str, ...]:
        """The map's categories."""
        return tuple(self.map)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256, in hex, over the endpoint, the requested model and the map."""
        return fingerprint_of(
            {
                "judge": self.name,
                "algorithm": ALGORITHM,
                "endpoint": self.service.url.partition("://")[2],
                "model": self.model,
                "map": {name: sorted(natives) for name, natives in self.map.items()},
            }
        )

    def body(self, text: str, form: int) -> Mapping[str, Any]:  # noqa: ARG002 (there is one form)
        """Make the request for a text."""
        return {"model": self.model, "input": text}

    def read(self, content: Any) -> Answer:
        """Read an answer: the highest score of those that make up each category."""
        try:
            reply = _Reply.model_validate(content)
        except ValidationError:
            raise UnusableError("is not a moderation with scores from 0 to 1") from None
        result = reply.results[0]
        known = [native for natives in self.map.values() for native in natives]
        absent = [native for native in known if native not in result.category_scores]
        if absent:
            return Answer.failed("judge_error", f"the answer has no score for {absent[0]}")
        given = result.applied_scores
        passed_over = [native for native in known if native not in given]
        if passed_over:
            return Answer.failed("unscored", f"the service did not apply {passed_over[0]} to the text")
        scores = {name: max(given[native] for native in natives) for name, natives in self.map.items()}
        flagged = [name for name, flag in result.categories.items() if flag and name in known]
        rationale = f"flagged by the service: {', '.join(flagged)}" if flagged else "nothing flagged by the service"
        return Answer(verdict=Verdict(scores=scores, rationale=rationale), model=self.told_model(reply.model))


class _Result(BaseModel):
    model_config = ConfigDict(strict=True)
    categories: dict[str, bool | None] = {}
    category_scores: dict[str, Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] | None]
    category_applied_input_types: dict[str, list[str] | None] = {}

    @property
    def applied_scores(self) -> dict[str, float]:
        """Scores that are about the text: that of a category that was not applied to it is null, or says nothing."""
        return {
            name: score
            for name, score in self.category_scores.items()
            if score is not None and self.category_applied_input_types.get(name) != []
        }


class _Reply(BaseModel):
    """What assay reads of a moderation; one text is asked, so there is one result."""

    model_config = ConfigDict(strict=True)
    model: str | None = None
    results: list[_Result] = Field(min_length=1, max_length=1)
