"""Resampling of the gap between two means, without touching rows where a shorter way has the same law (SPEC 15.4).

A bootstrap of a 0/1 outcome is two binomial draws. A bootstrap of means of many different values has a law that is
known by its Fourier series, and needs no draws. Rows are drawn only where neither holds; whole clusters where rows
are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import check_confidence_level, part_of_whole, whole_count

CHUNK = 2_000_000
"""Numbers drawn at a time: memory stays bounded whatever the number of resamples."""

HALF_WINDOW = 14.0
"""The law of the resampled gap is inverted on this many standard deviations to each side of the gap."""

FREQUENCIES = 48
"""Fourier terms on that window: for a normal law the last one has size exp(-58)."""

DECAYED = 1e-9
"""Largest last Fourier term for which the series is taken for the law: a lattice of few values does not decay."""

FEW_VALUES = 8
"""Rows a distinct value from which a permutation is drawn as counts of values and not as rows."""

TIE = 1e-12
"""Differences of sums below this share of the largest possible one are rounding, and tie."""

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


def binomial_bootstrap(
    k1: int, n1: int, k2: int, n2: int, *, resamples: int, confidence_level: float, seed: int
) -> tuple[float, float]:
    """Percentile bootstrap limits of k1/n1 - k2/n2, by drawing the counts (SPEC 15.4).

    The events in a resample of n rows are Binomial(n, k/n), so the draws have the law of resampling rows.

    Parameters
    ----------
    k1, n1, k2, n2 : int
        Events and sizes; sizes at least 1.
    resamples : int
        At least 1.
    confidence_level : float
        In (0, 1).
    seed : int

    Returns
    -------
    tuple of float
        ``(low, high)`` in [-1, 1]. Without width where both rates are 0 or 1: use `newcombe_interval`.

    Raises
    ------
    UndefinedError
        If a count is no whole number or outside its range, a group is empty, or the level is outside (0, 1).

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, ch. 13.

    Examples
    --------
    >>> low, high = binomial_bootstrap(40, 100, 25, 100, resamples=10_000, confidence_level=0.95, seed=42)
    >>> round(low, 2), round(high, 2)
    (0.02, 0.28)
    """
    (k1, n1), (k2, n2) = part_of_whole("k1", k1, "n1", n1), part_of_whole("k2", k2, "n2", n2)
    if not (n1 and n2):
        raise UndefinedError("n", (n1, n2), "an empty group cannot be resampled")
    rng = np.random.default_rng(seed)
    size = _resamples(resamples)
    gaps = rng.binomial(n1, k1 / n1, size) / n1 - rng.binomial(n2, k2 / n2, size) / n2
    return _percentiles(gaps, confidence_level)


def mean_bootstrap(
    a: Floats, b: Floats, *, resamples: int, confidence_level: float, seed: int
) -> tuple[float, float, str]:
    """Percentile bootstrap limits of mean(a) - mean(b) (SPEC 15.4).

    Parameters
    ----------
    a, b : ndarray of float
        At least one value each, all finite.
    resamples : int
        Draws, where draws are needed.
    confidence_level : float
        In (0, 1).
    seed : int

    Returns
    -------
    tuple
        ``(low, high, method)``; ``bootstrap_law`` is the limit of infinitely many resamples, by inversion of the
        characteristic function φ_a(t/n_a)^n_a φ_b(-t/n_b)^n_b; ``bootstrap_draws`` is Monte Carlo.

    Examples
    --------
    >>> low, high, method = mean_bootstrap(
    ...     np.linspace(0.0, 1.0, 400), np.linspace(0.1, 1.2, 400), resamples=10_000, confidence_level=0.95, seed=1
    ... )
    >>> round(low, 3), round(high, 3), method
    (-0.192, -0.108, 'bootstrap_law')
    """
    check_confidence_level(confidence_level)
    gap, deviation = a.mean() - b.mean(), math.sqrt(a.var() / a.size + b.var() / b.size)
    if deviation == 0.0:
        return float(gap), float(gap), "bootstrap_law"
    terms = _characteristic(a - a.mean(), deviation) * _characteristic(b - b.mean(), deviation).conj()
    if abs(terms[-1]) < DECAYED:
        low, high = (_quantile_of(terms, q) for q in _tails(confidence_level))
        return float(gap + deviation * low), float(gap + deviation * high), "bootstrap_law"
    rng = np.random.default_rng(seed)
    means = [np.concatenate(list(_resampled_means(x, _resamples(resamples), rng))) for x in (a, b)]
    return *_percentiles(means[0] - means[1], confidence_level), "bootstrap_draws"


def _characteristic(centred: Floats, deviation: float) -> NDArray[np.complex128]:
    """Characteristic function of the resampled mean, in units of `deviation`, at k pi / HALF_WINDOW, k = 1, 2, ..."""
    n = centred.size
    turn = np.exp(1j * (math.pi / HALF_WINDOW / deviation / n) * centred)
    power, terms = np.ones(n, dtype=complex), np.empty(FREQUENCIES, dtype=complex)
    for k in range(FREQUENCIES):
        power *= turn
        terms[k] = power.mean()
    return np.asarray(terms**n)


def _quantile_of(terms: NDArray[np.complex128], q: float) -> float:
    from scipy.optimize import brentq

    frequencies = np.arange(1, FREQUENCIES + 1) * (math.pi / HALF_WINDOW)

    def excess(x: float) -> float:
        waves = np.exp(-1j * frequencies * x) - np.exp(1j * frequencies * HALF_WINDOW)
        series = (terms * waves / (-1j * frequencies)).real.sum() / HALF_WINDOW
        return float((x + HALF_WINDOW) / (2.0 * HALF_WINDOW) + series) - q

    return float(brentq(excess, -HALF_WINDOW, HALF_WINDOW, xtol=1e-10))


def _resampled_means(values: Floats, resamples: int, rng: np.random.Generator) -> Iterator[Floats]:
    for size in _chunks(resamples, values.size):
        yield values[rng.integers(0, values.size, (size, values.size))].mean(axis=1)


def mean_permutation_p(a: Floats, b: Floats, *, permutations: int, seed: int) -> float:
    """Two-sided permutation p-value of mean(a) - mean(b), (hits + 1)/(permutations + 1) (SPEC 15.4).

    Parameters
    ----------
    a, b : ndarray of float
        At least one value each, all finite.
    permutations : int
        At least 1.
    seed : int

    Returns
    -------
    float
        In [1/(permutations + 1), 1]: never 0. Sums that differ by rounding alone are ties.

    References
    ----------
    Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9:39.

    Examples
    --------
    >>> mean_permutation_p(np.array([1.0, 2.0]), np.array([2.0, 1.0]), permutations=99, seed=1)
    1.0
    """
    pooled = np.concatenate([a, b])
    pooled = pooled - pooled.mean()
    # Given the pool, the gap is a multiple of the sum of one group, centred: the smaller one, to draw less.
    n_small, small = min((a.size, pooled[: a.size]), (b.size, pooled[a.size :]), key=lambda group: group[0])
    observed = abs(float(small.sum())) - TIE * float(np.abs(pooled).sum())
    rng, total, hits = np.random.default_rng(seed), _resamples(permutations), 0
    values, counts = np.unique(pooled, return_counts=True)
    few = len(values) * FEW_VALUES <= pooled.size
    for size in _chunks(total, len(values) if few else pooled.size):
        if few:  # a grade, say: how many of each value fall to a group has a law of its own
            sums = rng.multivariate_hypergeometric(counts, n_small, size=size, method="marginals") @ values
        else:
            sums = rng.permuted(np.broadcast_to(pooled, (size, pooled.size)), axis=1)[:, :n_small].sum(axis=1)
        hits += int(np.count_nonzero(np.abs(sums) >= observed))
    return (hits + 1) / (total + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTable:
    """Two groups as sums over clusters: all that resampling whole clusters needs (SPEC 15.4).

    Attributes
    ----------
    sums : ndarray, shape (clusters, 4)
        Per cluster: rows and sum of the first group, rows and sum of the second.
    """

    sums: Floats

    @classmethod
    def of(cls, a: Floats, b: Floats, clusters_a: Ints, clusters_b: Ints) -> ClusterTable:
        """Sum two groups' values over clusters; the codes are shared by both groups."""
        n_clusters = int(max(clusters_a.max(initial=-1), clusters_b.max(initial=-1))) + 1
        columns = [
            np.bincount(codes, weights=weights, minlength=n_clusters)
            for values, codes in ((a, clusters_a), (b, clusters_b))
            for weights in (None, values)
        ]
        sums = np.column_stack(columns).astype(float)
        return cls(sums=sums[(sums[:, [0, 2]] > 0).any(axis=1)])

    @property
    def nested(self) -> bool:
        """Whether every cluster lies in one group."""
        return not ((self.sums[:, 0] > 0) & (self.sums[:, 2] > 0)).any()

    @property
    def n_clusters(self) -> tuple[int, int]:
        """Clusters with rows in the first group, and in the second."""
        return int((self.sums[:, 0] > 0).sum()), int((self.sums[:, 2] > 0).sum())

    @property
    def sufficient(self) -> bool:
        """Whether each group has the clusters that resampling needs (5)."""
        return min(self.n_clusters) >= MIN_CLUSTERS

    @property
    def gap(self) -> float:
        """Difference of the two means over rows."""
        n_a, sum_a, n_b, sum_b = self.sums.sum(axis=0)
        return float(sum_a / n_a - sum_b / n_b)


def cluster_bootstrap(
    table: ClusterTable, *, resamples: int, confidence_level: float, seed: int
) -> tuple[float, float]:
    """Limits of the gap from resampling whole clusters, each with all its rows (SPEC 15.4).

    Clusters that lie in one group are drawn within it; clusters that span both are drawn once for both, which keeps
    what the groups share. Percentiles are those of the t law with (clusters of the smaller group - 1) degrees of
    freedom, widened by sqrt(G/(G-1)), because plain percentiles of few clusters are too narrow.

    Parameters
    ----------
    table : ClusterTable
    resamples : int
    confidence_level : float
        In (0, 1).
    seed : int

    Returns
    -------
    tuple of float
        ``(low, high)``.

    Raises
    ------
    UndefinedError
        With fewer than 5 clusters in a group.

    References
    ----------
    Davison & Hinkley (1997), Bootstrap Methods and their Application, 3.8; expanded percentiles: Hesterberg (2015),
    Am. Stat. 69:371-386.
    """
    check_confidence_level(confidence_level)
    if not table.sufficient:
        raise UndefinedError("clusters", table.n_clusters, f"needs at least {MIN_CLUSTERS} clusters in each group")
    rng, total = np.random.default_rng(seed), _resamples(resamples)
    in_first = table.sums[:, 0] > 0
    strata = [table.sums[in_first], table.sums[~in_first]] if table.nested else [table.sums]
    drawn = np.sum([_resampled_sums(stratum, total, rng) for stratum in strata], axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):  # a resample may leave a group without rows
        gaps = drawn[:, 1] / drawn[:, 0] - drawn[:, 3] / drawn[:, 2]
    from scipy.special import ndtr, stdtrit

    smaller = min(table.n_clusters)
    t = -float(stdtrit(smaller - 1, (1.0 - confidence_level) / 2.0))
    widened = 1.0 - 2.0 * float(ndtr(-t * math.sqrt(smaller / (smaller - 1.0))))
    return _percentiles(gaps[np.isfinite(gaps)], widened)


def _resampled_sums(sums: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Draw as many clusters as there are: alike ones are drawn together, by their number."""
    kinds, counts = np.unique(sums, axis=0, return_counts=True)
    parts = [
        rng.multinomial(counts.sum(), counts / counts.sum(), size=size) @ kinds
        for size in _chunks(resamples, len(kinds))
    ]
    return np.concatenate(parts)


def cluster_permutation_p(table: ClusterTable, *, permutations: int, seed: int) -> float:
    """Two-sided p-value of the gap with whole clusters as the units (SPEC 15.4).

    Clusters that lie in one group exchange their groups. Where clusters span both groups, the part u of each in the
    gap about the pooled mean m, u = (s_a - m n_a)/N_a - (s_b - m n_b)/N_b, keeps or changes its sign.

    Parameters
    ----------
    table : ClusterTable
    permutations : int
    seed : int

    Returns
    -------
    float
        In [1/(permutations + 1), 1].

    Raises
    ------
    UndefinedError
        With fewer than 5 clusters in a group.
    """
    if not table.sufficient:
        raise UndefinedError("clusters", table.n_clusters, f"needs at least {MIN_CLUSTERS} clusters in each group")
    rng, total = np.random.default_rng(seed), _resamples(permutations)
    hits = sum(
        _exchanged_hits(table, size, rng) if table.nested else _flipped_hits(table, size, rng)
        for size in _chunks(total, len(table.sums))
    )
    return (hits + 1) / (total + 1)


def _exchanged_hits(table: ClusterTable, size: int, rng: np.random.Generator) -> int:
    rows, sums = table.sums[:, 0] + table.sums[:, 2], table.sums[:, 1] + table.sums[:, 3]
    sums = sums - rows * (sums.sum() / rows.sum())  # about the pooled mean, so that the gap is one group's sum
    first = table.sums[:, 0] > 0
    order = rng.permuted(np.broadcast_to(first, (size, first.size)), axis=1)
    n_first, sum_first = order @ rows, order @ sums
    gaps = np.abs(sum_first * (1.0 / n_first + 1.0 / (rows.sum() - n_first)))
    observed = abs(table.gap) - TIE * float(np.abs(sums).sum())
    return int(np.count_nonzero(gaps >= observed))


def _flipped_hits(table: ClusterTable, size: int, rng: np.random.Generator) -> int:
    n_a, sum_a, n_b, sum_b = table.sums.sum(axis=0)
    mean = (sum_a + sum_b) / (n_a + n_b)
    parts = (table.sums[:, 1] - mean * table.sums[:, 0]) / n_a - (table.sums[:, 3] - mean * table.sums[:, 2]) / n_b
    signs = rng.integers(0, 2, (size, parts.size), dtype=np.int8) * 2 - 1
    observed = abs(float(parts.sum())) - TIE * float(np.abs(parts).sum())
    return int(np.count_nonzero(np.abs(signs @ parts) >= observed))


def _chunks(total: int, width: int) -> Iterator[int]:
    step = max(1, CHUNK // max(1, width))
    for start in range(0, total, step):
        yield min(step, total - start)


def _tails(confidence_level: float) -> tuple[float, float]:
    tail = (1.0 - confidence_level) / 2.0
    return tail, 1.0 - tail


def _percentiles(gaps: Floats, confidence_level: float) -> tuple[float, float]:
    check_confidence_level(confidence_level)
    low, high = np.quantile(gaps, _tails(confidence_level))
    return float(low), float(high)


def _resamples(number: int) -> int:
    if whole_count("resamples", number) < 1:
        raise UndefinedError("resamples", number, "needs at least 1")
    return int(number)
