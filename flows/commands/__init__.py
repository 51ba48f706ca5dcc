"""Commands: one a file, each `command` a thin shell over a pipeline; what several share stands here."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from tasks.archive import Written

SHOW_AFTER_SECONDS = 2.0

output_option = click.option(
    "-o", "--output", type=click.Path(path_type=Path, dir_okay=False),
    help="Where the record goes; data files are written beside it. Default: the user's data folder.",
)  # fmt: skip
json_option = click.option("--json", "as_json", is_flag=True, help="Print the record on stdout, and nothing else.")
confidence_option = click.option(
    "--confidence-level", type=click.FloatRange(0, 0.9999, min_open=True),
    help="Of every interval, at most 0.9999; default: the instrument's.",
)  # fmt: skip
force_option = click.option(
    "--force", is_flag=True, help="Write even over a file that is not an earlier output of assay."
)
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


def plain_name(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse a name that is not text: bytes of another encoding than UTF-8 come in as halves of characters."""
    if value is not None and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise click.BadParameter("is not UTF-8 text") from None
    return value


def refuse_overwriting(
    output: Path | None,
    inputs: Iterable[str | Path | None],
    *,
    force: bool,
    table: bool = False,
    beside: Iterable[str] = (),
) -> None:
    """Refuse an output that would take the place of an input, or of a file that assay has not written.

    Parameters
    ----------
    output : Path, optional
    inputs : iterable of str or Path
    force : bool
        Write over anything but the inputs.
    table : bool
        The output is a table, not a record.
    beside : iterable of str
        Roles of the tables that go beside a record.
    """
    if output is None:
        return
    place = os.path.realpath(output)
    for item in inputs:
        # A prefix may name the reader: READER:PATH.
        names = () if item is None else (str(item), str(item).partition(":")[2])
        if any(name and os.path.realpath(name) == place for name in names):
            raise click.UsageError(f"-o {output} is an input; choose another place for the output")
    if force:
        return
    tables = [output] if table else [output.with_name(f"{output.stem}.{role}.parquet") for role in beside]
    for path in {output, *tables}:
        if _holds_something(path) and not (_is_parquet(path) if path in tables else _is_record(path)):
            kind = "Parquet" if path in tables else "a record of assay"
            raise click.UsageError(f"{path} is there and is not {kind}; choose another place, or add --force")


def _holds_something(path: Path) -> bool:
    return os.path.isfile(path) and os.path.getsize(path) > 0  # noqa: PTH113, PTH202 (they never raise here)


def _is_parquet(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"PAR1"


def _is_record(path: Path) -> bool:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return False
    return isinstance(document, dict) and str(document.get("schema")).startswith("assay")


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
