"""Steps as Prefect tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from prefect import task
from prefect.cache_policies import NO_CACHE

from core.errors import AssayError
from tasks.steps import Step

T = TypeVar("T")
RETRY_DELAY_SECONDS = 5.0


def orchestrated(step: Step, work: Callable[[], T]) -> T:
    """Carry out a step as a Prefect task run.

    The work takes no arguments and its result is not stored: tables stay in the process, and Prefect's result store
    is no archive. What can be reused is in assay's own result cache.
    """
    as_task: Any = task(  # type: ignore[call-overload]
        work,
        name=step.name,
        task_run_name=step.name,
        tags=list(step.tags),
        retries=step.retries,
        retry_delay_seconds=RETRY_DELAY_SECONDS,
        retry_condition_fn=_is_worth_retrying,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    result: T = as_task()
    return result


def _is_worth_retrying(_task: Any, _run: Any, state: Any) -> bool:
    """Retry what may pass, such as a lost connection; a wrong input stays wrong."""
    try:
        state.result()
    except AssayError as error:
        from core.errors import UnreachableError

        return isinstance(error, UnreachableError)
    except Exception:  # noqa: BLE001 (the kind of failure is what is asked)
        return True
    return False
