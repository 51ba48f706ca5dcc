"""Mann-Kendall's test: against counting all orders, and against scipy where nothing ties."""

from __future__ import annotations

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.trend import MAX_VALUES, level_of_look, mann_kendall_test


def rising(values: list[float] | tuple[float, ...]) -> int:
    return sum((b > a) - (b < a) for i, a in enumerate(values) for b in values[i + 1 :])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=7))
def test_the_p_value_is_the_share_of_orders_that_go_as_far_one_way(values: list[int]) -> None:
    found = mann_kendall_test(values)
    orders = [abs(rising(order)) for order in permutations(values)]
    assert found.statistic == rising(values)
    assert found.p_value == pytest.approx(sum(s >= abs(found.statistic) for s in orders) / len(orders), rel=1e-12)


@pytest.mark.parametrize("n", [5, 12, 40])
def test_without_ties_it_is_the_exact_test_of_kendalls_tau_in_scipy(n: int) -> None:
    from scipy.stats import kendalltau

    values = np.arange(n) / n + np.random.default_rng(n).normal(0.0, 0.5, n)
    expected = kendalltau(np.arange(n), values, method="exact").pvalue
    assert mann_kendall_test(values.tolist()).p_value == pytest.approx(float(expected), rel=1e-9)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1, 1), min_size=2, max_size=30))
def test_turning_a_series_round_turns_the_statistic_and_keeps_the_p_value(values: list[float]) -> None:
    there, back = mann_kendall_test(values), mann_kendall_test(values[::-1])
    assert there.statistic == -back.statistic
    assert there.p_value == back.p_value


@pytest.mark.parametrize("values", [[], [0.4], [0.3] * 50])
def test_a_series_in_which_nothing_differs_has_no_trend(values: list[float]) -> None:
    found = mann_kendall_test(values)
    assert (found.statistic, found.p_value) == (0, 1.0)


def test_the_longest_series_is_tested_exactly_far_out() -> None:
    assert mann_kendall_test(list(range(20))).p_value == pytest.approx(2 / math.factorial(20), rel=1e-12)
    assert 0.0 < mann_kendall_test(list(range(MAX_VALUES))).p_value < 1e-100


def test_what_is_no_series_is_refused() -> None:
    with pytest.raises(UndefinedError, match="must be numbers"):
        mann_kendall_test([0.1, math.nan])
    with pytest.raises(UndefinedError, match="at most 100"):
        mann_kendall_test([0.1] * 101)


def test_the_levels_of_all_looks_add_up_to_one_level() -> None:
    levels = [level for n in range(200_000) if (level := level_of_look(0.99, n)) is not None]
    assert sum(levels) == pytest.approx(0.01, rel=1e-4)
    assert levels == sorted(levels, reverse=True)
    assert level_of_look(0.99, 4) is None
