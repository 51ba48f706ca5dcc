"""Stage 2 (SPEC 14.2): the corrected rate, from counts drawn at a known prevalence, sensitivity and specificity."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from core.data.problems import counted
from core.errors import UndefinedError
from core.inference.clusters import FEW_CLUSTERS, MIN_CLUSTERS, ClusterSums, effective_sample
from core.inference.intervals import normal_quantile
from core.inference.prevalence import (
    RESOLUTION,
    Counts,
    PrevalenceInterval,
    bootstrap_intervals,
    delta_interval,
    effective_prevalence,
    lang_reiczigel_interval,
    melded_intervals,
)
from core.simulation.simulated import CorrectionCell, Simulation, is_sufficient
from core.simulation.spec import CorrectionSpec, GoldenSize, JudgeRates
from core.simulation.stage import Chunk, CoverageTally, divided, generator, shares_of
from core.simulation.summary import lowest, summary_of

CHUNK = 500
"""Replications of a chunk, which takes a fraction of a second."""

BLOCK = 500_000
"""Numbers of one kind that are drawn at a time, so that memory stays small at any size."""

DEFAULT = "lang_reiczigel"
METHODS = (DEFAULT, "delta", "melded", "bootstrap")

AS_INDEPENDENT = "lang_reiczigel_independent"
"""Lang-Reiczigel on whole counts, the clusters ignored: what effective counts are there to prevent."""

_Limits = tuple[float, float] | None
_Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionOutcome:
    """What one chunk found; the outcomes of a cell add up.

    Attributes
    ----------
    tallies : mapping of str to CoverageTally
    statuses : mapping of str to int
    raw : float
        Sum of the raw corrected rates.
    n_raw, n_outside : int
        Replications that have one, and those with one outside [0, 1].
    """

    tallies: Mapping[str, CoverageTally]
    statuses: Mapping[str, int]
    raw: float
    n_raw: int
    n_outside: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Truth:
    judge: JudgeRates
    golden: GoldenSize
    prevalence: float
    n_units: int

    @property
    def clustered(self) -> bool:
        return self.golden.cluster_size > 1

    @property
    def flag_rate(self) -> float:
        return self.prevalence * self.judge.sensitivity + (1.0 - self.prevalence) * (1.0 - self.judge.specificity)

    @property
    def refused(self) -> bool:
        """Whether the instrument takes these sizes for too few, whatever the counts."""
        return min(self.n_units, _fewest_clusters(self.golden)) < MIN_CLUSTERS


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What one set of counts gives without draws; without J > 0 no interval."""

    status: str
    raw: float | None = None
    lang_reiczigel: _Limits = None
    delta: _Limits = None


class CorrectionStage:
    """Bias, coverage and width of the corrected rate when the judge's error rates are known.

    Intervals are made whatever the status, since the promise does not depend on it. One that does not exist
    (J <= 0), or misses [0, 1], holds nothing.

    Parameters
    ----------
    spec : CorrectionSpec
    method : {'lang_reiczigel', 'delta', 'melded', 'bootstrap'}
        The interval that the result's `coverage` is about.
    """

    def __init__(self, spec: CorrectionSpec, method: str = DEFAULT) -> None:
        self.spec, self._method = spec, method
        self._z = normal_quantile(spec.confidence_level)
        self._grid = [
            _Truth(judge=judge, golden=golden, prevalence=prevalence, n_units=n)
            for judge, golden, prevalence, n in product(spec.judges, spec.golden, spec.prevalences, spec.n_units)
        ]

    def chunks(self) -> Sequence[Chunk]:
        """Divide every cell's replications."""
        return divided(len(self._grid), self.spec.replications, CHUNK)

    def run(self, chunk: Chunk) -> CorrectionOutcome:
        """Draw and correct some replications of one cell."""
        truth, rng = self._grid[chunk.cell], generator(self.spec.seed, self.spec.stage, chunk)
        whole, effective = self._draw(truth, chunk.replications, rng)
        usable = [counts for counts in effective if counts is not None and counts.youden_j > RESOLUTION]
        melded = self._resampled(melded_intervals, usable, rng)
        bootstrap = self._resampled(bootstrap_intervals, usable, rng)

        names = (*METHODS, AS_INDEPENDENT) if truth.clustered else METHODS
        tallies = {name: CoverageTally() for name in names}
        statuses: Counter[str] = Counter()
        raws: list[float] = []
        known: dict[Counts, _Found] = {}  # small counts come again and again
        for plain, counts in zip(whole, effective, strict=True):
            found = self._found(counts, known)
            statuses["insufficient_data" if truth.refused else found.status] += 1
            tallies[DEFAULT].add(found.lang_reiczigel, truth.prevalence)
            tallies["delta"].add(found.delta, truth.prevalence)
            tallies["melded"].add(None if found.raw is None else next(melded), truth.prevalence)
            tallies["bootstrap"].add(None if found.raw is None else next(bootstrap), truth.prevalence)
            if truth.clustered:
                tallies[AS_INDEPENDENT].add(self._found(plain, known).lang_reiczigel, truth.prevalence)
            if found.raw is not None:
                raws.append(found.raw)
        return CorrectionOutcome(
            tallies=tallies,
            statuses=dict(statuses),
            raw=sum(raws),
            n_raw=len(raws),
            n_outside=sum(not 0.0 <= raw <= 1.0 for raw in raws),
        )

    def result(self, outcomes: Sequence[CorrectionOutcome]) -> Simulation:
        """Add up the chunks of each cell."""
        by_cell: dict[int, list[CorrectionOutcome]] = {}
        for chunk, outcome in zip(self.chunks(), outcomes, strict=True):
            by_cell.setdefault(chunk.cell, []).append(outcome)
        cells = tuple(self._cell(truth, by_cell[i]) for i, truth in enumerate(self._grid))
        level = self.spec.confidence_level
        summaries = {
            name: summary_of([cell.methods[name] for cell in cells if name in cell.methods], level)
            for name in (*METHODS, AS_INDEPENDENT)
            if any(name in cell.methods for cell in cells)
        }
        worst = lowest([cell.methods[self._method] for cell in cells])
        return Simulation(
            stage=2,
            method=self._method,
            confidence_level=level,
            coverage=worst.coverage,
            mc_error=worst.mc_error,
            mean_coverage=summaries[self._method].mean,
            sufficient=is_sufficient(worst.coverage, level),
            n_cells=len(cells),
            replications=self.spec.replications,
            methods=summaries,
            cells=cells,
            notes=tuple(_notes(self.spec)),
        )

    def _draw(
        self, truth: _Truth, replications: int, rng: np.random.Generator
    ) -> tuple[list[Counts], list[Counts | None]]:
        """Draw whole counts, and what they are worth; None where a class is worth nothing."""
        flagged = rng.binomial(truth.n_units, truth.flag_rate, replications).tolist()
        golden, judge = truth.golden, truth.judge
        hits = golden_sums(golden.n_positive, judge.sensitivity, golden, replications, rng)
        passes = golden_sums(golden.n_negative, judge.specificity, golden, replications, rng)
        whole, effective = [], []
        for x, positive, negative in zip(flagged, hits, passes, strict=True):
            counts = Counts(
                flagged=x,
                traces=truth.n_units,
                true_positives=positive.events,
                positives=positive.n,
                true_negatives=negative.events,
                negatives=negative.n,
            )
            whole.append(counts)
            effective.append(self._effective(counts, positive, negative) if truth.clustered else counts)
        return whole, effective

    def _effective(self, counts: Counts, positive: ClusterSums, negative: ClusterSums) -> Counts | None:
        """Counts as the instrument corrects with: the rates, at effective sizes."""
        level = self.spec.confidence_level
        m1 = effective_sample(positive, clustered=True, confidence_level=level).n_effective
        m0 = effective_sample(negative, clustered=True, confidence_level=level).n_effective
        if min(m1, m0) <= 0.0:
            return None
        return Counts(
            flagged=counts.flagged,
            traces=counts.traces,
            true_positives=m1 * counts.sensitivity,
            positives=m1,
            true_negatives=m0 * counts.specificity,
            negatives=m0,
        )

    def _found(self, counts: Counts | None, known: dict[Counts, _Found]) -> _Found:
        if counts is None:
            return _Found(status="insufficient_data")
        if counts not in known:
            known[counts] = self._closed_form(counts)
        return known[counts]

    def _closed_form(self, counts: Counts) -> _Found:
        level, floor = self.spec.confidence_level, self.spec.detection_floor
        found = effective_prevalence(counts, confidence_level=level, detection_floor=floor)
        if found.raw is None:
            return _Found(status=found.status)
        interval = found.interval
        if interval is None:
            try:
                interval = lang_reiczigel_interval(counts, self._z)
            except UndefinedError:
                interval = None  # J > 0, but not after one of each kind was added
        return _Found(
            status=found.status,
            raw=found.raw,
            lang_reiczigel=_limits(interval),
            delta=_limits(delta_interval(counts, self._z)),
        )

    def _resampled(
        self,
        intervals: Callable[[Sequence[Counts], float, np.random.Generator, int], list[PrevalenceInterval]],
        counts: Sequence[Counts],
        rng: np.random.Generator,
    ) -> Iterator[_Limits]:
        # Drawn here and now, not when they are asked for: the order of the random numbers is part of the result.
        rows = max(1, BLOCK // self.spec.draws)
        made = [
            interval
            for start in range(0, len(counts), rows)
            for interval in intervals(counts[start : start + rows], self.spec.confidence_level, rng, self.spec.draws)
        ]
        return map(_limits, made)

    def _cell(self, truth: _Truth, outcomes: Sequence[CorrectionOutcome]) -> CorrectionCell:
        tallies = {name: CoverageTally() for name in outcomes[0].tallies}
        statuses: Counter[str] = Counter()
        for outcome in outcomes:
            statuses.update(outcome.statuses)
            for name, tally in outcome.tallies.items():
                tallies[name] += tally
        n_raw = sum(outcome.n_raw for outcome in outcomes)
        raw = sum(outcome.raw for outcome in outcomes)
        return CorrectionCell(
            sensitivity=truth.judge.sensitivity,
            specificity=truth.judge.specificity,
            n_positive=truth.golden.n_positive,
            n_negative=truth.golden.n_negative,
            cluster_size=truth.golden.cluster_size,
            error_correlation=truth.golden.error_correlation,
            prevalence=truth.prevalence,
            n_units=truth.n_units,
            replications=self.spec.replications,
            bias=raw / n_raw - truth.prevalence if n_raw else None,
            outside=sum(outcome.n_outside for outcome in outcomes) / self.spec.replications,
            statuses=shares_of(statuses),
            methods={name: tally.record() for name, tally in tallies.items()},
        )


def golden_sums(
    n: int, rate: float, golden: GoldenSize, replications: int, rng: np.random.Generator
) -> Iterator[ClusterSums]:
    """Draw one class of the golden set `replications` times: the traces that the judge takes rightly (SPEC 14.2).

    Parameters
    ----------
    n : int
        Traces of the class, in clusters of ``golden.cluster_size``; the last one may be smaller.
    rate : float
        Share of traces that the judge takes rightly, in [0, 1].
    golden : GoldenSize
    replications : int
    rng : numpy.random.Generator
    """
    if golden.cluster_size == 1:
        drawn = rng.binomial(n, rate, replications).tolist()
        return (ClusterSums.of_independent(n, events) for events in drawn)
    sizes = np.full(_n_clusters(n, golden.cluster_size), golden.cluster_size)
    sizes[-1] += n - sizes.sum()
    rows = max(1, BLOCK // len(sizes))
    blocks = [min(rows, replications - start) for start in range(0, replications, rows)]
    return iter([sums for block in blocks for sums in _cluster_sums(sizes, rate, golden.error_correlation, block, rng)])


def _cluster_sums(
    sizes: _Ints, rate: float, correlation: float, replications: int, rng: np.random.Generator
) -> list[ClusterSums]:
    """Draw cluster counts, beta-binomial, and keep their sums over clusters (SPEC 5.1)."""
    rates: NDArray[np.float64] | float = rate
    if correlation > 0.0 and 0.0 < rate < 1.0:
        concentration = (1.0 - correlation) / correlation
        rates = rng.beta(rate * concentration, (1.0 - rate) * concentration, size=(replications, len(sizes)))
    events = rng.binomial(sizes, rates, size=(replications, len(sizes)))
    sums = zip(
        events.sum(axis=1).tolist(),
        (events @ sizes).tolist(),
        (events * events).sum(axis=1).tolist(),
        np.count_nonzero(events, axis=1).tolist(),
        np.count_nonzero(events < sizes, axis=1).tolist(),
        strict=True,
    )
    return [
        ClusterSums(
            n=int(sizes.sum()),
            events=x,
            n_clusters=len(sizes),
            sum_n2=int(sizes @ sizes),
            sum_nx=nx,
            sum_x2=x2,
            clusters_with_events=with_events,
            clusters_with_nonevents=with_nonevents,
        )
        for x, nx, x2, with_events, with_nonevents in sums
    ]


def _n_clusters(n: int, cluster_size: int) -> int:
    return -(-n // cluster_size)


def _fewest_clusters(golden: GoldenSize) -> int:
    return _n_clusters(min(golden.n_positive, golden.n_negative), golden.cluster_size)


def _limits(interval: PrevalenceInterval | None) -> _Limits:
    return (interval.low, interval.high) if interval is not None and interval.compatible else None


def _notes(spec: CorrectionSpec) -> Iterator[str]:
    yield f"intervals are made whatever the status; melded and bootstrap from {spec.draws} draws each"
    for golden in spec.golden:
        clusters = _fewest_clusters(golden)
        found = counted(clusters, "cluster" if golden.cluster_size > 1 else "trace")
        sizes = f"golden set of {golden.n_positive} + {golden.n_negative}: {found} in the smaller class"
        if clusters < MIN_CLUSTERS:
            yield f"{sizes}; at least {MIN_CLUSTERS} are needed: insufficient_data"
        elif clusters < FEW_CLUSTERS:
            yield f"{sizes}: under {FEW_CLUSTERS} the interval may be too narrow"
