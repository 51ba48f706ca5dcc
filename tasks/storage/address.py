"""Addresses of objects, which behave like the few parts of a path that assay uses."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from core.errors import InputError

SCHEME = "s3://"
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_PIN = re.compile(r"(?P<key>.*?)(?:\?versionId=(?P<version>[^?#]+)|#etag=(?P<etag>[^?#]+))", re.DOTALL)
_SIGNED = re.compile(r"[?&](?:X-Amz-\w+|AWSAccessKeyId|Signature)=", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class S3Url:
    """``s3://bucket/key``, perhaps of one version of the object.

    Attributes
    ----------
    bucket, key : str
        The key may be empty (the whole bucket) or end with ``/`` (a prefix).
    version : str or None
        Version id; written ``?versionId=...``.
    etag : str or None
        The content's tag, where the bucket keeps no versions; written ``#etag=...``.
    """

    bucket: str
    key: str = ""
    version: str | None = None
    etag: str | None = None

    @classmethod
    def parse(cls, text: str) -> S3Url:
        """Read an address.

        Raises
        ------
        InputError
            It names no bucket, or holds credentials; those are not repeated in the message.

        Examples
        --------
        >>> S3Url.parse("s3://lab/runs/a.csv?versionId=7").version
        '7'
        """
        bucket, _, key = text.removeprefix(SCHEME).partition("/")
        if not bucket or set(bucket) & {"@", ":"} or _SIGNED.search(text):
            raise InputError.of(f"{SCHEME}...", (
                "is not s3://BUCKET/KEY; credentials do not belong into an address: give them to boto3 "
                "(AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile)"
            ))  # fmt: skip
        if not _BUCKET.fullmatch(bucket):
            raise InputError.of(text, f"{bucket!r} cannot be the name of a bucket")
        pin = _PIN.fullmatch(key)
        return cls(bucket=bucket, key=key) if pin is None else cls(bucket=bucket, **pin.groupdict())

    def __str__(self) -> str:
        pin = f"?versionId={self.version}" if self.version else f"#etag={self.etag}" if self.etag else ""
        return f"{SCHEME}{self.bucket}/{self.key}{pin}"

    def __truediv__(self, name: str) -> S3Url:
        return S3Url(bucket=self.bucket, key=f"{self.key.rstrip('/')}/{name}".lstrip("/"))

    @property
    def latest(self) -> S3Url:
        """The same object, whatever its version."""
        return replace(self, version=None, etag=None)

    @property
    def name(self) -> str:
        """Last part of the key."""
        return self.key.rpartition("/")[2]

    @property
    def stem(self) -> str:
        """The name without its last suffix."""
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        """The name's last suffix, with its dot."""
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> S3Url:
        """The prefix that holds it."""
        return S3Url(bucket=self.bucket, key=self.key.rstrip("/").rpartition("/")[0])

    def with_name(self, name: str) -> S3Url:
        """Address an object beside it."""
        return self.parent / name


Place = Path | S3Url
"""Where something is read from or written to."""


def is_s3(text: str) -> bool:
    """Whether an argument is an address of object storage."""
    return text.startswith(SCHEME)


def place_of(text: str) -> Place:
    """Read a path or an address.

    Raises
    ------
    InputError
        Another scheme, or an address that is none.
    """
    if is_s3(text):
        return S3Url.parse(text)
    if "://" in text:
        raise InputError.of(f"{text.partition('://')[0]}://...", "only local paths and s3://BUCKET/KEY are known")
    return Path(text)
