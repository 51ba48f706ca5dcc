"""The answers of one judge that were paid for, kept one by one in a file that only grows.

One file a fingerprint and model. Each line is written with one call of the system, so a process that is killed loses no
answer that it has taken; a line that is torn all the same (a full disk) is passed over, and its text asked again. The
key stands at the front of a line, so that a run over a few texts reads past the others without parsing them.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from core.errors import InputError
from tasks.judges import Question, Verdict

MAX_LINE_BYTES = 65_536
FORMAT = "assay.answers/1"

Key = tuple[str, int]


def text_digest(text: str) -> str:
    """Return the SHA-256 of a text, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Journal:
    """Kept answers, of which those to some texts are at hand.

    Attributes
    ----------
    known : dict of (text digest, sample) to Verdict
        Scored ones only: a failure is never kept.
    model : str or None
        The model that all of them came from, as the service named it.
    is_new : bool
        Nothing has been kept yet, so that any model may come.
    """

    def __init__(self, path: Path, file: BinaryIO, fingerprint: str) -> None:
        self.known: dict[Key, Verdict] = {}
        self.model: str | None = None
        self.is_new = True
        self._path, self._file, self._fingerprint = path, file, fingerprint

    @classmethod
    @contextmanager
    def opened(
        cls, path: Path, fingerprint: str, categories: Sequence[str], wanted: Collection[str]
    ) -> Iterator[Journal]:
        """Open the journal of a judge for one run; no other run may have it meanwhile.

        Parameters
        ----------
        path : Path
        fingerprint : str
            The judge's.
        categories : sequence of str
            A line that lacks one of them is passed over.
        wanted : collection of str
            Digests of the texts whose answers are of interest.

        Raises
        ------
        InputError
            Another run has it, or it is not such a file.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError.of(
                    str(path), "another run is asking this judge; wait for its end: its answers are kept for this one"
                ) from None
            journal = cls(path, file, fingerprint)
            journal._load(categories, wanted)
            try:
                yield journal
            finally:
                os.fsync(file.fileno())

    def add(self, question: Question, verdict: Verdict, model: str | None) -> None:
        """Keep an answer.

        Raises
        ------
        InputError
            It cannot be written.
        """
        if self.is_new:
            head = {"format": FORMAT, "fingerprint": self._fingerprint, "model": model}
            self._append(json.dumps(head))
            self.model, self.is_new = model, False
        content = json.dumps([dict(verdict.scores), verdict.rationale], allow_nan=False)
        self._append(f"{question.digest} {question.sample} {content}")
        self.known[question.digest, question.sample] = verdict

    def _append(self, line: str) -> None:
        content, descriptor = f"{line}\n".encode(), self._file.fileno()
        before = os.fstat(descriptor).st_size
        try:
            if os.write(descriptor, content) == len(content):
                return
            os.ftruncate(descriptor, before)  # else the next line would be lost with the piece of this one
            reason = "no space is left"
        except OSError as error:
            reason = error.strerror or type(error).__name__
        raise InputError.of(str(self._path), f"an answer cannot be kept there: {reason}")

    def _load(self, categories: Sequence[str], wanted: Collection[str]) -> None:
        with self._path.open("rb") as file:
            head = file.readline(MAX_LINE_BYTES)
            if not head.endswith(b"\n") and len(head) < MAX_LINE_BYTES:  # empty, or killed in its very first line
                os.ftruncate(self._file.fileno(), 0)
                return
            self._read_head(head)
            last = head
            while line := file.readline(MAX_LINE_BYTES):
                self._read_line(line, categories, wanted)
                last = line
        if not last.endswith(b"\n"):
            self._append("")  # what comes next begins a line of its own

    def _read_head(self, line: bytes) -> None:
        try:
            head: Mapping[str, Any] = json.loads(line)
            fits = head["format"] == FORMAT and head["fingerprint"] == self._fingerprint
            model = head["model"]
        except (ValueError, TypeError, KeyError, RecursionError):
            fits, model = False, None
        if not fits or not (model is None or isinstance(model, str)):
            raise InputError.of(
                str(self._path), "is damaged or not of this judge; move it away to ask everything again"
            )
        self.model, self.is_new = model, False

    def _read_line(self, line: bytes, categories: Sequence[str], wanted: Collection[str]) -> None:
        digest, _, rest = line.partition(b" ")
        try:
            if (name := digest.decode()) not in wanted:
                return
            sample, _, content = rest.partition(b" ")
            scores, rationale = json.loads(content)
            verdict = Verdict(scores={name: float(scores[name]) for name in categories}, rationale=str(rationale))
            number = int(sample)
        except (ValueError, TypeError, KeyError, RecursionError):
            return  # torn or damaged: the text is asked again
        if all(math.isfinite(score) and 0 <= score <= 1 for score in verdict.scores.values()):
            self.known[name, number] = verdict
