"""The few errors that assay raises on purpose.

Each says what is wrong, where, and what to do; the command line prints the message and never a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

SHOWN_PROBLEMS = 20


class AssayError(Exception):
    """Base of every error that a user can cause and mend."""


class UndefinedError(AssayError, ValueError):
    """A quantity does not exist for these numbers (for example an interval from one trace).

    Attributes
    ----------
    field : str
        The argument that makes the quantity undefined.
    value : object
        Its value.
    bound : str
        The condition that it has to meet, in words.
    """

    def __init__(self, field: str, value: object, bound: str) -> None:
        self.field, self.value, self.bound = field, value, bound
        super().__init__(f"{field} = {value!r}: {bound}")

    def __reduce__(self) -> tuple[Any, ...]:  # an exception is rebuilt from its message otherwise
        return type(self), (self.field, self.value, self.bound)


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Problem:
    """One thing wrong with an input.

    Attributes
    ----------
    source : str
        File (or other source) as the user named it.
    line : int
        Physical line (text files) or row (Parquet), counted from 1; 0 when the whole source is meant.
    message : str
        What is wrong and what to do.
    unit : str
        ``line`` or ``row``.
    """

    source: str
    line: int = 0
    message: str
    unit: str = "line"

    def __str__(self) -> str:
        if not self.line:
            return f"{self.source}: {self.message}"
        where = str(self.line) if self.unit == "line" else f"row {self.line}"
        return f"{self.source}:{where}: {self.message}"


class InputError(AssayError):
    """Everything that is wrong with the inputs, told at once.

    Attributes
    ----------
    problems : tuple of Problem
        In the order of source and line. The message shows the first 20.
    count : int
        How many there are in all (at least ``len(problems)``: a reader may stop keeping them).
    """

    def __init__(self, problems: Iterable[Problem], *, count: int | None = None) -> None:
        self.problems = tuple(problems)
        self.count = max(count or 0, len(self.problems))
        lines = [str(problem) for problem in self.problems[:SHOWN_PROBLEMS]]
        hidden = self.count - len(lines)
        if hidden > 0:
            lines.append(f"... and {hidden} more problem{'s' if hidden > 1 else ''}")
        super().__init__("\n".join(lines))

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), count=self.count), (self.problems,)

    @classmethod
    def of(cls, source: str, message: str, *, line: int = 0) -> Self:
        """Build the error for one problem."""
        return cls([Problem(source=source, line=line, message=message)])


class UnknownJudgeError(InputError):
    """No judge is registered here under the name that is asked for."""


class RecordError(AssayError):
    """A document is not a record that this version can read."""


class MismatchError(AssayError):
    """A re-derived figure differs from the recorded one (exit code 1)."""


class UnreachableError(AssayError):
    """A service cannot be reached, or does not do its part after several attempts (exit code 4)."""
