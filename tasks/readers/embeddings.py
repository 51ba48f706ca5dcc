"""Reader ``embeddings``: a table of outputs whose column ``embedding`` a static model makes of ``text`` (SPEC 17).

``embeddings,model=DIR:outputs.csv``, with the extra ``assay[embeddings]`` (model2vec). The model is a local folder,
never a name to be looked up: nothing is downloaded. Of the folder, ``config.json``, ``tokenizer.json`` and
``model.safetensors`` are read, formats that hold data and no code.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.data.facts import SourceFacts
from core.data.problems import nearest, quoted
from core.errors import InputError
from core.records import FileReference, digest
from tasks.readers.table import open_table
from tasks.storage import InputFile, file_digest

MODEL = "model"
"""Role of a model among a record's inputs."""

CONFIG, TOKENIZER, VECTORS = "config.json", "tokenizer.json", "model.safetensors"
MAX_CONFIG_BYTES = 1_000_000
MAX_TOKENS = 512
"""Tokens of a text that are embedded, where the model's configuration does not say it."""

_EXTRA = "embeddings are made by the extra assay[embeddings], which is not installed: pip install 'assay[embeddings]'"
_HOW = (
    'Where downloads are allowed, one is made with python -c "from model2vec import StaticModel; '
    "StaticModel.from_pretrained('minishlab/potion-base-8M').save_pretrained('DIR')\"; assay itself downloads nothing"
)


class EmbeddedSource:
    """A table with an embedding of each text; one that has the column keeps it.

    A text without a token that the model knows, and an empty one, have no embedding.

    Attributes
    ----------
    model : FileReference or None
        The model that makes the embeddings; None for a table that has them.

    Parameters
    ----------
    file : InputFile
        Its option ``model`` names the folder.

    Raises
    ------
    InputError
        The table has no column ``text``; another option, or no model; the folder holds none that can be read; the
        extra is not installed.
    """

    OPTIONS: ClassVar[Mapping[str, str]] = {"model": "folder of a static embedding model"}
    kind: str | None = None
    facts: SourceFacts | None = None

    def __init__(self, file: InputFile) -> None:
        self.file = file
        for name in file.options:
            if name not in self.OPTIONS:
                known = tuple(self.OPTIONS)
                raise InputError.of(
                    file.name, f"reader embeddings has no option {quoted(name)}; {nearest(name, known)}"
                )
        self._table = open_table(file)
        own = self._table.columns
        self.unit = self._table.unit
        self.columns = own if "embedding" in own else (*own, "embedding")
        self.model: FileReference | None = None
        if "embedding" in own:
            return
        if "text" not in own:
            raise InputError.of(file.name, f"has no column 'text' to make embeddings of; {nearest('text', own)}")
        if "model" not in file.options:
            raise InputError.of(file.name, f"say which model: embeddings,model=DIR:FILE. {_HOW}")
        _ = self._model  # a model that cannot be read is told now
        folder = Path(file.options["model"])
        self.model = FileReference(role=MODEL, uri=str(folder.resolve()), sha256=model_digest(folder))

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield batches; embeddings are made of each batch's texts."""
        own = [name for name in columns if name in self._table.columns]
        if len(own) == len(columns):
            yield from self._table.batches(columns)
            return
        for batch, places in self._table.batches(list(dict.fromkeys([*own, "text"]))):
            arrays = [batch.column(name) if name in own else self._made(batch.column("text")) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns)), places

    def _made(self, texts: Any) -> pa.Array:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is refused where it is used
            vectors = self._model.encode([text or "" for text in texts.to_pylist()], use_multiprocessing=False)
        rows = np.asarray(vectors, np.float64)
        return pa.array([row if row.any() else None for row in rows], pa.list_(pa.float64()))

    @cached_property
    def _model(self) -> Any:
        folder = Path(self.file.options["model"])
        try:
            return load_model(folder)
        except InputError as error:
            raise InputError.of(self.file.name, error.problems[0].message) from None


def model_digest(folder: Path) -> str:
    """Digest the three files that a model consists of."""
    return digest({name: file_digest(folder / name) for name in (CONFIG, TOKENIZER, VECTORS)})


def load_model(folder: Path) -> Any:
    """Load a model2vec model from a folder that holds `CONFIG`, `TOKENIZER` and `VECTORS`.

    Raises
    ------
    InputError
        The extra is not installed; no folder, or a file of it is missing or is not what its name says.
    """
    absent = [name for name in (CONFIG, TOKENIZER, VECTORS) if not (folder / name).is_file()]
    if absent:
        what = f"has no {', '.join(absent)}" if folder.is_dir() else "is no folder on this machine"
        raise _refused(folder, f"{what}; a folder with a static embedding model is expected. {_HOW}")
    try:
        import safetensors
        from model2vec import StaticModel
        from tokenizers import Tokenizer
    except ImportError:
        raise _refused(folder, _EXTRA) from None
    config = _config(folder)
    try:
        with safetensors.safe_open(folder / VECTORS, framework="numpy") as tensors:
            names = set(tensors.keys())
            vectors, weights, mapping = (
                tensors.get_tensor(name) if name in names else None for name in ("embeddings", "weights", "mapping")
            )
        tokenizer = Tokenizer.from_file(str(folder / TOKENIZER))
        if vectors is None or vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise ValueError(f"{VECTORS} holds no finite matrix named 'embeddings'")
        model = StaticModel(
            vectors,
            tokenizer,
            config,
            normalize=bool(config.get("normalize", False)),
            weights=weights,
            token_mapping=mapping,
            max_length=config.get("max_length", MAX_TOKENS),
        )
        with np.errstate(over="ignore", invalid="ignore"):
            model.encode(["a text"], use_multiprocessing=False)
    except Exception as error:  # noqa: BLE001 (the libraries raise nothing narrower for a damaged file)
        message = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise _refused(folder, f"holds no model that can be read: {message}") from None
    return model


def _config(folder: Path) -> dict[str, Any]:
    try:
        with (folder / CONFIG).open(encoding="utf-8") as file:
            config = json.loads(file.read(MAX_CONFIG_BYTES))
    except (OSError, ValueError, RecursionError) as error:
        raise _refused(folder, f"{CONFIG} cannot be read: {str(error).splitlines()[0][:200]}") from None
    length = config.get("max_length", MAX_TOKENS) if isinstance(config, dict) else 0
    if not isinstance(config, dict) or not (length is None or (type(length) is int and length > 0)):
        raise _refused(folder, f"{CONFIG} is no configuration of a static embedding model")
    return config


def _refused(folder: Path, message: str) -> InputError:
    return InputError.of("", f"model={quoted(str(folder))} {message}")
