"""How many independent traces a clustered sample is worth (SPEC 5.1).

Golden sets are written from templates and production replicates attack vectors, so traces come in groups that
err together. Everything here works from sums over clusters, which add over files, workers and machines.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UndefinedError
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, part_of_whole, quantile_and_level

FEW_CLUSTERS = 10
"""Below this many clusters (in all, or holding the rarer outcome) the variance between clusters is badly
known: simulated coverage of a .95 interval is .87-.89 for a very good judge on few large clusters."""

FLOOR_CORRELATION = 0.1
"""Intra-cluster correlation assumed at the least when the rarer outcome sits in fewer than FEW_CLUSTERS
clusters: with it the same simulated coverage is .94-.99."""

EMPTY = "empty"
ONE_CLUSTER = "one_cluster"
ZERO_VARIANCE = "zero_variance"
DESIGN_EFFECT_FLOOR = "design_effect_floor"
FEW = "few_clusters"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterSums:
    """Sufficient statistics of a 0/1 outcome in clusters of sizes n_g with x_g events (SPEC 5.1).

    ``+`` adds two of them, which is right ONLY when no cluster has traces in both: a cluster split over two
    parts has to be brought together first.

    Attributes
    ----------
    n : int
        Traces, sum of n_g.
    events : int
        Traces with the outcome, sum of x_g, in [0, n].
    n_clusters : int
        Clusters with at least one trace.
    sum_n2, sum_nx, sum_x2 : int
        Sums over clusters of n_g^2, n_g x_g and x_g^2.
    clusters_with_events, clusters_with_nonevents : int
        Clusters that hold at least one event, at least one non-event.
    """

    n: int
    events: int
    n_clusters: int
    sum_n2: int
    sum_nx: int
    sum_x2: int
    clusters_with_events: int
    clusters_with_nonevents: int

    def __post_init__(self) -> None:
        """Refuse sums that no clusters can have."""
        part_of_whole("events", self.events, "n", self.n)
        part_of_whole("n_clusters", self.n_clusters, "n", self.n)
        part_of_whole("clusters_with_events", self.clusters_with_events, "n_clusters", self.n_clusters)
        part_of_whole("clusters_with_nonevents", self.clusters_with_nonevents, "n_clusters", self.n_clusters)
        if not 0 <= self.sum_x2 <= self.sum_nx <= self.sum_n2:
            raise UndefinedError("sum_nx", self.sum_nx, "must lie between sum_x2 and sum_n2")

    def __add__(self, other: ClusterSums) -> ClusterSums:
        """Sums of two samples that share no cluster."""
        return ClusterSums(
            n=self.n + other.n,
            events=self.events + other.events,
            n_clusters=self.n_clusters + other.n_clusters,
            sum_n2=self.sum_n2 + other.sum_n2,
            sum_nx=self.sum_nx + other.sum_nx,
            sum_x2=self.sum_x2 + other.sum_x2,
            clusters_with_events=self.clusters_with_events + other.clusters_with_events,
            clusters_with_nonevents=self.clusters_with_nonevents + other.clusters_with_nonevents,
        )

    @classmethod
    def of_independent(cls, n: int, events: int) -> ClusterSums:
        """Sums of ``n`` traces that are each their own cluster.

        Raises
        ------
        UndefinedError
            If a count is no whole number or ``events`` is outside [0, n].

        Examples
        --------
        >>> ClusterSums.of_independent(25, 11).n_clusters
        25
        """
        x, n = part_of_whole("events", events, "n", n)
        return cls(
            n=n,
            events=x,
            n_clusters=n,
            sum_n2=n,
            sum_nx=x,
            sum_x2=x,
            clusters_with_events=x,
            clusters_with_nonevents=n - x,
        )


def cluster_sums(cluster_codes: ArrayLike, events: ArrayLike, weights: ArrayLike | None = None) -> ClusterSums:
    """Sum a 0/1 outcome over clusters (SPEC 5.1).

    Parameters
    ----------
    cluster_codes : array_like of int, shape (n,)
        Cluster of each trace, >= 0, as ``numpy.unique(..., return_inverse=True)`` gives. Unused codes cost
        memory and count for nothing.
    events : array_like, shape (n,)
        1 or True where the trace has the outcome, else 0.
    weights : array_like of int, shape (n,), optional
        How many traces each row stands for, >= 0; 1 when absent.

    Returns
    -------
    ClusterSums

    Raises
    ------
    UndefinedError
        If the lengths differ, a code is negative or no integer, an event is not 0 or 1, or a weight is no
        whole number >= 0.

    Examples
    --------
    >>> sums = cluster_sums([0, 0, 1, 1, 1], [1, 0, 0, 0, 0])
    >>> sums.n, sums.n_clusters, sums.sum_n2, sums.clusters_with_events
    (5, 2, 13, 1)
    """
    codes = np.asarray(cluster_codes)
    outcome = np.asarray(events)
    if codes.size == 0:
        codes = codes.astype(np.int64)
    weight = np.ones(codes.shape) if weights is None else np.asarray(weights)
    _check_rows(codes, outcome, weight)
    sizes = _per_cluster(codes, weight)
    counts = _per_cluster(codes, weight * outcome)
    return ClusterSums(
        n=int(sizes.sum()),
        events=int(counts.sum()),
        n_clusters=int(np.count_nonzero(sizes)),
        sum_n2=int(sizes @ sizes),
        sum_nx=int(sizes @ counts),
        sum_x2=int(counts @ counts),
        clusters_with_events=int(np.count_nonzero(counts)),
        clusters_with_nonevents=int(np.count_nonzero(sizes > counts)),
    )


def _per_cluster(codes: NDArray[Any], values: NDArray[Any]) -> NDArray[np.int64]:
    # bincount adds in float64, which holds whole numbers exactly far beyond any number of traces.
    return np.bincount(codes, weights=values).astype(np.int64)


def _check_rows(codes: NDArray[Any], outcome: NDArray[Any], weight: NDArray[Any]) -> None:
    if codes.ndim != 1 or codes.shape != outcome.shape or codes.shape != weight.shape:
        shapes = (codes.shape, outcome.shape, weight.shape)
        raise UndefinedError("cluster_codes", shapes, "codes, events and weights are one-dimensional, of one length")
    if codes.dtype.kind not in "iu" or (codes.size and codes.min() < 0):
        raise UndefinedError("cluster_codes", str(codes.dtype), "codes are integers >= 0")
    if not np.isin(outcome, (0, 1)).all():
        raise UndefinedError("events", np.unique(outcome)[:5].tolist(), "an event is 0 or 1")
    if not (np.isfinite(weight) & (weight >= 0) & (weight == np.floor(weight))).all():
        raise UndefinedError("weights", np.unique(weight)[:5].tolist(), "a weight is a whole number >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveSample:
    """What a sample is worth in independent traces, n / design effect * t factor (SPEC 5.1).

    Attributes
    ----------
    n : int
        Traces.
    n_clusters : int
        Clusters (equal to ``n`` when traces are independent).
    clustered : bool
        Whether clusters were taken into account.
    design_effect : float
        Variance of the proportion over that of as many independent traces, >= 1.
    t_factor : float
        (z / t)^2 with n_clusters - 1 degrees of freedom, in (0, 1]; 1 without clusters.
    n_effective : float
        In [0, n]; 0 when nothing can be said (no trace, or one cluster).
    n_clusters_with_minority : int
        Clusters that hold the rarer outcome.
    notes : tuple of str
        Codes: ``empty``, ``one_cluster``, ``few_clusters``, ``zero_variance``, ``design_effect_floor``.
    """

    n: int
    n_clusters: int
    clustered: bool
    design_effect: float
    t_factor: float
    n_effective: float
    n_clusters_with_minority: int
    notes: tuple[str, ...]

    def __post_init__(self) -> None:
        """Refuse a sample that is worth more than it holds."""
        if not 0.0 <= self.n_effective <= self.n:
            raise UndefinedError("n_effective", self.n_effective, f"must lie in [0, {self.n}]")
        if not (self.design_effect >= 1.0 and 0.0 < self.t_factor <= 1.0):
            raise UndefinedError("design_effect", (self.design_effect, self.t_factor), "needs >= 1 and (0, 1]")


def effective_sample(
    sums: ClusterSums,
    *,
    clustered: bool,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    z: float | None = None,
) -> EffectiveSample:
    """Effective number of independent traces behind a proportion (SPEC 5.1).

    With v = G/(G-1) sum (x_g - p n_g)^2 / n^2 the design effect is max(1, v / (p(1-p)/n)), not below
    1 + 0.1 (n/G - 1) while fewer than 10 clusters hold the rarer outcome, and
    n_effective = n / design effect * (z / t_{G-1})^2.

    Parameters
    ----------
    sums : ClusterSums
        One class of the golden set, or production.
    clustered : bool
        Whether the data name clusters. If not, the traces are taken as independent and keep their number.
    confidence_level : float
        In (0, 1); the level of the interval that will be made, for the t quantile.
    z : float, optional
        Overrides the normal quantile; the t quantile is then taken at the level of this ``z``.

    Returns
    -------
    EffectiveSample
        At p = 0 or 1 the design effect is 0/0 and the sample is worth its number of clusters, with note
        ``zero_variance``. No trace, or a single cluster, is worth 0.

    Raises
    ------
    UndefinedError
        If the level is outside (0, 1) or ``z`` is not positive.

    References
    ----------
    Variance of a ratio: Cochran (1977), Sampling Techniques, ch. 9. Design effect: Kish (1965), Survey
    Sampling.

    Examples
    --------
    >>> codes = [g for g in range(20) for _ in range(5)]
    >>> flagged = [int(g < 10) for g in codes]  # whole clusters agree: 100 traces are worth fewer than 20
    >>> sample = effective_sample(cluster_sums(codes, flagged), clustered=True)
    >>> round(sample.design_effect, 3), round(sample.n_effective, 2)
    (5.263, 16.66)
    >>> effective_sample(ClusterSums.of_independent(100, 50), clustered=False).n_effective
    100.0
    """
    z, level = quantile_and_level(confidence_level, z)
    if sums.n == 0:
        return _sample(sums, clustered, worth=0.0, notes=(EMPTY,))
    if not clustered:
        return _sample(sums, clustered, worth=float(sums.n))
    if sums.n_clusters == 1:
        return _sample(sums, clustered, worth=0.0, notes=(ONE_CLUSTER,))
    few = (FEW,) if sums.n_clusters < FEW_CLUSTERS else ()
    if sums.events in (0, sums.n):
        design_effect = sums.n / sums.n_clusters
        return _sample(
            sums,
            clustered,
            design_effect=design_effect,
            worth=float(sums.n_clusters),
            notes=(*few, ZERO_VARIANCE),
        )
    measured, floor = max(1.0, _design_effect(sums)), _design_effect_floor(sums)
    notes = (*few, DESIGN_EFFECT_FLOOR) if floor > measured else few
    design_effect = max(measured, floor)
    factor = t_factor(sums.n_clusters, confidence_level=level, z=z)
    worth = sums.n / design_effect * factor
    return _sample(sums, clustered, design_effect=design_effect, t_factor=factor, worth=worth, notes=notes)


def t_factor(n_clusters: int, *, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL, z: float | None = None) -> float:
    """Cost of not knowing the variance between clusters, (z / t)^2 with n_clusters - 1 degrees of freedom (SPEC 5.1).

    Parameters
    ----------
    n_clusters : int
        At least 2.
    confidence_level, z
        As in `effective_sample`.

    Returns
    -------
    float
        In (0, 1], towards 1 with many clusters; smaller at higher levels.

    Examples
    --------
    >>> round(t_factor(10), 3), round(t_factor(10, confidence_level=0.99), 3)
    (0.751, 0.628)
    """
    z, level = quantile_and_level(confidence_level, z)
    return min(1.0, (z / _t_quantile(n_clusters - 1, level)) ** 2)


def _sample(
    sums: ClusterSums,
    clustered: bool,
    *,
    worth: float,
    design_effect: float = 1.0,
    t_factor: float = 1.0,
    notes: tuple[str, ...] = (),
) -> EffectiveSample:
    return EffectiveSample(
        n=sums.n,
        n_clusters=sums.n_clusters,
        clustered=clustered,
        design_effect=design_effect,
        t_factor=t_factor,
        n_effective=worth,
        n_clusters_with_minority=_clusters_with_minority(sums),
        notes=notes,
    )


def _clusters_with_minority(sums: ClusterSums) -> int:
    rarer_first = sorted(
        [(sums.events, sums.clusters_with_events), (sums.n - sums.events, sums.clusters_with_nonevents)]
    )
    return rarer_first[0][1]


def _design_effect(sums: ClusterSums) -> float:
    # sum (x_g - p n_g)^2 subtracts large near-equal terms: whole numbers keep it exact, one division rounds.
    n, x, clusters = int(sums.n), int(sums.events), int(sums.n_clusters)
    squares = n * n * int(sums.sum_x2) - 2 * n * x * int(sums.sum_nx) + x * x * int(sums.sum_n2)
    return (clusters * squares) / ((clusters - 1) * n * x * (n - x))


def _design_effect_floor(sums: ClusterSums) -> float:
    if _clusters_with_minority(sums) >= FEW_CLUSTERS:
        return 1.0
    return 1.0 + FLOOR_CORRELATION * (sums.n / sums.n_clusters - 1.0)


def _t_quantile(degrees_of_freedom: int, confidence_level: float) -> float:
    from scipy.special import stdtrit  # 0.3 s to import: not every command needs it

    return -float(stdtrit(degrees_of_freedom, (1.0 - confidence_level) / 2.0))
