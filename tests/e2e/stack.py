"""The local stack for tests: started by `assay up` as a user would, on free ports, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tasks.platform import postgres
from tasks.platform.environment import PORTS, Database, Stack, load
from tasks.platform.readiness import is_ready
from tasks.platform.stack import environment_for

PROJECT = Path(__file__).resolve().parents[2]
READY_SECONDS, STOP_SECONDS = 300.0, 150.0
MAIN = "import sys; from flows.cli import main; main(sys.argv[1:])"


def best_database() -> Database:
    """PostgreSQL where it is installed."""
    return "sqlite" if postgres.programs() is None else "postgresql"


def free_ports() -> int:
    """The first of as many free ports in a row as a stack takes."""
    while True:
        first = random.SystemRandom().randrange(20_000, 30_000)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + len(PORTS)):
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first


@contextlib.contextmanager
def stack_folder() -> Iterator[Path]:
    """A folder that PostgreSQL's account may pass through, which pytest's own it may not."""
    folder = Path(tempfile.mkdtemp(prefix="assay-stack-"))
    folder.chmod(0o711)
    try:
        yield folder / "stack"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def until(found: Callable[[], Any], seconds: float, what: str) -> Any:
    """Wait until something is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(httpx.HTTPError):
            if value := found():
                return value
        time.sleep(0.5)
    raise AssertionError(f"no {what} within {seconds:g} s")


def tags_of(run: Mapping[str, Any]) -> dict[str, str]:
    """Tags of a run of MLflow, or of a version of a model, as a mapping."""
    return {tag["key"]: tag["value"] for tag in run.get("data", run).get("tags", [])}


@dataclass
class RunningStack:
    """A stack that runs; `environment` is what a client or a command needs.

    For tests of outages `kill(service)` ends one process at once, and `assay up` starts it again; within
    `down(services)` it does not, and one that is `hanging` stays silent.
    """

    folder: Path
    process: subprocess.Popen[bytes]
    log: Path
    stack: Stack = field(init=False)
    environment: dict[str, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.stack = load(self.folder)
        own = environment_for(self.stack)
        client = self.stack.client_variables()
        public = {name: value for name, value in own.items() if name not in self.stack.all_variables()}
        self.environment = {**public, **client, "PREFECT_RUNNER_POLL_FREQUENCY": "1"}

    @property
    def api(self) -> str:
        return self.environment["PREFECT_API_URL"]

    @property
    def mlflow(self) -> str:
        return self.environment["MLFLOW_TRACKING_URI"]

    @property
    def prefect_auth(self) -> tuple[str, str]:
        user, _, password = self.stack.secret("PREFECT_API_AUTH_STRING").partition(":")
        return user, password

    @property
    def mlflow_auth(self) -> tuple[str, str]:
        return self.environment["MLFLOW_TRACKING_USERNAME"], self.stack.secret("MLFLOW_TRACKING_PASSWORD")

    def run(
        self, *arguments: str, seconds: float = 240, without: Sequence[str] = (), more: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run an assay command as a client of the stack."""
        environment = {name: value for name, value in self.environment.items() if name not in without} | dict(
            more or {}
        )
        return subprocess.run(
            [sys.executable, "-c", MAIN, *arguments], cwd=PROJECT, env=environment, capture_output=True, text=True,
            timeout=seconds,
        )  # fmt: skip

    def assay(self, *arguments: str, **given: Any) -> str:
        """Run an assay command, which has to end well; without Prefect unless it needs it."""
        given.setdefault("without", ("PREFECT_API_URL",) if arguments[0] not in ("event", "doctor") else ())
        done = self.run(*arguments, **given)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def flow_runs(self, flow: str) -> list[dict[str, Any]]:
        """All runs of a flow, oldest first."""
        wanted = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_ASC"}
        answer = httpx.post(f"{self.api}/flow_runs/filter", json=wanted, auth=self.prefect_auth, timeout=30)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found

    def mlflow_runs(self, experiment: str) -> list[dict[str, Any]]:
        """All runs of an experiment."""
        with httpx.Client(base_url=f"{self.mlflow}/api/2.0/mlflow", auth=self.mlflow_auth, timeout=60) as client:
            found = client.get("/experiments/get-by-name", params={"experiment_name": experiment})
            if found.status_code == 404:
                return []
            number = found.raise_for_status().json()["experiment"]["experiment_id"]
            answer = client.post("/runs/search", json={"experiment_ids": [number], "max_results": 1000})
            return list(answer.raise_for_status().json().get("runs", []))

    def aliases(self, model: str) -> dict[str, str]:
        """Aliases of a registered model with their versions."""
        answer = httpx.get(
            f"{self.mlflow}/api/2.0/mlflow/registered-models/get", params={"name": model}, auth=self.mlflow_auth,
            timeout=60,
        )  # fmt: skip
        found = answer.raise_for_status().json()["registered_model"]
        return {item["alias"]: item["version"] for item in found.get("aliases", [])}

    def objects(self, bucket: str = "assay", prefix: str = "") -> list[str]:
        """Keys of a bucket, as its administrator sees them."""
        from tasks.storage import buckets

        client = buckets.connect(buckets.Keys.of(self.stack.all_variables(), "ASSAY_STACK_S3_ADMIN_"))
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def gives_objects(self) -> bool:
        """Whether object storage gives what it holds; after a crash it answers some seconds before it does."""
        from botocore.exceptions import BotoCoreError, ClientError

        from tasks.storage import buckets

        client = buckets.connect(buckets.Keys.of(self.environment))
        try:
            for key in self.objects(prefix="records/")[:1]:
                client.get_object(Bucket="assay", Key=key)["Body"].read()
        except (BotoCoreError, ClientError):
            return False
        return True

    def record(self, record_id: str) -> dict[str, Any]:
        """A record from the bucket."""
        from tasks.storage import buckets

        client = buckets.connect(buckets.Keys.of(self.environment))
        body = client.get_object(Bucket="assay", Key=f"records/{record_id}.json")["Body"].read()
        found: dict[str, Any] = json.loads(body)
        return found

    def pids(self) -> dict[int, str]:
        """All processes below `assay up`, with their command lines."""
        import psutil

        try:
            below = psutil.Process(self.process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return {}
        found = {}
        for item in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                found[item.pid] = " ".join(item.cmdline())
        return found

    def main_process(self, service: str) -> int:
        """The process id of a service; those that it started are in its group."""
        marks = {
            "postgres": "bin/postgres -D", "s3": "weed server", "mlflow": "mlflow server",
            "prefect": "prefect server start", "worker": "prefect worker start",
        }  # fmt: skip
        found = [pid for pid, line in self.pids().items() if marks[service] in line]
        assert found, f"no process of {service}"
        return min(found)

    def kill(self, service: str) -> int:
        """End a service's main process at once, as a crash would; return its process id."""
        process = self.main_process(service)
        os.kill(process, signal.SIGKILL)
        return process

    @contextlib.contextmanager
    def down(self, *services: str) -> Iterator[None]:
        """Services that are down for everybody: ended, and not started again before the block ends.

        `assay up` sleeps meanwhile. Afterwards it does its work, and all answer again.
        """
        self.process.send_signal(signal.SIGSTOP)
        try:
            for service in services:
                # PostgreSQL's own processes are in groups of their own: it ends them itself, without tidying up.
                number = signal.SIGQUIT if service == "postgres" else signal.SIGKILL
                os.killpg(self.main_process(service), number)
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)
        environment = environment_for(self.stack)
        for service in services:
            until(lambda service=service: is_ready(service, environment), READY_SECONDS, f"{service} after its outage")
        if "s3" in services:
            until(self.gives_objects, READY_SECONDS, "object from object storage after its outage")

    @contextlib.contextmanager
    def hanging(self, service: str) -> Iterator[None]:
        """A service that takes connections and never answers, until the block ends."""
        group = self.main_process(service)
        os.killpg(group, signal.SIGSTOP)
        try:
            yield
        finally:
            os.killpg(group, signal.SIGCONT)

    def stop(self, number: int = signal.SIGINT) -> int:
        """Stop the stack as Ctrl-C does; return the exit code of `assay up`."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(timeout=STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)  # its services end with it
            self.process.wait(timeout=30)
            raise


@contextlib.contextmanager
def running_stack(
    folder: Path, *, database: Database | None = None, first_port: int | None = None,
    more: Mapping[str, str] | None = None,
) -> Iterator[RunningStack]:  # fmt: skip
    """Start a stack in a folder and stop it afterwards; a folder that had one has its data again."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.parent / "up.log"
    began = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-c", MAIN, "up", "--folder", str(folder)]
    if not (folder / ".env").exists():
        command += ["--database", database or best_database(), "--ports", str(first_port or free_ports())]
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command, cwd=PROJECT, env={**os.environ, **(more or {})}, stdout=stream, stderr=stream,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    running: RunningStack | None = None
    try:
        end = time.monotonic() + READY_SECONDS
        while "Ctrl-C stops everything." not in (told := log.read_text()[began:]):
            assert process.poll() is None, f"assay up ended with {process.returncode}:\n{told}"
            assert time.monotonic() < end, f"assay up was not ready within {READY_SECONDS:g} s:\n{told}"
            time.sleep(0.3)
        running = RunningStack(folder=folder, process=process, log=log)
        yield running
    finally:
        if running is not None:
            running.stop()
        elif process.poll() is None:
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=STOP_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
