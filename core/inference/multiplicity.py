"""Several tests at once (SPEC 10.5): p-values and levels adjusted for how many questions were asked."""

from __future__ import annotations

from collections.abc import Sequence

from core.errors import UndefinedError
from core.inference.intervals import check_confidence_level, whole_count


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's adjusted p-values, for claims: the chance of any false one is at most the level (SPEC 10.5).

    With p(1) <= ... <= p(m), adjusted(j) = max over i <= j of min(1, (m - i + 1) p(i)). Valid under any dependence.

    Parameters
    ----------
    p_values : sequence of float
        In [0, 1]; may be empty.

    Returns
    -------
    tuple of float
        In the order given, each in [p, 1]; a smaller p never has a larger adjusted one, equal ones have equal.

    Raises
    ------
    UndefinedError
        If a p-value is outside [0, 1].

    References
    ----------
    Holm (1979), Scand. J. Stat. 6:65-70.

    Examples
    --------
    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03, 0.005])]
    [0.03, 0.06, 0.06, 0.02]
    """
    order = _ascending(p_values)
    adjusted = [0.0] * len(order)
    highest = 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = highest
    return tuple(adjusted)


def benjamini_hochberg(p_values: Sequence[float]) -> tuple[float, ...]:
    """Benjamini-Hochberg adjusted p-values, for screening: the expected share of false finds (SPEC 10.5).

    With p(1) <= ... <= p(m), adjusted(j) = min over i >= j of min(1, m p(i) / i).

    Parameters
    ----------
    p_values : sequence of float
        In [0, 1]; may be empty. Independent, or positively dependent.

    Returns
    -------
    tuple of float
        In the order given, each in [p, 1], at most Holm's.

    Raises
    ------
    UndefinedError
        If a p-value is outside [0, 1].

    References
    ----------
    Benjamini & Hochberg (1995), J. R. Stat. Soc. B 57:289-300.

    Examples
    --------
    >>> [round(p, 3) for p in benjamini_hochberg([0.01, 0.04, 0.03, 0.005])]
    [0.02, 0.04, 0.04, 0.02]
    """
    order = _ascending(p_values)
    adjusted = [0.0] * len(order)
    lowest = 1.0
    for rank, i in reversed(list(enumerate(order, start=1))):
        # In this order of operations the factor is exactly 1 at the largest p, which is so never made smaller.
        lowest = min(lowest, p_values[i] * (len(order) / rank))
        adjusted[i] = lowest
    return tuple(adjusted)


def sidak_level(confidence_level: float, n_tests: int) -> float:
    """Level of each of `n_tests` independent intervals that hold together at `confidence_level` (SPEC 10.5).

    level^(1/n).

    Parameters
    ----------
    confidence_level : float
        In (0, 1).
    n_tests : int
        At least 1.

    Returns
    -------
    float
        In [confidence_level, 1).

    Raises
    ------
    UndefinedError
        If the level is outside (0, 1) or there is no test.

    References
    ----------
    Šidák (1967), J. Am. Stat. Assoc. 62:626-633.

    Examples
    --------
    >>> round(1 - sidak_level(0.95, 5), 4)
    0.0102
    """
    check_confidence_level(confidence_level)
    if whole_count("n_tests", n_tests) < 1:
        raise UndefinedError("n_tests", n_tests, "needs at least 1")
    return float(confidence_level ** (1.0 / n_tests))


def _ascending(p_values: Sequence[float]) -> list[int]:
    for p in p_values:
        if not 0.0 <= p <= 1.0:
            raise UndefinedError("p_values", p, "a p-value lies in [0, 1]")
    return sorted(range(len(p_values)), key=lambda i: p_values[i])
