"""Production counted in parts: counts, findings, decisions file and complaints are those of one pass."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.data.facts import SourceFacts
from core.data.golden import GoldenSet
from core.errors import InputError
from core.instrument.labelled import LabelledUnits
from core.instrument.tally import UnitCounts, text_keys
from tasks import parts
from tasks.parts import CountedPart, Part, parts_of
from tasks.readers.table import facts_metadata
from tasks.storage import InputFile
from tasks.tables import DecisionsFile, Found, ScoreScan, count_units, load_golden, open_all
from tasks.workers import Executor, Outcomes, Work
from tests.core.instrument.test_engine import CATEGORIES, N_COMPOSITE, THRESHOLDS, TURN_BINS, WORLDS, stored, world


def elsewhere(_: Any, __: int) -> Executor:
    """Carry out work as other processes do, the last item first: all that goes there and comes back is pickled."""

    def execute(work: Work, items: Sequence[Any]) -> Outcomes:
        for position in reversed(range(len(items))):
            there, item = pickle.loads(pickle.dumps((work, items[position])))
            yield position, pickle.loads(pickle.dumps(there.run(item)))

    return execute


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "LEAST_BYTES", 1)
    monkeypatch.setattr(parts, "executor_of", elsewhere)


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each count was made in parts, or given up for one pass."""
    made: list[bool] = []
    real = parts.counted_in_parts

    def noted(*arguments: Any, **options: Any) -> Any:
        answer = real(*arguments, **options)
        made.append(answer is not None)
        return answer

    monkeypatch.setattr(parts, "counted_in_parts", noted)
    return made


Counted = tuple[UnitCounts, int, Found, bytes, Any]


def counted(
    files: Sequence[InputFile], workers: int, *, policy: str = "each", golden: GoldenSet | None = None,
    categories: Sequence[str] = CATEGORIES, heard: list[int] | None = None,
) -> Counted:  # fmt: skip
    scan = ScoreScan(open_all(files), "scores", categories, (heard if heard is not None else []).append)
    labelled = None if golden is None else LabelledUnits(golden, categories[:N_COMPOSITE])
    with tempfile.TemporaryDirectory() as name:
        decisions = Path(name) / "d.parquet"
        counts, n = count_units(
            scan, THRESHOLDS, n_composite=N_COMPOSITE, turn_bins=TURN_BINS, attempts=policy, last_turn_only=False,
            decisions=decisions, labelled=labelled, workers=workers,
        )  # fmt: skip
        scan.check(categories[:1])
        seen = None if labelled is None else [column.tolist() for column in labelled.found()]
        return counts, n, scan.found, decisions.read_bytes(), seen


def outcome(files: Sequence[InputFile], workers: int, **options: Any) -> Counted | str:
    try:
        return counted(files, workers, **options)
    except InputError as error:
        return f"{error.count}\n{error}"


@settings(max_examples=80, deadline=None)
@given(
    **WORLDS,
    policy=st.sampled_from(["each", "first", "last", "any"]),
    batch_rows=st.sampled_from([1, 5, 1000]),
    most=st.sampled_from([2, 5, 256]),
    spoilt=st.booleans(),
    data=st.data(),
)  # fmt: skip
def test_parts_of_any_files_are_counted_as_all_in_one_pass(
    policy: str, batch_rows: int, most: int, spoilt: bool, data: st.DataObject, **options: Any
) -> None:
    made = world(**options)
    if spoilt:
        file = data.draw(st.sampled_from(made.files))
        wrong = {"turn": -1} | ({"score": 7.0} if file.columns is None else {file.columns[0]: 7.0})
        file.rows.insert(data.draw(st.integers(0, len(file.rows))), {**file.rows[0], **wrong})
    traces = sorted({str(row["trace_id"]) for file in made.files for row in file.rows})
    golden = some_labels(traces[::2])
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.readers.table.BATCH_ROWS", batch_rows)
        patch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", batch_rows)
        patch.setattr("tasks.spill.ROWS_IN_MEMORY", 20)
        patch.setattr("tasks.spill.N_BUCKETS", 3)
        patch.setattr(parts, "MAX_PARTS", most)
        files = stored(made, Path(name))
        here = outcome(files, 1, policy=policy, golden=golden)
        assert outcome(files, 2, policy=policy, golden=golden) == here
    assert isinstance(here, str) >= spoilt


def some_labels(traces: Sequence[str]) -> GoldenSet:
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "labels.csv"
        path.write_text("trace_id,category,label\n" + "".join(f"{t},{c},0\n" for t in traces for c in CATEGORIES[:2]))
        return load_golden([InputFile(path=path, name="labels.csv")], categories=CATEGORIES[:2], slices=())[0]


@settings(max_examples=40, deadline=None)
@given(**{**WORLDS, "order": st.just("grouped"), "layout": st.sampled_from(["long", "wide", "mixed"])})
def test_files_with_the_rows_of_a_trace_together_are_counted_in_parts_wherever_they_are_cut(**options: Any) -> None:
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        files = stored(world(**options), Path(name))
        if len(parts_of(files)) == 1:
            return
        patch.setattr("tasks.tables.whole_traces", None)  # what counts in one pass
        counted(files, 2)


def lines(folder: Path, name: str, *rows: str) -> InputFile:
    path = folder / f"{name}.csv"
    path.write_text("\n".join(["trace_id,turn,category,score,cluster", *rows, ""]))
    return InputFile(path=path, name=path.name)


def test_a_trace_that_goes_on_through_several_files_is_one_trace(tmp_path: Path, in_parts: list[bool]) -> None:
    files = [
        lines(tmp_path, "a", "x,0,harm-a,0,k", "y,0,harm-a,0,k", "y,0,harm-b,0,k"),
        lines(tmp_path, "b", "y,1,harm-a,1,k"),
        lines(tmp_path, "c", "y,1,harm-b,0,k", "y,2,harm-a,0,k"),
        lines(tmp_path, "d", "y,2,harm-b,0,k", "z,0,harm-a,0,m", "z,0,harm-b,1,m"),
    ]
    found = counted(files, 2)
    assert found == counted(files, 1)
    assert found[0].n_traces == 3
    assert found[0].clusters[0].n == 2  # x is not fully scored
    assert in_parts == [True]


def test_a_trace_that_comes_back_in_another_file_is_counted_once(tmp_path: Path, in_parts: list[bool]) -> None:
    both = ("harm-a,0,k", "harm-b,0,k")
    files = [
        lines(tmp_path, name, *(f"{trace},{turn},{cell}" for trace in traces for cell in both))
        for name, traces, turn in (("a", "xyz", 0), ("b", "uvw", 0), ("c", "syt", 1))
    ]
    found = counted(files, 2)
    assert found == counted(files, 1)
    assert (found[0].n_traces, found[0].n_turns) == (8, 9)
    assert in_parts == [False]


def test_clusters_that_span_files_are_one(tmp_path: Path, in_parts: list[bool]) -> None:
    files = [
        lines(tmp_path, f"f{n}", *(f"t{n}{i},0,{c},1,k{i % 2}" for i in range(6) for c in CATEGORIES[:2]))
        for n in range(4)
    ]  # fmt: skip
    found = counted(files, 2)
    assert found == counted(files, 1)
    assert (found[0].clusters[0].n_clusters, found[0].clusters[0].sum_n2) == (2, 2 * 12**2)
    assert in_parts == [True]


def test_clusters_that_differ_where_a_trace_goes_on_are_told_with_file_and_line(tmp_path: Path) -> None:
    files = [lines(tmp_path, "a", "y,0,harm-a,0,k"), lines(tmp_path, "b", "y,1,harm-a,0,m")]
    told = outcome(files, 2)
    assert told == outcome(files, 1)
    assert "b.csv:2: trace 'y' is in cluster 'm' here and in 'k' before" in told


def test_all_that_is_wrong_in_several_parts_comes_together(tmp_path: Path) -> None:
    files = [lines(tmp_path, f"f{n}", *(f"t{n}{i},0,harm-a,{7 + n},k" for i in range(90))) for n in range(5)]
    told = outcome(files, 2)
    assert told == outcome(files, 1)
    assert str(told).startswith("450\nf0.csv:2: score 7 is outside [0, 1]")


def test_a_file_without_rows_among_others_is_told(tmp_path: Path) -> None:
    files = [lines(tmp_path, "a", "x,0,harm-a,0,k"), lines(tmp_path, "b"), lines(tmp_path, "c", "y,0,harm-a,0,k")]
    told = outcome(files, 2)
    assert told == outcome(files, 1) == "1\nb.csv: has a header but no rows"


def test_one_large_parquet_file_is_counted_by_its_row_groups_and_its_facts_are_told_once(
    tmp_path: Path, in_parts: list[bool]
) -> None:
    facts = SourceFacts(reader="garak", tool="garak", higher_is="worse", counts={"retries": 3})
    table = pa.table({
        "trace_id": np.repeat([f"t{i}" for i in range(100)], 3), "turn": np.tile(range(3), 100),
        "harm-a": np.linspace(0, 1, 300), "harm-b": np.zeros(300), "aside": np.zeros(300),
    })  # fmt: skip
    pq.write_table(table.replace_schema_metadata(facts_metadata(facts)), tmp_path / "s.parquet", row_group_size=50)
    files = [InputFile(path=tmp_path / "s.parquet", name="s.parquet")]
    divided = parts_of(files)
    assert [piece.groups for (piece,) in divided] == [range(n, n + 1) for n in range(6)]
    heard: list[int] = []
    found = counted(files, 2, heard=heard)
    assert found == counted(files, 1)
    assert (found[2].rows_by_file, found[2].sources) == ((300,), (facts,))
    assert sum(heard) == 300
    assert in_parts == [True]


def test_parts_are_bounded_in_number_and_hold_neighbouring_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MAX_PARTS", 8)
    files = [lines(tmp_path, f"f{n:02d}", *["x,0,harm-a,0,k"] * (1 + n % 3)) for n in range(50)]
    divided = parts_of(files)
    assert [piece.file for part in divided for piece in part] == files
    assert 4 < len(divided) <= 8
    monkeypatch.setattr(parts, "LEAST_BYTES", 10**6)
    assert len(parts_of(files)) == 1


def test_one_small_file_is_counted_here_whatever_the_number_of_processes(
    tmp_path: Path, in_parts: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "executor_of", None)
    counted([lines(tmp_path, "a", "x,0,harm-a,0,k")], 2)
    assert in_parts == [False]


def test_a_worker_elsewhere_must_have_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    files = [replace(lines(tmp_path, "a", "x,0,harm-a,0,k"), path=Path("a.csv"))]
    assert counted(files, "tcp://scheduler:8786") == counted(files, 1)  # type: ignore[arg-type]

    def moved(what: Any) -> Any:
        def execute(work: Work, items: Sequence[Part]) -> Iterator[tuple[int, CountedPart | None]]:
            assert items[0][0].file.path == tmp_path / "a.csv"
            what(items[0][0].file.path)
            yield from elsewhere(None, 0)(work, items)

        return lambda *_: execute

    monkeypatch.setattr(parts, "executor_of", moved(lambda path: path.write_text(path.read_text() + "x,1,harm-a,0,k")))
    with pytest.raises(InputError, match=r"a\.csv: the Dask worker on .* has another file under this path"):
        counted(files, "tcp://scheduler:8786")  # type: ignore[arg-type]
    monkeypatch.setattr(parts, "executor_of", moved(Path.unlink))
    with pytest.raises(InputError, match=r"a\.csv: the Dask worker on .* cannot read it: there is no such file"):
        counted(files, "tcp://scheduler:8786")  # type: ignore[arg-type]


def test_a_worker_elsewhere_fetches_an_object_itself_in_the_version_that_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = (lines(tmp_path, name, "x,0,harm-a,0,k", "y,0,harm-b,0,k") for name in ("here", "there"))
    asked: list[str] = []

    def fetched(urls: Sequence[Any]) -> list[InputFile]:
        asked.extend(map(str, urls))
        here.path.unlink(missing_ok=True)
        return [there]

    monkeypatch.setattr(parts, "fetched", fetched)
    files = [replace(here, origin="s3://lab/s.csv?versionId=7")]
    assert counted(files, "tcp://scheduler:8786")[0].n_traces == 2  # type: ignore[arg-type]
    assert asked == ["s3://lab/s.csv?versionId=7"]


def test_an_option_that_names_a_file_of_this_machine_is_refused_for_workers_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "map.yaml").write_text("categories: {}")
    file = replace(lines(tmp_path, "a", "x,0,harm-a,0,k"), options={"map": str(tmp_path / "map.yaml")})
    with pytest.raises(InputError, match=r"map=.*map\.yaml is a file of this machine"):
        parts._for_other_machines(parts_of([file]))


def test_the_bytes_of_a_decisions_file_depend_on_its_rows_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DecisionsFile, "ROWS_A_GROUP", 64)
    rows = [(f"t{i}", i % 3, None if i % 5 else "k", 1 + i % 7, i % 4, 0) for i in range(200)]
    written = []
    for number, cuts in enumerate(([200], [1] * 200, [63, 2, 100, 35], [64, 64, 64, 8], [150, 50])):
        file = DecisionsFile(tmp_path / f"{number}.parquet")
        first = 0
        for n in cuts:
            file.add({name: list(column) for name, column in zip(
                DecisionsFile.SCHEMA.names, zip(*rows[first : first + n], strict=True), strict=True
            )})  # fmt: skip
            first += n
        file.close()
        assert file.rows == 200
        written.append((tmp_path / f"{number}.parquet").read_bytes())
    assert len(set(written)) == 1
    found = pq.ParquetFile(tmp_path / "0.parquet")
    assert [found.metadata.row_group(i).num_rows for i in range(4)] == [64, 64, 64, 8]
    assert found.read().column("trace_id").to_pylist() == [row[0] for row in rows]


def test_keys_of_texts_tell_texts_apart_whatever_their_lengths() -> None:
    texts = ["", "\0", "\0" * 8, "a", "a\0", "é", "a" * 7, "a" * 8, "a" * 9, *(f"trace-{i}" for i in range(200_000))]
    keys = text_keys(texts)
    assert len(set(keys.tolist())) == len(texts)
    assert text_keys(texts[::-1]).tolist() == keys[::-1].tolist()
    assert text_keys([]).tolist() == []
