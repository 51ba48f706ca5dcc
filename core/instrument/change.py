"""The change of one quantity between two releases (SPEC 10.2-10.4): difference, interval, test and guard."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.inference.clusters import FEW_CLUSTERS, EffectiveSample
from core.inference.difference import (
    calibration_variance,
    degrees_of_freedom,
    effective_pairs,
    flag_shift,
    one_sample_variance,
    paired_variance,
    shift_tolerance,
)
from core.inference.intervals import normal_quantile
from core.inference.paired import ChangeTest, mcnemar_test, sign_flip_test, two_sample_test, two_sided_p
from core.instrument.compared import (
    ComparedSide,
    DeltaJGuard,
    DifferenceInterval,
    DifferenceVariance,
    JudgeTolerance,
    Verdict,
)
from core.instrument.pairing import PairCounts
from core.instrument.sides import ComparedPairs, Side, error_correlations

FRAGILE_POINTS = 5.0
"""A verdict that fewer points of specificity, or of sensitivity, erase is fragile: where clean traces are 85%, a judge
that passes 5 points fewer of them in one release makes a false alarm in two of three comparisons (STATISTICS section
6), and by symmetry so does one that finds 5 points fewer violations where they are 85%."""

NEGLIGIBLE_SHIFT = 0.1
"""Standard errors by which turn counts alone may move the flags while the flags still test the rates: at a tenth, a
test of level .05 has level .051."""

_Part = tuple[float, int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What one quantity's comparison gives before the adjustment for several quantities."""

    difference: float
    interval: DifferenceInterval
    test: ChangeTest
    variance: DifferenceVariance
    sides: dict[str, ComparedSide]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flags:
    """The flags' sampling variance."""

    variance: float  # of the difference of corrected rates, t factors included
    parts: tuple[_Part, ...]  # the same without t factors, each with its degrees of freedom
    observed: float  # of the difference of flag rates, without t factors


def paired_change(
    baseline: Side,
    candidate: Side,
    pairs: ComparedPairs,
    counts: PairCounts,
    outcome: int,
    *,
    confidence_level: float,
    rng: np.random.Generator,
) -> Change:
    """Compare unit by unit."""
    sums = counts.sums[outcome]
    j = {"baseline_j": baseline.smoothed.youden_j, "candidate_j": candidate.smoothed.youden_j}
    worth = effective_pairs(pairs.table, sums, clustered=counts.clustered, confidence_level=confidence_level, **j)
    independent = worth.n / worth.design_effect
    degrees = worth.n_clusters - 1 if counts.clustered else None
    flags = _Flags(
        variance=paired_variance(pairs.table, worth.n_effective, **j),
        parts=((paired_variance(pairs.table, independent, **j), degrees),),
        observed=paired_variance(pairs.table, independent),
    )
    parts = calibration_variance(
        baseline.smoothed, candidate.smoothed, **_correlations(error_correlations(baseline, candidate))
    )
    shift = _shift_in_errors(baseline, candidate, flags)
    if shift > NEGLIGIBLE_SHIFT:
        test = _wald(baseline, candidate, flags, parts)
    elif counts.clustered:
        test = sign_flip_test(dict(sums.changes), rng=rng)
    else:
        test = mcnemar_test(int(pairs.table.candidate_only), int(pairs.table.baseline_only))
    return _change(
        (baseline, candidate), (worth, worth), flags, parts, test,
        method="shared_calibration_paired", confidence_level=confidence_level, turns_matter=shift > NEGLIGIBLE_SHIFT,
    )  # fmt: skip


def unpaired_change(
    baseline: Side,
    candidate: Side,
    worths: tuple[EffectiveSample, EffectiveSample],
    *,
    same_calibration: bool,
    confidence_level: float,
) -> Change:
    """Compare two independent samples, with one calibration or with two."""
    sides = baseline, candidate
    scaled = [_sampling(side, worth, side.smoothed.youden_j) for side, worth in zip(sides, worths, strict=True)]
    plain = [_sampling(side, worth, 1.0) for side, worth in zip(sides, worths, strict=True)]
    flags = _Flags(
        variance=sum(with_t for with_t, _ in scaled),
        parts=tuple(part for _, part in scaled),
        observed=sum(variance for _, (variance, _) in plain),
    )
    correlations = error_correlations(baseline, candidate) if same_calibration else (0.0, 0.0)
    parts = calibration_variance(baseline.smoothed, candidate.smoothed, **_correlations(correlations))
    shift = _shift_in_errors(baseline, candidate, flags)
    if shift > NEGLIGIBLE_SHIFT or not same_calibration:
        test = _wald(baseline, candidate, flags, parts)
    else:
        test = two_sample_test(
            baseline.judge.observed_rate, worths[0].n / worths[0].design_effect,
            candidate.judge.observed_rate, worths[1].n / worths[1].design_effect,
            degrees_of_freedom=degrees_of_freedom(part for _, part in plain),
        )  # fmt: skip
    return _change(
        sides, worths, flags, parts, test,
        method="shared_calibration_unpaired" if same_calibration else "separate_calibrations",
        confidence_level=confidence_level, turns_matter=same_calibration and shift > NEGLIGIBLE_SHIFT,
    )  # fmt: skip


def _sampling(side: Side, worth: EffectiveSample, youden_j: float) -> tuple[float, _Part]:
    """Return a flag rate's variance over J², with the t factor, and without it beside its degrees of freedom."""
    rate = side.judge.observed_rate
    degrees = worth.n_clusters - 1 if worth.clustered else None
    return one_sample_variance(rate, worth.n_effective) / youden_j**2, (
        one_sample_variance(rate, worth.n / worth.design_effect) / youden_j**2,
        degrees,
    )


def _correlations(found: tuple[float, float]) -> dict[str, float]:
    return {"positive_correlation": found[0], "negative_correlation": found[1]}


def _shift_in_errors(baseline: Side, candidate: Side, flags: _Flags) -> float:
    return abs(flag_shift(baseline.judge, candidate.judge)) / math.sqrt(flags.observed)


def _wald(baseline: Side, candidate: Side, flags: _Flags, calibration: tuple[float, float]) -> ChangeTest:
    # Effective golden counts hold their own t factors, so that their part counts as known.
    parts = (*flags.parts, (sum(calibration), None))
    statistic = (candidate.judge.raw - baseline.judge.raw) / math.sqrt(sum(variance for variance, _ in parts))
    return ChangeTest(p_value=two_sided_p(statistic, degrees_of_freedom(parts)), method="wald")


def _change(
    sides: tuple[Side, Side],
    worths: tuple[EffectiveSample, EffectiveSample],
    flags: _Flags,
    calibration: tuple[float, float],
    test: ChangeTest,
    *,
    method: Literal["shared_calibration_paired", "shared_calibration_unpaired", "separate_calibrations"],
    confidence_level: float,
    turns_matter: bool,
) -> Change:
    baseline, candidate = sides
    difference = candidate.judge.raw - baseline.judge.raw
    half = normal_quantile(confidence_level) * math.sqrt(flags.variance + sum(calibration))
    notes = [*_cluster_notes(*worths)]
    if turns_matter:
        notes.append(
            "the releases' turn counts differ, which alone moves the flags: the test is on the corrected difference, "
            "with the calibration's error"
        )
    return Change(
        difference=difference,
        interval=DifferenceInterval(
            low=difference - half, high=difference + half, method=method, confidence_level=confidence_level
        ),
        test=test,
        variance=DifferenceVariance(flags=flags.variance, sensitivity=calibration[0], specificity=calibration[1]),
        sides={"baseline": _shown(baseline, worths[0]), "candidate": _shown(candidate, worths[1])},
        notes=tuple(notes),
    )


def _shown(side: Side, worth: EffectiveSample) -> ComparedSide:
    return ComparedSide(
        n_units=side.units.n,
        n_flagged=side.units.flagged,
        observed_rate=side.judge.observed_rate,
        sensitivity=side.judge.sensitivity,
        specificity=side.judge.specificity,
        youden_j=side.judge.youden_j,
        youden_j_low=side.youden_j_low,
        n_positive=side.judge.n_positive,
        n_negative=side.judge.n_negative,
        raw=side.judge.raw,
        n_effective=worth.n_effective,
        n_clusters=worth.n_clusters,
    )


def _cluster_notes(baseline: EffectiveSample, candidate: EffectiveSample) -> Iterator[str]:
    fewest = min(baseline.n_clusters, candidate.n_clusters)
    if fewest < FEW_CLUSTERS:
        what = "clusters" if baseline.clustered or candidate.clustered else "units"
        yield f"only {fewest} {what}: under {FEW_CLUSTERS} the interval may be too narrow"


def delta_j_guard(change: Change, verdict: Verdict) -> DeltaJGuard:
    """Say how far the judge would have to treat the releases differently to erase the difference (SPEC 10.4)."""
    rate = min(1.0, max(0.0, change.sides["baseline"].raw))
    youden_j = change.sides["candidate"].youden_j
    nearest = max(0.0, change.interval.low, -change.interval.high)
    point = JudgeTolerance(**_named(shift_tolerance(change.difference, youden_j, rate)))
    interval = JudgeTolerance(**_named(shift_tolerance(nearest, youden_j, rate)))
    changed = verdict in ("increase", "decrease")
    points = [None if shift is None else 100.0 * shift for shift in (interval.sensitivity, interval.specificity)]
    return DeltaJGuard(
        rate=rate,
        point=point,
        interval=interval,
        sensitivity_points=points[0],
        specificity_points=points[1],
        fragile=changed and any(shift is not None and shift < FRAGILE_POINTS for shift in points),
        note=_guard_note(change.difference, point, interval, changed=changed),
    )


def _named(tolerance: tuple[float | None, float | None]) -> dict[str, float | None]:
    return {"sensitivity": tolerance[0], "specificity": tolerance[1]}


def _guard_note(difference: float, point: JudgeTolerance, interval: JudgeTolerance, *, changed: bool) -> str:
    if difference == 0.0:
        return "no difference that the judge would have to explain"
    up = difference > 0

    def told(tolerance: JudgeTolerance) -> str:
        ways = [
            f"{name} {100.0 * shift:.1f} points {way}"
            for name, shift, way in (
                ("specificity", tolerance.specificity, "lower" if up else "higher"),
                ("sensitivity", tolerance.sensitivity, "higher" if up else "lower"),
            )
            if shift is not None
        ]
        return " or ".join(ways) or "no shift of one of the judge's rates"

    whole = f"{told(point)} in the candidate than in the baseline would explain the whole difference"
    return f"{whole}; {told(interval)} bring the interval to 0" if changed else whole
