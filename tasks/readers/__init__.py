"""Readers: how a tool's file becomes a table of scores, detections or labels.

A reader is a callable ``open(file: InputFile) -> Source``, registered under the entry point group
``assay.readers``; the built-in ones are registered the same way. One with an attribute ``OPTIONS`` takes options
(``READER,OPTION=VALUE:PATH``) and refuses those that it does not know.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from core.data.facts import SourceFacts
from core.errors import InputError
from tasks.storage import InputFile


class Source(Protocol):
    """A file opened by a reader.

    Attributes
    ----------
    file : InputFile
    unit : str
        What its places count: ``line`` (text) or ``row``.
    columns : tuple of str
    kind : str or None
        What the reader knows the table to be: ``scores``, ``detections``, ``golden``; None if it does not.
    """

    file: InputFile
    unit: str
    columns: tuple[str, ...]
    kind: str | None

    @property
    def facts(self) -> SourceFacts | None:
        """How another tool's verdicts were read; None for a table that is assay's own. Complete after a pass."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield (pyarrow.RecordBatch of those columns, physical line or row of each row)."""
        ...


def reader_names() -> list[str]:
    """Names of the registered readers."""
    return sorted(entry.name for entry in _registered())


@cache
def _registered() -> tuple[EntryPoint, ...]:
    """Look the readers up once: it takes milliseconds, which a thousand files would pay one by one."""
    return tuple(entry_points(group="assay.readers"))


def open_source(file: InputFile) -> Source:
    """Open a file with its reader.

    Raises
    ------
    InputError
        It is not what the reader knows, or the reader has no such option.
    """
    (entry,) = (entry for entry in _registered() if entry.name == file.reader)
    reader: Callable[[InputFile], Source] = entry.load()
    if file.options and not hasattr(reader, "OPTIONS"):
        raise InputError.of(file.name, f"reader {file.reader} has no options, so none can be named before the colon")
    return reader(file)


def takes_options(reader: str) -> bool:
    """Tell whether a reader can be told how to read."""
    return any(hasattr(entry.load(), "OPTIONS") for entry in _registered() if entry.name == reader)
