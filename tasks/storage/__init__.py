"""Where data comes from and goes to: files and folders, and ``s3://`` objects of any service that speaks S3.

boto3 is behind this door alone, and is imported when the first ``s3://`` address is met: local work does not pay for
it. Objects are read through a bounded local cache, so that every reader gets a file.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from core.errors import InputError
from tasks.storage.address import Place, S3Url, is_s3, place_of
from tasks.storage.inputs import InputFile, fetched, find_inputs, split_reader
from tasks.storage.local import (
    SUFFIXES,
    TOOL_SUFFIXES,
    file_digest,
    folder_for,
    format_of,
    local_atomic,
    local_bytes,
)

__all__ = [
    "SUFFIXES", "TOOL_SUFFIXES", "InputFile", "Place", "S3Url", "atomic", "check_writable", "delivered", "digest_of",
    "exists", "fetched", "file_digest", "find_inputs", "folder_for", "format_of", "is_s3", "pinned", "place_of",
    "read_bytes",
    "split_reader", "write_text",
]  # fmt: skip


@contextlib.contextmanager
def atomic(place: Place, *, once: bool = False) -> Iterator[Path]:
    """Give a temporary path whose file takes its place when the block ends well, and else vanishes.

    Parameters
    ----------
    place : Path or S3Url
    once : bool
        The name says the content: an object that is there already stays.

    Raises
    ------
    InputError
        The place cannot be written to.
    UnreachableError
        Object storage cannot be reached.
    """
    if isinstance(place, Path):
        with local_atomic(place) as temporary:
            yield temporary
        return
    from tasks.storage import s3

    if not place.name:
        raise InputError.of(str(place), "names no object; s3://BUCKET/KEY is expected")
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        temporary = Path(folder) / "object"
        temporary.touch()
        yield temporary
        if once:
            s3.put_once(temporary, place)
        else:
            s3.put(temporary, place)


@contextlib.contextmanager
def delivered(file: Path, place: Place, *, once: bool = False) -> Iterator[str]:
    """Give the SHA-256 of what is to stand at a place, and bring the file there when the block ends well.

    What is to be written `once` into object storage goes there first, since it may be that another file's bytes stand
    there already, and stay; see `atomic`.
    """
    sha256 = file_digest(file)
    if isinstance(place, Path):
        with local_atomic(place) as temporary:
            file.replace(temporary)
            yield sha256
        return
    from tasks.storage import s3

    if once:
        yield sha256 if s3.put_once(file, place) else digest_of(place)
    else:
        yield sha256
        s3.put(file, place)


def digest_of(place: Place) -> str:
    """Return the SHA-256 of what stands at a place, in hex.

    Raises
    ------
    InputError
        There is no such object.
    UnreachableError
        Object storage cannot be reached.
    """
    if isinstance(place, Path):
        return file_digest(place)
    (file,) = fetched([place])
    return file_digest(file.path)


def check_writable(place: Place) -> None:
    """Tell a missing bucket before the work begins; folders are made.

    Raises
    ------
    InputError
        There is no such bucket.
    UnreachableError
        Object storage cannot be reached.
    """
    if isinstance(place, S3Url):
        from tasks.storage import s3

        s3.check_bucket(place)


def exists(place: Place) -> bool:
    """Whether a file or object is there, in the version that its address says."""
    if isinstance(place, Path):
        return place.is_file()
    from tasks.storage import s3
    from tasks.storage.failures import ChangedError, NotThereError

    try:
        s3.pinned(place)
    except (NotThereError, ChangedError):
        return False
    return True


def pinned(place: Place) -> Place:
    """Return a place as records name it: a path resolved, an object with its version or tag.

    Raises
    ------
    InputError
        There is no such object.
    UnreachableError
        Object storage cannot be reached.
    """
    if isinstance(place, Path):
        return place.resolve()
    from tasks.storage import s3

    return s3.pinned(place)


def read_bytes(place: Place, max_bytes: int, what: str) -> bytes:
    """Read a small file or object; `what` it should be is for the message.

    Raises
    ------
    InputError
        It is not there, may not be read, or is too large.
    UnreachableError
        Object storage cannot be reached.
    """
    if isinstance(place, Path):
        return local_bytes(place, max_bytes, what)
    from tasks.storage import s3

    return s3.read_bytes(place, max_bytes, what)


def write_text(place: Place, text: str) -> None:
    """Write a text file or object whole or not at all."""
    with atomic(place) as temporary:
        temporary.write_text(text, encoding="utf-8")
