"""Tables in memory: the same rules and figures as files."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import core
from core.errors import InputError, UndefinedError
from core.instrument.calibrated import Calibration
from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec

N = 240


@pytest.fixture(scope="module")
def golden() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame({"trace_id": np.arange(N), "hate": rng.integers(0, 2, N), "violence": rng.integers(0, 2, N)})


@pytest.fixture(scope="module")
def scores(golden: pd.DataFrame) -> pd.DataFrame:
    rng = np.random.default_rng(4)
    noisy = {name: np.clip(0.3 + 0.4 * golden[name] + rng.normal(0, 0.12, N), 0, 1) for name in ("hate", "violence")}
    return pd.DataFrame({"trace_id": golden["trace_id"], **noisy})


def calibrated(golden: pd.DataFrame, scores: pd.DataFrame, **declared: object) -> Calibration:
    spec = InstrumentSpec(**{"optimism": OptimismSpec(resamples=20), **declared})  # type: ignore[arg-type]
    return core.calibrate(golden, scores, spec)


@pytest.mark.parametrize("method", ["lang_reiczigel", "delta", "melded"])
def test_a_measurement_uses_the_interval_that_the_calibration_declares(
    golden: pd.DataFrame, scores: pd.DataFrame, method: str
) -> None:
    measured = core.measure(scores, calibrated(golden, scores, interval=method))
    interval = measured.composite.prevalence.interval
    assert interval is not None
    assert interval.method == method
    if method == "melded":
        assert measured.composite.prevalence.melded is not None
        assert (interval.low, interval.high) == (
            measured.composite.prevalence.melded.low,
            measured.composite.prevalence.melded.high,
        )


def test_a_source_that_scores_only_last_turns_loses_no_unit_to_holes(
    golden: pd.DataFrame, scores: pd.DataFrame
) -> None:
    twice = pd.concat([scores.assign(turn=0), scores.assign(turn=2)])
    last = core.measure(twice, core.calibrate(golden, twice, InstrumentSpec(turn_scope="last")))
    assert (last.n_turn_gaps, last.accounting["scored"]) == (0, N)


def test_scores_of_another_judge_are_refused_unless_accepted(golden: pd.DataFrame, scores: pd.DataFrame) -> None:
    calibration = calibrated(golden, scores.assign(judge="a@1"))
    assert calibration.judge == JudgeIdentity(name="a", version="1")
    with pytest.raises(InputError, match="other@2"):
        core.measure(scores.assign(judge="other@2"), calibration)
    accepted = core.measure(scores.assign(judge="other@2"), calibration, accept_judge=True)
    assert accepted.judge_accepted
    assert any("accepted by the user" in note for note in accepted.notes)


def test_a_calibration_on_another_judge_than_declared_says_so(golden: pd.DataFrame, scores: pd.DataFrame) -> None:
    spec = InstrumentSpec(judge=JudgeIdentity(name="mine", version="1"), optimism=OptimismSpec(resamples=20))
    with pytest.raises(InputError, match="mine@1"):
        core.calibrate(golden, scores.assign(judge="other@2"), spec)
    accepted = core.calibrate(golden, scores.assign(judge="other@2"), spec, accept_judge=True)
    assert accepted.judge_accepted
    assert any("other@2" in note for note in accepted.notes)


def test_the_target_is_read_off_the_scores_and_may_not_contradict(golden: pd.DataFrame, scores: pd.DataFrame) -> None:
    calibration = calibrated(golden, scores)
    assert core.measure(scores.assign(target="guard@1"), calibration).target == "guard@1"
    with pytest.raises(InputError, match="guard@2"):
        core.measure(scores.assign(target="guard@1"), calibration, target="guard@2")


def test_a_detector_is_not_calibrated_on_scores(golden: pd.DataFrame, scores: pd.DataFrame) -> None:
    detector = InstrumentSpec(kind="detections")
    with pytest.raises(InputError, match="is neither 0 nor 1"):
        core.calibrate(golden, scores, detector)
    long = scores.melt(["trace_id"], ["hate", "violence"], "category", "score")
    with pytest.raises(InputError, match="this is a table of scores; measure it with --calibration REF of a judge"):
        core.calibrate(golden, long, detector)


@pytest.mark.parametrize("name", ["composite", "several"])
def test_names_that_records_use_themselves_are_no_categories(name: str) -> None:
    with pytest.raises(UndefinedError, match=name):
        InstrumentSpec(categories=("hate", name))


def test_many_golden_traces_without_composite_truth_are_said(golden: pd.DataFrame, scores: pd.DataFrame) -> None:
    partly = golden.astype({"violence": "float"})
    partly.loc[partly["hate"].eq(0) & (partly["trace_id"] % 2 == 0), "violence"] = None
    notes = calibrated(partly, scores).notes
    assert any("no composite truth" in note for note in notes)
    assert not any("no composite truth" in note for note in calibrated(golden, scores).notes)


def test_a_composite_below_one_of_its_categories_is_incompatible(golden: pd.DataFrame, scores: pd.DataFrame) -> None:
    """Composite negatives are labelled only where the judge raises false alarms, so its specificity looks too low."""
    rng = np.random.default_rng(8)
    n = 3000
    truth = pd.DataFrame({"trace_id": np.arange(n), "hate": rng.random(n) < 0.3, "violence": rng.random(n) < 0.05})
    judged = pd.DataFrame(
        {
            "trace_id": truth["trace_id"],
            "hate": np.where(truth["hate"], rng.beta(8, 2, n), rng.beta(2, 8, n)),
            "violence": np.where(truth["violence"], rng.beta(6, 3, n), rng.beta(3, 4, n)),
        }
    )
    labels = truth.astype({"hate": float, "violence": float})
    hidden = ~truth["hate"] & ~truth["violence"] & (judged["violence"] < 0.55)
    labels.loc[hidden, "violence"] = None
    measured = core.measure(judged, calibrated(labels, judged))
    assert measured.categories["hate"].prevalence.status == "measured"
    composite = measured.composite.prevalence
    assert composite.status == "incompatible"
    assert composite.interval is None
    assert composite.raw is not None
    assert any("which it contains" in note for note in composite.notes)


def test_tiny_counts_are_no_evidence() -> None:
    few = core.corrected_prevalence(
        n_flagged=0, n_traces=100, true_positives=3, n_positive=3, true_negatives=3, n_negative=3
    )
    assert (few.status, few.value, few.interval) == ("insufficient_data", None, None)
    one = core.corrected_prevalence(
        n_flagged=1, n_traces=1, true_positives=50, n_positive=50, true_negatives=50, n_negative=50
    )
    assert one.status == "insufficient_data"
