"""A judge changes and two releases follow: the rest happens by itself, on real services, and can be read back."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.builtin.starter import write_demo
from tests.e2e.stack import RunningStack, running_stack, stack_folder, tags_of, until

pytestmark = pytest.mark.e2e

BASELINE, CANDIDATE = "guard-x@1.1", "guard-x@1.2"
LIMIT = 300.0
DONE = "COMPLETED"


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    with stack_folder() as folder, running_stack(folder) as running:
        yield running


def ended(stack: RunningStack, flow: str, *states: str) -> list[dict[str, Any]]:
    """Wait until as many runs of a flow have ended as there are states, and see that these are theirs; oldest first."""

    def found() -> list[dict[str, Any]]:
        over = [run for run in stack.flow_runs(flow) if run["end_time"]]
        return over if len(over) >= len(states) else []

    runs: list[dict[str, Any]] = until(found, LIMIT, f"{len(states)} ended runs of {flow}")
    assert [run["state_type"] for run in runs] == list(states), runs
    return runs


def artifacts(stack: RunningStack, run: dict[str, Any]) -> dict[str, str]:
    """What a run shows in Prefect, by name."""
    wanted = {"artifacts": {"flow_run_id": {"any_": [run["id"]]}}}
    answer = httpx.post(f"{stack.api}/artifacts/filter", json=wanted, auth=stack.prefect_auth, timeout=30)
    return {item["key"]: item["data"] for item in answer.raise_for_status().json() if item["key"]}


def shown(stack: RunningStack, run: dict[str, Any], artifact: str) -> dict[str, Any]:
    """The record, from the bucket, that an artifact of a run names."""
    return stack.record(artifacts(stack, run)[artifact].rpartition("Record `")[2].partition("`")[0])


def versions(stack: RunningStack, model: str) -> list[dict[str, Any]]:
    """The registered versions of a model, with their tags as a mapping."""
    answer = httpx.get(
        f"{stack.mlflow}/api/2.0/mlflow/model-versions/search", params={"filter": f"name='{model}'"},
        auth=stack.mlflow_auth, timeout=60,
    )  # fmt: skip
    found = answer.raise_for_status().json().get("model_versions", [])
    return [{**item, "tags": tags_of(item)} for item in found]


def kinds(stack: RunningStack) -> dict[str, int]:
    """Records in the bucket, counted by their schema."""
    keys = [key for key in stack.objects(prefix="records/") if re.fullmatch(r"records/[0-9a-f]{64}\.json", key)]
    counts: dict[str, int] = {}
    for key in keys:
        schema = stack.record(key.removeprefix("records/").removesuffix(".json"))["schema"]
        name = schema.partition("/")[0].removeprefix("assay.")
        counts[name] = counts.get(name, 0) + 1
    return counts


def test_from_a_changed_judge_to_a_gated_release(stack: RunningStack, tmp_path: Path) -> None:
    paths = write_demo(tmp_path)
    instrument, golden = str(paths["instrument"]), str(paths["golden"])
    calibrate = ["calibrate", golden, "--judge", "lexical", "--instrument", instrument, "--json"]

    def released(target: str, *more: str) -> None:
        scores = tmp_path / f"scores-{target}.parquet"
        if not scores.exists():
            stack.assay("judge", "lexical", str(paths[target]), "-o", str(scores))
        stack.assay(
            "event", "model-released", "--target", target, "--scores", str(scores), "--instrument", instrument, *more
        )

    def judge_changed(event_id: str) -> None:
        stack.assay(
            "event", "judge-changed", "--judge", "lexical@1", "--instrument", instrument, "--golden", golden,
            "--event-id", event_id,
        )  # fmt: skip

    # A release before any calibration: the raw rate alone, and its judge is announced, which nobody can calibrate yet.
    released(BASELINE)
    (raw,) = ended(stack, "measure", DONE)
    assert raw["name"] == f"measure {BASELINE}"
    result = shown(stack, raw, "measurement")["result"]
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    assert result["composite"]["observed_rate"] is not None
    assert any("has no champion" in note for note in result["notes"])
    (announced,) = ended(stack, "calibrate", "FAILED")
    assert "no golden set is named" in announced["state"]["message"]

    # The judge changed: calibration, certificate and the decision about promotion follow. The same event twice is one
    # run, and the same change announced again makes nothing new.
    event_id = str(uuid.uuid4())
    for sent in (event_id, event_id, str(uuid.uuid4())):
        judge_changed(sent)
    _, first, second = ended(stack, "calibrate", "FAILED", DONE, DONE)
    ended(stack, "simulate", DONE, DONE)
    calibration = shown(stack, first, "calibration")
    assert shown(stack, second, "calibration")["id"] == calibration["id"]
    assert artifacts(stack, first)["calibration-categories"]
    assert calibration["result"]["judge"]["fingerprint"] != "unknown"
    assert json.loads(stack.assay(*calibrate))["id"] == calibration["id"]  # one composition, two runners
    (model,) = stack.mlflow_runs("assay/calibration")
    name = tags_of(model)["instrument"]
    (version,) = versions(stack, name)
    assert stack.aliases(name)["challenger"] == version["version"]
    if "champion" not in stack.aliases(name):  # the rule left it to a person
        stack.assay("promote", f"models:/{name}@challenger", "--because", "read by the red team: the first judge")
        (version,) = versions(stack, name)
    assert stack.aliases(name)["champion"] == version["version"]
    assert version["tags"]["promoted_by"]
    assert version["tags"]["promoted_because"]

    # Two releases: each is measured with the champion, the second is compared with the first, and gated.
    released(BASELINE)
    ended(stack, "measure", DONE, DONE)
    released(CANDIDATE, "--baseline", BASELINE, "--policy", "release-safety")
    _, *measured = ended(stack, "measure", DONE, DONE, DONE)
    for run in measured:
        record = shown(stack, run, "measurement")
        assert record["result"]["calibration"]["id"] == calibration["id"]
        assert record["result"]["composite"]["prevalence"]["status"] in ("measured", "inconclusive")
        assert [item["uri"] for item in record["inputs"] if item["role"] == "calibration"] == [f"models:/{name}/1"]
        assert "Corrected rate" in artifacts(stack, run)["measurement"]
    ended(stack, "compare", DONE)
    assert len(stack.flow_runs("calibrate")) == 3

    counts = kinds(stack)
    assert counts == {"calibration": 1, "simulation": 1, "measurement": 3, "comparison": 1, "gate": 1}
    in_mlflow = {kind: stack.mlflow_runs(f"assay/{kind}") for kind in ("calibration", "simulation", "comparison")}
    assert {kind: len(runs) for kind, runs in in_mlflow.items()} == {
        "calibration": 1, "simulation": 1, "comparison": 1,
    }  # fmt: skip
    measured = [tags_of(run) for run in stack.mlflow_runs("assay/measurement")]
    by_target = {tags["target"]: tags for tags in measured if tags.get("kind") != "timeline" and "target" in tags}
    assert set(by_target) == {BASELINE, CANDIDATE}
    gates = [tags for tags in measured if "gate.verdict" in tags]
    assert [tags["gate.policy"] for tags in gates if tags.get("target") == CANDIDATE] == ["release-safety"]

    # Every record verifies, from what the bucket and the inputs hold.
    for key in stack.objects(prefix="records/"):
        if re.fullmatch(r"records/[0-9a-f]{64}\.json", key):
            assert "verified" in stack.assay("verify", f"s3://assay/{key}"), key
    assert "verified" in stack.assay("verify", f"models:/{name}@champion")
