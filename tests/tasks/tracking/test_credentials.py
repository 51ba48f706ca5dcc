"""No password gets out: not in a message, a traceback or a note."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from core.errors import UnreachableError
from tasks.tracking import track
from tasks.tracking.uris import without_credentials
from tests.tasks.tracking.conftest import Story

CANARY = "hunter2"


class _HealthyOnly(BaseHTTPRequestHandler):
    """Answers /health, and drops whatever else is asked."""

    def do_GET(self) -> None:
        if self.path == "/health":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self.close_connection = True

    do_POST = do_GET  # noqa: N815 (the name is http.server's)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def healthy_only() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _HealthyOnly) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"http://ada:{CANARY}@h:5000/x", "http://h:5000/x"),
        (f"postgresql://ada:a@b{CANARY}@h/db", "postgresql://h/db"),
        (f"postgresql://ada:/?# {CANARY}@h/db", "postgresql://h/db"),
        (f"postgresql://h/db?user=u&password={CANARY}&sslmode=on", "postgresql://h/db?user=u&password=&sslmode=on"),
        (f"mysql://h/db?Passwd={CANARY}&token={CANARY}", "mysql://h/db?Passwd=&token="),
        (f"mssql+pyodbc://?odbc_connect=DRIVER={{A 18}};UID=u;PWD={CANARY}", "mssql+pyodbc://?odbc_connect="),
        (f"asked http://a:{CANARY}@h/x and //b:{CANARY}@h", "asked http://h/x and //h"),
    ],
)
def test_credentials_are_taken_out_of_addresses_and_of_texts_with_addresses(text: str, shown: str) -> None:
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "http://h:5000/team@work", "postgresql://h:5432/a@b", "sqlite:////data/a:b@c/mlflow.db",
        "postgresql:///db?user=a@b", "http://h:80: ask ada@example.org",
    ],
)  # fmt: skip
def test_an_address_without_credentials_stays_as_it_is(text: str) -> None:
    assert without_credentials(text) == text


@pytest.mark.parametrize(
    "address",
    [
        "http://ada:{canary}@127.0.0.1:9", "http://ada:{canary}@{healthy}", "http://ada:{canary}@{healthy}/?token={canary}",
        "postgresql://127.0.0.1:9/db?user=u&password={canary}", "postgresql://ada:{canary}/{canary}@127.0.0.1:9/db",
        "mysql://ada:{canary}@[bad/db",
    ],
)  # fmt: skip
def test_an_outage_shows_no_password_in_message_traceback_or_note(
    address: str, healthy_only: str, story: Story, own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(UnreachableError) as told:
        track(story.first, address.format(canary=CANARY, healthy=healthy_only))
    assert CANARY not in "".join(traceback.format_exception(told.value))
    (note,) = (own_data / "pending").iterdir()
    assert CANARY not in note.read_text()
