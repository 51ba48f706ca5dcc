"""From files to the tables that audits read: predictions by column, outputs by row; all that is wrong told at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from core.data.columns import Ints, RawBatch, is_text, numbers, trimmed
from core.data.problems import ProblemLog, nearest, quoted
from core.errors import InputError
from core.fairness.columns import coded, label_of, outcome
from core.fairness.outputs import GROUP_PREFIX, HARM_PREFIX, OutputsTable, outputs_table
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.spec import AuditSpec, ColumnNames
from core.records import FileReference
from tasks.readers import Source
from tasks.readers.embeddings import EmbeddedSource
from tasks.storage import InputFile
from tasks.tables import Progress, no_progress, open_all, raw_batches, references

OUTPUT_COLUMNS = (
    "id", "scenario_id", "axis", "variant", "replicate", "context", "is_refusal", "helpfulness", "token_count",
    "embedding",
)  # fmt: skip
"""Columns of a table of outputs, besides those with a prefix; others are not read at all."""

MAX_GROUPS = 1_000
"""Groups of a column."""

MAX_CELLS = 5_000
"""Occupied cells of all columns together."""

NEEDED_OUTPUT_COLUMNS = ("id", "scenario_id", "variant")

YAML_WORDS = "YAML reads a bare yes, no, on or off as true or false: put the word in quotes"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPredictions:
    """Predictions that were read.

    Attributes
    ----------
    table : pyarrow.Table
        Dictionary-coded labels, and ``score`` as numbers.
    inputs : list of FileReference
    """

    table: Any
    inputs: list[FileReference]


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedOutputs:
    """Outputs that were read.

    Attributes
    ----------
    table : OutputsTable
    inputs : list of FileReference
    """

    table: OutputsTable
    inputs: list[FileReference]


def load_predictions(
    files: Sequence[InputFile], spec: AuditSpec, progress: Progress = no_progress, *, role: str = "predictions"
) -> LoadedPredictions:
    """Read a table of predictions, only the columns that the audit needs, each label once.

    Text cells are trimmed; an empty cell (Parquet: null) is missing, and ``nan`` is a problem.

    Raises
    ------
    InputError
        All problems of all files: columns that are not there, outcomes with other values than declared, scores
        outside [0, 1], a reference that is no group.
    """
    sources = open_all(files)
    log = _log_of(sources)
    table, rows = _read(sources, _columns_of(sources, spec, log), spec.columns.score, log, progress)
    for message in (*_undeclared(spec, table), *_too_many(spec, table)):
        log.add(_name_of(files), message)
    log.stop_if_any()
    return LoadedPredictions(table=pa.table(table), inputs=references(role, files, rows))


def survey(files: Sequence[InputFile], progress: Progress = no_progress) -> tuple[dict[str, Any], int]:
    """Read all columns of a table of predictions, as far as that goes without a spec.

    Returns
    -------
    columns : dict of str to pyarrow array
        Dictionary-coded labels, and ``score`` as numbers.
    n_rows : int

    Raises
    ------
    InputError
        All problems of all files: no predictions, scores outside [0, 1], cells that cannot be read.
    """
    sources = open_all(files)
    log = _log_of(sources)
    usual = ColumnNames()
    for source in sources:
        if usual.y_pred not in source.columns:
            log.add(source.file.name, f"has no column {quoted(usual.y_pred)}; {nearest(usual.y_pred, source.columns)}")
    columns = list(dict.fromkeys(name for source in sources for name in source.columns))
    table, rows = _read(sources, columns, usual.score, log, progress)
    log.stop_if_any()
    return table, sum(rows)


def _read(
    sources: Sequence[Source], columns: Sequence[str], score: str, log: ProblemLog, progress: Progress
) -> tuple[dict[str, Any], list[int]]:
    """Read columns of all files; also return the rows of each."""
    labels = {name: _Labels(name=name) for name in columns if name != score}
    scores: list[Any] = []
    rows = []
    for number, source in enumerate(sources):
        n_rows = 0
        for raw in raw_batches(source, number, [name for name in columns if name in source.columns], log):
            n_rows += len(raw.place)
            progress(len(raw.place))
            for column in labels.values():
                column.add(raw, log)
            if score in columns:
                scores.append(_scores(raw, score, log))
        _refuse_empty(source, n_rows, log)
        rows.append(n_rows)
    table = {name: column.finish() for name, column in labels.items()}
    if scores:
        table[score] = pa.chunked_array(scores)
    return table, rows


def _log_of(sources: Sequence[Source]) -> ProblemLog:
    return ProblemLog([source.file.name for source in sources], [source.unit for source in sources])


def _name_of(files: Sequence[InputFile]) -> str:
    return files[0].name if len(files) == 1 else f"{files[0].name} and {len(files) - 1} more"


def _refuse_empty(source: Source, n_rows: int, log: ProblemLog) -> None:
    if not n_rows and not log:
        log.add(source.file.name, "has a header but no rows")


def _columns_of(sources: Sequence[Source], spec: AuditSpec, log: ProblemLog) -> list[str]:
    """Return the columns to read, and note those that a file lacks: needed ones, and those that other files have."""
    optional = (spec.columns.y_true, spec.columns.score, spec.columns.cluster)
    anywhere = {name for source in sources for name in source.columns}
    asked = _asked_for(spec)
    needed = [*spec.groups, spec.columns.y_pred, *(name for name in optional if name in anywhere or name in asked)]
    for source in sources:
        for name in needed:
            if name not in source.columns:
                where = f"has no column {quoted(name)}" + (", which other files have" if name in anywhere else "")
                log.add(source.file.name, f"{where}; {nearest(name, source.columns)}")
    return [name for name in needed if name in anywhere]


def _asked_for(spec: AuditSpec) -> set[str]:
    """Names of optional columns that the spec names itself: where they are absent, that is no choice."""
    usual = ColumnNames()
    return {name for name, default in zip(spec.columns.all, usual.all, strict=True) if name != default}


@dataclass(slots=True, kw_only=True)
class _Labels:
    """A column of labels as codes into the labels of all files, whatever type each file has them in."""

    name: str
    place: dict[str, int] = field(default_factory=dict)
    chunks: list[Any] = field(default_factory=list)

    def add(self, raw: RawBatch, log: ProblemLog) -> None:
        """Add some rows; a file without the column has it missing, which is a problem by then."""
        array = raw.column(self.name)
        if array is None:
            array = pa.nulls(len(raw.place), pa.string())
        try:
            found = coded(trimmed(array) if is_text(array) else array, self.name)
        except InputError as error:
            log.at(int(raw.place[0]), f"column {quoted(self.name)}: {error.problems[0].message}")
            return
        _refuse_nan(array, found.labels, self.name, raw.place, log)
        new = [self.place.setdefault(label, len(self.place)) for label in found.labels]
        self.chunks.append(np.array([*new, -1], np.int32)[found.codes])

    def finish(self) -> Any:
        """Return the whole column."""
        codes = np.concatenate(self.chunks) if self.chunks else np.zeros(0, np.int32)
        indices = pa.array(codes, mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(list(self.place), pa.string()))


def _refuse_nan(array: Any, labels: Iterable[str], name: str, place: Ints, log: ProblemLog) -> None:
    if pa.types.is_floating(array.type):
        bad = pc.fill_null(pc.is_nan(array), False)
    elif any(label.lower() == "nan" for label in labels):
        bad = pc.fill_null(pc.equal(pc.utf8_lower(trimmed(array)), "nan"), False)
    else:
        return
    log.rows(place, bad.to_numpy(zero_copy_only=False), lambda _: f"{name} is NaN; an empty cell means missing")


def _scores(raw: RawBatch, name: str, log: ProblemLog) -> Any:
    array = raw.column(name)
    if array is None:
        return pa.nulls(len(raw.place), pa.float64())
    values, valid = numbers(array, name, raw.place, log)
    outside = np.isfinite(values) & ~((values >= 0.0) & (values <= 1.0)) & (True if valid is None else valid)
    log.rows(raw.place, outside, lambda i: f"{name} {values[i]:g} is outside [0, 1]; a probability is expected")
    return pa.array(values, pa.float64(), mask=None if valid is None else ~valid)


def _undeclared(spec: AuditSpec, table: dict[str, Any]) -> Iterator[str]:
    """Name what is declared otherwise than it stands in the table."""
    for name, positive in ((spec.columns.y_pred, spec.positive.y_pred), (spec.columns.y_true, spec.positive.truth)):
        if name not in table:
            continue
        try:
            outcome(table[name], name, positive)
        except InputError as error:
            hint = f" ({YAML_WORDS})" if isinstance(positive, bool) else ""
            yield f"column {quoted(name)}: {error.problems[0].message}{hint}"
    for name, group in ({} if isinstance(spec.reference, str) else spec.reference).items():
        label = label_of(group)
        if name in table and label not in (known := sorted(table[name].dictionary.to_pylist())):
            yield f"reference {quoted(label)} is no group of column {quoted(name)}; {nearest(label, known)}"


def _too_many(spec: AuditSpec, table: dict[str, Any]) -> Iterator[str]:
    """Name columns that are ids rather than attributes: a record of thousands of groups helps nobody."""
    read = [name for name in spec.groups if name in table]
    sizes = {name: len(table[name].dictionary) for name in read}
    for name, size in sizes.items():
        if size > MAX_GROUPS:
            yield f"column {quoted(name)} has {size} different values, of at most {MAX_GROUPS} groups; is it an id?"
    if not spec.intersections or len(read) < 2 or max(sizes.values()) > MAX_GROUPS:
        return
    cells = np.zeros(len(table[read[0]]), np.int64)
    for name in read:
        codes = pc.fill_null(table[name].indices, sizes[name]).to_numpy(zero_copy_only=False)
        cells = np.unique(cells * (sizes[name] + 1) + codes, return_inverse=True)[1]
    if (found := int(cells.max(initial=0)) + 1) > MAX_CELLS:
        told = "name fewer columns, or set intersections: false"
        yield f"groups {', '.join(read)} make {found} cells together, of at most {MAX_CELLS}; {told}"


def load_outputs(
    files: Sequence[InputFile], spec: OutputsSpec, progress: Progress = no_progress, *, role: str = "outputs"
) -> LoadedOutputs:
    """Read a table of outputs, only the columns that a metric reads.

    Raises
    ------
    InputError
        All problems of all files; see `core.fairness.outputs.outputs_table`.
    """
    sources = open_all(files)
    log = _log_of(sources)
    for source in sources:
        for name in NEEDED_OUTPUT_COLUMNS:
            if name not in source.columns:
                log.add(source.file.name, f"has no column {quoted(name)}; {nearest(name, source.columns)}")
    log.stop_if_any()
    batches: list[Any] = []
    places: list[Ints] = [np.zeros(0, np.int64)]
    rows = []
    for number, source in enumerate(sources):
        n_rows = 0
        for raw in raw_batches(source, number, [name for name in source.columns if _is_read(name)], log):
            n_rows += len(raw.place)
            progress(len(raw.place))
            batches.append(pa.Table.from_batches([raw.table]))
            places.append(raw.place)
        _refuse_empty(source, n_rows, log)
        rows.append(n_rows)
    log.stop_if_any()
    table = outputs_table(
        _joined(batches, sources, log),
        harm_categories=list(spec.harm_weights),
        source=sources[0].file.name,
        log=log,
        place=np.concatenate(places),
    )
    log.stop_if_any()
    ignored = sorted({name for source in sources for name in source.columns if not _is_read(name)})
    models = dict.fromkeys(source.model for source in sources if isinstance(source, EmbeddedSource) and source.model)
    return LoadedOutputs(table=replace(table, ignored=tuple(ignored)), inputs=[*references(role, files, rows), *models])


def _is_read(name: str) -> bool:
    return name in OUTPUT_COLUMNS or name.startswith((GROUP_PREFIX, HARM_PREFIX))


def _joined(batches: Sequence[Any], sources: Sequence[Source], log: ProblemLog) -> Any:
    """Put the rows of all files into one table; a column that one of them lacks is missing there."""
    columns = {}
    for name in dict.fromkeys(name for batch in batches for name in batch.column_names):
        parts = [batch.column(name) if name in batch.column_names else None for batch in batches]
        kinds = {_kind_of(part.type) for part in parts if part is not None}
        try:
            kind = pa.string() if pa.string() in kinds else _common(kinds)
            chunks = [
                pa.nulls(len(batch), kind) if part is None else part.combine_chunks().cast(kind)
                for part, batch in zip(parts, batches, strict=True)
            ]
        except pa.ArrowException:
            told = ", ".join(sorted(map(str, kinds)))
            log.add(sources[0].file.name, f"column {quoted(name)} is of types that do not go together: {told}")
            continue
        columns[name] = pa.chunked_array(chunks, kind)
    log.stop_if_any()
    return pa.table(columns)


def _kind_of(kind: Any) -> Any:
    """Return a column's type without its encoding."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return pa.string() if is_text(pa.nulls(0, kind)) else kind


def _common(kinds: set[Any]) -> Any:
    """Return the one type that all values of several types fit into."""
    fields = [pa.schema([pa.field("column", kind)]) for kind in kinds]
    return pa.unify_schemas(fields, promote_options="permissive").field("column").type
