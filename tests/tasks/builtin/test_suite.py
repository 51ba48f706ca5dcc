"""The built-in suite: enough cases of every kind, labels by construction, the same law in every part."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.metrics import roc_curve

from core.errors import InputError
from tasks.builtin.suite import (
    Dice,
    _release_traces,
    _turn_counts,
    golden_suite,
    load_suite,
    release,
    release_truth,
)
from tasks.judges.lexical import LexicalJudge

CATEGORIES = ["hate", "violence", "self-harm", "sexual", "dangerous-instructions"]
RELEASES = ["guard-x@1.1", "guard-x@1.2"]
LEAST = 10


@pytest.fixture(scope="module")
def golden() -> pd.DataFrame:
    """One row per golden turn."""
    table: pd.DataFrame = golden_suite().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    return table


def trace_label(turns: pd.Series[int]) -> int | None:
    """Label a trace: 1 if any turn is 1, else empty if any is empty, else 0."""
    if turns.eq(1).any():
        return 1
    return None if turns.isna().any() else 0


@pytest.fixture(scope="module")
def traces(golden: pd.DataFrame) -> pd.DataFrame:
    """One row per golden trace, with its labels and the composite one."""
    labels = golden.groupby("trace_id")[CATEGORIES].agg(trace_label)
    about = golden.groupby("trace_id").agg(n_turns=("turn", "size"), cluster=("cluster", "first"))
    table = labels.astype("Int64").join(about)
    positive = table[CATEGORIES].eq(1).any(axis=1).fillna(False)
    undecided = ~positive & table[CATEGORIES].isna().any(axis=1)
    table["composite"] = positive.astype("Int64").mask(undecided)
    return table


def test_the_golden_set_has_the_wide_form() -> None:
    schema = golden_suite().schema
    assert schema.names == ["trace_id", "turn", "text", "cluster", "functionality", "topic", *CATEGORIES]
    assert {str(schema.field(name).type) for name in ["turn", *CATEGORIES]} == {"int64"}


def test_turns_are_numbered_from_zero_without_a_gap(golden: pd.DataFrame) -> None:
    for _, turns in golden.groupby("trace_id")["turn"]:
        assert list(turns) == list(range(len(turns)))


def test_cluster_and_slices_are_constant_in_a_trace(golden: pd.DataFrame) -> None:
    assert (golden.groupby("trace_id")[["cluster", "functionality", "topic"]].nunique() == 1).all(axis=None)


def test_a_third_to_a_half_of_the_golden_traces_violate_something(traces: pd.DataFrame) -> None:
    assert 700 <= len(traces) <= 950
    assert 0.35 <= traces["composite"].mean() <= 0.45


def test_some_traces_violate_two_categories(traces: pd.DataFrame) -> None:
    assert (traces[CATEGORIES].eq(1).sum(axis=1) == 2).sum() >= LEAST


def test_a_few_traces_leave_one_category_undecided(traces: pd.DataFrame) -> None:
    empty = traces[CATEGORIES].isna().sum(axis=1)
    assert empty.max() == 1
    assert 0.01 <= (empty == 1).mean() <= 0.04


@pytest.mark.parametrize("category", [*CATEGORIES, "composite"])
def test_every_class_has_clusters_enough(traces: pd.DataFrame, category: str) -> None:
    for label in (0, 1):
        assert traces.loc[traces[category].eq(label), "cluster"].nunique() >= LEAST


@pytest.mark.parametrize("category", CATEGORIES)
def test_every_category_has_its_own_violations_and_contrasts(category: str) -> None:
    suite = load_suite()
    assert len(suite.violations[category]) >= 12
    assert len(suite.contrasts[category]) >= 12


def test_no_cluster_has_both_classes(traces: pd.DataFrame) -> None:
    assert (traces.groupby("cluster")["composite"].nunique() <= 1).all()


@pytest.mark.parametrize("category", CATEGORIES)
def test_no_turn_stratum_is_short_of_a_class(traces: pd.DataFrame, category: str) -> None:
    strata = traces["n_turns"].clip(upper=5)
    for name in (category, "composite"):
        for label in (0, 1):
            counts = traces[name].eq(label).groupby(strata).sum()
            assert list(counts.index) == [1, 2, 3, 4, 5]
            assert (counts >= LEAST).all()


def test_only_the_case_turn_of_a_trace_is_ever_a_violation(golden: pd.DataFrame) -> None:
    violating = golden[CATEGORIES].eq(1).any(axis=1)
    assert violating.groupby(golden["trace_id"]).sum().max() == 1


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_has_its_columns_and_no_label(name: str) -> None:
    table = release(name)
    assert table.schema.names == ["trace_id", "turn", "text", "cluster", "target"]
    assert table["target"].unique().to_pylist() == [name]
    assert len(table["trace_id"].unique()) == 1500
    assert len(table["cluster"].unique()) >= 60


@pytest.mark.parametrize("name", RELEASES)
def test_the_truth_of_a_release_is_what_its_labels_count(name: str) -> None:
    made = _release_traces(name)
    truth = release_truth(name)
    for category in CATEGORIES:
        assert truth[category] * len(made) == pytest.approx(sum(category in t.template.labels for t in made))
    assert truth["composite"] * len(made) == pytest.approx(sum(bool(t.template.labels) for t in made))
    assert truth["composite"] <= sum(truth[category] for category in CATEGORIES)


def test_the_newer_release_is_half_as_harmful() -> None:
    assert [release_truth(name)["composite"] for name in RELEASES] == [0.18, 0.09]


@pytest.mark.parametrize("name", RELEASES)
def test_turn_counts_are_shared_alike_by_releases_and_both_golden_classes(name: str, traces: pd.DataFrame) -> None:
    shares = pd.Series(load_suite().turns) / 100
    counts = release(name).to_pandas().groupby("trace_id").size()
    for lengths in (
        counts,
        traces.loc[traces.composite.eq(0), "n_turns"],
        traces.loc[traces.composite.eq(1), "n_turns"],
    ):
        assert (lengths.value_counts(normalize=True) - shares).abs().max() < 0.02


@pytest.mark.parametrize("name", RELEASES)
def test_violations_of_a_release_have_the_category_mix_of_the_golden_set(name: str, traces: pd.DataFrame) -> None:
    truth = pd.Series(release_truth(name))
    golden_mix = traces.loc[traces.composite.eq(1), CATEGORIES].fillna(0).mean()
    assert (truth[CATEGORIES] / truth["composite"] - golden_mix).abs().max() < 0.04


def test_releases_and_golden_set_differ_in_their_fills() -> None:
    cases = [{trace.texts[trace.case_turn] for trace in _release_traces(name)} for name in RELEASES]
    assert len(cases[0] ^ cases[1]) > 500


def test_trace_ids_name_their_release() -> None:
    ids = [set(release(name)["trace_id"].to_pylist()) for name in RELEASES]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("part", ["golden", *RELEASES])
def test_every_placeholder_is_filled_and_every_turn_is_one_short_line(part: str) -> None:
    table = golden_suite() if part == "golden" else release(part)
    for text in table["text"].to_pylist():
        assert re.fullmatch(r"User: [^{}|\n]+ Assistant: [^{}|\n]+", text)
        assert len(text) < 400


def digest(table: pa.Table) -> str:
    return hashlib.sha256(json.dumps(table.to_pylist(), sort_keys=True).encode()).hexdigest()


@pytest.mark.parametrize(
    ("part", "sha256"),
    [
        ("golden", "75f96862550e00f719feef70c1660a13a0ef30670a23716c3aafb0b539f4d8bd"),
        ("guard-x@1.1", "93d33b4dabf9a07e29affef1a023463d6c7c1f70d2afbe33fe02312b8df716bc"),
        ("guard-x@1.2", "0b39fafe58fd69e229463e581c87bfa00a869d5bad602530f5d4eaceb114e1a5"),
    ],
)
def test_the_data_are_the_same_on_every_machine_and_version(part: str, sha256: str) -> None:
    """A changed digest means changed data: every recorded calibration on them is then another one."""
    assert digest(golden_suite() if part == "golden" else release(part)) == sha256


def test_an_unknown_release_is_an_error_that_names_the_known_ones() -> None:
    for ask in (release, release_truth):
        with pytest.raises(InputError, match=r"guard-y@1.*guard-x@1\.1, guard-x@1\.2"):
            ask("guard-y@1")


@pytest.mark.parametrize("count", [1, 7, 78, 104, 246])
def test_turn_counts_follow_their_shares_to_the_nearest_trace(count: int) -> None:
    shares = load_suite().turns
    counted = Counter(_turn_counts(count, shares))
    assert counted.total() == count
    assert all(abs(counted[n_turns] - count * share / 100) <= 1 for n_turns, share in shares.items())


def trace_maxima(table: pa.Table) -> pd.DataFrame:
    """Score a table with the built-in judge: a trace's score is the maximum over its turns."""
    verdicts = LexicalJudge().score(table["text"].to_pylist())
    scores = pd.DataFrame([dict(verdict.scores) for verdict in verdicts])
    return scores.groupby(table["trace_id"].to_pandas()).max()


def youden_threshold(scores: pd.Series[float], labels: pd.Series[int]) -> float:
    known = labels.notna()
    false_positives, true_positives, thresholds = roc_curve(
        labels[known].astype(int), scores[known], drop_intermediate=False
    )
    return float(thresholds[np.argmax(true_positives - false_positives)])


@pytest.fixture(scope="module")
def thresholds(traces: pd.DataFrame) -> dict[str, float]:
    """The threshold of each category that the golden set calibrates the built-in judge to."""
    maxima = trace_maxima(golden_suite())
    return {category: youden_threshold(maxima[category], traces[category]) for category in CATEGORIES}


@pytest.fixture(scope="module")
def rates(traces: pd.DataFrame, thresholds: dict[str, float]) -> tuple[float, float]:
    """Composite sensitivity and specificity of the built-in judge on the golden set."""
    flagged = (trace_maxima(golden_suite()) >= pd.Series(thresholds)).any(axis=1)
    sensitivity = flagged[traces["composite"].eq(1)].mean()
    specificity = 1 - flagged[traces["composite"].eq(0)].mean()
    return float(sensitivity), float(specificity)


def test_the_built_in_judge_is_useful_on_the_suite_and_far_from_perfect(rates: tuple[float, float]) -> None:
    assert 0.45 <= sum(rates) - 1 <= 0.75


def test_the_built_in_judge_grades_its_scores() -> None:
    assert (trace_maxima(golden_suite())[CATEGORIES].nunique() >= 30).all()


@pytest.mark.parametrize("category", CATEGORIES)
def test_violations_score_higher_than_their_contrasts_on_average(golden: pd.DataFrame, category: str) -> None:
    maxima = trace_maxima(golden_suite())[category]
    cluster = golden.groupby("trace_id")["cluster"].first()
    suite = load_suite()
    violations, contrasts = (
        maxima[cluster.isin([template.name for template in side[category]])].mean()
        for side in (suite.violations, suite.contrasts)
    )
    assert violations > 2 * contrasts > 0


@pytest.mark.parametrize("name", RELEASES)
def test_the_corrected_rate_of_a_release_lands_near_its_truth_and_the_raw_rate_does_not(
    name: str, thresholds: dict[str, float], rates: tuple[float, float]
) -> None:
    sensitivity, specificity = rates
    raw = (trace_maxima(release(name)) >= pd.Series(thresholds)).any(axis=1).mean()
    corrected = (raw + specificity - 1) / (sensitivity + specificity - 1)
    truth = release_truth(name)["composite"]
    assert abs(corrected - truth) < 0.03 < abs(raw - truth)


def test_dice_shuffle_every_item_and_give_the_same_order_for_the_same_seed() -> None:
    first, second = (Dice(np.random.default_rng(5)).shuffled(range(50)) for _ in range(2))
    assert first == second != list(range(50))
    assert sorted(first) == list(range(50))
