"""Whole buckets: made for the stack, copied to a folder and back, and tried by `assay doctor`.

Who does this has keys of their own, given here; everybody else's client is in `tasks.storage.s3`.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import boto3
from botocore import exceptions as boto
from botocore.config import Config

from core.errors import InputError
from tasks.storage.failures import told

PART = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """One object of a backup: where it belongs, and the digest under which its bytes are kept."""

    bucket: str
    key: str
    sha256: str
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """A service and who asks it."""

    endpoint: str | None
    access_key: str | None = None
    secret_key: str | None = None

    def __repr__(self) -> str:
        return f"Keys(endpoint={self.endpoint!r})"

    @classmethod
    def of(cls, environment: Mapping[str, str], prefix: str = "AWS_") -> Keys:
        """Read them from variables with a prefix; the endpoint is the one of all."""
        return cls(
            endpoint=environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL"),
            access_key=environment.get(f"{prefix}ACCESS_KEY_ID"),
            secret_key=environment.get(f"{prefix}SECRET_ACCESS_KEY"),
        )


def connect(keys: Keys, *, attempts: int = 3) -> Any:
    """Return a client; without keys boto3 looks for them where it always does."""
    with told("object storage", keys.endpoint or ""):
        return boto3.session.Session().client(
            "s3",
            endpoint_url=keys.endpoint,
            aws_access_key_id=keys.access_key,
            aws_secret_access_key=keys.secret_key,
            region_name=os.environ.get("AWS_DEFAULT_REGION", "us-east-1"),
            config=Config(
                connect_timeout=5, read_timeout=60, retries={"mode": "standard", "total_max_attempts": attempts},
                s3={"addressing_style": "path"} if keys.endpoint else None,
            ),
        )  # fmt: skip


def make(client: Any, bucket: str) -> bool:
    """Make a bucket unless it is there, and see that it keeps an object; return whether it was made.

    Raises
    ------
    UnreachableError
        The service cannot be reached, or cannot keep anything yet.
    """
    made = False
    with told(f"s3://{bucket}", client.meta.endpoint_url):
        try:
            client.head_bucket(Bucket=bucket)
        except boto.ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") != 404:
                raise
            client.create_bucket(Bucket=bucket)
            made = True
    try_writing(client, bucket, "")
    return made


def try_writing(client: Any, bucket: str, prefix: str) -> datetime:
    """Write, read and delete a small object; return the server's clock.

    Raises
    ------
    InputError
        No such bucket, or no permission.
    UnreachableError
        The service cannot be reached.
    """
    key = f"{prefix.rstrip('/')}/.assay-doctor-{uuid.uuid4().hex}".lstrip("/")
    with told(f"s3://{bucket}/{prefix}", client.meta.endpoint_url):
        client.put_object(Bucket=bucket, Key=key, Body=b"assay")
        try:
            with contextlib.closing(client.get_object(Bucket=bucket, Key=key)["Body"]) as body:
                if body.read() != b"assay":
                    raise InputError.of(f"s3://{bucket}/{prefix}", "does not give back what was written")
            seen: datetime = client.head_object(Bucket=bucket, Key=key)["LastModified"]
        finally:
            client.delete_object(Bucket=bucket, Key=key)
    return seen


def copy_out(client: Any, bucket: str, folder: Path) -> Iterator[Copied]:
    """Copy every object of a bucket into a folder, its bytes under their digest: no key can lead out of it."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with told(f"s3://{bucket}", client.meta.endpoint_url):
        for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
            for item in page.get("Contents", ()):
                yield _copied(client, bucket, item["Key"], folder)


def copy_in(client: Any, item: Copied, folder: Path) -> None:
    """Bring an object back, if its bytes are still those that were copied.

    Raises
    ------
    InputError
        They are not there, or are others.
    """
    file = folder / item.sha256
    if not file.is_file() or _digest(file) != item.sha256:
        raise InputError.of(str(file), f"is missing or damaged; s3://{item.bucket}/{item.key} cannot be restored")
    with told(f"s3://{item.bucket}/{item.key}", client.meta.endpoint_url):
        client.upload_file(str(file), item.bucket, item.key)


def _copied(client: Any, bucket: str, key: str, folder: Path) -> Copied:
    digest, size = hashlib.sha256(), 0
    with tempfile.NamedTemporaryFile(dir=folder, prefix="new-", delete=False) as file:
        try:
            with contextlib.closing(client.get_object(Bucket=bucket, Key=key)["Body"]) as body:
                for chunk in body.iter_chunks(PART):
                    digest.update(chunk)
                    size += file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
            Path(file.name).replace(folder / digest.hexdigest())
        except BaseException:
            Path(file.name).unlink(missing_ok=True)
            raise
    return Copied(bucket=bucket, key=key, sha256=digest.hexdigest(), size=size)


def _digest(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
