"""Two or more proportions side by side: intervals, the exact p-value, and one test for all (SPEC 15.2, 15.3).

Functions of arrays take effective, possibly non-integer sample sizes, so that clusters go through them unchanged.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UndefinedError
from core.inference.intervals import (
    DEFAULT_CONFIDENCE_LEVEL,
    Interval,
    check_confidence_level,
    normal_quantile,
    part_of_whole,
    whole_count,
)

SMALLEST_P = sys.float_info.min
"""No p-value is 0: where the exact one is below what a double holds (2e-308), it is this."""

MIN_EXPECTED = 5.0
"""Expected count under which the chi-square law is not taken for the homogeneity statistic (Cochran 1954)."""

HOMOGENEITY_DRAWS = 9_999

TIE = 1e-9
"""Relative difference below which two homogeneity statistics are one: they are sums of fractions."""

_Floats = NDArray[np.float64]


def newcombe_interval(
    k1: int, n1: int, k2: int, n2: int, *, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL
) -> Interval:
    """Newcombe's interval of the difference of two proportions, k1/n1 - k2/n2 (SPEC 15.2).

    With Wilson limits (l, u) of each, d - sqrt((p1-l1)² + (u2-p2)²) to d + sqrt((u1-p1)² + (p2-l2)²).

    Parameters
    ----------
    k1, k2 : int
        Events, in [0, n].
    n1, n2 : int
        Independent units, at least 1.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    Interval
        Inside [-1, 1], never of zero width.

    Raises
    ------
    UndefinedError
        If a count is no whole number or outside its range, or a group is empty.

    References
    ----------
    Newcombe (1998), Stat. Med. 17:873-890, method 10.

    Examples
    --------
    >>> interval = newcombe_interval(40, 100, 25, 100)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.020133, 0.27313)
    """
    (k1, n1), (k2, n2) = _pair(k1, n1, k2, n2)
    low, high = newcombe_limits(k1 / n1, n1, k2 / n2, n2, z=normal_quantile(confidence_level))
    return Interval(low=float(low), high=float(high), confidence_level=confidence_level, method="newcombe")


def wilson_arrays(rate: ArrayLike, n: ArrayLike, *, z: float) -> tuple[_Floats, _Floats]:
    """Textbook Wilson limits (SPEC 6.2) of many proportions at once; exactly 0 at rate 0 and 1 at rate 1.

    Parameters
    ----------
    rate : array_like
        In [0, 1].
    n : array_like
        Effective sizes, greater than 0.
    z : float
        Normal quantile, greater than 0.

    Returns
    -------
    tuple of ndarray
        ``(low, high)`` inside [0, 1].
    """
    rate, n = np.asarray(rate, dtype=float), np.asarray(n, dtype=float)
    shrink = z * z / n
    centre = (rate + shrink / 2.0) / (1.0 + shrink)
    half = z / (1.0 + shrink) * np.sqrt(rate * (1.0 - rate) / n + shrink / (4.0 * n))
    # At the borders the algebra gives 0 and 1 exactly and only rounding disturbs it.
    low = np.where(rate == 0.0, 0.0, np.maximum(0.0, centre - half))
    high = np.where(rate == 1.0, 1.0, np.minimum(1.0, centre + half))
    return low, high


def newcombe_limits(
    rate1: ArrayLike, n1: ArrayLike, rate2: ArrayLike, n2: ArrayLike, *, z: float
) -> tuple[_Floats, _Floats]:
    """Newcombe limits of rate1 - rate2 for arrays and effective sizes (SPEC 15.2); see `newcombe_interval`."""
    p1, p2 = np.asarray(rate1, dtype=float), np.asarray(rate2, dtype=float)
    (low1, high1), (low2, high2) = wilson_arrays(p1, n1, z=z), wilson_arrays(p2, n2, z=z)
    difference = p1 - p2
    low = difference - np.hypot(p1 - low1, high2 - p2)
    high = difference + np.hypot(high1 - p1, p2 - low2)
    return np.maximum(low, -1.0), np.minimum(high, 1.0)


def ratio_limits(
    rate1: ArrayLike, n1: ArrayLike, rate2: ArrayLike, n2: ArrayLike, *, z: float
) -> tuple[_Floats, _Floats]:
    """Limits of rate1 / rate2 from the Wilson limits of both, MOVER-R (SPEC 15.2).

    Parameters
    ----------
    rate1, rate2 : array_like
        In [0, 1]; `rate2` greater than 0.
    n1, n2 : array_like
        Effective sizes, greater than 0.
    z : float
        Normal quantile.

    Returns
    -------
    tuple of ndarray
        ``(low, high)``, 0 <= low <= high; NaN where `rate2` is 0, since no ratio exists there.

    References
    ----------
    Donner & Zou (2012), Stat. Methods Med. Res. 21:347-359.

    Examples
    --------
    >>> low, high = ratio_limits(0.4, 1000, 0.6, 1000, z=1.959964)
    >>> round(float(low), 4), round(float(high), 4)
    (0.6083, 0.73)
    """
    p1, p2 = np.asarray(rate1, dtype=float), np.asarray(rate2, dtype=float)
    (low1, high1), (low2, high2) = wilson_arrays(p1, n1, z=z), wilson_arrays(p2, n2, z=z)
    product = p1 * p2
    # Both square roots are of differences of squares that only rounding can make negative. The lower limit is written
    # with its numerator rationalised, so that it exists where 2 p2 = u2.
    below = low1 * (2.0 * p1 - low1)
    root = np.sqrt(np.maximum(0.0, product**2 - below * high2 * (2.0 * p2 - high2)))
    with np.errstate(divide="ignore", invalid="ignore"):
        low = np.where(p1 == 0.0, 0.0, below / (product + root))
        beneath = low2 * (2.0 * p2 - low2)
        root = np.sqrt(np.maximum(0.0, product**2 - high1 * (2.0 * p1 - high1) * beneath))
        high = (product + root) / beneath
    undefined = p2 == 0.0
    return np.where(undefined, np.nan, low), np.where(undefined, np.nan, high)


def is_significant(p_value: float, confidence_level: float) -> bool:
    """Whether a p-value is below 1 - level, with both rounded: at it is not below it (SPEC 15.3).

    Parameters
    ----------
    p_value : float
        In [0, 1].
    confidence_level : float
        In (0, 1).

    Examples
    --------
    >>> 0.05 < 1 - 0.95, is_significant(0.05, 0.95), is_significant(0.0499, 0.95)
    (True, False, True)
    """
    return round(p_value, 12) < round(1.0 - confidence_level, 12)


def exact_permutation_p(k1: int, n1: int, k2: int, n2: int) -> float:
    """Exact two-sided p-value of a permutation of group labels, for a 0/1 outcome (SPEC 15.3).

    With K = k1 + k2 events among N = n1 + n2, a relabelling gives x of them to the first group with the hypergeometric
    law; p is the chance of |x N - K n1| >= |k1 N - K n1|, compared in whole numbers, so that ties are ties.

    Parameters
    ----------
    k1, k2 : int
        Events, in [0, n].
    n1, n2 : int
        Independent units, at least 1.

    Returns
    -------
    float
        In (0, 1]; exactly 1 where the rates are equal, never 0.

    Raises
    ------
    UndefinedError
        If a count is no whole number or outside its range, or a group is empty.

    References
    ----------
    Phipson & Smyth (2010), Stat. Appl. Genet. Mol. Biol. 9:39, on why no permutation p-value is 0.

    Examples
    --------
    >>> round(exact_permutation_p(40, 100, 25, 100), 6), exact_permutation_p(1, 20, 1, 60)
    (0.034144, 1.0)
    """
    (k1, n1), (k2, n2) = _pair(k1, n1, k2, n2)
    events, total = k1 + k2, n1 + n2
    distance = abs(k1 * total - events * n1)
    if distance == 0:
        return 1.0
    below = (events * n1 - distance) // total
    above = -((-events * n1 - distance) // total)
    if above == below + 1:
        return 1.0  # no relabelling is nearer: the sum below would be 1 but for rounding
    first, last = max(0, events - n2), min(events, n1)
    p = 0.0
    if below >= first:
        p += _tail(below, step=-1, count=below - first + 1, events=events, n1=n1, n2=n2)
    if above <= last:
        p += _tail(above, step=1, count=last - above + 1, events=events, n1=n1, n2=n2)
    return min(1.0, max(SMALLEST_P, p))


def _tail(start: int, *, step: int, count: int, events: int, n1: int, n2: int) -> float:
    """Sum hypergeometric probabilities from `start` outwards: one logarithm, then ratios of neighbours."""
    total = n1 + n2
    deviation = math.sqrt(n1 * n2 * events * (total - events) / total**2 / max(1, total - 1))
    count = min(count, int(12.0 * deviation) + 100)  # what lies beyond is below 1e-17 of the sum
    x = start + step * np.arange(count - 1, dtype=float)
    if step > 0:
        ratios = (events - x) * (n1 - x) / ((x + 1.0) * (n2 - events + x + 1.0))
    else:
        ratios = x * (n2 - events + x) / ((events - x + 1.0) * (n1 - x + 1.0))
    sum_of_ratios = 1.0 + float(np.cumprod(ratios).sum())
    log_p = _log_choose(n1, start) + _log_choose(n2, events - start) - _log_choose(total, events)
    return math.exp(min(0.0, log_p + math.log(sum_of_ratios)))


def _log_choose(n: int, k: int) -> float:
    return math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)


def _pair(k1: int, n1: int, k2: int, n2: int) -> tuple[tuple[int, int], tuple[int, int]]:
    first, second = part_of_whole("k1", k1, "n1", n1), part_of_whole("k2", k2, "n2", n2)
    for name, (_, n) in (("n1", first), ("n2", second)):
        if n < 1:
            raise UndefinedError(name, n, "an empty group has no rate to compare")
    return first, second


@dataclass(frozen=True, slots=True, kw_only=True)
class Homogeneity:
    """Test that several groups have one rate (SPEC 15.3).

    Attributes
    ----------
    statistic : float
        Pearson's chi-square, 0 or more.
    degrees_of_freedom : int
        Groups less 1.
    p_value : float
        In (0, 1].
    method : {'exact_permutation', 'chi_square', 'permutation', 'no_variation'}
        Two independent groups are tested exactly; `permutation` where an expected count is below 5;
        ``no_variation`` where nobody, or everybody, has the outcome.
    """

    statistic: float
    degrees_of_freedom: int
    p_value: float
    method: Literal["exact_permutation", "chi_square", "permutation", "no_variation"]


def homogeneity_test(
    events: ArrayLike, n: ArrayLike, *, seed: int = 0, independent: bool = True, draws: int = HOMOGENEITY_DRAWS
) -> Homogeneity:
    """Test that all groups have one rate: one question, however many groups (SPEC 15.3).

    X² = sum over groups of (x - n p)² / (n p (1-p)), p the pooled rate.

    Parameters
    ----------
    events, n : array_like, shape (k,)
        Events and sizes of at least 2 groups, each of at least 1 unit; effective (not whole) with clusters.
    seed : int
        Of the permutations, where they are needed.
    independent : bool
        False: the counts are effective ones, and only the chi-square law is used.
    draws : int
        Permutations; the p-value is (b + 1)/(draws + 1).

    Returns
    -------
    Homogeneity

    Raises
    ------
    UndefinedError
        With fewer than 2 groups, or an empty one.

    References
    ----------
    Agresti (2013), Categorical Data Analysis, 3.2; for effective counts Rao & Scott (1981), J. Am. Stat. Assoc.
    76:221-230.

    Examples
    --------
    >>> test = homogeneity_test([30, 33, 27], [100, 100, 100])
    >>> round(test.statistic, 4), test.degrees_of_freedom, round(test.p_value, 4), test.method
    (0.8571, 2, 0.6514, 'chi_square')
    """
    x, size = np.asarray(events, dtype=float), np.asarray(n, dtype=float)
    if x.size < 2 or x.shape != size.shape or not (size > 0.0).all():
        raise UndefinedError("n", size.tolist(), "a comparison needs at least 2 groups, none empty")
    freedom, total, positive = x.size - 1, float(size.sum()), float(x.sum())
    if positive <= 0.0 or positive >= total:
        return Homogeneity(statistic=0.0, degrees_of_freedom=freedom, p_value=1.0, method="no_variation")
    pooled = positive / total
    statistic = float(((x - size * pooled) ** 2 / (size * pooled * (1.0 - pooled))).sum())
    if independent and x.size == 2:
        p = exact_permutation_p(int(x[0]), int(size[0]), int(x[1]), int(size[1]))
        return Homogeneity(statistic=statistic, degrees_of_freedom=1, p_value=p, method="exact_permutation")
    if independent and size.min() * min(pooled, 1.0 - pooled) < MIN_EXPECTED:
        p = _permutation_p(statistic, size.astype(np.int64), int(positive), seed=seed, draws=draws)
        return Homogeneity(statistic=statistic, degrees_of_freedom=freedom, p_value=p, method="permutation")
    from scipy.special import chdtrc

    p = max(SMALLEST_P, float(chdtrc(freedom, statistic)))
    return Homogeneity(statistic=statistic, degrees_of_freedom=freedom, p_value=p, method="chi_square")


def _permutation_p(statistic: float, size: NDArray[np.int64], positive: int, *, seed: int, draws: int) -> float:
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_hypergeometric(size, positive, size=whole_count("draws", draws), method="marginals")
    pooled = positive / size.sum()
    statistics = ((drawn - size * pooled) ** 2 / (size * pooled * (1.0 - pooled))).sum(axis=1)
    return (1 + int(np.count_nonzero(statistics >= statistic * (1.0 - TIE)))) / (draws + 1)


def range_quantile(n_groups: int, confidence_level: float) -> float:
    """Quantile that makes all pairwise intervals of several groups hold together, q/sqrt(2) (SPEC 15.2).

    q is the quantile of the range of `n_groups` independent standard normal variables (Tukey's studentised range with
    known variance). For 2 groups it is the ordinary normal quantile.

    Parameters
    ----------
    n_groups : int
        At least 2.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    float
        Greater than 0, growing with `n_groups` about as sqrt(2 log n).

    Raises
    ------
    UndefinedError
        With fewer than 2 groups, or a level outside (0, 1).

    References
    ----------
    Tukey (1953); with unequal sizes conservative: Hayter (1984), Ann. Stat. 12:61-75.

    Examples
    --------
    >>> round(range_quantile(2, 0.95), 4), round(range_quantile(3, 0.95), 4)  # 3.3145/sqrt(2)
    (1.96, 2.3437)
    """
    check_confidence_level(confidence_level)
    if whole_count("n_groups", n_groups) < 2:
        raise UndefinedError("n_groups", n_groups, "a range needs at least 2 groups")
    from scipy.optimize import brentq
    from scipy.special import ndtr

    grid = np.linspace(-9.0, 9.0, 1_201)
    density = np.exp(-(grid**2) / 2.0) / math.sqrt(2.0 * math.pi) * (grid[1] - grid[0])

    def excess(w: float) -> float:
        inside = np.maximum(0.0, ndtr(grid) - ndtr(grid - w))  # z is the largest, and the others are within w below it
        return float(n_groups * (density @ inside ** (n_groups - 1))) - confidence_level

    return float(brentq(excess, 1e-9, 40.0, xtol=1e-12)) / math.sqrt(2.0)
