"""The corrected rate when production's mix of categories is not the golden set's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.inference.mix import CategoryRate, MixRobust, mix_robust_interval
from core.inference.prevalence import Counts, delta_interval, lang_reiczigel_interval

Z95 = 1.959963984540054
COUNTS = Counts(flagged=500, traces=2_000, true_positives=160, positives=200, true_negatives=190, negatives=200)
PATTERNS = {"hate": (95, 100), "fraud": (65, 100)}


def rates(**raw: float) -> dict[str, CategoryRate]:
    return {name: CategoryRate(raw=value, variance=2e-4) for name, value in raw.items()}


def mixed(counts: Counts = COUNTS, patterns: Mapping[str, tuple[int, int]] = PATTERNS, **raw: float) -> MixRobust:
    return mix_robust_interval(counts, patterns=patterns, category_rates=rates(**raw))


def test_sensitivity_follows_production_to_its_harder_category() -> None:
    found = mixed(hate=0.05, fraud=0.20)
    assert found.sensitivity == pytest.approx(0.2 * 0.95 + 0.8 * 0.65)
    assert found.value == pytest.approx((0.25 - 0.05) / (0.71 - 0.05))
    assert found.patterns["fraud"].production_share == pytest.approx(0.8)
    assert found.patterns["fraud"].golden_share == pytest.approx(0.5)


def test_the_union_holds_both_intervals() -> None:
    found, plain = mixed(hate=0.05, fraud=0.20), lang_reiczigel_interval(COUNTS, Z95)
    assert found.reweighted_low is not None
    assert found.reweighted_high is not None
    assert found.low == min(plain.low, found.reweighted_low)
    assert found.high == max(plain.high, found.reweighted_high)


def test_the_golden_mix_changes_little() -> None:
    found, plain = mixed(hate=0.10, fraud=0.10), lang_reiczigel_interval(COUNTS, Z95)
    assert found.sensitivity == pytest.approx(0.8)
    assert found.high is not None
    assert found.low is not None
    assert 1.0 <= (found.high - found.low) / (plain.high - plain.low) < 1.05


def test_several_categories_at_once_take_their_share_from_the_excess_of_the_sum() -> None:
    patterns = {"hate": (80, 100), "fraud": (80, 100), "several": (100, 100)}
    counts = Counts(flagged=500, traces=2_000, true_positives=260, positives=300, true_negatives=200, negatives=200)
    found = mixed(counts, patterns, hate=0.15, fraud=0.18)
    several = found.patterns["several"].production_share
    # T = .25 / q1 and q1 = .8 + .2 s (+ nothing: pooled and counted sensitivity agree), .33 = T (1 + s).
    assert 0.25 / (0.8 + 0.2 * several) * (1 + several) == pytest.approx(0.33)
    assert sum(pattern.production_share for pattern in found.patterns.values()) == pytest.approx(1.0)


def test_optimism_of_the_pooled_rate_is_carried_over() -> None:
    honest = Counts(flagged=500, traces=2_000, true_positives=150, positives=200, true_negatives=190, negatives=200)
    assert mixed(honest, hate=0.05, fraud=0.20).sensitivity == pytest.approx(0.71 - 0.05)


def test_clusters_in_the_golden_set_are_carried_over() -> None:
    clustered = Counts(flagged=500, traces=2_000, true_positives=80, positives=100, true_negatives=190, negatives=200)
    whole, half = mixed(hate=0.05, fraud=0.20), mixed(clustered, hate=0.05, fraud=0.20)
    assert half.n_positive == pytest.approx(whole.n_positive / 2)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("raw", "patterns", "reason"),
    [
        ({"hate": 0.1}, PATTERNS, "no corrected rate for fraud"),
        ({"hate": -0.1, "fraud": 0.0}, PATTERNS, "no mix to weight to"),
        ({"hate": 0.0, "fraud": 1e-310}, PATTERNS, "no mix to weight to"),
        ({"hate": 0.1, "fraud": 0.1, "malware": 0.1}, PATTERNS, "no golden trace violates in malware alone"),
    ],
)
def test_what_the_record_cannot_tell_is_said(
    raw: dict[str, float], patterns: dict[str, tuple[int, int]], reason: str
) -> None:
    found = mixed(COUNTS, patterns, **raw)
    assert found.status == "not_available"
    assert found.low is None
    assert reason in str(found.reason)


def test_a_mix_that_the_judge_cannot_see_is_said() -> None:
    counts = Counts(flagged=500, traces=2_000, true_positives=100, positives=200, true_negatives=160, negatives=200)
    found = mixed(counts, {"hate": (95, 100), "fraud": (5, 100)}, hate=0.0, fraud=0.2)
    assert found.status == "not_available"
    assert "does not discriminate" in str(found.reason)


@given(
    st.integers(0, 60), st.integers(0, 60), st.integers(0, 60),
    st.floats(-0.1, 0.6), st.floats(-0.1, 0.6), st.floats(0.05, 0.95),
)  # fmt: skip
def test_a_derived_interval_is_never_narrower_than_the_plain_one(
    a: int, b: int, c: int, hate: float, fraud: float, observed: float
) -> None:
    counts = Counts(
        flagged=2_000 * observed, traces=2_000, true_positives=max(a + b + c, 60), positives=180,
        true_negatives=190, negatives=200,
    )  # fmt: skip
    found = mixed(counts, {"hate": (a, 60), "fraud": (b, 60), "several": (c, 60)}, hate=hate, fraud=fraud)
    plain = lang_reiczigel_interval(counts, Z95)
    if found.status == "derived":
        assert found.low is not None
        assert found.high is not None
        assert 0 <= found.low <= plain.low <= plain.high <= found.high <= 1
        assert found.n_positive is not None
        assert 0 < found.n_positive <= 180
    else:
        assert found.reason


def test_a_rate_without_variance_is_refused() -> None:
    with pytest.raises(UndefinedError):
        CategoryRate(raw=0.1, variance=-1.0)


Labels = npt.NDArray[np.bool_]

EVEN = (0.2,) * 5
EASY, HARD = (0.30, 0.25, 0.20, 0.15, 0.10), (0.10, 0.15, 0.20, 0.25, 0.30)
SIMILAR, UNEQUAL = (0.90, 0.88, 0.85, 0.80, 0.75), (0.95, 0.90, 0.85, 0.60, 0.50)


def drawn(rng: np.random.Generator, n: int, theta: float, mix: Sequence[float]) -> Labels:
    """Labels in five categories: a tenth of the violating traces violate in two."""
    labels = np.zeros((n, len(mix)), bool)
    rows = np.flatnonzero(rng.random(n) < theta)
    first = rng.choice(len(mix), rows.size, p=mix)
    labels[rows, first] = True
    twice = rng.random(rows.size) < 0.1
    labels[rows[twice], (first[twice] + rng.integers(1, len(mix), twice.sum())) % len(mix)] = True
    return labels


def measured(
    golden: Labels, golden_flags: Labels, flags: Labels
) -> tuple[Counts, dict[str, tuple[int, int]], dict[str, CategoryRate]]:
    """What a record holds of such data."""

    def counts_of(truth: Labels, judged: Labels, production: Labels) -> Counts:
        return Counts(
            flagged=int(production.sum()), traces=production.size,
            true_positives=int((truth & judged).sum()), positives=int(truth.sum()),
            true_negatives=int((~truth & ~judged).sum()), negatives=int((~truth).sum()),
        )  # fmt: skip

    several, hit = golden.sum(axis=1) > 1, golden_flags.any(axis=1)
    members = {str(k): golden[:, k] & ~several for k in range(golden.shape[1])} | {"several": several}
    rates_of = {}
    for k in range(golden.shape[1]):
        counts = counts_of(golden[:, k], golden_flags[:, k], flags[:, k])
        variance = delta_interval(counts, Z95).variance or 0.0
        raw = (counts.observed_rate + counts.specificity - 1) / counts.youden_j
        rates_of[str(k)] = CategoryRate(raw=raw, variance=variance)
    composite = counts_of(golden.any(axis=1), hit, flags.any(axis=1))
    return composite, {name: (int((m & hit).sum()), int(m.sum())) for name, m in members.items()}, rates_of


@pytest.mark.slow
@pytest.mark.parametrize(
    ("theta", "sensitivities", "golden_mix", "production_mix", "plain_at_most", "union_at_least", "wider_at_most"),
    [
        (0.1, SIMILAR, EVEN, EVEN, 1.0, 0.93, 1.06),
        (0.3, UNEQUAL, EVEN, EVEN, 1.0, 0.93, 1.15),
        (0.3, SIMILAR, EASY, HARD, 0.96, 0.93, 1.30),
        (0.3, UNEQUAL, EASY, HARD, 0.75, 0.91, 1.70),
        (0.3, UNEQUAL, HARD, EASY, 0.80, 0.93, 1.40),
    ],
)
def test_the_union_covers_what_the_plain_interval_loses_to_another_mix(
    theta: float,
    sensitivities: tuple[float, ...],
    golden_mix: tuple[float, ...],
    production_mix: tuple[float, ...],
    plain_at_most: float,
    union_at_least: float,
    wider_at_most: float,
) -> None:
    replications, rng, judged = 800, np.random.default_rng(20_261_129), np.array(sensitivities)
    plain_covers = union_covers = plain_width = union_width = 0.0
    for _ in range(replications):
        golden = np.concatenate([drawn(rng, 200, 1.0, golden_mix), drawn(rng, 200, 0.0, golden_mix)])
        production = drawn(rng, 2_000, theta, production_mix)
        golden_flags, flags = (rng.random(y.shape) < np.where(y, judged, 0.02) for y in (golden, production))
        counts, patterns, category_rates = measured(golden, golden_flags, flags)
        plain = lang_reiczigel_interval(counts, Z95)
        found = mix_robust_interval(counts, patterns=patterns, category_rates=category_rates)
        low, high = (plain.low, plain.high) if found.low is None or found.high is None else (found.low, found.high)
        plain_covers += plain.low <= theta <= plain.high
        union_covers += low <= theta <= high
        plain_width += plain.high - plain.low
        union_width += high - low
    assert plain_covers / replications <= plain_at_most
    assert union_covers / replications >= union_at_least
    assert 1.0 <= union_width / plain_width <= wider_at_most
