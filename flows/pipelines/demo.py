"""The main job on built-in data: calibrate, measure two releases, set what was measured beside what is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from flows.pipelines.calibration import run_calibration
from flows.pipelines.judging import run_judge
from flows.pipelines.measurement import run_measurement
from tasks.archive import Written
from tasks.builtin.starter import RELEASES, write_demo
from tasks.builtin.suite import release_truth
from tasks.specs import load_instrument


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRelease:
    """A release, what was measured, and what is true by construction."""

    name: str
    written: Written
    truth: dict[str, float]


def run_demo(folder: Path, tell: Callable[[str], None]) -> tuple[Written, list[MeasuredRelease]]:
    """Run the demo in a folder; `tell` hears what is being done."""
    tell("writing the built-in golden suite and two simulated releases")
    paths = write_demo(folder)
    tell("calibrating the lexical judge on the golden suite")
    calibration = run_calibration(
        [str(paths["golden"])],
        [],
        "lexical",
        load_instrument(paths["instrument"]),
        output=folder / "calibration.json",
    )
    releases = []
    for name in RELEASES:
        tell(f"judging and measuring {name}")
        scores = folder / f"{name}.scores.parquet"
        run_judge("lexical", [str(paths[name])], scores)
        written = run_measurement(
            [str(scores)], calibration=str(calibration.path), output=folder / f"{name}.measurement.json"
        )
        releases.append(MeasuredRelease(name=name, written=written, truth=release_truth(name)))
    return calibration, releases
