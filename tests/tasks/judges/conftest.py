"""A server that answers well unless told otherwise, and judges that ask it without losing time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tasks.judges.endpoint import Service
from tasks.judges.llm import LlmJudge
from tasks.judges.rubric import Rubric
from tasks.settings import settings
from tests.tasks.judges.misbehaving_server import Asked, MisbehavingServer, Reply, completion, ratings, running

KEY = "sk-planted-7f3a91c2d45e"

RUBRIC = Rubric(
    name="small",
    version="1",
    categories={"hate": "Demeans people.", "violence": "Threatens people."},
    instructions="Rate what is said.",
    scale=(0, 10),
    model="judge-x",
)
RUBRIC_YAML = """\
name: small
version: "1"
categories: {hate: Demeans people., violence: Threatens people.}
instructions: Rate what is said.
scale: [0, 10]
model: judge-x
"""


def by_text(asked: Asked) -> Reply:
    """Rate a text by the number that it ends with, of ten."""
    last = asked.text.rsplit(maxsplit=1)[-1]
    return completion(ratings(hate=int(last) % 10 if last.isdigit() else 0, violence=1))


@pytest.fixture
def server() -> Iterator[MisbehavingServer]:
    with running(by_text) as found:
        yield found


@pytest.fixture
def service(server: MisbehavingServer) -> Service:
    return Service(
        url=f"{server.url}/chat/completions",
        key=SecretStr(KEY),
        attempts=3,
        timeout=5.0,
        backoff=0.001,
        max_wait=0.05,
        concurrency=4,
    )


@pytest.fixture
def make(service: Service) -> Callable[..., LlmJudge]:
    """Make a judge: changes of the rubric by their names, of the service as a dict."""

    def judge(*, of_service: dict[str, Any] | None = None, **of_rubric: Any) -> LlmJudge:
        return LlmJudge(replace(RUBRIC, **of_rubric), replace(service, **(of_service or {})))

    return judge


@pytest.fixture
def environment(server: MisbehavingServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """The environment in which the command line asks the server."""
    (tmp_path / "rubric.yaml").write_text(RUBRIC_YAML)
    variables = {
        "ASSAY_JUDGE_BASE_URL": server.url,
        "ASSAY_JUDGE_API_KEY": KEY,
        "ASSAY_JUDGE_RUBRIC": str(tmp_path / "rubric.yaml"),
        "ASSAY_JUDGE_BACKOFF": "0.001",
        "ASSAY_JUDGE_MAX_WAIT": "0.02",
        "ASSAY_JUDGE_ATTEMPTS": "3",
        "ASSAY_CACHE_DIR": str(tmp_path / "cache"),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    yield variables
    settings.cache_clear()
