"""Flow ``plan``: how many traces and labels a goal takes."""

from __future__ import annotations

from typing import Any

from prefect import flow

from flows.orchestration import orchestrated, parameters_of_run, show_record, tracked
from flows.pipelines.planning import run_plan
from tasks.archive import Written
from tasks.reporting.markdown import plain_text
from tasks.specs import build_plan
from tasks.storage import place_of


def run_name() -> str:
    """Name a run: ``plan half-width=0.02``."""
    return f"plan {parameters_of_run().get('goal')}"


@flow(name="plan", flow_run_name=run_name, persist_result=False)
def plan(
    goal: str,
    calibration: str | None = None,
    asked: dict[str, Any] | None = None,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written:
    """Plan; the record goes to the archive and to MLflow.

    Parameters
    ----------
    goal : str
        ``half-width=0.02``, ``lod=0.05`` or ``difference=0.03``.
    calibration : str, optional
        A reference to the calibration whose judge and golden set are planned with.
    asked : dict, optional
        Fields of the plan's spec, such as ``{"prevalence": 0.05, "n_positive": 200}``.
    output, tracking_uri
        As on the command line.
    """
    written = run_plan(
        build_plan(goal, asked or {}),
        calibration=calibration or None,
        output=None if output is None else place_of(output),
        tracking_uri=tracking_uri,
        run=orchestrated,
        reuse=True,
    )
    show_record(written.document, [f"record: {plain_text(written.path)}", *tracked(written, tracking_uri)])
    return written
