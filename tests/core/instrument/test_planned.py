"""A plan as it is asked for: what a calibration brings, what has to be said, and what means nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.errors import UndefinedError
from core.inference.plan import Costs
from core.inference.planning import plan_half_width
from core.instrument.calibrated import Calibrated, Calibration
from core.instrument.declared import declared_calibration
from core.instrument.planned import PlanSpec, planned
from core.instrument.spec import DeclaredRates, DeclaredSpec, JudgeIdentity
from core.records import plain

HALF: dict[str, Any] = {"goal": "half_width", "target": 0.05, "prevalence": 0.1}


def rates(**changes: Any) -> DeclaredRates:
    given = {"sensitivity": 0.9, "n_positive": 200, "specificity": 0.95, "n_negative": 300, "source": "card", **changes}
    return DeclaredRates(**given)


@pytest.fixture
def calibration() -> Calibration:
    return declared_calibration(DeclaredSpec(
        name="safety", judge=JudgeIdentity.of("guard@1"), categories={"hate": rates(threshold=0.5, sensitivity=0.8)},
        composite=rates(), detection_floor=0.3, confidence_level=0.9,
    ))  # fmt: skip


def test_a_calibration_brings_rates_sizes_level_and_floor(calibration: Calibration) -> None:
    found = planned(PlanSpec(**HALF), calibration, calibration_id="c0ffee")
    assert (found.assumed.sensitivity, found.assumed.specificity, found.assumed.detection_floor) == (0.9, 0.95, 0.3)
    assert (found.given.n_positive, found.given.n_negative, found.confidence_level) == (200, 300, 0.9)
    assert (found.judge.source, found.judge.calibration, found.judge.quantity) == ("calibration", "c0ffee", "composite")
    assert (found.judge.n_positive, found.judge.effective_n_positive) == (200, 200.0)


def test_a_plan_with_a_calibration_is_the_plan_with_its_figures(calibration: Calibration) -> None:
    with_it = planned(PlanSpec(**HALF), calibration)
    without = plan_half_width(
        0.05, prevalence=0.1, sensitivity=0.9, specificity=0.95, n_positive=200, n_negative=300,
        confidence_level=0.9, detection_floor=0.3,
    )  # fmt: skip
    assert (with_it.sizes, with_it.limit, with_it.status) == (without.sizes, without.limit, without.status)


def test_a_category_is_planned_for_by_its_name_with_hyphens_or_underscores(calibration: Calibration) -> None:
    assert planned(PlanSpec(**HALF, quantity="hate"), calibration).assumed.sensitivity == 0.8
    assert PlanSpec(**HALF, quantity="self_harm").quantity == "self-harm"


def test_sizes_that_are_given_take_the_place_of_the_golden_sets(calibration: Calibration) -> None:
    found = planned(PlanSpec(**HALF, n_negative=1000), calibration)
    assert (found.given.n_positive, found.given.n_negative) == (200, 1000)


def test_golden_sizes_are_found_on_demand(calibration: Calibration) -> None:
    found = planned(PlanSpec(**HALF, find_golden=True), calibration)
    assert (found.given.n_positive, found.given.n_negative, found.status) == (None, None, "reached")


def test_effective_counts_are_taken_at_the_plans_level(calibration: Calibration) -> None:
    composite = calibration.composite
    assert composite.effective is not None
    clustered = replace(
        composite.effective, n_positive=100.0, positive_clusters=10, positive_t_factor=0.8, clustered=True
    )
    few = replace(calibration, composite=replace(composite, effective=clustered))
    at_90, at_99 = (planned(PlanSpec(**HALF, confidence_level=level), few).given.n_positive for level in (0.9, 0.99))
    assert at_90 == 100
    assert at_99 is not None
    assert at_99 < 100  # t with 9 degrees of freedom is further from normal at 99% than at 90%


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"prevalence": None}, "prevalence", "how often do you expect"),
        ({"power": 0.9}, "power", "means nothing for a half width"),
        ({"correlation": 0.5}, "correlation", "means nothing for a half width"),
        ({"paired": False}, "paired", "means nothing for a half width"),
        ({"find_golden": True, "n_positive": 50}, "find_golden", "either given or to be found"),
        ({"goal": "limit_of_detection"}, "prevalence", "means nothing for a limit of detection"),
        ({"goal": "difference", "costs": Costs()}, "costs", "means nothing for a difference"),
    ],
)
def test_what_means_nothing_for_a_goal_is_refused(changes: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(UndefinedError, match=message) as error:
        PlanSpec(**{**HALF, **changes})
    assert error.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"),
    [({}, "sensitivity"), ({"sensitivity": 0.9}, "specificity"), ({"quantity": "hate"}, "quantity")],
)
def test_without_a_calibration_the_judge_has_to_be_described(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UndefinedError) as error:
        planned(PlanSpec(**HALF, **changes))
    assert error.value.field == field


@pytest.mark.parametrize(
    ("changes", "field"), [({"sensitivity": 0.9}, "sensitivity"), ({"quantity": "fraud"}, "quantity")]
)
def test_with_a_calibration_its_judge_is_the_only_one(
    changes: dict[str, Any], field: str, calibration: Calibration
) -> None:
    with pytest.raises(UndefinedError) as error:
        planned(PlanSpec(**HALF, **changes), calibration)
    assert error.value.field == field


def test_a_category_without_figures_cannot_be_planned_with(calibration: Calibration) -> None:
    unknown = replace(calibration, categories={"hate": Calibrated(status="not_calibrated")})
    with pytest.raises(UndefinedError, match="not_calibrated"):
        planned(PlanSpec(**HALF, quantity="hate"), unknown)


def test_a_golden_set_that_is_worth_next_to_nothing_is_told_and_can_be_planned_anew(calibration: Calibration) -> None:
    composite = calibration.composite
    assert composite.effective is not None
    poor = replace(calibration, composite=replace(composite, effective=replace(composite.effective, n_positive=3.2)))
    with pytest.raises(UndefinedError, match="fewer than 5 independent traces"):
        planned(PlanSpec(**HALF), poor)
    assert planned(PlanSpec(**HALF, n_positive=50), poor).given.n_positive == 50
    assert planned(PlanSpec(**HALF, find_golden=True), poor).status == "reached"


def test_every_goal_makes_a_record_with_a_curve() -> None:
    judge: dict[str, Any] = {"sensitivity": 0.9, "specificity": 0.95}
    for spec in (
        PlanSpec(**HALF, **judge),
        PlanSpec(goal="limit_of_detection", target=0.05, n_positive=50, n_negative=50, **judge),
        PlanSpec(goal="difference", target=-0.05, prevalence=0.1, n_production=100, **judge),
        PlanSpec(**{**HALF, "target": 0.01}, sensitivity=0.5, specificity=0.5),
    ):
        written = plain(planned(spec))
        assert written["curve"]["series"][0]["x"]
        assert written["status"] in ("reached", "not_reached", "unreachable", "below_detection_floor")
