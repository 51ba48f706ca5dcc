"""Kept responses of moderation APIs.

The shared fixtures have no batch and no Perspective file; those are made here from the APIs' public reference:
https://platform.openai.com/docs/api-reference/moderations/object, https://platform.openai.com/docs/guides/batch,
https://developers.perspectiveapi.com/s/about-the-api-methods and -errors.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.data.vocabulary import STATES
from core.errors import InputError, Problem
from tasks.checking import check
from tasks.readers import open_source
from tasks.readers.llama_guard import TAXONOMIES, parsed, version_of
from tasks.readers.moderation import (
    AzureContentSafetySource,
    LlamaGuardSource,
    OpenAiModerationSource,
    PerspectiveSource,
)
from tasks.readers.responses import ResponseSource
from tasks.storage import InputFile
from tasks.tables import open_all

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)
GENERATED = "data/interop/moderation/generated"
READERS = {
    "openai-moderation": "openai_moderation.jsonl",
    "llama-guard": "llama_guard.jsonl",
    "azure-content-safety": "azure_content_safety.jsonl",
}
SOURCES: dict[str, type[ResponseSource]] = {
    source.READER: source
    for source in (OpenAiModerationSource, PerspectiveSource, LlamaGuardSource, AzureContentSafetySource)
}

Row = dict[str, Any]


def reading(path: Path, reader: str, **options: str) -> InputFile:
    named = {name.replace("_", "-"): value for name, value in options.items()}
    return InputFile(path=path, name=path.name, reader=reader, options=named)


def rows(file: InputFile) -> list[Row]:
    source = SOURCES[file.reader](file)
    return [row for batch, _ in source.batches(source.columns) for row in batch.to_pylist()]


def kept(path: Path, items: Sequence[Any], reader: str, **options: str) -> InputFile:
    path.write_text("".join(json.dumps(item) + "\n" for item in items))
    return reading(path, reader, **options)


def refusal(file: InputFile) -> str:
    with pytest.raises(InputError) as error:
        rows(file)
    return str(error.value)


def headline(file: InputFile) -> dict[str, str]:
    (line,) = SOURCES[file.reader](file).headlines()
    return {"tool": line.tool, "ours": line.ours, "why": line.why}


def counts(file: InputFile) -> dict[str, int]:
    source = SOURCES[file.reader](file)
    for _ in source.batches(("trace_id",)):
        pass
    return dict(source.facts.counts)


def moderated(scores: dict[str, float | None], *, flagged: bool = False, model: str = "omni-1", **more: Any) -> Row:
    """A response of OpenAI's, as its reference shows it."""
    result = {"flagged": flagged, "categories": {}, "category_scores": scores, **more}
    return {"id": "modr-1", "model": model, "results": [result]}


TOO_MANY: Row = {"error": {"message": "Rate limit reached", "type": "rate_limit_error", "param": None, "code": "x"}}


# --- OpenAI


@pytest.fixture
def openai(shared: Path) -> InputFile:
    return reading(shared / GENERATED / READERS["openai-moderation"], "openai-moderation")


@pytest.fixture
def expected(shared: Path) -> dict[str, dict[str, int]]:
    facts: dict[str, dict[str, int]] = json.loads((shared / "data/interop/moderation/expected.json").read_text())
    return facts


def test_the_openai_fixture_gives_the_figures_of_raw_parsing(
    openai: InputFile, expected: dict[str, dict[str, int]]
) -> None:
    facts = expected["openai_moderation.jsonl"]
    native = rows(replace(openai, options={"map": "none"}))
    assert len({row["trace_id"] for row in native}) == facts["traces"]
    assert len({(row["trace_id"], row["turn"]) for row in native}) == facts["turns"]
    assert all(row["state"] is None for row in native), "the 429 was tried again"
    assert counts(openai) == {"retries": facts["error_rows"]}
    legacy = {
        (row["trace_id"], row["turn"]) for row in native if row["judge"] == "openai-moderation@text-moderation-007"
    }
    assert len(legacy) == facts["legacy_rows"]


def test_flagged_stands_beside_a_threshold_of_one_half_with_the_reason(
    openai: InputFile, expected: dict[str, dict[str, int]]
) -> None:
    facts = expected["openai_moderation.jsonl"]
    line = headline(openai)
    assert line["tool"] == f"{facts['flagged_true']} of {facts['turns']}"
    low, high = facts["api_flag_but_all_scores_lt_0.5"], facts["max_ge_0.5_but_not_flagged"]
    assert line["ours"].startswith(f"{facts['flagged_true'] - low + high} of 30")
    assert f"{low} flagged with all scores below .5, {high} not flagged" in line["why"]


def test_a_null_in_categories_takes_no_score_away(openai: InputFile) -> None:
    native = rows(replace(openai, options={"map": "none"}))
    illicit = [row["score"] for row in native if row["trace_id"] == "t11" and row["category"] == "illicit"]
    assert illicit[:1] == [0.189994]


def test_the_judge_is_the_snapshot_that_answered_and_two_are_two(openai: InputFile) -> None:
    summary = check([openai], "scores")
    assert summary["judges"] == [
        "openai-moderation@omni-moderation-2024-09-26",
        "openai-moderation@text-moderation-007",
    ]


def test_harms_are_the_highest_of_their_natives_and_a_legacy_model_leaves_one_missing(openai: InputFile) -> None:
    found = {(row["trace_id"], row["turn"], row["category"]): row["score"] for row in rows(openai)}
    native = {(row["trace_id"], row["turn"], row["category"]): row["score"] for row in rows(
        replace(openai, options={"map": "none"})
    )}  # fmt: skip
    for (trace, turn, name), score in found.items():
        if name == "hate":
            assert score == max(native[trace, turn, "hate"], native[trace, turn, "hate/threatening"])
    assert ("t10", 0, "dangerous-instructions") not in found
    assert ("t10", 0, "hate") in found
    assert {name for _, _, name in found} == {"hate", "violence", "self-harm", "sexual", "dangerous-instructions"}
    assert check([openai], "scores")["accounting"] == {"attempted": 12, "scored": 11, "missing": 1}


def test_a_failed_call_is_settled_by_one_that_succeeded_before_or_after_and_else_a_judges_error(tmp_path: Path) -> None:
    good = moderated({"hate": 0.9})
    file = kept(
        tmp_path / "a.jsonl",
        [
            {"trace_id": "a", "turn": 0, "response": good},
            {"trace_id": "a", "turn": 0, "http_status": 500, "response": None},
            {"trace_id": "a", "turn": 1, "http_status": 429, "response": TOO_MANY},
            {"trace_id": "a", "turn": 1, "http_status": 429, "response": TOO_MANY},
            {"trace_id": "a", "turn": 1, "http_status": 200, "response": good},
            {"trace_id": "a", "turn": 2, "http_status": 429, "response": TOO_MANY},
            {"trace_id": "a", "turn": 1, "attempt": 1, "response": TOO_MANY},
        ],
        "openai-moderation",
    )
    found = [(row["turn"], row["attempt"], row["score"], row["state"]) for row in rows(file)]
    assert found == [(0, 0, 0.9, None), (1, 0, 0.9, None), (2, 0, None, "judge_error"), (1, 1, None, "judge_error")]
    assert counts(file) == {"retries": 3}
    assert rows(file)[2]["rationale"] == "HTTP 429: Rate limit reached"
    assert rows(file)[2]["judge"] is None, "the alias that was asked for is no judge"


def test_of_a_file_of_errors_alone_nothing_passes_and_nothing_violates(tmp_path: Path) -> None:
    items = [{"trace_id": str(i), "http_status": 429, "response": TOO_MANY} for i in range(5)]
    file = kept(tmp_path / "a.jsonl", items, "openai-moderation")
    assert {(row["score"], row["state"]) for row in rows(file)} == {(None, "judge_error")}
    assert check([file], "scores")["accounting"] == {"attempted": 5, "judge_error": 5}


def test_a_failed_call_of_a_legacy_model_says_nothing_of_categories_that_it_has_not(tmp_path: Path) -> None:
    items = [
        {"trace_id": "a", "response": moderated({"hate": 0.1, "illicit": 0.1})},
        {"trace_id": "b", "requested_model": "text-moderation-latest", "response": TOO_MANY},
    ]
    file = kept(tmp_path / "a.jsonl", items, "openai-moderation")
    assert [row["category"] for row in rows(file) if row["trace_id"] == "b"] == ["hate"]


def test_a_null_score_is_unscored_and_so_is_its_harm_but_a_1_beside_it_stays(tmp_path: Path) -> None:
    items = [
        {"trace_id": "a", "response": moderated({"hate": None, "hate/threatening": 0.999})},
        {"trace_id": "b", "response": moderated({"hate": None, "hate/threatening": 1})},
    ]
    found = rows(kept(tmp_path / "a.jsonl", items, "openai-moderation"))
    assert [(row["score"], row["state"]) for row in found] == [(None, "unscored"), (1.0, None)]


def test_a_score_that_applies_to_no_input_is_no_verdict(tmp_path: Path) -> None:
    response = moderated(
        {"hate": 0.0, "violence": 0.8}, category_applied_input_types={"hate": [], "violence": ["image"]}
    )
    file = kept(tmp_path / "a.jsonl", [{"trace_id": "a", "response": response}], "openai-moderation")
    assert [(row["category"], row["score"], row["state"]) for row in rows(file)] == [
        ("hate", None, "unscored"), ("violence", 0.8, None),
    ]  # fmt: skip
    assert counts(file) == {"not_applied": 1}


def batch(*scores: float) -> Row:
    """A response to several inputs: one result each, in their order."""
    results = [moderated({"hate": score})["results"][0] for score in scores]
    return {"id": "modr-7", "model": "omni-1", "results": results}


@pytest.mark.parametrize(
    ("beside", "units"),
    [
        ({}, [("0", 0, 0), ("1", 0, 0)]),
        ({"trace_ids": ["x", 9]}, [("x", 0, 0), ("9", 0, 0)]),
        ({"ids": ["x", "y"]}, [("x", 0, 0), ("y", 0, 0)]),
        ({"inputs": [{"trace_id": "x", "turn": 1}, {"trace_id": "x", "turn": 2, "attempt": 3}]},
         [("x", 1, 0), ("x", 2, 3)]),
        ({"input": ["a text", "another"]}, [("0", 0, 0), ("1", 0, 0)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["line", "document", "array", "bare"])
def test_a_batch_has_a_result_an_input(
    tmp_path: Path, beside: Row, units: list[tuple[str, int, int]], form: str
) -> None:
    item = {**beside, **batch(0.25, 0.75)} if form == "bare" else {**beside, "response": batch(0.25, 0.75)}
    path = tmp_path / ("a.jsonl" if form == "line" else "a.json")
    path.write_text(json.dumps([item] if form == "array" else item, indent=None if form == "line" else 1))
    found = rows(reading(path, "openai-moderation"))
    assert [(row["trace_id"], row["turn"], row["attempt"]) for row in found] == units
    assert [row["score"] for row in found] == [0.25, 0.75]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{"trace_ids": ["x"], "response": batch(0.1, 0.2)}], "2 results for 1 inputs"),
        ([{"trace_id": "x", "response": batch(0.1, 0.2)}], "2 results for one trace_id"),
        ([{"trace_ids": ["x", "x"], "response": batch(0.1, 0.2)}], "an input stands twice"),
        ([batch(0.1, 0.2), batch(0.3, 0.4)], "a.jsonl:2: the results name no inputs, like those of line 1"),
        ([{"response": {"results": [{}] * 10_001}}], "10001 texts in one call"),
        ([{"trace_ids": list(range(10_001)), "response": TOO_MANY}], "10001 texts in one call"),
        ([{"response": TOO_MANY}], "a failed call that names no conversation"),
        ([{"trace_id": "x", "response": {"id": "x"}}], "has no list 'results'"),
        ([{"trace_id": "x", "response": {"results": [{"flagged": False}]}}], "without category_scores"),
        ([{"trace_id": "x"}], "has no key 'response'"),
        ([{"trace_id": True, "response": batch(0.1)}], "trace_id True is neither text nor a whole number"),
        ([{"trace_id": "x", "turn": -1, "response": batch(0.1)}], "turn -1 is no whole number from 0"),
        ([{"trace_id": "x", "turn": 2**70, "response": batch(0.1)}], "is no whole number from 0"),
        ([{"trace_id": "x", "http_status": "429", "response": batch(0.1)}], "http_status '429' is no whole number"),
        ([{"trace_id": "x", "response": batch(1.2)}], "score 1.2 of 'hate' is outside the scale"),
        ([{"trace_id": "x", "response": moderated({"hate": True})}], "hate True is not a finite number"),
        ([{"entry_type": "attempt"}], "{trace_id, turn, response} or a response {id, model, results} is expected"),
    ],
)  # fmt: skip
def test_what_is_no_response_is_refused_with_its_line(tmp_path: Path, items: list[Row], message: str) -> None:
    assert message in refusal(kept(tmp_path / "a.jsonl", items, "openai-moderation"))


def test_a_failed_batch_is_an_error_of_each_of_its_inputs(tmp_path: Path) -> None:
    file = kept(
        tmp_path / "a.jsonl", [{"trace_ids": ["x", "y"], "response": TOO_MANY}], "openai-moderation", map="none"
    )
    found = rows(file)
    assert {row["trace_id"] for row in found} == {"x", "y"}
    assert len(found) == 2 * len(OpenAiModerationSource.NATIVES)


def test_lines_of_the_batch_api_are_read_by_their_custom_id(tmp_path: Path) -> None:
    items = [
        {"id": "batch_req_1", "custom_id": "a", "error": None,
         "response": {"status_code": 200, "request_id": "r", "body": moderated({"hate": 0.5})}},
        {"id": "batch_req_2", "custom_id": "b", "error": None,
         "response": {"status_code": 500, "request_id": "r", "body": TOO_MANY}},
        {"id": "batch_req_3", "custom_id": "c", "response": None,
         "error": {"code": "batch_expired", "message": "not executed in time"}},
    ]  # fmt: skip
    found = rows(kept(tmp_path / "a.jsonl", items, "openai-moderation"))
    assert [(row["trace_id"], row["score"], row["state"]) for row in found] == [
        ("a", 0.5, None), ("b", None, "judge_error"), ("c", None, "judge_error"),
    ]  # fmt: skip


def test_a_bare_response_is_named_by_its_id(tmp_path: Path) -> None:
    (row,) = rows(kept(tmp_path / "a.jsonl", [moderated({"hate": 0.5})], "openai-moderation"))
    assert (row["trace_id"], row["turn"], row["judge"]) == ("modr-1", 0, "openai-moderation@omni-1")


def test_two_verdicts_on_one_turn_that_differ_do_not_become_one_unseen(tmp_path: Path) -> None:
    items = [{"trace_id": "a", "response": moderated({"hate": score})} for score in (0.9, 0.1)]
    file = kept(tmp_path / "a.jsonl", items, "openai-moderation")
    assert [row["score"] for row in rows(file)] == [0.9, 0.1]
    with pytest.raises(InputError, match="has other values"):
        check([file], "scores")
    same = kept(tmp_path / "b.jsonl", items[:1] * 2, "openai-moderation")
    assert check([same], "scores")["duplicates"] == 1


def test_an_early_violation_stays_whatever_follows(tmp_path: Path) -> None:
    items = [
        {"trace_id": "a", "turn": turn, "response": moderated({"hate": score})}
        for turn, score in enumerate((0.9, 0.0, 0.0))
    ]
    summary = check([kept(tmp_path / "a.jsonl", items, "openai-moderation")], "scores")
    assert summary["rates"]["each attempt"]["hate"]["flagged"] == 1


def test_models_of_unseen_shape_give_their_own_categories(tmp_path: Path) -> None:
    items = [{"trace_id": "a", "response": moderated({"hate": 0.1, "new_harm": 0.7})}]
    assert [row["category"] for row in rows(kept(tmp_path / "a.jsonl", items, "openai-moderation"))] == [
        "hate", "new-harm",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "harms"),
    [
        ("categories: {harm: [hate, violence], other: ['*']}", {"harm": 0.3, "other": 0.9}),
        ("categories: {harm: [hate]}\nleft_out: ['*']", {"harm": 0.1}),
        ("categories: {harm: ['*']}\nleft_out: [sexual]", {"harm": 0.3}),
        ("categories: {harm: [hate]}", {"harm": 0.1, "violence": 0.3, "sexual": 0.9}),
    ],
)
def test_a_map_of_ones_own_says_what_becomes_of_each_category(
    tmp_path: Path, text: str, harms: dict[str, float]
) -> None:
    (tmp_path / "m.yaml").write_text(text)
    items = [{"trace_id": "a", "response": moderated({"hate": 0.1, "violence": 0.3, "sexual": 0.9})}]
    file = kept(tmp_path / "a.jsonl", items, "openai-moderation", map=str(tmp_path / "m.yaml"))
    assert {row["category"]: row["score"] for row in rows(file)} == harms


@pytest.mark.parametrize(
    "text",
    ["categories: {a: [hate], b: [hate]}", "categories: {a: [hate]}\nleft_out: [hate]", "categories: {a: ['*', '*']}"],
)
def test_a_map_that_names_a_category_twice_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "m.yaml").write_text(text)
    with pytest.raises(InputError, match="belongs to one category, or is left out"):
        open_source(reading(tmp_path / "a.jsonl", "openai-moderation", map=str(tmp_path / "m.yaml")))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 2), st.booleans()), min_size=1, max_size=12),
    st.randoms(use_true_random=False),
)
@IN_FOLDER
def test_every_turn_that_was_asked_about_has_one_outcome_whatever_the_order(
    tmp_path: Path, calls: list[tuple[str, int, bool]], order: Any
) -> None:
    judged = {(trace, turn) for trace, turn, failed in calls if not failed}
    items = [
        {"trace_id": trace, "turn": turn, **({"http_status": 429, "response": TOO_MANY} if failed else
                                             {"response": moderated({"hate": 0.25})})}
        for trace, turn, failed in calls
    ]  # fmt: skip
    order.shuffle(items)
    file = kept(tmp_path / "a.jsonl", items, "openai-moderation")
    outcome = {(row["trace_id"], row["turn"]): row["state"] for row in rows(file) if row["category"] == "hate"}
    assert outcome == {(trace, turn): None if (trace, turn) in judged else "judge_error" for trace, turn, _ in calls}
    settled = sum(failed and (trace, turn) in judged for trace, turn, failed in calls)
    assert counts(file).get("retries", 0) == settled


@given(st.dictionaries(st.sampled_from(OpenAiModerationSource.NATIVES), st.floats(0, 1) | st.none(), min_size=1))
@IN_FOLDER
def test_a_harm_is_scored_with_the_highest_of_its_natives_or_unscored(
    tmp_path: Path, scores: dict[str, float | None]
) -> None:
    file = kept(tmp_path / "a.jsonl", [{"trace_id": "a", "response": moderated(scores)}], "openai-moderation")
    source = OpenAiModerationSource(file)
    assert source.map is not None
    natives = source.map.categories
    for row in rows(file):
        parts = [scores[name] for name in natives[row["category"]] if name in scores]
        numbers = [part for part in parts if part is not None]
        if row["score"] is None:
            assert row["state"] == "unscored"
            assert None in parts
        else:
            assert row["score"] == max(numbers)
            assert None not in parts or row["score"] == 1.0


# --- polarity, for all


@pytest.mark.parametrize("reader", SOURCES)
def test_each_format_says_that_higher_is_worse_and_refuses_the_contrary(shared: Path, reader: str) -> None:
    path = shared / GENERATED / READERS.get(reader, READERS["openai-moderation"])
    with pytest.raises(InputError, match="contradicts the format"):
        open_source(reading(path, reader, higher_is="better"))
    facts = open_source(reading(path, reader)).facts
    assert facts is not None
    assert facts.higher_is == "worse"


def test_an_inverted_openai_file_is_read_inverted(openai: InputFile, tmp_path: Path) -> None:
    items = [json.loads(line) for line in openai.path.read_text().splitlines()]
    for item in items:
        for result in item["response"].get("results", []):
            result["category_scores"] = {k: 1 - v for k, v in result["category_scores"].items()}
    inverted = kept(tmp_path / "a.jsonl", items, "openai-moderation", map="none")
    before = [row["score"] for row in rows(replace(openai, options={"map": "none"}))]
    assert [1 - row["score"] for row in rows(inverted)] == pytest.approx(before)


def test_an_inverted_llama_guard_file_is_read_inverted(tmp_path: Path) -> None:
    for text, score in (("unsafe\nS10", 1.0), ("safe", 0.0)):
        file = kept(
            tmp_path / "a.jsonl", [{"trace_id": "a", "model": "Llama-Guard-3-8B", "raw_output": text}], "llama-guard"
        )
        found = {row["category"]: row["score"] for row in rows(file)}
        assert found["unsafe"] == found["hate"] == score
        assert found["violence"] == 0.0


def test_an_inverted_azure_file_is_read_inverted(shared: Path, tmp_path: Path) -> None:
    path = shared / GENERATED / READERS["azure-content-safety"]
    items = [json.loads(line) for line in path.read_text().splitlines()]
    for item in items:
        for one in item["response"]["categoriesAnalysis"]:
            one["severity"] = 7 - one["severity"]
    before = [row["score"] for row in rows(reading(path, "azure-content-safety"))]
    after = [row["score"] for row in rows(kept(tmp_path / "a.jsonl", items, "azure-content-safety"))]
    assert [1 - score for score in after] == pytest.approx(before)


# --- Perspective


def analysed(trace: str, values: dict[str, float | None], **more: Any) -> Row:
    scores = {
        name: {"summaryScore": {"value": value, "type": "PROBABILITY"},
               "spanScores": [{"begin": 0, "end": 9, "score": {"value": value, "type": "PROBABILITY"}}]}
        for name, value in values.items()
    }  # fmt: skip
    return {"trace_id": trace, "turn": 0, "response": {"attributeScores": scores, "languages": ["en"], **more}}


UNSUPPORTED: Row = {
    "error": {
        "code": 400, "message": "Attribute TOXICITY does not support request languages",
        "status": "INVALID_ARGUMENT",
        "details": [{"@type": "type.googleapis.com/google.commentanalyzer.v1alpha1.Error",
                     "errorType": "LANGUAGE_NOT_SUPPORTED_BY_ATTRIBUTE",
                     "languageNotSupportedByAttributeError": {"detectedLanguages": ["is"], "attribute": "TOXICITY"}}],
    }
}  # fmt: skip


@pytest.fixture
def perspective(tmp_path: Path) -> InputFile:
    spans = analysed("c", {"TOXICITY": 0.25, "INSULT": 0.125})
    spans["response"]["attributeScores"]["TOXICITY"]["spanScores"][0]["score"]["value"] = 0.75
    items = [
        analysed("a", {"TOXICITY": 0.5, "INSULT": 0.75}), analysed("b", {"TOXICITY": 0.25}), spans,
        {"trace_id": "d", "turn": 0, "http_status": 400, "response": UNSUPPORTED},
        analysed("e", {"TOXICITY": None, "INSULT": 0.0}),
    ]  # fmt: skip
    return kept(tmp_path / "perspective.jsonl", items, "perspective")


def test_perspective_gives_summaries_and_a_missing_attribute_is_missing(perspective: InputFile) -> None:
    found = {(row["trace_id"], row["category"]): (row["score"], row["state"]) for row in rows(perspective)}
    assert found == {
        ("a", "TOXICITY"): (0.5, None), ("a", "INSULT"): (0.75, None),
        ("b", "TOXICITY"): (0.25, None), ("b", "INSULT"): (None, "missing"),
        ("c", "TOXICITY"): (0.25, None), ("c", "INSULT"): (0.125, None),
        ("d", "TOXICITY"): (None, "judge_error"), ("d", "INSULT"): (None, "judge_error"),
        ("e", "TOXICITY"): (None, "unscored"), ("e", "INSULT"): (0.0, None),
    }  # fmt: skip
    assert counts(perspective) == {"spans_above_summary": 1}
    assert check([perspective], "scores")["accounting"] == {
        "attempted": 5, "scored": 2, "judge_error": 1, "unscored": 1, "missing": 1,
    }  # fmt: skip


def test_perspective_is_a_judge_without_a_version_and_spans_stand_beside(perspective: InputFile) -> None:
    assert check([perspective], "scores")["judges"] == ["perspective@unknown"]
    line = headline(perspective)
    assert (line["tool"], line["ours"]) == ("3 of 6 by the summary or any span", "2 of 6 by the summary")
    assert line["why"]


def test_a_bare_perspective_response_is_named_by_its_token_or_refused(tmp_path: Path) -> None:
    bare = analysed("-", {"TOXICITY": 0.5}, clientToken="t-9")["response"]
    (row,) = rows(kept(tmp_path / "a.jsonl", [bare], "perspective"))
    assert row["trace_id"] == "t-9"
    del bare["clientToken"]
    assert "names no conversation" in refusal(kept(tmp_path / "b.jsonl", [bare], "perspective"))


def test_scores_of_another_type_are_refused(tmp_path: Path) -> None:
    item = analysed("a", {"TOXICITY": 0.5})
    item["response"]["attributeScores"]["TOXICITY"]["summaryScore"]["type"] = "PERCENTILE"
    assert "scores of type PROBABILITY are expected" in refusal(kept(tmp_path / "a.jsonl", [item], "perspective"))


# --- Llama Guard


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("\n\nsafe", ("safe", ())),
        ("SAFE\n", ("safe", ())),
        ("unsafe\nS1, S2", ("unsafe", ("S1", "S2"))),
        ("UNSAFE\ns12", ("unsafe", ("S12",))),
        ("unsafe S11", ("unsafe", ("S11",))),
        ("unsafe", ("unsafe", ())),
        ("unsafe\nS1,", ("unsafe", ("S1",))),
        ("Safe.", None),
        ("safe to proceed", None),
        ("", None),
        ("   \n", None),
        ("I cannot help with that", None),
        ("unsafe because of S1", None),
        ("unsafeS1", None),
        ("not safe", None),
        ("safe\nunsafe\nS1", None),
        ("unsafe\n" + "S1," * 400 + "S1", None),
    ],
)
def test_a_text_is_a_verdict_only_in_the_form_of_the_model_card(text: str, verdict: object) -> None:
    assert parsed(text) == verdict


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("meta-llama/LlamaGuard-7b", "1"),
        ("Meta-Llama-Guard-2-8B", "2"),
        ("meta-llama/Llama-Guard-3-1B", "3"),
        ("Llama-Guard-3-11B-Vision", "3"),
        ("llama-guard3:8b", "3"),
        ("Llama-Guard-4-12B", "4"),
        ("Llama-Guard-5-12B", None),
        ("Llama-Guard-30B", None),
        ("gpt-4", None),
    ],
)  # fmt: skip
def test_the_version_is_read_off_the_models_name_or_is_not_known(name: str, version: str | None) -> None:
    assert version_of(name) == version


def test_the_llama_guard_fixture_gives_the_figures_of_raw_parsing(
    shared: Path, expected: dict[str, dict[str, int]]
) -> None:
    facts = expected["llama_guard.jsonl"]
    file = reading(shared / GENERATED / READERS["llama-guard"], "llama-guard")
    whole = [row for row in rows(file) if row["category"] == "unsafe"]
    assert len(whole) == facts["rows"]
    assert sum(row["score"] == 1 for row in whole) == facts["unsafe"]
    assert sum(row["score"] == 0 for row in whole) == facts["safe"]
    assert sum(row["state"] == "unscored" for row in whole) == facts["unscorable"]
    assert len({row["trace_id"] for row in whole}) == facts["traces"]
    assert headline(file)["tool"] == "10 of 16"
    assert headline(file)["ours"] == "10 of 12 scored"
    assert counts(file) == {"unknown_codes": 1, "unsafe_without_code": 1}


def test_the_fixtures_own_expectations_of_codes_hold(shared: Path) -> None:
    file = reading(shared / GENERATED / READERS["llama-guard"], "llama-guard", map="none")
    flagged: dict[tuple[str, int], set[str]] = {}
    for row in rows(file):
        flagged.setdefault((row["trace_id"], row["turn"]), set())
        if row["score"] == 1.0 and row["category"] != "unsafe":
            flagged[row["trace_id"], row["turn"]].add(row["category"].partition(":")[2])
    for line in file.path.read_text().splitlines():
        item = json.loads(line)
        known = {code for code in item["_expected_codes"] or () if code != "S99"}
        assert flagged[item["trace_id"], item["turn"]] == known


def test_one_code_is_another_hazard_in_another_version(tmp_path: Path) -> None:
    for model, harm in (("Meta-Llama-Guard-2-8B", "hate"), ("Llama-Guard-4-12B", "dangerous-instructions")):
        file = kept(
            tmp_path / "a.jsonl", [{"trace_id": "a", "model": model, "raw_output": "unsafe\nS9"}], "llama-guard"
        )
        assert {row["category"] for row in rows(file) if row["score"] == 1.0} == {harm, "unsafe"}


@pytest.mark.parametrize("version", TAXONOMIES)
def test_the_map_names_each_hazard_of_each_version_once(version: str, tmp_path: Path) -> None:
    file = kept(tmp_path / "a.jsonl", [{"trace_id": "a", "raw_output": "safe"}], "llama-guard", version=version)
    source = open_source(file)
    assert isinstance(source, LlamaGuardSource)
    assert source.map is not None
    named = [name for natives in source.map.categories.values() for name in natives] + list(source.map.left_out)
    assert len(named) == len(set(named))
    assert {f"LG{version}:{code}" for code in TAXONOMIES[version]} <= set(named)


def test_unsafe_with_a_code_that_is_unknown_or_absent_is_harm_and_nowhere_a_pass(tmp_path: Path) -> None:
    for text in ("unsafe", "unsafe\nS99", "unsafe\nO1"):
        item = {"trace_id": "a", "model": "Llama-Guard-3-8B", "raw_output": text}
        found = {
            row["category"]: (row["score"], row["state"])
            for row in rows(kept(tmp_path / "a.jsonl", [item], "llama-guard"))
        }
        assert found.pop("unsafe") == (1.0, None)
        assert set(found.values()) == {(None, "unscored")}
    item["raw_output"] = "unsafe\nS2,S99"
    found = {row["category"]: row["score"] for row in rows(kept(tmp_path / "a.jsonl", [item], "llama-guard"))}
    assert found["dangerous-instructions"] == 1.0, "what is named stays, though S9 is undecided"
    assert found["hate"] is None


def test_a_model_whose_version_nobody_says_is_refused_and_an_option_says_it(tmp_path: Path) -> None:
    item = {"trace_id": "a", "model": "our-guard", "raw_output": "unsafe\nS10"}
    assert "llama-guard,version=1|2|3|4" in refusal(kept(tmp_path / "a.jsonl", [item], "llama-guard"))
    found = rows(kept(tmp_path / "a.jsonl", [item], "llama-guard", version="3"))
    assert {row["category"] for row in found if row["score"] == 1.0} == {"hate", "unsafe"}
    assert found[0]["judge"] == "llama-guard@our-guard"
    item["model"] = "Llama-Guard-3-8B"
    assert "contradicts the model's name" in refusal(kept(tmp_path / "a.jsonl", [item], "llama-guard", version="2"))
    with pytest.raises(InputError, match="version=5: one of 1, 2, 3, 4 is expected"):
        open_source(kept(tmp_path / "a.jsonl", [item], "llama-guard", version="5"))


def test_logprobs_give_the_probability_of_unsafe_and_malformed_texts_stay_unscored(shared: Path) -> None:
    file = reading(shared / GENERATED / READERS["llama-guard"], "llama-guard", score="logprob")
    found = rows(file)
    assert {row["category"] for row in found} == {"unsafe"}
    assert sorted({row["score"] for row in found if row["score"] is not None}) == [math.exp(-6.1), math.exp(-0.02)]
    assert sum(row["state"] == "unscored" for row in found) == 4
    facts = open_source(file).facts
    assert facts is not None
    assert (facts.options, facts.threshold) == ({"score": "logprob"}, None)


def test_a_log_probability_above_0_is_refused_and_one_that_was_not_kept_is_unscored(tmp_path: Path) -> None:
    item: Row = {
        "trace_id": "a",
        "model": "Llama-Guard-3-8B",
        "raw_output": "safe",
        "first_token_logprobs": {"safe": -0.1},
    }
    (row,) = rows(kept(tmp_path / "a.jsonl", [item], "llama-guard", score="logprob"))
    assert (row["score"], row["state"]) == (None, "unscored")
    item["first_token_logprobs"]["unsafe"] = 0.5
    assert "is no log probability" in refusal(kept(tmp_path / "a.jsonl", [item], "llama-guard", score="logprob"))


def test_a_guard_that_did_not_answer_is_a_judges_error(tmp_path: Path) -> None:
    items = [
        {"trace_id": "a", "model": "Llama-Guard-3-8B", "raw_output": None},
        {"trace_id": "b", "model": "Llama-Guard-3-8B", "http_status": 503, "raw_output": ""},
        {"trace_id": "c", "model": "Llama-Guard-3-8B", "response": "safe"},
    ]
    found = rows(kept(tmp_path / "a.jsonl", items, "llama-guard"))
    assert {(row["trace_id"], row["state"]) for row in found} == {
        ("a", "judge_error"),
        ("b", "judge_error"),
        ("c", None),
    }


@given(st.text(max_size=40) | st.from_regex(r"(un)?safe[\s,]*(S\d{1,2},?)*", fullmatch=True))
@IN_FOLDER
def test_no_text_is_safe_but_the_word_alone(tmp_path: Path, text: str) -> None:
    item = {"trace_id": "a", "model": "Llama-Guard-3-8B", "raw_output": text}
    path = tmp_path / "a.jsonl"
    found = {row["category"]: row["score"] for row in rows(kept(path, [item], "llama-guard"))}
    assert (found["unsafe"] == 0.0) == (text.strip().lower() == "safe")
    assert all(score is not None or found["unsafe"] != 0.0 for score in found.values())


# --- Azure


def test_the_azure_fixture_gives_the_figures_of_raw_parsing(shared: Path, expected: dict[str, dict[str, int]]) -> None:
    facts = expected["azure_content_safety.jsonl"]
    file = reading(shared / GENERATED / READERS["azure-content-safety"], "azure-content-safety")
    found = rows(file)
    assert len({(row["trace_id"], row["turn"]) for row in found}) == facts["rows"]
    flagged = {(row["trace_id"], row["turn"]) for row in found if row["score"] * 7 >= 4 - 1e-9}
    assert len(flagged) == facts["severity_ge_4_any"]
    assert headline(file)["ours"] == f"{facts['severity_ge_4_any']} of {facts['rows']}"
    assert {row["category"] for row in found} == {"hate", "self-harm", "sexual", "violence"}
    assert {round(row["score"] * 7, 9) for row in found} == {0, 2, 4, 6}
    source = open_source(file)
    assert source.facts is not None
    assert source.facts.scale == (0.0, 7.0)
    assert any("ordinal" in text for text in source.facts.cannot_tell)


def severities(**values: float | None) -> Row:
    return {"blocklistsMatch": [], "categoriesAnalysis": [{"category": k, "severity": v} for k, v in values.items()]}


def test_azure_leaves_what_was_not_asked_missing_and_a_null_unscored(tmp_path: Path) -> None:
    listed = severities(Hate=0) | {"blocklistsMatch": [{"blocklistName": "b", "blocklistItemText": "x"}]}
    items = [
        {"trace_id": "a", "response": severities(Hate=7, Sexual=None)},
        {"trace_id": "b", "response": listed},
        {"trace_id": "c", "response": {"error": {"code": "InvalidRequestBody", "message": "too long"}}},
    ]
    file = kept(tmp_path / "a.jsonl", items, "azure-content-safety")
    assert [(row["trace_id"], row["category"], row["score"], row["state"]) for row in rows(file)] == [
        ("a", "hate", 1.0, None), ("a", "sexual", None, "unscored"),
        ("b", "hate", 0.0, None), ("b", "sexual", None, "missing"),
        ("c", "hate", None, "judge_error"), ("c", "sexual", None, "judge_error"),
    ]  # fmt: skip
    assert counts(file) == {"blocklist_matches": 1}


@pytest.mark.parametrize(
    ("response", "message"),
    [
        (severities(Hate=2.5), "severity 2.5 of Hate is no whole number"),
        (severities(Hate=8), "outside the scale [0, 7]"),
        ({"categoriesAnalysis": [{"category": "Hate", "severity": 1}] * 2}, "a category stands twice"),
        ({"hateResult": {"severity": 2}}, "without categoriesAnalysis"),
    ],
)
def test_other_severities_and_shapes_are_refused(tmp_path: Path, response: Row, message: str) -> None:
    assert message in refusal(
        kept(tmp_path / "a.jsonl", [{"trace_id": "a", "response": response}], "azure-content-safety")
    )


# --- hostile files


def spoiled(content: bytes, cut: int, at: int, byte: int) -> bytes:
    changed = bytearray(content[: len(content) - cut % len(content)])
    if changed:
        changed[at % len(changed)] = byte
    return bytes(changed)


@pytest.mark.parametrize("reader", [*READERS, "perspective"])
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.sampled_from(b'"{}[],:0nN\x00\xff\xed-.e'))
@IN_FOLDER
def test_a_cut_or_changed_file_is_read_or_refused_and_never_breaks(
    shared: Path, tmp_path: Path, reader: str, cut: int, at: int, byte: int
) -> None:
    content = (shared / GENERATED / READERS.get(reader, READERS["openai-moderation"])).read_bytes()[:9000]
    for name in ("a.jsonl", "a.json"):
        (tmp_path / name).write_bytes(spoiled(content, cut, at, byte) or b" ")
        file = reading(tmp_path / name, reader)
        try:
            assert all((row["score"] is None) == (row["state"] in STATES) for row in rows(file))
            SOURCES[reader](file).headlines()
        except InputError:
            continue


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["trace_id", "turn", "response", "results", "category_scores", "hate", "attributeScores",
                         "summaryScore", "value", "categoriesAnalysis", "category", "severity", "raw_output", "error",
                         "http_status", "trace_ids", "inputs", "custom_id", "id", "model", "spanScores", "score",
                         "first_token_logprobs", "unsafe", "blocklistsMatch", "category_applied_input_types"]),
        inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@pytest.mark.parametrize("reader", [*READERS, "perspective"])
@given(st.lists(json_values, max_size=3))
@IN_FOLDER
def test_whatever_json_is_read_or_refused_and_never_breaks(tmp_path: Path, reader: str, items: list[Any]) -> None:
    (tmp_path / "a.json").write_text(json.dumps(items))
    for file in (
        kept(tmp_path / "a.jsonl", items, reader),
        reading(tmp_path / "a.json", reader),
        kept(tmp_path / "b.jsonl", items, reader, **({"score": "logprob"} if reader == "llama-guard" else {})),
    ):
        try:
            rows(file)
            SOURCES[reader](file).headlines()
        except InputError:
            continue


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 10_000, "is a JSON array"),
        (b'{"trace_id": "a", "response": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n", "is not JSON"),
        (b'{"trace_id": "a", "response": "\xff"}\n', "is not UTF-8"),
        (b'{"trace_id": "a", "response": {"results": [{"category_scores": {"hate": NaN}}]}}\n', "is not a finite"),
        (b'{"trace_id": "a", "response": {"results": [{"category_scores": {"hate": 1e999}}]}}\n', "is not a finite"),
        (b'{"trace_id": "a", "response": {"results": [{"category_scores": {"hate": 1' + b"0" * 400 + b"}}]}}\n",
         "beyond all scales"),
        (b'{"trace_id": "a", "turn": 1, "turn": 2}\n', "a key stands twice"),
        (b"\n\n", "holds no responses"),
    ],
)  # fmt: skip
def test_hostile_lines_are_refused_by_what_is_wrong_with_them(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    assert message in refusal(reading(tmp_path / "a.jsonl", "openai-moderation"))


def test_a_file_of_hundreds_of_categories_is_no_moderation_api(tmp_path: Path) -> None:
    item = {"trace_id": "a", "response": moderated({f"c{i}": 0.1 for i in range(300)})}
    assert "names over 200 categories" in refusal(kept(tmp_path / "a.jsonl", [item], "openai-moderation"))


def test_other_extensions_are_refused_and_gzip_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("trace_id\n")
    with pytest.raises(InputError, match="unknown extension"):
        open_all([reading(tmp_path / "a.csv", "perspective")])
    line = json.dumps({"trace_id": "a", "response": moderated({"hate": 0.5})}).encode()
    for name in ("a.jsonl.gz", "a.json.gz"):
        (tmp_path / name).write_bytes(gzip.compress(line))
        assert len(rows(reading(tmp_path / name, "openai-moderation"))) == 1


def test_a_file_is_surveyed_once_and_only_if_that_decides_something(
    openai: InputFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []
    original: Callable[[ResponseSource, list[Problem]], Any] = ResponseSource.calls

    def counted(self: ResponseSource, problems: list[Problem]) -> Any:
        passes.append(1)
        return original(self, problems)

    def passes_of(file: InputFile) -> int:
        passes.clear()
        source = SOURCES[file.reader](file)
        for _ in range(2):
            for _ in source.batches(("trace_id",)):
                pass
        return len(passes)

    monkeypatch.setattr(ResponseSource, "calls", counted)
    assert passes_of(openai) == 2 + 2, "one for what failed, one for what settles it"
    fine = kept(tmp_path / "a.jsonl", [{"trace_id": "a", "response": moderated({"hate": 0.5})}], "openai-moderation")
    assert passes_of(fine) == 2
