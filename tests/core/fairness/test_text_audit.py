"""The audit of generated text: all six metrics together, their states, and what moves none of them."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import numpy as np
import pytest

from core.errors import UndefinedError
from core.fairness.harm import HARM_WEIGHTS
from core.fairness.outputs import OutputsTable
from core.fairness.outputs_spec import BaselineSpec, OutputsSpec, ReferenceSpec
from core.fairness.taxonomy import Taxonomy
from core.fairness.text_audit import ALONE, WITHHELD, audit_outputs, independence_of
from core.fairness.text_audited import OutputsAudit
from core.fairness.text_metric import TextMetric
from core.records import build, canonical, plain
from tests.core.fairness.outputs import RATIONALE, columns, spec, table

METRICS = ["rsi.gender", "ode.gender", "cds", "hsi", "sar.gender", "dsi"]


@pytest.fixture(scope="module")
def audit() -> OutputsAudit:
    return audit_outputs(spec(), table(columns()))


def test_all_six_metrics_are_there_with_scale_version_interval_and_bands(audit: OutputsAudit) -> None:
    metrics = audit.metrics()
    assert list(metrics) == METRICS
    for name, result in metrics.items():
        assert result.metric == name.partition(".")[0]
        assert result.metric_version == f"{result.metric}/1"
        assert result.scale
        assert result.interval is not None
        assert result.interval.low <= (result.value or 0.0) <= result.interval.high
        assert result.band_probabilities is not None
        assert sum(result.band_probabilities.values()) == pytest.approx(1.0)
        assert result.n_scenarios > 0
    assert (audit.n_outputs, audit.n_base, audit.n_scenarios) == (120, 60, 20)


def test_a_record_of_it_reads_back_as_it_was(audit: OutputsAudit) -> None:
    stored = plain(audit)
    assert plain(build(OutputsAudit, stored)) == stored
    again = plain(build(OutputsSpec, plain(spec())))
    assert again == plain(spec())


def test_rows_dictionaries_and_declarations_in_another_order_change_nothing(audit: OutputsAudit) -> None:
    data = columns()
    order = np.random.default_rng(3).permutation(120)
    turned = {name: [values[i] for i in order] for name, values in reversed(data.items())}
    other = spec(harm_weights=dict(reversed(HARM_WEIGHTS.items())))
    assert canonical(audit_outputs(other, table(turned))) == canonical(audit)


def test_the_hash_seed_changes_nothing() -> None:
    code = (
        "from tests.core.fairness.outputs import columns, spec, table\n"
        "from core.fairness.text_audit import audit_outputs\nfrom core.records import digest\n"
        "print(digest(audit_outputs(spec(), table(columns()))))"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("0", "7")
    }
    assert len(found) == 1


def test_a_metric_without_its_columns_says_so_and_moves_no_other(audit: OutputsAudit) -> None:
    for column, name in (
        ("group_gender", "rsi.gender"),
        ("group_gender", "ode.gender"),
        ("context", "sar.gender"),
        ("embedding", "cds"),
        ("is_refusal", "dsi"),
    ):
        data = {key: values for key, values in columns().items() if key != column}
        metrics = audit_outputs(spec(), table(data)).metrics()
        assert (metrics[name].status, metrics[name].reason) == ("not_evaluable", "missing_columns")
        assert column in metrics[name].explanation
        unmoved = set(METRICS) - {"rsi.gender", "ode.gender", "sar.gender", name}
        assert all(metrics[key].interval == audit.metrics()[key].interval for key in unmoved)
    harmless = {key: values for key, values in columns().items() if not key.startswith("harm_")}
    found = audit_outputs(spec(), table(harmless)).hsi
    assert (found.reason, found.n_unscored) == ("missing_columns", 120)


def test_without_reference_or_baseline_there_is_no_value_and_no_assumption() -> None:
    found = audit_outputs(spec(reference_distribution=None, baselines={}), table(columns()))
    assert (found.rsi["gender"].reason, found.sar["gender"].reason) == ("no_reference", "no_baseline")
    assert found.independence.not_evaluable == ("rsi.gender", "sar.gender")


def test_nothing_passes_when_everything_was_refused_or_nothing_scored() -> None:
    refused = columns(refused_base=1.1, refused_variant=1.1)
    refused["group_gender"] = [None] * 120
    found = audit_outputs(spec(), table(refused))
    assert {name: result.reason for name, result in found.metrics().items()} == {
        "rsi.gender": "low_coverage",
        "ode.gender": "low_coverage",
        "cds": "all_refused",
        "hsi": "all_refused",
        "sar.gender": "low_coverage",
        "dsi": "all_refused",
    }
    assert found.independence.passed == ()
    assert "no pass" in found.independence.meaning
    empty = audit_outputs(spec(), table({name: [] for name in ("id", "scenario_id", "variant")}))
    assert all(result.status == "not_evaluable" for result in empty.metrics().values())
    plain(empty)


def test_neutral_prompts_show_the_defaults_unless_all_rows_are_asked_for() -> None:
    data = columns(male=1.1)
    assert audit_outputs(spec(), table(data)).rsi["gender"].band == "fail"
    everything = audit_outputs(spec(rows="all"), table(data))
    assert everything.rsi["gender"].n == 120
    assert everything.rsi["gender"].band == "pass"


def test_an_axis_of_one_category_cannot_be_diverse_and_says_so() -> None:
    one = Taxonomy(axis="gender", categories=("male",))
    found = audit_outputs(spec(taxonomies={"gender": one}, reference_distribution=None, baselines={}), table(columns()))
    assert (found.ode["gender"].status, found.ode["gender"].reason) == ("not_evaluable", "one_group")


def test_any_hate_speech_calls_for_a_human() -> None:
    data = columns(harm=0.0)
    assert not audit_outputs(spec(), table(data)).human_review
    data["harm_hate_speech"][17] = 0.001
    found = audit_outputs(spec(), table(data))
    assert (found.hsi.band, found.human_review, found.hsi.review_ids) == ("pass", True, ("o0017",))


def test_harm_avoided_by_refusing_one_group_is_one_finding() -> None:
    found = audit_outputs(spec(), table(columns(harm=0.0, refused_base=0.0, refused_variant=0.8)))
    assert found.hsi.band == "pass"
    assert found.dsi.band == "fail"
    assert WITHHELD in found.independence.meaning


def result_of(metric: str, band: str | None) -> TextMetric:
    common: dict[str, Any] = {
        "metric": metric, "metric_version": f"{metric}/1", "scale": "x", "n": 9, "n_scored": 9, "coverage": 1.0,
        "n_scenarios": 9,
    }  # fmt: skip
    if band is None:
        return TextMetric(**common, status="not_evaluable", reason="unscored", explanation="nothing was scored")
    return TextMetric(**common, status="measured", value=0.5, band=band)


@pytest.mark.parametrize("metric", sorted(ALONE))
def test_one_metric_that_fails_alone_is_named_with_what_it_means(metric: str) -> None:
    metrics = {name: result_of(name, "pass") for name in ALONE} | {metric: result_of(metric, "flag")}
    found = independence_of(metrics)
    assert (found.failed, found.failed_alone) == ((metric,), metric)
    assert ALONE[metric] in found.meaning


def test_suppression_fails_and_what_could_not_be_evaluated_is_neither() -> None:
    metrics = {"sar.gender": result_of("sar", "under_representation"), "hsi": result_of("hsi", None)}
    found = independence_of(metrics)
    assert (found.failed, found.passed, found.not_evaluable) == (("sar.gender",), (), ("hsi",))
    assert found.failed_alone is None
    assert "neither passed nor failed: hsi" in found.meaning


def test_a_value_without_a_band_or_a_reason_with_a_value_is_no_result() -> None:
    for changes in ({"status": "measured"}, {"status": "not_evaluable"}, {"status": "measured", "value": 0.5}):
        with pytest.raises(UndefinedError):
            TextMetric(
                metric="x", metric_version="x/1", scale="x", n=0, n_scored=0, coverage=0.0, n_scenarios=0, **changes
            )


@pytest.mark.parametrize(
    "changes",
    [
        {"axes": ()},
        {"axes": ("gender", "gender_signal")},
        {"axes": ("height",)},
        {"axes": ("age",)},
        {"min_coverage": 1.5},
        {"bands": {}},
        {"noise_floor": -0.1},
        {"noise_floor": float("nan")},
        {"confidence_level": 1.0},
        {"resamples": 1},
    ],
)
def test_specs_that_make_no_sense_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(UndefinedError):
        spec(**changes)


def test_references_and_baselines_need_a_rationale() -> None:
    with pytest.raises(UndefinedError, match="rationale"):
        ReferenceSpec(kind="uniform", rationale="fair")
    with pytest.raises(UndefinedError, match="rationale"):
        BaselineSpec(rationale="", contexts={"nurse": {"male": 0.5}})
    with pytest.raises(UndefinedError, match="shares"):
        ReferenceSpec(kind="real_world", rationale=RATIONALE)
    with pytest.raises(UndefinedError, match="nurse"):
        BaselineSpec(rationale=RATIONALE, contexts={"nurse": {"male": 0.0}})


def many_outputs(n: int) -> OutputsTable:
    rng = np.random.default_rng(1)
    scenarios = n // 10
    variant = np.tile(np.repeat(np.array(["", "female"], dtype=object), 5), scenarios)
    return OutputsTable(
        id=np.array([f"o{i}" for i in range(n)], dtype=object),
        scenario=np.repeat(np.array([f"s{i}" for i in range(scenarios)], dtype=object), 10),
        axis=np.where(variant == "", "", "gender").astype(object),
        variant=variant,
        replicate=np.tile(np.arange(5), 2 * scenarios),
        labels={"gender": rng.choice(np.array(["male", "female", "unknown"], dtype=object), n, p=[0.6, 0.3, 0.1])},
        context=np.resize(np.repeat(np.array(["nurse", "driver"], dtype=object), 10), n),
        harms={name: np.where(rng.random(n) < 0.02, rng.random(n), 0.0) for name in HARM_WEIGHTS},
        refused=(rng.random(n) < 0.1).astype(float),
        helpfulness=rng.integers(1, 6, n).astype(float),
        token_count=rng.integers(20, 300, n).astype(float),
        embedding=rng.normal(size=(n, 16)),
    )


@pytest.mark.slow
def test_a_million_outputs_take_seconds() -> None:
    found = many_outputs(1_000_000)
    begin = time.process_time()
    audit = audit_outputs(spec(resamples=2000), found)
    assert time.process_time() - begin < 60.0
    assert all(result.status == "measured" for result in audit.metrics().values())
