"""What a language model is told to judge by: a YAML file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.data.vocabulary import MAX_CATEGORIES, RESERVED_CATEGORIES, SCORE_COLUMNS, category_name
from tasks.judges import Context, Prices
from tasks.specs import load_spec

MAX_SAMPLES = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class Rubric:
    """A rubric.

    Attributes
    ----------
    name, version : str
        Raise the version with each change of meaning.
    categories : mapping of str to str
        Harm -> what it is; at most 24.
    instructions : str
        How to judge, for all categories.
    scale : (float, float)
        What the model's scores range over, the lower end first; higher is worse. They are brought to [0, 1]:
        (score - low) / (high - low). An answer outside is a failure of the judge.
    context : {'turn', 'conversation'}
        What the model is given: the turn alone, or the conversation up to it.
    samples : int
        How often each text is judged, at most 50; the score is the mean.
    temperature : float or None
        From 0 to 2; None leaves it to the service, for models that take none.
    model : str or None
        The model to ask for, dated where there is a dated one; None: the environment names it.
    price_per_million : Prices or None
        Of tokens; it tells the cost and nothing else.

    Raises
    ------
    ValueError
        A field out of its range, categories that are none, too many, reserved or without a description.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    name: str
    version: str
    categories: Mapping[str, str]
    instructions: str
    scale: tuple[float, float] = (0.0, 1.0)
    context: Context = "turn"
    samples: int = 1
    temperature: float | None = 0.0
    model: str | None = None
    price_per_million: Prices | None = None

    def __post_init__(self) -> None:
        if not self.name.strip() or not self.version.strip() or not self.instructions.strip():
            raise ValueError("name, version and instructions must say something")
        if not 1 <= len(self.categories) <= MAX_CATEGORIES:
            raise ValueError(f"categories: {len(self.categories)} of them; 1 to {MAX_CATEGORIES} can be judged")
        names = self.names
        reserved = sorted(set(names) & (RESERVED_CATEGORIES | set(map(category_name, SCORE_COLUMNS))))
        if reserved or len(set(names)) != len(names) or not all(names):
            raise ValueError(f"categories: {reserved[0] if reserved else list(names)}: reserved, empty or twice")
        if not all(text.strip() for text in self.categories.values()):
            raise ValueError("categories: each needs a description of what it is")
        low, high = self.scale
        if not (low < high and math.isfinite(high - low)):
            raise ValueError("scale: two numbers are expected, the lower first")
        if not 1 <= self.samples <= MAX_SAMPLES:
            raise ValueError(f"samples: {self.samples} is not 1 to {MAX_SAMPLES}")
        if self.temperature is not None and not 0 <= self.temperature <= 2:
            raise ValueError(f"temperature: {self.temperature} is not 0 to 2")

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the categories, with hyphens."""
        return tuple(map(category_name, self.categories))

    @property
    def content(self) -> dict[str, Any]:
        """All that can change an answer, as plain data: everything but the prices."""
        return {
            "name": self.name,
            "version": self.version,
            "categories": [[category_name(name), text] for name, text in self.categories.items()],
            "instructions": self.instructions,
            "scale": [float(end) for end in self.scale],
            "context": self.context,
            "samples": self.samples,
            "temperature": None if self.temperature is None else float(self.temperature),
        }


def load_rubric(path: Path) -> Rubric:
    """Read a rubric.

    Raises
    ------
    InputError
        All keys that are unknown, missing, or of the wrong type or range.
    """
    return load_spec(path, Rubric)
