"""Intervals for one observed proportion (SPEC 7)."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass
from typing import SupportsIndex

from core.errors import UndefinedError

DEFAULT_CONFIDENCE_LEVEL = 0.95
"""Level of every interval unless the instrument says otherwise (both papers)."""


_NO_EVENT = 1e-300
"""Effective events below this are none: a Beta law cannot be computed with a shape so near 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A two-sided interval for a quantity that has one.

    Attributes
    ----------
    low, high : float
        Ends, finite, ``low <= high``, in the unit of the quantity.
    confidence_level : float
        In (0, 1). When the caller overrode the normal quantile it is the level of that quantile.
    method : str
        How the interval was made, for example ``modified_wilson``.
    """

    low: float
    high: float
    confidence_level: float
    method: str

    def __post_init__(self) -> None:
        """Refuse what is no interval."""
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise UndefinedError("interval", (self.low, self.high), "an interval needs finite ends, low <= high")
        check_confidence_level(self.confidence_level)


def check_confidence_level(confidence_level: float) -> None:
    """Refuse a level outside (0, 1).

    Raises
    ------
    UndefinedError
        If ``confidence_level`` is not strictly between 0 and 1.
    """
    if not 0.0 < confidence_level < 1.0:
        raise UndefinedError("confidence_level", confidence_level, "must lie strictly between 0 and 1")


def normal_quantile(confidence_level: float) -> float:
    """Two-sided standard normal quantile, z = Phi^-1((1 + level) / 2) (SPEC 7.1).

    Parameters
    ----------
    confidence_level : float
        In (0, 1), open at both ends.

    Returns
    -------
    float
        Greater than 0; towards 0 as the level goes to 0, without bound as it goes to 1.

    Raises
    ------
    UndefinedError
        If ``confidence_level`` is not strictly between 0 and 1, or so near an end that no finite positive
        quantile exists.

    Examples
    --------
    >>> round(normal_quantile(0.95), 6)
    1.959964
    """
    check_confidence_level(confidence_level)
    from scipy.special import ndtri  # 0.3 s to import: not every command needs it

    z = -float(ndtri((1.0 - confidence_level) / 2.0))
    return _checked_quantile("confidence_level", confidence_level, z)


def quantile_and_level(confidence_level: float, z: float | None) -> tuple[float, float]:
    """The normal quantile in force and the level that belongs to it (SPEC 7.1).

    ``z`` overrides the exact quantile of ``confidence_level``, as the papers print 1.96; the level is then
    the one that this ``z`` has, so that a result never names a level that its ends do not hold.

    Parameters
    ----------
    confidence_level : float
        In (0, 1).
    z : float or None
        Greater than 0, or None for the exact quantile.

    Returns
    -------
    tuple of float
        ``(z, confidence_level)``.

    Raises
    ------
    UndefinedError
        If ``confidence_level`` is outside (0, 1) or ``z`` is not a finite positive number.

    Examples
    --------
    >>> z, level = quantile_and_level(0.95, 1.96)
    >>> z, round(level, 6)
    (1.96, 0.950004)
    """
    if z is None:
        return normal_quantile(confidence_level), float(confidence_level)
    check_confidence_level(confidence_level)
    z = _checked_quantile("z", z, z)
    return z, level_of(z)


def level_of(z: float) -> float:
    """Confidence level whose two-sided normal quantile is ``z``, 1 - 2 Phi(-z) (SPEC 7.1).

    Examples
    --------
    >>> round(level_of(1.0), 4)
    0.6827
    """
    from scipy.special import ndtr

    return 1.0 - 2.0 * float(ndtr(-z))


def _checked_quantile(field: str, value: object, z: float) -> float:
    if not (z > 0.0 and math.isfinite(z) and level_of(z) < 1.0):
        raise UndefinedError(field, value, "needs a finite normal quantile greater than 0 (and below about 8)")
    return float(z)


def whole_count(field: str, value: object) -> int:
    """Read a public count: an integer of any integer type, or a float that holds one.

    Raises
    ------
    UndefinedError
        If ``value`` is not a whole number >= 0.

    Examples
    --------
    >>> whole_count("n_flagged", 12.0)
    12
    """
    if isinstance(value, int) or (isinstance(value, float) and value.is_integer()):  # SupportsIndex is slow to ask
        number = int(value)
    elif isinstance(value, SupportsIndex):
        number = operator.index(value)
    else:
        raise UndefinedError(field, value, "a count is a whole number")
    if number < 0:
        raise UndefinedError(field, value, "a count is at least 0")
    return number


def part_of_whole(part_field: str, part: object, whole_field: str, whole: object) -> tuple[int, int]:
    """Read a count and the count that it is a part of.

    Raises
    ------
    UndefinedError
        If either is not a whole number >= 0, or the part is greater than the whole.

    Examples
    --------
    >>> part_of_whole("n_flagged", 3, "n_traces", 10)
    (3, 10)
    """
    k, n = whole_count(part_field, part), whole_count(whole_field, whole)
    if k > n:
        raise UndefinedError(part_field, k, f"cannot exceed {whole_field} = {n}")
    return k, n


def wilson_interval(
    n_flagged: int,
    n_traces: int,
    *,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    z: float | None = None,
) -> Interval:
    """Modified Wilson interval of the observed rate, s^2 = n/(n-1) p(1-p) (SPEC 7.2).

    It is an interval for the rate at which this judge flags, never for the rate of violations.

    Parameters
    ----------
    n_flagged : int
        Flagged traces, in [0, n_traces].
    n_traces : int
        Independent traces, at least 2.
    confidence_level : float
        In (0, 1).
    z : float, optional
        Overrides the normal quantile (the papers print 1.96).

    Returns
    -------
    Interval
        Inside [0, 1], never of zero width; ``low`` is exactly 0 at 0 flagged, ``high`` exactly 1 at all.

    Raises
    ------
    UndefinedError
        If a count is no whole number, ``n_flagged`` is outside [0, n_traces], ``n_traces`` is below 2 (the
        finite-sample factor n/(n-1) does not exist), the level is outside (0, 1) or ``z`` is not positive.

    References
    ----------
    Wilson (1927), J. Am. Stat. Assoc. 22:209-212, with the safety paper's finite-sample variance.

    Examples
    --------
    >>> interval = wilson_interval(106, 201, z=1.96)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.458311, 0.595389)
    >>> wilson_interval(0, 50).low
    0.0
    """
    k, n = part_of_whole("n_flagged", n_flagged, "n_traces", n_traces)
    if n < 2:
        raise UndefinedError("n_traces", n, "the modified Wilson interval needs at least 2 traces")
    z, level = quantile_and_level(confidence_level, z)
    low, high = modified_wilson(k / n, n, z=z)
    return Interval(low=low, high=high, confidence_level=level, method="modified_wilson")


def modified_wilson(rate: float, n: float, *, z: float) -> tuple[float, float]:
    """Modified Wilson limits for an effective, possibly non-integer sample size (SPEC 7.2).

    Parameters
    ----------
    rate : float
        Observed proportion, in [0, 1].
    n : float
        Effective sample size, greater than 1.
    z : float
        Normal quantile, greater than 0.

    Returns
    -------
    tuple of float
        ``(low, high)`` inside [0, 1]. Exactly 0 at rate 0, exactly 1 at rate 1. Clipped where fewer than one
        effective event lets the wider variance cross the border.

    Raises
    ------
    UndefinedError
        If ``rate`` is outside [0, 1], ``n`` is not finite and above 1, or ``z`` is not positive.

    Examples
    --------
    >>> [round(limit, 4) for limit in modified_wilson(0.44, 25, z=1.96)]
    [0.2634, 0.6326]
    """
    if not (n > 1.0 and math.isfinite(n)):
        raise UndefinedError("n", n, "the modified Wilson interval needs a finite effective size above 1")
    return _wilson(rate, n, z, finite_sample=n / (n - 1.0))


def wilson_limits(rate: float, n: float, *, z: float) -> tuple[float, float]:
    """Textbook Wilson limits on an effective sample size (SPEC 6.2).

    Parameters
    ----------
    rate : float
        Proportion, in [0, 1].
    n : float
        Effective sample size, greater than 0.
    z : float
        Normal quantile, greater than 0.

    Returns
    -------
    tuple of float
        ``(low, high)`` inside [0, 1]; exactly 0 at rate 0 and exactly 1 at rate 1; towards (0, 1) as n -> 0.

    Raises
    ------
    UndefinedError
        If ``rate`` is outside [0, 1], ``n`` is not finite and above 0, or ``z`` is not positive.

    References
    ----------
    Wilson (1927), J. Am. Stat. Assoc. 22:209-212.

    Examples
    --------
    >>> [round(limit, 6) for limit in wilson_limits(0.05, 100, z=1.959964)]
    [0.021544, 0.11175]
    """
    if not (n > 0.0 and math.isfinite(n)):
        raise UndefinedError("n", n, "the Wilson interval needs a finite effective size above 0")
    return _wilson(rate, n, z, finite_sample=1.0)


def clopper_pearson_interval(
    n_flagged: int, n_traces: int, *, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL
) -> Interval:
    """Clopper-Pearson interval of the observed rate, from Beta quantiles (SPEC 7.3).

    It covers at least at its level whatever the rate, and mostly above it.

    Parameters
    ----------
    n_flagged : int
        Flagged traces, in [0, n_traces].
    n_traces : int
        Independent traces, at least 1.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    Interval
        Inside [0, 1], never of zero width; ``low`` is exactly 0 at 0 flagged, ``high`` exactly 1 at all.

    Raises
    ------
    UndefinedError
        If a count is no whole number, ``n_flagged`` is outside [0, n_traces], there is no trace, or the level is
        outside (0, 1).

    References
    ----------
    Clopper & Pearson (1934), Biometrika 26:404-413.

    Examples
    --------
    >>> interval = clopper_pearson_interval(5, 100)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.016432, 0.112835)
    """
    k, n = part_of_whole("n_flagged", n_flagged, "n_traces", n_traces)
    if n < 1:
        raise UndefinedError("n_traces", n, "the Clopper-Pearson interval needs at least 1 trace")
    low, high = clopper_pearson(k / n, n, confidence_level=confidence_level)
    return Interval(low=low, high=high, confidence_level=float(confidence_level), method="clopper_pearson")


def clopper_pearson(rate: float, n: float, *, confidence_level: float) -> tuple[float, float]:
    """Clopper-Pearson limits for an effective, possibly non-integer sample size (SPEC 7.3).

    With x = rate n, the alpha/2 quantile of Beta(x, n - x + 1) and the 1 - alpha/2 quantile of Beta(x + 1, n - x).

    Parameters
    ----------
    rate : float
        Observed proportion, in [0, 1].
    n : float
        Effective sample size, greater than 0.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    tuple of float
        ``(low, high)`` inside [0, 1]; exactly 0 at rate 0 and exactly 1 at rate 1.

    Raises
    ------
    UndefinedError
        If ``rate`` is outside [0, 1], ``n`` is not finite and above 0, or the level is outside (0, 1).

    Examples
    --------
    >>> [round(limit, 4) for limit in clopper_pearson(0.1, 37.5, confidence_level=0.95)]
    [0.0264, 0.2426]
    """
    return _beta_limits(rate, n, confidence_level, low_prior=(0.0, 1.0), high_prior=(1.0, 0.0))


def jeffreys_interval(n_flagged: int, n_traces: int, *, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL) -> Interval:
    """Jeffreys interval of the observed rate: central, under the prior Beta(1/2, 1/2) (SPEC 7.4).

    Parameters
    ----------
    n_flagged : int
        Flagged traces, in [0, n_traces].
    n_traces : int
        Independent traces, at least 1.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    Interval
        Inside [0, 1], never of zero width; ``low`` is set to 0 at 0 flagged, ``high`` to 1 at all.

    Raises
    ------
    UndefinedError
        If a count is no whole number, ``n_flagged`` is outside [0, n_traces], there is no trace, or the level is
        outside (0, 1).

    References
    ----------
    Brown, Cai & DasGupta (2001), Stat. Sci. 16:101-133, with their ends at 0 and n.

    Examples
    --------
    >>> interval = jeffreys_interval(142, 742)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.164302, 0.22085)
    """
    k, n = part_of_whole("n_flagged", n_flagged, "n_traces", n_traces)
    if n < 1:
        raise UndefinedError("n_traces", n, "the Jeffreys interval needs at least 1 trace")
    low, high = jeffreys(k / n, n, confidence_level=confidence_level)
    return Interval(low=low, high=high, confidence_level=float(confidence_level), method="jeffreys")


def jeffreys(rate: float, n: float, *, confidence_level: float) -> tuple[float, float]:
    """Jeffreys limits for an effective, possibly non-integer sample size (SPEC 7.4).

    With x = rate n, the alpha/2 and 1 - alpha/2 quantiles of Beta(x + 1/2, n - x + 1/2).

    Parameters
    ----------
    rate : float
        Observed proportion, in [0, 1].
    n : float
        Effective sample size, greater than 0.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    tuple of float
        ``(low, high)`` inside [0, 1]; exactly 0 at rate 0 and exactly 1 at rate 1, which the quantiles are not.

    Raises
    ------
    UndefinedError
        If ``rate`` is outside [0, 1], ``n`` is not finite and above 0, or the level is outside (0, 1).

    Examples
    --------
    >>> [round(limit, 4) for limit in jeffreys(0.1, 37.5, confidence_level=0.95)]
    [0.0334, 0.2252]
    """
    return _beta_limits(rate, n, confidence_level, low_prior=(0.5, 0.5), high_prior=(0.5, 0.5))


def _beta_limits(
    rate: float,
    n: float,
    confidence_level: float,
    *,
    low_prior: tuple[float, float],
    high_prior: tuple[float, float],
) -> tuple[float, float]:
    check_confidence_level(confidence_level)
    if not (n > 0.0 and math.isfinite(n)):
        raise UndefinedError("n", n, "needs a finite effective size above 0")
    if not 0.0 <= rate <= 1.0:
        raise UndefinedError("rate", rate, "must lie in [0, 1]")
    from scipy.special import betainccinv, betaincinv  # 0.3 s to import: not every command needs it

    tail = (1.0 - confidence_level) / 2.0
    x, rest = rate * n, (1.0 - rate) * n
    low = 0.0 if x < _NO_EVENT else float(betaincinv(x + low_prior[0], rest + low_prior[1], tail))
    high = 1.0 if rest < _NO_EVENT else float(betainccinv(x + high_prior[0], rest + high_prior[1], tail))
    return low, high


def _wilson(rate: float, n: float, z: float, *, finite_sample: float) -> tuple[float, float]:
    if not 0.0 <= rate <= 1.0:
        raise UndefinedError("rate", rate, "must lie in [0, 1]")
    _checked_quantile("z", z, z)
    shrink = z * z / n
    variance = finite_sample * rate * (1.0 - rate)
    centre = (rate + shrink / 2.0) / (1.0 + shrink)
    half_width = z / (1.0 + shrink) * math.sqrt(variance / n + shrink / (4.0 * n))
    # At the borders the algebra gives 0 and 1 exactly and only rounding disturbs it.
    low = 0.0 if rate == 0.0 else max(0.0, centre - half_width)
    high = 1.0 if rate == 1.0 else min(1.0, centre + half_width)
    return low, high
