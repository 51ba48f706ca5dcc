"""assay's core: pure functions from tables to frozen results, without files, clocks, Prefect or MLflow.

Names are imported when they are first used, so that ``import core`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core import errors
    from core.api import calibrate, measure
    from core.fairness.audit import audit_predictions
    from core.fairness.counterfactual import cds
    from core.fairness.dataset import dataset_check
    from core.fairness.harm import hsi
    from core.fairness.intersections import intersectional_audit, intersectional_report
    from core.fairness.parity import demographic_parity, equalized_odds
    from core.fairness.reliability import reliability_by_group
    from core.fairness.representation import ode, rsi
    from core.fairness.service import dsi
    from core.fairness.significance import bootstrap_ci, permutation_test, significance_report
    from core.fairness.spec import AuditSpec, Positives
    from core.fairness.stereotype import sar
    from core.fairness.text_audit import audit_outputs
    from core.fairness.text_comparison import compare_outputs
    from core.inference.intervals import clopper_pearson_interval, jeffreys_interval, wilson_interval
    from core.inference.prevalence import corrected_prevalence, rogan_gladen
    from core.instrument.spec import InstrumentSpec
    from core.instrument.threshold import youden_threshold

_HOME = {
    "AuditSpec": "core.fairness.spec",
    "InstrumentSpec": "core.instrument.spec",
    "Positives": "core.fairness.spec",
    "audit_outputs": "core.fairness.text_audit",
    "audit_predictions": "core.fairness.audit",
    "bootstrap_ci": "core.fairness.significance",
    "calibrate": "core.api",
    "cds": "core.fairness.counterfactual",
    "clopper_pearson_interval": "core.inference.intervals",
    "compare_outputs": "core.fairness.text_comparison",
    "corrected_prevalence": "core.inference.prevalence",
    "dataset_check": "core.fairness.dataset",
    "demographic_parity": "core.fairness.parity",
    "dsi": "core.fairness.service",
    "equalized_odds": "core.fairness.parity",
    "hsi": "core.fairness.harm",
    "intersectional_audit": "core.fairness.intersections",
    "intersectional_report": "core.fairness.intersections",
    "jeffreys_interval": "core.inference.intervals",
    "measure": "core.api",
    "ode": "core.fairness.representation",
    "permutation_test": "core.fairness.significance",
    "reliability_by_group": "core.fairness.reliability",
    "rogan_gladen": "core.inference.prevalence",
    "rsi": "core.fairness.representation",
    "sar": "core.fairness.stereotype",
    "significance_report": "core.fairness.significance",
    "wilson_interval": "core.inference.intervals",
    "youden_threshold": "core.instrument.threshold",
}

__all__ = [
    "AuditSpec",
    "InstrumentSpec",
    "Positives",
    "audit_outputs",
    "audit_predictions",
    "bootstrap_ci",
    "calibrate",
    "cds",
    "clopper_pearson_interval",
    "compare_outputs",
    "corrected_prevalence",
    "dataset_check",
    "demographic_parity",
    "dsi",
    "equalized_odds",
    "errors",
    "hsi",
    "intersectional_audit",
    "intersectional_report",
    "jeffreys_interval",
    "measure",
    "ode",
    "permutation_test",
    "reliability_by_group",
    "rogan_gladen",
    "rsi",
    "sar",
    "significance_report",
    "wilson_interval",
    "youden_threshold",
]


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("core.errors")
    if name not in _HOME:
        raise AttributeError(f"module 'core' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
