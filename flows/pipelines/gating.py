"""records, policy -> gate -> record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from core.errors import RecordError, UndefinedError
from core.gates.evaluation import evaluate
from core.gates.policy import Policy, kind_of
from core.records import Document, FileReference, plain
from tasks import steps
from tasks.archive import Derived, Written, find_record, load_record, sealed, write_record
from tasks.finder import InputFinder
from tasks.specs import load_policy
from tasks.steps import Runner, direct
from tasks.storage import Place, file_digest

SCHEMA = "assay.gate"
POLICY = "policy"
"""The role of the policy's file; a record's is its kind."""

_REFERENCE = ("role", "uri", "sha256", "rows")


def derive_gate(
    policy: Policy, documents: Sequence[Document], inputs: Sequence[FileReference], today: str | None
) -> Derived:
    """Hold a policy against records.

    Parameters
    ----------
    policy : Policy
    documents : sequence of dict
        The records.
    inputs : sequence of FileReference
        The records and the policy's file.
    today : str or None
        By which exceptions are judged; kept only where there are some.
    """
    day = today if policy.exceptions else None
    result = evaluate(policy, documents, today=day)
    return Derived(schema=SCHEMA, spec={"policy": plain(policy), "today": day}, seed=0, inputs=inputs, result=result)


def gated_reference(document: Document, uri: str) -> FileReference:
    """Name a record as an input of a gate."""
    return FileReference(role=kind_of(document["schema"]), uri=uri, sha256=document["id"])


def run_gate(
    records: Sequence[str],
    policy: Path,
    *,
    today: str | None = None,
    output: Place | None = None,
    tracking_uri: str | None = None,
    run: Runner = direct,
) -> Written:
    """Hold a policy against records and write the gate's own record.

    Parameters
    ----------
    records : sequence of str
        References: files, objects, ids, or MLflow's names.
    policy : Path
        Its file.
    today : str, optional
        ISO date by which exceptions are judged; the default is today's, UTC.
    output : Path or S3Url, optional
    tracking_uri : str, optional
        Where references lead.
    run : Runner
        Who carries out the steps.
    """
    read = load_policy(policy)
    found = run(steps.FIND, lambda: _found(records, tracking_uri))
    inputs = [gated_reference(document, uri) for document, uri in found.values()]
    inputs.append(FileReference(role=POLICY, uri=str(policy.resolve()), sha256=file_digest(policy)))
    day = today or datetime.now(UTC).date().isoformat()
    derived = run(steps.GATE, lambda: derive_gate(read, [document for document, _ in found.values()], inputs, day))
    return run(steps.WRITE, lambda: write_record(sealed(derived), output, []))


def _found(records: Sequence[str], tracking_uri: str | None) -> Mapping[str, tuple[Document, str]]:
    """Load records by id: one that is given twice counts once."""
    found = {}
    for reference in records:
        place, uri = find_record(reference, tracking_uri)
        document = load_record(place)
        if document["schema"].startswith(f"{SCHEMA}/"):
            raise RecordError(f"{place}: is a gate's record already; name the records that it is about")
        found[document["id"]] = (document, uri)
    return found


def derive_again(document: Document, finder: InputFinder) -> Derived:
    """Derive a gate's record from the records and the policy's file that it was made of.

    Raises
    ------
    RecordError
        Its inputs or its spec are none of a gate.
    """
    policies = finder.files(document["inputs"], POLICY)
    if len(policies) != 1:
        raise RecordError(f"the record names {len(policies)} policies; a gate has one")
    records = [item for item in document["inputs"] if item["role"] != POLICY]
    inputs = [FileReference(**{key: item.get(key) for key in _REFERENCE}) for item in document["inputs"]]
    today = document["spec"].get("today")
    try:
        return derive_gate(
            load_policy(policies[0].path), finder.records(records), inputs, None if today is None else str(today)
        )
    except UndefinedError as error:
        raise RecordError(f"the record's spec is none of a gate: {error}") from None
