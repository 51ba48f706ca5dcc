"""Running a registered judge on texts, with its answers cached by fingerprint and text digest.

A judge that answers by itself is cached by chunks of texts. A judge that asks a service is paid by the answer: each is
kept as it comes (`tasks.judges.journal`), so that no run that was interrupted, in whatever way, has it paid for again.
Failures are never kept: the next run asks them again.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa

from core.data.vocabulary import SCORED, STATES
from core.errors import InputError, UnreachableError
from core.instrument.spec import UNKNOWN, JudgeIdentity
from tasks.judges import Answer, AskingJudge, Judge, JudgingReport, Question, Traffic, Verdict
from tasks.judges.journal import Journal, Key, text_digest
from tasks.judges.samples import combined, variances
from tasks.storage import write_text
from tasks.tables import Progress, no_progress

CHUNK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What a judge says about a table of conversations.

    Attributes
    ----------
    table : pyarrow.Table
        Scores, one row a turn.
    judge : JudgeIdentity
        With the version that the answers tell.
    report : JudgingReport
    """

    table: Any
    judge: JudgeIdentity
    report: JudgingReport


def judged(judge: Judge, texts: Sequence[str], cache_dir: Path, progress: Progress = no_progress) -> Iterator[Verdict]:
    """Yield the verdict of a judge that answers by itself on each text, in order.

    Texts are judged in chunks; a chunk's answers are cached as one file, so that a run that was interrupted goes on
    where it stopped and a repeated one costs nothing. The cache is addressed by what determines the answers.
    """
    for first in range(0, len(texts), CHUNK):
        chunk = texts[first : first + CHUNK]
        path = cache_dir / "verdicts" / judge.fingerprint[:16] / f"{_digest(judge, chunk)}.json"
        verdicts = _cached(path, len(chunk))
        if verdicts is None:
            verdicts = _asked(judge, chunk)
            if all(verdict.state is None for verdict in verdicts):
                write_text(path, json.dumps([[dict(v.scores), v.rationale] for v in verdicts], ensure_ascii=False))
        progress(len(chunk))
        yield from verdicts


def _asked(judge: Judge, texts: Sequence[str]) -> list[Verdict]:
    """Ask the judge, and hold it to what a judge is."""
    verdicts = list(judge.score(texts))
    if len(verdicts) != len(texts):
        raise InputError.of(f"judge {judge.name}", f"gave {len(verdicts)} verdicts on {len(texts)} texts")
    for verdict in verdicts:
        _hold(judge, verdict)
    return verdicts


def _hold(judge: Judge, verdict: Verdict) -> None:
    absent = [category for category in judge.categories if category not in verdict.scores]
    if absent and verdict.state is None:
        raise InputError.of(f"judge {judge.name}", f"gave no score for its category {absent[0]!r}")


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


class _Inquiry:
    """One run of a judge that asks a service: what is known, what is to be asked, what has come."""

    def __init__(
        self, judge: AskingJudge, texts: Sequence[str], journal: Journal, progress: Progress, *, keep: bool, wanted: str
    ) -> None:
        self._judge, self._journal, self._progress, self._keep = judge, journal, progress, keep
        self._wanted = wanted
        self._digests = [text_digest(text) for text in texts]
        self._times = Counter(self._digests)
        self._text_of = dict(zip(self._digests, texts, strict=True))
        self._failures: dict[Key, Verdict] = {}
        self.recalled = len(journal.known)
        self.traffic = Traffic(scored=self.recalled)
        self.questions = [
            Question(text=text, digest=digest, sample=sample)
            for digest, text in self._text_of.items()
            for sample in range(judge.samples)
            if (digest, sample) not in journal.known
        ]
        self._open = Counter(question.digest for question in self.questions)
        for digest, times in self._times.items():
            if digest not in self._open:
                progress(times)

    def ask(self) -> None:
        """Put the questions; what has come by the time that something goes wrong is kept."""
        try:
            self._judge.ask(self.questions, self._take, self.traffic)
        except UnreachableError as error:
            raise UnreachableError(f"{error}\n{self._kept()}") from None
        except InputError as error:
            if not self.traffic.requests:
                raise
            raise InputError(
                [*error.problems, *InputError.of(f"judge {self._judge.name}", self._kept()).problems]
            ) from None

    def _kept(self) -> str:
        scored = sum(self._is_scored(digest) for digest in self._text_of)
        told = f"{scored:,} of {len(self._text_of):,} texts are scored"
        return f"{told} and kept: the same command goes on from there" if self._keep else f"{told}, and none is kept"

    def _is_scored(self, digest: str) -> bool:
        return all((digest, sample) in self._journal.known for sample in range(self._judge.samples))

    def _take(self, question: Question, answer: Answer) -> None:
        """Keep an answer, or note a failure."""
        verdict = answer.verdict
        if verdict.state is None:
            _hold(self._judge, verdict)
            self._same_model(answer.model)
            self._journal.add(question, verdict, answer.model)
        else:
            self._failures[question.digest, question.sample] = verdict
        self._open[question.digest] -= 1
        if not self._open[question.digest]:
            self._progress(self._times[question.digest])

    def _same_model(self, model: str | None) -> None:
        if self._journal.is_new:
            self._as_wanted(model or self._judge.model)
            return
        if model == self._journal.model:
            return
        raise InputError.of(
            f"judge {self._judge.name}",
            f"the service answered as {self._journal.model or UNKNOWN} so far, and now as {model or UNKNOWN}: that is "
            f"another judge, and its scores are not mixed in. Name the one that you want in place of "
            f"{self._judge.model!r}; an instrument that was calibrated with the other has to be calibrated again",
        )

    def _as_wanted(self, told: str) -> None:
        if self._wanted not in (UNKNOWN, told):
            raise InputError.of(
                f"judge {self._judge.name}",
                f"version {self._wanted} is asked for, and the service answers as {told}: that is another judge",
            )

    def verdicts(self) -> list[Verdict]:
        """Return the verdict on each text, in order."""
        found = {digest: combined(self._samples(digest)) for digest in self._text_of}
        return [found[digest] for digest in self._digests]

    def variances(self) -> Mapping[str, float]:
        """Return each category's variance of repeated judging."""
        return variances(map(self._samples, self._text_of))

    def _samples(self, digest: str) -> list[Verdict]:
        known, failed = self._journal.known, self._failures
        keys = [(digest, sample) for sample in range(self._judge.samples)]
        return [known[key] if key in known else failed[key] for key in keys]


def _inquired(
    judge: AskingJudge, texts: Sequence[str], cache_dir: Path, progress: Progress, *, ask: bool, keep: bool, wanted: str
) -> tuple[list[Verdict], str, JudgingReport]:
    """Return verdicts in order, the version that the answers tell, and how it went (without counts)."""
    path = _journal_of(judge, cache_dir / "verdicts", wanted)
    with Journal.opened(path, judge.fingerprint, judge.categories, set(map(text_digest, texts))) as journal:
        inquiry = _Inquiry(judge, texts, journal, progress, keep=keep, wanted=wanted)
        if inquiry.questions and not ask:
            raise InputError.of(
                f"judge {judge.name}",
                f"{len(inquiry.questions):,} of its answers are not kept here, and asking again would cost, and need "
                "not give the same; run it where they are kept",
            )
        inquiry.ask()
        report = JudgingReport(
            counts={},
            traffic=inquiry.traffic,
            recalled=inquiry.recalled,
            cost=None if judge.prices is None else judge.prices.of(inquiry.traffic),
            variances=inquiry.variances(),
        )
        return inquiry.verdicts(), _version(judge, journal), report


def _version(judge: AskingJudge, journal: Journal) -> str:
    """The model that kept answers are of: as the service named it, else as it was asked for."""
    return UNKNOWN if journal.is_new else journal.model or judge.model


def _journal_of(judge: AskingJudge, folder: Path, wanted: str) -> Path:
    """One file a fingerprint, of the first model that answered; a later one that is asked for by name has its own."""
    first = folder / f"{judge.fingerprint}.jsonl"
    if wanted == UNKNOWN:
        return first
    with Journal.opened(first, judge.fingerprint, judge.categories, ()) as journal:
        kept = _version(judge, journal)
    return first if kept in (UNKNOWN, wanted) else folder / f"{judge.fingerprint}-{text_digest(wanted)[:16]}.jsonl"


def judge_table(
    judge: Judge,
    texts: Any,
    cache_dir: Path | None,
    progress: Progress = no_progress,
    *,
    ask: bool = True,
    wanted: str = UNKNOWN,
) -> Judgement:
    """Score conversations: a wide score table (pyarrow), one row a turn.

    Parameters
    ----------
    judge : Judge
    texts : pandas.DataFrame
        trace_id, turn, text, and attempt, cluster, target where known. A turn without text is not scored.
    cache_dir : Path or None
        Where answers are kept; None: none is taken from before, and none is kept.
    progress : callable
    ask : bool
        Whether a service may be asked; else only kept answers will do.
    wanted : str
        The version that a service's answers have to tell, kept ones among them; ``unknown`` for any.

    Raises
    ------
    InputError
        The judge does not do what a judge does, its service refuses it or answers as another version, or an answer is
        not kept and may not be asked.
    UnreachableError
        The judge's service does not answer. What it has answered is kept, where answers are.
    """
    given = [text if isinstance(text, str) and text.strip() else None for text in texts["text"]]
    version, report = judge.version, JudgingReport(counts={})
    whole = isinstance(judge, AskingJudge) and judge.context == "conversation"
    shown = [text for text in (_conversations(texts, given) if whole else given) if text is not None]
    with TemporaryDirectory() if cache_dir is None else nullcontext(cache_dir) as folder:
        if isinstance(judge, AskingJudge):
            keep = cache_dir is not None
            found, version, report = _inquired(judge, shown, Path(folder), progress, ask=ask, keep=keep, wanted=wanted)
        else:
            found = list(judged(judge, shown, Path(folder), progress))
    answers = iter(found)
    verdicts = [None if text is None else next(answers) for text in given]
    states = ["missing" if verdict is None else verdict.state for verdict in verdicts]
    identity = JudgeIdentity(name=judge.name, version=version, fingerprint=judge.fingerprint)
    counts = Counter(state or SCORED for state in states)
    return Judgement(
        table=_table(texts, judge.categories, identity, verdicts, states),
        judge=identity,
        report=_counted(report, counts),
    )


def _counted(report: JudgingReport, counts: Mapping[str, int]) -> JudgingReport:
    return replace(report, counts={state: counts[state] for state in (SCORED, *STATES) if counts.get(state)})


def _conversations(texts: Any, given: Sequence[str | None]) -> list[str | None]:
    """Give each turn that has a text the conversation up to it: one JSON object a line, each a turn.

    In JSON, since a text can write whatever stands between turns, but no line break and no quotation mark that ends it.
    """
    attempts = texts["attempt"] if "attempt" in texts else [0] * len(given)
    keys = list(zip(texts["trace_id"], attempts, strict=True))
    turns = list(texts["turn"]) if "turn" in texts else [0] * len(given)
    so_far: dict[tuple[Any, Any], list[str]] = {}
    found: list[str | None] = [None] * len(given)
    for i in sorted(range(len(given)), key=lambda row: turns[row]):
        told = so_far.setdefault(keys[i], [])
        told.append(json.dumps({"turn": int(turns[i]), "text": given[i]}, ensure_ascii=False))
        found[i] = None if given[i] is None else "\n".join(told)
    return found


def _table(
    texts: Any,
    categories: Sequence[str],
    judge: JudgeIdentity,
    verdicts: Sequence[Verdict | None],
    states: Sequence[str | None],
) -> Any:
    columns: dict[str, Any] = {"trace_id": pa.array(texts["trace_id"], pa.string())}
    for name in ("attempt", "turn"):
        if name in texts:
            columns[name] = pa.array(texts[name], pa.int64())
    for name in ("cluster", "target"):
        if name in texts:
            columns[name] = pa.array([item if isinstance(item, str) else None for item in texts[name]], pa.string())
    for category in categories:
        scores = [None if v is None or v.state else v.scores[category] for v in verdicts]
        columns[category] = pa.array(scores, pa.float64())
    columns["state"] = pa.array(states, pa.string())
    columns["judge"] = pa.array([str(judge)] * len(verdicts), pa.string())
    columns["judge_fingerprint"] = pa.array([judge.fingerprint] * len(verdicts), pa.string())
    columns["rationale"] = pa.array([None if v is None else v.rationale for v in verdicts], pa.string())
    return pa.table(columns)
