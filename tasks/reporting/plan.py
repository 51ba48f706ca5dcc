"""What the terminal shows of a plan: whether the goal is reached, with which sizes, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.data.problems import counted
from tasks.reporting.terminal import percent, words

Row = dict[str, str]

WORDS = {
    "n_production": "production traces",
    "n_positive": "violating golden traces",
    "n_negative": "clean golden traces",
}

SHARES = {"n_production": "production", "n_positive": "positives", "n_negative": "negatives"}

STYLE = {"reached": "bold green", "not_reached": "bold yellow", "unreachable": "bold yellow"}


def figure(goal: str, value: float | None) -> str:
    """Show a half width, a limit of detection or a difference; a distance between rates is in percentage points.

    Examples
    --------
    >>> figure("half_width", 0.02), figure("limit_of_detection", 0.05), figure("difference", -0.03)
    ('±2 points', '5%', '-3 points')
    """
    if value is None:
        return "none"
    number = f"{100 * value:.3g}"
    return {"half_width": f"±{number} points", "limit_of_detection": f"{number}%"}.get(
        goal, f"{100 * value:+.3g} points"
    )


def title_of(result: Mapping[str, Any]) -> str:
    """Say what is wanted."""
    goal, assumed, level = result["goal"], result["assumed"], f"{100 * result['confidence_level']:g}%"
    shown = figure(goal, result["target"])
    if goal == "half_width":
        return f"goal: a {level} interval of {shown} where {percent(assumed['prevalence'])} violate"
    found = f"found with a power of {100 * result['power']:.4g}% at {level}"
    if goal == "limit_of_detection":
        return f"goal: a rate of violations of {shown} {found}"
    change = f"goal: a change of {shown} from {percent(assumed['prevalence'])}"
    if result["difference"] is None:  # nothing was found, so that pairs were not thought of
        return f"{change}, {found}"
    versions = "the same traces" if result["difference"]["paired"] else "different traces"
    return f"{change}, {versions} for both versions, {found}"


def judge_of(result: Mapping[str, Any]) -> str:
    """Say whose judge it is, and how good it is taken to be."""
    assumed, judge = result["assumed"], result["judge"]
    rates = (
        f"sensitivity {assumed['sensitivity']:.3f}, specificity {assumed['specificity']:.3f}, J "
        f"{assumed['youden_j']:.3f}; it flags {percent(assumed['flag_rate'])}"
    )
    if judge["source"] == "assumed":
        return f"assumed judge: {rates}"
    return (
        f"judge {judge['judge']}, {judge['quantity']} of {judge['instrument']} (calibration "
        f"{judge['calibration'][:12]}, {judge['status']}): {rates}"
    )


def verdict_of(result: Mapping[str, Any]) -> str:
    """Say in a sentence whether the goal is reached."""
    if result["status"] != "reached":
        return f"{result['status'].replace('_', ' ').capitalize()}: {result['reason']}."
    sizes = result["sizes"]
    if result["goal"] == "difference":
        kind = "pairs of traces" if result["difference"]["paired"] else "traces of each version"
        return f"Reached with {_number(sizes['n_production'])} {kind}."
    named = [f"{_number(sizes[name])} {WORDS[name]}" for name in WORDS]
    return f"Reached with {named[0]}, {named[1]} and {named[2]}."


def _number(n: int) -> str:
    return f"{n:,}"


def size_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return the design, size by size; where there is none, what was given."""
    sizes, given = result["sizes"], result["given"]
    rows = []
    for name, what in WORDS.items():
        size = given[name] if sizes is None else sizes[name]
        how = "given" if given[name] is not None else "found" if size else "-"
        row = {"what": what, "size": _number(size) if size else "-", "how": how}
        if result["variance"] is not None:
            row["share of variance"] = percent(result["variance"][SHARES[name]], 0)
        rows.append(row)
    return rows


def limits_of(result: Mapping[str, Any]) -> Iterator[str]:
    """Say what the design reaches, and what limits it."""
    goal = result["goal"]
    if goal == "difference":
        yield from _difference(result)
        return
    what = "half width" if goal == "half_width" else "limit of detection"
    if result["achieved"] is not None:
        power = "" if result["achieved_power"] is None else f", power {percent(result['achieved_power'])} at the goal"
        yield f"This design: {what} {figure(goal, result['achieved'])}{power}."
    if result["limit"] is not None and result["sizes"] is not None:
        told = "more production helps" if result["production_helps"] else "more production no longer helps"
        yield f"With this golden set and unlimited production: {figure(goal, result['limit'])}; {told}."
    if result["grow"] is not None:
        yield f"The golden class to grow first: {WORDS[result['grow']]}."
    if result["known_judge"] is not None:
        yield (
            f"If the judge's error rates were known exactly, {_number(result['known_judge'])} production traces would "
            "do: the rest is the price of calibrating."
        )


def _difference(result: Mapping[str, Any]) -> Iterator[str]:
    found = result["difference"]
    if found is None:
        return
    if result["achieved_power"] is not None:
        yield f"Power of this design: {percent(result['achieved_power'])}."
    if found["detectable"] is not None:
        yield f"It finds a change of {figure('difference', found['detectable'])} with the wanted power."
    if found["paired"]:
        yield (
            f"Flagged in the baseline alone: {percent(found['baseline_only'])} of the pairs, in the candidate alone: "
            f"{percent(found['candidate_only'])}."
        )
    if found["interval_half_width"] is not None:
        yield (
            f"The change will be known to {figure('half_width', found['interval_half_width'])}; the golden set alone "
            f"leaves {figure('half_width', found['interval_half_width_limit'])}."
        )


def changes_of(result: Mapping[str, Any]) -> Iterator[str]:
    """Say which changes of the given sizes reach the goal, the cheapest first."""
    for change in result["changes"]:
        sizes, given = change["sizes"], result["given"]
        changed = [
            f"{_number(sizes[name])} {WORDS[name]} instead of {_number(given[name])}" for name in change["changed"]
        ]
        free = [f"{_number(sizes[name])} {WORDS[name]}" for name in WORDS if given[name] is None and sizes[name]]
        yield " and ".join(changed or ["the given sizes"]) + (f", with {' and '.join(free)}" if free else "")


def worth_of(result: Mapping[str, Any]) -> str | None:
    """Say what the traces of a calibration's golden set are worth, where that is less than their number."""
    judge = result["judge"]
    if judge["source"] == "assumed":
        return None
    pairs = [(judge[name], judge[f"effective_{name}"], WORDS[name]) for name in ("n_positive", "n_negative")]
    if all(worth >= 0.99 * n for n, worth, _ in pairs):
        return None
    told = [f"{n} {what} are worth {worth:.0f} (1 in {n / worth:.2g})" for n, worth, what in pairs if n and worth]
    return (
        f"Sizes are of independent traces. In this calibration {' and '.join(told)}: of traces like these it takes as "
        "many times more."
    )


def plan_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a plan: the verdict first, then the sizes, what limits them, and what would reach the goal."""
    result = document["result"]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    rows = size_rows(result)
    for column in rows[0]:
        table.add_column("" if column == "what" else column, justify="left" if column in ("what", "how") else "right")
    for row in rows:
        table.add_row(*row.values())
    lines: list[RenderableType] = [
        Text("Plan", style="bold").append(f" {document['id'][:12]}"),
        words(title_of(result)),
        words(judge_of(result)),
        words(verdict_of(result), STYLE.get(result["status"], "bold red")),
    ]
    if any(row["size"] != "-" for row in rows):
        lines.append(table)
    lines += [words(line) for line in limits_of(result)]
    if result["changes"]:
        lines.append(Text(f"What would reach the goal ({counted(len(result['changes']), 'way')}, the cheapest first):"))
        lines += [words(f"  {line}") for line in changes_of(result)]
    worth = worth_of(result)
    if worth is not None:
        lines.append(words(worth))
    return Group(*lines, *(words(f"! {note}", "dim") for note in result["notes"]))
