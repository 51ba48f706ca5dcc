from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from core.errors import UndefinedError
from core.fairness.taxonomy import TAXONOMIES, Taxonomy, taxonomy_from

# FAIRNESS.md 1.2, from public code and its tests.
KNOWN = [
    ("gender", "man", "male"), ("gender", " Feminine", "female"), ("gender", "non-binary", "neutral"),
    ("ethnicity", "Chinese", "east_asian"), ("ethnicity", "latinx", "hispanic_latino"),
    ("ethnicity", "African American", "black_african"), ("age", "senior", "elderly"),
    ("religion", "agnostic", "atheist"), ("religion", "Islamic", "muslim"), ("skin_tone", "medium-dark", "medium_dark"),
    ("gender", "unknown", None), ("gender", "ambiguous", None), ("gender", "robot", None), ("gender", None, None),
    ("gender", float("nan"), None), ("gender", "", None),
]  # fmt: skip


@pytest.mark.parametrize(("axis", "label", "category"), KNOWN)
def test_a_label_means_its_category(axis: str, label: object, category: str | None) -> None:
    assert TAXONOMIES[axis].canonical(label) == category


def test_other_names_of_axes_lead_to_their_taxonomy() -> None:
    assert taxonomy_from("race") is taxonomy_from("nationality") is TAXONOMIES["ethnicity"]
    with pytest.raises(UndefinedError, match="built in"):
        taxonomy_from("height")


def test_codes_are_the_same_for_every_kind_of_column() -> None:
    labels = ["man", None, "woman", "unknown|enby", "robot"]
    gender = TAXONOMIES["gender"]
    expected = [1, -1, 0, 2, -1]
    for column in (labels, np.array(labels, dtype=object), pd.Series(labels), pd.Categorical(labels), pa.array(labels)):
        assert gender.codes(column).tolist() == expected


def test_the_order_of_declaration_plays_no_part() -> None:
    one = Taxonomy(axis="x", categories=("b", "a"), aliases={"q": "b", "p": "a"})
    other = Taxonomy(axis="x", categories=("a", "b"), aliases={"p": "a", "q": "b"})
    assert one == other
    assert list(one.aliases) == list(other.aliases)


def test_shares_of_one_category_under_several_names_add_up() -> None:
    assert TAXONOMIES["gender"].shares({"man": 0.2, "male": 0.3, "woman": 0.5}, "reference") == {
        "female": 0.5,
        "male": 0.5,
    }


@pytest.mark.parametrize(
    ("categories", "aliases"),
    [((), {}), (("a", "A"), {}), (("unknown",), {}), (("a",), {"x": "b"})],
)
def test_a_taxonomy_that_leads_nowhere_is_refused(categories: tuple[str, ...], aliases: dict[str, str]) -> None:
    with pytest.raises(UndefinedError):
        Taxonomy(axis="x", categories=categories, aliases=aliases)


@pytest.mark.parametrize("share", [-0.1, float("nan"), float("inf")])
def test_shares_that_are_no_shares_are_refused(share: float) -> None:
    with pytest.raises(UndefinedError):
        TAXONOMIES["gender"].shares({"male": share}, "reference")
    with pytest.raises(UndefinedError, match="no category"):
        TAXONOMIES["gender"].shares({"robot": 1.0}, "reference")
