"""The command line. Commands are imported when they are called, so that help is immediate."""

from __future__ import annotations

import importlib
import itertools
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import click

from core.errors import AssayError, InputError, MismatchError, UnreachableError

COMMANDS = {
    "demo": "The whole story on built-in data, offline, in about a minute.",
    "init": "Make a starter folder: an instrument, a policy and example data.",
    "check": "Look at a data file: is it what it should be, and what is in it?",
    "read": "Turn another tool's file into a table.",
    "judge": "Run a registered judge on conversations.",
    "calibrate": "Calibrate a judge on a golden set.",
    "simulate": "Show by simulation how often the intervals hold the truth.",
    "plan": "Say how many traces and labels a goal takes.",
    "watch": "Ask whether a judge is still the one that was calibrated.",
    "promote": "Make a calibration the champion that measures releases.",
    "measure": "Measure a release with a calibrated judge.",
    "compare": "Say whether a release is better or worse than the one before, or line up several.",
    "audit": "Audit predictions or generated text: how groups of people fare.",
    "gate": "Hold records against a policy; missing evidence never passes.",
    "verify": "Re-derive every figure of a record from its inputs.",
    "event": "Tell the Prefect server of a changed judge or a released model.",
    "up": "Start the local stack: databases, object storage, MLflow, Prefect and a worker.",
    "doctor": "Say whether all that is configured works, and what to do where it does not.",
    "sync": "Upload the records that object storage or MLflow could not take when they were made.",
}
"""Every command, with its line of help; `flows.commands.<name>` holds it."""

EXIT_DONE, EXIT_MISMATCH, EXIT_BAD_INPUT, EXIT_UNREACHABLE, EXIT_BUG, EXIT_INTERRUPTED = 0, 1, 2, 4, 70, 130


class LazyGroup(click.Group):
    """Finds commands by name and imports only the one that is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 (click's signature)
        """Name all commands, in the order of the work."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"flows.commands.{cmd_name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--log-format", type=click.Choice(["text", "json"]), default="text", help="Form of messages on stderr.")
@click.version_option(package_name="assay", prog_name="assay")
def cli(log_format: str) -> None:
    """Measure how often an AI system does harm, from the verdicts of an imperfect judge.

    \b
    A first run:
      assay init mine && cd mine
      assay calibrate golden.csv --judge lexical --instrument instrument.yaml -o calibration.json
      assay judge lexical conversations.csv -o scores.parquet
      assay measure scores.parquet --calibration calibration.json -o measurement.json
      assay gate measurement.json --policy policy.yaml

    Exit codes: 0 done, or the gate passed; 1 the gate failed, or `verify` found a mismatch; 2 bad input or usage;
    3 the gate has insufficient evidence; 4 a service cannot be reached; 70 a bug; 130 interrupted.
    """  # noqa: D301 (click wants the character)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    given = sys.argv[1:] if arguments is None else arguments
    as_json = "--log-format=json" in given or ("--log-format", "json") in itertools.pairwise(given)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # a job that is stopped cleans up like Ctrl-C
    if "_ASSAY_COMPLETE" in os.environ:
        cli.main(given, prog_name="assay")  # the shell asks what could come next
    try:
        # Not cli.main, which takes a reader that has closed the pipe for exit code 1: that is a mismatch here.
        with cli.make_context("assay", list(given)) as context:
            cli.invoke(context)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(EXIT_BAD_INPUT)
    except click.ClickException as error:
        _tell(error.format_message(), as_json, hint=_usage_hint(error))
        sys.exit(EXIT_BAD_INPUT)
    except (click.Abort, KeyboardInterrupt):
        _tell("interrupted; nothing was written", as_json)
        sys.exit(EXIT_INTERRUPTED)
    except MismatchError as error:
        _tell(error, as_json)
        sys.exit(EXIT_MISMATCH)
    except UnreachableError as error:
        _tell(error, as_json)
        sys.exit(EXIT_UNREACHABLE)
    except AssayError as error:
        _tell(error, as_json, hint=_reader_hint(error, given))
        sys.exit(EXIT_BAD_INPUT)
    except (BrokenPipeError, SystemExit):  # nobody reads on; rich says it with SystemExit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:  # a full disk, a folder that went away meanwhile
        _tell(f"cannot read or write: {error}", as_json)
        sys.exit(EXIT_BAD_INPUT)
    except Exception as error:  # noqa: BLE001 (whatever it is, it must not look like a mismatch)
        _tell(_bug(error), as_json)
        sys.exit(EXIT_BUG)
    sys.exit(EXIT_DONE)


def _bug(error: Exception) -> str:
    """Say that assay failed, which no input should bring about; passwords of addresses do not go into a report."""
    from tasks.tracking.uris import without_credentials

    shown = os.environ.get("ASSAY_DEBUG") == "1"
    told = f"this is a bug in assay: {type(error).__name__}: {error}; please report it with the command"
    if not shown:
        return without_credentials(f"{told} and what ASSAY_DEBUG=1 adds to this message")
    return without_credentials("\n".join([f"{told} and this traceback", *traceback.format_exc().splitlines()]))


def _reader_hint(error: AssayError, given: list[str]) -> str:
    """Name the reader that knows a file which was read without it."""
    if not isinstance(error, InputError):
        return ""
    from tasks.readers.recognised import reader_of

    hints = []
    for source in dict.fromkeys(problem.source for problem in error.problems):
        reader = reader_of(Path(source))
        if reader is not None and not any(item.partition(":")[0].partition(",")[0] == reader for item in given):
            hints.append(f"{source} looks like a file that assay has a reader for: give it as {reader}:{source}")
    return "\n".join(hints)


def _usage_hint(error: click.ClickException) -> str:
    context = getattr(error, "ctx", None)
    return f"see `{context.command_path} --help`" if context is not None else ""


def _tell(error: Any, as_json: bool, hint: str = "") -> None:
    """Print an error to stderr: for people, or one JSON object a problem."""
    from tasks.logs import line
    from tasks.reporting.terminal import printable

    if not as_json:
        lines = [f"error: {error}", *([hint] if hint else [])]
        click.echo("\n".join(map(printable, "\n".join(lines).split("\n"))), err=True)
        return
    problems = error.problems if isinstance(error, InputError) else ()
    for item in problems:
        click.echo(line("error", item.message, source=item.source, line=item.line), err=True)
    if not problems:
        click.echo(line("error", str(error)), err=True)
