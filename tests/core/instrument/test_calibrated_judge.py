"""What a simulation calls: the numbers of a calibration from arrays alone, the same for every engine."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.data.golden import GoldenSet
from core.errors import InputError
from core.instrument.calibration import calibrate, calibrated_judge
from core.instrument.golden_table import GoldenScores, GoldenTable
from core.instrument.spec import InstrumentSpec, OptimismSpec, ThresholdSpec

NAMES = ("hate", "violence", "sexual")


def golden(seed: int, cluster_size: int, n: int = 300) -> tuple[GoldenSet, GoldenScores]:
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, 3)) < 0.3).astype(np.int64)
    ids = tuple(f"trace {i:04d}" for i in range(n))
    clusters = None if cluster_size == 1 else tuple(f"template {i // cluster_size}" for i in range(n))
    scores = GoldenScores(
        trace_ids=ids, n_turns=rng.integers(1, 6, n), missing=rng.random((n, 3)) < 0.03,
        maxima=(1 / (1 + np.exp(-rng.normal(1.5 * labels, 1)))).round(2),
    )  # fmt: skip
    known = np.where(rng.random((n, 3)) < 0.05, -1, labels)
    return GoldenSet(
        trace_ids=ids, categories=NAMES, labels=known, clusters=clusters, slices={}, n_rows=n, n_duplicates=0
    ), scores  # fmt: skip


@pytest.mark.parametrize("method", ["none", "bootstrap", "holdout"])
@pytest.mark.parametrize("objective", ["youden", "composite_youden"])
@pytest.mark.parametrize("cluster_size", [1, 6])
def test_arrays_alone_give_the_numbers_of_a_calibration(method: Any, objective: Any, cluster_size: int) -> None:
    spec = InstrumentSpec(
        optimism=OptimismSpec(method=method, resamples=20), thresholds=ThresholdSpec(objective=objective)
    )
    calibration, table = calibrate(*golden(1, cluster_size), spec)
    bare = replace(table, trace_ids=(), slices={}, cluster_names=None)
    for engine in ("auto", "numpy", "numba"):
        categories, composite = calibrated_judge(bare, spec, engine)
        assert categories == calibration.categories
        assert composite == calibration.composite


def test_a_golden_set_without_a_category_that_has_both_classes_is_refused() -> None:
    _, table = calibrate(*golden(2, 1), InstrumentSpec(optimism=OptimismSpec(method="none")))
    empty: GoldenTable = replace(table, labels=np.zeros_like(table.labels))
    with pytest.raises(InputError, match="no category can be calibrated"):
        calibrated_judge(empty, InstrumentSpec())
