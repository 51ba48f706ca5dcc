"""Counting production in parts, which other processes and machines carry out: the counts are those of one pass.

A part is some neighbouring files, or some row groups of a large Parquet file. What a part counts is sums, which add up.
Its first and its last trace it does not count but hands out, since they may go on in a neighbour; they are counted
where the parts are put together. What cannot be counted in parts (a trace whose rows are apart, anything that is wrong
with the data) is found out there or on the way, and all is counted in one pass, which then also says what is wrong.
"""

from __future__ import annotations

import contextlib
import os
import platform
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core.data.facts import merged
from core.data.problems import FILE_SHIFT
from core.data.scores import ScoreBatch, whole_traces
from core.errors import InputError
from core.instrument.labelled import FoundLabels, LabelledUnits
from core.instrument.tally import ScatteredTracesError, Tally, UnitCounts, decisions_of
from tasks.readers import Source
from tasks.readers.table import ParquetSource
from tasks.storage import InputFile, S3Url, fetched, file_digest, format_of
from tasks.storage.local import unreadable
from tasks.tables import Collapse, DecisionsFile, Found, ScoreScan, open_all
from tasks.workers import Workers, executor_of

MAX_PARTS = 256
LEAST_BYTES = 2**18
"""A part of fewer bytes would cost more to hand out than to count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file of a part.

    Attributes
    ----------
    number : int
        Of the file, among all.
    file : InputFile
    groups : range or None
        Row groups; None is the whole file.
    sha256 : str or None
        What the file is here, for a worker that may have another one of its name; None for a worker on this machine.
    """

    number: int
    file: InputFile
    groups: range | None = None
    sha256: str | None = None


Part = tuple[Piece, ...]


def parts_of(files: Sequence[InputFile]) -> list[Part]:
    """Divide files into at most some hundred parts of about the same size, in their order."""
    sizes = [file.path.stat().st_size for file in files]
    wanted = max(LEAST_BYTES, sum(sizes) // MAX_PARTS)
    parts: list[Part] = []
    part: list[Piece] = []
    held = 0.0
    for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
        for groups, share in _row_groups(file) if size > wanted else [(None, 1.0)]:
            last = part[-1] if part else None
            if groups is not None and last is not None and last.number == number and last.groups is not None:
                part[-1] = replace(last, groups=range(last.groups.start, groups.stop))
            else:
                part.append(Piece(number=number, file=file, groups=groups))
            held += size * share
            if held >= wanted:
                parts.append(tuple(part))
                part, held = [], 0.0
    return [*parts, tuple(part)] if part else parts


def _row_groups(file: InputFile) -> list[tuple[range | None, float]]:
    """Return the row groups of a file, each with its share of the rows; of another format the whole."""
    if file.reader != "table" or format_of(file.path) != ".parquet":
        return [(None, 1.0)]
    metadata = pq.read_metadata(file.path)
    rows = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
    if len(rows) < 2:
        return [(None, 1.0)]
    return [(range(number, number + 1), n / max(1, sum(rows))) for number, n in enumerate(rows)]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedPart:
    """What was counted of a part.

    Attributes
    ----------
    head, tail : ScoreBatch or None
        The first and the last trace, not counted; no tail where there is one trace, no head where there is none.
    tally : Tally
        Of the traces between them.
    found : Found
    labels : tuple or None
        What was seen of labelled traces.
    decisions : bytes
        Units in Arrow's stream format; none if nobody asked for them.
    """

    head: ScoreBatch | None
    tail: ScoreBatch | None
    tally: Tally
    found: Found
    labels: FoundLabels | None
    decisions: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Counting:
    """The work on a part: see `tasks.workers.Work`."""

    scan: Callable[[Sequence[Source]], ScoreScan]
    collapse: Collapse
    labelled: LabelledUnits | None
    decisions: bool

    def run(self, part: Part, /) -> CountedPart | None:
        """Count a part; None if it cannot be counted by itself: it must be counted in one pass with all others."""
        files = [_at_hand(piece) for piece in part]
        try:
            scan = self.scan(_opened(part, files))
            return self._counted(part, scan)
        except (InputError, ScatteredTracesError):
            return None

    def _counted(self, part: Part, scan: ScoreScan) -> CountedPart | None:
        counter = _Counter(self.collapse, None if self.labelled is None else self.labelled.emptied())
        ends = _Ends()
        stream = pa.BufferOutputStream()
        with pa.ipc.new_stream(stream, DecisionsFile.SCHEMA, options=_ZSTD) as out:
            for block in ends.between(whole_traces(scan.batches(), scan.log)):
                columns = counter.add(block, scan)
                if self.decisions:
                    out.write_batch(pa.RecordBatch.from_pydict(columns, schema=DecisionsFile.SCHEMA))
        if scan.log:
            return None
        return CountedPart(
            head=_of_all_files(ends.head, part),
            tail=_of_all_files(ends.tail, part),
            tally=counter.tally,
            found=scan.found,
            labels=None if counter.labelled is None else counter.labelled.found(),
            decisions=stream.getvalue().to_pybytes(),
        )


_ZSTD = pa.ipc.IpcWriteOptions(compression="zstd")


def _at_hand(piece: Piece) -> InputFile:
    """Return a worker's own copy of a file.

    Raises
    ------
    InputError
        The worker does not have it, or has another one.
    UnreachableError
        Object storage cannot be reached.
    """
    file = piece.file
    if piece.sha256 is None:
        return file
    if file.origin is not None:
        (copy,) = fetched([S3Url.parse(file.origin)])
        file = replace(file, path=copy.path, lease=copy.lease)
    if (reason := unreadable(file.path)) is not None:
        raise InputError.of(file.name, (
            f"the Dask worker on {platform.node()} cannot read it: {reason}; workers on other machines need the same "
            "files under the same paths, or s3:// addresses"
        ))  # fmt: skip
    if file_digest(file.path) != piece.sha256:
        raise InputError.of(
            file.name, f"the Dask worker on {platform.node()} has another file under this path (its SHA-256 differs)"
        )
    return file


def _opened(part: Part, files: Sequence[InputFile]) -> list[Source]:
    sources = open_all(files)
    for piece, source in zip(part, sources, strict=True):
        if piece.groups is not None and isinstance(source, ParquetSource):
            source.groups = piece.groups
            if piece.groups.start > 0:
                source.facts = None  # the part that has the first rows tells them
    return sources


def _of_all_files(batch: ScoreBatch | None, part: Part) -> ScoreBatch | None:
    """Number a batch's files among all."""
    return batch and replace(batch, place=batch.place + (part[0].number << FILE_SHIFT))


class _Ends:
    """Takes the first and the last trace out of blocks of whole traces."""

    def __init__(self) -> None:
        self.head: ScoreBatch | None = None
        self.tail: ScoreBatch | None = None

    def between(self, blocks: Iterator[ScoreBatch]) -> Iterator[ScoreBatch]:
        """Yield all traces but the first and the last."""
        held: ScoreBatch | None = None
        for block in blocks:
            rest: ScoreBatch | None = block
            if self.head is None:
                self.head, rest = _divided(block, 1)
            if rest is None:
                continue
            if held is not None:
                yield held
            held = rest
        if held is not None:
            inner, self.tail = _divided(held, len(held.starts) - 1)
            if inner is not None:
                yield inner


def _divided(block: ScoreBatch, n_traces: int) -> tuple[ScoreBatch | None, ScoreBatch | None]:
    """Divide a block after so many traces."""
    n = len(block.starts)
    row = int(block.starts[n_traces]) if n_traces < n else block.n_rows
    first = block.rows(0, row, slice(0, n_traces)) if n_traces else None
    return first, block.rows(row, block.n_rows, slice(n_traces, n)) if n_traces < n else None


class _Counter:
    """Counts blocks of whole traces that may be part of more."""

    def __init__(self, collapse: Collapse, labelled: LabelledUnits | None) -> None:
        self._collapse = collapse
        self.tally = Tally(collapse.n_composite, collapse.turn_bins, in_parts=True)
        self.labelled = labelled

    def add(self, block: ScoreBatch, scan: ScoreScan) -> dict[str, Any]:
        """Count a block, and return its columns of the decisions file."""
        units = self._collapse.units(block, scan.log)
        self.tally.add(block, units)
        if self.labelled is not None:
            self.labelled.add(block, units)
        return decisions_of(block, units)


def counted_in_parts(
    scan: ScoreScan, collapse: Collapse, *, decisions: Path | None, labelled: LabelledUnits | None, workers: Workers
) -> tuple[UnitCounts, int] | None:
    """Count all units of production in parts; see `tasks.tables.count_units`.

    Returns
    -------
    tuple or None
        None if they have to be counted in one pass: there is one part only, a trace whose rows are apart, or something
        is wrong with the data. Else the scan knows what was found, as after a pass.
    """
    parts = parts_of(scan.files)
    if isinstance(workers, str):
        parts = _for_other_machines(parts)
    elif len(parts) == 1:
        return None
    counting = Counting(scan=scan.of_part, collapse=collapse, labelled=labelled, decisions=decisions is not None)
    with tempfile.TemporaryDirectory(prefix="assay-") as name:
        counted: dict[int, CountedPart] = {}
        with contextlib.closing(executor_of(workers, len(parts))(counting, parts)) as outcomes:
            for position, outcome in outcomes:
                if outcome is None:
                    return None
                (Path(name) / str(position)).write_bytes(outcome.decisions)
                counted[position] = replace(outcome, decisions=b"")
                scan.tell(outcome.found.n_rows)
        in_order = [counted[position] for position in range(len(parts))]
        scan.take(_found(parts, in_order, scan))
        return _together(in_order, scan, collapse, decisions, labelled, Path(name))


def _for_other_machines(parts: Sequence[Part]) -> list[Part]:
    """Say what the files are, for workers that find files of their own under these names.

    Raises
    ------
    InputError
        A reader is told to look into a file of this machine.
    """
    digests: dict[int, str] = {}
    for piece in (piece for part in parts for piece in part):
        file = piece.file
        for option, value in file.options.items():
            if os.path.exists(value):  # noqa: PTH110 (Path.exists raises for what cannot be a name)
                raise InputError.of(file.name, (
                    f"the reader's {option}={value} is a file of this machine, which Dask workers do not get; use "
                    "--workers N, or read the file into a table first (`assay read`)"
                ))  # fmt: skip
        if piece.number not in digests:
            digests[piece.number] = file_digest(file.path)
    return [
        tuple(
            replace(
                piece,
                sha256=digests[piece.number],
                file=replace(piece.file, path=piece.file.path.resolve(), lease=None),
            )
            for piece in part
        )
        for part in parts
    ]


def _found(parts: Sequence[Part], counted: Sequence[CountedPart], scan: ScoreScan) -> Found:
    """Put together what the parts have brought up."""
    found = [part.found for part in counted]

    def union(name: str) -> tuple[str, ...]:
        return tuple(sorted({value for item in found for value in getattr(item, name)}))

    rows = np.zeros(len(scan.files), np.int64)
    for part, item in zip(parts, found, strict=True):
        for piece, n in zip(part, item.rows_by_file, strict=True):
            rows[piece.number] += n
    seen = union("categories")
    return Found(
        judges=union("judges"),
        fingerprints=union("fingerprints"),
        targets=union("targets"),
        categories=tuple(name for name in scan.categories if name in seen),
        n_rows=int(rows.sum()),
        ignored=union("ignored"),
        rows_by_file=tuple(rows.tolist()),
        sources=merged(facts for item in found for facts in item.sources),
    )


def _together(
    counted: Sequence[CountedPart],
    scan: ScoreScan,
    collapse: Collapse,
    decisions: Path | None,
    labelled: LabelledUnits | None,
    folder: Path,
) -> tuple[UnitCounts, int] | None:
    """Add parts up in their order, and count the traces at their ends; None if some trace is in two of them."""
    if labelled is not None:
        labelled.restart()
    counter = _Counter(collapse, labelled)
    with contextlib.ExitStack() as stack:
        file = None if decisions is None else stack.enter_context(contextlib.closing(DecisionsFile(decisions)))
        ends: list[ScoreBatch] = []

        def count_ends() -> None:
            for block in whole_traces(ends, scan.log):
                columns = counter.add(block, scan)
                if file is not None:
                    file.add(columns)

        try:
            for position, part in enumerate(counted):
                if part.head is not None:
                    ends.append(part.head)
                if part.tail is None:
                    continue
                count_ends()
                ends = [part.tail]
                counter.tally.join(part.tally)
                if labelled is not None and part.labels is not None:
                    labelled.join(part.labels)
                if file is not None:
                    with pa.ipc.open_stream(folder / str(position)) as batches:
                        for batch in batches:
                            file.add_batch(batch)
            count_ends()
            counts = counter.tally.finish()
        except ScatteredTracesError:
            return None
        return None if scan.log else (counts, 0 if file is None else file.rows)
