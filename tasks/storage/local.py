"""Files on this machine: finding them, digesting them, and writing so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePath

from core.errors import InputError

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")
"""Formats that a table may have; the text ones also with .gz."""


TOOL_SUFFIXES = (*SUFFIXES, ".json", ".eval", ".db", ".sqlite", ".sqlite3")
"""Formats in which other tools keep their results."""


def local_files(path: str, argument: str, suffixes: tuple[str, ...] = SUFFIXES) -> list[Path]:
    """Find the files of a path: itself, those of a folder, those that match a pattern.

    Raises
    ------
    InputError
        A folder without data files, or a pattern that nothing matches.
    """
    if os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises where it may not look)
        inside = sorted(item for item in Path(path).rglob("*") if _is_data(item, Path(path), suffixes))
        if not inside:
            raise InputError.of(argument, f"the folder holds no data files ({', '.join(suffixes)})")
        return inside
    if glob.has_magic(path) and not os.path.exists(path):  # noqa: PTH110
        found = map(Path, glob.glob(path, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
        matched = sorted(item for item in found if item.is_file())
        if not matched:
            raise InputError.of(argument, "no file matches the pattern")
        return matched
    return [Path(path)]


def _is_data(item: Path, folder: Path, suffixes: tuple[str, ...]) -> bool:
    """Tell whether a file in a folder is meant."""
    return is_data(item.relative_to(folder), suffixes) and item.is_file()


def is_data(inside: PurePath, suffixes: tuple[str, ...] = SUFFIXES) -> bool:
    """Tell whether a name within a folder or prefix is data: it, or a folder in it, is hidden by a first _ or dot."""
    return not any(part.startswith(("_", ".")) for part in inside.parts) and format_of(inside, suffixes) is not None


def unreadable(path: Path) -> str | None:
    """Say why a file cannot be read, or None."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return "is not a file; a pipe or device has to be saved as one first"
        with path.open("rb") as file:
            return "is empty" if not file.read(1) else None
    except FileNotFoundError:
        return "there is no such file"
    except PermissionError:
        return "no permission to read it"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def format_of(path: PurePath, suffixes: tuple[str, ...] = SUFFIXES) -> str | None:
    """Return the format that a file's name says (its suffix without .gz), or None."""
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in suffixes if name.endswith(suffix)), None)


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
        The folder cannot be written to, or the path is a device or another thing that must not be replaced.
    """
    with folder_for(path) as folder:
        if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113 (they never raise)
            raise InputError.of(str(path), "is there and is not a file; choose another place with -o")
        try:
            handle, name = tempfile.mkstemp(dir=folder, prefix=f".{path.name[:40]}.", suffix=".part")
        except OSError as error:
            raise _unwritable(path, error) from None
        os.close(handle)
        temporary = Path(name)
        try:
            yield temporary
            temporary.chmod(0o666 & ~_umask())
            temporary.replace(path)
        except OSError as error:
            raise _unwritable(path, error) from None
        finally:
            temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_for(path: Path) -> Iterator[Path]:
    """Make the folder that a file is to stand in; folders that were made for nothing are gone afterwards.

    Raises
    ------
    InputError
        It cannot be made.
    """
    folder = path.parent
    missing = [item for item in (folder, *folder.parents) if not os.path.lexists(item)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(path, error) from None
    try:
        yield folder
    except BaseException:
        for item in missing:
            with contextlib.suppress(OSError):  # something else stands in it by now
                item.rmdir()
        raise


def _unwritable(path: Path, error: OSError) -> InputError:
    return InputError.of(str(path), f"cannot be written: {error.strerror}; choose another place with -o")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def local_bytes(path: Path, max_bytes: int, what: str) -> bytes:
    """Read a small file; `what` it should be is for the message.

    Raises
    ------
    InputError
        No such file, no permission, or more than `max_bytes`.
    """
    try:
        if path.stat().st_size > max_bytes:
            raise InputError.of(str(path), f"is larger than {max_bytes} bytes; is this a {what}?")
        return path.read_bytes()
    except FileNotFoundError:
        raise InputError.of(str(path), "there is no such file") from None
    except OSError as error:
        raise InputError.of(str(path), f"cannot be read: {error.strerror}") from None
