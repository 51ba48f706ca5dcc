"""The gap between two groups with an interval and a p-value (SPEC 15.4): arguments and keys of the published functions.

A 0/1 outcome goes by closed forms, other outcomes by resampling, and clustered rows by whole clusters. What could not
be evaluated says so: it has no number, and is never significant.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from core.errors import UndefinedError
from core.fairness.columns import coded, numeric
from core.inference.clusters import cluster_sums, effective_sample
from core.inference.intervals import check_confidence_level, normal_quantile
from core.inference.proportions import exact_permutation_p, is_significant, newcombe_limits
from core.inference.resampling import (
    ClusterTable,
    binomial_bootstrap,
    cluster_bootstrap,
    cluster_permutation_p,
    mean_bootstrap,
    mean_permutation_p,
)

SMALL_SAMPLE = 30
"""Group size under which a report warns (the published functions' number)."""

Reason = Literal["empty_group", "missing_outcome", "few_clusters"]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoGroups:
    """Two groups' outcomes, read and looked at once.

    Attributes
    ----------
    a, b : ndarray of float
        Outcomes; NaN is a missing one.
    hits : tuple of int or None
        Ones in each group, if every outcome is 0 or 1.
    clusters : ClusterTable or None
    codes : tuple of ndarray or None
        Cluster of each row, where there are clusters.
    reason : str or None
        Why the gap cannot be evaluated.
    """

    a: Floats
    b: Floats
    hits: tuple[int, int] | None
    clusters: ClusterTable | None
    codes: tuple[Ints, Ints] | None
    reason: Reason | None

    @classmethod
    def of(cls, group_a: Any, group_b: Any, clusters_a: Any = None, clusters_b: Any = None) -> TwoGroups:
        """Read two groups; clusters are given for both or for none."""
        a, b = numeric(group_a, "group_a"), numeric(group_b, "group_b")
        ones = [_ones(group) for group in (a, b)]
        codes = _cluster_codes(a.size, b.size, clusters_a, clusters_b)
        reason: Reason | None = None
        if not (a.size and b.size):
            reason = "empty_group"
        elif any(count is None and np.isnan(group).any() for count, group in zip(ones, (a, b), strict=True)):
            reason = "missing_outcome"
        table = None if codes is None or reason else ClusterTable.of(a, b, *codes)
        if table is not None and not table.sufficient:
            reason = "few_clusters"
        hits = None if ones[0] is None or ones[1] is None else (ones[0], ones[1])
        return cls(a=a, b=b, hits=hits, clusters=table, codes=codes, reason=reason)

    @property
    def gap(self) -> float | None:
        """Difference of the means; None where a group is empty or an outcome missing."""
        return None if self.reason in ("empty_group", "missing_outcome") else self.difference

    @property
    def difference(self) -> float:
        """Difference of the means of groups that have them."""
        if self.hits is not None:
            return self.hits[0] / self.a.size - self.hits[1] / self.b.size
        return float(self.a.mean() - self.b.mean())

    def check(self) -> None:
        """Refuse what cannot be evaluated."""
        bounds: dict[Reason, tuple[str, object, str]] = {
            "empty_group": ("group", (self.a.size, self.b.size), "an empty group has no mean to compare"),
            "missing_outcome": ("group", "missing", "an outcome is missing; leave it out knowingly, or fill it"),
            "few_clusters": ("clusters", "too few", "each group needs at least 5 clusters"),
        }
        if self.reason is not None:
            raise UndefinedError(*bounds[self.reason])

    def interval(self, resamples: int, confidence: float, seed: int) -> tuple[float, float, str]:
        """Return low, high and how they were made."""
        n_a, n_b = self.a.size, self.b.size
        if self.clusters is not None and self.codes is not None:
            if self.hits is not None and (self.hits[0] in (0, n_a) or self.hits[1] in (0, n_b)):
                return *self._on_effective_sizes(self.codes, confidence), "newcombe_effective"
            limits = cluster_bootstrap(self.clusters, resamples=resamples, confidence_level=confidence, seed=seed)
            return *limits, "cluster_bootstrap"
        if self.hits is not None:
            rates = self.hits[0] / n_a, self.hits[1] / n_b
            low, high = newcombe_limits(rates[0], n_a, rates[1], n_b, z=normal_quantile(confidence))
            return float(low), float(high), "newcombe"
        return mean_bootstrap(self.a, self.b, resamples=resamples, confidence_level=confidence, seed=seed)

    def _on_effective_sizes(self, codes: tuple[Ints, Ints], confidence: float) -> tuple[float, float]:
        """Newcombe's limits, each group as its worth in independent rows: resampling takes a rate of 0 as known."""
        worth = [
            effective_sample(cluster_sums(cluster, group), clustered=True, confidence_level=confidence).n_effective
            for cluster, group in zip(codes, (self.a, self.b), strict=True)
        ]
        low, high = newcombe_limits(self.a.mean(), worth[0], self.b.mean(), worth[1], z=normal_quantile(confidence))
        return float(low), float(high)

    def p_value(self, permutations: int, seed: int) -> tuple[float, str]:
        """Return the two-sided p-value and how it was made."""
        if self.clusters is not None:
            p = cluster_permutation_p(self.clusters, permutations=permutations, seed=seed)
            return p, "cluster_permutation" if self.clusters.nested else "cluster_sign_flip"
        if self.hits is not None:
            return exact_permutation_p(self.hits[0], self.a.size, self.hits[1], self.b.size), "exact_permutation"
        return mean_permutation_p(self.a, self.b, permutations=permutations, seed=seed), "permutation"


def bootstrap_ci(
    group_a: Any,
    group_b: Any,
    n_resamples: int = 10_000,
    confidence: float = 0.95,
    random_state: int = 42,
    *,
    method: Literal["auto", "percentile"] = "auto",
    clusters_a: Any = None,
    clusters_b: Any = None,
) -> tuple[float, float, float]:
    """Gap of two groups, mean(a) - mean(b), with an interval (SPEC 15.4).

    Parameters
    ----------
    group_a, group_b : array_like
        Outcomes: numbers or booleans; lists, arrays, pandas and pyarrow columns.
    n_resamples : int
        Resamples, where there are any.
    confidence : float
        In (0, 1).
    random_state : int
        Seed of the resamples.
    method : {'auto', 'percentile'}
        ``percentile`` makes the percentile bootstrap interval of a 0/1 outcome, by binomial draws; it undercovers
        near 0 and 1, where ``auto`` (Newcombe's interval) does not.
    clusters_a, clusters_b : array_like, optional
        Cluster (prompt, scenario) of each row: whole clusters are then resampled.

    Returns
    -------
    tuple of float
        ``(gap, low, high)``. Newcombe's limits for a 0/1 outcome, never without width.

    Raises
    ------
    UndefinedError
        If a group is empty, an outcome is missing or infinite, a group has fewer than 5 clusters, or the level is
        outside (0, 1).

    References
    ----------
    Newcombe (1998), Stat. Med. 17:873-890; Efron & Tibshirani (1993).

    Examples
    --------
    >>> gap, low, high = bootstrap_ci([1] * 40 + [0] * 60, [1] * 25 + [0] * 75)
    >>> round(gap, 4), round(low, 4), round(high, 4)
    (0.15, 0.0201, 0.2731)
    """
    groups = _checked(group_a, group_b, clusters_a, clusters_b, confidence)
    if method == "percentile" and groups.hits is not None and groups.clusters is None:
        hits = groups.hits
        limits = binomial_bootstrap(
            hits[0], groups.a.size, hits[1], groups.b.size,
            resamples=n_resamples, confidence_level=confidence, seed=random_state,
        )  # fmt: skip
        return groups.difference, *limits
    low, high, _ = groups.interval(n_resamples, confidence, random_state)
    return groups.difference, low, high


def permutation_test(
    group_a: Any,
    group_b: Any,
    n_permutations: int = 10_000,
    random_state: int = 42,
    *,
    clusters_a: Any = None,
    clusters_b: Any = None,
) -> float:
    """Two-sided p-value of the gap under exchange of group labels (SPEC 15.3, 15.4).

    Parameters
    ----------
    group_a, group_b, clusters_a, clusters_b
        As in `bootstrap_ci`.
    n_permutations : int
        Permutations, where there are any.
    random_state : int
        Seed.

    Returns
    -------
    float
        In (0, 1]. Exact for a 0/1 outcome; else (hits + 1)/(n_permutations + 1), never 0.

    Raises
    ------
    UndefinedError
        If a group is empty, an outcome is missing or infinite, or a group has fewer than 5 clusters.

    References
    ----------
    Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9:39.

    Examples
    --------
    >>> round(permutation_test([1] * 14 + [0] * 38, [1] * 6 + [0] * 22), 4)  # comparing in floats gives .6059
    0.7873
    """
    groups = _checked(group_a, group_b, clusters_a, clusters_b)
    return groups.p_value(n_permutations, random_state)[0]


def significance_report(
    group_a: Any,
    group_b: Any,
    n_resamples: int = 10_000,
    n_permutations: int = 10_000,
    confidence: float = 0.95,
    random_state: int = 42,
    *,
    clusters_a: Any = None,
    clusters_b: Any = None,
) -> dict[str, Any]:
    """Gap, interval, p-value and verdict for two groups (SPEC 15.4).

    Parameters
    ----------
    group_a, group_b, n_resamples, n_permutations, confidence, random_state, clusters_a, clusters_b
        As in `bootstrap_ci` and `permutation_test`. `confidence` sets the interval and the verdict.

    Returns
    -------
    dict
        ``gap, ci_low, ci_high, p_value, significant, n_a, n_b, small_sample_warning``, and: ``status``
        (``evaluated`` or ``not_evaluable``), ``reason`` (``empty_group``, ``missing_outcome``, ``few_clusters``, or
        None), ``alpha`` (the p-value has to be below it), ``outcome`` (``binary`` or ``numeric``), ``ci_method``,
        ``p_method``, ``n_clusters`` (a pair, or None). What is not evaluable has None for gap, ends and p-value, and
        is not significant.

    Raises
    ------
    UndefinedError
        If an outcome is infinite or no number, or the level is outside (0, 1).

    Examples
    --------
    >>> report = significance_report([1] * 90 + [0] * 10, [1] * 10 + [0] * 90)
    >>> round(report["gap"], 4), f"{report['p_value']:.2g}", report["significant"], report["p_method"]
    (0.8, '6.7e-33', True, 'exact_permutation')
    >>> significance_report([], [0, 1])["status"]
    'not_evaluable'
    """
    check_confidence_level(confidence)
    groups = TwoGroups.of(group_a, group_b, clusters_a, clusters_b)
    return report_of(groups, n_resamples, n_permutations, confidence, random_state)


def report_of(
    groups: TwoGroups, n_resamples: int, n_permutations: int, confidence: float, random_state: int
) -> dict[str, Any]:
    """Return the report of two groups that were read already; see `significance_report`."""
    low = high = p = ci_method = p_method = None
    if groups.reason is None:
        low, high, ci_method = groups.interval(n_resamples, confidence, random_state)
        p, p_method = groups.p_value(n_permutations, random_state)
    return {
        "gap": groups.gap,
        "ci_low": low,
        "ci_high": high,
        "p_value": p,
        "significant": p is not None and is_significant(p, confidence),
        "n_a": groups.a.size,
        "n_b": groups.b.size,
        "small_sample_warning": min(groups.a.size, groups.b.size) < SMALL_SAMPLE,
        "status": "evaluated" if groups.reason is None else "not_evaluable",
        "reason": groups.reason,
        "alpha": round(1.0 - confidence, 12),
        "outcome": "numeric" if groups.hits is None else "binary",
        "ci_method": ci_method,
        "p_method": p_method,
        "n_clusters": None if groups.clusters is None else groups.clusters.n_clusters,
    }


def _checked(group_a: Any, group_b: Any, clusters_a: Any, clusters_b: Any, confidence: float = 0.95) -> TwoGroups:
    check_confidence_level(confidence)
    groups = TwoGroups.of(group_a, group_b, clusters_a, clusters_b)
    groups.check()
    return groups


def _ones(values: Floats) -> int | None:
    """How many are 1, if all are 0 or 1."""
    ones = int(np.count_nonzero(values == 1.0))
    return ones if ones + int(np.count_nonzero(values == 0.0)) == values.size else None


def _cluster_codes(n_a: int, n_b: int, clusters_a: Any, clusters_b: Any) -> tuple[Ints, Ints] | None:
    if clusters_a is None and clusters_b is None:
        return None
    if clusters_a is None or clusters_b is None:
        raise UndefinedError("clusters", "one group", "give the clusters of both groups, or of none")
    parts = [coded(clusters, name) for clusters, name in ((clusters_a, "clusters_a"), (clusters_b, "clusters_b"))]
    if tuple(part.codes.size for part in parts) != (n_a, n_b):
        raise UndefinedError("clusters", [part.codes.size for part in parts], f"one per row: {n_a} and {n_b}")
    known = {label: code for code, label in enumerate(dict.fromkeys(parts[0].labels + parts[1].labels))}
    places = [np.array([known[label] for label in part.labels], dtype=np.int64) for part in parts]
    n_known, codes = len(known), []
    for part, place in zip(parts, places, strict=True):
        alone = part.codes < 0  # a row without a cluster is its own
        code = np.where(alone, 0, place[part.codes]) if place.size else np.zeros(part.codes.size, dtype=np.int64)
        code[alone] = n_known + np.arange(int(alone.sum()))
        n_known += int(alone.sum())
        codes.append(code)
    return codes[0], codes[1]
