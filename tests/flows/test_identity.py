"""Same inputs and seed, same id and result: whatever the process, folder, file name, time or order of rows."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

TWO_STEPS = """
import sys
from flows.cli import main
for command in sys.stdin.read().splitlines():
    try:
        main(command.split())
    except SystemExit as exit_:
        assert exit_.code == 0
"""


def shuffled(path: Path, seed: int) -> str:
    header, *rows = path.read_text().splitlines()
    random.Random(seed).shuffle(rows)
    return "\n".join([header, *rows])


def test_other_folders_and_file_names_give_the_same_id(assay: Any, world: Any, tmp_path: Path) -> None:
    files = {}
    for name in ("golden", "scores", "production", "instrument"):
        source = getattr(world, name)
        files[name] = tmp_path / f"other-{name}{source.suffix}"
        files[name].write_bytes(source.read_bytes())
    record = tmp_path / "c.json"
    command = ("--scores", files["scores"], "--instrument", files["instrument"], "-o", record)
    assert assay("calibrate", files["golden"], *command).code == 0
    measured = ("measure", files["production"], "--calibration", record, "--target", "bot@1", "-o", tmp_path / "m.json")
    assert assay(*measured).code == 0
    for made, expected in ((record, world.calibration), (tmp_path / "m.json", world.measurement)):
        mine, theirs = json.loads(made.read_text()), json.loads(expected.read_text())
        assert (mine["id"], mine["result"]) == (theirs["id"], theirs["result"])
        assert mine["inputs"] != theirs["inputs"]  # the uris


@pytest.mark.parametrize("seed", [1, 2])
def test_another_order_of_rows_gives_the_same_result(seed: int, assay: Any, bench: Any) -> None:
    """Another order is another file, so the id differs; the figures do not."""
    golden, scores = (bench.file(p.name, shuffled(p, seed)) for p in (bench.world.golden, bench.world.scores))
    production = bench.file("p.csv", shuffled(bench.world.production, seed))
    spec = bench.file("i.yaml", bench.world.instrument.read_text().replace("method: none", "resamples: 30"))
    results = []
    for g, s in ((bench.world.golden, bench.world.scores), (golden, scores)):
        outcome = assay("calibrate", g, "--scores", s, "--instrument", spec, "-o", bench.out / "c.json", "--json")
        results.append(outcome.record["result"])
    assert results[0] == results[1]
    options = ("--calibration", bench.world.calibration, "--target", "bot@1", "-o", bench.out / "m.json", "--json")
    measured = assay("measure", production, *options).record
    expected = json.loads(bench.world.measurement.read_text())
    assert measured["result"] == expected["result"]
    assert measured["id"] != expected["id"]


@pytest.mark.e2e
def test_two_processes_with_other_hash_seeds_write_the_same_records(world: Any, project: Path, tmp_path: Path) -> None:
    production = tmp_path / "production.csv"
    production.write_text(shuffled(world.production, 7))  # scattered traces go by their hashes
    (tmp_path / "i.yaml").write_text(world.instrument.read_text().replace("method: none", "resamples: 50"))
    found = []
    for seed in ("1", "2"):
        folder = tmp_path / seed
        commands = [
            f"calibrate {world.golden} --scores {world.scores} --instrument {tmp_path}/i.yaml -o {folder}/c.json",
            f"measure {production} --calibration {folder}/c.json -o {folder}/m.json",
        ]
        subprocess.run(
            [sys.executable, "-c", TWO_STEPS], input="\n".join(commands), text=True, check=True, cwd=project,
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo" if seed == "1" else "UTC"},
            capture_output=True,
        )  # fmt: skip
        records = [json.loads((folder / name).read_text()) for name in ("c.json", "m.json")]
        found.append([(r["id"], r["result"], [item["sha256"] for item in r["outputs"]]) for r in records])
    assert found[0] == found[1]
