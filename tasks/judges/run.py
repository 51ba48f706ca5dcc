"""Running a registered judge on texts, with its answers cached by fingerprint and text digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from core.errors import InputError
from tasks.judges import Judge, Verdict
from tasks.storage import write_text
from tasks.tables import Progress, no_progress

CHUNK = 256


def judged(judge: Judge, texts: Sequence[str], cache_dir: Path, progress: Progress = no_progress) -> Iterator[Verdict]:
    """Yield the judge's verdict on each text, in order.

    Texts are judged in chunks; a chunk's answers are cached as one file, so that a run that was interrupted goes on
    where it stopped and a repeated one costs nothing. The cache is addressed by what determines the answers.
    """
    for first in range(0, len(texts), CHUNK):
        chunk = texts[first : first + CHUNK]
        path = cache_dir / "verdicts" / judge.fingerprint[:16] / f"{_digest(judge, chunk)}.json"
        verdicts = _cached(path, len(chunk))
        if verdicts is None:
            verdicts = _asked(judge, chunk)
            write_text(path, json.dumps([[dict(v.scores), v.rationale] for v in verdicts], ensure_ascii=False))
        progress(len(chunk))
        yield from verdicts


def _asked(judge: Judge, texts: Sequence[str]) -> list[Verdict]:
    """Ask the judge, and hold it to what a judge is."""
    verdicts = list(judge.score(texts))
    if len(verdicts) != len(texts):
        raise InputError.of(f"judge {judge.name}", f"gave {len(verdicts)} verdicts on {len(texts)} texts")
    for verdict in verdicts:
        absent = [category for category in judge.categories if category not in verdict.scores]
        if absent:
            raise InputError.of(f"judge {judge.name}", f"gave no score for its category {absent[0]!r}")
    return verdicts


def _digest(judge: Judge, chunk: Sequence[str]) -> str:
    content = json.dumps([judge.name, judge.version, judge.fingerprint, list(chunk)])
    return hashlib.sha256(content.encode()).hexdigest()


def _cached(path: Path, n_texts: int) -> list[Verdict] | None:
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        verdicts = [Verdict(scores=scores, rationale=rationale) for scores, rationale in stored]
    except (OSError, ValueError, TypeError):
        return None  # absent or damaged: the judge is asked again
    return verdicts if len(verdicts) == n_texts else None


def judge_table(judge: Judge, texts: Any, cache_dir: Path, progress: Progress = no_progress) -> Any:
    """Score conversations: a wide score table (pyarrow), one row a turn.

    Parameters
    ----------
    judge : Judge
    texts : pandas.DataFrame
        trace_id, turn, text, and attempt, cluster, target where known. A turn without text is not scored.
    cache_dir : Path
    progress : callable
    """
    given = [text if isinstance(text, str) and text.strip() else None for text in texts["text"]]
    answers = judged(judge, [text for text in given if text is not None], cache_dir, progress)
    verdicts = [None if text is None else next(answers) for text in given]
    columns: dict[str, Any] = {"trace_id": pa.array(texts["trace_id"], pa.string())}
    for name in ("attempt", "turn"):
        if name in texts:
            columns[name] = pa.array(texts[name], pa.int64())
    for name in ("cluster", "target"):
        if name in texts:
            columns[name] = pa.array([item if isinstance(item, str) else None for item in texts[name]], pa.string())
    for category in judge.categories:
        columns[category] = pa.array([None if v is None else v.scores[category] for v in verdicts], pa.float64())
    columns["state"] = pa.array([None if v is not None else "missing" for v in verdicts], pa.string())
    columns["judge"] = pa.array([f"{judge.name}@{judge.version}"] * len(given), pa.string())
    columns["judge_fingerprint"] = pa.array([judge.fingerprint] * len(given), pa.string())
    columns["rationale"] = pa.array([None if v is None else v.rationale for v in verdicts], pa.string())
    return pa.table(columns)
