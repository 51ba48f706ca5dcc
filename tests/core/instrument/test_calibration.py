"""From a golden set to an instrument: real judges, honest rates, and what steers nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core
from core.data.golden import GoldenSet
from core.errors import InputError
from core.instrument.calibrated import Calibration
from core.instrument.calibration import calibrate
from core.instrument.optimism import bootstrap_optimism
from core.instrument.spec import InstrumentSpec, OptimismSpec
from core.instrument.strata import strata_of
from core.instrument.threshold import youden_threshold
from core.records import plain
from tasks.storage import InputFile
from tasks.tables import MemorySource, load_golden, load_golden_scores

FAST = InstrumentSpec(optimism=OptimismSpec(resamples=30))

# ---- real judges on published golden sets


def published(shared: Path, reader: str, path: str) -> GoldenSet:
    file = InputFile(path=shared / "data/golden" / path, name=path, reader=reader)
    return load_golden([file], categories=None, slices=())[0]


def calibrated(shared: Path, golden: GoldenSet, judges: dict[str, str], spec: InstrumentSpec) -> Calibration:
    """Calibrate with the scores of one file a category."""
    frames = [
        pd.read_csv(shared / "data/scores" / f"{judge}.csv", dtype={"id": str})
        .rename(columns={"id": "trace_id"})[["trace_id", "score"]]
        .assign(category=category)
        for category, judge in judges.items()
    ]
    table = pa.Table.from_pandas(pd.concat(frames), preserve_index=False)
    scores, _ = load_golden_scores([MemorySource("scores", table)], golden, last_turn_only=False)
    return calibrate(golden, scores, spec)[0]


@pytest.fixture(scope="module")
def hatecheck(shared: Path) -> GoldenSet:
    return published(shared, "hatecheck", "hatecheck/test_suite_cases.csv")


@pytest.fixture(scope="module")
def minilm(shared: Path, hatecheck: GoldenSet) -> Calibration:
    return calibrated(shared, hatecheck, {"hate": "minilm_hatecheck_groupcv__hatecheck"}, InstrumentSpec())


@pytest.fixture(scope="module")
def moderation(shared: Path) -> Calibration:
    golden = published(shared, "openai-moderation-golden", "openai_moderation/samples-1680.jsonl.gz")
    flags = {"hate": "H", "violence": "V", "self-harm": "SH", "sexual": "S"}
    judges = {name: f"minilm_oof_{flag}__openai_moderation" for name, flag in flags.items()}
    return calibrated(shared, golden, judges, InstrumentSpec())


def test_a_profanity_filter_on_hatecheck_is_below_the_floor(shared: Path, hatecheck: GoldenSet) -> None:
    spec = InstrumentSpec(slices=("functionality",))
    found = calibrated(shared, hatecheck, {"hate": "altprofanity__hatecheck"}, spec)
    hate = found.categories["hate"]
    assert hate.threshold == 0.110764
    assert (hate.true_positives, hate.n_positive) == (1992, 2563)
    assert (hate.true_negatives, hate.n_negative) == (292, 1165)
    assert round(hate.apparent.youden_j, 4) == 0.0279
    assert hate.status == found.composite.status == "below_detection_floor"
    assert hate.youden_j < hate.apparent.youden_j
    specificity = {name: part.categories["hate"].specificity for name, part in found.slices["functionality"].items()}
    assert specificity["profanity_nh"] == specificity["slur_reclaimed_nh"] == 0.0
    assert specificity["ident_neutral_nh"] > 0.5
    production = pd.DataFrame({"trace_id": range(400), "hate": [0.9, 0.0] * 200})
    rate = core.measure(production, found).composite.prevalence
    assert (rate.status, rate.value, rate.interval) == ("below_detection_floor", None, None)


def test_a_trained_judge_on_hatecheck_is_measured_with_templates_as_clusters(
    shared: Path, hatecheck: GoldenSet, minilm: Calibration
) -> None:
    hate = minilm.categories["hate"]
    assert hate.threshold == 0.491091
    assert (hate.true_positives, hate.n_positive) == (2278, 2563)
    assert (hate.true_negatives, hate.n_negative) == (937, 1165)
    assert round(hate.apparent.youden_j, 4) == 0.6931
    assert hate.status == "measured"
    assert 0.670 < hate.youden_j < 0.690  # .680 on held-out templates
    assert hate.effective.clustered
    assert minilm.golden.n_clusters == 845
    alone = GoldenSet(
        trace_ids=hatecheck.trace_ids, categories=hatecheck.categories, labels=hatecheck.labels, clusters=None,
        slices={}, n_rows=hatecheck.n_rows, n_duplicates=0,
    )  # fmt: skip
    judges = {"hate": "minilm_hatecheck_groupcv__hatecheck"}
    independent = calibrated(shared, alone, judges, InstrumentSpec()).categories["hate"]
    assert hate.threshold == independent.threshold
    assert hate.youden_j_low < independent.youden_j_low - 0.02


@pytest.mark.parametrize(
    "judge", ["altprofanity__hatecheck", "hatesonar_hate__hatecheck", "minilm_hatecheck_groupcv__hatecheck"]
)
def test_templates_make_j_less_certain_than_independent_traces_would(
    shared: Path, hatecheck: GoldenSet, judge: str
) -> None:
    """Measured on HateCheck: a standard error of J 1.1 to 2.4 times the independent one."""
    spec = InstrumentSpec(optimism=OptimismSpec(method="none"))
    hate = calibrated(shared, hatecheck, {"hate": judge}, spec).categories["hate"]
    variances = [rate * (1 - rate) for rate in (hate.apparent.sensitivity, hate.apparent.specificity)]
    alone = variances[0] / hate.n_positive + variances[1] / hate.n_negative
    clustered = variances[0] / hate.effective.n_positive + variances[1] / hate.effective.n_negative
    assert 1.1 <= np.sqrt(clustered / alone) <= 2.4


def test_hatecheck_speaks_for_single_turns_only(minilm: Calibration) -> None:
    production = pd.DataFrame(
        {"trace_id": np.repeat(range(400), 4), "turn": list(range(4)) * 400, "hate": [0.0, 0.1, 0.2, 0.7] * 400}
    )
    composite = core.measure(production, minilm).composite
    assert composite.observed_rate == 1.0
    rate = composite.prevalence
    assert (rate.status, rate.value, rate.raw, rate.interval) == ("unit_mismatch", None, None, None)
    apparent = minilm.composite.apparent
    raw = (1 + apparent.specificity - 1) / apparent.youden_j
    assert (rate.apparent.raw, rate.apparent.valid_here) == (pytest.approx(raw), False)


@pytest.mark.parametrize(
    ("category", "youden_j"), [("hate", 0.5686), ("violence", 0.5745), ("self-harm", 0.8686), ("sexual", 0.7703)]
)
def test_categories_of_the_moderation_set_reach_their_apparent_j(
    moderation: Calibration, category: str, youden_j: float
) -> None:
    assert round(moderation.categories[category].apparent.youden_j, 4) == youden_j


def test_the_composite_of_the_moderation_set_is_counted_on_decidable_traces(moderation: Calibration) -> None:
    composite = moderation.composite
    assert (composite.n_positive, composite.n_negative, moderation.golden.n_undecidable) == (490, 374, 816)
    assert (composite.true_positives, composite.true_negatives) == (461, 116)
    assert set(composite.categories) == {"hate", "violence", "self-harm", "sexual"}
    ceiling = composite.ceiling
    assert ceiling.measured == 116 / 374
    assert ceiling.measured < ceiling.product < ceiling.minimum
    assert sum(pattern.n_positive for pattern in composite.by_pattern.values()) == 490
    assert sum(pattern.true_positives for pattern in composite.by_pattern.values()) == 461


def test_a_category_without_labels_is_left_out_by_name(moderation: Calibration) -> None:
    left_out = moderation.categories["dangerous-instructions"]
    assert (left_out.status, left_out.threshold, left_out.n_positive, left_out.n_negative) == (
        "not_calibrated", None, 0, 0,
    )  # fmt: skip
    assert moderation.composite.left_out == ("dangerous-instructions",)
    production = pd.DataFrame({"trace_id": range(50), **dict.fromkeys(moderation.composite.categories, 0.0)})
    measured = core.measure(production, moderation)
    unmeasured = measured.categories["dangerous-instructions"]
    assert measured.left_out == ("dangerous-instructions",)
    assert (unmeasured.prevalence.status, unmeasured.observed_rate, unmeasured.n_units) == ("not_calibrated", None, 0)
    assert any("dangerous-instructions" in note for note in measured.notes)


# ---- a golden set drawn at random


def drawn(seed: int, n: int = 120, n_categories: int = 2, clusters: int | None = None) -> tuple[pd.DataFrame, ...]:
    """Labels (some empty) and scores of conversations of 1-3 turns."""
    rng = np.random.default_rng(seed)
    names = [f"harm-{c}" for c in range(n_categories)]
    truth = rng.random((n, n_categories)) < 0.4
    golden = pd.DataFrame({"trace_id": [f"t{i}" for i in range(n)]})
    for c, name in enumerate(names):
        golden[name] = np.where(rng.random(n) < 0.1, np.nan, truth[:, c])
    if clusters:
        golden["cluster"] = [f"k{g}" for g in rng.integers(0, clusters, n)]
    turns = rng.integers(1, 4, n)
    scores = pd.DataFrame(
        {"trace_id": np.repeat(golden["trace_id"], turns), "turn": np.concatenate([np.arange(t) for t in turns])}
    ).reset_index(drop=True)
    of_turn = np.repeat(np.arange(n), turns)
    for c, name in enumerate(names):
        level = rng.normal(truth[:, c] * 1.5, 1)[of_turn] + rng.normal(0, 0.5, len(scores))
        scores[name] = (1 / (1 + np.exp(-level))).round(2)
    return golden, scores


def without_content(calibration: Calibration) -> Any:
    """Drop the digest of the golden set, which differs with its columns."""
    document = plain(calibration)
    del document["golden"]["sha256"]
    return document


@pytest.mark.parametrize("clusters", [None, 25])
def test_permuting_rows_changes_no_figure(clusters: int | None) -> None:
    golden, scores = drawn(1, clusters=clusters)
    expected = plain(core.calibrate(golden, scores, FAST))
    for seed in range(3):
        shuffled = golden.sample(frac=1, random_state=seed), scores.sample(frac=1, random_state=seed)
        assert plain(core.calibrate(*shuffled, FAST)) == expected


def test_the_order_of_category_columns_changes_no_figure() -> None:
    golden, scores = drawn(2, n_categories=3)
    turned = (
        golden[["trace_id", "harm-2", "harm-0", "harm-1"]],
        scores[["harm-1", "trace_id", "harm-0", "turn", "harm-2"]],
    )
    assert plain(core.calibrate(*turned, FAST)) == plain(core.calibrate(golden, scores, FAST))


def test_long_and_wide_tables_give_one_calibration() -> None:
    golden, scores = drawn(3)
    long_golden = golden.melt(["trace_id"], var_name="category", value_name="label")
    long_scores = scores.melt(["trace_id", "turn"], var_name="category", value_name="score")
    expected = plain(core.calibrate(golden, scores, FAST))
    assert plain(core.calibrate(long_golden, long_scores, FAST)) == expected


def test_traces_that_are_each_their_own_cluster_are_traces_without_clusters() -> None:
    golden, scores = drawn(4)
    named = golden.assign(cluster=[f"k{i * 7919 % 1000}" for i in range(len(golden))])
    assert without_content(core.calibrate(named, scores, FAST)) == without_content(core.calibrate(golden, scores, FAST))


def test_names_of_clusters_steer_nothing() -> None:
    golden, scores = drawn(5, clusters=30)
    renamed = golden.assign(cluster=[f"{name[::-1]}-renamed" for name in golden["cluster"]])
    expected = without_content(core.calibrate(golden, scores, FAST))
    assert without_content(core.calibrate(renamed, scores, FAST)) == expected


def test_a_category_that_nobody_labelled_changes_no_other_figure() -> None:
    golden, scores = drawn(6)
    more = golden.assign(aside=pd.array([None] * len(golden), "Int64"))
    spec = InstrumentSpec(optimism=OptimismSpec(resamples=30), categories=("harm-0", "aside", "harm-1"))
    expected, found = plain(core.calibrate(golden, scores, FAST)), plain(
        core.calibrate(more, scores.assign(aside=0.99), spec)
    )  # fmt: skip
    assert found["categories"].pop("aside")["status"] == "not_calibrated"
    assert found["composite"].pop("left_out") == ["aside"]
    expected["composite"].pop("left_out")
    for document in (expected, found):
        del document["golden"]["sha256"]
    assert found == expected
    units = scores.assign(trace_id=scores["trace_id"] + "p")
    assert plain(core.measure(units, core.calibrate(more, scores.assign(aside=0.99), spec)).composite) == plain(
        core.measure(units, core.calibrate(golden, scores, FAST)).composite
    )


def test_resampling_depends_on_the_seed_alone() -> None:
    golden, scores = drawn(7)
    again = [core.calibrate(golden, scores, FAST) for _ in range(2)]
    assert plain(again[0]) == plain(again[1])
    other = InstrumentSpec(optimism=OptimismSpec(resamples=30), seed=1)
    assert core.calibrate(golden, scores, other).composite.optimism != again[0].composite.optimism


# ---- truth and the missing


def test_composite_truth_is_undecidable_where_a_label_is_missing_and_none_is_positive(lab: Any) -> None:
    golden = pd.DataFrame({"trace_id": range(40), "a": [1, 0, 0, None] * 10, "b": [None, 0, 1, 0] * 10})
    scores = pd.DataFrame({"trace_id": range(40), "a": [0.9, 0.1, 0.1, 0.1] * 10, "b": [0.1, 0.1, 0.9, 0.1] * 10})
    found = core.calibrate(golden, scores, lab.UNCORRECTED)
    assert (found.composite.n_positive, found.composite.n_negative, found.golden.n_undecidable) == (20, 10, 10)
    assert (found.categories["a"].n_positive, found.categories["a"].n_negative) == (10, 20)


def test_golden_traces_that_the_judge_did_not_score_at_every_turn_are_left_out_and_counted(lab: Any) -> None:
    golden, scores = lab.golden((2, 18, 20, 18, 20))
    scores.loc[scores["trace_id"].isin([0, 1, 25]) & (scores["turn"] == 0), "harm"] = None
    gap = scores["trace_id"].eq(2) & scores["turn"].eq(0)
    scores.loc[gap.shift(1, fill_value=False), "turn"] = 3
    found = core.calibrate(golden, scores, lab.UNCORRECTED).categories["harm"]
    assert (found.n_positive, found.n_negative, found.n_unscored) == (17, 19, 4)


def test_one_class_of_labels_cannot_calibrate(lab: Any) -> None:
    golden = pd.DataFrame({"trace_id": range(20), "harm": 1})
    scores = pd.DataFrame({"trace_id": range(20), "harm": 0.5})
    with pytest.raises(InputError, match="no category can be calibrated: harm has 20 positive and 0 negative"):
        core.calibrate(golden, scores, lab.UNCORRECTED)


# ---- optimism


def test_optimism_is_that_of_a_plain_loop_over_resampled_clusters() -> None:
    rng = np.random.default_rng(0)
    n, resamples = 60, 40
    labels = rng.integers(-1, 2, (n, 2))
    scores = (rng.random((n, 2)) + 0.3 * labels).clip(0, 1).round(1)
    composite = np.where((labels == 1).any(axis=1), 1, np.where((labels == 0).all(axis=1), 0, -1))
    clusters = np.sort(rng.integers(0, 20, n))
    clusters = np.unique(clusters, return_inverse=True)[1]
    found, of_composite = bootstrap_optimism(
        scores, labels, composite, clusters, resamples=resamples, rng=np.random.default_rng(5)
    )
    draws = np.random.default_rng(5)
    n_clusters = clusters.max() + 1
    gaps: list[list[tuple[float, float]]] = [[], [], []]
    for _ in range(resamples):
        drawn_clusters = draws.integers(0, n_clusters, n_clusters)
        rows = np.concatenate([np.flatnonzero(clusters == g) for g in drawn_clusters])
        flags = np.zeros((n, 2), bool)
        for c in range(2):
            sample = rows[labels[rows, c] >= 0]
            tau = youden_threshold(scores[sample, c], labels[sample, c]).threshold
            flags[:, c] = False if tau is None else scores[:, c] >= tau
            gaps[c].append(_gap(flags[:, c], labels[:, c], rows))
        gaps[2].append(_gap(flags.any(axis=1), composite, rows))
    for optimism, expected in zip([*found, of_composite], gaps, strict=True):
        assert (optimism.sensitivity, optimism.specificity) == pytest.approx(tuple(np.mean(expected, axis=0)))
        assert optimism.used == optimism.resamples == resamples


def _gap(flagged: np.ndarray, truth: np.ndarray, rows: np.ndarray) -> tuple[float, float]:
    def rates(index: np.ndarray) -> np.ndarray:
        f, t = flagged[index], truth[index]
        return np.array([f[t == 1].mean(), 1 - f[t == 0].mean()])

    return tuple(rates(rows) - rates(np.arange(len(truth))))


def test_resamples_without_a_class_are_skipped_counted_and_said(lab: Any) -> None:
    golden, scores = lab.golden((1, 1, 1, 38, 40))
    found = core.calibrate(golden, scores, InstrumentSpec(optimism=OptimismSpec(resamples=200))).categories["harm"]
    skipped = found.optimism.resamples - found.optimism.used
    assert 40 < skipped < 110  # a trace is in no resample of 41 with probability (40/41)^41 = .36
    assert f"{skipped} of 200 resamples lacked a class and were skipped" in found.notes


def test_optimism_takes_about_the_published_amount_off_a_small_golden_set() -> None:
    rng = np.random.default_rng(11)  # beta scores, 50 a class: J .4423 apparent, .3545 true (STATISTICS 4, medium)
    apparent, honest = [], []
    for _ in range(40):
        scores = np.r_[rng.beta(3, 2, 50), rng.beta(2, 3, 50)]
        labels = np.repeat([1, 0], 50)
        (off,), _ = bootstrap_optimism(
            scores[:, None], labels[:, None], labels, np.arange(100), resamples=100, rng=np.random.default_rng(1)
        )
        apparent.append(youden_threshold(scores, labels).youden_j)
        honest.append(apparent[-1] - off.sensitivity - off.specificity)
    assert np.mean(apparent) == pytest.approx(0.4423, abs=0.03)
    assert np.mean(honest) == pytest.approx(0.3545, abs=0.035)


# ---- strata


def test_small_strata_are_merged_to_the_left_the_first_to_the_right_and_empty_ones_never(lab: Any) -> None:
    def golden(*counts: tuple[int, int, int]) -> Any:
        bins, truth = [], []
        for b, positives, negatives in counts:
            bins += [b] * (positives + negatives)
            truth += [1] * positives + [0] * negatives
        found = strata_of(np.array(bins), np.array(truth), np.array(truth) == 1, (1, 2, 3, 4, 8))
        return [(s.turns, s.bins, s.n_positive, s.n_negative) for s in found]

    assert golden((0, 10, 10), (1, 10, 10)) == [("1", (0,), 10, 10), ("2", (1,), 10, 10)]
    assert golden((0, 50, 50), (1, 9, 50), (2, 50, 50)) == [("1, 2", (0, 1), 59, 100), ("3", (2,), 50, 50)]
    assert golden((0, 9, 50), (1, 20, 20)) == [("1, 2", (0, 1), 29, 70)]
    assert golden((0, 50, 50), (3, 5, 5), (5, 5, 5)) == [("1", (0,), 50, 50), ("4, 9+", (3, 5), 10, 10)]
    assert golden((0, 50, 50), (3, 0, 90)) == [("1, 4", (0, 3), 50, 140)]
    merged = core.calibrate(*lab.golden((1, 45, 50, 45, 50), (3, 4, 5, 4, 5)), lab.UNCORRECTED).composite
    assert "turn counts 1, 3 are one stratum" in "; ".join(merged.notes)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1), st.booleans()), min_size=1, max_size=80))
def test_strata_keep_every_trace_once(traces: list[tuple[int, int, bool]]) -> None:
    bins, truth, flagged = (np.array(column) for column in zip(*traces, strict=True))
    strata = strata_of(bins, truth, flagged, (1, 2, 3, 4, 8))
    assert sum(s.n_positive for s in strata) == (truth == 1).sum()
    assert sum(s.n_negative for s in strata) == (truth == 0).sum()
    assert sum(s.true_positives for s in strata) == ((truth == 1) & flagged).sum()
    assert sorted(b for s in strata for b in s.bins) == sorted(set(bins.tolist()))
    assert len(strata) == 1 or all(min(s.n_positive, s.n_negative) >= 10 for s in strata)
