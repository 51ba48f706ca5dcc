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
    from rich.text import Text

    from tasks.archive import Written
    from tasks.storage import Place
    from tasks.tracking import Promotion
    from tasks.workers import Workers

SHOW_AFTER_SECONDS = 2.0
SPEED_OVER_SECONDS = 600.0  # a chunk of a simulation may take a minute
EXIT_INTERRUPTED = 130


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
higher_is_option = click.option(
    "--higher-is", type=click.Choice(["worse", "better"]),
    help="Which end of the scale is harm, in results of a tool whose files do not say it (READER:PATH).",
)  # fmt: skip
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


def _checked_address(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse what is no address before anything is computed."""
    from tasks.tracking.uris import tracking_uri

    tracking_uri(value)
    return value


def _workers(_: click.Context, __: click.Parameter, value: str | None) -> Workers | None:
    """Read a number of processes or the address of a Dask scheduler."""
    if value is None:
        return None
    from core.errors import InputError
    from tasks.workers import workers_of

    try:
        return workers_of(value)
    except InputError as error:
        raise click.BadParameter(f"it is {error.problems[0].message}") from None


def workers_option(what: str, default: str) -> Callable[[Any], Any]:
    """Make the option that says who works; `what` they do and the default are for the help."""
    return click.option(
        "--workers", callback=_workers, metavar="N|tcp://HOST:PORT",
        help=f"Processes that {what}, or a Dask scheduler whose workers do; figures do not depend on it. Default: "
        f"ASSAY_WORKERS, else {default}.",
    )  # fmt: skip


orchestrate_option = click.option(
    "--orchestrate", is_flag=True,
    help="Run as a Prefect flow, on a temporary server if PREFECT_API_URL names none. With PREFECT_API_URL always so.",
)  # fmt: skip
tracking_option = click.option(
    "--tracking-uri", metavar="URI", callback=_checked_address,
    help="MLflow: a server, or a database; none switches it off. Default: a database in the user's data folder.",
)  # fmt: skip


@contextmanager
def progress(what: str) -> Iterator[Callable[[int], None]]:
    """Count rows on the terminal, once the work has lasted two seconds."""
    with counted_progress(what) as begin:
        yield begin(None)


@contextmanager
def counted_progress(what: str) -> Iterator[Callable[[int | None], Callable[[int], None]]]:
    """Give a function that is told how much there is to do, if that is known, and returns the callback that counts.

    Nothing is shown before the work has lasted two seconds; with a total also how long it will take.
    """
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    from tasks.reporting.terminal import console

    screen = console(stderr=True)
    if not screen.is_terminal:
        yield lambda _: lambda _: None
        return
    bars: list[Progress] = []

    def begin(total: int | None) -> Callable[[int], None]:
        known = f"{{task.completed:,}} of {total:,}" if total else "{task.completed:,}"
        ahead = (BarColumn(), TextColumn("time left"), TimeRemainingColumn()) if total else ()
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TextColumn(known), TimeElapsedColumn(), *ahead)
        bar = Progress(*columns, console=screen, transient=True, speed_estimate_period=SPEED_OVER_SECONDS)
        bars.append(bar)
        task = bar.add_task(what, total=total)
        began = time.monotonic()

        def advance(count: int) -> None:
            if not bar.live.is_started and time.monotonic() - began > SHOW_AFTER_SECONDS:
                bar.start()
            bar.advance(task, count)

        return advance

    try:
        yield begin
    finally:
        for bar in bars:
            bar.stop()


def plain_name(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
    """Refuse a name that is not text: bytes of another encoding than UTF-8 come in as halves of characters."""
    if value is not None and not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise click.BadParameter("is not UTF-8 text") from None
    return value


def with_direction(files: Iterable[str], higher_is: str | None) -> list[str]:
    """Tell readers that take options which end of the scale is harm: ``inspect:x`` -> ``inspect,higher-is=worse:x``.

    A reader that was told in its argument keeps to that.
    """
    if higher_is is None:
        return list(files)
    from tasks.readers import reader_names, takes_options
    from tasks.storage import split_reader

    names, told = reader_names(), []
    for file in files:
        reader, options, path = split_reader(file, names)
        if takes_options(reader) and "higher-is" not in options:
            asked = "".join(f",{name}={value}" for name, value in {**options, "higher-is": higher_is}.items())
            told.append(f"{reader}{asked}:{path}")
        else:
            told.append(file)
    if told == list(files):
        raise click.UsageError(
            "--higher-is is for results of other tools (READER:PATH); a table is turned with `assay read table`"
        )
    return told


def refuse_overwriting(
    output: Place | None,
    inputs: Iterable[str | Path | None],
    *,
    force: bool,
    table: bool = False,
    beside: Iterable[str] = (),
) -> None:
    """Refuse an output that would take the place of an input, or of a file that assay has not written.

    Parameters
    ----------
    output : Path or S3Url, optional
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
    place = _real(str(output))
    for item in inputs:
        # A prefix may name the reader: READER:PATH.
        names = () if item is None else (str(item), str(item).partition(":")[2])
        if any(name and _real(name) == place for name in names):
            raise click.UsageError(f"-o {output} is an input; choose another place for the output")
    if force or not isinstance(output, Path):  # an object is an output's own business: buckets keep versions
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


def _real(name: str) -> str:
    from tasks.storage import is_s3

    return name if is_s3(name) else os.path.realpath(name)


def through_prefect(orchestrate: bool) -> bool:
    """Whether a job runs as a Prefect flow: asked for, or a server is configured."""
    return orchestrate or bool(os.environ.get("PREFECT_API_URL"))


def logs_json() -> bool:
    """Whether --log-format json was asked for."""
    context = click.get_current_context(silent=True)
    return context is not None and context.find_root().params.get("log_format") == "json"


def note(message: str, **more: str) -> None:
    """Write a line to a log of JSON lines, where that was asked for; people read the report."""
    if logs_json():
        from tasks.logs import line

        click.echo(line("info", message, **more), err=True)


def run_flow(flow: Callable[..., Written], tracking_uri: str | None, **parameters: Any) -> Written:
    """Run a Prefect flow in this process.

    An address of MLflow may hold a password, and Prefect stores parameters: it goes through the environment.
    """
    import httpx

    from core.errors import UnreachableError
    from tasks.settings import settings

    if tracking_uri is not None:
        os.environ["ASSAY_TRACKING_URI"] = tracking_uri
        settings.cache_clear()
    if logs_json():
        from tasks.logs import PREFECT_SWITCHES

        os.environ.update(PREFECT_SWITCHES)
    _check_prefect()
    try:
        return flow(**parameters)
    except Exception as error:
        # Prefect's own calls alone, perhaps in words of its own: whoever else asks by HTTP says what it means.
        lost = next((item for item in (error, error.__cause__) if isinstance(item, httpx.HTTPError)), None)
        if lost is None:
            raise
        told = " ".join(str(lost).split()[:40]) or type(lost).__name__
        raise UnreachableError(
            f"the Prefect server was lost on the way: {told}\nRun the command again when it is back: what was computed "
            "is not computed twice, and the record is the same."
        ) from None


def _check_prefect() -> None:
    """See that a configured server answers; without one Prefect starts a temporary server."""
    import httpx

    from core.errors import UnreachableError
    from tasks.tracking.uris import without_credentials

    address = os.environ.get("PREFECT_API_URL")
    if not address:
        return
    try:
        httpx.get(f"{address.rstrip('/')}/health", timeout=10).raise_for_status()
    except (httpx.HTTPError, httpx.InvalidURL):
        raise UnreachableError(
            f"the Prefect server at {without_credentials(address)} does not answer; start it, or unset PREFECT_API_URL "
            "to run without one"
        ) from None


def check_tracked(written: Written, tracking_uri: str | None) -> None:
    """Tell with exit code 4 that a flow could not reach MLflow: it finished, and left a note on what waits."""
    from core.errors import UnreachableError
    from tasks.tracking import tracking_uri as resolved
    from tasks.tracking.outbox import note_of

    uri = resolved(tracking_uri)
    if uri is not None and note_of(written.document["id"], uri).exists():
        raise UnreachableError(
            f"MLflow could not be reached.\nThe record is kept: {written.path}\n"
            "`assay sync` uploads it when the service is back."
        )


def show(
    written: Written, report: Callable[[Any], Any], *, as_json: bool, more: Callable[[Any], Text | None] | None = None
) -> None:
    """Print a record: as JSON alone, or the report, a line `more` that has to stay whole, and the record's path."""
    from tasks.archive import dumped
    from tasks.reporting.terminal import console, words

    screen = console(stderr=as_json)
    if as_json:
        click.echo(dumped(written.document), nl=False)
    else:
        screen.print(report(written.document))
    line = None if more is None else more(written.document)
    if line is not None:
        screen.print(line, soft_wrap=True)
    screen.print(words(f"record: {written.path}"), soft_wrap=True)
    note("record written", path=str(written.path))


def promotion_of(promote: bool, because: str | None, *, named: bool, tracking_uri: str | None) -> Promotion | None:
    """Turn --promote and --because into a wish, or refuse it before anything is computed."""
    if not promote:
        if because is not None:
            raise click.UsageError("--because goes with --promote")
        return None
    from tasks.tracking import promotion
    from tasks.tracking import tracking_uri as resolved

    if not named:
        raise click.UsageError("--promote needs a registered instrument: give --instrument SPEC.yaml or --declared")
    if resolved(tracking_uri) is None:
        raise click.UsageError("--promote needs MLflow's registry, and tracking is switched off")
    return promotion(because)


def track(
    written: Written,
    tracking_uri: str | None,
    *,
    as_json: bool,
    register: bool = False,
    promotion: Promotion | None = None,
) -> None:
    """Log a record to MLflow and say where; the record has been shown by then, whatever happens here."""
    from tasks.reporting.terminal import console, tracked_report
    from tasks.tracking import track as log
    from tasks.tracking import tracking_uri as resolved

    uri = resolved(tracking_uri)
    if uri is None:
        return
    try:
        tracked = log(written, uri, register=register, promotion=promotion)
    except KeyboardInterrupt:
        click.echo(f"interrupted; the record is kept: {written.path}; `assay sync` uploads it", err=True)
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None
    from tasks.logs import about

    about(run=tracked.run_id)
    console(stderr=as_json).print(tracked_report(tracked), soft_wrap=True)
    note("logged to MLflow", uri=tracked.shown_uri)
