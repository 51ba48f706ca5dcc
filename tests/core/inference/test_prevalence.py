"""The corrected rate, its intervals and its states."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.intervals import normal_quantile, wilson_limits
from core.inference.prevalence import (
    METHODS,
    Counts,
    Method,
    PrevalenceInterval,
    bootstrap_interval,
    bootstrap_intervals,
    corrected_prevalence,
    delta_interval,
    effective_prevalence,
    floor_status,
    judge_shift_sensitivity,
    lang_reiczigel_interval,
    melded_interval,
    melded_intervals,
    rogan_gladen,
    youden_low,
)

Z95 = 1.959963984540054

# x/N, a/m1, b/m0 -> estimate, ends. The UW calculator's code and an R transcription of asht agree to 1e-10.
LANG_REICZIGEL = [
    ((400, 1000, 180, 200, 140, 200), 0.16666667, 0.05635072484, 0.26273302579),
    ((60, 200, 45, 50, 95, 100), 0.29411765, 0.20688888936, 0.38942922539),
    ((50, 3330, 103, 122, 399, 401), 0.01194780, 0.0, 0.02095121029),
    ((23, 150, 96, 100, 89, 100), 0.05098039, 0.0, 0.14566845762),
    ((0, 100, 50, 50, 50, 50), 0.0, 0.0, 0.04372932467),
    ((5, 100, 50, 50, 50, 50), 0.05, 0.0, 0.10888732935),
]

# Monte Carlo of asht::WprevSeSp with 2e5 draws, +- .0005.
MELDED = [
    ((400, 1000, 180, 200, 140, 200), 0.0446, 0.2640),
    ((60, 200, 45, 50, 95, 100), 0.1952, 0.3993),
    ((50, 3330, 103, 122, 399, 401), 0.0, 0.0206),
    ((0, 100, 50, 50, 50, 50), 0.0, 0.0373),
    ((5, 100, 50, 50, 50, 50), 0.0, 0.1151),
]

# epiR 2.0.57 epi.prev, method "wilson": Rogan-Gladen of textbook limits under a judge taken as known.
KNOWN_JUDGE_WILSON = [
    (23, 150, 0.96, 0.89, 0.05098039, -0.00658878, 0.12891745),
    (6, 151, 0.964, 0.927, -0.03733434, -0.06135122, 0.01231374),
    (20, 120, 0.9, 0.99, 0.17602996, 0.11298872, 0.26230653),
    (106, 201, 0.9, 0.95, 0.56160375, 0.48056391, 0.64143617),
]


def counts_of(row: tuple[float, ...]) -> Counts:
    flagged, traces, true_positives, positives, true_negatives, negatives = row
    return Counts(
        flagged=flagged,
        traces=traces,
        true_positives=true_positives,
        positives=positives,
        true_negatives=true_negatives,
        negatives=negatives,
    )


def oracle(shared: Path, table: str) -> list[dict[str, Any]]:
    rows = json.loads((shared / "oracles" / "statistics.json").read_text(encoding="utf-8"))[table]
    assert rows
    return list(rows)


def interval_of(counts: Counts, method: Method) -> PrevalenceInterval:
    if method == "delta":
        return delta_interval(counts, Z95)
    if method == "lang_reiczigel":
        return lang_reiczigel_interval(counts, Z95)
    draw = melded_interval if method == "melded" else bootstrap_interval
    return draw(counts, 0.95, np.random.default_rng(5), draws=2_000)


@st.composite
def effective_counts(draw: st.DrawFn, least_j: float = 0.2) -> Counts:
    sizes = [draw(st.floats(5.0, 2_000.0)) for _ in range(3)]
    sensitivity = draw(st.floats(least_j, 1.0))
    specificity = draw(st.floats(min(1.0, 1.0 - sensitivity + least_j), 1.0))
    rates = [draw(st.floats(0.0, 1.0)), sensitivity, specificity]
    return counts_of(tuple(value for n, p in zip(sizes, rates, strict=True) for value in (n * p, n)))


@st.composite
def whole_counts(draw: st.DrawFn) -> dict[str, int]:
    names = (("n_flagged", "n_traces"), ("true_positives", "n_positive"), ("true_negatives", "n_negative"))
    result = {}
    for part, whole in names:
        result[whole] = draw(st.integers(5, 500))
        result[part] = draw(st.integers(0, result[whole]))
    return result


# Rogan-Gladen


def test_the_papers_example_of_30_percent_observed_is_29_4_percent_corrected() -> None:
    estimate = rogan_gladen(0.30, sensitivity=0.90, specificity=0.95)
    assert estimate.value == pytest.approx(0.294117647, abs=5e-10)
    assert not estimate.clipped


@pytest.mark.parametrize(("x", "n", "sensitivity", "specificity", "raw", "low", "high"), KNOWN_JUDGE_WILSON)
def test_correcting_a_rate_and_its_textbook_limits_equals_epir(
    x: int, n: int, sensitivity: float, specificity: float, raw: float, low: float, high: float
) -> None:
    corrected = [
        rogan_gladen(rate, sensitivity=sensitivity, specificity=specificity).raw
        for rate in (x / n, *wilson_limits(x / n, n, z=Z95))
    ]
    assert corrected == pytest.approx([raw, low, high], abs=1e-8)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_a_judge_applied_to_a_known_rate_is_undone_by_the_correction(
    prevalence: float, sensitivity: float, specificity: float
) -> None:
    assume(sensitivity + specificity - 1 > 0.05)
    observed = prevalence * sensitivity + (1 - prevalence) * (1 - specificity)
    estimate = rogan_gladen(min(1.0, observed), sensitivity=sensitivity, specificity=specificity)
    assert estimate.value == pytest.approx(prevalence, abs=1e-12)


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0.6, 1), st.floats(0.6, 1))
def test_more_flags_never_lower_the_corrected_rate(
    one: float, other: float, sensitivity: float, specificity: float
) -> None:
    low, high = (rogan_gladen(rate, sensitivity=sensitivity, specificity=specificity) for rate in sorted((one, other)))
    assert low.raw <= high.raw
    assert 0.0 <= low.value <= high.value <= 1.0
    assert low.clipped == (low.raw != low.value)


@pytest.mark.parametrize(("sensitivity", "specificity"), [(0.5, 0.5), (0.3, 0.7), (0.1, 0.2), (0.0, 0.0)])
def test_a_judge_no_better_than_chance_corrects_nothing(sensitivity: float, specificity: float) -> None:
    with pytest.raises(UndefinedError, match="youden_j"):
        rogan_gladen(0.3, sensitivity=sensitivity, specificity=specificity)


@pytest.mark.parametrize("bad", [-0.01, 1.01, math.nan])
@pytest.mark.parametrize("field", ["observed_rate", "sensitivity", "specificity"])
def test_a_rate_outside_zero_and_one_is_refused_by_name(field: str, bad: float) -> None:
    rates = {"observed_rate": 0.3, "sensitivity": 0.9, "specificity": 0.9, field: bad}
    with pytest.raises(UndefinedError) as caught:
        rogan_gladen(rates["observed_rate"], sensitivity=rates["sensitivity"], specificity=rates["specificity"])
    assert caught.value.field == field


# Intervals against independent numbers


def test_the_delta_interval_equals_every_row_of_the_oracle(shared: Path) -> None:
    for row in oracle(shared, "rogan_gladen_delta"):
        counts = counts_of(tuple(row[key] for key in ("x", "N", "a", "m1", "b", "m0")))
        interval = delta_interval(counts, row["z"])
        assert interval.variance == pytest.approx(row["variance"], abs=1e-9), row
        assert (interval.low_unclipped, interval.high_unclipped) == pytest.approx(
            (row["low_unclipped"], row["high_unclipped"]), abs=1e-9
        ), row


def test_the_lang_reiczigel_interval_equals_every_row_of_the_oracle(shared: Path) -> None:
    for row in oracle(shared, "lang_reiczigel"):
        counts = counts_of(tuple(row[key] for key in ("x", "N", "a", "m1", "b", "m0")))
        interval = lang_reiczigel_interval(counts, row["z"])
        assert (interval.low_unclipped, interval.high_unclipped) == pytest.approx(
            (row["low_unclipped"], row["high_unclipped"]), abs=1e-9
        ), row
        assert (interval.low, interval.high) == pytest.approx((row["low"], row["high"]), abs=1e-9), row


@pytest.mark.parametrize(("row", "value", "low", "high"), LANG_REICZIGEL)
def test_the_lang_reiczigel_interval_equals_two_independent_programs(
    row: tuple[float, ...], value: float, low: float, high: float
) -> None:
    interval = lang_reiczigel_interval(counts_of(row), Z95)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-9)
    estimate = effective_prevalence(counts_of(row))
    assert estimate.value == pytest.approx(value, abs=1e-8)


@pytest.mark.parametrize(("row", "low", "high"), MELDED)
def test_the_melded_interval_equals_asht_within_monte_carlo_error(
    row: tuple[float, ...], low: float, high: float
) -> None:
    interval = melded_interval(counts_of(row), 0.95, np.random.default_rng(1), draws=200_000)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-3)


def test_a_melded_interval_of_a_perfect_judge_of_known_rates_is_clopper_pearson() -> None:
    # With a golden set that leaves no doubt only production's margin remains: R binom.test(5, 100).
    counts = counts_of((5, 100, 1e9, 1e9, 1e9, 1e9))
    interval = melded_interval(counts, 0.95, np.random.default_rng(1), draws=200_000)
    assert (interval.low, interval.high) == pytest.approx((0.0164318791821, 0.1128349111055), abs=5e-4)


# Properties that every method shares


@pytest.mark.parametrize("method", METHODS)
@given(counts=effective_counts())
def test_every_interval_is_ordered_clipped_and_named(method: Method, counts: Counts) -> None:
    interval = interval_of(counts, method)
    assert interval.low_unclipped <= interval.high_unclipped
    assert 0.0 <= interval.low <= interval.high <= 1.0
    assert interval.method == method


@given(effective_counts(), st.floats(0.1, 6.0))
def test_the_lang_reiczigel_interval_always_has_width(counts: Counts, z: float) -> None:
    assert not lang_reiczigel_interval(counts, z).degenerate


@pytest.mark.parametrize("interval", [delta_interval, lang_reiczigel_interval])
@given(counts=effective_counts(), z=st.floats(0.5, 4.0))
def test_asking_for_the_clean_rate_instead_mirrors_the_interval(
    interval: Callable[[Counts, float], PrevalenceInterval], counts: Counts, z: float
) -> None:
    mirrored = Counts(
        flagged=counts.traces - counts.flagged,
        traces=counts.traces,
        true_positives=counts.true_negatives,
        positives=counts.negatives,
        true_negatives=counts.true_positives,
        negatives=counts.positives,
    )
    one, other = interval(counts, z), interval(mirrored, z)
    assert (one.low_unclipped, one.high_unclipped) == pytest.approx(
        (1 - other.high_unclipped, 1 - other.low_unclipped), rel=1e-6, abs=1e-7
    )


@given(effective_counts(), st.floats(0.5, 3.0), st.floats(1.01, 2.0))
def test_a_larger_quantile_widens_the_delta_interval_on_both_sides(counts: Counts, z: float, factor: float) -> None:
    narrow, wide = delta_interval(counts, z), delta_interval(counts, z * factor)
    assert wide.low_unclipped <= narrow.low_unclipped <= narrow.high_unclipped <= wide.high_unclipped


@pytest.mark.parametrize("interval", [delta_interval, lang_reiczigel_interval])
@given(counts=effective_counts(least_j=0.3))
def test_effective_counts_next_to_each_other_give_nearly_one_interval(
    interval: Callable[[Counts, float], PrevalenceInterval], counts: Counts
) -> None:
    scaled = counts_of(tuple(getattr(counts, name) * (1 + 1e-12) for name in Counts.__slots__))
    one, other = interval(counts, Z95), interval(scaled, Z95)
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-6)


@pytest.mark.parametrize("method", ["melded", "bootstrap"])
def test_drawn_intervals_of_effective_counts_lie_between_those_of_their_whole_neighbours(
    method: Method,
) -> None:
    def width(n: float) -> float:
        counts = counts_of((0.3 * n, n, 0.8 * n, n, 0.9 * n, n))
        draw = melded_interval if method == "melded" else bootstrap_interval
        interval = draw(counts, 0.9, np.random.default_rng(2), draws=100_000)
        return interval.high_unclipped - interval.low_unclipped

    assert width(31.0) < width(25.5) < width(20.0)


@pytest.mark.parametrize("method", ["melded", "bootstrap"])
def test_one_generator_state_gives_one_interval(method: Method) -> None:
    counts = counts_of((60, 200, 45, 50, 95, 100))
    assert interval_of(counts, method) == interval_of(counts, method)


@pytest.mark.parametrize("method", ["melded", "bootstrap"])
def test_a_judge_that_may_not_discriminate_at_all_leaves_the_rate_open(method: Method) -> None:
    interval = interval_of(counts_of((10, 30, 3, 5, 3, 5)), method)
    assert (interval.low, interval.high) == (0.0, 1.0)


@pytest.mark.parametrize("row", [(0, 5, 5, 5, 5, 5), (5, 5, 5, 5, 5, 5), (0.0, 0.7, 0.6, 0.6, 0.4, 0.4)])
@pytest.mark.parametrize("method", ["lang_reiczigel", "melded", "bootstrap"])
def test_counts_at_their_borders_give_an_interval_with_width(method: Method, row: tuple[float, ...]) -> None:
    interval = interval_of(counts_of(row), method)
    assert interval.compatible
    assert interval.low < interval.high


@pytest.mark.parametrize(
    ("row", "value"), [((0, 100, 50, 50, 50, 50), 0.0), ((0, 9, 4, 5, 7, 7), 0.0), ((9, 9, 5, 5, 6, 7), 1.0)]
)
def test_the_papers_interval_collapses_at_the_borders_and_says_so(row: tuple[float, ...], value: float) -> None:
    interval = delta_interval(counts_of(row), Z95)
    assert interval.degenerate
    assert interval.variance == 0.0
    assert (interval.low, interval.high) == (value, value)


@pytest.mark.parametrize("method", METHODS)
def test_no_method_gives_an_interval_for_a_judge_below_chance(method: Method) -> None:
    with pytest.raises(UndefinedError, match="youden_j"):
        interval_of(counts_of((10, 100, 20, 50, 20, 50)), method)


def test_a_judge_that_one_trace_would_turn_round_has_no_lang_reiczigel_interval() -> None:
    with pytest.raises(UndefinedError, match="youden_j"):
        lang_reiczigel_interval(counts_of((10, 100, 1, 1, 20, 100)), Z95)


@pytest.mark.parametrize("draws", [0, -1, 99])
def test_too_few_draws_for_a_quantile_are_refused(draws: int) -> None:
    with pytest.raises(UndefinedError, match="draws"):
        melded_interval(counts_of((60, 200, 45, 50, 95, 100)), 0.95, np.random.default_rng(1), draws=draws)


@pytest.mark.parametrize(
    "row",
    [
        (11, 10, 5, 5, 5, 5),
        (-1, 10, 5, 5, 5, 5),
        (1, 10, 6, 5, 5, 5),
        (1, 10, 5, 5, 5, 0),
        (1, math.inf, 5, 5, 5, 5),
        (math.nan, 10, 5, 5, 5, 5),
    ],
)
def test_effective_counts_that_cannot_be_are_refused(row: tuple[float, ...]) -> None:
    with pytest.raises(UndefinedError):
        counts_of(row)


# The detection floor


@pytest.mark.parametrize(
    ("point", "bound", "status"),
    [
        (0.5, 0.3, "measured"),
        (0.5, 0.2, "measured"),
        (0.5, 0.1999, "inconclusive"),
        (0.2, -0.1, "inconclusive"),
        (0.6 + 0.6 - 1.0, 0.0, "inconclusive"),  # .19999999999999996: rounding does not sink a judge
        (0.1999, 0.1, "below_detection_floor"),
        (-0.4, -0.6, "below_detection_floor"),
    ],
)
def test_the_floor_has_three_states(point: float, bound: float, status: str) -> None:
    assert floor_status(point, bound) == status


def test_a_status_survives_the_twelve_digits_of_a_record() -> None:
    for true_positives in range(60, 70):
        counts = counts_of((1, 10, true_positives, 120, 84, 120))
        written = float(f"{counts.youden_j:.12g}")
        assert floor_status(written, written, counts.youden_j) == "measured"
        assert floor_status(counts.youden_j, counts.youden_j, abs(written)) == "measured"


@given(st.floats(0, 1), st.floats(1, 1e5), st.floats(0, 1), st.floats(1, 1e5), st.floats(0.1, 6))
def test_the_bound_of_j_lies_between_minus_one_and_j(
    sensitivity: float, n_positive: float, specificity: float, n_negative: float, z: float
) -> None:
    bound = youden_low(sensitivity, n_positive, specificity, n_negative, z=z)
    assert -1.0 - 1e-12 <= bound <= sensitivity + specificity - 1.0


@given(st.floats(0, 1), st.floats(1, 1e5), st.floats(0, 1), st.floats(1, 1e5), st.floats(1, 100))
def test_more_golden_traces_never_lower_the_bound_of_j(
    sensitivity: float, n_positive: float, specificity: float, n_negative: float, factor: float
) -> None:
    fewer = youden_low(sensitivity, n_positive, specificity, n_negative, z=Z95)
    more = youden_low(sensitivity, n_positive * factor, specificity, n_negative * factor, z=Z95)
    assert fewer <= more + 1e-12


def test_two_perfect_traces_a_class_do_not_prove_a_judge() -> None:
    assert floor_status(1.0, youden_low(1.0, 2, 1.0, 2, z=Z95)) == "inconclusive"


# The corrected rate with its state


def test_the_default_interval_is_lang_reiczigel_at_the_exact_quantile() -> None:
    result = corrected_prevalence(
        n_flagged=60, n_traces=200, true_positives=45, n_positive=50, true_negatives=95, n_negative=100
    )
    assert result.status == "measured"
    assert result.value == result.raw == pytest.approx(5 / 17, abs=1e-12)
    assert result.interval == lang_reiczigel_interval(counts_of((60, 200, 45, 50, 95, 100)), normal_quantile(0.95))


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_asked_for_and_repeats_itself(method: Method) -> None:
    counts = counts_of((60, 200, 45, 50, 95, 100))
    first, second = (effective_prevalence(counts, method=method) for _ in range(2))
    assert first == second
    assert first.interval is not None
    assert first.interval.method == method
    assert first.interval.low < 5 / 17 < first.interval.high


def test_a_point_on_the_floor_without_proof_is_inconclusive_and_keeps_its_rate() -> None:
    result = corrected_prevalence(
        n_flagged=90, n_traces=200, true_positives=60, n_positive=100, true_negatives=60, n_negative=100
    )
    assert result.youden_j == 0.2
    assert result.status == "inconclusive"
    assert result.value == pytest.approx(0.25)
    assert result.interval is not None


def test_below_the_floor_there_is_no_rate_but_its_raw_value_is_kept() -> None:
    result = corrected_prevalence(
        n_flagged=90, n_traces=200, true_positives=59, n_positive=100, true_negatives=60, n_negative=100
    )
    assert (result.status, result.value, result.interval) == ("below_detection_floor", None, None)
    assert result.raw == pytest.approx((0.45 - 0.4) / 0.19)
    assert not result.clipped


@pytest.mark.parametrize("hits", [0, 20, 40])
def test_at_or_below_chance_not_even_a_raw_value_exists(hits: int) -> None:
    result = corrected_prevalence(
        n_flagged=90,
        n_traces=200,
        true_positives=hits,
        n_positive=100,
        true_negatives=60,
        n_negative=100,
        detection_floor=0.0,
    )
    assert (result.status, result.value, result.raw, result.interval) == (
        "below_detection_floor",
        None,
        None,
        None,
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("flagged", "side"), [(0, -1), (1000, 1)])
def test_flags_beyond_what_the_judge_can_give_are_incompatible(method: Method, flagged: int, side: int) -> None:
    result = corrected_prevalence(
        n_flagged=flagged,
        n_traces=1000,
        true_positives=160,
        n_positive=200,
        true_negatives=160,
        n_negative=200,
        method=method,
    )
    assert (result.status, result.value, result.interval) == ("incompatible", None, None)
    assert result.raw == pytest.approx(0.5 + side * 5 / 6)


def test_a_collapsed_delta_interval_is_returned_as_degenerate() -> None:
    result = corrected_prevalence(
        n_flagged=0,
        n_traces=100,
        true_positives=50,
        n_positive=50,
        true_negatives=50,
        n_negative=50,
        method="delta",
    )
    assert result.status == "measured"
    assert result.interval is not None
    assert result.interval.degenerate


@given(whole_counts())
def test_a_reported_interval_has_width_and_any_other_state_has_no_rate(sample: dict[str, int]) -> None:
    result = corrected_prevalence(**sample)  # type: ignore[arg-type]
    if result.status in ("measured", "inconclusive"):
        assert result.value is not None
        assert result.interval is not None
        assert 0.0 <= result.interval.low < result.interval.high <= 1.0
        assert 0.0 <= result.value <= 1.0
        assert result.clipped == (result.value != result.raw)
    else:
        assert (result.value, result.interval) == (None, None)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"n_flagged": 201}, "n_flagged"),
        ({"n_flagged": 1.5}, "n_flagged"),
        ({"n_flagged": 0, "n_traces": 0}, "n_traces"),
        ({"true_positives": 0, "n_positive": 0}, "n_positive"),
        ({"true_negatives": 0, "n_negative": 0}, "n_negative"),
        ({"true_negatives": -1}, "true_negatives"),
        ({"method": "wald"}, "method"),
        ({"confidence_level": 95}, "confidence_level"),
        ({"z": 0.0}, "z"),
        ({"detection_floor": 1.2}, "detection_floor"),
    ],
)
def test_arguments_that_cannot_be_are_refused_by_name(change: dict[str, Any], field: str) -> None:
    arguments: dict[str, Any] = {
        "n_flagged": 60,
        "n_traces": 200,
        "true_positives": 45,
        "n_positive": 50,
        "true_negatives": 95,
        "n_negative": 100,
        **change,
    }
    with pytest.raises(UndefinedError) as caught:
        corrected_prevalence(**arguments)
    assert caught.value.field == field


def test_an_own_quantile_reaches_every_method() -> None:
    counts = counts_of((60, 200, 45, 50, 95, 100))
    for method in METHODS:
        wide, narrow = (effective_prevalence(counts, method=method, z=z).interval for z in (2.6, 1.0))
        assert wide is not None
        assert narrow is not None
        assert wide.low < narrow.low < narrow.high < wide.high


# A judge that differs in production


def test_shifts_of_the_judge_show_the_rate_each_would_give() -> None:
    rows = judge_shift_sensitivity(0.30, 0.90, 0.95)
    shifts = [(row.sensitivity_shift, row.specificity_shift) for row in rows]
    assert shifts == [
        (-0.10, 0.0),
        (-0.05, 0.0),
        (0.05, 0.0),
        (0.10, 0.0),
        (0.0, -0.10),
        (0.0, -0.05),
        (0.0, 0.05),
        (0.0, 0.10),
    ]
    values = [row.value for row in rows]
    assert values[:-1] == pytest.approx([25 / 75, 25 / 80, 25 / 90, 25 / 95, 15 / 75, 20 / 80, 30 / 90])
    assert values[-1] is None


def test_a_shift_that_leaves_a_judge_no_better_than_chance_has_no_rate() -> None:
    assert [row.value for row in judge_shift_sensitivity(0.5, 0.55, 0.55)][:2] == [None, pytest.approx(1.0)]


# ---- many data sets at a time

MANY = {"melded": melded_intervals, "bootstrap": bootstrap_intervals}
SETS = [
    (60, 200, 45, 50, 95, 100),
    (0, 100, 50, 50, 50, 50),  # shapes of zero: points, which take no random numbers
    (12.5, 80.2, 20.1, 25.7, 40.0, 44.4),
    (100, 100, 30, 50, 50, 50),
    (0.2, 0.7, 0.6, 0.9, 3.0, 3.5),
]


@pytest.mark.parametrize("method", ["melded", "bootstrap"])
@pytest.mark.parametrize("row", SETS)
def test_a_single_data_set_gives_the_same_interval_alone_and_as_a_list(row: Any, method: Method) -> None:
    (interval,) = MANY[method]([counts_of(row)], 0.95, np.random.default_rng(5), 2_000)
    assert interval == interval_of(counts_of(row), method)


@pytest.mark.parametrize("method", ["melded", "bootstrap"])
def test_each_of_many_data_sets_has_the_interval_that_it_has_alone(method: Method) -> None:
    together = MANY[method]([counts_of(row) for row in SETS], 0.95, np.random.default_rng(1), 100_000)
    assert len(together) == len(SETS)
    for row, interval in zip(SETS, together, strict=True):
        (alone,) = MANY[method]([counts_of(row)], 0.95, np.random.default_rng(2), 100_000)
        assert (interval.low, interval.high) == pytest.approx((alone.low, alone.high), abs=0.01), row


@pytest.mark.parametrize("method", ["melded", "bootstrap"])
def test_of_no_data_set_there_is_no_interval_and_one_without_a_corrected_rate_stops_all(method: Method) -> None:
    assert MANY[method]([], 0.95, np.random.default_rng(1), 100) == []
    with pytest.raises(UndefinedError, match="J above 0"):
        MANY[method]([counts_of(SETS[0]), counts_of((5, 10, 1, 10, 1, 10))], 0.95, np.random.default_rng(1), 100)
