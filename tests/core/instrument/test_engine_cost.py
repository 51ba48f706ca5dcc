"""Ten million rows: memory stays within bounds, and counting costs little more than reading."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.e2e

CATEGORIES = ["dangerous-instructions", "hate", "self-harm", "sexual", "violence"]
TURNS, TRACES_A_GROUP, N_GROUPS = 4, 50_000, 10

MEASURED = """
import json, os, pathlib, sys
import pandas, pyarrow.parquet
import core.instrument.measurement, tasks.readers.table
from tasks.storage import InputFile
from tasks.tables import ScoreScan, count_units, open_all

def cpu():
    return sum(os.times()[:2])

def peak():  # ru_maxrss would start from the parent's
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM:")]
    return int(line.split()[1]) / 1024

path, names, decisions = pathlib.Path(sys.argv[1]), sys.argv[2].split(), pathlib.Path(sys.argv[3])
began, before = cpu(), peak()
"""

COUNT = """
scan = ScoreScan(open_all([InputFile(path=path, name="scores")]), "scores", names)
counts, rows = count_units(
    scan, [0.5] * len(names), n_composite=len(names), turn_bins=(1, 2, 4), attempts="each", last_turn_only=False,
    decisions=decisions,
)
scan.check(names)
answer = {"traces": counts.n_traces, "turns": counts.n_turns, "flagged": counts.clusters[0].events, "rows": rows}
"""

READ = """
answer = 0
with pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
    for batch in file.iter_batches(columns=["trace_id", "turn", "category", "score"], use_threads=False):
        answer += len(batch)
"""

REPORT = """
print(json.dumps({"cpu": cpu() - began, "grown": peak() - before, "answer": answer}))
"""


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write 10^7 rows of a long table with text ids, grouped by trace."""
    path = tmp_path_factory.mktemp("large") / "scores.parquet"
    names = [("trace_id", pa.string()), ("turn", pa.int32()), ("category", pa.string()), ("score", pa.float64())]
    rng = np.random.default_rng(1)
    n_cells = len(CATEGORIES)
    trace = np.repeat(np.arange(TRACES_A_GROUP, dtype=np.int32), TURNS * n_cells)
    turn = np.tile(np.repeat(np.arange(TURNS, dtype=np.int32), n_cells), TRACES_A_GROUP)
    category = pa.array(np.tile(np.arange(n_cells, dtype=np.int32), TRACES_A_GROUP * TURNS))
    with pq.ParquetWriter(path, pa.schema(names)) as writer:
        for group in range(N_GROUPS):
            ids = [f"conversation-{group * TRACES_A_GROUP + i:09d}" for i in range(TRACES_A_GROUP)]
            columns = [
                pa.DictionaryArray.from_arrays(pa.array(trace), pa.array(ids)).cast(pa.string()),
                pa.array(turn),
                pa.DictionaryArray.from_arrays(category, pa.array(CATEGORIES)).cast(pa.string()),
                pa.array(rng.integers(0, 526, len(trace)) / 1000),
            ]
            writer.write_table(pa.table(columns, schema=pa.schema(names)))
    return path


def process(project: Path, code: str, scores: Path) -> dict[str, float]:
    """Run in a process of its own and return what it measured of itself."""
    command = [sys.executable, "-c", MEASURED + code + REPORT, str(scores), " ".join(CATEGORIES), f"{scores}.decisions"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def runs(project: Path, scores: Path) -> tuple[list[dict[str, float]], list[dict[str, float]]]:
    """Count and read, in turns."""
    pairs = [(process(project, COUNT, scores), process(project, READ, scores)) for _ in range(3)]
    return [count for count, _ in pairs], [read for _, read in pairs]


def test_ten_million_rows_are_counted_once_each(runs: tuple[list[dict], list[dict]]) -> None:
    n_traces = TRACES_A_GROUP * N_GROUPS
    for count, read in zip(*runs, strict=True):
        assert read["answer"] == n_traces * TURNS * len(CATEGORIES) == 10_000_000
        assert (count["answer"]["traces"], count["answer"]["turns"]) == (n_traces, n_traces * TURNS)
        assert count["answer"]["rows"] == n_traces
        share = 1 - (500 / 526) ** (TURNS * len(CATEGORIES))  # a score of 26 in 526 reaches .5
        assert count["answer"]["flagged"] / n_traces == pytest.approx(share, abs=0.005)


def test_memory_grows_by_less_than_128_megabytes(runs: tuple[list[dict], list[dict]]) -> None:
    assert max(count["grown"] for count in runs[0]) < 128


def test_counting_takes_at_most_three_times_the_cpu_of_reading_the_columns(runs: tuple[list[dict], list[dict]]) -> None:
    counting, reading = (min(run["cpu"] for run in side) for side in runs)
    assert counting <= 3 * reading
