"""The result cache: a record that was derived from the same inputs, spec and code is not derived again.

The key holds the inputs' places, readers and digests (also of the maps and models that they are read with), the spec, a
digest of all code that decides a figure, and the versions of the libraries that compute. A changed estimator therefore
recomputes, which a cache keyed by the calling function alone would miss. An entry is a folder ``results/<key>`` in the
cache folder with the record and its outputs.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.errors import AssayError
from core.records import Document, FileReference, digest, plain
from tasks import steps
from tasks.archive import Written, dumped, load_record, records_folder, scratch_beside, write_record
from tasks.settings import settings
from tasks.steps import Runner
from tasks.storage import InputFile, Place, S3Url, atomic, check_writable, file_digest

CODE = ("core", "tasks", "flows/pipelines")
COMPUTING_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "pyarrow")
PROJECT = Path(__file__).resolve().parent.parent


@cache
def code_digest(root: Path = PROJECT) -> str:
    """Digest the code that figures depend on: every module and data file of `core`, `tasks` and the pipelines."""
    found = hashlib.sha256()
    for folder in CODE:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                found.update(str(path.relative_to(root)).encode())
                found.update(path.read_bytes())
    return found.hexdigest()


def result_key(schema: str, spec: Any, inputs: Mapping[str, Sequence[InputFile]], **more: Any) -> str:
    """Return the key of a result.

    Parameters
    ----------
    schema : str
    spec : Any
        What `core.records.plain` takes.
    inputs : mapping of role to files
    **more
        Whatever else decides the result, such as the judge's fingerprint.
    """
    libraries = {name: version(name) for name in COMPUTING_PACKAGES}
    return digest(
        {
            "schema": schema,
            "spec": plain(spec),
            "inputs": {role: [_key_of(file) for file in files] for role, files in inputs.items()},
            "code": code_digest(),
            "libraries": libraries,
            "more": more,
        }
    )


def _key_of(file: InputFile) -> tuple[Any, ...]:
    return file.uri, file_digest(file.path), [file_digest(item) for item in file.beside]


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """A sealed record and the data files that belong to it, not yet where they are kept.

    Attributes
    ----------
    document : dict
    outputs : tuple of (role, path, rows)
    """

    document: Document
    outputs: tuple[tuple[str, Path, int], ...]


def write_result(key: str | None, compute: Callable[[Path], Result], output: Place | None, run: Runner) -> Written:
    """Compute a result, or take it from the cache, and write it where it belongs.

    Parameters
    ----------
    key : str or None
        Its key in the cache (`result_key`); None computes without looking.
    compute : callable
        Makes the result, its files in the folder that it is given.
    output : Path or S3Url, optional
    run : Runner
    """
    place = output or records_folder()
    if isinstance(place, S3Url):
        run(steps.PLACE, lambda: check_writable(place))
    with scratch_beside(output) as folder:
        result = None if key is None else run(steps.RECALL, lambda: _recalled(key, folder))
        if result is None:
            result = compute(folder)
            if key is not None:
                with contextlib.suppress(AssayError, OSError):  # a cache that is full or read-only costs no result
                    _keep(key, result)
        return run(steps.WRITE, lambda: write_record(result.document, output, _copies(result, folder)))


def _copies(result: Result, folder: Path) -> list[tuple[str, Path, int]]:
    """Hand out copies, since writing a record moves its files and a failed attempt is made again."""
    copies = []
    for role, path, rows in result.outputs:
        copy = folder / f"{role}.copy.parquet"
        shutil.copyfile(path, copy)
        copies.append((role, copy, rows))
    return copies


def _recalled(key: str, folder: Path) -> Result | None:
    """Return a cached result with copies of its files; None if there is none, or it is damaged."""
    place = settings().cache_dir / "results" / key
    try:
        document = load_record(place / "record.json")
        outputs = []
        for item in document["outputs"]:
            copy = folder / f"{item['role']}.parquet"
            shutil.copyfile(place / f"{item['role']}.parquet", copy)
            if file_digest(copy) != item["sha256"]:
                return None
            outputs.append((str(item["role"]), copy, int(item["rows"])))
        os.utime(place)  # used: it goes last when room is made
    except (AssayError, OSError, KeyError, TypeError, ValueError):
        return None
    return Result(document=document, outputs=tuple(outputs))


def _keep(key: str, result: Result) -> None:
    """Put a result into the cache; the record goes last, since it makes the entry valid."""
    place = settings().cache_dir / "results" / key
    named = []
    for role, path, rows in result.outputs:
        with atomic(place / f"{role}.parquet") as temporary:
            shutil.copyfile(path, temporary)
        named.append(FileReference(role=role, uri=f"{role}.parquet", sha256=file_digest(path), rows=rows))
    document = {**result.document, "outputs": [plain(item) for item in named]}
    with atomic(place / "record.json") as temporary:
        temporary.write_text(dumped(document), encoding="utf-8")
    _evict(place)


def _evict(newest: Path) -> None:
    """Keep all results together within the bound of the cache: the least recently used go first."""
    entries = sorted(newest.parent.iterdir(), key=lambda entry: entry.stat().st_mtime, reverse=True)
    used = 0
    for entry in [newest, *(entry for entry in entries if entry != newest)]:
        used += sum(file.stat().st_size for file in entry.iterdir())
        if used > settings().cache_bytes and entry != newest:
            shutil.rmtree(entry, ignore_errors=True)
