"""Intervals for one observed proportion."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from core.errors import UndefinedError
from core.inference.intervals import (
    Interval,
    clopper_pearson,
    clopper_pearson_interval,
    jeffreys,
    jeffreys_interval,
    modified_wilson,
    normal_quantile,
    wilson_interval,
    wilson_limits,
)

Z95 = 1.959963984540054

# statsmodels 0.15 proportion_confint(method="wilson"), equal to R prop.test(correct = FALSE).
TEXTBOOK_WILSON = [
    (0, 50, 0.0, 0.0713476),
    (1, 100, 0.00176743, 0.05448620),
    (5, 100, 0.02154368, 0.11175047),
    (11, 25, 0.26665639, 0.62932668),
    (106, 201, 0.45847933, 0.59522074),
    (15, 20, 0.53129912, 0.8881383),
    (100, 100, 0.9630065, 1.0),
    (50, 100, 0.403831530, 0.596168470),
    (142, 742, 0.1646876, 0.2212409),  # R prevalence::propCI
]


@st.composite
def counts(draw: st.DrawFn, smallest: int = 2) -> tuple[int, int]:
    n = draw(st.integers(smallest, 5_000))
    return draw(st.integers(0, n)), n


quantiles = st.floats(0.1, 6.0)


def test_the_modified_interval_equals_every_row_of_the_oracle(shared: Path) -> None:
    rows = json.loads((shared / "oracles" / "statistics.json").read_text(encoding="utf-8"))["wilson_modified"]
    assert rows
    for row in rows:
        interval = wilson_interval(row["k"], row["n"], z=row["z"])
        assert (interval.low, interval.high) == pytest.approx((row["low"], row["high"]), abs=1e-9), row


def test_the_safety_papers_example_is_527_plus_or_minus_069() -> None:
    interval = wilson_interval(106, 201, z=1.96)
    assert round(106 / 201, 3) == 0.527
    assert round((interval.high - interval.low) / 2, 3) == 0.069


def test_the_fairness_papers_example_is_263_to_633() -> None:
    interval = wilson_interval(11, 25, z=1.96)
    assert (round(interval.low, 3), round(interval.high, 3)) == (0.263, 0.633)


@pytest.mark.parametrize(("k", "n", "low", "high"), TEXTBOOK_WILSON)
def test_the_textbook_limits_equal_independent_software(k: int, n: int, low: float, high: float) -> None:
    assert wilson_limits(k / n, n, z=Z95) == pytest.approx((low, high), abs=1e-7)


@given(counts(), quantiles)
def test_the_interval_lies_in_the_unit_range_around_the_rate_and_has_width(sample: tuple[int, int], z: float) -> None:
    k, n = sample
    interval = wilson_interval(k, n, z=z)
    assert 0.0 <= interval.low <= k / n <= interval.high <= 1.0
    assert interval.low < interval.high


@given(st.integers(2, 5_000))
def test_nothing_flagged_starts_at_exactly_zero_and_everything_ends_at_exactly_one(n: int) -> None:
    assert wilson_interval(0, n).low == 0.0
    assert wilson_interval(n, n).high == 1.0


@given(counts(), quantiles)
def test_counting_what_passed_instead_mirrors_the_interval(sample: tuple[int, int], z: float) -> None:
    k, n = sample
    flagged, passed = wilson_interval(k, n, z=z), wilson_interval(n - k, n, z=z)
    assert (flagged.low, flagged.high) == pytest.approx((1 - passed.high, 1 - passed.low), abs=1e-12)


@given(counts(), quantiles)
def test_one_more_flagged_trace_moves_neither_end_down(sample: tuple[int, int], z: float) -> None:
    k, n = sample
    fewer, more = wilson_interval(max(0, k - 1), n, z=z), wilson_interval(k, n, z=z)
    assert fewer.low <= more.low + 1e-12
    assert fewer.high <= more.high + 1e-12


@given(counts(), st.floats(0.5, 0.99), st.floats(0.001, 0.009))
def test_more_confidence_needs_a_wider_interval(sample: tuple[int, int], level: float, more: float) -> None:
    narrow = wilson_interval(*sample, confidence_level=level)
    wide = wilson_interval(*sample, confidence_level=level + more)
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@given(counts(smallest=3), quantiles)
def test_the_finite_sample_variance_only_widens_the_textbook_interval(sample: tuple[int, int], z: float) -> None:
    k, n = sample
    low, high = wilson_limits(k / n, n, z=z)
    interval = wilson_interval(k, n, z=z)
    assert interval.low <= low + 1e-12
    assert high <= interval.high + 1e-12


@given(st.floats(0.0, 1.0), st.floats(1.5, 1e6), st.floats(1.0, 100.0))
def test_a_larger_effective_sample_never_gives_a_wider_interval(rate: float, n: float, factor: float) -> None:
    for limits in (modified_wilson, wilson_limits):
        low, high = limits(rate, n, z=Z95)
        closer_low, closer_high = limits(rate, n * factor, z=Z95)
        assert closer_high - closer_low <= high - low + 1e-12


@given(st.floats(0.0, 1.0), st.integers(2, 10_000))
def test_effective_sizes_next_to_a_whole_number_give_nearly_its_interval(rate: float, n: int) -> None:
    exact = modified_wilson(rate, n, z=Z95)
    for near in (math.nextafter(n, 0.0), math.nextafter(n, math.inf)):
        assert modified_wilson(rate, near, z=Z95) == pytest.approx(exact, abs=1e-9)


def test_fewer_than_one_effective_event_does_not_push_the_low_end_below_zero() -> None:
    low, high = modified_wilson(0.01, 2.5, z=Z95)
    assert low == 0.0
    assert 0.5 < high < 1.0


@pytest.mark.parametrize("n", [0, 1])
def test_fewer_than_two_traces_have_no_modified_interval(n: int) -> None:
    with pytest.raises(UndefinedError, match="at least 2 traces"):
        wilson_interval(0, n)


@pytest.mark.parametrize(
    ("k", "n", "field"),
    [
        (-1, 10, "n_flagged"),
        (11, 10, "n_flagged"),
        (2.5, 10, "n_flagged"),
        (math.nan, 10, "n_flagged"),
        ("3", 10, "n_flagged"),
        (3, None, "n_traces"),
        (3, math.inf, "n_traces"),
    ],
)
def test_counts_that_no_sample_can_have_are_refused_by_name(k: object, n: object, field: str) -> None:
    with pytest.raises(UndefinedError) as caught:
        wilson_interval(k, n)  # type: ignore[arg-type]
    assert caught.value.field == field


@pytest.mark.parametrize("kind", [int, float, np.int64, np.uint8, np.float64])
def test_whole_numbers_of_any_type_are_counts(kind: type) -> None:
    assert wilson_interval(kind(11), kind(25)) == wilson_interval(11, 25)


@pytest.mark.parametrize("level", [0.0, 1.0, -0.5, 95.0, math.nan])
def test_a_level_without_a_finite_quantile_is_refused(level: float) -> None:
    with pytest.raises(UndefinedError):
        wilson_interval(5, 10, confidence_level=level)


@pytest.mark.parametrize("z", [0.0, -1.96, math.inf, math.nan])
def test_a_quantile_that_is_not_positive_and_finite_is_refused(z: float) -> None:
    with pytest.raises(UndefinedError):
        wilson_interval(5, 10, z=z)


@pytest.mark.parametrize(("rate", "n"), [(1.1, 10.0), (-0.1, 10.0), (0.5, 0.0), (0.5, math.inf)])
def test_limits_of_an_impossible_proportion_are_refused(rate: float, n: float) -> None:
    with pytest.raises(UndefinedError):
        wilson_limits(rate, n, z=Z95)
    with pytest.raises(UndefinedError):
        modified_wilson(rate, n, z=Z95)


def test_the_exact_quantile_is_the_default_and_the_papers_value_an_option() -> None:
    assert normal_quantile(0.95) == pytest.approx(Z95, abs=1e-14)
    assert normal_quantile(0.99) == pytest.approx(2.5758293035489004, abs=1e-14)  # R qnorm(0.995)
    assert wilson_interval(11, 25).low > wilson_interval(11, 25, z=1.96).low


def test_an_interval_from_an_own_quantile_carries_the_level_of_that_quantile() -> None:
    assert wilson_interval(11, 25, z=2.5758293035489004).confidence_level == pytest.approx(0.99, abs=1e-12)
    assert wilson_interval(11, 25, confidence_level=0.9).confidence_level == 0.9


@pytest.mark.parametrize(
    ("low", "high", "level"),
    [(0.6, 0.5, 0.95), (math.nan, 0.5, 0.95), (0.1, math.inf, 0.95), (0.1, 0.2, 1.0)],
)
def test_what_is_no_interval_cannot_be_built(low: float, high: float, level: float) -> None:
    with pytest.raises(UndefinedError):
        Interval(low=low, high=high, confidence_level=level, method="none")


# ---- Clopper-Pearson and Jeffreys

CLOPPER_PEARSON = [
    (0, 100, 0.0, 0.0362166926452),  # R binom.test, as the next three
    (1, 100, 0.000253146033, 0.054459385392),
    (5, 100, 0.0164318791821, 0.1128349111055),
    (106, 201, 0.4558960102, 0.5980114013),
    (142, 742, 0.1636684, 0.2215588),  # R prevalence::propCI, method exact
    (23, 150, 0.09975195, 0.22113973),  # R epiR 2.0.57 epi.prev, apparent prevalence, c-p
]

BY_COUNTS = [clopper_pearson_interval, jeffreys_interval]
BY_RATE = [clopper_pearson, jeffreys]


@pytest.mark.parametrize(("k", "n", "low", "high"), CLOPPER_PEARSON)
def test_the_clopper_pearson_interval_equals_independent_software(k: int, n: int, low: float, high: float) -> None:
    interval = clopper_pearson_interval(k, n)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5e-8)
    assert (interval.method, interval.confidence_level) == ("clopper_pearson", 0.95)


def test_the_jeffreys_interval_equals_independent_software() -> None:
    interval = jeffreys_interval(142, 742)  # R prevalence::propCI
    assert (interval.low, interval.high) == pytest.approx((0.1643017, 0.2208498), abs=5e-8)
    assert interval.method == "jeffreys"


@given(counts(smallest=1), st.floats(0.5, 0.999))
def test_whole_counts_have_their_binomial_tails_at_the_clopper_pearson_ends(
    sample: tuple[int, int], level: float
) -> None:
    k, n = sample
    interval = clopper_pearson_interval(k, n, confidence_level=level)
    tail = (1 - level) / 2
    if k > 0:
        assert binom.sf(k - 1, n, interval.low) == pytest.approx(tail, rel=1e-6)
    if k < n:
        assert binom.cdf(k, n, interval.high) == pytest.approx(tail, rel=1e-6)


@given(counts(smallest=1), st.floats(0.5, 0.999))
def test_jeffreys_lies_within_clopper_pearson_and_both_around_the_rate(sample: tuple[int, int], level: float) -> None:
    k, n = sample
    exact = clopper_pearson_interval(k, n, confidence_level=level)
    central = jeffreys_interval(k, n, confidence_level=level)
    assert 0.0 <= exact.low <= central.low <= k / n <= central.high <= exact.high <= 1.0
    assert central.low < central.high


@pytest.mark.parametrize("interval", BY_COUNTS)
@given(counts(smallest=1))
def test_what_passed_mirrors_what_was_flagged_in_beta_quantiles_too(interval: Any, sample: tuple[int, int]) -> None:
    k, n = sample
    flagged, passed = interval(k, n), interval(n - k, n)
    assert (flagged.low, flagged.high) == pytest.approx((1 - passed.high, 1 - passed.low), abs=1e-10)


@pytest.mark.parametrize("interval", BY_COUNTS)
def test_beta_quantiles_end_at_exactly_zero_and_one_and_need_a_single_trace(interval: Any) -> None:
    assert interval(0, 40).low == 0.0
    assert interval(40, 40).high == 1.0
    assert interval(1, 1).low > 0.0
    with pytest.raises(UndefinedError, match="at least 1 trace"):
        interval(0, 0)


@pytest.mark.parametrize("interval", BY_COUNTS)
@pytest.mark.parametrize(
    ("k", "n", "level", "field"),
    [(-1, 10, 0.95, "n_flagged"), (11, 10, 0.95, "n_flagged"), (2.5, 10, 0.95, "n_flagged"),
     (1, None, 0.95, "n_traces"), (1, 10, 1.0, "confidence_level"), (1, 10, 0.0, "confidence_level")],
)  # fmt: skip
def test_beta_quantiles_refuse_what_is_no_count_or_level(
    interval: Any, k: Any, n: Any, level: float, field: str
) -> None:
    with pytest.raises(UndefinedError) as caught:
        interval(k, n, confidence_level=level)
    assert caught.value.field == field


@pytest.mark.parametrize("limits", BY_RATE)
@given(st.floats(0.0, 1.0), st.floats(0.5, 1e5), st.floats(1.0, 50.0))
def test_a_larger_effective_sample_never_widens_the_beta_quantiles(
    limits: Any, rate: float, n: float, factor: float
) -> None:
    low, high = limits(rate, n, confidence_level=0.95)
    closer_low, closer_high = limits(rate, n * factor, confidence_level=0.95)
    assert closer_high - closer_low <= high - low + 1e-9


@pytest.mark.parametrize("limits", BY_RATE)
@pytest.mark.parametrize(("rate", "n"), [(1.1, 10.0), (-0.1, 10.0), (0.5, 0.0), (0.5, math.inf), (math.nan, 5.0)])
def test_beta_quantiles_of_an_impossible_proportion_are_refused(limits: Any, rate: float, n: float) -> None:
    with pytest.raises(UndefinedError):
        limits(rate, n, confidence_level=0.95)
