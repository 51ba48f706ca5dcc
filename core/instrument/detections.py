"""Measuring a detector's decisions: observed rates, counted on the trace and never corrected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.instrument.measured import AttributeRate, CalibrationLink, DetectionMeasurement, Prevalence, ReportedRate
from core.instrument.production import Sample, observed, sample_of, survey
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
    """Measure a detector's decisions: the union over turns and attributes, taken on the trace.

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
            rate=sample.n_flagged / sample.n_units if sample.n_units else None,
        )
        for name, sample in samples.items()
    }
    compared = _compared(rates, composite, reported or {})
    notes = ["not calibrated: the observed rate is the detector's own, uncorrected for its errors"]
    if judge_accepted:
        notes.append(f"measured with {judge}, the instrument declares {spec.judge}: accepted by the user")
    notes += [
        f"the detector reports {row.reported:g} for {row.name}, its detections give "
        f"{'nothing' if row.recomputed is None else format(row.recomputed, 'g')}"
        for row in compared
        if not row.agrees
    ]
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


def _compared(
    rates: Mapping[str, AttributeRate], composite: Sample, reported: Mapping[str, float]
) -> tuple[ReportedRate, ...]:
    own: dict[str, float | None] = {name: row.rate for name, row in rates.items()}
    own["composite"] = composite.n_flagged / composite.n_units if composite.n_units else None
    return tuple(
        ReportedRate(
            name=name,
            reported=rate,
            recomputed=own.get(name),
            agrees=(mine := own.get(name)) is not None and abs(mine - rate) <= ROUNDED_REPORT,
        )
        for name, rate in sorted(reported.items())
    )
