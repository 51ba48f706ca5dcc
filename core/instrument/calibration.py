"""Calibration (SPEC 3-6): from a golden set and a judge's scores to an instrument with known error rates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from core.data.columns import Bools, Floats, Ints
from core.data.golden import MAX_SLICE_VALUES, GoldenSet, composite_truth
from core.errors import InputError, UndefinedError
from core.inference.clusters import (
    DESIGN_EFFECT_FLOOR,
    FEW_CLUSTERS,
    ZERO_VARIANCE,
    EffectiveSample,
    cluster_sums,
    effective_sample,
)
from core.inference.intervals import normal_quantile
from core.inference.prevalence import floor_status, youden_low
from core.instrument.optimism import Optimism, bootstrap_optimism
from core.instrument.spec import DeclaredRates, DeclaredSpec, InstrumentSpec, JudgeIdentity
from core.instrument.strata import Stratum, bin_labels, bin_of, strata_of
from core.instrument.threshold import YoudenThreshold, youden_threshold

MIN_CLUSTERS = 5
"""Fewer clusters (traces, without clusters) of a class than this are no evidence (STATISTICS decision 5)."""

SEVERAL = "several"

Status = Literal["measured", "inconclusive", "below_detection_floor", "insufficient_data", "not_calibrated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Apparent:
    """The judge as it looks on the traces that chose its threshold: the papers' literal figures."""

    threshold: float | None
    sensitivity: float
    specificity: float
    youden_j: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveCounts:
    """What the golden traces of each class are worth in independent traces, with the reasons."""

    n_positive: float
    n_negative: float
    positive_clusters: int
    negative_clusters: int
    positive_design_effect: float = 1.0
    negative_design_effect: float = 1.0
    clustered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """The instrument for one category, or for the composite.

    Attributes
    ----------
    status : str
        ``not_calibrated`` has no figures but the counts; the others have all.
    threshold : float or None
        In [0, 1]; None for the composite, and where no threshold beats chance.
    n_positive, n_negative, true_positives, true_negatives : int or None
        Golden counts at the deployed threshold, before the optimism correction; the true ones are None in a
        declared calibration.
    n_unscored : int
        Labelled golden traces that the judge did not score at every turn: left out.
    sensitivity, specificity, youden_j : float or None
        After the optimism correction: what to expect of the deployed threshold on new traces.
    youden_j_low : float or None
        Lower confidence bound of `youden_j` (MOVER, SPEC 6).
    effective : EffectiveCounts or None
    apparent : Apparent or None
    optimism : Optimism or None
    by_turns : tuple of Stratum or None
        None in a declared calibration: no weighting to turn counts is possible.
    notes : tuple of str
        What a reader has to know, in words.
    """

    status: Status
    threshold: float | None = None
    n_positive: int = 0
    n_negative: int = 0
    true_positives: int | None = None
    true_negatives: int | None = None
    n_unscored: int = 0
    sensitivity: float | None = None
    specificity: float | None = None
    youden_j: float | None = None
    youden_j_low: float | None = None
    effective: EffectiveCounts | None = None
    apparent: Apparent | None = None
    optimism: Optimism | None = None
    by_turns: tuple[Stratum, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Counts and apparent rates in a part of the golden set; a rate without traces is None."""

    n_positive: int
    true_positives: int
    sensitivity: float | None
    n_negative: int
    true_negatives: int
    specificity: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The ceiling effect: apparent specificity of the composite beside what categories alone would suggest."""

    minimum: float
    product: float
    measured: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PatternRates:
    """Composite sensitivity over the golden traces with one label pattern."""

    n_positive: int
    true_positives: int
    sensitivity: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeCalibrated(Calibrated):
    """The instrument for the composite: any of the categories with a finite threshold.

    Attributes
    ----------
    categories : tuple of str
        Those the composite spans; bit i of a decision mask is the i-th of them.
    left_out : tuple of str
        Categories without a finite threshold.
    ceiling : Ceiling or None
    by_pattern : mapping
        Composite sensitivity for positives of one single category, and of ``several``.
    """

    categories: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    ceiling: Ceiling | None = None
    by_pattern: Mapping[str, PatternRates] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRates:
    """Rates within one value of a slice column."""

    n_traces: int
    categories: Mapping[str, Rates]
    composite: Rates


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenSummary:
    """What the calibration was made from."""

    n_traces: int
    n_undecidable: int
    n_unmatched: int
    n_duplicates: int
    n_clusters: int
    sha256: str
    turns: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """A calibrated instrument: the result of `calibrate`."""

    instrument: str
    judge: JudgeIdentity
    judge_source: str
    calibration_source: Literal["golden_set", "simulated", "declared", "none"]
    confidence_level: float
    detection_floor: float
    interval: str
    turn_bins: tuple[int, ...]
    golden: GoldenSummary | None
    categories: Mapping[str, Calibrated]
    composite: CompositeCalibrated
    slices: Mapping[str, Mapping[str, SliceRates]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenScores:
    """The judge's scores on golden traces, collapsed over turns, in the order of the trace ids.

    Attributes
    ----------
    trace_ids : tuple of str
    n_turns : int64 array of shape (n_traces,)
    maxima : float64 array of shape (n_traces, n_categories)
        In the order of the golden set's categories; meaningless where missing.
    missing : bool array of shape (n_traces, n_categories)
    clusters : tuple of (str or None) or None
    n_rows : int
    """

    trace_ids: tuple[str, ...]
    n_turns: Ints
    maxima: Floats
    missing: Bools
    clusters: tuple[str | None, ...] | None = None
    n_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenTable:
    """Labels and scores of the traces that have both; what calibration works on and `golden_maxima` stores."""

    trace_ids: tuple[str, ...]
    categories: tuple[str, ...]
    labels: Ints
    maxima: Floats
    missing: Bools
    n_turns: Ints
    cluster_names: tuple[str, ...] | None
    clusters: Ints
    clustered: bool
    slices: Mapping[str, tuple[str | None, ...]]
    n_unmatched: int


def join(golden: GoldenSet, scores: GoldenScores, *, allow_unmatched: bool, where: str = "golden set") -> GoldenTable:
    """Join labels and scores by trace id.

    Raises
    ------
    InputError
        Ids that stand in one table only (unless allowed), no common id, or traces whose clusters disagree.
    """
    row_of = {trace: i for i, trace in enumerate(scores.trace_ids)}
    both = [i for i, trace in enumerate(golden.trace_ids) if trace in row_of]
    labelled_only = [trace for trace in golden.trace_ids if trace not in row_of]
    known = set(golden.trace_ids)
    scored_only = [trace for trace in scores.trace_ids if trace not in known]
    _check_joined(both, labelled_only, scored_only, allow_unmatched, where)
    rows = np.array([row_of[golden.trace_ids[i]] for i in both], np.int64)
    ids = tuple(golden.trace_ids[i] for i in both)
    names = _clusters(golden, scores, both, rows, where)
    codes = _cluster_codes(names or [None] * len(ids))
    return GoldenTable(
        trace_ids=ids,
        categories=golden.categories,
        labels=golden.labels[both],
        maxima=scores.maxima[rows],
        missing=scores.missing[rows],
        n_turns=scores.n_turns[rows],
        cluster_names=None if names is None else tuple(name or "" for name in names),
        clusters=codes,
        clustered=bool(np.bincount(codes).max() > 1),
        slices={name: tuple(values[i] for i in both) for name, values in golden.slices.items()},
        n_unmatched=len(labelled_only) + len(scored_only),
    )


def _cluster_codes(names: Sequence[str | None]) -> Ints:
    """Number the clusters as the sorted traces bring them up, so that their names do not steer the resampling."""
    code_of: dict[str | int, int] = {}
    keys = [name or i for i, name in enumerate(names)]
    return np.array([code_of.setdefault(key, len(code_of)) for key in keys], np.int64)


def _check_joined(
    both: Sequence[int], labelled: Sequence[str], scored: Sequence[str], allowed: bool, where: str
) -> None:
    if allowed and both:
        return
    messages = []
    for ids, text in (
        (labelled, "labelled trace(s) have no score"),
        (scored, "scored trace(s) have no label"),
    ):
        if ids:
            shown = ", ".join(repr(item) for item in ids[:5]) + (", ..." if len(ids) > 5 else "")
            messages.append(f"{len(ids)} {text}: {shown}")
    if not both:
        messages.append("no trace id stands in both tables")
    if messages:
        hint = "trace ids have to match; 'allow_unmatched: true' in the instrument leaves the others out"
        raise InputError.of(where, "; ".join([*messages, hint]))


def _clusters(
    golden: GoldenSet, scores: GoldenScores, both: Sequence[int], rows: Ints, where: str
) -> list[str | None] | None:
    ours = None if golden.clusters is None else [golden.clusters[i] for i in both]
    theirs = None if scores.clusters is None else [scores.clusters[i] for i in rows]
    if ours is None or theirs is None:
        return ours if theirs is None else theirs
    wrong = [golden.trace_ids[i] for i, a, b in zip(both, ours, theirs, strict=True) if a and b and a != b]
    if wrong:
        raise InputError.of(
            where,
            (
                f"{len(wrong)} trace(s) have one cluster in the golden set and another in the scores "
                f"(first: {wrong[0]!r}); a trace has one cluster"
            ),
        )
    return [a or b for a, b in zip(ours, theirs, strict=True)]


def calibrate(
    golden: GoldenSet,
    scores: GoldenScores,
    spec: InstrumentSpec | None = None,
    *,
    judge: JudgeIdentity | None = None,
    judge_source: str = "assumed",
) -> tuple[Calibration, GoldenTable]:
    """Calibrate a judge on a golden set (SPEC 3-6).

    Parameters
    ----------
    golden : GoldenSet
    scores : GoldenScores
        With the golden set's categories, in their order.
    spec : InstrumentSpec, optional
        Defaults apply without one.
    judge : JudgeIdentity, optional
    judge_source : str
        How the judge is known: ``scores``, ``ran``, ``assumed``.

    Returns
    -------
    calibration : Calibration
    table : GoldenTable
        The joined traces behind it.

    Raises
    ------
    InputError
        Ids that do not join, disagreeing clusters, no category with both classes, or a slice column with more
        than 500 values.
    """
    spec = spec or InstrumentSpec()
    table = join(golden, scores, allow_unmatched=spec.allow_unmatched)
    _check_slices(table, spec)
    work = _Work(table, spec)
    calibration = Calibration(
        instrument=spec.name,
        judge=judge or spec.judge or JudgeIdentity(),
        judge_source=judge_source,
        calibration_source="golden_set",
        confidence_level=spec.confidence_level,
        detection_floor=spec.detection_floor,
        interval=spec.interval,
        turn_bins=spec.turn_bins,
        golden=_summary(golden, table, work),
        categories=work.categories,
        composite=work.composite,
        slices={column: work.slice_rates(column) for column in spec.slices},
        notes=_notes(spec),
    )
    return calibration, table


def _notes(spec: InstrumentSpec) -> tuple[str, ...]:
    if spec.optimism.method == "none":
        return ("optimism not corrected: sensitivity and specificity are apparent",)
    return ()


def _check_slices(table: GoldenTable, spec: InstrumentSpec) -> None:
    for column in spec.slices:
        n_values = len(set(table.slices[column]))
        if n_values > MAX_SLICE_VALUES:
            raise InputError.of(
                "golden set",
                (f"slice column {column!r} has {n_values} different values; at most {MAX_SLICE_VALUES} make slices"),
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
    )


class _Work:
    """One calibration in progress: thresholds first, then the composite on them, then the honest figures."""

    def __init__(self, table: GoldenTable, spec: InstrumentSpec) -> None:
        self.table, self.spec = table, spec
        self.bins = bin_of(table.n_turns, spec.turn_bins)
        self.labels = np.where(table.missing, -1, table.labels)
        fits = [self._fit(c) for c in range(len(table.categories))]
        if all(isinstance(fit, str) for fit in fits):
            raise InputError.of("golden set", "no category can be calibrated: " + "; ".join(map(str, fits)))
        thresholds = [None if isinstance(fit, str) else fit.threshold for fit in fits]
        self.spanned = [c for c, threshold in enumerate(thresholds) if threshold is not None]
        self.flagged = np.zeros(table.maxima.shape, bool)
        for c, threshold in enumerate(thresholds):
            if threshold is not None:
                self.flagged[:, c] = table.maxima[:, c] >= threshold
        self.flagged_any: Bools = np.asarray(self.flagged[:, self.spanned].any(axis=1))
        self.truth = self._composite_truth()
        self.scored_truth = np.where(table.missing[:, self.spanned].any(axis=1), -1, self.truth)
        by_category, of_composite = self._optimism()
        self.categories = {
            name: self._category(c, fit, by_category.get(c))
            for c, (name, fit) in enumerate(zip(table.categories, fits, strict=True))
        }
        self.composite = self._composite(of_composite)

    def _fit(self, c: int) -> YoudenThreshold | str:
        labels = self.labels[:, c]
        used = labels >= 0
        name = self.table.categories[c]
        n_positive, n_negative = int((labels == 1).sum()), int((labels == 0).sum())
        if not (n_positive and n_negative):
            return f"{name} has {n_positive} positive and {n_negative} negative labelled and scored traces"
        return youden_threshold(self.table.maxima[used, c], labels[used])

    def _composite_truth(self) -> Ints:
        if not self.spanned:
            return np.full(len(self.table.trace_ids), -1, np.int64)
        return composite_truth(self.table.labels[:, self.spanned])

    def _optimism(self) -> tuple[dict[int, Optimism], Optimism | None]:
        if self.spec.optimism.method == "none" or not self.spanned:
            return {}, None
        by_category, composite = bootstrap_optimism(
            np.where(self.table.missing, -1.0, self.table.maxima)[:, self.spanned],
            self.labels[:, self.spanned],
            self.scored_truth,
            self.table.clusters,
            resamples=self.spec.optimism.resamples,
            rng=np.random.default_rng(self.spec.seed),
        )
        return dict(zip(self.spanned, by_category, strict=True)), composite

    def _category(self, c: int, fit: YoudenThreshold | str, optimism: Optimism | None) -> Calibrated:
        n_unscored = int(((self.table.labels[:, c] >= 0) & self.table.missing[:, c]).sum())
        labels = self.labels[:, c]
        if isinstance(fit, str):
            return Calibrated(
                status="not_calibrated",
                n_positive=int((labels == 1).sum()),
                n_negative=int((labels == 0).sum()),
                n_unscored=n_unscored,
                notes=(f"not calibrated: {fit}",),
            )
        figures = self._figures(labels, self.flagged[:, c], optimism, threshold=fit.threshold)
        return Calibrated(threshold=fit.threshold, n_unscored=n_unscored, **figures)

    def _composite(self, optimism: Optimism | None) -> CompositeCalibrated:
        names = self.table.categories
        spanned = tuple(names[c] for c in self.spanned)
        left_out = tuple(name for name in names if name not in spanned)
        n_positive, n_negative = int((self.scored_truth == 1).sum()), int((self.scored_truth == 0).sum())
        n_unscored = int(((self.truth >= 0) & (self.scored_truth < 0)).sum())
        if not spanned or not (n_positive and n_negative):
            why = (
                f"{n_positive} positive and {n_negative} negative decidable traces"
                if spanned
                else "no category has a threshold that beats chance"
            )
            return CompositeCalibrated(
                status="not_calibrated" if spanned else "below_detection_floor",
                n_positive=n_positive, n_negative=n_negative, n_unscored=n_unscored,
                categories=spanned, left_out=left_out, notes=(f"composite without figures: {why}",),
            )  # fmt: skip
        figures = self._figures(self.scored_truth, self.flagged_any, optimism, threshold=None, spans=True)
        specificities = [apparent.specificity for name in spanned if (apparent := self.categories[name].apparent)]
        return CompositeCalibrated(
            n_unscored=n_unscored,
            categories=spanned,
            left_out=left_out,
            ceiling=Ceiling(
                minimum=min(specificities),
                product=float(np.prod(specificities)),
                measured=figures["apparent"].specificity,
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
        used = truth >= 0
        rates = _rates(truth[used], flagged[used])
        if rates.sensitivity is None or rates.specificity is None:
            raise UndefinedError("labels", "one class", "both classes must occur")
        apparent = Apparent(
            threshold=threshold,
            sensitivity=rates.sensitivity,
            specificity=rates.specificity,
            youden_j=rates.sensitivity + rates.specificity - 1.0,
        )
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
        clustered = bool(len(codes)) and bool(np.bincount(codes).max() > 1)
        return effective_sample(
            cluster_sums(codes, wrong[members].astype(np.int64)),
            clustered=clustered,
            confidence_level=self.spec.confidence_level,
        )

    def _patterns(self) -> dict[str, PatternRates]:
        positive_labels = self.table.labels[:, self.spanned] == 1
        positive = self.scored_truth == 1
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

    def slice_rates(self, column: str) -> dict[str, SliceRates]:
        """Rates within each value of a slice column; traces without a value belong to no slice."""
        values = np.array([value or "" for value in self.table.slices[column]])
        return {
            str(value): SliceRates(
                n_traces=int((values == value).sum()),
                categories={
                    self.table.categories[c]: _rates(self.labels[values == value, c], self.flagged[values == value, c])
                    for c in self.spanned
                },
                composite=_rates(self.scored_truth[values == value], self.flagged_any[values == value]),
            )
            for value in np.unique(values)
            if value
        }


def _rates(truth: Ints, flagged: npt.NDArray[np.bool_]) -> Rates:
    n_positive, n_negative = int((truth == 1).sum()), int((truth == 0).sum())
    hits, passes = int(((truth == 1) & flagged).sum()), int(((truth == 0) & ~flagged).sum())
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
        unit = "clusters" if sample.clustered else "traces"
        if sample.n_clusters < MIN_CLUSTERS:
            enough = False
            notes.append(f"insufficient data: {sample.n_clusters} {name} {unit}; at least {MIN_CLUSTERS} are needed")
        elif sample.n_clusters < FEW_CLUSTERS:
            notes.append(f"only {sample.n_clusters} {name} {unit}: under {FEW_CLUSTERS} the interval may be too narrow")
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
        f"turn counts {stratum.turns} are one stratum: one alone has under 10 golden traces of a class"
        for stratum in strata
        if len(stratum.bins) > 1
    ]


def declared_calibration(spec: DeclaredSpec) -> Calibration:
    """Build an instrument from declared rates: no golden set, no optimism correction, no turn strata."""
    categories = {name: Calibrated(**_declared(rates, spec)) for name, rates in spec.categories.items()}
    names = tuple(categories)
    if spec.composite is None:
        composite = CompositeCalibrated(
            status="not_calibrated",
            categories=names,
            notes=("not calibrated: its sensitivity and specificity are not declared; categories do not give them",),
        )
    else:
        composite = CompositeCalibrated(categories=names, **_declared(spec.composite, spec))
    return Calibration(
        instrument=spec.name,
        judge=spec.judge,
        judge_source="declared",
        calibration_source="declared",
        confidence_level=spec.confidence_level,
        detection_floor=spec.detection_floor,
        interval=spec.interval,
        turn_bins=(),
        golden=None,
        categories=categories,
        composite=composite,
        slices={},
        notes=("declared, not measured here: no weighting to turn counts is possible",),
    )


def _declared(rates: DeclaredRates, spec: DeclaredSpec) -> dict[str, Any]:
    youden_j = rates.sensitivity + rates.specificity - 1.0
    low = youden_low(
        rates.sensitivity, rates.n_positive, rates.specificity, rates.n_negative,
        z=normal_quantile(spec.confidence_level),
    )  # fmt: skip
    enough = min(rates.n_positive, rates.n_negative) >= MIN_CLUSTERS
    return {
        "status": floor_status(youden_j, low, spec.detection_floor) if enough else "insufficient_data",
        "threshold": rates.threshold,
        "n_positive": rates.n_positive,
        "n_negative": rates.n_negative,
        "sensitivity": rates.sensitivity,
        "specificity": rates.specificity,
        "youden_j": youden_j,
        "youden_j_low": low,
        "effective": EffectiveCounts(
            n_positive=float(rates.n_positive),
            n_negative=float(rates.n_negative),
            positive_clusters=rates.n_positive,
            negative_clusters=rates.n_negative,
        ),
        "apparent": Apparent(
            threshold=rates.threshold,
            sensitivity=rates.sensitivity,
            specificity=rates.specificity,
            youden_j=youden_j,
        ),
        "notes": (f"declared: {rates.source}",),
    }


def deployable(calibration: Calibration) -> tuple[str, ...]:
    """Return the categories that a measurement flags, in bit order.

    Raises
    ------
    UndefinedError
        No category has a finite threshold: there is nothing to measure with.
    """
    if not calibration.composite.categories:
        raise UndefinedError(
            "calibration", calibration.instrument,
            "no category has a threshold that beats chance, so nothing can be measured with it",
        )  # fmt: skip
    return calibration.composite.categories
