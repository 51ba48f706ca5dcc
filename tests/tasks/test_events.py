"""Events: sent, seen by the server, or told as an outage with what to do (against a server: tests/flows)."""

from __future__ import annotations

import http.server
import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from core.errors import UnreachableError
from tasks import events
from tasks.events import JUDGE_CHANGED, emit

Answer = Callable[[str, Any], tuple[int, Any]]


class Server(http.server.ThreadingHTTPServer):
    """Answers as told, and keeps what it was asked."""

    answer: Answer = staticmethod(lambda path, body: (204, None))

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, Any]] = []


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        self._say(*self.server.answer(self.path, body))

    def do_GET(self) -> None:
        self._say(422, {"detail": "CSRF protection is disabled."})

    def _say(self, code: int, content: Any) -> None:
        text = b"" if content is None else json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that takes what Prefect's takes, with its address in Prefect's settings."""
    from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings

    monkeypatch.setattr(events, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(events, "WAIT_SECONDS", 0.3)
    with Server() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        address = f"http://127.0.0.1:{made.server_address[1]}/api"
        with temporary_settings({PREFECT_API_URL: address, PREFECT_CLIENT_MAX_RETRIES: 0}):
            yield made
        made.shutdown()
        thread.join()


def taking(shown_after: int) -> Answer:
    """Show the event after so many questions."""
    asked = iter(range(10_000))

    def answer(path: str, body: Any) -> tuple[int, Any]:
        if path.endswith("/events"):
            return 204, None
        return 200, {"events": [{"id": body["filter"]["id"]["id"][0]}] if next(asked) >= shown_after else []}

    return answer


PAYLOAD = {"judge": {"name": "lexical", "version": "1"}, "seed": 7, "golden": ["a.csv"], "share": 0.5, "none": None}


def test_an_event_is_sent_with_its_types_and_is_taken_when_the_server_shows_it(server: Server) -> None:
    server.answer = taking(2)  # type: ignore[method-assign]
    event = emit(JUDGE_CHANGED, "assay.judge.lexical", PAYLOAD)
    (path, (sent,)), *questions = server.asked
    assert path == "/api/events"
    assert (sent["id"], sent["event"], sent["payload"]) == (event.id, "assay.judge.changed", PAYLOAD)
    assert sent["resource"] == {"prefect.resource.id": "assay.judge.lexical"}
    assert len(questions) == 3
    assert all(body["filter"]["id"]["id"] == [event.id] for _, body in questions)


def test_an_id_that_is_given_is_kept_and_else_each_event_has_its_own(server: Server) -> None:
    server.answer = taking(0)  # type: ignore[method-assign]
    given = str(uuid.uuid4())
    assert emit(JUDGE_CHANGED, "r", {}, event_id=given).id == given
    assert emit(JUDGE_CHANGED, "r", {}).id != emit(JUDGE_CHANGED, "r", {}).id


def test_a_server_that_hangs_is_given_up_in_time(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "ANSWER_SECONDS", 0.2)
    server.answer = lambda path, body: time.sleep(1.0) or (204, None)  # type: ignore[method-assign, func-returns-value]
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="did not take the event"):
        emit(JUDGE_CHANGED, "r", {})
    assert time.monotonic() - began < 0.9


def test_an_event_that_the_server_does_not_show_is_an_outage(server: Server) -> None:
    server.answer = taking(10_000)  # type: ignore[method-assign]
    with pytest.raises(UnreachableError, match=r"took the event .* but does not show it after 0\.3 s"):
        emit(JUDGE_CHANGED, "r", {})


@pytest.mark.parametrize("code", [401, 403, 422, 500])
def test_a_server_that_refuses_is_an_outage_with_its_address(code: int, server: Server) -> None:
    server.answer = lambda path, body: (code, {"detail": "no"})  # type: ignore[method-assign]
    with pytest.raises(UnreachableError, match=rf"Prefect server at http://127\.0\.0\.1:\d+/api did not.*{code}"):
        emit(JUDGE_CHANGED, "r", {})


COMMANDS = [
    ("event", "judge-changed", "--judge", "lexical@1", "--instrument", "safety", "--golden", "g.csv"),
    ("event", "model-released", "--target", "bot@1", "--instrument", "safety", "--scores", "s.csv"),
]


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    from flows.cli import main

    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    shown = capsys.readouterr()
    assert isinstance(end.value.code, int)
    return end.value.code, shown.out, shown.err


@pytest.mark.parametrize("command", COMMANDS)
def test_without_a_server_the_command_ends_with_exit_4_and_says_what_to_do(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings(restore_defaults={PREFECT_API_URL}):
        code, out, err = told(capsys, *command)
    assert (code, out) == (4, "")
    assert "no Prefect server is configured; set PREFECT_API_URL" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_that_does_not_answer_is_exit_4_with_its_address(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    from prefect.settings import PREFECT_API_URL, temporary_settings

    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:9/api"}):
        code, out, err = told(capsys, *command)
    assert (code, out) == (4, "")
    assert "the Prefect server at http://127.0.0.1:9/api did not take the event" in err
    assert "Is it running, with its database, and is PREFECT_API_URL its address?" in err
    assert "--event-id" in err
    assert "Traceback" not in err


def posted(server: Server) -> list[Any]:
    (events,) = [body for path, body in server.asked if path.endswith("/events")]
    return list(events)


def test_an_id_that_the_server_shows_already_is_not_sent_again(server: Server) -> None:
    server.answer = taking(0)  # type: ignore[method-assign]
    emit(JUDGE_CHANGED, "r", {}, event_id=str(uuid.uuid4()))
    assert not [path for path, _ in server.asked if path.endswith("/events")]


def test_the_command_sends_what_deployments_expect(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.answer = taking(1)  # type: ignore[method-assign]
    event_id = str(uuid.uuid4())
    code, out, _ = told(capsys, *COMMANDS[0], "--event-id", event_id)
    assert code == 0
    assert f"assay.judge.changed taken by the server: {event_id}" in out
    (sent,) = posted(server)
    fingerprint = sent["payload"]["judge"].pop("fingerprint")
    assert len(fingerprint) == 64
    assert sent["payload"] == {
        "judge": {"name": "lexical", "version": "1"}, "instrument": "safety", "golden": ["g.csv"],
    }  # fmt: skip
    assert sent["resource"] == {"prefect.resource.id": "assay.judge.lexical"}

    server.asked.clear()
    code, _, _ = told(capsys, *COMMANDS[1], "--baseline", "bot@0")
    assert code == 0
    (sent,) = posted(server)
    assert sent["payload"] == {"target": "bot@1", "scores": ["s.csv"], "instrument": "safety", "baseline": "bot@0"}
    assert sent["resource"] == {"prefect.resource.id": "assay.model.bot"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--event-id", "7"), "'7' is not a valid UUID"),
        (("--judge", "lexical@2"), "judge lexical@1 is registered here, not lexical@2"),
        (("--judge", "nobody@1"), "nobody"),
    ],
)
def test_what_cannot_be_meant_is_exit_2_before_anything_is_sent(
    options: tuple[str, ...], says: str, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = told(capsys, *COMMANDS[0], *options)
    assert (code, says in err) == (2, True), err
    assert server.asked == []


def test_labels_of_the_resource_are_sent_for_triggers_to_choose_by(server: Server) -> None:
    server.answer = taking(0)  # type: ignore[method-assign]
    emit(JUDGE_CHANGED, "assay.judge.lexical", PAYLOAD, labels={"assay.baseline": "runs:/1"})
    _, (sent,) = server.asked[0]
    assert sent["resource"] == {"prefect.resource.id": "assay.judge.lexical", "assay.baseline": "runs:/1"}
