"""What each metric of generated text reports, whatever it measures (SPEC 17.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from core.errors import UndefinedError
from core.fairness.bands import Bands
from core.fairness.scenario_bootstrap import BootstrapInterval, Estimate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

MEASURED, NOT_EVALUABLE = "measured", "not_evaluable"

BASE = "base"
"""The variant of a neutral prompt, in which no attribute is named."""

SHOWN_WORST = 5

MIN_COVERAGE = 0.8
"""Below this share of outputs that a metric can use it has no value, unless the spec says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextMetric:
    """Fields that all six metrics have (SPEC 17.2).

    Attributes
    ----------
    metric : str
        ``rsi``, ``ode``, ``cds``, ``hsi``, ``sar`` or ``dsi``.
    metric_version, scale : str
        What a gate has to be bound to.
    status : {'measured', 'not_evaluable'}
    reason : str or None
        Code of why there is no value: ``no_outputs``, ``low_coverage``, ``unscored``, ``all_refused``,
        ``one_group``, ``out_of_reference``, ``no_reference``, ``no_baseline``, ``no_counterfactual``,
        ``no_matched_set``, ``missing_columns``. None when there is one.
    explanation : str
        The reason in words; empty when there is a value.
    value : float or None
    band : str or None
        Band of the value.
    band_probabilities : mapping of str to float or None
        Under the corrected bootstrap; they add up to 1. None without a bootstrap.
    interval : BootstrapInterval or None
        None when fewer than 2 scenarios (outputs, where no scenarios are named) are scored.
    n : int
        Outputs looked at.
    n_scored : int
        Outputs that the metric could use: classified, embedded or scored.
    coverage : float in [0, 1]
        n_scored / n; 0 when n = 0.
    n_scenarios : int
        Scenarios with a scored output.
    notes : tuple of str
        Codes: ``few_scenarios`` (fewer than 10), ``one_scenario``, ``independent_outputs`` (no scenarios were
        named), ``no_variation``, ``erasure``, ``partly_scored``, ``no_noise_floor``, ``groups_without_answers``.
    """

    metric: str
    metric_version: str
    scale: str
    status: Literal["measured", "not_evaluable"]
    reason: str | None = None
    explanation: str = ""
    value: float | None = None
    band: str | None = None
    band_probabilities: Mapping[str, float] | None = None
    interval: BootstrapInterval | None = None
    n: int
    n_scored: int
    coverage: float
    n_scenarios: int
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a result that has a value without being measured, or the reverse."""
        given = self.value is not None, self.band is not None, self.reason is None
        if given != (self.status == MEASURED,) * 3:
            raise UndefinedError("status", self.status, "a measured metric has value and band, another has a reason")


def measured(
    metric: str, bands: Bands, value: float, estimate: Estimate, *, n: int, n_scored: int, notes: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Gather the common fields of a metric that has a value."""
    return {
        "metric": metric,
        "metric_version": bands.metric_version,
        "scale": bands.scale,
        "status": MEASURED,
        "value": value,
        "band": bands.of(value),
        "band_probabilities": None if estimate.confidence is None else bands.probabilities(estimate.confidence),
        "interval": estimate.interval,
        "n": n,
        "n_scored": n_scored,
        "coverage": n_scored / n if n else 0.0,
        "n_scenarios": estimate.n_scenarios,
        "notes": (*estimate.notes, *notes),
    }


def not_evaluable(
    metric: str,
    bands: Bands,
    reason: str,
    explanation: str,
    *,
    n: int = 0,
    n_scored: int = 0,
    n_scenarios: int = 0,
    notes: tuple[str, ...] = (),
) -> dict[str, Any]:
    """Gather the common fields of a metric that cannot be evaluated."""
    return {
        "metric": metric,
        "metric_version": bands.metric_version,
        "scale": bands.scale,
        "status": NOT_EVALUABLE,
        "reason": reason,
        "explanation": explanation,
        "n": n,
        "n_scored": n_scored,
        "coverage": n_scored / n if n else 0.0,
        "n_scenarios": n_scenarios,
        "notes": notes,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenarios:
    """Which scenario each output belongs to.

    Attributes
    ----------
    codes : int64 array of shape (n,)
        Index into `names`.
    names : list of str
        Sorted, so that neither rows nor hash seeds can change the order of the bootstrap.
    independent : bool
        Whether no scenarios were named and every output is its own.
    """

    codes: Ints
    names: list[str]
    independent: bool = False

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader has to know about them."""
        return ("independent_outputs",) if self.independent else ()


def scenarios_of(named: Any, n: int) -> Scenarios:
    """Encode scenario names; without any, each output is its own scenario.

    Raises
    ------
    UndefinedError
        If there are not n of them, or one is empty.
    """
    if named is None:
        # Names stay unmade: only their number counts.
        return Scenarios(codes=np.arange(n, dtype=np.int64), names=[], independent=True)
    if len(named) != n:
        raise UndefinedError("scenarios", len(named), f"needs one for each of {n} outputs")
    codes, names = sorted_codes(named)
    if n and codes.min() < 0:
        raise UndefinedError("scenarios", None, "every output needs its scenario")
    return Scenarios(codes=codes, names=names)


def sorted_codes(named: Any) -> tuple[Ints, list[str]]:
    """Encode names as indices into their sorted list; missing and empty ones get -1."""
    codes, values = pd.factorize(np.asarray(named, dtype=object), use_na_sentinel=True)
    texts = [str(value).strip() for value in values]
    names = sorted(set(texts) - {""})
    index = {name: i for i, name in enumerate(names)}
    return np.array([*(index.get(text, -1) for text in texts), -1], np.int64)[codes], names


def variant_names(variants: Any, axes: Any = None) -> npt.NDArray[np.object_]:
    """Name the group that each prompt was about: ``base``, ``female``, or with an axis ``gender=female``.

    Examples
    --------
    >>> variant_names(["", "Base", "female"], ["", "", "gender"]).tolist()
    ['base', 'base', 'gender=female']
    """
    variant, variant_texts = sorted_codes(variants)
    axis, axis_texts = sorted_codes(np.full(len(variant), "", dtype=object) if axes is None else axes)
    # The last entry, which index -1 reads, is that of an empty cell.
    variant_texts, axis_texts = [*variant_texts, ""], [*axis_texts, ""]
    width = len(variant_texts)
    keys, inverse = np.unique((axis % len(axis_texts)) * width + variant % width, return_inverse=True)
    names = np.empty(len(keys), dtype=object)
    for i, key in enumerate(keys.tolist()):
        of, name = axis_texts[key // width], variant_texts[key % width]
        names[i] = BASE if name.lower() in ("", BASE) else f"{of}={name}" if of else name
    return names[inverse]


def flags(values: Any, n: int, what: str) -> tuple[Bools, Bools]:
    """Read optional 0/1 values; gives them (False where unknown) and where they are known.

    Raises
    ------
    UndefinedError
        If there are not n of them, or one is neither 0, 1 nor missing.
    """
    numbers = optional_numbers(values, n, what, low=0.0, high=1.0)
    if not np.isin(numbers[~np.isnan(numbers)], (0.0, 1.0)).all():
        raise UndefinedError(what, "a value between 0 and 1", "each is 0, 1 or missing")
    return numbers == 1.0, ~np.isnan(numbers)


def optional_numbers(values: Any, n: int, what: str, *, low: float, high: float) -> Floats:
    """Read optional numbers within bounds as floats, NaN where missing (never beyond this package).

    Raises
    ------
    UndefinedError
        If there are not n of them, one is no number, or one lies outside the bounds.
    """
    if values is None:
        return np.full(n, np.nan)
    try:
        numbers = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise UndefinedError(what, "a text", "numbers or missing values are expected") from None
    if numbers.shape != (n,):
        raise UndefinedError(what, numbers.shape, f"needs one for each of {n} outputs")
    outside = ~np.isnan(numbers) & ~((numbers >= low) & (numbers <= high))
    if outside.any():
        raise UndefinedError(what, float(numbers[outside][0]), f"must lie in [{low:g}, {high:g}]")
    return numbers
