"""What a measurement says, and what it refuses to say, at every edge."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import core
from core.data.scores import ScoreBatch
from core.errors import UndefinedError
from core.inference.intervals import clopper_pearson, jeffreys, normal_quantile
from core.inference.prevalence import Counts, lang_reiczigel_interval
from core.instrument.calibrated import Calibration, deployable
from core.instrument.collapse import Units
from core.instrument.declared import declared_calibration
from core.instrument.detections import measure_detections
from core.instrument.measured import CertificateLink, Measurement, ObservedInterval, Prevalence
from core.instrument.measurement import measure
from core.instrument.spec import (
    DeclaredRates,
    DeclaredSpec,
    InstrumentSpec,
    JudgeIdentity,
    MeasurementSpec,
    OptimismSpec,
)
from core.instrument.tally import Tally, UnitCounts
from core.records import build, plain

Z95 = normal_quantile(0.95)
GOOD = (1, 90, 100, 190, 200)  # one turn: sensitivity .90, specificity .95


def said(prevalence: Prevalence) -> str:
    """Return all notes as one text."""
    return "; ".join(prevalence.notes)


# ---- the plain case, redone by hand


def test_the_corrected_rate_is_lang_reiczigels_on_the_effective_counts_in_the_record(lab: Any) -> None:
    rate = lab.measured(lab.calibrated(GOOD), (1, 120, 400)).composite.prevalence
    by_hand = lang_reiczigel_interval(
        Counts(flagged=120, traces=400, true_positives=90, positives=100, true_negatives=190, negatives=200), Z95
    )
    assert rate.status == "measured"
    assert rate.value == pytest.approx((0.30 + 0.95 - 1) / 0.85, abs=1e-12)
    assert (rate.interval.low, rate.interval.high) == pytest.approx((by_hand.low, by_hand.high), abs=1e-12)
    e = rate.effective
    again = lang_reiczigel_interval(
        Counts(
            flagged=e.n_flagged, traces=e.n_units, true_positives=e.true_positives, positives=e.n_positive,
            true_negatives=e.true_negatives, negatives=e.n_negative,
        ), Z95
    )  # fmt: skip
    assert (rate.lang_reiczigel.low, rate.lang_reiczigel.high) == (again.low, again.high)
    assert rate.apparent.valid_here
    assert len(rate.judge_shift) == 8


def test_the_papers_literal_figure_keeps_apparent_rates_when_the_corrected_one_is_honest(lab: Any) -> None:
    honest = lab.calibrated(GOOD, spec=InstrumentSpec(optimism=OptimismSpec(resamples=200)))
    rate = lab.measured(honest, (1, 120, 400)).composite.prevalence
    assert rate.apparent.value == pytest.approx((0.30 + 0.95 - 1) / 0.85, abs=1e-12)
    off = honest.composite.optimism
    assert off.used == off.resamples == 200
    assert rate.effective.sensitivity == pytest.approx(0.90 - off.sensitivity, abs=1e-12)
    assert rate.effective.specificity == pytest.approx(0.95 - off.specificity, abs=1e-12)


def test_clopper_pearson_and_jeffreys_stand_beside_the_papers_interval(lab: Any) -> None:
    beside = lab.measured(lab.calibrated(GOOD), (1, 5, 100)).composite.observed_interval
    exact = beside.clopper_pearson
    assert (exact.low, exact.high) == pytest.approx((0.0164318791821, 0.1128349111055), abs=1e-10)  # R binom.test
    assert exact.low < beside.jeffreys.low < 0.05 < beside.jeffreys.high < exact.high
    assert beside.method == "modified_wilson"


def test_the_limits_beside_are_on_the_same_effective_counts_and_level(lab: Any) -> None:
    found = lab.measured(lab.calibrated(GOOD), (1, 120, 400), units_a_trace=10, confidence_level=0.9)
    beside = found.composite.observed_interval
    assert beside.n_effective < 40
    for limits, made in ((beside.clopper_pearson, clopper_pearson), (beside.jeffreys, jeffreys)):
        assert (limits.low, limits.high) == made(0.3, beside.n_effective, confidence_level=0.9)


def test_without_an_interval_there_are_no_limits_beside_it(lab: Any) -> None:
    beside = lab.measured(lab.calibrated(GOOD), (1, 1, 1)).composite.observed_interval
    assert (beside.clopper_pearson, beside.jeffreys) == (None, None)


def test_records_from_before_the_limits_beside_stay_readable(lab: Any) -> None:
    now = plain(lab.measured(lab.calibrated(GOOD), (1, 5, 100)).composite.observed_interval)
    before = {name: value for name, value in now.items() if name not in ("clopper_pearson", "jeffreys")}
    read = build(ObservedInterval, before)
    assert (read.low, read.high, read.jeffreys) == (now["low"], now["high"], None)


# ---- edges of the counts


def test_one_unit_has_no_interval_and_says_so(lab: Any) -> None:
    composite = lab.measured(lab.calibrated(GOOD), (1, 1, 1)).composite
    assert composite.observed_rate == 1.0
    assert plain(composite.observed_interval)["status"] == "undefined"
    assert composite.observed_interval.low is None
    assert composite.prevalence.status == "insufficient_data"
    assert "1 unit in production; at least 5 are needed" in said(composite.prevalence)


@pytest.mark.parametrize("flagged", [0, 400])
def test_all_or_none_flagged_has_an_interval_of_some_width(lab: Any, flagged: int) -> None:
    perfect = lab.calibrated((1, 50, 50, 50, 50))
    composite = lab.measured(perfect, (1, flagged, 400)).composite
    interval = composite.prevalence.interval
    assert composite.prevalence.status == "measured"
    assert composite.prevalence.value == flagged / 400
    assert interval.low < interval.high
    assert interval.low <= flagged / 400 <= interval.high
    assert composite.prevalence.delta.degenerate
    assert composite.observed_interval.low < composite.observed_interval.high


def test_zero_flags_of_a_perfect_judge_give_the_oracle_of_the_statistics_page(lab: Any) -> None:
    rate = lab.measured(lab.calibrated((1, 50, 50, 50, 50)), (1, 0, 100)).composite.prevalence
    assert (rate.interval.low, rate.interval.high) == pytest.approx((0, 0.04372932467), abs=1e-9)
    assert (rate.delta.low, rate.delta.high) == (0, 0)


def test_a_delta_interval_without_width_is_not_printed_as_the_interval(lab: Any) -> None:
    calibration = lab.calibrated((1, 50, 50, 50, 50))
    spec = MeasurementSpec(instrument="i", interval="delta", seed=1)
    rate = _measure(_counts([(0, 0, 1)] * 100), calibration, spec).composite.prevalence
    assert rate.interval.method == "lang_reiczigel"
    assert rate.interval.low < rate.interval.high
    assert "has no width" in said(rate)


def test_no_fully_scored_unit_is_insufficient_and_the_worst_case_is_everything(lab: Any) -> None:
    calibration = lab.calibrated(GOOD)
    composite = _measure(_counts([(0, 1, 1)] * 20), calibration).composite
    assert (composite.n_units, composite.observed_rate) == (0, None)
    assert composite.prevalence.status == "insufficient_data"
    assert (composite.worst_case.low, composite.worst_case.high) == (0, 1)


def test_a_judge_that_flags_less_than_its_false_positive_rate_is_incompatible(lab: Any) -> None:
    calibration = lab.calibrated((1, 180, 200, 140, 200))  # flags 30% of clean traces
    rate = lab.measured(calibration, (1, 2, 1000)).composite.prevalence
    assert rate.status == "incompatible"
    assert rate.raw < 0
    assert (rate.value, rate.interval, rate.lang_reiczigel, rate.delta, rate.melded) == (None,) * 5
    assert "fewer" in said(rate)


def test_a_little_less_than_the_false_positive_rate_is_clipped_not_incompatible(lab: Any) -> None:
    calibration = lab.calibrated((1, 180, 200, 140, 200))
    rate = lab.measured(calibration, (1, 290, 1000)).composite.prevalence
    assert (rate.status, rate.value, rate.clipped) == ("measured", 0.0, True)
    assert rate.raw < 0 < rate.interval.high


# ---- the floor


def test_a_judge_that_no_threshold_helps_cannot_be_measured_with(lab: Any) -> None:
    calibration = lab.calibrated((1, 10, 50, 5, 50))  # flags clean traces more often
    judged = calibration.categories["harm"]
    assert (judged.status, judged.threshold) == ("below_detection_floor", None)
    assert (judged.sensitivity, judged.specificity, judged.youden_j) == (0, 1, 0)
    assert (calibration.composite.status, calibration.composite.left_out) == ("below_detection_floor", ("harm",))
    with pytest.raises(UndefinedError, match="no category has a threshold"):
        deployable(calibration)


@pytest.mark.parametrize(
    ("counts", "status"),
    [
        ((1, 550, 1000, 600, 1000), "below_detection_floor"),
        ((1, 60, 100, 62, 100), "inconclusive"),
        ((1, 60, 100, 60, 100), "inconclusive"),  # J = .20 exactly
        ((1, 600, 1000, 700, 1000), "measured"),
    ],
)
def test_the_floor_has_three_states(lab: Any, counts: tuple[int, ...], status: str) -> None:
    calibration = lab.calibrated(counts)
    rate = lab.measured(calibration, (1, 200, 400)).composite.prevalence
    assert calibration.composite.status == calibration.categories["harm"].status == rate.status == status
    assert (rate.value is None) is (rate.interval is None) is (status == "below_detection_floor")
    assert ("lower bound of J" in said(rate)) is (status == "inconclusive")


def test_the_floor_is_judged_again_on_the_weighted_rates(lab: Any) -> None:
    calibration = lab.calibrated((1, 190, 200, 190, 200), (4, 190, 200, 20, 200))
    assert calibration.composite.status == "measured"
    assert lab.measured(calibration, (4, 350, 400)).composite.prevalence.status == "below_detection_floor"
    assert lab.measured(calibration, (1, 100, 400)).composite.prevalence.status == "measured"


def test_a_judge_below_the_floor_on_the_golden_mix_may_measure_the_turns_it_is_good_at(lab: Any) -> None:
    calibration = lab.calibrated((1, 190, 200, 190, 200), (4, 980, 1000, 20, 1000))
    assert calibration.composite.status == "below_detection_floor"
    assert lab.measured(calibration, (1, 100, 400)).composite.prevalence.status == "measured"


# ---- too little to say anything


def test_three_golden_traces_a_class_are_insufficient_however_well_they_separate(lab: Any) -> None:
    calibration = lab.calibrated((1, 3, 3, 3, 3))
    judged = calibration.composite
    assert judged.status == "insufficient_data"
    assert "3 positive traces; at least 5 are needed" in "; ".join(judged.notes)
    rate = lab.measured(calibration, (1, 20, 400)).composite.prevalence
    assert (rate.status, rate.value, rate.interval) == ("insufficient_data", None, None)


def test_four_golden_clusters_are_insufficient_however_large(lab: Any) -> None:
    judged = lab.calibrated((1, 90, 100, 90, 100), cluster_size=25).composite
    assert judged.status == "insufficient_data"
    assert (judged.effective.positive_clusters, judged.effective.negative_clusters) == (4, 4)


def test_few_golden_clusters_are_said(lab: Any) -> None:
    judged = lab.calibrated((1, 90, 100, 190, 200), cluster_size=20).composite
    assert judged.status in ("measured", "inconclusive")
    assert "only 5 positive clusters" in "; ".join(judged.notes)


@pytest.mark.parametrize(("traces", "status"), [(4, "insufficient_data"), (5, "measured")])
def test_under_five_production_clusters_are_insufficient(lab: Any, traces: int, status: str) -> None:
    measured = lab.measured(lab.calibrated(GOOD), (1, 7, 10 * traces), units_a_trace=10)
    rate = measured.composite.prevalence
    assert measured.clustered
    assert rate.status == status
    assert f"{traces} clusters in production" in said(rate)


def test_attempts_of_a_trace_are_clustered_and_cost_their_design_effect(lab: Any) -> None:
    calibration = lab.calibrated(GOOD)
    alike = lab.measured(calibration, (1, 120, 400), units_a_trace=10).composite
    alone = lab.measured(calibration, (1, 120, 400)).composite
    assert alike.observed_rate == alone.observed_rate
    assert alike.prevalence.effective.n_units < 40 < alone.prevalence.effective.n_units == 400
    assert alike.prevalence.effective.design_effect == pytest.approx(10 * 40 / 39)  # all attempts of a trace agree
    wide, narrow = alike.prevalence.interval, alone.prevalence.interval
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert alike.observed_interval.method == "modified_wilson_effective"
    assert alike.observed_interval.independent.low == alone.observed_interval.low


def test_clustered_units_that_are_all_alike_count_once_a_cluster_and_this_is_said(lab: Any) -> None:
    rate = lab.measured(lab.calibrated(GOOD), (1, 0, 1000), units_a_trace=50).composite.prevalence
    assert rate.effective.n_units == 20
    assert "count as 20 independent units" in said(rate)


@pytest.mark.parametrize("n_units", range(5, 200, 7))
def test_all_flagged_in_clusters_never_rounds_beyond_all(lab: Any, n_units: int) -> None:
    units = [(1, 0, 1)] * n_units + [(0, 1, 1)] * 3
    counts = _counts(units, traces=[i // 3 for i in range(len(units))])
    assert _measure(counts, lab.calibrated((1, 95, 100, 95, 100))).composite.prevalence.status in (
        "measured", "insufficient_data", "incompatible",
    )  # fmt: skip


def test_another_confidence_level_takes_the_t_quantile_of_that_level_in_the_golden_set_too(lab: Any) -> None:
    wide = replace(lab.UNCORRECTED, confidence_level=0.99)
    counts = (1, 80, 100, 160, 200)
    calibrations = [lab.calibrated(counts, spec=spec, cluster_size=10) for spec in (lab.UNCORRECTED, wide)]
    rates = [lab.measured(c, (1, 30, 100), confidence_level=0.99).composite.prevalence for c in calibrations]
    assert rates[0].effective.n_positive < calibrations[0].composite.effective.n_positive
    for name in ("n_positive", "n_negative", "youden_j_low"):
        assert getattr(rates[0].effective, name) == pytest.approx(getattr(rates[1].effective, name), rel=1e-12)
    assert rates[0].interval.high == pytest.approx(rates[1].interval.high, rel=1e-12)


def test_clusters_of_one_class_alone_are_clusters(lab: Any) -> None:
    golden, scores = lab.golden((1, 45, 50, 45, 50))
    golden["cluster"] = [f"positive {i}" if i < 50 else f"negative {i // 5}" for i in range(100)]
    effective = core.calibrate(golden, scores, lab.UNCORRECTED).composite.effective
    assert effective.clustered
    assert (effective.n_positive, effective.positive_clusters, effective.negative_clusters) == (50, 50, 10)


def test_other_categories_do_not_move_the_figures_of_a_category(lab: Any) -> None:
    golden, scores = lab.golden(GOOD)
    alone = core.calibrate(golden, scores, lab.UNCORRECTED)
    golden["a-further"], scores["a-further"] = golden["harm"], scores["harm"]
    both = core.calibrate(golden, scores, lab.UNCORRECTED)
    rows = lab.production((1, 120, 400))
    one, two = core.measure(rows, alone), core.measure(rows.assign(**{"a-further": 0.95}), both)
    assert two.composite.n_flagged == 400
    assert two.composite_categories == ("a-further", "harm")
    assert plain(two.categories["harm"]) == plain(one.categories["harm"])  # the melded interval's draws too


# ---- turns


def test_sensitivity_and_specificity_are_weighted_to_productions_turn_counts(lab: Any) -> None:
    calibration = lab.calibrated((1, 98, 100, 196, 200), (2, 45, 50, 60, 100))
    e = lab.measured(calibration, (1, 10, 100), (2, 150, 300)).composite.prevalence.effective
    assert e.sensitivity == pytest.approx(0.25 * 0.98 + 0.75 * 0.90, abs=1e-12)
    assert e.specificity == pytest.approx(0.25 * 0.98 + 0.75 * 0.60, abs=1e-12)
    assert e.n_positive == pytest.approx(72.43, abs=0.005)  # the worked example of SPEC 5.2


def test_weighting_costs_nothing_when_the_turn_counts_match(lab: Any) -> None:
    calibration = lab.calibrated((1, 90, 100, 190, 200), (2, 90, 100, 190, 200))
    e = lab.measured(calibration, (1, 30, 100), (2, 30, 100)).composite.prevalence.effective
    assert (e.sensitivity, e.specificity) == pytest.approx((0.9, 0.95), abs=1e-12)
    assert e.n_positive == pytest.approx(200, rel=1e-6)
    assert e.n_negative == pytest.approx(400, rel=1e-6)


def test_a_stratum_without_an_error_is_worth_no_more_than_its_traces(lab: Any) -> None:
    calibration = lab.calibrated((1, 100, 100, 100, 100), (2, 20, 20, 20, 20))
    e = lab.measured(calibration, (2, 5, 200)).composite.prevalence.effective
    assert (e.sensitivity, e.specificity) == (1, 1)
    assert e.n_positive == pytest.approx(20, rel=1e-6)


def test_strata_that_differ_are_together_worth_no_more_than_all_their_traces(lab: Any) -> None:
    calibration = lab.calibrated((1, 99, 100, 99, 100), (2, 52, 100, 99, 100))
    e = lab.measured(calibration, (1, 60, 200), (2, 60, 200)).composite.prevalence.effective
    assert e.sensitivity == pytest.approx(0.755)
    assert e.n_positive == 200  # stratified sampling would make them worth 290


def test_the_pooled_optimism_is_taken_off_the_weighted_rates(lab: Any) -> None:
    spec = InstrumentSpec(optimism=OptimismSpec(resamples=100))
    calibration = lab.calibrated((1, 98, 100, 196, 200), (2, 45, 50, 60, 100), spec=spec)
    e = lab.measured(calibration, (2, 150, 300)).composite.prevalence.effective
    off = calibration.composite.optimism
    assert e.sensitivity == pytest.approx(0.90 - off.sensitivity, abs=1e-12)
    assert e.specificity == pytest.approx(0.60 - off.specificity, abs=1e-12)


def test_weighted_worth_keeps_the_cost_of_clusters(lab: Any) -> None:
    strata = (1, 80, 100, 160, 200), (2, 80, 100, 160, 200)
    alone, grouped = lab.calibrated(*strata), lab.calibrated(*strata, cluster_size=5)
    worth = [
        lab.measured(c, (1, 30, 100), (2, 90, 300)).composite.prevalence.effective.n_positive for c in (alone, grouped)
    ]
    factor = grouped.composite.effective.n_positive / 200
    assert factor < 0.5
    assert worth[1] == pytest.approx(worth[0] * factor, rel=1e-12)


@pytest.mark.parametrize(
    ("outside", "status"),
    [(0, "measured"), (5, "measured"), (10, "measured"), (11, "unit_mismatch"), (50, "unit_mismatch")],
)  # fmt: skip
def test_up_to_one_percent_of_units_outside_the_strata_are_left_out(lab: Any, outside: int, status: str) -> None:
    measured = lab.measured(lab.calibrated(GOOD), (1, 100, 1000 - outside), (3, outside, outside))
    rate = measured.composite.prevalence
    assert rate.status == status
    assert measured.composite.n_units == 1000  # the observed rate is over all
    if status == "measured":
        inside = 1000 - outside
        assert rate.raw == pytest.approx((100 / inside + 0.95 - 1) / 0.85, abs=1e-12)
        assert rate.effective.n_units == pytest.approx(inside)
        assert (f"{outside} units with numbers of turns outside" in said(rate)) is (outside > 0)
    else:
        assert (rate.value, rate.raw, rate.interval, rate.effective) == (None,) * 4
        assert not rate.apparent.valid_here
    assert [share.n_units for share in rate.turns] == [1000 - outside, *([outside] if outside else [])]


def test_a_single_turn_calibration_used_on_conversations_of_four_turns_is_a_unit_mismatch(lab: Any) -> None:
    composite = lab.measured(lab.calibrated(GOOD), (4, 120, 400)).composite
    rate = composite.prevalence
    assert rate.status == "unit_mismatch"
    assert composite.observed_rate == 0.30
    assert rate.apparent.value == pytest.approx(0.25 / 0.85)
    assert rate.apparent.valid_here is False
    assert "calibrate on conversations" in said(rate)


# ---- attempts, declared instruments, detections


def test_the_union_of_attempts_gives_the_observed_rate_only(lab: Any) -> None:
    measured = lab.measured(lab.calibrated(GOOD), (1, 120, 400), units_a_trace=2, attempts="any")
    assert (measured.composite.n_units, measured.composite.observed_rate) == (200, 0.30)
    rate = measured.composite.prevalence
    assert (rate.status, rate.value, rate.interval) == ("unit_mismatch", None, None)
    assert "attempts: any" in said(rate)


DECLARED = DeclaredSpec(
    name="vendor",
    judge=JudgeIdentity(name="vendor"),
    categories={
        "harm": DeclaredRates(
            threshold=0.5, sensitivity=0.85, n_positive=200, specificity=0.93, n_negative=400, source="card, page 4"
        )
    },
)


def test_a_declared_calibration_is_not_weighted_and_says_so(lab: Any) -> None:
    measured = lab.measured(declared_calibration(DECLARED), (1, 30, 100), (9, 30, 100))
    rate = measured.categories["harm"].prevalence
    assert rate.status == "measured"
    assert rate.raw == pytest.approx((0.30 + 0.93 - 1) / 0.78)
    assert (rate.effective.n_positive, rate.effective.n_negative) == (200, 400)
    assert "not weighted to turn counts" in said(rate)
    assert measured.calibration.source == "declared"
    assert any("no weighting" in note for note in measured.notes)


def test_a_composite_that_was_not_declared_is_not_calibrated(lab: Any) -> None:
    composite = lab.measured(declared_calibration(DECLARED), (1, 30, 100)).composite
    assert composite.observed_rate == 0.30
    assert (composite.prevalence.status, composite.prevalence.value) == ("not_calibrated", None)
    assert "not declared" in said(composite.prevalence)


def test_a_declared_composite_is_measured(lab: Any) -> None:
    rates = DeclaredRates(sensitivity=0.88, n_positive=250, specificity=0.90, n_negative=350, source="card")
    composite = lab.measured(declared_calibration(replace(DECLARED, composite=rates)), (1, 30, 100)).composite
    assert composite.prevalence.value == pytest.approx((0.30 + 0.90 - 1) / 0.78)


def test_declared_rates_from_four_traces_are_insufficient(lab: Any) -> None:
    few = replace(DECLARED.categories["harm"], n_positive=4)
    calibration = declared_calibration(replace(DECLARED, categories={"harm": few}))
    rate = lab.measured(calibration, (1, 30, 100)).categories["harm"].prevalence
    assert rate.status == "insufficient_data"


def test_uncorrected_optimism_is_labelled_in_every_measurement(lab: Any) -> None:
    label = "optimism not corrected: sensitivity and specificity are apparent"
    assert label in lab.measured(lab.calibrated(GOOD), (1, 30, 100)).notes
    corrected = lab.calibrated(GOOD, spec=InstrumentSpec(optimism=OptimismSpec(resamples=20)))
    assert label not in lab.measured(corrected, (1, 30, 100)).notes


def test_the_composite_of_detections_is_their_union_counted_on_traces() -> None:
    age, gender = set(range(9)), set(range(7, 11))
    units = [((t in age) | (t in gender) << 1, 0, 1) for t in range(25)]
    spec = MeasurementSpec(kind="detections", instrument="bias", seed=1)
    found = measure_detections(
        _counts(units, 2), spec, attributes=["age", "gender"], judge=JudgeIdentity(), judge_source="assumed",
        reported={"age": 0.36, "composite": 0.52},
    )  # fmt: skip
    assert (found.attributes["age"].n_flagged, found.attributes["gender"].n_flagged) == (9, 4)
    assert (found.composite.n_flagged, found.composite.observed_rate) == (11, 0.44)
    interval = found.composite.observed_interval
    assert (interval.low, interval.high) == pytest.approx(
        (0.263414368, 0.632569212), abs=5e-6
    )  # the paper's, at z = 1.96
    assert found.composite.prevalence.status == "not_calibrated"
    assert [(row.name, row.agrees) for row in found.reported] == [("age", True), ("composite", False)]
    assert any("the detector reports 0.52 for composite, its detections give 0.44" in note for note in found.notes)
    plain(found)


# ---- the missing


def test_partly_scored_units_bound_the_rate_and_enter_none(lab: Any) -> None:
    units = [(1, 0, 1)] * 30 + [(0, 0, 1)] * 60 + [(0, 1, 1)] * 10
    measured = _measure(_counts(units), lab.calibrated(GOOD))
    composite = measured.composite
    assert (composite.n_units, composite.observed_rate) == (90, pytest.approx(1 / 3))
    assert (composite.worst_case.low, composite.worst_case.high) == (0.30, 0.40)
    assert measured.error_budget_exceeded
    assert measured.unscored_share == pytest.approx(0.10)


def test_a_category_is_measured_on_the_units_that_it_scored(lab: Any) -> None:
    golden, scores = lab.golden(GOOD)
    golden["other"], scores["other"] = golden["harm"], scores["harm"]
    calibration = core.calibrate(golden, scores, lab.UNCORRECTED)
    units = [(0b01, 0b00, 1)] * 40 + [(0b00, 0b10, 1)] * 60 + [(0b01, 0b10, 1)] * 10
    measured = _measure(_counts(units, 2), calibration)
    assert measured.categories["harm"].n_units == 110
    assert measured.categories["other"].n_units == measured.composite.n_units == 40
    assert (measured.composite.worst_case.low, measured.composite.worst_case.high) == (50 / 110, 1.0)


def _counts(units: list[tuple[int, int, int]], n_categories: int = 1, traces: list[int] | None = None) -> UnitCounts:
    """Count (flags, missing, turns) a unit."""
    n = len(units)
    trace = np.array(traces if traces is not None else range(n))
    flags, missing, turns = np.array(units).T
    names = [str(i) for i in range(trace.max() + 1)]
    starts = np.searchsorted(trace, np.arange(len(names)))
    zeros = np.zeros(n, np.int64)
    block = ScoreBatch(
        starts=starts, trace_ids=names, clusters=None, attempt=zeros, turn=zeros, category=None,
        values=np.zeros((n, n_categories)), valid=None, reason=None, place=zeros,
    )  # fmt: skip
    tally = Tally(n_categories, (1, 2, 3, 4, 8))
    tally.add(
        block,
        Units(
            trace=trace, attempt=zeros, n_turns=turns, flags=flags, missing=missing,
            reason=np.where(missing != 0, 6, 255).astype(np.uint8), n_duplicates=0, n_gaps=0,
        ),
    )  # fmt: skip
    return tally.finish()


def _measure(
    counts: UnitCounts, calibration: Calibration, spec: MeasurementSpec | None = None, **more: Any
) -> Measurement:
    spec = spec or MeasurementSpec(instrument="i", seed=1)
    return measure(counts, calibration, spec, calibration_id="", judge=JudgeIdentity(), judge_source="assumed", **more)


@pytest.mark.parametrize(
    ("changed", "notes"),
    [
        ({}, []),
        ({"coverage": 0.871, "sufficient": False}, ["covered only 87.1% of simulated truths where it did worst"]),
        ({"confidence_level": 0.9}, ["the certificate was made at 90%; how intervals of 95% cover was not simulated"]),
    ],
)
def test_a_certificate_is_carried_and_what_it_says_against_the_interval_is_noted(
    changed: dict[str, Any], notes: list[str], lab: Any
) -> None:
    plain_link = {
        "id": "c", "coverage": 0.95, "mc_error": 0.01, "mean_coverage": 0.96, "confidence_level": 0.95,
        "sufficient": True,
    }  # fmt: skip
    link = CertificateLink(**{**plain_link, **changed})
    counts, calibration = _counts([(0, 0, 1)] * 100), lab.calibrated(GOOD)
    with_it, without = _measure(counts, calibration, certificate=link), _measure(counts, calibration)
    assert with_it.calibration.certificate == link
    added = [note for note in with_it.notes if note not in without.notes]
    assert len(added) == len(notes)
    assert all(said in note for said, note in zip(notes, added, strict=True))
    assert without.calibration.certificate is None
    assert plain(with_it.composite) == plain(without.composite)


def test_permuted_rows_give_the_same_measurement(lab: Any) -> None:
    calibration = lab.calibrated((1, 98, 100, 196, 200), (2, 45, 50, 60, 100))
    rows = lab.production((1, 10, 100), (2, 150, 300), attempts=4)
    rows["cluster"] = [f"vector {trace % 30}" for trace in rows["trace_id"]]
    shuffled = pd.DataFrame(rows).sample(frac=1, random_state=3)
    assert plain(core.measure(shuffled, calibration)) == plain(core.measure(rows, calibration))
