"""The local stack as a whole: prepared, started, watched, stopped."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from core.errors import InputError
from tasks.platform import postgres
from tasks.platform.environment import Database, Stack, parse, prepare
from tasks.platform.readiness import NEEDS
from tasks.platform.supervise import Supervisor, check_ports, read_procfile, sole_owner

HOME = Path(__file__).resolve().parents[2]
"""The project's folder: deployments name its files."""

PROCFILE = Path("infra") / "Procfile"

Tell = Callable[[str], None]


def written(
    folder: Path, *, database: Database | None = None, first_port: int | None = None, tell: Tell, home: Path = HOME
) -> Stack:
    """Prepare a folder: its environment file, and the database that can run there.

    Raises
    ------
    InputError
        This is not a checkout, PostgreSQL was asked for and cannot run, or the folder's file is not usable.
    """
    if not (home / PROCFILE).is_file():
        raise InputError.of(str(home), f"has no {PROCFILE}: the stack is started from a checkout of the project")
    folder = folder.resolve()
    asked = database or (parse(folder / ".env").get("ASSAY_STACK_DATABASE") if (folder / ".env").exists() else None)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    if asked != "sqlite" and (reason := postgres.why_not(folder)) is not None:
        if asked == "postgresql":
            raise InputError.of(str(folder), f"{reason}; --database sqlite does without, --folder names another place")
        tell(f"database: SQLite, which serves one person. {reason}")
        database = "sqlite"
    stack, is_new = prepare(folder, home, database=database, first_port=first_port)
    tell(f"folder: {stack.folder}" + (" (new; passwords were generated)" if is_new else ""))
    return stack


def environment_for(stack: Stack) -> dict[str, str]:
    """Return what the processes get: the caller's variables without those of other services, and the stack's."""
    own = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ASSAY_", "AWS_", "MLFLOW_", "PREFECT_", "PG", "WEED_"))
    }
    programs = f"{Path(sys.executable).parent}{os.pathsep}{own.get('PATH', os.defpath)}"
    return {**own, **stack.all_variables(), "PATH": programs}


def supervisor(stack: Stack, tell: Tell, services: Sequence[str] = tuple(NEEDS)) -> Supervisor:
    """Return the supervisor of all of a stack's processes, or of some."""
    commands: Mapping[str, str] = read_procfile(Path(stack.values["ASSAY_HOME"]) / PROCFILE)
    used = [name for name in services if (name, stack.database) != ("postgres", "sqlite")]
    check_ports(stack, used)
    return Supervisor(stack, {name: commands[name] for name in used}, environment_for(stack), tell)


def run(stack: Stack, tell: Tell) -> None:
    """Start a stack, say where it is, and keep it running until interrupted.

    Raises
    ------
    InputError
        A port is taken, or a stack runs in the folder.
    UnreachableError
        A service does not start, or ends again and again.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # ignored ones too: a shell's background job
            signal.signal(number, signal.default_int_handler)
    with sole_owner(stack.folder):
        processes = supervisor(stack, tell)
        try:
            tell("starting; the first time takes about a minute")
            processes.start()
            for line in _where(stack):
                tell(line)
            processes.watch()
        except KeyboardInterrupt:
            tell("stopping, in reverse order; data stays")
        finally:
            processes.stop()
        tell("stopped")


def _where(stack: Stack) -> list[str]:
    values, user = stack.values, stack.values["MLFLOW_TRACKING_USERNAME"]
    return [
        "",
        f"Prefect  {values['PREFECT_API_URL'].removesuffix('/api')}   asks for user:password, PREFECT_API_AUTH_STRING",
        f"MLflow   {values['MLFLOW_TRACKING_URI']}   user {user}, MLFLOW_TRACKING_PASSWORD",
        f"S3       {values['AWS_ENDPOINT_URL']}   records go to {values['ASSAY_RECORDS']}",
        f"Passwords and keys: {stack.client_file}. For a shell that uses the stack:",
        f"  set -a; . '{stack.client_file}'; set +a; assay doctor",
        "Ctrl-C stops everything.",
    ]
