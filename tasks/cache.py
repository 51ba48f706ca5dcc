"""The result cache: a record that was derived from the same inputs, spec and code is not derived again.

The key holds the inputs' digests, the spec, a digest of all code of `core` and `tasks`, and the versions of the
libraries that compute. A changed estimator therefore recomputes, which a cache keyed by the calling function alone
would miss. An entry is a folder ``results/<key>`` in the cache folder with the record and its outputs.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.errors import AssayError
from core.records import Document, digest, plain
from tasks.archive import load_record
from tasks.settings import settings
from tasks.storage import atomic, file_digest

COMPUTING_PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn", "pyarrow")
PROJECT = Path(__file__).resolve().parent.parent


@cache
def code_digest(root: Path = PROJECT) -> str:
    """Digest the code that figures depend on: every module and data file of `core` and `tasks`."""
    found = hashlib.sha256()
    for folder in ("core", "tasks"):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                found.update(str(path.relative_to(root)).encode())
                found.update(path.read_bytes())
    return found.hexdigest()


def result_key(schema: str, spec: Any, inputs: Sequence[tuple[str, str]], **more: Any) -> str:
    """Return the key of a result.

    Parameters
    ----------
    schema : str
    spec : Any
        What `core.records.plain` takes.
    inputs : sequence of (role, sha256)
    **more
        Whatever else decides the result, such as the judge's fingerprint.
    """
    libraries = {name: version(name) for name in COMPUTING_PACKAGES}
    return digest(
        {
            "schema": schema,
            "spec": plain(spec),
            "inputs": sorted(inputs),
            "code": code_digest(),
            "libraries": libraries,
            "more": more,
        }
    )


def cached_result(key: str) -> tuple[Document, dict[str, Path]] | None:
    """Return a cached record and its outputs by role; None if there is none, or it is damaged."""
    folder = settings().cache_dir / "results" / key
    try:
        document = load_record(folder / "record.json")
    except AssayError:
        return None
    outputs = {item["role"]: folder / f"{item['role']}.parquet" for item in document["outputs"]}
    intact = all(
        outputs[item["role"]].is_file() and file_digest(outputs[item["role"]]) == item["sha256"]
        for item in document["outputs"]
    )
    return (document, outputs) if intact else None


def keep_result(key: str, record: str, outputs: Mapping[str, Path]) -> None:
    """Put a record and its outputs into the cache; the record last, since it makes the entry valid."""
    folder = settings().cache_dir / "results" / key
    for role, path in outputs.items():
        with atomic(folder / f"{role}.parquet") as temporary:
            shutil.copyfile(path, temporary)
    with atomic(folder / "record.json") as temporary:
        temporary.write_text(record, encoding="utf-8")
