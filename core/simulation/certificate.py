"""The coverage certificate (SPEC 14.4): the whole chain at one calibration's own counts and quality.

The golden set's labels, holes, turns and clusters stand as they are; only scores are drawn, from a judge whose true
rates are the calibration's honest ones. Of a calibrated detector the decisions are drawn, and no threshold is fitted.
What this cannot show is in the record: scores of another shape, and a golden set that does not speak for production.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from core.data.columns import Bools, Floats
from core.errors import UndefinedError
from core.instrument.calibrated import Calibrated, Calibration, kind_of
from core.instrument.golden_table import GoldenTable
from core.instrument.spec import InstrumentSpec, settled
from core.simulation.chain import ChainStage, World
from core.simulation.correction import CorrectionStage
from core.simulation.draws import FixedGolden, Turns
from core.simulation.population import MAX_COMMON, CategoryLaw, Population, best_cut, best_cuts
from core.simulation.simulated import CertifiedCalibration, JudgeFit, Simulation
from core.simulation.spec import CertificateSpec, CorrectionSpec, GoldenSize, JudgeRates
from core.simulation.stage import Chunk, Stage

LEAST_J = 0.02
"""A judge is simulated with at least this J: below it there is nothing to fit."""

FIT_TOLERANCE = 0.01
"""How far the simulated J may lie from the wanted one before the law with two free parameters is given up."""

COMPOSITE_TOLERANCE = 0.02
"""How far the simulated composite's J may lie above the calibrated one's before it is said."""

SIMULATED = (
    "scores are drawn from a binormal law with the calibration's honest rates; labels, holes, turns and clusters are "
    "those of its golden set; production has the same turn counts and is independent"
)
DETECTED = (
    "decisions are drawn from a normal law with the calibration's rates, at thresholds that are not fitted; labels, "
    "holes, turns and clusters are those of its golden set; production has the same turn counts and is independent"
)
DECLARED = (
    "a declared calibration: its rates are taken as counts, independent and right for this use; how they came about "
    "is not simulated"
)

_ROUNDS = 2  # shares of variance are fitted in turn; the second round changes them by a few thousandths
_LOG_SPREADS = (-3.0, 3.0)
_STEP = 1e-3
FAR = 200.0
"""Latent distance beyond which every rate is 0 or 1."""


class CertificateStage:
    """The work behind a certificate: another stage's, whose result names the calibration."""

    def __init__(self, inner: Stage, certified: CertifiedCalibration, notes: tuple[str, ...]) -> None:
        self._inner, self._certified, self._notes = inner, certified, notes

    def chunks(self) -> Sequence[Chunk]:
        """Divide the work."""
        return self._inner.chunks()

    def run(self, chunk: Chunk) -> Any:
        """Carry out a chunk."""
        return self._inner.run(chunk)

    def result(self, outcomes: Sequence[Any]) -> Simulation:
        """Put the chunks together and name the calibration."""
        found = self._inner.result(outcomes)
        return replace(found, calibration=self._certified, notes=(*self._notes, *found.notes))


def certificate_stage(
    spec: CertificateSpec,
    calibration: Calibration,
    calibration_id: str,
    table: GoldenTable | None,
    instrument: InstrumentSpec | None,
) -> Stage:
    """Return the work of a calibration's certificate.

    Parameters
    ----------
    spec : CertificateSpec
    calibration : Calibration
    calibration_id : str
        Id of its record.
    table : GoldenTable or None
        The golden traces behind it, categories in the calibration's order; scores and ids are not looked at. None for
        a declared calibration, which has no golden traces.
    instrument : InstrumentSpec or None
        The spec of the calibration's record; None for a declared calibration.

    Raises
    ------
    UndefinedError
        The calibration has no composite with figures, so there is nothing to certify.
    """
    composite = calibration.composite
    if composite.sensitivity is None or composite.specificity is None:
        raise UndefinedError(
            "calibration",
            calibration.instrument,
            f"its composite has no figures ({composite.status}): nothing to certify",
        )
    if table is None or instrument is None:
        return _declared(spec, calibration, calibration_id)
    columns = [list(calibration.categories).index(name) for name in composite.categories]
    golden = _fixed(table, columns)
    decides = instrument.kind == "detections"
    population, cuts = _fitted(calibration, golden)
    turns = Turns.of_counts(golden.n_turns)
    clusters = int(golden.clusters.max()) + 1
    world = World(
        categories=composite.categories,
        population=population,
        golden=golden,
        golden_turns=turns,
        production_turns=turns,
        golden_prevalence=_positive_share(golden),
        n_golden=len(golden.n_turns),
        golden_cluster_size=len(golden.n_turns) / clusters,
        decides_at=cuts if decides else None,
    )
    stage = ChainStage(
        [world], _simulated(settled(instrument), spec),
        prevalences=spec.prevalences, n_units=spec.n_units, replications=spec.replications, seed=spec.seed,
    )  # fmt: skip
    certified = CertifiedCalibration(
        id=calibration_id,
        instrument=calibration.instrument,
        judge=str(calibration.judge),
        **_fit_records(calibration, world, cuts),
    )
    told = DETECTED if decides else SIMULATED
    return CertificateStage(stage, certified, (told, *_too_good(certified.composite)))


def _simulated(instrument: InstrumentSpec, spec: CertificateSpec) -> InstrumentSpec:
    """Return the instrument with fewer resamples and nothing that only real golden sets have."""
    resamples = min(spec.resamples, instrument.optimism.resamples)
    return replace(
        instrument, categories=None, slices=(), judge=None, optimism=replace(instrument.optimism, resamples=resamples)
    )


def _fixed(table: GoldenTable, columns: Sequence[int]) -> FixedGolden:
    _, clusters = np.unique(table.clusters, return_inverse=True)
    return FixedGolden(
        labels=table.labels[:, columns],
        missing=table.missing[:, columns],
        n_turns=np.maximum(table.n_turns, 1),
        clusters=clusters,
    )


def _positive_share(golden: FixedGolden) -> float:
    """Share of violating traces among those with composite truth."""
    positive, negative = _classes(golden)
    return float(positive.sum() / (positive | negative).sum())


def _classes(golden: FixedGolden) -> tuple[Bools, Bools]:
    """Which traces violate a category, and which violate none; those without composite truth are neither."""
    return (golden.labels == 1).any(axis=1), (golden.labels == 0).all(axis=1)


def _patterns(golden: FixedGolden) -> tuple[Bools, Floats]:
    """Return the label patterns of the violating traces, with their shares."""
    positive = golden.labels == 1
    found, counts = np.unique(positive[positive.any(axis=1)], axis=0, return_counts=True)
    return found, counts / counts.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Rates that a simulated category should have at its best threshold."""

    sensitivity: float
    specificity: float

    @property
    def youden_j(self) -> float:
        return self.sensitivity + self.specificity - 1.0


def _wanted(judged: Calibrated) -> _Wanted:
    """Return a category's honest rates, away from 0 and 1 by half a trace, and with a J that can be fitted."""
    if judged.sensitivity is None or judged.specificity is None:
        raise UndefinedError("calibration", judged.status, "a category of the composite has its rates")
    margins = [0.5 / (n + 1.0) for n in (judged.n_positive, judged.n_negative)]
    sensitivity, specificity = (
        min(max(rate, margin), 1.0 - margin)
        for rate, margin in zip((judged.sensitivity, judged.specificity), margins, strict=True)
    )
    sensitivity = min(max(sensitivity, 1.0 + LEAST_J - specificity), 1.0 - margins[0])
    specificity = max(specificity, 1.0 + LEAST_J - sensitivity)
    return _Wanted(sensitivity=sensitivity, specificity=specificity)


def _fitted(calibration: Calibration, golden: FixedGolden) -> tuple[Population, Floats]:
    """Fit a judge to the calibration's honest rates, its composite's specificity and its clusters' likeness.

    Returns
    -------
    population : Population
    cuts : float array
        On the latent scale: best thresholds, or those of a detector, which need not be.
    """
    decides = kind_of(calibration) == "detections"
    composite = calibration.composite
    wanted = [_wanted(calibration.categories[name]) for name in composite.categories]
    turns = Turns.of_counts(golden.n_turns)
    patterns, shares = _patterns(golden)
    likeness = _likeness(composite, golden)

    def fitted(trace_share: float, cluster_share: float) -> tuple[Population, Floats]:
        blank = Population(
            laws=(), patterns=patterns, pattern_shares=shares, trace_share=trace_share, cluster_share=cluster_share
        )
        if decides:
            found = [_deciding(blank, target, turns) for target in wanted]
            return replace(blank, laws=tuple(law for law, _ in found)), np.array([cut for _, cut in found])
        laws = tuple(_law(blank, target, turns) for target in wanted)
        population = replace(blank, laws=laws)
        return population, best_cuts(population, *turns.law)

    def specificity_off(trace_share: float, cluster_share: float) -> float:
        return _specificity(*fitted(trace_share, cluster_share), turns) - (composite.specificity or 0.0)

    def likeness_off(cluster_share: float, trace_share: float) -> float:
        return _correlation(*fitted(trace_share, cluster_share), turns) - likeness

    trace_share = cluster_share = 0.0
    for _ in range(_ROUNDS):
        if len(wanted) > 1:
            trace_share = _solved(specificity_off, cluster_share)
        if likeness > 0.0:
            cluster_share = _solved(likeness_off, trace_share)
    return fitted(trace_share, cluster_share)


def _solved(excess: Callable[[float, float], float], other: float) -> float:
    """Return the share of variance at which `excess`, which grows with it, is 0; the nearest end if there is none."""
    most = MAX_COMMON - other
    if excess(0.0, other) >= 0.0:
        return 0.0
    if excess(most, other) <= 0.0:
        return most
    return float(brentq(excess, 0.0, most, args=(other,), xtol=1e-3))


def _specificity(population: Population, cuts: Floats, turns: Turns) -> float:
    """Return the composite's specificity on traces without any violation."""
    return 1.0 - population.rates(cuts, *turns.law).composite_false_alarm


def _correlation(population: Population, cuts: Floats, turns: Turns) -> float:
    """Intra-cluster correlation of the composite's decisions on clean traces."""
    flags = population.flag_rates(cuts, turns.values)[0]
    _, weights = population.common
    of_cluster = weights.sum(axis=1)
    passed = np.einsum("t,uw,tuw->u", turns.shares, weights / of_cluster[:, None], (1.0 - flags).prod(axis=-1))
    mean = float(of_cluster @ passed)
    spread = float(of_cluster @ passed**2) - mean**2
    return spread / (mean * (1.0 - mean)) if 0.0 < mean < 1.0 else 0.0


def _likeness(composite: Calibrated, golden: FixedGolden) -> float:
    """Intra-cluster correlation of the composite's errors, from the design effects of both classes."""
    effective = composite.effective
    if effective is None or not effective.clustered:
        return 0.0
    found = []
    for members, effect in zip(
        _classes(golden), (effective.positive_design_effect, effective.negative_design_effect), strict=True
    ):
        sizes = np.bincount(golden.clusters[members])
        size = float((sizes**2).sum() / sizes.sum())
        if size > 1.0:
            found.append((float(members.sum()), min((effect - 1.0) / (size - 1.0), MAX_COMMON)))
    total = sum(n for n, _ in found)
    return sum(n * correlation for n, correlation in found) / total if found else 0.0


def _law(population: Population, wanted: _Wanted, turns: Turns) -> CategoryLaw:
    """Return the law whose best threshold has the wanted rates; where there is none, one with the wanted J."""
    law = _law_with_both(population, wanted, turns)
    if law is not None and abs(_best_j(law.shift, population, turns, law.spread) - wanted.youden_j) <= FIT_TOLERANCE:
        return law
    return CategoryLaw(shift=_root(lambda shift: _best_j(shift, population, turns) - wanted.youden_j, 0.0, FAR))


def _deciding(population: Population, wanted: _Wanted, turns: Turns) -> tuple[CategoryLaw, float]:
    """Return the law with a spread of 1, and the threshold, at which a detector has the wanted rates."""
    cut = _root(lambda at: population.passed(at, *turns.law) - wanted.specificity, -FAR, FAR)
    missed = 1.0 - wanted.sensitivity
    shift = _root(lambda shift: missed - population.passed(cut, *turns.law, CategoryLaw(shift=shift)), -FAR, FAR)
    return CategoryLaw(shift=shift), cut


def _law_with_both(population: Population, wanted: _Wanted, turns: Turns) -> CategoryLaw | None:
    """Return the law for which J does not change to first order around the threshold with the wanted rates."""

    def passed(cut: float, law: CategoryLaw | None = None) -> float:
        return population.passed(cut, *turns.law, law)

    cut = _root(lambda at: passed(at) - wanted.specificity, -FAR, FAR)

    def law_of(log_spread: float) -> CategoryLaw:
        spread = float(np.exp(log_spread))
        missed = 1.0 - wanted.sensitivity
        shift = _root(lambda shift: missed - passed(cut, CategoryLaw(shift=shift, spread=spread)), -FAR, FAR)
        return CategoryLaw(shift=shift, spread=spread)

    def slope(log_spread: float) -> float:
        law = law_of(log_spread)
        below, above = (passed(at) - passed(at, law) for at in (cut - _STEP, cut + _STEP))
        return above - below

    if slope(_LOG_SPREADS[0]) * slope(_LOG_SPREADS[1]) >= 0.0:
        return None
    return law_of(_root(slope, *_LOG_SPREADS))


def _best_j(shift: float, population: Population, turns: Turns, spread: float = 1.0) -> float:
    law = CategoryLaw(shift=shift, spread=spread)
    cut = best_cut(population, law, *turns.law)
    clean, violating = (population.passed(cut, *turns.law, of) for of in (None, law))
    return clean - violating


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    return float(brentq(function, low, high, xtol=1e-5))


def _fit_records(calibration: Calibration, world: World, cuts: Floats) -> Mapping[str, Any]:
    """Put the wanted rates beside the simulated ones."""
    names = calibration.composite.categories
    rates = world.population.rates(cuts, *world.golden_turns.law)
    every = range(len(names))
    return {
        "composite": _fit(
            calibration.composite,
            rates.composite_sensitivity(world.population, every),
            rates.composite_specificity(world.population, every, world.golden_prevalence),
        ),
        "categories": {
            name: _fit(calibration.categories[name], float(rates.hit[c]), 1.0 - float(rates.false_alarm[c]))
            for c, name in enumerate(names)
        },
    }


def _too_good(composite: JudgeFit) -> Iterator[str]:
    """Say where the simulated composite is the better judge: categories alone do not settle what it is like."""
    simulated = composite.simulated_sensitivity + composite.simulated_specificity - 1.0
    calibrated = composite.sensitivity + composite.specificity - 1.0
    if simulated - calibrated > COMPOSITE_TOLERANCE:
        yield (
            f"the simulated composite has J {simulated:.3f} and the calibrated one {calibrated:.3f}: this is the "
            "coverage of a better judge"
        )


def _fit(judged: Calibrated, sensitivity: float, specificity: float) -> JudgeFit:
    if judged.sensitivity is None or judged.specificity is None:
        raise UndefinedError("calibration", judged.status, "a category of the composite has its rates")
    return JudgeFit(
        sensitivity=judged.sensitivity,
        specificity=judged.specificity,
        simulated_sensitivity=sensitivity,
        simulated_specificity=specificity,
    )


def _declared(spec: CertificateSpec, calibration: Calibration, calibration_id: str) -> Stage:
    """A declared calibration has counts and no traces: its chain is stage 2 at these counts."""
    composite = calibration.composite
    if composite.sensitivity is None or composite.specificity is None:
        raise UndefinedError("calibration", composite.status, "its composite has no rates")
    rates = JudgeRates(sensitivity=composite.sensitivity, specificity=composite.specificity)
    stage = CorrectionStage(
        CorrectionSpec(
            judges=(rates,),
            golden=(GoldenSize(n_positive=composite.n_positive, n_negative=composite.n_negative),),
            prevalences=spec.prevalences,
            n_units=spec.n_units,
            replications=spec.replications,
            confidence_level=calibration.confidence_level,
            detection_floor=calibration.detection_floor,
            seed=spec.seed,
        ),
        calibration.interval,
    )
    fits = {
        name: _fit(judged, judged.sensitivity, judged.specificity)
        for name, judged in {"": composite, **calibration.categories}.items()
        if judged.sensitivity is not None and judged.specificity is not None
    }
    certified = CertifiedCalibration(
        id=calibration_id, instrument=calibration.instrument, judge=str(calibration.judge),
        composite=fits.pop(""), categories=fits,
    )  # fmt: skip
    return CertificateStage(stage, certified, (DECLARED,))
