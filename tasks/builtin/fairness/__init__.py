"""Built-in data of the fairness of generated text: taxonomies, bands, weights and references, as YAML."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from core.errors import InputError
from core.fairness.bands import Bands
from core.fairness.outputs_spec import OutputsSpec, ReferenceSpec
from core.fairness.taxonomy import Taxonomy
from tasks.audit_specs import load_audit
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
    """Read the spec of an audit of outputs; see `tasks.audit_specs.load_audit`.

    Raises
    ------
    InputError
        As there, or the spec is of another kind.
    """
    spec = load_audit(path).spec
    if not isinstance(spec, OutputsSpec):
        raise InputError.of(str(path), f"is of kind {spec.kind}; outputs are audited here")
    return spec


def _read(name: str) -> dict[str, Any]:
    data: dict[str, Any] = read_yaml(FOLDER / f"{name}.yaml")
    return data
