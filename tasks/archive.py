"""Records on disk: writing one with its outputs, finding one by reference, reading one back."""

from __future__ import annotations

import contextlib
import json
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.errors import InputError, RecordError
from core.instrument.calibration import Calibration
from core.records import Document, FileReference, build, parse, plain, seal
from tasks.settings import settings
from tasks.storage import atomic, file_digest, folder_for

MAX_RECORD_BYTES = 64_000_000
_PACKAGES = ("assay", "numpy", "scipy", "pandas", "scikit-learn", "pyarrow")


@dataclass(frozen=True, slots=True, kw_only=True)
class Derived:
    """What a pipeline derives from its inputs: all of a record that its id covers."""

    schema: str
    spec: Any
    seed: int
    inputs: Sequence[FileReference]
    result: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A record on disk."""

    document: Document
    path: Path


def sealed(derived: Derived) -> Document:
    """Make the record."""
    return seal(
        derived.schema,
        spec=derived.spec,
        seed=derived.seed,
        inputs=derived.inputs,
        result=derived.result,
        created=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        software={name: version(name) for name in _PACKAGES} | {"python": platform.python_version()},
    )


@contextlib.contextmanager
def scratch_beside(output: Path | None) -> Iterator[Path]:
    """Give a temporary folder on the disk where the record will stand, for its outputs; it is gone afterwards."""
    with folder_for(output or settings().records_dir / "record.json") as place:
        try:
            folder = tempfile.TemporaryDirectory(dir=place, prefix=".assay-")
        except OSError as error:
            raise InputError.of(
                str(place), f"cannot be written: {error.strerror}; choose another place with -o"
            ) from None
        with folder as name:
            yield Path(name)


def write_record(document: Document, output: Path | None, outputs: Sequence[tuple[str, Path, int]]) -> Written:
    """Write a record and, before it, the data files that belong to it: a record is there only with all of them.

    Parameters
    ----------
    document : dict
        A sealed record.
    output : Path, optional
        Its path; without one it goes to ``records/<id>.json`` in the user's data folder.
    outputs : sequence of (role, temporary path, rows)
        Data files to keep beside the record as ``<stem>.<role>.parquet``.
    """
    path = output or settings().records_dir / f"{document['id']}.json"
    named = []
    with atomic(path) as record, contextlib.ExitStack() as stack:
        for role, temporary, rows in outputs:
            kept = path.with_name(f"{path.stem}.{role}.parquet")
            placed = stack.enter_context(atomic(kept))
            temporary.replace(placed)
            named.append(FileReference(role=role, uri=kept.name, sha256=file_digest(placed), rows=rows))
        document = {**document, "outputs": [plain(item) for item in sorted(named, key=lambda item: item.role)]}
        record.write_text(dumped(document), encoding="utf-8")
    return Written(document=document, path=path)


def dumped(document: Document) -> str:
    """Write a record as the text that is archived.

    A path whose bytes are not UTF-8 comes back from the escapes of JSON as it was.
    """
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def load_record(path: Path, *, check_id: bool = True) -> Document:
    """Read a record from a file.

    Raises
    ------
    InputError
        No such file, or no permission.
    RecordError
        It is not a record, was altered, or is of a future version.
    """
    try:
        if path.stat().st_size > MAX_RECORD_BYTES:
            raise InputError.of(str(path), f"is larger than {MAX_RECORD_BYTES} bytes; is this a record?")
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError.of(str(path), "there is no such file") from None
    except UnicodeDecodeError:
        raise RecordError(f"{path}: not a record (text expected)") from None
    except OSError as error:
        raise InputError.of(str(path), f"cannot be read: {error.strerror}") from None
    try:
        document = parse(text, source=str(path), check_id=check_id)
        _ = [(Path(item["uri"]), item["sha256"]) for item in document.get("outputs", [])]  # no part of the id
        return document
    except (KeyError, TypeError, AttributeError):  # parts of a record, but not of the kinds that a record has
        raise RecordError(f"{path}: not a whole record; its parts are missing or of the wrong kind") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCalibration:
    """A calibration record that a reference led to."""

    document: Document
    calibration: Calibration
    reference: FileReference


def find_record(reference: str, tracking_uri: str | None = None) -> tuple[Path, str]:
    """Follow a reference to a record: its file, its id in the records folder, or MLflow's name for it.

    Parameters
    ----------
    reference : str
        A path, an id, ``models:/NAME@ALIAS``, ``models:/NAME/VERSION``, ``runs:/RUN_ID`` or a run's id.
    tracking_uri : str, optional
        MLflow's address, where it is not the configured one.

    Returns
    -------
    path : Path
    uri : str
        The resolved path, or MLflow's name with an alias resolved to the version that it means now.
    """
    path = Path(reference)
    if not path.exists():
        if (inside := settings().records_dir / f"{reference}.json").exists():
            path = inside
        else:
            from tasks.tracking.references import fetch, is_reference

            if is_reference(reference):
                fetched = fetch(reference, tracking_uri)
                return fetched.path, fetched.uri
    return path, str(path.resolve())


def find_calibration(reference: str, tracking_uri: str | None = None) -> FoundCalibration:
    """Follow a reference to a calibration; see `find_record`.

    A file that is a link, or that is overwritten by each new calibration, is an alias: the record that it leads to
    now is named by its id, and its path is resolved.
    """
    path, uri = find_record(reference, tracking_uri)
    found = read_calibration(load_record(path), path)
    return replace(found, reference=replace(found.reference, uri=uri))


def read_calibration(document: Document, path: Path) -> FoundCalibration:
    """Read a calibration out of its record."""
    if not document["schema"].startswith("assay.calibration/"):
        raise RecordError(f"{path}: is a record of {document['schema']}; a calibration is needed")
    return FoundCalibration(
        document=document,
        calibration=build(Calibration, document["result"], where=f"{path}: result"),
        reference=FileReference(role="calibration", uri=str(path.resolve()), sha256=document["id"]),
    )
