"""The confusion tensor: counts, rates, intersections, and what is not there."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import InputError
from core.fairness.columns import outcome
from core.fairness.confusion import RATES, confusion_tensor

TRUE = np.array([1, 1, 0, 0, 1, 0, 2], dtype=np.int8)
PRED = np.array([1, 0, 1, 0, 2, 0, 1], dtype=np.int8)
SEX = ["f", "f", "f", "m", "m", None, "m"]


def test_one_count_holds_truth_and_prediction_and_what_is_missing_of_both() -> None:
    groups = confusion_tensor({"sex": SEX}, PRED, TRUE).by_column("sex")
    assert groups.names == ("f", "m", "(missing)")
    assert groups.counts.tolist() == [
        [[0, 1, 0], [1, 1, 0], [0, 0, 0]],
        [[1, 0, 0], [0, 0, 1], [0, 1, 0]],
        [[1, 0, 0], [0, 0, 0], [0, 0, 0]],
    ]


def test_rates_are_over_those_at_risk() -> None:
    groups = confusion_tensor({"sex": SEX}, PRED, TRUE).by_column("sex")
    rates = {name: [both.tolist() for both in groups.rate(rate)] for name, rate in RATES.items()}
    assert rates["selection_rate"] == [[2, 1, 0], [3, 2, 1]]  # a prediction without a label is a selection
    assert rates["accuracy"] == [[1, 1, 1], [3, 1, 1]]
    assert rates["true_positive_rate"] == [[1, 0, 0], [2, 0, 0]]
    assert rates["false_positive_rate"] == [[1, 0, 0], [1, 1, 1]]
    assert rates["positive_predictive_value"] == [[1, 0, 0], [2, 0, 0]]


def test_missing_attributes_are_a_group_or_left_out_and_never_dropped_unseen() -> None:
    tensor = confusion_tensor({"sex": SEX, "race": ["x"] * 7}, PRED, TRUE)
    assert tensor.by_column("sex").n.sum() == 7
    without = tensor.by_column("sex", keep_missing=False)
    assert (without.names, int(without.n.sum()), without.row_groups.tolist()) == (("f", "m"), 6, [0, 0, 0, 1, 1, -1, 1])
    assert tensor.together().names == ("f & x", "m & x", "(missing) & x")
    assert tensor.together(keep_missing=False).names == ("f & x", "m & x")


def test_intersections_sum_to_the_groups_of_every_column_and_empty_cells_are_named() -> None:
    rng = np.random.default_rng(1)
    table = {name: rng.integers(0, 4, 60) for name in ("a", "b", "c")}
    y = rng.integers(0, 2, (2, 60)).astype(np.int8)
    tensor = confusion_tensor(table, y[0], y[1])
    together = tensor.together()
    assert together.n_empty == 64 - len(together.keys)
    assert len(together.empty) == together.n_empty
    assert not set(together.empty) & set(together.keys)
    for place, name in enumerate(table):
        groups = tensor.by_column(name)
        for key, counts in zip(groups.keys, groups.counts, strict=True):
            inside = [cell[place] == key[0] for cell in together.keys]
            assert (together.counts[inside].sum(axis=0) == counts).all()


def test_a_level_without_rows_is_an_empty_cell() -> None:
    column = pd.Categorical(["x", "x"], categories=["x", "y"])
    groups = confusion_tensor({"g": column}, np.array([0, 1], dtype=np.int8)).by_column("g")
    assert (groups.names, groups.empty, groups.n_empty) == (("x",), (("y",),), 1)


def test_two_hundred_groups_and_many_columns_count_as_pandas_does() -> None:
    rng = np.random.default_rng(2)
    table = {f"g{i}": rng.integers(0, size, 5_000) for i, size in enumerate((200, 12, 12, 12, 12))}
    y = rng.integers(0, 2, (2, 5_000)).astype(np.int8)
    tensor = confusion_tensor(table, y[0], y[1])
    together = tensor.together()
    by_pandas = pd.DataFrame(table).astype(str).assign(y_pred=y[0]).groupby(list(table))["y_pred"].agg(["size", "sum"])
    ours = dict(
        zip(together.keys, zip(*(x.tolist() for x in together.rate(RATES["selection_rate"])), strict=True), strict=True)
    )
    assert ours == {key: (row["sum"], row["size"]) for key, row in by_pandas.to_dict("index").items()}
    assert len(tensor.by_column("g0").keys) == 200
    assert together.n_empty == 200 * 12**4 - len(together.keys)
    assert len(together.empty) == 100


def test_clusters_are_counted_beside_the_rows_and_a_row_without_one_is_its_own() -> None:
    clusters = ["p", "p", "q", "q", None, None, "p"]
    groups = confusion_tensor({"sex": SEX}, PRED, TRUE, clusters).by_column("sex")
    assert groups.clusters is not None
    assert groups.clusters.counts.sum(axis=0).tolist() == groups.counts.sum(axis=0).tolist()
    assert np.bincount(groups.clusters.group).tolist() == [2, 3, 1]


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ({}, "names no column"),
        ({"sex": ["f"]}, "different lengths"),
        ({"sex": ["(missing)"] * 7}, "rename it"),
    ],
)
def test_tables_that_do_not_fit_are_refused(groups: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        confusion_tensor(groups, PRED, TRUE)


def test_no_rows_are_refused() -> None:
    with pytest.raises(InputError, match="holds no rows"):
        confusion_tensor({"sex": []}, np.zeros(0, dtype=np.int8))


def by_fairlearn(y_true: Any, y_pred: Any, groups: Any) -> dict[str, pd.Series]:
    """Each rate by fairlearn's MetricFrame; where nobody is at risk its value is an invention."""
    from fairlearn.metrics import (
        MetricFrame,
        false_negative_rate,
        false_positive_rate,
        selection_rate,
        true_negative_rate,
        true_positive_rate,
    )
    from sklearn.metrics import accuracy_score, precision_score

    metrics = {
        "selection_rate": selection_rate,
        "false_positive_rate": false_positive_rate,
        "false_negative_rate": false_negative_rate,
        "true_positive_rate": true_positive_rate,
        "true_negative_rate": true_negative_rate,
        "accuracy": accuracy_score,
        "positive_predictive_value": lambda t, p: precision_score(t, p, zero_division=0.0),
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is undefined warns there
        frame = MetricFrame(metrics=metrics, y_true=y_true, y_pred=y_pred, sensitive_features=groups)
        return dict(frame.by_group.items())


@settings(max_examples=12, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 120), st.integers(1, 6))
def test_every_defined_rate_equals_fairlearns_and_the_undefined_stays_undefined(seed: int, n: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    truth, said = (rng.random((2, n)) < rng.random((2, 1))).astype(np.int8)
    groups = pd.DataFrame({"a": rng.integers(0, k, n).astype(str), "b": rng.choice(["x", "y"], n)})
    # fairlearn refuses a column of one label only when it cannot tell which is positive.
    truth[:2], said[:2] = (0, 1), (0, 1)
    expected = by_fairlearn(truth, said, groups)
    ours = confusion_tensor(dict(groups.items()), outcome(said, "p", 1), outcome(truth, "t", 1)).together()
    for name, rate in RATES.items():
        events, at_risk = ours.rate(rate)
        for key, x, n_at_risk in zip(ours.keys, events, at_risk, strict=True):
            if n_at_risk:
                assert x / n_at_risk == pytest.approx(expected[name][key], abs=1e-12), (name, key)


def test_fairlearn_invents_a_rate_for_a_group_without_positives_and_we_do_not() -> None:
    # FAIRNESS 4: fairlearn 0.15 gives a true-positive rate of 0, and so an equalized-odds difference of its own making.
    truth, said, groups = [1, 0, 0, 0], [1, 0, 0, 1], ["a", "a", "b", "b"]
    assert by_fairlearn(truth, said, groups)["true_positive_rate"]["b"] == 0.0
    ours = confusion_tensor({"g": groups}, outcome(said, "p", 1), outcome(truth, "t", 1)).by_column("g")
    assert ours.rate(RATES["true_positive_rate"])[1].tolist() == [1, 0]
