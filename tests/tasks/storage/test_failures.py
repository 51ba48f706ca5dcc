"""A service that fails in one of the ways services fail: one clear message each, and the right exit code."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from core.errors import AssayError, InputError, UnreachableError
from flows.cli import main
from tasks.storage import find_inputs, pinned, place_of, read_bytes, write_text

CONTENT = b"trace_id,hate\n" + b"".join(b"t%d,0.5\n" % i for i in range(100_000))
HALF = len(CONTENT) // 2
TAG = '"0123"'
URL = "s3://lab/scores.csv"


@dataclass
class Service:
    """What a service does to GET, in turn (the last for ever), and what it was asked."""

    behaviours: list[str] = field(default_factory=lambda: ["well"])
    ranges: list[str | None] = field(default_factory=list)
    conditions: list[str | None] = field(default_factory=list)
    endpoint: str = ""
    takes: bool = False
    taken: dict[str, bytes] = field(default_factory=dict)

    def next(self) -> str:
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]


SLOW_SECONDS = 30.0  # against a time-out of half a second


@pytest.fixture
def service(use: Callable[..., None]) -> Iterator[Service]:
    """A service that holds one object and is found in the environment."""
    state, over = Service(), threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def do_HEAD(self) -> None:
            self._answer(200, len(CONTENT))

        def do_PUT(self) -> None:
            if state.takes:
                state.taken[self.path] = self.rfile.read(int(self.headers["Content-Length"]))
            self._answer(200 if state.takes else 503, 0)

        def do_GET(self) -> None:
            asked = self.headers.get("Range")
            state.ranges.append(asked)
            state.conditions.append(self.headers.get("If-Match"))
            behaviour = state.next()
            first = int(re.sub(r"\D", "", asked)) if asked and behaviour != "rangeless" else 0
            if behaviour.isdigit():
                self._answer(int(behaviour), 0)
            elif behaviour == "shrunk":
                self._answer(200, 10)
                self.wfile.write(CONTENT[:10])
            else:
                self._answer(206 if first else 200, len(CONTENT) - first, first)
                self.wfile.write(CONTENT[first:HALF] if behaviour in ("truncated", "slow") else CONTENT[first:])
                self.wfile.flush()
                if behaviour == "slow":
                    over.wait(SLOW_SECONDS)

        def _answer(self, status: int, length: int, first: int = 0) -> None:
            self.send_response(status)
            self.send_header("ETag", TAG)
            self.send_header("Content-Length", str(length))
            if first:
                self.send_header("Content-Range", f"bytes {first}-{len(CONTENT) - 1}/{len(CONTENT)}")
            self.end_headers()

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        state.endpoint = f"http://127.0.0.1:{server.server_port}"
        use(
            AWS_ENDPOINT_URL=state.endpoint,
            AWS_ACCESS_KEY_ID="key",
            AWS_SECRET_ACCESS_KEY="hush-hush",
            ASSAY_S3_ATTEMPTS="1",
            ASSAY_S3_TIMEOUT="0.5",
        )
        yield state
        over.set()
        server.shutdown()


def content_read() -> bytes:
    return find_inputs([URL], [])[0].path.read_bytes()


def test_an_object_is_read_whole_and_once(service: Service) -> None:
    assert content_read() == content_read() == CONTENT
    assert service.conditions == [TAG]


def test_a_truncated_object_is_told_and_the_next_run_goes_on_from_there(service: Service) -> None:
    service.behaviours = ["truncated", "well"]
    with pytest.raises(UnreachableError, match=rf"{URL}.*broke off.*of {len(CONTENT):,} bytes arrived.*kept"):
        content_read()
    assert content_read() == CONTENT
    (_, asked) = service.ranges
    assert asked is not None
    assert re.fullmatch(r"bytes=[1-9]\d+-", asked)


def test_a_truncated_object_is_gone_on_with_within_the_attempts(service: Service, use: Callable[..., None]) -> None:
    use(ASSAY_S3_ATTEMPTS="2")
    service.behaviours = ["truncated", "well"]
    assert content_read() == CONTENT
    assert service.conditions == [TAG, TAG]


def test_a_service_that_knows_no_ranges_sends_all_of_it_again(service: Service, use: Callable[..., None]) -> None:
    use(ASSAY_S3_ATTEMPTS="2")
    service.behaviours = ["truncated", "rangeless"]
    assert content_read() == CONTENT


def test_a_slow_service_is_given_up_in_time(service: Service) -> None:
    service.behaviours = ["slow"]
    began = time.monotonic()
    with pytest.raises(UnreachableError, match="did not answer in time"):
        content_read()
    assert time.monotonic() - began < SLOW_SECONDS / 2


def test_another_size_than_was_found_means_that_the_object_has_changed(service: Service) -> None:
    service.behaviours = ["shrunk"]
    with pytest.raises(InputError, match=rf"10 bytes where {len(CONTENT):,} were listed: it was changed"):
        content_read()


@pytest.mark.parametrize(
    ("status", "kind", "message"),
    [
        ("500", UnreachableError, "answers 500"),
        ("503", UnreachableError, "answers 503"),
        ("429", UnreachableError, "answers 429"),
        ("403", InputError, "access was refused"),
        ("412", InputError, "has changed since it was found"),
        ("404", InputError, "there is no such object"),
        ("400", InputError, "refused the request"),
    ],
)
def test_each_answer_has_its_message(service: Service, status: str, kind: type[AssayError], message: str) -> None:
    service.behaviours = [status]
    with pytest.raises(kind, match=message) as told:
        read_bytes(place_of(URL), 1_000, "record")
    assert "hush" not in str(told.value)


def test_a_failing_service_is_asked_as_often_as_the_settings_say(service: Service, use: Callable[..., None]) -> None:
    use(ASSAY_S3_ATTEMPTS="2")
    service.behaviours = ["500"]
    with pytest.raises(UnreachableError, match=r"asked 2 time"):
        read_bytes(place_of(URL), 1_000, "record")
    assert len(service.ranges) == 2


def test_nobody_at_the_endpoint_is_told_with_the_endpoint(service: Service, use: Callable[..., None]) -> None:
    use(AWS_ENDPOINT_URL="http://me:hush@127.0.0.1:1")
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1 cannot be reached") as told:
        pinned(place_of(URL))
    assert "hush" not in str(told.value)


def test_an_endpoint_that_is_no_url_is_told(service: Service, use: Callable[..., None]) -> None:
    use(AWS_ENDPOINT_URL="nowhere")
    with pytest.raises(InputError, match="AWS_ENDPOINT_URL"):
        pinned(place_of(URL))


def test_no_keys_at_all_are_told(service: Service, use: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    use()
    with pytest.raises(InputError, match="no usable keys"):
        pinned(place_of(URL))


def test_an_unwritable_service_is_told(service: Service) -> None:
    with pytest.raises(UnreachableError, match="answers 503"):
        write_text(place_of("s3://lab/out.json"), "{}")


@pytest.mark.parametrize(("behaviour", "code"), [("500", 4), ("truncated", 4), ("shrunk", 2), ("403", 2)])
def test_the_command_line_ends_with_4_when_the_service_is_to_blame(
    service: Service, behaviour: str, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    service.behaviours = [behaviour]
    with pytest.raises(SystemExit) as ended:
        main(["check", URL])
    assert ended.value.code == code
    assert capsys.readouterr().err.startswith(f"error: {URL}")


def test_a_record_that_the_service_does_not_take_is_kept_on_this_machine_and_brought_there_once(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    declared = tmp_path / "declared.yaml"
    declared.write_text(
        "name: safety\ncalibration_source: declared\njudge: {name: guard, version: '1'}\n"
        "categories: {hate: {threshold: 0.5, sensitivity: 0.85, n_positive: 200, specificity: 0.93, "
        "n_negative: 400, source: card}}\n"
        "composite: {sensitivity: 0.88, n_positive: 250, specificity: 0.90, n_negative: 350, source: card}\n",
        encoding="utf-8",
    )

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as ended:
            main(list(arguments))
        return int(ended.value.code or 0)

    for _ in range(2):
        assert run("calibrate", "--declared", str(declared), "-o", "s3://lab/calibration.json") == 4
        (kept,) = (tmp_path / "data" / "records").glob("*.json")
        told = capsys.readouterr().err
        assert str(kept) in told
        assert "`assay sync` brings it there" in told
    assert run("sync") == 4
    assert "1 record(s) still wait" in capsys.readouterr().err
    service.takes = True
    assert run("sync") == 0
    assert capsys.readouterr().out == "stored: s3://lab/calibration.json\n"
    (taken,) = service.taken.values()
    assert kept.read_bytes() in taken
    assert run("sync") == 0
    assert capsys.readouterr().out == "nothing waits\n"


def test_a_note_on_a_kept_record_that_was_altered_is_told_and_left(
    service: Service, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = tmp_path / "data" / "kept" / "x.json"
    note.parent.mkdir(parents=True)
    note.write_text("{}")
    with pytest.raises(SystemExit) as ended:
        main(["sync"])
    assert ended.value.code == 4
    assert f"{note}: not a note of assay" in capsys.readouterr().err
    assert note.exists()
