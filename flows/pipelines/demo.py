"""The jobs on built-in data: calibrate, measure two releases, compare them, set all beside what is true; audit text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from flows.pipelines.judging import run_judge
from tasks.archive import Written
from tasks.builtin.outputs_sample import MODELS
from tasks.builtin.starter import RELEASES, write_audit_demo, write_demo
from tasks.builtin.suite import release_truth


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRelease:
    """A release, what was measured, and what is true by construction."""

    name: str
    written: Written
    truth: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Demo:
    """What the demo made."""

    calibration: Written
    releases: Sequence[MeasuredRelease]
    comparison: Written


class Jobs(Protocol):
    """Who carries out the jobs: the Prefect flows, or the pipelines themselves."""

    def calibrate(self, golden: str, instrument: str, output: str) -> Written:
        """Calibrate the lexical judge."""
        ...

    def measure(self, scores: str, instrument: str, calibration: str, target: str, output: str) -> Written:
        """Measure a release."""
        ...

    def compare(self, baseline: str, candidate: str, output: str) -> Written:
        """Compare two measured releases."""
        ...

    def audit(self, data: str, spec: str, baseline: str, output: str) -> Written:
        """Audit outputs and compare them with those of an older release."""
        ...


def run_demo(folder: Path, jobs: Jobs, tell: Callable[[str], None]) -> Demo:
    """Run the demo in a folder; `tell` hears what is being done."""
    tell("writing the built-in golden suite and two simulated releases")
    paths = write_demo(folder)
    tell("calibrating the lexical judge on the golden suite")
    instrument = str(paths["instrument"])
    calibration = jobs.calibrate(str(paths["golden"]), instrument, str(folder / "calibration.json"))
    releases = []
    for name in RELEASES:
        tell(f"judging and measuring {name}")
        scores = folder / f"{name}.scores.parquet"
        run_judge("lexical", [str(paths[name])], scores)
        written = jobs.measure(
            str(scores), instrument, str(calibration.path), name, str(folder / f"{name}.measurement.json")
        )
        releases.append(MeasuredRelease(name=name, written=written, truth=release_truth(name)))
    tell(f"comparing {' with '.join(RELEASES)}")
    older, newer = (str(item.written.path) for item in releases)
    comparison = jobs.compare(older, newer, str(folder / "comparison.json"))
    return Demo(calibration=calibration, releases=releases, comparison=comparison)


def run_audit_demo(folder: Path, jobs: Jobs, tell: Callable[[str], None]) -> Written:
    """Audit the built-in sample of generated text: the second model against the first."""
    before, after = (model.name for model in MODELS)
    tell(f"auditing the built-in outputs of {after}, and comparing them with those of {before}")
    paths = write_audit_demo(folder)
    return jobs.audit(str(paths[after]), str(paths["spec"]), str(paths[before]), str(folder / f"{after}.audit.json"))
