"""A golden set in two halves (SPEC 4): one chooses the thresholds, the other measures them."""

from __future__ import annotations

import numpy as np

from core.data.columns import Bools, Ints


def fitting_half(clusters: Ints, positive: Bools, rng: np.random.Generator) -> Bools:
    """Choose at random which traces choose the thresholds.

    Clusters stay whole. Those with a positive trace and those without are each shuffled, laid end to end and dealt
    out in turn, so that the halves differ by one cluster at most in either kind.

    Parameters
    ----------
    clusters : int64 array of shape (n_traces,)
        Codes from 0.
    positive : bool array of shape (n_traces,)
        Whether a trace has a label 1 in any category.
    rng : numpy.random.Generator

    Returns
    -------
    bool array of shape (n_traces,)

    Examples
    --------
    >>> half = fitting_half(np.arange(10), np.arange(10) < 4, np.random.default_rng(1))
    >>> int(half[:4].sum()), int(half[4:].sum())
    (2, 3)
    """
    has_positive = np.bincount(clusters, weights=positive) > 0
    dealt = np.concatenate([rng.permutation(np.flatnonzero(has_positive == kind)) for kind in (True, False)])
    fits = np.zeros(len(has_positive), bool)
    fits[dealt[::2]] = True
    return np.asarray(fits[clusters])
