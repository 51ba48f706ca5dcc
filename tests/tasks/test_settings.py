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


def test_an_empty_variable_counts_as_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compose hands on `${NAME:-}` so."""
    for name in ("ASSAY_CACHE_BYTES", "ASSAY_JUDGE_API_KEY", "ASSAY_JUDGE_ALLOW_HTTP", "ASSAY_TRACKING_URI"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    found = settings()
    assert (found.cache_bytes, found.judge_api_key, found.judge_allow_http) == (20_000_000_000, None, False)
    assert found.tracking_uri is not None
    assert found.tracking_uri.get_secret_value() == "http://127.0.0.1:5000"


def test_wrong_values_are_told_together_by_their_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASSAY_CACHE_BYTES", "much")
    monkeypatch.setenv("ASSAY_S3_ATTEMPTS", "0")
    with pytest.raises(InputError, match=r"(?s)ASSAY_CACHE_BYTES: .*ASSAY_S3_ATTEMPTS: .*greater than or equal to 1"):
        settings()
