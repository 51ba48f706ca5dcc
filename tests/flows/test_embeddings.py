"""Counterfactual divergence through the command line, on embeddings that a model in a local folder makes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from tasks.builtin.outputs_sample import MODELS, outputs_sample

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
    assert found["inputs"][0]["uri"] == argument
    assert assay("verify", record).code == 0
    assert assay("check", argument).code == 0
    refused = assay("audit", f"embeddings,model=no-such-model:{table}", "--spec",
                    tmp_path / "starter" / "outputs-audit.yaml")  # fmt: skip
    assert (refused.code, "is no folder on this machine" in refused.err) == (2, True)
