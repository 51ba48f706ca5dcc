"""What the terminal says of a record: nothing that the record does not hold."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from tasks.reporting.terminal import calibration_report, measurement_report


def shown(report: Any) -> str:
    screen = Console(file=io.StringIO(), width=110, no_color=True, highlight=False)
    screen.print(report)
    return str(screen.file.getvalue())  # type: ignore[attr-defined]


def rates(status: str = "measured", **changed: Any) -> dict[str, Any]:
    return {
        "threshold": 0.5, "n_positive": 20, "n_negative": 30, "true_positives": 18, "true_negatives": 27,
        "sensitivity": 0.9, "specificity": 0.9, "youden_j": 0.8, "youden_j_low": 0.7, "status": status, "notes": [],
        **changed,
    }  # fmt: skip


def part(hits: int, positives: int, passes: int, negatives: int) -> dict[str, Any]:
    return {"composite": {
        "n_positive": positives, "true_positives": hits, "sensitivity": hits / positives if positives else None,
        "n_negative": negatives, "true_negatives": passes, "specificity": passes / negatives if negatives else None,
    }}  # fmt: skip


def calibration(**changed: Any) -> dict[str, Any]:
    result = {
        "instrument": "i", "judge": {"name": "guard", "version": "1"}, "judge_source": "scores", "notes": [],
        "calibration_source": "golden_set", "slices": {},
        "golden": {"n_traces": 50, "n_clusters": 50, "n_undecidable": 0},
        "categories": {"hate": rates()}, "composite": {**rates(), "categories": ["hate"]},
    }  # fmt: skip
    return {"id": "0" * 64, "spec": {"optimism": {"method": "bootstrap"}}, "result": result | changed}


def test_rates_after_the_bootstrap_are_said_to_be_corrected() -> None:
    assert "are corrected for the optimism" in shown(calibration_report(calibration()))


def test_rates_without_a_correction_are_said_to_be_apparent() -> None:
    document = calibration() | {"spec": {"optimism": {"method": "none"}}}
    text = shown(calibration_report(document))
    assert "J are apparent" in text
    assert "corrected" not in text


def test_declared_rates_are_said_to_be_declared() -> None:
    document = calibration(calibration_source="declared", golden=None) | {"spec": {}}
    text = shown(calibration_report(document))
    assert "are as declared, and were not measured here" in text
    assert "corrected" not in text


def test_a_composite_of_nothing_shows_no_counts() -> None:
    composite = {**rates("not_calibrated"), "categories": []}
    text = shown(calibration_report(calibration(composite=composite)))
    assert "composite: spans no category" in text
    assert text.count("18/20") == 1


def test_the_five_worst_slices_are_shown_with_their_counts_and_the_larger_of_equals_first() -> None:
    slices = {f"s{i}": part(i, 10, 10 - i, 10) for i in range(1, 9)}
    slices |= {"large": part(10, 100, 100, 100), "blind": part(0, 4, 0, 0), "fine": part(0, 0, 9, 9)}
    text = shown(calibration_report(calibration(slices={"functionality": slices})))
    assert "Composite by functionality (11 slices, apparent)" in text
    rows = [line.split() for line in text[text.index("lowest sens") :].splitlines()[2:7]]
    assert [(row[0], row[2]) for row in rows] == [
        ("blind", "0/4"), ("large", "10/100"), ("s1", "1/10"), ("s2", "2/10"), ("s3", "3/10"),
    ]  # fmt: skip
    assert [(row[3], row[5]) for row in rows] == [
        ("s8", "2/10"), ("s7", "3/10"), ("s6", "4/10"), ("s5", "5/10"), ("s4", "6/10"),
    ]  # fmt: skip


def test_a_slice_cannot_steer_the_terminal() -> None:
    text = shown(calibration_report(calibration(slices={"[bold]x": {"[red]\x1b[31m": part(1, 2, 3, 4)}})))
    assert "[bold]x" in text
    assert "[red]\\x1b[31m" in text
    assert "\x1b" not in text


def measurement(n: int, level: float) -> dict[str, Any]:
    prevalence = {"value": 0.1, "status": "measured", "notes": [], "interval": {
        "low": 0.0, "high": 0.2, "confidence_level": level,
    }}  # fmt: skip
    row = {
        "n_units": n, "n_flagged": 1, "observed_rate": 0.1, "prevalence": prevalence,
        "observed_interval": {"status": "defined", "low": 0.0, "high": 0.2}, "worst_case": {"low": 0.0, "high": 0.2},
    }  # fmt: skip
    return {"id": "0" * 64, "result": {
        "instrument": "i", "judge": {"name": "guard", "version": "1"}, "judge_source": "scores", "target": None,
        "calibration": {"source": "golden_set"}, "composite": row, "categories": {}, "notes": [],
        "accounting": {"attempted": n, "scored": n}, "error_budget_exceeded": False,
        "n_traces": n, "n_units": n, "n_turns": n,
    }}  # fmt: skip


@pytest.mark.parametrize(
    ("n", "words"), [(1, "1 trace, 1 unit, 1 turn; 1 fully"), (2, "2 traces, 2 units, 2 turns; 2 fully")]
)
def test_one_is_singular(n: int, words: str) -> None:
    assert words in shown(measurement_report(measurement(n, 0.95)))


@pytest.mark.parametrize(
    ("level", "words"),
    [(0.95, "(95% interval)"), (0.9, "(90% interval)"), (1 - 2**-53, "(99.99999999999999% interval)")],
)
def test_a_confidence_level_is_shown_with_all_its_digits(level: float, words: str) -> None:
    assert words in shown(measurement_report(measurement(20, level)))
