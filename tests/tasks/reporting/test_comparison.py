"""A comparison and a series on the terminal, in Markdown and in figures: readable, and no name in it adds markup."""

from __future__ import annotations

import copy
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec
from flows.pipelines.calibration import run_calibration
from flows.pipelines.comparison import run_comparison
from flows.pipelines.measurement import run_measurement
from tasks.reporting.comparison import (
    comparison_rows,
    guard_lines,
    headline,
    report,
    series_rows,
    true_changes,
)
from tasks.reporting.comparison_figures import MAX_PANELS, MAX_ROWS, comparison_figures
from tasks.reporting.markdown import comparison_markdown

NASTY = ["<script>alert(1)</script>", "[x](http://e.org)", "**a** | b", "`rm`", "$\\frac{1}{0}$", "a\x1b[31mb\nc"]
NAMES = ("hate", "self-harm")

Document = dict[str, Any]


def scores(folder: Path, name: str, harm: np.ndarray[Any, Any], seed: int) -> str:
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"trace_id": [f"t{i}" for i in range(len(harm))]})
    for c, category in enumerate(NAMES):
        frame[category] = np.clip(np.where(harm[:, c], 0.65, 0.3) + draw.normal(0, 0.12, len(harm)), 0, 1)
    frame.to_csv(folder / name, index=False)
    return str(folder / name)


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Document]:
    """A decrease, a comparison across instruments with scores, and a series with a break."""
    folder = tmp_path_factory.mktemp("reports")
    harm = np.random.default_rng(0).random((150, 2)) < 0.4
    golden = pd.DataFrame(
        {"trace_id": [f"t{i}" for i in range(150)], **dict(zip(NAMES, harm.T.astype(int), strict=True))}
    )
    golden.to_csv(folder / "golden.csv", index=False)
    judged = scores(folder, "golden-scores.csv", harm, 1)
    calibrations = []
    for seed in (1, 2):
        spec = InstrumentSpec(
            name="safety",
            judge=JudgeIdentity(name="guard", version="1"),
            optimism=OptimismSpec(method="none"),
            seed=seed,
        )
        place = folder / f"c{seed}.json"
        run_calibration([str(folder / "golden.csv")], [judged], None, spec, output=place)
        calibrations.append(str(place))
    severity = np.random.default_rng(3).random((300, 2))
    places = []
    for k, (rate, calibration) in enumerate([(0.35, 0), (0.1, 0), (0.1, 1)]):
        place = folder / f"m{k}.json"
        file = scores(folder, f"r{k}.csv", severity < rate, 10 + k)
        run_measurement([file], calibration=calibrations[calibration], target=f"chat@{k}", output=place)
        places.append(str(place))
    found = {
        "decrease": run_comparison(places[:2], output=folder / "a.json", scores=True),
        "across": run_comparison(places[1:], output=folder / "b.json", allow_different_calibration=True),
        "series": run_comparison(places, output=folder / "s.json"),
    }
    return {name: item.written.document for name, item in found.items()}


def shown(document: Document, width: int = 120) -> str:
    screen = Console(width=width, record=True, file=io.StringIO())
    screen.print(report(document))
    return screen.export_text()


def test_the_headline_says_verdict_difference_interval_and_p(documents: dict[str, Document]) -> None:
    row = documents["decrease"]["result"]["composite"]
    told = headline(documents["decrease"]["result"])
    assert told.startswith(f"Composite rate: decrease, -{abs(100 * row['difference']):.1f} points [-")
    assert told.endswith("(95% interval), p <.001")


def test_every_quantity_is_a_row_with_the_same_columns(documents: dict[str, Document]) -> None:
    rows = comparison_rows(documents["decrease"]["result"])
    assert [row["quantity"] for row in rows] == ["composite", *NAMES]
    assert {tuple(row) for row in rows} == {
        ("quantity", "baseline", "candidate", "difference", "interval", "p", "verdict"),
    }  # fmt: skip


def test_what_cannot_be_compared_has_no_figures_and_says_why(documents: dict[str, Document]) -> None:
    document = copy.deepcopy(documents["decrease"])
    empty = dict.fromkeys(("difference", "interval", "p_value", "p_adjusted", "delta_j_guard", "n_candidate_only"))
    document["result"]["composite"] |= {**empty, "verdict": "not_comparable", "notes": ["below_detection_floor: J"]}
    text = " ".join(shown(document).split())
    assert "Composite rate: not comparable (below_detection_floor: J)" in text
    assert " units of both releases" not in text
    assert comparison_rows(document["result"])[0]["difference"] == "-"
    assert "not comparable" in comparison_markdown(document)
    comparison_figures(document)["differences"].savefig(io.BytesIO(), dpi=40)


def test_a_fragile_verdict_is_told_with_what_would_explain_it(documents: dict[str, Document]) -> None:
    document = copy.deepcopy(documents["decrease"])
    sturdy = guard_lines(document["result"])
    assert [fragile for _, fragile in sturdy] == [False]
    document["result"]["categories"]["hate"]["delta_j_guard"]["fragile"] = True
    (_, (told, fragile)) = guard_lines(document["result"])
    assert fragile
    assert told.startswith("under 5 points bring the interval to 0: hate (specificity ")
    assert f"! {told}" in shown(document)
    document["result"]["categories"]["hate"]["delta_j_guard"] |= {"sensitivity_points": 3.1, "specificity_points": None}
    assert guard_lines(document["result"])[1][0].endswith(": hate (sensitivity 3.1)")
    document["result"]["composite"]["delta_j_guard"]["fragile"] = True
    assert "explains it" in guard_lines(document["result"])[0][0]
    assert "**fragile**" in comparison_markdown(document)


def test_a_comparison_across_instruments_says_so_everywhere(documents: dict[str, Document]) -> None:
    document = documents["across"]
    for told in (shown(document), comparison_markdown(document)):
        assert "different instruments" in told
    (figure,) = comparison_figures(document).values()
    assert any("DIFFERENT INSTRUMENTS" in text.get_text() for text in figure.texts)


def test_a_series_names_its_breaks_and_no_difference_stands_there(documents: dict[str, Document]) -> None:
    rows = series_rows(documents["series"]["result"])
    assert [row["since the release before"].partition(" ")[0] for row in rows] == [
        "",
        rows[1]["since the release before"].split()[0],
        "break:",
    ]
    assert "decrease" in rows[1]["since the release before"]
    assert "3 releases, 1 break" in shown(documents["series"])
    assert "3 releases, 1 break" in comparison_markdown(documents["series"])


def test_no_line_of_the_chart_crosses_a_break(documents: dict[str, Document]) -> None:
    (figure,) = comparison_figures(documents["series"]).values()
    axes = figure.axes[0]
    lines = [
        line.get_xdata().tolist() for line in axes.lines if len(line.get_xdata()) and line.get_marker() in ("o", "s")
    ]
    assert lines == [[0, 1], [2]]
    (dashed,) = [line for line in axes.lines if line.get_linestyle() == "--"]
    assert list(dashed.get_xdata()) == [1.5, 1.5]
    assert [text.get_text() for text in axes.texts] == ["▼", "another calibration"]


def test_a_release_without_a_rate_is_a_gap_with_a_mark(documents: dict[str, Document]) -> None:
    document = copy.deepcopy(documents["series"])
    document["result"]["points"][0]["composite"] = {"status": "below_detection_floor", "value": None, "interval": None}
    (figure,) = comparison_figures(document).values()
    marks = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    assert [list(line.get_xdata()) for line in marks] == [[0]]
    assert "below_detection_floor" in shown(document)


def test_figures_of_many_categories_stay_of_a_size_and_say_what_is_hidden(documents: dict[str, Document]) -> None:
    comparison, series = (copy.deepcopy(documents[name]) for name in ("decrease", "series"))
    row = comparison["result"]["categories"]["hate"]
    comparison["result"]["categories"] = {f"c{i}": row for i in range(60)}
    for point in series["result"]["points"]:
        point["categories"] = {f"c{i}": point["composite"] for i in range(60)}
    differences = comparison_figures(comparison)["differences"]
    assert f"(the first {MAX_ROWS} of 61)" in differences.get_suptitle()
    assert differences.get_figheight() < 20
    chart = comparison_figures(series)["series"]
    assert f"(the first {MAX_PANELS} of 61)" in chart.get_suptitle()


def test_the_true_changes_are_set_beside_the_intervals(documents: dict[str, Document]) -> None:
    before, after = ({"composite": rate, "hate": 0.3, "self-harm": 0.9} for rate in (0.6, 0.2))
    told = true_changes(documents["decrease"], before, after)
    assert told == "1 of 3 intervals hold the true change; the composite's is -40.0 points."


@pytest.mark.parametrize("kind", ["decrease", "series"])
@pytest.mark.parametrize("name", NASTY)
def test_no_name_adds_markup_or_steers_the_terminal(documents: dict[str, Document], kind: str, name: str) -> None:
    html = MarkdownIt("commonmark").enable("table").render

    def renamed(to: str) -> Document:
        text = json.dumps(documents[kind])
        for old in ("chat@0", "chat@1", "self-harm", "another calibration"):
            text = text.replace(json.dumps(old)[1:-1], json.dumps(f"{to}{len(old)}")[1:-1])
        found: Document = json.loads(text)
        found["result"]["notes"] = [to]
        return found

    def tags(rendered: str) -> list[str]:
        return [part.partition(">")[0] for part in rendered.split("<")[1:]]

    nasty, harmless = renamed(name), renamed("plain")
    assert tags(html(comparison_markdown(nasty))) == tags(html(comparison_markdown(harmless)))
    assert "\x1b" not in shown(nasty)
    for figure in comparison_figures(nasty).values():
        figure.savefig(io.BytesIO(), dpi=40)


def test_the_tables_fit_100_columns(documents: dict[str, Document]) -> None:
    for document in documents.values():
        assert "…" not in shown(document, 100)
