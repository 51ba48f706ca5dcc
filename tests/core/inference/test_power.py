"""Power of the low end of the interval, of McNemar's test and of the two-proportion test."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from core.errors import UndefinedError
from core.inference.power import (
    detection_power,
    flag_rate,
    lang_reiczigel_low,
    limit_of_detection,
    mcnemar_power,
    two_proportion_power,
)
from core.inference.prevalence import Counts, lang_reiczigel_interval

Z95 = 1.959963984540054

# Grid of the table below.
GRID = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.10, 0.15, 0.20, 0.30, 0.40, 1.0)

# STATISTICS.md F15, by Monte Carlo: sens, spec -> least rate of the grid found with 80% power, for golden sets of 50,
# 200 and 1000 a class, each with N = 400 and 2000. 1.0 stands for "above .40".
LIMITS = [
    ((0.9, 0.99), (0.15, 0.10, 0.05, 0.05, 0.03, 0.02)),
    ((0.9, 0.95), (0.20, 0.15, 0.075, 0.075, 0.05, 0.05)),
    ((0.7, 0.9), (0.30, 0.30, 0.15, 0.15, 0.10, 0.075)),
    ((0.6, 0.7), (1.0, 1.0, 0.40, 0.30, 0.30, 0.20)),
]


def interval_low(x: int, n: int, a: int, m1: int, b: int, m0: int) -> float:
    counts = Counts(flagged=x, traces=n, true_positives=a, positives=m1, true_negatives=b, negatives=m0)
    try:
        return lang_reiczigel_interval(counts, Z95).low_unclipped
    except UndefinedError:
        return -math.inf


@pytest.mark.parametrize(("judge", "table"), LIMITS)
def test_the_limit_of_detection_is_within_one_grid_step_of_the_simulated_table(
    judge: tuple[float, float], table: tuple[float, ...]
) -> None:
    designs = [(m, n) for m in (50, 200, 1000) for n in (400, 2000)]
    for (m, n), simulated in zip(designs, table, strict=True):
        found = limit_of_detection(
            sensitivity=judge[0], specificity=judge[1], n_production=n, n_positive=m, n_negative=m
        )
        assert found is not None
        step = next(i for i, rate in enumerate(GRID) if rate >= found)
        assert abs(step - GRID.index(simulated)) <= 1, (judge, m, n, found)


def test_small_designs_are_summed_exactly() -> None:
    theta, q1, q0, n, m1, m0 = 0.4, 0.8, 0.9, 14, 6, 9
    pi = flag_rate(theta, q1, q0)
    expected = sum(
        binom.pmf(x, n, pi) * binom.pmf(a, m1, q1) * binom.pmf(b, m0, q0)
        for x in range(n + 1)
        for a in range(m1 + 1)
        for b in range(m0 + 1)
        if interval_low(x, n, a, m1, b, m0) > 0
    )
    found = detection_power(theta, sensitivity=q1, specificity=q0, n_production=n, n_positive=m1, n_negative=m0)
    assert found == pytest.approx(expected, abs=1e-9)


def test_long_laws_agree_with_simulation() -> None:
    theta, q1, q0, n, m = 0.04, 0.9, 0.95, 5_000, 2_000
    rng = np.random.default_rng(3)
    x = rng.binomial(n, flag_rate(theta, q1, q0), 200_000)
    lows = lang_reiczigel_low(
        x, n, true_positives=rng.binomial(m, q1, x.size), n_positive=m,
        true_negatives=rng.binomial(m, q0, x.size), n_negative=m, z=Z95,
    )  # fmt: skip
    found = detection_power(theta, sensitivity=q1, specificity=q0, n_production=n, n_positive=m, n_negative=m)
    assert found == pytest.approx(float((lows > 0).mean()), abs=0.004)


@given(
    st.integers(5, 400), st.integers(5, 60), st.integers(5, 60),
    st.floats(0, 1), st.floats(0, 1), st.floats(0, 1),
)  # fmt: skip
def test_the_interval_for_arrays_is_the_interval(n: int, m1: int, m0: int, x: float, a: float, b: float) -> None:
    counts = round(x * n), n, round(a * m1), m1, round(b * m0), m0
    low = lang_reiczigel_low(
        counts[0], n, true_positives=counts[2], n_positive=m1, true_negatives=counts[4], n_negative=m0, z=Z95
    )
    assert float(low) == pytest.approx(interval_low(*counts), rel=1e-9, abs=1e-12)


@settings(max_examples=25)
@given(st.floats(0.75, 1), st.floats(0.75, 1), st.integers(5, 80), st.integers(5, 80), st.integers(10, 500))
def test_power_rises_with_the_rate_and_false_alarms_are_rare(q1: float, q0: float, m1: int, m0: int, n: int) -> None:
    design = {"sensitivity": q1, "specificity": q0, "n_production": n, "n_positive": m1, "n_negative": m0}
    powers = [detection_power(theta, **design) for theta in (0.0, 0.2, 0.5, 1.0)]
    assert all(a <= b + 1e-9 for a, b in itertools.pairwise(powers))
    assert powers[0] < 0.07


def test_more_production_stops_helping_and_more_clean_golden_traces_go_on() -> None:
    judge = {"sensitivity": 0.9, "specificity": 0.95, "n_positive": 200}
    few = limit_of_detection(**judge, n_production=2_000, n_negative=200)
    endless = limit_of_detection(**judge, n_production=math.inf, n_negative=200)
    more_golden = limit_of_detection(**judge, n_production=2_000, n_negative=800)
    assert few is not None
    assert endless is not None
    assert more_golden is not None
    assert endless > 0.97 * few
    assert more_golden < 0.7 * few


def test_a_judge_too_weak_for_its_golden_set_detects_nothing() -> None:
    assert limit_of_detection(sensitivity=0.5, specificity=0.55, n_production=100, n_positive=10, n_negative=10) is None


def test_mcnemar_power_is_that_of_the_exact_test() -> None:
    n, n10, n01 = 25, 0.05, 0.35
    expected = sum(
        binom.pmf(d, n, n10 + n01) * binom.pmf(k, d, n01 / (n10 + n01))
        for d in range(1, n + 1)
        for k in range(d + 1)
        if binomtest(k, d).pvalue <= 0.05 and k > d / 2
    )
    assert mcnemar_power(n, baseline_only=n10, candidate_only=n01) == pytest.approx(expected, abs=1e-9)


def test_mcnemar_power_is_the_same_in_both_directions_and_for_many_pairs() -> None:
    assert mcnemar_power(300, baseline_only=0.02, candidate_only=0.07) == pytest.approx(
        mcnemar_power(300, baseline_only=0.07, candidate_only=0.02)
    )
    n, n10, n01 = 2_000_000, 0.0100, 0.0104
    noise = math.sqrt((n10 + n01 - (n01 - n10) ** 2) / n)
    normal = 0.5 * math.erfc((Z95 - (n01 - n10) / noise) / math.sqrt(2))
    assert mcnemar_power(n, baseline_only=n10, candidate_only=n01) == pytest.approx(normal, abs=0.005)


def test_the_two_proportion_power_is_that_of_r() -> None:
    # R stats::power.prop.test, examples of its help page: n = 50 -> power .740; power .90 -> n = 76.7.
    assert two_proportion_power(50, baseline_rate=0.50, candidate_rate=0.75) == pytest.approx(0.740, abs=5e-4)
    assert two_proportion_power(76.7, baseline_rate=0.50, candidate_rate=0.75) == pytest.approx(0.90, abs=5e-4)


def test_certain_versions_are_told_apart_for_certain() -> None:
    assert two_proportion_power(50, baseline_rate=0.0, candidate_rate=1.0) == 1.0
    assert mcnemar_power(50, baseline_only=0.0, candidate_only=1.0) == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("prevalence", {"prevalence": 1.2}),
        ("specificity", {"specificity": -0.1}),
        ("n_negative", {"n_negative": 0}),
        ("confidence_level", {"confidence_level": 1.0}),
    ],
)
def test_what_no_design_can_be_is_refused(field: str, arguments: dict[str, float]) -> None:
    design = {
        "prevalence": 0.1, "sensitivity": 0.9, "specificity": 0.9,
        "n_production": 100, "n_positive": 50, "n_negative": 50,
    }  # fmt: skip
    with pytest.raises(UndefinedError) as error:
        detection_power(**{**design, **arguments})  # type: ignore[arg-type]
    assert error.value.field == field


def test_equal_versions_have_no_power() -> None:
    with pytest.raises(UndefinedError):
        mcnemar_power(100, baseline_only=0.1, candidate_only=0.1)
    with pytest.raises(UndefinedError):
        two_proportion_power(100, baseline_rate=0.1, candidate_rate=0.1)
