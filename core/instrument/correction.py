"""The corrected rate (SPEC 8-9): what is behind an observed rate, or why that cannot be said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from core.data.problems import counted
from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS, EffectiveSample, effective_sample, t_factor
from core.inference.intervals import normal_quantile
from core.inference.prevalence import (
    MELDED_DRAWS,
    CorrectedPrevalence,
    Counts,
    PrevalenceInterval,
    delta_interval,
    effective_prevalence,
    judge_shift_sensitivity,
    lang_reiczigel_interval,
    melded_interval,
    rogan_gladen,
    youden_low,
)
from core.instrument.calibrated import Apparent, Calibrated, Calibration, EffectiveCounts
from core.instrument.measured import (
    ApparentPrevalence,
    DeltaLimits,
    EffectiveMeasurement,
    Limits,
    NamedLimits,
    Prevalence,
    Status,
    TurnShare,
)
from core.instrument.optimism import Optimism
from core.instrument.production import Sample, production_notes, turn_shares
from core.instrument.spec import MeasurementSpec
from core.instrument.strata import OUTSIDE_ALLOWED, Stratum, production_weights, weighted_rate


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A calibrated judge whose figures are all there."""

    n_positive: int
    n_negative: int
    sensitivity: float
    specificity: float
    effective: EffectiveCounts
    apparent: Apparent
    optimism: Optimism
    by_turns: tuple[Stratum, ...] | None


def figures_of(judged: Calibrated, calibrated_at: float, measured_at: float) -> Figures | None:
    """Return the judge's figures, effective counts at the measurement's confidence level; None if some are missing."""
    if judged.sensitivity is None or judged.specificity is None or judged.effective is None or judged.apparent is None:
        return None
    return Figures(
        n_positive=judged.n_positive,
        n_negative=judged.n_negative,
        sensitivity=judged.sensitivity,
        specificity=judged.specificity,
        effective=_at_level(judged.effective, calibrated_at, measured_at),
        apparent=judged.apparent,
        optimism=judged.optimism or Optimism(),
        by_turns=judged.by_turns,
    )


def _at_level(effective: EffectiveCounts, before: float, now: float) -> EffectiveCounts:
    """Exchange the t factors inside the effective counts for those of the measurement's confidence level."""
    if before == now:
        return effective

    def exchange(t_before: float, n_clusters: int) -> float:
        return 1.0 if t_before == 1.0 else t_factor(n_clusters, confidence_level=now) / t_before

    positive = exchange(effective.positive_t_factor, effective.positive_clusters)
    negative = exchange(effective.negative_t_factor, effective.negative_clusters)
    return replace(
        effective,
        n_positive=effective.n_positive * positive,
        n_negative=effective.n_negative * negative,
        positive_t_factor=effective.positive_t_factor * positive,
        negative_t_factor=effective.negative_t_factor * negative,
    )


def prevalence_of(
    sample: Sample,
    judged: Calibrated,
    calibration: Calibration,
    spec: MeasurementSpec,
    clustered: bool,
    stream: int,
    melded_draws: int | None = MELDED_DRAWS,
) -> Prevalence:
    """Correct the observed rate, or say why it cannot be corrected.

    Parameters
    ----------
    sample : Sample
    judged : Calibrated
    calibration : Calibration
    spec : MeasurementSpec
    clustered : bool
        Whether some cluster holds more than one unit.
    stream : int
        Which stream of random numbers, besides the spec's seed.
    melded_draws : int or None
        Draws of the melded interval, which takes nearly all of the time; None leaves it out (in simulations).
    """
    judge = figures_of(judged, calibration.confidence_level, spec.confidence_level)
    if judge is None:
        status: Status = "not_calibrated" if judged.status == "not_calibrated" else "below_detection_floor"
        return Prevalence(status=status, notes=judged.notes or ("no threshold of this judge beats chance",))
    if not sample.n_units:
        return Prevalence(status="insufficient_data", notes=("no fully scored unit",))
    z = normal_quantile(spec.confidence_level)
    if spec.attempts == "any":
        return Prevalence(
            status="unit_mismatch",
            apparent=_apparent(sample, judge, z, valid_here=False),
            notes=("attempts: any is a maximum over more turns than the golden set has: raw rate only",),
        )
    turns, inside = turn_shares(sample, judge.by_turns, calibration.turn_bins)
    outside = sample.n_units - inside.n_units
    notes: list[str] = []
    if outside / sample.n_units > OUTSIDE_ALLOWED:
        return Prevalence(
            status="unit_mismatch",
            apparent=_apparent(sample, judge, z, valid_here=False),
            turns=turns,
            notes=(
                (
                    f"{outside} of {sample.n_units} units have numbers of turns that the golden set does not have: "
                    "sensitivity and specificity do not hold for them; calibrate on conversations with production's "
                    "turn counts"
                ),
            ),
        )
    if outside:
        notes.append(f"{outside} units with numbers of turns outside the golden set are left out of the corrected rate")
    if judge.by_turns is None:
        notes.append("declared calibration: not weighted to turn counts")
    production = effective_sample(sample.clusters, clustered=clustered, confidence_level=spec.confidence_level)
    effective = _effective(sample, inside, judge, spec, production)
    if judged.status == "insufficient_data" or production.n_clusters < MIN_CLUSTERS or effective.n_units <= 0:
        found = counted(production.n_clusters, "cluster" if clustered else "unit")
        why = judged.notes if judged.status == "insufficient_data" else (
            f"insufficient data: {found} in production; at least {MIN_CLUSTERS} are needed",
        )  # fmt: skip
        return Prevalence(status="insufficient_data", notes=(*notes, *why), effective=effective, turns=turns)
    notes += production_notes(production)
    apparent = _apparent(inside, judge, z, valid_here=True)
    return _corrected(effective, spec, stream, notes, apparent, turns, melded_draws)


def _effective(
    sample: Sample,
    inside: Sample,
    judge: Figures,
    spec: MeasurementSpec,
    production: EffectiveSample,
) -> EffectiveMeasurement:
    worth = inside.n_units * production.n_effective / sample.n_units
    sensitivity, n_positive = judge.sensitivity, judge.effective.n_positive
    specificity, n_negative = judge.specificity, judge.effective.n_negative
    if judge.by_turns is not None and inside.n_units:
        sensitivity, n_positive, specificity, n_negative = weighted_figures(
            {b: n for b, (n, _) in inside.by_bin.items()}, judge, judge.by_turns
        )
    z = normal_quantile(spec.confidence_level)
    low = -1.0
    if n_positive > 0 and n_negative > 0:
        low = youden_low(sensitivity, n_positive, specificity, n_negative, z=z)
    return EffectiveMeasurement(
        n_units=worth,
        n_flagged=worth * (inside.n_flagged / inside.n_units) if inside.n_units else 0.0,
        n_positive=n_positive,
        true_positives=n_positive * sensitivity,
        n_negative=n_negative,
        true_negatives=n_negative * specificity,
        sensitivity=sensitivity,
        specificity=specificity,
        youden_j=sensitivity + specificity - 1.0,
        youden_j_low=low,
        n_clusters=production.n_clusters,
        design_effect=production.design_effect,
    )


def weighted_figures(
    units_by_bin: Mapping[int, int], judge: Figures, strata: Sequence[Stratum]
) -> tuple[float, float, float, float]:
    """Sensitivity and specificity weighted to production's turn counts, less the pooled optimism, each with its worth.

    Parameters
    ----------
    units_by_bin : mapping of int to int
        Production's units in each turn bin; some are inside the strata.
    judge : Figures
    strata : sequence of Stratum

    Returns
    -------
    tuple of float
        Sensitivity, effective positives, specificity, effective negatives.
    """
    shares, _, _ = production_weights(units_by_bin, strata)
    positive = weighted_rate(
        shares, [(s.true_positives, s.n_positive) for s in strata],
        n=judge.n_positive, n_effective=judge.effective.n_positive,
    )  # fmt: skip
    negative = weighted_rate(
        shares, [(s.true_negatives, s.n_negative) for s in strata],
        n=judge.n_negative, n_effective=judge.effective.n_negative,
    )  # fmt: skip
    off_sensitivity = judge.optimism.sensitivity
    off_specificity = judge.optimism.specificity
    return (
        min(max(positive.rate - off_sensitivity, 0.0), 1.0), positive.n_effective,
        min(max(negative.rate - off_specificity, 0.0), 1.0), negative.n_effective,
    )  # fmt: skip


def _apparent(sample: Sample, judge: Figures, z: float, *, valid_here: bool) -> ApparentPrevalence | None:
    """The papers' literal corrected rate; None where J is not positive."""
    apparent = judge.apparent
    if apparent.youden_j <= 0:
        return None
    rate = sample.n_flagged / sample.n_units
    estimate = rogan_gladen(rate, sensitivity=apparent.sensitivity, specificity=apparent.specificity)
    delta = delta_interval(
        Counts(
            flagged=float(sample.n_flagged),
            traces=float(sample.n_units),
            true_positives=apparent.sensitivity * judge.n_positive,
            positives=float(judge.n_positive),
            true_negatives=apparent.specificity * judge.n_negative,
            negatives=float(judge.n_negative),
        ),
        z,
    )
    return ApparentPrevalence(value=estimate.value, raw=estimate.raw, delta=_delta_limits(delta), valid_here=valid_here)


def _delta_limits(delta: PrevalenceInterval) -> DeltaLimits:
    if delta.variance is None:
        raise UndefinedError("variance", None, "a delta interval has one")
    return DeltaLimits(low=delta.low, high=delta.high, variance=delta.variance, degenerate=delta.degenerate)


def effective_counts(effective: EffectiveMeasurement) -> Counts:
    """Return the counts behind a corrected rate, as its record holds them.

    Raises
    ------
    UndefinedError
        A side is worth nothing.
    """
    return Counts(
        flagged=effective.n_flagged,
        traces=effective.n_units,
        true_positives=effective.true_positives,
        positives=effective.n_positive,
        true_negatives=effective.true_negatives,
        negatives=effective.n_negative,
    )


def _corrected(
    effective: EffectiveMeasurement,
    spec: MeasurementSpec,
    stream: int,
    notes: Sequence[str],
    apparent: ApparentPrevalence | None,
    turns: tuple[TurnShare, ...],
    melded_draws: int | None,
) -> Prevalence:
    """Correct the rate on effective counts, with every interval that the record shows."""
    counts = effective_counts(effective)
    z = normal_quantile(spec.confidence_level)
    estimate = effective_prevalence(
        counts,
        confidence_level=spec.confidence_level,
        method=spec.interval,
        detection_floor=spec.detection_floor,
        rng=np.random.default_rng([spec.seed, stream]),
    )
    known = Prevalence(
        status=estimate.status,
        effective=effective,
        turns=turns,
        notes=(*notes, *_status_notes(estimate, effective, spec)),
    )
    if estimate.status == "incompatible":
        return replace(known, raw=estimate.raw)
    if estimate.value is None or estimate.raw is None or estimate.interval is None:
        return known
    lang_reiczigel = lang_reiczigel_interval(counts, z)
    interval = lang_reiczigel if estimate.interval.degenerate else estimate.interval
    melded = None
    if melded_draws is not None:
        rng = np.random.default_rng([spec.seed, stream])
        ends = melded_interval(counts, spec.confidence_level, rng, draws=melded_draws)
        melded = Limits(low=ends.low, high=ends.high)
    return replace(
        known,
        value=estimate.value,
        raw=estimate.raw,
        clipped=estimate.clipped,
        interval=NamedLimits(
            low=interval.low, high=interval.high, method=interval.method, confidence_level=spec.confidence_level
        ),
        lang_reiczigel=Limits(low=lang_reiczigel.low, high=lang_reiczigel.high),
        delta=_delta_limits(delta_interval(counts, z)),
        melded=melded,
        judge_shift=judge_shift_sensitivity(counts.observed_rate, effective.sensitivity, effective.specificity),
        apparent=apparent,
    )


def _status_notes(
    estimate: CorrectedPrevalence, effective: EffectiveMeasurement, spec: MeasurementSpec
) -> Iterator[str]:
    if estimate.status == "below_detection_floor":
        yield f"J is {effective.youden_j:.3f} here, below the detection floor of {spec.detection_floor:g}"
    elif estimate.status == "insufficient_data":
        yield "too few effective golden traces for an interval"
    elif estimate.status == "incompatible":
        yield "the judge flags fewer (or more) than its error rates allow, beyond chance"
    elif estimate.status == "inconclusive":
        yield "the judge may be below the detection floor: the lower bound of J is"
    if estimate.interval is not None and estimate.interval.degenerate:
        yield f"the {spec.interval} interval has no width here; lang_reiczigel is given instead"
