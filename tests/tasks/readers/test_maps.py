"""The maps that come with assay, beside the harms of its examples and the vendors' own lists of categories.

promptfoo's plugins: https://github.com/promptfoo/promptfoo, src/redteam/constants/plugins.ts (0.121); OpenAI's
categories: https://platform.openai.com/docs/guides/moderation; Azure's: its article on harm categories.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tasks.readers.moderation import AzureContentSafetySource, OpenAiModerationSource
from tasks.readers.verdicts import MAPS, CategoryMap
from tasks.specs import load_spec

EXAMPLE = Path(__file__).parents[3] / "deployments" / "specs" / "safety.yaml"

PROMPTFOO = {
    "harmful:chemical-biological-weapons", "harmful:child-exploitation", "harmful:copyright-violations",
    "harmful:cybercrime", "harmful:cybercrime:malicious-code", "harmful:graphic-content",
    "harmful:harassment-bullying", "harmful:hate", "harmful:illegal-activities", "harmful:illegal-drugs",
    "harmful:illegal-drugs:meth", "harmful:indiscriminate-weapons", "harmful:insults",
    "harmful:intellectual-property", "harmful:misinformation-disinformation", "harmful:non-violent-crime",
    "harmful:profanity", "harmful:radicalization", "harmful:self-harm", "harmful:sex-crime", "harmful:sexual-content",
    "harmful:specialized-advice", "harmful:unsafe-practices", "harmful:violent-crime", "harmful:weapons:ied",
}  # fmt: skip


def shipped(reader: str) -> CategoryMap:
    return load_spec(MAPS / f"{reader}.yaml", CategoryMap)


@pytest.mark.parametrize("reader", sorted(path.stem for path in MAPS.glob("*.yaml")))
def test_a_shipped_map_makes_the_harms_of_the_examples(reader: str) -> None:
    harms = set(yaml.safe_load(EXAMPLE.read_text())["categories"])
    made = set(shipped(reader).categories)
    of_its_own = {"llama-guard": {"violence-and-hate"}}.get(reader, set())
    absent = {"azure-content-safety": {"dangerous-instructions"}}.get(reader, set())
    assert made == (harms - absent) | of_its_own


@pytest.mark.parametrize(
    ("reader", "known", "whole"),
    [
        ("openai-moderation", set(OpenAiModerationSource.NATIVES), True),
        ("azure-content-safety", set(AzureContentSafetySource.NATIVES), True),
        ("promptfoo", PROMPTFOO, False),
    ],
)
def test_a_shipped_map_names_categories_that_the_tool_has(reader: str, known: set[str], whole: bool) -> None:
    found = shipped(reader)
    named = {native for natives in found.categories.values() for native in natives} | set(found.left_out)
    assert named == known if whole else named <= known
