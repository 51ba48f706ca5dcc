"""The stack's environment file: ports, addresses and generated secrets, in a file that only its owner reads."""

from __future__ import annotations

import os
import re
import secrets
import shlex
import shutil
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import SecretStr

from core.errors import InputError

Database = Literal["postgresql", "sqlite"]

ENV_FILE, CLIENT_FILE = ".env", "client.env"
HOST = "127.0.0.1"
BUCKET, MLFLOW_BUCKET = "assay", "mlflow"
POOL = "assay"

AUTH_CACHE_SECONDS = 60
"""How long MLflow takes a password that it has checked for good: each check costs a third of a second of CPU."""

PORTS = {
    "PREFECT": 4200, "MLFLOW": 5000, "S3": 8333, "POSTGRES": 5442,
    "SEAWEED_MASTER": 9333, "SEAWEED_VOLUME": 9334, "SEAWEED_FILER": 9335,
    "SEAWEED_MASTER_GRPC": 19333, "SEAWEED_VOLUME_GRPC": 19334, "SEAWEED_FILER_GRPC": 19335,
    "SEAWEED_S3_GRPC": 18333,
}  # fmt: skip
"""What listens, always on this machine alone, and where when nothing else is asked for."""

CLIENT_SECRETS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "MLFLOW_TRACKING_PASSWORD", "PREFECT_API_AUTH_STRING")
SECRETS_OF: Mapping[str, Mapping[str, str]] = {
    "postgres": {
        name: name
        for name in (
            "ASSAY_STACK_POSTGRES_PASSWORD", "ASSAY_STACK_MLFLOW_DATABASE_PASSWORD",
            "ASSAY_STACK_PREFECT_DATABASE_PASSWORD",
        )
    },
    "s3": {
        name: name
        for name in (
            "WEED_JWT_SIGNING_KEY", "WEED_JWT_SIGNING_READ_KEY", "WEED_JWT_FILER_SIGNING_KEY",
            "WEED_JWT_FILER_SIGNING_READ_KEY",
        )
    },
    "mlflow": {
        "PGPASSWORD": "ASSAY_STACK_MLFLOW_DATABASE_PASSWORD",
        "AWS_ACCESS_KEY_ID": "ASSAY_STACK_S3_MLFLOW_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY": "ASSAY_STACK_S3_MLFLOW_SECRET_ACCESS_KEY",
        "MLFLOW_AUTH_ADMIN_PASSWORD": "MLFLOW_AUTH_ADMIN_PASSWORD",
        "MLFLOW_FLASK_SERVER_SECRET_KEY": "MLFLOW_FLASK_SERVER_SECRET_KEY",
    },
    "prefect": {
        "PGPASSWORD": "ASSAY_STACK_PREFECT_DATABASE_PASSWORD",
        "PREFECT_SERVER_API_AUTH_STRING": "PREFECT_SERVER_API_AUTH_STRING",
    },
    "worker": {name: name for name in CLIENT_SECRETS},
}  # fmt: skip
"""Which secrets a process gets, under which name: the variable it reads, and the one in the file."""

_GENERATED = {
    "ASSAY_STACK_POSTGRES_PASSWORD": 24, "ASSAY_STACK_MLFLOW_DATABASE_PASSWORD": 24,
    "ASSAY_STACK_PREFECT_DATABASE_PASSWORD": 24,
    "ASSAY_STACK_S3_ADMIN_ACCESS_KEY_ID": 10, "ASSAY_STACK_S3_ADMIN_SECRET_ACCESS_KEY": 20,
    "ASSAY_STACK_S3_MLFLOW_ACCESS_KEY_ID": 10, "ASSAY_STACK_S3_MLFLOW_SECRET_ACCESS_KEY": 20,
    "AWS_ACCESS_KEY_ID": 10, "AWS_SECRET_ACCESS_KEY": 20,
    "WEED_JWT_SIGNING_KEY": 32, "WEED_JWT_SIGNING_READ_KEY": 32, "WEED_JWT_FILER_SIGNING_KEY": 32,
    "WEED_JWT_FILER_SIGNING_READ_KEY": 32,
    "MLFLOW_FLASK_SERVER_SECRET_KEY": 32, "MLFLOW_AUTH_ADMIN_PASSWORD": 24, "MLFLOW_TRACKING_PASSWORD": 24,
    "PREFECT_API_AUTH_STRING": 24,
}  # fmt: skip
"""Bytes of each generated secret. Hexadecimal, so that no program that reads the file has to unquote it."""

SECRET_NAMES = frozenset(_GENERATED) | {"PREFECT_SERVER_API_AUTH_STRING"}

JUDGE_KEY = "_API_KEY"
"""How the names of judges' keys end. Somebody may add them to the file; they are secrets of the worker alone."""

_TUNING = {
    "DO_NOT_TRACK": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # eight processes for jobs that assay does not give it
    "MLFLOW_WORKERS": "2",
    "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",  # what a Prefect server answers while its database is down
    "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",  # the least that Prefect takes; a silent run is Crashed after three
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "10",  # not 30: how soon a queue goes on
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_WORKER_QUERY_SECONDS": "2",
}
"""Written on first use; what somebody changes in the file stays."""

_LINE = re.compile(r"\s*(?:export\s+)?(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>.*)")
_HEAD = (
    "# Written by `assay up` for this folder alone. It holds passwords: keep it to yourself, and out of any repository."
)
_CLIENT_HEAD = "# Written by `assay up`. For clients: set -a; . THIS_FILE; set +a. It holds passwords."


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """What the environment file says.

    Attributes
    ----------
    folder : Path
        Everything that the stack keeps is in it.
    values : mapping of str to str
        Variables that anybody may see.
    secrets : mapping of str to SecretStr
        The others: those that were generated, and judges' keys that somebody added.
    """

    folder: Path
    values: Mapping[str, str]
    secrets: Mapping[str, SecretStr]

    @property
    def file(self) -> Path:
        """The environment file."""
        return self.folder / ENV_FILE

    @property
    def client_file(self) -> Path:
        """The part of it that clients need."""
        return self.folder / CLIENT_FILE

    @property
    def database(self) -> Database:
        """What both servers keep their data in."""
        return "sqlite" if self.values["ASSAY_STACK_DATABASE"] == "sqlite" else "postgresql"

    def port(self, name: str) -> int:
        """Return the port of a service, by its name in `PORTS`."""
        return int(self.values[f"ASSAY_STACK_{name}_PORT"])

    def secret(self, name: str) -> str:
        """Reveal a secret to the one who needs it."""
        return self.secrets[name].get_secret_value()

    def all_variables(self) -> dict[str, str]:
        """Return everything that the file says."""
        return {**self.values, **{name: value.get_secret_value() for name, value in self.secrets.items()}}

    def client_variables(self) -> dict[str, str]:
        """Return what a client or a worker needs, and no more."""
        public = {name: value for name, value in self.values.items() if not name.startswith(_SERVER_ONLY)}
        return {**public, **{name: self.secret(name) for name in CLIENT_SECRETS}}


_SERVER_ONLY = ("ASSAY_STACK_", "MLFLOW_BACKEND_", "MLFLOW_ARTIFACTS_", "MLFLOW_AUTH_", "MLFLOW_S3_", "PREFECT_SERVER_")


def is_secret(name: str) -> bool:
    """Whether a variable of the file is a secret: a generated one, or a judge's key that somebody added.

    Examples
    --------
    >>> is_secret("WEED_JWT_SIGNING_KEY"), is_secret("OPENAI_API_KEY"), is_secret("ASSAY_CACHE_BYTES")
    (True, True, False)
    """
    return name in SECRET_NAMES or name.endswith(JUDGE_KEY)


def environment_of(service: str, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of one service: all that is public, and of the secrets only its own.

    Judges' keys are the worker's, which runs the judges.

    Examples
    --------
    >>> found = environment_of("prefect", {"PREFECT_SERVER_API_AUTH_STRING": "a", "AWS_SECRET_ACCESS_KEY": "b"})
    >>> sorted(found)
    ['PREFECT_SERVER_API_AUTH_STRING']
    """
    keys = {name: value for name, value in environment.items() if name.endswith(JUDGE_KEY)}
    public = {name: value for name, value in environment.items() if not is_secret(name)}
    own = {name: environment[source] for name, source in SECRETS_OF[service].items() if source in environment}
    return public | own | (keys if service == "worker" else {})


def prepare(
    folder: Path, home: Path, *, database: Database | None = None, first_port: int | None = None
) -> tuple[Stack, bool]:
    """Read a folder's environment file, or write it on first use; what is derived from it is written each time.

    Parameters
    ----------
    folder : Path
    home : Path
        The project's folder.
    database : {'postgresql', 'sqlite'}, optional
        Default: what the file says, else PostgreSQL.
    first_port : int, optional
        Ports from here on, one after the other, in place of those of the file, or the usual ones.

    Returns
    -------
    stack : Stack
    is_new : bool

    Raises
    ------
    InputError
        The file is not usable, others may read it, or it says another database.
    """
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    file = folder / ENV_FILE
    is_new = not file.exists()
    found = {} if is_new else parse(file)
    before = found.get("ASSAY_STACK_DATABASE")
    if before is not None and database is not None and before != database:
        raise InputError.of(str(file), f"says {before}, and its data is there; name another folder for {database}")
    ports = {
        f"ASSAY_STACK_{name}_PORT": str(
            found.get(f"ASSAY_STACK_{name}_PORT", usual) if first_port is None else first_port + index
        )
        for index, (name, usual) in enumerate(PORTS.items())
    }
    chosen: Database = "sqlite" if (before or database) == "sqlite" else "postgresql"
    secret = {name: found.get(name) or _generated(name) for name in _GENERATED}
    secret["PREFECT_SERVER_API_AUTH_STRING"] = secret["PREFECT_API_AUTH_STRING"]
    wanted = _TUNING | found | ports | _derived(folder, home, chosen, ports) | secret
    if wanted != found:
        write_private(file, _text(_HEAD, wanted))
    stack = _stack(folder, wanted)
    write_private(stack.client_file, _text(_CLIENT_HEAD, stack.client_variables()))
    for name in ("logs", "s3", "run", "mlflow"):
        (folder / name).mkdir(exist_ok=True, mode=0o700)
    return stack, is_new


def load(folder: Path) -> Stack:
    """Read a folder's environment file.

    Raises
    ------
    InputError
        There is none, others may read it, or it lacks something.
    """
    folder = folder.resolve()
    file = folder / ENV_FILE
    if not file.is_file():
        raise InputError.of(str(file), "is not there; `assay up` writes it")
    found = parse(file)
    needed = [*SECRET_NAMES, "ASSAY_STACK_DATABASE", *(f"ASSAY_STACK_{name}_PORT" for name in PORTS)]
    if missing := sorted(name for name in needed if name not in found):
        raise InputError.of(str(file), f"lacks {', '.join(missing)}; `assay up` adds what is missing")
    return _stack(folder, found)


def parse(file: Path) -> dict[str, str]:
    """Read NAME=VALUE lines; values may be quoted as in a shell. Nothing is replaced inside them.

    Raises
    ------
    InputError
        Others than the owner may read the file, or a line is no assignment of one value.
    """
    if (mode := stat.S_IMODE(file.stat().st_mode)) & 0o077:
        raise InputError.of(str(file), f"others may read it (mode {mode:o}), and it holds passwords: chmod 600 it")
    found: dict[str, str] = {}
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        try:
            if match is None:
                raise ValueError
            (found[match["name"]],) = shlex.split(match["value"]) or [""]
        except ValueError:  # the line may hold a secret: it is not repeated
            raise InputError.of(f"{file}:{number}", "is not NAME=VALUE; a value with spaces is quoted") from None
    return found


def write_files_of(service: str, environment: Mapping[str, str]) -> None:
    """Write what a service reads from a file in the stack's folder, where its process is about to start.

    Parameters
    ----------
    service : str
    environment : mapping of str to str
        Everything that the environment file says, or in a container what the service was given of it.
    """
    known = {"s3": ("s3.json", identities), "mlflow": ("mlflow-auth.ini", user_settings)}
    if service in known:
        name, text = known[service]
        write_private(Path(environment["ASSAY_STACK_FOLDER"]) / name, text(environment))


def identities(environment: Mapping[str, str]) -> str:
    """Return SeaweedFS's list of keys: one for set-up and backups, one a bucket for those who use it."""
    import json

    own = ("Read", "Write", "List", "Tagging")
    wanted = [
        ("admin", "ASSAY_STACK_S3_ADMIN_ACCESS_KEY_ID", "ASSAY_STACK_S3_ADMIN_SECRET_ACCESS_KEY", ["Admin", *own]),
        ("assay", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", [f"{action}:{BUCKET}" for action in own]),
        (
            "mlflow", "ASSAY_STACK_S3_MLFLOW_ACCESS_KEY_ID", "ASSAY_STACK_S3_MLFLOW_SECRET_ACCESS_KEY",
            [f"{action}:{MLFLOW_BUCKET}" for action in own],
        ),
    ]  # fmt: skip
    rows = [
        {
            "name": name,
            "credentials": [{"accessKey": environment[key], "secretKey": environment[secret]}],
            "actions": actions,
        }
        for name, key, secret, actions in wanted
    ]
    return json.dumps({"identities": rows}, indent=2) + "\n"


def user_settings(environment: Mapping[str, str]) -> str:
    """Return MLflow's settings of users. Everybody who has a password may read all, and edit what they made."""
    store = environment["ASSAY_STACK_USERS_STORE_URI"]
    return (
        "[mlflow]\n"
        "default_permission = READ\n"
        f"database_uri = {store.replace('%', '%%')}\n"
        "admin_username = admin\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
        f"auth_cache_ttl_seconds = {AUTH_CACHE_SECONDS}\n"
    )


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner may read, whole or not at all."""
    temporary = file.with_name(f"{file.name}.{os.getpid()}.new")
    temporary.unlink(missing_ok=True)
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)


def move(source: Path, folder: Path) -> None:
    """Take another stack's environment file for a folder that has none; `prepare` makes its addresses anew."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = folder / ENV_FILE
    if target.exists():
        raise InputError.of(str(target), "is there: this folder has a stack of its own; name another")
    shutil.copyfile(source, target)
    target.chmod(0o600)


def _generated(name: str) -> str:
    token = secrets.token_hex(_GENERATED[name])
    return f"assay:{token}" if name == "PREFECT_API_AUTH_STRING" else token


def _derived(folder: Path, home: Path, database: Database, ports: Mapping[str, str]) -> dict[str, str]:
    """Everything that follows from folder, ports and database. No address holds a password."""
    prefect, mlflow, s3, postgres = (ports[f"ASSAY_STACK_{name}_PORT"] for name in list(PORTS)[:4])
    if database == "sqlite":
        runs, users = f"sqlite:///{folder}/mlflow/mlflow.db", f"sqlite:///{folder}/mlflow/auth.db"
        flows = f"sqlite+aiosqlite:///{folder}/prefect/prefect.db"
    else:
        runs = f"postgresql+psycopg2://mlflow@{HOST}:{postgres}/mlflow"
        users, flows = f"{runs}_auth", f"postgresql+asyncpg://prefect@{HOST}:{postgres}/prefect"
    return {
        "ASSAY_STACK_FOLDER": str(folder),
        "ASSAY_STACK_DATABASE": database,
        "ASSAY_STACK_USERS_STORE_URI": users,
        "ASSAY_HOME": str(home),
        "ASSAY_DATA_DIR": str(folder / "data"),
        "ASSAY_CACHE_DIR": str(folder / "cache"),
        "ASSAY_RECORDS": f"s3://{BUCKET}/records",
        "ASSAY_TRACKING_URI": f"http://{HOST}:{mlflow}",
        "AWS_ENDPOINT_URL": f"http://{HOST}:{s3}",
        "AWS_DEFAULT_REGION": "us-east-1",
        "MLFLOW_TRACKING_URI": f"http://{HOST}:{mlflow}",
        "MLFLOW_TRACKING_USERNAME": "assay",
        "MLFLOW_BACKEND_STORE_URI": runs,
        "MLFLOW_ARTIFACTS_DESTINATION": f"s3://{MLFLOW_BUCKET}/artifacts",
        "MLFLOW_S3_ENDPOINT_URL": f"http://{HOST}:{s3}",
        "MLFLOW_AUTH_CONFIG_PATH": str(folder / "mlflow-auth.ini"),
        "MLFLOW_AUTH_ADMIN_USERNAME": "admin",
        "PREFECT_HOME": str(folder / "prefect"),
        "PREFECT_API_URL": f"http://{HOST}:{prefect}/api",
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": flows,
        "PREFECT_SERVER_UI_API_URL": f"http://{HOST}:{prefect}/api",
    }


def _text(head: str, values: Mapping[str, str]) -> str:
    return "\n".join([head, *(f"{name}={shlex.quote(value)}" for name, value in sorted(values.items()))]) + "\n"


def _stack(folder: Path, found: Mapping[str, str]) -> Stack:
    return Stack(
        folder=folder,
        values={name: value for name, value in found.items() if not is_secret(name)},
        secrets={name: SecretStr(value) for name, value in found.items() if is_secret(name)},
    )
