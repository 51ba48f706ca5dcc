"""The table of outputs that an audit of generated text reads (SPEC 17.1)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from core.data.columns import Bools, Floats, Ints, is_text, numbers, text_codes, trimmed, whole_numbers
from core.data.problems import ProblemLog, nearest, quoted
from core.fairness.taxonomy import AXIS_ALIASES, label_name
from core.fairness.text_metric import BASE

Texts = npt.NDArray[np.object_]

HARM_PREFIX, GROUP_PREFIX = "harm_", "group_"
SPELLINGS = {"harm_dehumanization": "harm_dehumanisation"}
_TRUE, _FALSE = frozenset({"1", "true", "yes"}), frozenset({"0", "false", "no"})


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsTable:
    """Outputs, one a row.

    Attributes
    ----------
    id : object array of str
        Each once.
    scenario : object array of str
        The prompt: a base prompt and its variants share one.
    axis : object array of str
        Attribute that the variant swaps; empty for base prompts.
    variant : object array of str
        Value that the prompt names; empty for base prompts.
    replicate : int64 array
    labels : mapping of str to object array
        By axis, the labeller's label of each output; '' where there is none.
    context : object array of str or None
        What a stereotype would be about (an occupation, say); '' where there is none.
    harms : mapping of str to float64 array
        By harm category, in [0, 1]; NaN where missing.
    refused, helpfulness, token_count : float64 array or None
        0 or 1, 1 to 5, at least 0; NaN where missing. None when the table has no such column.
    embedding : float64 array of shape (n, d) or None
        A row of zeros where missing.
    ignored : tuple of str
        Columns that no metric reads.
    """

    id: Texts
    scenario: Texts
    axis: Texts
    variant: Texts
    replicate: Ints
    labels: Mapping[str, Texts]
    context: Texts | None = None
    harms: Mapping[str, Floats]
    refused: Floats | None = None
    helpfulness: Floats | None = None
    token_count: Floats | None = None
    embedding: Floats | None = None
    ignored: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.id)

    @property
    def base(self) -> Bools:
        """Which outputs answer a neutral prompt."""
        neutral: Bools = self.variant == ""
        return neutral

    def taken(self, rows: Any) -> OutputsTable:
        """Return some rows, by mask or by position."""

        def part(values: Any) -> Any:
            return None if values is None else values[rows]

        return OutputsTable(
            id=self.id[rows],
            scenario=self.scenario[rows],
            axis=self.axis[rows],
            variant=self.variant[rows],
            replicate=self.replicate[rows],
            labels={axis: values[rows] for axis, values in self.labels.items()},
            context=part(self.context),
            harms={name: values[rows] for name, values in self.harms.items()},
            refused=part(self.refused),
            helpfulness=part(self.helpfulness),
            token_count=part(self.token_count),
            embedding=part(self.embedding),
            ignored=self.ignored,
        )


def outputs_table(
    data: Any,
    *,
    harm_categories: Sequence[str],
    source: str = "outputs",
    log: ProblemLog | None = None,
    place: Ints | None = None,
) -> OutputsTable:
    """Read and check a table of outputs.

    Parameters
    ----------
    data : pyarrow.Table, pandas.DataFrame, or mapping of str to sequence
        Columns ``id, scenario_id, variant`` are needed; ``axis, replicate, group_<axis>, context, harm_<category>,
        is_refusal, helpfulness, token_count, embedding`` are read when they are there. Text cells are trimmed; an
        empty cell is missing.
    harm_categories : sequence of str
        Categories that have a weight; a ``harm_`` column of another is a problem.
    source : str
        Name of the table in messages.
    log : ProblemLog, optional
        Given, problems are noted there and nothing is raised; `place` must go with it.
    place : int64 array, optional
        File and line of each row (`core.data.problems.FILE_SHIFT`).

    Returns
    -------
    OutputsTable

    Raises
    ------
    InputError
        All problems at once: columns missing, misspelt or of the wrong kind, values out of range, an id or a
        replicate that stands twice, embeddings of several lengths.

    Examples
    --------
    >>> table = outputs_table(
    ...     {"id": ["a", "b"], "scenario_id": ["s", "s"], "variant": ["base", "female"], "is_refusal": [0, 1]},
    ...     harm_categories=["slurs"])
    >>> len(table), table.variant.tolist(), table.refused.tolist()
    (2, ['', 'female'], [0.0, 1.0])
    """
    columns = _columns(data)
    owned = log is None
    log = log if log is not None else ProblemLog([source], ["row"])
    n = len(next(iter(columns.values()))) if columns else 0
    rows = np.arange(1, n + 1, dtype=np.int64) if place is None else place
    reader = _Reader(columns=columns, place=rows, log=log)
    needed = [name for name in ("id", "scenario_id", "variant") if name not in columns]
    if needed:
        found = f"has {', '.join(columns)}" if columns else "has no column"
        log.add(source, f"column{'s' if len(needed) > 1 else ''} missing: {', '.join(needed)}; {found}")
        log.stop()
    table = _table(reader, harm_categories)
    _check_rows(table, reader)
    if owned:
        log.stop_if_any()
    return table


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reader:
    """Columns, and where to note what is wrong with them."""

    columns: dict[str, Any]
    place: Ints
    log: ProblemLog

    def text(self, name: str, *, needed: bool = False) -> Texts:
        found = text_codes(self.columns[name], name, self.place, self.log)
        texts = np.empty(len(found.values) + 1, dtype=object)
        texts[:] = [*found.values, ""]
        if needed:
            self.log.rows(self.place, np.asarray(found.codes) < 0, lambda _: f"{name} is empty")
        values: Texts = texts[found.codes]
        return values

    def optional_text(self, name: str) -> Texts:
        return self.text(name) if name in self.columns else np.full(len(self.place), "", dtype=object)

    def number(self, name: str, low: float, high: float) -> Floats | None:
        if name not in self.columns:
            return None
        before = self.log.count
        values, valid = numbers(self.columns[name], name, self.place, self.log)
        given = np.ones(len(values), bool) if valid is None else valid
        if self.log.count == before:
            outside = given & ~((values >= low) & (values <= high))
            self.log.rows(self.place, outside, lambda i: f"{name} {values[i]:g} is outside {_range(low, high)}")
        return np.where(given, values, np.nan)

    def flag(self, name: str) -> Floats | None:
        if name not in self.columns:
            return None
        array = self.columns[name]
        if not is_text(array):
            values = self.number(name, 0.0, 1.0)
            assert values is not None  # noqa: S101 (the column is there)
            between = (values > 0.0) & (values < 1.0)
            self.log.rows(self.place, between, lambda i: f"{name} {values[i]:g} is neither 0 nor 1")
            return values
        texts = [None if text is None else text.lower() for text in trimmed(array).to_pylist()]
        bad = np.array([text is not None and text not in _TRUE | _FALSE for text in texts], bool)
        self.log.rows(self.place, bad, lambda i: f"{name} {quoted(texts[i])} is neither 0 nor 1")
        return np.array([np.nan if text is None else float(text in _TRUE) for text in texts])

    def embedding(self) -> Floats | None:
        if "embedding" not in self.columns:
            return None
        array = self.columns["embedding"]
        lists = [self._vector(i, text) for i, text in enumerate(array.to_pylist())] if is_text(array) else None
        if lists is not None:
            array = pa.array(lists, pa.list_(pa.float64()))
        if pa.types.is_null(array.type):
            return np.zeros((len(self.place), 1))
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type) or _is_fixed(array.type)):
            self.log.at(
                int(self.place[0]), f"column 'embedding' is of type {array.type}; lists of numbers are expected"
            )
            return None
        return self._matrix(array.cast(pa.large_list(pa.float64())))

    def _vector(self, row: int, text: str | None) -> list[float] | None:
        if text is None or not text.strip():
            return None
        try:
            values = json.loads(text)
            if isinstance(values, list) and all(type(value) in (int, float) for value in values):
                return [float(value) for value in values]
        except ValueError:
            pass
        self.log.at(int(self.place[row]), f"embedding {quoted(text)} is no list of numbers")
        return None

    def _matrix(self, array: Any) -> Floats:
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        sizes, counts = np.unique(lengths[lengths > 0], return_counts=True)
        size = int(sizes[np.argmax(counts)]) if len(sizes) else 1
        other = (lengths > 0) & (lengths != size)
        self.log.rows(self.place, other, lambda i: f"embedding has {lengths[i]} numbers, most have {size}")
        matrix = np.zeros((len(lengths), size))
        kept = lengths == size
        flat = array.filter(pa.array(kept)).flatten()
        values = pc.fill_null(flat, np.nan).to_numpy(zero_copy_only=False).reshape(-1, size)
        finite = np.ones(len(lengths), bool)
        finite[kept] = np.isfinite(values).all(axis=1)
        self.log.rows(self.place, ~finite, lambda _: "embedding holds an empty cell, NaN or infinity")
        matrix[kept] = np.where(np.isfinite(values), values, 0.0)
        return matrix


def _table(reader: _Reader, harm_categories: Sequence[str]) -> OutputsTable:
    columns = reader.columns
    variant = reader.text("variant")
    variant = np.where(np.char.lower(variant.astype(str)) == BASE, "", variant) if len(variant) else variant
    harms = _harms(reader, harm_categories)
    groups = [name for name in columns if name.startswith(GROUP_PREFIX)]
    read = {"id", "scenario_id", "axis", "variant", "replicate", "context", "is_refusal", "helpfulness"}
    read |= {"token_count", "embedding", *groups}
    return OutputsTable(
        id=reader.text("id", needed=True),
        scenario=reader.text("scenario_id", needed=True),
        axis=np.where(variant == "", "", reader.optional_text("axis")).astype(object),
        variant=variant.astype(object),
        replicate=_replicates(reader),
        labels=_labels(reader, groups),
        context=reader.text("context") if "context" in columns else None,
        harms=harms,
        refused=reader.flag("is_refusal"),
        helpfulness=reader.number("helpfulness", 1.0, 5.0),
        token_count=reader.number("token_count", 0.0, np.inf),
        embedding=reader.embedding(),
        ignored=tuple(sorted(name for name in columns if name not in read and not name.startswith(HARM_PREFIX))),
    )


def _replicates(reader: _Reader) -> Ints:
    if "replicate" not in reader.columns:
        return np.zeros(len(reader.place), np.int64)
    return whole_numbers(reader.columns["replicate"], "replicate", reader.place, reader.log)


def _labels(reader: _Reader, names: Sequence[str]) -> dict[str, Texts]:
    labels: dict[str, Texts] = {}
    for name in sorted(names):
        axis = label_name(name.removeprefix(GROUP_PREFIX))
        axis = AXIS_ALIASES.get(axis, axis)
        if axis in labels:
            reader.log.at(int(reader.place[0]), f"column '{name}' and another are both of axis '{axis}'")
        labels[axis] = reader.text(name)
    return labels


def _harms(reader: _Reader, categories: Sequence[str]) -> dict[str, Floats]:
    harms: dict[str, Floats] = {}
    known = [f"{HARM_PREFIX}{name}" for name in sorted(categories)]
    for name in sorted(column for column in reader.columns if column.startswith(HARM_PREFIX)):
        of = SPELLINGS.get(name, name)
        values = reader.number(name, 0.0, 1.0)
        if of not in known:
            message = f"column '{name}' is no harm that has a weight; {nearest(name, known)}"
            reader.log.add(reader.log.sources[0] if reader.log.sources else "outputs", message)
        elif of.removeprefix(HARM_PREFIX) in harms:
            reader.log.add(reader.log.sources[0], f"column '{name}' stands twice, in two spellings")
        elif values is not None:
            harms[of.removeprefix(HARM_PREFIX)] = values
    return harms


def _check_rows(table: OutputsTable, reader: _Reader) -> None:
    first = _first_of(table.id)
    again = (first != np.arange(len(first))) & (table.id != "")
    where = reader.log.where
    reader.log.rows(
        reader.place,
        again,
        lambda i: f"id {quoted(table.id[i])} stands already at {where(int(reader.place[first[i]]))}",
    )
    if "replicate" not in reader.columns or again.any():
        return
    key = np.zeros(len(table), np.int64)
    for values in (table.scenario, table.axis, table.variant, table.replicate):
        codes, found = pd.factorize(values)
        key = pd.factorize(key * len(found) + codes)[0]
    first = _first_of(key)
    reader.log.rows(
        reader.place,
        first != np.arange(len(first)),
        lambda i: (
            f"replicate {table.replicate[i]} of scenario {quoted(table.scenario[i])}, variant "
            f"{quoted(table.variant[i] or BASE)} stands already at {where(int(reader.place[first[i]]))}"
        ),
    )


def _first_of(values: Any) -> Ints:
    codes, found = pd.factorize(values)
    first = np.full(len(found), len(codes), np.int64)
    np.minimum.at(first, codes, np.arange(len(codes)))
    return first[codes]


def _columns(data: Any) -> dict[str, Any]:
    if isinstance(data, pd.DataFrame):
        data = pa.Table.from_pandas(data, preserve_index=False)
    if isinstance(data, pa.Table):
        return {name: _combined(data.column(name)) for name in data.column_names}
    return {name: _combined(pa.chunked_array([pa.array(values, from_pandas=False)])) for name, values in data.items()}


def _combined(column: Any) -> Any:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _is_fixed(kind: Any) -> bool:
    return bool(pa.types.is_fixed_size_list(kind))


def _range(low: float, high: float) -> str:
    return f"[{low:g}, {high:g}]" if np.isfinite(high) else f"{low:g} and above"
