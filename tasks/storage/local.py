"""Files on this machine: finding them, digesting them, and writing so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath

from core.errors import InputError

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")
"""Formats that a table may have; the text ones also with .gz."""


def local_files(path: str, argument: str) -> list[Path]:
    """Find the files of a path: itself, those of a folder, those that match a pattern.

    Raises
    ------
    InputError
        A folder without data files, or a pattern that nothing matches.
    """
    if Path(path).is_dir():
        inside = sorted(
            item for item in Path(path).rglob("*")
            if item.is_file() and format_of(item) and not item.name.startswith(("_", "."))
        )  # fmt: skip
        if not inside:
            raise InputError.of(argument, f"the folder holds no data files ({', '.join(SUFFIXES)})")
        return inside
    if not Path(path).exists() and glob.has_magic(path):
        found = map(Path, glob.glob(path, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
        matched = sorted(item for item in found if item.is_file())
        if not matched:
            raise InputError.of(argument, "no file matches the pattern")
        return matched
    return [Path(path)]


def unreadable(path: Path) -> str | None:
    """Say why a file cannot be read, or None."""
    try:
        with path.open("rb") as file:
            return "is empty" if not file.read(1) else None
    except FileNotFoundError:
        return "there is no such file"
    except PermissionError:
        return "no permission to read it"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def format_of(path: PurePath) -> str | None:
    """Return the format that a file's name says (its suffix without .gz), or None."""
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def local_atomic(path: Path) -> Iterator[Path]:
    """Give a temporary path beside `path` that takes its place when the block ends well, and else vanishes.

    Raises
    ------
    InputError
        The folder cannot be written to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:80]}.", suffix=".part")
    except OSError as error:
        raise InputError.of(str(path), f"cannot be written: {error.strerror}; choose another place with -o") from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o666 & ~_umask())
        temporary.replace(path)
    except OSError as error:
        raise InputError.of(str(path), f"cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def local_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a small file.

    Raises
    ------
    InputError
        No such file, no permission, or more than `max_bytes`.
    """
    try:
        if path.stat().st_size > max_bytes:
            raise InputError.of(str(path), f"is larger than {max_bytes} bytes; is it the right file?")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError.of(str(path), "there is no such file") from None
    except OSError as error:
        raise InputError.of(str(path), f"cannot be read: {error.strerror}") from None
