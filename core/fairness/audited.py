"""What an audit of predictions says: the frozen records of groups, gaps and their evidence.

Every figure that a gate may read is an `Evidence`: a value with its interval, or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.errors import UndefinedError
from core.inference.intervals import Interval

METRIC_VERSION = "1"
"""Version of the definitions in SPEC 15; a gate bound to another one refuses."""

EvidenceStatus = Literal["measured", "incomplete", "not_evaluable"]
LedgerKind = Literal[
    "missing_attribute", "missing_prediction", "missing_label", "missing_score", "small_group", "empty_cell"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A figure that a gate may read.

    Attributes
    ----------
    status : {'measured', 'incomplete', 'not_evaluable'}
        ``incomplete``: a group that is large enough has no such rate (no negatives, say), so the figure leaves it out.
        Only ``measured`` can pass a gate.
    value : float or None
        None exactly where it is not evaluable.
    interval : Interval or None
        For a spread over groups it holds together for all pairs of them.
    n : int
        Rows of the table; for one group's figure, of the group.
    n_classified : int
        Those of them that the value rests on.
    coverage : float in [0, 1]
        `n_classified` over `n`; 0 without rows.
    reason : str or None
        Why it is incomplete or not evaluable.
    scale : {'difference', 'ratio', 'rate', 'ece'}
    metric_version : str
    """

    status: EvidenceStatus
    value: float | None = None
    interval: Interval | None = None
    n: int
    n_classified: int
    coverage: float
    reason: str | None = None
    scale: Literal["difference", "ratio", "rate", "ece"]
    metric_version: str = METRIC_VERSION

    def __post_init__(self) -> None:
        if (self.value is None) is not (self.status == "not_evaluable"):
            raise UndefinedError("value", self.value, f"does not fit the status {self.status}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """A rate of one group: events over those at risk, with its Wilson interval; all None where nobody is at risk.

    Attributes
    ----------
    events, at_risk : int
    value : float or None
    interval : Interval or None
        On effective counts where rows are clustered.
    """

    events: int
    at_risk: int
    value: float | None
    interval: Interval | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    """One group.

    Attributes
    ----------
    values : mapping
        Label by column; None where the attribute is missing.
    n : int
        Rows.
    n_scored, n_labelled : int
        Rows with a prediction, and with a label as well.
    positives, negatives : int
        Of the rows with label and prediction.
    true_positives, false_positives, true_negatives, false_negatives : int
    n_clusters : int or None
    small : bool
        Under the minimum size, so listed but not compared.
    rates : mapping of str to Rate
        selection_rate, and with labels true_positive_rate, false_positive_rate, false_negative_rate,
        true_negative_rate, positive_predictive_value, accuracy, base_rate.
    """

    values: Mapping[str, str | None]
    n: int
    n_scored: int
    n_labelled: int
    positives: int
    negatives: int
    true_positives: int
    false_positives: int
    true_negatives: int
    false_negatives: int
    n_clusters: int | None
    small: bool
    rates: Mapping[str, Rate]


@dataclass(frozen=True, slots=True, kw_only=True)
class Gap:
    """One group against the reference, in one rate.

    Attributes
    ----------
    group, reference : str
    status : {'evaluated', 'not_evaluable'}
    reason : str or None
        ``small_group``, ``undefined_rate`` or ``reference_undefined``.
    difference, ratio : float or None
        Group less, and over, the reference; no ratio where the reference's rate is 0.
    difference_interval, ratio_interval : Interval or None
    p_value, p_adjusted : float or None
        Raw, and adjusted over the audit's family. A complementary rate (TNR of FPR, TPR of FNR) is the same question,
        and is counted once.
    significant : bool
        `p_adjusted` below 1 - confidence level.
    difference_to_best, ratio_to_best, difference_to_worst, ratio_to_worst : float or None
        Against the compared groups with the best and the worst rate.
    method : str or None
        Of the p-value.
    """

    group: str
    reference: str
    status: Literal["evaluated", "not_evaluable"]
    reason: str | None = None
    difference: float | None = None
    difference_interval: Interval | None = None
    ratio: float | None = None
    ratio_interval: Interval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    significant: bool = False
    difference_to_best: float | None = None
    ratio_to_best: float | None = None
    difference_to_worst: float | None = None
    ratio_to_worst: float | None = None
    method: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Omnibus:
    """One test that all compared groups have one rate; adjusted over the audit's tests of this kind."""

    statistic: float
    degrees_of_freedom: int
    p_value: float
    p_adjusted: float
    significant: bool
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Disparity:
    """How one rate differs over the groups.

    Attributes
    ----------
    difference : Evidence
        Largest less smallest rate.
    ratio : Evidence
        Smallest over largest rate; not evaluable where all are 0.
    best, worst : str or None
        Groups with the best and the worst rate: a low one is good for false positives and negatives, a high one
        otherwise.
    reference : str or None
    compared : tuple of str
        Groups that are large enough and have the rate.
    left_out : mapping of str to str
        The other groups, with the reason: ``empty``, ``small_group`` or ``undefined_rate``.
    omnibus : Omnibus or None
        None with fewer than two compared groups.
    gaps : tuple of Gap
        Every other group that has rows against the reference.
    minimum_detectable_difference : float or None
        Smallest true difference between the reference (else the best group) and the smallest compared group that would
        be found with power .8 at this level.
    """

    difference: Evidence
    ratio: Evidence
    best: str | None
    worst: str | None
    reference: str | None
    compared: tuple[str, ...]
    left_out: Mapping[str, str]
    omnibus: Omnibus | None
    gaps: tuple[Gap, ...]
    minimum_detectable_difference: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """One bin of scores: [low, high), the last one [low, 1].

    Attributes
    ----------
    n : int
    mean_score : float or None
        Of the scores in the bin; None for an empty one.
    observed_rate : float or None
        Share of the outcome among them.
    """

    low: float
    high: float
    n: int
    mean_score: float | None
    observed_rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reliability:
    """Whether a group's scores are probabilities.

    Attributes
    ----------
    ece : Evidence
        Expected calibration error with the mean score of each bin.
    noise_floor : float or None
        ECE that perfectly calibrated scores of this number would show.
    squared_error, debiased_squared_error : float or None
        Weighted mean of the bins' squared gaps, and the same less its expected noise (it may be negative).
    debiased : float or None
        Root of the latter, 0 where it is negative: comparable over groups of different size.
    p_value, p_adjusted : float or None
        Of the hypothesis that the scores are calibrated.
    mean_score, observed_rate : float or None
    score_means : {'positive', 'correct'}
    bins : tuple of Bin
    """

    ece: Evidence
    noise_floor: float | None
    squared_error: float | None
    debiased_squared_error: float | None
    debiased: float | None
    p_value: float | None
    p_adjusted: float | None
    mean_score: float | None
    observed_rate: float | None
    score_means: Literal["positive", "correct"]
    bins: tuple[Bin, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupAudit:
    """The groups of one column, or of all together.

    Attributes
    ----------
    columns : tuple of str
    groups : mapping of str to GroupRow
        By label; of an intersection ``label & label``.
    rates : mapping of str to Disparity
    equalized_odds : Evidence or None
        The larger of the differences in false-positive and false-negative rate; its interval holds for both.
    reliability : mapping of str to Reliability
        By group; empty without scores.
    worst_ece : Evidence or None
        The largest ECE among the compared groups, its interval holding for all of them together.
    """

    columns: tuple[str, ...]
    groups: Mapping[str, GroupRow]
    rates: Mapping[str, Disparity]
    equalized_odds: Evidence | None = None
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    worst_ece: Evidence | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerEntry:
    """One thing that was left out or set apart.

    Attributes
    ----------
    kind : {'missing_attribute', 'missing_prediction', 'missing_label', 'missing_score', 'small_group', 'empty_cell'}
    where : str
        Column, or columns joined with ``x``.
    group : str or None
    n : int
        Rows (cells, for the cells that are not named one by one).
    """

    kind: LedgerKind
    where: str
    group: str | None
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Shortfall:
    """A group that a data set has too little of: rows, positives or negatives."""

    where: str
    group: str
    n: int
    positives: int | None
    negatives: int | None
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetCheck:
    """Whether a data set can carry an audit.

    Attributes
    ----------
    sufficient : bool
        No shortfall, and a source is named.
    n : int
    min_group : int
    smallest_group, largest_group : mapping of str to int
        Rows, by column (or columns joined with ``x``).
    balance : mapping of str to float
        Smallest over largest group, in [0, 1]; 1 is evenly stratified.
    shortfalls : tuple of Shortfall
        Groups with ``few_rows``, ``no_positives`` or ``no_negatives``.
    source : str or None
    notes : tuple of str
        ``no_source``, ``one_group``, ``no_labels``, ``unevenly_stratified`` (balance under .1).
    """

    sufficient: bool
    n: int
    min_group: int
    smallest_group: Mapping[str, int]
    largest_group: Mapping[str, int]
    balance: Mapping[str, float]
    shortfalls: tuple[Shortfall, ...]
    source: str | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionAudit:
    """The result of auditing predictions.

    Attributes
    ----------
    kind : {'predictions'}
    name : str
    n_rows, n_scored, n_labelled : int
        Rows, those with a prediction, and those with a label as well.
    unscored_share : float
        In [0, 1].
    clustered : bool
    n_clusters : int or None
    confidence_level : float
    family : str
    n_comparisons, n_omnibus : int
        Size of the family of gaps, and of that of omnibus tests.
    attributes : mapping of str to GroupAudit
        By column.
    intersections : GroupAudit or None
        All columns together; None with one column, or if the spec leaves it out.
    dataset : DatasetCheck
    ledger : tuple of LedgerEntry
    metric_version : str
    """

    kind: Literal["predictions"] = "predictions"
    name: str
    n_rows: int
    n_scored: int
    n_labelled: int
    unscored_share: float
    clustered: bool
    n_clusters: int | None
    confidence_level: float
    family: str
    n_comparisons: int
    n_omnibus: int
    attributes: Mapping[str, GroupAudit]
    intersections: GroupAudit | None
    dataset: DatasetCheck
    ledger: tuple[LedgerEntry, ...]
    metric_version: str = METRIC_VERSION
