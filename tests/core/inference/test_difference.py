"""The variance of a corrected difference, against computations straight from the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from core.errors import UndefinedError
from core.inference.difference import (
    JudgedRate,
    PairSums,
    PairTable,
    calibration_variance,
    degrees_of_freedom,
    effective_pairs,
    flag_shift,
    one_sample_variance,
    paired_variance,
    shift_tolerance,
)


def judged(p: float = 0.2, q1: float = 0.8, q0: float = 0.9, n1: float = 200, n0: float = 300) -> JudgedRate:
    return JudgedRate(observed_rate=p, sensitivity=q1, specificity=q0, n_positive=n1, n_negative=n0)


def summed(codes: np.ndarray, a: np.ndarray, b: np.ndarray) -> tuple[PairTable, PairSums]:
    rows = np.array([[(codes == c).sum(), a[codes == c].sum(), b[codes == c].sum()] for c in np.unique(codes)])
    n, x, y = rows.T.tolist()
    sums = PairSums(
        n=len(codes), n_clusters=len(rows), sum_n2=sum(i * i for i in n),
        clusters_with_change=sum(bool((a != b)[codes == c].any()) for c in np.unique(codes)),
        sum_na=sum(i * j for i, j in zip(n, x, strict=True)), sum_nb=sum(i * j for i, j in zip(n, y, strict=True)),
        sum_a2=sum(i * i for i in x), sum_b2=sum(i * i for i in y),
        sum_ab=sum(i * j for i, j in zip(x, y, strict=True)), changes=(),
    )  # fmt: skip
    table = PairTable(
        both=int((a & b).sum()), baseline_only=int((a & ~b).sum()), candidate_only=int((b & ~a).sum()),
        neither=int((~a & ~b).sum()),
    )  # fmt: skip
    return table, sums


def test_the_paired_variance_is_that_of_the_pairs_with_two_changed_ones_added() -> None:
    table = PairTable(both=40, baseline_only=12, candidate_only=7, neither=141)
    rows = np.repeat([1 / 0.7 - 1 / 0.8, -1 / 0.8, 1 / 0.7, 0.0], [40, 13, 8, 141])
    assert paired_variance(table, 200, baseline_j=0.8, candidate_j=0.7) == pytest.approx(rows.var() / 202)


@given(st.integers(0, 200), st.integers(0, 200), st.floats(2, 500))
def test_no_flags_and_no_changes_still_have_a_variance(both: int, neither: int, worth: float) -> None:
    if both + neither == 0:
        return
    assert paired_variance(PairTable(both=both, baseline_only=0, candidate_only=0, neither=neither), worth) > 0
    assert one_sample_variance(0.0, worth) > 0
    assert one_sample_variance(1.0, worth) == pytest.approx(one_sample_variance(0.0, worth))


@given(st.integers(0, 2**32 - 1), st.sampled_from([(1.0, 1.0), (0.7, 0.7), (0.6, 0.8)]))
def test_the_worth_of_clustered_pairs_equals_the_one_computed_cluster_by_cluster(
    seed: int, j: tuple[float, float]
) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, 15, 200)
    a, b = rng.random(200) < 0.3 + 0.03 * codes, rng.random(200) < 0.6 - 0.02 * codes
    table, sums = summed(codes, a, b)
    worth = effective_pairs(table, sums, clustered=True, baseline_j=j[0], candidate_j=j[1])
    change = b / j[1] - a / j[0]
    residual = [(change[codes == c] - change.mean()).sum() for c in np.unique(codes)]
    clusters = len(residual)
    variance = clusters / (clusters - 1) * np.square(residual).sum() / 200**2
    expected = max(1.0, variance / (change.var() / 200))
    assert worth.design_effect == pytest.approx(expected, rel=1e-9)
    factor = (stats.norm.ppf(0.975) / stats.t.ppf(0.975, clusters - 1)) ** 2
    assert worth.n_effective == pytest.approx(200 / expected * factor, rel=1e-9)


def test_clustered_pairs_without_a_change_are_worth_their_clusters() -> None:
    codes = np.repeat(np.arange(12), 10)
    same = np.zeros(120, bool)
    worth = effective_pairs(*summed(codes, same, same), clustered=True)
    assert (worth.n_effective, worth.t_factor, worth.notes) == (12.0, 1.0, ("zero_variance",))
    few = same.copy()
    few[[3, 40]] = True
    assert effective_pairs(*summed(codes, same, few), clustered=True).design_effect >= 1 + 0.1 * 9
    assert effective_pairs(*summed(np.zeros(120, int), same, few), clustered=True).n_effective == 0
    assert effective_pairs(*summed(codes, same, few), clustered=False).n_effective == 120


def test_one_calibration_for_both_gives_the_shared_formula() -> None:
    one, other = judged(0.2), judged(0.3)
    parts = calibration_variance(one, other, positive_correlation=1, negative_correlation=1)
    delta, j = 0.1 / 0.7, 0.7
    assert parts[0] == pytest.approx(delta**2 * (0.8 * 0.2 / 200) / j**2)
    assert parts[1] == pytest.approx(delta**2 * (0.9 * 0.1 / 300) / j**2)
    assert calibration_variance(one, one, positive_correlation=1, negative_correlation=1) == (0, 0)


@given(st.floats(0, 1), st.floats(0, 1))
def test_the_calibrations_part_of_the_variance_is_the_delta_methods(rho1: float, rho0: float) -> None:
    one, other = judged(0.2, 0.8, 0.9, 150, 250), judged(0.35, 0.9, 0.8, 90, 400)
    errors, slopes = [], []
    for side in (one, other):
        h = 1e-6
        slopes.append([
            ((side.observed_rate + side.specificity + d0 - 1) / (side.youden_j + d1 + d0) - side.raw) / h
            for d1, d0 in ((h, 0), (0, h))
        ])  # fmt: skip
        rates = (side.sensitivity, side.n_positive), (side.specificity, side.n_negative)
        errors.append([(q * (1 - q) / n) ** 0.5 for q, n in rates])
    for k, rho in enumerate((rho1, rho0)):
        a, b = slopes[0][k] * errors[0][k], slopes[1][k] * errors[1][k]
        found = calibration_variance(one, other, positive_correlation=rho1, negative_correlation=rho0)[k]
        assert found == pytest.approx(a * a + b * b - 2 * rho * a * b, rel=1e-4)


def test_turn_counts_alone_move_the_flags_by_the_difference_of_the_judges_rates() -> None:
    theta = 0.15
    one, other = (judged(theta * q1 + (1 - theta) * (1 - q0), q1, q0) for q1, q0 in ((0.8, 0.95), (0.9, 0.8)))
    assert one.raw == pytest.approx(other.raw)
    assert flag_shift(one, other) == pytest.approx(other.observed_rate - one.observed_rate)
    assert flag_shift(one, one) == 0


def test_a_shift_of_the_tolerance_explains_the_whole_difference() -> None:
    one, other = judged(0.2), judged(0.215)
    difference = other.raw - one.raw
    sensitivity, specificity = shift_tolerance(difference, other.youden_j, one.raw)
    assert specificity == pytest.approx(0.7 * difference / (1 - one.raw))  # F8
    assert sensitivity == pytest.approx(0.7 * difference / one.raw)
    assert judged(0.215, q0=0.9 - specificity).raw == pytest.approx(one.raw)
    assert judged(0.215, q1=0.8 + sensitivity).raw == pytest.approx(one.raw)


def test_what_no_shift_explains_has_no_tolerance() -> None:
    assert shift_tolerance(0.1, 0.7, 0.0) == (None, pytest.approx(0.07))
    assert shift_tolerance(0.5, 0.7, 0.05)[0] is None
    assert shift_tolerance(0.0, 0.7, 0.3) == (0, 0)


def test_degrees_of_freedom_are_welchs() -> None:
    assert degrees_of_freedom([(2.0, 5), (1.0, 8)]) == pytest.approx(9 / (4 / 5 + 1 / 8))
    assert degrees_of_freedom([(2.0, None), (1.0, None)]) is None
    assert degrees_of_freedom([(1.0, 4), (1.0, None)]) == pytest.approx(16)


@pytest.mark.parametrize("rates", [{"p": 1.1}, {"q1": -0.1}, {"q0": 2}, {"n1": 0}, {"n0": 0}, {"q1": 0.1, "q0": 0.9}])
def test_a_judge_without_information_has_no_corrected_rate(rates: dict[str, float]) -> None:
    with pytest.raises(UndefinedError):
        judged(**rates)
