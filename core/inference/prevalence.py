"""The rate of violations behind the rate at which an imperfect judge flags (SPEC 6.2, 8 and 9).

Every interval takes `Counts`, whose entries need not be whole: clusters and the optimism correction turn
counts into effective ones, and the record carries those so that a reader can redo the figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import (
    DEFAULT_CONFIDENCE_LEVEL,
    check_confidence_level,
    part_of_whole,
    quantile_and_level,
    wilson_limits,
)

DETECTION_FLOOR = 0.20
"""Youden's J below which the safety paper reports no corrected rate."""

RESOLUTION = 1e-12
"""Records hold 12 significant digits: differences of J below this are rounding, and a figure read back from a
record has to fall on the same side of the floor (and of J = 0) as the one that was written."""

DRAWS = 20_000
"""Default Monte-Carlo draws: the standard error of an end is about 1/200 of the width, in some 5 ms."""

MELDED_DRAWS = 100_000
"""Of the melded interval, which stands in records: the standard error of an end is about 1/500 of the width."""

DEFAULT_SEED = 0
"""Seed when the caller of `corrected_prevalence` names no generator: same counts, same interval."""

JUDGE_SHIFTS = (-0.10, -0.05, 0.05, 0.10)
"""Errors in sensitivity and specificity whose effect every record shows: 5 and 10 points."""

Method = Literal["delta", "lang_reiczigel", "melded", "bootstrap"]
METHODS: tuple[Method, ...] = get_args(Method)

FloorStatus = Literal["measured", "inconclusive", "below_detection_floor"]
Status = Literal["measured", "inconclusive", "below_detection_floor", "incompatible", "insufficient_data"]

_Draws = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoganGladen:
    """A corrected rate, before and after it is brought into [0, 1] (SPEC 8.1).

    Attributes
    ----------
    raw : float
        The solution of the equation; it may leave [0, 1].
    value : float
        ``raw`` brought into [0, 1].
    clipped : bool
        Whether the two differ.
    """

    raw: float
    value: float
    clipped: bool


def rogan_gladen(observed_rate: float, *, sensitivity: float, specificity: float) -> RoganGladen:
    """Corrected rate, (p + specificity - 1) / J with J = sensitivity + specificity - 1 (SPEC 8.1).

    Parameters
    ----------
    observed_rate, sensitivity, specificity : float
        In [0, 1].

    Returns
    -------
    RoganGladen
        0 where the judge flags at its false-positive rate, 1 where it flags at its sensitivity; ``raw`` is
        outside [0, 1] beyond these, and grows without bound as J -> 0.

    Raises
    ------
    UndefinedError
        If an argument is outside [0, 1], or J <= 0: at 0 the judge tells nothing, below 0 it ranks the wrong
        way.

    References
    ----------
    Rogan & Gladen (1978), Am. J. Epidemiol. 107:71-76.

    Examples
    --------
    >>> round(rogan_gladen(0.30, sensitivity=0.90, specificity=0.95).value, 9)
    0.294117647
    >>> estimate = rogan_gladen(0.02, sensitivity=0.90, specificity=0.95)
    >>> estimate.value, estimate.clipped, round(estimate.raw, 4)
    (0.0, True, -0.0353)
    """
    _check_rate("observed_rate", observed_rate)
    _check_rate("sensitivity", sensitivity)
    _check_rate("specificity", specificity)
    youden_j = _discriminating(sensitivity + specificity - 1.0)
    raw = float((observed_rate + specificity - 1.0) / youden_j)
    value = _into_unit(raw)
    return RoganGladen(raw=raw, value=value, clipped=value != raw)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Effective counts of production and of the golden set (SPEC 8.1).

    Attributes
    ----------
    flagged, traces : float
        Production: flagged out of scored, ``0 <= flagged <= traces``, ``traces > 0``.
    true_positives, positives : float
        Golden set: flagged out of violating, ``positives > 0``.
    true_negatives, negatives : float
        Golden set: passed out of clean, ``negatives > 0``.
    """

    flagged: float
    traces: float
    true_positives: float
    positives: float
    true_negatives: float
    negatives: float

    def __post_init__(self) -> None:
        """Refuse parts that exceed their whole, and empty wholes."""
        for part, whole in (
            ("flagged", "traces"),
            ("true_positives", "positives"),
            ("true_negatives", "negatives"),
        ):
            x, n = getattr(self, part), getattr(self, whole)
            if not (math.isfinite(n) and n > 0.0):
                raise UndefinedError(whole, n, "must be finite and greater than 0")
            if not 0.0 <= x <= n:
                raise UndefinedError(part, x, f"must lie in [0, {whole} = {n!r}]")

    @property
    def observed_rate(self) -> float:
        """Share of production that the judge flags."""
        return self.flagged / self.traces

    @property
    def sensitivity(self) -> float:
        """Share of violating golden traces that the judge flags."""
        return self.true_positives / self.positives

    @property
    def specificity(self) -> float:
        """Share of clean golden traces that the judge passes."""
        return self.true_negatives / self.negatives

    @property
    def youden_j(self) -> float:
        """Youden's J in one division, so that whole counts meet a bound like .20 exactly."""
        false_positives = self.negatives - self.true_negatives
        return (self.true_positives * self.negatives - false_positives * self.positives) / (
            self.positives * self.negatives
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PrevalenceInterval:
    """An interval for the corrected rate, before and after it is brought into [0, 1].

    Attributes
    ----------
    low_unclipped, high_unclipped : float
        Ends as the method gives them, finite, ``low_unclipped <= high_unclipped``.
    low, high : float
        The same ends brought into [0, 1].
    method : str
        ``delta``, ``lang_reiczigel``, ``melded`` or ``bootstrap``.
    variance : float or None
        Variance of the estimate, for ``delta`` only.
    """

    low_unclipped: float
    high_unclipped: float
    low: float
    high: float
    method: Method
    variance: float | None = None

    def __post_init__(self) -> None:
        """Refuse what is no interval."""
        if not -math.inf < self.low_unclipped <= self.high_unclipped < math.inf:
            raise UndefinedError(
                "interval", (self.low_unclipped, self.high_unclipped), "needs finite ends, low <= high"
            )

    @property
    def degenerate(self) -> bool:
        """Whether the method itself gave no width, as delta does at 0 flagged with a specificity of 1."""
        return self.low_unclipped == self.high_unclipped

    @property
    def compatible(self) -> bool:
        """Whether some rate in [0, 1] agrees with the data; if not, the ends are no interval for a rate."""
        if self.degenerate:
            return 0.0 <= self.low_unclipped <= 1.0
        return self.low < self.high


def delta_interval(counts: Counts, z: float) -> PrevalenceInterval:
    """The papers' interval, Rogan-Gladen +- z sqrt(delta-method variance) (SPEC 8.2).

    Parameters
    ----------
    counts : Counts
    z : float
        Normal quantile, greater than 0.

    Returns
    -------
    PrevalenceInterval
        With ``variance``. Degenerate when every variance vanishes (nothing or everything flagged by a judge
        without the errors that would matter): its coverage is then not what it says.

    Raises
    ------
    UndefinedError
        If J <= 0 or ``z`` is not positive.

    References
    ----------
    Rogan & Gladen (1978), Am. J. Epidemiol. 107:71-76; the safety paper's variance.

    Examples
    --------
    >>> golden = dict(true_positives=45, positives=50, true_negatives=95, negatives=100)
    >>> counts = Counts(flagged=60, traces=200, **golden)
    >>> interval = delta_interval(counts, 1.96)
    >>> round(interval.low, 4), round(interval.high, 4)
    (0.2065, 0.3817)
    """
    _check_z(z)
    p, q1, q0 = counts.observed_rate, counts.sensitivity, counts.specificity
    d = _discriminating(counts.youden_j)
    value = (p + q0 - 1.0) / d
    variance = (
        _binomial_variance(p, counts.traces) / d**2
        + ((p + q0 - 1.0) / d**2) ** 2 * _binomial_variance(q1, counts.positives)
        + ((q1 - p) / d**2) ** 2 * _binomial_variance(q0, counts.negatives)
    )
    half_width = z * math.sqrt(variance)
    return _prevalence_interval(value - half_width, value + half_width, "delta", variance=variance)


def lang_reiczigel_interval(counts: Counts, z: float) -> PrevalenceInterval:
    """Lang-Reiczigel interval, the default for the corrected rate (SPEC 8.3).

    Wald interval around a shifted centre after adding z^2 pseudo-observations to production and one of each
    kind to both golden classes.

    Parameters
    ----------
    counts : Counts
    z : float
        Normal quantile, greater than 0.

    Returns
    -------
    PrevalenceInterval
        Of positive width before clipping, at 0 and all flagged too. Without bound as the shrunken J -> 0.

    Raises
    ------
    UndefinedError
        If the J of the shrunken sensitivity and specificity is not above 0 (with five traces or more in each
        class that needs an observed J below .15), or ``z`` is not positive.

    References
    ----------
    Lang & Reiczigel (2014), Prev. Vet. Med. 113:13-22.

    Examples
    --------
    >>> golden = dict(true_positives=45, positives=50, true_negatives=95, negatives=100)
    >>> counts = Counts(flagged=60, traces=200, **golden)
    >>> interval = lang_reiczigel_interval(counts, 1.959964)
    >>> round(interval.low, 6), round(interval.high, 6)
    (0.206889, 0.389429)
    """
    _check_z(z)
    n = counts.traces + z * z
    p = (counts.flagged + z * z / 2.0) / n
    q1 = (counts.true_positives + 1.0) / (counts.positives + 2.0)
    q0 = (counts.true_negatives + 1.0) / (counts.negatives + 2.0)
    variance1 = _binomial_variance(q1, counts.positives + 2.0)
    variance0 = _binomial_variance(q0, counts.negatives + 2.0)
    d = _discriminating(q1 + q0 - 1.0)
    value = (p + q0 - 1.0) / d
    shift = 2.0 * z * z * (value * variance1 - (1.0 - value) * variance0)
    variance = (_binomial_variance(p, n) + value**2 * variance1 + (1.0 - value) ** 2 * variance0) / d**2
    half_width = z * math.sqrt(variance)
    return _prevalence_interval(value + shift - half_width, value + shift + half_width, "lang_reiczigel")


def melded_interval(
    counts: Counts, confidence_level: float, rng: np.random.Generator, draws: int = MELDED_DRAWS
) -> PrevalenceInterval:
    """Melded interval, the conservative one: Clopper-Pearson margins combined by Monte Carlo (SPEC 8.4).

    Parameters
    ----------
    counts : Counts
    confidence_level : float
        In (0, 1).
    rng : numpy.random.Generator
    draws : int
        At least 100. The ends carry Monte-Carlo error.

    Returns
    -------
    PrevalenceInterval
        A Beta law with a zero shape is a point mass. A draw in which the judge does not discriminate bounds
        nothing: it counts as 0 for the lower end and as 1 for the upper.

    Raises
    ------
    UndefinedError
        If J <= 0, the level is outside (0, 1) or ``draws`` is below 100.

    References
    ----------
    Bayer, Fay & Graubard (2022), arXiv:2205.13494.

    Examples
    --------
    >>> golden = dict(true_positives=45, positives=50, true_negatives=95, negatives=100)
    >>> counts = Counts(flagged=60, traces=200, **golden)
    >>> interval = melded_interval(counts, 0.95, np.random.default_rng(1), draws=100_000)
    >>> round(interval.low, 2), round(interval.high, 2)
    (0.2, 0.4)
    """
    return melded_intervals([counts], confidence_level, rng, draws)[0]


def melded_intervals(
    counts: Sequence[Counts], confidence_level: float, rng: np.random.Generator, draws: int
) -> list[PrevalenceInterval]:
    """Melded intervals of many data sets, in one draw (SPEC 8.4).

    Parameters and errors as in `melded_interval`, which is this with one data set. Memory is that of
    ``len(counts) * draws`` numbers.
    """
    _check_draws(counts, confidence_level, draws)
    x, n = _column(counts, "flagged"), _column(counts, "traces")
    b, m0 = _column(counts, "true_negatives"), _column(counts, "negatives")
    a, m1 = _column(counts, "true_positives"), _column(counts, "positives")
    c = m0 - b
    lowest = _corrected_draws(
        _beta(rng, x, n - x + 1.0, draws),
        _beta(rng, c + 1.0, m0 - c, draws),
        _beta(rng, a + 1.0, m1 - a, draws),
        undecided=0.0,
    )
    highest = _corrected_draws(
        _beta(rng, x + 1.0, n - x, draws),
        _beta(rng, c, m0 - c + 1.0, draws),
        _beta(rng, a, m1 - a + 1.0, draws),
        undecided=1.0,
    )
    return _quantile_intervals(lowest, highest, confidence_level, "melded")


def bootstrap_interval(
    counts: Counts, confidence_level: float, rng: np.random.Generator, draws: int = DRAWS
) -> PrevalenceInterval:
    """Percentile bootstrap of production and golden set together, add-one smoothed (SPEC 8.5).

    Each count is redrawn at the rate (x + 1) / (n + 2), so that 0 and n still vary. An effective n that is no
    whole number is drawn as one of its two neighbours, mixed so that the variance of the redrawn rate is that
    of n exactly (below 1 it is drawn as 1, the most that a rate can vary).

    Parameters
    ----------
    counts : Counts
    confidence_level : float
        In (0, 1).
    rng : numpy.random.Generator
    draws : int
        At least 100. The ends carry Monte-Carlo error.

    Returns
    -------
    PrevalenceInterval
        A draw in which the judge does not discriminate counts as 0 for the lower end and as 1 for the upper.

    Raises
    ------
    UndefinedError
        If J <= 0, the level is outside (0, 1) or ``draws`` is below 100.

    References
    ----------
    Efron & Tibshirani (1993), An Introduction to the Bootstrap, ch. 13.

    Examples
    --------
    >>> golden = dict(true_positives=45, positives=50, true_negatives=95, negatives=100)
    >>> counts = Counts(flagged=60, traces=200, **golden)
    >>> interval = bootstrap_interval(counts, 0.95, np.random.default_rng(1))
    >>> 0.19 < interval.low < 0.22 and 0.37 < interval.high < 0.40
    True
    """
    return bootstrap_intervals([counts], confidence_level, rng, draws)[0]


def bootstrap_intervals(
    counts: Sequence[Counts], confidence_level: float, rng: np.random.Generator, draws: int
) -> list[PrevalenceInterval]:
    """Bootstrap intervals of many data sets, in one draw (SPEC 8.5).

    Parameters and errors as in `bootstrap_interval`, which is this with one data set. Memory is that of
    ``len(counts) * draws`` numbers.
    """
    _check_draws(counts, confidence_level, draws)
    observed = _redrawn_rate(rng, _column(counts, "flagged"), _column(counts, "traces"), draws)
    true_positive_rate = _redrawn_rate(rng, _column(counts, "true_positives"), _column(counts, "positives"), draws)
    passed_rate = _redrawn_rate(rng, _column(counts, "true_negatives"), _column(counts, "negatives"), draws)
    false_positive_rate = 1.0 - passed_rate
    return _quantile_intervals(
        _corrected_draws(observed, false_positive_rate, true_positive_rate, undecided=0.0),
        _corrected_draws(observed, false_positive_rate, true_positive_rate, undecided=1.0),
        confidence_level,
        "bootstrap",
    )


def youden_low(sensitivity: float, n_positive: float, specificity: float, n_negative: float, *, z: float) -> float:
    """Lower confidence bound of Youden's J from two textbook Wilson limits (SPEC 6.2).

    J - sqrt((q1 - l1)^2 + (q0 - l0)^2), the recovery of variance from the limits l1 and l0 (MOVER). Unlike a
    Wald bound it keeps its distance from J when sensitivity and specificity are both 1.

    Parameters
    ----------
    sensitivity, specificity : float
        In [0, 1].
    n_positive, n_negative : float
        Effective sizes of the golden classes, greater than 0.
    z : float
        Normal quantile, greater than 0.

    Returns
    -------
    float
        Below J, at least -1; towards J as both sizes grow. At q = 0 the limit is 0 and takes nothing off.

    Raises
    ------
    UndefinedError
        If a rate is outside [0, 1], a size is not above 0 or ``z`` is not positive.

    References
    ----------
    Zou & Donner (2008), Stat. Med. 27:1693-1702; Wilson (1927), J. Am. Stat. Assoc. 22:209-212.

    Examples
    --------
    >>> round(youden_low(1.0, 3, 1.0, 3, z=1.959964), 4)  # no error among three traces a class
    0.2059
    >>> round(youden_low(0.9, 50, 0.95, 100, z=1.959964), 4)
    0.7207
    """
    low1, _ = wilson_limits(sensitivity, n_positive, z=z)
    low0, _ = wilson_limits(specificity, n_negative, z=z)
    return sensitivity + specificity - 1.0 - math.hypot(sensitivity - low1, specificity - low0)


def floor_status(youden_j: float, youden_j_low: float, detection_floor: float = DETECTION_FLOOR) -> FloorStatus:
    """State of a judge against the detection floor (SPEC 6.2).

    Parameters
    ----------
    youden_j : float
        Honest J, in [-1, 1].
    youden_j_low : float
        Its lower confidence bound, at most ``youden_j``.
    detection_floor : float
        In [0, 1]. Meeting it counts as reaching it; differences below 1e-12 are rounding.

    Returns
    -------
    str
        ``measured`` if the bound reaches the floor, ``inconclusive`` if only the point does, else
        ``below_detection_floor``.

    Raises
    ------
    UndefinedError
        If an argument is not finite, or ``detection_floor`` is outside [0, 1].

    Examples
    --------
    >>> floor_status(0.6, 0.4), floor_status(0.3, 0.1), floor_status(0.1, -0.1)
    ('measured', 'inconclusive', 'below_detection_floor')
    """
    _check_rate("detection_floor", detection_floor)
    for field, value in (("youden_j", youden_j), ("youden_j_low", youden_j_low)):
        if not math.isfinite(value):
            raise UndefinedError(field, value, "must be finite")
    floor = detection_floor - RESOLUTION
    if youden_j < floor:
        return "below_detection_floor"
    return "measured" if youden_j_low >= floor else "inconclusive"


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedPrevalence:
    """The corrected rate with its interval, or the reason why there is none (SPEC 9.1).

    Attributes
    ----------
    status : str
        ``measured``; ``inconclusive`` (J reaches the floor, its lower bound does not);
        ``below_detection_floor``; ``incompatible`` (no rate in [0, 1] agrees with the counts);
        ``insufficient_data`` (fewer than 5 traces of a kind, or so few effective ones that no interval exists).
    value : float or None
        Corrected rate in [0, 1]; only when measured or inconclusive.
    raw : float or None
        The same before clipping, whatever the status; None when J <= 0 leaves it undefined.
    clipped : bool
        Whether ``value`` differs from ``raw``.
    interval : PrevalenceInterval or None
        Of ``method``; only when measured or inconclusive.
    method : str
        How the interval was made.
    confidence_level : float
        In (0, 1).
    youden_j, youden_j_low : float
        J of the counts and its lower confidence bound.
    """

    status: Status
    value: float | None
    raw: float | None
    clipped: bool
    interval: PrevalenceInterval | None
    method: Method
    confidence_level: float
    youden_j: float
    youden_j_low: float

    def __post_init__(self) -> None:
        """Refuse a rate without a measurement, and a measurement without its rate."""
        has_rate = self.status in ("measured", "inconclusive")
        if has_rate != (self.value is not None) or has_rate != (self.interval is not None):
            raise UndefinedError("status", self.status, "exactly a measured rate has a value and an interval")


def corrected_prevalence(
    *,
    n_flagged: int,
    n_traces: int,
    true_positives: int,
    n_positive: int,
    true_negatives: int,
    n_negative: int,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    z: float | None = None,
    method: Method = "lang_reiczigel",
    detection_floor: float = DETECTION_FLOOR,
    rng: np.random.Generator | None = None,
) -> CorrectedPrevalence:
    """Corrected rate from whole counts of independent traces, under the detection floor (SPEC 9.1).

    Parameters
    ----------
    n_flagged, n_traces : int
        Production, ``0 <= n_flagged <= n_traces``, ``n_traces >= 1``.
    true_positives, n_positive : int
        Violating golden traces flagged, and all of them (at least 1).
    true_negatives, n_negative : int
        Clean golden traces passed, and all of them (at least 1).
    confidence_level : float
        In (0, 1).
    z : float, optional
        Overrides the normal quantile.
    method : str
        ``lang_reiczigel``, ``delta``, ``melded`` or ``bootstrap``.
    detection_floor : float
        In [0, 1].
    rng : numpy.random.Generator, optional
        For ``melded`` and ``bootstrap``; a generator with seed 0 when absent.

    Returns
    -------
    CorrectedPrevalence

    Raises
    ------
    UndefinedError
        If a count is no whole number or outside its range, the level is outside (0, 1), ``z`` is not
        positive, or the method is unknown.

    References
    ----------
    Lang & Reiczigel (2014), Prev. Vet. Med. 113:13-22; Rogan & Gladen (1978), Am. J. Epidemiol. 107:71-76.

    Examples
    --------
    >>> golden = dict(true_positives=45, n_positive=50, true_negatives=95, n_negative=100)
    >>> result = corrected_prevalence(n_flagged=60, n_traces=200, **golden)
    >>> result.status, round(result.value, 4), round(result.interval.low, 4), round(result.interval.high, 4)
    ('measured', 0.2941, 0.2069, 0.3894)
    >>> corrected_prevalence(n_flagged=0, n_traces=5000, **golden).status
    'incompatible'
    """
    flagged, traces = part_of_whole("n_flagged", n_flagged, "n_traces", n_traces)
    hits, positives = part_of_whole("true_positives", true_positives, "n_positive", n_positive)
    passes, negatives = part_of_whole("true_negatives", true_negatives, "n_negative", n_negative)
    for field, size in (("n_traces", traces), ("n_positive", positives), ("n_negative", negatives)):
        if size == 0:
            raise UndefinedError(field, size, "must be at least 1")
    counts = Counts(
        flagged=flagged,
        traces=traces,
        true_positives=hits,
        positives=positives,
        true_negatives=passes,
        negatives=negatives,
    )
    found = effective_prevalence(
        counts,
        confidence_level=confidence_level,
        z=z,
        method=method,
        detection_floor=detection_floor,
        rng=rng,
    )
    if min(traces, positives, negatives) < MIN_CLUSTERS:
        return replace(found, status="insufficient_data", value=None, clipped=False, interval=None)
    return found


def effective_prevalence(
    counts: Counts,
    *,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    z: float | None = None,
    method: Method = "lang_reiczigel",
    detection_floor: float = DETECTION_FLOOR,
    rng: np.random.Generator | None = None,
) -> CorrectedPrevalence:
    """Corrected rate from effective counts, under the detection floor (SPEC 9.1).

    The estimator behind `corrected_prevalence`, with its parameters, result and errors.

    Examples
    --------
    >>> counts = Counts(flagged=6.5, traces=96.4, true_positives=40.2, positives=48.1,
    ...                 true_negatives=80.9, negatives=82.3)
    >>> effective_prevalence(counts).status
    'measured'
    """
    if method not in METHODS:
        raise UndefinedError("method", method, f"must be one of {', '.join(METHODS)}")
    z, level = quantile_and_level(confidence_level, z)
    youden_j = counts.youden_j
    bound = youden_low(counts.sensitivity, counts.positives, counts.specificity, counts.negatives, z=z)

    def result(
        status: Status, estimate: RoganGladen | None, interval: PrevalenceInterval | None = None
    ) -> CorrectedPrevalence:
        return CorrectedPrevalence(
            status=status,
            value=estimate.value if estimate and interval else None,
            raw=estimate.raw if estimate else None,
            clipped=bool(estimate and interval and estimate.clipped),
            interval=interval,
            method=method,
            confidence_level=level,
            youden_j=youden_j,
            youden_j_low=bound,
        )

    status = floor_status(youden_j, bound, detection_floor)
    if youden_j <= RESOLUTION:
        return result("below_detection_floor", None)
    estimate = _estimate(counts)
    if status == "below_detection_floor":
        return result(status, estimate)
    try:
        interval = _interval(counts, method, z, level, rng)
    except UndefinedError:
        # So few effective golden traces that the judge, smoothed by one of each kind, no longer discriminates.
        return result("insufficient_data", estimate)
    return result(status, estimate, interval) if interval.compatible else result("incompatible", estimate)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeShift:
    """The corrected rate if the judge differs in production from what the golden set showed (SPEC 9.3).

    Attributes
    ----------
    sensitivity_shift, specificity_shift : float
        Production minus golden set.
    value : float or None
        Corrected rate in [0, 1]; None when there is no such judge (a rate outside [0, 1]) or J <= 0.
    """

    sensitivity_shift: float
    specificity_shift: float
    value: float | None


def judge_shift_sensitivity(observed_rate: float, sensitivity: float, specificity: float) -> tuple[JudgeShift, ...]:
    """Corrected rate with sensitivity, then specificity, off by 5 and 10 points either way (SPEC 9.3).

    Parameters
    ----------
    observed_rate, sensitivity, specificity : float
        In [0, 1].

    Returns
    -------
    tuple of JudgeShift
        Eight rows: sensitivity by -.10, -.05, .05, .10, then specificity by the same.

    Raises
    ------
    UndefinedError
        If an argument is outside [0, 1].

    Examples
    --------
    >>> rows = judge_shift_sensitivity(0.30, 0.90, 0.95)
    >>> [None if row.value is None else round(row.value, 3) for row in rows]
    [0.333, 0.313, 0.278, 0.263, 0.2, 0.25, 0.333, None]
    """
    _check_rate("observed_rate", observed_rate)
    _check_rate("sensitivity", sensitivity)
    _check_rate("specificity", specificity)
    shifts = [(shift, 0.0) for shift in JUDGE_SHIFTS] + [(0.0, shift) for shift in JUDGE_SHIFTS]
    return tuple(
        JudgeShift(
            sensitivity_shift=by1,
            specificity_shift=by0,
            value=_value_or_none(observed_rate, sensitivity + by1, specificity + by0),
        )
        for by1, by0 in shifts
    )


def _value_or_none(observed_rate: float, sensitivity: float, specificity: float) -> float | None:
    # .95 + .05 may exceed 1 by rounding; that judge exists.
    rates = [round(rate, 12) for rate in (sensitivity, specificity)]
    if not all(0.0 <= rate <= 1.0 for rate in rates) or sum(rates) - 1.0 <= RESOLUTION:
        return None
    return rogan_gladen(observed_rate, sensitivity=rates[0], specificity=rates[1]).value


def _estimate(counts: Counts) -> RoganGladen:
    # One J for status, point and interval: that of the counts.
    raw = (counts.observed_rate + counts.specificity - 1.0) / counts.youden_j
    value = _into_unit(raw)
    return RoganGladen(raw=raw, value=value, clipped=value != raw)


def _interval(
    counts: Counts, method: Method, z: float, confidence_level: float, rng: np.random.Generator | None
) -> PrevalenceInterval:
    if method == "delta":
        return delta_interval(counts, z)
    if method == "lang_reiczigel":
        return lang_reiczigel_interval(counts, z)
    generator = np.random.default_rng(DEFAULT_SEED) if rng is None else rng
    resampled = melded_interval if method == "melded" else bootstrap_interval
    return resampled(counts, confidence_level, generator)


def _into_unit(value: float) -> float:
    return min(1.0, max(0.0, value))


def _binomial_variance(rate: float, n: float) -> float:
    return rate * (1.0 - rate) / n


def _prevalence_interval(
    low: float, high: float, method: Method, *, variance: float | None = None
) -> PrevalenceInterval:
    return PrevalenceInterval(
        low_unclipped=low,
        high_unclipped=high,
        low=_into_unit(low),
        high=_into_unit(high),
        method=method,
        variance=variance,
    )


def _column(counts: Sequence[Counts], field: str) -> _Draws:
    return np.array([[getattr(each, field)] for each in counts], np.float64).reshape(-1, 1)


def _beta(rng: np.random.Generator, a: _Draws, b: _Draws, draws: int) -> _Draws:
    # One row a data set; a zero shape is a point mass, and takes no random numbers.
    proper = ((a > 0.0) & (b > 0.0)).ravel()
    drawn = np.repeat(np.where(a <= 0.0, 0.0, 1.0), draws, axis=1)
    drawn[proper] = rng.beta(a[proper], b[proper], size=(np.count_nonzero(proper), draws))
    return drawn


def _redrawn_rate(rng: np.random.Generator, x: _Draws, n: _Draws, draws: int) -> _Draws:
    rate = (x + 1.0) / (n + 2.0)
    below = np.maximum(1.0, np.floor(n))
    whole = (n <= below).ravel()
    drawn = np.empty((len(n), draws))
    k = below[whole]
    drawn[whole] = rng.binomial(k.astype(np.int64), rate[whole], size=(len(k), draws)) / k
    # A mixture of sizes k has variance rate (1 - rate) E[1/k]; this share of floor(n) makes E[1/k] = 1/n.
    k, size = below[~whole], n[~whole]
    share_below = k * (k + 1.0 - size) / size
    sizes = np.where(rng.random((len(k), draws)) < share_below, k, k + 1.0)
    drawn[~whole] = rng.binomial(sizes.astype(np.int64), rate[~whole]) / sizes
    return drawn


def _corrected_draws(observed: _Draws, false_positive: _Draws, true_positive: _Draws, *, undecided: float) -> _Draws:
    youden_j = true_positive - false_positive
    corrected = np.full(observed.shape, undecided)
    np.divide(observed - false_positive, youden_j, out=corrected, where=youden_j > RESOLUTION)
    return corrected


def _quantile_intervals(
    lowest: _Draws, highest: _Draws, confidence_level: float, method: Method
) -> list[PrevalenceInterval]:
    tail = (1.0 - confidence_level) / 2.0
    lows, highs = np.quantile(lowest, tail, axis=1).tolist(), np.quantile(highest, 1.0 - tail, axis=1).tolist()
    # The two laws are ordered inside [0, 1]; outside, with a handful of counts, the ends may swap.
    return [_prevalence_interval(min(ends), max(ends), method) for ends in zip(lows, highs, strict=True)]


def _discriminating(youden_j: float) -> float:
    if youden_j <= RESOLUTION:
        raise UndefinedError("youden_j", youden_j, "the corrected rate needs a judge with J above 0")
    return youden_j


def _check_rate(field: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise UndefinedError(field, value, "must lie in [0, 1]")


def _check_z(z: float) -> None:
    quantile_and_level(DEFAULT_CONFIDENCE_LEVEL, z)


def _check_draws(counts: Sequence[Counts], confidence_level: float, draws: int) -> None:
    check_confidence_level(confidence_level)
    for each in counts:
        _discriminating(each.youden_j)
    if draws < 100:
        raise UndefinedError("draws", draws, "needs at least 100 draws")
