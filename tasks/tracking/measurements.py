"""A measurement as a run, with a child run a category, and its point on the instrument's timeline.

MLflow draws a line through the steps of one run. So the longitudinal view is a run of its own, the timeline: one for
each calibration of an instrument, to which every release adds a step. Steps count releases over all calibrations of
the instrument, so that several timelines share one axis, and a line ends where figures stop being comparable.
"""

from __future__ import annotations

import re
from typing import Any

from core.records import Document
from tasks.tracking import facts, runs
from tasks.tracking.connection import experiment_id
from tasks.tracking.outbox import Upload

RELEASE, CATEGORY, TIMELINE = "release", "category", "timeline"
"""The kinds of runs in this experiment, told apart by the tag ``kind``."""


def log_measurement(client: Any, upload: Upload) -> runs.Run:
    """Log a measurement record; a run that is complete stays as it is."""
    document = upload.document
    experiment = experiment_id(client, upload.uri, runs.MEASUREMENTS)
    tags = {**facts.tags(document), "kind": RELEASE}
    run = runs.begun(
        client, experiment, f"measure {tags.get('target', tags['instrument'])}", tags,
        lambda: _numbered(client, experiment, tags) | _calibration_run(client, upload),
    )  # fmt: skip
    if run.finished:
        return run
    ordinal = int(run.tags["release.ordinal"])
    headline = facts.measurement_metrics(document)
    content = runs.Content(
        metrics=headline.metrics,
        step=ordinal,
        parameters=facts.parameters(document),
        tags={**runs.left_out_tags(headline), "mlflow.note.content": facts.measurement_text(document)},
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    runs.log_inputs(client, run.id, document)
    runs.log_files(client, run.id, upload)
    _log_categories(client, experiment, run, document, ordinal)
    _log_timeline(client, experiment, tags, headline, ordinal, document)
    runs.finish(client, run.id)
    return run


def _calibration_run(client: Any, upload: Upload) -> dict[str, str]:
    calibration = upload.document["result"]["calibration"]["id"]
    if not calibration:
        return {}
    experiment = experiment_id(client, upload.uri, runs.CALIBRATIONS)
    found = runs.find_run(client, experiment, {"record.id": calibration})
    return {} if found is None else {"calibration.run_id": found.info.run_id}


def _numbered(client: Any, experiment: str, tags: dict[str, str]) -> dict[str, str]:
    """Number a release by the earlier releases of its instrument; one that was measured before keeps its number."""
    of_instrument = {"kind": RELEASE, "instrument": tags["instrument"]}
    latest = runs.find_run(client, experiment, of_instrument)
    n_releases = 0 if latest is None else int(latest.data.tags["release.count"])
    same = None
    if latest is not None and "target" in tags:
        same = runs.find_run(client, experiment, {**of_instrument, "target": tags["target"]})
    if same is not None:
        return {"release.ordinal": same.data.tags["release.ordinal"], "release.count": str(n_releases)}
    return {"release.ordinal": str(n_releases), "release.count": str(n_releases + 1)}


def _log_categories(client: Any, experiment: str, parent: runs.Run, document: Document, ordinal: int) -> None:
    """Log one child run a category: plain metric names, so that categories can be set side by side."""
    kept = ("instrument", "target", "calibration.id", "judge.fingerprint", "release.ordinal")
    shared = {tag: parent.tags[tag] for tag in kept if tag in parent.tags} | {"mlflow.parentRunId": parent.id}
    for name, row in facts.parts(document).items():
        wanted = {"mlflow.parentRunId": parent.id, "category": name}
        found = runs.find_run(client, experiment, wanted) if parent.resumed else None
        own = {
            **shared,
            "kind": CATEGORY,
            "category": name,
            "status": (row.get("prevalence") or {}).get("status", "diagnostic"),
        }
        run_id = runs.created(client, experiment, name, own) if found is None else found.info.run_id
        counts = {field: float(row[field]) for field in ("n_units", "n_flagged")}
        content = runs.Content(metrics={**facts.rate_metrics(row), **counts}, step=ordinal)
        runs.log(client, run_id, content, facts.milliseconds(document["created"]))
        runs.finish(client, run_id)


def _log_timeline(
    client: Any, experiment: str, tags: dict[str, str], headline: facts.Headline, ordinal: int, document: Document
) -> None:
    """Add a release's step to the timeline of its instrument and calibration."""
    calibration = tags.get("calibration.id", "none")
    wanted = {"kind": TIMELINE, "instrument": tags["instrument"], "calibration.id": calibration}
    found = runs.find_run(client, experiment, wanted)
    name = f"timeline of {tags['instrument']}" + (f", calibration {calibration[:8]}" if calibration != "none" else "")
    run_id = runs.created(client, experiment, name, wanted) if found is None else found.info.run_id
    release = tags.get("target", tags["record.id"][:12])
    steps = {**({} if found is None else found.data.tags), f"release.{ordinal}": release}
    content = runs.Content(
        metrics=headline.metrics,
        step=ordinal,
        tags={f"release.{ordinal}": release, "mlflow.note.content": _timeline_text(steps)},
    )
    runs.log(client, run_id, content, facts.milliseconds(document["created"]))
    runs.finish(client, run_id)


def _timeline_text(tags: dict[str, str]) -> str:
    """Say which release each step is."""
    numbered = sorted((int(tag.removeprefix("release.")), tags[tag]) for tag in tags if re.match(r"release\.\d+$", tag))
    rows = [f"| {step} | {facts.cell(release)} |" for step, release in numbered[-100:]]
    head = ["Each step is a release measured with this calibration.", "", "| step | release |", "|---:|---|"]
    return facts.clipped("\n".join([*head, *rows]))
