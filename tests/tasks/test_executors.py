"""Executors: the same outcomes from this process, several, and the workers of a Dask scheduler; what a loss costs."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from core.errors import AssayError, InputError, UndefinedError, UnreachableError
from core.simulation.spec import CorrectionSpec, GoldenSize, JudgeRates
from core.simulation.stages import stage_of
from tasks.workers import carried_out, cluster, executor_of, in_this_process, workers_of
from tests.e2e.cluster import Cluster
from tests.e2e.cluster import cluster as running
from tests.tasks.test_workers import Tried


@pytest.fixture(scope="module")
def two_workers(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("dask"), project) as started:
        yield started


@pytest.mark.parametrize(
    "text", ["", "0", "-1", "513", "²", "4.0", "10.0.0.1:8786", "http://h:1", "tcp://h", "tcp://user:word@h:1", "tcp://h:1/x"]
)  # fmt: skip
def test_what_is_neither_a_number_nor_an_address_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InputError) as error:
        workers_of(text)
    assert str(error.value) == (
        "workers: neither a number of processes from 1 to 512 nor the address of a Dask scheduler: tcp://HOST:PORT, or "
        "tls://HOST:PORT"
    )


@pytest.mark.parametrize("text", ["tcp://scheduler:8786", "tls://10.0.0.7:8786", "tcp://[::1]:8786"])
def test_addresses_of_schedulers_are_taken(text: str) -> None:
    assert workers_of(text) == text


def test_one_item_is_carried_out_here_whatever_the_number_of_processes() -> None:
    assert executor_of(4, 1) is in_this_process


def test_without_dask_the_package_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(InputError, match=r"pip install 'assay\[scale-out\]'"):
        carried_out(Tried(), workers="tcp://127.0.0.1:8786")


def test_other_executors_do_not_import_dask(project: Path) -> None:
    code = (
        "import sys, tasks.parts, tasks.workers.processes, flows.commands.measure\n"
        "from tasks.workers import *; executor_of(1, 9); executor_of(2, 9)\n"
        "print({'dask', 'distributed'} & set(sys.modules))"
    )
    shown = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True)
    assert shown.stdout == "set()\n", shown.stderr


def test_a_difference_in_code_or_libraries_is_named() -> None:
    here = {"assay": "1", "Python": "3.11", "numpy": "2.4.6"}
    assert cluster._difference(here, here | {"more": "1"}) is None
    told = cluster._difference(here, {"assay": "2", "Python": "3.11"})
    assert told is not None
    assert "(assay 2 instead of 1, numpy none instead of 2.4.6)" in told


@pytest.mark.parametrize("listens", [False, True])
def test_a_scheduler_that_does_not_answer_is_told_within_seconds(
    listens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2.0)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        if listens:
            nobody.listen()
        address = f"tcp://127.0.0.1:{nobody.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(UnreachableError, match=rf"the Dask scheduler at {address} does not answer within 2 s"):
            carried_out(Tried(), workers=address)
        assert time.monotonic() - began < 60


@pytest.mark.e2e
def test_workers_of_a_scheduler_give_the_same_outcomes_in_the_order_of_the_chunks(two_workers: Cluster) -> None:
    heard: list[int] = []
    outcomes = carried_out(Tried(), workers=two_workers.address, progress=heard.append)
    assert [outcome[:2] for outcome in outcomes] == [(chunk.cell, chunk.number) for chunk in Tried().chunks()]
    assert sorted(heard) == sorted([4, 4, 2] * 3)
    assert {outcome[2] for outcome in outcomes} <= {process.pid for process in two_workers.processes}


@pytest.mark.e2e
def test_a_simulation_is_the_same_on_a_scheduler_and_here(two_workers: Cluster) -> None:
    spec = CorrectionSpec(
        judges=(JudgeRates(sensitivity=0.8, specificity=0.9),), golden=(GoldenSize(n_positive=40, n_negative=40),),
        prevalences=(0.1, 0.3), n_units=(100,), replications=40, draws=100,
    )  # fmt: skip
    stage = stage_of(spec)
    there = stage.result(carried_out(stage, workers=two_workers.address))
    assert there == stage.result(carried_out(stage, workers=1))


@pytest.mark.e2e
def test_what_a_chunk_raises_on_a_worker_is_raised_here(
    two_workers: Cluster, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UndefinedError, match="is not to be carried out"):
        carried_out(Tried("fail"), workers=two_workers.address)
    assert capfd.readouterr().err == ""


@pytest.mark.e2e
def test_an_interruption_takes_the_work_back(two_workers: Cluster) -> None:
    def interrupted(_: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carried_out(Tried("wait"), workers=two_workers.address, progress=interrupted)
    began = time.monotonic()
    assert max(map(len, two_workers.ask(lambda client: client.processing()).values())) <= 1  # what had begun
    assert time.monotonic() - began < 30


@pytest.mark.e2e
def test_a_chunk_that_ends_every_worker_is_given_up(project: Path, tmp_path: Path) -> None:
    with (
        running(tmp_path, project, 2, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as doomed,
        pytest.raises(AssayError, match="ended every Dask worker that it was given to"),
    ):
        carried_out(Tried("die"), workers=doomed.address)


@pytest.mark.e2e
def test_no_worker_at_all_is_told_and_so_is_the_end_of_all_workers(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 2.0)
    monkeypatch.setattr(cluster, "NO_WORKER_SECONDS", 2.0)
    with running(tmp_path, project, 0) as alone:
        with pytest.raises(UnreachableError, match="has no workers; start some with: dask worker tcp://"):
            carried_out(Tried(), workers=alone.address)
        worker = alone.start_worker()
        monkeypatch.setattr(cluster, "CONNECT_SECONDS", 60.0)
        with pytest.raises(UnreachableError, match=r"no worker of the Dask scheduler at .* is left"):
            carried_out(Tried("nap"), workers=alone.address, progress=lambda _: worker.kill())


@pytest.mark.e2e
def test_a_scheduler_that_is_lost_in_the_middle_is_told(
    project: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with running(tmp_path, project, 1) as short:
        with pytest.raises(UnreachableError, match=r"the Dask scheduler at .* was lost"):
            carried_out(Tried("nap"), workers=short.address, progress=lambda _: short.processes[0].kill())
        assert capfd.readouterr().err == ""
