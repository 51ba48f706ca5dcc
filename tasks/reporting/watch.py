"""A watch in words: the verdict, what moved, and what would tell more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tasks.reporting.comparison import p_of, points, span
from tasks.reporting.markdown import plain_text
from tasks.reporting.terminal import percent, words

Row = dict[str, str]

_STYLES = {"same": "green", "changed": "red", "insufficient": "yellow"}
_CAUSES = {
    "fingerprint": "it is another judge by its name, version or fingerprint",
    "decisions": "its decisions on the anchors moved",
    "scores": "its scores on the anchors moved",
    "trend": "its decisions drift from watch to watch",
}
_PARTS = {
    "positives": "decisions, violating",
    "negatives": "decisions, harmless",
    "score_positives": "scores, violating",
    "score_negatives": "scores, harmless",
}


def watch_headline(result: Mapping[str, Any]) -> str:
    """Say what was found, and why."""
    judge = f"{result['judge']['name']}@{result['judge']['version']}"
    if result["verdict"] == "same":
        return f"{judge} answers as it did when it was calibrated"
    if result["verdict"] == "changed":
        return f"{judge} has changed: {'; '.join(_CAUSES[cause] for cause in result['causes'])}"
    return f"whether {judge} has changed cannot be said"


def basis(result: Mapping[str, Any]) -> str:
    """Say what was compared."""
    compared = {"same": "the same fingerprint", "differs": "another identity", "unknown": "a fingerprint not known"}
    anchors = result["anchors"]
    if anchors is None:
        return f"{compared[result['fingerprint']]}; no answers were compared"
    flips = result["composite"]["flips"]
    told = f"{anchors['n']} anchors, {anchors['n_positive']} of them violating; {compared[result['fingerprint']]}"
    if flips["rate"] is None:
        return told
    return f"{told}; {percent(flips['rate'])} of the decisions are others now {_between(flips)}"


def _between(rate: Mapping[str, Any]) -> str:
    return f"({percent(rate['low'])} to {percent(rate['high'])})"


def decay_lines(result: Mapping[str, Any]) -> list[str]:
    """Say what the series shows, from its fifth watch on."""
    lines = []
    for part, row in (result["decay"] or {}).items():
        if row["level"] is None:
            continue
        way = "flagged less and less" if row["statistic"] < 0 else "flagged more and more"
        found = way if row["found"] else "no trend"
        kind = "violating" if part == "positives" else "harmless"
        lines.append(
            f"{len(row['values'])} watches, {kind} anchors: {found} (p {p_of(row['p_value'])}, decided at "
            f"{row['level']:.2g})"
        )
    return lines


def watch_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return all shifts as rows: the composite first."""
    quantities = {"composite": result["composite"], **result["categories"]} if result["composite"] else {}
    return [
        {
            "quantity": name,
            "what": _PARTS[part],
            "pairs": str(row["n"]),
            "then": _mean(part, row["before"]),
            "now": _mean(part, row["after"]),
            "shift": points(row["shift"]),
            "interval": span(row if row["low"] is not None else None),
            "p": p_of(row["p_adjusted"]),
            "verdict": row["verdict"] + (f", needs {row['needed']}" if row["needed"] else ""),
        }
        for name, quantity in quantities.items()
        for part in _PARTS
        if (row := quantity.get(part)) is not None
    ]


def _mean(part: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if part.startswith("score") else percent(value)


def watch_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a watch on the terminal."""
    result = document["result"]
    verdict = result["verdict"]
    head = Text("Watch", style="bold").append(f" {document['id'][:12]}")
    lines: list[RenderableType] = [
        head,
        words(f"{result['instrument']}, calibration {result['calibration'][:12]}: {basis(result)}"),
        Text(verdict.upper(), style=f"bold {_STYLES[verdict]}").append(
            f"  {words(watch_headline(result))}", style="default"
        ),
    ]
    rows = watch_rows(result)
    shown = [row for row in rows if _is_headline(row)]
    table = [_table(shown)] if shown else []
    more = [words(line) for line in (*_left_out(rows), *decay_lines(result))]
    notes = [words(f"! {note}", "yellow") for note in result["notes"]]
    return Group(*lines, *table, *more, *notes)


def _is_headline(row: Row) -> bool:
    return row["quantity"] == "composite" or row["verdict"] == "changed"


def _left_out(rows: Sequence[Row]) -> Iterator[str]:
    """Count the shifts of categories that are no change: up to four a category."""
    verdicts = [row["verdict"].partition(",")[0] for row in rows if not _is_headline(row)]
    if verdicts:
        counted = ", ".join(f"{verdicts.count(name)} {name}" for name in _STYLES if name in verdicts)
        yield f"shifts of categories: {counted}; the record has each"


def _table(rows: Sequence[Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in rows[0]:
        table.add_column(name, overflow="fold", justify="left" if name in ("quantity", "what", "verdict") else "right")
    for row in rows:
        table.add_row(*(words(value) for value in row.values()))
    return table


def watch_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show a watch in Markdown: the verdict, what moved, the notes."""
    result = document["result"]
    title = f"# {plain_text(result['instrument'])}: {result['verdict']}"
    lines = [title, "", f"**{plain_text(watch_headline(result))}.**", "", plain_text(basis(result)), ""]
    told = [*_listed(result), "", f"Record `{document['id']}`", *(f"- {link}" for link in links)]
    return "\n".join([*lines, *told]) + "\n"


def _listed(result: Mapping[str, Any]) -> Iterator[str]:
    for row in watch_rows(result):
        if _is_headline(row):
            means = f"{row['then']} then, {row['now']} now, {row['shift']} {row['interval']}"
            yield f"- {plain_text(row['quantity'])}, {row['what']}: {plain_text(means)}: {row['verdict']}"
    yield from (f"- {plain_text(line)}" for line in (*decay_lines(result), *result["notes"]))
