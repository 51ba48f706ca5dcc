"""Groups at the intersection of attributes: two masks, or any number of columns (SPEC 15.4, 15.5)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.errors import UndefinedError
from core.fairness.audited import Disparity, Evidence
from core.fairness.columns import Ints, coded, numeric
from core.fairness.confusion import RATES, confusion_tensor
from core.fairness.disparity import Comparison, Reference, Settings, adjusted_p, disparities
from core.fairness.groups import group_columns
from core.fairness.parity import outcomes, rate_of
from core.fairness.presets import Preset, Thresholds, at_most, thresholds_of
from core.fairness.significance import TwoGroups, report_of
from core.fairness.spec import MIN_GROUP, Family
from core.gates.decision import Verdict
from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, check_confidence_level, normal_quantile
from core.inference.proportions import SMALLEST_P, is_significant, wilson_arrays

CELLS = ("both", "a_only", "b_only", "neither")
SIGNS = (1.0, -1.0, -1.0, 1.0)
"""Of the cells in the interaction contrast p11 - p10 - p01 + p00."""

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]


def intersectional_report(
    outcome: Any,
    mask_a: Any,
    mask_b: Any,
    n_resamples: int = 10_000,
    n_permutations: int = 10_000,
    confidence: float = 0.95,
    random_state: int = 42,
    *,
    clusters: Any = None,
    family: Family = "holm",
) -> dict[str, Any]:
    """Compare the doubly affected group with the one that neither attribute affects (SPEC 15.4).

    Parameters
    ----------
    outcome : array_like, shape (rows,)
        Numbers or booleans.
    mask_a, mask_b : array_like of bool, shape (rows,)
        True on the affected side of each attribute; rows where one is missing are left out and counted.
    n_resamples, n_permutations, confidence, random_state
        As in `significance_report`.
    clusters : array_like, optional
    family : {'holm', 'benjamini_hochberg', 'none'}
        Adjustment over the four questions: each attribute alone, both together, and their interaction.

    Returns
    -------
    dict
        ``gap_a_alone, gap_b_alone`` (None where undefined), ``intersectional`` (a `significance_report` of both against
        neither), ``superadditive`` (its gap exceeds the sum of the two alone, in absolute value: a description, not a
        test), ``cell_rates`` (None for an empty cell) and ``cell_sizes`` of ``both, neither, a_only, b_only``, and:
        ``interaction`` with ``status, reason, contrast`` (p11 - p10 - p01 + p00), ``se, ci_low, ci_high, method,
        p_value, verdict`` (``superadditive``, ``subadditive``, ``no_evidence``, ``not_evaluable``, from the adjusted
        p-value) and ``ratio, ratio_low, ratio_high`` (p11 p00 / (p10 p01), for a 0/1 outcome with all rates above 0);
        ``p_values`` and ``p_adjusted`` of the four questions; ``family``; ``n_left_out``.

    Raises
    ------
    UndefinedError
        If lengths differ, an outcome is infinite or no number, or the level is outside (0, 1).

    Examples
    --------
    >>> cells = {(0, 0): 20, (1, 0): 5, (0, 1): 35, (1, 1): 50}  # events of 100 in each cell
    >>> rows = [(int(i < k), a, b) for (a, b), k in cells.items() for i in range(100)]
    >>> report = intersectional_report(*zip(*rows))
    >>> report["superadditive"], round(report["interaction"]["contrast"], 2), report["interaction"]["verdict"]
    (False, 0.3, 'superadditive')
    """
    check_confidence_level(confidence)
    rows = _Rows.of(outcome, mask_a, mask_b, clusters)
    settings = (n_resamples, n_permutations, confidence, random_state)
    a, b = rows.sides
    alone = [report_of(rows.two_groups(side, ~side), *settings) for side in (a, b)]
    both = report_of(rows.two_groups(a & b, ~a & ~b), *settings)
    interaction = _interaction(rows, confidence)
    questions = {
        "gap_a_alone": alone[0]["p_value"],
        "gap_b_alone": alone[1]["p_value"],
        "intersectional": both["p_value"],
        "interaction": interaction["p_value"],
    }
    asked = [name for name, p in questions.items() if p is not None]
    adjusted: dict[str, float | None] = dict.fromkeys(questions)
    adjusted.update(zip(asked, adjusted_p([questions[name] for name in asked], family), strict=True))
    interaction["verdict"] = _verdict(interaction["contrast"], adjusted["interaction"], confidence)
    gaps = (both["gap"], alone[0]["gap"], alone[1]["gap"])
    return {
        "gap_a_alone": gaps[1],
        "gap_b_alone": gaps[2],
        "intersectional": both,
        "superadditive": None not in gaps and abs(gaps[0]) > abs(gaps[1]) + abs(gaps[2]),
        "cell_rates": {name: rows.mean(rows.cells[name]) for name in ("both", "neither", "a_only", "b_only")},
        "cell_sizes": {name: int(rows.cells[name].sum()) for name in ("both", "neither", "a_only", "b_only")},
        "interaction": interaction,
        "p_values": questions,
        "p_adjusted": adjusted,
        "family": family,
        "n_left_out": rows.n_left_out,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Outcomes with both attributes known."""

    y: Floats
    sides: tuple[Mask, Mask]
    clusters: Ints | None
    n_left_out: int

    @classmethod
    def of(cls, outcome: Any, mask_a: Any, mask_b: Any, clusters: Any) -> _Rows:
        y, a, b = numeric(outcome, "outcome"), numeric(mask_a, "mask_a"), numeric(mask_b, "mask_b")
        codes = None
        if clusters is not None:
            read = coded(clusters, "clusters")
            codes = read.codes.astype(np.int64)
            codes[codes < 0] = len(read.labels) + np.arange(int((codes < 0).sum()))
        lengths = {y.size, a.size, b.size} | (set() if codes is None else {codes.size})
        if len(lengths) > 1:
            raise UndefinedError("mask", sorted(lengths), "outcome, masks and clusters have one length")
        known = ~(np.isnan(a) | np.isnan(b))
        return cls(
            y=y[known],
            sides=(a[known] != 0.0, b[known] != 0.0),
            clusters=None if codes is None else codes[known],
            n_left_out=int((~known).sum()),
        )

    @property
    def cells(self) -> dict[str, Mask]:
        a, b = self.sides
        return {"both": a & b, "a_only": a & ~b, "b_only": ~a & b, "neither": ~a & ~b}

    def two_groups(self, first: Mask, second: Mask) -> TwoGroups:
        clusters = (None, None) if self.clusters is None else (self.clusters[first], self.clusters[second])
        return TwoGroups.of(self.y[first], self.y[second], *clusters)

    def mean(self, cell: Mask) -> float | None:
        values = self.y[cell]
        return float(values.mean()) if values.size and not np.isnan(values).any() else None


def _interaction(rows: _Rows, confidence: float) -> dict[str, Any]:
    """Interaction contrast with its interval; the rates of a 0/1 outcome at 0 or 1 go by their Wilson limits."""
    cells = [rows.cells[name] for name in CELLS]
    means = [rows.mean(cell) for cell in cells]
    found: dict[str, Any] = dict.fromkeys(
        ("contrast", "se", "ci_low", "ci_high", "method", "p_value", "ratio", "ratio_low", "ratio_high")
    )
    sizes = np.array([cell.sum() for cell in cells], dtype=float)
    binary = bool(np.isin(rows.y, (0.0, 1.0)).all())
    if not sizes.all():
        return found | {"status": "not_evaluable", "reason": "empty_cell"}
    if None in means:
        return found | {"status": "not_evaluable", "reason": "missing_outcome"}
    if not binary and rows.clusters is None and sizes.min() < 2:
        return found | {"status": "not_evaluable", "reason": "one_row"}
    rates = np.array(means, dtype=float)
    contrast, z = float(np.dot(SIGNS, rates)), normal_quantile(confidence)
    if rows.clusters is not None:
        n_clusters, se = _clustered_se(rows.y, rows.clusters, cells, rates, sizes)
        if n_clusters < MIN_CLUSTERS:
            return found | {"status": "not_evaluable", "reason": "few_clusters"}
        method, limits, p = "cluster_t", *_t_limits(contrast, se, n_clusters - 1, confidence)
    else:
        spread = [float(rows.y[cell].var(ddof=0 if binary else 1)) for cell in cells]
        se = math.sqrt(float(np.sum(np.array(spread) / sizes)))
        if binary and ((rates == 0.0) | (rates == 1.0)).any():
            method, limits, p = "mover_wilson", *_mover_limits(contrast, rates, sizes, z)
        else:
            method, limits, p = "wald", (contrast - z * se, contrast + z * se), _normal_p(contrast, se)
        if binary and (rates > 0.0).all():
            found |= _ratio_of_ratios(rates, sizes, z)
    return found | {
        "status": "evaluated", "reason": None, "contrast": contrast, "se": se, "ci_low": limits[0],
        "ci_high": limits[1], "method": method, "p_value": p,
    }  # fmt: skip


def _mover_limits(contrast: float, rates: Floats, sizes: Floats, z: float) -> tuple[tuple[float, float], float]:
    low, high = wilson_arrays(rates, sizes, z=z)
    below = math.sqrt(float(np.sum(np.where(np.array(SIGNS) > 0, rates - low, high - rates) ** 2)))
    above = math.sqrt(float(np.sum(np.where(np.array(SIGNS) > 0, high - rates, rates - low) ** 2)))
    # The p-value at which the limit nearer to 0 would reach it, were the interval a normal one on that side.
    return (contrast - below, contrast + above), _normal_p(contrast, (below if contrast > 0.0 else above) / z)


def _clustered_se(y: Floats, clusters: Ints, cells: list[Mask], rates: Floats, sizes: Floats) -> tuple[int, float]:
    _, codes = np.unique(clusters, return_inverse=True)
    n_clusters = int(codes.max()) + 1
    parts = np.zeros(n_clusters)
    for sign, cell, rate, size in zip(SIGNS, cells, rates, sizes, strict=True):
        parts += np.bincount(codes[cell], weights=sign * (y[cell] - rate) / size, minlength=n_clusters)
    return n_clusters, math.sqrt(n_clusters / max(1, n_clusters - 1) * float(parts @ parts))


def _t_limits(contrast: float, se: float, freedom: int, confidence: float) -> tuple[tuple[float, float], float]:
    from scipy.special import stdtr, stdtrit

    t = -float(stdtrit(freedom, (1.0 - confidence) / 2.0))
    p = 1.0 if contrast == 0.0 else SMALLEST_P if se == 0.0 else 2.0 * float(stdtr(freedom, -abs(contrast) / se))
    return (contrast - t * se, contrast + t * se), max(SMALLEST_P, p)


def _normal_p(value: float, se: float) -> float:
    from scipy.special import ndtr

    if value == 0.0:
        return 1.0
    return max(SMALLEST_P, 2.0 * float(ndtr(-abs(value) / se))) if se > 0.0 else SMALLEST_P


def _ratio_of_ratios(rates: Floats, sizes: Floats, z: float) -> dict[str, float]:
    log_ratio = float(np.dot(SIGNS, np.log(rates)))
    se = math.sqrt(float(np.sum((1.0 - rates) / (rates * sizes))))
    return {
        "ratio": math.exp(log_ratio),
        "ratio_low": math.exp(log_ratio - z * se),
        "ratio_high": math.exp(log_ratio + z * se),
    }


def _verdict(contrast: float | None, p: float | None, confidence: float) -> str:
    if contrast is None or p is None:
        return "not_evaluable"
    if not is_significant(p, confidence):
        return "no_evidence"
    return "superadditive" if contrast > 0.0 else "subadditive"


@dataclass(frozen=True, slots=True, kw_only=True)
class IntersectionalAudit:
    """The cells of several attributes side by side.

    Attributes
    ----------
    cells : mapping of str to float or None
        Rate of every cell that occurs, small ones too.
    cell_sizes : mapping of str to int
    worst, best : str or None
        Among the cells that are large enough.
    gap : Evidence
        Best less worst; its interval holds for all pairs of cells together.
    disparity : Disparity
        Gaps to the reference, omnibus test, and what was left out.
    by_column : mapping of str to Evidence
        The same gap for each attribute on its own, which hides what happens at intersections.
    n_empty : int
        Combinations of labels without a row.
    threshold : float
    passes_at_point : bool or None
    verdict : {'pass', 'fail', 'insufficient_evidence'}
        By the high end of the gap's interval.
    """

    cells: Mapping[str, float | None]
    cell_sizes: Mapping[str, int]
    worst: str | None
    best: str | None
    gap: Evidence
    disparity: Disparity
    by_column: Mapping[str, Evidence]
    n_empty: int
    threshold: float
    passes_at_point: bool | None
    verdict: Verdict


def intersectional_audit(
    y_true: Any,
    y_pred: Any,
    groups: Any,
    *,
    rate: str = "accuracy",
    positive: Any = None,
    positive_pred: Any = None,
    preset: Preset | Thresholds = "strict",
    max_gap: float | None = None,
    reference: Reference = "largest",
    min_group: int = MIN_GROUP,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    family: Family = "holm",
    clusters: Any = None,
) -> IntersectionalAudit:
    """Compare all combinations of several attributes in one rate, accuracy unless another is named (SPEC 15.5).

    Parameters
    ----------
    y_true, y_pred : array_like, shape (rows,)
    groups : mapping or table
        The columns whose combinations are the cells.
    rate : str
        accuracy, selection_rate, false_positive_rate, false_negative_rate, true_positive_rate, true_negative_rate or
        positive_predictive_value.
    positive, positive_pred : value, optional
        Positive value of both columns, and of `y_pred` where it has another one.
    preset : {'strict', 'lenient'} or Thresholds
    max_gap : float, optional
        Overrides the preset's largest allowed gap.
    reference, min_group, confidence_level, family, clusters
        As in `demographic_parity`.

    Returns
    -------
    IntersectionalAudit

    Raises
    ------
    InputError
        As `demographic_parity`.
    UndefinedError
        If there is no such rate.

    Examples
    --------
    >>> right = [1] * 260 + [0] * 140 + ([1] * 320 + [0] * 80) * 3  # 65% in the first cell, 80% in the others
    >>> sex, race = ["f"] * 800 + ["m"] * 800, (["b"] * 400 + ["w"] * 400) * 2
    >>> audit = intersectional_audit([1] * 1600, right, {"sex": sex, "race": race})
    >>> audit.worst, round(audit.gap.value, 3), audit.verdict
    ('f & b', 0.15, 'insufficient_evidence')
    """
    if rate not in RATES:
        raise UndefinedError("rate", rate, f"is one of {', '.join(RATES)}")
    threshold = thresholds_of(preset).max_accuracy_gap if max_gap is None else max_gap
    truth, predicted = outcomes(y_true, y_pred, positive, positive_pred)
    tensor = confusion_tensor(group_columns(groups), predicted, truth, clusters)
    counted = tensor.together()
    settings = Settings(reference=reference, family=family, min_group=min_group, confidence_level=confidence_level)
    comparison = Comparison.of(rate, counted, settings)
    (found,) = disparities([{rate: comparison}], family)
    disparity = found[rate]
    gap = disparity.difference
    return IntersectionalAudit(
        cells={name: rate_of(comparison, place) for place, name in enumerate(counted.names)},
        cell_sizes=dict(zip(counted.names, map(int, counted.n), strict=True)),
        worst=disparity.worst,
        best=disparity.best,
        gap=gap,
        disparity=disparity,
        by_column={name: Comparison.of(rate, tensor.by_column(name), settings).spread()[0] for name in tensor.columns},
        n_empty=counted.n_empty,
        threshold=threshold,
        passes_at_point=None if gap.value is None else gap.value <= threshold,
        verdict=at_most(gap, threshold),
    )
