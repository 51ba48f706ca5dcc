"""core is documented, and importing it costs and needs no service library."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

SERVICES = {"prefect", "mlflow", "boto3"}
HEAVY = SERVICES | {"sklearn"}

LOADED = "import sys; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
IMPORT_CORE = f"import core; {LOADED}"
IMPORT_ALL_OF_CORE = f"""
import importlib, pathlib, core
root = pathlib.Path(next(iter(core.__path__)))
for path in sorted(root.rglob("*.py")):
    parts = path.relative_to(root.parent).with_suffix("").parts
    importlib.import_module(".".join(part for part in parts if part != "__init__"))
{LOADED}
"""


def loaded_by(code: str, project: Path) -> set[str]:
    result = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return set(result.stdout.split())


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Public functions, classes and methods without a docstring, and the module itself."""
    if tree.body and ast.get_docstring(tree) is None:
        yield "the module"
    yield from _undocumented(tree.body, prefix="")


def _undocumented(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) or node.name.startswith("_"):
            continue
        decorators = {ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list}
        if decorators & {"overload", "setter", "override"}:
            continue
        if ast.get_docstring(node) is None:
            yield prefix + node.name
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(node.body, prefix=f"{prefix}{node.name}.")


def test_everything_public_in_core_has_a_docstring(project: Path) -> None:
    missing = [
        f"{path.relative_to(project)}: {name}"
        for path in sorted((project / "core").rglob("*.py"))
        for name in undocumented(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert missing == []


def test_importing_core_loads_no_service_library_and_not_scikit_learn(project: Path) -> None:
    assert not loaded_by(IMPORT_CORE, project) & HEAVY


def test_no_module_of_core_loads_a_service_library(project: Path) -> None:
    loaded = loaded_by(IMPORT_ALL_OF_CORE, project)
    assert "core" in loaded
    assert not loaded & SERVICES
