"""Starting one calibration for one change of a judge, however often the change is seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import UnreachableError

DEPLOYMENT = "calibrate/calibrate"
ATTEMPTS = 3
"""Runs that are made for one change: a calibration that failed is tried again at the next watches."""

_ACTIVE = ("SCHEDULED", "PENDING", "RUNNING", "PAUSED", "CANCELLING")
_FAILED = ("FAILED", "CRASHED", "CANCELLED")

Outcome = Literal["started", "running", "made", "given_up"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What became of the wish to calibrate.

    Attributes
    ----------
    outcome : {'started', 'running', 'made', 'given_up'}
        A run was made now; a calibration of the instrument is under way; the change was calibrated before; or all
        attempts failed.
    run_id, run_name : str
        Of the run that it is about.
    """

    outcome: Outcome
    run_id: str = ""
    run_name: str = ""

    @property
    def told(self) -> str:
        """The outcome in words."""
        run = f"{self.run_name} ({self.run_id})"
        return {
            "started": f"a calibration was started: {run}",
            "running": f"a calibration is under way already: {run}",
            "made": f"this change was calibrated already: {run}",
            "given_up": f"{ATTEMPTS} calibrations for this change failed, the last in {run}: a person has to look",
        }[self.outcome]


def start_calibration(parameters: Mapping[str, Any], key: str) -> Started:
    """Start the deployment `calibrate` once for a change.

    Parameters
    ----------
    parameters : mapping
        Of the flow; ``instrument`` says which calibrations are about the same.
    key : str
        Names the change; a second call with it makes no second run.

    Raises
    ------
    UnreachableError
        No server is configured or answers, or it has no such deployment.
    """
    import httpx
    from prefect.client.orchestration import get_client
    from prefect.exceptions import ObjectNotFound

    from tasks.events import server_configured

    if not server_configured():
        raise UnreachableError("no Prefect server is configured, so no calibration can be started; set PREFECT_API_URL")
    try:
        with get_client(sync_client=True) as client:
            deployment = client.read_deployment_by_name(DEPLOYMENT)
            for run in _under_way(client, deployment.id, parameters.get("instrument")):
                return Started(outcome="running", run_id=str(run.id), run_name=run.name)
            return _started(client, deployment.id, parameters, key)
    except ObjectNotFound:
        raise UnreachableError(
            f"the Prefect server has no deployment {DEPLOYMENT}; deploy deployments/prefect.yaml"
        ) from None
    except (httpx.HTTPError, OSError) as error:
        raise UnreachableError(f"the Prefect server did not start a calibration: {error}") from None


def _under_way(client: Any, deployment: Any, instrument: str | None) -> Iterator[Any]:
    """Find runs that have not ended; one of another instrument does not count."""
    from prefect.client.schemas.filters import (
        DeploymentFilter,
        DeploymentFilterId,
        FlowRunFilter,
        FlowRunFilterState,
        FlowRunFilterStateType,
    )
    from prefect.client.schemas.objects import StateType

    active = [StateType(name) for name in _ACTIVE]
    runs = client.read_flow_runs(
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[deployment])),
        flow_run_filter=FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=active))),
    )
    yield from (run for run in runs if run.parameters.get("instrument") == instrument)


def _started(client: Any, deployment: Any, parameters: Mapping[str, Any], key: str) -> Started:
    """Make a run, or find the one that this key has made; the attempt after one that failed has a key of its own."""
    known = _known_runs(client, deployment, key)
    for attempt in range(1, ATTEMPTS + 1):
        name = f"{key}-{attempt}"
        if name in known:
            run = known[name]
            if run.state_type is None or run.state_type.value not in _FAILED:
                return Started(outcome="made", run_id=str(run.id), run_name=run.name)
            continue
        run = client.create_flow_run_from_deployment(deployment, parameters=dict(parameters), idempotency_key=name)
        return Started(outcome="started", run_id=str(run.id), run_name=run.name)
    return Started(outcome="given_up", run_id=str(run.id), run_name=run.name)


def _known_runs(client: Any, deployment: Any, key: str) -> dict[str, Any]:
    from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterIdempotencyKey

    wanted = FlowRunFilterIdempotencyKey(any_=[f"{key}-{attempt}" for attempt in range(1, ATTEMPTS + 1)])
    runs = client.read_flow_runs(flow_run_filter=FlowRunFilter(idempotency_key=wanted))
    return {str(run.idempotency_key): run for run in runs if run.deployment_id == deployment}
