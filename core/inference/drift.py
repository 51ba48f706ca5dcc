"""Whether scores moved between two data sets (SPEC 13.5): shown beside a measurement, never a gate.

Scores are kept as histograms, which stream and add over files and machines; what lies in one bin counts as tied, and
every figure says how much that can matter.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from core.errors import UndefinedError
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, normal_quantile
from core.inference.multiplicity import holm
from core.inference.paired import two_sided_p

BINS = 1024
"""A power of two, so that the bin of a score is computed without rounding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreHistogram:
    """How many scores fall into each of 1024 equal bins of [0, 1]; a score of 1 is in the last (SPEC 13.5).

    ``+`` adds two of them.

    Attributes
    ----------
    counts : tuple of int
        1024 counts, each at least 0.
    """

    counts: tuple[int, ...] = (0,) * BINS

    def __post_init__(self) -> None:
        """Refuse what is no histogram."""
        if len(self.counts) != BINS or min(self.counts) < 0:
            raise UndefinedError("counts", len(self.counts), f"needs {BINS} counts of at least 0")

    def __add__(self, other: ScoreHistogram) -> ScoreHistogram:
        """Histogram of two samples together."""
        return ScoreHistogram(counts=tuple(a + b for a, b in zip(self.counts, other.counts, strict=True)))

    @property
    def n(self) -> int:
        """Number of scores."""
        return sum(self.counts)

    @classmethod
    def of(cls, scores: ArrayLike) -> ScoreHistogram:
        """Histogram of scores: for a category, the maxima over turns of the fully scored units.

        Raises
        ------
        UndefinedError
            If a score is not in [0, 1]: a missing one has to be left out, and counted, before.

        Examples
        --------
        >>> histogram = ScoreHistogram.of([0.0, 0.5, 1.0]) + ScoreHistogram.of([0.5])
        >>> histogram.n, histogram.counts[0], histogram.counts[512], histogram.counts[-1]
        (4, 1, 2, 1)
        """
        values = np.asarray(scores, np.float64).ravel()
        if not ((values >= 0.0) & (values <= 1.0)).all():
            raise UndefinedError("scores", values[~((values >= 0.0) & (values <= 1.0))][:5].tolist(), "lie in [0, 1]")
        bins = np.minimum((values * BINS).astype(np.int64), BINS - 1)
        return cls(counts=tuple(np.bincount(bins, minlength=BINS).tolist()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreDrift:
    """Two samples of scores compared (SPEC 13.5).

    Attributes
    ----------
    status : str
        ``compared``, or ``insufficient_data`` with fewer than 5 scores in a sample.
    n_reference, n_found : int
    effect : float or None
        P(found > reference) + P(equal)/2, in [0, 1]: .5 when neither tends to be higher.
    low, high : float or None
        Its interval, of positive width.
    effect_resolution : float or None
        The effect of the unbinned scores differs from ``effect`` by at most this.
    ks_distance, ks_distance_at_most : float or None
        Largest difference of the distribution functions at the bins' edges, and a bound for that of the unbinned
        scores.
    p_value, p_adjusted : float or None
        Mann-Whitney's test with ties, and after Holm's adjustment over the categories.
    """

    status: Literal["compared", "insufficient_data"]
    n_reference: int
    n_found: int
    effect: float | None = None
    low: float | None = None
    high: float | None = None
    effect_resolution: float | None = None
    ks_distance: float | None = None
    ks_distance_at_most: float | None = None
    p_value: float | None = None
    p_adjusted: float | None = None


def score_drift(
    reference: Mapping[str, ScoreHistogram],
    found: Mapping[str, ScoreHistogram],
    *,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
) -> dict[str, ScoreDrift]:
    """Compare the scores of two data sets, category by category (SPEC 13.5).

    Parameters
    ----------
    reference, found : mapping of str to ScoreHistogram
        The categories that both have are compared, in the order of ``reference``.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    dict of str to ScoreDrift

    Raises
    ------
    UndefinedError
        If the level is outside (0, 1).

    References
    ----------
    Mann & Whitney (1947), Ann. Math. Stat. 18:50-60; DeLong, DeLong & Clarke-Pearson (1988), Biometrics 44:837-845.

    Examples
    --------
    >>> low, high = ScoreHistogram.of([0.1, 0.2, 0.3, 0.4, 0.5]), ScoreHistogram.of([0.3, 0.6, 0.7, 0.8, 0.9])
    >>> drift = score_drift({"hate": low}, {"hate": high})["hate"]
    >>> round(drift.effect, 2), round(drift.low, 2), round(drift.high, 2), round(drift.p_adjusted, 3)
    (0.9, 0.45, 0.99, 0.047)
    """
    z = normal_quantile(confidence_level)
    compared = {name: _compared(reference[name], found[name], z) for name in reference if name in found}
    tested = {name: drift.p_value for name, drift in compared.items() if drift.p_value is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {name: replace(drift, p_adjusted=adjusted.get(name)) for name, drift in compared.items()}


def _compared(reference: ScoreHistogram, found: ScoreHistogram, z: float) -> ScoreDrift:
    n0, n1 = reference.n, found.n
    if min(n0, n1) < MIN_CLUSTERS:
        return ScoreDrift(status="insufficient_data", n_reference=n0, n_found=n1)
    f, g = np.asarray(reference.counts, np.float64), np.asarray(found.counts, np.float64)
    below = (np.cumsum(f) - f / 2.0) / n0  # share of the reference below a found score, ties by half
    above = 1.0 - (np.cumsum(g) - g / 2.0) / n1  # share of the found above a reference score
    effect = float(g @ below / n1)
    variance = _spread(below, g) / n1 + _spread(above, f) / n0
    low, high = _effect_interval(effect, variance, n0, n1, z)
    distance, at_most = _ks(f / n0, g / n1)
    return ScoreDrift(
        status="compared",
        n_reference=n0,
        n_found=n1,
        effect=effect,
        low=low,
        high=high,
        effect_resolution=float((f / n0) @ (g / n1) / 2.0),
        ks_distance=distance,
        ks_distance_at_most=at_most,
        p_value=_mann_whitney_p(effect, f + g, n0, n1),
    )


def _spread(placements: NDArray[np.float64], counts: NDArray[np.float64]) -> float:
    n = counts.sum()
    mean = counts @ placements / n
    return float(counts @ (placements - mean) ** 2 / (n - 1.0))


def _effect_interval(effect: float, variance: float, n0: int, n1: int, z: float) -> tuple[float, float]:
    """DeLong's variance on the logit; where that is 0 (samples apart, or all tied), Newcombe's score interval."""
    if variance > 0.0 and 0.0 < effect < 1.0:
        centre = math.log(effect / (1.0 - effect))
        half_width = z * math.sqrt(variance) / (effect * (1.0 - effect))
        return _expit(centre - half_width), _expit(centre + half_width)
    return _score_end(effect, n0, n1, z, 0.0), _score_end(effect, n0, n1, z, 1.0)


def _expit(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0.0 else 1.0 - 1.0 / (1.0 + math.exp(x))


def _score_end(effect: float, n0: int, n1: int, z: float, border: float) -> float:
    """Farthest effect towards a border that is within z of its own standard error (Newcombe 2006, method 5)."""
    half = (n0 + n1) / 2.0 - 1.0

    def inside(theta: float) -> bool:
        rest = 1.0 - theta
        variance = theta * rest * (1.0 + half * rest / (2.0 - theta) + half * theta / (1.0 + theta)) / (n0 * n1)
        return abs(effect - theta) <= z * math.sqrt(variance)

    near, far = effect, border
    for _ in range(60):
        middle = (near + far) / 2.0
        near, far = (middle, far) if inside(middle) else (near, middle)
    return near


def _ks(f: NDArray[np.float64], g: NDArray[np.float64]) -> tuple[float, float]:
    """Largest distance at the edges, and what it can be inside a bin: all of one sample first, then of the other."""
    gap = np.cumsum(f - g)
    before = gap - (f - g)
    return float(np.abs(gap).max()), float(min(1.0, np.maximum(np.abs(before + f), np.abs(before - g)).max()))


def _mann_whitney_p(effect: float, ties: NDArray[np.float64], n0: int, n1: int) -> float:
    """Two-sided p, normal approximation with the correction for ties and for continuity; 1 when all scores tie."""
    total = float(n0 + n1)
    tied = float((ties**3 - ties).sum()) / (total * (total - 1.0))
    variance = n0 * n1 / 12.0 * (total + 1.0 - tied)
    if variance <= 0.0:
        return 1.0
    distance = max(0.0, abs(effect - 0.5) * n0 * n1 - 0.5)
    return two_sided_p(distance / math.sqrt(variance))
