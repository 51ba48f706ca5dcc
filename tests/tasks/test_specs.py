"""Specs from YAML: what is not meant is refused, and nothing that YAML can do surprises."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

import pytest

import core.instrument.spec as specs
from core.errors import InputError
from core.instrument.spec import DeclaredSpec, InstrumentSpec, JudgeIdentity, MeasurementSpec
from core.records import plain
from core.simulation.spec import CertificateSpec, ChainSpec, CorrectionSpec, ObservedRateSpec
from tasks.specs import MAX_SPEC_BYTES, build_simulation, build_spec, load_declared, load_instrument, load_spec

KINDS = [
    kind for _, kind in inspect.getmembers(specs, dataclasses.is_dataclass) if kind.__module__ == specs.__name__
]  # fmt: skip


def refused(path: Path, content: str | bytes, kind: type[Any] = InstrumentSpec) -> list[str]:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    with pytest.raises(InputError) as error:
        load_spec(path, kind)
    assert all(problem.source == str(path) for problem in error.value.problems)
    return [f"{problem.line}: {problem.message}" for problem in error.value.problems]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "instrument.yaml"


def test_the_instrument_of_the_design_is_read_as_it_stands(path: Path) -> None:
    path.write_text("""
name: safety
kind: scores
categories: [hate, violence, self_harm]
judge: {name: lexical, version: "1"}
detection_floor: 0.20
confidence_level: 0.95
optimism: {method: bootstrap, resamples: 1000}
turn_bins: [1, 2, 3, 4, 8]
slices: [functionality, target_group]
allow_unmatched: false
interval: lang_reiczigel
golden_design: enriched
attempts: each
error_budget: 0.05
seed: 20261129
""")
    spec = load_instrument(path)
    assert spec.judge == JudgeIdentity(name="lexical", version="1")
    assert spec.categories == ("hate", "violence", "self-harm")
    assert (spec.turn_bins, spec.slices) == ((1, 2, 3, 4, 8), ("functionality", "target_group"))


def test_an_instrument_of_nothing_but_a_name_has_the_defaults(path: Path) -> None:
    path.write_text("name: x")
    assert load_instrument(path) == InstrumentSpec(name="x")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_spec_refuses_unknown_keys_when_pydantic_builds_it(kind: Any) -> None:
    assert kind.__pydantic_config__ == {"extra": "forbid"}
    assert kind.__dataclass_params__.frozen
    with pytest.raises(InputError, match="unknown key 'no_such_key'"):
        build_spec({"no_such_key": 1}, kind, "here")


def test_the_sweep_of_specs_finds_them() -> None:
    assert {InstrumentSpec, DeclaredSpec, MeasurementSpec, JudgeIdentity} <= set(KINDS)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("detection_flor: 0.2", "unknown key 'detection_flor'; did you mean 'detection_floor'?"),
        ("judge: {nme: x}", "unknown key 'judge.nme'; did you mean 'name'?"),
        ("optimism: {resample: 10}", "unknown key 'optimism.resample'; did you mean 'resamples'?"),
        ("zzzzzz: 1", "unknown key 'zzzzzz'; known: "),
        ("1: x", "1: Keys should be strings"),
        ("detection_floor: high", "detection_floor: "),
        ("categories: hate", "categories: "),
        ("categories: [[hate]]", "categories.0: "),
        ("categories: {hate: 1}", "categories: "),
        ("judge: lexical", "judge: "),
        ("judge: {version: 2026-10-01}", "judge.version: "),
        ("kind: predictions", "kind: Input should be 'scores' or 'detections'"),
        ("optimism: {method: jackknife}", "optimism.method: "),
        ("turn_bins: [1, two]", "turn_bins.1: "),
        ("name: [", "is not a spec"),
        ("detection_floor: 0", "detection_floor"),
        ("detection_floor: .nan", "detection_floor"),
        ("confidence_level: 1.0", "confidence_level"),
        ("optimism: {resamples: 0}", "resamples"),
        ("turn_bins: [2, 1]", "turn_bins"),
        ("categories: []", "categories"),
        ("categories: [hate, hate]", "categories"),
        ("categories: [self-harm, self_harm]", "categories"),
        ("error_budget: 2", "error_budget"),
        ("seed: -1", "seed"),
        ("seed: 1.5", "seed: "),
        ("seed: " + "9" * 5000, "is not YAML"),
        ("name: ''", "name"),
    ],
)
def test_a_key_or_value_that_cannot_be_meant_is_refused_by_name(path: Path, content: str, expected: str) -> None:
    (message,) = refused(path, content)
    assert expected in message


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("seed: true", "0: seed: true is neither a number nor a text"),
        ("detection_floor: false", "0: detection_floor: false is neither"),
        ("optimism: {resamples: yes}", "0: optimism.resamples: true is neither"),
        ("turn_bins: [true, 2]", "0: turn_bins.0: true is neither"),
        ("name: true", "0: name: true is neither"),
        ('name: "\\ud800"', "0: name: holds half a character"),
        ('categories: ["a\\udfff"]', "0: categories.0: holds half a character"),
    ],
)
def test_true_is_no_number_and_half_a_character_no_name(content: str, expected: str, path: Path) -> None:
    (message,) = refused(path, content)
    assert message.startswith(expected)


def test_true_is_an_answer_where_one_is_asked_for(path: Path) -> None:
    path.write_text("name: x\nallow_unmatched: true\n")
    assert load_instrument(path).allow_unmatched is True


def test_all_wrong_keys_are_told_at_once(path: Path) -> None:
    messages = refused(path, "nme: x\nseed: later\njudge: {verson: 1}\ncategories: 3")
    assert len(messages) == 4


def test_a_missing_key_of_a_declared_calibration_is_named(path: Path) -> None:
    content = "judge: {name: x}\ncategories: {hate: {threshold: 0.5, sensitivity: 0.9, n_positive: 9}}"
    assert sorted(refused(path, content, DeclaredSpec)) == [
        "0: key 'categories.hate.n_negative' is missing",
        "0: key 'categories.hate.source' is missing",
        "0: key 'categories.hate.specificity' is missing",
        "0: key 'name' is missing",
    ]


RATES = "{threshold: 0.5, sensitivity: 0.85, n_positive: 200, specificity: 0.93, n_negative: 400, source: card}"


def test_a_declared_calibration_is_read(path: Path) -> None:
    path.write_text(f'name: x\njudge: {{name: g, version: "2026-10"}}\ncategories: {{self_harm: {RATES}}}')
    spec = load_declared(path)
    assert spec.categories["self-harm"].sensitivity == 0.85
    assert spec.composite is None


@pytest.mark.parametrize(
    ("old", "new"),
    [("0.85", "1.2"), ("0.93", ".nan"), ("200", "0"), ("threshold: 0.5", "threshold: 7"), ("card", "' '"),
     ("threshold: 0.5, ", "")],
)  # fmt: skip
def test_declared_rates_that_cannot_be_are_refused(path: Path, old: str, new: str) -> None:
    assert refused(path, f"name: x\njudge: {{name: g}}\ncategories: {{hate: {RATES.replace(old, new)}}}", DeclaredSpec)


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{', '.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(9)
)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (LAUGHS, "2: is not a spec: aliases (*name) are not allowed"),
        ("judge: &j {name: x}\nname: *j", "2: is not a spec: aliases"),
        ("name: x\njudge: {name: a, name: b}", "2: is not a spec: key 'name' stands twice"),
        ("name: x\nseed: 1\nname: y", "3: is not a spec: key 'name' stands twice"),
        ("? [a, b]\n: 1", "1: is not a spec: a key must be plain text"),
        ("name: !!python/object/apply:os.system ['true']", "1: is not a spec: could not determine a constructor"),
        ("name: x\n--- \nname: y", "is not a spec"),
        ("name: 'x", "is not a spec"),
        ("\tname: x", "is not a spec"),
        ("name: \x00", "is not YAML"),
        ("[" * 5000, "is not "),
        ("", "0: a spec is a mapping of keys to values"),
        ("- name", "0: a spec is a mapping of keys to values"),
        ("just text", "0: a spec is a mapping of keys to values"),
        ("# nothing", "0: a spec is a mapping of keys to values"),
        (b"name: \xff", "0: is not UTF-8 text"),
    ],
)  # fmt: skip
def test_yaml_that_is_no_spec_is_refused_with_its_line(path: Path, content: str | bytes, expected: str) -> None:
    (message,) = refused(path, content)
    assert expected in message


def test_a_huge_file_is_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path.write_bytes(b"#" * (MAX_SPEC_BYTES + 1))
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(InputError, match=r"is larger than 1000000 bytes; is this a spec?"):
        load_instrument(path)


def test_a_spec_that_is_not_there_or_is_a_folder_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such file"):
        load_instrument(tmp_path / "none.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        load_instrument(tmp_path)


@pytest.mark.parametrize(
    "spec",
    [
        ObservedRateSpec(n_units=(5,), rates=(0.1,)), CorrectionSpec(replications=7), CertificateSpec(seed=3),
        ChainSpec(instrument=InstrumentSpec(name="x", allow_unmatched=True, turn_bins=(2, 4)), unlabelled=0.1),
    ],
    ids=lambda spec: str(spec.stage),
)  # fmt: skip
def test_the_spec_of_a_simulation_comes_back_from_its_record(spec: Any) -> None:
    assert build_simulation(plain(spec), "record") == spec


@pytest.mark.parametrize("stage", [4, "three", None, [1], True])
def test_a_simulation_of_another_stage_is_refused(stage: Any) -> None:
    with pytest.raises(InputError):
        build_simulation({"stage": stage}, "record")


def test_a_nested_key_that_is_unknown_or_no_answer_is_told() -> None:
    for key, value in (("allow_unmatchd", False), ("seed", True)):
        with pytest.raises(InputError, match=key):
            build_simulation(plain(ChainSpec()) | {"instrument": {"name": "x", key: value}}, "record")
