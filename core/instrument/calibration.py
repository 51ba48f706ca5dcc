"""Calibration (SPEC 3-6): from a golden set and a judge's verdicts to an instrument with known error rates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from core.data.columns import Bools, Floats, Ints
from core.data.golden import MAX_SLICE_VALUES, GoldenSet, composite_truth
from core.data.problems import counted
from core.errors import InputError, UndefinedError
from core.inference.clusters import (
    DESIGN_EFFECT_FLOOR,
    FEW_CLUSTERS,
    MIN_CLUSTERS,
    ZERO_VARIANCE,
    ClusterSums,
    EffectiveSample,
    cluster_sums,
    effective_sample,
)
from core.inference.intervals import normal_quantile
from core.inference.prevalence import floor_status, youden_low
from core.instrument.calibrated import (
    Apparent,
    Calibrated,
    Calibration,
    Ceiling,
    CompositeCalibrated,
    DetectorCalibration,
    EffectiveCounts,
    GoldenSummary,
    PatternRates,
    Rates,
    SliceRates,
)
from core.instrument.golden_table import GoldenScores, GoldenTable, join
from core.instrument.holdout import fitting_half
from core.instrument.optimism import Optimism, bootstrap_optimism
from core.instrument.rated import raters_of, with_agreement
from core.instrument.resampling import Engine, RankedTable
from core.instrument.search import joint_thresholds
from core.instrument.spec import InstrumentSpec, JudgeIdentity, ThresholdSpec, settled
from core.instrument.strata import Stratum, bin_labels, bin_of, large_enough, negatives, positives, strata_of
from core.instrument.threshold import YoudenThreshold, swept_threshold, youden_threshold

SEVERAL = "several"

DECISION = 1.0
"""The threshold of a detector, whose decisions are 0 or 1: given, not chosen."""

MANY_UNDECIDABLE = 0.1
"""Share of golden traces without composite truth above which a reader is told what follows."""


def calibrate(
    golden: GoldenSet,
    scores: GoldenScores,
    spec: InstrumentSpec | None = None,
    *,
    judge: JudgeIdentity | None = None,
    judge_source: str = "assumed",
    judge_accepted: bool = False,
) -> tuple[Calibration, GoldenTable]:
    """Calibrate a judge on a golden set (SPEC 3-6), or a detector (SPEC 4.1).

    Parameters
    ----------
    golden : GoldenSet
    scores : GoldenScores
        With the golden set's categories, in their order; of a detector, its decisions of 0 and 1.
    spec : InstrumentSpec, optional
        Defaults apply without one.
    judge : JudgeIdentity, optional
    judge_source : str
        How the judge is known: ``scores``, ``ran``, ``assumed``.
    judge_accepted : bool
        The judge is not the instrument's, and the user takes it all the same.

    Returns
    -------
    calibration : Calibration
        A `DetectorCalibration` for an instrument of kind detections.
    table : GoldenTable
        The joined traces behind it.

    Raises
    ------
    InputError
        Ids that do not join, disagreeing clusters, no category with both classes, a slice column with more than 500
        values, or decisions that are neither 0 nor 1.
    UndefinedError
        An instrument of kind detections with thresholds to choose or optimism to correct.
    """
    spec = settled(spec or InstrumentSpec())
    table = join(golden, scores, allow_unmatched=spec.allow_unmatched)
    _check_slices(table, spec)
    _check_decisions(table, spec)
    work = _Work(table, spec)
    made = DetectorCalibration if spec.kind == "detections" else Calibration
    calibration = made(
        instrument=spec.name,
        judge=judge or spec.judge or JudgeIdentity(),
        judge_source=judge_source,
        judge_accepted=judge_accepted,
        calibration_source="golden_set",
        confidence_level=spec.confidence_level,
        detection_floor=spec.detection_floor,
        interval=spec.interval,
        turn_bins=spec.turn_bins,
        attempts=spec.attempts,
        turn_scope=spec.turn_scope,
        error_budget=spec.error_budget,
        seed=spec.seed,
        golden=_summary(golden, table, work),
        categories=with_agreement(work.categories, table, spec),
        composite=work.composite,
        slices={column: work.slice_rates(column) for column in spec.slices},
        golden_design=spec.golden_design,
        mix_robust=spec.mix_robust,
        notes=_notes(spec, work, judge if judge_accepted else None),
    )
    return calibration, table


def calibrated_judge(
    table: GoldenTable, spec: InstrumentSpec, engine: Engine = "auto"
) -> tuple[dict[str, Calibrated], CompositeCalibrated]:
    """Calibrate from labels beside scores alone: the numbers of `calibrate` without its records (SPEC 3-6).

    Looks at neither trace ids nor slices nor names of clusters, so a simulation may leave them empty. Made to be
    called thousands of times: thresholds come from `swept_threshold`, which a test holds equal to scikit-learn's.

    Parameters
    ----------
    table : GoldenTable
        Traces in a canonical order, clusters numbered as they come up: the resamples depend on both.
    spec : InstrumentSpec
        Its thresholds, optimism, turn bins, level, floor and seed.
    engine : {'auto', 'numpy', 'numba'}
        Who counts resamples; no figure depends on it. Thousands of small calibrations are worth ``numba``, which
        ``auto`` cannot know.

    Returns
    -------
    categories : dict of str to Calibrated
        In the table's order.
    composite : CompositeCalibrated

    Raises
    ------
    InputError
        No category has both classes.
    """
    work = _Work(table, settled(spec), swept_threshold, engine)
    return work.categories, work.composite


def _notes(spec: InstrumentSpec, work: _Work, accepted: JudgeIdentity | None) -> tuple[str, ...]:
    notes = []
    if spec.optimism.method == "none" and spec.kind == "scores":
        notes.append("optimism not corrected: sensitivity and specificity are apparent")
    if work.split:
        notes.append(f"holdout: {work.part(work.fits)} chose the thresholds, {work.part(work.measures)} measured them")
    notes += _threshold_notes(spec.thresholds, work)
    if accepted is not None:
        notes.append(f"calibrated with {accepted}, the instrument declares {spec.judge}: accepted by the user")
    n_undecidable, n_traces = int((work.truth == -1).sum()), len(work.truth)
    if work.spanned and n_undecidable > MANY_UNDECIDABLE * n_traces:
        notes.append(
            f"{n_undecidable} of {n_traces} golden traces have no composite truth (a label is missing and none is 1): "
            "the composite is calibrated on the rest, and is biased if labels are not missing at random"
        )
    return tuple(notes)


def _threshold_notes(thresholds: ThresholdSpec, work: _Work) -> list[str]:
    if thresholds.objective == "youden" or not work.spanned:
        return []
    if not work.together:
        why = "of the traces that choose them none, or all, are positive for the composite"
        return [f"thresholds: each category's own, not {thresholds.objective}: {why}"]
    aim = "composite's J"
    if thresholds.specificity_floor is not None:
        aim = f"composite's sensitivity while its specificity is {thresholds.specificity_floor:g} or more"
    notes = [f"thresholds chosen together ({thresholds.objective}), to raise the {aim}"]
    if work.spec.optimism.method == "bootstrap":
        notes.append(
            "the bootstrap takes off only a part of the optimism of thresholds chosen together (SPEC 6.1): sensitivity "
            "and specificity are still somewhat high; 'optimism: {method: holdout}' leaves none"
        )
    return notes


def _check_slices(table: GoldenTable, spec: InstrumentSpec) -> None:
    for column in spec.slices:
        n_values = len(set(table.slices[column]))
        if n_values > MAX_SLICE_VALUES:
            raise InputError.of(
                "golden set",
                (f"slice column {column!r} has {n_values} different values; at most {MAX_SLICE_VALUES} make slices"),
            )


def _check_decisions(table: GoldenTable, spec: InstrumentSpec) -> None:
    given = table.maxima[~table.missing]
    if spec.kind == "detections" and not np.isin(given, (0.0, DECISION)).all():
        raise InputError.of(
            f"instrument {spec.name!r}", "is of kind detections, and a detection is 0 or 1; scores need kind: scores"
        )


def _summary(golden: GoldenSet, table: GoldenTable, work: _Work) -> GoldenSummary:
    labels = bin_labels(work.spec.turn_bins)
    return GoldenSummary(
        n_traces=len(table.trace_ids),
        n_undecidable=int((work.truth == -1).sum()),
        n_unmatched=table.n_unmatched,
        n_duplicates=golden.n_duplicates,
        n_clusters=len(np.unique(table.clusters)),
        sha256=golden.sha256,
        turns={labels[b]: int(n) for b, n in enumerate(np.bincount(work.bins)) if n},
        raters=raters_of(table.votes),
    )


class _Work:
    """One calibration in progress: thresholds first, then the composite on them, then the honest figures."""

    def __init__(
        self,
        table: GoldenTable,
        spec: InstrumentSpec,
        youden: Callable[[Floats, Ints], YoudenThreshold] = youden_threshold,
        engine: Engine = "auto",
    ) -> None:
        self.table, self.spec, self.engine = table, spec, engine
        self.bins = bin_of(table.n_turns, spec.turn_bins)
        self.labels = np.where(table.missing, -1, table.labels)
        self.split = spec.optimism.method == "holdout"
        self.fits = np.ones(len(table.labels), bool)
        self.measures = self.fits
        if self.split:
            positive = (table.labels == 1).any(axis=1)
            self.fits = fitting_half(table.clusters, positive, np.random.default_rng(spec.seed))
            self.measures = ~self.fits
        self.reasons = [self._unfit(c) for c in range(len(table.categories))]
        if all(self.reasons):
            raise InputError.of("golden set", "no category can be calibrated: " + "; ".join(map(str, self.reasons)))
        self.thresholds = [None if reason else self._own(c, youden) for c, reason in enumerate(self.reasons)]
        self.spanned = [c for c, threshold in enumerate(self.thresholds) if threshold is not None]
        self.truth = self._composite_truth()
        self.scored_truth = np.where(table.missing[:, self.spanned].any(axis=1), -1, self.truth)
        self.together = spec.thresholds.objective != "youden" and self._choose_together()
        self.flagged = np.zeros(table.maxima.shape, bool)
        for c, threshold in enumerate(self.thresholds):
            if threshold is not None:
                self.flagged[:, c] = table.maxima[:, c] >= threshold
        self.flagged_any: Bools = np.asarray(self.flagged[:, self.spanned].any(axis=1))
        by_category, of_composite = self._optimism()
        self.categories = {name: self._category(c, by_category.get(c)) for c, name in enumerate(table.categories)}
        self.composite = self._composite(of_composite)

    def _unfit(self, c: int) -> str | None:
        """Why a category cannot be calibrated."""
        halves = ((self.fits, " in the half that chooses the threshold"), (self.measures, " in the half that measures"))
        for members, where in halves if self.split else ((self.fits, ""),):
            n_positive, n_negative = _classes(self.labels[members, c])
            if not (n_positive and n_negative):
                name = self.table.categories[c]
                return f"{name} has {n_positive} positive and {n_negative} negative labelled and scored traces{where}"
        return None

    def _own(self, c: int, youden: Callable[[Floats, Ints], YoudenThreshold]) -> float | None:
        if self.spec.kind == "detections":
            return DECISION
        used = self.fits & (self.labels[:, c] >= 0)
        return youden(self.table.maxima[used, c], self.labels[used, c]).threshold

    def _composite_truth(self) -> Ints:
        """Truth over the spanned categories; without any, over those that have both classes."""
        labels = self.table.labels
        both = (labels == 1).any(axis=0) & (labels == 0).any(axis=0)
        return composite_truth(labels[:, self.spanned or np.flatnonzero(both)])

    def _resampled(self, members: Bools) -> tuple[Floats, Ints, Ints, Ints]:
        """Scores, labels, composite truth and clusters of the spanned categories."""
        maxima = np.where(self.table.missing, -1.0, self.table.maxima)[:, self.spanned]
        return (
            maxima[members], self.labels[:, self.spanned][members], self.scored_truth[members],
            self.table.clusters[members],
        )  # fmt: skip

    def _choose_together(self) -> bool:
        """Replace the categories' own thresholds by ones that serve the composite; False where that cannot be."""
        own = [threshold for threshold in self.thresholds if threshold is not None]
        if not own:
            return False
        found = joint_thresholds(RankedTable.of(*self._resampled(self.fits)), self.spec.thresholds, own)
        for c, threshold in zip(self.spanned, found or own, strict=True):
            self.thresholds[c] = threshold
        return found is not None

    def _optimism(self) -> tuple[dict[int, Optimism], Optimism | None]:
        if self.spec.optimism.method != "bootstrap" or not self.spanned:
            return {}, None
        by_category, composite = bootstrap_optimism(
            *self._resampled(self.measures),
            resamples=self.spec.optimism.resamples,
            rng=np.random.default_rng(self.spec.seed),
            engine=self.engine,
            thresholds=self.spec.thresholds if self.together else None,
        )
        return dict(zip(self.spanned, by_category, strict=True)), composite

    def _category(self, c: int, optimism: Optimism | None) -> Calibrated:
        unscored = self.measures & (self.table.labels[:, c] >= 0) & self.table.missing[:, c]
        labels, n_unscored, threshold = self.labels[:, c], int(unscored.sum()), self.thresholds[c]
        if self.reasons[c] is not None:
            n_positive, n_negative = _classes(labels[self.measures])
            return Calibrated(
                status="not_calibrated",
                n_positive=n_positive,
                n_negative=n_negative,
                n_unscored=n_unscored,
                notes=(f"not calibrated: {self.reasons[c]}",),
            )
        figures = self._figures(labels, self.flagged[:, c], optimism, threshold=threshold)
        return Calibrated(threshold=threshold, n_unscored=n_unscored, **figures)

    def _composite(self, optimism: Optimism | None) -> CompositeCalibrated:
        names = self.table.categories
        spanned = tuple(names[c] for c in self.spanned)
        left_out = tuple(name for name in names if name not in spanned)
        n_positive, n_negative = _classes(self.scored_truth[self.measures])
        n_unscored = int((self.measures & (self.truth >= 0) & (self.scored_truth < 0)).sum())
        fitted = _classes(self.scored_truth[self.fits])
        if not spanned or not (n_positive and n_negative and all(fitted)):
            why = (
                f"{n_positive} positive and {n_negative} negative decidable traces"
                if spanned
                else "no category has a threshold that beats chance"
            )
            if spanned and self.split:
                why += f" measure, {fitted[0]} positive and {fitted[1]} negative ones chose the thresholds"
            return CompositeCalibrated(
                status="not_calibrated" if spanned else "below_detection_floor",
                n_positive=n_positive, n_negative=n_negative, n_unscored=n_unscored,
                categories=spanned, left_out=left_out, notes=(f"composite without figures: {why}",),
            )  # fmt: skip
        figures = self._figures(self.scored_truth, self.flagged_any, optimism, threshold=None, spans=True)
        negatives = [(self.categories[name].true_negatives, self.categories[name].n_negative) for name in spanned]
        specificities = [passed / n for passed, n in negatives if passed is not None]
        figures["notes"] += self._floor_notes(figures["apparent"])
        return CompositeCalibrated(
            n_unscored=n_unscored,
            categories=spanned,
            left_out=left_out,
            ceiling=Ceiling(
                minimum=min(specificities),
                product=float(np.prod(specificities)),
                measured=figures["true_negatives"] / figures["n_negative"],
            ),
            by_pattern=self._patterns(),
            **figures,
        )

    def _figures(
        self,
        truth: Ints,
        flagged: Bools,
        optimism: Optimism | None,
        *,
        threshold: float | None,
        spans: bool = False,
    ) -> dict[str, Any]:
        """All figures of a category or the composite from its truth and decisions."""
        fitted = _rates(truth[self.fits], flagged[self.fits]) if self.split else None
        if self.split:
            truth = np.where(self.measures, truth, -1)
        used, rates = truth >= 0, _rates(truth, flagged)
        apparent = _apparent(fitted or rates, threshold)
        if rates.sensitivity is None or rates.specificity is None:
            raise UndefinedError("labels", "one class", "both classes must occur")
        positive, negative = (
            self._effective(np.asarray(truth == value), np.asarray(flagged != bool(value))) for value in (1, 0)
        )
        decides = spans or threshold is not None
        off = optimism if optimism is not None and decides else Optimism()
        sensitivity = min(max(rates.sensitivity - off.sensitivity, 0.0), 1.0)
        specificity = min(max(rates.specificity - off.specificity, 0.0), 1.0)
        low = youden_low(
            sensitivity, positive.n_effective, specificity, negative.n_effective,
            z=normal_quantile(self.spec.confidence_level),
        ) if min(positive.n_effective, negative.n_effective) > 0 else -1.0  # fmt: skip
        youden_j = sensitivity + specificity - 1.0
        enough, notes = _enough(positive, negative)
        strata = strata_of(self.bins[used], truth[used], flagged[used], self.spec.turn_bins)
        status = floor_status(youden_j, low, self.spec.detection_floor) if enough else "insufficient_data"
        return {
            "status": status,
            "n_positive": rates.n_positive,
            "n_negative": rates.n_negative,
            "true_positives": rates.true_positives,
            "true_negatives": rates.true_negatives,
            "sensitivity": sensitivity,
            "specificity": specificity,
            "youden_j": youden_j,
            "youden_j_low": low,
            "effective": EffectiveCounts(
                n_positive=positive.n_effective,
                n_negative=negative.n_effective,
                positive_clusters=positive.n_clusters,
                negative_clusters=negative.n_clusters,
                positive_design_effect=positive.design_effect,
                negative_design_effect=negative.design_effect,
                positive_t_factor=positive.t_factor,
                negative_t_factor=negative.t_factor,
                clustered=positive.clustered or negative.clustered,
            ),
            "apparent": apparent,
            "optimism": optimism if decides else None,
            "by_turns": strata,
            "notes": (*notes, *_optimism_notes(off), *_merge_notes(strata)),
        }

    def _effective(self, members: Bools, wrong: Bools) -> EffectiveSample:
        """Effective size of one class; its events are the judge's errors."""
        codes = self.table.clusters[members]
        clustered = self.table.clustered and bool(len(codes)) and bool(np.bincount(codes).max() > 1)
        errors = wrong[members]
        if clustered:
            sums = cluster_sums(codes, errors.astype(np.int64))
        else:
            sums = ClusterSums.of_independent(len(codes), int(np.count_nonzero(errors)))
        return effective_sample(
            sums,
            clustered=clustered,
            confidence_level=self.spec.confidence_level,
        )

    def _floor_notes(self, apparent: Apparent) -> tuple[str, ...]:
        """Say where the thresholds do not keep the composite's specificity above its floor."""
        floor = self.spec.thresholds.specificity_floor
        if floor is None or not self.together or apparent.specificity >= floor:
            return ()
        found = f"these have {apparent.specificity:.3f} on the traces that chose them"
        return (f"no thresholds were found with a composite specificity of {floor:g} or more: {found}",)

    def _patterns(self) -> dict[str, PatternRates]:
        positive_labels = self.table.labels[:, self.spanned] == 1
        positive = (self.scored_truth == 1) & self.measures
        several = positive & (positive_labels.sum(axis=1) > 1)
        members = {
            self.table.categories[c]: positive & positive_labels[:, i] & ~several for i, c in enumerate(self.spanned)
        }
        return {
            name: PatternRates(
                n_positive=int(inside.sum()),
                true_positives=int((inside & self.flagged_any).sum()),
                sensitivity=float(self.flagged_any[inside].mean()),
            )
            for name, inside in {**members, SEVERAL: several}.items()
            if inside.any()
        }

    def part(self, members: Bools) -> str:
        """Say how large a part of the golden set is."""
        traces = counted(int(members.sum()), "trace")
        if not self.table.clustered:
            return traces
        return f"{traces} in {counted(len(np.unique(self.table.clusters[members])), 'cluster')}"

    def slice_rates(self, column: str) -> dict[str, SliceRates]:
        """Rates within each value of a slice column; traces without a value belong to no slice."""
        values = np.array([value or "" for value in self.table.slices[column]])
        return {str(value): self._slice((values == value) & self.measures) for value in np.unique(values) if value}

    def _slice(self, members: Bools) -> SliceRates:
        return SliceRates(
            n_traces=int(members.sum()),
            categories={
                self.table.categories[c]: _rates(self.labels[members, c], self.flagged[members, c])
                for c in self.spanned
            },
            composite=_rates(self.scored_truth[members], self.flagged_any[members]),
        )


def _classes(labels: Ints) -> tuple[int, int]:
    """How many positives and negatives there are."""
    return int(np.count_nonzero(labels == 1)), int(np.count_nonzero(labels == 0))


def _apparent(rates: Rates, threshold: float | None) -> Apparent:
    if rates.sensitivity is None or rates.specificity is None:
        raise UndefinedError("labels", "one class", "both classes must occur")
    return Apparent(
        threshold=threshold,
        sensitivity=rates.sensitivity,
        specificity=rates.specificity,
        youden_j=rates.sensitivity + rates.specificity - 1.0,
    )


def _rates(truth: Ints, flagged: npt.NDArray[np.bool_]) -> Rates:
    n_positive, n_negative = _classes(truth)
    hits, passes = int(np.count_nonzero(flagged & (truth == 1))), int(np.count_nonzero(~flagged & (truth == 0)))
    return Rates(
        n_positive=n_positive,
        true_positives=hits,
        sensitivity=hits / n_positive if n_positive else None,
        n_negative=n_negative,
        true_negatives=passes,
        specificity=passes / n_negative if n_negative else None,
    )


def _enough(positive: EffectiveSample, negative: EffectiveSample) -> tuple[bool, list[str]]:
    notes, enough = [], True
    for name, sample in (("positive", positive), ("negative", negative)):
        found = counted(sample.n_clusters, f"{name} {'cluster' if sample.clustered else 'trace'}")
        if sample.n_clusters < MIN_CLUSTERS:
            enough = False
            notes.append(f"insufficient data: {found}; at least {MIN_CLUSTERS} are needed")
        elif sample.n_clusters < FEW_CLUSTERS:
            notes.append(f"only {found}: under {FEW_CLUSTERS} the interval may be too narrow")
        if ZERO_VARIANCE in sample.notes:
            notes.append(
                f"all {name} traces are judged alike: they count as {sample.n_clusters} independent traces, "
                "one a cluster"
            )
        if DESIGN_EFFECT_FLOOR in sample.notes:
            notes.append(
                f"errors among {name} traces sit in few clusters: design effect floored at {sample.design_effect:.2f}"
            )
    return enough, notes


def _optimism_notes(optimism: Optimism) -> list[str]:
    skipped = optimism.resamples - optimism.used
    return [f"{skipped} of {optimism.resamples} resamples lacked a class and were skipped"] if skipped else []


def _merge_notes(strata: Sequence[Stratum]) -> list[str]:
    return [
        f"turn counts {stratum.turns} are one stratum of {name} traces: one alone has under 10 of them"
        for name, size in (("positive", positives), ("negative", negatives))
        for stratum in large_enough(strata, size)
        if len(stratum.bins) > 1
    ]
