"""What an instrument is declared to be: the frozen specs behind every calibration and measurement.

`__pydantic_config__` makes an unknown key an error when a spec is built from YAML or from flow parameters; it needs
no import here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal

from core.data.vocabulary import MAX_CATEGORIES, RESERVED_CATEGORIES, category_name
from core.errors import UndefinedError
from core.records import UNSAID

UNKNOWN = "unknown"
TURN_BINS = (1, 2, 3, 4, 8)
"""Upper edges of the turn strata: 1, 2, 3, 4, 5-8, and 9 or more turns."""

FORBID_UNKNOWN_KEYS = {"extra": "forbid"}

Attempts = Literal["each", "first", "last", "any"]
IntervalMethod = Literal["lang_reiczigel", "delta", "melded"]
TurnScope = Literal["all", "last"]
GoldenDesign = Literal["enriched", "random"]
Uncalibrated = Literal["no_champion", "other_judge", "champion_unknown"]


def _inside(field_name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        raise UndefinedError(field_name, value, f"must lie between {low:g} and {high:g}")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeIdentity:
    """Who gave the scores.

    Attributes
    ----------
    name, version : str
        ``unknown`` when nobody said.
    fingerprint : str
        Content hash of what determines the judge's answers; ``unknown`` for scores that came from elsewhere.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    name: str = UNKNOWN
    version: str = UNKNOWN
    fingerprint: str = UNKNOWN

    @classmethod
    def of(cls, text: str) -> JudgeIdentity:
        """Read ``name@version``; the version is unknown when there is no @.

        Examples
        --------
        >>> JudgeIdentity.of("vendor-guard@2026-10").version
        '2026-10'
        """
        name, _, version = text.partition("@")
        return cls(name=name.strip() or UNKNOWN, version=version.strip() or UNKNOWN)

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    def agrees_with(self, other: JudgeIdentity) -> bool:
        """Whether the two can be one judge: what both know is the same."""
        pairs = (
            (self.name, other.name),
            (self.version, other.version),
            (self.fingerprint, other.fingerprint),
        )
        return all(a == b or UNKNOWN in (a, b) for a, b in pairs)


@dataclass(frozen=True, slots=True, kw_only=True)
class OptimismSpec:
    """What is done about a threshold that looks better on the traces that chose it.

    Attributes
    ----------
    method : {'bootstrap', 'holdout', 'none'}
        ``bootstrap`` takes the optimism off; ``holdout`` chooses on one half of the clusters and measures on the
        other; ``none`` leaves sensitivity and specificity apparent, labelled so.
    resamples : int
        Of the bootstrap.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    method: Literal["bootstrap", "holdout", "none"] = "bootstrap"
    resamples: int = 1000

    def __post_init__(self) -> None:
        if not 1 <= self.resamples <= 100_000:
            raise UndefinedError("optimism.resamples", self.resamples, "must lie in [1, 100000]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdSpec:
    """What the thresholds are to make as large as possible (SPEC 3, 6.1).

    Attributes
    ----------
    objective : {'youden', 'composite_youden', 'composite_sensitivity'}
        Each category's own J; or, chosen together, the composite's J, or the composite's sensitivity with its
        specificity not below a floor.
    specificity_floor : float in (0, 1) or None
        Of ``composite_sensitivity``, which needs it; no other objective has one.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    objective: Literal["youden", "composite_youden", "composite_sensitivity"] = "youden"
    specificity_floor: float | None = None

    def __post_init__(self) -> None:
        field_name, floor = "thresholds.specificity_floor", self.specificity_floor
        if self.objective != "composite_sensitivity":
            if floor is not None:
                raise UndefinedError(field_name, floor, "only the objective composite_sensitivity has a floor")
        elif floor is None:
            raise UndefinedError(field_name, floor, "the objective composite_sensitivity needs one, such as 0.9")
        else:
            _inside(field_name, floor, 0.0, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class InstrumentSpec:
    """An instrument.

    Attributes
    ----------
    name : str
    kind : {'scores', 'detections'}
        Detections are decisions already: no threshold is chosen, so there is no optimism to correct (`settled`).
    categories : tuple of str or None
        Harm categories (or protected attributes); None takes those of the golden set (or of the detections).
    judge : JudgeIdentity or None
        Assumed for scores that do not name their judge.
    detection_floor : float in (0, 1)
        Youden's J below which no corrected rate is reported.
    confidence_level : float in (0, 1)
    optimism : OptimismSpec
    thresholds : ThresholdSpec
    turn_bins : tuple of int, increasing
        Upper edges of the turn strata; above the last is one more.
    slices : tuple of str
        Columns of the golden set by which sensitivity and specificity are broken down.
    allow_unmatched : bool
        Whether ids in only one of the two tables are left out and counted, or refused.
    interval : {'lang_reiczigel', 'delta', 'melded'}
    golden_design : {'enriched', 'random'}
        How the golden set was drawn: ``random`` is at random from the kind of production that is measured, which a
        measurement then holds against production's rate of flags (SPEC 13.3). It changes no corrected rate.
    mix_robust : bool
        Whether measurements show an interval that allows for production's mix of categories (SPEC 13.4).
    attempts : {'each', 'first', 'last', 'any'}
    turn_scope : {'all', 'last'}
        ``last``: the source scores only the last turn, so that holes in turn numbers are no loss.
    error_budget : float in [0, 1]
        Share of units not scored above which gates say insufficient evidence.
    seed : int
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    name: str = "instrument"
    kind: Literal["scores", "detections"] = "scores"
    categories: tuple[str, ...] | None = None
    judge: JudgeIdentity | None = None
    detection_floor: float = 0.20
    confidence_level: float = 0.95
    optimism: OptimismSpec = field(default_factory=OptimismSpec)
    thresholds: ThresholdSpec = field(default_factory=ThresholdSpec)
    turn_bins: tuple[int, ...] = TURN_BINS
    slices: tuple[str, ...] = ()
    allow_unmatched: bool = False
    interval: IntervalMethod = "lang_reiczigel"
    golden_design: GoldenDesign = "enriched"
    mix_robust: bool = field(default=False, metadata=UNSAID)
    attempts: Attempts = "each"
    turn_scope: TurnScope = "all"
    error_budget: float = 0.05
    seed: int = 20261129

    def __post_init__(self) -> None:
        _inside("detection_floor", self.detection_floor, 0.0, 1.0)
        _inside("confidence_level", self.confidence_level, 0.0, 1.0)
        if not 0.0 <= self.error_budget <= 1.0:
            raise UndefinedError("error_budget", self.error_budget, "must lie in [0, 1]")
        if not self.name.strip():
            raise UndefinedError("name", self.name, "an instrument needs a name")
        if self.seed < 0:
            raise UndefinedError("seed", self.seed, "must not be negative")
        bins = self.turn_bins
        if not bins or bins[0] < 1 or list(bins) != sorted(set(bins)) or len(bins) > 50:
            raise UndefinedError("turn_bins", list(bins), "1 to 50 increasing numbers of turns, from 1")
        if self.categories is not None:
            object.__setattr__(self, "categories", tuple(map(category_name, self.categories)))
            check_categories(self.categories)


def check_categories(categories: tuple[str, ...]) -> None:
    """Refuse a list of categories that is empty, too long, or holds a name twice."""
    if not 1 <= len(categories) <= MAX_CATEGORIES:
        raise UndefinedError("categories", len(categories), f"1 to {MAX_CATEGORIES} are possible")
    if len(set(categories)) < len(categories) or not all(categories):
        raise UndefinedError("categories", list(categories), "each needs a name of its own")
    if reserved := RESERVED_CATEGORIES.intersection(categories):
        raise UndefinedError("categories", sorted(reserved), "these names are assay's own; choose others")


def settled(spec: InstrumentSpec) -> InstrumentSpec:
    """Return the instrument as it is calibrated: one of kind detections has no optimism to correct (SPEC 4.1).

    Examples
    --------
    >>> settled(InstrumentSpec(kind="detections")).optimism.method
    'none'

    Raises
    ------
    UndefinedError
        Detections with thresholds to choose, or with optimism to correct.
    """
    if spec.kind == "scores":
        return spec
    if spec.thresholds != ThresholdSpec():
        raise UndefinedError(
            "thresholds.objective",
            spec.thresholds.objective,
            "a detection is a decision: it has no threshold to choose",
        )
    if spec.optimism.method != "none" and spec.optimism != OptimismSpec():
        raise UndefinedError(
            "optimism.method", spec.optimism.method,
            "a detection is a decision: no threshold is chosen on the golden set, so no optimism; leave it out",
        )  # fmt: skip
    return replace(spec, optimism=OptimismSpec(method="none"))


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredRates:
    """Sensitivity and specificity that were measured elsewhere, with the numbers behind them."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    sensitivity: float
    n_positive: int
    specificity: float
    n_negative: int
    source: str
    threshold: float | None = None

    def __post_init__(self) -> None:
        for name in ("sensitivity", "specificity"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UndefinedError(name, getattr(self, name), "must lie in [0, 1]")
        for name in ("n_positive", "n_negative"):
            if getattr(self, name) < 1:
                raise UndefinedError(name, getattr(self, name), "how many traces are behind it? At least 1")
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise UndefinedError("threshold", self.threshold, "must lie in (0, 1]; at 0 every trace is flagged")
        if not self.source.strip():
            raise UndefinedError("source", self.source, "say where the figure comes from")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSpec:
    """An instrument whose thresholds, sensitivity and specificity come from elsewhere."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    name: str
    judge: JudgeIdentity
    categories: Mapping[str, DeclaredRates]
    composite: DeclaredRates | None = None
    calibration_source: Literal["declared"] = "declared"
    detection_floor: float = 0.20
    confidence_level: float = 0.95
    interval: IntervalMethod = "lang_reiczigel"
    attempts: Attempts = "each"
    turn_scope: TurnScope = "all"
    error_budget: float = 0.05
    seed: int = 20261129

    def __post_init__(self) -> None:
        _inside("detection_floor", self.detection_floor, 0.0, 1.0)
        _inside("confidence_level", self.confidence_level, 0.0, 1.0)
        named = {category_name(name): rates for name, rates in self.categories.items()}
        check_categories(tuple(named))
        for name, rates in named.items():
            if rates.threshold is None:
                raise UndefinedError(f"categories.{name}.threshold", None, "a category needs its threshold")
        object.__setattr__(self, "categories", named)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasurementSpec:
    """What a measurement was asked for: the spec of its record.

    Attributes
    ----------
    kind : {'scores', 'detections'}
    instrument : str
    categories : tuple of str or None
        Of detections that are measured without a calibration; else they are the calibration's.
    judge : JudgeIdentity or None
        Assumed for detections that do not name their detector.
    uncalibrated : {'no_champion', 'other_judge', 'champion_unknown'} or None
        Why scores are measured without a calibration, where they are.
    target : str or None
    allow_unmatched : bool
        Whether labels of traces that are not in production are left out and counted, or refused.
    attempts, turn_scope, accept_judge, confidence_level, interval, detection_floor, error_budget, turn_bins, seed
        As in `InstrumentSpec`.
    mix_robust : bool
        As in `InstrumentSpec`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    kind: Literal["scores", "detections"] = "scores"
    instrument: str
    categories: tuple[str, ...] | None = None
    judge: JudgeIdentity | None = None
    uncalibrated: Uncalibrated | None = None
    target: str | None = None
    attempts: Attempts = "each"
    turn_scope: TurnScope = "all"
    accept_judge: bool = False
    confidence_level: float = 0.95
    interval: IntervalMethod = "lang_reiczigel"
    detection_floor: float = 0.20
    error_budget: float = 0.05
    turn_bins: tuple[int, ...] = TURN_BINS
    allow_unmatched: bool = field(default=False, metadata=UNSAID)
    mix_robust: bool = field(default=False, metadata=UNSAID)
    seed: int
