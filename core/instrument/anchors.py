"""Which golden traces a judge is asked about again (SPEC 18.1)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.data.golden import composite_truth
from core.instrument.calibrated import Calibration, deployable, thresholds_of
from core.instrument.golden_table import GoldenTable

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchors:
    """Anchors, as rows of the golden table.

    Attributes
    ----------
    rows : int64 array
        In the order of the table.
    truth : int64 array
        Composite truth of each, 0 or 1.
    available_positive, available_negative : int
        Rows that could be anchors.
    sha256 : str
        Digest of their trace ids.
    """

    rows: Ints
    truth: Ints
    available_positive: int
    available_negative: int
    sha256: str


def choose_anchors(table: GoldenTable, calibration: Calibration, n: int, *, seed: int) -> Anchors:
    """Choose anchors from a golden set, always the same ones (SPEC 18.1).

    Half of either class of the composite, and more of one where the other has fewer. Within a class traces are put in
    order by the categories that they violate and by how near their scores are to a threshold, and every so-manieth is
    taken: all patterns and all distances are there as often as in the golden set.

    Parameters
    ----------
    table : GoldenTable
        With the calibration's categories in any order.
    calibration : Calibration
        With a finite threshold for some category.
    n : int
        How many, at least 1; all that can be, if there are fewer.
    seed : int
        Orders traces that are alike in both.

    Returns
    -------
    Anchors
        A trace without composite truth, or without a score for a category of the composite, is none.

    Raises
    ------
    UndefinedError
        No category has a threshold.
    """
    names = deployable(calibration)
    columns = [table.categories.index(name) for name in names]
    truth = composite_truth(table.labels[:, columns])
    usable = (truth >= 0) & ~table.missing[:, columns].any(axis=1)
    distance = np.abs(table.maxima[:, columns] - np.array(thresholds_of(calibration)[: len(names)])).min(axis=1)
    ordered = {
        label: _ordered(table, np.flatnonzero(usable & (truth == label)), columns, distance, seed) for label in (0, 1)
    }
    wanted = _split(n, len(ordered[1]), len(ordered[0]))
    rows = np.sort(np.concatenate([_every(ordered[label], wanted[label]) for label in (0, 1)]))
    ids = "\n".join(sorted(table.trace_ids[row] for row in rows))
    return Anchors(
        rows=rows,
        truth=truth[rows],
        available_positive=len(ordered[1]),
        available_negative=len(ordered[0]),
        sha256=hashlib.sha256(ids.encode("utf-8", "surrogatepass")).hexdigest(),
    )


def _ordered(
    table: GoldenTable, rows: Ints, columns: Sequence[int], distance: npt.NDArray[np.float64], seed: int
) -> Ints:
    def place(row: int) -> tuple[bytes, float, str]:
        name = f"{seed}:{table.trace_ids[row]}".encode("utf-8", "surrogatepass")
        pattern = table.labels[row, columns] == 1
        return pattern.tobytes(), float(distance[row]), hashlib.sha256(name).hexdigest()

    return np.array(sorted(rows.tolist(), key=place), np.int64)


def _split(n: int, n_positive: int, n_negative: int) -> dict[int, int]:
    positive = min(n_positive, max(n // 2, n - n_negative))
    return {1: positive, 0: min(n_negative, n - positive)}


def _every(rows: Ints, wanted: int) -> Ints:
    """Take so many of them at equal distances, the middle one of each stretch."""
    if wanted == 0:
        return rows[:0]
    return rows[((np.arange(wanted) + 0.5) * len(rows) / wanted).astype(np.int64)]
