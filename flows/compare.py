"""Flow ``compare``: what changed between two measured releases, or a line of several."""

from __future__ import annotations

from prefect import flow
from prefect.logging import get_run_logger

from flows.orchestration import gated, listed, orchestrated, parameters_of_run, show_record, tracked
from flows.pipelines.comparison import run_comparison
from tasks.archive import Written
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of


def run_name() -> str:
    """Name a run: ``compare a.json b.json``, ``compare 5 releases``."""
    releases = listed(parameters_of_run().get("releases"))
    return f"compare {' '.join(releases)}" if len(releases) == 2 else f"compare {len(releases)} releases"


@flow(name="compare", flow_run_name=run_name, persist_result=False)
def compare(
    releases: list[str],
    allow_different_calibration: bool = False,
    confidence_level: float | None = None,
    unpaired: bool = False,
    remeasure: bool = False,
    scores: bool = False,
    policy: str | None = None,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written:
    """Compare releases; the record goes to the archive and to MLflow.

    Parameters
    ----------
    releases : list of str
        References to measurements, the oldest first: two make a comparison, more a series.
    allow_different_calibration, confidence_level, unpaired, remeasure, scores, output, tracking_uri
        As on the command line.
    policy : str, optional
        A YAML file, or the name of one in ``deployments/policies``: the gate over the newest release's measurement and
        the comparison.
    """
    found = run_comparison(
        listed(releases),
        allow_different_calibration=allow_different_calibration,
        confidence_level=confidence_level,
        unpaired=unpaired,
        remeasure=remeasure,
        scores=scores,
        output=None if output is None else place_of(output),
        tracking_uri=tracking_uri,
        tell=get_run_logger().warning,
        run=orchestrated,
        reuse=True,
    )
    written = found.written
    links = [f"record: {plain_text(written.path)}"]
    if found.remeasured is not None:
        links.append(f"baseline, measured again: {plain_text(found.remeasured.path)}")
        tracked(found.remeasured, tracking_uri)
    show_record(written.document, [*links, *tracked(written, tracking_uri)])
    if policy:
        newest = listed(releases)[-1]
        gated([newest, str(written.path)], policy, _target(written), tracking_uri)
    return written


def _target(written: Written) -> str | None:
    """Name the newest release."""
    result = written.document["result"]
    newest = result["candidate"] if "candidate" in result else result["points"][-1]
    return None if newest["target"] is None else str(newest["target"])
