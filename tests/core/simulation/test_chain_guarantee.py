"""The promise of the whole chain (SPEC 14.3), replicated until Monte-Carlo error is small: `make slow`."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import beta

from core.errors import InputError
from core.inference.clusters import ClusterSums
from core.instrument.calibrated import Calibration
from core.instrument.calibration import calibrated_judge
from core.instrument.correction import prevalence_of
from core.instrument.golden_table import GoldenTable
from core.instrument.measurement import measurement_spec
from core.instrument.production import Sample
from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec
from core.simulation.chain import ChainStage, QuantityTally
from core.simulation.simulated import ChainCell, Simulation
from tests.simulation.tables import CHAIN

pytestmark = pytest.mark.slow

GRID = replace(CHAIN, n_golden=(200, 600))
"""The grid of core/SIMULATIONS.md without its largest golden sets, which take more than half of its time."""


@pytest.fixture(scope="module")
def workers() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("forkserver")) as pool:
        yield pool


@pytest.fixture(scope="module")
def grid(workers: ProcessPoolExecutor) -> Simulation:
    stage = ChainStage.of(GRID)
    return stage.result(list(workers.map(stage.run, stage.chunks())))


def cells_of(found: Simulation, wanted: Callable[[ChainCell], bool]) -> Iterator[ChainCell]:
    for cell in found.cells:
        assert isinstance(cell, ChainCell)
        if wanted(cell):
            yield cell


def coverages(found: Simulation, wanted: Callable[[ChainCell], bool]) -> list[float]:
    return [row.composite.interval.coverage for cell in cells_of(found, wanted) for row in cell.production]


def test_from_j_45_on_the_grid_covers_on_average_and_in_every_cell(grid: Simulation) -> None:
    found = coverages(grid, lambda cell: cell.youden_j > 0.4)
    print(f"J >= .45: {len(found)} cells, mean {np.mean(found):.4f}, lowest {min(found):.4f}")
    assert len(found) == 96
    assert np.mean(found) >= 0.945
    assert min(found) >= 0.92


def test_a_judge_of_j_25_still_covers_in_every_cell(grid: Simulation) -> None:
    found = coverages(grid, lambda cell: cell.youden_j < 0.4)
    print(f"J = .25: {len(found)} cells, mean {np.mean(found):.4f}, lowest {min(found):.4f}")
    assert len(found) == 48
    assert min(found) >= 0.89


def test_the_upper_end_is_rarely_too_low(grid: Simulation) -> None:
    """What a gate reads."""
    found = [
        row.composite.interval.high_below
        for cell in cells_of(grid, lambda cell: cell.youden_j > 0.4)
        for row in cell.production
    ]
    print(f"upper end too low: at most {max(found):.4f}")
    assert max(found) <= 0.04


def test_categories_cover_where_their_violations_suffice_for_a_rate(grid: Simulation) -> None:
    """Each has a fifth of the violations; templates of eight leave a few of 200 traces, and then no rate."""
    found = [
        each.interval.coverage
        for cell in cells_of(grid, lambda cell: cell.youden_j > 0.4)
        if cell.golden_cluster_size == 1 or cell.n_golden >= 600
        for row in cell.production
        for each in row.categories.values()
    ]
    print(f"categories: {len(found)} cells, mean {np.mean(found):.4f}, lowest {min(found):.4f}")
    assert np.mean(found) >= 0.94
    assert min(found) >= 0.89


def test_few_templates_give_a_category_no_rate(grid: Simulation) -> None:
    few = [cell for cell in cells_of(grid, lambda cell: cell.golden_cluster_size > 1) if cell.n_golden == 200]
    for cell in few:
        for row in cell.production:
            for each in row.categories.values():
                assert each.statuses.get("insufficient_data", 0.0) > 0.5


def test_the_bootstrap_takes_most_of_the_optimism_off_where_there_are_more_than_a_few_templates(
    grid: Simulation,
) -> None:
    for cell in cells_of(grid, lambda cell: cell.youden_j > 0.4):
        assert cell.optimism is not None
        apparent, honest = (j - cell.optimism.true_j for j in (cell.optimism.apparent_j, cell.optimism.honest_j))
        few_templates = cell.golden_cluster_size > 1 and cell.n_golden == 200
        assert 0.0 < honest < (0.65 if few_templates else 0.45) * apparent
        assert few_templates or honest < 0.03


@dataclass(frozen=True)
class BetaJudge:
    """A judge of single texts with Beta scores, as STATISTICS.md section 4 has them."""

    positive: tuple[float, float]
    negative: tuple[float, float]

    def rates(self, threshold: float) -> tuple[float, float]:
        """True share of flagged positives and negatives."""
        return float(beta.sf(threshold, *self.positive)), float(beta.sf(threshold, *self.negative))


STRONG, MEDIUM = BetaJudge((5, 2), (2, 5)), BetaJudge((3, 2), (2, 3))
WEAK, CHANCE = BetaJudge((2.2, 2), (2, 2.2)), BetaJudge((2, 2), (2, 2))
INSTRUMENT = InstrumentSpec(name="one", optimism=OptimismSpec(resamples=200))


def calibrated(judge: BetaJudge, a_class: int, rng: np.random.Generator) -> Calibration | None:
    """Fit one category on as many traces a class; None where nothing can be fitted."""
    labels = np.repeat([1, 0], a_class)
    scores = np.concatenate([rng.beta(*judge.positive, a_class), rng.beta(*judge.negative, a_class)])
    n = 2 * a_class
    table = GoldenTable(
        trace_ids=(), categories=("harm",), labels=labels[:, None], maxima=scores[:, None],
        missing=np.zeros((n, 1), bool), n_turns=np.ones(n, np.int64), cluster_names=None, clusters=np.arange(n),
        clustered=False, slices={}, n_unmatched=0,
    )  # fmt: skip
    try:
        categories, composite = calibrated_judge(table, INSTRUMENT)
    except InputError:
        return None
    return Calibration(
        instrument="one", judge=JudgeIdentity(), judge_source="simulated", calibration_source="simulated",
        confidence_level=0.95, detection_floor=0.2, interval="lang_reiczigel", turn_bins=INSTRUMENT.turn_bins, seed=1,
        golden=None, categories=categories, composite=composite, slices={},
    )  # fmt: skip


def measured(judge: BetaJudge, calibration: Calibration, theta: float, n: int, rng: np.random.Generator) -> Sample:
    threshold = calibration.categories["harm"].threshold
    assert threshold is not None
    sensitivity, false_alarms = judge.rates(threshold)
    x = int(rng.binomial(n, theta * sensitivity + (1 - theta) * false_alarms))
    return Sample(
        n_units=n, n_flagged=x, n_attempted=n, n_any_flag=x, n_flag_or_undecided=x, by_bin={0: (n, x)},
        clusters=ClusterSums.of_independent(n, x),
    )  # fmt: skip


def one_category(task: tuple[BetaJudge, int, float, int]) -> tuple[QuantityTally, Counter[str]]:
    """Replicate calibration and measurement of one category (runs in a worker)."""
    judge, a_class, theta, replications = task
    rng = np.random.default_rng([20261130, a_class, int(1000 * theta), int(10 * judge.positive[0])])
    tally, statuses = QuantityTally(), Counter[str]()
    for _ in range(replications):
        calibration = calibrated(judge, a_class, rng)
        statuses[calibration.categories["harm"].status if calibration else "not_calibrated"] += 1
        if calibration is None or calibration.categories["harm"].threshold is None:
            continue
        spec = measurement_spec(calibration)
        sample = measured(judge, calibration, theta, 1000, rng)
        judged = calibration.categories["harm"]
        tally.add(prevalence_of(sample, judged, calibration, spec, False, 0, melded_draws=None), theta, spec)
    return tally, statuses


def test_one_fitted_category_covers_at_every_golden_size(workers: ProcessPoolExecutor) -> None:
    sizes = (50, 100, 200, 500, 1000)
    tasks = [(judge, n, theta, 2000) for judge in (STRONG, MEDIUM) for n in sizes for theta in (0.05, 0.2)]
    for task, (tally, _) in zip(tasks, workers.map(one_category, tasks), strict=True):
        found = tally.record()
        name = "strong" if task[0] == STRONG else "medium"
        print(f"{name}, {task[1]} a class, rate {task[2]}: {found.interval.coverage:.4f}, bias {found.bias:+.4f}")
        assert tally.interval.n == task[-1]  # none is left out of the coverage
        assert 0.925 <= found.interval.coverage <= 0.975
        assert found.interval.high_below <= 0.04


@pytest.mark.parametrize(("judge", "most"), [(CHANCE, 0.01), (WEAK, 0.02)])
def test_a_judge_at_chance_is_hardly_ever_called_measured(
    workers: ProcessPoolExecutor, judge: BetaJudge, most: float
) -> None:
    _, statuses = one_category((judge, 50, 0.05, 3000))
    print({status: count / 3000 for status, count in statuses.items()})
    assert statuses["measured"] / 3000 < most
