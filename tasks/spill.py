"""Bringing the rows of scattered traces together within bounded memory.

Rows are spread over bucket files by a hash of their trace id, so that a trace is in one bucket; each bucket is then
small enough to sort in memory. The engine that counts them is the same.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from core.data.problems import ProblemLog
from core.data.scores import NO_REASON, ScoreBatch, joined, regrouped

ROWS_IN_MEMORY = 400_000
N_BUCKETS = 256


def scattered_blocks(batches: Iterator[ScoreBatch], folder: Path, log: ProblemLog) -> Iterator[ScoreBatch]:
    """Yield blocks of whole traces from batches in any order; what does not fit memory is spilled to `folder`."""
    held: list[ScoreBatch] = []
    buckets: _Buckets | None = None
    for batch in batches:
        held.append(batch)
        if sum(part.n_rows for part in held) >= ROWS_IN_MEMORY:
            buckets = buckets or _Buckets(folder, N_BUCKETS)
            buckets.add(joined(held))
            held = []
    if buckets is None:
        yield regrouped(held, log)
        return
    if held:
        buckets.add(joined(held))
    yield from buckets.blocks(log)


class _Buckets:
    def __init__(self, folder: Path, n_buckets: int) -> None:
        self._paths = [folder / f"{i}.arrow" for i in range(n_buckets)]
        self._writers: list[Any] = [None] * n_buckets

    def add(self, batch: ScoreBatch) -> None:
        lengths = np.diff(np.r_[batch.starts, batch.n_rows])
        segment = np.repeat(np.arange(len(lengths)), lengths)
        # Not Python's hash, which differs between processes: the order of the decisions file would too.
        digests = [zlib.crc32(trace.encode("utf-8", "surrogatepass")) for trace in batch.trace_ids]
        bucket_of = np.array(digests, np.int64) % len(self._paths)
        bucket = bucket_of[segment]
        table = _table(batch, segment).take(pa.array(np.argsort(bucket, kind="stable")))
        edges = np.searchsorted(np.sort(bucket), np.arange(len(self._paths) + 1))
        for number, (first, last) in enumerate(itertools.pairwise(edges)):
            if last > first:
                self._write(number, table.slice(first, last - first))

    def _write(self, number: int, table: Any) -> None:
        if self._writers[number] is None:
            self._writers[number] = pa.ipc.new_stream(str(self._paths[number]), table.schema)
        self._writers[number].write_table(table)

    def blocks(self, log: ProblemLog) -> Iterator[ScoreBatch]:
        for writer in self._writers:
            if writer is not None:
                writer.close()
        for path in self._paths:
            if path.exists():
                with pa.ipc.open_stream(str(path)) as stream:
                    parts = [_batch(batch) for batch in stream if len(batch)]
                yield regrouped(parts, log)
                path.unlink()


def _table(batch: ScoreBatch, segment: Any) -> Any:
    columns: dict[str, Any] = {
        "trace": pa.DictionaryArray.from_arrays(
            pa.array(segment, pa.int32()), pa.array(batch.trace_ids, pa.string())
        ).cast(pa.string()),
        "cluster": pa.array(batch.clusters or [None] * len(batch.trace_ids), pa.string()).take(pa.array(segment)),
        "attempt": batch.attempt,
        "turn": batch.turn,
        "place": batch.place,
        "reason": batch.reason if batch.reason is not None else np.full(batch.n_rows, NO_REASON, np.uint8),
    }
    if batch.category is not None:
        columns["category"] = batch.category.astype(np.int64)
        columns["value"], columns["valid"] = batch.values, _valid(batch)
    else:
        for c in range(batch.values.shape[1]):
            columns[f"value{c}"], columns[f"valid{c}"] = batch.values[:, c], _valid(batch)[:, c]
    return pa.table(columns)


def _valid(batch: ScoreBatch) -> Any:
    return np.ones(batch.values.shape, bool) if batch.valid is None else batch.valid


def _batch(rows: Any) -> ScoreBatch:
    def column(name: str) -> Any:
        return rows.column(name).to_numpy(zero_copy_only=False)

    traces, clusters = rows.column("trace"), rows.column("cluster")
    # Runs of one trace that were apart may meet here: another cluster begins another segment, for `regrouped` to find.
    codes = np.stack([_codes(traces), _codes(clusters)])
    starts = np.flatnonzero(np.r_[True, (codes[:, 1:] != codes[:, :-1]).any(axis=0)])
    names = rows.schema.names
    wide = sum(name.startswith("value") for name in names) if "category" not in names else 0
    return ScoreBatch(
        starts=starts,
        trace_ids=traces.take(pa.array(starts)).to_pylist(),
        clusters=clusters.take(pa.array(starts)).to_pylist(),
        attempt=column("attempt"),
        turn=column("turn"),
        category=column("category") if not wide else None,
        values=np.column_stack([column(f"value{c}") for c in range(wide)]) if wide else column("value"),
        valid=np.column_stack([column(f"valid{c}") for c in range(wide)]) if wide else column("valid"),
        reason=column("reason"),
        place=column("place"),
    )


def _codes(texts: Any) -> Any:
    return texts.dictionary_encode(null_encoding="encode").indices.to_numpy(zero_copy_only=False)
