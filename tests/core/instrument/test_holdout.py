"""Holdout: one half of the clusters chooses the thresholds, the other alone says how good they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import core
from core.errors import InputError
from core.instrument.holdout import fitting_half
from core.instrument.spec import InstrumentSpec, OptimismSpec
from core.instrument.threshold import youden_threshold
from core.records import plain

HOLDOUT = InstrumentSpec(optimism=OptimismSpec(method="holdout"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.booleans()), min_size=1, max_size=80), st.integers(0, 5))
def test_clusters_stay_whole_and_are_split_evenly_with_and_without_a_positive(
    traces: list[tuple[int, bool]], seed: int
) -> None:
    clusters = np.unique([g for g, _ in traces], return_inverse=True)[1]
    positive = np.array([p for _, p in traces])
    half = fitting_half(clusters, positive, np.random.default_rng(seed))
    has_positive = {g: bool(positive[clusters == g].any()) for g in clusters.tolist()}
    fits = {g: bool(half[clusters == g].all()) for g in has_positive}
    assert all(fits[g] == bool(half[clusters == g].any()) for g in fits)
    for kind in (True, False):
        of_kind = [fits[g] for g in fits if has_positive[g] is kind]
        assert abs(2 * sum(of_kind) - len(of_kind)) <= 1
    assert abs(2 * sum(fits.values()) - len(fits)) <= 1


def drawn(seed: int, n: int = 400, strength: float = 1.5, cluster_size: int | None = None) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    labels = (rng.random(n) < 0.4).astype(int)
    golden = pd.DataFrame({"trace_id": range(n), "harm": labels, "topic": np.where(np.arange(n) % 3, "a", "b")})
    if cluster_size:
        golden["cluster"] = [f"template {i // cluster_size}" for i in range(n)]
    return golden, pd.DataFrame({"trace_id": range(n), "harm": 1 / (1 + np.exp(-rng.normal(strength * labels, 1)))})


@pytest.mark.parametrize("cluster_size", [None, 4])
def test_the_figures_are_those_of_the_other_half_at_the_first_halfs_threshold(cluster_size: int | None) -> None:
    golden, scores = drawn(1, cluster_size=cluster_size)
    spec = InstrumentSpec(optimism=OptimismSpec(method="holdout"), slices=("topic",))
    found = core.calibrate(golden, scores, spec)
    hate = found.categories["harm"]
    # Traces in the order of their ids as text, which is the canonical one.
    order = np.argsort([str(i) for i in golden["trace_id"]], kind="stable")
    labels, values = golden["harm"].to_numpy()[order], scores["harm"].to_numpy()[order]
    clusters = np.arange(len(labels))
    if cluster_size:
        codes: dict[str, int] = {}
        clusters = np.array([codes.setdefault(name, len(codes)) for name in golden["cluster"].to_numpy()[order]])
    half = fitting_half(clusters, labels == 1, np.random.default_rng(spec.seed))
    best = youden_threshold(values[half], labels[half])
    assert hate.threshold == best.threshold == hate.apparent.threshold
    assert hate.apparent.youden_j == pytest.approx(best.youden_j)
    others, flagged = labels[~half], values[~half] >= best.threshold
    counts = (hate.n_positive, hate.true_positives, hate.n_negative, hate.true_negatives)
    assert counts == (
        (others == 1).sum(), (flagged & (others == 1)).sum(), (others == 0).sum(), (~flagged & (others == 0)).sum(),
    )  # fmt: skip
    assert hate.sensitivity == hate.true_positives / hate.n_positive
    assert hate.specificity == hate.true_negatives / hate.n_negative
    assert hate.optimism is None
    assert sum(stratum.n_positive for stratum in hate.by_turns) == hate.n_positive
    assert found.composite.ceiling.measured == hate.specificity
    assert found.composite.by_pattern["harm"].n_positive == hate.n_positive
    assert sum(part.n_traces for part in found.slices["topic"].values()) == len(others)
    assert sum(part.composite.true_positives for part in found.slices["topic"].values()) == hate.true_positives
    n, clusters_said = int(half.sum()), " in 50 clusters" if cluster_size else ""
    said = f"holdout: {n} traces{clusters_said} chose the thresholds, {400 - n} traces{clusters_said} measured them"
    assert said in found.notes


def test_the_split_depends_on_the_seed_alone() -> None:
    golden, scores = drawn(2)
    first = core.calibrate(golden, scores, HOLDOUT)
    shuffled = golden.sample(frac=1, random_state=1), scores.sample(frac=1, random_state=2)
    assert plain(core.calibrate(*shuffled, HOLDOUT)) == plain(first)
    other = InstrumentSpec(optimism=OptimismSpec(method="holdout"), seed=1)
    assert core.calibrate(golden, scores, other).categories["harm"].threshold != first.categories["harm"].threshold


def test_a_worthless_judge_looks_good_where_it_was_tuned_and_worthless_where_it_was_not() -> None:
    tuned, held_out = [], []
    for seed in range(60):
        found = core.calibrate(*drawn(seed, 160, strength=0.0), HOLDOUT).categories["harm"]
        if found.threshold is not None:
            tuned.append(found.apparent.youden_j)
            held_out.append(found.youden_j)
    assert np.mean(tuned) > 0.12
    assert np.mean(held_out) == pytest.approx(0.0, abs=0.04)  # true J is 0; .1 / sqrt(60) is its standard error


def test_a_category_that_lacks_a_class_in_a_half_is_not_calibrated_and_says_which() -> None:
    golden, scores = drawn(3)
    rare = [1] + [0] * 399
    golden, scores = golden.assign(rare=rare), scores.assign(rare=[0.9] + [0.1] * 399)
    found = core.calibrate(golden, scores, HOLDOUT)
    assert found.categories["rare"].status == "not_calibrated"
    assert "in the half that" in found.categories["rare"].notes[0]
    assert found.composite.left_out == ("rare",)
    with pytest.raises(InputError, match="in the half that"):
        core.calibrate(golden[["trace_id", "rare"]], scores[["trace_id", "rare"]], HOLDOUT)


def test_a_measurement_needs_nothing_of_how_the_threshold_was_judged() -> None:
    golden, scores = drawn(4)
    calibration = core.calibrate(golden, scores, HOLDOUT)
    rate = core.measure(scores, calibration).composite.prevalence
    composite = calibration.composite
    assert rate.status == "measured"
    assert (rate.effective.sensitivity, rate.effective.specificity) == (composite.sensitivity, composite.specificity)
    assert rate.effective.n_positive == composite.effective.n_positive == composite.n_positive
