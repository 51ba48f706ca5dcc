"""Simulations in a real MLflow on SQLite, and how a certificate is found and told there."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import UnreachableError
from flows.pipelines.measurement import run_measurement
from flows.pipelines.simulation import run_simulation
from flows.pipelines.verification import verify
from tasks.archive import Written, find_calibration
from tasks.certificates import find_certificate, find_golden_maxima
from tasks.settings import settings
from tasks.storage import file_digest
from tasks.tracking import Tracked, sync, track
from tests.tasks.tracking.conftest import Story

SMALL: dict[str, Any] = {"replications": 4, "grid": {"n_units": [60], "prevalences": [0.1, 0.3]}}


@pytest.fixture(scope="module")
def own_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    return f"sqlite:///{tmp_path_factory.mktemp('own') / 'mlflow.db'}"


@pytest.fixture(scope="module")
def logged(story: Story, own_store: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The story's calibration with two certificates and a stage, logged; the records folder is nobody's own."""
    folder = tmp_path_factory.mktemp("logged")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_DATA_DIR", str(folder / "data"))
        settings.cache_clear()
        calibration = track(story.calibration, own_store, register=True)
        written = [
            run_simulation(
                calibration=str(story.calibration.path), seed=seed, output=folder / f"certificate-{seed}.json", **SMALL
            )
            for seed in (1, 2)
        ]
        stage = run_simulation(stage=1, grid={"n_units": [10, 20], "rates": [0.1]}, output=folder / "stage.json")
        yield {
            "calibration": calibration, "written": written, "stage": stage,
            "certificates": [track(item, own_store) for item in written], "logged stage": track(stage, own_store),
        }  # fmt: skip
    settings.cache_clear()


@pytest.fixture
def own_client(own_store: str, logged: dict[str, Any]) -> Any:
    from tasks.tracking.connection import connected

    with connected(own_store) as made:
        return made


def test_a_certificate_is_a_run_with_metrics_tags_figures_data_sets_and_record(
    logged: dict[str, Any], own_client: Any, story: Story
) -> None:
    document = logged["written"][0].document
    run = own_client.get_run(logged["certificates"][0].run_id)
    result = document["result"]
    assert own_client.get_experiment(run.info.experiment_id).name == "assay/simulation"
    assert run.info.run_name == f"certificate of safety, calibration {story.calibration.document['id'][:8]}"
    assert run.info.status == "FINISHED"
    tags = ("record.id", "kind", "stage", "calibration.id", "instrument")
    assert [run.data.tags[name] for name in tags] == [
        document["id"], "certificate", "certificate", story.calibration.document["id"], "safety",
    ]  # fmt: skip
    assert run.data.metrics["coverage"] == result["coverage"]
    assert run.data.metrics["lang_reiczigel.minimum"] == result["methods"]["lang_reiczigel"]["minimum"]
    assert run.data.params["spec.replications"] == "4"
    digests = {tag.value for item in run.inputs.dataset_inputs for tag in item.tags if tag.key == "sha256"}
    assert digests == {item["sha256"] for item in document["inputs"]}
    names = {
        item.path for folder in ("record", "figures") for item in own_client.list_artifacts(run.info.run_id, folder)
    }
    assert names == {
        "record/record.json", "figures/coverage.png", "figures/width.png", "figures/optimism.png",
    }  # fmt: skip
    assert "| coverage |" in run.data.tags["mlflow.note.content"]


def test_a_stage_without_a_calibration_is_no_certificate(logged: dict[str, Any], own_client: Any) -> None:
    run = own_client.get_run(logged["logged stage"].run_id)
    assert run.info.run_name == "simulate stage 1"
    assert run.data.tags["stage"] == "1"
    assert not {"kind", "calibration.id"} & set(run.data.tags)


def test_the_same_simulation_logged_twice_makes_one_run(logged: dict[str, Any], own_store: str) -> None:
    again = track(logged["stage"], own_store)
    assert (again.existed, again.run_id) == (True, logged["logged stage"].run_id)


def test_the_calibrations_run_and_model_version_say_the_newest_certificate(
    logged: dict[str, Any], own_client: Any
) -> None:
    newest = logged["written"][1].document
    tags = {
        "certificate.id": newest["id"],
        "certificate.coverage": f"{newest['result']['coverage']:.4f}",
        "certificate.sufficient": str(newest["result"]["sufficient"]).lower(),
    }
    run = own_client.get_run(logged["calibration"].run_id)
    version = own_client.get_model_version("safety", "1")
    for found in (run.data.tags, version.tags):
        assert {name: found[name] for name in tags} == tags


def test_a_measurement_by_alias_finds_the_newest_certificate_in_mlflow_and_verifies(
    logged: dict[str, Any], story: Story, own_store: str, own_data: Path, tmp_path: Path, own_client: Any
) -> None:
    written = run_measurement(
        [str(story.folder / "release-1.csv")], calibration="models:/safety/1", tracking_uri=own_store,
        output=tmp_path / "m.json",
    )  # fmt: skip
    newest = logged["written"][1].document["id"]
    assert written.document["result"]["calibration"]["certificate"]["id"] == newest
    (reference,) = (item for item in written.document["inputs"] if item["role"] == "certificate")
    assert (reference["uri"], reference["sha256"]) == (f"runs:/{logged['certificates'][1].run_id}", newest)
    assert verify(written.path).identical
    shutil.rmtree(own_data / "records")  # as on another machine
    assert verify(written.path, tracking_uri=own_store).identical
    tracked = track(written, own_store)
    run = own_client.get_run(tracked.run_id)
    assert run.data.tags["certificate.id"] == newest
    assert f"Certificate {newest[:12]}" in run.data.tags["mlflow.note.content"]


def test_a_run_that_was_not_finished_is_no_certificate_to_be_found(
    logged: dict[str, Any], story: Story, own_store: str, own_data: Path, own_client: Any
) -> None:
    found = find_calibration("models:/safety/1", own_store)
    own_client.update_run(logged["certificates"][1].run_id, status="RUNNING")
    try:
        certificate = find_certificate(found, None, own_store)
    finally:
        own_client.update_run(logged["certificates"][1].run_id, status="FINISHED")
    assert certificate is not None
    assert certificate.document["id"] == logged["written"][0].document["id"]


def test_a_calibration_from_a_file_is_not_looked_up_in_mlflow(
    logged: dict[str, Any], story: Story, own_store: str, own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.tracking.references.connected", lambda _: pytest.fail("MLflow was asked"))
    assert find_certificate(find_calibration(str(story.calibration.path)), None, own_store) is None


DOWN = "http://127.0.0.1:9"


def test_an_outage_is_no_reason_to_measure_without_the_certificate(
    logged: dict[str, Any], own_store: str, own_data: Path
) -> None:
    with pytest.raises(UnreachableError):
        find_certificate(find_calibration("models:/safety/1", own_store), None, DOWN)


def test_an_outage_is_no_reason_to_say_that_maxima_are_missing(story: Story, own_data: Path, tmp_path: Path) -> None:
    moved = tmp_path / "alone.json"
    shutil.copy(story.calibration.path, moved)
    with pytest.raises(UnreachableError):
        find_golden_maxima(find_calibration(str(moved)), DOWN)


def test_golden_maxima_that_are_not_beside_the_calibration_come_from_mlflow(
    logged: dict[str, Any], story: Story, own_store: str, own_data: Path, tmp_path: Path
) -> None:
    moved = tmp_path / "alone.json"
    shutil.copy(story.calibration.path, moved)
    file = find_golden_maxima(find_calibration(str(moved)), own_store)
    assert file is not None
    assert file_digest(file.path) == story.calibration.document["outputs"][0]["sha256"]
    certified = run_simulation(
        calibration=str(moved), seed=1, output=tmp_path / "c.json", tracking_uri=own_store, **SMALL
    )
    assert certified.document["id"] == logged["written"][0].document["id"]


def test_a_certificate_that_mlflow_could_not_take_is_synced_once(
    logged: dict[str, Any], own_store: str, own_data: Path, own_client: Any
) -> None:
    stage: Written = run_simulation(stage=1, grid={"n_units": [12], "rates": [0.1]})
    with pytest.raises(UnreachableError, match="assay sync"):
        track(stage, "http://127.0.0.1:9")
    found: tuple[Tracked, ...] = sync(own_store).tracked
    assert [item.record for item in found] == [stage.document["id"]]
    assert sync(own_store).tracked == ()
