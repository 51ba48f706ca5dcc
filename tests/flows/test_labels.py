"""`assay measure --labels`: a labelled part of production, from file to record, to words, and back by `verify`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flows.pipelines.measurement import run_measurement
from flows.pipelines.verification import verify
from tasks.reporting.markdown import measurement_markdown
from tasks.tracking import facts
from tests.flows.conftest import Assay, Workbench, World, labels, scores_text


def sample(n: int, prefix: str = "p") -> str:
    rows = [f"{prefix}{i},{name},{label}" for i in range(n) for name, label in labels(i).items()]
    return "\n".join(["trace_id,category,label", *rows, ""])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("labels")
    made = {"production": folder / "production.csv", "labels": folder / "labels.csv"}
    made["production"].write_text(scores_text(200, prefix="p"))
    made["labels"].write_text(sample(80))
    return made


@pytest.fixture(scope="module")
def document(world: World, files: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Any:
    output = tmp_path_factory.mktemp("measured") / "m.json"
    return run_measurement(
        [str(files["production"])], calibration=str(world.calibration), labels=[str(files["labels"])], output=output
    ).document


def test_labels_are_an_input_and_every_quantity_has_its_choice(document: Any) -> None:
    assert sorted(item["role"] for item in document["inputs"]) == ["calibration", "labels", "scores"]
    result = document["result"]
    assert result["labels"]["n_traces"] == 80
    for row in (result["composite"], *result["categories"].values()):
        assert row["transport"]["choice"] in ("ppi", "corrected")
        assert row["transport"]["prediction_powered"]["n_labelled"] == 80
        assert row["prevalence"]["value"] is not None


def test_a_record_with_labels_verifies_and_a_changed_label_is_found(
    world: World, files: dict[str, Path], tmp_path: Path
) -> None:
    labels_file = tmp_path / "own.csv"
    labels_file.write_text(sample(80))
    record = tmp_path / "m.json"
    run_measurement(
        [str(files["production"])], calibration=str(world.calibration), labels=[str(labels_file)], output=record
    )
    assert verify(record).identical
    labels_file.write_text(sample(80).replace("p0,hate,1", "p0,hate,0"))
    with pytest.raises(Exception, match="has changed since the record was made"):
        verify(record)


def test_labels_in_another_order_and_form_give_the_same_figures(
    world: World, files: dict[str, Path], document: Any, tmp_path: Path
) -> None:
    wide = tmp_path / "wide.csv"
    rows = [f"p{i},{labels(i)['violence']},{labels(i)['hate']}" for i in reversed(range(80))]
    wide.write_text("\n".join(["trace_id,violence,hate", *rows, ""]))
    again = run_measurement(
        [str(files["production"])], calibration=str(world.calibration), labels=[str(wide)], output=tmp_path / "m.json"
    ).document
    assert again["result"] == document["result"]


def test_scattered_traces_give_the_same_transport(
    world: World, files: dict[str, Path], document: Any, tmp_path: Path
) -> None:
    head, *rows = files["production"].read_text().splitlines()
    scattered = tmp_path / "scattered.csv"
    scattered.write_text("\n".join([head, *rows[::2], *rows[1::2], ""]))
    found = run_measurement(
        [str(scattered)], calibration=str(world.calibration), labels=[str(files["labels"])], output=tmp_path / "m.json"
    ).document["result"]
    assert found["composite"]["transport"] == document["result"]["composite"]["transport"]


def test_without_labels_a_record_says_nothing_of_them(world: World) -> None:
    result = json.loads(world.measurement.read_text())["result"]
    assert "labels" not in result
    assert "transport" not in result["composite"]
    assert "allow_unmatched" not in json.loads(world.measurement.read_text())["spec"]


def test_the_terminal_says_which_rate_to_read_and_why(
    assay: Assay, world: World, files: dict[str, Path], tmp_path: Path
) -> None:
    done = assay(
        "measure", files["production"], "--calibration", world.calibration, "--labels", files["labels"],
        "-o", tmp_path / "m.json", "--tracking-uri", "none",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "80 traces of production labelled" in done.out
    assert "composite: read the prediction-powered rate" in done.out


def test_mlflow_and_markdown_have_the_rate_and_the_choice(document: Any) -> None:
    powered = document["result"]["composite"]["transport"]["prediction_powered"]
    metrics = facts.measurement_metrics(document).metrics
    assert metrics["composite.prediction_powered_high"] == powered["high"]
    assert facts.tags(document)["transport.choice"] == "ppi"
    assert "read the prediction\\-powered rate" in measurement_markdown(document)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (sample(10, prefix="x"), "10 labelled traces of 10 not in production: 'x0', 'x1'"),
        (sample(10) + "elsewhere,hate,1\n", "1 labelled trace of 11 not in production: 'elsewhere'"),
        (sample(10).replace(",1", ",2"), "is not a label"),
        (sample(10).replace("hate", "fraud"), "unknown category 'fraud'"),
        ("trace_id,hate\np0,1\n", "category 'violence' has no column"),
        ("trace_id,category,label\np0,hate,1\np0,hate,0\n", "has another label for hate"),
        ("trace_id,category,label\n", "no rows"),
        ("", "is empty"),
    ],
)
def test_bad_labels_are_refused_and_nothing_is_written(bench: Workbench, content: str, expected: str) -> None:
    path = bench.file("labels.csv", content)
    bench.refused(bench.measure(bench.world.production, options=("--labels", path)), expected)


def test_labels_of_other_traces_are_left_out_on_demand(bench: Workbench) -> None:
    path = bench.file("labels.csv", sample(30) + "elsewhere,hate,1\n")
    done = bench.measure(bench.world.production, options=("--labels", path, "--allow-unmatched", "--json"))
    assert done.code == 0, done.err
    assert done.record["result"]["labels"]["n_unmatched"] == 1
    assert done.record["spec"]["allow_unmatched"] is True


def test_labels_need_a_calibration_and_unmatched_ones_need_labels(assay: Assay, world: World, bench: Workbench) -> None:
    path = bench.file("labels.csv", sample(10))
    alone = assay("measure", world.production, "--instrument", world.instrument, "--labels", path)
    assert (alone.code, "--labels goes with --calibration" in alone.err) == (2, True)
    nothing = bench.measure(world.production, options=("--allow-unmatched",))
    assert (nothing.code, "goes with --labels" in nothing.err) == (2, True)


def test_the_labels_are_no_place_for_the_record(assay: Assay, world: World, bench: Workbench) -> None:
    path = bench.file("labels.csv", sample(10))
    done = assay("measure", world.production, "--calibration", world.calibration, "--labels", path, "-o", path)
    assert (done.code, "is an input" in done.err) == (2, True)
