"""Carrying out work in this process, in several, or on the workers of a Dask scheduler: the outcomes are the same.

An executor takes work and its items and yields ``(position, outcome)`` as the outcomes come in. Nothing here imports
what the work computes with: a worker process sets its environment first.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from core.errors import InputError

if TYPE_CHECKING:
    from core.simulation.stage import Chunk, Stage

MAX_WORKERS = 512

Workers = int | str
"""So many processes, of which 1 is this one; or the address of a Dask scheduler, ``tcp://HOST:PORT``."""

_ADDRESS = re.compile(r"(?:tcp|tls)://(?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")


class Work(Protocol):
    """What is done for every item. Work and items are pickled to other processes."""

    def run(self, item: Any, /) -> Any:
        """Do it for one item, depending on nothing else; what comes back can be pickled."""
        ...


Outcomes = Generator[tuple[int, Any], None, None]
Executor = Callable[[Work, Sequence[Any]], Outcomes]


def workers_of(text: str) -> Workers:
    """Read who is to work: a number of processes, or the address of a Dask scheduler.

    Raises
    ------
    InputError
        It is neither.

    Examples
    --------
    >>> workers_of("4"), workers_of("tcp://scheduler:8786")
    (4, 'tcp://scheduler:8786')
    """
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MAX_WORKERS:
        return int(text[:9])
    if not _ADDRESS.fullmatch(text):
        raise InputError.of(
            "workers",
            f"neither a number of processes from 1 to {MAX_WORKERS} nor the address of a Dask scheduler: "
            "tcp://HOST:PORT, or tls://HOST:PORT",
        )
    return text


def workers_or(asked: Workers | None, otherwise: int) -> Workers:
    """Return who is to work: as asked, else as ``ASSAY_WORKERS`` says, else so many processes.

    Raises
    ------
    InputError
        As `workers_of`.
    """
    from tasks.settings import settings

    named = settings().workers if asked is None else asked
    return otherwise if named is None else workers_of(str(named))


def executor_of(workers: Workers, n_items: int) -> Executor:
    """Return who carries out so many items."""
    if isinstance(workers, str):
        from tasks.workers.cluster import on_cluster

        return on_cluster(workers)
    if min(workers, n_items) <= 1:
        return in_this_process
    from tasks.workers.processes import in_processes

    return in_processes(workers)


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


def carried_out(stage: Stage, *, workers: Workers = 1, progress: Callable[[int], None] = lambda _: None) -> list[Any]:
    """Carry out all chunks of a stage.

    Parameters
    ----------
    stage : Stage
    workers : Workers
        Who does it; the outcomes do not depend on it.
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
    UnreachableError
        The scheduler cannot be reached, or no worker is left.
    """
    chunks = list(stage.chunks())
    outcomes: list[Any] = [None] * len(chunks)
    with contextlib.closing(executor_of(workers, len(chunks))(stage, chunks)) as done:
        for position, outcome in done:
            outcomes[position] = outcome
            progress(work_of(chunks[position]))
    return outcomes


def in_this_process(work: Work, items: Sequence[Any]) -> Outcomes:
    """Carry out the items one after the other, here."""
    for position, item in enumerate(items):
        yield position, work.run(item)
