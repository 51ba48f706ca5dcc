"""Measurement (SPEC 2, 7-9): from counted units and a calibration to rates with honest intervals."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

from core.inference.mix import CategoryRate, mix_robust_interval, mix_shift_sensitivity
from core.inference.transport import Transport
from core.instrument.calibrated import Calibrated, Calibration, kind_of
from core.instrument.correction import effective_counts, prevalence_of
from core.instrument.labelled import COMPOSITE, Labelled, labels_notes, transport_of_golden_set, transport_of_labels
from core.instrument.measured import (
    CalibrationLink,
    CertificateLink,
    Limits,
    Measured,
    Measurement,
    ObservedInterval,
    Prevalence,
)
from core.instrument.production import Sample, observed, sample_of, survey
from core.instrument.spec import TURN_BINS, JudgeIdentity, MeasurementSpec
from core.instrument.tally import UnitCounts
from core.simulation.simulated import is_sufficient


def measurement_spec(calibration: Calibration, **asked: Any) -> MeasurementSpec:
    """Say what a measurement is asked for: what the calibration declares, and the call's own wishes.

    Parameters
    ----------
    calibration : Calibration
    **asked
        Fields of `MeasurementSpec`; None leaves the calibration's.
    """
    declared = MeasurementSpec(
        kind=kind_of(calibration),
        instrument=calibration.instrument,
        attempts=calibration.attempts,
        turn_scope=calibration.turn_scope,
        confidence_level=calibration.confidence_level,
        interval=calibration.interval,
        detection_floor=calibration.detection_floor,
        error_budget=calibration.error_budget,
        turn_bins=calibration.turn_bins or TURN_BINS,
        mix_robust=calibration.mix_robust,
        seed=calibration.seed,
    )
    return replace(declared, **{name: value for name, value in asked.items() if value is not None})


def measure(
    counts: UnitCounts,
    calibration: Calibration,
    spec: MeasurementSpec,
    *,
    calibration_id: str,
    judge: JudgeIdentity,
    judge_source: str,
    judge_accepted: bool = False,
    certificate: CertificateLink | None = None,
    labelled: Labelled | None = None,
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
    certificate : CertificateLink, optional
        How the calibration's intervals did under known truth; the measurement says where that is not enough.
    labelled : Labelled, optional
        Traces of production with labels: they test the golden set, and give a rate of their own (SPEC 13).

    Returns
    -------
    Measurement
    """
    composite, categories = corrected(counts, calibration, spec)
    spanned = {name: categories[name] for name in calibration.composite.categories}
    composite = _with_mix(composite, spanned, calibration, spec)
    transports = _transports({**spanned, COMPOSITE: composite}, counts, calibration, spec, labelled)
    left_out = left_out_of(calibration)
    notes = [f"not measured, without a threshold: {', '.join(left_out)}"] if left_out else []
    return Measurement(
        **survey(counts, spec, judge=judge, judge_source=judge_source, judge_accepted=judge_accepted),
        calibration=CalibrationLink(id=calibration_id, source=calibration.calibration_source, certificate=certificate),
        composite_categories=calibration.composite.categories,
        composite=replace(composite, transport=transports.get(COMPOSITE)),
        categories={name: replace(row, transport=transports.get(name)) for name, row in categories.items()},
        left_out=left_out,
        labels=None if labelled is None else labelled.summary,
        notes=(
            *calibration.notes,
            *labels_notes(transports, labelled),
            *notes,
            *calibration_notes(calibration, spec, judge if judge_accepted else None, certificate),
        ),
    )


def left_out_of(calibration: Calibration) -> tuple[str, ...]:
    """Return the categories that a calibration cannot measure."""
    return tuple(name for name in calibration.categories if name not in calibration.composite.categories)


def corrected(
    counts: UnitCounts, calibration: Calibration, spec: MeasurementSpec
) -> tuple[Measured, dict[str, Measured]]:
    """Measure the composite, and each of the calibration's categories.

    Parameters
    ----------
    counts : UnitCounts
        Bit c is the c-th of ``calibration.composite.categories``.
    calibration : Calibration
    spec : MeasurementSpec
    """
    measured = {
        name: _measured(sample_of(counts, i), calibration.categories[name], calibration, spec, counts, name=name)
        for i, name in enumerate(calibration.composite.categories)
    }
    composite = _measured(sample_of(counts, None), calibration.composite, calibration, spec, counts, name="")
    categories = {
        name: measured[name] if name in measured else _left_out(judged)
        for name, judged in calibration.categories.items()
    }
    return _coherent(composite, measured), categories


def calibration_notes(
    calibration: Calibration,
    spec: MeasurementSpec,
    accepted: JudgeIdentity | None,
    certificate: CertificateLink | None,
) -> list[str]:
    """Say what a reader has to know of another judge that was accepted, and of the calibration's certificate."""
    notes = []
    if accepted is not None:
        notes.append(
            f"measured with {accepted}, calibrated with {calibration.judge}: accepted by the user, not shown to hold"
        )
    if certificate is not None:
        notes += _certificate_notes(certificate, spec.confidence_level)
    return notes


def _transports(
    measured: dict[str, Measured],
    counts: UnitCounts,
    calibration: Calibration,
    spec: MeasurementSpec,
    labelled: Labelled | None,
) -> dict[str, Transport]:
    """Hold the golden set against labelled traces of production, if there are any."""
    if labelled is not None:
        return transport_of_labels(labelled, counts, measured, spec.confidence_level)
    if calibration.golden_design == "random":
        return transport_of_golden_set(calibration, counts, measured, spec.confidence_level)
    return {}


def _with_mix(
    composite: Measured, categories: dict[str, Measured], calibration: Calibration, spec: MeasurementSpec
) -> Measured:
    """Say how the composite's corrected rate depends on production's mix of categories (SPEC 13.4)."""
    prevalence, by_pattern = composite.prevalence, calibration.composite.by_pattern
    if prevalence.value is None or prevalence.effective is None or len(by_pattern) < 2:
        return composite
    counts = effective_counts(prevalence.effective)
    patterns = {name: (found.true_positives, found.n_positive) for name, found in by_pattern.items()}
    robust = None
    if spec.mix_robust:
        rates = {
            name: CategoryRate(raw=row.prevalence.raw, variance=row.prevalence.delta.variance)
            for name, row in categories.items()
            if row.prevalence.raw is not None and row.prevalence.delta is not None
        }
        robust = mix_robust_interval(
            counts, patterns=patterns, category_rates=rates, confidence_level=spec.confidence_level
        )
    shifts = mix_shift_sensitivity(counts, patterns=patterns)
    return replace(composite, prevalence=replace(prevalence, mix_shift=shifts, mix_robust=robust))


def _certificate_notes(certificate: CertificateLink, confidence_level: float) -> list[str]:
    """Say what a certificate says against the interval, or leaves open about it."""
    notes = []
    if not certificate.sufficient:
        notes.append(
            f"the interval of this instrument covered {100 * certificate.coverage:.1f}% ± "
            f"{100 * certificate.mc_error:.1f} of simulated truths where it did worst, at a nominal "
            f"{100 * certificate.confidence_level:g}%: not enough for it to be evidence"
        )
    notes += [
        f"the interval of {name} covered {100 * found.coverage:.1f}% ± {100 * found.mc_error:.1f} of simulated truths "
        "where it did worst: not enough for it to be evidence"
        for name, found in certificate.categories.items()
        if not is_sufficient(found.coverage, certificate.confidence_level, found.mc_error)
    ]
    if certificate.confidence_level != confidence_level:
        notes.append(
            f"the certificate was made at {100 * certificate.confidence_level:g}%; how intervals of "
            f"{100 * confidence_level:g}% cover was not simulated"
        )
    return notes


def _measured(
    sample: Sample,
    judged: Calibrated,
    calibration: Calibration,
    spec: MeasurementSpec,
    counts: UnitCounts,
    *,
    name: str,
) -> Measured:
    # The stream of random numbers depends on the category's name, not on its place among the others.
    stream = crc32(name.encode("utf-8", "surrogatepass"))
    prevalence = prevalence_of(sample, judged, calibration, spec, counts.clustered, stream)
    return observed(sample, counts, spec, prevalence)


def _left_out(judged: Calibrated) -> Measured:
    """What is known of a category without a threshold: nothing."""
    return Measured(
        n_units=0,
        n_flagged=0,
        observed_rate=None,
        observed_interval=ObservedInterval(status="undefined"),
        worst_case=Limits(low=0.0, high=1.0),
        prevalence=Prevalence(
            status="not_calibrated" if judged.status == "not_calibrated" else "below_detection_floor",
            notes=judged.notes or ("no threshold of this judge beats chance",),
        ),
    )


def _coherent(composite: Measured, categories: dict[str, Measured]) -> Measured:
    """Refuse a composite rate that lies wholly below that of one of its categories: a union is not rarer."""
    interval = composite.prevalence.interval
    above = [
        name
        for name, row in categories.items()
        if interval is not None and row.prevalence.interval is not None and row.prevalence.interval.low > interval.high
    ]
    if not above:
        return composite
    note = (
        f"the composite's interval lies below that of {', '.join(above)}, which it contains: the composite's error "
        "rates do not hold here (labels that are missing selectively do this)"
    )
    return replace(
        composite,
        prevalence=Prevalence(
            status="incompatible",
            raw=composite.prevalence.raw,
            effective=composite.prevalence.effective,
            turns=composite.prevalence.turns,
            notes=(*composite.prevalence.notes, note),
        ),
    )
