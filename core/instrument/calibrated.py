"""What a calibration says: the frozen records of an instrument with known error rates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Literal

from core.data.facts import SourceFacts
from core.errors import UndefinedError
from core.inference.agreement import LabelNoise, RaterAgreement
from core.instrument.optimism import Optimism
from core.instrument.spec import Attempts, GoldenDesign, IntervalMethod, JudgeIdentity, TurnScope
from core.instrument.strata import Stratum
from core.records import UNSAID

Status = Literal["measured", "inconclusive", "below_detection_floor", "insufficient_data", "not_calibrated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apparent:
    """The judge as it looks on the traces that chose its threshold: the papers' literal figures.

    A detector's is what it is: no trace chose anything.
    """

    threshold: float | None
    sensitivity: float
    specificity: float
    youden_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveCounts:
    """What the golden traces of each class are worth in independent traces, with the reasons.

    A class's worth is its traces / design effect * t factor; one that is judged without a single error (or always
    wrongly) is worth its number of clusters.
    """

    n_positive: float
    n_negative: float
    positive_clusters: int
    negative_clusters: int
    positive_design_effect: float = 1.0
    negative_design_effect: float = 1.0
    positive_t_factor: float = 1.0
    negative_t_factor: float = 1.0
    clustered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """How far the raters of a category's golden labels agree, and what that does to J.

    Attributes
    ----------
    raters : RaterAgreement
    label_noise : LabelNoise or None
        None where J or the disagreement is not known.
    """

    raters: RaterAgreement
    label_noise: LabelNoise | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The instrument for one category, or for the composite.

    Attributes
    ----------
    status : str
        ``not_calibrated`` has no figures but the counts; the others have all.
    threshold : float or None
        In [0, 1]; None for the composite, and where no threshold beats chance. 1 for a detector's decisions.
    n_positive, n_negative, true_positives, true_negatives : int or None
        Golden counts at the deployed threshold, before the optimism correction; by holdout those of the half that
        measured, as all figures but `apparent`. The true ones are None in a declared calibration.
    n_unscored : int
        Labelled golden traces that the judge did not score at every turn: left out.
    sensitivity, specificity, youden_j : float or None
        After the optimism correction: what to expect of the deployed threshold on new traces.
    youden_j_low : float or None
        Lower confidence bound of `youden_j` (MOVER, SPEC 6).
    effective : EffectiveCounts or None
    apparent : Apparent or None
    optimism : Optimism or None
        What the bootstrap took off; None by holdout and for a detector, which have nothing to take off.
    by_turns : tuple of Stratum or None
        None in a declared calibration: no weighting to turn counts is possible.
    agreement : LabelAgreement or None
        Of a category whose golden labels come from several raters.
    notes : tuple of str
        What a reader has to know, in words.
    """

    status: Status
    threshold: float | None = None
    n_positive: int = 0
    n_negative: int = 0
    true_positives: int | None = None
    true_negatives: int | None = None
    n_unscored: int = 0
    sensitivity: float | None = None
    specificity: float | None = None
    youden_j: float | None = None
    youden_j_low: float | None = None
    effective: EffectiveCounts | None = None
    apparent: Apparent | None = None
    optimism: Optimism | None = None
    by_turns: tuple[Stratum, ...] | None = None
    agreement: LabelAgreement | None = field(default=None, metadata=UNSAID)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Counts and rates in a part of the golden set, with nothing taken off; a rate without traces is None."""

    n_positive: int
    true_positives: int
    sensitivity: float | None
    n_negative: int
    true_negatives: int
    specificity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The ceiling effect: apparent specificity of the composite beside what categories alone would suggest."""

    minimum: float
    product: float
    measured: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRates:
    """Composite sensitivity over the golden traces with one label pattern."""

    n_positive: int
    true_positives: int
    sensitivity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeCalibrated(Calibrated):
    """The instrument for the composite: any of the categories with a finite threshold.

    Attributes
    ----------
    categories : tuple of str
        Those the composite spans; bit i of a decision mask is the i-th of them.
    left_out : tuple of str
        Categories without a finite threshold.
    ceiling : Ceiling or None
    by_pattern : mapping
        Composite sensitivity for positives of one single category, and of ``several``.
    """

    categories: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    ceiling: Ceiling | None = None
    by_pattern: Mapping[str, PatternRates] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRates:
    """Rates within one value of a slice column."""

    n_traces: int
    categories: Mapping[str, Rates]
    composite: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenRaters:
    """The raters of a golden set: their labels of traces are its votes, and a tie leaves a trace without a label."""

    n_raters: int
    n_votes: int
    n_ties: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSummary:
    """What the calibration was made from."""

    n_traces: int
    n_undecidable: int
    n_unmatched: int
    n_duplicates: int
    n_clusters: int
    sha256: str
    turns: Mapping[str, int]
    raters: GoldenRaters | None = field(default=None, metadata=UNSAID)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A calibrated instrument: the result of `calibrate`, with all that measuring with it needs to know."""

    instrument: str
    judge: JudgeIdentity
    judge_source: str
    judge_accepted: bool = False
    calibration_source: Literal["golden_set", "simulated", "declared", "none"]
    confidence_level: float
    detection_floor: float
    interval: IntervalMethod
    turn_bins: tuple[int, ...]
    attempts: Attempts = "each"
    turn_scope: TurnScope = "all"
    error_budget: float = 0.05
    seed: int
    golden: GoldenSummary | None
    categories: Mapping[str, Calibrated]
    composite: CompositeCalibrated
    slices: Mapping[str, Mapping[str, SliceRates]]
    golden_design: GoldenDesign = field(default="enriched", metadata=UNSAID)
    mix_robust: bool = field(default=False, metadata=UNSAID)
    sources: tuple[SourceFacts, ...] = field(default=(), metadata=UNSAID)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorCalibration(Calibration):
    """A calibrated detector: how often its decisions are right, with nothing chosen on the golden set (SPEC 4.1).

    Attributes
    ----------
    kind : 'detections'
        What it measures; a calibration without this field measures scores.
    """

    kind: Literal["detections"] = "detections"


def kind_of(calibration: Calibration) -> Literal["scores", "detections"]:
    """Return what a calibration measures."""
    return calibration.kind if isinstance(calibration, DetectorCalibration) else "scores"


def deployable(calibration: Calibration) -> tuple[str, ...]:
    """Return the categories that a measurement flags, in bit order.

    Raises
    ------
    UndefinedError
        No category has a finite threshold: there is nothing to measure with.
    """
    if not calibration.composite.categories:
        raise UndefinedError(
            "calibration", calibration.instrument,
            "no category has a threshold that beats chance, so nothing can be measured with it",
        )  # fmt: skip
    return calibration.composite.categories


def thresholds_of(calibration: Calibration) -> list[float]:
    """Return the thresholds in bit order: the composite's categories, then the others, which never flag (+inf)."""
    names = deployable(calibration)
    others = [name for name in calibration.categories if name not in names]
    found = [calibration.categories[name].threshold for name in names]
    return [inf if threshold is None else threshold for threshold in found] + [inf] * len(others)
