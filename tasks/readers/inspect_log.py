"""Logs of Inspect AI as they are stored: the archive ``.eval``, or one JSON document; and the samples in them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from core.data.problems import quoted
from core.errors import InputError
from tasks.readers.archives import Archive
from tasks.readers.json_document import EACH, JsonDocument, Keys
from tasks.storage import InputFile

VERSIONS = (1, 2)
"""Versions of the log's format that are known."""

HEADER, START, SAMPLES = "header.json", "_journal/start.json", "samples/"

GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partly, incorrect, no answer: as Inspect itself turns letters into numbers."""

WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}

JUDGE_FAILED = frozenset({"grader_failed", "scoring_failed", "grade_parse_failure"})
"""Reasons that take the value from a score, should it have one: the judge, not the target, is the cause."""

NO_GRADE = "Grade not found in model output"
"""How the explanation of a grader's failure begins. Releases before 0.3.245 graded it ``I``, incorrect."""

MAX_NOTE = 1000
"""Characters of an explanation or error message that are kept."""

_UNWANTED = (("reductions",), ("logging",), ("results", "sample_reductions"))
_UNWANTED_OF_SAMPLE = tuple(
    (key,) for key in ("attachments", "choices", "events", "events_data", "input", "output", "store", "timelines")
)
"""What makes samples large and is not read: what an agent did, what it was shown, and what it held."""

Scores = dict[str, float | None]
"""Category -> number, or None where the judge gave none; empty: none in any category."""


class ZipLog:
    """A log in a zip archive, one member a sample.

    Attributes
    ----------
    header : dict
    complete : bool
        Whether the run was ended in any way; else the archive is what had been written when it broke off.
    """

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._archive = Archive(file)
        members = self._archive.members
        self.complete = HEADER in members
        name = HEADER if self.complete else START
        if name not in members:
            what = f"holds neither {HEADER} nor {START}; a log of Inspect has one of them"
            raise InputError.of(file.name, what)
        self.header = self._document(name, _UNWANTED)
        self._names = [name for name in members if name.startswith(SAMPLES) and name.endswith(".json")]

    def samples(self) -> Iterator[tuple[int, Any]]:
        """Yield (number, sample as stored) in the archive's order."""
        for number, name in enumerate(self._names, start=1):
            yield number, self._document(name, _UNWANTED_OF_SAMPLE)

    def _document(self, name: str, left_out: Sequence[Keys]) -> dict[str, Any]:
        member = replace(self._file, name=f"{self._file.name}, member {quoted(name)}")
        return JsonDocument(member, None, left_out=left_out, opened=lambda: self._archive.open(name)).head()


class JsonLog:
    """A log that is one JSON document."""

    def __init__(self, file: InputFile) -> None:
        of_each = (("samples", EACH, *keys) for keys in _UNWANTED_OF_SAMPLE)
        self._document = JsonDocument(file, ("samples",), left_out=(*_UNWANTED, *of_each))
        self.header = self._document.head()
        self.complete = self.header.get("status") != "started"

    def samples(self) -> Iterator[tuple[int, Any]]:
        """Yield (number, sample as stored) in the document's order."""
        try:
            yield from self._document.elements()
        except InputError as error:
            if any(problem.line for problem in error.problems):
                raise
            # Only the array as a whole has no place, when it is not there: a log that is but a header.


Log = ZipLog | JsonLog


def open_log(file: InputFile) -> Log:
    """Open a log in the format that its content has.

    Raises
    ------
    InputError
        It is no log of Inspect, or one of a version that is not known.
    """
    with file.path.open("rb") as head:
        zipped = head.read(2) == b"PK"
    log: Log = ZipLog(file) if zipped or file.path.name.lower().endswith(".eval") else JsonLog(file)
    header = log.header
    if not isinstance(header.get("eval"), dict):
        raise InputError.of(file.name, "is no log of Inspect: its header says nothing under 'eval'")
    version = header.get("version")
    if isinstance(version, bool) or version not in VERSIONS:
        known = " or ".join(map(str, VERSIONS))
        raise InputError.of(file.name, f"is a log of version {shown(version)}; version {known} is expected")
    return log


@dataclass(frozen=True, slots=True, kw_only=True)
class Grade:
    """What one scorer said about a sample.

    Attributes
    ----------
    scores : dict of str to (float or None)
        The value, by category; empty where there is none at all.
    turns : list of such dicts or None
        One a turn, from the metadata that was asked for; None where it holds none.
    note : str or None
        Reason and explanation.
    reason : str or None
        Why the score is out of the ordinary.
    edited : bool
        Whether the value was changed afterwards.
    off_menu : int
        Texts that are no grade.
    lists : tuple of str
        Keys of the metadata that hold lists.
    """

    scores: Scores
    turns: list[Scores] | None
    note: str | None
    reason: str | None
    edited: bool
    off_menu: int
    lists: tuple[str, ...]

    @property
    def scored(self) -> bool:
        """Whether there is a number."""
        return any(score is not None for score in self.scores.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A sample in one epoch.

    Attributes
    ----------
    place : int
        Number in the log, from 1.
    trace_id : str
    numbered : bool
        Whether the id is a number.
    epoch : int
    uuid : str or None
    state : str or None
        Why nothing in it counts as scored; None if it was scored.
    note : str or None
        The error, or the limit.
    grades : dict of str to Grade
        By scorer; empty in a sample that has a state.
    limited : bool
        Whether a limit ended it.
    turns : int
        Messages of the target.
    metadata : mapping
    failed_tries : int
        Earlier tries that ended in an error.
    invalidated : bool
    dropped : int
        Scores that stand beside an error or invalidation.
    """

    place: int
    trace_id: str
    numbered: bool
    epoch: int
    uuid: str | None
    state: str | None
    note: str | None
    grades: dict[str, Grade]
    limited: bool
    turns: int
    metadata: Mapping[str, Any]
    failed_tries: int
    invalidated: bool
    dropped: int

    @property
    def outcome(self) -> int:
        """Digest, within this process, of what was said: equal for equal outcomes."""
        said = [
            (name, grade.scores, grade.turns) for name, grade in sorted(self.grades.items(), key=lambda item: item[0])
        ]
        return hash(repr((self.state, said)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleParser:
    """Turns a stored sample into a `Sample`.

    Attributes
    ----------
    turns_key : str or None
        Key of a score's metadata that holds one value a turn.
    letters : bool
        Whether grades in words have a place on the scale.
    legacy_scorer : str
        Name of the scorer in logs of version 1, whose samples do not say it.
    """

    turns_key: str | None
    letters: bool
    legacy_scorer: str

    def parse(self, place: int, item: Any) -> Sample:
        """Read a sample.

        Raises
        ------
        ValueError
            What is wrong with it.
        """
        if not isinstance(item, dict):
            raise ValueError("a sample is an object")
        trace_id, epoch = _identity(item)
        stored = self._stored(item)
        error, limit, invalid = (item.get(key) for key in ("error", "limit", "invalidation"))
        state, note = None, None
        if error is not None:
            state, note = "target_error", _message(error, "message")
        elif invalid is not None:
            state, note = "unscored", f"invalidated: {_message(invalid, 'reason') or 'no reason'}"
        elif not stored:
            state, note = ("missing", None) if limit is None else ("limit", _message(limit, "type"))
        metadata, retries = item.get("metadata"), item.get("error_retries")
        return Sample(
            place=place,
            trace_id=trace_id,
            numbered=not isinstance(item["id"], str),
            epoch=epoch,
            uuid=_text(item.get("uuid")),
            state=state,
            note=note,
            grades={} if state else {name: self._grade(name, score) for name, score in stored.items()},
            limited=limit is not None,
            turns=_answers(item.get("messages")),
            metadata=metadata if isinstance(metadata, dict) else {},
            failed_tries=len(retries) if isinstance(retries, list) else 0,
            invalidated=invalid is not None,
            dropped=len(stored) if state else 0,
        )

    def _stored(self, item: Mapping[str, Any]) -> Mapping[str, Any]:
        stored = item.get("scores")
        if stored is None and item.get("score") is not None:
            stored = {self.legacy_scorer: item["score"]}
        if stored is not None and not isinstance(stored, dict):
            raise ValueError("'scores' is an object, with one score a scorer")
        return stored or {}

    def _grade(self, name: str, score: Any) -> Grade:
        if not isinstance(score, dict) or "value" not in score:
            raise ValueError(f"the score of {quoted(name)} has no value")
        metadata, history = score.get("metadata"), score.get("history")
        metadata = metadata if isinstance(metadata, dict) else {}
        reason = _text(score.get("reason")) or _text(metadata.get("unscored_reason"))
        explanation = _text(score.get("explanation"))
        value = score["value"]
        if reason in JUDGE_FAILED or (value == "I" and (explanation or "").startswith(NO_GRADE)):
            value = None
        off_menu: list[str] = []
        listed = metadata.get(self.turns_key) if self.turns_key else None
        return Grade(
            scores=self._scores(name, value, off_menu),
            turns=[self._scores(name, each, off_menu) for each in listed] if isinstance(listed, list) else None,
            note=_cut(": ".join(part for part in (reason, explanation) if part)),
            reason=reason,
            edited=isinstance(history, list) and bool(history),
            off_menu=len(off_menu),
            lists=tuple(key for key, held in metadata.items() if isinstance(held, list)),
        )

    def _scores(self, name: str, value: Any, off_menu: list[str]) -> Scores:
        if isinstance(value, dict):
            return {key: self._number(f"{name}.{key}", each, off_menu) for key, each in value.items()}
        number = self._number(name, value, off_menu)
        return {} if number is None else {name: number}

    def _number(self, name: str, value: Any, off_menu: list[str]) -> float | None:
        """Return a value as a number; None where the judge gave none."""
        if isinstance(value, (list, dict)):
            raise ValueError(f"the value of {quoted(name)} is a list or object; a number or grade is expected")
        if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
            return _finite(value)
        if value == "NaN":
            return None
        graded = float(value) if isinstance(value, bool) else GRADES.get(value, WORDS.get(value.lower()))
        if graded is not None:
            if not self.letters:
                raise ValueError(f"{quoted(name)} is {shown(value)}, which has no place on the declared scale")
            return graded
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not math.isfinite(number) and value not in ("Infinity", "-Infinity"):
            off_menu.append(value)
            return None
        return number


def shown(value: Any) -> str:
    """Show what may be anything in a message: what is nested may be too deep to be shown."""
    return "a list or object" if isinstance(value, (list, dict)) else quoted(value)


def _finite(value: float | None) -> float | None:
    try:
        return None if value is None or math.isnan(value) else float(value)
    except OverflowError:  # a whole number beyond all floats; it is told as outside the scale
        return math.inf


def _identity(item: Mapping[str, Any]) -> tuple[str, int]:
    trace, epoch = item.get("id"), item.get("epoch")
    if isinstance(trace, bool) or not isinstance(trace, (int, str)) or not str(trace).strip():
        raise ValueError(f"its id is {shown(trace)}; a text or a whole number is expected")
    if isinstance(epoch, bool) or not isinstance(epoch, int) or not 1 <= epoch < 2**31:
        raise ValueError(f"its epoch is {shown(epoch)}; a whole number from 1 is expected")
    return str(trace), epoch


def _answers(messages: Any) -> int:
    """Count the target's messages."""
    if not isinstance(messages, Sequence):
        return 0
    return sum(isinstance(message, dict) and message.get("role") == "assistant" for message in messages)


def _message(value: Any, key: str) -> str | None:
    held = value.get(key) if isinstance(value, dict) else value
    return _cut(held) if isinstance(held, str) else None


def _cut(text: str) -> str | None:
    return text[:MAX_NOTE] or None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None
