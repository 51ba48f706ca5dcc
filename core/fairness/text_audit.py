"""From a table of outputs to the six metrics and what they say together (SPEC 17.10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from core.errors import UndefinedError
from core.fairness.bands import FAILING, UNDER, WATCH
from core.fairness.counterfactual import CdsResult, cds
from core.fairness.harm import HsiResult, hsi
from core.fairness.outputs import OutputsTable
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.representation import OdeResult, RsiResult, ode, rsi
from core.fairness.service import DsiResult, dsi
from core.fairness.stereotype import SarResult, sar
from core.fairness.text_audited import Independence, OutputsAudit, named_metrics
from core.fairness.text_metric import MEASURED, TextMetric, not_evaluable, variant_names

ALONE: Mapping[str, str] = {
    "rsi": "who appears differs from the declared reference, though the content is not rated harmful: look at the "
    "defaults of neutral prompts, and at whether the reference is the one you mean",
    "ode": "outputs gather on few of the declared groups even where the reference is met: groups that never appear "
    "cannot be found in any average",
    "cds": "naming an attribute changes the output although shares, harm and service look even: neutral prompts "
    "carry an assumption that only the comparison with the named ones shows",
    "hsi": "content is rated harmful although groups appear, are assumed and are served alike: read the worst "
    "outputs, not the average",
    "sar": "groups meet contexts at other rates than outside the model, though overall shares are even: deviations "
    "in single contexts cancel in the total",
    "dsi": "groups are refused or helped unequally although what is said passes: content metrics cannot see an "
    "answer that was withheld",
}
"""What it means when one kind of metric fails and no other does."""

WITHHELD = (
    "HSI passes and DSI does not: harm may have been kept low by withholding service from some groups; the two are "
    "one finding, not a pass and a failure"
)


def audit_outputs(spec: OutputsSpec, table: OutputsTable) -> OutputsAudit:
    """Audit a table of outputs (SPEC 17.10).

    Parameters
    ----------
    spec : OutputsSpec
    table : OutputsTable

    Returns
    -------
    OutputsAudit
        A metric whose columns are absent, or which cannot be evaluated, says so; it never passes.

    Raises
    ------
    UndefinedError
        If a baseline is missing for a context that has outputs, or a weight for a harm that has scores.
    """
    refused = np.full(len(table), np.nan) if table.refused is None else table.refused
    by_axis = {axis: _Axis(spec, table, axis) for axis in spec.axes}
    found: dict[str, Any] = {
        "rsi": {axis: one.rsi() for axis, one in by_axis.items()},
        "ode": {axis: one.ode() for axis, one in by_axis.items()},
        "sar": {axis: one.sar() for axis, one in by_axis.items()},
        "cds": _cds(spec, table),
        "hsi": _hsi(spec, table),
        "dsi": _dsi(spec, table),
    }
    return OutputsAudit(
        target=spec.target,
        n_outputs=len(table),
        n_base=int(table.base.sum()),
        n_scenarios=len(set(table.scenario.tolist())),
        n_refused=int((refused == 1.0).sum()),
        n_unknown_refusal=int(np.isnan(refused).sum()),
        axes=spec.axes,
        rows=spec.rows,
        **found,
        human_review=found["hsi"].human_review,
        independence=independence_of(named_metrics(**found)),
        ignored_columns=table.ignored,
    )


def independence_of(metrics: Mapping[str, TextMetric]) -> Independence:
    """Say which metrics failed, and what it means when one kind failed alone (SPEC 17.10)."""
    failed = tuple(name for name, result in metrics.items() if _failed(result))
    unknown = tuple(name for name, result in metrics.items() if result.status != MEASURED)
    watched = tuple(name for name, result in metrics.items() if result.band == WATCH)
    passed = tuple(name for name in metrics if name not in {*failed, *unknown, *watched})
    kinds = {name.partition(".")[0] for name in failed}
    others = {name.partition(".")[0] for name in (*watched, *passed)} - kinds
    alone = kinds.pop() if len(kinds) == 1 and others else None
    withheld = "dsi" in failed and "hsi" in passed
    return Independence(
        failed=failed,
        watched=watched,
        passed=passed,
        not_evaluable=unknown,
        failed_alone=alone,
        meaning=_meaning(failed, unknown, alone, bool(others), withheld),
    )


def _failed(result: TextMetric) -> bool:
    return result.band in FAILING or result.band == UNDER


def _meaning(failed: tuple[str, ...], unknown: tuple[str, ...], alone: str | None, others: bool, withheld: bool) -> str:
    missing = f"; not evaluable, so neither passed nor failed: {', '.join(unknown)}" if unknown else ""
    together = f"; {WITHHELD}" if withheld else ""
    if alone is not None:
        return f"{alone.upper()} alone: {ALONE[alone]}{together}{missing}"
    if failed:
        return f"failed: {', '.join(failed)}{together}{missing}"
    if not others:
        return f"nothing could be evaluated, which is no pass{missing}"
    return f"none of the evaluated metrics is flagged; each covers what the others cannot see{missing}"


class _Axis:
    """The metrics of one axis."""

    def __init__(self, spec: OutputsSpec, table: OutputsTable, axis: str) -> None:
        self.spec, self.axis = spec, axis
        self.taxonomy = spec.taxonomy(axis)
        self.table = table.taken(table.base) if spec.rows == "base" else table
        self.labels = self.table.labels.get(axis)
        self.options: dict[str, Any] = {
            "scenarios": self.table.scenario,
            "min_coverage": spec.min_coverage,
            "sampling": spec.sampling(),
        }
        self.absent = f"the table has no column 'group_{axis}'"

    def rsi(self) -> RsiResult:
        reference, bands = self.spec.reference(self.axis), self.spec.bands["rsi"]
        if reference is None or self.labels is None:
            code = ("no_reference", f"no reference is declared for axis '{self.axis}'")
            if self.labels is None:
                code = ("missing_columns", self.absent)
            return RsiResult(
                **not_evaluable("rsi", bands, *code, n=len(self.table)),
                axis=self.axis,
                k=0,
                reference_kind=reference.kind if reference else "",
                rationale=reference.rationale if reference else "",
                by_group={},
            )
        return rsi(
            self.labels,
            taxonomy=self.taxonomy,
            reference=reference.shares,
            reference_kind=reference.kind,
            rationale=reference.rationale,
            max_out_of_reference=self.spec.max_out_of_reference,
            bands=bands,
            **self.options,
        )

    def ode(self) -> OdeResult:
        bands, k = self.spec.bands["ode"], len(self.taxonomy.categories)
        if self.labels is None or k < 2:
            code = ("missing_columns", self.absent)
            if k < 2:
                code = ("one_group", f"axis '{self.axis}' has one category, over which nothing can spread")
            fields = not_evaluable("ode", bands, *code, n=len(self.table))
            return OdeResult(**fields, axis=self.axis, k=k, by_group={})
        return ode(self.labels, taxonomy=self.taxonomy, bands=bands, **self.options)

    def sar(self) -> SarResult:
        bands, baseline = self.spec.bands["sar"], self.spec.baselines.get(self.axis)
        code = None
        if baseline is None:
            code = ("no_baseline", f"no baseline is declared for axis '{self.axis}'")
        elif self.labels is None or self.table.context is None:
            code = ("missing_columns", self.absent if self.labels is None else "the table has no column 'context'")
        if code is not None or baseline is None or self.table.context is None:
            fields = not_evaluable("sar", bands, *(code or ("", "")), n=len(self.table))
            return SarResult(**fields, axis=self.axis, pairs_by_band={})
        return sar(
            self.table.context,
            self.labels,
            baselines=baseline.contexts,
            taxonomy=self.taxonomy,
            bands=bands,
            **self.options,
        )


def _cds(spec: OutputsSpec, table: OutputsTable) -> CdsResult:
    bands = spec.bands["cds"]
    if table.embedding is None:
        fields = not_evaluable("cds", bands, "missing_columns", "the table has no column 'embedding'", n=len(table))
        return CdsResult(**fields, by_variant={})
    return cds(
        table.embedding,
        scenarios=table.scenario,
        variants=table.variant,
        axes=table.axis,
        refused=table.refused,
        bands=bands,
        sampling=spec.sampling(),
    )


def _hsi(spec: OutputsSpec, table: OutputsTable) -> HsiResult:
    bands = spec.bands["hsi"]
    if unknown := sorted(set(table.harms) - set(spec.harm_weights)):
        raise UndefinedError("harm_weights", unknown, "these harms have scores and no weight")
    if not table.harms:
        text = "the table has no column of harm scores"
        fields = not_evaluable("hsi", bands, "missing_columns", text, n=len(table))
        return HsiResult(**fields, n_unscored=len(table), by_category={}, by_group={})
    return hsi(
        table.harms,
        scenarios=table.scenario,
        groups=variant_names(table.variant, table.axis),
        ids=table.id,
        refused=table.refused,
        weights=spec.harm_weights,
        threshold=spec.harm_threshold,
        min_coverage=spec.min_coverage,
        bands=bands,
        sampling=spec.sampling(),
    )


def _dsi(spec: OutputsSpec, table: OutputsTable) -> DsiResult:
    bands = spec.bands["dsi"]
    if table.refused is None:
        text = "the table has no column 'is_refusal', and length does not show a refusal"
        return DsiResult(**not_evaluable("dsi", bands, "missing_columns", text, n=len(table)), by_group={})
    return dsi(
        table.refused,
        scenarios=table.scenario,
        variants=table.variant,
        axes=table.axis,
        token_count=table.token_count,
        helpfulness=table.helpfulness,
        caps=spec.caps,
        min_coverage=spec.min_coverage,
        bands=bands,
        sampling=spec.sampling(),
    )
