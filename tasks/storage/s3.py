"""Objects: finding, downloading and uploading them through boto3. Imported only when an ``s3://`` address is met."""

from __future__ import annotations

import contextlib
import os
import re
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path, PurePosixPath
from typing import IO, Any

import boto3
from botocore.config import Config

from core.errors import InputError, Problem, UnreachableError
from tasks.settings import settings
from tasks.storage.address import S3Url
from tasks.storage.cache import PART, Cache, Lease
from tasks.storage.failures import BrokenOffError, ChangedError, DamagedError, NotThereError, told
from tasks.storage.local import SUFFIXES, is_data

MAX_LISTED = 100_000
CHUNK = 2**18
SINGLE_PUT = 64 * 2**20
"""Larger objects are sent in parts of this size; either way an object appears whole or not at all."""
DOWNLOADS = 8
MAGIC = re.compile(r"[*?[]")


@cache
def client() -> Any:
    """Return the client: endpoint, region and keys are found as boto3 finds them; time and retries are bounded.

    Endpoints other than Amazon's are addressed by path, which all of them understand.
    """
    own_endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    style = settings().s3_addressing or ("path" if own_endpoint else None)
    with told("object storage"):
        return boto3.session.Session().client("s3", config=Config(
            connect_timeout=min(10.0, settings().s3_timeout),
            read_timeout=settings().s3_timeout,
            retries={"mode": "standard", "total_max_attempts": settings().s3_attempts},
            max_pool_connections=DOWNLOADS + 2,
            s3={"addressing_style": style} if style else None,
        ))  # fmt: skip


def _asked(url: S3Url) -> contextlib.AbstractContextManager[None]:
    return told(url, client().meta.endpoint_url)


def copies() -> Cache:
    """Return the cache of downloaded objects."""
    return Cache(settings().cache_dir / "s3", settings().cache_bytes)


def find(url: S3Url, suffixes: tuple[str, ...] = SUFFIXES) -> list[S3Url]:
    """Find the objects of an address: itself, those under a prefix, those that match a pattern, each with its tag.

    As with folders, a prefix stands for the data files under it, and names hidden by a first ``_`` or ``.`` are left
    out. In a pattern ``*`` and ``?`` stop at ``/``, and ``**`` does not.

    Raises
    ------
    InputError
        No bucket, no permission, or no such object.
    UnreachableError
        The service cannot be reached.
    """
    if url.version or url.etag:
        return [url]
    if magic := MAGIC.search(url.key):
        pattern = re.compile(_pattern(url.key), re.DOTALL)
        listed = _listed(url, url.key[: magic.start()])
        found = [item for item in listed if item.key == url.key] or [
            item for item in listed if pattern.fullmatch(item.key) and not item.key.endswith("/")
        ]
        if not found:
            raise NotThereError.of(str(url), "no object matches the pattern")
        return found
    if url.key and not url.key.endswith("/"):
        try:
            return [pinned(url)]
        except NotThereError:
            inside = _data_files(url, f"{url.key}/", suffixes)
            if not inside:
                raise
            return inside
    inside = _data_files(url, url.key, suffixes)
    if not inside:
        raise NotThereError.of(str(url), f"no data files stand under this prefix ({', '.join(suffixes)})")
    return inside


def _data_files(url: S3Url, prefix: str, suffixes: tuple[str, ...]) -> list[S3Url]:
    listed = _listed(url, prefix)
    return [item for item in listed if is_data(PurePosixPath(item.key.removeprefix(prefix)), suffixes)]


def _listed(url: S3Url, prefix: str) -> list[S3Url]:
    found: list[S3Url] = []
    with _asked(url):
        for page in client().get_paginator("list_objects_v2").paginate(Bucket=url.bucket, Prefix=prefix):
            found += [
                S3Url(bucket=url.bucket, key=item["Key"], etag=item["ETag"].strip('"'))
                for item in page.get("Contents", ())
            ]
            if len(found) > MAX_LISTED:
                raise InputError.of(str(url), f"more than {MAX_LISTED:,} objects stand there; name a narrower prefix")
    return sorted(found)


def _pattern(glob: str) -> str:
    """Translate a pattern into a regular expression."""
    meaning = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?[^]/]+\])", glob)
    return "".join(
        meaning.get(part) or (f"[{part[1:-1].replace('!', '^', 1)}]" if part[:1] == "[" and part[-1:] == "]"
                              else re.escape(part))
        for part in parts
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Object:
    """What is known of an object: its address with version or tag, tag and size."""

    url: S3Url
    etag: str
    size: int


def pinned(url: S3Url) -> S3Url:
    """Look an object up and return its address with the version, or else the tag, that it has now.

    Raises
    ------
    NotThereError
        No such object.
    ChangedError
        The address says a tag, and the object has another one.
    """
    return _head(url).url


def _head(url: S3Url) -> _Object:
    with _asked(url):
        try:
            answer = client().head_object(**_named(url))
        except client().exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] == 404:
                check_bucket(url)  # the answer to HEAD has no body that could say which of the two is missing
            raise
    etag, version = answer["ETag"].strip('"'), answer.get("VersionId", "null")
    known = replace(url, version=version, etag=None) if version != "null" else replace(url, version=None, etag=etag)
    return _Object(url=known, etag=etag, size=answer["ContentLength"])


def check_bucket(url: S3Url) -> None:
    """Tell a missing bucket; a bucket that may not be looked at is taken to be there.

    Raises
    ------
    NotThereError
        No such bucket.
    UnreachableError
        The service cannot be reached.
    """
    with _asked(url):
        try:
            client().head_bucket(Bucket=url.bucket)
        except client().exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            if status == 404:
                raise NotThereError.of(str(url), "there is no such bucket") from None
            if status >= 500:
                raise


def _named(url: S3Url) -> dict[str, str]:
    pin = {"VersionId": url.version} if url.version else {"IfMatch": f'"{url.etag}"'} if url.etag else {}
    return {"Bucket": url.bucket, "Key": url.key, **pin}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copy:
    """A downloaded object: its address with the version that was read, and its file, which the lease keeps."""

    url: S3Url
    path: Path
    lease: Lease


def fetch(urls: Sequence[S3Url]) -> list[Copy]:
    """Download objects into the cache, or find them there.

    Raises
    ------
    InputError
        All objects that are missing, have changed since they were found, or may not be read; or they exceed the cache.
    UnreachableError
        The service cannot be reached, or breaks off again and again; what has arrived is kept.
    """
    folder, stop = copies(), threading.Event()
    with ThreadPoolExecutor(DOWNLOADS) as pool, _set_at_the_end(stop):
        objects = _gathered(pool, _head, urls)
        found = [(item, Lease(_path(folder, item))) for item in objects]
        absent = [(item, lease) for item, lease in found if not lease.path.exists()]
        folder.make_room(sum(item.size - _part_size(lease.path, item.size) for item, lease in absent))
        _gathered(pool, lambda pair: _download(folder, pair[0], pair[1], stop), absent)
    for _, lease in found:
        with contextlib.suppress(OSError):  # the order of eviction is worth no failure
            os.utime(lease.path)
    return [Copy(url=item.url, path=lease.path, lease=lease) for item, lease in found]


@contextlib.contextmanager
def _set_at_the_end(stop: threading.Event) -> Iterator[None]:
    """Let running downloads end when the work is interrupted or has failed, instead of waiting for their last byte."""
    try:
        yield
    finally:
        stop.set()


def _gathered(pool: ThreadPoolExecutor, work: Any, items: Sequence[Any]) -> list[Any]:
    """Do work on all items at once; what is wrong with any of them is told for all."""
    results, problems = [], list[Problem]()
    futures = [pool.submit(work, item) for item in items]
    try:
        for future in futures:
            try:
                results.append(future.result())
            except InputError as error:
                problems += error.problems
                kind = type(error)
    finally:
        for future in futures:
            future.cancel()
    if problems:
        raise kind(problems) if len(problems) == 1 else InputError(problems)
    return results


def _path(folder: Cache, item: _Object) -> Path:
    url = item.url
    return folder.path((client().meta.endpoint_url, url.bucket, url.key, item.etag, str(item.size)), url.name)


def _part_size(path: Path, size: int) -> int:
    part = path.with_name(path.name + PART)
    return min(part.stat().st_size, size) if part.exists() else 0


def _download(folder: Cache, item: _Object, lease: Lease, stop: threading.Event) -> None:
    with folder.download(lease.path) as file:
        if file is None:
            return
        if file.tell() > item.size:
            file.truncate(0)
            file.seek(0)
        for attempt in range(1, settings().s3_attempts + 1):
            if (have := file.tell()) == item.size:
                return
            try:
                _append(item, file, have, stop)
            except BrokenOffError as error:
                if attempt == settings().s3_attempts or stop.is_set():
                    raise UnreachableError(
                        f"{error}; {file.tell():,} of {item.size:,} bytes arrived in {attempt} attempts and are kept, "
                        "so that the next run goes on from there"
                    ) from None


def _append(item: _Object, file: IO[bytes], have: int, stop: threading.Event) -> None:
    """Read an object from an offset on; its tag, and its size, have to be what they were."""
    wanted = {**_named(item.url), "IfMatch": f'"{item.etag}"'}
    if have:
        wanted["Range"] = f"bytes={have}-"
    with _asked(item.url):
        answer = client().get_object(**wanted)
    with contextlib.closing(answer["Body"]) as body:
        if have and not answer.get("ContentRange"):  # a service that does not know ranges sends all of it
            have = file.seek(0)
            file.truncate()
        if have + answer["ContentLength"] != item.size:
            raise ChangedError.of(str(item.url), (
                f"has {have + answer['ContentLength']:,} bytes where {item.size:,} were listed: it was changed in "
                "between; run again"
            ))  # fmt: skip
        _take(item, body, file, stop)


def _take(item: _Object, body: Any, file: IO[bytes], stop: threading.Event) -> None:
    try:
        with _asked(item.url):
            for chunk in body.iter_chunks(CHUNK):
                file.write(chunk)
                if stop.is_set():
                    break
    except DamagedError:
        file.seek(0)
        file.truncate()
        raise
    except UnreachableError as error:  # too slow, say: boto3 repeats requests, but not what follows an answer
        raise BrokenOffError(str(error)) from None
    if file.tell() != item.size:
        raise BrokenOffError(f"{item.url}: the service broke off before the object's end")


def read_bytes(url: S3Url, max_bytes: int, what: str) -> bytes:
    """Read a small object; `what` it should be is for the message.

    Raises
    ------
    InputError
        No such object, no permission, another version than the address says, or more than `max_bytes`.
    UnreachableError
        The service cannot be reached.
    """
    with _asked(url):
        answer = client().get_object(**_named(url))
        with contextlib.closing(answer["Body"]) as body:
            if answer["ContentLength"] > max_bytes:
                raise InputError.of(str(url), f"is larger than {max_bytes} bytes; is this a {what}?")
            return bytes(body.read())


def put(path: Path, url: S3Url) -> None:
    """Write an object from a file, over what may be there; it appears whole or not at all.

    Raises
    ------
    InputError
        No such bucket, or no permission.
    UnreachableError
        The service cannot be reached.
    """
    _put(path, url, {})


def put_once(path: Path, url: S3Url) -> bool:
    """Write an object from a file unless there is one of this name; return whether it was written. See `put`."""
    try:
        _put(path, url, {"IfNoneMatch": "*"})
    except ChangedError:
        return False
    return True


def _put(path: Path, url: S3Url, condition: dict[str, str]) -> None:
    named = {"Bucket": url.bucket, "Key": url.key}
    with _asked(url), path.open("rb") as file:
        if path.stat().st_size <= SINGLE_PUT:
            client().put_object(**named, **condition, Body=file)
        else:
            _put_parts(named, condition, file)


def _put_parts(named: dict[str, str], condition: dict[str, str], file: IO[bytes]) -> None:
    upload = {**named, "UploadId": client().create_multipart_upload(**named)["UploadId"]}
    try:
        parts = []
        for number, content in enumerate(_chunks(file), start=1):
            answer = client().upload_part(**upload, PartNumber=number, Body=content)
            sums = {key: value for key, value in answer.items() if key.startswith("Checksum") and key != "ChecksumType"}
            parts.append({"PartNumber": number, "ETag": answer["ETag"], **sums})
        client().complete_multipart_upload(**upload, **condition, MultipartUpload={"Parts": parts})
    except BaseException:  # also when interrupted: parts of an unfinished upload are kept, and cost, until aborted
        with contextlib.suppress(Exception):
            client().abort_multipart_upload(**upload)
        raise


def _chunks(file: IO[bytes]) -> Iterator[bytes]:
    while chunk := file.read(SINGLE_PUT):
        yield chunk
