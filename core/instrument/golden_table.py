"""Labels beside scores: the golden set's traces with the judge's scores on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from core.data.columns import Bools, Floats, Ints
from core.data.golden import GoldenSet, Votes
from core.data.problems import ProblemLog
from core.data.scores import ScoreBatch
from core.errors import InputError
from core.instrument.collapse import unit_maxima


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenScores:
    """The judge's scores on golden traces, collapsed over turns, in the order of the trace ids.

    Attributes
    ----------
    trace_ids : tuple of str
    n_turns : int64 array of shape (n_traces,)
    maxima : float64 array of shape (n_traces, n_categories)
        In the order of the golden set's categories; meaningless where missing.
    missing : bool array of shape (n_traces, n_categories)
    clusters : tuple of (str or None) or None
    n_rows : int
    """

    trace_ids: tuple[str, ...]
    n_turns: Ints
    maxima: Floats
    missing: Bools
    clusters: tuple[str | None, ...] | None = None
    n_rows: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldenTable:
    """Labels and scores of the traces that have both; what calibration works on and `golden_maxima` stores."""

    trace_ids: tuple[str, ...]
    categories: tuple[str, ...]
    labels: Ints
    maxima: Floats
    missing: Bools
    n_turns: Ints
    cluster_names: tuple[str, ...] | None
    clusters: Ints
    clustered: bool
    slices: Mapping[str, tuple[str | None, ...]]
    n_unmatched: int
    votes: Votes | None = None


def golden_scores(
    block: ScoreBatch, categories: Sequence[str], *, last_turn_only: bool, log: ProblemLog
) -> GoldenScores:
    """Collapse golden scores over turns; several attempts of a trace are a problem."""
    units, maxima = unit_maxima(block, len(categories), last_turn_only=last_turn_only, log=log)
    repeated = np.flatnonzero(units.trace[1:] == units.trace[:-1])
    if len(repeated):
        traces = np.unique(units.trace[repeated])
        name = block.trace_ids[int(traces[0])]
        log.at(int(block.place[block.starts[traces[0]]]), (
            f"{len(traces)} golden trace(s) have several attempts (first: {name!r}); a label belongs to one "
            "conversation: keep one attempt a trace, or give each attempt a trace_id and a label of its own"
        ))  # fmt: skip
    log.stop_if_any()
    missing = (units.missing[:, None] >> np.arange(len(categories))) & 1 == 1
    return GoldenScores(
        trace_ids=tuple(block.trace_ids),
        n_turns=units.n_turns,
        maxima=maxima,
        missing=missing | ~np.isfinite(maxima),
        clusters=None if block.clusters is None else tuple(block.clusters),
        n_rows=block.n_rows,
    )


def join(golden: GoldenSet, scores: GoldenScores, *, allow_unmatched: bool, where: str = "golden set") -> GoldenTable:
    """Join labels and scores by trace id.

    Raises
    ------
    InputError
        Ids that stand in one table only (unless allowed), no common id, or traces whose clusters disagree.
    """
    row_of = {trace: i for i, trace in enumerate(scores.trace_ids)}
    both = [i for i, trace in enumerate(golden.trace_ids) if trace in row_of]
    labelled_only = [trace for trace in golden.trace_ids if trace not in row_of]
    known = set(golden.trace_ids)
    scored_only = [trace for trace in scores.trace_ids if trace not in known]
    _check_joined(both, labelled_only, scored_only, allow_unmatched, where)
    rows = np.array([row_of[golden.trace_ids[i]] for i in both], np.int64)
    ids = tuple(golden.trace_ids[i] for i in both)
    names = _clusters(golden, scores, both, rows, where)
    codes = cluster_codes(names or [None] * len(ids))
    return GoldenTable(
        trace_ids=ids,
        categories=golden.categories,
        labels=golden.labels[both],
        maxima=scores.maxima[rows],
        missing=scores.missing[rows],
        n_turns=scores.n_turns[rows],
        cluster_names=None if names is None else tuple(name or "" for name in names),
        clusters=codes,
        clustered=bool(np.bincount(codes).max() > 1),
        slices={name: tuple(values[i] for i in both) for name, values in golden.slices.items()},
        n_unmatched=len(labelled_only) + len(scored_only),
        votes=None if golden.votes is None else golden.votes.of(both),
    )


def cluster_codes(names: Sequence[str | None]) -> Ints:
    """Number the clusters as the sorted traces bring them up, so that their names do not steer the resampling."""
    code_of: dict[str | int, int] = {}
    keys = [name or i for i, name in enumerate(names)]
    return np.array([code_of.setdefault(key, len(code_of)) for key in keys], np.int64)


def _check_joined(
    both: Sequence[int], labelled: Sequence[str], scored: Sequence[str], allowed: bool, where: str
) -> None:
    if allowed and both:
        return
    messages = []
    for ids, text in (
        (labelled, "labelled trace(s) have no score"),
        (scored, "scored trace(s) have no label"),
    ):
        if ids:
            shown = ", ".join(repr(item) for item in ids[:5]) + (", ..." if len(ids) > 5 else "")
            messages.append(f"{len(ids)} {text}: {shown}")
    if not both:
        messages.append("no trace id stands in both tables")
    if messages:
        hint = "trace ids have to match; 'allow_unmatched: true' in the instrument leaves the others out"
        raise InputError.of(where, "; ".join([*messages, hint]))


def _clusters(
    golden: GoldenSet, scores: GoldenScores, both: Sequence[int], rows: Ints, where: str
) -> list[str | None] | None:
    ours = None if golden.clusters is None else [golden.clusters[i] for i in both]
    theirs = None if scores.clusters is None else [scores.clusters[i] for i in rows]
    if ours is None or theirs is None:
        return ours if theirs is None else theirs
    wrong = [golden.trace_ids[i] for i, a, b in zip(both, ours, theirs, strict=True) if a and b and a != b]
    if wrong:
        raise InputError.of(
            where,
            (
                f"{len(wrong)} trace(s) have one cluster in the golden set and another in the scores "
                f"(first: {wrong[0]!r}); a trace has one cluster"
            ),
        )
    return [a or b for a, b in zip(ours, theirs, strict=True)]
