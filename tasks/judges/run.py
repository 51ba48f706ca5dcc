"""Running a registered judge on texts, with its answers cached by fingerprint and text digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from tasks.judges import Judge, Verdict
from tasks.storage import write_text
from tasks.tables import Progress, no_progress

CHUNK = 256


def judged(
    judge: Judge, texts: Sequence[str], cache_dir: Path, progress: Progress = no_progress
) -> Iterator[Verdict]:
    """Yield the judge's verdict on each text, in order.

    Texts are judged in chunks; a chunk's answers are cached as one file, so that a run that was interrupted goes on
    where it stopped and a repeated one costs nothing. The cache is addressed by what determines the answers.
    """
    for first in range(0, len(texts), CHUNK):
        chunk = texts[first : first + CHUNK]
        path = cache_dir / "verdicts" / judge.fingerprint[:16] / f"{_digest(judge, chunk)}.json"
        verdicts = _cached(path, len(chunk))
        if verdicts is None:
            verdicts = list(judge.score(chunk))
            write_text(path, json.dumps([[dict(v.scores), v.rationale] for v in verdicts], ensure_ascii=False))
        progress(len(chunk))
        yield from verdicts


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
