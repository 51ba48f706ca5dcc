"""Against a real MLflow on SQLite."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from core.errors import InputError, UnreachableError
from core.instrument.spec import DeclaredRates, DeclaredSpec, JudgeIdentity
from flows.pipelines.calibration import run_declared
from flows.pipelines.measurement import run_measurement
from flows.pipelines.verification import verify
from tasks.archive import find_record
from tasks.tracking import Promotion, Tracked, sync, track, tracking_uri
from tests.tasks.tracking.conftest import CATEGORIES, Story


def promotion(because: str = "a test", asked: str = "2126-01-01T00:00:00Z") -> Promotion:
    return Promotion(by="ada", because=because, asked=asked)


@pytest.fixture(scope="module")
def tracked(story: Story, store: str) -> dict[str, Tracked]:
    """The story, logged in its order: the first calibration is the champion, the later one only a challenger."""
    return {
        "calibration": track(story.calibration, store, register=True, promotion=promotion("first of its kind")),
        "first": track(story.first, store),
        "second": track(story.second, store),
        "later": track(story.later, store, register=True),
    }


def runs_with(client: Any, experiment: str, conditions: str) -> list[Any]:
    found = client.get_experiment_by_name(experiment)
    return list(client.search_runs([found.experiment_id], filter_string=conditions))


def model_folder(client: Any, version: Any) -> Path:
    model = client.get_logged_model(version.source.removeprefix("models:/"))
    return Path(model.artifact_location.removeprefix("file://"))


def test_a_calibration_is_a_run_with_parameters_metrics_tags_inputs_figures_and_record(
    tracked: dict[str, Tracked], client: Any, story: Story
) -> None:
    run = client.get_run(tracked["calibration"].run_id)
    assert run.info.run_name == "calibrate safety with lexical@1"
    assert run.info.status == "FINISHED"
    assert run.data.params["spec.detection_floor"] == "0.2"
    assert run.data.metrics["hate.threshold"] == story.calibration.document["result"]["categories"]["hate"]["threshold"]
    assert run.data.tags["record.id"] == run.data.tags["calibration.id"] == story.calibration.document["id"]
    assert run.data.tags["golden.sha256"] == story.calibration.document["result"]["golden"]["sha256"]
    assert run.data.tags["status"] == story.calibration.document["result"]["composite"]["status"]
    digests = {tag.value for item in run.inputs.dataset_inputs for tag in item.tags if tag.key == "sha256"}
    assert digests == {item["sha256"] for item in story.calibration.document["inputs"]}
    names = {item.path for folder in ("record", "figures") for item in client.list_artifacts(run.info.run_id, folder)}
    assert names == {
        "record/record.json", "record/calibration-20.golden_maxima.parquet",
        "figures/roc.png", "figures/scores.png", "figures/slices-topic.png",
    }  # fmt: skip


def test_the_same_record_logged_twice_makes_one_run_and_one_version(
    tracked: dict[str, Tracked], client: Any, story: Story, store: str
) -> None:
    again = track(story.calibration, store, register=True)
    assert again.existed
    assert again.run_id == tracked["calibration"].run_id
    assert again.registered is not None
    assert again.registered.version == "1"
    assert len(client.search_model_versions("name = 'safety'")) == 2


def test_an_upload_that_was_interrupted_is_completed_without_a_second_run_or_figure(
    tracked: dict[str, Tracked], client: Any, story: Story, store: str
) -> None:
    run_id = tracked["first"].run_id
    client.update_run(run_id, status="RUNNING")
    again = track(story.first, store)
    assert (again.run_id, again.existed) == (run_id, False)
    assert client.get_run(run_id).info.status == "FINISHED"
    assert len(client.get_metric_history(run_id, "composite.observed_rate")) == 1
    assert len(runs_with(client, "assay/measurement", f"tags.`mlflow.parentRunId` = '{run_id}'")) == len(CATEGORIES)


def test_a_measurement_is_a_run_a_release_with_a_child_a_category_linked_to_its_calibration(
    tracked: dict[str, Tracked], client: Any, story: Story
) -> None:
    run = client.get_run(tracked["first"].run_id)
    result = story.first.document["result"]
    assert run.data.tags["target"] == "guard 'x'@1.1"
    assert run.data.tags["calibration.id"] == story.calibration.document["id"]
    assert run.data.tags["calibration.run_id"] == tracked["calibration"].run_id
    assert run.data.metrics["composite.observed_rate"] == result["composite"]["observed_rate"]
    children = runs_with(client, "assay/measurement", f"tags.`mlflow.parentRunId` = '{run.info.run_id}'")
    assert {child.data.tags["category"] for child in children} == set(CATEGORIES)
    hate = next(child for child in children if child.data.tags["category"] == "hate")
    assert hate.data.metrics["observed_rate"] == result["categories"]["hate"]["observed_rate"]


def test_the_timeline_holds_one_step_a_release_in_order(tracked: dict[str, Tracked], client: Any, story: Story) -> None:
    (timeline,) = runs_with(client, "assay/measurement", "tags.kind = 'timeline'")
    history = client.get_metric_history(timeline.info.run_id, "composite.observed_rate")
    expected = [item.document["result"]["composite"]["observed_rate"] for item in (story.first, story.second)]
    assert [(point.step, point.value) for point in sorted(history, key=lambda point: point.step)] == [
        (0, expected[0]),
        (1, expected[1]),
    ]
    assert timeline.data.tags["release.1"] == "guard 'x'@1.2"


def test_a_release_measured_with_another_calibration_keeps_its_number_on_a_timeline_of_its_own(
    tracked: dict[str, Tracked], client: Any, story: Story, store: str, tmp_path: Path
) -> None:
    written = run_measurement(
        [str(story.folder / "release-2.csv")],
        calibration=str(story.later.path), target="guard 'x'@1.2", output=tmp_path / "again.json",
    )  # fmt: skip
    run = client.get_run(track(written, store).run_id)
    assert run.data.tags["release.ordinal"] == "1"
    timelines = runs_with(client, "assay/measurement", "tags.kind = 'timeline'")
    assert len({timeline.data.tags["calibration.id"] for timeline in timelines}) == len(timelines) == 2


def test_each_new_version_is_the_challenger_and_only_a_promotion_makes_a_champion(
    tracked: dict[str, Tracked], client: Any
) -> None:
    aliases = client.get_registered_model("safety").aliases
    assert {alias: str(version) for alias, version in aliases.items()} == {"champion": "1", "challenger": "2"}
    tags = client.get_model_version("safety", "1").tags
    assert (tags["promoted_by"], tags["promoted_because"], tags["promoted_over"]) == (
        "ada", "first of its kind", "none",
    )  # fmt: skip
    assert "promoted_by" not in client.get_model_version("safety", "2").tags


def test_a_promotion_asked_for_before_the_current_one_does_not_undo_it(
    tracked: dict[str, Tracked], client: Any, story: Story, store: str
) -> None:
    late = track(story.later, store, register=True, promotion=promotion(asked="2020-01-01T00:00:00Z"))
    assert late.registered is not None
    assert not late.registered.champion
    assert "not promoted: version 1" in late.note
    assert str(client.get_model_version_by_alias("safety", "champion").version) == "1"


def test_the_registered_model_decides_as_the_measurement_did(
    tracked: dict[str, Tracked], story: Story, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    turns = pd.read_csv(story.folder / "release-1.csv")
    mlflow.set_tracking_uri(store)
    try:
        model = mlflow.pyfunc.load_model("models:/safety@champion")
        decided = model.predict(turns).set_index("trace_id")
    finally:
        mlflow.set_tracking_uri(None)  # type: ignore[arg-type]
    path = story.first.path.with_name(story.first.document["outputs"][0]["uri"])
    recorded = pq.read_table(path).to_pandas().set_index("trace_id").loc[decided.index]
    for bit, name in enumerate(story.first.document["result"]["composite_categories"]):
        flagged = (recorded["flag_mask"].to_numpy() >> bit & 1).astype(bool)
        missing = (recorded["missing_mask"].to_numpy() >> bit & 1).astype(bool) & ~flagged
        assert decided[name].isna().tolist() == missing.tolist()
        assert decided[name].fillna(value=False).tolist() == flagged.tolist()
    assert decided[list(CATEGORIES)].isna().to_numpy().any(), "the data must try what is missing"
    any_flag, any_missing = recorded["flag_mask"].to_numpy() != 0, recorded["missing_mask"].to_numpy() != 0
    assert decided["composite"].isna().tolist() == (any_missing & ~any_flag).tolist()
    assert decided["composite"].fillna(value=False).tolist() == any_flag.tolist()


def test_the_registered_model_has_a_signature_an_example_and_no_pickle(
    tracked: dict[str, Tracked], client: Any, store: str, tmp_path: Path
) -> None:
    version = client.get_model_version_by_alias("safety", "champion")
    folder = model_folder(client, version)
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"MLmodel", "pyfunc_instrument.py", "calibration.json", "input_example.json"} <= names
    assert not [name for name in names if name.endswith((".pkl", ".pickle"))]
    assert '"name": "composite"' in (folder / "MLmodel").read_text()


@pytest.mark.parametrize("form", ["alias", "version", "run", "bare run"])
def test_a_reference_leads_to_the_record_with_the_alias_resolved(
    form: str, tracked: dict[str, Tracked], story: Story, store: str, own_data: Path
) -> None:
    run_id = tracked["calibration"].run_id
    text, resolved = {
        "alias": ("models:/safety@champion", "models:/safety/1"),
        "version": ("models:/safety/1", "models:/safety/1"),
        "run": (f"runs:/{run_id}", f"runs:/{run_id}"),
        "bare run": (run_id, f"runs:/{run_id}"),
    }[form]
    path, uri = find_record(text, store)
    assert uri == resolved
    assert path == own_data / "records" / f"{story.calibration.document['id']}.json"
    assert verify(path).identical


def test_a_measurement_by_alias_names_the_version_and_verifies_after_the_alias_has_moved(
    tracked: dict[str, Tracked], client: Any, story: Story, store: str, own_data: Path, tmp_path: Path
) -> None:
    written = run_measurement(
        [str(story.folder / "release-1.csv")],
        calibration="models:/safety@champion", tracking_uri=store, output=tmp_path / "m.json",
    )  # fmt: skip
    (reference,) = (item for item in written.document["inputs"] if item["role"] == "calibration")
    assert reference["uri"] == "models:/safety/1"
    assert reference["sha256"] == story.calibration.document["id"]
    client.set_registered_model_alias("safety", "champion", "2")
    try:
        assert verify(written.path).identical
        shutil.rmtree(own_data / "records")  # as on another machine
        assert verify(written.path, tracking_uri=store).identical
    finally:
        client.set_registered_model_alias("safety", "champion", "1")


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("models:/safety@nobody", "leads nowhere"),
        ("models:/nothing/1", "leads nowhere"),
        ("runs:/" + "0" * 32, "leads nowhere"),
        ("models:/safety", "write models:/NAME@ALIAS"),
    ],
)
def test_a_reference_that_leads_nowhere_says_so(
    reference: str, says: str, tracked: dict[str, Tracked], store: str
) -> None:
    with pytest.raises(InputError, match=says):
        find_record(reference, store)


def test_a_reference_without_tracking_says_what_is_missing() -> None:
    with pytest.raises(InputError, match="tracking is switched off"):
        find_record("models:/safety@champion", "none")


def test_a_declared_instrument_is_registered_without_figures(client: Any, store: str, tmp_path: Path) -> None:
    rates = DeclaredRates(
        sensitivity=0.9, n_positive=100, specificity=0.9, n_negative=100, source="card", threshold=0.5
    )
    spec = DeclaredSpec(name="declared one", judge=JudgeIdentity(name="v", version="1"), categories={"hate": rates})
    found = track(run_declared(spec, output=tmp_path / "d.json"), store, register=True)
    assert found.registered is not None
    assert found.registered.uri == "models:/declared one/1"
    assert [item.path for item in client.list_artifacts(found.run_id)] == ["record"]


def test_a_name_that_mlflow_refuses_is_tracked_without_registering(store: str, tmp_path: Path) -> None:
    rates = DeclaredRates(sensitivity=0.9, n_positive=9, specificity=0.9, n_negative=9, source="card", threshold=0.5)
    spec = DeclaredSpec(name="team/safety", judge=JudgeIdentity(), categories={"hate": rates})
    found = track(run_declared(spec, output=tmp_path / "d.json"), store, register=True)
    assert found.registered is None
    assert "not registered" in found.note


def test_what_cannot_be_uploaded_is_kept_and_synced_once(
    tracked: dict[str, Tracked], client: Any, story: Story, store: str, own_data: Path, tmp_path: Path
) -> None:
    rates = DeclaredRates(sensitivity=0.9, n_positive=9, specificity=0.8, n_negative=9, source="card", threshold=0.5)
    spec = DeclaredSpec(name="kept", judge=JudgeIdentity(), categories={"hate": rates})
    written = run_declared(spec, output=tmp_path / "d.json")
    with pytest.raises(UnreachableError, match=r"cannot be reached(?s:.*)d\.json(?s:.*)assay sync"):
        track(written, "http://user:secret@127.0.0.1:9", register=True)
    (note,) = (own_data / "pending").glob("*.json")
    assert note.name.startswith(written.document["id"])
    assert "secret" not in note.read_text()
    written.path.write_text("{}")  # overwritten by the next command: the note holds the record
    assert sync().failed[0][0] == note
    found = sync(store)
    assert [item.record for item in found.tracked] == [written.document["id"]]
    assert not list((own_data / "pending").glob("*"))
    assert sync(store).tracked == ()
    assert len(runs_with(client, "assay/calibration", "tags.instrument = 'kept'")) == 1


def test_a_note_that_was_altered_is_told_and_left(own_data: Path) -> None:
    (own_data / "pending").mkdir(parents=True)
    (own_data / "pending" / "x.json").write_text("not json")
    found = sync("sqlite:///never-opened.db")
    assert "not a note of assay" in found.failed[0][1]


def test_a_database_that_is_none_is_unreachable_in_one_line(story: Story, own_data: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"this is no database" * 100)
    with pytest.raises(UnreachableError) as told:
        track(story.first, f"sqlite:///{tmp_path / 'broken.db'}")
    assert len(str(told.value).splitlines()) == 3


def test_a_server_that_hangs_is_given_up_in_seconds(
    story: Story, own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.tracking.connection.PROBE_SECONDS", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        for address in (f"http://127.0.0.1:{port}", "postgresql://ada:secret@127.0.0.1:9/x"):
            with pytest.raises(UnreachableError, match=r"cannot be reached: (no answer in time|connection refused)"):
                track(story.first, address)


def test_the_option_precedes_the_environment_and_none_switches_off(
    own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tasks.settings import settings

    assert tracking_uri("http://x") == "http://x"
    assert tracking_uri("none") is None
    assert tracking_uri("sqlite:///x.db") == f"sqlite:///{Path.cwd() / 'x.db'}"
    monkeypatch.delenv("ASSAY_TRACKING_URI")
    settings.cache_clear()
    assert tracking_uri() == f"sqlite:///{own_data.resolve() / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://mlflow")
    settings.cache_clear()
    assert tracking_uri() == "http://mlflow"
    monkeypatch.setenv("ASSAY_TRACKING_URI", "http://ours")
    settings.cache_clear()
    assert tracking_uri() == "http://ours"


def test_nothing_is_written_where_a_command_happens_to_run(
    tracked: dict[str, Tracked], story: Story, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    track(story.second, store)
    assert list(tmp_path.iterdir()) == []
    assert "MLFLOW_TRACKING_URI" not in os.environ


@pytest.mark.parametrize("command", ["['calibrate', '--help']", "['sync', '--help']", "['check', 'golden.csv']"])
def test_help_and_check_do_not_import_mlflow(command: str, story: Story) -> None:
    code = (
        "import sys; from flows.cli import main\n"
        f"try: main({command})\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "sys.exit('mlflow' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=story.folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_model_is_json_that_says_both_kinds_of_traces(
    tracked: dict[str, Tracked], client: Any, store: str
) -> None:
    version = client.get_model_version("safety", "1")
    folder = model_folder(client, version)
    example = json.loads((folder / "input_example.json").read_text())
    assert example["columns"][:2] == ["trace_id", "turn"]
    assert len(np.unique([row[0] for row in example["data"]])) == 2
