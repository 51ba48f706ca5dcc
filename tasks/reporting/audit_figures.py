"""Figures of an audit of predictions: gaps, intersections, reliability. Those of outputs stand in `outputs_figures`.

Colours are Okabe and Ito's; what is said by colour is also said by a mark, a hatch or a word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.inference.intervals import normal_quantile, wilson_limits
from core.records import Document
from tasks.reporting.audit_rows import RATES, parts_of
from tasks.reporting.figures import BLUE, GREY, INK, ORANGE, bare, headed, panel_grid, plain_label
from tasks.reporting.outputs_figures import outputs_figures

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_GROUPS = 24
"""Groups in one figure: the largest."""

MAX_CELLS = 14
"""Rows, and columns, of a heat map."""

MAX_PANELS = 9
EDGES = "#FFFFFF"

MAPPED = ("selection_rate", "false_positive_rate", "false_negative_rate", "accuracy")
"""Rates that a heat map shows, one a panel."""


def audit_figures(document: Document) -> dict[str, Figure]:
    """Draw an audit.

    Parameters
    ----------
    document : dict
        The record.

    Returns
    -------
    dict
        Figures by name. Of predictions: ``gaps-<column>``, ``intersections``, ``reliability-<column>``; of outputs see
        `outputs_figures`.
    """
    if document["result"]["kind"] == "outputs":
        return outputs_figures(document)
    result = document["result"]
    figures = {}
    for name, part in parts_of(result).items():
        if any(found["gaps"] for found in part["rates"].values()):
            figures[f"gaps-{_file_name(name)}"] = gap_figure(result, name, part)
    if result["intersections"] is not None:
        figures["intersections"] = intersection_figure(result)
    for name in sorted(result["attributes"]):
        if result["attributes"][name]["reliability"]:
            figures[f"reliability-{_file_name(name)}"] = reliability_figure(result, name)
    return figures


def _file_name(name: str) -> str:
    return "".join(character if character.isalnum() or character in "-_" else "_" for character in name)[:80]


def gap_figure(result: Mapping[str, Any], name: str, part: Mapping[str, Any]) -> Figure:
    """Draw each group's distance from the reference in every rate, with its interval."""
    from matplotlib.figure import Figure

    rates = [rate for rate in RATES if rate in part["rates"]]
    every = {gap["group"] for rate in rates for gap in part["rates"][rate]["gaps"]}
    groups = sorted(every, key=lambda group: (-part["groups"][group]["n"], group))[:MAX_GROUPS][::-1]
    figure = Figure(figsize=(max(2.1 * len(rates) + 1.9, 8.6), 1.75 + 0.3 * max(len(groups), 3)), layout="constrained")
    panels = list(figure.subplots(1, len(rates), sharey=True, squeeze=False).flat)
    for axes, rate in zip(panels, rates, strict=True):
        gaps = {gap["group"]: gap for gap in part["rates"][rate]["gaps"]}
        axes.axvline(0, color=GREY, linewidth=1)
        for y, group in enumerate(groups):
            _gap(axes, y, gaps.get(group))
        axes.set_title(RATES[rate], fontsize=9, color=INK, loc="left")
        axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:+.0f}" if value else "0")
        axes.locator_params(axis="x", nbins=4)
        axes.grid(axis="x", color="#E6E6E6", linewidth=0.6)
        axes.set_axisbelow(True)
        bare(axes)
    labels = [f"{group}  (n {part['groups'][group]['n']})" for group in groups]
    panels[0].set_yticks(range(len(groups)), [plain_label(label) for label in labels])
    panels[0].set_ylim(-0.6, max(len(groups), 3) - 0.4)
    figure.supxlabel("percentage points from the reference", fontsize=8, color=INK)
    references = {part["rates"][rate]["reference"] for rate in rates}
    reference = f"reference {references.pop()}" if len(references) == 1 else "each rate has a reference of its own"
    hidden = f", the {len(groups)} largest of {len(every)} groups" if len(every) > len(groups) else ""
    headed(
        figure,
        f"Gaps by {name}: {reference}{hidden}",
        f"Squares: higher or lower, p adjusted. Circles: no evidence of a difference. "
        f"Bars: {100 * result['confidence_level']:g}% intervals. Crosses: not evaluable.",
    )
    return figure


def _gap(axes: Axes, y: int, gap: Mapping[str, Any] | None) -> None:
    if gap is None:
        return
    if gap["status"] != "evaluated":
        axes.plot([0], [y], "x", color=GREY, markersize=5)
        return
    colour, mark, face = (ORANGE, "s", ORANGE) if gap["significant"] else (BLUE, "o", "white")
    if gap["difference_interval"] is not None:
        ends = [gap["difference_interval"]["low"], gap["difference_interval"]["high"]]
        axes.plot(ends, [y, y], color=colour, linewidth=1.6, solid_capstyle="butt")
    axes.plot([gap["difference"]], [y], mark, color=colour, markerfacecolor=face, markersize=5.5)


def intersection_figure(result: Mapping[str, Any]) -> Figure:
    """Draw the rates of all cells of all columns together; cells that cannot be evaluated are hatched."""
    from matplotlib.figure import Figure

    part = result["intersections"]
    first, *others = part["columns"]
    cells = {_place(group["values"], first, others): group for group in part["groups"].values()}
    rows, columns = (_largest(cells, side)[:MAX_CELLS] for side in (0, 1))
    rates = [rate for rate in MAPPED if rate in part["rates"]]
    wide = len(columns) > 4
    panels_across = 1 if wide and len(columns) > 8 else min(len(rates), 2)
    panels_down = -(-len(rates) // panels_across)
    width = panels_across * (1.5 + 0.72 * max(len(columns), 3)) + 0.6
    height = panels_down * (0.95 + 0.42 * max(len(rows), 2)) + 1.0
    figure = Figure(figsize=(max(width, 7.2), height), layout="constrained")
    panels = list(figure.subplots(panels_down, panels_across, squeeze=False).flat)
    for axes in panels[len(rates) :]:
        axes.set_visible(False)
    for axes, rate in zip(panels, rates, strict=False):
        _heat(axes, cells, rows, columns, rate)
        axes.set_title(RATES[rate], fontsize=9, color=INK, loc="left")
    headed(
        figure,
        f"Intersections: {first} by {' and '.join(others)}",
        "In each cell the rate and the rows. Hatched: under the minimum size or no such rate, so not evaluable. "
        "Empty: no rows.",
    )
    return figure


def _place(values: Mapping[str, str | None], first: str, others: Sequence[str]) -> tuple[str, str]:
    return _value(values[first]), " & ".join(_value(values[name]) for name in others)


def _value(label: str | None) -> str:
    return "(missing)" if label is None else label


def _largest(cells: Mapping[tuple[str, str], Mapping[str, Any]], side: int) -> list[str]:
    totals: dict[str, int] = {}
    for place, group in cells.items():
        totals[place[side]] = totals.get(place[side], 0) + group["n"]
    return sorted(totals, key=lambda name: (-totals[name], name))


def _heat(
    axes: Axes,
    cells: Mapping[tuple[str, str], Mapping[str, Any]],
    rows: Sequence[str],
    columns: Sequence[str],
    rate: str,
) -> None:
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    shades = colormaps["cividis_r"]
    for y, row in enumerate(rows):
        for x, column in enumerate(columns):
            group = cells.get((row, column))
            if group is None or not group["n"]:
                continue
            value = group["rates"][rate]["value"]
            usable = value is not None and not group["small"]
            face = shades(0.05 + 0.9 * value) if usable else (0.94, 0.94, 0.94)
            hatch = None if usable else "////"
            box = Rectangle((x, y), 1, 1, facecolor=face, edgecolor=EDGES if usable else GREY, hatch=hatch, linewidth=1)
            axes.add_patch(box)
            shown = "-" if value is None else f"{100 * value:.0f}%"
            ink = "white" if usable and _is_dark(face) else INK
            patch = None if usable else {"facecolor": "white", "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
            axes.text(x + 0.5, y + 0.5, f"{shown}\nn {group['n']}", ha="center", va="center", fontsize=7, color=ink,
                      bbox=patch, linespacing=1.1)  # fmt: skip
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.set_xticks([x + 0.5 for x in range(len(columns))], [plain_label(_short(name)) for name in columns])
    axes.set_yticks([y + 0.5 for y in range(len(rows))], [plain_label(_short(name)) for name in rows])
    axes.tick_params(labelsize=8, colors=INK, length=0)
    if len(columns) > 4:
        axes.tick_params(axis="x", labelrotation=30)
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)


def _is_dark(colour: Sequence[float]) -> bool:
    """Whether white letters stand out better on a colour than dark ones."""
    red, green, blue = (float(part**2.2) for part in colour[:3])
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.22


def _short(name: str, limit: int = 24) -> str:
    return name if len(name) <= limit else name[: limit - 1] + "…"


def reliability_figure(result: Mapping[str, Any], name: str) -> Figure:
    """Draw each group's observed rate against the mean score of its bins."""
    part = result["attributes"][name]
    groups = sorted(part["reliability"], key=lambda group: (-part["groups"][group]["n"], group))
    figure, panels = panel_grid(min(len(groups), MAX_PANELS), height=2.9)
    for axes, group in zip(panels, groups, strict=False):
        found = part["reliability"][group]
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.9, linestyle="--")
        _bins(axes, found["bins"], result["confidence_level"])
        axes.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal", xticks=(0, 0.5, 1), yticks=(0, 0.5, 1))
        axes.set_title(
            plain_label(f"{_short(group)} (n {part['groups'][group]['n']})"), fontsize=9, color=INK, loc="left"
        )
        axes.text(0.98, 0.03, _ece(found["ece"]), ha="right", va="bottom", fontsize=8, color=INK)
    outcome = {"positive": "the outcome is positive", "correct": "the prediction is correct"}
    meaning = outcome[part["reliability"][groups[0]]["score_means"]]
    figure.supxlabel("mean score of the bin", fontsize=9, color=INK)
    figure.supylabel(f"share where {meaning}", fontsize=9, color=INK)
    hidden = f": the {MAX_PANELS} largest of {len(groups)} groups" if len(groups) > MAX_PANELS else ""
    headed(
        figure,
        f"Reliability by {name}{hidden}",
        "Dashed: scores that are probabilities. Larger dots: more rows. "
        f"Bars: {100 * result['confidence_level']:g}% Wilson intervals, as if rows were independent.",
    )
    return figure


def _bins(axes: Axes, bins: Sequence[Mapping[str, Any]], confidence_level: float) -> None:
    filled = [item for item in bins if item["n"]]
    most = max((item["n"] for item in filled), default=1)
    z = normal_quantile(confidence_level)
    for item in filled:
        low, high = wilson_limits(item["observed_rate"], item["n"], z=z)
        axes.plot([item["mean_score"]] * 2, [low, high], color=BLUE, linewidth=1.2, alpha=0.6)
    scores, rates = ([item[field] for item in filled] for field in ("mean_score", "observed_rate"))
    axes.plot(scores, rates, color=BLUE, linewidth=0.8, alpha=0.5)
    axes.scatter(scores, rates, s=[12 + 40 * item["n"] / most for item in filled], color=BLUE, zorder=3)


def _ece(found: Mapping[str, Any]) -> str:
    if found["value"] is None:
        return "ECE not evaluable"
    interval = found["interval"]
    ends = "" if interval is None else f" [{interval['low']:.3f}, {interval['high']:.3f}]"
    return f"ECE {found['value']:.3f}{ends}"
