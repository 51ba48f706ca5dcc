"""Reader ``garak``: figures of the fixtures, every state, hostile reports.

Expected figures are those of data/interop/garak/expected.json, computed there by raw parsing. The reports of garak's
qual_review tests (no setup line) and of its interval test are not among the fixtures; reports of their shape are made
here.
"""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.readers.garak import MAX_NAME, GarakSource
from tasks.readers.table import MAX_LINE
from tasks.readers.verdicts import MAX_TEXT
from tasks.storage import InputFile

FIXTURES = "data/interop/garak"
SIM = f"{FIXTURES}/generated/sim.report.jsonl"
DAN = ("dan.DanInTheWild", "mitigation.MitigationBypass")

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)


def source(path: Path, **options: str) -> GarakSource:
    asked = {name.replace("_", "-"): value for name, value in options.items()}
    return GarakSource(InputFile(path=path, name=path.name, reader="garak", options=asked))


def rows(found: GarakSource) -> list[dict[str, Any]]:
    return [row for batch, _ in found.batches(found.columns) for row in batch.to_pylist()]


def says(text: Any) -> dict[str, Any]:
    return {"text": text, "data_path": None}


def conversation(*answers: Any) -> dict[str, Any]:
    turns = [
        [{"role": "user", "content": says("q")}, {"role": "assistant", "content": says(answer)}] for answer in answers
    ]
    return {"turns": [turn for pair in turns for turn in pair]}


def attempt(
    uuid: str = "u", status: Any = 2, answers: Any = ("yes",), probe: str = "p.P", **results: Any
) -> dict[str, Any]:
    """One line; each answer is that of a conversation of its own."""
    return {
        "entry_type": "attempt",
        "uuid": uuid,
        "seq": 0,
        "status": status,
        "probe_classname": probe,
        "outputs": [says(answer) for answer in answers],
        "detector_results": results,
        "conversations": [conversation(answer) for answer in answers],
    }


INIT = {"entry_type": "init", "garak_version": "0.17.1", "run": "r"}
SETUP = {"entry_type": "start_run setup", "plugins.target_type": "test.Blank", "plugins.target_name": "m"}
COMPLETION = {"entry_type": "completion", "run": "r"}


def report(folder: Path, *lines: Any, whole: bool = True) -> Path:
    path = folder / "a.report.jsonl"
    items = [SETUP, INIT, *lines, COMPLETION] if whole else lines
    path.write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
    return path


def states(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return [(row["trace_id"], row["attempt"], row["category"], row["score"], row["state"]) for row in found]


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(InputError) as error:
        rows(source(path, **options))
    return str(error.value)


# The fixtures


@pytest.mark.parametrize(
    "name", ["generated/sim.report.jsonl", "upstream/test.report.jsonl", "upstream/report_test.report.jsonl"]
)
def test_outputs_hits_and_nulls_of_each_probe_and_detector_are_those_of_the_raw_facts(name: str, shared: Path) -> None:
    expected = json.loads((shared / FIXTURES / "expected.json").read_text())[name]
    found = source(shared / FIXTURES / name)
    cells = list(found.cells([]))
    for pair, figures in expected["per_probe_detector"].items():
        own = [cell for cell in cells if f"{cell.cluster}|{cell.category}" == pair]
        hits = [cell for cell in own if cell.score is not None and cell.score >= 0.5]
        assert len(own) == figures["outputs"]
        assert len(hits) == figures["hits"]
        assert len({cell.trace_id for cell in own}) == figures["attempts"]
        assert len({cell.trace_id for cell in hits}) == figures["attempts_any_hit"]
        if pair != "test.Test|always.Pass":  # it scores outputs that are not there
            assert sum(cell.score is None for cell in own) == figures["none"]
    assert {cell.turn for cell in cells} == {0}
    assert found.tool_version == expected["version"]
    assert {cell.judge for cell in cells} == {f"garak@{expected['version']}"}
    assert {cell.target for cell in cells} == {"/".join(filter(None, expected["target"]))}
    assert found.counts["earlier_states"] == expected["attempt_status"]["1"]
    assert found.facts.turn_scope == "last"
    assert "incomplete" not in found.facts.counts


def test_a_pass_on_an_output_that_is_not_there_is_no_verdict(shared: Path) -> None:
    found = source(shared / SIM)
    own = [row for row in rows(found) if row["category"] == "always.Pass"]
    assert Counter(row["state"] for row in own) == {None: 20, "target_error": 4}
    assert found.counts["scores_of_no_output"] == 4


def test_headlines_set_the_tools_figures_beside_ours_and_say_why_they_differ(shared: Path) -> None:
    lines = {line.what: line for line in source(shared / SIM).headlines()}
    outputs = lines["dan.DanInTheWild x mitigation.MitigationBypass: hits among outputs"]
    assert outputs.tool == "21 of 34, 2 without a score, interval of the rate [0.000, 0.489]"
    assert outputs.ours == "21 of 34 scored, 2 target_error"
    assert "0.618, is the raw rate; its interval is corrected" in outputs.why
    assert "does not hold the point" in outputs.why
    any_of = lines["dan.DanInTheWild x mitigation.MitigationBypass: attempts with a hit in any of 3 outputs"]
    assert any_of.tool == "share 0.917 of 12 prompts"
    assert any_of.ours == "11 of 12 attempts with a scored output"
    passes = lines["test.Test x always.Pass: hits among outputs"]
    assert (passes.tool, passes.ours) == ("0 of 24", "0 of 20 scored, 4 target_error")
    assert "outputs without content" in passes.why


def test_a_hitlog_is_refused_with_the_name_of_the_file_to_read(shared: Path) -> None:
    message = refusal(shared / FIXTURES / "generated/sim.hitlog.jsonl")
    assert "sim.hitlog.jsonl:1: is a hitlog" in message
    assert "no denominator; read sim.report.jsonl instead" in message


def test_one_probe_can_be_read_alone_and_the_rest_is_counted(shared: Path) -> None:
    found = source(shared / SIM, probe="dan")
    assert {row["cluster"] for row in rows(found)} == {"dan.DanInTheWild", "dan.Dan_11_0"}
    assert found.facts.counts["other_probes"] == 17
    assert found.facts.options == {"probe": "dan"}
    assert "no attempt is of probe 'da'" in refusal(shared / SIM, probe="da")


# States


def test_each_cell_without_a_score_has_its_own_reason(tmp_path: Path) -> None:
    path = report(
        tmp_path,
        attempt("a", answers=("x", None, "y", "z"), d=[0.9, 0.1, None]),
        attempt("b", status=1, answers=("x",)),
        attempt("c", answers=()),
    )
    found = source(path)
    assert states(rows(found)) == [
        ("a", 0, "d", 0.9, None),
        ("a", 1, "d", None, "target_error"),
        ("a", 2, "d", None, "unscored"),
        ("a", 3, "d", None, "missing"),
        ("b", 0, "d", None, "missing"),
        ("c", 0, "d", None, "target_error"),
    ]
    assert found.facts.counts == {"scores_of_no_output": 1, "unjudged_attempts": 1, "attempts_without_output": 1}


def test_an_attempt_nobody_judged_stands_in_its_probes_detectors_or_in_all(tmp_path: Path) -> None:
    path = report(
        tmp_path,
        attempt("early", probe="p.New", status=1),
        attempt("a", probe="p.A", d=[0.0]),
        attempt("b", probe="p.B", e=[0.0]),
        attempt("late", probe="p.A", status=1),
        attempt("unseen", probe="p.B", status=2),
    )
    assert [cell[:1] + cell[2:] for cell in states(rows(source(path)))[2:]] == [
        ("early", "d", None, "missing"),
        ("early", "e", None, "missing"),
        ("late", "d", None, "missing"),
        ("unseen", "e", None, "missing"),
    ]


def test_a_score_stands_on_the_last_turn_of_its_own_conversation(tmp_path: Path) -> None:
    line = attempt("a", answers=("x", "y"), d=[1.0, 0.0])
    line["conversations"] = [conversation("one", "two", "x"), conversation("y")]
    assert [row["turn"] for row in rows(source(report(tmp_path, line)))] == [2, 0]


def test_a_run_cut_off_is_read_and_says_so(tmp_path: Path) -> None:
    found = source(report(tmp_path, SETUP, INIT, attempt(d=[1.0]), whole=False))
    (headline, *_) = found.headlines()
    assert (headline.tool, headline.ours) == ("no completion line", "1 attempt read")
    assert len(rows(found)) == 1
    assert found.facts.counts["incomplete"] == 1


def test_without_setup_and_init_target_and_version_are_unknown(tmp_path: Path) -> None:
    found = source(report(tmp_path, attempt(d=[1.0]), COMPLETION, whole=False))
    (row,) = rows(found)
    assert (row["judge"], row["target"], found.facts.tool_version) == ("garak@unknown", None, "unknown")


def test_older_reports_name_a_model_and_a_total(tmp_path: Path) -> None:
    setup = {"entry_type": "start_run setup", "plugins.model_type": "test", "plugins.model_name": "old"}
    told = {"entry_type": "eval", "probe": "p.P", "detector": "detector.d", "passed": 1, "total": 3}
    lines = (setup, INIT, attempt("a", answers=("x", "y", "z"), d=[1.0, 1.0, 0.0]), told, COMPLETION)
    found = source(report(tmp_path, *lines, whole=False))
    assert {row["target"] for row in rows(found)} == {"test/old"}
    assert found.headlines()[0].tool == "2 of 3"
    assert found.headlines()[0].why == ""


def test_the_runs_threshold_is_a_fact_and_decides_the_hits_of_headlines(tmp_path: Path) -> None:
    path = report(tmp_path, {**SETUP, "run.eval_threshold": 0.7}, attempt("a", answers=("x", "y"), d=[0.7, 0.6]))
    found = source(path)
    assert found.facts.threshold == 0.7
    assert found.headlines()[0].ours == "1 of 2 scored"


def test_turned_scores_turn_the_hits_and_the_other_polarity_is_refused(tmp_path: Path, shared: Path) -> None:
    lines = [json.loads(line) for line in (shared / SIM).read_text().splitlines()]
    for line in lines:
        for detector, scores in line.get("detector_results", {}).items():
            line["detector_results"][detector] = [None if score is None else 1 - score for score in scores]
    path = report(tmp_path, *lines, whole=False)
    own = [cell for cell in source(path).cells([]) if (cell.cluster, cell.category) == DAN and cell.score is not None]
    assert sum(cell.score == 1.0 for cell in own) == 34 - 21
    assert "higher-is=better contradicts the format" in refusal(path, higher_is="better")


# What is no report of a known kind


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (attempt(status=3), "status 3 of an attempt; garak 0.13 to 0.17 write 1 (started) and 2 (judged)"),
        (attempt(status=True), "status True of an attempt"),
        (attempt(d=[1.0, 0.0]), "'d' has not one score for each of 1 output"),
        (attempt(d=1.0), "'d' has not one score for each of 1 output"),
        (attempt(d=["NaN"]), "'d' gives 'NaN', not a number"),
        (attempt(d=[True]), "'d' gives True, not a number"),
        (attempt(d=[1.5]), "score 1.5 of 'd' is outside the scale [0, 1]"),
        ({**attempt(), "conversations": []}, "1 output, but 0 conversations in which the target answers"),
        ({**attempt(), "conversations": [{}]}, "write conversations with turns, each with a role"),
        ({**attempt(), "outputs": None}, "a list of outputs"),
        ({**attempt(), "uuid": 3}, "write uuid and probe_classname"),
        (attempt(probe="p" * (MAX_NAME + 1)), f"over {MAX_NAME} characters"),
    ],
)
def test_an_attempt_of_another_shape_is_refused_with_what_was_expected(
    line: dict[str, Any], message: str, tmp_path: Path
) -> None:
    assert message in refusal(report(tmp_path, line, attempt("other", d=[0.0])))
    assert "a.report.jsonl:3: " in refusal(report(tmp_path, line, attempt("other", d=[0.0])))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([INIT], "holds no attempts"),
        ([{"a": 1}], "is not a garak report: garak 0.13 to 0.17 write entry_type on each line"),
        ([attempt(status=1)], "holds no attempt that was judged"),
        ([INIT, attempt(d=[0.0]), {**INIT, "garak_version": "0.16"}], "holds two runs, of '0.17.1' and '0.16'"),
        ([{**SETUP, "run.eval_threshold": "high"}, attempt(d=[0.0])], "run.eval_threshold is 'high', not a number"),
    ],
)
def test_a_file_without_verdicts_or_of_two_runs_is_refused(lines: list[Any], message: str, tmp_path: Path) -> None:
    assert message in refusal(report(tmp_path, *lines, whole=False))


def test_an_unknown_option_is_refused_with_the_nearest(tmp_path: Path) -> None:
    assert "no option 'prope'; did you mean 'probe'?" in refusal(report(tmp_path, attempt(d=[1.0])), prope="x")


# Hostile reports


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ({**INIT, "garak_version": "9" * MAX_TEXT}, "judge"),
        ({**SETUP, "plugins.target_name": "t" * MAX_TEXT}, "target"),
    ],
)
def test_a_name_that_would_stand_in_every_cell_and_fill_the_memory_is_refused(
    line: dict[str, Any], what: str, tmp_path: Path
) -> None:
    path = report(tmp_path, line, attempt(d=[1.0]), COMPLETION, whole=False)
    assert f"its {what} has over {MAX_TEXT} characters" in refusal(path)


def test_a_report_whose_attempts_cannot_be_read_says_why(tmp_path: Path) -> None:
    path = report(tmp_path, attempt(uuid="\ud800", d=[1.0]))
    assert "a.report.jsonl:3: is not JSON: holds half a character" in refusal(path)


def test_a_plugin_cache_larger_than_a_line_may_be_is_passed_over_in_bounded_memory(tmp_path: Path) -> None:
    path = report(tmp_path, attempt(d=[1.0]))
    with path.open("a", encoding="utf-8") as text:
        text.write('{"entry_type": "plugin_cache", "plugin_cache": {"x": "')
        for _ in range(3):
            text.write("x" * MAX_LINE)
        text.write('"}}\n')
    tracemalloc.start()
    try:
        assert len(rows(source(path))) == 1
        assert tracemalloc.get_traced_memory()[1] < 8 * MAX_LINE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"entry_type": "attempt", "uuid": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "is not JSON"),
        (b'{"entry_type": "attempt", "uuid": "\xff"}', "is not UTF-8 text"),
        (b'{"entry_type": "attempt", "note": "' + b"x" * (MAX_LINE + 1) + b'"}', "a line of over"),
        (json.dumps(attempt("n")).encode().replace(b'"detector_results": {}', b'"detector_results": {"d": [NaN]}'),
         "'d' gives 'NaN', not a number"),
        (json.dumps(attempt("n", d=[0])).encode().replace(b"[0]", b"[1" + b"0" * 400 + b"]"), "outside the scale"),
        (json.dumps(attempt("n", d=[0])).encode().replace(b"[0]", b"[1" + b"0" * 5000 + b"]"), "is not JSON"),
    ],
)  # fmt: skip
def test_a_hostile_line_is_named(line: bytes, message: str, tmp_path: Path) -> None:
    path = report(tmp_path, attempt(d=[1.0]))
    path.write_bytes(path.read_bytes() + line + b"\n")
    found = refusal(path)
    assert message in found
    assert "a.report.jsonl:5: " in found


numbers = st.none() | st.floats(0, 1)
attempts = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["x", "", None]), max_size=3),
        st.dictionaries(st.sampled_from("de"), st.lists(numbers, max_size=3), max_size=2),
        st.sampled_from([1, 2]),
    ),
    max_size=6,
)


@IN_FOLDER
@given(given_attempts=attempts)
def test_every_output_of_every_attempt_has_a_score_or_a_reason(given_attempts: Any, tmp_path: Path) -> None:
    lines = [attempt("first", d=[0.0], e=[0.0])]
    for index, (answers, results, status) in enumerate(given_attempts):
        cut = {name: scores[: len(answers)] for name, scores in results.items()}
        lines.append(attempt(str(index), status, tuple(answers), **(cut if status == 2 else {})))
    found = rows(source(report(tmp_path, *lines)))
    units = {(row["trace_id"], row["attempt"]) for row in found}
    assert units == {("first", 0)} | {
        (str(i), n) for i, (answers, _, _) in enumerate(given_attempts) for n in range(max(1, len(answers)))
    }
    for row in found:
        assert (row["score"] is None) is (row["state"] is not None)
        if row["score"] is not None and row["trace_id"] != "first":
            answers, results, status = given_attempts[int(row["trace_id"])]
            assert status == 2
            assert answers[row["attempt"]] is not None
            assert results[row["category"]][row["attempt"]] == row["score"]


@IN_FOLDER
@given(data=st.data())
def test_a_mutated_or_cut_report_is_read_or_refused(data: st.DataObject, tmp_path: Path, shared: Path) -> None:
    lines = (shared / FIXTURES / "upstream/test.report.jsonl").read_bytes().splitlines(keepends=True)
    content = bytearray(b"".join(lines[:2] + data.draw(st.permutations(lines[2:20]))[:6] + lines[19:20]))
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 30))] = data.draw(
            st.binary(max_size=6) | st.sampled_from([b"null", b"[]", b'"', b"1e999"])
        )
        if not content:
            break
    path = tmp_path / "a.report.jsonl"
    path.write_bytes(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    try:
        found = source(path)
        rows(found)
        found.headlines()
    except InputError as error:
        assert str(error).startswith("a.report.jsonl")  # noqa: PT017 (rows are fine too)
