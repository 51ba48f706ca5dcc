"""Turns to units (SPEC 1-2): a unit is a (trace, attempt); its decision is the OR of its turns' bits.

The maximum over turns reaches a threshold exactly when any turn does, so a score becomes one bit and a unit two
words: which categories are flagged and which are missing. Calibration, which has to find the threshold first,
takes the maxima themselves from the same index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from core.data.columns import Bools, Floats, Ints
from core.data.problems import ProblemLog, quoted
from core.data.scores import NO_REASON, ScoreBatch
from core.data.vocabulary import STATES

MISSING_REASON = STATES.index("missing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Units of some whole traces.

    Attributes
    ----------
    trace : int64 array of shape (n_units,)
        Index of the trace in the block.
    attempt, n_turns : int64 arrays of shape (n_units,)
    flags, missing : int64 arrays of shape (n_units,)
        Bit c stands for category c: flagged at some turn; not scored at every turn.
    reason : uint8 array of shape (n_units,)
        Index into `STATES` where something is missing, else `NO_REASON`.
    n_duplicates, n_gaps : int
        Cells that stood again with the same value; units with a hole in their turn numbers.
    """

    trace: Ints
    attempt: Ints
    n_turns: Ints
    flags: Ints
    missing: Ints
    reason: npt.NDArray[np.uint8]
    n_duplicates: int
    n_gaps: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Index:
    """Where the turns and units of a block begin, after sorting and without duplicates."""

    block: ScoreBatch
    trace: Ints  # of each row
    turns: Ints  # first row of each turn
    units: Ints  # first turn of each unit
    stated: Ints  # mask of the cells that stand in each turn, empty ones too
    n_duplicates: int


def unit_masks(
    block: ScoreBatch,
    thresholds: Sequence[float],
    *,
    needed: int,
    last_turn_only: bool,
    log: ProblemLog,
) -> Units:
    """Collapse a block of whole traces to flag and missing masks.

    Parameters
    ----------
    block : ScoreBatch
        Whole traces (see `whole_traces`).
    thresholds : sequence of float
        One a category, in bit order; a score at the threshold is flagged; +inf never flags.
    needed : int
        Mask of the categories that every turn must have scored.
    last_turn_only : bool
        The source scores only the last turn, so that holes in the turn numbers are no loss.
    log : ProblemLog
        Takes repeated cells with different values.
    """
    index = _indexed(block, len(thresholds), log)
    block, turns, units = index.block, index.turns, index.units
    hit = _hits(block, np.asarray(thresholds, float))
    flags = np.bitwise_or.reduceat(block.bits(hit, len(thresholds)), turns[units])
    scored = index.stated
    if block.valid is not None:
        scored = np.bitwise_or.reduceat(block.bits(block.valid, len(thresholds)), turns)
    n_turns = np.diff(np.r_[units, len(turns)])
    missing = np.bitwise_or.reduceat(needed & ~scored, units)
    gap = _gaps(block.turn[turns], units, n_turns) if not last_turn_only else np.zeros(len(units), bool)
    missing = np.where(gap, needed, missing)
    return Units(
        trace=index.trace[turns[units]],
        attempt=block.attempt[turns[units]],
        n_turns=n_turns,
        flags=flags & needed,
        missing=missing,
        reason=_reasons(block, turns[units], missing, needed, len(thresholds)),
        n_duplicates=index.n_duplicates,
        n_gaps=int(gap.sum()),
    )


def unit_maxima(block: ScoreBatch, n_categories: int, *, last_turn_only: bool, log: ProblemLog) -> tuple[Units, Floats]:
    """Collapse a block of whole traces to the maximum over turns, for calibration.

    Returns
    -------
    units : Units
        With no flags; every category is needed.
    maxima : float64 array of shape (n_units, n_categories)
        -inf where a unit has no score in a category; meaningless where the unit's missing bit is set.
    """
    never = [np.inf] * n_categories
    index = _indexed(block, n_categories, log)
    units = unit_masks(index.block, never, needed=(1 << n_categories) - 1, last_turn_only=last_turn_only, log=log)
    first_row = index.turns[index.units]
    values = index.block.values
    if index.block.valid is not None:
        values = np.where(index.block.valid, values, -np.inf)
    if index.block.category is None:
        return replace(units, n_duplicates=index.n_duplicates), np.maximum.reduceat(values, first_row, axis=0)
    maxima = np.full((len(first_row), n_categories), -np.inf)
    unit_of_row = np.repeat(np.arange(len(first_row)), np.diff(np.r_[first_row, index.block.n_rows]))
    np.maximum.at(maxima, (unit_of_row, index.block.category), values)
    return replace(units, n_duplicates=index.n_duplicates), maxima


def _hits(block: ScoreBatch, thresholds: Floats) -> Bools:
    limit = thresholds if block.category is None else thresholds[block.category]
    hit: Bools = block.values >= limit
    return hit if block.valid is None else hit & block.valid


def _indexed(block: ScoreBatch, n_categories: int, log: ProblemLog) -> _Index:
    trace = np.repeat(np.arange(len(block.starts)), np.diff(np.r_[block.starts, block.n_rows]))
    block, trace = _sorted(block, trace)
    turns, units = _boundaries(block, trace)
    present = block.bits(None, n_categories)
    stated = np.bitwise_or.reduceat(present, turns)
    if (np.add.reduceat(present, turns) == stated).all():
        return _Index(block=block, trace=trace, turns=turns, units=units, stated=stated, n_duplicates=0)
    keep = _first_of_duplicates(block, trace, log)
    n_dropped = int((~keep).sum()) * (1 if block.values.ndim == 1 else n_categories)
    block, trace = _taken(block, trace, np.flatnonzero(keep))
    turns, units = _boundaries(block, trace)
    return _Index(block=block, trace=trace, turns=turns, units=units, stated=stated, n_duplicates=n_dropped)


def _boundaries(block: ScoreBatch, trace: Ints) -> tuple[Ints, Ints]:
    new_unit = np.ones(len(trace), bool)
    new_unit[1:] = (trace[1:] != trace[:-1]) | (block.attempt[1:] != block.attempt[:-1])
    new_turn = new_unit.copy()
    new_turn[1:] |= block.turn[1:] != block.turn[:-1]
    turns = np.flatnonzero(new_turn)
    return turns, np.flatnonzero(new_unit[turns])


def _sorted(block: ScoreBatch, trace: Ints) -> tuple[ScoreBatch, Ints]:
    """Order the rows of every trace by attempt and turn; most files already are."""
    same = trace[1:] == trace[:-1]
    later_attempt = block.attempt[1:] > block.attempt[:-1]
    same_attempt = block.attempt[1:] == block.attempt[:-1]
    in_order = ~same | later_attempt | (same_attempt & (block.turn[1:] >= block.turn[:-1]))
    if in_order.all():
        return block, trace
    return _taken(block, trace, np.lexsort((block.turn, block.attempt, trace)))


def _taken(block: ScoreBatch, trace: Ints, rows: Ints) -> tuple[ScoreBatch, Ints]:
    moved: Ints = trace[rows]
    return block.taken(rows, starts=np.flatnonzero(np.r_[True, moved[1:] != moved[:-1]])), moved


def _first_of_duplicates(block: ScoreBatch, trace: Ints, log: ProblemLog) -> Bools:
    """Keep the first row of every repeated cell; differing values are a problem that names both lines."""
    category = np.zeros(block.n_rows, np.int64) if block.category is None else block.category
    order = np.lexsort((block.place, category, block.turn, block.attempt, trace))
    keys = np.stack([trace, block.attempt, block.turn, category])[:, order]
    same = np.r_[False, (keys[:, 1:] == keys[:, :-1]).all(axis=0)]
    first = np.maximum.accumulate(np.where(same, 0, np.arange(len(order))))
    valid = np.ones(block.values.shape, bool) if block.valid is None else block.valid
    cells = np.where(valid, block.values, -1.0)
    differs = cells[order] != cells[order[first]]
    conflict = same & (differs if differs.ndim == 1 else differs.any(axis=1))
    for position in np.flatnonzero(conflict):
        row, other = int(order[position]), int(order[first[position]])
        log.at(
            int(block.place[row]),
            (
                f"trace {quoted(block.trace_ids[trace[row]])}, attempt {block.attempt[row]}, "
                f"turn {block.turn[row]} has other values in {log.where(int(block.place[other]))}; "
                "keep one of the two rows, or number the attempts"
            ),
        )
    keep = np.ones(block.n_rows, bool)
    keep[order[same]] = False
    return keep


def _gaps(turn: Ints, units: Ints, n_turns: Ints) -> Bools:
    first, last = turn[units], turn[units + n_turns - 1]
    gap: Bools = last - first + 1 != n_turns
    return gap


def _reasons(
    block: ScoreBatch, first_row: Ints, missing: Ints, needed: int, n_categories: int
) -> npt.NDArray[np.uint8]:
    reason = np.full(len(first_row), NO_REASON, np.uint8)
    if not missing.any():
        return reason
    if block.reason is not None and block.valid is not None:
        empty = (block.bits(~block.valid, n_categories) & needed) != 0
        reason = np.minimum.reduceat(np.where(empty, block.reason, NO_REASON).astype(np.uint8), first_row)
    unknown = (reason == NO_REASON) & (missing != 0)
    return np.where(missing != 0, np.where(unknown, MISSING_REASON, reason), NO_REASON).astype(np.uint8)
