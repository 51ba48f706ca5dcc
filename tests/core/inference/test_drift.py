"""Drift of scores: from histograms, what the scores themselves would say."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ks_2samp, mannwhitneyu

from core.errors import UndefinedError
from core.inference.drift import BINS, ScoreDrift, ScoreHistogram, score_drift

SCORES = st.lists(st.floats(0, 1), min_size=5, max_size=60)
ON_BINS = st.lists(st.integers(0, BINS - 1).map(lambda b: b / BINS), min_size=5, max_size=60)


def compared(reference: list[float] | np.ndarray, found: list[float] | np.ndarray) -> ScoreDrift:
    return score_drift({"hate": ScoreHistogram.of(reference)}, {"hate": ScoreHistogram.of(found)})["hate"]


def effect_of(reference: list[float], found: list[float]) -> float:
    return float(mannwhitneyu(found, reference, method="asymptotic").statistic) / (len(found) * len(reference))


@given(ON_BINS, ON_BINS)
def test_scores_that_the_bins_keep_apart_give_scipys_figures(reference: list[float], found: list[float]) -> None:
    drift = compared(reference, found)
    assert drift.effect == pytest.approx(effect_of(reference, found))
    assert drift.ks_distance == pytest.approx(ks_2samp(found, reference, method="asymp").statistic)
    if len({*reference, *found}) > 1:
        # scipy.stats.mannwhitneyu: normal approximation, corrected for ties and continuity.
        assert drift.p_value == pytest.approx(mannwhitneyu(found, reference, method="asymptotic").pvalue, abs=1e-9)
    else:
        assert drift.p_value == 1.0


@given(SCORES, SCORES)
def test_binning_moves_effect_and_distance_by_no_more_than_it_says(reference: list[float], found: list[float]) -> None:
    drift = compared(reference, found)
    assert drift.effect is not None
    assert drift.effect_resolution is not None
    assert drift.ks_distance is not None
    assert drift.ks_distance_at_most is not None
    assert abs(drift.effect - effect_of(reference, found)) <= drift.effect_resolution + 1e-12
    distance = float(ks_2samp(found, reference, method="asymp").statistic)
    assert drift.ks_distance - 1e-12 <= distance <= drift.ks_distance_at_most + 1e-12


@given(SCORES, SCORES)
def test_the_interval_holds_the_effect_has_width_and_turns_with_the_samples(
    reference: list[float], found: list[float]
) -> None:
    drift, turned = compared(reference, found), compared(found, reference)
    assert drift.low is not None
    assert drift.effect is not None
    assert drift.high is not None
    assert 0 <= drift.low <= drift.effect <= drift.high <= 1
    assert drift.low < drift.high
    assert turned.effect == pytest.approx(1 - drift.effect)
    assert (turned.low, turned.high) == pytest.approx((1 - drift.high, 1 - drift.low), abs=1e-9)


@given(SCORES, SCORES)
def test_histograms_add_as_the_samples_do(first: list[float], second: list[float]) -> None:
    assert ScoreHistogram.of(first) + ScoreHistogram.of(second) == ScoreHistogram.of(first + second)


def test_the_standard_error_of_the_effect_is_delongs() -> None:
    # DeLong, DeLong & Clarke-Pearson (1988): variances of the mean kernel of each score, over the two samples.
    rng = np.random.default_rng(5)
    reference, found = np.round(rng.beta(2, 5, 80) * BINS) / BINS, np.round(rng.beta(3, 4, 60) * BINS) / BINS
    kernel = (found[:, None] > reference[None, :]) + 0.5 * (found[:, None] == reference[None, :])
    variance = kernel.mean(axis=1).var(ddof=1) / 60 + kernel.mean(axis=0).var(ddof=1) / 80
    drift = compared(reference, found)
    assert drift.effect == pytest.approx(kernel.mean())
    assert drift.low is not None
    assert drift.high is not None
    logit = [np.log(end / (1 - end)) for end in (drift.low, drift.high)]
    error = (logit[1] - logit[0]) / 2 / 1.959963984540054 * kernel.mean() * (1 - kernel.mean())
    assert error**2 == pytest.approx(variance, rel=1e-9)


def test_samples_wholly_apart_keep_an_interval_with_width() -> None:
    drift = compared([0.1] * 10, [0.9] * 10)
    assert (drift.effect, drift.high) == (1.0, 1.0)
    assert drift.low is not None
    assert 0.6 < drift.low < 0.95


def test_equal_scores_are_no_drift() -> None:
    drift = compared([0.5] * 20, [0.5] * 30)
    assert (drift.effect, drift.p_value, drift.ks_distance) == (0.5, 1.0, 0.0)
    assert drift.effect_resolution == 0.5
    assert drift.ks_distance_at_most == 1.0


def test_the_categories_that_both_have_are_compared_and_adjusted_together() -> None:
    rng = np.random.default_rng(2)
    low, high = ScoreHistogram.of(rng.beta(2, 5, 50)), ScoreHistogram.of(rng.beta(3, 5, 50))
    found = score_drift({"hate": low, "fraud": low, "old": low}, {"fraud": low, "hate": high, "new": high})
    assert list(found) == ["hate", "fraud"]
    assert found["hate"].p_adjusted == pytest.approx(2 * (found["hate"].p_value or 0))
    assert found["fraud"].p_adjusted == 1.0


def test_too_few_scores_compare_nothing() -> None:
    drift = compared([0.1, 0.2, 0.3, 0.4], [0.1] * 20)
    assert drift.status == "insufficient_data"
    assert drift.p_value is None
    assert drift.p_adjusted is None


@pytest.mark.parametrize("scores", [[1.01], [-0.1], [float("nan")]])
def test_what_is_no_score_is_refused(scores: list[float]) -> None:
    with pytest.raises(UndefinedError):
        ScoreHistogram.of(scores)


def test_a_histogram_has_all_its_bins() -> None:
    with pytest.raises(UndefinedError):
        ScoreHistogram(counts=(1, 2))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(2, 5), (0.3, 3.0)])  # the second piles up at 0, as classifiers' scores do
def test_without_drift_the_test_is_right_and_with_it_the_interval_covers(shape: tuple[float, float]) -> None:
    rng = np.random.default_rng(20_261_129)
    a, b = shape
    reference, found = rng.beta(a, b, 200_000), rng.beta(a * 1.4, b, 200_000)
    truth = effect_of(reference.tolist(), found.tolist())
    alarms = covered = 0
    for _ in range(1_500):
        first, same, other = rng.beta(a, b, 120), rng.beta(a, b, 200), rng.beta(a * 1.4, b, 200)
        alarms += (compared(first, same).p_value or 0) <= 0.05
        drift = compared(first, other)
        covered += (drift.low or 0) <= truth <= (drift.high or 0)
    assert alarms / 1_500 == pytest.approx(0.05, abs=0.018)
    assert covered / 1_500 > 0.93
