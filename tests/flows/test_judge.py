"""`assay judge`: answers are cached, empty texts are missing, texts that conflict are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tasks.judges.lexical import LexicalJudge

TEXTS = 'trace_id,turn,text,cluster,target\nx,0,Northlanders are vermin.,k,bot@1\nx,1,,k,bot@1\ny,0,"  ",,bot@1\n'


@pytest.fixture
def judge(assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr("flows.pipelines.judging.settings", lambda: type("S", (), {"cache_dir": tmp_path / "cache"}))

    def run(content: str, *options: str) -> tuple[Any, Path]:
        (tmp_path / "texts.csv").write_text(content)
        output = tmp_path / "out" / "scores.parquet"
        return assay("judge", "lexical", tmp_path / "texts.csv", "-o", output, *options), output

    return run


def test_conversations_become_a_table_of_scores(judge: Any) -> None:
    outcome, output = judge(TEXTS)
    assert outcome.code == 0
    assert "3 turns judged by lexical@1" in outcome.out
    table = pq.read_table(output).to_pydict()
    assert (table["trace_id"], table["turn"]) == (["x", "x", "y"], [0, 1, 0])
    assert (table["cluster"], table["target"]) == (["k", "k", None], ["bot@1"] * 3)
    assert table["hate"][0] > 0.5
    assert set(table["judge"]) == {"lexical@1"}
    assert table["judge_fingerprint"] == [LexicalJudge().fingerprint] * 3


def test_a_turn_without_text_is_missing_and_never_zero(judge: Any) -> None:
    _, output = judge(TEXTS)
    table = pq.read_table(output).to_pydict()
    assert table["state"] == [None, "missing", "missing"]
    assert [table[name][1:] for name in LexicalJudge().categories] == [[None, None]] * 5


def test_cached_answers_give_the_same_output_without_asking_again(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    _, output = judge(TEXTS)
    before = output.read_bytes()
    monkeypatch.setattr(LexicalJudge, "score", lambda *_: pytest.fail("the judge was asked again"))
    outcome, output = judge(TEXTS)
    assert outcome.code == 0
    assert output.read_bytes() == before


def test_a_damaged_cache_is_asked_again(judge: Any, tmp_path: Path) -> None:
    _, output = judge(TEXTS)
    before = output.read_bytes()
    (cached,) = (tmp_path / "cache").rglob("*.json")
    cached.write_text('[[{"hate": 0.0}')
    judge(TEXTS)
    assert output.read_bytes() == before


def test_without_the_cache_the_judge_is_asked_again(judge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    judge(TEXTS)
    asked: list[int] = []
    score = LexicalJudge.score
    monkeypatch.setattr(LexicalJudge, "score", lambda self, texts: asked.append(len(texts)) or score(self, texts))
    judge(TEXTS, "--no-cache")
    assert asked == [1]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("trace_id,turn,text\nx,0,one\nx,0,two\n", "texts.csv:3: trace 'x', turn 0 stands here with other content"),
        ("trace_id,text\nx,one\n,two\n", "texts.csv:3: trace_id is empty"),
        ("trace_id,turn,text\nx,-1,one\n", "texts.csv:2: turn -1 is negative"),
        ("trace_id,turn\nx,1\n", "texts.csv: column 'text' is missing"),
        ("trace_id,text\n", "texts.csv: has a header but no rows"),
        ("", "texts.csv: is empty"),
    ],
)
def test_texts_that_cannot_be_judged_are_refused(judge: Any, content: str, expected: str) -> None:
    outcome, output = judge(content)
    assert outcome.code == 2
    assert expected in outcome.err
    assert not output.parent.exists()


def test_a_text_that_stands_once_a_category_is_judged_once(judge: Any) -> None:
    outcome, output = judge("trace_id,category,label,text\nx,hate,1,words\nx,violence,0,words\n")
    assert outcome.code == 0
    assert pq.read_table(output).num_rows == 1


def test_a_judge_that_is_not_registered_is_refused_with_those_that_are(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("trace_id,text\nx,one\n")
    outcome = assay("judge", "oracle", tmp_path / "t.csv", "-o", tmp_path / "s.parquet")
    assert (outcome.code, "no such judge is registered (assay.judges: lexical, llm, " in outcome.err) == (2, True)


def test_golden_texts_that_conflict_are_refused(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("trace_id,category,label,text\nx,hate,1,one\nx,violence,1,two\ny,hate,0,three\n")
    outcome = assay("calibrate", tmp_path / "g.csv", "--judge", "lexical", "-o", tmp_path / "c.json")
    assert outcome.code == 2
    assert "g.csv:3: trace 'x', turn 0 has two different texts" in outcome.err
    (tmp_path / "g.csv").write_text("trace_id,category,label\nx,hate,1\ny,hate,0\n")
    outcome = assay("calibrate", tmp_path / "g.csv", "--judge", "lexical", "-o", tmp_path / "c.json")
    assert "column 'text' is missing: the judge has nothing to read" in outcome.err


def test_the_judge_that_runs_has_to_be_the_one_that_the_instrument_names(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "g.csv").write_text("trace_id,category,label,text\nx,hate,1,one\ny,hate,0,three\n")
    (tmp_path / "i.yaml").write_text('name: x\njudge: {name: lexical, version: "0"}\n')
    options = ("--judge", "lexical", "--instrument", tmp_path / "i.yaml", "-o", tmp_path / "c.json")
    outcome = assay("calibrate", tmp_path / "g.csv", *options)
    assert (outcome.code, "declared for judge lexical@0, but lexical@1 is to run" in outcome.err) == (2, True)
