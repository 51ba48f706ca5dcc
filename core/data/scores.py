"""Score and detection tables: from raw columns to batches that the engine collapses.

One form inside for both layouts: a row has one cell (long: `category` names it) or one cell a category (wide).
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from core.data.columns import (
    Bools,
    Codes,
    Floats,
    Ints,
    RawBatch,
    Segments,
    numbers,
    segments_of,
    shown,
    text_codes,
    whole_numbers,
)
from core.data.problems import ProblemLog, nearest, quoted
from core.data.vocabulary import (
    ANSWERED_STATES,
    MAX_CATEGORIES,
    RESERVED_CATEGORIES,
    SCORE_COLUMNS,
    SCORED,
    STATES,
    category_name,
)

NO_REASON = 255
"""Code of a cell that has no reason to be missing; the codes below it index `STATES`."""

APART = 1 << 62
"""Added to a row's place it is a turn number that no other row has."""

Kind = Literal["scores", "detections"]
NAME_COLUMN = {"scores": "category", "detections": "attribute"}
VALUE_COLUMN = {"scores": "score", "detections": "detected"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreBatch:
    """Rows of a score table in the engine's form.

    Attributes
    ----------
    starts : int64 array of shape (n_segments,)
        First row of each run of rows of one trace; the first is 0.
    trace_ids : list of str, one a segment
    clusters : list of (str or None), one a segment, or None
        None in the list: the trace is its own cluster. None: the table has no clusters.
    attempt, turn : int64 arrays of shape (n_rows,)
    category : int array of shape (n_rows,) or None
        Index into the categories (long); None when every row has one cell a category (wide).
    values : float64 array of shape (n_rows,) or (n_rows, n_categories)
        Scores or decisions; meaningless where not valid.
    valid : bool array of the shape of `values`, or None
        None when no cell is empty.
    reason : uint8 array of shape (n_rows,) or None
        Index into `STATES`, or `NO_REASON`.
    place : int64 array of shape (n_rows,)
    """

    starts: Ints
    trace_ids: list[str]
    clusters: list[str | None] | None
    attempt: Ints
    turn: Ints
    category: npt.NDArray[Any] | None
    values: Floats
    valid: Bools | None
    reason: npt.NDArray[np.uint8] | None
    place: Ints

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.place)

    def bits(self, cells: Bools | None, n_categories: int) -> Ints:
        """Gather cells into one word a row: bit c is set where the row's cell of category c is.

        None stands for cells that are all set.
        """
        if self.category is not None:
            word: Ints = np.left_shift(1, self.category, dtype=np.int64)
            return word if cells is None else word * cells
        if cells is None:
            return np.full(self.n_rows, (1 << n_categories) - 1, np.int64)
        gathered: Ints = cells.astype(np.int64) @ np.left_shift(1, np.arange(n_categories), dtype=np.int64)
        return gathered

    def taken(self, rows: Ints | slice, **segments: Any) -> ScoreBatch:
        """Return some rows, in the given order, under new `starts` (and `trace_ids` and `clusters`, if they change)."""
        return replace(
            self,
            attempt=self.attempt[rows],
            turn=self.turn[rows],
            category=None if self.category is None else self.category[rows],
            values=self.values[rows],
            valid=None if self.valid is None else self.valid[rows],
            reason=None if self.reason is None else self.reason[rows],
            place=self.place[rows],
            **segments,
        )

    def rows(self, first: int, last: int, segments: slice) -> ScoreBatch:
        """Return the rows [first, last), which are the given whole segments (a view)."""
        return self.taken(
            slice(first, last),
            starts=self.starts[segments] - first,
            trace_ids=self.trace_ids[segments],
            clusters=None if self.clusters is None else self.clusters[segments],
        )

    def as_long(self, present: Ints) -> ScoreBatch:
        """Return a wide batch with one cell a row, of the given categories only: the others stand in other files."""
        n_cells = len(present)
        return ScoreBatch(
            starts=self.starts * n_cells,
            trace_ids=self.trace_ids,
            clusters=self.clusters,
            attempt=np.repeat(self.attempt, n_cells),
            turn=np.repeat(self.turn, n_cells),
            category=np.tile(present, self.n_rows),
            values=self.values[:, present].ravel(),
            valid=None if self.valid is None else self.valid[:, present].ravel(),
            reason=None if self.reason is None else np.repeat(self.reason, n_cells),
            place=np.repeat(self.place, n_cells),
        )


def joined(parts: Sequence[ScoreBatch]) -> ScoreBatch:
    """Put batches of one layout together, in order; neighbouring segments of one trace and cluster become one."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part.n_rows for part in parts])
    starts = np.concatenate([part.starts + offset for part, offset in zip(parts, offsets, strict=False)])
    ids = [trace for part in parts for trace in part.trace_ids]
    clustered = any(part.clusters is not None for part in parts)
    clusters = [item for part in parts for item in (part.clusters or [None] * len(part.trace_ids))]
    keep = np.ones(len(ids), bool)
    for i in np.cumsum([len(part.trace_ids) for part in parts])[:-1]:  # where one batch ends and the next begins
        keep[i : i + 1] = i == 0 or ids[i : i + 1] != ids[i - 1 : i] or clusters[i] != clusters[i - 1]
    return ScoreBatch(
        starts=starts[keep],
        trace_ids=list(itertools.compress(ids, keep)),
        clusters=list(itertools.compress(clusters, keep)) if clustered else None,
        attempt=np.concatenate([part.attempt for part in parts]),
        turn=np.concatenate([part.turn for part in parts]),
        category=_stacked([part.category for part in parts]),
        values=np.concatenate([part.values for part in parts]),
        valid=_stacked([part.valid for part in parts], [np.ones(part.values.shape, bool) for part in parts]),
        reason=_stacked([part.reason for part in parts], [np.full(part.n_rows, NO_REASON, np.uint8) for part in parts]),
        place=np.concatenate([part.place for part in parts]),
    )


def _stacked(arrays: Sequence[Any], defaults: Sequence[Any] | None = None) -> Any:
    if all(array is None for array in arrays):
        return None
    filled = [array if array is not None else defaults[i] for i, array in enumerate(arrays)]  # type: ignore[index]
    return np.concatenate(filled)


_AGGREGATES = frozenset({"rate", "k", "n", "N", "count", "total", "n_flagged", "n_traces", "flagged"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a score or detection table is laid out, read off its header.

    Attributes
    ----------
    long : bool
        One cell a row; else one column a category.
    categories : tuple of str
        Names found in the header (wide), with hyphens; empty when long.
    columns : tuple of str
        The columns to read, as they stand in the file.
    ignored : tuple of str
        Columns of a long table that mean nothing here.
    """

    long: bool
    categories: tuple[str, ...]
    columns: tuple[str, ...]
    ignored: tuple[str, ...]


def layout_of(columns: Sequence[str], kind: Kind, source: str, log: ProblemLog) -> Layout | None:
    """Read the layout off a header; what is wrong with the header goes to the log, and None comes back."""
    name, value = NAME_COLUMN[kind], VALUE_COLUMN[kind]
    before = log.count
    check_header(columns, source, log)
    if "trace_id" not in columns and name in columns and _AGGREGATES & set(columns):
        log.add(
            source,
            (
                f"holds rates per {name}, not {kind} per trace: how often {name}s meet in one trace cannot be known "
                f"from them, so they give no composite; export trace_id, {name}, {value}"
            ),
        )
        return None
    long = name in columns or value in columns
    if not long and (other := _other_kind(columns, kind)) is not None:
        log.add(source, other)
        return None
    needed = ("trace_id", name, value) if long else ("trace_id",)
    if absent := [column for column in needed if column not in columns]:
        log.add(source, missing_columns(absent, columns))
    others = tuple(column for column in columns if column not in SCORE_COLUMNS | {name, value})
    for column in () if long else others:
        if category_name(column) in RESERVED_CATEGORIES:
            log.add(source, reserved_name(column, name), line=1)
    if not long and not others:
        log.add(source, f"no {name} columns: neither '{name}' and '{value}' nor one column a {name} is here")
    if log.count > before:
        return None
    used = tuple(column for column in columns if column in SCORE_COLUMNS - {"rationale", "text"})
    if long:
        return Layout(long=True, categories=(), columns=(*used, name, value), ignored=others)
    return Layout(long=False, categories=tuple(map(category_name, others)), columns=(*used, *others), ignored=())


def check_header(columns: Sequence[str], source: str, log: ProblemLog) -> None:
    """Refuse a header in which two columns have one name."""
    names = [category_name(column) for column in columns]
    repeated = sorted({column for column, name in zip(columns, names, strict=True) if names.count(name) > 1})
    if repeated:
        log.add(source, f"columns that stand twice: {', '.join(map(quoted, repeated))}", line=1)


def _other_kind(columns: Sequence[str], kind: Kind) -> str | None:
    """Say that a long table is of the other kind, if its header says so."""
    other: Kind = "detections" if kind == "scores" else "scores"
    if not {NAME_COLUMN[other], VALUE_COLUMN[other]} <= set(columns):
        return None
    how = {
        "detections": "--instrument SPEC.yaml (kind: detections) or the calibration of a detector",
        "scores": "--calibration REF of a judge that scores",
    }[other]
    return f"this is a table of {other}; measure it with {how} (or read it with --as {other})"


def reserved_name(text: str, what: str = "category") -> str:
    """Say that a category cannot have this name."""
    return f"{what} name {quoted(text)} is reserved for what spans several of them; rename it or leave it out"


def missing_column(column: str, columns: Sequence[str]) -> str:
    """Say that a column is missing and how to get it."""
    return missing_columns([column], columns)


def missing_columns(absent: Sequence[str], columns: Sequence[str]) -> str:
    """Say that columns are missing and how to get them, all with one command."""
    names = ", ".join(f"'{column}'" for column in absent)
    here = ", ".join(map(quoted, columns[:12])) or "none"
    options = " ".join(_option_for(column, columns) for column in absent)
    return (
        f"column{'s' if len(absent) > 1 else ''} {names} {'are' if len(absent) > 1 else 'is'} missing "
        f"(columns here: {here}); name them with `assay read table FILE {options} -o OUT.parquet`"
    )


def _option_for(column: str, columns: Sequence[str]) -> str:
    near = difflib.get_close_matches(column, columns, n=1, cutoff=0.6)
    if not near and column in NAME_COLUMN.values():
        return "--category NAME"
    return f"--map {near[0] if near else 'OLD'}={column}"


class ScoreParser:
    """Turns the raw batches of one file into `ScoreBatch`es.

    Parameters
    ----------
    layout : Layout
    categories : sequence of str
        All categories that may occur, in bit order (at most 24).
    kind : {'scores', 'detections'}
    log : ProblemLog

    Attributes
    ----------
    judges, fingerprints, targets : set of str
        Distinct values of those columns, for the caller to check.
    seen : set of str
        Categories that occurred in a row.
    """

    def __init__(self, layout: Layout, categories: Sequence[str], kind: Kind, log: ProblemLog) -> None:
        if len(categories) > MAX_CATEGORIES:
            raise ValueError(f"{len(categories)} categories: at most {MAX_CATEGORIES}")
        self.layout, self.kind, self.log = layout, kind, log
        self.categories = list(categories)
        self.judges: set[str] = set()
        self.fingerprints: set[str] = set()
        self.targets: set[str] = set()
        self.seen: set[str] = set()
        self._column_of = {category_name(column): column for column in layout.columns if column not in SCORE_COLUMNS}

    def parse(self, raw: RawBatch) -> ScoreBatch:
        """Check some rows and bring them into the engine's form."""
        place, before = raw.place, self.log.count
        traces = segments_of(raw.column("trace_id"), "trace_id", place, self.log)
        for start, text in zip(traces.starts, traces.texts, strict=True):
            if not text:
                self.log.at(int(place[start]), "trace_id is empty")
        state, reason = self._states(raw)
        category, values, valid = self._long(raw) if self.layout.long else self._wide(raw)
        self._check_values(values, valid, raw, category)
        self._check_states(state, reason, valid, place)
        self.judges |= self._distinct(raw, "judge")
        self.fingerprints |= self._distinct(raw, "judge_fingerprint")
        self.targets |= self._distinct(raw, "target")
        clusters, attempt, turn = self._clusters(raw, traces), self._counts(raw, "attempt"), self._counts(raw, "turn")
        if self.log.count > before:
            turn = place | APART  # a cell that was refused must not look like another one
        return ScoreBatch(
            starts=traces.starts,
            trace_ids=traces.texts,
            clusters=clusters,
            attempt=attempt,
            turn=turn,
            category=category,
            values=values,
            valid=valid,
            reason=reason,
            place=place,
        )

    def _counts(self, raw: RawBatch, name: str) -> Ints:
        column = raw.column(name)
        if column is None:
            return np.zeros(len(raw.place), np.int64)
        return whole_numbers(column, name, raw.place, self.log)

    def _distinct(self, raw: RawBatch, name: str) -> set[str]:
        column = raw.column(name)
        if column is None:
            return set()
        codes = text_codes(column, name, raw.place, self.log)
        return {codes.values[code] for code in np.unique(codes.codes) if code >= 0}

    def _long(self, raw: RawBatch) -> tuple[npt.NDArray[Any], Floats, Bools | None]:
        name = NAME_COLUMN[self.kind]
        names = text_codes(raw.column(name), name, raw.place, self.log)
        index = [self._index_of(text) for text in names.values]
        lookup = np.array([*index, -1], np.int64)
        category = lookup[names.codes]
        if (category < 0).any():
            self.log.rows(raw.place, category < 0, lambda i: self._unknown(names.text(i)))
            category = np.maximum(category, 0)
        self.seen |= {self.categories[code] for code in np.flatnonzero(np.bincount(category))}
        values, valid = numbers(raw.column(VALUE_COLUMN[self.kind]), VALUE_COLUMN[self.kind], raw.place, self.log)
        return category, values, valid

    def _index_of(self, text: str) -> int:
        name = category_name(text)
        return self.categories.index(name) if name in self.categories else -1

    def _unknown(self, text: str) -> str:
        what = NAME_COLUMN[self.kind]
        if not text:
            return f"{what} is empty"
        if category_name(text) in RESERVED_CATEGORIES:
            return reserved_name(text, what)
        return f"unknown {what} {quoted(text)}; {nearest(category_name(text), self.categories)}"

    def _wide(self, raw: RawBatch) -> tuple[None, Floats, Bools | None]:
        shape = (len(raw.place), len(self.categories))
        values, valid = np.zeros(shape), np.zeros(shape, bool)
        for index, name in enumerate(self.categories):
            if name not in self._column_of:
                continue
            column = self._column_of[name]
            values[:, index], known = numbers(raw.column(column), column, raw.place, self.log)
            valid[:, index] = True if known is None else known
            self.seen.add(name)
        return None, values, valid

    def _check_values(
        self, values: Floats, valid: Bools | None, raw: RawBatch, category: npt.NDArray[Any] | None
    ) -> None:
        if not values.size:
            return
        with np.errstate(invalid="ignore"):
            if self.kind == "scores":
                if values.min() >= 0.0 and values.max() <= 1.0:
                    return
                bad = (values < 0.0) | (values > 1.0)
            else:
                bad = (values != 0.0) & (values != 1.0)
        bad &= np.isfinite(values)
        if valid is not None:
            bad &= valid
        if category is not None:
            self.log.rows(raw.place, bad, lambda i: self._bad(float(values[i]), VALUE_COLUMN[self.kind]))
            return
        for column, name in enumerate(self.categories):
            self._check_column(values[:, column], bad[:, column], name, raw.place)

    def _check_column(self, values: Floats, bad: Bools, name: str, place: Ints) -> None:
        self.log.rows(place, bad, lambda i: self._bad(float(values[i]), name))

    def _bad(self, value: float, name: str) -> str:
        if self.kind == "detections":
            return f"{name} {shown(value)} is neither 0 nor 1"
        top = 100 if value > 10 else 10
        hint = f"if the judge's scale is 0 to {top}, read it with `assay read table FILE --scale 0,{top}`"
        return f"{name} {shown(value)} is outside [0, 1]; {hint}"

    def _states(self, raw: RawBatch) -> tuple[Codes | None, npt.NDArray[np.uint8] | None]:
        column = raw.column("state")
        if column is None:
            return None, None
        names = text_codes(column, "state", raw.place, self.log)
        code_of = {name: code for code, name in enumerate(STATES)} | {SCORED: NO_REASON}
        unknown = np.array([*(text not in code_of for text in names.values), False])
        self.log.rows(
            raw.place,
            unknown[names.codes],
            lambda i: f"unknown state {quoted(names.text(i))}; known: {SCORED}, {', '.join(STATES)}",
        )
        lookup = np.array([*(code_of.get(text, NO_REASON) for text in names.values), NO_REASON], np.uint8)
        return names, lookup[names.codes]

    def _check_states(
        self, names: Codes | None, reason: npt.NDArray[np.uint8] | None, valid: Bools | None, place: Ints
    ) -> None:
        if names is None or reason is None:
            return
        if valid is None:
            some: Bools = np.ones(len(place), bool)
            every = some
        elif valid.ndim == 1:
            some = every = valid
        else:
            some, every = np.asarray(valid.any(axis=1)), np.asarray(valid.all(axis=1))
        excludes = np.zeros(256, bool)
        excludes[: len(STATES)] = [state not in ANSWERED_STATES for state in STATES]
        self.log.rows(
            place,
            excludes[reason] & every,
            lambda i: (
                f"state {names.text(i)!r} says that there is no score, but there is one; empty the score or the state"
            ),
        )
        scored = np.array([text == SCORED for text in names.values] + [False])[names.codes]
        self.log.rows(place, scored & ~some, lambda _: "state 'scored' but the score is empty")

    def _clusters(self, raw: RawBatch, segments: Segments) -> list[str | None] | None:
        column = raw.column("cluster")
        if column is None:
            return None
        names = segments_of(column, "cluster", raw.place, self.log)
        inside = np.isin(names.starts, segments.starts, assume_unique=True, invert=True)
        for index in np.flatnonzero(inside):
            row = int(names.starts[index])
            trace = segments.texts[int(np.searchsorted(segments.starts, row, side="right")) - 1]
            self.log.at(int(raw.place[row]), cluster_conflict(trace, names.texts[index - 1], names.texts[index]))
        run = np.searchsorted(names.starts, segments.starts, side="right") - 1
        return [names.texts[i] or None for i in run]


def cluster_conflict(trace: str, one: str, other: str) -> str:
    """Say that a trace has two clusters."""
    return (
        f"trace {quoted(trace)} is in cluster {quoted(other)} here and in {quoted(one)} before; a trace has one cluster"
    )


def whole_traces(batches: Iterable[ScoreBatch], log: ProblemLog) -> Iterator[ScoreBatch]:
    """Cut a stream of batches at trace boundaries, so that every block holds whole runs of rows of a trace.

    A trace whose rows are not together comes out more than once; `Tally` notices that.
    """
    held: list[ScoreBatch] = []
    for batch in batches:
        if not batch.n_rows:
            continue
        first = 0
        if held and batch.trace_ids[0] == held[-1].trace_ids[0]:
            _check_same_cluster(held[-1], batch, log)
            end = int(batch.starts[1]) if len(batch.starts) > 1 else batch.n_rows
            held.append(batch.rows(0, end, slice(0, 1)))
            first = 1
        if first == len(batch.starts):
            continue
        last = int(batch.starts[-1])
        if len(batch.starts) - first > 1:
            held.append(batch.rows(int(batch.starts[first]), last, slice(first, -1)))
        if held:
            yield joined(held)
        held = [batch.rows(last, batch.n_rows, slice(-1, None))]
    if held:
        yield joined(held)


def _check_same_cluster(held: ScoreBatch, batch: ScoreBatch, log: ProblemLog) -> None:
    before = held.clusters[0] if held.clusters else None
    here = batch.clusters[0] if batch.clusters else None
    if before != here:
        log.at(int(batch.place[0]), cluster_conflict(batch.trace_ids[0], before or "", here or ""))


def regrouped(parts: Sequence[ScoreBatch], log: ProblemLog) -> ScoreBatch:
    """Put batches together and bring the rows of every trace to one place, traces in the order of their ids."""
    whole = joined(parts)
    trace = _ranks(whole.trace_ids)
    order = np.argsort(trace, kind="stable")
    lengths = np.diff(np.r_[whole.starts, whole.n_rows])[order]
    first = np.cumsum(np.r_[0, lengths])[:-1]
    rows = np.repeat(whole.starts[order] - first, lengths) + np.arange(whole.n_rows)
    new = np.r_[True, np.diff(trace[order]) != 0]
    if whole.clusters is not None:
        cluster = _ranks([name or "" for name in whole.clusters])[order]
        for i in np.flatnonzero(~new & np.r_[False, np.diff(cluster) != 0]):
            one, other = (whole.clusters[order[k]] or "" for k in (i - 1, i))
            log.at(int(whole.place[rows[first[i]]]), cluster_conflict(whole.trace_ids[order[i]], one, other))
    return whole.taken(
        rows,
        starts=first[new],
        trace_ids=[whole.trace_ids[i] for i in order[new]],
        clusters=None if whole.clusters is None else [whole.clusters[i] for i in order[new]],
    )


def _ranks(texts: Sequence[str]) -> Ints:
    """Number texts in their sorted order."""
    encoded = pa.array(texts, pa.string()).dictionary_encode()
    rank = np.argsort(pc.array_sort_indices(encoded.dictionary).to_numpy())
    ranks: Ints = rank[encoded.indices.to_numpy()]
    return ranks
