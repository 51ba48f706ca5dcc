"""``assay compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from flows.commands import (
    check_tracked,
    confidence_option,
    force_option,
    json_option,
    orchestrate_option,
    output_option,
    progress,
    refuse_overwriting,
    run_flow,
    show,
    through_prefect,
    track,
    tracking_option,
)

if TYPE_CHECKING:
    from tasks.storage import Place


@click.command(name="compare")
@click.argument("releases", nargs=-1, required=True, metavar="BASELINE CANDIDATE...")
@click.option(
    "--allow-different-calibration", is_flag=True,
    help="Compare although the releases were measured with different calibrations: unpaired, with both calibrations' "
    "errors, and with a note that the difference may be the instruments'.",
)  # fmt: skip
@click.option(
    "--remeasure", is_flag=True,
    help="Where the calibrations differ, measure the baseline's scores again with the candidate's, and compare that.",
)  # fmt: skip
@click.option(
    "--unpaired", is_flag=True, help="Take the releases as independent samples even where units are the same."
)
@click.option(
    "--scores", is_flag=True,
    help="Also show whether the judge's scores moved between the golden set and the releases: reads them again.",
)  # fmt: skip
@click.option(
    "--inputs", "folders", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder that holds decisions, calibrations or scores which are not where they were (repeatable).",
)  # fmt: skip
@confidence_option
@output_option
@force_option
@json_option
@tracking_option
@orchestrate_option
def command(
    releases: tuple[str, ...],
    allow_different_calibration: bool,
    remeasure: bool,
    unpaired: bool,
    scores: bool,
    folders: tuple[Path, ...],
    confidence_level: float | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
    orchestrate: bool,
) -> None:
    """Say whether the candidate's rates differ from the baseline's, both measured with one calibration.

    BASELINE and CANDIDATE are measurements: files, ids, or MLflow runs. Where their decisions are at hand, unit is
    compared with unit; else they count as independent samples. Three and more releases, the oldest first, make a
    series: each is compared with the one before, and the line breaks where the instrument changed.

    Verdicts (increase, decrease, no evidence of change, not comparable) are of tests that are adjusted for the number
    of categories. Each says how differently the judge would have to treat the two releases to explain it.

    \b
    Examples:
      assay compare bot-1.measurement.json bot-2.measurement.json
      assay compare bot-1.json bot-2.json --remeasure -o comparison.json
      assay compare bot-1.json bot-2.json bot-3.json bot-4.json
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.comparison import remeasured_beside, run_comparison
    from tasks.reporting.comparison import report
    from tasks.reporting.terminal import console, words

    if len(releases) < 2:
        raise click.UsageError("name two releases, the older first, or more for a series")
    if allow_different_calibration and remeasure:
        raise click.UsageError("--remeasure makes the calibrations the same; leave --allow-different-calibration out")
    if len(releases) > 2 and (allow_different_calibration or remeasure or scores):
        raise click.UsageError(
            "--allow-different-calibration, --remeasure and --scores are for two releases; a series breaks where the "
            "instrument changed"
        )
    refuse_overwriting(output, releases, force=force)
    if remeasure and output is not None:
        refuse_overwriting(remeasured_beside(output), releases, force=force, beside=["decisions"])
    asked: dict[str, Any] = {
        "allow_different_calibration": allow_different_calibration, "confidence_level": confidence_level,
        "unpaired": unpaired, "remeasure": remeasure, "scores": scores,
    }  # fmt: skip

    def tell(line: str) -> None:
        console(stderr=True).print(words(line, "yellow"), soft_wrap=True)

    if through_prefect(orchestrate):
        from flows.compare import compare

        if folders:
            raise click.UsageError("--inputs is for the command alone, without Prefect")
        place = None if output is None else str(output)
        written = run_flow(compare, tracking_uri, releases=list(releases), output=place, **asked)
        show(written, report, as_json=as_json)
        check_tracked(written, tracking_uri)
        return
    with progress("rows read") as advance:
        found = run_comparison(
            releases, folders=folders, output=output, progress=advance, tracking_uri=tracking_uri, tell=tell, **asked
        )
    if found.remeasured is not None:
        tell(f"the baseline was measured again: {found.remeasured.path}")
        track(found.remeasured, tracking_uri, as_json=True)
    show(found.written, report, as_json=as_json)
    track(found.written, tracking_uri, as_json=as_json)
