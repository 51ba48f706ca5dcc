"""The platform with real processes: Prefect server and worker, MLflow server, object storage, both events."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.builtin.starter import write_demo

pytestmark = pytest.mark.e2e

RELEASE = "guard-x@1.2"


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def until(found: Callable[[], Any], seconds: float, what: str) -> Any:
    """Wait until something is there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if value := found():
                return value
        except httpx.HTTPError:
            pass
        time.sleep(0.25)
    raise AssertionError(f"no {what} within {seconds:g} s")


@dataclass(frozen=True)
class Platform:
    """A running platform."""

    project: Path
    environment: Mapping[str, str]
    api: str
    bucket: str

    def run(self, *command: str, seconds: float = 180) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", *command], cwd=self.project, env=dict(self.environment), capture_output=True,
            text=True, timeout=seconds,
        )  # fmt: skip

    def assay(self, *arguments: str) -> str:
        code = "import sys; from flows.cli import main; main(sys.argv[1:])"
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], cwd=self.project, env=dict(self.environment),
            capture_output=True, text=True, timeout=180,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    def runs(self, flow: str) -> list[dict[str, Any]]:
        """All runs of a flow, oldest first."""
        wanted = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_ASC"}
        answer = httpx.post(f"{self.api}/flow_runs/filter", json=wanted, timeout=30)
        found: list[dict[str, Any]] = answer.raise_for_status().json()
        return found

    def finished(self, flow: str, count: int) -> list[dict[str, Any]]:
        """Wait until so many runs of a flow have ended, and see that all ended well."""
        ended = {"COMPLETED", "FAILED", "CRASHED", "CANCELLED"}

        def enough() -> list[dict[str, Any]]:
            done = [run for run in self.runs(flow) if run["state_type"] in ended]
            return done if len(done) >= count else []

        done: list[dict[str, Any]] = until(enough, 120, f"{count} ended runs of {flow}")
        assert {run["state_type"] for run in done} == {"COMPLETED"}, done
        return done

    def artifacts(self, run: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
        answer = httpx.post(f"{self.api}/artifacts/filter", json=wanted, timeout=30)
        return {item["key"]: item["data"] for item in answer.raise_for_status().json() if item["key"]}


@pytest.fixture(scope="module")
def platform(project: Path, object_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    folder = tmp_path_factory.mktemp("platform")
    prefect, mlflow, bucket = free_port(), free_port(), "lab"
    object_server.client.create_bucket(Bucket=bucket)
    environment = {
        **os.environ, **object_server.environment,
        "PREFECT_HOME": str(folder / "prefect"), "PREFECT_API_URL": f"http://127.0.0.1:{prefect}/api",
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false", "PREFECT_WORKER_QUERY_SECONDS": "1",
        "PREFECT_RUNNER_POLL_FREQUENCY": "1", "ASSAY_HOME": str(project),
        "ASSAY_DATA_DIR": str(folder / "data"), "ASSAY_CACHE_DIR": str(folder / "cache"),
        "ASSAY_RECORDS": f"s3://{bucket}/records", "ASSAY_TRACKING_URI": f"http://127.0.0.1:{mlflow}",
    }  # fmt: skip
    started: list[subprocess.Popen[bytes]] = []

    def start(name: str, *command: str) -> None:
        with (folder / f"{name}.log").open("wb") as log:
            started.append(subprocess.Popen(
                [sys.executable, "-m", *command], env=environment, cwd=project, stdout=log, stderr=log,
                start_new_session=True,
            ))  # fmt: skip

    running = Platform(project=project, environment=environment, api=environment["PREFECT_API_URL"], bucket=bucket)
    try:
        start("prefect", "prefect", "server", "start", "--host", "127.0.0.1", "--port", str(prefect))
        start(
            "mlflow", "mlflow", "server", "--host", "127.0.0.1", "--port", str(mlflow), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}",
            "--artifacts-destination", str(folder / "artifacts"),
        )  # fmt: skip
        until(lambda: httpx.get(f"{running.api}/health").is_success, 120, "Prefect server")
        until(lambda: httpx.get(f"http://127.0.0.1:{mlflow}/health").is_success, 120, "MLflow server")
        deploy(running)
        start("worker", "prefect", "worker", "start", "--pool", "assay")
        pool = f"{running.api}/work_pools/assay/workers/filter"
        until(lambda: httpx.post(pool, json={}).raise_for_status().json(), 60, "worker")
        upload(running, object_server.client, folder)
        yield running
    finally:
        for process in reversed(started):
            os.killpg(process.pid, 15)
        for process in started:
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)


def deploy(running: Platform) -> None:
    for command in (
        ("prefect", "work-pool", "create", "assay", "--type", "process"),
        ("prefect", "--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml"),
    ):
        done = running.run(*command)
        assert done.returncode == 0, done.stdout + done.stderr


def upload(running: Platform, client: Any, folder: Path) -> None:
    """Put the built-in golden suite and a release's scores into the bucket."""
    paths = write_demo(folder / "demo")
    client.upload_file(str(paths["golden"]), running.bucket, "golden.parquet")
    scores = folder / "scores.parquet"
    running.assay("judge", "lexical", str(paths[RELEASE]), "-o", str(scores))
    client.upload_file(str(scores), running.bucket, "scores.parquet")


def judge_changed(running: Platform, event_id: str) -> None:
    running.assay(
        "event", "judge-changed", "--judge", "lexical@1", "--instrument", "safety",
        "--golden", f"s3://{running.bucket}/golden.parquet", "--event-id", event_id,
    )  # fmt: skip


def model_released(running: Platform) -> None:
    running.assay(
        "event", "model-released", "--target", RELEASE, "--instrument", "safety",
        "--scores", f"s3://{running.bucket}/scores.parquet",
    )  # fmt: skip


def record_of(running: Platform, run: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The record that a run's artifact names, from the bucket."""
    text = running.artifacts(run)[kind]
    record_id = text.rpartition("Record `")[2].partition("`")[0]
    import boto3

    client = boto3.client(
        "s3", endpoint_url=running.environment["AWS_ENDPOINT_URL"], region_name="us-east-1",
        aws_access_key_id=running.environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=running.environment["AWS_SECRET_ACCESS_KEY"],
    )  # fmt: skip
    body = client.get_object(Bucket=running.bucket, Key=f"records/{record_id}.json")["Body"].read()
    document: dict[str, Any] = json.loads(body)
    assert document["id"] == record_id
    return document


def versions_of(running: Platform) -> list[dict[str, Any]]:
    address = f"{running.environment['ASSAY_TRACKING_URI']}/api/2.0/mlflow/model-versions/search"
    found = httpx.get(address, params={"filter": "name='safety'"}, timeout=30).json()
    return list(found.get("model_versions", []))


def test_events_calibrate_and_measure_and_every_figure_verifies(platform: Platform) -> None:
    # A release before any calibration: the raw rate alone, and the judge is announced as changed.
    model_released(platform)
    (raw,) = platform.finished("measure", 1)
    assert raw["name"] == f"measure {RELEASE}"
    uncalibrated = record_of(platform, raw, "measurement")["result"]
    assert uncalibrated["composite"]["prevalence"]["status"] == "not_calibrated"
    assert uncalibrated["composite"]["observed_rate"] is not None
    assert any("has no champion" in note for note in uncalibrated["notes"])
    assert len(platform.runs("calibrate")) <= 1  # announced, without a golden set to calibrate on

    # The judge has changed: the golden texts are judged, and the calibration is a challenger. The same event twice is
    # one run, and the same change announced again gives no second calibration.
    golden = f"s3://{platform.bucket}/golden.parquet"
    event_id = str(uuid.uuid4())
    judge_changed(platform, event_id)

    def begun() -> list[dict[str, Any]]:
        meant = [run for run in platform.runs("calibrate") if run["parameters"]["golden"] == [golden]]
        return [run for run in meant if run["start_time"] is not None]

    # Some six seconds on a quiet machine with this polling; the bound leaves room for a busy one.
    assert until(begun, 120, "running calibration after the event")
    judge_changed(platform, event_id)
    judge_changed(platform, str(uuid.uuid4()))

    def calibrated() -> list[dict[str, Any]]:
        done = [run for run in platform.runs("calibrate") if run["state_type"] == "COMPLETED"]
        return done if len(done) == 2 else []

    first, second = until(calibrated, 120, "two completed calibrations")
    calibration = record_of(platform, first, "calibration")
    assert record_of(platform, second, "calibration")["id"] == calibration["id"]
    assert [version["version"] for version in versions_of(platform)] == ["1"]
    assert calibration["result"]["judge"]["fingerprint"] != "unknown"
    assert platform.artifacts(first)["calibration-categories"]

    # Promoted, it measures the release.
    environment = {**platform.environment}
    environment.pop("PREFECT_API_URL")
    direct = Platform(project=platform.project, environment=environment, api=platform.api, bucket=platform.bucket)
    told = direct.assay(
        "calibrate", golden, "--judge", "lexical", "--instrument", "deployments/specs/safety.yaml",
        "--promote", "--because", "the first one", "--json",
    )  # fmt: skip
    assert json.loads(told)["id"] == calibration["id"]  # one composition, two runners
    model_released(platform)
    _, measured = platform.finished("measure", 2)
    document = record_of(platform, measured, "measurement")
    assert document["result"]["calibration"]["id"] == calibration["id"]
    assert document["result"]["composite"]["prevalence"]["status"] in ("measured", "inconclusive")
    assert "Corrected rate" in platform.artifacts(measured)["measurement"]
    assert [item["uri"] for item in document["inputs"] if item["role"] == "calibration"] == ["models:/safety/1"]

    for record in (calibration["id"], document["id"]):
        assert "verified" in direct.assay("verify", f"s3://{platform.bucket}/records/{record}.json")
    assert "verified" in direct.assay("verify", "models:/safety@champion")
