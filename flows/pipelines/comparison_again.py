"""A comparison's record -> what it was compared from, wherever that is by now -> the comparison again."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from core.errors import InputError, MismatchError
from core.instrument.comparison_spec import ComparisonSpec, SeriesSpec
from core.records import Document
from flows.pipelines.comparison import BASELINE, CANDIDATE, RELEASE, Two, derive_comparison, derive_series
from tasks.archive import Derived, FoundCalibration, read_calibration
from tasks.finder import InputFinder
from tasks.releases import DECISIONS, Release, read_release
from tasks.specs import build_spec
from tasks.storage import InputFile, file_digest
from tasks.tables import Progress


def compared_again(
    document: Document, finder: InputFinder, folders: Sequence[Path], progress: Progress, tracking_uri: str | None
) -> Derived:
    """Derive a comparison again from its recorded inputs."""
    again = _Again(document, finder, folders, tracking_uri)
    spec = build_spec(document["spec"], ComparisonSpec, "the record's spec")
    first = again.calibration("calibration")
    second = again.calibration("candidate_calibration") if again.has("candidate_calibration") else first
    releases = again.release(BASELINE), again.release(CANDIDATE)
    decisions = None
    if again.has(f"{BASELINE}_{DECISIONS}"):
        decisions = (
            again.decisions(f"{BASELINE}_{DECISIONS}", releases[0]),
            again.decisions(f"{CANDIDATE}_{DECISIONS}", releases[1]),
        )
    scores = None
    if spec.scores:
        inputs = document["inputs"]
        scores = finder.files(inputs, f"{BASELINE}_scores"), finder.files(inputs, f"{CANDIDATE}_scores")
    two = Two(
        releases=releases,
        calibrations=(first, second),
        decisions=decisions,
        scores=scores,
        maxima=finder.golden_maxima(document["inputs"], second),
    )
    return derive_comparison(two, spec, progress=progress)


def lined_up_again(
    document: Document, finder: InputFinder, folders: Sequence[Path], progress: Progress, tracking_uri: str | None
) -> Derived:
    """Derive a series again from its recorded inputs."""
    again = _Again(document, finder, folders, tracking_uri)
    spec = build_spec(document["spec"], SeriesSpec, "the record's spec")
    releases = [again.release(RELEASE, named.measurement) for named in spec.releases]
    calibrations = {
        str(item["sha256"]): read_calibration(*finder.recorded(item))
        for item in document["inputs"]
        if item["role"] == "calibration"
    }
    decisions = [
        None if named.decisions is None else again.decisions(DECISIONS, release, named.decisions)
        for release, named in zip(releases, spec.releases, strict=True)
    ]
    return derive_series(releases, calibrations, decisions, spec, progress=progress)


class _Again:
    """Finds what a record was compared from."""

    def __init__(
        self, document: Document, finder: InputFinder, folders: Sequence[Path], tracking_uri: str | None
    ) -> None:
        self._inputs, self._finder = document["inputs"], finder
        self._folders, self._tracking_uri = folders, tracking_uri

    def _item(self, role: str, sha256: str | None = None) -> Any:
        for item in self._inputs:
            if item["role"] == role and sha256 in (None, item["sha256"]):
                return item
        raise MismatchError(f"the record names no {role} {'' if sha256 is None else sha256[:12]} among its inputs")

    def has(self, role: str) -> bool:
        return any(item["role"] == role for item in self._inputs)

    def release(self, role: str, record_id: str | None = None) -> Release:
        item = self._item(role, record_id)
        measured, place = self._finder.recorded(item)
        finder = InputFinder(place, self._folders, self._tracking_uri)
        return read_release(measured, place, finder, str(item["uri"]))

    def calibration(self, role: str) -> FoundCalibration:
        return read_calibration(*self._finder.recorded(self._item(role)))

    def decisions(self, role: str, release: Release, sha256: str | None = None) -> InputFile:
        """Return decisions by the record's word, or as the measurement's own output."""
        item = self._item(role, sha256)
        try:
            return self._finder.file(item)
        except (InputError, MismatchError) as error:
            with contextlib.suppress(InputError):
                own = release.decisions
                if own is not None and file_digest(own.path) == item["sha256"]:
                    return own
            raise error from None
