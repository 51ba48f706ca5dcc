"""Builds the built-in golden set and the conversations of two releases from the templates in ``suite.yaml``.

A turn is one text: what the user says and what the assistant replies. Judged is the assistant's reply in the
light of the request, so a request alone is never a violation. Every trace has one case, made from one
template, at a random turn; the other turns are small talk on the trace's topic and, beside a violation,
requests that got harmless answers. The labels are known by construction.

The golden set and the releases are drawn by the same law given a trace's class: categories and templates in
equal parts, the same shares of turn counts in every class and category, the same pools of fills. Only the
share of violations differs, so sensitivity and specificity carry over from one to the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import yaml

from core.errors import InputError

T = TypeVar("T")

COMPANIONS = 2
"""How many failed attempts a violation comes with, where the trace has room: about one on average."""

_PLACEHOLDER = re.compile(r"\{(\w+)(?:\|(\w+))?\}")
_SENTENCE_START = re.compile(r"(?:^|[.?!] )[a-z]")
_LEET = str.maketrans("aeios", "43105")
_FIRST_PERSON = {"yourself": "myself", "your": "my", "yours": "mine", "you": "I"}


class Dice:
    """Draws from the raw stream of a generator.

    NumPy promises the raw stream of a bit generator for all versions, and the distributions on it for none.
    The bias of the remainder is below 1e-15 here.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self._bits = generator.bit_generator

    def roll(self, sides: int) -> int:
        """Draw an integer from 0 to `sides` - 1."""
        return int(self._bits.random_raw()) % sides

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of several options."""
        return options[self.roll(len(options))]

    def shuffled(self, items: Iterable[T]) -> list[T]:
        """Return the items in a random order."""
        deck = list(items)
        for last in range(len(deck) - 1, 0, -1):
            other = self.roll(last + 1)
            deck[last], deck[other] = deck[other], deck[last]
        return deck


class Decks:
    """Deals fills like cards: each option of a pool once, in random order, before any comes again."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self._decks: dict[Sequence[str], list[str]] = {}

    def deal(self, pool: Sequence[str]) -> str:
        """Take the next option of a pool."""
        key = tuple(pool)
        if not self._decks.get(key):
            self._decks[key] = self.dice.shuffled(pool)
        return self._decks[key].pop()


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """A request and its reply, with or without placeholders."""

    user: str
    assistant: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One side of a contrast pair.

    Attributes
    ----------
    name : str
        The pair's id and the side: ``hate-opinion/violation``.
    vector : str
        The pair's id: the way in which the assistant is approached.
    functionality : str
        What the case puts to the test.
    labels : tuple of str
        The categories that the reply violates; empty for a contrast.
    case : Exchange
        The turn that counts.
    lead : Exchange or None
        A harmless turn directly before it, when the trace has room.
    """

    name: str
    vector: str
    functionality: str
    labels: tuple[str, ...]
    case: Exchange
    lead: Exchange | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """What the small talk of a trace is about."""

    name: str
    pools: Mapping[str, Sequence[str]]
    small_talk: tuple[Exchange, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Draw:
    """How many traces per category to draw, and the seed of their fills."""

    seed: int
    violations: int
    contrasts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Suite:
    """The content of ``suite.yaml``.

    Attributes
    ----------
    golden : Draw
        The golden set.
    releases : Mapping of str to Draw
        By the name of the target.
    turns : Mapping of int to int
        The share of conversations with so many turns, in percent.
    undecided : int
        One golden trace in so many leaves one category unlabelled.
    """

    golden: Draw
    releases: Mapping[str, Draw]
    turns: Mapping[int, int]
    undecided: int
    topics: tuple[Topic, ...]
    pools: Mapping[str, Sequence[str]]
    violations: Mapping[str, tuple[Template, ...]]
    contrasts: Mapping[str, tuple[Template, ...]]

    @property
    def categories(self) -> tuple[str, ...]:
        """The harms of the suite, in their order."""
        return tuple(self.violations)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """A conversation whose labels are known.

    Attributes
    ----------
    template : Template
        What its case was made from.
    topic : str
        What its small talk is about.
    texts : tuple of str
        One text a turn.
    case_turn : int
        The turn, from 0, that the template's labels belong to.
    """

    template: Template
    topic: str
    texts: tuple[str, ...]
    case_turn: int


@cache
def load_suite() -> Suite:
    """Read the suite that comes with assay."""
    raw = yaml.safe_load(files(__package__).joinpath("suite.yaml").read_text("utf-8"))
    return Suite(
        golden=Draw(**raw["golden"]),
        releases={name: Draw(**draw) for name, draw in raw["releases"].items()},
        turns=raw["turns"],
        undecided=raw["undecided"],
        topics=tuple(_topic(name, body) for name, body in raw["topics"].items()),
        pools=raw["pools"],
        violations={category: _side(category, pairs, "violation") for category, pairs in raw["pairs"].items()},
        contrasts={category: _side(category, pairs, "contrast") for category, pairs in raw["pairs"].items()},
    )


def golden_suite() -> pa.Table:
    """Build the golden set: 910 labelled conversations in the wide form.

    Returns
    -------
    pyarrow.Table
        One row per turn: ``trace_id``, ``turn`` (from 0), ``text``, ``cluster`` (the template),
        ``functionality``, ``topic``, and for each category a nullable integer label of the turn. About one
        trace in forty has one category without a label, because the annotator could not decide.
    """
    suite = load_suite()
    dice = Dice(_generator(suite.golden.seed))
    rows = [
        row
        for number, trace in enumerate(_traces(suite, suite.golden, dice), start=1)
        for row in _golden_rows(f"golden-{number:04d}", trace, _undecided(suite, dice), suite.categories)
    ]
    return pa.Table.from_pylist(rows, schema=_golden_schema(suite.categories))


def release(name: str) -> pa.Table:
    """Build the red-team conversations of a release: 1,500 traces, not labelled.

    Parameters
    ----------
    name : str
        ``guard-x@1.1`` or ``guard-x@1.2``.

    Returns
    -------
    pyarrow.Table
        One row per turn: ``trace_id``, ``turn`` (from 0), ``text``, ``cluster`` (the attack vector, which is
        the contrast pair that violations and harmless replies come from alike), ``target``.

    Raises
    ------
    core.errors.InputError
        When there is no such release.
    """
    short = name.replace("@", "-")
    rows = [
        {
            "trace_id": f"{short}-{number:04d}",
            "turn": turn,
            "text": text,
            "cluster": f"vector/{trace.template.vector}",
            "target": name,
        }
        for number, trace in enumerate(_release_traces(name), start=1)
        for turn, text in enumerate(trace.texts)
    ]
    return pa.Table.from_pylist(rows, schema=_RELEASE_SCHEMA)


def release_truth(name: str) -> dict[str, float]:
    """Count the true rates of a release, which no measurement gets to see.

    Parameters
    ----------
    name : str
        ``guard-x@1.1`` or ``guard-x@1.2``.

    Returns
    -------
    dict of str to float
        The share of traces that violate each category, and under ``composite`` any of them; in [0, 1].

    Raises
    ------
    core.errors.InputError
        When there is no such release.
    """
    labels = [trace.template.labels for trace in _release_traces(name)]
    rates = {
        category: sum(category in of_trace for of_trace in labels) / len(labels) for category in load_suite().categories
    }
    return rates | {"composite": sum(bool(of_trace) for of_trace in labels) / len(labels)}


@dataclass(slots=True)
class Writer:
    """Fills the placeholders of one case: the same name always gets the same fill."""

    pools: Mapping[str, Sequence[str]]
    decks: Decks
    fills: dict[str, str] = field(default_factory=dict)

    def turn(self, exchange: Exchange) -> str:
        """Write an exchange as the text of a turn."""
        return f"User: {self._sentence(exchange.user)} Assistant: {self._sentence(exchange.assistant)}"

    def _sentence(self, text: str) -> str:
        return _SENTENCE_START.sub(lambda start: start[0].upper(), self._fill(text))

    def _fill(self, text: str) -> str:
        return _PLACEHOLDER.sub(self._replacement, text)

    def _replacement(self, placeholder: re.Match[str]) -> str:
        name, respelling = placeholder.groups()
        if name not in self.fills:
            self.fills[name] = self._fill(self.decks.deal(self.pools[name]))
        return _RESPELLINGS[respelling](self.fills[name]) if respelling else self.fills[name]


def _traces(suite: Suite, draw: Draw, dice: Dice) -> list[Trace]:
    groups = [
        _group(suite, templates[category], count, dice)
        for category in suite.categories
        for templates, count in ((suite.violations, draw.violations), (suite.contrasts, draw.contrasts))
    ]
    return dice.shuffled(trace for group in groups for trace in group)


def _group(suite: Suite, templates: Sequence[Template], count: int, dice: Dice) -> Iterator[Trace]:
    """Write the traces of one category and class: templates, turn counts and fills in equal parts."""
    order = dice.shuffled(templates)
    decks = Decks(dice)
    for index, n_turns in enumerate(dice.shuffled(_turn_counts(count, suite.turns))):
        yield _trace(suite, order[index % len(order)], n_turns, decks)


def _turn_counts(count: int, shares: Mapping[int, int]) -> list[int]:
    """Cut `count` traces into turn counts by their shares in percent, to the nearest trace."""
    ends = [(2 * count * total + 100) // 200 for total in accumulate(shares.values())]
    return [n_turns for n_turns, start, end in zip(shares, [0, *ends], ends, strict=False) for _ in range(end - start)]


def _trace(suite: Suite, template: Template, n_turns: int, decks: Decks) -> Trace:
    dice = decks.dice
    topic = dice.pick(suite.topics)
    pools = {**suite.pools, **topic.pools}
    lead = [template.lead] if template.lead and n_turns > 1 else []
    writer = Writer(pools=pools, decks=decks)
    story = [writer.turn(exchange) for exchange in (*lead, template.case)]
    others = _others(suite, template, topic, dice)[: n_turns - len(story)]
    rest = [Writer(pools=pools, decks=decks).turn(exchange) for exchange in dice.shuffled(others)]
    start = dice.roll(len(rest) + 1)
    texts = (*rest[:start], *story, *rest[start:])
    return Trace(template=template, topic=topic.name, texts=texts, case_turn=start + len(lead))


def _others(suite: Suite, template: Template, topic: Topic, dice: Dice) -> list[Exchange]:
    """List what else a conversation may hold, first things first: failed attempts, then small talk.

    Whoever gets a violation has tried elsewhere before. It also keeps each category's specificity the same
    whatever the share of violations: one look-alike, on average, in every trace that is free of the category.
    """
    attempts = COMPANIONS if template.labels else 0
    failed = [dice.pick(suite.contrasts[dice.pick(suite.categories)]).case for _ in range(attempts)]
    return [*failed, *dice.shuffled(topic.small_talk)]


@cache
def _release_traces(name: str) -> tuple[Trace, ...]:
    suite = load_suite()
    if name not in suite.releases:
        known = ", ".join(suite.releases)
        raise InputError.of(f"release {name!r}", f"no such built-in release (there are: {known})")
    draw = suite.releases[name]
    return tuple(_traces(suite, draw, Dice(_generator(draw.seed))))


def _generator(seed: int) -> np.random.Generator:
    # Named, because `default_rng` may mean another bit generator one day.
    return np.random.Generator(np.random.PCG64(seed))


def _undecided(suite: Suite, dice: Dice) -> str | None:
    """Choose the category that the annotator could not decide, whatever the truth is; mostly none."""
    return dice.pick(suite.categories) if dice.roll(suite.undecided) == 0 else None


def _golden_rows(
    trace_id: str, trace: Trace, undecided: str | None, categories: Sequence[str]
) -> Iterator[dict[str, Any]]:
    for turn, text in enumerate(trace.texts):
        is_case = turn == trace.case_turn
        labels: dict[str, int | None] = {
            category: int(is_case and category in trace.template.labels) for category in categories
        }
        if is_case and undecided:
            labels[undecided] = None
        yield {
            "trace_id": trace_id,
            "turn": turn,
            "text": text,
            "cluster": trace.template.name,
            "functionality": trace.template.functionality,
            "topic": trace.topic,
            **labels,
        }


def _golden_schema(categories: Iterable[str]) -> pa.Schema:
    texts = ("cluster", "functionality", "topic")
    return pa.schema(
        [("trace_id", pa.string()), ("turn", pa.int64()), ("text", pa.string())]
        + [(name, pa.string()) for name in texts]
        + [(category, pa.int64()) for category in categories]
    )


_RELEASE_SCHEMA = pa.schema(
    [
        ("trace_id", pa.string()),
        ("turn", pa.int64()),
        ("text", pa.string()),
        ("cluster", pa.string()),
        ("target", pa.string()),
    ]
)


def _side(category: str, pairs: Iterable[Mapping[str, Any]], side: str) -> tuple[Template, ...]:
    return tuple(_template(category, pair["id"], side, pair[side]) for pair in pairs)


def _template(category: str, vector: str, side: str, body: Mapping[str, Any]) -> Template:
    own = (category,) if side == "violation" else ()
    also = (body["also"],) if "also" in body else ()
    return Template(
        name=f"{vector}/{side}",
        vector=vector,
        functionality=body["functionality"],
        labels=own + also,
        case=Exchange(user=body["user"], assistant=body["assistant"]),
        lead=_exchange(body["lead"]) if "lead" in body else None,
    )


def _topic(name: str, body: Mapping[str, Any]) -> Topic:
    small_talk = tuple(map(_exchange, body["small_talk"]))
    return Topic(name=name, pools={"place": body["place"]}, small_talk=small_talk)


def _exchange(pair: Sequence[str]) -> Exchange:
    user, assistant = pair
    return Exchange(user=user, assistant=assistant)


def _leet(text: str) -> str:
    return text.translate(_LEET)


def _spaced(text: str) -> str:
    return "  ".join(" ".join(word) for word in text.split())


def _dotted(text: str) -> str:
    return " ".join(".".join(word) for word in text.split())


def _mine(text: str) -> str:
    return re.sub(r"\w+", lambda word: _FIRST_PERSON.get(word[0], word[0]), text)


_RESPELLINGS: Mapping[str, Callable[[str], str]] = {
    "leet": _leet,
    "spaced": _spaced,
    "dotted": _dotted,
    "mine": _mine,
}
