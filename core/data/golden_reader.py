"""Reading golden tables, long or wide, into a `GoldenSet`.

A label stands for a whole trace. Labels per turn are brought to it: 1 if any turn is 1, else empty if any turn is
empty, else 0. Where rows name their `rater`, each rater's labels are brought to traces first (a turn that others rated
and this one did not is empty), and the label of a trace is the majority of its raters' labels: a tie is empty.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.data.columns import Ints, RawBatch, is_text, numbers, shown, text_codes, whole_numbers
from core.data.golden import GoldenSet, Votes
from core.data.problems import ProblemLog, nearest, quoted
from core.data.scores import check_header, cluster_conflict, missing_columns, reserved_name
from core.data.vocabulary import GOLDEN_COLUMNS, MAX_CATEGORIES, RESERVED_CATEGORIES, category_name


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenLayout:
    """How a golden table is laid out, read off its header and first rows.

    Attributes
    ----------
    long : bool
    categories : tuple of str
        Column names (wide); empty when long.
    slices : tuple of str
        Columns by which rates may be broken down.
    """

    long: bool
    categories: tuple[str, ...]
    slices: tuple[str, ...]


def golden_layout(
    columns: Sequence[str],
    first: RawBatch | None,
    source: str,
    log: ProblemLog,
    *,
    categories: Sequence[str] | None,
    slices: Sequence[str],
    needed: Sequence[str] | None = None,
) -> GoldenLayout | None:
    """Read the layout off a header; of the categories only those that are needed (or all) must be there.

    In the wide form a column is a category when the instrument says so; without an instrument, when it holds
    numbers: a slice column holds text.
    """
    before = log.count
    check_header(columns, source, log)
    for name in slices:
        if name in GOLDEN_COLUMNS or category_name(name) in (categories or ()):
            what = "a category" if name not in GOLDEN_COLUMNS else "a column with a meaning of its own"
            log.add(source, f"{quoted(name)} is {what} and cannot be a slice; name other columns as slices")
    labelled = ("category", "label") if {"category", "label"} & set(columns) else ()
    wanted = ("trace_id", *labelled, *(column for column in slices if column not in GOLDEN_COLUMNS))
    if missing := [column for column in wanted if column not in columns]:
        log.add(source, missing_columns(missing, columns))
    others = [column for column in columns if column not in GOLDEN_COLUMNS]
    if "category" in columns:
        layout = GoldenLayout(long=True, categories=(), slices=tuple(others))
    else:
        names = {category_name(column) for column in others}
        for absent in [name for name in needed or categories or () if name not in names]:
            near = difflib.get_close_matches(absent, others, n=1)
            hint = f"; is it {near[0]!r}?" if near else ""
            log.add(source, f"the instrument's category {absent!r} has no column{hint}", line=1)
        wide = [column for column in others if column not in slices and _is_category(column, first, categories)]
        for name in wide:
            if category_name(name) in RESERVED_CATEGORIES:
                log.add(source, reserved_name(name), line=1)
        if not wide:
            log.add(source, "no labels: neither 'category' and 'label' nor one column of 0, 1 or empty a category")
        layout = GoldenLayout(
            long=False,
            categories=tuple(wide),
            slices=tuple(column for column in others if column not in wide),
        )
    return layout if log.count == before else None


def _is_category(column: str, first: RawBatch | None, categories: Sequence[str] | None) -> bool:
    if categories is not None:
        return category_name(column) in categories
    if first is None:
        return True  # no row: that is what is wrong, not the header
    values = first.column(column)
    if not is_text(values):
        return True
    texts = {text.strip() for text in values.to_pylist() if text and text.strip()}
    return not texts or any(_looks_numeric(text) for text in texts)


def _looks_numeric(text: str) -> bool:
    return text.lstrip("+-").replace(".", "", 1).isdecimal()


class GoldenReader:
    """Collects the raw batches of one or more golden files into a `GoldenSet`.

    Parameters
    ----------
    log : ProblemLog
    categories : sequence of str, optional
        Those of the instrument; another category in the file is then a problem.
    needed : sequence of str, optional
        Those of them that must stand in some row; by default all.
    """

    def __init__(self, log: ProblemLog, categories: Sequence[str] | None, needed: Sequence[str] | None = None) -> None:
        self._log = log
        self._needed = None if needed is None else set(needed)
        self._allowed = None if categories is None else list(categories)
        self._found: dict[str, int] = {name: i for i, name in enumerate(categories or ())}
        self._labels: list[pd.DataFrame] = []
        self._traces: list[pd.DataFrame] = []
        self._texts: list[pd.DataFrame] = []
        self._slices: list[str] = []
        self._clustered = False
        self._raters: dict[str, int] = {}
        self._seen: set[int] = set()
        self.n_rows = 0

    def add(self, raw: RawBatch, layout: GoldenLayout) -> None:
        """Take in some rows."""
        place = raw.place
        self.n_rows += len(place)
        ids = text_codes(raw.column("trace_id"), "trace_id", place, self._log)
        self._log.rows(place, ids.codes < 0, lambda _: "trace_id is empty")
        trace = [ids.text(i) for i in range(len(place))]
        turn_column = raw.column("turn")
        turn = (
            np.zeros(len(place), np.int64)
            if turn_column is None
            else whole_numbers(turn_column, "turn", place, self._log)
        )
        rater = self._rater_codes(raw)
        for category, label in self._cells(raw, layout):
            frame = {"trace": trace, "turn": turn, "category": category, "rater": rater, "label": label, "place": place}
            self._labels.append(pd.DataFrame(frame))
        self._add_constants(raw, layout, trace)
        if raw.column("text") is not None:
            texts = [("" if text is None else str(text)) for text in raw.column("text").to_pylist()]
            self._texts.append(pd.DataFrame({"trace": trace, "turn": turn, "text": texts, "place": place}))

    def _rater_codes(self, raw: RawBatch) -> Ints:
        """Number the raters; rows that name none are one rater's."""
        column = raw.column("rater")
        if column is None:
            return np.full(len(raw.place), self._raters.setdefault("", len(self._raters)), np.int64)
        names = text_codes(_as_text(column), "rater", raw.place, self._log)
        numbered = [self._raters.setdefault(name, len(self._raters)) for name in (*names.values, "")]
        return np.asarray(np.array(numbered, np.int64)[names.codes], np.int64)

    def _cells(self, raw: RawBatch, layout: GoldenLayout) -> Iterable[tuple[Any, Ints]]:
        if not layout.long:
            for column in layout.categories:
                code = self._code(category_name(column))
                self._seen.add(code)
                yield code, self._label(raw, column)
            return
        names = text_codes(raw.column("category"), "category", raw.place, self._log)
        self._log.rows(raw.place, names.codes < 0, lambda _: "category is empty")
        lookup = np.array([*(self._code(category_name(text)) for text in names.values), -1], np.int64)
        code = lookup[names.codes]
        self._log.rows(
            raw.place,
            (code < 0) & (names.codes >= 0),
            lambda i: self._unknown(names.text(i)),
        )
        self._seen |= set(np.unique(code).tolist())
        yield code, self._label(raw, "label")

    def _unknown(self, text: str) -> str:
        if category_name(text) in RESERVED_CATEGORIES:
            return reserved_name(text)
        return f"unknown category {quoted(text)}; {nearest(category_name(text), self._allowed or [])}"

    def _code(self, name: str) -> int:
        if not name or name in RESERVED_CATEGORIES or (self._allowed is not None and name not in self._found):
            return -1
        return self._found.setdefault(name, len(self._found))

    def _label(self, raw: RawBatch, column: str) -> Ints:
        values, valid = numbers(raw.column(column), column, raw.place, self._log)
        known = np.ones(len(values), bool) if valid is None else valid
        wrong = known & np.isfinite(values) & (values != 0) & (values != 1)
        self._log.rows(
            raw.place,
            wrong,
            lambda i: f"{column} {shown(values[i])} is not a label; 0, 1 or an empty cell is expected",
        )
        return np.where(known & ~wrong & np.isfinite(values), values, -1).astype(np.int64)

    def _add_constants(self, raw: RawBatch, layout: GoldenLayout, trace: list[str]) -> None:
        frame = pd.DataFrame({"trace": trace, "place": raw.place})
        for column in ("cluster", *layout.slices):
            if raw.column(column) is None:
                continue
            codes = text_codes(_as_text(raw.column(column)), column, raw.place, self._log)
            frame[f"={column}"] = [codes.text(i) for i in range(len(trace))]
            if column != "cluster" and column not in self._slices:
                self._slices.append(column)
        self._clustered |= "=cluster" in frame
        self._traces.append(frame.drop_duplicates(subset=[c for c in frame if c != "place"]))

    def finish(self) -> GoldenSet:
        """Bring the labels to traces and return the set; all problems so far are raised."""
        self._log.stop_if_any()
        if not self._labels or not self.n_rows:
            for source in self._log.sources:
                self._log.add(source, "no rows below the header; a golden set needs labelled traces")
            self._log.stop()
        if len(self._found) > MAX_CATEGORIES:
            self._log.add(self._log.sources[0], f"{len(self._found)} categories; at most {MAX_CATEGORIES} are possible")
        for name, code in self._found.items():
            if code not in self._seen and (self._needed is None or name in self._needed):
                self._log.add(self._log.sources[0], f"the instrument's category {name!r} stands in no row")
        cells, n_duplicates = self._distinct_cells()
        ids, labels, votes = self._labelled(cells)
        names = list(self._found)
        # Without an instrument the order of categories must not depend on the order of rows.
        order = list(range(len(names))) if self._allowed is not None else list(np.argsort(np.array(names)))
        constants = self._constants()
        self._log.stop_if_any()
        return GoldenSet(
            trace_ids=ids,
            categories=tuple(names[i] for i in order),
            labels=labels[:, order],
            clusters=_column(constants, "=cluster", ids) if self._clustered else None,
            slices={name: _column(constants, f"={name}", ids) for name in self._slices},
            n_rows=self.n_rows,
            n_duplicates=n_duplicates,
            votes=None if votes is None else votes.of(range(len(ids)), order),
        )

    def _labelled(self, cells: pd.DataFrame) -> tuple[tuple[str, ...], Ints, Votes | None]:
        """Bring labels to traces: the ids in order, a column of labels a category, and the votes behind them."""
        n_categories = len(self._found)
        if cells["rater"].nunique() < 2:
            labels = _trace_labels(cells, n_categories)
            return tuple(labels.index), labels.to_numpy(np.int64), None
        votes = _rater_labels(cells)
        tables = [_vote_table(votes[votes["label"] == value], cells, n_categories) for value in (0, 1)]
        found = Votes(counts=np.stack(tables, axis=2), n_raters=int(cells["rater"].nunique()))
        return tuple(sorted(cells["trace"].unique())), found.labels, found

    def _distinct_cells(self) -> tuple[pd.DataFrame, int]:
        key = ["trace", "turn", "category", "rater"]
        cells = pd.concat(self._labels, ignore_index=True).sort_values("place", kind="stable")
        repeated = cells.duplicated(key, keep="first")
        if not repeated.any():
            return cells, 0
        first = cells.groupby(key, sort=False)[["label", "place"]].transform("first")
        names, raters = list(self._found), list(self._raters)
        for i in cells.index[(cells["label"] != first["label"]).to_numpy()]:
            row = cells.loc[i]
            rater = raters[int(row["rater"])]
            by, hint = (
                (f" by rater {quoted(rater)}", "") if rater else ("", ", or say in a column 'rater' who labelled")
            )
            self._log.at(
                int(row["place"]),
                (
                    f"trace {quoted(row['trace'])} has another label for {names[int(row['category'])]}{by} in "
                    f"{self._log.where(int(first.loc[i, 'place']))}; keep one of the two{hint}"
                ),
            )
        return cells[~repeated], int(repeated.sum())

    def _constants(self) -> pd.DataFrame:
        frame = pd.concat(self._traces, ignore_index=True)
        columns = [column for column in map(str, frame.columns) if column.startswith("=")]
        frame[columns] = frame[columns].fillna("")
        first = frame.groupby("trace", sort=True)[columns].first()
        if not columns:
            return first
        expected = first.loc[frame["trace"]].to_numpy()
        for i, j in np.argwhere(frame[columns].to_numpy() != expected):
            name, trace, place = columns[j][1:], frame["trace"][i], int(frame["place"][i])
            one, other = str(expected[i, j]), str(frame[columns[j]].iat[i])
            self._log.at(
                place,
                cluster_conflict(trace, one, other)
                if name == "cluster"
                else (f"trace {quoted(trace)} has {name} {quoted(other)} here and {quoted(one)} before"),
            )
        return first

    def texts(self) -> pd.DataFrame:
        """Return (trace, turn, text), one row a turn, sorted; two different texts for a turn are a problem."""
        if not self._texts:
            self._log.add(self._log.sources[0], "column 'text' is missing: the judge has nothing to read")
            self._log.stop()
        frame = pd.concat(self._texts, ignore_index=True)
        distinct = frame.drop_duplicates(["trace", "turn", "text"])
        for _, row in distinct[distinct.duplicated(["trace", "turn"])].iterrows():
            self._log.at(
                int(row["place"]),
                (f"trace {quoted(row['trace'])}, turn {row['turn']} has two different texts"),
            )
        self._log.stop_if_any()
        return distinct.sort_values(["trace", "turn"], kind="stable")[["trace", "turn", "text"]]


def _as_text(array: Any) -> Any:
    """Slice and cluster columns may be of any scalar type; their text is what counts."""
    return array if is_text(array) or pa.types.is_integer(array.type) else pc.cast(array, pa.string())


def _trace_labels(cells: pd.DataFrame, n_categories: int) -> pd.DataFrame:
    """One label a trace and category: 1 if any turn is 1, else -1 if any is empty, else 0."""
    grouped = cells.groupby(["trace", "category"], sort=True)["label"]
    highest, lowest = grouped.max(), grouped.min()
    label = highest.where(highest == 1, lowest)
    table = label.unstack("category").reindex(columns=range(n_categories))
    return table.fillna(-1).astype(np.int64).sort_index()


def _rater_labels(cells: pd.DataFrame) -> pd.DataFrame:
    """One label a trace, category and rater; who rated some of its turns only can say 1, but not 0."""
    grouped = cells.groupby(["trace", "category", "rater"], sort=True)
    found = grouped["label"].agg(["max", "min"])
    rated = found.assign(turns=grouped["turn"].nunique()).reset_index()
    turns = cells.groupby(["trace", "category"])["turn"].nunique().rename("all_turns").reset_index()
    rated = rated.merge(turns, on=["trace", "category"])
    partly = rated["turns"] < rated["all_turns"]
    return rated.assign(label=np.where(rated["max"] == 1, 1, np.where(partly, -1, rated["min"])))


def _vote_table(votes: pd.DataFrame, cells: pd.DataFrame, n_categories: int) -> Ints:
    """Count votes by trace and category."""
    table = votes.groupby(["trace", "category"]).size().unstack("category")
    rows = sorted(cells["trace"].unique())
    return np.asarray(table.reindex(index=rows, columns=range(n_categories)).fillna(0).to_numpy(), np.int64)


def _column(frame: pd.DataFrame, name: str, ids: Sequence[str]) -> tuple[str | None, ...]:
    return tuple((text or None) for text in frame.loc[list(ids), name])
