"""``assay gate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands import (
    force_option,
    json_option,
    output_option,
    output_place,
    refuse_overwriting,
    show,
    tracking_option,
)

if TYPE_CHECKING:
    from core.records import Document
    from tasks.archive import Written
    from tasks.storage import Place

EXITS = {"pass": 0, "fail": 1, "insufficient_evidence": 3}


@click.command(name="gate")
@click.argument("records", nargs=-1, required=True, metavar="RECORD...")
@click.option("--policy", type=click.Path(path_type=Path), required=True, metavar="POLICY.yaml", help="The rules.")
@click.option(
    "--junit", type=output_place, metavar="FILE",
    help="Write JUnit XML: a failure for what fails, an error for insufficient evidence.",
)  # fmt: skip
@click.option("--markdown", type=output_place, metavar="FILE", help="Write a comment for a pull request.")
@output_option
@force_option
@json_option
@tracking_option
def command(
    records: tuple[str, ...],
    policy: Path,
    junit: Place | None,
    markdown: Place | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
) -> None:
    """Hold records against a policy: pass, fail, or insufficient evidence.

    RECORD is a file, an id, or MLflow's models:/NAME@ALIAS or runs:/RUN_ID. Missing evidence is never a pass.
    The verdict is a tag (gate.verdict) on the runs of those records that MLflow has.

    Exit codes: 0 passed; 1 failed; 3 insufficient evidence; 2 bad input; 4 passed, and MLflow cannot be reached.

    \b
    Examples:
      assay gate measurement.json --policy policy.yaml
      assay gate measurement.json audit.json --policy release.yaml --junit gate.xml --markdown gate.md
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.gating import run_gate
    from tasks.reporting.gate_report import gate_markdown, gate_report
    from tasks.reporting.junit import gate_junit

    _check_outputs({"-o": output, "--junit": junit, "--markdown": markdown}, [*records, policy], force=force)
    written = run_gate(records, policy, output=output, tracking_uri=tracking_uri)
    _write_beside(written.document, {gate_junit: junit, gate_markdown: markdown})
    show(written, gate_report, as_json=as_json)
    code = EXITS[written.document["result"]["verdict"]]
    _tag(written, tracking_uri, as_json=as_json, verdict_tells=code != 0)
    raise click.exceptions.Exit(code)


def _check_outputs(outputs: dict[str, Place | None], inputs: list[str | Path], *, force: bool) -> None:
    """Refuse outputs that are an input, or one another."""
    named = {option: place for option, place in outputs.items() if place is not None}
    if len(set(named.values())) < len(named):
        raise click.UsageError(f"{', '.join(named)} need a file each")
    for option, place in named.items():
        refuse_overwriting(place, inputs, force=force or option != "-o")


def _write_beside(document: Document, wanted: dict[Callable[[Document], str], Place | None]) -> None:
    from tasks.storage import write_text

    for render, place in wanted.items():
        if place is not None:
            write_text(place, render(document))


def _tag(written: Written, tracking_uri: str | None, *, as_json: bool, verdict_tells: bool) -> None:
    """Tag the runs of the gated records; that MLflow is away must not hide a verdict that stops a release."""
    from core.errors import UnreachableError
    from tasks.reporting.terminal import console, words
    from tasks.tracking import tracking_uri as resolved
    from tasks.tracking.gates import tag_gated

    uri = resolved(tracking_uri)
    if uri is None:
        return
    screen = console(stderr=as_json)
    try:
        tagged = tag_gated(written.document, uri)
    except UnreachableError as error:
        told = f"{error}\nThe verdict is not a tag in MLflow; run `assay gate` again to set it."
        if not verdict_tells:
            raise UnreachableError(told) from None
        click.echo(told, err=True)
        return
    for run_id in tagged.run_ids:
        screen.print(words(f"tagged: runs:/{run_id}"), soft_wrap=True)
    for record in tagged.untracked:
        screen.print(words(f"! record {record[:12]} has no run in MLflow: no tag was set", "yellow"), soft_wrap=True)
