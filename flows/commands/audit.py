"""``assay audit``."""

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


@click.command(name="audit")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--spec", type=click.Path(path_type=Path), required=True, metavar="SPEC.yaml",
    help="What is audited, and how: kind predictions or outputs.",
)  # fmt: skip
@click.option(
    "--baseline", multiple=True, metavar="FILE",
    help="Outputs of an older release, to compare with (repeatable; kind outputs).",
)  # fmt: skip
@confidence_option
@output_option
@force_option
@json_option
@tracking_option
@orchestrate_option
def command(
    files: tuple[str, ...],
    spec: Path,
    baseline: tuple[str, ...],
    confidence_level: float | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
    orchestrate: bool,
) -> None:
    """Audit predictions or generated text: how groups of people fare, and how sure that is.

    FILES are tables: files, folders or patterns, all one data set; each may be READER:PATH. Predictions have a column
    for each protected attribute and y_pred, optional y_true, score and cluster. Outputs have id, scenario_id, variant,
    and what the metrics read (group_<axis>, harm_<category>, is_refusal, ...).

    \b
    Examples:
      assay audit predictions.csv --spec audit.yaml -o audit.json
      assay audit outputs.parquet --spec outputs.yaml --baseline outputs-1.1.parquet
      assay gate audit.json --policy deployments/policies/high-stakes.yaml
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.auditing import run_audit
    from tasks.audit_specs import load_audit
    from tasks.reporting.audit import audit_report

    named = load_audit(spec).files.values()  # a wrong spec is told before Prefect is started
    refuse_overwriting(output, [*files, *baseline, spec, *named], force=force)
    asked: dict[str, Any] = {"confidence_level": confidence_level}
    if through_prefect(orchestrate):
        from flows.audit import audit

        written = run_flow(
            audit, tracking_uri, data=list(files), spec=str(spec.resolve()), baseline=list(baseline) or None,
            output=None if output is None else str(output), **asked,
        )  # fmt: skip
        show(written, audit_report, as_json=as_json)
        check_tracked(written, tracking_uri)
        return
    with progress("rows read") as advance:
        written = run_audit(files, spec, baseline=baseline, output=output, progress=advance, **asked)
    show(written, audit_report, as_json=as_json)
    track(written, tracking_uri, as_json=as_json)
