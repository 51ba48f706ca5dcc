"""Instruments whose error rates were measured elsewhere and are declared, with the numbers behind them."""

from __future__ import annotations

from typing import Any

from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import normal_quantile
from core.inference.prevalence import floor_status, youden_low
from core.instrument.calibrated import Apparent, Calibrated, Calibration, CompositeCalibrated, EffectiveCounts
from core.instrument.spec import DeclaredRates, DeclaredSpec


def declared_calibration(spec: DeclaredSpec) -> Calibration:
    """Build an instrument from declared rates: no golden set, no optimism correction, no turn strata."""
    categories = {name: Calibrated(**_declared(rates, spec)) for name, rates in spec.categories.items()}
    names = tuple(categories)
    if spec.composite is None:
        composite = CompositeCalibrated(
            status="not_calibrated",
            categories=names,
            notes=("not calibrated: its sensitivity and specificity are not declared; categories do not give them",),
        )
    else:
        composite = CompositeCalibrated(categories=names, **_declared(spec.composite, spec))
    return Calibration(
        instrument=spec.name,
        judge=spec.judge,
        judge_source="declared",
        calibration_source="declared",
        confidence_level=spec.confidence_level,
        detection_floor=spec.detection_floor,
        interval=spec.interval,
        turn_bins=(),
        attempts=spec.attempts,
        turn_scope=spec.turn_scope,
        error_budget=spec.error_budget,
        seed=spec.seed,
        golden=None,
        categories=categories,
        composite=composite,
        slices={},
        notes=("declared, not measured here: no weighting to turn counts is possible",),
    )


def _declared(rates: DeclaredRates, spec: DeclaredSpec) -> dict[str, Any]:
    youden_j = rates.sensitivity + rates.specificity - 1.0
    low = youden_low(
        rates.sensitivity, rates.n_positive, rates.specificity, rates.n_negative,
        z=normal_quantile(spec.confidence_level),
    )  # fmt: skip
    enough = min(rates.n_positive, rates.n_negative) >= MIN_CLUSTERS
    return {
        "status": floor_status(youden_j, low, spec.detection_floor) if enough else "insufficient_data",
        "threshold": rates.threshold,
        "n_positive": rates.n_positive,
        "n_negative": rates.n_negative,
        "sensitivity": rates.sensitivity,
        "specificity": rates.specificity,
        "youden_j": youden_j,
        "youden_j_low": low,
        "effective": EffectiveCounts(
            n_positive=float(rates.n_positive),
            n_negative=float(rates.n_negative),
            positive_clusters=rates.n_positive,
            negative_clusters=rates.n_negative,
        ),
        "apparent": Apparent(
            threshold=rates.threshold,
            sensitivity=rates.sensitivity,
            specificity=rates.specificity,
            youden_j=youden_j,
        ),
        "notes": (f"declared: {rates.source}",),
    }
