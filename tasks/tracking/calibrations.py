"""A calibration as a run: parameters, headline metrics, figures, data sets, record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tasks.tracking import facts, runs
from tasks.tracking.connection import experiment_id
from tasks.tracking.outbox import Upload


def log_calibration(client: Any, upload: Upload) -> runs.Run:
    """Log a calibration record; a run that is complete stays as it is."""
    document = upload.document
    experiment = experiment_id(client, upload.uri, runs.CALIBRATIONS)
    tags = facts.tags(document)
    run = runs.begun(client, experiment, f"calibrate {tags['instrument']} with {facts.judge_name(document)}", tags)
    if run.finished:
        return run
    headline = facts.calibration_metrics(document)
    content = runs.Content(
        metrics=headline.metrics,
        parameters=facts.parameters(document),
        tags={**runs.left_out_tags(headline), "mlflow.note.content": facts.calibration_text(document)},
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    runs.log_inputs(client, run.id, document)
    runs.log_files(client, run.id, upload, lambda folder: _draw(upload, folder))
    runs.finish(client, run.id)
    return run


def _draw(upload: Upload, folder: Path) -> None:
    """Draw the figures; a declared calibration has no scores to draw."""
    maxima = upload.output_files().get("golden_maxima")
    if maxima is not None:
        from tasks.reporting.figures import calibration_figures

        folder.mkdir()
        for name, figure in calibration_figures(upload.document, maxima).items():
            figure.savefig(folder / f"{name}.png", dpi=110)
