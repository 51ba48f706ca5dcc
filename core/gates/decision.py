"""The decision table, and what is still needed where it does not decide (SPEC 16.2, 16.4)."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from scipy.special import ndtri

from core.gates.policy import Bound, Op

Verdict = Literal["pass", "fail", "insufficient_evidence"]

POWER = 0.80
MAX_GROWTH = 1e6
"""Beyond a million times as much evidence the figure stands at the threshold, for all that can be done."""

_OPS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A figure as a gate reads it; None is what the record does not have.

    Attributes
    ----------
    value, low, high : float or None
        Finite; ``low < high`` where both are there.
    confidence_level : float in (0, 1) or None
    n : int or None
        Units behind it.
    unit_share : float in [0, 1]
        Share of the variance that more of these units make smaller.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    confidence_level: float | None = None
    n: int | None = None
    unit_share: float = 1.0

    def at(self, bound: Bound) -> float | None:
        """Return the number that a bound names."""
        return {"point": self.value, "low": self.low, "high": self.high}[bound]


@dataclass(frozen=True, slots=True, kw_only=True)
class Needed:
    """What would decide.

    Attributes
    ----------
    says : str
        In words.
    decides : {'pass', 'fail'} or None
        What it would be at the present value.
    n : int or None
        Units now.
    n_more : int or None
        About how many more units decide; None where no number of them does.
    growth : float or None
        How many times as much evidence of every kind decides, at least 1.
    """

    says: str
    decides: Verdict | None = None
    n: int | None = None
    n_more: int | None = None
    growth: float | None = None


def satisfies(value: float, op: Op, threshold: float) -> bool:
    """Whether a number is what a rule asks for; nothing is rounded before.

    Examples
    --------
    >>> satisfies(0.10, "<=", 0.10), satisfies(0.10, "<", 0.10)
    (True, False)
    """
    return _OPS[op](value, threshold)


def decide(reading: Reading, *, bound: Bound, op: Op, threshold: float) -> Verdict:
    """Hold a figure against a threshold (SPEC 16.2).

    ``pass`` if the named bound is what the rule asks for; ``fail`` if nothing in the interval is (for ``point``: if the
    value is not); else the interval holds both, and the evidence does not decide. Where the record has only the end
    that the rule names, the value stands for the other.

    Parameters
    ----------
    reading : Reading
    bound, op, threshold
        Of the rule.

    Returns
    -------
    {'pass', 'fail', 'insufficient_evidence'}
        Never ``pass`` without a finite number at the bound.

    Examples
    --------
    >>> rate = Reading(value=0.04, low=0.02, high=0.07)
    >>> [decide(rate, bound="high", op="<=", threshold=t) for t in (0.01, 0.05, 0.08)]
    ['fail', 'insufficient_evidence', 'pass']
    >>> decide(Reading(value=0.04), bound="high", op="<=", threshold=0.5)
    'insufficient_evidence'
    """
    read = reading.at(bound)
    if read is None or not math.isfinite(read):
        return "insufficient_evidence"
    if satisfies(read, op, threshold):
        return "pass"
    best = read if bound == "point" else reading.low if _wants_small(op) else reading.high
    if best is None:
        best = reading.value
    if best is None or not math.isfinite(best) or satisfies(best, op, threshold):
        return "insufficient_evidence"
    return "fail"


def _wants_small(op: Op) -> bool:
    return op in ("<", "<=")


def minimum_detectable_effect(reading: Reading, *, op: Op) -> float | None:
    """Return the distance from the threshold that this much evidence tells from it with a power of .80 (SPEC 16.4).

    Formula: h (z + z') / z, with h from the value to the end of its interval that has to hold, z the two-sided normal
    quantile of its level, and z' the one-sided of .80.

    Examples
    --------
    >>> round(minimum_detectable_effect(Reading(value=0.1, low=0.08, high=0.12, confidence_level=0.95), op="<="), 4)
    0.0286
    """
    end = reading.high if _wants_small(op) else reading.low
    if reading.value is None or end is None or reading.confidence_level is None:
        return None
    z = float(ndtri(0.5 + reading.confidence_level / 2.0))
    return abs(end - reading.value) * (z + float(ndtri(POWER))) / z


def needed(reading: Reading, *, bound: Bound, op: Op, threshold: float) -> Needed | None:
    """Say how much more evidence would decide at the present value (SPEC 16.4); None where that has no meaning.

    With h the distance from the value to the end that is still on the wrong side and m the distance from the value to
    the threshold, the variance has to fall to (m / h)² of what it is: growth g = (h / m)². More units alone make a
    share f of the variance smaller: n' = n f / ((m / h)² - (1 - f)), if that is positive.

    Examples
    --------
    >>> found = needed(Reading(value=0.04, low=0.02, high=0.06, n=400), bound="high", op="<=", threshold=0.05)
    >>> found.decides, found.n_more, found.growth
    ('pass', 1200, 4.0)
    """
    if decide(reading, bound=bound, op=op, threshold=threshold) != "insufficient_evidence" or reading.value is None:
        return None
    holds = satisfies(reading.value, op, threshold)
    end = reading.high if holds is _wants_small(op) else reading.low
    if reading.at(bound) is None or end is None:
        return None
    half, margin = abs(end - reading.value), abs(threshold - reading.value)
    if half <= 0.0 or half >= margin * math.sqrt(MAX_GROWTH):
        return Needed(says="the value stands at the threshold: no amount of evidence decides", n=reading.n)
    growth = (half / margin) ** 2
    if growth <= 1.0:  # the interval lies to one side of its own value
        return None
    decides: Verdict = "pass" if holds else "fail"
    if reading.n is None:
        return Needed(says=f"about {growth:.2g} times as much evidence: {decides}", decides=decides, growth=growth)
    room = 1.0 / growth - (1.0 - reading.unit_share)
    if room * MAX_GROWTH <= reading.unit_share:
        return Needed(
            says=f"more units alone do not decide: the doubt about the judge is too large; about {growth:.2g} times as "
            f"many units and golden traces: {decides}",
            decides=decides, n=reading.n, growth=growth,
        )  # fmt: skip
    more = max(1, math.ceil(reading.n * (reading.unit_share / room - 1.0) - 1e-9))
    return Needed(says=f"about {more} more units: {decides}", decides=decides, n=reading.n, n_more=more, growth=growth)
