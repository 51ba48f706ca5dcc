"""Calibrate and measure from tables in memory: what a notebook calls.

The command line does the same from files, in a stream, and keeps records; the figures are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np
import pyarrow as pa

from core.data.columns import RawBatch
from core.data.golden import GoldenSet
from core.data.problems import ProblemLog
from core.data.scores import Kind, ScoreBatch, ScoreParser, layout_of, regrouped
from core.errors import InputError
from core.instrument.calibrated import Calibration, DetectorCalibration, deployable, kind_of, thresholds_of
from core.instrument.calibration import calibrate as calibrate_golden
from core.instrument.collapse import unit_masks
from core.instrument.detections import measure_detector
from core.instrument.golden_table import golden_scores
from core.instrument.identity import judge_of_scores, target_of_scores
from core.instrument.labelled import LabelledUnits
from core.instrument.measured import CorrectedDetections, Measurement
from core.instrument.measurement import measure as measure_counts
from core.instrument.measurement import measurement_spec
from core.instrument.spec import Attempts, InstrumentSpec
from core.instrument.tally import Tally, chosen_attempts


def calibrate(
    golden: Any, scores: Any, instrument: InstrumentSpec | None = None, *, accept_judge: bool = False
) -> Calibration:
    """Calibrate a judge on a golden set (SPEC 3-6), or a detector (SPEC 4.1).

    Parameters
    ----------
    golden : pandas.DataFrame or pyarrow.Table
        ``trace_id, category, label`` (long), or ``trace_id`` and one column of labels a category (wide); optional
        ``turn``, ``cluster`` and slice columns. Labels are 0, 1 or empty.
    scores : pandas.DataFrame or pyarrow.Table
        ``trace_id, turn, category, score`` (long) or one column a category (wide), scores in [0, 1].
        Optional ``judge`` (name@version), ``cluster`` and ``state``. For an instrument of kind detections, decisions:
        ``trace_id, turn, attribute, detected`` or one column an attribute, 0 or 1.
    instrument : InstrumentSpec, optional
    accept_judge : bool
        Take scores of another judge than the instrument's all the same, and say so.

    Returns
    -------
    Calibration
        A `DetectorCalibration` for an instrument of kind detections.

    Raises
    ------
    InputError
        All that is wrong with the tables: see `assay check`.
    UndefinedError
        An instrument of kind detections with thresholds to choose or optimism to correct.

    Examples
    --------
    >>> import pandas as pd
    >>> golden = pd.DataFrame({"trace_id": range(40), "hate": [1, 0] * 20})
    >>> scores = pd.DataFrame({"trace_id": range(40), "hate": [0.9, 0.2] * 19 + [0.1, 0.8]})
    >>> judged = calibrate(golden, scores).categories["hate"]
    >>> judged.threshold, judged.true_positives, judged.n_positive
    (0.9, 19, 20)
    """
    spec = instrument or InstrumentSpec()
    labels = _labels(golden, "golden", spec.categories, spec.slices)
    parser, batch = _parsed(scores, labels.categories, spec.kind)
    judge, source, accepted = judge_of_scores(
        parser.judges, parser.fingerprints, spec.judge, accept=accept_judge, where="scores", expected="the instrument's"
    )
    block = golden_scores(
        regrouped([batch], parser.log), labels.categories, last_turn_only=spec.turn_scope == "last", log=parser.log
    )
    return calibrate_golden(labels, block, spec, judge=judge, judge_source=source, judge_accepted=accepted)[0]


@overload
def measure(
    scores: Any,
    calibration: DetectorCalibration,
    *,
    calibration_id: str = "",
    target: str | None = None,
    attempts: Attempts | None = None,
    confidence_level: float | None = None,
    accept_judge: bool = False,
) -> CorrectedDetections: ...


@overload
def measure(
    scores: Any,
    calibration: Calibration,
    *,
    calibration_id: str = "",
    target: str | None = None,
    attempts: Attempts | None = None,
    confidence_level: float | None = None,
    accept_judge: bool = False,
) -> Measurement: ...


def measure(
    scores: Any,
    calibration: Calibration,
    *,
    calibration_id: str = "",
    target: str | None = None,
    attempts: Attempts | None = None,
    confidence_level: float | None = None,
    accept_judge: bool = False,
    labels: Any = None,
    allow_unmatched: bool = False,
) -> Measurement | CorrectedDetections:
    """Measure production with a calibrated judge or detector (SPEC 7-9, 4.1).

    Parameters
    ----------
    scores : pandas.DataFrame or pyarrow.Table
        As in `calibrate`; optional ``attempt`` and ``target``.
    calibration : Calibration
    calibration_id : str
        Id of its record, if it has one.
    target : str, optional
        The system that was measured.
    attempts : {'each', 'first', 'last', 'any'}, optional
    confidence_level : float in (0, 1), optional
        What is not given is the calibration's.
    accept_judge : bool
        Take scores of another judge than the calibrated one all the same, and say so.
    labels : pandas.DataFrame or pyarrow.Table, optional
        Labels of a random part of these traces, as a golden set in `calibrate` (SPEC 13).
    allow_unmatched : bool
        Leave out labels of traces that are not there, and count them.

    Returns
    -------
    Measurement
        `CorrectedDetections` with a `DetectorCalibration`.

    Raises
    ------
    InputError
        All that is wrong with the table.
    UndefinedError
        A calibration without any threshold.
    """
    names = deployable(calibration)
    others = tuple(name for name in calibration.categories if name not in names)
    parser, batch = _parsed(scores, (*names, *others), kind_of(calibration))
    judge, source, accepted = judge_of_scores(
        parser.judges,
        parser.fingerprints,
        calibration.judge,
        accept=accept_judge,
        where="scores",
        expected="the calibration's",
    )
    spec = measurement_spec(
        calibration,
        target=target_of_scores(parser.targets, target, "scores"),
        attempts=attempts,
        confidence_level=confidence_level,
        accept_judge=accept_judge,
    )
    block = regrouped([batch], parser.log)
    units = unit_masks(
        block,
        thresholds_of(calibration),
        needed=(1 << len(names)) - 1,
        last_turn_only=spec.turn_scope == "last",
        log=parser.log,
    )
    parser.log.stop_if_any()
    tally, chosen = Tally(len(names), spec.turn_bins), chosen_attempts(units, spec.attempts)
    tally.add(block, chosen)
    known: dict[str, Any] = {
        "calibration_id": calibration_id, "judge": judge, "judge_source": source, "judge_accepted": accepted,
    }  # fmt: skip
    if isinstance(calibration, DetectorCalibration):
        if labels is not None:
            raise InputError.of("labels", "are held against the scores of a judge; a detector's decisions take none")
        return measure_detector(tally.finish(), calibration, spec, **known)
    labelled = None
    if labels is not None:
        watched = LabelledUnits(_labels(labels, "labels", (*names, *others), (), needed=names), names)
        watched.add(block, chosen)
        labelled = watched.finish(allow_unmatched=allow_unmatched, where="labels")
    return measure_counts(tally.finish(), calibration, spec, **known, labelled=labelled)


def _labels(
    table: Any,
    name: str,
    categories: Sequence[str] | None,
    slices: Sequence[str],
    needed: Sequence[str] | None = None,
) -> GoldenSet:
    from core.data.golden_reader import GoldenReader, golden_layout

    log = ProblemLog([name], ["row"])
    raw = _raw(table)
    layout = golden_layout(raw.table.schema.names, raw, name, log, categories=categories, slices=slices, needed=needed)
    reader = GoldenReader(log, categories, needed)
    if layout is not None:
        reader.add(raw, layout)
    return reader.finish()


def _raw(table: Any) -> RawBatch:
    arrow = table if isinstance(table, pa.Table) else pa.Table.from_pandas(table, preserve_index=False)
    (batch,) = arrow.combine_chunks().to_batches() or [pa.RecordBatch.from_pylist([], schema=arrow.schema)]
    return RawBatch(table=batch, place=np.arange(1, len(batch) + 1, dtype=np.int64))


def _parsed(table: Any, categories: Sequence[str], kind: Kind) -> tuple[ScoreParser, ScoreBatch]:
    log = ProblemLog(["scores"], ["row"])
    raw = _raw(table)
    layout = layout_of(raw.table.schema.names, kind, "scores", log)
    if layout is None or not len(raw.place):
        log.add("scores", "holds no rows")
        log.stop()
    parser = ScoreParser(layout, categories, kind, log)
    batch = parser.parse(raw)
    log.stop_if_any()
    return parser, batch
