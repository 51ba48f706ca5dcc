"""The Youden threshold (SPEC 3): where sensitivity + specificity - 1 is largest on the empirical ROC curve."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import UndefinedError

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class YoudenThreshold:
    """A threshold with the golden counts behind it.

    Attributes
    ----------
    threshold : float or None
        In [0, 1]; None when no threshold does better than chance (J > 0), which is not a threshold.
    true_positives, n_positive, true_negatives, n_negative : int
        At `threshold`; with None nothing is flagged.
    """

    threshold: float | None
    true_positives: int
    n_positive: int
    true_negatives: int
    n_negative: int

    @property
    def youden_j(self) -> float:
        """J = TP/P + TN/N - 1, in [0, 1]: apparent, as tuned and scored on the same traces."""
        return self.true_positives / self.n_positive + self.true_negatives / self.n_negative - 1.0


def youden_threshold(scores: Any, labels: Any) -> YoudenThreshold:
    """Find tau* = argmax_tau [sens(tau) + spec(tau) - 1] (SPEC 3).

    A score is flagged when ``score >= tau``. The curve is scikit-learn's; the objective is the whole number
    TP * N - FP * P, and of equal values the highest threshold wins, so that ties have one answer.

    Parameters
    ----------
    scores : array_like of shape (n,)
        In [0, 1], no NaN.
    labels : array_like of shape (n,)
        0 or 1; both must occur.

    Returns
    -------
    YoudenThreshold
        With ``threshold`` None when nothing beats J = 0.

    Raises
    ------
    UndefinedError
        Different lengths, values out of range, or labels of one class.

    References
    ----------
    Youden, W. J. (1950). Index for rating diagnostic tests. Cancer 3, 32-35.

    Examples
    --------
    >>> best = youden_threshold([.1, .4, .35, .8, .7, .6, .9, .2], [0, 0, 1, 1, 1, 0, 1, 0])
    >>> best.threshold, best.youden_j
    (0.7, 0.75)
    """
    from sklearn.metrics import confusion_matrix_at_thresholds  # slow to import: 1 s

    values, truth = _checked(scores, labels)
    true_negatives, false_positives, _, true_positives, thresholds = confusion_matrix_at_thresholds(truth, values)
    n_positive, n_negative = int(truth.sum()), int((1 - truth).sum())
    gain = true_positives.astype(np.int64) * n_negative - false_positives.astype(np.int64) * n_positive
    best = int(np.argmax(gain))
    if gain[best] <= 0:
        return YoudenThreshold(
            threshold=None,
            true_positives=0,
            n_positive=n_positive,
            true_negatives=n_negative,
            n_negative=n_negative,
        )
    return YoudenThreshold(
        threshold=float(thresholds[best]),
        true_positives=int(true_positives[best]),
        n_positive=n_positive,
        true_negatives=int(true_negatives[best]),
        n_negative=n_negative,
    )


def _checked(scores: Any, labels: Any) -> tuple[Floats, Ints]:
    values = np.asarray(scores, dtype=np.float64)
    given = np.asarray(labels)
    if values.ndim != 1 or values.shape != given.shape:
        raise UndefinedError("labels", given.shape, f"one label a score is needed, scores are {values.shape}")
    if not (np.isfinite(values) & (values >= 0) & (values <= 1)).all():
        raise UndefinedError("scores", "outside", "scores lie in [0, 1] and are not NaN")
    if not np.isin(given, (0, 1)).all():
        raise UndefinedError("labels", "other", "labels are 0 or 1")
    truth = given.astype(np.int64)
    if len(truth) == 0 or truth.min() == truth.max():
        raise UndefinedError("labels", "one class", "both classes must occur")
    return values, truth


class RankedScores:
    """Scores sorted once, so that a resample is a new weighting of ranks and never a new sort (SPEC 3).

    Parameters
    ----------
    scores : float64 array of shape (n,)
    labels : int array of shape (n,)
        0, 1, or -1 for traces that do not count.

    Notes
    -----
    Rank 0 is the highest score. A rank as threshold flags all ranks up to it; -1 flags nothing. On unit weights
    the best rank's score is bit-equal to `youden_threshold`.
    """

    def __init__(self, scores: Floats, labels: Ints) -> None:
        self.values = np.unique(scores)[::-1]
        self.rank = np.searchsorted(-self.values, -scores)
        self._positive = labels == 1
        self._negative = labels == 0
        n = len(self.values)
        self._positive_at = np.cumsum(np.bincount(self.rank[self._positive], minlength=n))
        self._negative_at = np.cumsum(np.bincount(self.rank[self._negative], minlength=n))

    def best_rank(self, weights: Ints) -> tuple[int, float, float] | None:
        """Find the Youden threshold of a resample.

        Parameters
        ----------
        weights : int64 array of shape (n,)
            How often each trace was drawn.

        Returns
        -------
        tuple or None
            Rank of the threshold (-1: none beats J = 0), sensitivity and specificity on the resample; None when
            the resample lacks a class.
        """
        n = len(self.values)
        positive = np.cumsum(_weighted_counts(self.rank, weights * self._positive, n))
        negative = np.cumsum(_weighted_counts(self.rank, weights * self._negative, n))
        n_positive, n_negative = int(positive[-1]), int(negative[-1])
        if not (n_positive and n_negative):
            return None
        gain = positive * n_negative - negative * n_positive
        best = int(np.argmax(gain))
        if gain[best] <= 0:
            return -1, 0.0, 1.0
        return best, positive[best] / n_positive, 1.0 - negative[best] / n_negative

    def rates_at(self, rank: int) -> tuple[float, float]:
        """Sensitivity and specificity of a rank as threshold on the original traces."""
        if rank < 0:
            return 0.0, 1.0
        return (
            float(self._positive_at[rank] / self._positive_at[-1]),
            float(1.0 - self._negative_at[rank] / self._negative_at[-1]),
        )


def _weighted_counts(rank: Ints, weights: Ints, n: int) -> Ints:
    # Weights are small whole numbers: their float64 sums are exact.
    return np.bincount(rank, weights=weights, minlength=n).astype(np.int64)
