"""record -> its inputs -> the record again: every figure has to come out as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError, MismatchError
from core.instrument.planned import PlanSpec
from core.instrument.spec import UNKNOWN, DeclaredSpec, InstrumentSpec, JudgeIdentity, MeasurementSpec
from core.records import Document, differences_of, plain, record_id
from core.simulation.spec import CertificateSpec
from flows.pipelines.auditing import audit_again
from flows.pipelines.calibration import derive_calibration, derive_declared
from flows.pipelines.comparison_again import compared_again, lined_up_again
from flows.pipelines.gating import derive_again
from flows.pipelines.measurement import derive_detections, derive_measurement, derive_uncalibrated
from flows.pipelines.planning import derive_plan
from flows.pipelines.simulation import Begin, Certified, derive_simulation, no_beginning
from flows.pipelines.watching import watched_again
from tasks.archive import Derived, load_record, sealed
from tasks.finder import InputFinder
from tasks.judges import load_judge
from tasks.specs import build_simulation, build_spec
from tasks.storage import Place, digest_of, exists
from tasks.tables import Progress, no_progress
from tasks.workers import Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What was found.

    Attributes
    ----------
    document : dict
        The record.
    identical : bool
        Whether the re-derived record has the same id; else its figures agree within rounding.
    outputs : dict
        Each output file: ``intact`` or ``absent``.
    """

    document: Document
    identical: bool
    outputs: dict[str, str]


def verify(
    record: Place,
    *,
    folders: Sequence[Path] = (),
    progress: Progress = no_progress,
    begin: Begin = no_beginning,
    workers: Workers = 1,
    tracking_uri: str | None = None,
) -> Verification:
    """Re-derive a record from its recorded inputs.

    Parameters
    ----------
    record : Path or S3Url
    folders : sequence of Path
        Where to look for inputs that are not where they were: they are recognised by their digests.
    progress : callable
        Hears of rows that are read.
    begin : Begin
        Hears of a simulation's replications.
    workers : Workers
        Who simulates.
    tracking_uri : str, optional
        MLflow's address, for a calibration that is named by a reference and is no longer on disk.

    Raises
    ------
    MismatchError
        The id does not fit the content, an input or output has changed, or a figure comes out differently.
    InputError
        An input cannot be found, so nothing can be said.
    """
    document = load_record(record, check_id=False)
    if record_id(document) != document["id"]:
        raise MismatchError(f"{record}: its id does not fit its content: the record was changed after it was written")
    finder = InputFinder(record, folders, tracking_uri)
    kind = document["schema"].partition("/")[0]
    if kind == "assay.simulation":
        derived = _simulated(document, finder, begin, workers)
    elif kind == "assay.comparison":
        derived = compared_again(document, finder, folders, progress, tracking_uri)
    elif kind == "assay.series":
        derived = lined_up_again(document, finder, folders, progress, tracking_uri)
    else:
        derived = _derive(document, finder, progress)
    again = sealed(derived)
    differences = list(differences_of(document["result"], derived.result, "result"))
    differences += list(differences_of(document["spec"], derived.spec, "spec"))
    if differences:
        shown = "\n".join(f"  {line}" for line in differences[:20])
        more = f"\n  ... and {len(differences) - 20} more" if len(differences) > 20 else ""
        raise MismatchError(f"{record}: {len(differences)} figure(s) come out differently:\n{shown}{more}")
    return Verification(
        document=document, identical=again["id"] == document["id"], outputs=_check_outputs(document, record)
    )


def _derive(document: Document, finder: InputFinder, progress: Progress) -> Derived:
    kind = document["schema"].partition("/")[0]
    inputs, spec, source = document["inputs"], document["spec"], "the record's spec"
    if kind == "assay.calibration":
        if spec.get("calibration_source") == "declared":
            return derive_declared(build_spec(spec, DeclaredSpec, source))
        instrument = build_spec(spec, InstrumentSpec, source)
        ran = document["result"].get("judge_source") == "ran"
        if ran:
            _check_judge(document["result"]["judge"])
        return derive_calibration(
            finder.files(inputs, "golden"),
            [] if ran else finder.files(inputs, instrument.kind),
            document["result"]["judge"]["name"] if ran else None,
            instrument,
            accept_judge=True,
            progress=progress,
            ask=False,
            wanted=document["result"]["judge"]["version"],
        )[0]
    if kind == "assay.plan":
        planned_with = finder.calibration(inputs) if inputs else None
        return derive_plan(build_spec(spec, PlanSpec, source), planned_with)
    if kind == "assay.watch":
        return watched_again(document, finder)
    if kind == "assay.gate":
        return derive_again(document, finder)
    if kind == "assay.audit":
        return audit_again(spec, inputs, finder, progress)
    wanted = build_spec(spec, MeasurementSpec, source)
    if wanted.kind == "detections" and all(item["role"] != "calibration" for item in inputs):
        return derive_detections(
            finder.files(inputs, "detections"),
            wanted,
            reported=finder.files(inputs, "reported"),
            progress=progress,
        )[0]
    if wanted.uncalibrated is not None:
        return derive_uncalibrated(finder.files(inputs, "scores"), wanted, progress=progress)[0]
    found = finder.calibration(inputs)
    return derive_measurement(
        finder.files(inputs, wanted.kind),
        found,
        wanted,
        certificate=finder.certificate(inputs, found),
        labels=finder.files(inputs, "labels"),
        reported=finder.files(inputs, "reported"),
        progress=progress,
    )[0]


def _simulated(document: Document, finder: InputFinder, begin: Begin, workers: Workers) -> Derived:
    spec = build_simulation(document["spec"], "the record's spec")
    certified = None
    if isinstance(spec, CertificateSpec):
        found = finder.calibration(document["inputs"])
        certified = Certified(found=found, maxima=finder.golden_maxima(document["inputs"], found))
    return derive_simulation(spec, certified, workers=workers, begin=begin)


def _check_judge(recorded: dict[str, Any]) -> None:
    worker = load_judge(str(recorded.get("name")))
    now = JudgeIdentity(name=worker.name, version=worker.version, fingerprint=worker.fingerprint)
    if now.version == UNKNOWN:  # only a service's answers say it, and they are compared with the record later on
        now = replace(now, version=str(recorded.get("version")))
    if plain(now) != recorded:
        raise InputError.of(
            "judge",
            f"{now} here has another fingerprint than the one that was calibrated; it cannot be run again",
        )


def _check_outputs(document: Document, record: Place) -> dict[str, str]:
    states = {}
    for item in document.get("outputs", []):
        place = record.parent / Path(item["uri"]).name
        there = exists(place)
        if there and digest_of(place) != item["sha256"]:
            raise MismatchError(f"{place}: has changed since the record was made")
        states[place.name] = "intact" if there else "absent"
    return states
