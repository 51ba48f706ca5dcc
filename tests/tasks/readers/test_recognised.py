import os
from pathlib import Path

import pytest

from tasks.readers import reader_names
from tasks.readers.recognised import reader_of


@pytest.mark.parametrize(
    ("place", "reader"),
    [
        ("inspect/generated/harm_multiturn.eval", "inspect"),
        ("inspect/generated/harm_multiturn.json", "inspect"),
        ("garak/generated/sim.report.jsonl", "garak"),
        ("pyrit/generated/pyrit_memory_1.1.0.db", "pyrit"),
        ("promptfoo/generated/single_turn_repeat2.json", "promptfoo"),
        ("promptfoo/generated/single_turn_repeat2.jsonl", "promptfoo"),
        ("moderation/generated/openai_moderation.jsonl", "openai-moderation"),
        ("moderation/generated/azure_content_safety.jsonl", "azure-content-safety"),
    ],
)
def test_a_tools_file_is_recognised_by_how_it_begins(shared: Path, place: str, reader: str) -> None:
    assert reader_of(shared / "data/interop" / place) == reader
    assert reader in reader_names()


def test_a_table_and_what_cannot_be_read_are_nobodys(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("trace_id,score\na,1\n")
    assert reader_of(tmp_path / "a.csv") is None
    assert reader_of(tmp_path / "absent") is None
    assert reader_of(tmp_path) is None
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it
    assert reader_of(tmp_path / "pipe") is None
