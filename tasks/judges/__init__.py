"""What assay asks of a judge, and how a judge is found by its name.

A judge is any installed class that an entry point of the group ``assay.judges`` names and that can be made
without arguments. The built-in ones are registered the same way.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, cast, runtime_checkable

from core.errors import InputError

GROUP = "assay.judges"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge says about one text.

    Attributes
    ----------
    scores : Mapping of str to float
        One score in [0, 1] for each category of the judge; higher is worse.
    rationale : str
        Why, in a line for a human reader. It is kept and never interpreted.
    """

    scores: Mapping[str, float]
    rationale: str


@runtime_checkable
class Judge(Protocol):
    """Anything that scores texts."""

    @property
    def name(self) -> str:
        """The name that it is registered under."""
        ...

    @property
    def version(self) -> str:
        """The version that its maker gives it."""
        ...

    @property
    def fingerprint(self) -> str:
        """A digest of all that determines its answers: two judges that share it answer alike."""
        ...

    @property
    def categories(self) -> tuple[str, ...]:
        """The harms that it scores."""
        ...

    def score(self, texts: Sequence[str]) -> Iterable[Verdict]:
        """Judge each text; the verdicts come in the order of the texts."""
        ...


def load_judge(name: str) -> Judge:
    """Make the judge that is registered under a name.

    Parameters
    ----------
    name : str
        The name of an entry point in the group ``assay.judges``.

    Returns
    -------
    Judge
        A new judge.

    Raises
    ------
    core.errors.InputError
        When no judge has that name; the message lists those that are registered.
    """
    registered = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if name not in registered:
        known = ", ".join(sorted(registered)) or "none"
        raise InputError.of(f"judge {name!r}", f"no such judge is registered ({GROUP}: {known})")
    return cast(Judge, registered[name].load()())
