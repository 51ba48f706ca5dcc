"""Steps: the plain functions that pipelines are composed of, and what an orchestrator should know of each.

A pipeline calls ``run(step, ...)``. `direct` calls the function; the Prefect flows hand in a runner that makes a task
of it. The composition is written once, and a record cannot depend on who ran it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """How a step is shown and retried.

    Attributes
    ----------
    name : str
        As people read it.
    retries : int
        Attempts after the first, for steps with input or output; a wrong input is never retried.
    """

    name: str
    retries: int = 0


class Runner(Protocol):
    """Whatever carries out a step."""

    def __call__(self, step: Step, work: Callable[[], T]) -> T:
        """Carry out `work`, which is `step`."""
        ...


def direct(step: Step, work: Callable[[], T]) -> T:  # noqa: ARG001 (a runner's signature)
    """Carry out a step in this process, and nothing else."""
    return work()


CHOOSE = Step(name="find the calibration", retries=2)
PLACE = Step(name="see where the record goes", retries=2)
RECALL = Step(name="look into the result cache")
FIND = Step(name="find the inputs", retries=2)
READ_GOLDEN = Step(name="read the golden set", retries=2)
READ_SCORES = Step(name="read the golden scores", retries=2)
JUDGE = Step(name="run the judge on the texts", retries=2)
CALIBRATE = Step(name="calibrate")
CERTIFY = Step(name="find the certificate", retries=2)
READ_MAXIMA = Step(name="find and read the golden maxima", retries=2)
SIMULATE = Step(name="simulate")
PLAN = Step(name="plan")
MEASURE = Step(name="read, count and measure production", retries=2)
FIND_RELEASES = Step(name="find the releases", retries=2)
REMEASURE = Step(name="measure the baseline again", retries=2)
PAIR = Step(name="join the decisions", retries=2)
HISTOGRAMS = Step(name="read the scores", retries=2)
COMPARE = Step(name="compare")
AUDIT = Step(name="read and audit", retries=2)
ASK_AGAIN = Step(name="ask the judge about the anchors", retries=2)
FIND_WATCHES = Step(name="find the watches before", retries=2)
WATCH = Step(name="compare the answers")
HOLD = Step(name="compare the answers with a challenger's", retries=2)
DECIDE = Step(name="decide by the promotion rule", retries=2)
START = Step(name="start a calibration", retries=2)
GATE = Step(name="hold the policy against the records")
WRITE = Step(name="write the record", retries=2)
NOTE = Step(name="note the certificate")
TRACK = Step(name="log to MLflow", retries=2)
