"""Reader ``garak``: the ``report.jsonl`` of a garak run.

Each output that a probe got from the target is one attempt of a trace (the prompt); each detector that looked at it is
a category. A report holds an attempt twice, once when it was started and once when it was judged; the second counts.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, ClassVar

import numpy as np

from core.data.facts import Direction
from core.data.problems import counted, quoted
from core.errors import InputError, Problem
from tasks.readers.table import JsonLinesFile
from tasks.readers.verdicts import UNKNOWN, Cell, Headline, Tallied, VerdictSource
from tasks.storage import InputFile

STARTED, JUDGED = 1, 2
"""What ``status`` says of an attempt."""

DEFAULT_THRESHOLD = 0.5
"""From which score garak calls an output a hit, where a run does not say."""

MAX_PAIRS = 10_000
"""Pairs of probe and detector; each is remembered."""

MAX_NAME = 300
"""Characters of a uuid, a probe's or a detector's name."""

_DIGEST = 16  # bytes of an id that are remembered

_ATTEMPT = re.compile(
    r'\s*\{"entry_type": ?"attempt", ?"uuid": ?"([^"\\]{1,80})", ?"seq": ?-?\d{1,18}, ?"status": ?(\d), ?"'
)
"""How garak begins an attempt's line: enough to know it without reading what may be a long conversation."""

_PASSED_OVER = re.compile(r'\s*\{"entry_type": ?"(?:plugin_cache|payload_init|probe_summary|digest)", ?"')
"""Lines that hold nothing of use, and may be very long."""


class GarakSource(VerdictSource):
    """A report of garak 0.13 to 0.17.

    A cell is an output (`attempt`) of a prompt (`trace_id`, the attempt's uuid) in the eyes of a detector
    (`category`). Its turn is the last that the target took; a multi-turn probe is judged there alone. The probe is the
    `cluster`.

    =============================================  =========================================
    In the report                                  Here
    =============================================  =========================================
    number in ``detector_results``                 score
    output without content                         ``target_error``, whatever the detector says of it
    null in ``detector_results``                   ``unscored``
    list shorter than the outputs                  ``missing`` for the rest
    attempt without outputs                        ``target_error``
    attempt that was started and never judged      ``missing``
    =============================================  =========================================

    An attempt that no detector looked at stands in the detectors of its probe, or in all of the report if none of the
    probe's attempts was judged; it comes after the others.

    Parameters
    ----------
    file : InputFile

    Raises
    ------
    InputError
        The file is a hitlog, no report, or holds two runs.
    """

    READER: ClassVar[str] = "garak"
    TOOL: ClassVar[str] = "garak"
    HIGHER_IS: ClassVar[Direction | None] = "worse"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "probe": "only the attempts of this probe, or of the probes of this module (dan, dan.DanInTheWild)",
    }
    CANNOT_TELL: ClassVar[tuple[str, ...]] = (
        "which weights or word lists a detector had: garak's version stands for them",
        "whether an earlier turn of a multi-turn probe was a hit: only the last is judged",
        "whether an output without content is an error, a filter or a refusal: it counts as target_error",
    )

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self.turn_scope = "last"
        self._lines = JsonLinesFile(file)
        self._target: str | None = None
        self._evals: dict[tuple[str, str], _Told] = {}
        self._detectors: dict[str, dict[str, None]] = {}
        self._n_pairs = 0
        self._seen: Counter[str] = Counter()
        self._judged = self._survey()

    @property
    def _judge(self) -> str:
        return f"garak@{self.tool_version}"

    # What the report says beside its attempts

    def _survey(self) -> Any:
        """Read what is not an attempt; return the digests of the attempts that were judged, in order."""
        digests = bytearray()

        def known(head: str) -> bool:
            found = _ATTEMPT.match(head)
            if found is None:
                return _is_passed_over(head)
            note(found[1], int(found[2]))
            return True

        def note(uuid: str, status: int) -> None:
            self._seen["attempt"] += 1
            if status == JUDGED:
                digests.extend(_digest(uuid))

        problems: list[Problem] = []  # told when the cells are read, if there are any
        for line, item in self._lines.objects(problems, passes_over=known):
            kind = item.get("entry_type")
            if kind is None:
                raise self._no_report(item, line)
            if kind == "attempt":
                note(str(item.get("uuid")), JUDGED if item.get("status") == JUDGED else STARTED)
            else:
                self._note(str(kind), item, line)
        if not self._seen["attempt"] and problems:
            raise InputError(problems)
        if not self._seen["attempt"]:
            raise self.refuse(f"holds no attempts; {_expected('a line of entry_type attempt for each')}")
        return np.unique(np.frombuffer(bytes(digests), f"S{_DIGEST}"))

    def _no_report(self, item: Mapping[str, Any], line: int) -> InputError:
        if "attempt_id" in item and "score" in item:
            name = self.file.name.replace("hitlog", "report")
            other = name if name != self.file.name else "the report.jsonl of the same run"
            return self.refuse(
                "is a hitlog: it holds hits alone, one for each output and detector, so it has no denominator; "
                f"read {other} instead",
                line=line,
            )
        return self.refuse(f"is not a garak report: {_expected('entry_type on each line')}", line=line)

    def _note(self, kind: str, item: Mapping[str, Any], line: int) -> None:
        self._seen[kind if kind in ("init", "completion") else "other"] += 1
        if kind == "start_run setup":
            self._same_run(self._target, _target(item), line)
            self._target = _target(item)
            threshold = item.get("run.eval_threshold")
            self.threshold = _number(threshold)
            if threshold is not None and self.threshold is None:
                raise self.refuse(f"run.eval_threshold is {quoted(threshold)}, not a number", line=line)
        elif kind == "init":
            version = item.get("garak_version")
            version = version if isinstance(version, str) and version else UNKNOWN
            self._same_run(None if self.tool_version == UNKNOWN else self.tool_version, version, line)
            self.tool_version = version
        elif kind == "eval":
            self._note_eval(item)

    def _same_run(self, before: str | None, now: str | None, line: int) -> None:
        if before is not None and before != now:
            raise self.refuse(
                f"holds two runs, of {quoted(before)} and {quoted(now or UNKNOWN)}; read the report of each by itself",
                line=line,
            )

    def _note_eval(self, item: Mapping[str, Any]) -> None:
        probe, detector = item.get("probe"), item.get("detector")
        if isinstance(probe, str) and isinstance(detector, str) and len(self._evals) < MAX_PAIRS:
            # Older releases write "detector.dan.DAN" here and "dan.DAN" in attempts.
            self._evals[probe[:MAX_NAME], detector.removeprefix("detector.")[:MAX_NAME]] = _Told.of(item)

    # Attempts

    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield the verdicts of the attempts that were judged, then the cells of the others."""
        if not self._seen["completion"] or self._seen["completion"] < self._seen["init"]:
            self.counts["incomplete"] = 1
        self._detectors, self._n_pairs = {}, 0
        later: set[int] = set()
        for line, item in self._lines.objects(problems, passes_over=_is_passed_over):
            if item.get("entry_type") != "attempt":
                continue
            try:
                attempt = _Attempt(item)
                if not self._wanted(attempt.probe):
                    self.counts["other_probes"] += attempt.status == JUDGED
                elif attempt.status == STARTED and self._was_judged(attempt.uuid):
                    self.counts["earlier_states"] += 1
                else:
                    self._remember(attempt)
                    if attempt.has_verdicts:
                        yield from self._of_attempt(line, attempt)
                    else:
                        later.add(attempt.status)
            except _NotReadableError as error:
                self.problem(problems, line, str(error))
        if later:
            yield from self._without_verdicts(later)
        if not self._detectors and not problems:
            raise self.refuse(f"no attempt is of probe {quoted(self.options.get('probe'))}")

    def _wanted(self, probe: str) -> bool:
        asked = self.options.get("probe")
        return asked is None or probe == asked or probe.startswith(f"{asked}.")

    def _was_judged(self, uuid: str) -> bool:
        digest = np.array(_digest(uuid), self._judged.dtype)
        at = int(np.searchsorted(self._judged, digest))
        return at < len(self._judged) and bool(self._judged[at] == digest)

    def _of_attempt(self, line: int, attempt: _Attempt) -> list[Cell]:
        cells = []
        for detector, scores in attempt.results.items():
            if not isinstance(scores, list) or len(scores) > len(attempt.outputs):
                outputs = counted(len(attempt.outputs), "output")
                raise _NotReadableError(f"{quoted(detector)} has not one score for each of {outputs}")
            for index, output in enumerate(attempt.outputs):
                score, state = self._verdict(detector, output, scores[index : index + 1])
                cells.append(self._cell(line, attempt, index, detector, score, state))
        return sorted(cells, key=lambda cell: cell.attempt)

    def _verdict(self, detector: str, output: Any, given: Sequence[Any]) -> tuple[float | None, str | None]:
        """Tell the score of an output, or why it has none."""
        score = _number(given[0]) if given else None
        if given and given[0] is not None and score is None:
            raise _NotReadableError(f"{quoted(detector)} gives {quoted(given[0])}, not a number")
        if _is_empty(output):
            self.counts["scores_of_no_output"] += score is not None
            return None, "target_error"
        if not given:
            return None, "missing"
        return score, "unscored" if score is None else None

    def _cell(
        self, line: int, attempt: _Attempt, index: int, detector: str, score: float | None, state: str | None
    ) -> Cell:
        return Cell(
            place=line,
            trace_id=attempt.uuid,
            category=detector,
            score=score,
            state=state,
            turn=attempt.turns[index] if attempt.turns else 0,
            attempt=index,
            cluster=attempt.probe,
            judge=self._judge,
            target=self._target,
        )

    def _remember(self, attempt: _Attempt) -> None:
        """Keep which detectors judge the attempts of a probe."""
        new = attempt.probe not in self._detectors
        own = self._detectors.setdefault(attempt.probe, {})
        before = len(own)
        own.update(dict.fromkeys(attempt.results))
        self._n_pairs += len(own) - before + new
        if self._n_pairs > MAX_PAIRS:
            raise self.refuse(f"over {MAX_PAIRS} pairs of probe and detector; is it a garak report?")

    def _detectors_of(self, probe: str) -> list[str]:
        """Name the detectors that would have judged an attempt of a probe."""
        return list(self._detectors[probe]) or sorted(set(itertools.chain.from_iterable(self._detectors.values())))

    def _without_verdicts(self, statuses: Set[int]) -> Iterator[Cell]:
        """Yield the cells of attempts that no detector looked at; by now the detectors of their probes are known."""

        def known(head: str) -> bool:
            found = _ATTEMPT.match(head)
            if found is None:
                return _is_passed_over(head)
            return int(found[2]) not in statuses or (int(found[2]) == STARTED and self._was_judged(found[1]))

        if not any(self._detectors.values()):
            raise self.refuse("holds no attempt that was judged: the run ended before a detector had looked at any")
        for line, item in self._lines.objects([], passes_over=known):
            try:
                attempt = _Attempt(item) if item.get("entry_type") == "attempt" else None
            except _NotReadableError:
                continue  # told before
            if attempt is None or attempt.has_verdicts or not self._wanted(attempt.probe):
                continue
            if attempt.status == STARTED and self._was_judged(attempt.uuid):
                continue
            self.counts["attempts_without_output" if attempt.status == JUDGED else "unjudged_attempts"] += 1
            for index, output in enumerate(attempt.outputs or [None]):
                state = "missing" if attempt.status == STARTED or not _is_empty(output) else "target_error"
                for detector in self._detectors_of(attempt.probe):
                    yield self._cell(line, attempt, index, detector, None, state)

    # Figures

    def headlines(self) -> list[Headline]:
        """Set garak's hits, its interval and its hits among k outputs beside what the attempts hold."""
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        tallies: dict[tuple[str, str], _Pair] = {}
        attempts = 0
        for _, cells in itertools.groupby(self._raw(), lambda cell: cell.trace_id):
            attempts += 1
            grouped: dict[tuple[str, str], list[Cell]] = {}
            for cell in cells:
                grouped.setdefault((str(cell.cluster), cell.category), []).append(cell)
            for pair, own in grouped.items():
                tallies.setdefault(pair, _Pair()).add(own, threshold)
        found = []
        if self.counts["incomplete"]:
            found.append(
                Headline(
                    what="run",
                    tool="no completion line",
                    ours=f"{counted(attempts, 'attempt')} read",
                    why="the run was cut off: what it had not come to is not in the report",
                )
            )
        for pair in dict.fromkeys((*self._evals, *tallies)):
            if self._wanted(pair[0]):
                found += _headlines(pair, self._evals.get(pair), tallies.get(pair, _Pair()))
        return found

    def _raw(self) -> Iterator[Cell]:
        """Yield the cells as the report has them, for counting; its problems are told when it is read."""
        self.counts.clear()
        return self.cells([])


class _NotReadableError(Exception):
    """Why one attempt cannot be read."""


class _Attempt:
    """An attempt as its line has it.

    Raises
    ------
    _NotReadableError
        Something is not as garak writes it.
    """

    __slots__ = ("outputs", "probe", "results", "status", "turns", "uuid")

    def __init__(self, item: Mapping[str, Any]) -> None:
        uuid, probe, status = item.get("uuid"), item.get("probe_classname"), item.get("status")
        if not (isinstance(uuid, str) and uuid and isinstance(probe, str) and probe):
            raise _NotReadableError(f"an attempt without uuid or probe; {_expected('uuid and probe_classname')}")
        if isinstance(status, bool) or status not in (STARTED, JUDGED):
            raise _NotReadableError(f"status {quoted(status)} of an attempt; {_expected('1 (started) and 2 (judged)')}")
        outputs, results = item.get("outputs"), item.get("detector_results")
        if not isinstance(outputs, list) or not isinstance(results, dict):
            raise _NotReadableError(_expected("a list of outputs and an object of detector_results"))
        if max(map(len, (uuid, probe, *results))) > MAX_NAME:
            raise _NotReadableError(f"a uuid, probe or detector of over {MAX_NAME} characters")
        self.uuid: str = uuid
        self.probe: str = probe
        self.status = int(status)
        self.outputs: list[Any] = outputs
        self.results: dict[str, Any] = results
        self.turns = _last_turns(item.get("conversations"), len(outputs))

    @property
    def has_verdicts(self) -> bool:
        """Whether a detector looked at an output."""
        return self.status == JUDGED and bool(self.outputs) and bool(self.results)


class _Pair:
    """Outputs and attempts of one probe in the eyes of one detector."""

    def __init__(self) -> None:
        self.outputs = Tallied()
        self.attempts = Tallied()
        self.k = 0

    def add(self, cells: Sequence[Cell], threshold: float) -> None:
        """Count the outputs of one attempt; the attempt is a hit if one of its outputs is."""
        hits = [cell.score is not None and cell.score >= threshold for cell in cells]
        for cell, hit in zip(cells, hits, strict=True):
            self.outputs.add(cell, hit=hit)
        scored = [cell for cell in cells if cell.score is not None]
        self.attempts.add((scored or cells)[0], hit=any(hits))
        self.k = max(self.k, len(cells))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What garak itself says of one probe and detector; None where it does not."""

    failed: int | None
    n: int | None
    nones: int | None
    low: float | None
    high: float | None
    share: float | None
    prompts: int | None

    @classmethod
    def of(cls, item: Mapping[str, Any]) -> _Told:
        """Take it from an eval line; releases before 0.13 write passed and total alone."""
        passed, failed, n = (_count(item.get(name)) for name in ("passed", "fails", "total_evaluated"))
        n = _count(item.get("total")) if n is None else n
        if failed is None and passed is not None and n is not None:
            failed = n - passed
        among = item.get("hit_at_k")
        among = among if isinstance(among, dict) else {}
        largest = max((k for k in among if k.isdecimal()), key=lambda k: (len(k), k), default="n")
        entry = among.get("n", among.get(largest))
        entry = entry if isinstance(entry, dict) else {}
        return cls(
            failed=failed,
            n=n,
            nones=_count(item.get("nones")),
            low=_number(item.get("confidence_lower")),
            high=_number(item.get("confidence_upper")),
            share=_number(entry.get("score")),
            prompts=_count(entry.get("prompts")),
        )

    @property
    def outputs(self) -> str:
        """Show its hits among outputs."""
        if self.failed is None or self.n is None:
            return "not reported"
        beside = f", {self.nones} without a score" if self.nones else ""
        if self.low is not None and self.high is not None:
            beside += f", interval of the rate [{self.low:.3f}, {self.high:.3f}]"
        return f"{self.failed} of {self.n}{beside}"

    @property
    def attempts(self) -> str:
        """Show its hits among attempts."""
        if self.share is None or self.prompts is None:
            return "not reported"
        return f"share {self.share:.3f} of {counted(self.prompts, 'prompt')}"

    def difference(self, ours: Tallied) -> str:
        """Say why its figures are not ours, and why its point and its interval are not of one quantity."""
        reasons = []
        if self.failed is not None and self.n is not None and (self.failed, self.n) != (ours.hits, ours.scored):
            if ours.states["target_error"] and self.n > ours.scored:
                reasons.append("outputs without content count there as judged; here as target_error")
            else:
                reasons.append("the tool's count does not agree with the attempts in its own report")
        if self.low is not None and self.high is not None and self.failed is not None and self.n:
            point = self.failed / self.n
            outside = "" if self.low <= point <= self.high else ", so that it does not hold the point"
            reasons.append(
                f"the tool's point, {point:.3f}, is the raw rate; its interval is corrected for the detector's "
                f"sensitivity and specificity{outside}"
            )
        return "; ".join(reasons)


def _headlines(pair: tuple[str, str], told: _Told | None, ours: _Pair) -> Iterator[Headline]:
    name = " x ".join(pair)
    yield Headline(
        what=f"{name}: hits among outputs",
        tool="not reported" if told is None else told.outputs,
        ours=str(ours.outputs),
        why="" if told is None else told.difference(ours.outputs),
    )
    if ours.k > 1:
        yield Headline(
            what=f"{name}: attempts with a hit in any of {ours.k} outputs",
            tool="not reported" if told is None else told.attempts,
            ours=f"{ours.attempts.hits} of {counted(ours.attempts.scored, 'attempt')} with a scored output",
            why="" if told is None else "the share alone stands there; an attempt counts once, however many hit",
        )


def _expected(what: str) -> str:
    return f"garak 0.13 to 0.17 write {what}"


def _is_passed_over(head: str) -> bool:
    return _PASSED_OVER.match(head) is not None


def _last_turns(conversations: Any, n_outputs: int) -> list[int]:
    """Tell for each output which turn of the target's, counted from 0, it is."""
    try:
        answers = [sum(turn["role"] == "assistant" for turn in item["turns"]) for item in conversations]
    except (TypeError, KeyError):
        raise _NotReadableError(
            f"an attempt without its conversations; {_expected('conversations with turns, each with a role')}"
        ) from None
    turns = [n - 1 for n in answers if n]
    if len(turns) != n_outputs:
        raise _NotReadableError(
            f"{counted(n_outputs, 'output')}, but {counted(len(turns), 'conversation')} in which the target answers"
        )
    return turns


def _is_empty(output: Any) -> bool:
    """Tell whether the target gave nothing: no text, and no file either."""
    if isinstance(output, dict):
        return output.get("text") is None and output.get("data_path") is None
    return output is None


def _target(setup: Mapping[str, Any]) -> str | None:
    """Name the system under test; releases before 0.13.1 call it a model."""
    for kind, name in (("plugins.target_type", "plugins.target_name"), ("plugins.model_type", "plugins.model_name")):
        parts = [part for part in (setup.get(kind), setup.get(name)) if isinstance(part, str) and part]
        if parts:
            return "/".join(parts)
    return None


def _digest(uuid: str) -> bytes:
    return blake2b(uuid.encode(errors="surrogatepass"), digest_size=_DIGEST).digest()


def _number(value: Any) -> float | None:
    """Return a JSON number; None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return float("inf")


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None
