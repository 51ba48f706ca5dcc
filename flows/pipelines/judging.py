"""conversations -> a registered judge -> a table of scores."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tasks.judges import load_judge
from tasks.judges.run import judge_table
from tasks.readers import reader_names
from tasks.settings import settings
from tasks.storage import Place, atomic, find_inputs
from tasks.tables import Progress, load_texts, no_progress


def run_judge(
    name: str,
    texts: Sequence[str],
    output: Place,
    *,
    cache_dir: Path | None = None,
    progress: Progress = no_progress,
) -> Any:
    """Judge conversations and write their scores; returns the table."""
    judge = load_judge(name)
    conversations = load_texts(find_inputs(texts, reader_names()))
    table = judge_table(judge, conversations, cache_dir or settings().cache_dir, progress)
    with atomic(output) as temporary:
        pq.write_table(table, temporary, compression="zstd")
    return table
