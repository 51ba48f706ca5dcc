"""Columns of any origin as codes, numbers, or declared positives: lists, numpy, pandas and pyarrow (SPEC 15.1).

A missing value stays a missing value: None, NaN, NaT, NA and null alike, in columns of every type.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.data.problems import quoted
from core.errors import InputError, UndefinedError

SHOWN_VALUES = 5

SMALL_RANGE = 65_536
"""Largest less smallest integer under which a column is coded by counting."""

NEGATIVE, POSITIVE, MISSING = 0, 1, 2
"""Codes of a declared outcome."""

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coded:
    """A column as integer codes.

    Attributes
    ----------
    codes : ndarray of int, shape (rows,)
        Place of the row's label in `labels`; -1 where the value is missing.
    labels : tuple of str
        Numbers ascending, else by text; those that a categorical column declares and no row has are kept.
    """

    codes: Codes
    labels: tuple[str, ...]


def label_of(value: Any) -> str:
    """Write a value as the label that it has in every column: 1, 1.0 and "1" are one label, True is ``true``.

    Examples
    --------
    >>> label_of(1.0), label_of(True), label_of("yes")
    ('1', 'true', 'yes')
    """
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        return repr(float(value))
    return str(value)


def coded(column: Any, name: str) -> Coded:
    """Read a column of group labels (or cluster names) as codes (SPEC 15.1).

    Parameters
    ----------
    column : array_like
        Text, numbers, booleans, dates or categories; plain, nullable or arrow-backed.
    name : str
        For messages.

    Returns
    -------
    Coded

    Raises
    ------
    InputError
        If the column is no one-dimensional column of plain values.

    Examples
    --------
    >>> coded(["b", None, "a", float("nan")], "sex")
    Coded(codes=array([ 1, -1,  0, -1], dtype=int32), labels=('a', 'b'))
    """
    numbers = _whole_numbers(column)
    if numbers is not None:
        return _by_place(numbers)
    array = _arrow(column, name)
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    values = encoded.dictionary.to_pylist()
    number = pa.types.is_integer(encoded.dictionary.type) or pa.types.is_floating(encoded.dictionary.type)
    present = [value for value in values if value is not None and value == value]  # noqa: PLR0124  (NaN is not itself)
    ordered = sorted(present, key=None if number else label_of)
    labels = tuple(dict.fromkeys(label_of(value) for value in ordered))
    place = {label: code for code, label in enumerate(labels)}
    # The last entry is that of the code -1.
    new = np.full(len(values) + 1, -1, dtype=np.int32)
    for old, value in enumerate(values):
        new[old] = place.get(label_of(value), -1)
    return Coded(codes=new[codes], labels=labels)


def _whole_numbers(column: Any) -> NDArray[Any] | None:
    """The numpy integers behind a column, if it holds nothing else and they lie close together."""
    if hasattr(column, "array") and isinstance(column.dtype, np.dtype):
        column = column.to_numpy()
    if not (
        isinstance(column, np.ndarray)
        and column.ndim == 1
        and column.size
        and column.dtype.kind in "iu"
        and column.dtype != np.uint64
    ):
        return None
    return column if int(column.max()) - int(column.min()) < SMALL_RANGE else None


def _by_place(numbers: NDArray[Any]) -> Coded:
    """Integers as codes without hashing: several times as fast."""
    lowest = int(numbers.min())
    places = numbers.astype(np.int64) - lowest if lowest else numbers
    present = np.flatnonzero(np.bincount(places))
    codes = places.astype(np.int32)
    if len(present) <= int(present[-1]):  # numbers in between do not occur
        place = np.zeros(int(present[-1]) + 1, dtype=np.int32)
        place[present] = np.arange(len(present), dtype=np.int32)
        codes = place[codes]
    return Coded(codes=codes, labels=tuple(str(lowest + int(number)) for number in present))


def _arrow(column: Any, name: str) -> Any:
    if isinstance(column, pa.ChunkedArray | pa.Array):
        return _flat(column, name)
    if getattr(column, "ndim", 1) != 1:
        raise InputError.of(name, f"a column has one dimension, not {column.ndim}")
    try:
        return _flat(pa.array(column, from_pandas=True), name)
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError):
        pass
    # Values of several types (1 and "1") in a column of objects: each as its label.
    import pandas as pd

    series = pd.Series(column, dtype=object)
    missing = series.isna()
    try:
        return pa.array([None if gone else label_of(x) for x, gone in zip(series, missing, strict=True)], pa.string())
    except (pa.ArrowInvalid, pa.ArrowTypeError, ValueError) as error:
        raise InputError.of(name, f"cannot be read as a column: {error}") from None


def _flat(array: Any, name: str) -> Any:
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_nested(array.type):
        raise InputError.of(name, f"a column holds plain values, not {array.type}")
    return array


def outcome(column: Any, name: str, positive: Any = None) -> NDArray[np.int8]:
    """Read a column with two values, one of them declared to be the positive one (SPEC 15.1).

    Parameters
    ----------
    column : array_like
        At most two distinct values and missing ones.
    name : str
        For messages.
    positive : value, optional
        The positive value; it need not occur. Left out, the column has to hold 0 and 1, or booleans.

    Returns
    -------
    ndarray of int8
        1 positive, 0 not, 2 missing.

    Raises
    ------
    InputError
        If the positive value is not declared for other values than 0 and 1, the column has more than two values, or
        two of which none is the positive one, or one that differs from it in case or spaces alone.

    Examples
    --------
    >>> outcome(["yes", "no", None], "y_pred", positive="yes").tolist()
    [1, 0, 2]
    """
    read = coded(column, name)
    counts = np.bincount(read.codes + 1, minlength=len(read.labels) + 1)[1:]
    found = [label for label, count in zip(read.labels, counts, strict=True) if count]
    wanted = _declared(found, name, positive)
    meaning = np.full(len(read.labels) + 1, NEGATIVE, dtype=np.int8)
    meaning[-1] = MISSING
    if wanted in read.labels:
        meaning[read.labels.index(wanted)] = POSITIVE
    return meaning[read.codes]


def _declared(found: list[str], name: str, positive: Any) -> str:
    shown = ", ".join(quoted(label) for label in found[:SHOWN_VALUES])
    if len(found) > 2:
        raise InputError.of(
            name, f"has {len(found)} values ({shown}, ...); an outcome has two, of which one is positive"
        )
    if positive is None:
        if not set(found) <= {"0", "1"} and not set(found) <= {"false", "true"}:
            raise InputError.of(name, f"its values are {shown}; say which one is positive: positive = ...")
        return "true" if set(found) & {"false", "true"} else "1"
    wanted = label_of(positive)
    if set(found) <= {"false", "true"} and wanted in ("0", "1"):
        wanted = "true" if wanted == "1" else "false"
    alike = [label for label in found if label != wanted and label.strip().lower() == wanted.strip().lower()]
    if alike:
        raise InputError.of(name, f"holds {quoted(alike[0])}, but positive is {quoted(wanted)}; they have to be equal")
    if len(found) == 2 and wanted not in found:
        raise InputError.of(name, f"its values are {shown}; none of them is the positive one, {quoted(wanted)}")
    return wanted


def numeric(column: Any, name: str) -> Floats:
    """Read a column of numbers or booleans; a missing value becomes NaN.

    Raises
    ------
    UndefinedError
        If it is no one-dimensional column of numbers, or holds infinity.

    Examples
    --------
    >>> numeric([True, None, 0.5], "outcome")
    array([1. , nan, 0.5])
    """
    if isinstance(column, pa.ChunkedArray | pa.Array):
        column = column.to_pandas()
    try:
        if hasattr(column, "array"):  # pandas: nullable columns have NA, which numpy cannot read
            values = np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
        else:
            values = np.asarray(column, dtype=float)
    except (TypeError, ValueError):
        raise UndefinedError(name, type(column).__name__, "needs numbers or booleans") from None
    if values.ndim != 1:
        raise UndefinedError(name, values.shape, "needs one dimension")
    if np.isinf(values).any():
        raise UndefinedError(name, "infinity", "needs finite numbers")
    return values
