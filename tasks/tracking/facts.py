"""What MLflow shows of a record, as plain data: parameters, headline metrics, tags and a description.

What has no value is absent: never NaN, never 0.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from core.records import Document
from tasks.reporting.terminal import is_detector, limits, percent, printable

MAX_METRICS = 40
"""More make a page of charts that nobody reads; all figures are in the record."""

MAX_VALUE = 5000
"""Characters of a tag or parameter, below the limits of every store."""

CALIBRATION_METRICS = ("threshold", "sensitivity", "specificity", "youden_j", "youden_j_low")

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """The metrics of a run.

    Attributes
    ----------
    metrics : dict
        At most 40.
    left_out : tuple of str
        Categories that did not fit.
    """

    metrics: Metrics
    left_out: tuple[str, ...] = ()


def key(name: str) -> str:
    """Turn a name into one that MLflow takes as a key; what it has to change stays distinct.

    Examples
    --------
    >>> key("self-harm.threshold"), key("a/b")
    ('self-harm.threshold', 'a_b-c14cddc0')
    """
    safe = re.sub(r"^\.+|[^\w.\- ]", "_", name)[:200]
    return safe if safe == name else f"{safe}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def clipped(value: object) -> str:
    """Write a tag's or parameter's value, shortened to what MLflow takes."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= MAX_VALUE else text[: MAX_VALUE - 3] + "..."


def parameters(document: Document) -> dict[str, str]:
    """Return all that determined a result: the spec flattened, judge, golden set, seed, versions."""
    result = document["result"]
    golden = result.get("golden") or {}
    named: dict[str, Any] = {f"spec.{name}": value for name, value in _flat(document["spec"])}
    named |= {f"judge.{name}": value for name, value in result["judge"].items()}
    named["judge.source"] = result["judge_source"]
    named |= {f"golden.{name}": golden[name] for name in golden if name != "turns"}
    named |= {f"version.{name}": value for name, value in document["software"].items()}
    named["seed"] = document["seed"]
    return {key(name): clipped(value) for name, value in sorted(named.items()) if value is not None}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if not isinstance(value, Mapping):
        yield prefix, value
        return
    for name, inner in value.items():
        yield from _flat(inner, f"{prefix}.{name}" if prefix else str(name))


def calibration_metrics(document: Document) -> Headline:
    """Return threshold, sensitivity, specificity and J of the composite and as many categories as fit."""
    result = document["result"]
    # A detector decides by itself: a threshold is no finding about it.
    names = CALIBRATION_METRICS[1:] if is_detector(result) else CALIBRATION_METRICS
    rows = {name: _present(row, names) for name, row in result["categories"].items()}
    return _headline(_present(result["composite"], names), rows)


def _present(row: Mapping[str, Any], names: Sequence[str]) -> Metrics:
    return {name: float(row[name]) for name in names if row[name] is not None}


def measurement_metrics(document: Document) -> Headline:
    """Return observed rate, prevalence and its interval of the composite and as many categories as fit."""
    return _headline(rate_metrics(document["result"]["composite"]), {
        name: rate_metrics(row) for name, row in parts(document).items()
    })  # fmt: skip


def parts(document: Document) -> dict[str, Mapping[str, Any]]:
    """Return a measurement's categories, or its attributes, by name."""
    result = document["result"]
    return dict(result.get("categories") or result.get("attributes") or {})


def rate_metrics(row: Mapping[str, Any]) -> Metrics:
    """Return the figures of one category, attribute or composite that exist."""
    prevalence = row.get("prevalence") or {}
    interval = prevalence.get("interval") or {}
    transport = row.get("transport") or {}
    # A rate that is not to be read makes no chart.
    powered = transport["prediction_powered"] if transport.get("choice") == "ppi" else {}
    named = {
        "observed_rate": row.get("observed_rate", row.get("rate")),
        "prevalence": prevalence.get("value"),
        "prevalence_low": interval.get("low"),
        "prevalence_high": interval.get("high"),
        "prediction_powered": powered.get("value"),
        "prediction_powered_low": powered.get("low"),
        "prediction_powered_high": powered.get("high"),
    }
    return {name: float(value) for name, value in named.items() if value is not None}


def _headline(composite: Metrics, rows: Mapping[str, Metrics]) -> Headline:
    metrics = {f"composite.{name}": value for name, value in composite.items()}
    left_out: list[str] = []
    for category, row in rows.items():
        if left_out or len(metrics) + len(row) > MAX_METRICS:
            left_out.append(category)
        else:
            metrics |= {key(f"{category}.{name}"): value for name, value in row.items()}
    return Headline(metrics=metrics, left_out=tuple(left_out))


def tags(document: Document) -> dict[str, str]:
    """Return what a record is found by."""
    result = document["result"]
    composite, golden = result["composite"], result.get("golden") or {}
    certificate = result.get("calibration", {}).get("certificate")
    calibration = result["calibration"]["id"] if "calibration" in result else document["id"]
    named = {
        "record.id": document["id"],
        "record.schema": document["schema"],
        "record.created": document["created"],
        "instrument": result["instrument"],
        "judge.fingerprint": result["judge"]["fingerprint"],
        "golden.sha256": golden.get("sha256"),
        "calibration.id": calibration,
        "calibration.source": result.get("calibration_source") or result["calibration"]["source"],
        "target": result.get("target"),
        "transport.choice": (composite.get("transport") or {}).get("choice"),
        "status": composite.get("status") or composite["prevalence"]["status"],
        **(certificate_tags(certificate["id"], certificate) if certificate else {}),
    }
    return {name: clipped(value) for name, value in named.items() if value}


def simulation_metrics(document: Document) -> Metrics:
    """Return the coverage of the worst cell, of all cells, and of each interval."""
    result = document["result"]
    metrics = {
        name: float(result[name]) for name in ("coverage", "mc_error", "mean_coverage", "replications", "n_cells")
    }
    for name, found in sorted(result["methods"].items()):
        row = {"mean": found["mean"], "minimum": found["minimum"], "mean_width": found["mean_width"]}
        metrics |= {key(f"{name}.{field}"): float(value) for field, value in row.items() if value is not None}
    return dict(list(metrics.items())[:MAX_METRICS])


def simulation_parameters(document: Document) -> dict[str, str]:
    """Return all that determined a simulation: the spec flattened, seed, versions."""
    return spec_parameters(document) | {"method": clipped(document["result"]["method"])}


def spec_parameters(document: Document) -> dict[str, str]:
    """Return a record's spec, flattened, with its seed and the versions of what computed it."""
    named: dict[str, Any] = {f"spec.{name}": value for name, value in _flat(document["spec"])}
    named |= {f"version.{name}": value for name, value in document["software"].items()}
    named["seed"] = document["seed"]
    return {key(name): clipped(value) for name, value in sorted(named.items()) if value is not None}


def simulation_tags(document: Document) -> dict[str, str]:
    """Return what a simulation is found by."""
    certified = document["result"]["calibration"] or {}
    named = {
        "record.id": document["id"],
        "record.schema": document["schema"],
        "record.created": document["created"],
        "stage": str(document["spec"]["stage"]),
        "calibration.id": certified.get("id"),
        "instrument": certified.get("instrument"),
        "sufficient": str(document["result"]["sufficient"]).lower(),
    }
    return {name: clipped(value) for name, value in named.items() if value}


def plan_metrics(document: Document) -> Metrics:
    """Return the sizes of a plan, and what they reach."""
    result = document["result"]
    named = {name: result[name] for name in ("target", "power", "achieved", "achieved_power", "limit", "cost")}
    named |= result["sizes"] or {}
    return {name: float(value) for name, value in named.items() if value is not None}


def plan_tags(document: Document) -> dict[str, str]:
    """Return what a plan is found by."""
    result = document["result"]
    named = {
        "record.id": document["id"],
        "record.schema": document["schema"],
        "record.created": document["created"],
        "goal": result["goal"],
        "status": result["status"],
        "calibration.id": result["judge"]["calibration"],
        "instrument": result["judge"]["instrument"],
    }
    return {name: clipped(value) for name, value in named.items() if value}


def certificate_tags(record_id: str, coverage: Mapping[str, Any]) -> dict[str, str]:
    """Return what a calibration, or a measurement with it, says of its certificate."""
    return {
        "certificate.id": record_id,
        "certificate.coverage": f"{coverage['coverage']:.4f}",
        "certificate.sufficient": str(coverage["sufficient"]).lower(),
    }


def judge_name(document: Document) -> str:
    """Return the judge as ``name@version``."""
    judge = document["result"]["judge"]
    return f"{judge['name']}@{judge['version']}"


def milliseconds(created: str) -> int:
    """Return a record's time as MLflow counts it."""
    return int(datetime.fromisoformat(created).timestamp() * 1000)


def calibration_text(document: Document) -> str:
    """Describe a calibration in Markdown: its table as on the terminal."""
    result = document["result"]
    rows = [("**composite**", result["composite"]), *((cell(n), row) for n, row in result["categories"].items())]
    head = (
        f"Instrument **{cell(result['instrument'])}**, judge **{cell(judge_name(document))}**, "
        f"source: {cell(result['calibration_source'])}."
    )
    lines = [
        head,
        "",
        "| | threshold | sensitivity | specificity | J | J low | status |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for name, row in rows:
        decides = is_detector(result) and row["threshold"] is not None
        figures = (
            "decision" if decides and field == "threshold" else _decimal(row[field]) for field in CALIBRATION_METRICS
        )
        lines.append(f"| {name} | {' | '.join(figures)} | {row['status']} |")
    return "\n".join(lines)


def version_text(document: Document) -> str:
    """Describe a calibration in one line of plain text, as a list of versions shows it."""
    result = document["result"]
    composite = result["composite"]
    figures = "no J" if composite["youden_j"] is None else f"J {composite['youden_j']:.3f}"
    if composite["youden_j_low"] is not None:
        figures += f" (low {composite['youden_j_low']:.3f})"
    n_categories = len(composite["categories"])
    return f"Composite of {n_categories}: {figures}, {composite['status']}; {document['created'][:10]}"


def measurement_text(document: Document) -> str:
    """Describe a measurement in Markdown: the headline first, then all categories."""
    result = document["result"]
    composite = result["composite"]
    prevalence = composite["prevalence"]
    corrected = (
        f"**{percent(prevalence['value'])} {limits(prevalence['interval'])}** "
        f"({100 * prevalence['interval']['confidence_level']:g}% interval)"
        if prevalence["value"] is not None
        else f"none: **{prevalence['status']}**"
    )
    headline = (
        f"Composite rate, corrected for the judge's errors: {corrected}; flagged by the judge: "
        f"{percent(composite['observed_rate'])} of {composite['n_units']} fully scored units."
    )
    made_with = (
        f"Instrument **{cell(result['instrument'])}**, judge **{cell(judge_name(document))}**, target "
        f"**{cell(result['target'] or 'not named')}**, calibration source: {cell(result['calibration']['source'])}."
    )
    lines = [
        headline,
        "",
        made_with,
        *certificate_lines(result["calibration"].get("certificate")),
        "",
        "| | flagged | corrected | interval | status |",
        "|---|---:|---:|---:|---|",
    ]
    for name, row in {"composite": composite, **parts(document)}.items():
        rate = row.get("prevalence") or {}
        observed = row.get("observed_rate", row.get("rate"))
        figures = (percent(observed), percent(rate.get("value")), limits(rate.get("interval")))
        lines.append(f"| {cell(name)} | {' | '.join(figures)} | {rate.get('status', 'diagnostic')} |")
    return "\n".join(lines)


def certificate_lines(certificate: Mapping[str, Any] | None) -> list[str]:
    """Say in Markdown what a measurement's certificate comes to, and loudly where it is not enough."""
    if certificate is None:
        return []
    error = f"{100 * certificate['mc_error']:.1f}"
    covered = f"{percent(certificate['coverage'])} ± {error} of simulated truths where it did worst"
    level = f"{100 * certificate['confidence_level']:g}%"
    told = f"Certificate {certificate['id'][:12]}: the {level} interval covered {covered}."
    if not certificate["sufficient"]:
        told = f"**{told} That is not enough for it to be evidence.**"
    return ["", told]


def cell(text: object) -> str:
    """Show untrusted text in a Markdown table: no control characters, no markup."""
    return re.sub(r"([|<>`*_\[\]\\])", r"\\\1", printable(str(text).replace("\n", " ")))


def _decimal(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
