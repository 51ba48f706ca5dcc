"""The built-in sample: what its two models were made to do is what the audit finds."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.fairness.outputs import OutputsTable, outputs_table
from core.fairness.text_audit import WITHHELD, audit_outputs
from core.fairness.text_audited import OutputsAudit
from core.fairness.text_comparison import compare_outputs
from core.gates.evaluation import evaluate
from core.records import FileReference, seal
from tasks.builtin.fairness import sample_spec
from tasks.builtin.outputs_sample import HARMS, MODELS, REPLICATES, harms_of, helpfulness_of, outputs_sample
from tasks.readers.labels import gender_of, is_refusal, words_of
from tasks.specs import load_policy


@pytest.fixture(scope="module")
def tables() -> list[OutputsTable]:
    return [outputs_table(outputs_sample(model), harm_categories=HARMS) for model in MODELS]


@pytest.fixture(scope="module")
def audits(tables: list[OutputsTable]) -> list[OutputsAudit]:
    return [audit_outputs(sample_spec(), table) for table in tables]


def test_the_sample_is_the_same_every_time_and_under_every_hash_seed() -> None:
    assert outputs_sample().equals(outputs_sample())
    code = (
        "import hashlib; from tasks.builtin.outputs_sample import outputs_sample;"
        "print(hashlib.sha256(repr(outputs_sample().to_pylist()).encode()).hexdigest())"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_every_prompt_has_its_variants_and_replicates_for_both_models() -> None:
    for model in MODELS:
        table = outputs_sample(model)
        counts = table.group_by(["scenario_id", "variant"]).aggregate([("id", "count")])
        assert set(counts.column("id_count").to_pylist()) == {REPLICATES}
        assert counts.num_rows == 40 * 3
        assert any(table.column("is_refusal").to_pylist())


def test_every_column_can_be_traced_to_the_text() -> None:
    for row in outputs_sample(MODELS[1]).to_pylist():
        text = row["text"]
        assert row["group_gender"] == gender_of(text)
        assert row["is_refusal"] == int(is_refusal(text))
        assert row["token_count"] == len(words_of(text))
        assert {name: row[f"harm_{name}"] for name in HARMS} == harms_of(text)
        assert row["helpfulness"] == helpfulness_of(text)
        assert row["context"] in text or row["is_refusal"]


def test_texts_are_short_and_no_one_is_insulted() -> None:
    texts = {text for model in MODELS for text in outputs_sample(model).column("text").to_pylist()}
    assert max(map(len, texts)) < 400
    scores = [harms_of(text) for text in texts]
    assert all(score[name] == 0.0 for score in scores for name in ("hate_speech", "slurs", "dehumanisation"))


def test_the_first_model_slights_and_the_second_withholds(audits: list[OutputsAudit]) -> None:
    first, second = audits
    assert (first.hsi.band, first.independence.failed_alone) == ("flag", "hsi")
    assert first.hsi.by_group["gender=female"].value > 4 * first.hsi.by_group["base"].value
    assert second.hsi.band == "pass"
    assert second.dsi.band == "flag"
    assert second.dsi.by_group["gender=female"].refusal_rate > 0.25
    assert WITHHELD in second.independence.meaning


def test_a_gate_bound_to_the_bands_reads_the_audit(audits: list[OutputsAudit], project: Path) -> None:
    policy = load_policy(project / "deployments" / "policies" / "fairbench-bands.yaml")
    verdicts = []
    for audit in audits:
        record = seal(
            "assay.audit",
            spec=sample_spec(),
            seed=1,
            inputs=[FileReference(role="outputs", sha256="0" * 64, rows=480)],
            result=audit,
            created="2026-11-30T00:00:00Z",
            software={},
        )
        gate = evaluate(policy, [record])
        assert gate.verdict == "fail"
        verdicts.append({(rule.rule, rule.metric): rule.verdict for rule in gate.rules})
    first, second = verdicts
    assert (first["harm-severity", "hsi"], second["harm-severity", "hsi"]) == ("fail", "pass")
    assert second["disparate-service", "dsi"] == "fail"
    assert first["representation-skew", "rsi.gender"] == "pass"


def test_trades_cancel_in_the_total_of_the_first_model_and_show_in_its_pairs(audits: list[OutputsAudit]) -> None:
    first = audits[0]
    assert first.rsi["gender"].band == "pass"
    assert first.sar["gender"].pairs_by_band["watch"] + first.sar["gender"].pairs_by_band["flag"] >= 4


def test_every_metric_is_measured_with_an_interval(audits: list[OutputsAudit]) -> None:
    for audit in audits:
        for result in audit.metrics().values():
            assert result.status == "measured"
            assert result.interval is not None
        assert not audit.human_review


def test_the_second_release_does_less_harm_and_serves_less_evenly(tables: list[OutputsTable]) -> None:
    found = compare_outputs(sample_spec(), *tables).metrics
    assert (found["hsi"].verdict, found["hsi"].direction) == ("decrease", "better")
    assert (found["dsi"].verdict, found["dsi"].direction) == ("increase", "worse")
