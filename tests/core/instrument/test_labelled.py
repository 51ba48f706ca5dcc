"""Labelled traces of production: what is picked out of the stream, and what it says of the golden set."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import core
from core.errors import InputError
from core.inference.prediction_powered import LabelledCounts, prediction_powered_rate
from core.inference.transport import GoldenRates, TransportCase, assess_transport
from core.instrument.calibrated import Calibration
from core.instrument.measured import Measurement
from core.instrument.spec import InstrumentSpec, OptimismSpec

NAMES = ("hate", "fraud")


def world(n: int, seed: int, *, share: float = 0.2, alarm: float = 0.05) -> tuple[pd.DataFrame, pd.DataFrame]:
    """True labels of n traces of one turn, and the scores of a judge with sensitivity .9 and this false alarm rate."""
    rng = np.random.default_rng(seed)
    ids = [f"{seed}-{i}" for i in range(n)]
    truth, scores = pd.DataFrame({"trace_id": ids}), pd.DataFrame({"trace_id": ids})
    for name in NAMES:
        harm = rng.random(n) < share
        flagged = rng.random(n) < np.where(harm, 0.9, alarm)
        truth[name] = harm.astype(int)
        scores[name] = np.where(flagged, 0.9, 0.1)
    return truth, scores


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return core.calibrate(*world(600, 1, share=0.4), InstrumentSpec(optimism=OptimismSpec(method="none")))


@pytest.fixture(scope="module")
def production() -> tuple[pd.DataFrame, pd.DataFrame]:
    return world(2000, 2, alarm=0.15)


def measured(calibration: Calibration, production: Any, labels: Any, **more: Any) -> Measurement:
    return core.measure(production[1], calibration, labels=labels, **more)


def test_labels_are_counted_against_the_flags_of_their_traces(calibration: Calibration, production: Any) -> None:
    truth, scores = production
    labels = truth.sample(300, random_state=1)
    found = measured(calibration, production, labels).categories["fraud"].transport
    joined = labels.merge(scores, on="trace_id", suffixes=("", "_score"))
    flagged, harm = joined["fraud_score"] > 0.5, joined["fraud"] == 1
    counts = LabelledCounts(
        violating_flagged=int((harm & flagged).sum()), violating_passed=int((harm & ~flagged).sum()),
        clean_flagged=int((~harm & flagged).sum()), clean_passed=int((~harm & ~flagged).sum()),
    )  # fmt: skip
    n_flagged = int((scores["fraud"] > 0.5).sum()) - counts.n_flagged
    expected = prediction_powered_rate(counts, n_flagged=n_flagged, n_rest=1700)
    assert found is not None
    assert found.prediction_powered == expected


def test_the_assessment_is_cores_own_on_the_effective_golden_rates(calibration: Calibration, production: Any) -> None:
    result = measured(calibration, production, production[0].sample(300, random_state=1))
    rows = {"composite": result.composite, **result.categories}
    cases = {}
    for name, row in rows.items():
        effective, found = row.prevalence.effective, row.transport
        assert effective is not None
        assert found is not None
        assert found.prediction_powered is not None
        powered = found.prediction_powered
        hits, passes = found.sensitivity.found, found.specificity.found
        assert hits is not None
        assert passes is not None
        n_negative = powered.n_labelled - powered.n_positive
        cases[name] = TransportCase(
            golden=GoldenRates(
                sensitivity=effective.sensitivity, n_positive=effective.n_positive,
                specificity=effective.specificity, n_negative=effective.n_negative,
            ),
            labelled=LabelledCounts(
                violating_flagged=round(hits * powered.n_positive),
                violating_passed=round((1 - hits) * powered.n_positive),
                clean_flagged=round((1 - passes) * n_negative), clean_passed=round(passes * n_negative),
            ),
            n_flagged=round((found.flag_rate.reference or 0) * powered.n_rest), n_rest=powered.n_rest, corrected=True,
        )  # fmt: skip
    expected = assess_transport(cases)
    assert {name: row.transport for name, row in rows.items()} == expected


def test_a_judge_that_is_worse_in_production_is_found_and_the_labels_are_read(
    calibration: Calibration, production: Any
) -> None:
    result = measured(calibration, production, production[0].sample(300, random_state=1))
    found, truth = result.composite.transport, (production[0][list(NAMES)].max(axis=1)).mean()
    assert found is not None
    assert (found.choice, found.specificity.finding) == ("ppi", "differs")
    assert found.prediction_powered is not None
    assert found.prediction_powered.low < truth < found.prediction_powered.high
    interval = result.composite.prevalence.interval
    assert interval is not None
    assert interval.low > truth  # spec. fell by 10 points a category: the corrected rate is far too high


def test_the_corrected_rate_is_the_same_with_labels_and_without(calibration: Calibration, production: Any) -> None:
    with_them = measured(calibration, production, production[0].sample(300, random_state=1))
    without = core.measure(production[1], calibration)
    assert replace(with_them.composite, transport=None) == without.composite
    assert without.composite.transport is None
    assert without.labels is None


def test_only_traces_with_a_label_of_every_category_speak_of_the_composite(
    calibration: Calibration, production: Any
) -> None:
    labels = production[0].sample(400, random_state=1).astype({"hate": "Int64"})
    labels.loc[labels.index[:150], "hate"] = pd.NA
    result = measured(calibration, production, labels)
    transport = result.composite.transport
    assert transport is not None
    assert transport.prediction_powered is not None
    assert transport.prediction_powered.n_labelled == 250
    assert result.labels is not None
    assert (result.labels.n_traces, result.labels.n_incomplete) == (400, 150)
    assert any("lack a label of some category" in note for note in result.notes)
    fraud = result.categories["fraud"].transport
    assert fraud is not None
    assert fraud.prediction_powered is not None
    assert fraud.prediction_powered.n_labelled == 400


def test_labelled_units_that_are_not_fully_scored_are_no_part_of_it(calibration: Calibration, production: Any) -> None:
    truth, scores = production[0], production[1].copy()
    labels = truth.sample(300, random_state=1)
    scores.loc[labels.index[:40], "hate"] = None
    transport = measured(calibration, (truth, scores), labels).composite.transport
    assert transport is not None
    assert transport.prediction_powered is not None
    assert (transport.prediction_powered.n_labelled, transport.prediction_powered.n_rest) == (260, 1700)


def test_enriched_labels_are_told_to_be_no_random_part(calibration: Calibration) -> None:
    production = world(2000, 5)
    weights = np.where(production[0][list(NAMES)].max(axis=1) == 1, 8.0, 1.0)
    result = measured(calibration, production, production[0].sample(300, random_state=1, weights=weights))
    assert result.composite.transport is not None
    assert result.composite.transport.choice == "corrected"
    assert any(note.startswith("the labelled traces are flagged at another rate") for note in result.notes)


def test_labels_of_other_traces_are_refused_or_counted(calibration: Calibration, production: Any) -> None:
    labels = pd.concat([production[0].head(60), world(10, 9)[0]])
    with pytest.raises(InputError, match="10 labelled traces of 70 not in production: '9-0'"):
        measured(calibration, production, labels)
    result = measured(calibration, production, labels, allow_unmatched=True)
    assert result.labels is not None
    assert (result.labels.n_traces, result.labels.n_unmatched) == (60, 10)
    with pytest.raises(InputError, match="10 labelled traces of 10 not in production"):
        measured(calibration, production, world(10, 9)[0], allow_unmatched=True)


def test_a_labelled_trace_with_several_attempts_has_no_one_label(calibration: Calibration, production: Any) -> None:
    truth, scores = production
    twice = pd.concat([scores.assign(attempt=0), scores.head(3).assign(attempt=1)]).sort_values(["trace_id", "attempt"])
    with pytest.raises(InputError, match="3 labelled traces with several attempts in production"):
        measured(calibration, (truth, twice), truth.head(60))
    chosen = measured(calibration, (truth, twice), truth.head(60), attempts="last")
    assert chosen.labels is not None
    assert chosen.labels.n_traces == 60


def test_a_category_of_the_composite_without_labels_is_refused(calibration: Calibration, production: Any) -> None:
    with pytest.raises(InputError, match="category 'hate' has no column"):
        measured(calibration, production, production[0].drop(columns="hate"))


def test_a_golden_set_that_is_declared_random_is_held_against_productions_rate_of_flags() -> None:
    spec = InstrumentSpec(golden_design="random", optimism=OptimismSpec(method="none"))
    calibration = core.calibrate(*world(600, 1), spec)
    like, unlike = (core.measure(world(2000, 3, share=share)[1], calibration) for share in (0.2, 0.4))
    for result in (like, unlike):
        assert result.composite.transport is not None
        assert result.composite.transport.choice == "corrected"
        assert result.composite.transport.sensitivity.finding == "not_tested"
        assert result.labels is None
    assert like.composite.transport is not None
    assert like.composite.transport.flag_rate.finding == "holds"
    assert not any("golden_design" in note for note in like.notes)
    assert any("declared random (golden_design)" in note for note in unlike.notes)


def test_an_enriched_golden_set_says_nothing_of_productions_rate(calibration: Calibration, production: Any) -> None:
    assert core.measure(production[1], calibration).composite.transport is None


def test_the_mix_of_categories_is_shown_and_the_robust_interval_on_demand(production: Any) -> None:
    golden = world(600, 1, share=0.4)
    plain, robust = (
        core.measure(
            production[1],
            core.calibrate(*golden, InstrumentSpec(mix_robust=asked, optimism=OptimismSpec(method="none"))),
        ).composite.prevalence
        for asked in (False, True)
    )
    assert plain.mix_robust is None
    assert [shift.pattern for shift in plain.mix_shift] == ["fraud", "hate", "several"]
    assert robust.mix_robust is not None
    assert robust.mix_robust.status == "derived"
    assert robust.lang_reiczigel is not None
    assert robust.mix_robust.low is not None
    assert robust.mix_robust.high is not None
    assert robust.mix_robust.low <= robust.lang_reiczigel.low < robust.lang_reiczigel.high <= robust.mix_robust.high
    assert replace(robust, mix_robust=None) == plain


def test_values_of_the_mix_enclose_the_corrected_rate(production: Any, calibration: Calibration) -> None:
    prevalence = core.measure(production[1], calibration).composite.prevalence
    values = [shift.value for shift in prevalence.mix_shift if shift.value is not None]
    assert prevalence.raw is not None
    assert min(values) <= prevalence.raw <= max(values)
