"""Flow ``simulate``: prove by simulation how often the intervals hold the truth, by hand or for a new calibration."""

from __future__ import annotations

from typing import Any, Literal

from prefect import flow

from core.errors import InputError
from flows.orchestration import (
    ProgressArtifact,
    instrument_named,
    orchestrated,
    parameters_of_run,
    show_record,
    tracked,
)
from flows.pipelines.simulation import run_simulation
from tasks.archive import Written
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of
from tasks.workers import available_cores, workers_of


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
        workers=available_cores() if workers is None else workers_of(str(workers)),
        output=None if output is None else place_of(output),
        begin=lambda total: ProgressArtifact(total, "replications"),
        tracking_uri=tracking_uri,
        run=orchestrated,
        reuse=True,
    )
    show_record(written.document, [f"record: {plain_text(written.path)}", *tracked(written, tracking_uri)])
    return written
