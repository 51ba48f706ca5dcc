"""Markdown of a record, for artifacts and comments. Untrusted names cannot add markup."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tasks.reporting.simulation import (
    cell_rows,
    explanations,
    fit_of,
    optimism_rows,
    summary_rows,
    title_of,
    verdict_of,
)
from tasks.reporting.terminal import STATUS_MEANING, limits, percent, printable, threshold

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


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Write rows of our own text as a table."""
    if not rows:
        return []
    head = [f"| {' | '.join(rows[0])} |", f"|{'---:|' * len(rows[0])}"]
    return [*head, *(f"| {' | '.join(row.values())} |" for row in rows)]


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
