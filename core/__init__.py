"""assay's core: pure functions from tables to frozen results, without files, clocks, Prefect or MLflow.

Names are imported when they are first used, so that ``import core`` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from core import errors
    from core.api import calibrate, measure
    from core.inference.intervals import clopper_pearson_interval, jeffreys_interval, wilson_interval
    from core.inference.prevalence import corrected_prevalence, rogan_gladen
    from core.instrument.spec import InstrumentSpec
    from core.instrument.threshold import youden_threshold

_HOME = {
    "InstrumentSpec": "core.instrument.spec",
    "calibrate": "core.api",
    "clopper_pearson_interval": "core.inference.intervals",
    "corrected_prevalence": "core.inference.prevalence",
    "jeffreys_interval": "core.inference.intervals",
    "measure": "core.api",
    "rogan_gladen": "core.inference.prevalence",
    "wilson_interval": "core.inference.intervals",
    "youden_threshold": "core.instrument.threshold",
}

__all__ = [
    "InstrumentSpec",
    "calibrate",
    "clopper_pearson_interval",
    "corrected_prevalence",
    "errors",
    "jeffreys_interval",
    "measure",
    "rogan_gladen",
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
