"""Comparing releases (SPEC 10): the change of the corrected rate under one instrument, or why there is none to say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from zlib import crc32

import numpy as np

from core.data.facts import reading_differences
from core.errors import UndefinedError
from core.inference.intervals import check_confidence_level
from core.inference.multiplicity import holm
from core.instrument.calibrated import Calibrated, Calibration
from core.instrument.change import Change, delta_j_guard, paired_change, unpaired_change
from core.instrument.compared import (
    Compared,
    ComparedRelease,
    Comparison,
    Series,
    SeriesPoint,
    SeriesRate,
    Verdict,
)
from core.instrument.correction import Figures, figures_of
from core.instrument.measured import Measured, Measurement
from core.instrument.pairing import PairCounts
from core.instrument.sides import (
    ComparedPairs,
    NotComparableError,
    compared_pairs,
    recorded_units,
    recorded_worth,
    side_of,
)

RATED = ("measured", "inconclusive")
_RELEASES = ("baseline", "candidate")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Setting:
    """What holds for every quantity of a comparison."""

    calibration: Calibration
    other: Calibration  # the candidate's
    same_calibration: bool
    pairs: PairCounts | None
    clustered: tuple[bool, bool]
    confidence_level: float
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A quantity before the adjustment: a change, or the reason why there is none."""

    rows: tuple[Measured | None, Measured | None]
    change: Change | None = None
    pairs: ComparedPairs | None = None
    reason: str = ""


def compare(
    baseline: Measurement,
    candidate: Measurement,
    calibration: Calibration,
    *,
    pairs: PairCounts | None = None,
    candidate_calibration: Calibration | None = None,
    confidence_level: float | None = None,
    seed: int | None = None,
) -> Comparison:
    """Compare two releases that were measured with one instrument (SPEC 10).

    Parameters
    ----------
    baseline, candidate : Measurement
        The older and the newer release.
    calibration : Calibration
        That of both measurements; of the baseline alone when `candidate_calibration` is given.
    pairs : PairCounts, optional
        The decisions of both, unit by unit; without them the comparison is unpaired, from the measurements alone.
    candidate_calibration : Calibration, optional
        Compares across instruments all the same: independent variances, unpaired, and a note.
    confidence_level : float in (0, 1), optional
        Of the intervals; 1 minus it is the level of the verdicts. The calibration's when absent.
    seed : int, optional
        For the permutation test of very many clusters. The calibration's when absent.

    Returns
    -------
    Comparison

    Raises
    ------
    UndefinedError
        The measurements come from different calibrations and none is given for the candidate; pairs of different
        calibrations, or counted with other turn strata; different rules for attempts; categories that are not the
        calibration's; a level outside (0, 1).
    """
    level = calibration.confidence_level if confidence_level is None else confidence_level
    check_confidence_level(level)
    setting = _Setting(
        calibration=calibration,
        other=candidate_calibration or calibration,
        same_calibration=candidate_calibration is None,
        pairs=pairs,
        clustered=(baseline.clustered, candidate.clustered),
        confidence_level=level,
        seed=calibration.seed if seed is None else seed,
    )
    _check(baseline, candidate, setting)
    rows = _adjusted(_each(baseline, candidate, setting), setting)
    return Comparison(
        instrument=calibration.instrument,
        baseline=_release(baseline),
        candidate=_release(candidate),
        same_calibration=setting.same_calibration,
        paired=pairs is not None,
        clustered=any(setting.clustered) if pairs is None else pairs.clustered,
        n_baseline_only=None if pairs is None else pairs.n_baseline_only,
        n_candidate_only=None if pairs is None else pairs.n_candidate_only,
        confidence_level=level,
        composite_categories=baseline.composite_categories,
        composite=rows[None],
        categories={name: row for name, row in rows.items() if name is not None},
        notes=tuple(_notes(baseline, candidate, setting)),
    )


def series(
    measurements: Sequence[tuple[str, Measurement]],
    calibrations: Mapping[str, Calibration],
    *,
    pairs: Sequence[PairCounts | None] | None = None,
    confidence_level: float | None = None,
    seed: int | None = None,
) -> Series:
    """Line up releases, each compared with the one before; no difference crosses a change of instrument (SPEC 10.6).

    Parameters
    ----------
    measurements : sequence of (record id, Measurement)
        In the order of the releases.
    calibrations : mapping of str to Calibration
        By the id that the measurements name.
    pairs : sequence of (PairCounts or None), optional
        One a step, from each release to the next; not used at a break.
    confidence_level, seed
        As in `compare`.

    Returns
    -------
    Series

    Raises
    ------
    UndefinedError
        If ``pairs`` is not one shorter than ``measurements``; and as `compare`.
    """
    n_steps = max(0, len(measurements) - 1)
    steps = [None] * n_steps if pairs is None else list(pairs)
    if len(steps) != n_steps:
        raise UndefinedError("pairs", len(steps), f"{len(measurements)} releases have {n_steps} steps")
    points: list[SeriesPoint] = []
    for i, (record, measured) in enumerate(measurements):
        before = measurements[i - 1][1] if i else None
        broken = None if before is None else _break(before, measured, calibrations)
        change = None
        if before is not None and broken is None:
            change = compare(
                before, measured, calibrations[measured.calibration.id],
                pairs=steps[i - 1], confidence_level=confidence_level, seed=seed,
            )  # fmt: skip
        points.append(
            SeriesPoint(
                measurement=record,
                target=measured.target,
                calibration=measured.calibration.id,
                segment=points[-1].segment + (broken is not None) if points else 0,
                break_before=broken,
                composite=_series_rate(measured.composite),
                categories={name: _series_rate(row) for name, row in measured.categories.items()},
                change=change,
            )
        )
    notes: tuple[str, ...] = ()
    if sum(point.change is not None for point in points) > 1:
        notes = ("each step has its own Holm adjustment: over many steps some will change by chance",)
    return Series(points=tuple(points), notes=notes)


def _series_rate(row: Measured) -> SeriesRate:
    return SeriesRate(status=row.prevalence.status, value=row.prevalence.value, interval=row.prevalence.interval)


def _break(before: Measurement, after: Measurement, calibrations: Mapping[str, Calibration]) -> str | None:
    """Say why two neighbouring releases were not measured with one instrument; None if they were."""
    if before.calibration.id != after.calibration.id:
        return "another calibration"
    if after.calibration.id not in calibrations:
        return "not calibrated" if after.calibration.source == "none" else "the calibration is not at hand"
    if not before.judge.agrees_with(after.judge):
        return f"another judge: {after.judge} after {before.judge}"
    if before.attempts != after.attempts:
        return f"another rule for attempts: {after.attempts} after {before.attempts}"
    return None


def _check(baseline: Measurement, candidate: Measurement, setting: _Setting) -> None:
    ids = baseline.calibration.id, candidate.calibration.id
    if ids[0] != ids[1] and setting.same_calibration:
        raise UndefinedError(
            "calibration", ids, "the releases were measured with different instruments: measure the baseline again "
            "with the candidate's, or ask for a comparison across instruments",
        )  # fmt: skip
    if baseline.attempts != candidate.attempts:
        raise UndefinedError(
            "attempts", (baseline.attempts, candidate.attempts), "both releases need one rule: measure one of them "
            "again with that of the other",
        )  # fmt: skip
    for measured, used in ((baseline, setting.calibration), (candidate, setting.other)):
        if measured.composite_categories != used.composite.categories:
            raise UndefinedError(
                "calibration", used.composite.categories, "the measurement was made with a calibration of other "
                f"categories: {', '.join(measured.composite_categories)}",
            )  # fmt: skip
    if setting.pairs is None:
        return
    if not setting.same_calibration:
        raise UndefinedError("pairs", setting.pairs.n_pairs, "flags of two instruments cannot be paired")
    if setting.pairs.n_categories != len(setting.calibration.composite.categories):
        raise UndefinedError("pairs", setting.pairs.n_categories, "pairs need the calibration's categories")


def _release(measured: Measurement) -> ComparedRelease:
    return ComparedRelease(
        target=measured.target,
        calibration=measured.calibration,
        judge=measured.judge,
        n_units=measured.n_units,
        unscored_share=measured.unscored_share,
    )


def _notes(baseline: Measurement, candidate: Measurement, setting: _Setting) -> list[str]:
    notes = []
    if not setting.same_calibration:
        notes.append(
            "different instruments: the difference may be the instruments' and not the releases'; variances are added "
            "as independent"
        )
    elif not baseline.judge.agrees_with(candidate.judge):
        notes.append(
            f"scored by different judges, {baseline.judge} and {candidate.judge}: one calibration cannot hold for both"
        )
    notes += [
        f"the candidate was read otherwise than the baseline: {difference}; the difference may be the reading's"
        for difference in reading_differences(baseline.sources, candidate.sources)
    ]
    pairs = setting.pairs
    if pairs is None:
        notes.append("not paired: the two releases are taken as independent samples")
    elif pairs.n_baseline_only or pairs.n_candidate_only:
        notes.append(
            f"{pairs.n_baseline_only} units of the baseline and {pairs.n_candidate_only} of the candidate have no "
            "partner and are left out"
        )
    notes += [
        f"{name}: {measured.unscored_share:.1%} of the units are not fully scored, above the error budget"
        for name, measured in zip(_RELEASES, (baseline, candidate), strict=True)
        if measured.error_budget_exceeded
    ]
    return notes


def _each(baseline: Measurement, candidate: Measurement, setting: _Setting) -> dict[str | None, _Found]:
    """Compare every quantity; the composite has no name."""
    composites = setting.calibration.composite, setting.other.composite
    found: dict[str | None, _Found] = {}
    if composites[0].categories != composites[1].categories:
        found[None] = _Found(
            rows=(baseline.composite, candidate.composite), reason="the two composites span different categories"
        )
    else:
        found[None] = _quantity((baseline.composite, candidate.composite), composites, setting, None)
    for name in dict.fromkeys((*setting.calibration.categories, *setting.other.categories)):
        one, other = baseline.categories.get(name), candidate.categories.get(name)
        judged = setting.calibration.categories.get(name), setting.other.categories.get(name)
        if one is None or other is None or judged[0] is None or judged[1] is None:
            found[name] = _Found(rows=(one, other), reason="only one of the two instruments has it")
        else:
            found[name] = _quantity((one, other), (judged[0], judged[1]), setting, name)
    return found


def _quantity(
    rows: tuple[Measured, Measured], judged: tuple[Calibrated, Calibrated], setting: _Setting, name: str | None
) -> _Found:
    try:
        return _changed(rows, _figures(rows, judged, setting), setting, name)
    except NotComparableError as reason:
        return _Found(rows=rows, reason=str(reason))


def _figures(
    rows: tuple[Measured, Measured], judged: tuple[Calibrated, Calibrated], setting: _Setting
) -> tuple[Figures, Figures]:
    for release, row in zip(_RELEASES, rows, strict=True):
        if row.prevalence.status not in RATED:
            why = "; ".join((row.prevalence.status, *row.prevalence.notes))
            raise NotComparableError(f"the {release} has no corrected rate: {why}")
    one, other = (
        figures_of(known, used.confidence_level, setting.confidence_level)
        for known, used in zip(judged, (setting.calibration, setting.other), strict=True)
    )
    if one is None or other is None:
        raise NotComparableError("the calibration has no sensitivity and specificity for it")
    return one, other


def _changed(
    rows: tuple[Measured, Measured], figures: tuple[Figures, Figures], setting: _Setting, name: str | None
) -> _Found:
    level = setting.confidence_level
    pairs = None
    if setting.pairs is not None:
        outcome = 0 if name is None else setting.calibration.composite.categories.index(name) + 1
        pairs = compared_pairs(setting.pairs, outcome, figures[0])
        units = pairs.baseline, pairs.candidate
    else:
        units = recorded_units(rows[0], figures[0]), recorded_units(rows[1], figures[1])
    one, other = (
        side_of(release, counted, known, confidence_level=level, floor=used.detection_floor)
        for release, counted, known, used in zip(
            _RELEASES, units, figures, (setting.calibration, setting.other), strict=True
        )
    )
    if setting.pairs is not None and pairs is not None:
        # As in a measurement, the stream of random numbers depends on the name alone.
        stream = crc32((name or "").encode("utf-8", "surrogatepass"))
        change = paired_change(
            one, other, pairs, setting.pairs, outcome,
            confidence_level=level, rng=np.random.default_rng([setting.seed, stream]),
        )  # fmt: skip
    else:
        first, second = (
            recorded_worth(row, counted, clustered=clustered, confidence_level=level)
            for row, counted, clustered in zip(rows, units, setting.clustered, strict=True)
        )
        change = unpaired_change(
            one, other, (first, second), same_calibration=setting.same_calibration, confidence_level=level
        )
    return _Found(rows=rows, change=change, pairs=pairs)


def _adjusted(found: Mapping[str | None, _Found], setting: _Setting) -> dict[str | None, Compared]:
    """Adjust the p-values over all quantities that have one, and give the verdicts."""
    tested = [name for name, row in found.items() if row.change is not None]
    p_values = [row.change.test.p_value for row in found.values() if row.change is not None]
    adjusted = dict(zip(tested, holm(p_values), strict=True))
    return {
        name: _judged(row, row.change, adjusted[name], setting)
        if row.change is not None
        else replace(_unjudged(row, setting), notes=(row.reason,))
        for name, row in found.items()
    }


def _unjudged(found: _Found, setting: _Setting) -> Compared:
    one, other = (None if row is None else row.prevalence.value for row in found.rows)
    return Compared(verdict="not_comparable", baseline=one, candidate=other, paired=setting.pairs is not None, sides={})


def _judged(found: _Found, change: Change, p_adjusted: float, setting: _Setting) -> Compared:
    verdict: Verdict = "no_evidence_of_change"
    if p_adjusted <= 1.0 - setting.confidence_level:
        verdict = "increase" if change.difference > 0 else "decrease"
    pairs = found.pairs
    weak = any(row is not None and row.prevalence.status == "inconclusive" for row in found.rows)
    sides = change.sides
    return replace(
        _unjudged(found, setting),
        verdict=verdict,
        difference=change.difference,
        interval=change.interval,
        p_value=change.test.p_value,
        p_adjusted=p_adjusted,
        method=change.test.method,
        n_pairs=0 if pairs is None else int(pairs.table.n),
        n_pairs_unscored=0 if pairs is None else pairs.n_unscored,
        n_pairs_outside=0 if pairs is None else pairs.n_outside,
        n_candidate_only=None if pairs is None else int(pairs.table.candidate_only),
        n_baseline_only=None if pairs is None else int(pairs.table.baseline_only),
        observed_difference=sides["candidate"].observed_rate - sides["baseline"].observed_rate,
        sides=sides,
        variance=change.variance,
        delta_j_guard=delta_j_guard(change, verdict),
        notes=(
            *change.notes,
            *(("the judge may be below the detection floor: the lower bound of J is",) if weak else ()),
        ),
    )
