"""The measurement of an earlier release, by the release's name."""

from __future__ import annotations

import re
from typing import Any

from core.errors import InputError
from core.records import Document
from tasks.archive import records_folder
from tasks.storage import exists
from tasks.tracking import runs
from tasks.tracking.connection import connected
from tasks.tracking.references import is_reference
from tasks.tracking.uris import tracking_uri

_FILE = re.compile(r".*\.json|s3://.*")


def baseline_of(baseline: str, measurement: Document, option: str | None = None) -> str:
    """Find the measurement that a new one is to be compared with.

    Parameters
    ----------
    baseline : str
        A release, ``name@version``, or a reference to its measurement.
    measurement : dict
        The new record: one of the same instrument is found, and of the same calibration rather than of another.
    option : str, optional
        MLflow's address, as in `tracking_uri`.

    Returns
    -------
    str
        A reference.

    Raises
    ------
    InputError
        There is no such measurement.
    UnreachableError
        MLflow cannot be reached.
    """
    if is_reference(baseline) or _FILE.fullmatch(baseline) or exists(records_folder() / f"{baseline}.json"):
        return baseline
    uri = tracking_uri(option)
    if uri is None:
        raise InputError.of(baseline, "a release is looked up in MLflow, and tracking is switched off")
    result = measurement["result"]
    wanted = {"target": baseline, "instrument": result["instrument"], "kind": "release"}
    with connected(uri) as client:
        experiment = client.get_experiment_by_name(runs.MEASUREMENTS)
        for more in ({"calibration.id": result["calibration"]["id"]}, {}):
            run: Any = experiment and runs.find_run(client, experiment.experiment_id, {**wanted, **more}, finished=True)
            if run and run.data.tags.get("calibration.source") != "none":
                return f"runs:/{run.info.run_id}"
    raise InputError.of(baseline, f"has no measurement with a calibration of {result['instrument']} in MLflow")
