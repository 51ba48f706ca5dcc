"""What watching a judge is asked for, and what it says: the frozen records behind `watch` (SPEC 18)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from core.errors import UndefinedError
from core.inference.shift import PairedShift
from core.inference.trend import MAX_VALUES
from core.instrument.spec import FORBID_UNKNOWN_KEYS, JudgeIdentity

Verdict = Literal["same", "changed", "insufficient"]
Fingerprint = Literal["same", "differs", "unknown"]
Cause = Literal["fingerprint", "decisions", "scores", "trend"]

ANCHORS = 300
"""With 150 a class a judge that did not change is the same within 4 points, and within 5 on a clustered golden set."""

TOLERANCE = 0.05
"""Points of sensitivity or specificity: a shift of so much makes false alarms of most comparisons (SPEC 10.4)."""

LEVEL = 0.99
"""A watch is repeated for months: at this level one in a hundred of an unchanged judge is a false alarm."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSpec:
    """What a watch is asked for: the spec of its record.

    Attributes
    ----------
    anchors : int
        How many golden traces are scored again, half of either class where there are enough; at least 10.
    tolerance : float in (0, 1)
        Shift of sensitivity, specificity or mean score up to which a judge counts as the same.
    confidence_level : float in (0, 1)
    error_budget : float in [0, 1]
        Share of anchors without a score above which nothing is called the same.
    judge : JudgeIdentity
        The judge as it is now.
    earlier : tuple of str
        Ids of the watches before, of the same calibration and anchors, in the order of time: the newest 99.
    look : int
        Which watch of that series this is, from 1.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    anchors: int = ANCHORS
    tolerance: float = TOLERANCE
    confidence_level: float = LEVEL
    error_budget: float = 0.05
    judge: JudgeIdentity = field(default_factory=JudgeIdentity)
    earlier: tuple[str, ...] = ()
    look: int = 1

    def __post_init__(self) -> None:
        if self.anchors < 10:
            raise UndefinedError("anchors", self.anchors, "at least 10 are needed")
        for name in ("tolerance", "confidence_level"):
            if not 0.0 < getattr(self, name) < 1.0:
                raise UndefinedError(name, getattr(self, name), "must lie between 0 and 1")
        if not 0.0 <= self.error_budget <= 1.0:
            raise UndefinedError("error_budget", self.error_budget, "must lie in [0, 1]")
        if len(self.earlier) >= MAX_VALUES or self.look <= len(self.earlier):
            raise UndefinedError("look", self.look, f"comes after the earlier ones, of which at most {MAX_VALUES - 1}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedShift(PairedShift):
    """How far the answers on one class of the anchors moved (SPEC 18.2).

    Attributes
    ----------
    verdict : str
        ``same``: the interval lies within the tolerance. ``changed``: it does not, and the adjusted p-value is at most
        1 minus the level. Else ``insufficient``.
    before, after : float or None
        Mean of the stored and of the new values: the share flagged, or the mean score.
    p_adjusted : float or None
        After Holm's adjustment over all tests of the watch.
    needed : int or None
        Pairs of this class that would tell, where these do not; None where they do, or with too few to say.
    """

    verdict: Verdict = "insufficient"
    before: float | None = None
    after: float | None = None
    p_adjusted: float | None = None
    needed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlipRate:
    """Share of anchors whose decision is another one now, in either direction, with its interval (Wilson's)."""

    n: int
    n_flipped: int
    rate: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedQuantity:
    """A category, or the composite.

    Attributes
    ----------
    positives, negatives : WatchedShift
        Decisions on violating and on harmless anchors: shifts of sensitivity, and of 1 - specificity.
    flips : FlipRate
    score_positives, score_negatives : WatchedShift or None
        Scores; None for the composite, and for a detector, which have none.
    """

    positives: WatchedShift
    negatives: WatchedShift
    flips: FlipRate
    score_positives: WatchedShift | None = None
    score_negatives: WatchedShift | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorSummary:
    """Which golden traces were scored again.

    Attributes
    ----------
    n, n_positive, n_negative : int
        Anchors, by composite truth.
    n_unscored : int
        Without a score for some category of the composite now.
    available_positive, available_negative : int
        Golden traces that could be anchors.
    sha256 : str
        Digest of the anchors' ids: series are of one set of anchors.
    """

    n: int
    n_positive: int
    n_negative: int
    n_unscored: int
    available_positive: int
    available_negative: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesTrend:
    """One series of shifts and its test (SPEC 18.3).

    Attributes
    ----------
    values : tuple of float
        Shift of the share flagged since the calibration, watch by watch; this one is the last.
    statistic : int
    p_value : float
        In (0, 1].
    level : float or None
        At which the test decides at this look; None with fewer than 5 values.
    found : bool
    """

    values: tuple[float, ...]
    statistic: int
    p_value: float
    level: float | None
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decay:
    """Whether violating or harmless anchors are flagged ever more, or ever less, from watch to watch."""

    positives: SeriesTrend
    negatives: SeriesTrend


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """A judge, held against the calibration it was calibrated in: the result of `watch`.

    Attributes
    ----------
    instrument, calibration : str
        Name, and the calibration's id.
    judge, calibrated_judge : JudgeIdentity
        Now, and then.
    fingerprint : {'same', 'differs', 'unknown'}
        ``differs`` also where name or version do.
    verdict : {'same', 'changed', 'insufficient'}
        ``changed`` with any cause; ``same`` where the composite's shifts on both classes are within the tolerance and
        nothing else changed.
    causes : tuple of str
    anchors : AnchorSummary or None
        None where no answers were compared.
    composite : WatchedQuantity or None
    categories : mapping
    decay : Decay or None
    needed_anchors : int or None
        Anchors that would tell, where the verdict is ``insufficient``.
    notes : tuple of str
    """

    instrument: str
    calibration: str
    judge: JudgeIdentity
    calibrated_judge: JudgeIdentity
    fingerprint: Fingerprint
    verdict: Verdict
    causes: tuple[Cause, ...] = ()
    anchors: AnchorSummary | None = None
    composite: WatchedQuantity | None = None
    categories: Mapping[str, WatchedQuantity] = field(default_factory=dict)
    decay: Decay | None = None
    needed_anchors: int | None = None
    notes: tuple[str, ...] = ()
