"""Chunks in one process and in several: the same outcomes in the same order, and no worker is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.errors import AssayError, InputError, UndefinedError
from core.simulation.spec import CorrectionSpec, GoldenSize, JudgeRates, ObservedRateSpec
from core.simulation.stage import Chunk, divided
from core.simulation.stages import stage_of
from tasks import workers
from tasks.settings import settings
from tasks.workers import available_cores, carried_out, work_of, workers_or


@dataclass(frozen=True)
class Tried:
    """A stage that says who carried out a chunk, or does what a chunk must not do."""

    does: str = "answer"

    def chunks(self) -> Sequence[Chunk]:
        return divided(3, 10, 4)

    def run(self, chunk: Chunk) -> Any:
        if self.does == "die":
            os._exit(9)
        if self.does == "fail" and chunk.cell == 1:
            raise UndefinedError("cell", 1, "is not to be carried out")
        if self.does == "nap":
            time.sleep(0.5)
        if self.does == "wait" and chunk.cell:
            time.sleep(60)
        return chunk.cell, chunk.number, os.getpid(), os.environ.get("OMP_NUM_THREADS")

    def result(self, outcomes: Sequence[Any]) -> Any:
        return outcomes


def test_one_worker_is_this_process_and_outcomes_stand_in_the_order_of_the_chunks() -> None:
    heard: list[int] = []
    outcomes = carried_out(Tried(), progress=heard.append)
    assert [outcome[:2] for outcome in outcomes] == [(chunk.cell, chunk.number) for chunk in Tried().chunks()]
    assert {outcome[2] for outcome in outcomes} == {os.getpid()}
    assert heard == [4, 4, 2] * 3


@pytest.mark.e2e
def test_several_workers_are_other_processes_with_one_thread_each_and_give_the_same_outcomes() -> None:
    before = os.environ.get("OMP_NUM_THREADS")
    heard: list[int] = []
    outcomes = carried_out(Tried(), workers=2, progress=heard.append)
    assert [outcome[:2] for outcome in outcomes] == [(chunk.cell, chunk.number) for chunk in Tried().chunks()]
    assert os.getpid() not in {outcome[2] for outcome in outcomes}
    assert {outcome[3] for outcome in outcomes} == {"1"}
    assert sorted(heard) == sorted([4, 4, 2] * 3)
    assert os.environ.get("OMP_NUM_THREADS") == before


@pytest.mark.e2e
def test_the_result_of_a_real_stage_does_not_depend_on_the_workers() -> None:
    spec = CorrectionSpec(
        judges=(JudgeRates(sensitivity=0.8, specificity=0.9),), golden=(GoldenSize(n_positive=40, n_negative=40),),
        prevalences=(0.1, 0.3), n_units=(100,), replications=40, draws=100,
    )  # fmt: skip
    stage = stage_of(spec)
    assert stage.result(carried_out(stage, workers=1)) == stage.result(carried_out(stage, workers=2))


@pytest.mark.e2e
def test_a_worker_that_dies_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(AssayError, match=r"a worker process ended before its work was done.*--workers 1"):
        carried_out(Tried("die"), workers=2)


@pytest.mark.e2e
def test_what_a_chunk_raises_is_raised_here(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UndefinedError, match="is not to be carried out"):
        carried_out(Tried("fail"), workers=2)
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.e2e
def test_workers_end_at_once_when_the_progress_callback_is_interrupted() -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        carried_out(Tried("wait"), workers=2, progress=interrupted)
    assert time.monotonic() - began < 30


@pytest.mark.e2e
def test_workers_end_when_the_process_that_started_them_is_killed(project: Path, tmp_path: Path) -> None:
    import psutil

    program = tmp_path / "program.py"
    program.write_text(
        "from tasks.workers import carried_out\nfrom tests.tasks.test_workers import Tried\n"
        "if __name__ == '__main__':\n"
        "    carried_out(Tried('wait'), workers=2, progress=lambda _: print('+', flush=True))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(project)}
    process = subprocess.Popen([sys.executable, str(program)], env=environment, stdout=subprocess.PIPE, cwd=tmp_path)
    assert process.stdout is not None
    process.stdout.readline()  # a chunk is done: all workers run
    children = psutil.Process(process.pid).children(recursive=True)
    assert len(children) >= 2
    process.kill()
    process.communicate()
    _, alive = psutil.wait_procs(children, timeout=20)
    assert [child for child in alive if child.status() != psutil.STATUS_ZOMBIE] == []


def test_every_chunk_counts_in_the_progress_also_where_nothing_is_repeated() -> None:
    stage = stage_of(ObservedRateSpec(n_units=(10,), rates=(0.1, 0.5)))
    assert [work_of(chunk) for chunk in stage.chunks()] == [1, 1]
    assert work_of(Chunk(cell=0, number=0, replications=0)) == 1


def test_available_cores_are_those_of_the_affinity_and_of_the_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_quota", lambda: None)
    assert available_cores() == len(os.sched_getaffinity(0))
    monkeypatch.setattr(workers.os, "sched_getaffinity", lambda _: set(range(64)))
    assert available_cores() == 64
    monkeypatch.setattr(workers, "_quota", lambda: 3)
    assert available_cores() == 3


def test_importing_the_executor_loads_nothing_that_computes(project: Path) -> None:
    code = "import sys, tasks.workers; print({'numpy', 'scipy', 'sklearn', 'pandas', 'rich'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True)
    assert shown.stdout == "set()\n", shown.stderr


def test_who_works_is_as_asked_else_as_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for said, asked, found in [
        (None, None, 3), ("tcp://scheduler:8786", None, "tcp://scheduler:8786"), ("tcp://scheduler:8786", 2, 2),
    ]:  # fmt: skip
        if said is not None:
            monkeypatch.setenv("ASSAY_WORKERS", said)
        settings.cache_clear()
        assert workers_or(asked, 3) == found
    monkeypatch.setenv("ASSAY_WORKERS", "many")
    settings.cache_clear()
    with pytest.raises(InputError, match="workers"):
        workers_or(None, 3)
    monkeypatch.delenv("ASSAY_WORKERS")
    settings.cache_clear()
