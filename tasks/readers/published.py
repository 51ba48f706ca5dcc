"""Readers of published golden sets, as their authors distribute them.

``hatecheck``: https://github.com/paul-rottger/hatecheck-data, file ``test_suite_cases.csv`` (CC-BY-4.0).
``openai-moderation-golden``: https://github.com/openai/moderation-api-release, ``data/samples-1680.jsonl.gz`` (MIT).
Neither is part of assay.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.data.facts import SourceFacts
from core.errors import InputError, Problem
from tasks.readers.table import CsvSource, JsonLinesSource
from tasks.storage import InputFile, file_digest

HATECHECK_SHA256 = "ecf0dc1e93fccc90b6f880e632b19e635c0f0a68b3157915a9e20b6938f121cf"
OPENAI_MODERATION_SHA256 = "ef3f7de86ee394fe337b0a566ba4b9c7db058f3caa8d6a4a0006138b663ab9a8"

OPENAI_CATEGORIES = {"hate": "H", "violence": "V", "self-harm": "SH", "sexual": "S"}
UNLABELLED_CATEGORY = "dangerous-instructions"

READER_OF = {HATECHECK_SHA256: "hatecheck", OPENAI_MODERATION_SHA256: "openai-moderation-golden"}
"""Published sets by their digests, with the reader that knows them."""

MAX_PUBLISHED_BYTES = 10_000_000


def reader_of(path: Path) -> str | None:
    """Recognise a published set by its content; None for any other file, or none that can be read."""
    try:
        published = path.is_file() and path.stat().st_size <= MAX_PUBLISHED_BYTES
        return READER_OF.get(file_digest(path)) if published else None
    except OSError:
        return None


class GoldenSource:
    """A golden table held in memory.

    Attributes
    ----------
    published : bool
        Whether the bytes are those that the authors published.
    """

    unit = "line"
    kind: str | None = "golden"
    facts: SourceFacts | None = None

    def __init__(self, file: InputFile, table: dict[str, list[Any]], lines: list[int], published: str) -> None:
        self.file = file
        self.columns = tuple(table)
        self.published = file_digest(file.path) == published
        self._table, self._lines = table, lines

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield the whole table."""
        arrays = [pa.array(self._table[name], pa.string()) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns)), np.array(self._lines, np.int64)


def open_hatecheck(file: InputFile) -> GoldenSource:
    """Read HateCheck: one category ``hate``; the template is the cluster, functionality and target group are slices."""
    source = CsvSource(file, delimiter=",")
    needed = ("case_id", "test_case", "label_gold", "functionality", "target_ident", "templ_id")
    _need(file, needed, source.columns)
    names = ("trace_id", "category", "label", "cluster", "functionality", "target_group", "text")
    table: dict[str, list[Any]] = {name: [] for name in names}
    lines: list[int] = []
    problems: list[Problem] = []
    label_of = {"hateful": "1", "non-hateful": "0"}
    for batch, places in source.batches(needed):
        for row, line in zip(batch.to_pylist(), places.tolist(), strict=True):
            label = label_of.get(row["label_gold"] or "")
            if label is None:
                problems.append(Problem(source=file.name, line=line, message=(
                    f"label_gold is {row['label_gold']!r}; 'hateful' or 'non-hateful' is expected"
                )))  # fmt: skip
            template = row["templ_id"]
            values = (
                row["case_id"], "hate", label, None if template is None else f"template-{template}",
                row["functionality"], row["target_ident"], row["test_case"],
            )  # fmt: skip
            for name, value in zip(names, values, strict=True):
                table[name].append(value)
            lines.append(line)
    if problems:
        raise InputError(problems)
    return GoldenSource(file, table, lines, HATECHECK_SHA256)


def open_openai_moderation_golden(file: InputFile) -> GoldenSource:
    """Read the OpenAI moderation set: a missing key is unlabelled, never 0; the trace id is the row, from 0.

    It has no labels for dangerous instructions: that category comes out empty, and so not calibrated.
    """
    source = JsonLinesSource(file)
    _need(file, ("prompt", *OPENAI_CATEGORIES.values()), source.columns)
    table: dict[str, list[Any]] = {name: [] for name in ("trace_id", *OPENAI_CATEGORIES, UNLABELLED_CATEGORY, "text")}
    lines: list[int] = []
    for batch, places in source.batches(("prompt", *OPENAI_CATEGORIES.values())):
        for row, line in zip(batch.to_pylist(), places.tolist(), strict=True):
            table["trace_id"].append(str(len(lines)))
            table["text"].append(row["prompt"])
            table[UNLABELLED_CATEGORY].append(None)
            for category, key in OPENAI_CATEGORIES.items():
                table[category].append(row[key])
            lines.append(line)
    return GoldenSource(file, table, lines, OPENAI_MODERATION_SHA256)


def _need(file: InputFile, needed: Sequence[str], columns: Sequence[str]) -> None:
    problems = [
        Problem(source=file.name, message=f"column '{name}' is missing; is this the file as it was published?")
        for name in needed
        if name not in columns
    ]
    if problems:
        raise InputError(problems)
