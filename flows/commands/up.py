"""``assay up``."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import click


@click.command(name="up")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Where the stack keeps everything.  [default: stack/ in the data folder]",
)
@click.option(
    "--database", type=click.Choice(["postgresql", "sqlite"]), help="Default: PostgreSQL where it can run, else SQLite."
)
@click.option(
    "--ports",
    "first_port",
    type=click.IntRange(1024, 65_500),
    metavar="FIRST",
    help="Eleven ports from here on, in place of the usual ones (Prefect 4200, MLflow 5000, S3 8333).",
)
@click.option("--prepare", is_flag=True, help="Write the environment file and what belongs to it; start nothing.")
def command(
    folder: Path | None, database: Literal["postgresql", "sqlite"] | None, first_port: int | None, prepare: bool
) -> None:  # fmt: skip
    """Start the local stack: PostgreSQL, object storage, MLflow, Prefect server and worker, with the deployments.

    The first start writes DIR/.env (ports, addresses, generated passwords; only its owner may read it), and
    DIR/client.env for those who use the stack. Everything listens on this machine alone. Ctrl-C stops everything, and
    the next start finds all data. infra/README.md says more.

    \b
    Example:
      assay up
      assay up --folder mine --ports 24200
    """  # noqa: D301 (click wants the character)
    from tasks.platform.stack import run, written
    from tasks.reporting.terminal import console, words
    from tasks.settings import settings

    screen = console()

    def tell(line: str) -> None:
        screen.print(words(line), soft_wrap=True)

    stack = written(folder or settings().data_dir / "stack", database=database, first_port=first_port, tell=tell)
    if not prepare:
        run(stack, tell)
