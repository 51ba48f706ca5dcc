"""Plans for a difference between two versions."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.paired import mcnemar_test, two_sample_test
from core.inference.planned_difference import plan_difference
from core.inference.planning import power_curve
from core.inference.power import mcnemar_power, two_proportion_power

JUDGE = {"sensitivity": 0.7, "specificity": 0.9}


def test_an_unpaired_plan_is_that_of_r() -> None:
    # R stats::power.prop.test(p1 = .50, p2 = .75, power = .90): n = 76.7. A judge without errors flags the true rates.
    plan = plan_difference(0.25, prevalence=0.5, sensitivity=1.0, specificity=1.0, paired=False, power=0.90)
    assert plan.closed_form == pytest.approx(76.7, abs=0.05)
    assert plan.sizes is not None
    assert plan.sizes.n_production == 77


@settings(max_examples=25, deadline=None)
@given(st.floats(0.05, 0.5), st.floats(0.05, 0.3), st.floats(0, 0.8), st.booleans())
def test_the_planned_number_has_the_power_and_one_less_has_not(
    theta: float, size: float, correlation: float, paired: bool
) -> None:
    try:
        plan = plan_difference(
            size, prevalence=theta, **JUDGE, paired=paired, correlation=correlation if paired else None
        )
    except UndefinedError as error:
        assert error.field == "correlation"  # noqa: PT017 - versions that far apart cannot agree that much
        return
    assert plan.sizes is not None
    assert plan.difference is not None
    n = plan.sizes.n_production

    def power(n: int) -> float:
        found = plan.difference
        assert found is not None
        if found.baseline_only is not None and found.candidate_only is not None:
            return mcnemar_power(n, baseline_only=found.baseline_only, candidate_only=found.candidate_only)
        before = plan.assumed.flag_rate
        return two_proportion_power(n, baseline_rate=before, candidate_rate=before + 0.6 * size)

    assert power(n) >= 0.8
    assert n == 5 or power(n - 1) < 0.8
    assert plan.achieved_power == pytest.approx(power(n))


def test_pairing_saves_traces_as_far_as_the_versions_agree() -> None:
    sizes = [
        plan_difference(-0.1, prevalence=0.3, **JUDGE, correlation=rho).sizes.n_production  # type: ignore[union-attr]
        for rho in (0.0, 0.3, 0.6, 0.8)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[3] < sizes[0] / 2


def test_discordance_and_correlation_say_the_same() -> None:
    by_correlation = plan_difference(-0.1, prevalence=0.3, **JUDGE, correlation=0.6)
    assert by_correlation.difference is not None
    alone = by_correlation.difference
    by_discordance = plan_difference(
        -0.1, prevalence=0.3, **JUDGE, discordance=(alone.baseline_only or 0) + (alone.candidate_only or 0)
    )
    assert by_discordance.sizes == by_correlation.sizes


def test_the_golden_set_changes_the_interval_and_not_the_number_of_traces() -> None:
    plans = [
        plan_difference(-0.1, prevalence=0.3, **JUDGE, correlation=0.6, n_positive=m, n_negative=m)
        for m in (100, 1_000)
    ]
    assert plans[0].sizes.n_production == plans[1].sizes.n_production  # type: ignore[union-attr]
    few, many = (plan.difference for plan in plans)
    assert few is not None
    assert many is not None
    assert few.interval_half_width > many.interval_half_width > many.interval_half_width_limit  # type: ignore[operator]
    # Section 10's variance with nothing of production's: z |D| sqrt(q1(1-q1)/m1 + q0(1-q0)/m0) / J.
    assert few.interval_half_width_limit == pytest.approx(
        1.959964 * 0.1 * math.sqrt(0.21 / 100 + 0.09 / 100) / 0.6, rel=1e-5
    )


def test_a_given_number_that_is_too_small_says_what_it_finds() -> None:
    plan = plan_difference(-0.1, prevalence=0.3, **JUDGE, correlation=0.6, n_production=200)
    assert plan.status == "not_reached"
    assert plan.achieved is not None
    assert -0.3 <= plan.achieved < -0.1
    again = plan_difference(plan.achieved, prevalence=0.3, **JUDGE, correlation=0.6, n_production=200)
    assert again.status == "reached"
    assert plan.changes[0].sizes.n_production == plan_difference(
        -0.1, prevalence=0.3, **JUDGE, correlation=0.6
    ).sizes.n_production  # type: ignore[union-attr]  # fmt: skip


def test_more_comparisons_take_more_traces() -> None:
    one, six = (plan_difference(-0.1, prevalence=0.3, **JUDGE, n_comparisons=k) for k in (1, 6))
    assert six.sizes.n_production > one.sizes.n_production  # type: ignore[union-attr]


def test_flags_that_nobody_correlated_are_taken_as_uncorrelated_and_said() -> None:
    plan = plan_difference(-0.1, prevalence=0.3, **JUDGE)
    assert any("uncorrelated" in note for note in plan.notes)
    assert plan.sizes == plan_difference(-0.1, prevalence=0.3, **JUDGE, correlation=0.0).sizes


def test_a_figure_shows_what_pairing_gains() -> None:
    plan = plan_difference(-0.1, prevalence=0.3, **JUDGE, correlation=0.6)
    paired, unpaired = power_curve(plan, points=7).series
    assert (paired.name, unpaired.name) == ("paired", "unpaired")
    assert paired.y[3] == pytest.approx(plan.achieved_power)
    assert paired.y[3] > unpaired.y[3]  # type: ignore[operator]


def test_a_judge_below_the_floor_finds_no_difference() -> None:
    plan = plan_difference(-0.1, prevalence=0.3, sensitivity=0.5, specificity=0.6)
    assert plan.status == "below_detection_floor"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("difference", {"difference": 0.0}),
        ("difference", {"difference": 0.8}),
        ("discordance", {"discordance": 0.01}),
        ("correlation", {"correlation": 0.999}),
        ("correlation", {"correlation": 0.5, "discordance": 0.2}),
        ("paired", {"paired": False, "correlation": 0.5}),
        ("n_comparisons", {"n_comparisons": 0}),
        ("power", {"power": 1.0}),
    ],
)
def test_versions_that_cannot_be_are_refused(field: str, arguments: dict[str, float]) -> None:
    with pytest.raises(UndefinedError) as error:
        plan_difference(**{"difference": -0.1, "prevalence": 0.3, **JUDGE, **arguments})  # type: ignore[arg-type]
    assert error.value.field == field


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_comparisons_made_as_planned_find_the_difference(paired: bool) -> None:
    plan = plan_difference(-0.1, prevalence=0.3, **JUDGE, paired=paired, correlation=0.6 if paired else None)
    assert plan.sizes is not None
    assert plan.difference is not None
    n, rng = plan.sizes.n_production, np.random.default_rng(20_261_129)
    found = 0
    for _ in range(3_000):
        if plan.difference.baseline_only is not None and plan.difference.candidate_only is not None:
            alone = plan.difference.candidate_only, plan.difference.baseline_only
            after, before, _ = rng.multinomial(n, [*alone, 1 - sum(alone)]).tolist()
            found += mcnemar_test(after, before).p_value <= 0.05
        else:
            rates = rng.binomial(n, [plan.assumed.flag_rate, plan.assumed.flag_rate - 0.06]) / n
            found += two_sample_test(float(rates[0]), n, float(rates[1]), n).p_value <= 0.05
    assert found / 3_000 == pytest.approx(0.80, abs=0.025)
