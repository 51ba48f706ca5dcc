"""Carrying out a stage's chunks: in this process or in several, with the same outcomes in the same order.

An executor takes a stage and its chunks and yields ``(position, outcome)`` as the outcomes come in. Nothing here
imports what a stage computes with: a worker process sets its environment first.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from core.errors import AssayError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from core.simulation.stage import Chunk, Stage

Outcomes = Generator[tuple[int, Any], None, None]
Executor = Callable[["Stage", Sequence["Chunk"]], Outcomes]

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""Every worker has a core to itself; libraries that start a thread a core in each would only get in the way."""

MAX_WORKERS = 512


def available_cores() -> int:
    """Count the cores that this process may use: its affinity, and the quota of its control group."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    quota = _quota()
    return max(1, min(cores, MAX_WORKERS, cores if quota is None else quota))


def _quota() -> int | None:
    """Read how many cores the control group allows, rounded up; None if it sets no bound."""
    with contextlib.suppress(OSError, ValueError):
        allowed, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        return None if allowed == "max" else -(-int(allowed) // int(period))
    return None


def work_of(chunk: Chunk) -> int:
    """Return what a chunk counts for in a progress bar: its replications; one where nothing is repeated."""
    return max(chunk.replications, 1)


def carried_out(stage: Stage, *, workers: int = 1, progress: Callable[[int], None] = lambda _: None) -> list[Any]:
    """Carry out all chunks of a stage.

    Parameters
    ----------
    stage : Stage
    workers : int
        Processes; 1 is this one. The outcomes do not depend on it.
    progress : callable
        Hears the work of each chunk that is done (`work_of`).

    Returns
    -------
    list
        Outcomes in the order of ``stage.chunks()``.

    Raises
    ------
    AssayError
        A worker process ended before its work was done.
    """
    chunks = list(stage.chunks())
    outcomes: list[Any] = [None] * len(chunks)
    executor = in_this_process if min(workers, len(chunks)) <= 1 else in_processes(workers)
    with contextlib.closing(executor(stage, chunks)) as done:
        for position, outcome in done:
            outcomes[position] = outcome
            progress(work_of(chunks[position]))
    return outcomes


def in_this_process(stage: Stage, chunks: Sequence[Chunk]) -> Outcomes:
    """Carry out the chunks one after the other, here."""
    for position, chunk in enumerate(chunks):
        yield position, stage.run(chunk)


def in_processes(workers: int) -> Executor:
    """Return the executor that carries out chunks in so many processes of this machine."""

    def execute(stage: Stage, chunks: Sequence[Chunk]) -> Outcomes:
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool

        # Fresh processes: a fork of one that has threads (Prefect's, numba's) may wait for a lock that nobody holds.
        context = multiprocessing.get_context("spawn")
        # Workers end when the other end of this pipe closes: on Ctrl-C at once, and also when this process is killed.
        leash, hand = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            min(workers, len(chunks)), context, initializer=_prepare, initargs=(pickle.dumps(stage), leash)
        )
        try:
            with _as_workers_start():
                futures = {pool.submit(_run, chunk): position for position, chunk in enumerate(chunks)}
            for future in as_completed(futures):
                yield futures.pop(future), future.result()
            pool.shutdown()
        except BrokenProcessPool:
            raise AssayError(
                "a worker process ended before its work was done: it was killed, or memory ran out; nothing was "
                "written. Fewer processes need less memory: --workers 1"
            ) from None
        finally:
            hand.close()
            pool.shutdown(wait=True, cancel_futures=True)
            leash.close()

    return execute


@contextlib.contextmanager
def _as_workers_start() -> Iterator[None]:
    """Set what processes inherit when they start: one thread each, and no ear for Ctrl-C, which is the parent's."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(ONE_THREAD)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT}) if hasattr(signal, "pthread_sigmask") else None
    try:
        yield
    finally:
        if blocked is not None:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


_stage: Stage | None = None
"""In a worker: what its chunks are of."""


def _prepare(stage: bytes, leash: Connection) -> None:
    global _stage  # noqa: PLW0603 (a worker has one stage for all its life)
    threading.Thread(target=_end_with_parent, args=(leash,), daemon=True).start()
    _stage = pickle.loads(stage)  # noqa: S301 (made by the process that started this one)


def _end_with_parent(leash: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(0)


def _run(chunk: Chunk) -> Any:
    if _stage is None:
        raise AssayError("a worker was given a chunk without a stage")
    return _stage.run(chunk)
