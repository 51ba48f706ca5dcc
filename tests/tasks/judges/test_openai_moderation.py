"""OpenAI's moderation endpoint as a judge: its categories become ours by a declared map."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from tasks.judges import AskingJudge, load_judge
from tasks.judges.endpoint import Service, UnusableError
from tasks.judges.openai_moderation import DEFAULT_MODEL, OpenAiModerationJudge
from tasks.readers.verdicts import CategoryMap
from tasks.settings import settings

MAP = CategoryMap(categories={"hate": ("hate", "hate/threatening"), "self_harm": ("self-harm",)})
SCORES = {"hate": 0.2, "hate/threatening": 0.7, "self-harm": 0.01, "violence": 0.99}
JUDGE = OpenAiModerationJudge(MAP, Service(url="http://127.0.0.1:9/v1/moderations"))


def moderation(scores: Mapping[str, Any] | None = None, **result: Any) -> dict[str, Any]:
    given = {"flagged": True, "categories": {"hate": True, "violence": True, "self-harm": False}, **result}
    one = {**given, "category_scores": SCORES if scores is None else scores}
    return {"id": "modr-1", "model": "omni-moderation-2024-09-26", "results": [one]}


def test_a_category_has_the_highest_of_the_scores_that_make_it_up() -> None:
    answer = JUDGE.read(moderation())
    assert answer.verdict.scores == {"hate": 0.7, "self-harm": 0.01}
    assert answer.verdict.rationale == "flagged by the service: hate"
    assert answer.model == "omni-moderation-2024-09-26"


def test_a_text_is_asked_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    assert JUDGE.body("some text", 0) == {"model": DEFAULT_MODEL, "input": "some text"}
    assert isinstance(JUDGE, AskingJudge)


@pytest.mark.parametrize(
    ("content", "state", "told"),
    [
        (moderation({"hate": 0.2, "self-harm": 0.1}), "judge_error", "the answer has no score for hate/threatening"),
        (moderation({**SCORES, "self-harm": None}), "unscored", "the service did not apply self-harm to the text"),
        (
            moderation({**SCORES, "self-harm": 0.0}, category_applied_input_types={"hate": ["text"], "self-harm": []}),
            "unscored",
            "the service did not apply self-harm to the text",
        ),
    ],
)
def test_a_score_that_is_left_out_or_says_nothing_is_never_zero(content: Any, state: str, told: str) -> None:
    verdict = JUDGE.read(content).verdict
    assert (verdict.state, verdict.scores, verdict.rationale) == (state, {}, told)


@pytest.mark.parametrize(
    "content",
    [
        None, [], {}, {"results": []}, {"results": [{}]}, {"results": moderation()["results"] * 2},
        moderation({**SCORES, "hate": 1.2}), moderation({**SCORES, "hate": -0.1}),
        moderation({**SCORES, "hate": "0.2"}),
        moderation({**SCORES, "hate": True}), moderation({**SCORES, "hate": float("nan")}),
        moderation(categories={"hate": "yes"}),
    ],
    ids=range(12),
)  # fmt: skip
def test_anything_else_than_one_moderation_with_shares_cannot_be_used(content: Any) -> None:
    with pytest.raises(UnusableError, match="is not a moderation with scores from 0 to 1"):
        JUDGE.read(content)


def test_the_endpoints_answers_of_the_shared_files_are_read_or_fail_for_want_of_a_score(shared: Path) -> None:
    """Facts of ``expected.json``: 31 rows, 1 an error, 3 of a model without illicit; a null flag has a score beside."""
    judge = OpenAiModerationJudge(service=JUDGE.service)
    states = []
    for line in (shared / "data/interop/moderation/generated/openai_moderation.jsonl").read_text().splitlines():
        response = json.loads(line)["response"]
        if "results" in response:
            verdict = judge.read(response).verdict
            states.append(verdict.state)
            if verdict.state is not None:
                assert "illicit" in verdict.rationale
    assert Counter(states) == {None: 27, "judge_error": 3}


def test_the_fingerprint_covers_endpoint_model_and_map_and_not_the_order_of_the_map() -> None:
    def of(categories: Mapping[str, tuple[str, ...]] = MAP.categories, url: str = JUDGE.service.url) -> str:
        return OpenAiModerationJudge(CategoryMap(categories=categories), replace(JUDGE.service, url=url)).fingerprint

    assert of({"self-harm": ("self-harm",), "hate": ("hate/threatening", "hate")}) == of()
    assert of({"hate": ("hate",), "self-harm": ("self-harm",)}) != of()
    assert of(url="http://127.0.0.1:9/v2/moderations") != of()


def test_the_registered_judge_asks_openai_unless_the_environment_says_otherwise(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings.cache_clear()
    judge = load_judge("openai-moderation")
    assert isinstance(judge, OpenAiModerationJudge)
    assert judge.service.url == "https://api.openai.com/v1/moderations"
    assert judge.categories == ("hate", "violence", "self-harm", "sexual", "dangerous-instructions")
    (tmp_path / "map.yaml").write_text("categories: {harm: [hate, violence]}\n")
    monkeypatch.setenv("ASSAY_JUDGE_MAP", str(tmp_path / "map.yaml"))
    monkeypatch.setenv("ASSAY_JUDGE_MODEL", "omni-moderation-2024-09-26")
    settings.cache_clear()
    judge = load_judge("openai-moderation")
    assert isinstance(judge, OpenAiModerationJudge)
    assert (judge.categories, judge.model) == (("harm",), "omni-moderation-2024-09-26")
    settings.cache_clear()


@pytest.mark.parametrize("categories", [{}, {"hate": ()}])
def test_a_map_that_makes_no_category_is_refused(categories: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(InputError, match="the map names no categories"):
        OpenAiModerationJudge(CategoryMap(categories=categories), JUDGE.service)
