"""The confusion tensor: one count over (cell, truth, prediction) that holds every rate of every group (SPEC 15.1).

Rows are looked at once. Groups of one column are sums of the cells of all columns; nothing loops over groups on rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.data.problems import quoted
from core.errors import InputError
from core.fairness.columns import MISSING, Coded, Ints, coded

DENSE_CELLS = 100_000
"""Cells (combinations of labels) up to which one is counted for each; above, only those that occur."""

NAMED_EMPTY = 100
"""Empty cells that are named; of the others there is the number."""

MISSING_LABEL = "(missing)"

Label = tuple[str | None, ...]
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateDefinition:
    """A rate as sums over (truth, prediction), each of negative, positive, missing (SPEC 15.1).

    Attributes
    ----------
    events, at_risk : ndarray of bool, shape (3, 3)
    good : {'high', 'low'}
        Which end is the better one.
    labelled : bool
        Whether it needs the truth.
    complement : str or None
        The rate that is 1 less this one: one question, tested once.
    """

    events: Mask
    at_risk: Mask
    good: Literal["high", "low"] = "high"
    labelled: bool = True
    complement: str | None = None


def _mask(*cells: tuple[int, int]) -> Mask:
    mask = np.zeros((3, 3), dtype=bool)
    for cell in cells:
        mask[cell] = True
    return mask


_TN, _FP, _FN, _TP = (0, 0), (0, 1), (1, 0), (1, 1)

RATES: Mapping[str, RateDefinition] = {
    "selection_rate": RateDefinition(
        events=_mask(_FP, _TP, (MISSING, 1)),
        at_risk=_mask(_TN, _FP, _FN, _TP, (MISSING, 0), (MISSING, 1)),
        labelled=False,
    ),
    "false_positive_rate": RateDefinition(events=_mask(_FP), at_risk=_mask(_TN, _FP), good="low"),
    "false_negative_rate": RateDefinition(events=_mask(_FN), at_risk=_mask(_FN, _TP), good="low"),
    "positive_predictive_value": RateDefinition(events=_mask(_TP), at_risk=_mask(_FP, _TP)),
    "accuracy": RateDefinition(events=_mask(_TN, _TP), at_risk=_mask(_TN, _FP, _FN, _TP)),
    "true_positive_rate": RateDefinition(events=_mask(_TP), at_risk=_mask(_FN, _TP), complement="false_negative_rate"),
    "true_negative_rate": RateDefinition(events=_mask(_TN), at_risk=_mask(_TN, _FP), complement="false_positive_rate"),
}
"""The rates of a decision."""

BASE_RATE = RateDefinition(events=_mask(_FN, _TP), at_risk=_mask(_TN, _FP, _FN, _TP))
"""Share of positives: of the data and not of the decision, so it is listed and not compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterCounts:
    """Counts of each (cluster, group) that occurs.

    Attributes
    ----------
    cluster, group : ndarray of int, shape (m,)
    counts : ndarray of int, shape (m, 3, 3)
    n_clusters : int
    """

    cluster: Ints
    group: Ints
    counts: Ints
    n_clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """Groups with their counts.

    Attributes
    ----------
    columns : tuple of str
    keys : tuple of tuple
        Label of each group in each column; None where it is missing.
    counts : ndarray of int, shape (groups, 3, 3)
        Over truth and prediction, each negative, positive, missing.
    clusters : ClusterCounts or None
    row_groups : ndarray of int, shape (rows,)
        Group of each row; -1 if the row is in none.
    empty : tuple of tuple
        Combinations of labels without a row, at most 100.
    n_empty : int
        How many there are.
    """

    columns: tuple[str, ...]
    keys: tuple[Label, ...]
    counts: Ints
    clusters: ClusterCounts | None
    row_groups: Ints
    empty: tuple[Label, ...] = ()
    n_empty: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the groups: labels joined with `` & ``."""
        return tuple(group_name(key) for key in self.keys)

    @property
    def n(self) -> Ints:
        """Rows of each group."""
        return np.asarray(self.counts.sum(axis=(1, 2)))

    @property
    def n_rows(self) -> int:
        """Rows of the table, those in no group included."""
        return int(self.row_groups.size)

    def rate(self, rate: RateDefinition) -> tuple[Ints, Ints]:
        """Events and those at risk, by group."""
        return self.counts[:, rate.events].sum(axis=1), self.counts[:, rate.at_risk].sum(axis=1)


def group_name(key: Sequence[str | None]) -> str:
    """Name of a group: its labels joined with `` & ``; a missing one is ``(missing)``."""
    return " & ".join(MISSING_LABEL if label is None else label for label in key)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfusionTensor:
    """Counts of every cell of all group columns together (SPEC 15.1).

    Attributes
    ----------
    columns : tuple of str
    labels : tuple of tuple of str
        Labels of each column, the missing one left out.
    levels : ndarray of int, shape (cells, columns)
        Place of each cell's label; one beyond the last is missing.
    counts : ndarray of int, shape (cells, 3, 3)
        Cells that occur, in the order of their labels.
    row_cells : ndarray of int, shape (rows,)
    clusters : ClusterCounts or None
        By cell.
    """

    columns: tuple[str, ...]
    labels: tuple[tuple[str, ...], ...]
    levels: Ints
    counts: Ints
    row_cells: Ints
    clusters: ClusterCounts | None

    @property
    def n_rows(self) -> int:
        """Rows in all."""
        return int(self.row_cells.size)

    def by_column(self, column: str, *, keep_missing: bool = True) -> GroupCounts:
        """Groups of one column: sums over the others. Labels that no row has are named as empty."""
        place = self.columns.index(column)
        labels: tuple[str | None, ...] = self.labels[place]
        groups = self.levels[:, place]
        counted = _summed(self.counts, groups, len(labels) + 1)
        rows = counted.sum(axis=(1, 2))
        kept = np.flatnonzero(rows > 0)
        if not keep_missing:
            kept = kept[kept < len(labels)]
        empty = tuple((label,) for label, n in zip(labels, rows[:-1], strict=True) if n == 0)
        keys = tuple((([*labels, None])[level],) for level in kept)
        return self._grouped((column,), keys, groups, kept, counted[kept], empty[:NAMED_EMPTY], len(empty))

    def together(self, *, keep_missing: bool = True) -> GroupCounts:
        """Cells of all columns together. Combinations of labels without a row are counted, and up to 100 named."""
        sizes = np.array([len(labels) for labels in self.labels])
        whole = (self.levels < sizes).all(axis=1)
        kept = np.arange(len(self.counts)) if keep_missing else np.flatnonzero(whole)
        keys = tuple(
            tuple(([*labels, None])[level] for labels, level in zip(self.labels, levels, strict=True))
            for levels in self.levels[kept]
        )
        n_empty = math.prod(map(int, sizes)) - int(whole.sum())
        empty = tuple(_without(self.labels, {tuple(levels) for levels in self.levels[whole].tolist()}, n_empty))
        cells = np.arange(len(self.counts))
        return self._grouped(self.columns, keys, cells, kept, self.counts[kept], empty, n_empty)

    def _grouped(
        self,
        columns: tuple[str, ...],
        keys: tuple[Label, ...],
        group_of_cell: Ints,
        kept: Ints,
        counts: Ints,
        empty: tuple[Label, ...],
        n_empty: int,
    ) -> GroupCounts:
        place = np.full(int(group_of_cell.max(initial=-1)) + 1, -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        group_of_cell = place[group_of_cell]
        clusters = None if self.clusters is None else _regrouped(self.clusters, group_of_cell, len(kept))
        return GroupCounts(
            columns=columns,
            keys=keys,
            counts=counts,
            clusters=clusters,
            row_groups=group_of_cell[self.row_cells],
            empty=empty,
            n_empty=n_empty,
        )


def confusion_tensor(
    groups: Mapping[str, Any],
    y_pred: NDArray[np.int8],
    y_true: NDArray[np.int8] | None = None,
    clusters: Any = None,
) -> ConfusionTensor:
    """Count rows over (cell, truth, prediction) (SPEC 15.1).

    Parameters
    ----------
    groups : mapping of str to array_like, shape (rows,)
        One column an attribute, at least one.
    y_pred, y_true : ndarray of int8, shape (rows,)
        1 positive, 0 not, 2 missing, as `core.fairness.columns.outcome` reads them; without truth all are missing.
    clusters : array_like, shape (rows,), optional
        A row without a cluster is its own.

    Returns
    -------
    ConfusionTensor

    Raises
    ------
    InputError
        If there is no column or no row, lengths differ, or a label is ``(missing)``, which is kept for missing ones.

    Examples
    --------
    >>> tensor = confusion_tensor({"sex": ["f", "f", "m", None]}, np.array([1, 0, 1, 1], dtype=np.int8))
    >>> [(group, int(n)) for group, n in zip(tensor.by_column("sex").names, tensor.by_column("sex").n)]
    [('f', 2), ('m', 1), ('(missing)', 1)]
    """
    columns = {name: coded(column, name) for name, column in groups.items()}
    _check(columns, len(y_pred), y_true)
    levels = {name: _missing_last(column) for name, column in columns.items()}
    row_cells, cells = _cells(levels, [len(column.labels) + 1 for column in columns.values()])
    truth = np.full(len(y_pred), MISSING, dtype=np.int8) if y_true is None else y_true
    outcome = truth * np.int8(3) + y_pred
    counts = np.bincount(row_cells * 9 + outcome, minlength=len(cells) * 9).reshape(-1, 3, 3)
    occupied = np.flatnonzero(counts.any(axis=(1, 2)))
    if len(occupied) < len(cells):
        place = np.zeros(len(cells), dtype=np.int64)
        place[occupied] = np.arange(len(occupied))
        row_cells, cells, counts = place[row_cells], cells[occupied], counts[occupied]
    return ConfusionTensor(
        columns=tuple(columns),
        labels=tuple(column.labels for column in columns.values()),
        levels=cells,
        counts=counts,
        row_cells=row_cells,
        clusters=None if clusters is None else _cluster_counts(clusters, row_cells, outcome),
    )


def _check(columns: Mapping[str, Coded], n_rows: int, y_true: NDArray[np.int8] | None) -> None:
    if not columns:
        raise InputError.of("groups", "names no column")
    lengths = {name: len(column.codes) for name, column in columns.items()} | {"y_pred": n_rows}
    if y_true is not None:
        lengths["y_true"] = len(y_true)
    if len(set(lengths.values())) > 1:
        raise InputError.of("groups", f"columns have different lengths: {lengths}")
    if not n_rows:
        raise InputError.of("y_pred", "holds no rows")
    for name, column in columns.items():
        if MISSING_LABEL in column.labels:
            raise InputError.of(name, f"a label is {quoted(MISSING_LABEL)}, the name of missing ones; rename it")


def _missing_last(column: Coded) -> Ints:
    codes = column.codes.astype(np.int64)
    missing = codes < 0
    if missing.any():
        codes[missing] = len(column.labels)
    return codes


def _cells(levels: Mapping[str, Ints], sizes: Sequence[int]) -> tuple[Ints, Ints]:
    """Cell of each row, and the levels of each cell: a mixed radix, closed up wherever it would grow too long."""
    first, *others = levels.values()
    codes, n_codes = first, sizes[0]
    known = np.arange(n_codes)[:, None]
    for level, size in zip(others, sizes[1:], strict=True):
        codes = codes * size + level
        if n_codes * size <= DENSE_CELLS:
            known = np.column_stack([np.repeat(known, size, axis=0), np.tile(np.arange(size), n_codes)])
        else:
            found, codes = np.unique(codes, return_inverse=True)
            known = np.column_stack([known[found // size], found % size])
        n_codes = len(known)
    return codes, known


def _summed(counts: Ints, groups: Ints, n_groups: int) -> Ints:
    total = np.zeros((n_groups, 3, 3), dtype=np.int64)
    np.add.at(total, groups, counts)
    return total


def _cluster_counts(clusters: Any, row_cells: Ints, outcome: NDArray[np.int8]) -> ClusterCounts:
    read = coded(clusters, "cluster")
    if len(read.codes) != len(row_cells):
        raise InputError.of("cluster", f"has {len(read.codes)} rows, and the table {len(row_cells)}")
    codes = read.codes.astype(np.int64)
    alone = codes < 0
    codes[alone] = len(read.labels) + np.arange(int(alone.sum()))
    n_clusters = len(read.labels) + int(alone.sum())
    pairs, place = np.unique(row_cells * n_clusters + codes, return_inverse=True)
    counts = np.bincount(place * 9 + outcome, minlength=len(pairs) * 9).reshape(-1, 3, 3)
    return ClusterCounts(cluster=pairs % n_clusters, group=pairs // n_clusters, counts=counts, n_clusters=n_clusters)


def _regrouped(clusters: ClusterCounts, group_of_cell: Ints, n_groups: int) -> ClusterCounts:
    group = group_of_cell[clusters.group]
    kept = group >= 0
    pairs, place = np.unique(clusters.cluster[kept] * n_groups + group[kept], return_inverse=True)
    return ClusterCounts(
        cluster=pairs // n_groups,
        group=pairs % n_groups,
        counts=_summed(clusters.counts[kept], place, len(pairs)),
        n_clusters=clusters.n_clusters,
    )


def _without(labels: Sequence[tuple[str, ...]], occupied: set[tuple[int, ...]], n_empty: int) -> Iterator[Label]:
    """Name combinations that do not occur, as many as are named."""
    left = min(n_empty, NAMED_EMPTY)
    for levels in product(*(range(len(column)) for column in labels)):
        if not left:
            return
        if levels not in occupied:
            left -= 1
            yield tuple(column[level] for column, level in zip(labels, levels, strict=True))
