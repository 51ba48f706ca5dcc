"""``assay sync``."""

from __future__ import annotations

import click

from flows.commands import tracking_option


@click.command(name="sync")
@tracking_option
def command(tracking_uri: str | None) -> None:
    """Upload every record that object storage or MLflow could not take when it was made.

    Each arrives once, however often this runs. --tracking-uri sends those for MLflow there instead of where they were
    meant to go. Exit code 4 when some still wait.

    \b
    Example:
      assay sync
    """  # noqa: D301 (click wants the character)
    from core.errors import UnreachableError
    from tasks.reporting.terminal import console, tracked_report, words
    from tasks.tracking import sync
    from tasks.tracking import tracking_uri as resolved

    if tracking_uri is not None and resolved(tracking_uri) is None:
        raise click.UsageError("sync uploads to MLflow: --tracking-uri none has nowhere to go")
    screen = console()
    found = sync(tracking_uri)
    for place in found.stored:
        screen.print(words(f"stored: {place}"), soft_wrap=True)
    for tracked in found.tracked:
        screen.print(tracked_report(tracked), soft_wrap=True)
    if found.failed:
        lines = [f"{len(found.failed)} record(s) still wait:", *(f"  {note}: {why}" for note, why in found.failed)]
        raise UnreachableError("\n".join(lines))
    if not found.stored and not found.tracked:
        screen.print(words("nothing waits"))
