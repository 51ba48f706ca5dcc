"""Tests of a change, against enumeration and other implementations."""

from __future__ import annotations

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import UndefinedError
from core.inference.paired import mcnemar_test, sign_flip_test, two_sample_test, two_sided_p

CHANGES = st.lists(st.integers(-6, 6), max_size=9)


def flipped(changes: list[int], **options: int) -> tuple[float, str]:
    found = sign_flip_test(Counter(changes), rng=np.random.default_rng(7), **options)
    return found.p_value, found.method


def enumerated(changes: list[int]) -> float:
    """Every arrangement of signs, one by one."""
    totals = [
        abs(sum(s * c for s, c in zip(signs, changes, strict=True))) for signs in product((1, -1), repeat=len(changes))
    ]
    return sum(total >= abs(sum(changes)) for total in totals) / len(totals)


@given(st.integers(0, 200), st.integers(0, 200))
def test_mcnemar_is_the_binomial_test_of_the_pairs_that_changed(one: int, other: int) -> None:
    expected = stats.binomtest(one, one + other, 0.5).pvalue if one + other else 1.0
    assert mcnemar_test(one, other).p_value == pytest.approx(expected, rel=1e-9)


def test_mcnemar_of_agrestis_approval_ratings() -> None:
    # Agresti (2002), Categorical Data Analysis, table 10.1: 150 approve only before, 86 only after. R's exact2x2
    # prints p-value = 3.716e-05 for it.
    assert mcnemar_test(86, 150).p_value == pytest.approx(3.716e-5, abs=5e-9)


@given(CHANGES)
def test_the_sign_flips_of_few_clusters_are_all_counted(changes: list[int]) -> None:
    p, method = flipped(changes)
    assert method == "cluster_sign_flip_exact"
    assert p == pytest.approx(enumerated(changes), rel=1e-9)


def test_the_sign_flips_agree_with_scipys_permutation_test() -> None:
    changes = [4, -1, 3, 3, 0, 2, -2, 5]
    reference = stats.permutation_test(
        (changes,), np.sum, permutation_type="samples", n_resamples=np.inf, alternative="two-sided"
    )
    assert flipped(changes)[0] == pytest.approx(reference.pvalue)


@given(st.integers(0, 300), st.integers(0, 300))
def test_clusters_of_one_pair_give_mcnemars_p(up: int, down: int) -> None:
    p = sign_flip_test({1: up, -1: down, 0: 17}, rng=np.random.default_rng(7)).p_value
    assert p == pytest.approx(mcnemar_test(up, down).p_value, rel=1e-9)


@given(st.lists(st.integers(-6, 6), min_size=1, max_size=40), st.integers(2, 5))
def test_neither_direction_nor_unit_of_the_changes_matters(changes: list[int], factor: int) -> None:
    p = flipped(changes)[0]
    assert flipped([-change for change in changes])[0] == p
    assert flipped([factor * change for change in changes])[0] == pytest.approx(p, rel=1e-9)


def test_drawn_sign_flips_agree_with_counted_ones_and_are_never_0() -> None:
    changes = np.random.default_rng(3).integers(-5, 8, 60).tolist()
    exact, drawn = flipped(changes), flipped(changes, exact_work=0, draws=50_000)
    assert drawn[1] == "cluster_sign_flip_monte_carlo"
    assert drawn[0] == pytest.approx(exact[0], abs=4 * (exact[0] / 50_000) ** 0.5)
    assert flipped([5, 6] * 40, exact_work=0, draws=999)[0] == 1 / 1000
    assert flipped(changes, exact_work=0) == flipped(changes, exact_work=0)


def test_millions_of_changed_clusters_take_drawn_flips_and_no_time() -> None:
    found = sign_flip_test({1: 10**6, -1: 10**6, 3: 1000, -2: 500}, rng=np.random.default_rng(7))
    assert found.method == "cluster_sign_flip_monte_carlo"
    # The sum is 3,000 - 1,000; its variance that of the signs.
    assert found.p_value == pytest.approx(2 * stats.norm.cdf(-2000 / (2e6 + 9000 + 2000) ** 0.5), abs=0.015)


def test_an_overwhelming_change_is_not_given_a_p_of_0() -> None:
    assert 0 < mcnemar_test(5000, 0).p_value < 1e-300
    assert 0 < two_sided_p(80.0) < 1e-300


def test_no_change_is_no_evidence() -> None:
    assert mcnemar_test(0, 0).p_value == 1.0
    assert flipped([])[0] == flipped([0, 0, 0])[0] == flipped([2, -2])[0] == 1.0
    assert two_sample_test(0, 50, 0, 80).p_value == two_sample_test(1, 50, 1, 80).p_value == 1.0


def test_the_score_test_is_pearsons_with_n_minus_1() -> None:
    table = np.array([[30, 70], [45, 55]])
    chi2 = stats.chi2_contingency(table, correction=False).statistic
    expected = stats.chi2.sf(chi2 * 199 / 200, 1)
    found = two_sample_test(0.30, 100, 0.45, 100)
    assert (found.p_value, found.method) == (pytest.approx(expected), "score_n_minus_1")


def test_rare_flags_are_tested_exactly() -> None:
    found = two_sample_test(0, 100, 0.015, 200)
    assert found.method == "score_n_minus_1"  # 1 expected in the smaller sample
    found = two_sample_test(0, 100, 0.01, 200)
    assert found.method == "fisher_exact"
    assert found.p_value == pytest.approx(stats.fisher_exact([[0, 100], [2, 198]]).pvalue)


def test_clusters_take_students_law() -> None:
    normal, student = two_sample_test(0.3, 40, 0.5, 40), two_sample_test(0.3, 40, 0.5, 40, degrees_of_freedom=9)
    assert student.p_value > normal.p_value


@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.002, 0.002), (0.02, 0.02), (0.3, 0.3)])
@pytest.mark.parametrize("sizes", [(50, 50), (30, 300), (500, 500)])
def test_the_two_sample_test_keeps_its_level(rates: tuple[float, float], sizes: tuple[int, int]) -> None:
    """Enumerated over all outcomes, not drawn; the score test may exceed its level a little (Campbell 2007)."""
    laws = [stats.binom(n, p) for n, p in zip(sizes, rates, strict=True)]
    outcomes = [[k for k in range(n + 1) if law.pmf(k) > 1e-5] for n, law in zip(sizes, laws, strict=True)]
    rejected = sum(
        laws[0].pmf(x) * laws[1].pmf(y)
        for x in outcomes[0]
        for y in outcomes[1]
        if two_sample_test(x / sizes[0], sizes[0], y / sizes[1], sizes[1]).p_value <= 0.05
    )
    assert rejected <= 0.062


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: mcnemar_test(-1, 3), "at least 0"),
        (lambda: sign_flip_test({1: -2}, rng=np.random.default_rng(1)), "at least 0"),
        (lambda: sign_flip_test({1: 2}, rng=np.random.default_rng(1), draws=10), "100 draws"),
        (lambda: two_sample_test(1.2, 10, 0.5, 10), r"\[0, 1\]"),
        (lambda: two_sample_test(0.2, 0, 0.5, 10), "greater than 0"),
    ],
)
def test_what_has_no_test_is_refused(call: object, message: str) -> None:
    with pytest.raises(UndefinedError, match=message):
        call()  # type: ignore[operator]
