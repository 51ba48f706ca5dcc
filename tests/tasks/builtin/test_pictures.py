"""The pictures of the fairness guide: they are there, small, shown, and those that the sample gives."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tasks.builtin.fairness.pictures import PICTURES, audit_of, write_pictures
from tasks.builtin.outputs_sample import MODELS

FOLDER = Path("core") / "fairness"


def test_every_picture_is_shown_in_the_guide_with_words_for_those_who_do_not_see_it(project: Path) -> None:
    text = (project / FOLDER / "README.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"!\[([^\]]+)\]\(pictures/([\w-]+)\.png\)", text))
    assert sorted(shown.values()) == sorted(PICTURES)
    assert all(len(words) > 40 for words in shown)


def test_every_picture_is_drawn_and_small(project: Path, tmp_path: Path) -> None:
    made = {path.name for path in write_pictures(tmp_path)}
    kept = {path.name: path.stat().st_size for path in (project / FOLDER / "pictures").iterdir()}
    assert set(kept) == made
    assert max(kept.values()) < 60_000


@pytest.mark.parametrize(
    ("model", "figures"),
    [
        (0, {"rsi": 0.029, "ode": 0.720, "sar": 1.383, "hsi": 0.119}),
        (1, {"cds": 0.332, "dsi": 0.208}),
    ],
)
def test_the_figures_that_the_guide_names_are_those_of_the_sample(model: int, figures: dict[str, float]) -> None:
    result = audit_of(MODELS[model])["result"]
    for name, value in figures.items():
        found = result[name].get("gender", result[name])
        assert round(found["value"], 3) == value
    if model == 1:
        by_variant = result["cds"]["by_variant"]
        assert [round(by_variant[f"gender={name}"]["value"], 3) for name in ("female", "male")] == [0.469, 0.195]
        assert round(result["cds"]["noise_floor"], 3) == 0.157
        assert round(result["dsi"]["by_group"]["gender=female"]["refusal_rate"], 2) == 0.47
    else:
        assert round(result["rsi"]["gender"]["by_group"]["male"]["share"], 2) == 0.59
        groups = result["hsi"]["by_group"]
        assert [round(groups[f"gender={name}"]["value"], 3) for name in ("female", "male")] == [0.314, 0.031]
