"""A comparison, or a series of releases, as a run that names the runs of its measurements."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.records import Document
from tasks.reporting.comparison import quantities, release_name
from tasks.reporting.markdown import comparison_markdown
from tasks.tracking import facts, runs
from tasks.tracking.connection import experiment_id
from tasks.tracking.outbox import Upload

METRICS_A_QUANTITY = 4


def log_comparison(client: Any, upload: Upload) -> runs.Run:
    """Log a comparison; a run that is complete stays as it is."""
    document = upload.document
    result = document["result"]
    names = [facts.clipped(result[side]["target"] or side) for side in ("baseline", "candidate")]
    measured = {
        item["role"]: item["sha256"] for item in document["inputs"] if item["role"] in ("baseline", "candidate")
    }
    own = {
        **_tags(document),
        "kind": "comparison",
        "instrument": result["instrument"],
        "verdict": result["composite"]["verdict"],
        "paired": str(result["paired"]).lower(),
        "same_calibration": str(result["same_calibration"]).lower(),
        "fragile": str(bool((result["composite"]["delta_j_guard"] or {}).get("fragile"))).lower(),
        **{side: measured[side] for side in measured},
        **{f"{side}.target": result[side]["target"] for side in measured if result[side]["target"]},
        "calibration.id": result["candidate"]["calibration"]["id"],
    }
    run = runs.begun(
        client, _experiment(client, upload), f"{names[0]} to {names[1]}", _clipped(own),
        lambda: _runs_of(client, upload, measured),
    )  # fmt: skip
    if run.finished:
        return run
    metrics, left_out = comparison_metrics(result)
    content = runs.Content(
        metrics=metrics,
        parameters=facts.spec_parameters(document),
        tags={
            **({"categories.left_out": facts.clipped(", ".join(left_out))} if left_out else {}),
            "mlflow.note.content": facts.clipped(comparison_markdown(document)),
        },
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    return _finished(client, run, upload)


def comparison_metrics(result: Mapping[str, Any]) -> tuple[facts.Metrics, list[str]]:
    """Return difference, low, high and p_adjusted of as many quantities as fit, and the names of the others."""
    metrics: facts.Metrics = {}
    left_out: list[str] = []
    for name, row in quantities(result).items():
        interval = row["interval"] or {}
        named = {
            "difference": row["difference"], "low": interval.get("low"), "high": interval.get("high"),
            "p_adjusted": row["p_adjusted"],
        }  # fmt: skip
        if left_out or len(metrics) + METRICS_A_QUANTITY > facts.MAX_METRICS:
            left_out.append(name)
        else:
            metrics |= {facts.key(f"{name}.{key}"): float(v) for key, v in named.items() if v is not None}
    return metrics, left_out


def log_series(client: Any, upload: Upload) -> runs.Run:
    """Log a series: one step a release, and names of metrics that differ on the two sides of a break."""
    document = upload.document
    series = document["result"]["points"]
    measured = {f"release.{i}": point["measurement"] for i, point in enumerate(series)}
    own = {
        **_tags(document),
        "kind": "series",
        "releases": str(len(series)),
        "breaks": str(sum(point["break_before"] is not None for point in series)),
        **{f"{name}.target": release_name(point) for name, point in zip(measured, series, strict=True)},
    }
    run = runs.begun(
        client, _experiment(client, upload), f"series of {len(series)} releases to {release_name(series[-1])}",
        _clipped(own), lambda: _runs_of(client, upload, measured),
    )  # fmt: skip
    if run.finished:
        return run
    timestamp = facts.milliseconds(document["created"])
    note = {"mlflow.note.content": facts.clipped(comparison_markdown(document))}
    runs.log(
        client, run.id,
        runs.Content(metrics={}, parameters=facts.spec_parameters(document), tags=note),
        timestamp,
    )  # fmt: skip
    for i, point in enumerate(series):
        # A line is drawn through the steps of one name: a stretch of one instrument has its own.
        runs.log(client, run.id, runs.Content(metrics=_rates_of(point), step=i), timestamp)
    return _finished(client, run, upload)


def _rates_of(point: Mapping[str, Any]) -> facts.Metrics:
    """Return the rates of a release: the composite's, and those of as many categories as fit."""
    metrics: facts.Metrics = {}
    for name, rate in {"composite": point["composite"], **point["categories"]}.items():
        named = {"prevalence": rate["value"]}
        named |= {f"prevalence_{end}": (rate["interval"] or {}).get(end) for end in ("low", "high")}
        if len(metrics) + len(named) <= facts.MAX_METRICS:
            metrics |= {
                facts.key(f"{name}.{key}.segment-{point['segment']}"): float(value)
                for key, value in named.items()
                if value is not None
            }
    return metrics


def _finished(client: Any, run: runs.Run, upload: Upload) -> runs.Run:
    runs.log_inputs(client, run.id, upload.document)
    runs.log_files(client, run.id, upload, lambda folder: _draw(upload.document, folder))
    runs.finish(client, run.id)
    return run


def _experiment(client: Any, upload: Upload) -> str:
    return experiment_id(client, upload.uri, runs.COMPARISONS)


def _tags(document: Document) -> dict[str, str]:
    return {
        "record.id": document["id"],
        "record.schema": document["schema"],
        "record.created": document["created"],
    }


def _clipped(tags: Mapping[str, Any]) -> dict[str, str]:
    return {name: facts.clipped(value) for name, value in tags.items() if value}


def _runs_of(client: Any, upload: Upload, measured: Mapping[str, str]) -> dict[str, str]:
    """Find the runs of the measurements, where they were logged here."""
    experiment = experiment_id(client, upload.uri, runs.MEASUREMENTS)
    found = {name: runs.find_run(client, experiment, {"record.id": record}) for name, record in measured.items()}
    return {f"{name}.run_id": run.info.run_id for name, run in found.items() if run is not None}


def _draw(document: Document, folder: Path) -> None:
    from tasks.reporting.comparison_figures import comparison_figures

    folder.mkdir()
    for name, figure in comparison_figures(document).items():
        figure.savefig(folder / f"{name}.png", dpi=110)
