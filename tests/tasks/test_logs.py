"""Log lines as JSON: one object a line, with run and record, without passwords."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.logs import PREFECT_SWITCHES, JsonLines, about, line


@pytest.fixture(autouse=True)
def nothing_before() -> Iterator[None]:
    about(record="", run="")
    yield
    about(record="", run="")


def made(**more: Any) -> logging.LogRecord:
    found = logging.LogRecord("assay", logging.WARNING, "x.py", 1, "took %s", ("5 s",), None)
    found.__dict__.update(more)
    return found


def test_a_line_names_the_record_and_the_run_that_it_is_about() -> None:
    assert "record" not in json.loads(line("info", "before"))
    about(record="abc", run="r1")
    assert {"record": "abc", "run": "r1"}.items() <= json.loads(line("info", "after")).items()
    about(run="")
    assert "run" not in json.loads(line("info", "later"))


def test_prefect_s_runs_are_named() -> None:
    row = json.loads(JsonLines("default").format(made(flow_run_id="f1", task_run_id="<unknown>")))
    assert (row["level"], row["message"], row["flow_run"]) == ("warning", "took 5 s", "f1")
    assert "task_run" not in row


def test_a_line_is_one_line_of_ascii_without_passwords() -> None:
    text = line("error", "a\nb \x1b[31m é https://ada:geheim@h/x")
    assert text.isascii()
    assert "\n" not in text
    assert "geheim" not in text


def test_a_traceback_and_other_texts_of_a_line_hold_no_passwords_either() -> None:
    address = "postgresql://ada:s3cretpw@db/x"
    try:
        try:
            raise OSError(f"no route to {address}")
        except OSError as error:
            raise RuntimeError(f"cannot open {address}") from error
    except RuntimeError:
        text = JsonLines().format(made(exc_info=sys.exc_info(), flow_run_name=f"for {address}"))
    assert "s3cretpw" not in text
    row = json.loads(text)
    assert "RuntimeError: cannot open postgresql://db/x" in row["traceback"]
    told = json.loads(line("error", "unreadable", source=address, line=3))
    assert (told["source"], told["line"]) == ("postgresql://db/x", 3)


def test_prefect_writes_such_lines_when_told_to(project: Path) -> None:
    code = (
        "from prefect.logging.configuration import setup_logging\n"
        "from prefect.logging import get_logger\n"
        "setup_logging()\n"
        "get_logger('client').info('[hello] world', extra={'flow_run_id': 'f1'})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=project, env={**os.environ, **PREFECT_SWITCHES}, capture_output=True,
        text=True, timeout=120,
    )  # fmt: skip
    (row,) = map(json.loads, done.stderr.splitlines())
    assert (row["message"], row["flow_run"], row["logger"]) == ("[hello] world", "f1", "prefect.client")
