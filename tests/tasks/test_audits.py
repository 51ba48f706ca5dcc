"""Tables of predictions and outputs from files: formats, several files, and every problem at once."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.spec import AuditSpec, ColumnNames, Positives
from tasks.audits import load_outputs, load_predictions
from tasks.storage import InputFile

SPEC = AuditSpec(groups=("sex",), positive=Positives(y_pred=1))


def file(path: Path) -> InputFile:
    return InputFile(path=path, name=path.name)


def saved(folder: Path, name: str, text: str) -> InputFile:
    (folder / name).write_text(text, encoding="utf-8")
    return file(folder / name)


def problems(files: list[InputFile], spec: AuditSpec | OutputsSpec = SPEC) -> list[str]:
    load: Any = load_predictions if isinstance(spec, AuditSpec) else load_outputs
    with pytest.raises(InputError) as error:
        load(files, spec)
    return [str(problem) for problem in error.value.problems]


# --- predictions -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"sex": ["f", "m", None], "y_pred": [1, 0, 1]}),
        pd.DataFrame({"sex": ["f", "m", None], "y_pred": [1.0, 0.0, 1.0]}),
        pd.DataFrame({"sex": ["f", "m", None], "y_pred": [True, False, True]}),
        pd.DataFrame({"sex": pd.Categorical(["f", "m", None]), "y_pred": pd.array([1, 0, 1], "Int64")}),
        pd.DataFrame({"sex": [" f", "m ", ""], "y_pred": ["1", "0", " 1"]}),
    ],
    ids=["integers", "floats", "booleans", "nullable", "text"],
)
def test_columns_of_any_type_mean_the_same(frame: pd.DataFrame, tmp_path: Path) -> None:
    frame.to_parquet(tmp_path / "p.parquet")
    table = load_predictions([file(tmp_path / "p.parquet")], SPEC).table
    assert table.column("sex").to_pylist() == ["f", "m", None]
    assert [str(value).lower() in ("1", "true") for value in table.column("y_pred").to_pylist()] == [True, False, True]


def test_only_the_columns_of_the_audit_are_read_and_each_file_is_an_input(tmp_path: Path) -> None:
    first = saved(tmp_path, "a.csv", "sex,y_pred,diary\nf,1,long\n")
    second = saved(tmp_path, "b.jsonl", '{"y_pred": 0, "sex": "m"}\n{"y_pred": 1, "sex": null}\n')
    loaded = load_predictions([first, second], SPEC)
    assert loaded.table.column_names == ["sex", "y_pred"]
    assert loaded.table.column("sex").to_pylist() == ["f", "m", None]
    assert [(item.role, item.rows) for item in loaded.inputs] == [("predictions", 1), ("predictions", 2)]


def test_a_column_that_only_some_files_have_is_a_problem(tmp_path: Path) -> None:
    first = saved(tmp_path, "a.csv", "sex,y_pred,y_true\nf,1,0\n")
    second = saved(tmp_path, "b.csv", "sex,y_pred\nm,0\n")
    assert problems([first, second]) == [
        "b.csv: has no column 'y_true', which other files have; did you mean 'y_pred'?"
    ]


def test_a_column_that_the_spec_names_has_to_be_there(tmp_path: Path) -> None:
    spec = AuditSpec(groups=("sex",), positive=Positives(y_pred=1), columns=ColumnNames(cluster="template"))
    found = problems([saved(tmp_path, "a.csv", "sex,y_pred\nf,1\nm,0\n")], spec)
    assert found == ["a.csv: has no column 'template'; known here: sex, y_pred"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sex,y_pred\n", "a.csv: has a header but no rows"),
        ("sex,y_pred\nf,1\nm,2\nm,3\n", "column 'y_pred': has 3 values ('1', '2', '3', ...)"),
        ("sex,y_pred\nf,Yes\nm,no\n", "none of them is the positive one, '1'"),
        ("sex,y_pred,score\nf,1,high\nm,0,2\n", "a.csv:2: score 'high' is not a number"),
        ("sex,y_pred,score\nf,1,0.5\nm,0,2\n", "a.csv:3: score 2 is outside [0, 1]"),
        ("sex,y_pred\nf,1\nnan,0\n", "a.csv:3: sex is NaN"),
    ],
)
def test_what_is_no_table_of_predictions_says_why(text: str, said: str, tmp_path: Path) -> None:
    found = problems([saved(tmp_path, "a.csv", text)])
    assert any(said in item for item in found), found


def test_an_id_is_no_group_and_intersections_have_a_bound(tmp_path: Path) -> None:
    rows = [f"p{i},{i % 90},{i // 90},{i % 2}" for i in range(5_400)]
    table = saved(tmp_path, "a.csv", "\n".join(["person,sex,town,y_pred", *rows, ""]))
    spec = AuditSpec(groups=("person", "sex"), positive=Positives(y_pred=1))
    assert problems([table], spec) == [
        "a.csv: column 'person' has 5400 different values, of at most 1000 groups; is it an id?"
    ]
    spec = AuditSpec(groups=("sex", "town"), positive=Positives(y_pred=1))
    assert "make 5400 cells together, of at most 5000" in problems([table], spec)[0]
    assert load_predictions([table], replace(spec, intersections=False)).table.num_rows == 5_400


def test_nan_in_parquet_is_told_by_row(tmp_path: Path) -> None:
    table = pa.table({"sex": pa.array([1.0, float("nan"), None]), "y_pred": [1, 0, 1]})
    pq.write_table(table, tmp_path / "p.parquet")
    assert problems([file(tmp_path / "p.parquet")]) == ["p.parquet:row 2: sex is NaN; an empty cell means missing"]


# --- outputs ---------------------------------------------------------------------------------------------------------

OUTPUTS: list[dict[str, Any]] = [
    {"id": "a", "scenario_id": "s", "variant": "base", "embedding": [1.0, 0.5], "is_refusal": 0},
    {"id": "b", "scenario_id": "s", "variant": "female", "embedding": [0.0, 0.5], "is_refusal": 1},
    {"id": "c", "scenario_id": "t", "variant": "base", "embedding": None, "is_refusal": 0},
]


def test_embeddings_are_lists_in_parquet_and_json_lines_and_json_in_csv(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(OUTPUTS), tmp_path / "o.parquet")
    lines = saved(tmp_path, "o.jsonl", "".join(json.dumps(row) + "\n" for row in OUTPUTS))
    frame = pd.DataFrame(OUTPUTS)
    frame["embedding"] = [None if cell is None else json.dumps(cell) for cell in frame["embedding"]]
    frame.to_csv(tmp_path / "o.csv", index=False)
    for path in (file(tmp_path / "o.parquet"), lines, file(tmp_path / "o.csv")):
        table = load_outputs([path], OutputsSpec()).table
        assert table.embedding is not None
        assert table.embedding.tolist() == [[1.0, 0.5], [0.0, 0.5], [0.0, 0.0]], path.name
        assert table.refused is not None
        assert table.refused.tolist() == [0.0, 1.0, 0.0]


def test_files_of_other_types_and_columns_meet_and_ids_are_unique_over_all(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(OUTPUTS[:2]), tmp_path / "o.parquet")
    csv = saved(tmp_path, "o.csv", "id,scenario_id,variant,helpfulness,note\n7,u,base,4,x\n8,u,male,2.5,x\n")
    table = load_outputs([file(tmp_path / "o.parquet"), csv], OutputsSpec()).table
    assert table.id.tolist() == ["a", "b", "7", "8"]
    assert table.helpfulness is not None
    assert table.helpfulness[2:].tolist() == [4.0, 2.5]
    assert table.ignored == ("note",)
    again = saved(tmp_path, "again.csv", "id,scenario_id,variant\na,u,base\n")
    assert problems([file(tmp_path / "o.parquet"), again], OutputsSpec()) == [
        "again.csv:2: id 'a' stands already at o.parquet:row 1"
    ]


def test_columns_whose_types_do_not_go_together_are_told_by_name(tmp_path: Path) -> None:
    flags = [{"id": str(i), "scenario_id": "s", "variant": "base", "is_refusal": True} for i in range(2)]
    times = [{**row, "id": f"late {row['id']}", "is_refusal": pd.Timestamp("2026-01-01")} for row in flags]
    for name, rows in (("a.parquet", flags), ("b.parquet", times)):
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    assert problems([file(tmp_path / "a.parquet"), file(tmp_path / "b.parquet")], OutputsSpec()) == [
        "a.parquet: column 'is_refusal' is of types that do not go together: bool, timestamp[us]"
    ]


def test_a_list_in_any_other_column_is_a_problem(tmp_path: Path) -> None:
    lines = saved(tmp_path, "o.jsonl", '{"id": ["a"], "scenario_id": "s", "variant": "base"}\n')
    assert "'id' holds a list or object" in problems([lines], OutputsSpec())[0]


def test_needed_columns_are_missed_by_name(tmp_path: Path) -> None:
    found = problems([saved(tmp_path, "o.csv", "ident,scenario,variant\na,s,base\n")], OutputsSpec())
    known = "known here: ident, scenario, variant"
    assert found == [
        f"o.csv: has no column 'id'; {known}",
        "o.csv: has no column 'scenario_id'; did you mean 'scenario'?",
    ]
