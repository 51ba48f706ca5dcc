"""``assay measure`` on a real Dask scheduler with two worker processes: the record of one process, whatever is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.e2e.cluster import Cluster, cluster, until
from tests.flows.conftest import INSTRUMENT, golden_text, run_assay, scores_text

pytestmark = pytest.mark.e2e

N_FILES, TRACES_A_FILE = 1000, 30
ASSAY = "import sys; from flows.cli import main; main(sys.argv[1:])"


def production(folder: Path, n_files: int, traces_a_file: int) -> str:
    """Write files whose clusters span them, and in which every tenth file goes on with a trace of the one before."""
    folder.mkdir()
    draw = np.random.default_rng(9)
    for number in range(n_files):
        goes_on = number % 10 == 9
        rows = [f"t{number - 1}-{traces_a_file - 1},2,{c},0.9,v0" for c in ("hate", "violence")] if goes_on else []
        scores = draw.random((traces_a_file, 2, 2)).round(3)
        rows += [
            f"t{number}-{i},{turn},{c},{scores[i, turn, k]},v{i % 7 if i < traces_a_file - 1 else 0}"
            for i in range(traces_a_file) for turn in range(2) for k, c in enumerate(("hate", "violence"))
        ]  # fmt: skip
        (folder / f"part-{number:04d}.csv").write_text("\n".join(["trace_id,turn,category,score,cluster", *rows, ""]))
    return str(folder)


@dataclass(frozen=True)
class Place:
    """A calibration, a thousand small files, and the record that one process makes of them."""

    folder: Path
    project: Path
    calibration: Path
    files: str

    def start(self, files: str, name: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        command = [
            sys.executable, "-c", ASSAY, "measure", files, "--calibration", str(self.calibration),
            "-o", str(self.folder / f"{name}.json"), *options,
        ]  # fmt: skip
        known = {**os.environ, "PYTHONPATH": str(self.project), **environment}
        return subprocess.Popen(
            command, env=known, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def record(self, files: str, name: str, *options: str) -> Any:
        return self.ended(self.start(files, name, *options), name)

    def ended(self, process: subprocess.Popen[str], name: str) -> Any:
        _, told = process.communicate(timeout=300)
        assert (process.returncode, told) == (0, "")
        return json.loads((self.folder / f"{name}.json").read_text())

    def decisions(self, name: str) -> bytes:
        return (self.folder / f"{name}.decisions.parquet").read_bytes()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Place:
    folder = tmp_path_factory.mktemp("place")
    spec = INSTRUMENT.replace("name: small", "name: scaled")  # the certificate made here is no other test's
    for name, text in (("golden.csv", golden_text()), ("scores.csv", scores_text()), ("i.yaml", spec)):
        (folder / name).write_text(text)
    calibration = folder / "calibration.json"
    made = run_assay(
        "calibrate", folder / "golden.csv", "--scores", folder / "scores.csv", "--instrument", folder / "i.yaml",
        "-o", calibration,
    )  # fmt: skip
    assert made.code == 0, made.err
    files = production(folder / "small", N_FILES, TRACES_A_FILE)
    return Place(folder=folder, project=project, calibration=calibration, files=files)


@pytest.fixture(scope="module")
def two_workers(place: Place) -> Iterator[Cluster]:
    (place.folder / "dask").mkdir()
    with cluster(place.folder / "dask", place.project) as running:
        yield running


def test_a_thousand_files_give_one_record_here_in_processes_and_on_a_scheduler(
    place: Place, two_workers: Cluster
) -> None:
    before = two_workers.executed()
    here = place.record(place.files, "here")
    processes = place.record(place.files, "processes", "--workers", "2")
    there = place.record(place.files, "there", "--workers", two_workers.address)
    assert here["id"] == processes["id"] == there["id"]
    assert here["result"] == processes["result"] == there["result"]
    assert place.decisions("here") == place.decisions("processes") == place.decisions("there")
    assert here["result"]["n_traces"] == N_FILES * TRACES_A_FILE
    after = two_workers.executed()
    assert after.keys() == {process.pid for process in two_workers.processes[1:]}
    assert all(after[pid] - before[pid] > 2 for pid in after), "more than the question for its code"


def test_what_is_wrong_in_many_files_is_told_as_by_one_process(place: Place, two_workers: Cluster) -> None:
    folder = place.folder / "wrong"
    shutil.copytree(place.files, folder)
    for number in (3, 500, 999):
        path = folder / f"part-{number:04d}.csv"
        path.write_text(path.read_text() + "x,0,hate,7,v0\nx,0,hat,0.5,v0\n")
    told = []
    for options in ((), ("--workers", "2"), ("--workers", two_workers.address)):
        process = place.start(str(folder), "wrong", *options)
        told.append(process.communicate(timeout=300)[1])
        assert process.returncode == 2
    assert told[0] == told[1] == told[2]
    assert told[0].count("score 7 is outside [0, 1]") == told[0].count("unknown category 'hat'") == 3


def test_a_file_that_is_another_one_on_the_worker_is_refused(place: Place, two_workers: Cluster) -> None:
    (place.folder / "one.csv").write_text(scores_text(40, prefix="p"))
    stopped = [process.pid for process in two_workers.processes[1:]]
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        process = place.start(str(place.folder / "one.csv"), "one", "--workers", two_workers.address)
        held = lambda client: any("_itself" in key for key in client.run_on_scheduler(tasks))  # noqa: E731
        until(lambda: two_workers.ask(held), "work on the scheduler")
        (place.folder / "one.csv").write_text(scores_text(41, prefix="p"))
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    _, told = process.communicate(timeout=300)
    assert process.returncode == 2, told
    assert "has another file under this path (its SHA-256 differs)" in told


def tasks(dask_scheduler: Any) -> list[str]:
    return [str(key) for key in dask_scheduler.tasks]


def test_a_worker_that_is_killed_in_the_middle_is_survived(place: Place) -> None:
    files = production(place.folder / "large", 120, 1000)
    here = place.record(files, "large-here")
    (place.folder / "lossy").mkdir()
    with cluster(place.folder / "lossy", place.project) as lossy, lossy.client() as client:
        doomed = lossy.processes[-1]
        (address,) = [a for a, pid in client.run(os.getpid).items() if pid == doomed.pid]
        process = place.start(files, "large-there", "--workers", lossy.address)

        def has_parts() -> bool:
            return any("_run" in str(key) for key in client.processing([address])[address])

        until(has_parts, "part on the worker that is to be killed")
        os.kill(doomed.pid, signal.SIGSTOP)  # so that what it has now is not finished
        assert has_parts()
        until(lambda: client.who_has() or process.poll() is not None, "outcome of the other worker")
        doomed.kill()
        there = place.ended(process, "large-there")
        assert len(client.nthreads()) == 1
    assert there["id"] == here["id"]
    assert place.decisions("large-there") == place.decisions("large-here")


@pytest.mark.parametrize(
    ("scheduler", "worker", "expected"),
    [
        ("same", "changed", "a worker runs other code than this process (assay "),
        ("same", "none", "the worker cannot run assay"),
        ("none", "same", "assay has to be installed where it runs, too"),
    ],
)
def test_a_scheduler_or_workers_with_other_code_are_refused_before_they_get_work(
    place: Place, tmp_path: Path, scheduler: str, worker: str, expected: str
) -> None:
    trees = {"same": place.project, "changed": tmp_path / "changed", "none": tmp_path / "none"}
    for name in ("core", "tasks", "flows"):
        shutil.copytree(place.project / name, trees["changed"] / name, ignore=shutil.ignore_patterns("__pycache__"))
    with (trees["changed"] / "core" / "errors.py").open("a") as file:
        file.write("# another version\n")
    (trees["none"] / "tasks").mkdir(parents=True)
    (trees["none"] / "tasks" / "__init__.py").write_text("")  # something else of this name is found first
    with cluster(tmp_path, place.project, 0, PYTHONPATH=str(trees[scheduler])) as running:
        running.start_worker(PYTHONPATH=str(trees[worker]))
        process = place.start(str(place.folder / "scores.csv"), "other", "--workers", running.address)
        _, told = process.communicate(timeout=300)
    assert process.returncode == 2, told
    assert expected in told
    assert "Traceback" not in told


def test_a_scheduler_out_of_reach_ends_with_exit_code_4_within_seconds(place: Place) -> None:
    began = time.monotonic()
    process = place.start(place.files, "nobody", "--workers", "tcp://127.0.0.1:9")
    _, told = process.communicate(timeout=300)
    assert process.returncode == 4
    assert told.startswith("error: the Dask scheduler at tcp://127.0.0.1:9 does not answer within 10 s")
    assert time.monotonic() - began < 120


def test_a_certificate_is_the_same_on_a_scheduler(place: Place, two_workers: Cluster) -> None:
    def certified(name: str, workers: str) -> Any:
        options: Sequence[str] = ("--replications", "4", "--units", "60", "--workers", workers)
        made = run_assay("simulate", "--calibration", place.calibration, *options, "-o", place.folder / name, "--json")
        assert made.code == 0, made.err
        return made.record

    assert certified("c1.json", "1")["id"] == certified("c2.json", two_workers.address)["id"]


def test_certificates_of_dasks_configuration_are_used(place: Place, tmp_path: Path) -> None:
    tls = certificates(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in tls.items():
            patch.setenv(name, value)
        running = Cluster(folder=tmp_path, project=place.project)
        try:
            running.start_scheduler(protocol="tls")
            running.start_worker(wait=False)
            assert running.address.startswith("tls://")
            there = place.record(str(place.folder / "scores.csv"), "tls", "--workers", running.address)
            for name in tls:
                patch.delenv(name)
            bare = place.start(str(place.folder / "scores.csv"), "bare", "--workers", running.address)
            _, told = bare.communicate(timeout=300)
        finally:
            running.stop()
    assert there["id"] == place.record(str(place.folder / "scores.csv"), "not-tls")["id"]
    assert bare.returncode == 2
    assert "tls:// needs certificates" in told


def certificates(folder: Path) -> dict[str, str]:
    """Make a certificate that signs itself, for both ends, and name it in Dask's variables."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dask")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(1).not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True).sign(key, hashes.SHA256())
    )  # fmt: skip
    pem = folder / "tls.pem"
    pem.write_bytes(made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ))  # fmt: skip
    parts = ["CA_FILE", *(f"{role}__{what}" for role in ("SCHEDULER", "WORKER", "CLIENT") for what in ("CERT", "KEY"))]
    return {f"DASK_DISTRIBUTED__COMM__TLS__{part}": str(pem) for part in parts}
