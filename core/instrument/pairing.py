"""Pairing two releases (SPEC 10.1): what a comparison needs of their decisions, in sums that add over blocks.

A pair is one unit, a (trace, attempt), as both releases were judged on it. Its number of turns may differ between
them: each has its own turn stratum. Memory grows with the number of named clusters, never with that of pairs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.data.columns import Bools, Ints
from core.errors import UndefinedError
from core.inference.difference import PairSums
from core.instrument.calibrated import Calibrated, Calibration
from core.instrument.strata import bin_of

_FIELDS = ("n", "baseline", "candidate", "changed")  # columns of the sums of one cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionBlock:
    """One release's decisions on some units, as `measure` writes them.

    Attributes
    ----------
    n_turns, flags, missing : int64 arrays of shape (n_units,)
        Bit c of the masks is the c-th category of the composite.
    """

    n_turns: Ints
    flags: Ints
    missing: Ints

    def __post_init__(self) -> None:
        """Refuse columns of different lengths."""
        shapes = {array.shape for array in (self.n_turns, self.flags, self.missing)}
        if len(shapes) > 1 or self.flags.ndim != 1:
            raise UndefinedError("decisions", sorted(map(str, shapes)), "columns are one-dimensional, of one length")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCounts:
    """Two releases as counts of pairs.

    Attributes
    ----------
    n_categories : int
        Outcome 0 is the composite, outcome c + 1 the c-th category.
    n_pairs, n_baseline_only, n_candidate_only : int
        Units in both releases, and in one alone, scored or not.
    histogram : tuple of (outcome, baseline turn bin, candidate turn bin, flagged in baseline, in candidate, n_pairs)
        Over the pairs fully scored in both, whatever their stratum.
    sums : tuple of PairSums
        One an outcome, over the pairs that are inside the golden turn strata in both releases as well.
    clustered : bool
        Whether some cluster holds more than one pair.
    """

    n_categories: int
    n_pairs: int
    n_baseline_only: int
    n_candidate_only: int
    histogram: tuple[tuple[int, int, int, int, int, int], ...]
    sums: tuple[PairSums, ...]
    clustered: bool


def golden_bins(calibration: Calibration) -> tuple[frozenset[int] | None, ...]:
    """Return the turn bins in which each outcome is calibrated: the composite's, then each category's in bit order.

    None where the calibration has no strata (declared): every number of turns is taken.
    """

    def known(judged: Calibrated) -> frozenset[int] | None:
        strata = judged.by_turns
        return None if strata is None else frozenset(b for stratum in strata for b in stratum.bins)

    composite = calibration.composite
    return (known(composite), *(known(calibration.categories[name]) for name in composite.categories))


class PairTally:
    """Adds up blocks of pairs.

    Parameters
    ----------
    n_categories : int
    turn_bins : sequence of int
        Upper edges of the turn strata; one more stratum lies above the last. Empty: one stratum for all.
    inside : sequence of (set of int or None)
        One an outcome: the turn bins that the calibration knows (`golden_bins`).
    """

    def __init__(
        self, n_categories: int, turn_bins: Sequence[int], inside: Sequence[frozenset[int] | None] | None = None
    ) -> None:
        outcomes = n_categories + 1
        if inside is not None and len(inside) != outcomes:
            raise UndefinedError("inside", len(inside), f"needs one set of turn bins an outcome, {outcomes}")
        self._turn_bins = tuple(turn_bins)
        self._bits = np.r_[(1 << n_categories) - 1, 1 << np.arange(n_categories)].astype(np.int64)
        n_bins = len(self._turn_bins) + 1
        self._known = np.ones((outcomes, n_bins), bool)
        for outcome, bins in enumerate(inside or ()):
            if bins is not None:
                self._known[outcome] = np.isin(np.arange(n_bins), list(bins))
        self._cells = np.zeros((outcomes, n_bins * n_bins * 4), np.int64)
        self._closed = [_Sums() for _ in range(outcomes)]
        self._index: dict[str, int] = {}
        self._open = np.zeros((0, outcomes, len(_FIELDS)), np.int64)
        self._totals = np.zeros(3, np.int64)  # pairs, units in the baseline alone, in the candidate alone

    def add(
        self,
        baseline: DecisionBlock,
        candidate: DecisionBlock,
        *,
        trace: Ints | None = None,
        clusters: Sequence[str | None] | None = None,
    ) -> None:
        """Count a block of pairs: row i of both sides is one unit.

        Parameters
        ----------
        baseline, candidate : DecisionBlock
        trace : int array of shape (n_units,), optional
            Equal neighbours are attempts at one trace, which are a cluster; all of a trace stand in one block. When
            absent every unit is a trace.
        clusters : sequence of (str or None), optional
            Name of each unit's cluster; None where the trace is its own.

        Raises
        ------
        UndefinedError
            If the two sides, the traces or the clusters are not of one length.
        """
        n = len(baseline.flags)
        lengths = {n, len(candidate.flags), *(len(rows) for rows in (trace, clusters) if rows is not None)}
        if len(lengths) > 1:
            raise UndefinedError("pairs", sorted(lengths), "the two sides of a block are of one length")
        self._totals[0] += n
        if n == 0:
            return
        starts = np.arange(n) if trace is None else np.flatnonzero(np.r_[True, trace[1:] != trace[:-1]])
        names = None if clusters is None else [clusters[i] for i in starts.tolist()]
        named = np.zeros(len(starts), bool) if names is None else np.array([name is not None for name in names])
        codes = self._codes([name for name in names or () if name is not None])
        for outcome in range(len(self._bits)):
            used, a, b = self._counted(outcome, baseline, candidate)
            rows = np.stack([used, used & a, used & b, used & (a != b)], axis=1).astype(np.int64)
            sums = rows if len(starts) == n else np.add.reduceat(rows, starts, axis=0)
            self._closed[outcome].add(sums if not named.any() else sums[~named])
            if len(codes):
                np.add.at(self._open[:, outcome], codes, sums[named])

    def _counted(self, outcome: int, baseline: DecisionBlock, candidate: DecisionBlock) -> tuple[Bools, Bools, Bools]:
        """Count one outcome's cells; return which pairs the calibration covers, and both releases' flags."""
        bit = self._bits[outcome]
        a, b = baseline.flags & bit != 0, candidate.flags & bit != 0
        scored = (baseline.missing | candidate.missing) & bit == 0
        at, to = bin_of(baseline.n_turns, self._turn_bins), bin_of(candidate.n_turns, self._turn_bins)
        key = ((at * (len(self._turn_bins) + 1) + to) * 2 + a) * 2 + b
        self._cells[outcome] += np.bincount(key[scored], minlength=self._cells.shape[1])
        known = self._known[outcome]
        return scored & known[at] & known[to], a, b

    def _codes(self, names: Sequence[str]) -> Ints:
        codes = np.array([self._index.setdefault(name, len(self._index)) for name in names], np.int64)
        if len(self._index) > len(self._open):
            room = np.zeros((2 * len(self._index) - len(self._open), *self._open.shape[1:]), np.int64)
            self._open = np.concatenate([self._open, room])
        return codes

    def add_unpaired(self, *, baseline: int = 0, candidate: int = 0) -> None:
        """Count units that only one release has."""
        self._totals[1:] += (baseline, candidate)

    def finish(self) -> PairCounts:
        """Return the counts."""
        n_bins = len(self._turn_bins) + 1
        shape = (len(self._bits), n_bins, n_bins, 2, 2)
        cells = self._cells.reshape(shape)
        found = np.argwhere(cells)
        histogram = tuple((*map(int, cell), int(cells[tuple(cell)])) for cell in found)
        totals = []
        for outcome, closed in enumerate(self._closed):
            whole = _Sums(closed)
            whole.add(self._open[: len(self._index), outcome])
            totals.append(whole)
        return PairCounts(
            n_categories=len(self._bits) - 1,
            n_pairs=int(self._totals[0]),
            n_baseline_only=int(self._totals[1]),
            n_candidate_only=int(self._totals[2]),
            histogram=tuple((o, i, j, a, b, n) for o, i, j, a, b, n in histogram),
            sums=tuple(whole.record() for whole in totals),
            clustered=any(whole.clustered for whole in totals),
        )


class _Sums:
    """Sums over whole clusters of one outcome."""

    def __init__(self, start: _Sums | None = None) -> None:
        self._moments: Ints = np.zeros(9, np.int64) if start is None else start._moments.copy()
        self._changes: Counter[int] = Counter() if start is None else Counter(start._changes)
        self.clustered: bool = start is not None and start.clustered

    def add(self, clusters: Ints) -> None:
        """Add whole clusters, a row of n(g), a(g), b(g) and changed pairs each."""
        n, a, b, changed = clusters.T
        self._moments += (
            n.sum(), np.count_nonzero(n), np.count_nonzero(changed),
            n @ n, n @ a, n @ b, a @ a, b @ b, a @ b,
        )  # fmt: skip
        found, counts = np.unique((b - a)[n > 0], return_counts=True)
        self._changes.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        self.clustered = self.clustered or bool((n > 1).any())

    def record(self) -> PairSums:
        names = (
            "n", "n_clusters", "clusters_with_change",
            "sum_n2", "sum_na", "sum_nb", "sum_a2", "sum_b2", "sum_ab",
        )  # fmt: skip
        values: dict[str, Any] = dict(zip(names, self._moments.tolist(), strict=True))
        return PairSums(**values, changes=tuple(sorted(self._changes.items())))
