"""Thresholds chosen together: never worse than where they began, and never under the floor without saying so."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core
from core.errors import InputError, UndefinedError
from core.instrument.calibration import calibrated_judge
from core.instrument.golden_table import GoldenTable
from core.instrument.optimism import bootstrap_optimism
from core.instrument.resampling import NO_CLASS, RankedTable, best_of_category, drawn_clusters
from core.instrument.search import JointSearch, joint_counter
from core.instrument.spec import InstrumentSpec, OptimismSpec, ThresholdSpec
from core.records import plain
from tasks.specs import build_spec

YOUDEN = ThresholdSpec(objective="composite_youden")


def floored(floor: float) -> ThresholdSpec:
    return ThresholdSpec(objective="composite_sensitivity", specificity_floor=floor)


def golden(seed: int, n: int = 100, n_categories: int = 3, decimals: int = 1) -> tuple[np.ndarray, ...]:
    """Scores, labels and composite truth, a tenth of the traces undecidable."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, n_categories)) < 0.25).astype(np.int64)
    scores = (1 / (1 + np.exp(-rng.normal(1.5 * labels, 1)))).round(decimals)
    truth = np.where(rng.random(n) < 0.1, -1, labels.any(axis=1)).astype(np.int64)
    return scores, labels, truth


def start_of(table: RankedTable, weights: np.ndarray) -> list[int]:
    """Each category's own Youden rank."""
    return [int(best_of_category(category, weights[None, :])[0, 0]) for category in table.categories]


def composite_counts(table: RankedTable, ranks: Any, weights: np.ndarray) -> tuple[int, int, int, int]:
    """True positives, positives, false positives, negatives, by going over the traces."""
    flagged = np.array([category.rank <= r for category, r in zip(table.categories, ranks, strict=True)]).any(axis=0)
    positive, negative = weights * (table.truth == 1), weights * (table.truth == 0)
    return int(positive[flagged].sum()), int(positive.sum()), int(negative[flagged].sum()), int(negative.sum())


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.sampled_from([1, 2, 17]))
def test_the_composites_j_is_never_worse_than_at_the_categories_own_thresholds(
    seed: int, n_categories: int, decimals: int
) -> None:
    scores, labels, truth = golden(seed, 60, n_categories, decimals)
    weights = np.random.default_rng(seed).integers(0, 3, 60)
    table = RankedTable.of(scores, labels, truth, np.arange(60))
    start = start_of(table, weights)
    if NO_CLASS in start:
        return
    found = JointSearch(table, YOUDEN).find(start, weights)
    if found is None:
        _, n_positive, _, n_negative = composite_counts(table, start, weights)
        assert 0 in (n_positive, n_negative)
        return
    before, after = (
        tp * n_negative - fp * n_positive
        for tp, n_positive, fp, n_negative in (composite_counts(table, ranks, weights) for ranks in (start, found))
    )
    assert after >= before


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.7, 0.8, 0.9, 0.95, 0.999]))
def test_a_specificity_floor_holds_or_no_single_move_could_flag_fewer_negatives(seed: int, floor: float) -> None:
    scores, labels, truth = golden(seed)
    weights = np.ones(len(truth), np.int64)
    table = RankedTable.of(scores, labels, truth, np.arange(len(truth)))
    found = JointSearch(table, floored(floor)).find(start_of(table, weights), weights)
    assert found is not None
    tp, _, fp, n_negative = composite_counts(table, found, weights)
    holds = (n_negative - fp) / n_negative >= floor
    for c, category in enumerate(table.categories):
        for rank in range(len(category.values)):
            moved = [*found[:c], rank, *found[c + 1 :]]
            tp_moved, _, fp_moved, _ = composite_counts(table, moved, weights)
            if holds:
                assert tp_moved <= tp or (n_negative - fp_moved) / n_negative < floor
            else:
                assert fp_moved >= fp


def test_the_search_finds_the_best_of_all_thresholds_nearly_always() -> None:
    exact = dict.fromkeys((YOUDEN, floored(0.8), floored(0.95)), 0)
    for spec in exact:
        for seed in range(30):
            scores, labels, truth = golden(seed, 80, 2)
            weights = np.ones(80, np.int64)
            table = RankedTable.of(scores, labels, truth, np.arange(80))

            def worth(
                ranks: Any, table: Any = table, weights: Any = weights, floor: Any = spec.specificity_floor
            ) -> int:
                tp, n_positive, fp, n_negative = composite_counts(table, ranks, weights)
                if floor is None:
                    return tp * n_negative - fp * n_positive
                return tp if (n_negative - fp) / n_negative >= floor else -fp

            found = JointSearch(table, spec).find(start_of(table, weights), weights)
            everywhere = itertools.product(*[range(len(category.values)) for category in table.categories])
            exact[spec] += worth(found) == max(map(worth, everywhere))
    assert min(exact.values()) >= 26, exact


def test_of_equal_thresholds_the_highest_is_taken() -> None:
    scores = np.array([[0.9], [0.8], [0.7], [0.6], [0.5]])
    labels = np.array([[1], [0], [-1], [1], [0]])
    # .9 and .6 have J = .5, and .7 flags no other decidable trace than .8 does.
    table = RankedTable.of(scores, labels, labels[:, 0], np.arange(5))
    for start in ([0], [1], [2], [3], [4]):
        assert JointSearch(table, YOUDEN).find(start, np.ones(5, np.int64)) == [0]


def test_every_resample_searches_anew_from_its_own_thresholds() -> None:
    scores, labels, truth = golden(4, 80, 3, 2)
    clusters = np.arange(80) // 2
    table = RankedTable.of(scores, labels, truth, clusters)
    (drawn,) = drawn_clusters(table, 25, np.random.default_rng(3))
    counted = joint_counter(table, floored(0.9))(drawn)
    search = JointSearch(table, floored(0.9))
    for b, clusters_drawn in enumerate(drawn):
        weights = np.bincount(clusters_drawn, minlength=40)
        ranks = search.find(start_of(table, weights), weights[clusters])
        assert counted.categories[b, :, 0].tolist() == ranks
        tp, n_positive, fp, n_negative = composite_counts(table, ranks, weights[clusters])
        assert counted.composite[b, :4].tolist() == [tp, n_positive, n_negative - fp, n_negative]
        for c, category in enumerate(table.categories):
            flagged, weight = category.rank <= ranks[c], weights[clusters]
            assert counted.categories[b, c, 1:].tolist() == [
                int(weight[flagged & (labels[:, c] == 1)].sum()), int(weight[labels[:, c] == 1].sum()),
                int(weight[flagged & (labels[:, c] == 0)].sum()), int(weight[labels[:, c] == 0].sum()),
            ]  # fmt: skip


def test_a_resample_without_a_class_is_skipped_for_all_categories() -> None:
    scores, labels, truth = golden(1, 30, 2)
    labels[:, 1] = 0
    labels[7, 1] = truth[7] = 1
    found, composite = bootstrap_optimism(
        scores, labels, truth, np.arange(30), resamples=100, rng=np.random.default_rng(0), thresholds=YOUDEN
    )
    assert 40 < found[1].used < 85  # a trace is in a resample with probability .64
    assert found[0].used == found[1].used == composite.used


# ---- a calibration


def tables(seed: int, n: int = 300) -> tuple[pd.DataFrame, pd.DataFrame]:
    scores, labels, _ = golden(seed, n, 3, 3)
    names = ["hate", "violence", "sexual"]
    return (
        pd.DataFrame({"trace_id": range(n), **dict(zip(names, labels.T, strict=True))}),
        pd.DataFrame({"trace_id": range(n), **dict(zip(names, scores.T, strict=True))}),
    )


def spec_of(thresholds: ThresholdSpec, method: Any = "none") -> InstrumentSpec:
    return InstrumentSpec(thresholds=thresholds, optimism=OptimismSpec(method=method, resamples=30))


@pytest.mark.parametrize("method", ["none", "bootstrap", "holdout"])
def test_a_calibration_with_thresholds_chosen_together_measures_and_says_so(method: Any) -> None:
    labels, scores = tables(1)
    own = core.calibrate(labels, scores, spec_of(ThresholdSpec(), method))
    together = core.calibrate(labels, scores, spec_of(YOUDEN, method))
    assert together.composite.apparent.youden_j > own.composite.apparent.youden_j
    assert together.composite.categories == own.composite.categories
    assert any("chosen together (composite_youden)" in note for note in together.notes)
    assert not any("thresholds" in note for note in own.notes if "holdout" not in note)
    rate = core.measure(scores, together).composite.prevalence
    assert rate.status in ("measured", "inconclusive")
    assert rate.interval.low < rate.value < rate.interval.high


def test_a_floor_holds_on_the_traces_that_chose_the_thresholds() -> None:
    labels, scores = tables(2)
    for floor in (0.6, 0.8, 0.95):
        found = core.calibrate(labels, scores, spec_of(floored(floor)))
        assert found.composite.apparent.specificity >= floor
        assert not any("no thresholds were found" in note for note in found.composite.notes)
    strict, loose = (core.calibrate(labels, scores, spec_of(floored(floor))) for floor in (0.95, 0.6))
    assert strict.composite.apparent.sensitivity < loose.composite.apparent.sensitivity


def test_a_floor_that_cannot_be_kept_is_said(lab: Any) -> None:
    labels, scores = lab.golden((1, 40, 50, 40, 50))  # the judge gives .9 or .1: specificity .8 or 0
    found = core.calibrate(labels, scores, spec_of(floored(0.9))).composite
    assert found.apparent.specificity == 0.8
    assert any("no thresholds were found with a composite specificity of 0.9 or more" in note for note in found.notes)


def test_without_a_class_of_the_composite_the_categories_keep_their_own_thresholds() -> None:
    labels, scores = tables(3, 60)
    labels["hate"] = 1 - labels[["violence", "sexual"]].max(axis=1)  # every trace is positive for something
    found = core.calibrate(labels, scores.assign(hate=scores["hate"] * 0 + labels["hate"] * 0.5), spec_of(YOUDEN))
    own = core.calibrate(
        labels, scores.assign(hate=scores["hate"] * 0 + labels["hate"] * 0.5), spec_of(ThresholdSpec())
    )
    assert plain(found.categories) == plain(own.categories)
    assert found.composite.status == "not_calibrated"
    assert any("each category's own, not composite_youden" in note for note in found.notes)


def simulated(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels and scores of three categories whose errors are correlated."""
    labels = (rng.random((n, 3)) < 0.15).astype(np.int64)
    return labels, 1 / (1 + np.exp(-rng.normal(1.6 * labels, 0.8) - rng.normal(0, 0.6, (n, 1))))


@pytest.mark.parametrize(("method", "left"), [("holdout", 0.25), ("bootstrap", 0.6)])
def test_holdout_leaves_none_of_a_searchs_optimism_and_the_bootstrap_a_part(method: Any, left: float) -> None:
    labels, maxima = simulated(np.random.default_rng(99), 50_000)
    truth, names, gaps = labels.any(axis=1), ("a", "b", "c"), []
    for seed in range(40):
        golden_labels, golden_maxima = simulated(np.random.default_rng(seed), 400)
        table = GoldenTable(
            trace_ids=(), categories=names, labels=golden_labels, maxima=golden_maxima,
            missing=np.zeros((400, 3), bool), n_turns=np.ones(400, np.int64), cluster_names=None,
            clusters=np.arange(400), clustered=False, slices={}, n_unmatched=0,
        )  # fmt: skip
        categories, composite = calibrated_judge(table, spec_of(YOUDEN, method))
        flagged = (maxima >= [categories[name].threshold for name in names]).any(axis=1)
        true_j = flagged[truth].mean() - flagged[~truth].mean()
        gaps.append((composite.apparent.youden_j - true_j, composite.youden_j - true_j))
    apparent, honest = np.mean(gaps, axis=0)
    assert apparent > 0.06
    assert honest < left * apparent


# ---- the spec


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"objective": "composite_youden", "specificity_flor": 0.9}, "did you mean 'specificity_floor'"),
        ({"objective": "composite_youden", "specificity_floor": 0.9}, "only the objective composite_sensitivity"),
        ({"specificity_floor": 0.9}, "only the objective composite_sensitivity"),
        ({"objective": "composite_sensitivity"}, "needs one, such as 0.9"),
        ({"objective": "composite_sensitivity", "specificity_floor": 1.0}, "between 0 and 1"),
        ({"objective": "composite_sensitivity", "specificity_floor": float("nan")}, "between 0 and 1"),
        ({"objective": "yuden"}, "thresholds.objective"),
    ],
)
def test_thresholds_that_make_no_sense_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build_spec({"name": "safety", "thresholds": given}, InstrumentSpec, "instrument.yaml")


def test_thresholds_are_read_from_a_spec() -> None:
    given = {"objective": "composite_sensitivity", "specificity_floor": 0.9}
    assert build_spec({"thresholds": given}, InstrumentSpec, "i.yaml").thresholds == floored(0.9)
    assert InstrumentSpec().thresholds.objective == "youden"
    with pytest.raises(UndefinedError):
        floored(0.0)
