"""Automations of the Prefect server, made from here: run again after every change, it brings them to what it says.

    python deployments/automations.py

Automations are found by their names, so that nothing is doubled. PREFECT_API_URL says which server is meant,
ASSAY_NOTIFICATION_BLOCK (``slack-webhook/team``, as ``prefect block ls`` names it) whom they tell.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import httpx
from prefect.client.orchestration import get_client
from prefect.client.schemas.objects import StateType
from prefect.events.actions import ActionTypes, ChangeFlowRunState, DoNothing, SendNotification
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.events.schemas.events import ResourceSpecification
from prefect.exceptions import ObjectNotFound

from core.errors import AssayError, InputError, UnreachableError
from tasks.events import GATE_FAILED, GATE_INSUFFICIENT, server_configured
from tasks.settings import settings

SILENCE = timedelta(seconds=90)
"""Three heartbeats of a run, which sends one every 30 seconds (PREFECT_FLOWS_HEARTBEAT_FREQUENCY=30 on the worker)."""

COULD_NOT_ACT = "assay: an automation could not act"
Labels = dict[str, str | list[str]]

HEARTBEAT = "prefect.flow-run.heartbeat"
ENDS = tuple(f"prefect.flow-run.{name}" for name in ("Completed", "Failed", "Cancelled", "Crashed"))


def automations(told: Sequence[ActionTypes]) -> list[AutomationCore]:
    """Describe all automations.

    Parameters
    ----------
    told : sequence of actions
        How people are told.
    """
    return [
        AutomationCore(
            name="assay: runs that fell silent are crashed",
            description="A run whose heartbeat stops is marked Crashed, so that it gives its deployment's place free.",
            trigger=EventTrigger(
                posture=Posture.Proactive,
                after={HEARTBEAT},
                expect={HEARTBEAT, *ENDS},
                match=ResourceSpecification({"prefect.resource.id": ["prefect.flow-run.*"]}),
                for_each={"prefect.resource.id"},
                threshold=1,
                within=SILENCE,
            ),
            actions=[ChangeFlowRunState(
                state=StateType.CRASHED, name="Crashed", force=False,
                message="No heartbeat for 90 seconds: its process is gone. Start it again.",
            )],
        ),
        AutomationCore(
            name=COULD_NOT_ACT,
            description="For instance an event whose parameters do not fit its flow: no run was made of it.",
            # Not by itself: telling of that would fail as well, and so on.
            trigger=_reacts_to(
                "prefect.automation.action.failed", match={"prefect.resource.name": f"!{COULD_NOT_ACT}"}
            ),
            actions=list(told),
        ),
        AutomationCore(
            name="assay: a gate stops a release",
            description="A gate failed, or its evidence is insufficient.",
            trigger=_reacts_to(GATE_FAILED, GATE_INSUFFICIENT),
            actions=list(told),
        ),
        AutomationCore(
            name="assay: a run failed or crashed",
            description="Of any of assay's deployments.",
            trigger=_reacts_to(
                "prefect.flow-run.Failed", "prefect.flow-run.Crashed",
                related={"prefect.resource.id": ["prefect.tag.assay"]},
            ),
            actions=list(told),
        ),
    ]  # fmt: skip


def _reacts_to(*events: str, match: Labels | None = None, related: Labels | None = None) -> EventTrigger:
    return EventTrigger(
        posture=Posture.Reactive,
        expect=set(events),
        match=ResourceSpecification(match or {}),
        match_related=ResourceSpecification(related or {}),
        threshold=1,
        within=timedelta(0),
    )


SUBJECT = "assay: {{ event.event }}"
BODY = """\
{{ event.event }}: {{ event.resource.id }}
{% for name, value in event.payload.items() %}{{ name }}: {{ value }}
{% endfor %}at {{ event.occurred }}"""


def notification(client: Any, block: str | None) -> ActionTypes:
    """Say how people are told: by Prefect's block of that name, else by the automation's own event alone.

    Raises
    ------
    InputError
        The server has no such block.
    """
    if block is None:
        return DoNothing()
    kind, _, name = block.partition("/")
    try:
        found = client.read_block_document_by_name(name, kind, include_secrets=False)
    except ObjectNotFound:
        raise InputError.of(
            "ASSAY_NOTIFICATION_BLOCK", f"the server has no block {block}; `prefect block ls` lists them"
        ) from None
    return SendNotification(block_document_id=found.id, subject=SUBJECT, body=BODY)


def deploy() -> list[str]:
    """Make the automations that are missing, and bring the others to what is said here; returns their names.

    Raises
    ------
    InputError
        The block that is to tell people is not there.
    UnreachableError
        No server is configured or answers.
    """
    if not server_configured():
        raise UnreachableError(
            "no Prefect server is configured; set PREFECT_API_URL, such as http://127.0.0.1:4200/api"
        )
    try:
        with get_client(sync_client=True) as client:
            wanted = automations([notification(client, settings().notification_block)])
            for automation in wanted:
                _put(client, automation)
    except (httpx.HTTPError, OSError) as error:
        raise UnreachableError(f"the Prefect server did not take the automations: {error}") from None
    return [automation.name for automation in wanted]


def _put(client: Any, automation: AutomationCore) -> None:
    """Update the automation of that name, or make it; of several, which nobody needs, one stays.

    One that says the same is left alone: updated, it forgets the runs that it waits for, and a run that has just
    fallen silent, as when the worker crashed and is starting again, would stay Running for ever.
    """
    known = sorted(client.read_automations_by_name(automation.name), key=lambda item: str(item.id))
    if not known:
        client.create_automation(automation)
        return
    # Whether it is switched on is people's own choice.
    wanted = automation.model_copy(update={"enabled": known[0].enabled})
    if any(getattr(known[0], name) != getattr(wanted, name) for name in AutomationCore.model_fields):
        client.update_automation(known[0].id, wanted)
    for more in known[1:]:
        client.delete_automation(more.id)


if __name__ == "__main__":
    try:
        sys.stdout.write("".join(f"{name}\n" for name in deploy()))
    except AssayError as problem:
        sys.stderr.write(f"error: {problem}\n")
        sys.exit(4 if isinstance(problem, UnreachableError) else 2)
