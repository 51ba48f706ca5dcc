"""Policies as files: what YAML may hold, what is refused and how, and the policies that ship."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.errors import InputError
from core.fairness.audit import audit_predictions
from core.fairness.bands import BANDS
from core.fairness.spec import AuditSpec, Positives
from core.gates.evaluation import Gate, evaluate
from core.gates.policy import Policy
from core.records import plain
from tasks.builtin.starter import POLICY
from tasks.specs import build_spec, load_policy

RULE = "  - {rule: rate, metric: composite.prevalence, bound: high, op: '<=', threshold: 0.05}\n"
GOOD = f"name: release\nrules:\n{RULE}"
EXCEPTION = (
    "exceptions:\n"
    "  - {{rule: rate, record: {record}, owner: release manager, "
    "reason: mended in the next release, expires: {expires}}}\n"
)

Written = Callable[[str], Path]


@pytest.fixture
def written(tmp_path: Path) -> Written:
    def write(text: str) -> Path:
        path = tmp_path / "policy.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return write


def problems(path: Path) -> str:
    with pytest.raises(InputError) as told:
        load_policy(path)
    return str(told.value).replace(str(path), "policy.yaml")


def test_a_policy_reads_as_it_is_written_and_a_record_can_hold_it(written: Written) -> None:
    policy = load_policy(written(GOOD + EXCEPTION.format(record="ab" * 32, expires="2027-01-31")))
    assert policy.rules[0].severity == "block"
    assert policy.exceptions[0].expires == "2027-01-31"
    assert build_spec(plain(policy), Policy, "record") == policy


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (GOOD.replace("threshold", "treshold"), "did you mean 'threshold'?"),
        (GOOD.replace("threshold: 0.05", "threshold: 0.05, severty: block"), "did you mean 'severity'?"),
        (GOOD.replace("rules", "ruls"), "did you mean 'rules'?"),
        (GOOD.replace("high", "hihg"), "rules.0.bound: Input should be 'point', 'low' or 'high'"),
        (GOOD.replace("<=", "=<"), "rules.0.op: Input should be '<', '<=', '>' or '>='"),
        (GOOD.replace("0.05", ".nan"), "must be a finite number"),
        (GOOD.replace("0.05", ".inf"), "must be a finite number"),
        (GOOD.replace("0.05", "true"), "rules.0.threshold: true is neither a number nor a text"),
        (GOOD.replace("0.05", "a lot"), "rules.0.threshold: Input should be a valid number"),
        (GOOD.replace("0.05", "0.05, min_n: 0.5"), "rules.0.min_n: Input should be a valid integer"),
        (GOOD + RULE, "each rule needs a name of its own"),
        ("name: x\nrules: []\n", "a policy without rules would pass everything"),
        ("name: x\n", "key 'rules' is missing"),
        ("- 1\n", "a policy is a mapping"),
        ("", "a policy is a mapping"),
        ("name: &a x\nrules: *a\n", "aliases"),
        (GOOD + "name: again\n", "stands twice"),
        (GOOD + "exceptions: {}\n", "exceptions: Input should be a valid tuple"),
        (GOOD + EXCEPTION.format(record="ab" * 32, expires="2027-01-31 10:00:00"), "exceptions.0.expires"),
        (GOOD + EXCEPTION.format(record="ab" * 32, expires="soon"), "must be a date such as 2027-01-31"),
        (GOOD + EXCEPTION.format(record="ab" * 32, expires="20270131"), "exceptions.0.expires"),
        (GOOD + EXCEPTION.format(record="any", expires="2027-01-31"), "names the id (64 hex digits) of one record"),
        (
            GOOD + EXCEPTION.format(record="ab" * 32, expires="2027-01-31").replace("rule: rate", "rule: raet"),
            "no such",
        ),
        (GOOD + "exceptions:\n  - {rule: rate, owner: me}\n", "key 'exceptions.0.record' is missing"),
        (GOOD.replace("'<='", ">="), "is not a spec"),
    ],
)
def test_what_is_no_policy_is_refused_with_what_to_do(text: str, expected: str, written: Written) -> None:
    assert expected in problems(written(text))


def test_all_problems_are_told_at_once(written: Written) -> None:
    told = problems(written(GOOD.replace("high", "hihg").replace("threshold", "treshold") + "exeptions: []\n"))
    for part in ("bound", "threshold", "'exceptions'"):
        assert part in told


def shipped(project: Path) -> list[Path]:
    return sorted((project / "deployments" / "policies").glob("*.yaml"))


def test_every_policy_that_ships_reads_and_is_described(project: Path) -> None:
    files = shipped(project)
    assert len(files) == 6
    readme = (project / "deployments" / "policies" / "README.md").read_text(encoding="utf-8")
    for path in files:
        assert load_policy(path).name == path.stem
        assert f"({path.name})" in readme


def test_the_starter_folders_policy_reads(written: Written) -> None:
    assert [rule.severity for rule in load_policy(written(POLICY)).rules] == ["block", "escalate"]


def test_the_fairbench_policy_stands_at_the_bands_and_is_bound_to_their_scales(project: Path) -> None:
    rules = load_policy(project / "deployments" / "policies" / "fairbench-bands.yaml").rules
    assert {rule.metric.removesuffix(".*") for rule in rules} == set(BANDS)
    assert {rule.metric for rule in rules if rule.severity == "block"} == {"hsi", "dsi"}
    for rule in rules:
        name = rule.metric.removesuffix(".*")
        bands = BANDS[name]
        assert (rule.metric_version, rule.scale) == (bands.metric_version, bands.scale)
        edge = bands.edges.index(float(f"{rule.threshold:.12g}"))  # as a record stores it
        beyond = bands.names[edge + 1 :] if rule.op == "<=" else bands.names[: edge + 1]
        assert set(beyond) in ({"flag", "fail"}, {"under_representation"})


def gate_of(project: Path, name: str, result: object, spec: object = None) -> Gate:
    document = {"id": "ab" * 32, "schema": "assay.audit/1", "spec": plain(spec or {}), "result": plain(result)}
    return evaluate(load_policy(project / "deployments" / "policies" / f"{name}.yaml"), [document])


def predictions(n: int, false_alarms: float) -> pd.DataFrame:
    """Two columns of two groups; one race's false-positive rate is higher by that much."""
    i = np.arange(n)
    table = pd.DataFrame({
        "race": np.where(i % 2 == 0, "a", "b"), "sex": np.where(i % 4 < 2, "f", "m"), "y_true": i // 4 % 2,
    })  # fmt: skip
    rate = np.where(table["y_true"] == 1, 0.8, 0.2 + false_alarms * (table["race"] == "b"))
    return table.assign(y_pred=(np.random.default_rng(0).random(n) < rate).astype(int))


@pytest.mark.parametrize(
    ("n", "false_alarms", "verdicts"),
    [
        (60_000, 0.0, {"high-stakes": "pass", "four-fifths": "pass", "equalized-odds": "pass", "accuracy-gap": "pass"}),
        (60_000, 0.4, {"high-stakes": "fail", "four-fifths": "fail", "equalized-odds": "fail", "accuracy-gap": "fail"}),
        (150, 0.4, dict.fromkeys(["high-stakes", "four-fifths", "equalized-odds"], "insufficient_evidence")),
    ],
    ids=["fair", "biased", "tiny"],
)
def test_the_policies_for_predictions_hold_audits_that_assay_made(
    n: int, false_alarms: float, verdicts: dict[str, str], project: Path
) -> None:
    spec = AuditSpec(groups=("race", "sex"), positive=Positives(y_pred=1), source="drawn for this test")
    audit = audit_predictions(spec, predictions(n, false_alarms))
    found = {name: gate_of(project, name, audit, spec) for name in verdicts}
    assert {name: gate.verdict for name, gate in found.items()} == verdicts
    assert not any("missing" in row.reason for gate in found.values() for row in gate.rules)


def text_metrics(**values: float) -> dict[str, object]:
    """The shape of an audit of outputs, each metric well inside its Pass band unless named."""
    inside = {"hsi": 0.01, "dsi": 0.02, "cds": 0.05, "rsi": 0.1, "ode": 0.9, "sar": 1.0} | values
    figures = {
        name: {
            "status": "measured", "value": value, "interval": {"low": 0.97 * value, "high": 1.03 * value},
            "n": 500, "n_scored": 480, "coverage": 0.96, "scale": BANDS[name].scale,
            "metric_version": BANDS[name].metric_version,
        }
        for name, value in inside.items()
    }  # fmt: skip
    return {name: {"gender": figure} if name in ("rsi", "ode", "sar") else figure for name, figure in figures.items()}


@pytest.mark.parametrize(
    ("values", "verdict", "review"),
    [
        ({}, "pass", False),
        ({"hsi": 0.15}, "fail", False),
        ({"dsi": 0.2}, "fail", False),
        ({"rsi": 0.5}, "pass", True),
        ({"ode": 0.3}, "pass", True),
        ({"cds": 0.3}, "pass", True),
        ({"sar": 1.8}, "pass", True),
        ({"sar": 0.5}, "pass", True),
        ({"hsi": 0.0985}, "insufficient_evidence", False),
    ],
)
def test_the_fairbench_policy_blocks_harm_and_disparate_service_and_escalates_the_rest(
    values: dict[str, float], verdict: str, review: bool, project: Path
) -> None:
    gate = gate_of(project, "fairbench-bands", text_metrics(**values))
    assert (gate.verdict, gate.review_required) == (verdict, review)


def test_a_natural_log_rsi_is_refused_by_the_fairbench_policy(project: Path) -> None:
    metrics: dict[str, Any] = text_metrics()
    metrics["rsi"]["gender"]["scale"] = "jsd_natural"
    gate = gate_of(project, "fairbench-bands", metrics)
    assert gate.verdict == "insufficient_evidence"
    assert [row.reason for row in gate.rules if row.verdict != "pass"] == [
        "refused: the threshold was set for scale 'jsd_base2_normalised', and the record has 'jsd_natural'"
    ]


def test_no_policy_for_audits_reads_a_figure_without_its_scale_and_version(project: Path) -> None:
    rules = [rule for path in shipped(project) for rule in load_policy(path).rules if rule.schema == "audit"]
    assert len(rules) > 10
    assert all(rule.scale and rule.metric_version for rule in rules)
