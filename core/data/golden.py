"""Golden sets: traces with human labels (DESIGN: data contracts)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from core.data.columns import Ints
from core.records import digest

MAX_SLICE_VALUES = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Votes:
    """What the raters of a golden set said, where its files name them (SPEC 13.6).

    Attributes
    ----------
    counts : int64 array of shape (n_traces, n_categories, 2)
        Raters who labelled the trace 0, and 1.
    n_raters : int
    """

    counts: Ints
    n_raters: int

    @property
    def n_ties(self) -> int:
        """Cells with as many votes for 1 as for 0, which have no label."""
        against, in_favour = self.counts[..., 0], self.counts[..., 1]
        return int(((against == in_favour) & (against > 0)).sum())

    @property
    def labels(self) -> Ints:
        """Majority of the votes: 1, 0, or -1 where there is no vote, or a tie."""
        difference = self.counts[..., 1] - self.counts[..., 0]
        return np.where(difference > 0, 1, np.where(difference < 0, 0, -1)).astype(np.int64)

    def of(self, rows: Sequence[int], columns: Sequence[int] | None = None) -> Votes:
        """Return the votes on some traces, and some categories."""
        counts = self.counts[list(rows)]
        return replace(self, counts=counts if columns is None else counts[:, list(columns)])


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
    votes : Votes or None
        Of the raters behind the labels; None where the files name no raters.
    """

    trace_ids: tuple[str, ...]
    categories: tuple[str, ...]
    labels: Ints
    clusters: tuple[str | None, ...] | None
    slices: Mapping[str, tuple[str | None, ...]]
    n_rows: int
    n_duplicates: int
    votes: Votes | None = None

    @property
    def sha256(self) -> str:
        """Digest of the content: the same for another order of rows, file name or file format.

        Votes are part of it where there are several raters: labels with other votes behind them are another set.
        """
        content = {
            "trace_ids": self.trace_ids,
            "categories": self.categories,
            "labels": self.labels,
            "clusters": self.clusters,
        }
        return digest(content if self.votes is None else {**content, "votes": self.votes.counts})


def composite_truth(labels: npt.ArrayLike) -> Ints:
    """Composite truth over some categories: 1 if any is 1, 0 if all are 0, else -1 (undecidable).

    Examples
    --------
    >>> composite_truth([[0, 1], [0, 0], [0, -1]]).tolist()
    [1, 0, -1]
    """
    table = np.asarray(labels)
    return np.where((table == 1).any(axis=1), 1, np.where((table == 0).all(axis=1), 0, -1)).astype(np.int64)
