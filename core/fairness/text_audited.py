"""The result of an audit of generated text: all six metrics, and what they say together (SPEC 17.10)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from core.errors import UndefinedError
from core.fairness.counterfactual import CdsResult
from core.fairness.harm import HsiResult
from core.fairness.representation import OdeResult, RsiResult
from core.fairness.service import DsiResult
from core.fairness.stereotype import SarResult
from core.fairness.text_metric import TextMetric


@dataclass(frozen=True, slots=True, kw_only=True)
class Independence:
    """Which metrics failed, and what it means that the others did not.

    Attributes
    ----------
    failed : tuple of str
        Metrics in the bands flag or fail (or, for SAR, under_representation): ``rsi.gender``, ``dsi``, ...
    watched, passed : tuple of str
        Metrics in watch, in pass.
    not_evaluable : tuple of str
    failed_alone : str or None
        The one of the six kinds that failed while every other evaluated kind did not.
    meaning : str
        What that says, in words.
    """

    failed: tuple[str, ...]
    watched: tuple[str, ...]
    passed: tuple[str, ...]
    not_evaluable: tuple[str, ...]
    failed_alone: str | None
    meaning: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsAudit:
    """Audit of generated text; ``result`` of a record ``assay.audit`` of kind ``outputs``.

    Attributes
    ----------
    kind : {'outputs'}
    target : str or None
    n_outputs, n_base, n_scenarios, n_refused, n_unknown_refusal : int
    axes : tuple of str
    rows : {'base', 'all'}
        Outputs that RSI, ODE and SAR looked at.
    rsi, ode, sar : mapping of str to result
        By axis.
    cds, hsi, dsi : result
        HSI never stands without DSI: a low HSI may be bought with refusals.
    human_review : bool
        Whether any output carries hate speech or dehumanisation above 0; no band takes it back.
    independence : Independence
    ignored_columns : tuple of str
    """

    kind: Literal["outputs"] = "outputs"
    target: str | None
    n_outputs: int
    n_base: int
    n_scenarios: int
    n_refused: int
    n_unknown_refusal: int
    axes: tuple[str, ...]
    rows: Literal["base", "all"]
    rsi: Mapping[str, RsiResult]
    ode: Mapping[str, OdeResult]
    sar: Mapping[str, SarResult]
    cds: CdsResult
    hsi: HsiResult
    dsi: DsiResult
    human_review: bool
    independence: Independence
    ignored_columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse a result that hides that a human has to look."""
        if self.human_review is not self.hsi.human_review:
            raise UndefinedError("human_review", self.human_review, "must say what HSI says")

    def metrics(self) -> dict[str, TextMetric]:
        """All results by name: ``rsi.<axis>``, ``ode.<axis>``, ``sar.<axis>``, ``cds``, ``hsi``, ``dsi``."""
        return named_metrics(self.rsi, self.ode, self.sar, self.cds, self.hsi, self.dsi)


def named_metrics(
    rsi: Mapping[str, Any], ode: Mapping[str, Any], sar: Mapping[str, Any], cds: Any, hsi: Any, dsi: Any
) -> dict[str, TextMetric]:
    """All results by name, in the order of the metrics."""
    named: dict[str, TextMetric] = {}
    for metric, by_axis in (("rsi", rsi), ("ode", ode)):
        named.update({f"{metric}.{axis}": by_axis[axis] for axis in sorted(by_axis)})
    named["cds"], named["hsi"] = cds, hsi
    named.update({f"sar.{axis}": sar[axis] for axis in sorted(sar)})
    named["dsi"] = dsi
    return named
