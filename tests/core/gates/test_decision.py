"""The decision table of SPEC 16.2, cell by cell, and what can never happen whatever the numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.gates.decision import Reading, decide, minimum_detectable_effect, needed, satisfies
from core.inference.intervals import wilson_interval
from core.inference.prevalence import corrected_prevalence

P, F, I = "pass", "fail", "insufficient_evidence"  # noqa: E741 (the table's columns)

# Interval [.2, .4], value .3; thresholds below, in the lower half, in the upper half, above; and at both ends and the
# value. The expected verdicts are written out by hand from SPEC 16.2.
THRESHOLDS = (0.1, 0.2, 0.25, 0.3, 0.35, 0.4, 0.5)
TABLE = {
    ("<=", "high"): (F, I, I, I, I, P, P),
    ("<=", "point"): (F, F, F, P, P, P, P),
    ("<=", "low"): (F, P, P, P, P, P, P),
    ("<", "high"): (F, F, I, I, I, I, P),
    ("<", "point"): (F, F, F, F, P, P, P),
    ("<", "low"): (F, F, P, P, P, P, P),
    (">=", "low"): (P, P, I, I, I, I, F),
    (">=", "point"): (P, P, P, P, F, F, F),
    (">=", "high"): (P, P, P, P, P, P, F),
    (">", "low"): (P, I, I, I, I, F, F),
    (">", "point"): (P, P, P, F, F, F, F),
    (">", "high"): (P, P, P, P, P, F, F),
}
RATE = Reading(value=0.3, low=0.2, high=0.4, confidence_level=0.95, n=100)


@pytest.mark.parametrize(("op", "bound"), TABLE)
def test_every_cell_of_the_decision_table(op: Any, bound: Any) -> None:
    assert tuple(decide(RATE, bound=bound, op=op, threshold=t) for t in THRESHOLDS) == TABLE[op, bound]


def test_the_table_has_every_operator_and_bound() -> None:
    assert set(TABLE) == set(itertools.product(("<", "<=", ">", ">="), ("point", "low", "high")))


@pytest.mark.parametrize(
    ("reading", "bound", "op", "threshold", "verdict"),
    [
        (Reading(value=0.3, high=0.4), "high", "<=", 0.5, P),
        (Reading(value=0.3, high=0.4), "high", "<=", 0.35, I),
        (Reading(value=0.3, high=0.4), "high", "<=", 0.25, F),
        (Reading(value=0.3, low=0.2), "low", ">=", 0.1, P),
        (Reading(value=0.3, low=0.2), "low", ">=", 0.25, I),
        (Reading(value=0.3, low=0.2), "low", ">=", 0.35, F),
        (Reading(high=0.4), "high", "<=", 0.3, I),
    ],
)
def test_where_only_the_named_end_is_known_the_value_stands_for_the_other(
    reading: Reading, bound: Any, op: Any, threshold: float, verdict: str
) -> None:
    assert decide(reading, bound=bound, op=op, threshold=threshold) == verdict


# 0.1 + 0.2 > 0.3 in floating point: what a record holds is rounded to 12 digits before it comes here.
def test_nothing_is_rounded_before_it_is_compared() -> None:
    assert satisfies(0.2049, "<=", 0.2049)
    assert not satisfies(0.2049, "<=", 0.20)  # seed upstream's chapter 8 rounds to .20 and passes


NUMBERS = st.floats(min_value=-2, max_value=2)
ANYTHING = st.one_of(st.none(), st.just(math.nan), st.just(math.inf), st.just(-math.inf), NUMBERS)
OPS: Any = st.sampled_from(["<", "<=", ">", ">="])
BOUNDS: Any = st.sampled_from(["point", "low", "high"])


@given(value=ANYTHING, low=ANYTHING, high=ANYTHING, bound=BOUNDS, op=OPS, threshold=NUMBERS)
def test_a_pass_needs_a_finite_number_at_the_bound_that_is_what_the_rule_asks_for(
    value: Any, low: Any, high: Any, bound: Any, op: Any, threshold: float
) -> None:
    read = {"point": value, "low": low, "high": high}[bound]
    verdict = decide(Reading(value=value, low=low, high=high), bound=bound, op=op, threshold=threshold)
    if read is None or not math.isfinite(read):
        assert verdict == I
    else:
        assert (verdict == P) is satisfies(read, op, threshold)


@given(ends=st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted), bound=BOUNDS, op=OPS, t=st.tuples(NUMBERS, NUMBERS))
def test_a_more_lenient_threshold_never_makes_a_verdict_worse(
    ends: list[float], bound: Any, op: Any, t: tuple[float, float]
) -> None:
    reading = Reading(low=ends[0], value=ends[1], high=ends[2])
    strict, lenient = sorted(t) if op in ("<", "<=") else sorted(t, reverse=True)
    rank = {F: 0, I: 1, P: 2}
    assert (
        rank[decide(reading, bound=bound, op=op, threshold=strict)]
        <= rank[decide(reading, bound=bound, op=op, threshold=lenient)]
    )


@given(ends=st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted), bound=BOUNDS, op=OPS, threshold=NUMBERS)
def test_low_and_high_change_places_when_everything_is_mirrored(
    ends: list[float], bound: Any, op: Any, threshold: float
) -> None:
    mirror: Any = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "low": "high", "high": "low", "point": "point"}
    plain = decide(Reading(low=ends[0], value=ends[1], high=ends[2]), bound=bound, op=op, threshold=threshold)
    turned = Reading(low=-ends[2], value=-ends[1], high=-ends[0])
    assert plain == decide(turned, bound=mirror[bound], op=mirror[op], threshold=-threshold)


def test_as_many_units_as_are_needed_decide_at_the_present_rate() -> None:
    """The plain Wilson interval at the present rate, with the number of units that was asked for."""
    now = wilson_interval(30, 500)
    rate = Reading(value=0.06, low=now.low, high=now.high, confidence_level=0.95, n=500)
    found = needed(rate, bound="high", op="<=", threshold=0.07)
    assert found is not None
    assert found.decides == P
    assert found.n_more is not None
    n = 500 + found.n_more
    assert wilson_interval(round(0.06 * n), n).high == pytest.approx(0.07, abs=0.0015)


def test_units_alone_decide_only_where_the_doubt_about_the_judge_leaves_room() -> None:
    """1000 golden traces a class: what more production leaves of the corrected interval is the judge's part."""

    def rate(n: int) -> Any:
        return corrected_prevalence(
            n_flagged=round(0.2 * n),
            n_traces=n,
            true_positives=850,
            n_positive=1000,
            true_negatives=900,
            n_negative=1000,
        )

    now = rate(400)
    effective = {
        "n_units": 400, "n_flagged": 80, "n_positive": 1000, "true_positives": 850, "n_negative": 1000,
        "true_negatives": 900,
    }  # fmt: skip
    from core.gates.evidence import _unit_share

    share = _unit_share({"value": now.value, "effective": effective})
    assert 0.5 < share < 1.0
    reading = Reading(
        value=now.value, low=now.interval.low, high=now.interval.high, confidence_level=0.95, n=400, unit_share=share
    )
    margin = now.interval.high - now.value
    found = needed(reading, bound="high", op="<=", threshold=now.value + 0.75 * margin)
    assert found is not None
    assert found.n_more is not None
    then = rate(400 + found.n_more)
    assert then.interval.high - then.value == pytest.approx(0.75 * margin, rel=0.03)

    limit = rate(4_000_000)  # no doubt about production is left
    out_of_reach = needed(
        reading, bound="high", op="<=", threshold=now.value + 0.9 * (limit.interval.high - limit.value)
    )
    assert out_of_reach is not None
    assert out_of_reach.n_more is None
    assert "more units alone do not decide" in out_of_reach.says


def test_what_fails_at_the_present_value_is_told_as_a_failure_to_come() -> None:
    found = needed(replace(RATE, n=100), bound="high", op="<=", threshold=0.25)
    assert found is not None
    assert (found.decides, found.n_more) == (F, 300)  # .1 down to .05: four times as many


def test_a_value_at_the_threshold_is_never_decided() -> None:
    found = needed(RATE, bound="high", op="<=", threshold=0.3)
    assert found is not None
    assert (found.n_more, found.decides) == (None, None)
    assert "no amount of evidence" in found.says


@pytest.mark.parametrize("threshold", [0.1, 0.5])
def test_nothing_is_needed_where_the_evidence_decides(threshold: float) -> None:
    assert needed(RATE, bound="high", op="<=", threshold=threshold) is None


@given(ends=st.tuples(NUMBERS, NUMBERS, NUMBERS).map(sorted), bound=BOUNDS, op=OPS, threshold=NUMBERS)
def test_what_is_needed_is_more_than_there_is_and_is_finite(
    ends: list[float], bound: Any, op: Any, threshold: float
) -> None:
    reading = Reading(low=ends[0], value=ends[1], high=ends[2], n=50, unit_share=0.7)
    found = needed(reading, bound=bound, op=op, threshold=threshold)
    if found is not None and found.growth is not None:
        assert 1.0 < found.growth <= 1e6 * (1 + 1e-9)
        assert found.n_more is None or found.n_more >= 1


def test_the_minimum_detectable_effect_is_decided_in_four_of_five_repetitions() -> None:
    """By enumeration: with the true rate that far under the threshold, the Wilson interval passes in about .80."""
    from scipy.stats import binom

    n, threshold = 2000, 0.10
    x = np.arange(n + 1)
    highs = np.array([wilson_interval(int(k), n).high for k in range(300)] + [1.0] * (n + 1 - 300))

    def power(rate: float) -> float:
        return float(binom.pmf(x, n, rate)[highs <= threshold].sum())

    rate = 0.0812  # the fixed point: a rate whose own effect leads to the threshold
    at = wilson_interval(round(rate * n), n)
    effect = minimum_detectable_effect(Reading(value=rate, low=at.low, high=at.high, confidence_level=0.95), op="<=")
    assert effect == pytest.approx(threshold - rate, abs=0.001)
    assert power(rate) == pytest.approx(0.80, abs=0.03)


def test_without_an_interval_or_its_level_there_is_no_detectable_effect() -> None:
    assert minimum_detectable_effect(Reading(value=0.1), op="<=") is None
    assert minimum_detectable_effect(replace(RATE, confidence_level=None), op="<=") is None
