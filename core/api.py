"""Calibrate and measure from tables in memory: what a notebook calls.

The command line does the same from files, in a stream, and keeps records; the figures are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa

from core.data.columns import RawBatch
from core.data.golden import GoldenSet
from core.data.problems import ProblemLog
from core.data.scores import ScoreBatch, ScoreParser, layout_of, regrouped
from core.instrument.calibration import Calibration, deployable
from core.instrument.calibration import calibrate as calibrate_golden
from core.instrument.collapse import unit_masks
from core.instrument.golden_scores import golden_scores
from core.instrument.measurement import Measurement
from core.instrument.measurement import measure as measure_counts
from core.instrument.spec import Attempts, InstrumentSpec, MeasurementSpec
from core.instrument.tally import Tally, chosen_attempts


def calibrate(golden: Any, scores: Any, instrument: InstrumentSpec | None = None) -> Calibration:
    """Calibrate a judge on a golden set (SPEC 3-6).

    Parameters
    ----------
    golden : pandas.DataFrame or pyarrow.Table
        ``trace_id, category, label`` (long), or ``trace_id`` and one column of labels a category (wide); optional
        ``turn``, ``cluster`` and slice columns. Labels are 0, 1 or empty.
    scores : pandas.DataFrame or pyarrow.Table
        ``trace_id, turn, category, score`` (long) or one column a category (wide), scores in [0, 1].
    instrument : InstrumentSpec, optional

    Returns
    -------
    Calibration

    Raises
    ------
    InputError
        All that is wrong with the tables: see `assay check`.

    Examples
    --------
    >>> import pandas as pd
    >>> golden = pd.DataFrame({"trace_id": range(40), "hate": [1, 0] * 20})
    >>> scores = pd.DataFrame({"trace_id": range(40), "hate": [0.9, 0.2] * 19 + [0.1, 0.8]})
    >>> judged = calibrate(golden, scores).categories["hate"]
    >>> judged.threshold, judged.true_positives, judged.n_positive
    (0.9, 19, 20)
    """
    from core.data.golden_reader import GoldenReader, golden_layout

    spec = instrument or InstrumentSpec()
    log = ProblemLog(["golden"], ["row"])
    raw = _raw(golden)
    layout = golden_layout(raw.table.schema.names, raw, "golden", log, categories=spec.categories, slices=spec.slices)
    reader = GoldenReader(log, spec.categories)
    if layout is not None:
        reader.add(raw, layout)
    labels = reader.finish()
    return calibrate_golden(labels, _golden_scores(scores, labels, spec), spec)[0]


def _golden_scores(scores: Any, golden: GoldenSet, spec: InstrumentSpec) -> Any:
    log = ProblemLog(["scores"], ["row"])
    batch = _batch(scores, golden.categories, log)
    return golden_scores(regrouped([batch], log), golden.categories, last_turn_only=spec.turn_scope == "last", log=log)


def measure(
    scores: Any,
    calibration: Calibration,
    *,
    calibration_id: str = "",
    target: str | None = None,
    attempts: Attempts = "each",
    confidence_level: float | None = None,
    seed: int = 20261129,
) -> Measurement:
    """Measure production with a calibrated judge (SPEC 7-9).

    Parameters
    ----------
    scores : pandas.DataFrame or pyarrow.Table
        As in `calibrate`; optional ``attempt``, ``state`` and ``cluster``.
    calibration : Calibration
    calibration_id : str
        Id of its record, if it has one.
    target : str, optional
        The system that was measured.
    attempts : {'each', 'first', 'last', 'any'}
    confidence_level : float in (0, 1), optional
        Default: the calibration's.
    seed : int
        Of the melded interval's draws.

    Returns
    -------
    Measurement

    Raises
    ------
    InputError
        All that is wrong with the table.
    UndefinedError
        A calibration without any threshold.
    """
    names = deployable(calibration)
    others = tuple(name for name in calibration.categories if name not in names)
    log = ProblemLog(["scores"], ["row"])
    block = regrouped([_batch(scores, (*names, *others), log)], log)
    log.stop_if_any()
    spec = MeasurementSpec(
        instrument=calibration.instrument,
        target=target,
        attempts=attempts,
        confidence_level=confidence_level or calibration.confidence_level,
        detection_floor=calibration.detection_floor,
        turn_bins=calibration.turn_bins or (1, 2, 3, 4, 8),
        seed=seed,
    )
    thresholds = [calibration.categories[name].threshold for name in names]
    units = unit_masks(
        block,
        [inf if value is None else value for value in thresholds] + [inf] * len(others),
        needed=(1 << len(names)) - 1,
        last_turn_only=False,
        log=log,
    )
    log.stop_if_any()
    tally = Tally(len(names), spec.turn_bins)
    tally.add(block, chosen_attempts(units, attempts))
    return measure_counts(
        tally.finish(),
        calibration,
        spec,
        calibration_id=calibration_id,
        judge=calibration.judge,
        judge_source="assumed",
    )


def _raw(table: Any) -> RawBatch:
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    (batch,) = arrow.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=arrow.schema)]
    return RawBatch(table=batch, place=np.arange(1, len(batch) + 1, dtype=np.int64))


def _batch(table: Any, categories: Sequence[str], log: ProblemLog) -> ScoreBatch:
    raw = _raw(table)
    layout = layout_of(raw.table.schema.names, "scores", "scores", log)
    if layout is None or not len(raw.place):
        log.add("scores", "holds no rows")
        log.stop()
    batch = ScoreParser(layout, categories, "scores", log).parse(raw)
    log.stop_if_any()
    return batch
