"""Draws from known truth (SPEC 14.3): golden tables and production counts, each from its exact law.

Turns are never drawn one by one. The maximum over m clean turns has the law of the m-th root of a uniform number, and
a production sample is a draw of counts over (number of turns, flag mask), so that a sample of a million units costs
what one of a hundred does. Tests show both equal in law to drawing every turn.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import expit, ndtri

from core.data.columns import Bools, Floats, Ints
from core.inference.clusters import ClusterSums, cluster_sums
from core.instrument.golden_table import GoldenTable
from core.instrument.production import Sample
from core.instrument.strata import bin_of
from core.simulation.population import Population, levels

MAX_TABLE = 200_000
"""Above this many numbers in the table of flag masks, units are drawn one by one: that is then less work."""


@dataclass(frozen=True, kw_only=True)
class Turns:
    """A law of the number of turns.

    Attributes
    ----------
    values : int array of shape (n_values,)
        Different numbers of turns, at least 1, increasing.
    shares : float array of shape (n_values,)
        Their probabilities.
    """

    values: Ints
    shares: Floats

    @classmethod
    def of_shares(cls, shares: tuple[float, ...]) -> Turns:
        """Read shares of conversations with 1, 2, ... turns, those of share 0 left out."""
        given = np.asarray(shares, float)
        values = np.flatnonzero(given)
        return cls(values=values + 1, shares=given[values] / given.sum())

    @classmethod
    def of_counts(cls, n_turns: Ints) -> Turns:
        """Return the law of some conversations."""
        values, counts = np.unique(n_turns, return_counts=True)
        return cls(values=values, shares=counts / counts.sum())

    @property
    def law(self) -> tuple[Ints, Floats]:
        """Values and shares."""
        return self.values, self.shares

    def drawn(self, rng: np.random.Generator, n: int) -> Ints:
        """Draw positions in `values`."""
        return rng.choice(len(self.values), n, p=self.shares)

    def by_number(self) -> dict[str, float]:
        """Return the shares by number of turns, as records hold them."""
        return {str(value): float(share) for value, share in zip(self.values, self.shares, strict=True)}


@dataclass(frozen=True, kw_only=True)
class Traces:
    """Golden traces before they are scored.

    Attributes
    ----------
    truth : bool array of shape (n, n_categories)
    labels : int array of the same shape
        Truth as far as it was labelled: 0, 1 or -1.
    missing : bool array of the same shape
        Cells that the judge did not score at every turn.
    n_turns, clusters : int arrays of shape (n,)
    """

    truth: Bools
    labels: Ints
    missing: Bools
    n_turns: Ints
    clusters: Ints


@dataclass(frozen=True, kw_only=True)
class DrawnGolden:
    """A golden set that is drawn anew in every replication; the traces of a cluster have the same truth.

    Attributes
    ----------
    n : int
    positive_share : float
    turns : Turns
    cluster_size : int
    unlabelled, unscored : float
        Shares of missing labels, and of turns that were not scored.
    """

    n: int
    positive_share: float
    turns: Turns
    cluster_size: int = 1
    unlabelled: float = 0.0
    unscored: float = 0.0

    def traces(self, rng: np.random.Generator, population: Population) -> Traces:
        """Draw truth, labels and turns."""
        clusters = np.arange(self.n) // self.cluster_size
        truth = _truth(rng, population, clusters[-1] + 1, self.positive_share)[clusters]
        n_turns = self.turns.values[self.turns.drawn(rng, self.n)]
        labels = truth.astype(np.int64)
        if self.unlabelled:
            labels[rng.random(labels.shape) < self.unlabelled] = -1
        missing = np.zeros(truth.shape, bool)
        if self.unscored:
            missing |= (rng.random(self.n) >= (1.0 - self.unscored) ** n_turns)[:, None]
        return Traces(truth=truth, labels=labels, missing=missing, n_turns=n_turns, clusters=clusters)


@dataclass(frozen=True, kw_only=True)
class FixedGolden:
    """A golden set whose labels, turns, clusters and holes are given; truth is drawn where no label stands.

    Attributes
    ----------
    labels, missing, n_turns, clusters
        As in `Traces`.
    """

    labels: Ints
    missing: Bools
    n_turns: Ints
    clusters: Ints

    @cached_property
    def base_rates(self) -> Floats:
        """Share of positives among the labelled traces of each category; 0 where there is none."""
        labelled = (self.labels >= 0).sum(axis=0)
        return np.asarray((self.labels == 1).sum(axis=0) / np.maximum(labelled, 1))

    def traces(self, rng: np.random.Generator, population: Population) -> Traces:  # noqa: ARG002 (as DrawnGolden's)
        """Draw the truth that no label tells."""
        unknown = self.labels < 0
        truth = self.labels == 1
        if unknown.any():
            truth = np.where(unknown, rng.random(truth.shape) < self.base_rates, truth)
        return Traces(
            truth=truth, labels=self.labels, missing=self.missing, n_turns=self.n_turns, clusters=self.clusters
        )


def golden_table(
    rng: np.random.Generator, population: Population, traces: Traces, categories: tuple[str, ...]
) -> GoldenTable:
    """Score golden traces; the table has no ids, which calibration does not look at."""
    return GoldenTable(
        trace_ids=(),
        categories=categories,
        labels=traces.labels,
        maxima=drawn_maxima(rng, population, traces),
        missing=traces.missing,
        n_turns=traces.n_turns,
        cluster_names=None,
        clusters=traces.clusters,
        clustered=bool(np.bincount(traces.clusters).max() > 1),
        slices={},
        n_unmatched=0,
    )


def drawn_maxima(rng: np.random.Generator, population: Population, traces: Traces) -> Floats:
    """Draw the maxima over turns, shape (n_traces, n_categories), in [0, 1]."""
    truth, n_turns = traces.truth, traces.n_turns
    at = _common_of(rng, population, traces.clusters)
    clean_turns = n_turns[:, None] - truth
    uniform = rng.random(truth.shape)
    # The largest of m uniform numbers has the law of the m-th root of one; with m = 0 there is none.
    largest = np.where(clean_turns > 0, uniform ** (1.0 / np.maximum(clean_turns, 1)), 0.0)
    latent = at[:, None] + population.own_scale * ndtri(largest)
    rows, columns = np.nonzero(truth)
    shift = np.array([law.shift for law in population.laws])[columns]
    spread = np.array([law.spread for law in population.laws])[columns]
    violating = shift + spread * (at[rows] + population.own_scale * rng.standard_normal(len(rows)))
    latent[rows, columns] = np.maximum(latent[rows, columns], violating)
    return np.asarray(expit(latent))


def _common_of(rng: np.random.Generator, population: Population, clusters: Ints) -> Floats:
    """Draw what the turns of each trace have in common."""
    values, weights = levels()
    at = np.sqrt(population.trace_share) * values[rng.choice(len(values), len(clusters), p=weights)]
    if population.cluster_share:
        of_cluster = values[rng.choice(len(values), int(clusters.max()) + 1, p=weights)]
        at += np.sqrt(population.cluster_share) * of_cluster[clusters]
    return np.asarray(at)


def _truth(rng: np.random.Generator, population: Population, n: int, prevalence: float) -> Bools:
    violates = rng.random(n) < prevalence
    pattern = rng.choice(len(population.patterns), n, p=population.pattern_shares)
    return np.asarray(population.patterns[pattern] & violates[:, None])


@dataclass(frozen=True, kw_only=True)
class Production:
    """A production law under deployed thresholds.

    Attributes
    ----------
    population : Population
    turns : Turns
    cuts : float array of shape (n_categories,)
        Latent thresholds, +inf for categories that do not flag.
    cluster_size : int
    unscored : float
        Share of turns without a score; units with such a turn are not fully scored and left out.
    turn_bins : tuple of int
    """

    population: Population
    turns: Turns
    cuts: Floats
    cluster_size: int
    unscored: float
    turn_bins: tuple[int, ...]

    @cached_property
    def _flag_rates(self) -> Floats:
        return self.population.flag_rates(self.cuts, self.turns.values)

    @cached_property
    def _by_counts(self) -> bool:
        population = self.population
        table = (len(population.patterns) + 1) * self._flag_rates[0, ..., 0].size * 2**population.n_categories
        return self.cluster_size == 1 and table <= MAX_TABLE

    @cached_property
    def mask_laws(self) -> tuple[Floats, Floats]:
        """Chance of (number of turns, flag mask), for clean traces and for violating ones; fully scored ones only.

        Both of shape (n_turns, 2 ** n_categories).
        """
        _, weights = self.population.common
        clean, violating = self._flag_rates
        patterns = np.vstack([np.zeros((1, self.population.n_categories), bool), self.population.patterns])
        rates = np.where(patterns[:, None, None, None, :], violating, clean)
        joint = np.ones((*rates.shape[:-1], 1))
        for c in range(self.population.n_categories):
            flagged = joint * rates[..., c, None]
            joint = np.concatenate([joint - flagged, flagged], axis=-1)
        by_pattern = np.einsum("uw,ptuwm->ptm", weights, joint)
        scored = self.turns.shares * (1.0 - self.unscored) ** self.turns.values
        by_pattern *= scored[:, None]
        return by_pattern[0], np.einsum("p,ptm->tm", self.population.pattern_shares, by_pattern[1:])

    def samples(self, rng: np.random.Generator, prevalence: float, n_units: int) -> list[Sample]:
        """Draw production as each quantity sees it: the composite first, then every category."""
        if self._by_counts:
            return self._samples_of_counts(rng, prevalence, n_units)
        return self._samples_of_units(rng, prevalence, n_units)

    def _samples_of_counts(self, rng: np.random.Generator, prevalence: float, n_units: int) -> list[Sample]:
        clean, violating = self.mask_laws
        law = ((1.0 - prevalence) * clean + prevalence * violating).ravel()
        lost = max(0.0, 1.0 - law.sum())
        drawn = rng.multinomial(n_units, np.append(law, lost))[:-1].reshape(clean.shape)
        units = drawn.sum(axis=1)
        bits = (np.arange(clean.shape[1])[:, None] >> np.arange(self.population.n_categories)) & 1
        flagged = np.column_stack([units - drawn[:, 0], drawn @ bits])
        totals = flagged.sum(axis=0)
        n = int(units.sum())
        return [
            self._sample(units, flagged[:, i], ClusterSums.of_independent(n, int(totals[i])))
            for i in range(flagged.shape[1])
        ]

    def _samples_of_units(self, rng: np.random.Generator, prevalence: float, n_units: int) -> list[Sample]:
        clusters = np.arange(n_units) // self.cluster_size
        n_clusters = int(clusters[-1]) + 1
        truth = _truth(rng, self.population, n_clusters, prevalence)[clusters]
        at_turns = self.turns.drawn(rng, n_units)
        _, weights = self.population.common
        of_cluster = rng.choice(len(weights), n_clusters, p=weights.sum(axis=1))[clusters]
        of_trace = rng.choice(weights.shape[1], n_units, p=weights.sum(axis=0))
        violates, category = truth.astype(np.int64), np.arange(self.population.n_categories)
        place = (violates, at_turns[:, None], of_cluster[:, None], of_trace[:, None], category)
        chance = self._flag_rates[place]
        flags = rng.random(truth.shape) < chance
        if self.unscored:
            scored = rng.random(n_units) < (1.0 - self.unscored) ** self.turns.values[at_turns]
            flags, clusters, at_turns = flags[scored], clusters[scored], at_turns[scored]
        outcomes = np.column_stack([flags.any(axis=1), flags])
        units = np.bincount(at_turns, minlength=len(self.turns.values))
        return [
            self._sample(
                units,
                np.bincount(at_turns[outcomes[:, i]], minlength=len(units)),
                cluster_sums(clusters, outcomes[:, i]),
            )
            for i in range(outcomes.shape[1])
        ]

    def _sample(self, units: Ints, flagged: Ints, clusters: ClusterSums) -> Sample:
        n, x = int(units.sum()), int(flagged.sum())
        by_bin: dict[int, tuple[int, int]] = {}
        for b, more, hits in zip(self._bins, units.tolist(), flagged.tolist(), strict=True):
            if more:
                before = by_bin.get(b, (0, 0))
                by_bin[b] = (before[0] + more, before[1] + hits)
        return Sample(
            n_units=n, n_flagged=x, n_attempted=n, n_any_flag=x, n_flag_or_undecided=x, by_bin=by_bin, clusters=clusters
        )

    @cached_property
    def _bins(self) -> list[int]:
        return [int(b) for b in bin_of(self.turns.values, self.turn_bins)]
