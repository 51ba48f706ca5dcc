"""The lock pins every dependency by hash and says nothing about where it came from."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from pathlib import Path

import pytest

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)(?:\[[^]]*\])?==(?P<version>[^ ;\\]+)")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}\b")


def normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.fixture(scope="module")
def lock(project: Path) -> str:
    return (project / "requirements.lock").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def requirements(lock: str) -> list[str]:
    """Logical lines, without comments."""
    lines = "\n".join(line for line in lock.splitlines() if not line.lstrip().startswith("#"))
    return [line for line in lines.replace("\\\n", " ").splitlines() if line.strip()]


def test_the_lock_names_no_host(lock: str) -> None:
    assert "://" not in lock
    assert not re.search(r"--(?:extra-)?index-url|--find-links|--trusted-host", lock)


def test_every_requirement_is_an_exact_pin_with_a_hash(requirements: list[str]) -> None:
    assert len(requirements) > 100
    loose = [line[:60] for line in requirements if not (PIN.match(line) and HASH.search(line))]
    assert not loose


def test_every_declared_dependency_is_in_the_lock(requirements: list[str], project: Path) -> None:
    declared = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = chain(declared["dependencies"], *declared["optional-dependencies"].values())
    names = {normalised(re.split(r"[^A-Za-z0-9._-]", text.strip(), maxsplit=1)[0]) for text in wanted}
    pinned = {normalised(match["name"]) for match in map(PIN.match, requirements) if match}
    assert names <= pinned, "run `make lock`"


def test_no_other_lock_or_constraints_file_names_a_host(project: Path) -> None:
    files = [path for pattern in ("*.lock", "requirements*.txt", "constraints*.txt") for path in project.glob(pattern)]
    tracked = [path for path in files if path.name != "uv.lock"]  # uv.lock records hosts, and is ignored by git
    assert [path.name for path in tracked if "://" in path.read_text(encoding="utf-8")] == []
