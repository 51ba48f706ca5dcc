"""Keeps the stack's processes running: starts them, says when they are ready, restarts them, stops them in order."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from core.errors import InputError, UnreachableError
from tasks.platform import tied
from tasks.platform.environment import HOST, PORTS, Stack
from tasks.platform.readiness import NEEDS, POLL_SECONDS, is_ready

STOP_ORDER = (("worker",), ("prefect",), ("mlflow",), ("s3", "postgres"))
STOP_SECONDS: Mapping[str, float] = {"worker": 30.0, "prefect": 20.0, "mlflow": 20.0, "s3": 40.0, "postgres": 60.0}
"""How long a service may take to end before it is killed; SeaweedFS takes some 20 seconds to say goodbye to itself."""

START_SECONDS = 300.0
RESTARTS, RESTARTS_WITHIN = 5, 300.0
BACK_OFF_SECONDS = 1.0
"""A service is started again at once, then after 1, 3, 7 and 15 of these."""
LOG_BYTES = 20_000_000
SHOWN_LINES = 15

_LINE = re.compile(r"^(?P<name>[A-Za-z0-9_-]+):\s*(?P<command>.+)$")


def read_procfile(file: Path) -> dict[str, str]:
    """Return the processes of a Procfile, as honcho reads it.

    Raises
    ------
    InputError
        There is none, or it does not hold the stack's services.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise InputError.of(str(file), f"cannot be read: {error.strerror}") from None
    found = {match["name"]: match["command"] for match in map(_LINE.match, lines) if match}
    if set(found) != set(NEEDS):
        raise InputError.of(str(file), f"should hold {', '.join(NEEDS)}; it holds {', '.join(found) or 'nothing'}")
    return found


def check_ports(stack: Stack, services: Sequence[str]) -> None:
    """See that the ports are free, and name those that are not.

    Raises
    ------
    InputError
        Some are taken.
    """
    taken = []
    for name in PORTS:
        if _service_of(name) not in services:
            continue
        with socket.socket() as trial:
            trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # ports of a stack that has just ended are free
            try:
                trial.bind((HOST, stack.port(name)))
            except OSError:
                taken.append(f"port {stack.port(name)} ({name.lower().replace('_', ' ')})")
    if taken:
        raise InputError.of("assay up", (
            f"{', '.join(taken)} on {HOST} cannot be used: something else listens there. Stop it, or take other ports: "
            "--ports FIRST"
        ))  # fmt: skip


def _service_of(port: str) -> str:
    return {"PREFECT": "prefect", "MLFLOW": "mlflow", "POSTGRES": "postgres"}.get(port, "s3")


@contextlib.contextmanager
def sole_owner(folder: Path) -> Iterator[None]:
    """Hold a folder's lock, which ends with the process however that ends: no stale file can stand in the way.

    Raises
    ------
    InputError
        A stack runs in the folder.
    """
    with (folder / "run" / "lock").open("a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip()
            raise InputError.of(str(folder), f"a stack runs here already (process {owner}); stop it first") from None
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        os.set_inheritable(file.fileno(), False)
        yield


@dataclass(slots=True)
class _Service:
    name: str
    command: str
    process: subprocess.Popen[bytes] | None = None
    began: list[float] = field(default_factory=list)
    since: datetime | None = None
    again_at: float | None = None
    ready: bool = False


class Supervisor:
    """The processes of one stack.

    Parameters
    ----------
    stack : Stack
    commands : mapping of str to str
        Shell commands by service; those of a Procfile.
    environment : mapping of str to str
        What the processes get: the caller's variables and the stack's.
    tell : callable
        Takes each line of progress.
    """

    def __init__(
        self, stack: Stack, commands: Mapping[str, str], environment: Mapping[str, str], tell: Callable[[str], None]
    ) -> None:
        self._stack, self._environment, self._tell = stack, dict(environment), tell
        self._services = {name: _Service(name, command) for name, command in commands.items()}
        self._others = frozenset(tied.children_of(os.getpid()))  # of whoever uses this class: none of our business

    def start(self) -> None:
        """Start everything and wait until everything is ready.

        Raises
        ------
        UnreachableError
            A service ended, or was not ready in time.
        """
        tied.adopt_orphans()
        began = time.monotonic()
        for service in self._services.values():
            self._launch(service)
        waiting = list(self._services.values())
        while waiting:
            for service in tuple(waiting):
                self._expect_alive(service)
                if all(self._services[need].ready for need in NEEDS[service.name] if need in self._services):
                    service.ready = is_ready(service.name, self._environment, service.since)
                if service.ready:
                    waiting.remove(service)
                    self._tell(f"{service.name:<9} ready after {time.monotonic() - began:.0f} s")
            if waiting and time.monotonic() - began > START_SECONDS:
                late = waiting[0]
                raise UnreachableError(
                    f"{late.name} was not ready within {START_SECONDS:g} s\n{self._last_lines(late.name)}"
                )
            time.sleep(POLL_SECONDS)

    def watch(self) -> None:
        """Restart what ends, until interrupted.

        Raises
        ------
        UnreachableError
            A service ended too often.
        """
        while True:
            for service in self._services.values():
                if service.again_at is not None:
                    if time.monotonic() >= service.again_at:
                        self._launch(service)
                elif service.process is not None and service.process.poll() is not None:
                    self._ended(service, service.process)
            self._reap()
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Stop everything in reverse order; what does not end in its time is killed, as is all when interrupted."""
        try:
            for stage in STOP_ORDER:
                self._stop_stage([self._services[name] for name in stage if name in self._services])
            self._end_orphans(5.0)
        except KeyboardInterrupt:
            self._tell("interrupted again: killing what is left")
        finally:
            for child in set(tied.children_of(os.getpid())) - self._others:
                for pid in (child, *tied.descendants_of(child)):
                    _signal(pid, signal.SIGKILL)
            for service in self._services.values():
                if service.process is not None:
                    service.process.wait()

    def pids(self) -> dict[str, int]:
        """Return the process of each service."""
        return {name: item.process.pid for name, item in self._services.items() if item.process is not None}

    def _launch(self, service: _Service) -> None:
        service.since = datetime.now(UTC)
        log = self._log(service.name)
        if log.exists() and log.stat().st_size > LOG_BYTES:
            log.replace(log.with_suffix(".log.1"))
        with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "ab") as stream:
            service.process = subprocess.Popen(
                ["sh", "-c", service.command],
                cwd=self._stack.values["ASSAY_HOME"], env=self._environment, stdin=subprocess.DEVNULL,
                stdout=stream, stderr=stream, start_new_session=True, umask=0o077,
                preexec_fn=tied.to_parent,  # noqa: PLW1509 (no thread runs beside this one)
            )  # fmt: skip
        service.began.append(time.monotonic())
        service.again_at = None

    def _ended(self, service: _Service, process: subprocess.Popen[bytes]) -> None:
        """Plan to start a service again, the later the more often it has ended lately."""
        recent = [moment for moment in service.began if time.monotonic() - moment < RESTARTS_WITHIN]
        if len(recent) > RESTARTS:
            raise UnreachableError(
                f"{service.name} ended {len(recent)} times within {RESTARTS_WITHIN:g} s\n"
                f"{self._last_lines(service.name)}"
            )
        self._tell(f"{service.name:<9} ended ({_ending(process.returncode)}); starting it again")
        _signal_group(process.pid, signal.SIGKILL)  # what it left behind would hold its port
        service.again_at = time.monotonic() + BACK_OFF_SECONDS * (2 ** (len(recent) - 1) - 1)

    def _expect_alive(self, service: _Service) -> None:
        if service.process is not None and service.process.poll() is not None:
            raise UnreachableError(
                f"{service.name} ended while starting ({_ending(service.process.returncode)})\n"
                f"{self._last_lines(service.name)}"
            )

    def _stop_stage(self, services: Sequence[_Service]) -> None:
        running = [service for service in services if service.process is not None]
        below = {service.name: tied.descendants_of(service.process.pid) for service in running if service.process}
        for service in running:
            # PostgreSQL: SIGINT is its fast shutdown, and its own processes are its own business.
            number = signal.SIGINT if service.name == "postgres" else signal.SIGTERM
            if service.process is not None and service.process.poll() is None:
                _signal(service.process.pid, number)
        for service in running:
            if service.process is None:
                continue
            try:
                service.process.wait(timeout=STOP_SECONDS[service.name])
            except subprocess.TimeoutExpired:
                self._tell(f"{service.name:<9} does not end: killing it")
                _signal_group(service.process.pid, signal.SIGKILL)
                service.process.wait()
            for pid in below[service.name]:
                _signal(pid, signal.SIGTERM)
            self._tell(f"{service.name:<9} stopped")

    def _end_orphans(self, seconds: float) -> None:
        """End what outlived its parent, such as a flow run whose worker was killed."""
        end = time.monotonic() + seconds
        for pid in self._orphans():
            _signal(pid, signal.SIGTERM)
        while self._orphans() and time.monotonic() < end:
            self._reap()
            time.sleep(0.1)

    def _orphans(self) -> list[int]:
        own = self._others | set(self.pids().values())
        return [pid for pid in tied.children_of(os.getpid()) if pid not in own]

    def _reap(self) -> None:
        for pid in self._orphans():
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)

    def _log(self, name: str) -> Path:
        return self._stack.folder / "logs" / f"{name}.log"

    def _last_lines(self, name: str) -> str:
        log = self._log(name)
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
        return "\n".join([f"Its log, {log}, ends with:", *(f"  {line}" for line in lines[-SHOWN_LINES:])])


def _ending(code: int) -> str:
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _signal(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
