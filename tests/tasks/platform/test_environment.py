"""The stack's environment file: private, generated once, kept, and read alike by everybody."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from honcho.environ import parse as honcho_parse

from core.errors import InputError
from tasks.platform.environment import (
    CLIENT_SECRETS,
    PORTS,
    SECRET_NAMES,
    SECRETS_OF,
    Stack,
    environment_of,
    identities,
    load,
    move,
    parse,
    prepare,
    write_files_of,
)


def made(folder: Path, **given: object) -> Stack:
    stack, _ = prepare(folder, Path("/srv/assay"), **given)  # type: ignore[arg-type]
    return stack


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def test_every_file_is_private_and_known_to_hold_secrets_or_none(tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    for service in SECRETS_OF:
        write_files_of(service, stack.all_variables())
    values = [value.get_secret_value() for value in stack.secrets.values()]
    for file in [item for item in stack.folder.rglob("*") if item.is_file()]:
        holds = any(value in file.read_text() for value in values)
        assert mode(file) == 0o600, file
        assert holds == (file.name != "mlflow-auth.ini"), file
    assert mode(stack.folder) == 0o700


def test_secrets_are_made_once_and_differ_from_folder_to_folder(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a"), made(tmp_path / "b")
    own = {name: first.secret(name) for name in SECRET_NAMES}
    assert {name for name in SECRET_NAMES if second.secret(name) == own[name]} == set()
    assert len(set(own.values())) == len(own) - 1  # the Prefect server's and its clients' are one
    assert min(map(len, own.values())) >= 20
    again, is_new = prepare(tmp_path / "a", Path("/srv/assay"))
    assert not is_new
    assert {name: again.secret(name) for name in SECRET_NAMES} == own


def test_no_address_or_other_public_value_holds_a_secret_and_none_is_shown(tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    secrets = [value.get_secret_value() for value in stack.secrets.values()]
    assert not [name for name, value in stack.values.items() if any(item in value for item in secrets)]
    assert not [item for item in secrets if item in repr(stack) or item in str(stack)]


def test_lines_of_one_s_own_and_tuning_stay_and_what_follows_from_the_ports_is_made_anew(tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    text = stack.file.read_text().replace("MLFLOW_WORKERS=2", "MLFLOW_WORKERS=5")
    stack.file.write_text(text + "ASSAY_NOTIFICATION_BLOCK=slack-webhook/team\n")
    again = made(tmp_path / "stack", first_port=24_200)
    assert (again.values["MLFLOW_WORKERS"], again.values["ASSAY_NOTIFICATION_BLOCK"]) == ("5", "slack-webhook/team")
    assert again.values["PREFECT_API_URL"] == "http://127.0.0.1:24200/api"
    assert [again.port(name) for name in PORTS] == list(range(24_200, 24_200 + len(PORTS)))
    assert mode(again.file) == 0o600


def test_what_an_older_version_lacks_is_added(tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    kept = [line for line in stack.file.read_text().splitlines() if not line.startswith("WEED_JWT_SIGNING_KEY=")]
    stack.file.write_text("\n".join(kept) + "\n")
    with pytest.raises(InputError, match="lacks WEED_JWT_SIGNING_KEY; `assay up` adds"):
        load(stack.folder)
    assert made(tmp_path / "stack").secret("WEED_JWT_SIGNING_KEY")


def test_another_database_is_refused_where_data_is(tmp_path: Path) -> None:
    made(tmp_path / "stack", database="sqlite")
    with pytest.raises(InputError, match="says sqlite, and its data is there"):
        made(tmp_path / "stack", database="postgresql")


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    stack.file.chmod(0o640)
    with pytest.raises(InputError, match=r"others may read it .mode 640.*chmod 600"):
        load(stack.folder)


def test_a_broken_line_is_named_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.touch(mode=0o600)
    file.write_text("A=1\nPASSWORD geheim\n")
    with pytest.raises(InputError) as caught:
        parse(file)
    assert f"{file}:2" in str(caught.value)
    assert "geheim" not in str(caught.value)


def test_a_value_of_several_words_is_quoted_or_refused(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.touch(mode=0o600)
    file.write_text("A='two words'\nB=\nC=\n")
    assert parse(file) == {"A": "two words", "B": "", "C": ""}
    file.write_text("A=1\nB=two words\n")
    with pytest.raises(InputError, match=r":2: is not NAME=VALUE; a value with spaces is quoted"):
        parse(file)


@pytest.mark.parametrize("name", ["plain", "with space", "it's", "a#b"])
def test_a_shell_and_honcho_read_the_file_as_we_do(name: str, tmp_path: Path) -> None:
    stack = made(tmp_path / name)
    ours = parse(stack.file)
    told = subprocess.run(
        ["sh", "-c", 'set -a; . "$1"; env -0', "sh", str(stack.file)], capture_output=True, text=True, check=True,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    shell = dict(item.split("=", 1) for item in told.stdout.split("\0") if "=" in item)
    assert {key: shell[key] for key in ours} == ours
    if name != "it's":  # which honcho's own way of quoting does not know
        assert honcho_parse(stack.file.read_text()) == ours


@pytest.mark.parametrize("service", SECRETS_OF)
def test_a_service_gets_its_own_secrets_alone(service: str, tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    found = environment_of(service, stack.all_variables())
    values = {found[name] for name in SECRETS_OF[service]}
    foreign = {stack.secret(name) for name in SECRET_NAMES} - values
    assert set(found.values()) & foreign == set()
    assert all(name in found for name in stack.values)


def test_a_service_starts_in_the_folder_with_its_file_written_and_its_own_secrets(
    project: Path, tmp_path: Path
) -> None:
    stack = made(tmp_path / "stack")
    code = "import os, pathlib; print(pathlib.Path('s3.json').read_text()); print(*os.environ.values(), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-m", "tasks.platform", "run", "s3", "--", "python", "-c", code], cwd=project, check=True,
        env={**stack.all_variables(), "PATH": str(Path(sys.executable).parent), "OPENAI_API_KEY": "sk-planted"},
        capture_output=True, text=True,
    )  # fmt: skip
    written, _, environment = done.stdout.partition("\n\n")
    assert written + "\n" == identities(stack.all_variables())
    assert stack.secret("WEED_JWT_SIGNING_KEY") in environment
    assert not [value for value in ("sk-planted", stack.secret("AWS_SECRET_ACCESS_KEY")) if value in environment]


@pytest.mark.parametrize("name", ["OPENAI_API_KEY", "ASSAY_JUDGE_API_KEY", "ANOTHER_SERVICE_API_KEY"])
def test_a_judge_s_key_is_kept_as_a_secret_of_the_worker_alone(name: str, tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    stack.file.write_text(f"{stack.file.read_text()}{name}=sk-planted\n")
    stack = made(tmp_path / "stack")
    assert stack.secret(name) == "sk-planted"
    assert "sk-planted" not in repr(stack)
    assert [file.name for file in stack.folder.glob("*") if file.is_file() and "sk-planted" in file.read_text()] == [
        ".env"
    ]
    having = [item for item in SECRETS_OF if "sk-planted" in environment_of(item, stack.all_variables()).values()]
    assert having == ["worker"]


def test_clients_get_neither_the_servers_secrets_nor_their_addresses(tmp_path: Path) -> None:
    stack = made(tmp_path / "stack")
    found = parse(stack.client_file)
    assert set(found) & SECRET_NAMES == set(CLIENT_SECRETS)
    assert not [name for name in found if name.startswith(("ASSAY_STACK_", "PREFECT_SERVER_D", "MLFLOW_BACKEND"))]


def test_each_key_of_object_storage_reaches_its_own_bucket(tmp_path: Path) -> None:
    variables = made(tmp_path / "stack").all_variables()
    found = {item["name"]: item["actions"] for item in json.loads(identities(variables))["identities"]}
    assert set(found) == {"admin", "assay", "mlflow"}
    for name in ("assay", "mlflow"):
        assert {action.partition(":")[2] for action in found[name]} == {name}
        assert not [action for action in found[name] if action.startswith("Admin")]


def test_a_backup_s_file_moves_to_a_folder_without_a_stack_only(tmp_path: Path) -> None:
    stack = made(tmp_path / "a")
    move(stack.file, tmp_path / "b")
    moved = made(tmp_path / "b")
    assert moved.values["ASSAY_DATA_DIR"] == str((tmp_path / "b" / "data").resolve())
    assert moved.secret("PREFECT_API_AUTH_STRING") == stack.secret("PREFECT_API_AUTH_STRING")
    with pytest.raises(InputError, match="has a stack of its own"):
        move(stack.file, tmp_path / "b")
