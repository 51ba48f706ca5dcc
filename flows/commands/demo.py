"""``assay demo``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tasks.archive import Written


@click.command(name="demo")
@click.option(
    "--into", "folder", type=click.Path(path_type=Path, file_okay=False),
    help="Where its files go. Default: demo/ in the user's data folder.",
)  # fmt: skip
def command(folder: Path | None) -> None:
    """Calibrate a simple judge, measure two releases and compare them beside the known truth; audit generated text.

    Everything is written for this program and nothing is fetched. The jobs run as Prefect flows (on a temporary server,
    unless PREFECT_API_URL names one) and are logged to MLflow, in a database in the user's data folder.
    """
    # Prefect reads it when it is imported: the demo's own story is told below.
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "WARNING")
    from flows.pipelines.demo import run_audit_demo, run_demo
    from tasks.reporting.audit import audit_summary
    from tasks.reporting.comparison import comparison_report, true_changes
    from tasks.reporting.terminal import calibration_report, console, demo_report, words
    from tasks.settings import settings
    from tasks.tracking import tracking_uri
    from tasks.tracking.uris import is_server, without_credentials

    screen = console()

    def tell(line: str, style: str = "") -> None:
        screen.print(words(line, style), soft_wrap=True)

    place = folder or settings().data_dir / "demo"
    tell("... starting Prefect (about ten seconds)", "dim")
    jobs = OrchestratedJobs()
    found = run_demo(place, jobs, lambda step: tell(f"... {step}", "dim"))
    releases = found.releases
    audit = run_audit_demo(place, jobs, lambda step: tell(f"... {step}", "dim"))
    screen.print()
    screen.print(calibration_report(found.calibration.document))
    screen.print(demo_report([(item.name, item.written.document, item.truth) for item in releases]))
    screen.print(comparison_report(found.comparison.document))
    screen.print(words(true_changes(found.comparison.document, releases[0].truth, releases[1].truth)))
    screen.print()
    screen.print(audit_summary(audit.document))
    tell(f"Records and data:    {place}")
    tell(f"Re-derive a figure:  assay verify {releases[-1].written.path}")
    tell("Your own data:       assay init mine")
    tell("Prefect's pages:     prefect server start        then http://127.0.0.1:4200")
    uri = tracking_uri()
    if uri is not None:
        server = f"mlflow server --backend-store-uri {uri}        then http://127.0.0.1:5000"
        tell(f"MLflow's pages:      {without_credentials(uri) if is_server(uri) else server}")


class OrchestratedJobs:
    """The demo's jobs, as Prefect flows."""

    def calibrate(self, golden: str, instrument: str, output: str) -> Written:
        """Calibrate the lexical judge."""
        from core.instrument.spec import JudgeIdentity
        from flows.calibrate import calibrate

        judge = JudgeIdentity(name="lexical", version="1")
        return calibrate(golden=golden, instrument=instrument, judge=judge, output=output)

    def measure(self, scores: str, instrument: str, calibration: str, target: str, output: str) -> Written:
        """Measure a release."""
        from flows.measure import measure

        return measure(scores=scores, instrument=instrument, calibration=calibration, target=target, output=output)

    def compare(self, baseline: str, candidate: str, output: str) -> Written:
        """Compare two measured releases."""
        from flows.compare import compare

        return compare(releases=[baseline, candidate], output=output)

    def audit(self, data: str, spec: str, baseline: str, output: str) -> Written:
        """Audit outputs and compare them with those of an older release."""
        from flows.audit import audit

        return audit(data=data, spec=spec, baseline=baseline, output=output)
