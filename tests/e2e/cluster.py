"""A real Dask scheduler and its workers, each a process of its own, on free ports of the loopback interface."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DASK = str(Path(sys.executable).with_name("dask"))


def until(found: Callable[[], Any], what: str, seconds: float = 120) -> Any:
    """Wait until something is there; a busy machine takes its time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.05)
    raise AssertionError(f"no {what} within {seconds:g} s")


@dataclass(kw_only=True)
class Cluster:
    folder: Path
    project: Path
    address: str = ""
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def _start(self, name: str, *arguments: str, **environment: str) -> subprocess.Popen[bytes]:
        known = {**os.environ, "PYTHONPATH": str(self.project), **environment}
        with (self.folder / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [DASK, *arguments], env=known, cwd=self.folder, stdout=log, stderr=log, start_new_session=True
            )
        self.processes.append(process)
        return process

    def start_scheduler(self, protocol: str = "tcp", **environment: str) -> subprocess.Popen[bytes]:
        file = self.folder / "scheduler.json"
        file.unlink(missing_ok=True)
        process = self._start(
            "scheduler", "scheduler", "--host", "127.0.0.1", "--port", "0", "--protocol", protocol, "--no-dashboard",
            "--scheduler-file", str(file), **environment,
        )  # fmt: skip
        self.address = until(lambda: file.exists() and file.read_text() and json.loads(file.read_text()), "scheduler")[
            "address"
        ]
        return process

    def start_worker(self, *, wait: bool = True, **environment: str) -> subprocess.Popen[bytes]:
        """Start a worker that is one process, which nobody starts again; returns when the scheduler has it."""
        before = len(self.ask(lambda client: client.nthreads())) if wait else 0
        process = self._start(
            "worker", "worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1",
            "--local-directory", str(self.folder), **environment,
        )  # fmt: skip
        if wait:
            until(lambda: len(self.ask(lambda client: client.nthreads())) > before, "worker")
        return process

    @contextlib.contextmanager
    def client(self) -> Iterator[Any]:
        import distributed

        with distributed.Client(self.address, timeout=60, set_as_default=False) as client:
            yield client

    def ask(self, question: Callable[[Any], Any]) -> Any:
        with self.client() as client:
            return question(client)

    def executed(self) -> dict[int, int]:
        """How many tasks each worker has carried out, by process id."""

        def told(dask_worker: Any) -> tuple[int, int]:
            return os.getpid(), dask_worker.state.executed_count

        return dict(self.ask(lambda client: client.run(told)).values())

    def stop(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait(timeout=60)


@contextlib.contextmanager
def cluster(folder: Path, project: Path, workers: int = 2, **environment: str) -> Iterator[Cluster]:
    """Start a scheduler with workers, and leave none of them behind."""
    running = Cluster(folder=folder, project=project)
    try:
        running.start_scheduler(**environment)
        for _ in range(workers):
            running.start_worker()
        yield running
    finally:
        running.stop()
