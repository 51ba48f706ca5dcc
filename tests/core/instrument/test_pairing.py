"""Pairs counted in blocks, against a count pair by pair."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.instrument.pairing import DecisionBlock, PairCounts, PairTally, golden_bins

BINS = (1, 2, 4)
INSIDE = (frozenset({0, 1, 2}), frozenset({0, 1}), None)  # composite, first category, second category


def drawn(seed: int, n: int) -> dict[str, Any]:
    """Traces of 1-3 attempts; some belong to named clusters, which go on from trace to trace."""
    rng = np.random.default_rng(seed)
    trace = np.repeat(np.arange(n), rng.integers(1, 4, n))[:n]
    names = np.array([None, None, "k1", "k2", "k3"], object)[rng.integers(0, 5, n)]
    side = {
        name: {
            "n_turns": rng.integers(1, 7, n),
            "flags": rng.integers(0, 4, n),
            "missing": np.where(rng.random(n) < 0.2, rng.integers(1, 4, n), 0),
        }
        for name in ("baseline", "candidate")
    }
    return {"trace": trace, "clusters": names[trace], **side}


def tallied(data: dict[str, Any], cuts: list[int] | None = None, **changed: Any) -> PairCounts:
    tally = PairTally(2, BINS, INSIDE)
    edges = [0, *(cuts or []), len(data["trace"])]
    for low, high in pairwise(edges):
        blocks = [
            DecisionBlock(**{name: column[low:high] for name, column in data[side].items()})
            for side in ("baseline", "candidate")
        ]
        tally.add(*blocks, trace=data["trace"][low:high], clusters=data["clusters"][low:high].tolist())
    return tally.finish()


def one_by_one(data: dict[str, Any], outcome: int) -> tuple[Counter[tuple[int, ...]], dict[Any, list[int]]]:
    """The histogram and the sums of each cluster of one outcome."""
    bit = (3, 1, 2)[outcome]
    histogram: Counter[tuple[int, ...]] = Counter()
    clusters: dict[Any, list[int]] = {}
    for i in range(len(data["trace"])):
        sides = [{name: int(column[i]) for name, column in data[side].items()} for side in ("baseline", "candidate")]
        if any(side["missing"] & bit for side in sides):
            continue
        bins = [next((k for k, edge in enumerate(BINS) if side["n_turns"] <= edge), len(BINS)) for side in sides]
        a, b = (int(side["flags"] & bit != 0) for side in sides)
        histogram[(*bins, a, b)] += 1
        known = INSIDE[outcome]
        if known is None or (bins[0] in known and bins[1] in known):
            sums = clusters.setdefault(data["clusters"][i] or int(data["trace"][i]), [0, 0, 0, 0])
            for k, more in enumerate((1, a, b, a != b)):
                sums[k] += more
    return histogram, clusters


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60))
def test_a_tally_counts_what_a_walk_over_the_pairs_counts(seed: int, n: int) -> None:
    data = drawn(seed, n)
    counts = tallied(data)
    for outcome in range(3):
        histogram, clusters = one_by_one(data, outcome)
        assert {row[1:5]: row[5] for row in counts.histogram if row[0] == outcome} == dict(histogram)
        sums = counts.sums[outcome]
        rows = list(clusters.values())
        assert (sums.n, sums.n_clusters) == (sum(r[0] for r in rows), len(rows))
        assert sums.clusters_with_change == sum(r[3] > 0 for r in rows)
        assert (sums.sum_n2, sums.sum_na, sums.sum_nb) == tuple(sum(r[0] * r[k] for r in rows) for k in (0, 1, 2))
        assert (sums.sum_a2, sums.sum_b2) == tuple(sum(r[k] ** 2 for r in rows) for k in (1, 2))
        assert sums.sum_ab == sum(r[1] * r[2] for r in rows)
        assert dict(sums.changes) == dict(Counter(r[2] - r[1] for r in rows))


@settings(max_examples=30)
@given(st.integers(0, 2**32 - 1), st.data())
def test_blocks_add_up_to_the_whole(seed: int, data: st.DataObject) -> None:
    pairs = drawn(seed, 60)
    starts = [i for i in range(1, 60) if pairs["trace"][i] != pairs["trace"][i - 1]]
    cuts = sorted(data.draw(st.sets(st.sampled_from(starts), max_size=4)))
    assert tallied(pairs, cuts) == tallied(pairs)


def test_single_pairs_are_not_clustered_and_attempts_at_a_trace_are() -> None:
    block = DecisionBlock(n_turns=np.ones(4, int), flags=np.array([0, 1, 1, 0]), missing=np.zeros(4, int))
    tally = PairTally(1, BINS)
    tally.add(block, replace(block, flags=np.array([1, 1, 0, 1])))
    counts = tally.finish()
    assert not counts.clustered
    assert counts.sums[0].changes == ((-1, 1), (0, 1), (1, 2))
    tally = PairTally(1, BINS)
    tally.add(block, replace(block, flags=np.array([1, 1, 0, 1])), trace=np.array([5, 5, 3, 3]))
    counts = tally.finish()
    assert counts.clustered
    assert counts.sums[0].changes == ((0, 1), (1, 1))


def test_units_without_a_partner_are_counted_and_an_empty_block_is_nothing() -> None:
    empty = DecisionBlock(n_turns=np.zeros(0, int), flags=np.zeros(0, int), missing=np.zeros(0, int))
    tally = PairTally(1, BINS)
    tally.add(empty, empty)
    tally.add_unpaired(baseline=3)
    tally.add_unpaired(candidate=2, baseline=1)
    counts = tally.finish()
    assert (counts.n_pairs, counts.n_baseline_only, counts.n_candidate_only) == (0, 4, 2)
    assert (counts.histogram, counts.sums[0].n) == ((), 0)


def test_the_counts_do_not_grow_with_the_pairs() -> None:
    rng = np.random.default_rng(1)
    tally, sizes = PairTally(3, (1, 2, 3, 4, 8)), []
    for _ in range(3):
        sides = [
            DecisionBlock(
                n_turns=rng.integers(1, 12, 40_000), flags=rng.integers(0, 8, 40_000), missing=np.zeros(40_000, int)
            )
            for _ in range(2)
        ]
        tally.add(*sides)
        sizes.append(len(tally.finish().histogram))
    assert sizes[0] == sizes[-1] <= 4 * 6 * 6 * 4


def test_the_bins_of_an_outcome_are_those_of_its_golden_strata(lab: Any) -> None:
    calibration = lab.calibrated((1, 40, 50, 45, 50), (3, 40, 50, 45, 50))
    assert golden_bins(calibration) == (frozenset({0, 2}), frozenset({0, 2}))


def test_sides_that_do_not_match_are_refused() -> None:
    one = DecisionBlock(n_turns=np.ones(2, int), flags=np.ones(2, int), missing=np.zeros(2, int))
    three = DecisionBlock(n_turns=np.ones(3, int), flags=np.ones(3, int), missing=np.zeros(3, int))
    with pytest.raises(UndefinedError, match="of one length"):
        PairTally(1, BINS).add(one, three)
    with pytest.raises(UndefinedError, match="of one length"):
        DecisionBlock(n_turns=np.ones(2, int), flags=np.ones(3, int), missing=np.zeros(2, int))
    with pytest.raises(UndefinedError, match="one set of turn bins an outcome"):
        PairTally(2, BINS, [None])
