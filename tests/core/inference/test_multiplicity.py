"""Adjusted p-values against published ones and other implementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import UndefinedError
from core.inference.multiplicity import benjamini_hochberg, holm, sidak_level

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=30)

# Benjamini & Hochberg (1995), section 4.1: 15 comparisons of two treatments of myocardial infarction. At .05 the
# procedure that controls the false discovery rate rejects the first four, the familywise ones the first three.
INFARCTION = [
    0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459,
    0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0,
]  # fmt: skip


def test_the_published_example_has_four_discoveries_and_three_claims() -> None:
    assert sum(p <= 0.05 for p in benjamini_hochberg(INFARCTION)) == 4
    assert sum(p <= 0.05 for p in holm(INFARCTION)) == 3


def test_holm_gives_what_rs_p_adjust_gives() -> None:
    # R 4: p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")
    assert holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx((0.05, 0.08, 0.09, 0.09, 0.09))


@given(P_VALUES)
def test_benjamini_hochberg_gives_what_scipy_gives(p_values: list[float]) -> None:
    assert benjamini_hochberg(p_values) == pytest.approx(stats.false_discovery_control(p_values), abs=1e-12)


@given(P_VALUES)
def test_holm_rejects_what_the_step_down_procedure_rejects(p_values: list[float]) -> None:
    rejected, alive = set(), True
    for rank, i in enumerate(np.argsort(p_values, kind="stable").tolist()):
        alive = alive and (len(p_values) - rank) * p_values[i] <= 0.05
        if alive:
            rejected.add(i)
    assert {i for i, p in enumerate(holm(p_values)) if p <= 0.05} == rejected


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@given(p_values=P_VALUES, seed=st.integers(0, 2**32 - 1))
def test_neither_the_order_nor_the_rank_of_p_values_changes(adjust: object, p_values: list[float], seed: int) -> None:
    adjusted = np.array(adjust(p_values))  # type: ignore[operator]
    order = np.random.default_rng(seed).permutation(len(p_values))
    assert np.array_equal(adjust([p_values[i] for i in order]), adjusted[order])  # type: ignore[operator]
    ranked = np.argsort(p_values)
    assert (np.diff(adjusted[ranked]) >= 0).all()
    assert (adjusted >= p_values).all()
    assert (adjusted <= 1).all()


@given(P_VALUES)
def test_a_claim_needs_at_least_what_a_find_needs(p_values: list[float]) -> None:
    assert all(a >= b - 1e-15 for a, b in zip(holm(p_values), benjamini_hochberg(p_values), strict=True))


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(adjust: object, p: float) -> None:
    with pytest.raises(UndefinedError, match=r"lies in \[0, 1\]"):
        adjust([0.5, p])  # type: ignore[operator]


def test_no_test_has_no_adjusted_p_value_and_one_keeps_its_own() -> None:
    assert holm([]) == benjamini_hochberg([]) == ()
    assert holm([0.03]) == benjamini_hochberg([0.03]) == (0.03,)


def test_five_categories_need_a_level_of_98_98_percent_each() -> None:
    assert 1 - sidak_level(0.95, 5) == pytest.approx(0.0102, abs=5e-5)  # STATISTICS F14
    assert sidak_level(0.95, 1) == 0.95
    assert sidak_level(0.9, 7) ** 7 == pytest.approx(0.9)
    with pytest.raises(UndefinedError, match="at least 1"):
        sidak_level(0.95, 0)
