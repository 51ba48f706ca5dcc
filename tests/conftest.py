"""What every test shares: where things are, and an environment that is nobody's own."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent

# Not tests: doctest collection would import them.
collect_ignore = ["benchmarks/bench.py"]

# Set at import, because Prefect and MLflow read their environment when they are imported, which happens
# while tests are collected. Neither the user's data nor a configured server nor telemetry takes part.
_SCRATCH = Path(tempfile.mkdtemp(prefix="assay-tests-"))
for _name in [name for name in os.environ if name.startswith(("ASSAY_", "MLFLOW_", "PREFECT_"))]:
    del os.environ[_name]
os.environ.update(
    ASSAY_DATA_DIR=str(_SCRATCH / "data"),
    ASSAY_CACHE_DIR=str(_SCRATCH / "cache"),
    ASSAY_TRACKING_URI="none",
    PREFECT_HOME=str(_SCRATCH / "prefect"),
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    MLFLOW_DISABLE_TELEMETRY="true",
    DO_NOT_TRACK="1",
)


def pytest_unconfigure() -> None:
    shutil.rmtree(_SCRATCH, ignore_errors=True)


@pytest.fixture(scope="session")
def project() -> Path:
    """Root of the project."""
    return PROJECT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of the test data, which lies beside the project. Skips without it; fails where CI=true."""
    folder = PROJECT.parent / "shared"
    if not folder.is_dir():
        reason = "the test data folder ../shared is not beside the project"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(f"{reason}, and CI=true requires it")
        pytest.skip(reason)
    return folder
