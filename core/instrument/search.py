"""Thresholds chosen together for the composite (SPEC 6.1): coordinate ascent on ranks by whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from core.instrument.resampling import (
    NO_CLASS,
    CompositeCounter,
    Count,
    Ints,
    RankedScores,
    RankedTable,
    Resampled,
    best_of_category,
    weights_of,
)
from core.instrument.spec import ThresholdSpec

LADDER = [(ratio * 2**k, 2) for k in range(12) for ratio in (3, 4)]
"""How much errors of one class weigh against those of the other, from 3 : 2 to 8192 : 2, on the way to a floor."""

Value = Callable[[Ints, Ints], Ints]
"""What true and false positives are worth: whole numbers, to be made as large as possible."""


class JointSearch:
    """Moves one category's threshold at a time to where the composite's objective is largest.

    The starting point is each category's own Youden threshold. Categories take turns in their order until none
    moves. Of equal places the highest threshold is taken, so that every move makes the objective larger or a
    threshold higher: the search ends, and never below its start.

    Parameters
    ----------
    table : RankedTable
    thresholds : ThresholdSpec
        With objective ``composite_youden`` or ``composite_sensitivity``.
    """

    def __init__(self, table: RankedTable, thresholds: ThresholdSpec) -> None:
        self._floor = thresholds.specificity_floor
        self._traces = np.flatnonzero(table.truth >= 0)
        self._positive = table.truth[self._traces] == 1
        self._rank = [category.rank[self._traces] for category in table.categories]
        self._order = [np.argsort(rank, kind="stable") for rank in self._rank]
        self._last = [
            np.flatnonzero(np.diff(rank[order], append=len(category.values)))
            for rank, order, category in zip(self._rank, self._order, table.categories, strict=True)
        ]

    def find(self, start: Sequence[int], weights: Ints) -> list[int] | None:
        """Search.

        Parameters
        ----------
        start : sequence of int
            A rank a category; -1 flags nothing.
        weights : int64 array of shape (n_traces,)

        Returns
        -------
        list of int or None
            Ranks; None when a class of the composite is absent.
        """
        weight = weights[self._traces]
        positive, negative = weight * self._positive, weight * ~self._positive
        n_positive, n_negative = int(positive.sum()), int(negative.sum())
        if not (n_positive and n_negative):
            return None

        def ascended(ranks: list[int], value: Value) -> list[int]:
            return self._ascend(ranks, positive, negative, value)

        def weighed(hit: int, error: int) -> Value:
            return lambda true, false: hit * n_negative * true - error * n_positive * false

        ranks = ascended(list(start), weighed(1, 1))
        if self._floor is None:
            return ranks
        budget = _budget(n_negative, self._floor)

        def within(ranks: list[int]) -> bool:
            return int(negative[self._flagged(ranks).any(axis=0)].sum()) <= budget

        if within(ranks):
            for more, less in LADDER:
                bolder = ascended(ranks, weighed(more, less))
                if not within(bolder):
                    break
                ranks = bolder
        else:
            for more, less in LADDER:
                ranks = ascended(ranks, weighed(less, more))
                if within(ranks):
                    break
            else:
                ranks = ascended(ranks, lambda true, false: true - false * (n_positive + 1))
        if not within(ranks):
            return ranks
        return ascended(ranks, lambda true, false: np.where(false <= budget, true, -1))

    def _flagged(self, ranks: Sequence[int]) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
        return np.array([rank <= r for rank, r in zip(self._rank, ranks, strict=True)])

    def _ascend(self, ranks: list[int], positive: Ints, negative: Ints, value: Value) -> list[int]:
        ranks, flagged, moved = list(ranks), self._flagged(ranks), True
        while moved:
            moved = False
            for c in range(len(ranks)):
                best = self._best(c, ranks[c], flagged, positive, negative, value)
                if best != ranks[c]:
                    ranks[c], flagged[c], moved = best, self._rank[c] <= best, True
        return ranks

    def _best(
        self,
        c: int,
        now: int,
        flagged: np.ndarray[tuple[int, int], np.dtype[np.bool_]],
        positive: Ints,
        negative: Ints,
        value: Value,
    ) -> int:
        """Return the best rank of one category while the others stay."""
        others = flagged[:c].any(axis=0) | flagged[c + 1 :].any(axis=0)
        order, last = self._order[c], self._last[c]
        true, false = (
            int(weight[others].sum()) + np.append(0, np.cumsum((weight * ~others)[order])[last])
            for weight in (positive, negative)
        )
        values = value(true, false)  # first: the category flags nothing
        best = int(values[1:].argmax()) + 1
        # That needs a threshold above all these traces: where the category is now, or an undecidable trace's score.
        above = not flagged[c].any() or bool(self._rank[c][order[0]] > 0)
        if above and values[best] <= values[0]:
            return min(now, 0)
        return int(self._rank[c][order[last[best - 1]]])


def _budget(n_negative: int, floor: float) -> int:
    """How many negatives may be flagged with a specificity of at least the floor."""
    budget = int((1.0 - floor) * n_negative) + 1
    while (n_negative - budget) / n_negative < floor:
        budget -= 1
    return budget


def joint_thresholds(table: RankedTable, thresholds: ThresholdSpec, start: Sequence[float]) -> list[float] | None:
    """Choose the thresholds of all categories together on a golden set.

    Parameters
    ----------
    table : RankedTable
    thresholds : ThresholdSpec
    start : sequence of float
        Each category's own threshold, one of its scores.

    Returns
    -------
    list of float or None
        None when a class of the composite is absent.
    """
    ranks = [
        int(np.searchsorted(-category.values, -tau)) for category, tau in zip(table.categories, start, strict=True)
    ]
    found = JointSearch(table, thresholds).find(ranks, np.ones(len(table.truth), np.int64))
    if found is None:
        return None
    return [float(category.values[rank]) for category, rank in zip(table.categories, found, strict=True)]


def joint_counter(table: RankedTable, thresholds: ThresholdSpec) -> Count:
    """Return a function that counts resamples, each after a search of its own from its own Youden thresholds.

    A resample that lacks a class in a category or the composite is skipped for all of them.
    """
    search, composite = JointSearch(table, thresholds), CompositeCounter(table)

    def count(drawn: Ints) -> Resampled:
        weights = weights_of(drawn, table.n_clusters)
        found = np.stack([best_of_category(category, weights) for category in table.categories], axis=1)
        for b, weight in enumerate(weights):
            start = found[b, :, 0]
            ranks = None if (start == NO_CLASS).any() else search.find(start.tolist(), weight[table.clusters])
            for c, category in enumerate(table.categories):
                found[b, c, :] = _counts_at(category, NO_CLASS if ranks is None else ranks[c], weight)
        return Resampled(categories=found, composite=composite(found[:, :, 0], weights))

    return count


def _counts_at(category: RankedScores, rank: int, weight: Ints) -> Sequence[int]:
    if rank == NO_CLASS:
        return NO_CLASS, 0, 0, 0, 0
    return (
        rank,
        weight[category.positive[: category.positive_at[rank]]].sum(),
        weight[category.positive].sum(),
        weight[category.negative[: category.negative_at[rank]]].sum(),
        weight[category.negative].sum(),
    )
