"""deployments/prefect.yaml: it names flows that exist, and hands them what they take, typed."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from core.instrument.spec import InstrumentSpec, JudgeIdentity
from tasks.events import BASELINE_LABEL, CALIBRATION_MADE, JUDGE_CHANGED, MEASUREMENT_MADE, MODEL_RELEASED
from tasks.specs import load_instrument

PAYLOADS: dict[str, dict[str, Any]] = {
    JUDGE_CHANGED: {
        "judge": {"name": "lexical", "version": "1", "fingerprint": "f" * 64}, "instrument": "safety",
        "golden": ["s3://lab/golden.parquet"], "scores": ["a.csv", "it's \"quoted\" {{ 7 * 7 }}.csv"],
    },
    MODEL_RELEASED: {
        "target": "guard-x@1.3", "scores": ["a.parquet", "b.parquet"], "instrument": "safety",
        "baseline": "guard-x@1.2", "policy": "release-safety",
    },
    CALIBRATION_MADE: {"calibration": "models:/safety/3", "record": "a" * 64, "instrument": "safety"},
    MEASUREMENT_MADE: {
        "measurement": "runs:/" + "b" * 32, "record": "c" * 64, "target": "guard-x@1.3", "instrument": "safety",
        "baseline": "runs:/" + "d" * 32, "policy": "release-safety",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def document(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((project / "deployments" / "prefect.yaml").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module", params=["calibrate", "measure", "simulate", "compare"])
def deployment(request: pytest.FixtureRequest, document: dict[str, Any]) -> dict[str, Any]:
    (found,) = (item for item in document["deployments"] if item["name"] == request.param)
    return dict(found)


def flow_of(deployment: dict[str, Any]) -> Any:
    file, _, name = deployment["entrypoint"].partition(":")
    return getattr(importlib.import_module(file.removesuffix(".py").replace("/", ".")), name)


def rendered(trigger: dict[str, Any], payload: dict[str, Any]) -> dict[str, Any]:
    """The parameters that the server makes of an event."""
    from prefect.server.utilities.user_templates import validate_user_template
    from prefect.utilities.schema_tools.hydration import HydrationContext, hydrate

    for parameter in trigger["parameters"].values():
        if isinstance(parameter, dict):
            validate_user_template(parameter["value"]["template"])
    context = HydrationContext(render_jinja=True, jinja_context={"event": {"payload": payload}}, raise_on_error=True)
    found: dict[str, Any] = hydrate(trigger["parameters"], context)
    return found


def test_prefect_itself_can_read_the_file(deployment: dict[str, Any]) -> None:
    from prefect.events import DeploymentEventTrigger

    for trigger in deployment["triggers"]:
        assert DeploymentEventTrigger.model_validate(trigger).enabled


def test_the_entrypoint_is_a_flow_of_that_name(project: Path, deployment: dict[str, Any]) -> None:
    assert (project / deployment["entrypoint"].partition(":")[0]).is_file()
    assert flow_of(deployment).name == deployment["name"]


def test_all_parameters_are_parameters_of_the_flow(deployment: dict[str, Any]) -> None:
    known = set(inspect.signature(flow_of(deployment).fn).parameters)
    given = [deployment, *deployment.get("schedules", []), *deployment["triggers"]]
    for part in given:
        assert set(part["parameters"]) <= known
    required = {
        name
        for name, item in inspect.signature(flow_of(deployment).fn).parameters.items()
        if item.default is inspect.Parameter.empty
    }
    assert required <= set(deployment["parameters"])


def test_templates_are_json_and_keep_the_types_that_the_flow_wants(deployment: dict[str, Any]) -> None:
    (trigger,) = deployment["triggers"]
    templates = {key: value for key, value in trigger["parameters"].items() if isinstance(value, dict)}
    for parameter in templates.values():
        assert parameter["__prefect_kind"] == "json"
        assert "| tojson }}" in parameter["value"]["template"]
    (name,) = trigger["expect"]
    payload = PAYLOADS[name]
    releases = [payload.get("baseline"), payload.get("measurement")]
    expected = {key: releases if key == "releases" else payload[key] for key in templates}
    parameters = rendered(trigger, payload)
    assert {key: parameters[key] for key in templates} == expected
    typed = flow_of(deployment).validate_parameters(deployment["parameters"] | parameters)
    if name == JUDGE_CHANGED:
        assert typed["judge"] == JudgeIdentity(name="lexical", version="1", fingerprint="f" * 64)


def test_only_a_measurement_that_has_a_baseline_is_compared(document: dict[str, Any]) -> None:
    from prefect.events.schemas.events import Resource, ResourceSpecification

    (compare,) = (item for item in document["deployments"] if item["name"] == "compare")
    (trigger,) = compare["triggers"]
    asked = ResourceSpecification(trigger["match"])
    measured = {"prefect.resource.id": "assay.measurement.safety"}
    assert asked.matches(Resource({**measured, BASELINE_LABEL: "runs:/" + "d" * 32}))
    assert not asked.matches(Resource(measured))
    assert rendered(trigger, PAYLOADS[MEASUREMENT_MADE])["remeasure"] is True


def test_no_event_starts_what_announces_it_again(document: dict[str, Any]) -> None:
    """What each flow may announce, and what that starts: a chain with an end."""
    announces = {
        "measure": {JUDGE_CHANGED, MEASUREMENT_MADE},
        "calibrate": {CALIBRATION_MADE},
        "watch_judge": {CALIBRATION_MADE},
    }
    starts = {
        event: item["name"]
        for item in document["deployments"]
        for trigger in item.get("triggers", [])
        for event in trigger["expect"]
    }

    def after(name: str, so_far: tuple[str, ...]) -> list[str]:
        assert name not in so_far, f"{' -> '.join(so_far)} -> {name}"
        following = (starts[event] for event in announces.get(name, ()) if event in starts)
        return [name, *(more for found in following for more in after(found, (*so_far, name)))]

    assert sorted(after("measure", ())) == ["calibrate", "compare", "measure", "simulate"]
    assert after("watch_judge", ()) == ["watch_judge", "simulate"]


def test_a_changed_judge_without_scores_is_to_run(document: dict[str, Any]) -> None:
    (trigger,) = (
        t for item in document["deployments"] for t in item.get("triggers", []) if t["expect"] == [JUDGE_CHANGED]
    )
    payload = {key: value for key, value in PAYLOADS[JUDGE_CHANGED].items() if key != "scores"}
    assert rendered(trigger, payload)["scores"] is None


def test_one_run_at_a_time_and_the_next_waits(deployment: dict[str, Any]) -> None:
    assert deployment["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}


def test_events_of_the_resources_that_assay_announces_are_matched(deployment: dict[str, Any]) -> None:
    (trigger,) = deployment["triggers"]
    pattern = trigger["match"]["prefect.resource.id"]
    assert trigger["expect"][0].startswith(pattern.removesuffix("*"))
    assert trigger["enabled"] is True


def test_every_deployment_is_described_and_tagged_and_runs_one_at_a_time(
    project: Path, document: dict[str, Any]
) -> None:
    names = [item["name"] for item in document["deployments"]]
    assert sorted(names) == ["audit", "calibrate", "compare", "measure", "plan", "simulate", "watch_judge"]
    for found in document["deployments"]:
        assert flow_of(found).name == found["name"]
        assert (project / found["entrypoint"].partition(":")[0]).is_file()
        assert found["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
        assert found["tags"][0] == "assay"
        assert len(found["tags"]) == 2
        assert found["description"].endswith(".")
        if found["parameters"]:
            assert flow_of(found).validate_parameters(found["parameters"]) is not None


def test_the_judge_is_watched_every_night_and_production_is_measured_once_somebody_says_where_it_is(
    document: dict[str, Any],
) -> None:
    schedules = {
        item["slug"]: (deployment["name"], item["active"])
        for deployment in document["deployments"]
        for item in deployment.get("schedules", [])
    }
    assert schedules == {"safety-nightly": ("watch_judge", True), "nightly": ("measure", False)}


def test_promotion_by_the_rule_is_a_parameter_that_can_be_switched_off(document: dict[str, Any]) -> None:
    (simulate,) = (item for item in document["deployments"] if item["name"] == "simulate")
    assert simulate["parameters"] == {"promote": True}
    assert inspect.signature(flow_of(simulate).fn).parameters["promote"].default is False


def test_every_instrument_of_the_deployments_can_be_read_and_is_named_as_its_file(project: Path) -> None:
    from flows.orchestration import SPECS, instrument_named

    paths = sorted((project / SPECS).glob("*.yaml"))
    paths.remove(project / SPECS / "rubric.yaml")  # what a judge judges by; read in tests/tasks/judges
    assert paths
    for path in paths:
        assert load_instrument(path).name == path.stem
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project)
        assert instrument_named("safety") == load_instrument(project / SPECS / "safety.yaml")
    assert instrument_named(None) == InstrumentSpec()


def test_no_host_but_this_machine_and_object_storage_is_named(project: Path) -> None:
    for path in (project / "deployments").rglob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"(\w+)://", text)) <= {"s3"}
        assert not re.search(r"pip|index|registry|docker|image:", text)


@pytest.mark.parametrize(
    ("name", "says"),
    [("../safety", "is neither a YAML file nor the name of an instrument"), ("nothing", "nothing.yaml")],
)
def test_an_instrument_that_is_not_there_is_told_by_its_name(name: str, says: str) -> None:
    from core.errors import InputError
    from flows.orchestration import instrument_named

    with pytest.raises(InputError, match=re.escape(says)):
        instrument_named(name)
