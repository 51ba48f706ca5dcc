"""Watching a judge: its golden answers then, its answers now, and the watches before."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from core.data.golden import GoldenSet
from core.errors import UnknownJudgeError
from core.inference.trend import MAX_VALUES
from core.instrument.anchors import Anchors, choose_anchors
from core.instrument.calibrated import kind_of
from core.instrument.golden_table import GoldenScores, GoldenTable
from core.instrument.identity import judge_of_scores
from core.instrument.spec import UNKNOWN, JudgeIdentity
from core.instrument.watched import Watched
from core.records import FileReference, build
from tasks.archive import FoundCalibration, find_record, load_record, records_folder
from tasks.finder import InputFinder
from tasks.judges import Judge, load_judge
from tasks.judges.run import judge_table
from tasks.storage import InputFile, S3Url, atomic, exists, fetched, file_digest
from tasks.tables import (
    Found,
    Progress,
    load_golden,
    load_golden_scores,
    no_progress,
    open_all,
    read_golden_maxima,
    references,
)

WATCH = "watch"
"""The role of an earlier watch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """A judge's answers on golden traces, in files.

    Attributes
    ----------
    judge : JudgeIdentity
        Who gave them.
    scores : GoldenScores
    references : tuple of FileReference
    """

    judge: JudgeIdentity
    scores: GoldenScores
    references: tuple[FileReference, ...]


def golden_table(found: FoundCalibration, maxima: InputFile) -> GoldenTable:
    """Read the golden answers that a calibration stored."""
    return read_golden_maxima(maxima, tuple(found.calibration.categories))


def anchors_of(found: FoundCalibration, table: GoldenTable, n: int) -> Anchors | None:
    """Choose the anchors; None for a calibration that flags nothing."""
    if not found.calibration.composite.categories:
        return None
    return choose_anchors(table, found.calibration, n, seed=found.calibration.seed)


def read_answers(files: Sequence[InputFile], found: FoundCalibration, table: GoldenTable) -> Answers:
    """Read answers, and who gave them, whoever that is.

    Raises
    ------
    InputError
        They cannot be read, or lack a category.
    """
    known = found.calibration
    golden = GoldenSet(
        trace_ids=table.trace_ids, categories=table.categories, labels=table.labels, clusters=None, slices={},
        n_rows=len(table.trace_ids), n_duplicates=0,
    )  # fmt: skip
    kind = kind_of(known)
    last_turn_only = known.turn_scope == "last"
    scores, brought = load_golden_scores(open_all(files), golden, last_turn_only=last_turn_only, kind=kind)
    return Answers(
        judge=_judge_of(brought, known.judge, files[0].name),
        scores=scores,
        references=tuple(references(kind, files, brought.rows_by_file)),
    )


def _judge_of(brought: Found, expected: JudgeIdentity, where: str) -> JudgeIdentity:
    judge, _, _ = judge_of_scores(
        brought.judges, brought.fingerprints, expected, accept=True, where=where, expected="the calibration's"
    )
    return judge


def installed(name: str) -> Judge | None:
    """Return the judge that is registered here under a name; None if there is none.

    Raises
    ------
    InputError
        There is one, and its settings do not make a judge.
    """
    try:
        return load_judge(name)
    except UnknownJudgeError:
        return None


def identity_of(worker: Judge) -> JudgeIdentity:
    """Say who a registered judge is."""
    return JudgeIdentity(name=worker.name, version=worker.version, fingerprint=worker.fingerprint)


def ask_again(
    worker: Judge, found: FoundCalibration, trace_ids: Sequence[str] | None, progress: Progress = no_progress
) -> InputFile:
    """Ask a judge about golden traces as if for the first time, and keep its answers in the records folder.

    Answers that are cached are left alone: they are what the judge said then. A watch asks about the anchors, and a
    calibration that follows a change under the same fingerprint about all of the golden set.

    Parameters
    ----------
    worker : Judge
    found : FoundCalibration
        Whose golden set is read.
    trace_ids : sequence of str, optional
        All golden traces without them.
    progress : callable
        Hears of texts.

    Raises
    ------
    InputError
        The golden set is not at hand, or has no texts.
    """
    files = InputFinder(found.place, ()).files(found.document["inputs"], "golden")
    return answers_now(worker, files, trace_ids, progress)


def answers_now(
    worker: Judge,
    files: Sequence[InputFile],
    trace_ids: Sequence[str] | None = None,
    progress: Progress = no_progress,
    *,
    wanted: str = UNKNOWN,
) -> InputFile:
    """Ask a judge, of the `wanted` version, about the texts of golden files; see `ask_again`."""
    _, reader, _ = load_golden(files, categories=None, slices=())
    texts = reader.texts().rename(columns={"trace": "trace_id"})
    if trace_ids is not None:
        texts = texts[texts["trace_id"].isin(set(trace_ids))]
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        table = judge_table(worker, texts, None, progress, wanted=wanted).table
        scores = table.select(["trace_id", "turn", "state", *worker.categories, "judge", "judge_fingerprint"])
        return _kept(scores, Path(name) / "answers.parquet")


def _kept(table: Any, file: Path) -> InputFile:
    """Keep a table in the records folder under its digest."""
    pq.write_table(table, file, compression="zstd")
    kept = records_folder() / "answers" / f"{file_digest(file)[:16]}.parquet"
    if not exists(kept):
        with atomic(kept, once=True) as temporary:
            temporary.write_bytes(file.read_bytes())
    return fetched([kept])[0] if isinstance(kept, S3Url) else InputFile(path=kept, name=str(kept))


@dataclass(frozen=True, slots=True, kw_only=True)
class Earlier:
    """The watches before, of the same calibration and anchors.

    Attributes
    ----------
    watches : tuple of Watched
        The newest, at most 99, in the order of time.
    references : tuple of FileReference
        Their records.
    n : int
        How many there were in all.
    """

    watches: tuple[Watched, ...] = ()
    references: tuple[FileReference, ...] = ()
    n: int = 0


def earlier_watches(found: FoundCalibration, anchors: Anchors, tracking_uri: str | None) -> Earlier:
    """Find the watches before in MLflow; none where tracking is switched off.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    from tasks.tracking.watches import logged_watches

    logged = logged_watches(str(found.document["id"]), anchors.sha256, tracking_uri)
    watches, named = [], []
    for item in logged[-(MAX_VALUES - 1) :]:
        inside = records_folder() / f"{item.record}.json"
        place = inside if exists(inside) else find_record(f"runs:/{item.run_id}", tracking_uri)[0]
        document = load_record(place)
        watches.append(build(Watched, document["result"], where=f"{place}: result"))
        named.append(FileReference(role=WATCH, uri=f"runs:/{item.run_id}", sha256=item.record))
    return Earlier(watches=tuple(watches), references=tuple(named), n=len(logged))


def change_key(calibration: str, judge: JudgeIdentity, anchors: str, outdated: str = "") -> str:
    """Name a change once: what the calibration was, who the judge is now, and what was asked.

    A change after a change under the same name is told from the first by the calibration that it made `outdated`.
    """
    content = "\n".join((calibration, judge.name, judge.version, judge.fingerprint, anchors, outdated))
    return f"watch-{hashlib.sha256(content.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
