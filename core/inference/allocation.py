"""Textbook sizes and splits, and what a design is expected to show (SPEC 11.1 and 11.4)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, normal_quantile
from core.inference.plan import DEFAULT_COSTS, NAMES, Assumed, Costs, SizeMap, SizeName, assumed_judge
from core.inference.power import check_rates, check_sizes, flag_rate, lang_reiczigel_parts
from core.inference.prevalence import RESOLUTION, FloorStatus, floor_status, youden_low


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
    spread = spread_by_kind(assumed_judge(prevalence, sensitivity, specificity, 0.0))
    cost: SizeMap = {"n_production": costs.production, "n_positive": costs.positive, "n_negative": costs.negative}
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
    judge = assumed_judge(prevalence, sensitivity, specificity, 0.0)
    if judge.youden_j <= RESOLUTION:
        raise UndefinedError("youden_j", judge.youden_j, "the corrected rate needs a judge with J above 0")
    room = (half_width * judge.youden_j / normal_quantile(confidence_level)) ** 2
    return production_left(room, judge, n_positive, n_negative)


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


def spread_by_kind(judge: Assumed) -> SizeMap:
    """Standard deviation that one trace of each kind brings into J times the corrected rate."""
    pi = flag_rate(judge.prevalence, judge.sensitivity, judge.specificity)
    return {
        "n_production": math.sqrt(pi * (1.0 - pi)),
        "n_positive": judge.prevalence * math.sqrt(judge.sensitivity * (1.0 - judge.sensitivity)),
        "n_negative": (1.0 - judge.prevalence) * math.sqrt(judge.specificity * (1.0 - judge.specificity)),
    }


def production_left(
    room: float, judge: Assumed, n_positive: float, n_negative: float, observed: float | None = None
) -> float:
    """N for which production's variance fills what the golden set leaves of a variance."""
    spread = spread_by_kind(judge)
    left = room - spread["n_positive"] ** 2 / n_positive - spread["n_negative"] ** 2 / n_negative
    of_flags = spread["n_production"] ** 2 if observed is None else observed * (1.0 - observed)
    return of_flags / left if left > 0.0 else math.inf


def one_sided_quantile(power: float) -> float:
    """Quantile of the normal law, z_beta = Phi^-1(power) (SPEC 11)."""
    from scipy.special import ndtri

    return float(ndtri(power))
