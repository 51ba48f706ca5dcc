"""production -> counted units -> measurement -> record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.instrument.calibrated import deployable, thresholds_of
from core.instrument.detections import measure_detections
from core.instrument.identity import judge_of_scores, target_of_scores
from core.instrument.measurement import measure, measurement_spec
from core.instrument.spec import Attempts, InstrumentSpec, MeasurementSpec
from core.records import FileReference
from tasks.archive import (
    Derived,
    FoundCalibration,
    Written,
    find_calibration,
    scratch_beside,
    sealed,
    write_record,
)
from tasks.readers import reader_names
from tasks.storage import InputFile, Place, find_inputs
from tasks.tables import (
    Progress,
    ScoreScan,
    categories_in,
    count_units,
    load_reported,
    no_progress,
    open_all,
    references,
)

SCHEMA = "assay.measurement"


def derive_measurement(
    files: Sequence[InputFile],
    found: FoundCalibration,
    spec: MeasurementSpec,
    *,
    decisions: Path | None = None,
    progress: Progress = no_progress,
) -> tuple[Derived, int]:
    """Measure scores with a calibration; everything that the record's id covers, and the rows of `decisions`."""
    calibration = found.calibration
    names = deployable(calibration)
    others = tuple(name for name in calibration.categories if name not in names)
    scan = ScoreScan(open_all(files), "scores", (*names, *others), progress)
    counts, n_decisions = count_units(
        scan,
        thresholds_of(calibration),
        n_composite=len(names),
        turn_bins=spec.turn_bins,
        attempts=spec.attempts,
        last_turn_only=spec.turn_scope == "last",
        decisions=decisions,
    )
    scan.check(names)
    where = files[0].name
    judge, source, accepted = judge_of_scores(
        scan.found.judges,
        scan.found.fingerprints,
        calibration.judge,
        accept=spec.accept_judge,
        where=where,
        expected="the calibration's",
    )
    spec = replace(spec, target=target_of_scores(scan.found.targets, spec.target, where))
    result = measure(
        counts,
        calibration,
        spec,
        calibration_id=found.document["id"],
        judge=judge,
        judge_source=source,
        judge_accepted=accepted,
    )
    inputs = [*references("scores", files, scan.found.rows_by_file), found.reference]
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=result), n_decisions


def derive_detections(
    files: Sequence[InputFile],
    spec: MeasurementSpec,
    *,
    reported: Sequence[InputFile] = (),
    decisions: Path | None = None,
    progress: Progress = no_progress,
) -> tuple[Derived, int]:
    """Measure a detector's decisions; see `derive_measurement`."""
    sources = open_all(files)
    attributes = spec.categories or categories_in(sources, "detections")
    scan = ScoreScan(sources, "detections", attributes, progress)
    counts, n_decisions = count_units(
        scan,
        [1.0] * len(attributes),
        n_composite=len(attributes),
        turn_bins=spec.turn_bins,
        attempts=spec.attempts,
        last_turn_only=spec.turn_scope == "last",
        decisions=decisions,
    )
    scan.check(attributes)
    where = files[0].name
    judge, source, accepted = judge_of_scores(
        scan.found.judges,
        scan.found.fingerprints,
        spec.judge,
        accept=spec.accept_judge,
        where=where,
        expected="the instrument's",
    )
    spec = replace(spec, target=target_of_scores(scan.found.targets, spec.target, where))
    rates, report_inputs = load_reported(reported, attributes)
    result = measure_detections(
        counts,
        spec,
        attributes=attributes,
        judge=judge,
        judge_source=source,
        judge_accepted=accepted,
        reported=rates,
    )
    inputs: list[FileReference] = [*references("detections", files, scan.found.rows_by_file), *report_inputs]
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=result), n_decisions


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


def run_measurement(
    files: Sequence[str],
    *,
    calibration: str | None = None,
    instrument: InstrumentSpec | None = None,
    reported: Sequence[str] = (),
    target: str | None = None,
    attempts: Attempts | None = None,
    accept_judge: bool = False,
    confidence_level: float | None = None,
    output: Place | None = None,
    progress: Progress = no_progress,
    tracking_uri: str | None = None,
) -> Written:
    """Measure and write the record with its decisions; `tracking_uri` is where a calibration's reference leads."""
    readers = reader_names()
    asked: dict[str, Any] = {
        "target": target,
        "attempts": attempts,
        "accept_judge": accept_judge,
        "confidence_level": confidence_level,
    }
    found = None if calibration is None else find_calibration(calibration, tracking_uri)
    inputs = find_inputs(files, readers)
    with scratch_beside(output) as folder:
        decisions = folder / "decisions.parquet"
        if found is not None:
            spec = measurement_spec(found.calibration, **asked)
            derived, rows = derive_measurement(inputs, found, spec, decisions=decisions, progress=progress)
        elif instrument is not None:
            spec = detection_spec(instrument, **asked)
            derived, rows = derive_detections(
                inputs, spec, reported=find_inputs(reported, readers), decisions=decisions, progress=progress
            )
        else:
            raise InputError.of("measure", "scores need --calibration, detections --instrument")
        return write_record(sealed(derived), output, [("decisions", decisions, rows)])
