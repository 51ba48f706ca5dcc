"""Nothing that assay starts reports to anybody, unless the environment says otherwise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SWITCHES = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}


def environment_after(code: str, project: Path, **given: str) -> dict[str, str]:
    """The environment of a fresh process that has run the code."""
    clean = {name: value for name, value in os.environ.items() if name not in SWITCHES}
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport json, os\nprint(json.dumps(dict(os.environ)))"],
        cwd=project, env={**clean, **given}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("module", ["flows", "flows.cli"])
def test_importing_the_flows_switches_telemetry_off(module: str, project: Path) -> None:
    found = environment_after(f"import {module}", project)
    assert {name: found.get(name) for name in SWITCHES} == SWITCHES


def test_what_the_environment_says_already_stays(project: Path) -> None:
    given = {"DO_NOT_TRACK": "0", "PREFECT_SERVER_ANALYTICS_ENABLED": "true", "MLFLOW_DISABLE_TELEMETRY": "false"}
    found = environment_after("import flows", project, **given)
    assert {name: found[name] for name in given} == given


def test_prefect_and_mlflow_obey(project: Path) -> None:
    code = (
        "import flows\n"
        "from prefect.settings import get_current_settings\n"
        "assert get_current_settings().server.analytics_enabled is False\n"
        "from mlflow.telemetry.utils import is_telemetry_disabled\n"
        "assert is_telemetry_disabled()\n"
    )
    environment_after(code, project)
