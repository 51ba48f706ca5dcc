"""What a comparison says: the frozen records of a change between releases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.inference.drift import ScoreDrift
from core.inference.paired import ChangeMethod
from core.instrument.measured import CalibrationLink, NamedLimits, Status
from core.instrument.spec import JudgeIdentity

Verdict = Literal["increase", "decrease", "no_evidence_of_change", "not_comparable"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceInterval:
    """Interval of the difference of two corrected rates; not clipped.

    Attributes
    ----------
    low, high : float
        ``low < high``.
    method : str
        ``shared_calibration_paired``, ``shared_calibration_unpaired`` or ``separate_calibrations``.
    confidence_level : float in (0, 1)
        Of this interval alone, whatever the number of categories.
    """

    low: float
    high: float
    method: Literal["shared_calibration_paired", "shared_calibration_unpaired", "separate_calibrations"]
    confidence_level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedSide:
    """One release on the compared units: redo the difference from these.

    Attributes
    ----------
    n_units, n_flagged : float
        Compared units, and those flagged; whole, unless a record's effective counts are all that is known.
    observed_rate : float
    sensitivity, specificity, youden_j, youden_j_low : float
        Of the calibration, weighted to the turn counts of these units.
    n_positive, n_negative : float
        Effective golden traces behind them.
    raw : float
        Corrected rate, not clipped.
    n_effective : float
        Independent units that these are worth, t factor included; of the pairs, when paired.
    n_clusters : int
    """

    n_units: int
    n_flagged: float
    observed_rate: float
    sensitivity: float
    specificity: float
    youden_j: float
    youden_j_low: float
    n_positive: float
    n_negative: float
    raw: float
    n_effective: float
    n_clusters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferenceVariance:
    """The parts of the difference's variance: sampling of the flags, and the calibration's two rates."""

    flags: float
    sensitivity: float
    specificity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTolerance:
    """By how much one of the judge's rates would have to differ between the releases; None: no shift up to 1 does."""

    sensitivity: float | None
    specificity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaJGuard:
    """How far the judge would have to treat the releases differently to erase the difference (SPEC 10.4).

    Attributes
    ----------
    rate : float
        The baseline's corrected rate, in [0, 1].
    point : JudgeTolerance
        The shift that explains the whole difference.
    interval : JudgeTolerance
        The shift that brings the interval to 0; 0 where it holds 0 already.
    sensitivity_points, specificity_points : float or None
        `interval` in points (100 times).
    fragile : bool
        A verdict that fewer than 5 points of specificity, or of sensitivity, would erase.
    note : str
        The same in words.
    """

    rate: float
    point: JudgeTolerance
    interval: JudgeTolerance
    sensitivity_points: float | None
    specificity_points: float | None
    fragile: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One quantity (a category or the composite) in two releases.

    Attributes
    ----------
    verdict : str
        From `p_adjusted`; ``not_comparable`` has neither difference nor test, and `notes` say why.
    baseline, candidate : float or None
        The rates that the two measurements report, clipped, over all of their units.
    difference : float or None
        Candidate minus baseline, of the unclipped corrected rates on the compared units: not
        ``candidate - baseline``.
    interval : DifferenceInterval or None
        Never of zero width.
    p_value, p_adjusted : float in (0, 1] or None
        Two-sided; `p_adjusted` by Holm over the composite and the categories.
    method : str or None
        The test.
    paired : bool
    n_pairs : int
        Pairs compared; 0 when not paired.
    n_pairs_unscored, n_pairs_outside : int
        Pairs left out: not fully scored in both, or with numbers of turns that the golden set does not have.
    n_candidate_only, n_baseline_only : int or None
        Compared pairs that are flagged in one release alone.
    observed_difference : float or None
        Of the flag rates: smaller than the difference by about J, and no estimate of it.
    sides : mapping of str to ComparedSide
        ``baseline`` and ``candidate``; empty when not comparable.
    variance : DifferenceVariance or None
    delta_j_guard : DeltaJGuard or None
    notes : tuple of str
    """

    verdict: Verdict
    baseline: float | None
    candidate: float | None
    difference: float | None = None
    interval: DifferenceInterval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    method: ChangeMethod | None = None
    paired: bool
    n_pairs: int = 0
    n_pairs_unscored: int = 0
    n_pairs_outside: int = 0
    n_candidate_only: int | None = None
    n_baseline_only: int | None = None
    observed_difference: float | None = None
    sides: Mapping[str, ComparedSide]
    variance: DifferenceVariance | None = None
    delta_j_guard: DeltaJGuard | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRelease:
    """A release that takes part in a comparison."""

    target: str | None
    calibration: CalibrationLink
    judge: JudgeIdentity
    n_units: int
    unscored_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreShift:
    """Whether the judge's scores moved, category by category (SPEC 13.5): shown, and no part of any verdict.

    Attributes
    ----------
    releases : mapping of str to ScoreDrift
        The candidate's scores against the baseline's.
    golden_baseline, golden_candidate : mapping of str to ScoreDrift
        Each release's against the golden set's; empty where the calibration has no golden set (declared). A golden set
        that is enriched with violations has higher scores than production by design.
    """

    releases: Mapping[str, ScoreDrift]
    golden_baseline: Mapping[str, ScoreDrift]
    golden_candidate: Mapping[str, ScoreDrift]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Two releases, compared.

    Attributes
    ----------
    same_calibration : bool
        If not, the two rates come from two instruments, and so may their difference.
    paired : bool
        Unit by unit, from the decisions of both.
    n_baseline_only, n_candidate_only : int or None
        Units that only one release has, when paired.
    family : str
        The adjustment of the p-values.
    composite_categories : tuple of str
    categories : mapping of str to Compared
    score_shift : ScoreShift or None
        Where it was asked for.
    """

    instrument: str
    baseline: ComparedRelease
    candidate: ComparedRelease
    same_calibration: bool
    paired: bool
    clustered: bool
    n_baseline_only: int | None
    n_candidate_only: int | None
    confidence_level: float
    family: Literal["holm"] = "holm"
    composite_categories: tuple[str, ...]
    composite: Compared
    categories: Mapping[str, Compared]
    score_shift: ScoreShift | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRate:
    """One quantity of one release of a series."""

    status: Status
    value: float | None
    interval: NamedLimits | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesPoint:
    """One release of a series.

    Attributes
    ----------
    measurement : str
        Id of its record.
    calibration : str
        Id of the calibration's.
    segment : int
        Releases of one segment were measured with one instrument; from 0.
    break_before : str or None
        Why no difference to the release before is given.
    change : Comparison or None
        Against the release before it.
    """

    measurement: str
    target: str | None
    calibration: str
    segment: int
    break_before: str | None
    composite: SeriesRate
    categories: Mapping[str, SeriesRate]
    change: Comparison | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """Releases in order, with breaks where the instrument changed; no difference crosses a break."""

    points: tuple[SeriesPoint, ...]
    notes: tuple[str, ...] = ()
