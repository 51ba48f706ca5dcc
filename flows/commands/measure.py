"""``assay measure``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from flows.commands import (
    accept_judge_option,
    check_tracked,
    confidence_option,
    force_option,
    higher_is_option,
    json_option,
    orchestrate_option,
    output_option,
    plain_name,
    progress,
    refuse_overwriting,
    run_flow,
    show,
    through_prefect,
    track,
    tracking_option,
    with_direction,
    workers_option,
)

if TYPE_CHECKING:
    from tasks.storage import Place
    from tasks.workers import Workers


@click.command(name="measure")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--calibration",
    metavar="REF",
    help="The calibration: its record's file or id, models:/NAME@ALIAS or /VERSION, or an MLflow run.",
)
@click.option(
    "--certificate",
    metavar="REF",
    help="The calibration's certificate (see `assay simulate`); none leaves it out. Default: looked for beside the "
    "calibration, in the records folder and, for a calibration from MLflow, there.",
)
@click.option(
    "--instrument",
    type=click.Path(path_type=Path),
    metavar="SPEC.yaml",
    help="For detections of an uncalibrated detector: kind, attributes.",
)
@click.option("--reported", multiple=True, metavar="FILE", help="Rates that the detector reports itself, to compare.")
@click.option(
    "--labels", multiple=True, metavar="FILE",
    help="With --calibration: labels that people gave to a random part of these traces (as a golden set, repeatable): "
    "does the golden set hold here?",
)  # fmt: skip
@click.option("--allow-unmatched", is_flag=True, help="Leave out labels of traces that are not there, and count them.")
@click.option("--target", metavar="NAME@VERSION", callback=plain_name, help="The system that was measured.")
@click.option(
    "--attempts", type=click.Choice(["each", "first", "last", "any"]),
    help="What counts when a trace was tried several times; default: the instrument's (each).",
)  # fmt: skip
@higher_is_option
@accept_judge_option
@confidence_option
@workers_option("read and count", "1, this process")
@output_option
@force_option
@json_option
@tracking_option
@orchestrate_option
def command(
    files: tuple[str, ...],
    calibration: str | None,
    certificate: str | None,
    instrument: Path | None,
    reported: tuple[str, ...],
    labels: tuple[str, ...],
    allow_unmatched: bool,
    target: str | None,
    attempts: str | None,
    higher_is: str | None,
    accept_judge: bool,
    confidence_level: float | None,
    workers: Workers | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
    orchestrate: bool,
) -> None:
    """Measure a release: how often its conversations violate, corrected for the judge's errors.

    FILES are tables of scores (with --calibration) or detections (with --instrument, or corrected with the
    --calibration of their detector): files, folders or patterns, all one data set; each may be READER:PATH.

    \b
    Examples:
      assay measure scores.parquet --calibration calibration.json --target guard-x@1.2
      assay measure scores.parquet --calibration models:/safety@champion
      assay measure 'runs/2026-11/*.parquet' --calibration calibration.json --attempts first
      assay measure scores.parquet --calibration calibration.json --labels labelled-sample.csv
      assay measure inspect:run.eval --higher-is worse --calibration calibration.json
      assay measure garak:garak.report.jsonl --calibration calibration.json
      assay measure 'runs/*.parquet' --calibration calibration.json --workers tcp://scheduler:8786
      assay measure detections.csv --instrument fairness.yaml
      assay measure detections.csv --calibration detector.json
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.measurement import detection_spec, run_measurement
    from tasks.reporting.terminal import certificate_hint, console, measurement_report, words
    from tasks.specs import load_instrument
    from tasks.workers import workers_or

    if (calibration is None) == (instrument is None):
        raise click.UsageError(
            "give --calibration REF (scores) or --instrument SPEC.yaml (detections); detections with --calibration REF "
            "are corrected"
        )
    if certificate is not None and calibration is None:
        raise click.UsageError("--certificate goes with --calibration")
    if labels and calibration is None:
        raise click.UsageError("--labels goes with --calibration")
    if allow_unmatched and not labels:
        raise click.UsageError("--allow-unmatched goes with --labels")
    refuse_overwriting(
        output, [*files, *reported, *labels, calibration, certificate, instrument], force=force, beside=["decisions"]
    )
    files = tuple(with_direction(files, higher_is))
    spec = None if instrument is None else load_instrument(instrument)
    if spec is not None:
        detection_spec(spec)  # a scores instrument alone is refused, whoever runs the job
    if through_prefect(orchestrate):
        from flows.measure import measure

        written = run_flow(
            measure,
            tracking_uri,
            scores=list(files),
            instrument=None if instrument is None else str(instrument.resolve()),
            calibration=calibration,
            certificate=certificate,
            reported=list(reported) or None,
            labels=list(labels) or None,
            allow_unmatched=allow_unmatched,
            target=target,
            attempts=cast(Any, attempts),
            accept_judge=accept_judge,
            confidence_level=confidence_level,
            workers=workers,
            output=None if output is None else str(output),
        )
        show(written, measurement_report, as_json=as_json, more=certificate_hint)
        check_tracked(written, tracking_uri)
        return
    with progress("rows read") as advance:
        written = run_measurement(
            files,
            calibration=calibration,
            certificate=certificate,
            instrument=spec,
            reported=reported,
            labels=labels,
            allow_unmatched=allow_unmatched,
            target=target,
            attempts=cast(Any, attempts),
            accept_judge=accept_judge,
            confidence_level=confidence_level,
            output=output,
            progress=advance,
            workers=workers_or(workers, 1),
            tracking_uri=tracking_uri,
            tell=lambda line: console(stderr=True).print(words(line, "yellow"), soft_wrap=True),
        )
    show(written, measurement_report, as_json=as_json, more=certificate_hint)
    track(written, tracking_uri, as_json=as_json)
