"""How far paired values moved (SPEC 18.2): decisions or scores of the same traces, at two times."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UndefinedError
from core.inference.clusters import FEW_CLUSTERS, FLOOR_CORRELATION, MIN_CLUSTERS, t_factor
from core.inference.intervals import check_confidence_level, normal_quantile
from core.inference.paired import mcnemar_test, sign_flip_test

STEPS = 1024
"""Steps of the unit interval in which shifts are counted: whole numbers keep the test exact, and what moved by less
than half a step did not move."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedShift:
    """Paired values, before and after.

    Attributes
    ----------
    n, n_clusters : int
        Pairs, and clusters that they lie in.
    n_effective : float
        Independent pairs that these are worth, in [0, n].
    n_up, n_down : int
        Pairs whose value rose and fell.
    added : float
        What the two pairs move that the interval adds: 1 for decisions, the largest move for scores.
    shift : float or None
        Mean of after - before, in [-1, 1]; None without a pair.
    low, high : float or None
        Its interval, of positive width; None with fewer than 5 clusters.
    p_value : float or None
        Of the exact test that pairs are exchangeable; None with fewer than 5 clusters.
    method : str or None
    """

    n: int
    n_clusters: int
    n_effective: float
    n_up: int
    n_down: int
    added: float = 1.0
    shift: float | None = None
    low: float | None = None
    high: float | None = None
    p_value: float | None = None
    method: str | None = None


def paired_shift(
    before: ArrayLike,
    after: ArrayLike,
    clusters: ArrayLike,
    *,
    clustered: bool,
    confidence_level: float,
    rng: np.random.Generator,
    scores: bool = False,
) -> PairedShift:
    """Mean shift of paired values in [0, 1] with its interval and an exact test (SPEC 18.2).

    d = after - before, in whole steps of 1/1024. The interval is that of 10.2 with J = 1 on effective pairs, with one
    pair added in each direction that moved by 1 (decisions), or by the largest |d| (scores), at least by a step; the
    test is McNemar's (decisions without clusters), else sign flips of the clusters' sums.

    Parameters
    ----------
    before, after : array of float
        In [0, 1], pair by pair; 0 and 1 for decisions.
    clusters : array of int
        Cluster of each pair.
    clustered : bool
        Whether the data name clusters. If not, the pairs are taken as independent.
    confidence_level : float
        In (0, 1).
    rng : numpy.random.Generator
        Used only where the test's law is too large to work out.
    scores : bool
        Whether the values are scores, and no decisions.

    Returns
    -------
    PairedShift

    Raises
    ------
    UndefinedError
        If a value is outside [0, 1], or the arrays differ in length.

    References
    ----------
    Bonett & Price (2012), J. Educ. Behav. Stat. 37:479-488; Fisher (1935), The Design of Experiments, 21.

    Examples
    --------
    >>> before, after = [1] * 90 + [0] * 10, [1] * 80 + [0] * 20
    >>> found = paired_shift(before, after, range(100), clustered=False, confidence_level=0.95,
    ...                      rng=np.random.default_rng(7))
    >>> found.shift, round(found.low, 4), round(found.high, 4), round(found.p_value, 6)
    (-0.1, -0.1638, -0.0362, 0.001953)
    """
    check_confidence_level(confidence_level)
    moved = _steps(before, after, clusters)
    unit = 1 if scores else STEPS
    codes = np.asarray(clusters, np.int64) if clustered else np.arange(len(moved))
    sums = _per_cluster(codes, moved // unit)
    n = len(moved)
    bare = PairedShift(
        n=n, n_clusters=len(sums), n_effective=0.0, n_up=int((moved > 0).sum()), n_down=int((moved < 0).sum()),
        shift=float(moved.sum()) / STEPS / n if n else None, added=_added(moved) if scores else 1.0,
    )  # fmt: skip
    if len(sums) < MIN_CLUSTERS:
        return bare
    changes = {change: count for change, count in Counter(sums.tolist()).items() if change}
    if not scores and not clustered:
        test = mcnemar_test(changes.get(1, 0), changes.get(-1, 0))
    else:
        test = sign_flip_test(changes, rng=rng)
    values = moved / STEPS
    worth = _effective(values, codes, clustered=clustered, confidence_level=confidence_level)
    if scores and not clustered:  # a spread that is estimated, too
        worth *= t_factor(n, confidence_level=confidence_level)
    half_width = normal_quantile(confidence_level) * math.sqrt(_variance(values, worth, bare.added))
    shift = float(values.mean())
    return replace(
        bare, n_effective=worth, shift=shift, low=max(-1.0, shift - half_width), high=min(1.0, shift + half_width),
        p_value=test.p_value, method=test.method,
    )  # fmt: skip


def pairs_needed(found: PairedShift, mean_square: float, half_width: float, *, confidence_level: float) -> int:
    """Pairs with which the interval of a shift is no wider than wanted, if pairs go on moving as they do (SPEC 18.2).

    With m = n + 2, the mean square f of what a pair moves, and u what the added pairs do, the least m with
    z² (f m + 2 u² - 2 f) <= h² m², times what clusters cost.

    Parameters
    ----------
    found : PairedShift
        With an interval.
    mean_square : float
        In [0, 1].
    half_width : float
        Above 0.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    int

    Raises
    ------
    UndefinedError
        If an argument is outside its range.

    Examples
    --------
    >>> still = paired_shift([0] * 50, [0] * 50, range(50), clustered=False, confidence_level=0.95,
    ...                      rng=np.random.default_rng(7))
    >>> pairs_needed(still, 0.0, 0.05, confidence_level=0.95)
    54
    """
    if not (0.0 <= mean_square <= 1.0 and half_width > 0.0):
        raise UndefinedError(
            "half_width", (mean_square, half_width), "needs a mean square in [0, 1] and a width above 0"
        )
    if found.n_effective <= 0.0:
        raise UndefinedError("found", found.n_effective, "pairs that are worth nothing say nothing of more of them")
    z2 = normal_quantile(confidence_level) ** 2
    h2 = half_width**2
    beside = 2.0 * max(0.0, found.added**2 - mean_square)
    m = (z2 * mean_square + math.sqrt((z2 * mean_square) ** 2 + 4.0 * h2 * z2 * beside)) / (2.0 * h2)
    return math.ceil(max(1.0, m - 2.0) * found.n / found.n_effective)


def _steps(before: ArrayLike, after: ArrayLike, clusters: ArrayLike) -> NDArray[np.int64]:
    first, second = np.asarray(before, np.float64), np.asarray(after, np.float64)
    if not first.shape == second.shape == np.asarray(clusters).shape or first.ndim != 1:
        raise UndefinedError("pairs", (first.shape, second.shape), "before, after and clusters need one length")
    for field, values in (("before", first), ("after", second)):
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise UndefinedError(field, values[~((values >= 0.0) & (values <= 1.0))][:5].tolist(), "lie in [0, 1]")
    return np.rint((second - first) * STEPS).astype(np.int64)


def _per_cluster(codes: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    _, dense = np.unique(codes, return_inverse=True)
    sums: NDArray[np.int64] = np.rint(np.bincount(dense, weights=values)).astype(np.int64)
    return sums


def _effective(
    values: NDArray[np.float64], codes: NDArray[np.int64], *, clustered: bool, confidence_level: float
) -> float:
    """Independent pairs that clustered ones are worth, as in 10.2."""
    n = len(values)
    if not clustered:
        return float(n)
    _, dense, sizes = np.unique(codes, return_inverse=True, return_counts=True)
    g = len(sizes)
    mean = values.mean()
    independent = float(values.var()) / n
    if independent <= 0.0:
        return float(g)
    sums = np.bincount(dense, weights=values) - mean * sizes
    between = g / (g - 1) * float((sums**2).sum()) / n**2
    design_effect = max(1.0, between / independent)
    if len(np.unique(dense[values != 0.0])) < FEW_CLUSTERS:
        design_effect = max(design_effect, 1.0 + FLOOR_CORRELATION * (n / g - 1.0))
    return n / design_effect * t_factor(g, confidence_level=confidence_level)


def _added(moved: NDArray[np.int64]) -> float:
    return max(1, int(np.abs(moved).max(initial=0))) / STEPS


def _variance(values: NDArray[np.float64], n_effective: float, added: float) -> float:
    """Variance of the mean, with a pair added in each direction."""
    n = n_effective + 2.0
    squares = float((values**2).mean()) * n_effective + 2.0 * added**2
    total = float(values.mean()) * n_effective
    return (squares / n - (total / n) ** 2) / n
