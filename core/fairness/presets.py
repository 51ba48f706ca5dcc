"""Thresholds for two kinds of use, and the three-state verdict on a gap (SPEC 15.7).

The strict ones are those of seed practice for hiring, lending and bail; the lenient ones are this project's choice for
recommendations, where the practice only says that they may be wider. A policy file may name any others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from core.errors import UndefinedError
from core.fairness.audited import Evidence
from core.gates.decision import Reading, Verdict, decide


@dataclass(frozen=True, slots=True, kw_only=True)
class Thresholds:
    """What a use asks of the gaps.

    Attributes
    ----------
    min_parity_ratio : float in (0, 1]
        Smallest over largest selection rate, at least.
    max_fpr_difference, max_fnr_difference : float in [0, 1)
        Largest less smallest rate, below (seed 004: less than 5%).
    max_accuracy_gap : float in [0, 1)
        Between intersections, at most.
    max_ece : float in [0, 1)
        Of every group, below.
    """

    min_parity_ratio: float = 0.80
    max_fpr_difference: float = 0.05
    max_fnr_difference: float = 0.05
    max_accuracy_gap: float = 0.10
    max_ece: float = 0.05

    def __post_init__(self) -> None:
        if not 0.0 < self.min_parity_ratio <= 1.0:
            raise UndefinedError("min_parity_ratio", self.min_parity_ratio, "must lie in (0, 1]")
        for name in ("max_fpr_difference", "max_fnr_difference", "max_accuracy_gap", "max_ece"):
            if not 0.0 <= getattr(self, name) < 1.0:
                raise UndefinedError(name, getattr(self, name), "must lie in [0, 1)")


Preset = Literal["strict", "lenient"]

PRESETS: Mapping[str, Thresholds] = {
    "strict": Thresholds(),
    "lenient": Thresholds(
        min_parity_ratio=0.70,
        max_fpr_difference=0.10,
        max_fnr_difference=0.10,
        max_accuracy_gap=0.15,
        max_ece=0.10,
    ),
}
"""``strict`` for high-stakes decisions, ``lenient`` for recommendations."""


def thresholds_of(preset: Preset | Thresholds) -> Thresholds:
    """Look a preset up.

    Raises
    ------
    UndefinedError
        If there is none of this name.

    Examples
    --------
    >>> thresholds_of("strict").min_parity_ratio, thresholds_of("lenient").min_parity_ratio
    (0.8, 0.7)
    """
    if isinstance(preset, Thresholds):
        return preset
    if preset not in PRESETS:
        raise UndefinedError("preset", preset, f"is one of {', '.join(PRESETS)}")
    return PRESETS[preset]


def at_most(evidence: Evidence, threshold: float, *, strictly: bool = False) -> Verdict:
    """Hold a difference against its largest allowed value, by the high end of its interval."""
    return _verdict(evidence, "high", "<" if strictly else "<=", threshold)


def at_least(evidence: Evidence, threshold: float) -> Verdict:
    """Hold a ratio against its smallest allowed value, by the low end of its interval."""
    return _verdict(evidence, "low", ">=", threshold)


def _verdict(
    evidence: Evidence, bound: Literal["low", "high"], op: Literal["<", "<=", ">="], threshold: float
) -> Verdict:
    if evidence.status != "measured" or evidence.interval is None:
        return "insufficient_evidence"
    reading = Reading(value=evidence.value, low=evidence.interval.low, high=evidence.interval.high)
    return decide(reading, bound=bound, op=op, threshold=threshold)


def all_of(*verdicts: Verdict) -> Verdict:
    """One verdict for several: the worst.

    Examples
    --------
    >>> all_of("pass", "insufficient_evidence"), all_of("fail", "insufficient_evidence", "pass")
    ('insufficient_evidence', 'fail')
    """
    order: tuple[Verdict, ...] = ("fail", "insufficient_evidence", "pass")
    return min(verdicts, key=order.index)
