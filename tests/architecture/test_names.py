"""Top-level names are ours alone, in the environment and on sys.path."""

from __future__ import annotations

import ast
import importlib
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

TOP_LEVEL = ("core", "tasks", "flows")
NOT_FLOWS = ("__init__", "cli", "orchestration")  # imported as flows.x, never run by Prefect as a file


def flow_files(project: Path) -> list[Path]:
    return sorted((project / "flows").glob("*.py"))


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_no_other_distribution_claims_a_top_level_name(name: str) -> None:
    assert set(packages_distributions().get(name, [])) <= {"assay"}


@pytest.mark.parametrize("name", TOP_LEVEL)
def test_a_top_level_name_imports_from_this_tree(name: str, project: Path) -> None:
    found = {Path(folder).resolve() for folder in importlib.import_module(name).__path__}
    assert found == {project / name}


def test_flow_files_shadow_neither_the_standard_library_nor_an_installed_package(project: Path) -> None:
    taken = sys.stdlib_module_names | set(packages_distributions())
    stems = {path.stem for path in flow_files(project)} - {"__init__"}
    assert not stems & taken, "Prefect leaves flows/ first on sys.path, so these would be imported instead"


def test_flow_files_define_no_classes(project: Path) -> None:
    defined = [
        f"{path.relative_to(project)}:{node.lineno} {node.name}"
        for path in flow_files(project)
        if path.stem not in NOT_FLOWS
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert not defined, "Prefect imports a flow file under its bare stem, which gives its classes a second identity"
