"""Published golden sets, as their authors distribute them."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from tasks.readers import open_source
from tasks.storage import InputFile
from tasks.tables import load_golden


def moderation(path: Path, content: str) -> InputFile:
    path.write_text(content)
    return InputFile(path=path, name=path.name, reader="openai-moderation-golden")


def test_the_moderation_set_as_published_is_recognised_and_read(shared: Path) -> None:
    (path,) = (shared / "data/golden/openai_moderation").rglob("samples-1680.jsonl.gz")
    file = InputFile(path=path, name=path.name, reader="openai-moderation-golden")
    source = open_source(file)
    assert getattr(source, "published") is True  # noqa: B009 (not part of the protocol)
    golden, reader, _ = load_golden([file], categories=None, slices=())
    assert reader.n_rows == len(golden.trace_ids) == 1680
    assert golden.categories == ("dangerous-instructions", "hate", "self-harm", "sexual", "violence")
    dangerous = golden.labels[:, golden.categories.index("dangerous-instructions")]
    assert set(dangerous.tolist()) == {-1}


def test_a_missing_key_is_unlabelled_and_never_0(tmp_path: Path) -> None:
    content = '{"prompt": "a", "H": 1}\n\n{"prompt": "b", "H": 0, "V": 1, "SH": null, "S": 0}\n'
    golden, reader, references = load_golden([moderation(tmp_path / "a.jsonl", content)], categories=None, slices=())
    assert golden.trace_ids == ("0", "1")
    assert golden.categories == ("dangerous-instructions", "hate", "self-harm", "sexual", "violence")
    assert golden.labels.tolist() == [[-1, 1, -1, -1, -1], [-1, 0, -1, 0, 1]]
    assert reader.texts()["text"].tolist() == ["a", "b"]
    assert references[0].uri.startswith("openai-moderation-golden:/")


def test_a_moderation_set_with_other_labels_or_keys_is_refused(tmp_path: Path) -> None:
    content = '{"prompt": "a", "H": 1, "V": 0, "SH": 0, "S": 0}\n{"prompt": "b", "H": 3, "V": "yes"}\n'
    with pytest.raises(InputError) as error:
        load_golden([moderation(tmp_path / "a.jsonl", content)], categories=None, slices=())
    assert [str(problem)[:27] for problem in error.value.problems] == [
        "a.jsonl:2: hate 3 is not a ", "a.jsonl:2: violence 'yes' i",
    ]  # fmt: skip
    with pytest.raises(InputError, match="column 'prompt' is missing"):
        open_source(moderation(tmp_path / "b.jsonl", '{"text": "a"}\n'))
