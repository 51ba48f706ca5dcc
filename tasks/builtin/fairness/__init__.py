"""Built-in data of the fairness of generated text: taxonomies, bands, weights and references, as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.errors import InputError
from core.fairness.bands import Bands
from core.fairness.outputs_spec import OutputsSpec, ReferenceSpec
from core.fairness.taxonomy import Taxonomy
from tasks.specs import build_spec, read_yaml

FOLDER = Path(__file__).parent


def builtin_taxonomies() -> dict[str, Taxonomy]:
    """Taxonomies by axis; core has the same as its defaults."""
    return {axis: build_spec(data, Taxonomy, "taxonomies.yaml") for axis, data in _read("taxonomies").items()}


def builtin_bands() -> dict[str, Bands]:
    """Bands by metric; core has the same as its defaults."""
    return {metric: build_spec(data, Bands, "bands.yaml") for metric, data in _read("bands").items()}


def builtin_weights() -> dict[str, Any]:
    """Keys of an `OutputsSpec`: ``harm_weights``, ``harm_threshold``, ``caps``; core has the same as its defaults."""
    return _read("weights")


def builtin_references() -> dict[str, ReferenceSpec]:
    """References by axis."""
    return {axis: build_spec(data, ReferenceSpec, "references.yaml") for axis, data in _read("references").items()}


def sample_spec() -> OutputsSpec:
    """Audit of the built-in sample of outputs."""
    return load_outputs_spec(FOLDER / "sample.yaml")


def load_outputs_spec(path: Path) -> OutputsSpec:
    """Read the spec of an audit of outputs.

    ``taxonomy: FILE.yaml`` (or the name of a built-in one) stands for one audited axis with that taxonomy; a file is
    looked for beside the spec.

    Raises
    ------
    InputError
        No such file, not a spec, or all keys that are unknown, missing, or of the wrong type or range.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError.of(str(path), "a spec is a mapping of keys to values")
    if "taxonomy" in data:
        data = _with_taxonomy(dict(data), path)
    return build_spec(data, OutputsSpec, str(path))


def _with_taxonomy(data: dict[str, Any], path: Path) -> dict[str, Any]:
    named = data.pop("taxonomy")
    if "axes" in data or "taxonomies" in data:
        raise InputError.of(str(path), "taxonomy stands for axes and taxonomies; give either the one or the others")
    if not isinstance(named, str):
        raise InputError.of(str(path), f"taxonomy: {named!r} is neither a file nor the name of a built-in taxonomy")
    if not named.endswith((".yaml", ".yml")):
        return {**data, "axes": [named]}
    file = path.parent / named
    content = read_yaml(file)
    taxonomy = build_spec(content, Taxonomy, str(file))
    return {**data, "axes": [taxonomy.axis], "taxonomies": {taxonomy.axis: content}}


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(FOLDER / f"{name}.yaml")
    return data
