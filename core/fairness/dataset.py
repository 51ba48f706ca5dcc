"""Whether a data set can carry an audit: rows, both classes, stratification, and where it comes from (SPEC 15.8)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from core.fairness.audited import DatasetCheck, Shortfall
from core.fairness.columns import outcome
from core.fairness.confusion import GroupCounts, confusion_tensor, group_name
from core.fairness.groups import group_columns
from core.fairness.spec import MIN_GROUP

UNEVEN = 0.1
"""Smallest over largest group under which a data set is called unevenly stratified."""


def dataset_check(
    groups: Any,
    y_true: Any = None,
    *,
    positive: Any = None,
    min_group: int = MIN_GROUP,
    intersections: bool = True,
    source: str | None = None,
) -> DatasetCheck:
    """Check a data set before it is used to audit (SPEC 15.8).

    Parameters
    ----------
    groups : array_like, mapping or table
        Columns of protected attributes; each is checked, and all together.
    y_true : array_like, optional
        Labels: every group needs both classes.
    positive : value, optional
        Positive value of `y_true`; needed unless it holds 0 and 1, or booleans.
    min_group : int
        Rows that a group needs.
    intersections : bool
        Whether the cells of all columns together are checked as well.
    source : str, optional
        Where the data come from. Historical decisions carry their own bias, so it has to be said.

    Returns
    -------
    DatasetCheck

    Raises
    ------
    InputError
        If lengths differ, there is no row, or the positive value is not declared.

    Examples
    --------
    >>> check = dataset_check(["a"] * 150 + ["b"] * 40, [0, 1] * 95, source="synthetic, by template")
    >>> check.sufficient, [(short.group, short.problems) for short in check.shortfalls]
    (False, [('b', ('few_rows',))])
    """
    columns = group_columns(groups)
    truth = None if y_true is None else outcome(y_true, "y_true", positive)
    # What was predicted plays no part here; the labels stand in for it.
    predicted = np.zeros(len(next(iter(columns.values()))), dtype=np.int8) if truth is None else truth
    tensor = confusion_tensor(columns, predicted, truth)
    counted = [tensor.by_column(name) for name in columns]
    if intersections and len(columns) > 1:
        counted.append(tensor.together())
    return checked(counted, n_rows=tensor.n_rows, labelled=truth is not None, min_group=min_group, source=source)


def checked(
    counted: Sequence[GroupCounts], *, n_rows: int, labelled: bool, min_group: int, source: str | None
) -> DatasetCheck:
    """Check groups that were counted already; see `dataset_check`."""
    sizes: dict[str, Mapping[str, int]] = {}
    shortfalls: list[Shortfall] = []
    for groups in counted:
        where = where_of(groups.columns)
        sizes[where] = dict(zip(groups.names, map(int, groups.n), strict=True))
        shortfalls += _shortfalls(groups, where, labelled, min_group)
    smallest = {where: min(n.values(), default=0) for where, n in sizes.items()}
    largest = {where: max(n.values(), default=0) for where, n in sizes.items()}
    balance = {where: smallest[where] / max(1, largest[where]) for where in sizes}
    notes = {
        "no_source": not (source or "").strip(),
        "one_group": any(len(n) < 2 for n in sizes.values()),
        "no_labels": not labelled,
        "unevenly_stratified": any(share < UNEVEN for share in balance.values()),
    }
    return DatasetCheck(
        sufficient=not shortfalls and not notes["no_source"] and not notes["one_group"],
        n=n_rows,
        min_group=min_group,
        smallest_group=smallest,
        largest_group=largest,
        balance=balance,
        shortfalls=tuple(shortfalls),
        source=source,
        notes=tuple(name for name, holds in notes.items() if holds),
    )


def where_of(columns: Sequence[str]) -> str:
    """Name of a set of groups: its columns joined with `` x ``."""
    return " x ".join(columns)


def _shortfalls(groups: GroupCounts, where: str, labelled: bool, min_group: int) -> list[Shortfall]:
    positives = groups.counts[:, 1, :].sum(axis=1)
    negatives = groups.counts[:, 0, :].sum(axis=1)
    found = []
    for place, name in enumerate(groups.names):
        n = int(groups.n[place])
        problems = {
            "few_rows": n < min_group,
            "no_positives": labelled and not positives[place],
            "no_negatives": labelled and not negatives[place],
        }
        if any(problems.values()):
            found.append(Shortfall(
                where=where, group=name, n=n,
                positives=int(positives[place]) if labelled else None,
                negatives=int(negatives[place]) if labelled else None,
                problems=tuple(problem for problem, holds in problems.items() if holds),
            ))  # fmt: skip
    empty = [group_name(key) for key in groups.empty]
    return found + [
        Shortfall(where=where, group=name, n=0, positives=0 if labelled else None,
                  negatives=0 if labelled else None, problems=("few_rows",))
        for name in empty
    ]  # fmt: skip
