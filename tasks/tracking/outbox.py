"""What waits to be uploaded: one note a record and address, written before the upload and removed after it.

A note holds the whole record, because the file that a record stood in may be overwritten before the server is back.
"""

from __future__ import annotations

import contextlib
import getpass
import hashlib
import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from core.errors import AssayError, InputError, RecordError
from core.records import Document, build, parse, plain
from tasks.settings import settings
from tasks.storage import Place, fetched, file_digest, place_of, write_text
from tasks.tracking.uris import without_credentials


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """The wish to make a calibration its instrument's champion.

    Attributes
    ----------
    by, because : str
        Who wants it, and why; kept on the model version.
    asked : str
        When, UTC.
    """

    by: str
    because: str
    asked: str


def promotion(because: str | None) -> Promotion:
    """Wish for a promotion now, in the name of who is working."""
    asked = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Promotion(by=user(), because=because or "no reason given", asked=asked)


def user() -> str:
    """Return who is working, as the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A record on its way to MLflow.

    Attributes
    ----------
    document : dict
        The record.
    record : str
        Path of its file; the output files lie beside it.
    uri : str
        Where it goes.
    register : bool
        Whether the calibration becomes a version of the registered model.
    promotion : Promotion or None
    """

    document: Document
    record: str
    uri: str
    register: bool = False
    promotion: Promotion | None = None

    @property
    def id(self) -> str:
        """The record's id."""
        return str(self.document["id"])

    @property
    def kind(self) -> str:
        """``calibration``, ``measurement`` or ``simulation``."""
        return str(self.document["schema"]).partition("/")[0].removeprefix("assay.")

    def output_files(self) -> dict[str, Path]:
        """Return the record's output files by role: those that are there and unchanged."""
        record = place_of(self.record)
        found = {}
        for item in self.document["outputs"]:
            path = _on_disk(record.with_name(Path(item["uri"]).name))
            if path is not None and file_digest(path) == item["sha256"]:
                found[item["role"]] = path
        return found


def _on_disk(place: Place) -> Path | None:
    """Return a file, or a copy of an object; None if there is none."""
    if isinstance(place, Path):
        return place if place.is_file() else None
    try:
        return fetched([place])[0].path
    except InputError:
        return None


def note_of(record: str, uri: str) -> Path:
    """Return the path of the note on a record's way to an address."""
    address = hashlib.sha256(without_credentials(uri).encode()).hexdigest()[:8]
    return settings().pending_dir / f"{record}-{address}.json"


def put(upload: Upload) -> Upload:
    """Write the note of an upload, without passwords, and return the upload with all that its note asks for.

    What an earlier note wished for stays wished for; of two promotions the newer counts.
    """
    note = note_of(upload.id, upload.uri)
    with contextlib.suppress(AssayError):  # no note waits, or none that can be read
        upload = _merged(read(note), upload)
    noted = plain(upload) | {"uri": without_credentials(upload.uri)}
    write_text(note, json.dumps(noted, sort_keys=True, indent=1, ensure_ascii=False) + "\n")
    return upload


def _merged(waiting: Upload, upload: Upload) -> Upload:
    wishes = [wish for wish in (upload.promotion, waiting.promotion) if wish is not None]
    return replace(
        upload,
        register=upload.register or waiting.register,
        promotion=max(wishes, key=lambda wish: wish.asked, default=None),
    )


def drop(note: Path) -> None:
    """Remove the note of an upload that has arrived."""
    note.unlink(missing_ok=True)


def pending() -> list[Path]:
    """Return all notes, in no particular order."""
    return sorted(settings().pending_dir.glob("*.json"))


def read(note: Path) -> Upload:
    """Read a note.

    Raises
    ------
    RecordError
        It is not one, or the record in it was altered.
    InputError
        It cannot be read.
    """
    try:
        upload = build(Upload, json.loads(note.read_text(encoding="utf-8")), where=str(note))
    except ValueError as error:
        raise RecordError(f"{note}: not a note of assay: {error}") from None
    except OSError as error:
        raise InputError.of(str(note), f"cannot be read: {error.strerror}") from None
    parse(json.dumps(upload.document), source=str(note))
    return upload
