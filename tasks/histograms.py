"""Histograms of scores, for whether they moved: of production, streamed, and of the golden set."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from core.data.scores import ScoreBatch, whole_traces
from core.inference.drift import BINS, ScoreHistogram
from core.instrument.collapse import unit_maxima
from core.instrument.golden_table import GoldenTable
from core.instrument.tally import ScatteredTracesError, Tally
from tasks.spill import scattered_blocks
from tasks.storage import InputFile
from tasks.tables import Progress, ScoreScan, no_progress, open_all

Histograms = dict[str, ScoreHistogram]


def score_histograms(
    files: Sequence[InputFile],
    categories: Sequence[str],
    *,
    last_turn_only: bool,
    progress: Progress = no_progress,
) -> tuple[Histograms, tuple[int, ...]]:
    """Count the maxima over turns of each category, of the units that are fully scored for it; every attempt is one.

    Parameters
    ----------
    files : sequence of InputFile
        Scores.
    categories : sequence of str
        All that the files may hold.
    last_turn_only : bool
        As in the instrument.
    progress : callable
        Gets numbers of rows.

    Returns
    -------
    histograms : dict of str to ScoreHistogram
        Empty ones for categories that were never scored.
    rows : tuple of int
        Of each file.
    """
    scan = ScoreScan(open_all(files), "scores", categories, progress)

    def count(blocks: Iterator[ScoreBatch]) -> Histograms:
        counts = np.zeros((len(categories), BINS), np.int64)
        seen = Tally(len(categories), ())  # notices traces whose rows are apart
        for block in blocks:
            units, maxima = unit_maxima(block, len(categories), last_turn_only=last_turn_only, log=scan.log)
            seen.add(block, units)
            scan.log.stop_if_any()  # no histogram of what is out of range
            for c in range(len(categories)):
                scored = maxima[units.missing >> c & 1 == 0, c]
                counts[c] += ScoreHistogram.of(scored).counts
        return {name: ScoreHistogram(counts=tuple(row)) for name, row in zip(categories, counts.tolist(), strict=True)}

    try:
        found = count(whole_traces(scan.batches(), scan.log))
    except ScatteredTracesError:
        scan.restart()
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            found = count(scattered_blocks(scan.batches(), Path(folder), scan.log))
    scan.log.stop_if_any()
    return found, scan.found.rows_by_file


def golden_histograms(table: GoldenTable) -> Histograms:
    """Count the golden set's maxima in the same way, whatever their labels."""
    return {name: ScoreHistogram.of(table.maxima[~table.missing[:, c], c]) for c, name in enumerate(table.categories)}
