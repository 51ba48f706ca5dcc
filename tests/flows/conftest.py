"""The command line in this process, and one small measured world that every test reads and none changes."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from flows.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def record(self) -> Any:
        return json.loads(self.out)


Assay = Callable[..., Outcome]


def run_assay(*arguments: object) -> Outcome:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    assert isinstance(exit_.value.code, int)
    return Outcome(code=exit_.value.code, out=out.getvalue(), err=err.getvalue())


@pytest.fixture(scope="session")
def assay() -> Assay:
    """Run a command in this process: exit code, stdout, stderr."""
    return run_assay


INSTRUMENT = """\
name: small
categories: [hate, violence]
judge: {name: guard, version: "1"}
optimism: {method: none}
allow_unmatched: false
"""


def labels(i: int) -> dict[str, int]:
    return {"hate": int(i % 2 == 0), "violence": int(i % 3 == 0)}


def golden_text(n: int = 60) -> str:
    rows = [f"g{i},{name},{label},v{i % 30}" for i in range(n) for name, label in labels(i).items()]
    return "\n".join(["trace_id,category,label,cluster", *rows, ""])


def scores_text(n: int = 60, prefix: str = "g") -> str:
    """Two turns a trace; the judge misses one positive in ten and raises one false alarm in ten."""
    rows = []
    for i in range(n):
        for name, label in labels(i).items():
            flagged = label if i % 10 not in (3, 6) else 1 - label
            rows += [f"{prefix}{i},0,{name},0.1", f"{prefix}{i},1,{name},{0.6 + i / 1000 if flagged else 0.2}"]
    return "\n".join(["trace_id,turn,category,score", *rows, ""])


@dataclass(frozen=True)
class World:
    folder: Path
    golden: Path
    scores: Path
    production: Path
    instrument: Path
    calibration: Path
    measurement: Path


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Files of a golden set, its scores, production, and the two records made from them."""
    folder = tmp_path_factory.mktemp("world")
    names = ("golden.csv", "scores.csv", "production.csv", "instrument.yaml", "calibration.json", "measurement.json")
    made = World(folder, *(folder / name for name in names))
    made.golden.write_text(golden_text())
    made.scores.write_text(scores_text())
    made.production.write_text(scores_text(40, prefix="p"))
    made.instrument.write_text(INSTRUMENT)
    calibrated = run_assay(
        "calibrate", made.golden, "--scores", made.scores, "--instrument", made.instrument, "-o", made.calibration
    )
    assert calibrated.code == 0, calibrated.err
    measured = run_assay(
        "measure", made.production, "--calibration", made.calibration, "--target", "bot@1", "-o", made.measurement
    )
    assert measured.code == 0, measured.err
    return made


class Workbench:
    """A folder for one test, with an output folder that must stay empty when an input is bad."""

    def __init__(self, folder: Path, world: World) -> None:
        self.folder, self.world = folder, world
        self.out = folder / "out"
        self.out.mkdir()

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def measure(self, *files: Path, options: tuple[object, ...] = ()) -> Outcome:
        record = self.out / "new" / "m.json"
        return run_assay("measure", *files, "--calibration", self.world.calibration, "-o", record, *options)

    def calibrate(
        self, golden: Path | None = None, scores: Path | None = None, instrument: Path | None = None
    ) -> Outcome:
        spec = instrument or self.world.instrument
        return run_assay(
            "calibrate", golden or self.world.golden, "--scores", scores or self.world.scores,
            "--instrument", spec, "-o", self.out / "new" / "c.json",
        )  # fmt: skip

    def refused(self, outcome: Outcome, *expected: str) -> None:
        """Exit 2, a message that says all that is expected, no traceback, and nothing written."""
        assert outcome.code == 2, outcome
        assert "Traceback" not in outcome.err
        for text in expected:
            assert text in outcome.err
        assert outcome.out == ""
        assert list(self.out.iterdir()) == []

    @staticmethod
    def problems(outcome: Outcome) -> list[str]:
        return outcome.err.removeprefix("error: ").splitlines()


@pytest.fixture
def bench(tmp_path: Path, world: World) -> Workbench:
    return Workbench(tmp_path, world)


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """Address of one Prefect server for all tests that need it."""
    from prefect.settings import PREFECT_API_URL
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=120):
        yield str(PREFECT_API_URL.value())


@pytest.fixture
def client(server: str) -> Iterator[Any]:
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as made:
        yield made


@pytest.fixture
def run_of(client: Any) -> Callable[[str], Any]:
    """Find the newest run of a flow."""

    def newest(flow: str) -> Any:
        wanted = {"flows": {"name": {"any_": [flow]}}, "sort": "START_TIME_DESC", "limit": 1}
        (found,) = client.request("POST", "/flow_runs/filter", json=wanted).json()
        return found

    return newest


@pytest.fixture
def artifacts(client: Any) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Read the artifacts of a run, by key."""

    def read(run: Mapping[str, Any]) -> dict[str, Any]:
        wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
        return {item["key"]: item["data"] for item in client.request("POST", "/artifacts/filter", json=wanted).json()}

    return read
