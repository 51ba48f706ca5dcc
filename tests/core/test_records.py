"""Records: plain data, canonical form, ids that say what was measured and nothing else."""

from __future__ import annotations

import json
import math
import random
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import RecordError
from core.records import (
    MANIFEST_FROM,
    FileReference,
    build,
    canonical,
    differences_of,
    digest,
    parse,
    plain,
    record_id,
    seal,
)

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4))
objects = st.dictionaries(texts, values, max_size=5)
references = st.lists(
    st.builds(
        FileReference,
        role=st.sampled_from(["scores", "golden", "calibration"]),
        sha256=st.sampled_from(["a" * 64, "b" * 64, "c" * 64]),
        rows=st.integers(0, 10),
        uri=texts,
    ),
    max_size=4,
)


def sealed(**changes: Any) -> dict[str, Any]:
    parts: dict[str, Any] = {
        "spec": {"name": "x"}, "seed": 7, "inputs": [FileReference(role="scores", sha256="a" * 64, rows=3, uri="here")],
        "result": {"rate": 0.25}, "created": "2026-11-29T00:00:00Z", "software": {"assay": "1"},
    }  # fmt: skip
    return seal("assay.measurement", **parts | changes)


@given(values)
def test_plain_data_stays_as_it_is_once_rounded(value: Any) -> None:
    once = plain(value)
    assert plain(once) == once
    assert json.loads(canonical(value)) == once
    assert canonical(once) == canonical(value)
    assert digest(once) == digest(value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_keep_twelve_significant_digits(value: float) -> None:
    stored = plain(value)
    assert math.isclose(stored, value, rel_tol=5e-12, abs_tol=5e-324)
    assert stored == float(f"{stored:.12g}")
    assert math.copysign(1, stored) == 1 or stored < 0


def test_minus_zero_is_zero() -> None:
    assert canonical([-0.0, 0.0, np.float64(-0.0)]) == "[0.0,0.0,0.0]"
    assert digest({"x": -0.0}) == digest({"x": 0.0})


def test_a_difference_beyond_the_twelfth_digit_is_none() -> None:
    assert digest(0.1 + 0.2) == digest(0.3)
    assert digest(1.0) != digest(1.00000000001)
    assert digest(1) != digest(1.0)
    assert digest(True) != digest(1)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan"), [1, {"x": math.nan}]])
def test_nan_and_infinity_have_no_place_in_a_record(value: Any) -> None:
    with pytest.raises(RecordError, match="what is not measurable has a status, not a number"):
        plain(value)


@pytest.mark.parametrize("value", [{1, 2}, object(), 1j])
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(RecordError, match="cannot hold a"):
        plain(value)


def test_numpy_and_tuples_become_json() -> None:
    value = {"a": np.int64(3), "b": np.array([1.5, 2.0]), "c": (np.bool_(True), None), "d": np.float32(0.5)}
    assert plain(value) == {"a": 3, "b": [1.5, 2.0], "c": [True, None], "d": 0.5}


@given(objects, objects, references, st.integers(0, 2**63))
def test_a_sealed_record_is_read_back_as_it_was(spec: Any, result: Any, inputs: Any, seed: int) -> None:
    document = sealed(spec=spec, result=result, inputs=inputs, seed=seed)
    for text in (json.dumps(document), json.dumps(document, indent=1, sort_keys=True, ensure_ascii=False)):
        assert parse(text) == document
    assert record_id(document) == document["id"]


@given(texts, texts, st.dictionaries(texts, texts, max_size=3))
def test_the_id_does_not_depend_on_place_time_or_software(uri: str, created: str, software: dict[str, str]) -> None:
    moved = sealed(
        inputs=[FileReference(role="scores", sha256="a" * 64, rows=3, uri=uri)], created=created, software=software
    )
    assert moved["id"] == sealed()["id"]
    outputs = [{"role": "decisions", "uri": uri, "sha256": "f" * 64, "rows": 1}]
    assert record_id({**moved, "outputs": outputs}) == moved["id"]


@pytest.mark.parametrize(
    "change",
    [
        {"spec": {"name": "y"}}, {"seed": 8}, {"result": {"rate": 0.26}}, {"inputs": []},
        {"inputs": [FileReference(role="golden", sha256="a" * 64, rows=3)]},
        {"inputs": [FileReference(role="scores", sha256="b" * 64, rows=3)]},
        {"inputs": [FileReference(role="scores", sha256="a" * 64, rows=4)]},
    ],
)  # fmt: skip
def test_the_id_depends_on_all_that_the_record_says(change: Any) -> None:
    assert sealed(**change)["id"] != sealed()["id"]


@pytest.mark.parametrize("n", [2, MANIFEST_FROM, MANIFEST_FROM + 1, 300])
def test_the_order_of_inputs_does_not_matter_and_each_of_many_counts(n: int) -> None:
    inputs = [FileReference(role="scores", sha256=digest(i), rows=i, uri=f"{i}") for i in range(n)]
    shuffled = random.Random(n).sample(inputs, n)
    assert sealed(inputs=shuffled)["id"] == sealed(inputs=inputs)["id"]
    changed = [*inputs[:-1], FileReference(role="scores", sha256=inputs[-1].sha256, rows=n + 1)]
    assert sealed(inputs=changed)["id"] != sealed(inputs=inputs)["id"]
    assert parse(json.dumps(sealed(inputs=inputs)))["inputs"] == [
        plain(item) for item in sorted(inputs, key=lambda item: item.sha256)
    ]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"schema": "assay.measurement/2"}, "newer than this assay reads"),
        ({"schema": "assay.poem/1"}, "is not one of assay's"),
        ({"schema": "assay.measurement"}, "has no version number"),
        ({"schema": 3}, 'it has no "schema"'),
        ({"seed": "7"}, "missing or of the wrong kind: ['seed']"),
        ({"result": None, "spec": []}, "missing or of the wrong kind: ['spec', 'result']"),
        ({"inputs": [{"role": "scores"}]}, "missing or of the wrong kind: ['inputs']"),
        ({"seed": 8}, "its id does not fit its content"),
        ({"id": "0" * 64}, "its id does not fit its content"),
    ],
)
def test_a_document_that_is_no_record_of_ours_is_refused(change: Any, expected: str) -> None:
    with pytest.raises(RecordError) as error:
        parse(json.dumps(sealed() | change), source="m.json")
    assert str(error.value).startswith("m.json: ")
    assert expected in str(error.value)


@pytest.mark.parametrize("text", ["", "{", "NaN", '{"schema": NaN}', "[" * 50_000, "9" * 5000])
def test_text_that_is_no_json_is_refused(text: str) -> None:
    with pytest.raises(RecordError, match="not a record"):
        parse(text)


def test_a_number_too_large_for_a_float_is_refused() -> None:
    text = json.dumps(sealed()).replace("0.25", "1e999")
    with pytest.raises(RecordError, match="cannot hold inf"):
        parse(text)


# --- reading results back ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    rate: float
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    kind: Literal["a", "b"]
    n: int
    inner: Inner | None
    each: dict[str, Inner]


inners = st.builds(Inner, rate=st.floats(0, 1).map(plain), names=st.lists(texts, max_size=3).map(tuple))
outers = st.builds(
    Outer, kind=st.sampled_from(["a", "b"]), n=st.integers(), inner=st.none() | inners,
    each=st.dictionaries(texts, inners, max_size=3),
)  # fmt: skip


@given(outers)
def test_a_result_is_read_back_as_it_was(outer: Outer) -> None:
    assert build(Outer, json.loads(canonical(outer))) == outer


OUTER: dict[str, Any] = {"kind": "a", "n": 1, "inner": {"rate": 1}, "each": {}}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"kind": "c"}, "result.kind: 'c' is not one of ['a', 'b']"),
        ({"n": True}, "result.n: True is not of type int"),
        ({"n": 1.5}, "result.n: 1.5 is not of type int"),
        ({"inner": {}}, "result.inner.rate is missing"),
        ({"inner": 3}, "result.inner: an object is expected, not int"),
        ({"inner": {"rate": "high"}}, "result.inner.rate: 'high' is not of type float"),
        ({"inner": {"rate": 1, "names": "ab"}}, "result.inner.names: a list is expected"),
        ({"each": []}, "result.each: an object is expected"),
        ({"each": {"x": None}}, "result.each.x: an object is expected"),
    ],
)
def test_a_field_of_another_type_is_named(change: Any, expected: str) -> None:
    with pytest.raises(RecordError) as error:
        build(Outer, OUTER | change, where="result")
    assert expected in str(error.value)


def test_fields_of_later_versions_are_passed_over_and_whole_numbers_are_floats_too() -> None:
    assert build(Outer, OUTER | {"later": 1}).inner == Inner(rate=1.0)


def test_figures_that_differ_are_named_and_rounding_is_no_difference() -> None:
    recorded = {"a": [1.0, 2.0], "b": {"c": 3}, "d": "x", "gone": 1}
    derived = {"a": [1.0 + 1e-12, 2.1], "b": {"c": 3.0}, "d": "x", "new": None}
    assert list(differences_of(recorded, derived, "result")) == [
        "result.a[1]: recorded 2.0, re-derived 2.1",
        "result.b.c: recorded 3, re-derived 3.0",
        "result.gone is only in the record",
        "result.new is only in the re-derived one",
    ]


@dataclass(frozen=True, kw_only=True)
class Grown:
    """A record that got a field in a later version."""

    rate: float
    categories: dict[str, float]
    later: float | None = None


def test_a_record_from_before_a_field_existed_differs_in_nothing_else() -> None:
    now = Grown(rate=0.5, categories={"hate": 0.1, "violence": 0.2}, later=0.7)
    before = {"rate": 0.5, "categories": {"hate": 0.1, "violence": 0.2}}
    assert list(differences_of(before, now, "result")) == []
    assert list(differences_of(before | {"later": 0.6}, now, "result")) == [
        "result.later: recorded 0.6, re-derived 0.7"
    ]
    assert list(differences_of(before | {"categories": {"hate": 0.1}}, now, "result")) == [
        "result.categories.violence is only in the re-derived one"
    ]
    assert list(differences_of({"categories": before["categories"]}, now, "result")) == [
        "result.rate is only in the re-derived one"
    ]


@given(values, values)
def test_equal_documents_have_no_differences_and_others_have_one(one: Any, other: Any) -> None:
    assert list(differences_of(plain(one), plain(one), "x")) == []
    if list(differences_of(plain(one), plain(other), "x")) == []:
        assert str(plain(one))[:1] == str(plain(other))[:1]
