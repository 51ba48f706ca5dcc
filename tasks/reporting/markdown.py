"""Markdown of a record, for artifacts and comments. Untrusted names cannot add markup."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tasks.reporting import comparison, plan
from tasks.reporting.simulation import (
    cell_rows,
    explanations,
    fit_of,
    optimism_rows,
    summary_rows,
    title_of,
    verdict_of,
)
from tasks.reporting.terminal import STATUS_MEANING, choice_of, limits, percent, printable, threshold

# With : @ and . since an address that stands alone becomes a link.
_MARKUP = str.maketrans({c: f"\\{c}" for c in "\\`*_{}[]()<>#+-!|~&=$:@."})


def plain_text(text: object) -> str:
    r"""Escape untrusted text for a line of Markdown.

    Examples
    --------
    >>> plain_text("[x](y)")
    '\\[x\\]\\(y\\)'
    """
    return printable(text).translate(_MARKUP)


def measurement_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show a measurement: headline, interval, status, and what a reader has to know."""
    result = document["result"]
    composite = result["composite"]
    prevalence = composite["prevalence"]
    lines = [f"# {plain_text(result['target'] or 'production')}", ""]
    if prevalence["value"] is None:
        meaning = STATUS_MEANING[prevalence["status"]]
        lines.append(f"**No corrected rate**, status `{prevalence['status']}`: {meaning}.")
    else:
        level = 100 * prevalence["interval"]["confidence_level"]
        lines.append(
            f"**Corrected rate {percent(prevalence['value'])}**, {level:g}% interval "
            f"{limits(prevalence['interval'])}, status `{prevalence['status']}`."
        )
    observed = f"{percent(composite['observed_rate'])} of {composite['n_units']} fully scored units"
    lines.append(f"Observed rate (the judge's own, uncorrected): {observed}.")
    counts = result["accounting"]
    lines.append(f"Scored {counts['scored']} of {counts['attempted']} units.")
    chosen = choice_of("Labelled traces of production", composite)
    if chosen is not None:
        lines.append(plain_text(chosen))
    lines.append(f"Judge {_judge(result)}, calibration {result['calibration']['id'][:12] or 'none'}.")
    return _assembled(document, lines, [*result["notes"], *prevalence["notes"]], links)


def calibration_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show a calibration: J with its bound, status, and what a reader has to know."""
    result = document["result"]
    composite = result["composite"]
    lines = [
        f"# {plain_text(result['instrument'])} with {_judge(result)}",
        "",
    ]
    if composite["youden_j"] is None:
        lines.append(f"**Composite `{composite['status']}`.**")
    else:
        lines.append(
            f"**Composite J {composite['youden_j']:.3f}** (lower bound {composite['youden_j_low']:.3f}), status "
            f"`{composite['status']}`: sensitivity {composite['sensitivity']:.3f}, "
            f"specificity {composite['specificity']:.3f}."
        )
    golden = result["golden"]
    if golden is not None:
        lines.append(f"Golden set: {golden['n_traces']} traces, {golden['n_clusters']} clusters.")
    return _assembled(document, lines, [*result["notes"], *composite["notes"]], links)


MAX_ROWS = 12
"""Cells of a simulation in Markdown; all are in the record."""


def simulation_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show a simulation: the verdict, the intervals over all cells, and the worst cells."""
    result = document["result"]
    certified = result["calibration"]
    title = f"Simulation, stage {result['stage']}" if certified is None else "Certificate"
    cells = cell_rows(result)
    lines = [f"# {title}", "", plain_text(title_of(document)), "", f"**{verdict_of(document)}**", ""]
    lines += [*_table(summary_rows(result)), "", *_table(cells[:MAX_ROWS]), ""]
    if len(cells) > MAX_ROWS:
        lines += [f"Lowest coverage first; {len(cells) - MAX_ROWS} more cells are in the record."]
    lines += explanations(cells)
    if optimism := optimism_rows(result):
        lines += ["", "J of the composite, mean over calibrations:", "", *_table(optimism[:MAX_ROWS])]
    if (fit := fit_of(result)) is not None:
        lines += ["", fit]
    return _assembled(document, lines, result["notes"], links)


def plan_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show a plan: the verdict, the sizes, what limits them and what would reach the goal."""
    result = document["result"]
    lines = ["# Plan", "", plain_text(plan.title_of(result)), "", plain_text(plan.judge_of(result)), ""]
    lines += [f"**{plain_text(plan.verdict_of(result))}**", "", *_table(plan.size_rows(result)), ""]
    lines += [plain_text(line) for line in plan.limits_of(result)]
    if result["changes"]:
        lines += ["", "What would reach the goal, the cheapest first:", ""]
        lines += [f"- {plain_text(line)}" for line in plan.changes_of(result)]
    worth = plan.worth_of(result)
    return _assembled(document, lines, [*([worth] if worth else []), *result["notes"]], links)


def comparison_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show a comparison or a series: the verdict, the table, the guard in words."""
    result = document["result"]
    if document["schema"].startswith("assay.series/"):
        lines = ["# Series of releases", "", f"**{comparison.series_headline(result)}**", ""]
        lines += [*_table(comparison.series_rows(result), plain_text), "", comparison.DIFFERENCE]
        lines += ["", *(f"- {plain_text(line)}" for line in comparison.changed_categories(result))]
        return _assembled(document, lines, comparison.series_notes(result), links)
    one, other = comparison.names_of(result)
    lines = [f"# From {plain_text(one)} to {plain_text(other)}", "", f"**{plain_text(comparison.headline(result))}**"]
    lines += ["", comparison.basis(result), "", *_table(comparison.comparison_rows(result), plain_text), ""]
    lines += [comparison.DIFFERENCE, ""]
    lines += [
        f"- {'**fragile** ' if fragile else ''}{plain_text(told)}" for told, fragile in comparison.guard_lines(result)
    ]
    if rows := comparison.shift_rows(result):
        lines += ["", *_table(rows, plain_text), "", comparison.SHIFT]
    return _assembled(document, lines, comparison.notes_of(result), links)


def _table(rows: Sequence[Mapping[str, str]], shown: Callable[[object], str] = str) -> list[str]:
    """Write rows as a table: of our own text, or with `plain_text` for others'."""
    if not rows:
        return []
    head = [f"| {' | '.join(rows[0])} |", f"|{'---:|' * len(rows[0])}"]
    return [*head, *(f"| {' | '.join(map(shown, row.values()))} |" for row in rows)]


def _judge(result: Mapping[str, Any]) -> str:
    return plain_text(f"{result['judge']['name']}@{result['judge']['version']}")


def _assembled(document: Mapping[str, Any], lines: Sequence[str], notes: Iterable[str], links: Sequence[str]) -> str:
    unique = list(dict.fromkeys(notes))
    # A note that is the end of a longer one says nothing more.
    told = [f"- {plain_text(note)}" for note in unique if not any(n != note and n.endswith(note) for n in unique)]
    kept = [f"- {link}" for link in links]
    parts = [*lines, *(["", "Notes:", *told] if told else []), "", f"Record `{document['id']}`", *kept]
    return "\n".join(parts) + "\n"


def _decimal(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def _corrected(prevalence: Mapping[str, Any] | None) -> dict[str, str]:
    """Return the columns of a corrected rate; an attribute of an uncalibrated detector has none."""
    if prevalence is None:
        return {}
    return {
        "corrected": percent(prevalence["value"]),
        "interval": limits(prevalence["interval"]),
        "status": prevalence["status"],
    }


def category_rows(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the categories of a record as rows of plain text."""
    result = document["result"]
    rows = [("composite", result["composite"]), *result.get("categories", {}).items()]
    attributes = [
        {
            "category": printable(name),
            "units": row["n_units"],
            "flagged": row["n_flagged"],
            "observed": percent(row["rate"]),
            **_corrected(row.get("prevalence")),
        }
        for name, row in result.get("attributes", {}).items()
    ]
    if document["schema"].startswith("assay.calibration/"):
        return [
            {
                "category": printable(name),
                "threshold": threshold(name, row, result),
                "sensitivity": _decimal(row["sensitivity"]),
                "specificity": _decimal(row["specificity"]),
                "J": _decimal(row["youden_j"]),
                "J low": _decimal(row["youden_j_low"]),
                "status": row["status"],
            }
            for name, row in rows
        ]
    return [
        {
            "category": printable(name),
            "units": row["n_units"],
            "flagged": row["n_flagged"],
            "observed": percent(row["observed_rate"]),
            **_corrected(row["prevalence"]),
        }
        for name, row in rows
    ] + attributes
