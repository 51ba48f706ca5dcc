"""Whether a series goes one way (SPEC 18.3): an exact Mann-Kendall test, and how its level is spent over many looks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from core.errors import UndefinedError
from core.inference.intervals import check_confidence_level, whole_count
from core.inference.paired import SMALLEST_P

MIN_LOOKS = 5
"""Values of a series below which no order of them is rare: 5 have 120 orders, 4 have 24."""

MAX_VALUES = 100
"""Values that a series is tested on, the newest; working the law out takes about a third of a second then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trend:
    """A Mann-Kendall test.

    Attributes
    ----------
    n : int
        Values.
    statistic : int
        Pairs of values that rise with time, less those that fall; above 0 for a rise.
    p_value : float
        Two-sided, in (0, 1].
    """

    n: int
    statistic: int
    p_value: float


def mann_kendall_test(values: Sequence[float]) -> Trend:
    """Test a series for a trend by the order of its values, exactly and with ties (SPEC 18.3).

    S = Σ sign(v(j) - v(i)) over i < j; under the null every order of the values is equally likely, and
    p = P(|S| >= |s|) over these orders.

    Parameters
    ----------
    values : sequence of float
        In the order of time, at most 100. Fewer than two values, or none that differ, give p = 1.

    Returns
    -------
    Trend

    Raises
    ------
    UndefinedError
        If a value is not a number, or there are more than 100.

    References
    ----------
    Mann (1945), Econometrica 13:245-259; Kendall (1975), Rank Correlation Methods.

    Examples
    --------
    >>> found = mann_kendall_test([0.90, 0.89, 0.89, 0.86, 0.85])
    >>> found.statistic, round(found.p_value, 4)
    (-9, 0.0333)
    """
    numbers = [float(value) for value in values]
    if any(math.isnan(number) for number in numbers):
        raise UndefinedError("values", numbers, "must be numbers")
    n = len(numbers)
    if n > MAX_VALUES:
        raise UndefinedError("values", n, f"at most {MAX_VALUES} are tested")
    statistic = sum((b > a) - (b < a) for i, a in enumerate(numbers) for b in numbers[i + 1 :])
    ties = list(Counter(numbers).values())
    untied = n * (n - 1) // 2 - sum(t * (t - 1) // 2 for t in ties)
    law = _inversions(ties, untied)
    # With v inversions S = untied - 2 v, and the law of v is symmetric.
    at_most = (untied - abs(statistic)) // 2
    share = min(Fraction(1), Fraction(2 * sum(law[: at_most + 1]), sum(law)))
    return Trend(n=n, statistic=statistic, p_value=max(SMALLEST_P, float(share)))


def _inversions(ties: Sequence[int], most: int) -> list[int]:
    """Count the orders of a multiset by inversions: the coefficients of Π (1-q^j), j <= n, over the same of ties."""
    above = Counter(range(1, sum(ties) + 1))
    above.subtract(Counter(j for t in ties for j in range(1, t + 1)))
    law = [1] + [0] * most
    for j, power in above.items():
        for _ in range(power):
            for i in range(most, j - 1, -1):
                law[i] -= law[i - j]
        for _ in range(-power):
            for i in range(j, most + 1):
                law[i] += law[i - j]
    return law


def level_of_look(confidence_level: float, n_values: int) -> float | None:
    """Level at which a growing series is tested when it has so many values (SPEC 18.3).

    (1 - confidence level) / ((n - 4) (n - 3)): over all n >= 5 these add up to 1 - confidence level, so that the
    chance of ever finding a trend where there is none is at most that, however often one looks.

    Parameters
    ----------
    confidence_level : float
        In (0, 1).
    n_values : int
        At least 0.

    Returns
    -------
    float or None
        None with fewer than 5 values: no test.

    Raises
    ------
    UndefinedError
        If an argument is outside its range.

    Examples
    --------
    >>> level_of_look(0.95, 4), round(level_of_look(0.95, 5), 4), round(level_of_look(0.95, 12), 6)
    (None, 0.025, 0.000694)
    """
    check_confidence_level(confidence_level)
    if whole_count("n_values", n_values) < MIN_LOOKS:
        return None
    return (1.0 - confidence_level) / ((n_values - 4) * (n_values - 3))
