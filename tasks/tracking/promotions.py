"""Who becomes champion: by the rule, or because a person says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from core.errors import InputError
from core.instrument.calibrated import Calibration, kind_of
from core.instrument.measured import CertificateLink
from core.instrument.promotion import RULE, PromotionDecision, promotion_decision
from core.instrument.spec import UNKNOWN, JudgeIdentity
from core.records import Document, build
from tasks.archive import FoundCalibration, find_calibration, find_record, load_record
from tasks.tracking import registry
from tasks.tracking.connection import connected
from tasks.tracking.outbox import Promotion
from tasks.tracking.registry import CHALLENGER, CHAMPION, Registered
from tasks.tracking.runs import equal_to
from tasks.tracking.uris import tracking_uri

RULE_TAG = "promotion_rule"
"""What the rule said, on the version and on its calibration's run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """What the rule said of a challenger.

    Attributes
    ----------
    registered : Registered
    decision : PromotionDecision
    """

    registered: Registered
    decision: PromotionDecision

    @property
    def told(self) -> str:
        """The decision in words."""
        if self.registered.note:
            return self.registered.note
        if self.decision.promote:
            return f"{self.registered.uri} is the champion: {self.decision.because}"
        return f"{self.registered.uri} stays a challenger, and a person decides: {self.decision.because}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """Versions of an instrument that the rule looks at."""

    version: str
    champion: str | None
    approved: str | None
    is_challenger: bool


def promote_by_rule(certificate: Document, option: str | None = None) -> Decided | None:
    """Make a certified challenger the champion if the rule says so, and note what it said (SPEC 18.4).

    Parameters
    ----------
    certificate : dict
        The record of the certificate.
    option : str, optional
        MLflow's address, as in `tracking_uri`.

    Returns
    -------
    Decided or None
        None for a calibration that is not registered, that is the champion already, or that a newer challenger has
        taken the place of.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    uri = tracking_uri(option)
    if uri is None:
        return None
    certified = certificate["result"]["calibration"]
    name = str(certified["instrument"])
    with connected(uri) as client:
        standing = _standing(client, name, str(certified["id"]))
    if standing is None or not standing.is_challenger or standing.version == standing.champion:
        return None
    link = build(CertificateLink, {**certificate["result"], "id": certificate["id"]}, where="certificate")
    challenger = _found(name, standing.version, uri)
    decision = promotion_decision(
        challenger.calibration,
        link,
        _calibration(name, standing.champion, uri),
        _calibration(name, standing.approved, uri),
        corrected=_is_corrected(challenger),
    )
    with connected(uri) as client:
        return Decided(registered=_carried_out(client, name, standing, decision), decision=decision)


def _standing(client: Any, name: str, calibration: str) -> _Standing | None:
    version = registry.find_version(client, name, calibration)
    if version is None:
        return None
    champion, challenger = (registry.version_of(client, name, alias) for alias in (CHAMPION, CHALLENGER))
    return _Standing(
        version=version,
        champion=None if champion is None else str(champion.version),
        approved=_approved(client.search_model_versions(f"name {equal_to(name)}")),
        is_challenger=challenger is not None and str(challenger.version) == version,
    )


def _approved(versions: Sequence[Any]) -> str | None:
    """Return the version that a person made champion last."""
    by_people = [item for item in versions if item.tags.get("promoted_by", RULE) != RULE]
    newest = max(by_people, key=lambda item: item.tags.get("promoted_at", ""), default=None)
    return None if newest is None else str(newest.version)


def _found(name: str, version: str, uri: str) -> FoundCalibration:
    return find_calibration(f"models:/{name}/{version}", uri)


def _calibration(name: str, version: str | None, uri: str) -> Calibration | None:
    return None if version is None else _found(name, version, uri).calibration


def _is_corrected(found: FoundCalibration) -> bool:
    """Whether optimism was taken off; a detector and declared rates have no thresholds that were chosen here."""
    method = found.document["spec"].get("optimism", {}).get("method")
    return method != "none" or kind_of(found.calibration) == "detections"


def _carried_out(client: Any, name: str, standing: _Standing, decision: PromotionDecision) -> Registered:
    """Promote, unless somebody was faster, and leave the decision where people look at versions."""
    champion = registry.version_of(client, name, CHAMPION)
    version = client.get_model_version(name, standing.version)
    now = None if champion is None else str(champion.version)
    if now != standing.champion:
        note = f"not decided: version {now} became champion meanwhile"
        return Registered(name=name, version=standing.version, note=note)
    said = decision.because if decision.promote else f"a person decides: {decision.because}"
    registry.note_on_version(client, version, {RULE_TAG: said})
    if not decision.promote:
        return Registered(name=name, version=standing.version)
    asked = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return registry.promote(client, name, standing.version, Promotion(by=RULE, because=decision.because, asked=asked))


def promote_version(reference: str, promotion: Promotion, option: str | None = None) -> Registered:
    """Make a registered calibration the champion of its instrument, because a person says so.

    Parameters
    ----------
    reference : str
        As in `find_record`.
    promotion : Promotion
    option : str, optional
        MLflow's address, as in `tracking_uri`.

    Raises
    ------
    InputError
        Tracking is switched off, or the calibration is no version of a registered model.
    UnreachableError
        MLflow cannot be reached.
    """
    uri = tracking_uri(option)
    if uri is None:
        raise InputError.of("promote", "needs MLflow's registry, and tracking is switched off")
    place, _ = find_record(reference, option)
    document = load_record(place)
    if not document["schema"].startswith("assay.calibration/"):
        raise InputError.of(reference, f"is a record of {document['schema']}; a calibration is needed")
    name = str(document["result"]["instrument"])
    with connected(uri) as client:
        version = registry.find_version(client, name, str(document["id"]))
        if version is None:
            raise InputError.of(
                reference, f"is no version of the registered model {name!r}; calibrate with --instrument registers it"
            )
        return registry.promote(client, name, version, promotion)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A challenger that is newer than the champion.

    Attributes
    ----------
    uri : str
        ``models:/NAME/VERSION``.
    judge : JudgeIdentity
    calibration : str
        Its id.
    certified : bool
    """

    uri: str
    judge: JudgeIdentity
    calibration: str
    certified: bool


def waiting_challengers(name: str, champion: str, option: str | None = None) -> list[Waiting]:
    """Return the versions of an instrument that are newer than its champion, oldest first.

    Parameters
    ----------
    name : str
    champion : str
        The champion's id.
    option : str, optional
        MLflow's address, as in `tracking_uri`.

    Raises
    ------
    UnreachableError
        MLflow cannot be reached.
    """
    uri = tracking_uri(option)
    if uri is None or not registry.registrable(name):
        return []
    with connected(uri) as client:
        version = registry.find_version(client, name, champion)
        found = list(client.search_model_versions(f"name {equal_to(name)}"))
    newer = [item for item in found if version is None or int(item.version) > int(version)]
    return [
        Waiting(
            uri=f"models:/{name}/{item.version}",
            judge=_judge(item.tags),
            calibration=item.tags.get("record.id", ""),
            certified="certificate.id" in item.tags,
        )
        for item in sorted(newer, key=lambda item: int(item.version))
    ]


def _judge(tags: Mapping[str, str]) -> JudgeIdentity:
    return replace(JudgeIdentity.of(tags.get("judge", "")), fingerprint=tags.get("judge.fingerprint", UNKNOWN))
