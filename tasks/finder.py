"""Finding a record's inputs again, wherever they are by now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from core.errors import InputError, MismatchError, RecordError
from tasks.archive import FoundCalibration, find_record, load_record, read_calibration
from tasks.readers import reader_names
from tasks.settings import settings
from tasks.storage import InputFile, file_digest, format_of
from tasks.tracking.references import is_reference

MAX_SEARCHED = 10_000
"""Files looked at in the folders that the user names."""


class InputFinder:
    """Finds a record's inputs: where they were, beside the record, or by digest in the given folders."""

    def __init__(self, record: Path, folders: Sequence[Path], tracking_uri: str | None = None) -> None:
        self._record, self._tracking_uri = record, tracking_uri
        self._folders = list(folders)
        self._by_digest: dict[str, Path] | None = None

    def files(self, inputs: Sequence[Any], role: str) -> list[InputFile]:
        """Return the data files of a role."""
        return [self._file(item) for item in inputs if item["role"] == role]

    def _file(self, item: Any) -> InputFile:
        recorded = str(item.get("uri", ""))
        prefix, colon, rest = recorded.partition(":")
        reader, uri = (prefix, rest) if colon and prefix in reader_names() else ("table", recorded)
        path = Path(uri)
        changed = False
        for candidate in (path, self._record.parent / path.name):
            if candidate.is_file():
                if file_digest(candidate) == item["sha256"]:
                    return InputFile(path=candidate, name=str(candidate), reader=reader)
                changed = True
        found = self._search(item["sha256"])
        if found is not None:
            return InputFile(path=found, name=str(found), reader=reader)
        if changed:
            raise MismatchError(
                f"{uri}: has changed since the record was made (sha256 {item['sha256'][:12]}... expected)"
            )
        raise InputError.of(uri, "this input is not there; name a folder that holds it with --inputs")

    def _search(self, sha256: str) -> Path | None:
        if self._by_digest is None:
            files = [path for folder in self._folders for path in sorted(folder.rglob("*")) if path.is_file()]
            tables = [path for path in files if format_of(path)][:MAX_SEARCHED]
            self._by_digest = {file_digest(path): path for path in tables}
        return self._by_digest.get(sha256)

    def calibration(self, inputs: Sequence[Any]) -> FoundCalibration:
        """Return the calibration with the recorded id; a path that leads elsewhere by now does not matter."""
        items = [item for item in inputs if item["role"] == "calibration"]
        if len(items) != 1:
            raise RecordError(f"{self._record}: names {len(items)} calibrations; a measurement has one")
        item, tried = items[0], []
        for path in self._calibration_places(item):
            if not path.is_file():
                continue
            try:
                document = load_record(path)
            except (RecordError, InputError) as error:  # something else stands there by now: look further
                tried.append(str(error))
                continue
            if document["id"] == item["sha256"]:
                return read_calibration(document, path)
            tried.append(f"{path} now holds {document['id'][:12]}...")
        where = f" ({'; '.join(tried)})" if tried else ""
        raise InputError.of(
            str(item.get("uri", "")),
            f"calibration {item['sha256'][:12]}... is not to be found{where}; name its folder with --inputs",
        )

    def _calibration_places(self, item: Any) -> Iterator[Path]:
        path = Path(str(item.get("uri", "")))
        yield path
        yield self._record.parent / path.name
        yield settings().records_dir / f"{item['sha256']}.json"
        for folder in self._folders:
            for candidate in sorted(folder.rglob("*.json"))[:MAX_SEARCHED]:
                if _mentions(candidate, item["sha256"]):
                    yield candidate
        if is_reference(reference := str(item.get("uri", ""))):
            yield find_record(reference, self._tracking_uri)[0]


def _mentions(path: Path, sha256: str) -> bool:
    """Whether a file may be the record with an id; saves reading every JSON file as a record."""
    try:
        return f'"id": "{sha256}"' in path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False
