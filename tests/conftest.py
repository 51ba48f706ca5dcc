"""What every test shares: where things are, and an environment that is nobody's own."""

from __future__ import annotations

import contextlib
import json
import os
import random
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).resolve().parent.parent

# Not tests: doctest collection would import them.
collect_ignore = ["benchmarks/bench.py"]

# Set at import, because Prefect and MLflow read their environment when they are imported, which happens
# while tests are collected. Neither the user's data nor a configured server nor telemetry takes part.
_SCRATCH = Path(tempfile.mkdtemp(prefix="assay-tests-"))
for _name in [name for name in os.environ if name.startswith(("ASSAY_", "AWS_", "MLFLOW_", "PREFECT_"))]:
    del os.environ[_name]
os.environ.update(
    ASSAY_DATA_DIR=str(_SCRATCH / "data"),
    ASSAY_CACHE_DIR=str(_SCRATCH / "cache"),
    ASSAY_TRACKING_URI="none",
    PREFECT_HOME=str(_SCRATCH / "prefect"),
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    MLFLOW_DISABLE_TELEMETRY="true",
    MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false",  # a dozen processes for jobs that nobody gives a test server
    DO_NOT_TRACK="1",
    AWS_CONFIG_FILE=str(_SCRATCH / "aws-config"),
    AWS_SHARED_CREDENTIALS_FILE=str(_SCRATCH / "aws-credentials"),
    AWS_EC2_METADATA_DISABLED="true",
)


def pytest_unconfigure() -> None:
    shutil.rmtree(_SCRATCH, ignore_errors=True)


@pytest.fixture(scope="session")
def project() -> Path:
    """Root of the project."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the test data, which lies beside the project. Skips without it; fails where CI=true."""
    folder = PROJECT.parent / "shared"
    if not folder.is_dir():
        reason = "the test data folder ../shared is not beside the project"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{reason}, and CI=true requires it")
        pytest.skip(reason)
    return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectServer:
    """A real S3 server on this machine, a client of it, and the environment that leads there."""

    client: Any
    environment: dict[str, str]


@pytest.fixture(scope="session")
def object_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectServer]:
    """Start SeaweedFS with keys of its own; a test makes its buckets itself."""
    folder = tmp_path_factory.mktemp("seaweedfs")
    keys = secrets.token_hex(10), secrets.token_hex(20)
    (folder / "data").mkdir()
    identity = {"name": "tests", "credentials": [dict(zip(("accessKey", "secretKey"), keys, strict=True))]}
    actions = ["Admin", "Read", "Write", "List", "Tagging"]
    (folder / "s3.json").write_text(json.dumps({"identities": [{**identity, "actions": actions}]}), encoding="utf-8")
    master, volume, filer, s3 = _free_ports(4)
    # Each bucket takes several volumes, hence many small ones.
    command = [
        str(Path(sys.executable).with_name("weed")), "server", f"-dir={folder / 'data'}",
        "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-master.port={master}", f"-volume.port={volume}",
        "-filer", f"-filer.port={filer}", "-s3", f"-s3.port={s3}", f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0", "-s3.port.lance=0", "-s3.autoCreateBucket=false",
        "-master.volumeSizeLimitMB=64", "-volume.max=1000", "-master.telemetry=false",
    ]  # fmt: skip
    environment = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{s3}", "AWS_ACCESS_KEY_ID": keys[0], "AWS_SECRET_ACCESS_KEY": keys[1],
    }  # fmt: skip
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env={**os.environ, "HOME": str(folder)}, stdout=log, stderr=log)
    try:
        yield ObjectServer(client=_ready_client(environment, process), environment=environment)
    finally:
        process.kill()  # it would take half a minute to say goodbye to itself
        process.wait(timeout=30)
        for port in (master, volume, filer, s3):
            for number in (port, port + 10_000):
                for leftover in Path("/tmp").glob(f"seaweedfs-*-{number}.sock"):  # where SeaweedFS always puts them
                    leftover.unlink(missing_ok=True)


def _free_ports(count: int) -> list[int]:
    """Ports that are free and have a free one 10,000 above, where SeaweedFS puts gRPC."""
    found: list[int] = []
    while len(found) < count:
        port = random.SystemRandom().randrange(12_000, 22_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for number in (port, port + 10_000):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", number))
            found.append(port)
    return found


def _ready_client(environment: dict[str, str], process: subprocess.Popen[bytes]) -> Any:
    import boto3
    from botocore.exceptions import BotoCoreError, ClientError

    client = boto3.client(
        "s3",
        endpoint_url=environment["AWS_ENDPOINT_URL"],
        aws_access_key_id=environment["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=environment["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )
    deadline = time.monotonic() + 60
    while True:
        try:
            client.create_bucket(Bucket="ready")
            client.put_object(Bucket="ready", Key="ready", Body=b"ready")
            return client
        except (BotoCoreError, ClientError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"SeaweedFS did not start: {error}")
            if isinstance(error, ClientError) and error.response["Error"]["Code"].startswith("BucketAlready"):
                client.delete_bucket(Bucket="ready")
            time.sleep(0.2)
