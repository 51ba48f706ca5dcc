"""What the terminal shows of an audit: predictions by attribute, or the six metrics of generated text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tasks.reporting.audit_rows import (
    SHOWN_GAPS,
    SHOWN_GROUPS,
    change_rows,
    comparison_headline,
    gap_rows,
    group_rows,
    metric_rows,
    outputs_headline,
    outputs_notes,
    parts_of,
    predictions_headline,
    predictions_notes,
    review_of,
    service_rows,
    spread_rows,
    summaries,
)
from tasks.reporting.terminal import words

BAND_STYLES = {"pass": "green", "watch": "yellow", "flag": "red", "fail": "bold red", "under-representation": "red"}

TEXTS = frozenset({"group", "reference", "worst group", "rate", "verdict", "metric", "probability of bands", "band"})
"""Columns of words; the others are of figures."""


def audit_report(document: Mapping[str, Any]) -> RenderableType:
    """Show an audit."""
    shown = _outputs if document["result"]["kind"] == "outputs" else _predictions
    return Group(*shown(document))


def audit_summary(document: Mapping[str, Any]) -> RenderableType:
    """Show the metrics of an audit of outputs, what they say together, and what changed, without the rest."""
    comparison = document["result"]["comparison"]
    changes: list[RenderableType] = []
    if comparison is not None:
        changes = [words(comparison_headline(comparison)), _table(change_rows(comparison))]
    return Group(*_metrics(document), *changes)


def _predictions(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    result = document["result"]
    yield Text("Audit", style="bold").append(f" {document['id'][:12]}")
    yield words(f"predictions of {result['name']}: {predictions_headline(document)}")
    for name, part in parts_of(result).items():
        yield Text("")
        yield words(f"by {name}", "bold")
        yield from _shown(group_rows(part), SHOWN_GROUPS, "groups")
        yield _table(spread_rows(part))
        yield from (words(line) for line in summaries(part))
        if gaps := gap_rows(part):
            yield Text("")
            yield Text("Each group against the reference, the clearest difference first", style="dim")
            yield from _shown(gaps, SHOWN_GAPS, "comparisons")
    yield from (words(f"! {note}", "yellow") for note in predictions_notes(result))


def _outputs(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    result = document["result"]
    yield from _metrics(document)
    yield Text("")
    yield Text("Harm and service belong together: what is refused cannot be harmful", style="dim")
    yield _table(service_rows(result))
    if (comparison := result["comparison"]) is not None:
        yield words(comparison_headline(comparison))
        yield _table(change_rows(comparison))
    yield from (words(f"! {note}", "yellow") for note in outputs_notes(result))


def _metrics(document: Mapping[str, Any]) -> Iterator[RenderableType]:
    result = document["result"]
    yield Text("Audit", style="bold").append(f" {document['id'][:12]}")
    target = f" of {result['target']}" if result["target"] else ""
    yield words(f"generated text{target}: {outputs_headline(document)}")
    if (review := review_of(result)) is not None:
        yield words(review, "bold red")
    yield _table(metric_rows(document))
    yield words(result["independence"]["meaning"], "bold")


def _shown(rows: Sequence[Mapping[str, str]], limit: int, what: str) -> Iterator[RenderableType]:
    yield _table(rows[:limit])
    if len(rows) > limit:
        yield Text(f"{len(rows) - limit} more {what} are in the record.", style="dim")


def _table(rows: Sequence[Mapping[str, str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in rows[0] if rows else ():
        text = column in TEXTS or column == "prompts about"
        heading = column.replace(" ", "\n") if len(column) > 9 else column
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text, vertical="bottom",
                         overflow="fold")  # fmt: skip
    for row in rows:
        table.add_row(*(_cell(column, value) for column, value in row.items()))
    return table


def _cell(column: str, value: str) -> Text:
    if column == "band":
        return Text(value, style=BAND_STYLES.get(value, "yellow"))
    if column == "verdict" and value.startswith("not evaluable"):
        return Text(value, style="yellow")
    return Text(value)
