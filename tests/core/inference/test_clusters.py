"""What clustered traces are worth, against a computation straight from the arrays."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from core.errors import UndefinedError
from core.inference.clusters import ClusterSums, cluster_sums, effective_sample
from core.inference.intervals import normal_quantile
from core.inference.prevalence import Counts, lang_reiczigel_interval

Rows = tuple[NDArray[np.int64], NDArray[np.int64]]


@st.composite
def rows(draw: st.DrawFn, most: int = 120) -> Rows:
    n = draw(st.integers(2, most))
    codes = draw(st.lists(st.integers(0, 25), min_size=n, max_size=n))
    events = draw(st.lists(st.integers(0, 1), min_size=n, max_size=n))
    return np.array(codes), np.array(events)


def naive_effective_size(codes: NDArray[np.int64], events: NDArray[np.int64], level: float) -> float:
    """Decision by decision, over the clusters themselves."""
    n, p = len(events), events.mean()
    members = [events[codes == code] for code in np.unique(codes)]
    clusters = len(members)
    if clusters == 1:
        return 0.0
    if p in (0.0, 1.0):
        return clusters
    residuals = [group.sum() - p * len(group) for group in members]
    variance = clusters / (clusters - 1) * sum(residual**2 for residual in residuals) / n**2
    with_event = sum(group.any() for group in members)
    with_nonevent = sum(not group.all() for group in members)
    rarer = {True: with_event, False: with_nonevent}[p < 0.5] if p != 0.5 else min(with_event, with_nonevent)
    floor = 1.0 + 0.1 * (n / clusters - 1.0) if rarer < 10 else 1.0
    design_effect = max(1.0, floor, variance / (p * (1 - p) / n))
    tail = (1 + level) / 2
    return float(n / design_effect * (stats.norm.ppf(tail) / stats.t.ppf(tail, clusters - 1)) ** 2)


@given(rows(), st.sampled_from([0.8, 0.95, 0.99]))
def test_the_effective_size_equals_the_one_computed_cluster_by_cluster(sample: Rows, level: float) -> None:
    worth = effective_sample(cluster_sums(*sample), clustered=True, confidence_level=level).n_effective
    assert worth == pytest.approx(naive_effective_size(*sample, level), rel=1e-9)


@given(rows())
def test_a_sample_is_never_worth_more_than_its_traces(sample: Rows) -> None:
    effective = effective_sample(cluster_sums(*sample), clustered=True)
    assert 0.0 <= effective.n_effective <= effective.n
    assert effective.n_effective == pytest.approx(effective.n / effective.design_effect * effective.t_factor) or (
        effective.notes == ("one_cluster",)
    )


@given(rows())
def test_neither_the_order_of_rows_nor_the_names_of_clusters_matter(sample: Rows) -> None:
    codes, events = sample
    order = np.random.default_rng(1).permutation(len(codes))
    renamed = (30 - codes)[order]
    assert cluster_sums(renamed, events[order]) == cluster_sums(codes, events)


@given(rows())
def test_counting_the_other_outcome_leaves_the_worth_unchanged(sample: Rows) -> None:
    codes, events = sample
    one = effective_sample(cluster_sums(codes, events), clustered=True)
    other = effective_sample(cluster_sums(codes, 1 - events), clustered=True)
    assert one.n_effective == pytest.approx(other.n_effective, rel=1e-12)
    assert one.n_clusters_with_minority == other.n_clusters_with_minority


@given(rows(), rows())
def test_sums_of_samples_without_a_common_cluster_add(one: Rows, other: Rows) -> None:
    together = (np.concatenate([one[0], other[0] + 100]), np.concatenate([one[1], other[1]]))
    assert cluster_sums(*one) + cluster_sums(*other) == cluster_sums(*together)


@given(rows(), st.data())
def test_a_weight_stands_for_that_many_rows(sample: Rows, data: st.DataObject) -> None:
    codes, events = sample
    weights = np.array(data.draw(st.lists(st.integers(0, 4), min_size=len(codes), max_size=len(codes))))
    assert cluster_sums(codes, events, weights) == cluster_sums(np.repeat(codes, weights), np.repeat(events, weights))


@given(st.integers(1, 500), st.data())
def test_traces_that_are_their_own_clusters_have_the_sums_of_independent_traces(n: int, data: st.DataObject) -> None:
    events = data.draw(st.integers(0, n))
    assert cluster_sums(np.arange(n), np.arange(n) < events) == ClusterSums.of_independent(n, events)


@given(rows())
def test_without_clusters_in_the_data_every_trace_counts_in_full(sample: Rows) -> None:
    effective = effective_sample(cluster_sums(*sample), clustered=False)
    assert (effective.n_effective, effective.design_effect, effective.t_factor) == (len(sample[0]), 1.0, 1.0)


@pytest.mark.parametrize("event", [0, 1])
def test_clusters_that_all_agree_on_one_outcome_count_once_each(event: int) -> None:
    codes = np.repeat(np.arange(20), 50)
    effective = effective_sample(cluster_sums(codes, np.full(1000, event)), clustered=True)
    assert effective.n_effective == 20.0
    assert effective.t_factor == 1.0
    assert "zero_variance" in effective.notes


def test_identical_traces_within_clusters_are_worth_about_the_number_of_clusters() -> None:
    codes = np.repeat(np.arange(400), 8)
    effective = effective_sample(cluster_sums(codes, codes % 2), clustered=True)
    assert effective.n_effective == pytest.approx(400, rel=0.01)


def test_few_clusters_with_an_error_meet_the_floor_of_the_design_effect() -> None:
    codes = np.repeat(np.arange(30), 21)
    events = np.zeros(630, dtype=np.int64)
    events[[0, 21, 42]] = 1  # one error in each of three clusters: they look independent
    effective = effective_sample(cluster_sums(codes, events), clustered=True)
    assert effective.design_effect == pytest.approx(1 + 0.1 * 20)
    assert effective.notes == ("design_effect_floor",)
    assert effective.n_clusters_with_minority == 3


def test_ten_clusters_with_an_error_are_enough_to_measure_the_design_effect() -> None:
    codes = np.repeat(np.arange(30), 21)
    events = np.zeros(630, dtype=np.int64)
    events[np.arange(10) * 21] = 1
    effective = effective_sample(cluster_sums(codes, events), clustered=True)
    assert effective.design_effect == pytest.approx(1.0)
    assert effective.notes == ()


def test_no_traces_and_one_cluster_are_worth_nothing_and_say_which() -> None:
    empty = effective_sample(ClusterSums.of_independent(0, 0), clustered=True)
    single = effective_sample(cluster_sums([4, 4, 4], [1, 0, 1]), clustered=True)
    assert (empty.n_effective, empty.notes) == (0.0, ("empty",))
    assert (single.n_effective, single.notes) == (0.0, ("one_cluster",))


def test_no_rows_have_no_clusters() -> None:
    assert cluster_sums([], []) == ClusterSums.of_independent(0, 0)


def test_fewer_than_ten_clusters_are_noted() -> None:
    codes = np.repeat(np.arange(9), 5)
    assert "few_clusters" in effective_sample(cluster_sums(codes, codes % 2), clustered=True).notes


def test_the_t_quantile_is_taken_at_the_level_of_an_own_normal_quantile() -> None:
    sums = cluster_sums(np.repeat(np.arange(12), 5), np.arange(60) % 2)
    by_level = effective_sample(sums, clustered=True, confidence_level=0.99)
    by_quantile = effective_sample(sums, clustered=True, z=normal_quantile(0.99))
    assert by_quantile.t_factor == pytest.approx(by_level.t_factor, rel=1e-9)


def test_sums_of_a_hundred_million_traces_lose_nothing() -> None:
    half = 50_000_000
    sums = ClusterSums(
        n=2 * half,
        events=half,
        n_clusters=half,
        sum_n2=4 * half,
        sum_nx=2 * half,
        sum_x2=half,
        clusters_with_events=half,
        clusters_with_nonevents=half,
    )  # each cluster holds one event and one non-event: no variance between clusters at all
    assert effective_sample(sums, clustered=True).design_effect == 1.0


@pytest.mark.parametrize(
    ("codes", "events", "weights"),
    [
        ([0, 1], [0, 1, 1], None),
        ([0, -1], [0, 1], None),
        ([0.0, 1.0], [0, 1], None),
        ([0, 1], [0, 2], None),
        ([0, 1], [0, 0.5], None),
        ([0, 1], [0, 1], [1, -1]),
        ([0, 1], [0, 1], [1, 0.5]),
        ([0, 1], [0, 1], [1, np.nan]),
        ([0, 1], [0, 1], [1]),
        ([[0, 1]], [[0, 1]], None),
    ],
)
def test_rows_that_are_no_clustered_outcome_are_refused(codes: object, events: object, weights: object) -> None:
    with pytest.raises(UndefinedError):
        cluster_sums(codes, events, weights)  # type: ignore[arg-type]


def test_sums_that_no_clusters_can_have_are_refused() -> None:
    with pytest.raises(UndefinedError):
        ClusterSums.of_independent(3, 4)
    with pytest.raises(UndefinedError):
        ClusterSums(
            n=4,
            events=2,
            n_clusters=2,
            sum_n2=8,
            sum_nx=9,
            sum_x2=2,
            clusters_with_events=2,
            clusters_with_nonevents=2,
        )


def test_a_golden_set_of_templates_keeps_its_coverage_only_on_effective_counts() -> None:
    # 25 templates of 8, intra-cluster correlation .2: measured before .816 as independent, .946 on effective.
    rng = np.random.default_rng(20_261_129)
    theta, traces, clusters, size, correlation, replications = 0.1, 2_000, 25, 8, 0.2, 1_500
    z = normal_quantile(0.95)

    def class_sums(rate: float) -> list[ClusterSums]:
        spread = (1 - correlation) / correlation
        rates = rng.beta(rate * spread, (1 - rate) * spread, (replications, clusters))
        hits = rng.binomial(size, rates)
        n = clusters * size
        return [
            ClusterSums(
                n=n,
                events=int(x.sum()),
                n_clusters=clusters,
                sum_n2=n * size,
                sum_nx=int(x.sum()) * size,
                sum_x2=int(x @ x),
                clusters_with_events=int(np.count_nonzero(x)),
                clusters_with_nonevents=int(np.count_nonzero(x < size)),
            )
            for x in hits
        ]

    flagged = rng.binomial(traces, theta * 0.8 + (1 - theta) * 0.1, replications)
    covered = {False: 0, True: 0}
    for x, positive, negative in zip(flagged, class_sums(0.8), class_sums(0.9), strict=True):
        for clustered in covered:
            worth1 = effective_sample(positive, clustered=clustered).n_effective
            worth0 = effective_sample(negative, clustered=clustered).n_effective
            interval = lang_reiczigel_interval(
                Counts(
                    flagged=int(x),
                    traces=traces,
                    true_positives=positive.events / positive.n * worth1,
                    positives=worth1,
                    true_negatives=negative.events / negative.n * worth0,
                    negatives=worth0,
                ),
                z,
            )
            covered[clustered] += interval.low <= theta <= interval.high
    assert covered[True] / replications > 0.92
    assert covered[False] / replications < 0.87
