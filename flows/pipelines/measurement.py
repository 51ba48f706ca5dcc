"""production -> counted units -> measurement -> record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.data.facts import SourceFacts, contradiction, reading_notes
from core.errors import InputError
from core.instrument.calibrated import DetectorCalibration, deployable, kind_of, thresholds_of
from core.instrument.detections import measure_detections, measure_detector
from core.instrument.identity import judge_of_scores, target_of_scores
from core.instrument.labelled import LabelledUnits
from core.instrument.measured import Survey
from core.instrument.measurement import measure, measurement_spec
from core.instrument.spec import Attempts, InstrumentSpec, JudgeIdentity, MeasurementSpec, Uncalibrated
from core.instrument.tally import UnitCounts
from core.instrument.uncalibrated import RAW_THRESHOLD, measure_uncalibrated
from core.records import FileReference
from tasks import steps
from tasks.archive import Derived, FoundCalibration, Written, find_calibration, sealed
from tasks.cache import Result, result_key, write_result
from tasks.certificates import NONE, FoundCertificate, Tell, find_certificate
from tasks.readers import Source, reader_names
from tasks.steps import Runner, direct
from tasks.storage import InputFile, Place, find_inputs
from tasks.tables import (
    Progress,
    ScoreScan,
    categories_in,
    count_units,
    load_golden,
    load_reported,
    no_progress,
    open_all,
    references,
)
from tasks.workers import Workers

SCHEMA = "assay.measurement"
LABELS = "labels"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """Production, counted, with what the scan found out about it."""

    counts: UnitCounts
    n_decisions: int
    judge: JudgeIdentity
    judge_source: str
    judge_accepted: bool
    spec: MeasurementSpec
    inputs: list[FileReference]
    sources: tuple[SourceFacts, ...]


def _counted(
    files: Sequence[InputFile],
    sources: Sequence[Source],
    spec: MeasurementSpec,
    categories: Sequence[str],
    thresholds: Sequence[float],
    *,
    n_composite: int,
    judge: JudgeIdentity | None,
    whose: str,
    decisions: Path | None,
    progress: Progress,
    labelled: LabelledUnits | None = None,
    workers: Workers,
) -> _Counted:
    """Read and count production in one pass, and check whose verdicts it holds, and on what."""
    scan = ScoreScan(sources, spec.kind, categories, progress)
    counts, n_decisions = count_units(
        scan,
        thresholds,
        n_composite=n_composite,
        turn_bins=spec.turn_bins,
        attempts=spec.attempts,
        last_turn_only=spec.turn_scope == "last",
        decisions=decisions,
        labelled=labelled,
        workers=workers,
    )
    scan.check(categories[:n_composite])
    found, where = scan.found, files[0].name
    identity, source, accepted = judge_of_scores(
        found.judges, found.fingerprints, judge, accept=spec.accept_judge, where=where, expected=whose
    )
    return _Counted(
        counts=counts,
        n_decisions=n_decisions,
        judge=identity,
        judge_source=source,
        judge_accepted=accepted,
        spec=replace(spec, target=target_of_scores(found.targets, spec.target, where)),
        inputs=references(spec.kind, files, found.rows_by_file),
        sources=found.sources,
    )


def _derived(
    counted: _Counted, result: Survey, more: Sequence[FileReference] = (), notes: Sequence[str] = ()
) -> tuple[Derived, int]:
    inputs = [*counted.inputs, *more]
    known = replace(result, sources=counted.sources, notes=(*result.notes, *notes))
    derived = Derived(schema=SCHEMA, spec=counted.spec, seed=counted.spec.seed, inputs=inputs, result=known)
    return derived, counted.n_decisions


def derive_measurement(
    files: Sequence[InputFile],
    found: FoundCalibration,
    spec: MeasurementSpec,
    *,
    certificate: FoundCertificate | None = None,
    labels: Sequence[InputFile] = (),
    reported: Sequence[InputFile] = (),
    decisions: Path | None = None,
    progress: Progress = no_progress,
    workers: Workers = 1,
) -> tuple[Derived, int]:
    """Measure with a calibration; everything that the record's id covers, and the rows of `decisions`."""
    calibration = found.calibration
    if reported and kind_of(calibration) == "scores":
        raise InputError.of("measure", "--reported goes with detections, and the calibration is of scores")
    names = deployable(calibration)
    others = tuple(name for name in calibration.categories if name not in names)
    watched: LabelledUnits | None = None
    label_inputs: list[FileReference] = []
    if labels:
        golden, _, label_inputs = load_golden(
            labels, categories=(*names, *others), slices=(), needed=names, role=LABELS
        )
        watched = LabelledUnits(golden, names)
    counted = _counted(
        files,
        open_all(files),
        spec,
        (*names, *others),
        thresholds_of(calibration),
        n_composite=len(names),
        judge=calibration.judge,
        whose="the calibration's",
        decisions=decisions,
        progress=progress,
        labelled=watched,
        workers=workers,
    )
    records = [found.reference, *([] if certificate is None else [certificate.reference])]
    known: dict[str, Any] = {
        "calibration_id": found.document["id"],
        "judge": counted.judge,
        "judge_source": counted.judge_source,
        "judge_accepted": counted.judge_accepted,
        "certificate": None if certificate is None else certificate.link,
    }
    if (wrong := contradiction(calibration.sources, counted.sources)) is not None:
        raise InputError.of(files[0].name, wrong)
    notes = reading_notes(calibration.sources, counted.sources)
    if isinstance(calibration, DetectorCalibration):
        rates, report_inputs = load_reported(reported, names)
        result = measure_detector(counted.counts, calibration, counted.spec, **known, reported=rates)
        return _derived(counted, result, [*records, *report_inputs], notes)
    labelled = None
    if watched is not None:
        labelled = watched.finish(allow_unmatched=spec.allow_unmatched, where=labels[0].name)
    result_of_scores = measure(counted.counts, calibration, counted.spec, **known, labelled=labelled)
    return _derived(counted, result_of_scores, [*records, *label_inputs], notes)


def derive_uncalibrated(
    files: Sequence[InputFile],
    spec: MeasurementSpec,
    *,
    decisions: Path | None = None,
    progress: Progress = no_progress,
    workers: Workers = 1,
) -> tuple[Derived, int]:
    """Measure scores that no calibration fits: the raw rate alone; see `derive_measurement`."""
    sources = open_all(files)
    categories = spec.categories or categories_in(sources, "scores")
    counted = _counted(
        files,
        sources,
        spec,
        categories,
        [RAW_THRESHOLD] * len(categories),
        n_composite=len(categories),
        judge=None,
        whose="the",
        decisions=decisions,
        progress=progress,
        workers=workers,
    )
    result = measure_uncalibrated(
        counted.counts,
        counted.spec,
        categories=categories,
        judge=counted.judge,
        judge_source=counted.judge_source,
        why=spec.uncalibrated or "no_champion",
    )
    return _derived(counted, result)


def derive_detections(
    files: Sequence[InputFile],
    spec: MeasurementSpec,
    *,
    reported: Sequence[InputFile] = (),
    decisions: Path | None = None,
    progress: Progress = no_progress,
    workers: Workers = 1,
) -> tuple[Derived, int]:
    """Measure an uncalibrated detector's decisions; see `derive_measurement`."""
    sources = open_all(files)
    attributes = spec.categories or categories_in(sources, "detections")
    counted = _counted(
        files,
        sources,
        spec,
        attributes,
        [1.0] * len(attributes),
        n_composite=len(attributes),
        judge=spec.judge,
        whose="the instrument's",
        decisions=decisions,
        progress=progress,
        workers=workers,
    )
    rates, report_inputs = load_reported(reported, attributes)
    result = measure_detections(
        counted.counts,
        counted.spec,
        attributes=attributes,
        judge=counted.judge,
        judge_source=counted.judge_source,
        judge_accepted=counted.judge_accepted,
        reported=rates,
    )
    return _derived(counted, result, report_inputs)


def detection_spec(instrument: InstrumentSpec, **asked: Any) -> MeasurementSpec:
    """Say what a measurement of detections is asked for: the instrument's declarations, and the call's own wishes."""
    if instrument.kind != "detections":
        raise InputError.of(
            f"instrument {instrument.name!r}",
            "is of kind scores: measuring scores needs --calibration (make one with `assay calibrate`)",
        )
    spec = MeasurementSpec(
        kind="detections",
        instrument=instrument.name,
        categories=instrument.categories,
        judge=instrument.judge,
        attempts=instrument.attempts,
        turn_scope=instrument.turn_scope,
        confidence_level=instrument.confidence_level,
        error_budget=instrument.error_budget,
        turn_bins=instrument.turn_bins,
        seed=instrument.seed,
    )
    return replace(spec, **{name: value for name, value in asked.items() if value is not None})


def uncalibrated_spec(instrument: InstrumentSpec, reason: Uncalibrated, **asked: Any) -> MeasurementSpec:
    """Say what is asked for when scores are measured without a calibration, and why."""
    spec = MeasurementSpec(
        kind="scores",
        instrument=instrument.name,
        categories=instrument.categories,
        uncalibrated=reason,
        attempts=instrument.attempts,
        turn_scope=instrument.turn_scope,
        confidence_level=instrument.confidence_level,
        error_budget=instrument.error_budget,
        turn_bins=instrument.turn_bins,
        seed=instrument.seed,
    )
    return replace(spec, **{name: value for name, value in asked.items() if value is not None})


def run_measurement(
    files: Sequence[str],
    *,
    calibration: str | None = None,
    certificate: str | None = None,
    instrument: InstrumentSpec | None = None,
    uncalibrated: Uncalibrated | None = None,
    reported: Sequence[str] = (),
    labels: Sequence[str] = (),
    allow_unmatched: bool = False,
    target: str | None = None,
    attempts: Attempts | None = None,
    accept_judge: bool = False,
    confidence_level: float | None = None,
    output: Place | None = None,
    progress: Progress = no_progress,
    workers: Workers = 1,
    tracking_uri: str | None = None,
    tell: Tell = lambda _: None,
    run: Runner = direct,
    reuse: bool = False,
) -> Written:
    """Measure and write the record with its decisions.

    Parameters
    ----------
    files : sequence of str
        ``[READER:]PATH`` arguments.
    calibration : str, optional
        A reference to the calibration; scores need one, detections are corrected with one.
    certificate : str, optional
        A reference to the calibration's certificate; ``none`` leaves it out, and without one it is looked for
        (`find_certificate`).
    instrument : InstrumentSpec, optional
        For detections, and for scores that no calibration fits.
    uncalibrated : {'no_champion', 'other_judge', 'champion_unknown'}, optional
        Why scores are measured without a calibration.
    labels : sequence of str
        Labels of a random part of production, to hold the golden set against.
    allow_unmatched : bool
        Leave out labels of traces that are not in production, and count them, whatever the instrument says.
    reported, target, attempts, accept_judge, confidence_level, output, progress
        As on the command line.
    workers : Workers
        Who reads and counts; the record does not depend on it.
    tracking_uri : str, optional
        Where references lead.
    tell : callable
        Hears of a certificate that was come across and does not count.
    run : Runner
        Who carries out the steps.
    reuse : bool
        Whether a record from the result cache will do.
    """
    readers = reader_names()
    asked: dict[str, Any] = {
        "target": target,
        "attempts": attempts,
        "accept_judge": accept_judge,
        "confidence_level": confidence_level,
    }
    found = None if calibration is None else run(steps.CHOOSE, lambda: find_calibration(calibration, tracking_uri))
    certified = None
    if found is not None:
        certified = run(steps.CERTIFY, lambda: find_certificate(found, certificate, tracking_uri, tell))
    elif certificate not in (None, NONE):
        raise InputError.of("measure", "a certificate belongs to a calibration, and none is named")
    inputs, reports, label_files = run(
        steps.FIND, lambda: [find_inputs(named, readers) for named in (files, reported, labels)]
    )
    if label_files and found is None:
        raise InputError.of("measure", "labels of production are held against a calibration, and there is none")
    if found is not None:
        allowed = allow_unmatched or found.document["spec"].get("allow_unmatched") is True
        spec = measurement_spec(found.calibration, **asked, allow_unmatched=bool(label_files) and allowed)
    elif instrument is None:
        raise InputError.of("measure", "scores need --calibration, detections --instrument")
    elif uncalibrated is not None:
        spec = uncalibrated_spec(instrument, uncalibrated, **asked)
    else:
        spec = detection_spec(instrument, **asked)

    def derive(decisions: Path) -> tuple[Derived, int]:
        if found is not None:
            return derive_measurement(
                inputs,
                found,
                spec,
                certificate=certified,
                labels=label_files,
                reported=reports,
                decisions=decisions,
                progress=progress,
                workers=workers,
            )
        if spec.uncalibrated is not None:
            return derive_uncalibrated(inputs, spec, decisions=decisions, progress=progress, workers=workers)
        return derive_detections(
            inputs, spec, reported=reports, decisions=decisions, progress=progress, workers=workers
        )

    def compute(folder: Path) -> Result:
        derived, rows = run(steps.MEASURE, lambda: derive(folder / "decisions.parquet"))
        return Result(document=sealed(derived), outputs=(("decisions", folder / "decisions.parquet", rows),))

    key = None
    if reuse:
        key = result_key(
            SCHEMA,
            spec,
            {"scores": inputs, "reported": reports, LABELS: label_files},
            calibration=found and found.reference,
            certificate=certified and certified.reference,
        )
    return write_result(key, compute, output, run)
