"""Settings come from the environment, and a wrong one is told by its variable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from core.errors import InputError
from tasks.settings import settings


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    settings.cache_clear()
    yield
    settings.cache_clear()


def test_a_size_may_have_a_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings().cache_bytes == 20_000_000_000
    settings.cache_clear()
    monkeypatch.setenv("ASSAY_CACHE_BYTES", "5GB")
    assert settings().cache_bytes == 5_000_000_000


def test_wrong_values_are_told_together_by_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE_BYTES", "much")
    monkeypatch.setenv("ASSAY_S3_ATTEMPTS", "0")
    with pytest.raises(InputError, match=r"(?s)ASSAY_CACHE_BYTES: .*ASSAY_S3_ATTEMPTS: .*greater than or equal to 1"):
        settings()
