"""The table of outputs: what is read, and everything that is wrong with it at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from core.errors import InputError
from core.fairness.harm import HARM_WEIGHTS
from core.fairness.outputs import OutputsTable, outputs_table
from tests.core.fairness.outputs import columns

SMALL: dict[str, list[Any]] = {
    "id": ["a", "b", "c"],
    "scenario_id": ["s", "s", "t"],
    "variant": ["base", "female", ""],
}


def read(data: Any, **options: Any) -> OutputsTable:
    return outputs_table(data, harm_categories=list(HARM_WEIGHTS), **options)


def problems(data: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        read(data)
    return [str(problem) for problem in caught.value.problems]


def test_every_kind_of_table_is_read_alike() -> None:
    data = columns(scenarios=3)
    frame = pd.DataFrame(data)
    text = pa.table({name: [None if x is None else str(x) for x in values] for name, values in data.items()})
    tables = [read(data), read(frame), read(pa.table(data)), read(text)]
    for found in tables[1:]:
        assert found.id.tolist() == tables[0].id.tolist()
        assert found.variant.tolist() == tables[0].variant.tolist()
        for name in ("refused", "helpfulness", "token_count", "embedding", "replicate"):
            assert np.array_equal(getattr(found, name), getattr(tables[0], name), equal_nan=True), name
        assert found.labels["gender"].tolist() == tables[0].labels["gender"].tolist()
        assert all(np.array_equal(found.harms[name], tables[0].harms[name]) for name in HARM_WEIGHTS)


def test_base_prompts_are_empty_or_called_base() -> None:
    found = read(SMALL | {"variant": ["Base", "female", None], "axis": ["gender", "gender", None]})
    assert found.variant.tolist() == ["", "female", ""]
    assert found.axis.tolist() == ["", "gender", ""]
    assert found.base.tolist() == [True, False, True]


def test_empty_cells_are_missing_and_never_zero() -> None:
    found = read(
        SMALL
        | {
            "harm_slurs": [None, 0.0, 0.5],
            "is_refusal": [None, 1, 0],
            "helpfulness": ["", "4", " 5 "],
            "embedding": [None, [1.0, 2.0], [0.0, 1.0]],
            "group_gender": [None, "woman", " "],
        }
    )
    assert np.isnan(found.harms["slurs"]).tolist() == [True, False, False]
    assert found.refused is not None
    assert np.isnan(found.refused).tolist() == [True, False, False]
    assert found.helpfulness is not None
    assert found.helpfulness[1:].tolist() == [4.0, 5.0]
    assert found.embedding is not None
    assert found.embedding.tolist() == [[0.0, 0.0], [1.0, 2.0], [0.0, 1.0]]
    assert found.labels["gender"].tolist() == ["", "woman", ""]


def test_refusals_may_be_words_and_embeddings_json() -> None:
    found = read(SMALL | {"is_refusal": ["true", "No", None], "embedding": ["[1, 2.5]", "", "[0, 1]"]})
    assert found.refused is not None
    assert found.refused[:2].tolist() == [1.0, 0.0]
    assert found.embedding is not None
    assert found.embedding.tolist() == [[1.0, 2.5], [0.0, 0.0], [0.0, 1.0]]


def test_all_problems_are_told_at_once_with_their_rows() -> None:
    found = problems(
        {
            "id": ["a", "a", None],
            "scenario_id": ["s", None, "t"],
            "variant": ["base", "female", "female"],
            "harm_slurs": [1.2, 0.0, -0.1],
            "harm_slur": [0.0, 0.0, 0.0],
            "helpfulness": [0.5, 5.5, 3.0],
            "is_refusal": [0, 1, 2],
            "token_count": [-1, 3, 4],
            "embedding": [[1.0, 2.0], [1.0], [1.0, 2.0]],
            "replicate": [0, -1, 0.5],
        }
    )
    for expected in (
        "outputs:row 2: id 'a' stands already at outputs:row 1",
        "outputs:row 3: id is empty",
        "outputs:row 2: scenario_id is empty",
        "outputs:row 1: harm_slurs 1.2 is outside [0, 1]",
        "outputs:row 3: harm_slurs -0.1 is outside [0, 1]",
        "outputs: column 'harm_slur' is no harm that has a weight; did you mean 'harm_slurs'?",
        "outputs:row 1: helpfulness 0.5 is outside [1, 5]",
        "outputs:row 2: helpfulness 5.5 is outside [1, 5]",
        "outputs:row 3: is_refusal 2 is outside [0, 1]",
        "outputs:row 1: token_count -1 is outside 0 and above",
        "outputs:row 2: embedding has 1 numbers, most have 2",
        "outputs:row 3: replicate 0.5 is not a whole number",
        "outputs:row 2: replicate -1 is negative; replicates are counted from 0",
    ):
        assert expected in found


def test_a_replicate_stands_once() -> None:
    found = problems({"id": ["a", "b"], "scenario_id": ["s", "s"], "variant": ["", "base"], "replicate": [0, 0]})
    assert found == ["outputs:row 2: replicate 0 of scenario 's', variant 'base' stands already at outputs:row 1"]


def test_missing_columns_are_named_together() -> None:
    found = problems({"id": ["a"], "scenario": ["s"]})
    assert found == ["outputs: columns missing: scenario_id, variant; has id, scenario"]
    assert problems({}) == ["outputs: columns missing: id, scenario_id, variant; has no column"]


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("harm_slurs", [float("nan"), 0.0, 0.0], "NaN and infinity are not scores"),
        ("harm_slurs", ["high", "0", "0"], "is not a number"),
        ("is_refusal", ["maybe", "0", "1"], "neither 0 nor 1"),
        ("is_refusal", [0.5, 0.0, 1.0], "neither 0 nor 1"),
        ("embedding", ["[1, 2]", "[1, oops]", "[1, 2]"], "no list of numbers"),
        ("embedding", ["[1, 2]", "[true, 2]", "[1, 2]"], "no list of numbers"),
        ("embedding", [[1.0, float("nan")], [1.0, 2.0], [1.0, 2.0]], "NaN or infinity"),
        ("embedding", [1.0, 2.0, 3.0], "lists of numbers are expected"),
        ("group_gender", [1.5, 2.5, 3.5], "text or integers are expected"),
    ],
)
def test_hostile_cells_are_problems_and_no_tracebacks(name: str, values: list[Any], said: str) -> None:
    assert any(said in problem for problem in problems(SMALL | {name: values}))


def test_two_columns_of_one_axis_or_harm_are_a_problem() -> None:
    doubled = {"group_race": ["a"] * 3, "group_ethnicity": ["a"] * 3}
    assert any("both of axis 'ethnicity'" in problem for problem in problems(SMALL | doubled))
    spelt = {"harm_dehumanisation": [0.0] * 3, "harm_dehumanization": [0.0] * 3}
    assert any("two spellings" in problem for problem in problems(SMALL | spelt))


def test_the_american_spelling_and_columns_that_nobody_reads_are_taken() -> None:
    found = read(SMALL | {"harm_dehumanization": [0.0, 0.1, 0.2], "text": ["x", "y", "z"], "prompt": ["p"] * 3})
    assert found.harms["dehumanisation"].tolist() == [0.0, 0.1, 0.2]
    assert found.ignored == ("prompt", "text")


def test_an_empty_table_is_a_table() -> None:
    found = read({"id": [], "scenario_id": [], "variant": []})
    assert len(found) == 0
