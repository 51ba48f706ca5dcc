"""Finding a record's inputs again, wherever they are by now."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from core.errors import InputError, MismatchError, RecordError, UnreachableError
from core.records import Document
from tasks.archive import (
    FoundCalibration,
    find_record,
    load_record,
    output_places,
    read_calibration,
    records_folder,
)
from tasks.certificates import MAXIMA, FoundCertificate, find_golden_maxima, read_certificate
from tasks.readers import reader_names
from tasks.storage import (
    TOOL_SUFFIXES,
    InputFile,
    Place,
    S3Url,
    exists,
    fetched,
    file_digest,
    format_of,
    place_of,
    split_reader,
)
from tasks.tracking.references import is_reference

T = TypeVar("T")

MAX_SEARCHED = 10_000
"""Files looked at in the folders that the user names."""


class InputFinder:
    """Finds a record's inputs: where they were, beside the record, or by digest in the given folders."""

    def __init__(self, record: Place, folders: Sequence[Path], tracking_uri: str | None = None) -> None:
        self._record, self._tracking_uri = record, tracking_uri
        self._folders = list(folders)
        self._by_digest: dict[str, Path] | None = None
        self._failure: InputError | UnreachableError | None = None

    def files(self, inputs: Sequence[Any], role: str) -> list[InputFile]:
        """Return the data files of a role."""
        return [self.file(item) for item in inputs if item["role"] == role]

    def output(self, document: Document, role: str) -> InputFile | None:
        """Return an output file of the record itself; None where it has none, or none is to be found.

        Raises
        ------
        InputError
            What stands in its place is not what was written.
        """
        changed: list[Place] = []
        for place, sha256 in output_places(document, self._record, role):
            file = self._reached(place, _opened)
            if file is not None and file_digest(file.path) == sha256:
                return file
            changed.append(place)
        items = [item for item in document["outputs"] if item["role"] == role]
        found = self._search(items[0]["sha256"]) if items else None
        if found is not None:
            return InputFile(path=found, name=str(found))
        if changed:
            raise InputError.of(str(changed[0]), f"has changed since record {document['id'][:12]} was made")
        return None

    def file(self, item: Any) -> InputFile:
        """Return the data file that an input is, by its digest."""
        recorded = str(item.get("uri", ""))
        reader, options, uri = split_reader(recorded, reader_names())
        place = place_of(uri)
        changed = False
        for candidate in (_whatever_tag(place), self._record.parent / place.name):
            file = self._reached(candidate, lambda there: replace(_opened(there), reader=reader, options=options))
            if file is not None:
                if file_digest(file.path) == item["sha256"]:
                    return file
                changed = True
        found = self._search(item["sha256"])
        if found is not None:
            return InputFile(path=found, name=str(found), reader=reader, options=options)
        if changed:
            raise MismatchError(
                f"{uri}: has changed since the record was made (sha256 {item['sha256'][:12]}... expected)"
            )
        self._tell_failure()
        raise InputError.of(uri, "this input is not there; name a folder that holds it with --inputs")

    def _reached(self, place: Place, read: Callable[[Place], T]) -> T | None:
        """Read what is at a place; that object storage refuses or is unreachable is told only if nothing else helps."""
        try:
            return read(place) if exists(place) else None
        except (InputError, UnreachableError) as error:
            if isinstance(place, Path):
                raise
            self._failure = self._failure or error
            return None

    def _tell_failure(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _search(self, sha256: str) -> Path | None:
        if self._by_digest is None:
            files = [path for folder in self._folders for path in sorted(folder.rglob("*")) if path.is_file()]
            inputs = [path for path in files if format_of(path, TOOL_SUFFIXES) or path.suffix in (".yaml", ".yml")][
                :MAX_SEARCHED
            ]
            self._by_digest = {file_digest(path): path for path in inputs[:MAX_SEARCHED]}
        return self._by_digest.get(sha256)

    def calibration(self, inputs: Sequence[Any]) -> FoundCalibration:
        """Return the calibration with the recorded id; a path that leads elsewhere by now does not matter."""
        items = [item for item in inputs if item["role"] == "calibration"]
        if len(items) != 1:
            raise RecordError(f"{self._record}: names {len(items)} calibrations; one is needed")
        return read_calibration(*self.recorded(items[0]))

    def certificate(self, inputs: Sequence[Any], found: FoundCalibration) -> FoundCertificate | None:
        """Return the certificate with the recorded id; None where the record has none."""
        items = [item for item in inputs if item["role"] == "certificate"]
        if not items:
            return None
        return read_certificate(*self.recorded(items[0]), found.document["id"])

    def golden_maxima(self, inputs: Sequence[Any], found: FoundCalibration) -> InputFile | None:
        """Return the golden maxima: by the record's word, or with the calibration; None where the record has none."""
        items = [item for item in inputs if item["role"] == MAXIMA]
        if not items:
            return None
        try:
            return self.file(items[0])
        except (InputError, MismatchError) as error:
            with contextlib.suppress(InputError):
                file = find_golden_maxima(found, self._tracking_uri)
                if file is not None and file_digest(file.path) == items[0]["sha256"]:
                    return file
            raise error from None

    def records(self, inputs: Sequence[Any]) -> list[Document]:
        """Return the records with the recorded ids."""
        return [self.recorded(item)[0] for item in inputs]

    def recorded(self, item: Any) -> tuple[Document, Place]:
        """Return the record that an input is, by its id, and where it was found."""
        tried = []
        for path in self._record_places(item):
            try:
                document = self._reached(path, load_record)
            except (RecordError, InputError) as error:  # something else stands there by now: look further
                tried.append(str(error))
                continue
            if document is None:
                continue
            if document["id"] == item["sha256"]:
                return document, path
            tried.append(f"{path} now holds {document['id'][:12]}...")
        self._tell_failure()
        where = f" ({'; '.join(tried)})" if tried else ""
        raise InputError.of(
            str(item.get("uri", "")),
            f"{item['role']} {item['sha256'][:12]}... is not to be found{where}; name its folder with --inputs",
        )

    def _record_places(self, item: Any) -> Iterator[Place]:
        place = place_of(str(item.get("uri", "")))
        yield _whatever_tag(place)
        yield self._record.parent / place.name
        yield records_folder() / f"{item['sha256']}.json"
        for folder in self._folders:
            for candidate in sorted(folder.rglob("*.json"))[:MAX_SEARCHED]:
                if _mentions(candidate, item["sha256"]):
                    yield candidate
        if is_reference(reference := str(item.get("uri", ""))):
            yield find_record(reference, self._tracking_uri)[0]


def _whatever_tag(place: Place) -> Place:
    """Address the recorded version, where there is one; else the latest, since the digest decides and not the tag."""
    return place if isinstance(place, Path) or place.version else place.latest


def _opened(place: Place) -> InputFile:
    if isinstance(place, S3Url):
        return fetched([place])[0]
    return InputFile(path=place, name=str(place))


def _mentions(path: Path, sha256: str) -> bool:
    """Whether a file may be the record with an id; saves reading every JSON file as a record."""
    try:
        return f'"id": "{sha256}"' in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
