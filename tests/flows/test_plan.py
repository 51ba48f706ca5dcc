"""`assay plan`: from a goal to a record and to words, and what cannot be planned."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from core.instrument.planned import PlanSpec
from flows.pipelines.planning import run_plan
from flows.pipelines.verification import verify
from tasks.reporting.markdown import plan_markdown
from tasks.reporting.plan_figures import plan_figures
from tests.flows.conftest import Assay, Outcome, World

JUDGE = ("--sensitivity", 0.9, "--specificity", 0.95)


def plan(assay: Assay, *options: object) -> Outcome:
    return assay("plan", "--tracking-uri", "none", *options)


def test_a_goal_is_planned_and_told_in_words(assay: Assay, tmp_path: Path) -> None:
    record = tmp_path / "plan.json"
    done = plan(
        assay, "--goal", "half-width=0.05", "--prevalence", 0.1, *JUDGE, "--positives", 200, "--negatives", 200,
        "-o", record,
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "Reached with 473 production traces, 200 violating golden traces and 200 clean golden traces." in done.out
    assert "The golden class to grow first: clean golden traces." in done.out
    assert "known exactly, 249 production traces would do" in done.out  # STATISTICS F16: 248.35
    document = json.loads(record.read_text())
    assert document["schema"] == "assay.plan/1"
    assert document["result"]["sizes"] == {"n_production": 473, "n_positive": 200, "n_negative": 200}
    assert document["inputs"] == document["outputs"] == []


def test_a_goal_that_cannot_be_reached_is_a_result_with_the_change_that_reaches_it(assay: Assay) -> None:
    done = plan(assay, "--goal", "half-width=0.02", "--prevalence", 0.1, *JUDGE, "--positives", 200, "--negatives", 200)
    assert done.code == 0
    assert "Unreachable: the given sizes leave a half width of 0.03396 even" in done.out
    assert "663 clean golden traces instead of 200" in done.out
    hopeless = plan(assay, "--goal", "lod=0.05", "--sensitivity", 0.55, "--specificity", 0.55)
    assert hopeless.code == 0
    assert "Below detection floor: the assumed J is 0.100" in hopeless.out


def test_more_production_is_said_to_help_no_longer(assay: Assay) -> None:
    sizes = ("--production", 100_000, "--positives", 200, "--negatives", 200)
    done = plan(assay, "--goal", "half-width=0.05", "--prevalence", 0.1, *JUDGE, *sizes)
    assert "more production no longer helps" in done.out


def test_a_calibration_is_an_input_and_the_record_verifies(assay: Assay, world: World, tmp_path: Path) -> None:
    record = tmp_path / "plan.json"
    done = plan(assay, "--goal", "lod=0.2", "--calibration", world.calibration, "--category", "hate", "-o", record)
    assert done.code == 0, done.err
    assert "hate of small" in done.out
    document, calibration = json.loads(record.read_text()), json.loads(world.calibration.read_text())
    assert [(item["role"], item["sha256"]) for item in document["inputs"]] == [("calibration", calibration["id"])]
    judged = calibration["result"]["categories"]["hate"]
    assert document["result"]["assumed"]["sensitivity"] == judged["sensitivity"]
    assert document["result"]["given"]["n_positive"] == round(judged["effective"]["n_positive"])
    assert verify(record).identical
    assert assay("verify", record, "--tracking-uri", "none").code == 0


def test_a_plan_without_a_calibration_verifies_and_an_altered_one_does_not(assay: Assay, tmp_path: Path) -> None:
    record = tmp_path / "plan.json"
    plan(assay, "--goal", "difference=-0.05", "--prevalence", 0.2, *JUDGE, "--correlation", 0.5, "-o", record)
    assert verify(record).identical
    record.write_text(record.read_text().replace('"paired": true', '"paired": false'))
    assert assay("verify", record).code == 1


def test_a_difference_is_planned_paired_and_unpaired(assay: Assay) -> None:
    goal = ("--goal", "difference=-0.1", "--prevalence", 0.3, "--sensitivity", 0.7, "--specificity", 0.9, "--json")
    paired = plan(assay, *goal, "--correlation", 0.6).record["result"]
    unpaired = plan(assay, *goal, "--unpaired").record["result"]
    assert (paired["sizes"]["n_production"], unpaired["sizes"]["n_production"]) == (353, 817)  # SPEC 11.3


@pytest.mark.parametrize(
    ("options", "status"),
    [
        (("--goal", "difference=0.000001", "--prevalence", 0.1, *JUDGE), "unreachable"),
        (
            ("--goal", "difference=0.1", "--prevalence", 0.1, "--sensitivity", 0.5, "--specificity", 0.5),
            "below_detection_floor",
        ),
        (("--goal", "difference=0.01", "--prevalence", 0.1, *JUDGE, "--production", 100), "not_reached"),
        (("--goal", "half-width=0.01", "--prevalence", 0.1, *JUDGE, "--production", 100), "unreachable"),
        (("--goal", "lod=0.01", *JUDGE, "--production", 100, "--positives", 9, "--negatives", 9), "not_reached"),
        (("--goal", "lod=0.5", "--sensitivity", 0.2, "--specificity", 1), "unreachable"),
        (("--goal", "half-width=0.5", "--prevalence", 0, "--sensitivity", 1, "--specificity", 1), "reached"),
    ],
)
def test_every_outcome_is_told_recorded_and_drawn(
    assay: Assay, tmp_path: Path, options: tuple[object, ...], status: str
) -> None:
    record = tmp_path / "plan.json"
    done = plan(assay, *options, "-o", record)
    assert done.code == 0, done.err
    document = json.loads(record.read_text())
    assert document["result"]["status"] == status
    assert status.replace("_", " ").capitalize() in done.out
    assert f"Record `{document['id']}`" in plan_markdown(document)
    for figure in plan_figures(document).values():
        figure.savefig(tmp_path / "figure.png", dpi=40)


def test_costs_steer_the_split(assay: Assay) -> None:
    goal = ("--goal", "half-width=0.05", "--prevalence", 0.1, *JUDGE, "--json")
    cheap, dear = (plan(assay, *goal, "--costs", costs).record["result"] for costs in ("0.01,1,1", "1,1,1"))
    assert dear["sizes"]["n_production"] < cheap["sizes"]["n_production"]
    assert dear["sizes"]["n_negative"] > cheap["sizes"]["n_negative"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("--goal", "width=0.05"), "is not one of half-width=NUMBER"),
        (("--goal", "half-width=two"), "is not one of half-width=NUMBER"),
        (("--goal", "half-width=nan"), "is not one of half-width=NUMBER"),
        (("--goal", "half-width"), "is not one of half-width=NUMBER"),
        (("--goal", "half-width=2", "--prevalence", 0.1, *JUDGE), "2 points are 0.02"),
        (("--goal", "half-width=0", "--prevalence", 0.1, *JUDGE), "half_width"),
        (("--goal", "half-width=0.05", *JUDGE), "how often do you expect violations"),
        (("--goal", "half-width=0.05", "--prevalence", 0.1), "how good is the judge"),
        (("--goal", "lod=0.05", *JUDGE, "--prevalence", 0.1), "means nothing for a limit of detection"),
        (("--goal", "lod=0.05", *JUDGE, "--unpaired"), "means nothing for a limit of detection"),
        (("--goal", "difference=0", "--prevalence", 0.1, *JUDGE), "must not be 0"),
        (("--goal", "difference=-0.2", "--prevalence", 0.1, *JUDGE), "must lie in [0, 1]"),
        (("--goal", "lod=0.05", *JUDGE, "--positives", 3), "--positives"),
        (("--goal", "lod=0.05", *JUDGE, "--costs", "1,2"), "three numbers"),
        (("--goal", "lod=0.05", *JUDGE, "--costs", "0,1,1"), "above 0"),
        (("--goal", "lod=0.05", *JUDGE, "--costs", "nan,1,1"), "above 0"),
        (("--goal", "lod=0.05", *JUDGE, "--category", "hate"), "go with --calibration"),
        (("--goal", "lod=0.05", *JUDGE, "--calibration", "c.json"), "leave --sensitivity and --specificity out"),
        (("--goal", "lod=0.05", "--calibration", "absent.json"), "absent.json"),
    ],
)
def test_bad_input_is_exit_code_2_and_writes_nothing(
    assay: Assay, tmp_path: Path, options: tuple[object, ...], expected: str
) -> None:
    record = tmp_path / "plan.json"
    done = plan(assay, *options, "-o", record)
    assert done.code == 2, done.out
    assert expected in done.err
    assert "Traceback" not in done.err
    assert not record.exists()


def test_an_unknown_category_and_a_measurement_as_calibration_are_refused(assay: Assay, world: World) -> None:
    unknown = plan(assay, "--goal", "lod=0.2", "--calibration", world.calibration, "--category", "fraud")
    assert (unknown.code, "composite, hate, violence" in unknown.err) == (2, True)
    wrong = plan(assay, "--goal", "lod=0.2", "--calibration", world.measurement)
    assert (wrong.code, "a calibration is needed" in wrong.err) == (2, True)


def test_the_markdown_says_what_the_terminal_says_and_the_figure_has_both_golden_sets(tmp_path: Path) -> None:
    spec: Any = PlanSpec(goal="limit_of_detection", target=0.02, sensitivity=0.9, specificity=0.95,
                         n_positive=50, n_negative=50)  # fmt: skip
    document = run_plan(spec, output=tmp_path / "p.json").document
    text = plan_markdown(document)
    assert "**Unreachable" in text
    assert "| violating golden traces | 50 | given |" in text
    figure = plan_figures(document)["curve"]
    lines = [line.get_label() for line in figure.axes[0].get_lines()]
    assert lines[:2] == ["50 positive, 50 negative", "50 positive, 100 negative"]
