"""Comparisons and series in a real MLflow on SQLite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import UnreachableError
from flows.pipelines.comparison import run_comparison
from flows.pipelines.measurement import run_measurement
from flows.pipelines.verification import verify
from tasks.archive import Written
from tasks.tracking import sync, track
from tests.tasks.tracking.conftest import Story, scores_of


@pytest.fixture(scope="module")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('own') / 'mlflow.db'}"


@pytest.fixture(scope="module")
def own_client(own_store: str) -> Any:
    from tasks.tracking.connection import connected

    with connected(own_store) as made:
        return made


@pytest.fixture(scope="module")
def releases(story: Story, tmp_path_factory: pytest.TempPathFactory) -> list[Written]:
    """Three whole releases, the last measured with another calibration."""
    folder = tmp_path_factory.mktemp("releases")
    found = []
    for number, calibration in enumerate((story.calibration, story.calibration, story.later)):
        scores_of(80, 20 + number).to_csv(folder / f"{number}.csv", index=False)
        found.append(
            run_measurement(
                [str(folder / f"{number}.csv")], calibration=str(calibration.path), target=f"guard 'x'@{number}",
                output=folder / f"{number}.json",
            )
        )  # fmt: skip
    return found


def test_a_comparison_is_a_run_with_its_figures_and_the_runs_of_its_measurements(
    story: Story, releases: list[Written], own_store: str, own_client: Any, own_data: Path, tmp_path: Path
) -> None:
    runs = [track(item, own_store).run_id for item in releases[:2]]
    paths = [str(item.path) for item in releases[:2]]
    document = (written := run_comparison(paths, output=tmp_path / "c.json").written).document
    logged = track(written, own_store)
    run = own_client.get_run(logged.run_id)
    assert own_client.get_experiment(run.info.experiment_id).name == "assay/comparison"
    assert run.info.run_name == "guard 'x'@0 to guard 'x'@1"
    row = document["result"]["categories"]["hate"]
    assert {name: run.data.metrics[f"hate.{name}"] for name in ("difference", "low", "high", "p_adjusted")} == {
        "difference": row["difference"], "low": row["interval"]["low"], "high": row["interval"]["high"],
        "p_adjusted": row["p_adjusted"],
    }  # fmt: skip
    wanted = {
        "verdict": document["result"]["composite"]["verdict"],
        "baseline": releases[0].document["id"], "candidate": releases[1].document["id"],
        "baseline.run_id": runs[0], "candidate.run_id": runs[1], "calibration.id": story.calibration.document["id"],
        "record.id": document["id"], "kind": "comparison", "paired": "true", "instrument": "safety",
    }  # fmt: skip
    assert {name: run.data.tags.get(name) for name in wanted} == wanted
    files = {item.path for folder in ("record", "figures") for item in own_client.list_artifacts(logged.run_id, folder)}
    assert files == {"record/record.json", "figures/differences.png"}
    assert "| quantity |" in run.data.tags["mlflow.note.content"]
    digests = {tag.value for item in run.inputs.dataset_inputs for tag in item.tags if tag.key == "sha256"}
    assert digests == {item["sha256"] for item in document["inputs"]}
    again = track(written, own_store)
    assert (again.existed, again.run_id) == (True, logged.run_id)


def test_measurements_that_were_never_logged_are_named_by_their_ids_alone(
    releases: list[Written], own_store: str, own_client: Any, own_data: Path, tmp_path: Path
) -> None:
    written = run_comparison(
        [str(releases[0].path), str(releases[2].path)], allow_different_calibration=True, output=tmp_path / "c.json"
    ).written
    tags = own_client.get_run(track(written, own_store).run_id).data.tags
    assert tags["candidate"] == releases[2].document["id"]
    assert "candidate.run_id" not in tags
    assert tags["same_calibration"] == "false"


def test_a_series_has_a_step_a_release_and_other_names_behind_a_break(
    releases: list[Written], own_store: str, own_client: Any, own_data: Path, tmp_path: Path
) -> None:
    paths = [str(item.path) for item in releases]
    written = run_comparison(paths, output=tmp_path / "s.json").written
    run = own_client.get_run(track(written, own_store).run_id)
    assert run.data.tags["breaks"] == "1"
    assert run.data.tags["release.2.target"] == "guard 'x'@2"
    name = "hate"
    for segment, steps in ((0, [0, 1]), (1, [2])):
        history = own_client.get_metric_history(run.info.run_id, f"{name}.prevalence.segment-{segment}")
        rates = [written.document["result"]["points"][step]["categories"][name]["value"] for step in steps]
        assert [(point.step, point.value) for point in history] == list(zip(steps, rates, strict=True))


def test_a_run_of_a_measurement_is_a_reference_and_brings_its_decisions(
    releases: list[Written], own_store: str, own_data: Path, tmp_path: Path
) -> None:
    """As on another machine, where nothing but MLflow and the calibration is at hand."""
    runs = [track(item, own_store).run_id for item in releases[:2]]
    written = run_comparison(runs, tracking_uri=own_store, output=tmp_path / "c.json").written
    assert written.document["result"]["paired"]
    assert {item["uri"] for item in written.document["inputs"] if item["role"] in ("baseline", "candidate")} == {
        f"runs:/{run}" for run in runs
    }  # fmt: skip
    assert verify(tmp_path / "c.json", tracking_uri=own_store).identical
    paths = [str(item.path) for item in releases[:2]]
    assert run_comparison(paths, output=tmp_path / "d.json").written.document["id"] == written.document["id"]


def test_a_comparison_that_mlflow_could_not_take_is_synced_once(
    releases: list[Written], own_store: str, own_data: Path, tmp_path: Path
) -> None:
    paths = [str(item.path) for item in releases[1::-1]]
    written = run_comparison(paths, output=tmp_path / "c.json").written
    with pytest.raises(UnreachableError, match="assay sync"):
        track(written, "http://127.0.0.1:9")
    assert [item.record for item in sync(own_store).tracked] == [written.document["id"]]
    assert sync(own_store).tracked == ()
