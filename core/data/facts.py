"""What a reader declares about another tool's file: it decides what the numbers mean, so records keep it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from core.errors import UndefinedError

Direction = Literal["worse", "better"]

_MEANING = ("reader", "scale", "higher_is", "turn_scope", "map", "left_out", "options")
"""What decides what a score means."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFacts:
    """Where verdicts came from, and how they were read.

    Attributes
    ----------
    reader : str
        Name of the reader.
    tool, tool_version : str
        Who wrote the file; ``unknown`` where the file does not say.
    scale : (float, float)
        Of the scores in the file; they are brought to [0, 1].
    higher_is : {'worse', 'better'}
        Which end of that scale is harm; ``better`` was turned around.
    threshold : float or None
        At which the tool itself calls a score a hit, on the file's scale; None where it does not say. Assay does not
        use it: it flags at the calibration's threshold, and a score that equals the threshold is flagged.
    inclusive : bool
        Whether a score at the tool's own threshold is a hit.
    turn_scope : {'all', 'last', 'conversation'}
        What was judged: each turn, the last turn alone, or a conversation as one.
    map : mapping of str to tuple of str
        Category here -> categories of the tool, of which the highest score was taken.
    left_out : tuple of str
        The tool's categories that the map leaves out.
    options : mapping of str to str
        How the reader was asked to read.
    counts : mapping of str to int
        What was collapsed or passed over by a declared rule, such as ``retries`` and ``duplicates``.
    cannot_tell : tuple of str
        What such a file does not say, in words.
    """

    reader: str
    tool: str
    tool_version: str = "unknown"
    scale: tuple[float, float] = (0.0, 1.0)
    higher_is: Direction
    threshold: float | None = None
    inclusive: bool = True
    turn_scope: Literal["all", "last", "conversation"] = "all"
    map: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    cannot_tell: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        low, high = self.scale
        if not float("-inf") < low < high < float("inf"):
            raise UndefinedError("scale", self.scale, "its first end must lie below its second, both finite")


def merged(facts: Iterable[SourceFacts]) -> tuple[SourceFacts, ...]:
    """Put files that were read alike into one entry, counts added up, in the order of their first appearance.

    Examples
    --------
    >>> one = SourceFacts(reader="garak", tool="garak", higher_is="worse", counts={"retries": 1})
    >>> [entry.counts for entry in merged([one, one])]
    [{'retries': 2}]
    """
    entries: list[SourceFacts] = []
    for item in facts:
        alike = next((i for i, entry in enumerate(entries) if _bare(entry) == _bare(item)), None)
        if alike is None:
            entries.append(item)
            continue
        before = entries[alike].counts
        names = dict.fromkeys((*before, *item.counts))
        counts = {name: before.get(name, 0) + item.counts.get(name, 0) for name in names}
        entries[alike] = replace(entries[alike], counts=counts)
    return tuple(entries)


def reading_notes(golden: Iterable[SourceFacts], production: Iterable[SourceFacts]) -> list[str]:
    """Say where production was read otherwise than the golden scores: error rates hold for one way of reading.

    A set that is a table of assay's own says nothing of how it was read, so nothing can be said.
    """
    return [
        f"read otherwise than the golden scores: {difference}; the calibration's error rates are not shown to hold"
        for difference in reading_differences(golden, production)
    ]


def reading_differences(before: Iterable[SourceFacts], now: Iterable[SourceFacts]) -> list[str]:
    """Say where one set was read otherwise than another; nothing where one of them does not say how it was read.

    Examples
    --------
    >>> one = SourceFacts(reader="garak", tool="garak", higher_is="worse", map={"hate": ("a", "b")})
    >>> reading_differences([one], [replace(one, map={"hate": ("b", "a")}, turn_scope="last")])
    ['turn scope was all there and is last here']
    """
    there, here = _readings(before), _readings(now)
    if not there or not here:
        return []
    return [
        f"{name.replace('_', ' ')} was {', '.join(there[name])} there and is {', '.join(here[name])} here"
        for name in _MEANING
        if there[name] != here[name]
    ]


def contradiction(golden: Iterable[SourceFacts], production: Iterable[SourceFacts]) -> str | None:
    """Say that one reader's scores mean one thing in the golden set and another in production; None if they do not.

    A score turned around, or brought from another scale, is another judge's.
    """
    before = {(item.reader, item.higher_is, item.scale) for item in golden}
    for item in production:
        same = {known for known in before if known[0] == item.reader}
        if same and (item.reader, item.higher_is, item.scale) not in same:
            _, direction, scale = min(same)
            return (
                f"{item.reader} was read with higher_is={direction}, scale={scale[0]:g}..{scale[1]:g} when it was "
                f"calibrated, and with higher_is={item.higher_is}, scale={item.scale[0]:g}..{item.scale[1]:g} here: "
                "one of the two is wrong"
            )
    return None


def _readings(facts: Iterable[SourceFacts]) -> dict[str, list[str]]:
    """Return the distinct values of what decides what a score means, as texts."""
    entries = list(facts)
    return {name: sorted({_text(getattr(item, name)) for item in entries}) for name in _MEANING} if entries else {}


def _text(value: object) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{key}={_text(item)}" for key, item in sorted(value.items())) or "none"
    if not isinstance(value, tuple):
        return str(value)
    names = sorted(value) if all(isinstance(item, str) for item in value) else value  # in what order says nothing
    return " + ".join(map(str, names)) or "none"


def _bare(facts: SourceFacts) -> SourceFacts:
    return replace(facts, counts={})
