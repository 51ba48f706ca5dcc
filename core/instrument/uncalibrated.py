"""Measuring scores without a calibration: the raw rate alone, and why there is no more."""

from __future__ import annotations

from collections.abc import Sequence

from core.instrument.measured import CalibrationLink, Measured, Measurement, Prevalence
from core.instrument.production import observed, sample_of, survey
from core.instrument.spec import JudgeIdentity, MeasurementSpec, Uncalibrated
from core.instrument.tally import UnitCounts

RAW_THRESHOLD = 0.5
"""Flags scores that nobody has calibrated: a convention, not a finding."""


REASONS: dict[Uncalibrated, str] = {
    "no_champion": "the instrument has no champion",
    "other_judge": "the instrument's champion is of another judge, whose error rates do not hold for this one",
    "champion_unknown": "the instrument's champion could not be looked up: MLflow was out of reach, or switched off",
}
"""What a record says of each reason. It is the same for every outage, since it is part of the record's id."""


def measure_uncalibrated(
    counts: UnitCounts,
    spec: MeasurementSpec,
    *,
    categories: Sequence[str],
    judge: JudgeIdentity,
    judge_source: str,
    why: Uncalibrated,
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
    why : {'no_champion', 'other_judge', 'champion_unknown'}
        Why there is no calibration.
    """
    reason = REASONS[why]

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
