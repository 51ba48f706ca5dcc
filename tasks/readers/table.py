"""Reader ``table``: Parquet, CSV, TSV and JSON Lines (the text formats also gzipped).

Text formats are streamed in pure Python, since only that keeps true line numbers when a quoted cell holds line
breaks; Parquet streams through pyarrow. Memory is bounded by the batch, whatever the file.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import itertools
import json
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.data.columns import is_text
from core.data.facts import SourceFacts
from core.data.problems import counted, quoted
from core.errors import AssayError, InputError, Problem
from core.records import build, canonical
from tasks.storage import SUFFIXES, InputFile, format_of

BATCH_ROWS = 65_536
READ_AHEAD = 2**20  # bytes a column; without it pyarrow takes in a row group's whole columns at once
TEXT_BATCH_ROWS = 32_768
MAX_LINE = 16 * 2**20
HEAD = 256
"""How much of a line is enough to know what it is."""

PANDAS_INDEX = "__index_level_"
"""Columns that pandas adds for itself."""

LIST_COLUMNS = frozenset({"embedding"})
"""Columns whose cells may be lists; text formats hand them out as JSON."""

FACTS = b"assay.source"
"""Key of a Parquet file's metadata under which `assay read` keeps how it read."""

KEPT_PROBLEMS = 200

_DAMAGE = (EOFError, OSError, zlib.error)
"""What reading a damaged gzip file may raise."""

Lines = npt.NDArray[np.int64]


def open_table(file: InputFile) -> ParquetSource | CsvSource | JsonLinesSource:
    """Open a table by the format that its name says."""
    kind = format_of(file.path)
    if kind == ".parquet":
        return ParquetSource(file)
    if kind in (".csv", ".tsv"):
        return CsvSource(file, delimiter="," if kind == ".csv" else "\t")
    if kind in (".jsonl", ".ndjson"):
        return JsonLinesSource(file)
    raise InputError.of(file.name, f"unknown extension; a table is one of {', '.join(SUFFIXES)} (text also .gz)")


class ParquetSource:
    """A Parquet file.

    Attributes
    ----------
    groups : range or None
        The row groups that are read; None for all.
    """

    unit = "row"
    kind: str | None = None
    groups: range | None = None

    def __init__(self, file: InputFile) -> None:
        import pyarrow.parquet as pq

        self.file = file
        try:
            footer = pq.read_metadata(file.path)
            self._schema = footer.schema.to_arrow_schema()
        except (pa.ArrowException, OSError) as error:
            raise InputError.of(file.name, f"is not Parquet, as its extension says: {_first_line(error)}") from None
        self.facts = facts_in(footer.metadata or {}, file)
        names = _distinct(self._schema.names, file)
        self.columns = tuple(name for name in names if not name.startswith(PANDAS_INDEX))

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, Lines]]:
        """Yield batches; ids come as dictionaries where the file stores them so."""
        import pyarrow.parquet as pq

        types = {name: self._schema.field(name).type for name in columns}
        if nested := [name for name, kind in types.items() if pa.types.is_nested(kind) and name not in LIST_COLUMNS]:
            raise InputError(
                Problem(
                    source=self.file.name,
                    message=f"column {quoted(name)} is of type {types[name]}; plain values are expected",
                )
                for name in nested
            )
        texts = [name for name in columns if is_text(pa.nulls(0, types[name]))]
        encoded = [name for name in texts if name != "text"]
        row = 1
        try:
            with pq.ParquetFile(
                self.file.path, read_dictionary=encoded, pre_buffer=False, buffer_size=READ_AHEAD
            ) as parquet:
                groups = self.groups or range(parquet.num_row_groups)
                row += sum(parquet.metadata.row_group(number).num_rows for number in range(groups.start))
                for batch in parquet.iter_batches(BATCH_ROWS, list(groups), columns=list(columns), use_threads=False):
                    for name in texts:
                        batch.column(name).validate(full=True)  # Parquet may call anything text
                    yield batch, np.arange(row, row + len(batch), dtype=np.int64)
                    row += len(batch)
        except (pa.ArrowException, OSError) as error:
            raise InputError.of(self.file.name, f"is damaged after row {row - 1}: {_first_line(error)}") from None


def facts_metadata(facts: SourceFacts) -> dict[bytes, bytes]:
    """Write how a table was read from another tool's file, as metadata of a Parquet file."""
    return {FACTS: canonical(facts).encode()}


def facts_in(metadata: Mapping[bytes, bytes], file: InputFile) -> SourceFacts | None:
    """Read what `facts_metadata` wrote."""
    written = metadata.get(FACTS)
    if written is None:
        return None
    try:
        return build(SourceFacts, json.loads(written[:MAX_LINE]))
    except (ValueError, RecursionError, AssayError) as error:
        raise InputError.of(file.name, f"what it says of its source cannot be read: {_first_line(error)}") from None


class _TextFile:
    """What all text formats share: unpacking, decoding, and problems that are told together."""

    def __init__(self, file: InputFile) -> None:
        self.file = file

    def _undecodable_line(self) -> int:
        """Find the first line that is not UTF-8; only asked once there is one."""
        with self._open() as text, contextlib.suppress(*_DAMAGE):
            text.reconfigure(errors="surrogateescape")  # type: ignore[attr-defined]
            for number, line in enumerate(iter(lambda: text.readline(MAX_LINE), ""), start=1):
                if any("\udc80" <= character <= "\udcff" for character in line):
                    return number
        return 0

    def _open(self) -> IO[str]:
        with self.file.path.open("rb") as head:
            magic = head.read(4)
        zipped = magic[:2] == b"\x1f\x8b"
        binary = not zipped and (magic == b"PAR1" or b"\0" in magic)
        if binary or zipped is not self.file.path.name.lower().endswith(".gz"):
            raise InputError.of(self.file.name, "its content is not the format that its extension says")
        raw = gzip.open(self.file.path, "rb") if zipped else self.file.path.open("rb")  # noqa: SIM115 (the wrapper closes it)
        return io.TextIOWrapper(raw, encoding="utf-8-sig", newline="")

    def _decoded(self, rows: Iterator[Any]) -> Iterator[Any]:
        try:
            yield from rows
        except UnicodeDecodeError as error:
            what = f"is not UTF-8 text (byte {error.object[error.start]:#04x}); save it as UTF-8"
            raise InputError.of(self.file.name, what, line=self._undecodable_line()) from None
        except _DAMAGE as error:
            raise InputError.of(self.file.name, f"is damaged: {_first_line(error)}") from None

    def _problem(self, problems: list[Problem], line: int, message: str) -> None:
        problems.append(Problem(source=self.file.name, line=line, message=message))
        if len(problems) >= KEPT_PROBLEMS:
            raise InputError(problems)


class _TextSource(_TextFile, ABC):
    """What CSV and JSON Lines share as tables: bounded batches of text cells."""

    unit = "line"
    kind: str | None = None
    facts: SourceFacts | None = None

    @abstractmethod
    def _rows(self, columns: Sequence[str], problems: list[Problem]) -> Iterator[tuple[int, list[str | None]]]:
        """Yield (physical line, cells of the columns); rows that cannot be read become problems."""

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, Lines]]:
        """Yield batches of text cells; rows that cannot be read are told all together at the end."""
        problems: list[Problem] = []
        rows = self._decoded(self._rows(columns, problems))
        while chunk := list(itertools.islice(rows, TEXT_BATCH_ROWS)):
            cells = list(zip(*(row for _, row in chunk), strict=True)) or [()] * len(columns)
            arrays = [pa.array(column, pa.string()) for column in cells]
            batch = pa.RecordBatch.from_arrays(arrays, names=list(columns))
            yield batch, np.array([line for line, _ in chunk], np.int64)
        if problems:
            raise InputError(problems)


class CsvSource(_TextSource):
    """A CSV or TSV file with a header."""

    def __init__(self, file: InputFile, *, delimiter: str) -> None:
        super().__init__(file)
        self._delimiter = delimiter
        with self._open() as text:
            header = next(self._decoded(self._parsed(text)), None)
        if header is None:
            raise InputError.of(file.name, "holds nothing but empty lines; a header and rows are expected")
        self._header = _distinct([cell.strip() for cell in header[1]], file)
        self.columns = tuple(name for name in self._header if name)  # an index column has no name

    def _parsed(self, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
        """Yield each row with the physical line on which it starts."""
        csv.field_size_limit(MAX_LINE)
        reader = csv.reader(_limited(text), delimiter=self._delimiter, strict=True)
        start = 1
        try:
            for row in reader:
                if row:
                    yield start, row
                start = reader.line_num + 1
        except _BadLineError as error:
            raise InputError.of(self.file.name, str(error), line=reader.line_num + 1) from None
        except csv.Error as error:
            raise InputError.of(self.file.name, f"is not CSV: {error}; is a quote left open?", line=start) from None

    def _rows(self, columns: Sequence[str], problems: list[Problem]) -> Iterator[tuple[int, list[str | None]]]:
        wanted = [self._header.index(name) for name in columns]
        width = len(self._header)
        with self._open() as text:
            for line, row in itertools.islice(self._parsed(text), 1, None):
                if len(row) != width:
                    found, expected = counted(len(row), "cell"), counted(width, "column")
                    self._problem(problems, line, f"{found} where the header has {expected}")
                    continue
                yield line, [row[index] or None for index in wanted]


class JsonLinesFile(_TextFile):
    """A file with one JSON object a line, read from its beginning each time.

    Parameters
    ----------
    file : InputFile
    """

    def objects(
        self, problems: list[Problem], *, passes_over: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield (physical line, object); lines that cannot be read become problems.

        A line for whose first `HEAD` characters `passes_over` is true is skipped unread, however long it is.
        """
        return self._decoded(self._objects(problems, passes_over))

    def _objects(
        self, problems: list[Problem], passes_over: Callable[[str], bool] | None = None
    ) -> Iterator[tuple[int, dict[str, Any]]]:
        with self._open() as text:
            lines = _limited(text, passes_over)
            for line in itertools.count(1):
                try:
                    content = next(lines, None)
                except _BadLineError as error:
                    raise InputError.of(self.file.name, str(error), line=line) from None
                if content is None:
                    return
                if not content.strip():
                    continue
                if content.lstrip().startswith("["):
                    what = "is a JSON array; one JSON object a line is expected"
                    raise InputError.of(self.file.name, what, line=line)
                try:
                    item = _JSON.decode(content)
                    _refuse_half_characters(content, item)
                except (ValueError, RecursionError) as error:
                    self._problem(problems, line, f"is not JSON: {_first_line(error)}")
                    continue
                if not isinstance(item, dict):
                    self._problem(problems, line, "one JSON object a line is expected")
                    continue
                yield line, item


class JsonLinesSource(JsonLinesFile, _TextSource):
    """A table with one JSON object a line."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        keys: dict[str, None] = {}
        problems: list[Problem] = []
        for _, item in self.objects(problems):
            keys.update(dict.fromkeys(item))
        if problems:
            raise InputError(problems)
        if not keys:
            raise InputError.of(file.name, "holds no rows; one JSON object a line is expected")
        self.columns = tuple(keys)

    def _rows(self, columns: Sequence[str], problems: list[Problem]) -> Iterator[tuple[int, list[str | None]]]:
        for line, item in self._objects(problems):
            nested = [name for name in columns if _is_nested(name, item.get(name))]
            if nested:
                self._problem(problems, line, f"{nested[0]!r} holds a list or object; a plain value is expected")
                continue
            yield line, [_cell(item.get(name)) for name in columns]


class _BadLineError(Exception):
    """A line that no table has."""


def _limited(text: IO[str], passes_over: Callable[[str], bool] | None = None) -> Iterator[str]:
    """Yield lines, but none that would fill the memory or that only binary data hold; "" for one passed over."""
    while line := text.readline(MAX_LINE):
        if passes_over is not None and passes_over(line[:HEAD]):
            while line and not line.endswith(("\n", "\r")):
                line = text.readline(MAX_LINE)
            yield ""
            continue
        if len(line) >= MAX_LINE and not line.endswith(("\n", "\r")):
            raise _BadLineError(f"a line of over {MAX_LINE} characters")
        if "\0" in line:
            raise _BadLineError("holds a NUL byte, which text does not have; is the file damaged?")
        yield line


def _distinct(names: Sequence[str], file: InputFile) -> Sequence[str]:
    """Return a header's names, none of which (but the empty one) may stand twice."""
    repeated = sorted({name for name in names if name and names.count(name) > 1})
    if repeated:
        raise InputError.of(file.name, f"columns that stand twice: {', '.join(map(quoted, repeated))}", line=1)
    return names


def _refuse_half_characters(content: str, item: Any) -> None:
    """JSON can write half a character; no other format and no digest can hold one."""
    if "\\u" not in content:
        return
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("holds half a character (a lone surrogate)") from None


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) < len(pairs):
        raise ValueError("a key stands twice")
    return item


_JSON = json.JSONDecoder(object_pairs_hook=_distinct_keys, parse_constant=str)
"""Made once: `json.loads` makes one a line."""


def _is_nested(name: str, value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and name not in LIST_COLUMNS)


def _cell(value: Any) -> str | None:
    if value is None or value == "":
        return None
    if isinstance(value, list):
        return json.dumps(value)
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else repr(value)


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
