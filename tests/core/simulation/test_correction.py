"""Stage 2: the corrected rate under a judge whose error rates are known."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import pytest

from core.errors import UndefinedError
from core.inference.clusters import cluster_sums
from core.inference.prevalence import Counts, corrected_prevalence, delta_interval, lang_reiczigel_interval
from core.simulation import correction
from core.simulation.correction import CorrectionStage, golden_sums
from core.simulation.simulated import CorrectionCell, Simulation
from core.simulation.spec import CorrectionSpec, GoldenSize, JudgeRates

Z95 = 1.959963984540054
GOOD = JudgeRates(sensitivity=0.9, specificity=0.95)
POOR = JudgeRates(sensitivity=0.6, specificity=0.7)
FIFTY = GoldenSize(n_positive=50, n_negative=50)
TEMPLATES = GoldenSize(n_positive=100, n_negative=60, cluster_size=8, error_correlation=0.3)
METHODS = {"lang_reiczigel", "delta", "melded", "bootstrap"}


def spec_of(**spec: Any) -> CorrectionSpec:
    one_cell: dict[str, Any] = {
        "judges": (GOOD,), "golden": (FIFTY,), "prevalences": (0.1,), "n_units": (400,), "replications": 600,
        "draws": 100,
    }  # fmt: skip
    return CorrectionSpec(**(one_cell | spec))


def simulated(**spec: Any) -> Simulation:
    stage = CorrectionStage(spec_of(**spec))
    return stage.result([stage.run(chunk) for chunk in stage.chunks()])


def cell_of(**spec: Any) -> CorrectionCell:
    (cell,) = simulated(**spec).cells
    assert isinstance(cell, CorrectionCell)
    return cell


# ---- the division of work


@pytest.mark.parametrize("golden", [FIFTY, TEMPLATES])
def test_the_result_does_not_depend_on_the_order_or_place_in_which_chunks_are_run(golden: GoldenSize) -> None:
    stage = CorrectionStage(spec_of(golden=(golden,), prevalences=(0.02, 0.3), replications=600))
    chunks = list(enumerate(stage.chunks()))
    assert [chunk.replications for _, chunk in chunks] == [500, 100] * 2
    in_order = [stage.run(chunk) for _, chunk in chunks]
    random.Random(3).shuffle(chunks)
    away = pickle.loads(pickle.dumps(stage))
    outcomes = {i: pickle.loads(pickle.dumps(away.run(chunk))) for i, chunk in chunks}
    assert stage.result([outcomes[i] for i in sorted(outcomes)]) == stage.result(in_order)


def test_putting_outcomes_together_leaves_them_as_they_are() -> None:
    stage = CorrectionStage(spec_of())
    outcomes = [stage.run(chunk) for chunk in stage.chunks()]
    assert stage.result(outcomes) == stage.result(outcomes)


def test_another_seed_gives_other_draws() -> None:
    assert cell_of(seed=1) != cell_of(seed=2)


def test_a_cell_is_drawn_alike_whatever_stands_after_it_in_the_grid() -> None:
    assert simulated(prevalences=(0.1, 0.3)).cells[0] == cell_of()


# ---- what is counted


@pytest.mark.parametrize(
    ("judge", "golden", "prevalence"),
    [(GOOD, FIFTY, 0.02), (POOR, GoldenSize(n_positive=20, n_negative=30), 0.3)],
)
def test_each_replication_is_what_the_instrument_says_of_its_counts(
    judge: JudgeRates, golden: GoldenSize, prevalence: float
) -> None:
    spec = spec_of(judges=(judge,), golden=(golden,), prevalences=(prevalence,), replications=200)
    (cell,) = simulated(judges=(judge,), golden=(golden,), prevalences=(prevalence,), replications=200).cells
    assert isinstance(cell, CorrectionCell)
    rng = np.random.default_rng([spec.seed, 2, 0, 0])
    flag_rate = prevalence * judge.sensitivity + (1 - prevalence) * (1 - judge.specificity)
    drawn = zip(
        rng.binomial(400, flag_rate, 200).tolist(),
        rng.binomial(golden.n_positive, judge.sensitivity, 200).tolist(),
        rng.binomial(golden.n_negative, judge.specificity, 200).tolist(),
        strict=True,
    )
    statuses, raws, held, degenerate = [], [], {"lang_reiczigel": 0, "delta": 0}, 0
    for x, a, b in drawn:
        found = corrected_prevalence(
            n_flagged=x, n_traces=400, true_positives=a, n_positive=golden.n_positive,
            true_negatives=b, n_negative=golden.n_negative,
        )  # fmt: skip
        statuses.append(found.status)
        if found.raw is None:
            continue
        raws.append(found.raw)
        counts = Counts(
            flagged=x, traces=400, true_positives=a, positives=golden.n_positive,
            true_negatives=b, negatives=golden.n_negative,
        )  # fmt: skip
        delta = delta_interval(counts, Z95)
        held["delta"] += delta.compatible and delta.low <= prevalence <= delta.high
        degenerate += delta.degenerate and delta.compatible
        try:
            default = lang_reiczigel_interval(counts, Z95)
        except UndefinedError:
            continue
        held["lang_reiczigel"] += default.compatible and default.low <= prevalence <= default.high
    assert cell.statuses == {status: statuses.count(status) / 200 for status in sorted(set(statuses))}
    assert cell.bias == pytest.approx(sum(raws) / len(raws) - prevalence)
    assert cell.outside == sum(not 0 <= raw <= 1 for raw in raws) / 200
    assert {name: cell.methods[name].coverage for name in held} == {name: n / 200 for name, n in held.items()}
    assert cell.methods["delta"].zero_width == degenerate / 200


def test_every_method_covers_and_the_conservative_one_is_wider_in_an_easy_cell() -> None:
    cell = cell_of(golden=(GoldenSize(n_positive=200, n_negative=200),), replications=1000, draws=300)
    assert set(cell.methods) == METHODS
    for method in cell.methods.values():
        assert 0.92 < method.coverage < 0.985
        assert method.coverage + method.low_above + method.high_below == pytest.approx(1.0)
        assert method.mc_error == pytest.approx(0.007, abs=0.002)
    widths = {name: method.mean_width for name, method in cell.methods.items()}
    assert widths["melded"] > widths["lang_reiczigel"] > 0.08  # type: ignore[operator]
    assert abs(cell.bias) < 0.003  # type: ignore[arg-type]
    assert cell.statuses == {"measured": 1.0}


def test_a_perfect_judge_leaves_the_papers_interval_without_width_when_nothing_is_flagged() -> None:
    cell = cell_of(
        judges=(JudgeRates(sensitivity=1.0, specificity=1.0),), prevalences=(0.01,), n_units=(100,), replications=2000
    )
    nothing_flagged = 0.99**100
    assert cell.methods["delta"].zero_width == pytest.approx(nothing_flagged, abs=0.04)
    assert cell.methods["delta"].coverage < 1 - nothing_flagged + 0.04
    assert cell.methods["lang_reiczigel"].zero_width == 0.0
    assert cell.methods["lang_reiczigel"].coverage > 0.95
    assert cell.outside == 0.0


def test_the_status_does_not_decide_whether_an_interval_is_made() -> None:
    lenient, strict = cell_of(), cell_of(detection_floor=0.9)
    assert lenient.statuses == {"measured": 1.0}
    assert strict.statuses["below_detection_floor"] > 0.3
    assert strict.methods == lenient.methods


def test_a_judge_that_ranks_the_wrong_way_has_no_interval_which_holds_nothing() -> None:
    cell = cell_of(judges=(JudgeRates(sensitivity=0.1, specificity=0.1),), replications=50)
    assert cell.statuses == {"below_detection_floor": 1.0}
    assert (cell.bias, cell.outside) == (None, 0.0)
    for method in cell.methods.values():
        assert (method.coverage, method.mean_width, method.zero_width) == (0.0, None, 0.0)


def test_chance_has_an_interval_only_where_the_golden_set_makes_it_look_better() -> None:
    cell = cell_of(judges=(JudgeRates(sensitivity=0.5, specificity=0.5),))
    assert cell.statuses["below_detection_floor"] > 0.9
    assert 0.3 < cell.methods["lang_reiczigel"].coverage < 0.6  # J > 0 in nearly half of the golden sets


def test_a_block_of_draws_at_a_time_gives_the_same_law(monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = cell_of(replications=500)
    monkeypatch.setattr(correction, "BLOCK", 100)  # one replication at a time
    one_by_one = cell_of(replications=500)
    assert one_by_one.methods["delta"] == at_once.methods["delta"]  # drawn before
    for name in ("melded", "bootstrap"):
        assert one_by_one.methods[name].coverage == pytest.approx(at_once.methods[name].coverage, abs=0.03)
        assert one_by_one.methods[name].mean_width == pytest.approx(at_once.methods[name].mean_width, rel=0.03)


# ---- clusters


class Given:
    """Stands for a generator whose binomial counts are known."""

    def __init__(self, events: np.ndarray) -> None:
        self.events = events

    def beta(self, a: float, b: float, size: tuple[int, int]) -> np.ndarray:
        assert size == self.events.shape
        return np.full(size, a / (a + b))

    def binomial(self, sizes: np.ndarray, rates: np.ndarray, size: tuple[int, int]) -> np.ndarray:
        assert size == self.events.shape
        assert sizes.tolist() == [8] * 7 + [4]
        assert rates == pytest.approx(np.full(size, 0.8))
        return self.events


def test_sums_over_clusters_are_those_of_the_traces_and_the_last_cluster_may_be_smaller() -> None:
    events = np.array([[8, 0, 3, 8, 8, 1, 7, 4], [0] * 8, [8] * 7 + [4]])
    drawn = list(golden_sums(60, 0.8, TEMPLATES, 3, Given(events)))  # type: ignore[arg-type]
    sizes = [8] * 7 + [4]
    codes = np.repeat(range(8), sizes)
    for row, sums in zip(events, drawn, strict=True):
        traces = [int(i < x) for x, n in zip(row, sizes, strict=True) for i in range(n)]
        assert sums == cluster_sums(codes, traces)


@pytest.mark.parametrize("correlation", [0.0, 0.2, 0.6])
def test_correct_decisions_correlate_within_a_cluster_as_asked(correlation: float) -> None:
    size, n, rate = 10, 200, 0.8
    golden = GoldenSize(n_positive=n, n_negative=n, cluster_size=size, error_correlation=correlation)
    events = np.array([s.events for s in golden_sums(n, rate, golden, 20_000, np.random.default_rng(5))])
    assert events.mean() == pytest.approx(n * rate, rel=0.005)
    design_effect = events.var() / (n * rate * (1 - rate))
    assert design_effect == pytest.approx(1 + (size - 1) * correlation, rel=0.05)


@pytest.mark.parametrize("rate", [0.0, 1.0])
def test_a_rate_without_errors_has_none_in_clusters_either(rate: float) -> None:
    (sums,) = golden_sums(60, rate, TEMPLATES, 1, np.random.default_rng(1))
    assert sums.events == 60 * rate


def test_effective_counts_widen_the_interval_that_taking_clusters_as_independent_leaves_too_narrow() -> None:
    golden = GoldenSize(n_positive=200, n_negative=200, cluster_size=8, error_correlation=0.3)
    cell = cell_of(judges=(JudgeRates(sensitivity=0.8, specificity=0.9),), golden=(golden,), n_units=(2000,))
    assert set(cell.methods) == METHODS | {"lang_reiczigel_independent"}
    default, independent = cell.methods["lang_reiczigel"], cell.methods["lang_reiczigel_independent"]
    assert default.coverage > 0.92
    assert independent.coverage < 0.85
    assert default.mean_width > 1.3 * independent.mean_width  # type: ignore[operator]
    assert cell.error_correlation == 0.3


@pytest.mark.parametrize(("templates", "said"), [(4, "insufficient_data"), (9, "under 10"), (10, None)])
def test_few_clusters_are_warned_of_and_fewer_than_five_refused(templates: int, said: str | None) -> None:
    golden = GoldenSize(n_positive=400, n_negative=20 * templates, cluster_size=20, error_correlation=0.1)
    found = simulated(golden=(golden,), replications=50)
    (cell,) = found.cells
    assert isinstance(cell, CorrectionCell)
    assert (cell.statuses.get("insufficient_data") == 1.0) is (templates < 5)
    warned = [note for note in found.notes if f"{templates} clusters" in note]
    assert bool(warned) is (said is not None)
    assert said is None or said in warned[0]


def test_a_single_cluster_is_worth_nothing_and_has_no_interval() -> None:
    golden = GoldenSize(n_positive=20, n_negative=100, cluster_size=20)
    cell = cell_of(golden=(golden,), replications=20)
    assert cell.statuses == {"insufficient_data": 1.0}
    assert cell.bias is None
    assert cell.methods["lang_reiczigel"].mean_width is None
    assert cell.methods["lang_reiczigel_independent"].mean_width is not None


# ---- the whole


def test_the_figure_of_the_simulation_is_the_worst_cell_of_the_default_interval() -> None:
    found = simulated(prevalences=(0.005, 0.3), golden=(FIFTY, TEMPLATES), replications=100)
    coverages = [cell.methods["lang_reiczigel"] for cell in found.cells]
    worst = min(coverages, key=lambda each: each.coverage)
    assert (found.stage, found.method, found.replications, found.n_cells) == (2, "lang_reiczigel", 100, 4)
    assert (found.coverage, found.mc_error) == (worst.coverage, worst.mc_error)
    assert found.sufficient is (found.coverage >= 0.93)
    assert set(found.methods) == METHODS | {"lang_reiczigel_independent"}
    assert found.methods["delta"].minimum == min(cell.methods["delta"].coverage for cell in found.cells)
    assert [(cell.n_negative, cell.prevalence) for cell in found.cells] == [
        (50, 0.005), (50, 0.3), (60, 0.005), (60, 0.3),
    ]  # fmt: skip
