"""How rates differ over groups: gaps to a reference, the spread, one test for all, and the family they belong to.

A comparison is made in two steps, because p-values can be adjusted only when the whole family is known: `Comparison`
holds one rate's arrays and raw p-values, `disparities` adjusts over all of them and writes the records (SPEC 15.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from core.data.problems import nearest, quoted
from core.errors import InputError
from core.fairness.audited import Disparity, Evidence, EvidenceStatus, Gap, Omnibus
from core.fairness.columns import MISSING, Ints, label_of
from core.fairness.compared import Limits, RateOverGroups, all_pairs_p
from core.fairness.confusion import RATES, GroupCounts, RateDefinition, group_name
from core.fairness.spec import MIN_GROUP, Family, Positive
from core.inference.intervals import DEFAULT_CONFIDENCE_LEVEL, Interval, normal_quantile
from core.inference.multiplicity import benjamini_hochberg, holm
from core.inference.proportions import Homogeneity, is_significant, range_quantile

Reference = Mapping[str, Positive] | Literal["largest", "best"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What all comparisons of one audit share; see `AuditSpec`."""

    reference: Reference = "largest"
    family: Family = "holm"
    min_group: int = MIN_GROUP
    confidence_level: float = DEFAULT_CONFIDENCE_LEVEL
    seed: int = 20261129


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One rate over groups, before p-values are adjusted.

    Attributes
    ----------
    rate : str
    definition : RateDefinition
    names : tuple of str
    n_rows : int
        Rows of the table.
    n_usable : ndarray of int
        Rows of each group with what the rate needs.
    over : RateOverGroups
    left_out : mapping of str to str
    among : ndarray of int
        Groups that are compared.
    reference : int or None
    gap_p : mapping of int to (float, str)
        p-value and method, by group.
    omnibus : Homogeneity or None
    settings : Settings
    """

    rate: str
    definition: RateDefinition
    names: tuple[str, ...]
    n_rows: int
    n_usable: Ints
    over: RateOverGroups
    left_out: Mapping[str, str]
    among: Ints
    reference: int | None
    gap_p: Mapping[int, tuple[float, str]]
    omnibus: Homogeneity | None
    settings: Settings

    @classmethod
    def of(cls, rate: str, groups: GroupCounts, settings: Settings) -> Comparison:
        """Compare the groups in one rate."""
        definition = RATES[rate]
        over = RateOverGroups.of(groups, definition, settings.confidence_level)
        usable = n_usable(groups, labelled=definition.labelled)
        left_out = _left_out(groups.names, usable, over, settings.min_group)
        among = np.array([i for i, name in enumerate(groups.names) if name not in left_out], dtype=np.int64)
        best = settings.reference == "best"
        reference = _best(over, definition, among) if best else reference_of(groups, settings.reference)
        gap_p: dict[int, tuple[float, str]] = {}
        if reference is not None and reference in among:
            for i in among[among != reference]:
                p, method = over.gap_p(int(i), reference)
                # The best group is chosen by its rate, so that its pairs are the most extreme of all pairs.
                gap_p[int(i)] = (all_pairs_p(p, len(among)), f"{method}_all_pairs") if best else (p, method)
        return cls(
            rate=rate,
            definition=definition,
            names=groups.names,
            n_rows=groups.n_rows,
            n_usable=usable,
            over=over,
            left_out=left_out,
            among=among,
            reference=reference,
            gap_p=gap_p,
            omnibus=over.omnibus(among, settings.seed) if len(among) > 1 else None,
            settings=settings,
        )

    @property
    def extremes(self) -> tuple[int, int] | None:
        """Best and worst compared group."""
        best = _best(self.over, self.definition, self.among)
        if best is None:
            return None
        rates = self.over.values[self.among]
        return best, int(self.among[rates.argmin() if self.definition.good == "high" else rates.argmax()])

    def spread(self, confidence_level: float | None = None) -> tuple[Evidence, Evidence]:
        """Difference and ratio of the extreme rates, as evidence."""
        level = confidence_level or self.settings.confidence_level
        if len(self.among) < 2:
            reason = "fewer than two groups can be compared"
            return self._evidence("difference", None, None, level, reason), self._evidence(
                "ratio", None, None, level, reason
            )
        spread = self.over.spread(self.among, level)
        no_ratio = "every rate is 0" if spread.ratio is None else None
        return (
            self._evidence("difference", spread.difference, spread.difference_limits, level),
            self._evidence("ratio", spread.ratio, spread.ratio_limits, level, no_ratio),
        )

    def _evidence(
        self,
        scale: Literal["difference", "ratio"],
        value: float | None,
        limits: Limits | None,
        level: float,
        reason: str | None = None,
    ) -> Evidence:
        undefined = [name for name, why in self.left_out.items() if why != "small_group"]
        status: EvidenceStatus = "not_evaluable" if value is None else "incomplete" if undefined else "measured"
        if status == "incomplete":
            reason = f"no such rate, or too few clusters, in: {', '.join(undefined)}"
        n, n_classified = self.n_rows, int(self.n_usable[self.among].sum())
        return Evidence(
            status=status,
            value=value,
            interval=interval_of(limits, level, "newcombe_all_pairs" if scale == "difference" else "mover_all_pairs"),
            n=n,
            n_classified=n_classified,
            coverage=n_classified / n if n else 0.0,
            reason=reason,
            scale=scale,
        )

    def disparity(self, adjusted: Mapping[int, float], omnibus_adjusted: float | None) -> Disparity:
        """Write the record, given the adjusted p-values of the gaps (by group) and of the omnibus test."""
        difference, ratio = self.spread()
        extremes = self.extremes
        return Disparity(
            difference=difference,
            ratio=ratio,
            best=None if extremes is None else self.names[extremes[0]],
            worst=None if extremes is None else self.names[extremes[1]],
            reference=None if self.reference is None else self.names[self.reference],
            compared=tuple(self.names[i] for i in self.among),
            left_out=self.left_out,
            omnibus=self._omnibus(omnibus_adjusted),
            gaps=self._gaps(adjusted, extremes),
            minimum_detectable_difference=self._minimum_detectable(extremes),
        )

    def _minimum_detectable(self, extremes: tuple[int, int] | None) -> float | None:
        """Of the smallest group against the reference, or the best group where that was left out."""
        if extremes is None or len(self.among) < 2:
            return None
        against = self.reference if self.reference is not None and self.reference in self.among else extremes[0]
        others = self.among[self.among != against]
        return self.over.minimum_detectable(int(others[self.over.own[others].argmin()]), against)

    def _omnibus(self, p_adjusted: float | None) -> Omnibus | None:
        if self.omnibus is None or p_adjusted is None:
            return None
        return Omnibus(
            statistic=self.omnibus.statistic,
            degrees_of_freedom=self.omnibus.degrees_of_freedom,
            p_value=self.omnibus.p_value,
            p_adjusted=p_adjusted,
            significant=is_significant(p_adjusted, self.settings.confidence_level),
            method=self.omnibus.method,
        )

    def _gaps(self, adjusted: Mapping[int, float], extremes: tuple[int, int] | None) -> tuple[Gap, ...]:
        if self.reference is None or extremes is None:
            return ()
        others = np.array(list(self.gap_p), dtype=np.int64)
        level, rates = self.settings.confidence_level, self.over.values
        best = self.settings.reference == "best"
        z = range_quantile(len(self.among), level) if best and len(others) else normal_quantile(level)
        limits, of_ratio = self.over.pair_limits(others, np.full(len(others), self.reference), z)
        evaluated = {
            int(i): Gap(
                group=self.names[i],
                reference=self.names[self.reference],
                status="evaluated",
                difference=float(rates[i] - rates[self.reference]),
                difference_interval=interval_of((limits[0][k], limits[1][k]), level, "newcombe"),
                ratio=_ratio(rates[i], rates[self.reference]),
                ratio_interval=interval_of((of_ratio[0][k], of_ratio[1][k]), level, "mover"),
                p_value=self.gap_p[int(i)][0],
                p_adjusted=adjusted[int(i)],
                significant=is_significant(adjusted[int(i)], level),
                difference_to_best=float(rates[i] - rates[extremes[0]]),
                ratio_to_best=_ratio(rates[i], rates[extremes[0]]),
                difference_to_worst=float(rates[i] - rates[extremes[1]]),
                ratio_to_worst=_ratio(rates[i], rates[extremes[1]]),
                method=self.gap_p[int(i)][1],
            )
            for k, i in enumerate(others)
        }
        without = "reference_left_out" if self.names[self.reference] in self.left_out else "small_group"
        return tuple(
            evaluated.get(i)
            or Gap(
                group=name,
                reference=self.names[self.reference],
                status="not_evaluable",
                reason=self.left_out.get(name, without),
            )
            for i, name in enumerate(self.names)
            if i != self.reference
        )


def disparities(comparisons: Sequence[Mapping[str, Comparison]], family: Family) -> list[dict[str, Disparity]]:
    """Adjust p-values over all comparisons of an audit and write their records (SPEC 15.5).

    Gaps are one family and omnibus tests another; a rate and its complement are one question.

    Parameters
    ----------
    comparisons : sequence of mapping of str to Comparison
        By set of groups, and in it by rate.
    family : {'holm', 'benjamini_hochberg', 'none'}

    Returns
    -------
    list of dict of str to Disparity
    """
    gap_p = {
        (place, rate, group): p
        for place, by_rate in enumerate(comparisons)
        for rate, comparison in by_rate.items()
        if asked(comparison, by_rate)
        for group, (p, _) in comparison.gap_p.items()
    }
    omnibus_p = {
        (place, rate): comparison.omnibus.p_value
        for place, by_rate in enumerate(comparisons)
        for rate, comparison in by_rate.items()
        if asked(comparison, by_rate) and comparison.omnibus is not None
    }
    gaps = dict(zip(gap_p, adjusted_p(list(gap_p.values()), family), strict=True))
    omnibus = dict(zip(omnibus_p, adjusted_p(list(omnibus_p.values()), family), strict=True))
    written = []
    for place, by_rate in enumerate(comparisons):
        records = {}
        for rate, comparison in by_rate.items():
            source = rate if asked(comparison, by_rate) else comparison.definition.complement or rate
            adjusted = {group: gaps[place, source, group] for group in comparison.gap_p}
            records[rate] = comparison.disparity(adjusted, omnibus.get((place, source)))
        written.append(records)
    return written


def asked(comparison: Comparison, by_rate: Mapping[str, Comparison]) -> bool:
    """Whether a rate is a question of its own: its complement is not among the others."""
    return comparison.definition.complement not in by_rate


def adjusted_p(p_values: Sequence[float], family: Family) -> tuple[float, ...]:
    """Adjust p-values over a family.

    Examples
    --------
    >>> adjusted_p([0.02, 0.03], "holm"), adjusted_p([0.02, 0.03], "benjamini_hochberg")
    ((0.04, 0.04), (0.03, 0.03))
    """
    if family == "none":
        return tuple(p_values)
    return holm(p_values) if family == "holm" else benjamini_hochberg(p_values)


def reference_of(groups: GroupCounts, reference: Reference) -> int | None:
    """Find the reference group: the declared one, else the largest.

    Raises
    ------
    InputError
        If a declared group does not occur.
    """
    if isinstance(reference, str) or not set(groups.columns) <= set(reference):
        return int(groups.n.argmax()) if len(groups.n) else None
    key = tuple(label_of(reference[column]) for column in groups.columns)
    if key in groups.keys:
        return groups.keys.index(key)
    if len(key) > 1:  # the references of the columns need not meet in any row
        return int(groups.n.argmax()) if len(groups.n) else None
    (column,), wanted = groups.columns, key[0]
    hint = nearest(wanted, [name for (name,) in groups.keys if name is not None])
    raise InputError.of(column, f"no row is in the reference group {quoted(group_name(key))}; {hint}")


def n_usable(groups: GroupCounts, *, labelled: bool) -> Ints:
    """Rows of each group with a prediction, and where it is needed a label."""
    counts = groups.counts[:, :MISSING, :MISSING] if labelled else groups.counts[:, :, :MISSING]
    return np.asarray(counts.sum(axis=(1, 2)))


def interval_of(limits: tuple[float, float] | None, confidence_level: float, method: str) -> Interval | None:
    """Write limits as an interval; None where there are none (NaN)."""
    if limits is None or np.isnan(limits).any():
        return None
    return Interval(low=float(limits[0]), high=float(limits[1]), confidence_level=confidence_level, method=method)


def _left_out(names: Sequence[str], usable: Ints, over: RateOverGroups, min_group: int) -> dict[str, str]:
    defined, found = over.defined, {}
    for i, name in enumerate(names):
        if usable[i] < min_group:
            found[name] = "small_group"
        elif not over.at_risk[i]:
            found[name] = "undefined_rate"
        elif not defined[i]:
            found[name] = "few_clusters"
    return found


def _best(over: RateOverGroups, definition: RateDefinition, among: Ints) -> int | None:
    if not len(among):
        return None
    rates = over.values[among]
    return int(among[rates.argmax() if definition.good == "high" else rates.argmin()])


def _ratio(rate: float, other: float) -> float | None:
    return None if other == 0.0 else float(rate / other)
