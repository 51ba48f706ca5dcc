"""From a spec to its stage: the one place that knows which is which."""

from __future__ import annotations

from core.simulation.chain import ChainStage
from core.simulation.correction import CorrectionStage
from core.simulation.observed import ObservedRateStage
from core.simulation.spec import ChainSpec, CorrectionSpec, ObservedRateSpec
from core.simulation.stage import Stage


def stage_of(spec: ObservedRateSpec | CorrectionSpec | ChainSpec) -> Stage:
    """Return the work of a spec; a certificate's needs its calibration, see `certificate_stage`."""
    if isinstance(spec, ObservedRateSpec):
        return ObservedRateStage(spec)
    if isinstance(spec, CorrectionSpec):
        return CorrectionStage(spec)
    return ChainStage.of(spec)
