"""Group columns as callers give them: one column, several, or a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from core.errors import InputError

ONE_COLUMN = "group"
"""Name of a group column that has none."""


def group_columns(groups: Any) -> dict[str, Any]:
    """Name the columns of protected attributes.

    Parameters
    ----------
    groups : mapping, pandas.DataFrame, pyarrow.Table, or one column
        A pandas Series keeps its name; a list or an array is called ``group``.

    Returns
    -------
    dict of str to column

    Raises
    ------
    InputError
        If there is no column.

    Examples
    --------
    >>> group_columns(["a", "b"])
    {'group': ['a', 'b']}
    """
    if isinstance(groups, pa.Table):
        columns = {name: groups.column(name) for name in groups.column_names}
    elif isinstance(groups, Mapping):
        columns = {str(name): column for name, column in groups.items()}
    elif hasattr(groups, "columns"):
        columns = {str(name): groups[name] for name in groups.columns}
    else:
        name = getattr(groups, "name", None)
        return {ONE_COLUMN if name is None else str(name): groups}
    if not columns:
        raise InputError.of("groups", "names no column")
    return columns
