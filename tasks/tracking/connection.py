"""The connection: a quiet MLflow client with bounded waiting, whose failures say what could not be reached."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import warnings
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from core.errors import UnreachableError
from tasks.tracking.uris import artifact_place, database_file, is_server, without_credentials

PROBE_SECONDS = 3.0

_PORTS = {"postgresql": 5432, "mysql": 3306, "mssql": 1433}
_SIGNS = {
    "timed out": "no answer in time",
    "Connection refused": "connection refused",
    "NameResolutionError": "no such host",
    "too many 50": "it answers every request with a server error; is its database running?",
}

_ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "1",
    "MLFLOW_CONFIGURE_LOGGING": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # A command waits seconds for a server that hangs, not MLflow's own twelve minutes.
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
}
"""Read by MLflow when it is imported, or at each call; what the user has set stays."""

_MODEL_TRAINING = {"mlflow.experimentKind": "custom_model_development"}
"""Opens an experiment with its runs and charts, not with MLflow's pages for prompts."""

_TALKATIVE = ("mlflow", "alembic", "urllib3", "matplotlib")


@contextlib.contextmanager
def connected(uri: str) -> Iterator[Any]:
    """Give an MLflow client for an address.

    Raises
    ------
    UnreachableError
        The service cannot be reached, or does not take (or give) what it is asked to; or a database's driver is
        not installed.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    shown = without_credentials(uri)
    _probe(shown)
    with _quiet():
        from mlflow.exceptions import MlflowException
        from mlflow.tracking import MlflowClient
        from requests import RequestException
        from sqlalchemy.exc import SQLAlchemyError

        try:
            if (database := database_file(uri)) is not None:
                database.parent.mkdir(parents=True, exist_ok=True)
            yield MlflowClient(tracking_uri=uri, registry_uri=uri)
        except (MlflowException, RequestException, SQLAlchemyError, OSError, ModuleNotFoundError) as error:
            raise UnreachableError(f"MLflow at {shown}: {_reason(error)}") from None  # it may hold the password


def experiment_id(client: Any, uri: str, name: str) -> str:
    """Find an experiment, or make it."""
    found = client.get_experiment_by_name(name)
    if found is None:
        return str(client.create_experiment(name, artifact_location=artifact_place(uri, name), tags=_MODEL_TRAINING))
    if found.lifecycle_stage == "deleted":
        client.restore_experiment(found.experiment_id)
    return str(found.experiment_id)


def _probe(uri: str) -> None:
    """Knock before MLflow is imported: most outages are told in no time, and a database's would else take minutes.

    The address is the one without credentials: a knock needs none.
    """
    try:
        if is_server(uri):
            _ask(uri)
        elif (host := urlsplit(uri).hostname) is not None:
            port = urlsplit(uri).port or _PORTS.get(urlsplit(uri).scheme.partition("+")[0])
            socket.create_connection((host, port or 5432), timeout=PROBE_SECONDS).close()
    except (OSError, ValueError) as error:
        raise UnreachableError(
            f"MLflow at {uri} cannot be reached: {_reason(error)}; is it running, and is this its address?"
        ) from None


def _ask(uri: str) -> None:
    """Ask a server for a sign of life; whatever it answers, MLflow's own requests will say what it means."""
    import requests

    with contextlib.suppress(requests.exceptions.SSLError):  # MLflow has its own settings for certificates
        requests.get(f"{uri.rstrip('/')}/health", timeout=PROBE_SECONDS, allow_redirects=False)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep log lines and warnings of MLflow and its migrations off the terminal."""
    levels = {name: logging.getLogger(name).level for name in _TALKATIVE}
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _reason(error: BaseException) -> str:
    """Return the first line of an error, in short and without credentials; common failures in plain words."""
    text = without_credentials(str(error).strip())
    for sign, meaning in _SIGNS.items():
        if sign in text:
            return meaning
    return (text.splitlines() or [type(error).__name__])[0][:200]
