"""Figures of a simulation: coverage and width against the size of production, optimism of J against the golden set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.records import Document
from core.simulation.simulated import least_coverage
from tasks.reporting.figures import BLUE, GREY, INK, ORANGE, headed, panel_grid, plain_label
from tasks.reporting.simulation import name_of
from tasks.reporting.terminal import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PANELS = 9
WIDTH = 9.6
APART = 1.05
"""Factor between the lines of a panel, along the logarithmic sizes, so that no bar hides another."""

MARKS = (
    (BLUE, "o", "-"), (ORANGE, "s", "--"), ("#009E73", "^", "-."), ("#CC79A7", "D", ":"),
    ("#E69F00", "v", "-"), ("#56B4E9", "P", "--"), (INK, "X", ":"),
)  # fmt: skip
"""Colour, mark and line of each series: Okabe and Ito's colours, and all three differ."""

Point = tuple[float, Mapping[str, Any]]
"""A size of production, and how the interval did there."""

Lines = dict[str, list[Point]]
Panels = dict[str, Lines]


def simulation_figures(document: Document) -> dict[str, Figure]:
    """Draw a simulation.

    Parameters
    ----------
    document : dict
        The record.

    Returns
    -------
    dict
        Figures by name: ``coverage``, ``width``, and ``optimism`` where calibrations were made.
    """
    panels, what = _panels(document["result"])
    figures = {"coverage": coverage_figure(document, panels, what), "width": width_figure(document, panels, what)}
    if any(cell.get("optimism") for cell in document["result"]["cells"]):
        figures["optimism"] = optimism_figure(document)
    return figures


def _panels(result: Mapping[str, Any]) -> tuple[Panels, str]:
    """Sort the cells into panels and lines; also say what the lines are."""
    panels: Panels = {}
    if "production" in result["cells"][0]:
        for cell in result["cells"]:
            for found in cell["production"]:
                line = panels.setdefault(_chain_title(cell), {}).setdefault(
                    f"true rate {_rate(found['prevalence'])}", []
                )
                line.append((found["n_units"], found["composite"]["interval"]))
        return panels, "Lines: true rates"
    for cell in result["cells"]:
        title = f"true rate {_rate(cell['rate'])}" if "rate" in cell else _correction_title(cell)
        for name, coverage in sorted(cell["methods"].items(), key=lambda item: item[0] != result["method"]):
            panels.setdefault(title, {}).setdefault(name_of(name), []).append((cell["n_units"], coverage))
    if "rate" in result["cells"][0]:
        return panels, "Lines: intervals"
    averaged = {title: {name: _means(line) for name, line in lines.items()} for title, lines in panels.items()}
    return averaged, "Lines: intervals, averaged over true rates"


def _chain_title(cell: Mapping[str, Any]) -> str:
    sizes = cell["golden_cluster_size"], cell["production_cluster_size"]
    clusters = "" if sizes == (1, 1) else f", clusters {sizes[0]:.3g}:{sizes[1]:.3g}"
    return f"J {cell['youden_j']:.2f}, {cell['n_golden']} golden{clusters}"


def _correction_title(cell: Mapping[str, Any]) -> str:
    golden = f"{cell['n_positive']}+{cell['n_negative']} golden"
    clusters = "" if cell["cluster_size"] == 1 else f", clusters {cell['cluster_size']}"
    return f"sens. {cell['sensitivity']:.3g}, spec. {cell['specificity']:.3g}, {golden}{clusters}"


def _rate(value: float) -> str:
    return f"{100 * value:.3g}%"


def _means(line: Sequence[Point]) -> list[Point]:
    """Average a line's points of one size; their errors are independent."""
    averaged: list[Point] = []
    for size in sorted({size for size, _ in line}):
        found = [coverage for n, coverage in line if n == size]
        widths = [each["mean_width"] for each in found if each["mean_width"] is not None]
        error = sum(each["mc_error"] ** 2 for each in found) ** 0.5 / len(found)
        averaged.append((size, {
            "coverage": sum(each["coverage"] for each in found) / len(found),
            "mc_error": error,
            "mean_width": sum(widths) / len(widths) if widths else None,
        }))  # fmt: skip
    return averaged


def coverage_figure(document: Document, panels: Panels, what: str) -> Figure:
    """Draw coverage against the size of production, with the nominal level and the lowest that is sufficient."""
    level = float(document["result"]["confidence_level"])
    lowest = min(point["coverage"] for lines in panels.values() for line in lines.values() for _, point in line)
    figure, drawn = _drawn(panels, lambda axes, lines: _coverage_panel(axes, lines, level))
    for axes in drawn:
        axes.set_ylim(min(lowest, least_coverage(level)) - 0.02, 1.004)
    figure.supylabel("coverage", fontsize=9, color=INK)
    headed(
        figure,
        f"Coverage{_of(document)}{_hidden(panels)}",
        f"{what}; bars: two Monte-Carlo standard errors. Dashed: {100 * level:g}%, what is promised. "
        f"Dotted: {percent(least_coverage(level))}, the least that is sufficient.",
    )
    return figure


def _coverage_panel(axes: Axes, lines: Lines, level: float) -> None:
    axes.axhline(level, color=INK, linewidth=0.9, linestyle="--", zorder=0)
    axes.axhline(least_coverage(level), color=GREY, linewidth=0.9, linestyle=":", zorder=0)
    for number, (name, line) in enumerate(lines.items()):
        colour, mark, style = MARKS[number % len(MARKS)]
        beside = APART ** (number - (len(lines) - 1) / 2)
        points = sorted(line, key=lambda point: point[0])
        values = [point["coverage"] for _, point in points]
        below, above = ([min(2 * point["mc_error"], room(point)) for _, point in points] for room in (_below, _above))
        axes.errorbar(
            [size * beside for size, _ in points], values, yerr=[below, above], color=colour, marker=mark,
            linestyle=style, markersize=4.5, linewidth=1.2, elinewidth=0.8, label=name,
        )  # fmt: skip


def _below(point: Mapping[str, Any]) -> float:
    return float(point["coverage"])


def _above(point: Mapping[str, Any]) -> float:
    return 1.0 - float(point["coverage"])


def width_figure(document: Document, panels: Panels, what: str) -> Figure:
    """Draw the intervals' mean width against the size of production."""
    figure, drawn = _drawn(panels, _width_panel)
    for axes in drawn:
        axes.set_ylim(bottom=0.0)
        axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    figure.supylabel("mean width", fontsize=9, color=INK)
    headed(figure, f"Width of the intervals{_of(document)}{_hidden(panels)}", f"{what}.")
    return figure


def _width_panel(axes: Axes, lines: Lines) -> None:
    for number, (name, line) in enumerate(lines.items()):
        colour, mark, style = MARKS[number % len(MARKS)]
        points = sorted((size, point["mean_width"]) for size, point in line if point["mean_width"] is not None)
        axes.plot(
            [size for size, _ in points], [width for _, width in points], color=colour, marker=mark, linestyle=style,
            markersize=4.5, linewidth=1.2, label=name,
        )  # fmt: skip


def _drawn(panels: Panels, draw: Callable[[Axes, Lines], None]) -> tuple[Figure, list[Axes]]:
    """Draw the first panels on one logarithmic scale of sizes, with one legend for all."""
    shown = dict(list(panels.items())[:MAX_PANELS])
    figure, axes_of = _panel_grid(len(shown))
    sizes = sorted({size for lines in shown.values() for line in lines.values() for size, _ in line})
    for axes, (title, lines) in zip(axes_of, shown.items(), strict=True):
        draw(axes, lines)
        _sized(axes, sizes[:: max(1, len(sizes) // 4)], title)
        axes.set_xlim(sizes[0] / 1.3, sizes[-1] * 1.3)
    _labelled(figure, axes_of, "units of production", columns=4)
    return figure, axes_of


def _panel_grid(n: int) -> tuple[Figure, list[Axes]]:
    figure, axes_of = panel_grid(n, height=2.6)
    figure.set_size_inches(WIDTH, figure.get_figheight() + 0.5)
    return figure, axes_of


def _sized(axes: Axes, sizes: Sequence[float], title: str) -> None:
    """Give a panel its title and a logarithmic scale with these sizes."""
    axes.set_xscale("log")
    axes.set_xticks(sizes)
    axes.set_xticks([], minor=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_title(plain_label(title), fontsize=9, color=INK, loc="left")


def _labelled(figure: Figure, axes_of: Sequence[Axes], label: str, *, columns: int) -> None:
    """Name the sizes below the lowest panels, and the lines below all of them."""
    for axes in axes_of[-3:]:
        axes.set_xlabel(label, fontsize=8, color=INK)
    handles, labels = axes_of[0].get_legend_handles_labels()
    figure.legend(
        handles, labels, loc="outside lower center", ncols=min(len(labels), columns), fontsize=8, frameon=False
    )


def optimism_figure(document: Document) -> Figure:
    """Draw J of the composite against the size of the golden set: as it looks, as it is reported, as it is."""
    panels: dict[str, list[Mapping[str, Any]]] = {}
    for cell in document["result"]["cells"]:
        if cell["optimism"] is not None:
            size = cell["golden_cluster_size"]
            title = f"best J {cell['optimism']['best_j']:.2f}" + ("" if size == 1 else f", clusters of {size:.3g}")
            panels.setdefault(title, []).append(cell)
    shown = dict(list(panels.items())[:MAX_PANELS])
    figure, axes_of = _panel_grid(len(shown))
    series = (
        ("apparent_j", "apparent: on the traces that chose the thresholds", MARKS[1]),
        ("honest_j", "corrected: as calibrations report it", MARKS[0]),
        ("true_j", "true: at the deployed thresholds, on new traces", (INK, "X", ":")),
    )
    for axes, (title, cells) in zip(axes_of, shown.items(), strict=True):
        ordered = sorted(cells, key=lambda cell: cell["n_golden"])
        sizes = [cell["n_golden"] for cell in ordered]
        for field, label, (colour, mark, style) in series:
            values = [cell["optimism"][field] for cell in ordered]
            axes.plot(
                sizes, values, color=colour, marker=mark, linestyle=style, markersize=5, linewidth=1.2, label=label
            )
        _sized(axes, sorted(set(sizes)), title)
        axes.set_xlim(min(sizes) / 1.4, max(sizes) * 1.4)
        axes.margins(y=0.2)
    _labelled(figure, axes_of, "golden traces", columns=3)
    figure.supylabel("J of the composite", fontsize=9, color=INK)
    headed(
        figure,
        f"Optimism of J{_of(document)}{_hidden(panels)}",
        "Means over calibrations. The distance from true is what a calibration gets wrong on average.",
    )
    return figure


def _of(document: Document) -> str:
    certified = document["result"]["calibration"]
    return "" if certified is None else f" of {certified['instrument']}, calibration {certified['id'][:8]}"


def _hidden(panels: Mapping[str, Any]) -> str:
    return f" (the first {MAX_PANELS} of {len(panels)})" if len(panels) > MAX_PANELS else ""
