"""A watch as a run: the verdict as tags, flips and shifts as metrics, the record; and the series of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from core.records import Document
from tasks.reporting.watch import watch_markdown
from tasks.tracking import facts, runs
from tasks.tracking.connection import connected, experiment_id
from tasks.tracking.outbox import Upload
from tasks.tracking.uris import tracking_uri

_PAGE = 1000


def log_watch(client: Any, upload: Upload) -> runs.Run:
    """Log a watch; a run that is complete stays as it is."""
    document = upload.document
    experiment = experiment_id(client, upload.uri, runs.WATCHES)
    tags = watch_tags(document)
    run = runs.begun(client, experiment, f"watch {facts.judge_name(document)} of {tags['instrument']}", tags)
    if run.finished:
        return run
    content = runs.Content(
        metrics=watch_metrics(document),
        step=int(document["spec"]["look"]),
        parameters=facts.spec_parameters(document),
        tags={"mlflow.note.content": facts.clipped(watch_markdown(document))},
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    runs.log_inputs(client, run.id, document)
    runs.log_files(client, run.id, upload)
    runs.finish(client, run.id)
    return run


def watch_tags(document: Document) -> dict[str, str]:
    """Return what a watch is found by."""
    result = document["result"]
    named = {
        "record.id": document["id"],
        "record.schema": document["schema"],
        "record.created": document["created"],
        "instrument": result["instrument"],
        "calibration.id": result["calibration"],
        "anchors.sha256": (result["anchors"] or {}).get("sha256"),
        "judge.fingerprint": result["judge"]["fingerprint"],
        "fingerprint": result["fingerprint"],
        "verdict": result["verdict"],
        "causes": ", ".join(result["causes"]),
    }
    return {name: facts.clipped(value) for name, value in named.items() if value}


def watch_metrics(document: Document) -> dict[str, float]:
    """Return the share of flipped decisions, the shifts of the composite, and their ends."""
    result = document["result"]
    if result["composite"] is None:
        return {}
    named = {"anchors": result["anchors"]["n"], "flip_rate": result["composite"]["flips"]["rate"]}
    for part in ("positives", "negatives"):
        row = result["composite"][part]
        named |= {f"{part}.{name}": row[name] for name in ("shift", "low", "high", "p_adjusted")}
    named |= {f"{name}.flip_rate": row["flips"]["rate"] for name, row in result["categories"].items()}
    known = {facts.key(name): float(value) for name, value in named.items() if value is not None}
    return dict(list(known.items())[: facts.MAX_METRICS])


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedWatch:
    """A watch that MLflow has."""

    record: str
    run_id: str


def logged_watches(calibration_id: str, anchors: str, option: str | None = None) -> list[LoggedWatch]:
    """Return the watches of a calibration on the same anchors, in the order of time.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    uri = tracking_uri(option)
    if uri is None:
        return []
    with connected(uri) as client:
        found = client.get_experiment_by_name(runs.WATCHES)
        if found is None:
            return []
        wanted = (
            f"tags.`calibration.id` = '{calibration_id}' and tags.`anchors.sha256` = '{anchors}' "
            "and attributes.status = 'FINISHED'"
        )
        answer = client.search_runs([found.experiment_id], wanted, max_results=_PAGE)
        logged: list[Any] = list(answer)
        while answer.token:
            answer = client.search_runs([found.experiment_id], wanted, max_results=_PAGE, page_token=answer.token)
            logged += answer
    # Records tell seconds, runs milliseconds; what an outage held back has its place by the former.
    logged.sort(key=lambda run: (run.data.tags["record.created"], run.info.start_time, run.data.tags["record.id"]))
    return [LoggedWatch(record=run.data.tags["record.id"], run_id=run.info.run_id) for run in logged]
