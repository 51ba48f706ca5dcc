"""Plans for a half width and a limit of detection: what is promised is reached, what is not is explained."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.allocation import allocation, golden_split, production_size
from core.inference.intervals import normal_quantile
from core.inference.plan import Costs, Plan
from core.inference.planning import plan_half_width, plan_limit_of_detection, power_curve
from core.inference.power import detection_power, flag_rate
from core.inference.prevalence import Counts, effective_prevalence, lang_reiczigel_interval

JUDGE = {"sensitivity": 0.9, "specificity": 0.95}


def real_half_width(plan: Plan, **changed: int) -> float:
    """Half width of the interval that a measurement would make, at the expected counts."""
    assert plan.sizes is not None
    sizes = {name: getattr(plan.sizes, name) for name in ("n_production", "n_positive", "n_negative")} | changed
    judge = plan.assumed
    interval = lang_reiczigel_interval(
        Counts(
            flagged=sizes["n_production"] * judge.flag_rate, traces=sizes["n_production"],
            true_positives=sizes["n_positive"] * judge.sensitivity, positives=sizes["n_positive"],
            true_negatives=sizes["n_negative"] * judge.specificity, negatives=sizes["n_negative"],
        ),
        normal_quantile(plan.confidence_level),
    )  # fmt: skip
    return (interval.high_unclipped - interval.low_unclipped) / 2


def test_a_known_judge_needs_the_textbook_number() -> None:
    # AusVet epitools "sample size for true prevalence", as in STATISTICS.md F16: 248.35 -> 249, 3017.15 -> 3018.
    first = {"prevalence": 0.1, "sensitivity": 0.9, "specificity": 0.95}
    second = {"prevalence": 0.05, "sensitivity": 0.7, "specificity": 0.9}
    assert production_size(0.05, **first) == pytest.approx(248.35, abs=0.005)
    assert production_size(0.02, **second) == pytest.approx(3017.15, abs=0.005)
    assert plan_half_width(0.05, **first).known_judge == 249
    assert plan_half_width(0.02, **second).known_judge == 3018


def test_a_judge_that_would_flag_nothing_has_no_textbook_number() -> None:
    plan = plan_half_width(0.02, prevalence=0.0, sensitivity=1.0, specificity=1.0)
    assert plan.status == "reached"
    assert plan.known_judge is None


def test_the_neyman_split_is_the_published_one_and_beats_the_approximation() -> None:
    # STATISTICS.md F16: Neyman (177, 23); the UW calculator's approximation (136, 64) has 19% more variance.
    judge = {"prevalence": 1 / 6, "sensitivity": 0.9, "specificity": 0.7}
    split = golden_split(200, **judge)
    assert (split.n_negative, split.n_positive) == (177, 23)

    def variance(clean: int) -> float:
        return (1 / 6) ** 2 * 0.09 / (200 - clean) + (5 / 6) ** 2 * 0.21 / clean

    assert variance(136) / variance(177) == pytest.approx(1.19, abs=0.005)
    assert min(range(5, 196), key=variance) == 177


def test_dear_positives_become_fewer() -> None:
    judge = {"prevalence": 0.3, "sensitivity": 0.8, "specificity": 0.9}
    even = golden_split(300, **judge)
    dear = golden_split(300, **judge, costs=Costs(positive=4.0, negative=1.0))
    assert dear.n_positive < even.n_positive
    assert dear.n_positive / dear.n_negative == pytest.approx(even.n_positive / even.n_negative / 2, rel=0.05)


def test_a_class_that_does_not_vary_gets_the_fewest_traces() -> None:
    assert golden_split(100, prevalence=0.2, sensitivity=1.0, specificity=0.9).n_positive == 5
    assert golden_split(100, prevalence=0.2, sensitivity=0.9, specificity=1.0).n_negative == 5


def test_the_allocation_of_a_budget_has_the_least_variance() -> None:
    costs = Costs(production=0.02, positive=3.0, negative=1.0)
    judge = {"prevalence": 0.15, "sensitivity": 0.8, "specificity": 0.9}
    sizes = allocation(500.0, **judge, costs=costs)
    pi = flag_rate(**judge)

    def variance(n: float, m1: float, m0: float) -> float:
        return pi * (1 - pi) / n + 0.15**2 * 0.16 / m1 + 0.85**2 * 0.09 / m0

    assert 0.02 * sizes["n_production"] + 3 * sizes["n_positive"] + sizes["n_negative"] == pytest.approx(500)
    best = variance(sizes["n_production"], sizes["n_positive"], sizes["n_negative"])
    for shift in (-20.0, 20.0):  # the same money, spent a little otherwise
        assert (
            variance(sizes["n_production"] - shift / 0.02, sizes["n_positive"] + shift / 3, sizes["n_negative"]) > best
        )
        assert variance(sizes["n_production"], sizes["n_positive"] + shift / 3, sizes["n_negative"] - shift) > best


@settings(max_examples=30, deadline=None)
@given(
    st.floats(0.0, 0.5), st.floats(0.6, 1.0), st.floats(0.6, 1.0), st.floats(0.02, 0.2),
    st.sampled_from(["n_production", "n_positive", "n_negative"]), st.integers(50, 2_000), st.integers(50, 2_000),
)  # fmt: skip
def test_the_planned_size_reaches_the_real_interval_and_one_less_does_not(
    theta: float, q1: float, q0: float, target: float, free: str, first: int, second: int
) -> None:
    assume(q1 + q0 - 1 > 0.3)
    given_sizes = dict(zip([name for name in ("n_production", "n_positive", "n_negative") if name != free],
                           (first, second), strict=True))  # fmt: skip
    plan = plan_half_width(target, prevalence=theta, sensitivity=q1, specificity=q0, **given_sizes, detection_floor=0.0)
    if plan.status != "reached":
        assert plan.status == "unreachable"
        assert plan.reason
        assert plan.limit is None or plan.limit > target
        return
    assert plan.sizes is not None
    found = getattr(plan.sizes, free)
    assert real_half_width(plan) <= target + 1e-12
    assert plan.achieved == pytest.approx(real_half_width(plan))
    assert found == 10 or real_half_width(plan, **{free: found - 1}) > target


def test_a_plan_for_everything_is_cheaper_than_its_neighbours() -> None:
    costs = Costs(production=0.05, positive=2.0, negative=1.0)
    plan = plan_half_width(0.04, prevalence=0.2, **JUDGE, costs=costs)
    assert plan.sizes is not None
    assert plan.cost == pytest.approx(costs.total(plan.sizes))
    assert real_half_width(plan) <= 0.04
    for name in ("n_production", "n_positive", "n_negative"):
        assert real_half_width(plan, **{name: getattr(plan.sizes, name) - 1}) > 0.04
    for factor in (0.8, 1.25):  # another number of clean golden traces, the cheapest rest
        other = plan_half_width(
            0.04, prevalence=0.2, **JUDGE, costs=costs, n_negative=round(plan.sizes.n_negative * factor)
        )
        assert other.cost is not None
        assert other.cost > plan.cost * 0.999


def test_costs_that_nobody_gave_are_said() -> None:
    assert any("costs assumed" in note for note in plan_half_width(0.05, prevalence=0.1, **JUDGE).notes)
    golden_only = plan_half_width(0.05, prevalence=0.1, **JUDGE, n_production=1000)
    assert not any("costs assumed" in note for note in golden_only.notes)


def test_a_golden_set_that_is_too_small_is_named_with_the_least_change() -> None:
    plan = plan_half_width(0.02, prevalence=0.1, **JUDGE, n_positive=200, n_negative=200)
    assert plan.status == "unreachable"
    assert plan.limit is not None
    assert plan.limit > 0.02
    assert plan.grow == "n_negative"
    assert "unlimited production" in str(plan.reason)
    change = plan.changes[0]
    assert change.changed == ("n_negative",)
    kept = plan_half_width(
        0.02, prevalence=0.1, **JUDGE, n_production=change.sizes.n_production,
        n_positive=200, n_negative=change.sizes.n_negative,
    )  # fmt: skip
    assert kept.status == "reached"


def test_sizes_that_are_all_given_are_judged() -> None:
    judge = {"prevalence": 0.1, **JUDGE}
    enough = plan_half_width(0.05, **judge, n_production=2_000, n_positive=100, n_negative=400)
    short = plan_half_width(0.05, **judge, n_production=100, n_positive=50, n_negative=50)
    assert enough.status == "reached"
    assert short.status == "not_reached"
    assert short.achieved == pytest.approx(real_half_width(short))
    assert short.changes
    assert short.changes[0].sizes.n_positive >= 50
    assert short.changes[0].added_cost > 0


def test_more_production_that_does_not_help_is_said() -> None:
    plan = plan_half_width(0.06, prevalence=0.1, **JUDGE, n_production=100_000, n_positive=70, n_negative=70)
    assert plan.production_helps is False
    assert any("no longer help" in note for note in plan.notes)
    assert plan.variance is not None
    assert plan.variance.negatives > 0.9
    assert plan.variance.production + plan.variance.positives + plan.variance.negatives == pytest.approx(1.0)


def test_a_judge_below_the_floor_has_no_plan() -> None:
    for plan in (
        plan_half_width(0.05, prevalence=0.1, sensitivity=0.5, specificity=0.6),
        plan_limit_of_detection(0.05, sensitivity=0.5, specificity=0.5, n_production=100),
    ):
        assert plan.status == "below_detection_floor"
        assert plan.sizes is None
        assert "no number of labels" in str(plan.reason)


def test_a_plan_makes_sure_that_gates_will_accept_the_judge() -> None:
    weak = {"prevalence": 0.3, "sensitivity": 0.6, "specificity": 0.7}
    plan = plan_half_width(0.5, **weak, n_production=1_000)
    assert plan.judge_status == "measured"
    free = plan_half_width(0.5, **weak, n_production=1_000, detection_floor=0.0)
    assert plan.sizes is not None
    assert free.sizes is not None
    assert free.sizes.n_negative < plan.sizes.n_negative
    few = plan_half_width(0.5, **weak, n_positive=50, n_negative=50)
    assert few.status == "unreachable"
    assert "lower bound of J" in str(few.reason)


def test_a_judge_on_the_floor_is_out_of_reach_of_any_golden_set() -> None:
    plan = plan_half_width(0.9, prevalence=0.3, sensitivity=0.7, specificity=0.5, n_production=100)
    assert plan.status == "unreachable"
    assert "no golden set" in str(plan.reason)
    assert plan.changes == ()


def test_a_planned_limit_of_detection_has_the_power_and_one_less_has_not() -> None:
    plan = plan_limit_of_detection(0.05, **JUDGE, n_production=2_000, n_positive=100)
    assert plan.sizes is not None
    sizes = {"n_production": 2_000, "n_positive": 100}
    assert detection_power(0.05, **JUDGE, **sizes, n_negative=plan.sizes.n_negative) >= 0.8
    assert detection_power(0.05, **JUDGE, **sizes, n_negative=plan.sizes.n_negative - 1) < 0.8
    assert plan.achieved is not None
    assert plan.achieved <= 0.05 + 1e-6


def test_a_limit_of_detection_out_of_reach_asks_for_clean_golden_traces() -> None:
    plan = plan_limit_of_detection(0.05, **JUDGE, n_positive=200, n_negative=200)
    assert plan.status == "unreachable"
    assert plan.grow == "n_negative"
    assert plan.changes[0].changed == ("n_negative",)
    sizes = plan.changes[0].sizes
    reached = detection_power(
        0.05, **JUDGE, n_production=sizes.n_production, n_positive=200, n_negative=sizes.n_negative
    )
    assert reached >= 0.8


def test_a_figure_shows_the_plan_and_the_class_that_should_grow() -> None:
    plan = plan_half_width(0.05, prevalence=0.1, **JUDGE, n_positive=200, n_negative=200)
    curve = power_curve(plan, points=9)
    assert curve.y_quantity == "half_width"
    assert curve.planned == plan.sizes.n_production  # type: ignore[union-attr]
    planned, grown = curve.series
    assert planned.y[4] == pytest.approx(plan.achieved)
    assert all(a > b for a, b in zip(planned.y, grown.y, strict=True) if a is not None and b is not None)
    assert all(a >= b for a, b in zip(planned.y, planned.y[1:], strict=False) if a is not None and b is not None)


def test_a_figure_exists_for_a_plan_that_is_out_of_reach() -> None:
    plan = plan_limit_of_detection(0.05, **JUDGE, n_positive=200, n_negative=200)
    curve = power_curve(plan, points=5)
    assert curve.y_quantity == "power"
    assert curve.planned is None
    assert all(y is not None and 0 <= y <= 1 for series in curve.series for y in series.y)
    assert max(y for y in curve.series[0].y if y is not None) < curve.target < curve.series[1].y[-1]  # type: ignore[operator]


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("half_width", {"half_width": 0.0}),
        ("prevalence", {"prevalence": 1.5}),
        ("n_positive", {"n_positive": 4}),
        ("confidence_level", {"confidence_level": 0.0}),
        ("detection_floor", {"detection_floor": -0.1}),
    ],
)
def test_what_cannot_be_planned_for_is_refused(field: str, arguments: dict[str, float]) -> None:
    with pytest.raises(UndefinedError) as error:
        plan_half_width(**{"half_width": 0.05, "prevalence": 0.1, **JUDGE, **arguments})  # type: ignore[arg-type]
    assert error.value.field == field


def test_costs_are_above_0() -> None:
    with pytest.raises(UndefinedError):
        Costs(production=0.0)


def simulated(plan: Plan, prevalence: float, replications: int) -> list[tuple[float, float, float]]:
    """Low, high and unclipped half width of measurements made as planned."""
    assert plan.sizes is not None
    rng = np.random.default_rng(20_261_129)
    n, m1, m0 = plan.sizes.n_production, plan.sizes.n_positive, plan.sizes.n_negative
    judge = plan.assumed
    pi = flag_rate(prevalence, judge.sensitivity, judge.specificity)
    found = []
    for x, a, b in zip(
        rng.binomial(n, pi, replications).tolist(),
        rng.binomial(m1, judge.sensitivity, replications).tolist(),
        rng.binomial(m0, judge.specificity, replications).tolist(),
        strict=True,
    ):
        counts = Counts(flagged=x, traces=n, true_positives=a, positives=m1, true_negatives=b, negatives=m0)
        interval = effective_prevalence(counts).interval
        if interval is not None:
            half_width = (interval.high_unclipped - interval.low_unclipped) / 2
            found.append((interval.low, interval.high, half_width))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("theta", [0.02, 0.1, 0.3])
def test_measurements_made_as_planned_have_the_planned_half_width(theta: float) -> None:
    plan = plan_half_width(0.04, prevalence=theta, sensitivity=0.85, specificity=0.92)
    found = simulated(plan, theta, 2_000)
    widths = np.array([half for _, _, half in found])
    assert np.median(widths) == pytest.approx(0.04, rel=0.03)
    assert np.mean([low <= theta <= high for low, high, _ in found]) > 0.93


@pytest.mark.slow
def test_measurements_made_as_planned_find_the_limit_of_detection() -> None:
    plan = plan_limit_of_detection(0.04, sensitivity=0.85, specificity=0.97)
    found = simulated(plan, 0.04, 4_000)
    assert sum(low > 0 for low, _, _ in found) / 4_000 == pytest.approx(0.80, abs=0.02)
    assert math.isfinite(plan.cost or math.inf)
