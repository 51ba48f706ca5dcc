"""What the readers of other tools' results share: verdicts become a long table of cells, each with a score or a state.

A reader yields the tool's own verdicts, one `Cell` each; here scores are brought to [0, 1] with harm at 1, the tool's
categories are named as the user wants, and everything that was decided on the way is gathered as `SourceFacts`.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from core.data.facts import Direction, SourceFacts
from core.data.problems import nearest, quoted
from core.data.scores import NAME_COLUMN, VALUE_COLUMN, Kind, reserved_name
from core.data.vocabulary import RESERVED_CATEGORIES, STATES, category_name
from core.errors import InputError, Problem, UndefinedError
from core.inference.resampling import Ints
from tasks.specs import load_spec
from tasks.storage import InputFile

BATCH_CELLS = 32_768
UNKNOWN = "unknown"
KEPT_PROBLEMS = 200
MAX_TEXT = 2_000
"""Characters of an id or a name: one that fills the memory would stand in every cell."""

KEPT_NAMES = 4_096
"""Names of categories that are remembered."""
DIRECTIONS = ("worse", "better")

_COLUMNS = ("attempt", "turn", "state", "cluster", "judge", "judge_fingerprint", "target", "rationale")


class Cell(NamedTuple):
    """What a judge said, or failed to say, about one turn in one category.

    A tuple, since files hold millions: it is made four times as fast as a frozen dataclass.

    Attributes
    ----------
    place : int
        Line or number of the item in the file, from 1.
    trace_id, category : str
        As the tool names them.
    score : float or None
        On the file's scale; None needs a `state`.
    state : str or None
        One of `STATES`. ``blocked`` and ``refused`` may stand beside a score.
    turn, attempt : int
    cluster, judge, fingerprint, target, rationale : str or None
        ``judge`` and ``target`` are ``name@version``.
    """

    place: int
    trace_id: str
    category: str
    score: float | None
    state: str | None = None
    turn: int = 0
    attempt: int = 0
    cluster: str | None = None
    judge: str | None = None
    fingerprint: str | None = None
    target: str | None = None
    rationale: str | None = None

    @property
    def unit(self) -> tuple[str, int, int]:
        """What the cell's score is about."""
        return self.trace_id, self.attempt, self.turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """A figure that the tool itself reports, beside what its file holds.

    Attributes
    ----------
    what : str
    tool, ours : str
        The two figures, as shown.
    why : str
        Where the difference comes from; empty when there is none.
    """

    what: str
    tool: str
    ours: str
    why: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryMap:
    """Which of a tool's categories make up which category here.

    Attributes
    ----------
    categories : mapping of str to tuple of str
        Category -> categories of the tool: the highest of their scores is taken, of those that were judged. One of
        them without a score leaves the category without one, unless another has the highest that there is. ``*``
        stands for all that are not named.
    left_out : tuple of str
        The tool's categories that are not wanted.

    Raises
    ------
    UndefinedError
        One of the tool's categories stands twice.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    categories: Mapping[str, tuple[str, ...]]
    left_out: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        named = Counter(itertools.chain(self.left_out, *self.categories.values()))
        if twice := [native for native, times in named.items() if times > 1]:
            raise UndefinedError("categories", twice, "a category of the tool belongs to one category, or is left out")

    @property
    def name_of(self) -> dict[str, str | None]:
        """Category of the tool -> category here; None for those left out."""
        named: dict[str, str | None] = dict.fromkeys(self.left_out)
        for name, natives in self.categories.items():
            named |= dict.fromkeys(natives, category_name(name))
        return named


ALL = "*"
"""In a map: all of a tool's categories that it does not name."""

MAPS = Path(__file__).with_name("maps")
"""Maps that come with assay, by reader."""


class VerdictSource(ABC):
    """A file of another tool's verdicts.

    Parameters
    ----------
    file : InputFile

    Attributes
    ----------
    higher_is : {'worse', 'better'} or None
        Which end of the scale is harm; None while nobody has said it.
    unit : str
        What a place in the file is called: ``line``, ``row``.
    turn_scope : {'all', 'last', 'conversation'}
        What was judged. Where it is not each turn, all cells of an attempt stand at one turn: cells at two, with turns
        between them that nobody judged, would leave the attempt without a decision.
    counts : Counter
        What the last pass collapsed or passed over.

    Raises
    ------
    InputError
        The file is not what this reader knows, or an option is unknown or contradicts the file.
    """

    READER: ClassVar[str]
    TOOL: ClassVar[str]
    HIGHER_IS: ClassVar[Direction | None] = None
    """What the format itself says; None where only the user knows."""

    SCALE: ClassVar[tuple[float, float]] = (0.0, 1.0)
    OPTIONS: ClassVar[Mapping[str, str]] = {}
    """Options beside ``higher-is``, ``scale``, ``map`` and ``category`` (one for all): name -> what it says."""

    CANNOT_TELL: ClassVar[tuple[str, ...]] = ()
    unit: str = "line"
    kind: str | None = "scores"

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self._refuse_unknown_options()
        self.scale = _scale(file) or self.SCALE
        self.higher_is: Direction | None = self._direction()
        self.tool_version = UNKNOWN
        self.threshold: float | None = None
        self.turn_scope: Literal["all", "last", "conversation"] = "all"
        self.counts: Counter[str] = Counter()
        self.map = self._map()
        name = NAME_COLUMN[self._kind]
        self.columns: tuple[str, ...] = ("trace_id", name, VALUE_COLUMN[self._kind], *_COLUMNS)

    @abstractmethod
    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield the verdicts, those of one turn together; what cannot be read becomes a problem.

        Counts what it collapses in `counts`.
        """

    def together(self, cell: Cell) -> Any:
        """Return what cells have in common that a category of the map is made of: one turn."""
        return cell.unit

    def headlines(self) -> list[Headline]:
        """Set the tool's own figures beside what its file holds."""
        return []

    @property
    def options(self) -> Mapping[str, str]:
        """How the reader was asked to read."""
        return self.file.options

    @property
    def facts(self) -> SourceFacts:
        """What was declared and decided; the counts are those of the last pass."""
        if self.higher_is is None:
            raise self._undeclared()
        return SourceFacts(
            reader=self.READER,
            tool=self.TOOL,
            tool_version=self.tool_version[:MAX_TEXT],
            scale=self.scale,
            higher_is=self.higher_is,
            threshold=self.threshold,
            turn_scope=self.turn_scope,
            map={} if self.map is None else {name: tuple(natives) for name, natives in self.map.categories.items()},
            left_out=() if self.map is None else self.map.left_out,
            options={name: value for name, value in self.options.items() if name in self.OPTIONS},
            counts={name: count for name, count in self.counts.items() if count},
            cannot_tell=self.CANNOT_TELL,
        )

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, Ints]]:
        """Yield (pyarrow.RecordBatch of those columns, place of each row).

        Raises
        ------
        InputError
            All that cannot be read, at the end; at once, that nobody has said which end of the scale is harm.
        """
        if self.higher_is is None:
            raise self._undeclared()
        self.counts.clear()
        problems: list[Problem] = []
        cells = self._named(self._scaled(self.cells(problems), problems))
        while chunk := list(itertools.islice(cells, BATCH_CELLS)):
            yield _batch(chunk, columns, self._kind), np.array([cell.place for cell in chunk], np.int64)
        if problems:
            raise InputError(problems)

    @property
    def _kind(self) -> Kind:
        return "detections" if self.kind == "detections" else "scores"

    def problem(self, problems: list[Problem], place: int, message: str) -> None:
        """Note one problem; a file with hundreds is given up."""
        problems.append(Problem(source=self.file.name, line=place, message=message, unit=self.unit))
        if len(problems) >= KEPT_PROBLEMS:
            raise InputError(problems)

    def refuse(self, message: str, *, line: int = 0) -> InputError:
        """Make the error that this file cannot be read."""
        return InputError.of(self.file.name, message, line=line)

    def _refuse_unknown_options(self) -> None:
        known = ("higher-is", "scale", "map", "category", *self.OPTIONS)
        for name in self.file.options:
            if name not in known:
                raise self.refuse(f"reader {self.READER} has no option {quoted(name)}; {nearest(name, known)}")

    def _direction(self) -> Direction | None:
        asked = self.file.options.get("higher-is")
        if asked is not None and asked not in DIRECTIONS:
            raise self.refuse(f"higher-is={asked}: worse or better is expected")
        if asked is not None and self.HIGHER_IS is not None and asked != self.HIGHER_IS:
            raise self.refuse(
                f"higher-is={asked} contradicts the format: in {self.TOOL}'s results a higher score is {self.HIGHER_IS}"
            )
        return self.HIGHER_IS if asked is None else ("worse" if asked == "worse" else "better")

    def _undeclared(self) -> InputError:
        return self.refuse(
            "whether a higher score is worse or better is not in the file; say it with --higher-is worse|better, or in "
            f"the name: {self.READER},higher-is=worse:{self.file.name}"
        )

    def _map(self) -> CategoryMap | None:
        found = self._asked_map()
        for name in () if found is None else map(category_name, found.categories):
            if not name:
                raise self.refuse("a category of the map has no name")
            if name in RESERVED_CATEGORIES:
                raise self.refuse(reserved_name(name))
        return found

    def _asked_map(self) -> CategoryMap | None:
        one, asked = self.file.options.get("category"), self.file.options.get("map")
        if (one is not None) + (asked is not None) + bool(self.file.renamed) > 1:
            raise self.refuse("categories are named in two ways; of category, map=FILE and --map one is enough")
        if self.file.renamed:
            grouped: dict[str, tuple[str, ...]] = {}
            for native, name in self.file.renamed.items():
                grouped[name] = (*grouped.get(name, ()), native)
            return CategoryMap(categories=grouped)
        if one is not None:
            return CategoryMap(categories={one: (ALL,)})
        if asked == "none":
            return None
        shipped = MAPS / f"{self.READER}.yaml"
        if asked is None:
            return load_spec(shipped, CategoryMap) if shipped.exists() else None
        return load_spec(Path(asked), CategoryMap)

    def _scaled(self, cells: Iterator[Cell], problems: list[Problem]) -> Iterator[Cell]:
        """Bring scores to [0, 1] with harm at 1; what lies outside the scale, or no name can be, is a problem."""
        low, high = self.scale
        for cell in cells:
            if (name := _too_long(cell)) is not None:
                self.problem(problems, cell.place, f"its {name} has over {MAX_TEXT} characters")
                continue
            if cell.score is None:
                if cell.state not in STATES:
                    raise ValueError(f"a cell without a score needs a state, not {cell.state!r}")
                yield cell
                continue
            if not (math.isfinite(cell.score) and low <= cell.score <= high):
                what = f"score {cell.score:g} of {quoted(cell.category)} is outside the scale [{low:g}, {high:g}]"
                self.problem(problems, cell.place, f"{what}; another one is declared with scale={low:g}..N or --scale")
                continue
            score = (cell.score - low) / (high - low)
            score = 1.0 - score if self.higher_is == "better" else score
            yield cell if score == cell.score else cell._replace(score=score)

    def _named(self, cells: Iterator[Cell]) -> Iterator[Cell]:
        """Name categories as the user wants; the highest score of those that become one."""
        name_of: Mapping[str, str | None] = {} if self.map is None else self.map.name_of

        @lru_cache(KEPT_NAMES)
        def named(native: str) -> str | None:
            return name_of[native] if native in name_of else name_of.get(ALL, category_name(native))

        if self.map is None:
            for cell in cells:
                name = named(cell.category)
                yield cell if name == cell.category else cell._replace(category=str(name))
            return
        for _, unit in itertools.groupby(cells, self.together):
            found: dict[str, list[Cell]] = {}
            for cell in unit:
                name = named(cell.category)
                if name is not None:
                    found.setdefault(name, []).append(cell)
            for name, natives in found.items():
                worst = natives[0] if len(natives) == 1 else _worst(natives)
                yield worst if worst.category == name else worst._replace(category=name)


def _worst(cells: Sequence[Cell]) -> Cell:
    """Return the cell that speaks for all: one without a score, which might be higher than the highest, else that."""
    highest = max(cells, key=lambda cell: -1.0 if cell.score is None else cell.score)
    unscored = [cell for cell in cells if cell.score is None]
    if unscored and highest.score != 1.0:  # nothing is higher than 1
        return min(unscored, key=lambda cell: STATES.index(str(cell.state)))
    return highest


def _too_long(cell: Cell) -> str | None:
    """Name the id or name that is too long, if there is one."""
    texts = (cell.trace_id, cell.category, cell.cluster or "", cell.judge or "", cell.target or "")
    if max(map(len, texts)) <= MAX_TEXT:
        return None
    named = zip(("trace id", "category", "cluster", "judge", "target"), texts, strict=True)
    return next(name for name, text in named if len(text) > MAX_TEXT)


def _scale(file: InputFile) -> tuple[float, float] | None:
    asked = file.options.get("scale")
    if asked is None:
        return None
    try:
        low, high = (float(end) for end in asked.split(".."))
    except ValueError:
        low, high = math.nan, math.nan
    if not -math.inf < low < high < math.inf:
        raise InputError.of(file.name, f"scale={asked}: two numbers are expected, the lower first, such as scale=0..10")
    return low, high


def _batch(cells: Sequence[Cell], columns: Sequence[str], kind: Kind) -> Any:
    values: dict[str, tuple[str, Any]] = {
        "trace_id": ("trace_id", pa.string()),
        NAME_COLUMN[kind]: ("category", pa.string()),
        VALUE_COLUMN[kind]: ("score", pa.float64()),
        "judge_fingerprint": ("fingerprint", pa.string()),
        "attempt": ("attempt", pa.int64()),
        "turn": ("turn", pa.int64()),
    }
    held = dict(zip(Cell._fields, zip(*cells, strict=True), strict=True))
    arrays = []
    for column in columns:
        attribute, kind_of_value = values.get(column, (column, pa.string()))
        arrays.append(pa.array(held[attribute], kind_of_value))
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


@dataclass(slots=True)
class Tallied:
    """Counts scored cells and hits while headlines are computed.

    Attributes
    ----------
    scored, hits : int
    states : Counter
        Cells without a score, by state.
    """

    scored: int = 0
    hits: int = 0
    states: Counter[str] = field(default_factory=Counter)

    def add(self, cell: Cell, *, hit: bool) -> None:
        """Count a cell."""
        if cell.score is None:
            self.states[str(cell.state)] += 1
        else:
            self.scored += 1
            self.hits += hit

    def __str__(self) -> str:
        beside = "".join(f", {n} {state}" for state, n in sorted(self.states.items()))
        return f"{self.hits} of {self.scored} scored{beside}"
