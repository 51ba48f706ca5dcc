"""Stage 1 (SPEC 14.1): the intervals of an observed rate, their coverage enumerated and not simulated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from core.inference.intervals import (
    clopper_pearson_interval,
    jeffreys_interval,
    normal_quantile,
    wilson_interval,
    wilson_limits,
)
from core.simulation.simulated import Coverage, ObservedCell, Simulation, is_sufficient
from core.simulation.spec import ObservedRateSpec
from core.simulation.stage import Chunk, divided
from core.simulation.summary import lowest, summary_of

NEGLIGIBLE = 1e-12
"""Counts at the ends of the law are left out; their probabilities add up to at most this."""

DEFAULT = "modified_wilson"

_Limits = Callable[[int], tuple[float, float]]


class ObservedRateStage:
    """Coverage and width of the observed rate's intervals, exactly, from the binomial law of the flagged count.

    It is coverage of the rate at which a judge flags, not of the rate of violations.
    """

    def __init__(self, spec: ObservedRateSpec) -> None:
        self.spec = spec

    @property
    def _grid(self) -> list[tuple[int, float]]:
        return list(product(self.spec.n_units, self.spec.rates))

    def chunks(self) -> Sequence[Chunk]:
        """One chunk a cell, in which the law is enumerated once."""
        return divided(len(self._grid), replications=1, size=1)

    def run(self, chunk: Chunk) -> ObservedCell:
        """Enumerate one cell."""
        n, rate = self._grid[chunk.cell]
        law = _binomial_law(n, rate)
        return ObservedCell(
            n_units=n,
            rate=rate,
            methods={
                name: _coverage(law, rate, limits) for name, limits in _methods(n, self.spec.confidence_level).items()
            },
        )

    def result(self, outcomes: Sequence[ObservedCell]) -> Simulation:
        """Put the cells together; `coverage` is that of the modified Wilson interval."""
        level = self.spec.confidence_level
        methods = {name: [cell.methods[name] for cell in outcomes] for name in outcomes[0].methods}
        worst = lowest(methods[DEFAULT])
        summaries = {name: summary_of(coverages, level) for name, coverages in methods.items()}
        return Simulation(
            stage=1,
            method=DEFAULT,
            confidence_level=level,
            coverage=worst.coverage,
            mc_error=worst.mc_error,
            mean_coverage=summaries[DEFAULT].mean,
            sufficient=is_sufficient(worst.coverage, level),
            n_cells=len(outcomes),
            replications=0,
            methods=summaries,
            cells=tuple(outcomes),
            notes=(
                "exact: the binomial law was enumerated, nothing was drawn",
                "coverage of the rate at which the judge flags, which is not the rate of violations",
            ),
        )


def _methods(n: int, level: float) -> Mapping[str, _Limits]:
    z = normal_quantile(level)

    def modified_wilson(x: int) -> tuple[float, float]:
        interval = wilson_interval(x, n, confidence_level=level)
        return interval.low, interval.high

    def wilson(x: int) -> tuple[float, float]:
        return wilson_limits(x / n, n, z=z)

    def clopper_pearson(x: int) -> tuple[float, float]:
        interval = clopper_pearson_interval(x, n, confidence_level=level)
        return interval.low, interval.high

    def jeffreys(x: int) -> tuple[float, float]:
        interval = jeffreys_interval(x, n, confidence_level=level)
        return interval.low, interval.high

    return {DEFAULT: modified_wilson, "wilson": wilson, "clopper_pearson": clopper_pearson, "jeffreys": jeffreys}


def _binomial_law(n: int, rate: float) -> list[tuple[int, float]]:
    """Counts and their probabilities, but for counts whose probabilities add up to at most `NEGLIGIBLE`."""
    if rate in (0.0, 1.0):
        return [(int(n * rate), 1.0)]
    # Bernstein: a count is off its mean by t or more with probability 2 exp(-t^2 / (2 variance + 2t/3)) at most.
    third = math.log(2.0 / NEGLIGIBLE) / 3.0
    reach = third + math.sqrt(third**2 + 6.0 * third * n * rate * (1.0 - rate))
    first, last = max(0, math.floor(n * rate - reach)), min(n, math.ceil(n * rate + reach))
    x = np.arange(first, last)
    # From each count to the next by the ratio of their probabilities: exact where factorials lose digits.
    steps = np.log((n - x) / (x + 1.0)) + (math.log(rate) - math.log1p(-rate))
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return list(zip(range(first, last + 1), (weights / weights.sum()).tolist(), strict=True))


def _coverage(law: Sequence[tuple[int, float]], rate: float, limits: _Limits) -> Coverage:
    held = low_above = high_below = width = zero_width = 0.0
    for x, probability in law:
        low, high = limits(x)
        held += probability * (low <= rate <= high)
        low_above += probability * (low > rate)
        high_below += probability * (high < rate)
        width += probability * (high - low)
        zero_width += probability * (high == low)
    return Coverage(
        coverage=min(1.0, held),
        mc_error=0.0,
        low_above=low_above,
        high_below=high_below,
        mean_width=width,
        zero_width=zero_width,
    )
