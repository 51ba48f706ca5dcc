"""Kept answers: one line each, none lost, none made up."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from core.errors import InputError
from tasks.judges import Question, Verdict
from tasks.judges.journal import Journal, text_digest

FINGERPRINT = "f" * 64
SCORED = Verdict(scores={"hate": 0.25, "violence": 1.0}, rationale="because")


def question(text: str, sample: int = 0) -> Question:
    return Question(text=text, digest=text_digest(text), sample=sample)


@contextmanager
def opened(path: Path, texts: Sequence[str] = ("a", "b", "c"), fingerprint: str = FINGERPRINT) -> Iterator[Journal]:
    with Journal.opened(path, fingerprint, ("hate", "violence"), set(map(text_digest, texts))) as journal:
        yield journal


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "verdicts" / "x.jsonl"


def test_what_is_kept_is_there_the_next_time_sample_by_sample(path: Path) -> None:
    with opened(path) as journal:
        assert (journal.is_new, journal.model, journal.known) == (True, None, {})
        journal.add(question("a"), SCORED, "judge-x")
        journal.add(question("a", 1), SCORED, "judge-x")
        journal.add(question("elsewhere"), SCORED, "judge-x")
    with opened(path) as journal:
        assert (journal.is_new, journal.model) == (False, "judge-x")
        assert journal.known == {(text_digest("a"), 0): SCORED, (text_digest("a"), 1): SCORED}


def test_only_the_owner_may_read_what_is_kept(path: Path) -> None:
    with opened(path):
        pass
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_two_runs_cannot_have_one_journal_at_a_time(path: Path) -> None:
    with opened(path), pytest.raises(InputError, match="another run is asking this judge"), opened(path):
        pass
    with opened(path):
        pass


def test_a_file_that_was_cut_off_anywhere_keeps_its_whole_lines_and_takes_new_ones(path: Path) -> None:
    with opened(path) as journal:
        journal.add(question("a"), SCORED, "judge-x")
        journal.add(question("b"), SCORED, "judge-x")
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in {*range(0, len(whole), 7), *(end + i for end in ends for i in (-2, -1, 0))} - {len(whole)}:
        path.write_bytes(whole[:cut])
        with opened(path) as journal:
            # The last line may lack its line break only: it is whole then all the same.
            kept = sum(end - 1 <= cut for end in ends) - 1
            assert len(journal.known) == (max(kept, 0) if cut >= ends[0] else 0)
            journal.add(question("c"), SCORED, "judge-x")
        with opened(path) as journal:
            assert journal.known[text_digest("c"), 0] == SCORED


@pytest.mark.parametrize(
    "content",
    [
        '[{"hate": 0.5}, "a category short"]', '[{"hate": 1.5, "violence": 0}, "x"]',
        '[{"hate": NaN, "violence": 0}, ""]',
        '[{"hate": null, "violence": 0}, "x"]', "{}", "[]", "", '[{"hate": 0.5, "violence": 0}', "[" * 60_000, "\x00",
        '[{"hate": 0.5, "violence": 0.5}, "' + "x" * 70_000 + '"]',
    ],
    ids=range(11),
)  # fmt: skip
def test_a_damaged_line_is_passed_over(path: Path, content: str) -> None:
    with opened(path) as journal:
        journal.add(question("a"), SCORED, "judge-x")
    with path.open("a") as file:
        file.write(f"{text_digest('b')} 0 {content}\n{text_digest('c')} zero []\n")
    with opened(path) as journal:
        assert set(journal.known) == {(text_digest("a"), 0)}


@pytest.mark.parametrize(
    "head",
    [
        "hello\n", "{}\n", '{"format": "assay.answers/1", "fingerprint": "other", "model": null}\n', "\x00\n",
        "\x00" * 70_000 + "\n",
    ],
    ids=range(5),
)  # fmt: skip
def test_a_file_that_is_no_such_journal_is_refused_and_left_alone(path: Path, head: str) -> None:
    path.parent.mkdir()
    path.write_text(head)
    with pytest.raises(InputError, match="is damaged or not of this judge; move it away"), opened(path):
        pass
    assert path.read_text() == head


def test_on_a_full_disk_an_answer_is_an_error_and_the_lines_around_it_stay_whole(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk takes a piece of the second answer, nothing of the third, and then has room again."""
    write = os.write

    def nothing(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with opened(path) as journal:
        journal.add(question("a"), SCORED, "judge-x")
        for disk, told in [(lambda fd, data: write(fd, data[:50]), "no space is left"), (nothing, "No space left")]:
            monkeypatch.setattr("os.write", disk)
            with pytest.raises(InputError, match=rf"x\.jsonl: an answer cannot be kept there: {told}"):
                journal.add(question("b"), SCORED, "judge-x")
            monkeypatch.undo()
        journal.add(question("c"), SCORED, "judge-x")
    with opened(path) as journal:
        assert set(journal.known) == {(text_digest("a"), 0), (text_digest("c"), 0)}


def test_a_hundred_thousand_answers_of_others_are_read_past_in_a_moment(path: Path) -> None:
    path.parent.mkdir()
    line = json.dumps([dict(SCORED.scores), "x" * 300])
    with path.open("w") as file:
        file.write(json.dumps({"format": "assay.answers/1", "fingerprint": FINGERPRINT, "model": None}) + "\n")
        file.writelines(f"{i:064x} 0 {line}\n" for i in range(100_000))
        file.write(f"{text_digest('a')} 0 {line}\n")
    began = time.process_time()
    with opened(path) as journal:
        assert len(journal.known) == 1
    assert time.process_time() - began < 2
