"""Flow ``calibrate``: a judge on a golden set, by hand or because the judge has changed."""

from __future__ import annotations

from prefect import flow

from core.errors import InputError
from core.instrument.spec import UNKNOWN, JudgeIdentity
from flows.orchestration import (
    ProgressArtifact,
    instrument_named,
    listed,
    name_of_instrument,
    orchestrated,
    parameters_of_run,
    show_record,
    tracked,
)
from flows.pipelines.calibration import run_calibration
from tasks import steps
from tasks.archive import Written
from tasks.judges import load_judge
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of
from tasks.tables import rows_of
from tasks.tracking import promotion


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
        The judge that is to run on the golden set's texts, when there are no scores.
    scores : str or list of str, optional
        The judge's scores on the golden set (or a detector's decisions, for an instrument of that kind).
    promote, because, accept_judge, confidence_level, output, tracking_uri
        As on the command line.
    """
    spec = instrument_named(instrument)
    if not listed(golden):
        raise InputError.of("calibrate", "no golden set is named, so nothing can be calibrated")
    progress = ProgressArtifact(orchestrated(steps.FIND, lambda: rows_of(listed(golden))), "texts judged")
    written = run_calibration(
        listed(golden),
        listed(scores),
        None if scores else _registered(judge),
        spec,
        confidence_level=confidence_level,
        accept_judge=accept_judge,
        output=None if output is None else place_of(output),
        progress=progress,
        run=orchestrated,
        reuse=True,
    )
    progress.finish()
    wish = promotion(because) if promote else None
    links = tracked(written, tracking_uri, register=instrument is not None, promotion=wish)
    show_record(written.document, [f"record: {plain_text(written.path)}", *links])
    return written


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
