"""An audit as a run: parameters, gaps or metrics with their intervals, figures, data sets, record.

What is not evaluable is absent: never NaN, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from core.records import Document
from tasks.reporting.audit_markdown import audit_markdown
from tasks.reporting.audit_rows import RATES, audited_metrics, parts_of
from tasks.tracking import facts, runs
from tasks.tracking.connection import experiment_id
from tasks.tracking.outbox import Upload


def log_audit(client: Any, upload: Upload) -> runs.Run:
    """Log an audit record; a run that is complete stays as it is."""
    document = upload.document
    experiment = experiment_id(client, upload.uri, runs.AUDITS)
    run = runs.begun(client, experiment, _name(document), audit_tags(document))
    if run.finished:
        return run
    headline = audit_metrics(document)
    content = runs.Content(
        metrics=headline.metrics,
        parameters=facts.spec_parameters(document),
        tags={
            "mlflow.note.content": facts.clipped(audit_markdown(document)),
            **({"metrics.left_out": facts.clipped(", ".join(headline.left_out))} if headline.left_out else {}),
        },
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    runs.log_inputs(client, run.id, document)
    runs.log_files(client, run.id, upload, lambda folder: _draw(document, folder))
    runs.finish(client, run.id)
    return run


def _name(document: Document) -> str:
    return f"audit {document['result'].get('target') or document['spec']['name']}"


def _draw(document: Document, folder: Path) -> None:
    from tasks.reporting.audit_figures import audit_figures

    folder.mkdir()
    for name, figure in audit_figures(document).items():
        figure.savefig(folder / f"{name}.png", dpi=110)


def audit_metrics(document: Document) -> facts.Headline:
    """Return the gaps of each attribute, or the six metrics, with the ends of their intervals, as many as fit."""
    figures = _of_outputs if document["result"]["kind"] == "outputs" else _of_predictions
    metrics: facts.Metrics = {}
    left_out: list[str] = []
    for name, found in figures(document["result"]):
        row = _row(found)
        if left_out or len(metrics) + len(row) > facts.MAX_METRICS:
            left_out.append(name)
        else:
            metrics |= {facts.key(f"{name}{end}"): value for end, value in row.items()}
    return facts.Headline(metrics=metrics, left_out=tuple(left_out))


def _row(found: Mapping[str, Any]) -> facts.Metrics:
    interval = found["interval"] or {}
    named = {"": found["value"], "_low": interval.get("low"), "_high": interval.get("high")}
    return {end: float(value) for end, value in named.items() if value is not None}


def _of_predictions(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the figures that gates read, those of all attributes before finer ones."""
    parts = {name.replace(" ", ""): part for name, part in parts_of(result).items()}
    for name, part in parts.items():
        yield f"{name}.selection_rate.ratio", part["rates"]["selection_rate"]["ratio"]
        if part["equalized_odds"] is not None:
            yield f"{name}.equalized_odds", part["equalized_odds"]
    for name, part in parts.items():
        for rate in RATES:
            if rate in part["rates"]:
                yield f"{name}.{rate}.difference", part["rates"][rate]["difference"]
        if part["worst_ece"] is not None:
            yield f"{name}.worst_ece", part["worst_ece"]


def _of_outputs(result: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    yield from audited_metrics(result).items()


def audit_tags(document: Document) -> dict[str, str]:
    """Return what an audit is found by; human review is told for outputs, where it is known."""
    result = document["result"]
    outputs = result["kind"] == "outputs"
    named = {
        "record.id": document["id"],
        "record.schema": document["schema"],
        "record.created": document["created"],
        "kind": result["kind"],
        "audit": document["spec"]["name"],
        "target": result.get("target"),
        "human_review": str(result["human_review"]).lower() if outputs else None,
        "failed": ", ".join(result["independence"]["failed"]) if outputs else None,
    }
    return {name: facts.clipped(value) for name, value in named.items() if value}
