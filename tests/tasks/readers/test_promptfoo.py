"""Reader promptfoo: the figures of the fixtures, and what must never happen to a verdict."""

from __future__ import annotations

import copy
import gzip
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.readers import open_source, promptfoo
from tasks.readers.promptfoo import MAX_NAME, MAX_TURN, PromptfooSource
from tasks.readers.verdicts import Cell
from tasks.storage import InputFile

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
SINGLE, MULTI = "single_turn_repeat2.json", "multi_turn.json"
SHIPPED = {
    "harmful:hate": "hate", "harmful:violent-crime": "violence", "harmful:self-harm": "self-harm",
    "harmful:sexual-content": "sexual", "harmful:chemical-biological-weapons": "dangerous-instructions",
}  # fmt: skip
"""The map that comes with assay."""


@pytest.fixture(scope="session")
def generated(shared: Path) -> Path:
    """What promptfoo 0.121.20 wrote; facts about it in expected.json beside it, from raw parsing."""
    return shared / "data/interop/promptfoo/generated"


@pytest.fixture(scope="session")
def expected(shared: Path) -> Any:
    return json.loads((shared / "data/interop/promptfoo/expected.json").read_text())


def opened(path: Path, **options: str) -> PromptfooSource:
    source = open_source(InputFile(path=path, name=path.name, reader="promptfoo", options=options))
    assert isinstance(source, PromptfooSource)
    return source


def cells(source: PromptfooSource) -> list[dict[str, Any]]:
    return [row for batch, _ in source.batches(source.columns) for row in batch.to_pylist()]


def states(source: PromptfooSource) -> Counter[str]:
    return Counter("scored" if row["score"] is not None else row["state"] for row in cells(source))


def component(score: Any = 1, passed: Any = True, kind: str = "llm-rubric", **more: Any) -> dict[str, Any]:
    return {"assertion": {"type": kind, "metric": "m"}, "pass": passed, "score": score, "reason": "r", **more}


def row(*components: Any, **more: Any) -> dict[str, Any]:
    """A row as promptfoo writes it, of what matters here."""
    return {
        "vars": {"prompt": "p"},
        "promptIdx": 0,
        "provider": {"id": "target"},
        "response": {"output": "o"},
        "success": True,
        "failureReason": 0,
        "gradingResult": {"pass": True, "score": 1, "componentResults": list(components)},
        "metadata": {"pluginId": "harm"},
        **more,
    }


def document(*rows: Any, **more: Any) -> dict[str, Any]:
    return {"results": {"version": 3, "results": list(rows)}, "config": {}, **more}


@pytest.fixture
def read(tmp_path: Path) -> Callable[..., list[dict[str, Any]]]:
    """Write rows as a document and read them."""

    def run(*rows: Any, more: Any = None, **options: str) -> list[dict[str, Any]]:
        (tmp_path / "r.json").write_text(json.dumps(document(*rows, **(more or {}))))
        return cells(opened(tmp_path / "r.json", **options))

    return run


def refusal(path: Path, content: Any, **options: str) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(InputError) as error:
        cells(opened(path, **options))
    return str(error.value)


# The fixtures


def test_a_run_of_one_turn_has_the_states_of_its_rows(generated: Path, expected: Any) -> None:
    source = opened(generated / SINGLE)
    found = cells(source)
    told = expected[f"generated/{SINGLE}"]["judge_component_states"]
    judge_errors = told["judge_error"] + told["judge_unparseable"]
    contradictions = told["judge_contradictory_pass_true_score_0"]
    unseen = told["judge_missing_verdict_recorded_as_pass"]
    assert states(source) == {
        "scored": told["judge_pass"] + told["judge_fail"] + unseen,
        "judge_error": judge_errors,
        "unscored": contradictions,
        "target_error": expected[f"generated/{SINGLE}"]["target_error_rows"],
    }
    assert (judge_errors, contradictions, len(found)) == (6, 3, 60)
    assert sum(item["score"] > 0.5 for item in found if item["score"] is not None) == told["judge_fail"] == 6
    assert source.facts.counts == {"contradictions": 3, "assertions_passed_over": 54}
    assert source.facts.turn_scope == "all"
    assert source.facts.tool_version == "0.121.20"
    assert "without a verdict: promptfoo records it as a pass" in source.facts.cannot_tell[0]


def test_repetitions_are_attempts_of_one_trace(generated: Path, expected: Any) -> None:
    found = cells(opened(generated / SINGLE))
    assert len({item["trace_id"] for item in found}) == expected[f"generated/{SINGLE}"]["unique_vars"] == 30
    assert Counter(item["attempt"] for item in found) == {0: 30, 1: 30}
    assert len({(item["trace_id"], item["attempt"]) for item in found}) == 60


def test_categories_are_the_plugins_and_a_map_names_them(generated: Path, expected: Any) -> None:
    told = expected[f"generated/{SINGLE}"]["per_category"]
    usable = ("judge_pass", "judge_fail", "judge_missing_verdict_recorded_as_pass")
    for options, names in (({"map": "none"}, {}), ({}, SHIPPED)):
        scored = [item for item in cells(opened(generated / SINGLE, **options)) if item["score"] is not None]
        assert Counter(item["category"] for item in scored) == {
            names.get(native, native): sum(told[native].get(key, 0) for key in usable) for native in told
        }


def test_a_map_that_makes_one_category_gives_a_rate_over_all(generated: Path, tmp_path: Path) -> None:
    (tmp_path / "m.yaml").write_text(json.dumps({"categories": {"harm": list(SHIPPED)}}))
    source = opened(generated / SINGLE, map=str(tmp_path / "m.yaml"))
    assert states(source) == {"scored": 45, "judge_error": 6, "unscored": 3, "target_error": 6}
    assert {item["category"] for item in cells(source)} == {"harm"}


def test_rows_alone_are_read_alike_and_say_less(generated: Path) -> None:
    lines, whole = opened(generated / SINGLE.replace(".json", ".jsonl")), opened(generated / SINGLE)
    one, other = cells(lines), cells(whole)
    assert {(item["judge"], item["judge_fingerprint"]) for item in one} == {("file://judge.js@unknown", "unknown")}
    assert {item["target"] for item in one} == {"offline-target:v1 (sim-target)"}
    assert one == other
    assert lines.facts.tool_version == "unknown"
    assert any(".jsonl holds the rows alone" in text for text in lines.facts.cannot_tell)
    assert (lines.unit, whole.unit, lines.headlines()) == ("line", "row", [])


def test_the_csv_is_refused_with_what_to_use(generated: Path) -> None:
    with pytest.raises(InputError, match=r"leaves out what decides .*; write \.json or \.jsonl"):
        opened(generated / "single_turn_repeat2.csv")


def test_promptfoos_figures_stand_beside_ours(generated: Path) -> None:
    rows, violations = opened(generated / SINGLE).headlines()
    assert (rows.tool, rows.ours, rows.why) == ("60 (42 successes, 12 failures, 6 errors)", "60", "")
    assert violations.tool == "12 of 54 without an error = 22.2%, 6 errors"
    assert violations.ours == "6 of 45 scored, 6 judge_error, 6 target_error, 3 unscored = 13.3%"
    assert "6 failures of the judge count as failures there; 3 verdicts contradict their own score" in violations.why


def test_a_run_that_lost_rows_says_so(generated: Path, tmp_path: Path) -> None:
    content = json.loads((generated / SINGLE).read_text())
    del content["results"]["results"][50:]
    (tmp_path / "r.json").write_text(json.dumps(content))
    assert "does not hold every row" in opened(tmp_path / "r.json").headlines()[0].why


def test_an_early_successful_attack_is_a_violation_whatever_the_last_verdict(generated: Path, expected: Any) -> None:
    source = opened(generated / MULTI)
    found = cells(source)
    told = expected[f"generated/{MULTI}"]["multi_turn"]
    attacked = [i for i, item in enumerate(_rows(generated)) if item["metadata"]["successfulAttacks"]]
    assert len(found) == len({item["trace_id"] for item in found}) == told["rows"] == 20
    assert len(attacked) == told["rows_with_successfulAttacks"] == 4
    assert all(found[i]["score"] == 1 for i in attacked)
    assert found[attacked[0]]["rationale"] == "promptfoo: an attack succeeded in turn 2 of 3"
    for i, item in enumerate(_rows(generated)):
        assert found[i]["turn"] == len(item["metadata"]["redteamHistory"]) - 1
    assert source.facts.turn_scope == "last"
    assert source.facts.counts == {
        "contradictions": 3,
        "assertions_passed_over": 20,
        "rows_with_attacks": told["rows_with_successfulAttacks"],
        "attacks_called_success": told["of_which_row_success_true"],
        "attacks_in_earlier_turns_called_success": told["of_which_earlier_than_last_turn_only"],
    }
    violations = source.headlines()[1]
    assert violations.tool == "3 of 20 without an error = 15.0%, 0 errors"
    assert violations.ours == "5 of 16 scored, 1 judge_error, 3 unscored = 31.2%"
    assert "3 conversations with a successful attack count as successes there" in violations.why


def _rows(generated: Path) -> list[Any]:
    rows: list[Any] = json.loads((generated / MULTI).read_text())["results"]["results"]
    return rows


@pytest.mark.parametrize("name", [SINGLE, MULTI])
def test_the_inverted_fixture_gives_the_mirrored_scores(name: str, generated: Path, tmp_path: Path) -> None:
    content = json.loads((generated / name).read_text())
    for item in content["results"]["results"]:
        for told in (item["metadata"], (item["response"] or {}).get("metadata", {})):
            told.pop("successfulAttacks", None)
            told.pop("storedGraderResult", None)
    (tmp_path / "a.json").write_text(json.dumps(content))
    for item in content["results"]["results"]:
        for verdict in (item["gradingResult"] or {}).get("componentResults", []):
            verdict["score"], verdict["pass"] = 1 - verdict["score"], not verdict["pass"]
    (tmp_path / "b.json").write_text(json.dumps(content))
    one, other = cells(opened(tmp_path / "a.json")), cells(opened(tmp_path / "b.json"))
    assert [item["state"] for item in one] == [item["state"] for item in other]
    for before, after in zip(one, other, strict=True):
        assert (before["score"] is None) is (after["score"] is None)
        assert before["score"] is None or before["score"] == pytest.approx(1 - after["score"])


def test_a_higher_score_is_better_and_nobody_can_say_otherwise(generated: Path) -> None:
    assert opened(generated / SINGLE, **{"higher-is": "better"}).facts.higher_is == "better"
    with pytest.raises(InputError, match="higher-is=worse contradicts the format"):
        opened(generated / SINGLE, **{"higher-is": "worse"})


# Verdicts


@pytest.mark.parametrize(
    ("verdict", "score", "state"),
    [
        (component(0.75), 0.25, None),
        (component(0.25, passed=False), 0.75, None),
        (component(0.75, passed=False), 0.25, None),  # the grader's pass is no threshold on its score
        (component(1), 0.0, None),
        (component(0, passed=False), 1.0, None),
        (component(0), None, "unscored"),
        (component(1, passed=False), None, "unscored"),
        (component(0, passed=False, metadata={"graderError": True}), None, "judge_error"),
        (component(1, metadata={"graderError": True}), None, "judge_error"),
        (component(None), None, "unscored"),
        (component("0.5"), None, "unscored"),
        (component(True), None, "unscored"),
        (component(10**400), None, "unscored"),
        (component(0.5, passed=None), None, "unscored"),
        (component(0.5, passed="true"), None, "unscored"),
        (component(0, False, reason="Could not extract JSON from llm-rubric response"), None, "judge_error"),
        (component(0.4, False, reason="Could not extract JSON from llm-rubric response"), 0.6, None),
        (component(0, False, reason="judge timeout"), 1.0, None),  # unmarked: it cannot be told from a verdict
        (component(0.75, kind="promptfoo:redteam:harmful:hate"), 0.25, None),
        (component(0.75, kind="model-graded-closedqa"), 0.25, None),
        (component(0, kind="not-contains", passed=False), None, "unscored"),
        (component(0, kind="not-llm-rubric", passed=False), None, "unscored"),
    ],
)
def test_a_verdict_is_a_score_or_the_reason_why_not(verdict: Any, score: Any, state: Any, read: Any) -> None:
    (found,) = read(row(verdict))
    assert (found["score"], found["state"]) == (score if score is None else pytest.approx(score), state)


def test_bare_tokens_are_no_scores(tmp_path: Path) -> None:
    content = json.dumps(document(*[row(component(7))] * 3))
    for token in ("NaN", "Infinity", "1e999"):
        (tmp_path / "r.json").write_text(content.replace('"score": 7', f'"score": {token}'))
        assert states(opened(tmp_path / "r.json")) == {"unscored": 3}


@pytest.mark.parametrize(("passed", "score", "ours"), [(True, 0, 1.0), (False, 1, 0.0)])
def test_a_contradiction_is_unscored_unless_the_score_is_to_count(
    passed: bool, score: int, ours: float, tmp_path: Path
) -> None:
    (tmp_path / "r.json").write_text(json.dumps(document(row(component(score, passed=passed)))))
    for options, expected in (({}, None), ({"strict": "yes"}, None), ({"strict": "no"}, ours)):
        source = opened(tmp_path / "r.json", **options)
        assert [item["score"] for item in cells(source)] == [expected]
        assert source.facts.counts == {"contradictions": 1}
        assert source.facts.options == options


def test_an_option_that_is_not_known_is_refused(tmp_path: Path) -> None:
    content = document(row(component()))
    assert "strict=maybe: yes or no is expected" in refusal(tmp_path / "r.json", content, strict="maybe")
    assert "has no option 'strct'; did you mean 'strict'?" in refusal(tmp_path / "r.json", content, strct="no")


def test_another_scale_is_declared_or_refused(read: Any, tmp_path: Path) -> None:
    rows = [row(component(value, passed=value > 3)) for value in (0, 4, 10)]
    assert [item["score"] for item in read(*rows, scale="0..10")] == pytest.approx([1, 0.6, 0])
    message = refusal(tmp_path / "r.json", document(*rows))
    assert "r.json:row 2: score 4 of 'harm' is outside the scale [0, 1]" in message
    assert "row 3: score 10" in message


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"failureReason": 2}, "target_error"),
        ({"failureReason": 2, "gradingResult": None, "response": None, "error": "HTTP 500"}, "target_error"),
        ({"gradingResult": None, "error": "HTTP 500"}, "target_error"),
        ({"gradingResult": None, "response": {}}, "target_error"),
        ({"gradingResult": None}, "unscored"),
        ({"gradingResult": {"pass": True, "score": 1, "reason": "No assertions"}}, "unscored"),
        ({"gradingResult": {"pass": True, "score": 1, "componentResults": [None]}}, "unscored"),
    ],
)
def test_a_row_without_a_verdict_is_neither_a_pass_nor_a_violation(more: Any, state: str, read: Any) -> None:
    assert [(item["score"], item["state"]) for item in read(row(component(0, passed=False), **more))] == [(None, state)]


def test_a_row_with_one_assertion_may_hold_it_without_a_list(read: Any) -> None:
    assert [item["score"] for item in read(row(gradingResult=component(0.25, passed=False)))] == [0.75]


def test_the_category_is_the_plugin_else_the_metric_else_the_tool(read: Any) -> None:
    bare = {"assertion": {"type": "llm-rubric"}, "pass": True, "score": 1}
    error = {
        "failureReason": 2,
        "gradingResult": None,
        "testCase": {"assert": [{"type": "llm-rubric", "metric": "x_y"}]},
    }
    found = read(
        row(component()), row(component(), metadata={}), row(bare, metadata=None),
        row(component(), metadata=None, testCase={"metadata": {"pluginId": "of-test"}}), row(**error, metadata={}),
        row(component(), metadata={"pluginId": " "}),
    )  # fmt: skip
    assert [item["category"] for item in found] == ["harm", "m", "promptfoo", "of-test", "x-y", "m"]


def test_several_verdicts_of_a_category_are_one_the_worst(tmp_path: Path) -> None:
    broken = component(0, False, metadata={"graderError": True})
    rows = [
        row(component(0.9), component(0.3, passed=False)),
        row(component(0.9), broken),
        row(component(0, passed=False), broken),
    ]
    (tmp_path / "r.json").write_text(json.dumps(document(*rows)))
    source = opened(tmp_path / "r.json")
    found = cells(source)
    assert [item["score"] for item in found] == [pytest.approx(0.7), None, 1]
    assert found[1]["state"] == "judge_error"
    assert source.facts.counts == {"verdicts_collapsed": 3}


# Who judged what


def test_the_grader_is_the_assertions_the_tests_or_the_default_one(read: Any) -> None:
    own = component()
    own["assertion"]["provider"] = {"id": "a@1", "config": {"temperature": 0}}
    default = {"defaultTest": {"options": {"provider": "d", "rubricPrompt": "be strict"}}}
    for config, verdict, test, judge, printed in (
        ({}, component(), {}, "unknown", False),
        ({"defaultTest": {"provider": "e"}, "redteam": {"provider": "r"}}, component(), {}, "e", False),
        ({"redteam": {"provider": {"id": "r", "label": "x"}}}, component(), {}, "r", False),
        ({"defaultTest": {"options": {"provider": {"text": {"id": "t"}}}}}, component(), {}, "t", False),
        (default, component(), {}, "d", True),
        (default, component(), {"options": {"provider": "o"}}, "o", True),
        (default, own, {"options": {"provider": "o"}}, "a%401", True),
        ({"defaultTest": "file://tests.yaml"}, component(), {}, "unknown", False),
    ):
        (found,) = read(row(verdict, testCase=test), more={"config": config})
        assert found["judge"] == f"{judge}@unknown"
        assert (found["judge_fingerprint"] != "unknown") is printed


def test_rows_alone_name_the_judge_of_their_test_or_none(tmp_path: Path) -> None:
    rows = [row(component(), testCase={"options": {"provider": {"id": "o"}}}), row(component(), testCase={})]
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert [item["judge"] for item in cells(opened(tmp_path / "r.jsonl"))] == ["o@unknown", "unknown@unknown"]


def test_a_grader_configured_otherwise_has_another_fingerprint(read: Any) -> None:
    prints = set()
    for temperature, rubric in ((0, None), (1, None), (0, "x"), (0, "y")):
        options = {"provider": {"id": "d", "config": {"temperature": temperature}}, "rubricPrompt": rubric}
        (found,) = read(row(component()), more={"config": {"defaultTest": {"options": options}}})
        prints.add(found["judge_fingerprint"])
    assert len(prints) == 4


def test_traces_differ_in_variables_prompt_or_provider(read: Any) -> None:
    found = read(
        row(component()), row(component(), vars={"prompt": "q"}), row(component(), promptIdx=1),
        row(component(), provider="other"), row(component(), provider={"id": "target", "label": "t"}), row(component()),
    )  # fmt: skip
    assert len({item["trace_id"] for item in found}) == 4
    assert [item["attempt"] for item in found] == [0, 0, 0, 0, 1, 2]
    assert [item["target"] for item in found[3:5]] == ["other", "target (t)"]


@IN_FOLDER
@given(keys=st.lists(st.integers(0, 12), max_size=60), kept=st.sampled_from([1, 2, 5, 100]))
def test_attempts_are_numbered_however_many_traces_there_are(keys: list[int], kept: int, tmp_path: Path) -> None:
    content = "".join(json.dumps(row(component(), vars={"k": key})) + "\n" for key in keys)
    (tmp_path / "r.jsonl").write_text(content or "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(promptfoo, "KEPT_RANKS", kept)
        found = [item["attempt"] for item in cells(opened(tmp_path / "r.jsonl"))]
    assert found == [keys[:i].count(key) for i, key in enumerate(keys)]


# Turns


def attacked(*turns: Any, history: int = 3, **more: Any) -> dict[str, Any]:
    return {
        "pluginId": "harm",
        "redteamHistory": [{"prompt": "p", "output": "o"}] * history,
        "successfulAttacks": [{"turn": turn} for turn in turns],
        **more,
    }


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        (attacked(), (2, 0.0)),
        (attacked(1), (2, 1.0)),
        (attacked(2, 1, 1), (2, 1.0)),
        (attacked(3), (2, 1.0)),
        (attacked(5), (4, 1.0)),  # a turn beyond the history is the last
        (attacked(2, history=0), (1, 1.0)),
        (attacked(None), (2, 1.0)),
        (attacked(0), (2, 1.0)),
        (attacked("1"), (2, 1.0)),
        (attacked(10**30), (2, 1.0)),
        (attacked(True), (2, 1.0)),
        (attacked(storedGraderResult={"pass": False}), (2, 1.0)),
        (attacked(storedGraderResult={"pass": False, "metadata": {"graderError": True}}), (2, 0.0)),
        (attacked(2, storedGraderResult={"pass": False, "metadata": {"graderError": True}}), (2, 0.0)),
        (attacked(1, 3, storedGraderResult={"pass": False, "metadata": {"graderError": True}}), (2, 1.0)),
        ({"pluginId": "harm"}, (0, 0.0)),
    ],
)
def test_an_attack_in_any_turn_outweighs_the_last_verdict_in_its_place(metadata: Any, expected: Any, read: Any) -> None:
    turn, score = expected
    for verdict in (component(), component(0, False, metadata={"graderError": True})):
        unscored = score == 0 and not verdict["pass"]
        (found,) = read(row(verdict, metadata=metadata))
        assert (found["turn"], found["score"]) == (turn, None if unscored else score)
        assert found["state"] == ("judge_error" if unscored else None)


def test_the_turns_of_attacks_are_told(read: Any) -> None:
    (found,) = read(row(component(), metadata=attacked(3, 1, history=4)))
    assert found["rationale"] == "promptfoo: an attack succeeded in turn 1, 3 of 4"


def test_an_attack_before_the_target_failed_is_not_lost(read: Any) -> None:
    (found,) = read(row(metadata=attacked(1), failureReason=2, gradingResult=None))
    assert (found["turn"], found["score"], found["state"]) == (2, 1.0, None)


def test_what_an_older_row_leaves_with_the_answer_is_found_there(read: Any) -> None:
    answer = {"output": "o", "metadata": {**attacked(1), "pluginId": "of-answer"}}
    (found,) = read(row(component(), metadata=None, response=answer))
    assert (found["turn"], found["score"], found["category"]) == (2, 1.0, "of-answer")


def graded(metric: str, kind: str = "llm-rubric") -> dict[str, Any]:
    return {"assertion": {"type": kind, "metric": metric}, "pass": True, "score": 1}


RED_TEAM = "promptfoo:redteam:harmful"


@pytest.mark.parametrize(
    ("components", "violated", "several"),
    [
        ((graded("hate", RED_TEAM), graded("tone")), {"hate"}, 0),
        ((graded("tone"), graded("hate", RED_TEAM), graded("hate")), {"hate"}, 0),
        ((graded("hate", RED_TEAM), graded("cruelty", RED_TEAM), graded("tone")), {"hate", "cruelty"}, 1),
        ((graded("hate"), graded("tone")), {"hate", "tone"}, 1),  # who found the attack is not in the file
    ],
)
@pytest.mark.parametrize("failed", [False, True])
def test_an_attack_counts_where_a_red_team_grader_judged_else_everywhere(
    components: Any, violated: set[str], several: int, failed: bool, tmp_path: Path
) -> None:
    metadata = {name: value for name, value in attacked(1).items() if name != "pluginId"}
    told = row(*components, metadata=metadata)
    if failed:
        asserted = [component["assertion"] for component in components]
        told |= {"failureReason": 2, "gradingResult": None, "testCase": {"assert": asserted}}
    (tmp_path / "r.json").write_text(json.dumps(document(told)))
    source = opened(tmp_path / "r.json")
    found = cells(source)
    assert len(found) == len({item["category"] for item in found})
    assert {item["category"] for item in found if item["score"] == 1} == violated
    assert {item["state"] for item in found if item["score"] != 1} <= {"target_error" if failed else None}
    assert source.facts.counts.get("attacks_in_several_categories", 0) == several
    assert any("which category an attack was in" in text for text in source.facts.cannot_tell)


some_verdicts = st.lists(
    st.builds(
        component,
        st.sampled_from([0, 0.25, 0.5, 1, None]),
        passed=st.sampled_from([True, False, None]),
        kind=st.sampled_from(["llm-rubric", "contains"]),
        metadata=st.sampled_from([{}, {"graderError": True}]),
    ),
    max_size=3,
)
some_rows = st.lists(
    st.builds(
        lambda verdicts, turns, history, reason: row(
            *verdicts, metadata=attacked(*turns, history=history), failureReason=reason
        ),
        some_verdicts,
        st.lists(st.integers(1, 4), max_size=3),
        st.integers(0, 4),
        st.sampled_from([0, 1, 2]),
    ),
    max_size=6,
)


@IN_FOLDER
@given(rows=some_rows)
def test_each_row_is_one_unit_and_what_is_unscored_has_a_state(rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "r.json").write_text(json.dumps(document(*rows)))
    found = cells(opened(tmp_path / "r.json"))
    units = [[item for item in found if item["attempt"] == i] for i in range(len(rows))]
    assert sum(map(len, units)) == len(found)
    for source, unit in zip(rows, units, strict=True):
        assert len(unit) == 1  # whether it was attacked or not: what is there does not depend on what was found
        assert all((item["score"] is None) is (item["state"] is not None) for item in unit)
        attacks = source["metadata"]["successfulAttacks"]
        assert not attacks or unit[0]["score"] == 1
        judged = [
            item for item in source["gradingResult"]["componentResults"] if item["assertion"]["type"] == "llm-rubric"
        ]
        whole = all(item["pass"] is not None and item["score"] is not None and not item["metadata"] for item in judged)
        if not attacks and (source["failureReason"] == 2 or not judged):
            assert unit[0]["score"] is None
        elif not attacks and whole and not any(item["score"] == (not item["pass"]) for item in judged):
            assert unit[0]["score"] == pytest.approx(1 - min(item["score"] for item in judged))


# Hostile and other files


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"results": {"version": 4, "results": []}}, "results.version is 4; versions 2 and 3 are known"),
        ({"results": {"version": "3", "results": []}}, "results.version is '3'; versions 2 and 3 are known"),
        ({"results": {"version": True, "results": []}}, "results.version is True"),
        ({"results": {"results": []}}, "results.version is None"),
        ({"results": {"version": 3}}, "there is no array at 'results.results'"),
        ({"results": {"version": 2, "table": {"body": [1]}}}, "there is no array at 'results.results'"),
        ({"results": {"version": 3, "results": {"a": 1}}}, "results.results is not a list of rows"),
        ({"results": []}, "is not promptfoo's results"),
        ({"version": 2, "samples": []}, "is not promptfoo's results"),
        ([1], "one JSON object is expected"),
        ("", "ends where the document is expected"),
        ('{"results": {"version": 3, "results": [{"a": ', "is cut off"),
        (document(1, row(component())), "r.json:row 1: an object is expected"),
        (document({}), "r.json:row 1: is not a result of promptfoo"),
        (document(row(component(), promptIdx=True)), "is not a result of promptfoo"),
        (document(row(component(), provider={"id": "x" * (MAX_NAME + 1)})), "is not a result of promptfoo"),
        (document(row(component(), metadata={"pluginId": "x" * (MAX_NAME + 1)})), "a category of over 300 characters"),
    ],
)
def test_a_file_that_is_not_known_is_refused_plainly(content: Any, message: str, tmp_path: Path) -> None:
    assert message in refusal(tmp_path / "r.json", content)


def test_version_2_is_read_where_it_holds_rows(tmp_path: Path) -> None:
    content = document(row(component(0.25, passed=False)))
    content["results"] |= {"version": 2, "table": {"body": [[1]] * 10}}
    (tmp_path / "r.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))
    source = opened(tmp_path / "r.json.gz")
    assert [item["score"] for item in cells(source)] == [0.75]
    assert source.facts.tool_version == "unknown"


@pytest.mark.parametrize("depth", [300, 900, 10_000])
@pytest.mark.parametrize("name", ["r.json", "r.jsonl"])
def test_rows_nested_deep_are_a_message_or_rows(name: str, depth: int, tmp_path: Path) -> None:
    deep = json.dumps(row(component())).replace('"p"', "[" * depth + "]" * depth)
    path = tmp_path / name
    path.write_text(deep if name == "r.jsonl" else json.dumps(document(7)).replace("7", deep))
    try:
        assert len(cells(opened(path))) == 1
    except InputError as error:
        assert str(error).startswith(f"{name}:1: ")  # noqa: PT017
    else:
        assert (name, depth < 10_000) == ("r.jsonl", True)


def test_texts_are_kept_short(read: Any) -> None:
    (found,) = read(row(component(1, reason="x" * 100_000)))
    assert len(found["rationale"]) == promptfoo.KEPT_TEXT


def test_a_turn_beyond_reason_is_none(read: Any) -> None:
    assert [item["turn"] for item in read(row(component(), metadata=attacked(1, MAX_TURN)))] == [MAX_TURN - 1]
    assert [item["turn"] for item in read(row(component(), metadata=attacked(1, MAX_TURN + 1)))] == [2]


junk: Any = st.sampled_from(
    [None, True, 0, -1, 2, 0.5, 10**400, "", "x", [], {}, [None], [[]], {"id": 1}, [{"turn": {}}]]
)


@IN_FOLDER
@given(path=st.lists(st.integers(0, 40), min_size=1, max_size=6), value=junk, multi=st.booleans())
def test_any_value_anywhere_is_rows_or_a_message(
    path: list[int], value: Any, multi: bool, generated: Path, tmp_path: Path
) -> None:
    content = copy.deepcopy(_small(generated, MULTI if multi else SINGLE))
    within: Any = content
    for step in path:
        keys = list(within) if isinstance(within, dict) else range(len(within))
        key = keys[step % len(keys)]
        if not isinstance(within[key], (dict, list)) or not within[key] or step is path[-1]:
            within[key] = value
            break
        within = within[key]
    (tmp_path / "r.json").write_text(json.dumps(content))
    _read_or_refused(tmp_path / "r.json")


_SMALL: dict[str, Any] = {}


def _small(generated: Path, name: str) -> Any:
    """A fixture with eight of its rows: the first ones and those with attacks."""
    if name not in _SMALL:
        content = json.loads((generated / name).read_text())
        content["results"]["results"] = content["results"]["results"][4:12]
        content["config"]["tests"] = content["config"]["tests"][:2]
        _SMALL[name] = content
    return _SMALL[name]


def _read_or_refused(path: Path) -> None:
    try:
        source = opened(path)
        cells(source)
        source.headlines()
    except InputError as error:
        assert str(error).startswith(path.name)  # noqa: PT017 (rows are fine too)


@pytest.mark.parametrize("name", [SINGLE, MULTI, SINGLE.replace(".json", ".jsonl")])
def test_a_fixture_cut_or_damaged_anywhere_is_rows_or_a_message(name: str, generated: Path, tmp_path: Path) -> None:
    if name.endswith(".json"):
        content = json.dumps(_small(generated, name)).encode()
    else:
        content = b"\n".join((generated / name).read_bytes().splitlines()[4:12])
    chance = random.Random(7)
    path = tmp_path / name
    for _ in range(20):
        path.write_bytes(content[: chance.randrange(1, len(content))])
        _read_or_refused(path)
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 3, 30])):
            damaged[chance.randrange(len(damaged))] = chance.choice(b'{}[]",:\\0e-\xff\x00 n')
        path.write_bytes(bytes(damaged))
        _read_or_refused(path)


def test_cells_say_their_row_or_line(generated: Path) -> None:
    for name in (SINGLE, SINGLE.replace(".json", ".jsonl")):
        found: list[Cell] = list(opened(generated / name).cells([]))
        assert [cell.place for cell in found] == list(range(1, 61))
