"""Specs of audits: the kind decides, and files that a spec names stand for what they hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.spec import AuditSpec
from core.records import plain
from tasks.audit_specs import build_audit, load_audit, rebuilt

PREDICTIONS = 'kind: predictions\ngroups: [race]\npositive: {y_pred: "yes", y_true: true}\nreference: {race: a}\n'
OUTPUTS = """\
kind: outputs
taxonomy: gender.yaml
references: references.yaml
baselines: baselines.yaml
"""


def write(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text, encoding="utf-8")
    return folder / "spec.yaml"


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    return write(
        tmp_path,
        spec=OUTPUTS,
        gender="axis: gender\ncategories: [female, male]\n",
        references="gender: {kind: uniform, rationale: written for this test}\n",
        baselines="gender: {rationale: written for this test, contexts: {nurse: {female: 0.8}}}\n",
    )


def test_the_kind_says_which_spec_it_is_and_a_record_of_it_builds_it_again(tmp_path: Path) -> None:
    spec = load_audit(write(tmp_path, spec=PREDICTIONS)).spec
    assert isinstance(spec, AuditSpec)
    assert (spec.positive.y_pred, spec.positive.y_true) == ("yes", True)
    assert build_audit(plain(spec), "record") == spec


def test_files_that_a_spec_names_are_found_beside_it_and_named(outputs: Path) -> None:
    loaded = load_audit(outputs)
    spec = loaded.spec
    assert isinstance(spec, OutputsSpec)
    assert spec.taxonomy("gender").categories == ("female", "male")
    assert spec.baselines["gender"].contexts == {"nurse": {"female": 0.8}}
    assert sorted(loaded.files) == ["baselines", "references", "taxonomy"]
    assert rebuilt(plain(spec), loaded.files) == spec


def test_a_spec_built_again_from_a_changed_file_is_another_one(outputs: Path) -> None:
    loaded = load_audit(outputs)
    write(outputs.parent, gender="axis: gender\ncategories: [female, male, neutral]\n")
    assert rebuilt(plain(loaded.spec), loaded.files) != loaded.spec


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("gender", "- female\n", "taxonomy is a mapping"),
        ("references", "gender: {kind: uniform}\n", "rationale"),
        ("baselines", "gender: {rationale: written for this test, contexts: {nurse: {female: 0}}}\n", "0"),
        ("spec", "kind: outputs\ntaxonomy: gone.yaml\n", "there is no such file"),
        ("spec", "kind: outputs\nreferences: gone.yaml\n", "there is no such file"),
        ("spec", "kind: predictions\ntaxonomy: gender.yaml\ngroups: [a]\npositive: {y_pred: 1}\n", "unknown key"),
        ("spec", PREDICTIONS.replace("race: a}", "race: yes}"), "put a text in quotes"),
    ],
)
def test_what_is_wrong_with_a_spec_or_a_file_of_it_is_told(outputs: Path, name: str, text: str, said: str) -> None:
    write(outputs.parent, **{name: text})
    with pytest.raises(InputError) as error:
        load_audit(outputs)
    assert said in str(error.value)
