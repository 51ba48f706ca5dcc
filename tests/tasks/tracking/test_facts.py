from __future__ import annotations

import copy
import math
from typing import Any

import pytest

from tasks.tracking import facts
from tests.tasks.tracking.conftest import Story


def test_every_parameter_that_determined_a_calibration_is_there(story: Story) -> None:
    parameters = facts.parameters(story.calibration.document)
    assert parameters["spec.optimism.resamples"] == "20"
    assert parameters["spec.turn_bins"] == "[1, 2, 3, 4, 8]"
    assert parameters["judge.name"] == "lexical"
    assert parameters["golden.n_traces"] == "160"
    assert parameters["seed"] == "20261129"
    assert "version.numpy" in parameters


def test_a_calibration_has_its_headline_metrics_by_name(story: Story) -> None:
    metrics = facts.calibration_metrics(story.calibration.document).metrics
    assert metrics["hate.threshold"] == story.calibration.document["result"]["categories"]["hate"]["threshold"]
    assert {"composite.sensitivity", "composite.youden_j_low", "self-harm.specificity"} <= set(metrics)
    assert "composite.threshold" not in metrics


def test_with_many_categories_the_composite_and_the_first_stay_and_the_others_are_named(story: Story) -> None:
    document = copy.deepcopy(story.calibration.document)
    row = document["result"]["categories"]["hate"]
    document["result"]["categories"] = {f"c{i:02}": row for i in range(24)}
    headline = facts.calibration_metrics(document)
    assert len(headline.metrics) <= facts.MAX_METRICS
    assert "composite.youden_j" in headline.metrics
    assert headline.left_out == tuple(f"c{i:02}" for i in range(7, 24))


def test_a_figure_that_does_not_exist_is_absent_and_never_zero(story: Story) -> None:
    document = copy.deepcopy(story.first.document)
    document["result"]["composite"]["prevalence"] |= {
        "status": "below_detection_floor",
        "value": None,
        "interval": None,
    }
    metrics = facts.measurement_metrics(document).metrics
    assert "composite.observed_rate" in metrics
    assert not {"composite.prevalence", "composite.prevalence_low", "composite.prevalence_high"} & set(metrics)
    assert all(math.isfinite(value) for value in metrics.values())
    assert "below_detection_floor" in facts.measurement_text(document)


@pytest.mark.parametrize("name", ["hass & hetze", "كراهية", "a/../b", "../x", "100% [bad]", "x" * 400])
def test_any_category_name_makes_a_key_that_mlflow_takes(name: str) -> None:
    from mlflow.utils.validation import _validate_metric_name

    _validate_metric_name(facts.key(f"{name}.threshold"))


def test_names_that_differ_only_in_what_mlflow_refuses_stay_apart() -> None:
    assert facts.key("a/b") != facts.key("a|b")


def test_an_untrusted_name_cannot_break_the_description(story: Story) -> None:
    document: Any = copy.deepcopy(story.first.document)
    document["result"]["target"] = "evil | **x**\n<script>\x1b[31m"
    text = facts.measurement_text(document)
    assert "<script>" not in text.replace(r"\<", "")
    assert "\x1b" not in text
    assert r"evil \| \*\*x\*\* \<script\>" in text
