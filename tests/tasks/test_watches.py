"""Asking a judge again, keeping what it says, and naming a change once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.instrument.spec import JudgeIdentity
from tasks.judges import Verdict
from tasks.judges.run import judge_table
from tasks.readers import reader_names
from tasks.settings import settings
from tasks.storage import file_digest, find_inputs
from tasks.tables import load_golden
from tasks.watches import answers_now, change_key, installed


@dataclass
class Counting:
    """A judge that counts what it is asked; it answers the same score to everything."""

    score_of_all: float = 0.4
    name: str = "counting"
    version: str = "1"
    fingerprint: str = "f" * 64
    categories: tuple[str, ...] = ("hate",)
    asked: list[str] = field(default_factory=list)

    def score(self, texts: Sequence[str]) -> list[Verdict]:
        self.asked += texts
        return [Verdict(scores={"hate": self.score_of_all}, rationale="") for _ in texts]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "cache"))
    settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    path = tmp_path / "golden.csv"
    rows = [f"g{i},hate,{i % 2},text {i}" for i in range(10)]
    path.write_text("\n".join(["trace_id,category,label,text", *rows, ""]))
    return path


def test_cached_answers_are_neither_taken_nor_replaced(golden: Path) -> None:
    judge = Counting()
    files = find_inputs([str(golden)], reader_names())
    texts = load_golden(files, categories=None, slices=())[1].texts().rename(columns={"trace": "trace_id"})
    judge_table(judge, texts, settings().cache_dir)
    judge.score_of_all = 0.9
    now = pq.read_table(answers_now(judge, files).path)
    assert set(now.column("hate").to_pylist()) == {0.9}
    assert len(judge.asked) == 20
    cached = judge_table(judge, texts, settings().cache_dir).table
    assert set(cached.column("hate").to_pylist()) == {0.4}
    assert len(judge.asked) == 20


def test_only_the_anchors_are_asked_about_and_the_answers_say_whose_they_are(golden: Path) -> None:
    judge = Counting()
    file = answers_now(judge, find_inputs([str(golden)], reader_names()), ["g1", "g4"])
    table = pq.read_table(file.path)
    assert table.column("trace_id").to_pylist() == ["g1", "g4"]
    assert judge.asked == ["text 1", "text 4"]
    assert table.column("judge").to_pylist() == ["counting@1"] * 2
    assert table.column("judge_fingerprint").to_pylist() == ["f" * 64] * 2
    assert file.path.parent == settings().records_dir / "answers"
    assert file.path.stem == file_digest(file.path)[:16]


def test_the_same_answers_are_kept_once(golden: Path) -> None:
    files = find_inputs([str(golden)], reader_names())
    places = {answers_now(Counting(), files).path for _ in range(2)}
    assert len(places) == 1
    assert len(list((settings().records_dir / "answers").iterdir())) == 1


def test_a_golden_set_without_texts_cannot_be_asked_about(tmp_path: Path) -> None:
    path = tmp_path / "bare.csv"
    path.write_text("trace_id,category,label\na,hate,1\nb,hate,0\n")
    with pytest.raises(InputError, match="'text' is missing"):
        answers_now(Counting(), find_inputs([str(path)], reader_names()))


def test_a_change_has_one_name_and_every_part_of_it_counts() -> None:
    judge = JudgeIdentity(name="guard", version="1", fingerprint="f")
    key = change_key("c", judge, "a")
    assert key == change_key("c", judge, "a")
    others = [
        change_key("d", judge, "a"), change_key("c", judge, "b"),
        change_key("c", JudgeIdentity(name="guard", version="2", fingerprint="f"), "a"),
        change_key("c", JudgeIdentity(name="guard", version="1", fingerprint="e"), "a"),
    ]  # fmt: skip
    assert len({key, change_key("c", judge, "a", "an outdated one"), *others}) == 6


def test_a_judge_that_is_registered_and_not_set_up_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ASSAY_JUDGE_RUBRIC", raising=False)
    settings.cache_clear()
    with pytest.raises(InputError, match="ASSAY_JUDGE_RUBRIC: is not set"):
        installed("llm")


def test_a_judge_that_is_not_registered_is_none() -> None:
    assert installed("nobody") is None
    found = installed("lexical")
    assert found is not None
    assert found.name == "lexical"
