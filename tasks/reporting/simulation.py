"""What the terminal shows of a simulation: the cells with the lowest coverage first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from core.data.problems import counted
from core.simulation.simulated import least_coverage
from tasks.reporting.terminal import percent, words

SHOWN_CELLS = 12

NAMES = {
    "modified_wilson": "modified Wilson",
    "wilson": "Wilson",
    "clopper_pearson": "Clopper-Pearson",
    "jeffreys": "Jeffreys",
    "lang_reiczigel": "Lang-Reiczigel",
    "lang_reiczigel_independent": "Lang-Reiczigel, clusters ignored",
    "delta": "delta",
    "melded": "melded",
    "bootstrap": "bootstrap",
}

STAGES = {
    1: "stage 1: the intervals of an observed rate",
    2: "stage 2: the corrected rate, from counts at known prevalence, sensitivity and specificity",
    3: "stage 3: the whole chain, calibrated on drawn golden sets and measured on drawn production",
}

Row = dict[str, str]


def name_of(method: str) -> str:
    """Name an interval as people do."""
    return NAMES.get(method, method)


def title_of(document: Mapping[str, Any]) -> str:
    """Say what was simulated."""
    certified = document["result"]["calibration"]
    if certified is None:
        return STAGES.get(document["result"]["stage"], "")
    return (
        f"certificate of calibration {certified['id'][:12]}: instrument {certified['instrument']}, judge "
        f"{certified['judge']}, at its own counts"
    )


def verdict_of(document: Mapping[str, Any]) -> str:
    """Say in a sentence what the coverage of all cells comes to."""
    result = document["result"]
    n, level = result["n_cells"], result["confidence_level"]
    worst = f"{percent(result['coverage'])}{_error(result['mc_error'])}"
    where = "in the one cell" if n == 1 else f"in the worst of {n} cells, {percent(result['mean_coverage'])} on average"
    told = f"The {name_of(result['method'])} interval of {100 * level:g}% covers {worst} {where}"
    if result["calibration"] is None:
        return f"{told}."
    least = percent(least_coverage(level))
    if result["sufficient"]:
        return f"{told}: sufficient (at least {least})."
    return f"{told}: not sufficient (under {least}). Every measurement with this calibration says so."


def _error(mc_error: float) -> str:
    return f" ± {100 * mc_error:.{0 if mc_error >= 0.1 else 1}f}" if mc_error else ""


def cell_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return the cells as rows of text, lowest coverage first; all rows have the same columns."""
    method = result["method"]
    rows = [row for cell in result["cells"] for row in _rows(cell, method)]
    rows.sort(key=lambda item: item[0])
    texts = [row for _, row in rows]
    for column in ("turns", "clusters"):
        if len({row.get(column) for row in texts}) == 1:  # says nothing that tells cells apart
            for row in texts:
                row.pop(column, None)
    return texts


def _rows(cell: Mapping[str, Any], method: str) -> Iterable[tuple[float, Row]]:
    if "rate" in cell:
        yield cell["methods"][method]["coverage"], _observed_row(cell, method)
    elif "production" in cell:
        for production in cell["production"]:
            yield production["composite"]["interval"]["coverage"], _chain_row(cell, production)
    else:
        yield cell["methods"][method]["coverage"], _correction_row(cell, method)


def _observed_row(cell: Mapping[str, Any], method: str) -> Row:
    return {"units": str(cell["n_units"]), "true rate": _rate(cell["rate"]), **_methods(cell["methods"], method)}


def _correction_row(cell: Mapping[str, Any], method: str) -> Row:
    positive, negative, size = cell["n_positive"], cell["n_negative"], cell["cluster_size"]
    return {
        "judge": f"{cell['sensitivity']:.3g}/{cell['specificity']:.3g}",
        "golden": str(positive) if positive == negative else f"{positive}+{negative}",
        "clusters": str(size),
        "true rate": _rate(cell["prevalence"]),
        "units": str(cell["n_units"]),
        **_methods(cell["methods"], method),
        "bias": _points(cell["bias"]),
        "outside": percent(cell["outside"], 0),
    }


def _methods(methods: Mapping[str, Any], method: str) -> Row:
    """Return the coverage of every interval, that of the first with its Monte-Carlo error and its width."""
    first = methods[method]
    others = {name_of(name): percent(found["coverage"]) for name, found in methods.items() if name != method}
    coverage = f"{percent(first['coverage'])}{_error(first['mc_error'])}"
    return {name_of(method): coverage, **others, "width": percent(first["mean_width"])}


def _chain_row(cell: Mapping[str, Any], production: Mapping[str, Any]) -> Row:
    composite = production["composite"]
    interval = composite["interval"]
    lowest = min((found["interval"]["coverage"] for found in production["categories"].values()), default=None)
    return {
        "J": f"{cell['youden_j']:.2f}",
        "golden": str(cell["n_golden"]),
        "clusters": f"{cell['golden_cluster_size']:.3g}:{cell['production_cluster_size']:.3g}",
        "turns": f"{_mean(cell['golden_turns']):.1f}:{_mean(cell['production_turns']):.1f}",
        "true rate": _rate(production["prevalence"]),
        "units": str(production["n_units"]),
        "coverage": f"{percent(interval['coverage'])}{_error(interval['mc_error'])}",
        "delta": percent(composite["delta"]["coverage"]),
        "worst category": percent(lowest),
        "width": percent(interval["mean_width"]),
        "bias": _points(composite["bias"]),
        "reported": percent(composite["reported"], 0),
    }


def _rate(value: float) -> str:
    return f"{100 * value:.3g}%"


def _points(value: float | None) -> str:
    return "-" if value is None else f"{round(100 * value, 1) + 0.0:+.1f}%"


def _mean(shares: Mapping[str, float]) -> float:
    return sum(int(turns) * share for turns, share in shares.items())


def optimism_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return what calibrations made of their judges' J, one row a golden set, as text."""
    rows = []
    for cell in result["cells"]:
        if cell.get("optimism") is None:
            continue
        js = cell["optimism"]
        rows.append({
            "best J": f"{js['best_j']:.3f}",
            "golden": str(cell["n_golden"]),
            "clusters": f"{cell['golden_cluster_size']:.3g}",
            "apparent J": f"{js['apparent_j']:.3f}",
            "corrected J": f"{js['honest_j']:.3f}",
            "true J": f"{js['true_j']:.3f}",
            "calibrations": statuses(cell["calibration_statuses"]),
        })  # fmt: skip
    return rows


def statuses(shares: Mapping[str, float]) -> str:
    """Show how often each status occurred, the most frequent first."""
    ordered = sorted(shares.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{name} {percent(share, 0)}" for name, share in ordered if share)


def fit_of(result: Mapping[str, Any]) -> str | None:
    """Say how well a certificate's simulated judge matches the calibrated one."""
    certified = result["calibration"]
    if certified is None:
        return None
    composite = certified["composite"]
    pairs = [
        f"{rate} {composite[f'simulated_{rate}']:.3f} (calibrated: {composite[rate]:.3f})"
        for rate in ("sensitivity", "specificity")
    ]
    return f"Simulated judge, composite: {', '.join(pairs)}."


MEANING = (
    "Coverage: the share of replications whose interval holds the true rate; ± its Monte-Carlo standard error.",
    "Bias and width are of the rate, in percentage points.",
)
COLUMN_MEANING = {
    "judge": "judge: sensitivity/specificity; golden: traces of each class.",
    "outside": "outside: replications whose uncorrected arithmetic gives a rate outside [0, 1].",
    "reported": "reported: replications whose record shows a rate, since the judge is above the detection floor.",
}


def simulation_report(document: Mapping[str, Any]) -> RenderableType:
    """Show a simulation: the verdict first, then the intervals over all cells, then the worst cells."""
    result = document["result"]
    style = "bold" if result["calibration"] is None else "bold green" if result["sufficient"] else "bold red"
    rows = cell_rows(result)
    lines: list[RenderableType] = [
        Text("Simulation", style="bold").append(f" {document['id'][:12]}"),
        words(title_of(document)),
        Text(f"{_amount(result)}, seed {document['seed']}", style="dim"),
        Text(verdict_of(document), style=style),
        _summary(result),
        _table(rows[:SHOWN_CELLS]),
    ]
    if len(rows) > SHOWN_CELLS:
        lines.append(
            Text(f"Lowest coverage first; {len(rows) - SHOWN_CELLS} more cells are in the record.", style="dim")
        )
    lines += [Text(line, style="dim") for line in explanations(rows)]
    if optimism := optimism_rows(result):
        lines += [Text("\nJ of the composite, mean over calibrations"), _table(optimism)]
    if (fit := fit_of(result)) is not None:
        lines.append(Text(fit))
    return Group(*lines, *(words(f"! {note}", "yellow") for note in result["notes"]))


def explanations(rows: Sequence[Row]) -> list[str]:
    """Say what the columns mean that do not say it themselves."""
    return [*MEANING, *(text for column, text in COLUMN_MEANING.items() if rows and column in rows[0])]


def _amount(result: Mapping[str, Any]) -> str:
    cells = counted(result["n_cells"], "cell")
    if not result["replications"]:
        return f"{cells}, enumerated"
    return f"{cells}, {counted(result['replications'], 'replication')} each"


def summary_rows(result: Mapping[str, Any]) -> list[Row]:
    """Return every interval over all cells, as text."""
    methods = sorted(result["methods"].items(), key=lambda item: (item[0] != result["method"], item[0]))
    below = f"cells under {_rate(least_coverage(result['confidence_level']))}"
    return [
        {
            "interval": name_of(name),
            "mean": percent(found["mean"]),
            "lowest": percent(found["minimum"]),
            below: str(found["below"]),
            "mean width": percent(found["mean_width"]),
            "without width": percent(found["zero_width"]),
        }
        for name, found in methods
    ]


def _summary(result: Mapping[str, Any]) -> RenderableType:
    return _table(summary_rows(result))


def _table(rows: Sequence[Row]) -> Table:
    """Show rows in few columns of the terminal: the words of a heading stand below each other."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for column in rows[0] if rows else ():
        text = column in ("interval", "calibrations")
        heading = column.replace(" ", "\n").replace("-", "-\n") if len(column) > 8 else column
        table.add_column(heading, justify="left" if text else "right", no_wrap=not text, vertical="bottom")
    for row in rows:
        table.add_row(*row.values())
    return table
