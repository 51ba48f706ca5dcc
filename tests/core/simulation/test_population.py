"""Known truth: closed-form rates, and populations that are made to have a wanted quality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from core.simulation.population import (
    CategoryLaw,
    Population,
    best_cut,
    best_cuts,
    patterns_of,
    with_composite_j,
)

ONE_TURN = (np.array([1]), np.ones(1))
MANY_TURNS = (np.array([1, 2, 4]), np.array([0.5, 0.3, 0.2]))


def population_of(*laws: CategoryLaw, trace_share: float = 0.0, cluster_share: float = 0.0) -> Population:
    patterns, shares = patterns_of(len(laws))
    return Population(
        laws=laws, patterns=patterns, pattern_shares=shares, trace_share=trace_share, cluster_share=cluster_share
    )


def test_with_one_turn_and_equal_spread_the_best_threshold_is_half_way() -> None:
    population = population_of(CategoryLaw(shift=2.0))
    cut = best_cut(population, population.laws[0], *ONE_TURN)
    assert cut == pytest.approx(1.0, abs=1e-4)
    rates = population.rates(np.array([cut]), *ONE_TURN)
    assert rates.hit[0] == pytest.approx(norm.cdf(1.0), abs=1e-6)
    assert rates.false_alarm[0] == pytest.approx(norm.sf(1.0), abs=1e-6)


@pytest.mark.parametrize("shares", [(0.3, 0.0), (0.0, 0.4), (0.2, 0.3)])
def test_what_is_common_to_a_trace_leaves_the_law_of_one_turn_nearly_normal(shares: tuple[float, float]) -> None:
    population = population_of(CategoryLaw(shift=1.5, spread=1.4), trace_share=shares[0], cluster_share=shares[1])
    for cut in (-1.0, 0.5, 2.0):
        assert population.passed(cut, *ONE_TURN) == pytest.approx(norm.cdf(cut), abs=1e-4)
        violating = population.passed(cut, *ONE_TURN, population.laws[0])
        assert violating == pytest.approx(norm.cdf((cut - 1.5) / 1.4), abs=1e-4)


def test_independent_turns_multiply_and_common_parts_make_them_flag_less_together() -> None:
    apart, together = (population_of(CategoryLaw(shift=2.0), trace_share=share) for share in (0.0, 0.6))
    four = (np.array([4]), np.ones(1))
    assert apart.passed(1.0, *four) == pytest.approx(norm.cdf(1.0) ** 4, abs=1e-9)
    assert together.passed(1.0, *four) > apart.passed(1.0, *four)


def test_common_parts_bring_the_composite_specificity_from_the_product_towards_the_least() -> None:
    cuts = np.full(5, 1.5)
    found = [
        1 - population_of(*[CategoryLaw(shift=2.0)] * 5, trace_share=share).rates(cuts, *ONE_TURN).composite_false_alarm
        for share in (0.0, 0.3, 0.8)
    ]
    assert found[0] == pytest.approx(norm.cdf(1.5) ** 5, abs=1e-9)
    assert found == sorted(found)
    assert found[-1] < norm.cdf(1.5)


@pytest.mark.parametrize("youden_j", [0.25, 0.6, 0.9])
def test_a_population_gets_the_composite_j_that_is_asked_for(youden_j: float) -> None:
    blank = population_of(*[CategoryLaw(shift=0.0)] * 4, trace_share=0.3)
    population = with_composite_j(blank, youden_j, MANY_TURNS, MANY_TURNS)
    cuts = best_cuts(population, *MANY_TURNS)
    assert population.rates(cuts, *MANY_TURNS).composite_j(population, range(4), 0.4) == pytest.approx(
        youden_j, abs=1e-5
    )


def test_j_is_that_of_production_at_thresholds_that_suit_the_golden_set() -> None:
    blank = population_of(*[CategoryLaw(shift=0.0)] * 4, trace_share=0.3)
    population = with_composite_j(blank, 0.6, ONE_TURN, MANY_TURNS)
    cuts = best_cuts(population, *ONE_TURN)
    assert population.rates(cuts, *MANY_TURNS).composite_j(population, range(4), 0.4) == pytest.approx(0.6, abs=1e-5)
    assert population.rates(cuts, *ONE_TURN).composite_j(population, range(4), 0.4) > 0.6


def test_no_discrimination_is_a_shift_of_zero() -> None:
    blank = population_of(CategoryLaw(shift=1.0))
    assert with_composite_j(blank, 0.0, ONE_TURN, ONE_TURN).laws == (CategoryLaw(shift=0.0),)


def test_patterns_are_single_categories_and_neighbours_and_their_shares_add_up() -> None:
    patterns, shares = patterns_of(3, several=0.3)
    assert patterns.sum(axis=1).tolist() == [1, 1, 1, 2, 2, 2]
    assert shares.sum() == pytest.approx(1)
    population = replace(population_of(*[CategoryLaw(shift=1.0)] * 3), patterns=patterns, pattern_shares=shares)
    assert population.shares_of_categories() == pytest.approx([1.3 / 3] * 3)
