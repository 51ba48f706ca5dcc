"""`assay read`: other tools' columns, scales and words become assay's, or the reason why not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture
def read(assay: Any, tmp_path: Path) -> Any:
    """Write a file, read it with `assay read`, and return the outcome and the columns of the result."""

    def run(content: str, *options: str, tool: str = "table", name: str = "in.csv") -> tuple[Any, Any]:
        (tmp_path / name).write_text(content)
        output = tmp_path / "out" / "o.parquet"
        outcome = assay("read", tool, tmp_path / name, "-o", output, *options)
        assert (outcome.code == 0) is output.exists() is output.parent.exists(), outcome
        return outcome, pq.read_table(output).to_pydict() if outcome.code == 0 else None

    return run


def test_columns_are_renamed(read: Any) -> None:
    outcome, table = read(
        "id,harm,p\na,hate,0.5\n", "--map", "id=trace_id", "--map", "harm=category", "--map", "p=score"
    )
    assert outcome.out.startswith("1 row of scores: ")
    assert table == {"trace_id": ["a"], "category": ["hate"], "score": [0.5]}


def test_a_category_is_given_to_all_rows(read: Any) -> None:
    _, table = read("trace_id,score\na,0.5\nb,\n", "--category", "hate")
    assert table == {"trace_id": ["a", "b"], "category": ["hate", "hate"], "score": [0.5, None]}


@pytest.mark.parametrize(
    ("higher_is", "expected"), [("worse", [0.0, 0.25, 1.0, None]), ("better", [1.0, 0.75, 0.0, None])]
)
def test_a_scale_is_brought_to_0_and_1_and_may_be_turned_around(read: Any, higher_is: str, expected: list[Any]) -> None:
    _, table = read("trace_id,hate\na,1\nb,2\nc,5\nd,\n", "--scale", "1,5", "--higher-is", higher_is)
    assert table["hate"] == pytest.approx(expected)


def test_a_value_outside_the_scale_is_refused_with_its_line(read: Any) -> None:
    outcome, _ = read("trace_id,hate\na,1\nb,6\nc,0\n", "--scale", "1,5")
    assert outcome.code == 2
    assert "in.csv:3: hate 6 is outside [1, 5]; see --scale LO,HI" in outcome.err
    assert "in.csv:4: hate 0 is outside" in outcome.err


def test_words_become_labels_and_empty_cells_stay_empty(read: Any) -> None:
    _, table = read(
        "trace_id,category,verdict\na,hate,hateful\nb,hate, benign \nc,hate,\n",
        "--as", "golden", "--map", "verdict=label", "--positive", "hateful",
    )  # fmt: skip
    assert table["label"] == [1, 0, None]


def test_a_positive_value_that_never_occurs_is_refused(read: Any) -> None:
    outcome, _ = read("trace_id,hate\na,no\n", "--as", "golden", "--map", "hate=label", "--category", "hate",
                      "--positive", "Yes")  # fmt: skip
    assert (outcome.code, outcome.err.count("no value is 'Yes', which --positive names")) == (2, 1)


def test_decisions_that_are_not_0_or_1_need_a_positive_value(read: Any) -> None:
    outcome, _ = read("trace_id,attribute,detected\na,race,2\n", "--as", "detections")
    assert outcome.code == 2
    assert "in.csv:2: detected 2 is outside [0, 1]" in outcome.err


def test_golden_slices_and_texts_are_kept(read: Any) -> None:
    _, table = read("trace_id,category,label,text,topic\na,hate,1, two words ,x\n", "--as", "golden")
    assert (table["text"], table["topic"]) == ([" two words "], ["x"])


def test_an_unnamed_index_column_is_left_out(read: Any) -> None:
    _, table = read(",trace_id,hate\n0,a,0.5\n")
    assert set(table) == {"trace_id", "hate"}


def test_json_lines_are_read_as_they_are(read: Any) -> None:
    _, table = read('{"trace_id": 7, "hate": 0.5}\n\n{"trace_id": "x", "hate": null}\n', name="in.jsonl")
    assert table == {"trace_id": ["7", "x"], "hate": [0.5, None]}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--map", "id"], "COLUMN=NAME is expected, such as id=trace_id"),
        (["--map", "idd=trace_id"], "--map names column 'idd'; columns here: 'id', 'hate'"),
        (["--map", "hate=id"], "--map gives two columns one name"),
        (["--scale", "5,1"], "LO must be below HI, both finite"),
        (["--scale", "0,inf"], "LO must be below HI, both finite"),
        (["--scale", "nan,1"], "LO must be below HI, both finite"),
        (["--scale", "1-5"], "LO,HI is expected, such as 0,10"),
        (["--category", " ", "--map", "id=trace_id", "--map", "hate=score"], "--category needs a name"),
        (["--positive", "1", "--scale", "0,1"], "--positive says what counts as 1"),
        (["--as", "detections", "--higher-is", "better"], "--higher-is is for scores"),
        (["--as", "poems"], "'poems' is not one of 'scores', 'golden', 'detections'"),
    ],
)
def test_an_option_that_cannot_be_meant_is_refused(read: Any, options: list[str], expected: str) -> None:
    outcome, _ = read("id,hate\na,0.5\n", *options)
    assert outcome.code == 2
    assert expected in outcome.err


@pytest.mark.parametrize("content", ["", "trace_id,hate\n", "trace_id,hate\na,high\nb,nan\n", "id,hate\na,1\n"])
@pytest.mark.parametrize("kind", ["scores", "golden"])
def test_what_cannot_be_read_writes_nothing(read: Any, content: str, kind: str) -> None:
    outcome, _ = read(content, "--as", kind)
    assert outcome.code == 2
    assert "in.csv" in outcome.err


def test_a_reader_that_does_not_exist_is_refused_with_those_that_do(read: Any) -> None:
    outcome, _ = read("trace_id,hate\na,1\n", tool="hatechek")
    assert outcome.err.startswith("error: hatechek: is not a registered reader; there are ")
    assert " hatecheck, " in outcome.err


def test_a_table_is_written_as_parquet_and_one_file_at_a_time(assay: Any, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (tmp_path / name).write_text("trace_id,hate\na,0\n")
    assert "name the output SOMETHING.parquet" in assay("read", "table", tmp_path / "a.csv", "-o", "o.csv").err
    assert "one file at a time" in assay("read", "table", tmp_path, "-o", tmp_path / "o.parquet").err


@pytest.mark.parametrize("text", ["\x1b[31mred", "[bold]b", "\u009b31m", "\u202egnp.exe"])
def test_terminal_escapes_and_markup_in_names_are_shown_and_not_obeyed(assay: Any, tmp_path: Path, text: str) -> None:
    table = pa.table({"trace_id": ["a"], "category": [text], "score": [0.5]})
    pq.write_table(table, tmp_path / "a.parquet")
    outcome = assay("check", tmp_path / "a.parquet", "--as", "scores")
    shown = text if text.isprintable() else text.encode("unicode_escape").decode()
    assert shown in outcome.out
    (tmp_path / f"{text}.csv").write_text(f"trace_id,category,score\n{text},{text},7\n")
    for options in ((), ("--log-format", "json")):
        refused = assay(*options, "check", tmp_path / f"{text}.csv")
        assert refused.code == 2
        assert all(line.isprintable() for line in refused.err.splitlines())


def test_hatecheck_as_published_is_recognised_by_its_digest(assay: Any, shared: Path, tmp_path: Path) -> None:
    (source,) = (shared / "data/golden/hatecheck").rglob("test_suite_cases.csv")
    outcome = assay("read", "hatecheck", source, "-o", tmp_path / "o.parquet")
    assert outcome.out.startswith("3728 rows of golden: ")
    assert "; the published file, unaltered" in outcome.out
    table = pq.read_table(tmp_path / "o.parquet")
    assert {"trace_id", "category", "label", "cluster", "functionality", "target_group"} <= set(table.column_names)
    assert table.column("label").to_pylist().count(1) == 2563


HATECHECK = "case_id,test_case,label_gold,functionality,target_ident,templ_id\n"


def test_another_hatecheck_is_read_and_said_not_to_be_the_published_file(read: Any) -> None:
    outcome, table = read(f"{HATECHECK}7,some words,hateful,derog,women,12\n", tool="hatecheck")
    assert "NOT the published file: its digest differs" in outcome.out
    assert table == {
        "trace_id": ["7"], "category": ["hate"], "label": [1], "cluster": ["template-12"],
        "functionality": ["derog"], "target_group": ["women"], "text": ["some words"],
    }  # fmt: skip


def test_a_hatecheck_with_other_words_or_columns_is_refused(read: Any) -> None:
    outcome, _ = read(f"{HATECHECK}7,w,hateful,d,w,1\n8,w,nasty,d,w,1\n9,w,,d,w,1\n", tool="hatecheck")
    assert "in.csv:3: label_gold is 'nasty'; 'hateful' or 'non-hateful' is expected" in outcome.err
    assert "in.csv:4: label_gold is None" in outcome.err
    outcome, _ = read("case_id,test_case\n7,w\n", tool="hatecheck")
    assert outcome.err.count("is missing") == 4


def test_a_reader_of_labels_is_not_asked_for_scores(read: Any) -> None:
    outcome, _ = read(f"{HATECHECK}7,w,hateful,d,w,1\n", "--as", "scores", tool="hatecheck")
    assert "its reader gives a table of kind golden, not scores" in outcome.err
