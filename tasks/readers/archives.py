"""Zip archives from strangers: members are read piece by piece, within limits, and nothing is ever written to disk.

Members may be stored, deflated or compressed with Zstandard (method 93, which Python's own module lacks).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import zstandard

from core.data.problems import counted, quoted
from core.errors import InputError
from tasks.storage import InputFile

MAX_TOTAL = 8 * 2**30
"""Bytes of all members together."""

MAX_MEMBERS = 250_000
MAX_DIRECTORY = 64 * 2**20
MAX_RATIO = 1000
"""How many bytes one compressed byte may become, beyond `FREE`; deflate cannot do more than 1,032."""

FREE = 2**20
"""Bytes that a member may have at any ratio."""

MAX_WINDOW = 2**27
"""Bytes that Zstandard may look back, and so hold."""

CHUNK = 2**16

STORED, DEFLATED, ZSTANDARD = 0, 8, 93
_METHODS = {STORED: "stored", DEFLATED: "deflate", ZSTANDARD: "Zstandard"}
_ENCRYPTED = 0x2041
"""Flags of a member, or of the directory, that is encrypted."""

_UTF8 = 0x800
_ZIP64 = 1
_FULL = 0xFFFFFFFF

_END = struct.Struct("<4s4H2LH")
_LOCATOR = struct.Struct("<4sLQL")
_END64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_LOCAL = struct.Struct("<4s5H3L2H")


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member as the directory describes it.

    Attributes
    ----------
    name : str
    method : int
    crc : int
    packed, size : int
        Bytes in the archive, and once read.
    offset : int
        Where it begins.
    """

    name: str
    method: int
    crc: int
    packed: int
    size: int
    offset: int


class Archive:
    """A zip archive.

    Parameters
    ----------
    file : InputFile

    Attributes
    ----------
    members : dict of str to Member
        In the directory's order.

    Raises
    ------
    InputError
        No zip archive, or one that is cut off; names that stand twice, lead out of the archive, or are encrypted; a
        method that is not known; more members or bytes than the limits.
    """

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self.members: dict[str, Member] = {}
        try:
            with file.path.open("rb") as raw:
                directory, count = self._directory(raw)
                length = raw.seek(0, 2)
            for member in self._entries(directory, count):
                if member.name in self.members:
                    raise self._refuse(f"member {quoted(member.name)} stands twice")
                self.members[member.name] = member
        except (struct.error, OverflowError, OSError) as error:
            raise self._refuse(f"is a damaged zip archive: {error}") from None
        if sum(member.packed for member in self.members.values()) > length:
            raise self._refuse("is a damaged zip archive: its members are larger than itself, so they overlap")
        if (total := sum(member.size for member in self.members.values())) > MAX_TOTAL:
            raise self._refuse(f"would become {total} bytes; at most {MAX_TOTAL} are read")

    def open(self, name: str) -> MemberContent:
        """Open a member; what is wrong with it is known when it has been read to its end, at the latest."""
        return MemberContent(self._pieces(self.members[name]))

    def _pieces(self, member: Member) -> Iterator[bytes]:
        """Yield a member's content.

        Raises
        ------
        InputError
            Too repetitive, damaged, or not as long as the directory says.
        """
        name = member.name
        if member.size > max(FREE, MAX_RATIO * member.packed):
            raise self._refuse(
                f"member {quoted(name)} would become {member.size} bytes out of {member.packed}; no log is so "
                f"repetitive (at most {MAX_RATIO} bytes out of one are read)"
            )
        length = crc = 0
        try:
            with self.file.path.open("rb") as raw:
                self._find(raw, member)
                for piece in _unpacked(raw, member):
                    length += len(piece)
                    crc = zlib.crc32(piece, crc)
                    if length > member.size:
                        raise self._refuse(f"member {quoted(name)} is longer than the archive's directory says")
                    yield piece
        except (zlib.error, zstandard.ZstdError, struct.error, OverflowError, OSError) as error:
            raise self._refuse(f"member {quoted(name)} is damaged: {error}") from None
        if length != member.size or crc != member.crc:
            raise self._refuse(f"member {quoted(name)} is damaged: it is not what its checksum says")

    def _refuse(self, message: str) -> InputError:
        return InputError.of(self.file.name, message)

    def _directory(self, raw: IO[bytes]) -> tuple[bytes, int]:
        """Return the directory, and how many entries it has to hold."""
        length = raw.seek(0, 2)
        start = max(0, length - _END.size - 0xFFFF)
        raw.seek(start)
        tail = raw.read()
        at = tail.rfind(b"PK\x05\x06")
        if at < 0 or len(tail) - at < _END.size:
            raise self._refuse("is no zip archive, or one that is cut off: its directory, at the end, is missing")
        _, disk, first_disk, _, count, size, offset, _ = _END.unpack_from(tail, at)
        end = start + at
        if disk or first_disk:
            raise self._refuse("is a part of a zip archive that was split")
        if count == 0xFFFF or _FULL in (size, offset):
            count, size, offset, end = self._end64(raw, end, (count, size, offset))
        if offset + size != end:
            raise self._refuse("is a damaged zip archive: its directory is not where its end says")
        if size > MAX_DIRECTORY or count > MAX_MEMBERS:
            raise self._refuse(f"holds {counted(count, 'member')}; at most {MAX_MEMBERS} are read")
        raw.seek(offset)
        return raw.read(size), count

    def _end64(self, raw: IO[bytes], end: int, plain: tuple[int, int, int]) -> tuple[int, int, int, int]:
        """Return (count, size, offset, end) of a large archive's directory; `plain` where it is none."""
        raw.seek(max(0, end - _LOCATOR.size))
        magic, _, at, _ = _LOCATOR.unpack(raw.read(_LOCATOR.size))
        if magic != b"PK\x06\x07":
            return (*plain, end)
        raw.seek(at)
        magic, *_, count, size, offset = _END64.unpack(raw.read(_END64.size))
        if magic != b"PK\x06\x06":
            raise self._refuse("is a damaged zip archive: its directory's end is not where it says")
        return count, size, offset, at

    def _entries(self, directory: bytes, count: int) -> Iterator[Member]:
        at = 0
        for _ in range(count):
            magic, *fields = _ENTRY.unpack_from(directory, at)
            _, _, flags, method, _, _, crc, packed, size, n_name, n_extra, n_comment, _, _, _, offset = fields
            if magic != b"PK\x01\x02":
                raise self._refuse("is a damaged zip archive: its directory ends early")
            at += _ENTRY.size
            raw_name = directory[at : at + n_name]
            extra = directory[at + n_name : at + n_name + n_extra]
            at += n_name + n_extra + n_comment
            name = self._name(raw_name, flags)
            if flags & _ENCRYPTED:
                raise self._refuse(f"member {quoted(name)} is encrypted")
            if method not in _METHODS:
                known = ", ".join(_METHODS.values())
                raise self._refuse(f"member {quoted(name)} is compressed with method {method}; known: {known}")
            size, packed, offset = _large(extra, size, packed, offset)
            yield Member(name=name, method=method, crc=crc, packed=packed, size=size, offset=offset)
        if at != len(directory):
            raise self._refuse("is a damaged zip archive: its directory holds more than it says")

    def _name(self, raw: bytes, flags: int) -> str:
        try:
            name = raw.decode("utf-8" if flags & _UTF8 else "cp437")
        except UnicodeDecodeError:
            raise self._refuse(f"member {quoted(str(raw))} has a name that is not UTF-8") from None
        if name.startswith(("/", "\\")) or "\0" in name or ".." in name.replace("\\", "/").split("/"):
            raise self._refuse(f"member {quoted(name)} has a name that leads out of the archive")
        return name

    def _find(self, raw: IO[bytes], member: Member) -> None:
        """Go to where a member's content begins."""
        raw.seek(member.offset)
        magic, *_, n_name, n_extra = _LOCAL.unpack(raw.read(_LOCAL.size))
        if magic != b"PK\x03\x04":
            raise self._refuse(f"member {quoted(member.name)} is not where the archive's directory says")
        raw.seek(n_name + n_extra, 1)


class MemberContent:
    """A member's content, read once from its beginning."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces

    def read(self, size: int, /) -> bytes:
        """Return so many bytes or up to a piece more, fewer only at the end."""
        found = bytearray()
        for piece in self._pieces:
            found += piece
            if len(found) >= size:
                break
        return bytes(found)

    def close(self) -> None:
        """Give up what is not read."""
        self._pieces = iter(())


def _large(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """Return the sizes and the place, taken from the extra field where they need 64 bits."""
    values = [size, packed, offset]
    wanted = [i for i, value in enumerate(values) if value == _FULL]
    at = 0
    while wanted and at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == _ZIP64:
            for i, (value,) in zip(wanted, struct.iter_unpack("<Q", extra[at + 4 :][: length // 8 * 8]), strict=False):
                values[i] = value
            break
        at += 4 + length
    return values[0], values[1], values[2]


def _unpacked(raw: IO[bytes], member: Member) -> Iterator[bytes]:
    """Yield a member's content in small pieces, each bounded whatever the compressed bytes say."""
    part = _Part(raw, member.packed)
    if member.method == ZSTANDARD:
        source = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(
            part,  # type: ignore[arg-type]  # `read` is all that it asks for
            read_across_frames=True,
            closefd=False,
        )
        yield from iter(lambda: source.read(CHUNK), b"")
        return
    if member.method == STORED:
        yield from iter(lambda: part.read(CHUNK), b"")
        return
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    while not inflate.eof:
        packed = inflate.unconsumed_tail or part.read(CHUNK)
        piece = inflate.decompress(packed, CHUNK)
        if not packed and not piece:
            return
        yield piece


class _Part:
    """The next bytes of a file, as a file of its own."""

    def __init__(self, raw: IO[bytes], length: int) -> None:
        self._raw, self._left = raw, length

    def read(self, size: int = -1) -> bytes:
        piece = self._raw.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(piece)
        return piece
