"""Resampling the gap between two means, and the shorter ways that have the same law."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.stats import permutation_test

from core.errors import UndefinedError
from core.inference.resampling import (
    ClusterTable,
    binomial_bootstrap,
    cluster_bootstrap,
    cluster_permutation_p,
    mean_bootstrap,
    mean_permutation_p,
)


def resampled_gaps(a: np.ndarray, b: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """What is usually written: draw rows."""
    rng = np.random.default_rng(seed)
    means = [rng.choice(x, (resamples, x.size)).mean(axis=1) for x in (a, b)]
    return means[0] - means[1]


def test_binomial_draws_have_the_percentiles_of_resampled_rows() -> None:
    a, b = np.repeat([1.0, 0.0], [40, 60]), np.repeat([1.0, 0.0], [25, 75])
    by_rows = np.quantile(resampled_gaps(a, b, 20_000, 1), [0.025, 0.975])
    by_counts = binomial_bootstrap(40, 100, 25, 100, resamples=20_000, confidence_level=0.95, seed=2)
    assert by_counts == pytest.approx(by_rows, abs=0.011)  # one step of the lattice


@pytest.mark.parametrize("law", ["normal", "exponential", "likert"])
def test_the_bootstrap_law_has_the_percentiles_of_resampled_rows(law: str) -> None:
    rng = np.random.default_rng(3)
    draw = {
        "normal": lambda n: rng.normal(0.0, 1.0, n),
        "exponential": lambda n: rng.exponential(1.0, n) ** 1.5,
        "likert": lambda n: rng.integers(1, 6, n).astype(float),
    }[law]
    a, b = draw(60), draw(90)
    low, high, method = mean_bootstrap(a, b, resamples=1, confidence_level=0.9, seed=0)
    by_rows = np.quantile(resampled_gaps(a, b, 100_000, 4), [0.05, 0.95])
    assert method == "bootstrap_law"
    assert (low, high) == pytest.approx(by_rows, abs=0.02 * (high - low))


def test_a_lattice_of_few_rows_is_drawn_and_constant_groups_have_no_width() -> None:
    a, b = np.array([1.0, 3.0, 3.0]), np.array([1.0, 1.0, 3.0])
    low, high, method = mean_bootstrap(a, b, resamples=20_000, confidence_level=0.95, seed=1)
    assert method == "bootstrap_draws"
    assert (low, high) == pytest.approx(np.quantile(resampled_gaps(a, b, 20_000, 2), [0.025, 0.975]), abs=0.01)
    assert mean_bootstrap(np.full(3, 2.0), np.full(4, 1.5), resamples=9, confidence_level=0.95, seed=1)[:2] == (
        0.5, 0.5,
    )  # fmt: skip


def test_permuted_means_agree_with_the_exact_law_and_are_never_zero() -> None:
    a, b = np.array([1.5, 2.0, 4.0, 9.0]), np.array([0.1, 0.2, 1.0, 1.1, 1.2])
    pooled = np.concatenate([a, b])
    gaps = [
        abs(pooled[list(first)].mean() - np.delete(pooled, first).mean())
        for first in itertools.combinations(range(9), 4)
    ]
    exact = np.mean(np.array(gaps) >= abs(a.mean() - b.mean()) - 1e-12)
    assert mean_permutation_p(a, b, permutations=20_000, seed=1) == pytest.approx(exact, abs=0.005)
    scipys = permutation_test((a, b), lambda x, y: x.mean() - y.mean(), n_resamples=np.inf).pvalue
    assert exact == pytest.approx(scipys, abs=0.02)  # scipy doubles the smaller tail
    apart = mean_permutation_p(np.full(50, 5.0) + np.arange(50) * 1e-3, np.zeros(50), permutations=99, seed=1)
    assert apart == 0.01


def test_grades_are_permuted_as_counts_of_values_with_the_law_of_rows() -> None:
    rng = np.random.default_rng(9)
    a, b = rng.integers(1, 6, 60).astype(float), rng.integers(1, 6, 80) + (rng.random(80) < 0.3)
    by_counts = mean_permutation_p(a, b, permutations=20_000, seed=1)
    pool, observed = np.concatenate([a, b]), abs(a.mean() - b.mean())
    shuffled = rng.permuted(np.broadcast_to(pool, (20_000, 140)), axis=1)
    gaps = np.abs(shuffled[:, :60].mean(axis=1) - shuffled[:, 60:].mean(axis=1))
    assert by_counts == pytest.approx(np.mean(gaps >= observed - 1e-9), abs=0.015)


def test_sums_that_differ_by_rounding_alone_tie() -> None:
    a, b = np.array([0.1, 0.2, 0.3]), np.array([0.3, 0.2, 0.1])
    assert mean_permutation_p(a, b, permutations=200, seed=1) == 1.0


def nested(n_clusters: int, size: int, shift: float = 0.0) -> ClusterTable:
    rng = np.random.default_rng(5)
    effects = rng.normal(0.0, 1.0, (2, n_clusters, 1)) + rng.normal(0.0, 0.1, (2, n_clusters, size))
    codes = np.repeat(np.arange(n_clusters), size)
    return ClusterTable.of(effects[0].ravel() + shift, effects[1].ravel(), codes, codes + n_clusters)


def test_clusters_widen_the_interval_and_raise_the_p_value() -> None:
    table = nested(12, 20)
    assert table.nested
    assert table.n_clusters == (12, 12)
    low, high = cluster_bootstrap(table, resamples=2_000, confidence_level=0.95, seed=1)
    # Twelve independent means of standard deviation 1 in each group.
    assert 1.2 < high - low < 2.6
    assert cluster_permutation_p(table, permutations=999, seed=1) > 0.05


def test_replicates_of_a_cluster_add_nothing() -> None:
    few, many = nested(12, 1), nested(12, 1)
    doubled = ClusterTable(sums=many.sums * 7.0)
    assert cluster_bootstrap(doubled, resamples=500, confidence_level=0.95, seed=1) == pytest.approx(
        cluster_bootstrap(few, resamples=500, confidence_level=0.95, seed=1)
    )
    assert cluster_permutation_p(doubled, permutations=500, seed=1) == cluster_permutation_p(
        few, permutations=500, seed=1
    )


def test_clusters_that_span_both_groups_are_drawn_once_for_both() -> None:
    rng = np.random.default_rng(6)
    effects = rng.normal(0.0, 3.0, 40)
    codes = np.arange(40)
    a, b = effects + 0.5 + rng.normal(0.0, 0.3, 40), effects + rng.normal(0.0, 0.3, 40)
    crossed, apart = ClusterTable.of(a, b, codes, codes), ClusterTable.of(a, b, codes, codes + 40)
    assert not crossed.nested
    low, high = cluster_bootstrap(crossed, resamples=2_000, confidence_level=0.95, seed=1)
    assert 0.2 < low < 0.5 < high < 0.8
    assert cluster_permutation_p(crossed, permutations=999, seed=1) == 0.001
    assert cluster_permutation_p(apart, permutations=999, seed=1) > 0.2


def test_a_resample_without_a_group_does_not_spoil_the_interval() -> None:
    # fairlearn #1441: bootstrap resamples that miss a group. Here the second has rows in 5 of 60 clusters.
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=60), rng.normal(size=5)
    table = ClusterTable.of(a, b, np.arange(60), np.arange(5))
    assert not table.nested
    low, high = cluster_bootstrap(table, resamples=2_000, confidence_level=0.95, seed=1)
    assert low < table.gap < high


def test_fewer_than_five_clusters_are_no_evidence() -> None:
    table = nested(4, 50)
    for call in (
        lambda: cluster_bootstrap(table, resamples=9, confidence_level=0.95, seed=1),
        lambda: cluster_permutation_p(table, permutations=9, seed=1),
    ):
        with pytest.raises(UndefinedError, match="at least 5 clusters"):
            call()


def test_the_same_seed_gives_the_same_answer() -> None:
    rng = np.random.default_rng(7)
    a, b = rng.normal(size=30), rng.normal(size=30)
    assert mean_permutation_p(a, b, permutations=99, seed=3) == mean_permutation_p(a, b, permutations=99, seed=3)
