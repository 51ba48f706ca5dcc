"""Readers of kept responses of moderation APIs: OpenAI, Perspective, Azure AI Content Safety; and Llama Guard's text.

Shapes: https://platform.openai.com/docs/api-reference/moderations,
https://developers.perspectiveapi.com/s/about-the-api-methods,
https://learn.microsoft.com/azure/ai-services/content-safety/concepts/harm-categories.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from core.data.facts import Direction
from core.data.problems import quoted
from tasks.readers.json_items import BadItemError, id_in, index_in, number_of
from tasks.readers.llama_guard import LlamaGuardSource
from tasks.readers.responses import Call, ResponseSource, model_of
from tasks.readers.verdicts import UNKNOWN, Cell, Headline

__all__ = ["AzureContentSafetySource", "LlamaGuardSource", "OpenAiModerationSource", "PerspectiveSource"]

EVEN = 0.5
MEDIUM = 4
"""Severity at and above which Azure's own content filters act by default."""

MAX_INPUTS = 10_000
"""Texts of one call beyond which it is hardly the API's, and fills the memory."""

LEGACY = "text-moderation"
"""Models of this name do not have the categories of illicit advice."""


class OpenAiModerationSource(ResponseSource):
    """OpenAI's moderation endpoint.

    An item is a wrapper or a bare response; one of the Batch API (``custom_id``, ``response.body``) is a wrapper too.
    A response to several inputs has one result each, in their order. Whose they are is said beside it: ``trace_ids``
    (or ``ids``), or ``inputs`` (or ``input``), a list of objects with ``trace_id`` and perhaps ``turn`` and
    ``attempt``. Without, a file may hold one such response, and the trace id is the input's number, from 0.

    The judge's version is the model that the response names, a dated snapshot; the requested alias says nothing.

    Raises
    ------
    InputError
        See `VerdictSource`; a list beside the results that is longer or shorter than they are.
    """

    READER = "openai-moderation"
    TOOL = "OpenAI moderation"
    HIGHER_IS: ClassVar[Direction | None] = "worse"
    OWN_ID = "id"
    EXPECTED = "{trace_id, turn, response} or a response {id, model, results}"
    NATIVES = (
        "harassment", "harassment/threatening", "hate", "hate/threatening", "illicit", "illicit/violent",
        "self-harm", "self-harm/instructions", "self-harm/intent", "sexual", "sexual/minors",
        "violence", "violence/graphic",
    )  # fmt: skip
    CANNOT_TELL = (
        "the thresholds of `flagged`, which differ by category and are not published",
        "which texts were never sent to the API",
    )

    def natives(self, call: Call) -> Sequence[str]:
        """Return the categories of the model that answered."""
        scores = call.answer.get("category_scores") if isinstance(call.answer, dict) else None
        return list(scores) if isinstance(scores, dict) else []

    def asked(self, call: Call) -> Sequence[str]:
        """Return the file's categories, less those that the requested model does not have."""
        legacy = (call.requested or "").startswith(LEGACY)
        return [name for name in super().asked(call) if not (legacy and name.startswith("illicit"))]

    def calls_in(self, place: int, item: Mapping[str, Any]) -> Iterator[Call]:
        """Yield one call an input."""
        if "custom_id" in item and "trace_id" not in item:
            item = _from_batch_api(item)
        response, error, requested = self.opened(item)
        results = response.get("results") if isinstance(response, dict) else None
        for listed in (results, *(item.get(key) for key in _INPUTS)):
            if isinstance(listed, list) and len(listed) > MAX_INPUTS:
                raise BadItemError(f"{len(listed)} texts in one call; at most {MAX_INPUTS} are read")
        units = _units_beside(item)
        if error is not None:
            if units is None and id_in(item, "trace_id") is None:
                raise BadItemError("a failed call that names no conversation; who was not judged cannot be known")
            for trace_id, turn, attempt in units or [_unit_of(item)]:
                yield Call(place=place, trace_id=trace_id, turn=turn, attempt=attempt, error=error, requested=requested)
            return
        if not isinstance(results, list):
            raise BadItemError(f"has no list 'results'; {self.EXPECTED} is expected")
        for number, (trace_id, turn, attempt) in enumerate(self._units(item, response, len(results), units, place)):
            yield Call(
                place=place,
                trace_id=trace_id,
                turn=turn,
                attempt=attempt,
                answer=results[number],
                model=model_of(response),
                requested=requested,
            )

    def _units(
        self,
        item: Mapping[str, Any],
        response: Mapping[str, Any],
        number: int,
        beside: list[tuple[str, int, int]] | None,
        place: int,
    ) -> list[tuple[str, int, int]]:
        """Return whose results they are: (trace, turn, attempt) each."""
        if beside is not None:
            if len(beside) != number:
                raise BadItemError(f"{number} results for {len(beside)} inputs; which belong together cannot be known")
            return beside
        if id_in(item, "trace_id") is not None:
            if number != 1:
                raise BadItemError(f"{number} results for one trace_id; name the inputs with trace_ids or inputs")
            return [_unit_of(item)]
        own = self.own_id(response)
        if number == 1 and own is not None:
            return [(own, index_in(item, "turn"), index_in(item, "attempt"))]
        if self._unnamed is None:
            self._unnamed = place
        if self._unnamed != place:
            raise BadItemError(
                f"the results name no inputs, like those of {self.unit} {self._unnamed}, so one number would mean two "
                "texts; name them with trace_ids"
            )
        return [(str(index), 0, 0) for index in range(number)]

    _unnamed: int | None = None
    """The one item whose results are named by their numbers."""

    def verdicts(self, call: Call) -> Iterator[Cell]:
        """Yield a cell a category of the model; one that was not applied to the input has no score."""
        scores = call.answer.get("category_scores") if isinstance(call.answer, dict) else None
        if not isinstance(scores, dict) or not scores:
            raise BadItemError(f"a result without category_scores; {self.EXPECTED} is expected")
        applied = call.answer.get("category_applied_input_types")
        judge = f"{self.READER}@{call.model or UNKNOWN}"
        for name, value in scores.items():
            score = number_of(value, f"category_scores.{name}")
            if isinstance(applied, dict) and applied.get(name) == [] and score is not None:
                self.counts["not_applied"] += 1
                score = None
            yield call.cell(name, score, None if score is not None else "unscored", judge=judge)

    def headlines(self) -> list[Headline]:
        """Set `flagged` beside a threshold of .5 in any category."""
        n = flagged = high = unexplained = passed = 0
        for call in self.answered():
            answer = call.answer if isinstance(call.answer, dict) else {}
            scores = answer.get("category_scores")
            values = list(scores.values()) if isinstance(scores, dict) else []
            above = any(isinstance(value, (int, float)) and value >= EVEN for value in values)
            hit = answer.get("flagged") is True
            n, flagged, high = n + 1, flagged + hit, high + above
            unexplained += hit and not above
            passed += above and not hit
        why = (
            f"flagged goes by thresholds of each category that are not published: {unexplained} flagged with all "
            f"scores below .5, {passed} not flagged with a score of .5 or more"
        )
        return [
            Headline(
                what="texts flagged",
                tool=f"{flagged} of {n}",
                ours=f"{high} of {n} with any of the model's scores at .5 or more",
                why=why if unexplained or passed else "",
            )
        ]


def _from_batch_api(item: Mapping[str, Any]) -> dict[str, Any]:
    response = item.get("response")
    kept = response if isinstance(response, dict) else {}
    return {
        "trace_id": item["custom_id"],
        "http_status": kept.get("status_code"),
        "error": item.get("error"),
        "response": kept.get("body"),
    }


def _unit_of(item: Mapping[str, Any]) -> tuple[str, int, int]:
    trace_id = id_in(item, "trace_id")
    if trace_id is None:
        raise BadItemError("an input without a trace_id")
    return trace_id, index_in(item, "turn"), index_in(item, "attempt")


_INPUTS = ("inputs", "input", "ids", "trace_ids")
"""Keys that say whose the results of a batch are, the last one that is there."""


def _units_beside(item: Mapping[str, Any]) -> list[tuple[str, int, int]] | None:
    """Return whose the results of a batch are, if the item says it."""
    units = None
    for key in _INPUTS:
        named = item.get(key)
        if isinstance(named, list) and key.endswith("ids"):
            units = [_unit_of({"trace_id": value}) for value in named]
        elif isinstance(named, list) and named and all(isinstance(one, dict) and "trace_id" in one for one in named):
            units = [_unit_of(one) for one in named]
    if units is not None and len(set(units)) < len(units):
        raise BadItemError("an input stands twice in one call; each has a trace_id, turn and attempt of its own")
    return units


class PerspectiveSource(ResponseSource):
    """The Perspective API: an attribute's summary score.

    Scores of spans, which may exceed the summary, are counted and not used. A file's attributes are those that any of
    its responses has; a response without one of them leaves it ``missing``. The model has no version.
    """

    READER = "perspective"
    TOOL = "Perspective API"
    HIGHER_IS: ClassVar[Direction | None] = "worse"
    OWN_ID = "clientToken"
    EXPECTED = "{trace_id, turn, response} or a response {attributeScores, clientToken}"
    NATIVES = ("TOXICITY",)
    CANNOT_TELL = ("which model scored: it changes without notice", "which attributes were asked for")

    def natives(self, call: Call) -> Sequence[str]:
        """Return the attributes of a response."""
        scores = call.answer.get("attributeScores") if isinstance(call.answer, dict) else None
        return list(scores) if isinstance(scores, dict) else []

    def verdicts(self, call: Call) -> Iterator[Cell]:
        """Yield a cell an attribute of the file."""
        scores = call.answer.get("attributeScores") if isinstance(call.answer, dict) else None
        if not isinstance(scores, dict):
            raise BadItemError(f"a response without attributeScores; {self.EXPECTED} is expected")
        judge = f"{self.READER}@{UNKNOWN}"
        for name in self.survey.natives:
            if name not in scores:
                yield call.cell(name, None, "missing", judge=judge)
                continue
            score = _summary(scores[name], name)
            if score is not None and _highest_span(scores[name]) > score:
                self.counts["spans_above_summary"] += 1
            yield call.cell(name, score, None if score is not None else "unscored", judge=judge)

    def headlines(self) -> list[Headline]:
        """Set the highest scores of spans beside the summaries."""
        n = summaries = spans = 0
        for call in self.answered():
            scores = call.answer.get("attributeScores") if isinstance(call.answer, dict) else None
            for name, attribute in (scores if isinstance(scores, dict) else {}).items():
                try:
                    score = _summary(attribute, name)
                except BadItemError:
                    continue  # told where verdicts are read
                if score is not None:
                    n += 1
                    summaries += score >= EVEN
                    spans += max(score, _highest_span(attribute)) >= EVEN
        return [
            Headline(
                what="attributes scored .5 or more",
                tool=f"{spans} of {n} by the summary or any span",
                ours=f"{summaries} of {n} by the summary",
                why="spans are parts of a text; the API's score of the text is the summary"
                if spans > summaries
                else "",
            )
        ]


def _summary(attribute: Any, name: str) -> float | None:
    summary = attribute.get("summaryScore") if isinstance(attribute, dict) else None
    if summary is None:
        return None
    if not isinstance(summary, dict):
        raise BadItemError(f"summaryScore of {quoted(name)} is no object with a value")
    kind = summary.get("type", "PROBABILITY")
    if kind != "PROBABILITY":
        raise BadItemError(f"{name} is scored as {quoted(kind)}; scores of type PROBABILITY are expected")
    return number_of(summary.get("value"), f"{name}.summaryScore.value")


def _highest_span(attribute: Any) -> float:
    spans = attribute.get("spanScores") if isinstance(attribute, dict) else None
    scores = [span.get("score") for span in spans if isinstance(span, dict)] if isinstance(spans, list) else []
    values = [score.get("value") for score in scores if isinstance(score, dict)]
    return max((value for value in values if isinstance(value, (int, float))), default=0.0)


class AzureContentSafetySource(ResponseSource):
    """Azure AI Content Safety: severities 0, 2, 4, 6, or 0 to 7 where eight levels were asked for.

    They are ranks. Dividing them by 7 puts them on [0, 1] in their order; a difference of two of them means nothing.
    The API does not say which model scored.
    """

    READER = "azure-content-safety"
    TOOL = "Azure AI Content Safety"
    HIGHER_IS: ClassVar[Direction | None] = "worse"
    SCALE: ClassVar[tuple[float, float]] = (0.0, 7.0)
    EXPECTED = "{trace_id, turn, response} with response {categoriesAnalysis}"
    NATIVES = ("Hate", "SelfHarm", "Sexual", "Violence")
    CANNOT_TELL = (
        "how far apart severities are: they are ordinal, so only comparisons with a threshold mean something",
        "which model scored, and whether four or eight levels of severity were asked for",
    )

    def natives(self, call: Call) -> Sequence[str]:
        """Return the categories of a response."""
        return [name for name, _ in self._analysed(call)]

    def verdicts(self, call: Call) -> Iterator[Cell]:
        """Yield a cell a category of the file."""
        severities = dict(self._analysed(call))
        judge = f"{self.READER}@{UNKNOWN}"
        if call.answer.get("blocklistsMatch"):
            self.counts["blocklist_matches"] += 1
        for name in self.survey.natives or self.NATIVES:
            if name not in severities:
                yield call.cell(name, None, "missing", judge=judge)
                continue
            severity = number_of(severities[name], f"severity of {name}")
            if severity is not None and severity != int(severity):
                raise BadItemError(f"severity {severity:g} of {name} is no whole number")
            yield call.cell(name, severity, None if severity is not None else "unscored", judge=judge)

    def headlines(self) -> list[Headline]:
        """Count texts by the severity at which Azure's own filters act by default."""
        n = medium = 0
        for call in self.answered():
            try:
                severities = [severity for _, severity in self._analysed(call)]
            except BadItemError:
                continue  # told where verdicts are read
            n += 1
            medium += any(isinstance(value, (int, float)) and value >= MEDIUM for value in severities)
        return [
            Headline(
                what="texts of severity 4 (medium) or more in any category",
                tool="none: the API gives severities and decides nothing",
                ours=f"{medium} of {n}",
                why="4 is where content filters act by default; assay flags at the calibration's threshold",
            )
        ]

    def _analysed(self, call: Call) -> list[tuple[str, Any]]:
        found = call.answer.get("categoriesAnalysis") if isinstance(call.answer, dict) else None
        if not isinstance(found, list) or not all(
            isinstance(one, dict) and isinstance(one.get("category"), str) and one["category"] for one in found
        ):
            raise BadItemError(f"a response without categoriesAnalysis; {self.EXPECTED} is expected")
        pairs = [(one["category"], one.get("severity")) for one in found]
        if len(dict(pairs)) < len(pairs):
            raise BadItemError("a category stands twice in categoriesAnalysis")
        return pairs
