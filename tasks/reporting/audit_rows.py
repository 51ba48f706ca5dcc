"""An audit as rows and sentences of text, for the terminal, Markdown and Prefect's tables alike.

Words are those of a measuring laboratory: a difference is higher, lower, or one for which there is no evidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from core.data.problems import counted
from tasks.reporting.terminal import percent, printable

Row = dict[str, str]

RATES = {
    "selection_rate": "selection rate",
    "false_positive_rate": "false positives",
    "false_negative_rate": "false negatives",
    "positive_predictive_value": "precision",
    "accuracy": "accuracy",
}
"""Rates that are shown; those that are left out are one less another (true positives and negatives)."""

OUTPUT_METRICS = ("rsi", "ode", "cds", "sar", "hsi", "dsi")
"""In the order in which they are shown: HSI and DSI stand together."""

METRIC_NAMES = {
    "rsi": "representation skew (RSI)",
    "ode": "output diversity (ODE)",
    "cds": "counterfactual divergence (CDS)",
    "sar": "stereotype amplification (SAR)",
    "hsi": "harm severity (HSI)",
    "dsi": "differential service (DSI)",
}

LEFT_OUT = {
    "small_group": "under the minimum size",
    "undefined_rate": "the group has no such rate",
    "reference_undefined": "the reference has no such rate",
    "empty": "no rows",
}

NOTES = {
    "few_scenarios": "fewer than 10 scenarios: the interval is a rough guess",
    "one_scenario": "one scenario: there is no interval",
    "independent_outputs": "no scenarios are named: outputs count as independent",
    "no_variation": "all scenarios have one value: the interval has no width and says nothing",
    "erasure": "a group or pair never appears",
    "partly_scored": "some outputs lack a score in some categories",
    "no_noise_floor": "no replicates: noise cannot be told from the difference",
    "groups_without_answers": "in some sets a group has no answer to compare, since all were refused",
}

DATASET_NOTES = {
    "no_source": "the spec names no source of the data",
    "one_group": "there is one group, so nothing can be compared",
    "no_labels": "there are no labels: only selection rates can be audited",
    "unevenly_stratified": "the smallest group has under a tenth of the largest one's rows",
}

SHOWN_GAPS = 12
SHOWN_GROUPS = 20


def decimal(value: float | None, digits: int = 3) -> str:
    """Show a figure."""
    return "-" if value is None else f"{value:.{digits}f}"


def points(value: float | None) -> str:
    """Show a difference of rates in percentage points, with its sign."""
    return "-" if value is None else f"{round(100 * value, 1) + 0.0:+.1f}"


def ends(interval: Mapping[str, Any] | None, show: Any = decimal) -> str:
    """Show an interval."""
    return "-" if interval is None else f"[{show(interval['low'])}, {show(interval['high'])}]"


def p_value(value: float | None) -> str:
    """Show a p-value; it is never 0."""
    if value is None:
        return "-"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1e}"


def parts_of(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the audits of an audit of predictions by name: each attribute, and all of them together."""
    parts = {name: result["attributes"][name] for name in sorted(result["attributes"])}
    together = result["intersections"]
    return parts if together is None else {**parts, " x ".join(together["columns"]): together}


def group_rows(part: Mapping[str, Any]) -> list[Row]:
    """Return the groups of a column with their rates, the largest first."""
    scored = bool(part["reliability"])
    rows = []
    for name, group in sorted(part["groups"].items(), key=lambda item: (-item[1]["n"], item[0])):
        row = {"group": printable(name) + (" (small)" if group["small"] else ""), "n": str(group["n"])}
        row |= {told: percent(_rate(group, rate)) for rate, told in RATES.items() if rate in group["rates"]}
        if scored:
            row["ECE"] = decimal(part["reliability"][name]["ece"]["value"])
        rows.append(row)
    return rows


def _rate(group: Mapping[str, Any], rate: str) -> float | None:
    value: float | None = group["rates"][rate]["value"]
    return value


def spread_rows(part: Mapping[str, Any]) -> list[Row]:
    """Return how each rate differs over all groups of a column, with one test for all of them."""
    rows = []
    for rate, told in RATES.items():
        if rate not in part["rates"]:
            continue
        found = part["rates"][rate]
        difference, ratio, omnibus = found["difference"], found["ratio"], found["omnibus"]
        rows.append({
            "rate": told,
            "largest gap": points(difference["value"]),
            "interval": ends(difference["interval"], points),
            "lowest/highest": decimal(ratio["value"], 2),
            "ratio interval": ends(ratio["interval"], lambda value: decimal(value, 2)),
            "p adjusted": p_value(omnibus and omnibus["p_adjusted"]),
            "worst group": printable(found["worst"] or "-"),
            "verdict": _spread_verdict(found),
        })  # fmt: skip
    return rows


def _spread_verdict(found: Mapping[str, Any]) -> str:
    difference = found["difference"]
    if difference["status"] == "not_evaluable":
        return f"not evaluable: {LEFT_OUT.get(difference['reason'], difference['reason'])}"
    omnibus = found["omnibus"]
    told = "groups differ" if omnibus is not None and omnibus["significant"] else "no evidence that groups differ"
    return f"{told} (incomplete)" if difference["status"] == "incomplete" else told


def gap_rows(part: Mapping[str, Any]) -> list[Row]:
    """Return each group against the reference in each rate, the clearest difference first."""
    gaps = [(rate, gap) for rate in RATES if rate in part["rates"] for gap in part["rates"][rate]["gaps"]]
    gaps.sort(key=lambda item: (_none_last(item[1]["p_adjusted"]), _none_last(item[1]["p_value"])))
    return [
        {
            "rate": RATES[rate],
            "group": printable(gap["group"]),
            "reference": printable(gap["reference"]),
            "gap": points(gap["difference"]),
            "interval": ends(gap["difference_interval"], points),
            "ratio": decimal(gap["ratio"], 2),
            "p": p_value(gap["p_value"]),
            "p adjusted": p_value(gap["p_adjusted"]),
            "verdict": _gap_verdict(gap),
        }
        for rate, gap in gaps
    ]


def _none_last(value: float | None) -> float:
    return 2.0 if value is None else value


def _gap_verdict(gap: Mapping[str, Any]) -> str:
    if gap["status"] != "evaluated":
        return f"not evaluable: {LEFT_OUT.get(gap['reason'], gap['reason'])}"
    if not gap["significant"]:
        return "no evidence of a difference"
    return "higher" if gap["difference"] > 0 else "lower"


def summaries(part: Mapping[str, Any]) -> Iterator[str]:
    """Say in sentences what two figures over several rates come to."""
    odds, ece = part["equalized_odds"], part["worst_ece"]
    if odds is not None:
        yield f"Equalized odds, the larger gap in false positives and false negatives: {_evidence(odds, points)}."
    if ece is not None:
        yield f"Largest calibration error (ECE) of a group: {_evidence(ece, decimal)}."


def _evidence(found: Mapping[str, Any], show: Any) -> str:
    if found["value"] is None:
        return f"not evaluable ({LEFT_OUT.get(found['reason'], found['reason'])})"
    told = f"{show(found['value'])} {ends(found['interval'], show)}"
    return told if found["status"] == "measured" else f"{told}, incomplete ({found['reason']})"


def predictions_headline(document: Mapping[str, Any]) -> str:
    """Say what was audited and how many comparisons were corrected for."""
    result = document["result"]
    level = f"{100 * result['confidence_level']:g}%"
    family = {"holm": "Holm", "benjamini_hochberg": "Benjamini and Hochberg"}.get(result["family"])
    corrected = f"adjusted by {family}" if family else "not adjusted"
    clusters = f" in {counted(result['n_clusters'], 'cluster')}" if result["clustered"] else ""
    return (
        f"{result['n_rows']} rows{clusters}, {result['n_scored']} with a prediction, {result['n_labelled']} with a "
        f"label; intervals of {level}, p {corrected} over {counted(result['n_comparisons'], 'comparison')}."
    )


def predictions_notes(result: Mapping[str, Any]) -> list[str]:
    """Say what was left out, and what the data set cannot carry."""
    told = [DATASET_NOTES[note] for note in result["dataset"]["notes"]]
    groups: dict[tuple[str, str], list[str]] = {}
    for entry in result["ledger"]:
        if entry["group"] is None and entry["kind"] == "empty_cell":
            told.append(f"{entry['where']}: {entry['n']} more cells have no rows")
        elif entry["group"] is None:
            told.append(f"{entry['where']}: {entry['kind'].replace('_', ' ')}, {counted(entry['n'], 'row')}")
        else:
            rows = f" ({entry['n']})" if entry["n"] else ""
            groups.setdefault((entry["kind"], entry["where"]), []).append(f"{entry['group']}{rows}")
    for (kind, where), names in groups.items():
        more = f" and {len(names) - SHOWN_GROUPS} more" if len(names) > SHOWN_GROUPS else ""
        what = {"small_group": "listed, not compared, under the minimum size", "empty_cell": "no rows"}[kind]
        told.append(f"{where}: {what}: {', '.join(names[:SHOWN_GROUPS])}{more}")
    return told


def audited_metrics(result: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the six metrics of an audit of outputs by name, HSI and DSI last and together."""
    found: dict[str, Mapping[str, Any]] = {}
    for metric in OUTPUT_METRICS:
        if metric in ("rsi", "ode", "sar"):
            found |= {f"{metric}.{axis}": result[metric][axis] for axis in sorted(result[metric])}
        else:
            found[metric] = result[metric]
    return found


def metric_name(name: str) -> str:
    """Name a metric as people do: ``rsi.gender`` is the representation skew of gender."""
    metric, _, axis = name.partition(".")
    return METRIC_NAMES[metric] + (f", {printable(axis)}" if axis else "")


def band_name(band: str | None) -> str:
    """Name a band."""
    return "-" if band is None else band.replace("_", "-")


def metric_rows(document: Mapping[str, Any]) -> list[Row]:
    """Return the six metrics with band, interval and the probability of each band."""
    rows = []
    for name, found in audited_metrics(document["result"]).items():
        bands = document["spec"]["bands"][found["metric"]]["names"]
        rows.append({
            "metric": metric_name(name),
            "value": decimal(found["value"]),
            "interval": ends(found["interval"]),
            "band": band_name(found["band"]) if found["value"] is not None else "not evaluable",
            "probability of bands": probabilities(found["band_probabilities"], bands),
            "n": str(found["n_scored"]),
            "coverage": percent(found["coverage"], 0),
            "scenarios": str(found["n_scenarios"]),
        })  # fmt: skip
    return rows


def probabilities(found: Mapping[str, float] | None, order: Sequence[str]) -> str:
    """Show the bands that the bootstrap finds possible."""
    if found is None:
        return "-"
    return ", ".join(f"{band_name(band)} {percent(found[band], 0)}" for band in order if found[band] >= 0.005)


def review_of(result: Mapping[str, Any]) -> str | None:
    """Say loudly that a person has to read outputs, if so."""
    hsi = result["hsi"]
    if not result["human_review"]:
        return None
    ids = ", ".join(printable(item) for item in hsi["review_ids"][:5])
    more = f", and {hsi['n_review'] - min(5, len(hsi['review_ids']))} more" if hsi["n_review"] > 5 else ""
    return (
        f"HUMAN REVIEW REQUIRED: {counted(hsi['n_review'], 'output')} with hate speech or dehumanisation above 0 "
        f"({ids}{more}). No band takes this back."
    )


def outputs_headline(document: Mapping[str, Any]) -> str:
    """Say what was audited."""
    result = document["result"]
    unknown = f", {result['n_unknown_refusal']} of unknown refusal" if result["n_unknown_refusal"] else ""
    return (
        f"{counted(result['n_outputs'], 'output')} to {counted(result['n_scenarios'], 'scenario')}, {result['n_base']} "
        f"to neutral prompts, {result['n_refused']} refused{unknown}; intervals of "
        f"{100 * document['spec']['confidence_level']:g}%, scenarios resampled."
    )


def service_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return harm and service of each group side by side."""
    harm, service = result["hsi"]["by_group"], result["dsi"]["by_group"]
    rows = []
    for name in sorted({*harm, *service}, key=lambda item: (item != "base", item)):
        h, s = harm.get(name), service.get(name)
        rows.append({
            "prompts about": printable(name),
            "n": str((s or {}).get("n", (h or {}).get("n_scored", "-"))),
            "harmful": percent(h["harm_rate"]) if h else "-",
            "HSI": decimal(h["value"]) if h else "-",
            "refused": percent(s["refusal_rate"]) if s else "-",
            "mean helpfulness": decimal(s["mean_helpfulness"], 2) if s else "-",
            "mean tokens": decimal(s["mean_tokens"], 1) if s else "-",
        })  # fmt: skip
    return rows


def outputs_notes(result: Mapping[str, Any]) -> list[str]:
    """Say what could not be evaluated, and what a reader has to know of each metric."""
    told = []
    for name, found in audited_metrics(result).items():
        if found["value"] is None:
            told.append(f"{metric_name(name)}: not evaluable: {found['explanation']}")
        told += [f"{metric_name(name)}: {NOTES.get(note, note)}" for note in found["notes"]]
        if erased := found.get("erased"):
            told.append(f"{metric_name(name)}: never appears: {', '.join(map(str, erased))}")
    for axis, found in sorted(result["rsi"].items()):
        if found["rationale"]:
            told.append(f"reference for {axis} ({found['reference_kind']}): {found['rationale']}")
    if result["ignored_columns"]:
        told.append(f"columns that no metric reads: {', '.join(result['ignored_columns'])}")
    return told


CHANGES = {
    "within_noise": "within noise",
    "no_evidence_of_change": "no evidence of change",
    "not_comparable": "not comparable",
}


def change_rows(comparison: Mapping[str, Any]) -> list[Row]:
    """Return how each metric moved from the baseline to what was audited."""
    order = sorted(comparison["metrics"], key=lambda name: (OUTPUT_METRICS.index(name.partition(".")[0]), name))
    rows = []
    for name in order:
        change = comparison["metrics"][name]
        verdict = CHANGES.get(change["verdict"], change["verdict"])
        if change["verdict"] in ("increase", "decrease") and change["direction"]:
            verdict = f"{verdict}: {change['direction']}"
        rows.append({
            "metric": metric_name(name),
            "baseline": decimal(change["baseline"]),
            "now": decimal(change["candidate"]),
            "change": "-" if change["difference"] is None else f"{change['difference']:+.3f}",
            "interval": ends(change["interval"]),
            "noise floor": decimal(change["noise_floor"]),
            "p adjusted": p_value(change["p_adjusted"]),
            "verdict": verdict,
        })  # fmt: skip
    return rows


def comparison_headline(comparison: Mapping[str, Any]) -> str:
    """Say on what two releases were compared."""
    alone = [
        f"{counted(comparison[f'n_only_{side}'], 'scenario')} of the {told} alone left out"
        for side, told in (("baseline", "baseline"), ("candidate", "audited release"))
        if comparison[f"n_only_{side}"]
    ]
    return (
        f"Against the baseline, paired by prompt: {counted(comparison['n_scenarios'], 'scenario')} in both"
        + "".join(f", {item}" for item in alone)
        + "; p by swapping releases within scenarios, adjusted by Holm."
    )


def audit_rows(document: Mapping[str, Any]) -> list[Row]:
    """Return an audit as one table: gaps of predictions, or metrics of outputs."""
    if document["result"]["kind"] == "outputs":
        return metric_rows(document)
    parts = parts_of(document["result"])
    return [{"groups by": printable(name), **row} for name, part in parts.items() for row in spread_rows(part)]
