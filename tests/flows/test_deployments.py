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
from tasks.events import JUDGE_CHANGED, MODEL_RELEASED
from tasks.specs import load_instrument

PAYLOADS: dict[str, dict[str, Any]] = {
    JUDGE_CHANGED: {
        "judge": {"name": "lexical", "version": "1", "fingerprint": "f" * 64}, "instrument": "safety",
        "golden": ["s3://lab/golden.parquet"], "scores": ["a.csv", "it's \"quoted\" {{ 7 * 7 }}.csv"],
    },
    MODEL_RELEASED: {
        "target": "guard-x@1.3", "scores": ["a.parquet", "b.parquet"], "instrument": "safety",
        "baseline": "guard-x@1.2",
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def document(project: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((project / "deployments" / "prefect.yaml").read_text(encoding="utf-8"))
    return found


@pytest.fixture(scope="module", params=["calibrate", "measure"])
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
    for parameter in trigger["parameters"].values():
        assert parameter["__prefect_kind"] == "json"
        assert "| tojson }}" in parameter["value"]["template"]
    (name,) = trigger["expect"]
    parameters = rendered(trigger, PAYLOADS[name])
    assert parameters == {key: PAYLOADS[name][key] for key in trigger["parameters"]}
    typed = flow_of(deployment).validate_parameters(deployment["parameters"] | parameters)
    if name == JUDGE_CHANGED:
        assert typed["judge"] == JudgeIdentity(name="lexical", version="1", fingerprint="f" * 64)


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


@pytest.mark.parametrize("name", ["simulate", "compare", "audit"])
def test_what_is_started_by_hand_runs_one_at_a_time(project: Path, document: dict[str, Any], name: str) -> None:
    (found,) = (item for item in document["deployments"] if item["name"] == name)
    assert flow_of(found).name == name
    assert (project / found["entrypoint"].partition(":")[0]).is_file()
    assert found["concurrency_limit"] == {"limit": 1, "collision_strategy": "ENQUEUE"}
    assert "triggers" not in found
    assert flow_of(found).validate_parameters(found["parameters"]) is not None


def test_schedules_wait_until_somebody_switches_them_on(document: dict[str, Any]) -> None:
    schedules = [item for deployment in document["deployments"] for item in deployment.get("schedules", [])]
    assert schedules
    assert not any(item["active"] for item in schedules)


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
