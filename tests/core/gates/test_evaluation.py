"""A policy held against records: what is evidence, what the gate says, and what an exception can do."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import UndefinedError
from core.gates.evaluation import Gate, evaluate
from core.gates.policy import Policy, Rule, RuleException
from core.records import plain

TODAY = "2026-11-30"
ID = "ab" * 32


def rule(**changed: Any) -> Rule:
    base = {"rule": "rate", "metric": "composite.prevalence", "bound": "high", "op": "<=", "threshold": 0.05}
    return Rule(**{**base, **changed})


def policy(*rules: Rule, **more: Any) -> Policy:
    return Policy(name="p", rules=rules or (rule(),), **more)


def figure(value: float | None = 0.02, low: float | None = 0.01, high: float | None = 0.04, **more: Any) -> Any:
    interval = None if low is None else {"low": low, "high": high, "method": "m", "confidence_level": 0.95}
    return {"status": "measured", "value": value, "interval": interval, "lang_reiczigel": None, **more}


def record(prevalence: Any = None, *, schema: str = "measurement", record_id: str = ID, **result: Any) -> Any:
    composite = {"n_units": 400, "prevalence": prevalence or figure()}
    return {
        "id": record_id,
        "schema": f"assay.{schema}/1",
        "spec": {"confidence_level": 0.95, "error_budget": 0.05},
        "result": {"composite": composite, **result},
    }


def exception(**changed: Any) -> RuleException:
    base = {
        "rule": "rate", "record": ID, "owner": "release manager", "reason": "mended in the next release",
        "expires": "2027-01-31",
    }  # fmt: skip
    return RuleException(**{**base, **changed})


FAILING = figure(0.2, 0.1, 0.3)
OPEN = figure(0.04, 0.02, 0.07)


def told(gate: Gate) -> tuple[str, bool]:
    return gate.verdict, gate.review_required


@pytest.mark.parametrize(("found", "verdict"), [(figure(), "pass"), (FAILING, "fail"), (OPEN, "insufficient_evidence")])
def test_the_interval_decides(found: Any, verdict: str) -> None:
    gate = evaluate(policy(), [record(found)])
    assert told(gate) == (verdict, False)
    (row,) = gate.rules
    assert (row.verdict, row.counts_as, row.record, row.metric) == (verdict, verdict, ID, "composite.prevalence")
    assert (row.value, row.read, row.n) == (found["value"], found["interval"]["high"], 400)


def damaged(**changed: Any) -> Any:
    return record(figure(**changed))


NOT_EVIDENCE: dict[str, tuple[Any, dict[str, Any], str]] = {
    "no value": (damaged(value=None), {}, "there is no value"),
    "nan": (damaged(value=math.nan), {}, "'nan' is no finite number"),
    "text": (damaged(value="0.01"), {}, "'0.01' is no finite number"),
    "truth value": (damaged(value=True), {}, "'True' is no finite number"),
    "huge": (damaged(value=10**400), {}, "is no finite number"),
    "no interval": (damaged(low=None), {}, "the record gives no interval"),
    "nan in the interval": (damaged(high=math.nan), {}, "the record gives no interval"),
    "infinite end": (damaged(high=math.inf), {}, "the record gives no interval"),
    "no width": (damaged(low=0.02, high=0.02), {}, "the interval has no width"),
    "degenerate": (
        record(figure(delta={"low": 0.0, "high": 0.01, "degenerate": True})),
        {"interval": "delta"},
        "the interval has no width",
    ),
    "wrong way round": (damaged(low=0.04, high=0.01), {}, "the wrong way round"),
    "other interval": (record(), {"interval": "melded"}, "the record gives no interval 'melded'"),
    "undefined interval": (
        record(figure(interval={"status": "undefined", "low": 0.0, "high": 0.01})),
        {},
        "the interval is undefined",
    ),
    "inconclusive": (damaged(status="inconclusive"), {}, "status inconclusive"),
    "incompatible": (damaged(status="incompatible", value=None, low=None), {}, "status incompatible"),
    "unit mismatch": (damaged(status="unit_mismatch", value=None, low=None), {}, "status unit_mismatch"),
    "below the floor": (damaged(status="below_detection_floor"), {}, "status below_detection_floor"),
    "incomplete": (damaged(status="incomplete", reason="small_group"), {}, "status incomplete (small_group)"),
    "a status nobody knows": (damaged(status={"odd": 1}), {}, "status {'odd': 1}"),
    "missing": (record(), {"metric": "composite.prevalance"}, "is 'prevalence' meant?"),
    "empty wildcard": (record(categories={}), {"metric": "categories.*.prevalence"}, "nothing that * could stand for"),
    "several figures": (record(), {"metric": "composite"}, "no figure but holds several"),
    "too few": (record(), {"min_n": 401}, "n = 400, and the policy asks for 401"),
    "not counted": ({**record(), "result": {"x": 0.01}}, {"metric": "x", "bound": "point", "min_n": 1}, "not recorded"),
    "coverage": (damaged(coverage=0.5), {"min_coverage": 0.9}, "coverage 0.5, and the policy asks for 0.9"),
    "coverage unknown": (record(), {"min_coverage": 0.9}, "coverage not recorded"),
    "scale": (damaged(scale="natural"), {"scale": "normalised"}, "refused: the threshold was set for scale"),
    "scale unknown": (record(), {"scale": "normalised"}, "and the record names none"),
    "version": (damaged(metric_version="2"), {"metric_version": 1}, "metric_version '1', and the record has '2'"),
    "no such record": (record(), {"schema": "audit"}, "no record of kind audit was given"),
    "unscored": (record(unscored_share=0.2), {}, "0.2 (a share) of the units are not scored"),
    "over its own budget": (record(error_budget_exceeded=True), {}, "too many of the units are not scored"),
    "not comparable": (record(figure(verdict="not_comparable")), {}, "not comparable"),
    "weak certificate": (
        record(
            calibration={"id": "c", "certificate": {"coverage": 0.92, "confidence_level": 0.95, "sufficient": True}}
        ),
        {},
        "certificate is not sufficient: its intervals cover 0.92",
    ),
    "certificate that says so": (
        record(
            calibration={"id": "c", "certificate": {"coverage": 0.95, "confidence_level": 0.95, "sufficient": False}}
        ),
        {},
        "certificate is not sufficient",
    ),
    "empty certificate": (record(calibration={"id": "c", "certificate": {}}), {}, "gives no coverage"),
}


@pytest.mark.parametrize("case", NOT_EVIDENCE)
@pytest.mark.parametrize("op", ["<=", ">="])
@pytest.mark.parametrize("severity", ["block", "escalate"])
def test_what_is_no_evidence_neither_passes_nor_fails(case: str, op: str, severity: str) -> None:
    document, changed, why = NOT_EVIDENCE[case]
    gate = evaluate(policy(rule(op=op, severity=severity, **changed)), [document])
    assert told(gate) == ("insufficient_evidence", False)
    (row,) = gate.rules
    assert why in row.reason
    plain(gate)  # whatever came in, a record can hold what is said of it


def test_all_that_is_missing_is_told_at_once() -> None:
    (row,) = evaluate(policy(rule(min_n=500, scale="x")), [damaged(status="inconclusive", low=None)]).rules
    for part in ("status inconclusive", "no interval", "scale 'x'", "n = 400"):
        assert part in row.reason
    assert row.needed is not None
    assert row.needed.n_more == 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["measured", "undefined", "", "0.01"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["value", "status", "interval", "low", "high", "n", "x", "certificate"]), inner
        )
    ),
    max_leaves=12,
)


RESULTS = st.dictionaries(st.sampled_from(["x", "calibration", "unscored_share", "baseline"]), JSON)
METRICS = st.sampled_from(["x", "x.*", "*.value", "x.low", "*.*.high"])


@settings(suppress_health_check=[HealthCheck.too_slow])  # a machine that does other things as well
@given(result=RESULTS, metric=METRICS, bound=st.sampled_from(["point", "low", "high"]))
def test_whatever_a_record_holds_a_pass_rests_on_a_finite_number(result: Any, metric: str, bound: Any) -> None:
    document = {"id": ID, "schema": "assay.audit/1", "spec": {}, "result": result}
    gate = evaluate(policy(rule(metric=metric, bound=bound, op="<=", threshold=1e300)), [document])
    for row in gate.rules:
        assert row.verdict == "insufficient_evidence" or (row.read is not None and math.isfinite(row.read))
    assert gate.rules
    plain(gate)


@pytest.mark.parametrize("drop", ["value", "interval", "status"])
def test_taking_evidence_away_never_turns_a_verdict_into_a_pass(drop: str) -> None:
    for found in (FAILING, OPEN):
        lesser = {key: item for key, item in found.items() if key != drop}
        assert evaluate(policy(), [record(lesser)]).verdict != "pass"


def test_lang_reiczigel_is_read_unless_the_rule_names_another_interval() -> None:
    found = figure(0.03, 0.01, 0.10, lang_reiczigel={"low": 0.01, "high": 0.04}, melded={"low": 0.01, "high": 0.06})
    highs = {
        name: evaluate(policy(rule(interval=name)), [record(found)]).rules[0].high
        for name in (None, "interval", "melded")
    }
    assert highs == {None: 0.04, "interval": 0.10, "melded": 0.06}


def test_a_number_has_its_own_interval_and_never_its_neighbours() -> None:
    row = {
        "baseline": 0.1, "difference": 0.02, "interval": {"low": -0.01, "high": 0.05},
        "observed_rate": 0.2, "observed_interval": {"status": "defined", "low": 0.15, "high": 0.25},
        "youden_j": 0.6, "youden_j_low": 0.5,
        "ratio": 0.9, "ratio_interval": {"low": 0.8, "high": 1.0},
    }  # fmt: skip
    document = {"id": ID, "schema": "assay.comparison/1", "spec": {}, "result": row}

    def ends(metric: str, bound: Any) -> Any:
        (found,) = evaluate(policy(rule(metric=metric, bound=bound)), [document]).rules
        return found.low, found.high

    assert ends("difference", "high") == (-0.01, 0.05)
    assert ends("observed_rate", "high") == (0.15, 0.25)
    assert ends("ratio", "high") == (0.8, 1.0)
    assert ends("youden_j", "low") == (0.5, None)
    assert ends("baseline", "high") == (None, None)


def test_a_figures_value_by_its_own_name_is_the_figure() -> None:
    whole, leaf = (
        evaluate(policy(rule(metric=f"composite.prevalence{end}")), [record(OPEN)]) for end in ("", ".value")
    )
    for name in ("verdict", "value", "low", "high", "n", "needed"):
        assert getattr(whole.rules[0], name) == getattr(leaf.rules[0], name)


def test_a_rule_with_a_wildcard_has_one_verdict_a_figure() -> None:
    categories = {"hate": {"n_units": 9, "prevalence": figure()}, "self-harm": {"n_units": 8, "prevalence": FAILING}}
    gate = evaluate(policy(rule(metric="categories.*.prevalence")), [record(categories=categories)])
    assert [(row.metric, row.verdict, row.n) for row in gate.rules] == [
        ("categories.hate.prevalence", "pass", 9),
        ("categories.self-harm.prevalence", "fail", 8),
    ]
    assert told(gate) == ("fail", False)


def test_a_comparison_counts_the_smaller_side() -> None:
    compared = {
        "difference": 0.0, "interval": {"low": -0.01, "high": 0.01}, "n_pairs": 0, "verdict": "no_evidence_of_change",
        "sides": {"baseline": {"n_units": 300}, "candidate": {"n_units": 200}},
    }  # fmt: skip
    document = record(schema="comparison", categories={"hate": compared})
    (row,) = evaluate(policy(rule(metric="categories.hate.difference", min_n=200)), [document]).rules
    assert (row.n, row.verdict) == (200, "pass")


def test_fail_comes_before_insufficient_evidence_and_that_before_pass() -> None:
    rules = [rule(rule=name, metric=f"{name}.prevalence") for name in ("a", "b", "c")]
    parts: dict[str, Any] = {
        name: {"prevalence": found} for name, found in zip("abc", (figure(), OPEN, FAILING), strict=True)
    }
    assert evaluate(policy(*rules), [record(**parts)]).verdict == "fail"
    assert evaluate(policy(*rules[:2]), [record(**parts)]).verdict == "insufficient_evidence"
    assert evaluate(policy(*rules[:1]), [record(**parts)]).verdict == "pass"


def test_an_escalated_failure_passes_with_a_review() -> None:
    gate = evaluate(policy(rule(severity="escalate")), [record(FAILING)])
    assert told(gate) == ("pass", True)
    assert (gate.rules[0].verdict, gate.rules[0].counts_as) == ("fail", "pass")
    assert gate.reviews == ("rate: composite.prevalence fails and escalates",)


def test_human_review_anywhere_in_a_record_requires_a_review_whatever_the_verdict() -> None:
    for found, verdict in ((figure(), "pass"), (FAILING, "fail")):
        gate = evaluate(policy(), [record(found, hsi={"worst": [{"human_review": True}], "human_review": False})])
        assert told(gate) == (verdict, True)
        assert gate.reviews == ("abababababab: hsi.worst.0.human_review",)


def test_every_record_that_a_rule_is_about_has_to_hold() -> None:
    second = record(FAILING, record_id="cd" * 32)
    gate = evaluate(policy(), [record(), second])
    assert [row.record for row in gate.rules] == [ID, "cd" * 32]
    assert gate.verdict == "fail"


def test_a_rule_without_a_kind_is_about_each_record_even_one_without_the_figure() -> None:
    audit = {"id": "cd" * 32, "schema": "assay.audit/1", "spec": {}, "result": {}}
    assert evaluate(policy(), [record(), audit]).verdict == "insufficient_evidence"
    gate = evaluate(policy(rule(schema="measurement")), [record(), audit])
    assert gate.verdict == "pass"
    assert gate.notes == ("cdcdcdcdcdcd: no rule is about this record",)


def test_neither_the_order_of_records_nor_one_given_twice_changes_anything() -> None:
    records = [record(), record(FAILING, record_id="cd" * 32)]
    assert evaluate(policy(), records) == evaluate(policy(), [*reversed(records), records[0]])


def test_the_policys_error_budget_tightens_the_records() -> None:
    document = record(unscored_share=0.03)
    assert evaluate(policy(), [document]).verdict == "pass"
    assert evaluate(policy(error_budget=0.02), [document]).verdict == "insufficient_evidence"
    assert evaluate(policy(error_budget=0.9), [record(unscored_share=0.06)]).verdict == "insufficient_evidence"


def test_a_record_without_a_budget_has_the_usual_one() -> None:
    audit = {"id": ID, "schema": "assay.audit/1", "spec": {}}
    for share, verdict in ((0.05, "pass"), (0.06, "insufficient_evidence")):
        result = {"composite": {"prevalence": figure()}, "unscored_share": share}
        assert evaluate(policy(), [{**audit, "result": result}]).verdict == verdict


def test_a_release_of_a_comparison_that_is_over_the_budget_is_no_evidence() -> None:
    document = record(schema="comparison", candidate={"unscored_share": 0.2, "target": "bot@2"})
    gate = evaluate(policy(), [document])
    assert gate.verdict == "insufficient_evidence"
    assert gate.records[0].target == "bot@2"


def test_a_missing_certificate_is_noted_and_refused_only_where_the_policy_requires_one() -> None:
    document = record(calibration={"id": "c", "certificate": None})
    gate = evaluate(policy(), [document])
    assert gate.verdict == "pass"
    assert "no coverage certificate" in gate.notes[0]
    assert evaluate(policy(require_certificate=True), [document]).verdict == "insufficient_evidence"
    compared = record(schema="comparison", candidate={"calibration": {"id": "c", "certificate": None}})
    assert "no coverage certificate" in evaluate(policy(), [compared]).notes[0]
    assert evaluate(policy(require_certificate=True), [compared]).verdict == "insufficient_evidence"
    good = {"coverage": 0.93, "confidence_level": 0.95, "sufficient": True}
    certified = record(calibration={"id": "c", "certificate": good})
    assert evaluate(policy(require_certificate=True), [certified]).verdict == "pass"


def certified(**categories: Any) -> Any:
    certificate = {"coverage": 0.95, "mc_error": 0.005, "confidence_level": 0.95, "sufficient": True}
    return {"calibration": {"id": "c", "certificate": {**certificate, "categories": categories}}}


GOOD, WEAK = {"coverage": 0.94, "mc_error": 0.005}, {"coverage": 0.9, "mc_error": 0.005}


def verdicts(document: Any, metric: str = "categories.*.prevalence", **changed: Any) -> dict[str, str]:
    gate = evaluate(policy(rule(metric=metric, **changed)), [document])
    return {row.metric: row.verdict for row in gate.rules}


@pytest.mark.parametrize("where", ["categories", "attributes"])
def test_a_category_needs_the_coverage_of_its_own_interval_and_the_composite_that_of_the_composite(where: str) -> None:
    each = {name: {"n_units": 400, "prevalence": figure()} for name in ("hate", "sexual", "violence")}
    document = record(**{where: each}, **certified(hate=GOOD, sexual=WEAK))
    assert verdicts(document, f"{where}.*.prevalence") == {
        f"{where}.hate.prevalence": "pass",
        f"{where}.sexual.prevalence": "insufficient_evidence",
        f"{where}.violence.prevalence": "pass",  # of which the certificate does not speak
    }
    assert verdicts(document, "composite.prevalence") == {"composite.prevalence": "pass"}
    (row,) = evaluate(policy(rule(metric=f"{where}.sexual.prevalence")), [document]).rules
    assert row.reason == ("the calibration's certificate is not sufficient for sexual: its intervals cover 0.9 ± 0.005")


@pytest.mark.parametrize(
    "found",
    [{"coverage": 0.95, "mc_error": 0.05}, {"coverage": 0.95}, {"mc_error": 0.01}, {}, None, 0.95,
     {"coverage": math.nan, "mc_error": 0.001}],
)  # fmt: skip
@pytest.mark.parametrize("value", [figure(), FAILING], ids=["would pass", "would fail"])
def test_a_category_coverage_that_is_not_known_well_enough_neither_passes_nor_fails(found: Any, value: Any) -> None:
    document = record(categories={"hate": {"n_units": 400, "prevalence": value}}, **certified(hate=found))
    assert verdicts(document) == {"categories.hate.prevalence": "insufficient_evidence"}


@pytest.mark.parametrize("release", ["baseline", "candidate"])
def test_a_comparison_of_a_category_needs_the_coverage_of_both_releases(release: str) -> None:
    difference = {"status": "measured", "difference": 0.01, "interval": {"low": 0.0, "high": 0.02}}
    releases = {"baseline": certified(hate=GOOD), "candidate": certified(hate=GOOD)}
    document = record(schema="comparison", categories={"hate": difference}, **releases)
    metric = "categories.hate.difference"
    assert verdicts(document, metric) == {metric: "pass"}
    document["result"][release] = certified(hate=WEAK)
    assert verdicts(document, metric) == {metric: "insufficient_evidence"}


def test_a_composite_coverage_known_from_too_few_replications_is_no_evidence() -> None:
    few = {"coverage": 0.95, "mc_error": 0.05, "confidence_level": 0.95}
    gate = evaluate(policy(), [record(calibration={"id": "c", "certificate": few})])
    assert gate.verdict == "insufficient_evidence"
    assert "cover 0.95 ± 0.05" in gate.rules[0].reason


def test_a_simulation_needs_no_certificate_of_the_calibration_that_it_certifies() -> None:
    document = record(schema="simulation", calibration={"id": "c"}, coverage=0.95, replications=1000)
    gate = evaluate(
        policy(rule(metric="coverage", bound="point", op=">=", threshold=0.93, min_n=500), require_certificate=True),
        [document],
    )
    assert (gate.verdict, gate.notes) == ("pass", ())


def test_a_threshold_on_an_unnamed_scale_is_noted() -> None:
    gate = evaluate(policy(), [damaged(scale="jsd_base2_normalised")])
    assert gate.verdict == "pass"
    assert "on scale 'jsd_base2_normalised'" in gate.notes[0]


# Exceptions


def states(gate: Gate) -> list[tuple[str, str]]:
    return [(item.state, item.why) for item in gate.exceptions]


def test_an_exception_lets_a_blocking_failure_pass_with_a_review() -> None:
    gate = evaluate(policy(exceptions=(exception(),)), [record(FAILING)], today=TODAY)
    assert told(gate) == ("pass", True)
    assert states(gate) == [("applied", "passes with a review")]
    assert gate.rules[0].verdict == "fail"


def test_an_exception_is_the_review_of_an_escalated_failure() -> None:
    gate = evaluate(policy(rule(severity="escalate"), exceptions=(exception(),)), [record(FAILING)], today=TODAY)
    assert told(gate) == ("pass", False)
    assert gate.rules[0].verdict == "fail"


@pytest.mark.parametrize(("today", "verdict"), [("2027-01-30", "pass"), ("2027-01-31", "fail"), ("2030-01-01", "fail")])
def test_an_exception_no_longer_holds_from_its_day_on(today: str, verdict: str) -> None:
    gate = evaluate(policy(exceptions=(exception(),)), [record(FAILING)], today=today)
    assert gate.verdict == verdict
    if verdict == "fail":
        assert states(gate) == [("refused", "it expired on 2027-01-31")]


def test_an_exception_for_another_record_is_refused() -> None:
    gate = evaluate(policy(exceptions=(exception(record="cd" * 32),)), [record(FAILING)], today=TODAY)
    assert gate.verdict == "fail"
    assert states(gate) == [("refused", "it names a record that is not among these")]


@pytest.mark.parametrize("found", [OPEN, figure(status="inconclusive"), figure(value=None)])
def test_an_exception_never_stands_in_for_evidence(found: Any) -> None:
    gate = evaluate(policy(exceptions=(exception(),)), [record(found)], today=TODAY)
    assert told(gate) == ("insufficient_evidence", False)
    assert states(gate) == [("refused", "evidence is missing, which no exception stands in for")]


def test_an_exception_of_several_figures_leaves_those_without_evidence() -> None:
    categories = {"a": {"prevalence": FAILING}, "b": {"prevalence": OPEN}}
    excepted = policy(rule(metric="categories.*.prevalence"), exceptions=(exception(),))
    gate = evaluate(excepted, [record(categories=categories)], today=TODAY)
    assert gate.verdict == "insufficient_evidence"
    assert [row.counts_as for row in gate.rules] == ["pass", "insufficient_evidence"]


def test_an_exception_that_nothing_needs_is_refused_and_changes_nothing() -> None:
    gate = evaluate(policy(exceptions=(exception(),)), [record()], today=TODAY)
    assert told(gate) == ("pass", False)
    assert states(gate) == [("refused", "the rule passes without it")]


def test_an_exception_for_a_record_that_its_rule_is_not_about_is_refused() -> None:
    rules = (rule(schema="audit"), rule(rule="other"))
    gate = evaluate(policy(*rules, exceptions=(exception(),)), [record()], today=TODAY)
    assert states(gate) == [("refused", "the rule is not about this kind of record")]


def test_exceptions_need_a_day_and_a_gate_needs_a_record() -> None:
    with pytest.raises(UndefinedError, match="today"):
        evaluate(policy(exceptions=(exception(),)), [record()])
    with pytest.raises(UndefinedError, match="at least one record"):
        evaluate(policy(), [])


def test_evaluating_changes_no_record() -> None:
    document = record(FAILING, categories={"a": {"prevalence": OPEN}})
    before = copy.deepcopy(document)
    evaluate(policy(), [document])
    assert document == before


# The behaviours of FAIRBench's gate (oracles/fairness/gates.json), ours beside them


@pytest.fixture(scope="module")
def oracle(shared: Any) -> Any:
    return json.loads((shared / "oracles" / "fairness" / "gates.json").read_text())


@pytest.fixture(scope="module")
def upstream(oracle: Any) -> Policy:
    """FAIRBench's policy on points: `value > .10` is a breach, so `<= .10` is what is asked for."""
    turned: dict[str, Any] = {">": "<=", "<": ">="}
    return Policy(
        name="fairbench",
        rules=tuple(
            Rule(rule=name, metric=name, bound="point", op=turned[op], threshold=edge, severity=severity)
            for hardness, severity in (("hard", "block"), ("soft", "escalate"))
            for name, op, edge in oracle["policy"][hardness]
        ),
    )


def held(upstream: Policy, metrics: Any) -> Gate:
    values = {name: float(value) for name, value in metrics.items()}
    return evaluate(upstream, [{"id": ID, "schema": "assay.audit/1", "spec": {}, "result": values}])


OUTCOMES: dict[str, Callable[[Any], bool]] = {
    "pass": lambda row: row.verdict == "pass",
    "breach:hard": lambda row: row.verdict == "fail" and row.counts_as == "fail",
    "breach:soft": lambda row: row.verdict == "fail" and row.counts_as == "pass" and row.review,
    "not_evaluated": lambda row: row.verdict == "insufficient_evidence",
}


def test_each_figure_is_judged_as_upstream_judges_it_except_for_nan(oracle: Any, upstream: Policy) -> None:
    """Defect of upstream: `nan > 0.10` is false, so NaN passes there."""
    differing = [
        (case["case"], row.rule)
        for case in oracle["cases"]
        for row in held(upstream, case["metrics"]).rules
        if not OUTCOMES[case["expected_upstream"]["outcomes"][row.rule]](row)
    ]
    assert differing == [("TRAP NaN -> pass", "HSI")]


def test_upstream_passes_what_it_has_not_evaluated_and_we_do_not(oracle: Any, upstream: Policy) -> None:
    """Defect of upstream: a missing metric changes nothing there, so no metrics at all pass."""
    found = {
        case["case"]: (case["expected_upstream"]["exit_code"], held(upstream, case["metrics"]).verdict)
        for case in oracle["cases"]
    }
    assert found == {
        "clean": (0, "pass"),
        "exact threshold is NOT a breach": (0, "insufficient_evidence"),  # six metrics are missing
        "hard": (1, "fail"),
        "ODE below": (0, "insufficient_evidence"),
        "TRAP empty metrics -> pass": (0, "insufficient_evidence"),
        "TRAP NaN -> pass": (0, "insufficient_evidence"),
    }


def test_a_value_is_not_rounded_before_it_is_judged(oracle: Any, upstream: Policy) -> None:
    """Defect of upstream's chapter 8, which rounds to two places first and calls .2049 green at .20."""
    example = oracle["ch08_banding"]["example"]
    rows = {row.rule: row.verdict for row in held(upstream, {"RSI_gender": example["value"]}).rules}
    assert (rows["RSI_gender"], example["ch08"], example["ch09"]) == ("fail", "green", "breach")
