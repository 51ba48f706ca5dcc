"""From files to the tables that core works on: golden sets, golden scores, and production as counted units."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from core.data.columns import RawBatch, numbers, text_codes, whole_numbers
from core.data.facts import SourceFacts, merged
from core.data.golden import GoldenSet
from core.data.problems import FILE_SHIFT, ProblemLog, nearest, quoted
from core.data.scores import (
    NAME_COLUMN,
    Kind,
    Layout,
    ScoreBatch,
    ScoreParser,
    layout_of,
    missing_column,
    regrouped,
    reserved_name,
    whole_traces,
)
from core.data.vocabulary import MAX_CATEGORIES, RESERVED_CATEGORIES, category_name
from core.errors import InputError, Problem
from core.instrument.collapse import Units, unit_masks
from core.instrument.golden_table import GoldenScores, GoldenTable, cluster_codes, golden_scores
from core.instrument.labelled import LabelledUnits
from core.instrument.tally import ScatteredTracesError, Tally, UnitCounts, chosen_attempts, decisions_of
from core.records import FileReference
from tasks.readers import Source, open_source, reader_names
from tasks.spill import scattered_blocks
from tasks.storage import InputFile, file_digest, find_inputs
from tasks.workers import Workers

if TYPE_CHECKING:  # pandas takes half a second to import, which not every command needs
    import pandas as pd

    from core.data.golden_reader import GoldenReader

Progress = Callable[[int], None]


def no_progress(_: int) -> None:
    """Report to nobody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a scan of score files brought up besides the scores.

    Attributes
    ----------
    judges, fingerprints, targets : tuple of str
        Distinct values of those columns.
    categories : tuple of str
        That occurred in some row.
    n_rows : int
    ignored : tuple of str
        Columns that mean nothing here.
    rows_by_file : tuple of int
    sources : tuple of SourceFacts
        How other tools' files were read.
    """

    judges: tuple[str, ...]
    fingerprints: tuple[str, ...]
    targets: tuple[str, ...]
    categories: tuple[str, ...]
    n_rows: int
    ignored: tuple[str, ...]
    rows_by_file: tuple[int, ...]
    sources: tuple[SourceFacts, ...]


def open_all(files: Sequence[InputFile]) -> list[Source]:
    """Open files; what is wrong with any of them is told for all."""
    sources: list[Source] = []
    problems: list[Problem] = []
    for file in files:
        try:
            sources.append(open_source(file))
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return sources


def references(role: str, files: Sequence[InputFile], rows: Sequence[int]) -> list[FileReference]:
    """Digest input files for a record."""
    return [
        FileReference(role=role, uri=file.uri, sha256=file_digest(file.path), rows=n)
        for file, n in zip(files, rows, strict=True)
    ]


class ScoreScan:
    """A pass over score or detection files.

    Parameters
    ----------
    sources : sequence of Source
    kind : {'scores', 'detections'}
    categories : sequence of str
        All that may occur, in bit order.
    progress : callable
        Gets the number of rows of each batch.
    alike : bool, optional
        Whether all files have one layout; of some of the files, their own layouts do not say it.
    """

    def __init__(
        self,
        sources: Sequence[Source],
        kind: Kind,
        categories: Sequence[str],
        progress: Progress = no_progress,
        *,
        alike: bool | None = None,
    ) -> None:
        self._sources, self._kind, self._categories = sources, kind, categories
        self._progress = progress
        self._layouts = layouts_of(sources, kind, categories)
        layouts = {(layout.long, frozenset(layout.categories)) for layout in self._layouts}
        self._alike = len(layouts) == 1 if alike is None else alike
        self._found: Found | None = None
        self.log = ProblemLog([source.file.name for source in sources], [source.unit for source in sources])
        self._parsers = [self._parser(layout) for layout in self._layouts]
        self._rows = [0] * len(sources)

    def _parser(self, layout: Layout) -> ScoreParser:
        return ScoreParser(layout, self._categories, self._kind, self.log)

    def restart(self) -> None:
        """Forget what the last pass found wrong: the next one will find it again."""
        self.log = ProblemLog([s.file.name for s in self._sources], [s.unit for s in self._sources])
        self._parsers = [self._parser(layout) for layout in self._layouts]
        self._rows = [0] * len(self._sources)
        self._found = None

    @property
    def files(self) -> list[InputFile]:
        """The files."""
        return [source.file for source in self._sources]

    @property
    def categories(self) -> tuple[str, ...]:
        """All that may occur, in bit order."""
        return tuple(self._categories)

    @property
    def of_part(self) -> Callable[[Sequence[Source]], ScoreScan]:
        """Makes a scan of some of the files, in another process perhaps, that reads them as this one does."""
        return partial(ScoreScan, kind=self._kind, categories=self._categories, alike=self._alike)

    def tell(self, n_rows: int) -> None:
        """Count rows that were read elsewhere as progress."""
        self._progress(n_rows)

    def take(self, found: Found) -> None:
        """Take what passes over parts of the files have brought up together for what this pass has."""
        self._found = found

    def batches(self) -> Iterator[ScoreBatch]:
        """Yield all files' rows, checked; problems gather in `log`."""
        for number, (source, layout, parser) in enumerate(
            zip(self._sources, self._layouts, self._parsers, strict=True)
        ):
            for raw in raw_batches(source, number, layout.columns, self.log):
                self._rows[number] += len(raw.place)
                self._progress(len(raw.place))
                batch = parser.parse(raw)
                if layout.long or self._alike:
                    yield batch
                else:  # files of different layouts meet in the form that all have
                    yield batch.as_long(np.array([self._categories.index(name) for name in layout.categories]))

    @property
    def found(self) -> Found:
        """What the pass brought up."""
        return self._found or Found(
            judges=_union(parser.judges for parser in self._parsers),
            fingerprints=_union(parser.fingerprints for parser in self._parsers),
            targets=_union(parser.targets for parser in self._parsers),
            categories=tuple(name for name in self._categories if any(name in p.seen for p in self._parsers)),
            n_rows=sum(self._rows),
            ignored=_union(layout.ignored for layout in self._layouts),
            rows_by_file=tuple(self._rows),
            sources=merged(facts for source in self._sources if (facts := source.facts) is not None),
        )

    def check(self, needed: Sequence[str]) -> None:
        """Raise what is wrong, including empty tables and needed categories that stand in no row."""
        for source, rows in zip(self._sources, self.found.rows_by_file, strict=True):
            if not rows and not self.log:
                self.log.add(source.file.name, "has a header but no rows")
        self.log.stop_if_any()
        for name in needed:
            if name not in self.found.categories:
                what = NAME_COLUMN[self._kind]
                self.log.add(
                    self._sources[0].file.name,
                    f"{what} {name!r} stands in no row, but the instrument needs it; was it scored?",
                )
        self.log.stop_if_any()


def _union(sets: Iterable[Iterable[str]]) -> tuple[str, ...]:
    return tuple(sorted(set().union(*sets)))


def layouts_of(sources: Sequence[Source], kind: Kind, categories: Sequence[str] | None) -> list[Layout]:
    """Read the layouts of all files; unknown category columns are a problem when the categories are known."""
    log = ProblemLog()
    layouts = []
    for source in sources:
        layout = layout_of(source.columns, kind, source.file.name, log)
        if layout is None:
            continue
        for name in layout.categories if categories is not None else ():
            if name not in (categories or ()):
                log.add(
                    source.file.name,
                    f"unknown {NAME_COLUMN[kind]} column {quoted(name)}; {nearest(name, categories or ())}",
                    line=1,
                )
        layouts.append(layout)
    log.stop_if_any()
    return layouts


def raw_batches(source: Source, number: int, columns: Sequence[str], log: ProblemLog) -> Iterator[RawBatch]:
    """Yield a source's rows with their places; rows that cannot be read go to the log."""
    try:
        for table, lines in source.batches(columns):
            yield RawBatch(table=table, place=lines | (number << FILE_SHIFT))
    except InputError as error:
        for problem in error.problems:
            log.add(problem.source, problem.message, line=problem.line, unit=problem.unit)
        log.count += error.count - len(error.problems)


def categories_in(sources: Sequence[Source], kind: Kind) -> tuple[str, ...]:
    """Find the categories to measure: `names_in`, but no column becomes a protected attribute unasked.

    Raises
    ------
    InputError
        Wide detections: whether a column is an attribute or something else only the instrument can say.
    """
    layouts = layouts_of(sources, kind, None)
    if kind == "detections" and not all(layout.long for layout in layouts):
        raise InputError(
            Problem(source=source.file.name, line=1, message=(
                f"which of the columns here ({', '.join(layout.categories)}) are attributes? "
                "Name them as `categories` in the instrument"
            ))
            for source, layout in zip(sources, layouts, strict=True)
            if not layout.long
        )  # fmt: skip
    return names_in(sources, kind)


def names_in(sources: Sequence[Source], kind: Kind) -> tuple[str, ...]:
    """Find all categories that occur, sorted: from the header (wide) or from the rows (long)."""
    log = ProblemLog([source.file.name for source in sources], [source.unit for source in sources])
    names: set[str] = set()
    for number, (source, layout) in enumerate(zip(sources, layouts_of(sources, kind, None), strict=True)):
        names |= set(layout.categories)
        if layout.long:
            column = NAME_COLUMN[kind]
            for raw in raw_batches(source, number, [column], log):
                values = text_codes(raw.column(column), column, raw.place, log).values
                names |= {category_name(text) for text in values if text}
    for name in sorted(names & RESERVED_CATEGORIES):
        log.add(sources[0].file.name, reserved_name(name, NAME_COLUMN[kind]))
    log.stop_if_any()
    if len(names) > MAX_CATEGORIES:
        raise InputError.of(
            sources[0].file.name,
            f"{len(names)} different names in column {NAME_COLUMN[kind]!r}; at most {MAX_CATEGORIES} are possible",
        )
    return tuple(sorted(names))


def load_golden(
    files: Sequence[InputFile],
    *,
    categories: Sequence[str] | None,
    slices: Sequence[str],
    needed: Sequence[str] | None = None,
    role: str = "golden",
) -> tuple[GoldenSet, GoldenReader, list[FileReference]]:
    """Read a golden set, or labels of production.

    Parameters
    ----------
    files : sequence of InputFile
    categories : sequence of str, optional
        All that may occur; without them, whatever occurs.
    slices : sequence of str
    needed : sequence of str, optional
        Categories that must occur; by default all.
    role : str
        Of the files in the record.
    """
    from core.data.golden_reader import GoldenReader, golden_layout

    sources = open_all(files)
    log = ProblemLog([source.file.name for source in sources], [source.unit for source in sources])
    reader = GoldenReader(log, categories, needed)
    rows = []
    for number, source in enumerate(sources):
        before = reader.n_rows
        raws = raw_batches(source, number, source.columns, log)
        first = next(raws, None)
        layout = golden_layout(
            source.columns, first, source.file.name, log, categories=categories, slices=slices, needed=needed
        )
        if layout is not None and first is not None:
            reader.add(first, layout)
            for raw in raws:
                reader.add(raw, layout)
        rows.append(reader.n_rows - before)
        if not log and not rows[-1]:
            log.add(source.file.name, "has a header but no rows; a golden set needs labelled traces")
    golden = reader.finish()
    return golden, reader, references(role, files, rows)


def load_golden_scores(
    sources: Sequence[Source], golden: GoldenSet, *, last_turn_only: bool, kind: Kind = "scores"
) -> tuple[GoldenScores, Found]:
    """Read the judge's scores (or the detector's decisions) on a golden set and collapse them over turns."""
    scan = ScoreScan(sources, kind, golden.categories)
    parts = list(scan.batches())
    both_classes = ((golden.labels == 1).any(axis=0) & (golden.labels == 0).any(axis=0)).tolist()
    needed = [name for name, both in zip(golden.categories, both_classes, strict=True) if both]
    scan.check(needed)
    scores = golden_scores(regrouped(parts, scan.log), golden.categories, last_turn_only=last_turn_only, log=scan.log)
    return scores, scan.found


class DecisionsFile:
    """Writes units to a Parquet file, block by block."""

    SCHEMA = pa.schema([
        ("trace_id", pa.string()), ("attempt", pa.int64()), ("cluster", pa.string()),
        ("n_turns", pa.int64()), ("flag_mask", pa.int64()), ("missing_mask", pa.int64()),
    ])  # fmt: skip
    ROWS_A_GROUP = 65_536

    def __init__(self, path: Path) -> None:
        self._writer = pq.ParquetWriter(path, self.SCHEMA, compression="zstd")
        self._held: list[Any] = []
        self._n_held = 0
        self.rows = 0

    def add(self, columns: dict[str, Any]) -> None:
        """Add units."""
        self.add_batch(pa.RecordBatch.from_pydict(columns, schema=self.SCHEMA))

    def add_batch(self, batch: Any) -> None:
        """Add units that stand in an Arrow batch."""
        self._held.append(batch)
        self._n_held += len(batch)
        self.rows += len(batch)
        if self._n_held >= self.ROWS_A_GROUP:
            self._flush(self._n_held // self.ROWS_A_GROUP * self.ROWS_A_GROUP)

    def _flush(self, n_rows: int) -> None:
        """Write so many rows; the bytes of the file depend on its rows alone, not on how they came in."""
        held = pa.Table.from_batches(self._held, self.SCHEMA).combine_chunks()
        for first in range(0, n_rows, self.ROWS_A_GROUP):
            self._writer.write_table(held.slice(first, min(self.ROWS_A_GROUP, n_rows - first)))
        self._held, self._n_held = held.slice(n_rows).to_batches(), self._n_held - n_rows

    def close(self) -> None:
        """Finish the file."""
        self._flush(self._n_held)
        self._writer.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """How the rows of whole traces become units: what `count_units` takes."""

    thresholds: tuple[float, ...]
    n_composite: int
    turn_bins: tuple[int, ...]
    attempts: str
    last_turn_only: bool

    def units(self, block: ScoreBatch, log: ProblemLog) -> Units:
        """Return the units of a block of whole traces."""
        needed = (1 << self.n_composite) - 1
        units = unit_masks(block, self.thresholds, needed=needed, last_turn_only=self.last_turn_only, log=log)
        return chosen_attempts(units, self.attempts)


def count_units(
    scan: ScoreScan,
    thresholds: Sequence[float],
    *,
    n_composite: int,
    turn_bins: Sequence[int],
    attempts: str,
    last_turn_only: bool,
    decisions: Path | None,
    labelled: LabelledUnits | None = None,
    workers: Workers = 1,
) -> tuple[UnitCounts, int]:
    """Collapse and count all units in one pass; scattered traces take a second pass over spilled buckets.

    Parameters
    ----------
    scan : ScoreScan
    thresholds : sequence of float
        One a category of the scan; +inf for those that only need to be known.
    n_composite : int
        The first so many categories make the composite.
    turn_bins, attempts, last_turn_only
        From the instrument.
    decisions : Path, optional
        Where the decisions file goes.
    labelled : LabelledUnits, optional
        Picks out the units of labelled traces.
    workers : Workers
        Who counts; neither the counts nor the decisions file depend on it.

    Returns
    -------
    counts : UnitCounts
    n_decisions : int
        Rows in the decisions file.

    Raises
    ------
    InputError
        A Dask worker lacks a file, or has another one, or other code.
    UnreachableError
        The Dask scheduler, or object storage, cannot be reached.
    """
    collapse = Collapse(
        thresholds=tuple(thresholds),
        n_composite=n_composite,
        turn_bins=tuple(turn_bins),
        attempts=attempts,
        last_turn_only=last_turn_only,
    )
    if workers != 1:
        from tasks.parts import counted_in_parts

        counted = counted_in_parts(scan, collapse, decisions=decisions, labelled=labelled, workers=workers)
        if counted is not None:
            return counted
        scan.restart()

    def count(blocks: Iterator[ScoreBatch]) -> tuple[UnitCounts, int]:
        tally = Tally(n_composite, turn_bins)
        if labelled is not None:
            labelled.restart()
        file = None if decisions is None else DecisionsFile(decisions)
        try:
            for block in blocks:
                units = collapse.units(block, scan.log)
                tally.add(block, units)
                if labelled is not None:
                    labelled.add(block, units)
                if file is not None:
                    file.add(decisions_of(block, units))
        finally:
            if file is not None:
                file.close()
        return tally.finish(), 0 if file is None else file.rows

    try:
        return count(whole_traces(scan.batches(), scan.log))
    except ScatteredTracesError:
        scan.restart()
        with tempfile.TemporaryDirectory(prefix="assay-") as folder:
            return count(scattered_blocks(scan.batches(), Path(folder), scan.log))


class MemorySource:
    """A table that was made here, read like a file."""

    unit = "row"
    kind: str | None = None
    facts: SourceFacts | None = None

    def __init__(self, name: str, table: Any) -> None:
        self.file = InputFile(path=Path(name), name=name)
        self.columns = tuple(table.column_names)
        self._table = table

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, Any]]:
        """Yield the whole table."""
        table = self._table.select(list(columns)).combine_chunks()
        for batch in table.to_batches():
            yield batch, np.arange(1, len(batch) + 1, dtype=np.int64)


def load_texts(files: Sequence[InputFile]) -> pd.DataFrame:
    """Read conversations to judge: trace_id, attempt, turn, text, and cluster and target where given.

    One row a turn, in the order of the files; a turn that stands several times with one text (as in a long golden
    set) is judged once.
    """
    import pandas as pd

    sources = open_all(files)
    log = ProblemLog([source.file.name for source in sources], [source.unit for source in sources])
    frames = []
    for number, source in enumerate(sources):
        for column in ("trace_id", "text"):
            if column not in source.columns:
                log.add(source.file.name, missing_column(column, source.columns))
        log.stop_if_any()
        columns = [
            name for name in ("trace_id", "attempt", "turn", "text", "cluster", "target") if name in source.columns
        ]
        frames += [_texts(raw, log) for raw in raw_batches(source, number, columns, log)]
    log.stop_if_any()
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
    if frame.empty:
        raise InputError.of(files[0].name, "has a header but no rows")
    key = ["trace_id", "attempt", "turn"]
    distinct = frame.drop_duplicates([column for column in frame if column != "place"])
    for _, row in distinct[distinct.duplicated(key)].iterrows():
        log.at(int(row["place"]), f"trace {row['trace_id']!r}, turn {row['turn']} stands here with other content")
    log.stop_if_any()
    return distinct.drop(columns="place").reset_index(drop=True)


def _texts(raw: RawBatch, log: ProblemLog) -> pd.DataFrame:
    import pandas as pd

    frame: dict[str, Any] = {"place": raw.place}
    for name in ("trace_id", "cluster", "target"):
        if raw.column(name) is not None:
            codes = text_codes(raw.column(name), name, raw.place, log)
            frame[name] = [codes.text(i) or None for i in range(len(raw.place))]
    log.rows(raw.place, np.array([not trace for trace in frame["trace_id"]]), lambda _: "trace_id is empty")
    for name in ("attempt", "turn"):
        column = raw.column(name)
        zeros = np.zeros(len(raw.place), np.int64)
        frame[name] = zeros if column is None else whole_numbers(column, name, raw.place, log)
    frame["text"] = [None if text is None else str(text) for text in raw.column("text").to_pylist()]
    return pd.DataFrame(frame)


def write_golden_maxima(table: GoldenTable, path: Path) -> int:
    """Write the joined golden traces: turns, the maximum and label of each category, cluster and slices."""
    columns: dict[str, Any] = {
        "trace_id": pa.array(table.trace_ids, pa.string()),
        "n_turns": table.n_turns,
        "cluster": pa.array(
            [name or None for name in table.cluster_names or [None] * len(table.trace_ids)], pa.string()
        ),
    }
    for c, name in enumerate(table.categories):
        columns[name] = pa.array(table.maxima[:, c], pa.float64(), mask=table.missing[:, c])
        labels = table.labels[:, c]
        columns[f"label.{name}"] = pa.array(np.maximum(labels, 0), pa.int8(), mask=labels < 0)
    for name, values in table.slices.items():
        columns[f"slice.{name}"] = pa.array(values, pa.string())
    pq.write_table(pa.table(columns), path, compression="zstd")
    return len(table.trace_ids)


def read_golden_maxima(file: InputFile, categories: Sequence[str], *, n_unmatched: int = 0) -> GoldenTable:
    """Read back what `write_golden_maxima` wrote.

    Parameters
    ----------
    file : InputFile
    categories : sequence of str
        All of the calibration's, in the order that the table is to have.
    n_unmatched : int
        Ids that stood in one table only; the file does not say.

    Raises
    ------
    InputError
        It is not such a file, or of other categories.
    """
    try:
        table = pq.read_table(file.path)
        scores = [table.column(name) for name in categories]
        labels = [table.column(f"label.{name}").fill_null(-1).to_numpy().astype(np.int64) for name in categories]
        names = table.column("cluster").to_pylist()
        n_turns = table.column("n_turns").to_numpy().astype(np.int64)
        trace_ids = tuple(table.column("trace_id").to_pylist())
    except (KeyError, OSError, pa.ArrowException):
        raise InputError.of(file.name, f"is no golden_maxima file of {', '.join(categories)}") from None
    clusters = cluster_codes(names)
    return GoldenTable(
        trace_ids=trace_ids,
        categories=tuple(categories),
        labels=np.stack(labels, axis=1),
        maxima=np.stack([score.fill_null(-np.inf).to_numpy() for score in scores], axis=1),
        missing=np.stack([score.is_null().to_numpy() for score in scores], axis=1),
        n_turns=n_turns,
        cluster_names=tuple(name or "" for name in names) if any(names) else None,
        clusters=clusters,
        clustered=bool(np.bincount(clusters).max() > 1),
        slices={
            name.removeprefix("slice."): tuple(table.column(name).to_pylist())
            for name in table.column_names[3 + 2 * len(categories) :]  # behind a score and a label a category
        },
        n_unmatched=n_unmatched,
    )


def load_reported(
    files: Sequence[InputFile], attributes: Sequence[str]
) -> tuple[dict[str, float], list[FileReference]]:
    """Read the rates that a detector reports itself: columns ``attribute`` (or ``composite``) and ``rate``."""
    sources = open_all(files)
    log = ProblemLog([source.file.name for source in sources], [source.unit for source in sources])
    rates: dict[str, float] = {}
    rows = []
    for number, source in enumerate(sources):
        for column in ("attribute", "rate"):
            if column not in source.columns:
                log.add(source.file.name, missing_column(column, source.columns))
        log.stop_if_any()
        n_rows = 0
        for raw in raw_batches(source, number, ["attribute", "rate"], log):
            names = text_codes(raw.column("attribute"), "attribute", raw.place, log)
            values, valid = numbers(raw.column("rate"), "rate", raw.place, log)
            texts = [category_name(names.text(i)) for i in range(len(raw.place))]
            wrong = (values < 0) | (values > 1) | (False if valid is None else ~valid)
            wrong |= np.array([text not in (*attributes, "composite") for text in texts], bool)
            log.rows(
                raw.place,
                wrong,
                lambda i, t=texts, v=values: (  # type: ignore[misc]
                    f"{t[i]!r} with rate {v[i]:g}: a rate in [0, 1] of one of {', '.join(attributes)} is expected"
                ),
            )
            for text, value, place in zip(texts, values.tolist(), raw.place.tolist(), strict=True):
                if rates.setdefault(text, value) != value:
                    log.at(place, f"{quoted(text)} is reported twice, with different rates; keep one of the two")
            n_rows += len(raw.place)
        if not n_rows:
            log.add(source.file.name, "has a header but no rows")
        rows.append(n_rows)
    log.stop_if_any()
    return rates, references("reported", files, rows)


def judges_in(files: Sequence[InputFile]) -> tuple[set[str], set[str]]:
    """Read the distinct judges and fingerprints that score files name."""
    sources = open_all(files)
    log = ProblemLog([source.file.name for source in sources], [source.unit for source in sources])
    found: dict[str, set[str]] = {"judge": set(), "judge_fingerprint": set()}
    for number, source in enumerate(sources):
        columns = [name for name in found if name in source.columns]
        for raw in raw_batches(source, number, columns, log) if columns else ():
            for name in columns:
                found[name] |= set(text_codes(raw.column(name), name, raw.place, log).values) - {""}
    return found["judge"], found["judge_fingerprint"]


def rows_of(arguments: Sequence[str]) -> int | None:
    """Count the rows of Parquet inputs from their footers; None where a file does not say without being read."""
    files = find_inputs(arguments, reader_names())
    if any(file.reader != "table" or file.path.suffix != ".parquet" for file in files):
        return None
    return sum(int(pq.read_metadata(file.path).num_rows) for file in files)
