"""What a file's turn scope promises, for every tool's results.

Where not each turn was judged, a unit stands at one turn, whatever was found in it: with two, turns between them would
be a hole, which leaves a unit without a decision, and a violating one at that.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from tasks.readers import open_source
from tasks.readers.verdicts import VerdictSource
from tasks.storage import InputFile

WORSE = {"higher-is": "worse"}


@pytest.mark.parametrize(
    ("reader", "path", "options", "scope"),
    [
        ("promptfoo", "promptfoo/generated/multi_turn.json", {}, "last"),
        ("promptfoo", "promptfoo/generated/single_turn_repeat2.json", {}, "all"),
        ("garak", "garak/generated/sim.report.jsonl", {}, "last"),
        ("inspect", "inspect/generated/harm_multiturn.eval", WORSE, "conversation"),
        ("inspect", "inspect/generated/harm_multiturn.json", {**WORSE, "turns": "turn_scores"}, "all"),
        ("pyrit", "pyrit/generated/pyrit_memory_1.1.0.db", WORSE, "all"),
    ],
)
def test_a_unit_is_at_one_turn_or_each_of_its_turns_is_there(
    reader: str, path: str, options: dict[str, str], scope: str, shared: Path
) -> None:
    file = shared / "data/interop" / path
    source = open_source(InputFile(path=file, name=file.name, reader=reader, options=options))
    assert isinstance(source, VerdictSource)
    turns: dict[tuple[str, int], set[int]] = defaultdict(set)
    for batch, _ in source.batches(("trace_id", "attempt", "turn")):
        for row in batch.to_pylist():
            turns[row["trace_id"], row["attempt"]].add(row["turn"])
    assert source.facts.turn_scope == scope
    for found in turns.values():
        assert found == set(range(max(found) + 1)) if scope == "all" else len(found) == 1
