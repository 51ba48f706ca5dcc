"""The walker over one large JSON document: it agrees with Python's parser, and memory is bounded by an element."""

from __future__ import annotations

import gzip
import json
import math
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.readers import json_document
from tasks.readers.json_document import EACH, MAX_DEPTH, MAX_ELEMENT, JsonDocument, parse_json
from tasks.storage import InputFile

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=80, deadline=None)


def opened(path: Path, content: str | bytes, keys: tuple[str, ...] = ("rows",), **more: Any) -> JsonDocument:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return JsonDocument(InputFile(path=path, name=path.name), keys, **more)


def refusal(path: Path, content: str | bytes, keys: tuple[str, ...] = ("rows",)) -> str:
    with pytest.raises(InputError) as error:
        list(opened(path, content, keys).elements())
    return str(error.value)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(['"', "\\", '\\"', "[{", "]}"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


beside = st.dictionaries(texts, values, max_size=3)
layers = st.lists(st.tuples(texts, beside, beside), max_size=3)


def wrapped(rows: Any, around: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> Any:
    """Put rows into objects, the first layer innermost."""
    for key, before, after in around:
        rows = {**{name: item for name, item in before.items() if name != key}, key: rows} | {
            name: item for name, item in after.items() if name != key
        }
    return rows


@IN_FOLDER
@given(
    rows=st.lists(values, max_size=6),
    around=layers,
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    form=st.sampled_from(["plain", "marked", "gzipped"]),
    chunk=st.sampled_from([1, 2, 3, 7, 64]),
)
def test_any_document_is_what_pythons_parser_reads(
    rows: list[Any], around: list[Any], indent: int | None, ascii_only: bool, form: str, chunk: int, tmp_path: Path
) -> None:
    content = json.dumps(wrapped(rows, around), indent=indent, ensure_ascii=ascii_only).encode()
    keys = tuple(key for key, _, _ in reversed(around))
    rest = {} if not keys else json.loads(content)
    within = rest
    for key in keys[:-1]:
        within = within[key]
    if keys:
        del within[keys[-1]]
    content = {"plain": content, "marked": b"\xef\xbb\xbf" + content, "gzipped": gzip.compress(content, 1)}[form]
    path = tmp_path / ("a.json.gz" if form == "gzipped" else "a.json")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_document, "CHUNK", chunk)
        walked = opened(path, content, keys)
        assert list(walked.elements()) == list(enumerate(rows, start=1))
        assert walked.head() == rest


@IN_FOLDER
@given(content=st.text(st.sampled_from('{}[],:" \\\n1-e.truenlaNI\ud7ff')), wrap=st.booleans())
def test_any_text_is_read_as_pythons_parser_does_or_is_a_message(content: str, wrap: bool, tmp_path: Path) -> None:
    document = f'{{"rows": [{content}], "b": 1}}' if wrap else content
    try:
        expected = parse_json(document)
    except (ValueError, RecursionError):
        expected = None
    walked = opened(tmp_path / "a.json", document)
    try:
        found = [item for _, item in walked.elements()]
    except InputError as error:
        assert not isinstance(expected, dict) or not isinstance(expected.get("rows"), list), str(error)  # noqa: PT017
    else:
        assert found == expected["rows"]
        assert {**walked.head(), "rows": found} == expected


@IN_FOLDER
@given(content=st.binary(max_size=60))
def test_any_bytes_are_elements_or_a_message(content: bytes, tmp_path: Path) -> None:
    for name in ("a.json", "a.json.gz"):
        try:
            list(opened(tmp_path / name, content).elements())
        except InputError as error:
            assert str(error).startswith(name)  # noqa: PT017


def test_a_document_cut_at_any_place_is_a_message_with_the_place(tmp_path: Path) -> None:
    content = '{"a": {"b": "c"},\n "rows": [1, {"x": ["y"]},\n "z"], "n": null}'
    for end in range(len(content)):
        message = refusal(tmp_path / "a.json", content[:end])
        assert message.startswith("a.json:")
        assert "cut off" in message
        assert "(byte " in message
    expected = "a.json:2: element 2 of 'rows' is cut off: the file ends within it (byte 31)"
    assert refusal(tmp_path / "a.json", content[:38]) == expected


def test_a_gzip_file_cut_or_damaged_at_any_place_is_elements_or_a_message(tmp_path: Path) -> None:
    content = gzip.compress(json.dumps({"rows": [{"x": i} for i in range(200)]}).encode())
    for place in range(2, len(content), 11):
        assert "a.json.gz:1: is damaged: " in refusal(tmp_path / "a.json.gz", content[:place])
        damaged = content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :]
        try:
            list(opened(tmp_path / "a.json.gz", damaged).elements())
        except InputError as error:
            assert str(error).startswith("a.json.gz")  # noqa: PT017 (a lucky change is fine too)


def test_a_name_that_does_not_say_the_format_is_refused(tmp_path: Path) -> None:
    assert "not the format that its extension says" in refusal(tmp_path / "a.json", gzip.compress(b'{"rows": []}'))
    assert "not the format that its extension says" in refusal(tmp_path / "a.json.gz", '{"rows": []}')


def test_tokens_that_json_does_not_have_are_texts(tmp_path: Path) -> None:
    walked = opened(tmp_path / "a.json", '{"rows": [NaN, {"x": [-Infinity, Infinity]}], "y": NaN}')
    assert [item for _, item in walked.elements()] == ["NaN", {"x": ["-Infinity", "Infinity"]}]
    assert walked.head() == {"y": "NaN"}
    assert math.isinf(parse_json("1e999"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"rows": [1, [2, 3}]}', "a.json:1: element 2 of 'rows' is not JSON: Expecting ',' delimiter (byte 18)"),
        ('{"rows": [1,\n {"a": 1,\n "a": 2}]}', "a.json:2: element 2 of 'rows' cannot be read: a key stands twice"),
        ('{"b": 1,\n "b": 2, "rows": []}', "a.json:2: key 'b' stands twice (byte 10)"),
        ('{"rows": [1], "rows": [2]}', "key 'rows' stands twice (byte 14)"),
        ('{"rows": [1 2]}', "a.json:1: is not JSON: '2' where ',' is expected (byte 12)"),
        ('{"rows": [1,]}', "is not JSON: ']' where element 2 of 'rows' is expected (byte 12)"),
        ('{"rows": [,1]}', "is not JSON: ',' where element 1 of 'rows' is expected (byte 10)"),
        ('{"rows": [1],}', "is not JSON: '}' where a key in double quotes is expected (byte 13)"),
        ("{'rows': [1]}", "where a key in double quotes is expected (byte 1)"),
        ('{"rows": [nil]}', "element 1 of 'rows' is not JSON: Expecting value (byte 10)"),
        ('{"rows": ["a\nb"]}', "element 1 of 'rows' is not JSON: Invalid control character at (byte 12)"),
        ('{"rows": ["\\ud800"]}', "element 1 of 'rows' cannot be read: holds half a character"),
        ('{"rows": []} {}', "something stands after the end of the document (byte 13)"),
        ('{"other": [1]}', "a.json: there is no array at 'rows'"),
        ('{"rows": {"a": 1}}', "a.json: there is no array at 'rows'"),
        ("[1, 2]", "a.json: there is no array at 'rows'"),
        ("", "ends where the document is expected"),
        ('{"rows": [%s]}' % ("9" * 5000), "element 1 of 'rows' cannot be read: Exceeds the limit"),
    ],
)  # fmt: skip
def test_what_is_no_such_document_is_refused_with_the_place(content: str, message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path / "a.json", content)


def test_a_document_that_is_no_object_has_no_head(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one JSON object is expected"):
        opened(tmp_path / "a.json", "[1, 2]").head()


def test_bytes_that_are_not_text_are_refused_with_their_place(tmp_path: Path) -> None:
    message = refusal(tmp_path / "a.json", b'{"rows": ["a",\n ["b",\n"\xff"]]}')
    assert message == "a.json:3: element 2 of 'rows' is not UTF-8 text (byte 0xff) (byte 23)"


@pytest.mark.parametrize("pair", ["[]", "{}"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 2, MAX_DEPTH + 3, 10_000, 1_000_000])
def test_nesting_is_refused_beyond_the_limit_wherever_it_stands(pair: str, depth: int, tmp_path: Path) -> None:
    first, last = ("[", "]") if pair == "[]" else ('{"k": ', "}")
    deep = first * (depth - 1) + pair + last * (depth - 1)
    for content in (f'{{"rows": [1, {deep}]}}', f'{{"a": {deep}, "rows": [1, 2]}}'):
        walked = opened(tmp_path / "a.json", content)
        if depth == MAX_DEPTH + 2:
            assert len(list(walked.elements())) == 2
            continue
        with pytest.raises(InputError, match=f"is nested deeper than {MAX_DEPTH} levels"):
            list(walked.elements())


def test_an_element_is_refused_beyond_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_document, "MAX_ELEMENT", 10)
    assert len(list(opened(tmp_path / "a.json", '{"rows": ["12345678", 1234567890]}').elements())) == 2
    for large in ('"123456789"', "12345678901", "[1, 2, 3, 4]"):
        message = refusal(tmp_path / "a.json", f'{{"rows": [1, {large}]}}')
        assert message == "a.json:1: element 2 of 'rows' is larger than 10 bytes (byte 13)"
    assert "the value of 'b' is larger than 10 bytes" in refusal(tmp_path / "a.json", '{"b": "123456789", "rows": []}')


def test_what_stands_beside_the_array_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_document, "MAX_HEAD", 30)
    content = '{"a": "1234567890", "b": "1234567890", "rows": []}'
    assert "holds over 30 bytes beside 'rows'" in refusal(tmp_path / "a.json", content)
    walked = opened(tmp_path / "a.json", content, left_out=[("a",)])
    assert walked.head() == {"b": "1234567890"}
    assert list(walked.elements()) == []


def test_what_is_left_out_may_be_any_value_and_of_any_length(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_document, "MAX_ELEMENT", 50)
    content = json.dumps({"c": {"tests": list(range(500)), "x": 1, "y": {"z": 2}}, "rows": [{"tests": 3}]})
    walked = opened(tmp_path / "a.json", content, left_out=[("c", "tests"), ("c", "y"), ("d", "e")])
    assert walked.head() == {"c": {"x": 1}}
    assert list(walked.elements()) == [(1, {"tests": 3})]


@IN_FOLDER
@given(
    rows=st.lists(st.dictionaries(st.sampled_from(["a", "b"]), values) | values, max_size=5),
    beside=st.dictionaries(st.sampled_from(["b", "c"]), values),
    indent=st.sampled_from([None, 1]),
    ascii_only=st.booleans(),
    chunk=st.sampled_from([1, 2, 3, 7, 64]),
)
def test_what_is_left_out_of_elements_is_all_that_is_missing(
    rows: list[Any], beside: dict[str, Any], indent: int | None, ascii_only: bool, chunk: int, tmp_path: Path
) -> None:
    content = json.dumps({**beside, "rows": rows}, indent=indent, ensure_ascii=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_document, "CHUNK", chunk)
        walked = opened(tmp_path / "a.json", content, left_out=[("b",), ("rows", EACH, "b")])
        without = [{k: v for k, v in row.items() if k != "b"} if isinstance(row, dict) else row for row in rows]
        assert list(walked.elements()) == list(enumerate(without, start=1))
        assert walked.head() == {key: value for key, value in beside.items() if key != "b"}
        alone = opened(tmp_path / "a.json", json.dumps(beside, indent=indent), None, left_out=[("b",)])
        assert alone.head() == {key: value for key, value in beside.items() if key != "b"}


def test_what_is_left_out_may_not_be_cut_off(tmp_path: Path) -> None:
    content = '{"rows": [{"x": [["a\\"", {}], "b"], "y": 1}]}'
    assert list(opened(tmp_path / "a.json", content, left_out=[("rows", EACH, "x")]).elements()) == [(1, {"y": 1})]
    for end in range(len(content)):
        with pytest.raises(InputError, match="cut off"):
            list(opened(tmp_path / "a.json", content[:end], left_out=[("rows", EACH, "x")]).elements())


def test_problems_in_an_element_that_is_walked_name_it(tmp_path: Path) -> None:
    for element, message in (
        ('{"a": 1, "a": 2}', "a.json:2: key 'a' stands twice (byte 30)"),
        ('{"a": nil}', "a.json:2: the value of 'a' in element 2 of 'rows' is not JSON: Expecting value (byte 27)"),
        ('{"b": }', "is not JSON: '}' where the value of 'b' in element 2 of 'rows' is expected (byte 27)"),
    ):
        content = f'{{"rows": [{{}},\n       {element}]}}'
        walked = opened(tmp_path / "a.json", content, left_out=[("rows", EACH, "b")])
        with pytest.raises(InputError) as error:
            list(walked.elements())
        assert message in str(error.value)


@pytest.mark.parametrize("filler", [b" ", b"x", b"[", b"9", b"\n"])
def test_a_small_file_that_unpacks_to_one_huge_value_fills_no_memory(filler: bytes, tmp_path: Path) -> None:
    size = 4 * MAX_ELEMENT
    content = gzip.compress(b'{"rows": [' + (b'"' if filler == b"x" else b"") + filler * size, 1)
    tracemalloc.start()
    message = refusal(tmp_path / "a.json.gz", content)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    expected = {b" ": "cut off", b"\n": "cut off", b"[": "is nested deeper than"}.get(filler, "is larger than")
    assert expected in message
    assert peak < 5 * MAX_ELEMENT


def test_memory_is_that_of_an_element_however_many_there_are(tmp_path: Path) -> None:
    row = json.dumps({"text": "x" * 1000, "list": [1, 2, {"a": None}]})
    path = tmp_path / "a.json"
    with path.open("w") as file:
        file.write('{"rows": [' + ",\n".join([row] * 20_000) + "]}")
    walked = JsonDocument(InputFile(path=path, name=path.name), ("rows",))
    tracemalloc.start()
    assert sum(1 for _ in walked.elements()) == 20_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * json_document.CHUNK < path.stat().st_size
