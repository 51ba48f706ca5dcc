"""`assay up` with real processes: up, closed to strangers, measured through, looked at, stopped, started, restored."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.builtin.starter import write_starter
from tests.e2e.stack import PROJECT, RunningStack, running_stack, stack_folder, until

pytestmark = pytest.mark.e2e

PLANTED = "hunter2-planted-in-the-environment"


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with stack_folder() as found:
        yield found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("starter")
    write_starter(folder)
    return folder


def refused(stack: RunningStack) -> dict[str, int]:
    """What strangers are told by each server."""
    api, mlflow = stack.api, stack.mlflow
    return {
        "prefect": httpx.post(f"{api}/flow_runs/filter", json={}, timeout=30).status_code,
        "prefect, wrong": httpx.post(
            f"{api}/flow_runs/filter", json={}, auth=("assay", "wrong"), timeout=30
        ).status_code,
        "mlflow": httpx.get(f"{mlflow}/api/2.0/mlflow/registered-models/search", timeout=30).status_code,
        "mlflow, wrong": httpx.get(
            f"{mlflow}/api/2.0/mlflow/registered-models/search", auth=("admin", "password1234"), timeout=30
        ).status_code,
        "mlflow page": httpx.get(mlflow, timeout=30).status_code,
        "s3": httpx.get(f"{stack.environment['AWS_ENDPOINT_URL']}/assay", timeout=30).status_code,
        "filer": httpx.get(f"http://127.0.0.1:{stack.stack.port('SEAWEED_FILER')}/", timeout=30).status_code,
        "volume": httpx.get(f"http://127.0.0.1:{stack.stack.port('SEAWEED_VOLUME')}/1,0123", timeout=30).status_code,
    }


def leaks(stack: RunningStack, *more: Path) -> list[str]:
    """Files outside the two that are meant to hold secrets, and process arguments, in which a secret stands."""
    secrets = {value.get_secret_value().removeprefix("assay:") for value in stack.stack.secrets.values()} | {PLANTED}
    pattern = re.compile("|".join(map(re.escape, sorted(secrets))).encode())
    found = []
    for place in (stack.folder / "logs", stack.folder / "data", stack.folder / "cache", stack.log, *more):
        files = [place] if place.is_file() else [item for item in place.rglob("*") if item.is_file()]
        found += [str(file) for file in files if pattern.search(file.read_bytes())]
    found += [line for line in stack.pids().values() if pattern.search(line.encode())]
    found += [what for what, text in told_by_servers(stack) if pattern.search(text.encode())]
    return found


def told_by_servers(stack: RunningStack) -> Iterator[tuple[str, str]]:
    """What everybody with a password may read: runs, parameters, artifacts, logs, tags, addresses."""
    for kind in ("flow_runs", "logs", "artifacts", "deployments", "work_pools", "automations"):
        answer = httpx.post(f"{stack.api}/{kind}/filter", json={}, auth=stack.prefect_auth, timeout=60)
        yield kind, answer.raise_for_status().text
    for experiment in ("assay/calibration", "assay/measurement"):
        runs = stack.mlflow_runs(experiment)
        assert runs
        yield experiment, json.dumps(runs)


def test_the_stack_is_closed_measures_is_well_stops_cleanly_and_is_restored(
    folder: Path, data: Path, tmp_path: Path
) -> None:
    with running_stack(folder, more={"OTHER_SERVICE_PASSWORD": PLANTED}) as stack:
        assert set(refused(stack).values()) <= {401, 403}, refused(stack)
        assert not [file for file in folder.iterdir() if file.is_file() and file.stat().st_mode & 0o077]
        unknown = stack.run("verify", "models:/nobody@champion", without=("PREFECT_API_URL",))
        assert (unknown.returncode, "leads nowhere" in unknown.stderr) == (2, True), unknown.stderr
        calibration = calibrated(stack, data)
        measurement = measured_by_the_worker(stack, data, tmp_path)
        report = stack.run("doctor", "--json", "--folder", str(folder))
        assert report.returncode == 0, report.stdout
        examined = json.loads(report.stdout)
        assert examined["verdict"] == "ok", report.stdout
        assert {"worker", "records", "champion safety", "prefect database"} <= {
            item["check"] for item in examined["findings"]
        }
        copied = tmp_path / "copied"  # objects, to look for secrets in them
        done = subprocess.run(
            [sys.executable, "-m", "tasks.platform", "backup", str(copied), "--folder", str(folder)],
            cwd=PROJECT, env=dict(stack.environment), capture_output=True, text=True, timeout=240,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert leaks(stack, copied / "objects") == []
        taken = subprocess.run(
            [sys.executable, "-c", "from flows.cli import main; main()", "up", "--folder", str(folder)],
            cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert (taken.returncode, "a stack runs here already" in taken.stderr) == (2, True), taken.stderr
        before = stack.pids()
        assert len(before) >= 5
        assert stack.stop(signal.SIGINT) == 0
        assert [line for pid, line in before.items() if Path(f"/proc/{pid}").exists()] == []
        assert stack.log.read_text().rstrip().endswith("stopped")

    # What the folder held is gone; the backup brings it back, and what the restored stack has kept, it finds again.
    shutil.rmtree(folder)
    done = subprocess.run(
        [sys.executable, "-m", "tasks.platform", "restore", str(copied), "--folder", str(folder)],
        cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with running_stack(folder) as stack:
        assert set(refused(stack).values()) <= {401, 403}
        assert stack.record(calibration)["id"] == calibration
        assert stack.record(measurement)["id"] == measurement
        assert len(stack.mlflow_runs("assay/calibration")) == 1
        assert stack.mlflow_runs("assay/measurement")
        assert stack.aliases("safety") == {"champion": "1", "challenger": "1"}
        assert [run["state_type"] for run in stack.flow_runs("measure")] == ["COMPLETED"]
        assert "verified" in stack.assay("verify", "models:/safety@champion")


def calibrated(stack: RunningStack, data: Path) -> str:
    """Calibrate and promote; the id of the record, which is in the bucket."""
    told = stack.assay(
        "calibrate", str(data / "golden.csv"), "--judge", "lexical", "--instrument", str(data / "instrument.yaml"),
        "--promote", "--because", "the first one", "--json",
    )  # fmt: skip
    record_id = str(json.loads(told)["id"])
    assert f"records/{record_id}.json" in stack.objects()
    (run,) = stack.mlflow_runs("assay/calibration")
    assert run["info"]["status"] == "FINISHED"
    return record_id


def measured_by_the_worker(stack: RunningStack, data: Path, folder: Path) -> str:
    """An event reaches the worker, which measures with what it finds in the environment that it was given."""
    scores = folder / "scores.parquet"
    stack.assay("judge", "lexical", str(data / "conversations.csv"), "-o", str(scores))
    before = set(stack.objects(prefix="records/"))
    stack.assay(
        "event", "model-released", "--target", "bot@2", "--scores", str(scores),
        "--instrument", str(data / "instrument.yaml"),
    )  # fmt: skip

    def ended() -> list[dict[str, Any]]:
        return [run for run in stack.flow_runs("measure") if run["end_time"]]

    (run,) = until(ended, 180, "ended measurement")
    assert run["state_type"] == "COMPLETED", run
    assert stack.mlflow_runs("assay/measurement")
    (made,) = [key for key in set(stack.objects(prefix="records/")) - before if key.endswith(".json")]
    return made.removeprefix("records/").removesuffix(".json")


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    from tests.e2e.stack import free_ports

    first = free_ports()
    with socket.socket() as other:
        other.bind(("127.0.0.1", first + 1))
        other.listen()
        done = subprocess.run(
            [sys.executable, "-c", "from flows.cli import main; main()", "up", "--folder", str(tmp_path / "stack"),
             "--database", "sqlite", "--ports", str(first)],
            cwd=PROJECT, env=dict(os.environ), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
    assert done.returncode == 2
    assert f"port {first + 1} (mlflow)" in done.stderr
    assert "--ports FIRST" in done.stderr
