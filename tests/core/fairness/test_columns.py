"""Columns of any origin: missing values stay missing, and the positive value is declared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from core.errors import InputError, UndefinedError
from core.fairness.columns import coded, label_of, numeric, outcome

TEXT = ["b", None, "a", "b"]
SAME_TEXT = [
    TEXT,
    np.array(TEXT, dtype=object),
    np.array(["b", np.nan, "a", "b"], dtype=object),
    ["b", float("nan"), "a", "b"],
    pd.Series(TEXT),
    pd.Series(TEXT, dtype=object),
    pd.Series(TEXT, dtype="string"),
    pd.Series(TEXT, dtype="category"),
    pd.Categorical(TEXT),
    pd.Series(TEXT, dtype=pd.ArrowDtype(pa.string())),
    pa.array(TEXT),
    pa.chunked_array([["b", None], ["a", "b"]]),
    pa.array(TEXT).dictionary_encode(),
]
NUMBERS = [10, None, 9, 10]
SAME_NUMBERS = [
    NUMBERS,
    np.array([10, np.nan, 9, 10]),
    pd.Series(NUMBERS),
    pd.Series(NUMBERS, dtype="Int64"),
    pd.Series(NUMBERS, dtype="category"),
    pd.Series(NUMBERS, dtype=pd.ArrowDtype(pa.int8())),
    pa.array(NUMBERS),
    pd.Series(["10", None, 9, 10.0], dtype=object),
]
SAME_BOOLEANS = [
    [True, None, False, True],
    np.array([True, None, False, True], dtype=object),
    pd.Series([True, None, False, True]),
    pd.Series([True, None, False, True], dtype="boolean"),
    pa.array([True, None, False, True]),
]


@pytest.mark.parametrize("column", SAME_TEXT, ids=lambda column: type(column).__name__)
def test_text_of_every_type_reads_the_same_with_its_missing_value(column: Any) -> None:
    read = coded(column, "sex")
    assert (read.codes.tolist(), read.labels) == ([1, -1, 0, 1], ("a", "b"))


@pytest.mark.parametrize("column", SAME_NUMBERS, ids=lambda column: type(column).__name__)
def test_numbers_are_ordered_as_numbers_and_labelled_as_whole_ones(column: Any) -> None:
    read = coded(column, "age")
    labels = [None if code < 0 else read.labels[code] for code in read.codes]
    assert labels == ["10", None, "9", "10"]
    if not (isinstance(column, pd.Series) and column.dtype == object):
        assert read.labels == ("9", "10")


@pytest.mark.parametrize("column", SAME_BOOLEANS, ids=lambda column: type(column).__name__)
def test_booleans_are_labels_and_outcomes(column: Any) -> None:
    assert coded(column, "flag").labels == ("false", "true")
    assert outcome(column, "y_pred").tolist() == [1, 2, 0, 1]
    assert outcome(column, "y_pred", positive=1).tolist() == [1, 2, 0, 1]


def test_a_level_that_no_row_has_is_kept() -> None:
    read = coded(pd.Categorical(["x"], categories=["y", "x"]), "group")
    assert (read.codes.tolist(), read.labels) == ([0], ("x", "y"))


def test_a_date_is_a_label() -> None:
    assert coded(pd.Series(pd.to_datetime(["2020-01-02", None])), "day").labels == ("2020-01-02 00:00:00",)


@pytest.mark.parametrize(
    ("column", "positive", "expected"),
    [
        (["yes", "no", None], "yes", [1, 0, 2]),
        (["yes", "no", None], "no", [0, 1, 2]),
        ([1, 2, 2], 1, [1, 0, 0]),  # credit: 1 is good, 2 is bad
        ([1, 2, 2], 2, [0, 1, 1]),
        (["1", "2"], 1, [1, 0]),
        ([1.0, 2.0], "1", [1, 0]),
        ([0, 1, 0], None, [0, 1, 0]),
        ([0, 1, 0], 0, [1, 0, 1]),
        (["no", "no"], "yes", [0, 0]),  # nobody selected
        ([None, None], "yes", [2, 2]),
        ([0, 0], None, [0, 0]),
    ],
)
def test_the_declared_value_is_the_positive_one(column: list[Any], positive: Any, expected: list[int]) -> None:
    assert outcome(column, "y_pred", positive).tolist() == expected


@pytest.mark.parametrize(
    ("column", "positive", "message"),
    [
        (["yes", "no"], None, "say which one is positive"),  # fairlearn: a difference of 0, silently
        ([1, 2], None, "say which one is positive"),
        ([0, 1, 2], 1, "has 3 values"),  # fairlearn: .5, silently
        (["yes", "no"], "Yes", "they have to be equal"),
        (["yes"], "Yes ", "they have to be equal"),
        (["a", "b"], "c", "none of them is the positive one"),
    ],
)
def test_a_positive_value_is_never_guessed(column: list[Any], positive: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        outcome(column, "y_pred", positive)


@pytest.mark.parametrize("column", [np.zeros((2, 2)), [[1], [2]], pd.DataFrame({"a": [1]})])
def test_a_column_has_one_dimension_and_plain_values(column: Any) -> None:
    with pytest.raises((InputError, UndefinedError)):
        coded(column, "sex")


@pytest.mark.parametrize(
    "column",
    [
        [0.5, None], np.array([0.5, np.nan]), pd.Series([0.5, None]), pd.Series([0.5, None], dtype="Float64"),
        pa.array([0.5, None]), pa.chunked_array([[0.5], [None]]),
    ],
    ids=lambda column: type(column).__name__,
)  # fmt: skip
def test_numbers_of_every_type_have_their_missing_value(column: Any) -> None:
    assert np.array_equal(numeric(column, "score"), [0.5, np.nan], equal_nan=True)


@pytest.mark.parametrize("column", [["a"], [np.inf], np.zeros((2, 2))])
def test_what_is_no_finite_number_is_refused(column: Any) -> None:
    with pytest.raises(UndefinedError):
        numeric(column, "score")


def test_one_value_has_one_label_in_every_column() -> None:
    assert {label_of(1), label_of(1.0), label_of("1"), label_of(np.int8(1))} == {"1"}
    assert label_of(True) != label_of(1)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint16", "Int64"])
@pytest.mark.parametrize("values", [[3, 120, 7, 3], [5, 4, 3, 5], [0, 1, 0, 1]])
def test_integers_are_coded_alike_whether_counted_or_hashed(values: list[int], dtype: str) -> None:
    expected = coded([str(value) for value in values], "g")
    for column in (pd.Series(values, dtype=dtype), pd.Series(values, dtype=dtype).to_numpy()):
        read = coded(column, "g")
        assert [read.labels[code] for code in read.codes] == [expected.labels[code] for code in expected.codes]
        assert list(read.labels) == [str(value) for value in sorted(set(values))]


def test_negative_and_far_apart_integers_are_labels_too() -> None:
    assert coded(np.array([-128, 127, -128], dtype=np.int8), "g").labels == ("-128", "127")
    read = coded(np.array([10**12, -5, 10**12]), "g")
    assert (read.codes.tolist(), read.labels) == ([1, 0, 1], ("-5", "1000000000000"))
