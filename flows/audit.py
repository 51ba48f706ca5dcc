"""Flow ``audit``: predictions or generated text by a spec, by hand or from a release pipeline."""

from __future__ import annotations

from prefect import flow

from core.errors import AssayError, InputError
from flows.orchestration import (
    ProgressArtifact,
    listed,
    orchestrated,
    parameters_of_run,
    show_record,
    spec_file,
    tracked,
)
from flows.pipelines.auditing import run_audit
from tasks import steps
from tasks.archive import Written
from tasks.audit_specs import load_audit
from tasks.reporting.markdown import plain_text
from tasks.storage import place_of
from tasks.tables import rows_of


def run_name() -> str:
    """Name a run: ``audit hiring``."""
    given = str(parameters_of_run().get("spec") or "")
    try:
        spec = load_audit(spec_file(given, "audit")).spec
    except AssayError:
        return f"audit {given}"
    return f"audit {getattr(spec, 'target', None) or spec.name}"


@flow(name="audit", flow_run_name=run_name, persist_result=False)
def audit(
    data: str | list[str],
    spec: str,
    baseline: str | list[str] | None = None,
    confidence_level: float | None = None,
    output: str | None = None,
    tracking_uri: str | None = None,
) -> Written:
    """Audit; the record goes to the archive and to MLflow.

    Parameters
    ----------
    data : str or list of str
        ``[READER:]PATH`` or ``s3://`` addresses of the predictions or outputs.
    spec : str
        A YAML file, or the name of one in ``deployments/specs``.
    baseline : str or list of str, optional
        Outputs of an older release, to compare with.
    confidence_level, output, tracking_uri
        As on the command line.
    """
    if not listed(data):
        raise InputError.of("audit", "no data are named, so nothing can be audited")
    progress = ProgressArtifact(orchestrated(steps.FIND, lambda: rows_of(listed(data))), "rows read")
    written = run_audit(
        listed(data),
        spec_file(spec, "audit"),
        baseline=listed(baseline),
        confidence_level=confidence_level,
        output=None if output is None else place_of(output),
        progress=progress,
        run=orchestrated,
        reuse=True,
    )
    progress.finish()
    show_record(written.document, [f"record: {plain_text(written.path)}", *tracked(written, tracking_uri)])
    return written
