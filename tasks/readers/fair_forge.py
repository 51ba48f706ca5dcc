"""Reader ``fair-forge``: what a guardian of alquimia-fair-forge said about protected attributes, as detections.

A file holds the `BiasMetric` objects that ``Bias.run`` returns, one a session, as JSON (``model_dump``): one a line, a
list of them, or one alone. Release 3 is known by ``attribute_rates``; earlier ones have ``confidence_intervals``,
whose successes are the answers *without* bias. Reference: https://github.com/Alquimia-ai/fair-forge, docs/metrics/bias.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeGuard

import numpy as np

from core.data.facts import Direction
from core.data.problems import quoted
from core.errors import Problem
from tasks.readers.json_items import BadItemError, JsonItems, id_in
from tasks.readers.verdicts import UNKNOWN, Cell, Headline, VerdictSource
from tasks.storage import InputFile

EXPECTED = "a BiasMetric of fair-forge 3 {session_id, assistant_id, attribute_rates, guardian_interactions}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Session:
    """What the guardian said in one session.

    Attributes
    ----------
    session, assistant : str
    turns : mapping of str to mapping of str to (bool or None)
        qa_id -> attribute -> verdict, in the order of the conversation.
    attributes : tuple of str
        All that the object names, also those that were not checked.
    rates : tuple of (str, int, int)
        The tool's own (attribute, biased, interactions).
    repeated : int
        Interactions that stand twice with one verdict.
    """

    session: str
    assistant: str
    turns: Mapping[str, Mapping[str, bool | None]]
    attributes: tuple[str, ...]
    rates: tuple[tuple[str, int, int], ...]
    repeated: int


class FairForgeSource(VerdictSource):
    """Guardian interactions of fair-forge 3: a session is the trace, an interaction a turn.

    The tool's own unit is the interaction; assay's is the conversation, in which one biased answer counts. Turns are
    numbered in the order in which the interactions first stand in the object. ``certainty`` is not used: how it was
    obtained differs by provider. A session that stands twice is refused: the order of its interactions is not known.

    Raises
    ------
    InputError
        See `VerdictSource`; objects of an earlier release, or of other metrics.
    """

    READER = "fair-forge"
    TOOL = "alquimia-fair-forge"
    HIGHER_IS: ClassVar[Direction | None] = "worse"
    CANNOT_TELL = (
        "which guardian and model decided, and the release of fair-forge beyond its being 3",
        "interactions whose check failed: they are not in the file",
    )
    kind = "detections"

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self._items = JsonItems(file)
        self.unit = self._items.unit
        self.tool_version = "3"

    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield the verdicts, turn by turn."""
        found = False
        for place, session in self._sessions(problems):
            found = True
            self.counts["repeated_interactions"] += session.repeated
            self.counts["sessions_without_interactions"] += not session.turns
            verdicts = session.turns or {"": dict.fromkeys(session.attributes)}
            for turn, said in enumerate(verdicts.values()):
                for attribute, biased in said.items():
                    nothing = "unscored" if session.turns else "missing"
                    yield Cell(
                        place=place,
                        trace_id=session.session,
                        turn=turn,
                        category=attribute,
                        score=None if biased is None else float(biased),
                        state=nothing if biased is None else None,
                        judge=f"fair-forge-guardian@{UNKNOWN}",
                        target=f"{session.assistant}@{UNKNOWN}",
                    )
        if not found and not problems:
            raise self.refuse(f"holds no metrics; {EXPECTED} is expected")

    def headlines(self) -> list[Headline]:
        """Set the tool's rates of interactions beside those of conversations."""
        tool: Counter[tuple[str, str]] = Counter()
        ours: Counter[tuple[str, str]] = Counter()
        for _, session in self._sessions([]):
            for attribute, biased, n in session.rates:
                tool.update({(attribute, "biased"): biased, (attribute, "n"): n})
            for attribute in session.attributes:
                said = [turn[attribute] for turn in session.turns.values() if turn.get(attribute) is not None]
                ours.update({(attribute, "n"): bool(said), (attribute, "biased"): any(said)})
        return [
            Headline(
                what=f"biased: {attribute}",
                tool=f"{tool[attribute, 'biased']} of {tool[attribute, 'n']} interactions",
                ours=f"{ours[attribute, 'biased']} of {ours[attribute, 'n']} conversations",
                why="a conversation counts once, however many of its answers are biased",
            )
            for attribute in dict.fromkeys(name for name, _ in (*tool, *ours))
        ]

    def _sessions(self, problems: list[Problem]) -> Iterator[tuple[int, _Session]]:
        """Yield the sessions; those that stand twice are told at the end, for 16 bytes a session."""
        seen, places = array("Q"), array("q")
        for place, item in self._items.read(problems):
            try:
                session = _session_in(item)
            except BadItemError as error:
                self.problem(problems, place, str(error))
                continue
            digest = hashlib.blake2b(session.session.encode(), digest_size=8).digest()
            seen.append(int.from_bytes(digest, "little"))
            places.append(place)
            yield place, session
        digests = np.array(seen, np.uint64)
        order = np.argsort(digests, kind="stable")
        again = order[1:][np.diff(digests[order]) == 0]
        for place in np.sort(np.array(places, np.int64)[again]).tolist():
            what = "its session stands in the file before, so the order of the interactions is not known"
            self.problem(problems, place, f"{what}; keep each run in a file of its own")


def _session_in(item: Any) -> _Session:
    if not isinstance(item, dict):
        raise BadItemError(f"is no object; {EXPECTED} is expected")
    if "guardian_interactions" in item and "attribute_rates" not in item:
        raise BadItemError(f"is of a release before 3 or was cut; {EXPECTED} is expected")
    said, rates = item.get("guardian_interactions"), item.get("attribute_rates")
    session, assistant = id_in(item, "session_id"), id_in(item, "assistant_id")
    if not isinstance(said, dict) or not isinstance(rates, list) or session is None or assistant is None:
        raise BadItemError(f"{EXPECTED} is expected")
    turns: dict[str, dict[str, bool | None]] = {}
    repeated = 0
    for attribute, interactions in said.items():
        if not attribute or not isinstance(interactions, list):
            raise BadItemError(f"guardian_interactions of {quoted(attribute)} is no list under a name")
        for one in interactions:
            qa_id, biased = _verdict(one, attribute)
            turn = turns.setdefault(qa_id, {})
            if turn.get(attribute, biased) is not biased:
                raise BadItemError(f"interaction {quoted(qa_id)} has two verdicts on {quoted(attribute)}")
            repeated += attribute in turn
            turn[attribute] = biased
    return _Session(
        session=session,
        assistant=assistant,
        turns=turns,
        attributes=tuple(said),
        rates=tuple(_rate(one) for one in rates),
        repeated=repeated,
    )


def _verdict(interaction: Any, attribute: str) -> tuple[str, bool | None]:
    qa_id = id_in(interaction, "qa_id") if isinstance(interaction, dict) else None
    if qa_id is None:
        raise BadItemError(f"an interaction about {quoted(attribute)} without a qa_id")
    about, biased = interaction.get("attribute"), interaction.get("is_biased")
    if about != attribute:
        raise BadItemError(f"interaction {quoted(qa_id)} under {quoted(attribute)} is about {quoted(about)}")
    if biased is not None and not isinstance(biased, bool):
        raise BadItemError(f"is_biased {quoted(biased)} of interaction {quoted(qa_id)} is neither true nor false")
    return qa_id, biased


def _rate(rate: Any) -> tuple[str, int, int]:
    kept = rate if isinstance(rate, dict) else {}
    name, biased, n = kept.get("protected_attribute"), kept.get("k_biased"), kept.get("n_samples")
    if not isinstance(name, str) or not _is_count(biased) or not _is_count(n):
        raise BadItemError("attribute_rates holds something else than {protected_attribute, n_samples, k_biased, rate}")
    return name, biased, n


def _is_count(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0
