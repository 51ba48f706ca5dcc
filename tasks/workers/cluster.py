"""Carrying out work on the workers of a Dask scheduler: a worker that is lost loses nothing.

The scheduler gives what a lost worker had, finished or not, to another one. Whatever the workers are given and give
back is pickled: a scheduler that is spoken to is trusted as much as the code here.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import platform
import queue
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from importlib.metadata import version
from typing import Any

from core.errors import AssayError, InputError, UnreachableError
from tasks.workers import Executor, Outcomes, Work

CONNECT_SECONDS = 10.0
"""How long a scheduler has to answer, and the first worker to be there."""

LOOK_EVERY_SECONDS = 2.0
NO_WORKER_SECONDS = 60.0
"""How long work waits for a worker when all are gone; one that is started again takes some seconds."""

_LOGGERS = ("distributed", "distributed.client", "distributed.comm", "tornado.application")


def on_cluster(address: str) -> Executor:
    """Return the executor that carries out items on the workers of the scheduler at an address.

    Its errors: InputError if Dask is not installed here or the workers have other code; UnreachableError if the
    scheduler or all workers are out of reach; AssayError if an item ends every worker that it is given to.
    """

    def execute(work: Work, items: Sequence[Any]) -> Outcomes:
        with _silent(), _client(address) as client:
            _check_code(client)
            # A task, not scattered data: those would be lost with the worker that has them.
            held = client.submit(_itself, work, pure=False)
            code = _code()
            futures = [client.submit(_run, held, item, code, pure=False) for item in items]
            positions = {future.key: position for position, future in enumerate(futures)}
            done: queue.SimpleQueue[Any] = queue.SimpleQueue()
            for future in futures:
                future.add_done_callback(done.put)
            futures.clear()  # a future that nobody has any more is forgotten by the scheduler with its outcome
            watch = _Watch(client, address)
            while positions:
                try:
                    future = done.get(timeout=LOOK_EVERY_SECONDS)
                except queue.Empty:
                    watch.look()
                    continue
                yield positions.pop(future.key), _outcome(future, watch)

    return execute


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise InputError.of(
            "workers", "a Dask scheduler is spoken to by the package distributed: pip install 'assay[scale-out]'"
        ) from None
    return distributed


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Keep Dask's own remarks on connections from the terminal; what matters of them is raised."""
    _distributed()  # sets its loggers' levels when it is imported
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in _LOGGERS:
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        try:
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)


@contextlib.contextmanager
def _client(address: str) -> Iterator[Any]:
    """Connect to a scheduler that has a worker; certificates for tls:// come from Dask's configuration."""
    distributed = _distributed()
    try:
        with ThreadPoolExecutor(1) as thread:  # Prefect's event loop may run in this one
            thread.submit(asyncio.run, _greeted(address)).result()
        client = distributed.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, TimeoutError):
        raise UnreachableError(
            f"the Dask scheduler at {address} does not answer within {CONNECT_SECONDS:g} s; is it running, and is the "
            "address right?"
        ) from None
    try:
        try:
            client.wait_for_workers(1, timeout=CONNECT_SECONDS)
        except (OSError, TimeoutError):
            raise UnreachableError(
                f"the Dask scheduler at {address} has no workers; start some with: dask worker {address}"
            ) from None
        yield client
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(timeout=5)


async def _greeted(address: str) -> None:
    """See that a scheduler answers; a client would wait for ever for one that listens and says nothing."""
    connect: Any = importlib.import_module("distributed.comm").connect
    certificates = _distributed().Security().get_connection_args("client")
    if address.startswith("tls://") and certificates.get("ssl_context") is None:
        raise InputError.of("workers", (
            "tls:// needs certificates, which Dask's configuration names: DASK_DISTRIBUTED__COMM__TLS__CA_FILE, "
            "..__TLS__CLIENT__CERT and ..__TLS__CLIENT__KEY, or a file in ~/.config/dask"
        ))  # fmt: skip
    comm = await asyncio.wait_for(connect(address, timeout=CONNECT_SECONDS, **certificates), CONNECT_SECONDS)
    await comm.close()


def _itself(work: Work) -> Work:
    return work


def _run(work: Work, item: Any, code: dict[str, str]) -> Any:
    """In a worker: carry out an item, if the worker has the code that the client has."""
    if (differs := _difference(code, _code())) is not None:  # one that came later than the check of all workers
        raise InputError.of("workers", differs)
    return work.run(item)


def _code() -> dict[str, str]:
    """Say what an outcome depends on besides its work: all code of assay, Python and the libraries that compute."""
    from tasks.cache import COMPUTING_PACKAGES, code_digest

    major, minor, _ = platform.python_version_tuple()
    libraries = {name: version(name) for name in COMPUTING_PACKAGES}
    return {"assay": code_digest()[:12], "Python": f"{major}.{minor}", **libraries}


def _difference(here: dict[str, str], there: dict[str, str]) -> str | None:
    names = [name for name in here if there.get(name) != here[name]]
    if not names:
        return None
    told = ", ".join(f"{name} {there.get(name, 'none')} instead of {here[name]}" for name in names)
    return f"a worker runs other code than this process ({told}); install the same on all, and start the workers again"


def _check_code(client: Any) -> None:
    """Refuse workers with other code before they are given any work; those that are busy are left to `_run`."""

    def code() -> Any:  # sent itself, not by its name: a worker without assay ends over a name that it cannot find
        import importlib

        return importlib.import_module("tasks.workers.cluster")._code()

    here = _code()
    asked = {worker: client.submit(code, workers=[worker], pure=False) for worker in _workers(client)}
    end = time.monotonic() + CONNECT_SECONDS
    for worker, future in sorted(asked.items()):
        try:
            error = future.exception(timeout=max(0.1, end - time.monotonic()))
        except (TimeoutError, CancelledError):
            continue
        if error is not None:
            raise InputError.of(worker, f"the worker cannot run assay: {error}; is it installed there?")
        if (differs := _difference(here, future.result())) is not None:
            raise InputError.of(worker, differs)


def _workers(client: Any) -> list[str]:
    """Ask a scheduler for its workers; unlike the client's own functions within bounded time."""
    return list(client.sync(client.scheduler.ncores, workers=None, callback_timeout=CONNECT_SECONDS))


class _Watch:
    """Notices that nobody is left to wait for."""

    def __init__(self, client: Any, address: str) -> None:
        self._client, self._address = client, address
        self._seen = time.monotonic()

    def look(self) -> None:
        """Look for the scheduler and for workers.

        Raises
        ------
        UnreachableError
            The scheduler is gone, or there has been no worker for a minute.
        """
        if self._client.status in ("closing", "closed"):
            raise self.lost()
        try:
            alive = bool(_workers(self._client))
        except (OSError, TimeoutError):  # it is being connected to again, or very busy
            alive = False
        if alive:
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > NO_WORKER_SECONDS:
            raise UnreachableError(f"no worker of the Dask scheduler at {self._address} is left; nothing was written")

    def lost(self) -> UnreachableError:
        """Make the error that the scheduler is gone."""
        return UnreachableError(f"the Dask scheduler at {self._address} was lost; nothing was written")


def _outcome(future: Any, watch: _Watch) -> Any:
    """Fetch an outcome; if the worker that has it is lost meanwhile, it is computed again."""
    distributed = _distributed()
    while True:
        try:
            return future.result(timeout=LOOK_EVERY_SECONDS)
        except TimeoutError:
            watch.look()
        except distributed.KilledWorker:
            raise AssayError(
                "a part of the work ended every Dask worker that it was given to: memory probably ran out; nothing was "
                "written. Give the workers more memory, or split large files"
            ) from None
        except CancelledError:
            raise watch.lost() from None
        except RuntimeError as error:
            if "deserialization of the task graph" not in str(error):
                raise
            raise InputError.of(
                "workers", "the Dask scheduler cannot read the work: assay has to be installed where it runs, too"
            ) from None
