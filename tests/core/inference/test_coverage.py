"""The guarantee itself, in a few cells: simulated truth lies in the interval as often as it says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from core.errors import UndefinedError
from core.inference.prevalence import (
    Counts,
    PrevalenceInterval,
    delta_interval,
    lang_reiczigel_interval,
)

Z95 = 1.959963984540054
REPLICATIONS = 4_000  # Monte-Carlo error .0035

# sensitivity, specificity, true rate, golden traces a class, production traces
CELLS = [
    (0.9, 0.95, 0.005, 50, 400),  # worst for the papers' interval
    (0.9, 0.95, 0.1, 200, 2000),
    (0.9, 0.95, 0.3, 1000, 100),  # worst for methods that leave out production's noise
    (0.7, 0.9, 0.02, 50, 2000),
    (0.7, 0.9, 0.3, 50, 100),
    (0.6, 0.7, 0.005, 50, 2000),
    (0.6, 0.7, 0.3, 50, 100),
    (0.6, 0.7, 0.1, 1000, 400),
]

Cell = tuple[float, float, float, int, int]


def coverage(cell: Cell, interval: Callable[[Counts, float], PrevalenceInterval]) -> float:
    """Share of simulated experiments whose interval holds the true rate; a refusal holds nothing."""
    sensitivity, specificity, prevalence, golden, traces = cell
    rng = np.random.default_rng(20_261_129)
    observed = prevalence * sensitivity + (1 - prevalence) * (1 - specificity)
    flagged = rng.binomial(traces, observed, REPLICATIONS).tolist()
    hits = rng.binomial(golden, sensitivity, REPLICATIONS).tolist()
    passes = rng.binomial(golden, specificity, REPLICATIONS).tolist()
    covered = 0
    for x, a, b in zip(flagged, hits, passes, strict=True):
        counts = Counts(
            flagged=x, traces=traces, true_positives=a, positives=golden, true_negatives=b, negatives=golden
        )
        try:
            ends = interval(counts, Z95)
        except UndefinedError:
            continue
        covered += ends.low <= prevalence <= ends.high
    return covered / REPLICATIONS


@pytest.mark.parametrize("cell", CELLS)
def test_the_default_interval_covers_the_true_rate(cell: Cell) -> None:
    assert coverage(cell, lang_reiczigel_interval) >= 0.93


def test_the_default_interval_holds_where_the_papers_interval_falls_short() -> None:
    rare_and_little_golden = CELLS[0]
    assert coverage(rare_and_little_golden, delta_interval) < 0.92
    assert coverage(rare_and_little_golden, lang_reiczigel_interval) > 0.94
