"""Asking a service over HTTP: where the key goes, what is tried again, when a run ends."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from dataclasses import replace
from email.utils import formatdate

import pytest
from pydantic import SecretStr

from core.errors import InputError, UnreachableError
from tasks.judges import Answer, Question, Traffic, Verdict
from tasks.judges.asking import MAX_EXHAUSTED, MAX_FAILED
from tasks.judges.endpoint import (
    JITTER_SEED,
    MAX_BODY_BYTES,
    OPENAI,
    Pace,
    Service,
    UnusableError,
    asked_wait,
    checked_address,
    key_for,
    plain_data,
)
from tasks.judges.journal import text_digest
from tasks.judges.llm import LlmJudge
from tasks.settings import Settings
from tests.tasks.judges.conftest import KEY, RUBRIC
from tests.tasks.judges.misbehaving_server import MisbehavingServer, Reply, as_json, completion, error, ratings

Make = Callable[..., LlmJudge]

GOOD = completion(ratings(hate=5, violence=0))


def answers(judge: LlmJudge, *texts: str) -> tuple[dict[str, Verdict], Traffic]:
    found: dict[str, Verdict] = {}
    traffic = Traffic()

    def take(question: Question, answer: Answer) -> None:
        found[question.text] = answer.verdict

    judge.ask([Question(text=text, digest=text_digest(text)) for text in texts], take, traffic)
    return found, traffic


# --- addresses and keys -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("ftp://host/v1", "is not an address"),
        ("host/v1", "is not an address"),
        ("http://", "is not an address"),
        ("http://[::1", "is not an address"),
        ("https://user:hunter2@host/v1", "holds a user, a query or a fragment"),
        ("https://host/v1?key=hunter2", "holds a user, a query or a fragment"),
        ("https://host/v1#hunter2", "holds a user, a query or a fragment"),
        ("http://host/v1", "has no TLS and is not on this machine"),
        ("http://127.0.0.1.example.org/v1", "has no TLS and is not on this machine"),
    ],
)
def test_an_address_that_would_give_a_key_away_is_refused_and_not_repeated(base: str, expected: str) -> None:
    with pytest.raises(InputError, match=expected) as caught:
        checked_address(base)
    assert "ASSAY_JUDGE_BASE_URL" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_addresses_with_tls_on_this_machine_or_expressly_allowed_are_taken() -> None:
    for base in ("https://host/v1", "http://localhost:8000/v1", "http://127.0.0.1/v1", "http://[::1]:8000/v1"):
        assert str(checked_address(base)) == base
    assert checked_address("http://host/v1", allow_http=True).host == "host"


def test_the_key_of_openai_goes_to_openai_or_this_machine_and_nowhere_else() -> None:
    only_openai = Settings(OPENAI_API_KEY="sk-openai")  # type: ignore[call-arg]
    both = Settings(OPENAI_API_KEY="sk-openai", judge_api_key=SecretStr(" sk-judge\n"))  # type: ignore[call-arg]
    for base, one, two in [
        (OPENAI, "sk-openai", "sk-judge"),
        ("http://127.0.0.1:8000/v1", "sk-openai", "sk-judge"),
        ("https://other.example.org/v1", None, "sk-judge"),
    ]:
        url = checked_address(base)
        found = [key_for(url, settings) for settings in (only_openai, both)]
        assert [key and key.get_secret_value() for key in found] == [one, two]


def test_a_service_elsewhere_without_a_key_and_a_key_that_is_none_are_refused_before_anything_is_sent(
    server: MisbehavingServer, make: Make
) -> None:
    elsewhere = replace(make().service, url="https://judge.example.org/v1/chat/completions", key=None)
    with pytest.raises(InputError, match=r"ASSAY_JUDGE_API_KEY: is not set: judge\.example\.org wants a key"):
        answers(LlmJudge(RUBRIC, elsewhere), "x")
    with pytest.raises(InputError, match="ASSAY_JUDGE_API_KEY: holds spaces") as caught:
        answers(make(of_service={"key": SecretStr("sk-a\r\nHost: evil")}), "x")
    assert "evil" not in str(caught.value)
    assert server.asked == []


def test_a_local_service_may_do_without_a_key(server: MisbehavingServer, make: Make) -> None:
    found, _ = answers(make(of_service={"key": None}), "x 5")
    assert found["x 5"].scores["hate"] == 0.5
    assert "Authorization" not in server.asked[0].headers


def test_the_key_travels_as_a_bearer_token_to_the_address(server: MisbehavingServer, make: Make) -> None:
    answers(make(), "x 5")
    assert server.asked[0].headers["Authorization"] == f"Bearer {KEY}"
    assert server.asked[0].path == "/v1/chat/completions"


def test_a_proxy_is_not_asked_for_a_service_on_this_machine(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    found, _ = answers(make(), "x 5")
    assert found["x 5"].state is None


# --- what is tried again ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "bad",
    [
        *(error(status) for status in (408, 409, 425, 429, 500, 502, 503, 504, 529)),
        Reply(hang_up=True),
        replace(GOOD, length=len(GOOD.body) + 50),
        replace(GOOD, length=10_000_000),
    ],
    ids=lambda reply: f"{reply.status}{'-hang-up' if reply.hang_up else ''}{reply.length or ''}",
)
def test_what_may_pass_is_tried_again_until_it_has_passed(server: MisbehavingServer, make: Make, bad: Reply) -> None:
    server.then(bad, bad)
    found, traffic = answers(make(), "x 5")
    assert found["x 5"].scores == {"hate": 0.5, "violence": 0.1}
    assert (traffic.requests, traffic.retries) == (3, 2)


def test_a_slow_answer_and_one_that_drips_byte_by_byte_run_into_the_time_limit(
    server: MisbehavingServer, make: Make
) -> None:
    server.then(replace(GOOD, before=1.5), replace(GOOD, dripping=0.01))
    found, traffic = answers(make(of_service={"timeout": 0.5}), "x 5")
    assert found["x 5"].state is None
    assert traffic.retries == 2


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        (error(400, "context_length_exceeded"), "the request is refused: HTTP 400, context_length_exceeded"),
        (
            as_json({"error": {"code": "unsupported_value", "param": "temperature"}}, status=400),
            "the request is refused: HTTP 400, unsupported_value, temperature",
        ),
        (error(413), "the request is refused: HTTP 413, some_error"),
        (error(422), "the request is refused: HTTP 422, some_error"),
        (Reply(body=b'{"choices": [{"message"'), "the answer is not JSON"),
        (Reply(body=b"<html>busy</html>"), "the answer is not JSON"),
        (Reply(body=b""), "the answer is not JSON"),
        (Reply(body=b"\xff\xfe{}"), "the answer is not JSON"),
        (Reply(body=b"[" * 100_000), "the answer is not JSON"),
        (Reply(body=b'{"choices": [], "a": 1, "a": 2}'), "the answer is not JSON"),
        (Reply(body=b"[]"), "the answer is not a chat completion"),
        (Reply(body=b'{"choices": []}'), "the answer is not a chat completion"),
        (Reply(body=b" " * (MAX_BODY_BYTES + 1)), "the answer is longer than 1,000,000 bytes"),
        (replace(GOOD, headers={"Content-Encoding": "gzip"}), "the answer is packed in a way that was not asked for"),
    ],
    ids=lambda value: value if isinstance(value, str) else str(value.status),
)
def test_what_would_not_pass_is_a_failure_of_that_text_and_is_not_tried_again(
    server: MisbehavingServer, make: Make, bad: Reply, told: str
) -> None:
    server.on("x", bad)
    found, traffic = answers(make(), "x", "y 5")
    assert (found["x"].state, found["x"].rationale, found["x"].scores) == ("judge_error", told, {})
    assert found["y 5"].state is None
    assert traffic.requests == 2


def test_a_text_that_the_services_filter_refuses_is_unscored(server: MisbehavingServer, make: Make) -> None:
    server.then(error(400, "content_filter"))
    found, _ = answers(make(), "x")
    assert found["x"].state == "unscored"


def test_a_service_that_asks_for_quiet_gets_it_from_all_requests(server: MisbehavingServer, make: Make) -> None:
    judge = make(of_service={"concurrency": 1, "max_wait": 60.0, "backoff": 60.0})
    server.then(error(429, headers={"Retry-After": "0.3"}))
    answers(judge, "x 1", "y 1")
    gaps = [later.at - earlier.at for earlier, later in zip(server.asked, server.asked[1:], strict=False)]
    assert 0.3 <= gaps[0] < 20  # as asked, not the back-off of half a minute or more


def test_a_request_that_waits_for_its_turn_keeps_quiet_as_well() -> None:
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 1:
            pace.hold(30.0)  # what another request has been told

    async def two_turns() -> None:
        await pace.turn()
        await pace.turn()

    pace = Pace(60.0, sleep)
    asyncio.run(two_turns())
    assert waited == pytest.approx([1.0, 30.0], abs=0.5)


@pytest.mark.parametrize("as_date", [False, True])
def test_a_wait_that_is_asked_for_is_capped(server: MisbehavingServer, make: Make, as_date: bool) -> None:
    value = formatdate(time.time() + 3600, usegmt=True) if as_date else "3600"
    server.then(error(503, headers={"Retry-After": value}))
    began = time.monotonic()
    found, _ = answers(make(), "x 5")
    assert found["x 5"].state is None
    assert time.monotonic() - began < 60  # an hour was asked for


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None), ("", None), ("soon", None), ("-5", None), ("nan", None), ("1e9", None), ("0", 0.0), ("1.5", 1.5),
        ("Thu, 01 Jan 1970 00:00:07 GMT", 0.0), ("Thu, 01 Jan 1970 00:20:00 -0000", 200.0), ("9" * 400, None),
    ],
)  # fmt: skip
def test_a_retry_after_is_seconds_or_a_date_and_anything_else_says_nothing(
    value: str | None, seconds: float | None
) -> None:
    assert asked_wait(value, now=1000.0) == seconds


def test_waits_double_up_to_a_bound_with_a_jitter_that_a_seed_decides(server: MisbehavingServer, make: Make) -> None:
    def waits() -> list[float]:
        waited: list[float] = []

        async def sleep(seconds: float) -> None:
            waited.append(seconds)
            await asyncio.sleep(0)

        server.then(*[error(500)] * 4, error(429, headers={"Retry-After": "0"}))  # which asks for nothing
        service = replace(make().service, attempts=6, backoff=1.0, max_wait=6.0)
        answers(LlmJudge(RUBRIC, service, sleep=sleep), "x 5")
        return waited

    first = waits()
    assert [0.5 <= wait / longest < 1 for wait, longest in zip(first, (1, 2, 4, 6, 6), strict=True)] == [True] * 5
    assert waits() == first
    assert JITTER_SEED == 20261130


def test_requests_begin_no_faster_than_asked(server: MisbehavingServer, make: Make) -> None:
    answers(make(of_service={"requests_per_minute": 1200.0}), *(f"x {i}" for i in range(5)))
    times = sorted(asked.at for asked in server.asked)
    assert times[-1] - times[0] >= 4 * 0.05 - 0.03


def test_as_many_requests_are_on_their_way_as_asked_and_no_more(server: MisbehavingServer, make: Make) -> None:
    usual = server.usually
    server.usually = lambda asked: replace(usual(asked), before=0.03)
    answers(make(), *(f"x {i}" for i in range(16)))
    assert server.most_at_once == 4


def test_a_judge_can_be_asked_where_an_event_loop_runs_already(make: Make) -> None:
    async def inside() -> dict[str, Verdict]:
        return answers(make(), "x 5")[0]

    assert asyncio.run(inside())["x 5"].scores["hate"] == 0.5


# --- when a run ends --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_ends_the_run_and_is_named_by_its_variable_only(
    server: MisbehavingServer, make: Make, status: int
) -> None:
    refusal = error(status, "invalid_api_key", message=f"Incorrect API key provided: {KEY}")
    server.usually = lambda _: refusal
    with pytest.raises(InputError, match=rf"ASSAY_JUDGE_API_KEY.*refuses the key \(HTTP {status}") as caught:
        answers(make(), *map(str, range(50)))
    assert KEY not in repr(caught.value)
    assert len(server.asked) <= 4


def test_a_wrong_path_or_model_ends_the_run(server: MisbehavingServer, make: Make) -> None:
    server.usually = lambda _: error(404, "model_not_found")
    with pytest.raises(InputError, match=r"no such path or model \(HTTP 404, model_not_found\); see also ASSAY_JUDGE"):
        answers(make(), "x")


def test_a_redirect_is_not_followed(server: MisbehavingServer, make: Make) -> None:
    server.then(Reply(status=307, headers={"Location": "http://127.0.0.1:1/steal"}))
    with pytest.raises(InputError, match=r"sends the request elsewhere \(HTTP 307\), where the key does not go"):
        answers(make(), "x")
    assert len(server.asked) == 1


def test_a_used_up_quota_and_an_unpaid_bill_end_the_run_at_once(server: MisbehavingServer, make: Make) -> None:
    for reply, told in [(error(429, "insufficient_quota"), "quota .* is used up"), (error(402), "wants to be paid")]:
        server.then(reply)
        with pytest.raises(UnreachableError, match=told):
            answers(make(of_service={"concurrency": 1}), "x")
    assert len(server.asked) == 2


def test_a_service_that_is_not_there_is_unreachable(make: Make) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    with pytest.raises(UnreachableError, match="does not answer: no connection"):
        answers(make(of_service={"url": url}), "x")


def test_a_limit_that_does_not_lift_is_unreachable(server: MisbehavingServer, make: Make) -> None:
    server.usually = lambda _: error(429)
    with pytest.raises(UnreachableError, match="does not answer: HTTP 429"):
        answers(make(), "x")


def test_one_text_that_the_service_fails_on_is_a_failure_of_that_text(server: MisbehavingServer, make: Make) -> None:
    server.on("poison", error(500), times=3)
    found, _ = answers(make(), "poison", "x 5")
    assert found["poison"].state == "judge_error"
    assert found["poison"].rationale == "no answer in 3 attempts: HTTP 500, some_error"
    assert found["x 5"].state is None


def test_a_service_that_fails_on_every_text_is_unreachable_after_a_few(server: MisbehavingServer, make: Make) -> None:
    server.usually = lambda _: error(503)
    with pytest.raises(UnreachableError, match="does not answer: HTTP 503"):
        answers(make(of_service={"concurrency": 1}), *map(str, range(50)))
    assert len(server.asked) == MAX_EXHAUSTED * 3
    with pytest.raises(UnreachableError):  # fewer texts than that, and none of them answered
        answers(make(), "x")


def test_a_service_without_one_usable_answer_is_taken_for_the_wrong_one(server: MisbehavingServer, make: Make) -> None:
    server.usually = lambda _: Reply(body=b"<html>welcome</html>")
    with pytest.raises(InputError, match=r"20 texts in a row have no usable answer .* is this the right address"):
        answers(make(of_service={"concurrency": 1}), *map(str, range(50)))
    assert len(server.asked) == MAX_FAILED


def test_when_a_run_ends_what_is_on_its_way_is_waited_for(server: MisbehavingServer, make: Make) -> None:
    server.on("x 5", replace(GOOD, before=0.3))
    server.on("y", error(404, before=0.1))
    found: list[str] = []
    with pytest.raises(InputError, match="HTTP 404"):
        make().ask(
            [Question(text=text, digest=text_digest(text)) for text in ("x 5", "y")],
            lambda question, _: found.append(question.text),
            Traffic(),
        )
    assert found == ["x 5"]


@pytest.mark.parametrize("content", ["NaN", '{"a": Infinity}', "{", "", '{"a": 1, "a": 1}', "[" * 50_000])
def test_json_is_read_strictly(content: str) -> None:
    with pytest.raises(UnusableError, match="is not JSON"):
        plain_data(content)


def test_a_service_shows_no_key(service: Service) -> None:
    assert KEY not in repr(service)
    assert service.without_key(f"so {KEY} it is") == "so [key] it is"
    assert replace(service, key=SecretStr("none")).without_key("none of it") == "none of it"
