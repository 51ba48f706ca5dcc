"""A plan as it is asked for and recorded: for a judge that is assumed, or that a calibration knows (SPEC 11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from core.data.vocabulary import category_name
from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level
from core.inference.plan import DEFAULT_POWER, Costs, Curve, Goal, Plan
from core.inference.planned_difference import plan_difference
from core.inference.planning import plan_half_width, plan_limit_of_detection, power_curve
from core.inference.prevalence import DETECTION_FLOOR
from core.instrument.calibrated import Calibrated, Calibration
from core.instrument.correction import Figures, figures_of
from core.instrument.spec import FORBID_UNKNOWN_KEYS

COMPOSITE = "composite"

_APPLIES: Mapping[str, tuple[Goal, ...]] = {
    "prevalence": ("half_width", "difference"),
    "costs": ("half_width", "limit_of_detection"),
    "power": ("limit_of_detection", "difference"),
    "discordance": ("difference",),
    "correlation": ("difference",),
}
"""The goals for which a field that need not be there means something."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSpec:
    """What a plan was asked for: the spec of its record.

    Attributes
    ----------
    goal : {'half_width', 'limit_of_detection', 'difference'}
    target : float
        The half width, the rate to be found, or candidate minus baseline.
    quantity : str
        ``composite``, or a category of the calibration.
    prevalence : float or None
        Rate that is expected, of the baseline for a difference; a limit of detection has none.
    sensitivity, specificity : float or None
        Of an assumed judge; None takes the calibration's.
    n_production, n_positive, n_negative : int or None
        Sizes that are given, independent traces; the others are found.
    find_golden : bool
        Find the golden sizes too, instead of taking what the calibration's golden set is worth.
    costs : Costs or None
    paired : bool
    discordance, correlation : float or None
    n_comparisons : int
        Of a difference: see `core.inference.planned_difference.plan_difference`.
    power, confidence_level, detection_floor : float or None
        None takes the calibration's, or the defaults.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    goal: Goal
    target: float
    quantity: str = COMPOSITE
    prevalence: float | None = None
    sensitivity: float | None = None
    specificity: float | None = None
    n_production: int | None = None
    n_positive: int | None = None
    n_negative: int | None = None
    find_golden: bool = False
    costs: Costs | None = None
    paired: bool = True
    discordance: float | None = None
    correlation: float | None = None
    n_comparisons: int = 1
    power: float | None = None
    confidence_level: float | None = None
    detection_floor: float | None = None

    def __post_init__(self) -> None:
        """Refuse what means nothing for the goal, and a rate that nobody can leave out."""
        for name, goals in _APPLIES.items():
            if getattr(self, name) is not None and self.goal not in goals:
                raise UndefinedError(name, getattr(self, name), f"means nothing for a {words_of(self.goal)}")
        if self.goal != "difference" and (not self.paired or self.n_comparisons != 1):
            raise UndefinedError("paired", self.paired, f"means nothing for a {words_of(self.goal)}")
        if self.goal != "limit_of_detection" and self.prevalence is None:
            raise UndefinedError("prevalence", None, "how often do you expect violations? A plan depends on it")
        if self.find_golden and (self.n_positive is not None or self.n_negative is not None):
            raise UndefinedError("find_golden", True, "golden sizes are either given or to be found")
        object.__setattr__(self, "quantity", category_name(self.quantity))


def words_of(goal: Goal) -> str:
    """Name a goal in words."""
    return goal.replace("_", " ")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedJudge:
    """Where the judge's rates and the golden sizes of a plan come from.

    Attributes
    ----------
    source : {'assumed', 'calibration'}
    calibration, instrument, judge : str or None
        Id of the calibration, its instrument, and its judge as name@version.
    quantity : str or None
    status : str or None
        What the calibration says of the quantity.
    n_positive, n_negative : int or None
        Traces of its golden set.
    effective_n_positive, effective_n_negative : float or None
        What they are worth in independent traces, in which a plan counts.
    """

    source: Literal["assumed", "calibration"]
    calibration: str | None = None
    instrument: str | None = None
    judge: str | None = None
    quantity: str | None = None
    status: str | None = None
    n_positive: int | None = None
    n_negative: int | None = None
    effective_n_positive: float | None = None
    effective_n_negative: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned(Plan):
    """The result of `planned`: the plan, whose judge it is about, and its figure.

    Attributes
    ----------
    judge : PlannedJudge
    curve : Curve
        Half width or power over the number of production traces.
    """

    judge: PlannedJudge
    curve: Curve


def planned(spec: PlanSpec, calibration: Calibration | None = None, *, calibration_id: str = "") -> Planned:
    """Plan what is asked for.

    Parameters
    ----------
    spec : PlanSpec
    calibration : Calibration, optional
        Whose honest rates, floor, level and golden set are taken.
    calibration_id : str
        Of its record.

    Returns
    -------
    Planned
        A goal that cannot be reached is a status.

    Raises
    ------
    UndefinedError
        A rate, size or level is out of range; the judge's rates are missing, or given beside a calibration that has
        them; the calibration has no figures for the quantity.

    Examples
    --------
    >>> found = planned(PlanSpec(goal="half_width", target=0.05, prevalence=0.1, sensitivity=0.9, specificity=0.95,
    ...                          n_positive=200, n_negative=200))
    >>> found.status, found.sizes.n_production, found.judge.source
    ('reached', 473, 'assumed')
    """
    level, floor = DEFAULT_CONFIDENCE_LEVEL, DETECTION_FLOOR
    if calibration is not None:
        level, floor = calibration.confidence_level, calibration.detection_floor
    level = level if spec.confidence_level is None else spec.confidence_level
    check_confidence_level(level)
    judge, rates, golden = _judge(spec, calibration, calibration_id, level)
    limits = {
        "confidence_level": level,
        "detection_floor": floor if spec.detection_floor is None else spec.detection_floor,
    }
    plan = _plan(spec, {**rates, **golden, **limits})
    found = {field.name: getattr(plan, field.name) for field in fields(Plan)}
    return Planned(**found, judge=judge, curve=power_curve(plan))


def _plan(spec: PlanSpec, asked: dict[str, Any]) -> Plan:
    asked = {**asked, "n_production": spec.n_production}
    power = DEFAULT_POWER if spec.power is None else spec.power
    if spec.goal == "half_width":
        return plan_half_width(spec.target, prevalence=spec.prevalence or 0.0, costs=spec.costs, **asked)
    if spec.goal == "limit_of_detection":
        return plan_limit_of_detection(spec.target, costs=spec.costs, power=power, **asked)
    return plan_difference(
        spec.target, prevalence=spec.prevalence or 0.0, paired=spec.paired, discordance=spec.discordance,
        correlation=spec.correlation, n_comparisons=spec.n_comparisons, power=power, **asked,
    )  # fmt: skip


def _judge(
    spec: PlanSpec, calibration: Calibration | None, calibration_id: str, confidence_level: float
) -> tuple[PlannedJudge, dict[str, float], dict[str, int | None]]:
    """Take the judge's rates and the golden sizes from where they are."""
    golden = {"n_positive": spec.n_positive, "n_negative": spec.n_negative}
    given = {"sensitivity": spec.sensitivity, "specificity": spec.specificity}
    if calibration is None:
        if spec.quantity != COMPOSITE:
            raise UndefinedError("quantity", spec.quantity, "only a calibration has categories")
        if spec.find_golden:
            raise UndefinedError(
                "find_golden", True, "without a calibration, sizes that are not given are found anyway"
            )
        for name, value in given.items():
            if value is None:
                raise UndefinedError(name, None, "how good is the judge? Give its rates, or a calibration")
        return PlannedJudge(source="assumed"), {name: value or 0.0 for name, value in given.items()}, golden
    for name, value in given.items():
        if value is not None:
            raise UndefinedError(name, value, "the calibration says how good the judge is; give one of the two")
    status, found = _figures(spec.quantity, calibration, confidence_level)
    effective = found.effective
    judge = PlannedJudge(
        source="calibration",
        calibration=calibration_id,
        instrument=calibration.instrument,
        judge=str(calibration.judge),
        quantity=spec.quantity,
        status=status,
        n_positive=found.n_positive,
        n_negative=found.n_negative,
        effective_n_positive=effective.n_positive,
        effective_n_negative=effective.n_negative,
    )
    rates = {"sensitivity": found.sensitivity, "specificity": found.specificity}
    if not spec.find_golden:
        worth = {"n_positive": round(effective.n_positive), "n_negative": round(effective.n_negative)}
        for name, size in worth.items():
            if golden[name] is None and size < MIN_CLUSTERS:
                raise UndefinedError(name, size, (
                    f"the golden set is worth fewer than {MIN_CLUSTERS} independent traces of this class; say how many "
                    "there are to be, or have golden sizes found"
                ))  # fmt: skip
        golden = {name: size if size is not None else worth[name] for name, size in golden.items()}
    return judge, rates, golden


def _figures(quantity: str, calibration: Calibration, confidence_level: float) -> tuple[str, Figures]:
    """Return what a calibration says of a quantity: its status and its figures."""
    known: dict[str, Calibrated] = {COMPOSITE: calibration.composite, **calibration.categories}
    if quantity not in known:
        raise UndefinedError("quantity", quantity, f"the calibration has {', '.join(known)}")
    status = known[quantity].status
    found = figures_of(known[quantity], calibration.confidence_level, confidence_level)
    if found is None:
        raise UndefinedError(
            "quantity", quantity, f"the calibration has no sensitivity and specificity of it ({status})"
        )
    return status, found
