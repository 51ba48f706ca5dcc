"""A gate on the terminal, and as a comment on a pull request."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.data.problems import counted
from tasks.reporting.markdown import plain_text
from tasks.reporting.terminal import words

SHOWN_IN_COMMENT = 100
"""Rows of a comment; a platform takes no comment of any length, and the record has all of them."""

VERDICTS = {"pass": "PASS", "fail": "FAIL", "insufficient_evidence": "INSUFFICIENT EVIDENCE"}
_STYLES = {"pass": "green", "fail": "red", "insufficient_evidence": "yellow"}
_ORDER = ("fail", "insufficient_evidence", "pass")


def gate_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a gate: the verdict first, then every figure, then why, and what is needed."""
    result = document["result"]
    verdict = result["verdict"]
    head = Text("Gate", style="bold").append(f" {document['id'][:12]}")
    headline = Text(VERDICTS[verdict], style=f"bold {_STYLES[verdict]}").append(
        f"  {_tally(result)}" + ("; a review is required" if result["review_required"] else ""), style="default"
    )
    lines: list[RenderableType] = [head, words(f"policy {result['policy']}, {_about(result)}"), headline]
    return Group(*lines, _table(result["rules"]), *_whys(result), *_exceptions(result), *_remarks(result))


def _tally(result: Mapping[str, Any]) -> str:
    named = {"passed": "n_pass", "failed": "n_fail", "without evidence enough": "n_insufficient"}
    return ", ".join(f"{result[key]} {name}" for name, key in named.items() if result[key])


def _about(result: Mapping[str, Any]) -> str:
    records = [
        f"{record['schema'].removeprefix('assay.').partition('/')[0]} {record['id'][:12]}"
        + (f" of {record['target']}" if record["target"] else "")
        for record in result["records"]
    ]
    return f"{counted(len(records), 'record')}: {', '.join(records)}"


def _table(rows: Iterable[Mapping[str, Any]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("rule", overflow="fold")
    table.add_column("figure", overflow="fold")
    for name in ("value", "interval", "n", "asked"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in rows:
        table.add_row(
            words(row["rule"]),
            words(row["metric"]),
            _figure(row["value"]),
            _interval(row),
            "-" if row["n"] is None else str(row["n"]),
            _asked(row),
            Text(_verdict(row), style=_STYLES[row["counts_as"]]),
        )
    return table


def _verdict(row: Mapping[str, Any]) -> str:
    if row["verdict"] == row["counts_as"]:
        return str(row["verdict"]).replace("_", " ")
    how = "escalated" if row["severity"] == "escalate" and row["review"] else "excepted"
    return f"{row['verdict']}, {how}"


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _interval(row: Mapping[str, Any]) -> str:
    if row["low"] is None and row["high"] is None:
        return "-"
    return f"[{_figure(row['low'])}, {_figure(row['high'])}]"


def _asked(row: Mapping[str, Any]) -> str:
    told = {"point": "value"}.get(row["bound"], row["bound"])
    return f"{told} {row['op']} {row['threshold']:g}"


def _whys(result: Mapping[str, Any]) -> Iterator[RenderableType]:
    for row in _sorted(result["rules"]):
        if row["verdict"] == "pass":
            continue
        yield words(f"{row['rule']}: {row['metric']}: {row['reason']}", _STYLES[row["counts_as"]])
        if told := _needed(row):
            yield words(f"  {told}", "dim")


def _sorted(rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Put what stops a release first."""
    return sorted(rows, key=lambda row: (_ORDER.index(row["counts_as"]), row["verdict"] == "pass"))


def _needed(row: Mapping[str, Any]) -> str:
    parts = []
    if row["needed"] is not None:
        parts.append(f"needed: {row['needed']['says']}")
    if row["verdict"] == "insufficient_evidence" and row["minimum_detectable_effect"] is not None:
        parts.append(f"minimum detectable effect now (power .80): {row['minimum_detectable_effect']:.3g}")
    return "; ".join(parts)


def _exceptions(result: Mapping[str, Any]) -> Iterator[RenderableType]:
    for item in result["exceptions"]:
        yield words(_exception(item), "yellow" if item["state"] == "applied" else "red")


def _exception(item: Mapping[str, Any]) -> str:
    told = f"exception {item['state']}: {item['rule']} for {item['record'][:12]} by {item['owner']}: {item['why']}"
    return f"{told} (until {item['expires']}: {item['reason']})" if item["state"] == "applied" else told


def _remarks(result: Mapping[str, Any]) -> Iterator[RenderableType]:
    for review in result["reviews"]:
        yield words(f"review: {review}", "yellow")
    for note in result["notes"]:
        yield words(f"! {note}", "yellow")


def gate_markdown(document: Mapping[str, Any]) -> str:
    """Write a gate as a comment on a pull request. Untrusted names cannot add markup."""
    result = document["result"]
    review = " (a review is required)" if result["review_required"] else ""
    lines = [
        f"## Gate {plain_text(result['policy'])}: {VERDICTS[result['verdict']]}{review}",
        "",
        f"{_tally(result)}. {plain_text(_about(result))}.",
        "",
        "| rule | figure | value | interval | n | asked | verdict | why |",
        "|---|---|---:|---:|---:|---:|---|---|",
    ]
    rows = _sorted(result["rules"])
    lines += [f"| {' | '.join(_cells(row))} |" for row in rows[:SHOWN_IN_COMMENT]]
    if len(rows) > SHOWN_IN_COMMENT:
        lines += ["", f"{len(rows) - SHOWN_IN_COMMENT} more are in the record."]
    remarks = [_exception(item) for item in result["exceptions"]]
    remarks += [*(f"review: {review}" for review in result["reviews"]), *result["notes"]]
    lines += ["", *(f"- {plain_text(remark)}" for remark in remarks)] if remarks else []
    return "\n".join([*lines, "", f"Record `{document['id']}`.", ""])


def _cells(row: Mapping[str, Any]) -> Iterator[str]:
    reason = row["reason"] if row["verdict"] != "pass" else ""
    told = "; ".join(part for part in (reason, _needed(row) if reason else "") if part)
    yield plain_text(row["rule"])
    yield plain_text(row["metric"])
    yield _figure(row["value"])
    yield plain_text(_interval(row))
    yield "-" if row["n"] is None else str(row["n"])
    yield plain_text(_asked(row))
    verdict = _verdict(row)
    yield verdict if row["verdict"] == "pass" else f"**{verdict}**"
    yield plain_text(told)
