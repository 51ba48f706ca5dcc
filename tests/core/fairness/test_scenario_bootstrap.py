from __future__ import annotations

import numpy as np
import pytest

from core.errors import UndefinedError
from core.fairness.scenario_bootstrap import (
    MAX_UNITS,
    Sampling,
    bca,
    drawn_sums,
    expanded_quantile,
    inverted_test,
    units_of,
)


def mean(sums: np.ndarray) -> np.ndarray:
    return np.asarray(sums[..., 0] / sums[..., 1])


def shares(sums: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(sums[..., 0] / sums.sum(axis=-1) - 0.5) * 2)


def of_means(values: np.ndarray, **options: object) -> object:
    sums = np.stack([values, np.ones(len(values))], axis=1)
    settings = {"edges": (0.5,), "bounds": (0.0, 1.0), "sampling": Sampling(), "name": "x", **options}
    return bca(sums, mean, **settings)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def values() -> np.ndarray:
    return np.random.default_rng(1).beta(2, 3, 60)


def test_the_interval_of_a_mean_is_close_to_students(values: np.ndarray) -> None:
    interval = of_means(values).interval  # type: ignore[attr-defined]
    half = 2.001 * values.std(ddof=1) / np.sqrt(60)  # t with 59 degrees of freedom at .975
    assert interval.low == pytest.approx(values.mean() - half, abs=0.01)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.01)


def test_the_confidence_at_an_end_of_the_interval_is_its_level(values: np.ndarray) -> None:
    first = of_means(values)
    ends = first.interval.low, first.interval.high  # type: ignore[attr-defined]
    low, high = of_means(values, edges=ends).confidence  # type: ignore[attr-defined]
    assert (low, high) == (pytest.approx(0.025, abs=0.004), pytest.approx(0.975, abs=0.004))


def test_order_and_seed_decide_as_they_should(values: np.ndarray) -> None:
    shuffled = np.random.default_rng(2).permutation(values)
    assert of_means(values) == of_means(shuffled)
    assert of_means(values) != of_means(values, sampling=Sampling(seed=2))
    assert of_means(values) != of_means(values, name="y")


def test_fewer_than_ten_scenarios_are_a_warning_and_one_gives_no_interval(values: np.ndarray) -> None:
    assert of_means(values[:9]).notes == ("few_scenarios",)  # type: ignore[attr-defined]
    assert of_means(values[:10]).notes == ()  # type: ignore[attr-defined]
    one = of_means(values[:1])
    assert (one.interval, one.confidence, one.notes) == (None, None, ("one_scenario",))  # type: ignore[attr-defined]


def test_without_variation_the_interval_is_what_could_have_been_missed() -> None:
    found = of_means(np.zeros(50))
    assert found.interval.method == "no_variation"  # type: ignore[attr-defined]
    assert (1 - found.interval.high) ** 50 == pytest.approx(0.025)  # type: ignore[attr-defined]
    assert found.interval.low == 0.0  # type: ignore[attr-defined]
    inside = of_means(np.full(50, 0.4))
    low, high = inside.interval.low, inside.interval.high  # type: ignore[attr-defined]
    assert ((high - 0.4) / 0.6, (0.4 - low) / 0.4) == (pytest.approx(1 - 0.05 ** (1 / 50)),) * 2
    endless = of_means(np.zeros(50), bounds=(0.0, np.inf))
    assert endless.interval is None  # type: ignore[attr-defined]


def test_a_rare_large_scenario_widens_the_high_end_only() -> None:
    values = np.random.default_rng(8).uniform(0.1, 0.2, 50)
    values[0] = 0.6
    plain, wider = of_means(values), of_means(values, rare=True)
    assert wider.interval.high > plain.interval.high  # type: ignore[attr-defined]
    assert wider.interval.low <= plain.interval.low  # type: ignore[attr-defined]


def test_very_many_scenarios_are_drawn_in_groups_that_lose_nothing() -> None:
    sums = np.random.default_rng(3).integers(0, 5, (10_000, 3)).astype(float)
    units = units_of(sums, np.random.default_rng(4))
    assert len(units) == MAX_UNITS
    assert units.sum(axis=0).tolist() == sums.sum(axis=0).tolist()


def test_drawn_sums_have_the_mean_and_variance_of_drawing_rows() -> None:
    units = np.arange(20.0)[:, None]
    totals = drawn_sums(units, 20_000, np.random.default_rng(5))[:, 0]
    assert totals.mean() == pytest.approx(190, abs=1.0)
    assert totals.var() == pytest.approx(20 * units.var(), rel=0.05)


def test_grouped_and_ungrouped_scenarios_give_about_the_same_interval() -> None:
    values = np.random.default_rng(6).random(4 * MAX_UNITS)
    interval = of_means(values).interval  # type: ignore[attr-defined]
    half = 1.96 * values.std() / np.sqrt(len(values))
    assert interval.high - interval.low == pytest.approx(2 * half, rel=0.1)


def inverted(counts: np.ndarray, **options: object) -> object:
    settings = {"rising": True, "edges": (0.1, 0.5), "sampling": Sampling(), "name": "x", **options}
    return inverted_test(counts, shares, np.array([0.5, 0.5]), **settings)  # type: ignore[arg-type]


def test_at_its_anchor_the_interval_begins_at_the_least_value_and_has_width() -> None:
    found = inverted(np.tile([[3.0, 2.0], [2.0, 3.0]], (25, 1)))
    assert found.interval.low == 0.0  # type: ignore[attr-defined]
    assert found.interval.high > 0.02  # type: ignore[attr-defined]


def test_away_from_its_anchor_the_interval_is_that_of_the_share() -> None:
    rng = np.random.default_rng(7)
    first = rng.binomial(5, 0.9, 200).astype(float)
    found = inverted(np.stack([first, 5 - first], axis=1))
    p = first.sum() / 1000
    half = 1.97 * (first / 5).std(ddof=1) / np.sqrt(200)
    assert found.interval.low == pytest.approx(2 * (p - half) - 1, abs=0.01)  # type: ignore[attr-defined]
    assert found.interval.high == pytest.approx(2 * (p + half) - 1, abs=0.01)  # type: ignore[attr-defined]


def test_when_no_scenario_differs_the_interval_still_has_width() -> None:
    found = inverted(np.tile([[5.0, 0.0]], (20, 1)))
    assert "no_variation" in found.notes  # type: ignore[attr-defined]
    # P(20 scenarios all in the first group) = p^20 = .025 at p = .8316, where the statistic is .6632.
    assert found.interval.low == pytest.approx(0.663, abs=0.02)  # type: ignore[attr-defined]
    assert found.interval.high == pytest.approx(1.0)  # type: ignore[attr-defined]


@pytest.mark.parametrize("values", [{"confidence_level": 1.0}, {"resamples": 99}, {"resamples": 10**6}, {"seed": -1}])
def test_settings_out_of_range_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(UndefinedError):
        Sampling(**values)  # type: ignore[arg-type]


def test_the_expanded_quantile_is_students_with_the_bootstraps_lost_variance() -> None:
    assert expanded_quantile(0.95, 10) == pytest.approx(2.262157 * np.sqrt(10 / 9), abs=1e-5)
