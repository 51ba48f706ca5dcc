"""Counterfactual divergence through the command line, on embeddings that a model in a local folder makes."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.builtin.outputs_sample import MODELS, outputs_sample
from tasks.readers.embeddings import model_digest

model2vec = pytest.importorskip("model2vec")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A static model of some words of the sample, with vectors that are drawn."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    texts = outputs_sample(MODELS[0]).column("text").to_pylist()
    words = sorted({word.strip(".,;:!?") for text in texts for word in (text or "").split()})
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(["[UNK]", *words])}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    vectors = np.random.default_rng(5).normal(size=(len(words) + 1, 16)).astype(np.float32)
    folder = tmp_path_factory.mktemp("model")
    model2vec.StaticModel(vectors, tokenizer).save_pretrained(folder)
    return folder


def test_divergence_is_audited_and_verified_on_the_models_embeddings(assay: Any, tmp_path: Path, model: Path) -> None:
    assert assay("init", tmp_path / "starter").code == 0
    table = tmp_path / "o.parquet"
    pq.write_table(outputs_sample(MODELS[0]).drop_columns(["embedding"]), table)
    argument, record = f"embeddings,model={model}:{table}", tmp_path / "audit.json"
    outcome = assay("audit", argument, "--spec", tmp_path / "starter" / "outputs-audit.yaml", "--json", "-o", record)
    assert outcome.code == 0, outcome.err
    found = outcome.record
    cds = found["result"]["cds"]
    assert cds["coverage"] == 1.0
    assert cds["value"] > 0.0
    assert [item["uri"] for item in found["inputs"] if item["role"] == "outputs"] == [argument]
    assert assay("verify", record).code == 0
    assert assay("check", argument).code == 0
    refused = assay("audit", f"embeddings,model=no-such-model:{table}", "--spec",
                    tmp_path / "starter" / "outputs-audit.yaml")  # fmt: skip
    assert (refused.code, "is no folder on this machine" in refused.err) == (2, True)


def test_a_record_says_which_model_and_verifies_from_another_folder_and_with_no_other_model(
    assay: Any, tmp_path: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert assay("init", tmp_path / "starter").code == 0
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.copytree(model, work / "m")
    for name, release in (("new", MODELS[0]), ("old", MODELS[1])):
        pq.write_table(outputs_sample(release).drop_columns(["embedding"]), work / f"{name}.parquet")
    monkeypatch.chdir(work)
    outcome = assay(
        "audit", "embeddings,model=m:new.parquet", "--baseline", "embeddings,model=m:old.parquet",
        "--spec", tmp_path / "starter" / "outputs-audit.yaml", "--json", "-o", work / "audit.json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    (named,) = (item for item in outcome.record["inputs"] if item["role"] == "model")
    assert named["uri"] == str(work / "m")
    assert named["sha256"] == model_digest(work / "m")
    monkeypatch.chdir(elsewhere)
    assert assay("verify", work / "audit.json").code == 0
    config = work / "m" / "config.json"
    config.write_text(config.read_text() + "\n")
    changed = assay("verify", work / "audit.json")
    assert changed.code == 1
    assert "this model has changed since the record was made" in changed.err
