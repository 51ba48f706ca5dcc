"""A gate for people and for CI systems: whatever the names in it, JUnit stays XML and Markdown stays text."""

from __future__ import annotations

import io
from typing import Any
from xml.etree import ElementTree

import pytest
from rich.console import Console

from core.gates.evaluation import evaluate
from core.gates.policy import Policy, Rule, RuleException
from core.records import seal
from tasks.reporting.gate_report import gate_markdown, gate_report
from tasks.reporting.junit import gate_junit

ID = "ab" * 32
RATES = {
    "good": {"status": "measured", "value": 0.02, "interval": {"low": 0.01, "high": 0.04}, "n": 50},
    "bad": {"status": "measured", "value": 0.2, "interval": {"low": 0.1, "high": 0.3}, "n": 50},
    "open": {"status": "measured", "value": 0.04, "interval": {"low": 0.02, "high": 0.06}, "n": 400},
}
HOSTILE = "\x1b[31m\x00<b>&]]>\"'|`[x](javascript:y)\n# \ud800\uffff"


def document(*names: str, severity: Any = "block", excepted: tuple[str, ...] = (), policy: str = "release") -> Any:
    rules = tuple(
        Rule(rule=f"{name} rate", metric=f'"{name}"', bound="high", op="<=", threshold=0.05, severity=severity)
        for name in names
    )
    exceptions = tuple(
        RuleException(
            rule=f"{name} rate", record=ID, owner="release manager", reason="mended in the next release",
            expires="2027-01-31",
        )
        for name in excepted
    )  # fmt: skip
    record = {"id": ID, "schema": "assay.audit/1", "spec": {"confidence_level": 0.95}, "result": RATES}
    gate = evaluate(Policy(name=policy, rules=rules, exceptions=exceptions), [record], today="2026-11-30")
    return seal("assay.gate", spec={}, seed=0, inputs=[], result=gate, created="2026-11-30T10:00:00Z", software={})


def shown(made: Any) -> str:
    screen = Console(file=io.StringIO(), width=140, no_color=True)
    screen.print(gate_report(made))
    return screen.file.getvalue()  # type: ignore[attr-defined,no-any-return]


def suites(made: Any) -> ElementTree.Element:
    return ElementTree.fromstring(gate_junit(made))


def test_junit_has_a_failure_for_what_fails_and_an_error_for_what_lacks_evidence() -> None:
    root = suites(document("good", "bad", "open", "absent"))
    assert {name: root.get(name) for name in ("tests", "failures", "errors")} == {
        "tests": "4", "failures": "1", "errors": "2",
    }  # fmt: skip
    cases = {case.get("classname"): [child.tag for child in case] for case in root.iter("testcase")}
    assert cases == {
        "release.good rate": [], "release.bad rate": ["failure"], "release.open rate": ["error"],
        "release.absent rate": ["error"],
    }  # fmt: skip
    assert [error.get("type") for error in root.iter("error")] == ["insufficient_evidence"] * 2
    (failure,) = root.iter("failure")
    assert failure.get("message") == "nothing in the interval is <= 0.05: high end 0.3, value 0.2"
    assert failure.text.startswith("high <= 0.05, value 0.2, [0.1, 0.3]")
    absent = next(case for case in root.iter("testcase") if case.get("classname") == "release.absent rate")
    assert absent[0].text == "high <= 0.05, no value"


@pytest.mark.parametrize("excepted", [(), ("bad",)])
def test_junit_tells_what_counts_as_passed_and_does_not_hold(excepted: tuple[str, ...]) -> None:
    root = suites(document("bad", severity="escalate", excepted=excepted))
    assert (root.get("failures"), root.get("errors")) == ("0", "0")
    (said,) = root.iter("system-out")
    assert ("excepted" if excepted else "a review is required") in str(said.text)


def test_hostile_names_break_neither_xml_nor_the_terminal() -> None:
    made = document("bad", policy="release")
    made["result"]["policy"] = made["result"]["rules"][0]["rule"] = made["result"]["rules"][0]["reason"] = HOSTILE
    made["result"]["rules"][0]["metric"] = made["result"]["notes"] = HOSTILE
    made["result"]["notes"] = [HOSTILE]
    root = ElementTree.fromstring(gate_junit(made).encode("utf-8"))  # as a CI system reads it
    (case,) = root.iter("testcase")
    assert "<b>&]]>" in str(case.get("classname"))
    for text in (shown(made), gate_markdown(made)):
        assert "\x1b" not in text
        assert "\x00" not in text


def test_hostile_names_add_no_markup_and_no_cell_to_a_comment() -> None:
    made = document("good", "bad")
    rows = [line for line in gate_markdown(made).splitlines() if line.startswith("|")]
    made["result"]["rules"][0]["metric"] = made["result"]["rules"][1]["reason"] = HOSTILE
    hostile = gate_markdown(made)
    assert len([line for line in hostile.splitlines() if line.startswith("|")]) == len(rows)
    assert "[x](" not in hostile
    assert "<b>" not in hostile


def test_what_stops_the_release_comes_first_in_a_comment() -> None:
    lines = gate_markdown(document("good", "open", "bad")).splitlines()
    assert lines[0] == "## Gate release: FAIL"
    rows = [line.split("|")[7].strip() for line in lines if line.startswith("| ") and "figure" not in line]
    assert rows == ["**fail**", "**insufficient evidence**", "pass"]
    assert "about 1200 more units" in "\n".join(lines)


def test_a_comment_stays_within_what_a_platform_takes() -> None:
    made = document("good")
    made["result"]["rules"] *= 500
    text = gate_markdown(made)
    assert len(text) < 60_000
    assert "400 more are in the record" in text


@pytest.mark.parametrize(
    ("names", "more", "expected"),
    [
        (("good",), {}, ["PASS  1 passed"]),
        (("good", "bad"), {}, ["FAIL  1 passed, 1 failed", "nothing in the interval is <= 0.05"]),
        (("open",), {}, ["INSUFFICIENT EVIDENCE", "about 1200 more units: pass", "minimum detectable effect"]),
        (("bad",), {"severity": "escalate"}, ["PASS", "a review is required", "fail, escalated"]),
        (("bad",), {"excepted": ("bad",)}, ["PASS", "fail, excepted", "exception applied", "release manager"]),
        (("open",), {"excepted": ("open",)}, ["INSUFFICIENT", "exception refused", "no exception stands in for"]),
    ],
)
def test_the_terminal_says_verdict_reason_and_what_is_needed(names: Any, more: Any, expected: list[str]) -> None:
    text = shown(document(*names, **more))
    for part in expected:
        assert part in text
