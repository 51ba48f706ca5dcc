"""What the readers of moderation APIs share: a file of kept responses, one call a line or one document.

A call is about one text. A line is either a wrapper ``{trace_id, turn, attempt, response, http_status, error}``, of
which ``turn`` and ``attempt`` default to 0, or a bare response that names itself by an id.

A failed call that was made again is no verdict: where another call for the same (trace, attempt, turn) succeeded, that
one stands, whichever comes first in the file, and the failures are counted as ``retries``. To know it, a file with
failed calls is read twice more, and 8 bytes a failed call are kept.
"""

from __future__ import annotations

import contextlib
import hashlib
from abc import abstractmethod
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from core.data.problems import quoted
from core.errors import Problem
from tasks.readers.json_items import BadItemError, JsonItems, id_in, index_in
from tasks.readers.verdicts import Cell, VerdictSource
from tasks.storage import InputFile

MAX_NATIVES = 200
"""Category names in one file beyond which it is hardly a moderation API's."""

KEPT_TEXT = 500
"""Characters of a message that are kept as rationale."""

FAILED = 400
"""HTTP statuses from here on are errors."""


class Call(NamedTuple):
    """What an API said about one text; a tuple, like `Cell`.

    Attributes
    ----------
    place : int
        Line, or number of the item, from 1.
    trace_id : str
    turn, attempt : int
    answer : object
        The API's answer about this text; None for a failed call.
    error : str or None
        Why the call failed.
    model : str or None
        As the response names it.
    requested : str or None
        As the request named it, perhaps by an alias.
    """

    place: int
    trace_id: str
    turn: int = 0
    attempt: int = 0
    answer: Any = None
    error: str | None = None
    model: str | None = None
    requested: str | None = None

    def cell(
        self,
        category: str,
        score: float | None,
        state: str | None = None,
        *,
        judge: str | None = None,
        rationale: str | None = None,
    ) -> Cell:
        """Make a cell of this call."""
        return Cell(
            place=self.place,
            trace_id=self.trace_id,
            category=category,
            score=score,
            state=state,
            turn=self.turn,
            attempt=self.attempt,
            judge=judge,
            rationale=rationale,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What has to be known of a whole file before its first verdict.

    Attributes
    ----------
    natives : tuple of str
        All category names, in the order of their first appearance.
    settled : uint64 array
        Sorted digests of the units with a failed call beside one that succeeded.
    """

    natives: tuple[str, ...]
    settled: npt.NDArray[np.uint64]

    def retried(self, call: Call) -> bool:
        """Tell whether a failed call's text was judged by another call."""
        return bool(len(self.settled)) and _found(self.settled, call) is not None


class ResponseSource(VerdictSource):
    """A file of an API's kept responses."""

    NATIVES: ClassVar[tuple[str, ...]]
    """Categories of a call that failed, in a file in which none succeeded."""

    OWN_ID: ClassVar[str] = ""
    """Key of a response's own id, which is the trace id of a bare one; empty where the API gives none."""

    EXPECTED: ClassVar[str]
    """What an item of such a file is, for messages."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self._items = JsonItems(file)
        self.unit = self._items.unit

    @abstractmethod
    def natives(self, call: Call) -> Sequence[str]:
        """Return the categories that an answer names."""

    @abstractmethod
    def verdicts(self, call: Call) -> Iterator[Cell]:
        """Yield the cells of a call that succeeded.

        Raises
        ------
        BadItemError
            The answer is not what the API gives.
        """

    def asked(self, call: Call) -> Sequence[str]:  # noqa: ARG002 (what other readers go by)
        """Return the categories that a call which failed was about."""
        return self.survey.natives or self.NATIVES

    def calls_in(self, place: int, item: Mapping[str, Any]) -> Iterator[Call]:
        """Yield the calls of an item: one.

        Raises
        ------
        BadItemError
            It is not one of the API's responses.
        """
        response, error, requested = self.opened(item)
        named = id_in(item, "trace_id")
        if named is None:
            named = self.own_id(response)
        if named is None:
            raise BadItemError(f"names no conversation; {self.EXPECTED} is expected")
        yield Call(
            place=place,
            trace_id=named,
            turn=index_in(item, "turn"),
            attempt=index_in(item, "attempt"),
            answer=None if error else response,
            error=error,
            model=model_of(response),
            requested=requested,
        )

    def own_id(self, response: Any) -> str | None:
        """Return the id that a bare response has; None where the API gives none."""
        return id_in(response, self.OWN_ID) if self.OWN_ID and isinstance(response, dict) else None

    def opened(self, item: Mapping[str, Any]) -> tuple[Any, str | None, str | None]:
        """Take a wrapper off: (response, why the call failed, requested model)."""
        wrapped = "response" in item
        response = item["response"] if wrapped else item
        status = item.get("http_status") if wrapped or "trace_id" in item else None
        if status is not None and (isinstance(status, bool) or not isinstance(status, int)):
            raise BadItemError(f"http_status {quoted(status)} is no whole number")
        error = item.get("error") or (response.get("error") if isinstance(response, dict) else None)
        if not wrapped and "trace_id" in item and not error and (status or 0) < FAILED:
            raise BadItemError(f"has no key 'response'; {self.EXPECTED} is expected")
        requested = item.get("requested_model")
        failure = failure_of(error, status, nothing=response is None)
        return response, failure, requested if isinstance(requested, str) else None

    def together(self, cell: Cell) -> Any:
        """One line is one call: two calls about one turn do not become one verdict unseen."""
        return cell.place, cell.trace_id, cell.attempt, cell.turn

    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield the verdicts in the file's order."""
        called = False
        natives: set[str] = set()
        for call in self.calls(problems):
            called = True
            try:
                cells = self._cells_of(call)
            except BadItemError as error:
                self.problem(problems, call.place, str(error))
                continue
            for cell in cells:
                if cell.category not in natives:
                    natives.add(cell.category)
                    if len(natives) > MAX_NATIVES:
                        what = f"names over {MAX_NATIVES} categories; {self.EXPECTED} is expected"
                        raise self.refuse(what, line=call.place)
                yield cell
        if not called and not problems:
            raise self.refuse(f"holds no responses; {self.EXPECTED} is expected")

    def _cells_of(self, call: Call) -> list[Cell]:
        if call.error is None:
            return list(self.verdicts(call))
        if self.survey.retried(call):
            self.counts["retries"] += 1
            return []
        return [call.cell(name, None, "judge_error", rationale=call.error[:KEPT_TEXT]) for name in self.asked(call)]

    def calls(self, problems: list[Problem]) -> Iterator[Call]:
        """Yield all calls; items that are none become problems."""
        for place, item in self._items.read(problems):
            try:
                if not isinstance(item, dict):
                    raise BadItemError(f"is no object; {self.EXPECTED} is expected")
                yield from list(self.calls_in(place, item))
            except BadItemError as error:
                self.problem(problems, place, str(error))

    def answered(self) -> Iterator[Call]:
        """Yield the calls that succeeded, for headlines; what cannot be read is told where verdicts are read."""
        return (call for call in self.calls([]) if call.error is None)

    @cached_property
    def survey(self) -> Survey:
        """What has to be known of the whole file; made when the first verdict depends on it."""
        natives: dict[str, None] = {}
        failed = array("Q")
        for call in self.calls([]):  # problems are told where verdicts are read
            if call.error is not None:
                failed.append(_digest(call))
            elif len(natives) <= MAX_NATIVES:
                with contextlib.suppress(BadItemError):
                    natives.update(dict.fromkeys(self.natives(call)))
        return Survey(natives=tuple(natives), settled=self._settled(failed))

    def _settled(self, failed: array[int]) -> npt.NDArray[np.uint64]:
        digests = np.unique(np.frombuffer(failed, np.uint64)) if failed else np.empty(0, np.uint64)
        settled = np.zeros(len(digests), bool)
        if len(digests):
            for call in self.answered():
                found = _found(digests, call)
                if found is not None:
                    settled[found] = True
        return digests[settled]


def _digest(call: Call) -> int:
    unit = f"{call.attempt} {call.turn} {call.trace_id}".encode()
    return int.from_bytes(hashlib.blake2b(unit, digest_size=8).digest(), "little")


def _found(digests: npt.NDArray[np.uint64], call: Call) -> int | None:
    digest = np.uint64(_digest(call))
    position = int(np.searchsorted(digests, digest))
    return position if position < len(digests) and digests[position] == digest else None


def model_of(response: Any) -> str | None:
    """Return the model that a response names."""
    model = response.get("model") if isinstance(response, dict) else None
    return model if isinstance(model, str) and model.strip() else None


def failure_of(error: Any, status: int | None, *, nothing: bool) -> str | None:
    """Say why a call failed; None for one that succeeded.

    Examples
    --------
    >>> failure_of({"message": "Rate limit reached"}, 429, nothing=False)
    'HTTP 429: Rate limit reached'
    """
    failed = [] if status is None or status < FAILED else [f"HTTP {status}"]
    if error:
        message = error.get("message") or error.get("code") if isinstance(error, dict) else error
        failed.append(str(message or "an error"))
    if nothing and not failed:
        failed.append("no response")
    return ": ".join(failed) or None
