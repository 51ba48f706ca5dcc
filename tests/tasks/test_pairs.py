"""Joining two decisions files: the same pairs whatever the order of rows, in memory that does not grow with them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.instrument.pairing import PairCounts, PairTally
from tasks import pairs
from tasks.storage import InputFile
from tasks.tables import DecisionsFile

Row = tuple[str, int, str | None, int, int, int]


def written(path: Path, rows: Sequence[Row]) -> InputFile:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in DecisionsFile.SCHEMA]
    pq.write_table(pa.table(dict(zip(DecisionsFile.SCHEMA.names, columns, strict=True)), DecisionsFile.SCHEMA), path)
    return InputFile(path=path, name=path.name)


def joined(folder: Path, one: Sequence[Row], other: Sequence[Row], **size: int) -> PairCounts:
    tally = PairTally(2, (1, 2, 3, 4, 8))
    files = written(folder / "old.parquet", one), written(folder / "new.parquet", other)
    pairs.count_pairs(*files, tally, **size)
    return tally.finish()


def by_hand(one: Sequence[Row], other: Sequence[Row]) -> PairCounts:
    """The definition: every unit that both have, trace after trace, in one block."""
    import numpy as np

    mine, theirs = ({row[:2]: row for row in rows} for rows in (one, other))
    keys = sorted(mine.keys() & theirs.keys())
    traces = {name: i for i, name in enumerate(sorted({key[0] for key in keys}))}
    tally = PairTally(2, (1, 2, 3, 4, 8))
    tally.add(
        *(
            pairs.DecisionBlock(**{
                name: np.array([rows[key][column] for key in keys], np.int64)
                for name, column in (("n_turns", 3), ("flags", 4), ("missing", 5))
            })
            for rows in (mine, theirs)
        ),
        trace=np.array([traces[key[0]] for key in keys], np.int64),
        clusters=[mine[key][2] for key in keys],
    )  # fmt: skip
    tally.add_unpaired(baseline=len(mine) - len(keys), candidate=len(theirs) - len(keys))
    return tally.finish()


def some_rows(seed: int, n: int = 300, *, clusters: bool = False) -> list[Row]:
    """Traces of one to four attempts, in order."""
    draw = random.Random(seed)
    return [
        (f"trace-{i}", k, f"v{i % 7}" if clusters and i % 3 else None, draw.randint(1, 6), draw.randint(0, 3),
         draw.choice([0, 0, 0, 1, 2, 3]))
        for i in range(n) for k in range(1 + i % 4)
    ]  # fmt: skip


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairs, "ROWS_A_BATCH", 64)
    monkeypatch.setattr(pairs, "ROWS_A_SPREAD", 100)


@pytest.mark.parametrize("clusters", [False, True])
def test_files_in_the_same_order_are_joined_without_buckets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clusters: bool
) -> None:
    monkeypatch.setattr(pairs, "_Buckets", lambda *_: pytest.fail("buckets were made"))
    one, other = some_rows(1, clusters=clusters), some_rows(2, clusters=clusters)
    assert joined(tmp_path, one, other) == by_hand(one, other)


@pytest.mark.parametrize("clusters", [False, True])
@pytest.mark.parametrize("change", [
    "shuffled", "reversed", "one less at the start", "one less in the middle", "shorter", "more attempts",
    "nothing in common", "empty",
])  # fmt: skip
def test_any_order_of_rows_and_any_gap_gives_the_same_pairs(tmp_path: Path, change: str, clusters: bool) -> None:
    one, other = some_rows(1, clusters=clusters), some_rows(2, clusters=clusters)
    match change:
        case "shuffled":
            random.Random(3).shuffle(other)
            random.Random(4).shuffle(one)
        case "reversed":
            other = other[::-1]
        case "one less at the start":
            other = other[1:]
        case "one less in the middle":
            one, other = one[:-1], other[:321] + other[322:]
        case "shorter":
            other = other[:400]
        case "more attempts":
            other = [*other[:700], *((*row[:1], row[1] + 9, *row[2:]) for row in other[700:])]
        case "nothing in common":
            other = [(f"other-{i}", *row[1:]) for i, row in enumerate(other)]
        case "empty":
            other = []
    expected = by_hand(one, other)
    for rows_a_bucket in (1000, 40):
        assert joined(tmp_path, one, other, rows_a_bucket=rows_a_bucket) == expected
    swapped = joined(tmp_path, other, one)
    assert (swapped.n_pairs, swapped.n_baseline_only) == (expected.n_pairs, expected.n_candidate_only)


def test_a_trace_of_more_attempts_than_a_batch_has_rows_stays_one_cluster(tmp_path: Path) -> None:
    rows: list[Row] = [("long", k, None, 1, k % 2, 0) for k in range(500)]
    rows = [("first", 0, None, 1, 1, 0), *rows, ("last", 0, None, 1, 0, 0)]
    counts = joined(tmp_path, rows, rows)
    assert counts == by_hand(rows, rows)
    assert counts.sums[0].n_clusters == 3


def test_a_unit_that_stands_twice_is_refused_with_its_name(tmp_path: Path) -> None:
    rows = some_rows(1, 20)
    with pytest.raises(InputError, match=r"new.parquet: trace 'trace-3', attempt 2 stands there twice"):
        joined(tmp_path, rows, [rows[-1], *rows[:-1], rows[8]])


def test_two_clusters_for_one_trace_are_refused_with_both_names(tmp_path: Path) -> None:
    rows = some_rows(1, 20, clusters=True)
    other = [row if row[0] != "trace-4" else (*row[:2], "w", *row[3:]) for row in rows]
    with pytest.raises(InputError, match=r"new.parquet: trace 'trace-4' is of cluster 'w', and of cluster 'v4' in old"):
        joined(tmp_path, rows, other)
    with pytest.raises(InputError, match=r"is of no cluster, and of cluster 'v1' in old.parquet"):
        joined(tmp_path, rows, [(*row[:2], None, *row[3:]) for row in rows[::-1]])


@pytest.mark.parametrize(("content", "message"), [
    (b"", "Parquet is expected"),
    (b"PAR1 and nothing", "Parquet is expected"),
    ({"trace_id": ["a"]}, "it has no column attempt, cluster, n_turns, flag_mask, missing_mask"),
    ({"trace_id": ["a"], "attempt": ["x"], "cluster": [None], "n_turns": [1], "flag_mask": [0], "missing_mask": [0]},
     "is no decisions file"),
    ({"trace_id": ["a"], "attempt": [0], "cluster": [None], "n_turns": [None], "flag_mask": [0], "missing_mask": [0]},
     "cells are empty"),
])  # fmt: skip
def test_what_is_no_decisions_file_is_refused(tmp_path: Path, content: Any, message: str) -> None:
    good = written(tmp_path / "old.parquet", some_rows(1, 5))
    bad = tmp_path / "bad.parquet"
    if isinstance(content, bytes):
        bad.write_bytes(content)
    else:
        pq.write_table(pa.table(content), bad)
    for files in ((good, InputFile(path=bad, name="bad")), (InputFile(path=bad, name="bad"), good)):
        with pytest.raises(InputError, match=f"bad: .*{message}"):
            pairs.count_pairs(*files, PairTally(2, (1,)))


MEASURED = """
import json, resource, sys
from pathlib import Path
import numpy as np, pyarrow as pa, pyarrow.parquet as pq
from core.instrument.pairing import PairTally
from tasks.pairs import count_pairs
from tasks.storage import InputFile
from tasks.tables import DecisionsFile

folder, n, order = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def write(name, seed):
    rng = np.random.default_rng(seed)
    with pq.ParquetWriter(folder / name, DecisionsFile.SCHEMA, compression="zstd") as file:
        for start in range(0, n, 65536):
            i = np.arange(start, min(n, start + 65536))
            # an odd multiplier: a permutation of [0, n), as far apart as rows can be
            i = i if order == "same" or seed == 1 else (i * 7919 + 13) % n
            file.write_table(pa.table({
                "trace_id": pa.array(np.char.add("conversation-", i.astype(str))), "attempt": np.zeros(len(i), int),
                "cluster": pa.nulls(len(i), pa.string()), "n_turns": 1 + i % 4,
                "flag_mask": rng.integers(0, 4, len(i)), "missing_mask": np.zeros(len(i), int),
            }, DecisionsFile.SCHEMA))
    return InputFile(path=folder / name, name=name)

files = write("old.parquet", 1), write("new.parquet", 2)
"""

JOINED = (
    MEASURED
    + """
import time
before = resource.getrusage(resource.RUSAGE_SELF)
began = time.perf_counter()
tally = PairTally(2, (1, 2, 3, 4, 8))
count_pairs(*files, tally)
counts = tally.finish()
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({
    "pairs": counts.n_pairs, "unpaired": counts.n_baseline_only + counts.n_candidate_only,
    "grown_mb": (after.ru_maxrss - before.ru_maxrss) / 1024,
    "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, "wall": time.perf_counter() - began,
}))
"""
)


def measured(folder: Path, n: int, order: str) -> Any:
    """Join in a process of its own, whose peak of memory is then that of the join."""
    done = subprocess.run(
        [sys.executable, "-c", JOINED, str(folder), str(n), order], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.e2e
@pytest.mark.parametrize("order", ["same", "apart"])
def test_memory_does_not_grow_with_the_number_of_traces(tmp_path: Path, order: str) -> None:
    found = [measured(tmp_path, n, order) for n in (500_009, 3_000_017)]
    assert [item["pairs"] for item in found] == [500_009, 3_000_017]
    assert all(item["unpaired"] == 0 for item in found)
    # Twice 3,000,000 rows are 400 MB as a table. Measured: 63 and 130 MB; 85 and 165 MB at ten million.
    assert found[1]["grown_mb"] < 200, found
