"""The table reader: every format gives the same rows, with the physical lines on which they stand."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError, Problem
from tasks.readers import open_source, reader_names
from tasks.readers.table import MAX_LINE, JsonLinesFile
from tasks.storage import InputFile

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def opened(path: Path, content: str | bytes | None = None) -> Any:
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return open_source(InputFile(path=path, name=path.name))


def rows(source: Any, columns: Any = None) -> list[tuple[int, dict[str, Any]]]:
    return [
        (line, row)
        for batch, lines in source.batches(columns or source.columns)
        for line, row in zip(lines.tolist(), batch.to_pylist(), strict=True)
    ]


def refusal(path: Path, content: str | bytes) -> str:
    with pytest.raises(InputError) as error:
        rows(opened(path, content))
    return str(error.value)


def test_the_built_in_readers_are_registered() -> None:
    assert {"table", "hatecheck", "openai-moderation-golden"} <= set(reader_names())


cells = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=8)


@IN_FOLDER
@given(
    table=st.lists(st.tuples(cells, cells, cells), max_size=8),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    zipped=st.booleans(),
    batch=st.integers(1, 4),
)
def test_any_csv_that_python_writes_is_read_with_true_lines(
    table: list[tuple[str, ...]], end: str, zipped: bool, batch: int, tmp_path: Path
) -> None:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator=end, quoting=csv.QUOTE_ALL)
    starts = []
    for row in [("a", "b", "c"), *table]:
        text = buffer.getvalue()
        starts.append(text.count("\n") + text.count("\r") - text.count("\r\n") + 1)
        writer.writerow(row)
    content = buffer.getvalue().encode()
    path = tmp_path / ("a.csv.gz" if zipped else "a.csv")
    path.write_bytes(gzip.compress(content) if zipped else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", batch)
        found = rows(opened(path))
    assert [line for line, _ in found] == starts[1:]
    assert [tuple(row.values()) for _, row in found] == [tuple(cell or None for cell in row) for row in table]


json_cells = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | cells


@IN_FOLDER
@given(
    items=st.lists(st.dictionaries(st.sampled_from("abc"), json_cells, max_size=3) | st.none(), min_size=1, max_size=8)
)
def test_any_json_lines_are_read_with_true_lines(items: list[dict[str, Any] | None], tmp_path: Path) -> None:
    content = "\n".join("  " if item is None else json.dumps(item) for item in items)
    if not any(items):
        assert "holds no rows" in refusal(tmp_path / "a.jsonl", content)
        return
    found = rows(opened(tmp_path / "a.jsonl", content))
    assert [line for line, _ in found] == [i for i, item in enumerate(items, start=1) if item is not None]
    for (_, row), item in zip(found, [item for item in items if item is not None], strict=True):
        for name, value in row.items():
            expected = item.get(name)
            if isinstance(expected, bool):
                expected = int(expected)
            assert value == (None if expected is None or expected == "" else str(expected))


@IN_FOLDER
@given(
    content=st.binary(max_size=200),
    name=st.sampled_from(["a.csv", "a.tsv", "a.jsonl", "a.parquet", "a.csv.gz", "a.ndjson.gz"]),
)
def test_any_bytes_are_rows_or_a_message(content: bytes, name: str, tmp_path: Path) -> None:
    try:
        rows(opened(tmp_path / name, content))
    except InputError as error:
        assert str(error).startswith(name)  # noqa: PT017 (rows are fine too)


def test_a_byte_order_mark_and_blanks_around_names_are_no_part_of_them(tmp_path: Path) -> None:
    source = opened(tmp_path / "a.csv", "\ufeff a ,b\n1,2\n")
    assert source.columns == ("a", "b")
    assert opened(tmp_path / "a.jsonl", '\ufeff{"a": 1}\n').columns == ("a",)


def test_only_the_columns_that_are_asked_for_are_read(tmp_path: Path) -> None:
    assert rows(opened(tmp_path / "a.csv", "a,b,c\n1,2,3\n"), ["c", "a"]) == [(2, {"c": "3", "a": "1"})]


def test_an_index_column_is_no_column(tmp_path: Path) -> None:
    assert rows(opened(tmp_path / "a.csv", ",a\n0,x\n1,y\n")) == [(2, {"a": "x"}), (3, {"a": "y"})]
    pq.write_table(pa.table({"a": ["x"], "__index_level_0__": [3]}), tmp_path / "a.parquet")
    assert opened(tmp_path / "a.parquet").columns == ("a",)


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_a_line_of_17_megabytes_is_refused_before_it_fills_the_memory(name: str, tmp_path: Path) -> None:
    head = {"a.csv": b"a\n1\n", "a.jsonl": b'{"a": 1}\n\n'}[name]
    message = refusal(tmp_path / name, head + b"x" * (17 * 2**20))
    assert message == f"{name}:3: a line of over {MAX_LINE} characters"


def test_json_lines_are_read_without_a_first_pass_and_some_may_be_passed_over_however_long(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n{"skip": "' + b"x" * (MAX_LINE + 9) + b'"}\r\n{"skip": [\n{"a": 2}\n{"a": 3')
    problems: list[Problem] = []
    lines = JsonLinesFile(InputFile(path=path, name=path.name))
    items = lines.objects(problems, passes_over=lambda head: head.startswith('{"skip"'))
    assert next(items) == (1, {"a": 1})
    assert list(items) == [(4, {"a": 2})]
    assert [problem.line for problem in problems] == [5]


def test_a_bomb_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    content = gzip.compress(b"a\n" + bytes(2**24) * 4)
    assert "a.csv.gz:2: " in refusal(tmp_path / "a.csv.gz", content)


@pytest.mark.parametrize("name", ["a.csv.gz", "a.jsonl.gz"])
def test_a_gzip_file_damaged_at_any_place_is_rows_or_a_message(name: str, tmp_path: Path) -> None:
    line = b'"x","y"\n' if name == "a.csv.gz" else b'{"a": "x"}\n'
    content = gzip.compress(b"".join(line.replace(b"x", b"%d" % i) for i in range(300)))
    for place in range(10, len(content), 23):
        damaged = content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        try:
            rows(opened(tmp_path / name, damaged))
        except InputError as error:
            assert str(error).startswith(name)  # noqa: PT017 (a lucky change is fine too)


def test_bytes_that_are_not_text_are_refused_with_their_line_whatever_else_stands_there(tmp_path: Path) -> None:
    assert "a.csv:1: is not UTF-8 text (byte 0x80)" in refusal(tmp_path / "a.csv", b"\x01\x01\x01\x80\x00")
    assert "a.csv:2: is not UTF-8 text (byte 0xff)" in refusal(tmp_path / "a.csv", b"abc\n\xff\0\n\x80")


def test_rows_that_cannot_be_read_are_told_together(tmp_path: Path) -> None:
    message = refusal(tmp_path / "a.csv", "a,b\n1\n1,2\n1,2,3\n")
    assert message.splitlines() == [
        "a.csv:2: 1 cell where the header has 2 columns", "a.csv:4: 3 cells where the header has 2 columns",
    ]  # fmt: skip
    message = refusal(tmp_path / "a.jsonl", '{"a": 1}\n{"a": \n[1]\n')
    assert "a.jsonl:2: is not JSON" in message or "a.jsonl:3" in message


def test_line_breaks_in_a_header_are_counted(tmp_path: Path) -> None:
    assert rows(opened(tmp_path / "a.csv", '"a\nb",c\n1,2\n')) == [(3, {"a\nb": "1", "c": "2"})]


def test_json_keeps_text_as_text_and_numbers_as_written(tmp_path: Path) -> None:
    content = '{"a": "1.50", "b": 1.5, "c": true}\n{"a": "\\u00e9\\ud83d\\ude00", "b": 12345678901234567890, "c": ""}\n'
    assert [row for _, row in rows(opened(tmp_path / "a.jsonl", content))] == [
        {"a": "1.50", "b": "1.5", "c": "1"},
        {"a": "\u00e9\U0001f600", "b": "12345678901234567890", "c": None},
    ]


def test_parquet_rows_are_counted_over_row_groups_and_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.readers.table.BATCH_ROWS", 3)
    pq.write_table(pa.table({"a": np.arange(10), "b": ["x"] * 10}), tmp_path / "a.parquet", row_group_size=4)
    source = opened(tmp_path / "a.parquet")
    assert source.unit == "row"
    assert [(line, row["a"]) for line, row in rows(source)] == [(i + 1, i) for i in range(10)]


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.struct([("x", pa.int64())]), pa.map_(pa.string(), pa.int8())]
)
def test_a_nested_parquet_column_is_refused_only_when_it_is_needed(kind: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"], "b": pa.nulls(1, kind)}), tmp_path / "a.parquet")
    source = opened(tmp_path / "a.parquet")
    assert rows(source, ["a"]) == [(1, {"a": "x"})]
    with pytest.raises(InputError, match=r"column 'b' is of type .*; plain values are expected"):
        rows(source)


def test_a_parquet_file_cut_at_any_place_is_a_message(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": ["x", "y"], "b": [0.1, 0.2]}), tmp_path / "a.parquet")
    content = (tmp_path / "a.parquet").read_bytes()
    for end in range(0, len(content), 37):
        assert "a.parquet: is" in refusal(tmp_path / "a.parquet", content[:end])


@pytest.mark.parametrize("column", ["trace_id", "text"])
def test_parquet_text_that_is_not_utf_8_is_a_message(column: str, tmp_path: Path) -> None:
    raw = pa.array([b"fine", b"\xed\xa0\x80"], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 2, raw.buffers())
    pq.write_table(pa.table({column: text}), tmp_path / "a.parquet")
    message = refusal(tmp_path / "a.parquet", (tmp_path / "a.parquet").read_bytes())
    assert message.startswith("a.parquet: is damaged after row 0: ")
    assert "Invalid UTF8" in message


def test_the_format_is_what_the_name_says_in_any_case(tmp_path: Path) -> None:
    assert rows(opened(tmp_path / "A.CSV", "a\n1\n")) == [(2, {"a": "1"})]
    assert rows(opened(tmp_path / "A.Tsv.GZ", gzip.compress(b"a\tb\n1\t2\n"))) == [(2, {"a": "1", "b": "2"})]
    assert "unknown extension" in refusal(tmp_path / "a.xlsx", "x")
