"""Where MLflow is: which address counts, where its artifacts go, and how an address is shown."""

from __future__ import annotations

import re
from pathlib import Path

from core.errors import InputError
from tasks.settings import settings

SWITCHED_OFF = "none"
_SQLITE = "sqlite:///"
_ADDRESS = re.compile(r"(https?|sqlite|postgresql|mysql|mssql)(\+\w+)?://|databricks")

_USER = re.compile(r"(?<!/)//(?:[^/\s]*|[^/:\s]*:(?!\d+(?:\W|$))[^@\n]*)@")
"""A password may hold anything but @ for a database; what begins with a number and ends there is a port."""

_SECRET_VALUE = re.compile(
    r"(?P<name>(?:password|pwd|token|passwd|secret)=)[^&\s]*|(?P<odbc>odbc_connect=)[^&\n]*", re.IGNORECASE
)


def tracking_uri(option: str | None = None) -> str | None:
    """Say where to track: the option, else the environment, else the user's own database; None when switched off.

    Raises
    ------
    InputError
        What was given is no address of an MLflow server or database.
    """
    given = settings().tracking_uri  # it may hold a password
    uri = option or (given and given.get_secret_value()) or f"{_SQLITE}{settings().data_dir.resolve() / 'mlflow.db'}"
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


def without_credentials(text: str) -> str:
    """Take users, passwords and tokens out of an address, or of every address in a text: it is shown, and kept on disk.

    Examples
    --------
    >>> without_credentials("https://ada:secret@mlflow.example.org/x")
    'https://mlflow.example.org/x'
    >>> without_credentials("postgresql://h/db?user=ada&password=secret&sslmode=require")
    'postgresql://h/db?user=ada&password=&sslmode=require'
    """
    return _SECRET_VALUE.sub(r"\g<name>\g<odbc>", _USER.sub("//", text))
