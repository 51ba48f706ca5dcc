"""Flow ``watch_judge``: is the judge still the one that was calibrated? On a schedule, since events can be lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import flow
from prefect.artifacts import create_markdown_artifact
from prefect.logging import get_run_logger

from core.errors import UnreachableError
from core.instrument.spec import UNKNOWN, InstrumentSpec, JudgeIdentity
from core.instrument.watched import ANCHORS, LEVEL, TOLERANCE, WatchSpec
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
from flows.pipelines.watching import Watch, held_against, run_watch
from tasks import steps
from tasks.archive import Written
from tasks.champion import champion_reference
from tasks.events import CALIBRATION_MADE
from tasks.recalibration import start_calibration
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of
from tasks.tracking.promotions import Waiting, waiting_challengers
from tasks.watches import change_key


def run_name() -> str:
    """Name a run: ``watch the judge of safety``."""
    return f"watch the judge of {name_of_instrument(parameters_of_run().get('instrument'))}"


@flow(name="watch_judge", flow_run_name=run_name, persist_result=False)
def watch_judge(
    instrument: str,
    calibration: str | None = None,
    scores: str | list[str] | None = None,
    judge: JudgeIdentity | None = None,
    golden: str | list[str] | None = None,
    anchors: int = ANCHORS,
    tolerance: float = TOLERANCE,
    confidence_level: float = LEVEL,
    recalibrate: bool = True,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written | None:
    """Watch a judge; the record goes to the archive and to MLflow, and a change starts one calibration.

    Without a champion there is nothing to watch: the run ends well, and says so.

    Parameters
    ----------
    instrument : str
        A YAML file, or the name of one in ``deployments/specs``; its champion is watched.
    calibration : str, optional
        A reference to another calibration to watch.
    scores : str or list of str, optional
        The judge's scores on golden traces now. Without them the registered judge is asked about the anchors.
    judge : JudgeIdentity, optional
        Who the judge is now, where it is not registered here and no scores say so.
    golden : str or list of str, optional
        The golden set to calibrate a changed judge on; by default that of the calibration.
    anchors, tolerance, confidence_level
        How many golden traces are compared, the shift that counts as none, and the level of tests and intervals.
    recalibrate : bool
        Whether a change starts a calibration.
    output, tracking_uri
        As on the command line.
    """
    spec = instrument_named(instrument)
    reference = calibration or _champion(spec, tracking_uri)
    if reference is None:
        return None
    asked = WatchSpec(
        anchors=anchors, tolerance=tolerance, confidence_level=confidence_level, error_budget=spec.error_budget
    )
    progress = ProgressArtifact(anchors, "texts judged")
    watched = run_watch(
        reference,
        scores=listed(scores),
        judge=judge,
        spec=asked,
        output=None if output is None else place_of(output),
        progress=progress,
        tracking_uri=tracking_uri,
        tell=get_run_logger().warning,
        run=orchestrated,
    )
    written = watched.written
    progress.finish()
    _, links = tracked_run(written, tracking_uri)
    if recalibrate:
        links += _reconciled(watched, instrument, listed(golden), listed(scores), tracking_uri)
    show_record(written.document, [f"record: {plain_text(written.path)}", *links])
    return written


def _champion(spec: InstrumentSpec, tracking_uri: str | None) -> str | None:
    found = orchestrated(steps.CHOOSE, lambda: champion_reference(spec, tracking_uri))
    if found.reference is None:
        told = f"nothing to watch: {spec.name} has no champion"
        get_run_logger().warning("%s: %s", told, found.detail)
        create_markdown_artifact(plain_text(told), key="watch", description="no champion")
    return found.reference


def _reconciled(
    watched: Watch, instrument: str, golden: list[str], scores: list[str], tracking_uri: str | None
) -> list[str]:
    """Start what an event that was lost should have: the certificate of a challenger, the calibration of a change."""
    result = watched.written.document["result"]
    try:
        waiting = orchestrated(
            steps.CHOOSE, lambda: waiting_challengers(result["instrument"], result["calibration"], tracking_uri)
        )
        lines = [_announced_again(item, result["instrument"]) for item in waiting[-1:] if not item.certified]
        if result["verdict"] == "changed":
            lines += _recalibrated(watched, instrument, golden, scores, waiting, tracking_uri)
    except UnreachableError as error:
        get_run_logger().warning("nothing was started: %s", error)
        return [f"nothing was started: {plain_text(error)}"]
    for line in lines:
        get_run_logger().info(line)
    return [plain_text(line) for line in lines]


def _announced_again(challenger: Waiting, instrument: str) -> str:
    made = {"calibration": challenger.uri, "record": challenger.calibration, "instrument": instrument}
    announce(CALIBRATION_MADE, f"assay.calibration.{instrument}", made)
    return f"{challenger.uri} has no certificate: announced again"


def _recalibrated(
    watched: Watch,
    instrument: str,
    golden: list[str],
    scores: list[str],
    waiting: Sequence[Waiting],
    tracking_uri: str | None,
) -> list[str]:
    """Start one calibration for one change, unless there is or will be one."""
    result = watched.written.document["result"]
    now = JudgeIdentity(**result["judge"])
    outdated: list[Waiting] = []
    for item in reversed(waiting):
        current = _is_current(item, watched, now, tracking_uri)
        if current:
            return [f"{item.uri} is a calibration of this judge already, and waits to be promoted"]
        if current is False:
            outdated.append(item)
    told = [f"{item.uri} was made before this judge changed" for item in outdated]
    if watched.can_calibrate is None:
        nobody = "nobody here can ask this judge; calibrate it with scores on the golden set"
        return [*told, f"no calibration was started: {nobody}"]
    parameters: dict[str, Any] = {
        "golden": golden or list(watched.golden), "instrument": instrument,
        "accept_judge": result["fingerprint"] == "differs",
    }  # fmt: skip
    if watched.can_calibrate == "scores":
        parameters["scores"] = scores
    else:
        parameters |= _asked(result, now, waiting)
    anchors = (result["anchors"] or {}).get("sha256", "")
    key = change_key(result["calibration"], now, anchors, outdated[0].calibration if outdated else "")
    return [*told, orchestrated(steps.START, lambda: start_calibration(parameters, key)).told]


def _is_current(challenger: Waiting, watched: Watch, now: JudgeIdentity, tracking_uri: str | None) -> bool | None:
    """Whether a challenger is of the judge as it is now, or was made before a change that its name does not show.

    None where that cannot be said, and for one of another judge.
    """
    if challenger.judge != now:
        return None
    held = orchestrated(steps.HOLD, lambda: held_against(watched.written, challenger.uri, tracking_uri))
    known = UNKNOWN not in (now.name, now.version, now.fingerprint)
    if held == "same" or (held == "insufficient" and known):
        return True
    return False if held == "changed" else None


def _asked(result: Mapping[str, Any], now: JudgeIdentity, waiting: Sequence[Waiting]) -> dict[str, Any]:
    """Name the judge that is to run, anew where answers from before the change can be kept under its fingerprint."""
    before = {result["calibrated_judge"]["fingerprint"], *(item.judge.fingerprint for item in waiting)}
    return {
        "judge": {"name": now.name, "version": now.version, "fingerprint": now.fingerprint},
        "fresh": result["fingerprint"] != "differs" or now.fingerprint in before,
    }
