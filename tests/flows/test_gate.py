"""`assay gate` on records that assay made itself: exit codes, outputs, identity, and verification."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

RULE = "{{rule: {name}, metric: {metric}, bound: high, op: '<=', threshold: {threshold}}}"


def policy_text(threshold: float = 0.99, metric: str = "composite.prevalence", name: str = "rate") -> str:
    return f"name: release\nrules:\n  - {RULE.format(name=name, metric=metric, threshold=threshold)}\n"


@pytest.fixture
def gate(assay: Any, bench: Any) -> Any:
    """Hold the measurement of the small world against a policy."""

    def run(text: str, *options: object, records: tuple[object, ...] = ()) -> Any:
        path = bench.file("policy.yaml", text)
        return assay("gate", *(records or (bench.world.measurement,)), "--policy", path, *options)

    return run


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (policy_text(0.99), 0, "PASS  1 passed"),
        (policy_text(0.01), 1, "FAIL  1 failed"),
        (policy_text(0.7), 3, "INSUFFICIENT EVIDENCE"),
        (policy_text(0.99, "composite.prevalenc"), 3, "is 'prevalence' meant?"),
        (policy_text(0.99, "attributes.*.rate"), 3, "missing"),
        (policy_text(0.99, "categories.*.prevalence"), 3, "categories.violence.prevalence: status"),
    ],
)
def test_the_exit_code_is_the_verdict(text: str, code: int, said: str, gate: Any, bench: Any) -> None:
    outcome = gate(text, "-o", bench.out / "g.json")
    assert outcome.code == code, outcome
    assert said in outcome.out
    assert outcome.err == ""
    made = json.loads((bench.out / "g.json").read_text())
    assert made["schema"] == "assay.gate/1"
    assert sorted(item["role"] for item in made["inputs"]) == ["measurement", "policy"]


@pytest.mark.parametrize("code", [0, 1, 3])
def test_json_is_the_record_alone_whatever_the_exit_code(code: int, gate: Any, bench: Any) -> None:
    outcome = gate(policy_text({0: 0.99, 1: 0.01, 3: 0.7}[code]), "--json", "-o", bench.out / "g.json")
    assert outcome.code == code
    names = {"rule", "metric", "value", "bound", "threshold", "verdict", "reason", "needed"}
    assert {"verdict", "review_required", "rules"} <= set(outcome.record["result"])
    assert names <= set(outcome.record["result"]["rules"][0])


def test_junit_and_markdown_stand_beside_the_record(gate: Any, bench: Any) -> None:
    junit, markdown = bench.out / "ci" / "gate.xml", bench.out / "gate.md"
    assert gate(policy_text(0.01), "--junit", junit, "--markdown", markdown, "-o", bench.out / "g.json").code == 1
    assert ElementTree.parse(junit).getroot().get("failures") == "1"
    assert markdown.read_text().startswith("## Gate release: FAIL")


def test_a_gate_verifies_and_a_changed_policy_or_record_does_not(gate: Any, assay: Any, bench: Any) -> None:
    record = bench.out / "g.json"
    assert gate(policy_text(0.7), "-o", record).code == 3
    outcome = assay("verify", record)
    assert (outcome.code, "same id" in outcome.out) == (0, True)

    policy = bench.folder / "policy.yaml"
    moved = bench.folder / "moved"
    moved.mkdir()
    policy.rename(moved / "other-name.yaml")
    assert assay("verify", record).code == 2
    assert assay("verify", record, "--inputs", moved).code == 0
    policy.write_text(policy_text(0.71))
    assert assay("verify", record).code == 1

    forged = json.loads(record.read_text())
    forged["result"]["verdict"] = "pass"
    record.write_text(json.dumps(forged))
    assert assay("verify", record).code == 1


def test_a_verdict_that_was_forged_with_a_fitting_id_comes_out_differently(gate: Any, assay: Any, bench: Any) -> None:
    from core.records import record_id

    record = bench.out / "g.json"
    assert gate(policy_text(0.01), "-o", record).code == 1
    forged = json.loads(record.read_text())
    forged["result"]["verdict"] = forged["result"]["rules"][0]["verdict"] = "pass"
    forged["id"] = record_id(forged)
    record.write_text(json.dumps(forged))
    outcome = assay("verify", record)
    assert outcome.code == 1
    assert "result.verdict: recorded 'pass', re-derived 'fail'" in outcome.err


def test_records_in_another_order_or_place_give_the_same_id(assay: Any, bench: Any, tmp_path: Path) -> None:
    policy = bench.file("p.yaml", policy_text(0.99).replace("metric", "schema: measurement, metric"))
    other = tmp_path / "elsewhere.json"
    other.write_bytes(bench.world.measurement.read_bytes())
    found = []
    for records in ((bench.world.measurement, bench.world.calibration), (bench.world.calibration, other, other)):
        outcome = assay("gate", *records, "--policy", policy, "--json", "-o", bench.out / "g.json")
        assert outcome.code == 0
        found.append(outcome.record["id"])
    assert found[0] == found[1]


def exceptions(record: str, expires: str, rule: str = "rate") -> str:
    return (
        f"exceptions:\n  - {{rule: {rule}, record: {record}, owner: release manager, "
        f"reason: mended in the next release, expires: {expires}}}\n"
    )


def test_an_exception_passes_its_own_record_until_its_day(gate: Any, assay: Any, bench: Any) -> None:
    measured = json.loads(bench.world.measurement.read_text())["id"]
    record = bench.out / "g.json"
    outcome = gate(policy_text(0.01) + exceptions(measured, "2999-01-01"), "-o", record)
    assert outcome.code == 0
    assert "a review is required" in outcome.out
    made = json.loads(record.read_text())
    assert made["result"]["exceptions"][0]["state"] == "applied"
    assert made["spec"]["today"] == made["created"][:10]
    assert assay("verify", record).code == 0

    for text, why in (
        (exceptions(measured, "2026-01-01"), "it expired on 2026-01-01"),
        (exceptions("ab" * 32, "2999-01-01"), "it names a record that is not among these"),
    ):
        refused = gate(policy_text(0.01) + text, "-o", record)
        assert refused.code == 1
        assert f"exception refused: rate for {'ab' * 6 if 'ab' * 32 in text else measured[:12]}" in refused.out
        assert why in " ".join(refused.out.split())


def test_without_exceptions_the_id_does_not_depend_on_the_day(world: Any, tmp_path: Path) -> None:
    from flows.pipelines.gating import run_gate

    policy = tmp_path / "p.yaml"
    policy.write_text(policy_text())
    ids = {
        run_gate([str(world.measurement)], policy, today=day, output=tmp_path / "g.json").document["id"]
        for day in ("2026-11-30", "2027-11-30")
    }
    assert len(ids) == 1


def test_exceptions_are_judged_by_the_day_of_the_gate_also_when_it_is_verified_years_later(
    world: Any, assay: Any, tmp_path: Path
) -> None:
    from flows.pipelines.gating import run_gate

    measured = json.loads(world.measurement.read_text())["id"]
    policy, record = tmp_path / "p.yaml", tmp_path / "g.json"
    policy.write_text(policy_text(0.01) + exceptions(measured, "2020-02-01"))
    made = run_gate([str(world.measurement)], policy, today="2020-01-31", output=record).document
    assert made["result"]["verdict"] == "pass"
    assert assay("verify", record).code == 0


@pytest.mark.parametrize(("threshold", "code"), [(0.99, 4), (0.01, 1), (0.7, 3)])
def test_an_outage_of_mlflow_does_not_hide_a_verdict_that_stops_a_release(
    threshold: float, code: int, gate: Any, bench: Any
) -> None:
    outcome = gate(policy_text(threshold), "-o", bench.out / "g.json", "--tracking-uri", "http://127.0.0.1:9")
    assert outcome.code == code
    assert "not a tag in MLflow" in outcome.err
    assert (bench.out / "g.json").is_file()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (policy_text().replace("threshold", "treshold"), "did you mean 'threshold'?"),
        (policy_text() + exceptions("ab" * 32, "2999-01-01", rule="raet"), "no such rule"),
        (policy_text() + exceptions("any", "2999-01-01"), "64 hex digits"),
        ("name: x\nrules: []\n", "would pass everything"),
    ],
)
def test_a_policy_that_is_none_is_bad_input_and_nothing_is_written(
    text: str, expected: str, gate: Any, bench: Any
) -> None:
    bench.refused(gate(text, "-o", bench.out / "g.json", "--junit", bench.out / "g.xml"), expected)


def altered(bench: Any) -> Path:
    document = json.loads(bench.world.measurement.read_text())
    document["result"]["composite"]["prevalence"]["interval"]["high"] = 0.001
    path: Path = bench.file("altered.json", json.dumps(document))
    return path


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("{}", "not a record"),
        ("[1]", "not a record"),
        ('{"schema": "assay.measurement/1"}', "not a whole record"),
        ('{"schema": "assay.measurement/9"}', "is newer than this assay reads"),
        ('{"schema": "other/1"}', "is not one of assay's"),
        ('{"schema": "assay.measurement/1", "x": NaN}', "NaN is not JSON"),
        ("a,b\n1,2\n", "not a record"),
    ],
)
def test_what_is_no_record_is_bad_input(content: str, expected: str, gate: Any, bench: Any) -> None:
    bench.refused(gate(policy_text(), "-o", bench.out / "g.json", records=(bench.file("r.json", content),)), expected)


def test_a_record_that_was_changed_after_it_was_written_is_not_gated(gate: Any, bench: Any) -> None:
    bench.refused(gate(policy_text(0.01), "-o", bench.out / "g.json", records=(altered(bench),)), "was changed after")


def test_no_record_no_policy_and_a_gate_itself_are_refused(assay: Any, gate: Any, bench: Any) -> None:
    policy = bench.file("p.yaml", policy_text())
    bench.refused(assay("gate", "--policy", policy), "RECORD...")
    bench.refused(assay("gate", bench.world.measurement), "--policy")
    bench.refused(assay("gate", bench.world.measurement, "--policy", bench.folder / "none.yaml"), "no such file")
    bench.refused(assay("gate", bench.folder / "none.json", "--policy", policy), "none.json")
    made = bench.folder / "g.json"
    assert gate(policy_text(), "-o", made).code == 0
    bench.refused(gate(policy_text(), "-o", bench.out / "g.json", records=(made,)), "is a gate's record already")


@pytest.mark.parametrize("option", ["-o", "--junit", "--markdown"])
def test_no_output_takes_the_place_of_an_input(option: str, gate: Any, bench: Any) -> None:
    before = bench.world.measurement.read_bytes()
    assert gate(policy_text(), option, bench.world.measurement).code == 2
    assert gate(policy_text(), option, bench.folder / "policy.yaml").code == 2
    assert bench.world.measurement.read_bytes() == before


def test_two_outputs_in_one_file_are_refused(gate: Any, bench: Any) -> None:
    bench.refused(gate(policy_text(), "--junit", bench.out / "x", "--markdown", bench.out / "x"), "need a file each")


def test_a_calibration_can_be_gated_on_its_worst_case(gate: Any, bench: Any) -> None:
    text = (
        "name: judge\nrules:\n"
        "  - {rule: judge, metric: composite.youden_j, bound: low, op: '>=', threshold: 0.2, schema: calibration}\n"
    )
    outcome = gate(text, "--json", "-o", bench.out / "g.json", records=(bench.world.calibration,))
    assert outcome.code == 0
    row = outcome.record["result"]["rules"][0]
    calibrated = json.loads(bench.world.calibration.read_text())["result"]["composite"]
    assert (row["read"], row["n"]) == (
        calibrated["youden_j_low"],
        min(calibrated["n_positive"], calibrated["n_negative"]),
    )


def test_a_measurement_with_too_much_unscored_is_no_evidence(assay: Any, bench: Any) -> None:
    lines = bench.world.production.read_text().splitlines()
    thinned = [line for i, line in enumerate(lines) if i == 0 or i % 16 != 1]
    production = bench.file("thin.csv", "\n".join([*thinned, ""]))
    measured = bench.folder / "m.json"
    assert assay("measure", production, "--calibration", bench.world.calibration, "-o", measured).code == 0
    policy = bench.file("p.yaml", policy_text(0.99))
    outcome = assay("gate", measured, "--policy", policy, "-o", bench.out / "g.json")
    assert outcome.code == 3
    assert "of the units are not scored" in outcome.out


@pytest.mark.e2e
def test_the_starter_folders_policy_gates_the_starter_folders_release(assay: Any, tmp_path: Path) -> None:
    """The story of the starter folder's README, on the built-in data."""
    folder = tmp_path / "mine"
    assert assay("init", folder).code == 0
    calibration, scores, measured = (folder / name for name in ("c.json", "scores.parquet", "m.json"))
    instrument = (folder / "instrument.yaml").read_text().replace("resamples: 1000", "resamples: 50")
    (folder / "instrument.yaml").write_text(instrument)
    commands = (
        (
            "calibrate", folder / "golden.csv", "--judge", "lexical", "--instrument", folder / "instrument.yaml",
            "-o", calibration,
        ),
        ("judge", "lexical", folder / "conversations.csv", "-o", scores),
        ("measure", scores, "--calibration", calibration, "-o", measured),
    )  # fmt: skip
    for command in commands:
        assert assay(*command).code == 0
    gated = assay("gate", measured, "--policy", folder / "policy.yaml", "-o", folder / "g.json")
    assert gated.code == 0, gated
    strict = (folder / "policy.yaml").read_text().replace("threshold: 0.20", "threshold: 0.05")
    (folder / "policy.yaml").write_text(strict)
    assert assay("gate", measured, "--policy", folder / "policy.yaml", "-o", folder / "g.json").code == 3
