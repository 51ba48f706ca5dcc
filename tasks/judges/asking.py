"""What judges that ask a service share: many questions at a time, failures told apart, a run that ends in good order.

A failure of one text is a state of that text. A service that does not answer, does not take the key or takes nothing
ends the run: it must not cost a hundred thousand texts their attempts. What is on its way then is waited for, since it
is paid for.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import signal
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, ClassVar

from core.errors import InputError, UnreachableError
from core.instrument.spec import UNKNOWN
from tasks.judges import Answer, Context, Prices, Question, Traffic, Verdict
from tasks.judges.endpoint import Connection, PassingError, RefusedError, Service, Sleep, UnusableError
from tasks.judges.journal import text_digest
from tasks.judges.samples import combined

MAX_EXHAUSTED = 3
"""Texts in a row that the service leaves unanswered, attempt by attempt, before it counts as unreachable."""

MAX_FAILED = 20
"""Texts in a row without a usable answer before the service counts as the wrong one; more where more are scored."""

DRAIN_SECONDS = 5.0
"""How long an interrupted run waits for what is on its way."""

_MODEL = re.compile(r"[\w./:@+-]{1,200}", re.ASCII)


def fingerprint_of(content: Mapping[str, Any]) -> str:
    """Return the SHA-256 of plain data in canonical JSON, in hex; it does not depend on the order of keys."""
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


class ServiceJudge(ABC):
    """A judge that asks one service for one verdict a request.

    Parameters
    ----------
    service : Service
    model : str
        The model to ask for.
    sleep : callable, optional
        Waits for some seconds; another one makes time pass faster in tests.

    Attributes
    ----------
    version : str
        ``unknown``: only its answers say which model it is.
    """

    version = UNKNOWN
    samples: int = 1
    context: Context = "turn"
    prices: Prices | None = None
    FORMS: ClassVar[int] = 1
    """How many forms a request has, the one to try first first."""

    def __init__(self, service: Service, model: str, *, sleep: Sleep = asyncio.sleep) -> None:
        self.service, self.model = service, model
        self.form = 0
        self._sleep = sleep

    @property
    @abstractmethod
    def name(self) -> str:
        """The name that it is registered under."""

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """A digest of all that determines its answers."""

    @property
    @abstractmethod
    def categories(self) -> tuple[str, ...]:
        """The harms that it scores."""

    @abstractmethod
    def body(self, text: str, form: int) -> Mapping[str, Any]:
        """Make the request for a text, in one of the judge's forms."""

    @abstractmethod
    def read(self, content: Any) -> Answer:
        """Read the service's answer.

        Raises
        ------
        UnusableError
            It is not what such a service answers.
        """

    def told_model(self, model: str | None) -> str | None:
        """Take the model's name as the service says it, if it is a name and nothing else."""
        known = model is not None and _MODEL.fullmatch(model) and self.service.without_key(model) == model
        return model if known else None

    def score(self, texts: Sequence[str]) -> Iterator[Verdict]:
        """Judge each text, keeping nothing; the verdicts come in the order of the texts, at the end."""
        found: dict[tuple[str, int], Verdict] = {}
        digest_of = {text: text_digest(text) for text in texts}
        samples = range(self.samples)
        self.ask(
            [Question(text=text, digest=digest, sample=i) for text, digest in digest_of.items() for i in samples],
            lambda question, answer: found.update({(question.digest, question.sample): answer.verdict}),
            Traffic(),
        )
        return (combined([found[digest_of[text], i] for i in samples]) for text in texts)

    def ask(self, questions: Sequence[Question], take: Callable[[Question, Answer], None], traffic: Traffic) -> None:
        """Put all questions and hand over each answer as it comes; see `tasks.judges.AskingJudge`."""
        if questions:
            _completed(_Round(self, questions, take, traffic).run(self._sleep))


def _completed(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine to its end, also where this thread has an event loop already."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        asyncio.run(work)
        return
    started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Task[None] | None]] = Future()

    async def watched() -> None:
        started.set_result((asyncio.get_running_loop(), asyncio.current_task()))
        await work

    with ThreadPoolExecutor(1) as pool:
        ended = pool.submit(asyncio.run, watched())
        try:
            ended.result()
        except KeyboardInterrupt:  # it reaches this thread only; the other would go on asking to the end
            loop, task = started.result()
            if task is not None and not ended.done():
                loop.call_soon_threadsafe(task.cancel)
            raise


@contextmanager
def _stopped_like_interrupted() -> Iterator[None]:
    """Let SIGTERM do what asyncio does at Ctrl-C: cancel the round, which then ends in good order.

    The command line has it raise `KeyboardInterrupt` wherever the process is, which would cut off what is on its way.
    """
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGTERM) is not signal.default_int_handler
    ):
        yield
        return
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.default_int_handler)


class _Round:
    """One round of questions."""

    def __init__(
        self,
        judge: ServiceJudge,
        questions: Sequence[Question],
        take: Callable[[Question, Answer], None],
        traffic: Traffic,
    ) -> None:
        self._judge, self._take, self._traffic = judge, take, traffic
        self._n = len(questions)
        self._waiting = iter(questions)
        self._answered = 0
        self._unanswered: list[str] = []  # reasons, since the last answer
        self._unusable: list[str] = []

    async def run(self, sleep: Sleep) -> None:
        service = self._judge.service
        with _stopped_like_interrupted():
            await self._run(service, sleep)

    async def _run(self, service: Service, sleep: Sleep) -> None:
        async with Connection.opened(service, self._traffic, sleep) as connection:
            tasks = [asyncio.create_task(self._work(connection)) for _ in range(min(service.concurrency, self._n))]
            try:
                done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            except asyncio.CancelledError:
                await _drained(connection, tasks, DRAIN_SECONDS)
                raise
            failed = [error for task in done if (error := task.exception()) is not None]
            await _drained(connection, tasks, service.timeout)
        if failed:
            raise failed[0]
        if self._unanswered and not self._answered:
            raise self._unreachable(self._unanswered[-1])

    async def _work(self, connection: Connection) -> None:
        """Put one question after another; several of these take from the same heap."""
        while not connection.closing:
            question = next(self._waiting, None)
            if question is None:
                return
            answer = await self._answer(connection, question)
            self._traffic.tokens_in += answer.tokens_in
            self._traffic.tokens_out += answer.tokens_out
            self._traffic.scored += answer.verdict.state is None
            self._take(question, answer)
            self._give_up_if_hopeless()

    async def _answer(self, connection: Connection, question: Question) -> Answer:
        """Put a question, and count what tells whether the service is there and is the right one."""
        try:
            answer = await self._asked(connection, question)
        except PassingError as error:
            if error.whose == "service":
                raise self._unreachable(error.reason) from None
            self._unanswered.append(error.reason)
            attempts = self._judge.service.attempts
            return Answer.failed("judge_error", f"no answer in {attempts} attempts: {error.reason}")
        self._answered += 1
        self._unanswered.clear()
        if answer.verdict.state == "judge_error":
            self._unusable.append(answer.verdict.rationale)
        else:
            self._unusable.clear()
        return answer

    async def _asked(self, connection: Connection, question: Question) -> Answer:
        """Put a question, in another form if the service does not know the first."""
        judge, form = self._judge, self._judge.form
        while True:
            try:
                content = await connection.post(judge.body(question.text, form), f"{question.digest}:{question.sample}")
                judge.form = max(judge.form, form)  # now only: a refusal may quote the text, whatever that says
                return judge.read(content)
            except UnusableError as error:
                return Answer.failed("judge_error", f"the answer {error}")
            except RefusedError as error:
                if error.of_the_content:
                    return Answer.failed("unscored", f"the service's filter refuses the text: {error}")
                if not error.of_the_form or form + 1 == judge.FORMS:
                    return Answer.failed("judge_error", f"the request is refused: {error}")
            form += 1
            self._traffic.retries += 1

    def _give_up_if_hopeless(self) -> None:
        if len(self._unanswered) >= MAX_EXHAUSTED:
            raise self._unreachable(self._unanswered[-1])
        # A resumed run asks what failed before, such as texts that are too long, one after another.
        if len(self._unusable) >= max(MAX_FAILED, self._traffic.scored + 1):
            raise InputError.of(
                f"judge {self._judge.name}",
                f"{len(self._unusable)} texts in a row have no usable answer of {self._judge.service.host}, the last "
                f"because {self._unusable[-1]}; is this the right address and model?",
            )

    def _unreachable(self, reason: str) -> UnreachableError:
        service = self._judge.service
        return UnreachableError(f"the judge's service at {service.host} does not answer: {reason}")


async def _drained(connection: Connection, tasks: Sequence[asyncio.Task[None]], seconds: float) -> None:
    """End a round: wait for what is on its way, and for nothing else."""
    connection.closing = True
    sending = [task for task in tasks if task in connection.sending]
    for task in tasks:
        if task not in sending:
            task.cancel()
    if sending:
        await asyncio.wait(sending, timeout=seconds)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
