"""What the terminal shows of a record. Untrusted names are shown without control characters or markup."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.data.problems import counted

if TYPE_CHECKING:
    from tasks.tracking import Tracked

SHOWN_SLICES = 5

STATUS_STYLE = {
    "measured": "green",
    "inconclusive": "yellow",
    "incompatible": "yellow",
    "below_detection_floor": "red",
    "not_calibrated": "red",
    "insufficient_data": "red",
    "unit_mismatch": "red",
}

STATUS_MEANING = {
    "inconclusive": "the judge may be below the detection floor; treat the rate as weak evidence",
    "incompatible": "the judge flags fewer or more than its error rates allow; no rate can be given",
    "below_detection_floor": "this judge cannot measure this: no corrected rate is given",
    "not_calibrated": "nothing is known about the judge's errors here: the observed rate is uncorrected",
    "insufficient_data": "too little evidence for a corrected rate",
    "unit_mismatch": "the golden set's conversations are not of production's kind: no corrected rate is given",
}


def console(*, stderr: bool = False) -> Console:
    """Return a console: colours and width of the terminal, or plain 110 columns when it is not one."""
    made = Console(stderr=stderr, highlight=False, soft_wrap=False)
    return made if made.is_terminal else Console(stderr=stderr, highlight=False, width=120, no_color=True)


def printable(text: object) -> str:
    r"""Show control characters as escapes: what a file holds must not steer the terminal.

    Examples
    --------
    >>> printable("a\x1b[31mb")
    'a\\x1b[31mb'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def words(text: object, style: str = "") -> Text:
    """Return untrusted text for display."""
    return Text(printable(text), style=style)


def percent(value: float | None, digits: int = 1) -> str:
    """Show a rate."""
    return "-" if value is None else f"{100 * value:.{digits}f}%"


def _decimal(value: float | None, digits: int = 3) -> str:
    return "-" if value is None else f"{value:.{digits}f}"


def limits(interval: Mapping[str, Any] | None) -> str:
    """Show an interval of a rate."""
    if not interval or interval.get("low") is None:
        return "-"
    return f"[{percent(interval['low'])}, {percent(interval['high'])}]"


def _status(status: str) -> Text:
    return Text(status, style=STATUS_STYLE.get(status, ""))


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for i, column in enumerate(columns):
        text = i == 0 or column in ("quantity", "status", "lowest specificity")
        whole = text or column in ("interval", "95% interval")
        table.add_column(column, justify="left" if text else "right", no_wrap=whole, overflow="ellipsis")
    return table


def calibration_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a calibration."""
    result = document["result"]
    table = _table("", "threshold", "positives", "negatives", "sens.", "spec.", "J", "J low", "status")
    rows = [*result["categories"].items(), ("composite", result["composite"])]
    for name, row in rows if result["composite"]["categories"] else rows[:-1]:
        hits, passes = row["true_positives"], row["true_negatives"]
        table.add_row(
            words(name, "bold" if name == "composite" else ""),
            threshold(name, row, result),
            f"{row['n_positive']}" if hits is None else f"{hits}/{row['n_positive']}",
            f"{row['n_negative']}" if passes is None else f"{passes}/{row['n_negative']}",
            _decimal(row["sensitivity"]),
            _decimal(row["specificity"]),
            _decimal(row["youden_j"]),
            _decimal(row["youden_j_low"]),
            _status(row["status"]),
        )
    golden = result["golden"]
    lines: list[RenderableType] = [
        Text("Calibration", style="bold").append(f" {document['id'][:12]}"),
        words(f"instrument {result['instrument']}, judge {_judge(result)}, source: {result['calibration_source']}"),
    ]
    if golden is not None:
        lines.append(
            Text(
                f"golden set: {counted(golden['n_traces'], 'trace')}, {counted(golden['n_clusters'], 'cluster')}, "
                f"{golden['n_undecidable']} undecidable for the composite"
            )
        )
    lines += [table, *_ceiling(result["composite"]), Text(_basis(document), style="dim"), *_raters(result)]
    lines += sources_of(result)
    return Group(*lines, *_slices(document), *_notes(result, rows))


def _raters(result: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Say how far the raters agree, and what that does to J: a line in all, and one a category."""
    raters = (result["golden"] or {}).get("raters")
    if raters is None:
        return
    yield Text(
        f"labels are majorities of {counted(raters['n_votes'], 'vote')} of {counted(raters['n_raters'], 'rater')}; "
        f"{counted(raters['n_ties'], 'tie')} left without a label"
    )
    for name, row in result["categories"].items():
        if row.get("agreement") is not None:
            yield words(f"  {name}: {agreement_of(row['agreement'], result['detection_floor'])}")


def agreement_of(agreement: Mapping[str, Any], floor: float) -> str:
    """Say in a line how far raters agree, and what J a judge at the floor would show on their labels."""
    raters, noise = agreement["raters"], agreement["label_noise"]
    if raters["n_paired_units"] == 0:
        return "no trace was rated twice: nothing is known of the raters' agreement"
    known = raters["alpha"] is not None
    told = f"alpha {raters['alpha']:.2f} [{raters['low']:.2f}, {raters['high']:.2f}]" if known else (
        "alpha is undefined, as all ratings are one value"
    )  # fmt: skip
    told += (
        f"; {percent(raters['disagreement'], 0)} of vote pairs differ; "
        f"{percent(raters['single_vote_share'], 0)} of labels rest on one vote"
    )
    if noise is None:
        return told
    if noise["status"] != "derived":
        return f"{told}; what votes that differ so often do to J cannot be told"
    return f"{told}; a judge at the floor of {floor:g} would show J {noise['floor_on_labels']:.2f}"


def threshold(name: str, row: Mapping[str, Any], result: Mapping[str, Any]) -> str:
    """Show at what a calibration flags: a score, any category, or (of a detector) the decision itself."""
    if name == "composite":
        return "any"
    if is_detector(result):
        return "-" if row["threshold"] is None else "decision"
    return _decimal(row["threshold"], 6)


def is_detector(result: Mapping[str, Any]) -> bool:
    """Whether a calibration is of decisions."""
    return result.get("kind") == "detections"


def _basis(document: Mapping[str, Any]) -> str:
    """Say where sensitivity and specificity come from."""
    if is_detector(document["result"]):
        return (
            "Sensitivity, specificity and J are as counted: a detector decides by itself, no threshold was chosen on\n"
            "these traces, and there is no optimism to take off."
        )
    if document["result"]["calibration_source"] == "declared":
        return "Thresholds, sensitivity and specificity are as declared, and were not measured here."
    if document["spec"]["optimism"]["method"] == "none":
        return (
            "Sensitivity, specificity and J are apparent: the traces that chose the threshold also judge it, and the\n"
            "optimism of that was not taken off."
        )
    if document["spec"]["optimism"]["method"] == "holdout":
        return (
            "Sensitivity, specificity and J come from one half of the golden set, the thresholds from the other;\n"
            "counts are of the half that measured."
        )
    return (
        "Sensitivity, specificity and J are corrected for the optimism of a threshold tuned on the same traces;\n"
        "counts are at the deployed threshold, before that correction."
    )


def _slices(document: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Show where the composite is worst: for each slice column the slices with the lowest rates."""
    holdout = document["spec"].get("optimism", {}).get("method") == "holdout"
    basis = "of the half that measured" if holdout else "counted" if is_detector(document["result"]) else "apparent"
    for column, slices in document["result"]["slices"].items():
        table = _table("lowest sensitivity", "sens.", "positives", "lowest specificity", "spec.", "negatives")
        sides = (
            _lowest(slices, "sensitivity", "true_positives", "n_positive"),
            _lowest(slices, "specificity", "true_negatives", "n_negative"),
        )
        for left, right in itertools.zip_longest(*sides, fillvalue=("", "", "")):
            table.add_row(words(left[0]), *left[1:], words(right[0]), *right[1:])
        yield Text("Composite by ").append(printable(column)).append(f" ({counted(len(slices), 'slice')}, {basis})")
        yield table


def _lowest(slices: Mapping[str, Any], rate: str, hits: str, total: str) -> list[tuple[str, str, str]]:
    """Name the slices with the lowest rate, of several equal ones the largest."""
    known = [(row["composite"], name) for name, row in slices.items() if row["composite"][total]]
    known.sort(key=lambda item: (item[0][rate], -item[0][total], item[1]))
    return [(name, _decimal(row[rate]), f"{row[hits]}/{row[total]}") for row, name in known[:SHOWN_SLICES]]


def _judge(result: Mapping[str, Any]) -> str:
    judge = result["judge"]
    source = {"assumed": " (assumed)", "ran": " (run here)"}.get(result["judge_source"], "")
    return f"{judge['name']}@{judge['version']}{source}"


def _ceiling(composite: Mapping[str, Any]) -> Iterable[RenderableType]:
    if not composite["categories"]:
        yield Text("composite: spans no category", style="red")
    ceiling = composite.get("ceiling")
    if ceiling and len(composite["categories"]) > 1:
        yield Text(
            f"Composite specificity {ceiling['measured']:.3f}: lowest category {ceiling['minimum']:.3f}, "
            f"product of categories {ceiling['product']:.3f} (the ceiling effect)."
        )


def _notes(result: Mapping[str, Any], rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterable[RenderableType]:
    for note in result["notes"]:
        yield words(f"! {note}", "yellow")
    for name, row in rows:
        for note in row.get("notes", ()):
            yield words(f"! {name}: {note}", "yellow")


def measurement_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a measurement: the headline first, then the table, then what a reader has to know."""
    result = document["result"]
    composite = result["composite"]
    title = f" {document['id'][:12]}" + (f" of {result['target']}" if result["target"] else "")
    lines: list[RenderableType] = [
        Text("Measurement", style="bold").append(printable(title)),
        words(
            f"instrument {result['instrument']}, judge {_judge(result)}, calibration source: "
            f"{result['calibration']['source']}"
        ),
        _headline(composite),
    ]
    lines += [_rates(result), _accounting(result), *sources_of(result)]
    lines += [*_certificate(result), *_transport(result), *_mix(composite)]
    rows = [("composite", composite["prevalence"])]
    rows += [(name, row["prevalence"]) for name, row in result.get("categories", {}).items()]
    rows += [(name, row["prevalence"]) for name, row in result.get("attributes", {}).items() if "prevalence" in row]
    return Group(*lines, *_meanings(rows), *_notes(result, rows))


def _certificate(result: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Say what is known of the interval's coverage."""
    certificate = result["calibration"].get("certificate")
    if certificate is not None:
        covered = f"{percent(certificate['coverage'])} ± {100 * certificate['mc_error']:.1f}"
        yield Text(
            f"certificate {certificate['id'][:12]}: the interval covered {covered} of simulated truths where it did "
            f"worst, {percent(certificate['mean_coverage'])} on average",
            style="" if certificate["sufficient"] else "red",
        )


READ = {
    "corrected": "read the corrected rate",
    "ppi": "read the prediction-powered rate",
    "refused": "read no rate",
}
"""What a choice between the rates comes to."""


def choice_of(name: str, row: Mapping[str, Any]) -> str | None:
    """Say which rate labelled traces of production leave to be read, and why; None without such traces.

    A prediction-powered rate that is not to be read is in the record only.
    """
    transport = row.get("transport")
    if transport is None:
        return None
    powered, shown = transport["prediction_powered"], ""
    if transport["choice"] == "ppi":
        shown = f" Prediction-powered: {percent(powered['value'])} {limits(powered)}."
    return f"{name}: {READ[transport['choice']]}: {transport['reason']}.{shown}"


def _transport(result: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Say what labelled traces of production come to."""
    labels = result.get("labels")
    if labels is not None:
        unmatched = (
            f"; labels of {counted(labels['n_unmatched'], 'other trace')} left out" if labels["n_unmatched"] else ""
        )
        yield Text(f"{counted(labels['n_traces'], 'trace')} of production labelled{unmatched}")
    told = choice_of("composite", result["composite"])
    if told is None:
        return
    yield words(told, "" if result["composite"]["transport"]["choice"] == "corrected" else "yellow")
    table = _table("", "labelled", "sens. golden", "here", "spec. golden", "here", "flagged rest", "labelled", "read")
    for name, row in [("composite", result["composite"]), *result.get("categories", {}).items()]:
        found = row.get("transport")
        if found is not None:
            rates = (found["sensitivity"], found["specificity"], found["flag_rate"])
            cells = [_compared(rate[side], rate, side) for rate in rates for side in ("reference", "found")]
            powered = found["prediction_powered"]
            table.add_row(words(name), str(powered["n_labelled"] if powered else "-"), *cells, found["choice"])
    yield table
    yield Text("*: differs from the golden set, or from the rest of production, beyond chance", style="dim")


def _compared(value: float | None, rate: Mapping[str, Any], side: str) -> str:
    return _decimal(value) + ("*" if side == "found" and rate["finding"] == "differs" else "")


def _mix(composite: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Say what an interval that allows for production's mix of categories is, where the instrument asks for it."""
    robust = composite["prevalence"].get("mix_robust")
    if robust is not None and robust["status"] == "derived":
        yield Text(f"If production's mix of categories differs from the golden set's: {limits(robust)} (mix_robust).")
    elif robust is not None:
        yield words(f"mix_robust: not available, {robust['reason']}")


def certificate_hint(document: Mapping[str, Any]) -> Text | None:
    """Say how a measurement without a certificate gets one; in one line, since it holds a command."""
    link = document["result"]["calibration"]
    if not link["id"] or link["certificate"] is not None:
        return None
    uri = next(item["uri"] for item in document["inputs"] if item["role"] == "calibration")
    return words(f"no certificate: `assay simulate --calibration {uri}` shows how well the interval covers", "dim")


def _headline(composite: Mapping[str, Any]) -> Text:
    prevalence = composite["prevalence"]
    if prevalence["value"] is not None:
        level = 100 * Decimal(repr(prevalence["interval"]["confidence_level"]))  # exact: 0.9999999 is not 100%
        return Text(
            f"Composite rate, corrected: {percent(prevalence['value'])} "
            f"{limits(prevalence['interval'])} ({level.normalize():f}% interval)",
            style="bold",
        )
    return Text(f"Composite rate, corrected: none ({prevalence['status']})", style="bold red").append(
        f"  observed: {percent(composite['observed_rate'])}", style="default"
    )


def _rates(result: Mapping[str, Any]) -> Table:
    table = _table("", "units", "flagged", "observed", "interval", "corrected", "interval", "status")
    rows = [("composite", result["composite"]), *result.get("categories", {}).items()]
    for name, row in rows:
        prevalence = row["prevalence"]
        table.add_row(
            words(name, "bold" if name == "composite" else ""),
            str(row["n_units"]),
            str(row["n_flagged"]),
            percent(row["observed_rate"]),
            limits(row["observed_interval"]) if row["observed_interval"]["status"] == "defined" else "undefined",
            percent(prevalence["value"]),
            limits(prevalence["interval"]),
            _status(prevalence["status"]),
        )
    for name, row in result.get("attributes", {}).items():
        prevalence = row.get("prevalence")
        table.add_row(
            words(name),
            str(row["n_units"]),
            str(row["n_flagged"]),
            percent(row["rate"]),
            "diagnostic",
            "" if prevalence is None else percent(prevalence["value"]),
            "" if prevalence is None else limits(prevalence["interval"]),
            "" if prevalence is None else _status(prevalence["status"]),
        )
    return table


def _accounting(result: Mapping[str, Any]) -> Text:
    counts = result["accounting"]
    unscored = ", ".join(f"{n} {name}" for name, n in counts.items() if n and name not in ("attempted", "scored"))
    text = Text(
        f"{counted(result['n_traces'], 'trace')}, {counted(result['n_units'], 'unit')}, "
        f"{counted(result['n_turns'], 'turn')}; "
        f"{counts['scored']} fully scored" + (f", {unscored}" if unscored else "")
    )
    if counts["scored"] < counts["attempted"]:
        worst = result["composite"]["worst_case"]
        text.append(f"; if none or all of the undecided violate, the observed rate is {limits(worst)}")
    if result["error_budget_exceeded"]:
        text.append("\n! more units are unscored than the error budget allows", style="yellow")
    return text


def sources_of(result: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Say how other tools' files were read, and what was collapsed on the way."""
    for facts in result.get("sources", ()):
        collapsed = "".join(f", {count} {name}" for name, count in facts["counts"].items())
        yield words(
            f"read by {facts['reader']} from {facts['tool']} {facts['tool_version']}: higher is {facts['higher_is']}, "
            f"scale [{facts['scale'][0]:g}, {facts['scale'][1]:g}], turns: {facts['turn_scope']}{collapsed}"
        )


def _meanings(rows: Iterable[tuple[str, Mapping[str, Any]]]) -> Iterable[RenderableType]:
    for status in sorted({row["status"] for _, row in rows} & set(STATUS_MEANING)):
        yield Text(f"{status}: {STATUS_MEANING[status]}", style="dim")


def tracked_report(tracked: Tracked) -> RenderableType:
    """Say where a record is in MLflow, and what the registry says."""
    lines: list[RenderableType] = [
        words(f"tracked: runs:/{tracked.run_id} in {tracked.shown_uri}" + (" (was there)" if tracked.existed else ""))
    ]
    registered = tracked.registered
    if registered is not None:
        lines.append(words(f"registered: {registered.uri}" + (" (champion)" if registered.champion else "")))
    if tracked.note:
        lines.append(words(f"! {tracked.note}", "yellow"))
    return Group(*lines)


def check_report(summary: Mapping[str, Any]) -> RenderableType:
    """Show what `assay check` found."""
    lines: list[RenderableType] = [Text(f"Nothing wrong, read as {summary['kind']}", style="bold green")]
    tables: list[RenderableType] = []
    for name, value in summary.items():
        if name in ("kind", "categories", "columns", *TOOL_PARTS) or value in (None, [], {}):
            continue
        lines.append(words(f"  {name:<16}{_inline(value)}"))
    categories = summary.get("categories") or summary["columns"]
    columns = list(next(iter(categories.values())))
    table = _table("", *columns)
    for name, row in categories.items():
        table.add_row(words(name), *(str(row[column]) for column in columns))
    tables.append(table)
    return Group(*lines, *tables, *_tool_tables(summary))


SHOWN_HEADLINES = 8
TOOL_PARTS = ("flagged at", "rates", "headlines", "cannot tell")
"""What `assay check` says of another tool's file beyond its contents."""


def _tool_tables(summary: Mapping[str, Any]) -> Iterable[RenderableType]:
    """Show rates at a conventional threshold, and the tool's own figures beside ours."""
    for way, rates in summary.get("rates", {}).items():
        at = f"score >= {summary['flagged at']:g}, a convention, not a calibrated threshold"
        at = "the tool's own decisions, not corrected" if summary["kind"] == "detections" else at
        yield Text(f"Flagged, {way} ({at})", style="bold")
        table = _table("quantity", "scored", "flagged", "rate", "95% interval", "if none or all unscored violate")
        for name, row in rates.items():
            ends = None if row["interval"] is None else {"low": row["interval"][0], "high": row["interval"][1]}
            worst = {"low": row["worst case"][0], "high": row["worst case"][1]}
            shown = (str(row["scored"]), str(row["flagged"]), percent(row["rate"]), limits(ends), limits(worst))
            table.add_row(words(name), *shown)
        yield table
    if summary.get("headlines"):
        yield Text("The tool's own figures beside ours", style="bold")
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("what", "the tool", "assay", "why they differ"):
            table.add_column(column, overflow="fold")
        differ = [line for line in summary["headlines"] if line["why"] or line["tool"] != line["ours"]]
        for line in differ[:SHOWN_HEADLINES]:
            table.add_row(*(words(line[part]) for part in ("what", "tool", "ours", "why")))
        if differ:
            yield table
        if len(summary["headlines"]) > len(differ[:SHOWN_HEADLINES]):
            agree, more = len(summary["headlines"]) - len(differ), len(differ[SHOWN_HEADLINES:])
            rest = [f"{counted(agree, 'figure')} more on which both agree"] if agree else []
            rest += [f"{more} more that differ"] if more else []
            yield Text(f"and {' and '.join(rest)}; all with --json", style="dim")
    if summary.get("cannot tell"):
        yield Text("What such a file cannot tell", style="bold")
        yield from (words(f"  - {text}") for text in summary["cannot tell"])


def _inline(value: object) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {item}" for key, item in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def demo_report(releases: Sequence[tuple[str, Mapping[str, Any], Mapping[str, float]]]) -> RenderableType:
    """Show what was measured beside what is true by construction."""
    table = _table("release", "quantity", "flagged", "corrected", "95% interval", "true", "inside", "status")
    inside = total = 0
    for name, document, truth in releases:
        result = document["result"]
        for quantity, row in [("composite", result["composite"]), *result["categories"].items()]:
            interval = row["prevalence"]["interval"]
            holds = interval is not None and interval["low"] <= truth[quantity] <= interval["high"]
            inside, total = inside + holds, total + (interval is not None)
            table.add_row(
                words(name if quantity == "composite" else ""),
                words(quantity),
                percent(row["observed_rate"]),
                percent(row["prevalence"]["value"]),
                limits(interval),
                percent(truth[quantity]),
                "-" if interval is None else "yes" if holds else "no",
                _status(row["prevalence"]["status"]),
            )
    return Group(
        Text("Two simulated releases: measured beside true", style="bold"),
        table,
        Text(f"{inside} of {total} intervals hold the true rate; about 19 of 20 should, over many releases.\n"),
        Text(DEMO_MEANING),
    )


DEMO_MEANING = """\
What the numbers mean
  flagged    what the judge says: the share of conversations with a score at or above its threshold.
             The judge misses violations and raises false alarms, so this is not the rate of violations.
  corrected  the rate of violations behind it, given how often this judge is wrong on conversations
             that people have labelled.
  interval   where the true rate lies; the doubt about production and about the judge are both in it.
  true       known here only because the releases are simulated. Your own measurement has no such
             column: the interval is what you have.
"""
