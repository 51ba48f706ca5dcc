"""``assay verify``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands import counted_progress, progress, tracking_option, workers_option

if TYPE_CHECKING:
    from tasks.workers import Workers


@click.command(name="verify")
@click.argument("record")
@click.option(
    "--inputs", "folders", multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="A folder that holds inputs which are no longer where they were (repeatable).",
)  # fmt: skip
@workers_option("simulate", "the cores that are available")
@tracking_option
def command(record: str, folders: tuple[Path, ...], workers: Workers | None, tracking_uri: str | None) -> None:
    """Re-derive every figure of a record from its recorded inputs.

    Inputs are recognised by their digests: where they were, beside the record, or in the folders of --inputs.
    RECORD is a file, an id, or MLflow's models:/NAME@ALIAS, models:/NAME/VERSION or runs:/RUN_ID.
    A simulation is carried out again, which takes as long as the first time.
    Exit code 1 when a figure, an input or an output is not what the record says; 2 when an input is not to be found.

    \b
    Examples:
      assay verify measurement.json --inputs archive/2026-11
      assay verify models:/safety@champion
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.verification import verify
    from tasks.archive import find_record
    from tasks.reporting.terminal import console, words
    from tasks.workers import available_cores, workers_or

    path, _ = find_record(record, tracking_uri)
    with progress("rows read") as advance, counted_progress("replications") as begin:
        found = verify(
            path,
            folders=folders,
            progress=advance,
            begin=begin,
            workers=workers_or(workers, available_cores()),
            tracking_uri=tracking_uri,
        )
    screen = console()
    agreement = (
        "every figure re-derived, same id" if found.identical
        else "every figure re-derived within rounding (another version of assay or a library, or processor)"
    )  # fmt: skip
    screen.print(words(f"verified: {agreement}  {found.document['id'][:12]}"))
    for name, state in found.outputs.items():
        screen.print(words(f"  {name}: {state}"))
