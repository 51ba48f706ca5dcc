"""Releases to compare: their measurements, with the calibration, decisions and scores behind each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow.parquet as pq

from core.errors import InputError, MismatchError, RecordError
from core.instrument.measured import Measurement
from core.instrument.pairing import PairCounts, PairTally, golden_bins
from core.records import Document, FileReference, build
from tasks.archive import FoundCalibration, find_record, load_record
from tasks.finder import InputFinder
from tasks.pairs import count_pairs
from tasks.storage import InputFile, Place, file_digest, pinned
from tasks.tables import Progress

DECISIONS = "decisions"


@dataclass(frozen=True, kw_only=True)  # without slots: what is found is kept
class Release:
    """A measurement's record that a reference led to, and the way to what it was made from.

    Attributes
    ----------
    document : dict
    measurement : Measurement
    place : Path or S3Url
    uri : str
        How the record is named.
    finder : InputFinder
    """

    document: Document
    measurement: Measurement
    place: Place
    uri: str
    finder: InputFinder

    @property
    def id(self) -> str:
        """The record's id."""
        return str(self.document["id"])

    @property
    def name(self) -> str:
        """The target, or else what names the record."""
        return self.measurement.target or self.uri

    def reference(self, role: str) -> FileReference:
        """Name the record as an input."""
        return FileReference(role=role, uri=self.uri, sha256=self.id)

    @cached_property
    def calibration(self) -> FoundCalibration:
        """The calibration that the record names, by its id."""
        return self.finder.calibration(self.document["inputs"])

    @cached_property
    def decisions(self) -> InputFile | None:
        """The decisions that were written with it; None where they are not at hand."""
        return self.finder.output(self.document, DECISIONS)

    def scores(self) -> list[InputFile]:
        """Return the scores that were measured.

        Raises
        ------
        InputError
            They are not at hand, or have changed.
        """
        try:
            return self.finder.files(self.document["inputs"], "scores")
        except MismatchError as error:
            raise InputError.of(self.name, f"its scores are not at hand: {error}") from None


def find_release(reference: str, folders: Sequence[Path] = (), tracking_uri: str | None = None) -> Release:
    """Follow a reference to a measurement; see `find_record`.

    Raises
    ------
    RecordError
        It is no measurement with a calibrated judge.
    """
    place, uri = find_record(reference, tracking_uri)
    return read_release(load_record(place), place, InputFinder(place, folders, tracking_uri), uri)


def read_release(document: Document, place: Place, finder: InputFinder, uri: str = "") -> Release:
    """Read a measurement out of its record; see `find_release`."""
    if not document["schema"].startswith("assay.measurement/"):
        raise RecordError(f"{place}: is a record of {document['schema']}; a measurement is needed")
    if document["spec"].get("kind") == "detections":
        raise RecordError(
            f"{place}: is a measurement of detections, which has observed rates alone; releases are compared by their "
            "corrected rates, which take scores and a calibration"
        )
    if document["spec"].get("uncalibrated") is not None:
        raise RecordError(
            f"{place}: was measured without a calibration, so it has no corrected rate to compare; measure its scores "
            "with --calibration REF"
        )
    measurement = build(Measurement, document["result"], where=f"{place}: result")
    return Release(
        document=document, measurement=measurement, place=place, uri=uri or str(pinned(place)), finder=finder
    )


def decisions_reference(file: InputFile, role: str) -> FileReference:
    """Name a decisions file as an input."""
    try:
        rows = int(pq.read_metadata(file.path).num_rows)
    except (OSError, ValueError):
        raise InputError.of(file.name, "is no decisions file: Parquet is expected") from None
    return FileReference(role=role, uri=file.uri, sha256=file_digest(file.path), rows=rows)


def pairs_of(
    baseline: InputFile, candidate: InputFile, calibration: FoundCalibration, progress: Progress
) -> PairCounts:
    """Count the pairs of two releases that were measured with one calibration."""
    known = calibration.calibration
    tally = PairTally(len(known.composite.categories), known.turn_bins, golden_bins(known))
    count_pairs(baseline, candidate, tally, progress=progress)
    return tally.finish()
