"""``assay plan``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from flows.commands import (
    check_tracked,
    confidence_option,
    force_option,
    json_option,
    orchestrate_option,
    output_option,
    plain_name,
    refuse_overwriting,
    run_flow,
    show,
    through_prefect,
    track,
    tracking_option,
)

if TYPE_CHECKING:
    from tasks.storage import Place

SHARE = click.FloatRange(0, 1)
SIZE = click.IntRange(5, 10**12)


def _costs(_: click.Context, __: click.Parameter, text: str | None) -> dict[str, float] | None:
    if text is None:
        return None
    try:
        production, positive, negative = map(float, text.split(","))
    except ValueError:
        raise click.BadParameter(f"{text!r} is not three numbers, such as 0.01,5,2") from None
    return {"production": production, "positive": positive, "negative": negative}


@click.command(name="plan")
@click.option("--goal", required=True, metavar="GOAL=NUMBER",
              help="half-width=0.02 (of the corrected rate's interval), lod=0.05 (the least rate that is found) or "
              "difference=-0.03 (candidate minus baseline).")  # fmt: skip
@click.option("--calibration", metavar="REF",
              help="Take the judge's rates and what its golden set is worth from this calibration.")  # fmt: skip
@click.option("--category", metavar="NAME", callback=plain_name,
              help="With --calibration: plan for this category instead of the composite.")  # fmt: skip
@click.option("--find-golden", is_flag=True,
              help="With --calibration: find the golden sizes too, instead of taking those it has.")  # fmt: skip
@click.option("--prevalence", type=SHARE, metavar="P",
              help="How often violations are expected (of the baseline, for a difference).")  # fmt: skip
@click.option("--sensitivity", type=SHARE, metavar="P", help="Of an assumed judge.")
@click.option("--specificity", type=SHARE, metavar="P", help="Of an assumed judge.")
@click.option("--production", type=SIZE, metavar="N",
              help="Production traces that there will be (of each version); found when absent.")  # fmt: skip
@click.option("--positives", type=SIZE, metavar="N", help="Violating golden traces; found when absent.")
@click.option("--negatives", type=SIZE, metavar="N", help="Clean golden traces; found when absent.")
@click.option("--costs", callback=_costs, metavar="P,V,C",
              help="What one production trace, one violating and one clean golden trace cost, in any one unit. "
              "Default: 0.01,1,1.")  # fmt: skip
@click.option("--unpaired", is_flag=True, help="For a difference: the versions get different traces.")
@click.option("--correlation", type=click.FloatRange(-1, 1), metavar="R",
              help="For a difference: of the two versions' flags on the same trace; default: 0.")  # fmt: skip
@click.option("--discordance", type=SHARE, metavar="P",
              help="Instead of it: share of the traces that is flagged in one version alone.")  # fmt: skip
@click.option("--comparisons", type=click.IntRange(1, 1000), metavar="N",
              help="For a difference: how many are tested together (composite and categories), as `compare` adjusts "
              "for them; default: 1.")  # fmt: skip
@click.option("--power", type=click.FloatRange(0, 1, min_open=True, max_open=True), metavar="P",
              help="Chance of finding what is there; default: 0.8.")  # fmt: skip
@confidence_option
@output_option
@force_option
@json_option
@tracking_option
@orchestrate_option
def command(
    goal: str,
    calibration: str | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
    orchestrate: bool,
    **options: Any,
) -> None:
    """Say how many production traces and labels a goal takes, and what stands in the way.

    What is not given is found. A goal that cannot be reached is a result: the reason is told, with the changes that
    would reach it (exit code 0).

    \b
    Examples:
      assay plan --goal half-width=0.02 --prevalence 0.05 --sensitivity 0.9 --specificity 0.95
      assay plan --goal half-width=0.03 --prevalence 0.05 --calibration calibration.json
      assay plan --goal lod=0.05 --calibration models:/safety@champion --category hate --production 2000
      assay plan --goal lod=0.02 --sensitivity 0.9 --specificity 0.99 --costs 0.02,5,1
      assay plan --goal difference=-0.03 --prevalence 0.1 --calibration calibration.json --correlation 0.6
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.planning import run_plan
    from tasks.reporting.plan import plan_report
    from tasks.specs import build_plan

    if calibration is None and (options["category"] is not None or options["find_golden"]):
        raise click.UsageError("--category and --find-golden go with --calibration")
    if calibration is not None and (options["sensitivity"] is not None or options["specificity"] is not None):
        raise click.UsageError("--calibration says how good the judge is; leave --sensitivity and --specificity out")
    refuse_overwriting(output, [calibration], force=force)
    asked = _asked(options)
    spec = build_plan(goal, asked)  # what is out of range is told before Prefect is started
    if through_prefect(orchestrate):
        from flows.plan import plan

        place = None if output is None else str(output)
        written = run_flow(plan, tracking_uri, goal=goal, calibration=calibration, asked=asked, output=place)
        show(written, plan_report, as_json=as_json)
        check_tracked(written, tracking_uri)
        return
    written = run_plan(spec, calibration=calibration, output=output, tracking_uri=tracking_uri)
    show(written, plan_report, as_json=as_json)
    track(written, tracking_uri, as_json=as_json)


FIELDS = {
    "category": "quantity",
    "production": "n_production",
    "positives": "n_positive",
    "negatives": "n_negative",
    "comparisons": "n_comparisons",
}
"""What options are called in the spec, where it is another name."""


def _asked(options: dict[str, Any]) -> dict[str, Any]:
    """Turn options into fields of the spec."""
    given = {name: value for name, value in options.items() if value is not None and value is not False}
    if given.pop("unpaired", False):
        given["paired"] = False
    return {FIELDS.get(name, name): value for name, value in given.items()}
