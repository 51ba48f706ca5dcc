"""The servers' databases, where this environment knows them: whether their schema is that of the installed versions."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path

from tasks.platform.checks.finding import Finding

_KNOWN = (
    ("mlflow database", "MLFLOW_BACKEND_STORE_URI", "ASSAY_STACK_MLFLOW_DATABASE_PASSWORD", "mlflow",
     "store/db_migrations", "mlflow db upgrade"),
    ("prefect database", "PREFECT_SERVER_DATABASE_CONNECTION_URL", "ASSAY_STACK_PREFECT_DATABASE_PASSWORD", "prefect",
     "server/database/_migrations", "prefect server database upgrade"),
)  # fmt: skip
"""Finding, address, password, package, its folder of migrations, and the command that brings a schema to the newest."""


def look(environment: Mapping[str, str]) -> Iterator[Finding]:
    """Compare each database's revision with the newest of the installed package."""
    known = [item for item in _KNOWN if environment.get(item[1])]
    if not known:
        yield Finding.off("databases", "the servers' own; their addresses are not in this environment", (
            "`assay doctor --folder DIR` looks at those of a stack"
        ))  # fmt: skip
    for check, address, password, package, folder, command in known:
        yield _schema(check, environment[address], environment.get(password), package, folder, command)


def _schema(check: str, url: str, password: str | None, package: str, folder: str, command: str) -> Finding:
    from sqlalchemy import create_engine, text
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import SQLAlchemyError

    address = make_url(url)
    is_file = address.get_backend_name() == "sqlite"
    if is_file and not Path(address.database or "").exists():
        return Finding.off(check, "not made yet")
    # The server's driver may be asynchronous; here one question is asked.
    address = address.set(drivername="sqlite" if is_file else "postgresql+psycopg2")
    engine = create_engine(
        address, connect_args={} if is_file else {"connect_timeout": 5, **({"password": password} if password else {})}
    )
    try:
        with engine.connect() as connection:
            found = {str(row[0]) for row in connection.execute(text("SELECT version_num FROM alembic_version"))}
    except (SQLAlchemyError, ModuleNotFoundError) as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        return Finding.outage(check, f"cannot be asked: {reason}", "start it; see infra/README.md, Troubleshooting")
    finally:
        engine.dispose()
    newest = heads(package, folder, address.get_backend_name())
    if found == newest:
        return Finding.ok(check, f"{address.get_backend_name()}, schema {', '.join(sorted(found))} is the newest")
    told = f"schema {', '.join(sorted(found))}, and the installed {package} has {', '.join(newest)}"
    return Finding.warn(check, told, f"back up, then {command}; servers do it themselves when they start")


def heads(package: str, folder: str, dialect: str) -> set[str]:
    """Return the newest revisions of a package's migrations."""
    from alembic.config import Config
    from alembic.script import ScriptDirectory

    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return set()
    place = Path(spec.submodule_search_locations[0]) / folder
    config = Config()
    config.set_main_option("script_location", str(place).replace("%", "%%"))
    versions = place / "versions" / dialect
    config.set_main_option("version_locations", str(versions if versions.is_dir() else place / "versions"))
    config.set_main_option("path_separator", "os")
    return set(ScriptDirectory.from_config(config).get_heads())
