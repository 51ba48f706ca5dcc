"""Steps of the Procfile's lines, and backups: ``python -m tasks.platform COMMAND``."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from core.errors import AssayError, InputError, UnreachableError


@click.group()
def cli() -> None:
    """Steps of the local stack; infra/Procfile and infra/README.md show them at work."""


@cli.command()
def postgres() -> None:
    """Become the stack's PostgreSQL server, which is made on first use."""
    from tasks.platform.postgres import serve

    serve(os.environ)


@cli.command()
def setup() -> None:
    """Wait for the servers; make buckets, MLflow's user, the work pool; deploy."""
    from tasks.platform.setup import set_up

    set_up(os.environ)


@cli.command(context_settings={"ignore_unknown_options": True})
@click.argument("service")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
def run(service: str, command: tuple[str, ...]) -> None:
    """Wait for what SERVICE needs, write its files, then become COMMAND, with the secrets of this service alone."""
    from tasks.platform.environment import SECRETS_OF, environment_of, write_files_of
    from tasks.platform.readiness import NEEDS, wait_for

    if service not in SECRETS_OF:
        raise InputError.of(service, f"is no service; there are {', '.join(SECRETS_OF)}")
    wait_for(NEEDS[service], os.environ)
    write_files_of(service, os.environ)
    environment = environment_of(service, os.environ)
    program = shutil.which(command[0])
    if program is None:
        raise InputError.of(command[0], "is not installed: `make setup` installs the extra `server`")
    os.chdir(environment["ASSAY_HOME" if service == "worker" else "ASSAY_STACK_FOLDER"])
    os.execve(program, [command[0], *command[1:]], environment)  # noqa: S606 (no shell is what we want)


@cli.command()
@click.argument("target", type=click.Path(path_type=Path, file_okay=False))
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="The stack's folder.")
def backup(target: Path, folder: Path | None) -> None:
    """Back up a running stack into the new folder TARGET: databases, buckets, passwords."""
    from tasks.platform.backup import back_up

    back_up(folder or _default(), target.resolve(), click.echo)


@cli.command()
@click.argument("source", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="A folder without a stack.")
@click.option("--ports", "first_port", type=click.IntRange(1024, 65_500), help="Other ports, from here on.")
def restore(source: Path, folder: Path | None, first_port: int | None) -> None:
    """Make a stack from the backup SOURCE."""
    from tasks.platform.backup import restore as run_restore

    run_restore(source.resolve(), folder or _default(), click.echo, first_port=first_port)


def _default() -> Path:
    from tasks.settings import settings

    return settings().data_dir / "stack"


def main() -> None:
    """Run a step; errors are told in one line each."""
    try:
        cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except UnreachableError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(4)
    except AssayError as error:
        click.echo(f"error: {error}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
