"""The registry: every calibration of a named instrument is a version, the newest the challenger, one the champion."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from core.instrument.promotion import RULE
from core.records import Document
from tasks.archive import dumped
from tasks.reporting.terminal import is_detector
from tasks.tracking import facts
from tasks.tracking.outbox import Promotion, Upload

CHAMPION, CHALLENGER = "champion", "challenger"

MODEL_CODE = Path(__file__).with_name("pyfunc_instrument.py")
REQUIREMENTS = ("pandas>=2.2",)
"""All that the model's code needs: it can be served where assay is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """What the registry now says.

    Attributes
    ----------
    name, version : str
    champion : bool
        Whether this version was made the champion.
    note : str
        Why a promotion that was asked for did not happen, or nothing.
    """

    name: str
    version: str
    champion: bool = False
    note: str = ""

    @property
    def uri(self) -> str:
        """The version's reference."""
        return f"models:/{self.name}/{self.version}"


def registrable(name: str) -> bool:
    """Whether MLflow takes an instrument's name as a model's."""
    return bool(name.strip()) and not re.search(r"[/:]", name)


def register(client: Any, upload: Upload, run_id: str) -> Registered:
    """Make a calibration a version of its instrument (once), and the champion if that was asked for."""
    name = str(upload.document["result"]["instrument"])
    version = find_version(client, name, upload.id) or _new_version(client, upload, name, run_id)
    if upload.promotion is None:
        return Registered(name=name, version=version)
    return promote(client, name, version, upload.promotion)


def find_version(client: Any, name: str, record: str) -> str | None:
    """Return the version of a model that a calibration is; None if it is none."""
    found = client.search_model_versions(f"tags.`record.id` = '{record}'")
    return next((str(item.version) for item in found if item.name == name), None)


def _new_version(client: Any, upload: Upload, name: str, run_id: str) -> str:
    from mlflow.exceptions import MlflowException

    tags = facts.tags(upload.document)
    kept = ("record.id", "judge.fingerprint", "golden.sha256", "status")
    try:
        client.create_registered_model(
            name, description=f"Instrument {name}, calibrated by assay: which traces are flagged, in which category."
        )
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    model_id = _log_model(client, upload.document, run_id)
    with _global_address(upload.uri):
        version = client.create_model_version(
            name,
            source=f"models:/{model_id}",
            run_id=run_id,
            model_id=model_id,
            tags={tag: tags[tag] for tag in kept if tag in tags} | {"judge": facts.judge_name(upload.document)},
            description=facts.version_text(upload.document),
        )
    client.set_registered_model_alias(name, CHALLENGER, version.version)
    return str(version.version)


@contextlib.contextmanager
def _global_address(uri: str) -> Iterator[None]:
    """Set MLflow's global address for a while: its registry in a database looks the model up there, not at ours."""
    import mlflow

    before = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    try:
        yield
    finally:
        mlflow.set_tracking_uri(before)  # type: ignore[arg-type]


def _log_model(client: Any, document: Document, run_id: str) -> str:
    """Log the pyfunc model step by step: MLflow's `log_model` works on its global run and address."""
    import mlflow.pyfunc
    from mlflow.entities import LoggedModelOutput
    from mlflow.models import Model

    experiment = client.get_run(run_id).info.experiment_id
    logged = client.create_logged_model(experiment, name="instrument", source_run_id=run_id, model_type="instrument")
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        record = Path(name) / "calibration.json"
        record.write_text(dumped(document), encoding="utf-8")
        example = _example(document)
        mlflow.pyfunc.save_model(
            str(Path(name) / "model"),
            python_model=str(MODEL_CODE),
            artifacts={"calibration": str(record)},
            mlflow_model=Model(
                artifact_path=logged.artifact_location,
                model_uuid=logged.model_id,
                run_id=run_id,
                model_id=logged.model_id,
            ),
            signature=_signature(document),
            input_example=example,
            pip_requirements=list(REQUIREMENTS),
        )
        client.log_model_artifacts(logged.model_id, str(Path(name) / "model"))
    client.finalize_logged_model(logged.model_id, "READY")
    client.log_outputs(run_id, [LoggedModelOutput(model_id=logged.model_id, step=0)])
    return str(logged.model_id)


def _signature(document: Document) -> Any:
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    categories = document["result"]["composite"]["categories"]
    scores = [ColSpec("double", name) for name in categories]
    flags = [ColSpec("boolean", name, required=False) for name in (*categories, "composite")]
    return ModelSignature(
        inputs=Schema([ColSpec("string", "trace_id"), ColSpec("long", "turn"), *scores]),
        outputs=Schema([ColSpec("string", "trace_id"), *flags]),
    )


def _example(document: Document) -> Any:
    """Two turns of one trace below every threshold, and one trace of one turn at all of them; decisions are 0 or 1."""
    import pandas as pd

    result = document["result"]
    columns: dict[str, Any] = {"trace_id": ["a", "a", "b"], "turn": np.array([0, 1, 0], np.int64)}
    for name in result["composite"]["categories"]:
        threshold = float(result["categories"][name]["threshold"])
        columns[name] = [0.0, 0.0 if is_detector(result) else threshold / 2, threshold]
    return pd.DataFrame(columns)


def promote(client: Any, name: str, version: str, promotion: Promotion) -> Registered:
    """Move the alias ``champion``; a newer promotion is not undone by an older.

    Who and why are tags of the version and of its calibration's run. A person's word for a champion that the rule
    made stands in place of the rule's.
    """
    before = version_of(client, name, CHAMPION)
    if before is not None and str(before.version) == version:
        if before.tags.get("promoted_by") == RULE != promotion.by:
            _note_promotion(client, before, promotion, before.tags.get("promoted_over", "none"))
        return Registered(name=name, version=version, champion=True)
    if before is not None and before.tags.get("promoted_at", "") > promotion.asked:
        note = f"not promoted: version {before.version} became champion after this promotion was asked for"
        return Registered(name=name, version=version, note=note)
    found = client.get_model_version(name, version)
    _note_promotion(client, found, promotion, "none" if before is None else str(before.version))
    client.set_registered_model_alias(name, CHAMPION, version)
    return Registered(name=name, version=version, champion=True)


def _note_promotion(client: Any, version: Any, promotion: Promotion, over: str) -> None:
    tags = {
        "promoted_by": promotion.by,
        "promoted_because": promotion.because,
        "promoted_at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "promoted_over": over,
    }
    note_on_version(client, version, tags)


def note_on_version(client: Any, version: Any, tags: Mapping[str, str]) -> None:
    """Set tags on a version, and on the run of its calibration."""
    for tag, value in tags.items():
        client.set_model_version_tag(version.name, version.version, tag, facts.clipped(value))
        if version.run_id:
            client.set_tag(version.run_id, tag, facts.clipped(value))


def version_of(client: Any, name: str, alias: str) -> Any:
    """Return the version that an alias means; None if there is none."""
    aliases = client.get_registered_model(name).aliases
    return client.get_model_version(name, aliases[alias]) if alias in aliases else None
