"""Carrying out work in several processes of this machine. A worker process sets its environment before it computes."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from core.errors import AssayError
from tasks.workers import Executor, Outcomes, Work

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
"""Every worker has a core to itself; libraries that start a thread a core in each would only get in the way."""


def in_processes(workers: int) -> Executor:
    """Return the executor that carries out items in so many processes of this machine."""

    def execute(work: Work, items: Sequence[Any]) -> Outcomes:
        from concurrent.futures import ProcessPoolExecutor, as_completed
        from concurrent.futures.process import BrokenProcessPool

        # Fresh processes: a fork of one that has threads (Prefect's, numba's) may wait for a lock that nobody holds.
        context = multiprocessing.get_context("spawn")
        # Workers end when the other end of this pipe closes: on Ctrl-C at once, and also when this process is killed.
        leash, hand = context.Pipe(duplex=False)
        pool = ProcessPoolExecutor(
            min(workers, len(items)), context, initializer=_prepare, initargs=(pickle.dumps(work), leash)
        )
        try:
            with _as_workers_start():
                futures = {pool.submit(_run, item): position for position, item in enumerate(items)}
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


_work: Work | None = None
"""In a worker: what its items are of."""


def _prepare(work: bytes, leash: Connection) -> None:
    global _work  # noqa: PLW0603 (a worker has one work for all its life)
    threading.Thread(target=_end_with_parent, args=(leash,), daemon=True).start()
    _work = pickle.loads(work)  # noqa: S301 (made by the process that started this one)


def _end_with_parent(leash: Connection) -> None:
    with contextlib.suppress(EOFError, OSError):
        leash.recv()
    os._exit(0)


def _run(item: Any) -> Any:
    if _work is None:
        raise AssayError("a worker was given an item without the work that it is of")
    return _work.run(item)
