"""``assay init``."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(name="init")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False), metavar="DIR")
def command(folder: Path) -> None:
    """Make a starter folder DIR: an instrument, a policy, labelled and unlabelled conversations, and what to run.

    \b
    Example:
      assay init mine && cd mine && cat README.md
    """  # noqa: D301 (click wants the character)
    from core.errors import InputError
    from tasks.builtin.starter import write_starter
    from tasks.reporting.terminal import console, words

    if folder.exists() and any(folder.iterdir()):
        raise InputError.of(str(folder), "is not empty; nothing was written. Name a new folder")
    screen = console()
    for path in write_starter(folder):
        screen.print(words(f"  {path}"), soft_wrap=True)
    screen.print(words(f"Next: cd {folder}, and see README.md"), soft_wrap=True)
