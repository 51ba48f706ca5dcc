"""One large JSON document on disk, walked element by element: memory is bounded by an element, whatever the file.

The array that matters is handed out one element at a time; what stands around it is small and comes as a dict. What is
large and not wanted, around the array or in its elements, is stepped over and never held.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

from core.data.problems import quoted
from core.errors import InputError
from tasks.storage import InputFile

CHUNK = 2**20
MAX_ELEMENT = 32 * 2**20
"""Bytes of one element, without what is left out of it, or of one value beside the array."""

MAX_HEAD = 2 * MAX_ELEMENT
"""Bytes of all that stands beside the array."""

MAX_DEPTH = 200
"""Lists and objects within each other in one element, the innermost two not counted."""

EACH = "*"
"""In a path: every element of the array."""

Keys = tuple[str, ...]
_Place = tuple[int, int]
"""Bytes before it, and the physical line from 1."""

_Piece = tuple[Keys, int, bytes | None, _Place]
_Pieces = Generator[_Piece, None, bool]
"""Pieces, and at last whether the array was among them."""

_QUOTED = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_FLAT = rb'[^"\[\]{}]*+(?:' + _QUOTED + rb'[^"\[\]{}]*+)*+'


def _holding(inside: bytes) -> bytes:
    return rb"(?:\{" + inside + rb"\}|\[" + inside + rb"\])"


_SHALLOW = _FLAT + rb"(?:" + _holding(_FLAT) + _FLAT + rb")*+"
_WHOLE = _FLAT + rb"(?:" + _holding(_SHALLOW) + _FLAT + rb")*+"
_BRACKET = re.compile(_WHOLE + rb"([\[\]{}])", re.DOTALL)
"""Up to the next bracket that stands in no string, over whole lists and objects of one or two levels: most are."""

_COMPLETE = re.compile(_WHOLE, re.DOTALL)
"""Where there is no such bracket: all but a string that has not ended."""

_STRING = re.compile(_QUOTED, re.DOTALL)
_IN_STRING = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_PLAIN = re.compile(rb"[^\s,\[\]{}\":]*+")
_SPACE = re.compile(rb"[ \t\r\n]*+")
_MARK = b"\xef\xbb\xbf"
"""Byte order mark."""

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_DAMAGE = (EOFError, OSError, zlib.error)
"""What reading a damaged gzip file may raise."""


def parse_json(text: str) -> Any:
    """Parse JSON that every other format can hold as well.

    The bare tokens ``NaN``, ``Infinity`` and ``-Infinity``, which JSON does not have but tools write, become the texts
    'NaN', 'Infinity' and '-Infinity': no number, so nobody computes with them unnoticed. A number too large for a
    float, such as 1e999, is an infinite float.

    Raises
    ------
    ValueError
        Not JSON, a key that stands twice in an object, or half a character (a lone surrogate).
    RecursionError
        Nested too deep for Python's parser.

    Examples
    --------
    >>> parse_json('{"value": NaN}')
    {'value': 'NaN'}
    """
    value = json.loads(text, object_pairs_hook=_distinct_keys, parse_constant=str)
    if _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("holds half a character (a lone surrogate)") from None
    return value


class Content(Protocol):
    """Bytes that are read once, from their beginning."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes or more, fewer only at the end."""

    def close(self) -> None:
        """Give up what is not read."""


class JsonDocument:
    """A JSON document, also gzipped, of which one array is large.

    Parameters
    ----------
    file : InputFile
    path : tuple of str or None
        Keys that lead from the document's object to the array, such as ``("results", "results")``; an empty tuple when
        the document itself is the array, None when it has none.
    left_out : sequence of tuple of str
        Keys that lead to other values that may be large and are not wanted: they are in nothing that is returned.
        `EACH` after the path's keys leads into the elements.
    opened : callable or None
        Opens the content; by default the file's own.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "log.json")
    ...     _ = path.write_text('{"version": 2, "samples": [{"id": 1}, {"id": 2}]}')
    ...     document = JsonDocument(InputFile(path=path, name="log.json"), ("samples",))
    ...     document.head(), list(document.elements())
    ({'version': 2}, [(1, {'id': 1}), (2, {'id': 2})])
    """

    def __init__(
        self,
        file: InputFile,
        path: Keys | None,
        *,
        left_out: Sequence[Keys] = (),
        opened: Callable[[], Content] | None = None,
    ) -> None:
        self.file = file
        self._path = path
        self._left_out = frozenset(left_out)
        self._opened = frozenset(keys[:i] for keys in (path or (), *left_out) for i in range(len(keys)))
        self._what = ".".join(path or ())
        self._content = opened or (lambda: _open(file))

    def head(self) -> dict[str, Any]:
        """Return the document without the array and without what is left out.

        What stands in the array's place and is no array stays. The whole file is scanned, so that it is complete is
        known afterwards; that elements are JSON is not.

        Raises
        ------
        InputError
            Not one JSON object in UTF-8, cut off, or over a limit; with the place.
        """
        document: dict[str, Any] = self._assembled(piece for piece in self._pieces() if not piece[1])
        return document

    def elements(self) -> Iterator[tuple[int, Any]]:
        """Yield the array's elements with their numbers, from 1.

        Raises
        ------
        InputError
            There is no such array, or the document or an element cannot be read; with the element's number and place.
        """
        for number, pieces in groupby(self._pieces(needed=True), itemgetter(1)):
            if number:
                yield number, self._assembled(pieces)

    def _assembled(self, pieces: Iterable[_Piece]) -> Any:
        """Make the document or an element of its pieces."""
        whole: Any = {}
        for keys, number, text, at in pieces:
            value = {} if text is None else self._parsed(text, at, self._named(keys, number))
            inner = self._within(keys, number)
            if not inner:
                if not number and not isinstance(value, dict):
                    raise self._refuse("one JSON object is expected", at)
                whole = value
                continue
            place = whole
            for key in inner[:-1]:
                place = place[key]
            place[inner[-1]] = value
        return whole

    def _pieces(self, *, needed: bool = False) -> Iterator[_Piece]:
        """Yield (keys, number of the element or 0, text, place): members and elements in the file's order.

        An object that is walked comes first, as None.
        """
        with closing(_Text(self.file.name, self._content())) as text:
            found = yield from self._value(text, ())
            if text.peek():
                raise self._refuse("something stands after the end of the document", text.place)
        if needed and not found:
            raise InputError.of(self.file.name, f"there is no array at {quoted(self._what)}")

    def _value(self, text: _Text, keys: Keys, number: int = 0) -> _Pieces:
        """Walk what stands at the cursor; return whether the array was there."""
        first = text.peek()
        if first == b"[" and keys == self._path:
            yield from self._array(text, keys)
            return True
        if keys in self._left_out:
            self._take(text.skip, text, self._named(keys, number))
            return False
        if first == b"{" and keys in self._opened:
            return (yield from self._object(text, keys, number))
        place = text.place
        content = self._take(text.value, text, self._named(keys, number))
        text.kept += len(content)
        yield keys, number, content, place
        return False

    def _object(self, text: _Text, keys: Keys, number: int) -> _Pieces:
        yield keys, number, None, text.place
        found = False
        seen: set[str] = set()
        text.take()
        while (first := text.peek()) != b"}" or seen:
            place = text.place
            if first != b'"':
                raise self._unexpected(text, "a key in double quotes")
            content = self._take(text.value, text, "a key")
            text.kept += len(content)
            key = self._parsed(content, place, "a key")
            if key in seen:
                raise self._refuse(f"key {quoted(key)} stands twice", place)
            seen.add(key)
            self._expect(text, b":")
            found |= yield from self._value(text, (*keys, key), number)
            self._refuse_too_large(text, number, place)
            if text.peek() == b"}":
                break
            self._expect(text, b",")
        text.take()
        return found

    def _array(self, text: _Text, keys: Keys) -> Iterator[_Piece]:
        beside = text.kept
        text.take()
        number = 0
        while text.peek() != b"]" or number:
            number += 1
            text.kept = 0
            yield from self._value(text, (*keys, EACH), number)
            if text.peek() == b"]":
                break
            self._expect(text, b",")
        text.take()
        text.kept = beside

    def _refuse_too_large(self, text: _Text, number: int, place: _Place) -> None:
        if self._path is not None and not number:
            if text.kept > MAX_HEAD:
                raise self._refuse(f"holds over {MAX_HEAD} bytes beside {quoted(self._what)}", place)
        elif text.kept > MAX_ELEMENT:
            raise self._refuse(f"{self._named((), number)} is larger than {MAX_ELEMENT} bytes", place)

    def _take(self, step: Callable[[], bytes], text: _Text, what: str) -> bytes:
        """Step over a value; return what the step keeps of it."""
        place = text.place
        try:
            content = step()
        except _LimitError as error:
            raise self._refuse(f"{what} {error}", place) from None
        if text.place == place:
            raise self._unexpected(text, what)
        return content

    def _expect(self, text: _Text, byte: bytes) -> None:
        if text.peek() != byte:
            raise self._unexpected(text, quoted(byte.decode()))
        text.take()

    def _unexpected(self, text: _Text, expected: str) -> InputError:
        found = text.peek()
        if not found:
            return self._refuse(f"ends where {expected} is expected; was it cut off?", text.place)
        return self._refuse(f"is not JSON: {quoted(found.decode('latin-1'))} where {expected} is expected", text.place)

    def _parsed(self, content: bytes, place: _Place, what: str) -> Any:
        try:
            return parse_json(content.decode())
        except UnicodeDecodeError as error:
            at = _beyond(place, content, error.start)
            raise self._refuse(f"{what} is not UTF-8 text (byte {content[error.start]:#04x})", at) from None
        except json.JSONDecodeError as error:
            at = _beyond(place, content, len(error.doc[: error.pos].encode()))
            raise self._refuse(f"{what} is not JSON: {error.msg}", at) from None
        except (ValueError, RecursionError) as error:
            raise self._refuse(f"{what} cannot be read: {str(error).splitlines()[0][:200]}", place) from None

    def _within(self, keys: Keys, number: int) -> Keys:
        """Return the keys that lead to a value from the document, or from an element."""
        return keys[len(self._path or ()) + 1 :] if number else keys

    def _named(self, keys: Keys, number: int) -> str:
        inner = self._within(keys, number)
        element = f"element {number} of {quoted(self._what)}" if self._what else f"element {number}"
        whole = element if number else "the document"
        if not inner:
            return whole
        return f"the value of {quoted('.'.join(inner))}" + (f" in {element}" if number else "")

    def _refuse(self, message: str, place: _Place) -> InputError:
        offset, line = place
        return InputError.of(self.file.name, f"{message} (byte {offset})", line=line)


class _LimitError(Exception):
    """A value that no memory should hold; or one that the file's end cuts off."""


class _Text:
    """The file's bytes with a cursor; holds a chunk, or the value at the cursor.

    Attributes
    ----------
    kept : int
        Bytes that the caller keeps, of the element or of what stands beside the array.
    """

    def __init__(self, name: str, content: Content) -> None:
        self.kept = 0
        self._name = name
        self._file = content
        self._buffer = b""
        self._at = 0
        self._before = 0
        self._line = 1
        self._ended = False

    def close(self) -> None:
        self._file.close()

    @property
    def place(self) -> _Place:
        """Where the cursor is."""
        return self._before + self._at, self._line

    def peek(self) -> bytes:
        """Return the next byte that is no space, to which the cursor moves; nothing at the end."""
        while True:
            self._step(_end(_SPACE, self._buffer, self._at))
            if self._at < len(self._buffer) or self._ended:
                return self._buffer[self._at : self._at + 1]
            self._fill()

    def take(self) -> None:
        """Step over one byte."""
        self._at += 1

    def _step(self, to: int) -> None:
        self._line += self._buffer.count(b"\n", self._at, to)
        self._at = to

    def value(self) -> bytes:
        """Return the text of the value at the cursor and step over it; nothing if there is none."""
        first = self.peek()
        if first in (b"{", b"["):
            length = self._nested()
        elif first == b'"':
            length = self._string()
        else:
            length = self._plain()
        if length > MAX_ELEMENT:
            raise _LimitError(f"is larger than {MAX_ELEMENT} bytes")
        content = self._buffer[self._at : self._at + length]
        self._step(self._at + length)
        return content

    def skip(self) -> bytes:
        """Step over the value at the cursor, however long, and hold none of it."""
        first = self.peek()
        if first == b'"':
            self._skip_string()
        elif first in (b"{", b"["):
            self._skip_nested()
        else:
            self.value()
        return b""

    def _skip_nested(self) -> None:
        self.take()
        depth = 1
        while depth:
            if (match := _BRACKET.match(self._buffer, self._at)) is not None:
                self._step(match.end())
                depth += 1 if match[1] in b"[{" else -1
                continue
            self._step(_end(_COMPLETE, self._buffer, self._at))
            if self._at < len(self._buffer):
                self._skip_string()
            else:
                self._more()

    def _skip_string(self) -> None:
        self.take()
        while True:
            self._step(_end(_IN_STRING, self._buffer, self._at))
            if self._buffer[self._at : self._at + 1] == b'"':
                break
            self._more()
        self.take()

    def _nested(self) -> int:
        """Find the length of a list or object: up to where as many brackets are closed as were opened."""
        length = depth = 1
        while True:
            match = _BRACKET.match(self._buffer, self._at + length)
            if match is None:
                self._more()
                continue
            length = match.end() - self._at
            if match[1] in b"[{":
                depth += 1
                if depth > MAX_DEPTH:
                    raise _LimitError(f"is nested deeper than {MAX_DEPTH} levels")
            else:
                depth -= 1
                if depth == 0:
                    return length

    def _string(self) -> int:
        while (match := _STRING.match(self._buffer, self._at)) is None:
            self._more()
        return match.end() - self._at

    def _plain(self) -> int:
        """Find the length of a number or word, which the file's end may end too."""
        while (end := _end(_PLAIN, self._buffer, self._at)) == len(self._buffer) and not self._ended:
            self._more()
        return end - self._at

    def _more(self) -> None:
        if len(self._buffer) - self._at > MAX_ELEMENT:
            raise _LimitError(f"is larger than {MAX_ELEMENT} bytes")
        if self._ended:
            raise _LimitError("is cut off: the file ends within it")
        self._fill()

    def _fill(self) -> None:
        """Drop what lies before the cursor and read on, as much again as is held: a long value is scanned seldom."""
        rest = self._buffer[self._at :]
        self._before += self._at
        self._at = 0
        try:
            chunk = self._file.read(max(CHUNK, len(rest), len(_MARK)))
        except _DAMAGE as error:
            message = (str(error) or type(error).__name__).splitlines()[0][:200]
            raise InputError.of(self._name, f"is damaged: {message}", line=self._line) from None
        self._ended = not chunk
        self._buffer = rest + chunk
        if not self._before and self._buffer.startswith(_MARK):
            self._at = len(_MARK)


def _end(pattern: re.Pattern[bytes], buffer: bytes, at: int) -> int:
    match = pattern.match(buffer, at)
    return at if match is None else match.end()


def _open(file: InputFile) -> Content:
    with file.path.open("rb") as head:
        zipped = head.read(2) == b"\x1f\x8b"
    if zipped is not file.path.name.lower().endswith(".gz"):
        raise InputError.of(file.name, "its content is not the format that its extension says")
    return gzip.open(file.path, "rb") if zipped else file.path.open("rb")


def _beyond(place: _Place, content: bytes, length: int) -> _Place:
    return place[0] + length, place[1] + content.count(b"\n", 0, length)


def _distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    item = dict(pairs)
    if len(item) < len(pairs):
        raise ValueError("a key stands twice in an object")
    return item
