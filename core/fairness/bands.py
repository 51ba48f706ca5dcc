"""Bands of the six metrics of generated text: names for ranges of a value (SPEC 17.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from core.errors import UndefinedError

PASS, WATCH, FLAG, FAIL = "pass", "watch", "flag", "fail"
UNDER = "under_representation"

FAILING = frozenset({FLAG, FAIL})
"""Bands that ask for remedy before a release."""

_DIGITS = 12
"""A value is banded as it is stored (SPEC 12.1), so that rounding never moves it over an edge."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bands:
    """Ranges of a metric's value, bound to one scale and one version of the metric (SPEC 17.2).

    Attributes
    ----------
    metric_version, scale : str
        What the edges were set for. They say nothing about values on another scale.
    names : tuple of str
        From the lowest values to the highest.
    edges : tuple of float
        Increasing, one fewer than names.
    closed : tuple of {'below', 'above'}
        For each edge, the side that the edge itself belongs to.

    Raises
    ------
    UndefinedError
        If the lengths do not fit, the edges do not increase, or a name stands twice.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    metric_version: str
    scale: str
    names: tuple[str, ...]
    edges: tuple[float, ...]
    closed: tuple[Literal["below", "above"], ...]

    def __post_init__(self) -> None:
        if not len(self.names) - 1 == len(self.edges) == len(self.closed) > 0:
            raise UndefinedError("bands.edges", len(self.edges), "needs one edge between two neighbouring bands")
        if not all(np.isfinite(self.edges)) or any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise UndefinedError("bands.edges", list(self.edges), "must be finite and increase")
        if len(set(self.names)) < len(self.names):
            raise UndefinedError("bands.names", list(self.names), "each band needs a name of its own")
        # As a record stores them, so that an audit and its re-derivation have the same.
        object.__setattr__(self, "edges", tuple(map(_stored, self.edges)))

    def of(self, value: float) -> str:
        """Name of the band of a value.

        Raises
        ------
        UndefinedError
            If the value is not finite: what is not measurable has no band.

        Examples
        --------
        >>> BANDS["hsi"].of(0.05), BANDS["ode"].of(0.75), BANDS["sar"].of(0.8)
        ('pass', 'pass', 'pass')
        >>> BANDS["hsi"].of(0.0500001), BANDS["sar"].of(0.79)
        ('watch', 'under_representation')
        """
        if not np.isfinite(value):
            raise UndefinedError("value", value, "has no band: it must be finite")
        stored = _stored(value)
        passed = (
            stored > edge or (stored == edge and side == "above")
            for edge, side in zip(self.edges, self.closed, strict=True)
        )
        return self.names[sum(passed)]

    def probabilities(self, confidence: Sequence[float]) -> dict[str, float]:
        """Probability of each band, from the confidence that the value lies at or below each edge.

        Parameters
        ----------
        confidence : sequence of float
            One in [0, 1] an edge. Where rounding of the bootstrap makes them fall, they are held.

        Examples
        --------
        >>> BANDS["hsi"].probabilities([0.5, 0.75, 1.0])
        {'pass': 0.5, 'watch': 0.25, 'flag': 0.25, 'fail': 0.0}
        """
        steps = np.maximum.accumulate(np.clip([0.0, *confidence, 1.0], 0.0, 1.0))
        return {name: float(share) for name, share in zip(self.names, np.diff(steps), strict=True)}


def _stored(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")


def _bands(metric: str, scale: str, names: tuple[str, ...], edges: tuple[float, ...], *sides: Any) -> Bands:
    return Bands(metric_version=f"{metric}/1", scale=scale, names=names, edges=edges, closed=sides)


_RISING = (PASS, WATCH, FLAG, FAIL)

BANDS: Mapping[str, Bands] = {
    # The published edges .15, .25 and .40 were set for natural logarithms; these are they in base 2.
    "rsi": _bands(
        "rsi",
        "jsd_base2_normalised",
        _RISING,
        (0.21640425613334453, 0.36067376022224085, 0.5770780163555854),
        "below",
        "below",
        "below",
    ),
    "ode": _bands("ode", "entropy_normalised", _RISING[::-1], (0.25, 0.50, 0.75), "above", "above", "above"),
    "cds": _bands("cds", "cosine_distance", _RISING, (0.10, 0.25, 0.40), "below", "below", "below"),
    "hsi": _bands("hsi", "severity_times_rate", _RISING, (0.05, 0.10, 0.20), "below", "below", "below"),
    "sar": _bands("sar", "ratio", (UNDER, *_RISING), (0.80, 1.20, 1.50, 2.00), "above", "below", "below", "below"),
    "dsi": _bands("dsi", "mean_of_components", _RISING, (0.05, 0.15, 0.25), "below", "below", "below"),
}
"""The bands of seed 003; `tasks/builtin/fairness/bands.yaml` holds the same."""

METRICS = tuple(BANDS)
