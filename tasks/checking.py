"""``assay check``: what is in a data file, without a calibration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import inf
from typing import Any, Literal, cast

import numpy as np

from core.data.golden import composite_truth
from core.data.scores import Kind as ScoreKind
from core.data.vocabulary import SCORE_COLUMNS
from core.instrument.strata import bin_labels
from tasks.readers import Source
from tasks.storage import InputFile
from tasks.tables import Progress, ScoreScan, count_units, load_golden, names_in, no_progress, open_all
from tasks.tool_checking import directed, tool_summary

Kind = Literal["scores", "golden", "detections", "predictions", "outputs"]
TURN_BINS = (1, 2, 3, 4, 8)
MOST_GROUPS = 200
"""Distinct values beyond which a column is hardly a protected attribute."""

SHOWN_VALUES = 4
Summary = dict[str, Any]


def kind_of(files: Sequence[InputFile]) -> Kind:
    """Read off a first file what it is: predictions, outputs, labels, decisions or scores.

    A wide table does not say it in its header: with a column of words (a slice), or with nothing but 0, 1 and empty
    cells, it is taken for labels.
    """
    source = open_all(files[:1])[0]
    if "y_pred" in source.columns:
        return "predictions"
    if {"scenario_id", "variant"} <= set(source.columns):
        return "outputs"
    if source.kind in ("golden", "scores", "detections"):
        return cast(Kind, source.kind)
    if "label" in source.columns:
        return "golden"
    if {"detected", "attribute"} & set(source.columns):
        return "detections"
    return "scores" if "score" in source.columns or not _holds_labels(source) else "golden"


def _holds_labels(source: Source) -> bool:
    columns = [name for name in source.columns if name not in SCORE_COLUMNS]
    first = next(iter(source.batches(columns)), None) if columns else None
    if first is None:
        return False
    values = {str(cell) for name in columns for cell in set(first[0].column(name).drop_null().to_pylist())}
    return values <= {"0", "1", "0.0", "1.0"} or any(not _is_number(value) for value in values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def check(files: Sequence[InputFile], kind: Kind, progress: Progress = no_progress) -> Summary:
    """Read a data set whole, and say what is in it.

    Raises
    ------
    InputError
        All that is wrong.
    """
    if kind == "golden":
        return _check_golden(files)
    if kind == "predictions":
        return _check_predictions(files, progress)
    if kind == "outputs":
        return _check_outputs(files, progress)
    return _check_scores(files, kind, progress)


def _check_golden(files: Sequence[InputFile]) -> Summary:
    golden, reader, _ = load_golden(files, categories=None, slices=())
    both = (golden.labels == 1).any(axis=0) & (golden.labels == 0).any(axis=0)
    truth = composite_truth(golden.labels[:, both]) if both.any() else np.full(len(golden.trace_ids), -1)
    clusters = golden.clusters
    return {
        "kind": "golden",
        "rows": reader.n_rows,
        "traces": len(golden.trace_ids),
        "duplicates": golden.n_duplicates,
        "raters": None if golden.votes is None else golden.votes.n_raters,
        "ties": None if golden.votes is None else golden.votes.n_ties,
        "clusters": None if clusters is None else len(set(clusters) - {None}) + sum(c is None for c in clusters),
        "categories": {
            name: {
                "positive": int((golden.labels[:, c] == 1).sum()),
                "negative": int((golden.labels[:, c] == 0).sum()),
                "unlabelled": int((golden.labels[:, c] == -1).sum()),
            }
            for c, name in enumerate(golden.categories)
        },
        "composite of": [name for name, kept in zip(golden.categories, both, strict=True) if kept],
        "composite": {
            "positive": int((truth == 1).sum()),
            "negative": int((truth == 0).sum()),
            "undecidable": int((truth == -1).sum()),
        },
        "slices": {name: len(set(values) - {None}) for name, values in golden.slices.items()},
    }


def _check_predictions(files: Sequence[InputFile], progress: Progress) -> Summary:
    """Say what each column could be in an audit: which are groups, and what is positive, only a spec can say."""
    from core.fairness.spec import ColumnNames
    from tasks.audits import survey

    table, n_rows = survey(files, progress)
    outcomes = ColumnNames()
    columns: Summary = {}
    for name, column in table.items():
        row = {"may be": name if name in outcomes.all else "a group", "missing": column.null_count}
        if name == outcomes.score:
            columns[name] = {**row, "distinct values": "-", "most frequent": "-"}
            continue
        counts = Counter(label for label in column.to_pylist() if label is not None)
        if name not in outcomes.all and len(counts) > MOST_GROUPS:
            row["may be"] = "no group: too many values"
        ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:SHOWN_VALUES]
        told = ", ".join(f"{label} ({n})" for label, n in ordered)
        columns[name] = {**row, "distinct values": len(counts), "most frequent": told}
    return {"kind": "predictions", "rows": n_rows, "columns": columns}


def _check_outputs(files: Sequence[InputFile], progress: Progress) -> Summary:
    """Say what is there for each of the six metrics."""
    from core.fairness.outputs_spec import OutputsSpec
    from core.fairness.text_metric import variant_names
    from tasks.audits import load_outputs

    table = load_outputs(files, OutputsSpec(), progress).table
    scored: dict[str, Any] = {
        **{f"group_{axis}": labels != "" for axis, labels in table.labels.items()},
        **{f"harm_{name}": ~np.isnan(values) for name, values in table.harms.items()},
        "context": None if table.context is None else table.context != "",
        "is_refusal": None if table.refused is None else ~np.isnan(table.refused),
        "helpfulness": None if table.helpfulness is None else ~np.isnan(table.helpfulness),
        "token_count": None if table.token_count is None else ~np.isnan(table.token_count),
        "embedding": None if table.embedding is None else table.embedding.any(axis=1),
    }
    return {
        "kind": "outputs",
        "rows": len(table),
        "scenarios": len(set(table.scenario.tolist())),
        "prompts": dict(sorted(Counter(variant_names(table.variant, table.axis).tolist()).items())),
        "refused": 0 if table.refused is None else int((table.refused == 1.0).sum()),
        "ignored columns": list(table.ignored),
        "columns": {
            name: {"given": "absent" if given is None else f"{int(given.sum())} of {len(table)}"}
            for name, given in scored.items()
        },
    }


def _check_scores(files: Sequence[InputFile], kind: ScoreKind, progress: Progress) -> Summary:
    sources, undirected = directed(open_all(files))
    categories = names_in(sources, kind)
    scan = ScoreScan(sources, kind, categories, progress)
    counts, _ = count_units(
        scan,
        [1.0 if kind == "detections" else inf] * len(categories),
        n_composite=len(categories),
        turn_bins=TURN_BINS,
        attempts="each",
        last_turn_only=False,
        decisions=None,
    )
    scan.check(())
    rows = np.array(counts.histogram).reshape(-1, 4)
    labels = bin_labels(TURN_BINS)
    summary: Summary = {
        "kind": kind,
        "rows": scan.found.n_rows,
        "traces": counts.n_traces,
        "units": counts.accounting["attempted"],
        "turns": counts.n_turns,
        "duplicates": counts.n_duplicates,
        "turn gaps": counts.n_gaps,
        "clusters": counts.clusters[0].n_clusters if counts.clustered else None,
        "judges": list(scan.found.judges),
        "targets": list(scan.found.targets),
        "ignored columns": list(scan.found.ignored),
        "accounting": {name: n for name, n in counts.accounting.items() if n},
        "turns a unit": {labels[b]: int(rows[rows[:, 2] == b, 3].sum()) for b in np.unique(rows[:, 2])},
        "categories": {
            name: {"units without a score": int(rows[(rows[:, 1] >> c) & 1 == 1, 3].sum())}
            for c, name in enumerate(categories)
        },
    }
    summary |= tool_summary(sources, kind, categories, undirected=undirected, progress=progress)
    if kind == "detections":
        for c, name in enumerate(categories):
            summary["categories"][name]["detected"] = counts.clusters[c + 1].events
        summary["any detected"] = counts.clusters[0].events
    return summary
