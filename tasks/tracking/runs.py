"""One run a record: found again by the record's id, so that logging twice makes one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.records import Document
from tasks.archive import dumped
from tasks.storage import is_s3
from tasks.tracking import facts
from tasks.tracking.outbox import Upload, user

CALIBRATIONS, SIMULATIONS, MEASUREMENTS = "assay/calibration", "assay/simulation", "assay/measurement"
COMPARISONS, PLANS = "assay/comparison", "assay/plan"
AUDITS = "assay/audit"
WATCHES = "assay/watch"
CERTIFICATE = "certificate"
"""The tag ``kind`` of a simulation that is about one calibration."""

RECORD_FOLDER, RECORD_FILE = "record", "record.json"

_A_BATCH = 100
"""MLflow takes at most so many parameters or tags at once."""

_MAX_DATASETS = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """The run of a record.

    Attributes
    ----------
    id : str
    tags : dict
    resumed, finished : bool
        Whether an earlier upload of the same record had begun it, and come to its end.
    """

    id: str
    tags: Mapping[str, str]
    resumed: bool = False
    finished: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What goes into a run in one batch."""

    metrics: Mapping[str, float]
    step: int = 0
    parameters: Mapping[str, str] | None = None
    tags: Mapping[str, str] | None = None


def find_run(client: Any, experiment: str, wanted: Mapping[str, str], *, finished: bool = False) -> Any:
    """Return the newest run with all these tags, or None; on demand only one that is complete."""
    conditions = " and ".join(f"tags.`{name}` {equal_to(value)}" for name, value in wanted.items())
    if finished:
        conditions += " and attributes.status = 'FINISHED'"
    found = client.search_runs(
        [experiment], filter_string=conditions, max_results=1, order_by=["attributes.start_time DESC"]
    )
    return found[0] if found else None


def equal_to(value: str) -> str:
    """Compare with a text in a filter, which has no escapes: a quote in it takes the other kind, or any character."""
    if "'" not in value:
        return f"= '{value}'"
    return f'= "{value}"' if '"' not in value else f"LIKE '{value.replace(chr(39), '_')}'"


def begun(
    client: Any, experiment: str, name: str, tags: Mapping[str, str], more: Callable[[], Mapping[str, str]] = dict
) -> Run:
    """Find the run of a record, or begin it, with those tags in addition that `more` finds out."""
    found = find_run(client, experiment, {"record.id": tags["record.id"]})
    if found is not None:
        return Run(id=found.info.run_id, tags=found.data.tags, resumed=True, finished=found.info.status == "FINISHED")
    tags = {**tags, **more()}
    return Run(id=created(client, experiment, name, tags), tags=tags)


def created(client: Any, experiment: str, name: str, tags: Mapping[str, str]) -> str:
    """Begin a run; assay says itself who made it, since MLflow does so only for its own global run."""
    made_by = {"mlflow.user": user(), "mlflow.source.name": "assay", "mlflow.source.type": "LOCAL"}
    return str(client.create_run(experiment, run_name=name, tags={**made_by, **tags}).info.run_id)


def log(client: Any, run_id: str, content: Content, timestamp: int) -> None:
    """Log metrics, parameters and tags in as few calls as MLflow takes.

    All have the record's own time: the same figure logged again is then the same row, not a second one.
    """
    from mlflow.entities import Metric, Param, RunTag

    metrics = [Metric(name, value, timestamp, content.step) for name, value in content.metrics.items()]
    parameters = [Param(name, value) for name, value in (content.parameters or {}).items()]
    tags = [RunTag(name, value) for name, value in (content.tags or {}).items()]
    first, *others = list(_chunks(parameters)) or [()]
    client.log_batch(run_id, metrics=metrics, params=first, tags=tags)
    for chunk in others:
        client.log_batch(run_id, params=chunk)


def _chunks(items: Sequence[Any]) -> Iterator[Sequence[Any]]:
    for start in range(0, len(items), _A_BATCH):
        yield items[start : start + _A_BATCH]


def log_inputs(client: Any, run_id: str, document: Document) -> None:
    """Name the record's inputs as data sets; MLflow's digest is short, so the whole sha256 is a tag."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = [
        DatasetInput(
            Dataset(
                name=_dataset_name(item),
                digest=item["sha256"][:12],
                source_type="s3" if is_s3(item["uri"]) else "local",  # MLflow has no type for references
                source=json.dumps({"uri": item["uri"]}),
                profile=None if item.get("rows") is None else json.dumps({"num_rows": item["rows"]}),
            ),
            [InputTag("mlflow.data.context", item["role"]), InputTag("sha256", item["sha256"])],
        )
        for item in document["inputs"][:_MAX_DATASETS]
    ]
    if inputs:
        client.log_inputs(run_id, datasets=inputs)


def _dataset_name(item: Mapping[str, Any]) -> str:
    uri = item["uri"]
    short = uri if uri.startswith(("models:", "runs:")) else Path(uri).name
    return f"{item['role']}: {short or item['sha256'][:12]}"[:200]


def log_files(client: Any, run_id: str, upload: Upload, figures: Callable[[Path], None] | None = None) -> None:
    """Store the record, its output files, and figures that `figures` draws into a folder it makes."""
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        folder = Path(name)
        (folder / RECORD_FOLDER).mkdir()
        (folder / RECORD_FOLDER / RECORD_FILE).write_text(dumped(upload.document), encoding="utf-8")
        if figures is not None:
            figures(folder / "figures")
        client.log_artifacts(run_id, str(folder))
    for path in upload.output_files().values():
        client.log_artifact(run_id, str(path), RECORD_FOLDER)


def finish(client: Any, run_id: str) -> None:
    """Mark a run as complete; what was interrupted before is resumed by the next upload."""
    client.set_terminated(run_id)


def left_out_tags(headline: facts.Headline) -> dict[str, str]:
    """Say which categories have no metrics here."""
    if not headline.left_out:
        return {}
    return {"categories.left_out": facts.clipped(", ".join(headline.left_out))}
