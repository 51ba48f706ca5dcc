"""Which calibration a measurement takes when it is not told one: the champion of its instrument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from core.errors import InputError
from core.instrument.identity import judge_of_scores
from core.instrument.spec import InstrumentSpec, Uncalibrated
from tasks.archive import find_calibration
from tasks.readers import reader_names
from tasks.storage import find_inputs
from tasks.tables import judges_in
from tasks.tracking import tracking_uri as resolved_uri


@dataclass(frozen=True, slots=True, kw_only=True)
class Champion:
    """A champion, or why there is none that can be used.

    Attributes
    ----------
    reference : str or None
        ``models:/NAME/VERSION``.
    why_not : {'no_champion', 'other_judge', 'champion_unknown'} or None
        Why the scores are measured without a calibration.
    detail : str
        The same in more words, for logs; never part of a record, whose id no outage's wording may change.
    golden : tuple of str
        The golden set of the champion that was found, whoever its judge is.
    """

    reference: str | None = None
    why_not: Uncalibrated | None = None
    detail: str = ""
    golden: tuple[str, ...] = ()


def champion_reference(spec: InstrumentSpec, tracking_uri: str | None) -> Champion:
    """Find the champion of an instrument, whoever its judge is; see `champion_of`."""
    if resolved_uri(tracking_uri) is None:
        return Champion(why_not="champion_unknown", detail="tracking is switched off")
    try:
        found = find_calibration(f"models:/{spec.name}@champion", tracking_uri)
    except InputError as error:
        return Champion(why_not="no_champion", detail=str(error))
    return Champion(reference=found.reference.uri)


def champion_of(spec: InstrumentSpec, scores: Sequence[str], tracking_uri: str | None) -> Champion:
    """Find the champion of an instrument and see whether it is of the judge that gave these scores.

    Parameters
    ----------
    spec : InstrumentSpec
    scores : sequence of str
        ``[READER:]PATH`` arguments; their judge is read.
    tracking_uri : str or None
        MLflow's address, where it is not the configured one.

    Raises
    ------
    UnreachableError
        MLflow does not answer.
    """
    if resolved_uri(tracking_uri) is None:
        return Champion(why_not="champion_unknown", detail="tracking is switched off")
    try:
        found = find_calibration(f"models:/{spec.name}@champion", tracking_uri)
    except InputError as error:
        return Champion(why_not="no_champion", detail=str(error))
    golden = tuple(item["uri"] for item in found.document["inputs"] if item["role"] == "golden")
    judges, fingerprints = judges_in(find_inputs(scores, reader_names()))
    try:
        judge_of_scores(
            judges,
            fingerprints,
            found.calibration.judge,
            accept=False,
            where=scores[0],
            expected="the champion's",
        )
    except InputError as error:
        return Champion(why_not="other_judge", detail=str(error), golden=golden)
    return Champion(reference=found.reference.uri, golden=golden)
