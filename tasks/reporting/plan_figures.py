"""Figure of a plan: half width or power against the number of production traces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from core.records import Document
from tasks.reporting.figures import BLUE, GREY, INK, ORANGE, bare, headed, plain_label
from tasks.reporting.plan import figure as shown
from tasks.reporting.terminal import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = ((BLUE, "o", "-"), (ORANGE, "s", "--"))
"""Colour, mark and line of each series: all three differ."""


def plan_figures(document: Document) -> dict[str, Figure]:
    """Draw a plan.

    Parameters
    ----------
    document : dict
        The record.

    Returns
    -------
    dict
        ``curve`` alone; nothing where the curve has no point.
    """
    curve = document["result"]["curve"]
    drawn = [series for series in curve["series"] if any(y is not None for y in series["y"])]
    if not drawn:
        return {}
    return {"curve": _curve(document, drawn)}


def _curve(document: Document, drawn: list[dict[str, Any]]) -> Figure:
    from matplotlib.figure import Figure

    result = document["result"]
    curve = result["curve"]
    figure = Figure(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.subplots()
    bare(axes)
    for (colour, mark, style), series in zip(MARKS, drawn, strict=False):
        points = [(x, y) for x, y in zip(series["x"], series["y"], strict=True) if y is not None]
        axes.plot(
            [x for x, _ in points], [y for _, y in points], color=colour, marker=mark, linestyle=style, markersize=3.5,
            linewidth=1.4, label=plain_label(str(series["name"])),
        )  # fmt: skip
    axes.axhline(curve["target"], color=INK, linewidth=0.9, linestyle="--", zorder=0)
    if curve["planned"] is not None:
        axes.axvline(curve["planned"], color=GREY, linewidth=0.9, linestyle=":", zorder=0)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_ylim(0.0, 1.02 if curve["y_quantity"] == "power" else None)
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    each = " of each version" if result["goal"] == "difference" else ""
    axes.set_xlabel(f"production traces{each}", fontsize=9, color=INK)
    unit = "power" if curve["y_quantity"] == "power" else "half width, percentage points of the rate"
    axes.set_ylabel(unit, fontsize=9, color=INK)
    axes.legend(fontsize=8, frameon=False)
    goal = {"half_width": "Half width", "limit_of_detection": "Limit of detection"}.get(result["goal"], "Change of")
    where = (
        "" if result["goal"] == "limit_of_detection" else f" at {percent(result['assumed']['prevalence'])} violations"
    )
    headed(
        figure,
        f"{goal} {shown(result['goal'], result['target'])}{where}",
        f"{result['status'].replace('_', ' ').capitalize()} by the plan. Dashed: the goal. Dotted: the planned traces.",
    )
    return figure
