"""``assay check``."""

from __future__ import annotations

import json
from typing import Any, cast

import click

from flows.commands import higher_is_option, progress, with_direction


@click.command(name="check")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--as",
    "kind",
    type=click.Choice(["scores", "golden", "detections", "predictions", "outputs"]),
    help="Default: read off the header.",
)
@higher_is_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
def command(files: tuple[str, ...], kind: str | None, higher_is: str | None, as_json: bool) -> None:
    """Look at a data set: everything that is wrong with it at once, or what is in it.

    \b
    Examples:
      assay check golden.csv --as golden
      assay check runs/2026-11
      assay check outputs.parquet --as outputs
      assay check hatecheck:test_suite_cases.csv
      assay check promptfoo:results.json
    """  # noqa: D301 (click wants the character)
    from tasks.checking import check, kind_of
    from tasks.readers import reader_names
    from tasks.storage import find_inputs

    found = find_inputs(with_direction(files, higher_is), reader_names())
    with progress("rows read") as advance:
        summary = check(found, cast(Any, kind) or kind_of(found), advance)
    if as_json:
        click.echo(json.dumps(summary, indent=1, ensure_ascii=False))
        return
    from tasks.reporting.terminal import check_report, console

    console().print(check_report(summary))
