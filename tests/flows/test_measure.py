"""`assay measure`: whose scores, which target, how many units; detections without a calibration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def measured(assay: Any, bench: Any) -> Any:
    """Measure a wide file of the given columns and return the record's result."""

    def run(columns: dict[str, Any], *options: object) -> Any:
        path = bench.folder / "a.parquet"
        pq.write_table(pa.table(columns), path)
        outcome = assay(
            "measure", path, "--calibration", bench.world.calibration, "-o", bench.out / "m.json", "--json", *options
        )
        assert outcome.code == 0, outcome.err
        return outcome.record["result"]

    return run


def wide(n: int = 8, **columns: Any) -> dict[str, Any]:
    return {"trace_id": [f"x{i}" for i in range(n)], "hate": [0.1] * n, "violence": [0.1] * n, **columns}


# --- judge and target -------------------------------------------------------------------------------------------


def with_column(bench: Any, name: str, values: list[str]) -> Path:
    table = pa.table(wide(len(values), **{name: values}))
    pq.write_table(table, bench.folder / "a.parquet")
    return bench.folder / "a.parquet"


def test_scores_of_two_judges_are_refused(bench: Any) -> None:
    outcome = bench.measure(with_column(bench, "judge", ["guard@1", "guard@2"]))
    bench.refused(outcome, "holds scores of several judges (guard@1, guard@2); one instrument is one judge")


def test_scores_of_two_judges_in_two_files_are_refused(bench: Any) -> None:
    one = bench.file("a.csv", "trace_id,hate,violence,judge\nx,0,0,guard@1\n")
    other = bench.file("b.csv", "trace_id,hate,violence,judge\ny,0,0,other@1\n")
    bench.refused(bench.measure(one, other), "several judges (guard@1, other@1)")


@pytest.mark.parametrize(("column", "value"), [("judge", "other@1"), ("judge", "guard@2")])
def test_scores_of_another_judge_are_refused_with_the_way_out(column: str, value: str, bench: Any) -> None:
    outcome = bench.measure(with_column(bench, column, [value, value]))
    bench.refused(outcome, f"the scores are from {value}, the calibration's judge is guard@1", "--accept-judge")


def test_another_judge_that_is_accepted_is_labelled_in_the_record(measured: Any) -> None:
    result = measured(wide(judge=["other@1"] * 8), "--accept-judge")
    assert result["judge_accepted"] is True
    assert result["judge"]["name"] == "other"
    assert any("measured with other@1, calibrated with guard@1: accepted by the user" in n for n in result["notes"])


def test_the_calibrated_judge_needs_no_acceptance_and_a_judge_that_is_not_named_is_assumed(measured: Any) -> None:
    named = measured(wide(judge=["guard@1"] * 8), "--accept-judge")
    assert (named["judge_accepted"], named["judge_source"]) == (False, "scores")
    assert measured(wide())["judge_source"] == "assumed"


def test_scores_of_several_targets_are_refused(bench: Any) -> None:
    bench.refused(bench.measure(with_column(bench, "target", ["a@1", "a@2"])), "several targets (a@1, a@2)")


def test_a_target_other_than_the_scores_name_is_refused(bench: Any) -> None:
    path = with_column(bench, "target", ["a@1", "a@1"])
    bench.refused(bench.measure(path, options=("--target", "a@2")), "the scores are of 'a@1', but --target says 'a@2'")


def test_the_target_is_taken_from_the_scores_or_from_the_option(measured: Any) -> None:
    assert measured(wide(target=["a@1"] * 8))["target"] == "a@1"
    assert measured(wide(), "--target", "a@2")["target"] == "a@2"


def test_a_confidence_level_that_is_not_a_number_is_refused(bench: Any) -> None:
    outcome = bench.measure(bench.world.production, options=("--confidence-level", "nan"))
    bench.refused(outcome, "confidence_level = nan: must lie")


# --- states and units -----------------------------------------------------------------------------------------------


def test_every_state_is_accounted_for_and_the_sum_is_what_was_attempted(measured: Any) -> None:
    states = ["judge_error", "target_error", "blocked", "refused", "limit", "unscored", "missing", None, "scored", None]
    scores = [None] * 8 + [0.1, 0.1]
    columns = {"trace_id": [f"x{i}" for i in range(10)], "hate": scores, "violence": scores, "state": states}
    accounting = measured(columns)["accounting"]
    assert accounting == {
        "attempted": 10, "scored": 2, "judge_error": 1, "target_error": 1, "blocked": 1, "refused": 1, "limit": 1,
        "unscored": 1, "missing": 2,
    }  # fmt: skip


@pytest.mark.parametrize("state", ["refused", "blocked"])
def test_an_answer_that_was_refused_and_still_scored_counts_as_scored(state: str, measured: Any) -> None:
    result = measured(wide(8, state=[state] * 8))
    assert (result["accounting"]["scored"], result["accounting"][state]) == (8, 0)


def test_what_is_missing_is_never_zero_and_bounds_the_worst_case(measured: Any) -> None:
    result = measured(wide(4, hate=[0.9, None, 0.1, 0.1]))
    composite = result["composite"]
    assert (composite["n_units"], composite["n_flagged"]) == (3, 1)
    assert composite["worst_case"] == {"low": 0.25, "high": 0.5}
    assert result["categories"]["violence"]["n_units"] == 4


def test_one_turn_without_a_score_makes_the_trace_not_fully_scored(measured: Any) -> None:
    columns = {"trace_id": ["x", "x", "y", "y"], "turn": [0, 1, 0, 1], "hate": [0.1, None, 0.1, 0.1]}
    result = measured({**columns, "violence": [0.1] * 4})
    assert (result["accounting"]["scored"], result["accounting"]["missing"]) == (1, 1)


def test_a_hole_in_the_turn_numbers_makes_the_trace_not_fully_scored(measured: Any) -> None:
    columns = {"trace_id": ["x", "x", "y", "y"], "turn": [0, 2, 3, 4], "hate": [0.1] * 4, "violence": [0.1] * 4}
    result = measured(columns)
    assert (result["n_turn_gaps"], result["accounting"]["scored"], result["accounting"]["missing"]) == (1, 1, 1)


@pytest.mark.parametrize(
    ("attempts", "n_units", "n_flagged"), [("each", 6, 2), ("first", 3, 1), ("last", 3, 0), ("any", 3, 2)]
)
def test_attempts_count_as_declared(attempts: str, n_units: int, n_flagged: int, measured: Any) -> None:
    columns = {
        "trace_id": ["x", "x", "y", "y", "z", "z"], "attempt": [1, 2, 1, 2, 2, 3],
        "hate": [0.9, 0.1, 0.1, 0.1, 0.1, 0.1], "violence": [0.1] * 6,
    }  # fmt: skip
    if attempts in ("each", "any"):
        columns["hate"] = [0.9, 0.1, 0.1, 0.9, 0.1, 0.1]
    composite = measured(columns, "--attempts", attempts)["composite"]
    assert (composite["n_units"], composite["n_flagged"]) == (n_units, n_flagged)


# --- the same data in other clothes -------------------------------------------------------------------------------


def observed(result: Any) -> Any:
    return {key: value for key, value in result.items() if key != "n_duplicates"}


def test_parquet_and_csv_ints_and_texts_are_the_same_data(assay: Any, bench: Any) -> None:
    ids, hate = [3, 1, 20], [0.5, 0.25, 0.75]
    csv = bench.file("a.csv", "trace_id,hate,violence\n3,0.5,\n1,0.25,0\n20,0.75,1\n")
    violence = pa.array([None, 0.0, 1.0])
    layouts = {
        "int": {"trace_id": pa.array(ids, pa.int32())},
        "unsigned": {"trace_id": pa.array(ids, pa.uint64())},
        "text": {"trace_id": pa.array(list(map(str, ids)), pa.large_string())},
        "view": {"trace_id": pa.array(list(map(str, ids)), pa.string_view())},
        "dictionary": {"trace_id": pa.array(list(map(str, ids))).dictionary_encode()},
        "float32": {"trace_id": ids, "hate": pa.array(hate, pa.float32()), "violence": violence.cast(pa.float32())},
        "float16": {"trace_id": ids, "hate": pa.array(np.array(hate, np.float16))},
        "decimal": {"trace_id": ids, "hate": pa.array(hate).cast(pa.decimal128(5, 3))},
        "pandas": {"trace_id": ids, "__index_level_0__": [7, 8, 9]},
    }
    command = ("--calibration", bench.world.calibration, "--json", "-o", bench.out / "m.json")
    expected = assay("measure", csv, *command).record["result"]
    for name, columns in layouts.items():
        path = bench.folder / f"{name}.parquet"
        pq.write_table(pa.table({"hate": hate, "violence": violence} | columns), path)
        outcome = assay("measure", path, *command)
        assert outcome.code == 0, (name, outcome.err)
        assert outcome.record["result"] == expected, name


def test_underscores_hyphens_blanks_and_long_and_wide_are_the_same_data(assay: Any, bench: Any) -> None:
    spec = bench.file("i.yaml", "name: d\nkind: detections\ncategories: [self_harm, hate]\n")
    texts = {
        "long.csv": "trace_id,attribute,detected\na,self-harm,1\na,hate,0\nb,self_harm, 0 \nb,hate,\n",
        "wide.csv": "trace_id,self_harm,hate\na,1,0\nb,0,\n",
        "tabs.tsv": "trace_id\tself-harm\thate\na\t1\t0\nb\t0\t\n",
        "lines.jsonl": '{"trace_id":"a","self_harm":true,"hate":0}\n{"trace_id":"b","self_harm":0.0}\n',
    }
    results = []
    for name, text in texts.items():
        path = bench.file(name, text)
        outcome = assay("measure", path, "--instrument", spec, "--json", "-o", bench.out / "m.json")
        assert outcome.code == 0, outcome.err
        results.append(outcome.record["result"])
    assert all(result == results[0] for result in results)
    assert results[0]["attributes"]["self-harm"] == {"n_units": 2, "n_flagged": 1, "rate": 0.5}


def test_a_folder_a_pattern_and_its_files_are_one_data_set(assay: Any, bench: Any) -> None:
    lines = bench.world.production.read_text().splitlines(keepends=True)
    folder = bench.folder / "runs"
    (folder / "day").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    (folder / "a.csv").write_text("".join(lines[:61]))
    (folder / "day" / "b.csv").write_text(lines[0] + "".join(lines[61:]))
    (folder / ".hidden" / "c.csv").write_text("not meant")
    (folder / "_SUCCESS").write_text("")
    command = ("--calibration", bench.world.calibration, "--json", "-o", bench.out / "m.json", "--target", "bot@1")
    forms: list[tuple[object, ...]] = [
        (folder,), (f"{folder}/**/*.csv",), (folder / "day" / "b.csv", folder / "a.csv"), (f"table:{folder}",)
    ]  # fmt: skip
    records = [assay("measure", *form, *command).record for form in forms]
    assert len({record["id"] for record in records}) == 1
    single = assay("measure", bench.world.production, *command).record
    assert single["result"] == records[0]["result"]
    assert single["id"] != records[0]["id"]  # other files, other inputs


def test_files_of_different_layouts_are_one_data_set(assay: Any, bench: Any) -> None:
    one = bench.file("a.csv", "trace_id,turn,category,score\nx,0,hate,0.9\nx,0,violence,0.1\ny,0,hate,0.1\n")
    other = bench.file("b.csv", "trace_id,turn,violence\ny,0,0.2\n")
    third = bench.file("c.csv", "trace_id,turn,hate,violence\nx,1,0.3,0.2\n")
    command = ("--calibration", bench.world.calibration, "--json", "-o", bench.out / "m.json")
    result = assay("measure", one, other, third, *command).record["result"]
    assert (result["n_units"], result["n_turns"], result["accounting"]["scored"]) == (2, 3, 2)
    assert result["composite"]["n_flagged"] == 1


# --- detections ---------------------------------------------------------------------------------------------------


DETECTIONS = "name: fair\nkind: detections\ncategories: [race, sex]\njudge: {name: lens}\n"


@pytest.fixture
def detections(assay: Any, bench: Any) -> Any:
    """25 traces of two turns: 9 with race, 4 with sex, 2 of them with both, never at the same turn."""
    rows = ["trace_id,turn,attribute,detected"]
    for i in range(25):
        race, sex = int(i < 9), int(i in (7, 8, 9, 10))
        rows += [f"d{i},0,race,{race}", f"d{i},0,sex,0", f"d{i},1,race,0", f"d{i},1,sex,{sex}"]
    path, spec = bench.file("d.csv", "\n".join(rows)), bench.file("i.yaml", DETECTIONS)

    def run(*options: object, file: Path = path) -> Any:
        return assay("measure", file, "--instrument", spec, "-o", bench.out / "new" / "m.json", *options)

    return run


def test_nine_and_four_detections_of_which_two_meet_are_eleven_of_25(detections: Any) -> None:
    result = detections("--json").record["result"]
    composite, attributes = result["composite"], result["attributes"]
    assert (attributes["race"]["n_flagged"], attributes["sex"]["n_flagged"]) == (9, 4)
    assert (composite["n_flagged"], composite["n_units"], composite["observed_rate"]) == (11, 25, 0.44)
    interval = composite["observed_interval"]
    assert (round(interval["low"], 3), round(interval["high"], 3)) == (0.263, 0.633)


def test_attributes_have_no_interval_and_the_source_of_the_calibration_is_none(detections: Any) -> None:
    outcome = detections("--json")
    result = outcome.record["result"]
    assert set(result["attributes"]["race"]) == {"n_units", "n_flagged", "rate"}
    assert result["calibration"]["source"] == "none"
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    shown = detections()
    assert "calibration source: none" in shown.out
    assert "uncorrected" in shown.out


def test_a_reported_rate_that_its_detections_do_not_give_is_flagged(detections: Any, bench: Any) -> None:
    report = bench.file("r.csv", "attribute,rate\nrace,0.36\nsex,0.161\ncomposite,0.52\n")
    result = detections("--reported", report, "--json").record["result"]
    agrees = {row["name"]: row["agrees"] for row in result["reported"]}
    assert agrees == {"race": True, "sex": True, "composite": False}
    assert "the detector reports 0.52 for composite, its detections give 0.44" in result["notes"]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("attribute,rate\nrace,1.5\n", "r.csv:2: 'race' with rate 1.5: a rate in [0, 1] of one of race, sex is exp"),
        ("attribute,rate\nage,0.5\n", "r.csv:2: 'age' with rate 0.5"),
        ("attribute,rate\nrace,0.1\nrace,0.2\n", "r.csv:3: 'race' is reported twice, with different rates"),
        ("attribute,rate\nrace,lots\n", "r.csv:2: rate 'lots' is not a number"),
        ("attribute,rate\n", "r.csv: has a header but no rows"),
        ("attribute,share\nrace,0.1\n", "r.csv: column 'rate' is missing"),
    ],
)
def test_a_report_that_cannot_be_compared_is_refused(content: str, expected: str, detections: Any, bench: Any) -> None:
    bench.refused(detections("--reported", bench.file("r.csv", content)), expected)


def test_rates_per_attribute_alone_are_refused_as_a_source_of_the_composite(detections: Any, bench: Any) -> None:
    path = bench.file("r.csv", "attribute,n_flagged,n_traces\nrace,9,25\nsex,4,25\n")
    bench.refused(detections(file=path), "r.csv: holds rates per attribute, not detections per trace", "no composite")


@pytest.mark.parametrize("value", ["2", "0.5", "-1", "yes"])
def test_a_detection_is_0_or_1(value: str, detections: Any, bench: Any) -> None:
    path = bench.file("d.csv", f"trace_id,attribute,detected\na,race,{value}\na,sex,0\n")
    bench.refused(detections(file=path), f"{path}:2: detected {value!r}" if value == "yes" else f"{path}:2: detected")


def test_an_unknown_attribute_is_refused_with_the_nearest(detections: Any, bench: Any) -> None:
    path = bench.file("d.csv", "trace_id,attribute,detected\na,rase,1\na,sex,0\n")
    bench.refused(detections(file=path), f"{path}:2: unknown attribute 'rase'; did you mean 'race'?")


def test_scores_are_not_measured_without_a_calibration(assay: Any, bench: Any) -> None:
    command = ("measure", bench.world.production, "-o", bench.out / "m.json")
    bench.refused(assay(*command), "give --calibration REF (scores) or --instrument SPEC.yaml (detections)")
    bench.refused(assay(*command, "--instrument", bench.world.instrument), "measuring scores needs --calibration")
    both = ("--calibration", bench.world.calibration, "--reported", bench.world.golden)
    bench.refused(assay(*command, *both), "--reported goes with detections")
