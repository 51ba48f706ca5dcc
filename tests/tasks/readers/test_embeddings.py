"""Embeddings by a static model: a real one, made here, of a dozen words with vectors that are known."""

from __future__ import annotations

import builtins
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.readers import open_source
from tasks.readers.embeddings import CONFIG, TOKENIZER, VECTORS, EmbeddedSource
from tasks.storage import InputFile

model2vec = pytest.importorskip("model2vec")

WORDS = ["[UNK]", "a", "nurse", "cook", "met", "she", "he", "they", "left", "the", "manager", "kind"]
IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20, deadline=None)


def made(folder: Path) -> Path:
    """Save a model of `WORDS` with random vectors; the unknown word has the vector 0."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.normalizers import Lowercase
    from tokenizers.pre_tokenizers import Whitespace

    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = Lowercase()
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.random.default_rng(7).normal(size=(len(WORDS), 8)).astype(np.float32)
    vectors[0] = 0.0
    model = model2vec.StaticModel(vectors, tokenizer, {"normalize": True}, normalize=True)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("model"))


def reading(path: Path, **options: str) -> InputFile:
    return InputFile(path=path, name=path.name, reader="embeddings", options=options)


def embedded(file: InputFile) -> list[Any]:
    source = open_source(file)
    return [row for batch, _ in source.batches(("embedding",)) for row in batch.column("embedding").to_pylist()]


def refusal(file: InputFile) -> str:
    with pytest.raises(InputError) as error:
        open_source(file)
    return str(error.value)


@pytest.fixture
def outputs(tmp_path: Path) -> Path:
    path = tmp_path / "outputs.csv"
    path.write_text(
        "id,scenario_id,variant,text\n1,s,base,The manager met a cook\n2,s,woman,She left\n3,t,base,zzz\n4,t,man,\n"
    )
    return path


def test_an_embedding_is_the_models_and_what_it_does_not_know_has_none(outputs: Path, model: Path) -> None:
    found = embedded(reading(outputs, model=str(model)))
    expected = model2vec.StaticModel.from_pretrained(model).encode(["The manager met a cook", "She left"])
    assert np.allclose(found[:2], expected)
    assert np.linalg.norm(found[0]) == pytest.approx(1.0)
    assert found[2:] == [None, None], "no known word, and no text"
    assert open_source(reading(outputs, model=str(model))).columns == (
        "id",
        "scenario_id",
        "variant",
        "text",
        "embedding",
    )


def test_columns_come_in_the_order_they_are_asked_for_with_their_lines(outputs: Path, model: Path) -> None:
    ((batch, places),) = EmbeddedSource(reading(outputs, model=str(model))).batches(("embedding", "id"))
    assert batch.schema.names == ["embedding", "id"]
    assert places.tolist() == [2, 3, 4, 5]
    ((batch, _),) = EmbeddedSource(reading(outputs, model=str(model))).batches(("id",))
    assert batch.schema.names == ["id"]


def test_a_table_with_embeddings_keeps_them_and_needs_no_model(tmp_path: Path) -> None:
    path = tmp_path / "o.parquet"
    pq.write_table(pa.table({"id": ["1"], "text": ["she"], "embedding": [[3.0, 4.0]]}), path)
    assert embedded(reading(path)) == [[3.0, 4.0]]


@pytest.mark.parametrize("name", ["minishlab/potion-base-8M", "no-such-folder"])
def test_a_name_is_never_looked_up_but_refused_with_how_to_get_a_model(
    outputs: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object, **__: object) -> None:
        raise AssertionError("a model was asked for over the network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", asked)
    message = refusal(reading(outputs, model=name))
    assert f"outputs.csv: model='{name}' is no folder on this machine" in message
    assert "save_pretrained" in message


def test_a_folder_without_a_models_files_or_with_pickles_in_their_place_is_refused(
    outputs: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "m"
    folder.mkdir()
    for name in ("pytorch_model.bin", "model.pkl"):
        (folder / name).write_bytes(b"\x80\x04cos\nsystem\n.")
    assert f"has no {CONFIG}, {TOKENIZER}, {VECTORS}" in refusal(reading(outputs, model=str(folder)))


def test_what_is_asked_wrongly_is_refused(outputs: Path, tmp_path: Path, model: Path) -> None:
    assert "say which model: embeddings,model=DIR:FILE" in refusal(reading(outputs))
    assert "reader embeddings has no option 'modle'" in refusal(reading(outputs, modle=str(model)))
    bare = tmp_path / "b.csv"
    bare.write_text("id,txt\n1,a\n")
    assert "has no column 'text'" in refusal(reading(bare, model=str(model)))


def test_without_the_extra_it_says_how_to_install_it(
    outputs: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "model2vec":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    assert "pip install 'assay[embeddings]'" in refusal(reading(outputs, model=str(model)))


@pytest.mark.parametrize("vector", [np.nan, np.inf])
def test_vectors_that_are_no_numbers_are_refused(outputs: Path, tmp_path: Path, vector: float) -> None:
    from safetensors.numpy import save_file

    folder = made(tmp_path / "m")
    save_file({"embeddings": np.full((len(WORDS), 2), vector, np.float32)}, folder / VECTORS)
    assert "holds no finite matrix" in refusal(reading(outputs, model=str(folder)))


@pytest.mark.parametrize("config", ["[]", "{", '{"max_length": -1}', '{"max_length": "9"}', "[" * 100_000])
def test_a_configuration_of_something_else_is_refused(outputs: Path, tmp_path: Path, config: str) -> None:
    folder = made(tmp_path / "m")
    (folder / CONFIG).write_text(config)
    assert CONFIG in refusal(reading(outputs, model=str(folder)))


@pytest.mark.parametrize("name", [CONFIG, TOKENIZER, VECTORS])
@given(st.integers(0, 10**6), st.integers(0, 10**6), st.binary(min_size=1, max_size=4))
@IN_FOLDER
def test_a_damaged_model_is_read_or_refused_and_never_breaks(
    outputs: Path, model: Path, tmp_path: Path, name: str, cut: int, at: int, put: bytes
) -> None:
    folder = tmp_path / "m"
    folder.mkdir(exist_ok=True)
    for file in (CONFIG, TOKENIZER, VECTORS):
        content = bytearray((model / file).read_bytes())
        if file == name:
            content = content[: len(content) - cut % len(content)]
            content[at % len(content) : at % len(content) + len(put)] = put
        (folder / file).write_bytes(content)
    try:
        embedded(reading(outputs, model=str(folder)))
    except InputError:
        return
