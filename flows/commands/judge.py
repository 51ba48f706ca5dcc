"""``assay judge``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from flows.commands import force_option, output_place, progress, refuse_overwriting

if TYPE_CHECKING:
    from tasks.storage import Place


@click.command(name="judge")
@click.argument("name")
@click.argument("texts", nargs=-1, required=True)
@click.option("-o", "--output", type=output_place, required=True, metavar="SCORES.parquet")
@force_option
@click.option("--no-cache", is_flag=True, help="Ask the judge again, whatever it answered before.")
def command(name: str, texts: tuple[str, ...], output: Place, force: bool, no_cache: bool) -> None:
    """Run a registered judge on conversations: columns trace_id, turn, text (and attempt, cluster, target).

    Answers are cached by the judge's fingerprint and the texts' digest: an interrupted run goes on where it stopped.

    \b
    Example:
      assay judge lexical conversations.csv -o scores.parquet
    """  # noqa: D301 (click wants the character)
    import tempfile
    from pathlib import Path

    from core.data.problems import counted
    from flows.pipelines.judging import run_judge
    from tasks.reporting.terminal import console, words

    if output.suffix != ".parquet":
        raise click.UsageError("scores are written as Parquet: name the output SOMETHING.parquet")
    refuse_overwriting(output, texts, force=force, table=True)
    with progress("texts judged") as advance, tempfile.TemporaryDirectory() as empty:
        table = run_judge(name, texts, output, cache_dir=Path(empty) if no_cache else None, progress=advance)
    judge = table.column("judge")[0].as_py()
    fingerprint = table.column("judge_fingerprint")[0].as_py()
    turns = counted(table.num_rows, "turn")
    console().print(words(f"{turns} judged by {judge} ({fingerprint[:12]}): {output}"), soft_wrap=True)
