"""Whether a judge is still the one that was calibrated, and how often watching it gives a false alarm."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from core.errors import UndefinedError
from core.inference.multiplicity import holm
from core.instrument.anchors import choose_anchors
from core.instrument.calibrated import Calibration
from core.instrument.spec import JudgeIdentity
from core.instrument.watch import watch
from core.instrument.watched import Watched, WatchSpec
from tests.core.instrument.watching import GUARD, Bench, anchors_of, bench, scores_of

STEADY = bench()
VARYING = bench(noise=0.1, seed=3)


def again(made: Bench, seed: int = 5, **change: tuple[float, float]) -> Watched:
    return made.watch(made.answers(np.random.default_rng(seed), **change))


# --- anchors --------------------------------------------------------------------------------------------------------


def test_the_same_golden_set_gives_the_same_anchors_half_of_either_class() -> None:
    anchors = anchors_of(STEADY, 200)
    assert (len(anchors.rows), int(anchors.truth.sum())) == (200, 100)
    assert anchors_of(STEADY, 200).sha256 == anchors.sha256
    assert anchors_of(STEADY, 120).sha256 != anchors.sha256
    assert len(set(anchors.rows.tolist())) == 200


def test_anchors_do_not_depend_on_the_order_of_the_golden_set() -> None:
    order = np.random.default_rng(1).permutation(len(STEADY.table.trace_ids))
    table = replace(
        STEADY.table, trace_ids=tuple(STEADY.table.trace_ids[i] for i in order), labels=STEADY.table.labels[order],
        maxima=STEADY.table.maxima[order], missing=STEADY.table.missing[order],
    )  # fmt: skip
    assert choose_anchors(table, STEADY.calibration, 100, seed=7).sha256 == (
        choose_anchors(STEADY.table, STEADY.calibration, 100, seed=7).sha256
    )


def test_every_distance_to_a_threshold_has_its_share_among_the_anchors() -> None:
    thresholds = [STEADY.calibration.categories[name].threshold for name in STEADY.table.categories]
    distance = np.abs(STEADY.table.maxima - np.array(thresholds, float)).min(axis=1)
    anchors = anchors_of(STEADY, 100)
    harmless = (STEADY.table.labels == 0).all(axis=1)
    chosen = anchors.rows[anchors.truth == 0]
    edges = np.quantile(distance[harmless], [0.25, 0.5, 0.75])
    counts = np.bincount(np.searchsorted(edges, distance[chosen]), minlength=4)
    assert counts.min() >= 11  # of 12.5


def test_where_one_class_is_short_the_other_gives_more_and_where_all_are_few_all_are_taken() -> None:
    rare = bench(share=0.05)
    anchors = anchors_of(rare, 200)
    assert int(anchors.truth.sum()) == anchors.available_positive < 100
    assert len(anchors.rows) == 200
    everything = anchors_of(rare, 10_000)
    assert len(everything.rows) == everything.available_positive + everything.available_negative == 400


def test_traces_without_truth_or_without_a_score_are_no_anchors() -> None:
    labels, missing = STEADY.table.labels.copy(), STEADY.table.missing.copy()
    labels[:100][labels[:100] == 0] = -1
    missing[100:200, 0] = True
    holes = replace(STEADY, table=replace(STEADY.table, labels=labels, missing=missing))
    known = (labels[:100] == 1).any(axis=1)
    rows = anchors_of(holes, 10_000).rows
    assert len(rows) == int(known.sum()) + 200


# --- the verdict ----------------------------------------------------------------------------------------------------


def test_a_judge_that_answers_as_before_is_the_same() -> None:
    found = again(STEADY)
    assert (found.verdict, found.causes, found.fingerprint) == ("same", (), "same")
    assert found.composite is not None
    assert found.composite.positives.verdict == found.composite.negatives.verdict == "same"
    assert found.composite.flips.n_flipped == 0
    assert found.composite.flips.high is not None
    assert found.composite.flips.high > 0
    assert found.composite.score_positives is None
    assert any("too few anchors to say it of each class of hate, violence alone" in note for note in found.notes)


def test_a_judge_that_became_milder_is_changed_in_its_decisions_and_scores() -> None:
    found = again(STEADY, by_label=(0.0, -0.15))
    assert (found.verdict, found.causes) == ("changed", ("decisions", "scores"))
    assert found.composite is not None
    shift = found.composite.positives
    assert shift.shift is not None
    assert shift.high is not None
    assert shift.high < 0
    assert (shift.before, shift.after) == (pytest.approx((shift.after or 0) - shift.shift), shift.after)
    assert any("fingerprint is the same and the answers are not" in note for note in found.notes)


def test_errors_that_cancel_out_over_all_traces_are_found_in_their_classes() -> None:
    found = again(STEADY, by_label=(0.15, -0.15))
    hate = found.categories["hate"]
    assert hate.positives.verdict == hate.negatives.verdict == "changed"
    assert hate.positives.n_down > 0 < hate.negatives.n_up


@pytest.mark.parametrize(
    ("now", "fingerprint"),
    [
        (JudgeIdentity(name="guard", version="1", fingerprint="e" * 64), "differs"),
        (JudgeIdentity(name="guard", version="2"), "differs"),
        (JudgeIdentity(name="other", version="1"), "differs"),
        (JudgeIdentity(name="guard", version="1"), "unknown"),
    ],
)
def test_another_identity_is_a_change_whatever_the_answers(now: JudgeIdentity, fingerprint: str) -> None:
    found = STEADY.watch(STEADY.answers(np.random.default_rng(5)), judge=now)
    assert found.fingerprint == fingerprint
    assert found.causes == (("fingerprint",) if fingerprint == "differs" else ())
    assert found.verdict == ("changed" if fingerprint == "differs" else "same")


def test_without_answers_the_same_name_is_no_proof_and_another_one_is_a_change() -> None:
    assert STEADY.watch(None).verdict == "insufficient"
    assert STEADY.watch(None).anchors is None
    assert STEADY.watch(None, judge=JudgeIdentity(name="guard", version="2")).verdict == "changed"


def test_too_few_anchors_are_insufficient_and_say_how_many_would_tell() -> None:
    found = STEADY.watch(STEADY.answers(np.random.default_rng(5)), anchors=40)
    assert found.verdict == "insufficient"
    assert found.needed_anchors is not None
    more = STEADY.watch(STEADY.answers(np.random.default_rng(5)), anchors=found.needed_anchors)
    assert more.verdict == "same"
    fewer = STEADY.watch(STEADY.answers(np.random.default_rng(5)), anchors=found.needed_anchors - 4)
    assert fewer.verdict == "insufficient"


def test_a_golden_set_that_has_too_few_is_named_as_what_is_missing() -> None:
    small = bench(60)
    found = small.watch(small.answers(np.random.default_rng(5)))
    assert found.verdict == "insufficient"
    assert any("violating traces that can be anchors" in note for note in found.notes)


def test_anchors_without_an_answer_are_counted_and_too_many_of_them_are_never_the_same() -> None:
    answers = STEADY.answers(np.random.default_rng(5))
    rows = anchors_of(STEADY, 200).rows
    for n_missing, verdict in ((8, "same"), (14, "insufficient")):
        missing = answers.missing.copy()
        missing[rows[:n_missing], 1] = True
        found = STEADY.watch(replace(answers, missing=missing))
        assert found.anchors is not None
        assert (found.anchors.n_unscored, found.verdict) == (n_missing, verdict)
        assert any(f"{n_missing} of 200 anchors have no new score" in note for note in found.notes)


def test_answers_in_any_order_and_of_other_traces_give_the_same_result() -> None:
    answers = STEADY.answers(np.random.default_rng(5), by_label=(0.0, -0.05))
    order = np.random.default_rng(1).permutation(len(answers.trace_ids))
    shuffled = scores_of(
        (*(answers.trace_ids[i] for i in order), "stranger"), np.vstack([answers.maxima[order], [[1, 1]]])
    )
    assert STEADY.watch(shuffled) == STEADY.watch(answers)


def test_p_values_are_adjusted_over_all_tests_of_the_watch() -> None:
    found = again(VARYING, by_label=(0.0, -0.05))
    assert found.composite is not None
    rows = [found.composite.positives, found.composite.negatives]
    for row in found.categories.values():
        assert row.score_positives is not None
        assert row.score_negatives is not None
        rows += [row.positives, row.score_positives, row.negatives, row.score_negatives]
    assert len(rows) == 10
    adjusted = holm([row.p_value for row in rows if row.p_value is not None])
    assert [row.p_adjusted for row in rows] == pytest.approx(adjusted)


def test_clusters_that_change_together_count_as_clusters() -> None:
    templates = bench(cluster_size=20)
    answers = templates.answers(np.random.default_rng(5))
    codes = np.array([int(name[1:]) for name in templates.table.cluster_names or ()])
    moved = np.clip(answers.maxima + np.where((codes == 3)[:, None], 0.6, 0.0), 0, 1)
    found = templates.watch(scores_of(answers.trace_ids, moved))
    assert found.composite is not None
    assert found.composite.negatives.n_up >= 4
    assert found.composite.negatives.p_value == 1.0  # one template of twenty, in either direction
    assert "decisions" not in found.causes


def test_a_detector_has_decisions_and_no_scores() -> None:
    from core.instrument.calibrated import DetectorCalibration

    names = {item: getattr(STEADY.calibration, item) for item in Calibration.__dataclass_fields__}
    detector = DetectorCalibration(**names)
    spec = WatchSpec(judge=GUARD, anchors=200)
    found = watch(detector, STEADY.table, STEADY.answers(np.random.default_rng(5)), spec)
    assert found.verdict == "same"
    assert all(row.score_positives is None for row in found.categories.values())


@pytest.mark.parametrize(
    "asked", [{"anchors": 9}, {"tolerance": 0.0}, {"confidence_level": 1.0}, {"error_budget": 1.5}, {"look": 0}]
)
def test_what_cannot_be_asked_is_refused(asked: dict[str, float]) -> None:
    with pytest.raises(UndefinedError):
        WatchSpec(**asked)  # type: ignore[arg-type]


# --- decay ----------------------------------------------------------------------------------------------------------


def watched_series(made: Bench, drift: float, looks: int, seed: int) -> list[Watched]:
    rng = np.random.default_rng(seed)
    found: list[Watched] = []
    for k in range(looks):
        answers = made.answers(rng, by_label=(0.0, -drift * k))
        found.append(made.watch(answers, earlier=tuple(found)))
    return found


def test_a_judge_that_grows_milder_little_by_little_is_found_by_its_trend() -> None:
    series = watched_series(STEADY, 0.002, 13, seed=1)
    verdicts = [item.verdict for item in series]
    assert verdicts[:3] == ["same"] * 3
    assert series[-1].causes == ("trend",)
    last = series[-1].decay
    assert last is not None
    assert len(last.positives.values) == 13
    assert last.positives.statistic < 0
    assert not last.negatives.found


def test_one_anchor_that_flips_for_good_is_a_trend_and_no_change() -> None:
    rng = np.random.default_rng(1)
    answers = STEADY.answers(rng)
    flagged = anchors_of(STEADY, 200).rows[anchors_of(STEADY, 200).truth == 1]
    maxima = answers.maxima.copy()
    rows = (row for row in flagged if (answers.maxima[row] >= thresholds()).any())
    maxima[next(rows)] = 0.0
    flipped = scores_of(answers.trace_ids, maxima)
    series: list[Watched] = []
    for k in range(30):
        series.append(STEADY.watch(answers if k < 20 else flipped, earlier=tuple(series), tolerance=0.08))
    last = series[-1]
    assert last.decay is not None
    assert last.decay.positives.found
    assert last.decay.positives.values[-1] == -0.01
    assert (last.verdict, last.causes) == ("same", ())
    assert any("violating anchors have a trend that has led to less than half the tolerance" in n for n in last.notes)
    half = STEADY.watch(flipped, earlier=tuple(series), tolerance=0.02)
    assert half.causes == ("trend",)


def thresholds() -> np.ndarray[Any, Any]:
    return np.array([STEADY.calibration.categories[name].threshold for name in STEADY.table.categories], float)


def test_fewer_than_five_watches_have_no_trend_and_watches_of_other_anchors_do_not_count() -> None:
    series = watched_series(STEADY, 0.02, 4, seed=1)
    assert series[-1].decay is not None
    assert series[-1].decay.positives.level is None
    others = tuple(STEADY.watch(STEADY.answers(np.random.default_rng(i)), anchors=150) for i in range(6))
    found = STEADY.watch(STEADY.answers(np.random.default_rng(9)), earlier=others)
    assert found.decay is not None
    assert len(found.decay.positives.values) == 1


# --- how often it errs ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "cluster_size"), [(0.05, 1), (0.15, 1), (0.05, 8)])
def test_an_unchanged_judge_whose_answers_vary_is_rarely_called_changed(noise: float, cluster_size: int) -> None:
    verdicts = []
    for seed in range(100):
        made = bench(noise=noise, seed=seed, cluster_size=cluster_size)
        rng = np.random.default_rng(10_000 + seed)
        verdicts += [made.watch(made.answers(rng)).verdict for _ in range(4)]
    # One in a hundred at the most, were it not for thresholds that were chosen on the stored answers.
    assert np.mean([verdict == "changed" for verdict in verdicts]) <= 0.02


@pytest.mark.slow
def test_a_shift_beyond_the_tolerance_is_rarely_called_the_same() -> None:
    verdicts = []
    for seed in range(150):
        made = bench(1500, seed=seed, noise=0.03, strength=0.14)
        truth = (made.table.labels == 1).any(axis=1)
        # As many violating traces again as make a shift of 7 points of sensitivity are answered at random low.
        rng = np.random.default_rng(seed)
        maxima = made.answers(rng).maxima.copy()
        maxima[truth & (rng.random(len(truth)) < 0.08)] = 0.0
        verdicts.append(made.watch(scores_of(made.table.trace_ids, maxima), anchors=1000).verdict)
    assert np.mean([verdict == "same" for verdict in verdicts]) <= 0.01
    assert np.mean([verdict == "changed" for verdict in verdicts]) >= 0.9


@pytest.mark.slow
def test_a_year_of_weekly_watches_of_an_unchanged_judge_has_a_false_trend_in_one_of_a_hundred() -> None:
    """The series alone, since each watch's own test is tried above: flips about the stored answers, at random."""
    from core.inference.trend import level_of_look, mann_kendall_test

    rng = np.random.default_rng(11)
    alarms = 0
    years = 200
    for _ in range(years):
        probability = rng.beta(0.4, 4.0, 100)
        stored = rng.random(100) < 0.5
        flips = rng.random((52, 100)) < probability
        shifts = (np.where(stored, -1, 1) * flips).sum(axis=1) / 100
        alarms += any(
            mann_kendall_test(shifts[:n].tolist()).p_value <= (level_of_look(0.995, n) or 0.0) for n in range(5, 53)
        )
    assert alarms / years <= 0.01
