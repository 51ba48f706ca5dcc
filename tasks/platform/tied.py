"""Processes that end with the one that started them, where the system can do that (Linux)."""

from __future__ import annotations

import ctypes
import signal
import sys
from pathlib import Path

_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def to_parent(number: int = signal.SIGTERM) -> None:
    """Have the system send this process a signal when its parent ends, however that ends."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of processes whose parents end before them, so that `children_of` finds them."""
    if _LIBC is not None:
        _LIBC.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def children_of(pid: int) -> list[int]:
    """Return the direct children of a process, the ended ones that nobody has looked at yet included."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[1]) == pid:
            found.append(int(entry.parent.name))
    return found


def descendants_of(pid: int) -> list[int]:
    """Return all processes below one, children before their children."""
    found = children_of(pid)
    for child in tuple(found):
        found += descendants_of(child)
    return found
