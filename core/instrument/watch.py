"""Is the judge still the one that was calibrated? Its answers on anchors, now and then (SPEC 18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from core.inference.clusters import MIN_CLUSTERS
from core.inference.intervals import normal_quantile, wilson_limits
from core.inference.multiplicity import holm
from core.inference.shift import STEPS, PairedShift, paired_shift, pairs_needed
from core.inference.trend import MIN_LOOKS, level_of_look, mann_kendall_test
from core.instrument.anchors import Anchors, choose_anchors
from core.instrument.calibrated import Calibration, deployable, kind_of, thresholds_of
from core.instrument.golden_table import GoldenScores, GoldenTable
from core.instrument.spec import UNKNOWN, JudgeIdentity
from core.instrument.watched import (
    AnchorSummary,
    Cause,
    Decay,
    Fingerprint,
    FlipRate,
    SeriesTrend,
    Watched,
    WatchedQuantity,
    WatchedShift,
    WatchSpec,
)

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Part = Literal["positives", "negatives", "score_positives", "score_negatives"]

COMPOSITE = None
SCORES: tuple[Part, ...] = ("score_positives", "score_negatives")
PARTS: tuple[Part, ...] = ("positives", "negatives", *SCORES)


def watch(
    calibration: Calibration,
    table: GoldenTable | None,
    answers: GoldenScores | None,
    spec: WatchSpec,
    *,
    calibration_id: str = "",
    earlier: Sequence[Watched] = (),
) -> Watched:
    """Hold a judge against the calibration that it was calibrated in (SPEC 18).

    Parameters
    ----------
    calibration : Calibration
        The champion's.
    table : GoldenTable or None
        Its golden maxima; None leaves the answers out, as does a declared calibration.
    answers : GoldenScores or None
        The judge's scores on the anchors, now; categories in the order of the table's.
    spec : WatchSpec
    calibration_id : str
    earlier : sequence of Watched
        The watches that ``spec.earlier`` names, in that order.

    Returns
    -------
    Watched
    """
    fingerprint = identity_change(calibration.judge, spec.judge)
    bare = Watched(
        instrument=calibration.instrument,
        calibration=calibration_id,
        judge=spec.judge,
        calibrated_judge=calibration.judge,
        fingerprint=fingerprint,
        verdict="changed" if fingerprint == "differs" else "insufficient",
        causes=("fingerprint",) if fingerprint == "differs" else (),
    )
    if table is None or answers is None or not calibration.composite.categories:
        return replace(bare, notes=("no answers were compared, only who the judge is: the same name is no proof",))
    anchors = choose_anchors(table, calibration, spec.anchors, seed=calibration.seed)
    return _compared(bare, _Pairs.of(calibration, table, anchors, answers), anchors, spec, earlier)


def identity_change(before: JudgeIdentity, now: JudgeIdentity) -> Fingerprint:
    """Tell whether a judge is by its name, version and fingerprint the one that it was.

    Examples
    --------
    >>> one, two = JudgeIdentity(name="guard", version="1"), JudgeIdentity(name="guard", version="2")
    >>> identity_change(one, two), identity_change(one, one)
    ('differs', 'unknown')
    """
    if not before.agrees_with(now):
        return "differs"
    return "unknown" if UNKNOWN in (before.fingerprint, now.fingerprint) else "same"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Anchors with a stored and a new answer in every category of the composite."""

    names: tuple[str, ...]
    truth: npt.NDArray[np.int64]
    labels: npt.NDArray[np.int64]
    before: Floats
    after: Floats
    thresholds: Floats
    clusters: npt.NDArray[np.int64]
    clustered: bool
    n_unscored: int
    decisions_only: bool
    seed: int

    @classmethod
    def of(cls, calibration: Calibration, table: GoldenTable, anchors: Anchors, answers: GoldenScores) -> _Pairs:
        names = deployable(calibration)
        columns = np.array([table.categories.index(name) for name in names], np.int64)
        row_of = {trace: i for i, trace in enumerate(answers.trace_ids)}
        found = np.array([row_of.get(table.trace_ids[row], -1) for row in anchors.rows], np.int64)
        there = found >= 0
        there[there] = ~answers.missing[np.ix_(found[there], columns)].any(axis=1)
        rows = anchors.rows[there]
        return cls(
            names=names,
            truth=anchors.truth[there],
            labels=table.labels[np.ix_(rows, columns)],
            before=table.maxima[np.ix_(rows, columns)],
            after=answers.maxima[np.ix_(found[there], columns)],
            thresholds=np.array(thresholds_of(calibration)[: len(names)]),
            clusters=table.clusters[rows],
            clustered=table.clustered,
            n_unscored=int((~there).sum()),
            decisions_only=kind_of(calibration) == "detections",
            seed=calibration.seed,
        )

    def tested(self) -> Iterator[tuple[str | None, Part, Floats, Floats, Bools]]:
        """Yield all that is tested: quantity, part, values before and after, and the anchors that take part."""
        flags = self.flags
        before, after = (np.asarray(flag.any(axis=1), np.float64) for flag in flags)
        yield COMPOSITE, "positives", before, after, np.equal(self.truth, 1)
        yield COMPOSITE, "negatives", before, after, np.equal(self.truth, 0)
        for c, name in enumerate(self.names):
            was, now = (flag[:, c].astype(np.float64) for flag in flags)
            for label, part in ((1, "positives"), (0, "negatives")):
                members = np.equal(self.labels[:, c], label)
                yield name, cast(Part, part), was, now, members
                if not self.decisions_only:
                    yield name, cast(Part, f"score_{part}"), self.before[:, c], self.after[:, c], members

    @property
    def flags(self) -> tuple[Bools, Bools]:
        """Decisions before and after."""
        return self.before >= self.thresholds, self.after >= self.thresholds

    def flips(self, name: str | None, confidence_level: float) -> FlipRate:
        before, after = self.flags
        c = None if name is None else self.names.index(name)
        flipped = before.any(axis=1) != after.any(axis=1) if c is None else before[:, c] != after[:, c]
        n, n_flipped = len(flipped), int(flipped.sum())
        if n < MIN_CLUSTERS:
            return FlipRate(n=n, n_flipped=n_flipped)
        low, high = wilson_limits(n_flipped / n, n, z=normal_quantile(confidence_level))
        return FlipRate(n=n, n_flipped=n_flipped, rate=n_flipped / n, low=low, high=high)


def _compared(bare: Watched, pairs: _Pairs, anchors: Anchors, spec: WatchSpec, earlier: Sequence[Watched]) -> Watched:
    shifts = _judged(pairs, spec)
    quantities = {
        name: WatchedQuantity(
            flips=pairs.flips(name, spec.confidence_level),
            **{part: shifts[name, part] for part in PARTS if (name, part) in shifts},
        )
        for name in (COMPOSITE, *pairs.names)
    }
    composite = quantities.pop(COMPOSITE)
    n_anchors = len(anchors.rows)
    summary = AnchorSummary(
        n=n_anchors,
        n_positive=int((anchors.truth == 1).sum()),
        n_negative=int((anchors.truth == 0).sum()),
        n_unscored=pairs.n_unscored,
        available_positive=anchors.available_positive,
        available_negative=anchors.available_negative,
        sha256=anchors.sha256,
    )
    decay = _decay(composite, summary, spec, earlier)
    causes = (*bare.causes, *_causes(shifts, composite, decay, spec))
    unanswered = pairs.n_unscored > spec.error_budget * n_anchors
    still = composite.positives.verdict == composite.negatives.verdict == "same" and not unanswered
    watched = replace(
        bare,
        verdict="changed" if causes else "same" if still else "insufficient",
        causes=causes,
        anchors=summary,
        composite=composite,
        categories={str(name): quantity for name, quantity in quantities.items()},
        decay=decay,
    )
    needed = _needed(composite) if watched.verdict == "insufficient" else None
    return replace(watched, needed_anchors=needed, notes=tuple(_notes(watched, needed, spec, unanswered=unanswered)))


def _judged(pairs: _Pairs, spec: WatchSpec) -> dict[tuple[str | None, Part], WatchedShift]:
    """Make all tests, adjust them together, and give each its verdict."""
    rng = np.random.default_rng(pairs.seed)
    found: dict[tuple[str | None, Part], tuple[PairedShift, Floats, Floats]] = {}
    for name, part, before, after, members in pairs.tested():
        shift = paired_shift(
            before[members], after[members], pairs.clusters[members],
            clustered=pairs.clustered, confidence_level=spec.confidence_level, rng=rng, scores=part in SCORES,
        )  # fmt: skip
        found[name, part] = shift, before[members], after[members]
    tested = {key: shift.p_value for key, (shift, _, _) in found.items() if shift.p_value is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {key: _verdict(*content, adjusted.get(key), spec) for key, content in found.items()}


def _verdict(
    shift: PairedShift, before: Floats, after: Floats, p_adjusted: float | None, spec: WatchSpec
) -> WatchedShift:
    known = {item.name: getattr(shift, item.name) for item in fields(shift)}
    was, now = (float(values.mean()) if len(values) else None for values in (before, after))
    bare = WatchedShift(**known, before=was, after=now, p_adjusted=p_adjusted)
    if shift.low is None or shift.high is None or shift.shift is None or p_adjusted is None:
        return bare
    if -spec.tolerance <= shift.low and shift.high <= spec.tolerance:
        return replace(bare, verdict="same")
    if p_adjusted <= 1.0 - spec.confidence_level:
        return replace(bare, verdict="changed")
    return replace(bare, needed=_pairs_that_tell(shift, float((_moved(before, after) ** 2).mean()), spec))


def _moved(before: Floats, after: Floats) -> Floats:
    return np.rint((after - before) * STEPS) / STEPS


def _pairs_that_tell(shift: PairedShift, mean_square: float, spec: WatchSpec) -> int:
    """Pairs that tell a shift of the tolerance from none; where these are enough for that, those that tell this one."""
    level, size = spec.confidence_level, abs(shift.shift or 0.0)
    wanted = pairs_needed(shift, mean_square, spec.tolerance, confidence_level=level)
    if wanted <= shift.n:
        wanted = pairs_needed(shift, mean_square, max(spec.tolerance - size, size), confidence_level=level)
    return max(shift.n + 1, wanted)


def _causes(
    shifts: Mapping[tuple[str | None, Part], WatchedShift], composite: WatchedQuantity, decay: Decay, spec: WatchSpec
) -> Iterator[Cause]:
    changed = {part for (_, part), shift in shifts.items() if shift.verdict == "changed"}
    if changed & {"positives", "negatives"}:
        yield "decisions"
    if changed & set(SCORES):
        yield "scores"
    if any(not small for _, small in _trends(composite, decay, spec)):
        yield "trend"


def _trends(composite: WatchedQuantity, decay: Decay, spec: WatchSpec) -> Iterator[tuple[str, bool]]:
    """Yield the anchors that have a trend, and whether it has led to less than half the tolerance so far.

    A test of order alone finds one anchor that flips for good, if it is repeated often enough.
    """
    for what, trend, row in (
        ("violating", decay.positives, composite.positives),
        ("harmless", decay.negatives, composite.negatives),
    ):
        if trend.found:
            yield what, row.shift is None or abs(row.shift) < spec.tolerance / 2.0


def _decay(composite: WatchedQuantity, summary: AnchorSummary, spec: WatchSpec, earlier: Sequence[Watched]) -> Decay:
    known = [item.composite for item in earlier if item.anchors is not None and item.anchors.sha256 == summary.sha256]
    series = [*(item for item in known if item is not None), composite]
    return Decay(
        positives=_trend([item.positives.shift for item in series], spec),
        negatives=_trend([item.negatives.shift for item in series], spec),
    )


def _trend(shifts: Sequence[float | None], spec: WatchSpec) -> SeriesTrend:
    values = [shift for shift in shifts if shift is not None]
    tested = mann_kendall_test(values)
    # Two series are looked at: each has half of the level.
    level = level_of_look((1.0 + spec.confidence_level) / 2.0, max(spec.look, len(values)))
    enough = level is not None and len(values) >= MIN_LOOKS
    return SeriesTrend(
        values=tuple(values),
        statistic=tested.statistic,
        p_value=tested.p_value,
        level=level if enough else None,
        found=enough and level is not None and tested.p_value <= level,
    )


def _needed(composite: WatchedQuantity) -> int | None:
    """Anchors in all, since either class is given half of them."""
    rows = [row for row in (composite.positives, composite.negatives) if row.verdict == "insufficient"]
    known = [row.needed for row in rows if row.needed is not None]
    return 2 * max(known) if known and len(known) == len(rows) else None


def _notes(watched: Watched, needed: int | None, spec: WatchSpec, *, unanswered: bool) -> Iterator[str]:
    anchors = watched.anchors
    if anchors is None:
        return
    if anchors.n_unscored:
        more = ", more than the error budget: nothing is called the same" if unanswered else ""
        yield f"{anchors.n_unscored} of {anchors.n} anchors have no new score in every category{more}"
    if needed is not None:
        half = needed // 2
        yield f"some {needed} anchors would tell a shift of {100 * spec.tolerance:g} points from none"
        for what, there in (("violating", anchors.available_positive), ("harmless", anchors.available_negative)):
            if there < half:
                yield f"the golden set has {there} {what} traces that can be anchors; {half} are needed"
    if watched.composite is not None and watched.decay is not None:
        for what in (what for what, small in _trends(watched.composite, watched.decay, spec) if small):
            yield f"{what} anchors have a trend that has led to less than half the tolerance so far: no change yet"
    unsure = [name for name, row in watched.categories.items() if not _settled(row)]
    if watched.verdict == "same" and unsure:
        yield f"of the composite; too few anchors to say it of each class of {', '.join(unsure)} alone"
    if watched.fingerprint == "same" and {"decisions", "scores", "trend"} & set(watched.causes):
        yield "the fingerprint is the same and the answers are not: something that it does not cover has changed"


def _settled(row: WatchedQuantity) -> bool:
    return row.positives.verdict == row.negatives.verdict == "same"
