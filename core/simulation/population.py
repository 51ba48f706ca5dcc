"""Known truth (SPEC 14.3): a judge whose scores follow a stated law, so that every rate is a sum and not an estimate.

On a latent scale a turn's score is

    y = sqrt(g) u + sqrt(v) w + sqrt(1 - g - v) e,
    x = y for a turn that does not violate, x = shift + spread y for the one turn that does,

with e standard normal for every turn and category, w common to a trace and u common to a cluster. u and w take the
15 values of the Gauss-Hermite rule for a standard normal law, with its weights: that is the law itself, no
approximation, and it makes the rates of a threshold finite sums. A score is 1 / (1 + exp(-x)), which keeps the order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from core.data.columns import Floats, Ints

NODES = 15
MAX_COMMON = 0.9
"""Largest share of variance that is common to a trace or a cluster."""

_SMALLEST_J = 0.001


@cache
def levels() -> tuple[Floats, Floats]:
    """Return the values of u and w, and their probabilities.

    Examples
    --------
    >>> values, weights = levels()
    >>> round(float(weights.sum()), 12), abs(round(float(weights @ values**2), 12))
    (1.0, 1.0)
    """
    values, weights = np.polynomial.hermite_e.hermegauss(NODES)
    return values, weights / weights.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class CategoryLaw:
    """How far a violating turn stands out in a category.

    Attributes
    ----------
    shift : float
        Distance of the means, in standard deviations of a clean turn.
    spread : float, above 0
        Standard deviation of violating turns, against that of clean ones.
    """

    shift: float
    spread: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Population:
    """A judge, and what violations look like.

    Attributes
    ----------
    laws : tuple of CategoryLaw
    patterns : bool array of shape (n_patterns, n_categories)
        Which categories a violating trace violates; no row is empty.
    pattern_shares : float array of shape (n_patterns,)
    trace_share, cluster_share : float in [0, 0.9]
        v and g: shares of variance common to a trace, to a cluster.
    """

    laws: tuple[CategoryLaw, ...]
    patterns: np.ndarray
    pattern_shares: Floats
    trace_share: float
    cluster_share: float = 0.0

    @property
    def n_categories(self) -> int:
        """Number of harm categories."""
        return int(self.patterns.shape[1])

    @property
    def own_scale(self) -> float:
        """Standard deviation of what is a turn's own, e's factor."""
        return float(np.sqrt(1.0 - self.trace_share - self.cluster_share))

    @cached_property
    def common(self) -> tuple[Floats, Floats]:
        """Values of sqrt(g) u + sqrt(v) w and their probabilities, both of shape (u levels, w levels).

        Without a common part of clusters there is one level of u.
        """
        values, weights = levels()
        of_cluster, cluster_weights = (values, weights) if self.cluster_share else (np.zeros(1), np.ones(1))
        at = np.sqrt(self.cluster_share) * of_cluster[:, None] + np.sqrt(self.trace_share) * values[None, :]
        return at, cluster_weights[:, None] * weights[None, :]

    def shares_of_categories(self) -> Floats:
        """Share of violating traces that violate each category."""
        return np.asarray(self.pattern_shares @ self.patterns)

    def flag_rates(self, cuts: Floats, turns: Ints) -> Floats:
        """Probability that a trace is flagged, by everything that it depends on.

        Parameters
        ----------
        cuts : float array of shape (n_categories,)
            Thresholds on the latent scale; +inf never flags.
        turns : int array of shape (n_turns,)
            Different numbers of turns.

        Returns
        -------
        float array of shape (2, n_turns, u levels, w levels, n_categories)
            First a trace that does not violate the category, then one that does at one of its turns.
        """
        at, _ = self.common
        shift = np.array([law.shift for law in self.laws])
        spread = np.array([law.spread for law in self.laws])
        clean = ndtr((cuts - at[..., None]) / self.own_scale)
        violating = ndtr(((cuts - shift) / spread - at[..., None]) / self.own_scale)
        before = clean[None] ** (turns - 1)[:, None, None, None]
        return 1.0 - np.stack([before * clean, before * violating])

    def passed(self, cut: float, turns: Ints, turn_shares: Floats, law: CategoryLaw | None = None) -> float:
        """Chance that a category passes a trace at a latent threshold: a clean one, or one that violates by a law."""
        at, weights = self.common
        clean = ndtr((cut - at) / self.own_scale)
        before = clean[None] ** (turns - 1)[:, None, None]
        last = clean if law is None else ndtr(((cut - law.shift) / law.spread - at) / self.own_scale)
        return float(turn_shares @ (before * last * weights).sum(axis=(1, 2)))

    def rates(self, cuts: Floats, turns: Ints, turn_shares: Floats) -> Rates:
        """True sensitivity and specificity of thresholds, over a law of turn counts.

        Categories are judged over all traces with a share of violating ones, see `Rates`.
        """
        flags = self.flag_rates(cuts, turns)
        _, weights = self.common
        over = turn_shares[:, None, None] * weights
        passed = 1.0 - flags
        # For each pattern, one at a time to keep memory small, the chance that no category flags.
        silent = [
            float((over * np.where(members, passed[1], passed[0]).prod(axis=-1)).sum()) for members in self.patterns
        ]
        return Rates(
            hit=np.einsum("tuw,tuwc->c", over, flags[1]),
            false_alarm=np.einsum("tuw,tuwc->c", over, flags[0]),
            composite_hit=1.0 - np.array(silent),
            composite_false_alarm=1.0 - float(np.einsum("tuw,tuw->", over, passed[0].prod(axis=-1))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """True rates at given thresholds, each over the law of turn counts and levels.

    Attributes
    ----------
    hit, false_alarm : float arrays of shape (n_categories,)
        Chance that a category flags a trace that violates it, and one that does not.
    composite_hit : float array of shape (n_patterns,)
        Chance that any category flags a trace with that pattern.
    composite_false_alarm : float
        The same for a trace that violates nothing.
    """

    hit: Floats
    false_alarm: Floats
    composite_hit: Floats
    composite_false_alarm: float

    def composite_sensitivity(self, population: Population, spanned: Sequence[int]) -> float:
        """Return the sensitivity over the traces that violate a category among those spanned."""
        members = population.patterns[:, list(spanned)].any(axis=1)
        shares = population.pattern_shares * members
        return float(shares @ self.composite_hit / shares.sum())

    def composite_specificity(self, population: Population, spanned: Sequence[int], prevalence: float) -> float:
        """Return the specificity: traces without any violation, and those that violate other categories only."""
        others = ~population.patterns[:, list(spanned)].any(axis=1)
        shares = prevalence * population.pattern_shares * others
        flagged = (1.0 - prevalence) * self.composite_false_alarm + float(shares @ self.composite_hit)
        return float(1.0 - flagged / (1.0 - prevalence + shares.sum()))

    def composite_j(self, population: Population, spanned: Sequence[int], prevalence: float) -> float:
        """Return Youden's J of the composite."""
        sensitivity = self.composite_sensitivity(population, spanned)
        return sensitivity + self.composite_specificity(population, spanned, prevalence) - 1.0


def patterns_of(n_categories: int, several: float = 0.2) -> tuple[np.ndarray, Floats]:
    """Return patterns of violation: one category, equally often, or two neighbours (a share `several` of all)."""
    single = np.eye(n_categories, dtype=bool)
    if n_categories == 1:
        return single, np.ones(1)
    double = single | np.roll(single, 1, axis=1)
    shares = np.repeat([1.0 - several, several], n_categories) / n_categories
    return np.concatenate([single, double]), shares


def best_cut(population: Population, law: CategoryLaw, turns: Ints, turn_shares: Floats) -> float:
    """Return the latent threshold with the largest true J in a category with that law.

    A trace that violates only other categories looks like a clean one to this category, so the mix does not matter.
    """

    def misses(cut: float) -> float:
        clean, violating = (population.passed(cut, turns, turn_shares, of) for of in (None, law))
        return violating - clean

    grid = np.linspace(-4.0, 4.0 + max(law.shift, 0.0), 81)
    start = int(np.argmin([misses(cut) for cut in grid]))
    low, high = grid[max(start - 1, 0)], grid[min(start + 1, len(grid) - 1)]
    return float(minimize_scalar(misses, bounds=(low, high), method="bounded", options={"xatol": 1e-7}).x)


def best_cuts(population: Population, turns: Ints, turn_shares: Floats) -> Floats:
    """Return every category's best threshold; categories of one law share it."""
    found = {law: best_cut(population, law, turns, turn_shares) for law in set(population.laws)}
    return np.array([found[law] for law in population.laws])


def with_composite_j(
    population: Population, youden_j: float, golden: tuple[Ints, Floats], production: tuple[Ints, Floats]
) -> Population:
    """Give all categories the same shift, such that the composite has a given J in production.

    Parameters
    ----------
    population : Population
        Its laws are replaced.
    youden_j : float in [0, 1)
    golden, production : (numbers of turns, shares)
        The thresholds are the best ones over the golden set's turn counts, J is over production's.
    """
    spanned = range(population.n_categories)

    def shifted(shift: float) -> Population:
        return replace(population, laws=(CategoryLaw(shift=shift),) * population.n_categories)

    def excess(shift: float) -> float:
        candidate = shifted(shift)
        rates = candidate.rates(best_cuts(candidate, *golden), *production)
        return rates.composite_j(candidate, spanned, prevalence=0.5) - youden_j  # any: all categories are spanned

    if youden_j < _SMALLEST_J:
        return shifted(0.0)
    return shifted(float(brentq(excess, 0.0, 30.0, xtol=1e-6)))
