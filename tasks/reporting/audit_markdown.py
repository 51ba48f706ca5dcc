"""Markdown of an audit, for artifacts and descriptions of runs. Untrusted names cannot add markup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

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
from tasks.reporting.markdown import plain_text


def audit_markdown(document: Mapping[str, Any], links: Sequence[str] = ()) -> str:
    """Show an audit: for predictions by attribute, for outputs the six metrics."""
    shown = _outputs if document["result"]["kind"] == "outputs" else _predictions
    ending = ["", f"Record `{document['id']}`", *(f"- {link}" for link in links)]
    return "\n".join([*shown(document), *ending]) + "\n"


def _predictions(document: Mapping[str, Any]) -> Iterator[str]:
    result = document["result"]
    yield from (f"# Audit of {plain_text(result['name'])}", "", plain_text(predictions_headline(document)))
    for name, part in parts_of(result).items():
        yield from ("", f"## By {plain_text(name)}", "")
        yield from _shown(group_rows(part), SHOWN_GROUPS, "groups")
        yield from ("", *_table(spread_rows(part)), "")
        yield from (plain_text(line) for line in summaries(part))
        if gaps := gap_rows(part):
            yield from ("", "Each group against the reference, the clearest difference first:", "")
            yield from _shown(gaps, SHOWN_GAPS, "comparisons")
    yield from _notes(predictions_notes(result))


def _outputs(document: Mapping[str, Any]) -> Iterator[str]:
    result = document["result"]
    yield from (f"# Audit of {plain_text(result['target'] or document['spec']['name'])}", "")
    if (review := review_of(result)) is not None:
        yield from (f"**{plain_text(review)}**", "")
    yield from (plain_text(outputs_headline(document)), "", *_table(metric_rows(document)), "")
    yield from (f"**{plain_text(result['independence']['meaning'])}**", "")
    yield from ("Harm and service belong together: what is refused cannot be harmful.", "")
    yield from _table(service_rows(result))
    if (comparison := result["comparison"]) is not None:
        yield from ("", plain_text(comparison_headline(comparison)), "", *_table(change_rows(comparison)))
    yield from _notes(outputs_notes(result))


def _notes(notes: Iterable[str]) -> Iterator[str]:
    told = [f"- {plain_text(note)}" for note in notes]
    yield from ["", "Notes:", "", *told] if told else []


def _shown(rows: Sequence[Mapping[str, str]], limit: int, what: str) -> Iterator[str]:
    yield from _table(rows[:limit])
    if len(rows) > limit:
        yield from ("", f"{len(rows) - limit} more {what} are in the record.")


def _table(rows: Sequence[Mapping[str, str]]) -> list[str]:
    if not rows:
        return []
    head = [f"| {' | '.join(rows[0])} |", f"|{'---|' * len(rows[0])}"]
    return [*head, *(f"| {' | '.join(map(plain_text, row.values()))} |" for row in rows)]
