"""The difference of two corrected rates (SPEC 10.2): its variance, interval, and what a differing judge does to it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from core.errors import UndefinedError
from core.inference.clusters import (
    DESIGN_EFFECT_FLOOR,
    EMPTY,
    FEW,
    FEW_CLUSTERS,
    FLOOR_CORRELATION,
    ONE_CLUSTER,
    ZERO_VARIANCE,
    EffectiveSample,
    t_factor,
)
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL
from core.inference.prevalence import RESOLUTION


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRate:
    """One release's flag rate, and the judge's rates for its conversations (SPEC 10.2).

    Attributes
    ----------
    observed_rate, sensitivity, specificity : float
        In [0, 1], with J = sensitivity + specificity - 1 above 0.
    n_positive, n_negative : float
        Effective golden traces behind sensitivity and specificity, greater than 0.
    """

    observed_rate: float
    sensitivity: float
    specificity: float
    n_positive: float
    n_negative: float

    def __post_init__(self) -> None:
        """Refuse rates outside [0, 1], empty classes, and a judge that does not discriminate."""
        for name in ("observed_rate", "sensitivity", "specificity"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UndefinedError(name, getattr(self, name), "must lie in [0, 1]")
        for name in ("n_positive", "n_negative"):
            if not getattr(self, name) > 0.0:
                raise UndefinedError(name, getattr(self, name), "must be greater than 0")
        if self.youden_j <= RESOLUTION:
            raise UndefinedError("youden_j", self.youden_j, "the corrected rate needs a judge with J above 0")

    @property
    def youden_j(self) -> float:
        """Youden's J."""
        return self.sensitivity + self.specificity - 1.0

    @property
    def raw(self) -> float:
        """Corrected rate, not clipped."""
        return (self.observed_rate + self.specificity - 1.0) / self.youden_j

    def smoothed(self) -> JudgedRate:
        """Return the same with one golden trace of each kind added to both classes, as in 8.3: for variances.

        Raises
        ------
        UndefinedError
            If the J of the smoothed rates is not above 0.

        Examples
        --------
        >>> rate = JudgedRate(observed_rate=0.3, sensitivity=0.9, specificity=1.0, n_positive=98, n_negative=98)
        >>> round(rate.smoothed().sensitivity, 3), round(rate.smoothed().specificity, 3)
        (0.892, 0.99)
        """
        return JudgedRate(
            observed_rate=self.observed_rate,
            sensitivity=(self.sensitivity * self.n_positive + 1.0) / (self.n_positive + 2.0),
            specificity=(self.specificity * self.n_negative + 1.0) / (self.n_negative + 2.0),
            n_positive=self.n_positive + 2.0,
            n_negative=self.n_negative + 2.0,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairTable:
    """Pairs by the flags of both releases; counts may be effective.

    Attributes
    ----------
    both, baseline_only, candidate_only, neither : float
        n11, n10, n01 and n00, at least 0.
    """

    both: float
    baseline_only: float
    candidate_only: float
    neither: float

    @property
    def n(self) -> float:
        """All pairs."""
        return self.both + self.baseline_only + self.candidate_only + self.neither

    def scaled(self, n: float) -> PairTable:
        """Return the same shares of `n` pairs."""
        factor = n / self.n
        return PairTable(
            both=self.both * factor,
            baseline_only=self.baseline_only * factor,
            candidate_only=self.candidate_only * factor,
            neither=self.neither * factor,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSums:
    """Sums over clusters of n(g) pairs, a(g) flagged in the baseline and b(g) in the candidate (SPEC 10.2).

    Attributes
    ----------
    n, n_clusters : int
        Pairs, and clusters that hold any.
    clusters_with_change : int
        Clusters with a pair that is flagged in one release alone.
    sum_n2, sum_na, sum_nb, sum_a2, sum_b2, sum_ab : int
    changes : tuple of (change, n_clusters)
        How many clusters have each change b(g) - a(g).
    """

    n: int
    n_clusters: int
    clusters_with_change: int
    sum_n2: int
    sum_na: int
    sum_nb: int
    sum_a2: int
    sum_b2: int
    sum_ab: int
    changes: tuple[tuple[int, int], ...]


def effective_pairs(
    table: PairTable,
    sums: PairSums,
    *,
    clustered: bool,
    baseline_j: float = 1.0,
    candidate_j: float = 1.0,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
) -> EffectiveSample:
    """Effective number of independent pairs behind a paired difference (SPEC 10.2).

    As in 5.1, of the outcome d = b/J(B) - a/J(A) of a pair: v = G/(G-1) Σ (d(g) - d n(g))² / N², design effect
    v / (Var d / N), at least 1 + 0.1 (N/G - 1) while fewer than 10 clusters hold a changed pair.

    Parameters
    ----------
    table : PairTable
    sums : PairSums
        Of the same pairs.
    clustered : bool
        Whether the data name clusters. If not, the pairs are taken as independent.
    baseline_j, candidate_j : float
        Youden's J for either release's conversations, greater than 0.
    confidence_level : float
        In (0, 1); for the t quantile.

    Returns
    -------
    EffectiveSample
        Without any variance in d the pairs are worth their number of clusters, with note ``zero_variance``. No pair,
        or one cluster, is worth 0. `n_clusters_with_minority` counts the clusters with a changed pair.

    Raises
    ------
    UndefinedError
        If a J is not above 0.

    Examples
    --------
    >>> table = PairTable(both=10, baseline_only=20, candidate_only=20, neither=50)
    >>> sums = PairSums(n=100, n_clusters=20, clusters_with_change=8, sum_n2=500, sum_na=150, sum_nb=150,
    ...                 sum_a2=150, sum_b2=150, sum_ab=50, changes=((-5, 4), (0, 12), (5, 4)))
    >>> worth = effective_pairs(table, sums, clustered=True)
    >>> round(worth.design_effect, 3), round(worth.n_effective, 2)
    (5.263, 16.66)
    """
    if not (baseline_j > 0.0 and candidate_j > 0.0):
        raise UndefinedError("youden_j", (baseline_j, candidate_j), "must be above 0")
    if sums.n == 0:
        return _sample(sums, clustered, worth=0.0, notes=(EMPTY,))
    if not clustered:
        return _sample(sums, clustered, worth=float(sums.n))
    if sums.n_clusters == 1:
        return _sample(sums, clustered, worth=0.0, notes=(ONE_CLUSTER,))
    few = (FEW,) if sums.n_clusters < FEW_CLUSTERS else ()
    independent = _variance_of_pairs(table, baseline_j, candidate_j)
    if independent <= 0.0:
        return _sample(
            sums, clustered, worth=float(sums.n_clusters), design_effect=sums.n / sums.n_clusters,
            notes=(*few, ZERO_VARIANCE),
        )  # fmt: skip
    measured = max(1.0, _variance_between_clusters(table, sums, baseline_j, candidate_j) / independent)
    floor = 1.0
    if sums.clusters_with_change < FEW_CLUSTERS:
        floor += FLOOR_CORRELATION * (sums.n / sums.n_clusters - 1.0)
    factor = t_factor(sums.n_clusters, confidence_level=confidence_level)
    design_effect = max(measured, floor)
    notes = (*few, DESIGN_EFFECT_FLOOR) if floor > measured else few
    return _sample(
        sums, clustered, worth=sums.n / design_effect * factor, design_effect=design_effect, factor=factor, notes=notes
    )


def paired_variance(
    table: PairTable, n_effective: float, *, baseline_j: float = 1.0, candidate_j: float = 1.0
) -> float:
    """Variance of pB/J(B) - pA/J(A) from pairs, with one changed pair added in each direction (SPEC 10.2).

    Parameters
    ----------
    table : PairTable
        With at least one pair.
    n_effective : float
        Independent pairs that these are worth, greater than 0.
    baseline_j, candidate_j : float
        Greater than 0.

    Returns
    -------
    float
        Greater than 0, also when no pair changed.

    References
    ----------
    Bonett & Price (2012), J. Educ. Behav. Stat. 37:479-488.

    Examples
    --------
    >>> table = PairTable(both=0, baseline_only=38, candidate_only=18, neither=444)
    >>> round(paired_variance(table, 500) ** 0.5, 5)
    0.01507
    """
    worth = table.scaled(n_effective)
    smoothed = PairTable(
        both=worth.both,
        baseline_only=worth.baseline_only + 1.0,
        candidate_only=worth.candidate_only + 1.0,
        neither=worth.neither,
    )
    return _variance_of_pairs(smoothed, baseline_j, candidate_j)


def one_sample_variance(rate: float, n_effective: float) -> float:
    """Variance of a flag rate with one flag and one pass added (SPEC 10.2).

    (x+1)(n-x+1) / (n+2)³ with x = rate · n.

    Parameters
    ----------
    rate : float
        In [0, 1].
    n_effective : float
        Greater than 0.

    Returns
    -------
    float
        Greater than 0, also at a rate of 0 or 1.

    References
    ----------
    Agresti & Caffo (2000), Am. Stat. 54:280-288.

    Examples
    --------
    >>> round(one_sample_variance(0.0, 98), 6)
    9.9e-05
    """
    size = n_effective + 2.0
    smoothed = (rate * n_effective + 1.0) / size
    return smoothed * (1.0 - smoothed) / size


def calibration_variance(
    baseline: JudgedRate, candidate: JudgedRate, *, positive_correlation: float, negative_correlation: float
) -> tuple[float, float]:
    """Parts of Var(θB - θA) that come from sensitivity and from specificity (SPEC 10.2).

    With x = θ s1/J a side, s1 the standard error of its sensitivity, and ρ their correlation: xA² + xB² - 2ρ xA xB;
    for specificity the same with 1 - θ. With one judge for both (ρ = 1) this is Δ² Var q / J².

    Parameters
    ----------
    baseline, candidate : JudgedRate
        Smoothed, so that a golden class without an error has a variance.
    positive_correlation, negative_correlation : float
        Of the two sensitivities' errors, and the two specificities', in [0, 1]: 1 when they are one estimate, 0 when
        they come from different golden sets.

    Returns
    -------
    tuple of float
        Both at least 0.

    Examples
    --------
    >>> one = JudgedRate(observed_rate=0.3, sensitivity=0.9, specificity=0.9, n_positive=100, n_negative=100)
    >>> other = JudgedRate(observed_rate=0.4, sensitivity=0.9, specificity=0.9, n_positive=100, n_negative=100)
    >>> parts = calibration_variance(one, other, positive_correlation=1, negative_correlation=1)
    >>> [round(part, 9) for part in parts]  # (0.125/0.8)² · 0.9 · 0.1 / 100
    [2.1973e-05, 2.1973e-05]
    """

    def part(a: float, b: float, correlation: float) -> float:
        # In this form rounding cannot make it negative.
        return (b - a) ** 2 + 2.0 * (1.0 - correlation) * a * b

    errors = [
        (
            math.sqrt(side.sensitivity * (1.0 - side.sensitivity) / side.n_positive) / side.youden_j,
            math.sqrt(side.specificity * (1.0 - side.specificity) / side.n_negative) / side.youden_j,
        )
        for side in (baseline, candidate)
    ]
    (sens_a, spec_a), (sens_b, spec_b) = errors
    theta_a, theta_b = baseline.raw, candidate.raw
    return (
        max(0.0, part(theta_a * sens_a, theta_b * sens_b, positive_correlation)),
        max(0.0, part((1.0 - theta_a) * spec_a, (1.0 - theta_b) * spec_b, negative_correlation)),
    )


def flag_shift(baseline: JudgedRate, candidate: JudgedRate) -> float:
    """Difference of flag rates to expect at equal rates of violations: from turn counts alone (SPEC 10.3).

    θ (q1B - q1A) + (1-θ) (q0A - q0B), θ the mean of the two corrected rates brought into [0, 1].

    Parameters
    ----------
    baseline, candidate : JudgedRate

    Returns
    -------
    float
        In [-1, 1]; 0 when the judge's rates are the same for both.

    Examples
    --------
    >>> short = JudgedRate(observed_rate=0.2, sensitivity=0.9, specificity=0.9, n_positive=98, n_negative=98)
    >>> long = JudgedRate(observed_rate=0.3, sensitivity=0.9, specificity=0.8, n_positive=98, n_negative=98)
    >>> round(flag_shift(short, long), 4)
    0.0866
    """
    theta = min(1.0, max(0.0, (baseline.raw + candidate.raw) / 2.0))
    return theta * (candidate.sensitivity - baseline.sensitivity) + (1.0 - theta) * (
        baseline.specificity - candidate.specificity
    )


def degrees_of_freedom(parts: Iterable[tuple[float, int | None]]) -> float | None:
    """Welch-Satterthwaite degrees of freedom of a sum of variances (SPEC 10.3).

    (Σ v)² / Σ v²/f.

    Parameters
    ----------
    parts : iterable of (variance, degrees of freedom or None)
        None for a variance that is taken as known.

    Returns
    -------
    float or None
        None when no part has finite degrees of freedom.

    References
    ----------
    Satterthwaite (1946), Biometrics Bull. 2:110-114.

    Examples
    --------
    >>> degrees_of_freedom([(1.0, 9), (1.0, 9)])
    18.0
    """
    listed = list(parts)
    denominator = sum(variance**2 / f for variance, f in listed if f is not None)
    return sum(variance for variance, _ in listed) ** 2 / denominator if denominator > 0.0 else None


def shift_tolerance(difference: float, youden_j: float, rate: float) -> tuple[float | None, float | None]:
    """Shift in sensitivity, and in specificity, of one release's judge that explains a difference (SPEC 10.4).

    J |Δ| / θ and J |Δ| / (1-θ).

    Parameters
    ----------
    difference : float
        Of corrected rates.
    youden_j : float
        Greater than 0.
    rate : float
        Corrected rate θ of the other release, in [0, 1].

    Returns
    -------
    tuple of float or None
        Each in [0, 1]; None where no shift up to 1 explains it.

    Examples
    --------
    >>> [round(shift, 4) for shift in shift_tolerance(0.05, 0.7, 0.15)]
    [0.2333, 0.0412]
    """
    needed = youden_j * abs(difference)

    def within(share: float) -> float | None:
        return needed / share if needed <= share and share > 0.0 else None

    return within(rate), within(1.0 - rate)


def _variance_of_pairs(table: PairTable, baseline_j: float, candidate_j: float) -> float:
    up, down = 1.0 / candidate_j, 1.0 / baseline_j
    n = table.n
    cells = [(table.both, up - down), (table.candidate_only, up), (table.baseline_only, -down)]
    mean = sum(count * value for count, value in cells) / n
    return max(0.0, sum(count * value**2 for count, value in cells) / n - mean**2) / n


def _variance_between_clusters(table: PairTable, sums: PairSums, baseline_j: float, candidate_j: float) -> float:
    # Written with A = a/J(A) and B = b/J(B). With one J the sums subtract as whole numbers, without rounding.
    up, down = 1.0 / candidate_j, 1.0 / baseline_j
    if baseline_j == candidate_j:
        squares = (sums.sum_a2 + sums.sum_b2 - 2 * sums.sum_ab) * up**2
    else:
        squares = sums.sum_b2 * up**2 + sums.sum_a2 * down**2 - 2.0 * sums.sum_ab * up * down
    n, g = sums.n, sums.n_clusters
    mean = ((table.both + table.candidate_only) * up - (table.both + table.baseline_only) * down) / n
    spread = squares - 2.0 * mean * (sums.sum_nb * up - sums.sum_na * down) + mean**2 * sums.sum_n2
    return g / (g - 1) * spread / n**2


def _sample(
    sums: PairSums,
    clustered: bool,
    *,
    worth: float,
    design_effect: float = 1.0,
    factor: float = 1.0,
    notes: tuple[str, ...] = (),
) -> EffectiveSample:
    return EffectiveSample(
        n=sums.n,
        n_clusters=sums.n_clusters,
        clustered=clustered,
        design_effect=design_effect,
        t_factor=factor,
        n_effective=worth,
        n_clusters_with_minority=sums.clusters_with_change,
        notes=notes,
    )
