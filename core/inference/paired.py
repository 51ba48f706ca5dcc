"""Tests of a change between two releases (SPEC 10.3): paired, paired within clusters, and unpaired.

All work on the judge's flags. Under one calibration the corrected rates are equal exactly when the flag rates are, so
the calibration's error drops out of the test.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.errors import UndefinedError
from core.inference.intervals import whole_count

DRAWS = 9_999
"""Monte-Carlo draws of a permutation test: with the observed arrangement they are 10,000."""

EXACT_WORK = 50_000_000
"""Multiplications up to which the permutation distribution is worked out in full (well under a second)."""

SMALLEST_P = sys.float_info.min
"""An exact p-value below what a float can hold is reported as this: no test shows that something is impossible."""

ChangeMethod = Literal[
    "mcnemar_exact", "cluster_sign_flip_exact", "cluster_sign_flip_monte_carlo",
    "score_n_minus_1", "fisher_exact", "wald",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeTest:
    """A two-sided test.

    Attributes
    ----------
    p_value : float
        In (0, 1].
    method : str
    """

    p_value: float
    method: ChangeMethod

    def __post_init__(self) -> None:
        """Refuse a p-value that no test has."""
        if not 0.0 < self.p_value <= 1.0:
            raise UndefinedError("p_value", self.p_value, "must lie in (0, 1]")


def mcnemar_test(n_candidate_only: int, n_baseline_only: int) -> ChangeTest:
    """Exact McNemar test on the pairs that changed (SPEC 10.3).

    p = min(1, 2 P(X <= min(n01, n10))), X binomial with n01 + n10 trials and probability 1/2.

    Parameters
    ----------
    n_candidate_only, n_baseline_only : int
        Pairs flagged in one release alone (n01, n10).

    Returns
    -------
    ChangeTest
        p = 1 without a change.

    Raises
    ------
    UndefinedError
        If a count is no whole number >= 0.

    References
    ----------
    McNemar (1947), Psychometrika 12:153-157; exact: Mosteller (1952), Biometrics 8:220-226.

    Examples
    --------
    >>> round(mcnemar_test(12, 3).p_value, 6)
    0.035156
    """
    n01 = whole_count("n_candidate_only", n_candidate_only)
    n10 = whole_count("n_baseline_only", n_baseline_only)
    return ChangeTest(p_value=_twice_binomial_tail(min(n01, n10), n01 + n10), method="mcnemar_exact")


def sign_flip_test(
    changes: Mapping[int, int], *, rng: np.random.Generator, draws: int = DRAWS, exact_work: int = EXACT_WORK
) -> ChangeTest:
    """Sign-flip permutation test of whole clusters (SPEC 10.3).

    Under the null the two releases are exchangeable within a cluster, so that each cluster's change d(g), flagged in
    the candidate minus flagged in the baseline, has either sign with probability 1/2: p = P(|Σ ±d(g)| >= |Σ d(g)|).

    Parameters
    ----------
    changes : mapping of int to int
        How many clusters have each change d(g).
    rng : numpy.random.Generator
        Used only when the distribution is too large to work out.
    draws : int
        Monte-Carlo draws B; p is then (b + 1) / (B + 1).
    exact_work : int
        Multiplications up to which all arrangements are counted.

    Returns
    -------
    ChangeTest
        p = 1 without a change, never 0; at least 2^(1-G) with G changed clusters. Clusters of one pair give
        McNemar's p.

    Raises
    ------
    UndefinedError
        If a number of clusters is negative, or ``draws`` is below 100.

    References
    ----------
    Fisher (1935), The Design of Experiments, 21; Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9:39.

    Examples
    --------
    >>> generator = np.random.default_rng(7)
    >>> round(sign_flip_test({5: 1, 3: 1, 2: 1, -1: 1}, rng=generator).p_value, 6)  # 9 or more of 11
    0.25
    """
    if draws < 100:
        raise UndefinedError("draws", draws, "needs at least 100 draws")
    if min(changes.values(), default=0) < 0:
        raise UndefinedError("changes", min(changes.values()), "a number of clusters is at least 0")
    moved = sorted({abs(change) for change, count in changes.items() if change and count})
    sizes = {size: changes.get(size, 0) + changes.get(-size, 0) for size in moved}
    observed = abs(sum(change * count for change, count in changes.items()))
    total = sum(size * count for size, count in sizes.items())
    if observed == 0:
        return ChangeTest(p_value=1.0, method="cluster_sign_flip_exact")
    # With X the sum of the sizes that get a minus, |Σ ±d| >= observed is X <= reach, or the same on the other side.
    reach = (total - observed) // 2
    if len(sizes) == 1:
        ((size, count),) = sizes.items()
        return ChangeTest(p_value=_twice_binomial_tail(reach // size, count), method="cluster_sign_flip_exact")
    if sum(min(count, reach // size) + 1 for size, count in sizes.items()) * (reach + 1) <= exact_work:
        return ChangeTest(p_value=_exact_flips(sizes, reach), method="cluster_sign_flip_exact")
    return ChangeTest(p_value=_drawn_flips(sizes, observed, rng, draws), method="cluster_sign_flip_monte_carlo")


def _exact_flips(sizes: Mapping[int, int], reach: int) -> float:
    """Twice the probability that the flipped sizes add up to `reach` at most, by convolution of their laws."""
    from scipy.stats import binom

    law = np.zeros(reach + 1)
    law[0] = 1.0
    for size, count in sizes.items():
        most = min(count, reach // size)
        before, law = law, np.zeros(reach + 1)
        for k, share in enumerate(binom.pmf(np.arange(most + 1), count, 0.5)):
            law[k * size :] += share * before[: reach + 1 - k * size]
    return _proper_p(2.0 * float(law.sum()))


def _drawn_flips(sizes: Mapping[int, int], observed: int, rng: np.random.Generator, draws: int) -> float:
    drawn = np.zeros(draws, np.int64)
    for size, count in sizes.items():
        drawn += size * (2 * rng.binomial(count, 0.5, draws) - count)
    return (int((np.abs(drawn) >= observed).sum()) + 1) / (draws + 1)


def two_sample_test(
    rate_baseline: float,
    n_baseline: float,
    rate_candidate: float,
    n_candidate: float,
    *,
    degrees_of_freedom: float | None = None,
) -> ChangeTest:
    """Test of equal flag rates in two independent samples (SPEC 10.3).

    Pearson's score statistic with N - 1 for N,
    z = (pB - pA) / √(p(1-p)(1/nA + 1/nB)) · √((N-1)/N), p the pooled rate and N = nA + nB; Fisher's exact test on
    rounded counts where an expected count is below 1.

    Parameters
    ----------
    rate_baseline, rate_candidate : float
        In [0, 1].
    n_baseline, n_candidate : float
        Effective sizes, without a t factor; greater than 0.
    degrees_of_freedom : float, optional
        Of the variance between clusters: Student's law then stands for the normal one.

    Returns
    -------
    ChangeTest
        p = 1 when both rates are 0, or both 1.

    Raises
    ------
    UndefinedError
        If a rate is outside [0, 1] or a size is not above 0.

    References
    ----------
    Campbell (2007), Stat. Med. 26:3661-3675.

    Examples
    --------
    >>> round(two_sample_test(0.30, 100, 0.45, 100).p_value, 4)
    0.0289
    """
    for name, rate in (("rate_baseline", rate_baseline), ("rate_candidate", rate_candidate)):
        if not 0.0 <= rate <= 1.0:
            raise UndefinedError(name, rate, "must lie in [0, 1]")
    for name, size in (("n_baseline", n_baseline), ("n_candidate", n_candidate)):
        if not (size > 0.0 and math.isfinite(size)):
            raise UndefinedError(name, size, "must be finite and greater than 0")
    total = n_baseline + n_candidate
    pooled = (rate_baseline * n_baseline + rate_candidate * n_candidate) / total
    if rate_baseline == rate_candidate:
        return ChangeTest(p_value=1.0, method="score_n_minus_1")
    if min(n_baseline, n_candidate) * min(pooled, 1.0 - pooled) < 1.0:
        return ChangeTest(
            p_value=_fisher(rate_baseline, n_baseline, rate_candidate, n_candidate), method="fisher_exact"
        )
    variance = pooled * (1.0 - pooled) * (1.0 / n_baseline + 1.0 / n_candidate) * total / (total - 1.0)
    z = (rate_candidate - rate_baseline) / math.sqrt(variance)
    return ChangeTest(p_value=two_sided_p(z, degrees_of_freedom), method="score_n_minus_1")


def two_sided_p(statistic: float, degrees_of_freedom: float | None = None) -> float:
    """Two-sided p of a standardised statistic, from the normal law or Student's (SPEC 10.3).

    Parameters
    ----------
    statistic : float
    degrees_of_freedom : float, optional
        Greater than 0; the normal law when absent.

    Returns
    -------
    float
        In (0, 1].

    Examples
    --------
    >>> round(two_sided_p(1.959964), 4), round(two_sided_p(1.959964, 9), 4)
    (0.05, 0.0817)
    """
    from scipy.special import ndtr, stdtr

    tail = ndtr(-abs(statistic)) if degrees_of_freedom is None else stdtr(degrees_of_freedom, -abs(statistic))
    return _proper_p(2.0 * float(tail))


def _fisher(rate_baseline: float, n_baseline: float, rate_candidate: float, n_candidate: float) -> float:
    from scipy.stats import fisher_exact

    sizes = np.rint([n_baseline, n_candidate]).astype(np.int64)
    flagged = np.rint([rate_baseline * sizes[0], rate_candidate * sizes[1]]).astype(np.int64)
    table = np.stack([flagged, sizes - flagged], axis=1)
    return _proper_p(float(fisher_exact(table).pvalue))


def _twice_binomial_tail(at_most: int, trials: int) -> float:
    from scipy.stats import binom

    return 1.0 if trials == 0 else _proper_p(2.0 * float(binom.cdf(at_most, trials, 0.5)))


def _proper_p(value: float) -> float:
    return min(1.0, max(SMALLEST_P, value))
