"""Collecting everything that is wrong with an input before saying so."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from core.errors import SHOWN_PROBLEMS, InputError, Problem

FILE_SHIFT = 40
"""A row's place is one integer: the file's number in the high bits, the line in the low ones."""

_KEPT = 10 * SHOWN_PROBLEMS


class ProblemLog:
    """What is wrong, in order; remembers the first two hundred problems and counts all.

    Parameters
    ----------
    sources : sequence of str
        The files' names as the user gave them; a place's file number indexes this list.
    units : sequence of str, optional
        ``line`` or ``row`` for each source.
    """

    def __init__(self, sources: Sequence[str] = (), units: Sequence[str] = ()) -> None:
        self.sources = list(sources)
        self.units = list(units) or ["line"] * len(self.sources)
        self.count = 0
        self._kept: list[Problem] = []

    def add(self, source: str, message: str, *, line: int = 0, unit: str = "line") -> None:
        """Note one problem."""
        self.count += 1
        if len(self._kept) < _KEPT:
            self._kept.append(Problem(source=source, line=line, message=message, unit=unit))

    def at(self, place: int, message: str) -> None:
        """Note one problem at a place."""
        number, line = place >> FILE_SHIFT, place & ((1 << FILE_SHIFT) - 1)
        self.add(self.sources[number], message, line=line, unit=self.units[number])

    def rows(self, places: npt.NDArray[np.int64], bad: npt.NDArray[np.bool_], say: Callable[[int], str]) -> None:
        """Note a problem for each bad row; `say` gets the row's index in the batch."""
        indices = np.flatnonzero(bad)
        for index in indices[:_KEPT]:
            self.at(int(places[index]), say(int(index)))
        self.count += max(0, len(indices) - _KEPT)

    def where(self, place: int) -> str:
        """Name a place for use inside a message."""
        return str(
            Problem(
                source=self.sources[place >> FILE_SHIFT],
                line=place & ((1 << FILE_SHIFT) - 1),
                message="",
                unit=self.units[place >> FILE_SHIFT],
            )
        ).removesuffix(": ")

    def __bool__(self) -> bool:
        return self.count > 0

    def stop(self) -> NoReturn:
        """Raise all problems at once."""
        order = {source: number for number, source in enumerate(self.sources)}
        kept = sorted(self._kept, key=lambda problem: (order.get(problem.source, -1), problem.line))
        raise InputError(kept, count=self.count)

    def stop_if_any(self) -> None:
        """Raise all problems at once, if there are any."""
        if self.count:
            self.stop()


def nearest(text: str, known: Sequence[str]) -> str:
    """Suggest the known name that was probably meant, or list those that there are.

    Examples
    --------
    >>> nearest("violense", ["hate", "violence"])
    "did you mean 'violence'?"
    >>> nearest("x", ["hate", "violence"])
    'known here: hate, violence'
    """
    near = difflib.get_close_matches(text, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"


def counted(number: int, noun: str) -> str:
    """Show a count with its noun.

    Examples
    --------
    >>> counted(1, "trace"), counted(2, "trace")
    ('1 trace', '2 traces')
    """
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def quoted(value: object, limit: int = 60) -> str:
    """Show an untrusted value in a message: escaped, on one line, cut."""
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= limit else text[: limit - 3] + "..."
