"""``assay judge``."""

from __future__ import annotations

from pathlib import Path

import click

from flows.commands import progress


@click.command(name="judge")
@click.argument("name")
@click.argument("texts", nargs=-1, required=True)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False), required=True, metavar="SCORES.parquet"
)
@click.option("--no-cache", is_flag=True, help="Ask the judge again, whatever it answered before.")
def command(name: str, texts: tuple[str, ...], output: Path, no_cache: bool) -> None:
    r"""Run a registered judge on conversations: columns trace_id, turn, text (and attempt, cluster, target).

    Answers are cached by the judge's fingerprint and the texts' digest: an interrupted run goes on where it stopped.

    \b
    Example:
      assay judge lexical conversations.csv -o scores.parquet
    """
    import tempfile

    import pyarrow.parquet as pq

    from tasks.judges import load_judge
    from tasks.judges.run import judge_table
    from tasks.readers import reader_names
    from tasks.reporting.terminal import console, words
    from tasks.settings import settings
    from tasks.storage import atomic, find_inputs
    from tasks.tables import load_texts

    if output.suffix != ".parquet":
        raise click.UsageError("scores are written as Parquet: name the output SOMETHING.parquet")
    judge = load_judge(name)
    conversations = load_texts(find_inputs(texts, reader_names()))
    with progress("texts judged") as advance, tempfile.TemporaryDirectory() as folder:
        table = judge_table(judge, conversations, Path(folder) if no_cache else settings().cache_dir, advance)
        with atomic(output) as temporary:
            pq.write_table(table, temporary, compression="zstd")
    console().print(
        words(f"{table.num_rows} turns judged by {judge.name}@{judge.version} ({judge.fingerprint[:12]}): {output}"),
        soft_wrap=True,
    )
