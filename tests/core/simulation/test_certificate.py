"""A certificate simulates at the calibration's own labels, turns, clusters and honest rates."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace

import numpy as np
import pytest

from core.errors import UndefinedError
from core.instrument.calibrated import Calibrated, Calibration, CompositeCalibrated, DetectorCalibration
from core.instrument.calibration import calibrated_judge
from core.instrument.declared import declared_calibration
from core.instrument.golden_table import GoldenTable
from core.instrument.spec import DeclaredRates, DeclaredSpec, InstrumentSpec, JudgeIdentity, OptimismSpec
from core.simulation.certificate import DETECTED, LEAST_J, _fitted, _fixed, _likeness, certificate_stage
from core.simulation.draws import DrawnGolden, Turns, golden_table
from core.simulation.population import CategoryLaw, Population, patterns_of
from core.simulation.simulated import Simulation
from core.simulation.spec import CertificateSpec

INSTRUMENT = InstrumentSpec(name="safety", optimism=OptimismSpec(resamples=30))
NAMES = ("hate", "violence", "sexual")
TURNS = Turns.of_shares((0.5, 0.3, 0.2))
SPEC = CertificateSpec(prevalences=(0.1,), n_units=(400,), replications=20, resamples=10)


def calibrated(
    size: int = 1, n: int = 900, shift: float = 2.5, common: float = 0.3, seed: int = 1
) -> tuple[Calibration, GoldenTable]:
    patterns, shares = patterns_of(3)
    population = Population(
        laws=(CategoryLaw(shift=shift), CategoryLaw(shift=shift + 0.5, spread=1.5), CategoryLaw(shift=shift)),
        patterns=patterns, pattern_shares=shares,
        trace_share=common if size == 1 else 0.0, cluster_share=0.0 if size == 1 else common,
    )  # fmt: skip
    rng = np.random.default_rng(seed)
    golden = DrawnGolden(n=n, positive_share=0.4, turns=TURNS, cluster_size=size, unlabelled=0.05)
    table = golden_table(rng, population, golden.traces(rng, population), NAMES)
    categories, composite = calibrated_judge(table, INSTRUMENT)
    calibration = Calibration(
        instrument="safety", judge=JudgeIdentity(name="guard", version="1"), judge_source="scores",
        calibration_source="golden_set", confidence_level=0.95, detection_floor=0.2, interval="lang_reiczigel",
        turn_bins=INSTRUMENT.turn_bins, seed=1, golden=None, categories=categories, composite=composite, slices={},
    )  # fmt: skip
    return calibration, table


def certified(calibration: Calibration, table: GoldenTable | None, spec: CertificateSpec = SPEC) -> Simulation:
    instrument = None if table is None else INSTRUMENT
    stage = certificate_stage(spec, calibration, "f" * 64, table, instrument)
    return stage.result([stage.run(chunk) for chunk in stage.chunks()])


@pytest.fixture(scope="module")
def independent() -> tuple[Calibration, GoldenTable]:
    return calibrated()


def test_the_simulated_judge_has_the_honest_rates(independent: tuple[Calibration, GoldenTable]) -> None:
    found = certified(*independent).calibration
    assert found is not None
    assert found.id == "f" * 64
    assert found.judge == "guard@1"
    assert list(found.categories) == list(NAMES)
    for fit in found.categories.values():
        assert fit.simulated_sensitivity == pytest.approx(fit.sensitivity, abs=0.01)
        assert fit.simulated_specificity == pytest.approx(fit.specificity, abs=0.01)
    assert found.composite.simulated_specificity == pytest.approx(found.composite.specificity, abs=0.02)
    assert found.composite.simulated_sensitivity == pytest.approx(found.composite.sensitivity, abs=0.05)


def test_golden_traces_keep_their_number_turns_and_size(independent: tuple[Calibration, GoldenTable]) -> None:
    (cell,) = certified(*independent).cells
    assert cell.n_golden == 900  # type: ignore[union-attr]
    assert cell.golden_turns == cell.production_turns  # type: ignore[union-attr]
    assert cell.golden_turns["1"] == pytest.approx(0.5, abs=0.06)  # type: ignore[union-attr]
    assert cell.golden_cluster_size == 1.0  # type: ignore[union-attr]


def test_clusters_err_together_as_the_calibration_saw_them() -> None:
    calibration, table = calibrated(size=6, common=0.6, n=1200)
    golden = _fixed(table, [0, 1, 2])
    wanted = _likeness(calibration.composite, golden)
    population, _ = _fitted(calibration, golden)
    assert 0.1 < wanted < 0.6
    assert population.cluster_share == pytest.approx(0.6, abs=0.25)
    assert certified(calibration, table).cells[0].golden_cluster_size == 6.0  # type: ignore[union-attr]


def test_a_certificate_can_be_pickled_to_workers(independent: tuple[Calibration, GoldenTable]) -> None:
    stage = certificate_stage(SPEC, independent[0], "f" * 64, independent[1], INSTRUMENT)
    chunk = stage.chunks()[0]
    assert pickle.loads(pickle.dumps(stage)).run(chunk).youden == stage.run(chunk).youden


def test_perfect_rates_are_brought_off_one_by_half_a_trace(independent: tuple[Calibration, GoldenTable]) -> None:
    calibration, table = independent
    perfect = replace(calibration.categories["hate"], sensitivity=1.0, specificity=1.0)
    judged = replace(calibration, categories={**calibration.categories, "hate": perfect})
    found = certified(judged, table).calibration
    assert found is not None
    assert 0.99 < found.categories["hate"].simulated_sensitivity < 1.0


def test_a_judge_at_chance_is_simulated_and_not_sufficient() -> None:
    calibration, table = calibrated(shift=0.15, n=400)
    assert calibration.composite.status == "below_detection_floor"
    assert not certified(calibration, table, replace(SPEC, replications=40)).sufficient


def test_a_category_without_threshold_is_left_out(independent: tuple[Calibration, GoldenTable]) -> None:
    calibration, table = independent
    lone = replace(
        calibration,
        categories={**calibration.categories, "violence": Calibrated(status="below_detection_floor")},
        composite=replace(calibration.composite, categories=("hate", "sexual"), left_out=("violence",)),
    )
    found = certified(lone, table)
    assert found.calibration is not None
    assert list(found.calibration.categories) == ["hate", "sexual"]


DETECTOR = InstrumentSpec(name="fairness", kind="detections")


def detector(size: int = 1, cut: float = 0.85) -> tuple[Calibration, GoldenTable]:
    """The judge's scores, decided at a cut that the golden set has no say in, far from the best."""
    judge, scored = calibrated(size=size, common=0.5)
    table = replace(scored, maxima=(scored.maxima >= cut).astype(float))
    categories, composite = calibrated_judge(table, DETECTOR)
    kept = {field.name: getattr(judge, field.name) for field in fields(judge)}
    return DetectorCalibration(**{**kept, "categories": categories, "composite": composite}), table


def certified_detector(calibration: Calibration, table: GoldenTable, spec: CertificateSpec) -> Simulation:
    stage = certificate_stage(spec, calibration, "f" * 64, table, DETECTOR)
    return stage.result([stage.run(chunk) for chunk in stage.chunks()])


@pytest.mark.parametrize("size", [1, 6])
def test_a_simulated_detector_has_the_calibrated_rates_and_no_threshold_is_fitted(size: int) -> None:
    found = certified_detector(*detector(size), SPEC)
    assert found.calibration is not None
    for fit in found.calibration.categories.values():
        assert fit.simulated_sensitivity == pytest.approx(fit.sensitivity, abs=1e-4)
        assert fit.simulated_specificity == pytest.approx(fit.specificity, abs=1e-4)
    optimism = found.cells[0].optimism  # type: ignore[union-attr]
    assert optimism is not None
    assert optimism.apparent_j == optimism.honest_j  # nothing is taken off
    assert optimism.true_j == pytest.approx(
        optimism.best_j, abs=1e-12
    )  # in every replication the detector is the same one
    assert optimism.honest_j == pytest.approx(optimism.true_j, abs=0.05)
    assert found.notes[0] == DETECTED


def test_a_detector_is_simulated_where_it_decides_and_not_where_it_would_do_best() -> None:
    calibration, table = detector(cut=0.97)
    found = certified_detector(calibration, table, SPEC).calibration
    assert found is not None
    assert found.composite.sensitivity < 0.6
    assert found.composite.simulated_specificity == pytest.approx(found.composite.specificity, abs=0.01)
    assert found.composite.simulated_sensitivity == pytest.approx(found.composite.sensitivity, abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 6])
def test_the_certificate_of_a_detector_covers(size: int) -> None:
    found = certified_detector(*detector(size), CertificateSpec(replications=2000))  # Monte-Carlo error .005
    print(f"clusters of {size}: lowest {found.coverage:.3f}, mean {found.mean_coverage:.3f}")
    assert found.coverage >= 0.93
    assert found.mean_coverage >= 0.945


def test_a_declared_calibration_is_certified_from_its_counts() -> None:
    rates = DeclaredRates(
        threshold=0.5, sensitivity=0.85, n_positive=200, specificity=0.93, n_negative=400, source="vendor card"
    )
    spec = DeclaredSpec(
        name="vendor", judge=JudgeIdentity(name="v", version="1"), categories={"hate": rates},
        composite=replace(rates, threshold=None),
    )  # fmt: skip
    found = certified(declared_calibration(spec), None, replace(SPEC, replications=200))
    assert found.stage == 2
    assert found.calibration is not None
    assert found.calibration.composite.simulated_sensitivity == 0.85
    assert found.coverage > 0.9
    assert "declared" in found.notes[0]


def test_coverage_of_a_declared_calibration_is_that_of_the_interval_it_declares() -> None:
    """At 50 a class and a rate of .5% the papers' delta interval covers about 90% (STATISTICS.md section 3)."""
    rates = DeclaredRates(
        threshold=0.5, sensitivity=0.9, n_positive=50, specificity=0.95, n_negative=50, source="vendor card"
    )
    declared = DeclaredSpec(
        name="vendor", judge=JudgeIdentity(name="v", version="1"), interval="delta", categories={"hate": rates},
        composite=replace(rates, threshold=None),
    )  # fmt: skip
    asked = replace(SPEC, prevalences=(0.005,), replications=500)
    found = certified(declared_calibration(declared), None, asked)
    by_default = certified(declared_calibration(replace(declared, interval="lang_reiczigel")), None, asked)
    assert (found.method, by_default.method) == ("delta", "lang_reiczigel")
    assert found.coverage == found.methods["delta"].minimum == by_default.methods["delta"].minimum
    assert not found.sufficient
    assert by_default.sufficient


def test_a_category_worse_than_chance_is_simulated_just_above_it(independent: tuple[Calibration, GoldenTable]) -> None:
    calibration, table = independent
    hopeless = replace(calibration.categories["hate"], sensitivity=1.0, specificity=0.0, n_positive=10, n_negative=500)
    found = certified(replace(calibration, categories={**calibration.categories, "hate": hopeless}), table).calibration
    assert found is not None
    fit = found.categories["hate"]
    assert fit.simulated_sensitivity + fit.simulated_specificity - 1.0 == pytest.approx(LEAST_J, abs=0.01)


def test_a_simulated_composite_that_is_the_better_judge_is_said(independent: tuple[Calibration, GoldenTable]) -> None:
    calibration, table = independent
    assert not any("better judge" in note for note in certified(calibration, table).notes)
    sensitivity = calibration.composite.sensitivity
    assert sensitivity is not None
    worse = replace(calibration, composite=replace(calibration.composite, sensitivity=sensitivity - 0.15))
    assert any("coverage of a better judge" in note for note in certified(worse, table).notes)


def test_likeness_is_over_traces_with_composite_truth() -> None:
    calibration, table = calibrated(size=6, common=0.6, n=1200)
    golden = _fixed(table, [0, 1, 2])
    n, last = 600, int(golden.clusters.max())
    more = replace(
        golden,
        labels=np.concatenate([golden.labels, np.full((n, 3), -1)]),
        clusters=np.concatenate([golden.clusters, np.full(n, last + 1)]),
    )
    assert _likeness(calibration.composite, more) == _likeness(calibration.composite, golden)


def test_without_a_composite_there_is_nothing_to_certify(independent: tuple[Calibration, GoldenTable]) -> None:
    calibration, table = independent
    none = replace(calibration, composite=CompositeCalibrated(status="not_calibrated"))
    with pytest.raises(UndefinedError, match="nothing to certify"):
        certified(none, table)
