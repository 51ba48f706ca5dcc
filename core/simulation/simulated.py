"""What a simulation says: the frozen records of coverage under known truth."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

SUFFICIENT_COVERAGE = 0.93
"""Simulated coverage (at a nominal .95) under which an interval is not taken as evidence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How an interval did.

    Attributes
    ----------
    coverage : float
        Share of the replications whose interval holds the truth; one without an interval holds nothing.
    mc_error : float
        Monte-Carlo standard error of `coverage`; 0 where the law was enumerated.
    low_above, high_below : float
        Shares in which the low end lies above the truth, and the high end below it.
    mean_width : float or None
        Of the intervals there were; None if there was none.
    zero_width : float
        Share of replications whose interval has no width.
    """

    coverage: float
    mc_error: float
    low_above: float
    high_below: float
    mean_width: float | None
    zero_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedCell:
    """Stage 1: one size and rate; `methods` by name: modified_wilson, wilson, clopper_pearson, jeffreys."""

    n_units: int
    rate: float
    methods: Mapping[str, Coverage]


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionCell:
    """Stage 2: one judge, golden set, prevalence and size.

    Attributes
    ----------
    bias : float or None
        Mean of the raw corrected rate less the prevalence; None if no replication had one (J <= 0).
    outside : float
        Share of replications whose raw corrected rate lies outside [0, 1].
    statuses : mapping
        Shares by status.
    methods : mapping
        By name: lang_reiczigel, delta, melded, bootstrap; the interval is made whatever the status.
    """

    sensitivity: float
    specificity: float
    n_positive: int
    n_negative: int
    cluster_size: int
    error_correlation: float
    prevalence: float
    n_units: int
    replications: int
    bias: float | None
    outside: float
    statuses: Mapping[str, float]
    methods: Mapping[str, Coverage]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantityResult:
    """Stage 3: one quantity (the composite or a category) at one prevalence and size.

    Attributes
    ----------
    prevalence : float
        The truth: of the composite, over the categories that it spans (mean over replications).
    interval : Coverage
        Of the instrument's interval, made whatever the status: the promise is unconditional.
    delta : Coverage
        Of the papers' delta interval, as well.
    reported : float
        Share of replications whose record carries an interval (measured or inconclusive).
    coverage_reported : float or None
        Coverage among these; None if there are none.
    bias : float or None
        Mean of the unclipped corrected rate less the truth.
    statuses : mapping
        Shares by status of the measurement.
    """

    prevalence: float
    interval: Coverage
    delta: Coverage
    reported: float
    coverage_reported: float | None
    bias: float | None
    statuses: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductionResult:
    """Stage 3: what was found at one prevalence and size of production."""

    prevalence: float
    n_units: int
    composite: QuantityResult
    categories: Mapping[str, QuantityResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimismResult:
    """Stage 3: J of the composite, as it looks, as it is reported, and as it is at the deployed thresholds.

    All are means over the replications that have a composite, over the golden set's turn counts.
    """

    apparent_j: float
    honest_j: float
    true_j: float
    best_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainCell:
    """Stage 3: one judge and golden set, measured at every prevalence and size.

    Attributes
    ----------
    youden_j : float
        True J of the composite over production's turn counts, at the thresholds that are best on the golden set.
    n_golden : int
    golden_cluster_size, production_cluster_size : int
        Mean sizes; 1 for independent traces.
    golden_turns, production_turns : mapping
        Shares by number of turns.
    replications : int
    calibration_statuses : mapping
        Shares of the composite's status in the calibration.
    optimism : OptimismResult or None
        None if no replication had a composite.
    production : tuple of ProductionResult
    """

    youden_j: float
    n_golden: int
    golden_cluster_size: float
    production_cluster_size: float
    golden_turns: Mapping[str, float]
    production_turns: Mapping[str, float]
    replications: int
    calibration_statuses: Mapping[str, float]
    optimism: OptimismResult | None
    production: tuple[ProductionResult, ...]


Cell = ObservedCell | CorrectionCell | ChainCell


@dataclass(frozen=True, slots=True, kw_only=True)
class MethodSummary:
    """One interval over all cells.

    Attributes
    ----------
    mean, minimum : float
        Coverage.
    below : int
        Cells whose coverage is not sufficient: under .93 at level .95 (`least_coverage`).
    mean_width : float or None
    zero_width : float
        Share over all replications.
    """

    mean: float
    minimum: float
    below: int
    mean_width: float | None
    zero_width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeFit:
    """What the certificate's simulated judge has to be like, and is: rates averaged over the golden turn counts."""

    sensitivity: float
    specificity: float
    simulated_sensitivity: float
    simulated_specificity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCalibration:
    """The calibration that a simulation is about."""

    id: str
    instrument: str
    judge: str
    composite: JudgeFit
    categories: Mapping[str, JudgeFit]


@dataclass(frozen=True, slots=True, kw_only=True)
class Simulation:
    """The result of a simulation.

    Attributes
    ----------
    stage : int
    calibration : CertifiedCalibration or None
        Named by a certificate.
    method : str
        The interval that `coverage` is about.
    confidence_level : float
    coverage, mc_error : float
        Of the cell with the lowest coverage, and the Monte-Carlo error there.
    mean_coverage : float
        Over all cells.
    sufficient : bool
        Whether `coverage` keeps its distance from the nominal level: at least .93 at .95, and as many times the
        nominal misses at other levels.
    n_cells : int
    replications : int
        A cell; 0 where the law was enumerated.
    methods : mapping of str to MethodSummary
    cells : tuple
    notes : tuple of str
    """

    stage: int
    calibration: CertifiedCalibration | None = None
    method: str
    confidence_level: float
    coverage: float
    mc_error: float
    mean_coverage: float
    sufficient: bool
    n_cells: int
    replications: int
    methods: Mapping[str, MethodSummary]
    cells: tuple[Cell, ...]
    notes: tuple[str, ...] = ()


def least_coverage(confidence_level: float) -> float:
    """Return the lowest coverage that is sufficient, with 1.4 times the nominal misses: .93 at .95.

    Examples
    --------
    >>> round(least_coverage(0.95), 12), round(least_coverage(0.99), 12)
    (0.93, 0.986)
    """
    return 1.0 - (1.0 - confidence_level) * (1.0 - SUFFICIENT_COVERAGE) / 0.05


def is_sufficient(coverage: float, confidence_level: float) -> bool:
    """Whether intervals cover well enough to be evidence (`least_coverage`)."""
    return coverage >= least_coverage(confidence_level) - 1e-12


def mc_error_of(coverage: float, replications: int) -> float:
    """Monte-Carlo standard error of a share, kept above 0 by one added success and failure."""
    smooth = (coverage * replications + 1.0) / (replications + 2.0)
    return math.sqrt(smooth * (1.0 - smooth) / replications)
