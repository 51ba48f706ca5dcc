"""Certificates: what one is made from, where it is kept, and how a measurement finds it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import AssayError, InputError, RecordError, UnreachableError
from core.instrument.measured import CertificateLink
from core.records import Document, FileReference, build
from tasks.archive import (
    FoundCalibration,
    Written,
    find_record,
    is_certificate,
    load_record,
    output_places,
    records_folder,
)
from tasks.storage import (
    InputFile,
    Place,
    S3Url,
    exists,
    fetched,
    file_digest,
    pinned,
    place_of,
    read_bytes,
    write_text,
)
from tasks.tracking import references
from tasks.tracking.uris import tracking_uri as resolved_uri

NONE = "none"
"""The reference that leaves a certificate out."""

MAXIMA = "golden_maxima"
MAX_NOTE_BYTES = 100_000

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCertificate:
    """A certificate's record that a reference, or its calibration, led to."""

    document: Document
    link: CertificateLink
    reference: FileReference


def read_certificate(document: Document, place: Place, calibration_id: str, *, uri: str = "") -> FoundCertificate:
    """Read out of a certificate's record what a measurement says of it.

    Parameters
    ----------
    document : dict
    place : Path or S3Url
        Where the record is.
    calibration_id : str
        Whose certificate it has to be.
    uri : str
        How the record is named; its place without one.

    Raises
    ------
    RecordError
        It is no certificate, or that of another calibration.
    """
    if not is_certificate(document):
        raise RecordError(f"{place}: is no certificate; `assay simulate --calibration REF` makes one")
    result = document["result"]
    certified = str(result["calibration"]["id"])
    if certified != calibration_id:
        raise RecordError(
            f"{place}: is the certificate of calibration {certified[:12]}..., and not of {calibration_id[:12]}..."
        )
    return FoundCertificate(
        document=document,
        link=build(CertificateLink, {**result, "id": document["id"]}, where=f"{place}: result"),
        reference=FileReference(role="certificate", uri=uri or str(pinned(place)), sha256=document["id"]),
    )


def find_certificate(
    found: FoundCalibration, reference: str | None = None, tracking_uri: str | None = None, tell: Tell = lambda _: None
) -> FoundCertificate | None:
    """Find the certificate of a calibration; a measurement goes on without one.

    Without a reference it is looked for beside the calibration's record (``<stem>.certificate.json``), through the
    note in the records folder, and, for a calibration that came from MLflow, among the simulations there.

    Parameters
    ----------
    found : FoundCalibration
    reference : str, optional
        As in `find_record`; ``none`` leaves it out.
    tracking_uri : str, optional
        MLflow's address, where it is not the configured one.
    tell : callable
        Hears why a certificate that was come across does not count.

    Raises
    ------
    RecordError
        What the reference leads to is no certificate, or that of another calibration.
    UnreachableError
        Object storage or MLflow, where it may be, cannot be reached.
    """
    if reference == NONE:
        return None
    wanted = str(found.document["id"])
    if reference is not None:
        place, uri = find_record(reference, tracking_uri)
        return read_certificate(load_record(place), place, wanted, uri=uri)
    for search in (_beside, _noted, _logged):
        try:
            for place, uri in search(found, tracking_uri):
                return read_certificate(load_record(place), place, wanted, uri=uri)
        except UnreachableError:  # it may be there: without it the record would be another one
            raise
        except AssayError as error:
            tell(f"a certificate was left out: {error}")
    return None


Places = Iterator[tuple[Place, str]]


def _beside(found: FoundCalibration, _: str | None) -> Places:
    beside = found.place.with_name(f"{found.place.stem}.certificate.json")
    if exists(beside):
        yield beside, ""


def _noted(found: FoundCalibration, _: str | None) -> Places:
    note = _note_of(str(found.document["id"]))
    if not exists(note):
        return
    named = _named(note)
    places = place_of(named["uri"]), records_folder() / f"{named['certificate']}.json"
    yield from ((place, "") for place in places if exists(place))


def _named(note: Place) -> dict[str, str]:
    try:
        named = json.loads(read_bytes(note, MAX_NOTE_BYTES, "note"))
        return {"certificate": str(named["certificate"]), "uri": str(named["uri"])}
    except (ValueError, TypeError, KeyError):
        raise RecordError(f"{note}: not a note of assay; `assay simulate --calibration` writes it anew") from None


def _logged(found: FoundCalibration, tracking_uri: str | None) -> Places:
    if references.is_reference(found.reference.uri):
        logged = references.fetch_certificate(str(found.document["id"]), tracking_uri)
        if logged is not None:
            yield logged.path, logged.uri


def note_certificate(written: Written) -> None:
    """Leave a note in the records folder, by which measurements find the newest certificate of a calibration.

    The certificate stands without it; whether the folder took the note says `is_noted`.
    """
    note = _note_of(str(written.document["result"]["calibration"]["id"]))
    named = {"certificate": written.document["id"], "uri": str(pinned(written.path))}
    with contextlib.suppress(InputError, UnreachableError):
        write_text(note, json.dumps(named, sort_keys=True, indent=1, ensure_ascii=False) + "\n")


def is_noted(written: Written) -> bool:
    """Whether the note on a calibration's certificate is on this one."""
    note = _note_of(str(written.document["result"]["calibration"]["id"]))
    try:
        return exists(note) and _named(note)["certificate"] == written.document["id"]
    except AssayError:
        return False


def _note_of(calibration_id: str) -> Place:
    return records_folder() / "certificates" / f"{calibration_id}.json"


def find_golden_maxima(found: FoundCalibration, tracking_uri: str | None = None) -> InputFile | None:
    """Find the golden maxima of a calibration: beside its record, in the records folder, or in MLflow's run of it.

    Returns
    -------
    InputFile or None
        None for a declared calibration, which has no golden set.

    Raises
    ------
    InputError
        They are nowhere, or are not those that the record names.
    UnreachableError
        Object storage or MLflow, where they may be, cannot be reached.
    """
    if found.calibration.calibration_source == "declared":
        return None
    item = next((item for item in found.document["outputs"] if item["role"] == MAXIMA), None)
    if item is None:
        raise InputError.of(
            str(found.place), "names no golden_maxima file, which a certificate is made from; calibrate anew"
        )
    changed: list[Place] = []
    for place, sha256 in output_places(found.document, found.place, MAXIMA):
        file = _opened(place)
        if file_digest(file.path) == sha256:
            return file
        changed.append(place)
    logged = _logged_maxima(found, item, tracking_uri)
    if logged is not None:
        return logged
    if changed:
        raise InputError.of(str(changed[0]), "has changed since the calibration was made")
    name = found.place.with_name(Path(item["uri"]).name)
    raise InputError.of(str(name), "is not there; a certificate is made from it: bring it beside the calibration")


def _logged_maxima(found: FoundCalibration, item: Any, tracking_uri: str | None) -> InputFile | None:
    if resolved_uri(tracking_uri) is None:
        return None
    file = references.fetch_output(str(found.document["id"]), item, tracking_uri)
    return None if file is None else _opened(file)


def _opened(place: Place) -> InputFile:
    if isinstance(place, S3Url):
        return fetched([place])[0]
    return InputFile(path=place, name=str(place))
