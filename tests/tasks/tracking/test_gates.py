"""A gate's verdict in MLflow: a tag on the run of the record that was gated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow import MlflowClient

from core.records import Document
from flows.pipelines.gating import run_gate
from tasks.tracking import track
from tasks.tracking.gates import tag_gated


def gated(story: Any, folder: Path, threshold: float) -> Document:
    policy = folder / "policy.yaml"
    policy.write_text(
        "name: release\nrules:\n  - {rule: rate, metric: composite.observed_rate, bound: point, op: '<=', "
        f"threshold: {threshold}, schema: measurement}}\n"
    )
    records = [str(story.first.path), str(story.second.path)]
    return run_gate(records, policy, output=folder / "gate.json").document


def test_the_verdict_is_a_tag_on_the_runs_that_are_there_and_the_latest_stands(
    story: Any, own_data: Path, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"  # its own: other tests track the second release
    client = MlflowClient(store)
    track(story.calibration, store)  # so that the run names it, whichever test comes first
    run_id = track(story.first, store).run_id
    for threshold, verdict in ((0.0, "fail"), (1.0, "pass")):
        document = gated(story, tmp_path, threshold)
        tagged = tag_gated(document, store)
        assert document["result"]["verdict"] == verdict, document["result"]["rules"]
        assert tagged.run_ids == (run_id,)
        assert tagged.untracked == (story.second.document["id"],)
        tags = client.get_run(run_id).data.tags
        assert (tags["gate.verdict"], tags["gate.policy"], tags["gate.record.id"]) == (
            verdict,
            "release",
            document["id"],
        )
        assert client.get_run(run_id).info.status == "FINISHED"
