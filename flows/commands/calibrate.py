"""``assay calibrate``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
    progress,
    promotion_of,
    refuse_overwriting,
    run_flow,
    show,
    through_prefect,
    track,
    tracking_option,
    with_direction,
)

if TYPE_CHECKING:
    from tasks.storage import Place


@click.command(name="calibrate")
@click.argument("golden", nargs=-1)
@click.option("--scores", multiple=True, metavar="FILE", help="The judge's scores on the golden set (repeatable).")
@click.option(
    "--detections", multiple=True, metavar="FILE",
    help="A detector's decisions on the golden set, for an --instrument of kind detections (repeatable).",
)  # fmt: skip
@click.option("--judge", metavar="NAME", help="Run this registered judge on the golden set's texts instead.")
@click.option(
    "--instrument",
    type=click.Path(path_type=Path),
    metavar="SPEC.yaml",
    help="Categories, floor, slices, ...",
)
@click.option(
    "--declared", type=click.Path(path_type=Path), metavar="FILE.yaml",
    help="Make the instrument from rates that were measured elsewhere; no golden set.",
)  # fmt: skip
@higher_is_option
@accept_judge_option
@confidence_option
@output_option
@force_option
@json_option
@tracking_option
@orchestrate_option
@click.option("--promote", is_flag=True, help="Make this calibration its instrument's champion in MLflow's registry.")
@click.option(
    "--because", "--reason", "because", metavar="TEXT",
    help="Why it is promoted; kept on the model version and on the run.",
)  # fmt: skip
def command(
    golden: tuple[str, ...],
    scores: tuple[str, ...],
    detections: tuple[str, ...],
    judge: str | None,
    instrument: Path | None,
    declared: Path | None,
    higher_is: str | None,
    accept_judge: bool,
    confidence_level: float | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
    orchestrate: bool,
    promote: bool,
    because: str | None,
) -> None:
    """Calibrate a judge or detector on a golden set: threshold, sensitivity, specificity and J, a category and for all.

    GOLDEN is one or more files, folders or patterns, each may be READER:PATH.

    \b
    Examples:
      assay calibrate golden.csv --scores scores.parquet -o calibration.json
      assay calibrate golden.csv --judge lexical --instrument instrument.yaml
      assay calibrate hatecheck:test_suite_cases.csv --scores scores.csv
      assay calibrate golden.csv --scores inspect:golden-run.eval --higher-is worse
      assay calibrate golden.csv --detections detections.csv --instrument fairness.yaml
      assay calibrate --declared vendor.yaml
      assay calibrate golden.csv --judge lexical --instrument instrument.yaml --promote --because "new golden set"
    """  # noqa: D301 (click wants the character)
    from core.instrument.spec import InstrumentSpec, JudgeIdentity
    from flows.pipelines.calibration import run_calibration, run_declared
    from tasks.reporting.terminal import calibration_report
    from tasks.specs import load_declared, load_instrument

    named = instrument is not None or declared is not None
    promotion = promotion_of(promote, because, named=named, tracking_uri=tracking_uri)
    refuse_overwriting(
        output, [*golden, *scores, *detections, instrument, declared], force=force, beside=["golden_maxima"]
    )
    if declared is not None:
        if golden or scores or detections or judge or instrument:
            raise click.UsageError(
                "--declared stands alone: no golden set, --scores, --detections, --judge or --instrument"
            )
        written = run_declared(load_declared(declared), confidence_level=confidence_level, output=output)
        show(written, calibration_report, as_json=as_json)
        track(written, tracking_uri, as_json=as_json, register=True, promotion=promotion)
        return
    if not golden:
        raise click.UsageError("name the golden set, or give --declared FILE.yaml")
    if bool(scores) + bool(detections) + bool(judge) != 1:
        raise click.UsageError("give either --scores FILE or --judge NAME, or --detections FILE for a detector")
    spec = InstrumentSpec() if instrument is None else load_instrument(instrument)
    if (spec.kind == "detections") != bool(detections):
        whose = "without --instrument the kind is" if instrument is None else f"instrument {spec.name!r} is of kind"
        raise click.UsageError(
            f"{whose} {spec.kind}: --detections goes with an --instrument of kind detections, --scores and --judge "
            "with one of kind scores"
        )
    verdicts = with_direction(scores or detections, higher_is)
    if through_prefect(orchestrate):
        from flows.calibrate import calibrate
        from tasks.judges import load_judge

        worker = None if judge is None else load_judge(judge)
        written = run_flow(
            calibrate,
            tracking_uri,
            golden=list(golden),
            instrument=None if instrument is None else str(instrument.resolve()),
            judge=None if worker is None else JudgeIdentity(name=worker.name, version=worker.version),
            scores=list(verdicts) or None,
            promote=promote,
            because=because,
            accept_judge=accept_judge,
            confidence_level=confidence_level,
            output=None if output is None else str(output),
        )
        show(written, calibration_report, as_json=as_json)
        check_tracked(written, tracking_uri)
        return
    with progress("texts judged") as advance:
        written = run_calibration(
            golden,
            verdicts,
            judge,
            spec,
            confidence_level=confidence_level,
            accept_judge=accept_judge,
            output=output,
            progress=advance,
        )
    show(written, calibration_report, as_json=as_json)
    track(written, tracking_uri, as_json=as_json, register=named, promotion=promotion)
