"""A watch in words: on the terminal, in Markdown, as rows."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from core.instrument.spec import JudgeIdentity
from core.instrument.watched import Watched
from core.records import plain
from tasks.reporting.watch import watch_headline, watch_markdown, watch_report, watch_rows
from tests.core.instrument.watching import bench

STEADY = bench()


def document(watched: Watched) -> dict[str, Any]:
    return {"id": "d" * 64, "result": plain(watched)}


def answers(**change: tuple[float, float]) -> Any:
    return STEADY.answers(np.random.default_rng(5), **change)


def shown(watched: Watched) -> str:
    screen = Console(width=120, record=True, file=io.StringIO())
    screen.print(watch_report(document(watched)))
    return screen.export_text()


def test_the_verdict_comes_first_and_only_what_matters_has_a_row() -> None:
    told = " ".join(shown(STEADY.watch(answers())).split())
    assert "SAME guard@1 answers as it did when it was calibrated" in told
    assert "200 anchors, 100 of them violating; the same fingerprint; 0.0% of the decisions are others now" in told
    assert told.count("decisions, ") == 2
    assert "shifts of categories: 6 same, 2 insufficient; the record has each" in told


def test_what_changed_is_named_with_its_cause_and_its_shift() -> None:
    watched = STEADY.watch(answers(by_label=(0.0, -0.15)))
    result = document(watched)["result"]
    assert watch_headline(result) == (
        "guard@1 has changed: its decisions on the anchors moved; its scores on the anchors moved"
    )
    changed = [row for row in watch_rows(result) if row["verdict"] == "changed"]
    assert {row["what"] for row in changed} >= {"decisions, violating", "scores, violating"}
    assert all(row["shift"].startswith("-") for row in changed)
    assert "CHANGED" in shown(watched)


def test_without_answers_the_identity_is_what_was_compared() -> None:
    told = shown(STEADY.watch(None, judge=JudgeIdentity(name="guard", version="2")))
    assert "another identity; no answers were compared" in told
    assert "it is another judge by its name, version or fingerprint" in told


def test_a_series_is_told_from_its_fifth_watch_on() -> None:
    earlier: list[Watched] = []
    for _ in range(5):
        earlier.append(STEADY.watch(answers(), earlier=tuple(earlier)))
    assert "violating anchors: no trend" not in shown(earlier[3])
    assert "5 watches, violating anchors: no trend (p 1, decided at 0.0025)" in shown(earlier[4])


@pytest.mark.parametrize("name", ["[x](y)", "a|b", "<b>"])
def test_names_add_no_markup_to_markdown(name: str) -> None:
    told = document(STEADY.watch(answers(), judge=JudgeIdentity(name=name, version="1", fingerprint="f" * 64)))
    assert name not in watch_markdown(told)
