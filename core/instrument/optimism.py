"""Optimism of a threshold that was tuned and scored on the same golden set, by bootstrap (SPEC 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from core.instrument.kernels import counter
from core.instrument.resampling import NO_CLASS, Engine, RankedScores, RankedTable, count_resamples
from core.instrument.search import joint_counter
from core.instrument.spec import ThresholdSpec

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
    engine: Engine = "auto",
    thresholds: ThresholdSpec | None = None,
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
    engine : {'auto', 'numpy', 'numba'}
        Who counts; the figures are the same. See `core.instrument.kernels.counter`.
    thresholds : ThresholdSpec, optional
        How thresholds are chosen together on every resample; without it, or by ``youden``, each for itself.

    Returns
    -------
    categories : list of Optimism
    composite : Optimism

    References
    ----------
    Harrell, Lee and Mark (1996). Statistics in Medicine 15, 361-387 (bootstrap optimism).
    """
    table = RankedTable.of(scores, labels, composite, clusters)
    if thresholds is None or thresholds.objective == "youden":
        count = counter(table, resamples, engine)
    else:
        count = joint_counter(table, thresholds)
    counted = count_resamples(table, count, resamples, rng)
    return (
        [_of_category(category, counted.categories[:, c]) for c, category in enumerate(table.categories)],
        _of_composite(counted.composite, int((composite == 1).sum()), int((composite == 0).sum())),
    )


def _of_category(category: RankedScores, counts: Ints) -> Optimism:
    rank, true_positives, n_positive, false_positives, n_negative = counts[counts[:, 0] != NO_CLASS].T
    if not len(rank):
        return Optimism(resamples=len(counts))
    sensitivity = true_positives / n_positive - category.positive_at[rank] / category.n_positive
    specificity = (1.0 - false_positives / n_negative) - (1.0 - category.negative_at[rank] / category.n_negative)
    return _mean(sensitivity, specificity, len(counts))


def _of_composite(counts: Ints, n_positive: int, n_negative: int) -> Optimism:
    used = counts[(counts[:, 1] > 0) & (counts[:, 3] > 0)]
    if not len(used):
        return Optimism(resamples=len(counts))
    sensitivity = used[:, 0] / used[:, 1] - used[:, 4] / n_positive
    specificity = used[:, 2] / used[:, 3] - used[:, 5] / n_negative
    return _mean(sensitivity, specificity, len(counts))


def _mean(sensitivity: Floats, specificity: Floats, resamples: int) -> Optimism:
    # Added one after the other, as np.cumsum does and np.sum does not: the same sum for any batches.
    n = len(sensitivity)
    return Optimism(
        sensitivity=float(np.cumsum(sensitivity)[-1] / n) + 0.0,
        specificity=float(np.cumsum(specificity)[-1] / n) + 0.0,
        resamples=resamples,
        used=n,
    )
