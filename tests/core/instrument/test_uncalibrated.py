"""Scores of a judge that nobody has calibrated: the observed rate at a conventional threshold, and nothing more."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.instrument.measured import Measured, Measurement
from core.instrument.spec import InstrumentSpec, Uncalibrated
from core.instrument.uncalibrated import REASONS
from flows.pipelines.measurement import derive_uncalibrated, uncalibrated_spec
from tasks.readers import reader_names
from tasks.storage import find_inputs

WHY: Uncalibrated = "no_champion"
REASON = REASONS[WHY]


def measured(folder: Path, text: str, spec: InstrumentSpec | None = None, why: Uncalibrated = WHY) -> Measurement:
    path = folder / "scores.csv"
    path.write_text(text)
    derived, _ = derive_uncalibrated(
        find_inputs([str(path)], reader_names()), uncalibrated_spec(spec or InstrumentSpec(name="x"), why)
    )
    found = derived.result
    assert isinstance(found, Measurement)
    return found


@pytest.fixture
def measurement(tmp_path: Path) -> Measurement:
    rows = ["a,0.5,0.1", "b,0.49,0.2", "c,0.9,0.8", "d,0.1,0.5", "e,0.1,"]
    return measured(tmp_path, "\n".join(["trace_id,hate,violence", *rows, ""]))


def rates(measurement: Measurement) -> list[Measured]:
    return [measurement.composite, *measurement.categories.values()]


def test_flags_are_scores_of_one_half_or_more(measurement: Measurement) -> None:
    hate, violence = measurement.categories["hate"], measurement.categories["violence"]
    assert (hate.n_flagged, hate.n_units, hate.observed_rate) == (2, 5, 0.4)
    assert (violence.n_flagged, violence.n_units, violence.observed_rate) == (2, 4, 0.5)
    assert (measurement.composite.n_flagged, measurement.composite.n_units) == (3, 4)


def test_everything_is_not_calibrated_and_nothing_is_corrected(measurement: Measurement) -> None:
    for rate in rates(measurement):
        prevalence = rate.prevalence
        assert prevalence.status == "not_calibrated"
        assert prevalence.notes == (REASON,)
        figures = (
            prevalence.value, prevalence.raw, prevalence.interval, prevalence.lang_reiczigel, prevalence.melded,
            prevalence.delta, prevalence.apparent, prevalence.effective,
        )  # fmt: skip
        assert figures == (None,) * 8
        assert prevalence.judge_shift == ()


def test_the_calibration_is_said_to_be_none_and_why(measurement: Measurement) -> None:
    link = measurement.calibration
    assert (link.id, link.source) == ("", "none")
    assert measurement.notes == (
        f"not calibrated: {REASON}",
        "flagged at a score of 0.5, a convention; the observed rate is the judge's own",
    )
    assert measurement.judge_accepted is False


def test_what_is_missing_is_counted_and_bounds_the_worst_case(measurement: Measurement) -> None:
    assert measurement.accounting["attempted"] == 5
    assert measurement.accounting["scored"] == 4
    assert measurement.unscored_share == pytest.approx(0.2)
    assert measurement.error_budget_exceeded
    bounds = measurement.composite.worst_case
    assert bounds is not None
    assert (bounds.low, bounds.high) == (0.6, 0.8)


def test_the_instruments_categories_decide_when_it_has_some(tmp_path: Path) -> None:
    spec = InstrumentSpec(name="x", categories=("violence", "hate"))
    found = measured(tmp_path, "trace_id,hate,violence\na,0.9,0.1\nb,0.1,0.1\n", spec)
    assert found.composite_categories == tuple(found.categories) == ("violence", "hate")
    assert [rate.n_flagged for rate in found.categories.values()] == [0, 1]


def test_attempts_and_turns_count_as_the_instrument_declares(tmp_path: Path) -> None:
    rows = ["a,1,0,0.1", "a,1,1,0.9", "a,2,0,0.1", "b,1,0,0.1"]
    text = "\n".join(["trace_id,attempt,turn,hate", *rows, ""])
    spec = InstrumentSpec(name="x")
    for attempts, expected in (("each", (1, 3)), ("last", (0, 2)), ("any", (1, 2))):
        composite = measured(tmp_path, text, replace(spec, attempts=attempts)).composite
        assert (composite.n_flagged, composite.n_units) == expected


def test_the_judge_is_the_scores_own(tmp_path: Path) -> None:
    named = measured(tmp_path, "trace_id,hate,judge,target\na,0.9,guard@2,bot@1\n")
    assert (str(named.judge), named.judge_source, named.target) == ("guard@2", "scores", "bot@1")
    assert str(measured(tmp_path, "trace_id,hate\na,0.9\n").judge) == "unknown@unknown"
