"""Figures of a comparison and of a series: what changed, how surely, and where figures stop being comparable."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.records import Document
from tasks.reporting.comparison import VERDICTS, names_of, p_of, points, quantities, release_name, span
from tasks.reporting.figures import BLUE, GREY, INK, ORANGE, bare, headed, panel_grid, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MARKS = {"increase": (ORANGE, "^"), "decrease": (BLUE, "v"), "no_evidence_of_change": (INK, "o")}
"""Colour and shape of each verdict; its words stand beside it."""

SEGMENTS = ((BLUE, "o"), (ORANGE, "s"), ("#009E73", "D"), ("#CC79A7", "P"), (INK, "X"))
"""Colour and shape of the releases that were measured with one instrument."""

MAX_ROWS = 40
MAX_PANELS = 9
NAME_LENGTH = 22


def comparison_figures(document: Document) -> dict[str, Figure]:
    """Draw a comparison or a series.

    Parameters
    ----------
    document : dict
        The record.

    Returns
    -------
    dict
        ``differences`` of a comparison, ``series`` of a series.
    """
    if document["schema"].startswith("assay.series/"):
        return {"series": series_figure(document)}
    return {"differences": difference_figure(document)}


def difference_figure(document: Document) -> Figure:
    """Draw the difference of each quantity with its interval, the composite first."""
    from matplotlib.figure import Figure

    result = document["result"]
    rows = list(quantities(result).items())
    shown = rows[:MAX_ROWS]
    figure = Figure(figsize=(9.6, 1.5 + 0.42 * len(shown)), layout="constrained")
    axes, words = figure.subplots(1, 2, gridspec_kw={"width_ratios": [3, 2.4]})
    bare(axes)
    axes.axvline(0.0, color=GREY, linewidth=1)
    for y, (name, row) in enumerate(shown):
        _difference(axes, words, y, name, row)
    axes.set_yticks(range(len(shown)), [plain_label(name[:40]) for name, _ in shown], fontsize=9)
    axes.get_yticklabels()[0].set_fontweight("bold")
    for side in (axes, words):
        side.set_ylim(len(shown) - 0.4, -0.6)
    words.set_axis_off()
    words.set_xlim(0, 1)
    axes.set_xlabel("candidate minus baseline, percentage points of the corrected rate", fontsize=8, color=INK)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
    axes.margins(x=0.08)
    hidden = f" (the first {MAX_ROWS} of {len(rows)})" if len(rows) > MAX_ROWS else ""
    one, other = names_of(result)
    how = "paired" if result["paired"] else "not paired"
    across = "" if result["same_calibration"] else "; DIFFERENT INSTRUMENTS"
    headed(
        figure,
        f"From {one[:40]} to {other[:40]}{hidden}",
        f"Bars: {100 * result['confidence_level']:g}% intervals, {how}{across}. Triangle up: increase; down: decrease; "
        "dot: no evidence of change (Holm).",
    )
    return figure


def _difference(axes: Axes, words: Axes, y: int, name: str, row: Mapping[str, Any]) -> None:
    weight = "bold" if name == "composite" else "normal"
    if row["difference"] is None:
        words.text(0, y, VERDICTS[row["verdict"]], fontsize=8, color=GREY, va="center")
        return
    colour, mark = MARKS[row["verdict"]]
    ends = [100 * row["interval"]["low"], 100 * row["interval"]["high"]]
    axes.plot(ends, [y, y], color=colour, linewidth=2, solid_capstyle="butt", alpha=0.6)
    axes.plot([100 * row["difference"]], [y], mark, color=colour, markersize=7)
    fragile = ", fragile" if row["delta_j_guard"]["fragile"] else ""
    told = (
        f"{points(row['difference'])} {span(row['interval'])}  p {p_of(row['p_adjusted'])}  {VERDICTS[row['verdict']]}"
    )
    words.text(0, y, told + fragile, fontsize=8, color=INK, va="center", fontweight=weight)


def series_figure(document: Document) -> Figure:
    """Draw each quantity over the releases: one line a stretch of one instrument, none across a break."""
    series = document["result"]["points"]
    names = ["composite", *dict.fromkeys(name for point in series for name in point["categories"])]
    shown = names[:MAX_PANELS]
    figure, panels = panel_grid(len(shown), height=2.5)
    figure.set_size_inches(max(figure.get_figwidth(), 9.6), figure.get_figheight() + 0.9)
    for axes, name in zip(panels, shown, strict=True):
        _quantity(axes, name, series)
    figure.supylabel("corrected rate", fontsize=9, color=INK)
    hidden = f" (the first {MAX_PANELS} of {len(names)})" if len(names) > MAX_PANELS else ""
    headed(
        figure,
        f"{len(series)} releases{hidden}",
        "Bars: intervals. Dashed: another instrument, no comparison across. Triangle: change since the release before "
        "(Holm). x: no corrected rate.",
    )
    return figure


def _quantity(axes: Axes, name: str, series: Sequence[Mapping[str, Any]]) -> None:
    for segment in dict.fromkeys(point["segment"] for point in series):
        colour, mark = SEGMENTS[segment % len(SEGMENTS)]
        line = [(i, _rate(point, name)) for i, point in enumerate(series) if point["segment"] == segment]
        rated = [(i, rate) for i, rate in line if rate is not None]
        if rated:
            below = [100 * (rate["value"] - rate["interval"]["low"]) for _, rate in rated]
            above = [100 * (rate["interval"]["high"] - rate["value"]) for _, rate in rated]
            axes.errorbar(
                [i for i, _ in rated], [100 * rate["value"] for _, rate in rated],
                yerr=[[max(0.0, end) for end in ends] for ends in (below, above)],
                color=colour, marker=mark, markersize=5, linewidth=1.2, elinewidth=1, linestyle="-",
            )  # fmt: skip
        for i, rate in line:
            if rate is None:
                axes.plot([i], [0.03], "x", color=GREY, markersize=6, transform=axes.get_xaxis_transform())
    for i, point in enumerate(series):
        _step(axes, i, point, name)
    labels = [plain_label(_short(release_name(point))) for point in series]
    axes.set_xticks(range(len(series)), labels, rotation=30, ha="right", fontsize=7)
    axes.set_xlim(-0.5, len(series) - 0.5)
    axes.set_ylim(bottom=0)
    axes.margins(y=0.2)
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}%")
    axes.set_title(
        plain_label(name), fontsize=9, color=INK, loc="left", fontweight="bold" if name == "composite" else None
    )


def _rate(point: Mapping[str, Any], name: str) -> Mapping[str, Any] | None:
    """Return a release's rate with its interval; None where it has none."""
    rate = point["composite"] if name == "composite" else point["categories"].get(name)
    return None if rate is None or rate["value"] is None or rate["interval"] is None else rate


def _step(axes: Axes, i: int, point: Mapping[str, Any], name: str) -> None:
    """Mark a break before a release, or that the quantity changed."""
    if point["break_before"] is not None:
        axes.axvline(i - 0.5, color=INK, linewidth=1, linestyle="--")
        if name == "composite":
            told = plain_label(str(point["break_before"]).partition(":")[0])
            axes.text(
                i - 0.5, 0.98, told, fontsize=7, color=INK, va="top", ha="center", rotation=90,
                transform=axes.get_xaxis_transform(), bbox={"facecolor": "white", "edgecolor": "none", "pad": 1},
            )  # fmt: skip
        return
    change = point["change"]
    row = None if change is None else quantities(change).get(name)
    rate = _rate(point, name)
    if row is None or rate is None or row["verdict"] not in ("increase", "decrease"):
        return
    colour, mark = MARKS[row["verdict"]]
    axes.annotate(
        "▲" if mark == "^" else "▼", (i, 100 * rate["interval"]["high"]), xytext=(0, 3), textcoords="offset points",
        ha="center", fontsize=8, color=colour,
    )  # fmt: skip


def _short(name: str) -> str:
    return name if len(name) <= NAME_LENGTH else name[: NAME_LENGTH - 1] + "…"
