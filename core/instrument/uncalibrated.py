"""Measuring scores without a calibration: the raw rate alone, and why there is no more."""

from __future__ import annotations

from collections.abc import Sequence

from core.instrument.measured import CalibrationLink, Measured, Measurement, Prevalence
from core.instrument.production import observed, sample_of, survey
from core.instrument.spec import JudgeIdentity, MeasurementSpec
from core.instrument.tally import UnitCounts

RAW_THRESHOLD = 0.5
"""Flags scores that nobody has calibrated: a convention, not a finding."""


def measure_uncalibrated(
    counts: UnitCounts,
    spec: MeasurementSpec,
    *,
    categories: Sequence[str],
    judge: JudgeIdentity,
    judge_source: str,
    reason: str,
) -> Measurement:
    """Measure scores of a judge that was not calibrated: observed rates at a conventional threshold.

    Parameters
    ----------
    counts : UnitCounts
        Bit c is the c-th category, flagged at `RAW_THRESHOLD`.
    spec : MeasurementSpec
    categories : sequence of str
    judge : JudgeIdentity
    judge_source : str
    reason : str
        Why there is no calibration.
    """

    def raw(position: int | None) -> Measured:
        return observed(sample_of(counts, position), counts, spec, Prevalence(status="not_calibrated", notes=(reason,)))

    return Measurement(
        **survey(counts, spec, judge=judge, judge_source=judge_source),
        calibration=CalibrationLink(id="", source="none"),
        composite_categories=tuple(categories),
        composite=raw(None),
        categories={name: raw(i) for i, name in enumerate(categories)},
        notes=(
            f"not calibrated: {reason}",
            f"flagged at a score of {RAW_THRESHOLD:g}, a convention; the observed rate is the judge's own",
        ),
    )
