"""`assay doctor`: each thing that can be wrong is seen, said with what to do, and never with a secret."""

from __future__ import annotations

import json
import socket
import sqlite3
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner, Result

from core.instrument.spec import JudgeIdentity
from tasks.platform.checks import Finding, examine, web
from tasks.platform.checks.databases import heads
from tasks.platform.checks.finding import masked
from tasks.platform.checks.mlflow import champions_in
from tasks.platform.checks.prefect import PREFECT_FILE
from tasks.platform.environment import prepare
from tasks.settings import settings

PLANTED = "geheim-planted-secret"
Answers = Mapping[str, Any]


@pytest.fixture(autouse=True)
def fresh_settings() -> Iterator[None]:
    settings.cache_clear()
    yield
    settings.cache_clear()


class Server:
    """Answers by path; with a password it refuses whoever does not bring it."""

    def __init__(self, answers: Answers, password: str | None, date: str | None) -> None:
        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                path = self.path.partition("?")[0]
                is_open = path.endswith("/health")
                given = self.headers.get("Authorization")
                status = 200 if password is None or is_open or (given and given.startswith("Basic")) else 401
                body = answers.get(path, 404)
                if type(body) is int and status == 200:
                    status = body
                text = body if isinstance(body, str) else json.dumps(body)
                self.send_response_only(status)
                self.send_header("Date", date or format_datetime(datetime.now(UTC), usegmt=True))
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_POST = answer  # noqa: N815 (http.server's names)

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))
        self.thread.start()


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    started: list[Server] = []

    def start(answers: Answers, password: str | None = None, date: str | None = None) -> str:
        started.append(Server(answers, password, date))
        return started[-1].url

    yield start
    for item in started:
        item.server.shutdown()
        item.server.server_close()
        item.thread.join()


def prefect_answers(**changed: Any) -> dict[str, Any]:
    deployed = [item["name"] for item in yaml.safe_load(PREFECT_FILE.read_text())["deployments"]]
    return {
        "/api/health": True,
        "/api/admin/version": version("prefect"),
        "/api/admin/settings": {"server": {"analytics_enabled": False}},
        "/api/work_pools/filter": [{"name": "assay"}],
        "/api/work_pools/assay/workers/filter": [{"name": "w", "status": "ONLINE"}],
        "/api/deployments/filter": [{"name": name} for name in deployed],
        "/api/automations/filter": [{"name": "assay: runs that fell silent are crashed", "enabled": True}],
        **changed,
    }


def doctor(environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, *options: str) -> Result:
    from flows.commands.doctor import command

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    return CliRunner().invoke(command, list(options))


def found(result: Result) -> dict[str, dict[str, Any]]:
    return {item["check"]: item for item in json.loads(result.stdout)["findings"]}


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_with_nothing_configured_it_says_so_and_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    result = doctor({}, monkeypatch, "--json")
    assert result.exit_code == 0, result.output
    checks = found(result)
    assert {name for name, item in checks.items() if item["status"] == "off"} >= {
        "prefect", "mlflow", "object storage", "databases",
    }  # fmt: skip
    assert "PREFECT_API_URL" in checks["prefect"]["todo"]
    assert version("prefect") in checks["versions"]["detail"]


def test_for_people_each_line_has_a_status_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    result = doctor({}, monkeypatch)
    assert "off   prefect: not configured" in result.stdout
    assert "      -> set PREFECT_API_URL to use one" in result.stdout
    assert result.stdout.rstrip().endswith("0 failures")


@pytest.mark.parametrize(
    ("variable", "suffix", "check"),
    [
        ("PREFECT_API_URL", "/api", "prefect"),
        ("ASSAY_TRACKING_URI", "", "mlflow"),
        ("AWS_ENDPOINT_URL", "", "object storage"),
    ],
)
def test_a_configured_service_that_is_down_is_exit_code_4(
    variable: str, suffix: str, check: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = doctor({variable: f"http://127.0.0.1:{closed_port()}{suffix}"}, monkeypatch, "--json")
    assert result.exit_code == 4
    item = found(result)[check]
    assert (item["status"], item["is_outage"], bool(item["todo"])) == ("fail", True, True)


def test_a_well_server_is_well(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = serve(prefect_answers(), password="x")
    result = doctor(
        {"PREFECT_API_URL": f"{url}/api", "PREFECT_API_AUTH_STRING": f"assay:{PLANTED}"}, monkeypatch, "--json"
    )
    assert result.exit_code == 0, result.output
    checks = found(result)
    wanted = ("prefect", "prefect access", "prefect clock", "prefect telemetry", "worker", "automations")
    assert {checks[name]["status"] for name in wanted} == {"ok"}, result.output
    assert checks["prefect access"]["detail"] == "asks for a password"


def test_a_refused_password_is_a_wrong_setting(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    url = serve(prefect_answers(), password="x")
    result = doctor({"PREFECT_API_URL": f"{url}/api"}, monkeypatch, "--json")
    assert result.exit_code == 2
    assert "PREFECT_API_AUTH_STRING" in found(result)["prefect"]["todo"]


@pytest.mark.parametrize(
    ("changed", "check"),
    [
        ({"/api/work_pools/assay/workers/filter": [{"name": "w", "status": "OFFLINE"}]}, "worker"),
        ({"/api/work_pools/filter": []}, "worker"),
        ({"/api/deployments/filter": [{"name": "measure"}]}, "deployments"),
        ({"/api/automations/filter": []}, "automations"),
        ({"/api/admin/version": "3.0.0"}, "prefect"),
        ({"/api/admin/settings": {"server": {"analytics_enabled": True}}}, "prefect telemetry"),
    ],
)
def test_what_works_and_should_be_looked_after_is_a_warning(
    changed: dict[str, Any], check: str, serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve(prefect_answers(**changed))
    result = doctor({"PREFECT_API_URL": f"{url}/api"}, monkeypatch, "--json")
    assert result.exit_code == 0
    item = found(result)[check]
    assert item["status"] == "warn"
    assert item["todo"]


def test_a_clock_that_is_off_is_seen(serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch) -> None:
    late = format_datetime(datetime.now(UTC) - timedelta(minutes=20), usegmt=True)
    url = serve(prefect_answers(), date=late)
    result = doctor({"PREFECT_API_URL": f"{url}/api"}, monkeypatch, "--json")
    assert result.exit_code == 2
    assert "NTP" in found(result)["prefect clock"]["todo"]
    assert web.skew("x", datetime.now(UTC) - timedelta(seconds=30)).status == "warn"
    assert web.skew("x", datetime.now(UTC)).status == "ok"


@pytest.mark.parametrize(
    ("url", "status", "expected"),
    [
        ("http://127.0.0.1:5000", 200, "ok"),
        ("http://localhost:5000", 200, "ok"),
        ("http://10.0.0.7:5000", 200, "warn"),
        ("https://mlflow.example.org", 200, "warn"),
        ("https://mlflow.example.org", 401, "ok"),
        ("https://mlflow.example.org", 403, "ok"),
        ("http://127.0.0.1:5000", 500, "warn"),
    ],
)
def test_whoever_lets_anybody_in_and_is_not_on_this_machine_is_warned_of(url: str, status: int, expected: str) -> None:
    assert web.auth_finding("x", url, status, "do something").status == expected


@pytest.mark.parametrize(
    ("judge", "status", "told"),
    [
        ("llm", "warn", "this judge cannot run here"),  # it asks a service, and nothing says which
        ("of-another-machine", "ok", "this judge is not installed here"),
        ("lexical", "ok", "the judge installed here is the same"),
    ],
)
def test_a_champions_judge_is_looked_for_here(
    judge: str, status: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = SimpleNamespace(
        calibration=SimpleNamespace(judge=JudgeIdentity(name=judge, version="1")),
        reference=SimpleNamespace(uri="models:/safety/1"),
    )
    monkeypatch.setattr("tasks.archive.find_calibration", lambda *_: found)
    model = {"name": "safety", "aliases": [{"alias": "champion", "version": "1"}]}
    (finding,) = champions_in("http://127.0.0.1:9", httpx.Response(200, json={"registered_models": [model]}))
    assert finding.status == status
    assert told in finding.detail


def test_mlflow_that_refuses_the_user_is_a_wrong_setting(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    url = serve({"/health": "OK", "/version": version("mlflow")}, password="x")
    result = doctor({"ASSAY_TRACKING_URI": url}, monkeypatch, "--json")
    assert result.exit_code == 2
    assert found(result)["mlflow"]["status"] == "fail"


def test_wrong_settings_are_exit_code_2_and_outrank_an_outage(monkeypatch: pytest.MonkeyPatch) -> None:
    api = f"http://127.0.0.1:{closed_port()}/api"
    result = doctor({"ASSAY_CACHE_BYTES": "much", "PREFECT_API_URL": api}, monkeypatch, "--json")
    assert result.exit_code == 2
    assert "ASSAY_CACHE_BYTES" in found(result)["settings"]["detail"]


def test_telemetry_that_is_switched_on_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    result = doctor({"MLFLOW_DISABLE_TELEMETRY": "false", "DO_NOT_TRACK": "0"}, monkeypatch, "--json")
    assert result.exit_code == 0
    item = found(result)["telemetry"]
    assert (item["status"], item["todo"]) == ("warn", "set DO_NOT_TRACK=true MLFLOW_DISABLE_TELEMETRY=true")


def test_passwords_that_others_may_read_are_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stack, _ = prepare(tmp_path / "data" / "stack", tmp_path)
    environment = {"ASSAY_DATA_DIR": str(tmp_path / "data")}
    assert doctor(environment, monkeypatch, "--json").exit_code == 0
    stack.client_file.chmod(0o644)
    result = doctor(environment, monkeypatch, "--json")
    assert result.exit_code == 2
    assert [item["todo"] for item in json.loads(result.stdout)["findings"] if item["status"] == "fail"] == [
        f"chmod 600 {stack.client_file}"
    ]


@pytest.mark.parametrize(
    ("package", "folder", "dialect"),
    [
        ("mlflow", "store/db_migrations", "postgresql"),
        ("prefect", "server/database/_migrations", "postgresql"),
        ("prefect", "server/database/_migrations", "sqlite"),
    ],
)
def test_each_package_has_one_newest_schema(package: str, folder: str, dialect: str) -> None:
    assert len(heads(package, folder, dialect)) == 1


@pytest.mark.parametrize(("revision", "expected"), [("head", "ok"), ("451aebb31d03", "warn")])
def test_an_old_schema_is_a_warning(revision: str, expected: str, tmp_path: Path) -> None:
    (newest,) = heads("mlflow", "store/db_migrations", "sqlite")
    file = tmp_path / "mlflow.db"
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("CREATE TABLE alembic_version (version_num TEXT)")
        database.execute("INSERT INTO alembic_version VALUES (?)", (newest if revision == "head" else revision,))
    checks = {item.check: item for item in examine({"MLFLOW_BACKEND_STORE_URI": f"sqlite:///{file}"}).findings}
    assert checks["mlflow database"].status == expected


def test_a_database_that_is_down_is_an_outage_and_its_password_is_not_shown() -> None:
    url = f"postgresql+psycopg2://mlflow:{PLANTED}@127.0.0.1:{closed_port()}/mlflow"
    result = examine({"MLFLOW_BACKEND_STORE_URI": url})
    item = next(item for item in result.findings if item.check == "mlflow database")
    assert item.is_outage
    assert PLANTED not in str(result)


def test_no_secret_of_the_environment_is_in_the_output(
    serve: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A server that repeats what it is given, and addresses that hold passwords.
    url = serve(prefect_answers(**{"/api/admin/version": f"said {PLANTED}"}))
    environment = {
        "PREFECT_API_URL": url.replace("//", f"//ada:{PLANTED}@") + "/api",
        "PREFECT_API_AUTH_STRING": f"assay:{PLANTED}",
        "ASSAY_TRACKING_URI": f"http://ada:{PLANTED}@127.0.0.1:{closed_port()}",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{closed_port()}",
        "AWS_SECRET_ACCESS_KEY": PLANTED,
        "MLFLOW_TRACKING_PASSWORD": PLANTED,
    }
    for options in ((), ("--json",)):
        result = doctor(environment, monkeypatch, *options)
        assert result.exit_code == 4
        assert PLANTED not in result.output


def test_a_user_s_name_is_no_secret() -> None:
    shown = masked(Finding.ok("x", "assay at abcd1234"), {"PREFECT_API_AUTH_STRING": "assay:abcd1234"})
    assert shown.detail == "assay at ***"


def test_a_judge_s_key_is_masked() -> None:
    assert masked(Finding.ok("x", "said sk-planted"), {"OPENAI_API_KEY": "sk-planted"}).detail == "said ***"


def test_a_check_that_breaks_is_a_finding_and_the_others_still_run(monkeypatch: pytest.MonkeyPatch) -> None:
    from tasks.platform import checks

    def broken(_: Mapping[str, str]) -> Iterator[Finding]:
        raise KeyError("x")

    monkeypatch.setattr(checks, "_CHECKS", (broken, checks.machine.versions))
    result = examine({})
    assert [item.status for item in result.findings] == ["fail", "ok"]
    assert result.exit_code == 2
