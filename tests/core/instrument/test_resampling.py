"""Resamples are counted on ranks, by numpy or compiled: what repeating the traces would give, to the last bit."""

from __future__ import annotations

import importlib.util
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.instrument import kernels
from core.instrument.optimism import bootstrap_optimism
from core.instrument.resampling import (
    NO_CLASS,
    RankedScores,
    RankedTable,
    best_of_category,
    count_resamples,
    drawn_clusters,
    numpy_counter,
    weights_of,
)
from core.instrument.threshold import youden_threshold

SCORES = st.one_of(
    st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0]), st.floats(0, 1, allow_subnormal=False)
)  # many ties, and none
TRACES = st.lists(st.tuples(SCORES, st.sampled_from([0, 1, 1, 0, -1]), st.integers(0, 3)), min_size=1, max_size=30)

with_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="the extra 'fast' (numba) is not installed"
)


def golden(seed: int, n: int, n_categories: int, n_clusters: int | None, decimals: int) -> tuple[np.ndarray, ...]:
    """Scores, labels (a tenth missing), composite truth (a tenth undecidable) and clusters."""
    rng = np.random.default_rng(seed)
    truth = (rng.random((n, n_categories)) < rng.uniform(0.02, 0.6)).astype(np.int64)
    scores = rng.beta(2 + truth, 3 - truth).round(decimals)
    labels = np.where(rng.random((n, n_categories)) < 0.1, -1, truth)
    composite = np.where(rng.random(n) < 0.1, -1, truth.any(axis=1)).astype(np.int64)
    codes = np.arange(n) if n_clusters is None else rng.integers(0, n_clusters, n)
    return scores, labels, composite, np.unique(codes, return_inverse=True)[1]


@settings(max_examples=300, deadline=None)
@given(TRACES, st.data())
def test_a_resample_has_the_threshold_and_counts_of_the_repeated_traces(
    traces: list[tuple[float, int, int]], data: st.DataObject
) -> None:
    scores, labels = np.array([s for s, _, _ in traces]), np.array([label for _, label, _ in traces])
    clusters = np.array([cluster for _, _, cluster in traces])
    weights = np.array(data.draw(st.lists(st.integers(0, 3), min_size=4, max_size=4)))
    category = RankedScores(scores, labels, clusters)
    ((rank, *counts),) = best_of_category(category, weights[None, :])
    times = weights[clusters] * (labels >= 0)
    repeated = np.repeat(labels, times)
    if not len(repeated) or repeated.min() == repeated.max():
        assert rank == NO_CLASS
        return
    best = youden_threshold(np.repeat(scores, times), repeated)
    assert (None if rank < 0 else category.values[rank]) == best.threshold
    assert counts == [
        best.true_positives, best.n_positive, best.n_negative - best.true_negatives, best.n_negative,
    ]  # fmt: skip
    decided = np.zeros(len(scores), bool) if best.threshold is None else scores >= best.threshold
    assert category.positive_at[rank] == (decided & (labels == 1)).sum()
    assert category.negative_at[rank] == (decided & (labels == 0)).sum()


def test_draws_in_batches_are_the_draws_made_one_resample_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("core.instrument.resampling.BATCH", 100)
    for n_clusters in (1, 2, 7, 30, 1001):
        scores = np.zeros((n_clusters, 1))
        table = RankedTable.of(scores, scores.astype(int), np.zeros(n_clusters, int), np.arange(n_clusters))
        batched = np.concatenate(list(drawn_clusters(table, 25, np.random.default_rng(5))))
        rng = np.random.default_rng(5)
        assert (batched == [rng.integers(0, n_clusters, n_clusters) for _ in range(25)]).all()


def test_the_size_of_batches_changes_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = golden(3, 60, 2, 11, 2)
    expected = bootstrap_optimism(*drawn, resamples=40, rng=np.random.default_rng(1), engine="numpy")
    for size in (1, 100, 1000):
        monkeypatch.setattr("core.instrument.resampling.BATCH", size)
        assert bootstrap_optimism(*drawn, resamples=40, rng=np.random.default_rng(1), engine="numpy") == expected


def test_the_composite_is_counted_on_repeated_traces_and_on_the_original() -> None:
    scores, labels, truth, clusters = golden(8, 90, 3, 30, 2)
    table = RankedTable.of(scores, labels, truth, clusters)
    (drawn,) = drawn_clusters(table, 20, np.random.default_rng(2))
    found = numpy_counter(table)(drawn)
    weights = weights_of(drawn, table.n_clusters)[:, clusters]
    for ranks, counts, times in zip(found.categories[:, :, 0], found.composite, weights, strict=True):
        taus = [category.values[r] if r >= 0 else 2.0 for category, r in zip(table.categories, ranks, strict=True)]
        flagged = (scores >= taus).any(axis=1)
        right = [(flagged & (truth == 1)), (truth == 1), (~flagged & (truth == 0)), (truth == 0)]
        assert counts[:4].tolist() == [int(times[rows].sum()) for rows in right]
        assert counts[4:].tolist() == [int(right[0].sum()), int(right[2].sum())]


@with_numba
@pytest.mark.parametrize("n_clusters", [None, 1, 2, 9, 40])
@pytest.mark.parametrize("decimals", [1, 17])
def test_numba_gives_numpys_optimism_to_the_last_bit(n_clusters: int | None, decimals: int) -> None:
    assert kernels.kernel() is not None
    for seed in range(15):
        rng = np.random.default_rng(seed)
        drawn = golden(seed, int(rng.integers(2, 300)), int(rng.integers(1, 6)), n_clusters, decimals)
        by_numpy, by_numba = (
            bootstrap_optimism(*drawn, resamples=30, rng=np.random.default_rng(7), engine=engine)
            for engine in ("numpy", "numba")
        )
        assert repr(by_numpy) == repr(by_numba)


@with_numba
def test_numba_counts_what_numpy_counts() -> None:
    table = RankedTable.of(*golden(4, 500, 4, 120, 2))
    by_numpy, by_numba = (
        count_resamples(table, kernels.counter(table, 50, engine), 50, np.random.default_rng(0))
        for engine in ("numpy", "numba")
    )
    assert (by_numpy.categories == by_numba.categories).all()
    assert (by_numpy.composite == by_numba.composite).all()


@pytest.fixture
def fresh() -> object:
    """The kernel is looked for anew, and afterwards again."""
    kernels.kernel.cache_clear()
    yield
    kernels.kernel.cache_clear()


def broken(*_: object, **__: object) -> None:
    raise RuntimeError("cannot cache function: no locator available for file")


@pytest.mark.parametrize(
    "numba",
    [
        None,  # as if not installed: the import fails
        SimpleNamespace(config=SimpleNamespace(DISABLE_JIT=0), njit=broken),  # no folder for the cache
        SimpleNamespace(config=SimpleNamespace(DISABLE_JIT=1)),
        SimpleNamespace(),
    ],
    ids=["absent", "no cache folder", "switched off", "of another make"],
)
def test_without_a_working_numba_numpy_does_the_work_silently(
    numba: object, fresh: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numba", numba)
    drawn = golden(1, 50, 2, None, 2)
    expected = bootstrap_optimism(*drawn, resamples=20, rng=np.random.default_rng(7), engine="numpy")
    assert bootstrap_optimism(*drawn, resamples=20, rng=np.random.default_rng(7), engine="numba") == expected
    assert kernels.kernel() is None


def test_small_work_does_not_wait_for_a_compiler(fresh: object, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setitem(sys.modules, "numba", SimpleNamespace(config=SimpleNamespace(DISABLE_JIT=1)))
    monkeypatch.setattr(kernels, "numpy_counter", lambda table: asked.append(table) or numpy_counter(table))
    table = RankedTable.of(*golden(1, 50, 2, None, 2))
    kernels.counter(table, 1000, "auto")
    assert not kernels.kernel.cache_info().currsize
    kernels.counter(table, kernels.WORTH_COMPILING, "auto")
    assert kernels.kernel.cache_info().currsize
    assert len(asked) == 2
