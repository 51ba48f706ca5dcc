"""Shifts of paired values: what decisions give is 10.2 and 10.3 with J = 1, and scores follow the same formulas."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.difference import PairSums, PairTable, effective_pairs, paired_variance
from core.inference.intervals import normal_quantile
from core.inference.paired import mcnemar_test, sign_flip_test
from core.inference.shift import PairedShift, paired_shift, pairs_needed


def shift_of(before: Any, after: Any, clusters: Any = None, level: float = 0.95, scores: bool = False) -> PairedShift:
    return paired_shift(
        before, after, np.arange(len(before)) if clusters is None else clusters, clustered=clusters is not None,
        confidence_level=level, rng=np.random.default_rng(7), scores=scores,
    )  # fmt: skip


def decisions(seed: int, n: int = 120, size: int = 6) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    clusters = np.arange(n) // size
    before = (rng.random(n) < np.repeat(rng.random(n // size), size)).astype(int)
    return before, np.where(rng.random(n) < 0.25, 1 - before, before), clusters


def table_of(before: Any, after: Any) -> PairTable:
    return PairTable(
        both=int((before & after).sum()), baseline_only=int((before & ~after & 1).sum()),
        candidate_only=int((~before & 1 & after).sum()), neither=int(((before | after) == 0).sum()),
    )  # fmt: skip


def test_decisions_without_clusters_have_the_interval_of_comparisons_and_mcnemars_test() -> None:
    before, after, _ = decisions(1)
    table = table_of(before, after)
    found = shift_of(before, after)
    half = normal_quantile(0.95) * math.sqrt(paired_variance(table, 120))
    assert found.shift == pytest.approx((table.candidate_only - table.baseline_only) / 120)
    assert (found.low, found.high) == pytest.approx((found.shift - half, found.shift + half))
    assert found.p_value == mcnemar_test(found.n_up, found.n_down).p_value
    assert found.method == "mcnemar_exact"


@pytest.mark.parametrize("seed", range(4))
def test_decisions_with_clusters_are_worth_what_they_are_in_comparisons(seed: int) -> None:
    before, after, clusters = decisions(seed)
    a, b = np.bincount(clusters, before), np.bincount(clusters, after)
    n = np.bincount(clusters)
    changes = Counter((b - a).astype(int).tolist())
    changed = len(set(clusters[before != after].tolist()))
    sums = PairSums(
        n=len(before), n_clusters=len(n), clusters_with_change=changed, sum_n2=int((n**2).sum()),
        sum_na=int((n * a).sum()), sum_nb=int((n * b).sum()), sum_a2=int((a**2).sum()), sum_b2=int((b**2).sum()),
        sum_ab=int((a * b).sum()), changes=tuple(changes.items()),
    )  # fmt: skip
    worth = effective_pairs(table_of(before, after), sums, clustered=True)
    found = shift_of(before, after, clusters)
    assert found.n_effective == pytest.approx(worth.n_effective)
    assert found.p_value == sign_flip_test(dict(changes), rng=np.random.default_rng(7)).p_value
    assert found.n_clusters == len(n)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=5, max_size=60))
def test_a_shift_lies_in_its_interval_and_back_is_as_far_as_there(pairs: list[tuple[float, float]]) -> None:
    before, after = zip(*pairs, strict=True)
    there, back = shift_of(before, after, scores=True), shift_of(after, before, scores=True)
    assert there.shift is not None
    assert there.low is not None
    assert there.high is not None
    assert -1.0 <= there.low <= there.shift <= there.high <= 1.0
    assert there.low < there.high
    assert back.shift == pytest.approx(-there.shift)
    assert back.p_value == there.p_value
    assert (back.n_up, back.n_down) == (there.n_down, there.n_up)


def test_answers_that_are_all_the_same_have_an_interval_of_positive_width() -> None:
    for scores, reach in ((False, 1.0), (True, 1 / 1024)):
        found = shift_of([1.0] * 100, [1.0] * 100, scores=scores)
        assert (found.shift, found.p_value, found.added) == (0.0, 1.0, reach)
        assert found.high == pytest.approx(reach * normal_quantile(0.95) * math.sqrt(2 / 102 / 102), rel=0.03)


def test_scores_that_all_moved_by_the_same_little_are_known_to_have_done_so() -> None:
    before = np.linspace(0.1, 0.8, 50)
    found = shift_of(before, before + 4 / 1024, scores=True)
    assert found.low is not None
    assert 3.4 / 1024 < found.low < 4 / 1024
    assert found.p_value == pytest.approx(2**-49)


def test_what_moved_by_less_than_half_a_step_did_not_move() -> None:
    before = np.linspace(0.1, 0.8, 50)
    assert shift_of(before, before + 0.0004, scores=True).p_value == 1.0
    assert shift_of(before, before + 0.0006, scores=True).n_up == 50


def test_scores_are_tested_by_all_signs_that_their_moves_could_have() -> None:
    before = np.array([0.5] * 6)
    after = before + np.array([4, 3, -1, 2, 5, 1]) / 1024
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1)
    expected = (np.abs(np.array([4, 3, -1, 2, 5, 1]) @ signs) >= 14).mean()
    assert shift_of(before, after, scores=True).p_value == pytest.approx(expected)


@pytest.mark.parametrize("n", [0, 4])
def test_fewer_than_five_pairs_say_nothing(n: int) -> None:
    found = shift_of([0] * n, [1] * n)
    assert (found.low, found.p_value, found.n_effective) == (None, None, 0.0)
    assert found.shift == (1.0 if n else None)


@pytest.mark.parametrize(("mean_square", "half_width"), [(0.0, 0.05), (0.1, 0.05), (0.4, 0.02), (1.0, 0.1)])
def test_with_the_pairs_that_are_needed_the_interval_is_as_narrow_as_wanted_and_with_one_less_not(
    mean_square: float, half_width: float
) -> None:
    still = shift_of([0] * 50, [0] * 50)
    n = pairs_needed(still, mean_square, half_width, confidence_level=0.95)

    def reached(pairs: int) -> bool:
        moved = mean_square * pairs / 2
        variance = paired_variance(
            PairTable(both=0, baseline_only=moved, candidate_only=moved, neither=pairs - 2 * moved), pairs
        )
        return normal_quantile(0.95) * math.sqrt(variance) <= half_width + 1e-12

    assert reached(n)
    assert not reached(n - 1)


def test_clusters_ask_for_more_pairs() -> None:
    before, after, clusters = decisions(2, n=240, size=12)
    alone, together = shift_of(before, after), shift_of(before, after, clusters)
    asked = [pairs_needed(found, 0.2, 0.05, confidence_level=0.95) for found in (alone, together)]
    assert asked[0] < asked[1]


def test_values_outside_the_unit_interval_and_unequal_lengths_are_refused() -> None:
    with pytest.raises(UndefinedError, match="lie in"):
        shift_of([0.1] * 5, [1.2] * 5)
    with pytest.raises(UndefinedError, match="one length"):
        shift_of([0.1] * 5, [0.1] * 6)
    with pytest.raises(UndefinedError, match="a width above 0"):
        pairs_needed(shift_of([0] * 9, [0] * 9), 0.1, 0.0, confidence_level=0.95)


@pytest.mark.slow
@pytest.mark.parametrize("moves", ["flips", "scores"])
def test_the_interval_of_a_shift_holds_the_truth(moves: str) -> None:
    rng = np.random.default_rng(3)
    held = []
    for _ in range(1500):
        if moves == "flips":
            before = (rng.random(100) < 0.5).astype(float)
            u = rng.random(100)
            after = np.where((before == 1) & (u < 0.16), 0.0, np.where((before == 0) & (u < 0.04), 1.0, before))
            truth = -0.06
        else:
            before = rng.uniform(0.2, 0.8, 100)
            after, truth = before + rng.normal(0.03, 0.05, 100).clip(-0.17, 0.2), 0.03
        found = shift_of(before, after, scores=moves == "scores")
        assert found.low is not None
        assert found.high is not None
        held.append(found.low <= truth <= found.high)
    assert np.mean(held) >= 0.935
