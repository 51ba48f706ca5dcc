"""``assay read``: any source, with columns renamed and values brought to assay's scale, as a Parquet table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from core.data.columns import Ints, RawBatch, is_text, numbers, shown, trimmed, whole_numbers
from core.data.facts import SourceFacts
from core.data.golden_reader import golden_layout
from core.data.problems import ProblemLog, quoted
from core.data.scores import NAME_COLUMN, VALUE_COLUMN, layout_of
from core.data.vocabulary import GOLDEN_COLUMNS, SCORE_COLUMNS
from core.errors import InputError
from tasks.readers import Source
from tasks.readers.table import facts_metadata
from tasks.tables import raw_batches

Kind = Literal["scores", "golden", "detections"]
VALUES = {**VALUE_COLUMN, "golden": "label"}
NAMES = {**NAME_COLUMN, "golden": "category"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversion:
    """How a source is to be read.

    Attributes
    ----------
    kind : {'scores', 'golden', 'detections'}
    category : str or None
        The category (or attribute) of all rows, for files that have no such column.
    renamed : mapping of str to str
        Column name in the file -> name here.
    scale : (float, float) or None
        The judge's scale; brought to [0, 1].
    higher_is : {'worse', 'better'}
        ``better`` turns scores around.
    positive : str or None
        The value of a label or decision that counts as 1; every other value is 0, an empty cell stays empty.
    """

    kind: Kind
    category: str | None = None
    renamed: dict[str, str] = field(default_factory=dict)
    scale: tuple[float, float] | None = None
    higher_is: Literal["worse", "better"] = "worse"
    positive: str | None = None


class MappedSource:
    """A source under other column names, with a constant category where one was given."""

    def __init__(self, source: Source, conversion: Conversion) -> None:
        self._source, self._conversion = source, conversion
        self.file, self.unit, self.kind = source.file, source.unit, source.kind
        absent = [name for name in conversion.renamed if name not in source.columns]
        if absent:
            columns = ", ".join(map(quoted, source.columns[:12]))
            raise InputError.of(self.file.name, f"--map names column {quoted(absent[0])}; columns here: {columns}")
        self._original = {conversion.renamed.get(name, name): name for name in source.columns}
        if len(self._original) < len(source.columns):
            raise InputError.of(self.file.name, "--map gives two columns one name")
        self._constant = NAMES[conversion.kind] if conversion.category is not None else None
        if self._constant in self._original:
            raise InputError.of(self.file.name, f"has a column {self._constant!r} already; leave out --category")
        self.columns = (*self._original, *([self._constant] if self._constant else []))

    @property
    def facts(self) -> SourceFacts | None:
        """Those of the source."""
        return self._source.facts

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, Ints]]:
        """Yield batches under the new names."""
        taken = [self._original[name] for name in columns if name in self._original]
        for batch, lines in self._source.batches(taken):
            arrays = {name: batch.column(self._original[name]) for name in columns if name in self._original}
            if self._constant in columns:
                arrays[str(self._constant)] = pa.array([self._conversion.category] * len(lines), pa.string())
            yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], names=list(columns)), lines


def convert(source: Source, conversion: Conversion, path: Path) -> int:
    """Write a source as a Parquet table; returns the number of rows.

    Raises
    ------
    InputError
        What does not fit, with line and field, all at once.
    """
    mapped = MappedSource(source, conversion)
    if source.kind is not None and source.kind != conversion.kind:
        raise InputError.of(source.file.name, f"its reader gives a table of kind {source.kind}, not {conversion.kind}")
    log = ProblemLog([source.file.name], [source.unit])
    values, kept = _columns(mapped, conversion, log)
    log.stop_if_any()
    writer, rows, seen = None, 0, False
    try:
        for raw in raw_batches(mapped, 0, kept, log):
            table, matched = _converted(raw, values, kept, conversion, log)
            rows, seen = rows + len(raw.place), seen or matched
            writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
            writer.write_table(table)
        if writer is not None and (facts := source.facts) is not None:
            writer.add_key_value_metadata(facts_metadata(facts))
    finally:
        if writer is not None:
            writer.close()
    if not rows and not log:
        log.add(source.file.name, "has a header but no rows")
    if conversion.positive is not None and rows and not seen:
        log.add(source.file.name, f"no value is {quoted(conversion.positive)}, which --positive names")
    log.stop_if_any()
    return rows


def _columns(source: MappedSource, conversion: Conversion, log: ProblemLog) -> tuple[set[str], list[str]]:
    """Return the value columns and all columns to keep."""
    name, value = NAMES[conversion.kind], VALUES[conversion.kind]
    if conversion.kind == "golden":
        first = next(raw_batches(source, 0, source.columns, log), None)
        labels = golden_layout(source.columns, first, source.file.name, log, categories=None, slices=())
        values = set() if labels is None else {value} if labels.long else set(labels.categories)
        return values, [column for column in source.columns if column != "rationale"]
    layout = layout_of(source.columns, conversion.kind, source.file.name, log)
    if layout is None:
        return set(), []
    extra = [column for column in ("text", "rationale") if column in source.columns]
    values = {value} if layout.long else set(layout.columns) - SCORE_COLUMNS - {name}
    return values, [*layout.columns, *extra]


def _converted(
    raw: RawBatch, values: set[str], kept: Sequence[str], conversion: Conversion, log: ProblemLog
) -> tuple[Any, bool]:
    columns, matched = {}, False
    for name in kept:
        array = raw.column(name)
        if name in values:
            columns[name], hit = _value(array, name, raw.place, conversion, log)
            matched = matched or hit
        elif name in ("turn", "attempt"):
            columns[name] = pa.array(whole_numbers(array, name, raw.place, log), pa.int64())
        else:
            columns[name] = (
                trimmed(array)
                if name in SCORE_COLUMNS | GOLDEN_COLUMNS and name != "text"
                else pc.cast(array, pa.string())
            )
    return pa.table(columns), matched


def _value(array: Any, name: str, place: Ints, conversion: Conversion, log: ProblemLog) -> tuple[Any, bool]:
    if conversion.positive is not None:
        texts = trimmed(array) if is_text(array) else pc.cast(array, pa.string())
        hits = pc.equal(texts, conversion.positive)
        return pc.cast(hits, pa.int8()), bool(pc.any(hits).as_py())
    numeric, valid = numbers(array, name, place, log)
    known = np.ones(len(numeric), bool) if valid is None else valid
    low, high = conversion.scale or (0.0, 1.0)
    outside = known & ((numeric < low) | (numeric > high))
    log.rows(place, outside, lambda i: f"{name} {shown(numeric[i])} is outside [{low:g}, {high:g}]; see --scale LO,HI")
    scaled = (numeric - low) / (high - low) if conversion.scale else numeric
    if conversion.kind == "scores":
        turned = 1.0 - scaled if conversion.higher_is == "better" else scaled
        return pa.array(turned, pa.float64(), mask=~known), False
    wrong = known & ~outside & (scaled != 0) & (scaled != 1)
    log.rows(
        place,
        wrong,
        lambda i: f"{name} {shown(numeric[i])} is neither 0 nor 1; --positive VALUE names what counts as 1",
    )
    return pa.array(np.where(known & ~wrong & ~outside, scaled, 0), mask=~known).cast(pa.int8()), False
