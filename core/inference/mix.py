"""The corrected rate when production's mix of categories is not the golden set's (SPEC 13.4)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from core.errors import UndefinedError
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, part_of_whole, quantile_and_level
from core.inference.prevalence import RESOLUTION, Counts, lang_reiczigel_interval

SEVERAL = "several"
"""Pattern of the traces that violate in more than one category."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternWeight:
    """One label pattern: its golden counts and its shares.

    Attributes
    ----------
    n_positive, true_positives : int
        Golden violating traces of the pattern, and those flagged by the composite.
    golden_share, production_share : float
        Of the violating traces, in [0, 1]; production's is estimated.
    """

    n_positive: int
    true_positives: int
    golden_share: float
    production_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryRate:
    """A category's corrected rate in production, as the measurement records it.

    Attributes
    ----------
    raw : float
        Unclipped corrected rate.
    variance : float
        Of the papers' delta method, at least 0.
    """

    raw: float
    variance: float

    def __post_init__(self) -> None:
        """Refuse what is no rate with a variance."""
        if not (math.isfinite(self.raw) and 0.0 <= self.variance < math.inf):
            raise UndefinedError("variance", (self.raw, self.variance), "needs a finite rate and a variance >= 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class MixRobust:
    """An interval for the corrected rate that allows for production's mix of categories (SPEC 13.4).

    Attributes
    ----------
    status : str
        ``derived``, or ``not_available`` with the reason.
    low, high : float or None
        In [0, 1]: the union of the plain interval with the reweighted one.
    value : float or None
        Corrected rate with the reweighted sensitivity, in [0, 1].
    sensitivity, n_positive : float or None
        Reweighted, and what it is worth in independent traces.
    reweighted_low, reweighted_high : float or None
    patterns : mapping of str to PatternWeight
    reason : str or None
    """

    status: Literal["derived", "not_available"]
    low: float | None = None
    high: float | None = None
    value: float | None = None
    sensitivity: float | None = None
    n_positive: float | None = None
    reweighted_low: float | None = None
    reweighted_high: float | None = None
    patterns: Mapping[str, PatternWeight]
    reason: str | None = None


def mix_robust_interval(
    counts: Counts,
    *,
    patterns: Mapping[str, tuple[int, int]],
    category_rates: Mapping[str, CategoryRate],
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    z: float | None = None,
) -> MixRobust:
    """Union of the plain interval with one under production's estimated mix of categories (SPEC 13.4).

    With T(c) the categories' corrected rates, S = sum T(c), and T the composite's rate: the share of several-category
    traces is the s in [0, 1] with S = T (1 + s), that of the single category c is (1 - s) T(c)/S. The sensitivity is
    sum w c/n over the patterns, plus what lies between the pooled rate and the one in ``counts`` (optimism, turn
    weighting), and T follows from it. It is worth what a rate weighted to strata is worth (SPEC 5.2), with the
    variance that the mix itself brings, sum ((1 - s)/S (c/n - mean))^2 Var T(c), added to the variance there.

    Parameters
    ----------
    counts : Counts
        The composite's effective counts, as the measurement records them.
    patterns : mapping of str to (int, int)
        Golden (true_positives, n_positive) by label pattern: each single category, and ``several``.
    category_rates : mapping of str to CategoryRate
        Of the composite's categories; a rate below 0 counts as 0.
    confidence_level : float
        In (0, 1).
    z : float, optional
        Overrides the normal quantile.

    Returns
    -------
    MixRobust
        Not available when a category of the composite has no corrected rate (it is then missing from
        ``category_rates`` though the patterns hold it), none is above 0, the corrected rate itself is not above 0, or a
        pattern of production has no golden trace.

    Raises
    ------
    UndefinedError
        If a pattern's counts are no counts, J <= 0, or the level is outside (0, 1).

    Examples
    --------
    >>> counts = Counts(flagged=500, traces=2000, true_positives=160, positives=200, true_negatives=190, negatives=200)
    >>> found = mix_robust_interval(counts, patterns={"hate": (95, 100), "fraud": (65, 100)},
    ...                             category_rates={"hate": CategoryRate(raw=0.05, variance=0.0001),
    ...                                             "fraud": CategoryRate(raw=0.20, variance=0.0003)})
    >>> round(found.sensitivity, 3), round(found.low, 3), round(found.high, 3)
    (0.71, 0.219, 0.36)
    """
    z, _ = quantile_and_level(confidence_level, z)
    for name, (hits, n) in patterns.items():
        part_of_whole(f"true_positives of {name}", hits, f"n_positive of {name}", n)
    plain = lang_reiczigel_interval(counts, z)
    shares, reason = _production_mix(counts, patterns, category_rates)
    total = sum(n for _, n in patterns.values())
    weights = {
        name: PatternWeight(
            n_positive=n,
            true_positives=hits,
            golden_share=n / total if total else 0.0,
            production_share=shares.get(name, 0.0),
        )
        for name, (hits, n) in patterns.items()
    }
    if reason:
        return MixRobust(status="not_available", patterns=weights, reason=reason)
    sensitivity, worth = _reweighted(counts, weights, total, category_rates)
    found = MixRobust(status="not_available", patterns=weights, sensitivity=sensitivity, n_positive=worth)
    if sensitivity + counts.specificity - 1.0 <= RESOLUTION:
        return replace(found, reason="with production's mix of categories the judge does not discriminate")
    other = replace(counts, true_positives=sensitivity * worth, positives=worth)
    try:
        reweighted = lang_reiczigel_interval(other, z)
    except UndefinedError:
        return replace(found, reason="too few golden traces of the patterns that production has")
    value = (other.observed_rate + other.specificity - 1.0) / other.youden_j
    return replace(
        found,
        status="derived",
        low=min(plain.low, reweighted.low),
        high=max(plain.high, reweighted.high),
        value=min(1.0, max(0.0, value)),
        reweighted_low=reweighted.low,
        reweighted_high=reweighted.high,
    )


def _production_mix(
    counts: Counts, patterns: Mapping[str, tuple[int, int]], category_rates: Mapping[str, CategoryRate]
) -> tuple[dict[str, float], str | None]:
    """Shares of the patterns among production's violating traces, or why they cannot be told."""
    unknown = [name for name in patterns if name != SEVERAL and name not in category_rates]
    if unknown:
        return {}, f"no corrected rate for {', '.join(unknown)}"
    positive = _above_zero(category_rates)
    total, excess = sum(positive.values()), counts.observed_rate + counts.specificity - 1.0
    if total <= 0.0 or excess <= 0.0:
        return {}, "no corrected rate above 0: there is no mix to weight to"
    single = {name: value / total for name, value in positive.items()}
    empty = [name for name, share in single.items() if share > 0.0 and not patterns.get(name, (0, 0))[1]]
    if empty:
        return single, f"no golden trace violates in {', '.join(empty)} alone"
    several = _several_share(counts, patterns, single, total, excess)
    return {**{name: (1.0 - several) * share for name, share in single.items()}, SEVERAL: several}, None


def _above_zero(category_rates: Mapping[str, CategoryRate]) -> dict[str, float]:
    return {name: found.raw if found.raw > RESOLUTION else 0.0 for name, found in category_rates.items()}


def _several_share(
    counts: Counts, patterns: Mapping[str, tuple[int, int]], single: Mapping[str, float], total: float, excess: float
) -> float:
    """Share s with S = T (1 + s), where T, the composite's rate, itself depends on s: linear in s."""
    hits, n = patterns.get(SEVERAL, (0, 0))
    if not n:
        # Nothing in the golden set violates twice: such traces count for their categories.
        return 0.0
    of_single = sum(share * patterns[name][0] / patterns[name][1] for name, share in single.items() if share > 0.0)
    slope = total * (hits / n - of_single) / excess
    start = total * (of_single + _offset(counts, patterns) + counts.specificity - 1.0) / excess - 1.0
    return min(1.0, max(0.0, start / (1.0 - slope))) if slope < 1.0 else float(start > 0.0)


def _offset(counts: Counts, patterns: Mapping[str, tuple[int, int]]) -> float:
    """What optimism and turn weighting took off, or put on, the pooled sensitivity."""
    return counts.sensitivity - sum(hits for hits, _ in patterns.values()) / sum(n for _, n in patterns.values())


def _reweighted(
    counts: Counts, weights: Mapping[str, PatternWeight], total: int, category_rates: Mapping[str, CategoryRate]
) -> tuple[float, float]:
    """Sensitivity under production's mix, and its worth."""
    used = {name: pattern for name, pattern in weights.items() if pattern.production_share > 0.0}
    smooth = {name: (p.true_positives + 0.5) / (p.n_positive + 1.0) for name, p in used.items()}
    mean = sum(p.production_share * smooth[name] for name, p in used.items())
    of_golden = sum(
        p.production_share**2 * smooth[name] * (1.0 - smooth[name]) / p.n_positive for name, p in used.items()
    )
    summed = sum(_above_zero(category_rates).values())
    single = 1.0 - (used[SEVERAL].production_share if SEVERAL in used else 0.0)
    of_mix = sum(
        (single / summed * (smooth[name] - mean)) ** 2 * category_rates[name].variance
        for name in used
        if name != SEVERAL
    )
    worth = min(mean * (1.0 - mean) / (of_golden + of_mix), float(total)) * counts.positives / total
    apparent = sum(p.production_share * p.true_positives / p.n_positive for p in used.values())
    offset = _offset(counts, {name: (p.true_positives, p.n_positive) for name, p in weights.items()})
    return min(1.0, max(0.0, apparent + offset)), worth
