"""Optimism of a threshold that was tuned and scored on the same golden set, by bootstrap (SPEC 4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.instrument.threshold import RankedScores

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Optimism:
    """How much better sensitivity and specificity look on the traces that chose the threshold.

    Attributes
    ----------
    sensitivity, specificity : float
        Mean over resamples of (rate on the resample - rate on the original traces) at the resample's threshold.
    resamples, used : int
        Drawn, and those that held both classes.
    """

    sensitivity: float = 0.0
    specificity: float = 0.0
    resamples: int = 0
    used: int = 0


def bootstrap_optimism(
    scores: Floats,
    labels: Ints,
    composite: Ints,
    clusters: Ints,
    *,
    resamples: int,
    rng: np.random.Generator,
) -> tuple[list[Optimism], Optimism]:
    """Estimate the optimism of each category and of the composite.

    Whole clusters are drawn with replacement, jointly for all categories and not stratified by label. On every
    resample all thresholds are found anew and then applied to the original traces.

    Parameters
    ----------
    scores : float64 array of shape (n_traces, n_categories)
        Maxima over turns. Not looked at where the label is -1 in a category alone, but used in the composite.
    labels : int array of shape (n_traces, n_categories)
        0, 1, or -1 (unlabelled or not scored).
    composite : int array of shape (n_traces,)
        Composite truth: 0, 1, or -1 (undecidable or not fully scored).
    clusters : int array of shape (n_traces,)
        Codes from 0; traces in a canonical order, so that the draws do not depend on the order of rows.
    resamples : int
        At least 1.
    rng : numpy.random.Generator

    Returns
    -------
    categories : list of Optimism
    composite : Optimism

    References
    ----------
    Harrell, Lee and Mark (1996). Statistics in Medicine 15, 361-387 (bootstrap optimism).
    """
    ranked = [RankedScores(scores[:, c], labels[:, c]) for c in range(scores.shape[1])]
    n_clusters = int(clusters.max()) + 1
    totals = np.zeros((len(ranked) + 1, 3))
    for _ in range(resamples):
        drawn = np.bincount(rng.integers(0, n_clusters, n_clusters), minlength=n_clusters)
        _add_resample(totals, ranked, composite, drawn[clusters])
    optimisms = [_mean(row, resamples) for row in totals]
    return optimisms[:-1], optimisms[-1]


def _add_resample(totals: Floats, ranked: Sequence[RankedScores], composite: Ints, weights: Ints) -> None:
    flagged: npt.NDArray[np.bool_] | None = np.zeros(len(weights), bool)
    for c, category in enumerate(ranked):
        best = category.best_rank(weights)
        if best is None:
            flagged = None
            continue
        rank, sensitivity, specificity = best
        original_sensitivity, original_specificity = category.rates_at(rank)
        totals[c] += (sensitivity - original_sensitivity, specificity - original_specificity, 1)
        if flagged is not None:
            flagged |= category.rank <= rank
    if flagged is None:
        return
    on_resample, on_original = _rates(flagged, composite, weights), _rates(flagged, composite, None)
    if on_resample is not None and on_original is not None:
        totals[-1] += (on_resample[0] - on_original[0], on_resample[1] - on_original[1], 1)


def _rates(flagged: npt.NDArray[np.bool_], truth: Ints, weights: Ints | None) -> tuple[float, float] | None:
    weight = np.ones(len(truth), np.int64) if weights is None else weights
    positive, negative = weight * (truth == 1), weight * (truth == 0)
    n_positive, n_negative = int(positive.sum()), int(negative.sum())
    if not (n_positive and n_negative):
        return None
    return int(positive[flagged].sum()) / n_positive, int(negative[~flagged].sum()) / n_negative


def _mean(row: Floats, resamples: int) -> Optimism:
    used = int(row[2])
    if not used:
        return Optimism(resamples=resamples)
    return Optimism(sensitivity=float(row[0] / used), specificity=float(row[1] / used), resamples=resamples, used=used)
