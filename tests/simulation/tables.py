"""Write the tables of core/SIMULATIONS.md: run a stage with two processes and replace its section of the file.

    python -m tests.simulation.tables --stage 1 --stage 2

Everything else in the file stays as it is. `--replications` and `--seed` override those of the stage's grid.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import platform
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from time import monotonic
from typing import Any

from core.simulation.chain import ChainStage
from core.simulation.correction import CorrectionStage
from core.simulation.observed import ObservedRateStage
from core.simulation.simulated import ChainCell, CorrectionCell, Coverage, ObservedCell, Simulation
from core.simulation.spec import (
    ChainSpec,
    ClusterLaw,
    CorrectionSpec,
    GoldenSize,
    JudgeRates,
    ObservedRateSpec,
    TurnLaw,
)
from core.simulation.stage import Stage

FILE = Path(__file__).resolve().parents[2] / "core" / "SIMULATIONS.md"
HEADING = """\
# What simulations under known truth gave

Produced by `python -m tests.simulation.tables`; SPEC.md section 14 says what is simulated. Nominal level .95
throughout. A share of coverage c over R replications has a Monte-Carlo error of about √(c(1-c)/R).
"""
WORKERS = 2
LIBRARIES = ("numpy", "scipy", "scikit-learn")

SCENARIO_JUDGES = (JudgeRates(sensitivity=0.8, specificity=0.9), JudgeRates(sensitivity=0.95, specificity=0.97))
SCENARIOS = tuple(
    GoldenSize(n_positive=g * k, n_negative=g * k, cluster_size=k, error_correlation=rho)
    for g, k, rho in (
        (4, 20, 0.2), (9, 20, 0.2), (10, 20, 0.05), (10, 20, 0.2), (10, 20, 0.5),
        (25, 8, 0.2), (25, 8, 0.5), (50, 10, 0.2), (50, 10, 0.5), (100, 10, 0.2),
    )
)  # fmt: skip
CLUSTERED = CorrectionSpec(
    judges=SCENARIO_JUDGES, golden=SCENARIOS, prevalences=(0.1,), n_units=(2000,), replications=10_000
)

SHORT, LONG = (0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4)  # shares of conversations with 1-4 turns
CHAIN = ChainSpec(
    youden_j=(0.25, 0.45, 0.8),
    n_golden=(200, 600, 1500),
    turns=(TurnLaw(golden=SHORT, production=SHORT), TurnLaw(golden=SHORT, production=LONG)),
    clusters=(ClusterLaw(), ClusterLaw(golden_size=8, production_size=5)),
    prevalences=(0.03, 0.1, 0.3),
    n_units=(400, 2000),
    replications=1000,
)

Lines = list[str]


def run(stage: Stage) -> Simulation:
    """Carry a stage out in worker processes; the result does not depend on how many."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(WORKERS, mp_context=multiprocessing.get_context("forkserver")) as workers:
        return stage.result(list(workers.map(stage.run, stage.chunks())))


def share(value: float | None, digits: int = 3) -> str:
    """A number between 0 and 1 without its leading zero."""
    return "-" if value is None else re.sub(r"^(-?)0\.", r"\1.", f"{value:.{digits}f}")


def covers(coverage: Coverage) -> str:
    return f"{share(coverage.coverage)} / {share(coverage.mean_width)}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Lines:
    cells = [columns, ["---"] * len(columns), *rows]
    return [f"| {' | '.join(str(cell) for cell in row)} |" for row in cells]


def summary(simulation: Simulation) -> Lines:
    rows = [
        (name, share(found.mean, 4), share(found.minimum, 4), found.below, share(found.mean_width, 4),
         share(found.zero_width, 6))
        for name, found in simulation.methods.items()
    ]  # fmt: skip
    return table(["method", "mean coverage", "lowest", "cells under .93", "mean width", "share without width"], rows)


def provenance(simulation: Simulation, seed: int, seconds: float) -> Lines:
    """Say by what, when and from which seed a table was made."""
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    drawn = f"{simulation.replications:,} replications a cell, seed {seed}" if simulation.replications else "enumerated"
    made = f"assay {version('assay')}, Python {platform.python_version()}, {libraries}"
    day = datetime.now(UTC).date().isoformat()
    return [f"{simulation.n_cells} cells, {drawn}; {day}; {made}; {seconds:.0f} s with {WORKERS} processes.", ""]


def produced(stage: Stage, seed: int) -> tuple[Simulation, Lines]:
    start = monotonic()
    simulation = run(stage)
    return simulation, provenance(simulation, seed, monotonic() - start)


def stage_1(options: dict[str, Any]) -> Lines:
    spec = replace(ObservedRateSpec(), **{name: value for name, value in options.items() if name == "seed"})
    simulation, said = produced(ObservedRateStage(spec), spec.seed)
    cells = [cell for cell in simulation.cells if isinstance(cell, ObservedCell)]
    rows = [
        (n, *(f"{share(min(c))} - {share(max(c))}" for c in
              ([cell.methods[name].coverage for cell in cells if cell.n_units == n] for name in simulation.methods)))
        for n in spec.n_units
    ]  # fmt: skip
    rates = ", ".join(share(rate, 4).rstrip("0") for rate in spec.rates)
    return [
        "## Stage 1: the observed rate", "", *said, *summary(simulation), "",
        f"Lowest and highest coverage over the rates {rates}:", "",
        *table(["n", *simulation.methods], rows),
    ]  # fmt: skip


def stage_2(options: dict[str, Any]) -> Lines:
    grid = replace(CorrectionSpec(), **options)
    simulation, said = produced(CorrectionStage(grid), grid.seed)
    clustered = replace(CLUSTERED, **options)
    scenarios, said_of_clusters = produced(CorrectionStage(clustered), clustered.seed)
    methods = ["lang_reiczigel", "delta", "melded", "bootstrap"]
    rows = [
        (f"{share(c.sensitivity, 2)}, {share(c.specificity, 2)}", share(c.prevalence), c.n_positive, c.n_units,
         share(c.bias, 4), share(c.outside), *(covers(c.methods[name]) for name in methods))
        for c in simulation.cells if isinstance(c, CorrectionCell)
    ]  # fmt: skip
    by_clusters = [
        (f"{share(c.sensitivity, 2)}, {share(c.specificity, 2)}", c.n_positive // c.cluster_size, c.cluster_size,
         share(c.error_correlation, 2), *(covers(c.methods[name]) for name in ("lang_reiczigel_independent", *methods)),
         ", ".join(f"{name} {share(of)}" for name, of in c.statuses.items()))
        for c in scenarios.cells if isinstance(c, CorrectionCell)
    ]  # fmt: skip
    return [
        "## Stage 2: the corrected rate", "", *said, *summary(simulation), "",
        "Each method: coverage / mean width. An interval that misses [0, 1] holds nothing and has no width.", "",
        *table(["sens, spec", "rate", "golden a class", "n", "bias", "outside [0, 1]", *methods], rows), "",
        "### Golden sets from templates", "",
        *said_of_clusters,
        "Rate .1, n = 2000. `as independent` is Lang-Reiczigel with the clusters ignored. Under 10 clusters a class a",
        "measurement carries a warning, under 5 it gives no corrected rate.", "",
        *table(["sens, spec", "clusters a class", "size", "correlation", "as independent", *methods, "status"],
               by_clusters),
    ]  # fmt: skip


def stage_3(options: dict[str, Any]) -> Lines:
    grid = replace(CHAIN, **options)
    simulation, said = produced(ChainStage.of(grid), grid.seed)
    cells = [cell for cell in simulation.cells if isinstance(cell, ChainCell)]
    chosen = {
        "J >= .45": [cell for cell in cells if cell.youden_j > 0.4],
        "J = .25": [cell for cell in cells if cell.youden_j < 0.4],
    }
    promise = []
    for name, group in chosen.items():
        found = [row.composite.interval for cell in group for row in cell.production]
        delta = [row.composite.delta.coverage for cell in group for row in cell.production]
        mean, mean_of_delta = (sum(each) / len(found) for each in ([row.coverage for row in found], delta))
        promise.append(
            (name, len(found), share(mean, 4), share(min(row.coverage for row in found)),
             share(max(row.low_above for row in found)), share(max(row.high_below for row in found)),
             share(mean_of_delta, 4), share(min(delta)))
        )  # fmt: skip
    rows = [
        (share(cell.youden_j, 2), cell.n_golden, "clusters" if cell.golden_cluster_size > 1 else "independent",
         "equal" if cell.golden_turns == cell.production_turns else "different", share(row.prevalence, 2), row.n_units,
         covers(row.composite.interval), share(row.composite.bias, 4), share(row.composite.reported),
         share(row.composite.coverage_reported))
        for cell in cells for row in cell.production
    ]  # fmt: skip
    optimism = [
        (share(cell.youden_j, 2), cell.n_golden, "clusters" if cell.golden_cluster_size > 1 else "independent",
         "equal" if cell.golden_turns == cell.production_turns else "different",
         *(share(j, 4) for j in (found.apparent_j, found.honest_j, found.true_j)),
         ", ".join(f"{name} {share(of)}" for name, of in cell.calibration_statuses.items()))
        for cell in cells if (found := cell.optimism) is not None
    ]  # fmt: skip
    return [
        "## Stage 3: the whole chain", "", *said,
        "Five categories, 40% of golden traces violating, optimism by 200 resamples; J of the composite in production.",
        "Clusters: golden templates of 8 traces, attacks replicated 5 times, each of one truth. Turns: golden 1-4 with",
        f"shares {SHORT}; production equal or {LONG}. Coverage is of the composite's rate, whatever the state.", "",
        *table(["grid", "cells", "mean coverage", "lowest", "low end too high, at most", "high end too low, at most",
                "delta: mean", "delta: lowest"], promise), "",
        "`reported`: share of replications whose record carries an interval, and coverage among these.", "",
        *table(["J", "golden", "traces", "turns", "rate", "n", "coverage / mean width", "bias", "reported",
                "coverage of reported"], rows), "",
        "### Optimism of J", "",
        "Of the composite, over the golden turn counts: on the traces that chose the thresholds, after the correction,",
        "and in truth at the chosen thresholds; and what the calibration says of it.", "",
        *table(["J", "golden", "traces", "turns", "apparent", "honest", "true", "status"], optimism),
    ]  # fmt: skip


SECTIONS: dict[str, Callable[[dict[str, Any]], Lines]] = {"1": stage_1, "2": stage_2, "3": stage_3}


def with_section(text: str, stage: str, lines: Lines) -> str:
    """Put a stage's section into the file: in place of the one that is there, else at the end."""
    begin, end = f"<!-- stage {stage} -->", f"<!-- end of stage {stage} -->"
    section = "\n".join([begin, *lines, end])
    if begin not in text:
        return f"{text.rstrip()}\n\n{section}\n"
    before, _, rest = text.partition(begin)
    return before + section + rest.partition(end)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--stage", action="append", choices=sorted(SECTIONS), required=True)
    parser.add_argument("--replications", type=int)
    parser.add_argument("--seed", type=int)
    asked = vars(parser.parse_args())
    options = {name: asked[name] for name in ("replications", "seed") if asked[name] is not None}
    for stage in asked["stage"]:
        lines = SECTIONS[stage](options)
        text = FILE.read_text(encoding="utf-8") if FILE.exists() else HEADING
        FILE.write_text(with_section(text, stage, lines), encoding="utf-8")


if __name__ == "__main__":
    main()
