"""What the Prefect flows share: steps as task runs, artifacts, progress, names of runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx
from prefect import task
from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.cache_policies import NO_CACHE
from prefect.logging import get_run_logger

from core.errors import AssayError, InputError, UnreachableError
from core.instrument.spec import InstrumentSpec
from flows.pipelines.gating import run_gate
from tasks import steps
from tasks.archive import Written
from tasks.events import GATE_FAILED, GATE_INSUFFICIENT, emit, server_configured
from tasks.reporting.audit_markdown import audit_markdown
from tasks.reporting.audit_rows import audit_rows
from tasks.reporting.comparison import comparison_rows, series_rows
from tasks.reporting.gate_report import gate_markdown
from tasks.reporting.markdown import (
    calibration_markdown,
    category_rows,
    comparison_markdown,
    measurement_markdown,
    plain_text,
    plan_markdown,
    simulation_markdown,
)
from tasks.reporting.plan import size_rows
from tasks.reporting.simulation import cell_rows
from tasks.reporting.terminal import printable
from tasks.reporting.watch import watch_markdown, watch_rows
from tasks.specs import load_instrument
from tasks.steps import Step
from tasks.tracking import Tracked, track
from tasks.tracking import tracking_uri as resolved_uri
from tasks.tracking.gates import tag_gated

T = TypeVar("T")

RETRY_DELAYS_SECONDS = [5.0, 30.0]
"""Before the second attempt and the third: a service that is started again answers some 10 to 20 seconds later."""

PROGRESS_EVERY_SECONDS = 5.0
SPECS = Path("deployments") / "specs"
POLICIES = Path("deployments") / "policies"

VERDICT_EVENTS = {"fail": GATE_FAILED, "insufficient_evidence": GATE_INSUFFICIENT}
"""Verdicts that stop a release, and the events that say so."""


def orchestrated(step: Step, work: Callable[[], T]) -> T:
    """Carry out a step as a Prefect task run.

    The work takes no arguments and its result is not stored: tables stay in the process, and Prefect's result store
    is no archive. What can be reused is in assay's own result cache. There are no tags: for each, Prefect asks its
    server for a slot even where nothing is limited, and a run that asks while the server is away has failed.
    """
    as_task: Any = task(  # type: ignore[call-overload]
        work,
        name=step.name,
        task_run_name=step.name,
        retries=step.retries,
        retry_delay_seconds=RETRY_DELAYS_SECONDS,
        retry_condition_fn=_may_pass,
        cache_policy=NO_CACHE,
        persist_result=False,
    )
    result: T = as_task()
    return result


def _may_pass(_task: Any, _run: Any, state: Any) -> bool:
    """Whether trying again may help: a lost connection may come back; a wrong input stays wrong, and so does a bug."""
    try:
        state.result()
    except (UnreachableError, OSError):
        return True
    except Exception:  # noqa: BLE001 (of any other kind: it would fail again)
        return False
    return False


def listed(value: str | Sequence[str] | None) -> list[str]:
    """Read a parameter that is one address or several; an empty one names nothing, not the current folder."""
    given = [value] if value is None or isinstance(value, str) else value
    return [item for item in given if item]


def instrument_named(name: str | None) -> InstrumentSpec:
    """Read an instrument: a YAML file, or the name of one in ``deployments/specs``.

    Raises
    ------
    InputError
        There is no such file.
    """
    if name is None:
        return InstrumentSpec()
    return load_instrument(spec_file(name, "instrument"))


def spec_file(name: str, what: str, folder: Path = SPECS) -> Path:
    """Find a spec: a YAML file, or the name of one in ``deployments/specs``; `what` it is of is for the message."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or path.is_absolute():
        return path
    if path.name != name or not name:
        raise InputError.of(name or what, f"is neither a YAML file nor the name of an {what}")
    return folder / f"{name}.yaml"


def tracked(written: Written, tracking_uri: str | None, **wishes: Any) -> list[str]:
    """Log a record to MLflow and return the lines that say where; see `tracked_run`."""
    return tracked_run(written, tracking_uri, **wishes)[1]


def tracked_run(written: Written, tracking_uri: str | None, **wishes: Any) -> tuple[Tracked | None, list[str]]:
    """Log a record to MLflow and say where; an outage does not fail the run.

    The record is kept all the same, and `assay sync` uploads it later.
    """
    uri = resolved_uri(tracking_uri)
    if uri is None:
        return None, []
    try:
        found = orchestrated(steps.TRACK, lambda: track(written, uri, **wishes))
    except UnreachableError as error:
        get_run_logger().warning("not in MLflow yet: %s", error)
        return None, ["not in MLflow yet: it could not be reached; `assay sync` uploads the record"]
    return found, [f"MLflow run: {found.run_id} at {found.shown_uri}"]


def reference_of(written: Written, run: Tracked | None) -> str:
    """Name a record for another run: by its run in MLflow, else by where it is."""
    return str(written.path) if run is None else f"runs:/{run.run_id}"


def announce(name: str, resource: str, payload: Mapping[str, Any], labels: Mapping[str, str] | None = None) -> None:
    """Tell the server of what was made; the record stands whether or not anybody hears it.

    A temporary server, which nothing is deployed to, is told nothing.
    """
    if not server_configured():
        return
    try:
        emit(name, resource, payload, labels=labels)
    except AssayError as error:
        get_run_logger().warning("%s could not be announced: %s", name, error)


def gated(records: Sequence[str], policy: str, target: str | None, tracking_uri: str | None) -> Written:
    """Hold a policy against records: an artifact, tags in MLflow, and an event where a release is stopped.

    Parameters
    ----------
    records : sequence of str
        References.
    policy : str
        A YAML file, or the name of one in ``deployments/policies``.
    target : str or None
        What is gated, for the event.
    tracking_uri : str or None
    """
    file = spec_file(policy, "policy", POLICIES)
    written = run_gate(records, file, tracking_uri=tracking_uri, run=orchestrated)
    document, result = written.document, written.document["result"]
    told = "\n".join(
        [gate_markdown(document), "", f"Record `{document['id']}`", f"- record: {plain_text(written.path)}"]
    )
    create_markdown_artifact(told, key="gate", description=f"gate {document['id'][:12]}")
    uri = resolved_uri(tracking_uri)
    if uri is not None:
        try:
            orchestrated(steps.TRACK, lambda: tag_gated(document, uri))
        except UnreachableError as error:
            get_run_logger().warning("the verdict is no tag in MLflow: %s", error)
    if result["verdict"] in VERDICT_EVENTS:
        get_run_logger().warning("the gate %s says %s", result["policy"], result["verdict"])
        payload = {
            "verdict": result["verdict"], "policy": result["policy"], "target": target, "record": document["id"],
            "place": str(written.path), "records": list(records),
        }  # fmt: skip
        announce(VERDICT_EVENTS[result["verdict"]], f"assay.gate.{result['policy']}", payload)
    return written


def name_of_instrument(given: str | None) -> str:
    """Return an instrument's name for the name of a run, whether or not it can be read."""
    try:
        return instrument_named(given).name
    except AssayError:
        return str(given)


def show_record(document: Mapping[str, Any], links: Sequence[str]) -> None:
    """Make the artifacts of a record: the headline as Markdown, the categories, cells or gaps as a table."""
    kind = str(document["schema"]).partition("/")[0].removeprefix("assay.")
    if kind == "simulation":
        markdown, key, rows = simulation_markdown(document, links), "simulation-cells", cell_rows(document["result"])
    elif kind == "plan":
        markdown, key, rows = plan_markdown(document, links), "plan-sizes", size_rows(document["result"])
    elif kind in ("comparison", "series"):
        rows = comparison_rows(document["result"]) if kind == "comparison" else series_rows(document["result"])
        rows = [{name: printable(value) for name, value in row.items()} for row in rows]
        markdown, key = comparison_markdown(document, links), f"{kind}-rows"
    elif kind == "watch":
        markdown, key, rows = watch_markdown(document, links), "watch-shifts", watch_rows(document["result"])
    elif kind == "audit":
        markdown, key, rows = audit_markdown(document, links), "audit-figures", audit_rows(document)
    else:
        told = calibration_markdown if kind == "calibration" else measurement_markdown
        markdown, key, rows = told(document, links), f"{kind}-categories", category_rows(document)
    described = f"{kind} {document['id'][:12]}"
    create_markdown_artifact(markdown, key=kind, description=described)
    create_table_artifact(rows, key=key, description=described)


class ProgressArtifact:
    """A progress callback that shows long work as an artifact: after five seconds, and then every five.

    What a server that is away cannot be shown is left out: progress is not worth a run.

    Parameters
    ----------
    total : int or None
        How much there is to do; without it nothing is shown.
    what : str
        What is counted.
    """

    def __init__(self, total: int | None, what: str) -> None:
        self._total, self._what = total, what
        self._began = self._shown = time.monotonic()
        self._done = 0
        self._artifact: Any = None

    def __call__(self, count: int) -> None:
        """Count some more."""
        self._done += count
        if self._done == self._total:
            self.finish()
        elif self._total and time.monotonic() - self._shown >= PROGRESS_EVERY_SECONDS:
            self._shown = time.monotonic()
            self._show(min(100.0, 100.0 * self._done / self._total))

    def _show(self, percent: float) -> None:
        told = f"{self._what}: {self._done:,} of {self._total:,} in {self._shown - self._began:.0f} s"
        with contextlib.suppress(httpx.HTTPError):
            if self._artifact is None:
                self._artifact = create_progress_artifact(percent, key="progress", description=told)
            else:
                update_progress_artifact(self._artifact, percent, description=told)

    def finish(self) -> None:
        """Show that all is done, if anything was shown."""
        if self._artifact is not None:
            self._shown = time.monotonic()
            self._show(100.0)


def parameters_of_run() -> Mapping[str, Any]:
    """Return the parameters of the flow run that this is part of."""
    from prefect.runtime import flow_run

    found: Mapping[str, Any] = flow_run.parameters
    return found
