"""What a simulation is asked for: one frozen spec a stage, which is the spec of its record.

A simulation has cells, each with its own truth; every cell is repeated. The draws depend on the spec alone, never on
how the work is divided among workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from core.errors import UndefinedError
from core.instrument.spec import FORBID_UNKNOWN_KEYS, InstrumentSpec, OptimismSpec

SEED = 20261129
MAX_REPLICATIONS = 1_000_000
MAX_SIZE = 10_000_000
MAX_CELLS = 10_000
MAX_GOLDEN = 1_000_000
MAX_TURNS = 1000
MAX_WORK = 10_000_000
"""Replications of all cells together: what is kept of each chunk of them adds up in memory."""


def _sizes(name: str, values: tuple[int, ...], *, least: int = 1, most: int = MAX_SIZE) -> None:
    if not values or not all(least <= value <= most for value in values):
        raise UndefinedError(name, list(values), f"needs whole numbers from {least} to {most}")


def _shares(name: str, values: tuple[float, ...]) -> None:
    if not values or not all(0.0 <= value <= 1.0 for value in values):
        raise UndefinedError(name, list(values), "needs numbers in [0, 1]")


def _level_and_seed(confidence_level: float, seed: int) -> None:
    if not 0.0 < confidence_level < 1.0:
        raise UndefinedError("confidence_level", confidence_level, "must lie between 0 and 1")
    if seed < 0:
        raise UndefinedError("seed", seed, "must not be negative")


def _grid(name: str, n_cells: int, replications: int = 1) -> None:
    if n_cells > MAX_CELLS:
        raise UndefinedError(name, n_cells, f"the grid has more than {MAX_CELLS} cells")
    if n_cells * replications > MAX_WORK:
        raise UndefinedError(
            "replications", replications, f"too many for {n_cells} cells: at most {MAX_WORK // n_cells}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRateSpec:
    """Stage 1: the intervals of an observed rate; nothing is drawn, since the law is enumerated.

    Attributes
    ----------
    n_units : tuple of int
        Sizes of production, at least 2.
    rates : tuple of float in [0, 1]
        True rates at which the judge flags.
    confidence_level : float in (0, 1)
    seed : int
        Kept on record; without effect.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    stage: Literal[1] = 1
    n_units: tuple[int, ...] = (25, 50, 100, 200, 500, 1000, 2000, 10_000)
    rates: tuple[float, ...] = (0.005, 0.02, 0.05, 0.1, 0.3, 0.5)
    confidence_level: float = 0.95
    seed: int = SEED

    def __post_init__(self) -> None:
        _sizes("n_units", self.n_units, least=2)
        _shares("rates", self.rates)
        _level_and_seed(self.confidence_level, self.seed)
        _grid("n_units", len(self.n_units) * len(self.rates))


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeRates:
    """A judge whose error rates are known exactly."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    sensitivity: float
    specificity: float

    def __post_init__(self) -> None:
        _shares("sensitivity", (self.sensitivity,))
        _shares("specificity", (self.specificity,))


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSize:
    """Golden traces a class.

    Attributes
    ----------
    n_positive, n_negative : int
    cluster_size : int
        Traces a template; 1 for independent traces.
    error_correlation : float in [0, 1)
        Intra-cluster correlation of the judge's errors (beta-binomial).
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    n_positive: int
    n_negative: int
    cluster_size: int = 1
    error_correlation: float = 0.0

    def __post_init__(self) -> None:
        _sizes("n_positive", (self.n_positive,))
        _sizes("n_negative", (self.n_negative,))
        _sizes("cluster_size", (self.cluster_size,))
        if not 0.0 <= self.error_correlation < 1.0:
            raise UndefinedError("error_correlation", self.error_correlation, "must lie in [0, 1)")


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectionSpec:
    """Stage 2: the corrected rate, from counts drawn at known prevalence, sensitivity and specificity.

    Attributes
    ----------
    judges : tuple of JudgeRates
    golden : tuple of GoldenSize
    prevalences : tuple of float in [0, 1]
    n_units : tuple of int
    replications : int
        A cell.
    draws : int
        Of each melded and bootstrap interval.
    confidence_level : float in (0, 1)
    detection_floor : float in (0, 1)
    seed : int
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    stage: Literal[2] = 2
    judges: tuple[JudgeRates, ...] = (
        JudgeRates(sensitivity=0.9, specificity=0.95),
        JudgeRates(sensitivity=0.7, specificity=0.9),
        JudgeRates(sensitivity=0.6, specificity=0.7),
    )
    golden: tuple[GoldenSize, ...] = tuple(GoldenSize(n_positive=m, n_negative=m) for m in (50, 200, 1000))
    prevalences: tuple[float, ...] = (0.005, 0.02, 0.1, 0.3)
    n_units: tuple[int, ...] = (100, 400, 2000)
    replications: int = 2000
    draws: int = 500
    confidence_level: float = 0.95
    detection_floor: float = 0.20
    seed: int = SEED

    def __post_init__(self) -> None:
        _shares("prevalences", self.prevalences)
        _sizes("n_units", self.n_units)
        _sizes("replications", (self.replications,), most=MAX_REPLICATIONS)
        _sizes("draws", (self.draws,), least=100, most=MAX_REPLICATIONS)
        _level_and_seed(self.confidence_level, self.seed)
        if not 0.0 < self.detection_floor < 1.0:
            raise UndefinedError("detection_floor", self.detection_floor, "must lie between 0 and 1")
        cells = len(self.judges) * len(self.golden) * len(self.prevalences) * len(self.n_units)
        _grid("judges", cells, self.replications)


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnLaw:
    """Turn counts of conversations: `golden[i]` and `production[i]` are the shares of those with i + 1 turns."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    golden: tuple[float, ...] = (0.4, 0.3, 0.2, 0.1)
    production: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4)

    def __post_init__(self) -> None:
        for name in ("golden", "production"):
            shares = getattr(self, name)
            _shares(name, shares)
            if len(shares) > MAX_TURNS:
                raise UndefinedError(name, len(shares), f"at most {MAX_TURNS} turns")
            if not 0.999 <= sum(shares) <= 1.001:
                raise UndefinedError(name, list(shares), "the shares of the turn counts must add up to 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterLaw:
    """Templates of the golden set and replicated attacks in production.

    Attributes
    ----------
    golden_size, production_size : int
        Traces a cluster; 1 for independent traces.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    golden_size: int = 1
    production_size: int = 1

    def __post_init__(self) -> None:
        _sizes("golden_size", (self.golden_size,))
        _sizes("production_size", (self.production_size,))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainSpec:
    """Stage 3: the whole chain, from latent truth over a fitted calibration to the measurement (SPEC 14.3).

    Attributes
    ----------
    youden_j : tuple of float in [0, 1)
        True J of the composite over production's turn counts, at the thresholds that are best on the golden set.
    n_golden : tuple of int
    turns : tuple of TurnLaw
    clusters : tuple of ClusterLaw
    prevalences : tuple of float in [0, 1]
    n_units : tuple of int
    n_categories : int
    positive_share : float in (0, 1)
        Share of golden traces that violate: the golden set is enriched.
    error_correlation : float in [0, 1)
        Share of the variance of scores that the turns and categories of a trace (of a cluster, where there are
        clusters) have in common.
    unlabelled, unscored : float in [0, 1)
        Share of golden labels that are missing; share of turns that the judge did not score.
    instrument : InstrumentSpec
        How thresholds are chosen and corrected; of kind scores, since a detector has none to choose.
    replications : int
        A cell; one calibration serves all its prevalences and sizes of production.
    seed : int
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    stage: Literal[3] = 3
    youden_j: tuple[float, ...] = (0.45, 0.8)
    n_golden: tuple[int, ...] = (200, 600)
    turns: tuple[TurnLaw, ...] = (TurnLaw(),)
    clusters: tuple[ClusterLaw, ...] = (ClusterLaw(), ClusterLaw(golden_size=8, production_size=5))
    prevalences: tuple[float, ...] = (0.03, 0.1, 0.3)
    n_units: tuple[int, ...] = (400, 2000)
    n_categories: int = 5
    positive_share: float = 0.4
    error_correlation: float = 0.3
    unlabelled: float = 0.0
    unscored: float = 0.0
    instrument: InstrumentSpec = field(
        default_factory=lambda: InstrumentSpec(name="simulated", optimism=OptimismSpec(resamples=200))
    )
    replications: int = 500
    seed: int = SEED

    def __post_init__(self) -> None:
        _shares("youden_j", self.youden_j)
        _shares("prevalences", self.prevalences)
        _sizes("n_golden", self.n_golden, least=10, most=MAX_GOLDEN)
        _sizes("n_units", self.n_units)
        _sizes("n_categories", (self.n_categories,), most=10)
        _sizes("replications", (self.replications,), most=MAX_REPLICATIONS)
        for name in ("error_correlation", "unlabelled", "unscored"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UndefinedError(name, getattr(self, name), "must lie in [0, 1)")
        if not 0.0 < self.positive_share < 1.0:
            raise UndefinedError("positive_share", self.positive_share, "must lie between 0 and 1")
        if max(self.youden_j) >= 1.0:
            raise UndefinedError("youden_j", max(self.youden_j), "must lie in [0, 1)")
        if self.instrument.kind != "scores":
            raise UndefinedError("instrument.kind", self.instrument.kind, "only scores have thresholds to fit")
        _level_and_seed(self.instrument.confidence_level, self.seed)
        cells = len(self.youden_j) * len(self.n_golden) * len(self.turns) * len(self.clusters)
        _grid("youden_j", cells * len(self.prevalences) * len(self.n_units), self.replications)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateSpec:
    """A calibration's certificate: the whole chain at that calibration's own counts and quality (SPEC 14.4).

    Attributes
    ----------
    prevalences : tuple of float in [0, 1]
    n_units : tuple of int
        Sizes of production, with the golden set's turn counts, independent.
    resamples : int
        Of the optimism bootstrap in each replication; few add noise to the optimism, not bias.
    replications : int
    seed : int
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    stage: Literal["certificate"] = "certificate"
    prevalences: tuple[float, ...] = (0.02, 0.1, 0.3)
    n_units: tuple[int, ...] = (400, 2000)
    resamples: int = 200
    replications: int = 1000
    seed: int = SEED

    def __post_init__(self) -> None:
        _shares("prevalences", self.prevalences)
        _sizes("n_units", self.n_units)
        _sizes("resamples", (self.resamples,), most=100_000)
        _sizes("replications", (self.replications,), most=MAX_REPLICATIONS)
        _level_and_seed(0.95, self.seed)
        _grid("prevalences", len(self.prevalences) * len(self.n_units), self.replications)


SimulationSpec = ObservedRateSpec | CorrectionSpec | ChainSpec | CertificateSpec
