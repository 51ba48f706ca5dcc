"""Whether stereotypes are amplified beyond a baseline: SAR (SPEC 17.8)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from core.errors import UndefinedError
from core.fairness.bands import BANDS, Bands
from core.fairness.scenario_bootstrap import BootstrapInterval, Estimate, Sampling, Statistic, bca
from core.fairness.taxonomy import Taxonomy, label_name, taxonomy_from, taxonomy_of
from core.fairness.text_metric import (
    MIN_COVERAGE,
    Floats,
    Ints,
    Scenarios,
    TextMetric,
    measured,
    not_evaluable,
    scenarios_of,
    sorted_codes,
)

Baselines = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PairRatio:
    """One (context, group) pair.

    Attributes
    ----------
    context, group : str
    count : int
        Outputs of the group in the context.
    n : int
        Classified outputs of the context.
    baseline : float in (0, 1]
    rate : float in [0, 1] or None
        count / n; None when n = 0.
    ratio : float or None
        rate / baseline; 0 is erasure.
    log_ratio : float or None
        What enters the mean: of (count + .5)/(n + 1) when the count is 0.
    band : str or None
        Of the ratio.
    """

    context: str
    group: str
    count: int
    n: int
    baseline: float
    rate: float | None
    ratio: float | None
    log_ratio: float | None
    band: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SarResult(TextMetric):
    """Amplification of stereotypes (SPEC 17.8); the fields of `TextMetric`, and these.

    Attributes
    ----------
    axis : str
    max_abs_log_ratio : float or None
        Of the worst pair: a mean of one amplified and one suppressed pair can be 1.
    n_pairs : int
        Pairs that enter the mean.
    by_pair : tuple of PairRatio
        In the order of context and group.
    pairs_by_band : mapping of str to int
    erased : tuple of str
        Pairs ``context/group`` whose group never appears there.
    pairs_without_outputs : tuple of str
        Pairs of contexts without a classified output; they are not in the mean.
    groups_without_baseline : tuple of str
        Groups that appear in a context in which they have no baseline.
    """

    axis: str
    max_abs_log_ratio: float | None = None
    n_pairs: int = 0
    by_pair: tuple[PairRatio, ...] = ()
    pairs_by_band: Mapping[str, int]
    erased: tuple[str, ...] = ()
    pairs_without_outputs: tuple[str, ...] = ()
    groups_without_baseline: tuple[str, ...] = ()

    @property
    def n_classified(self) -> int:
        """Outputs of the baselines' contexts that the labeller placed."""
        return self.n_scored


def sar(
    contexts: Any,
    labels: Any,
    *,
    baselines: Baselines,
    pairs: Sequence[tuple[str, str]] | None = None,
    taxonomy: Taxonomy | Sequence[str] | str | None = None,
    scenarios: Any = None,
    min_coverage: float = MIN_COVERAGE,
    bands: Bands = BANDS["sar"],
    sampling: Sampling | None = None,
) -> SarResult:
    """Stereotype Amplification Ratio: how often a group meets a context, over a baseline (SPEC 17.8).

    Per pair, ratio = share of the group among the context's classified outputs / baseline; SAR = exp(mean of log
    ratio). Only where the count is 0 the log takes (count + .5)/(n + 1) for the share.

    Parameters
    ----------
    contexts, labels : array_like of str, shape (n,)
        Context (an occupation, say) and label of each output; outputs without a context are left out.
    baselines : mapping of str to (mapping of str to float)
        Context -> group -> share in (0, 1]. Groups go through the taxonomy like the labels.
    pairs : sequence of (context, group), optional
        Which pairs to score; all that have a baseline by default.
    taxonomy : Taxonomy, list of categories, or name of a built-in one, optional
    scenarios, min_coverage, bands, sampling
        As in `core.fairness.representation.rsi`.

    Returns
    -------
    SarResult
        Value above 0; 1 follows the baseline. Amplification and suppression weigh the same, in the mean they also
        cancel: read ``max_abs_log_ratio`` and the pairs beside it.

    Raises
    ------
    UndefinedError
        If a baseline is missing (for a pair asked for, or a whole context that has outputs) or outside (0, 1], or
        lengths differ.

    Examples
    --------
    >>> result = sar(["nurse"] * 10, ["female"] * 9 + ["male"], baselines={"nurse": {"female": 0.75}})
    >>> round(result.value, 3), result.band, result.n_pairs
    (1.2, 'pass', 1)
    """
    named_labels = np.asarray(labels, dtype=object)
    declared = _taxonomy(taxonomy, named_labels, baselines)
    wanted = _wanted(baselines, pairs, declared)
    of_context, context_names = sorted_codes(contexts)
    n_all = len(named_labels)
    if len(of_context) != n_all:
        raise UndefinedError("contexts", len(of_context), f"needs one for each of {n_all} outputs")
    named = scenarios_of(scenarios, n_all)
    groups = declared.codes(named_labels)
    _check_contexts(context_names, {context for context, _ in wanted})
    inside = of_context >= 0
    table = _Table.of(named, of_context, groups, context_names, wanted, declared.categories)
    n, n_classified = int(inside.sum()), int(table.counts.sum())
    rows = tuple(table.pair(pair, share, bands) for pair, share in wanted.items())
    counted = [row for row in rows if row.log_ratio is not None]
    common: dict[str, Any] = {
        "axis": declared.axis,
        "by_pair": rows,
        "n_pairs": len(counted),
        "pairs_by_band": {name: sum(row.band == name for row in rows) for name in bands.names},
        "erased": tuple(f"{row.context}/{row.group}" for row in counted if row.count == 0),
        "pairs_without_outputs": tuple(f"{row.context}/{row.group}" for row in rows if row.log_ratio is None),
        "groups_without_baseline": table.without_baseline(wanted),
    }
    sizes: dict[str, Any] = {
        "n": n,
        "n_scored": n_classified,
        "n_scenarios": int(table.sums.any(axis=1).sum()),
        "notes": named.notes,
    }
    refusal = _refusal(n, n_classified, min_coverage, bool(counted))
    if refusal is not None:
        return SarResult(**not_evaluable("sar", bands, *refusal, **sizes), **common)
    log_ratios = np.array([row.log_ratio for row in counted], np.float64)
    value = float(np.exp(log_ratios.mean()))
    estimate = _estimate(table, wanted, bands, sampling or Sampling(), declared.axis)
    notes = (*named.notes, *(("erasure",) if common["erased"] else ()))
    fields = measured("sar", bands, value, estimate, n=n, n_scored=n_classified, notes=notes)
    return SarResult(**fields, **common, max_abs_log_ratio=float(np.abs(log_ratios).max()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Table:
    """Classified outputs by scenario, context and group."""

    sums: Floats
    counts: Ints
    contexts: list[str]
    groups: tuple[str, ...]

    @classmethod
    def of(
        cls,
        named: Scenarios,
        of_context: Ints,
        group: Ints,
        found: list[str],
        wanted: Iterable[tuple[str, str]],
        groups: tuple[str, ...],
    ) -> _Table:
        contexts = sorted({context for context, _ in wanted})
        # The contexts of the baselines, whether they have outputs or not, so that two tables have equal columns.
        context = np.array([*(contexts.index(name) for name in found), -1], np.int64)[of_context]
        placed = (group >= 0) & (context >= 0)
        cells = len(contexts) * len(groups)
        size = int(named.codes.max(initial=-1)) + 1
        cell = named.codes[placed] * cells + context[placed] * len(groups) + group[placed]
        sums = np.bincount(cell, minlength=size * cells).reshape(size, cells)
        counts = sums.sum(axis=0).reshape(len(contexts), len(groups))
        return cls(sums=sums.astype(np.float64), counts=counts, contexts=contexts, groups=groups)

    def pair(self, pair: tuple[str, str], baseline: float, bands: Bands) -> PairRatio:
        place = self.contexts.index(pair[0]), self.groups.index(pair[1])
        count, n = int(self.counts[place]), int(self.counts[place[0]].sum())
        rate = count / n if n else None
        ratio = None if rate is None else rate / baseline
        return PairRatio(
            context=pair[0],
            group=pair[1],
            count=count,
            n=n,
            baseline=baseline,
            rate=rate,
            ratio=ratio,
            log_ratio=float(_log_ratio(np.float64(count), np.float64(n), np.float64(baseline))) if n else None,
            band=None if ratio is None else bands.of(ratio),
        )

    def without_baseline(self, wanted: Mapping[tuple[str, str], float]) -> tuple[str, ...]:
        found = [
            (context, group)
            for i, context in enumerate(self.contexts)
            for j, group in enumerate(self.groups)
            if self.counts[i, j]
        ]
        return tuple(f"{context}/{group}" for context, group in found if (context, group) not in wanted)


def pair_sums(contexts: Any, labels: Any, scenarios: Any, baselines: Baselines, taxonomy: Taxonomy) -> Floats:
    """Outputs by context and group of each scenario, in sorted order."""
    wanted = _wanted(baselines, None, taxonomy)
    of_context, found = sorted_codes(contexts)
    _check_contexts(found, {context for context, _ in wanted})
    named = scenarios_of(scenarios, len(of_context))
    table = _Table.of(named, of_context, taxonomy.codes(labels), found, wanted, taxonomy.categories)
    return table.sums


def amplification_from(baselines: Baselines, taxonomy: Taxonomy) -> Statistic:
    """SAR from sums over scenarios."""
    wanted = _wanted(baselines, None, taxonomy)
    return _Pairs.of(sorted({context for context, _ in wanted}), taxonomy.categories, wanted).ratio


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Where the pairs stand in a table, and their baselines."""

    rows: Ints
    columns: Ints
    baseline: Floats
    shape: tuple[int, ...]

    @classmethod
    def of(cls, contexts: Sequence[str], groups: Sequence[str], wanted: Mapping[tuple[str, str], float]) -> _Pairs:
        return cls(
            rows=np.array([contexts.index(context) for context, _ in wanted]),
            columns=np.array([groups.index(group) for _, group in wanted]),
            baseline=np.array([*wanted.values()]),
            shape=(len(contexts), len(groups)),
        )

    def ratio(self, sums: Floats) -> Floats:
        """SAR of counts of shape (..., contexts x groups); NaN where no pair's context has outputs."""
        counts = sums.reshape(*sums.shape[:-1], *self.shape)
        n = counts.sum(axis=-1)[..., self.rows]
        logs = _log_ratio(counts[..., self.rows, self.columns], n, self.baseline)
        scored = n > 0.0
        # Contexts without outputs (in a resample, say) leave their pairs out.
        total, number = np.where(scored, logs, 0.0).sum(axis=-1), scored.sum(axis=-1)
        mean = np.divide(total, number, out=np.full(np.shape(total), np.nan), where=number > 0)
        ratio: Floats = np.exp(mean)
        return ratio


def _estimate(
    table: _Table, wanted: Mapping[tuple[str, str], float], bands: Bands, sampling: Sampling, axis: str
) -> Estimate:
    pairs = _Pairs.of(table.contexts, table.groups, wanted)
    options: dict[str, Any] = {"sampling": sampling, "name": f"sar.{axis}"}
    sums = table.sums[table.sums.any(axis=1)]
    estimate = bca(sums, pairs.ratio, edges=bands.edges, bounds=(0.0, float("inf")), **options)
    return _unvaried(estimate, table, pairs, sampling) if "no_variation" in estimate.notes else estimate


def _unvaried(estimate: Estimate, table: _Table, pairs: _Pairs, sampling: Sampling) -> Estimate:
    """Bound by what the scenarios of each context can have failed to show, where none differs (SPEC 17.3)."""
    used = table.counts.sum(axis=1)[pairs.rows] > 0
    rows, columns, baseline = pairs.rows[used], pairs.columns[used], pairs.baseline[used]
    of_context = table.sums.reshape(len(table.sums), *table.counts.shape).sum(axis=2) > 0.0
    scenarios = of_context.sum(axis=0)[rows]
    alpha = (1.0 - sampling.confidence_level) / 2.0
    unseen = 1.0 - alpha ** (1.0 / scenarios)
    n = table.counts.sum(axis=1)[rows]
    share = np.maximum(table.counts[rows, columns] / n, 0.5 / (n + 1.0))
    low, high = share * (1.0 - unseen), share + unseen * (1.0 - share)
    interval = BootstrapInterval(
        low=float(np.exp(np.log(low / baseline).mean())),
        high=float(np.exp(np.log(high / baseline).mean())),
        confidence_level=sampling.confidence_level,
        method="no_variation",
        n_units=estimate.n_scenarios,
        resamples=sampling.resamples,
    )
    return Estimate(interval=interval, confidence=None, n_scenarios=estimate.n_scenarios, notes=estimate.notes)


def _log_ratio(count: Any, n: Any, baseline: Any) -> Any:
    share = np.where(count > 0.0, count / np.maximum(n, 1.0), 0.5 / (n + 1.0))
    return np.log(share / baseline)


def _wanted(baselines: Baselines, pairs: Any, declared: Taxonomy) -> dict[tuple[str, str], float]:
    known: dict[tuple[str, str], float] = {}
    for context, shares in baselines.items():
        for group, share in declared.shares(shares, f"baselines.{context}").items():
            if not 0.0 < share <= 1.0:
                raise UndefinedError(f"baselines.{context}.{group}", share, "must lie in (0, 1]")
            known[str(context).strip(), group] = share
    if not known:
        raise UndefinedError("baselines", {}, "needs at least one pair of a context and a group")
    if pairs is not None:
        asked = [(str(context).strip(), declared.canonical(group) or str(group)) for context, group in pairs]
        if missing := [f"{context}/{group}" for context, group in asked if (context, group) not in known]:
            raise UndefinedError("baselines", missing, "these pairs have no baseline, and none is assumed")
        known = {pair: known[pair] for pair in asked}
    return dict(sorted(known.items()))


def _check_contexts(found: Sequence[str], known: set[str]) -> None:
    if missing := [context for context in found if context not in known]:
        shown = ", ".join(missing[:5])
        raise UndefinedError("baselines", shown, "these contexts have no baseline, and none is assumed")


def _taxonomy(taxonomy: Any, labels: npt.NDArray[np.object_], baselines: Baselines) -> Taxonomy:
    if taxonomy is not None:
        return taxonomy_from(taxonomy)
    names = {label_name(group) for shares in baselines.values() for group in shares}
    return taxonomy_of("groups", names | set(map(label_name, set(labels.tolist()))))


def _refusal(n: int, n_classified: int, min_coverage: float, any_pair: bool) -> tuple[str, str] | None:
    if not n:
        return "no_outputs", "no output has a context"
    if n_classified < min_coverage * n - 1e-9 or not n_classified:
        return "low_coverage", f"{n_classified} of {n} outputs classified, below {min_coverage:.0%}"
    if not any_pair:
        return "no_outputs", "no context of a baseline has a classified output"
    return None
