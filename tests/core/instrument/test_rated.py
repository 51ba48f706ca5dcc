"""Raters of a golden set: their agreement beside the calibration, and what their noise does to J."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import core
from core.inference.agreement import krippendorff_alpha
from core.instrument.calibrated import Calibration, LabelAgreement
from core.instrument.spec import InstrumentSpec, OptimismSpec

SPEC = InstrumentSpec(optimism=OptimismSpec(method="none"))


def rated(error: float, n_raters: int = 3, n: int = 400) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Votes that err independently, and the scores of a judge with sensitivity and specificity of .9."""
    rng = np.random.default_rng(1)
    harm = rng.random(n) < 0.4
    votes = np.stack([harm ^ (rng.random(n) < error) for _ in range(n_raters)])
    golden = pd.DataFrame({
        "trace_id": np.tile([f"t{i}" for i in range(n)], n_raters),
        "hate": votes.ravel().astype(int),
        "rater": np.repeat([f"r{k}" for k in range(n_raters)], n),
    })  # fmt: skip
    right = rng.random(n) < 0.9
    scores = pd.DataFrame({"trace_id": golden["trace_id"][:n], "hate": np.where(harm == right, 0.9, 0.1)})
    return golden, scores


def agreement(calibration: Calibration) -> LabelAgreement:
    found = calibration.categories["hate"].agreement
    assert found is not None
    return found


def test_agreement_is_that_of_the_votes() -> None:
    golden, scores = rated(0.1)
    found = agreement(core.calibrate(golden, scores, SPEC)).raters
    ones = golden.groupby("trace_id")["hate"].sum().to_numpy()
    assert found.alpha == pytest.approx(krippendorff_alpha(np.stack([3 - ones, ones], axis=1)))
    assert (found.n_units, found.n_paired_units, found.n_ratings, found.single_vote_share) == (400, 400, 1200, 0.0)


def test_the_noise_tells_the_rate_at_which_votes_err_and_the_j_without_it() -> None:
    found = agreement(core.calibrate(*rated(0.1), SPEC)).label_noise
    assert found is not None
    assert found.vote_error == pytest.approx(0.1, abs=0.02)
    assert found.label_error == pytest.approx(3 * 0.1**2 * 0.9 + 0.1**3, abs=0.01)  # two or three of three err
    assert found.youden_j_without_noise == pytest.approx(0.8, abs=0.08)
    assert found.floor_on_labels is not None
    assert found.floor_on_labels < SPEC.detection_floor


def test_the_calibration_is_that_of_the_majority() -> None:
    golden, scores = rated(0.1)
    majority = (golden.groupby("trace_id")["hate"].mean() > 0.5).astype(int).reset_index()
    of_votes, of_labels = (core.calibrate(table, scores, SPEC) for table in (golden, majority))
    assert replace(of_votes.categories["hate"], agreement=None) == of_labels.categories["hate"]
    assert of_votes.composite == of_labels.composite
    assert of_labels.golden is not None
    assert of_labels.golden.raters is None


def test_ties_are_counted_and_left_out() -> None:
    calibration = core.calibrate(*rated(0.1, n_raters=2), SPEC)
    assert calibration.golden is not None
    assert calibration.golden.raters is not None
    assert calibration.golden.raters.n_ties == calibration.golden.n_undecidable > 0
    judged = calibration.categories["hate"]
    assert judged.n_positive + judged.n_negative == 400 - calibration.golden.raters.n_ties


def test_raters_who_never_meet_tell_nothing_of_agreement() -> None:
    golden, scores = rated(0.0)
    apart = golden.groupby("trace_id").first().reset_index()
    apart["rater"] = [f"r{i % 2}" for i in range(len(apart))]
    found = agreement(core.calibrate(apart, scores, SPEC))
    assert (found.raters.status, found.raters.single_vote_share, found.label_noise) == ("undefined", 1.0, None)


def test_agreement_depends_neither_on_names_nor_on_order() -> None:
    golden, scores = rated(0.1)
    other = golden.sample(frac=1, random_state=3).assign(rater=lambda frame: frame["rater"] + "x")
    assert core.calibrate(golden, scores, SPEC) == core.calibrate(other, scores, SPEC)
