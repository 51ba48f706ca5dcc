"""conversations -> a registered judge -> a table of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tasks.judges import load_judge
from tasks.judges.run import Judgement, judge_table
from tasks.readers import reader_names
from tasks.settings import settings
from tasks.storage import Place, atomic, find_inputs
from tasks.tables import Progress, load_texts, no_progress


def run_judge(
    name: str,
    texts: Sequence[str],
    output: Place,
    *,
    rubric: Path | None = None,
    keep: bool = True,
    progress: Progress = no_progress,
) -> Judgement:
    """Judge conversations and write their scores.

    Parameters
    ----------
    name : str
        Of a registered judge.
    texts : sequence of str
        ``[READER:]PATH`` arguments.
    output : Path or S3Url
    rubric : Path, optional
        For a judge that takes one.
    keep : bool
        Whether answers are taken from the cache, and kept there.
    progress : callable
    """
    judge = load_judge(name, rubric=rubric)
    conversations = load_texts(find_inputs(texts, reader_names()))
    judgement = judge_table(judge, conversations, settings().cache_dir if keep else None, progress)
    with atomic(output) as temporary:
        pq.write_table(judgement.table, temporary, compression="zstd")
    return judgement
