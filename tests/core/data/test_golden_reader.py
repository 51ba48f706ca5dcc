"""Golden sets with several raters: labels are majorities of their votes."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from core.data.columns import RawBatch
from core.data.golden import GoldenSet
from core.data.golden_reader import GoldenReader, golden_layout
from core.data.problems import ProblemLog
from core.errors import InputError


def read(*rows: tuple[Any, ...], columns: str = "trace_id,category,label,rater") -> GoldenSet:
    names = columns.split(",")
    table = pa.table({name: pa.array([row[i] for row in rows]) for i, name in enumerate(names)})
    log = ProblemLog(["g.csv"], ["line"])
    (batch,) = table.to_batches()
    raw = RawBatch(table=batch, place=pa.array(range(2, len(rows) + 2)).to_numpy())
    layout = golden_layout(names, raw, "g.csv", log, categories=None, slices=())
    reader = GoldenReader(log, None)
    assert layout is not None
    reader.add(raw, layout)
    return reader.finish()


def labels(found: GoldenSet) -> dict[str, list[int]]:
    return {trace: row.tolist() for trace, row in zip(found.trace_ids, found.labels, strict=True)}


def test_a_label_is_the_majority_of_the_votes_and_a_tie_is_none() -> None:
    found = read(
        ("x", "hate", 1, "ann"), ("x", "hate", 1, "bob"), ("x", "hate", 0, "cy"),
        ("y", "hate", 1, "ann"), ("y", "hate", 0, "bob"),
        ("z", "hate", 0, "ann"),
    )  # fmt: skip
    assert labels(found) == {"x": [1], "y": [-1], "z": [0]}
    assert found.votes is not None
    assert found.votes.counts[:, 0].tolist() == [[1, 2], [1, 1], [1, 0]]
    assert (found.votes.n_raters, found.votes.n_ties, found.n_duplicates) == (3, 1, 0)


def test_an_empty_label_is_no_vote() -> None:
    found = read(("x", "hate", 1, "ann"), ("x", "hate", None, "bob"), ("y", "hate", None, "ann"))
    assert labels(found) == {"x": [1], "y": [-1]}
    assert found.votes is not None
    assert (found.votes.counts.sum(), found.votes.n_ties) == (1, 0)


def test_labels_of_turns_are_brought_to_traces_rater_by_rater() -> None:
    found = read(
        ("x", 0, "hate", 0, "ann"), ("x", 1, "hate", 1, "ann"),  # ann: 1
        ("x", 0, "hate", 0, "bob"), ("x", 1, "hate", 0, "bob"),  # bob: 0
        ("x", 0, "hate", 0, "cy"),  # cy did not see the turn that ann objects to
        columns="trace_id,turn,category,label,rater",
    )  # fmt: skip
    assert labels(found) == {"x": [-1]}
    assert found.votes is not None
    assert found.votes.counts.tolist() == [[[1, 1]]]


def test_the_same_rater_twice_is_a_duplicate_or_a_contradiction() -> None:
    twice = read(("x", "hate", 1, "ann"), ("x", "hate", 1, "ann"), ("x", "hate", 0, "bob"))
    assert (labels(twice), twice.n_duplicates) == ({"x": [-1]}, 1)
    with pytest.raises(
        InputError, match=r"g.csv:3: trace 'x' has another label for hate by rater 'ann' in g.csv:2; keep"
    ):
        read(("x", "hate", 1, "ann"), ("x", "hate", 0, "ann"))


def test_rows_that_name_no_rater_are_one_raters() -> None:
    found = read(("x", "hate", 1, None), ("x", "hate", 1, "ann"), ("y", "hate", 0, None))
    assert found.votes is not None
    assert found.votes.n_raters == 2
    with pytest.raises(InputError, match="keep one of the two, or say in a column 'rater'"):
        read(("x", "hate", 1, None), ("x", "hate", 0, None), ("x", "hate", 0, "ann"))


def test_one_rater_alone_changes_nothing() -> None:
    rows = (("x", "hate", 1), ("y", "hate", 0))
    plain = read(*rows, columns="trace_id,category,label")
    named = read(*((*row, "ann") for row in rows))
    assert named.votes is None
    assert named.sha256 == plain.sha256


def test_raters_of_a_wide_table_vote_in_every_category() -> None:
    found = read(("x", 1, 0, 7), ("x", 1, 1, 8), columns="trace_id,hate,fraud,rater")
    assert found.categories == ("fraud", "hate")
    assert labels(found) == {"x": [-1, 1]}


def test_the_digest_knows_votes_and_neither_names_nor_order_of_raters() -> None:
    rows = [("x", "hate", 1, "ann"), ("x", "hate", 1, "bob"), ("y", "hate", 0, "ann")]
    renamed = [(trace, category, label, {"ann": "2", "bob": "1"}[rater]) for trace, category, label, rater in rows]
    assert read(*rows).sha256 == read(*reversed(renamed)).sha256
    assert read(*rows).sha256 != read(*rows, ("y", "hate", 0, "bob")).sha256
