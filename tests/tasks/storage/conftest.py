"""Settings and clients are read once a process; a test that changes the environment gets new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tasks.settings import settings
from tasks.storage import s3


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Set variables of an environment of the test's own, with an empty cache and an empty data folder."""

    def use(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        if s3.client.cache_info().currsize:
            s3.client().close()
        settings.cache_clear()
        s3.client.cache_clear()

    use(ASSAY_CACHE_DIR=str(tmp_path / "cache"), ASSAY_DATA_DIR=str(tmp_path / "data"))
    yield use
    monkeypatch.undo()
    use()
