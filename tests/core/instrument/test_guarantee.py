"""The promise itself: over the whole chain, from fitted thresholds to the interval, known truth is covered.

Three categories whose errors go together, conversations of 1-4 turns, a golden set that is enriched and has other
turn counts than production, thresholds fitted on it. Only the truth is known here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from core.data.golden import GoldenSet
from core.inference.clusters import cluster_sums
from core.inference.intervals import normal_quantile
from core.inference.prevalence import Counts, lang_reiczigel_interval
from core.instrument.calibrated import Calibration
from core.instrument.calibration import calibrate
from core.instrument.golden_table import GoldenScores
from core.instrument.measured import Measurement
from core.instrument.measurement import measure
from core.instrument.spec import InstrumentSpec, JudgeIdentity, MeasurementSpec, OptimismSpec
from core.instrument.tally import UnitCounts
from tests.core.instrument.releases import few_melded_draws

__all__ = ["few_melded_draws"]
pytestmark = pytest.mark.usefixtures("few_melded_draws")

CATEGORIES = ("harm-a", "harm-b", "harm-c")
SHORT, LONG = (0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)  # shares of 1-4 turns
Z95 = normal_quantile(0.95)


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One setting of the simulation; sizes of clusters above 1 make the traces of a cluster err together."""

    prevalence: float
    n_golden: int
    n_units: int
    golden_turns: tuple[float, ...] = SHORT
    turns: tuple[float, ...] = LONG
    separation: float = 4.0
    golden_cluster: int = 1
    cluster: int = 1


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Truth and maxima over turns."""

    truth: np.ndarray
    maxima: np.ndarray
    n_turns: np.ndarray
    clusters: np.ndarray


def drawn(
    rng: np.random.Generator, n: int, positive_share: float, shares: tuple[float, ...], size: int, separation: float
) -> Traces:
    """Draw traces; a violating turn stands out by `separation` from noise of standard deviation 1."""
    clusters = np.arange(n) // size
    # Traces of a cluster violate, or not, together: as a template does, and a replicated attack.
    positive = (rng.random(clusters.max() + 1) < positive_share)[clusters]
    first = rng.integers(0, 3, n)
    truth = np.zeros((n, 3), bool)
    truth[np.arange(n), first] = positive
    truth |= positive[:, None] & (rng.random((n, 3)) < 0.12)
    n_turns = rng.choice(np.arange(1, 5), n, p=shares)
    shared = np.sqrt(0.3) * rng.normal(size=(clusters.max() + 1, 1, 1))[clusters] if size > 1 else 0.0
    own = np.sqrt(0.3 if size == 1 else 0.0) * rng.normal(size=(n, 1, 1))
    noise = shared + own + np.sqrt(0.7) * rng.normal(size=(n, 4, 3))
    at = np.floor(rng.random((n, 3)) * n_turns[:, None]).astype(int)
    noise[np.arange(n)[:, None], at, np.arange(3)] += separation * truth
    noise[np.arange(4)[None, :] >= n_turns[:, None]] = -np.inf
    return Traces(truth=truth, maxima=1 / (1 + np.exp(-noise.max(axis=1))), n_turns=n_turns, clusters=clusters)


def calibrated(golden: Traces, clustered: bool, seed: int) -> Calibration:
    """Calibrate with a few resamples; their number adds noise to the optimism, not bias."""
    n = len(golden.n_turns)
    ids = tuple(f"{i:06d}" for i in range(n))
    names = tuple(f"k{k}" for k in golden.clusters) if clustered else None
    labels = GoldenSet(
        trace_ids=ids, categories=CATEGORIES, labels=golden.truth.astype(np.int64), clusters=names, slices={},
        n_rows=n, n_duplicates=0,
    )  # fmt: skip
    scores = GoldenScores(trace_ids=ids, n_turns=golden.n_turns, maxima=golden.maxima, missing=np.zeros((n, 3), bool))
    return calibrate(labels, scores, InstrumentSpec(optimism=OptimismSpec(resamples=100), seed=seed))[0]


def counted(units: Traces, calibration: Calibration) -> UnitCounts:
    """Count production's composite decisions."""
    thresholds = np.array([calibration.categories[name].threshold for name in calibration.composite.categories])
    columns = [CATEGORIES.index(name) for name in calibration.composite.categories]
    hits = units.maxima[:, columns] >= thresholds
    flags = hits @ (1 << np.arange(len(columns)))
    bins = np.searchsorted([1, 2, 3, 4, 8], units.n_turns)
    rows, n = np.unique(np.stack([flags, 0 * flags, bins], axis=1), axis=0, return_counts=True)
    outcomes = [hits.any(axis=1), *hits.T]
    return UnitCounts(
        n_categories=len(columns), n_traces=len(flags), n_turns=int(units.n_turns.sum()), n_duplicates=0, n_gaps=0,
        histogram=tuple((*map(int, row), int(k)) for row, k in zip(rows, n, strict=True)),
        accounting={"attempted": len(flags), "scored": len(flags)},
        clusters=tuple(cluster_sums(units.clusters, outcome) for outcome in outcomes),
        clustered=len(np.unique(units.clusters)) < len(flags),
    )  # fmt: skip


def replication(cell: Cell, rng: np.random.Generator, seed: int) -> tuple[Calibration, Measurement]:
    golden = drawn(rng, cell.n_golden, 0.4, cell.golden_turns, cell.golden_cluster, cell.separation)
    calibration = calibrated(golden, cell.golden_cluster > 1, seed)
    units = drawn(rng, cell.n_units, cell.prevalence, cell.turns, cell.cluster, cell.separation)
    spec = MeasurementSpec(instrument="simulated", seed=seed)
    measured = measure(
        counted(units, calibration), calibration, spec,
        calibration_id="", judge=JudgeIdentity(), judge_source="assumed",
    )  # fmt: skip
    return calibration, measured


def unweighted(calibration: Calibration, measured: Measurement) -> tuple[float, float]:
    """Return the interval that ignores the number of turns."""
    judged, effective = calibration.composite, measured.composite.prevalence.effective
    counts = Counts(
        flagged=effective.n_flagged, traces=effective.n_units,
        true_positives=judged.sensitivity * judged.effective.n_positive, positives=judged.effective.n_positive,
        true_negatives=judged.specificity * judged.effective.n_negative, negatives=judged.effective.n_negative,
    )  # fmt: skip
    interval = lang_reiczigel_interval(counts, Z95)
    return interval.low_unclipped, interval.high_unclipped


def coverage(cell: Cell, replications: int) -> tuple[float, float, float]:
    """Share of replications whose interval holds the truth, the same unweighted, and the mean J.

    A replication without an interval, for whatever reason, holds nothing.
    """
    rng = np.random.default_rng(20261129)
    covered = plain = youden_j = 0.0
    for seed in range(replications):
        calibration, measured = replication(cell, rng, seed)
        rate = measured.composite.prevalence
        youden_j += rate.effective.youden_j / replications
        covered += rate.interval is not None and rate.interval.low <= cell.prevalence <= rate.interval.high
        low, high = unweighted(calibration, measured)
        plain += low <= cell.prevalence <= high
    return covered / replications, plain / replications, youden_j


CELLS = {
    "few golden traces, rare": Cell(prevalence=0.05, n_golden=200, n_units=1000),
    "few golden traces, common": Cell(prevalence=0.3, n_golden=200, n_units=400),
    "more golden traces": Cell(prevalence=0.1, n_golden=600, n_units=2000),
    "a weaker judge": Cell(prevalence=0.1, n_golden=400, n_units=1000, separation=2.7),
    "equal turn counts": Cell(prevalence=0.1, n_golden=300, n_units=1000, golden_turns=LONG),
    "clusters": Cell(prevalence=0.2, n_golden=480, n_units=1000, golden_cluster=8, cluster=5),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CELLS)
def test_the_interval_of_the_composite_covers_the_true_rate(name: str) -> None:
    covered, plain, youden_j = coverage(CELLS[name], 600)  # Monte-Carlo error .009
    print(f"{name}: coverage {covered:.3f}, unweighted {plain:.3f}, J {youden_j:.2f}")
    assert youden_j >= 0.45
    assert covered >= 0.92
    if name in ("few golden traces, rare", "more golden traces", "a weaker judge"):
        assert plain < 0.86
    if name == "equal turn counts":
        assert plain == pytest.approx(covered, abs=0.02)


@pytest.mark.slow
def test_coverage_loses_a_little_where_production_lies_and_the_golden_set_is_thin() -> None:
    """Most of production has four turns, a twelfth of the golden set: the optimism is larger there than pooled."""
    thin = Cell(
        prevalence=0.1, n_golden=600, n_units=2000,
        golden_turns=(0.55, 0.25, 0.12, 0.08), turns=(0.08, 0.12, 0.25, 0.55),
    )  # fmt: skip
    covered, plain, _ = coverage(thin, 600)
    print(f"coverage {covered:.3f}, unweighted {plain:.3f}")
    assert covered >= 0.90
    assert plain < 0.40


def test_weighting_to_turn_counts_covers_where_the_pooled_rates_do_not() -> None:
    covered, plain, _ = coverage(CELLS["a weaker judge"], 60)
    assert covered >= 0.88
    assert plain <= 0.6
