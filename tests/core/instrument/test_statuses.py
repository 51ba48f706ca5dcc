"""Whatever the data, a record says exactly what its status allows, and holds no NaN."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import example, given, settings
from hypothesis import strategies as st

import core
from core.errors import InputError, UndefinedError
from core.instrument.measurement import Measured
from core.instrument.spec import InstrumentSpec, OptimismSpec
from core.records import build, canonical, plain

RESULTS = ("value", "interval", "lang_reiczigel", "delta", "melded")
WITHOUT_EFFECTIVE = ("not_calibrated", "unit_mismatch")


def tables(
    seed: int, n_golden: int, n_units: int, quality: float, turns: int, clusters: int, missing: float, shift: int
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Draw a golden set and production; `shift` adds turns to production."""
    rng = np.random.default_rng(seed)
    truth = rng.random((n_golden, 2)) < 0.5
    golden = pd.DataFrame({"trace_id": range(n_golden), "a": truth[:, 0].astype(float), "b": truth[:, 1]})
    golden.loc[rng.random(n_golden) < missing, "a"] = None
    if clusters:
        golden["cluster"] = [f"g{k}" for k in rng.integers(0, clusters, n_golden)]
    return golden, _scored(rng, truth, quality, turns, 0, 0.0), _production(
        rng, n_units, quality, turns + shift, clusters, missing
    )  # fmt: skip


def _production(
    rng: np.random.Generator, n: int, quality: float, turns: int, clusters: int, missing: float
) -> pd.DataFrame:
    return _scored(rng, rng.random((n, 2)) < rng.choice([0.0, 0.1, 1.0]), quality, turns, clusters, missing)


def _scored(
    rng: np.random.Generator, truth: np.ndarray, quality: float, turns: int, clusters: int, missing: float
) -> pd.DataFrame:
    n = len(truth)
    n_turns = rng.integers(1, turns + 1, n)
    row = np.repeat(np.arange(n), n_turns)
    table = pd.DataFrame({"trace_id": row, "turn": np.concatenate([np.arange(t) for t in n_turns])})
    for c, name in enumerate("ab"):
        scores = (quality * truth[row, c] + (1 - quality) * rng.random(len(row))).round(1)
        table[name] = np.where(rng.random(len(row)) < missing, np.nan, scores)
    if clusters:
        table["cluster"] = [f"p{trace % clusters}" for trace in row]
    return table


def check(measured: Measured) -> None:
    """Assert what holds for every quantity of a measurement."""
    rate, observed = measured.prevalence, measured.observed_interval
    with_rate = rate.status in ("measured", "inconclusive")
    assert all((getattr(rate, name) is not None) is with_rate for name in RESULTS), rate
    assert (rate.raw is not None) is (with_rate or rate.status == "incompatible")
    assert bool(rate.judge_shift) is with_rate
    assert rate.apparent is None or with_rate or rate.status == "unit_mismatch"
    assert (rate.effective is None) is (rate.status in WITHOUT_EFFECTIVE or not measured.n_units)
    if rate.status not in ("measured",):
        assert rate.notes
    if with_rate:
        assert 0 <= rate.interval.low < rate.interval.high <= 1
        assert 0 <= rate.value <= 1
        assert rate.clipped is (rate.value != rate.raw)
        assert rate.delta.degenerate or rate.delta.low <= rate.value <= rate.delta.high
        assert 0 <= rate.melded.low <= rate.melded.high <= 1
        e = rate.effective
        assert 0 <= e.n_flagged <= e.n_units <= measured.n_units
        assert e.youden_j_low <= e.youden_j
        assert e.n_clusters >= 5
    assert (observed.low is None) is (observed.high is None) is (observed.status == "undefined")
    if observed.status == "defined":
        assert 0 <= observed.low <= measured.observed_rate <= observed.high <= 1
        assert observed.low < observed.high
    worst = measured.worst_case
    assert 0 <= worst.low <= worst.high <= 1
    assert (measured.observed_rate is None) is (measured.n_units == 0)


@settings(max_examples=120, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_golden=st.sampled_from([200, 2, 12, 60, 200]),
    n_units=st.sampled_from([150, 1, 5, 30, 150]),
    quality=st.sampled_from([0.3, 0.0, 0.1, 0.2, 0.6, 1.0]),
    turns=st.sampled_from([1, 2, 4]),
    clusters=st.sampled_from([0, 0, 3, 8, 40]),
    missing=st.sampled_from([0.0, 0.0, 0.1, 0.9]),
    shift=st.sampled_from([0, 0, 0, 5]),
    attempts=st.sampled_from(["each", "each", "any"]),
)
@example(1, 200, 150, 0.6, 2, 0, 0.0, 0, "each")
@example(1, 200, 1, 1.0, 1, 0, 0.0, 0, "each")
def test_every_status_carries_what_it_may_and_nothing_else(
    seed: int, n_golden: int, n_units: int, quality: float, turns: int, clusters: int, missing: float, shift: int,
    attempts: Any,
) -> None:  # fmt: skip
    golden, scores, production = tables(seed, n_golden, n_units, quality, turns, clusters, missing, shift)
    try:
        calibration = core.calibrate(golden, scores, InstrumentSpec(optimism=OptimismSpec(resamples=10)))
        measured = core.measure(production, calibration, attempts=attempts)
    except (InputError, UndefinedError):
        return  # nothing to calibrate or to measure with
    for quantity in (measured.composite, *measured.categories.values()):
        check(quantity)
    assert measured.accounting["attempted"] == sum(n for k, n in measured.accounting.items() if k != "attempted")
    assert measured.composite.n_units == measured.accounting["scored"]
    for judged in (calibration.composite, *calibration.categories.values()):
        figures = [judged.sensitivity, judged.specificity, judged.youden_j, judged.youden_j_low]
        assert all(x is None for x in figures) or all(isfinite(x) for x in figures)
        if judged.youden_j is not None:
            assert judged.youden_j_low <= judged.youden_j
            assert judged.effective.n_positive <= judged.n_positive
            assert judged.effective.n_negative <= judged.n_negative
    again = build(type(calibration), plain(calibration))
    assert canonical(again) == canonical(calibration)
    assert canonical(build(type(measured), plain(measured))) == canonical(measured)


@settings(max_examples=60, deadline=None)
@given(
    flags=st.lists(st.tuples(st.sampled_from([0.0, 1.0, None]), st.sampled_from([0.0, 1.0, None])), min_size=1),
    filled=st.randoms(use_true_random=False),
)
def test_the_worst_case_holds_whatever_the_missing_scores_would_have_been(
    lab: Any, flags: list[tuple[float | None, float | None]], filled: Any
) -> None:
    golden, scores = lab.golden((1, 18, 20, 18, 20))
    golden["other"], scores["other"] = golden["harm"], scores["harm"]
    calibration = core.calibrate(golden, scores, lab.UNCORRECTED)
    production = pd.DataFrame(flags, columns=["harm", "other"], dtype=float)
    production.insert(0, "trace_id", range(len(flags)))
    complete = production.map(lambda cell: filled.choice([0.0, 1.0]) if pd.isna(cell) else cell)
    bounds = core.measure(production, calibration)
    truth = core.measure(complete, calibration)
    for name in ("harm", "other"):
        worst, rate = bounds.categories[name].worst_case, truth.categories[name].observed_rate
        assert worst.low <= rate <= worst.high
    assert bounds.composite.worst_case.low <= truth.composite.observed_rate <= bounds.composite.worst_case.high
