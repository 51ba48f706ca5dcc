"""Reader ``pyrit``: the memory of PyRIT, a SQLite database.

A conversation that an attack result names is a trace, each answer of the target a turn, each category of a scorer a
category. PyRIT keeps more: conversations of retries that no result names, the same score twice, zeros for answers that
were blocked. None of that is counted as a verdict.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from core.data.facts import Direction
from core.data.problems import counted, quoted
from core.data.vocabulary import STATES
from core.errors import Problem
from tasks.readers.database import Database
from tasks.readers.verdicts import UNKNOWN, Cell, Headline, VerdictSource
from tasks.storage import InputFile

REVISION = "8d1e3f5a7b9c"
"""The schema that is known, that of PyRIT 1.1.0; it changes with almost every release."""

SHOWN_THRESHOLD = 0.5
"""From which score headlines call a turn flagged: a convention, PyRIT has none for scores on a scale."""

MAX_KINDS = 10_000
"""Different pairs of scorer and category; each is remembered."""

MAX_KINDS_TEXT = 64 * 2**20
MAX_ADVERSARIAL = 1_000_000
MIN_HASH = 6
"""Characters of a scorer's hash that name it."""

_TABLES = {
    "pyrit_memory_alembic_version": ("version_num",),
    "PromptMemoryEntries": ("id", "role", "conversation_id", "sequence", "response_error"),
    "ScoreEntries": (
        "score_value", "score_type", "score_category", "scorer_class_identifier", "prompt_request_response_id",
        "status", "pyrit_version",
    ),
    "AttackResultEntries": ("conversation_id", "outcome", "adversarial_chat_conversation_ids"),
    "Conversations": ("conversation_id", "target_identifier_hash"),
    "TargetIdentifiers": ("hash", "class_name", "model_name"),
}  # fmt: skip

_KINDS = """
SELECT s.score_type, s.score_category, s.scorer_class_identifier, MIN(s.rowid)
FROM ScoreEntries s JOIN PromptMemoryEntries p ON p.id = s.prompt_request_response_id
WHERE p.role = 'assistant' GROUP BY 1, 2, 3 ORDER BY 4
"""
_NOT_OF_ANSWERS = """
SELECT COUNT(*) FROM ScoreEntries s
WHERE NOT EXISTS (
    SELECT 1 FROM PromptMemoryEntries p WHERE p.id = s.prompt_request_response_id AND p.role = 'assistant'
)
"""
_ANSWERS = """
SELECT p.conversation_id, p.sequence, p.id, p.rowid, p.response_error,
    p.conversation_id IN (SELECT conversation_id FROM AttackResultEntries),
    COALESCE(NULLIF(t.model_name, ''), t.class_name),
    s.rowid, s.score_value, s.score_type, s.score_category, s.status, s.scorer_class_identifier
FROM PromptMemoryEntries p
LEFT JOIN ScoreEntries s ON s.prompt_request_response_id = p.id
LEFT JOIN Conversations c ON c.conversation_id = p.conversation_id
LEFT JOIN TargetIdentifiers t ON t.hash = c.target_identifier_hash
WHERE p.role = 'assistant' ORDER BY p.conversation_id, p.sequence, p.id, s.rowid
"""
_UNANSWERED = """
SELECT conversation_id, MIN(rowid) FROM AttackResultEntries
WHERE conversation_id NOT IN (SELECT conversation_id FROM PromptMemoryEntries WHERE role = 'assistant')
GROUP BY conversation_id ORDER BY conversation_id
"""
_ORPHANS = """
SELECT COUNT(DISTINCT conversation_id) FROM PromptMemoryEntries
WHERE conversation_id NOT IN (SELECT conversation_id FROM AttackResultEntries)
"""
_ADVERSARIAL = """
SELECT adversarial_chat_conversation_ids, MIN(rowid) FROM AttackResultEntries
WHERE adversarial_chat_conversation_ids IS NOT NULL AND adversarial_chat_conversation_ids <> 'null' GROUP BY 1
"""
_OUTCOMES = "SELECT outcome, COUNT(*) FROM AttackResultEntries GROUP BY outcome ORDER BY outcome LIMIT 20"
_REVISIONS = "SELECT version_num FROM pyrit_memory_alembic_version"
_VERSIONS = "SELECT DISTINCT SUBSTR(pyrit_version, 1, 100) FROM ScoreEntries ORDER BY 1 LIMIT 20"

FLOAT, DECISION = "float_scale", "true_false"
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,60})?([eE][+-]?\d{1,3})?")
_DECISIONS = {"true": 1.0, "false": 0.0}
_ERRORS = {None: None, "none": None, "blocked": "blocked"} | dict.fromkeys(
    ("processing", "empty", "unknown"), "target_error"
)
"""What ``response_error`` says of an answer -> its state."""


class PyritSource(VerdictSource):
    """The memory of PyRIT 1.1.0, as SQLite (schema revision 8d1e3f5a7b9c; any other is refused).

    A turn is the rank of the target's answer in its conversation. Each turn has a cell in each category that the
    scorers give anywhere in the database:

    ==================================================  ================================================
    In the memory                                       Here
    ==================================================  ================================================
    score on a scale (``float_scale``), complete        score
    ``true_false``                                      passed over, unless ``scorer=`` names the scorer
    status ``undetermined``                             ``unscored``
    answer with ``response_error`` blocked              ``blocked``; a zero or false that was stored is no score
    answer with another ``response_error``              ``target_error``
    answer that no scorer looked at                     ``missing``
    attack result without any answer                    ``missing`` (turn 0)
    ==================================================  ================================================

    Higher is worse in scores on a scale: PyRIT's scorers of harm are made so. A scorer that is named may be declared
    the other way round, and one of true or false must be declared: a refusal scorer's true is a refusal. A scorer
    without a category of its own gives one of its class's name.

    The same value twice for one (message piece, category, scorer) counts once (`duplicates`, in the whole file); of
    an undetermined and a complete one the complete one counts. Several pieces of one message make one turn, with the
    worst of their scores; pieces that no scorer looked at do not count beside others, while one that is blocked or
    unscored leaves the turn without a score, unless another has the worst score there is.

    Parameters
    ----------
    file : InputFile

    Raises
    ------
    InputError
        Not SQLite, not this schema, views or triggers in place of tables; no scores, or several scorers of one
        category and none named.
    """

    READER: ClassVar[str] = "pyrit"
    TOOL: ClassVar[str] = "PyRIT"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "scorer": "the class, or the first characters of the hash, of the scorer to read",
        "orphans": "include: read conversations that no attack result names, too",
    }
    CANNOT_TELL: ClassVar[tuple[str, ...]] = (
        "whether a conversation that no attack result names is a retry, an attacker's chat or a judge's own",
        "whether an answer was put into the conversation beforehand or given by the target",
        "whether an answer that is blocked was blocked by the target or by a filter before it",
        "what a true of a true_false scorer means",
    )
    unit = "row"

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        if self.options.get("orphans", "include") != "include":
            raise self.refuse(f"orphans={self.options['orphans']}: include is expected")
        self._database = Database(file, _TABLES)
        self._refuse_other_revisions()
        self._scorers: dict[tuple[str, str], _Scorer] = {}  # by kind and identifier as stored
        self._survey()
        self._chosen = self._choice()
        self._categories = self._one_scorer_each()
        self.higher_is = self._declared()
        versions = sorted(
            text for (text,) in self._database.rows(_VERSIONS) if isinstance(text, str) and _is_text(text)
        )
        self.tool_version = ", ".join(versions) or UNKNOWN

    # Which scorers there are, and which are meant

    def _refuse_other_revisions(self) -> None:
        found = list(itertools.islice(self._database.rows(_REVISIONS), 2))
        if found != [(REVISION,)]:
            shown = ", ".join(quoted(text) for (text,) in found) or "none"
            raise self.refuse(
                f"schema revision {shown}; this reader knows {REVISION}, which PyRIT 1.1.0 writes: a copy of an older "
                "database becomes one when that release opens it; else export the scores as a table"
            )

    def _survey(self) -> None:
        size = 0
        known: dict[_Name, _Scorer] = {}  # the same scorer may be described in several ways
        for number, (kind, stored, text, row) in enumerate(self._database.rows(_KINDS)):
            size += sum(len(item) for item in (stored, text) if isinstance(item, str | bytes))
            if number >= MAX_KINDS or size > MAX_KINDS_TEXT:
                raise self.refuse(f"over {MAX_KINDS} pairs of scorer and category; is it PyRIT's memory?")
            try:
                if kind not in (FLOAT, DECISION):
                    raise _NotReadableError(f"score_type {quoted(kind)}; {FLOAT} or {DECISION} is expected")
                scorer = _Scorer.of(kind, text)
                scorer = self._scorers[kind, text] = known.setdefault(scorer.name, scorer)
                scorer.categories.update(dict.fromkeys(_names(stored) or ()))
            except _NotReadableError as error:
                raise self.refuse(f"{error} (ScoreEntries, row {row})") from None
        if not self._scorers:
            raise self.refuse("holds no scores of any answer")
        for scorer in known.values():
            if not scorer.categories:
                scorer.categories[scorer.class_name] = None

    def _choice(self) -> frozenset[_Name]:
        asked = self.options.get("scorer")
        names = dict.fromkeys(scorer.name for scorer in self._scorers.values())
        if asked is not None:
            chosen = [name for name in names if name.is_called(asked)]
            if not chosen:
                raise self.refuse(f"no scorer is called {quoted(asked)}; known here: {_listed(names)}")
            if len({name.kind for name in chosen}) > 1:
                raise self.refuse(
                    f"scorer={asked} means several kinds of scorer: {_listed(chosen)}; name one by its hash"
                )
            return frozenset(chosen)
        chosen = [name for name in names if name.kind == FLOAT]
        if not chosen:
            raise self.refuse(
                "no scorer gives scores on a scale; what a true means is not in the file, so name a scorer and say it: "
                f"pyrit,scorer=NAME,higher-is=worse|better:FILE; known here: {_listed(names)}"
            )
        return frozenset(chosen)

    def _one_scorer_each(self) -> dict[str, _Scorer]:
        """Tell which scorer gives each category."""
        given: dict[str, dict[_Name, _Scorer]] = {}
        for scorer in self._scorers.values():
            if scorer.name in self._chosen:
                for category in scorer.categories:
                    given.setdefault(category, {})[scorer.name] = scorer
        for category, scorers in given.items():
            if len(scorers) > 1:
                raise self.refuse(
                    f"{quoted(category)} is given by several scorers: {_listed(scorers)}; name one by its class or the "
                    "beginning of its hash, with scorer=NAME"
                )
        return {category: next(iter(scorers.values())) for category, scorers in sorted(given.items())}

    def _declared(self) -> Direction | None:
        """Tell which end is harm: on a scale the upper one, unless a named scorer is declared otherwise."""
        if any(name.kind == DECISION for name in self._chosen):
            return self.higher_is
        if self.higher_is == "better" and "scorer" not in self.options:
            raise self.refuse(
                "higher-is=better: PyRIT's scorers of harm give more for worse; say it of one scorer, with scorer=NAME"
            )
        return self.higher_is or "worse"

    # Cells

    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield a cell a turn and category, by conversation."""
        self._count_passed_over()
        include = self.options.get("orphans") == "include"
        adversarial = self._adversarial(problems) if include else frozenset()
        rows = self._checked(problems)
        for trace, of_trace in itertools.groupby(rows, lambda row: row.trace):
            for turn, (_, of_turn) in enumerate(itertools.groupby(of_trace, lambda row: row.sequence)):
                first = next(of_turn)
                verdicts = self._of_turn(itertools.chain([first], of_turn), problems)
                if first.named or (include and trace not in adversarial):
                    yield from self._turn(first, turn, verdicts)
        for trace, place in self._database.rows(_UNANSWERED):
            if not (isinstance(trace, str) and trace and _is_text(trace)):
                self.problem(problems, place, "AttackResultEntries: conversation_id is not a text")
                continue
            self.counts["results_without_answer"] += 1
            for category in self._categories:
                yield self._cell(place, trace, 0, category, _Verdict(place=place, state="missing"), None)

    def _count_passed_over(self) -> None:
        (orphans,) = next(self._database.rows(_ORPHANS))
        (others,) = next(self._database.rows(_NOT_OF_ANSWERS))
        self.counts["orphans"] = orphans
        self.counts["scores_of_no_answer"] = others

    def _adversarial(self, problems: list[Problem]) -> frozenset[str]:
        """Name the conversations with the model that makes up the attacks; they are no target's."""
        found: set[str] = set()
        for text, place in self._database.rows(_ADVERSARIAL):
            try:
                found.update(_names(text) or ())
            except _NotReadableError as error:
                self.problem(problems, place, f"AttackResultEntries: {error}")
            if len(found) > MAX_ADVERSARIAL:
                raise self.refuse(f"names over {MAX_ADVERSARIAL} attackers' chats; is it PyRIT's memory?")
        return frozenset(found)

    def _checked(self, problems: list[Problem]) -> Iterator[_Row]:
        for values in self._database.rows(_ANSWERS):
            row = _Row(*values)
            if (wrong := row.wrong) is not None:
                self.problem(problems, row.place, f"PromptMemoryEntries: {wrong}")
            else:
                yield row

    def _of_turn(self, rows: Iterator[_Row], problems: list[Problem]) -> dict[str, _Verdict]:
        """Put the pieces of one message together."""
        verdicts: dict[str, _Verdict] = {}
        for n_piece, (_, of_piece) in enumerate(itertools.groupby(rows, lambda row: row.piece)):
            self.counts["further_pieces"] += n_piece > 0
            first = next(of_piece)
            given = self._of_piece(itertools.chain([first], of_piece), first.named, problems)
            for category in self._categories:
                verdict = self._verdict(first, given.get(category))
                verdicts[category] = verdict if n_piece == 0 else self._worse(verdicts[category], verdict)
        return verdicts

    def _of_piece(self, rows: Iterable[_Row], named: Any, problems: list[Problem]) -> dict[str, _Given]:
        """Collect what the chosen scorers gave one message piece; equal values count once."""
        given: dict[str, _Given] = {}
        repeated: set[str] = set()
        for row in rows:
            if row.score_row is None:
                continue
            try:
                found = self._given(row)
            except _NotReadableError as error:
                self.problem(problems, row.score_row, f"ScoreEntries: {error}")
                continue
            for category in found.categories:
                before = given.setdefault(category, found)
                if before is found:
                    continue
                if before.value == found.value:
                    repeated.add(category)
                elif before.value is None or found.value is None:
                    self.counts["undetermined_and_complete"] += 1
                    given[category] = before if found.value is None else found
                else:
                    values = f"{before.value:g} (row {before.row}) and {found.value:g} (row {found.row})"
                    self.problem(
                        problems,
                        found.row,
                        f"ScoreEntries: one scorer gives one message {values} in {quoted(category)}",
                    )
        self.counts["duplicates"] += len(repeated)
        self.counts["duplicates_in_orphans"] += 0 if named else len(repeated)
        return given

    def _given(self, row: _Row) -> _Given:
        """Read one score; it has no categories if it is passed over."""
        scorer = self._scorers[row.kind, row.scorer]
        if scorer.name not in self._chosen:
            self.counts["decisions_passed_over" if row.kind == DECISION else "other_scorers"] += 1
            return _Given(row=row.score_row)
        value = _value(row)
        names = _names(row.category)
        if names is None and (scorer.class_name in scorer.categories or value is None):
            names = tuple(scorer.categories)
        elif names is None:
            self.counts["scores_without_category"] += 1
        return _Given(row=row.score_row, value=value, categories=names or ())

    def _verdict(self, row: _Row, given: _Given | None) -> _Verdict:
        """Tell what a score, or its absence, means for a message piece."""
        place = row.place if given is None else given.row
        value = None if given is None else given.value
        error = _ERRORS[row.error]
        if error == "blocked" and value:  # what was let through was judged, and found to be something
            return _Verdict(place=place, score=value, state=error)
        if error is not None:
            self.counts["scores_of_no_output"] += error == "target_error" and value is not None
            return _Verdict(place=place, state=error)
        if given is None:
            return _Verdict(place=place, state="missing")
        return _Verdict(place=place, score=value, state="unscored" if value is None else None)

    def _worse(self, one: _Verdict, other: _Verdict) -> _Verdict:
        """Return which of two pieces' verdicts speaks for their message."""
        if "missing" in (one.state, other.state):
            return other if one.state == "missing" else one
        end = self.scale[0 if self.higher_is == "better" else 1]
        for verdict in (one, other):
            if verdict.score == end:  # nothing is worse
                return verdict
        if one.score is None or other.score is None:
            unscored = [verdict for verdict in (one, other) if verdict.score is None]
            return min(unscored, key=lambda verdict: STATES.index(str(verdict.state)))
        ordered = sorted((one, other), key=lambda verdict: verdict.score or 0.0)
        return ordered[0 if self.higher_is == "better" else 1]

    def _turn(self, row: _Row, turn: int, verdicts: Mapping[str, _Verdict]) -> Iterator[Cell]:
        for category, verdict in verdicts.items():
            yield self._cell(verdict.place, row.trace, turn, category, verdict, row.target)

    def _cell(self, place: int, trace: str, turn: int, category: str, verdict: _Verdict, target: str | None) -> Cell:
        scorer = self._categories[category]
        return Cell(
            place=place,
            trace_id=trace,
            category=category,
            score=verdict.score,
            state=verdict.state,
            turn=turn,
            judge=scorer.judge,
            fingerprint=scorer.fingerprint,
            target=target,
        )

    # Figures

    def headlines(self) -> list[Headline]:
        """Set the attacks that PyRIT calls successful beside the conversations with a high score."""
        if self.higher_is is None:
            raise self._undeclared()
        outcomes = {quoted(name).strip("'"): n for name, n in self._database.rows(_OUTCOMES)}
        others = ", ".join(f"{n} {name}" for name, n in outcomes.items() if name != "success")
        self.counts.clear()
        judged: Counter[str] = Counter()
        for _, cells in itertools.groupby(self._scaled(self.cells([]), []), lambda cell: cell.trace_id):
            scores = [cell.score for cell in cells if cell.score is not None]
            judged["traces"] += 1
            judged["scored"] += bool(scores)
            judged["flagged"] += any(score >= SHOWN_THRESHOLD for score in scores)
        without = judged["traces"] - judged["scored"]
        return [
            Headline(
                what="attacks that succeeded",
                tool=f"{outcomes.get('success', 0)} of {sum(outcomes.values())}" + (f" ({others})" if others else ""),
                ours=f"{judged['flagged']} of {counted(judged['scored'], 'conversation')} with a score of "
                f"{SHOWN_THRESHOLD:g} or more in some turn and category"
                + (f", {without} without any score" if without else ""),
                why="an outcome is what the objective's own scorer says, mostly of the last answer; the scores read "
                "here are of each answer and category, and an attack that nobody scored has failed there",
            )
        ]


class _NotReadableError(Exception):
    """Why one row cannot be read."""


@dataclass(frozen=True, slots=True)
class _Row:
    """An answer's message piece, with one of its scores."""

    trace: Any
    sequence: Any
    piece: Any
    place: int
    error: Any
    named: Any
    target: Any
    score_row: Any
    value: Any
    kind: Any
    category: Any
    status: Any
    scorer: Any

    @property
    def wrong(self) -> str | None:
        """Say what is not as PyRIT writes it; None for nothing."""
        for name, text in (("conversation_id", self.trace), ("id", self.piece)):
            if not (isinstance(text, str) and text and _is_text(text)):
                return f"{name} is not a text: {quoted(text)}"
        if not isinstance(self.sequence, int):
            return f"sequence is not a whole number: {quoted(self.sequence)}"
        if not isinstance(self.error, str | None) or self.error not in _ERRORS:
            return f"response_error is {quoted(self.error)}; one of {', '.join(filter(None, _ERRORS))} is expected"
        if self.target is not None and not (isinstance(self.target, str) and _is_text(self.target)):
            return "its target's model_name is not a text"
        return None


@dataclass(frozen=True, slots=True)
class _Name:
    """What tells one scorer from another."""

    class_name: str
    fingerprint: str
    kind: str

    def __str__(self) -> str:
        return f"{self.class_name} ({self.fingerprint[:12]}, {self.kind})"

    def is_called(self, asked: str) -> bool:
        """Whether it is meant by a class or the beginning of a hash."""
        return asked == self.class_name or (len(asked) >= MIN_HASH and self.fingerprint.startswith(asked))


@dataclass(slots=True)
class _Scorer:
    """A scorer as its identifier describes it, and the categories that it gives somewhere."""

    name: _Name
    judge: str
    categories: dict[str, None] = field(default_factory=dict)

    @property
    def class_name(self) -> str:
        """Name of its class."""
        return self.name.class_name

    @property
    def fingerprint(self) -> str:
        """Hash of what decides its scores."""
        return self.name.fingerprint

    @classmethod
    def of(cls, kind: str, text: Any) -> _Scorer:
        """Read an identifier."""
        item = _json(text)
        class_name = item.get("class_name") if isinstance(item, dict) else None
        if not isinstance(class_name, str) or not class_name:
            raise _NotReadableError("scorer_class_identifier is no object with a class_name")
        texts = {key: value for key, value in item.items() if isinstance(value, str) and value}
        version = texts.get("version", texts.get("pyrit_version", UNKNOWN))
        fingerprint = texts.get("eval_hash", texts.get("hash", UNKNOWN))
        return cls(name=_Name(class_name, fingerprint, kind), judge=f"{class_name}@{version}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Given:
    """What a scorer stored for one message piece; the value is None where it is undetermined."""

    row: int
    value: float | None = None
    categories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """What stands in a cell."""

    place: int
    score: float | None = None
    state: str | None = None


def _value(row: _Row) -> float | None:
    """Return a score; None for one that its scorer could not determine."""
    if row.status == "undetermined":
        return None
    if row.status != "complete":
        raise _NotReadableError(f"status {quoted(row.status)}; complete or undetermined is expected")
    text = row.value
    if row.kind == DECISION and isinstance(text, str) and text.lower() in _DECISIONS:
        return _DECISIONS[text.lower()]
    if row.kind == FLOAT and isinstance(text, str) and _NUMBER.fullmatch(text):
        return float(text)
    what = "a number" if row.kind == FLOAT else "true or false"
    raise _NotReadableError(f"score_value is {quoted(text)}; a text that is {what} is expected")


def _names(text: Any) -> tuple[str, ...] | None:
    """Read a list of names that is stored as JSON; None where there is none."""
    item = None if text is None else _json(text)
    if item is None or item == []:
        return None
    if not isinstance(item, list) or not all(isinstance(name, str) for name in item):
        raise _NotReadableError(f"{quoted(text)} is no list of names")
    return tuple(dict.fromkeys(name for name in item if name)) or None


def _json(text: Any) -> Any:
    try:
        if not isinstance(text, str) or not _is_text(text):
            raise _NotReadableError(f"{quoted(text)} is not JSON")
        item = json.loads(text)
        json.dumps(item, ensure_ascii=False).encode()  # JSON can write half a character
    except (ValueError, RecursionError):
        raise _NotReadableError(f"{quoted(text)} is not JSON that can be read") from None
    return item


def _is_text(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _listed(names: Collection[_Name] | Sequence[_Name]) -> str:
    return "; ".join(map(str, itertools.islice(names, 10)))
