"""Commands: one a file, each `command` a thin shell over a pipeline; what several share stands here."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tasks.archive import Written
    from tasks.storage import Place

SHOW_AFTER_SECONDS = 2.0


def place(value: str) -> Place:
    """Read an argument that is a path, or an address in object storage (``s3://bucket/key``)."""
    from tasks.storage import place_of

    return place_of(value)


def output_place(value: str) -> Place:
    """Read where an output goes; a folder, a prefix or a version of an object is no place for it."""
    found = place(value)
    if isinstance(found, Path) and found.is_dir():
        raise click.BadParameter(f"{value!r} is a directory.")
    if not isinstance(found, Path) and (not found.name or found != found.latest):
        raise click.BadParameter(f"{value!r} names no object; s3://BUCKET/KEY is expected.")
    return found


output_option = click.option(
    "-o", "--output", type=output_place, metavar="FILE",
    help="Where the record goes (also s3://BUCKET/KEY); data files are written beside it. Default: the records folder.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print the record on stdout, and nothing else.")
confidence_option = click.option(
    "--confidence-level", type=click.FloatRange(0, 1, min_open=True, max_open=True),
    help="Of every interval; default: the instrument's.",
)  # fmt: skip
accept_judge_option = click.option(
    "--accept-judge", is_flag=True,
    help="Take scores of another judge than the calibrated one all the same; the record says so.",
)  # fmt: skip


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """Count rows on the terminal, once the work has lasted two seconds."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from tasks.reporting.terminal import console

    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda _: None
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        TextColumn("{task.completed:,}"),
        TimeElapsedColumn(),
    )
    bar = Progress(*columns, console=screen, transient=True)
    task = bar.add_task(what, total=None)
    began = time.monotonic()

    def advance(rows: int) -> None:
        if not bar.live.is_started and time.monotonic() - began > SHOW_AFTER_SECONDS:
            bar.start()
        bar.advance(task, rows)

    try:
        yield advance
    finally:
        bar.stop()


def refuse_overwriting(output: Place | None, inputs: Iterable[str | Path | None]) -> None:
    """Refuse an output that would take the place of one of its inputs."""
    if output is None:
        return
    place = _real(str(output))
    for item in inputs:
        # A prefix may name the reader: READER:PATH.
        names = () if item is None else (str(item), str(item).partition(":")[2])
        if any(name and _real(name) == place for name in names):
            raise click.UsageError(f"-o {output} is an input; choose another place for the output")


def _real(name: str) -> str:
    from tasks.storage import is_s3

    return name if is_s3(name) else os.path.realpath(name)


def show(written: Written, report: Callable[[Any], Any], *, as_json: bool) -> None:
    """Print a record: as JSON alone, or the report and the record's path."""
    from tasks.archive import dumped
    from tasks.reporting.terminal import console, words

    if as_json:
        click.echo(dumped(written.document), nl=False)
        console(stderr=True).print(words(f"record: {written.path}"), soft_wrap=True)
        return
    screen = console()
    screen.print(report(written.document))
    screen.print(words(f"record: {written.path}"), soft_wrap=True)
