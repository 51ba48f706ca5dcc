"""Columns as found in a file, turned into typed arrays; whatever does not fit goes to the problem log.

Text files deliver every column as strings with empty cells as null; Parquet delivers typed columns. Both go through
the same functions, so that a rule (empty is missing, `nan` is an error) is written once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from core.data.problems import ProblemLog, quoted

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

EXACT_IN_FLOATS = 2**53
"""From here on a float no longer tells neighbouring integers apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RawBatch:
    """Some rows of one file.

    Attributes
    ----------
    table : pyarrow.RecordBatch
        The columns as found.
    place : int64 array of shape (n_rows,)
        File number and physical line of each row (see `problems.FILE_SHIFT`).
    """

    table: Any
    place: Ints

    def column(self, name: str) -> Any:
        """Return a column by name, or None."""
        index = self.table.schema.get_field_index(name)
        return self.table.column(index) if index >= 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Codes:
    """A text column as integer codes into its distinct values; -1 stands for an empty cell."""

    codes: npt.NDArray[Any]
    values: list[str]

    def text(self, index: int) -> str:
        """Return the text of one row ('' when empty)."""
        code = int(self.codes[index])
        return self.values[code] if code >= 0 else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segments:
    """A text column as runs of equal neighbours: the first row of each run and its text ('' when empty)."""

    starts: Ints
    texts: list[str]


def shown(value: float) -> str:
    """Show a number with all the digits that tell it from its neighbours.

    Examples
    --------
    >>> shown(87.0), shown(1.0000000001)
    ('87', '1.0000000001')
    """
    return repr(float(value)).removesuffix(".0")


def is_text(array: Any) -> bool:
    """Tell whether an Arrow array holds strings (plain, large, view or dictionary of them)."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def text_codes(array: Any, name: str, place: Ints, log: ProblemLog) -> Codes:
    """Read a column of names or ids; integers are kept as their text, other kinds are a problem."""
    kind = array.type.value_type if pa.types.is_dictionary(array.type) else array.type
    if not (pa.types.is_integer(kind) or pa.types.is_null(kind) or is_text(array)):
        log.rows(
            place[:1],
            np.ones(min(1, len(place)), bool),
            lambda _: f"column '{name}' is of type {kind}; text or integers are expected",
        )
        # Any text does from here on: the log stops the run, and empty ids would only bring more problems.
        array = pa.array(map(str, range(len(array))), pa.string())
    encoded = array if pa.types.is_dictionary(array.type) else pc.dictionary_encode(array)
    values = encoded.dictionary.cast(pa.string())
    indices = encoded.indices
    codes = (pc.fill_null(indices, -1) if indices.null_count else indices).to_numpy(zero_copy_only=False)
    texts = [("" if text is None else text.strip()) for text in values.to_pylist()]
    if any(not text for text in texts):
        empty = np.array([not text for text in texts] + [True])
        codes = np.where(empty[codes], -1, codes)
    if len(set(texts)) < len(texts):
        first = {text: i for i, text in reversed(list(enumerate(texts)))}
        merged = np.array([first[text] for text in texts] + [-1])
        codes = merged[codes]
    return Codes(codes=codes, values=texts)


def segments_of(array: Any, name: str, place: Ints, log: ProblemLog) -> Segments:
    """Read a column of ids as runs.

    Only the runs' first rows are turned into text, so that a long table costs little more than its codes.
    """
    if len(array) == 0:
        return Segments(starts=np.zeros(0, np.int64), texts=[])
    dictionary = pa.types.is_dictionary(array.type)
    if not dictionary and is_text(array):
        array, dictionary = pc.dictionary_encode(array), True
    keys = array.indices if dictionary else array
    if not (pa.types.is_integer(keys.type) and (not dictionary or is_text(array))):
        return _runs(text_codes(array, name, place, log))
    texts = array.dictionary if dictionary else None
    codes = (pc.fill_null(keys, -1) if keys.null_count else keys).to_numpy(zero_copy_only=False)
    starts = np.flatnonzero(np.r_[True, codes[1:] != codes[:-1]])
    first = keys.take(pa.array(starts))
    found = (texts.take(first) if texts is not None else first.cast(pa.string())).to_pylist()
    return Segments(starts=starts, texts=[(text or "").strip() for text in found])


def _runs(codes: Codes) -> Segments:
    starts = np.flatnonzero(np.r_[True, codes.codes[1:] != codes.codes[:-1]])
    return Segments(starts=starts, texts=[codes.text(int(i)) for i in starts])


def trimmed(array: Any) -> Any:
    """Strip white space from a text column and read empty cells as null."""
    text = pc.utf8_trim_whitespace(pc.cast(array, pa.string()))
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def numbers(array: Any, name: str, place: Ints, log: ProblemLog) -> tuple[Floats, Bools | None]:
    """Read a numeric column.

    Returns
    -------
    values : float64 array
        Undefined where not valid.
    valid : bool array or None
        None when no cell is empty.
    """
    if is_text(array):
        array = _parsed(trimmed(array), name, place, log)
    elif not (
        pa.types.is_integer(array.type)
        or pa.types.is_floating(array.type)
        or pa.types.is_boolean(array.type)
        or pa.types.is_null(array.type)
        or pa.types.is_decimal(array.type)
    ):
        log.rows(
            place[:1],
            np.ones(min(1, len(place)), bool),
            lambda _: f"column '{name}' is of type {array.type}; numbers are expected",
        )
        array = pa.nulls(len(array), pa.float64())
    valid = array.is_valid().to_numpy(zero_copy_only=False) if array.null_count else None
    if array.null_count:
        array = pc.fill_null(pc.cast(array, pa.float64(), safe=False), 0.0)
    values: Floats = pc.cast(array, pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    finite = np.isfinite(values)
    if not finite.all():
        log.rows(
            place,
            ~finite,
            lambda i: f"{name} is {values[i]}; an empty cell means missing, NaN and infinity are not scores",
        )
    return values, valid


def _parsed(text: Any, name: str, place: Ints, log: ProblemLog) -> Any:
    try:
        return pc.cast(text, pa.float64())
    except pa.ArrowInvalid:
        parsed = [_number(item) for item in text.to_pylist()]
        bad = np.array([item is _NOT_A_NUMBER for item in parsed])
        items = text.to_pylist()
        log.rows(place, bad, lambda i: f"{name} {quoted(items[i])} is not a number")
        # Zero rather than empty: one problem a cell is enough.
        return pa.array([0.0 if item is _NOT_A_NUMBER else item for item in parsed], pa.float64())


_NOT_A_NUMBER = object()


def _number(text: str | None) -> Any:
    if text is None:
        return None
    try:
        return pc.cast(pa.scalar(text), pa.float64()).as_py()
    except pa.ArrowInvalid:
        return _NOT_A_NUMBER


def whole_numbers(array: Any, name: str, place: Ints, log: ProblemLog) -> Ints:
    """Read a column of counts (turn, attempt): integers from 0, exact to the last of 63 bits, no empty cell."""
    exact = _integers(array)
    if exact is not None:
        empty = exact.is_null().to_numpy(zero_copy_only=False)
        whole: Ints = pc.fill_null(exact, 0).to_numpy(zero_copy_only=False)
    else:
        values, valid = numbers(array, name, place, log)
        values = np.where(np.isfinite(values), values, 0.0)
        empty = np.zeros(len(values), bool) if valid is None else ~valid
        large = np.abs(values) >= EXACT_IN_FLOATS
        log.rows(place, large, lambda i: f"{name} {_cell(array, i)} is too large")
        fractional = values != np.floor(values)
        log.rows(place, fractional, lambda i: f"{name} {_cell(array, i)} is not a whole number")
        whole = np.where(large | fractional, 0, values).astype(np.int64)
    log.rows(place, empty, lambda _: f"{name} is empty; a whole number from 0 is expected")
    if len(whole) and whole.min() < 0:
        log.rows(place, whole < 0, lambda i: f"{name} {whole[i]} is negative; {name}s are counted from 0")
        whole = np.maximum(whole, 0)
    return whole


def _integers(array: Any) -> Any:
    """Read a column of whole numbers without passing through floats; None where a cell is something else."""
    if is_text(array):
        array = trimmed(array)
        if pc.any(pc.match_substring(array, "x", ignore_case=True)).as_py():  # Arrow takes 0x10 for 16
            return None
    elif not pa.types.is_integer(array.type):
        return None
    try:
        return pc.cast(array, pa.int64())
    except pa.ArrowInvalid:
        return None


def _cell(array: Any, index: int) -> str:
    """Show a number as it stands in the file."""
    return str(array[index].as_py()).strip()[:40]
