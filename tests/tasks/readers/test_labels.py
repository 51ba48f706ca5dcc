from __future__ import annotations

import pyarrow as pa
import pytest

from core.fairness.taxonomy import TAXONOMIES
from tasks.readers.labels import GENDER_WORDS, gender_of, is_refusal, label_outputs, role_of, word_vector


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
