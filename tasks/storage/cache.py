"""The local copies of objects: bounded in size, the least recently used go first, those in use stay.

A copy's file is named by what determines its bytes (endpoint, bucket, key, tag), so it is never stale. A download that
was broken off leaves a ``.part`` file, which the next one goes on from.

What is in use is known by leases within the process. Other processes read it off the list that each process keeps, and
holds locked for as long as it lives.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import threading
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from core.errors import InputError

PART = ".part"
LISTS = "in-use"
_in_use: Counter[Path] = Counter()
_lists: dict[Path, tuple[int, Path]] = {}
_lock = threading.RLock()


class Lease:
    """Keeps a cached file from being evicted by this process for as long as this object lives.

    Other processes leave the file alone for as long as this process lives.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _lock:
            _in_use[path] += 1
            with _told(path.parent):
                _announce(path)
        weakref.finalize(self, _release, path).atexit = False

    def __reduce__(self) -> tuple[type[Lease], tuple[Path]]:
        return Lease, (self.path,)


def _release(path: Path) -> None:
    with _lock:
        _in_use[path] -= 1


def _announce(path: Path) -> None:
    folder = path.parent / LISTS
    if folder not in _lists:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        unlocked = folder / f"{os.getpid()}-{secrets.token_hex(8)}"
        handle = os.open(unlocked, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        fcntl.flock(handle, fcntl.LOCK_EX)
        _lists[folder] = handle, unlocked.rename(unlocked.with_suffix(".list"))
    os.write(_lists[folder][0], f"{path.name}\n".encode())


def _used_elsewhere(folder: Path) -> set[Path]:
    """What other processes that live have announced; the lists of those that do not are removed."""
    _, own = _lists.get(folder / LISTS, (None, None))
    used: set[Path] = set()
    for name in (folder / LISTS).glob("*.list"):
        if name == own:
            continue
        with contextlib.suppress(FileNotFoundError), name.open(encoding="utf-8") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                name.unlink()
            except BlockingIOError:
                used |= {folder / line for line in file.read().splitlines()}
    return used


class Cache:
    """A folder of copies.

    Parameters
    ----------
    folder : Path
    max_bytes : int
        All files in it together.
    """

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder, self.max_bytes = folder, max_bytes

    def path(self, identity: Sequence[str], name: str) -> Path:
        """Name the file of a copy; the object's name is kept, since readers look at its suffix."""
        digest = hashlib.sha256("\n".join(identity).encode()).hexdigest()
        return self.folder / f"{digest[:32]}-{re.sub(r'[^A-Za-z0-9._-]', '_', name)[-100:]}"

    def make_room(self, n_bytes: int) -> None:
        """Evict copies until so many bytes fit; the caller holds leases on those that it needs.

        Raises
        ------
        InputError
            They cannot fit.
        """
        with _lock, _told(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            held = {path for path, count in _in_use.items() if count > 0} | _used_elsewhere(self.folder)
            files = [(path.stat(), path) for path in self.folder.iterdir() if path.is_file()]
            total = sum(status.st_size for status, _ in files)
            for status, path in sorted(files, key=lambda item: (item[0].st_mtime_ns, item[1])):
                if total + n_bytes <= self.max_bytes:
                    return
                if path not in held and path.with_suffix("") not in held and _evicted(path):
                    total -= status.st_size
            if n_bytes and total + n_bytes > self.max_bytes:
                raise InputError.of("cache", (
                    f"{n_bytes:,} bytes are to be downloaded, {total:,} are in use, and the cache is bounded to "
                    f"{self.max_bytes:,}: set ASSAY_CACHE_BYTES higher"
                ))  # fmt: skip

    @contextlib.contextmanager
    def download(self, path: Path) -> Iterator[IO[bytes] | None]:
        """Give the file of a download, at the end of what an earlier one left; it becomes the copy when all went well.

        None when another process has downloaded it by now: only one at a time writes.
        """
        part = path.with_name(path.name + PART)
        with _told(self.folder), _locked(part) as file:
            if path.exists():
                part.unlink(missing_ok=True)
                yield None
                return
            file.seek(0, os.SEEK_END)
            yield file
            file.flush()
            os.fsync(file.fileno())
            part.replace(path)


@contextlib.contextmanager
def _locked(part: Path) -> Iterator[IO[bytes]]:
    while True:
        with os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            # Whoever had the lock may have made it the copy, or evicted it: then this is no longer that file.
            if part.exists() and os.path.samestat(part.stat(), os.fstat(file.fileno())):
                yield file
                return


def _evicted(path: Path) -> bool:
    """Remove a file, unless another process is downloading into it."""
    if path.name.endswith(PART):
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
    path.unlink(missing_ok=True)
    return True


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError.of(str(folder), f"cannot be used as cache: {error.strerror}; see ASSAY_CACHE_DIR") from None
