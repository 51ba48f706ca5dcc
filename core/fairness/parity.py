"""Demographic parity and equalized odds with their evidence (SPEC 15.5, 15.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from core.fairness.audited import Disparity, Evidence, EvidenceStatus
from core.fairness.columns import outcome
from core.fairness.confusion import confusion_tensor
from core.fairness.disparity import Comparison, Reference, Settings, disparities
from core.fairness.groups import group_columns
from core.fairness.presets import Preset, Thresholds, all_of, at_least, at_most, thresholds_of
from core.fairness.spec import MIN_GROUP, Family
from core.gates.decision import Verdict
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class DemographicParity:
    """Selection rates side by side.

    Attributes
    ----------
    selection_rates : mapping of str to float or None
        By group, small ones too; None where no row has a prediction.
    ratio : Evidence
        Smallest over largest; its interval holds for all pairs of groups together.
    difference : Evidence
    disparity : Disparity
        Gaps, omnibus test, and what was left out.
    threshold : float
        Smallest allowed ratio.
    passes_at_point : bool or None
        The published rule: the ratio alone against the threshold. None where there is no ratio.
    verdict : {'pass', 'fail', 'insufficient_evidence'}
        By the low end of the ratio's interval.
    """

    selection_rates: Mapping[str, float | None]
    ratio: Evidence
    difference: Evidence
    disparity: Disparity
    threshold: float
    passes_at_point: bool | None
    verdict: Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualizedOdds:
    """False-positive and false-negative rates side by side; both gate.

    Attributes
    ----------
    rates : mapping of str to mapping
        By group: false_positive_rate, false_negative_rate, true_positive_rate; None where a group has no negatives, or
        no positives.
    false_positive_rate, false_negative_rate : Disparity
    larger : Evidence
        The larger of the two differences; its interval holds for both.
    max_fpr_difference, max_fnr_difference : float
    passes_at_point : bool or None
        Both differences below their limits; None where one does not exist.
    verdict : {'pass', 'fail', 'insufficient_evidence'}
        By the high ends.
    """

    rates: Mapping[str, Mapping[str, float | None]]
    false_positive_rate: Disparity
    false_negative_rate: Disparity
    larger: Evidence
    max_fpr_difference: float
    max_fnr_difference: float
    passes_at_point: bool | None
    verdict: Verdict


def demographic_parity(
    y_pred: Any,
    groups: Any,
    *,
    positive: Any = None,
    preset: Preset | Thresholds = "strict",
    min_ratio: float | None = None,
    reference: Reference = "largest",
    min_group: int = MIN_GROUP,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    family: Family = "holm",
    clusters: Any = None,
) -> DemographicParity:
    """Compare the rates at which groups are selected (SPEC 15.5).

    Parameters
    ----------
    y_pred : array_like, shape (rows,)
    groups : array_like, mapping or table
        One column, or several whose combinations are the groups. A missing label is a group.
    positive : value, optional
        The value that means selected; needed unless `y_pred` holds 0 and 1, or booleans.
    preset : {'strict', 'lenient'} or Thresholds
    min_ratio : float in (0, 1], optional
        Overrides the preset's.
    reference : mapping, 'largest' or 'best'
        Group that the others are compared with, by column.
    min_group : int
        Rows under which a group is listed but not compared.
    confidence_level : float
        In (0, 1).
    family : {'holm', 'benjamini_hochberg', 'none'}
    clusters : array_like, optional
        Prompt or scenario of each row, whose rows are not independent.

    Returns
    -------
    DemographicParity
        With one group there is nothing to compare, and where nobody is selected no ratio: ``not_evaluable``, never a
        pass.

    Raises
    ------
    InputError
        If the positive value is not declared, or does not fit the column, or lengths differ.

    References
    ----------
    Uniform Guidelines on Employee Selection Procedures (1978), 29 CFR 1607.4 D, for four fifths.

    Examples
    --------
    >>> men, women = [1] * 600 + [0] * 400, [1] * 400 + [0] * 600
    >>> parity = demographic_parity(men + women, ["M"] * 1000 + ["F"] * 1000)
    >>> round(parity.ratio.value, 4), parity.passes_at_point, parity.verdict
    (0.6667, False, 'fail')
    """
    threshold = thresholds_of(preset).min_parity_ratio if min_ratio is None else min_ratio
    counted = confusion_tensor(group_columns(groups), outcome(y_pred, "y_pred", positive), clusters=clusters).together()
    settings = Settings(reference=reference, family=family, min_group=min_group, confidence_level=confidence_level)
    comparison = Comparison.of("selection_rate", counted, settings)
    (found,) = disparities([{"selection_rate": comparison}], family)
    disparity = found["selection_rate"]
    return DemographicParity(
        selection_rates=_rates(comparison),
        ratio=disparity.ratio,
        difference=disparity.difference,
        disparity=disparity,
        threshold=threshold,
        passes_at_point=None if disparity.ratio.value is None else disparity.ratio.value >= threshold,
        verdict=at_least(disparity.ratio, threshold),
    )


def equalized_odds(
    y_true: Any,
    y_pred: Any,
    groups: Any,
    *,
    positive: Any = None,
    positive_pred: Any = None,
    preset: Preset | Thresholds = "strict",
    max_difference: float | None = None,
    reference: Reference = "largest",
    min_group: int = MIN_GROUP,
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL,
    family: Family = "holm",
    clusters: Any = None,
) -> EqualizedOdds:
    """Compare the false-positive and false-negative rates of groups (SPEC 15.5).

    Parameters
    ----------
    y_true, y_pred : array_like, shape (rows,)
    groups : array_like, mapping or table
    positive, positive_pred : value, optional
        Positive value of both columns, and of `y_pred` where it has another one.
    preset : {'strict', 'lenient'} or Thresholds
    max_difference : float in [0, 1), optional
        Overrides the preset's for both rates.
    reference, min_group, confidence_level, family, clusters
        As in `demographic_parity`.

    Returns
    -------
    EqualizedOdds
        A group without negatives (positives) has no false-positive (false-negative) rate: it is named, and the evidence
        is then incomplete.

    Raises
    ------
    InputError
        As `demographic_parity`.

    References
    ----------
    Hardt, Price & Srebro (2016), NeurIPS.

    Examples
    --------
    >>> truth, said = [1, 1, 0, 0] * 500, [1, 0, 0, 0] * 250 + [1, 1, 0, 1] * 250
    >>> odds = equalized_odds(truth, said, ["a"] * 1000 + ["b"] * 1000)
    >>> odds.false_positive_rate.difference.value, odds.false_negative_rate.difference.value, odds.verdict
    (0.5, 0.5, 'fail')
    """
    wanted = thresholds_of(preset)
    limits = [
        limit if max_difference is None else max_difference
        for limit in (wanted.max_fpr_difference, wanted.max_fnr_difference)
    ]
    truth, predicted = outcomes(y_true, y_pred, positive, positive_pred)
    counted = confusion_tensor(group_columns(groups), predicted, truth, clusters).together()
    settings = Settings(reference=reference, family=family, min_group=min_group, confidence_level=confidence_level)
    names = ("false_positive_rate", "false_negative_rate", "true_positive_rate")
    comparisons = {name: Comparison.of(name, counted, settings) for name in names}
    (found,) = disparities([comparisons], family)
    by_rate = {name: _rates(comparison) for name, comparison in comparisons.items()}
    differences = [found[name].difference for name in names[:2]]
    return EqualizedOdds(
        rates={group: {name: by_rate[name][group] for name in names} for group in counted.names},
        false_positive_rate=found["false_positive_rate"],
        false_negative_rate=found["false_negative_rate"],
        larger=larger_difference(comparisons["false_positive_rate"], comparisons["false_negative_rate"]),
        max_fpr_difference=limits[0],
        max_fnr_difference=limits[1],
        passes_at_point=_below([evidence.value for evidence in differences], limits),
        verdict=all_of(*(at_most(d, limit, strictly=True) for d, limit in zip(differences, limits, strict=True))),
    )


def outcomes(y_true: Any, y_pred: Any, positive: Any, positive_pred: Any) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
    """Read labels and predictions, whose positive values may differ."""
    of_pred = positive if positive_pred is None else positive_pred
    return outcome(y_true, "y_true", positive), outcome(y_pred, "y_pred", of_pred)


def larger_difference(first: Comparison, second: Comparison) -> Evidence:
    """Return the larger of two differences, with limits that hold for both (Bonferroni)."""
    level = first.settings.confidence_level
    both = [comparison.spread(1.0 - (1.0 - level) / 2.0)[0] for comparison in (first, second)]
    values = [evidence.value for evidence in both if evidence.value is not None]
    intervals = [evidence.interval for evidence in both if evidence.interval is not None]
    n, n_classified = both[0].n, min(evidence.n_classified for evidence in both)
    statuses = {evidence.status for evidence in both}
    status: EvidenceStatus = "not_evaluable" if not values else "measured" if statuses == {"measured"} else "incomplete"
    interval = Interval(
        low=max(one.low for one in intervals), high=max(one.high for one in intervals),
        confidence_level=level, method="newcombe_all_pairs_both",
    ) if len(intervals) == 2 else None  # fmt: skip
    return Evidence(
        status=status,
        value=max(values) if values else None,
        interval=interval,
        n=n,
        n_classified=n_classified,
        coverage=n_classified / n if n else 0.0,
        reason="; ".join(dict.fromkeys(one.reason for one in both if one.reason is not None)) or None,
        scale="difference",
    )


def rate_of(comparison: Comparison, place: int) -> float | None:
    """Rate of one group, None where nobody is at risk."""
    value = float(comparison.over.values[place])
    return None if np.isnan(value) else value


def _rates(comparison: Comparison) -> dict[str, float | None]:
    return {name: rate_of(comparison, place) for place, name in enumerate(comparison.names)}


def _below(values: list[float | None], limits: list[float]) -> bool | None:
    if any(value is None for value in values):
        return None
    return all(value is not None and value < limit for value, limit in zip(values, limits, strict=True))
