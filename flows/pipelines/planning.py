"""a goal, and what is assumed or calibrated -> sizes that reach it, or why none do -> record."""

from __future__ import annotations

from pathlib import Path

from core.instrument.planned import PlanSpec, planned
from tasks import steps
from tasks.archive import Derived, FoundCalibration, Written, find_calibration, sealed
from tasks.cache import Result, result_key, write_result
from tasks.steps import Runner, direct
from tasks.storage import Place

SCHEMA = "assay.plan"

NO_SEED = 0
"""Nothing in a plan is drawn."""


def derive_plan(spec: PlanSpec, found: FoundCalibration | None = None, *, run: Runner = direct) -> Derived:
    """Plan; everything that the record's id covers.

    Parameters
    ----------
    spec : PlanSpec
    found : FoundCalibration, optional
        The calibration whose judge and golden set are planned with.
    run : Runner
    """
    result = run(
        steps.PLAN,
        lambda: planned(spec) if found is None
        else planned(spec, found.calibration, calibration_id=str(found.document["id"])),
    )  # fmt: skip
    inputs = [] if found is None else [found.reference]
    return Derived(schema=SCHEMA, spec=spec, seed=NO_SEED, inputs=inputs, result=result)


def run_plan(
    spec: PlanSpec,
    *,
    calibration: str | None = None,
    output: Place | None = None,
    tracking_uri: str | None = None,
    run: Runner = direct,
    reuse: bool = False,
) -> Written:
    """Plan and write the record.

    Parameters
    ----------
    spec : PlanSpec
    calibration : str, optional
        A reference to the calibration that is planned with.
    output : Path or S3Url, optional
    tracking_uri : str, optional
        Where the reference leads.
    run : Runner
        Who carries out the steps.
    reuse : bool
        Whether a record from the result cache will do.
    """
    found = None if calibration is None else run(steps.CHOOSE, lambda: find_calibration(calibration, tracking_uri))

    def compute(_: Path) -> Result:
        return Result(document=sealed(derive_plan(spec, found, run=run)), outputs=())

    key = result_key(SCHEMA, spec, {}, calibration=found and found.reference) if reuse else None
    return write_result(key, compute, output, run)
