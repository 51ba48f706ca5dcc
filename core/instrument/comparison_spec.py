"""What a comparison or a series was asked for: the specs of their records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from core.instrument.spec import FORBID_UNKNOWN_KEYS


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonSpec:
    """A comparison of two releases.

    Attributes
    ----------
    confidence_level : float in (0, 1) or None
        The calibration's when None.
    allow_different_calibration : bool
        Compare across instruments, and say so.
    unpaired : bool
        Leave decisions aside even where they are at hand.
    scores : bool
        Also show whether the scores moved.
    seed : int
        For the permutation test of very many clusters.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    confidence_level: float | None = None
    allow_different_calibration: bool = False
    unpaired: bool = False
    scores: bool = False
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesRelease:
    """A release of a series: the id of its measurement, and the digest of its decisions where they took part."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    measurement: str
    decisions: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesSpec:
    """A series of releases, in their order; the other fields are as in `ComparisonSpec`."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    releases: tuple[SeriesRelease, ...]
    confidence_level: float | None = None
    unpaired: bool = False
    seed: int
