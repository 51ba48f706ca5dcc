"""Which label means which group: categories of an axis, and other names for them (SPEC 17.1)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pandas as pd

from core.errors import UndefinedError

Ints = npt.NDArray[np.int64]

UNCLASSIFIED = frozenset({"unknown", "ambiguous", "multiple", "not_applicable", "none", "nan", "null", ""})
"""Labels that say that the labeller did not place the output."""

SEPARATOR = "|"
"""Between several labels of one output; the first that resolves counts."""


def label_name(label: object) -> str:
    """Return a label in the one spelling that is compared: trimmed, lower case, with underscores.

    Examples
    --------
    >>> label_name(" East-Asian ")
    'east_asian'
    """
    if label is None or (isinstance(label, float) and np.isnan(label)):
        return ""
    return str(label).strip().lower().replace(" ", "_").replace("-", "_")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taxonomy:
    """The declared categories of an axis, and other names for them (SPEC 17.1).

    Attributes
    ----------
    axis : str
    categories : tuple of str
        At least one; kept sorted, so that no figure depends on the order in which they were declared.
    aliases : mapping of str to str or None
        Other name -> category, or None for a name that means none of them.

    Raises
    ------
    UndefinedError
        If there is no category, one stands twice or means "unclassified", or an alias leads nowhere.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid"}
    axis: str
    categories: tuple[str, ...]
    aliases: Mapping[str, str | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        names = tuple(map(label_name, self.categories))
        if not names:
            raise UndefinedError("categories", [], f"axis {self.axis!r} needs at least one category")
        if len(set(names)) < len(names):
            raise UndefinedError("categories", list(names), "each category stands once")
        if unplaced := UNCLASSIFIED.intersection(names):
            raise UndefinedError("categories", sorted(unplaced), "these mean that an output was not placed")
        aliases = {label_name(name): target and label_name(target) for name, target in self.aliases.items()}
        if lost := sorted({target for target in aliases.values() if target and target not in names}):
            raise UndefinedError("aliases", lost, f"lead to no category of axis {self.axis!r}")
        object.__setattr__(self, "axis", label_name(self.axis))
        object.__setattr__(self, "categories", tuple(sorted(names)))
        object.__setattr__(self, "aliases", dict(sorted(aliases.items())))

    def canonical(self, label: object) -> str | None:
        """Return the category that a single label means, or None when it means none.

        Examples
        --------
        >>> gender = TAXONOMIES["gender"]
        >>> gender.canonical("Woman"), gender.canonical("non-binary"), gender.canonical("unknown")
        ('female', 'neutral', None)
        """
        name = label_name(label)
        if name in UNCLASSIFIED:
            return None
        return name if name in self.categories else self.aliases.get(name)

    def resolve(self, cell: object) -> str | None:
        """Return the category of a cell, which may hold several labels: the first that resolves counts.

        Examples
        --------
        >>> TAXONOMIES["gender"].resolve("unknown|masculine|female")
        'male'
        """
        return next(filter(None, map(self.canonical, str(cell if cell is not None else "").split(SEPARATOR))), None)

    def codes(self, labels: Any) -> Ints:
        """Return each label's index into `categories`, -1 where it means none of them."""
        found, values = pd.factorize(np.asarray(labels, dtype=object), use_na_sentinel=True)
        index = {name: i for i, name in enumerate(self.categories)}
        resolved = [index.get(self.resolve(value) or "", -1) for value in values]
        return np.array([*resolved, -1], np.int64)[found]

    def shares(self, named: Mapping[str, float], what: str) -> dict[str, float]:
        """Return non-negative numbers by category, from numbers by any of its names; names of one category add up.

        Raises
        ------
        UndefinedError
            If a name means no category of the axis, or a number is negative or not finite.
        """
        gathered: dict[str, float] = {}
        for name, number in named.items():
            category = self.canonical(name)
            if category is None:
                raise UndefinedError(what, name, f"is no category of axis {self.axis!r}: {', '.join(self.categories)}")
            if not (np.isfinite(number) and number >= 0.0):
                raise UndefinedError(f"{what}.{name}", number, "must be a finite number of at least 0")
            gathered[category] = gathered.get(category, 0.0) + float(number)
        return dict(sorted(gathered.items()))


def taxonomy_of(axis: str, names: Iterable[object]) -> Taxonomy:
    """Build a taxonomy of the names themselves, without aliases; those that mean "unclassified" are left out."""
    return Taxonomy(axis=axis, categories=tuple(sorted(set(map(label_name, names)) - UNCLASSIFIED)))


def taxonomy_from(declared: Taxonomy | Sequence[str] | str) -> Taxonomy:
    """Return a taxonomy, given itself, the name of a built-in one, or a list of categories.

    Raises
    ------
    UndefinedError
        If no built-in taxonomy has the name.

    Examples
    --------
    >>> taxonomy_from("gender").categories, taxonomy_from(["b", "a"]).categories
    (('female', 'male', 'neutral'), ('a', 'b'))
    """
    if isinstance(declared, Taxonomy):
        return declared
    if isinstance(declared, str):
        name = AXIS_ALIASES.get(label_name(declared), label_name(declared))
        if name not in TAXONOMIES:
            raise UndefinedError("taxonomy", declared, f"built in are {', '.join(TAXONOMIES)}")
        return TAXONOMIES[name]
    return Taxonomy(axis="groups", categories=tuple(declared))


AXIS_ALIASES: Mapping[str, str] = {
    "gender_signal": "gender",
    "name_origins": "ethnicity",
    "nationality": "ethnicity",
    "race": "ethnicity",
}
"""Other names of the built-in axes."""

TAXONOMIES: Mapping[str, Taxonomy] = {
    "gender": Taxonomy(
        axis="gender",
        categories=("male", "female", "neutral"),
        aliases={
            "boy": "male", "man": "male", "masculine": "male",
            "feminine": "female", "girl": "female", "woman": "female",
            "enby": "neutral", "non_binary": "neutral", "nonbinary": "neutral",
        },
    ),
    "ethnicity": Taxonomy(
        axis="ethnicity",
        categories=(
            "east_asian", "south_asian", "hispanic_latino", "black_african", "middle_eastern", "white_western",
        ),
        aliases={
            "african_american": "black_african", "anglo": "white_western", "arab": "middle_eastern",
            "arabic": "middle_eastern", "chinese": "east_asian", "hispanic": "hispanic_latino",
            "indian": "south_asian", "latino": "hispanic_latino", "latinx": "hispanic_latino",
        },
    ),
    "skin_tone": Taxonomy(
        axis="skin_tone", categories=("light", "medium_light", "medium", "medium_dark", "dark", "very_dark")
    ),
    "age": Taxonomy(
        axis="age",
        categories=("young", "middle_aged", "elderly"),
        aliases={"old": "elderly", "older": "elderly", "senior": "elderly"},
    ),
    "religion": Taxonomy(
        axis="religion",
        categories=("christian", "muslim", "jewish", "hindu", "buddhist", "atheist"),
        aliases={"agnostic": "atheist", "islamic": "muslim", "secular": "atheist"},
    ),
}  # fmt: skip
"""The built-in taxonomies; `tasks/builtin/fairness/taxonomies.yaml` holds the same."""
