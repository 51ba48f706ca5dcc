"""Whether the stack's services answer: asked by what needs them, by `assay up` and by its tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from core.errors import UnreachableError
from tasks.platform.environment import POOL

NEEDS: Mapping[str, tuple[str, ...]] = {
    "postgres": (),
    "s3": (),
    "mlflow": ("postgres",),
    "prefect": ("postgres",),
    "worker": ("prefect", "mlflow", "s3"),
}
"""What has to answer before a service starts."""

POLL_SECONDS = 0.3
PROBE_SECONDS = 5.0
WAIT_SECONDS = 240.0


def is_ready(service: str, environment: Mapping[str, str], since: datetime | None = None) -> bool:
    """Whether a service does what it is there for.

    Parameters
    ----------
    service : {'postgres', 's3', 'mlflow', 'prefect', 'worker'}
    environment : mapping of str to str
        The stack's variables.
    since : datetime, optional
        A worker counts when it gave a sign of life after this: the server takes one for alive a while after its end.
    """
    if service == "worker":
        return _worker(environment, since)
    return _PROBES[service](environment)


def wait_for(services: Sequence[str], environment: Mapping[str, str], seconds: float = WAIT_SECONDS) -> None:
    """Wait until services answer.

    Raises
    ------
    UnreachableError
        One did not in time.
    """
    end = time.monotonic() + seconds
    for service in services:
        while not is_ready(service, environment):
            if time.monotonic() > end:
                raise UnreachableError(f"{service} did not answer within {seconds:g} s")
            time.sleep(POLL_SECONDS)


def _postgres(environment: Mapping[str, str]) -> bool:
    if environment["ASSAY_STACK_DATABASE"] == "sqlite":
        return True
    from sqlalchemy import create_engine
    from sqlalchemy.exc import SQLAlchemyError

    engine = create_engine(
        environment["MLFLOW_BACKEND_STORE_URI"],
        connect_args={"password": environment["ASSAY_STACK_MLFLOW_DATABASE_PASSWORD"], "connect_timeout": 5},
    )
    try:
        with engine.connect():
            return True
    except SQLAlchemyError:
        return False
    finally:
        engine.dispose()


def _s3(environment: Mapping[str, str]) -> bool:
    """Whether the server checks keys already; that it can also keep something is seen when buckets are made."""
    return _answers(environment["AWS_ENDPOINT_URL"], lambda status: status < 500)


def _mlflow(environment: Mapping[str, str]) -> bool:
    return _answers(f"{environment['MLFLOW_TRACKING_URI']}/health", lambda status: status == 200)


def _prefect(environment: Mapping[str, str]) -> bool:
    return _answers(f"{environment['PREFECT_API_URL']}/health", lambda status: status == 200)


def _worker(environment: Mapping[str, str], since: datetime | None) -> bool:
    alive = [item for item in workers_of(environment, POOL) or () if item.get("status") == "ONLINE"]
    seen = [datetime.fromisoformat(item["last_heartbeat_time"]) for item in alive if item.get("last_heartbeat_time")]
    return any(since is None or moment >= since for moment in seen)


def workers_of(environment: Mapping[str, str], pool: str) -> list[dict[str, Any]] | None:
    """Return what the Prefect server knows of a pool's workers; None when it does not say."""
    import httpx

    try:
        answer = httpx.post(
            f"{environment['PREFECT_API_URL'].rstrip('/')}/work_pools/{pool}/workers/filter",
            json={}, auth=prefect_auth(environment), timeout=PROBE_SECONDS,
        )  # fmt: skip
    except httpx.HTTPError:
        return None
    if not answer.is_success:
        return None
    found: list[dict[str, Any]] = answer.json()
    return found


def prefect_auth(environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Return user and password for the Prefect server, if there are any."""
    given = environment.get("PREFECT_API_AUTH_STRING", "")
    user, colon, password = given.partition(":")
    return (user, password) if colon else None


def _answers(url: str, is_well: Callable[[int], bool]) -> bool:
    import httpx

    try:
        return is_well(httpx.get(url, timeout=PROBE_SECONDS).status_code)
    except httpx.HTTPError:
        return False


_PROBES: Mapping[str, Callable[[Mapping[str, str]], bool]] = {
    "postgres": _postgres,
    "s3": _s3,
    "mlflow": _mlflow,
    "prefect": _prefect,
}
