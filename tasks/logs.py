"""Log lines as JSON: one object a line, with the run and the record that it is about.

The command line does so with ``--log-format json``; Prefect's own lines, those of a worker and its runs too, where the
environment says what `PREFECT_SWITCHES` holds (the image of ``infra/Dockerfile`` does).
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

PREFECT_SWITCHES = {
    "PREFECT_LOGGING_HANDLERS_CONSOLE_FORMATTER": "json",
    "PREFECT_LOGGING_FORMATTERS_JSON_CLASS": "tasks.logs.JsonLines",
}
"""Prefect reads them when it sets up its logging."""

_FROM_PREFECT = {"flow_run_id": "flow_run", "flow_run_name": "flow_run_name", "task_run_id": "task_run"}
_about: dict[str, str] = {}


def about(**names: str) -> None:
    """Say what the lines that follow are about, such as ``record`` or ``run``; one process works on one thing.

    Parameters
    ----------
    **names : str
        Ids by their kind. An empty one takes the kind out again.
    """
    for kind, value in names.items():
        if value:
            _about[kind] = value
        else:
            _about.pop(kind, None)


def line(level: str, message: str, **more: Any) -> str:
    """Return one line: ASCII, so that names cannot steer the terminal, and without passwords of addresses.

    All texts of a line are cleaned: a traceback quotes addresses as a message does, and oftener.

    Examples
    --------
    >>> json.loads(line("error", "no answer from http://ada:pw@h"))["message"]
    'no answer from http://h'
    """
    from tasks.tracking.uris import without_credentials

    row: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="milliseconds"), "level": level}
    row |= {**more, **_about, "message": message}
    return json.dumps({name: without_credentials(it) if isinstance(it, str) else it for name, it in row.items()})


class JsonLines(logging.Formatter):
    """Formats a log record as one JSON object, whatever format it is asked for."""

    def __init__(self, *_asked: Any, **_named: Any) -> None:
        super().__init__()

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        more: dict[str, Any] = {"logger": record.name}
        more |= {ours: str(getattr(record, theirs)) for theirs, ours in _FROM_PREFECT.items() if _given(record, theirs)}
        if record.exc_info:
            more["traceback"] = self.formatException(record.exc_info)
        return line(record.levelname.lower(), record.getMessage(), **more)


def _given(record: logging.LogRecord, name: str) -> bool:
    return getattr(record, name, None) not in (None, "", "<unknown>")
