"""Demographic parity and equalized odds: the published thresholds, and evidence for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.errors import InputError, UndefinedError
from core.fairness.audited import Evidence
from core.fairness.parity import demographic_parity, equalized_odds
from core.fairness.presets import PRESETS, Thresholds, all_of, at_least, at_most, thresholds_of
from core.inference.intervals import Interval
from core.inference.proportions import exact_permutation_p, newcombe_interval


def selected(rates: dict[str, float], n: int) -> tuple[list[int], list[str]]:
    said, groups = [], []
    for group, rate in rates.items():
        k = round(rate * n)
        said += [1] * k + [0] * (n - k)
        groups += [group] * n
    return said, groups


def judged(cells: dict[str, tuple[int, int, int, int]]) -> tuple[list[int], list[int], list[str]]:
    """Rows from (true positives, false negatives, false positives, true negatives) by group."""
    truth, said, groups = [], [], []
    for group, (tp, fn, fp, tn) in cells.items():
        truth += [1] * (tp + fn) + [0] * (fp + tn)
        said += [1] * tp + [0] * fn + [1] * fp + [0] * tn
        groups += [group] * (tp + fn + fp + tn)
    return truth, said, groups


def test_every_case_of_the_oracle(shared: Path) -> None:
    cases = json.loads((shared / "oracles" / "fairness" / "seed004.json").read_text(encoding="utf-8"))["dp"]
    by_rates = {tuple(case["rates"]): case for case in cases}
    unequal = demographic_parity(*selected({"M": 0.6, "F": 0.4}, 1_000))
    assert unequal.ratio.value == pytest.approx(by_rates[0.6, 0.4]["ratio"])
    assert unequal.passes_at_point is by_rates[0.6, 0.4]["pass80"]
    nobody = demographic_parity(*selected({"a": 0.0, "b": 0.0}, 500))
    # The seed's 0/0: undefined; the difference is 0.
    assert (nobody.ratio.status, nobody.ratio.value, nobody.verdict) == ("not_evaluable", None, "insufficient_evidence")
    assert (nobody.passes_at_point, nobody.difference.value, nobody.difference.status) == (None, 0.0, "measured")
    none_of_one = demographic_parity(*selected({"a": 0.0, "b": 0.5}, 500))
    assert (none_of_one.ratio.value, none_of_one.verdict) == (by_rates[0, 0.5]["ratio"], "fail")
    alone = demographic_parity(*selected({"a": 0.3}, 500))
    # The seed's single group passes with ratio 1.
    assert (alone.ratio.status, alone.passes_at_point, alone.verdict) == (
        "not_evaluable",
        None,
        "insufficient_evidence",
    )


@pytest.mark.parametrize(
    ("rates", "n", "verdict"),
    [
        ({"a": 0.5, "b": 0.49}, 4_000, "pass"),
        ({"a": 0.5, "b": 0.3}, 4_000, "fail"),
        ({"a": 0.5, "b": 0.5}, 100, "insufficient_evidence"),
        ({"a": 0.5, "b": 0.5}, 99, "insufficient_evidence"),  # under the minimum size
    ],
)
def test_the_verdict_is_by_the_bound(rates: dict[str, float], n: int, verdict: str) -> None:
    assert demographic_parity(*selected(rates, n)).verdict == verdict


def test_two_groups_have_newcombes_interval_and_the_exact_p() -> None:
    parity = demographic_parity(*selected({"a": 0.4, "b": 0.25}, 100), reference={"group": "b"})
    (gap,) = parity.disparity.gaps
    expected = newcombe_interval(40, 100, 25, 100)
    assert (gap.group, gap.reference, gap.difference) == ("a", "b", pytest.approx(0.15))
    assert (gap.difference_interval.low, gap.difference_interval.high) == pytest.approx((expected.low, expected.high))
    assert gap.p_value == gap.p_adjusted == exact_permutation_p(40, 100, 25, 100)
    # The spread of two groups knows no sign, and has the same high end.
    assert parity.difference.interval.high == pytest.approx(expected.high)
    assert parity.disparity.omnibus.p_value == gap.p_value


def test_three_equal_groups_have_no_spread_in_the_interval() -> None:
    # Toolkit #24: the percentile interval of max - min never held 0.
    parity = demographic_parity(*selected({"a": 0.30, "b": 0.33, "c": 0.27}, 100))
    assert parity.difference.interval.low == 0.0
    assert parity.ratio.interval.high == 1.0
    assert not parity.disparity.omnibus.significant


def test_gaps_are_adjusted_over_the_family_and_raw_ones_stay() -> None:
    # Giskard #1162: no correction for many comparisons.
    said, groups = selected({"a": 0.50, "b": 0.36, "c": 0.49, "d": 0.48}, 100)
    raw, holm, bh = (
        demographic_parity(said, groups, reference={"group": "a"}, family=family).disparity.gaps
        for family in ("none", "holm", "benjamini_hochberg")
    )
    assert raw[0].p_value == holm[0].p_value == bh[0].p_value
    assert raw[0].p_adjusted == raw[0].p_value
    assert holm[0].p_adjusted == pytest.approx(3 * raw[0].p_value)
    assert [gap.significant for gap in holm] == [False] * 3
    assert all(b.p_adjusted <= h.p_adjusted for b, h in zip(bh, holm, strict=True))


def test_differences_and_ratios_point_from_the_reference_the_best_and_the_worst() -> None:
    # veritastool #33 and the toolkit's #27: direction of ratio, sign of difference.
    parity = demographic_parity(*selected({"a": 0.6, "b": 0.3, "c": 0.4}, 500), reference={"group": "c"})
    gap = {gap.group: gap for gap in parity.disparity.gaps}["b"]
    assert (parity.disparity.best, parity.disparity.worst, parity.disparity.reference) == ("a", "b", "c")
    assert (gap.difference, gap.difference_to_best, gap.difference_to_worst) == pytest.approx((-0.1, -0.3, 0.0))
    assert (gap.ratio, gap.ratio_to_best, gap.ratio_to_worst) == pytest.approx((0.75, 0.5, 1.0))
    assert gap.ratio_interval.low < 0.75 < gap.ratio_interval.high < 1.0


def test_a_reference_nobody_selects_has_differences_and_no_ratios() -> None:
    # Aequitas PR 125: a disparity of 0.
    parity = demographic_parity(*selected({"a": 0.0, "b": 0.3}, 300), reference={"group": "a"})
    (gap,) = parity.disparity.gaps
    assert (gap.ratio, gap.ratio_interval, gap.status) == (None, None, "evaluated")
    assert gap.difference == pytest.approx(0.3)


def test_the_best_group_as_reference_pays_for_being_chosen() -> None:
    said, groups = selected({"a": 0.50, "b": 0.36, "c": 0.49}, 100)
    fixed = demographic_parity(said, groups, reference={"group": "a"}, family="none").disparity.gaps[0]
    best = demographic_parity(said, groups, reference="best", family="none").disparity.gaps[0]
    assert (fixed.group, best.group) == ("b", "b")
    assert best.p_value > 2 * fixed.p_value
    assert best.difference_interval.low < fixed.difference_interval.low
    assert best.method == "exact_permutation_all_pairs"


def test_an_unknown_reference_is_named_with_what_there_is() -> None:
    said, groups = selected({"Caucasian": 0.5, "Other": 0.4}, 100)
    with pytest.raises(InputError, match="did you mean 'Caucasian'"):
        demographic_parity(said, groups, reference={"group": "Caucasien"})


def test_missing_attributes_are_compared_as_their_own_group() -> None:
    # fairlearn #1155: they were dropped, or became the category 'nan'.
    said, groups = selected({"a": 0.5, "b": 0.5, "?": 0.2}, 200)
    parity = demographic_parity(said, [None if group == "?" else group for group in groups])
    assert parity.selection_rates == {"a": 0.5, "b": 0.5, "(missing)": 0.2}
    assert parity.disparity.worst == "(missing)"


def test_small_groups_are_listed_with_their_rates_and_named_as_left_out() -> None:
    # Toolkit #29: small groups vanished, and the interval was [0, 0].
    said, groups = selected({"a": 0.5, "b": 0.5}, 300)
    parity = demographic_parity(said + [0] * 20, groups + ["c"] * 20)
    assert parity.selection_rates["c"] == 0.0
    assert parity.disparity.left_out == {"c": "small_group"}
    assert parity.ratio.coverage == pytest.approx(600 / 620)
    statuses = {gap.group: (gap.status, gap.reason, gap.significant) for gap in parity.disparity.gaps}
    assert statuses["c"] == ("not_evaluable", "small_group", False)
    all_in = demographic_parity(said + [0] * 20, groups + ["c"] * 20, min_group=1)
    assert all_in.ratio.value == 0.0
    assert all_in.ratio.interval.high > 0.2


def test_nobody_selected_is_a_group_with_rate_zero() -> None:
    # Aequitas #104: without positive predictions the matrix was wrong.
    truth, said, groups = judged({"a": (0, 100, 0, 100), "b": (50, 50, 10, 90)})
    odds = equalized_odds(truth, said, groups)
    assert odds.rates["a"] == {"false_positive_rate": 0.0, "false_negative_rate": 1.0, "true_positive_rate": 0.0}
    assert (odds.false_positive_rate.best, odds.false_positive_rate.worst) == ("a", "b")
    assert (odds.false_negative_rate.best, odds.false_negative_rate.worst) == ("b", "a")


def test_a_group_without_negatives_has_no_false_positive_rate_and_the_evidence_is_incomplete() -> None:
    # Seed 004's NaN, lale PR 861's 0.
    truth, said, groups = judged({"a": (100, 100, 20, 180), "b": (100, 100, 0, 0), "c": (100, 100, 20, 180)})
    odds = equalized_odds(truth, said, groups)
    assert odds.rates["b"]["false_positive_rate"] is None
    assert odds.false_positive_rate.left_out == {"b": "undefined_rate"}
    difference = odds.false_positive_rate.difference
    assert (difference.status, difference.value) == ("incomplete", 0.0)
    assert "b" in difference.reason
    assert odds.verdict == "insufficient_evidence"
    assert odds.larger.status == "incomplete"


def test_false_negatives_gate_as_well() -> None:
    # The seed computes them, and its `pass` looks at false positives alone; fairlearn #1443: no interval for odds.
    truth, said, groups = judged({"a": (900, 100, 50, 950), "b": (600, 400, 50, 950)})
    odds = equalized_odds(truth, said, groups)
    assert odds.false_positive_rate.difference.value == 0.0
    assert (odds.passes_at_point, odds.verdict) == (False, "fail")
    assert odds.larger.value == pytest.approx(0.3)
    assert odds.larger.interval.low < 0.3 < odds.larger.interval.high


def test_a_ratio_over_zero_is_not_made_up() -> None:
    # The seed's `fprMin || 0.001`: rates 0 and .04 became 40.
    truth, said, groups = judged({"a": (100, 100, 0, 200), "b": (100, 100, 8, 192)})
    disparity = equalized_odds(truth, said, groups, reference={"group": "a"}).false_positive_rate
    assert disparity.gaps[0].ratio is None
    assert disparity.difference.value == pytest.approx(0.04)
    assert disparity.ratio.value == 0.0


@pytest.mark.parametrize(
    ("preset", "verdict"),
    [("strict", "fail"), ("lenient", "pass"), (Thresholds(max_fpr_difference=0.2, max_fnr_difference=0.2), "pass")],
)
def test_the_preset_sets_the_limits(preset: Any, verdict: str) -> None:
    cells = {"a": (18_000, 2_000, 1_000, 19_000), "b": (16_600, 3_400, 1_000, 19_000)}
    assert equalized_odds(*judged(cells), preset=preset).verdict == verdict


def test_presets_are_the_published_ones_and_no_others() -> None:
    strict = PRESETS["strict"]
    assert (strict.min_parity_ratio, strict.max_fpr_difference, strict.max_fnr_difference) == (0.8, 0.05, 0.05)
    assert strict.max_accuracy_gap == 0.1
    assert all(
        getattr(PRESETS["lenient"], name) > getattr(strict, name) for name in strict.__slots__ if name.startswith("max")
    )
    with pytest.raises(UndefinedError, match="strict, lenient"):
        thresholds_of("high")  # type: ignore[arg-type]
    with pytest.raises(UndefinedError):
        Thresholds(min_parity_ratio=0.0)


def test_the_positive_value_is_declared_and_labels_and_predictions_may_differ() -> None:
    truth, said, groups = judged({"a": (150, 50, 20, 180), "b": (120, 80, 20, 180)})
    expected = equalized_odds(truth, said, groups)
    worded = [{0: "bad", 1: "good"}[value] for value in truth]
    coded = [{0: 2, 1: 1}[value] for value in said]
    assert equalized_odds(worded, coded, groups, positive="good", positive_pred=1) == expected
    with pytest.raises(InputError, match="say which one is positive"):
        equalized_odds(worded, said, groups)
    swapped = demographic_parity(said, groups, positive=0)
    assert swapped.selection_rates["a"] == pytest.approx(1 - demographic_parity(said, groups).selection_rates["a"])


def test_more_than_two_classes_are_refused_and_not_binarised_unseen() -> None:
    # AIF360 #236 and #431.
    with pytest.raises(InputError, match="has 3 values"):
        demographic_parity([0, 1, 2], ["a", "b", "a"], positive=1)


def test_a_group_label_of_any_type_is_a_reference() -> None:
    said = [1] * 60 + [0] * 40 + [1] * 30 + [0] * 70
    by_number = demographic_parity(said, [2] * 100 + [10] * 100, reference={"group": 2})
    by_flag = demographic_parity(said, [True] * 100 + [False] * 100, reference={"group": True})
    assert [parity.disparity.gaps[0].reference for parity in (by_number, by_flag)] == ["2", "true"]


def test_columns_of_every_type_give_one_answer() -> None:
    # scikit-learn #25578: nullable columns.
    said, groups = selected({"a": 0.5, "b": 0.4}, 200)
    expected = demographic_parity(said, groups)
    frame = pd.DataFrame({"group": groups, "said": said})
    for group_type, said_type in (("string", "Int64"), ("category", "boolean"), ("object", "float64")):
        typed = frame.astype({"group": group_type, "said": said_type})
        assert demographic_parity(typed["said"], typed["group"]) == expected
        assert demographic_parity(typed["said"], typed[["group"]]) == expected


def test_clusters_widen_the_interval_and_too_few_are_no_evidence() -> None:
    # Toolkit #26: the interval of another estimand, for rows that are not independent.
    rng = np.random.default_rng(1)
    said = np.repeat(rng.random(60) < 0.5, 10)
    groups, clusters = np.repeat(["a", "b"], 300), np.repeat(np.arange(60), 10)
    naive, parity = demographic_parity(said, groups), demographic_parity(said, groups, clusters=clusters)
    assert parity.ratio.value == naive.ratio.value
    assert parity.difference.interval.high > 2 * naive.difference.interval.high - naive.difference.value
    few = demographic_parity(said, groups, clusters=np.arange(600) // 100)
    assert few.disparity.left_out == {"a": "few_clusters", "b": "few_clusters"}
    assert few.verdict == "insufficient_evidence"


def test_clusters_that_span_the_groups_are_not_counted_against_the_gap_twice() -> None:
    rng = np.random.default_rng(2)
    prompts = rng.beta(0.5, 0.5, 60)
    said = (rng.random((2, 60, 10)) < prompts[None, :, None]).ravel()
    groups, clusters = np.repeat(["a", "b"], 600), np.tile(np.repeat(np.arange(60), 10), 2)
    spanning = demographic_parity(said, groups, clusters=clusters)
    apart = demographic_parity(said, groups, clusters=clusters + 60 * (groups == "b"))
    assert spanning.difference.interval.high < 0.7 * apart.difference.interval.high


def test_the_minimum_detectable_difference_is_shown() -> None:
    small, large = (demographic_parity(*selected({"a": 0.5, "b": 0.5}, n)) for n in (100, 10_000))
    # (1.96 + .84) sqrt(2 p (1-p) / n)
    assert small.disparity.minimum_detectable_difference == pytest.approx(0.198, abs=1e-3)
    assert large.disparity.minimum_detectable_difference == pytest.approx(0.0198, abs=1e-4)


def evidence(low: float, value: float, high: float) -> Evidence:
    interval = Interval(low=low, high=high, confidence_level=0.95, method="x")
    return Evidence(status="measured", value=value, interval=interval, n=9, n_classified=9, coverage=1.0, scale="ratio")


def test_verdicts_have_three_states_and_the_worst_counts() -> None:
    assert [at_least(evidence(low, 0.8, 0.9), 0.8) for low in (0.8, 0.79)] == ["pass", "insufficient_evidence"]
    assert at_least(evidence(0.5, 0.6, 0.79), 0.8) == "fail"
    assert [at_most(evidence(0.0, 0.0, 0.05), 0.05, strictly=strictly) for strictly in (False, True)] == [
        "pass", "insufficient_evidence",
    ]  # fmt: skip
    assert all_of("pass", "fail", "insufficient_evidence") == "fail"


def test_a_value_without_its_status_is_refused() -> None:
    with pytest.raises(UndefinedError, match="does not fit"):
        Evidence(status="measured", n=1, n_classified=1, coverage=1.0, scale="ratio")
