"""The Youden threshold is scikit-learn's, with ties decided on whole numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_curve

from core.errors import UndefinedError
from core.instrument.threshold import swept_threshold, youden_threshold

SCORES = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0]), st.floats(0, 1, allow_subnormal=False)
)  # many ties, and none
PAIRS = st.lists(st.tuples(SCORES, st.integers(0, 1)), min_size=2, max_size=40).filter(
    lambda pairs: len({label for _, label in pairs}) == 2
)


def by_scikit_learn(scores: np.ndarray, labels: np.ndarray) -> tuple[float | None, int, int]:
    """Go through the points of roc_curve from the highest threshold; only a larger gain replaces the best."""
    false_rate, true_rate, thresholds = roc_curve(labels, scores, drop_intermediate=False)
    positives, negatives = int(labels.sum()), int((1 - labels).sum())
    best, where = 0, None
    for i in range(1, len(thresholds)):  # the first point is +inf
        tp, fp = round(float(true_rate[i]) * positives), round(float(false_rate[i]) * negatives)
        if tp * negatives - fp * positives > best:
            best, where = tp * negatives - fp * positives, (float(thresholds[i]), tp, negatives - fp)
    return where or (None, 0, negatives)


@settings(max_examples=300, deadline=None)
@given(PAIRS)
def test_the_threshold_is_bit_equal_to_a_loop_over_roc_curve(pairs: list[tuple[float, int]]) -> None:
    scores, labels = np.array([s for s, _ in pairs]), np.array([label for _, label in pairs])
    found = youden_threshold(scores, labels)
    assert (found.threshold, found.true_positives, found.true_negatives) == by_scikit_learn(scores, labels)


@settings(max_examples=300, deadline=None)
@given(PAIRS)
def test_the_sweep_finds_what_scikit_learn_finds_bit_for_bit(pairs: list[tuple[float, int]]) -> None:
    scores, labels = np.array([s for s, _ in pairs]), np.array([label for _, label in pairs])
    assert swept_threshold(scores, labels) == youden_threshold(scores, labels)


@pytest.mark.parametrize("decimals", [1, 2, 3, 17])
@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_the_sweep_finds_what_scikit_learn_finds_on_many_drawn_golden_sets(decimals: int, share: float) -> None:
    for seed in range(60):
        rng = np.random.default_rng([seed, decimals])
        n = int(rng.integers(10, 1500))
        labels = (rng.random(n) < share).astype(np.int64)
        labels[:2] = 0, 1
        strength = rng.choice([-1.0, 0.0, 0.3, 2.0])
        scores = (1 / (1 + np.exp(-rng.normal(strength * labels, 1)))).round(decimals)
        assert swept_threshold(scores, labels) == youden_threshold(scores, labels)


def test_a_threshold_of_zero_has_no_sign() -> None:
    scores, labels = np.array([-0.0, -0.0, 0.0]), np.array([1, 1, 0])
    for scores_of_negative in (scores, np.array([0.0, 0.0, -0.0])):
        assert youden_threshold(scores_of_negative, labels).threshold is None
    with pytest.raises(UndefinedError):
        swept_threshold(scores, np.ones(3, np.int64))


def test_the_oracle_of_the_statistics_page() -> None:
    best = youden_threshold([0.1, 0.4, 0.35, 0.8, 0.7, 0.6, 0.9, 0.2], [0, 0, 1, 1, 1, 0, 1, 0])
    assert (best.threshold, best.youden_j) == (0.7, 0.75)


def test_of_equal_thresholds_the_highest_wins_as_in_scikit_learns_example() -> None:
    best = youden_threshold([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1])  # .8 and .35 both reach J = .5
    assert (best.threshold, best.youden_j, best.true_positives, best.true_negatives) == (0.8, 0.5, 1, 2)


@pytest.mark.parametrize("scores", [[0.9, 0.8, 0.2, 0.1], [0.5, 0.5, 0.5, 0.5]])
def test_a_judge_that_no_threshold_helps_has_none(scores: list[float]) -> None:
    best = youden_threshold(scores, [0, 0, 1, 1])
    assert (best.threshold, best.true_positives, best.true_negatives, best.youden_j) == (None, 0, 2, 0.0)


def test_a_score_at_the_threshold_is_flagged() -> None:
    best = youden_threshold([0.3, 0.3, 0.2], [1, 1, 0])
    assert (best.threshold, best.true_positives) == (0.3, 2)


@pytest.mark.parametrize(
    ("scores", "labels"),
    [
        ([0.1, 0.2], [1, 1]), ([], []), ([0.1, 1.2], [0, 1]), ([0.1, float("nan")], [0, 1]),
        ([0.1, 0.2], [0, 2]), ([0.1], [0, 1]), ([0.1, float("inf")], [0, 1]),
    ],
)  # fmt: skip
def test_what_has_no_curve_is_refused(scores: list[float], labels: list[int]) -> None:
    with pytest.raises(UndefinedError):
        youden_threshold(scores, labels)
