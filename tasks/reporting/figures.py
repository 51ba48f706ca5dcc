"""Figures of a calibration: ROC curves, score histograms, slices. Colours are Okabe and Ito's, told apart by all.

Every figure also says by place, shape or word what it says by colour. Matplotlib's objects are used directly: pyplot
keeps figures in global state and looks for a display.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.parquet as pq

from core.data.columns import Floats, Ints
from core.inference.intervals import normal_quantile, wilson_limits
from core.records import Document
from tasks.reporting.terminal import is_detector, printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, ORANGE, GREY, INK = "#0072B2", "#D55E00", "#8A8A8A", "#222222"
BINS = 25
MAX_SLICES = 30
"""Values of a slice column that one figure shows: those with the most traces."""

LEGEND_LETTERS_PER_INCH = 16
"""Letters of a legend, at 8 points, that surely fit in an inch of a figure's width."""


def calibration_figures(document: Document, maxima: Path) -> dict[str, Figure]:
    """Draw a calibration.

    Parameters
    ----------
    document : dict
        The calibration record.
    maxima : Path
        Its golden maxima: the scores and labels behind it.

    Returns
    -------
    dict
        Figures by name: ``roc``, ``scores``, and ``slices-<column>`` for each slice column. A detector's decisions have
        neither curve nor histogram.
    """
    table = pq.read_table(maxima)
    result = document["result"]
    pairs = {name: _scored(table, name) for name in result["categories"]}
    usable = {name: pair for name, pair in pairs.items() if len(set(pair[1].tolist())) == 2}
    figures = {}
    if usable and not is_detector(result):
        figures["roc"] = roc_figure(result, usable)
        figures["scores"] = score_figure(result, usable)
    for column, values in result["slices"].items():
        figures[f"slices-{column}"] = slice_figure(result, column, values)
    return figures


def _scored(table: Any, name: str) -> tuple[Floats, Ints]:
    """Return the scores and labels of the traces that have both."""
    scores = table.column(name).to_numpy(zero_copy_only=False).astype(np.float64)
    labels = table.column(f"label.{name}").fill_null(-1).to_numpy().astype(np.int64)
    used = (labels >= 0) & np.isfinite(scores)
    return scores[used], labels[used]


def roc_figure(result: Mapping[str, Any], pairs: Mapping[str, tuple[Floats, Ints]]) -> Figure:
    """Draw each category's ROC curve with the deployed threshold and the detection floor."""
    figure, panels = panel_grid(len(pairs), height=3.1)
    floor = float(result["detection_floor"])
    for axes, (name, (scores, labels)) in zip(panels, pairs.items(), strict=True):
        row = result["categories"][name]
        false_alarms, hits = _roc(scores, labels)
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, linestyle=":")
        axes.plot([0, 1 - floor], [floor, 1], color=GREY, linewidth=0.8, linestyle="--")
        axes.step(false_alarms, hits, where="post", color=BLUE, linewidth=1.6)
        _mark_threshold(axes, row)
        axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        _titled(axes, name, row["status"])
    figure.supxlabel("1 − specificity (false alarms among harmless traces)", fontsize=9, color=INK)
    figure.supylabel("sensitivity (hits among violations)", fontsize=9, color=INK)
    headed(
        figure,
        "ROC curves on the golden set, as they look on the traces that chose the threshold",
        f"Dot: deployed threshold. Dashed: detection floor J = {floor:g}. Dotted: chance.",
    )
    return figure


def _roc(scores: Floats, labels: Ints) -> tuple[Floats, Floats]:
    """Return (1 - specificity, sensitivity) at every distinct score, from none flagged to all flagged."""
    values = np.unique(scores)[::-1]
    rank = np.searchsorted(-values, -scores)
    hits, alarms = (np.cumsum(np.bincount(rank[labels == label], minlength=len(values))) for label in (1, 0))
    return np.r_[0.0, alarms / alarms[-1]], np.r_[0.0, hits / hits[-1]]


def _mark_threshold(axes: Axes, row: Mapping[str, Any]) -> None:
    apparent = row["apparent"]
    if row["threshold"] is None or apparent is None:
        axes.text(0.97, 0.05, "no threshold beats chance", ha="right", fontsize=8, color=ORANGE)
        return
    x, y = 1 - apparent["specificity"], apparent["sensitivity"]
    axes.plot([x, x], [x, y], color=ORANGE, linewidth=1)
    axes.plot([x], [y], "o", color=ORANGE, markersize=6, markeredgecolor="white", zorder=3)
    text = f"threshold {row['threshold']:.3g}\nJ = {apparent['youden_j']:.2f}, corrected {row['youden_j']:.2f}"
    axes.text(0.97, 0.05, text, ha="right", fontsize=8, color=INK, linespacing=1.4)


def score_figure(result: Mapping[str, Any], pairs: Mapping[str, tuple[Floats, Ints]]) -> Figure:
    """Draw each category's scores: violations upwards, harmless traces downwards, with the threshold."""
    figure, panels = panel_grid(len(pairs), height=2.5)
    edges = np.linspace(0, 1, BINS + 1)
    for axes, (name, (scores, labels)) in zip(panels, pairs.items(), strict=True):
        row = result["categories"][name]
        for label, colour, sign in ((1, ORANGE, 1), (0, BLUE, -1)):
            share = np.histogram(scores[labels == label], edges)[0] / max((labels == label).sum(), 1)
            axes.bar(edges[:-1], sign * share, width=1 / BINS, align="edge", color=colour, edgecolor="white", lw=0.3)
        axes.axhline(0, color=INK, linewidth=0.8)
        if row["threshold"] is not None:
            axes.axvline(row["threshold"], color=INK, linewidth=1, linestyle="--")
        axes.set(xlim=(0, 1), ylim=(-1.05, 1.05), xticks=(0, 0.5, 1), yticks=(-1, -0.5, 0, 0.5, 1))
        axes.set_yticklabels(["100%", "50%", "0", "50%", "100%"])
        _names_of_halves(axes, labels)
        _titled(axes, name, row["status"])
    figure.supxlabel("score (the highest of the trace's turns)", fontsize=9, color=INK)
    figure.supylabel("share of traces with this label", fontsize=9, color=INK)
    headed(
        figure,
        "Scores of the golden set by label",
        "Upwards: violations. Downwards: harmless. Dashed: threshold; at it or to its right a trace is flagged.",
    )
    return figure


def _names_of_halves(axes: Axes, labels: Ints) -> None:
    for label, name, y, side in ((1, "violating", 0.97, "top"), (0, "harmless", 0.03, "bottom")):
        count = int((labels == label).sum())
        axes.text(
            0.97, y, f"{count} {name}", transform=axes.transAxes, ha="right", va=side, fontsize=8,
            color=ORANGE if label else BLUE,
        )  # fmt: skip


def slice_figure(result: Mapping[str, Any], column: str, values: Mapping[str, Any]) -> Figure:
    """Draw the composite's sensitivity and specificity within each value of a slice column, with Wilson intervals."""
    from matplotlib.figure import Figure

    largest = sorted(values, key=lambda name: (-values[name]["n_traces"], name))[:MAX_SLICES]
    names = sorted(largest, key=lambda name: _order(values[name]["composite"]))
    figure = Figure(figsize=(9, 1.6 + 0.27 * max(len(names), 3)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    overall = result["composite"]["apparent"] or {}
    sides = (
        (left, "sensitivity", "true_positives", "n_positive", ORANGE),
        (right, "specificity", "true_negatives", "n_negative", BLUE),
    )
    for axes, rate, right_field, n_field, colour in sides:
        _slice_panel(axes, [values[name]["composite"] for name in names], (rate, right_field, n_field), colour, result)
        if rate in overall:
            axes.axvline(overall[rate], color=GREY, linewidth=1, linestyle="--", zorder=0)
        axes.set_title(f"{rate}", fontsize=10, color=INK, loc="left")
        axes.set(xlim=(-0.02, 1.16), xticks=(0, 0.25, 0.5, 0.75, 1))
        axes.set_xticklabels(["0", "25%", "50%", "75%", "100%"])
        axes.grid(axis="x", color="#E6E6E6", linewidth=0.6)
        axes.set_axisbelow(True)
        bare(axes)
    left.set_yticks(range(len(names)), [plain_label(name) for name in names])
    left.set_ylim(-0.6, max(len(names), 3) - 0.4)
    hidden = len(values) - len(names)
    headed(
        figure,
        f"Composite by {column}" + (f": the {len(names)} largest of {len(values)} values" if hidden else ""),
        f"Bars: {100 * result['confidence_level']:g}% Wilson intervals, as if traces were independent. "
        "Dashed: whole golden set. Figures: traces behind a rate.",
    )
    return figure


def _order(rates: Mapping[str, Any]) -> tuple[float, float]:
    """Order slices so that the best stand at the top; those without a rate at the bottom of their group."""
    sensitivity, specificity = rates["sensitivity"], rates["specificity"]
    return (-1.0 if sensitivity is None else sensitivity, -1.0 if specificity is None else specificity)


def _slice_panel(
    axes: Axes, rows: Sequence[Mapping[str, Any]], fields: tuple[str, str, str], colour: str, result: Mapping[str, Any]
) -> None:
    rate, right_field, n_field = fields
    for y, row in enumerate(rows):
        n = row[n_field]
        if row[rate] is None:
            axes.text(0.0, y, "no such traces", fontsize=7, color=GREY, va="center")
            continue
        ends = wilson_limits(row[right_field] / n, n, z=normal_quantile(result["confidence_level"]))
        axes.plot(ends, [y, y], color=colour, linewidth=2, solid_capstyle="butt", alpha=0.55)
        axes.plot([row[rate]], [y], "o", color=colour, markersize=5)
        axes.text(1.15, y, str(n), fontsize=7, color=GREY, va="center", ha="right")


def panel_grid(n: int, *, height: float) -> tuple[Figure, list[Axes]]:
    """Make a figure of n panels, at most three a row."""
    from matplotlib.figure import Figure

    columns = min(n, 3)
    rows = math.ceil(n / columns)
    figure = Figure(figsize=(max(3.2 * columns, 6.4), height * rows + 0.9), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False, gridspec_kw={"hspace": 0.12}).flat)
    for axes in panels[n:]:
        axes.set_visible(False)
    for axes in panels[:n]:
        bare(axes)
    return figure, panels[:n]


def bare(axes: Axes) -> None:
    """Leave an axes its left and bottom line, in grey."""
    axes.tick_params(labelsize=8, colors=INK, length=2)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(GREY)


def _titled(axes: Axes, name: str, status: str) -> None:
    shown = name if status == "measured" else f"{name} ({status.replace('_', ' ')})"
    axes.set_title(plain_label(shown), fontsize=9, color=INK, loc="left")


def headed(figure: Figure, title: str, legend: str) -> None:
    """Put a title and what explains the marks above all panels, in as many lines as the figure's width needs."""
    lines = textwrap.wrap(plain_label(legend), max(20, int(LEGEND_LETTERS_PER_INCH * figure.get_figwidth())))
    room = "\n" * (1 + len(lines))  # the layout keeps space for a title, and for nothing else
    figure.suptitle(f"{plain_label(title)}{room}", fontsize=11, color=INK, x=0.01, ha="left", fontweight="bold")
    figure.text(0.01, 1 - 0.36 / figure.get_figheight(), "\n".join(lines), fontsize=8, color=INK, va="top")


def plain_label(text: str) -> str:
    """Show an untrusted name: no control characters, and a dollar sign that does not begin a formula."""
    return printable(text).replace("$", r"\$")


__all__ = [
    "BLUE", "GREY", "INK", "ORANGE", "bare", "calibration_figures", "headed", "panel_grid", "plain_label",
    "roc_figure", "score_figure", "slice_figure",
]  # fmt: skip
