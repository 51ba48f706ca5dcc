"""What assay asks of a judge, and how a judge is found by its name.

A judge is any installed class that an entry point of the group ``assay.judges`` names and that can be made
without arguments. The built-in ones are registered the same way.

There are two kinds. A `Judge` answers by itself, at once and for nothing, such as the lexical one. An `AskingJudge`
asks a service: slowly, for money, and not always with success. Its answers are kept one by one as they come.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, cast, runtime_checkable

from core.errors import InputError, UnknownJudgeError

GROUP = "assay.judges"
FAILURES = ("judge_error", "unscored")
"""States of a verdict without scores: the judge failed, or it would not judge (a refusal)."""

Context = Literal["turn", "conversation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a judge says about one text, or that it says nothing.

    Attributes
    ----------
    scores : Mapping of str to float
        One score in [0, 1] for each category of the judge; higher is worse. Empty where there is a `state`.
    rationale : str
        Why, in a line for a human reader: of the scores, or of their absence. It is kept and never interpreted.
    state : {'judge_error', 'unscored'}, optional
        Why there are no scores. A failure is never a score of 0.

    Raises
    ------
    ValueError
        Another state, or scores beside a state.
    """

    scores: Mapping[str, float]
    rationale: str
    state: str | None = None

    def __post_init__(self) -> None:
        if self.state is not None and (self.state not in FAILURES or self.scores):
            raise ValueError(f"a verdict with state {self.state!r} has no scores, and the state is one of {FAILURES}")


@runtime_checkable
class Judge(Protocol):
    """Anything that scores texts."""

    @property
    def name(self) -> str:
        """The name that it is registered under."""
        ...

    @property
    def version(self) -> str:
        """The version that its maker gives it; ``unknown`` where only its answers tell."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One request to make: a text, and which of its samples.

    Attributes
    ----------
    text, digest : str
        The text, and its SHA-256 in hex.
    sample : int
        From 0.
    """

    text: str
    digest: str
    sample: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came of one question.

    Attributes
    ----------
    verdict : Verdict
    model : str or None
        The model as the service names it in its answer; None where it does not say.
    tokens_in, tokens_out : int
        As the service counts them; 0 where it does not.
    """

    verdict: Verdict
    model: str | None = None
    tokens_in: int = 0
    tokens_out: int = 0

    @classmethod
    def failed(cls, state: str, reason: str, *, tokens_in: int = 0, tokens_out: int = 0) -> Answer:
        """Make the answer that has no scores."""
        verdict = Verdict(scores={}, rationale=reason, state=state)
        return cls(verdict=verdict, tokens_in=tokens_in, tokens_out=tokens_out)


@dataclass(slots=True, kw_only=True)
class Traffic:
    """What a run has asked of a service so far.

    Attributes
    ----------
    scored : int
        Answers with scores, those that were kept from before among them.
    requests, retries : int
        Requests, and how many of them were repeats.
    tokens_in, tokens_out : int
    """

    scored: int = 0
    requests: int = 0
    retries: int = 0
    tokens_in: int = 0
    tokens_out: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What a million tokens cost, in any one currency.

    Attributes
    ----------
    input, output : float
        At least 0.
    """

    __pydantic_config__ = {"extra": "forbid"}  # noqa: RUF012 (read by pydantic)

    input: float
    output: float

    def __post_init__(self) -> None:
        for name, price in (("input", self.input), ("output", self.output)):
            if not 0 <= price < float("inf"):
                raise ValueError(f"price {name} = {price!r}: must be a number from 0")

    def of(self, traffic: Traffic) -> float:
        """Return the cost of a run's tokens.

        Examples
        --------
        >>> Prices(input=0.5, output=2.0).of(Traffic(tokens_in=1_000_000, tokens_out=500_000))
        1.5
        """
        return (traffic.tokens_in * self.input + traffic.tokens_out * self.output) / 1e6


@runtime_checkable
class AskingJudge(Judge, Protocol):
    """A judge that asks a service.

    Its `version` is ``unknown`` before it has answered: the service says which model it is.
    """

    @property
    def model(self) -> str:
        """The model that is asked for."""
        ...

    @property
    def samples(self) -> int:
        """How often each text is judged; the score is the mean."""
        ...

    @property
    def context(self) -> Context:
        """Whether it is given a turn by itself, or the conversation up to it."""
        ...

    @property
    def prices(self) -> Prices | None:
        """What tokens cost, if that is known."""
        ...

    def ask(self, questions: Sequence[Question], take: Callable[[Question, Answer], None], traffic: Traffic) -> None:
        """Put all questions, several at a time, and hand over each answer as it comes, in any order.

        Raises
        ------
        core.errors.InputError
            The service refuses the key or all that it is asked; whatever `take` raises ends the run as well.
        core.errors.UnreachableError
            The service does not answer.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgingReport:
    """How a run of a judge went.

    Attributes
    ----------
    counts : Mapping of str to int
        Rows by state: ``scored``, ``judge_error``, ``unscored``, ``missing``; they add up to all rows.
    traffic : Traffic or None
        What was asked of the service; None for a judge that asks none.
    recalled : int
        Answers that were kept from an earlier run, and not paid for again.
    cost : float or None
        Of this run's tokens; None without prices.
    variances : Mapping of str to float
        Category -> variance of repeated judging: the mean over texts of the variance (n - 1) of their samples. Empty
        for one sample a text.
    """

    counts: Mapping[str, int]
    traffic: Traffic | None = None
    recalled: int = 0
    cost: float | None = None
    variances: Mapping[str, float] = field(default_factory=dict)


def load_judge(name: str, *, rubric: Path | None = None) -> Judge:
    """Make the judge that is registered under a name.

    Parameters
    ----------
    name : str
        The name of an entry point in the group ``assay.judges``.
    rubric : Path, optional
        The rubric to judge by, for a judge that takes one; by default the one that the environment names.

    Returns
    -------
    Judge
        A new judge.

    Raises
    ------
    core.errors.UnknownJudgeError
        No judge has that name; the message lists those that are registered.
    core.errors.InputError
        It takes no rubric, or its settings do not make a judge.
    """
    registered = {entry.name: entry for entry in importlib.metadata.entry_points(group=GROUP)}
    if name not in registered:
        known = ", ".join(sorted(registered)) or "none"
        raise UnknownJudgeError.of(f"judge {name!r}", f"no such judge is registered ({GROUP}: {known})")
    make = registered[name].load()
    if rubric is None:
        return cast(Judge, make())
    if "rubric" not in inspect.signature(make).parameters:
        raise InputError.of(f"judge {name!r}", "takes no rubric")
    return cast(Judge, make(rubric=rubric))
