"""Plans in a real MLflow on SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.instrument.planned import PlanSpec
from flows.pipelines.planning import run_plan
from tasks.tracking import track
from tests.tasks.tracking.conftest import Story


def test_a_plan_is_a_run_with_sizes_tags_figure_and_record_once(
    story: Story, store: str, client: Any, tmp_path: Path
) -> None:
    spec = PlanSpec(goal="half_width", target=0.1, prevalence=0.2, find_golden=True)
    written = run_plan(spec, calibration=str(story.calibration.path), output=tmp_path / "plan.json")
    tracked = track(written, store)
    run, result = client.get_run(tracked.run_id), written.document["result"]
    assert client.get_experiment(run.info.experiment_id).name == "assay/plan"
    assert run.info.run_name == "plan half width 0.1"
    assert run.info.status == "FINISHED"
    assert (run.data.tags["goal"], run.data.tags["status"]) == ("half_width", result["status"])
    assert run.data.tags["calibration.id"] == story.calibration.document["id"]
    assert run.data.tags["instrument"] == "safety"
    assert {name: run.data.metrics[name] for name in result["sizes"]} == result["sizes"]
    assert run.data.metrics["achieved"] == result["achieved"]
    assert (run.data.params["spec.goal"], run.data.params["spec.prevalence"]) == ("half_width", "0.2")
    assert [item.dataset.name.partition(":")[0] for item in run.inputs.dataset_inputs] == ["calibration"]
    names = {item.path for folder in ("record", "figures") for item in client.list_artifacts(tracked.run_id, folder)}
    assert names == {"record/record.json", "figures/curve.png"}
    assert "**Reached with" in run.data.tags["mlflow.note.content"]
    again = track(written, store)
    assert (again.existed, again.run_id) == (True, tracked.run_id)


def test_a_plan_without_a_design_is_a_run_without_its_figures(store: str, client: Any, tmp_path: Path) -> None:
    spec = PlanSpec(goal="limit_of_detection", target=0.05, sensitivity=0.5, specificity=0.5)
    tracked = track(run_plan(spec, output=tmp_path / "plan.json"), store)
    run = client.get_run(tracked.run_id)
    assert run.data.tags["status"] == "below_detection_floor"
    assert set(run.data.metrics) == {"target", "power"}
