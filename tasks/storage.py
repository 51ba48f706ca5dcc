"""Files: finding inputs, digesting them, and writing so that nothing is ever half-written."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import InputError, Problem

SUFFIXES = (".parquet", ".csv", ".tsv", ".jsonl", ".ndjson")
"""Formats that a table may have; the text ones also with .gz."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file that was named, found in a folder, or matched a pattern.

    Attributes
    ----------
    path : Path
    name : str
        As shown in messages.
    reader : str
        Which reader opens it.
    """

    path: Path
    name: str
    reader: str = "table"

    @property
    def uri(self) -> str:
        """Where the file is and who reads it, as records name it."""
        path = str(self.path.resolve())
        return path if self.reader == "table" else f"{self.reader}:{path}"


def find_inputs(arguments: Sequence[str], readers: Sequence[str]) -> list[InputFile]:
    """Turn ``[READER:]PATH`` arguments (files, folders, patterns) into files, in a fixed order.

    Raises
    ------
    InputError
        All arguments that name no readable file.
    """
    problems: list[Problem] = []
    found: list[InputFile] = []
    for argument in arguments:
        reader, path = _split_reader(argument, readers)
        try:
            found += [InputFile(path=item, name=str(item), reader=reader) for item in _files(path, argument)]
        except InputError as error:
            problems += error.problems
    seen = set()
    for item in found:
        key = item.path.resolve()
        if key in seen:
            problems.append(Problem(source=item.name, message="is named twice; each file counts once"))
        seen.add(key)
        if (reason := _unreadable(item.path)) is not None:
            problems.append(Problem(source=item.name, message=reason))
    if problems:
        raise InputError(problems)
    return found


def _split_reader(argument: str, readers: Sequence[str]) -> tuple[str, str]:
    prefix, colon, rest = argument.partition(":")
    return (prefix, rest) if colon and prefix in readers else ("table", argument)


def _files(path: str, argument: str) -> list[Path]:
    if "://" in path:
        raise InputError.of(argument, "only local files can be read so far; download it first")
    if os.path.isdir(path):  # noqa: PTH112 (Path.is_dir raises where it may not look)
        inside = sorted(item for item in Path(path).rglob("*") if _is_data(item, Path(path)))
        if not inside:
            raise InputError.of(argument, f"the folder holds no data files ({', '.join(SUFFIXES)})")
        return inside
    if glob.has_magic(path) and not os.path.exists(path):  # noqa: PTH110
        found = map(Path, glob.glob(path, recursive=True))  # noqa: PTH207 (the pattern may be absolute)
        matched = sorted(item for item in found if item.is_file())
        if not matched:
            raise InputError.of(argument, "no file matches the pattern")
        return matched
    return [Path(path)]


def _is_data(item: Path, folder: Path) -> bool:
    """Tell whether a file in a folder is meant: its own and its folders' names hide it with _ or a dot."""
    hidden = any(part.startswith(("_", ".")) for part in item.relative_to(folder).parts)
    return not hidden and format_of(item) is not None and item.is_file()


def _unreadable(path: Path) -> str | None:
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


def format_of(path: Path) -> str | None:
    """Return the format that a file's name says (its suffix without .gz), or None."""
    name = path.name.lower().removesuffix(".gz")
    return next((suffix for suffix in SUFFIXES if name.endswith(suffix)), None)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
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


def write_text(path: Path, text: str) -> None:
    """Write a text file whole or not at all."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
