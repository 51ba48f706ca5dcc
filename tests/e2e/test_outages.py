"""Services down and back: a clear message and exit 4, flows that try again, and results that are kept and arrive once.

All services are real, and down for everybody. What a crash cuts off is in test_crashes.py.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tasks.builtin.starter import write_starter
from tests.e2e.stack import RunningStack, running_stack, stack_folder, tags_of, until
from tests.e2e.test_crashes import ENDED, LIMIT, Jobs, record_of, teller, versions, whole_records

pytestmark = pytest.mark.e2e

EVENT = ("event", "judge-changed", "--judge", "lexical@1", "--instrument", "none", "--golden", "none.csv")

IMPATIENT = {"ASSAY_S3_TIMEOUT": "2", "ASSAY_S3_ATTEMPTS": "2", "PREFECT_CLIENT_MAX_RETRIES": "0"}
"""Each waits for a service that hangs, by itself for up to two minutes."""
HANGING_SECONDS = 60.0


@dataclass
class Site:
    """A stack with a champion, scores in a file and a golden set in the bucket."""

    stack: RunningStack
    jobs: Jobs
    folder: Path
    calibration: str

    @property
    def scores(self) -> str:
        return str(self.folder / "scores.parquet")

    @property
    def instrument(self) -> str:
        return str(self.folder / "instrument.yaml")

    def measure(self, calibration: str, target: str) -> list[str]:
        return ["measure", self.scores, "--calibration", calibration, "--target", target, "--json"]

    def refused(self, *arguments: str, prefect: bool = False, **more: str) -> str:
        """What a command says that cannot do its work, or not all of it, because a service is out of reach."""
        done = self.stack.run(*arguments, without=() if prefect else ("PREFECT_API_URL",), more=more)
        assert done.returncode == 4, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def done(self, *arguments: str) -> str:
        """The id of the record that a command prints."""
        return str(json.loads(self.stack.assay(*arguments))["id"])

    def ended(self, run: str) -> tuple[str, str]:
        """State of a run that has ended, and its message."""
        self.jobs.reached(run, *ENDED)
        state = self.jobs.ask("GET", f"/flow_runs/{run}")["state"]
        return str(state["type"]), str(state["message"])

    def logged(self, kind: str) -> list[str]:
        """Records of a kind that have a run in MLflow, which all have to be complete."""
        runs = self.stack.mlflow_runs(f"assay/{kind}")
        assert {run["info"]["status"] for run in runs} <= {"FINISHED"}
        tagged = [run for run in runs if "record.id" in tags_of(run)]
        return sorted(map(record_of, tagged))

    def stored(self, kind: str) -> list[str]:
        """Records of a kind in the bucket, which all have to be whole."""
        return sorted(id_ for id_, item in whole_records(self.stack).items() if f"assay.{kind}/" in item["schema"])

    def records(self) -> dict[str, list[str]]:
        """All records by kind: each is in the bucket once, and in MLflow once."""
        found = {kind: self.stored(kind) for kind in ("calibration", "measurement", "simulation")}
        assert found == {kind: self.logged(kind) for kind in found}
        return found


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("site")
    write_starter(folder)
    with stack_folder() as place, running_stack(place) as stack:
        told = stack.assay(
            "calibrate", str(folder / "golden.csv"), "--judge", "lexical", "--instrument",
            str(folder / "instrument.yaml"), "--promote", "--because", "the first one", "--json",
        )  # fmt: skip
        stack.assay("judge", "lexical", str(folder / "conversations.csv"), "-o", str(folder / "scores.parquet"))
        calibration = str(json.loads(told)["id"])
        yield Site(stack=stack, jobs=Jobs(stack=stack, folder=folder), folder=folder, calibration=calibration)


def test_longer_than_the_retries_flows_fail_or_keep_what_they_have_and_all_of_it_arrives_once(site: Site) -> None:
    stack, jobs, tell = site.stack, site.jobs, teller()
    quick = site.folder / "quick.yaml"
    quick.write_text("name: safety\nseed: 1\noptimism: {method: bootstrap, resamples: 100}\n")
    job = {**jobs.calibration(1), "instrument": str(quick)}
    measurement = {
        "scores": site.scores, "instrument": site.instrument, "calibration": "models:/safety@champion",
        "target": "bot@2",
    }  # fmt: skip
    simulation = {"stage": 2, "replications": 1_000, "seed": 1, "workers": 1}
    by_id = site.measure(site.calibration, "bot@1")
    stack.assay("sync")  # what a test that failed may have left
    before = site.records()
    with stack.down("mlflow"):
        simulating, calibrating = jobs.start("simulate", simulation), jobs.start("calibrate", job)
        measuring = jobs.start("measure", measurement)
        err = site.refused(*by_id)
        assert "MLflow at http://127.0.0.1" in err
        assert "The record is kept: s3://assay/records/" in err
        assert "`assay sync` uploads it" in err
        tell("MLflow is down, a command has kept its record")
        err = site.refused(*site.measure("models:/safety@champion", "bot@1"))
        assert "is it running, and is this its address?" in err
        assert "record(s) still wait" in site.refused("sync")
        until(lambda: site.stored("calibration") != before["calibration"], LIMIT, "record of the calibration")
        with stack.down("s3"):
            tell("object storage is down as well")
            for command in (by_id, ["verify", f"s3://assay/records/{site.calibration}.json"]):
                err = site.refused(*command)
                assert "AWS_ENDPOINT_URL" in err
            state, message = site.ended(measuring)
            tell(f"measurement {state}: {message}")
            assert state == "FAILED"
            assert "cannot be reached" in message  # MLflow, or by the last attempt object storage
            assert site.ended(calibrating)[0] == "COMPLETED"
            tell("calibration COMPLETED")
            state, message = site.ended(simulating)
            tell(f"simulation {state}: {message}")
            assert state == "FAILED"
            assert "The record is kept here instead" in message
    tell("both are back")
    assert site.stored("simulation") == before["simulation"]
    synced = stack.assay("sync")
    assert synced.count("stored: s3://assay/records/") == 1
    assert synced.count("tracked: runs:/") == 3
    assert synced.count("registered: models:/safety/2") == 1
    assert "nothing waits" in stack.assay("sync")
    tell("synced")
    again = [jobs.start("measure", measurement), jobs.start("simulate", simulation)]
    id_ = site.done(*by_id)
    assert [site.ended(run)[0] for run in again] == ["COMPLETED", "COMPLETED"]
    tell("run again")
    other = site.done(*site.measure("models:/safety@champion", "bot@2"))
    after = site.records()
    assert after["measurement"] == sorted([*before["measurement"], id_, other])
    assert after["calibration"] == sorted(versions(stack))
    assert [len(after[kind]) - len(before[kind]) for kind in ("calibration", "simulation")] == [1, 1]
    tell("checked")


def test_within_the_retries_runs_complete_with_the_same_records(site: Site) -> None:
    stack, jobs, tell = site.stack, site.jobs, teller()
    measurement = {"scores": site.scores, "instrument": site.instrument, "target": "bot@3"}
    simulation = {"stage": 2, "replications": 1_000, "seed": 2, "workers": 1}
    by_id = site.measure(site.calibration, "bot@4")
    stack.assay("sync")  # what a test that failed may have left
    before = site.records()
    calibrations = len(stack.flow_runs("calibrate"))

    with stack.down("prefect"):
        err = site.refused(*EVENT, prefect=True)
        assert f"the Prefect server at {stack.api} did not take the event" in err
        err = site.refused(*by_id, prefect=True)
        assert f"the Prefect server at {stack.api} does not answer" in err
        tell("Prefect was down")
    database = ["postgres"] if stack.stack.database == "postgresql" else []
    if database:
        with stack.down(*database):
            err = site.refused(*EVENT, prefect=True)
            assert "Is it running, with its database" in err
            err = site.refused(*by_id)
            assert "is its database running?" in err
            assert "The record is kept: s3://assay/records/" in err
            tell("the database was down")
        stack.assay("sync")
    measuring, simulating = jobs.start("measure", measurement), jobs.start("simulate", simulation)
    jobs.reached(measuring, "RUNNING")
    with stack.down(*database, "s3"):  # MLflow starts slowly: where much else goes on, longer than the retries
        tell("database and object storage are down, two runs are under way")
    tell("both are back")
    assert [site.ended(run)[0] for run in (measuring, simulating)] == ["COMPLETED", "COMPLETED"]
    tell("both runs COMPLETED")
    assert "nothing waits" in stack.assay("sync")
    made = [site.done(*by_id), site.done(*site.measure("models:/safety@champion", "bot@3"))]
    after = site.records()
    assert after["measurement"] == sorted([*before["measurement"], *made])
    assert len(after["simulation"]) == len(before["simulation"]) + 1
    assert len(stack.flow_runs("calibrate")) == calibrations  # no event was taken after its command had failed
    tell("checked")


def test_a_service_that_hangs_is_given_up(site: Site) -> None:
    tell = teller()
    by_id = site.measure(site.calibration, "bot@5")
    for service, command in (("mlflow", by_id), ("prefect", EVENT), ("s3", by_id)):
        with site.stack.hanging(service):
            began = time.monotonic()
            err = site.refused(*command, prefect=service == "prefect", **IMPATIENT)
            tell(f"{service} hung for {time.monotonic() - began:.0f} s: {err[err.index('error:') :]}")
            assert time.monotonic() - began < HANGING_SECONDS
