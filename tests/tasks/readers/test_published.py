"""Published golden sets, as their authors distribute them.

Headers of the multilingual and the emoji suite are those of the files in rewire-online/multilingual-hatecheck
(hatecheck_cases_final_*.csv) and HannahKirk/Hatemoji (HatemojiCheck.csv); the rows are made here.
"""

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


def hatecheck(path: Path, content: str) -> InputFile:
    path.write_text(content, encoding="utf-8")
    return InputFile(path=path, name=path.name, reader="hatecheck")


MULTILINGUAL = (
    "mhc_case_id,functionality,test_case,label_gold,target_ident,ref_case_id,ref_templ_id,templ_id,case_templ,"
    "gender_male,gender_female,label_annotated,label_annotated_maj,disagreement_in_case,disagreement_in_template\n"
)
EMOJI = (
    "case_id,templ_id,test_group_id,text,target,functionality,set,label_gold,unrealistic_flags,included_in_test_suite\n"
)


def test_the_multilingual_suite_has_languages_as_slices_and_templates_of_a_language_as_clusters(tmp_path: Path) -> None:
    content = (
        f"{MULTILINGUAL}german-1,derog,ein Satz,hateful,women,,,1,ein [IDENT_P],,,\"['hateful']\",hateful,False,False\n"
        "mandarin-9,counter,\u4e00\u53e5,non-hateful,,,,1,,,,['hateful'],hateful,True,False\n"
    )
    golden, reader, _ = load_golden([hatecheck(tmp_path / "a.csv", content)], categories=None, slices=())
    assert golden.trace_ids == ("german-1", "mandarin-9")
    assert golden.labels.tolist() == [[1], [0]], "gold labels, also where the annotators' majority is another"
    assert golden.clusters == ("german-template-1", "mandarin-template-1")
    assert golden.slices == {
        "functionality": ("derog", "counter"), "target_group": ("women", None), "language": ("german", "mandarin"),
    }  # fmt: skip
    assert reader.texts()["text"].tolist() == ["ein Satz", "\u4e00\u53e5"]


@pytest.mark.parametrize("group", ["test_group_id", "test_grp_id"])
def test_the_emoji_suite_has_perturbations_as_slices_and_a_sentences_forms_as_one_cluster(
    tmp_path: Path, group: str
) -> None:
    content = (
        EMOJI.replace("test_group_id", group)
        + "0,24.0,24,\U0001f469 are here,women,identity_swap,orig,1,0,1\n"
        + "1,24.2,24,\U0001f469 belong,women,identity_swap,polarity_perturb,0,0,1\n"
    )
    golden, reader, _ = load_golden([hatecheck(tmp_path / "a.csv", content)], categories=None, slices=())
    assert golden.categories == ("hate",)
    assert golden.labels.tolist() == [[1], [0]]
    assert golden.clusters == ("template-24", "template-24")
    assert golden.slices["perturbation"] == ("orig", "polarity_perturb")
    assert golden.slices["target_group"] == ("women", "women")
    assert reader.texts()["text"].tolist()[1] == "\U0001f469 belong"


def test_a_suite_without_a_known_digest_is_neither_called_published_nor_altered(shared: Path, tmp_path: Path) -> None:
    emoji = open_source(hatecheck(tmp_path / "a.csv", f"{EMOJI}0,1.0,1,t,women,append,orig,1,0,1\n"))
    assert getattr(emoji, "published", False) is None
    (path,) = (shared / "data/golden/hatecheck").rglob("test_suite_cases.csv")
    assert getattr(open_source(InputFile(path=path, name=path.name, reader="hatecheck")), "published", None) is True


def test_a_suite_that_is_not_known_is_refused_with_the_columns_of_those_that_are(tmp_path: Path) -> None:
    build = (
        "entry_id,text,type,target,round.base,round.set,set,split,label_gold,matched_text,matched_id\n1,t,,,,,,,1,,\n"
    )
    with pytest.raises(InputError) as error:
        open_source(hatecheck(tmp_path / "a.csv", build))
    for words in (
        "'entry_id'",
        "Multilingual HateCheck (mhc_case_id, ",
        "HateCheck (case_id, test_case, ",
        "HatemojiCheck",
    ):
        assert words in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (MULTILINGUAL.replace("templ_id,case_templ", "case_templ") + "x\n", "column 'templ_id' is missing"),
        (EMOJI.replace(",test_group_id", "") + "x\n", "column 'test_group_id' is missing"),
        (EMOJI + "0,1.0,1,t,women,append,orig,hateful,0,1\n", "a.csv:2: label_gold is 'hateful'; '1' or '0'"),
        (MULTILINGUAL + "german-1,d,t,1,,,,1,,,,,,,\n", "label_gold is '1'; 'hateful' or 'non-hateful' is expected"),
    ],
)  # fmt: skip
def test_a_suite_with_other_labels_or_without_a_column_is_refused(tmp_path: Path, content: str, message: str) -> None:
    with pytest.raises(InputError) as error:
        open_source(hatecheck(tmp_path / "a.csv", content))
    assert message in str(error.value)
