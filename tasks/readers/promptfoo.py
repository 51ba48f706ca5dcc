"""Reader ``promptfoo``: the results of ``promptfoo eval`` and ``promptfoo redteam``, as .json or .jsonl.

A row is one answer of a target to one set of variables, with the verdicts of all assertions on it. Only those that a
model gave are a judge's. They are about the last turn; a successful attack in any turn outweighs them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from sys import intern
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from core.data.facts import Direction, SourceFacts
from core.data.problems import counted, quoted
from core.data.vocabulary import STATES, category_name
from core.errors import Problem
from tasks.readers.json_document import JsonDocument
from tasks.readers.table import JsonLinesFile
from tasks.readers.verdicts import UNKNOWN, Cell, Headline, Tallied, VerdictSource
from tasks.storage import InputFile, format_of

VERSIONS = (2, 3)
"""Of ``results``; 2 has a table beside the rows."""

ERROR = 2
"""``failureReason`` of a row that has no verdict."""

MAX_TURN = 10_000
MAX_NAME = 300
"""Characters of a category, a provider or a version."""

KEPT_TEXT = 500
"""Characters of a grader's reason that are kept."""

KEPT_RANKS = 16_384
"""Traces in a dict, before they are packed."""

_ROWS = ("results", "results")
_LARGE = (("results", "prompts"), ("results", "table"), *(("config", key) for key in ("prompts", "scenarios", "tests")))
"""What grows with the tests and is not needed."""

_RED_TEAM = "promptfoo:redteam:"
"""How the types of assertions begin whose graders also say whether an attack succeeded."""

_JUDGE = re.compile(rf"llm-rubric\Z|model-graded-|{_RED_TEAM}")
"""Types of assertions that a model decides."""

_UNREADABLE_REPLY = ("Could not extract JSON from llm-rubric response", "llm-rubric produced malformed response")
"""The tool's own sentences for a grader's reply that is no verdict, in files that do not mark it otherwise."""

_NO_VERDICT = "a row without a verdict"


class PromptfooSource(VerdictSource):
    """Results of promptfoo 0.121 (results version 3), or version 2 where it holds rows.

    =======================================================  =======================================================
    In the file                                              Here
    =======================================================  =======================================================
    ``vars``, ``promptIdx``, ``provider.id``                 trace_id, their digest
    rank among rows of the same                              attempt: repetitions bear no number
    ``metadata.pluginId``, else the assertion's ``metric``   category
    ``score`` of a component that a model decided            score; 1 is good there and 0 here
    component with ``metadata.graderError``                  ``judge_error``
    ``pass`` with score 0, fail with score 1                 ``unscored``, a contradiction (``strict=no``: its score)
    component without a number or without ``pass``           ``unscored``
    row that no model judged                                 ``unscored``
    ``failureReason`` 2, or an error without a grading       ``target_error``
    ``redteamHistory`` of n turns                            the row's verdict stands at turn n - 1
    ``successfulAttacks`` at any turn                        score 1 there, whatever the verdict; turns in rationale
    =======================================================  =======================================================

    A row has one cell a category, with or without an attack: a cell at an attack's own turn would leave a hole before
    the last one, and so make a unit ``missing`` for being a violation. An attack counts in the categories of the row's
    red-team graders, which found it; in a row without one, in every category.

    ``pass`` is the grader's own word and not a threshold on its score, unless an assertion sets one; assay takes the
    score and flags at the calibration's threshold. Several verdicts of a row in one category become one: one without a
    score, unless another is a full violation, else the worst.

    Parameters
    ----------
    file : InputFile

    Raises
    ------
    InputError
        Not such a file, of another version, or in a format that loses verdicts.
    """

    READER: ClassVar[str] = "promptfoo"
    TOOL: ClassVar[str] = "promptfoo"
    HIGHER_IS: ClassVar[Direction | None] = "better"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "strict": "yes (default): a verdict that its own score contradicts is unscored; no: the score counts"
    }
    CANNOT_TELL: ClassVar[tuple[str, ...]] = (
        "a grader's reply without a verdict: promptfoo records it as a pass with score 1, like a real one",
        "a failure of the judge in versions that do not mark it: all but a reply that is no verdict stand as fails",
        "whether an error of a row was the target's or, where promptfoo threw it, the judge's: it is target_error",
        "which repetition a row is: rows of the same variables, prompt and provider are numbered in the file's order",
        "the version of the judge, and what a grader that is a file does",
        "what the judge said of turns before the last, apart from successful attacks",
        "which category an attack was in, where a row has several red-team graders or none: it counts in each",
        "other categories than the row's own: a rate over all categories needs a map that makes them one",
    )
    ROWS_ALONE: ClassVar[tuple[str, ...]] = (
        "promptfoo's version, its own totals, and a judge that no row names: .jsonl holds the rows alone",
    )

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self._strict = self._asked_strict()
        kind = format_of(file.path, (".json", ".jsonl", ".ndjson"))
        if kind is None:
            why = (
                "leaves out what decides (judge errors, attempts)" if format_of(file.path, (".csv",)) else "is not read"
            )
            raise self.refuse(
                f"this format of promptfoo {why}; write .json or .jsonl (promptfoo export eval ID -o run.json)"
            )
        self._document = JsonDocument(file, _ROWS, left_out=_LARGE) if kind == ".json" else None
        self.unit = "line" if self._document is None else "row"
        self._config: Mapping[str, Any] = {}
        self._stats: Mapping[str, Any] = {}
        if self._document is not None:
            self._read_head(self._document.head())

    @property
    def facts(self) -> SourceFacts:
        """What was declared and decided; the counts are those of the last pass."""
        facts = super().facts
        return facts if self._document else replace(facts, cannot_tell=(*self.CANNOT_TELL, *self.ROWS_ALONE))

    def _asked_strict(self) -> bool:
        asked = self.options.get("strict", "yes")
        if asked not in ("yes", "no"):
            raise self.refuse(f"strict={asked}: yes or no is expected")
        return asked == "yes"

    def _read_head(self, head: Mapping[str, Any]) -> None:
        results = head.get("results")
        if not isinstance(results, dict):
            raise self.refuse(
                "is not promptfoo's results: an object with results.version and results.results is expected"
            )
        version = results.get("version")
        if isinstance(version, bool) or version not in VERSIONS:
            known = " and ".join(map(str, VERSIONS))
            raise self.refuse(f"results.version is {quoted(version)}; versions {known} are known")
        if "results" in results:
            raise self.refuse("results.results is not a list of rows; was the run exported without its results?")
        self._config = _object(head.get("config"))
        self._stats = _object(results.get("stats"))
        self.tool_version = _short(_object(head.get("metadata")).get("promptfooVersion")) or UNKNOWN

    # Rows

    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield the verdicts of each row."""
        for verdicts in self._verdicts(problems):
            yield from (verdict.cell for verdict in verdicts)

    def _verdicts(self, problems: list[Problem]) -> Iterator[list[_Verdict]]:
        """Yield each row's verdicts, one in each of its categories."""
        self.turn_scope = "all"
        ranks = _Ranks()
        for place, row in self._rows(problems):
            try:
                about = self._about(place, row)
                found = self._of_row(about._replace(attempt=ranks.of(about.trace_id)), row)
            except _NotReadableError as error:
                self.problem(problems, place, str(error))
                continue
            except RecursionError:
                self.problem(problems, place, "is nested too deep")
                continue
            yield found

    def _rows(self, problems: list[Problem]) -> Iterator[tuple[int, Mapping[str, Any]]]:
        if self._document is None:
            yield from JsonLinesFile(self.file).objects(problems)
            return
        for number, row in self._document.elements():
            if isinstance(row, dict):
                yield number, row
            else:
                self.problem(problems, number, "an object is expected")

    def _about(self, place: int, row: Mapping[str, Any]) -> Cell:
        """Return what all cells of a row share."""
        variables, provider, index = row.get("vars"), row.get("provider"), row.get("promptIdx")
        provider = {"id": provider} if isinstance(provider, str) else provider
        name = _short(_object(provider).get("id"))
        if not isinstance(variables, dict) or name is None or isinstance(index, bool) or not isinstance(index, int):
            raise _NotReadableError(
                "is not a result of promptfoo: an object vars, a number promptIdx, a provider with an id are expected"
            )
        label = _short(_object(provider).get("label"))
        return Cell(
            place=place,
            trace_id=_digest([variables, index, name])[:32],
            category="",
            score=None,
            target=intern(name if label in (None, name) else f"{name} ({label})"),
        )

    def _of_row(self, about: Cell, row: Mapping[str, Any]) -> list[_Verdict]:
        last, attacks = self._turns(row)
        if last:
            self.turn_scope = "last"
        final = [replace(item, cell=item.cell._replace(turn=last)) for item in self._final(about, row)]
        if not attacks:
            return final
        found_by = [item for item in final if item.red_team] or final
        self._count_attacks(row, last, attacks, len(found_by))
        return [self._hit(item, last, attacks) if item in found_by else item for item in final]

    def _hit(self, item: _Verdict, last: int, attacks: Sequence[int]) -> _Verdict:
        """Return the violation that an attack in any turn makes of the verdict on the last."""
        turns = ", ".join(str(turn + 1) for turn in attacks)
        told = f"promptfoo: an attack succeeded in turn {turns} of {last + 1}"[:KEPT_TEXT]
        return replace(item, cell=item.cell._replace(score=self.scale[0], state=None, rationale=told), failed=True)

    # The verdict on the last turn

    def _final(self, about: Cell, row: Mapping[str, Any]) -> list[_Verdict]:
        """Return the row's own verdicts, one in each of its categories."""
        grading = row.get("gradingResult")
        state = None
        if row.get("failureReason") == ERROR:
            state = "target_error"
        elif not isinstance(grading, dict):
            state = "target_error" if row.get("error") or not _object(row.get("response")).get("output") else "unscored"
        found: dict[str, list[_Verdict]] = {}
        if state is None:
            for component in self._components(_object(grading)):
                verdict = replace(self._verdict(about, row, component), red_team=_is_red_team(component["assertion"]))
                found.setdefault(category_name(verdict.cell.category), []).append(verdict)
            self.counts["rows_without_judge"] += not found
            self.counts["verdicts_collapsed"] += sum(map(len, found.values())) - len(found)
        if not found:
            asserted = [item for item in _list(_object(row.get("testCase")).get("assert")) if _is_judge(item)]
            for assertion in asserted or [{}]:
                cell = self._identified(about, row, assertion)
                verdict = _Verdict(cell=cell._replace(state=state or "unscored"), red_team=_is_red_team(assertion))
                found.setdefault(category_name(cell.category), []).append(verdict)
        return [self._worst(verdicts) for verdicts in found.values()]

    def _components(self, grading: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield what a model decided; other assertions are counted."""
        for component in map(_object, _list(grading.get("componentResults")) or [grading]):
            if _is_judge(component.get("assertion")):
                yield component
            else:
                self.counts["assertions_passed_over"] += "assertion" in component

    def _verdict(self, about: Cell, row: Mapping[str, Any], component: Mapping[str, Any]) -> _Verdict:
        cell = self._identified(about, row, component["assertion"])
        passed, reason = component.get("pass"), component.get("reason")
        if isinstance(reason, str) and reason:
            cell = cell._replace(rationale=reason[:KEPT_TEXT])
        score = _number(component.get("score"))
        if self._failed_to_judge(component, score):
            return _Verdict(cell=cell._replace(state="judge_error"))
        if score is None or not isinstance(passed, bool):
            self.counts["verdicts_not_readable"] += 1
            return _Verdict(cell=cell._replace(state="unscored"))
        if score == self.scale[0 if passed else 1]:
            self.counts["contradictions"] += 1
            if self._strict:
                return _Verdict(cell=cell._replace(state="unscored"))
            passed = not passed
        return _Verdict(cell=cell._replace(score=score), failed=not passed)

    def _failed_to_judge(self, component: Mapping[str, Any], score: float | None) -> bool:
        if _object(component.get("metadata")).get("graderError") is True:
            return True
        reason = component.get("reason")
        told = isinstance(reason, str) and reason.startswith(_UNREADABLE_REPLY)
        known = told and component.get("pass") is False and score == 0
        self.counts["judge_errors_by_reason"] += known
        return known

    def _worst(self, verdicts: Sequence[_Verdict]) -> _Verdict:
        """Return the verdict that speaks for all, as for categories that a map makes one."""
        red_team = any(item.red_team for item in verdicts)
        lowest = min(verdicts, key=lambda item: math.inf if item.cell.score is None else item.cell.score)
        unscored = [item for item in verdicts if item.cell.score is None]
        if unscored and lowest.cell.score != self.scale[0]:
            lowest = min(unscored, key=lambda item: STATES.index(str(item.cell.state)))
        return replace(lowest, red_team=red_team)

    def _identified(self, about: Cell, row: Mapping[str, Any], assertion: Mapping[str, Any]) -> Cell:
        """Say in which category a row was judged, and by whom."""
        name = _metadata(row, "pluginId")
        for known in (name, assertion.get("metric")):
            if isinstance(known, str) and known.strip():
                if len(known) > MAX_NAME:
                    raise _NotReadableError(f"a category of over {MAX_NAME} characters")
                name = known
                break
        else:
            name = self.TOOL
        judge, fingerprint = self._grader(row, assertion)
        return about._replace(category=intern(name), judge=judge, fingerprint=fingerprint)

    def _grader(self, row: Mapping[str, Any], assertion: Mapping[str, Any]) -> tuple[str, str]:
        """Find who judges: the assertion's, the test's, the default grader.

        promptfoo writes the default test's options into each test, so that rows alone mostly name the grader.
        """
        default = _object(self._config.get("defaultTest"))
        options = _object(default.get("options"))
        own = _object(_object(row.get("testCase")).get("options"))
        places = (assertion, own, options, default, _object(self._config.get("redteam")))
        provider = next(filter(None, (_provider(place.get("provider")) for place in places)), {})
        rubric = next(filter(None, (place.get("rubricPrompt") for place in places)), None)
        name = (_short(provider.get("id")) or UNKNOWN).replace("@", "%40")  # what follows an @ is a version
        configured = rubric is not None or provider.keys() - {"id", "label"}
        return intern(f"{name}@{UNKNOWN}"), intern(_digest([provider, rubric])) if configured else UNKNOWN

    # Turns

    def _turns(self, row: Mapping[str, Any]) -> tuple[int, list[int]]:
        """Return the last turn and the turns in which an attack succeeded, from 0."""
        told = _list(_metadata(row, "successfulAttacks"))
        turns = [_turn(_object(attack).get("turn")) for attack in told]
        stored = _object(_metadata(row, "storedGraderResult"))
        failed_to_judge = _object(stored.get("metadata")).get("graderError") is True
        if not told and stored.get("pass") is False and not failed_to_judge:
            turns = [None]
        known = [turn for turn in turns if turn is not None]
        last = max(min(len(_list(_metadata(row, "redteamHistory"))), MAX_TURN), 1, *known) - 1
        self.counts["attacks_without_turn"] += len(turns) - len(known)
        attacks = sorted({last if turn is None else turn - 1 for turn in turns})
        if attacks and failed_to_judge:  # the grader's last word, which ended the conversation, was an error
            self.counts["attacks_by_judge_error"] += 1
            attacks.pop()
        return last, attacks

    def _count_attacks(self, row: Mapping[str, Any], last: int, attacks: Sequence[int], n_categories: int) -> None:
        self.counts["rows_with_attacks"] += 1
        self.counts["attacks_in_several_categories"] += n_categories > 1
        if row.get("success") is True:
            self.counts["attacks_called_success"] += 1
            self.counts["attacks_in_earlier_turns_called_success"] += last not in attacks

    # Figures

    def headlines(self) -> list[Headline]:
        """Set promptfoo's totals beside the rows, and its failures beside what was judged."""
        self.counts.clear()
        tallied = Tallied()
        n_rows = 0
        for verdicts in self._verdicts([]):
            n_rows += 1
            for item in verdicts:
                tallied.add(item.cell, hit=item.failed)
        names = ("successes", "failures", "errors")
        told = [_count(self._stats.get(name)) for name in names]
        known = [number for number in told if number is not None]
        if len(known) < len(names):
            return []
        successes, failures, errors = known
        shown = ", ".join(f"{number} {name}" for number, name in zip(known, names, strict=True))
        return [
            Headline(
                what="rows",
                tool=f"{sum(known)} ({shown})",
                ours=str(n_rows),
                why="" if sum(known) == n_rows else "the file does not hold every row that promptfoo counted",
            ),
            Headline(
                what="violations by the grader's own verdict",
                tool=f"{failures} of {successes + failures} without an error{_share(failures, successes + failures)}, "
                f"{counted(errors, 'error')}",
                ours=f"{tallied}{_share(tallied.hits, tallied.scored)}",
                why=self._why(tallied),
            ),
        ]

    def _why(self, tallied: Tallied) -> str:
        """Say what promptfoo counts otherwise."""
        parts = [
            (tallied.states["judge_error"], "failures of the judge count as failures there"),
            (self.counts["contradictions"], "verdicts contradict their own score"),
            (self.counts["attacks_called_success"], "conversations with a successful attack count as successes there"),
            (self.counts["rows_without_judge"], "rows were judged by no model"),
            (self.counts["assertions_passed_over"], "other assertions may fail a row there"),
        ]
        return "; ".join(f"{number} {what}" for number, what in parts if number)


class _NotReadableError(Exception):
    """Why a row cannot be read."""


class _Ranks:
    """How many rows of each trace came before, in 12 bytes a trace."""

    def __init__(self) -> None:
        self._recent: dict[int, int] = {}
        self._keys: npt.NDArray[np.uint64] = np.empty(0, np.uint64)
        self._counts: npt.NDArray[np.uint32] = np.empty(0, np.uint32)

    def of(self, trace_id: str) -> int:
        """Return the rank of a trace's next row, from 0."""
        key = int(trace_id[:16], 16)
        rank = self._recent.get(key)
        if rank is None:
            at = int(np.searchsorted(self._keys, np.uint64(key)))
            rank = int(self._counts[at]) if at < len(self._keys) and int(self._keys[at]) == key else 0
        self._recent[key] = rank + 1
        if len(self._recent) >= KEPT_RANKS:
            self._pack()
        return rank

    def _pack(self) -> None:
        keys = np.fromiter(self._recent.keys(), np.uint64)
        order = np.argsort(keys)
        keys, counts = keys[order], np.fromiter(self._recent.values(), np.uint32)[order]
        at = np.searchsorted(self._keys, keys)
        known = np.isin(keys, self._keys[at[at < len(self._keys)]])
        self._counts[at[known]] = counts[known]
        self._keys = np.insert(self._keys, at[~known], keys[~known])
        self._counts = np.insert(self._counts, at[~known], counts[~known])
        self._recent.clear()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """A cell, whether the grader itself calls it a failure, and whether a red-team grader had a part in it."""

    cell: Cell
    failed: bool = False
    red_team: bool = False


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _short(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) and len(value) <= MAX_NAME else None


def _metadata(row: Mapping[str, Any], name: str) -> Any:
    """Look up what a row's metadata say; older rows leave it with the answer or the test."""
    for place in (row, _object(row.get("response")), _object(row.get("testCase"))):
        if (value := _object(place.get("metadata")).get(name)) is not None:
            return value
    return None


def _is_judge(assertion: Any) -> bool:
    kind = _object(assertion).get("type")
    return isinstance(kind, str) and _JUDGE.match(kind) is not None


def _is_red_team(assertion: Any) -> bool:
    return str(_object(assertion).get("type")).startswith(_RED_TEAM)


def _provider(value: Any) -> Mapping[str, Any]:
    """Return a grader's configuration, which may be its id alone or stand under the kind of its task."""
    if isinstance(value, str):
        return {"id": value}
    provider = _object(value)
    return provider if "id" in provider or "text" not in provider else _provider(provider["text"])


def _turn(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= MAX_TURN else None


def _number(value: Any) -> float | None:
    """Return a finite number; texts, which bare NaN tokens become, and numbers beyond floats are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _share(number: int, of: int) -> str:
    return f" = {number / of:.1%}" if of else ""


def _digest(value: Any) -> str:
    return sha256(json.dumps(value, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
