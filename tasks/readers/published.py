"""Readers of published golden sets, as their authors distribute them.

``hatecheck``: https://github.com/paul-rottger/hatecheck-data, file ``test_suite_cases.csv`` (CC-BY-4.0); its
multilingual suite, https://github.com/rewire-online/multilingual-hatecheck, a file of ``MHC Final Cases``; and
https://github.com/HannahKirk/Hatemoji, ``HatemojiCheck.csv`` (CC-BY-4.0).
``openai-moderation-golden``: https://github.com/openai/moderation-api-release, ``data/samples-1680.jsonl.gz`` (MIT).
None of them is part of assay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.data.facts import SourceFacts
from core.data.problems import quoted
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


def published_reader_of(path: Path) -> str | None:
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
    published : bool or None
        Whether the bytes are those that the authors published; None where assay does not know those.
    """

    unit = "line"
    kind: str | None = "golden"
    facts: SourceFacts | None = None

    def __init__(self, file: InputFile, table: dict[str, list[Any]], lines: list[int], published: str | None) -> None:
        self.file = file
        self.columns = tuple(table)
        self.published = None if published is None else file_digest(file.path) == published
        self._table, self._lines = table, lines

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield the whole table."""
        arrays = [pa.array(self._table[name], pa.string()) for name in columns]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns)), np.array(self._lines, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """A suite of functional tests of hate detection: one category ``hate``, texts made of templates.

    Attributes
    ----------
    name : str
    marks : frozenset of str
        Columns by which the suite is known from the others.
    trace_id, text, target_group : str
        Their columns.
    template : tuple of str
        Names that the column of the template has in the suite's editions. Texts of one template are one cluster.
    label_of : mapping of str to str
        What ``label_gold`` says.
    slices : mapping of str to str
        Slice -> its column, beside functionality and target group.
    languages : bool
        Whether the trace id begins with the language, which is then a slice.
    sha256 : str or None
        Of the published file; None for suites of which assay knows no digest.
    """

    name: str
    marks: frozenset[str]
    trace_id: str
    text: str
    target_group: str
    template: tuple[str, ...]
    label_of: Mapping[str, str]
    slices: Mapping[str, str] = field(default_factory=dict)
    languages: bool = False
    sha256: str | None = None

    def columns(self, found: Sequence[str]) -> tuple[str, ...]:
        """Return the columns to read, the template's by the name that it has here."""
        template = next((name for name in self.template if name in found), self.template[0])
        fixed = (self.trace_id, self.text, "label_gold", "functionality", self.target_group)
        return (*fixed, template, *self.slices.values())


_HATEFUL = {"hateful": "1", "non-hateful": "0"}

SUITES = (
    Suite(
        name="Multilingual HateCheck",
        marks=frozenset({"mhc_case_id"}),
        trace_id="mhc_case_id",
        text="test_case",
        target_group="target_ident",
        template=("templ_id",),
        label_of=_HATEFUL,
        languages=True,
    ),
    Suite(
        name="HateCheck",
        marks=frozenset({"case_id", "test_case"}),
        trace_id="case_id",
        text="test_case",
        target_group="target_ident",
        template=("templ_id",),
        label_of=_HATEFUL,
        sha256=HATECHECK_SHA256,
    ),
    Suite(
        name="HatemojiCheck",
        marks=frozenset({"case_id", "text", "set"}),
        trace_id="case_id",
        text="text",
        target_group="target",
        template=("test_group_id", "test_grp_id"),  # in the file, and in its description
        label_of={"1": "1", "0": "0"},
        slices={"perturbation": "set"},
    ),
)


def open_hatecheck(file: InputFile) -> GoldenSource:
    """Read HateCheck, its multilingual suite or HatemojiCheck; which one it is, the header says.

    Functionality and target group are slices; so is the language, or how an emoji case was perturbed. The cluster is
    the template; in HatemojiCheck the group of a template and its perturbations, which are one sentence. Labels are the
    gold ones, also where the annotators' majority was another.

    Raises
    ------
    InputError
        The header is none of the three, or a label is another word.
    """
    source = CsvSource(file, delimiter=",")
    suite = _suite_of(file, source.columns)
    needed = suite.columns(source.columns)
    _need(file, needed, source.columns)
    names = ("trace_id", "category", "label", "cluster", "functionality", "target_group", *suite.slices, "text")
    names = (*names, "language") if suite.languages else names
    table: dict[str, list[Any]] = {name: [] for name in names}
    lines: list[int] = []
    problems: list[Problem] = []
    for batch, places in source.batches(needed):
        for row, line in zip(batch.to_pylist(), places.tolist(), strict=True):
            if suite.label_of.get(row["label_gold"] or "") is None:
                expected = " or ".join(map(repr, suite.label_of))
                message = f"label_gold is {row['label_gold']!r}; {expected} is expected"
                problems.append(Problem(source=file.name, line=line, message=message))
            case = _case(suite, row, needed)
            for name in names:
                table[name].append(case[name])
            lines.append(line)
    if problems:
        raise InputError(problems)
    return GoldenSource(file, table, lines, suite.sha256)


def _suite_of(file: InputFile, columns: Sequence[str]) -> Suite:
    for suite in SUITES:
        if suite.marks <= set(columns):
            return suite
    known = "; ".join(f"{suite.name} ({', '.join(suite.columns(()))})" for suite in SUITES)
    here = ", ".join(map(quoted, columns[:12]))
    raise InputError.of(file.name, f"its columns ({here}) are of no suite that this reader knows: {known}", line=1)


def _case(suite: Suite, row: Mapping[str, str | None], columns: Sequence[str]) -> dict[str, str | None]:
    """Return a row's values by their names here."""
    trace_id, template = row[suite.trace_id], row[next(name for name in columns if name in suite.template)]
    language = (trace_id or "").rpartition("-")[0] or None
    cluster = None if template is None else f"template-{template}"
    return {
        "trace_id": trace_id,
        "category": "hate",
        "label": suite.label_of.get(row["label_gold"] or ""),
        "cluster": f"{language}-{cluster}" if suite.languages and cluster else cluster,
        "functionality": row["functionality"],
        "target_group": row[suite.target_group],
        "text": row[suite.text],
        "language": language,
        **{name: row[column] for name, column in suite.slices.items()},
    }


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
