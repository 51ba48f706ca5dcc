"""Backups: whole or refused. With real servers they are tested in tests/e2e/test_stack.py."""

from __future__ import annotations

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

from core.errors import InputError
from tasks.platform import backup
from tasks.platform.environment import prepare
from tasks.storage import buckets


def test_databases_of_a_stack_without_postgresql_are_copied_while_somebody_writes(tmp_path: Path) -> None:
    stack, _ = prepare(tmp_path / "a", tmp_path, database="sqlite")
    other, _ = prepare(tmp_path / "b", tmp_path, database="sqlite")
    target = tmp_path / "backup"
    target.mkdir()
    for name, place in backup.SQLITE.items():
        file = stack.folder / place
        file.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(file)) as writer:
            writer.execute("PRAGMA journal_mode=WAL")
            writer.execute("CREATE TABLE kept (name TEXT)")
            writer.execute("INSERT INTO kept VALUES (?)", (name,))
            writer.commit()
            writer.execute("INSERT INTO kept VALUES ('not yet')")
            backup._dump(stack, {}, name, "mlflow", target)
        assert stat.S_IMODE((target / f"{name}.db").stat().st_mode) == 0o600
        backup._load(other, {}, name, "mlflow", target)
        with closing(sqlite3.connect(other.folder / place)) as reader:
            assert reader.execute("SELECT name FROM kept").fetchall() == [(name,)]


def test_a_backup_that_was_broken_off_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no whole backup"):
        backup.restore(tmp_path, tmp_path / "new", lambda _: None)
    (tmp_path / backup.MANIFEST).write_text(json.dumps({"schema": "other/1"}))
    with pytest.raises(InputError, match=r"not of assay.backup/1"):
        backup.restore(tmp_path, tmp_path / "new", lambda _: None)
    assert not (tmp_path / "new").exists()


def test_a_backup_does_not_go_over_another(tmp_path: Path) -> None:
    prepare(tmp_path / "stack", tmp_path)
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "x").touch()
    with pytest.raises(InputError, match="a folder of its own"):
        backup.back_up(tmp_path / "stack", tmp_path / "target", lambda _: None)


@pytest.mark.parametrize("damage", ["missing", "other bytes"])
def test_an_object_that_was_damaged_is_not_restored(damage: str, tmp_path: Path) -> None:
    item = buckets.Copied(bucket="assay", key="records/x.json", sha256="0" * 64, size=1)
    if damage == "other bytes":
        (tmp_path / item.sha256).write_bytes(b"x")
    with pytest.raises(InputError, match=r"missing or damaged; s3://assay/records/x.json cannot be restored"):
        buckets.copy_in(None, item, tmp_path)


def test_keys_are_not_shown() -> None:
    keys = buckets.Keys(endpoint="http://h", access_key="abc", secret_key="geheim")
    assert "geheim" not in repr(keys)
    assert "abc" not in repr(keys)
