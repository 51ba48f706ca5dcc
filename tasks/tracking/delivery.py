"""Bringing records to MLflow: at once where it can be reached, later and once with `sync`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import AssayError, UnreachableError
from tasks.archive import Written, deliver, undelivered
from tasks.storage import Place
from tasks.tracking import outbox, registry
from tasks.tracking.audits import log_audit
from tasks.tracking.calibrations import log_calibration
from tasks.tracking.comparisons import log_comparison, log_series
from tasks.tracking.connection import connected
from tasks.tracking.measurements import log_measurement
from tasks.tracking.outbox import Promotion, Upload
from tasks.tracking.plans import log_plan
from tasks.tracking.registry import Registered
from tasks.tracking.simulations import log_simulation
from tasks.tracking.uris import tracking_uri, without_credentials
from tasks.tracking.watches import log_watch

_LOGS = {
    "audit": log_audit,
    "calibration": log_calibration,
    "measurement": log_measurement,
    "comparison": log_comparison,
    "series": log_series,
    "plan": log_plan,
    "simulation": log_simulation,
    "watch": log_watch,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tracked:
    """A record that is in MLflow.

    Attributes
    ----------
    record : str
        Its id.
    uri, run_id : str
    existed : bool
        Whether it was there before.
    registered : Registered or None
    note : str
        What a reader has to know, or nothing.
    """

    record: str
    uri: str
    run_id: str
    existed: bool = False
    registered: Registered | None = None
    note: str = ""

    @property
    def shown_uri(self) -> str:
        """The address without a password."""
        return without_credentials(self.uri)


def track(written: Written, uri: str, *, register: bool = False, promotion: Promotion | None = None) -> Tracked:
    """Log a record to MLflow, or keep a note that it waits.

    Raises
    ------
    UnreachableError
        MLflow did not take it. Record and note are kept; the message says where, and what to do.
    """
    upload = outbox.put(_upload(written, uri, register=register, promotion=promotion))
    try:
        tracked = _delivered(upload)
    except UnreachableError as error:
        raise UnreachableError(
            f"{error}\nThe record is kept: {written.path}\n`assay sync` uploads it when the service is back."
        ) from None
    outbox.drop(outbox.note_of(upload.id, uri))
    return tracked


def _upload(written: Written, uri: str, *, register: bool = False, promotion: Promotion | None = None) -> Upload:
    place = written.path.resolve() if isinstance(written.path, Path) else written.path
    return Upload(document=written.document, record=str(place), uri=uri, register=register, promotion=promotion)


def _delivered(upload: Upload) -> Tracked:
    with connected(upload.uri) as client:
        run = _LOGS[upload.kind](client, upload)
        tracked = Tracked(record=upload.id, uri=upload.uri, run_id=run.id, existed=run.finished)
        if upload.register:
            tracked = _registered(client, upload, tracked)
    return tracked


def _registered(client: object, upload: Upload, tracked: Tracked) -> Tracked:
    name = upload.document["result"]["instrument"]
    if not registry.registrable(name):
        return replace(tracked, note=f"not registered: MLflow takes no model name with / or :, as in {name!r}")
    if not upload.document["result"]["composite"]["categories"]:
        return replace(tracked, note="not registered: no category has a threshold, so nothing can be measured with it")
    registered = registry.register(client, upload, tracked.run_id)
    return replace(tracked, registered=registered, note=registered.note)


@dataclass(frozen=True, slots=True, kw_only=True)
class Synced:
    """What became of the records that waited.

    Attributes
    ----------
    stored : tuple of S3Url
        Where object storage has taken records that it had not taken before.
    tracked : tuple of Tracked
    failed : tuple of (Path, str)
        Notes that still wait, with the reason.
    """

    stored: tuple[Place, ...]
    tracked: tuple[Tracked, ...]
    failed: tuple[tuple[Path, str], ...]


def sync(option: str | None = None) -> Synced:
    """Bring every record that waits where it was meant to go: to object storage, then to MLflow, oldest first.

    Parameters
    ----------
    option : str, optional
        MLflow's address, instead of where each was meant to go.
    """
    failed: list[tuple[Path, str]] = []
    stored: list[Place] = []
    for note in undelivered():
        try:
            written = deliver(note)
        except AssayError as error:
            failed.append((note, str(error)))
            continue
        stored.append(written.path)
        _put(written, option)
    uploads: list[tuple[Path, Upload]] = []
    for note in outbox.pending():
        try:
            uploads.append((note, outbox.read(note)))
        except AssayError as error:
            failed.append((note, str(error)))
    tracked = []
    down: dict[str, str] = {}
    for note, upload in sorted(uploads, key=lambda item: item[1].document["created"]):
        uri = option or _with_credentials(upload.uri)
        try:
            if uri in down:
                raise UnreachableError(down[uri])
            tracked.append(_delivered(replace(upload, uri=uri)))
            outbox.drop(note)
        except UnreachableError as error:
            down[uri] = str(error)
            failed.append((note, str(error)))
    return Synced(stored=tuple(stored), tracked=tuple(tracked), failed=tuple(failed))


def _put(written: Written, option: str | None) -> None:
    """Note that a record which object storage did not take has not been in MLflow either."""
    uri = tracking_uri(option)
    if uri is not None and (upload := _upload(written, uri)).kind in _LOGS:
        outbox.put(upload)


def _with_credentials(noted: str) -> str:
    """Take the environment's address when it is the noted one plus a password."""
    current = tracking_uri()
    return current if current is not None and without_credentials(current) == noted else noted
