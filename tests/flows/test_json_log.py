"""What `--log-format json` writes while a command works."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def test_an_outage_of_mlflow_names_the_record_that_is_kept(world: Any, assay: Any, tmp_path: Path) -> None:
    command = ("measure", world.production, "--calibration", world.calibration, "-o", tmp_path / "m.json")
    outcome = assay("--log-format", "json", *command, "--tracking-uri", "http://127.0.0.1:9")
    assert outcome.code == 4
    rows = [json.loads(text) for text in outcome.err.splitlines()]
    record = json.loads((tmp_path / "m.json").read_text())["id"]
    assert [(row["level"], row["record"]) for row in rows] == [("info", record), ("error", record)]
