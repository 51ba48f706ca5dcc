"""Reliability by group: whether a score of .8 comes true in 80% of the rows, in every group (SPEC 15.6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import InputError
from core.fairness.audited import Bin, Evidence, Reliability
from core.fairness.columns import MISSING, Ints, coded, numeric, outcome
from core.fairness.confusion import confusion_tensor
from core.fairness.disparity import adjusted_p
from core.fairness.groups import group_columns
from core.fairness.spec import Family, Outcome
from core.inference.clusters import MIN_CLUSTERS, t_factor
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, Interval, normal_quantile
from core.inference.proportions import SMALLEST_P

FOLDED_MEAN = math.sqrt(2.0 / math.pi)
"""Mean of the absolute value of a standard normal variable; its variance is 1 - 2/pi."""

MIN_VARIANCE = 3.0
"""Expected variance of the events in a bin under which bins are tested together: the chi-square law needs it."""

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoredRows:
    """Rows that have what reliability needs.

    Attributes
    ----------
    score : ndarray of float
        In [0, 1].
    came_true : ndarray of int8
        1 where the outcome that the score speaks of happened.
    kept : ndarray of bool
        Which rows of the table these are.
    clusters : ndarray of int or None
    score_means : {'positive', 'correct'}
    """

    score: Floats
    came_true: NDArray[np.int8]
    kept: NDArray[np.bool_]
    clusters: Ints | None
    score_means: Outcome

    @classmethod
    def of(
        cls,
        score: Any,
        y_true: NDArray[np.int8],
        y_pred: NDArray[np.int8] | None,
        *,
        score_means: Outcome,
        clusters: Any = None,
    ) -> ScoredRows:
        """Read scores beside outcomes.

        Raises
        ------
        InputError
            If a score is outside [0, 1], lengths differ, or predictions are needed and not there.
        """
        values = numeric(score, "score")
        if len(values) != len(y_true):
            raise InputError.of("score", f"has {len(values)} rows, and the labels {len(y_true)}")
        wrong = np.flatnonzero((values < 0.0) | (values > 1.0))
        if len(wrong):
            raise InputError.of("score", f"score {values[wrong[0]]:g} is outside [0, 1]", line=int(wrong[0]) + 1)
        kept = ~np.isnan(values) & (y_true != MISSING)
        came_true = y_true
        if score_means == "correct":
            if y_pred is None:
                raise InputError.of("y_pred", "scores of being correct need the predictions")
            kept &= y_pred != MISSING
            came_true = (y_true == y_pred).astype(np.int8)
        codes = None
        if clusters is not None:
            read = coded(clusters, "cluster")
            codes = read.codes.astype(np.int64)
            codes[codes < 0] = len(read.labels) + np.arange(int((codes < 0).sum()))
            codes = codes[kept]
        return cls(score=values[kept], came_true=came_true[kept], kept=kept, clusters=codes, score_means=score_means)


def bin_edges(bins: int) -> Floats:
    """Edges of equal bins of [0, 1], k/bins: a score that is written as an edge equals it.

    Examples
    --------
    >>> bool(bin_edges(10)[3] == 0.3)
    True
    """
    return np.asarray(np.arange(bins + 1) / bins)


def reliability_of(
    rows: ScoredRows,
    row_groups: Ints,
    n_rows: Sequence[int] | Ints,
    *,
    bins: int,
    confidence_level: float,
    family: Family,
    min_group: int,
) -> tuple[list[Reliability], Evidence]:
    """Reliability of every group, and the worst expected calibration error among them (SPEC 15.6).

    Parameters
    ----------
    rows : ScoredRows
    row_groups : ndarray of int
        Group of every row of the table; -1 is none.
    n_rows : sequence of int
        Rows of each group.
    bins, confidence_level, family
        As in `reliability_by_group`.
    min_group : int
        Rows under which a group is not among those of which the worst is taken.

    Returns
    -------
    tuple
        One `Reliability` a group, and the worst of those of at least `min_group` rows, with limits that hold for all
        of them together (Bonferroni).
    """
    groups = row_groups[rows.kept]
    inside = groups >= 0
    sums = _BinSums.of(rows, groups, inside, len(n_rows), bins)
    effects = np.ones(len(n_rows)) if rows.clusters is None else _design_effects(rows, groups, inside, len(n_rows))
    found = [
        _reliability(sums, g, int(n_rows[g]), float(effects[g]), confidence_level, rows.score_means)
        for g in range(len(n_rows))
    ]
    tested = [g for g, one in enumerate(found) if one.p_value is not None]
    adjusted = adjusted_p([found[g].p_value or 0.0 for g in tested], family)
    for g, p in zip(tested, adjusted, strict=True):
        found[g] = replace(found[g], p_adjusted=p)
    large = [g for g, one in enumerate(found) if one.ece.n_classified >= min_group and one.ece.status == "measured"]
    together = 1.0 - (1.0 - confidence_level) / max(1, len(large))
    strict = [_reliability(sums, g, int(n_rows[g]), float(effects[g]), together, rows.score_means).ece for g in large]
    return found, _worst(strict, len(row_groups), confidence_level)


@dataclass(frozen=True, slots=True, kw_only=True)
class _BinSums:
    """Sums over the rows of each (group, bin)."""

    n: Floats
    score: Floats
    came_true: Floats
    variance: Floats

    @classmethod
    def of(cls, rows: ScoredRows, groups: Ints, inside: NDArray[np.bool_], n_groups: int, bins: int) -> _BinSums:
        score, came_true = rows.score[inside], rows.came_true[inside].astype(float)
        # The last bin is closed: a score of 1 belongs to it.
        place = np.minimum(np.searchsorted(bin_edges(bins), score, side="right") - 1, bins - 1)
        cell = groups[inside] * bins + place

        def summed(weights: Floats | None) -> Floats:
            return np.bincount(cell, weights=weights, minlength=n_groups * bins).reshape(n_groups, bins).astype(float)

        return cls(
            n=summed(None), score=summed(score), came_true=summed(came_true), variance=summed(score * (1.0 - score))
        )


def _reliability(
    sums: _BinSums, group: int, n_rows: int, design_effect: float, confidence_level: float, score_means: Outcome
) -> Reliability:
    size, score, hits, variance = (row[group] for row in (sums.n, sums.score, sums.came_true, sums.variance))
    bins, n = _bins(size, score, hits), int(size.sum())
    coverage = n / n_rows if n_rows else 0.0
    if not n or not math.isfinite(design_effect):
        reason = "no row has score and label" if not n else f"fewer than {MIN_CLUSTERS} clusters"
        ece = Evidence(status="not_evaluable", n=n_rows, n_classified=n, coverage=coverage, reason=reason, scale="ece")
        return Reliability(
            ece=ece, noise_floor=None, squared_error=None, debiased_squared_error=None, debiased=None, p_value=None,
            p_adjusted=None, mean_score=None, observed_rate=None, score_means=score_means, bins=bins,
        )  # fmt: skip
    held = size > 0
    size, score, hits, variance = size[held], score[held], hits[held], variance[held]
    weight, rate = size / n, hits / size
    distance = np.abs(score / size - rate)
    value = float(weight @ distance)
    # Shrunk towards 1/2, since a bin of few rows that agree by chance would seem to have no noise.
    smoothed = (hits + 1.0) / (size + 2.0)
    noise = np.sqrt(design_effect * smoothed * (1.0 - smoothed) / size)
    spread = math.sqrt(float((weight**2) @ (noise**2)))
    z = normal_quantile(confidence_level)
    # The noise adds at most the sum of its absolute values to the error, and takes off at most its sum with signs.
    low = value - FOLDED_MEAN * float(weight @ noise) - z * spread * math.sqrt(1.0 - FOLDED_MEAN**2)
    squared = float(weight @ distance**2)
    # A bin of one row tells nothing of its own variance: the largest possible is taken off.
    unit = np.where(size > 1, rate * (1.0 - rate) / np.maximum(size - 1.0, 1.0), 0.25)
    debiased = squared - design_effect * float(weight @ unit)
    return Reliability(
        ece=Evidence(
            status="measured",
            value=value,
            interval=Interval(
                low=max(0.0, low),
                high=min(1.0, value + z * spread),
                confidence_level=confidence_level,
                method="noise_bounds",
            ),
            n=n_rows,
            n_classified=n,
            coverage=coverage,
            scale="ece",
        ),
        noise_floor=FOLDED_MEAN * float((weight / size) @ np.sqrt(design_effect * variance)),
        squared_error=squared,
        debiased_squared_error=debiased,
        debiased=math.sqrt(max(0.0, debiased)),
        p_value=_calibration_p(score - hits, variance, design_effect),
        p_adjusted=None,
        mean_score=float(score.sum() / n),
        observed_rate=float(hits.sum() / n),
        score_means=score_means,
        bins=bins,
    )


def _bins(size: Floats, score: Floats, hits: Floats) -> tuple[Bin, ...]:
    edges = bin_edges(len(size))
    return tuple(
        Bin(
            low=float(edges[b]),
            high=float(edges[b + 1]),
            n=int(size[b]),
            mean_score=float(score[b] / size[b]) if size[b] else None,
            observed_rate=float(hits[b] / size[b]) if size[b] else None,
        )
        for b in range(len(size))
    )


def _calibration_p(surplus: Floats, variance: Floats, design_effect: float) -> float | None:
    """p-value of calibration: per bin, (expected less observed events)² over its variance under the scores."""
    large = variance >= MIN_VARIANCE
    statistic, freedom = float((surplus[large] ** 2 / variance[large]).sum()), int(large.sum())
    rest = float(variance[~large].sum())
    if rest >= MIN_VARIANCE:
        statistic, freedom = statistic + float(surplus[~large].sum()) ** 2 / rest, freedom + 1
    if not freedom:
        return None
    from scipy.special import chdtrc

    return max(SMALLEST_P, float(chdtrc(freedom, statistic / design_effect)))


def _design_effects(rows: ScoredRows, groups: Ints, inside: NDArray[np.bool_], n_groups: int) -> Floats:
    """Per group: variance of the summed surplus between clusters over that of independent rows; infinite for few."""
    if rows.clusters is None:
        return np.ones(n_groups)
    n_clusters = int(rows.clusters.max(initial=-1)) + 1
    group = groups[inside]
    pairs, place = np.unique(group * n_clusters + rows.clusters[inside], return_inverse=True)
    surplus = rows.score[inside] - rows.came_true[inside]
    mean = np.bincount(group, weights=surplus, minlength=n_groups) / np.maximum(
        np.bincount(group, minlength=n_groups), 1
    )
    surplus = surplus - mean[group]
    owner = pairs // n_clusters
    between = np.bincount(owner, weights=np.bincount(place, weights=surplus) ** 2, minlength=n_groups)
    within = np.bincount(group, weights=surplus**2, minlength=n_groups)
    count = np.bincount(owner, minlength=n_groups)
    effects = np.full(n_groups, np.inf)
    for g in np.flatnonzero(count >= MIN_CLUSTERS):
        ratio = between[g] / within[g] * count[g] / (count[g] - 1.0) if within[g] > 0.0 else 1.0
        effects[g] = max(1.0, ratio) / t_factor(int(count[g]))
    return effects


def _worst(found: Sequence[Evidence], n_rows: int, confidence_level: float) -> Evidence:
    n_classified = sum(one.n_classified for one in found)
    coverage = n_classified / n_rows if n_rows else 0.0
    intervals = [one.interval for one in found if one.interval is not None]
    values = [one.value for one in found if one.value is not None]
    if not intervals:
        return Evidence(
            status="not_evaluable", n=n_rows, n_classified=n_classified, coverage=coverage, scale="ece",
            reason="no group is large enough and has scores and labels",
        )  # fmt: skip
    return Evidence(
        status="measured",
        value=max(values),
        interval=Interval(
            low=max(one.low for one in intervals),
            high=max(one.high for one in intervals),
            confidence_level=confidence_level,
            method="noise_bounds_all_groups",
        ),
        n=n_rows,
        n_classified=n_classified,
        coverage=coverage,
        scale="ece",
    )


def reliability_by_group(
    y_true: Any,
    score: Any,
    groups: Any,
    *,
    score_means: Outcome,
    y_pred: Any = None,
    positive: Any = None,
    positive_pred: Any = None,
    bins: int = 10,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    family: Family = "holm",
    clusters: Any = None,
) -> dict[str, Reliability]:
    """Expected calibration error of every group, with its interval and what noise alone would show (SPEC 15.6).

    ECE = sum over bins of n_b/n |mean score of the bin - share that came true|; a score of 1 is in the last bin.

    Parameters
    ----------
    y_true : array_like, shape (rows,)
    score : array_like, shape (rows,)
        In [0, 1]; rows without score or label are left out and counted.
    groups : array_like, mapping or table
        One column, or several whose combinations are the groups.
    score_means : {'positive', 'correct'}
        What the score is the probability of. It has to be said: ``correct`` compares prediction and label.
    y_pred : array_like, optional
        Needed for ``correct``.
    positive, positive_pred
        Positive value of `y_true`, and of `y_pred` where it has another one.
    bins : int
        Equal bins of [0, 1].
    confidence_level : float
        In (0, 1).
    family : {'holm', 'benjamini_hochberg', 'none'}
        Adjustment of the p-values over the groups.
    clusters : array_like, optional

    Returns
    -------
    dict of str to Reliability

    Raises
    ------
    InputError
        If a score is outside [0, 1], lengths differ, predictions are needed and not there, or a positive value is not
        declared.

    References
    ----------
    Naeini, Cooper & Hauskrecht (2015), AAAI; Bröcker (2012), Clim. Dyn. 39:655-667, and Kumar, Liang & Ma (2019),
    NeurIPS, for the debiased squared error.

    Examples
    --------
    >>> found = reliability_by_group([1] * 16 + [0] * 4, [0.85] * 20, ["a"] * 20, score_means="positive")
    >>> round(found["a"].ece.value, 4), found["a"].ece.interval.low  # 20 rows cannot show an error of .05
    (0.05, 0.0)
    """
    truth = outcome(y_true, "y_true", positive)
    predicted = (
        None if y_pred is None else outcome(y_pred, "y_pred", positive if positive_pred is None else positive_pred)
    )
    counted = confusion_tensor(group_columns(groups), truth).together()
    rows = ScoredRows.of(score, truth, predicted, score_means=score_means, clusters=clusters)
    found, _ = reliability_of(
        rows, counted.row_groups, counted.n,
        bins=bins, confidence_level=confidence_level, family=family, min_group=1,
    )  # fmt: skip
    return dict(zip(counted.names, found, strict=True))
