"""The cache stays within its bound, and never takes away what is in use."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import InputError
from tasks.storage.cache import Cache, Lease


def stored(cache: Cache, name: str, n_bytes: int, age: int) -> Path:
    cache.folder.mkdir(exist_ok=True)
    path = cache.path(("x", name), name)
    path.write_bytes(b"x" * n_bytes)
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "s3", 100)


def test_the_least_recently_used_go_first_and_only_as_many_as_needed(cache: Cache) -> None:
    old, older, new = (stored(cache, name, 30, age) for name, age in [("old", 2), ("older", 3), ("new", 1)])
    cache.make_room(40)
    assert [path.exists() for path in (older, old, new)] == [False, True, True]


def test_what_is_in_use_stays_and_goes_once_it_is_released(cache: Cache) -> None:
    used, other = stored(cache, "used.csv", 50, 2), stored(cache, "other.csv", 50, 1)
    lease = Lease(used)
    second = pickle.loads(pickle.dumps(lease))
    cache.make_room(50)
    assert (used.exists(), other.exists()) == (True, False)
    del lease
    gc.collect()
    with pytest.raises(InputError, match="ASSAY_CACHE_BYTES"):
        cache.make_room(60)
    assert copy.copy(second).path == used
    del second
    gc.collect()
    cache.make_room(60)
    assert not used.exists()


USER = """
import pathlib, sys
from tasks.storage.cache import Lease
lease = Lease(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


def test_what_another_process_uses_stays_until_that_process_ends(cache: Cache, project: Path) -> None:
    used, other = stored(cache, "used.csv", 50, 2), stored(cache, "other.csv", 50, 1)
    command = [sys.executable, "-c", USER, str(used)]
    with subprocess.Popen(command, cwd=project, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"held\n"
        cache.make_room(50)
        assert (used.exists(), other.exists()) == (True, False)
    cache.make_room(100)
    assert not used.exists()
    assert list((cache.folder / "in-use").iterdir()) == []


def test_what_cannot_fit_is_told_before_anything_is_downloaded(cache: Cache) -> None:
    with pytest.raises(InputError, match=r"101 bytes .* bounded to 100"):
        cache.make_room(101)


def test_the_part_of_a_copy_in_use_stays(cache: Cache) -> None:
    lease = Lease(cache.path(("x", "a"), "a.csv"))
    cache.folder.mkdir(exist_ok=True)
    part = lease.path.with_name(lease.path.name + ".part")
    part.write_bytes(b"x" * 60)
    with pytest.raises(InputError):
        cache.make_room(50)
    assert part.exists()


@pytest.mark.parametrize("name", ["..", "a/../../b.csv", "x" * 300 + ".csv.gz", "na me\n.csv", ""])
def test_a_copy_stays_in_the_folder_and_keeps_its_suffix_whatever_the_key(cache: Cache, name: str) -> None:
    path = cache.path(("x",), name)
    assert path.resolve().parent == cache.folder.resolve()
    assert len(path.name) < 200
    assert path.name.endswith(name[-7:]) or not name.endswith(".gz")


def test_a_broken_off_download_is_gone_on_with_and_ends_as_the_copy(cache: Cache) -> None:
    cache.folder.mkdir(exist_ok=True)
    path = cache.path(("x",), "a.csv")
    with contextlib.suppress(ZeroDivisionError), cache.download(path) as file:
        assert file is not None
        file.write(b"half")
        raise ZeroDivisionError
    assert not path.exists()
    with cache.download(path) as file:
        assert file is not None
        assert file.tell() == 4
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    with cache.download(path) as file:
        assert file is None
