"""Measurement (SPEC 2, 7-9): from counted units and a calibration to rates with honest intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal
from zlib import crc32

import numpy as np

from core.data.vocabulary import SCORED
from core.errors import UndefinedError
from core.inference.clusters import (
    DESIGN_EFFECT_FLOOR,
    FEW_CLUSTERS,
    ZERO_VARIANCE,
    ClusterSums,
    EffectiveSample,
    effective_sample,
    t_factor,
)
from core.inference.intervals import modified_wilson, normal_quantile, wilson_interval
from core.inference.prevalence import (
    Counts,
    JudgeShift,
    PrevalenceInterval,
    delta_interval,
    floor_status,
    judge_shift_sensitivity,
    lang_reiczigel_interval,
    melded_interval,
    rogan_gladen,
    youden_low,
)
from core.instrument.calibration import (
    MIN_CLUSTERS,
    Apparent,
    Calibrated,
    Calibration,
    EffectiveCounts,
)
from core.instrument.optimism import Optimism
from core.instrument.spec import JudgeIdentity, MeasurementSpec
from core.instrument.strata import OUTSIDE_ALLOWED, Stratum, bin_labels, production_weights, weighted_rate
from core.instrument.tally import UnitCounts

MELDED_DRAWS = 100_000

Status = Literal[
    "measured", "inconclusive", "incompatible",
    "below_detection_floor", "not_calibrated", "insufficient_data", "unit_mismatch",
]  # fmt: skip
WITH_A_RATE = ("measured", "inconclusive")


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInterval:
    """Interval of the observed (apparent) rate; it does not claim to cover the true rate.

    Attributes
    ----------
    status : {'defined', 'undefined'}
        Undefined for one unit, or for units of one cluster.
    low, high : float or None
        In [0, 1].
    method : str or None
        ``modified_wilson`` (the papers'), or the same on effective counts when units are clustered.
    n_effective : float or None
    independent : Limits or None
        The papers' literal interval, as if the units were independent; given when they are clustered.
    """

    status: Literal["defined", "undefined"]
    low: float | None = None
    high: float | None = None
    method: str | None = None
    n_effective: float | None = None
    independent: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Two ends of an interval in [0, 1]."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLimits(Limits):
    """The interval of the corrected rate, with its method."""

    method: str
    confidence_level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLimits(Limits):
    """The papers' delta-method interval; `degenerate` when it has no width."""

    variance: float
    degenerate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApparentPrevalence:
    """The papers' literal p_true, from apparent sensitivity and specificity.

    `valid_here` is False where production's unit is not the golden set's: the figure is then biased.
    """

    value: float
    raw: float
    delta: DeltaLimits
    valid_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveMeasurement:
    """The counts on which the corrected interval was computed: redo it from these.

    Sizes are effective; sensitivity and specificity are corrected for optimism and weighted to turn counts.
    """

    n_units: float
    n_flagged: float
    n_positive: float
    true_positives: float
    n_negative: float
    true_negatives: float
    sensitivity: float
    specificity: float
    youden_j: float
    youden_j_low: float
    n_clusters: int
    design_effect: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShare:
    """Production's share of a golden turn stratum, or of what lies outside all of them."""

    turns: str
    n_units: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prevalence:
    """The corrected rate.

    Attributes
    ----------
    status : str
        ``measured`` and ``inconclusive`` carry a value and an interval; ``incompatible`` only `raw`; the others
        neither.
    value : float or None
        Corrected rate, clipped to [0, 1].
    raw : float or None
        Before clipping.
    clipped : bool
    interval : NamedLimits or None
        By the instrument's method; never of zero width.
    lang_reiczigel, melded : Limits or None
    delta : DeltaLimits or None
    apparent : ApparentPrevalence or None
        The papers' literal figure, kept where the corrected one is refused.
    effective : EffectiveMeasurement or None
    turns : tuple of TurnShare
        How production's units fall into the golden strata; those outside are left out of the corrected rate.
    judge_shift : tuple of JudgeShift
        The corrected rate if sensitivity or specificity were off by 5 or 10 points.
    notes : tuple of str
    """

    status: Status
    value: float | None = None
    raw: float | None = None
    clipped: bool = False
    interval: NamedLimits | None = None
    lang_reiczigel: Limits | None = None
    delta: DeltaLimits | None = None
    melded: Limits | None = None
    apparent: ApparentPrevalence | None = None
    effective: EffectiveMeasurement | None = None
    turns: tuple[TurnShare, ...] = ()
    judge_shift: tuple[JudgeShift, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One quantity (a category or the composite) in production.

    Attributes
    ----------
    n_units, n_flagged : int
        Fully scored units, and those flagged.
    observed_rate : float or None
        None without a fully scored unit.
    observed_interval : ObservedInterval
    worst_case : Limits
        The rate over all attempted units if none, or all, of the undecided ones violate.
    prevalence : Prevalence
    """

    n_units: int
    n_flagged: int
    observed_rate: float | None
    observed_interval: ObservedInterval
    worst_case: Limits
    prevalence: Prevalence


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeRate:
    """A detector's rate for one attribute: a diagnostic, without an interval."""

    n_units: int
    n_flagged: int
    rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationLink:
    """The calibration behind a measurement."""

    id: str
    source: str
    certificate: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The result of `measure`."""

    instrument: str
    target: str | None
    judge: JudgeIdentity
    judge_source: str
    judge_accepted: bool
    attempts: str
    n_traces: int
    n_units: int
    n_turns: int
    n_duplicates: int
    n_turn_gaps: int
    clustered: bool
    accounting: Mapping[str, int]
    unscored_share: float
    error_budget_exceeded: bool
    calibration: CalibrationLink
    composite_categories: tuple[str, ...]
    composite: Measured
    categories: Mapping[str, Measured]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRate:
    """A rate that the detector reported itself, beside what its raw detections give."""

    name: str
    reported: float
    recomputed: float | None
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionMeasurement:
    """The result of measuring a detector's decisions: observed rates, never corrected."""

    instrument: str
    target: str | None
    judge: JudgeIdentity
    judge_source: str
    attempts: str
    n_traces: int
    n_units: int
    n_turns: int
    n_duplicates: int
    n_turn_gaps: int
    clustered: bool
    accounting: Mapping[str, int]
    unscored_share: float
    error_budget_exceeded: bool
    calibration: CalibrationLink
    composite_categories: tuple[str, ...]
    composite: Measured
    attributes: Mapping[str, AttributeRate]
    reported: tuple[ReportedRate, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sample:
    """One quantity's counts in production."""

    n_units: int
    n_flagged: int
    n_attempted: int
    n_any_flag: int
    n_flag_or_undecided: int
    by_bin: Mapping[int, tuple[int, int]]  # turn bin -> (fully scored units, flagged)
    clusters: ClusterSums


def _sample(counts: UnitCounts, position: int | None) -> _Sample:
    """Count one category (by bit position), or the composite (None)."""
    bit = (1 << counts.n_categories) - 1 if position is None else 1 << position
    rows = np.array(counts.histogram, np.int64).reshape(-1, 4)
    flagged, undecided, n = (rows[:, 0] & bit) != 0, (rows[:, 1] & bit) != 0, rows[:, 3]
    inside = ~undecided
    by_bin = {
        int(b): (int(n[inside & (rows[:, 2] == b)].sum()), int(n[inside & flagged & (rows[:, 2] == b)].sum()))
        for b in np.unique(rows[inside, 2])
    }
    return _Sample(
        n_units=int(n[inside].sum()),
        n_flagged=int(n[inside & flagged].sum()),
        n_attempted=int(n.sum()),
        n_any_flag=int(n[flagged].sum()),
        n_flag_or_undecided=int(n[flagged | undecided].sum()),
        by_bin=by_bin,
        clusters=counts.clusters[0 if position is None else position + 1],
    )


def measure(
    counts: UnitCounts,
    calibration: Calibration,
    spec: MeasurementSpec,
    *,
    calibration_id: str,
    judge: JudgeIdentity,
    judge_source: str,
    judge_accepted: bool = False,
) -> Measurement:
    """Measure production with a calibrated instrument.

    Parameters
    ----------
    counts : UnitCounts
        Bit c is the c-th of ``calibration.composite.categories``.
    calibration : Calibration
    spec : MeasurementSpec
    calibration_id : str
        Id of the calibration's record.
    judge : JudgeIdentity
        Who scored production.
    judge_source : str
        ``scores`` or ``assumed``.
    judge_accepted : bool
        The judge is not the calibration's, and the user takes it all the same.

    Returns
    -------
    Measurement
    """
    names = calibration.composite.categories
    measured = {
        name: _measured(_sample(counts, i), calibration.categories[name], calibration, spec, counts, name=name)
        for i, name in enumerate(names)
    }
    composite = _measured(_sample(counts, None), calibration.composite, calibration, spec, counts, name="")
    share = _unscored_share(counts)
    notes = list(calibration.notes)
    if calibration.composite.left_out:
        notes.append(f"not measured, without a threshold: {', '.join(calibration.composite.left_out)}")
    if judge_accepted:
        notes.append(
            f"measured with {judge}, calibrated with {calibration.judge}: accepted by the user, not shown to hold"
        )
    return Measurement(
        instrument=calibration.instrument,
        target=spec.target,
        judge=judge,
        judge_source=judge_source,
        judge_accepted=judge_accepted,
        attempts=spec.attempts,
        n_traces=counts.n_traces,
        n_units=counts.accounting["attempted"],
        n_turns=counts.n_turns,
        n_duplicates=counts.n_duplicates,
        n_turn_gaps=counts.n_gaps,
        clustered=counts.clustered,
        accounting=counts.accounting,
        unscored_share=share,
        error_budget_exceeded=share > spec.error_budget,
        calibration=CalibrationLink(id=calibration_id, source=calibration.calibration_source),
        composite_categories=names,
        composite=composite,
        categories=measured,
        notes=tuple(notes),
    )


def measure_detections(
    counts: UnitCounts,
    spec: MeasurementSpec,
    *,
    attributes: Sequence[str],
    judge: JudgeIdentity,
    judge_source: str,
    reported: Mapping[str, float] | None = None,
) -> DetectionMeasurement:
    """Measure a detector's decisions: the union over turns and attributes, taken on the trace.

    The composite alone has an interval; attributes are diagnostics. Nothing is corrected, since nothing is known
    about the detector, and the record says so.

    Parameters
    ----------
    counts : UnitCounts
        Bit c is the c-th attribute.
    spec : MeasurementSpec
    attributes : sequence of str
    judge, judge_source
        As in `measure`.
    reported : mapping of str to float, optional
        Rates that the detector itself reported; compared with its raw detections, never used.
    """
    samples = {name: _sample(counts, i) for i, name in enumerate(attributes)}
    composite = _sample(counts, None)
    share = _unscored_share(counts)
    rates = {
        name: AttributeRate(
            n_units=sample.n_units,
            n_flagged=sample.n_flagged,
            rate=sample.n_flagged / sample.n_units if sample.n_units else None,
        )
        for name, sample in samples.items()
    }
    compared = _compared(rates, composite, reported or {})
    notes = ["not calibrated: the observed rate is the detector's own, uncorrected for its errors"]
    notes += [
        f"the detector reports {row.reported:g} for {row.name}, its detections give "
        f"{'nothing' if row.recomputed is None else format(row.recomputed, 'g')}"
        for row in compared
        if not row.agrees
    ]
    return DetectionMeasurement(
        instrument=spec.instrument,
        target=spec.target,
        judge=judge,
        judge_source=judge_source,
        attempts=spec.attempts,
        n_traces=counts.n_traces,
        n_units=counts.accounting["attempted"],
        n_turns=counts.n_turns,
        n_duplicates=counts.n_duplicates,
        n_turn_gaps=counts.n_gaps,
        clustered=counts.clustered,
        accounting=counts.accounting,
        unscored_share=share,
        error_budget_exceeded=share > spec.error_budget,
        calibration=CalibrationLink(id="", source="none"),
        composite_categories=tuple(attributes),
        composite=_observed(
            composite,
            counts,
            spec,
            Prevalence(
                status="not_calibrated",
                notes=("a detector without a golden set: nothing is known about its errors",),
            ),
        ),
        attributes=rates,
        reported=compared,
        notes=tuple(notes),
    )


def _compared(
    rates: Mapping[str, AttributeRate], composite: _Sample, reported: Mapping[str, float]
) -> tuple[ReportedRate, ...]:
    own: dict[str, float | None] = {name: row.rate for name, row in rates.items()}
    own["composite"] = composite.n_flagged / composite.n_units if composite.n_units else None
    return tuple(
        ReportedRate(
            name=name,
            reported=rate,
            recomputed=own.get(name),
            agrees=(mine := own.get(name)) is not None and abs(mine - rate) <= _ROUNDED_REPORT,
        )
        for name, rate in sorted(reported.items())
    )


_ROUNDED_REPORT = 5e-3
"""Detectors print rates with two or three digits: differences up to half a point are rounding."""


def _unscored_share(counts: UnitCounts) -> float:
    attempted = counts.accounting["attempted"]
    return 1.0 - counts.accounting[SCORED] / attempted if attempted else 0.0


def _measured(
    sample: _Sample,
    judged: Calibrated,
    calibration: Calibration,
    spec: MeasurementSpec,
    counts: UnitCounts,
    *,
    name: str,
) -> Measured:
    # The stream of random numbers depends on the category's name, not on its place among the others.
    stream = crc32(name.encode("utf-8", "surrogatepass"))
    prevalence = _prevalence(sample, judged, calibration, spec, counts.clustered, stream)
    return _observed(sample, counts, spec, prevalence)


def _observed(sample: _Sample, counts: UnitCounts, spec: MeasurementSpec, prevalence: Prevalence) -> Measured:
    return Measured(
        n_units=sample.n_units,
        n_flagged=sample.n_flagged,
        observed_rate=sample.n_flagged / sample.n_units if sample.n_units else None,
        observed_interval=_observed_interval(sample, counts.clustered, spec.confidence_level),
        worst_case=Limits(
            low=sample.n_any_flag / sample.n_attempted if sample.n_attempted else 0.0,
            high=sample.n_flag_or_undecided / sample.n_attempted if sample.n_attempted else 1.0,
        ),
        prevalence=prevalence,
    )


def _observed_interval(sample: _Sample, clustered: bool, confidence_level: float) -> ObservedInterval:
    if sample.n_units < 2:
        return ObservedInterval(status="undefined")
    plain = wilson_interval(sample.n_flagged, sample.n_units, confidence_level=confidence_level)
    if not clustered:
        return ObservedInterval(
            status="defined", low=plain.low, high=plain.high, method="modified_wilson",
            n_effective=float(sample.n_units),
        )  # fmt: skip
    independent = Limits(low=plain.low, high=plain.high)
    effective = effective_sample(sample.clusters, clustered=True, confidence_level=confidence_level)
    if effective.n_effective <= 1.0:
        return ObservedInterval(status="undefined", n_effective=effective.n_effective, independent=independent)
    rate = sample.n_flagged / sample.n_units
    low, high = modified_wilson(rate, effective.n_effective, z=normal_quantile(confidence_level))
    return ObservedInterval(
        status="defined", low=low, high=high, method="modified_wilson_effective",
        n_effective=effective.n_effective, independent=independent,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """A calibrated judge whose figures are all there."""

    n_positive: int
    n_negative: int
    sensitivity: float
    specificity: float
    effective: EffectiveCounts
    apparent: Apparent
    optimism: Optimism
    by_turns: tuple[Stratum, ...] | None


def _figures(judged: Calibrated, calibrated_at: float, measured_at: float) -> _Judge | None:
    if judged.sensitivity is None or judged.specificity is None or judged.effective is None or judged.apparent is None:
        return None
    return _Judge(
        n_positive=judged.n_positive,
        n_negative=judged.n_negative,
        sensitivity=judged.sensitivity,
        specificity=judged.specificity,
        effective=_at_level(judged, judged.effective, calibrated_at, measured_at),
        apparent=judged.apparent,
        optimism=judged.optimism or Optimism(),
        by_turns=judged.by_turns,
    )


def _at_level(judged: Calibrated, effective: EffectiveCounts, before: float, now: float) -> EffectiveCounts:
    """Exchange the t factor inside the effective counts for that of the measurement's confidence level."""
    if before == now:
        return effective

    def exchanged(worth: float, n: int, design_effect: float, n_clusters: int) -> float:
        if n_clusters < 2 or worth * design_effect / n > 1.0 - 1e-9:  # no t factor inside
            return worth
        return worth * t_factor(n_clusters, confidence_level=now) / t_factor(n_clusters, confidence_level=before)

    e = effective
    return replace(
        e,
        n_positive=exchanged(e.n_positive, judged.n_positive, e.positive_design_effect, e.positive_clusters),
        n_negative=exchanged(e.n_negative, judged.n_negative, e.negative_design_effect, e.negative_clusters),
    )


def _prevalence(
    sample: _Sample,
    judged: Calibrated,
    calibration: Calibration,
    spec: MeasurementSpec,
    clustered: bool,
    stream: int,
) -> Prevalence:
    """Correct the observed rate, or say why it cannot be corrected."""
    judge = _figures(judged, calibration.confidence_level, spec.confidence_level)
    if judge is None:
        status: Status = "not_calibrated" if judged.status == "not_calibrated" else "below_detection_floor"
        return Prevalence(status=status, notes=judged.notes)
    if not sample.n_units:
        return Prevalence(status="insufficient_data", notes=("no fully scored unit",))
    z = normal_quantile(spec.confidence_level)
    if spec.attempts == "any":
        return Prevalence(
            status="unit_mismatch",
            apparent=_apparent(sample, judge, z, valid_here=False),
            notes=("attempts: any is a maximum over more turns than the golden set has: raw rate only",),
        )
    turns, inside = _turn_shares(sample, judge.by_turns, calibration.turn_bins)
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
    base: dict[str, Any] = {"effective": effective, "turns": turns}
    if judged.status == "insufficient_data" or effective.n_clusters < MIN_CLUSTERS or effective.n_units <= 0:
        unit = "clusters" if clustered else "units"
        why = judged.notes if judged.status == "insufficient_data" else (
            f"insufficient data: {effective.n_clusters} {unit} in production; at least {MIN_CLUSTERS} are needed",
        )  # fmt: skip
        return Prevalence(status="insufficient_data", notes=(*notes, *why), **base)
    notes += _production_notes(production)
    status = floor_status(effective.youden_j, effective.youden_j_low, spec.detection_floor)
    if status == "below_detection_floor" or effective.youden_j <= 0:
        notes.append(f"J is {effective.youden_j:.3f} here, below the detection floor of {spec.detection_floor:g}")
        return Prevalence(status="below_detection_floor", notes=(*notes, *judged.notes), **base)
    if status == "inconclusive":
        notes.append("the judge may be below the detection floor: the lower bound of J is")
    apparent = _apparent(inside, judge, z, valid_here=True)
    return _corrected(status, effective, spec, stream, notes, base, apparent)


def _production_notes(production: EffectiveSample) -> list[str]:
    unit = "clusters" if production.clustered else "units"
    notes = []
    if production.n_clusters < FEW_CLUSTERS:
        notes.append(
            f"only {production.n_clusters} {unit} in production: under {FEW_CLUSTERS} the interval may be too narrow"
        )
    if ZERO_VARIANCE in production.notes:
        notes.append(
            f"all units in production are judged alike: they count as {production.n_clusters} independent units, "
            "one a cluster"
        )
    if DESIGN_EFFECT_FLOOR in production.notes:
        notes.append(
            "the rarer decision in production sits in few clusters: design effect floored at "
            f"{production.design_effect:.2f}"
        )
    return notes


def _turn_shares(
    sample: _Sample, strata: Sequence[Stratum] | None, turn_bins: Sequence[int]
) -> tuple[tuple[TurnShare, ...], _Sample]:
    """Lay production's units over the golden strata; return their shares and the counts inside them."""
    if strata is None:
        return (), sample
    units = {b: n for b, (n, _) in sample.by_bin.items()}
    _, inside, outside = production_weights(units, strata)
    known = {b for stratum in strata for b in stratum.bins}
    shares = [
        TurnShare(
            turns=stratum.turns,
            n_units=(n := sum(units.get(b, 0) for b in stratum.bins)),
            share=n / sample.n_units,
        )
        for stratum in strata
    ]
    if outside:
        labels = bin_labels(turn_bins)
        names = ", ".join(labels[b] for b in sorted(units) if b not in known)
        shares.append(TurnShare(turns=f"outside: {names}", n_units=outside, share=outside / sample.n_units))
    flagged = sum(x for b, (_, x) in sample.by_bin.items() if b in known)
    return tuple(shares), _Sample(
        n_units=inside,
        n_flagged=flagged,
        n_attempted=sample.n_attempted,
        n_any_flag=sample.n_any_flag,
        n_flag_or_undecided=sample.n_flag_or_undecided,
        by_bin={b: counts for b, counts in sample.by_bin.items() if b in known},
        clusters=sample.clusters,
    )


def _effective(
    sample: _Sample,
    inside: _Sample,
    judge: _Judge,
    spec: MeasurementSpec,
    production: EffectiveSample,
) -> EffectiveMeasurement:
    worth = inside.n_units * production.n_effective / sample.n_units
    sensitivity, n_positive = judge.sensitivity, judge.effective.n_positive
    specificity, n_negative = judge.specificity, judge.effective.n_negative
    if judge.by_turns is not None and inside.n_units:
        sensitivity, n_positive, specificity, n_negative = _weighted(inside, judge, judge.by_turns)
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


def _weighted(inside: _Sample, judge: _Judge, strata: Sequence[Stratum]) -> tuple[float, float, float, float]:
    """Sensitivity and specificity weighted to production's turn counts, less the pooled optimism."""
    shares, _, _ = production_weights({b: n for b, (n, _) in inside.by_bin.items()}, strata)
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


def _apparent(sample: _Sample, judge: _Judge, z: float, *, valid_here: bool) -> ApparentPrevalence | None:
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


def _corrected(
    status: Status,
    effective: EffectiveMeasurement,
    spec: MeasurementSpec,
    stream: int,
    notes: Sequence[str],
    base: Mapping[str, Any],
    apparent: ApparentPrevalence | None,
) -> Prevalence:
    z = normal_quantile(spec.confidence_level)
    counts = Counts(
        flagged=effective.n_flagged,
        traces=effective.n_units,
        true_positives=effective.true_positives,
        positives=effective.n_positive,
        true_negatives=effective.true_negatives,
        negatives=effective.n_negative,
    )
    rng = np.random.default_rng([spec.seed, stream])
    try:
        lang_reiczigel = lang_reiczigel_interval(counts, z)
    except UndefinedError:
        # Few effective traces: the judge smoothed by one of each kind no longer discriminates.
        return Prevalence(
            status="insufficient_data",
            notes=(*notes, "too few effective golden traces for an interval"),
            **base,
        )
    intervals = {
        "lang_reiczigel": lang_reiczigel,
        "delta": delta_interval(counts, z),
        "melded": melded_interval(counts, spec.confidence_level, rng, draws=MELDED_DRAWS),
    }
    chosen = intervals[spec.interval]
    estimate = rogan_gladen(counts.observed_rate, sensitivity=effective.sensitivity, specificity=effective.specificity)
    if not chosen.compatible:
        return Prevalence(
            status="incompatible",
            raw=estimate.raw,
            notes=(*notes, "the judge flags fewer (or more) than its error rates allow, beyond chance"),
            **base,
        )
    melded = intervals["melded"]
    if chosen.degenerate:
        chosen = lang_reiczigel
        notes = [*notes, "the delta interval has no width here; Lang-Reiczigel is given instead"]
    return Prevalence(
        status=status,
        value=estimate.value,
        raw=estimate.raw,
        clipped=estimate.clipped,
        interval=NamedLimits(
            low=chosen.low, high=chosen.high, method=chosen.method, confidence_level=spec.confidence_level
        ),
        lang_reiczigel=Limits(low=lang_reiczigel.low, high=lang_reiczigel.high),
        delta=_delta_limits(intervals["delta"]),
        melded=Limits(low=melded.low, high=melded.high),
        judge_shift=judge_shift_sensitivity(counts.observed_rate, effective.sensitivity, effective.specificity),
        apparent=apparent,
        notes=tuple(notes),
        **base,
    )
