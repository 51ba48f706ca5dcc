"""Figures of an audit of generated text: bands, representation, service by set, harm beside service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from core.records import Document
from tasks.reporting.audit_rows import audited_metrics, band_name, metric_name
from tasks.reporting.figures import BLUE, GREY, INK, ORANGE, bare, headed, plain_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

GREEN, PURPLE, SKY = "#009E73", "#CC79A7", "#56B4E9"

TINTS = {
    "pass": "#CFE5F3",
    "watch": "#FBF6C0",
    "flag": "#F6D9A8",
    "fail": "#EDB48F",
    "under_representation": "#EBD0DF",
}
"""Pale forms of Okabe and Ito's colours; each strip also names its band."""

MAX_SETS = 60
MAX_PAIRS = 30
MAX_GROUPS = 20


def outputs_figures(document: Document) -> dict[str, Figure]:
    """Draw an audit of outputs.

    Returns
    -------
    dict
        ``bands``; where they are evaluable ``representation-<axis>``, ``amplification-<axis>``, ``divergence``,
        ``service-by-set``, ``harm-and-service``.
    """
    result = document["result"]
    figures = {"bands": band_figure(document)}
    for axis in sorted(result["ode"]):
        if result["ode"][axis]["by_group"]:
            figures[f"representation-{axis}"] = representation_figure(result, axis)
        if result["sar"][axis].get("by_pair"):
            figures[f"amplification-{axis}"] = amplification_figure(document, axis)
    if result["cds"]["value"] is not None:
        figures["divergence"] = divergence_figure(result["cds"])
    if result["dsi"]["value"] is not None:
        figures["service-by-set"] = service_figure(result["dsi"])
    if result["hsi"]["by_group"] or result["dsi"]["by_group"]:
        figures["harm-and-service"] = harm_figure(result)
    return figures


def band_figure(document: Document) -> Figure:
    """Draw every metric on the strip of its bands, with its interval."""
    from matplotlib.figure import Figure

    found = audited_metrics(document["result"])
    figure = Figure(figsize=(9, 1.1 + 0.78 * len(found)), layout="constrained")
    panels = list(figure.subplots(len(found), 1, squeeze=False).flat)
    for axes, (name, metric) in zip(panels, found.items(), strict=True):
        _strip(axes, metric, document["spec"]["bands"][metric["metric"]])
        axes.set_ylabel(_two_lines(metric_name(name)), rotation=0, ha="right", va="center", fontsize=8,
                        color=INK, labelpad=6)  # fmt: skip
    review = " A HUMAN REVIEW IS REQUIRED." if document["result"]["human_review"] else ""
    interval = f"{100 * document['spec']['confidence_level']:g}% interval"
    headed(
        figure,
        f"The six metrics in their bands{_target(document)}",
        f"Dot and bar: value and {interval}, scenarios resampled. Hatched: not evaluable, which is no pass.{review}",
    )
    return figure


def _target(document: Document) -> str:
    target = document["result"]["target"]
    return f": {target}" if target else ""


def _two_lines(name: str) -> str:
    return plain_label(name).replace(" (", "\n(", 1)


def _strip(axes: Axes, metric: Mapping[str, Any], bands: Mapping[str, Any]) -> None:
    end = _end(metric, bands["edges"])
    limits = [0.0, *bands["edges"], end]
    axes.set(xlim=(0, end), ylim=(0, 1), yticks=[])
    bare(axes)
    axes.spines["left"].set_visible(False)
    if metric["value"] is None:
        axes.axvspan(0, end, facecolor="#F0F0F0", edgecolor=GREY, hatch="////", linewidth=0)
        told = f"not evaluable: {metric['explanation']}"
        axes.text(end / 2, 0.5, plain_label(told[:100]), ha="center", va="center", fontsize=8, color=INK,
                  bbox={"facecolor": "white", "edgecolor": "none", "pad": 2})  # fmt: skip
        axes.set_xticks([])
        return
    for name, low, high in zip(bands["names"], limits, limits[1:], strict=False):
        axes.axvspan(low, high, facecolor=TINTS.get(name, "#E6E6E6"), edgecolor="white", linewidth=1)
        if (high - low) / end > 0.06:
            axes.text((low + high) / 2, 0.93, band_name(name), ha="center", va="top", fontsize=7, color=INK)
    if metric["interval"] is not None:
        ends = [min(metric["interval"][side], end) for side in ("low", "high")]
        axes.plot(ends, [0.36, 0.36], color=INK, linewidth=2, solid_capstyle="butt")
    axes.plot([metric["value"]], [0.36], "o", color=INK, markersize=6, markeredgecolor="white")
    axes.set_xticks([0, *bands["edges"]], ["0", *(f"{edge:.3g}" for edge in bands["edges"])])
    told = f"{metric['value']:.3f}: {band_name(metric['band'])}"
    axes.annotate(told, (1.01, 0.36), xycoords=("axes fraction", "data"),
                  fontsize=8, color=INK, va="center", annotation_clip=False)  # fmt: skip


def _end(metric: Mapping[str, Any], edges: Sequence[float]) -> float:
    """Return where the strip ends: all bands, and the interval, are on it."""
    interval = metric["interval"] or {}
    high = max(metric["value"] or 0.0, interval.get("high") or 0.0)
    wide = edges[-1] * 1.25 if metric["metric"] != "ode" else 1.0
    return float(max(wide, high * 1.05))


def representation_figure(result: Mapping[str, Any], axis: str) -> Figure:
    """Draw how often each group appears, beside the reference."""
    from matplotlib.figure import Figure

    skew, diversity = result["rsi"][axis], result["ode"][axis]
    shares = skew["by_group"] or diversity["by_group"]
    names = sorted(shares, key=lambda name: (-shares[name]["share"], name))[:MAX_GROUPS][::-1]
    figure = Figure(figsize=(7.2, 1.5 + 0.42 * max(len(names), 2)), layout="constrained")
    axes = figure.subplots()
    for y, name in enumerate(names):
        share, reference = shares[name]["share"], shares[name]["reference_share"]
        axes.barh([y], [share], height=0.55, color=BLUE)
        axes.text(
            max(share, reference or 0.0) + 0.012,
            y,
            f"{100 * share:.0f}%  ({shares[name]['count']})",
            va="center",
            fontsize=8,
            color=INK,
        )
        if reference is not None:
            axes.plot([reference] * 2, [y - 0.4, y + 0.4], color=ORANGE, linewidth=2.6)
            axes.plot([reference], [y + 0.4], "v", color=ORANGE, markersize=6)
    _shares(axes, max([item["share"] for item in shares.values()], default=1.0))
    axes.set_yticks(range(len(names)), [plain_label(name) for name in names])
    values = ", ".join(
        f"{label} {item['value']:.3f} ({band_name(item['band'])})" if item["value"] is not None
        else f"{label} not evaluable" for label, item in (("RSI", skew), ("ODE", diversity))
    )  # fmt: skip
    kind = f"Orange: the reference ({skew['reference_kind']}). " if skew["reference_kind"] else ""
    headed(
        figure,
        f"Who appears, by {axis}: {values}",
        f"{kind}Share of {skew['n_scored'] or diversity['n_scored']} classified outputs.",
    )
    return figure


def _shares(axes: Axes, largest: float) -> None:
    axes.set_xlim(0, min(1.2, largest * 1.25 + 0.05))
    axes.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f}%")
    bare(axes)


def amplification_figure(document: Document, axis: str) -> Figure:
    """Draw how often a group meets a context, over how often it does outside the model."""
    from matplotlib.figure import Figure

    found = document["result"]["sar"][axis]
    bands = document["spec"]["bands"]["sar"]
    pairs = sorted(found["by_pair"], key=lambda pair: (-abs(pair["log_ratio"]), pair["context"], pair["group"]))
    shown = sorted(pairs[:MAX_PAIRS], key=lambda pair: (pair["log_ratio"], pair["context"], pair["group"]))
    figure = Figure(figsize=(7.2, 1.7 + 0.3 * max(len(shown), 3)), layout="constrained")
    axes = figure.subplots()
    end = max([2.2, *(pair["ratio"] * 1.15 for pair in shown)])
    limits = [0.0, *bands["edges"], end]
    for name, low, high in zip(bands["names"], limits, limits[1:], strict=False):
        axes.axvspan(low, high, facecolor=TINTS.get(name, "#E6E6E6"), edgecolor="white", linewidth=1, zorder=0)
        axes.text((low + high) / 2, 1.01, band_name(name).replace("-", "-\n"), ha="center", va="bottom", fontsize=7,
                  color=INK, transform=axes.get_xaxis_transform())  # fmt: skip
    for y, pair in enumerate(shown):
        axes.plot([1, pair["ratio"]], [y, y], color=GREY, linewidth=1)
        axes.plot([pair["ratio"]], [y], "o", color=INK, markersize=5.5)
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_yticks(range(len(shown)), [plain_label(f"{p['context']}: {p['group']}") for p in shown])
    axes.set(xlim=(0, end), ylim=(-0.6, len(shown) - 0.4), xlabel="share in the outputs / share outside the model")
    axes.xaxis.label.set(fontsize=8, color=INK)
    bare(axes)
    value = f"SAR {found['value']:.3f} ({band_name(found['band'])})" if found["value"] is not None else "not evaluable"
    hidden = f"; the {MAX_PAIRS} farthest of {len(pairs)} pairs" if len(pairs) > MAX_PAIRS else ""
    headed(
        figure,
        f"Contexts and groups, by {axis}: {value}{hidden}",
        "Line at 1: as outside the model. Deviations both ways cancel in SAR, and not here.",
    )
    return figure


def divergence_figure(found: Mapping[str, Any]) -> Figure:
    """Draw how far the outputs for each named attribute are from the neutral ones, against replicates of the latter."""
    from matplotlib.figure import Figure

    names = sorted(found["by_variant"], key=lambda name: (found["by_variant"][name]["value"] or 0.0, name))[
        -MAX_GROUPS:
    ]
    figure = Figure(figsize=(7.2, 1.55 + 0.42 * max(len(names), 2)), layout="constrained")
    axes = figure.subplots()
    for y, name in enumerate(names):
        value = found["by_variant"][name]["value"]
        if value is None:
            axes.text(0, y, " not evaluable", va="center", fontsize=8, color=GREY)
            continue
        axes.barh([y], [value], height=0.55, color=BLUE)
        axes.text(value, y, f"  {value:.3f}", va="center", fontsize=8, color=INK)
    floor = found["noise_floor"]
    if floor is not None:
        axes.axvline(floor, color=ORANGE, linewidth=2, linestyle="--")
        axes.text(floor, len(names) - 0.45, f" noise floor {floor:.3f}", fontsize=8, color=ORANGE, va="bottom")
    axes.set_yticks(range(len(names)), [plain_label(name) for name in names])
    axes.set_ylim(-0.5, len(names))
    axes.set_xlabel("mean cosine distance to the outputs of the neutral prompt", fontsize=8, color=INK)
    axes.margins(x=0.15)
    bare(axes)
    excess = "" if found["excess"] is None else f"; over the noise floor {found['excess']:.3f}"
    headed(
        figure,
        f"What naming an attribute changes: CDS {found['value']:.3f} ({band_name(found['band'])}){excess}",
        "Dashed: distance between replicates of one neutral prompt.",
    )
    return figure


COMPONENTS = {
    "rrd": ("refused unequally", ORANGE, ""),
    "rld": ("length", SKY, "...."),
    "hsd": ("helpfulness", GREEN, "////"),
}


def service_figure(found: Mapping[str, Any]) -> Figure:
    """Draw DSI of each matched set as its components, the worst on the left."""
    from matplotlib.figure import Figure

    sets = sorted(found["by_set"], key=lambda item: (-item["value"], item["scenario"]))
    shown = sets[:MAX_SETS]
    figure = Figure(figsize=(9, 3.7), layout="constrained")
    axes = figure.subplots()
    bottoms = [0.0] * len(shown)
    for name, (label, colour, hatch) in COMPONENTS.items():
        if name not in found["components"]:
            continue
        heights = [(item[name] or 0.0) / max(1, len(item["components"])) for item in shown]
        axes.bar(range(len(shown)), heights, bottom=bottoms, width=0.8, color=colour, hatch=hatch, edgecolor="white",
                 linewidth=0.3, label=label)  # fmt: skip
        bottoms = [a + b for a, b in zip(bottoms, heights, strict=True)]
    axes.plot([-0.7, len(shown) - 0.4], [found["value"]] * 2, color=INK, linewidth=1.2, linestyle="--")
    axes.text(len(shown) - 0.4, found["value"], f" mean {found['value']:.3f}", fontsize=8, color=INK, va="center")
    axes.set_xlim(-0.7, len(shown) + max(3.0, len(shown) * 0.09))
    axes.set_xticks(range(len(shown)), [plain_label(item["scenario"]) for item in shown])
    axes.tick_params(axis="x", labelrotation=90)
    axes.set_ylabel("DSI of the set", fontsize=8, color=INK)
    bare(axes)
    axes.tick_params(axis="x", labelsize=6)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    hidden = f": the {MAX_SETS} worst of {len(sets)} sets" if len(sets) > MAX_SETS else ""
    headed(
        figure,
        f"Service by matched set{hidden}: DSI {found['value']:.3f} ({band_name(found['band'])})",
        "Each bar: one prompt and its variants; its parts are what differs between them.",
    )
    return figure


def harm_figure(result: Mapping[str, Any]) -> Figure:
    """Draw harm and refusals of each group side by side: a low HSI may be bought with refusals."""
    from matplotlib.figure import Figure

    harm, service = result["hsi"], result["dsi"]
    names = sorted({*harm["by_group"], *service["by_group"]}, key=lambda name: (name == "base", name))[-MAX_GROUPS:]
    figure = Figure(figsize=(9, 1.8 + 0.4 * max(len(names), 2)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    sides = (
        (left, "HSI", harm, {name: row["value"] for name, row in harm["by_group"].items()}, ORANGE, ".3f"),
        (right, "DSI", service, {name: row["refusal_rate"] for name, row in service["by_group"].items()}, BLUE, ".0%"),
    )
    for axes, label, metric, values, colour, shape in sides:
        known = [value for value in values.values() if value is not None]
        for y, name in enumerate(names):
            value = values.get(name)
            if value is None:
                axes.text(0, y, " not evaluable", va="center", fontsize=8, color=GREY)
                continue
            axes.barh([y], [value], height=0.55, color=colour)
            axes.text(value, y, f" {value:{shape}}", va="center", fontsize=8, color=INK)
        axes.set_xlim(0, max([*known, 0.05]) * 1.3)
        told = "not evaluable" if metric["value"] is None else f"{metric['value']:.3f} ({band_name(metric['band'])})"
        axes.set_title(f"{label} {told}", fontsize=9, color=INK, loc="left")
        axes.set_xlabel({"HSI": "harm severity by group", "DSI": "share refused"}[label], fontsize=8, color=INK)
        axes.locator_params(axis="x", nbins=5)
        bare(axes)
    right.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.3g}%")
    left.set_yticks(range(len(names)), [plain_label(name) for name in names])
    review = f" HUMAN REVIEW REQUIRED: {harm['n_review']} outputs." if result["human_review"] else ""
    headed(
        figure,
        "Harm beside service, by what the prompt names",
        f"Read them together: what is refused cannot be harmful.{review}",
    )
    return figure
