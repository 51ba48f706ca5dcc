"""Specs of audits: YAML, and the files that it names, to the frozen spec of their kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.data.problems import nearest, quoted
from core.errors import InputError
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.spec import AuditSpec
from core.fairness.taxonomy import Taxonomy
from tasks.specs import build_spec, read_yaml

Spec = AuditSpec | OutputsSpec

KINDS: Mapping[str, type[Spec]] = {"predictions": AuditSpec, "outputs": OutputsSpec}

TAXONOMY = "taxonomy"
FILE_KEYS = (TAXONOMY, "reference_distribution", "references", "baselines")
"""Keys of a spec for outputs that may name a file beside it; also the roles of those files in a record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedAudit:
    """A spec, and the files that it was made of besides its own.

    Attributes
    ----------
    spec : AuditSpec or OutputsSpec
    files : mapping of str to Path
        By key of the spec.
    """

    spec: Spec
    files: Mapping[str, Path]


def load_audit(path: Path) -> LoadedAudit:
    """Read the spec of an audit; its ``kind`` says of what.

    ``taxonomy: FILE.yaml`` (or the name of a built-in one) stands for one audited axis with that taxonomy.
    ``reference_distribution``, ``references`` and ``baselines`` may be a file too. Files are looked for beside the
    spec.

    Raises
    ------
    InputError
        No such file, not a spec, or all keys that are unknown, missing, or of the wrong type or range.
    """
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise InputError.of(str(path), "a spec is a mapping of keys to values")
    files: dict[str, Path] = {}
    if data.get("kind") == "outputs":
        _check_taxonomy(data, path)
        files = {key: path.parent / data[key] for key in FILE_KEYS if _names_file(data.get(key))}
        data = _whole(data, files)
    return LoadedAudit(spec=build_audit(data, str(path)), files=files)


def build_audit(data: Any, source: str) -> Spec:
    """Build the spec of an audit from plain data, of the kind that it says.

    Raises
    ------
    InputError
        All that is wrong with it.
    """
    kind = str(data.get("kind", "")) if isinstance(data, dict) else ""
    if not kind:
        raise InputError.of(source, f"key 'kind' is missing; it is one of {', '.join(KINDS)}")
    if kind not in KINDS:
        raise InputError.of(source, f"kind {quoted(kind)} is none of an audit; {nearest(kind, list(KINDS))}")
    return build_spec(data, KINDS[kind], source)


def rebuilt(recorded: Mapping[str, Any], files: Mapping[str, Path]) -> Spec:
    """Build a record's spec again, with what its named files hold in the place of what the record says they held."""
    return build_audit({**recorded, **_parts(files)}, "the record's spec")


def _whole(data: Mapping[str, Any], files: Mapping[str, Path]) -> dict[str, Any]:
    """Put the content of files in the place of their names."""
    kept = {key: value for key, value in data.items() if key != TAXONOMY}
    whole = {**kept, **_parts(files)}
    if TAXONOMY in data:
        whole["axes"] = list(whole["taxonomies"]) if TAXONOMY in files else [data[TAXONOMY]]
    return whole


def _parts(files: Mapping[str, Path]) -> dict[str, Any]:
    """Return what files hold as keys of a spec."""
    parts: dict[str, Any] = {}
    for key, path in files.items():
        content = read_yaml(path)
        if not isinstance(content, dict):
            raise InputError.of(str(path), f"{key} is a mapping of keys to values")
        if key == TAXONOMY:
            parts["taxonomies"] = {build_spec(content, Taxonomy, str(path)).axis: content}
        else:
            parts[key] = content
    return parts


def _names_file(value: Any) -> bool:
    return isinstance(value, str) and value.endswith((".yaml", ".yml"))


def _check_taxonomy(data: Mapping[str, Any], path: Path) -> None:
    if TAXONOMY not in data:
        return
    if "axes" in data or "taxonomies" in data:
        raise InputError.of(str(path), "taxonomy stands for axes and taxonomies; give either the one or the others")
    if not isinstance(data[TAXONOMY], str):
        told = f"taxonomy: {data[TAXONOMY]!r} is neither a file nor the name of a built-in taxonomy"
        raise InputError.of(str(path), told)
