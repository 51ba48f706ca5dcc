"""Reader ``lexical-labels``: a table of outputs with a transparent labeller's columns (SPEC 17.1).

Words are counted, and anyone can check which. It serves demos and first looks. Columns that the table brings
(``group_gender``, ``is_refusal``, ``token_count``, ``embedding``) are kept; a real labeller's belong there.
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from core.data.facts import SourceFacts
from core.data.problems import nearest
from core.errors import InputError
from tasks.readers.table import open_table
from tasks.storage import InputFile

GENDER_WORDS: dict[str, frozenset[str]] = {
    "female": frozenset({"she", "her", "hers", "herself", "woman", "mother", "daughter", "sister"}),
    "male": frozenset({"he", "him", "his", "himself", "man", "father", "son", "brother"}),
    "neutral": frozenset({"they", "them", "their", "theirs", "themself", "themselves"}),
}
"""Words that speak for a group. ``neutral`` counts only where the others are absent: they are also a plural."""

REFUSAL_RULE = "opening-phrases@1"
REFUSAL_PHRASES = ("i cannot", "i can't", "i am not able to", "i'm not able to", "i will not", "i won't", "sorry, i")
"""An output that opens with one of these is a refusal by the rule `REFUSAL_RULE`."""

VECTOR_SIZE = 64

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?")


def words_of(text: str) -> list[str]:
    """Words in lower case.

    Examples
    --------
    >>> words_of("She can't stay.")
    ['she', "can't", 'stay']
    """
    return _WORD.findall(text.lower().replace("’", "'"))


def gender_of(text: str) -> str:
    """Return the gender that a text's words speak for: the more frequent of female and male, else neutral.

    ``ambiguous`` when female and male are equally frequent, ``unknown`` without any such word: neither is a category.

    Examples
    --------
    >>> gender_of("The clerk took her coat."), gender_of("They left."), gender_of("Rain."), gender_of("He met her.")
    ('female', 'neutral', 'unknown', 'ambiguous')
    """
    counts = Counter(words_of(text))
    found = {group: sum(counts[word] for word in words) for group, words in GENDER_WORDS.items()}
    if found["female"] or found["male"]:
        if found["female"] == found["male"]:
            return "ambiguous"
        return "female" if found["female"] > found["male"] else "male"
    return "neutral" if found["neutral"] else "unknown"


def role_of(text: str, roles: Sequence[str]) -> str:
    """Return the first of the roles that a text names, or ''.

    Examples
    --------
    >>> role_of("A nurse and a cook met.", ["cook", "nurse"])
    'nurse'
    """
    return next((word for word in words_of(text) if word in roles), "")


def is_refusal(text: str) -> bool:
    """Tell whether a text opens as a refusal (rule `REFUSAL_RULE`); its length plays no part.

    Examples
    --------
    >>> is_refusal("I cannot help with that."), is_refusal("No."), is_refusal("Happy to help with this request.")
    (True, False, False)
    """
    return text.strip().lower().replace("’", "'").startswith(REFUSAL_PHRASES)


def word_vector(text: str) -> npt.NDArray[np.float64]:
    """Count the words of a text in 64 boxes: a stand-in for an embedding that needs no model.

    Texts of the same words are alike, whatever they mean; a model's embedding belongs in the column ``embedding``.
    """
    boxes = [zlib.crc32(word.encode()) % VECTOR_SIZE for word in words_of(text)]
    return np.bincount(boxes, minlength=VECTOR_SIZE).astype(np.float64)


MADE: dict[str, tuple[Callable[[str], Any], Any]] = {
    "group_gender": (gender_of, pa.string()),
    "is_refusal": (lambda text: int(is_refusal(text)), pa.int64()),
    "token_count": (lambda text: len(words_of(text)), pa.int64()),
    "embedding": (lambda text: word_vector(text).tolist(), pa.list_(pa.float64())),
}
"""What is made of a text: by column, how and of what type. ``token_count`` counts words."""


def label_outputs(table: pa.Table, *, roles: Sequence[str] = ()) -> pa.Table:
    """Add the columns that a table of outputs lacks and its ``text`` can give.

    Adds those of `MADE` and, with roles, ``context``, each only where the table has no such column.
    """
    texts = table.column("text")
    for name in MADE:
        if name not in table.column_names:
            table = table.append_column(name, _made(name, texts))
    if roles and "context" not in table.column_names:
        named = [role_of(text or "", roles) or None for text in texts.to_pylist()]
        table = table.append_column("context", pa.array(named, pa.string()))
    return table


def _made(name: str, texts: Any) -> pa.Array:
    make, kind = MADE[name]
    return pa.array([make(text or "") for text in texts.to_pylist()], kind)


class LabelledSource:
    """A table with the columns that its texts give; the file alone is what is on record.

    Parameters
    ----------
    file : InputFile

    Raises
    ------
    InputError
        The table has no column ``text``.
    """

    kind: str | None = None
    facts: SourceFacts | None = None

    def __init__(self, file: InputFile) -> None:
        self.file = file
        self._table = open_table(file)
        own = self._table.columns
        if "text" not in own:
            raise InputError.of(file.name, f"has no column 'text' to make labels of; {nearest('text', own)}")
        self.unit = self._table.unit
        self.columns = (*own, *(name for name in MADE if name not in own))

    def batches(self, columns: Sequence[str]) -> Iterator[tuple[Any, npt.NDArray[np.int64]]]:
        """Yield batches; labels are made of each batch's texts."""
        own = [name for name in columns if name in self._table.columns]
        if len(own) == len(columns):
            yield from self._table.batches(columns)
            return
        for batch, places in self._table.batches(list(dict.fromkeys([*own, "text"]))):
            texts = batch.column("text")
            arrays = [batch.column(name) if name in own else _made(name, texts) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns)), places


def open_labelled(file: InputFile) -> LabelledSource:
    """Open a table of outputs whose labels are made of its texts."""
    return LabelledSource(file)
