"""Stage 1: coverage of the observed rate's intervals, enumerated."""

from __future__ import annotations

import math
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from core.inference.intervals import clopper_pearson_interval, jeffreys_interval, wilson_interval, wilson_limits
from core.simulation.observed import NEGLIGIBLE, ObservedRateStage, _binomial_law
from core.simulation.simulated import ObservedCell, Simulation
from core.simulation.spec import ObservedRateSpec

Z95 = 1.959963984540054
METHODS = {"modified_wilson", "wilson", "clopper_pearson", "jeffreys"}


def simulated(**spec: object) -> Simulation:
    stage = ObservedRateStage(ObservedRateSpec(**spec))  # type: ignore[arg-type]
    return stage.result([stage.run(chunk) for chunk in stage.chunks()])


def cell_of(n: int, rate: float, **spec: object) -> ObservedCell:
    cell = simulated(n_units=(n,), rates=(rate,), **spec).cells[0]
    assert isinstance(cell, ObservedCell)
    return cell


@pytest.mark.parametrize(("n", "rate"), [(2, 0.5), (7, 0.1), (30, 0.02), (60, 0.4), (60, 0.97)])
def test_coverage_and_width_are_sums_over_all_counts(n: int, rate: float) -> None:
    law = [math.comb(n, x) * rate**x * (1 - rate) ** (n - x) for x in range(n + 1)]
    by_hand = {
        "modified_wilson": [(each.low, each.high) for each in (wilson_interval(x, n) for x in range(n + 1))],
        "wilson": [wilson_limits(x / n, n, z=Z95) for x in range(n + 1)],
        "clopper_pearson": [(each.low, each.high) for each in (clopper_pearson_interval(x, n) for x in range(n + 1))],
        "jeffreys": [(each.low, each.high) for each in (jeffreys_interval(x, n) for x in range(n + 1))],
    }
    cell = cell_of(n, rate)
    assert set(cell.methods) == METHODS
    for name, limits in by_hand.items():
        found = cell.methods[name]
        held = sum(p for p, (low, high) in zip(law, limits, strict=True) if low <= rate <= high)
        width = sum(p * (high - low) for p, (low, high) in zip(law, limits, strict=True))
        assert (found.coverage, found.mean_width) == pytest.approx((held, width), abs=1e-10)
        assert found.mc_error == 0.0


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 400), st.floats(0.0, 1.0), st.sampled_from([0.8, 0.95, 0.99]))
def test_clopper_pearson_covers_at_least_at_its_level_everywhere(n: int, rate: float, level: float) -> None:
    cell = cell_of(n, rate, confidence_level=level)
    assert cell.methods["clopper_pearson"].coverage >= level - 1e-9
    assert all(method.zero_width == 0.0 for method in cell.methods.values())


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 5000), st.floats(0.0, 1.0))
def test_every_count_that_matters_is_in_and_each_holds_the_rate_or_misses_it_on_one_side(n: int, rate: float) -> None:
    for method in cell_of(n, rate).methods.values():
        assert method.coverage + method.low_above + method.high_below == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_of_zero_or_one_is_always_held(rate: float) -> None:
    for method in cell_of(50, rate).methods.values():
        assert method.coverage == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("rate", [5e-324, 1e-200, 1e-9, 1 - 2**-53])
def test_the_smallest_rates_there_are_have_a_law_too(rate: float) -> None:
    for method in cell_of(1000, rate).methods.values():
        assert method.coverage == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("n", "rate"), [(50, 0.02), (3000, 0.5), (10_000_000, 1e-6), (10_000_000, 0.3)])
def test_the_law_is_the_binomial_one_and_leaves_out_next_to_nothing(n: int, rate: float) -> None:
    counts, probabilities = zip(*_binomial_law(n, rate), strict=True)
    assert binom.cdf(counts[0] - 1, n, rate) + binom.sf(counts[-1], n, rate) <= NEGLIGIBLE
    assert probabilities == pytest.approx(binom.pmf(counts, n, rate), rel=1e-6, abs=1e-15)


def test_a_large_sample_covers_at_the_level_and_is_narrow() -> None:
    for method in cell_of(1_000_000, 0.3).methods.values():
        assert method.coverage == pytest.approx(0.95, abs=0.001)
        assert method.mean_width == pytest.approx(2 * Z95 * math.sqrt(0.3 * 0.7 / 1_000_000), rel=1e-3)


def test_the_figure_of_the_simulation_is_the_worst_cell_of_the_modified_wilson_interval() -> None:
    found = simulated(n_units=(25, 500), rates=(0.02, 0.3))
    coverages = [cell.methods["modified_wilson"].coverage for cell in found.cells]
    assert (found.stage, found.method, found.replications, found.n_cells) == (1, "modified_wilson", 0, 4)
    assert (found.coverage, found.mc_error) == (min(coverages), 0.0)
    assert found.mean_coverage == pytest.approx(sum(coverages) / 4)
    assert found.methods["modified_wilson"].minimum == found.coverage
    assert found.sufficient is (found.coverage >= 0.93)
    assert [(cell.n_units, cell.rate) for cell in found.cells] == [(25, 0.02), (25, 0.3), (500, 0.02), (500, 0.3)]
    assert any("exact" in note for note in found.notes)
    assert any("not the rate of violations" in note for note in found.notes)


def test_a_stage_gives_the_same_after_a_journey_to_another_process() -> None:
    stage = ObservedRateStage(ObservedRateSpec(n_units=(40,), rates=(0.1, 0.2)))
    away = pickle.loads(pickle.dumps(stage))
    assert away.chunks() == stage.chunks()
    outcomes = [pickle.loads(pickle.dumps(away.run(chunk))) for chunk in stage.chunks()]
    assert stage.result(outcomes) == stage.result([stage.run(chunk) for chunk in stage.chunks()])
