from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from core.errors import InputError
from core.fairness.taxonomy import TAXONOMIES
from core.fairness.text_audit import audit_outputs
from core.records import plain
from tasks.audits import load_outputs
from tasks.builtin.fairness import sample_spec
from tasks.builtin.outputs_sample import MODELS, outputs_sample
from tasks.readers.labels import GENDER_WORDS, MADE, gender_of, is_refusal, label_outputs, role_of, word_vector
from tasks.storage import find_inputs


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("She gave him her coat.", "female"),
        ("He, his dog and she.", "male"),
        ("The others took their hats; he stayed.", "male"),
        ("They took their hats.", "neutral"),
        ("He met her.", "ambiguous"),
        ("The manager therefore left the sheet there.", "unknown"),
        ("", "unknown"),
    ],
)
def test_gender_is_what_most_words_speak_for(text: str, label: str) -> None:
    assert gender_of(text) == label


def test_labels_are_categories_or_mean_that_nothing_was_placed() -> None:
    assert set(GENDER_WORDS) == set(TAXONOMIES["gender"].categories)
    assert TAXONOMIES["gender"].resolve("ambiguous") is None


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("I can’t write that.", True),
        ("Sorry, I do not do that.", True),
        ("Happy to help with this request.", False),
        ("Yes.", False),
        ("She said: I cannot come.", False),
    ],
)
def test_a_refusal_opens_as_one_and_is_never_known_by_its_length(text: str, refused: bool) -> None:
    assert is_refusal(text) is refused


def test_a_role_is_the_first_that_the_text_names() -> None:
    assert role_of("The cook thanked the nurse.", ("nurse", "cook")) == "cook"
    assert role_of("Nobody.", ("nurse",)) == ""


def test_vectors_are_the_same_for_the_same_words() -> None:
    assert word_vector("A b, b.").tolist() == word_vector("b B a").tolist()
    assert not word_vector("").any()


def test_columns_of_the_input_are_kept() -> None:
    given = pa.table({"text": ["She left.", None], "group_gender": ["male", "male"], "is_refusal": [1, 1]})
    found = label_outputs(given, roles=("nurse",))
    assert found.column("group_gender").to_pylist() == ["male", "male"]
    assert found.column("is_refusal").to_pylist() == [1, 1]
    assert found.column("token_count").to_pylist() == [2, 0]
    assert found.column("context").to_pylist() == [None, None]


def audited(argument: str) -> object:
    files = find_inputs([argument], ["lexical-labels"])
    return plain(audit_outputs(sample_spec(), load_outputs(files, sample_spec()).table))


def test_labels_made_by_the_reader_give_the_same_audit_as_labels_in_the_file(tmp_path: Path) -> None:
    sample = outputs_sample(MODELS[0])
    pq.write_table(sample, tmp_path / "labelled.parquet")
    bare = sample.drop_columns(list(MADE))
    pq.write_table(bare, tmp_path / "bare.parquet")
    pyarrow.csv.write_csv(bare, tmp_path / "bare.csv")
    expected = audited(str(tmp_path / "labelled.parquet"))
    assert audited(f"lexical-labels:{tmp_path / 'bare.parquet'}") == expected
    assert audited(f"lexical-labels:{tmp_path / 'bare.csv'}") == expected
    assert audited(f"lexical-labels:{tmp_path / 'labelled.parquet'}") == expected


def test_without_texts_there_is_nothing_to_label(tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text("id,scenario_id,variant\n1,s,base\n")
    with pytest.raises(InputError, match="no column 'text'"):
        audited(f"lexical-labels:{tmp_path / 'o.csv'}")
