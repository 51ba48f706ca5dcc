"""Reliability by group: the bin mean, the noise of small groups, and what a score means."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.fairness.reliability import reliability_by_group


def one_group(correct: list[int] | np.ndarray, score: list[float] | np.ndarray, **options: object):
    return reliability_by_group(correct, score, ["g"] * len(score), score_means="positive", **options)["g"]


def test_the_bin_mean_and_the_last_bin_are_the_oracles(shared: Path) -> None:
    cases = json.loads((shared / "oracles" / "fairness" / "seed004.json").read_text(encoding="utf-8"))["ece"]
    values = {}
    for case in cases:
        found = one_group(case["correct"], case["conf"])
        (name,) = [key for key in case if key.startswith("bin_mean")]
        assert found.ece.value == pytest.approx(case[name], abs=1e-12)
        values[name] = found
    # Defect of the seed (and of torchmetrics #3510): a score of 1 had a bin of its own.
    last = values["bin_mean(1.0 in last bin)"].bins[-1]
    assert (last.n, last.low, last.high) == (2, 0.9, 1.0)


def test_scores_above_the_lower_edge_do_not_hide_overconfidence() -> None:
    # FAIRNESS 4: confidence .899, right in 80%: .004 by the lower edge.
    found = one_group([1] * 1_600 + [0] * 400, [0.899] * 2_000)
    assert found.ece.value == pytest.approx(0.099)
    assert found.ece.interval.low > 0.05
    assert found.p_value < 1e-10


def test_calibrated_scores_of_a_small_group_show_an_error_that_is_noise() -> None:
    # FAIRNESS 4: 100 calibrated rows fail a limit of .05 in 99% of the samples.
    rng = np.random.default_rng(1)
    score = rng.random(100)
    found = one_group((rng.random(100) < score).astype(int), score)
    assert found.ece.value > 0.05
    assert found.ece.interval.low == 0.0
    assert found.noise_floor == pytest.approx(found.ece.value, rel=0.5)
    assert found.p_value > 0.05


def test_the_debiased_squared_error_averages_to_the_true_one() -> None:
    rng, shift = np.random.default_rng(2), 0.06
    found = []
    for _ in range(400):
        score = rng.random(200) * 0.9
        found.append(one_group((rng.random(200) < score + shift).astype(int), score))
    debiased = np.array([one.debiased_squared_error for one in found])
    plain = np.mean([one.squared_error for one in found])
    assert debiased.mean() == pytest.approx(shift**2, abs=4 * debiased.std() / 20)
    assert plain > 1.5 * shift**2
    assert all(one.debiased == math.sqrt(max(0.0, one.debiased_squared_error)) for one in found)


def test_what_a_score_means_is_declared() -> None:
    # torchmetrics #2519: of the positive class, or of being correct.
    truth, said, score = [0] * 80 + [1] * 20, [0] * 100, [0.8] * 100
    of_positive = reliability_by_group(truth, score, ["g"] * 100, score_means="positive")["g"]
    of_correct = reliability_by_group(truth, score, ["g"] * 100, score_means="correct", y_pred=said)["g"]
    assert of_positive.ece.value == pytest.approx(0.6)
    assert of_correct.ece.value == pytest.approx(0.0, abs=1e-12)
    assert (of_positive.score_means, of_correct.score_means) == ("positive", "correct")
    with pytest.raises(InputError, match="need the predictions"):
        reliability_by_group(truth, score, ["g"] * 100, score_means="correct")
    with pytest.raises(TypeError):
        reliability_by_group(truth, score, ["g"] * 100)  # type: ignore[call-arg]


def test_scores_written_as_an_edge_fall_into_the_upper_bin() -> None:
    for edge in (0.1, 0.2, 0.3, 0.6, 0.7):
        found = one_group([1, 0], [edge, edge])
        assert [b.low for b in found.bins if b.n] == [edge]


def test_bins_are_declared_and_empty_ones_have_no_rate() -> None:
    found = one_group([1, 0, 1], [0.1, 0.2, 0.9], bins=5)
    assert [(b.low, b.high, b.n) for b in found.bins] == [
        (0.0, 0.2, 1),
        (0.2, 0.4, 1),
        (0.4, 0.6, 0),
        (0.6, 0.8, 0),
        (0.8, 1.0, 1),
    ]
    assert found.bins[2].mean_score is None


def test_rows_without_score_or_label_are_counted_and_a_group_of_them_is_not_evaluable() -> None:
    found = reliability_by_group([1, None, 0, 1], [0.5, 0.5, None, 0.5], ["a", "a", "a", "b"], score_means="positive")
    assert (found["a"].ece.n, found["a"].ece.n_classified, found["a"].ece.coverage) == (3, 1, pytest.approx(1 / 3))
    empty = reliability_by_group([1, None], [0.5, 0.5], ["a", "b"], score_means="positive")["b"]
    assert (empty.ece.status, empty.ece.value, empty.p_value) == ("not_evaluable", None, None)


@pytest.mark.parametrize("score", [[0.5, 1.2], [-0.1, 0.5]])
def test_a_score_outside_zero_and_one_is_refused(score: list[float]) -> None:
    with pytest.raises(InputError, match=r"outside \[0, 1\]"):
        one_group([0, 1], score)


def test_p_values_are_adjusted_over_the_groups() -> None:
    rng = np.random.default_rng(3)
    score, groups = rng.random(3_000), np.repeat(["a", "b", "c"], 1_000)
    truth = (rng.random(3_000) < np.where(groups == "a", score * 0.8, score)).astype(int)
    found = reliability_by_group(truth, score, groups, score_means="positive")
    assert found["a"].p_adjusted == pytest.approx(3 * found["a"].p_value)
    assert found["a"].p_adjusted < 0.001 < found["b"].p_value


def test_replicates_of_a_prompt_raise_the_noise() -> None:
    rng = np.random.default_rng(4)
    score = np.repeat(rng.random(60), 10)
    truth = np.repeat(rng.random(60) < score[::10], 10).astype(int)
    naive, found = one_group(truth, score), one_group(truth, score, clusters=np.arange(600) // 10)
    assert found.ece.value == naive.ece.value
    assert found.noise_floor > 2.5 * naive.noise_floor
    assert found.ece.interval.low < naive.ece.interval.low
    assert one_group(truth, score, clusters=np.arange(600) // 200).ece.status == "not_evaluable"


@given(st.integers(0, 2**32 - 1), st.integers(1, 200), st.integers(1, 30))
def test_the_error_lies_in_its_interval_and_in_zero_one(seed: int, n: int, bins: int) -> None:
    rng = np.random.default_rng(seed)
    found = one_group(rng.integers(0, 2, n), np.round(rng.random(n), 2), bins=bins)
    assert 0.0 <= found.ece.interval.low <= found.ece.value <= found.ece.interval.high <= 1.0
    assert sum(b.n for b in found.bins) == n
