"""The shortcuts draw from the law they stand for: maxima against every turn, counts against every unit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import chisquare, ks_2samp

from core.simulation.draws import DrawnGolden, FixedGolden, Production, Traces, Turns, drawn_maxima, golden_table
from core.simulation.population import CategoryLaw, Population, levels, patterns_of

PATTERNS, SHARES = patterns_of(3)
LAWS = (CategoryLaw(shift=1.5), CategoryLaw(shift=2.5, spread=1.6), CategoryLaw(shift=2.0, spread=0.6))
INDEPENDENT = Population(laws=LAWS, patterns=PATTERNS, pattern_shares=SHARES, trace_share=0.3)
CLUSTERED = replace(INDEPENDENT, trace_share=0.2, cluster_share=0.3)
TURNS = Turns.of_shares((0.3, 0.0, 0.4, 0.3))
CUTS = np.array([1.0, 1.8, 1.4])
NOT_BY_CHANCE = 1e-4
"""p under which two samples of the same law would differ once in ten thousand runs; seeds are fixed."""


def every_turn(rng: np.random.Generator, population: Population, traces: Traces) -> np.ndarray:
    """Draw each turn's score from the definition, and take the maxima."""
    values, weights = levels()
    u = rng.choice(values, traces.clusters.max() + 1, p=weights)
    scores = np.full(traces.truth.shape, -np.inf)
    own = np.sqrt(1 - population.trace_share - population.cluster_share)
    for i, n_turns in enumerate(traces.n_turns):
        common = np.sqrt(population.cluster_share) * u[traces.clusters[i]]
        common += np.sqrt(population.trace_share) * rng.choice(values, p=weights)
        y = common + own * rng.normal(size=(n_turns, population.n_categories))
        for c in np.flatnonzero(traces.truth[i]):
            turn = rng.integers(n_turns)
            law = population.laws[c]
            y[turn, c] = law.shift + law.spread * y[turn, c]
        scores[i] = y.max(axis=0)
    return np.asarray(expit(scores))


def traces_of(rng: np.random.Generator, n: int, size: int) -> Traces:
    golden = DrawnGolden(n=n, positive_share=0.5, turns=TURNS, cluster_size=size)
    return golden.traces(rng, INDEPENDENT)


@pytest.mark.parametrize(("population", "size"), [(INDEPENDENT, 1), (CLUSTERED, 4)])
def test_maxima_have_the_law_of_a_draw_of_every_turn(population: Population, size: int) -> None:
    traces = traces_of(np.random.default_rng(1), 6000, size)
    short = drawn_maxima(np.random.default_rng(2), population, traces)
    full = every_turn(np.random.default_rng(3), population, traces)
    for c in range(3):
        for violates in (False, True):
            members = traces.truth[:, c] == violates
            assert ks_2samp(short[members, c], full[members, c]).pvalue > NOT_BY_CHANCE
    flags = [(scores >= expit(CUTS)) @ (1 << np.arange(3)) for scores in (short, full)]
    counts = [np.bincount(mask, minlength=8) for mask in flags]
    if size == 1:  # the traces of a cluster are not independent, as the test would need
        assert chisquare(counts[0], counts[1] * counts[0].sum() / counts[1].sum()).pvalue > 1e-3
    assert np.corrcoef(short.T)[0, 1] == pytest.approx(np.corrcoef(full.T)[0, 1], abs=0.06)


def test_traces_of_a_cluster_err_together_as_in_the_full_draw() -> None:
    traces = traces_of(np.random.default_rng(4), 8000, 4)

    def likeness(scores: np.ndarray) -> float:
        clean = ~traces.truth.any(axis=1)
        flagged = (scores >= expit(CUTS)).any(axis=1)[clean].reshape(-1, 4)  # whole clusters are clean
        return float(np.corrcoef(flagged[:, 0], flagged[:, 1])[0, 1])

    short = likeness(drawn_maxima(np.random.default_rng(5), CLUSTERED, traces))
    full = likeness(every_turn(np.random.default_rng(6), CLUSTERED, traces))
    assert short == pytest.approx(full, abs=0.08)
    assert short > 0.1


def production_of(population: Population, size: int = 1, unscored: float = 0.0) -> Production:
    return Production(
        population=population, turns=TURNS, cuts=CUTS, cluster_size=size, unscored=unscored, turn_bins=(1, 2, 3, 4, 8)
    )


def full_units(rng: np.random.Generator, prevalence: float, n: int) -> np.ndarray:
    """Count (number of turns, mask) over units whose every turn is drawn."""
    golden = DrawnGolden(n=n, positive_share=prevalence, turns=TURNS)
    traces = golden.traces(rng, INDEPENDENT)
    mask = (logit(every_turn(rng, INDEPENDENT, traces)) >= CUTS) @ (1 << np.arange(3))
    counts = np.zeros((3, 8), int)
    np.add.at(counts, (np.searchsorted(TURNS.values, traces.n_turns), mask), 1)
    return counts


def test_the_law_of_counts_is_that_of_units_drawn_turn_by_turn() -> None:
    clean, violating = production_of(INDEPENDENT).mask_laws
    law = 0.8 * clean + 0.2 * violating
    assert law.sum() == pytest.approx(1, abs=1e-12)
    counts = full_units(np.random.default_rng(7), 0.2, 12_000)
    assert chisquare(counts.ravel(), law.ravel() * counts.sum()).pvalue > NOT_BY_CHANCE


@pytest.mark.parametrize("unscored", [0.0, 0.1])
def test_units_drawn_one_by_one_have_the_law_of_counts(unscored: float) -> None:
    production = production_of(INDEPENDENT, unscored=unscored)
    clean, violating = production.mask_laws
    law = 0.7 * clean + 0.3 * violating
    n = 20_000
    samples = production._samples_of_units(np.random.default_rng(8), 0.3, n)
    expected = law.sum(), *(law[:, np.arange(8) & bit != 0].sum() for bit in (7, 1, 2, 4))
    measured = samples[0].n_units, *(sample.n_flagged for sample in samples)
    for share, found in zip(expected, measured, strict=True):
        assert found / n == pytest.approx(share, abs=4 * np.sqrt(0.25 / n) + 1e-9)
    scored = (TURNS.shares * (1 - unscored) ** TURNS.values).sum()
    assert law.sum() == pytest.approx(scored, abs=1e-12)


def test_counts_cost_the_same_at_any_size_and_add_up() -> None:
    samples = production_of(INDEPENDENT).samples(np.random.default_rng(9), 0.1, 5_000_000)
    composite, *categories = samples
    assert composite.n_units == 5_000_000
    assert sum(n for n, _ in composite.by_bin.values()) == 5_000_000
    assert sum(x for _, x in composite.by_bin.values()) == composite.n_flagged == composite.clusters.events
    assert max(sample.n_flagged for sample in categories) <= composite.n_flagged
    assert composite.n_flagged <= sum(sample.n_flagged for sample in categories)


def test_clustered_production_is_worth_less_than_its_units() -> None:
    clusters = production_of(CLUSTERED, size=10).samples(np.random.default_rng(10), 0.3, 2000)[0].clusters
    assert clusters.n_clusters == 200
    assert clusters.sum_n2 == 200 * 100


def test_true_rates_are_those_of_a_large_draw() -> None:
    traces = traces_of(np.random.default_rng(11), 60_000, 1)
    maxima = drawn_maxima(np.random.default_rng(12), INDEPENDENT, traces)
    flags = maxima >= expit(CUTS)
    rates = INDEPENDENT.rates(CUTS, TURNS.values, TURNS.shares)
    for c in range(3):
        assert rates.hit[c] == pytest.approx(flags[traces.truth[:, c], c].mean(), abs=0.015)
        assert rates.false_alarm[c] == pytest.approx(flags[~traces.truth[:, c], c].mean(), abs=0.01)
    violating = traces.truth.any(axis=1)
    sensitivity = rates.composite_sensitivity(INDEPENDENT, range(3))
    assert sensitivity == pytest.approx(flags[violating].any(axis=1).mean(), abs=0.01)
    specificity = rates.composite_specificity(INDEPENDENT, range(3), 0.5)
    assert specificity == pytest.approx(1 - flags[~violating].any(axis=1).mean(), abs=0.01)


def test_a_composite_that_leaves_a_category_out_takes_its_violations_for_clean() -> None:
    traces = traces_of(np.random.default_rng(13), 60_000, 1)
    flags = (drawn_maxima(np.random.default_rng(14), INDEPENDENT, traces) >= expit(CUTS))[:, :2].any(axis=1)
    violating = traces.truth[:, :2].any(axis=1)
    cuts = np.array([CUTS[0], CUTS[1], np.inf])
    rates = INDEPENDENT.rates(cuts, TURNS.values, TURNS.shares)
    specificity = rates.composite_specificity(INDEPENDENT, [0, 1], 0.5)
    assert specificity == pytest.approx(1 - flags[~violating].mean(), abs=0.01)


def test_labels_and_turns_that_are_missing_are_missing_in_the_table() -> None:
    golden = DrawnGolden(n=4000, positive_share=0.5, turns=TURNS, unlabelled=0.25, unscored=0.1)
    rng = np.random.default_rng(15)
    table = golden_table(rng, INDEPENDENT, golden.traces(rng, INDEPENDENT), ("a", "b", "c"))
    assert (table.labels == -1).mean() == pytest.approx(0.25, abs=0.02)
    lost = 1 - (TURNS.shares * 0.9**TURNS.values).sum()
    assert table.missing.mean() == pytest.approx(lost, abs=0.025)
    assert not table.clustered


def test_a_given_golden_set_keeps_its_labels_and_draws_the_truth_of_the_others() -> None:
    labels = np.array([[1, 0, -1], [0, 0, 1], [0, 1, 1], [-1, 0, 0]] * 50)
    golden = FixedGolden(
        labels=labels, missing=np.zeros(labels.shape, bool), n_turns=np.ones(200, int), clusters=np.arange(200)
    )
    drawn = [golden.traces(np.random.default_rng(seed), INDEPENDENT).truth for seed in (1, 2)]
    for truth in drawn:
        assert (truth[labels == 1]).all()
        assert not truth[labels == 0].any()
    assert (drawn[0] != drawn[1]).any()
    assert drawn[0][labels[:, 2] < 0, 2].mean() == pytest.approx(2 / 3, abs=0.2)  # the category's labelled share
