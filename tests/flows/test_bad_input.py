"""Bad input: exit 2; file, line, field and what to do; nothing written; all problems together."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.data.vocabulary import GOLDEN_COLUMNS
from tasks.storage import file_digest

LONG = "trace_id,turn,category,score\n"
GOLDEN = "trace_id,category,label\n"

BAD_SCORES = {
    "an empty file": ("a.csv", "", ["a.csv: is empty"]),
    "only blank lines": ("a.csv", "\n\n", ["a.csv: holds nothing but empty lines"]),
    "only a header": ("a.csv", LONG, ["a.csv: has a header but no rows"]),
    "a missing column": ("a.csv", "id,turn,category,score\nx,0,hate,0.1\n", [
        "a.csv: column 'trace_id' is missing", "--map OLD=trace_id",
    ]),
    "a misspelt column": ("a.csv", "traceid,turn,category,score\nx,0,hate,0.1\n", ["--map traceid=trace_id"]),
    "two missing columns": ("a.csv", "id,turn,p\nx,0,0.1\n", ["a.csv: column 'trace_id' is missing"]),
    "all long columns but one missing": ("a.csv", "id,scor,category\nx,0.1,hate\n", [
        "a.csv: columns 'trace_id', 'score' are missing", "FILE --map OLD=trace_id --map scor=score -o OUT.parquet`",
    ]),
    "no category and no id": ("a.csv", "idx,score\nx,0.1\n", [
        "columns 'trace_id', 'category' are missing", "--map OLD=trace_id --category NAME -o OUT.parquet`",
    ]),
    "a table of detections": ("a.csv", "trace_id,attribute,detected\nx,race,1\n", [
        "a.csv: this is a table of detections; measure it with --instrument SPEC.yaml",
    ]),
    "a reserved category": ("a.csv", f"{LONG}x,0,composite,0.1\n", ["a.csv:2: category name 'composite' is reserved"]),
    "a reserved category as a column": ("a.csv", "trace_id,hate,several\nx,0,0\n", [
        "a.csv:1: category name 'several' is reserved",
    ]),
    "a score just above 1": ("a.csv", f"{LONG}x,0,hate,1.0000000001\n", ["a.csv:2: score 1.0000000001 is outside"]),
    "a turn beyond 64 bits": ("a.csv", f"{LONG}x,9223372036854775808,hate,0.1\n", [
        "a.csv:2: turn 9223372036854775808 is too large",
    ]),
    "a turn in hexadecimal": ("a.csv", f"{LONG}x,0x10,hate,0.1\n", ["a.csv:2: turn '0x10' is not a number"]),
    "no column of scores": ("a.csv", "trace_id,turn\nx,0\n", ["a.csv: no category columns"]),
    "a score above 1": ("a.csv", f"{LONG}x,0,hate,0.1\nx,0,violence,1.2\n", [
        "a.csv:3: score 1.2 is outside [0, 1]", "--scale 0,10",
    ]),
    "a score below 0": ("a.csv", f"{LONG}x,0,hate,-0.1\n", ["a.csv:2: score -0.1 is outside [0, 1]"]),
    "a percentage": ("a.csv", f"{LONG}x,0,hate,87\n", ["a.csv:2: score 87 is outside [0, 1]", "--scale 0,100"]),
    "the text nan": ("a.csv", f"{LONG}x,0,hate,nan\n", ["a.csv:2: score is nan", "an empty cell means missing"]),
    "infinity": ("a.csv", f"{LONG}x,0,hate,-inf\n", ["a.csv:2: score is -inf"]),
    "a score in words": ("a.csv", f"{LONG}x,0,hate,high\n", ["a.csv:2: score 'high' is not a number"]),
    "a negative turn": ("a.csv", f"{LONG}x,-1,hate,0.1\n", ["a.csv:2: turn -1 is negative; turns are counted from 0"]),
    "half a turn": ("a.csv", f"{LONG}x,1.5,hate,0.1\n", ["a.csv:2: turn 1.5 is not a whole number"]),
    "a turn beyond all numbers": ("a.csv", f"{LONG}x,1e300,hate,0.1\n", ["a.csv:2: turn 1e300 is too large"]),
    "an empty turn": ("a.csv", f"{LONG}x,,hate,0.1\n", ["a.csv:2: turn is empty"]),
    "an empty id": ("a.csv", f"{LONG}x,0,hate,0.1\n,0,hate,0.1\n", ["a.csv:3: trace_id is empty"]),
    "an empty category": ("a.csv", f"{LONG}x,0,,0.1\n", ["a.csv:2: category is empty"]),
    "an unknown category": ("a.csv", f"{LONG}x,0,violense,0.1\n", [
        "a.csv:2: unknown category 'violense'; did you mean 'violence'?",
    ]),
    "an unknown category like no other": ("a.csv", f"{LONG}x,0,qq,0.1\n", ["known here: hate, violence"]),
    "an unknown category as a column": ("a.csv", "trace_id,hate,violense\nx,0.1,0.2\n", [
        "a.csv:1: unknown category column 'violense'; did you mean 'violence'?",
    ]),
    "a category in no row": ("a.csv", f"{LONG}x,0,hate,0.1\n", ["'violence' stands in no row", "was it scored"]),
    "a category without a column": ("a.csv", "trace_id,hate\nx,0.1\n", ["category 'violence' stands in no row"]),
    "one column twice": ("a.csv", "trace_id,hate,hate,violence\nx,0.1,0.1,0.2\n", ["a.csv:1: columns that stand tw"]),
    "one category twice": ("a.csv", "trace_id,self-harm,self_harm\nx,0.1,0.1\n", ["a.csv:1: columns that stand tw"]),
    "a row too short": ("a.csv", f"{LONG}x,0,hate\n", ["a.csv:2: 3 cells where the header has 4 columns"]),
    "a row too long": ("a.csv", f"{LONG}x,0,hate,0.1,0.2\n", ["a.csv:2: 5 cells where the header has 4 columns"]),
    "an open quote": ("a.csv", f'{LONG}x,0,hate,0.1\n"y,0,hate,0.1\n', ["a.csv:3: is not CSV", "quote left open?"]),
    "a NUL byte": ("a.csv", f"{LONG}x,0,hate,0.1\ny\0,0,hate,0.1\n", ["a.csv:3: holds a NUL byte"]),
    "bytes that are not UTF-8": ("a.csv", f"{LONG}x,0,hate,0.1\n".encode() + b"\xe9,0,hate,0.1\n", [
        "a.csv:3: is not UTF-8 text (byte 0xe9)",
    ]),
    "UTF-16": ("a.csv", f"{LONG}x,0,hate,0.1\n".encode("utf-16"), ["a.csv: its content is not the format"]),
    "a picture": ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", ["a.csv:1: is not UTF-8 text"]),
    "CSV named Parquet": ("a.parquet", f"{LONG}x,0,hate,0.1\n", ["a.parquet: is not Parquet, as its extension says"]),
    "Parquet named CSV": ("a.csv", b"PAR1\x15\x04PAR1", ["a.csv: its content is not the format"]),
    "gzip without .gz": ("a.csv", gzip.compress(LONG.encode()), ["a.csv: its content is not the format"]),
    ".gz without gzip": ("a.csv.gz", f"{LONG}x,0,hate,0.1\n", ["a.csv.gz: its content is not the format"]),
    "gzip that breaks off": ("a.csv.gz", gzip.compress(LONG.encode() * 999)[:-20], ["a.csv.gz: is damaged"]),
    "an unknown extension": ("a.txt", LONG, ["a.txt: unknown extension; a table is one of .parquet, .csv"]),
    "a JSON array": ("a.jsonl", '[\n{"trace_id": 1, "hate": 0.1}\n]', [
        "a.jsonl:1: is a JSON array; one JSON object a line is expected",
    ]),
    "JSON that is not JSON": ("a.jsonl", '{"trace_id": 1, "hate": 0.1}\n{"trace_id": 2,\n', ["a.jsonl:2: is not JSON"]),
    "a JSON number": ("a.jsonl", "3\n", ["a.jsonl:1: one JSON object a line is expected"]),
    "JSON with NaN": ("a.jsonl", '\n{"trace_id": 1, "hate": NaN, "violence": 0}\n', ["a.jsonl:2: hate is nan"]),
    "JSON with a nested score": ("a.jsonl", '{"trace_id": 1, "hate": [0.1], "violence": 0}\n', [
        "a.jsonl:1: 'hate' holds a list or object",
    ]),
    "JSON with a key twice": ("a.jsonl", '{"trace_id": 1, "hate": 0, "hate": 1}\n', ["a key stands twice"]),
    "JSON with half a character": ("a.jsonl", '{"trace_id": 1, "hate": 0}\n{"trace_id": "\\ud800", "hate": 0}\n', [
        "a.jsonl:2", "half a character",
    ]),
    "JSON with half a character as a name": ("a.jsonl", '{"trace_id": 1, "\\udfff": 0}\n', ["a.jsonl:1", "half a"]),
    "JSON too deep": ("a.jsonl", '{"trace_id":' + "[" * 100_000 + "\n", ["a.jsonl:1: is not JSON"]),
    "JSON of blank lines": ("a.jsonl", "\n \n", ["a.jsonl: holds no rows"]),
    "an unknown state": ("a.csv", "trace_id,hate,violence,state\nx,,,bogus\n", ["a.csv:2: unknown state 'bogus'; "]),
    "an error that has a score": ("a.csv", "trace_id,hate,violence,state\nx,0.1,0.2,judge_error\n", [
        "a.csv:2: state 'judge_error' says that there is no score", "empty the score or the state",
    ]),
    "a score that is not there": ("a.csv", "trace_id,hate,violence,state\nx,,,scored\n", [
        "a.csv:2: state 'scored' but the score is empty",
    ]),
    "two clusters of a trace": ("a.csv", "trace_id,turn,cluster,hate,violence\nx,0,k,0,0\nx,1,m,0,0\n", [
        "a.csv:3: trace 'x' is in cluster 'm' here and in 'k' before; a trace has one cluster",
    ]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_SCORES)
def test_scores_are_refused_with_file_line_field_and_remedy(case: str, bench: Any) -> None:
    name, content, expected = BAD_SCORES[case]
    path = bench.file(name, content)
    bench.refused(bench.measure(path), f"{path}", *expected)


BAD_GOLDEN = {
    "an empty file": ("", ["a.csv: is empty"]),
    "only a long header": (GOLDEN, ["a.csv: has a header but no rows"]),
    "only a wide header": ("trace_id,hate,violence\n", ["a.csv: has a header but no rows"]),
    "a missing id": ("id,category,label\nx,hate,1\n", ["a.csv: column 'trace_id' is missing"]),
    "a missing label": ("trace_id,category\nx,hate\n", ["a.csv: column 'label' is missing"]),
    "a missing category": ("trace_id,label\nx,1\n", ["a.csv: column 'category' is missing"]),
    "a label of 2": (f"{GOLDEN}x,hate,2\n", ["a.csv:2: label 2 is not a label; 0, 1 or an empty cell is expected"]),
    "half a label": (f"{GOLDEN}x,hate,0.5\n", ["a.csv:2: label 0.5 is not a label"]),
    "a label in words": (f"{GOLDEN}x,hate,yes\n", ["a.csv:2: label 'yes' is not a number"]),
    "a label nan": (f"{GOLDEN}x,hate,nan\n", ["a.csv:2: label is nan"]),
    "an empty id": (f"{GOLDEN},hate,1\n", ["a.csv:2: trace_id is empty"]),
    "an empty category": (f"{GOLDEN}x,,1\n", ["a.csv:2: category is empty"]),
    "a negative turn": ("trace_id,turn,category,label\nx,-3,hate,1\n", ["a.csv:2: turn -3 is negative"]),
    "an unknown category": (f"{GOLDEN}x,hatte,1\n", ["a.csv:2: unknown category 'hatte'; did you mean 'hate'?"]),
    "a category without a column": ("trace_id,hate,violense\nx,1,0\n", [
        "a.csv:1: the instrument's category 'violence' has no column; is it 'violense'?",
    ]),
    "a category in no row": (f"{GOLDEN}x,hate,1\n", ["a.csv: the instrument's category 'violence' stands in no row"]),
    "two labels": (f"{GOLDEN}x,hate,1\ny,hate,1\nx,hate,0\n", [
        "a.csv:4: trace 'x' has another label for hate in", "a.csv:2; keep one of the two",
    ]),
    "two clusters": (f"{GOLDEN[:-1]},cluster\nx,hate,1,k\nx,violence,0,m\n", ["a.csv:3: trace 'x' is in cluster 'm'"]),
    "nothing but a label": ("id,label\nx,1\n", [
        "columns 'trace_id', 'category' are missing", "--map OLD=trace_id --category NAME -o",
    ]),
    "a reserved category": (f"{GOLDEN}x,several,1\n", ["a.csv:2: category name 'several' is reserved"]),
    "a column twice": ("trace_id,hate,hate\nx,1,0\n", ["a.csv:1: columns that stand twice: 'hate'"]),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD_GOLDEN)
def test_golden_sets_are_refused_with_file_line_field_and_remedy(case: str, bench: Any) -> None:
    content, expected = BAD_GOLDEN[case]
    path = bench.file("a.csv", content)
    bench.refused(bench.calibrate(golden=path), f"{path}", *expected)


@pytest.mark.parametrize("column", sorted(GOLDEN_COLUMNS))
def test_a_column_with_a_meaning_of_its_own_is_no_slice(column: str, bench: Any) -> None:
    spec = bench.file("i.yaml", f"{bench.world.instrument.read_text()}slices: [{column}]\n")
    outcome = bench.calibrate(instrument=spec)
    bench.refused(outcome, f"golden.csv: '{column}' is a column with a meaning of its own and cannot be a slice")
    assert len(bench.problems(outcome)) == 1


def test_a_category_is_no_slice(bench: Any) -> None:
    spec = bench.file("i.yaml", f"{bench.world.instrument.read_text()}slices: [hate]\n")
    golden = bench.file("g.csv", "trace_id,hate,violence\nx,1,0\n")
    bench.refused(bench.calibrate(golden=golden, instrument=spec), "'hate' is a category and cannot be a slice")


def test_a_golden_column_cannot_have_a_reserved_name(assay: Any, bench: Any) -> None:
    path = bench.file("a.csv", "trace_id,hate,composite\nx,1,1\n")
    bench.refused(assay("check", path, "--as", "golden"), f"{path}:1: category name 'composite' is reserved")


@pytest.mark.parametrize("kind", ["scores", "detections"])
def test_a_reserved_name_is_found_in_the_rows(kind: str, assay: Any, bench: Any) -> None:
    header = {"scores": "category,score", "detections": "attribute,detected"}[kind]
    path = bench.file("a.csv", f"trace_id,{header}\nx,composite,1\n")
    bench.refused(assay("check", path, "--as", kind), f"{path}: {header.split(',')[0]} name 'composite' is reserved")


DETECTIONS = "name: fair\nkind: detections\n"


def detected(assay: Any, bench: Any, content: str, instrument: str = DETECTIONS) -> Any:
    spec, path = bench.file("d.yaml", instrument), bench.file("d.csv", content)
    return assay("measure", path, "--instrument", spec, "-o", bench.out / "new" / "m.json")


def test_scores_given_as_detections_are_told_to_be_scores(assay: Any, bench: Any) -> None:
    outcome = detected(assay, bench, f"{LONG}x,0,hate,0.1\n")
    bench.refused(outcome, "d.csv: this is a table of scores; measure it with --calibration REF")


def test_wide_detections_need_their_attributes_named(assay: Any, bench: Any) -> None:
    content = "trace_id,race,sex,helpful\n" + "".join(f"x{i},1,0,1\n" for i in range(30))
    outcome = detected(assay, bench, content)
    bench.refused(outcome, "d.csv:1: which of the columns here (race, sex, helpful) are attributes?", "`categories`")
    outcome = detected(assay, bench, content, f"{DETECTIONS}categories: [race, sex]\n")
    bench.refused(outcome, "unknown attribute column 'helpful'")
    assert (
        detected(assay, bench, content.replace("helpful", "rationale"), f"{DETECTIONS}categories: [race, sex]\n").code
        == 0
    )


def test_a_published_set_read_without_its_reader_is_recognised(
    assay: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = bench.file("cases.csv", "case_id,test_case,label_gold\n7,words,hateful\n")
    monkeypatch.setattr("tasks.readers.published.READER_OF", {file_digest(path): "hatecheck"})
    hint = f"{path} looks like a file that assay has a reader for: give it as hatecheck:{path}"
    bench.refused(bench.calibrate(golden=path), hint)
    assert hint not in assay("check", f"hatecheck:{path}").err


# --- refused rows ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rows",
    [
        ["x,-1,hate,0.1", "x,0,hate,0.2"],
        ["x,1.5,hate,0.1", "x,0,hate,0.2"],
        ["x,9223372036854775808,hate,0.1", "x,0,hate,0.2"],
        ["x,0,violense,0.1", "x,0,hate,0.2"],
        [",0,hate,0.1", "x,0,hate,0.2"],
        ["x,0,hate,high", "x,0,hate,0.2"],
    ],
)  # fmt: skip
@pytest.mark.parametrize("order", [1, -1])
def test_a_refused_row_is_one_problem_and_no_duplicate_of_another(rows: list[str], order: int, bench: Any) -> None:
    outcome = bench.measure(bench.file("a.csv", LONG + "\n".join([*rows[::order], "x,0,violence,0", ""])))
    bench.refused(outcome)
    assert len(bench.problems(outcome)) == 1


def test_golden_labels_of_one_class_in_all_categories_cannot_calibrate(bench: Any) -> None:
    rows = "".join(f"g{i},hate,1\ng{i},violence,0\n" for i in range(60))
    outcome = bench.calibrate(golden=bench.file("a.csv", GOLDEN + rows))
    bench.refused(outcome, "no category can be calibrated", "hate has 60 positive and 0 negative")


def test_a_category_that_the_calibration_needs_has_to_be_scored(bench: Any) -> None:
    rows = "".join(f"g{i},0,hate,0.5\n" for i in range(60))
    path = bench.file("s.csv", LONG + rows)
    bench.refused(bench.calibrate(scores=path), f"{path}: category 'violence' stands in no row", "was it scored?")


def test_golden_scores_have_one_attempt_a_trace(bench: Any) -> None:
    rows = "".join(f"g{i},{a},0.5,0.5\n" for i in range(60) for a in (range(2) if i == 7 else (0,)))
    path = bench.file("s.csv", "trace_id,attempt,hate,violence\n" + rows)
    outcome = bench.calibrate(scores=path)
    bench.refused(outcome, f"{path}:9: 1 golden trace(s) have several attempts (first: 'g7')", "keep one attempt")


def test_ids_that_do_not_join_are_listed_on_both_sides(bench: Any) -> None:
    text = bench.world.scores.read_text().replace("g59,", "h59,")
    outcome = bench.calibrate(scores=bench.file("s.csv", text))
    bench.refused(
        outcome, "1 labelled trace(s) have no score: 'g59'", "1 scored trace(s) have no label: 'h59'", "allow_unmatched"
    )


def test_unmatched_ids_are_counted_when_the_instrument_allows_them(bench: Any) -> None:
    text = bench.world.scores.read_text().replace("g59,", "h59,")
    spec = bench.file("i.yaml", bench.world.instrument.read_text().replace("unmatched: false", "unmatched: true"))
    outcome = bench.calibrate(scores=bench.file("s.csv", text), instrument=spec)
    assert outcome.code == 0, outcome.err


def test_no_common_id_is_refused_even_when_unmatched_ids_are_allowed(bench: Any) -> None:
    spec = bench.file("i.yaml", bench.world.instrument.read_text().replace("unmatched: false", "unmatched: true"))
    outcome = bench.calibrate(scores=bench.world.production, instrument=spec)
    bench.refused(outcome, "no trace id stands in both tables")


def test_clusters_on_which_golden_set_and_scores_disagree_are_refused(bench: Any) -> None:
    rows = "".join(f"g{i},v{(i + 1) % 30},0.5,0.5\n" for i in range(60))
    outcome = bench.calibrate(scores=bench.file("s.csv", "trace_id,cluster,hate,violence\n" + rows))
    bench.refused(outcome, "60 trace(s) have one cluster in the golden set and another in the scores")


# --- duplicates -------------------------------------------------------------------------------------------------


def test_rows_that_differ_name_both_lines(bench: Any) -> None:
    path = bench.file("a.csv", f"{LONG}x,0,hate,0.1\nx,0,violence,0.1\nx,0,hate,0.2\n")
    bench.refused(bench.measure(path), f"{path}:4: trace 'x', attempt 0, turn 0 has other values in {path}:2;")


def test_rows_that_differ_are_found_where_the_rows_of_a_trace_are_scattered(bench: Any) -> None:
    path = bench.file("a.csv", "trace_id,hate,violence\nx,0.1,0.2\ny,0.1,0.2\nx,0.1,0.3\n")
    bench.refused(bench.measure(path), f"{path}:4: trace 'x', attempt 0, turn 0 has other values in {path}:2;")


def test_rows_that_differ_are_found_across_files(bench: Any) -> None:
    one = bench.file("a.csv", "trace_id,hate,violence\nx,0.1,0.2\ny,0.1,0.2\n")
    other = bench.file("b.csv", f"{LONG}z,0,hate,0.3\nx,0,violence,0.3\n")
    bench.refused(bench.measure(one, other), f"{other}:3: trace 'x', attempt 0, turn 0 has other values in {one}:2;")


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_rows_that_differ_are_found_across_batches(rows: int, bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", rows)
    path = bench.file("a.csv", f"{LONG}x,0,hate,0.1\nx,0,violence,0.1\nx,1,hate,0.2\nx,1,hate,0.3\ny,0,hate,0.3\n")
    outcome = bench.measure(path)
    bench.refused(outcome, f"{path}:5: trace 'x', attempt 0, turn 1 has other values in {path}:4;")
    assert len(bench.problems(outcome)) == 1


@pytest.mark.parametrize("rows", [1, 3, 1000])
@pytest.mark.parametrize("scattered", [False, True])
def test_equal_rows_collapse_and_are_counted(
    rows: int, scattered: bool, assay: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", rows)
    lines = bench.world.production.read_text().splitlines()
    again = [lines[1], lines[5], lines[5]]
    lines = [*lines, *again] if scattered else [*lines[:6], lines[5], lines[5], *lines[6:], lines[-1]]
    path = bench.file("a.csv", "\n".join(lines))
    outcome = assay("measure", path, "--calibration", bench.world.calibration, "--json", "-o", bench.out / "m.json")
    assert outcome.record["result"]["n_duplicates"] == 3
    assert (outcome.record["result"]["n_units"], outcome.record["result"]["n_turns"]) == (40, 80)


# --- lines, many problems, many files ----------------------------------------------------------------------------


def test_quoted_line_breaks_keep_line_numbers_true(bench: Any) -> None:
    text = 'trace_id,rationale,hate,violence\n"x","two\nlines, and\r\n""quotes""",0.1,0.1\n\n"y\nz",plain,0.2,1.5\n'
    path = bench.file("a.csv", text)
    bench.refused(bench.measure(path), f"{path}:6: violence 1.5 is outside [0, 1]")


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_numbers_are_physical_whatever_ends_a_line_and_whatever_begins_the_file(end: str, bench: Any) -> None:
    path = bench.file("a.csv", "\ufeff" + end.join(["trace_id,hate,violence", "x,0,0", "", "y,0,7", ""]))
    bench.refused(bench.measure(path), f"{path}:4: violence 7 is outside")


def test_more_than_twenty_problems_are_shown_as_twenty_and_a_count(bench: Any) -> None:
    rows = "".join(f"x{i},{2 if i % 2 else 0},0.1\n" for i in range(100))
    path = bench.file("a.csv", "trace_id,hate,violence\n" + rows)
    outcome = bench.measure(path)
    bench.refused(outcome)
    lines = bench.problems(outcome)
    assert len(lines) == 21
    assert lines[0].startswith(f"{path}:3: ")
    assert lines[-1] == "... and 30 more problems"


def test_a_thousand_problems_are_counted_in_full(bench: Any) -> None:
    rows = "".join(f"x{i},2,0.1\n" for i in range(1000))
    outcome = bench.measure(bench.file("a.csv", "trace_id,hate,violence\n" + rows))
    assert bench.problems(outcome)[-1] == "... and 980 more problems"


def test_different_problems_come_together_in_the_order_of_lines(bench: Any) -> None:
    text = "trace_id,turn,hate,violence\nx,-1,0,0\ny,0,high,0\n,0,0,0\nz,0,0\nu,0,0,9\n"
    path = bench.file("a.csv", text)
    outcome = bench.measure(path)
    bench.refused(outcome)
    assert [line.removeprefix(f"{path}:")[:10] for line in bench.problems(outcome)] == [
        "2: turn -1", "3: hate 'h", "4: trace_i", "5: 3 cells", "6: violenc",
    ]  # fmt: skip


def test_problems_of_several_files_come_together(bench: Any) -> None:
    one = bench.file("b.csv", "trace_id,hate,violence\nx,0,7\n")
    other = bench.file("a.csv", "trace_id,hate,violence\ny,0,0\nz,8,0\n")
    outcome = bench.measure(one, other)
    bench.refused(outcome)
    assert [line.split(" ")[0] for line in bench.problems(outcome)] == [f"{one}:2:", f"{other}:3:"]


def test_headers_of_several_files_are_refused_together(bench: Any) -> None:
    one, other = bench.file("a.csv", "id,hate\nx,0\n"), bench.file("b.csv", "trace_id,hatte\nx,0\n")
    outcome = bench.measure(one, other)
    bench.refused(outcome, f"{one}: column 'trace_id'", f"{other}:1: unknown category column 'hatte'; did you mean")


def test_files_that_cannot_be_opened_are_refused_together(bench: Any) -> None:
    files = [bench.folder / "none.csv", bench.file("empty.csv", ""), bench.folder / "none.jsonl"]
    outcome = bench.measure(*files)
    bench.refused(outcome, *(str(path) for path in files))
    assert len(bench.problems(outcome)) == 3


def test_two_wrong_cells_of_one_row_are_two_problems_and_one_wrong_cell_is_one(bench: Any) -> None:
    path = bench.file("a.csv", "trace_id,turn,hate,violence\nx,first,high,0\n")
    assert len(bench.problems(bench.measure(path))) == 2


# --- files and folders ----------------------------------------------------------------------------------------------


def test_a_missing_file_is_named(bench: Any) -> None:
    bench.refused(bench.measure(bench.folder / "none.csv"), "none.csv: there is no such file")


def test_a_name_that_no_file_can_have_is_a_message(bench: Any) -> None:
    bench.refused(bench.measure(bench.folder / ("x" * 300 + ".csv")), "cannot be read: File name too long")


def test_a_folder_without_data_is_refused(bench: Any) -> None:
    (bench.folder / "empty").mkdir()
    (bench.folder / "empty" / "notes.md").write_text("nothing")
    bench.refused(bench.measure(bench.folder / "empty"), "empty: the folder holds no data files (.parquet, .csv")


def test_a_pattern_without_a_match_is_refused(bench: Any) -> None:
    bench.refused(bench.measure(bench.folder / "*.parquet"), "no file matches the pattern")


def test_a_file_named_twice_is_refused(bench: Any) -> None:
    (bench.folder / "link.csv").symlink_to(bench.world.production)
    outcome = bench.measure(bench.world.production, bench.folder / "link.csv")
    bench.refused(outcome, "link.csv: is named twice; each file counts once")


def test_what_is_neither_here_nor_in_object_storage_is_refused(bench: Any) -> None:
    bench.refused(bench.measure("https://example.org/a.csv"), "only local paths and s3://BUCKET/KEY are known")


def test_a_pipe_is_refused_rather_than_waited_for(bench: Any) -> None:
    os.mkfifo(bench.folder / "a.csv")
    bench.refused(bench.measure(bench.folder / "a.csv"), "a.csv: is not a file")


def test_a_file_without_permission_is_refused(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, opened = bench.file("a.csv", LONG), Path.open

    def refusing(self: Path, *arguments: Any, **options: Any) -> Any:
        if self == path:
            raise PermissionError(13, "Permission denied")
        return opened(self, *arguments, **options)

    monkeypatch.setattr(Path, "open", refusing)
    bench.refused(bench.measure(path), "a.csv: no permission to read it")


def test_a_damaged_parquet_file_is_refused_with_the_row_before_the_damage(bench: Any) -> None:
    path = bench.folder / "a.parquet"
    pq.write_table(pa.table({"trace_id": ["a", "b"], "hate": [0.1, 0.2], "violence": [0.1, 0.2]}), path)
    content = path.read_bytes()
    path.write_bytes(content[:20] + b"\xff" * 30 + content[50:])
    bench.refused(bench.measure(path), f"{path}: is damaged after row 0")


PARQUET = {
    "NaN": ({"trace_id": ["a", "b"], "hate": [0.1, float("nan")], "violence": [0.0, 0.0]}, ":row 2: hate is nan"),
    "a list": ({"trace_id": ["a"], "hate": [[0.1]], "violence": [0.0]}, "column 'hate' is of type list<"),
    "ids as decimals": ({"trace_id": [1.0], "hate": [0.1], "violence": [0.0]}, "column 'trace_id' is of type double"),
    "no rows": ({"trace_id": pa.array([], pa.string()), "hate": pa.array([], pa.float64())}, "a header but no rows"),
    "an empty id": ({"trace_id": ["a", None], "hate": [0.1, 0.1], "violence": [0.0, 0.0]}, ":row 2: trace_id is empty"),
    "a turn of 64 unsigned bits": (
        {"trace_id": ["a"], "turn": pa.array([2**63], pa.uint64()), "hate": [0.1], "violence": [0.0]},
        ":row 1: turn 9223372036854775808 is too large",
    ),
    "a time as score": ({"trace_id": ["a"], "hate": pa.array([1], pa.timestamp("s"))}, "numbers are expected"),
}  # fmt: skip


@pytest.mark.parametrize("case", PARQUET)
def test_parquet_is_refused_with_row_and_column(case: str, bench: Any) -> None:
    columns, expected = PARQUET[case]
    path = bench.folder / "a.parquet"
    pq.write_table(pa.table(columns), path)
    outcome = bench.measure(path)
    bench.refused(outcome, str(path), expected)
    assert len(bench.problems(outcome)) == 1


def test_a_parquet_column_that_stands_twice_is_refused(bench: Any) -> None:
    path = bench.folder / "a.parquet"
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array([0.1]), pa.array([0.2])], ["trace_id", "hate", "hate"])
    pq.write_table(table, path)
    bench.refused(bench.measure(path), f"{path}:1: columns that stand twice: 'hate'")


# --- records and specs ------------------------------------------------------------------------------------------


def test_a_calibration_of_a_future_version_is_refused(assay: Any, bench: Any) -> None:
    text = bench.world.calibration.read_text().replace("assay.calibration/1", "assay.calibration/2")
    path = bench.file("c.json", text)
    outcome = assay("measure", bench.world.production, "--calibration", path, "-o", bench.out / "m.json")
    bench.refused(outcome, f"{path}: schema 'assay.calibration/2' is newer than this assay reads", "update assay")


ODD_INPUTS = (
    '{"schema": "assay.calibration/1", "id": "x", "spec": {}, "seed": 1, "result": {}, '
    '"inputs": [{"sha256": "a", "role": 1}, {"sha256": "b", "role": "c"}]}'
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("", "not a record (JSON expected)"),
        ("[1]", 'it has no "schema"'),
        ('{"schema": "assay.weather/1"}', "is not one of assay's"),
        ('{"schema": "assay.calibration/x"}', "has no version number"),
        ('{"schema": "assay.calibration/1", "id": "x"}', "not a whole record"),
        (ODD_INPUTS, "not a whole record"),
        ("\x00\x01", "not a record"),
        ("[" * 100_000, "not a record"),
    ],
)  # fmt: skip
def test_what_is_not_a_calibration_is_refused(content: str, expected: str, assay: Any, bench: Any) -> None:
    path = bench.file("c.json", content)
    outcome = assay("measure", bench.world.production, "--calibration", path, "-o", bench.out / "m.json")
    bench.refused(outcome, f"{path}: ", expected)


def test_an_altered_calibration_is_refused(assay: Any, bench: Any) -> None:
    text = bench.world.calibration.read_text()
    assert '"true_positives": ' in text
    path = bench.file("c.json", text.replace('"true_positives": ', '"true_positives": 1'))
    outcome = assay("measure", bench.world.production, "--calibration", path, "-o", bench.out / "m.json")
    bench.refused(outcome, f"{path}: its id does not fit its content")


def test_a_measurement_is_not_taken_for_a_calibration(assay: Any, bench: Any) -> None:
    record = bench.world.measurement
    outcome = assay("measure", bench.world.production, "--calibration", record, "-o", bench.out / "m.json")
    bench.refused(outcome, "is a record of assay.measurement/1; a calibration is needed")


@pytest.mark.parametrize("reference", ["none.json", "0123abc", "models:/safety@champion", ""])
def test_a_calibration_that_cannot_be_found_is_refused(reference: str, assay: Any, bench: Any) -> None:
    outcome = assay("measure", bench.world.production, "--calibration", reference, "-o", bench.out / "m.json")
    bench.refused(outcome, "error: ")


def test_an_instrument_with_an_unknown_key_is_refused_with_the_nearest(bench: Any) -> None:
    spec = bench.file("i.yaml", "name: x\ndetection_flor: 0.3\n")
    bench.refused(bench.calibrate(instrument=spec), f"{spec}: unknown key 'detection_flor'; did you mean 'detection_")


# --- writing --------------------------------------------------------------------------------------------------------


def test_an_output_folder_that_cannot_be_written_is_a_message(assay: Any, bench: Any) -> None:
    blocked = bench.file("file", "in the way")
    outcome = assay(
        "measure", bench.world.production, "--calibration", bench.world.calibration, "-o", blocked / "m.json"
    )
    bench.refused(outcome, "cannot be written", "choose another place with -o")


def test_a_read_only_output_folder_is_a_message(assay: Any, bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.mkdtemp", refuse)
    monkeypatch.setattr("tempfile.mkstemp", refuse)
    bench.refused(bench.measure(bench.world.production), "cannot be written: Permission denied; choose another place")
    bench.refused(
        assay("read", "table", bench.world.production, "-o", bench.out / "new" / "x.parquet"), "cannot be written"
    )


def test_a_device_or_folder_is_never_replaced(assay: Any, bench: Any) -> None:
    os.mkfifo(bench.folder / "device")
    for place in (bench.folder / "device", bench.out):
        outcome = assay("measure", bench.world.production, "--calibration", bench.world.calibration, "-o", place)
        bench.refused(outcome)
    assert (bench.folder / "device").is_fifo()


def test_a_record_is_not_written_when_its_data_file_cannot_be(assay: Any, bench: Any) -> None:
    (bench.folder / "m.decisions.parquet").mkdir()
    record = bench.folder / "m.json"
    outcome = assay("measure", bench.world.production, "--calibration", bench.world.calibration, "-o", record)
    bench.refused(outcome, "m.decisions.parquet: is there and is not a file")
    assert {path.name for path in bench.folder.iterdir()} == {"out", "m.decisions.parquet"}


@pytest.mark.parametrize("which", ["production", "calibration"])
def test_an_output_never_replaces_an_input(which: str, assay: Any, bench: Any) -> None:
    path = getattr(bench.world, which)
    before = path.read_bytes()
    outcome = assay("measure", bench.world.production, "--calibration", bench.world.calibration, "-o", path)
    bench.refused(outcome, "is an input; choose another place")
    assert path.read_bytes() == before


def test_a_table_is_not_read_onto_itself(assay: Any, bench: Any) -> None:
    path = bench.folder / "a.parquet"
    pq.write_table(pa.table({"trace_id": ["a"], "hate": [0.1]}), path)
    bench.refused(assay("read", "table", path, "-o", path), "is an input")


def outputs(bench: Any, output: Path) -> dict[str, tuple[object, ...]]:
    """Every command that writes, so that it would write to this place."""
    bench.file("t.csv", "trace_id,text\nx,words\n")
    return {
        "measure": ("measure", bench.world.production, "--calibration", bench.world.calibration, "-o", output),
        "calibrate": (
            "calibrate", bench.world.golden, "--scores", bench.world.scores, "--instrument", bench.world.instrument,
            "-o", output,
        ),
        "read": ("read", "table", bench.world.production, "-o", output),
        "judge": ("judge", "lexical", bench.folder / "t.csv", "--no-cache", "-o", output),
    }  # fmt: skip


PRECIOUS = {"measure": "m.json", "calibrate": "c.json", "read": "t.parquet", "judge": "t.parquet"}


@pytest.mark.parametrize("command", PRECIOUS)
@pytest.mark.parametrize("content", ["# precious\n", '{"schema": "https://json-schema.org"}', "[1]", "\xff"])
def test_a_file_that_assay_has_not_written_is_only_replaced_by_force(
    command: str, content: str, assay: Any, bench: Any
) -> None:
    output = bench.file(PRECIOUS[command], content.encode("latin-1"))
    call = outputs(bench, output)[command]
    bench.refused(assay(*call), f"{output} is there and is not ", "add --force")
    assert output.read_bytes() == content.encode("latin-1")
    assert assay(*call, "--force").code == 0
    assert output.read_bytes() != content.encode("latin-1")


@pytest.mark.parametrize("command", PRECIOUS)
@pytest.mark.parametrize("empty", [True, False])
def test_an_earlier_output_or_an_empty_file_is_replaced(command: str, empty: bool, assay: Any, bench: Any) -> None:
    output = bench.folder / PRECIOUS[command]
    call = outputs(bench, output)[command]
    if empty:
        output.touch()
    else:
        assert assay(*call).code == 0
    assert assay(*call).code == 0


@pytest.mark.parametrize(("command", "beside"), [("measure", "m.decisions"), ("calibrate", "c.golden_maxima")])
def test_a_file_beside_the_record_is_only_replaced_when_it_is_parquet(
    command: str, beside: str, assay: Any, bench: Any
) -> None:
    path = bench.file(f"{beside}.parquet", "precious")
    call = outputs(bench, bench.folder / PRECIOUS[command])[command]
    bench.refused(assay(*call), f"{path} is there and is not Parquet")
    assert path.read_text() == "precious"
    assert not (bench.folder / PRECIOUS[command]).exists()
    assert assay(*call, "--force").code == 0


def test_force_does_not_replace_an_input(assay: Any, bench: Any) -> None:
    call = outputs(bench, bench.world.production)["measure"]
    bench.refused(assay(*call, "--force"), "is an input")


def test_a_record_does_not_take_the_place_of_a_table(assay: Any, bench: Any) -> None:
    output = bench.folder / "t.parquet"
    pq.write_table(pa.table({"a": [1]}), output)
    bench.refused(assay(*outputs(bench, output)["measure"]), "is not a record of assay")
