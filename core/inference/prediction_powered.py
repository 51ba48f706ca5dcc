"""The rate of violations from a labelled random part of production, helped by the judge (SPEC 13.1).

Where the corrected rate trusts a golden set to speak for production, this one trusts that the labelled traces were
drawn from production at random: it needs no sensitivity or specificity from elsewhere, and fails when they were not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, part_of_whole, quantile_and_level, wilson_limits


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledCounts:
    """Production traces with a human label and the judge's decision.

    Attributes
    ----------
    violating_flagged, violating_passed, clean_flagged, clean_passed : int
        At least 0.
    """

    violating_flagged: int
    violating_passed: int
    clean_flagged: int
    clean_passed: int

    def __post_init__(self) -> None:
        """Refuse what is no count."""
        part_of_whole("violating_flagged", self.violating_flagged, "n_positive", self.n_positive)
        part_of_whole("clean_passed", self.clean_passed, "n_negative", self.n_negative)

    @property
    def n(self) -> int:
        """Labelled traces."""
        return self.n_positive + self.n_negative

    @property
    def n_positive(self) -> int:
        """Labelled violating."""
        return self.violating_flagged + self.violating_passed

    @property
    def n_negative(self) -> int:
        """Labelled clean."""
        return self.clean_flagged + self.clean_passed

    @property
    def n_flagged(self) -> int:
        """Flagged by the judge."""
        return self.violating_flagged + self.clean_flagged


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionPowered:
    """A prediction-powered rate with its interval (SPEC 13.1).

    Attributes
    ----------
    value, raw : float
        In [0, 1], and before clipping.
    low, high : float
        In [0, 1], ``low < high`` as long as both are; widened where a class is thin.
    variance : float
        Of ``raw``.
    weight : float
        lambda, how far the judge is relied on, in [0, 1].
    widened : bool
        Whether a class has fewer than 5 labels, and the interval holds the Wilson interval of the labels too.
    labels_low, labels_high : float
        Wilson interval of the labels alone.
    confidence_level : float
    n_labelled, n_positive, n_rest : int
        Labelled traces, those that violate, and production traces without a label.
    """

    value: float
    raw: float
    low: float
    high: float
    variance: float
    weight: float
    widened: bool
    labels_low: float
    labels_high: float
    confidence_level: float
    n_labelled: int
    n_positive: int
    n_rest: int


def prediction_powered_rate(
    labelled: LabelledCounts,
    *,
    n_flagged: int,
    n_rest: int,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    z: float | None = None,
    weight: float | None = None,
    design_effect: float = 1.0,
) -> PredictionPowered:
    """Rate of violations by PPI++ (SPEC 13.1).

    raw = mean(Y) + lambda (mean of f over the rest - mean of f over the labelled),
    V = Var(Y - lambda f) / n + lambda^2 Var(f) / N.

    Parameters
    ----------
    labelled : LabelledCounts
        A random sample of production, at least 2 traces.
    n_flagged, n_rest : int
        Flagged of the production traces that have no label, at least 1.
    confidence_level : float
        In (0, 1).
    z : float, optional
        Overrides the normal quantile.
    weight : float, optional
        lambda in [0, 1]; the one of least variance, Cov(Y, f) / ((1 + n/N) Var f), when absent. 0 if all flags agree.
    design_effect : float
        At least 1: variance of clustered production traces over that of independent ones.

    Returns
    -------
    PredictionPowered
        With fewer than 5 labels of a class the normal interval is too narrow (none at all has width 0), and is
        widened to hold the Wilson interval of the labels.

    Raises
    ------
    UndefinedError
        If a count is out of its range, ``weight`` outside [0, 1], ``design_effect`` below 1, or the level outside
        (0, 1).

    References
    ----------
    Angelopoulos, Duchi & Zrnic (2023), arXiv:2311.01453.

    Examples
    --------
    >>> labelled = LabelledCounts(violating_flagged=18, violating_passed=2, clean_flagged=9, clean_passed=171)
    >>> found = prediction_powered_rate(labelled, n_flagged=280, n_rest=2000, confidence_level=0.90)
    >>> round(found.raw, 6), round(found.low, 6), round(found.high, 6)
    (0.102895, 0.078332, 0.127457)
    """
    flagged, rest = part_of_whole("n_flagged", n_flagged, "n_rest", n_rest)
    z, level = quantile_and_level(confidence_level, z)
    if labelled.n < 2 or rest < 1:
        raise UndefinedError("n_labelled", (labelled.n, rest), "needs at least 2 labelled and 1 unlabelled trace")
    if not (design_effect >= 1.0 and math.isfinite(design_effect)):
        raise UndefinedError("design_effect", design_effect, "must be finite and at least 1")
    used = _best_weight(labelled, flagged, rest) if weight is None else weight
    if not 0.0 <= used <= 1.0:
        raise UndefinedError("weight", weight, "must lie in [0, 1]")
    n, y, f = labelled.n, labelled.n_positive / labelled.n, labelled.n_flagged / labelled.n
    g = flagged / rest
    raw = y + used * (g - f)
    of_labels = y * (1.0 - y) + used**2 * f * (1.0 - f) - 2.0 * used * (labelled.violating_flagged / n - y * f)
    # Var(Y - lambda f) is a sum of squares that rounding may take below 0.
    variance = design_effect * (max(0.0, of_labels) / n + used**2 * g * (1.0 - g) / rest)
    half_width = z * math.sqrt(variance)
    low, high = raw - half_width, raw + half_width
    labels_low, labels_high = wilson_limits(y, n / design_effect, z=z)
    widened = min(labelled.n_positive, labelled.n_negative) < MIN_CLUSTERS
    if widened:
        low, high = min(low, labels_low), max(high, labels_high)
    return PredictionPowered(
        value=_into_unit(raw),
        raw=raw,
        low=_into_unit(low),
        high=_into_unit(high),
        variance=variance,
        weight=used,
        widened=widened,
        labels_low=labels_low,
        labels_high=labels_high,
        confidence_level=level,
        n_labelled=n,
        n_positive=labelled.n_positive,
        n_rest=rest,
    )


def _best_weight(labelled: LabelledCounts, flagged: int, rest: int) -> float:
    """Lambda of least variance, with the variance of the flags over all of production, as ppi-python takes it."""
    n = labelled.n
    share = (labelled.n_flagged + flagged) / (n + rest)
    variance = share * (1.0 - share) * (n + rest) / (n + rest - 1.0)
    if variance == 0.0:
        return 0.0
    covariance = labelled.violating_flagged / n - labelled.n_positive / n * labelled.n_flagged / n
    return _into_unit(covariance / ((1.0 + n / rest) * variance))


def _into_unit(value: float) -> float:
    return min(1.0, max(0.0, value))
