"""Two or more proportions side by side."""

from __future__ import annotations

import itertools
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr
from scipy.stats import chi2_contingency, fisher_exact, studentized_range

from core.errors import UndefinedError
from core.fairness.compared import all_pairs_p
from core.inference.intervals import wilson_limits
from core.inference.proportions import (
    exact_permutation_p,
    homogeneity_test,
    newcombe_interval,
    newcombe_limits,
    range_quantile,
    ratio_limits,
    wilson_arrays,
)

Z95 = 1.959963984540054


@st.composite
def tables(draw: st.DrawFn, largest: int = 60) -> tuple[int, int, int, int]:
    n1, n2 = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    return draw(st.integers(0, n1)), n1, draw(st.integers(0, n2)), n2


def by_enumeration(k1: int, n1: int, k2: int, n2: int) -> float:
    """The definition: share of the relabellings whose gap is at least as large, in whole numbers."""
    events, total = k1 + k2, n1 + n2
    observed = abs(k1 * total - events * n1)
    ways = {x: math.comb(n1, x) * math.comb(n2, events - x) for x in range(max(0, events - n2), min(events, n1) + 1)}
    hits = sum(count for x, count in ways.items() if abs(x * total - events * n1) >= observed)
    return hits / sum(ways.values())


def test_the_exact_p_and_newcombe_equal_every_row_of_the_oracle(shared: Path) -> None:
    text = (shared / "oracles" / "fairness" / "significance_seed001.json").read_text(encoding="utf-8")
    rows = json.loads(text)["two_group"]
    assert len(rows) == 7
    for row in rows:
        table = row["k1"], row["n1"], row["k2"], row["n2"]
        interval = newcombe_interval(*table)
        assert exact_permutation_p(*table) == pytest.approx(row["exact_permutation_p"], rel=1e-9), row["case"]
        assert [interval.low, interval.high] == pytest.approx(row["newcombe_95"], abs=1e-9), row["case"]


def test_flaws_that_were_measured_are_not_ours(shared: Path) -> None:
    text = (shared / "oracles" / "fairness" / "statistics_flaws_measured.json").read_text(encoding="utf-8")
    measured = json.loads(text)
    assert exact_permutation_p(90, 100, 10, 100) == pytest.approx(measured["separated_p_exact"], rel=1e-9)
    for name, table in (("0of40_vs_0of40", (0, 40, 0, 40)), ("0of30_vs_1of30", (0, 30, 1, 30))):
        gap, low, high = measured[f"newcombe_{name}"]
        interval = newcombe_interval(*table)
        assert (gap, interval.low, interval.high) == pytest.approx(
            (table[0] / table[1] - table[2] / table[3], low, high)
        )
        # Defect of the percentile interval: no width, or none on one side.
        assert measured[f"boot_{name}"][2] == 0.0 < high
    *table, exact, by_floats = measured["float_tie_error_in_perm"]["example(k1,n1,k2,n2,p_exact,p_float)"]
    assert exact_permutation_p(*table) == pytest.approx(exact, rel=1e-9)
    assert by_floats < 0.6 * exact


def test_tables_on_which_the_score_interval_of_statsmodels_fails_have_newcombes() -> None:
    # statsmodels #10269; FAIRNESS 4 and the oracle's example.
    for table in ((4, 10, 46, 100), (4, 10, 51, 100)):
        interval = newcombe_interval(*table)
        assert interval.low < table[0] / table[1] - table[2] / table[3] < interval.high


@given(tables())
def test_the_exact_p_is_the_share_of_relabellings(table: tuple[int, int, int, int]) -> None:
    assert exact_permutation_p(*table) == pytest.approx(by_enumeration(*table), rel=1e-9)


def test_ties_are_counted_in_whole_numbers() -> None:
    # FAIRNESS 4 and PERFORMANCE D: comparing in floats gives .6059, .3843 and .437.
    assert exact_permutation_p(14, 52, 6, 28) == pytest.approx(0.7873, abs=5e-5)
    assert exact_permutation_p(3, 15, 3, 30) == pytest.approx(0.6467153096478111, rel=1e-9)
    assert exact_permutation_p(1, 20, 1, 60) == 1.0


def test_no_exact_p_is_zero_and_a_million_rows_agree_with_fisher() -> None:
    million = 10**6
    assert exact_permutation_p(900_000, million, 100_000, million) == sys.float_info.min
    ours = exact_permutation_p(500_500, million, 498_556, million)
    fisher = fisher_exact([[500_500, million - 500_500], [498_556, million - 498_556]]).pvalue
    assert ours == pytest.approx(fisher, rel=1e-6)


@given(tables(), st.sampled_from([0.8, 0.95, 0.99]))
def test_newcombe_holds_the_gap_has_width_and_turns_with_the_groups(
    table: tuple[int, int, int, int], level: float
) -> None:
    k1, n1, k2, n2 = table
    interval, turned = (
        newcombe_interval(*order, confidence_level=level) for order in ((k1, n1, k2, n2), (k2, n2, k1, n1))
    )
    assert -1.0 <= interval.low <= k1 / n1 - k2 / n2 <= interval.high <= 1.0
    assert interval.low < interval.high
    assert (turned.low, turned.high) == pytest.approx((-interval.high, -interval.low), abs=1e-12)


@given(st.floats(0.0, 1.0), st.floats(0.5, 1e5))
def test_wilson_of_arrays_is_wilson(rate: float, n: float) -> None:
    low, high = wilson_arrays([rate], [n], z=Z95)
    assert (low[0], high[0]) == pytest.approx(wilson_limits(rate, n, z=Z95), abs=1e-12)


@given(tables())
def test_ratio_limits_hold_the_ratio_and_exclude_one_as_newcombe_excludes_zero(
    table: tuple[int, int, int, int],
) -> None:
    k1, n1, k2, n2 = table
    low, high = ratio_limits(k1 / n1, n1, k2 / n2, n2, z=Z95)
    if k2 == 0:
        assert np.isnan(low)
        assert np.isnan(high)
        return
    assert 0.0 <= low <= k1 / n1 / (k2 / n2) <= high
    difference = newcombe_limits(k1 / n1, n1, k2 / n2, n2, z=Z95)
    # Both come from the same Wilson limits; they can part only where the interval all but touches.
    if abs(difference[0]) > 0.02 and abs(low - 1.0) > 0.1:
        assert (difference[0] > 0.0) == (low > 1.0)


def test_ratio_limits_agree_with_the_logarithmic_ones_on_large_groups() -> None:
    # Katz et al. (1978): log ratio +- z sqrt((1-p1)/x1 + (1-p2)/x2).
    low, high = ratio_limits(0.4, 1e5, 0.6, 1e5, z=Z95)
    half = Z95 * math.sqrt(0.6 / 4e4 + 0.4 / 6e4)
    assert (low, high) == pytest.approx((2 / 3 * math.exp(-half), 2 / 3 * math.exp(half)), rel=1e-4)


@pytest.mark.parametrize(("n_groups", "level"), [*itertools.product([2, 3, 10, 50], [0.8, 0.95, 0.99])])
def test_the_range_quantile_is_tukeys_with_known_variance(n_groups: int, level: float) -> None:
    expected = studentized_range.ppf(level, n_groups, np.inf) / math.sqrt(2.0)
    assert range_quantile(n_groups, level) == pytest.approx(expected, rel=1e-6)
    p = all_pairs_p(2.0 * float(ndtr(-expected)), n_groups)
    assert p == pytest.approx(1.0 - level, rel=1e-6)


def test_homogeneity_is_pearsons_test_on_large_groups_and_exact_on_two() -> None:
    events, n = np.array([30, 45, 50, 41]), np.array([200, 210, 190, 205])
    test = homogeneity_test(events, n)
    expected = chi2_contingency([events, n - events], correction=False)
    assert (test.statistic, test.p_value, test.method) == (
        pytest.approx(expected.statistic), pytest.approx(expected.pvalue), "chi_square",
    )  # fmt: skip
    assert homogeneity_test([3, 9], [20, 30]).p_value == exact_permutation_p(3, 20, 9, 30)


def test_homogeneity_of_small_groups_is_by_permutation_and_never_zero() -> None:
    test = homogeneity_test([5, 0, 0, 0], [5, 6, 7, 8])
    assert test.method == "permutation"
    # All five events in the group of five: one way in C(26, 5).
    assert test.p_value == pytest.approx(1 / math.comb(26, 5), abs=2e-4)
    assert test.p_value >= 1e-4
    assert homogeneity_test([5, 0, 0, 0], [5, 6, 7, 8]) == test, "seeded"


def test_homogeneity_without_variation_finds_nothing() -> None:
    for events in ([0, 0, 0], [10, 20, 30]):
        test = homogeneity_test(events, [10, 20, 30])
        assert (test.p_value, test.method) == (1.0, "no_variation")


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: newcombe_interval(0, 0, 1, 2), "n1"),
        (lambda: exact_permutation_p(1, 2, 0, 0), "n2"),
        (lambda: exact_permutation_p(3, 2, 0, 1), "k1"),
        (lambda: homogeneity_test([1], [2]), "n"),
        (lambda: homogeneity_test([1, 0], [2, 0]), "n"),
        (lambda: range_quantile(1, 0.95), "n_groups"),
    ],
)
def test_what_does_not_exist_is_refused(call, field: str) -> None:
    with pytest.raises(UndefinedError) as caught:
        call()
    assert caught.value.field == field
