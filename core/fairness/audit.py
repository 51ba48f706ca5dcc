"""The audit of a table of predictions: every group, gap and test that its spec asks for (SPEC 15.9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from core.data.problems import nearest, quoted
from core.errors import InputError, Problem
from core.fairness.audited import (
    Disparity,
    Evidence,
    GroupAudit,
    GroupRow,
    LedgerEntry,
    LedgerKind,
    PredictionAudit,
    Rate,
    Reliability,
)
from core.fairness.columns import MISSING, Ints, numeric, outcome
from core.fairness.compared import RateOverGroups
from core.fairness.confusion import (
    BASE_RATE,
    RATES,
    ConfusionTensor,
    GroupCounts,
    confusion_tensor,
    group_name,
)
from core.fairness.dataset import checked, where_of
from core.fairness.disparity import Comparison, Settings, asked, disparities, interval_of, n_usable
from core.fairness.parity import larger_difference
from core.fairness.reliability import ScoredRows, reliability_of
from core.fairness.spec import AuditSpec


def audit_predictions(spec: AuditSpec, table: Any) -> PredictionAudit:
    """Audit predictions (SPEC 15.9).

    Parameters
    ----------
    spec : AuditSpec
    table : pandas.DataFrame, pyarrow.Table, or mapping of str to column
        The group columns of the spec and ``y_pred``; optional ``y_true``, ``score`` in [0, 1] and ``cluster``.

    Returns
    -------
    PredictionAudit

    Raises
    ------
    InputError
        All that is wrong with the table: columns that are not there, values that are not as declared.

    Examples
    --------
    >>> from core.fairness.spec import Positives
    >>> table = {"sex": ["f", "m"] * 200, "y_pred": ["no", "yes", "yes", "yes"] * 100, "y_true": ["yes", "no"] * 200}
    >>> audit = audit_predictions(AuditSpec(groups=("sex",), positive=Positives(y_pred="yes")), table)
    >>> parity = audit.attributes["sex"].rates["selection_rate"]
    >>> parity.ratio.value, parity.gaps[0].group, parity.gaps[0].difference, parity.gaps[0].significant
    (0.5, 'm', 0.5, True)
    """
    read = _Table.of(spec, table)
    tensor = confusion_tensor(read.groups, read.y_pred, read.y_true, read.clusters)
    keep = spec.missing == "group"
    counted = [tensor.by_column(column, keep_missing=keep) for column in spec.groups]
    if spec.intersections and len(spec.groups) > 1:
        counted.append(tensor.together(keep_missing=keep))
    settings = Settings(
        reference=spec.reference,
        family=spec.family,
        min_group=spec.min_group,
        confidence_level=spec.confidence_level,
        seed=spec.seed,
    )
    names = [name for name, rate in RATES.items() if read.y_true is not None or not rate.labelled]
    comparisons = [{name: Comparison.of(name, groups, settings) for name in names} for groups in counted]
    scored = read.scored_rows(spec)
    audits = [
        _group_audit(groups, by_rate, found, scored, spec)
        for groups, by_rate, found in zip(counted, comparisons, disparities(comparisons, spec.family), strict=True)
    ]
    n_scored = int(np.count_nonzero(read.y_pred != MISSING))
    return PredictionAudit(
        name=spec.name,
        n_rows=tensor.n_rows,
        n_scored=n_scored,
        n_labelled=int(tensor.counts[:, :MISSING, :MISSING].sum()),
        unscored_share=(tensor.n_rows - n_scored) / tensor.n_rows,
        clustered=tensor.clusters is not None,
        n_clusters=None if tensor.clusters is None else len(np.unique(tensor.clusters.cluster)),
        confidence_level=spec.confidence_level,
        family=spec.family,
        n_comparisons=sum(len(c.gap_p) for by_rate in comparisons for c in by_rate.values() if asked(c, by_rate)),
        n_omnibus=sum(c.omnibus is not None for by_rate in comparisons for c in by_rate.values() if asked(c, by_rate)),
        attributes=dict(zip(spec.groups, audits, strict=False)),
        intersections=audits[-1] if len(audits) > len(spec.groups) else None,
        dataset=checked(
            counted,
            n_rows=tensor.n_rows,
            labelled=read.y_true is not None,
            min_group=spec.min_group,
            source=spec.source,
        ),
        ledger=tuple(_ledger(read, tensor, counted, spec)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """The columns that an audit reads."""

    groups: Mapping[str, Any]
    y_pred: NDArray[np.int8]
    y_true: NDArray[np.int8] | None
    score: Any
    clusters: Any

    @classmethod
    def of(cls, spec: AuditSpec, table: Any) -> _Table:
        columns = _columns(table)
        names = spec.columns
        missing = [name for name in (*spec.groups, names.y_pred) if name not in columns]
        if missing:
            known = list(columns)
            raise InputError(
                Problem(source="predictions", message=f"has no column {quoted(name)}; {nearest(name, known)}")
                for name in missing
            )
        problems: list[Problem] = []

        def read(name: str, positive: Any) -> NDArray[np.int8]:
            try:
                return outcome(columns[name], name, positive)
            except InputError as error:
                problems.extend(error.problems)
                return np.zeros(0, dtype=np.int8)

        y_pred = read(names.y_pred, spec.positive.y_pred)
        y_true = read(names.y_true, spec.positive.truth) if names.y_true in columns else None
        if problems:
            raise InputError(problems)
        return cls(
            groups={name: columns[name] for name in spec.groups},
            y_pred=y_pred,
            y_true=y_true,
            score=columns.get(names.score),
            clusters=columns.get(names.cluster),
        )

    def scored_rows(self, spec: AuditSpec) -> ScoredRows | None:
        """Rows for reliability; None without scores or labels."""
        if self.score is None or self.y_true is None:
            return None
        return ScoredRows.of(self.score, self.y_true, self.y_pred, score_means=spec.score_means, clusters=self.clusters)


def _columns(table: Any) -> dict[str, Any]:
    if isinstance(table, pa.Table):
        return {name: table.column(name) for name in table.column_names}
    if isinstance(table, Mapping):
        return dict(table)
    return {str(name): table[name] for name in table.columns}


def _group_audit(
    groups: GroupCounts,
    comparisons: Mapping[str, Comparison],
    found: Mapping[str, Disparity],
    scored: ScoredRows | None,
    spec: AuditSpec,
) -> GroupAudit:
    reliability: dict[str, Reliability] = {}
    worst: Evidence | None = None
    if scored is not None:
        by_group, worst = reliability_of(
            scored, groups.row_groups, groups.n, bins=spec.bins, confidence_level=spec.confidence_level,
            family=spec.family, min_group=spec.min_group,
        )  # fmt: skip
        reliability = dict(zip(groups.names, by_group, strict=True))
    odds = None
    if "false_positive_rate" in comparisons:
        odds = larger_difference(comparisons["false_positive_rate"], comparisons["false_negative_rate"])
    return GroupAudit(
        columns=groups.columns,
        groups=_group_rows(groups, comparisons, spec),
        rates=found,
        equalized_odds=odds,
        reliability=reliability,
        worst_ece=worst,
    )


def _group_rows(groups: GroupCounts, comparisons: Mapping[str, Comparison], spec: AuditSpec) -> dict[str, GroupRow]:
    over = {name: comparison.over for name, comparison in comparisons.items()}
    if "accuracy" in over:
        over["base_rate"] = RateOverGroups.of(groups, BASE_RATE, spec.confidence_level)
    rates = {name: _rates(one, spec.confidence_level) for name, one in over.items()}
    scored, labelled = n_usable(groups, labelled=False), n_usable(groups, labelled=True)
    n_clusters = _n_clusters(groups)
    rows = {}
    for place, name in enumerate(groups.names):
        (tn, fp), (fn, tp) = groups.counts[place, :MISSING, :MISSING].tolist()
        rows[name] = GroupRow(
            values=dict(zip(groups.columns, groups.keys[place], strict=True)),
            n=int(groups.n[place]),
            n_scored=int(scored[place]),
            n_labelled=int(labelled[place]),
            positives=tp + fn,
            negatives=tn + fp,
            true_positives=tp,
            false_positives=fp,
            true_negatives=tn,
            false_negatives=fn,
            n_clusters=None if n_clusters is None else int(n_clusters[place]),
            small=bool(scored[place] < spec.min_group),
            rates={rate: by_group[place] for rate, by_group in rates.items()},
        )
    return rows


def _rates(over: RateOverGroups, confidence_level: float) -> list[Rate]:
    low, high = over.wilson()
    method = "wilson_effective" if over.clustered else "wilson"
    return [
        Rate(
            events=int(events),
            at_risk=int(at_risk),
            value=float(events / at_risk) if at_risk else None,
            interval=interval_of((low[place], high[place]), confidence_level, method),
        )
        for place, (events, at_risk) in enumerate(zip(over.events, over.at_risk, strict=True))
    ]


def _n_clusters(groups: GroupCounts) -> Ints | None:
    if groups.clusters is None:
        return None
    return np.bincount(groups.clusters.group, minlength=len(groups.keys))


def _ledger(
    read: _Table, tensor: ConfusionTensor, counted: Sequence[GroupCounts], spec: AuditSpec
) -> Iterator[LedgerEntry]:
    """Name everything that was left out or set apart."""
    n_missing: dict[tuple[LedgerKind, str], int] = {
        ("missing_prediction", spec.columns.y_pred): int(np.count_nonzero(read.y_pred == MISSING)),
        ("missing_label", spec.columns.y_true): 0 if read.y_true is None else int((read.y_true == MISSING).sum()),
        ("missing_score", spec.columns.score): 0
        if read.score is None
        else int(np.isnan(numeric(read.score, spec.columns.score)).sum()),
    }
    for place, column in enumerate(tensor.columns):
        missing = tensor.levels[:, place] == len(tensor.labels[place])
        n_missing["missing_attribute", column] = int(tensor.counts[missing].sum())
    for (kind, where), n in n_missing.items():
        if n:
            yield LedgerEntry(kind=kind, where=where, group=None, n=n)
    for groups in counted:
        where = where_of(groups.columns)
        for name, n, scored in zip(groups.names, groups.n, n_usable(groups, labelled=False), strict=True):
            if scored < spec.min_group:
                yield LedgerEntry(kind="small_group", where=where, group=name, n=int(n))
        for key in groups.empty:
            yield LedgerEntry(kind="empty_cell", where=where, group=group_name(key), n=0)
        if unnamed := groups.n_empty - len(groups.empty):
            yield LedgerEntry(kind="empty_cell", where=where, group=None, n=unnamed)
