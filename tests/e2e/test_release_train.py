"""A judge changes and two releases follow: the rest happens by itself, on real services, and can be read back."""

from __future__ import annotations

import re
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


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    with stack_folder() as folder, running_stack(folder) as running:
        yield running


def ended(stack: RunningStack, flow: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait for so many runs of a flow to end, and see that they ended well."""

    def found() -> list[dict[str, Any]]:
        over = [run for run in stack.flow_runs(flow) if run["end_time"]]
        return over if len(over) >= count else []

    runs: list[dict[str, Any]] = until(found, LIMIT, f"{count} ended runs of {flow}")
    assert [run["state_type"] for run in runs] == ["COMPLETED"] * count, runs
    return runs


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
    instrument = str(paths["instrument"])

    # The judge changed: calibration, certificate and the decision about promotion follow from one event.
    stack.assay(
        "event", "judge-changed", "--judge", "lexical@1", "--instrument", instrument, "--golden", str(paths["golden"])
    )
    ended(stack, "calibrate")
    ended(stack, "simulate")
    model = stack.mlflow_runs("assay/calibration")[0]
    name = tags_of(model)["instrument"]
    (version,) = versions(stack, name)
    assert stack.aliases(name)["challenger"] == version["version"]
    if "champion" not in stack.aliases(name):  # the rule left it to a person
        stack.assay("promote", f"models:/{name}@challenger", "--because", "read by the red team: the first judge")
        (version,) = versions(stack, name)
    assert stack.aliases(name)["champion"] == version["version"]
    assert version["tags"]["promoted_by"]
    assert version["tags"]["promoted_because"]

    # Two releases: each is measured, the second is compared with the first, and gated.
    for number, target in enumerate((BASELINE, CANDIDATE), start=1):
        scores = tmp_path / f"scores-{number}.parquet"
        stack.assay("judge", "lexical", str(paths[target]), "-o", str(scores))
        more = [] if number == 1 else ["--baseline", BASELINE, "--policy", "release-safety"]
        stack.assay(
            "event", "model-released", "--target", target, "--scores", str(scores), "--instrument", instrument, *more
        )
        ended(stack, "measure", number)
    ended(stack, "compare")

    counts = kinds(stack)
    assert counts == {"calibration": 1, "simulation": 1, "measurement": 2, "comparison": 1, "gate": 1}
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
