"""What is a policy and what is none; where a metric's path leads."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.gates.paths import parse_metric, places, shown
from core.gates.policy import Policy, Rule, RuleException

RULE: dict[str, Any] = {"rule": "rate", "metric": "a.b", "bound": "high", "op": "<=", "threshold": 0.1}
EXCEPTION = {
    "rule": "rate", "record": "ab" * 32, "owner": "release manager", "reason": "mended in the next release",
    "expires": "2027-01-31",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"rule": " "}, "rule"),
        ({"threshold": math.nan}, "threshold"),
        ({"threshold": math.inf}, "threshold"),
        ({"min_n": 0}, "min_n"),
        ({"min_coverage": 1.01}, "min_coverage"),
        ({"min_coverage": math.nan}, "min_coverage"),
        ({"metric": ""}, "metric"),
        ({"metric": "a..b"}, "metric"),
        ({"metric": "a.b."}, "metric"),
        ({"metric": 'a."b'}, "metric"),
        ({"metric": '"a"b'}, "metric"),
        ({"metric": ".".join("a" * 51)}, "metric"),
        ({"schema": "measurment"}, "schema"),
        ({"schema": "gate"}, "schema"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(UndefinedError) as told:
        Rule(**{**RULE, **changed})
    assert told.value.field == field


@pytest.mark.parametrize("schema", ["measurement", "assay.measurement", "assay.measurement/1"])
def test_a_kind_of_record_may_be_written_as_records_write_it(schema: str) -> None:
    assert Rule(**RULE, schema=schema).schema == "measurement"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"record": ""}, "record"),
        ({"record": "*"}, "record"),
        ({"record": "ab" * 6}, "record"),
        ({"owner": ""}, "owner"),
        ({"reason": "too short"}, "reason"),
        ({"reason": "x" + " " * 30 + "y"}, "reason"),
        ({"expires": "never"}, "expires"),
        ({"expires": "20270131"}, "expires"),
        ({"expires": "2027-02-30"}, "expires"),
    ],
)
def test_an_exception_without_record_owner_reason_or_day_is_refused(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(UndefinedError) as told:
        RuleException(**{**EXCEPTION, **changed})
    assert told.value.field == field


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"rules": ()}, "rules"),
        ({"rules": (Rule(**RULE), Rule(**RULE))}, "rules"),
        ({"name": ""}, "name"),
        ({"error_budget": 1.5}, "error_budget"),
        ({"error_budget": math.nan}, "error_budget"),
        ({"exceptions": (RuleException(**{**EXCEPTION, "rule": "other"}),)}, "exceptions"),
        ({"exceptions": (RuleException(**EXCEPTION), RuleException(**EXCEPTION))}, "exceptions"),
    ],
)
def test_a_policy_that_would_pass_everything_or_contradicts_itself_is_refused(
    changed: dict[str, Any], field: str
) -> None:
    with pytest.raises(UndefinedError) as told:
        Policy(**{"name": "p", "rules": (Rule(**RULE),), **changed})
    assert told.value.field == field


NAMES = st.text(min_size=1, max_size=6).filter(lambda text: '"' not in text)


@given(st.lists(st.none() | NAMES, min_size=1, max_size=5))
def test_a_path_that_is_shown_reads_back_as_itself(steps: list[str | None]) -> None:
    assert parse_metric(shown(steps)) == tuple(steps)


def test_a_wildcard_leads_to_every_name_in_order_and_a_quoted_star_to_a_star() -> None:
    result = {"groups": {"b": {"r": 1}, "U.S.": {"r": 2}, "*": {"r": 3}}}
    found = [(place.metric, place.chain[-1]) for place in places(result, parse_metric("groups.*.r"))]
    assert found == [('groups."*".r', 3), ('groups."U.S.".r', 2), ("groups.b.r", 1)]
    assert [place.chain[-1] for place in places(result, parse_metric('groups."*".r'))] == [3]


def test_a_list_is_walked_by_number() -> None:
    result = {"cells": [{"c": 0.9}, {"c": 0.95}]}
    assert [place.metric for place in places(result, parse_metric("cells.*.c"))] == ["cells.0.c", "cells.1.c"]
    assert [place.chain[-1] for place in places(result, parse_metric("cells.1.c"))] == [0.95]


@pytest.mark.parametrize(
    ("metric", "why"),
    [
        ("composit.rate", "the result has no 'composit'; is 'composite' meant?"),
        ("composite.rate.high", "composite.rate has no 'high'"),
        ("categories.*.rate", "categories holds nothing that * could stand for"),
        ("composite.*.rate", "composite.rate has no 'rate'"),
    ],
)
def test_a_path_that_leads_nowhere_is_one_place_that_says_so(metric: str, why: str) -> None:
    (place,) = places({"composite": {"rate": 0.1}, "categories": {}}, parse_metric(metric))
    assert (place.chain, place.why) == ((), why)
