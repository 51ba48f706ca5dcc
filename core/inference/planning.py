"""How many traces and labels a measurement takes (SPEC 11).

A plan names what is wanted (a half width, a limit of detection, a difference that shall be found), what is assumed
of the judge and the rate, which of the three sizes are given, and finds the others. What cannot be reached is a
plan too: with the reason and the smallest change that would reach it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from core.errors import UndefinedError
from core.inference.allocation import (
    expected_half_width,
    expected_judge_status,
    one_sided_quantile,
    production_left,
    production_size,
    spread_by_kind,
)
from core.inference.clusters import FEW_CLUSTERS, MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile
from core.inference.plan import (
    DEFAULT_COSTS,
    DEFAULT_POWER,
    LARGEST,
    NAMES,
    Assumed,
    Change,
    Costs,
    Curve,
    GivenSizes,
    Goal,
    GoldenClass,
    Plan,
    Series,
    SizeMap,
    SizeName,
    Sizes,
    VarianceShares,
    assumed_judge,
    given_sizes,
)
from core.inference.planned_difference import difference_curve
from core.inference.power import check_power, detection_power, limit_of_detection
from core.inference.prevalence import DETECTION_FLOOR, RESOLUTION, FloorStatus

NO_HELP = 0.05
"""More production does not help when even an unlimited amount would improve the figure by less than this share."""

MANY = 1e9
"""Golden traces of a class that stand for a class without any error of its own."""

_LARGE_PRODUCTIONS = (math.inf, 1e6, 1e5, 1e4, 1e3)

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

    def value(self, sizes: SizeMap) -> float | None:
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

    def power_at(self, sizes: SizeMap) -> float:
        """Power of a design to find the target."""
        n, m1, m0 = (sizes[name] for name in NAMES)
        return detection_power(
            self.target,
            sensitivity=self.assumed.sensitivity, specificity=self.assumed.specificity, n_production=n,
            n_positive=int(m1), n_negative=int(m0), confidence_level=self.confidence_level,
        )  # fmt: skip

    def precise(self, sizes: SizeMap) -> bool:
        """Whether a design reaches the figure."""
        if self.goal == "half_width":
            value = self.value(sizes)
            return value is not None and value <= self.target
        return self.power_at(sizes) >= (self.power or DEFAULT_POWER)

    def merit(self, sizes: SizeMap) -> float:
        """Return what more traces raise: power, or the narrowness of the interval."""
        if self.goal == "half_width":
            value = self.value(sizes)
            return -math.inf if value is None else -value
        return self.power_at(sizes)

    def judge_status(self, sizes: SizeMap) -> FloorStatus:
        """State of the judge against the floor at the expected counts."""
        return expected_judge_status(self.assumed, sizes["n_positive"], sizes["n_negative"], self.confidence_level)

    def reached(self, sizes: SizeMap) -> bool:
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
    assumed = assumed_judge(prevalence, sensitivity, specificity, detection_floor)
    check_confidence_level(confidence_level)
    problem = _Problem(
        goal="half_width", target=half_width, assumed=assumed, confidence_level=confidence_level, power=None,
        costs=costs or DEFAULT_COSTS,
    )  # fmt: skip
    given = given_sizes(n_production, n_positive, n_negative)
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
    assumed = assumed_judge(limit, sensitivity, specificity, detection_floor)
    problem = _Problem(
        goal="limit_of_detection", target=limit, assumed=assumed, confidence_level=confidence_level, power=power,
        costs=costs or DEFAULT_COSTS,
    )  # fmt: skip
    given = given_sizes(n_production, n_positive, n_negative)
    return _planned(problem, given, "power_of_lang_reiczigel_low_above_0", costs is None)


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
        return difference_curve(plan, grid, planned)
    problem = _Problem(
        goal=plan.goal, target=plan.target, assumed=plan.assumed, confidence_level=plan.confidence_level,
        power=plan.power, costs=plan.costs,
    )  # fmt: skip
    figure: Callable[[SizeMap], float | None] = problem.value if plan.goal == "half_width" else problem.power_at
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


def _golden_variants(plan: Plan) -> Iterator[SizeMap]:
    design = plan.sizes or (plan.changes[0].sizes if plan.changes else None)
    golden: SizeMap = {
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


def _described(problem: _Problem, plan: Plan, sizes: SizeMap, note: str | None) -> Plan:
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


def _reason(problem: _Problem, best: SizeMap) -> str:
    """Say what stands in the way, with the free sizes unlimited."""
    floor = problem.assumed.detection_floor
    if problem.judge_status({**best, "n_positive": MANY, "n_negative": MANY}) != "measured":
        return (
            f"the assumed J of {problem.assumed.youden_j:.4g} is so near the detection floor of {floor:g} that no "
            "golden set would show it to be above"
        )
    if problem.judge_status(best) != "measured":
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


def _changes(problem: _Problem, fixed: SizeMap, free: list[SizeName]) -> tuple[Change, ...]:
    """Designs that reach the goal when some of the given sizes may grow; the fewest given sizes, then the cheapest."""
    wider: list[tuple[SizeName, ...]] = [(name,) for name in NAMES if name in fixed]
    everything = tuple(name for name in NAMES if name in fixed)
    for candidates in (wider, [everything]):
        found = [change for names in candidates if (change := _changed(problem, fixed, free, names)) is not None]
        if found:
            return tuple(sorted(found, key=lambda change: change.added_cost))
    return ()


def _changed(problem: _Problem, fixed: SizeMap, free: list[SizeName], names: tuple[SizeName, ...]) -> Change | None:
    kept = {name: size for name, size in fixed.items() if name not in names}
    sizes = _least_cost(problem, kept, [name for name in NAMES if name in (*free, *names)])
    if sizes is None:
        return None
    # What was there already is not given back, so it costs nothing and is kept.
    grown: SizeMap = {name: max(sizes[name], fixed.get(name, 0.0)) for name in NAMES}
    for name in (*free, *names):
        grown = _shrunk(problem, grown, name, fixed.get(name, float(FEW_CLUSTERS)))
    added = sum(problem.cost_of(name) * (grown[name] - fixed.get(name, 0)) for name in NAMES)
    changed: tuple[SizeName, ...] = tuple(name for name in names if grown[name] > fixed[name])
    return Change(changed=changed, sizes=Sizes(**{name: int(grown[name]) for name in NAMES}), added_cost=added)


def _least_cost(problem: _Problem, fixed: SizeMap, free: list[SizeName]) -> SizeMap | None:
    """Cheapest whole sizes that reach the goal: along the ray of optimal allocation, then each as small as it goes."""
    best = _unlimited(fixed, free)
    # Whole golden counts make power a step function of the rate once production is known exactly: a finite production
    # may reach what the limit just misses.
    if not any(problem.reached({**best, "n_production": min(best["n_production"], n)}) for n in _LARGE_PRODUCTIONS):
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


def _direction(problem: _Problem, sizes: SizeMap, free: list[SizeName]) -> SizeMap:
    """Optimal proportions of the free sizes, with rates smoothed as the interval smooths them."""
    judge = problem.assumed
    smoothed = replace(
        judge,
        sensitivity=(sizes["n_positive"] * judge.sensitivity + 1.0) / (sizes["n_positive"] + 2.0),
        specificity=(sizes["n_negative"] * judge.specificity + 1.0) / (sizes["n_negative"] + 2.0),
    )
    spread = spread_by_kind(smoothed)
    raw = {name: spread[name] / math.sqrt(problem.cost_of(name)) for name in free}
    largest = max(raw.values())
    # A class that does not matter to the variance still has to show that the judge reaches the floor.
    return {name: max(share / largest, 1e-9) if largest > 0 else 1.0 for name, share in raw.items()}


def _along(problem: _Problem, fixed: SizeMap, direction: SizeMap) -> SizeMap | None:
    """Shortest design along a ray."""

    def at(length: float) -> SizeMap:
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


def _beside(problem: _Problem, fixed: SizeMap, direction: SizeMap) -> SizeMap | None:
    """Shortest design with equal sizes, where the ray leaves a class too small for the floor."""
    if len(set(direction.values())) == 1:
        return None
    return _along(problem, fixed, dict.fromkeys(direction, 1.0))


def _shrunk(problem: _Problem, sizes: SizeMap, name: SizeName, least: float) -> SizeMap:
    """Make one size the least with which the design still reaches the goal."""
    low, high = least - 1.0, sizes[name]
    while high - low > 1.0:
        middle = math.floor((low + high) / 2.0)
        low, high = (low, middle) if problem.reached({**sizes, name: middle}) else (middle, high)
    return {**sizes, name: high}


def _unlimited(fixed: SizeMap, free: list[SizeName]) -> SizeMap:
    return {**fixed, **{name: math.inf if name == "n_production" else MANY for name in free}}


def _terms(problem: _Problem, sizes: SizeMap) -> SizeMap:
    spread = spread_by_kind(problem.assumed)
    return {name: spread[name] ** 2 / sizes[name] for name in NAMES}


def _shares(problem: _Problem, sizes: SizeMap) -> VarianceShares | None:
    terms = _terms(problem, sizes)
    total = sum(terms.values())
    if total == 0.0:
        return None
    return VarianceShares(
        production=terms["n_production"] / total,
        positives=terms["n_positive"] / total,
        negatives=terms["n_negative"] / total,
    )


def _grow(problem: _Problem, sizes: SizeMap) -> GoldenClass | None:
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
    size = math.ceil(production_size(
        problem.target, prevalence=judge.prevalence, sensitivity=judge.sensitivity, specificity=judge.specificity,
        confidence_level=problem.confidence_level,
    ))  # fmt: skip
    return size or None  # at a flag rate of 0 or 1 the textbook form sees no variance


def _closed_form(problem: _Problem, sizes: SizeMap) -> float | None:
    """Production traces by the textbook formula with the design's golden set; None where no number does."""
    judge, z = problem.assumed, normal_quantile(problem.confidence_level)
    if problem.goal == "half_width":
        room = (problem.target * judge.youden_j / z) ** 2
        found = production_left(room, judge, sizes["n_positive"], sizes["n_negative"])
    else:
        both = z + one_sided_quantile(problem.power or DEFAULT_POWER)
        room = (problem.target * judge.youden_j / both) ** 2
        # The textbook limit of detection leaves out the error of sensitivity, and takes q0's term at a rate of 0.
        found = production_left(room, replace(judge, prevalence=0.0), math.inf, sizes["n_negative"], judge.flag_rate)
    return found if math.isfinite(found) else None


def _fixed(given: GivenSizes) -> SizeMap:
    return {name: float(size) for name in NAMES if (size := getattr(given, name)) is not None}
