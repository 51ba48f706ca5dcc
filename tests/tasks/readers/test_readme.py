"""The README's table of readers names the options that they have, and no others."""

from __future__ import annotations

import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tasks.readers.verdicts import VerdictSource

README = (Path(__file__).parents[3] / "README.md").read_text()
READERS = {entry.name: entry.load() for entry in entry_points(group="assay.readers")}


@pytest.mark.parametrize(
    "name", sorted(n for n, reader in READERS.items() if isinstance(reader, type) and issubclass(reader, VerdictSource))
)
def test_the_readme_lists_a_readers_own_options(name: str) -> None:
    (row,) = (line for line in README.splitlines() if line.startswith("| `") and f"`{name}`" in line.split("|")[1])
    assert re.findall("`(.+?)`", row.split("|")[3]) == list(READERS[name].OPTIONS)
