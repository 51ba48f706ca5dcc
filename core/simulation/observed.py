"""Stage 1 (SPEC 14.1): the intervals of an observed rate, their coverage enumerated and not simulated."""

from __future__ import annotations

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
"""Counts are left out at either end of the law while their probability adds up to at most this."""

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
        summaries = {name: summary_of(coverages) for name, coverages in methods.items()}
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
    """Counts and their probabilities, but for at most `NEGLIGIBLE` at either end."""
    from scipy.stats import binom  # 0.5 s to import: not every command needs it

    # ppf is the first count with a cumulative probability of NEGLIGIBLE, isf the first with no more than that above.
    first, last = (0, 0) if rate == 0.0 else (int(binom.ppf(NEGLIGIBLE, n, rate)), int(binom.isf(NEGLIGIBLE, n, rate)))
    counts = np.arange(first, last + 1)
    return list(zip(counts.tolist(), binom.pmf(counts, n, rate).tolist(), strict=True))


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
        coverage=held,
        mc_error=0.0,
        low_above=low_above,
        high_below=high_below,
        mean_width=width,
        zero_width=zero_width,
    )
