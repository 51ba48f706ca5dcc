"""kill -9 in the middle of the work: what was cut off is told, the queue goes on, and a rerun finishes the same record.

A lost Dask worker is in test_dask.py; a record or object that is cut off while it is written, in tests/tasks/storage.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import json
import os
import random
import re
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil
import pytest

from core.records import parse
from tests.e2e.stack import RunningStack, running_stack, stack_folder, tags_of, until

pytestmark = pytest.mark.e2e

CRASHED_WITHIN = 120.0
"""Seconds after a kill in which the run has to be Crashed."""

LIMIT = 300.0
ENDED = ("COMPLETED", "CRASHED", "FAILED", "CANCELLED")
SERVER_LOST = re.compile(r"Connect(ion)?(Error|Timeout)|RemoteProtocolError|ReadError|ReadTimeout|HTTPStatusError")
TRACES, CATEGORIES, RESAMPLES, REPLICATIONS = 6_000, 6, 100_000, 1_000
"""A calibration of some ten seconds, and a simulation of some fifteen on two cores."""

POSTED = "PREFECT__FLOW_RUN_ID"
SEED = "ASSAY_CRASH_SEED"


@dataclass
class Jobs:
    """Runs of deployments: started, looked at, and ended before their time."""

    stack: RunningStack
    folder: Path

    def __post_init__(self) -> None:
        rng = np.random.default_rng(1)
        names = [f"c{number}" for number in range(CATEGORIES)]
        labels = rng.integers(0, 2, (TRACES, CATEGORIES))
        scores = 1 / (1 + np.exp(-(3 * labels - 1.5 + rng.normal(size=labels.shape))))
        ids = [f"t{number}" for number in range(TRACES)]
        for name, cells in (("golden", labels.astype(str)), ("scores", np.char.mod("%.6f", scores))):
            rows = [
                ",".join(["trace_id", *names]),
                *(",".join([id_, *row]) for id_, row in zip(ids, cells, strict=True)),
            ]
            (self.folder / f"{name}.csv").write_text("\n".join([*rows, ""]))

    def calibration(self, seed: int) -> dict[str, Any]:
        """Parameters of a calibration that is like no other."""
        instrument = self.folder / f"safety-{seed}.yaml"
        instrument.write_text(f"name: safety\nseed: {seed}\noptimism: {{method: bootstrap, resamples: {RESAMPLES}}}\n")
        files = {name: [str(self.folder / f"{name}.csv")] for name in ("golden", "scores")}
        return {**files, "instrument": str(instrument)}

    def expected(self, job: dict[str, Any]) -> str:
        """The id of a calibration's record, by a run that nobody ends and that leaves nothing in the stack."""
        output = self.folder / f"expected-{Path(job['instrument']).stem}.json"
        self.stack.assay(
            "calibrate", *job["golden"], "--scores", *job["scores"], "--instrument", job["instrument"], "-o",
            str(output), "--tracking-uri", "none",
        )  # fmt: skip
        return str(json.loads(output.read_text())["id"])

    def ask(self, method: str, path: str, **content: Any) -> Any:
        answer = httpx.request(method, f"{self.stack.api}{path}", auth=self.stack.prefect_auth, timeout=30, **content)
        return answer.raise_for_status().json()

    def start(self, deployment: str, parameters: dict[str, Any]) -> str:
        found = self.ask("GET", f"/deployments/name/{deployment}/{deployment}")
        made = self.ask(
            "POST", f"/deployments/{found['id']}/create_flow_run",
            json={"parameters": parameters, "state": {"type": "SCHEDULED"}},
        )  # fmt: skip
        return str(made["id"])

    def state(self, run: str) -> str:
        return str(self.ask("GET", f"/flow_runs/{run}")["state_type"])

    def reached(self, run: str, *states: str, seconds: float = LIMIT) -> str:
        """Wait until a run is in one of those states."""

        def found() -> str:
            state = self.state(run)
            return state if state in states else ""

        return str(until(found, seconds, f"run {run} in {' or '.join(states)}"))

    def ended(self, run: str, seconds: float = LIMIT, *, server_killed: bool = False) -> str:
        """Wait for a run that lost the worker or the server: it need not go on without, but it may not hang.

        One whose server was away for longer than it asks again may be FAILED, if its message says so.
        """
        self.reached(run, *ENDED, seconds=seconds)
        state = self.ask("GET", f"/flow_runs/{run}")["state"]
        lost = server_killed and state["type"] == "FAILED" and SERVER_LOST.search(state["message"] or "")
        assert state["type"] in ("COMPLETED", "CRASHED") or lost, (state["type"], state["message"])
        return str(state["type"])

    def processes(self, *runs: str) -> list[int]:
        """Processes of the runs, those that they started in turn among them."""
        found = []
        for pid in self.stack.pids():
            with contextlib.suppress(psutil.Error):
                if psutil.Process(pid).environ().get(POSTED) in runs:
                    found.append(pid)
        return found

    def process(self, run: str) -> int:
        """The process of a run itself."""
        pids = self.processes(run)
        return next(pid for pid in pids if psutil.Process(pid).ppid() not in pids)


def killed(*pids: int) -> float:
    """End processes at once; return when."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    return time.monotonic()


def left(at: float) -> float:
    """Seconds in which a run has to be told Crashed whose process, worker or server was killed then."""
    return CRASHED_WITHIN - (time.monotonic() - at)


def whole_records(stack: RunningStack) -> dict[str, dict[str, Any]]:
    """All records of the bucket by id; every one is whole, and so is every file that it names."""
    from tasks.storage import buckets

    client = buckets.connect(buckets.Keys.of(stack.environment))

    def content(key: str) -> bytes:
        return bytes(client.get_object(Bucket="assay", Key=key)["Body"].read())

    found = {}
    for key in stack.objects(prefix="records/"):
        if not key.endswith(".json"):
            continue
        document = parse(content(key).decode(), source=key)
        assert key == f"records/{document['id']}.json"
        for item in document["outputs"]:
            assert hashlib.sha256(content(f"records/{item['uri']}")).hexdigest() == item["sha256"], key
        found[document["id"]] = document
    return found


def versions(stack: RunningStack) -> list[str]:
    """The record of each version of the registered instrument."""
    answer = httpx.get(
        f"{stack.mlflow}/api/2.0/mlflow/model-versions/search", params={"filter": "name='safety'"},
        auth=stack.mlflow_auth, timeout=60,
    )  # fmt: skip
    found = answer.raise_for_status().json().get("model_versions", [])
    return [tags_of(item)["record.id"] for item in found]


def record_of(run: dict[str, Any]) -> str:
    return tags_of(run)["record.id"]


def teller() -> Callable[[str], None]:
    """Print what happened when, for whoever has to find out why it went otherwise."""
    began = time.monotonic()

    def tell(event: str) -> None:
        print(f"{time.monotonic() - began:5.1f} s: {event}", flush=True)

    return tell


def test_whoever_is_killed_the_run_is_told_crashed_the_queue_goes_on_and_a_rerun_makes_the_same_record(
    tmp_path: Path,
) -> None:
    seed = int(os.environ.get(SEED) or random.SystemRandom().randrange(10**6))
    print(f"{SEED}={seed}")
    draw = random.Random(seed)
    with stack_folder() as folder, running_stack(folder) as stack:
        tell = teller()
        jobs = Jobs(stack=stack, folder=tmp_path)
        first, second = jobs.calibration(1), jobs.calibration(2)
        simulation = {"stage": 2, "replications": REPLICATIONS, "seed": 1, "workers": 2}

        # The flow process, while it computes. The worker sees it.
        cut = jobs.start("calibrate", first)
        jobs.reached(cut, "RUNNING")
        following = jobs.start("calibrate", second)
        time.sleep(draw.uniform(0.0, 6.0))
        at = killed(jobs.process(cut))
        assert jobs.reached(cut, *ENDED, seconds=CRASHED_WITHIN) == "CRASHED"
        tell(f"flow process killed, Crashed after {time.monotonic() - at:.1f} s")
        assert versions(stack) == []
        jobs.reached(following, "RUNNING")
        tell(f"the next of the queue runs {time.monotonic() - at:.1f} s after the kill")

        # The worker and all its flow processes: one as it writes and registers, the other as its own processes work.
        again, simulating = jobs.start("calibrate", first), jobs.start("simulate", simulation)
        jobs.reached(simulating, "RUNNING")
        simulated = jobs.start("simulate", simulation)
        until(lambda: stack.objects(prefix="records/"), LIMIT, "first file of a record in the bucket")
        time.sleep(draw.uniform(0.0, 2.0))
        runs = [run for run in (following, simulating) if jobs.processes(run)]
        assert simulating in runs
        tell(f"killing the worker and {len(runs)} flow process(es)")
        at = killed(*map(jobs.process, runs))
        stack.kill("worker")
        whole_records(stack)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            wanted = [pool.submit(jobs.expected, job) for job in (first, second)]
            for run in runs:
                ended = jobs.ended(run, left(at))
                assert ended == "CRASHED" or run == following  # which may have been all but done
                tell(f"{ended} after {time.monotonic() - at:.1f} s")
            for run in (again, simulated):
                jobs.reached(run, "RUNNING", "COMPLETED")
                tell(f"the next of the queue runs {time.monotonic() - at:.1f} s after the kill")
            expected = [future.result() for future in wanted]
        assert jobs.processes(*runs) == []

        # The worker alone, and then the server, each while a rerun is under way.
        at = time.monotonic()
        stack.kill("worker")
        cut_off = [first] * (jobs.ended(again, left(at)) != "COMPLETED")
        tell(f"worker killed, the rerun ended {time.monotonic() - at:.1f} s later; {len(cut_off)} of 1 cut off")
        last = jobs.start("calibrate", second)
        jobs.reached(last, "RUNNING", *ENDED)
        time.sleep(draw.uniform(0.0, 6.0))
        at = time.monotonic()
        stack.kill("prefect")
        cut_off += [second] * (jobs.ended(last, left(at), server_killed=True) != "COMPLETED")
        tell(f"server killed, the rerun ended {time.monotonic() - at:.1f} s later; {len(cut_off)} of 2 cut off")
        for job in cut_off:
            assert jobs.reached(jobs.start("calibrate", job), *ENDED) == "COMPLETED"
        jobs.ended(simulated, server_killed=True)
        tell("all have ended")

        calibrations = [id_ for id_, item in whole_records(stack).items() if "calibration/" in item["schema"]]
        assert sorted(calibrations) == sorted(expected)
        assert sorted(versions(stack)) == sorted(expected)
        logged = stack.mlflow_runs("assay/calibration")
        assert sorted(map(record_of, logged)) == sorted(expected)
        assert {run["info"]["status"] for run in logged} == {"FINISHED"}
        named = {f"records/{item['uri']}" for found in whole_records(stack).values() for item in found["outputs"]}
        assert {key for key in stack.objects(prefix="records/") if key.endswith(".parquet")} == named
        assert list((folder / "data" / "pending").glob("*.json")) == []
        tell("checked")
