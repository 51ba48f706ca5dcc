"""Histograms of scores: the maxima of fully scored units, whatever the order of rows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from core.errors import InputError
from core.inference.drift import ScoreHistogram
from tasks import spill
from tasks.histograms import score_histograms
from tasks.storage import InputFile

CATEGORIES = ("hate", "violence")


def scores(n: int = 200) -> pd.DataFrame:
    """Two attempts of two turns a trace; some cells are empty."""
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({
        "trace_id": np.repeat([f"t{i}" for i in range(n)], 4), "attempt": np.tile([0, 0, 1, 1], n),
        "turn": np.tile([0, 1], 2 * n),
    })  # fmt: skip
    for name in CATEGORIES:
        frame[name] = draw.random(4 * n).round(3)
        frame.loc[draw.random(4 * n) < 0.05, name] = None
    return frame


def expected(frame: pd.DataFrame, name: str) -> ScoreHistogram:
    units = frame.groupby(["trace_id", "attempt"])[name]
    return ScoreHistogram.of(units.max()[units.count() == 2].to_numpy())


def counted(folder: Path, frame: pd.DataFrame, categories: tuple[str, ...] = CATEGORIES) -> dict[str, ScoreHistogram]:
    frame.to_csv(folder / "s.csv", index=False)
    file = InputFile(path=folder / "s.csv", name="s.csv")
    found, rows = score_histograms([file], categories, last_turn_only=False)
    assert rows == (len(frame),)
    return found


def test_a_unit_counts_with_its_highest_score_where_every_turn_has_one(tmp_path: Path) -> None:
    frame = scores()
    assert counted(tmp_path, frame) == {name: expected(frame, name) for name in CATEGORIES}


def test_the_order_of_rows_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = scores()
    monkeypatch.setattr(spill, "ROWS_IN_MEMORY", 100)
    assert counted(tmp_path, frame.sample(frac=1, random_state=2)) == counted(tmp_path, frame)


def test_a_category_that_was_never_scored_has_an_empty_histogram(tmp_path: Path) -> None:
    found = counted(tmp_path, scores(), (*CATEGORIES, "sexual"))
    assert found["sexual"].n == 0
    assert found["hate"].n > 0


def test_what_is_wrong_with_the_scores_is_told(tmp_path: Path) -> None:
    frame = scores()
    frame.loc[3, "hate"] = 1.5
    with pytest.raises(InputError, match=r"s.csv:5: hate 1.5 is outside"):
        counted(tmp_path, frame)
