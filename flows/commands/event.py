"""``assay event``."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import click

RETRIES = 2
"""A command says within some seconds that the server is out of reach; Prefect's client would try for a minute."""

event_id_option = click.option(
    "--event-id", type=click.UUID, metavar="UUID",
    help="Make a repeated call harmless: the server takes an id once.",
)  # fmt: skip


@click.group(name="event")
def command() -> None:
    """Tell the Prefect server that a judge has changed or a model was released; deployments answer.

    The server has to show that it took the event: exit code 4 when it does not. PREFECT_API_URL says where it is.

    \b
    Examples:
      assay event judge-changed --judge lexical@1 --instrument safety --golden s3://lab/golden.parquet
      assay event model-released --target guard-x@1.3 --scores s3://lab/runs/1.3/ --instrument safety
    """  # noqa: D301 (click wants the character)


@command.command(name="judge-changed")
@click.option("--judge", required=True, metavar="NAME@VERSION", help="The judge as it is now.")
@click.option("--fingerprint", help="Its fingerprint; a registered judge's own is taken when it is not given.")
@click.option("--instrument", required=True, metavar="NAME", help="A YAML file, or a name in deployments/specs.")
@click.option("--golden", required=True, multiple=True, metavar="FILE", help="The golden set (repeatable).")
@click.option("--scores", multiple=True, metavar="FILE", help="Its scores; without them the registered judge runs.")
@event_id_option
def judge_changed(
    judge: str,
    fingerprint: str | None,
    instrument: str,
    golden: tuple[str, ...],
    scores: tuple[str, ...],
    event_id: UUID | None,
) -> None:
    """A judge has changed: calibrate it anew.

    \b
    Example:
      assay event judge-changed --judge lexical@1 --instrument safety --golden s3://lab/golden.parquet
    """  # noqa: D301
    from core.instrument.spec import UNKNOWN, JudgeIdentity
    from tasks.events import JUDGE_CHANGED

    named = JudgeIdentity.of(judge)
    payload: dict[str, Any] = {
        "judge": {
            "name": named.name,
            "version": named.version,
            "fingerprint": fingerprint or (UNKNOWN if scores else _fingerprint(named)),
        },
        "instrument": instrument,
        "golden": list(golden),
    }
    if scores:
        payload["scores"] = list(scores)
    _emit(JUDGE_CHANGED, f"assay.judge.{named.name}", payload, event_id)


@command.command(name="model-released")
@click.option("--target", required=True, metavar="NAME@VERSION", help="What was released.")
@click.option("--scores", required=True, multiple=True, metavar="FILE", help="Its scores (repeatable).")
@click.option("--instrument", required=True, metavar="NAME", help="A YAML file, or a name in deployments/specs.")
@click.option("--baseline", metavar="NAME@VERSION", help="The release before: what is measured is compared with it.")
@click.option("--policy", metavar="NAME", help="Gate the result: a YAML file, or a name in deployments/policies.")
@event_id_option
def model_released(
    target: str,
    scores: tuple[str, ...],
    instrument: str,
    baseline: str | None,
    policy: str | None,
    event_id: UUID | None,
) -> None:
    """A model was released: measure it with the instrument's champion.

    \b
    Example:
      assay event model-released --target guard-x@1.3 --scores s3://lab/runs/1.3/ --instrument safety
    """  # noqa: D301
    from tasks.events import MODEL_RELEASED

    payload: dict[str, Any] = {"target": target, "scores": list(scores), "instrument": instrument}
    payload |= {name: value for name, value in (("baseline", baseline), ("policy", policy)) if value is not None}
    _emit(MODEL_RELEASED, f"assay.model.{target.partition('@')[0]}", payload, event_id)


def _fingerprint(judge: Any) -> str:
    """Return the fingerprint of a registered judge, and see that it is the version that was named."""
    from core.errors import InputError
    from core.instrument.spec import JudgeIdentity
    from tasks.judges import load_judge

    worker = load_judge(judge.name)
    here = JudgeIdentity(name=worker.name, version=worker.version, fingerprint=worker.fingerprint)
    if not judge.agrees_with(here):
        raise InputError.of("event", f"judge {here} is registered here, not {judge}")
    return worker.fingerprint


def _emit(name: str, resource: str, payload: dict[str, Any], event_id: UUID | None) -> None:
    from prefect.settings import PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    from tasks.events import emit
    from tasks.reporting.terminal import console, words

    with temporary_settings({PREFECT_CLIENT_MAX_RETRIES: min(RETRIES, PREFECT_CLIENT_MAX_RETRIES.value())}):
        event = emit(name, resource, payload, event_id=None if event_id is None else str(event_id))
    console().print(words(f"{event.name} taken by the server: {event.id}"), soft_wrap=True)
    console().print(words(json.dumps(payload, ensure_ascii=False), "dim"), soft_wrap=True)
