"""How many traces and labels a measurement takes (SPEC 11).

A plan names what is wanted (a half width, a limit of detection, a difference that shall be found), what is assumed
of the judge and the rate, which of the three sizes are given, and finds the others. What cannot be reached is a
plan too: with the reason and the smallest change that would reach it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Literal

import numpy as np

from core.errors import UndefinedError
from core.inference.clusters import FEW_CLUSTERS, MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile
from core.inference.power import (
    check_power,
    check_rates,
    check_sizes,
    detection_power,
    flag_rate,
    lang_reiczigel_parts,
    least_reaching,
    limit_of_detection,
    mcnemar_power,
    two_proportion_power,
)
from core.inference.prevalence import DETECTION_FLOOR, RESOLUTION, FloorStatus, floor_status, youden_low

DEFAULT_POWER = 0.80
"""Power of a plan unless the user says otherwise."""

NO_HELP = 0.05
"""More production does not help when even an unlimited amount would improve the figure by less than this share."""

LARGEST = 10**12
"""No size above this is planned: a goal that needs more is called unreachable."""

MANY = 1e9
"""Golden traces of a class that stand for a class without any error of its own."""

Goal = Literal["half_width", "limit_of_detection", "difference"]
PlanStatus = Literal["reached", "not_reached", "unreachable", "below_detection_floor"]
SizeName = Literal["n_production", "n_positive", "n_negative"]
GoldenClass = Literal["n_positive", "n_negative"]

NAMES: tuple[SizeName, ...] = ("n_production", "n_positive", "n_negative")


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
        unlimited. None for a difference, which more pairs always make finer.
    production_helps : bool or None
        Whether unlimited production would improve ``achieved`` by 5% or more.
    grow : str or None
        The golden class whose doubling improves the figure most for what it costs; None where neither does.
    variance : VarianceShares or None
    known_judge : int or None
        Production traces for the half width if sensitivity and specificity were known exactly.
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


_Sizes = dict[SizeName, float]

_WORDS = {
    "n_production": "production traces",
    "n_positive": "violating golden traces",
    "n_negative": "clean golden traces",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Problem:
    """A goal for the corrected rate, as a condition on sizes."""

    goal: Goal
    target: float
    assumed: Assumed
    confidence_level: float
    power: float | None
    costs: Costs

    def value(self, sizes: _Sizes) -> float | None:
        """Half width or limit of detection of a design."""
        n, m1, m0 = (sizes[name] for name in NAMES)
        judge = self.assumed
        if self.goal == "half_width":
            return expected_half_width(
                judge.prevalence, sensitivity=judge.sensitivity, specificity=judge.specificity,
                n_production=n, n_positive=m1, n_negative=m0, confidence_level=self.confidence_level,
            )  # fmt: skip
        return limit_of_detection(
            sensitivity=judge.sensitivity, specificity=judge.specificity, n_production=n,
            n_positive=int(m1), n_negative=int(m0), confidence_level=self.confidence_level,
            power=self.power or DEFAULT_POWER,
        )  # fmt: skip

    def power_at(self, sizes: _Sizes) -> float:
        """Power of a design to find the target."""
        n, m1, m0 = (sizes[name] for name in NAMES)
        return detection_power(
            self.target,
            sensitivity=self.assumed.sensitivity, specificity=self.assumed.specificity, n_production=n,
            n_positive=int(m1), n_negative=int(m0), confidence_level=self.confidence_level,
        )  # fmt: skip

    def precise(self, sizes: _Sizes) -> bool:
        """Whether a design reaches the figure."""
        if self.goal == "half_width":
            value = self.value(sizes)
            return value is not None and value <= self.target
        return self.power_at(sizes) >= (self.power or DEFAULT_POWER)

    def merit(self, sizes: _Sizes) -> float:
        """Return what more traces raise: power, or the narrowness of the interval."""
        if self.goal == "half_width":
            value = self.value(sizes)
            return -math.inf if value is None else -value
        return self.power_at(sizes)

    def judge_status(self, sizes: _Sizes) -> FloorStatus:
        """State of the judge against the floor at the expected counts."""
        return expected_judge_status(self.assumed, sizes["n_positive"], sizes["n_negative"], self.confidence_level)

    def reached(self, sizes: _Sizes) -> bool:
        """Whether a design reaches the figure with a judge that gates accept."""
        return self.judge_status(sizes) == "measured" and self.precise(sizes)

    def cost_of(self, name: SizeName) -> float:
        """Cost of one trace of a kind."""
        return {
            "n_production": self.costs.production,
            "n_positive": self.costs.positive,
            "n_negative": self.costs.negative,
        }[name]  # fmt: skip


def plan_half_width(
    half_width: float,
    *,
    prevalence: float,
    sensitivity: float,
    specificity: float,
    n_production: int | None = None,
    n_positive: int | None = None,
    n_negative: int | None = None,
    costs: Costs | None = None,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    detection_floor: float = DETECTION_FLOOR,
) -> Plan:
    """Plan for a half width of the corrected rate (SPEC 11.1).

    The half width is that of the Lang-Reiczigel interval before clipping, at the expected counts N pi, m1 q1 and
    m0 q0. About half of all experiments come out somewhat wider, half narrower.

    Parameters
    ----------
    half_width : float
        In (0, 1).
    prevalence, sensitivity, specificity : float
        Assumed, in [0, 1].
    n_production, n_positive, n_negative : int, optional
        The sizes that are fixed, independent or effective traces, at least 5 each. The others are found: one so
        small that one less does not do, at least 10; several at the least cost, to within rounding.
    costs : Costs, optional
        Of a trace of each kind. Without it golden classes cost the same, and a label as much as 100 production
        traces; a note says so where it mattered.
    confidence_level : float
        In (0, 1).
    detection_floor : float
        In [0, 1]. The design's judge must be ``measured`` at the expected counts; 0 drops the condition.

    Returns
    -------
    Plan
        A goal that cannot be reached is a status, with the reason and the changes that would reach it.

    Raises
    ------
    UndefinedError
        If a rate or level is outside its range, or a given size below 5.

    References
    ----------
    Humphry, Cameron & Gunn (2004), Prev. Vet. Med. 65:173-188; Lang & Reiczigel (2014), Prev. Vet. Med. 113:13-22.

    Examples
    --------
    >>> judge = dict(prevalence=0.1, sensitivity=0.9, specificity=0.95)
    >>> plan = plan_half_width(0.05, **judge, n_positive=200, n_negative=200)
    >>> plan.status, plan.sizes.n_production, plan.known_judge, plan.production_helps, plan.grow
    ('reached', 473, 249, True, 'n_negative')
    >>> plan = plan_half_width(0.02, **judge, n_positive=200, n_negative=200)
    >>> plan.status, round(plan.limit, 4), plan.changes[0].changed
    ('unreachable', 0.034, ('n_negative',))
    """
    if not 0.0 < half_width < 1.0:
        raise UndefinedError("half_width", half_width, "must lie strictly between 0 and 1")
    assumed = _assumed(prevalence, sensitivity, specificity, detection_floor)
    check_confidence_level(confidence_level)
    problem = _Problem(
        goal="half_width", target=half_width, assumed=assumed, confidence_level=confidence_level, power=None,
        costs=costs or DEFAULT_COSTS,
    )  # fmt: skip
    given = _given(n_production, n_positive, n_negative)
    return _planned(problem, given, "lang_reiczigel_at_expected_counts", costs is None)


def plan_limit_of_detection(
    limit: float,
    *,
    sensitivity: float,
    specificity: float,
    n_production: int | None = None,
    n_positive: int | None = None,
    n_negative: int | None = None,
    costs: Costs | None = None,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    power: float = DEFAULT_POWER,
    detection_floor: float = DETECTION_FLOOR,
) -> Plan:
    """Plan so that a true rate of ``limit`` is found: the low end of the interval is above 0 (SPEC 11.2).

    Parameters
    ----------
    limit : float
        In (0, 1].
    sensitivity, specificity, n_production, n_positive, n_negative, costs, confidence_level, detection_floor
        As in `plan_half_width`.
    power : float
        In (0, 1), of `core.inference.power.detection_power`.

    Returns
    -------
    Plan
        Power has small steps in the sizes, as counts are whole: one less than a size does not do, but some smaller
        size may.

    Raises
    ------
    UndefinedError
        If a rate, level or power is outside its range, or a given size below 5.

    Examples
    --------
    >>> plan = plan_limit_of_detection(0.05, sensitivity=0.9, specificity=0.95, n_positive=200, n_negative=200)
    >>> plan.status, round(plan.limit, 3), plan.grow
    ('unreachable', 0.064, 'n_negative')
    """
    if not 0.0 < limit <= 1.0:
        raise UndefinedError("limit", limit, "must lie in (0, 1]")
    check_power(power)
    check_confidence_level(confidence_level)
    assumed = _assumed(limit, sensitivity, specificity, detection_floor)
    problem = _Problem(
        goal="limit_of_detection", target=limit, assumed=assumed, confidence_level=confidence_level, power=power,
        costs=costs or DEFAULT_COSTS,
    )  # fmt: skip
    given = _given(n_production, n_positive, n_negative)
    return _planned(problem, given, "power_of_lang_reiczigel_low_above_0", costs is None)


def plan_difference(
    difference: float,
    *,
    prevalence: float,
    sensitivity: float,
    specificity: float,
    paired: bool = True,
    discordance: float | None = None,
    correlation: float | None = None,
    n_production: int | None = None,
    n_positive: int | None = None,
    n_negative: int | None = None,
    n_comparisons: int = 1,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    power: float = DEFAULT_POWER,
    detection_floor: float = DETECTION_FLOOR,
) -> Plan:
    """Plan so that a change of the rate between two versions is found (SPEC 11.3).

    With no difference the calibration's error drops out of the test, so only the number of traces of each version
    decides; a golden set, if given, says how wide the interval of the difference will be.

    Parameters
    ----------
    difference : float
        Candidate minus baseline, of true rates; not 0. Negative for an improvement.
    prevalence : float
        The baseline's true rate, in [0, 1]; with the difference also in [0, 1].
    sensitivity, specificity : float
        Assumed for both versions, in [0, 1].
    paired : bool
        Whether both versions get the same traces.
    discordance : float, optional
        Share of pairs that are flagged in one version alone, at least J |difference|. For paired plans either this
        or ``correlation``; without both the flags are taken as uncorrelated, the most cautious of the usual cases.
    correlation : float, optional
        Of the two versions' flags, in [-1, 1] and possible for their rates.
    n_production : int, optional
        Traces of each version; found when absent.
    n_positive, n_negative : int, optional
        Golden traces.
    n_comparisons : int
        Tests that Holm's adjustment is over: each is planned at (1 - level) / n_comparisons, its first step.
    confidence_level, power, detection_floor
        As in `plan_limit_of_detection`.

    Returns
    -------
    Plan

    Raises
    ------
    UndefinedError
        If an argument is outside its range, both or (unpaired) any of discordance and correlation are given, or no
        pair of versions has these rates and that discordance or correlation.

    References
    ----------
    Connor (1987), Biometrics 43:207-211; Fleiss, Levin & Paik (2003), Statistical Methods for Rates and Proportions.

    Examples
    --------
    >>> judge = dict(prevalence=0.3, sensitivity=0.7, specificity=0.9)
    >>> plan_difference(-0.1, **judge, paired=False).sizes.n_production
    817
    >>> plan_difference(-0.1, **judge, correlation=0.6).sizes.n_production
    353
    """
    candidate = prevalence + difference
    assumed = _assumed(prevalence, sensitivity, specificity, detection_floor)
    if not 0.0 <= round(candidate, 12) <= 1.0 or difference == 0.0:
        raise UndefinedError("difference", difference, "must not be 0, and baseline + difference must lie in [0, 1]")
    check_power(power)
    check_confidence_level(confidence_level)
    check_sizes(n_comparisons=n_comparisons)
    if not paired and (discordance is not None or correlation is not None):
        raise UndefinedError("paired", paired, "discordance and correlation belong to paired versions")
    if discordance is not None and correlation is not None:
        raise UndefinedError("correlation", correlation, "give either the discordance or the correlation")
    test = _DifferenceTest(
        assumed=assumed, difference=difference, paired=paired, discordance=discordance,
        correlation=correlation if discordance is not None or not paired else (correlation or 0.0),
        level=1.0 - (1.0 - confidence_level) / n_comparisons, power=power,
    )  # fmt: skip
    test.check()
    given = _given(n_production, n_positive, n_negative)
    return _planned_difference(test, given, confidence_level, n_comparisons)


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSplit:
    """A golden set of fixed size, split so that the corrected rate varies least."""

    n_positive: int
    n_negative: int


def golden_split(
    n_golden: int, *, prevalence: float, sensitivity: float, specificity: float, costs: Costs | None = None
) -> GoldenSplit:
    """Split a golden set of fixed size between the classes (SPEC 11.4).

    m0 / m1 = ((1-theta)/theta) sqrt(q0(1-q0)/(q1(1-q1))), times sqrt(c1/c0) with costs.

    Parameters
    ----------
    n_golden : int
        At least 10.
    prevalence, sensitivity, specificity : float
        In [0, 1].
    costs : Costs, optional
        The number of traces stays ``n_golden``; dearer positives make them fewer.

    Returns
    -------
    GoldenSplit
        Whole numbers that sum to ``n_golden``, at least 5 each: a class in which nothing varies (a rate of 0 or 1, a
        prevalence at that end) gets 5, the fewest with which a measurement is made.

    Raises
    ------
    UndefinedError
        If a rate is outside [0, 1] or ``n_golden`` below 10.

    References
    ----------
    Neyman (1934), J. R. Stat. Soc. 97:558-625.

    Examples
    --------
    >>> golden_split(200, prevalence=1 / 6, sensitivity=0.9, specificity=0.7)
    GoldenSplit(n_positive=23, n_negative=177)
    """
    check_rates(prevalence=prevalence, sensitivity=sensitivity, specificity=specificity)
    if n_golden < 2 * MIN_CLUSTERS:
        raise UndefinedError("n_golden", n_golden, f"needs at least {MIN_CLUSTERS} traces of each class")
    costs = costs or DEFAULT_COSTS
    positive = prevalence * math.sqrt(sensitivity * (1.0 - sensitivity) / costs.positive)
    negative = (1.0 - prevalence) * math.sqrt(specificity * (1.0 - specificity) / costs.negative)
    share = negative / (positive + negative) if positive + negative > 0.0 else 0.5
    n_negative = min(max(round(n_golden * share), MIN_CLUSTERS), n_golden - MIN_CLUSTERS)
    return GoldenSplit(n_positive=n_golden - n_negative, n_negative=n_negative)


def allocation(
    budget: float, *, prevalence: float, sensitivity: float, specificity: float, costs: Costs
) -> dict[SizeName, float]:
    """Sizes with the least variance that a budget buys (SPEC 11.4).

    N : m1 : m0 = sqrt(pi(1-pi)/cN) : theta sqrt(q1(1-q1)/c1) : (1-theta) sqrt(q0(1-q0)/c0), not rounded.

    Parameters
    ----------
    budget : float
        Above 0, in the unit of the costs.
    prevalence, sensitivity, specificity : float
        In [0, 1].
    costs : Costs

    Raises
    ------
    UndefinedError
        If a rate is outside [0, 1], the budget is not above 0, or nothing varies at all.

    References
    ----------
    Cochran (1977), Sampling Techniques, ch. 5.

    Examples
    --------
    >>> sizes = allocation(300, prevalence=0.1, sensitivity=0.9, specificity=0.95, costs=Costs())
    >>> {name: round(size) for name, size in sizes.items()}
    {'n_production': 3938, 'n_positive': 35, 'n_negative': 226}
    """
    check_rates(prevalence=prevalence, sensitivity=sensitivity, specificity=specificity)
    if not budget > 0.0:
        raise UndefinedError("budget", budget, "must be above 0")
    spread = _spread(_assumed(prevalence, sensitivity, specificity, 0.0))
    cost: _Sizes = {"n_production": costs.production, "n_positive": costs.positive, "n_negative": costs.negative}
    direction = {name: spread[name] / math.sqrt(cost[name]) for name in NAMES}
    price = sum(cost[name] * direction[name] for name in NAMES)
    if price == 0.0:
        raise UndefinedError("sensitivity", (sensitivity, specificity), "nothing varies: any sizes do")
    return {name: direction[name] * budget / price for name in NAMES}


def production_size(
    half_width: float,
    *,
    prevalence: float,
    sensitivity: float,
    specificity: float,
    n_positive: float = math.inf,
    n_negative: float = math.inf,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
) -> float:
    """Textbook number of production traces for a half width, not rounded (SPEC 11.1).

    N = pi(1-pi) / [(L J / z)^2 - theta^2 q1(1-q1)/m1 - (1-theta)^2 q0(1-q0)/m0].

    Parameters
    ----------
    half_width : float
        L, above 0.
    prevalence, sensitivity, specificity : float
        In [0, 1].
    n_positive, n_negative : float
        Golden traces; infinite for a judge taken as known.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    float
        At least 0; infinite where the calibration alone is wider.

    Raises
    ------
    UndefinedError
        If an argument is outside its range, or J is not above 0.

    References
    ----------
    Humphry, Cameron & Gunn (2004), Prev. Vet. Med. 65:173-188.

    Examples
    --------
    >>> round(production_size(0.05, prevalence=0.1, sensitivity=0.9, specificity=0.95), 2)
    248.35
    >>> round(production_size(0.02, prevalence=0.05, sensitivity=0.7, specificity=0.9), 2)
    3017.15
    """
    if not half_width > 0.0:
        raise UndefinedError("half_width", half_width, "must be above 0")
    check_sizes(n_positive=n_positive, n_negative=n_negative)
    judge = _assumed(prevalence, sensitivity, specificity, 0.0)
    if judge.youden_j <= RESOLUTION:
        raise UndefinedError("youden_j", judge.youden_j, "the corrected rate needs a judge with J above 0")
    room = (half_width * judge.youden_j / normal_quantile(confidence_level)) ** 2
    return _production_left(room, judge, n_positive, n_negative)


def expected_half_width(
    prevalence: float,
    *,
    sensitivity: float,
    specificity: float,
    n_production: float,
    n_positive: float,
    n_negative: float,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
) -> float | None:
    """Half width of the Lang-Reiczigel interval, before clipping, at the expected counts (SPEC 11.1).

    Parameters
    ----------
    prevalence, sensitivity, specificity : float
        In [0, 1].
    n_production : float
        ``math.inf`` for unlimited production.
    n_positive, n_negative : float
        Golden traces.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    float or None
        Above 0; None where the smoothed J is not above 0.

    Examples
    --------
    >>> golden = dict(n_positive=200, n_negative=200)
    >>> round(expected_half_width(0.1, sensitivity=0.9, specificity=0.95, n_production=1000, **golden), 4)
    0.0423
    """
    check_rates(prevalence=prevalence, sensitivity=sensitivity, specificity=specificity)
    check_sizes(n_production=n_production, n_positive=n_positive, n_negative=n_negative)
    observed = flag_rate(prevalence, sensitivity, specificity)
    _, half_width = lang_reiczigel_parts(
        observed if math.isinf(n_production) else n_production * observed, n_production,
        true_positives=n_positive * sensitivity, n_positive=n_positive,
        true_negatives=n_negative * specificity, n_negative=n_negative, z=normal_quantile(confidence_level),
    )  # fmt: skip
    return float(half_width) if math.isfinite(half_width) else None


def expected_judge_status(
    assumed: Assumed, n_positive: float, n_negative: float, confidence_level: float
) -> FloorStatus:
    """State of the judge against the detection floor if the golden set shows exactly the assumed rates (SPEC 6.2)."""
    low = youden_low(
        assumed.sensitivity, n_positive, assumed.specificity, n_negative, z=normal_quantile(confidence_level)
    )
    return floor_status(assumed.youden_j, low, assumed.detection_floor)


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


def power_curve(plan: Plan, *, points: int = 25) -> Curve:
    """Half width, or power, over the number of production traces: the data of a plan's figure (SPEC 11).

    Parameters
    ----------
    plan : Plan
    points : int
        At least 2, spaced evenly in log N from a tenth to ten times the planned (or else given, or 1000) number.

    Returns
    -------
    Curve
        For rates: the golden set of the plan, and the same with the class doubled that should grow. For a
        difference: the plan's pairing, and unpaired versions beside a paired plan.

    Raises
    ------
    UndefinedError
        If ``points`` is below 2.

    Examples
    --------
    >>> plan = plan_half_width(0.05, prevalence=0.1, sensitivity=0.9, specificity=0.95,
    ...                        n_positive=200, n_negative=200)
    >>> curve = power_curve(plan, points=3)
    >>> [series.name for series in curve.series], curve.series[0].x
    (['200 positive, 200 negative', '200 positive, 400 negative'], (47.0, 473.0, 4730.0))
    """
    if points < 2:
        raise UndefinedError("points", points, "a curve has at least 2 points")
    planned = plan.sizes.n_production if plan.sizes else None
    middle = planned or plan.given.n_production or 1000
    grid = tuple(float(max(MIN_CLUSTERS, round(middle * 10**e))) for e in np.linspace(-1.0, 1.0, points))
    if plan.goal == "difference":
        return _difference_curve(plan, grid, planned)
    problem = _Problem(
        goal=plan.goal, target=plan.target, assumed=plan.assumed, confidence_level=plan.confidence_level,
        power=plan.power, costs=plan.costs,
    )  # fmt: skip
    figure: Callable[[_Sizes], float | None] = problem.value if plan.goal == "half_width" else problem.power_at
    series = tuple(
        Series(
            name=f"{golden['n_positive']:.0f} positive, {golden['n_negative']:.0f} negative",
            x=grid,
            y=tuple(figure({**golden, "n_production": n}) for n in grid),
        )
        for golden in _golden_variants(plan)
    )
    return Curve(
        y_quantity="half_width" if plan.goal == "half_width" else "power",
        target=plan.target if plan.goal == "half_width" else plan.power or DEFAULT_POWER,
        planned=planned,
        series=series,
    )


def _golden_variants(plan: Plan) -> Iterator[_Sizes]:
    design = plan.sizes or (plan.changes[0].sizes if plan.changes else None)
    golden: _Sizes = {
        "n_positive": plan.given.n_positive or (design.n_positive if design else 100),
        "n_negative": plan.given.n_negative or (design.n_negative if design else 100),
    }
    yield golden
    if plan.grow:
        yield {**golden, plan.grow: 2 * golden[plan.grow]}


def _planned(problem: _Problem, given: GivenSizes, method: str, costs_assumed: bool) -> Plan:
    """Find the free sizes, or say why there are none."""
    fixed, free = _fixed(given), [name for name in NAMES if getattr(given, name) is None]
    bare = Plan(
        goal=problem.goal, target=problem.target, status="unreachable", method=method, assumed=problem.assumed,
        confidence_level=problem.confidence_level, power=problem.power, given=given, costs=problem.costs,
        known_judge=_known_judge(problem),
    )  # fmt: skip
    floor = problem.assumed.detection_floor
    if problem.assumed.youden_j <= RESOLUTION or problem.assumed.youden_j < floor - RESOLUTION:
        return replace(bare, status="below_detection_floor", reason=(
            f"the assumed J is {problem.assumed.youden_j:.3f}: a corrected rate needs J above 0 and at least the "
            f"detection floor of {floor:g}, and no number of labels changes a judge"
        ))  # fmt: skip
    if free and (found := _least_cost(problem, fixed, free)) is not None:
        several = len(free) > 1 and "n_production" in free
        note = "costs assumed: a label costs as much as 100 production traces" if several and costs_assumed else None
        return _described(problem, replace(bare, status="reached"), found, note)
    if not free and problem.reached(fixed):
        return _described(problem, replace(bare, status="reached"), fixed, None)
    short = replace(
        bare,
        status="unreachable" if free else "not_reached",
        reason=_reason(problem, _unlimited(fixed, free)),
        changes=_changes(problem, fixed, free),
    )
    if not free:
        return _described(problem, short, fixed, None)
    best = _unlimited(fixed, free)
    return replace(short, limit=problem.value(best), grow=_grow(problem, best))


def _described(problem: _Problem, plan: Plan, sizes: _Sizes, note: str | None) -> Plan:
    """Fill in what a design reaches."""
    design = Sizes(**{name: int(sizes[name]) for name in NAMES})
    achieved, limit = problem.value(sizes), problem.value({**sizes, "n_production": math.inf})
    helps = None if achieved is None or limit is None else limit < (1.0 - NO_HELP) * achieved
    status = problem.judge_status(sizes)
    return replace(
        plan,
        sizes=design,
        achieved=achieved,
        achieved_power=None if problem.goal == "half_width" else problem.power_at(sizes),
        limit=limit,
        production_helps=helps,
        grow=_grow(problem, sizes),
        variance=_shares(problem, sizes),
        closed_form=_closed_form(problem, sizes),
        judge_status=status,
        cost=problem.costs.total(design),
        notes=tuple(_notes(problem, helps, note)),
    )


def _notes(problem: _Problem, helps: bool | None, note: str | None) -> Iterator[str]:
    yield "sizes are of independent traces: multiply by the design effect where traces come in clusters"
    if problem.goal == "half_width":
        yield "about half of such experiments come out wider than planned, half narrower"
    if helps is False:
        yield "more production traces no longer help: the golden set limits what can be said"
    if note:
        yield note


def _reason(problem: _Problem, best: _Sizes) -> str:
    """Say what stands in the way, with the free sizes unlimited."""
    if problem.judge_status(best) != "measured":
        floor = problem.assumed.detection_floor
        return (
            f"with this golden set the lower bound of J is expected below the detection floor of {floor:g}, so that "
            "gates would read insufficient evidence"
        )
    value = problem.value(best)
    what = "half width" if problem.goal == "half_width" else "limit of detection"
    shown = f"no {what}" if value is None else f"a {what} of {value:.4g}"
    unlimited = " and ".join(_WORDS[name] for name in NAMES if best[name] >= MANY)
    whatever = f" even with unlimited {unlimited}" if unlimited else ""
    return f"the given sizes leave {shown}{whatever}, above the wanted {problem.target:g}"


def _changes(problem: _Problem, fixed: _Sizes, free: list[SizeName]) -> tuple[Change, ...]:
    """Designs that reach the goal when some of the given sizes may grow; the fewest given sizes, then the cheapest."""
    wider: list[tuple[SizeName, ...]] = [(name,) for name in NAMES if name in fixed]
    everything = tuple(name for name in NAMES if name in fixed)
    for candidates in (wider, [everything]):
        found = [change for names in candidates if (change := _changed(problem, fixed, free, names)) is not None]
        if found:
            return tuple(sorted(found, key=lambda change: change.added_cost))
    return ()


def _changed(problem: _Problem, fixed: _Sizes, free: list[SizeName], names: tuple[SizeName, ...]) -> Change | None:
    kept = {name: size for name, size in fixed.items() if name not in names}
    sizes = _least_cost(problem, kept, [name for name in NAMES if name in (*free, *names)])
    if sizes is None:
        return None
    # What was there already is not given back, so it costs nothing and is kept.
    grown: _Sizes = {name: max(sizes[name], fixed.get(name, 0.0)) for name in NAMES}
    for name in (*free, *names):
        grown = _shrunk(problem, grown, name, fixed.get(name, float(FEW_CLUSTERS)))
    added = sum(problem.cost_of(name) * (grown[name] - fixed.get(name, 0)) for name in NAMES)
    changed: tuple[SizeName, ...] = tuple(name for name in names if grown[name] > fixed[name])
    return Change(changed=changed, sizes=Sizes(**{name: int(grown[name]) for name in NAMES}), added_cost=added)


def _least_cost(problem: _Problem, fixed: _Sizes, free: list[SizeName]) -> _Sizes | None:
    """Cheapest whole sizes that reach the goal: along the ray of optimal allocation, then each as small as it goes."""
    if not problem.reached(_unlimited(fixed, free)):
        return None
    sizes = {**fixed, **dict.fromkeys(free, float(FEW_CLUSTERS))}
    for _ in range(3):  # rates are smoothed by the sizes, and the allocation depends on the smoothed rates
        direction = _direction(problem, sizes, free)
        found = _along(problem, fixed, direction)
        if found is None:
            return None
        sizes = found
    for name in sorted(free, key=problem.cost_of, reverse=True):
        sizes = _shrunk(problem, sizes, name, FEW_CLUSTERS)
    return sizes


def _direction(problem: _Problem, sizes: _Sizes, free: list[SizeName]) -> _Sizes:
    """Optimal proportions of the free sizes, with rates smoothed as the interval smooths them."""
    judge = problem.assumed
    smoothed = replace(
        judge,
        sensitivity=(sizes["n_positive"] * judge.sensitivity + 1.0) / (sizes["n_positive"] + 2.0),
        specificity=(sizes["n_negative"] * judge.specificity + 1.0) / (sizes["n_negative"] + 2.0),
    )
    spread = _spread(smoothed)
    raw = {name: spread[name] / math.sqrt(problem.cost_of(name)) for name in free}
    largest = max(raw.values())
    # A class that does not matter to the variance still has to show that the judge reaches the floor.
    return {name: max(share / largest, 1e-9) if largest > 0 else 1.0 for name, share in raw.items()}


def _along(problem: _Problem, fixed: _Sizes, direction: _Sizes) -> _Sizes | None:
    """Shortest design along a ray."""

    def at(length: float) -> _Sizes:
        return {**fixed, **{n: max(float(FEW_CLUSTERS), math.ceil(s * length)) for n, s in direction.items()}}

    high = float(2 * FEW_CLUSTERS)
    while not problem.reached(at(high)):
        high *= 2.0
        if high > LARGEST:
            return _beside(problem, fixed, direction)
    low = high / 2.0
    while high - low > 0.5:
        middle = (low + high) / 2.0
        low, high = (low, middle) if problem.reached(at(middle)) else (middle, high)
    return at(high)


def _beside(problem: _Problem, fixed: _Sizes, direction: _Sizes) -> _Sizes | None:
    """Shortest design with equal sizes, where the ray leaves a class too small for the floor."""
    if len(set(direction.values())) == 1:
        return None
    return _along(problem, fixed, dict.fromkeys(direction, 1.0))


def _shrunk(problem: _Problem, sizes: _Sizes, name: SizeName, least: float) -> _Sizes:
    """Make one size the least with which the design still reaches the goal."""
    low, high = least - 1.0, sizes[name]
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (low, middle) if problem.reached({**sizes, name: middle}) else (middle, high)
    return {**sizes, name: high}


def _unlimited(fixed: _Sizes, free: list[SizeName]) -> _Sizes:
    return {**fixed, **{name: math.inf if name == "n_production" else MANY for name in free}}


def _spread(judge: Assumed) -> _Sizes:
    """Standard deviation that one trace of each kind brings into J times the corrected rate."""
    pi = flag_rate(judge.prevalence, judge.sensitivity, judge.specificity)
    return {
        "n_production": math.sqrt(pi * (1.0 - pi)),
        "n_positive": judge.prevalence * math.sqrt(judge.sensitivity * (1.0 - judge.sensitivity)),
        "n_negative": (1.0 - judge.prevalence) * math.sqrt(judge.specificity * (1.0 - judge.specificity)),
    }


def _terms(problem: _Problem, sizes: _Sizes) -> _Sizes:
    spread = _spread(problem.assumed)
    return {name: spread[name] ** 2 / sizes[name] for name in NAMES}


def _shares(problem: _Problem, sizes: _Sizes) -> VarianceShares | None:
    terms = _terms(problem, sizes)
    total = sum(terms.values())
    if total == 0.0:
        return None
    return VarianceShares(
        production=terms["n_production"] / total,
        positives=terms["n_positive"] / total,
        negatives=terms["n_negative"] / total,
    )


def _grow(problem: _Problem, sizes: _Sizes) -> GoldenClass | None:
    """Golden class whose doubling gains most for its cost; a smaller step could fall between two whole counts."""
    best: GoldenClass | None = None
    most = 0.0
    classes: tuple[GoldenClass, ...] = ("n_positive", "n_negative")
    for name in classes:
        if sizes[name] >= MANY:
            continue
        gain = problem.merit({**sizes, name: 2.0 * sizes[name]}) - problem.merit(sizes)
        if (worth := gain / sizes[name] / problem.cost_of(name)) > most:
            best, most = name, worth
    return best


def _known_judge(problem: _Problem) -> int | None:
    if problem.goal != "half_width" or problem.assumed.youden_j <= RESOLUTION:
        return None
    judge = problem.assumed
    return math.ceil(production_size(
        problem.target, prevalence=judge.prevalence, sensitivity=judge.sensitivity, specificity=judge.specificity,
        confidence_level=problem.confidence_level,
    ))  # fmt: skip


def _closed_form(problem: _Problem, sizes: _Sizes) -> float | None:
    """Production traces by the textbook formula with the design's golden set; None where no number does."""
    judge, z = problem.assumed, normal_quantile(problem.confidence_level)
    if problem.goal == "half_width":
        room = (problem.target * judge.youden_j / z) ** 2
        found = _production_left(room, judge, sizes["n_positive"], sizes["n_negative"])
    else:
        both = z + _one_sided(problem.power or DEFAULT_POWER)
        room = (problem.target * judge.youden_j / both) ** 2
        # The textbook limit of detection leaves out the error of sensitivity, and takes q0's term at a rate of 0.
        found = _production_left(room, replace(judge, prevalence=0.0), math.inf, sizes["n_negative"], judge.flag_rate)
    return found if math.isfinite(found) else None


def _production_left(
    room: float, judge: Assumed, n_positive: float, n_negative: float, observed: float | None = None
) -> float:
    """N for which production's variance fills what the golden set leaves of a variance."""
    spread = _spread(judge)
    left = room - spread["n_positive"] ** 2 / n_positive - spread["n_negative"] ** 2 / n_negative
    of_flags = spread["n_production"] ** 2 if observed is None else observed * (1.0 - observed)
    return of_flags / left if left > 0.0 else math.inf


def _one_sided(power: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(power))


def _fixed(given: GivenSizes) -> _Sizes:
    return {name: float(size) for name in NAMES if (size := getattr(given, name)) is not None}


def _assumed(prevalence: float, sensitivity: float, specificity: float, detection_floor: float) -> Assumed:
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


def _given(n_production: int | None, n_positive: int | None, n_negative: int | None) -> GivenSizes:
    given = GivenSizes(n_production=n_production, n_positive=n_positive, n_negative=n_negative)
    for field in fields(given):
        size = getattr(given, field.name)
        if size is not None and not MIN_CLUSTERS <= size <= LARGEST:
            raise UndefinedError(field.name, size, f"must lie between {MIN_CLUSTERS} and {LARGEST}")
    return given


@dataclass(frozen=True, slots=True, kw_only=True)
class _DifferenceTest:
    """The test of a difference between two versions, as a function of their traces."""

    assumed: Assumed
    difference: float
    paired: bool
    discordance: float | None
    correlation: float | None
    level: float
    power: float

    def rates(self, difference: float) -> tuple[float, float]:
        """Rates of flags of baseline and candidate."""
        judge = self.assumed
        candidate = min(1.0, max(0.0, judge.prevalence + difference))
        return judge.flag_rate, flag_rate(candidate, judge.sensitivity, judge.specificity)

    def shares(self, difference: float) -> tuple[float, float] | None:
        """Shares of pairs flagged in the baseline alone and in the candidate alone; None if there are no such pairs."""
        before, after = self.rates(difference)
        if self.discordance is None:
            together = before * after + (self.correlation or 0.0) * math.sqrt(
                before * (1.0 - before) * after * (1.0 - after)
            )
            alone = before - together, after - together
            possible = min(*alone, together, 1.0 - before - after + together) >= -RESOLUTION
        else:
            alone = (self.discordance - (after - before)) / 2.0, (self.discordance + (after - before)) / 2.0
            possible = min(alone) >= -RESOLUTION and alone[0] <= before + RESOLUTION and (
                alone[1] <= 1.0 - before + RESOLUTION
            )  # fmt: skip
        return (max(0.0, alone[0]), max(0.0, alone[1])) if possible else None

    def check(self) -> None:
        """Refuse versions that cannot be."""
        for name in ("discordance", "correlation"):
            value = getattr(self, name)
            if value is not None and not -1.0 <= value <= 1.0:
                raise UndefinedError(name, value, "must be a share, or a correlation")
        if self.paired and self.assumed.youden_j > RESOLUTION and self.shares(self.difference) is None:
            raise UndefinedError(
                "discordance" if self.discordance is not None else "correlation",
                self.discordance if self.discordance is not None else self.correlation,
                "no two versions have these rates of flags and agree that much or that little",
            )

    def power_of(self, n: float, difference: float) -> float:
        """Power of the test with n traces of each version."""
        before, after = self.rates(difference)
        if not self.paired:
            return two_proportion_power(n, baseline_rate=before, candidate_rate=after, confidence_level=self.level)
        shares = self.shares(difference)
        if shares is None or shares[0] == shares[1]:
            return 0.0
        return mcnemar_power(int(n), baseline_only=shares[0], candidate_only=shares[1], confidence_level=self.level)

    def variance(self, n: float) -> float:
        """Variance of the difference of the rates of flags."""
        before, after = self.rates(self.difference)
        if self.paired and (shares := self.shares(self.difference)) is not None:
            return (sum(shares) - (after - before) ** 2) / n
        return (before * (1.0 - before) + after * (1.0 - after)) / n

    def detectable(self, n: float) -> float | None:
        """Least difference in the wanted direction that n traces find."""
        sign = math.copysign(1.0, self.difference)
        room = 1.0 - self.assumed.prevalence if sign > 0 else self.assumed.prevalence
        if self.discordance is not None:
            room = min(room, self.discordance / self.assumed.youden_j)
        elif self.paired:
            # Far enough apart, versions cannot have the given correlation.
            room = _farthest(lambda size: self.shares(sign * size) is not None, abs(self.difference), room)
        found = least_reaching(lambda size: self.power_of(n, sign * size) >= self.power, 0.0, room, steps=30)
        return None if found is None else sign * found


def _farthest(possible: Callable[[float], bool], low: float, high: float) -> float:
    if possible(high):
        return high
    for _ in range(30):
        middle = (low + high) / 2.0
        low, high = (middle, high) if possible(middle) else (low, middle)
    return low


def _planned_difference(
    test: _DifferenceTest, given: GivenSizes, confidence_level: float, n_comparisons: int
) -> Plan:
    judge = test.assumed
    bare = Plan(
        goal="difference", target=test.difference, status="reached",
        method="exact_mcnemar" if test.paired else "two_proportion_score",
        assumed=judge, confidence_level=confidence_level, power=test.power, given=given,
    )  # fmt: skip
    if judge.youden_j <= RESOLUTION or judge.youden_j < judge.detection_floor - RESOLUTION:
        return replace(bare, status="below_detection_floor", reason=(
            f"the assumed J is {judge.youden_j:.3f}, below the detection floor of {judge.detection_floor:g}: no "
            "corrected rates, and no difference of them"
        ))  # fmt: skip
    needed = _traces_for(test)
    n = given.n_production or needed
    golden = (given.n_positive, given.n_negative) if given.n_positive and given.n_negative else None
    if n is None:
        return replace(bare, status="unreachable", reason=f"needs more than {LARGEST} traces of each version")
    reached = test.power_of(n, test.difference) >= test.power
    detectable = test.detectable(n)
    sizes = Sizes(n_production=n, n_positive=given.n_positive or 0, n_negative=given.n_negative or 0)
    half_width, limit = _difference_half_widths(test, n, golden, confidence_level)
    judge_status = expected_judge_status(judge, *golden, confidence_level) if golden else None
    change = Change(
        changed=("n_production",), sizes=replace(sizes, n_production=needed),
        added_cost=DEFAULT_COSTS.production * (needed - n),
    ) if needed is not None and not reached else None  # fmt: skip
    shown = "no difference" if detectable is None else f"a difference of {detectable:.4g}"
    return replace(
        bare,
        status="reached" if reached else "not_reached",
        reason=None if reached else f"{n} traces of each version find {shown} with the wanted power",
        sizes=sizes,
        achieved=detectable,
        achieved_power=test.power_of(n, test.difference),
        production_helps=True,
        closed_form=_closed_form_difference(test),
        judge_status=judge_status,
        changes=(change,) if change else (),
        difference=_difference_record(test, n_comparisons, half_width, limit, detectable),
        notes=tuple(_difference_notes(test, judge_status)),
    )


def _difference_record(
    test: _DifferenceTest, n_comparisons: int, half_width: float | None, limit: float | None, detectable: float | None
) -> PlannedDifference:
    shares = test.shares(test.difference) if test.paired else None
    return PlannedDifference(
        baseline_prevalence=test.assumed.prevalence,
        candidate_prevalence=min(1.0, max(0.0, test.assumed.prevalence + test.difference)),
        paired=test.paired,
        baseline_only=shares[0] if shares else None,
        candidate_only=shares[1] if shares else None,
        correlation=test.correlation,
        n_comparisons=n_comparisons,
        interval_half_width=half_width,
        interval_half_width_limit=limit,
        detectable=detectable,
    )


def _difference_notes(test: _DifferenceTest, judge_status: FloorStatus | None) -> Iterator[str]:
    yield "the golden set does not decide whether a difference is found, only how wide its interval is"
    yield "sizes are of independent traces: multiply by the design effect where attacks are replicated"
    if test.paired and test.discordance is None and not test.correlation:
        yield "flags of the two versions taken as uncorrelated: the more they agree, the fewer pairs are needed"
    if judge_status not in (None, "measured"):
        yield "with this golden set the judge is not expected to be measured: gates would read insufficient evidence"


def _difference_half_widths(
    test: _DifferenceTest, n: int, golden: tuple[int, int] | None, confidence_level: float
) -> tuple[float | None, float | None]:
    """Half width of the shared-calibration interval (SPEC 10) with n traces and with unlimited ones."""
    if golden is None:
        return None, None
    n_positive, n_negative = golden
    judge, z = test.assumed, normal_quantile(confidence_level)
    of_judge = judge.sensitivity * (1.0 - judge.sensitivity) / n_positive
    of_judge += judge.specificity * (1.0 - judge.specificity) / n_negative
    limit = z * abs(test.difference) * math.sqrt(of_judge) / judge.youden_j
    return math.hypot(z * math.sqrt(test.variance(n)) / judge.youden_j, limit), limit


def _traces_for(test: _DifferenceTest) -> int | None:
    """Least number of traces of each version with which the test has the power, one less not."""
    high = 2 * MIN_CLUSTERS
    while test.power_of(high, test.difference) < test.power:
        high *= 2
        if high > LARGEST:
            return None
    low = MIN_CLUSTERS - 1 if high == 2 * MIN_CLUSTERS else high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if test.power_of(middle, test.difference) >= test.power else (middle, high)
    return high


def _closed_form_difference(test: _DifferenceTest) -> float:
    """Textbook number of pairs (Connor), or of traces of each version."""
    before, after = test.rates(test.difference)
    z, zb = normal_quantile(test.level), _one_sided(test.power)
    shares = test.shares(test.difference) if test.paired else None
    null = sum(shares) if shares else (before + after) * (1.0 - (before + after) / 2.0)
    return (z * math.sqrt(null) + zb * math.sqrt(test.variance(1.0))) ** 2 / (after - before) ** 2


def _difference_curve(plan: Plan, grid: tuple[float, ...], planned: int | None) -> Curve:
    found = plan.difference
    series: list[Series] = []
    if found is not None:
        level = 1.0 - (1.0 - plan.confidence_level) / found.n_comparisons
        before = plan.assumed.flag_rate
        after = flag_rate(found.candidate_prevalence, plan.assumed.sensitivity, plan.assumed.specificity)
        if found.baseline_only is not None and found.candidate_only is not None:
            alone = {"baseline_only": found.baseline_only, "candidate_only": found.candidate_only}
            series.append(Series(
                name="paired", x=grid,
                y=tuple(mcnemar_power(int(n), **alone, confidence_level=level) for n in grid),
            ))  # fmt: skip
        series.append(Series(
            name="unpaired", x=grid,
            y=tuple(
                two_proportion_power(n, baseline_rate=before, candidate_rate=after, confidence_level=level)
                for n in grid
            ),
        ))  # fmt: skip
    return Curve(y_quantity="power", target=plan.power or DEFAULT_POWER, planned=planned, series=tuple(series))
