"""Where PostgreSQL can run, and why not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from core.errors import InputError
from tasks.platform import postgres
from tasks.platform.stack import written


def test_without_postgresql_the_stack_takes_sqlite_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "programs", lambda: None)
    told: list[str] = []
    stack = written(tmp_path / "stack", tell=told.append)
    assert stack.database == "sqlite"
    assert told[0].startswith("database: SQLite, which serves one person. PostgreSQL is not installed")
    assert stack.values["MLFLOW_BACKEND_STORE_URI"].startswith("sqlite:///")
    again = written(tmp_path / "stack", tell=told.append)
    assert again.database == "sqlite"
    assert len([line for line in told if "SQLite" in line]) == 1  # it is what the folder has; nothing to tell


def test_asked_for_and_absent_it_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres, "programs", lambda: None)
    with pytest.raises(InputError, match=r"not installed.*--database sqlite does without"):
        written(tmp_path / "stack", database="postgresql", tell=lambda _: None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to give the folder to another account")
@pytest.mark.skipif(postgres.programs() is None, reason="PostgreSQL is not installed")
def test_root_is_told_which_folder_the_account_may_not_pass(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    reason = postgres.why_not(closed / "stack")
    assert reason is not None
    assert "may not pass through" in reason


def test_a_checkout_is_needed(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has no infra/Procfile"):
        written(tmp_path / "stack", tell=lambda _: None, home=tmp_path)
