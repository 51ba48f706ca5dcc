"""``assay demo``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="demo")
@click.option(
    "--into", "folder", type=click.Path(path_type=Path, file_okay=False),
    help="Where its files go. Default: demo/ in the user's data folder.",
)  # fmt: skip
def command(folder: Path | None) -> None:
    """Calibrate a simple judge on built-in conversations, measure two releases, and compare with the known truth.

    Everything is written for this program and nothing is fetched. It takes a few seconds.
    """
    from flows.pipelines.demo import run_demo
    from tasks.reporting.terminal import calibration_report, console, demo_report, words
    from tasks.settings import settings

    screen = console()
    place = folder or settings().data_dir / "demo"
    calibration, releases = run_demo(place, lambda step: screen.print(words(f"... {step}", "dim")))
    screen.print()
    screen.print(calibration_report(calibration.document))
    screen.print(demo_report([(item.name, item.written.document, item.truth) for item in releases]))
    screen.print(words(f"Records and data: {place}"), soft_wrap=True)
    last = releases[-1].written.path
    screen.print(words(f"Re-derive a figure:  assay verify {last}"), soft_wrap=True)
    screen.print(words("Your own data:       assay init mine"), soft_wrap=True)
