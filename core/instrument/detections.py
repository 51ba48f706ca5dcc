"""Measuring a detector's decisions (SPEC 2.4, 4.1): observed rates, corrected where the detector is calibrated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.instrument.calibrated import DetectorCalibration
from core.instrument.measured import (
    AttributeRate,
    CalibrationLink,
    CertificateLink,
    CorrectedAttribute,
    CorrectedDetections,
    DetectionMeasurement,
    Prevalence,
    ReportedRate,
)
from core.instrument.measurement import calibration_notes, corrected, left_out_of
from core.instrument.production import observed, sample_of, survey
from core.instrument.spec import JudgeIdentity, MeasurementSpec
from core.instrument.tally import UnitCounts

ROUNDED_REPORT = 5e-3
"""Detectors print rates with two or three digits: differences up to half a point are rounding."""


def measure_detections(
    counts: UnitCounts,
    spec: MeasurementSpec,
    *,
    attributes: Sequence[str],
    judge: JudgeIdentity,
    judge_source: str,
    judge_accepted: bool = False,
    reported: Mapping[str, float] | None = None,
) -> DetectionMeasurement:
    """Measure an uncalibrated detector's decisions: the union over turns and attributes, taken on the trace.

    The composite alone has an interval; attributes are diagnostics. Nothing is corrected, since nothing is known
    about the detector, and the record says so.

    Parameters
    ----------
    counts : UnitCounts
        Bit c is the c-th attribute.
    spec : MeasurementSpec
    attributes : sequence of str
    judge, judge_source, judge_accepted
        As in `measure`.
    reported : mapping of str to float, optional
        Rates that the detector itself reported; compared with its raw detections, never used.
    """
    samples = {name: sample_of(counts, i) for i, name in enumerate(attributes)}
    composite = sample_of(counts, None)
    rates = {
        name: AttributeRate(
            n_units=sample.n_units,
            n_flagged=sample.n_flagged,
            rate=_rate(sample.n_flagged, sample.n_units),
        )
        for name, sample in samples.items()
    }
    compared = _compared(rates, _rate(composite.n_flagged, composite.n_units), reported or {})
    notes = ["not calibrated: the observed rate is the detector's own, uncorrected for its errors"]
    if judge_accepted:
        notes.append(f"measured with {judge}, the instrument declares {spec.judge}: accepted by the user")
    notes += _report_notes(compared)
    return DetectionMeasurement(
        **survey(counts, spec, judge=judge, judge_source=judge_source, judge_accepted=judge_accepted),
        calibration=CalibrationLink(id="", source="none"),
        composite_categories=tuple(attributes),
        composite=observed(
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


def measure_detector(
    counts: UnitCounts,
    calibration: DetectorCalibration,
    spec: MeasurementSpec,
    *,
    calibration_id: str,
    judge: JudgeIdentity,
    judge_source: str,
    judge_accepted: bool = False,
    certificate: CertificateLink | None = None,
    reported: Mapping[str, float] | None = None,
) -> CorrectedDetections:
    """Measure a calibrated detector's decisions: the same union, corrected on the union's own error rates (SPEC 4.1).

    Each attribute keeps its diagnostic rate, and carries the rate behind it on its own error rates.

    Parameters
    ----------
    counts : UnitCounts
        Bit c is the c-th of ``calibration.composite.categories``.
    calibration : DetectorCalibration
    spec, calibration_id, judge, judge_source, judge_accepted, certificate
        As in `measure`.
    reported : mapping of str to float, optional
        As in `measure_detections`.
    """
    composite, measured = corrected(counts, calibration, spec)
    attributes = {
        name: CorrectedAttribute(
            n_units=row.n_units, n_flagged=row.n_flagged, rate=row.observed_rate, prevalence=row.prevalence
        )
        for name, row in measured.items()
    }
    compared = _compared(attributes, composite.observed_rate, reported or {})
    left_out = left_out_of(calibration)
    return CorrectedDetections(
        **survey(counts, spec, judge=judge, judge_source=judge_source, judge_accepted=judge_accepted),
        calibration=CalibrationLink(id=calibration_id, source=calibration.calibration_source, certificate=certificate),
        composite_categories=calibration.composite.categories,
        composite=composite,
        attributes=attributes,
        left_out=left_out,
        reported=compared,
        notes=(
            *calibration.notes,
            *((f"not measured, not calibrated: {', '.join(left_out)}",) if left_out else ()),
            *calibration_notes(calibration, spec, judge if judge_accepted else None, certificate),
            *_report_notes(compared),
        ),
    )


def _rate(n_flagged: int, n_units: int) -> float | None:
    return n_flagged / n_units if n_units else None


def _report_notes(compared: Sequence[ReportedRate]) -> list[str]:
    return [
        f"the detector reports {row.reported:g} for {row.name}, its detections give "
        f"{'nothing' if row.recomputed is None else format(row.recomputed, 'g')}"
        for row in compared
        if not row.agrees
    ]


def _compared(
    rates: Mapping[str, AttributeRate], composite: float | None, reported: Mapping[str, float]
) -> tuple[ReportedRate, ...]:
    own: dict[str, float | None] = {name: row.rate for name, row in rates.items()}
    own["composite"] = composite
    return tuple(
        ReportedRate(
            name=name,
            reported=rate,
            recomputed=own.get(name),
            agrees=(mine := own.get(name)) is not None and abs(mine - rate) <= ROUNDED_REPORT,
        )
        for name, rate in sorted(reported.items())
    )
