"""What a measurement says: the frozen records of rates in production."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from core.data.facts import SourceFacts
from core.inference.mix import MixRobust, MixShift
from core.inference.prevalence import JudgeShift
from core.inference.transport import Transport
from core.instrument.spec import JudgeIdentity
from core.records import UNSAID

Status = Literal[
    "measured", "inconclusive", "incompatible",
    "below_detection_floor", "not_calibrated", "insufficient_data", "unit_mismatch",
]  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedInterval:
    """Interval of the observed (apparent) rate; it does not claim to cover the true rate.

    Attributes
    ----------
    status : {'defined', 'undefined'}
        Undefined for one unit, or for units of one cluster.
    low, high : float or None
        In [0, 1].
    method : str or None
        ``modified_wilson`` (the papers'), or the same on effective counts when units are clustered.
    n_effective : float or None
    independent : Limits or None
        The papers' literal interval, as if the units were independent; given when they are clustered.
    clopper_pearson, jeffreys : Limits or None
        Beside a defined interval, on the same `n_effective`; records made before these were added have none.
    """

    status: Literal["defined", "undefined"]
    low: float | None = None
    high: float | None = None
    method: str | None = None
    n_effective: float | None = None
    independent: Limits | None = None
    clopper_pearson: Limits | None = None
    jeffreys: Limits | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Two ends of an interval in [0, 1]."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedLimits(Limits):
    """The interval of the corrected rate, with its method."""

    method: str
    confidence_level: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaLimits(Limits):
    """The papers' delta-method interval; `degenerate` when it has no width."""

    variance: float
    degenerate: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApparentPrevalence:
    """The papers' literal p_true, from apparent sensitivity and specificity.

    `valid_here` is False where production's unit is not the golden set's: the figure is then biased.
    """

    value: float
    raw: float
    delta: DeltaLimits
    valid_here: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveMeasurement:
    """The counts on which the corrected interval was computed: redo it from these.

    Sizes are effective; sensitivity and specificity are corrected for optimism and weighted to turn counts.
    """

    n_units: float
    n_flagged: float
    n_positive: float
    true_positives: float
    n_negative: float
    true_negatives: float
    sensitivity: float
    specificity: float
    youden_j: float
    youden_j_low: float
    n_clusters: int
    design_effect: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnShare:
    """Production's share of a golden turn stratum, or of what lies outside all of them."""

    turns: str
    n_units: int
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Prevalence:
    """The corrected rate.

    Attributes
    ----------
    status : str
        ``measured`` and ``inconclusive`` carry a value and an interval; ``incompatible`` only `raw`; the others
        neither.
    value : float or None
        Corrected rate, clipped to [0, 1].
    raw : float or None
        Before clipping.
    clipped : bool
    interval : NamedLimits or None
        By the instrument's method; never of zero width.
    lang_reiczigel, melded : Limits or None
    delta : DeltaLimits or None
    apparent : ApparentPrevalence or None
        The papers' literal figure: beside a corrected rate, and alone for a ``unit_mismatch``, where it says that it
        is not valid.
    effective : EffectiveMeasurement or None
    turns : tuple of TurnShare
        How production's units fall into the golden strata; those outside are left out of the corrected rate.
    judge_shift : tuple of JudgeShift
        The corrected rate if sensitivity or specificity were off by 5 or 10 points.
    mix_shift : tuple of MixShift
        Of the composite: the corrected rate if all of production's violations were of one label pattern.
    mix_robust : MixRobust or None
        Of the composite, where the instrument asks for it: an interval that allows for production's mix of categories.
    notes : tuple of str
    """

    status: Status
    value: float | None = None
    raw: float | None = None
    clipped: bool = False
    interval: NamedLimits | None = None
    lang_reiczigel: Limits | None = None
    delta: DeltaLimits | None = None
    melded: Limits | None = None
    apparent: ApparentPrevalence | None = None
    effective: EffectiveMeasurement | None = None
    turns: tuple[TurnShare, ...] = ()
    judge_shift: tuple[JudgeShift, ...] = ()
    mix_shift: tuple[MixShift, ...] = field(default=(), metadata=UNSAID)
    mix_robust: MixRobust | None = field(default=None, metadata=UNSAID)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One quantity (a category or the composite) in production.

    Attributes
    ----------
    n_units, n_flagged : int
        Fully scored units, and those flagged.
    observed_rate : float or None
        None without a fully scored unit.
    observed_interval : ObservedInterval
    worst_case : Limits
        The rate over all attempted units if none, or all, of the undecided ones violate.
    prevalence : Prevalence
    transport : Transport or None
        What labelled traces of production say of the golden set's rates here, the prediction-powered rate from them,
        and which of the two rates to read. None without such labels.
    """

    n_units: int
    n_flagged: int
    observed_rate: float | None
    observed_interval: ObservedInterval
    worst_case: Limits
    prevalence: Prevalence
    transport: Transport | None = field(default=None, metadata=UNSAID)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeRate:
    """A detector's rate for one attribute: a diagnostic, without an interval."""

    n_units: int
    n_flagged: int
    rate: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCoverage:
    """Simulated coverage in the cell where it was lowest, with its Monte-Carlo error."""

    coverage: float
    mc_error: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedAttribute(AttributeRate):
    """A calibrated detector's rate for one attribute: the diagnostic, and what is behind it.

    Attributes
    ----------
    prevalence : Prevalence
        On the attribute's own sensitivity and specificity.
    """

    prevalence: Prevalence


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateLink:
    """The certificate of a calibration: how its intervals did under known truth (SPEC 14.4).

    Attributes
    ----------
    id : str
        Of the simulation's record.
    coverage, mc_error : float
        Of the cell with the lowest coverage, and the Monte-Carlo error there.
    mean_coverage : float
        Over all cells.
    confidence_level : float in (0, 1)
        At which it was made.
    sufficient : bool
        Whether the coverage is close enough to that level for the interval to be evidence.
    categories : mapping of str to CertifiedCoverage
        Of each category's interval; `coverage` is the composite's.
    """

    id: str
    coverage: float
    mc_error: float
    mean_coverage: float
    confidence_level: float
    sufficient: bool
    categories: Mapping[str, CertifiedCoverage] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationLink:
    """The calibration behind a measurement, with its certificate if one was found."""

    id: str
    source: str
    certificate: CertificateLink | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsSummary:
    """The labelled traces of production that a measurement was given.

    Attributes
    ----------
    n_traces : int
        That are in production.
    n_unmatched : int
        Labelled traces that are not, and were left out.
    n_incomplete : int
        Those of them that lack a label of some category: the composite is assessed without them.
    n_duplicates : int
    sha256 : str
        Digest of the labels' content, as of a golden set.
    """

    n_traces: int
    n_unmatched: int
    n_incomplete: int
    n_duplicates: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What every measurement says of production, whatever the kind of its verdicts.

    Attributes
    ----------
    n_units : int
        Units attempted; each quantity has its own number of fully scored ones.
    unscored_share : float
        In [0, 1].
    composite : Measured
    sources : tuple of SourceFacts
        How other tools' files were read; empty for tables of assay's own.
    """

    instrument: str
    target: str | None
    judge: JudgeIdentity
    judge_source: str
    judge_accepted: bool
    attempts: str
    n_traces: int
    n_units: int
    n_turns: int
    n_duplicates: int
    n_turn_gaps: int
    clustered: bool
    accounting: Mapping[str, int]
    unscored_share: float
    error_budget_exceeded: bool
    calibration: CalibrationLink
    composite_categories: tuple[str, ...]
    composite: Measured
    sources: tuple[SourceFacts, ...] = field(default=(), metadata=UNSAID)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement(Survey):
    """The result of measuring scores with a calibrated judge.

    Attributes
    ----------
    categories : mapping of str to Measured
        All of the calibration's: those left out of the composite have a status and no rate.
    left_out : tuple of str
        Categories that the judge has no threshold for.
    labels : LabelsSummary or None
    """

    categories: Mapping[str, Measured]
    left_out: tuple[str, ...] = ()
    labels: LabelsSummary | None = field(default=None, metadata=UNSAID)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedRate:
    """A rate that the detector reported itself, beside what its raw detections give."""

    name: str
    reported: float
    recomputed: float | None
    agrees: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectionMeasurement(Survey):
    """The result of measuring a detector's decisions without a calibration: observed rates, never corrected."""

    attributes: Mapping[str, AttributeRate]
    reported: tuple[ReportedRate, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CorrectedDetections(Survey):
    """The result of measuring a calibrated detector's decisions.

    Attributes
    ----------
    attributes : mapping of str to CorrectedAttribute
        All of the calibration's: those left out of the composite have a status and no rate.
    left_out : tuple of str
        Attributes that could not be calibrated.
    reported : tuple of ReportedRate
    """

    attributes: Mapping[str, CorrectedAttribute]
    left_out: tuple[str, ...] = ()
    reported: tuple[ReportedRate, ...] = ()
