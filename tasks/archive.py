"""Records on disk: writing one with its outputs, finding one by reference, reading one back."""

from __future__ import annotations

import contextlib
import hashlib
import json
import platform
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from core.errors import AssayError, InputError, Problem, RecordError, UnreachableError
from core.instrument.calibrated import Calibration, DetectorCalibration
from core.records import Document, FileReference, build, parse, plain, seal
from tasks.logs import about
from tasks.settings import settings
from tasks.storage import (
    Place,
    S3Url,
    atomic,
    delivered,
    exists,
    folder_for,
    is_s3,
    pinned,
    place_of,
    read_bytes,
    write_text,
)

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
    """A record that was written, and where."""

    document: Document
    path: Place


def records_folder() -> Place:
    """Return the folder or prefix of the records that were written without ``-o``."""
    elsewhere = settings().records
    return place_of(elsewhere) if elsewhere else settings().records_dir


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
def scratch_beside(output: Place | None) -> Iterator[Path]:
    """Give a temporary folder on the disk where the record will stand, for its outputs; it is gone afterwards.

    For a record that goes to object storage it is the system's.
    """
    place = output or records_folder() / "record.json"
    with folder_for(place if isinstance(place, Path) else Path(tempfile.gettempdir(), "record.json")) as beside:
        try:
            folder = tempfile.TemporaryDirectory(dir=beside, prefix=".assay-")
        except OSError as error:
            raise InputError.of(
                str(place), f"cannot be written: {error.strerror}; choose another place with -o"
            ) from None
        with folder as name:
            yield Path(name)


def write_record(document: Document, output: Place | None, outputs: Sequence[tuple[str, Path, int]]) -> Written:
    """Write a record and, before it, the data files that belong to it: a record is there only with all of them.

    In object storage a record that is named by its id is written once: its name says its content, so where it is
    there already, with its data files, these stay and are returned. What object storage does not take is kept in the
    user's data folder, with a note by which `deliver` brings it there later, and the error says where.

    Parameters
    ----------
    document : dict
        A sealed record.
    output : Path or S3Url, optional
        Its place; without one it goes to ``<id>.json`` in the records folder.
    outputs : sequence of (role, temporary path, rows)
        Data files to keep beside the record as ``<stem>.<role>.parquet``.
    """
    place = output or records_folder() / f"{document['id']}.json"
    about(record=document["id"])
    if isinstance(place, Path):
        return _written(document, place, outputs)
    try:
        written = _written(document, place, outputs, once=place.stem == document["id"])
    except (InputError, UnreachableError) as error:
        raise _kept_here(document, place, outputs, error) from None
    _note_of(document, place).unlink(missing_ok=True)
    return written


def _kept_here(
    document: Document, place: S3Url, outputs: Sequence[tuple[str, Path, int]], error: InputError | UnreachableError
) -> AssayError:
    """Keep on this machine what object storage did not take: the work behind it may have been long."""
    kept = settings().records_dir / f"{document['id']}.json"
    if not kept.is_file():  # else an earlier attempt has kept it, with its outputs
        _written(document, kept, outputs)
    write_text(_note_of(document, place), json.dumps({"record": str(kept), "place": str(place)}) + "\n")
    if isinstance(error, InputError):
        return InputError([*error.problems, Problem(source=str(kept), message="the record is kept here instead")])
    return UnreachableError(
        f"{error}\nThe record is kept here instead: {kept}\n"
        "When the service is back, the same command or `assay sync` brings it there."
    )


def _note_of(document: Document, place: S3Url) -> Path:
    address = hashlib.sha256(str(place).encode()).hexdigest()[:8]
    return settings().kept_dir / f"{document['id']}-{address}.json"


def undelivered() -> list[Path]:
    """Return the notes on records that object storage did not take, in no particular order."""
    return sorted(settings().kept_dir.glob("*.json"))


def deliver(note: Path) -> Written:
    """Bring a record that was kept here to where it was meant to go; its note goes when it has arrived.

    Raises
    ------
    InputError
        The record is no longer there, or object storage refuses it.
    RecordError
        The note is none, or the record was altered.
    UnreachableError
        Object storage still cannot be reached.
    """
    try:
        noted = json.loads(note.read_text(encoding="utf-8"))
        kept, place = Path(noted["record"]), place_of(noted["place"])
    except (OSError, ValueError, TypeError, KeyError):
        raise RecordError(f"{note}: not a note of assay") from None
    document = load_record(kept)
    outputs = [(item["role"], kept.with_name(Path(item["uri"]).name), item["rows"]) for item in document["outputs"]]
    return write_record(document, place, outputs)


def _written(
    document: Document, place: Place, outputs: Sequence[tuple[str, Path, int]], *, once: bool = False
) -> Written:
    named = []
    # The record is opened first, so that it is placed last.
    with atomic(place, once=once) as record, contextlib.ExitStack() as stack:
        for role, temporary, rows in outputs:
            kept = place.with_name(f"{place.stem}.{role}.parquet")
            sha256 = stack.enter_context(delivered(temporary, kept, once=once))
            named.append(FileReference(role=role, uri=kept.name, sha256=sha256, rows=rows))
        document = {**document, "outputs": [plain(item) for item in sorted(named, key=lambda item: item.role)]}
        record.write_text(dumped(document), encoding="utf-8")
    if once and isinstance(place, S3Url):
        document = load_record(place)
    return Written(document=document, path=place)


def dumped(document: Document) -> str:
    """Write a record as the text that is archived.

    A path whose bytes are not UTF-8 comes back from the escapes of JSON as it was.
    """
    text = json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def load_record(place: Place, *, check_id: bool = True) -> Document:
    """Read a record from a file or object.

    Raises
    ------
    InputError
        No such file, or no permission.
    RecordError
        It is not a record, was altered, or is of a future version.
    UnreachableError
        Object storage cannot be reached.
    """
    try:
        text = read_bytes(place, MAX_RECORD_BYTES, "record").decode("utf-8")
    except UnicodeDecodeError:
        raise RecordError(f"{place}: not a record (text expected)") from None
    try:
        document = parse(text, source=str(place), check_id=check_id)
        _ = [(Path(item["uri"]), item["sha256"]) for item in document.get("outputs", [])]  # no part of the id
        return document
    except (KeyError, TypeError, AttributeError):  # parts of a record, but not of the kinds that a record has
        raise RecordError(f"{place}: not a whole record; its parts are missing or of the wrong kind") from None


def is_certificate(document: Document) -> bool:
    """Whether a record is the simulation of one calibration at its own sizes."""
    return bool(
        document["schema"].startswith("assay.simulation/")
        and document["spec"].get("stage") == "certificate"
        and document["result"].get("calibration")
    )


def output_places(document: Document, place: Place, role: str) -> Iterator[tuple[Place, str]]:
    """Name the places where an output of a record may be, with its digest.

    They are beside the record, under the recorded name or after the record's present one, and in the records folders
    under its id.
    """
    item = next((item for item in document.get("outputs", []) if item["role"] == role), None)
    if item is None:
        return
    name = f"{document['id']}.{role}.parquet"
    places = (
        place.with_name(Path(item["uri"]).name),
        place.with_name(f"{place.stem}.{role}.parquet"),
        records_folder() / name,
        settings().records_dir / name,
    )
    yield from ((found, str(item["sha256"])) for found in dict.fromkeys(places) if exists(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCalibration:
    """A calibration record that a reference led to.

    Attributes
    ----------
    document : dict
    calibration : Calibration
    reference : FileReference
    place : Path or S3Url
        Where the record was read; its output files stand beside it.
    """

    document: Document
    calibration: Calibration
    reference: FileReference
    place: Place


def find_record(reference: str, tracking_uri: str | None = None) -> tuple[Place, str]:
    """Follow a reference to a record: its file or object, its id in the records folder, or MLflow's name for it.

    Parameters
    ----------
    reference : str
        A path, ``s3://bucket/key``, an id, ``models:/NAME@ALIAS``, ``models:/NAME/VERSION``, ``runs:/RUN_ID`` or a
        run's id.
    tracking_uri : str, optional
        MLflow's address, where it is not the configured one.

    Returns
    -------
    place : Path or S3Url
    uri : str
        The resolved place, or MLflow's name with an alias resolved to the version that it means now.
    """
    if not Path(reference).exists() and not is_s3(reference):
        if exists(inside := records_folder() / f"{reference}.json"):
            return inside, str(pinned(inside))
        from tasks.tracking.references import fetch, is_reference

        if is_reference(reference):
            fetched = fetch(reference, tracking_uri)
            return fetched.path, fetched.uri
    place = pinned(place_of(reference))
    return place, str(place)


def find_calibration(reference: str, tracking_uri: str | None = None) -> FoundCalibration:
    """Follow a reference to a calibration; see `find_record`.

    A file that is a link, or that is overwritten by each new calibration, is an alias: the record that it leads to
    now is named by its id, and its path is resolved.
    """
    place, uri = find_record(reference, tracking_uri)
    found = read_calibration(load_record(place), place)
    return replace(found, reference=replace(found.reference, uri=uri))


def read_calibration(document: Document, place: Place) -> FoundCalibration:
    """Read a calibration out of its record."""
    if not document["schema"].startswith("assay.calibration/"):
        raise RecordError(f"{place}: is a record of {document['schema']}; a calibration is needed")
    kind = DetectorCalibration if document["result"].get("kind") == "detections" else Calibration
    return FoundCalibration(
        document=document,
        calibration=build(kind, document["result"], where=f"{place}: result"),
        reference=FileReference(role="calibration", uri=str(pinned(place)), sha256=document["id"]),
        place=place,
    )
