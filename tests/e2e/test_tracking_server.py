"""An outage and its end, with a real MLflow server: unreachable, kept, synced, once."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.e2e

GOLDEN = "trace_id,hate\n" + "".join(f"t{i},{i % 2}\n" for i in range(40))
SCORES = "trace_id,turn,hate\n" + "".join(f"t{i},0,{0.3 + 0.4 * (i % 2) + (i % 7) / 20:.2f}\n" for i in range(40))
INSTRUMENT = "name: safety\noptimism: {method: bootstrap, resamples: 20}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {"golden.csv": GOLDEN, "scores.csv": SCORES, "instrument.yaml": INSTRUMENT}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


Assay = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def assay(folder: Path, port: int) -> Assay:
    environment = {**os.environ, "ASSAY_DATA_DIR": str(folder / "data")}
    environment["ASSAY_TRACKING_URI"] = f"http://127.0.0.1:{port}"

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from flows.cli import main; main()", *arguments]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture
def start_server(folder: Path, port: int) -> Iterator[Callable[[], None]]:
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        command = [
            sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1",
            "--backend-store-uri", f"sqlite:///{folder / 'server.db'}",
            "--artifacts-destination", str(folder / "server-artifacts"),
        ]  # fmt: skip
        with (folder / "server.log").open("wb") as log:
            started.append(
                subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, start_new_session=True, env=os.environ)
            )
        wait_for(f"http://127.0.0.1:{port}/health")

    yield start
    for process in started:
        os.killpg(process.pid, 15)
        process.wait(timeout=30)


def wait_for(url: str, seconds: float = 90) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.2)
    pytest.fail(f"{url} did not answer within {seconds} s")


def test_an_outage_loses_nothing_and_doubles_nothing(
    assay: Assay, start_server: Callable[[], None], folder: Path, port: int
) -> None:
    calibrate = [
        "calibrate", "golden.csv", "--scores", "scores.csv", "--instrument", "instrument.yaml",
        "--promote", "--because", "the first", "-o", "calibration.json",
    ]  # fmt: skip
    down = assay(*calibrate)
    assert down.returncode == 4
    assert "calibration.json" in down.stderr
    assert "assay sync" in down.stderr
    assert "Traceback" not in down.stderr
    assert (folder / "calibration.json").is_file()
    assert assay("sync").returncode == 4

    start_server()
    synced = assay("sync")
    assert synced.returncode == 0, synced.stderr
    assert "registered: models:/safety/1 (champion)" in synced.stdout
    assert synced.stderr == ""
    assert "nothing waits" in assay("sync").stdout

    again = assay(*calibrate)
    assert again.returncode == 0, again.stderr
    assert "(was there)" in again.stdout

    (folder / "calibration.json").unlink()
    measured = assay("measure", "scores.csv", "--calibration", "models:/safety@champion", "-o", "m.json")
    assert measured.returncode == 0, measured.stderr
    assert measured.stderr == ""
    assert "models:/safety/1" in (folder / "m.json").read_text()
    for reference in ("models:/safety@champion", "m.json"):
        verified = assay("verify", reference)
        assert verified.returncode == 0, verified.stderr
    assert counted(port) == {"assay/calibration": 1, "assay/measurement": 3}  # release, its category, the timeline


def test_a_first_command_makes_its_database_without_a_word_and_leaves_nothing_where_it_runs(
    assay: Assay, folder: Path, port: int
) -> None:
    before = {path.name for path in folder.iterdir()}
    address = f"sqlite:///{folder / 'data' / 'mlflow.db'}"
    done = assay(
        "calibrate", "golden.csv", "--scores", "scores.csv", "-o", "c.json", "--json", "--tracking-uri", address
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["schema"] == "assay.calibration/1"
    assert [line.partition(":")[0] for line in done.stderr.splitlines()] == ["record", "tracked"]
    after = {path.name for path in folder.iterdir()}
    assert after - before == {"data", "c.json", "c.golden_maxima.parquet"}


def counted(port: int) -> dict[str, int]:
    from tasks.tracking.connection import connected

    with connected(f"http://127.0.0.1:{port}") as client:
        experiments: list[Any] = client.search_experiments(filter_string="name LIKE 'assay/%'")
        return {item.name: len(client.search_runs([item.experiment_id])) for item in experiments}
