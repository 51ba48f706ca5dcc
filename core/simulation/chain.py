"""Stage 3 (SPEC 14.3): the whole chain, from latent truth over a fitted calibration to the measured rate.

What is tested is the instrument itself: thresholds, optimism, strata, clusters, effective counts and intervals are
those functions that calibrate and measure real data. Only the scores are drawn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import expit, logit

from core.data.columns import Floats
from core.errors import InputError, UndefinedError
from core.inference.intervals import normal_quantile
from core.inference.prevalence import RESOLUTION, Counts, delta_interval, effective_prevalence
from core.instrument.calibrated import Calibrated, Calibration
from core.instrument.calibration import calibrated_judge
from core.instrument.correction import effective_counts, prevalence_of
from core.instrument.kernels import WORTH_COMPILING
from core.instrument.measured import Prevalence
from core.instrument.measurement import measurement_spec
from core.instrument.production import Sample
from core.instrument.resampling import Engine
from core.instrument.spec import InstrumentSpec, JudgeIdentity, MeasurementSpec
from core.simulation.draws import DrawnGolden, FixedGolden, Production, Turns, golden_table
from core.simulation.population import Population, best_cuts, patterns_of, with_composite_j
from core.simulation.simulated import (
    ChainCell,
    Coverage,
    OptimismResult,
    ProductionResult,
    QuantityResult,
    Simulation,
)
from core.simulation.spec import ChainSpec, ClusterLaw, TurnLaw
from core.simulation.stage import Chunk, CoverageTally, divided, generator, shares_of
from core.simulation.summary import summarised

CHUNK = 25
"""Replications a chunk: about half a second of work."""

COVERAGE_NOTE = (
    "coverage is the composite's, whatever the state: where the record shows no rate, the interval is made all the "
    "same, and a replication in which none can be made counts as a miss"
)


@dataclass(frozen=True, kw_only=True)
class World:
    """One cell: a known judge, how its golden set comes about, and what production is like.

    Attributes
    ----------
    population : Population
    golden : DrawnGolden or FixedGolden
    golden_turns, production_turns : Turns
    golden_prevalence : float
        Share of violating traces in the golden set, for the true specificity of a composite that leaves a category
        out.
    production_cluster_size : int
    unscored : float
    n_golden, golden_cluster_size
        As the record shows them.
    categories : tuple of str
    decides_at : float array of shape (n_categories,), optional
        Latent thresholds of a detector, which decides there whatever the golden set looks like; None for a judge, whose
        thresholds are fitted.
    """

    categories: tuple[str, ...]
    population: Population
    golden: DrawnGolden | FixedGolden
    golden_turns: Turns
    production_turns: Turns
    golden_prevalence: float
    production_cluster_size: int = 1
    unscored: float = 0.0
    n_golden: int
    golden_cluster_size: float = 1.0
    decides_at: Floats | None = None

    def composite_j(self, cuts: Floats, spanned: Sequence[int], turns: Turns) -> float:
        """Return the true J of a composite at latent thresholds."""
        rates = self.population.rates(cuts, *turns.law)
        return rates.composite_j(self.population, spanned, self.golden_prevalence)

    def best_j(self, turns: Turns) -> float:
        """Return the true J of the composite at the thresholds that are best over the golden set's turn counts.

        A detector has no better ones than its own.
        """
        cuts = best_cuts(self.population, *self.golden_turns.law) if self.decides_at is None else self.decides_at
        return self.composite_j(cuts, range(self.population.n_categories), turns)


def worlds_of(spec: ChainSpec) -> tuple[World, ...]:
    """Return the cells of a grid: judges, golden sizes, turn laws and clusters in their order."""
    patterns, shares = patterns_of(spec.n_categories)
    worlds = []
    for youden_j in spec.youden_j:
        for turns in spec.turns:
            golden_turns, production_turns = Turns.of_shares(turns.golden), Turns.of_shares(turns.production)
            for clusters in spec.clusters:
                alone = clusters == ClusterLaw()
                blank = Population(
                    laws=(), patterns=patterns, pattern_shares=shares,
                    trace_share=spec.error_correlation if alone else 0.0,
                    cluster_share=0.0 if alone else spec.error_correlation,
                )  # fmt: skip
                population = with_composite_j(blank, youden_j, golden_turns.law, production_turns.law)
                worlds += [_world(spec, population, n, turns, clusters) for n in spec.n_golden]
    return tuple(worlds)


def _world(spec: ChainSpec, population: Population, n: int, turns: TurnLaw, clusters: ClusterLaw) -> World:
    golden_turns = Turns.of_shares(turns.golden)
    golden = DrawnGolden(
        n=n, positive_share=spec.positive_share, turns=golden_turns, cluster_size=clusters.golden_size,
        unlabelled=spec.unlabelled, unscored=spec.unscored,
    )  # fmt: skip
    return World(
        categories=tuple(f"harm-{c + 1}" for c in range(spec.n_categories)),
        population=population,
        golden=golden,
        golden_turns=golden_turns,
        production_turns=Turns.of_shares(turns.production),
        golden_prevalence=spec.positive_share,
        production_cluster_size=clusters.production_size,
        unscored=spec.unscored,
        n_golden=n,
        golden_cluster_size=float(clusters.golden_size),
    )


@dataclass(slots=True)
class QuantityTally:
    """Adds up what became of one quantity at one prevalence and size."""

    truth: float = 0.0
    interval: CoverageTally = field(default_factory=CoverageTally)
    delta: CoverageTally = field(default_factory=CoverageTally)
    n_reported: int = 0
    n_reported_held: int = 0
    bias: float = 0.0
    n_bias: int = 0
    statuses: Counter[str] = field(default_factory=Counter)

    def add(self, found: Prevalence, truth: float, spec: MeasurementSpec) -> None:
        """Count one measurement."""
        self.truth += truth
        self.statuses[found.status] += 1
        counts = _counts_behind(found)
        held = self.interval.add(_limits(found, counts, spec), truth)
        self.delta.add(_delta_limits(counts, spec), truth)
        if found.interval is not None:
            self.n_reported += 1
            self.n_reported_held += held
        if counts is not None and counts.youden_j > RESOLUTION:
            self.bias += (counts.observed_rate + counts.specificity - 1.0) / counts.youden_j - truth
            self.n_bias += 1

    def __iadd__(self, other: QuantityTally) -> QuantityTally:
        self.truth += other.truth
        self.interval += other.interval
        self.delta += other.delta
        self.n_reported += other.n_reported
        self.n_reported_held += other.n_reported_held
        self.bias += other.bias
        self.n_bias += other.n_bias
        self.statuses += other.statuses
        return self

    def record(self) -> QuantityResult:
        """Return the shares and means."""
        n = self.interval.n
        return QuantityResult(
            prevalence=self.truth / n,
            interval=self.interval.record(),
            delta=self.delta.record(),
            reported=self.n_reported / n,
            coverage_reported=self.n_reported_held / self.n_reported if self.n_reported else None,
            bias=self.bias / self.n_bias if self.n_bias else None,
            statuses=shares_of(self.statuses),
        )


def _counts_behind(found: Prevalence) -> Counts | None:
    if found.effective is None:
        return None
    try:
        return effective_counts(found.effective)
    except UndefinedError:
        return None


def _limits(found: Prevalence, counts: Counts | None, spec: MeasurementSpec) -> tuple[float, float] | None:
    """Return the instrument's interval, also where the state keeps it out of the record; None if there is none."""
    if found.interval is not None:
        return found.interval.low, found.interval.high
    if counts is None:
        return None
    try:
        # A floor of 0 is met by every judge that has an interval at all.
        made = effective_prevalence(
            counts, confidence_level=spec.confidence_level, method=spec.interval, detection_floor=0.0
        )
    except UndefinedError:
        return None
    return None if made.interval is None else (made.interval.low, made.interval.high)


def _delta_limits(counts: Counts | None, spec: MeasurementSpec) -> tuple[float, float] | None:
    if counts is None or counts.youden_j <= RESOLUTION:
        return None
    interval = delta_interval(counts, normal_quantile(spec.confidence_level))
    return (interval.low, interval.high) if interval.compatible else None


@dataclass(slots=True)
class ChainOutcome:
    """What a chunk found: sums that add.

    Attributes
    ----------
    calibrations : Counter
        The composite's status in the calibration.
    youden : list of float
        Sums of apparent, honest and true J over the replications with a composite, and their number.
    quantities : list of list of QuantityTally
        By scenario of production; the composite first, then the categories.
    """

    calibrations: Counter[str]
    youden: list[float]
    quantities: list[list[QuantityTally]]

    def __iadd__(self, other: ChainOutcome) -> ChainOutcome:
        self.calibrations += other.calibrations
        self.youden = [a + b for a, b in zip(self.youden, other.youden, strict=True)]
        for mine, theirs in zip(self.quantities, other.quantities, strict=True):
            for tally, more in zip(mine, theirs, strict=True):
                tally += more  # noqa: PLW2901 (in place)
        return self


class ChainStage:
    """The work of stage 3.

    Parameters
    ----------
    worlds : sequence of World
        The cells.
    instrument : InstrumentSpec
    prevalences, n_units
        Every calibration measures production at each of these.
    replications, seed : int
    """

    number = 3

    def __init__(
        self,
        worlds: Sequence[World],
        instrument: InstrumentSpec,
        *,
        prevalences: Sequence[float],
        n_units: Sequence[int],
        replications: int,
        seed: int,
    ) -> None:
        self.worlds, self.instrument = tuple(worlds), instrument
        self.scenarios = [(prevalence, n) for prevalence in prevalences for n in n_units]
        self.replications, self.seed = replications, seed
        self._engine = self._chosen_engine()

    def _chosen_engine(self) -> Engine:
        """Take the compiled engine where all resamples together pay for compiling it; the figures are the same."""
        optimism = self.instrument.optimism
        weights = sum(world.n_golden * world.population.n_categories for world in self.worlds) * self.replications
        return "numba" if optimism.method == "bootstrap" and weights * optimism.resamples >= WORTH_COMPILING else "auto"

    @classmethod
    def of(cls, spec: ChainSpec) -> ChainStage:
        """Return the work of a spec."""
        return cls(
            worlds_of(spec), spec.instrument, prevalences=spec.prevalences, n_units=spec.n_units,
            replications=spec.replications, seed=spec.seed,
        )  # fmt: skip

    def chunks(self) -> Sequence[Chunk]:
        """Divide the work."""
        return divided(len(self.worlds), self.replications, CHUNK)

    def run(self, chunk: Chunk) -> ChainOutcome:
        """Carry out some replications of one cell."""
        world = self.worlds[chunk.cell]
        rng = generator(self.seed, self.number, chunk)
        n_quantities = world.population.n_categories + 1
        outcome = ChainOutcome(
            calibrations=Counter(),
            youden=[0.0] * 4,
            quantities=[[QuantityTally() for _ in range(n_quantities)] for _ in self.scenarios],
        )
        for _ in range(chunk.replications):
            self._replicate(world, rng, outcome)
        return outcome

    def _replicate(self, world: World, rng: np.random.Generator, outcome: ChainOutcome) -> None:
        spec = replace(self.instrument, seed=int(rng.integers(2**31)))
        table = golden_table(rng, world.population, world.golden.traces(rng, world.population), world.categories)
        if world.decides_at is not None:
            table = replace(table, maxima=(table.maxima >= expit(world.decides_at)).astype(float))
        try:
            categories, composite = calibrated_judge(table, spec, self._engine)
        except InputError:  # no category has both classes
            outcome.calibrations["not_calibrated"] += 1
            self._count_nothing(world, outcome)
            return
        calibration = Calibration(
            instrument=spec.name, judge=JudgeIdentity(), judge_source="simulated", calibration_source="simulated",
            confidence_level=spec.confidence_level, detection_floor=spec.detection_floor, interval=spec.interval,
            turn_bins=spec.turn_bins, seed=spec.seed, golden=None, categories=categories, composite=composite,
            slices={},
        )  # fmt: skip
        outcome.calibrations[composite.status] += 1
        spanned = [c for c, name in enumerate(table.categories) if name in composite.categories]
        cuts = _cuts(categories, spanned, world.decides_at)
        if composite.apparent is not None and composite.youden_j is not None:
            true_j = world.composite_j(cuts, spanned, world.golden_turns)
            found = (composite.apparent.youden_j, composite.youden_j, true_j, 1.0)
            outcome.youden = [a + b for a, b in zip(outcome.youden, found, strict=True)]
        production = Production(
            population=world.population, turns=world.production_turns, cuts=cuts,
            cluster_size=world.production_cluster_size, unscored=world.unscored, turn_bins=spec.turn_bins,
        )  # fmt: skip
        asked = measurement_spec(calibration)
        judged = [composite, *categories.values()]
        for (prevalence, n_units), tallies in zip(self.scenarios, outcome.quantities, strict=True):
            truths = _truths(world.population, spanned, prevalence)
            samples = production.samples(rng, prevalence, n_units)
            for sample, judge, truth, tally in zip(samples, judged, truths, tallies, strict=True):
                tally.add(_measured(sample, judge, calibration, asked, production), truth, asked)

    def _count_nothing(self, world: World, outcome: ChainOutcome) -> None:
        every = range(world.population.n_categories)
        asked = MeasurementSpec(instrument=self.instrument.name, seed=0)
        for (prevalence, _), tallies in zip(self.scenarios, outcome.quantities, strict=True):
            for truth, tally in zip(_truths(world.population, every, prevalence), tallies, strict=True):
                tally.add(Prevalence(status="not_calibrated"), truth, asked)

    def result(self, outcomes: Sequence[ChainOutcome]) -> Simulation:
        """Put the chunks together; the sums are added in the order of the chunks."""
        totals: dict[int, ChainOutcome] = {}
        for chunk, outcome in zip(self.chunks(), outcomes, strict=True):
            if chunk.cell in totals:
                totals[chunk.cell] += outcome
            else:
                totals[chunk.cell] = outcome
        cells = tuple(self._cell(world, totals[i]) for i, world in enumerate(self.worlds))
        rows = [row.composite for cell in cells for row in cell.production]
        coverages: dict[str, list[Coverage]] = {self.instrument.interval: [row.interval for row in rows]}
        coverages.setdefault("delta", [row.delta for row in rows])
        names = self.worlds[0].categories  # one list for all cells
        categories = {
            name: [row.categories[name].interval for cell in cells for row in cell.production] for name in names
        }
        return summarised(
            self.number, self.instrument.interval, self.instrument.confidence_level, coverages, categories,
            cells=cells, replications=self.replications, notes=(COVERAGE_NOTE,),
        )  # fmt: skip

    def _cell(self, world: World, total: ChainOutcome) -> ChainCell:
        apparent, honest, true, n = total.youden
        return ChainCell(
            youden_j=world.best_j(world.production_turns),
            n_golden=world.n_golden,
            golden_cluster_size=world.golden_cluster_size,
            production_cluster_size=float(world.production_cluster_size),
            golden_turns=world.golden_turns.by_number(),
            production_turns=world.production_turns.by_number(),
            replications=self.replications,
            calibration_statuses=shares_of(total.calibrations),
            optimism=None
            if not n
            else OptimismResult(
                apparent_j=apparent / n,
                honest_j=honest / n,
                true_j=true / n,
                best_j=world.best_j(world.golden_turns),
            ),
            production=tuple(
                ProductionResult(
                    prevalence=prevalence,
                    n_units=n_units,
                    composite=tallies[0].record(),
                    categories={
                        name: tally.record() for name, tally in zip(world.categories, tallies[1:], strict=True)
                    },
                )
                for (prevalence, n_units), tallies in zip(self.scenarios, total.quantities, strict=True)
            ),
        )


def _measured(
    sample: Sample, judge: Calibrated, calibration: Calibration, asked: MeasurementSpec, production: Production
) -> Prevalence:
    return prevalence_of(sample, judge, calibration, asked, production.cluster_size > 1, stream=0, melded_draws=None)


def _cuts(categories: dict[str, Calibrated], spanned: Sequence[int], decides_at: Floats | None) -> Floats:
    """Return the deployed thresholds on the latent scale."""
    cuts = np.full(len(categories), np.inf)
    for c, judged in enumerate(categories.values()):
        if c in spanned and judged.threshold is not None:
            cuts[c] = logit(judged.threshold) if decides_at is None else decides_at[c]
    return cuts


def _truths(population: Population, spanned: Sequence[int], prevalence: float) -> list[float]:
    """Return the true rates: of any of the spanned categories (of all, if there are none), then of each category."""
    columns = list(spanned) or list(range(population.n_categories))
    members = population.patterns[:, columns].any(axis=1)
    of_composite = prevalence * float(population.pattern_shares @ members)
    return [of_composite, *(prevalence * float(share) for share in population.shares_of_categories())]
