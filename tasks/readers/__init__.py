"""Readers: how a tool's file becomes a table of scores, detections or labels.

A reader is a function ``open(file: InputFile) -> Source``, registered under the entry point group
``assay.readers``; the built-in ones are registered the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import entry_points
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

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

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield (pyarrow.RecordBatch of those columns, physical line or row of each row)."""
        ...


def reader_names() -> list[str]:
    """Names of the registered readers."""
    return sorted(entry.name for entry in entry_points(group="assay.readers"))


def open_source(file: InputFile) -> Source:
    """Open a file with its reader."""
    (entry,) = (entry for entry in entry_points(group="assay.readers") if entry.name == file.reader)
    reader: Callable[[InputFile], Source] = entry.load()
    return reader(file)
