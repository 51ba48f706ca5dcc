"""A plan as a run: what was assumed, the sizes, the figure, the record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.records import Document
from tasks.reporting.markdown import plan_markdown
from tasks.tracking import facts, runs
from tasks.tracking.connection import experiment_id
from tasks.tracking.outbox import Upload


def log_plan(client: Any, upload: Upload) -> runs.Run:
    """Log a plan; a run that is complete stays as it is."""
    document = upload.document
    experiment = experiment_id(client, upload.uri, runs.PLANS)
    result = document["result"]
    run = runs.begun(
        client, experiment, f"plan {result['goal'].replace('_', ' ')} {result['target']:g}", facts.plan_tags(document)
    )
    if run.finished:
        return run
    content = runs.Content(
        metrics=facts.plan_metrics(document),
        parameters=facts.spec_parameters(document),
        tags={"mlflow.note.content": facts.clipped(plan_markdown(document))},
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    runs.log_inputs(client, run.id, document)
    runs.log_files(client, run.id, upload, lambda folder: _draw(document, folder))
    runs.finish(client, run.id)
    return run


def _draw(document: Document, folder: Path) -> None:
    from tasks.reporting.plan_figures import plan_figures

    folder.mkdir()
    for name, figure in plan_figures(document).items():
        figure.savefig(folder / f"{name}.png", dpi=110)
