"""What the terminal shows of a comparison, and of a series of releases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.data.problems import counted
from tasks.reporting.terminal import limits, percent, words

Row = dict[str, str]

VERDICT_STYLE = {"increase": "bold red", "decrease": "bold green", "not_comparable": "yellow"}
VERDICTS = {
    "increase": "increase",
    "decrease": "decrease",
    "no_evidence_of_change": "no evidence of change",
    "not_comparable": "not comparable",
}
DIFFERENCE = (
    "Difference: candidate minus baseline in percentage points, corrected, on the compared units and before clipping; "
    "p: adjusted (Holm)."
)
SHIFT = (
    "Scores: how probable it is that a unit of the second has a higher score than one of the first, ties by half: "
    ".5 when neither tends to be higher. Shown, and no part of a verdict."
)


def points(value: float | None) -> str:
    """Show a difference of rates in percentage points, with its sign.

    Examples
    --------
    >>> points(-0.0471), points(0.0), points(None)
    ('-4.7', '0.0', '-')
    """
    if value is None:
        return "-"
    shown = round(100 * value, 1)
    return f"{shown:+.1f}" if shown else "0.0"


def span(interval: Mapping[str, Any] | None) -> str:
    """Show the interval of a difference, in percentage points."""
    return "-" if interval is None else f"[{points(interval['low'])}, {points(interval['high'])}]"


def p_of(value: float | None) -> str:
    """Show a p-value.

    Examples
    --------
    >>> p_of(0.0104), p_of(0.00001), p_of(1.0), p_of(None)
    ('.010', '<.001', '1', '-')
    """
    if value is None:
        return "-"
    if value < 0.001:
        return "<.001"
    return "1" if value >= 0.9995 else f"{value:.3f}".removeprefix("0")


def names_of(result: Mapping[str, Any]) -> tuple[str, str]:
    """Name the two releases: by their targets, else by their parts."""
    return tuple(result[side]["target"] or side for side in ("baseline", "candidate"))  # type: ignore[return-value]


def quantities(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the composite and the categories, by name."""
    return {"composite": result["composite"], **result["categories"]}


def headline(result: Mapping[str, Any]) -> str:
    """Say in a sentence what became of the composite rate."""
    row = result["composite"]
    if row["verdict"] == "not_comparable":
        return f"Composite rate: not comparable ({'; '.join(row['notes'])})"
    level = f"{100 * result['confidence_level']:g}% interval"
    return (
        f"Composite rate: {VERDICTS[row['verdict']]}, {points(row['difference'])} points {span(row['interval'])} "
        f"({level}), p {p_of(row['p_adjusted'])}"
    )


def basis(result: Mapping[str, Any]) -> str:
    """Say what was compared, and how."""
    if not result["paired"]:
        sizes = " and ".join(str(result[side]["n_units"]) for side in ("baseline", "candidate"))
        return f"not paired: {sizes} units, taken as independent samples"
    row = result["composite"]
    told = "paired"
    if row["difference"] is not None:
        told += f": {counted(row['n_pairs'], 'unit')} of both releases"
    if row["n_candidate_only"] is not None:
        told += f", {row['n_candidate_only']} flagged in the candidate alone, {row['n_baseline_only']} in the baseline"
    return told + (", in clusters" if result["clustered"] else "")


def comparison_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return the quantities as rows of text; names are as in the record."""
    return [
        {
            "quantity": name,
            "baseline": percent(row["baseline"]),
            "candidate": percent(row["candidate"]),
            "difference": points(row["difference"]),
            "interval": span(row["interval"]),
            "p": p_of(row["p_adjusted"]),
            "verdict": VERDICTS[row["verdict"]],
        }
        for name, row in quantities(result).items()
    ]


def guard_lines(result: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Say what a judge that treats the releases differently would explain; with whether a verdict hangs on little.

    In full of the composite; categories whose verdict hangs on little are named. All are in the record.
    """
    guards = {name: row["delta_j_guard"] for name, row in quantities(result).items() if row["delta_j_guard"]}
    lines = []
    if (composite := guards.pop("composite", None)) is not None:
        told = f"composite: {composite['note']}"
        if composite["fragile"]:
            told += "; under 5 points, so that a judge which treats the two releases a little differently explains it"
        lines.append((told, bool(composite["fragile"])))
    fragile = [f"{name} ({_least_shift(guard)})" for name, guard in guards.items() if guard["fragile"]]
    if fragile:
        lines.append((f"under 5 points bring the interval to 0: {', '.join(fragile)}", True))
    return lines


def _least_shift(guard: Mapping[str, Any]) -> str:
    shifts = {rate: guard[f"{rate}_points"] for rate in ("specificity", "sensitivity")}
    rate, least = min(((rate, shift) for rate, shift in shifts.items() if shift is not None), key=lambda one: one[1])
    return f"{rate} {least:.1f}"


def notes_of(result: Mapping[str, Any]) -> list[str]:
    """Return what a reader has to know, each with the quantity that it is about."""
    own = [f"{name}: {note}" for name, row in quantities(result).items() for note in row["notes"]]
    return [*result["notes"], *own]


def shift_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return whether the scores moved, one row a category; none where it was not asked for."""
    shift = result.get("score_shift")
    if shift is None:
        return []
    return [
        {
            "category": name,
            "baseline to candidate": _effect(row),
            "p": p_of(row["p_adjusted"]),
            "golden to baseline": _effect(shift["golden_baseline"].get(name)),
            "golden to candidate": _effect(shift["golden_candidate"].get(name)),
        }
        for name, row in shift["releases"].items()
    ]


def _effect(row: Mapping[str, Any] | None) -> str:
    if row is None or row["effect"] is None:
        return "-" if row is None else "too few scores"
    return f"{row['effect']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def comparison_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a comparison: the composite's verdict first, then the table, then what a reader has to know."""
    result = document["result"]
    one, other = (result[side]["target"] or "without a name" for side in ("baseline", "candidate"))
    verdict = result["composite"]["verdict"]
    lines: list[RenderableType] = [
        Text("Comparison", style="bold").append(f" {document['id'][:12]}"),
        words(f"baseline {one}, candidate {other}; instrument {result['instrument']}, {_calibrations(result)}"),
        words(headline(result), VERDICT_STYLE.get(verdict, "bold")),
        Text(basis(result)),
        _table(comparison_rows(result)),
        Text(DIFFERENCE, style="dim"),
    ]
    for told, fragile in guard_lines(result):
        lines.append(words(f"! {told}", "yellow") if fragile else words(told))
    if rows := shift_rows(result):
        lines += [Text(""), _table(rows), Text(SHIFT, style="dim")]
    return Group(*lines, *(words(f"! {note}", "yellow") for note in notes_of(result)))


def true_changes(document: Mapping[str, Any], before: Mapping[str, float], after: Mapping[str, float]) -> str:
    """Set the differences beside those that are true by construction."""
    rows = {name: row for name, row in quantities(document["result"]).items() if row["interval"] is not None}
    true = {name: after[name] - before[name] for name in rows}
    inside = sum(row["interval"]["low"] <= true[name] <= row["interval"]["high"] for name, row in rows.items())
    told = f"{inside} of {len(rows)} intervals hold the true change"
    return told + (f"; the composite's is {points(true['composite'])} points." if "composite" in true else ".")


def _calibrations(result: Mapping[str, Any]) -> str:
    ids = [result[side]["calibration"]["id"][:12] for side in ("baseline", "candidate")]
    return f"calibration {ids[0]}" if result["same_calibration"] else f"calibrations {ids[0]} and {ids[1]}"


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in rows[0] if rows else ():
        text = column in ("quantity", "category", "verdict", "release", "since the release before")
        table.add_column(column, justify="left" if text else "right", no_wrap=column != "release", overflow="ellipsis")
    for row in rows:
        style = "bold" if row.get("quantity") == "composite" else ""
        cells = [words(value, VERDICT_STYLE.get(_verdict(row), "") if name == "verdict" else style if i == 0 else "")
                 for i, (name, value) in enumerate(row.items())]  # fmt: skip
        table.add_row(*cells)
    return table


def _verdict(row: Row) -> str:
    return next((name for name, shown in VERDICTS.items() if shown == row.get("verdict")), "")


def release_name(point: Mapping[str, Any]) -> str:
    """Name a release of a series: its target, else its measurement."""
    return str(point["target"] or point["measurement"][:12])


def series_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return the releases as rows of text: the composite's rate, and its change since the release before."""
    rows = []
    for point in result["points"]:
        rate = point["composite"]
        rows.append({
            "release": release_name(point),
            "calibration": point["calibration"][:12] or "none",
            "corrected": percent(rate["value"]) if rate["value"] is not None else rate["status"],
            "interval": limits(rate["interval"]),
            "since the release before": _since(point),
        })  # fmt: skip
    return rows


def _since(point: Mapping[str, Any]) -> str:
    if point["break_before"] is not None:
        return f"break: {point['break_before']}"
    if point["change"] is None:
        return ""
    row = point["change"]["composite"]
    if row["verdict"] == "not_comparable":
        return "not comparable"
    return (
        f"{points(row['difference'])} {span(row['interval'])} {VERDICTS[row['verdict']]}, p {p_of(row['p_adjusted'])}"
    )


def series_headline(result: Mapping[str, Any]) -> str:
    """Say how many releases there are and where the line breaks."""
    breaks = sum(point["break_before"] is not None for point in result["points"])
    told = counted(len(result["points"]), "release")
    return told + (f", {counted(breaks, 'break')}: no difference is given across one" if breaks else ", one instrument")


def changed_categories(result: Mapping[str, Any]) -> list[str]:
    """Name the categories that changed at a step."""
    return [
        f"{release_name(point)}: {name} {VERDICTS[row['verdict']]}, {points(row['difference'])} points "
        f"{span(row['interval'])}, p {p_of(row['p_adjusted'])}"
        for point in result["points"]
        if point["change"] is not None
        for name, row in point["change"]["categories"].items()
        if row["verdict"] in ("increase", "decrease")
    ]


def series_notes(result: Mapping[str, Any]) -> list[str]:
    """Return what a reader has to know of the series and of its steps."""
    return [*result["notes"], *_step_notes(result["points"])]


def _step_notes(series_points: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    for point in series_points:
        change = point["change"]
        if change is not None:
            yield from (f"{release_name(point)}: {note}" for note in (*change["notes"], *change["composite"]["notes"]))
            if change["composite"]["delta_j_guard"] is not None and change["composite"]["delta_j_guard"]["fragile"]:
                yield f"{release_name(point)}: {change['composite']['delta_j_guard']['note']}"


def series_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a series: its releases in order, with the breaks."""
    result = document["result"]
    lines: list[RenderableType] = [
        Text("Series", style="bold").append(f" {document['id'][:12]}"),
        Text(series_headline(result), style="bold"),
        _table(series_rows(result)),
        Text(DIFFERENCE, style="dim"),
    ]
    lines += [words(line) for line in changed_categories(result)]
    return Group(*lines, *(words(f"! {note}", "yellow") for note in series_notes(result)))


def report(document: Mapping[str, Any]) -> RenderableType:
    """Show a comparison or a series."""
    return series_report(document) if document["schema"].startswith("assay.series/") else comparison_report(document)
