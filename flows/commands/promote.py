"""``assay promote``."""

from __future__ import annotations

import click

from flows.commands import tracking_option


@click.command(name="promote")
@click.argument("reference", metavar="REF")
@click.option(
    "--because", "--reason", "because", required=True, metavar="TEXT",
    help="Why; kept with your name on the model version and on the calibration's run.",
)  # fmt: skip
@tracking_option
def command(reference: str, because: str, tracking_uri: str | None) -> None:
    """Make a registered calibration the champion of its instrument: a person's decision, where the rule leaves it.

    REF is a file, an id, or MLflow's models:/NAME@ALIAS, models:/NAME/VERSION or runs:/RUN_ID.

    \b
    Examples:
      assay promote models:/safety@challenger --reason "the vendor's new model, read with the red team"
      assay promote models:/safety/3 --reason "back to the judge of October"
    """  # noqa: D301 (click wants the character)
    from core.errors import InputError
    from tasks.reporting.terminal import console, words
    from tasks.tracking import promotion
    from tasks.tracking.promotions import promote_version

    if not because.strip():
        raise click.UsageError("say why: --reason TEXT")
    registered = promote_version(reference, promotion(because), tracking_uri)
    if registered.note:
        raise InputError.of(registered.uri, registered.note)
    console().print(words(f"champion: {registered.uri}"), soft_wrap=True)
