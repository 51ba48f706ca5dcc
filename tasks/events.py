"""Events to the Prefect server: that a judge has changed, a model was released, or a record was made.

Prefect's own emitter returns before the event is sent, and loses it silently when the server is down. Here the server
is asked for the event until it shows it.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from core.errors import UnreachableError

JUDGE_CHANGED = "assay.judge.changed"
MODEL_RELEASED = "assay.model.released"
CALIBRATION_MADE = "assay.calibration.made"
MEASUREMENT_MADE = "assay.measurement.made"
GATE_FAILED = "assay.gate.failed"
GATE_INSUFFICIENT = "assay.gate.insufficient"
BASELINE_LABEL = "assay.baseline"
"""Label of the resource of a measurement that is to be compared; triggers see labels, not payloads."""

ANSWER_SECONDS = 10.0
"""Prefect's own client would wait a minute for a server that hangs, six times."""

WAIT_SECONDS = 20.0
POLL_SECONDS = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class EmittedEvent:
    """An event that the server has taken."""

    id: str
    name: str
    resource: str


def emit(
    name: str,
    resource: str,
    payload: Mapping[str, Any],
    *,
    event_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> EmittedEvent:
    """Send an event and see that the server has it.

    Parameters
    ----------
    name : str
        Such as `JUDGE_CHANGED`.
    resource : str
        What it is about, such as ``assay.judge.lexical``.
    payload : mapping
        JSON data; numbers and nested values arrive as they are.
    event_id : str, optional
        A UUID. One that the server shows already is not sent again, so that a repeated call does nothing.
    labels : mapping, optional
        More labels of the resource, by which triggers choose.

    Raises
    ------
    UnreachableError
        No server is configured or answers, or it does not show the event within 20 seconds.
    """
    import httpx
    from prefect.client.orchestration import get_client

    event = {
        "id": event_id or str(uuid.uuid4()),
        "occurred": datetime.now(UTC).isoformat(),
        "event": name,
        "resource": {"prefect.resource.id": resource, **(labels or {})},
        "related": [],
        "payload": dict(payload),
    }
    address = _server_address()
    try:
        with get_client(httpx_settings={"timeout": ANSWER_SECONDS}, sync_client=True) as client:
            if event_id is None or not _shown(client, event_id):
                client.request("POST", "/events", json=[event]).raise_for_status()
                _await(client, str(event["id"]))
    except (httpx.HTTPError, OSError) as error:
        raise UnreachableError(
            f"the Prefect server at {address} did not take the event: {error}\n"
            "Is it running, with its database, and is PREFECT_API_URL its address? Send the event again later, with "
            f"--event-id {event['id']}: if it did arrive, it is not taken twice."
        ) from None
    return EmittedEvent(id=str(event["id"]), name=name, resource=resource)


def server_configured() -> bool:
    """Whether there is a server that events could be sent to; a temporary one has nobody who listens."""
    from prefect.settings import PREFECT_API_URL

    return bool(PREFECT_API_URL.value())


def _server_address() -> str:
    from prefect.settings import PREFECT_API_URL

    address = PREFECT_API_URL.value()
    if not address:
        raise UnreachableError(
            "no Prefect server is configured; set PREFECT_API_URL, such as http://127.0.0.1:4200/api"
        )
    return str(address)


def _shown(client: Any, event_id: str) -> bool:
    """Whether the server shows an event, however long ago it took it."""
    since = datetime(2000, 1, 1, tzinfo=UTC).isoformat()
    wanted = {"filter": {"id": {"id": [event_id]}, "occurred": {"since": since}}, "limit": 1}
    return bool(client.request("POST", "/events/filter", json=wanted).raise_for_status().json()["events"])


def _await(client: Any, event_id: str) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        if _shown(client, event_id):
            return
        time.sleep(POLL_SECONDS)
    raise UnreachableError(
        f"the Prefect server took the event {event_id} but does not show it after {WAIT_SECONDS:g} s"
    )
