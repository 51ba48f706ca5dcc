"""Backup and restore of a local stack: both servers' databases, both buckets, and the file with the passwords.

The databases come first: objects are written before a database names them, and never changed, so that every object
that a dump names is in the copy that follows.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.errors import InputError
from tasks.platform import environment as env
from tasks.platform import postgres
from tasks.platform.environment import BUCKET, MLFLOW_BUCKET, Stack, load, write_private
from tasks.platform.readiness import wait_for
from tasks.platform.setup import make_buckets
from tasks.platform.stack import HOME, environment_for, supervisor, written
from tasks.platform.supervise import sole_owner

MANIFEST, OBJECTS, ENV = "backup.json", "objects", "env"
SQLITE = {"mlflow": "mlflow/mlflow.db", "mlflow_auth": "mlflow/auth.db", "prefect": "prefect/prefect.db"}
"""Files of the databases of a stack without PostgreSQL, in its folder."""

Tell = Callable[[str], None]


def back_up(folder: Path, target: Path, tell: Tell) -> None:
    """Back up a stack that runs, or whose database and object storage do, into a new folder.

    Parameters
    ----------
    folder : Path
        The stack's.
    target : Path
        Where the backup goes. It holds passwords, and what the databases hold: keep it as you keep those.
    tell : callable

    Raises
    ------
    InputError
        The target is there already, or a database cannot be dumped.
    UnreachableError
        The database or object storage does not answer.
    """
    from tasks.storage import buckets

    stack = load(folder)
    if target.exists() and any(target.iterdir()):
        raise InputError.of(str(target), "is not empty; a backup goes to a folder of its own")
    variables = environment_for(stack)
    wait_for(("postgres", "s3"), variables, seconds=15)
    target.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_private(target / ENV, stack.file.read_text(encoding="utf-8"))
    for database, role in postgres.DATABASES.items():
        _dump(stack, variables, database, role, target)
        tell(f"database {database}: dumped")
    client = buckets.connect(buckets.Keys.of(variables, "ASSAY_STACK_S3_ADMIN_"))
    copied = []
    for bucket in (BUCKET, MLFLOW_BUCKET):
        found = list(buckets.copy_out(client, bucket, target / OBJECTS))
        copied += found
        tell(f"bucket {bucket}: {len(found):,} objects, {sum(item.size for item in found):,} bytes")
    manifest = {
        "schema": "assay.backup/1",
        "created": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "database": stack.database,
        "software": {name: version(name) for name in ("assay", "mlflow", "prefect")},
        "objects": [asdict(item) for item in copied],
    }
    write_private(target / MANIFEST, json.dumps(manifest, indent=1) + "\n")  # last: a backup without it is not whole
    tell(f"backup: {target}")


def restore(source: Path, folder: Path, tell: Tell, *, first_port: int | None = None, home: Path = HOME) -> None:
    """Make a stack from a backup, in a folder that has none; `assay up` starts it afterwards.

    Its passwords are those of the stack that was backed up.

    Raises
    ------
    InputError
        The folder has a stack, the backup is not whole, or a dump cannot be read.
    UnreachableError
        Database or object storage does not start.
    """
    from tasks.storage import buckets

    manifest = _manifest(source)
    env.move(source / ENV, folder)
    stack = written(folder, database=manifest["database"], first_port=first_port, tell=tell, home=home)
    with sole_owner(stack.folder):
        processes = supervisor(stack, tell, ("postgres", "s3"))
        try:
            processes.start()
            variables = environment_for(stack)
            for database, role in postgres.DATABASES.items():
                _load(stack, variables, database, role, source)
                tell(f"database {database}: restored")
            make_buckets(variables)
            client = buckets.connect(buckets.Keys.of(variables, "ASSAY_STACK_S3_ADMIN_"))
            objects = [buckets.Copied(**item) for item in manifest["objects"]]
            for item in objects:
                buckets.copy_in(client, item, source / OBJECTS)
            tell(f"buckets: {len(objects):,} objects restored")
        finally:
            processes.stop()
    tell(f"restored to {stack.folder}; start it with `assay up --folder {stack.folder}`")


def _manifest(source: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads((source / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise InputError.of(str(source / MANIFEST), "cannot be read: this is no whole backup") from None
    if found.get("schema") != "assay.backup/1":
        raise InputError.of(str(source / MANIFEST), "is not of assay.backup/1")
    return found


def _dump(stack: Stack, variables: Mapping[str, str], database: str, role: str, target: Path) -> None:
    if stack.database == "sqlite":
        file = stack.folder / SQLITE[database]
        with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as source:
            copy = target / f"{database}.db"
            copy.touch(mode=0o600)
            with closing(sqlite3.connect(copy)) as sink:
                source.backup(sink)
        return
    dump = target / f"{database}.dump"
    dump.touch(mode=0o600)
    _program(stack, variables, "pg_dump", role, "--format=custom", f"--file={dump}", database)


def _load(stack: Stack, variables: Mapping[str, str], database: str, role: str, source: Path) -> None:
    if stack.database == "sqlite":
        file = stack.folder / SQLITE[database]
        file.parent.mkdir(parents=True, exist_ok=True)
        with (
            closing(sqlite3.connect(f"{(source / f'{database}.db').resolve().as_uri()}?mode=ro", uri=True)) as kept,
            closing(sqlite3.connect(file)) as sink,
        ):
            kept.backup(sink)
        return
    _program(
        stack, variables, "pg_restore", role,
        "--no-owner", "--no-comments", "--exit-on-error", f"--dbname={database}", str(source / f"{database}.dump"),
    )  # fmt: skip


def _program(stack: Stack, variables: Mapping[str, str], name: str, role: str, *arguments: str) -> None:
    found = postgres.programs()
    if found is None:
        raise InputError.of("PostgreSQL", "is not installed")
    where = ("--host", env.HOST, "--port", str(stack.port("POSTGRES")), "--username", role, "--no-password")
    done = subprocess.run(
        [str(found / name), *where, *arguments],
        env=postgres.password_environment(variables, role), capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise InputError.of(name, " ".join(done.stderr.strip().splitlines()[-3:]) or f"ended with {done.returncode}")
