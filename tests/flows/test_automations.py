"""Automations as code, and what events start: against a real Prefect server, and a receiver on this machine."""

from __future__ import annotations

import contextlib
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError, UnreachableError
from tasks.events import (
    BASELINE_LABEL,
    CALIBRATION_MADE,
    GATE_FAILED,
    GATE_INSUFFICIENT,
    JUDGE_CHANGED,
    MEASUREMENT_MADE,
    emit,
)
from tasks.recalibration import ATTEMPTS, DEPLOYMENT, start_calibration
from tasks.settings import settings


def until(found: Callable[[], Any], seconds: float, what: str) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if value := found():
            return value
        time.sleep(0.25)
    raise AssertionError(f"no {what} within {seconds:g} s")


@pytest.fixture(scope="module")
def code(project: Path) -> Any:
    """The file of the automations, as it is run: by its path."""
    found = importlib.util.spec_from_file_location("assay_automations", project / "deployments" / "automations.py")
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


@pytest.fixture
def no_automations(client: Any) -> Iterator[None]:
    """Leave no automation of this file behind."""
    yield
    for automation in client.read_automations():
        client.delete_automation(automation.id)


@pytest.fixture
def block_named(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    def named(value: str) -> None:
        monkeypatch.setenv("ASSAY_NOTIFICATION_BLOCK", value)
        settings.cache_clear()

    yield named
    monkeypatch.undo()
    settings.cache_clear()


# --- what they say ----------------------------------------------------------------------------------------------------


def test_silent_runs_crash_after_three_heartbeats_and_runs_that_end_are_left_alone(code: Any) -> None:
    from prefect.client.schemas.objects import StateType
    from prefect.events.actions import DoNothing

    zombies = code.automations([DoNothing()])[0]
    assert zombies.trigger.posture == "Proactive"
    assert zombies.trigger.after == {"prefect.flow-run.heartbeat"}
    assert zombies.trigger.expect == {
        "prefect.flow-run.heartbeat", "prefect.flow-run.Completed", "prefect.flow-run.Failed",
        "prefect.flow-run.Cancelled", "prefect.flow-run.Crashed",
    }  # fmt: skip
    assert zombies.trigger.for_each == {"prefect.resource.id"}
    assert zombies.trigger.within.total_seconds() == 90
    (action,) = zombies.actions
    assert action.state == StateType.CRASHED


def test_people_are_told_of_gates_failed_actions_and_failed_runs(code: Any) -> None:
    from prefect.events.actions import DoNothing

    _, could_not, gates, runs = code.automations([DoNothing()])
    assert could_not.trigger.expect == {"prefect.automation.action.failed"}
    assert gates.trigger.expect == {GATE_FAILED, GATE_INSUFFICIENT}
    assert runs.trigger.expect == {"prefect.flow-run.Failed", "prefect.flow-run.Crashed"}
    for automation in (could_not, gates, runs):
        assert automation.actions == [DoNothing()]


def test_an_alert_that_fails_does_not_alert_about_itself(code: Any) -> None:
    from prefect.events.actions import DoNothing
    from prefect.events.schemas.events import Resource

    could_not = code.automations([DoNothing()])[1]
    label = "prefect.resource.name"
    assert not could_not.trigger.match.matches(
        Resource({"prefect.resource.id": "prefect.automation.1", label: could_not.name})
    )
    assert could_not.trigger.match.matches(Resource({"prefect.resource.id": "prefect.automation.2", label: "another"}))


def test_templates_of_the_messages_are_those_that_the_server_takes(code: Any) -> None:
    from prefect.server.utilities.user_templates import validate_user_template

    for template in (code.SUBJECT, code.BODY):
        validate_user_template(template)


def test_without_a_server_nothing_is_deployed_and_the_command_ends_with_4(project: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}
    done = subprocess.run(
        [sys.executable, "deployments/automations.py"], cwd=project, env=environment, capture_output=True, text=True,
        timeout=120,
    )  # fmt: skip
    assert done.returncode == 4
    assert "set PREFECT_API_URL" in done.stderr
    assert "Traceback" not in done.stderr


# --- on the server ----------------------------------------------------------------------------------------------------


@pytest.mark.e2e
def test_deploying_twice_makes_each_automation_once_and_keeps_what_people_switched_off(
    client: Any, code: Any, no_automations: None
) -> None:
    names = code.deploy()
    (gates,) = client.read_automations_by_name("assay: a gate stops a release")
    client.pause_automation(gates.id)
    assert code.deploy() == names
    found = {automation.name: automation.enabled for automation in client.read_automations()}
    assert found == {name: name != "assay: a gate stops a release" for name in names}


@pytest.mark.e2e
def test_deploying_again_lets_automations_remember_whom_they_wait_for_unless_they_changed(
    client: Any, code: Any, no_automations: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def triggers() -> dict[str, str]:
        """What the server remembers belongs to the id of a trigger."""
        found = client.request("POST", "/automations/filter", json={}).raise_for_status().json()
        return {item["name"]: item["trigger"]["id"] for item in found}

    silence, *_ = code.deploy()
    before = triggers()
    code.deploy()
    assert triggers() == before
    monkeypatch.setattr(code, "SILENCE", 2 * code.SILENCE)
    code.deploy()
    changed = {name for name, trigger in triggers().items() if trigger != before[name]}
    assert changed == {silence}


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted to it."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.heard.append(body)  # type: ignore[attr-defined]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[http.server.ThreadingHTTPServer]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as made:
        made.heard = []  # type: ignore[attr-defined]
        thread = threading.Thread(target=made.serve_forever, args=(0.05,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.mark.e2e
def test_a_gate_that_stops_a_release_reaches_the_webhook_that_is_named(
    client: Any, code: Any, no_automations: None, receiver: Any, block_named: Callable[[str], None]
) -> None:
    from prefect.blocks.notifications import CustomWebhookNotificationBlock

    block_named("custom-webhook/nobody")
    with pytest.raises(InputError, match="the server has no block custom-webhook/nobody"):
        code.deploy()
    block = CustomWebhookNotificationBlock(
        name="assay", url=f"http://127.0.0.1:{receiver.server_address[1]}/hook",
        json_data={"subject": "{{subject}}", "body": "{{body}}"},
    )  # fmt: skip
    block.save("assay", overwrite=True)
    block_named("custom-webhook/assay")
    code.deploy()
    payload = {"verdict": "fail", "policy": "release-safety", "target": "guard-x@1.3"}

    def heard() -> list[str]:
        return list(receiver.heard)

    deadline = time.monotonic() + 90
    while not heard() and time.monotonic() < deadline:  # a trigger that was just made is not yet looked at
        emit(GATE_FAILED, "assay.gate.release-safety", payload)
        with contextlib.suppress(AssertionError):
            until(heard, 10, "notification")
    (message, *_) = heard()
    for text in ("assay: assay.gate.failed", "target: guard-x@1.3", "verdict: fail", "policy: release-safety"):
        assert text in message


def scheduled(client: Any, deployment: str) -> list[Any]:
    from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterId

    found = client.read_deployment_by_name(deployment)
    runs = client.read_flow_runs(deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=[found.id])))
    return [run for run in runs if not run.auto_scheduled]


@pytest.fixture
def deployed(server: str, client: Any, project: Path) -> Iterator[None]:
    """Deploy the file as people do."""
    environment = {**os.environ, "PREFECT_API_URL": server, "ASSAY_HOME": str(project)}
    for command in (
        ("work-pool", "create", "assay", "--type", "process", "--overwrite"),
        ("--no-prompt", "deploy", "--all", "--prefect-file", "deployments/prefect.yaml"),
    ):
        done = subprocess.run(
            [sys.executable, "-m", "prefect", *command], cwd=project, env=environment, capture_output=True, text=True,
            timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
    yield
    for found in client.read_deployments():
        client.delete_deployment(found.id)
    for run in client.read_flow_runs():  # those that wait would be the newest of their flows for other tests
        if run.state_type is None or run.state_type.value in ("SCHEDULED", "PENDING"):
            client.request("DELETE", f"/flow_runs/{run.id}").raise_for_status()


def sent(client: Any, event: str, resource: str, payload: Any, deployment: str, **more: Any) -> Any:
    """Send an event until a run of the deployment is there: triggers that were just made are not yet looked at."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        emit(event, resource, payload, **more)
        with contextlib.suppress(AssertionError):
            return until(lambda: scheduled(client, deployment), 10, f"run of {deployment}")[0]
    raise AssertionError(f"{event} starts no {deployment}")


@pytest.mark.e2e
def test_events_start_the_deployments_that_they_are_for_and_a_change_is_calibrated_once(
    server: str, client: Any, deployed: None
) -> None:
    run = sent(
        client, CALIBRATION_MADE, "assay.calibration.safety",
        {"calibration": "models:/safety/3", "record": "a" * 64, "instrument": "safety"}, "simulate/simulate",
    )  # fmt: skip
    assert run.parameters == {"promote": True, "calibration": "models:/safety/3"}
    assert set(run.tags) >= {"assay", "judge"}

    made = {"measurement": "runs:/" + "b" * 32, "baseline": "runs:/" + "d" * 32, "policy": None, "target": "x@2"}
    emit(MEASUREMENT_MADE, "assay.measurement.safety", {**made, "baseline": None})
    run = sent(
        client, MEASUREMENT_MADE, "assay.measurement.safety", made, "compare/compare",
        labels={BASELINE_LABEL: made["baseline"]},
    )  # fmt: skip
    assert run.parameters["releases"] == [made["baseline"], made["measurement"]]
    assert run.parameters["remeasure"] is True
    assert run.parameters["policy"] is None
    assert all(None not in run.parameters["releases"] for run in scheduled(client, "compare/compare"))

    # What a watch does: one run for one change, however often it is seen.
    key = f"watch-{uuid.uuid4().hex}"
    asked = {"golden": ["golden.csv"], "instrument": "safety", "fresh": True}
    assert scheduled(client, DEPLOYMENT) == []
    first = start_calibration(asked, key)
    assert first.outcome == "started"
    assert start_calibration(asked, key).outcome == "running"
    assert start_calibration({**asked, "instrument": "other"}, f"{key}x").outcome == "started"
    ended = [run for run in scheduled(client, DEPLOYMENT) if str(run.id) == first.run_id]
    assert ended[0].parameters == asked
    _end(client, first.run_id, "COMPLETED")
    again = start_calibration(asked, key)
    assert (again.outcome, again.run_id) == ("made", first.run_id)

    # One that failed is tried again, three times in all.
    key = f"watch-{uuid.uuid4().hex}"
    for _ in range(ATTEMPTS):
        attempt = start_calibration(asked, key)
        assert attempt.outcome == "started"
        _end(client, attempt.run_id, "FAILED")
    assert start_calibration(asked, key).outcome == "given_up"

    judge = {"name": "lexical", "version": "1", "fingerprint": "f" * 64}
    emit(JUDGE_CHANGED, "assay.judge.lexical", {"judge": judge, "instrument": "third", "golden": ["g.csv"]})
    until(
        lambda: [run for run in scheduled(client, DEPLOYMENT) if run.parameters.get("instrument") == "third"], 60,
        "calibration of the changed judge",
    )  # fmt: skip


def _end(client: Any, run_id: str, state: str) -> None:
    from prefect.states import Completed, Failed

    client.set_flow_run_state(run_id, {"COMPLETED": Completed, "FAILED": Failed}[state](), force=True)


def test_without_a_server_or_a_deployment_no_calibration_is_started_and_why_is_told(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.recalibration.DEPLOYMENT", "calibrate/of-nobody")
    with pytest.raises(UnreachableError, match="has no deployment calibrate/of-nobody"):
        start_calibration({"instrument": "safety"}, "watch-x")
    monkeypatch.setattr("tasks.events.server_configured", lambda: False)
    with pytest.raises(UnreachableError, match="no Prefect server is configured"):
        start_calibration({"instrument": "safety"}, "watch-x")
