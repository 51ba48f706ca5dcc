"""Where MLflow is: which address counts, where its artifacts go, and how an address is shown."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from core.errors import InputError
from tasks.settings import settings

SWITCHED_OFF = "none"
_SQLITE = "sqlite:///"
_ADDRESS = re.compile(r"(https?|sqlite|postgresql|mysql|mssql)(\+\w+)?://|databricks")


def tracking_uri(option: str | None = None) -> str | None:
    """Say where to track: the option, else the environment, else the user's own database; None when switched off.

    Raises
    ------
    InputError
        What was given is no address of an MLflow server or database.
    """
    uri = option or settings().tracking_uri or f"{_SQLITE}{settings().data_dir.resolve() / 'mlflow.db'}"
    if uri.lower() == SWITCHED_OFF:
        return None
    if not _ADDRESS.match(uri):
        raise InputError.of(
            without_credentials(uri),
            "is no address of MLflow: http://HOST:PORT, https://..., sqlite:///FILE or postgresql://... is expected",
        )
    return _absolute(uri)


def _absolute(uri: str) -> str:
    """Make a database's file absolute: a note that waits is read in another folder."""
    database = database_file(uri)
    return uri if database is None else f"{_SQLITE}{database}" + "".join(uri.partition("?")[1:])


def database_file(uri: str) -> Path | None:
    """Return the file of a SQLite address, or None for any other address."""
    return Path(uri.removeprefix(_SQLITE).partition("?")[0]).resolve() if uri.startswith(_SQLITE) else None


def artifact_place(uri: str, experiment: str) -> str | None:
    """Say where an experiment's files go: beside a database; None leaves it to a server.

    MLflow's own default for a database is the folder that a command happens to run in.
    """
    if is_server(uri):
        return None
    database = database_file(uri)
    folder = settings().data_dir.resolve() if database is None else database.parent
    return (folder / "mlflow-artifacts" / experiment).as_uri()


def is_server(uri: str) -> bool:
    """Whether an address is a server's, which decides itself about its files."""
    return uri.partition("://")[0] in ("http", "https")


def without_credentials(uri: str) -> str:
    """Take user and password out of an address: it is shown, and kept in notes on disk.

    Examples
    --------
    >>> without_credentials("https://ada:secret@mlflow.example.org/x")
    'https://mlflow.example.org/x'
    """
    if database_file(uri) is not None:
        return uri
    parts = urlsplit(uri)
    return urlunsplit(parts._replace(netloc=re.sub(r"^.*@", "", parts.netloc)))
