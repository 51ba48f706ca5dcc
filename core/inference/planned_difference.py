"""How many traces of each version it takes to find a difference between them (SPEC 11.3)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from core.errors import UndefinedError
from core.inference.allocation import expected_judge_status, one_sided_quantile
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile
from core.inference.plan import (
    DEFAULT_COSTS,
    DEFAULT_POWER,
    LARGEST,
    Assumed,
    Change,
    Curve,
    GivenSizes,
    Plan,
    PlannedDifference,
    Series,
    Sizes,
    assumed_judge,
    given_sizes,
)
from core.inference.power import (
    check_power,
    check_sizes,
    flag_rate,
    least_reaching,
    mcnemar_power,
    two_proportion_power,
)
from core.inference.prevalence import DETECTION_FLOOR, RESOLUTION, FloorStatus


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
    assumed = assumed_judge(prevalence, sensitivity, specificity, detection_floor)
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
    given = given_sizes(n_production, n_positive, n_negative)
    return _planned_difference(test, given, confidence_level, n_comparisons)


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


def _planned_difference(test: _DifferenceTest, given: GivenSizes, confidence_level: float, n_comparisons: int) -> Plan:
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
        closed_form=_closed_form(test),
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


def _closed_form(test: _DifferenceTest) -> float:
    """Textbook number of pairs (Connor), or of traces of each version."""
    before, after = test.rates(test.difference)
    z, zb = normal_quantile(test.level), one_sided_quantile(test.power)
    shares = test.shares(test.difference) if test.paired else None
    null = sum(shares) if shares else (before + after) * (1.0 - (before + after) / 2.0)
    return (z * math.sqrt(null) + zb * math.sqrt(test.variance(1.0))) ** 2 / (after - before) ** 2


def difference_curve(plan: Plan, grid: tuple[float, ...], planned: int | None) -> Curve:
    """Power over the traces of each version: the difference's part of `core.inference.planning.power_curve`."""
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
