"""The verdict of a gate as tags on the runs of the records that were gated."""

from __future__ import annotations

from dataclasses import dataclass

from core.records import Document
from tasks.tracking import facts, runs
from tasks.tracking.connection import connected

POLICY = "policy"
_EXPERIMENT = "assay/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Where a verdict was noted.

    Attributes
    ----------
    run_ids : tuple of str
    untracked : tuple of str
        Ids of records that have no run here.
    """

    run_ids: tuple[str, ...]
    untracked: tuple[str, ...]


def tag_gated(document: Document, uri: str) -> Tagged:
    """Note a gate's verdict on the run of every record that it was about; the latest gate's stands.

    Parameters
    ----------
    document : dict
        The gate's record.
    uri : str
        MLflow's address.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    result = document["result"]
    tags = {
        "gate.verdict": result["verdict"],
        "gate.review_required": str(result["review_required"]).lower(),
        "gate.policy": facts.clipped(result["policy"]),
        "gate.record.id": document["id"],
    }
    tagged, untracked = [], []
    with connected(uri) as client:
        for item in document["inputs"]:
            if item["role"] == POLICY:
                continue
            experiment = client.get_experiment_by_name(f"{_EXPERIMENT}{item['role']}")
            run = experiment and runs.find_run(client, experiment.experiment_id, {"record.id": item["sha256"]})
            if not run:
                untracked.append(item["sha256"])
                continue
            for name, value in tags.items():
                client.set_tag(run.info.run_id, name, value)
            tagged.append(run.info.run_id)
    return Tagged(run_ids=tuple(tagged), untracked=tuple(untracked))
