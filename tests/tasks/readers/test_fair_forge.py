"""Guardian interactions of fair-forge. There is no shared fixture: files are made here in the shape of the tool's
documented schema (release 3, fair_forge/schemas/bias.py: BiasMetric, AttributeBiasRate, GuardianInteraction).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.checking import check
from tasks.readers import open_source
from tasks.readers.fair_forge import FairForgeSource
from tasks.storage import InputFile

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)

Row = dict[str, Any]
Said = dict[str, dict[str, bool | None]]
"""attribute -> qa_id -> verdict."""


def metric(session: str, said: Said, **changes: Any) -> Row:
    interactions = {
        attribute: [
            {"is_biased": biased, "attribute": attribute, "certainty": 0.9, "method": "sampled-answer", "qa_id": qa}
            for qa, biased in verdicts.items()
        ]
        for attribute, verdicts in said.items()
    }
    rates = [
        {"protected_attribute": attribute, "n_samples": len(verdicts), "k_biased": sum(map(bool, verdicts.values())),
         "rate": 0.0, "ci_low": None, "ci_high": None}
        for attribute, verdicts in said.items()
    ]  # fmt: skip
    whole = {"session_id": session, "assistant_id": "helper", "attribute_rates": rates,
             "guardian_interactions": interactions}  # fmt: skip
    return whole | changes


def kept(path: Path, items: Any, **options: str) -> InputFile:
    lines = path.suffix == ".jsonl"
    path.write_text("".join(json.dumps(item) + "\n" for item in items) if lines else json.dumps(items))
    return InputFile(path=path, name=path.name, reader="fair-forge", options=options)


def rows(file: InputFile) -> list[Row]:
    source = FairForgeSource(file)
    return [row for batch, _ in source.batches(source.columns) for row in batch.to_pylist()]


def refusal(file: InputFile) -> str:
    with pytest.raises(InputError) as error:
        rows(file)
    return str(error.value)


TWO = [
    metric("s1", {"gender": {"q1": True, "q2": False, "q3": True}, "race": {"q1": False, "q2": False, "q3": False}}),
    metric("s2", {"gender": {"q1": False}, "race": {"q1": False}}),
]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl"])
def test_an_interaction_is_a_turn_and_an_attribute_a_decision(tmp_path: Path, name: str) -> None:
    found = rows(kept(tmp_path / name, TWO))
    assert [(row["trace_id"], row["turn"], row["attribute"], row["detected"]) for row in found] == [
        ("s1", 0, "gender", 1.0), ("s1", 0, "race", 0.0), ("s1", 1, "gender", 0.0), ("s1", 1, "race", 0.0),
        ("s1", 2, "gender", 1.0), ("s1", 2, "race", 0.0), ("s2", 0, "gender", 0.0), ("s2", 0, "race", 0.0),
    ]  # fmt: skip
    assert {(row["judge"], row["target"]) for row in found} == {("fair-forge-guardian@unknown", "helper@unknown")}


def test_one_metric_alone_is_read_too(tmp_path: Path) -> None:
    assert len(rows(kept(tmp_path / "a.json", TWO[1]))) == 2


def test_it_is_checked_as_detections_and_its_rates_stand_beside_ours(tmp_path: Path) -> None:
    file = kept(tmp_path / "a.json", TWO)
    summary = check([file], "detections")
    assert (summary["traces"], summary["turns"]) == (2, 4)
    assert summary["rates"]["each attempt"]["gender"]["flagged"] == 1
    lines = [(line.what, line.tool, line.ours) for line in FairForgeSource(file).headlines()]
    assert lines == [
        ("biased: gender", "2 of 4 interactions", "1 of 2 conversations"),
        ("biased: race", "0 of 4 interactions", "0 of 2 conversations"),
    ]
    assert open_source(file).kind == "detections"


def test_an_inverted_file_is_read_inverted_and_the_contrary_direction_refused(tmp_path: Path) -> None:
    contrary = [metric("s", {"gender": {"q1": False, "q2": True}}), metric("t", {"gender": {"q1": True}})]
    found = [row["detected"] for row in rows(kept(tmp_path / "a.json", contrary))]
    assert found == [0.0, 1.0, 1.0]
    with pytest.raises(InputError, match="contradicts the format"):
        open_source(kept(tmp_path / "a.json", TWO, **{"higher-is": "better"}))


def test_what_was_not_decided_is_no_pass(tmp_path: Path) -> None:
    items = [
        metric("a", {"gender": {"q1": None, "q2": True}, "race": {"q2": False}}),
        metric("b", {"gender": {}, "race": {}}),
    ]
    file = kept(tmp_path / "a.json", items)
    found = [(row["trace_id"], row["turn"], row["attribute"], row["detected"], row["state"]) for row in rows(file)]
    assert found == [
        ("a", 0, "gender", None, "unscored"), ("a", 1, "gender", 1.0, None), ("a", 1, "race", 0.0, None),
        ("b", 0, "gender", None, "missing"), ("b", 0, "race", None, "missing"),
    ]  # fmt: skip
    assert check([file], "detections")["accounting"] == {"attempted": 2, "unscored": 1, "missing": 1}


def test_names_with_underscores_become_assays(tmp_path: Path) -> None:
    (row,) = rows(kept(tmp_path / "a.json", [metric("a", {"sexual_orientation": {"q": True}})]))
    assert row["attribute"] == "sexual-orientation"


def test_an_interaction_that_stands_twice_counts_once_or_is_refused(tmp_path: Path) -> None:
    item = metric("a", {"gender": {"q": True}})
    item["guardian_interactions"]["gender"] *= 2
    file = kept(tmp_path / "a.json", [item])
    source = FairForgeSource(file)
    assert sum(len(batch) for batch, _ in source.batches(("trace_id",))) == 1
    assert source.facts.counts == {"repeated_interactions": 1}
    item["guardian_interactions"]["gender"][1] = {**item["guardian_interactions"]["gender"][1], "is_biased": False}
    assert "interaction 'q' has two verdicts on 'gender'" in refusal(kept(tmp_path / "a.json", [item]))


GOOD = metric("a", {"gender": {"q": True}})
INTERACTION = GOOD["guardian_interactions"]["gender"][0]


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([{k: v for k, v in GOOD.items() if k != "attribute_rates"} | {"confidence_intervals": []}],
         "of a release before 3 or was cut"),
        ([{"session_id": "a", "assistant_id": "b", "toxicity": 1}], "a BiasMetric of fair-forge 3"),
        ([GOOD, GOOD], "row 2: its session stands in the file before"),
        ([GOOD | {"session_id": ""}], "a BiasMetric of fair-forge 3"),
        ([GOOD | {"guardian_interactions": {"gender": {}}}], "is no list under a name"),
        ([GOOD | {"guardian_interactions": {"race": [INTERACTION]}}], "interaction 'q' under 'race' is about 'gender'"),
        ([GOOD | {"guardian_interactions": {"gender": [INTERACTION | {"is_biased": "no"}]}}], "neither true nor false"),
        ([GOOD | {"guardian_interactions": {"gender": [INTERACTION | {"is_biased": 1}]}}], "neither true nor false"),
        ([GOOD | {"guardian_interactions": {"gender": [INTERACTION | {"qa_id": None}]}}], "without a qa_id"),
        ([GOOD | {"attribute_rates": [{"protected_attribute": "gender"}]}], "attribute_rates holds something else"),
        ([3], "is no object"),
        ([], "holds no metrics"),
    ],
)  # fmt: skip
def test_other_shapes_are_refused_with_what_was_expected(tmp_path: Path, items: list[Any], message: str) -> None:
    assert message in refusal(kept(tmp_path / "a.json", items))


verdicts = st.dictionaries(st.sampled_from(["q1", "q2", "q3"]), st.booleans(), min_size=1)


@given(st.dictionaries(st.sampled_from(["s", "t", "u"]), st.dictionaries(st.sampled_from(["gender", "race"]), verdicts,
                                                                         min_size=1), min_size=1))  # fmt: skip
@IN_FOLDER
def test_every_verdict_is_one_row_and_none_is_made_up(tmp_path: Path, said: dict[str, Said]) -> None:
    file = kept(tmp_path / "a.jsonl", [metric(session, attributes) for session, attributes in said.items()])
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows(file):
        found.setdefault((row["trace_id"], row["attribute"]), []).append(row["detected"])
    assert {key: sorted(values) for key, values in found.items()} == {
        (session, attribute): sorted(float(biased) for biased in turns.values())
        for session, attributes in said.items()
        for attribute, turns in attributes.items()
    }


@given(st.integers(0, 400), st.integers(0, 10**6), st.sampled_from(b'"{}[],:0nN\x00\xff'))
@IN_FOLDER
def test_a_cut_or_changed_file_is_read_or_refused_and_never_breaks(
    tmp_path: Path, cut: int, at: int, byte: int
) -> None:
    for name in ("a.json", "a.jsonl"):
        file = kept(tmp_path / name, TWO)
        content = bytearray(file.path.read_bytes())
        content = content[: len(content) - cut]
        content[at % len(content)] = byte
        file.path.write_bytes(content)
        try:
            rows(file)
            FairForgeSource(file).headlines()
        except InputError:
            continue
