"""Processes: started, restarted, stopped in reverse order, with nothing left behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import InputError
from tasks.platform.environment import prepare
from tasks.platform.readiness import NEEDS
from tasks.platform.supervise import check_ports, read_procfile, sole_owner

# A process of its own: a supervisor adopts orphans, and those of the tests beside it are not its business.
DRIVER = """
import os, sys, signal
from pathlib import Path
from core.errors import AssayError
from tasks.platform import supervise
from tasks.platform.environment import prepare

folder, home = Path(sys.argv[1]), Path(sys.argv[2])
supervise.BACK_OFF_SECONDS = 0.01
supervise.is_ready = lambda service, *_: (folder / "run" / service).exists()
supervise.STOP_SECONDS = dict.fromkeys(supervise.STOP_SECONDS, float(sys.argv[3]))
stack, _ = prepare(folder, home, database="sqlite")
signal.signal(signal.SIGINT, signal.default_int_handler)
processes = supervise.Supervisor(
    stack, supervise.read_procfile(home / "Procfile"), {**os.environ, "F": str(folder)},
    lambda line: print(line, flush=True),
)
try:
    processes.start()
    print("up", *processes.pids().values(), flush=True)
    processes.watch()
except KeyboardInterrupt:
    pass
except AssayError as error:
    print("error:", error, flush=True)
finally:
    processes.stop()
print("finis", flush=True)
"""

LASTING = (
    "trap 'echo {name} >> $F/run/order; exit 0' TERM INT; touch $F/run/{name}; "
    "while true; do sleep 0.05; done"
)  # fmt: skip


class Driver:
    """A supervisor in a process of its own."""

    def __init__(self, folder: Path, project: Path, stop_seconds: float = 20.0, **commands: str) -> None:
        self.folder = folder / "stack"
        lines = {name: commands.get(name, LASTING.format(name=name)) for name in NEEDS}
        (folder / "Procfile").write_text("".join(f"{name}: {line}\n" for name, line in lines.items()))
        self.process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(self.folder), str(folder), str(stop_seconds)], cwd=project,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )  # fmt: skip

    def until(self, word: str) -> list[str]:
        """Read what it says until it says a word."""
        assert self.process.stdout is not None
        told = []
        for line in self.process.stdout:
            told.append(line.rstrip())
            if word in line:
                return told
        raise AssertionError(f"no {word!r} in {told}")

    def interrupt(self) -> list[str]:
        self.process.send_signal(signal.SIGINT)
        told = self.until("finis")
        assert self.process.wait(timeout=60) == 0
        return told


@pytest.fixture
def driver(tmp_path: Path, project: Path) -> Callable[..., Driver]:
    made: list[Driver] = []

    def make(**given: object) -> Driver:
        made.append(Driver(tmp_path, project, **given))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for item in made:
        if item.process.poll() is None:
            os.killpg(item.process.pid, signal.SIGKILL)
        item.process.wait(timeout=30)
        item.process.stdout.close()  # type: ignore[union-attr]


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_services_are_ready_in_their_order_and_stop_in_the_reverse_one(driver: Callable[..., Driver]) -> None:
    running = driver()
    *ready, up = running.until("up")
    assert {line.split()[0] for line in ready} == set(NEEDS)
    assert ready[-1].startswith("worker")
    pids = list(map(int, up.split()[1:]))
    running.interrupt()
    stopped = (running.folder / "run" / "order").read_text().split()
    assert stopped[:3] == ["worker", "prefect", "mlflow"]
    assert set(stopped[3:]) == {"s3", "postgres"}
    assert all(map(gone, pids))


def test_a_service_that_ends_while_starting_is_told_with_the_end_of_its_log(driver: Callable[..., Driver]) -> None:
    running = driver(mlflow="echo no such database; exit 3")
    told = running.until("finis")
    assert any("mlflow ended while starting (exit code 3)" in line for line in told)
    assert "  no such database" in told


def test_a_service_that_ends_is_started_again(driver: Callable[..., Driver]) -> None:
    running = driver()
    pids = dict(zip(NEEDS, map(int, running.until("up")[-1].split()[1:]), strict=True))
    os.kill(pids["prefect"], signal.SIGKILL)
    assert "signal SIGKILL" in running.until("starting it again")[-1]
    running.interrupt()


def test_a_service_that_ends_again_and_again_stops_the_stack(driver: Callable[..., Driver]) -> None:
    running = driver(
        worker="touch $F/run/worker; test ! -e $F/run/second || exit 1; touch $F/run/second; sleep 1.5; exit 1"
    )
    told = running.until("finis")
    assert any("worker ended 6 times within 300 s" in line for line in told)
    assert sum("starting it again" in line for line in told) == 5


def test_what_does_not_end_is_killed(driver: Callable[..., Driver]) -> None:
    running = driver(stop_seconds=0.5, prefect="trap '' TERM; touch $F/run/prefect; while true; do sleep 0.05; done")
    pids = list(map(int, running.until("up")[-1].split()[1:]))
    assert any("prefect" in line and "killing it" in line for line in running.interrupt())
    assert all(map(gone, pids))


def test_what_a_service_left_behind_ends_too(driver: Callable[..., Driver]) -> None:
    left = "setsid sh -c 'echo $$ > $F/run/left; exec sleep 300' & touch $F/run/worker; exec sleep 300"
    running = driver(worker=left)
    pids = dict(zip(NEEDS, map(int, running.until("up")[-1].split()[1:]), strict=True))
    os.kill(pids["worker"], signal.SIGKILL)  # its child becomes an orphan, as a flow run does
    running.until("starting it again")
    orphan = int((running.folder / "run" / "left").read_text())
    running.interrupt()
    assert gone(orphan)


def test_services_end_with_a_supervisor_that_was_killed(driver: Callable[..., Driver]) -> None:
    running = driver()
    pids = list(map(int, running.until("up")[-1].split()[1:]))
    running.process.kill()
    end = time.monotonic() + 30
    while not all(map(gone, pids)):
        assert time.monotonic() < end, pids
        time.sleep(0.1)


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    stack, _ = prepare(tmp_path / "stack", tmp_path, first_port=random_port())
    check_ports(stack, list(NEEDS))
    with socket.socket() as other:
        other.bind(("127.0.0.1", stack.port("SEAWEED_FILER")))
        other.listen()
        with pytest.raises(InputError, match=rf"port {stack.port('SEAWEED_FILER')} \(seaweed filer\).*--ports FIRST"):
            check_ports(stack, list(NEEDS))
        check_ports(stack, ["postgres"])  # not its port


def random_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return min(int(free.getsockname()[1]), 65_000)


def test_a_folder_has_one_stack_at_a_time_and_a_dead_one_leaves_no_lock(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "lock").write_text("12345")  # of a process that was killed
    with (
        sole_owner(tmp_path),
        pytest.raises(InputError, match=rf"runs here already .process {os.getpid()}"),
        sole_owner(tmp_path),
    ):
        pass
    with sole_owner(tmp_path):
        pass


def test_a_procfile_without_the_stack_s_services_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "Procfile"
    with pytest.raises(InputError, match="cannot be read"):
        read_procfile(file)
    file.write_text("# nothing\nweb: sleep 1\n")
    with pytest.raises(InputError, match="should hold postgres, s3, mlflow, prefect, worker; it holds web"):
        read_procfile(file)
