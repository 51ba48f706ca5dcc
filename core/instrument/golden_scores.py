"""The judge's scores on a golden set: one conversation a label, collapsed over turns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from core.data.problems import ProblemLog
from core.data.scores import ScoreBatch
from core.instrument.calibration import GoldenScores
from core.instrument.collapse import unit_maxima


def golden_scores(
    block: ScoreBatch, categories: Sequence[str], *, last_turn_only: bool, log: ProblemLog
) -> GoldenScores:
    """Collapse golden scores over turns; several attempts of a trace are a problem."""
    units, maxima = unit_maxima(block, len(categories), last_turn_only=last_turn_only, log=log)
    repeated = np.flatnonzero(units.trace[1:] == units.trace[:-1])
    if len(repeated):
        traces = np.unique(units.trace[repeated])
        name = block.trace_ids[int(traces[0])]
        log.at(int(block.place[block.starts[traces[0]]]), (
            f"{len(traces)} golden trace(s) have several attempts (first: {name!r}); a label belongs to one "
            "conversation: keep one attempt a trace, or give each attempt a trace_id and a label of its own"
        ))  # fmt: skip
    log.stop_if_any()
    missing = (units.missing[:, None] >> np.arange(len(categories))) & 1 == 1
    return GoldenScores(
        trace_ids=tuple(block.trace_ids),
        n_turns=units.n_turns,
        maxima=maxima,
        missing=missing | ~np.isfinite(maxima),
        clusters=None if block.clusters is None else tuple(block.clusters),
        n_rows=block.n_rows,
    )
