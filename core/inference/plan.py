"""What a plan says (SPEC 11): the frozen records of a design and of what it was made from."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Literal

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.power import check_rates, flag_rate
from core.inference.prevalence import FloorStatus

DEFAULT_POWER = 0.80
"""Power of a plan unless the user says otherwise."""

LARGEST = 10**12
"""No size above this is planned: a goal that needs more is called unreachable."""

Goal = Literal["half_width", "limit_of_detection", "difference"]

PlanStatus = Literal["reached", "not_reached", "unreachable", "below_detection_floor"]

SizeName = Literal["n_production", "n_positive", "n_negative"]

GoldenClass = Literal["n_positive", "n_negative"]

NAMES: tuple[SizeName, ...] = ("n_production", "n_positive", "n_negative")

SizeMap = dict[SizeName, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What one more trace costs, in any one unit.

    Attributes
    ----------
    production : float
        One production trace, run and judged; above 0.
    positive, negative : float
        One golden trace of the class, found and labelled; above 0.
    """

    production: float = 0.01
    positive: float = 1.0
    negative: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what is free or negative: the cheapest plan would not exist."""
        for name in ("production", "positive", "negative"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0.0):
                raise UndefinedError(name, value, "a cost is finite and above 0")

    def total(self, sizes: Sizes) -> float:
        """Return what a design costs."""
        return (
            self.production * sizes.n_production + self.positive * sizes.n_positive + self.negative * sizes.n_negative
        )


DEFAULT_COSTS = Costs()
"""Assumed where a plan has to weigh labels against production traces and nobody said what they cost: a label costs as
much as a hundred traces, and the two classes the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Production traces, and golden traces of each class: independent traces, or effective ones (SPEC 5)."""

    n_production: int
    n_positive: int
    n_negative: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSizes:
    """The sizes that the user fixed; None for those that the plan was to find."""

    n_production: int | None = None
    n_positive: int | None = None
    n_negative: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumed:
    """What a plan takes to be true; the figures are as good as these.

    Attributes
    ----------
    prevalence : float
        Rate of violations, in [0, 1]: for a limit of detection, the limit.
    sensitivity, specificity : float
        Of the judge at its deployed threshold, in [0, 1].
    youden_j, flag_rate : float
        What follows from them.
    detection_floor : float
    """

    prevalence: float
    sensitivity: float
    specificity: float
    youden_j: float
    flag_rate: float
    detection_floor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class VarianceShares:
    """Where the variance of the corrected rate comes from; the three shares sum to 1."""

    production: float
    positives: float
    negatives: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A design that reaches the goal, and which of the given sizes it changes."""

    changed: tuple[SizeName, ...]
    sizes: Sizes
    added_cost: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDifference:
    """What a plan for a difference assumes and finds (SPEC 11.3).

    Attributes
    ----------
    baseline_prevalence, candidate_prevalence : float
    paired : bool
        Whether the same traces (attacks, prompts) are given to both versions.
    baseline_only, candidate_only : float or None
        Shares of pairs flagged in one version alone; None when unpaired.
    correlation : float or None
        Of the two versions' flags, when it was given or follows.
    n_comparisons : int
        Tests among which the level is divided.
    interval_half_width, interval_half_width_limit : float or None
        Half width of the interval of the corrected difference with the planned N, and with unlimited N: what the
        golden set leaves. None without golden sizes.
    detectable : float or None
        The least difference in the wanted direction that the planned N finds with the power.
    """

    baseline_prevalence: float
    candidate_prevalence: float
    paired: bool
    baseline_only: float | None
    candidate_only: float | None
    correlation: float | None
    n_comparisons: int
    interval_half_width: float | None
    interval_half_width_limit: float | None
    detectable: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A design and what it reaches, or why none does (SPEC 11).

    Attributes
    ----------
    goal : str
        ``half_width``, ``limit_of_detection`` or ``difference``.
    target : float
        What was wanted.
    status : str
        ``reached``; ``not_reached`` (every size was given and they are too small); ``unreachable`` (the given sizes
        are too small whatever the free ones are); ``below_detection_floor`` (no golden set mends this judge).
    reason : str or None
        Why it is not reached, in words.
    method : str
        The formula that the sizes were checked against.
    assumed : Assumed
    confidence_level : float
    power : float or None
        Wanted power; None for a half width.
    given : GivenSizes
    sizes : Sizes or None
        The design: as given where it was given. Of a difference only ``n_production`` (traces of each version)
        decides; its golden sizes are those given, or 0. None when nothing was found.
    achieved : float or None
        Half width, limit of detection or detectable difference with ``sizes``.
    achieved_power : float or None
        Power with ``sizes`` at the target.
    limit : float or None
        ``achieved`` with unlimited production and this golden set; where nothing was found, with every free size
        unlimited. A limit of detection can come out a little above ``achieved``, as golden counts are whole. None
        for a difference, which more pairs always make finer.
    production_helps : bool or None
        Whether unlimited production would improve ``achieved`` by 5% or more.
    grow : str or None
        The golden class whose doubling improves the figure most for what it costs; None where neither does.
    variance : VarianceShares or None
    known_judge : int or None
        Production traces for the half width if sensitivity and specificity were known exactly; None where the judge
        would flag nothing, or everything.
    closed_form : float or None
        Production traces for the goal by the textbook formula with calibration error; None where it has none.
    judge_status : str or None
        What the calibration is expected to say of the judge: gates read ``inconclusive`` as insufficient evidence.
    costs : Costs
    cost : float or None
    changes : tuple of Change
        For a goal that is not reached: designs that reach it, the cheapest first.
    difference : PlannedDifference or None
    notes : tuple of str
    """

    goal: Goal
    target: float
    status: PlanStatus
    reason: str | None = None
    method: str
    assumed: Assumed
    confidence_level: float
    power: float | None = None
    given: GivenSizes
    sizes: Sizes | None = None
    achieved: float | None = None
    achieved_power: float | None = None
    limit: float | None = None
    production_helps: bool | None = None
    grow: GoldenClass | None = None
    variance: VarianceShares | None = None
    known_judge: int | None = None
    closed_form: float | None = None
    judge_status: FloorStatus | None = None
    costs: Costs = DEFAULT_COSTS
    cost: float | None = None
    changes: tuple[Change, ...] = ()
    difference: PlannedDifference | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One line of a figure: y over x."""

    name: str
    x: tuple[float, ...]
    y: tuple[float | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """What a design's figure of merit is for other numbers of production traces.

    Attributes
    ----------
    y_quantity : str
        ``half_width`` or ``power``; x is always the number of production traces (of each version).
    target : float
        The wanted half width or power: a horizontal line.
    planned : int or None
        The design's number: a vertical line.
    series : tuple of Series
    """

    y_quantity: Literal["half_width", "power"]
    target: float
    planned: int | None
    series: tuple[Series, ...]


def assumed_judge(prevalence: float, sensitivity: float, specificity: float, detection_floor: float) -> Assumed:
    """Put what is assumed together with what follows from it; a rate outside [0, 1] is refused."""
    check_rates(
        prevalence=prevalence, sensitivity=sensitivity, specificity=specificity, detection_floor=detection_floor
    )
    return Assumed(
        prevalence=prevalence,
        sensitivity=sensitivity,
        specificity=specificity,
        youden_j=sensitivity + specificity - 1.0,
        flag_rate=flag_rate(prevalence, sensitivity, specificity),
        detection_floor=detection_floor,
    )


def given_sizes(n_production: int | None, n_positive: int | None, n_negative: int | None) -> GivenSizes:
    """Gather the fixed sizes; one below 5, with which nothing is measured, is refused."""
    given = GivenSizes(n_production=n_production, n_positive=n_positive, n_negative=n_negative)
    for field in fields(given):
        size = getattr(given, field.name)
        if size is not None and not MIN_CLUSTERS <= size <= LARGEST:
            raise UndefinedError(field.name, size, f"must lie between {MIN_CLUSTERS} and {LARGEST}")
    return given
