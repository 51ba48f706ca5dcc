"""``assay judge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from flows.commands import EXIT_INTERRUPTED, force_option, output_place, progress, refuse_overwriting

if TYPE_CHECKING:
    from tasks.judges import JudgingReport
    from tasks.storage import Place


@click.command(name="judge")
@click.argument("name")
@click.argument("texts", nargs=-1, required=True)
@click.option("-o", "--output", type=output_place, required=True, metavar="SCORES.parquet")
@force_option
@click.option(
    "--rubric", type=click.Path(path_type=Path), metavar="RUBRIC.yaml",
    help="What judge llm judges by. Default: ASSAY_JUDGE_RUBRIC.",
)  # fmt: skip
@click.option("--no-cache", is_flag=True, help="Ask the judge again, whatever it answered before, and keep nothing.")
def command(name: str, texts: tuple[str, ...], output: Place, force: bool, rubric: Path | None, no_cache: bool) -> None:
    """Run a registered judge on conversations: columns trace_id, turn, text (and attempt, cluster, target).

    Answers are cached by the judge's fingerprint and the texts' digest: an interrupted run goes on where it stopped,
    and pays for no answer twice. What the judge fails to score has a state and no score; the next run asks it again.

    The judges llm and openai-moderation ask a service: ASSAY_JUDGE_BASE_URL and ASSAY_JUDGE_MODEL say which, and
    ASSAY_JUDGE_API_KEY or OPENAI_API_KEY holds the key.

    \b
    Examples:
      assay judge lexical conversations.csv -o scores.parquet
      assay judge llm conversations.csv --rubric rubric.yaml -o scores.parquet
    """  # noqa: D301 (click wants the character)
    from core.data.problems import counted
    from flows.pipelines.judging import run_judge
    from tasks.reporting.terminal import console, words

    if output.suffix != ".parquet":
        raise click.UsageError("scores are written as Parquet: name the output SOMETHING.parquet")
    refuse_overwriting(output, [*texts, rubric], force=force, table=True)
    try:
        with progress("texts judged") as advance:
            judgement = run_judge(name, texts, output, rubric=rubric, keep=not no_cache, progress=advance)
    except KeyboardInterrupt:
        kept_not = "nothing was written" + ("" if no_cache else "; the same command goes on with the answers so far")
        click.echo(f"error: interrupted; {kept_not}", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    turns, judge = counted(judgement.table.num_rows, "turn"), judgement.judge
    screen = console()
    screen.print(words(f"{turns} judged by {judge} ({judge.fingerprint[:12]}): {output}"), soft_wrap=True)
    screen.print(words(_told(judgement.report)), soft_wrap=True)


def _told(report: JudgingReport) -> str:
    """Say how it went: rows by state; for a service also requests, tokens, cost, variance of repeated judging."""
    parts = [", ".join(f"{count:,} {state}" for state, count in report.counts.items())]
    traffic = report.traffic
    if traffic is not None:
        parts.append(f"{traffic.requests:,} requests, {traffic.retries:,} of them retries")
        parts.append(f"{report.recalled:,} answers kept from before")
        parts.append(f"{traffic.tokens_in:,} tokens in, {traffic.tokens_out:,} out")
        parts.append("cost not known: no prices" if report.cost is None else f"cost {report.cost:.4f}")
    if report.variances:
        told = ", ".join(f"{name} {variance:.2g}" for name, variance in report.variances.items())
        parts.append(f"variance of repeated judging: {told}")
    return "; ".join(parts)
