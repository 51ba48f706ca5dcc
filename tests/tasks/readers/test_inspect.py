"""Logs of Inspect AI: every sample has scores or a state, and the tool's own reader sees the same samples."""

from __future__ import annotations

import contextlib
import json
import math
import re
import tracemalloc
import warnings
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.data.vocabulary import STATES
from core.errors import InputError
from tasks.readers import archives, json_document, open_source
from tasks.readers import inspect as inspect_reader
from tasks.readers.archives import DEFLATED, STORED, ZSTANDARD
from tasks.readers.inspect import InspectSource
from tasks.storage import InputFile
from tests.tasks.readers.test_archives import zipped

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
CATEGORIES = ("dangerous-instructions", "hate", "self-harm", "sexual", "violence")
GENERATED = ("generated/harm_multiturn.eval", "generated/harm_multiturn.json", "generated/graded_qa_unparseable.eval")
UPSTREAM = (
    "upstream/2025-02-11T15-17-00-05-00_popularity_dPiJifoWeEQBrfWsAopzWr.eval",
    "upstream/2025-05-12T20-28-13-04-00_popularity.json",
    "upstream/log_formats.eval",
    "upstream/log_formats.json",
    "upstream/log_read_sample.eval",
)

Row = dict[str, Any]


def source_of(path: Path, **options: str) -> InspectSource:
    named = {"higher-is": "worse"} | {name.replace("_", "-"): value for name, value in options.items()}
    asked = {name: value for name, value in named.items() if value}
    return InspectSource(InputFile(path=path, name=path.name, reader="inspect", options=asked))


def rows_of(source: InspectSource) -> list[Row]:
    return [row for batch, _ in source.batches(source.columns) for row in batch.to_pylist()]


def read(path: Path, **options: str) -> list[Row]:
    return rows_of(source_of(path, **options))


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(InputError) as error:
        read(path, **options)
    return str(error.value)


def units(rows: list[Row]) -> dict[tuple[str, int], Row]:
    """Worst score by category, or the state, of each attempt."""
    found: dict[tuple[str, int], Row] = {}
    for row in rows:
        unit = found.setdefault((row["trace_id"], row["attempt"]), {"states": set(), "worst": {}})
        if row["state"] is not None:
            unit["states"].add(row["state"])
        else:
            before = unit["worst"].get(row["category"], 0.0)
            unit["worst"][row["category"]] = max(before, row["score"])
    return found


def states_of(rows: list[Row]) -> Counter[str]:
    by_unit = units(rows).values()
    return Counter(next((state for state in STATES if state in unit["states"]), "scored") for unit in by_unit)


# Logs made here, in either format.

SCORER = {"name": "judge", "options": {"model": "grader-1"}, "metrics": {"*": []}}


def sample(trace_id: Any, value: Any = None, *, epoch: Any = 1, scorer: str = "judge", **more: Any) -> Row:
    """A sample; scored unless there is no value."""
    item: Row = {"id": trace_id, "epoch": epoch, "messages": [{"role": "user"}, {"role": "assistant"}]}
    item["scores"] = (
        {} if value is None else {scorer: value if isinstance(value, dict) and "value" in value else {"value": value}}
    )
    return item | more


def header_of(samples: list[Row], **changes: Any) -> Row:
    spec: Row = {
        "task": "t",
        "task_version": "3",
        "model": "target-1",
        "dataset": {"sample_ids": list(dict.fromkeys(item.get("id") for item in samples))},
        "config": {"epochs": 1},
        "packages": {"inspect_ai": "0.3.285"},
        "scorers": [SCORER],
    }
    return {"version": 2, "status": "success", "eval": spec | changes.pop("eval", {})} | changes


def as_json(path: Path, samples: list[Row], **changes: Any) -> Path:
    path.write_text(json.dumps(header_of(samples, **changes) | {"samples": samples}))
    return path


def as_eval(
    path: Path, samples: list[Row], *, header: str = "header.json", method: int = ZSTANDARD, **changes: Any
) -> Path:
    members = [(f"samples/{item['id']}_epoch_{item['epoch']}.json", json.dumps(item)) for item in samples]
    members.append((header, json.dumps(header_of(samples, **changes))))
    path.write_bytes(zipped([(name, content.encode()) for name, content in members], method=method))
    return path


# The fixtures, against figures that a raw parse of them gave (expected.json of the shared data).


@pytest.fixture(scope="module")
def logs(shared: Path) -> Path:
    return shared / "data/interop/inspect"


@pytest.fixture(scope="module")
def expected(logs: Path) -> Row:
    loaded: Row = json.loads((logs / "expected.json").read_text())
    return loaded


@pytest.mark.parametrize("name", ["harm_multiturn.eval", "harm_multiturn.json"])
@pytest.mark.parametrize("turns", ["", "turn_scores"])
def test_flags_states_and_turns_are_those_of_a_raw_parse(name: str, turns: str, logs: Path, expected: Row) -> None:
    facts = expected[name]
    rows = read(logs / "generated" / name, turns=turns, cluster="vector")
    assert states_of(rows) == {
        "scored": facts["scored_rows"], "unscored": facts["unscored_rows_nan"], "target_error": facts["errored_rows"],
    }  # fmt: skip
    found = units(rows)
    assert {trace for (trace, _), unit in found.items() if "target_error" in unit["states"]} == set(
        facts["errored_ids"]
    )
    assert {trace for (trace, _), unit in found.items() if "unscored" in unit["states"]} == set(facts["unscored_ids"])
    assert {attempt + 1 for _, attempt in found} == set(facts["epochs"])
    any_epoch = set()
    for epoch in facts["epochs"]:
        scored = {key[0]: unit["worst"] for key, unit in found.items() if key[1] == epoch - 1 and not unit["states"]}
        flagged = {name: sum(worst[name] >= 0.5 for worst in scored.values()) for name in CATEGORIES}
        assert flagged == facts[f"epoch{epoch}_flagged_per_category_tau0.5"]
        composite = {trace for trace, worst in scored.items() if max(worst.values()) >= 0.5}
        assert [len(composite), len(scored)] == facts[f"epoch{epoch}_composite_OR"]
        any_epoch |= composite
    assert [len(any_epoch), len(scored)] == facts["any_epoch_composite_OR"]
    if turns:
        scored_turns = {(row["trace_id"], row["attempt"], row["turn"]) for row in rows if row["state"] is None}
        assert len(scored_turns) == facts["scored_turns_total"]
    else:
        assert {row["turn"] for row in rows} == {0}


@pytest.mark.parametrize("name", ["harm_multiturn.eval", "harm_multiturn.json"])
def test_what_a_log_says_of_itself_is_kept(name: str, logs: Path, expected: Row) -> None:
    facts = expected[name]
    source = source_of(logs / "generated" / name, turns="turn_scores", cluster="vector")
    rows = rows_of(source)
    assert {row["target"] for row in rows} == {facts["model"]}
    assert {row["judge"] for row in rows} == {f"harm_judge@{facts['task_version']}"}
    (fingerprint,) = {row["judge_fingerprint"] for row in rows}
    assert re.fullmatch(r"[0-9a-f]{64}", fingerprint)
    assert {row["cluster"] for row in rows} == {f"vector-{number}" for number in range(6)}
    assert source.facts.tool_version == facts["inspect_version"]
    assert source.facts.turn_scope == "all"
    assert source.facts.counts == {
        "failed_tries": len(facts["rows_with_error_retries"]), "reason grade_parse_failure": facts["unscored_rows_nan"],
    }  # fmt: skip


def test_the_two_formats_of_one_run_agree_in_every_cell(logs: Path) -> None:
    one, other = (
        read(logs / "generated" / f"harm_multiturn.{kind}", turns="turn_scores", cluster="vector")
        for kind in ("eval", "json")
    )

    def key(row: Row) -> tuple[Any, ...]:
        return row["trace_id"], row["attempt"], row["turn"], row["category"]

    assert len(one) == len(other)
    pairs = zip(sorted(one, key=key), sorted(other, key=key), strict=True)
    # They are two runs of one task: the identity is the same, scores differ in no row.
    assert all(a == b for a, b in pairs)


def test_a_grader_whose_reply_could_not_be_read_leaves_samples_unscored(logs: Path, expected: Row) -> None:
    values = expected["graded_qa_unparseable.eval"]["values"]
    source = source_of(logs / "generated/graded_qa_unparseable.eval", higher_is="better")
    rows = rows_of(source)
    assert Counter(row["state"] or row["score"] for row in rows) == {
        0.0: values["C"], 1.0: values["I"], "unscored": values["nan"],
    }  # fmt: skip
    assert {row["judge"] for row in rows} == {"model_graded_qa(mockllm/judge)@0"}
    assert source.facts.counts == {"reason grader_failed": values["nan"]}
    (line,) = [line for line in source.headlines() if line.what.startswith("accuracy")]
    assert (line.tool, line.ours, line.why) == ("0.428571", "0.428571 over 7 scored", "")


def official_rows(path: Path) -> list[tuple[Any, ...]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log_module = pytest.importorskip("inspect_ai.log")
        log = log_module.read_eval_log(str(path))
    return [
        (
            item.id,
            item.epoch,
            {name: score.value for name, score in (item.scores or {}).items()},
            item.error is not None,
        )
        for item in log.samples
    ]


@pytest.mark.e2e
@pytest.mark.parametrize("name", [*GENERATED, *UPSTREAM])
def test_inspects_own_reader_sees_the_same_samples(name: str, logs: Path) -> None:
    theirs: list[tuple[Any, ...]] = []
    for trace, epoch, scores, failed in official_rows(logs / name):
        numbers: Row = {}
        for scorer, value in scores.items():
            each = value if isinstance(value, dict) else {scorer: value}
            numbers |= {key: {"C": 1.0, "I": 0.0}.get(held, held) for key, held in each.items()}
        theirs.append((str(trace), epoch - 1, failed, numbers))
    ours: dict[tuple[str, int], tuple[Any, ...]] = {}
    for cell in source_of(logs / name).cells([]):
        unit = ours.setdefault(
            (cell.trace_id, cell.attempt), (cell.trace_id, cell.attempt, cell.state == "target_error", {})
        )
        unit[3].update({} if cell.score is None else {cell.category: cell.score})
    without_nan = [
        (*rest, {key: held for key, held in numbers.items() if not math.isnan(held)}) for *rest, numbers in theirs
    ]
    assert sorted(ours.values(), key=str) == sorted(without_nan, key=str)


@pytest.mark.e2e
@pytest.mark.parametrize("value", ["C", "I", "P", "N", True, False, "yes", "No", "TRUE", "false", "0.25", 1, 0.125])
def test_grades_are_the_numbers_that_inspect_makes_of_them(value: Any, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scorer = pytest.importorskip("inspect_ai.scorer")
    (row,) = read(as_json(tmp_path / "a.json", [sample("a", {"value": value})]))
    assert row["score"] == scorer.value_to_float()(value)


def test_what_only_a_header_was_kept_of_is_refused(logs: Path, tmp_path: Path) -> None:
    assert "holds no samples" in refusal(logs / "upstream/log_with_nan.txt")
    assert "holds no samples" in refusal(as_eval(tmp_path / "a.eval", []))
    (tmp_path / "a.json").write_text(json.dumps(header_of([]) | {"samples": None}))
    assert "holds no samples" in refusal(tmp_path / "a.json")


# Direction, scale, values.


@pytest.mark.parametrize("write", [as_json, as_eval])
def test_better_turns_scores_around_and_nobody_having_said_it_is_refused(write: Any, tmp_path: Path) -> None:
    path = write(tmp_path / "a.eval" if write is as_eval else tmp_path / "a.json", [sample("a", 0.25)])
    assert [row["score"] for row in read(path)] == [0.25]
    assert [row["score"] for row in read(path, higher_is="better")] == [0.75]
    assert source_of(path, higher_is="better").facts.higher_is == "better"
    assert "whether a higher score is worse or better is not in the file" in refusal(path, higher_is="")


@pytest.mark.parametrize(
    ("value", "score"),
    [
        ("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (False, 0.0), ("yes", 1.0), ("NO", 0.0),
        ("0.25", 0.25), (1, 1.0), (0.125, 0.125), ("X", None), ("", None), ("c", None), ("nan", None),
        (math.nan, None), (None, None), ("inf", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("nested", [False, True])
def test_values_become_numbers_as_in_inspect_or_are_unscored(
    value: Any, score: float | None, nested: bool, tmp_path: Path
) -> None:
    held = {"value": {"k": value, "other": 0.5} if nested else value}
    rows = read(as_json(tmp_path / "a.json", [sample("a", held)]))
    row = next(row for row in rows if row["category"] == ("k" if nested else "judge"))
    assert (row["score"], row["state"]) == (score, None if score is not None else "unscored")


def test_a_declared_scale_is_one_of_numbers_not_of_letters(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [sample("a", 4), sample("b", 10), sample("c", 11)])
    assert "row 3: score 11 of 'judge' is outside the scale [0, 10]" in refusal(path, scale="0..10")
    letters = as_json(tmp_path / "b.json", [sample("a", 4), sample("b", "C")])
    assert "row 2: 'judge' is 'C', which has no place on the declared scale" in refusal(letters, scale="0..10")
    numbers = as_json(tmp_path / "c.json", [sample("a", 4), sample("b", 10)])
    assert [row["score"] for row in read(numbers, scale="0..10")] == [0.4, 1.0]


@pytest.mark.parametrize("token", ["Infinity", "-Infinity", "1e999", "7" * 400])
def test_numbers_that_no_scale_has_are_told(token: str, tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [sample("a", 12345)])
    path.write_text(path.read_text().replace("12345", token))
    assert "is outside the scale [0, 1]" in refusal(path)


@pytest.mark.parametrize("value", [[1, 0], {"hate": [1]}, {"hate": {"x": 1}}])
def test_values_that_name_no_category_are_refused(value: Any, tmp_path: Path) -> None:
    assert "is a list or object; a number or grade is expected" in refusal(
        as_json(tmp_path / "a.json", [sample("a", {"value": value})])
    )


@pytest.mark.parametrize(
    "score",
    [
        {"value": 0.0, "reason": "grader_failed"},
        {"value": "I", "metadata": {"unscored_reason": "grade_parse_failure"}},
        {"value": "I", "explanation": "Grade not found in model output: I cannot decide"},
    ],
)
def test_a_judge_that_failed_gave_no_score_whatever_value_it_left(score: Row, tmp_path: Path) -> None:
    (row,) = read(as_json(tmp_path / "a.json", [sample("a", score)]))
    assert (row["score"], row["state"]) == (None, "unscored")


def test_a_reason_that_speaks_of_the_target_leaves_the_value(tmp_path: Path) -> None:
    (row,) = read(as_json(tmp_path / "a.json", [sample("a", {"value": 1.0, "reason": "invalid_response_format"})]))
    assert row["score"] == 1.0


# States.

ERROR = {"message": "HTTP 500", "traceback": ""}


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({"error": ERROR}, "target_error"),
        ({"limit": {"type": "token", "limit": 5}}, "limit"),
        ({}, "missing"),
        ({"error": ERROR, "limit": {"type": "token"}, "invalidation": {}}, "target_error"),
        ({"invalidation": {"reason": "wrong prompt"}}, "unscored"),
    ],
)
@pytest.mark.parametrize("write", [as_json, as_eval])
def test_a_sample_without_scores_has_a_state_in_every_category(
    more: Row, state: str, write: Any, tmp_path: Path
) -> None:
    path = tmp_path / ("a.eval" if write is as_eval else "a.json")
    rows = read(write(path, [sample("a", {"value": {"hate": 0.9, "sexual": 0.1}}), sample("b", **more)]))
    assert [(row["category"], row["score"], row["state"]) for row in rows if row["trace_id"] == "b"] == [
        ("hate", None, state), ("sexual", None, state),
    ]  # fmt: skip


@pytest.mark.parametrize(("more", "state"), [({"error": ERROR}, "target_error"), ({"invalidation": {}}, "unscored")])
def test_scores_beside_an_error_or_invalidation_do_not_count(more: Row, state: str, tmp_path: Path) -> None:
    source = source_of(as_json(tmp_path / "a.json", [sample("a", 1.0, **more)]))
    (row,) = rows_of(source)
    assert (row["score"], row["state"]) == (None, state)
    assert source.facts.counts["scores_beside_errors"] == 1


def test_a_score_stands_beside_a_limit_but_a_value_that_is_none_does_not(tmp_path: Path) -> None:
    limit = {"type": "message", "limit": 3}
    samples = [sample("a", 1.0, limit=limit), sample("b", math.nan, limit=limit)]
    assert [(row["score"], row["state"]) for row in read(as_json(tmp_path / "a.json", samples))] == [
        (1.0, None), (None, "limit"),
    ]  # fmt: skip


@pytest.mark.parametrize("write", [as_json, as_eval])
def test_a_run_that_calls_itself_a_success_may_have_scored_nothing(write: Any, tmp_path: Path) -> None:
    path = tmp_path / ("a.eval" if write is as_eval else "a.json")
    source = source_of(write(path, [sample(number, error=ERROR) for number in range(4)]))
    rows = rows_of(source)
    assert Counter((row["category"], row["state"]) for row in rows) == {("judge", "target_error"): 4}
    (line,) = source.headlines()
    assert (line.tool, line.ours) == ("no results", "4 = 4 target_error")
    assert "no sample was scored, whatever the status says" in line.why


def test_categories_of_a_run_without_scores_come_from_its_metrics_or_results(tmp_path: Path) -> None:
    scorers = [{"name": "pack/judge", "options": {}, "metrics": {"hate": [], "sexual": []}}]
    path = as_json(tmp_path / "a.json", [sample("a", error=ERROR)], eval={"scorers": scorers})
    assert [row["category"] for row in read(path)] == ["hate", "sexual"]
    results = {"scores": [{"name": "violence", "scorer": "judge", "metrics": {}}]}
    path = as_json(tmp_path / "b.json", [sample("a", error=ERROR)], results=results)
    assert [row["category"] for row in read(path)] == ["violence"]
    path = as_json(tmp_path / "c.json", [sample("a", error=ERROR)], eval={"scorers": None})
    assert "holds no scores and names no scorer" in refusal(path)


def test_an_edited_score_counts_as_it_is_now(tmp_path: Path) -> None:
    score = {"value": 0.0, "history": [{"value": 1.0}, {"value": 0.0, "provenance": {"author": "x"}}]}
    source = source_of(as_json(tmp_path / "a.json", [sample("a", score), sample("b", 1.0)]))
    assert [row["score"] for row in rows_of(source)] == [0.0, 1.0]
    assert source.facts.counts == {"edited_scores": 1}


# Runs, ids, what was planned.


def test_equal_runs_of_one_sample_are_one_and_are_counted(tmp_path: Path) -> None:
    source = source_of(as_json(tmp_path / "a.json", [sample("a", 1.0, uuid="u"), sample("a", 1.0, uuid="u")]))
    assert [row["score"] for row in rows_of(source)] == [1.0]
    assert source.facts.counts == {"duplicates": 1}


@pytest.mark.parametrize("order", [1, -1])
def test_of_runs_that_differ_the_scored_one_stands_wherever_it_is(order: int, tmp_path: Path) -> None:
    samples = [sample("a", error=ERROR, uuid="1"), sample("a", 1.0, uuid="2"), sample("a", math.nan, uuid="3")][::order]
    source = source_of(as_json(tmp_path / "a.json", samples))
    assert [(row["score"], row["state"]) for row in rows_of(source)] == [(1.0, None)]
    assert source.facts.counts["reruns"] == 2


def test_of_runs_without_scores_the_last_stands(tmp_path: Path) -> None:
    samples = [sample("a", error=ERROR), sample("a", limit={"type": "time"})]
    assert [row["state"] for row in read(as_json(tmp_path / "a.json", samples))] == ["limit"]


def test_two_scored_runs_that_differ_are_refused(tmp_path: Path) -> None:
    message = refusal(as_json(tmp_path / "a.json", [sample("a", 1.0), sample("a", 0.0)]))
    assert "row 2: sample 'a' has other scores for epoch 1 in row 1" in message


def test_a_uuid_that_two_samples_share_is_refused(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [sample("a", 1.0, uuid="u"), sample("b", 1.0, uuid="u")])
    assert "row 2: its uuid 'u' is that of another sample or epoch" in refusal(path)


def test_a_number_and_a_text_that_would_be_one_trace_are_refused(tmp_path: Path) -> None:
    assert read(as_json(tmp_path / "a.json", [sample(1, 1.0)]))[0]["trace_id"] == "1"
    message = refusal(as_json(tmp_path / "b.json", [sample(1, 1.0), sample("1", 0.0, epoch=2)]))
    assert "row 2: id '1' is a text here and a number elsewhere" in message


@pytest.mark.parametrize("change", [{"id": True}, {"id": None}, {"id": [[]]}, {"id": ""}, {"id": 0.5}, {"epoch": 0},
                                    {"epoch": "1"}, {"epoch": True}, {"scores": []}, {"scores": {"judge": 1}},
                                    {"scores": {"judge": {}}}])  # fmt: skip
def test_samples_that_are_none_are_told_with_their_row(change: Row, tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [sample("z", 1.0), sample("a", 1.0)])
    log = json.loads(path.read_text())
    log["samples"][1] |= change
    path.write_text(json.dumps(log))
    assert refusal(path).startswith("a.json:row 2: ")


@pytest.mark.parametrize("epochs", [1, 2])
def test_an_unfinished_log_is_read_as_far_as_it_goes_and_what_was_planned_is_missing(
    epochs: int, tmp_path: Path
) -> None:
    samples = [sample("a", 1.0, metadata={"vector": "v"})]
    spec = {"dataset": {"samples": 3, "sample_ids": ["a", "b", "c"]}, "config": {"epochs": epochs}}
    source = source_of(as_eval(tmp_path / "a.eval", samples, header="_journal/start.json", eval=spec), cluster="vector")
    rows = rows_of(source)
    assert states_of(rows) == {"scored": 1, "missing": 3 * epochs - 1}
    assert {row["cluster"] for row in rows if row["trace_id"] == "a"} == {"v"}
    assert source.facts.counts == {"incomplete": 1, "absent": 3 * epochs - 1}
    line = source.headlines()[0]
    assert (line.tool, line.ours) == ("unfinished", f"1 of {3 * epochs} planned samples")


@pytest.mark.parametrize("status", ["cancelled", "error", "started", "success"])
def test_what_a_run_that_broke_off_did_not_reach_is_missing(status: str, tmp_path: Path) -> None:
    spec = {"dataset": {"samples": 2, "sample_ids": ["a", "b"]}}
    source = source_of(as_json(tmp_path / "a.json", [sample("a", 1.0)], eval=spec, status=status))
    assert states_of(rows_of(source)) == {"scored": 1, "missing": 1}
    assert source.facts.counts.get("incomplete", 0) == (status == "started")
    assert source.headlines()[0].tool == ("unfinished" if status == "started" else status)


@pytest.mark.parametrize(
    ("spec", "results", "absent"),
    [
        ({"dataset": {"samples": 100}, "config": {"limit": 3}}, {}, 2),
        ({"dataset": {"samples": 3}, "config": {"epochs": 2}}, {}, 5),
        ({"dataset": {"samples": 100}, "config": {}}, {"total_samples": 2}, 1),
        ({"dataset": {"samples": 100}, "config": {"sample_id": ["a"]}}, {}, 0),
        ({"dataset": {}, "config": {}}, {}, 0),
    ],
)
def test_old_logs_that_do_not_name_what_was_planned_still_say_how_much(
    spec: Row, results: Row, absent: int, tmp_path: Path
) -> None:
    rows = read(as_json(tmp_path / "a.json", [sample("a", 1.0)], eval=spec, results=results))
    assert len([row for row in rows if row["state"] == "missing"]) == absent
    assert len({row["trace_id"] for row in rows}) == absent + 1


def test_a_plan_that_no_log_can_hold_is_refused_and_not_enumerated(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [sample("a", 1.0)], eval={"config": {"epochs": 10**12}})
    assert "plans 1000000000000 samples" in refusal(path)


# Turns and clusters.


def turned(trace_id: str, turns: Any, value: Any, n_answers: int) -> Row:
    messages = [{"role": role} for _ in range(n_answers) for role in ("user", "assistant")]
    return sample(trace_id, {"value": value, "metadata": {"by_turn": turns}}, messages=messages)


def test_without_the_key_a_conversation_is_one_and_with_it_each_turn_has_its_scores(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [turned("a", [{"hate": 0.9}, {"hate": 0.1}], {"hate": 0.9}, 2)])
    source = source_of(path)
    assert [(row["turn"], row["score"]) for row in rows_of(source)] == [(0, 0.9)]
    assert source.facts.turn_scope == "conversation"
    source = source_of(path, turns="by_turn")
    assert [(row["turn"], row["score"]) for row in rows_of(source)] == [(0, 0.9), (1, 0.1)]
    assert source.facts.turn_scope == "all"
    assert not source.facts.counts


def test_an_early_violation_is_not_erased_by_a_later_turn_nor_by_one_without_a_score(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [turned("a", [0.9, None, 0.0], 0.9, 3)])
    assert [(row["turn"], row["score"], row["state"]) for row in read(path, turns="by_turn")] == [
        (0, 0.9, None), (1, None, "unscored"), (2, 0.0, None),
    ]  # fmt: skip


def test_turns_that_do_not_fit_the_conversation_or_its_value_are_counted(tmp_path: Path) -> None:
    samples = [
        turned("short", [{"hate": 0.2}], {"hate": 0.2}, 3),
        turned("long", [{"hate": 0.2}, {"hate": 0.1}], {"hate": 0.2}, 1),
        turned("unlike", [{"hate": 0.2}], {"hate": 0.8}, 1),
        turned("unlisted", None, {"hate": 0.8}, 2),
    ]
    source = source_of(as_json(tmp_path / "a.json", samples), turns="by_turn")
    rows = rows_of(source)
    assert [(row["trace_id"], row["turn"], row["state"]) for row in rows if row["state"]] == [
        ("short", 1, "missing"), ("short", 2, "missing"), ("unlisted", 0, "missing"), ("unlisted", 1, "missing"),
    ]  # fmt: skip
    assert source.facts.counts == {
        "turns_not_listed": 1, "turns_that_do_not_match": 2, "values_unlike_their_turns": 1,
        "values_worse_than_their_turns": 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("turns", "value", "n_answers", "found"),
    [
        ([0.0, 0.0], 0.9, 2, [(0.0, None), (0.9, None)]),
        ([0.0, 0.5], 0.2, 2, [(0.0, None), (0.5, None)]),  # a turn is worse: it is not erased
        ([0.1, None], 0.9, 2, [(0.9, None), (None, "unscored")]),  # what is not scored stays so
        ([0.1], 0.9, 2, [(0.9, None), (None, "missing")]),
        ([None], 0.9, 1, [(None, "unscored")]),
    ],
)
def test_a_value_worse_than_its_turns_is_not_lost(
    turns: Any, value: float, n_answers: int, found: Any, tmp_path: Path
) -> None:
    path = as_json(tmp_path / "a.json", [turned("a", turns, value, n_answers)])
    assert [(row["score"], row["state"]) for row in read(path, turns="by_turn")] == found


def test_a_log_whose_turns_are_all_clean_keeps_the_violations_of_its_samples(logs: Path, tmp_path: Path) -> None:
    content = json.loads((logs / "generated/harm_multiturn.json").read_text())
    for item in content["samples"]:
        for score in (item.get("scores") or {}).values():
            for listed in (score.get("metadata") or {}).get("turn_scores", []):
                listed.update(dict.fromkeys(listed, 0.0))
    (tmp_path / "a.json").write_text(json.dumps(content))
    flagged = []
    for turns in ({}, {"turns": "turn_scores"}):
        source = source_of(tmp_path / "a.json", **turns)
        found = units(rows_of(source)).values()
        flagged.append([unit["worst"] for unit in found if unit["worst"] and not unit["states"]])
    assert flagged[0] == flagged[1]
    assert sum(max(worst.values()) >= 0.5 for worst in flagged[1]) == 13
    assert source.facts.counts["values_worse_than_their_turns"] == 40


def test_the_worst_turn_is_the_lowest_where_higher_is_better(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [turned("a", [0.9, 0.1], 0.1, 2)])
    for direction, unlike in (("better", 0), ("worse", 1)):
        source = source_of(path, turns="by_turn", higher_is=direction)
        rows_of(source)
        assert source.facts.counts.get("values_unlike_their_turns", 0) == unlike
        assert "values_worse_than_their_turns" not in source.facts.counts
    path = as_json(tmp_path / "a.json", [turned("a", [0.9, 0.8], 0.1, 2)])
    for direction, scores in (("better", [pytest.approx(0.1), 0.9]), ("worse", [0.9, 0.8])):
        assert [row["score"] for row in read(path, turns="by_turn", higher_is=direction)] == scores


def test_turns_of_a_value_that_the_judge_did_not_give_are_unscored(tmp_path: Path) -> None:
    samples = [turned("a", [{"hate": 0.1}], math.nan, 1), turned("b", [{"hate": 0.1}], {"hate": 0.1}, 1)]
    rows = read(as_json(tmp_path / "a.json", samples), turns="by_turn")
    assert [(row["trace_id"], row["score"], row["state"]) for row in rows] == [
        ("a", None, "unscored"), ("b", 0.1, None),
    ]  # fmt: skip


def test_keys_that_no_sample_has_are_refused_with_those_that_are_there(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [turned("a", [0.1], 0.1, 1) | {"metadata": {"vector": 1}}])
    assert "turns=by_trun: no score's metadata lists turns under that key; lists there: 'by_turn'" in refusal(
        path, turns="by_trun"
    )
    assert "cluster=vec: no sample's metadata has that key; keys there: 'vector'" in refusal(path, cluster="vec")
    assert read(path, cluster="vector")[0]["cluster"] == "1"


def test_a_trace_in_two_clusters_is_refused(tmp_path: Path) -> None:
    samples = [sample("a", 0.1, epoch=epoch, metadata={"vector": epoch}) for epoch in (1, 2)]
    assert "row 2: trace 'a' is in another cluster" in refusal(as_json(tmp_path / "a.json", samples), cluster="vector")


# Scorers and judges.


def test_scorers_whose_categories_have_one_name_need_a_choice(tmp_path: Path) -> None:
    scores = {"one": {"value": {"self_harm": 0.1}}, "two": {"value": {"self-harm": 0.9}}, "three": {"value": "C"}}
    path = as_json(tmp_path / "a.json", [sample("a") | {"scores": scores}])
    message = refusal(path)
    assert "scorers 'one', 'two', 'three' have categories of one name" in message
    assert "inspect,scorer=two:a.json" in message
    assert [(row["category"], row["score"]) for row in read(path, scorer="two")] == [("self-harm", 0.9)]
    assert "no scorer is called 'tow'; did you mean 'two'?" in refusal(path, scorer="tow")


def test_scorers_of_different_categories_are_one_judge_together(tmp_path: Path) -> None:
    scores = {"one": {"value": {"hate": 0.1}}, "two": {"value": True}}
    scorers = [{"name": name, "options": {}} for name in ("one", "two")]
    rows = read(as_json(tmp_path / "a.json", [sample("a") | {"scores": scores}], eval={"scorers": scorers}))
    assert [(row["category"], row["score"]) for row in rows] == [("hate", 0.1), ("two", 1.0)]
    assert {row["judge"] for row in rows} == {"one+two@3"}


def fingerprint(tmp_path: Path, **spec: Any) -> tuple[str, str]:
    (row,) = read(as_json(tmp_path / "a.json", [sample("a", 0.5)], eval=spec))
    return row["judge"], row["judge_fingerprint"]


def test_a_fingerprint_changes_with_what_may_change_scores_and_with_nothing_else(tmp_path: Path) -> None:
    judge, usual = fingerprint(tmp_path)
    assert judge == "judge(grader-1)@3"
    assert fingerprint(tmp_path, scorers=[SCORER | {"metrics": [{"name": "mean"}]}], model="other") == (judge, usual)
    for change in (
        {"scorers": [SCORER | {"options": {"model": "grader-1", "instructions": "be strict"}}]},
        {"packages": {"inspect_ai": "0.3.286"}},
        {"model_roles": {"grader": {"model": "grader-2"}}},
    ):
        assert fingerprint(tmp_path, **change)[1] != usual


def test_a_grader_may_be_named_by_its_role_and_what_no_file_says_is_unknown(tmp_path: Path) -> None:
    bare = [{"name": "judge", "options": {}}]
    assert fingerprint(tmp_path, scorers=bare, model_roles={"grader": {"model": "g"}})[0] == "judge(g)@3"
    assert fingerprint(tmp_path, scorers=bare)[0] == "judge@3"
    assert fingerprint(tmp_path, scorers=None, task_version=None) == ("judge@unknown", "unknown")


# The tool's own figures.


def test_headlines_stand_beside_the_tools_figures_with_the_reason_for_a_difference(logs: Path) -> None:
    lines = {line.what: line for line in source_of(logs / "generated/harm_multiturn.eval").headlines()}
    counts = lines["samples"]
    assert counts.tool == "48 total, 44 completed, 20 scored, 2 unscored"
    assert counts.ours == "48 = 40 scored + 4 target_error + 4 unscored"
    assert "total counts samples x epochs, its scored samples count ids" in counts.why
    mean = lines["mean of hate by harm_judge, epochs by mean"]
    assert (mean.tool, mean.ours, mean.why) == ("0.2062", "0.2062 over 40 scored", "")
    highest = lines["mean of hate by harm_judge, epochs by max"]
    assert (highest.tool, highest.ours) == ("0.2312", "0.2062 over 40 scored")
    assert "takes the max of a sample's epochs first" in highest.why
    assert len(lines) == 11


@pytest.mark.parametrize(
    ("entry", "ours", "why"),
    [
        ({"metrics": {"mean": {"value": 0.5}}}, "0.5 over 3 scored", ""),
        ({"metrics": {"mean": {"value": 0.25}}}, "0.5 over 3 scored", "averages a sample's scored epochs first"),
        ({"metrics": {"mean": {"value": math.nan}}}, "0.5 over 3 scored", "the tool has no figure"),
        ({"metrics": {"mean": {"value": 10**400}}}, "0.5 over 3 scored", "the tool has no figure"),
        ({"metrics": {"mean": {"value": 1}}, "scorer": "x"}, "not read", "of another scorer"),
    ],
)
def test_headlines_say_why_a_mean_differs(entry: Row, ours: str, why: str, tmp_path: Path) -> None:
    samples = [sample("a", 1.0), sample("a", 0.5, epoch=2), sample("b", 0.0), sample("b", math.nan, epoch=2)]
    results = {"scores": [{"name": "judge", "scorer": "judge", "reducer": "mean"} | entry]}
    *_, line = source_of(
        as_json(tmp_path / "a.json", samples, results=results, eval={"config": {"epochs": 2}})
    ).headlines()
    assert line.ours == ours
    assert why in line.why
    assert bool(why) == bool(line.why)


def test_a_mean_that_the_tool_has_of_samples_without_scores_is_told(tmp_path: Path) -> None:
    results = {"scores": [{"name": "judge", "scorer": "judge", "metrics": {"accuracy": {"value": 0.0}}}]}
    source = source_of(as_json(tmp_path / "a.json", [sample("a", 0.0, error=ERROR)], results=results))
    *_, line = source.headlines()
    assert (line.tool, line.ours, line.why) == ("0", "no score", "no sample has a score")


def test_headlines_leave_the_counts_of_the_last_pass_alone(tmp_path: Path) -> None:
    source = source_of(as_json(tmp_path / "a.json", [sample("a", math.nan, error_retries=[ERROR])]))
    rows_of(source)
    before = source.facts.counts
    source.headlines()
    assert source.facts.counts == before == {"failed_tries": 1}


# Versions, and what is no log.


@pytest.mark.parametrize("write", [as_json, as_eval])
@pytest.mark.parametrize("version", [0, 3, 4, "2", None, True, 1.5, [2]])
def test_a_version_that_is_not_known_is_refused_with_those_that_are(version: Any, write: Any, tmp_path: Path) -> None:
    path = tmp_path / ("a.eval" if write is as_eval else "a.json")
    message = refusal(write(path, [sample("a", 1.0)], version=version))
    assert "is a log of version" in message
    assert "version 1 or 2 is expected" in message


def test_samples_of_version_1_have_the_score_of_the_scorer_that_the_results_name(tmp_path: Path) -> None:
    item = {"id": 1, "epoch": 1, "score": {"value": "C"}}
    results = {
        "scorer": {"name": "model_graded_fact"},
        "metrics": {"accuracy": {"name": "accuracy", "value": math.nan}},
    }
    source = source_of(
        as_json(tmp_path / "a.json", [item], version=1, results=results, eval={"scorers": None, "packages": None})
    )
    (row,) = rows_of(source)
    assert (row["category"], row["score"], row["judge"]) == ("model-graded-fact", 1.0, "model_graded_fact@3")
    assert source.facts.tool_version == "unknown"
    assert [(line.what, line.tool) for line in source.headlines()][1] == ("accuracy of model_graded_fact", "'NaN'")


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"version": 2, "results": []}')
    assert "is no log of Inspect: its header says nothing under 'eval'" in refusal(path)
    path.write_text("[1, 2]")
    assert "one JSON object is expected" in refusal(path)
    other = tmp_path / "a.eval"
    other.write_bytes(zipped([("a.txt", b"1")]))
    assert "holds neither header.json nor _journal/start.json" in refusal(other)
    other.write_text("{}")
    assert "is no zip archive" in refusal(other)


def test_the_reader_is_registered(tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", [sample("a", 1.0)])
    assert isinstance(open_source(InputFile(path=path, name="a.json", reader="inspect")), InspectSource)


def test_options_that_do_not_exist_are_refused(tmp_path: Path) -> None:
    assert "has no option 'scorers'; did you mean 'scorer'?" in refusal(
        as_json(tmp_path / "a.json", [sample("a", 1.0)]), scorers="x"
    )


# Hostile files.


def test_a_bomb_in_a_log_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    header = json.dumps(header_of([])).encode()
    bomb = [("header.json", header), ("samples/a_epoch_1.json", b" " * (100 * 2**20))]
    path.write_bytes(zipped(bomb, method=DEFLATED))
    assert path.stat().st_size < 200_000
    assert "at most 1000 bytes out of one are read" in refusal(path)


def test_names_that_lead_out_of_a_log_are_refused(tmp_path: Path) -> None:
    path = as_eval(tmp_path / "a.eval", [sample("../../x", 1.0)])
    assert "leads out of the archive" in refusal(path)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("member", ["samples/a_epoch_1.json", "header.json"])
def test_json_nested_10000_deep_is_refused(opening: str, member: str, tmp_path: Path) -> None:
    members = {"header.json": json.dumps(header_of([])).encode(), "samples/a_epoch_1.json": b"{}"}
    closing = "]" if opening == "[" else "}"
    members[member] = (opening * 10_000 + "1" + closing * 10_000).encode()
    path = tmp_path / "a.eval"
    path.write_bytes(zipped(list(members.items()), method=ZSTANDARD))
    message = refusal(path)
    assert message.startswith(f"a.eval, member '{member}':1: ")
    assert "is nested deeper than 200 levels" in message
    (tmp_path / "a.json").write_bytes(members["header.json"][:-1] + b', "samples": [' + members[member] + b"]}")
    if member != "header.json":
        assert "nested deeper" in refusal(tmp_path / "a.json")


@pytest.mark.parametrize("depth", [150, 900])
def test_a_header_nested_deep_gives_no_traceback(depth: int, tmp_path: Path) -> None:
    nested: Any = 1
    for _ in range(depth):
        nested = [nested]
    for change in ({"version": nested}, {"eval": {"scorers": [SCORER | {"options": {"x": nested}}], "model": nested}}):
        path = as_eval(tmp_path / "a.eval", [sample("a", 1.0)], **change)
        with contextlib.suppress(InputError):
            read(path)


def test_text_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(
        zipped([("header.json", json.dumps(header_of([])).encode()), ("samples/a.json", b'{"id": "\xff"}')])
    )
    assert "member 'samples/a.json':1: the value of 'id' is not UTF-8 text (byte 0xff)" in refusal(path)


@pytest.mark.parametrize("write", [as_json, as_eval])
@pytest.mark.parametrize("padding", ["x" * 500_000, [list(range(100))] * 1_000])
def test_one_limit_holds_for_a_sample_in_either_format(
    padding: Any, write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_document, "MAX_ELEMENT", 20_000)
    monkeypatch.setattr(json_document, "CHUNK", 1000)
    samples = [sample("a", 1.0), sample("b", 1.0, messages=padding)]
    path = write(tmp_path / ("a.eval" if write is as_eval else "a.json"), samples)
    assert "is larger than 20000 bytes" in refusal(path)
    several = {f"part {number}": "x" * 9_000 for number in range(3)}
    write(path, [sample("a", 1.0, **several)])
    what = "the document" if write is as_eval else "element 1 of 'samples'"
    assert f"{what} is larger than 20000 bytes" in refusal(path)


@pytest.mark.parametrize("write", [as_json, as_eval])
def test_what_an_agent_did_and_held_may_be_of_any_size(
    write: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_document, "MAX_ELEMENT", 20_000)
    monkeypatch.setattr(json_document, "CHUNK", 2**16)
    large = {
        "events": [{"event": "model", "input": [{"content": f'\\"{number}]'}]} for number in range(10_000)],
        "attachments": {"image": "\\x" * 500_000},
        "store": {"a": {"b": [list(range(100_000))]}},
    }
    samples = [sample("a", 1.0, **large), sample("b", 0.5, input=large["events"])]
    path = tmp_path / ("a.eval" if write is as_eval else "a.json")
    read(write(path, [sample("a", 1.0)]))  # what is imported on the way is no part of the peak
    write(path, samples)
    del samples, large
    tracemalloc.start()
    try:
        found = [(row["trace_id"], row["score"]) for row in read(path)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == [("a", 1.0), ("b", 0.5)]
    assert peak < 2**20  # of 3 MB


@pytest.mark.parametrize("write", [as_json, as_eval])
def test_samples_are_not_held_while_others_are_read(write: Any, tmp_path: Path) -> None:
    samples = [sample(number, 0.5, store={"text": "x" * 40_000}) for number in range(500)]
    path = write(tmp_path / ("a.eval" if write is as_eval else "a.json"), samples)
    del samples
    tracemalloc.start()
    try:
        source = source_of(path)
        n_rows = sum(len(batch) for batch, _ in source.batches(source.columns))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert n_rows == 500
    assert peak < 8 * 2**20  # of 20 MB


def test_a_log_with_many_problems_is_given_up(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read(as_json(tmp_path / "a.json", [sample(number, 1.0, epoch=0) for number in range(5000)]))
    assert len(error.value.problems) == 200


# Properties.


values = st.one_of(
    st.none(), st.just(math.nan), st.floats(0, 1), st.sampled_from(["C", "I", "P", "N", "?"]), st.booleans(),
    st.dictionaries(st.sampled_from(["hate", "sexual"]), st.one_of(st.floats(0, 1), st.just(math.nan))),
)  # fmt: skip


@st.composite
def runs(draw: st.DrawFn) -> list[Row]:
    keys = draw(st.lists(st.tuples(st.sampled_from(["a", "b", "c", "d"]), st.integers(1, 3)), unique=True, min_size=1))
    samples = []
    for trace_id, epoch in keys:
        more: Row = draw(
            st.sampled_from([{}, {}, {"error": ERROR}, {"limit": {"type": "time"}}, {"invalidation": {"reason": "x"}}])
        )
        scores = {} if draw(st.booleans()) else {"judge": {"value": draw(values)}}
        samples.append(sample(trace_id, epoch=epoch) | {"scores": scores} | more)
    return samples


@IN_FOLDER
@given(samples=runs(), zipped_log=st.booleans(), ids=st.sets(st.sampled_from("abcdef")))
def test_every_sample_that_was_planned_or_run_has_a_score_or_a_state(
    samples: list[Row], zipped_log: bool, ids: set[str], tmp_path: Path
) -> None:
    spec = {"dataset": {"sample_ids": sorted(ids)}, "config": {"epochs": 2}}
    path = tmp_path / ("a.eval" if zipped_log else "a.json")
    rows = read((as_eval if zipped_log else as_json)(path, samples, eval=spec))
    run = {(item["id"], item["epoch"] - 1) for item in samples}
    planned = {(trace_id, epoch) for trace_id in ids for epoch in range(2)}
    assert set(units(rows)) == run | planned
    for row in rows:
        assert (row["score"] is None) == (row["state"] is not None)
        assert row["state"] is None or row["state"] in STATES
    for item in samples:
        unit = units(rows)[item["id"], item["epoch"] - 1]
        if "error" in item:
            assert unit == {"states": {"target_error"}, "worst": {}}
        elif not item["scores"] or "invalidation" in item:
            assert not unit["worst"]
    assert {key for key, unit in units(rows).items() if key not in run} <= planned


@IN_FOLDER
@given(samples=runs())
def test_turning_the_direction_turns_every_score_and_no_state(samples: list[Row], tmp_path: Path) -> None:
    path = as_json(tmp_path / "a.json", samples)
    for one, other in zip(read(path), read(path, higher_is="better"), strict=True):
        assert one["state"] == other["state"]
        assert one["score"] is None or other["score"] == pytest.approx(1 - one["score"])


def mutated(content: bytes, data: st.DataObject) -> bytes:
    changed = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(changed) - 1))
        changed[at : at + data.draw(st.integers(0, 3))] = data.draw(
            st.one_of(st.binary(max_size=3), st.sampled_from([b"NaN", b"null", b"[]", b"{}", b"1e999", b'"']))
        )
        if not changed:
            return b""
    return bytes(changed[: data.draw(st.integers(0, len(changed)))]) if data.draw(st.booleans()) else bytes(changed)


def whole(path: Path, options: Mapping[str, str]) -> None:
    with contextlib.suppress(InputError):
        source = source_of(path, **options)
        rows_of(source)
        source.headlines()


@settings(IN_FOLDER, max_examples=150)
@given(data=st.data(), zipped_log=st.booleans(), turns=st.sampled_from(["", "by_turn"]))
def test_whatever_is_done_to_a_log_it_is_read_or_refused(
    data: st.DataObject, zipped_log: bool, turns: str, tmp_path: Path
) -> None:
    samples = [
        turned("a", [{"hate": 0.9}, {"hate": 0.1}], {"hate": 0.9}, 2),
        sample("b", "C"),
        sample("c", error=ERROR),
    ]
    results = {"total_samples": 3, "scores": [{"name": "judge", "scorer": "judge", "metrics": {"mean": {"value": 1}}}]}
    path = tmp_path / ("a.eval" if zipped_log else "a.json")
    if zipped_log:
        as_eval(path, samples, results=results, method=STORED)
    else:
        as_json(path, samples, results=results)
    path.write_bytes(mutated(path.read_bytes(), data))
    whole(path, {"turns": turns})


leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3))
anything = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner))
PLACES = (
    ("version",), ("status",), ("eval",), ("results",), ("samples",), ("eval", "model"), ("eval", "scorers"),
    ("eval", "dataset"), ("eval", "config"), ("eval", "packages"), ("eval", "model_roles"), ("eval", "task_version"),
    ("eval", "dataset", "sample_ids"), ("eval", "config", "epochs"), ("results", "scores"),
    ("results", "total_samples"), ("samples", 0, "messages"),
    ("results", "scores", 0), ("results", "scores", 0, "metrics"), ("results", "scores", 0, "scored_samples"),
    ("eval", "scorers", 0, "options"), ("eval", "scorers", 0, "metrics"), ("eval", "scorers", 0, "name"),
    ("samples", 0), ("samples", 0, "id"), ("samples", 0, "scores"), ("samples", 0, "scores", "judge"),
    ("samples", 0, "scores", "judge", "value"), ("samples", 0, "scores", "judge", "metadata"),
    ("samples", 0, "scores", "judge", "metadata", "by_turn"), ("samples", 0, "scores", "judge", "history"),
    ("samples", 0, "error"), ("samples", 0, "limit"), ("samples", 0, "metadata"), ("samples", 0, "error_retries"),
)  # fmt: skip


@settings(IN_FOLDER, max_examples=200)
@given(place=st.sampled_from(PLACES), value=anything, turns=st.sampled_from(["", "by_turn"]))
def test_whatever_stands_in_a_place_of_a_log_it_is_read_or_refused(
    place: tuple[str | int, ...], value: Any, turns: str, tmp_path: Path
) -> None:
    samples = [turned("a", [{"hate": 0.9}], {"hate": 0.9}, 1), sample("b", "C")]
    results = {"scores": [{"name": "judge", "scorer": "judge", "metrics": {"mean": {"value": 1}}}]}
    log: Any = header_of(samples, results=results) | {"samples": samples}
    within = log
    for key in place[:-1]:
        within = within[key]
    within[place[-1]] = value
    path = tmp_path / "a.json"
    path.write_text(json.dumps(log))
    whole(path, {"turns": turns})


def test_the_limit_of_planned_samples_is_far_above_what_an_archive_may_hold() -> None:
    assert inspect_reader.MAX_PLANNED > archives.MAX_MEMBERS
