"""All that is wrong with an input is told at once, in its order, and no more than a person reads."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.data.problems import FILE_SHIFT, ProblemLog, nearest, quoted
from core.errors import SHOWN_PROBLEMS, InputError


def test_nothing_wrong_stops_nothing() -> None:
    log = ProblemLog(["a.csv"])
    log.stop_if_any()
    assert not log


@given(st.integers(1, 500), st.integers(0, 300))
def test_the_first_twenty_are_shown_and_all_are_counted(n_rows: int, n_single: int) -> None:
    log = ProblemLog(["a.csv"])
    log.rows(np.arange(1, n_rows + 1), np.ones(n_rows, bool), lambda i: f"row {i}")
    for line in range(n_single):
        log.at(1000 + line, "another")
    with pytest.raises(InputError) as error:
        log.stop()
    total = n_rows + n_single
    assert (log.count, error.value.count) == (total, total)
    lines = str(error.value).splitlines()
    assert len(lines) == min(total, SHOWN_PROBLEMS) + (total > SHOWN_PROBLEMS)
    if total > SHOWN_PROBLEMS:
        hidden = total - SHOWN_PROBLEMS
        assert lines[-1] == f"... and {hidden} more problem{'s' if hidden > 1 else ''}"


def test_problems_come_in_the_order_of_files_and_lines_whatever_found_them_first() -> None:
    log = ProblemLog(["b.csv", "a.parquet", "c.jsonl"], ["line", "row", "line"])
    log.at((1 << FILE_SHIFT) | 3, "third")
    log.at(9, "second")
    log.at(2, "first")
    with pytest.raises(InputError) as error:
        log.stop_if_any()
    assert str(error.value).splitlines() == ["b.csv:2: first", "b.csv:9: second", "a.parquet:row 3: third"]


def test_a_place_is_named_inside_a_message_as_at_its_head() -> None:
    log = ProblemLog(["b.csv", "a.parquet", "c.jsonl"], ["line", "row", "line"])
    assert (log.where(7), log.where((1 << FILE_SHIFT) | 3)) == ("b.csv:7", "a.parquet:row 3")
    assert log.where((2 << FILE_SHIFT) | (2**FILE_SHIFT - 1)) == f"c.jsonl:{2**FILE_SHIFT - 1}"


@given(st.text())
def test_a_quoted_value_is_short_and_on_one_line(text: str) -> None:
    assert len(quoted(text)) <= 60
    assert len(quoted(text).splitlines()) == 1


def test_the_nearest_name_is_suggested_and_else_all_are_listed() -> None:
    assert nearest("self-ham", ["hate", "self-harm"]) == "did you mean 'self-harm'?"
    assert nearest("x", ["hate", "self-harm"]) == "known here: hate, self-harm"
