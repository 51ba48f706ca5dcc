"""The two sides of a comparison (SPEC 10.1): the units compared, and what the judge is worth on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from core.data.problems import counted
from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS, EffectiveSample, t_factor
from core.inference.difference import JudgedRate, PairTable
from core.inference.intervals import normal_quantile
from core.inference.prevalence import floor_status, youden_low
from core.instrument.correction import Figures, weighted_figures
from core.instrument.measured import Measured
from core.instrument.pairing import PairCounts
from core.instrument.strata import OUTSIDE_ALLOWED, Stratum, production_weights


class NotComparableError(Exception):
    """There is no difference to speak of; carries the reason to the place that records it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedUnits:
    """One release's units that take part: inside the golden turn strata, fully scored."""

    n: int
    flagged: float
    by_bin: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPairs:
    """One outcome's pairs that take part, and how many do not."""

    table: PairTable
    baseline: ComparedUnits
    candidate: ComparedUnits
    n_unscored: int
    n_outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One release: its units, and the judge weighted to their turn counts.

    Attributes
    ----------
    units : ComparedUnits
    judge : JudgedRate
    smoothed : JudgedRate
        For variances.
    youden_j_low : float
    golden : tuple of (share of these units, Stratum)
        The golden strata that take part; empty without strata.
    """

    units: ComparedUnits
    judge: JudgedRate
    smoothed: JudgedRate
    youden_j_low: float
    golden: tuple[tuple[float, Stratum], ...]


def recorded_units(row: Measured, figures: Figures) -> ComparedUnits:
    """Read back from a measurement the units that its corrected rate was made from."""
    effective = row.prevalence.effective
    if effective is None or effective.n_units <= 0:
        raise NotComparableError("the measurement keeps no effective counts")
    counts = {share.turns: share.n_units for share in row.prevalence.turns}
    by_bin = {stratum.bins[0]: counts.get(stratum.turns, 0) for stratum in figures.by_turns or ()}
    n = row.n_units if figures.by_turns is None else sum(by_bin.values())
    return ComparedUnits(n=n, flagged=n * (effective.n_flagged / effective.n_units), by_bin=by_bin)


def recorded_worth(row: Measured, units: ComparedUnits, *, clustered: bool, confidence_level: float) -> EffectiveSample:
    """Read back from a measurement what its units are worth, with the t factor of the comparison's level."""
    effective = row.prevalence.effective
    if effective is None:
        raise NotComparableError("the measurement keeps no effective counts")
    factor = 1.0
    if clustered and 0 < row.n_flagged < row.n_units:
        factor = t_factor(effective.n_clusters, confidence_level=confidence_level)
    return EffectiveSample(
        n=units.n,
        n_clusters=effective.n_clusters,
        clustered=clustered,
        design_effect=effective.design_effect,
        t_factor=factor,
        n_effective=units.n / effective.design_effect * factor,
        n_clusters_with_minority=0,
        notes=(),
    )


def compared_pairs(counts: PairCounts, outcome: int, figures: Figures) -> ComparedPairs:
    """Take one outcome's pairs (0 the composite, c + 1 the c-th category) inside the golden strata of both releases."""
    rows = np.array([row[1:] for row in counts.histogram if row[0] == outcome], np.int64).reshape(-1, 5)
    inside = np.ones(len(rows), bool)
    if figures.by_turns is not None:
        known = [b for stratum in figures.by_turns for b in stratum.bins]
        inside = np.isin(rows[:, 0], known) & np.isin(rows[:, 1], known)
    scored, kept = int(rows[:, 4].sum()), rows[inside]
    n, sums = int(kept[:, 4].sum()), counts.sums[outcome]
    if sums.n != n:
        raise UndefinedError(
            "pairs", sums.n, f"their cluster sums do not hold the calibration's turn strata ({n} pairs)"
        )
    if sums.n_clusters < MIN_CLUSTERS:
        found = counted(sums.n_clusters, "cluster" if counts.clustered else "pair")
        raise NotComparableError(f"insufficient data: {found} to compare; at least {MIN_CLUSTERS} are needed")
    if (scored - n) / scored > OUTSIDE_ALLOWED:
        raise NotComparableError(
            f"unit_mismatch: {scored - n} of {scored} pairs have numbers of turns that the golden set does not have"
        )
    cell = {(a, b): int(kept[(kept[:, 2] == a) & (kept[:, 3] == b), 4].sum()) for a in (0, 1) for b in (0, 1)}
    halves = [
        ComparedUnits(
            n=n,
            flagged=int(kept[kept[:, 2 + side] == 1, 4].sum()),
            by_bin={int(b): int(kept[kept[:, side] == b, 4].sum()) for b in np.unique(kept[:, side])},
        )
        for side in (0, 1)
    ]
    return ComparedPairs(
        table=PairTable(both=cell[1, 1], baseline_only=cell[1, 0], candidate_only=cell[0, 1], neither=cell[0, 0]),
        baseline=halves[0],
        candidate=halves[1],
        n_unscored=counts.n_pairs - scored,
        n_outside=scored - n,
    )


def side_of(release: str, units: ComparedUnits, figures: Figures, *, confidence_level: float, floor: float) -> Side:
    """Weight the judge to one release's turn counts, and hold it against the detection floor again.

    Raises
    ------
    NotComparableError
        The judge is below the floor on these units, or its golden set holds too little.
    """
    sensitivity, n_positive = figures.sensitivity, figures.effective.n_positive
    specificity, n_negative = figures.specificity, figures.effective.n_negative
    golden: tuple[tuple[float, Stratum], ...] = ()
    if figures.by_turns is not None:
        sensitivity, n_positive, specificity, n_negative = weighted_figures(units.by_bin, figures, figures.by_turns)
        shares, _, _ = production_weights(units.by_bin, figures.by_turns)
        golden = tuple(zip(shares, figures.by_turns, strict=True))
    if n_positive <= 0 or n_negative <= 0:
        raise NotComparableError("insufficient data: a golden class holds less than two clusters")
    low = youden_low(sensitivity, n_positive, specificity, n_negative, z=normal_quantile(confidence_level))
    youden_j = sensitivity + specificity - 1.0
    if floor_status(youden_j, low, floor) == "below_detection_floor":
        raise NotComparableError(f"below_detection_floor: J is {youden_j:.3f} on the {release}'s units")
    judge = JudgedRate(
        observed_rate=units.flagged / units.n,
        sensitivity=sensitivity,
        specificity=specificity,
        n_positive=n_positive,
        n_negative=n_negative,
    )
    try:
        smoothed = judge.smoothed()
    except UndefinedError:
        raise NotComparableError("insufficient data: too few effective golden traces for an interval") from None
    return Side(units=units, judge=judge, smoothed=smoothed, youden_j_low=low, golden=golden)


def error_correlations(baseline: Side, candidate: Side) -> tuple[float, float]:
    """Return the correlation of the two sensitivities' errors, and of the two specificities' (SPEC 10.2).

    Under one calibration they are means of the same golden strata with different weights:
    ρ = Σ wA wB u / √(Σ wA² u · Σ wB² u), u(k) = s(k)(1-s(k))/n(k) as in 5.2.
    """
    if not baseline.golden:
        return 1.0, 1.0
    strata = [stratum for _, stratum in baseline.golden]
    weights = np.array([[share for share, _ in side.golden] for side in (baseline, candidate)])

    def correlation(right: list[int], size: list[int]) -> float:
        n = np.array(size, float)
        smooth = (np.array(right) + 0.5) / (n + 1.0)
        # A stratum without golden traces of a class has no weight on either side.
        error = np.divide(smooth * (1.0 - smooth), n, out=np.zeros(len(n)), where=n > 0)
        if np.array_equal(weights[0], weights[1]):
            return 1.0
        own = np.sqrt(weights**2 @ error)
        return float(min(1.0, weights[0] * weights[1] @ error / own.prod()))

    return (
        correlation([s.true_positives for s in strata], [s.n_positive for s in strata]),
        correlation([s.true_negatives for s in strata], [s.n_negative for s in strata]),
    )
