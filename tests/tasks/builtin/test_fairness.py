"""The YAML of the built-in fairness data holds what core takes by default."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from core.errors import InputError
from core.fairness.bands import BANDS
from core.fairness.harm import HARM_THRESHOLD, HARM_WEIGHTS
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.service import CAPS
from core.fairness.taxonomy import TAXONOMIES
from core.records import plain
from tasks.builtin.fairness import (
    builtin_bands,
    builtin_references,
    builtin_taxonomies,
    builtin_weights,
    load_outputs_spec,
    sample_spec,
)


def test_bands_taxonomies_and_weights_are_those_of_core() -> None:
    assert builtin_bands() == BANDS
    assert builtin_taxonomies() == TAXONOMIES
    assert builtin_weights() == {"harm_weights": HARM_WEIGHTS, "harm_threshold": HARM_THRESHOLD, "caps": CAPS}


def test_every_reference_and_baseline_has_a_rationale() -> None:
    references = builtin_references()
    assert set(references) == set(TAXONOMIES)
    assert all(len(reference.rationale) >= 20 for reference in references.values())
    spec = sample_spec()
    assert len(spec.baselines["gender"].rationale) >= 20
    assert spec.reference("gender") is not None


def write(folder: Path, text: str) -> Path:
    path = folder / "audit.yaml"
    path.write_text(text, encoding="utf-8")
    return path


RATIONALE = "rationale: written for this test"


def test_a_spec_may_name_a_built_in_taxonomy_or_a_file_beside_it(tmp_path: Path) -> None:
    spec = load_outputs_spec(
        write(tmp_path, f"kind: outputs\ntaxonomy: race\nreference_distribution: {{kind: uniform, {RATIONALE}}}\n")
    )
    assert (spec.axes, spec.taxonomy("ethnicity")) == (("ethnicity",), TAXONOMIES["ethnicity"])
    (tmp_path / "pets.yaml").write_text("axis: pet\ncategories: [dog, cat]\naliases: {puppy: dog}\n", encoding="utf-8")
    spec = load_outputs_spec(write(tmp_path, "kind: outputs\ntaxonomy: pets.yaml\n"))
    assert spec.axes == ("pet",)
    assert spec.taxonomy("pet").canonical("Puppy") == "dog"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: outputs\nharm_weigths: {}\n", "did you mean 'harm_weights'"),
        ("kind: outputs\nreference_distribution: {kind: uniform}\n", "rationale"),
        ("kind: outputs\nreference_distribution: {kind: uniform, rationale: short}\n", "at least 20"),
        ("kind: outputs\ntaxonomy: gender\naxes: [age]\n", "taxonomy stands for axes"),
        ("kind: outputs\ntaxonomy: [gender]\n", "neither a file nor the name"),
        ("kind: outputs\ntaxonomy: none-such.yaml\n", "there is no such file"),
        ("kind: outputs\naxes: [height]\n", "has no taxonomy"),
        ("- kind\n", "mapping of keys"),
    ],
)
def test_a_spec_that_is_none_says_what_is_wrong(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        load_outputs_spec(write(tmp_path, text))


def test_every_key_of_a_spec_can_be_written_as_yaml(tmp_path: Path) -> None:
    spec = sample_spec()
    data = plain(spec)
    assert set(data) == {field.name for field in fields(OutputsSpec)}
    assert load_outputs_spec(write(tmp_path, yaml.safe_dump(data))) == spec
