"""Two decisions files joined unit by unit, in any order of rows, within bounded memory.

Two releases that were tried on the same conversations mostly have their units in the same order: such files are read
side by side. From the first difference on, the rest of both is spread over bucket files by a hash of the trace id, and
each bucket is joined in memory.
"""

from __future__ import annotations

import itertools
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.data.columns import Bools, Ints
from core.data.problems import quoted
from core.errors import SHOWN_PROBLEMS, InputError, Problem
from core.instrument.pairing import DecisionBlock, PairTally
from tasks.storage import InputFile
from tasks.tables import DecisionsFile, Progress, no_progress

ROWS_A_BATCH = 65_536
ROWS_A_BUCKET = 100_000  # of one file, on average
MAX_BUCKETS = 384  # files that are open at once
ROWS_A_SPREAD = 150_000

SIDES = ("baseline", "candidate")
_SIDE = "side"
_NEEDED = ("trace_id", "attempt", "n_turns", "flag_mask", "missing_mask")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairBlock:
    """Some units that both files have, row i of both sides the same one; all attempts at a trace are neighbours.

    Attributes
    ----------
    baseline, candidate : DecisionBlock
    trace : int64 array
        Equal for attempts at one trace.
    clusters : list of (str or None), or None
        None where no unit has a name of a cluster.
    """

    baseline: DecisionBlock
    candidate: DecisionBlock
    trace: Ints
    clusters: list[str | None] | None


def count_pairs(
    baseline: InputFile,
    candidate: InputFile,
    tally: PairTally,
    *,
    progress: Progress = no_progress,
    rows_a_bucket: int = ROWS_A_BUCKET,
) -> None:
    """Join two decisions files and count their pairs.

    Parameters
    ----------
    baseline, candidate : InputFile
        As `measure` wrote them, which their digests show.
    tally : PairTally
        Takes the pairs, and the number of units that only one file has.
    progress : callable
        Gets numbers of rows read, of both files.
    rows_a_bucket : int
        Rows of either file that are joined in memory at a time, where the files are not in the same order.

    Raises
    ------
    InputError
        A file is not a decisions file, holds a unit twice, or the two name different clusters for a trace.
    """
    with tempfile.TemporaryDirectory(prefix="assay-") as folder:
        join = _Join(baseline, candidate, Path(folder), progress, rows_a_bucket)
        for block in join.blocks():
            tally.add(block.baseline, block.candidate, trace=block.trace, clusters=block.clusters)
        tally.add_unpaired(baseline=join.unpaired[0], candidate=join.unpaired[1])


class _Join:
    def __init__(
        self, baseline: InputFile, candidate: InputFile, folder: Path, progress: Progress, rows_a_bucket: int
    ) -> None:
        self._names = baseline.name, candidate.name
        self._rows = _Rows(baseline, progress), _Rows(candidate, progress)
        self._folder, self._rows_a_bucket = folder, rows_a_bucket
        self.unpaired = [0, 0]

    def blocks(self) -> Iterator[PairBlock]:
        yield from self._side_by_side()
        if any(rows.waiting() for rows in self._rows):
            yield from self._by_bucket()

    def _side_by_side(self) -> Iterator[PairBlock]:
        """Yield whole traces while both files go through the same units; what follows is left to the buckets."""
        one, other = self._rows
        while n := min(one.waiting(), other.waiting()):
            same = _same_units(one.held.slice(0, n), other.held.slice(0, n))
            at_end = [len(rows.held) == n and not rows.read_on() for rows in self._rows]
            # The last trace that is the same so far may have more attempts to come.
            n_whole = n if same == n and all(at_end) else _start_of_last_trace(one.held.slice(0, same))
            limiting = [rows for rows in self._rows if len(rows.held) == n]
            if n_whole:
                yield self._block(one.take(n_whole), other.take(n_whole))
            if same < n or any(at_end):
                return
            for rows in limiting:
                rows.extend()

    def _by_bucket(self) -> Iterator[PairBlock]:
        """Spread the rest of both files over buckets, and join each bucket."""
        rest = max(rows.left() for rows in self._rows)
        buckets = _Buckets(self._folder, min(MAX_BUCKETS, 1 + rest // self._rows_a_bucket))
        for side, rows in enumerate(self._rows):
            buckets.add(rows.rest(), side)
        for table in buckets.tables():
            block = self._joined(table)
            if block is not None:
                yield block

    def _joined(self, table: Any) -> PairBlock | None:
        codes, attempts, side = _codes(table.column("trace_id")), _ints(table, "attempt"), _ints(table, _SIDE)
        order = np.lexsort((side, attempts, codes))
        codes, attempts, side = codes[order], attempts[order], side[order]
        alike = (codes[1:] == codes[:-1]) & (attempts[1:] == attempts[:-1])
        self._refuse_repeated(table, order, side, alike)
        first = np.flatnonzero(alike)
        counts = np.bincount(side, minlength=2) - len(first)
        self.unpaired = [a + int(b) for a, b in zip(self.unpaired, counts, strict=True)]
        if not len(first):
            return None
        return self._block(table.take(pa.array(order[first])), table.take(pa.array(order[first + 1])))

    def _refuse_repeated(self, table: Any, order: Ints, side: Ints, alike: Bools) -> None:
        repeated = np.flatnonzero(alike & (side[1:] == side[:-1]))
        if len(repeated):
            raise InputError(
                (
                    Problem(
                        source=self._names[side[row]],
                        message=f"trace {quoted(found['trace_id'])}, attempt {found['attempt']} stands there twice",
                    )
                    for row in repeated[:SHOWN_PROBLEMS]
                    for found in table.slice(int(order[row]), 1).to_pylist()
                ),
                count=len(repeated),
            )

    def _block(self, one: Any, other: Any) -> PairBlock:
        named = self._clusters(one, other)
        ids = one.column("trace_id")
        new = np.zeros(len(one), np.int64)
        new[1:] = pc.not_equal(ids.slice(1), ids.slice(0, len(one) - 1)).to_numpy(zero_copy_only=False)
        return PairBlock(
            baseline=_decisions(one),
            candidate=_decisions(other),
            trace=np.cumsum(new),
            clusters=named.to_pylist() if named is not None else None,
        )

    def _clusters(self, one: Any, other: Any) -> Any:
        """Return the column of clusters, on which both files agree; None where no unit has one."""
        mine, theirs = one.column("cluster"), other.column("cluster")
        if mine.null_count == theirs.null_count == len(one):
            return None
        if mine.equals(theirs):
            return mine
        pairs = zip(one.column("trace_id").to_pylist(), mine.to_pylist(), theirs.to_pylist(), strict=True)
        differing = [row for row in dict.fromkeys(pairs) if row[1] != row[2]]
        raise InputError(
            (
                Problem(
                    source=self._names[1],
                    message=f"trace {quoted(trace)} is of {_cluster(b)}, and of {_cluster(a)} in {self._names[0]}; "
                    "measure both releases with the same column 'cluster', or compare with --unpaired",
                )
                for trace, a, b in differing[:SHOWN_PROBLEMS]
            ),
            count=len(differing),
        )


def _cluster(name: str | None) -> str:
    return "no cluster" if name is None else f"cluster {quoted(name)}"


class _Rows:
    """The rows of a decisions file, a batch at a time; `held` are those that were read and not yet taken."""

    def __init__(self, file: InputFile, progress: Progress) -> None:
        self._name, self._progress = file.name, progress
        try:
            opened = pq.ParquetFile(file.path)
        except (OSError, pa.ArrowException):
            raise InputError.of(file.name, "is no decisions file: Parquet is expected") from None
        absent = [name for name in DecisionsFile.SCHEMA.names if name not in opened.schema_arrow.names]
        if absent:
            raise InputError.of(file.name, f"is no decisions file: it has no column {', '.join(absent)}")
        self._n_ahead = opened.metadata.num_rows
        self._batches = opened.iter_batches(ROWS_A_BATCH, columns=DecisionsFile.SCHEMA.names)
        self.held = DecisionsFile.SCHEMA.empty_table()

    def waiting(self) -> int:
        """Return how many rows are held, after reading some if there were none."""
        if not len(self.held):
            self.extend()
        return len(self.held)

    def left(self) -> int:
        """Return how many rows were not taken yet."""
        return len(self.held) + int(self._n_ahead)

    def read_on(self) -> bool:
        """Whether the file has more rows than are held."""
        return bool(self._n_ahead)

    def extend(self) -> None:
        """Hold one batch more, if there is one."""
        try:
            batch = next(self._batches, None)
            if batch is None:
                self._n_ahead = 0
                return
            self._n_ahead -= len(batch)
            read = pa.table(batch).select(DecisionsFile.SCHEMA.names).cast(DecisionsFile.SCHEMA)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError.of(self._name, f"is no decisions file: {error}") from None
        if any(read.column(name).null_count for name in _NEEDED):
            raise InputError.of(self._name, "is no decisions file: cells are empty")
        self._progress(len(read))
        self.held = pa.concat_tables([self.held, read]).combine_chunks() if len(self.held) else read

    def take(self, n: int) -> Any:
        """Return the first rows that are held, and let go of them."""
        taken, self.held = self.held.slice(0, n), self.held.slice(n)
        return taken

    def rest(self) -> Iterator[Any]:
        """Yield all rows that were not taken, in tables of some hundred thousand."""
        while self.waiting():
            parts = [self.take(self.waiting())]
            while sum(map(len, parts)) < ROWS_A_SPREAD and self.waiting():
                parts.append(self.take(self.waiting()))
            yield pa.concat_tables(parts).combine_chunks()


class _Buckets:
    """Files of rows of both sides; all rows of a trace are in one of them."""

    def __init__(self, folder: Path, n_buckets: int) -> None:
        self._paths = [folder / f"{i}.arrow" for i in range(n_buckets)]
        self._writers: list[Any] = [None] * n_buckets

    def add(self, tables: Iterator[Any], side: int) -> None:
        for table in tables:
            ids = table.column("trace_id").to_pylist()
            bucket = np.fromiter(map(_hash, ids), np.int64, len(ids)) % len(self._paths)
            order = np.argsort(bucket, kind="stable")
            marked = table.append_column(_SIDE, pa.array(np.full(len(table), side)))
            spread = marked.take(pa.array(order)).combine_chunks()
            edges = np.searchsorted(bucket[order], np.arange(len(self._paths) + 1))
            for number, (first, last) in enumerate(itertools.pairwise(edges.tolist())):
                if last > first:
                    self._write(number, spread.slice(first, last - first))

    def _write(self, number: int, table: Any) -> None:
        if self._writers[number] is None:
            self._writers[number] = pa.ipc.new_stream(str(self._paths[number]), table.schema)
        self._writers[number].write_table(table)

    def tables(self) -> Iterator[Any]:
        for writer in self._writers:
            if writer is not None:
                writer.close()
        for path, writer in zip(self._paths, self._writers, strict=True):
            if writer is not None:
                with pa.OSFile(str(path)) as file, pa.ipc.open_stream(file) as stream:
                    table = stream.read_all().combine_chunks()
                path.unlink()
                yield table


def _hash(trace: str) -> int:
    return zlib.crc32(trace.encode("utf-8", "surrogatepass"))


def _same_units(one: Any, other: Any) -> int:
    """Return how many rows from the first on are the same units in both tables of one length."""
    same = pc.and_(*(pc.equal(one.column(name), other.column(name)) for name in ("trace_id", "attempt")))
    found = np.flatnonzero(~same.to_numpy(zero_copy_only=False))
    return int(found[0]) if len(found) else len(one)


def _start_of_last_trace(table: Any) -> int:
    """Return the row at which the last trace of a table begins."""
    if not len(table):
        return 0
    ids = table.column("trace_id")
    others = np.flatnonzero(pc.not_equal(ids, ids[len(table) - 1]).to_numpy(zero_copy_only=False))
    return int(others[-1]) + 1 if len(others) else 0


def _codes(texts: Any) -> Ints:
    encoded = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    found: Ints = encoded.dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _ints(table: Any, name: str) -> Ints:
    found: Ints = table.column(name).to_numpy()
    return found


def _decisions(table: Any) -> DecisionBlock:
    return DecisionBlock(
        n_turns=_ints(table, "n_turns"), flags=_ints(table, "flag_mask"), missing=_ints(table, "missing_mask")
    )
