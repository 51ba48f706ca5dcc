"""``assay watch``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flows.commands import (
    force_option,
    json_option,
    output_option,
    progress,
    refuse_overwriting,
    show,
    track,
    tracking_option,
)

if TYPE_CHECKING:
    from tasks.storage import Place


@click.command(name="watch")
@click.argument("calibration", metavar="REF")
@click.option(
    "--scores", multiple=True, metavar="FILE",
    help="The judge's scores on golden traces now (repeatable); without them the registered judge is asked.",
)  # fmt: skip
@click.option("--judge", metavar="NAME@VERSION", help="Who the judge is now, where it is not registered here.")
@click.option("--anchors", type=click.IntRange(10), metavar="N", help="Golden traces to compare; default: 300.")
@click.option(
    "--tolerance", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="P",
    help="Shift of sensitivity, specificity or mean score that counts as none; default: 0.05.",
)  # fmt: skip
@click.option(
    "--confidence-level", type=click.FloatRange(0, 0.9999, min_open=True),
    help="Of tests and intervals, at most 0.9999; default: 0.99.",
)  # fmt: skip
@output_option
@force_option
@json_option
@tracking_option
def command(
    calibration: str,
    scores: tuple[str, ...],
    judge: str | None,
    anchors: int | None,
    tolerance: float | None,
    confidence_level: float | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
) -> None:
    """Ask whether a judge is still the one that was calibrated: same, changed, or insufficient to say.

    Golden traces are scored again, whatever is cached, and compared with what the calibration stored. Nothing is
    started: the deployment watch_judge, which does this on a schedule, starts a calibration when the judge changed.

    \b
    Examples:
      assay watch models:/safety@champion
      assay watch calibration.json --scores golden-scores-today.parquet --tolerance 0.03
    """  # noqa: D301 (click wants the character)
    from core.instrument.spec import JudgeIdentity
    from core.instrument.watched import WatchSpec
    from flows.pipelines.watching import run_watch
    from tasks.reporting.watch import watch_report

    if scores and judge is not None:
        raise click.UsageError("--scores say who gave them; leave --judge out")
    refuse_overwriting(output, [calibration, *scores], force=force)
    asked = {"anchors": anchors, "tolerance": tolerance, "confidence_level": confidence_level}
    with progress("texts judged") as advance:
        watched = run_watch(
            calibration,
            scores=scores,
            judge=None if judge is None else JudgeIdentity.of(judge),
            spec=WatchSpec(**{name: value for name, value in asked.items() if value is not None}),  # type: ignore[arg-type]
            output=output,
            progress=advance,
            tracking_uri=tracking_uri,
            tell=lambda message: click.echo(message, err=True),
        )
    show(watched.written, watch_report, as_json=as_json)
    track(watched.written, tracking_uri, as_json=as_json)
