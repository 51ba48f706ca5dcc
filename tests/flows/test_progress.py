"""Progress of a flow as an artifact: shown while there is a server, and never worth a run."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from flows import orchestration
from flows.orchestration import ProgressArtifact


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str]]:
    """What is shown, at once and not every five seconds."""
    seen: list[tuple[float, str]] = []

    def create(percent: float, key: str, description: str) -> str:
        seen.append((percent, description.partition(" in ")[0]))
        return key

    def update(_artifact: Any, percent: float, description: str) -> None:
        create(percent, "progress", description)

    monkeypatch.setattr(orchestration, "PROGRESS_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(orchestration, "create_progress_artifact", create)
    monkeypatch.setattr(orchestration, "update_progress_artifact", update)
    return seen


def test_progress_is_shown_to_its_end(shown: list[tuple[float, str]]) -> None:
    progress = ProgressArtifact(2_000, "rows read")
    progress(500)
    progress(1_500)
    assert shown == [(25.0, "rows read: 500 of 2,000"), (100.0, "rows read: 2,000 of 2,000")]


def test_a_server_that_is_away_is_shown_nothing_and_fails_nothing(
    shown: list[tuple[float, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise httpx.ConnectError("All connection attempts failed")

    progress = ProgressArtifact(4, "rows read")
    with monkeypatch.context() as patch:
        patch.setattr(orchestration, "create_progress_artifact", away)
        progress(1)
    progress(1)
    with monkeypatch.context() as patch:
        patch.setattr(orchestration, "update_progress_artifact", away)
        progress(1)
    progress(1)
    assert shown == [(50.0, "rows read: 2 of 4"), (100.0, "rows read: 4 of 4")]
