"""Labelled traces of production: their flags, and what they say of the golden set (SPEC 13.1-13.3)."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.data.columns import Bools, Ints
from core.data.golden import GoldenSet, composite_truth
from core.data.problems import counted
from core.data.scores import ScoreBatch
from core.errors import InputError
from core.inference.clusters import effective_sample
from core.inference.prediction_powered import LabelledCounts
from core.inference.transport import GoldenRates, Transport, TransportCase, assess_transport
from core.instrument.calibrated import Calibrated, Calibration
from core.instrument.collapse import Units
from core.instrument.measured import LabelsSummary, Measured
from core.instrument.production import Sample, sample_of
from core.instrument.tally import UnitCounts

COMPOSITE = "composite"

FoundLabels = tuple[Ints, Ints, Ints, Ints]
"""Rows of the labels whose traces were seen: row, number of units, flag and missing masks of the last of them."""

MANY_INCOMPLETE = 0.1
"""Share of labelled traces that lack a label of some category above which a reader is told what follows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """Traces of production that have labels.

    Attributes
    ----------
    labels : int64 array of shape (n, n_categories)
        1, 0, or -1 for unlabelled; columns are the composite's categories.
    flags, missing : int64 array of shape (n,)
        Masks of the one unit of each trace.
    summary : LabelsSummary
    """

    labels: Ints
    flags: Ints
    missing: Ints
    summary: LabelsSummary


class LabelledUnits:
    """Picks the units of labelled traces out of production as it streams by; memory goes with the labels.

    Parameters
    ----------
    golden : GoldenSet
        The labels, of all the composite's categories and perhaps others.
    names : sequence of str
        The composite's categories, in bit order.
    """

    def __init__(self, golden: GoldenSet, names: Sequence[str]) -> None:
        self._golden = golden
        self._labels = golden.labels[:, [golden.categories.index(name) for name in names]]
        self._row_of = {trace: row for row, trace in enumerate(golden.trace_ids)}
        self.restart()

    def restart(self) -> None:
        """Forget the units of a pass that has to be made again."""
        n = len(self._row_of)
        self._units = np.zeros(n, np.int64)
        self._flags, self._missing = np.zeros(n, np.int64), np.zeros(n, np.int64)

    def add(self, block: ScoreBatch, units: Units) -> None:
        """Look through the units of a block of whole traces."""
        row_of = np.full(len(block.trace_ids), -1, np.int64)
        for i, trace in enumerate(block.trace_ids):
            if trace in self._row_of:
                row_of[i] = self._row_of[trace]
        rows = row_of[units.trace]
        found = rows >= 0
        np.add.at(self._units, rows[found], 1)
        self._flags[rows[found]] = units.flags[found]
        self._missing[rows[found]] = units.missing[found]

    def emptied(self) -> LabelledUnits:
        """Return one of the same labels that has seen nothing yet, for a part of production."""
        other = copy.copy(self)
        other.restart()
        return other

    def found(self) -> FoundLabels:
        """Return what was seen, for another one to `join`."""
        rows = np.flatnonzero(self._units)
        return rows, self._units[rows], self._flags[rows], self._missing[rows]

    def join(self, found: FoundLabels) -> None:
        """Take in what was seen of another part of production."""
        rows, units, flags, missing = found
        self._units[rows] += units
        self._flags[rows], self._missing[rows] = flags, missing

    def finish(self, *, allow_unmatched: bool, where: str) -> Labelled:
        """Return the labelled traces that production has.

        Parameters
        ----------
        allow_unmatched : bool
            Whether labels of other traces are left out and counted, or refused.
        where : str
            Name of the labels, for messages.

        Raises
        ------
        InputError
            A labelled trace has several attempts, or is not in production; or none is.
        """
        ids = self._golden.trace_ids
        several, absent = np.flatnonzero(self._units > 1), np.flatnonzero(self._units == 0)
        if len(several):
            raise InputError.of(where, (
                f"{counted(len(several), 'labelled trace')} with several attempts in production (first: "
                f"{ids[several[0]]!r}); a label belongs to one conversation: measure with attempts first or last, or "
                "give each attempt a trace_id and a label of its own"
            ))  # fmt: skip
        if len(absent) == len(ids) or (len(absent) and not allow_unmatched):
            shown = ", ".join(repr(ids[i]) for i in absent[:5]) + (", ..." if len(absent) > 5 else "")
            raise InputError.of(where, (
                f"{counted(len(absent), 'labelled trace')} of {len(ids)} not in production: {shown}; labels are of a "
                "random part of the traces that are measured; 'allow_unmatched: true' in the instrument, or "
                "--allow-unmatched, leaves the others out, as long as some are there"
            ))  # fmt: skip
        matched = self._units == 1
        labels = self._labels[matched]
        return Labelled(
            labels=labels,
            flags=self._flags[matched],
            missing=self._missing[matched],
            summary=LabelsSummary(
                n_traces=int(matched.sum()),
                n_unmatched=len(absent),
                n_incomplete=int((labels == -1).any(axis=1).sum()),
                n_duplicates=self._golden.n_duplicates,
                sha256=self._golden.sha256,
            ),
        )


def transport_of_labels(
    labelled: Labelled, counts: UnitCounts, measured: Mapping[str, Measured], confidence_level: float
) -> dict[str, Transport]:
    """Assess every quantity with the labelled traces of production (SPEC 13.2 and 13.3).

    Parameters
    ----------
    labelled : Labelled
    counts : UnitCounts
        Of all production, the labelled traces among it.
    measured : mapping of str to Measured
        The composite's categories in bit order, and ``composite``.
    confidence_level : float
    """
    cases = {}
    for name, position in _positions(measured):
        bit = (1 << counts.n_categories) - 1 if position is None else 1 << position
        truth = _complete_truth(labelled.labels) if position is None else labelled.labels[:, position]
        used = (truth >= 0) & (labelled.missing & bit == 0)
        found = labelled_counts(truth[used], (labelled.flags & bit != 0)[used])
        sample = sample_of(counts, position)
        cases[name] = TransportCase(
            golden=_golden_rates(measured[name]),
            labelled=found,
            n_flagged=sample.n_flagged - found.n_flagged,
            n_rest=sample.n_units - found.n,
            corrected=measured[name].prevalence.value is not None,
            design_effect=_design_effect(sample, counts, confidence_level),
        )
    return assess_transport(cases, confidence_level=confidence_level)


def transport_of_golden_set(
    calibration: Calibration, counts: UnitCounts, measured: Mapping[str, Measured], confidence_level: float
) -> dict[str, Transport]:
    """Assess every quantity with a golden set that is declared to be drawn from production at random (SPEC 13.3).

    Its traces chose the thresholds, so that only their rate of flags can be held against production's.

    Parameters
    ----------
    calibration : Calibration
    counts, measured, confidence_level
        As in `transport_of_labels`.
    """
    cases = {}
    for name, position in _positions(measured):
        judged: Calibrated = calibration.composite if position is None else calibration.categories[name]
        if judged.true_positives is None or judged.true_negatives is None:
            continue
        sample = sample_of(counts, position)
        cases[name] = TransportCase(
            golden=None,
            labelled=LabelledCounts(
                violating_flagged=judged.true_positives,
                violating_passed=judged.n_positive - judged.true_positives,
                clean_flagged=judged.n_negative - judged.true_negatives,
                clean_passed=judged.true_negatives,
            ),
            n_flagged=sample.n_flagged,
            n_rest=sample.n_units,
            corrected=measured[name].prevalence.value is not None,
            design_effect=_design_effect(sample, counts, confidence_level),
        )
    return assess_transport(cases, confidence_level=confidence_level)


def labelled_counts(truth: Ints, flagged: Bools) -> LabelledCounts:
    """Count decisions by truth.

    Examples
    --------
    >>> labelled_counts(np.array([1, 1, 0, 0, 0]), np.array([True, False, True, False, False]))
    LabelledCounts(violating_flagged=1, violating_passed=1, clean_flagged=1, clean_passed=2)
    """
    return LabelledCounts(
        violating_flagged=int(((truth == 1) & flagged).sum()),
        violating_passed=int(((truth == 1) & ~flagged).sum()),
        clean_flagged=int(((truth == 0) & flagged).sum()),
        clean_passed=int(((truth == 0) & ~flagged).sum()),
    )


def labels_notes(transports: Mapping[str, Transport], labelled: Labelled | None) -> list[str]:
    """Say what a reader has to know of labels, whatever rate is read."""
    notes = []
    unlike = [name for name, found in transports.items() if found.flag_rate.finding == "differs"]
    if unlike:
        whose = "the golden set is declared random (golden_design), but its" if labelled is None else "the labelled"
        notes.append(
            f"{whose} traces are flagged at another rate than the rest of production ({', '.join(unlike)}): they are "
            "no random part of it, but enriched, or production has changed"
        )
    if labelled is not None and labelled.summary.n_incomplete > MANY_INCOMPLETE * labelled.summary.n_traces:
        notes.append(
            f"{labelled.summary.n_incomplete} of {labelled.summary.n_traces} labelled traces lack a label of some "
            "category and say nothing of the composite: the others are a random part only if it is chance which labels "
            "are missing"
        )
    return notes


def _complete_truth(labels: Ints) -> Ints:
    """Composite truth of the traces with a label of every category.

    One label of 1 decides a trace and one of 0 does not, so that all decided traces together violate too often.
    """
    return np.where((labels == -1).any(axis=1), -1, composite_truth(labels))


def _positions(measured: Mapping[str, Measured]) -> list[tuple[str, int | None]]:
    categories = [name for name in measured if name != COMPOSITE]
    return [(COMPOSITE, None), *((name, i) for i, name in enumerate(categories))]


def _golden_rates(measured: Measured) -> GoldenRates | None:
    effective = measured.prevalence.effective
    if effective is None or not (effective.n_positive > 0.0 and effective.n_negative > 0.0):
        return None
    return GoldenRates(
        sensitivity=effective.sensitivity, n_positive=effective.n_positive,
        specificity=effective.specificity, n_negative=effective.n_negative,
    )  # fmt: skip


def _design_effect(sample: Sample, counts: UnitCounts, confidence_level: float) -> float:
    if not sample.n_units:
        return 1.0
    return effective_sample(
        sample.clusters, clustered=counts.clustered, confidence_level=confidence_level
    ).design_effect
