"""Whether a data set can carry an audit."""

from __future__ import annotations

import pandas as pd
import pytest

from core.errors import InputError
from core.fairness.dataset import dataset_check


def balanced(n: int) -> dict[str, list[str]]:
    return {"sex": ["f", "m"] * (2 * n), "race": ["x", "x", "y", "y"] * n}


def test_a_stratified_set_with_both_classes_and_a_source_is_sufficient() -> None:
    check = dataset_check(balanced(200), [0, 0, 0, 0, 1, 1, 1, 1] * 100, source="synthetic, written by template")
    assert (check.sufficient, check.shortfalls, check.notes) == (True, (), ())
    assert check.balance == {"sex": 1.0, "race": 1.0, "sex x race": 1.0}
    assert check.smallest_group["sex x race"] == 200


def test_without_a_source_it_is_not_sufficient_whatever_its_size() -> None:
    # Historical decisions carry their own bias, so where data come from has to be said.
    check = dataset_check(balanced(200), [0, 0, 0, 0, 1, 1, 1, 1] * 100, source="  ")
    assert (check.sufficient, check.notes) == (False, ("no_source",))


def test_every_shortfall_is_named_with_its_counts() -> None:
    groups, truth = (
        ["a"] * 300 + ["b"] * 99 + ["c"] * 120 + ["d"] * 110,
        [0, 1] * 150 + [0, 1, 1] * 33 + [1] * 120 + [0] * 110,
    )
    check = dataset_check(groups, truth, source="crowd")
    found = {short.group: (short.n, short.positives, short.negatives, short.problems) for short in check.shortfalls}
    assert found == {
        "b": (99, 66, 33, ("few_rows",)), "c": (120, 120, 0, ("no_negatives",)), "d": (110, 0, 110, ("no_positives",)),
    }  # fmt: skip
    assert not check.sufficient


def test_intersections_and_combinations_without_rows_are_checked() -> None:
    groups = {"sex": ["f"] * 200 + ["m"] * 400, "race": ["x"] * 400 + ["y"] * 200}
    check = dataset_check(groups, [0, 1] * 300, source="crowd")
    assert [(short.where, short.group, short.n) for short in check.shortfalls] == [("sex x race", "f & y", 0)]
    assert dataset_check(groups, [0, 1] * 300, source="crowd", intersections=False).sufficient


def test_uneven_strata_one_group_and_missing_labels_are_noted() -> None:
    assert "unevenly_stratified" in dataset_check(["a"] * 2_000 + ["b"] * 150, source="x").notes
    check = dataset_check(["a"] * 200, source="x")
    assert (check.sufficient, check.notes) == (False, ("one_group", "no_labels"))


def test_a_missing_attribute_is_a_group_and_a_level_without_rows_a_shortfall() -> None:
    column = pd.Categorical(["a"] * 200 + [None] * 50, categories=["a", "b"])
    check = dataset_check(pd.DataFrame({"g": column}), source="x")
    assert [(short.group, short.n) for short in check.shortfalls] == [("(missing)", 50), ("b", 0)]


def test_labels_need_their_positive_value() -> None:
    with pytest.raises(InputError, match="say which one is positive"):
        dataset_check(["a", "b"], ["yes", "no"])
    assert dataset_check(["a", "b"], ["yes", "no"], positive="yes").shortfalls[0].positives == 1
