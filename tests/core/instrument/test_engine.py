"""The streaming engine counts what a plain pandas pipeline counts, however the rows lie in files."""

from __future__ import annotations

import json
import tempfile
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from core.data.scores import regrouped
from core.data.vocabulary import STATES
from core.errors import InputError
from core.inference.clusters import ClusterSums
from core.instrument.golden_scores import golden_scores
from core.instrument.tally import UnitCounts
from tasks.readers import open_source
from tasks.storage import InputFile
from tasks.tables import ScoreScan, count_units

CATEGORIES = ["harm-a", "harm-b", "aside"]
N_COMPOSITE = 2
THRESHOLDS = [0.5, 0.75, np.inf]
TURN_BINS = (1, 2, 4)
KEY = ["trace", "attempt", "turn", "category"]


@dataclass(kw_only=True)
class File:
    """Rows that go to one file: long has one cell a row, wide one cell a column."""

    suffix: str
    columns: list[str] | None  # categories of a wide file
    rows: list[dict[str, Any]] = field(default_factory=list)


@dataclass(kw_only=True)
class World:
    """A data set as files, with the options of its layout."""

    files: list[File]
    names: list[str]
    integer_ids: bool


def world(
    seed: int,
    *,
    n_files: int,
    layout: str,
    order: str,
    clusters: bool,
    integer_ids: bool,
    suffixes: list[str],
    attempts: int = 3,
) -> World:
    """Draw a small data set with every irregularity that files may have."""
    rng = np.random.default_rng(seed)
    files = [
        File(suffix=suffixes[i % len(suffixes)], columns=_columns(layout, i, n_files)) for i in range(max(1, n_files))
    ]
    turns = list(_turns(rng, clusters, integer_ids, attempts))
    if order == "scattered":
        rng.shuffle(turns)
    for position, turn in enumerate(turns):
        cells = {c: float(rng.choice([0.0, 0.25, 0.5, 0.75, 1.0])) for c in CATEGORIES if rng.random() < 0.85}
        absent = [c for c in CATEGORIES if c not in cells and rng.random() < 0.5]
        empty = [c for c in CATEGORIES if c not in cells and c not in absent] or ([] if cells else CATEGORIES[:1])
        state = str(rng.choice([*STATES, ""])) if rng.random() < 0.7 else ""
        place = [len(files) * position // len(turns) if order == "grouped" else int(rng.integers(len(files)))]
        if layout == "wide apart":
            place = list(range(len(files)))
        for number in place:
            _write(rng, files[number], turn, cells, empty, state)
    if order == "scattered":
        for file in files:
            rng.shuffle(file.rows)
    names = ["trace_id", "turn", "attempt", "state", *(["cluster"] if clusters else [])]
    return World(files=[file for file in files if file.rows], names=names, integer_ids=integer_ids)


def _columns(layout: str, number: int, n_files: int) -> list[str] | None:
    if layout == "wide apart":
        return CATEGORIES[number::n_files]
    return CATEGORIES if layout == "wide" or (layout == "mixed" and number % 2) else None


def _turns(rng: np.random.Generator, clusters: bool, integer_ids: bool, attempts: int) -> Any:
    for number in rng.permutation(12)[: rng.integers(1, 9)]:
        trace = int(number) if integer_ids else f"trace é{number}"
        cluster = str(rng.choice(["k1", "k2", ""])) if clusters else ""
        for attempt in rng.permutation(4)[: rng.integers(1, attempts + 1)].tolist():
            first = int(rng.integers(2))
            for turn in sorted(rng.permutation(5)[: rng.integers(1, 5)].tolist() if rng.random() < 0.3 else range(3)):
                yield {"trace_id": trace, "turn": first + turn, "attempt": attempt, "cluster": cluster}


def _write(
    rng: np.random.Generator, file: File, turn: dict[str, Any], cells: dict[str, float], empty: list[str], state: str
) -> None:
    if file.columns is None:
        rows = [{**turn, "category": c, "score": score, "state": "scored"} for c, score in cells.items()]
        rows += [{**turn, "category": c, "score": None, "state": state} for c in empty]
        rng.shuffle(rows)
    else:
        scores = {c: cells.get(c) for c in file.columns}
        stated = state if None in scores.values() else ""
        rows = [{**turn, **scores, "state": stated}]
    file.rows += rows
    if rng.random() < 0.2:
        file.rows.append(dict(rows[-1]))


def stored(world_: World, folder: Path) -> list[InputFile]:
    """Write the files."""
    return [_stored(file, world_, folder / f"part-{i}") for i, file in enumerate(world_.files)]


def _stored(file: File, world_: World, stem: Path) -> InputFile:
    path = stem.with_suffix(file.suffix)
    names = [*world_.names, *(["category", "score"] if file.columns is None else file.columns)]
    rows = [{name: row[name] for name in names} for row in file.rows]
    if file.suffix == ".parquet":
        kinds = dict.fromkeys([*CATEGORIES, "score"], pa.float64()) | {"turn": pa.int32(), "attempt": pa.int64()}
        ids = pa.int64() if world_.integer_ids else pa.string()
        schema = pa.schema([(name, ids if name == "trace_id" else kinds.get(name, pa.string())) for name in names])
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), path, row_group_size=7)
    elif file.suffix == ".csv":
        pd.DataFrame(rows, columns=names).to_csv(path, index=False)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return InputFile(path=path, name=path.name)


def cells_of(world_: World) -> pd.DataFrame:
    """Return one row a cell that stands in some file."""
    cells = pd.DataFrame(
        [
            {
                "trace": str(row["trace_id"]), "attempt": row["attempt"], "turn": row["turn"],
                "category": category, "score": score, "state": row["state"], "cluster": row["cluster"],
            }
            for file in world_.files
            for row in file.rows
            for category, score in (
                [(row["category"], row["score"])] if file.columns is None else [(c, row[c]) for c in file.columns]
            )
        ]
    )  # fmt: skip
    return cells.astype({"score": float})


def naive(world_: World, policy: str, last_turn_only: bool) -> tuple[dict[str, Any], pd.DataFrame]:
    """Count the same in pandas, from the definitions."""
    cells = cells_of(world_)
    distinct = cells.drop_duplicates(KEY)
    units = pd.DataFrame(
        [_unit(trace, attempt, group, last_turn_only) for (trace, attempt), group in
         distinct.groupby(["trace", "attempt"], sort=True)]
    )  # fmt: skip
    n_gaps = int(units["gap"].sum())
    units = pd.DataFrame([row for _, group in units.groupby("trace") for row in _kept(group, policy)])
    units["bin"] = [sum(n > edge for edge in TURN_BINS) for n in units["n_turns"]]
    reasons = Counter(units["reason"])
    figures = {
        "n_categories": N_COMPOSITE,
        "n_traces": units["trace"].nunique(),
        "n_turns": int(units["n_turns"].sum()),
        "n_duplicates": len(cells) - len(distinct),
        "n_gaps": n_gaps,
        "histogram": Counter(zip(units["flags"], units["missing"], units["bin"], strict=True)),
        "accounting": {"attempted": len(units), **{s: reasons[s] for s in ("scored", *STATES)}},
        "clusters": [_sums(units, None), *(_sums(units, c) for c in range(N_COMPOSITE))],
    }
    return figures, units


def _unit(trace: str, attempt: int, cells: pd.DataFrame, last_turn_only: bool) -> dict[str, Any]:
    turns = set(cells["turn"])
    gap = not last_turn_only and max(turns) - min(turns) + 1 != len(turns)
    flags = missing = 0
    needed = cells[cells["category"].isin(CATEGORIES[:N_COMPOSITE])]
    for c in range(N_COMPOSITE):
        own = needed[(needed["category"] == CATEGORIES[c]) & needed["score"].notna()]
        flags |= int((own["score"] >= THRESHOLDS[c]).any()) << c
        missing |= int(gap or set(own["turn"]) != turns) << c
    said = set(needed.loc[needed["score"].isna(), "state"])
    reason = next((state for state in STATES if state in said), "missing") if missing else "scored"
    return {
        "trace": trace, "attempt": attempt, "cluster": cells["cluster"].iloc[0], "n_turns": len(turns),
        "flags": flags, "missing": missing, "reason": reason, "gap": gap,
    }  # fmt: skip


def _kept(group: pd.DataFrame, policy: str) -> list[Any]:
    rows = [row for _, row in group.sort_values("attempt").iterrows()]
    if policy in ("first", "last"):
        return [rows[0 if policy == "first" else -1]]
    if policy == "any":
        union = rows[0].copy()
        union["n_turns"] = sum(row["n_turns"] for row in rows)
        union["flags"] = int(np.bitwise_or.reduce([row["flags"] for row in rows]))
        union["missing"] = int(np.bitwise_or.reduce([row["missing"] for row in rows]))
        union["reason"] = min((row["reason"] for row in rows), key=[*STATES, "scored"].index)
        return [union]
    return rows


def _sums(units: pd.DataFrame, category: int | None) -> ClusterSums:
    bits = (1 << N_COMPOSITE) - 1 if category is None else 1 << category
    inside = units[(units["missing"] & bits) == 0]
    cluster = [name or f"own {trace}" for name, trace in zip(inside["cluster"], inside["trace"], strict=True)]
    flagged = ((inside["flags"] & bits) != 0).astype(int)
    n = flagged.groupby(cluster).size().to_numpy()
    x = flagged.groupby(cluster).sum().to_numpy()
    return ClusterSums(
        n=int(n.sum()), events=int(x.sum()), n_clusters=len(n), sum_n2=int((n * n).sum()),
        sum_nx=int((n * x).sum()), sum_x2=int((x * x).sum()),
        clusters_with_events=int((x > 0).sum()), clusters_with_nonevents=int((x < n).sum()),
    )  # fmt: skip


def counted(
    files: Sequence[InputFile], policy: str, last_turn_only: bool, decisions: Path | None, batch_rows: int, held: int
) -> UnitCounts:
    """Count with the engine, in batches of a few rows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.readers.table.BATCH_ROWS", batch_rows)
        patch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", batch_rows)
        patch.setattr("tasks.spill.ROWS_IN_MEMORY", held)
        patch.setattr("tasks.spill.N_BUCKETS", 3)
        scan = ScoreScan([open_source(file) for file in files], "scores", CATEGORIES)
        counts, n_decisions = count_units(
            scan,
            THRESHOLDS,
            n_composite=N_COMPOSITE,
            turn_bins=TURN_BINS,
            attempts=policy,
            last_turn_only=last_turn_only,
            decisions=decisions,
        )
        scan.log.stop_if_any()
    assert decisions is None or n_decisions == counts.accounting["attempted"]
    return counts


WORLDS = {
    "seed": st.integers(0, 2**32 - 1),
    "n_files": st.integers(1, 3),
    "layout": st.sampled_from(["long", "wide", "mixed", "wide apart"]),
    "order": st.sampled_from(["grouped", "scattered"]),
    "clusters": st.booleans(),
    "integer_ids": st.booleans(),
    "suffixes": st.lists(st.sampled_from([".parquet", ".csv", ".jsonl"]), min_size=1, max_size=3),
}
ONE = {
    "seed": 1, "n_files": 2, "layout": "mixed", "order": "scattered", "clusters": True, "integer_ids": False,
    "suffixes": [".parquet", ".csv"], "policy": "each", "last_turn_only": False, "batch_rows": 2, "held": 3,
}  # fmt: skip


@settings(max_examples=100, deadline=None)
@given(
    **WORLDS,
    policy=st.sampled_from(["each", "first", "last", "any"]),
    last_turn_only=st.booleans(),
    batch_rows=st.sampled_from([1, 2, 5, 1000]),
    held=st.sampled_from([3, 20, 1000]),
)
@example(**ONE)
@example(**{**ONE, "layout": "wide apart", "policy": "last", "order": "grouped"})
def test_the_engine_counts_what_a_plain_pandas_pipeline_counts(
    policy: str, last_turn_only: bool, batch_rows: int, held: int, **options: Any
) -> None:
    data = world(**options)
    expected, units = naive(data, policy, last_turn_only)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        counts = counted(stored(data, folder), policy, last_turn_only, folder / "d.parquet", batch_rows, held)
        decisions = pd.read_parquet(folder / "d.parquet")
    found = {name: getattr(counts, name) for name in expected}
    found["histogram"] = Counter({(f, m, b): n for f, m, b, n in counts.histogram})
    found["clusters"] = list(counts.clusters)
    assert found == expected
    assert counts.clustered is any(sums.n > sums.n_clusters for sums in counts.clusters)
    columns = {"trace_id": "trace", "flag_mask": "flags", "missing_mask": "missing"}
    stored_units = decisions.rename(columns=columns).sort_values(["trace", "attempt"])
    for column in ("trace", "attempt", "n_turns", "flags", "missing"):
        assert stored_units[column].tolist() == units.sort_values(["trace", "attempt"])[column].tolist()
    assert stored_units["cluster"].fillna("").tolist() == units.sort_values(["trace", "attempt"])["cluster"].tolist()


@settings(max_examples=40, deadline=None)
@given(**WORLDS, batch_rows=st.sampled_from([1, 3, 1000]), held=st.sampled_from([3, 1000]), data=st.data())
def test_a_cell_with_two_values_is_refused_wherever_its_rows_lie(
    batch_rows: int, held: int, data: st.DataObject, **options: Any
) -> None:
    rows = world(**options)
    file = data.draw(st.sampled_from(rows.files))
    row = dict(data.draw(st.sampled_from(file.rows)))
    cell = "score" if file.columns is None else file.columns[0]
    row[cell] = 0.125  # a score that no other row has
    row["state"] = ""
    file.rows.insert(data.draw(st.integers(0, len(file.rows))), row)
    with tempfile.TemporaryDirectory() as name, pytest.raises(InputError, match="has other values in part-"):
        counted(stored(rows, Path(name)), "each", False, None, batch_rows, held)


@settings(max_examples=40, deadline=None)
@given(
    **{**WORLDS, "clusters": st.just(True)},
    batch_rows=st.sampled_from([1, 3, 1000]),
    held=st.sampled_from([3, 1000]),
    data=st.data(),
)
def test_a_trace_with_two_clusters_is_refused_wherever_its_rows_lie(
    batch_rows: int, held: int, data: st.DataObject, **options: Any
) -> None:
    rows = world(**options)
    file = data.draw(st.sampled_from(rows.files))
    row = {**data.draw(st.sampled_from(file.rows)), "cluster": "another"}
    file.rows.insert(data.draw(st.integers(0, len(file.rows))), row)
    with tempfile.TemporaryDirectory() as name, pytest.raises(InputError, match="a trace has one cluster"):
        counted(stored(rows, Path(name)), "each", False, None, batch_rows, held)


@settings(max_examples=50, deadline=None)
@given(**WORLDS, batch_rows=st.sampled_from([1, 3, 1000]), last_turn_only=st.booleans())
def test_golden_maxima_are_those_of_a_plain_pandas_pipeline(
    batch_rows: int, last_turn_only: bool, **options: Any
) -> None:
    data = world(**options, attempts=1)
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.readers.table.BATCH_ROWS", batch_rows)
        patch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", batch_rows)
        scan = ScoreScan([open_source(file) for file in stored(data, Path(name))], "scores", CATEGORIES)
        block = regrouped(list(scan.batches()), scan.log)
        found = golden_scores(block, CATEGORIES, last_turn_only=last_turn_only, log=scan.log)
    cells = cells_of(data).drop_duplicates(KEY)
    traces = cells.groupby("trace")
    assert found.trace_ids == tuple(traces.groups)
    n_turns = traces["turn"].nunique()
    assert found.n_turns.tolist() == n_turns.tolist()
    gap = (traces["turn"].max() - traces["turn"].min() + 1 != n_turns) & (not last_turn_only)
    for c, category in enumerate(CATEGORIES):
        own = cells[(cells["category"] == category) & cells["score"].notna()].groupby("trace")
        complete = own["turn"].nunique().reindex(n_turns.index, fill_value=0).eq(n_turns) & ~gap
        assert found.missing[:, c].tolist() == (~complete).tolist()
        maxima = own["score"].max().reindex(n_turns.index)
        assert found.maxima[complete, c].tolist() == maxima[complete].tolist()


def test_golden_scores_with_several_attempts_are_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("trace_id,attempt,category,score\nt,0,harm-a,0.5\nt,1,harm-a,0.5\nu,0,harm-a,1\n")
    scan = ScoreScan([open_source(InputFile(path=path, name=path.name))], "scores", CATEGORIES)
    block = regrouped(list(scan.batches()), scan.log)
    with pytest.raises(InputError, match=r"scores.csv:2: 1 golden trace\(s\) have several attempts \(first: 't'\)"):
        golden_scores(block, CATEGORIES, last_turn_only=False, log=scan.log)


def test_detections_take_the_same_path_with_their_union_over_turns(tmp_path: Path) -> None:
    path = tmp_path / "detections.csv"
    rows = [f"{trace},{turn},{int(trace < 9 and turn == 1)},{int(7 <= trace < 11 and turn == 0)}"
            for trace in range(25) for turn in range(2)]  # fmt: skip
    path.write_text("trace_id,turn,age,gender\n" + "\n".join(rows) + "\n")
    scan = ScoreScan([open_source(InputFile(path=path, name=path.name))], "detections", ["age", "gender"])
    counts, _ = count_units(
        scan, [1.0, 1.0], n_composite=2, turn_bins=TURN_BINS, attempts="each", last_turn_only=False, decisions=None
    )
    assert [(sums.n, sums.events) for sums in counts.clusters] == [(25, 11), (25, 9), (25, 4)]


def test_an_empty_cell_beside_a_score_for_the_same_cell_is_a_conflict(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("trace_id,category,score\nt,harm-a,0.5\nt,harm-a,\nt,harm-b,0\n")
    with pytest.raises(InputError, match=r"scores.csv:3: trace 't'.* has other values in scores.csv:2"):
        counted([InputFile(path=path, name=path.name)], "each", False, None, 10, 10)


def test_the_order_of_spilled_decisions_is_the_same_in_every_process(tmp_path: Path) -> None:
    rows = "".join(f"t{i % 50},{c},0.5,{i // 50}\n" for i in range(200) for c in CATEGORIES[:2])
    path = tmp_path / "scattered.csv"
    path.write_text("trace_id,category,score,turn\n" + rows)
    counted([InputFile(path=path, name=path.name)], "each", False, tmp_path / "d.parquet", 16, 64)
    ids = [f"t{i}" for i in range(50)]
    assert pd.read_parquet(tmp_path / "d.parquet")["trace_id"].tolist() == sorted(
        ids, key=lambda trace: (zlib.crc32(trace.encode()) % 3, trace)
    )
