"""A real HTTP server on this machine that answers like a judge's service, or misbehaves as it is told.

What to do is said beforehand: `then` for the next requests whatever they ask, `on` for the requests about one text.
Every request is noted, with the text that it is about, so that tests can count what was asked and what was answered.
"""

from __future__ import annotations

import json
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "judge-x-2026-01-01"


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What the server sends back, and how badly."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None  # what Content-Length says; None: the truth
    before: float = 0.0  # seconds of silence before the answer
    dripping: float = 0.0  # seconds between any two bytes
    hang_up: bool = False  # the connection is reset without an answer
    hold: threading.Event | None = None  # the answer waits for it


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as it came."""

    path: str
    headers: Mapping[str, str]
    body: Any
    at: float

    @property
    def text(self) -> str:
        """The text that is to be judged."""
        if "input" in self.body:
            return str(self.body["input"])
        content = str(self.body["messages"][-1]["content"])
        return content.partition("\n")[2].rpartition("\n")[0]


def as_json(content: Any, **more: Any) -> Reply:
    return Reply(body=json.dumps(content).encode(), **more)


def completion(
    content: str | None,
    *,
    model: str | None = MODEL,
    refusal: str | None = None,
    finish: str = "stop",
    tokens: tuple[int, int] = (100, 20),
    **more: Any,
) -> Reply:
    """Make a chat completion with some content."""
    message = {"role": "assistant", "content": content, "refusal": refusal}
    reply = {
        "id": "x",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {"prompt_tokens": tokens[0], "completion_tokens": tokens[1]},
    }
    return as_json(reply if model is None else {**reply, "model": model}, **more)


def ratings(rationale: str = "because", /, **scores: float) -> str:
    """Write ratings in the required form; an underscore in a name stands for a hyphen."""
    named = {name.replace("_", "-"): score for name, score in scores.items()}
    return json.dumps({"rationale": rationale, "scores": named})


def error(status: int, code: str | None = None, message: str = "no", **more: Any) -> Reply:
    return as_json({"error": {"code": code, "type": "some_error", "message": message}}, status=status, **more)


class MisbehavingServer:
    """The server; `usually` answers when nothing else was said."""

    def __init__(self, usually: Callable[[Asked], Reply]) -> None:
        self.usually = usually
        self.asked: list[Asked] = []
        self.answered: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self._next: list[Reply] = []
        self._of_text: dict[str, list[Reply]] = {}
        self._lock = threading.Lock()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    port: int = 0

    @property
    def texts(self) -> list[str]:
        return [asked.text for asked in self.asked]

    def then(self, *replies: Reply) -> None:
        """Answer the next requests like this, one after another."""
        self._next += replies

    def on(self, text: str, *replies: Reply, times: int = 1) -> None:
        """Answer the requests about a text like this, one after another."""
        self._of_text.setdefault(text, []).extend(replies * times)

    def reply_to(self, asked: Asked) -> Reply:
        with self._lock:
            self.asked.append(asked)
            if self._of_text.get(asked.text):
                return self._of_text[asked.text].pop(0)
            if self._next:
                return self._next.pop(0)
        return self.usually(asked)


def _handler(server: MisbehavingServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True  # head and body go out by themselves: 40 ms a reply otherwise

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            asked = Asked(path=self.path, headers=dict(self.headers), body=json.loads(body), at=time.monotonic())
            with server._lock:
                server.at_once += 1
                server.most_at_once = max(server.most_at_once, server.at_once)
            try:
                reply = server.reply_to(asked)
                if reply.hold is not None:
                    reply.hold.wait(20)
                time.sleep(reply.before)
            finally:
                with server._lock:
                    server.at_once -= 1
            with suppress(OSError):  # the other side has hung up
                self._send(reply)
                if reply.status == 200:
                    server.answered[asked.text] += 1

        def _send(self, reply: Reply) -> None:
            if reply.hang_up:
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.connection.close()
                self.close_connection = True
                return
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            length = len(reply.body) if reply.length is None else reply.length
            self.send_header("Content-Length", str(length))
            self.end_headers()
            if reply.dripping:
                for i in range(len(reply.body)):
                    self.wfile.write(reply.body[i : i + 1])
                    self.wfile.flush()
                    time.sleep(reply.dripping)
            else:
                self.wfile.write(reply.body)
            self.close_connection = length != len(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


@contextmanager
def running(usually: Callable[[Asked], Reply]) -> Iterator[MisbehavingServer]:
    """Run the server on a free port for the length of a block."""
    server = MisbehavingServer(usually)
    http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(server))
    http.daemon_threads = True
    server.port = http.server_address[1]
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        http.server_close()


def another_model(reply: Reply, model: str) -> Reply:
    """Let another model have given an answer."""
    return replace(reply, body=reply.body.replace(MODEL.encode(), model.encode()))
