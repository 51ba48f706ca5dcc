"""Zip archives from strangers: what is stored comes out, and nothing else happens."""

from __future__ import annotations

import contextlib
import io
import struct
import time
import zipfile
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.readers import archives
from tasks.readers.archives import DEFLATED, STORED, ZSTANDARD, Archive
from tasks.storage import InputFile

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def packed(content: bytes, method: int) -> bytes:
    if method == ZSTANDARD:
        return zstandard.ZstdCompressor().compress(content)
    if method == DEFLATED:
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        return deflate.compress(content) + deflate.flush()
    return content


def zipped(
    members: list[tuple[str, bytes]],
    *,
    method: int = STORED,
    flags: int = 0x800,
    sizes: dict[str, int] | None = None,
    raw: dict[str, bytes] | None = None,
) -> bytes:
    """Write an archive by hand, since Python's module refuses to write what only strangers do."""
    body, directory = b"", b""
    for name, content in members:
        data = (raw or {}).get(name, packed(content, method))
        size, encoded = (sizes or {}).get(name, len(content)), name.encode()
        common = struct.pack("<4H3L2H", flags, method, 0, 0, zlib.crc32(content), len(data), size, len(encoded), 0)
        entry = struct.pack("<4s2H", b"PK\x01\x02", 20, 20) + common + struct.pack("<3H2L", 0, 0, 0, 0, len(body))
        directory += entry + encoded
        body += struct.pack("<4sH", b"PK\x03\x04", 20) + common + encoded + data
    count = len(members)
    return body + directory + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, count, count, len(directory), len(body), 0)


def opened(path: Path, content: bytes) -> Archive:
    path.write_bytes(content)
    return Archive(InputFile(path=path, name=path.name))


def contents(path: Path, content: bytes) -> dict[str, bytes]:
    archive = opened(path, content)
    return {name: archive.open(name).read(2**40) for name in archive.members}


def refusal(path: Path, content: bytes) -> str:
    with pytest.raises(InputError) as error:
        contents(path, content)
    return str(error.value)


@IN_FOLDER
@given(
    members=st.dictionaries(st.from_regex(r"[a-z/]{1,9}x", fullmatch=True), st.binary(max_size=400), max_size=5),
    method=st.sampled_from([STORED, DEFLATED, ZSTANDARD]),
)
def test_what_was_stored_comes_out(members: dict[str, bytes], method: int, tmp_path: Path) -> None:
    members = {name: content for name, content in members.items() if not name.startswith("/")}
    assert contents(tmp_path / "a.zip", zipped(list(members.items()), method=method)) == members


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_it_reads_what_pythons_own_module_writes(method: int, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as written:
        written.comment = b"a comment"
        written.writestr("ä.json", b"1" * 5000)
        with written.open("large.json", "w", force_zip64=True) as member:
            member.write(b"2" * 70_000)
    found = contents(tmp_path / "a.zip", buffer.getvalue())
    assert found == {"ä.json": b"1" * 5000, "large.json": b"2" * 70_000}


def test_an_archive_whose_directory_needs_64_bits_is_read(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as written:
        for number in range(66_000):
            written.writestr(zipfile.ZipInfo(f"{number}"), b"")
    archive = opened(tmp_path / "a.zip", buffer.getvalue())
    assert len(archive.members) == 66_000
    assert archive.open("65999").read(1) == b""


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_a_bomb_is_refused_before_it_goes_off(method: int, tmp_path: Path) -> None:
    bomb = zipped([("samples/1_epoch_1.json", bytes(300 * 2**20))], method=method)
    assert len(bomb) < 400_000
    started = time.perf_counter()
    assert "would become 314572800 bytes out of" in refusal(tmp_path / "a.zip", bomb)
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("size", [1, archives.CHUNK, 10**9])
def test_a_member_is_read_as_far_as_is_asked(size: int, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    archive = opened(tmp_path / "a.zip", zipped([("a", content)], method=DEFLATED))
    member = archive.open("a")
    pieces = list(iter(lambda: member.read(size), b""))
    assert b"".join(pieces) == content
    assert all(size <= len(piece) < size + archives.CHUNK for piece in pieces[:-1])
    member = archive.open("a")
    member.read(1)
    member.close()
    assert member.read(1) == b""


@pytest.mark.parametrize("method", [DEFLATED, ZSTANDARD])
def test_a_bomb_that_lies_about_its_size_is_stopped_where_the_lie_ends(
    method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = zipped([("a", bytes(64 * 2**20))], method=method, sizes={"a": 1000})
    taken = 0

    def counted(*arguments: object) -> object:
        nonlocal taken
        for piece in whole(*arguments):  # type: ignore[arg-type]
            taken += len(piece)
            yield piece

    whole = archives._unpacked
    monkeypatch.setattr(archives, "_unpacked", counted)
    assert "longer than the archive's directory says" in refusal(tmp_path / "a.zip", bomb)
    assert 0 < taken <= archives.CHUNK


def test_a_member_of_an_incredible_ratio_is_refused(tmp_path: Path) -> None:
    bomb = zipped([("a", bytes(20 * 2**20))], method=ZSTANDARD)
    assert "at most 1000 bytes out of one" in refusal(tmp_path / "a.zip", bomb)


def test_limits_hold_for_all_members_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = zipped([("a", b"1" * 60), ("b", b"2" * 60)])
    monkeypatch.setattr(archives, "MAX_TOTAL", 100)
    assert "would become 120 bytes; at most 100" in refusal(tmp_path / "a.zip", content)
    monkeypatch.setattr(archives, "MAX_TOTAL", 200)
    monkeypatch.setattr(archives, "MAX_MEMBERS", 1)
    assert "holds 2 members; at most 1" in refusal(tmp_path / "a.zip", content)


@pytest.mark.parametrize("name", ["../a", "a/../../b", "/etc/passwd", "..\\a", "\\a", "a\0b"])
def test_names_that_lead_out_of_the_archive_are_refused(name: str, tmp_path: Path) -> None:
    assert "leads out of the archive" in refusal(tmp_path / "a.zip", zipped([(name, b"1")]))
    assert list(tmp_path.iterdir()) == [tmp_path / "a.zip"]


def test_names_that_stand_twice_are_refused(tmp_path: Path) -> None:
    assert "'a' stands twice" in refusal(tmp_path / "a.zip", zipped([("a", b"1"), ("a", b"2")]))


@pytest.mark.parametrize("flag", [0x1, 0x40, 0x2000])
def test_encrypted_members_are_refused(flag: int, tmp_path: Path) -> None:
    assert "is encrypted" in refusal(tmp_path / "a.zip", zipped([("a", b"1")], flags=flag))


def test_an_unknown_method_is_named_with_those_that_are_known(tmp_path: Path) -> None:
    message = refusal(tmp_path / "a.zip", zipped([("a", b"1")], method=12))
    assert "compressed with method 12; known: stored, deflate, Zstandard" in message


@pytest.mark.parametrize("method", [STORED, DEFLATED, ZSTANDARD])
def test_wrong_data_is_told(method: int, tmp_path: Path) -> None:
    content = zipped([("a", b"right" * 9)], method=method, raw={"a": b"wrong" * 9})
    assert "member 'a' is damaged" in refusal(tmp_path / "a.zip", content)


def test_members_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    content = bytearray(zipped([("a", b"1" * 200), ("b", b"2" * 200)]))
    content[: 30 + 1 + 200] = b""  # both now lie in the bytes of one
    start = content.index(b"PK\x01\x02")
    struct.pack_into("<L", content, len(content) - 6, start)
    assert "overlap" in refusal(tmp_path / "a.zip", bytes(content))


@pytest.mark.parametrize("content", [b"", b"PK", b"no archive at all", b"PK\x05\x06" + bytes(18)])
def test_what_is_no_archive_holds_nothing(content: bytes, tmp_path: Path) -> None:
    if content.endswith(bytes(18)):
        assert not opened(tmp_path / "a.zip", content).members
    else:
        assert "no zip archive, or one that is cut off" in refusal(tmp_path / "a.zip", content)


@settings(IN_FOLDER, max_examples=300)
@given(data=st.data(), method=st.sampled_from([STORED, DEFLATED, ZSTANDARD]))
def test_whatever_is_done_to_an_archive_it_is_read_or_refused(data: st.DataObject, method: int, tmp_path: Path) -> None:
    content = bytearray(zipped([("a", b"abc" * 50), ("b", b"d" * 100)], method=method))
    for _ in range(data.draw(st.integers(0, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(content[: data.draw(st.integers(0, len(content)))]) if data.draw(st.booleans()) else bytes(content)
    with contextlib.suppress(InputError):
        for name, read in contents(tmp_path / "a.zip", cut).items():
            assert zlib.crc32(read) == Archive(InputFile(path=tmp_path / "a.zip", name="a")).members[name].crc
