"""A PostgreSQL cluster of the stack's own, in its folder: made on first use, on loopback, with passwords."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from core.errors import InputError
from tasks.platform import tied
from tasks.platform.environment import HOST

ACCOUNT = "postgres"
"""Who runs PostgreSQL when root starts the stack: it refuses to run as root."""

DATABASES = {"mlflow": "mlflow", "mlflow_auth": "mlflow", "prefect": "prefect"}
"""Each database and the role that owns it."""

_DEBIAN = Path("/usr/lib/postgresql")


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest where there are several; None when there is none."""
    folders = [found.parent for found in sorted(_DEBIAN.glob("*/bin/postgres"), key=_major, reverse=True)]
    on_path = shutil.which("postgres")
    if on_path is not None:
        folders.insert(0, Path(on_path).resolve().parent)
    return next((folder for folder in folders if (folder / "initdb").exists()), None)


def why_not(folder: Path) -> str | None:
    """Say why PostgreSQL cannot run in a folder, or None when it can."""
    if programs() is None:
        return "PostgreSQL is not installed (no program `postgres`)"
    if os.geteuid() != 0:
        return None
    import pwd

    try:
        account = pwd.getpwnam(ACCOUNT)
    except KeyError:
        return f"PostgreSQL refuses to run as root, and there is no account {ACCOUNT}"
    closed = [place for place in (folder, *folder.parents) if place.exists() and not _passable(place, account.pw_uid)]
    if closed and closed[0] == folder and len(closed) == 1:
        return None  # the stack's own folder, which is opened for passing through
    if closed:
        return f"PostgreSQL refuses to run as root, and account {ACCOUNT} may not pass through {closed[-1]}"
    return None


def serve(environment: Mapping[str, str]) -> None:
    """Become the PostgreSQL server; with SQLite, become a process that does nothing.

    Raises
    ------
    InputError
        PostgreSQL is absent, cannot run here, or its files are of another version.
    """
    if environment["ASSAY_STACK_DATABASE"] == "sqlite":
        os.execvp("sleep", ["sleep", "infinity"])  # noqa: S606 (honcho stops everything when one process ends)
    folder = Path(environment["ASSAY_STACK_FOLDER"])
    found = programs()
    if (reason := why_not(folder)) is not None or found is None:
        raise InputError.of("PostgreSQL", f"{reason}; `assay up --database sqlite` does without")
    cluster = folder / "postgres"
    drop: dict[str, Any] = {}
    if os.geteuid() == 0:
        folder.chmod(0o711)
        drop = {"user": ACCOUNT, "group": ACCOUNT, "extra_groups": []}
    if not (cluster / "PG_VERSION").exists():
        _make(found, cluster, environment, drop)
    _check_version(found, cluster)
    _single(found, cluster, "postgres", _passwords(environment), drop)
    if drop:
        _become(ACCOUNT)
        tied.to_parent(signal.SIGINT)  # changing the account has untied the process
    arguments = [
        str(found / "postgres"), "-D", str(cluster),
        "-c", f"listen_addresses={HOST}", "-c", f"port={environment['ASSAY_STACK_POSTGRES_PORT']}",
        "-c", "unix_socket_directories=", "-c", "max_connections=200",
    ]  # fmt: skip
    os.execve(arguments[0], arguments, _clean(environment))  # noqa: S606 (no shell is what we want)


def password_environment(environment: Mapping[str, str], role: str) -> dict[str, str]:
    """Return an environment in which PostgreSQL's programs find a role's password."""
    return {**_clean(environment), "PGPASSWORD": environment[f"ASSAY_STACK_{role.upper()}_DATABASE_PASSWORD"]}


def _make(found: Path, cluster: Path, environment: Mapping[str, str], drop: dict[str, Any]) -> None:
    """Make the cluster beside its place and move it there at last, so that an interrupted one is made again."""
    new = cluster.with_name("postgres.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(mode=0o700)
    if drop:
        shutil.chown(new, ACCOUNT, ACCOUNT)
    with tempfile.TemporaryDirectory(prefix="assay-") as scratch:
        password = Path(scratch) / "password"
        password.touch(mode=0o600)
        password.write_text(environment["ASSAY_STACK_POSTGRES_PASSWORD"] + "\n", encoding="utf-8")
        if drop:
            shutil.chown(scratch, ACCOUNT, ACCOUNT)
            shutil.chown(password, ACCOUNT, ACCOUNT)
        command = [
            str(found / "initdb"), "-D", str(new), "-U", ACCOUNT, "-A", "scram-sha-256", "--pwfile", str(password),
            "--encoding=UTF8", "--locale=C.UTF-8", "--data-checksums", "--no-instructions",
        ]  # fmt: skip
        _run(command, new, environment, drop)
    statements = [f"CREATE ROLE {role} LOGIN" for role in sorted(set(DATABASES.values()))]
    for database, role in DATABASES.items():
        statements += [
            f"CREATE DATABASE {database} OWNER {role}",
            f"REVOKE CONNECT, TEMPORARY ON DATABASE {database} FROM PUBLIC",
        ]
    _single(found, new, "postgres", statements, drop, environment)
    new.replace(cluster)


def _passwords(environment: Mapping[str, str]) -> list[str]:
    """Set the passwords to what the file says, at each start: that is how they are changed."""
    roles = {ACCOUNT: "ASSAY_STACK_POSTGRES_PASSWORD"} | {
        role: f"ASSAY_STACK_{role.upper()}_DATABASE_PASSWORD" for role in sorted(set(DATABASES.values()))
    }
    return [f"ALTER ROLE {role} PASSWORD '{_quoted(environment[name])}'" for role, name in roles.items()]


def _quoted(password: str) -> str:
    if not re.fullmatch(r"[\x20-\x7e]+", password):
        raise InputError.of("PostgreSQL", "a password may hold printable ASCII characters only")
    return password.replace("'", "''")


def _single(
    found: Path, cluster: Path, database: str, statements: list[str], drop: dict[str, Any],
    environment: Mapping[str, str] | None = None,
) -> None:  # fmt: skip
    """Run statements in PostgreSQL's single-user mode: nobody can connect yet, and no password is needed."""
    command = [str(found / "postgres"), "--single", "-D", str(cluster), "-c", "log_min_error_statement=panic", database]
    _run(command, cluster, environment or os.environ, drop, "\n".join(statements) + "\n")


def _run(
    command: list[str], cluster: Path, environment: Mapping[str, str], drop: dict[str, Any], given: str = ""
) -> None:
    done = subprocess.run(
        command, input=given, capture_output=True, text=True, check=False, cwd=cluster, env=_clean(environment), **drop
    )
    if done.returncode != 0 or re.search(r"\b(?:FATAL|PANIC|ERROR):", done.stderr):
        told = [line for line in done.stderr.splitlines() if "STATEMENT" not in line]
        raise InputError.of("PostgreSQL", f"{Path(command[0]).name} failed: {' '.join(told[-3:])}")


def _check_version(found: Path, cluster: Path) -> None:
    kept = (cluster / "PG_VERSION").read_text(encoding="utf-8").strip()
    told = subprocess.run([str(found / "postgres"), "--version"], capture_output=True, text=True, check=True).stdout
    here = re.search(r"(\d+)", told)
    if here is not None and here[1] != kept:
        raise InputError.of(str(cluster), (
            f"is of PostgreSQL {kept}, and {here[1]} is installed; see infra/README.md, Upgrade"
        ))  # fmt: skip


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the few variables that PostgreSQL needs."""
    return {name: environment[name] for name in ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR") if name in environment}


def _become(name: str) -> None:
    import pwd

    account = pwd.getpwnam(name)
    os.setgroups([])
    os.setgid(account.pw_gid)
    os.setuid(account.pw_uid)


def _passable(folder: Path, uid: int) -> bool:
    state = folder.stat()
    return bool(state.st_mode & 0o001) or (state.st_uid == uid and bool(state.st_mode & 0o100))


def _major(program: Path) -> int:
    name = program.parent.parent.name
    return int(name) if name.isdigit() else 0
