"""Counting units (SPEC 2): what a measurement needs of a data set, in sums that add over files and machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.data.columns import Ints
from core.data.scores import ScoreBatch
from core.data.vocabulary import SCORED, STATES
from core.errors import AssayError
from core.inference.clusters import ClusterSums
from core.instrument.collapse import Units


class ScatteredTracesError(AssayError):
    """The rows of a trace are not together: the data have to be regrouped before they can be counted."""


def chosen_attempts(units: Units, policy: str) -> Units:
    """Reduce the attempts of every trace by the declared rule: each, first, last or any (their union)."""
    if policy == "each" or len(units.trace) == 0:
        return units
    starts = np.flatnonzero(np.r_[True, units.trace[1:] != units.trace[:-1]])
    if policy == "any":
        return replace(
            units,
            trace=units.trace[starts],
            attempt=units.attempt[starts],
            n_turns=np.add.reduceat(units.n_turns, starts),
            flags=np.bitwise_or.reduceat(units.flags, starts),
            missing=np.bitwise_or.reduceat(units.missing, starts),
            reason=np.minimum.reduceat(units.reason, starts),
        )
    kept = starts if policy == "first" else np.r_[starts[1:] - 1, len(units.trace) - 1]
    return replace(
        units,
        trace=units.trace[kept],
        attempt=units.attempt[kept],
        n_turns=units.n_turns[kept],
        flags=units.flags[kept],
        missing=units.missing[kept],
        reason=units.reason[kept],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitCounts:
    """A data set as counts of units.

    Attributes
    ----------
    n_categories : int
        Categories of the composite; bit c is the c-th of them.
    n_traces, n_turns, n_duplicates, n_gaps : int
        Traces; turns over all units; equal cells dropped; units with a hole in their turn numbers.
    histogram : tuple of (flag mask, missing mask, turn bin, n_units)
    accounting : dict
        Units by state; ``attempted`` is the sum of the others.
    clusters : tuple of ClusterSums
        Over the fully scored units: the composite first, then each category.
    clustered : bool
        Whether some cluster holds more than one unit.
    """

    n_categories: int
    n_traces: int
    n_turns: int
    n_duplicates: int
    n_gaps: int
    histogram: tuple[tuple[int, int, int, int], ...]
    accounting: dict[str, int]
    clusters: tuple[ClusterSums, ...]
    clustered: bool


class Tally:
    """Adds up blocks of units.

    Parameters
    ----------
    n_categories : int
    turn_bins : sequence of int
        Upper edges of the turn strata; one more stratum lies above the last.
    in_parts : bool
        Whether it will be joined with tallies of other processes, whose Python hashes a text to another number.
    """

    def __init__(self, n_categories: int, turn_bins: Sequence[int], *, in_parts: bool = False) -> None:
        self._n_categories = n_categories
        self._keys_of = text_keys if in_parts else _hashes
        self._bins = np.asarray(turn_bins)
        self._histogram: Counter[int] = Counter()
        self._reasons = np.zeros(256, np.int64)
        self._trace_keys: list[Ints] = []
        self._totals = np.zeros(3, np.int64)  # turns, duplicates, gaps
        self._closed = _Sums(n_categories + 1)
        self._open = _OpenClusters(n_categories + 1)

    def add(self, block: ScoreBatch, units: Units) -> None:
        """Count the units of a block of whole traces.

        Raises
        ------
        ScatteredTracesError
            A trace stands in the block twice.
        """
        self._trace_keys.append(_distinct(self._keys_of(block.trace_ids)))
        self._totals += (int(units.n_turns.sum()), units.n_duplicates, units.n_gaps)
        self._reasons += np.bincount(units.reason, minlength=256)
        keys, counts = self._count_masks(units)
        if block.clusters is None and len(units.trace) == len(block.trace_ids):  # every unit is its own cluster
            self._closed.add(*self._memberships(keys), counts)
        else:
            self._count_clusters(block, units)

    def join(self, other: Tally) -> None:
        """Take in what another tally, of other traces, has counted."""
        self._trace_keys += other._trace_keys
        self._totals += other._totals
        self._reasons += other._reasons
        self._histogram.update(other._histogram)
        self._closed = self._closed.plus(other._closed)
        self._open.join(other._open)

    def _key(self, units: Units) -> Ints:
        k = self._n_categories
        return (np.searchsorted(self._bins, units.n_turns) << (2 * k)) | (units.flags << k) | units.missing

    def _count_masks(self, units: Units) -> tuple[Ints, Ints]:
        found, counts = np.unique(self._key(units), return_counts=True)
        self._histogram.update(dict(zip(found.tolist(), counts.tolist(), strict=True)))
        return found, counts

    def _memberships(self, key: Ints) -> tuple[Ints, Ints]:
        """Tell which units are fully scored and which of those are flagged: composite first, then each category."""
        k = self._n_categories
        bits = np.r_[(1 << k) - 1, 1 << np.arange(k)]
        scored = key[:, None] & bits == 0
        flagged = (key >> k)[:, None] & bits != 0
        return scored.astype(np.int64), (scored & flagged).astype(np.int64)

    def _count_clusters(self, block: ScoreBatch, units: Units) -> None:
        inside, flagged = self._memberships(self._key(units))
        starts = np.flatnonzero(np.r_[True, units.trace[1:] != units.trace[:-1]])
        sizes = np.add.reduceat(inside, starts, axis=0)
        events = np.add.reduceat(flagged, starts, axis=0)
        names = [block.clusters[i] for i in units.trace[starts]] if block.clusters else [None] * len(starts)
        own = np.array([name is None for name in names])
        self._closed.add(sizes[own], events[own])
        if not own.all():
            named = [name for name in names if name is not None]
            self._open.add(named, sizes[~own], events[~own])

    def finish(self) -> UnitCounts:
        """Return the counts.

        Raises
        ------
        ScatteredTracesError
            A trace came in more than one block.
        """
        keys = _distinct(np.concatenate([np.zeros(0, np.int64), *self._trace_keys]))
        k = self._n_categories
        mask = (1 << k) - 1
        histogram = tuple(
            ((key >> k) & mask, key & mask, key >> (2 * k), count) for key, count in sorted(self._histogram.items())
        )
        accounting = {"attempted": int(self._reasons.sum()), SCORED: int(self._reasons[255])}
        accounting |= {state: int(self._reasons[code]) for code, state in enumerate(STATES)}
        sums = self._closed.plus(self._open.sums())
        return UnitCounts(
            n_categories=k,
            n_traces=len(keys),
            n_turns=int(self._totals[0]),
            n_duplicates=int(self._totals[1]),
            n_gaps=int(self._totals[2]),
            histogram=histogram,
            accounting=accounting,
            clusters=sums.records(),
            clustered=sums.clustered,
        )


def _hashes(texts: Sequence[str]) -> Ints:
    return np.fromiter(map(hash, texts), np.int64, len(texts))


def text_keys(texts: Sequence[str]) -> Ints:
    """Return 64 bits of each text, the same in every process; different texts share them once in 10^19 pairs.

    The words of a text go one after the other through the finaliser of SplitMix64, which loses nothing of 64 bits. It
    is no secret: whoever wants two ids to share a key can have that.

    References
    ----------
    Steele, Lea, Flood (2014), Fast splittable pseudorandom number generators. OOPSLA.

    Examples
    --------
    >>> text_keys(["a", "b", "a"]).tolist()
    [7075883509774426401, 4824385676517010403, 7075883509774426401]
    """
    _, offsets, characters = pa.array(texts, pa.large_string()).buffers()
    starts = np.frombuffer(offsets, np.int64, len(texts) + 1)
    held = np.frombuffer(characters or b"", np.uint8, int(starts[-1]))
    lengths = np.diff(starts)
    keys = np.zeros(len(texts), np.uint64)
    for length in np.unique(lengths).tolist():
        alike = np.flatnonzero(lengths == length)
        words = np.zeros((len(alike), length // 8 + 1), "<u8")
        if length:
            places = starts[alike][:, None] + np.arange(length)
            words.view(np.uint8)[:, :length] = held[places]
        mixed = np.full(len(alike), length, np.uint64)
        for word in words.T:
            mixed = _mixed(mixed ^ word.astype(np.uint64))
        keys[alike] = mixed
    return keys.view(np.int64)


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    words = words + np.uint64(0x9E3779B97F4A7C15)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _distinct(keys: Ints) -> Ints:
    keys.sort()  # in place, and a third of the time of np.unique
    if (keys[1:] == keys[:-1]).any():
        raise ScatteredTracesError("rows of one trace are not together")
    return keys


class _Sums:
    """Cluster sums of several outcomes at once; rows are outcomes, columns the fields of `ClusterSums`."""

    def __init__(self, n_outcomes: int) -> None:
        self._table = np.zeros((n_outcomes, 8), np.int64)
        self.clustered = False

    def add(self, sizes: Ints, events: Ints, times: Ints | None = None) -> None:
        """Add whole clusters: arrays of shape (n_clusters, n_outcomes); `times` says how many each row stands for."""
        times = np.ones(len(sizes), np.int64) if times is None else times
        columns = (
            sizes, events, sizes > 0, sizes * sizes, sizes * events, events * events, events > 0, events < sizes,
        )  # fmt: skip
        self._table += np.stack([times @ column for column in columns], axis=1)
        self.clustered = self.clustered or bool((sizes > 1).any())

    def plus(self, other: _Sums) -> _Sums:
        total = _Sums(len(self._table))
        total._table = self._table + other._table
        total.clustered = self.clustered or other.clustered
        return total

    def records(self) -> tuple[ClusterSums, ...]:
        names = (
            "n", "events", "n_clusters", "sum_n2", "sum_nx", "sum_x2",
            "clusters_with_events", "clusters_with_nonevents",
        )  # fmt: skip
        return tuple(ClusterSums(**dict(zip(names, row, strict=True))) for row in self._table.tolist())


class _OpenClusters:
    """Named clusters, which may go on in a later block."""

    def __init__(self, n_outcomes: int) -> None:
        self._index: dict[str, int] = {}
        self._sizes = np.zeros((0, n_outcomes), np.int64)
        self._events = np.zeros((0, n_outcomes), np.int64)

    def add(self, names: Sequence[str], sizes: Ints, events: Ints) -> None:
        codes = np.array([self._index.setdefault(name, len(self._index)) for name in names])
        if len(self._index) > len(self._sizes):
            room = np.zeros((2 * len(self._index) - len(self._sizes), sizes.shape[1]), np.int64)
            self._sizes = np.concatenate([self._sizes, room])
            self._events = np.concatenate([self._events, room])
        np.add.at(self._sizes, codes, sizes)
        np.add.at(self._events, codes, events)

    def join(self, other: _OpenClusters) -> None:
        n = len(other._index)
        if n:
            self.add(list(other._index), other._sizes[:n], other._events[:n])

    def sums(self) -> _Sums:
        total = _Sums(self._sizes.shape[1])
        total.add(self._sizes, self._events)
        return total


def decisions_of(block: ScoreBatch, units: Units) -> dict[str, Any]:
    """Return the columns of the decisions file for some units."""
    ids, clusters = block.trace_ids, block.clusters or [None] * len(block.trace_ids)
    if len(units.trace) != len(ids):  # else one unit a trace
        ids, clusters = [ids[i] for i in units.trace], [clusters[i] for i in units.trace]
    return {
        "trace_id": ids,
        "attempt": units.attempt,
        "cluster": clusters,
        "n_turns": units.n_turns,
        "flag_mask": units.flags,
        "missing_mask": units.missing,
    }
