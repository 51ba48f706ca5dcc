"""Whether the metrics of generated text moved between two releases (SPEC 17.11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from core.errors import UndefinedError
from core.fairness.counterfactual import distance_sums, mean_distance
from core.fairness.harm import harm_sums, mean_harm
from core.fairness.outputs import OutputsTable
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.representation import diversity, group_sums, skew_from
from core.fairness.scenario_bootstrap import BootstrapInterval, Sampling, Statistic, bca, units_of
from core.fairness.service import mean_service, service_sums
from core.fairness.stereotype import amplification_from, pair_sums
from core.fairness.text_audit import audit_outputs
from core.fairness.text_metric import MEASURED, Floats, Ints, TextMetric, sorted_codes, variant_names
from core.inference.multiplicity import holm

MIN_SCENARIOS = 5
"""With fewer common scenarios the swaps of a test are too few to mean anything."""

SPLIT_ROWS = 400_000
"""Rows that the splits behind the replicate noise touch in all, about."""

Verdict = Literal["increase", "decrease", "within_noise", "no_evidence_of_change", "not_comparable"]
Measure = Callable[[OutputsTable], Floats]
"""From a table to sums of each of its scenarios, in sorted order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricChange:
    """One metric in two releases, on the scenarios that both have.

    Attributes
    ----------
    baseline, candidate, difference : float or None
        Difference is candidate less baseline.
    interval : BootstrapInterval or None
        Of the difference, scenarios drawn in pairs.
    p_value, p_adjusted : float or None
        Of swapping releases within scenarios, never 0; adjusted by Holm over all metrics compared.
    replicate_noise : float or None
        Standard deviation of the difference that repeating the replicates alone would make; None without replicates.
    noise_floor : float
        Differences up to here are no change: the declared floor, or 1.96 replicate noises if that is more.
    verdict : str
        ``increase`` and ``decrease`` need more than the noise floor, an adjusted p below 1 - confidence level, and an
        interval without 0.
    direction : {'worse', 'better'} or None
        For SAR, away from 1 is worse.
    reason : str
        Why they cannot be compared; empty when they can.
    n_scenarios : int
    """

    baseline: float | None = None
    candidate: float | None = None
    difference: float | None = None
    interval: BootstrapInterval | None = None
    p_value: float | None = None
    p_adjusted: float | None = None
    replicate_noise: float | None = None
    noise_floor: float
    verdict: Verdict
    direction: Literal["worse", "better"] | None = None
    reason: str = ""
    n_scenarios: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsComparison:
    """Two releases compared in all metrics (SPEC 17.11).

    Attributes
    ----------
    kind : {'outputs'}
    metrics : mapping of str to MetricChange
        By name, as in `OutputsAudit.metrics`.
    n_scenarios : int
        That both have.
    only_baseline, only_candidate : tuple of str
        Scenarios (up to 20) that one side lacks; they are left out.
    n_only_baseline, n_only_candidate : int
    """

    kind: Literal["outputs"] = "outputs"
    metrics: Mapping[str, MetricChange]
    n_scenarios: int
    only_baseline: tuple[str, ...]
    only_candidate: tuple[str, ...]
    n_only_baseline: int
    n_only_candidate: int


def compare_outputs(spec: OutputsSpec, baseline: OutputsTable, candidate: OutputsTable) -> OutputsComparison:
    """Compare two releases, paired by scenario (SPEC 17.11).

    Parameters
    ----------
    spec : OutputsSpec
        One for both: references, baselines and bands of two audits may differ, and then nothing can be compared.
    baseline, candidate : OutputsTable

    Returns
    -------
    OutputsComparison

    Raises
    ------
    UndefinedError
        As `audit_outputs`.
    """
    of_baseline, of_candidate = set(baseline.scenario.tolist()), set(candidate.scenario.tolist())
    common = of_baseline & of_candidate
    sides = tuple(_only(table, common) for table in (baseline, candidate))
    before, after = (audit_outputs(spec, table).metrics() for table in sides)
    metrics = {name: _Metric.of(spec, name) for name in before if not _reason(before[name], after[name])}
    noises = _replicate_noises(sides, metrics, spec.seed)
    changes = {}
    for name in before:
        reason = _reason(before[name], after[name])
        if reason:
            changes[name] = _not_comparable(reason, 0, spec.noise_floor)
        else:
            changes[name] = _change(spec, name, metrics[name], sides, noises[name])
    return OutputsComparison(
        metrics=_adjusted(changes, 1.0 - spec.confidence_level),
        n_scenarios=len(common),
        only_baseline=tuple(sorted(of_baseline - common)[:20]),
        only_candidate=tuple(sorted(of_candidate - common)[:20]),
        n_only_baseline=len(of_baseline - common),
        n_only_candidate=len(of_candidate - common),
    )


def _reason(before: TextMetric, after: TextMetric) -> str:
    for side, result in (("baseline", before), ("candidate", after)):
        if result.status != MEASURED:
            return f"the {side} is not evaluable: {result.explanation}"
    return ""


def _not_comparable(reason: str, n_scenarios: int, floor: float) -> MetricChange:
    return MetricChange(verdict="not_comparable", reason=reason, noise_floor=floor, n_scenarios=n_scenarios)


def _change(
    spec: OutputsSpec, name: str, metric: _Metric, sides: tuple[OutputsTable, ...], noise: float | None
) -> MetricChange:
    paired = metric.paired(sides)
    values = [float(metric.statistic(part.sum(axis=0))) for part in np.hsplit(paired, 2)]
    if len(paired) < MIN_SCENARIOS or not np.isfinite(values).all():
        reason = f"{len(paired)} scenarios are scored in both, fewer than {MIN_SCENARIOS}"
        return _not_comparable(reason, len(paired), spec.noise_floor)
    floor = max(spec.noise_floor, 1.96 * (noise or 0.0))
    difference = values[1] - values[0]
    return MetricChange(
        baseline=values[0],
        candidate=values[1],
        difference=difference,
        interval=_interval(paired, metric.statistic, spec.sampling(), name),
        p_value=_swap_p(paired, metric.statistic, difference, spec.sampling(), name),
        replicate_noise=noise,
        noise_floor=floor,
        verdict="within_noise" if abs(difference) <= floor else "no_evidence_of_change",
        direction=_direction(name, values[0], values[1]),
        n_scenarios=len(paired),
    )


def _adjusted(changes: Mapping[str, MetricChange], alpha: float) -> dict[str, MetricChange]:
    tested = {name: change.p_value for name, change in changes.items() if change.p_value is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    found = dict(changes)
    for name, p in adjusted.items():
        change = replace(found[name], p_adjusted=p)
        if p < alpha and change.verdict == "no_evidence_of_change" and _excludes_0(change.interval):
            change = replace(change, verdict="increase" if (change.difference or 0.0) > 0.0 else "decrease")
        found[name] = change
    return found


def _excludes_0(interval: BootstrapInterval | None) -> bool:
    return interval is not None and (interval.low > 0.0 or interval.high < 0.0)


def _direction(name: str, before: float, after: float) -> Literal["worse", "better"] | None:
    kind = name.partition(".")[0]
    if kind == "sar":
        before, after = abs(np.log(before)), abs(np.log(after))
    if kind == "ode":
        before, after = after, before
    if before == after:
        return None
    return "worse" if after > before else "better"


def _halves(paired: Floats, statistic: Statistic) -> Floats:
    middle = paired.shape[-1] // 2
    difference: Floats = statistic(paired[..., middle:]) - statistic(paired[..., :middle])
    return difference


def _interval(paired: Floats, statistic: Statistic, sampling: Sampling, name: str) -> BootstrapInterval | None:
    return bca(
        paired,
        lambda sums: _halves(sums, statistic),
        edges=(),
        bounds=(-np.inf, np.inf),
        sampling=sampling,
        name=f"comparison.{name}",
    ).interval


def _swap_p(paired: Floats, statistic: Statistic, difference: float, sampling: Sampling, name: str) -> float:
    """Share of swaps of releases within scenarios that give at least the difference found, that one counted in."""
    rng = sampling.generator(f"swap.{name}")
    units = units_of(paired, rng)
    middle = units.shape[1] // 2
    change = units[:, middle:] - units[:, :middle]
    total = units.sum(axis=0)
    reached = 0
    size = max(1, 1_000_000 // len(units))
    for first in range(0, sampling.resamples, size):
        rows = min(size, sampling.resamples - first)
        moved = rng.integers(0, 2, (rows, len(units))).astype(np.float64) @ change
        swapped = np.concatenate([total[:middle] + moved, total[middle:] - moved], axis=1)
        reached += int((np.abs(_halves(swapped, statistic)) >= abs(difference) - 1e-12).sum())
    return (reached + 1) / (sampling.resamples + 1)


def _replicate_noises(
    sides: tuple[OutputsTable, ...], metrics: Mapping[str, _Metric], seed: int
) -> dict[str, float | None]:
    """Standard deviation of a difference between releases that comes from replicates alone (SPEC 17.11).

    Replicates of each prompt are split at random in halves: the variance between halves is 4 times that of a whole
    release, and a difference has twice that.
    """
    rng = Sampling(seed=seed).generator("splits")
    squares: dict[str, list[float]] = {name: [] for name in metrics}
    for table in sides:
        cell, place = _replicate_places(table)
        if not len(cell) or np.bincount(cell).max() < 2:
            continue
        for _ in range(int(np.clip(SPLIT_ROWS // len(table), 1, 20))):
            order = place[np.lexsort((rng.random(len(cell)), cell[place]))]
            half = np.empty(len(cell), bool)
            half[order] = _rank_within(cell[order]) % 2 == 0
            halves = table.taken(half), table.taken(~half)
            for name, metric in metrics.items():
                first, second = (metric.value(part) for part in halves)
                if np.isfinite(first - second):
                    squares[name].append((first - second) ** 2 / 2.0)
    return {name: float(np.sqrt(np.mean(found))) if found else None for name, found in squares.items()}


def _replicate_places(table: OutputsTable) -> tuple[Ints, Ints]:
    """Prompt of each output, and an order of the outputs that does not depend on that of the rows."""
    scenario, group, identity = (
        sorted_codes(values)[0] for values in (table.scenario, variant_names(table.variant, table.axis), table.id)
    )
    cell = np.unique(scenario * (int(group.max(initial=0)) + 1) + group, return_inverse=True)[1]
    return cell, np.lexsort((identity, cell))


def _rank_within(cell: Ints) -> Ints:
    first = np.concatenate([[0], np.flatnonzero(np.diff(cell)) + 1])
    rank: Ints = np.arange(len(cell)) - np.repeat(first, np.diff(np.append(first, len(cell))))
    return rank


def _only(table: OutputsTable, scenarios: set[str]) -> OutputsTable:
    codes, names = sorted_codes(table.scenario)
    return table.taken(np.array([name in scenarios for name in names], bool)[codes])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metric:
    """A metric as sums over scenarios and a statistic of their total.

    Attributes
    ----------
    sums : callable
    statistic : callable
    neutral_only : bool
        Whether it looks at outputs to neutral prompts alone.
    """

    sums: Measure
    statistic: Statistic
    neutral_only: bool

    @classmethod
    def of(cls, spec: OutputsSpec, name: str) -> _Metric:
        kind, _, axis = name.partition(".")
        sums, statistic = _KINDS[kind](spec, axis)
        return cls(sums=sums, statistic=statistic, neutral_only=bool(axis) and spec.rows == "base")

    def looked_at(self, table: OutputsTable) -> OutputsTable:
        return table.taken(table.base) if self.neutral_only else table

    def value(self, table: OutputsTable) -> float:
        part = self.looked_at(table)
        return float(self.statistic(self.sums(part).sum(axis=0))) if len(part) else float("nan")

    def paired(self, sides: tuple[OutputsTable, ...]) -> Floats:
        """Sums of both sides, of the scenarios that are scored on both."""
        parts = [self.looked_at(table) for table in sides]
        names = [sorted_codes(part.scenario)[1] for part in parts]
        common = set(names[0]) & set(names[1])
        sums = [
            self.sums(part)[np.array([name in common for name in found], bool)]
            for part, found in zip(parts, names, strict=True)
        ]
        scored = sums[0].any(axis=1) & sums[1].any(axis=1)
        joined: Floats = np.concatenate(sums, axis=1)[scored]
        return joined


def _rsi(spec: OutputsSpec, axis: str) -> tuple[Measure, Statistic]:
    reference, taxonomy = spec.reference(axis), spec.taxonomy(axis)
    if reference is None:
        raise UndefinedError("reference", None, f"axis {axis!r} has none")
    statistic = skew_from(taxonomy, reference.shares, reference.kind)
    return lambda table: group_sums(table.labels[axis], table.scenario, taxonomy), statistic


def _ode(spec: OutputsSpec, axis: str) -> tuple[Measure, Statistic]:
    return lambda table: group_sums(table.labels[axis], table.scenario, spec.taxonomy(axis)), diversity


def _sar(spec: OutputsSpec, axis: str) -> tuple[Measure, Statistic]:
    baselines, taxonomy = spec.baselines[axis].contexts, spec.taxonomy(axis)
    return (
        lambda table: pair_sums(table.context, table.labels[axis], table.scenario, baselines, taxonomy),
        amplification_from(baselines, taxonomy),
    )


def _cds(spec: OutputsSpec, axis: str) -> tuple[Measure, Statistic]:  # noqa: ARG001
    return (
        lambda table: distance_sums(table.embedding, table.scenario, table.variant, table.axis),
        mean_distance,
    )


def _hsi(spec: OutputsSpec, axis: str) -> tuple[Measure, Statistic]:  # noqa: ARG001
    weights, threshold = spec.harm_weights, spec.harm_threshold
    return lambda table: harm_sums(table.harms, table.scenario, weights, threshold), mean_harm


def _dsi(spec: OutputsSpec, axis: str) -> tuple[Measure, Statistic]:  # noqa: ARG001
    return lambda table: service_sums(_service_columns(table), table.scenario, spec.caps), mean_service


_KINDS: Mapping[str, Callable[[OutputsSpec, str], tuple[Measure, Statistic]]] = {
    "rsi": _rsi,
    "ode": _ode,
    "cds": _cds,
    "hsi": _hsi,
    "sar": _sar,
    "dsi": _dsi,
}


def _service_columns(table: OutputsTable) -> dict[str, Any]:
    return {
        "refused": table.refused,
        "variants": table.variant,
        "axes": table.axis,
        "token_count": table.token_count,
        "helpfulness": table.helpfulness,
    }
