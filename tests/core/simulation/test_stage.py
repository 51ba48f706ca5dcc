"""Work in chunks: what is divided, drawn and counted."""

from __future__ import annotations

import pickle

import pytest

from core.simulation.simulated import Coverage, is_sufficient, mc_error_of
from core.simulation.stage import Chunk, CoverageTally, divided, generator, shares_of
from core.simulation.summary import lowest, summary_of

TRUTH = 0.10
LIMITS = [(0.05, 0.15), (0.10, 0.20), (0.11, 0.30), (0.0, 0.09), (0.10, 0.10), (0.2, 0.2), None]


def tally_of(limits: list[tuple[float, float] | None]) -> CoverageTally:
    tally = CoverageTally()
    for each in limits:
        tally.add(each, TRUTH)
    return tally


@pytest.mark.parametrize(("replications", "size"), [(1, 500), (499, 500), (500, 500), (501, 500), (2000, 500), (7, 1)])
def test_every_replication_of_every_cell_is_in_exactly_one_chunk(replications: int, size: int) -> None:
    chunks = divided(3, replications, size)
    assert len({(chunk.cell, chunk.number) for chunk in chunks}) == len(chunks)
    for cell in range(3):
        own = [chunk for chunk in chunks if chunk.cell == cell]
        assert [chunk.number for chunk in own] == list(range(len(own)))
        assert sum(chunk.replications for chunk in own) == replications
        assert all(1 <= chunk.replications <= size for chunk in own)


def test_random_numbers_depend_on_seed_stage_cell_and_chunk_and_on_nothing_else() -> None:
    here = Chunk(cell=1, number=2, replications=500)
    first = generator(7, 2, here).random(3).tolist()
    assert generator(7, 2, Chunk(cell=1, number=2, replications=9)).random(3).tolist() == first
    elsewhere = [
        generator(8, 2, here),
        generator(7, 3, here),
        generator(7, 2, Chunk(cell=2, number=2, replications=500)),
        generator(7, 2, Chunk(cell=1, number=1, replications=500)),
        generator(7, 2, Chunk(cell=2, number=1, replications=500)),
    ]
    assert len({tuple(first), *(tuple(rng.random(3).tolist()) for rng in elsewhere)}) == 6


def test_a_tally_counts_what_holds_what_misses_on_either_side_and_what_has_no_width() -> None:
    record = tally_of(LIMITS).record()
    assert record.coverage == 3 / 7  # the ends belong to the interval; no interval holds nothing
    assert (record.low_above, record.high_below, record.zero_width) == (2 / 7, 1 / 7, 2 / 7)
    assert record.mean_width == pytest.approx((0.10 + 0.10 + 0.19 + 0.09 + 0 + 0) / 6)


def test_adding_says_whether_the_truth_was_held() -> None:
    assert [CoverageTally().add(each, TRUTH) for each in LIMITS] == [True, True, False, False, True, False, False]


@pytest.mark.parametrize("cut", range(len(LIMITS) + 1))
def test_tallies_of_parts_join_to_the_tally_of_the_whole(cut: int) -> None:
    joined = tally_of(LIMITS[:cut])
    joined += pickle.loads(pickle.dumps(tally_of(LIMITS[cut:])))
    whole = tally_of(LIMITS).record()
    assert joined.record().mean_width == pytest.approx(whole.mean_width)
    assert joined.record().coverage == whole.coverage
    assert joined.record().low_above == whole.low_above


def test_without_any_interval_there_is_no_width() -> None:
    record = tally_of([None, None]).record()
    assert (record.coverage, record.mean_width, record.zero_width) == (0.0, None, 0.0)


def test_the_monte_carlo_error_stays_above_zero_and_shrinks_with_the_root_of_the_replications() -> None:
    assert mc_error_of(0.95, 2000) == pytest.approx((0.95 * 0.05 / 2000) ** 0.5, rel=0.02)
    assert 0.0 < mc_error_of(1.0, 2000) < mc_error_of(0.95, 2000)
    assert mc_error_of(0.95, 8000) == pytest.approx(mc_error_of(0.95, 2000) / 2, rel=0.02)


@pytest.mark.parametrize(
    ("coverage", "level", "enough"),
    [(0.93, 0.95, True), (0.9299, 0.95, False), (1.0, 0.95, True), (0.986, 0.99, True), (0.985, 0.99, False),
     (0.86, 0.9, True), (0.859, 0.9, False)],
)  # fmt: skip
def test_coverage_is_enough_up_to_one_point_four_times_the_nominal_misses(
    coverage: float, level: float, enough: bool
) -> None:
    assert is_sufficient(coverage, level) is enough


def test_shares_by_status_are_sorted_and_add_up_to_one() -> None:
    shares = shares_of({"measured": 6, "inconclusive": 2})
    assert list(shares.items()) == [("inconclusive", 0.25), ("measured", 0.75)]


def test_a_summary_is_over_cells_and_widths_over_those_that_have_one() -> None:
    cells = [
        Coverage(coverage=c, mc_error=0.01, low_above=0.0, high_below=0.0, mean_width=width, zero_width=zero)
        for c, width, zero in ((0.95, 0.2, 0.0), (0.90, None, 0.3), (0.93, 0.4, 0.0))
    ]
    summary = summary_of(cells, 0.95)
    assert summary.mean == pytest.approx((0.95 + 0.90 + 0.93) / 3)
    assert (summary.minimum, summary.below) == (0.90, 1)
    assert (summary.mean_width, summary.zero_width) == (pytest.approx(0.3), pytest.approx(0.1))
    assert lowest(cells) is cells[1]


def test_cells_below_are_counted_by_what_is_sufficient_at_the_level() -> None:
    cells = [
        Coverage(coverage=share, mc_error=0.01, low_above=0.0, high_below=0.0, mean_width=0.1, zero_width=0.0)
        for share in (0.85, 0.87, 0.94, 0.99)
    ]
    assert [summary_of(cells, level).below for level in (0.9, 0.95, 0.99)] == [1, 2, 3]
