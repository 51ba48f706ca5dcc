"""Columns from text or Parquet: whole numbers stay exact, and one wrong cell is one problem."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.columns import EXACT_IN_FLOATS, numbers, shown, whole_numbers
from core.data.problems import ProblemLog
from core.errors import InputError


def read(array: Any) -> tuple[list[int], list[str]]:
    log = ProblemLog(["a.csv"])
    values = whole_numbers(array, "turn", np.arange(1, len(array) + 1), log)
    try:
        log.stop_if_any()
    except InputError as error:
        return values.tolist(), [problem.message for problem in error.problems]
    return values.tolist(), []


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1))
def test_whole_numbers_are_exact_from_text_and_from_integers(values: list[int]) -> None:
    assert read(pa.array([f" {value}" for value in values])) == (values, [])
    assert read(pa.array(values, pa.uint64())) == (values, [])
    assert read(pa.array(values, pa.int64())) == (values, [])


@given(st.lists(st.integers(0, EXACT_IN_FLOATS - 1), min_size=1))
def test_whole_numbers_written_as_floats_are_accepted_while_floats_hold_them(values: list[int]) -> None:
    assert read(pa.array([f"{value}.0" for value in values])) == (values, [])
    assert read(pa.array(values, pa.float64())) == (values, [])


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (pa.array(["9223372036854775808"]), "turn 9223372036854775808 is too large"),
        (pa.array([2**64 - 1], pa.uint64()), "turn 18446744073709551615 is too large"),
        (pa.array(["9007199254740993.0"]), "turn 9007199254740993.0 is too large"),
        (pa.array([float(EXACT_IN_FLOATS)]), "turn 9007199254740992.0 is too large"),
        (pa.array(["-1e300"]), "turn -1e300 is too large"),
        (pa.array(["0.5"]), "turn 0.5 is not a whole number"),
        (pa.array([1.5]), "turn 1.5 is not a whole number"),
        (pa.array(["-3"]), "turn -3 is negative; turns are counted from 0"),
        (pa.array([-3]), "turn -3 is negative; turns are counted from 0"),
        (pa.array(["-3.0"]), "turn -3 is negative; turns are counted from 0"),
        (pa.array(["0x10"]), "turn '0x10' is not a number"),
        (pa.array(["one"]), "turn 'one' is not a number"),
        (pa.array([""]), "turn is empty; a whole number from 0 is expected"),
        (pa.array([None], pa.int64()), "turn is empty; a whole number from 0 is expected"),
        (pa.array([Decimal("1.5")]), "turn 1.5 is not a whole number"),
        (pa.array([1], pa.timestamp("s")), "column 'turn' is of type timestamp[s]; numbers are expected"),
    ],
)
def test_a_wrong_whole_number_is_one_problem(array: Any, message: str) -> None:
    _, messages = read(array)
    assert messages[0] == message
    assert len(messages) == 1 or "expected" in message


def test_an_empty_cell_among_large_integers_costs_none_of_them_a_digit() -> None:
    values, messages = read(pa.array([EXACT_IN_FLOATS + 1, None], pa.int64()))
    assert values[0] == EXACT_IN_FLOATS + 1
    assert messages == ["turn is empty; a whole number from 0 is expected"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_is_shown_with_all_its_digits(value: float) -> None:
    assert float(shown(value)) == value


def test_an_empty_score_is_missing_and_not_0() -> None:
    log = ProblemLog(["a.csv"])
    values, valid = numbers(pa.array(["0.5", " "]), "score", np.array([1, 2]), log)
    assert valid is not None
    assert (values[0], valid.tolist(), log.count) == (0.5, [True, False], 0)
