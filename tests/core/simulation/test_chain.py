"""Stage 3 is the instrument on drawn scores: deterministic, complete in its accounting, and honest about misses."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from core.errors import UndefinedError
from core.instrument.spec import InstrumentSpec, OptimismSpec
from core.records import digest, plain
from core.simulation.chain import CHUNK, ChainStage, worlds_of
from core.simulation.draws import DrawnGolden
from core.simulation.simulated import ChainCell, Simulation
from core.simulation.spec import ChainSpec, ClusterLaw, TurnLaw
from core.simulation.stages import stage_of

QUICK = ChainSpec(
    youden_j=(0.6,),
    n_golden=(150,),
    clusters=(ClusterLaw(), ClusterLaw(golden_size=5, production_size=4)),
    prevalences=(0.1, 0.3),
    n_units=(300,),
    n_categories=2,
    instrument=InstrumentSpec(name="quick", optimism=OptimismSpec(resamples=10)),
    replications=30,
)


def simulated(spec: ChainSpec) -> Simulation:
    stage = stage_of(spec)
    return stage.result([stage.run(chunk) for chunk in stage.chunks()])


@pytest.fixture(scope="module")
def quick() -> Simulation:
    return simulated(QUICK)


def test_the_result_depends_on_the_spec_alone(quick: Simulation) -> None:
    stage = ChainStage.of(QUICK)
    chunks = stage.chunks()
    assert sum(chunk.replications for chunk in chunks) == 2 * QUICK.replications
    assert max(chunk.replications for chunk in chunks) == CHUNK
    backwards = {chunk: stage.run(chunk) for chunk in reversed(chunks)}
    again = pickle.loads(pickle.dumps(stage)).result([backwards[chunk] for chunk in chunks])
    assert digest(plain(again)) == digest(plain(quick))
    assert digest(plain(simulated(replace(QUICK, seed=1)))) != digest(plain(quick))


def test_every_replication_is_accounted_for(quick: Simulation) -> None:
    assert quick.n_cells == 4
    for cell in quick.cells:
        assert isinstance(cell, ChainCell)
        assert sum(cell.calibration_statuses.values()) == pytest.approx(1)
        for row in cell.production:
            for quantity in (row.composite, *row.categories.values()):
                assert sum(quantity.statuses.values()) == pytest.approx(1)
                found = quantity.interval
                assert found.coverage + found.low_above + found.high_below <= 1 + 1e-12
                assert quantity.reported == pytest.approx(
                    sum(share for status, share in quantity.statuses.items() if status in ("measured", "inconclusive"))
                )


def test_the_worst_cell_is_the_headline(quick: Simulation) -> None:
    rows = [row.composite.interval for cell in quick.cells for row in cell.production]  # type: ignore[union-attr]
    assert quick.coverage == min(row.coverage for row in rows)
    assert quick.mean_coverage == pytest.approx(sum(row.coverage for row in rows) / 4)
    assert quick.methods["lang_reiczigel"].minimum == quick.coverage


def test_a_judge_that_cannot_tell_covers_badly_and_is_not_called_measured() -> None:
    found = simulated(
        replace(QUICK, youden_j=(0.0,), clusters=(ClusterLaw(),), n_golden=(400,), prevalences=(0.1,), replications=60)
    )
    (cell,) = found.cells
    assert isinstance(cell, ChainCell)
    assert cell.calibration_statuses.get("measured", 0) <= 0.05
    assert cell.production[0].composite.reported <= 0.15
    assert not found.sufficient


def test_optimism_is_seen_and_mostly_taken_off() -> None:
    spec = replace(
        QUICK, clusters=(ClusterLaw(),), prevalences=(0.1,), n_golden=(200,), replications=120,
        instrument=replace(QUICK.instrument, optimism=OptimismSpec(resamples=40)),
    )  # fmt: skip
    (cell,) = simulated(spec).cells
    assert isinstance(cell, ChainCell)
    assert cell.optimism is not None
    optimism = cell.optimism.apparent_j - cell.optimism.true_j
    assert optimism > 0.03
    assert abs(cell.optimism.honest_j - cell.optimism.true_j) < optimism / 2
    assert cell.optimism.true_j < cell.optimism.best_j


def test_missing_labels_and_unscored_turns_leave_the_rate_unbiased() -> None:
    found = simulated(
        replace(
            QUICK, clusters=(ClusterLaw(),), prevalences=(0.2,), n_golden=(400,), unlabelled=0.1, unscored=0.05,
            n_units=(1000,), replications=60,
        )
    )  # fmt: skip
    (cell,) = found.cells
    assert isinstance(cell, ChainCell)
    row = cell.production[0].composite
    assert row.bias == pytest.approx(0, abs=0.03)
    assert row.interval.coverage >= 0.85


def test_turn_counts_that_the_golden_set_lacks_give_no_rate() -> None:
    spec = replace(QUICK, turns=(TurnLaw(golden=(1.0,), production=(0.5, 0.5)),), clusters=(ClusterLaw(),))
    (cell,) = simulated(replace(spec, replications=4)).cells
    assert isinstance(cell, ChainCell)
    assert cell.production[0].composite.statuses == {"unit_mismatch": 1.0}
    assert cell.production[0].composite.coverage_reported is None


def test_a_golden_set_of_one_class_is_counted_as_not_calibrated() -> None:
    stage = ChainStage.of(replace(QUICK, clusters=(ClusterLaw(),), replications=3))
    world = stage.worlds[0]
    assert isinstance(world.golden, DrawnGolden)
    stage.worlds = (replace(world, golden=replace(world.golden, positive_share=1e-12)),)
    (cell,) = stage.result([stage.run(chunk) for chunk in stage.chunks()]).cells
    assert isinstance(cell, ChainCell)
    assert cell.calibration_statuses == {"not_calibrated": 1.0}
    assert cell.optimism is None
    assert cell.production[0].composite.interval.coverage == 0.0


def test_more_golden_traces_make_narrower_intervals() -> None:
    found = simulated(replace(QUICK, clusters=(ClusterLaw(),), n_golden=(100, 800), prevalences=(0.1,)))
    few, many = found.cells
    assert isinstance(few, ChainCell)
    assert isinstance(many, ChainCell)
    widths = [cell.production[0].composite.interval.mean_width or 0 for cell in (few, many)]
    assert widths[1] < widths[0]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("youden_j", (1.0,)), ("prevalences", (1.5,)), ("n_golden", (3,)), ("replications", 0), ("unscored", 1.0),
        ("positive_share", 0.0), ("n_units", ()), ("n_categories", 99), ("seed", -1), ("n_golden", (1_000_001,)),
    ],
)  # fmt: skip
def test_a_grid_that_cannot_be_is_refused(field: str, value: object) -> None:
    with pytest.raises(UndefinedError) as refused:
        replace(QUICK, **{field: value})
    assert field in str(refused.value)


def test_more_replications_in_all_than_memory_holds_are_refused() -> None:
    one = replace(
        QUICK, youden_j=(0.5,), clusters=(ClusterLaw(),), turns=(TurnLaw(),), prevalences=(0.1,), n_units=(400,),
        replications=1_000_000,
    )  # fmt: skip
    with pytest.raises(UndefinedError, match="too many for 20 cells: at most 500000"):
        replace(one, n_golden=tuple(range(100, 120)))


def test_turn_shares_have_to_add_up() -> None:
    with pytest.raises(UndefinedError):
        TurnLaw(golden=(0.5, 0.2))


def test_cells_are_the_product_of_the_grid() -> None:
    spec = replace(QUICK, youden_j=(0.5, 0.7), n_golden=(100, 200), turns=(TurnLaw(), TurnLaw(golden=(1.0,))))
    worlds = worlds_of(spec)
    assert len(worlds) == 2 * 2 * 2 * 2
    assert np.round([world.best_j(world.production_turns) for world in worlds], 4).tolist() == [0.5] * 8 + [0.7] * 8
