"""From a reference (``models:/NAME@ALIAS``, ``models:/NAME/VERSION``, ``runs:/ID``, a run's id) to the record."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError, MismatchError, RecordError
from tasks.archive import load_record, write_record
from tasks.settings import settings
from tasks.storage import Place, atomic, file_digest
from tasks.tracking.connection import connected
from tasks.tracking.runs import CALIBRATIONS, CERTIFICATE, RECORD_FILE, RECORD_FOLDER, SIMULATIONS, find_run
from tasks.tracking.uris import tracking_uri, without_credentials

_MODEL = re.compile(r"models:/+(?P<name>[^/@]+)(?:@(?P<alias>[^/@]+)|/(?P<version>\d+))")
_RUN = re.compile(r"(?:runs:/+)?(?P<run>[0-9a-f]{32})")
_RECORD_ID = re.compile(r"[0-9a-f]{64}")
_ROLE = re.compile(r"[a-z_]{1,40}")

# MLflow's codes for what is not there, and its reason where its own words do not say so. A server with accounts tells
# an ordinary one of a model that does not exist as of one that it may not read.
_ABSENT = {
    "RESOURCE_DOES_NOT_EXIST": "", "INVALID_PARAMETER_VALUE": "",
    "PERMISSION_DENIED": "it does not exist, or this account may not read it",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """A record that a reference led to.

    Attributes
    ----------
    path : Path
        Its file in the records folder.
    uri : str
        The reference, with an alias resolved to the version that it means now.
    """

    path: Place
    uri: str


def is_reference(text: str) -> bool:
    """Whether a text is meant for MLflow rather than the disk."""
    return text.startswith(("models:", "runs:")) or _RUN.fullmatch(text) is not None


def fetch(reference: str, option: str | None = None) -> Fetched:
    """Bring a record from MLflow to the records folder, where it is kept under its id.

    Parameters
    ----------
    reference : str
    option : str, optional
        MLflow's address, as in `tracking_uri`.

    Raises
    ------
    InputError
        The reference is malformed or leads nowhere, or tracking is switched off.
    UnreachableError
        MLflow cannot be reached.
    MismatchError
        What is stored there is not what was recorded.
    """
    model, run = _MODEL.fullmatch(reference), _RUN.fullmatch(reference)
    if model is None and run is None:
        raise InputError.of(reference, "write models:/NAME@ALIAS, models:/NAME/VERSION or runs:/RUN_ID")
    uri = tracking_uri(option)
    if uri is None:
        raise InputError.of(reference, "leads to MLflow, and tracking is switched off; name it with --tracking-uri")
    with connected(uri) as client:
        from mlflow.exceptions import MlflowException

        try:
            if model is not None:
                version = _version(client, model)
                resolved, run_id = f"models:/{version.name}/{version.version}", str(version.run_id)
            elif run is not None:
                resolved, run_id = f"runs:/{run['run']}", run["run"]
            found = client.get_run(run_id)
        except MlflowException as error:
            if error.error_code not in _ABSENT:
                raise
            reason = _ABSENT[error.error_code] or without_credentials(error.message)
            raise InputError.of(reference, f"leads nowhere: {reason}") from None
        return Fetched(path=_kept(client, found, reference), uri=resolved)


def fetch_certificate(calibration_id: str, option: str | None = None) -> Fetched | None:
    """Bring the newest certificate of a calibration from MLflow to the records folder; None if there is none.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    uri = tracking_uri(option)
    if uri is None:
        return None
    with connected(uri) as client:
        wanted = {"calibration.id": calibration_id, "kind": CERTIFICATE}
        run = _finished(client, SIMULATIONS, wanted)
        if run is None:
            return None
        reference = f"runs:/{run.info.run_id}"
        return Fetched(path=_kept(client, run, reference), uri=reference)


def fetch_output(record_id: str, output: Mapping[str, Any], option: str | None = None) -> Path | None:
    """Bring an output file of a calibration from MLflow's run of it to the records folder; None if it is not there.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    uri = tracking_uri(option)
    if uri is None:
        return None
    with connected(uri) as client, tempfile.TemporaryDirectory(prefix="assay-") as name:
        run = _finished(client, CALIBRATIONS, {"record.id": record_id})
        if run is None or not _ROLE.fullmatch(str(output["role"])):
            return None
        folder = Path(client.download_artifacts(run.info.run_id, RECORD_FOLDER, name))
        file = folder / Path(str(output["uri"])).name
        if not file.is_file() or file_digest(file) != output["sha256"]:
            return None
        kept = settings().records_dir / f"{record_id}.{output['role']}.parquet"
        with atomic(kept) as temporary:
            file.replace(temporary)
        return kept


def _finished(client: Any, experiment: str, wanted: Mapping[str, str]) -> Any:
    found = client.get_experiment_by_name(experiment)
    return None if found is None else find_run(client, found.experiment_id, wanted, finished=True)


def _version(client: Any, model: re.Match[str]) -> Any:
    if model["alias"]:
        return client.get_model_version_by_alias(model["name"], model["alias"])
    return client.get_model_version(model["name"], model["version"])


def _kept(client: Any, run: Any, reference: str) -> Place:
    """Return the record of a run in the records folder, downloading it if it is not there yet."""
    record_id = run.data.tags.get("record.id", "")
    if not _RECORD_ID.fullmatch(record_id):
        raise InputError.of(reference, "is a run without a record of assay")
    path = settings().records_dir / f"{record_id}.json"
    if path.is_file() and load_record(path)["id"] == record_id:
        return path
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        folder = Path(client.download_artifacts(run.info.run_id, RECORD_FOLDER, name))
        return _moved(folder, record_id, reference)


def _moved(folder: Path, record_id: str, reference: str) -> Place:
    """Put a downloaded record and its outputs into the records folder, each checked against its digest."""
    document = load_record(folder / RECORD_FILE)
    if document["id"] != record_id:
        raise MismatchError(f"{reference}: the run is of record {record_id[:12]}, but holds {document['id'][:12]}")
    outputs = []
    for item in document["outputs"]:
        if not _ROLE.fullmatch(str(item["role"])):
            raise RecordError(f"{reference}: {item['role']!r} is not the role of an output")
        file = folder / Path(item["uri"]).name
        if not file.is_file():
            continue
        if file_digest(file) != item["sha256"]:
            raise MismatchError(f"{reference}: output {file.name} is not the one that was recorded")
        outputs.append((item["role"], file, item["rows"]))
    return write_record(document, None, outputs).path
