"""A stage as work: chunks that can be carried out anywhere, in any order, and put together again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from core.simulation.simulated import Coverage, Simulation, mc_error_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """Some replications of one cell.

    Attributes
    ----------
    cell, number : int
        Which cell, and which chunk of it: they choose the random numbers, together with the seed.
    replications : int
    """

    cell: int
    number: int
    replications: int


class Stage(Protocol):
    """A simulation as work. Stages are pickled to worker processes."""

    def chunks(self) -> Sequence[Chunk]:
        """Divide the work; the division depends on the spec alone."""
        ...

    def run(self, chunk: Chunk) -> Any:
        """Carry out a chunk; what comes back is small and can be pickled."""
        ...

    def result(self, outcomes: Sequence[Any]) -> Simulation:
        """Put the outcomes of all chunks, in the order of `chunks`, together."""
        ...


def divided(n_cells: int, replications: int, size: int) -> tuple[Chunk, ...]:
    """Divide every cell's replications into chunks of a size; the last one of a cell may be smaller."""
    return tuple(
        Chunk(cell=cell, number=number, replications=min(size, replications - number * size))
        for cell in range(n_cells)
        for number in range(-(-replications // size))
    )


def generator(seed: int, stage: int, chunk: Chunk) -> np.random.Generator:
    """Return the random numbers of a chunk, independent of those of every other."""
    return np.random.default_rng([seed, stage, chunk.cell, chunk.number])


class CoverageTally:
    """Adds up how the intervals of one method did; ``+=`` joins two."""

    __slots__ = ("held", "high_below", "low_above", "n", "n_intervals", "width", "zero_width")

    def __init__(self) -> None:
        self.n = self.n_intervals = self.held = self.low_above = self.high_below = self.zero_width = 0
        self.width = 0.0

    def add(self, limits: tuple[float, float] | None, truth: float) -> bool:
        """Count one replication; None is a replication without an interval, which holds nothing."""
        self.n += 1
        if limits is None:
            return False
        low, high = limits
        self.n_intervals += 1
        self.width += high - low
        self.zero_width += high == low
        self.low_above += low > truth
        self.high_below += high < truth
        self.held += low <= truth <= high
        return low <= truth <= high

    def __iadd__(self, other: CoverageTally) -> CoverageTally:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def record(self) -> Coverage:
        """Return the shares; at least one replication has been counted."""
        coverage = self.held / self.n
        return Coverage(
            coverage=coverage,
            mc_error=mc_error_of(coverage, self.n),
            low_above=self.low_above / self.n,
            high_below=self.high_below / self.n,
            mean_width=self.width / self.n_intervals if self.n_intervals else None,
            zero_width=self.zero_width / self.n,
        )


def shares_of(counts: Mapping[str, int]) -> dict[str, float]:
    """Turn counts by status into shares, the statuses sorted."""
    total = sum(counts.values())
    return {status: counts[status] / total for status in sorted(counts)}
