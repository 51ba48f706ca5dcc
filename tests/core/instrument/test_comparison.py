"""What a comparison of two releases says, and what it refuses to say."""

from __future__ import annotations

from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from core.data.facts import SourceFacts
from core.errors import UndefinedError
from core.inference.intervals import normal_quantile
from core.inference.multiplicity import holm
from core.inference.paired import mcnemar_test
from core.instrument.calibrated import Calibration
from core.instrument.compared import Compared, Comparison, Series
from core.instrument.comparison import compare, series
from core.instrument.measured import Measurement
from core.instrument.spec import JudgeIdentity
from core.records import build, plain
from tests.core.instrument.releases import Release, few_melded_draws, instrument, paired

__all__ = ["few_melded_draws"]
pytestmark = pytest.mark.usefixtures("few_melded_draws")

Z95 = normal_quantile(0.95)
GOOD = (90, 100, 95, 100)  # sensitivity .90, specificity .95


def two(n11: int, n10: int, n01: int, n00: int, **options: Any) -> tuple[Release, Release]:
    """Two releases of one category from the cells of their pairs."""
    cells = [n11, n10, n01, n00]
    return Release.of(np.repeat([1, 1, 0, 0], cells), **options), Release.of(np.repeat([1, 0, 1, 0], cells), **options)


def compared(
    calibration: Calibration, one: Release, other: Release, *, pair: bool = True, **options: Any
) -> Comparison:
    return compare(
        one.measured(calibration), other.measured(calibration), calibration,
        pairs=paired(calibration, one, other) if pair else None, **options,
    )  # fmt: skip


def said(row: Compared) -> str:
    return "; ".join(row.notes)


# ---- the plain cases, redone by hand


def test_a_paired_difference_is_the_shared_formula_on_smoothed_counts() -> None:
    row = compared(instrument(GOOD), *two(40, 38, 18, 404)).composite
    q1, q0 = 91 / 102, 96 / 102
    j = q1 + q0 - 1
    delta = -20 / 500 / j
    flags = ((39 + 19) / 502 - (20 / 502) ** 2) / 502
    half = Z95 * sqrt((flags + delta**2 * (q1 * (1 - q1) / 102 + q0 * (1 - q0) / 102)) / j**2)
    assert row.difference == pytest.approx(-20 / 500 / 0.85, abs=1e-12)
    assert (row.interval.low, row.interval.high) == pytest.approx((row.difference - half, row.difference + half))
    assert (row.p_value, row.method) == (mcnemar_test(18, 38).p_value, "mcnemar_exact")
    assert (row.paired, row.n_pairs, row.n_baseline_only, row.n_candidate_only) == (True, 500, 38, 18)
    assert row.interval.method == "shared_calibration_paired"
    assert row.observed_difference == pytest.approx(-0.04)
    variance = row.variance.flags + row.variance.sensitivity + row.variance.specificity
    assert row.interval.high - row.interval.low == pytest.approx(2 * Z95 * sqrt(variance))


def test_an_unpaired_difference_adds_the_two_samples_and_counts_the_calibration_once() -> None:
    found = compared(instrument(GOOD), *two(40, 38, 18, 404), pair=False)
    row = found.composite
    q1, q0 = 91 / 102, 96 / 102
    j = q1 + q0 - 1
    flags = sum((x + 1) * (500 - x + 1) / 502**3 for x in (78, 58))
    delta = -20 / 500 / j
    half = Z95 * sqrt((flags + delta**2 * (q1 * (1 - q1) / 102 + q0 * (1 - q0) / 102)) / j**2)
    assert row.interval.high - row.difference == pytest.approx(half)
    chi2 = stats.chi2_contingency([[78, 422], [58, 442]], correction=False).statistic * 999 / 1000
    assert (row.p_value, row.method) == (pytest.approx(stats.chi2.sf(chi2, 1)), "score_n_minus_1")
    assert (row.paired, row.n_pairs) == (False, 0)
    assert "not paired" in found.notes[0]


def test_the_reported_rates_stand_beside_the_difference_and_need_not_give_it() -> None:
    one, other = two(0, 30, 6, 464)  # the candidate's rate is clipped at 0
    row = compared(instrument(GOOD), one, other).composite
    assert row.baseline == one.measured(instrument(GOOD)).composite.prevalence.value
    assert row.difference < row.candidate - row.baseline
    row = compared(instrument(GOOD), *two(10, 50, 20, 420)).composite
    assert row.difference == pytest.approx(row.sides["candidate"].raw - row.sides["baseline"].raw)


def test_a_measurement_read_back_from_its_record_gives_the_same_comparison() -> None:
    calibration = instrument({0: GOOD, 2: (80, 100, 85, 100)})
    one, other = (
        Release.of(flags, n_turns=np.tile([1, 3], 250)) for flags in (np.arange(500) < 90, np.arange(500) < 60)
    )
    direct = [release.measured(calibration) for release in (one, other)]
    again = [build(Measurement, plain(measured)) for measured in direct]
    assert plain(compare(*direct, calibration)) == plain(compare(*again, build(Calibration, plain(calibration))))


def test_a_comparison_reads_back_from_its_record() -> None:
    found = compared(instrument(GOOD, GOOD), *two(40, 38, 18, 404))
    assert plain(build(Comparison, plain(found))) == plain(found)


# ---- edges


def test_no_changed_pair_has_an_interval_of_some_width_around_0() -> None:
    row = compared(instrument(GOOD), *two(60, 0, 0, 340)).composite
    assert (row.difference, row.p_value, row.verdict) == (0, 1, "no_evidence_of_change")
    assert row.interval.low < 0 < row.interval.high
    assert not row.delta_j_guard.fragile


@pytest.mark.parametrize("pair", [True, False])
@pytest.mark.parametrize("cells", [(0, 0, 0, 200), (200, 0, 0, 0), (0, 0, 60, 340), (0, 80, 0, 320)])
def test_a_perfect_judge_and_extreme_rates_have_an_interval_of_some_width(
    cells: tuple[int, int, int, int], pair: bool
) -> None:
    row = compared(instrument((50, 50, 50, 50)), *two(*cells), pair=pair).composite
    assert row.interval.low < row.difference < row.interval.high
    assert 0 < row.p_value <= 1


@settings(max_examples=40, deadline=None)
@given(st.tuples(*[st.integers(0, 60)] * 4).filter(lambda cells: sum(cells) >= 5), st.booleans())
def test_exchanging_the_releases_turns_the_difference_around(cells: tuple[int, int, int, int], pair: bool) -> None:
    calibration = instrument((80, 100, 80, 100))
    one, other = two(*cells)
    forth = compared(calibration, one, other, pair=pair).composite
    back = compared(calibration, other, one, pair=pair).composite
    if forth.difference is None:
        assert back.difference is None
        return
    assert back.difference == pytest.approx(-forth.difference, abs=1e-12)
    assert (back.interval.low, back.interval.high) == pytest.approx((-forth.interval.high, -forth.interval.low))
    assert back.p_value == pytest.approx(forth.p_value)
    turned = {"increase": "decrease", "decrease": "increase"}
    assert back.verdict == turned.get(forth.verdict, forth.verdict)


# ---- verdicts over several quantities


def test_verdicts_come_from_holms_adjustment_over_the_composite_and_the_categories() -> None:
    calibration = instrument(GOOD, GOOD, GOOD)
    rng = np.random.default_rng(3)
    before = rng.random((400, 3)) < [0.2, 0.2, 0.2]
    after = np.where(rng.random((400, 3)) < [0.25, 0.3, 0.3], rng.random((400, 3)) < [0.75, 0.30, 0.2], before)
    bits = 1 << np.arange(3)
    found = compared(calibration, Release.of(before @ bits), Release.of(after @ bits))
    rows = [found.composite, *found.categories.values()]
    assert [row.p_adjusted for row in rows] == pytest.approx(holm([row.p_value for row in rows]))
    assert [row.verdict for row in rows] == [
        "no_evidence_of_change" if row.p_adjusted > 0.05 else "increase" if row.difference > 0 else "decrease"
        for row in rows
    ]
    assert found.categories["c0"].verdict == "increase"


def test_what_cannot_be_compared_does_not_count_in_the_adjustment() -> None:
    calibration = instrument(GOOD, (55, 100, 60, 100))  # the second category is below the floor
    found = compared(calibration, *two(40, 30, 12, 418))
    assert found.categories["c1"].verdict == "not_comparable"
    assert found.composite.p_adjusted == pytest.approx(2 * found.composite.p_value)


def test_the_level_of_the_verdict_is_that_of_the_intervals() -> None:
    cells = two(40, 30, 14, 416)
    assert compared(instrument(GOOD), *cells).composite.p_value == pytest.approx(0.0226, abs=1e-4)
    assert compared(instrument(GOOD), *cells, confidence_level=0.9).composite.verdict == "decrease"
    assert compared(instrument(GOOD), *cells, confidence_level=0.99).composite.verdict == "no_evidence_of_change"


# ---- what is not comparable


def test_a_release_without_a_corrected_rate_is_not_compared_and_the_reason_is_given() -> None:
    calibration = instrument({0: GOOD})
    good = Release.of(np.arange(400) < 60)
    cases = {
        "unit_mismatch": Release.of(np.arange(400) < 60, n_turns=np.where(np.arange(400) < 380, 1, 4)),
        "incompatible": Release.of(np.zeros(400, int)),
        "insufficient_data": Release.of(np.ones(400, int), missing=np.arange(400) > 3),
    }
    for status, bad in cases.items():
        for pair in (True, False):
            row = compared(calibration, good, bad, pair=pair).composite
            assert (row.verdict, row.difference, row.p_value) == ("not_comparable", None, None)
            assert f"the candidate has no corrected rate: {status}" in said(row)
            assert row.baseline is not None
    row = compared(instrument((55, 100, 60, 100)), good, good).composite
    assert "below_detection_floor" in said(row)


def test_too_few_pairs_are_not_compared_even_when_both_releases_are_measured() -> None:
    unit = np.arange(800)
    one, other = (Release.of(unit % 8 == 0, missing=unscored) for unscored in (unit >= 403, unit < 399))
    row = compared(instrument(GOOD), one, other).composite
    assert row.verdict == "not_comparable"
    assert "insufficient data: 4 pairs to compare" in said(row)


def test_pairs_left_out_are_counted() -> None:
    n_turns = np.where(np.arange(500) < 497, 1, 3)
    one = Release.of(np.arange(500) < 80, n_turns=n_turns, missing=np.arange(500) >= 490)
    other = Release.of(np.arange(500) < 60, missing=np.arange(500) < 5, n_turns=np.where(np.arange(500) == 7, 3, 1))
    row = compared(instrument({0: GOOD}), one, other).composite
    assert (row.n_pairs, row.n_pairs_unscored, row.n_pairs_outside) == (484, 15, 1)


def test_a_category_without_a_threshold_keeps_its_place() -> None:
    calibration = instrument(GOOD, GOOD)
    without = replace(
        calibration,
        categories={**calibration.categories, "c2": replace(calibration.categories["c0"], status="not_calibrated")},
    )
    row = compared(without, *two(40, 38, 18, 404)).categories["c2"]
    assert row.verdict == "not_comparable"
    assert "not_calibrated" in said(row)


# ---- different instruments


def test_different_calibrations_are_refused_unless_asked_for() -> None:
    calibration, other = instrument(GOOD), instrument((85, 100, 90, 100))
    one, two_ = two(40, 38, 18, 404)
    before, after = one.measured(calibration), two_.measured(other, calibration_id="another")
    with pytest.raises(UndefinedError, match="different instruments"):
        compare(before, after, calibration)
    found = compare(before, after, calibration, candidate_calibration=other)
    assert not found.same_calibration
    assert "may be the instruments' and not the releases'" in found.notes[0]
    row = found.composite
    assert (row.method, row.interval.method) == ("wald", "separate_calibrations")
    assert row.difference == pytest.approx((58 / 500 - 0.1) / 0.75 - (78 / 500 - 0.05) / 0.85)
    shared = compare(before, two_.measured(calibration), calibration).composite
    assert row.variance.specificity > 10 * shared.variance.specificity
    with pytest.raises(UndefinedError, match="cannot be paired"):
        compare(before, after, calibration, candidate_calibration=other, pairs=paired(calibration, one, two_))


def test_composites_of_different_categories_are_not_compared_and_their_common_categories_are() -> None:
    one, other = instrument(GOOD, GOOD), instrument(GOOD)
    found = compare(
        two(40, 38, 18, 404)[0].measured(one), two(40, 38, 18, 404)[1].measured(other), one,
        candidate_calibration=other,
    )  # fmt: skip
    assert "different categories" in said(found.composite)
    assert found.categories["c0"].difference is not None
    assert "only one of the two" in said(found.categories["c1"])


def test_releases_that_were_counted_differently_are_refused() -> None:
    calibration = instrument(GOOD)
    one, other = two(40, 38, 18, 404)
    with pytest.raises(UndefinedError, match="one rule"):
        compare(one.measured(calibration), other.measured(calibration, attempts="first"), calibration)
    with pytest.raises(UndefinedError, match="other categories"):
        compare(one.measured(calibration), other.measured(calibration), instrument(GOOD, GOOD))
    pairs = paired(instrument(GOOD, GOOD), one, other)
    with pytest.raises(UndefinedError, match="the calibration's categories"):
        compare(one.measured(calibration), other.measured(calibration), calibration, pairs=pairs)
    long = Release.of(one.flags, n_turns=np.where(np.arange(500) < 496, 1, 3))
    pairs = paired(instrument({0: GOOD, 2: GOOD}), long, long)
    with pytest.raises(UndefinedError, match="turn strata"):
        compare(long.measured(calibration), long.measured(calibration), calibration, pairs=pairs)


def test_two_judges_under_one_calibration_are_named() -> None:
    calibration = instrument(GOOD)
    one, other = two(40, 38, 18, 404)
    found = compare(
        one.measured(calibration),
        other.measured(calibration, judge=JudgeIdentity(name="judge", version="2")),
        calibration,
    )
    assert "scored by different judges, judge@1 and judge@2" in found.notes[0]


# ---- turn counts


def test_releases_that_were_read_differently_are_told() -> None:
    calibration = instrument(GOOD)
    read = SourceFacts(reader="inspect", tool="Inspect", higher_is="worse", map={"harm": ("a", "b")})
    one, other = (replace(release.measured(calibration), sources=(read,)) for release in two(40, 38, 18, 404))
    assert not any("read otherwise" in note for note in compare(one, other, calibration).notes)
    other = replace(other, sources=(replace(read, map={"harm": ("a",)}),))
    (note,) = (note for note in compare(one, other, calibration).notes if "read otherwise" in note)
    assert "map was harm=a + b there and is harm=a here; the difference may be the reading's" in note


def test_releases_of_other_lengths_are_compared_at_their_own_error_rates() -> None:
    """The same rate of violations behind it: the flags differ by a lot, the corrected rates do not."""
    calibration = instrument({0: (80, 100, 190, 200), 3: (95, 100, 150, 200)})
    theta, n = 0.2, 2000
    releases = []
    for share in (0.8, 0.2):  # of single turns
        short = round(n * share)
        flags = [
            round(m * (theta * q1 + (1 - theta) * (1 - q0)))
            for m, q1, q0 in ((short, 0.8, 0.95), (n - short, 0.95, 0.75))
        ]
        releases.append(
            Release.of(
                np.r_[np.arange(short) < flags[0], np.arange(n - short) < flags[1]],
                n_turns=np.repeat([1, 4], [short, n - short]),
            )
        )
    row = compared(calibration, *releases, pair=False).composite
    assert row.observed_difference > 0.1
    assert row.difference == pytest.approx(0, abs=0.002)
    assert (row.method, row.verdict) == ("wald", "no_evidence_of_change")
    assert "turn counts differ" in said(row)
    assert compared(calibration, *releases).composite.method == "wald"
    same = compared(calibration, releases[0], releases[0]).composite
    assert same.method == "mcnemar_exact"


def test_a_few_longer_conversations_leave_the_test_on_the_flags() -> None:
    calibration = instrument({0: (80, 100, 190, 200), 3: (95, 100, 150, 200)})
    one, other = two(260, 40, 30, 670, n_turns=np.where(np.arange(1000) % 2, 1, 4))
    longer = replace(other, n_turns=np.where(np.arange(1000) == 1, 4, other.n_turns))
    row = compared(calibration, one, longer).composite
    assert row.method == "mcnemar_exact"
    assert row.sides["baseline"].specificity > row.sides["candidate"].specificity
    assert row.difference == pytest.approx(compared(calibration, one, other).composite.difference, abs=0.002)


def test_each_class_keeps_the_strata_that_its_own_traces_fill() -> None:
    """5 violating traces of four turns join their neighbour, 100 clean ones stay: only specificity follows length."""
    calibration = instrument({0: (80, 95, 190, 200), 3: (3, 5, 75, 100)})
    one = Release.of(np.arange(1000) < 150, n_turns=np.where(np.arange(1000) % 5, 1, 4))
    other = Release.of(np.arange(1000) < 250, n_turns=np.where(np.arange(1000) % 5, 4, 1))
    row = compared(calibration, one, other).composite
    before, after = row.sides["baseline"], row.sides["candidate"]
    assert before.sensitivity == after.sensitivity == pytest.approx(0.83)
    assert before.specificity == pytest.approx(0.8 * 0.95 + 0.2 * 0.75)
    assert after.specificity == pytest.approx(0.2 * 0.95 + 0.8 * 0.75)

    def error(rate: float, n: float) -> tuple[float, float]:
        smoothed = (rate * n + 1) / (n + 2)
        return smoothed, sqrt(smoothed * (1 - smoothed) / (n + 2))

    of_strata = [s * (1 - s) / n for s, n in ((190.5 / 201, 200), (75.5 / 101, 100))]
    shares = [(0.8, 0.2), (0.2, 0.8)]
    own = [sum(w * w * u for w, u in zip(share, of_strata, strict=True)) for share in shares]
    rho = sum(a * b * u for a, b, u in zip(*shares, of_strata, strict=True)) / sqrt(own[0] * own[1])
    assert 0.3 < rho < 0.8
    terms = []
    for side in (before, after):
        (q1, sens_error), (q0, spec_error) = error(side.sensitivity, 100), error(side.specificity, side.n_negative)
        j = q1 + q0 - 1
        theta = (side.observed_rate + q0 - 1) / j
        terms.append((theta * sens_error / j, (1 - theta) * spec_error / j))
    (sens_a, spec_a), (sens_b, spec_b) = terms
    assert row.variance.sensitivity == pytest.approx((sens_b - sens_a) ** 2)  # one rate, one error
    assert row.variance.specificity == pytest.approx(spec_a**2 + spec_b**2 - 2 * rho * spec_a * spec_b)


def test_without_common_strata_the_errors_of_a_rate_are_independent() -> None:
    calibration = instrument({0: (80, 100, 190, 200), 3: (95, 100, 150, 200)})
    one, other = (Release.of(np.arange(500) < 150, n_turns=turns) for turns in (1, 4))
    row = compared(calibration, one, other, pair=False).composite
    terms = []
    for sens, spec in ((81 / 102, 191 / 202), (96 / 102, 151 / 202)):
        j = sens + spec - 1
        theta = (150 / 500 + spec - 1) / j
        terms.append((1 - theta) ** 2 * spec * (1 - spec) / 202 / j**2)
    assert row.variance.specificity == pytest.approx(sum(terms))


# ---- clusters


def test_replicated_vectors_are_tested_by_whole_clusters() -> None:
    clusters = np.repeat(np.arange(20), 25)
    one = Release.of(np.isin(clusters, range(4)), clusters=clusters)
    other = Release.of(np.isin(clusters, [0, 1, 4, 5, 6, 7]), clusters=clusters)
    row = compared(instrument(GOOD), one, other).composite
    assert row.method == "cluster_sign_flip_exact"
    assert row.p_value == pytest.approx(stats.binomtest(2, 6).pvalue)  # six vectors changed whole
    assert row.verdict == "no_evidence_of_change"
    assert mcnemar_test(100, 50).p_value < 1e-4
    assert row.interval.low < 0 < row.interval.high
    assert row.sides["baseline"].n_effective < 20
    apart = compared(instrument(GOOD), one, other, pair=False).composite
    assert apart.verdict == "no_evidence_of_change"
    assert apart.sides["baseline"].n_effective < 20


def test_few_clusters_are_a_warning_and_fewer_a_refusal() -> None:
    def of(n_clusters: int, **options: Any) -> Compared:
        clusters = np.repeat(np.arange(n_clusters), 40)
        flags = np.arange(40 * n_clusters) % 5 == 0
        one, other = Release.of(flags, clusters=clusters), Release.of(np.roll(flags, 1), clusters=clusters)
        return compared(instrument(GOOD), one, other, **options).composite

    assert "only 8 clusters" in said(of(8))
    assert "only 8 clusters" in said(of(8, pair=False))
    assert of(4).verdict == "not_comparable"
    assert not of(12).notes


# ---- the guard


def test_the_guard_says_what_shift_of_the_judge_explains_the_difference() -> None:
    row = compared(instrument((160, 200, 180, 200)), *two(120, 40, 100, 740)).composite
    guard = row.delta_j_guard
    theta = row.sides["baseline"].raw
    assert row.verdict == "increase"
    assert guard.rate == theta
    assert guard.point.specificity == pytest.approx(0.7 * row.difference / (1 - theta))
    assert guard.point.sensitivity == pytest.approx(0.7 * row.difference / theta)
    assert guard.interval.specificity == pytest.approx(0.7 * row.interval.low / (1 - theta))
    assert guard.specificity_points == pytest.approx(100 * guard.interval.specificity)
    assert guard.fragile == (min(guard.sensitivity_points, guard.specificity_points) < 5)
    assert "specificity" in guard.note
    assert "lower" in guard.note


def test_a_small_change_is_fragile_and_a_large_one_is_not() -> None:
    calibration = instrument((160, 200, 180, 200))
    small = compared(calibration, *two(150, 10, 40, 800)).composite
    large = compared(calibration, *two(150, 10, 250, 590)).composite
    assert (small.verdict, small.delta_j_guard.fragile) == ("increase", True)
    assert (large.verdict, large.delta_j_guard.fragile) == ("increase", False)
    fall = compared(calibration, *two(150, 40, 10, 800)).composite
    assert fall.verdict == "decrease"
    assert "specificity 3.4 points higher or sensitivity" in fall.delta_j_guard.note


def test_where_violations_are_the_rule_a_verdict_hangs_on_sensitivity() -> None:
    row = compared(instrument((160, 200, 180, 200)), *two(690, 10, 45, 255)).composite
    guard = row.delta_j_guard
    assert row.verdict == "increase"
    assert guard.rate > 0.8
    assert guard.sensitivity_points < 5 < guard.specificity_points
    assert guard.fragile


def test_a_few_points_of_a_rate_that_hardly_matters_make_nothing_fragile() -> None:
    """Without violations in the baseline no shift of sensitivity explains a rise."""
    row = compared(instrument((160, 200, 200, 200)), *two(0, 0, 120, 880)).composite
    assert row.verdict == "increase"
    assert row.delta_j_guard.sensitivity_points is None
    assert row.delta_j_guard.specificity_points > 5
    assert not row.delta_j_guard.fragile


def test_without_a_difference_the_guard_explains_none() -> None:
    guard = compared(instrument(GOOD), *two(60, 20, 20, 400)).composite.delta_j_guard
    assert guard.point.specificity == 0
    assert not guard.fragile
    assert guard.note == "no difference that the judge would have to explain"


# ---- a series


def test_a_series_breaks_where_the_instrument_changes_and_compares_nothing_across() -> None:
    one, other = two(40, 38, 18, 404)
    calibrations = {"a": instrument(GOOD), "b": instrument((85, 100, 90, 100))}
    second_judge = JudgeIdentity(name="judge", version="2")
    steps = [
        ("m1", one.measured(calibrations["a"], calibration_id="a", target="v1")),
        ("m2", other.measured(calibrations["a"], calibration_id="a", target="v2")),
        ("m3", other.measured(calibrations["b"], calibration_id="b", target="v2")),
        ("m4", one.measured(calibrations["b"], calibration_id="b", target="v3")),
        ("m5", one.measured(calibrations["b"], calibration_id="b", target="v4", judge=second_judge)),
    ]
    pairs = [paired(calibrations["a"], one, other), None, None, None]
    found = series(steps, calibrations, pairs=pairs)
    assert [point.segment for point in found.points] == [0, 0, 1, 1, 2]
    assert [point.break_before for point in found.points] == [
        None, None, "another calibration", None, "another judge: judge@2 after judge@1",
    ]  # fmt: skip
    assert [point.change is not None for point in found.points] == [False, True, False, True, False]
    assert found.points[1].change.composite.method == "mcnemar_exact"
    assert plain(found.points[1].change) == plain(compare(steps[0][1], steps[1][1], calibrations["a"], pairs=pairs[0]))
    assert found.points[2].composite.value == steps[2][1].composite.prevalence.value
    assert plain(build(Series, plain(found))) == plain(found)
    assert "own Holm adjustment" in found.notes[0]
    assert not series(steps[1:3], calibrations).notes  # nothing was tested
    assert not series(steps[:2], calibrations).notes


def test_a_series_needs_a_step_between_releases() -> None:
    one, _ = two(40, 38, 18, 404)
    calibration = instrument(GOOD)
    points = [("m1", one.measured(calibration)), ("m2", one.measured(calibration))]
    with pytest.raises(UndefinedError, match="2 releases have 1 steps"):
        series(points, {"cal": calibration}, pairs=[])
    assert series([], {}).points == ()
    assert series(points[:1], {}).points[0].change is None
    assert series(points, {}).points[1].break_before == "the calibration is not at hand"
