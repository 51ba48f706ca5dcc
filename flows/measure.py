"""Flow ``measure``: a release with the calibrated judge, by hand, on a schedule, or because a model was released."""

from __future__ import annotations

from typing import Literal

from prefect import flow
from prefect.logging import get_run_logger

from core.errors import AssayError, InputError, UnreachableError
from core.instrument.spec import InstrumentSpec, JudgeIdentity
from flows.orchestration import (
    ProgressArtifact,
    announce,
    gated,
    instrument_named,
    listed,
    orchestrated,
    parameters_of_run,
    reference_of,
    show_record,
    tracked_run,
)
from flows.pipelines.measurement import run_measurement
from tasks import steps
from tasks.archive import Written
from tasks.champion import Champion, champion_of
from tasks.events import BASELINE_LABEL, JUDGE_CHANGED, MEASUREMENT_MADE, emit
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of
from tasks.tables import rows_of
from tasks.tracking.baselines import baseline_of
from tasks.workers import workers_or


def run_name() -> str:
    """Name a run: ``measure guard-x@1.2``."""
    return f"measure {parameters_of_run().get('target') or 'production'}"


@flow(name="measure", flow_run_name=run_name, persist_result=False)
def measure(
    scores: str | list[str],
    instrument: str | None = None,
    calibration: str | None = None,
    certificate: str | None = None,
    target: str | None = None,
    baseline: str | None = None,
    policy: str | None = None,
    golden: str | list[str] | None = None,
    reported: str | list[str] | None = None,
    labels: str | list[str] | None = None,
    allow_unmatched: bool = False,
    attempts: Literal["each", "first", "last", "any"] | None = None,
    accept_judge: bool = False,
    confidence_level: float | None = None,
    workers: int | str | None = None,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written:
    """Measure a release; the record goes to the archive and to MLflow.

    Without a calibration the champion of the instrument is taken. Where there is none, or it belongs to another judge,
    the raw rate alone is recorded, and the judge is announced as changed. Detections are corrected only with a
    calibration that is named.

    Parameters
    ----------
    scores : str or list of str
        ``[READER:]PATH`` or ``s3://`` addresses of the scores (or detections, for an instrument of that kind).
    instrument : str, optional
        A YAML file, or the name of one in ``deployments/specs``.
    calibration : str, optional
        A reference to a calibration.
    certificate : str, optional
        A reference to its certificate; ``none`` leaves it out, and without one it is looked for.
    target : str, optional
        The system that was released, ``name@version``.
    baseline : str, optional
        The release before, ``name@version``, or a reference to its measurement: what is announced as made then starts
        the comparison of the two.
    policy : str, optional
        A YAML file, or the name of one in ``deployments/policies``: the gate, which with a baseline waits for the
        comparison.
    golden : str or list of str, optional
        The golden set to calibrate a changed judge on; passed on with the announcement.
    reported : str or list of str, optional
        Rates that a detector reports itself, to compare.
    labels : str or list of str, optional
        Labels of a random part of these scores, to hold the golden set against. Without a calibration they are left
        out, and the run says so.
    allow_unmatched : bool
        Leave out labels of traces that are not in production.
    workers : int or str, optional
        Processes that read and count, by default this one; or a Dask scheduler, ``tcp://HOST:PORT``.
    attempts, accept_judge, confidence_level, output, tracking_uri
        As on the command line.
    """
    spec = instrument_named(instrument)
    if not listed(scores):
        raise InputError.of("measure", "no scores are named, so nothing can be measured")
    found = Champion()
    if calibration is None and spec.kind == "scores":
        found = _champion(spec, listed(scores), tracking_uri)
    calibrated = calibration or found.reference
    if listed(labels) and calibrated is None:
        get_run_logger().warning("labels are left out: there is no calibration to hold them against")
    progress = ProgressArtifact(orchestrated(steps.FIND, lambda: rows_of(listed(scores))), "rows read")
    written = run_measurement(
        listed(scores),
        calibration=calibrated,
        certificate=certificate,
        instrument=spec,
        uncalibrated=found.why_not,
        reported=listed(reported),
        labels=listed(labels) if calibrated is not None else (),
        allow_unmatched=allow_unmatched,
        target=target,
        attempts=attempts,
        accept_judge=accept_judge,
        confidence_level=confidence_level,
        output=None if output is None else place_of(output),
        progress=progress,
        workers=workers_or(workers, 1),
        tracking_uri=tracking_uri,
        tell=get_run_logger().warning,
        run=orchestrated,
        reuse=True,
    )
    progress.finish()
    run, links = tracked_run(written, tracking_uri)
    show_record(written.document, [f"record: {plain_text(written.path)}", *links])
    before = _baseline(baseline, written, tracking_uri)
    _announce_made(written, reference_of(written, run), before, policy)
    if policy and before is None:
        gated([str(written.path)], policy, written.document["result"]["target"], tracking_uri)
    if found.why_not in ("no_champion", "other_judge"):
        _announce(written, instrument or spec.name, listed(golden) or list(found.golden))
    return written


def _champion(spec: InstrumentSpec, scores: list[str], tracking_uri: str | None) -> Champion:
    """Find the champion; an outage of MLflow does not stop the run, which then records the raw rate alone."""
    try:
        found = orchestrated(steps.CHOOSE, lambda: champion_of(spec, scores, tracking_uri))
    except UnreachableError as error:
        found = Champion(why_not="champion_unknown", detail=str(error))
    if found.why_not is not None:
        get_run_logger().warning("measured without a calibration: %s", found.detail)
    return found


def _baseline(baseline: str | None, written: Written, tracking_uri: str | None) -> str | None:
    """Find the baseline's measurement; None, with a warning, where there is nothing to compare."""
    if not baseline:
        return None
    result = written.document["result"]
    reason = "this measurement has no corrected rate"
    if result["calibration"]["source"] != "none":
        try:
            return orchestrated(steps.FIND_RELEASES, lambda: baseline_of(baseline, written.document, tracking_uri))
        except AssayError as error:
            reason = str(error)
    get_run_logger().warning("nothing is compared with %s: %s", baseline, reason)
    return None


def _announce_made(written: Written, reference: str, baseline: str | None, policy: str | None) -> None:
    """Say that a measurement was made; one that has a baseline has a label by which the comparison is started."""
    result = written.document["result"]
    payload = {
        "measurement": reference, "record": written.document["id"], "target": result["target"],
        "instrument": result["instrument"], "baseline": baseline, "policy": policy,
    }  # fmt: skip
    labels = {} if baseline is None else {BASELINE_LABEL: baseline}
    announce(MEASUREMENT_MADE, f"assay.measurement.{result['instrument']}", payload, labels)


def _announce(written: Written, instrument: str, golden: list[str]) -> None:
    """Say that this judge needs a calibration; the measurement stands whether or not anybody hears it."""
    judge = JudgeIdentity(**written.document["result"]["judge"])
    payload = {
        "judge": {"name": judge.name, "version": judge.version, "fingerprint": judge.fingerprint},
        "instrument": instrument,
        "golden": golden,
    }
    try:
        emit(JUDGE_CHANGED, f"assay.judge.{judge.name}", payload)
    except AssayError as error:
        get_run_logger().warning("the judge could not be announced as changed: %s", error)
