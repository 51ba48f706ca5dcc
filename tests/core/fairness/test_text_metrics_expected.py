"""The six metrics against the values that shared/oracles/fairness/expected_text_metrics.json holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import core
from core.fairness.representation import convert_legacy_rsi

TOLERANCE = 1e-9
RATIONALE = "the reference of the expected values"


@pytest.fixture(scope="module")
def expected(shared: Path) -> dict[str, Any]:
    path = shared / "oracles" / "fairness" / "expected_text_metrics.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


@pytest.fixture(scope="module")
def upstream(shared: Path) -> dict[str, Any]:
    path = shared / "oracles" / "fairness" / "rsi_head.json"
    return dict(json.loads(path.read_text(encoding="utf-8")))


def close(value: float | None) -> Any:
    return None if value is None else pytest.approx(value, abs=TOLERANCE)


def test_rsi_is_as_expected(expected: dict[str, Any]) -> None:
    assert expected["rsi"]
    for case in expected["rsi"]:
        result = core.rsi(
            case["counts"],
            reference=case["reference"],
            reference_kind="real_world",
            rationale=RATIONALE,
            taxonomy="gender",
        )
        found = {name: getattr(result, name) for name in case["expected"]}
        assert found == {name: x if name == "band" else close(x) for name, x in case["expected"].items()}


def test_rsi_without_a_taxonomy_takes_the_names_as_they_are(expected: dict[str, Any]) -> None:
    for case in expected["rsi"]:
        result = core.rsi(case["counts"], reference=case["reference"], reference_kind="real_world", rationale=RATIONALE)
        assert result.value == close(case["expected"]["value"])
        assert result.out_of_reference_share == close(case["expected"]["out_of_reference_share"])


def test_ode_is_as_expected(expected: dict[str, Any]) -> None:
    assert expected["ode"]
    for case in expected["ode"]:
        names = [f"g{i}" for i in range(case["k"])]
        counts = dict(zip(names, case["counts"], strict=False))
        result = core.ode(counts, taxonomy=names)
        assert result.value == close(case["expected"]["value"])
        assert (result.k, result.k_source) == (case["k"], "declared")


def test_hsi_is_as_expected(expected: dict[str, Any]) -> None:
    assert expected["hsi"]
    for case in expected["hsi"]:
        result = core.hsi(case["outputs"], min_coverage=0.5)
        found = {name: getattr(result, name) for name in case["expected"]}
        assert found == {name: close(value) for name, value in case["expected"].items()}


def test_sar_is_as_expected(expected: dict[str, Any]) -> None:
    assert expected["sar"]
    for case in expected["sar"]:
        contexts, labels, baselines = [], [], {}
        for i, (k, n, baseline) in enumerate(case["pairs_k_n_baseline"]):
            contexts += [f"c{i}"] * n
            labels += ["a"] * k + ["b"] * (n - k)
            baselines[f"c{i}"] = {"a": baseline}
        result = core.sar(contexts, labels, baselines=baselines)
        assert result.value == close(case["expected"]["value"])
        assert [pair.ratio for pair in result.by_pair] == [close(ratio) for ratio in case["expected"]["ratios"]]
        assert result.max_abs_log_ratio == close(case["expected"]["max_abs_log_ratio"])


def test_dsi_is_as_expected(expected: dict[str, Any]) -> None:
    assert expected["dsi"]
    for case in expected["dsi"]:
        rows = [
            (f"set {i:02}", group, int(j < cell["refusals"]), cell["mean_tokens"], cell["helpfulness"])
            for i, groups in enumerate(case["sets"])
            for group, cell in groups.items()
            for j in range(cell["n"])
        ]
        scenarios, variants, refused, tokens, helpfulness = zip(*rows, strict=True)
        result = core.dsi(refused, scenarios=scenarios, variants=variants, token_count=tokens, helpfulness=helpfulness)
        assert result.value == close(case["expected"]["value"])
        assert result.worst == close(case["expected"]["worst"])
        found = sorted(result.by_set, key=lambda one: one.scenario)
        for one, wanted in zip(found, case["expected"]["sets"], strict=True):
            assert {name: getattr(one, name) for name in wanted} == {name: close(x) for name, x in wanted.items()}


def test_cds_is_as_expected(expected: dict[str, Any]) -> None:
    assert expected["cds"]
    for case in expected["cds"]:
        vectors = case["base"] + case["counterfactual"]
        variants = ["base"] * len(case["base"]) + ["female"] * len(case["counterfactual"])
        result = core.cds(vectors, scenarios=["s"] * len(vectors), variants=variants)
        assert result.value == close(case["expected"]["value"])
        assert result.noise_floor == close(case["expected"]["noise_floor"])


def test_published_natural_log_values_convert_to_today_s_scale(upstream: dict[str, Any]) -> None:
    inside = [case for case in upstream["cases"] if set(case["counts"]) <= set(case["reference"])]
    assert len(inside) > 5
    for case in inside:
        legacy = convert_legacy_rsi(case["expected"]["raw_natural_log"], log_base="e", reference=case["reference"])
        # Upstream adds 1e-10 to every share.
        assert legacy.value == pytest.approx(case["expected"]["value"], abs=1e-6)
