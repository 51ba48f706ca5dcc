"""Files of JSON objects as tools keep them: one a line (.jsonl), a list of them or one alone (.json), also gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from core.data.problems import quoted
from core.errors import InputError, Problem
from tasks.readers.json_document import JsonDocument
from tasks.readers.table import HEAD, JsonLinesFile
from tasks.storage import InputFile, format_of

MAX_INDEX = 2**31 - 1

_SUFFIXES = (".json", ".jsonl", ".ndjson")
_DAMAGE = (EOFError, OSError, zlib.error)
"""What reading a damaged gzip file may raise."""


class BadItemError(Exception):
    """Says why an item is not what the tool writes."""


class JsonItems:
    """The objects of a file, read from its beginning each time; memory is bounded by one of them.

    Parameters
    ----------
    file : InputFile

    Attributes
    ----------
    unit : str
        What a place is called.

    Raises
    ------
    InputError
        The name says another format.
    """

    def __init__(self, file: InputFile) -> None:
        self.file = file
        kind = format_of(file.path, _SUFFIXES)
        if kind is None:
            raise InputError.of(file.name, f"unknown extension; it is one of {', '.join(_SUFFIXES)} (also .gz)")
        self._document = kind == ".json"
        self.unit = "item" if self._document else "line"

    def read(self, problems: list[Problem]) -> Iterator[tuple[int, Any]]:
        """Yield (line or number of the item, item); lines that cannot be read become problems."""
        if not self._document:
            return JsonLinesFile(self.file).objects(problems)
        if self._is_list():
            return JsonDocument(self.file, ()).elements()
        return iter([(1, JsonDocument(self.file, None).head())])

    def _is_list(self) -> bool:
        zipped = self.file.path.name.lower().endswith(".gz")
        try:
            with gzip.open(self.file.path) if zipped else self.file.path.open("rb") as content:
                return content.read(HEAD).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"[")
        except _DAMAGE:
            return False  # reading it tells what is wrong


def id_in(item: Mapping[str, Any], key: str) -> str | None:
    """Return an id as text; None where there is none.

    Raises
    ------
    BadItemError
        Neither text nor a whole number.

    Examples
    --------
    >>> id_in({"trace_id": 7}, "trace_id"), id_in({}, "trace_id")
    ('7', None)
    """
    value = item.get(key)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadItemError(f"{key} {quoted(value)} is neither text nor a whole number")
    return str(value)


def index_in(item: Mapping[str, Any], key: str) -> int:
    """Return a number that counts from 0; 0 where there is none.

    Raises
    ------
    BadItemError
        No whole number, negative, or beyond `MAX_INDEX`.
    """
    value = item.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_INDEX:
        raise BadItemError(f"{key} {quoted(value)} is no whole number from 0")
    return value


def number_of(value: Any, what: str) -> float | None:
    """Return a score; None for null.

    Raises
    ------
    BadItemError
        Anything else than a finite number.
    """
    if type(value) is float and math.isfinite(value):  # nearly all are
        return value
    if value is None:
        return None
    try:
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise BadItemError(f"{what} {quoted(value)} is not a finite number")
        return float(value)
    except OverflowError:
        raise BadItemError(f"{what} is a number beyond all scales") from None
