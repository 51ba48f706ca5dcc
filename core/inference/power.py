"""How often an experiment of given size finds what is there (SPEC 11.2 and 11.3).

Nothing is drawn: the laws of the counts are summed, exactly where they are short and on a grid of 100 steps where
they are long, so that a plan gives the same answer every time.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from core.errors import UndefinedError
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile

LAW_POINTS = 100
"""Points on which each golden class's law is summed; one with fewer likely counts is summed exactly."""

PAIR_POINTS = 2_000
"""The same for the number of discordant pairs: exact up to some 20,000 of them."""

LAW_REACH = 7.0
"""Standard deviations of a count that are summed: what lies beyond is below 1e-11."""

_Array = NDArray[np.float64]


def flag_rate(prevalence: float, sensitivity: float, specificity: float) -> float:
    """Rate at which a judge flags, pi = theta q1 + (1 - theta)(1 - q0) (SPEC 11).

    Examples
    --------
    >>> round(flag_rate(0.1, 0.9, 0.95), 3)
    0.135
    """
    return prevalence * sensitivity + (1.0 - prevalence) * (1.0 - specificity)


def detection_power(
    prevalence: float,
    *,
    sensitivity: float,
    specificity: float,
    n_production: float,
    n_positive: int,
    n_negative: int,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
) -> float:
    """Probability that the low end of the Lang-Reiczigel interval is above 0 (SPEC 11.2).

    sum over (a, b) of P(a) P(b) P(x >= x*(a, b)), where x* is the least count of flags whose interval excludes 0.

    Parameters
    ----------
    prevalence, sensitivity, specificity : float
        What is assumed to be true, in [0, 1].
    n_production : float
        At least 1; ``math.inf`` for a production rate known exactly.
    n_positive, n_negative : int
        Golden traces, at least 1 each.
    confidence_level : float
        Of the two-sided interval, in (0, 1).

    Returns
    -------
    float
        In [0, 1]; rises with the prevalence. At a prevalence of 0 it is the rate of false alarms, near half of
        1 - confidence_level for a judge with J above .45; at J = .1, below the floor, up to .18. A draw whose
        smoothed J is not above 0 has no interval and detects nothing.

    Raises
    ------
    UndefinedError
        If a rate is outside [0, 1], a size below 1, or the level outside (0, 1).

    Examples
    --------
    >>> judge = dict(sensitivity=0.9, specificity=0.95, n_production=2000, n_positive=200, n_negative=200)
    >>> round(detection_power(0.05, **judge), 2), round(detection_power(0.075, **judge), 2)
    (0.61, 0.89)
    """
    check_rates(prevalence=prevalence, sensitivity=sensitivity, specificity=specificity)
    check_sizes(n_production=n_production, n_positive=n_positive, n_negative=n_negative)
    z = normal_quantile(confidence_level)
    hits, weight1 = _binomial_law(n_positive, sensitivity)
    passes, weight0 = _binomial_law(n_negative, specificity)
    a, b = hits[:, None], passes[None, :]
    observed = flag_rate(prevalence, sensitivity, specificity)

    def excludes_zero(flagged: _Array | float) -> NDArray[np.bool_]:
        low = lang_reiczigel_low(
            flagged, n_production, true_positives=a, n_positive=n_positive, true_negatives=b, n_negative=n_negative, z=z
        )
        return np.asarray(low > 0.0)

    if math.isinf(n_production):
        detected = excludes_zero(observed).astype(np.float64)
    else:
        likely = _likely(n_production, observed)
        detected = _tail(_least_count(excludes_zero, likely, (len(hits), len(passes))), n_production, observed)
    return min(1.0, float(weight1 @ detected @ weight0))


def lang_reiczigel_low(
    flagged: _Array | float,
    traces: float,
    *,
    true_positives: _Array | float,
    n_positive: float,
    true_negatives: _Array | float,
    n_negative: float,
    z: float,
) -> _Array:
    """Low end of the Lang-Reiczigel interval before clipping, for arrays (SPEC 8.3).

    `core.inference.prevalence.lang_reiczigel_interval` for many counts at once; -inf where the smoothed J is not
    above 0. With ``traces = math.inf``, ``flagged`` is the rate of flags itself.
    """
    centre, half_width = lang_reiczigel_parts(
        flagged, traces, true_positives=true_positives, n_positive=n_positive,
        true_negatives=true_negatives, n_negative=n_negative, z=z,
    )  # fmt: skip
    return np.asarray(centre - half_width)


def lang_reiczigel_parts(
    flagged: _Array | float,
    traces: float,
    *,
    true_positives: _Array | float,
    n_positive: float,
    true_negatives: _Array | float,
    n_negative: float,
    z: float,
) -> tuple[_Array, _Array]:
    """Centre and half width of the Lang-Reiczigel interval before clipping, for arrays (SPEC 8.3).

    Arguments as in `lang_reiczigel_low`. The half width is infinite where the smoothed J is not above 0.
    """
    if math.isinf(traces):
        p, of_flags = np.asarray(flagged, np.float64), np.zeros(())
    else:
        n = traces + z * z
        p = (np.asarray(flagged, np.float64) + z * z / 2.0) / n
        of_flags = p * (1.0 - p) / n
    q1 = (np.asarray(true_positives, np.float64) + 1.0) / (n_positive + 2.0)
    q0 = (np.asarray(true_negatives, np.float64) + 1.0) / (n_negative + 2.0)
    of1, of0 = q1 * (1.0 - q1) / (n_positive + 2.0), q0 * (1.0 - q0) / (n_negative + 2.0)
    youden_j = q1 + q0 - 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        value = (p + q0 - 1.0) / youden_j
        shift = 2.0 * z * z * (value * of1 - (1.0 - value) * of0)
        variance = (of_flags + value**2 * of1 + (1.0 - value) ** 2 * of0) / youden_j**2
        half_width = np.where(youden_j > 0.0, z * np.sqrt(variance), math.inf)
        return np.where(youden_j > 0.0, value + shift, 0.0), half_width


def limit_of_detection(
    *,
    sensitivity: float,
    specificity: float,
    n_production: float,
    n_positive: int,
    n_negative: int,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    power: float = 0.80,
) -> float | None:
    """Least rate of violations that is found with the wanted power (SPEC 11.2).

    Parameters
    ----------
    sensitivity, specificity, n_production, n_positive, n_negative, confidence_level
        As in `detection_power`.
    power : float
        In (0, 1).

    Returns
    -------
    float or None
        In (0, 1], to 1e-6; None if not even a rate of 1 is found with that power.

    Raises
    ------
    UndefinedError
        As `detection_power`, or if ``power`` is outside (0, 1).

    Examples
    --------
    >>> golden = dict(n_positive=200, n_negative=200)
    >>> found = limit_of_detection(sensitivity=0.9, specificity=0.95, n_production=2000, **golden)
    >>> limit = limit_of_detection(sensitivity=0.9, specificity=0.95, n_production=math.inf, **golden)
    >>> round(found, 4), round(limit, 4)
    (0.0643, 0.0642)
    """
    check_power(power)

    def found(prevalence: float) -> bool:
        return power <= detection_power(
            prevalence,
            sensitivity=sensitivity, specificity=specificity, n_production=n_production,
            n_positive=n_positive, n_negative=n_negative, confidence_level=confidence_level,
        )  # fmt: skip

    return least_reaching(found, 0.0, 1.0)


def mcnemar_power(
    n_pairs: int, *, baseline_only: float, candidate_only: float, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL
) -> float:
    """Probability that the exact two-sided McNemar test finds the difference, in its direction (SPEC 11.3).

    Summed over the law of the number of discordant pairs, Binomial(N, baseline_only + candidate_only), and for each
    over the law of those on one side.

    Parameters
    ----------
    n_pairs : int
        At least 1.
    baseline_only, candidate_only : float
        Shares of pairs that are flagged in one version alone, each >= 0, their sum at most 1; they must differ.
    confidence_level : float
        1 - level of the test, in (0, 1).

    Returns
    -------
    float
        In [0, 1].

    Raises
    ------
    UndefinedError
        If the shares are not such shares, ``n_pairs`` is below 1 or the level outside (0, 1).

    References
    ----------
    McNemar (1947), Psychometrika 12:153-157; Connor (1987), Biometrics 43:207-211 for the closed form.

    Examples
    --------
    >>> round(mcnemar_power(1000, baseline_only=0.02, candidate_only=0.05), 3)
    0.945
    """
    from scipy.special import bdtrik

    check_rates(baseline_only=baseline_only, candidate_only=candidate_only)
    check_sizes(n_pairs=n_pairs)
    check_confidence_level(confidence_level)
    discordant = baseline_only + candidate_only
    if discordant > 1.0 or baseline_only == candidate_only:
        raise UndefinedError("candidate_only", candidate_only, "shares must differ and sum to at most 1")
    tail = (1.0 - confidence_level) / 2.0
    middles, weight = _binomial_law(n_pairs, discordant, points=PAIR_POINTS)
    sizes = np.floor(middles)
    below = np.floor(np.nan_to_num(bdtrik(tail, sizes, 0.5), nan=-1.0))
    # The inverse is approximate in its last digits: step to the largest count that the test still rejects.
    below = np.where(_at_most(below, sizes, 0.5) > tail, below - 1.0, below)
    below = np.where(_at_most(below + 1.0, sizes, 0.5) <= tail, below + 1.0, below)
    # As many on the rarer side, or fewer, are rejected.
    rejected = _at_most(below, sizes, min(baseline_only, candidate_only) / discordant)
    return min(1.0, float(weight @ rejected))


def two_proportion_power(
    n_each: float, *, baseline_rate: float, candidate_rate: float, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL
) -> float:
    """Power of the two-proportion score test on unpaired flags, normal approximation (SPEC 11.3).

    Phi((|pB - pA| sqrt(n) - z sqrt(2 p(1-p))) / sqrt(pA(1-pA) + pB(1-pB))), p the mean of the two.

    Parameters
    ----------
    n_each : float
        Traces of each version, at least 1.
    baseline_rate, candidate_rate : float
        Rates of flags, in [0, 1]; they must differ.
    confidence_level : float
        In (0, 1).

    Raises
    ------
    UndefinedError
        If a rate is outside [0, 1] or the two are equal, ``n_each`` is below 1, or the level outside (0, 1).

    References
    ----------
    Fleiss, Levin & Paik (2003), Statistical Methods for Rates and Proportions, ch. 4.

    Examples
    --------
    >>> round(two_proportion_power(500, baseline_rate=0.10, candidate_rate=0.16), 3)
    0.806
    """
    from scipy.special import ndtr

    check_rates(baseline_rate=baseline_rate, candidate_rate=candidate_rate)
    check_sizes(n_each=n_each)
    if baseline_rate == candidate_rate:
        raise UndefinedError("candidate_rate", candidate_rate, "must differ from the baseline's")
    z = normal_quantile(confidence_level)
    mean = (baseline_rate + candidate_rate) / 2.0
    spread = math.sqrt(baseline_rate * (1.0 - baseline_rate) + candidate_rate * (1.0 - candidate_rate))
    excess = abs(candidate_rate - baseline_rate) * math.sqrt(n_each) - z * math.sqrt(2.0 * mean * (1.0 - mean))
    # Rates of exactly 0 and 1 have no spread: the difference is then seen or not, for certain.
    return float(ndtr(excess / spread)) if spread > 0.0 else float(excess > 0.0)


def least_reaching(reached: Callable[[float], bool], low: float, high: float, steps: int = 20) -> float | None:
    """Bisect for the least argument in (low, high] at which a rising condition holds; None if it does not at high."""
    if not reached(high):
        return None
    for _ in range(steps):
        middle = (low + high) / 2.0
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def check_rates(**rates: float) -> None:
    """Refuse a rate outside [0, 1]."""
    for field, rate in rates.items():
        if not 0.0 <= rate <= 1.0:
            raise UndefinedError(field, rate, "must lie in [0, 1]")


def check_sizes(**sizes: float) -> None:
    """Refuse a size below 1."""
    for field, size in sizes.items():
        if not size >= 1:
            raise UndefinedError(field, size, "must be at least 1")


def check_power(power: float) -> None:
    """Refuse a power outside (0, 1)."""
    if not 0.0 < power < 1.0:
        raise UndefinedError("power", power, "must lie strictly between 0 and 1")


def _binomial_law(n: float, rate: float, *, points: int = LAW_POINTS) -> tuple[_Array, _Array]:
    """Likely counts of Binomial(n, rate) and their probabilities; a long law in groups, each at its middle."""
    low, high = _likely(n, rate)
    edges = np.unique(np.round(np.linspace(low - 1, high, min(points, int(high - low) + 1) + 1)))
    weight = np.diff(_at_most(edges, np.full_like(edges, n), rate))
    middle = (edges[:-1] + 1.0 + edges[1:]) / 2.0
    return middle, weight / weight.sum()


def _likely(n: float, rate: float) -> tuple[float, float]:
    """Least and largest count that Binomial(n, rate) is at all likely to give."""
    reach = LAW_REACH * (math.sqrt(n * rate * (1.0 - rate)) + 1.0)
    return max(0.0, math.floor(n * rate - reach)), min(float(n), math.ceil(n * rate + reach))


def _least_count(
    excludes_zero: Callable[[_Array], NDArray[np.bool_]], likely: tuple[float, float], shape: tuple[int, int]
) -> _Array:
    """Least likely count of flags whose interval excludes 0, as larger ones then do too; above all if none does."""
    low, high = np.full(shape, likely[0] - 1.0), np.full(shape, likely[1] + 1.0)
    for _ in range(math.ceil(math.log2(likely[1] - likely[0] + 3.0)) + 1):
        middle = np.floor((low + high) / 2.0)
        inside = middle > low
        found = excludes_zero(middle) & inside
        high = np.where(found, middle, high)
        low = np.where(inside & ~found, middle, low)
    return high


def _tail(counts: _Array, n: float, rate: float) -> _Array:
    """P(Binomial(n, rate) >= count)."""
    return 1.0 - _at_most(counts - 1.0, np.full_like(counts, n), rate)


def _at_most(counts: _Array, n: _Array, rate: float) -> _Array:
    """P(Binomial(n, rate) <= count), which is 0 below 0 and 1 from n on."""
    from scipy.special import betainc

    inside = (counts >= 0.0) & (counts < n)
    k, size = np.where(inside, counts, 0.0), np.where(inside, n, 1.0)
    return np.where(inside, betainc(size - k, k + 1.0, 1.0 - rate), (counts >= n).astype(np.float64))
