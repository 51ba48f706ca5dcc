"""Whole commands with judges that ask a service: killed and resumed, calibrated, verified; the key stays inside."""

from __future__ import annotations

import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tasks.settings import settings
from tests.flows.conftest import Outcome, run_assay
from tests.tasks.judges.conftest import KEY, by_text
from tests.tasks.judges.misbehaving_server import MisbehavingServer, Reply, as_json, completion, error, ratings

Judge = Callable[..., Outcome]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.csv"
    rows = [f"t{i},0,text {i}" for i in range(12)]
    path.write_text("\n".join(["trace_id,turn,text", *rows, "empty,0,", ""]))
    return path


@pytest.fixture
def judge(environment: dict[str, str], texts: Path, tmp_path: Path) -> Judge:
    def run(*options: object, name: str = "llm") -> Outcome:
        settings.cache_clear()
        return run_assay("judge", name, texts, "-o", tmp_path / "scores.parquet", *options)

    return run


def table(tmp_path: Path) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = pq.read_table(tmp_path / "scores.parquet").to_pydict()
    return found


def everything_in(folder: Path) -> bytes:
    return b"\n".join(path.read_bytes() + str(path).encode() for path in sorted(folder.rglob("*")) if path.is_file())


def test_conversations_are_judged_by_a_rubric_and_the_end_is_told(
    judge: Judge, tmp_path: Path, server: MisbehavingServer, environment: dict[str, str]
) -> None:
    rubric = tmp_path / "priced.yaml"
    priced = Path(environment["ASSAY_JUDGE_RUBRIC"]).read_text() + "price_per_million: {input: 1, output: 10}\n"
    rubric.write_text(priced)
    server.then(error(500), completion("nonsense"))
    outcome = judge("--rubric", rubric)
    assert outcome.code == 0, outcome.err
    assert "13 turns judged by llm@judge-x-2026-01-01 (" in outcome.out
    assert (
        "11 scored, 1 judge_error, 1 missing; 13 requests, 1 of them retries; 0 answers kept from before" in outcome.out
    )
    assert "1,200 tokens in, 240 out; cost 0.0036" in outcome.out
    found = table(tmp_path)
    assert found["state"].count("judge_error") == 1
    assert all((hate is None) == (state is not None) for hate, state in zip(found["hate"], found["state"], strict=True))
    again = judge("--rubric", rubric)
    assert "12 scored, 1 missing; 1 requests, 0 of them retries; 11 answers kept from before" in again.out


def test_the_moderation_endpoint_is_asked_from_the_command_line(
    judge: Judge, tmp_path: Path, server: MisbehavingServer
) -> None:
    names = ("hate", "hate/threatening", "violence", "violence/graphic", "sexual", "sexual/minors", "illicit",
             "illicit/violent", "self-harm", "self-harm/intent", "self-harm/instructions", "harassment")  # fmt: skip
    result = {"flagged": False, "categories": {}, "category_scores": dict.fromkeys(names, 0.5)}
    server.usually = lambda _: as_json({"model": "omni-moderation-2024-09-26", "results": [result]})
    outcome = judge(name="openai-moderation")
    assert "13 turns judged by openai-moderation@omni-moderation-2024-09-26" in outcome.out
    assert server.asked[0].path == "/v1/moderations"
    assert table(tmp_path)["dangerous-instructions"] == [0.5] * 12 + [None]


def test_repeated_judging_has_its_variance_reported(judge: Judge, environment: dict[str, str]) -> None:
    path = Path(environment["ASSAY_JUDGE_RUBRIC"])
    path.write_text(path.read_text() + "samples: 2\n")
    assert "variance of repeated judging: hate 0, violence 0" in judge().out


def test_a_table_of_scores_with_failures_is_measured_with_them_as_gaps(
    judge: Judge, tmp_path: Path, server: MisbehavingServer
) -> None:
    server.on("text 3", completion(ratings(hate=99, violence=0)))
    assert judge().code == 0
    outcome = run_assay("check", tmp_path / "scores.parquet")
    assert outcome.code == 0, outcome.err
    assert "judge_error" in outcome.out


def command(texts: Path, output: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from flows.cli import main; main()", "judge", "llm", str(texts), "-o", str(output)],
        env={**os.environ, **environment, "ASSAY_JUDGE_CONCURRENCY": "3"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def await_lines(journals: Path, n: int) -> None:
    deadline = time.monotonic() + 30
    while sum(path.read_bytes().count(b"\n") for path in journals.glob("*.jsonl")) < n:
        assert time.monotonic() < deadline, "no answers were kept"
        time.sleep(0.01)


@pytest.mark.e2e
def test_a_run_that_is_killed_pays_for_no_answer_twice(
    server: MisbehavingServer, environment: dict[str, str], texts: Path, tmp_path: Path
) -> None:
    """The server answers five texts and holds the others back; then the process is killed with SIGKILL."""
    hold = threading.Event()
    server.usually = lambda asked: by_text(asked) if len(server.asked) <= 5 else replace(by_text(asked), hold=hold)
    process = command(texts, tmp_path / "scores.parquet", environment)
    await_lines(tmp_path / "cache" / "verdicts", 6)  # a head and five answers
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    assert not (tmp_path / "scores.parquet").exists()
    paid = set(server.texts[:5])
    asked_before = len(server.asked)
    hold.set()
    server.usually = by_text
    process = command(texts, tmp_path / "scores.parquet", environment)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "12 scored, 1 missing; 7 requests, 0 of them retries; 5 answers kept from before" in out
    assert not paid & set(server.texts[asked_before:])
    assert table(tmp_path)["hate"] == [i % 10 / 10 for i in range(12)] + [None]


@pytest.mark.e2e
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_says_so_and_goes_on_from_there(
    server: MisbehavingServer, environment: dict[str, str], texts: Path, tmp_path: Path, number: signal.Signals
) -> None:
    hold = threading.Event()
    server.usually = lambda asked: by_text(asked) if len(server.asked) <= 5 else replace(by_text(asked), hold=hold)
    process = command(texts, tmp_path / "scores.parquet", environment)
    await_lines(tmp_path / "cache" / "verdicts", 6)
    process.send_signal(number)
    threading.Timer(0.2, hold.set).start()  # what is on its way arrives after the signal
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted; nothing was written; the same command goes on with the answers so far" in err
    outcome = run_assay("judge", "llm", texts, "-o", tmp_path / "scores.parquet")
    assert "12 scored, 1 missing" in outcome.out
    assert set(server.answered.values()) == {1}


def test_a_service_that_goes_away_is_exit_4_and_says_how_to_go_on(
    judge: Judge, server: MisbehavingServer, tmp_path: Path
) -> None:
    server.usually = lambda asked: by_text(asked) if asked.text < "text 2" else error(503)
    outcome = judge()
    assert outcome.code == 4
    assert re.search(r"does not answer: HTTP 503.*\n.*texts are scored and kept: the same command goes on", outcome.err)
    assert not (tmp_path / "scores.parquet").exists()


def test_a_run_without_the_cache_does_not_say_that_answers_are_kept(
    judge: Judge, server: MisbehavingServer, tmp_path: Path
) -> None:
    server.usually = lambda asked: by_text(asked) if asked.text < "text 2" else error(503)
    outcome = judge("--no-cache")
    assert outcome.code == 4
    assert re.search(r"\n\d of 12 texts are scored, and none is kept$", outcome.err.strip())
    assert not (tmp_path / "cache").exists()


def test_an_alias_that_moves_on_is_exit_2_and_a_run_without_the_cache_is_of_the_new_model(
    judge: Judge, server: MisbehavingServer, texts: Path
) -> None:
    judge()
    server.usually = lambda _: completion(ratings(hate=1, violence=0), model="judge-x-2027-01-01")
    with texts.open("a") as file:
        file.write("new,0,a new text\n")
    outcome = judge()
    assert outcome.code == 2
    assert "answered as judge-x-2026-01-01 so far, and now as judge-x-2027-01-01" in outcome.err
    assert "12 of 13 texts are scored and kept" in outcome.err
    assert "14 turns judged by llm@judge-x-2027-01-01" in judge("--no-cache").out


# --- the key ----------------------------------------------------------------------------------------------------------


def echoing(asked: Any) -> Reply:
    """Answer with the key wherever an answer has room for it."""
    number = int(asked.text.rsplit(maxsplit=1)[-1])
    header = {"X-Key": KEY, "Set-Cookie": f"key={KEY}"}
    told = asked.headers["Authorization"]
    return [
        completion(ratings(f"your header is {told}", hate=1, violence=1), headers=header),
        error(500, KEY, message=told, headers=header),
        error(400, KEY, message=told),
        error(422, KEY.replace("sk-", "")),
        completion(f"{told} is not JSON"),
        completion(ratings(hate=99, violence=0), finish=told),
        completion(None, refusal=told),
        completion(None, finish=told),
        Reply(body=told.encode()),
        error(429, KEY, headers={"Retry-After": KEY}),
        Reply(hang_up=True),
        completion(ratings(hate=1, violence=1), tokens=(1, 1)),
    ][number]


@pytest.mark.parametrize("ending", [None, 401, 403, 404, 307, 402, 418, "model"])
@pytest.mark.parametrize("debug", [False, True])
def test_the_key_is_in_no_output_no_log_and_no_file(
    judge: Judge,
    server: MisbehavingServer,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    ending: int | str | None,
    debug: bool,
) -> None:
    caplog.set_level(logging.DEBUG if debug else logging.INFO)
    for name in ("httpx", "httpcore", "asyncio", "tenacity"):
        logging.getLogger(name).setLevel(logging.DEBUG if debug else logging.NOTSET)
    monkeypatch.setenv("ASSAY_DEBUG", "1")
    monkeypatch.setenv("ASSAY_JUDGE_CONCURRENCY", "1")
    server.usually = echoing
    if ending == "model":
        server.on("text 11", completion(ratings(hate=1, violence=1), model=KEY))
    elif isinstance(ending, int):
        location = {"Location": f"http://127.0.0.1:1/{KEY}"}
        server.on("text 9", error(ending, KEY, message=KEY, headers=location))
    outcome = judge()
    assert any(KEY in asked.headers.get("Authorization", "") for asked in server.asked)
    assert KEY not in outcome.out + outcome.err
    logs = "\n".join(f"{record.getMessage()} {record.exc_text} {record.args!r}" for record in caplog.records)
    # What httpcore notes at DEBUG are the headers of answers, whatever the service puts there: not ours to change.
    ours = "\n".join(line for line in logs.splitlines() if "receive_response_headers.complete" not in line)
    assert KEY not in ours
    kept = everything_in(tmp_path / "cache")
    assert b"your header is Bearer [key]" in kept
    assert KEY.encode() not in kept
    if (tmp_path / "scores.parquet").exists():
        assert KEY not in str(table(tmp_path))
    for name in ("httpx", "httpcore", "asyncio", "tenacity"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_a_key_that_the_service_refuses_is_exit_2_and_is_named_by_its_variable(
    judge: Judge, server: MisbehavingServer
) -> None:
    server.usually = lambda _: error(401, message=KEY)
    outcome = judge()
    assert outcome.code == 2
    assert "ASSAY_JUDGE_API_KEY or OPENAI_API_KEY: 127.0.0.1" in outcome.err
    assert KEY not in outcome.err


def test_settings_show_no_key(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}-openai")
    settings.cache_clear()
    shown = f"{settings()!r} {settings()} {settings().model_dump()} {settings().model_dump_json()}"
    assert KEY not in shown
    assert settings().openai_api_key is not None


# --- calibration ------------------------------------------------------------------------------------------------------


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    path = tmp_path / "golden.csv"
    rows = [f"g{i},hate,{int(i % 10 >= 5)},words {i}" for i in range(40)]
    path.write_text("\n".join(["trace_id,category,label,text", *rows, ""]))
    (tmp_path / "i.yaml").write_text("name: x\ncategories: [hate]\noptimism: {resamples: 20}\n")
    return path


def calibrate(golden: Path, *options: object) -> Outcome:
    folder = golden.parent
    return run_assay(
        "calibrate", golden, "--judge", "llm", "--instrument", folder / "i.yaml", "-o", folder / "c.json", *options
    )


def test_a_judge_is_calibrated_on_texts_and_the_record_verified_without_asking_again(
    golden: Path, environment: dict[str, str], server: MisbehavingServer, tmp_path: Path
) -> None:
    outcome = calibrate(golden, "--json")
    assert outcome.code == 0, outcome.err
    result = outcome.record["result"]
    assert (result["judge"]["name"], result["judge"]["version"]) == ("llm", "judge-x-2026-01-01")
    assert result["judge_source"] == "ran"
    assert result["categories"]["hate"]["threshold"] == 0.5
    assert len(server.asked) == 40
    assert run_assay("verify", tmp_path / "c.json").code == 0
    assert len(server.asked) == 40
    assert KEY.encode() not in everything_in(tmp_path / "cache") + (tmp_path / "c.json").read_bytes()


def test_scores_of_the_judge_are_measured_with_its_calibration(
    golden: Path, judge: Judge, environment: dict[str, str], server: MisbehavingServer, tmp_path: Path
) -> None:
    path = Path(environment["ASSAY_JUDGE_RUBRIC"])
    path.write_text(path.read_text().replace(", violence: Threatens people.", ""))
    server.usually = lambda asked: completion(ratings(hate=int(asked.text[-1])))
    assert calibrate(golden).code == 0
    assert judge().code == 0
    options = ("--calibration", tmp_path / "c.json", "--json", "-o", tmp_path / "m.json")
    outcome = run_assay("measure", tmp_path / "scores.parquet", *options)
    assert outcome.code == 0, outcome.err
    assert outcome.record["result"]["judge"]["version"] == "judge-x-2026-01-01"


def test_a_text_that_the_judge_fails_on_is_no_golden_trace_with_a_score_of_zero(
    golden: Path, environment: dict[str, str], server: MisbehavingServer
) -> None:
    server.on("words 9", completion("nonsense"))
    outcome = calibrate(golden, "--json")
    assert outcome.code == 0, outcome.err
    hate = outcome.record["result"]["categories"]["hate"]
    assert (hate["n_positive"], hate["n_negative"]) == (19, 20)


def test_answers_that_are_gone_are_not_asked_again_to_verify(
    golden: Path, environment: dict[str, str], server: MisbehavingServer, tmp_path: Path
) -> None:
    calibrate(golden)
    for path in (tmp_path / "cache").rglob("*.jsonl"):
        path.unlink()
    outcome = run_assay("verify", tmp_path / "c.json")
    assert outcome.code == 2
    assert "40 of its answers are not kept here" in outcome.err
    assert len(server.asked) == 40


def test_an_instrument_that_is_declared_for_another_model_is_refused_by_the_answers(
    golden: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    with (tmp_path / "i.yaml").open("a") as file:
        file.write('judge: {name: llm, version: "judge-x-2025-01-01"}\n')
    outcome = calibrate(golden)
    assert outcome.code == 2
    assert "is declared for judge llm@judge-x-2025-01-01, but llm@judge-x-2026-01-01 is to run" in outcome.err
    assert calibrate(golden, "--accept-judge").code == 0
