"""Resamples of a golden set as weights on ranks: sorted once, counted many times (SPEC 4).

A resample is one weight a cluster. Everything that it is asked for is a whole number, counted in one of two ways,
numpy's (here) or compiled by numba (`core.instrument.kernels`); floats come after, in one place, so that the two
give the same figures bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Engine = Literal["auto", "numpy", "numba"]

BATCH = 1 << 15
"""Weights handled at a time: 8-byte numbers that stay in a core's cache (4 times as many take 5 times as long)."""

NO_CLASS = -2
"""In place of a rank: the resample lacks a class of the category."""


class RankedScores:
    """One category's scores, sorted once.

    Rank 0 is the highest score. A rank as threshold flags all ranks up to it; -1 flags nothing.

    Parameters
    ----------
    scores : float64 array of shape (n,)
    labels : int array of shape (n,)
        0, 1, or -1 for traces that do not count.
    clusters : int array of shape (n,)

    Attributes
    ----------
    values : float64 array
        The distinct scores, from the highest.
    rank : int64 array of shape (n,)
    positive, negative : int64 arrays
        Clusters of the traces of a class, from the highest score.
    positive_rank : int64 array
        Ranks of the positive traces in that order.
    above : int64 array
        How many negatives a positive's score flags as threshold.
    positive_at, negative_at : int64 arrays
        How many traces of a class a rank flags; the last entry, which index -1 reads, is 0.
    """

    def __init__(self, scores: Floats, labels: Ints, clusters: Ints) -> None:
        self.values, rank = np.unique(-scores, return_inverse=True)
        self.values, self.rank = -self.values, rank.astype(np.int64)
        self.positive, self.positive_rank = self._sorted(labels == 1, clusters)
        self.negative, negative_rank = self._sorted(labels == 0, clusters)
        self.above = np.searchsorted(negative_rank, self.positive_rank, side="right").astype(np.int64)
        self.positive_at, self.negative_at = self._flagged(self.positive_rank), self._flagged(negative_rank)

    def _sorted(self, members: npt.NDArray[np.bool_], clusters: Ints) -> tuple[Ints, Ints]:
        places = np.flatnonzero(members)
        order = places[np.argsort(self.rank[places], kind="stable")]
        return clusters[order], self.rank[order]

    def _flagged(self, ranks: Ints) -> Ints:
        return np.append(np.cumsum(np.bincount(ranks, minlength=len(self.values))), 0)

    @property
    def n_positive(self) -> int:
        """Positive traces."""
        return len(self.positive)

    @property
    def n_negative(self) -> int:
        """Negative traces."""
        return len(self.negative)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTable:
    """A golden set as ranks.

    Attributes
    ----------
    categories : tuple of RankedScores
    truth : int array of shape (n,)
        Composite truth: 0, 1, or -1 for traces that do not count.
    clusters : int64 array of shape (n,)
        Codes from 0, without gaps.
    n_clusters : int
    """

    categories: tuple[RankedScores, ...]
    truth: Ints
    clusters: Ints
    n_clusters: int

    @classmethod
    def of(cls, scores: Floats, labels: Ints, truth: Ints, clusters: Ints) -> RankedTable:
        """Sort a golden set; arrays as in `core.instrument.optimism.bootstrap_optimism`."""
        columns = range(scores.shape[1])
        return cls(
            categories=tuple(RankedScores(scores[:, c], labels[:, c], clusters) for c in columns),
            truth=truth,
            clusters=clusters,
            n_clusters=int(clusters.max()) + 1,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """Counts on some resamples, each at its own thresholds.

    Attributes
    ----------
    categories : int64 array of shape (resamples, categories, 5)
        Rank of the threshold (-1: none beats J = 0; `NO_CLASS`), true positives, positives, false positives,
        negatives.
    composite : int64 array of shape (resamples, 6)
        True positives, positives, true negatives, negatives; true positives and true negatives of the original
        traces. All 0 when a category lacks a class.
    """

    categories: Ints
    composite: Ints


Count = Callable[[Ints], Resampled]
"""Counts resamples, given which clusters were drawn: int64 of shape (resamples, n_clusters)."""


def drawn_clusters(table: RankedTable, resamples: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Draw clusters with replacement, batch by batch: the numbers that one draw a resample would give."""
    size = max(BATCH // len(table.clusters), 1)
    for first in range(0, resamples, size):
        yield rng.integers(0, table.n_clusters, (min(size, resamples - first), table.n_clusters))


def weights_of(drawn: Ints, n_clusters: int) -> Ints:
    """How often each cluster was drawn, a row a resample."""
    first = np.arange(len(drawn))[:, None] * n_clusters
    return np.bincount((drawn + first).ravel(), minlength=len(drawn) * n_clusters).reshape(len(drawn), n_clusters)


def numpy_counter(table: RankedTable) -> Count:
    """Return a function that counts resamples with numpy."""
    composite = CompositeCounter(table)

    def count(drawn: Ints) -> Resampled:
        weights = weights_of(drawn, table.n_clusters)
        found = np.stack([best_of_category(category, weights) for category in table.categories], axis=1)
        return Resampled(categories=found, composite=composite(found[:, :, 0], weights))

    return count


def best_of_category(category: RankedScores, weights: Ints) -> Ints:
    """Find each resample's Youden threshold by whole numbers, the highest of equal ones.

    Parameters
    ----------
    category : RankedScores
    weights : int64 array of shape (resamples, n_clusters)

    Returns
    -------
    int64 array of shape (resamples, 5)
        As in `Resampled.categories`.
    """
    positive = _running(weights, category.positive)
    negative = _running(weights, category.negative)
    n_positive, n_negative = positive[:, -1], negative[:, -1]
    # Only a positive raises the objective, so that the best score is a positive's.
    flagged_wrongly = negative.take(category.above, axis=1)
    gain = positive[:, 1:] * n_negative[:, None]
    gain -= flagged_wrongly * n_positive[:, None]
    rows = np.arange(len(weights))
    both = (n_positive > 0) & (n_negative > 0)
    if not category.n_positive:
        return np.stack([np.full(len(rows), NO_CLASS), n_positive, n_positive, n_negative, n_negative], axis=1)
    best = gain.argmax(axis=1)
    better = both & (gain[rows, best] > 0)
    return np.stack(
        [
            np.where(better, category.positive_rank[best], np.where(both, -1, NO_CLASS)),
            np.where(better, positive[rows, best + 1], 0),
            n_positive,
            np.where(better, flagged_wrongly[rows, best], 0),
            n_negative,
        ],
        axis=1,
    )


def _running(weights: Ints, clusters: Ints) -> Ints:
    """Sums of the first 0, 1, 2, ... traces' weights, a row a resample."""
    sums = np.zeros((len(weights), len(clusters) + 1), np.int64)
    np.cumsum(weights.take(clusters, axis=1), axis=1, out=sums[:, 1:])
    return sums


class CompositeCounter:
    """Counts the composite's decisions under each resample's thresholds, on the resample and on the original."""

    def __init__(self, table: RankedTable) -> None:
        classes = [np.flatnonzero(table.truth == value) for value in (1, 0)]
        self._ranks = [[category.rank[traces] for category in table.categories] for traces in classes]
        self._clusters = [table.clusters[traces] for traces in classes]

    def __call__(self, ranks: Ints, weights: Ints) -> Ints:
        """Count; `ranks` has a row a resample and a column a category."""
        counts = np.zeros((len(ranks), 6), np.int64)
        for first, original, is_right in ((0, 4, True), (2, 5, False)):
            side = 0 if is_right else 1
            weight = weights.take(self._clusters[side], axis=1)
            right = np.full(weight.shape, not is_right)
            for c, rank in enumerate(self._ranks[side]):
                flagged = rank <= ranks[:, c, None]
                right = right | flagged if is_right else right & ~flagged
            counts[:, first] = (weight * right).sum(axis=1)
            counts[:, first + 1] = weight.sum(axis=1)
            counts[:, original] = right.sum(axis=1)
        counts[(ranks == NO_CLASS).any(axis=1)] = 0
        return counts


def count_resamples(table: RankedTable, count: Count, resamples: int, rng: np.random.Generator) -> Resampled:
    """Draw and count all resamples."""
    parts: Sequence[Resampled] = [count(drawn) for drawn in drawn_clusters(table, resamples, rng)]
    return Resampled(
        categories=np.concatenate([part.categories for part in parts]),
        composite=np.concatenate([part.composite for part in parts]),
    )
