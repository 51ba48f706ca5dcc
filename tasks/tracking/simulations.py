"""A simulation as a run: parameters, coverage, figures, data sets, record.

A certificate is also told where people choose a calibration: on its run, and on its version in the registry.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.records import Document
from tasks.archive import is_certificate
from tasks.reporting.markdown import simulation_markdown
from tasks.tracking import facts, runs
from tasks.tracking.connection import experiment_id
from tasks.tracking.outbox import Upload


def log_simulation(client: Any, upload: Upload) -> runs.Run:
    """Log a simulation record; a run that is complete stays as it is."""
    document = upload.document
    experiment = experiment_id(client, upload.uri, runs.SIMULATIONS)
    tags = facts.simulation_tags(document)
    if is_certificate(document):
        tags["kind"] = runs.CERTIFICATE
    run = runs.begun(client, experiment, _name(document), tags)
    if run.finished:
        return run
    content = runs.Content(
        metrics=facts.simulation_metrics(document),
        parameters=facts.simulation_parameters(document),
        tags={"mlflow.note.content": facts.clipped(simulation_markdown(document))},
    )
    runs.log(client, run.id, content, facts.milliseconds(document["created"]))
    runs.log_inputs(client, run.id, document)
    runs.log_files(client, run.id, upload, lambda folder: _draw(document, folder))
    if is_certificate(document):
        _tell_calibration(client, upload)
    runs.finish(client, run.id)
    return run


def _name(document: Document) -> str:
    if is_certificate(document):
        certified = document["result"]["calibration"]
        return f"certificate of {certified['instrument']}, calibration {certified['id'][:8]}"
    return f"simulate stage {document['result']['stage']}"


def _draw(document: Document, folder: Path) -> None:
    from tasks.reporting.simulation_figures import simulation_figures

    folder.mkdir()
    for name, figure in simulation_figures(document).items():
        figure.savefig(folder / f"{name}.png", dpi=110)


def _tell_calibration(client: Any, upload: Upload) -> None:
    """Tag the calibration's run and its versions in the registry, where they are there."""
    calibration = upload.document["result"]["calibration"]["id"]
    tags = facts.certificate_tags(upload.id, upload.document["result"])
    run = runs.find_run(client, experiment_id(client, upload.uri, runs.CALIBRATIONS), {"record.id": calibration})
    if run is not None:
        for name, value in tags.items():
            client.set_tag(run.info.run_id, name, value)
    for version in client.search_model_versions(f"tags.`record.id` = '{calibration}'"):
        for name, value in tags.items():
            client.set_model_version_tag(version.name, version.version, name, value)
