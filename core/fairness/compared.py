"""One rate over several groups, as arrays: what each group is worth, the spread, and tests (SPEC 15.2, 15.3, 15.5)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.fairness.confusion import ClusterCounts, GroupCounts, RateDefinition
from core.inference.clusters import MIN_CLUSTERS, ClusterSums, effective_sample
from core.inference.intervals import normal_quantile
from core.inference.proportions import (
    SMALLEST_P,
    Homogeneity,
    exact_permutation_p,
    homogeneity_test,
    newcombe_limits,
    range_quantile,
    ratio_limits,
    wilson_arrays,
)

POWER_QUANTILE = 0.8416212335729143
"""Normal quantile of power .8."""

ROWS_AT_A_TIME = 256

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Limits = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Largest less smallest, and smallest over largest rate, with intervals that hold for all pairs together."""

    difference: float
    difference_limits: Limits
    ratio: float | None
    ratio_limits: Limits | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RateOverGroups:
    """One rate in every group.

    Attributes
    ----------
    events, at_risk : ndarray of int, shape (groups,)
    own : ndarray of float, shape (groups,)
        Each group's worth in independent rows; its number at risk without clusters.
    shared : ndarray of float, shape (groups, groups), or None
        Variance of each pair's difference over the sum of their variances; under 1 where clusters span both groups and
        err together. None where no cluster spans two groups.
    few_clusters : ndarray of bool, shape (groups,)
        Groups with fewer clusters than a variance between clusters can be known from.
    confidence_level : float
    clustered : bool
    """

    events: Ints
    at_risk: Ints
    own: Floats
    shared: Floats | None
    few_clusters: NDArray[np.bool_]
    confidence_level: float
    clustered: bool

    @classmethod
    def of(cls, groups: GroupCounts, rate: RateDefinition, confidence_level: float) -> RateOverGroups:
        """Read a rate from counted groups."""
        events, at_risk = groups.rate(rate)
        few = np.zeros(len(events), dtype=bool)
        if groups.clusters is None:
            own, shared = at_risk.astype(float), None
        else:
            own, n_clusters = _own_worth(groups.clusters, rate, len(events), confidence_level)
            shared, few = _shared(groups.clusters, rate, events, at_risk), n_clusters < MIN_CLUSTERS
        return cls(
            events=events,
            at_risk=at_risk,
            own=own,
            shared=shared,
            few_clusters=few,
            confidence_level=confidence_level,
            clustered=groups.clusters is not None,
        )

    @property
    def defined(self) -> NDArray[np.bool_]:
        """Groups that have this rate, and an interval for it."""
        return (self.own > 0.0) & ~self.few_clusters

    @property
    def values(self) -> Floats:
        """Rates; NaN where nobody is at risk."""
        rates = np.full(len(self.events), np.nan)
        return np.asarray(np.divide(self.events, self.at_risk, out=rates, where=self.at_risk > 0))

    def wilson(self) -> tuple[Floats, Floats]:
        """Limits of each group's rate; NaN where it has none."""
        low = np.full(len(self.events), np.nan)
        high, held = low.copy(), self.defined
        low[held], high[held] = wilson_arrays(
            self.values[held], self.own[held], z=normal_quantile(self.confidence_level)
        )
        return low, high

    def worth(self, i: Ints, j: Ints) -> Floats:
        """What the groups `i` are worth in a comparison with the groups `j`."""
        if self.shared is None:
            return self.own[i]
        return np.minimum(self.at_risk[i], self.own[i] / self.shared[i, j])

    def spread(self, among: Ints, confidence_level: float) -> Spread:
        """Spread over some groups, at least 2, all with the rate (SPEC 15.5).

        With simultaneous limits of every pair, the largest difference lies between the largest low end and the largest
        high end (not below 0), and the smallest ratio between the smallest ends (not above 1).
        """
        z = range_quantile(len(among), confidence_level)
        rates = self.values
        low, high, ratio_low, ratio_high = 0.0, 0.0, 1.0, 1.0
        for i, j in _pairs(among):
            limits, of_ratio = self.pair_limits(i, j, z)
            low, high = max(low, float(limits[0].max())), max(high, float(limits[1].max()))
            # fmin passes over NaN: pairs whose second rate is 0 have no ratio.
            ratio_low = float(np.fmin.reduce(of_ratio[0], initial=ratio_low))
            ratio_high = float(np.fmin.reduce(of_ratio[1], initial=ratio_high))
        lowest, highest = float(rates[among].min()), float(rates[among].max())
        has_ratio = highest > 0.0
        return Spread(
            difference=highest - lowest,
            difference_limits=(low, high),
            ratio=lowest / highest if has_ratio else None,
            ratio_limits=(ratio_low, ratio_high) if has_ratio else None,
        )

    def pair_limits(self, i: Ints, j: Ints, z: float) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Limits of the differences p_i - p_j, and of the ratios p_i / p_j (NaN where p_j is 0)."""
        rates, sizes = self.values, (self.worth(i, j), self.worth(j, i))
        difference = newcombe_limits(rates[i], sizes[0], rates[j], sizes[1], z=z)
        return difference, ratio_limits(rates[i], sizes[0], rates[j], sizes[1], z=z)

    def gap_p(self, group: int, reference: int) -> tuple[float, str]:
        """Two-sided p-value of a group against the reference, and how it was made (SPEC 15.3)."""
        if not self.clustered:
            counts = (self.events[group], self.at_risk[group], self.events[reference], self.at_risk[reference])
            return exact_permutation_p(*map(int, counts)), "exact_permutation"
        i, j = np.array([group]), np.array([reference])
        sizes = np.concatenate([self.worth(i, j), self.worth(j, i)])
        test = homogeneity_test(self.values[[group, reference]] * sizes, sizes, independent=False)
        return test.p_value, "chi_square_effective"

    def omnibus(self, among: Ints, seed: int) -> Homogeneity:
        """One test over some groups, at least 2."""
        if self.clustered:
            sizes = self.own[among]
            return homogeneity_test(self.values[among] * sizes, sizes, independent=False)
        return homogeneity_test(self.events[among], self.at_risk[among], seed=seed)

    def minimum_detectable(self, group: int, reference: int) -> float:
        """Difference found with power .8, (z + z') sqrt(p(1-p)(1/n1 + 1/n2)), p pooled and kept off 0 and 1."""
        sizes = self.own[[group, reference]]
        pooled = (float(self.values[[group, reference]] @ sizes) + 1.0) / (float(sizes.sum()) + 2.0)
        scale = math.sqrt(pooled * (1.0 - pooled) * float((1.0 / sizes).sum()))
        return min(1.0, (normal_quantile(self.confidence_level) + POWER_QUANTILE) * scale)


def all_pairs_p(p: float, n_groups: int) -> float:
    """Adjust a pair's p-value for the pair having been chosen among all pairs of several groups (SPEC 15.5).

    With z the normal quantile of p, the chance that `n_groups` standard normal variables range over sqrt(2) z.

    Examples
    --------
    >>> round(all_pairs_p(0.05, 2), 6), round(all_pairs_p(0.05, 3), 4), all_pairs_p(1.0, 3)
    (0.05, 0.1223, 1.0)
    """
    from scipy.special import ndtr, ndtri

    if p >= 1.0:
        return 1.0
    w = -math.sqrt(2.0) * float(ndtri(p / 2.0))
    if w > 11.0:  # the integral below has rounding errors of this size; Bonferroni is exact enough so far out
        return min(1.0, p * n_groups * (n_groups - 1) / 2.0)
    grid = np.linspace(-9.0, 9.0, 1_201)
    density = np.exp(-(grid**2) / 2.0) / math.sqrt(2.0 * math.pi) * (grid[1] - grid[0])
    inside = np.maximum(0.0, ndtr(grid) - ndtr(grid - w))
    return min(1.0, max(p, SMALLEST_P, 1.0 - float(n_groups * (density @ inside ** (n_groups - 1)))))


def _pairs(among: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Ordered pairs of different groups, some rows of the square at a time."""
    for start in range(0, len(among), ROWS_AT_A_TIME):
        rows = among[start : start + ROWS_AT_A_TIME]
        i, j = np.repeat(rows, len(among)), np.tile(among, len(rows))
        yield i[i != j], j[i != j]


def _cluster_rates(clusters: ClusterCounts, rate: RateDefinition) -> tuple[Ints, Ints, Ints, Ints]:
    """Cluster, group, events and those at risk of the (cluster, group) that have anybody at risk."""
    events = clusters.counts[:, rate.events].sum(axis=1)
    at_risk = clusters.counts[:, rate.at_risk].sum(axis=1)
    held = at_risk > 0
    return clusters.cluster[held], clusters.group[held], events[held], at_risk[held]


def _own_worth(
    clusters: ClusterCounts, rate: RateDefinition, n_groups: int, confidence_level: float
) -> tuple[Floats, Ints]:
    """Each group's worth in independent rows (SPEC 5.1), and its number of clusters."""
    _, group, x, n = _cluster_rates(clusters, rate)

    def summed(values: Sequence[int] | NDArray[np.generic]) -> Ints:
        return np.bincount(group, weights=np.asarray(values, dtype=float), minlength=n_groups).astype(np.int64)

    sums = np.column_stack(
        [summed(n), summed(x), summed(n > 0), summed(n * n), summed(n * x), summed(x * x), summed(x > 0), summed(n > x)]
    ).tolist()
    worth = [
        effective_sample(
            ClusterSums(
                n=row[0],
                events=row[1],
                n_clusters=row[2],
                sum_n2=row[3],
                sum_nx=row[4],
                sum_x2=row[5],
                clusters_with_events=row[6],
                clusters_with_nonevents=row[7],
            ),
            clustered=True,
            confidence_level=confidence_level,
        ).n_effective
        for row in sums
    ]
    return np.array(worth), np.array([row[2] for row in sums])


def _shared(clusters: ClusterCounts, rate: RateDefinition, events: Ints, at_risk: Ints) -> Floats | None:
    """Var(p_i - p_j) over Var p_i + Var p_j, from each cluster's part in both rates (SPEC 15.2)."""
    cluster, group, x, n = _cluster_rates(clusters, rate)
    if len(np.unique(cluster)) == len(cluster):
        return None
    from scipy.sparse import csr_array

    size = at_risk[group]
    parts = (x - events[group] / size * n) / size
    matrix = csr_array((parts, (cluster, group)), shape=(clusters.n_clusters, len(events)))
    covariance = (matrix.T @ matrix).toarray()
    variance = covariance.diagonal()
    both = variance[:, None] + variance[None, :]
    shared = np.divide(both - 2.0 * covariance, both, out=np.ones_like(both), where=both > 0.0)
    # Full agreement leaves no variance at all, which few clusters can show by chance.
    return np.asarray(np.maximum(shared, 0.1))
