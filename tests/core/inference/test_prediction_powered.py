"""The prediction-powered rate: published values, limits, and coverage where it should hold and where it should not."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.intervals import wilson_limits
from core.inference.prediction_powered import LabelledCounts, prediction_powered_rate
from core.inference.prevalence import Counts, lang_reiczigel_interval

Z95 = 1.959963984540054

# STATISTICS.md section 9: Y = 20x1 + 180x0; flags 18x1, 2x0, 171x0, 9x1 in the same order; 280 of 2000 unlabelled.
LABELLED = LabelledCounts(violating_flagged=18, violating_passed=2, clean_flagged=9, clean_passed=171)

# ppi-python 0.2.3, ppi_mean_ci and ppi_mean_pointestimate, at its default alpha = 0.1: lambda, point, ends.
PPI_PYTHON = [
    (None, 0.10289466, 0.07833249, 0.12745682),
    (1.0, 0.105, 0.07516166, 0.13483834),
]


@pytest.mark.parametrize(("weight", "point", "low", "high"), PPI_PYTHON)
def test_the_rate_and_its_ends_are_those_of_ppi_python(
    weight: float | None, point: float, low: float, high: float
) -> None:
    found = prediction_powered_rate(LABELLED, n_flagged=280, n_rest=2_000, confidence_level=0.90, weight=weight)
    assert (found.raw, found.low, found.high) == pytest.approx((point, low, high), abs=1e-8)
    assert not found.widened


def test_without_weight_on_the_judge_it_is_the_rate_of_the_labels() -> None:
    found = prediction_powered_rate(LABELLED, n_flagged=280, n_rest=2_000, weight=0.0)
    assert found.raw == pytest.approx(0.1)
    assert found.high - found.raw == pytest.approx(Z95 * math.sqrt(0.09 / 200))


def test_a_perfect_judge_makes_every_trace_a_label() -> None:
    perfect = LabelledCounts(violating_flagged=40, violating_passed=0, clean_flagged=0, clean_passed=160)
    found = prediction_powered_rate(perfect, n_flagged=360, n_rest=1_800)
    assert found.weight == pytest.approx(0.9, abs=0.001)
    assert found.variance == pytest.approx(0.2 * 0.8 / 2_000, rel=1e-3)


@pytest.mark.parametrize("positives", [0, 4])
def test_a_thin_class_widens_to_the_interval_of_the_labels(positives: int) -> None:
    labelled = LabelledCounts(
        violating_flagged=positives, violating_passed=0, clean_flagged=5, clean_passed=195 - positives
    )
    found = prediction_powered_rate(labelled, n_flagged=60, n_rest=2_000)
    low, high = wilson_limits(positives / 200, 200, z=Z95)
    assert found.widened
    assert found.low <= low
    assert found.high >= high


def test_flags_that_all_agree_carry_no_weight() -> None:
    labelled = LabelledCounts(violating_flagged=0, violating_passed=20, clean_flagged=0, clean_passed=180)
    found = prediction_powered_rate(labelled, n_flagged=0, n_rest=2_000)
    assert found.weight == 0.0
    assert found.value == pytest.approx(0.1)


@given(
    st.integers(0, 60), st.integers(0, 60), st.integers(0, 60), st.integers(1, 60),
    st.integers(1, 3_000), st.floats(0, 1), st.floats(1, 4),
)  # fmt: skip
def test_rate_and_ends_stay_in_the_unit_interval_and_the_best_weight_has_least_variance(
    a: int, b: int, c: int, d: int, rest: int, share: float, effect: float
) -> None:
    labelled = LabelledCounts(violating_flagged=a, violating_passed=b, clean_flagged=c, clean_passed=d + 1)
    flagged = round(share * rest)
    found = prediction_powered_rate(labelled, n_flagged=flagged, n_rest=rest)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert 0 <= found.weight <= 1
    clustered = prediction_powered_rate(labelled, n_flagged=flagged, n_rest=rest, design_effect=effect)
    assert clustered.variance == pytest.approx(effect * found.variance)


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("n_flagged", {"n_flagged": 11, "n_rest": 10}),
        ("n_labelled", {"n_flagged": 0, "n_rest": 0}),
        ("weight", {"weight": 1.5}),
        ("design_effect", {"design_effect": 0.5}),
        ("confidence_level", {"confidence_level": 1.0}),
    ],
)
def test_what_has_no_rate_is_refused(field: str, arguments: dict[str, float]) -> None:
    with pytest.raises(UndefinedError) as error:
        prediction_powered_rate(LABELLED, **{"n_flagged": 5, "n_rest": 50, **arguments})  # type: ignore[arg-type]
    assert error.value.field == field


def test_a_negative_count_is_refused() -> None:
    with pytest.raises(UndefinedError):
        LabelledCounts(violating_flagged=-1, violating_passed=2, clean_flagged=0, clean_passed=0)


# STATISTICS.md section 7: coverage and width of LR (m = 100 a class) and of PPI++ (n = 200, not widened), N = 2000, by
# 600 replications. The judge is not named there: (.9, .95) at .05 and (.7, .9) at .2 give every width of the section.
SECTION_7 = [
    ("matched", 0.05, (0.967, 0.0838), (0.902, 0.0466)),
    ("matched", 0.20, (0.935, 0.1837), (0.940, 0.0914)),
    ("label shift", 0.05, (0.945, 0.0833), (0.082, 0.0789)),
    ("label shift", 0.20, (0.943, 0.1860), (0.000, 0.1139)),
    ("spectrum shift", 0.05, (0.085, 0.1038), (0.922, 0.0545)),
    ("spectrum shift", 0.20, (0.243, 0.1857), (0.943, 0.0996)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "theta", "corrected", "powered"), SECTION_7)
def test_each_rate_holds_under_its_own_assumption_and_fails_without_it(
    shift: str, theta: float, corrected: tuple[float, float], powered: tuple[float, float]
) -> None:
    replications, golden, n, rest = 2_000, 100, 200, 2_000
    sens, spec = (0.9, 0.95) if theta == 0.05 else (0.7, 0.9)
    clean = 1 - spec + (0.10 if shift == "spectrum shift" else 0.0)
    rng = np.random.default_rng(20_261_129)
    covered, width = np.zeros(2), np.zeros(2)
    for _ in range(replications):
        positives = int(rng.binomial(n, 0.5 if shift == "label shift" else theta))
        hits, alarms = int(rng.binomial(positives, sens)), int(rng.binomial(n - positives, clean))
        flagged = int(rng.binomial(rest, theta * sens + (1 - theta) * clean))
        counts = Counts(
            flagged=flagged, traces=rest,
            true_positives=int(rng.binomial(golden, sens)), positives=golden,
            true_negatives=int(rng.binomial(golden, spec)), negatives=golden,
        )  # fmt: skip
        lr = lang_reiczigel_interval(counts, Z95)
        labelled = LabelledCounts(
            violating_flagged=hits, violating_passed=positives - hits,
            clean_flagged=alarms, clean_passed=n - positives - alarms,
        )  # fmt: skip
        found = prediction_powered_rate(labelled, n_flagged=flagged, n_rest=rest)
        half = Z95 * math.sqrt(found.variance)  # as measured there: not widened
        for i, (low, high) in enumerate([(lr.low, lr.high), (max(0.0, found.raw - half), found.raw + half)]):
            covered[i] += low <= theta <= high
            width[i] += high - low
    for i, (coverage, mean_width) in enumerate((corrected, powered)):
        error = math.sqrt(max(coverage * (1 - coverage), 0.01) * (1 / 600 + 1 / replications))
        assert covered[i] / replications == pytest.approx(coverage, abs=3.5 * error)
        assert width[i] / replications == pytest.approx(mean_width, rel=0.04)


@pytest.mark.slow
def test_widening_mends_what_few_positives_break() -> None:
    theta, n, rest, replications = 0.01, 200, 2_000, 2_000
    rng = np.random.default_rng(20_261_129)
    covered = np.zeros(2)
    for _ in range(replications):
        positives = int(rng.binomial(n, theta))
        hits, alarms = int(rng.binomial(positives, 0.9)), int(rng.binomial(n - positives, 0.05))
        labelled = LabelledCounts(
            violating_flagged=hits, violating_passed=positives - hits,
            clean_flagged=alarms, clean_passed=n - positives - alarms,
        )  # fmt: skip
        found = prediction_powered_rate(
            labelled, n_flagged=int(rng.binomial(rest, theta * 0.9 + (1 - theta) * 0.05)), n_rest=rest
        )
        half = Z95 * math.sqrt(found.variance)
        covered += [found.raw - half <= theta <= found.raw + half, found.low <= theta <= found.high]
    assert covered[0] / replications < 0.90
    assert covered[1] / replications > 0.94
