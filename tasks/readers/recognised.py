"""Which reader a file looks to be for, to say so when it was named without one; nothing is read by a guess."""

from __future__ import annotations

from pathlib import Path

from tasks.readers.published import published_reader_of

HEAD_BYTES = 4096

_TOOLS = (
    (b"SQLite format 3\0", "pyrit"),
    (b'"entry_type"', "garak"),
    (b'"evalId"', "promptfoo"),
    (b'"gradingResult"', "promptfoo"),
    (b'"categoriesAnalysis"', "azure-content-safety"),
    (b'"category_scores"', "openai-moderation"),
    (b'"attributeScores"', "perspective"),
)
"""What stands at the head of a tool's file, and its reader."""


def reader_of(path: Path) -> str | None:
    """Recognise a published set by its digest, or another tool's results by how they begin; None for any other file."""
    found = published_reader_of(path)
    if found is not None:
        return found
    try:
        if not path.is_file():  # a pipe would wait for a writer
            return None
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError:
        return None
    if head.startswith(b"PK\x03\x04") and path.suffix == ".eval":
        return "inspect"
    if head.lstrip().startswith(b"{") and b'"eval"' in head and b'"version"' in head:
        return "inspect"
    return next((reader for mark, reader in _TOOLS if mark in head), None)
