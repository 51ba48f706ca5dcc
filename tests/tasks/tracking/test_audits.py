"""Audits in a real MLflow on SQLite: metrics with the ends of their intervals, tags, figures, data sets, verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from flows.pipelines.auditing import run_audit
from flows.pipelines.gating import run_gate
from tasks.archive import Written
from tasks.builtin.outputs_sample import MODELS, outputs_sample
from tasks.tracking import track
from tasks.tracking.audits import audit_metrics
from tasks.tracking.gates import tag_gated

PREDICTIONS = 'kind: predictions\nname: "hiring"\ngroups: [sex, race]\npositive: {y_pred: 1}\n'


@pytest.fixture(scope="module")
def audits(tmp_path_factory: pytest.TempPathFactory, project: Path) -> dict[str, Written]:
    folder = tmp_path_factory.mktemp("audits")
    rows = ["sex,race,y_pred,y_true"]
    rows += [f"{'fm'[i % 2]},{'ab'[i // 2 % 2]},{int(i % 7 < 3 + i % 2)},{int(i % 7 < 3)}" for i in range(1400)]
    (folder / "p.csv").write_text("\n".join([*rows, ""]))
    (folder / "p.yaml").write_text(PREDICTIONS)
    table = outputs_sample(MODELS[1]).drop_columns(["embedding"])
    pq.write_table(table, folder / "o.parquet")
    sample = project / "tasks" / "builtin" / "fairness" / "sample.yaml"
    (folder / "o.yaml").write_text(sample.read_text().replace("name: built-in", "target: lantern@2\nname: built-in"))
    return {
        "predictions": run_audit([str(folder / "p.csv")], folder / "p.yaml", output=folder / "p.json"),
        "outputs": run_audit([str(folder / "o.parquet")], folder / "o.yaml", output=folder / "o.json"),
    }


@pytest.fixture
def logged(audits: dict[str, Written], store: str, client: Any, own_data: Path) -> dict[str, Any]:
    return {kind: client.get_run(track(written, store).run_id) for kind, written in audits.items()}


def test_an_audit_of_predictions_is_a_run_with_gaps_and_their_intervals(
    logged: dict[str, Any], audits: dict[str, Written], client: Any
) -> None:
    run, document = logged["predictions"], audits["predictions"].document
    assert client.get_experiment(run.info.experiment_id).name == "assay/audit"
    assert (run.info.run_name, run.info.status) == ("audit hiring", "FINISHED")
    assert (run.data.tags["record.id"], run.data.tags["kind"]) == (document["id"], "predictions")
    assert "human_review" not in run.data.tags
    ratio = document["result"]["attributes"]["sex"]["rates"]["selection_rate"]["ratio"]
    metrics = run.data.metrics
    assert metrics["sex.selection_rate.ratio"] == ratio["value"]
    assert metrics["sex.selection_rate.ratio_low"] == ratio["interval"]["low"]
    assert metrics["sexxrace.equalized_odds_high"] > 0
    assert run.data.params["spec.positive.y_pred"] == "1"
    names = {item.path for item in client.list_artifacts(run.info.run_id, "figures")}
    assert {"figures/gaps-sex.png", "figures/intersections.png"} <= names
    digests = {tag.value for item in run.inputs.dataset_inputs for tag in item.tags if tag.key == "sha256"}
    assert digests == {item["sha256"] for item in document["inputs"]}
    assert run.data.tags["mlflow.note.content"].startswith("# Audit of hiring")


def test_an_audit_of_outputs_has_the_metrics_that_could_be_evaluated(logged: dict[str, Any]) -> None:
    run = logged["outputs"]
    assert run.info.run_name == "audit lantern@2"
    assert (run.data.tags["human_review"], run.data.tags["target"]) == ("false", "lantern@2")
    assert run.data.tags["failed"] == "dsi"
    assert {"rsi.gender", "hsi", "hsi_high", "dsi", "dsi_low", "sar.gender_low"} <= set(run.data.metrics)
    assert not any(name.startswith("cds") for name in run.data.metrics)  # without embeddings there is none


def test_the_same_audit_is_one_run_and_a_gates_verdict_is_its_tag(
    logged: dict[str, Any], audits: dict[str, Written], store: str, client: Any, tmp_path: Path, project: Path
) -> None:
    again = track(audits["outputs"], store)
    run_id = logged["outputs"].info.run_id
    assert (again.run_id, again.existed) == (run_id, True)
    policy = project / "deployments" / "policies" / "fairbench-bands.yaml"
    gate = run_gate([str(audits["outputs"].path)], policy, output=tmp_path / "gate.json")
    assert tag_gated(gate.document, store).run_ids == (run_id,)
    tags = client.get_run(run_id).data.tags
    assert (tags["gate.verdict"], tags["gate.policy"]) == ("fail", "fairbench-bands")


def test_more_figures_than_a_page_shows_are_left_out_and_named(audits: dict[str, Written]) -> None:
    document = audits["predictions"].document
    part = document["result"]["attributes"]["sex"]
    many = {**document["result"], "attributes": {f"a{i}": part for i in range(12)}, "intersections": None}
    headline = audit_metrics({**document, "result": many})
    assert len(headline.metrics) <= 40
    assert "a0.selection_rate.ratio" in headline.metrics
    assert "a11.accuracy.difference" in headline.left_out
