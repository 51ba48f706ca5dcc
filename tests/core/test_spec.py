"""SPEC.md is normative, so every example in it is run and every section that code cites has to exist."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

HEADING = re.compile(r"^#{2,3} (\d+(?:\.\d+)?)[. ]", re.MULTILINE)
CITATION = re.compile(r"\bSPEC ((?:\d+(?:\.\d+)?(?:, | and | to |-)?)+)")


def spec(project: Path) -> str:
    return (project / "core" / "SPEC.md").read_text(encoding="utf-8")


def python_blocks(text: str) -> str:
    """Keep the examples and blank out everything else, so that line numbers stay those of the file."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```python"
            kept.append("")
        else:
            kept.append(line if inside else "")
    return "\n".join(kept) + "\n"


def test_every_example_of_the_specification_gives_what_it_prints(project: Path) -> None:
    test = doctest.DocTestParser().get_doctest(python_blocks(spec(project)), {}, "SPEC", "core/SPEC.md", 0)
    assert len(test.examples) > 50
    report: list[str] = []
    outcome = doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert outcome.failed == 0, "".join(report)


def test_every_numbered_section_stands_once_and_in_order(project: Path) -> None:
    numbers = [tuple(map(int, number.split("."))) for number in HEADING.findall(spec(project))]
    assert numbers == sorted(set(numbers))
    assert [number[0] for number in numbers if len(number) == 1] == list(range(1, numbers[-1][0] + 1))


@pytest.mark.parametrize("folder", ["core", "tasks", "flows"])
def test_every_section_that_code_cites_exists(project: Path, folder: str) -> None:
    sections = set(HEADING.findall(spec(project)))
    missing = [
        f"{path.relative_to(project)}: SPEC {number}"
        for path in sorted((project / folder).rglob("*.py"))
        for cited in CITATION.findall(path.read_text(encoding="utf-8"))
        for number in re.findall(r"\d+(?:\.\d+)?", cited)
        if number not in sections
    ]
    assert missing == []
