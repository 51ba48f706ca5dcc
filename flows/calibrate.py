"""Flow ``calibrate``: a judge on a golden set, by hand or because the judge has changed."""

from __future__ import annotations

from prefect import flow

from core.errors import InputError
from core.instrument.spec import UNKNOWN, JudgeIdentity
from flows.orchestration import (
    ProgressArtifact,
    announce,
    instrument_named,
    listed,
    name_of_instrument,
    orchestrated,
    parameters_of_run,
    show_record,
    tracked_run,
)
from flows.pipelines.calibration import run_calibration
from tasks import steps
from tasks.archive import Written
from tasks.events import CALIBRATION_MADE
from tasks.judges import load_judge
from tasks.readers import reader_names
from tasks.reporting.markdown import plain_text
from tasks.storage import find_inputs, place_of
from tasks.tables import rows_of
from tasks.tracking import promotion
from tasks.watches import answers_now


def run_name() -> str:
    """Name a run: ``calibrate safety with lexical@1``."""
    given = parameters_of_run()
    judge = given.get("judge")
    known = JudgeIdentity(**judge) if isinstance(judge, dict) else judge or "given scores"
    return f"calibrate {name_of_instrument(given.get('instrument'))} with {known}"


@flow(name="calibrate", flow_run_name=run_name, persist_result=False)
def calibrate(
    golden: str | list[str],
    instrument: str | None = None,
    judge: JudgeIdentity | None = None,
    scores: str | list[str] | None = None,
    promote: bool = False,
    because: str | None = None,
    fresh: bool = False,
    accept_judge: bool = False,
    confidence_level: float | None = None,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written:
    """Calibrate a judge on a golden set; the record goes to the archive and to MLflow.

    Parameters
    ----------
    golden : str or list of str
        ``[READER:]PATH`` or ``s3://`` addresses of the golden set.
    instrument : str, optional
        A YAML file, or the name of one in ``deployments/specs``.
    judge : JudgeIdentity, optional
        The judge that is to run on the golden set's texts, when there are no scores. A judge of another version or
        fingerprint is refused, also where only its answers tell the version.
    scores : str or list of str, optional
        The judge's scores on the golden set (or a detector's decisions, for an instrument of that kind).
    fresh : bool
        Ask the judge anew, whatever it answered before: for one that changed under its old fingerprint. Its answers
        are kept as the scores that were calibrated.
    promote, because, accept_judge, confidence_level, output, tracking_uri
        As on the command line.
    """
    spec = instrument_named(instrument)
    if not listed(golden):
        raise InputError.of("calibrate", "no golden set is named, so nothing can be calibrated")
    progress = ProgressArtifact(orchestrated(steps.FIND, lambda: rows_of(listed(golden))), "texts judged")
    given, named = listed(scores), None if scores else _registered(judge)
    wanted = UNKNOWN if judge is None else judge.version
    if fresh and named is not None:
        given, named = [_answers(named, wanted, listed(golden), progress)], None
    written = run_calibration(
        listed(golden),
        given,
        named,
        spec,
        confidence_level=confidence_level,
        accept_judge=accept_judge,
        output=None if output is None else place_of(output),
        progress=progress,
        run=orchestrated,
        reuse=True,
        wanted=wanted,
    )
    progress.finish()
    wish = promotion(because) if promote else None
    run, links = tracked_run(written, tracking_uri, register=instrument is not None, promotion=wish)
    show_record(written.document, [f"record: {plain_text(written.path)}", *links])
    if run is not None and run.registered is not None:
        made = {"calibration": run.registered.uri, "record": written.document["id"], "instrument": run.registered.name}
        announce(CALIBRATION_MADE, f"assay.calibration.{run.registered.name}", made)
    return written


def _answers(name: str, wanted: str, golden: list[str], progress: ProgressArtifact) -> str:
    """Ask a registered judge about the golden texts as if for the first time."""
    files = orchestrated(steps.FIND, lambda: find_inputs(golden, reader_names()))
    return orchestrated(steps.JUDGE, lambda: answers_now(load_judge(name), files, progress=progress, wanted=wanted)).uri


def _registered(judge: JudgeIdentity | None) -> str:
    """Name the registered judge that is to run, and see that it is the one that was meant."""
    if judge is None:
        raise InputError.of("calibrate", "neither scores nor a judge to run are given")
    worker = load_judge(judge.name)
    here = JudgeIdentity(name=worker.name, version=worker.version, fingerprint=worker.fingerprint)
    if not judge.agrees_with(here):
        wanted = judge.fingerprint[:12] if judge.fingerprint != UNKNOWN else str(judge)
        raise InputError.of(
            "calibrate", f"judge {wanted} is asked for, but {here} ({here.fingerprint[:12]}) is installed here"
        )
    return judge.name
