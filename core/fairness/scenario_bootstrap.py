"""How sure a metric of generated text is: whole scenarios are drawn again (SPEC 17.3).

Replicates of one prompt err together, so scenarios are the independent units. A metric gives sums per scenario and a
statistic of their total; nothing here touches rows. Plain percentiles are not used: the divergence of a finite sample
from its reference is never 0, and its percentile interval misses a true 0 in most samples.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from core.errors import UndefinedError
from core.inference.intervals import check_confidence_level

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Statistic = Callable[[Floats], Floats]

FEW_SCENARIOS = 10
MAX_UNITS = 2000
"""More scenarios than this are put into so many groups at random, which are then drawn instead."""

_SMOOTHING = 0.5
"""Outputs that are added in all when a path is laid, so that a group that was not seen keeps a possibility."""

_STEEPEST = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How intervals are made.

    Attributes
    ----------
    confidence_level : float in (0, 1)
    resamples : int in [100, 100000]
    seed : int, at least 0
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"extra": "forbid"}
    confidence_level: float = 0.95
    resamples: int = 2000
    seed: int = 20261129

    def __post_init__(self) -> None:
        check_confidence_level(self.confidence_level)
        if not 100 <= self.resamples <= 100_000:
            raise UndefinedError("resamples", self.resamples, "must lie in [100, 100000]")
        if self.seed < 0:
            raise UndefinedError("seed", self.seed, "must not be negative")

    def generator(self, name: str) -> np.random.Generator:
        """Generator of one metric, which other metrics do not move."""
        return np.random.default_rng([self.seed, zlib.crc32(name.encode())])


@dataclass(frozen=True, slots=True, kw_only=True)
class BootstrapInterval:
    """Interval of a metric over scenarios (SPEC 17.3).

    Attributes
    ----------
    low, high : float
        Low is never above high.
    confidence_level : float
    method : str
        ``bca``, ``test_inversion``, or ``no_variation`` where no scenario differs from another.
    n_units : int
        What was drawn: scenarios, or random groups of them when there are more than 2000.
    resamples : int
    """

    low: float
    high: float
    confidence_level: float
    method: str
    n_units: int
    resamples: int

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise UndefinedError("interval", (self.low, self.high), "its low end lies above the high one")


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """What the scenarios say about a value, apart from the value itself.

    Attributes
    ----------
    interval : BootstrapInterval or None
    confidence : tuple of float or None
        That the value lies at or below each of the asked edges.
    n_scenarios : int
    notes : tuple of str
    """

    interval: BootstrapInterval | None
    confidence: tuple[float, ...] | None
    n_scenarios: int
    notes: tuple[str, ...] = ()


def units_of(sums: Floats, rng: np.random.Generator) -> Floats:
    """Put scenarios in an order of their own, and in random groups when there are very many (SPEC 17.3)."""
    # By what they hold: neither names nor the order of rows may decide which of them a seed draws. Equal keys are
    # equal rows, as good as surely.
    sums = sums[np.argsort(sums @ np.sqrt(np.arange(2.0, sums.shape[1] + 2.0)), kind="stable")]
    if len(sums) <= MAX_UNITS:
        return sums
    group = rng.permutation(np.arange(len(sums)) % MAX_UNITS)
    order = np.argsort(group, kind="stable")
    starts = np.searchsorted(group[order], np.arange(MAX_UNITS))
    grouped: Floats = np.add.reduceat(sums[order], starts, axis=0)
    return grouped


def drawn_sums(units: Floats, resamples: int, rng: np.random.Generator) -> Floats:
    """Totals over units drawn with replacement, a row a resample."""
    n = len(units)
    totals = np.empty((resamples, units.shape[1]))
    size = max(1, 1_000_000 // n)
    for first in range(0, resamples, size):
        rows = min(size, resamples - first)
        drawn = rng.integers(0, n, (rows, n)) + np.arange(rows)[:, None] * n
        weights = np.bincount(drawn.ravel(), minlength=rows * n).reshape(rows, n)
        totals[first : first + rows] = weights @ units
    return totals


def expanded_quantile(confidence_level: float, n_units: int) -> float:
    """Normal quantile that makes percentiles of a bootstrap over few units as wide as Student's t (SPEC 17.3).

    √(G/(G-1)) t, with G-1 degrees of freedom, above z.

    Examples
    --------
    >>> round(expanded_quantile(0.95, 50), 3), round(expanded_quantile(0.95, 5), 3)
    (2.03, 3.104)
    """
    from scipy.special import stdtrit

    return float(np.sqrt(n_units / (n_units - 1)) * -stdtrit(n_units - 1, (1.0 - confidence_level) / 2.0))


def bca(
    sums: Floats,
    statistic: Statistic,
    *,
    edges: Sequence[float],
    bounds: tuple[float, float],
    sampling: Sampling,
    name: str,
    rare: bool = False,
) -> Estimate:
    """Interval of a statistic of sums by the bias-corrected, accelerated bootstrap (SPEC 17.3).

    Parameters
    ----------
    sums : float64 array of shape (n_scenarios, m)
        Sums of each scenario, in an order that does not depend on the rows'.
    statistic : callable
        From sums of shape (..., m) to values of shape (...); NaN where a resample holds nothing to score.
    edges : sequence of float
        Where confidence is wanted.
    bounds : tuple of float
        Between which the value must lie; one end may be infinite.
    sampling : Sampling
    name : str
        Of the metric; with the seed it names the generator.
    rare : bool
        Whether scenarios of rare, large value may be missing from the sample: the high end then also allows for one
        more scenario like the one that raises the statistic most, and the low end is not above the percentile's.

    References
    ----------
    Efron (1987), J. Am. Stat. Assoc. 82:171-185; expansion for few units: Hesterberg (2015), Am. Stat. 69:371-386.
    """
    n_scenarios = len(sums)
    if n_scenarios < 2:
        return Estimate(interval=None, confidence=None, n_scenarios=n_scenarios, notes=("one_scenario",))
    few = ("few_scenarios",) if n_scenarios < FEW_SCENARIOS else ()
    rng = sampling.generator(name)
    units = units_of(sums, rng)
    value = float(statistic(sums.sum(axis=0)))
    draws = statistic(drawn_sums(units, sampling.resamples, rng))
    draws = np.sort(draws[np.isfinite(draws)])
    left_out = statistic(units.sum(axis=0) - units)
    left_out = left_out[np.isfinite(left_out)]
    if len(draws) < 2 or draws[-1] - draws[0] <= 1e-12 * max(1.0, abs(value)):
        return _unvaried(value, n_scenarios, edges=edges, bounds=bounds, sampling=sampling, notes=few)
    correction = _Correction.of(draws, left_out, value)
    expansion = expanded_quantile(sampling.confidence_level, len(units))
    low, high = np.quantile(draws, [correction.level(-expansion), correction.level(expansion)])
    if rare:
        level = _normal(-expansion)
        one_more = statistic(drawn_sums(_with_worst(units, statistic), sampling.resamples, rng))
        low = min(low, np.quantile(draws, level))
        high = max(high, np.quantile(one_more[np.isfinite(one_more)], 1.0 - level))
    interval = BootstrapInterval(
        low=float(max(low, bounds[0])),
        high=float(min(high, bounds[1])),
        confidence_level=sampling.confidence_level,
        method="bca",
        n_units=len(units),
        resamples=sampling.resamples,
    )
    shrink = -_normal_quantile((1.0 - sampling.confidence_level) / 2.0) / expansion
    confidence = tuple(correction.confidence(_share_below(draws, edge), shrink) for edge in edges)
    return Estimate(interval=interval, confidence=confidence, n_scenarios=n_scenarios, notes=few)


def _with_worst(units: Floats, statistic: Statistic) -> Floats:
    """Add a copy of the unit without which the statistic is lowest."""
    without = statistic(units.sum(axis=0) - units)
    worst = int(np.argmin(np.where(np.isfinite(without), without, np.inf)))
    return np.concatenate([units, units[worst : worst + 1]])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Correction:
    """Efron's bias correction z0 and acceleration."""

    z0: float
    acceleration: float

    @classmethod
    def of(cls, draws: Floats, left_out: Floats, value: float) -> _Correction:
        below = _share_below(draws, value)
        deviation = left_out.mean() - left_out
        spread = float((deviation**2).sum()) ** 1.5
        skew = float((deviation**3).sum()) / (6.0 * spread) if spread > 0.0 else 0.0
        return cls(z0=_normal_quantile(min(max(below, 0.01), 0.99)), acceleration=skew)

    def level(self, z: float) -> float:
        """Share of the draws at which the end for the normal quantile z lies."""
        moved = self.z0 + z
        # Beyond its pole the correction would turn round; there it stays at the pole.
        return _normal(self.z0 + moved / max(1.0 - self.acceleration * moved, 1e-3))

    def confidence(self, below: float, shrink: float) -> float:
        """Corrected confidence, from the share of the draws below a value: the inverse of `level`."""
        if below in (0.0, 1.0):
            return below
        w = _normal_quantile(below) - self.z0
        return _normal((w / max(1.0 + self.acceleration * w, 1e-3) - self.z0) * shrink)


def _share_below(draws: Floats, value: float) -> float:
    """Share of sorted draws below a value, those equal to it counted half."""
    margin = 1e-12 * max(1.0, abs(value))
    ends = np.searchsorted(draws, [value - margin, value + margin])
    return float(ends.sum()) / (2 * len(draws))


def _unvaried(
    value: float,
    n_scenarios: int,
    *,
    edges: Sequence[float],
    bounds: tuple[float, float],
    sampling: Sampling,
    notes: tuple[str, ...],
) -> Estimate:
    """Bound by what G scenarios can have failed to show, where none differs from another (SPEC 17.3).

    If a share p of scenarios took the extreme value, G of them would all miss it with probability (1-p)^G.
    """
    low, high = bounds
    notes = (*notes, "no_variation")
    if not np.isfinite(low + high):
        return Estimate(interval=None, confidence=None, n_scenarios=n_scenarios, notes=notes)
    interior = low < value < high
    alpha = (1.0 - sampling.confidence_level) / (1.0 if interior else 2.0)
    unseen = 1.0 - alpha ** (1.0 / n_scenarios)
    interval = BootstrapInterval(
        low=value - unseen * (value - low),
        high=value + unseen * (high - value),
        confidence_level=sampling.confidence_level,
        method="no_variation",
        n_units=n_scenarios,
        resamples=sampling.resamples,
    )

    def confidence(edge: float) -> float:
        room, way = (high - value, edge - value) if edge >= value else (value - low, value - edge)
        missed = (1.0 - min(way / room, 1.0)) ** n_scenarios if room > 0.0 else 0.0
        missed *= 0.5 if interior else 1.0
        return 1.0 - missed if edge >= value else missed

    return Estimate(interval=interval, confidence=tuple(map(confidence, edges)), n_scenarios=n_scenarios, notes=notes)


def inverted_test(
    sums: Floats,
    statistic: Statistic,
    anchor: Floats,
    *,
    rising: bool,
    edges: Sequence[float],
    sampling: Sampling,
    name: str,
) -> Estimate:
    """Interval of a divergence from a distribution by inverting a bootstrap test (SPEC 17.3).

    On the path P_s ∝ Q (P/Q)^s from the anchor Q through the observed P, the ends are the values at which the
    observed one is at the α/2 tail of what scenarios would show there. That takes the bias of a finite sample off,
    and at the anchor the end is the divergence's least value. A sample nearer to the anchor than half of those that
    come from the anchor itself counts, for the far end, as if it were as far as they: being luckily near is no
    evidence of being nearer.

    Parameters
    ----------
    sums : float64 array of shape (n_scenarios, k)
        Outputs of each scenario by group.
    statistic : callable
        From counts or shares of shape (..., k) to values.
    anchor : float64 array of shape (k,)
        Positive, of sum 1: where the statistic has its extreme.
    rising : bool
        Whether the statistic grows with the distance from the anchor.
    edges, sampling, name
        As in `bca`.

    References
    ----------
    Carpenter (1999), J. R. Stat. Soc. B 61:159-172; the power constraint: Cowan et al. (2011), arXiv:1105.3166.
    """
    n_scenarios = len(sums)
    if n_scenarios < 2:
        return Estimate(interval=None, confidence=None, n_scenarios=n_scenarios, notes=("one_scenario",))
    few = ("few_scenarios",) if n_scenarios < FEW_SCENARIOS else ()
    path = _Path.of(sums, statistic, anchor, rising=rising, sampling=sampling, name=name)
    notes = few if path.noise is not None else (*few, "no_variation")
    alpha = (1.0 - sampling.confidence_level) / 2.0
    near, far = path.end_near(alpha), path.end_far(alpha)
    ends = sorted((path.value_at(near), path.value_at(max(near, far))))
    interval = BootstrapInterval(
        low=ends[0],
        high=ends[1],
        confidence_level=sampling.confidence_level,
        method="test_inversion",
        n_units=path.n_units,
        resamples=sampling.resamples,
    )
    confidence = tuple(map(path.confidence, edges))
    return Estimate(interval=interval, confidence=confidence, n_scenarios=n_scenarios, notes=notes)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Path:
    """Distributions between an anchor and beyond what was observed, and what scenarios would show at each."""

    statistic: Statistic
    log_anchor: Floats
    direction: Floats
    observed: float
    constrained: float
    sign: float
    noise: Floats | None
    uniform: Floats
    n_units: int

    @classmethod
    def of(
        cls, sums: Floats, statistic: Statistic, anchor: Floats, *, rising: bool, sampling: Sampling, name: str
    ) -> _Path:
        rng = sampling.generator(name)
        units = units_of(sums, rng)
        counts = units.sum(axis=0)
        drawn = drawn_sums(units, sampling.resamples, rng)
        root = np.sqrt(_smoothed(counts))
        noise = np.sqrt(_smoothed(drawn)) - root
        noise -= noise.mean(axis=0)
        normal = -_normal_quantile((1.0 - sampling.confidence_level) / 2.0)
        noise *= expanded_quantile(sampling.confidence_level, len(units)) / normal
        varied = float(np.abs(noise).max()) > 1e-9
        direction = np.log(_smoothed(counts)) - np.log(anchor)
        if np.abs(direction).max() < 1e-6:  # exactly the anchor: any way out will do
            direction = (np.arange(len(anchor)) == int(np.argmax(anchor))).astype(np.float64)
        observed = float(statistic(counts))
        path = cls(
            statistic=statistic,
            log_anchor=np.log(anchor),
            direction=direction,
            observed=observed,
            constrained=observed,
            sign=1.0 if rising else -1.0,
            noise=noise if varied else None,
            uniform=rng.random((sampling.resamples, len(units))) if not varied else np.zeros((0, 0)),
            n_units=len(units),
        )
        usual = float(np.median(path.draws(0.0)))
        return replace(path, constrained=max(observed, usual) if rising else min(observed, usual))

    def shares(self, s: float) -> Floats:
        weight = self.log_anchor + s * self.direction
        share: Floats = np.exp(weight - weight.max())
        share /= share.sum()
        return share

    def value_at(self, s: float) -> float:
        return float(self.statistic(self.shares(s)))

    def draws(self, s: float) -> Floats:
        """What samples of as many scenarios would show at a point of the path."""
        share = self.shares(s)
        if self.noise is None:
            # Scenarios that do not differ are worth one output each.
            chosen = np.searchsorted(np.cumsum(share)[:-1], self.uniform, side="right")
            rows = np.arange(len(chosen))[:, None] * len(share)
            counts = np.bincount((chosen + rows).ravel(), minlength=len(chosen) * len(share))
            return self.statistic(counts.reshape(len(chosen), len(share)).astype(np.float64))
        # On square roots of shares the noise of counts is about the same everywhere.
        root = np.sqrt(share)
        moved = root + self.noise - (self.noise @ root)[:, None] * root
        moved *= moved
        return self.statistic(moved)

    def _as_far(self, s: float, than: float) -> float:
        """Share of samples that lie at least as far from the anchor as a value."""
        return float((self.sign * (self.draws(s) - than) >= -1e-12).mean())

    def _as_near(self, s: float) -> float:
        return float((self.sign * (self.draws(s) - self.constrained) <= 1e-12).mean())

    def end_near(self, alpha: float) -> float:
        if self._as_far(0.0, self.observed) >= alpha:
            return 0.0
        return _crossing(lambda s: self._as_far(s, self.observed) >= alpha)

    def end_far(self, alpha: float) -> float:
        if self._as_near(_STEEPEST) >= alpha:
            return _STEEPEST
        return 0.0 if self._as_near(0.0) < alpha else _crossing(lambda s: self._as_near(s) < alpha)

    def confidence(self, edge: float) -> float:
        """Confidence that the value lies at or below an edge."""
        reached = self.sign * (self.value_at(_STEEPEST) - edge)
        if reached <= 0.0:
            further = 1.0
        elif self.sign * (self.value_at(0.0) - edge) >= 0.0:
            further = 0.0
        else:
            at_edge = _crossing(lambda s: self.sign * (self.value_at(s) - edge) >= 0.0)
            further = self._as_far(at_edge, self.constrained)
        return further if self.sign > 0 else 1.0 - further


def _smoothed(counts: Floats) -> Floats:
    smoothed: Floats = counts + _SMOOTHING / counts.shape[-1]
    smoothed /= smoothed.sum(axis=-1, keepdims=True)
    return smoothed


def _crossing(reached: Callable[[float], bool]) -> float:
    """Find where a condition begins to hold on the path, by halving."""
    low, high = 0.0, 1.0
    while high < _STEEPEST and not reached(high):
        low, high = high, high * 2.0
    for _ in range(24):
        middle = (low + high) / 2.0
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high


def _normal(z: float) -> float:
    from scipy.special import ndtr

    return float(ndtr(z))


def _normal_quantile(p: float) -> float:
    from scipy.special import ndtri

    return float(ndtri(p))
