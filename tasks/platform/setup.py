"""What the servers need before work can come: buckets, MLflow's user, the work pool, deployments and automations."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from core.errors import UnreachableError
from tasks.platform.environment import BUCKET, MLFLOW_BUCKET, POOL, environment_of
from tasks.platform.readiness import POLL_SECONDS, prefect_auth, wait_for

PREFECT_FILE = Path("deployments") / "prefect.yaml"
AUTOMATIONS = Path("deployments") / "automations.py"
STORAGE_SECONDS = 120.0
OUTAGE_SECONDS, OUTAGE_PAUSE = 600.0, 5.0


def set_up(environment: Mapping[str, str]) -> None:
    """Make what is missing; what is there stays, and deployments become those of the file.

    A server that is down meanwhile is waited for: everything here can be done twice.

    Raises
    ------
    UnreachableError
        A server does not answer, or does not take what it is given.
    """
    end = time.monotonic() + OUTAGE_SECONDS
    while True:
        try:
            _set_up(environment)
            return
        except UnreachableError as error:
            if time.monotonic() > end:
                raise
            sys.stderr.write(f"{error}; trying again\n")
            time.sleep(OUTAGE_PAUSE)


def _set_up(environment: Mapping[str, str]) -> None:
    wait_for(("prefect",), environment)  # MLflow takes longer to start
    client = environment_of("worker", environment)
    home = Path(environment["ASSAY_HOME"])
    if not _pool_exists(environment):
        _prefect(client, home, "work-pool", "create", POOL, "--type", "process")
    _prefect(client, home, "--no-prompt", "deploy", "--all", "--prefect-file", str(PREFECT_FILE))
    if (home / AUTOMATIONS).exists():
        _run([sys.executable, str(AUTOMATIONS)], client, home)
    wait_for(("s3",), environment)
    make_buckets(environment)
    wait_for(("mlflow",), environment)
    make_user(environment)


def make_buckets(environment: Mapping[str, str]) -> None:
    """Make both buckets; object storage that has just started cannot keep anything yet."""
    from tasks.storage import buckets

    keys = buckets.Keys.of(environment, "ASSAY_STACK_S3_ADMIN_")
    client = buckets.connect(keys)
    end = time.monotonic() + STORAGE_SECONDS
    for bucket in (BUCKET, MLFLOW_BUCKET):
        while True:
            try:
                buckets.make(client, bucket)
                break
            except UnreachableError:
                if time.monotonic() > end:
                    raise
                time.sleep(POLL_SECONDS)


def make_user(environment: Mapping[str, str]) -> None:
    """Make MLflow's user for workers and clients: it may not do what the administrator may."""
    import httpx

    user = environment["MLFLOW_TRACKING_USERNAME"]
    try:
        answer = httpx.post(
            f"{environment['MLFLOW_TRACKING_URI']}/api/2.0/mlflow/users/create",
            json={"username": user, "password": environment["MLFLOW_TRACKING_PASSWORD"]},
            auth=(environment["MLFLOW_AUTH_ADMIN_USERNAME"], environment["MLFLOW_AUTH_ADMIN_PASSWORD"]),
            timeout=30,
        )
    except httpx.HTTPError as error:
        raise UnreachableError(f"MLflow does not answer: {type(error).__name__}") from None
    if answer.is_success or "RESOURCE_ALREADY_EXISTS" in answer.text:
        return
    raise UnreachableError(
        f"MLflow did not make the user {user} ({answer.status_code}); was MLFLOW_AUTH_ADMIN_PASSWORD changed in the "
        "file alone? See infra/README.md, Changing passwords"
    )


def _pool_exists(environment: Mapping[str, str]) -> bool:
    import httpx

    address = f"{environment['PREFECT_API_URL']}/work_pools/{POOL}"
    try:
        answer = httpx.get(address, auth=prefect_auth(environment), timeout=30)
    except httpx.HTTPError as error:
        raise UnreachableError(f"the Prefect server does not answer: {type(error).__name__}") from None
    if answer.status_code not in (200, 404):
        raise UnreachableError(f"the Prefect server answers {answer.status_code} when asked for its work pool")
    return answer.status_code == 200


def _prefect(environment: Mapping[str, str], home: Path, *arguments: str) -> None:
    _run([sys.executable, "-m", "prefect", *arguments], environment, home)


def _run(command: list[str], environment: Mapping[str, str], home: Path) -> None:
    done = subprocess.run(command, env=dict(environment), cwd=home, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise UnreachableError(f"{' '.join(command[1:])} ended with exit code {done.returncode}")
