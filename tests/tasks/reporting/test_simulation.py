"""A simulation on the terminal, in Markdown and in figures: readable, and no name in it adds markup."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt
from rich.console import Console

from core.records import plain
from core.simulation.simulated import least_coverage
from core.simulation.spec import ChainSpec, ClusterLaw, CorrectionSpec, ObservedRateSpec
from core.simulation.stages import stage_of
from tasks.reporting.markdown import simulation_markdown
from tasks.reporting.simulation import cell_rows, simulation_report, summary_rows
from tasks.reporting.simulation_figures import MAX_PANELS, simulation_figures
from tasks.workers import carried_out

NASTY = ["<script>alert(1)</script>", "[x](http://e.org)", "**a** | b", "`rm`", "$\\frac{1}{0}$", "a\x1b[31mb\nc"]


def document(result: Any, certified: dict[str, Any] | None = None) -> dict[str, Any]:
    if certified is not None:
        result = {**result, "calibration": certified}
    return {"id": "a" * 64, "seed": 7, "spec": {"stage": result["stage"]}, "result": result}


def simulated(spec: Any) -> dict[str, Any]:
    stage = stage_of(spec)
    found: dict[str, Any] = plain(stage.result(carried_out(stage)))
    return found


@pytest.fixture(scope="module")
def observed() -> dict[str, Any]:
    return simulated(ObservedRateSpec(n_units=(10, 20, 40), rates=(0.02, 0.3)))


@pytest.fixture(scope="module")
def corrected() -> dict[str, Any]:
    return simulated(CorrectionSpec(replications=4, draws=100, n_units=(50, 100), prevalences=(0.1, 0.3)))


@pytest.fixture(scope="module")
def chain() -> dict[str, Any]:
    return simulated(
        ChainSpec(
            youden_j=(0.7,), n_golden=(80, 120), clusters=(ClusterLaw(), ClusterLaw(golden_size=4)),
            prevalences=(0.1, 0.3), n_units=(50,), n_categories=2, replications=4,
        )
    )  # fmt: skip


def rates(name: str) -> dict[str, Any]:
    fit = {"sensitivity": 0.9, "specificity": 0.8, "simulated_sensitivity": 0.91, "simulated_specificity": 0.79}
    return {"id": "c" * 64, "instrument": name, "judge": f"{name}@{name}", "composite": fit, "categories": {name: fit}}


def shown(found: dict[str, Any], width: int = 100) -> str:
    screen = Console(width=width, record=True, file=io.StringIO())
    screen.print(simulation_report(found))
    return screen.export_text()


def test_the_cell_with_the_lowest_coverage_stands_first(
    observed: dict[str, Any], corrected: dict[str, Any], chain: dict[str, Any]
) -> None:
    for result, column in ((observed, "modified Wilson"), (corrected, "Lang-Reiczigel"), (chain, "coverage")):
        rows = cell_rows(result)
        assert len(rows) == result["n_cells"]
        shares = [float(row[column].partition("%")[0]) for row in rows]
        assert shares == sorted(shares)
        assert shares[0] == pytest.approx(100 * result["coverage"], abs=0.06)
        assert len({tuple(row) for row in rows}) == 1


def test_every_stage_fits_100_columns(
    observed: dict[str, Any], corrected: dict[str, Any], chain: dict[str, Any]
) -> None:
    for result in (observed, corrected, chain):
        text = shown(document(result))
        assert "…" not in text
        assert "holds the true rate" in text


def test_columns_that_tell_no_cells_apart_are_left_out(chain: dict[str, Any]) -> None:
    (row, *_) = cell_rows(chain)
    assert ("clusters" in row, "turns" in row) == (True, False)
    one = {**chain, "cells": chain["cells"][:1]}
    assert "clusters" not in cell_rows(one)[0]


def test_the_chain_shows_the_optimism_of_every_golden_set(chain: dict[str, Any]) -> None:
    text = shown(document(chain))
    apparent = chain["cells"][0]["optimism"]["apparent_j"]
    assert f"{apparent:.3f}" in text
    assert "measured" in text


@pytest.mark.parametrize(("sufficient", "says"), [(True, ": sufficient (at least 93.0%)"), (False, ": not sufficient")])
def test_a_certificate_says_whether_it_is_sufficient_and_a_stage_does_not(
    sufficient: bool, says: str, chain: dict[str, Any]
) -> None:
    result = {**chain, "sufficient": sufficient}
    for told in (shown(document(result, rates("x")), 300), simulation_markdown(document(result, rates("x")))):
        assert says in told
        assert "0.910 (calibrated: 0.900)" in told
    assert "sufficient" not in simulation_markdown(document(result))


def test_the_least_coverage_keeps_its_distance_at_every_level() -> None:
    assert least_coverage(0.95) == pytest.approx(0.93)
    assert least_coverage(0.9) == pytest.approx(0.86)


def test_the_count_of_cells_names_the_coverage_of_its_level(chain: dict[str, Any]) -> None:
    for level, column in ((0.95, "cells under 93%"), (0.99, "cells under 98.6%"), (0.9, "cells under 86%")):
        assert all(column in row for row in summary_rows({**chain, "confidence_level": level}))


@pytest.mark.parametrize("name", NASTY)
def test_no_name_adds_markup_or_steers_the_terminal(name: str, chain: dict[str, Any]) -> None:
    html = MarkdownIt("commonmark").enable("table").render

    def tags(rendered: str) -> list[str]:
        return [part.partition(">")[0] for part in rendered.split("<")[1:]]

    nasty, harmless = (simulation_markdown(document({**chain, "notes": [n]}, rates(n))) for n in (name, "plain"))
    assert tags(html(nasty)) == tags(html(harmless))
    assert "\x1b" not in shown(document(chain, rates(name)))


def test_the_markdown_is_short_enough_for_a_description(corrected: dict[str, Any]) -> None:
    text = simulation_markdown(document(corrected), ["record: x"])
    assert len(text) < 5000
    assert "more cells are in the record" in text
    assert text.endswith(f"Record `{'a' * 64}`\n- record: x\n")


def test_figures_are_drawn_for_every_stage_without_a_warning(
    observed: dict[str, Any], corrected: dict[str, Any], chain: dict[str, Any], tmp_path: Path
) -> None:
    drawn = {
        name: simulation_figures(document(result))
        for name, result in (("observed", observed), ("corrected", corrected), ("chain", chain))
    }
    assert {name: sorted(figures) for name, figures in drawn.items()} == {
        "observed": ["coverage", "width"], "corrected": ["coverage", "width"],
        "chain": ["coverage", "optimism", "width"],
    }  # fmt: skip
    for name, figures in drawn.items():
        for kind, figure in figures.items():
            figure.savefig(tmp_path / f"{name}-{kind}.png", dpi=40)
            assert (tmp_path / f"{name}-{kind}.png").stat().st_size > 2000


def test_a_coverage_figure_shows_the_points_of_its_cells_and_both_bounds(observed: dict[str, Any]) -> None:
    axes = simulation_figures(document(observed))["coverage"].axes[0]
    heights = {round(float(line.get_ydata()[0]), 4) for line in axes.lines if len(set(line.get_ydata())) == 1}
    assert {0.95, 0.93} <= heights
    cells = [cell for cell in observed["cells"] if cell["rate"] == 0.02]
    drawn = [list(line.get_ydata()) for line in axes.lines]
    assert [cell["methods"]["modified_wilson"]["coverage"] for cell in cells] in drawn


def test_an_optimism_panel_is_named_after_the_j_that_it_shows(chain: dict[str, Any]) -> None:
    """J over the golden set's turn counts, which is another than that over production's."""
    titles = {
        axes.get_title(loc="left").partition(",")[0] for axes in simulation_figures(document(chain))["optimism"].axes
    }
    best = {f"best J {cell['optimism']['best_j']:.2f}" for cell in chain["cells"]}
    assert titles == best
    assert best != {f"best J {cell['youden_j']:.2f}" for cell in chain["cells"]}


def test_more_panels_than_fit_are_told_in_the_title(corrected: dict[str, Any]) -> None:
    cells = [{**cell, "sensitivity": 0.5 + i / 100} for i, cell in enumerate(corrected["cells"])]
    figure = simulation_figures(document({**corrected, "cells": cells}))["coverage"]
    assert f"(the first {MAX_PANELS} of {len(cells)})" in figure.get_suptitle()


def test_a_name_in_a_title_does_not_become_a_formula(chain: dict[str, Any], tmp_path: Path) -> None:
    figure = simulation_figures(document(chain, rates("$\\frac{1}{0}$")))["coverage"]
    assert "\\$" in figure.get_suptitle()
    figure.savefig(tmp_path / "f.png", dpi=40)


def test_an_interval_that_never_was_has_no_width(corrected: dict[str, Any], tmp_path: Path) -> None:
    def without(coverage: dict[str, Any]) -> dict[str, Any]:
        return {**coverage, "mean_width": None}

    cells = [
        {**cell, "bias": None, "methods": {name: without(found) for name, found in cell["methods"].items()}}
        for cell in corrected["cells"]
    ]
    found = document({**corrected, "cells": cells})
    assert " - " in shown(found)
    simulation_figures(found)["width"].savefig(tmp_path / "w.png", dpi=40)
