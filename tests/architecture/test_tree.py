"""What git tracks can be read by anybody, anywhere."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

# Written in pieces, so that this file does not hold what it looks for.
HOMES = "|".join(("root", "work", "home" + r"/[a-z_][\w-]*", "Users" + r"/\w+"))
MACHINE_PATH = re.compile(rf"(?<![\w.~)}}-])/(?:{HOMES})(?![\w-])")
UNFINISHED = re.compile(r"\b(?:TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK|TB" + r"D|WI" + r"P)\b")


@pytest.fixture(scope="module")
def tracked(project: Path) -> list[tuple[str, str]]:
    """Path and text of every text file that git tracks."""
    try:
        listing = subprocess.run(["git", "ls-files", "-z"], cwd=project, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return list(_texts(project, listing.stdout.split("\0")))


def _texts(project: Path, names: list[str]) -> Iterator[tuple[str, str]]:
    for name in filter(None, names):
        path = project / name
        if not path.is_file():
            continue
        try:
            yield name, path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue


def _hits(tracked: list[tuple[str, str]], pattern: re.Pattern[str]) -> list[str]:
    return [
        f"{name}:{number}: {line.strip()[:100]}"
        for name, text in tracked
        for number, line in enumerate(text.splitlines(), start=1)
        if pattern.search(line)
    ]


def test_no_tracked_file_holds_a_path_of_a_machine(tracked: list[tuple[str, str]]) -> None:
    assert _hits(tracked, MACHINE_PATH) == []


def test_no_tracked_file_holds_the_folder_of_this_checkout(tracked: list[tuple[str, str]], project: Path) -> None:
    assert [name for name, text in tracked if f"{project}/" in text] == []


def test_no_tracked_file_holds_a_mark_of_unfinished_work(tracked: list[tuple[str, str]]) -> None:
    assert _hits(tracked, UNFINISHED) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cd /" + "root/project", True),
        ("'/" + "work/main'", True),
        ("/" + "home/ada/x", True),
        ("the /" + "workers page", False),
        ("https://example.org/" + "work/1", False),
        ("${HOME}/" + "work", False),
    ],
)
def test_a_machine_path_is_told_from_other_text(text: str, found: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) is found


def test_every_yaml_file_parses(project: Path) -> None:
    broken = {}
    for folder in ("deployments", "tasks"):
        for path in sorted([*(project / folder).rglob("*.yaml"), *(project / folder).rglob("*.yml")]):
            try:
                yaml.safe_load(path.read_text(encoding="utf-8"))
            except yaml.YAMLError as error:
                broken[str(path.relative_to(project))] = str(error)
    assert broken == {}
