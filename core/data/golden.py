"""Golden sets: traces with human labels (DESIGN: data contracts)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.data.columns import Ints
from core.records import digest

MAX_SLICE_VALUES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSet:
    """Traces with labels, in the order of their ids.

    Attributes
    ----------
    trace_ids : tuple of str
    categories : tuple of str
    labels : int64 array of shape (n_traces, n_categories)
        1, 0, or -1 for unlabelled.
    clusters : tuple of (str or None) or None
        None inside: the trace is its own cluster. None: the set names no clusters.
    slices : mapping of str to tuple of (str or None)
        By column name.
    n_rows, n_duplicates : int
        Rows read; equal labels that stood twice.
    """

    trace_ids: tuple[str, ...]
    categories: tuple[str, ...]
    labels: Ints
    clusters: tuple[str | None, ...] | None
    slices: Mapping[str, tuple[str | None, ...]]
    n_rows: int
    n_duplicates: int

    @property
    def sha256(self) -> str:
        """Digest of the content: the same for another order of rows, file name or file format."""
        return digest(
            {
                "trace_ids": self.trace_ids,
                "categories": self.categories,
                "labels": self.labels,
                "clusters": self.clusters,
            }
        )


def composite_truth(labels: npt.ArrayLike) -> Ints:
    """Composite truth over some categories: 1 if any is 1, 0 if all are 0, else -1 (undecidable).

    Examples
    --------
    >>> composite_truth([[0, 1], [0, 0], [0, -1]]).tolist()
    [1, 0, -1]
    """
    table = np.asarray(labels)
    return np.where((table == 1).any(axis=1), 1, np.where((table == 0).all(axis=1), 0, -1)).astype(np.int64)
