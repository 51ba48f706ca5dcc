"""Whether the golden set still speaks for production, from labelled production traces (SPEC 13.2 and 13.3)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile
from core.inference.multiplicity import holm
from core.inference.paired import two_sample_test
from core.inference.power import check_rates
from core.inference.prediction_powered import LabelledCounts, PredictionPowered, prediction_powered_rate
from core.inference.proportions import newcombe_limits

MIN_LABELLED = 50
"""Fewer labelled production traces than this decide nothing: their own interval is wider than any shift that they
could show."""

Choice = Literal["corrected", "ppi", "refused"]
Finding = Literal["holds", "differs", "not_tested"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RateComparison:
    """One rate in two samples (SPEC 13.2).

    Attributes
    ----------
    finding : str
        ``differs`` at the family's level after Holm's adjustment; ``holds`` says that no difference was shown, and
        ``low`` and ``high`` how large one may be; ``not_tested`` with fewer than 5 traces of the class.
    reference, found : float or None
        Rate in the golden set (or the rest of production) and among the labelled traces; None without a trace.
    n_reference, n_found : float
        Effective sizes.
    difference, low, high : float or None
        ``found - reference`` with Newcombe's interval, in [-1, 1].
    p_value, p_adjusted : float or None
        Of the two-sample test (SPEC 10.3), and after Holm's adjustment over its family.
    method : str or None
    """

    finding: Finding
    reference: float | None
    found: float | None
    n_reference: float
    n_found: float
    difference: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRates:
    """What the golden set says of the judge here: the honest, weighted rates on effective counts (SPEC 4 and 5)."""

    sensitivity: float
    n_positive: float
    specificity: float
    n_negative: float

    def __post_init__(self) -> None:
        """Refuse rates outside [0, 1] and empty classes."""
        check_rates(sensitivity=self.sensitivity, specificity=self.specificity)
        for field in ("n_positive", "n_negative"):
            size = getattr(self, field)
            if not (math.isfinite(size) and size > 0.0):
                raise UndefinedError(field, size, "must be finite and greater than 0")


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportCase:
    """One quantity (the composite or a category) with what is known of it.

    Attributes
    ----------
    golden : GoldenRates or None
        None where the calibration has no figures, or where the golden set is itself the labelled sample (a golden
        set drawn from production at random): then there is nothing to compare it with but the flags.
    labelled : LabelledCounts
        Of the labelled production traces.
    n_flagged, n_rest : int
        Flagged and all of the fully scored production traces without a label.
    corrected : bool
        Whether the measurement has a corrected rate (``measured`` or ``inconclusive``).
    design_effect : float
        Of production, at least 1.
    """

    golden: GoldenRates | None
    labelled: LabelledCounts
    n_flagged: int
    n_rest: int
    corrected: bool
    design_effect: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Transport:
    """What labelled production traces say of one quantity, and which rate to read (SPEC 13.3).

    Attributes
    ----------
    choice : str
        ``corrected``, ``ppi`` or ``refused``.
    reason : str
        In words.
    sensitivity, specificity : RateComparison
        Golden set against labelled production.
    flag_rate : RateComparison
        Rest of production against labelled production: a random sample is flagged as often as the rest.
    prediction_powered : PredictionPowered or None
        Whatever the choice; None with fewer than 2 labelled traces or no rest.
    """

    choice: Choice
    reason: str
    sensitivity: RateComparison
    specificity: RateComparison
    flag_rate: RateComparison
    prediction_powered: PredictionPowered | None


def assess_transport(
    cases: Mapping[str, TransportCase], *, confidence_level: float = DEFAULT_CONFIDENCE_LEVEL
) -> dict[str, Transport]:
    """Test whether sensitivity and specificity hold in production, and choose the rate to read (SPEC 13.2 and 13.3).

    Parameters
    ----------
    cases : mapping of str to TransportCase
        The composite and the categories, in any order; all of them are one family.
    confidence_level : float
        In (0, 1): of the intervals; the tests are at 1 minus it.

    Returns
    -------
    dict of str to Transport

    Raises
    ------
    UndefinedError
        If the level is outside (0, 1).

    Examples
    --------
    >>> golden = GoldenRates(sensitivity=0.9, n_positive=100, specificity=0.95, n_negative=100)
    >>> labelled = LabelledCounts(violating_flagged=36, violating_passed=4, clean_flagged=24, clean_passed=136)
    >>> case = TransportCase(golden=golden, labelled=labelled, n_flagged=560, n_rest=1800, corrected=True)
    >>> found = assess_transport({"composite": case})["composite"]
    >>> found.choice, found.specificity.finding, round(found.specificity.difference, 2)
    ('ppi', 'differs', -0.1)
    """
    check_confidence_level(confidence_level)
    z, level = normal_quantile(confidence_level), 1.0 - confidence_level
    judged = _adjusted(
        {
            (name, kind): _compared(case, kind, z)
            for name, case in cases.items()
            for kind in ("sensitivity", "specificity")
        },
        level,
    )
    drawn = _adjusted({(name, "flag_rate"): _compared(case, "flag_rate", z) for name, case in cases.items()}, level)
    random = not any(comparison.finding == "differs" for comparison in drawn.values())
    return {
        name: _chosen(
            case,
            judged[name, "sensitivity"],
            judged[name, "specificity"],
            drawn[name, "flag_rate"],
            random=random,
            confidence_level=confidence_level,
        )
        for name, case in cases.items()
    }


def _compared(case: TransportCase, kind: str, z: float) -> RateComparison:
    """Compare one rate, or say that there is too little."""
    labelled, golden = case.labelled, case.golden
    n_found, hits = {
        "sensitivity": (labelled.n_positive, labelled.violating_flagged),
        "specificity": (labelled.n_negative, labelled.clean_passed),
        "flag_rate": (labelled.n, labelled.n_flagged),
    }[kind]
    reference, n_reference = _reference(case, golden, kind)
    bare = RateComparison(
        finding="not_tested", reference=reference, found=hits / n_found if n_found else None,
        n_reference=n_reference, n_found=n_found / case.design_effect,
    )  # fmt: skip
    if reference is None or bare.found is None or min(n_reference, n_found) < MIN_CLUSTERS:
        return bare
    low, high = map(float, newcombe_limits(bare.found, bare.n_found, reference, n_reference, z=z))
    test = two_sample_test(reference, n_reference, bare.found, bare.n_found)
    return replace(
        bare, finding="holds", difference=bare.found - reference, low=low, high=high,
        p_value=test.p_value, method=test.method,
    )  # fmt: skip


def _reference(case: TransportCase, golden: GoldenRates | None, kind: str) -> tuple[float | None, float]:
    if kind == "flag_rate":
        rate = case.n_flagged / case.n_rest if case.n_rest else None
        return rate, case.n_rest / case.design_effect
    if golden is None:
        return None, 0.0
    if kind == "sensitivity":
        return golden.sensitivity, golden.n_positive
    return golden.specificity, golden.n_negative


def _adjusted(family: Mapping[tuple[str, str], RateComparison], level: float) -> dict[tuple[str, str], RateComparison]:
    """Adjust a family's p-values by Holm and say which rates differ."""
    tested = {key: found.p_value for key, found in family.items() if found.p_value is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {
        key: replace(found, p_adjusted=adjusted[key], finding="differs" if adjusted[key] <= level else "holds")
        if key in adjusted
        else found
        for key, found in family.items()
    }  # fmt: skip


def _chosen(
    case: TransportCase,
    sensitivity: RateComparison,
    specificity: RateComparison,
    flag_rate: RateComparison,
    *,
    random: bool,
    confidence_level: float,
) -> Transport:
    ppi = None
    if case.labelled.n >= 2 and case.n_rest >= 1:
        ppi = prediction_powered_rate(
            case.labelled, n_flagged=case.n_flagged, n_rest=case.n_rest, confidence_level=confidence_level,
            design_effect=case.design_effect,
        )  # fmt: skip
    choice, reason = _choice(case, sensitivity, specificity, random=random, has_ppi=ppi is not None)
    return Transport(
        choice=choice,
        reason=reason,
        sensitivity=sensitivity,
        specificity=specificity,
        flag_rate=flag_rate,
        prediction_powered=ppi,
    )


def _choice(
    case: TransportCase, sensitivity: RateComparison, specificity: RateComparison, *, random: bool, has_ppi: bool
) -> tuple[Choice, str]:
    """Pick the rate whose assumption the labels leave standing."""
    comparisons = {"sensitivity": sensitivity, "specificity": specificity}
    differs = [name for name, found in comparisons.items() if found.finding == "differs"]
    differing = f"{' and '.join(differs)} of the golden set {'does' if len(differs) == 1 else 'do'} not hold"
    untested = " and ".join(name for name, found in comparisons.items() if found.finding == "not_tested")
    if case.labelled.n < MIN_LABELLED or not has_ppi:
        few = f"{case.labelled.n} labelled production traces, at least {MIN_LABELLED} are needed: not tested"
        return ("corrected", few) if case.corrected else ("refused", f"no corrected rate, and {few}")
    if case.golden is None and case.corrected:
        own = "the labelled traces are the golden set itself, on which the thresholds were chosen"
        unlike = "" if random else "; production is flagged at another rate, so the set is no random part of it"
        return "corrected", f"{own}{unlike}; a corrected rate does not need one"
    if random:
        if not case.corrected:
            return "ppi", "the calibration gives no corrected rate here; the labelled traces are a random part"
        if differs:
            return "ppi", f"{differing} in production; the labelled traces are a random part"
        rest = f" ({untested} not tested)" if untested else ""
        return "ppi", (
            "no difference from the golden set was shown, but a shift too small to show would bias the corrected rate; "
            f"the labelled traces are a random part of production and need no golden set{rest}"
        )
    unlike = "the labelled traces are flagged at another rate than the rest of production, so they are no random part"
    if not case.corrected:
        return "refused", f"no corrected rate, and {unlike}"
    if differs:
        return "refused", f"{differing} among the labelled traces, and {unlike}"
    if untested:
        return "corrected", f"{unlike}; {untested} not tested"
    return (
        "corrected",
        f"{unlike}; sensitivity and specificity hold among them, which is all that a corrected rate needs",
    )
