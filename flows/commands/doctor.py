"""``assay doctor``."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click


@click.command(name="doctor")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    metavar="DIR",
    help="Look at the stack of this folder, its databases included, in place of this environment.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the findings on stdout as JSON.")
@click.pass_context
def command(context: click.Context, folder: Path | None, as_json: bool) -> None:  # fmt: skip
    """Look at all that is configured, and say what to do where something does not work.

    Versions, folders and disk, the Prefect server with its worker and deployments, MLflow and its champions, object
    storage, databases, clocks, passwords, telemetry. What is not configured is said, and is no fault. Nothing is
    changed. Exit code 0 when all is well or only warned of, 2 when something is set wrongly, 4 when a service cannot
    be reached.

    \b
    Example:
      assay doctor
      assay doctor --json
    """  # noqa: D301 (click wants the character)
    from tasks.platform.checks import examine
    from tasks.reporting.terminal import console, words
    from tasks.settings import settings

    if folder is not None:
        from tasks.platform.environment import load

        stack = load(folder)
        os.environ.update(stack.client_variables())
        settings.cache_clear()
        environment = {**os.environ, **stack.all_variables()}
    else:
        environment = dict(os.environ)
    found = examine(environment)
    if as_json:
        rows = [asdict(item) for item in found.findings]
        click.echo(json.dumps({"verdict": found.verdict, "findings": rows}, indent=2))
    else:
        screen = console()
        styles = {"ok": "green", "warn": "yellow", "fail": "red", "off": "dim"}
        for item in found.findings:
            line = words(f"{item.status:<4}  ", styles[item.status])
            screen.print(line.append_text(words(f"{item.check}: {item.detail}")), soft_wrap=True)
            if item.todo and item.status != "ok":
                screen.print(words(f"      -> {item.todo}", "dim"), soft_wrap=True)
        counts = {status: sum(item.status == status for item in found.findings) for status in ("ok", "warn", "fail")}
        screen.print(words(f"{counts['ok']} ok, {counts['warn']} warnings, {counts['fail']} failures"))
    context.exit(found.exit_code)
