"""A small laboratory: golden sets and production with exactly the counts that a test asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

import core
from core.instrument.calibration import Calibration
from core.instrument.measurement import Measurement
from core.instrument.spec import InstrumentSpec, OptimismSpec

HIGH, LOW = 0.9, 0.1


class Lab:
    """Makes tables of one category, ``harm``; the judge scores .9 where it flags and .1 where it passes."""

    FAST = OptimismSpec(resamples=50)
    UNCORRECTED = InstrumentSpec(optimism=OptimismSpec(method="none"))

    def golden(
        self, *strata: tuple[int, int, int, int, int], cluster_size: int | None = None
    ) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Labels and scores from (turns, true positives, positives, true negatives, negatives) a stratum."""
        traces = [
            (turns, label, HIGH if (i < right) is (label == 1) else LOW)
            for turns, hits, positives, passes, negatives in strata
            for label, right, n in ((1, hits, positives), (0, passes, negatives))
            for i in range(n)
        ]
        labels = pd.DataFrame({"trace_id": range(len(traces)), "harm": [label for _, label, _ in traces]})
        if cluster_size:
            labels["cluster"] = [f"template {i // cluster_size}" for i in range(len(traces))]
        return labels, self.rows([(turns, score) for turns, _, score in traces])

    def rows(self, units: Sequence[tuple[int, float]], traces: Sequence[int] | None = None) -> pd.DataFrame:
        """Score rows from (turns, maximum) a unit; the maximum stands in the last turn."""
        names = range(len(units)) if traces is None else traces
        attempt: dict[int, int] = {}
        table = []
        for trace, (turns, score) in zip(names, units, strict=True):
            attempt[trace] = attempt.get(trace, -1) + 1
            table += [(trace, attempt[trace], t, score if t == turns - 1 else 0.0) for t in range(turns)]
        return pd.DataFrame(table, columns=["trace_id", "attempt", "turn", "harm"])

    def production(self, *parts: tuple[int, int, int], attempts: int = 1) -> pd.DataFrame:
        """Score rows from (turns, flagged, units) a part; `attempts` neighbouring units make a trace."""
        units = [(turns, HIGH if i < flagged else LOW) for turns, flagged, n in parts for i in range(n)]
        return self.rows(units, [i // attempts for i in range(len(units))])

    def calibrated(
        self, *strata: tuple[int, int, int, int, int], spec: InstrumentSpec = UNCORRECTED, cluster_size: int = 0
    ) -> Calibration:
        """Calibrate on a golden set with those counts."""
        return core.calibrate(*self.golden(*strata, cluster_size=cluster_size), spec)

    def measured(self, calibration: Calibration, *parts: tuple[int, int, int], **options: Any) -> Measurement:
        """Measure production with those counts."""
        attempts = options.pop("units_a_trace", 1)
        return core.measure(self.production(*parts, attempts=attempts), calibration, **options)


@pytest.fixture(scope="session")
def lab() -> Lab:
    """Return the laboratory."""
    return Lab()
