"""Where a figure stands in a record: a metric's path, and all places that it leads to."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import UndefinedError

Path = tuple[str | None, ...]
"""Names from the result down; None stands for each of several."""

MAX_STEPS = 50

_STEP = re.compile(r'"(?P<quoted>[^"]+)"|(?P<plain>[^."]+)')


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """One place that a path leads to.

    Attributes
    ----------
    names : tuple
        The path with every wildcard replaced by the name that it stands for.
    chain : tuple
        What was passed on the way: the result first, the figure last. Empty where the path leads nowhere.
    why : str
        Why it leads nowhere.
    """

    names: Path
    chain: tuple[Any, ...] = ()
    why: str = ""

    @property
    def metric(self) -> str:
        """The path as it is read."""
        return shown(self.names)


def parse_metric(text: str) -> Path:
    """Read a metric's path.

    Parameters
    ----------
    text : str
        Names joined by dots; ``*`` alone is a wildcard; a name in double quotes may hold dots, or be a star.

    Raises
    ------
    UndefinedError
        An empty name, quotes that do not close, or more than 50 names.

    Examples
    --------
    >>> parse_metric('categories.*.prevalence'), parse_metric('groups."U.S.".ratio')
    (('categories', None, 'prevalence'), ('groups', 'U.S.', 'ratio'))
    """
    steps: list[str | None] = []
    at = 0
    while True:
        step = _STEP.match(text, at)
        if step is None:
            raise UndefinedError("metric", text, "names joined by dots, such as composite.prevalence, are expected")
        steps.append(step["quoted"] or (None if step["plain"] == "*" else step["plain"]))
        at = step.end()
        if len(steps) > MAX_STEPS:
            raise UndefinedError("metric", f"{text[:40]}...", f"at most {MAX_STEPS} names are possible")
        if at == len(text):
            return tuple(steps)
        if text[at] != ".":
            raise UndefinedError("metric", text, f"a dot is expected at {text[at:]!r}")
        at += 1


def shown(path: Sequence[str | None]) -> str:
    """Write a path as it is read.

    Examples
    --------
    >>> shown(("groups", "U.S.", None))
    'groups."U.S.".*'
    """
    return ".".join("*" if name is None else f'"{name}"' if re.search(r"[.*]", name) else name for name in path)


def places(result: Any, path: Path) -> Iterator[Place]:
    """Give every place that a path leads to; at least one, which may say that it leads nowhere."""
    yield from _below(result, path, (), (result,))


def _below(node: Any, rest: Path, walked: tuple[str, ...], chain: tuple[Any, ...]) -> Iterator[Place]:
    if not rest:
        yield Place(names=walked, chain=chain)
        return
    inside = _inside(node)
    name, *others = rest
    names = list(inside) if name is None else [name] if name in inside else []
    if not names:
        yield Place(names=(*walked, *rest), why=_nowhere(walked, name, inside))
    for found in names:
        yield from _below(inside[found], tuple(others), (*walked, found), (*chain, inside[found]))


def _inside(node: Any) -> Mapping[str, Any]:
    """Return what a node holds, by name, or by number in a list."""
    if isinstance(node, Mapping):
        return {str(key): node[key] for key in sorted(node, key=str)}
    if isinstance(node, (list, tuple)):
        return {str(i): item for i, item in enumerate(node)}
    return {}


def _nowhere(walked: Sequence[str], name: str | None, inside: Mapping[str, Any]) -> str:
    where = shown(walked) or "the result"
    if name is None:
        return f"{where} holds nothing that * could stand for"
    near = difflib.get_close_matches(name, inside, n=1)
    return f"{where} has no {name!r}" + (f"; is {near[0]!r} meant?" if near else "")
