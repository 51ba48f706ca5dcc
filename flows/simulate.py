"""Flow ``simulate``: prove by simulation how often the intervals hold the truth, by hand or for a new calibration."""

from __future__ import annotations

from typing import Any, Literal

from prefect import flow
from prefect.logging import get_run_logger

from core.errors import InputError, UnreachableError
from flows.orchestration import (
    ProgressArtifact,
    instrument_named,
    orchestrated,
    parameters_of_run,
    show_record,
    tracked_run,
)
from flows.pipelines.simulation import run_simulation
from tasks import steps
from tasks.archive import Written, is_certificate
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of
from tasks.tracking.promotions import promote_by_rule
from tasks.workers import available_cores, workers_or


def run_name() -> str:
    """Name a run: ``certify models:/safety/3``, ``simulate stage 2``."""
    given = parameters_of_run()
    stage = given.get("stage") or 3
    if given.get("calibration") and stage == 3:
        return f"certify {given['calibration']}"
    return f"simulate stage {stage}"


@flow(name="simulate", flow_run_name=run_name, persist_result=False)
def simulate(
    calibration: str | None = None,
    instrument: str | None = None,
    stage: Literal[1, 2, 3] | None = None,
    replications: int | None = None,
    seed: int | None = None,
    confidence_level: float | None = None,
    grid: dict[str, Any] | None = None,
    workers: int | str | None = None,
    promote: bool = False,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written:
    """Simulate; the record goes to the archive and to MLflow.

    Parameters
    ----------
    calibration : str, optional
        A reference to the calibration that is to have a certificate (stage 3), or whose judge is simulated.
    instrument : str, optional
        A YAML file, or the name of one in ``deployments/specs``: its level, floor, interval and optimism are simulated.
    stage : {1, 2, 3}, optional
    replications, seed, confidence_level, output, tracking_uri
        As on the command line.
    grid : dict, optional
        Fields of the stage's spec that take the place of its own, such as ``{"prevalences": [0.01, 0.1]}``.
    workers : int or str, optional
        Processes, by default as many as cores are available; or a Dask scheduler, ``tcp://HOST:PORT``.
    promote : bool
        For a certificate: make the calibration its instrument's champion if it is the challenger and the promotion
        rule allows it. Without, a person does.
    """
    if calibration and instrument:
        raise InputError.of("simulate", "name a calibration or an instrument: a calibration has its instrument")
    written = run_simulation(
        stage=stage,
        calibration=calibration or None,
        instrument=instrument_named(instrument) if instrument else None,
        confidence_level=confidence_level,
        replications=replications,
        seed=seed,
        grid=grid,
        workers=workers_or(workers, available_cores()),
        output=None if output is None else place_of(output),
        begin=lambda total: ProgressArtifact(total, "replications"),
        tracking_uri=tracking_uri,
        run=orchestrated,
        reuse=True,
    )
    run, links = tracked_run(written, tracking_uri)
    if promote and run is not None and is_certificate(written.document):
        links += _decided(written, tracking_uri)
    show_record(written.document, [f"record: {plain_text(written.path)}", *links])
    return written


def _decided(written: Written, tracking_uri: str | None) -> list[str]:
    """Apply the promotion rule, and return the line that says what came of it."""
    try:
        decided = orchestrated(steps.DECIDE, lambda: promote_by_rule(written.document, tracking_uri))
    except UnreachableError as error:
        get_run_logger().warning("not decided about promotion: %s", error)
        return ["not decided about promotion: MLflow could not be reached; run the deployment simulate again"]
    if decided is None:
        return []
    get_run_logger().info(decided.told)
    return [plain_text(decided.told)]
