"""From files to golden sets, golden scores and counted units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.data.golden import GoldenSet
from core.errors import InputError
from core.instrument.golden_table import GoldenTable, cluster_codes
from tasks.checking import check, kind_of
from tasks.storage import InputFile
from tasks.tables import load_golden, load_texts, read_golden_maxima, write_golden_maxima

IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)


def files(folder: Path, **contents: str) -> list[InputFile]:
    found = []
    for name, content in contents.items():
        path = folder / f"{name}.csv"
        path.write_text(content)
        found.append(InputFile(path=path, name=path.name))
    return found


def golden(folder: Path, *, categories: Any = None, slices: tuple[str, ...] = (), **contents: str) -> GoldenSet:
    return load_golden(files(folder, **contents), categories=categories, slices=slices)[0]


def labels(found: GoldenSet) -> dict[str, list[int]]:
    return dict(zip(found.trace_ids, found.labels.tolist(), strict=True))


# --- golden sets --------------------------------------------------------------------------------------------------


def test_long_and_wide_golden_sets_are_the_same(tmp_path: Path) -> None:
    long = golden(tmp_path, a="trace_id,category,label\nb,hate,1\na,hate,0\na,self_harm,\nb,self-harm,0.0\n")
    wide = golden(tmp_path, b="trace_id,self_harm,hate\nb,0,1\na,,0\n")
    mixed = golden(tmp_path, c="trace_id,hate\nb,1\na,0\n", d="trace_id,category,label\nb,self-harm,0\na,self-harm,\n")
    assert long.categories == ("hate", "self-harm")
    assert labels(long) == {"a": [0, -1], "b": [1, 0]}
    assert long.sha256 == wide.sha256 == mixed.sha256


def test_labels_of_turns_become_labels_of_traces(tmp_path: Path) -> None:
    rows = ["x,0,hate,0", "x,1,hate,1", "x,2,hate,", "y,0,hate,0", "y,1,hate,", "z,0,hate,0", "z,1,hate,0"]
    found = golden(tmp_path, a="\n".join(["trace_id,turn,category,label", *rows]))
    assert labels(found) == {"x": [1], "y": [-1], "z": [0]}


def test_a_category_that_a_trace_lacks_is_unlabelled_and_never_0(tmp_path: Path) -> None:
    found = golden(tmp_path, a="trace_id,category,label\nx,hate,1\ny,violence,0\n")
    assert labels(found) == {"x": [1, -1], "y": [-1, 0]}


def test_equal_golden_rows_collapse_and_are_counted(tmp_path: Path) -> None:
    found = golden(tmp_path, a="trace_id,hate\nx,1\nx,1\n", b="trace_id,hate\ny,\nx,1\ny,\n")
    assert (found.n_rows, found.n_duplicates, labels(found)) == (5, 3, {"x": [1], "y": [-1]})


def test_golden_rows_that_differ_are_found_across_files_and_an_empty_label_differs_from_0(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        golden(tmp_path, a="trace_id,hate\nx,1\ny,\n", b="trace_id,hate\nx,0\ny,0\n")
    assert [str(problem) for problem in error.value.problems] == [
        "b.csv:2: trace 'x' has another label for hate in a.csv:2; keep one of the two",
        "b.csv:3: trace 'y' has another label for hate in a.csv:3; keep one of the two",
    ]


def test_columns_of_words_are_slices_and_service_columns_are_neither(tmp_path: Path) -> None:
    found = golden(
        tmp_path, slices=("topic",),
        a="trace_id,hate,topic,attempt,rater,rationale,cluster\nx,1,a b,0,7,why,k\ny,0,,0,7,,\n",
    )  # fmt: skip
    assert found.categories == ("hate",)
    assert dict(found.slices) == {"topic": ("a b", None)}
    assert found.clusters == ("k", None)


def test_a_slice_that_is_declared_may_hold_numbers(tmp_path: Path) -> None:
    found = golden(tmp_path, slices=("year",), a="trace_id,hate,year\nx,1,2025\ny,0,2026\n")
    assert (found.categories, dict(found.slices)) == (("hate",), {"year": ("2025", "2026")})


def test_all_that_is_wrong_with_several_golden_files_comes_together(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        golden(
            tmp_path, categories=["hate"], slices=("topic",),
            a="trace_id,category,label,topic\nx,hate,2,t\n", b="trace_id,category,label\ny,hate,1\n",
            c="trace_id,category,label,topic\n,hate,1,t\n",
        )  # fmt: skip
    assert [str(problem)[:30] for problem in error.value.problems] == [
        "a.csv:2: label 2 is not a labe", "b.csv: column 'topic' is missi", "c.csv:2: trace_id is empty",
    ]  # fmt: skip


def test_one_golden_file_without_rows_among_others_is_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"b\.csv: has a header but no rows"):
        golden(tmp_path, a="trace_id,hate\nx,1\n", b="trace_id,hate\n")


def test_a_missing_category_and_a_label_that_differs_come_together(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        golden(tmp_path, categories=["hate", "sexual"], a="trace_id,category,label\nx,hate,0\nx,hate,1\n")
    assert len(error.value.problems) == 2


def test_slices_on_which_rows_of_a_trace_disagree_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a\.csv:3: trace 'x' has topic 'u' here and 't' before"):
        golden(tmp_path, a="trace_id,category,label,topic\nx,hate,0,t\nx,sexual,1,u\n")


def test_too_many_categories_are_refused(tmp_path: Path) -> None:
    rows = "".join(f"x,c{i},1\n" for i in range(25))
    with pytest.raises(InputError, match="25 categories; at most 24 are possible"):
        golden(tmp_path, a=f"trace_id,category,label\n{rows}")


@IN_FOLDER
@given(
    cells=st.dictionaries(
        st.tuples(st.sampled_from("xyz"), st.integers(0, 2), st.sampled_from(["hate", "sexual"])),
        st.sampled_from(["0", "1", ""]), min_size=1,
    ),
    order=st.randoms(use_true_random=False), batch=st.integers(1, 5),
)  # fmt: skip
def test_a_golden_set_depends_neither_on_the_order_of_rows_nor_on_batches(
    cells: dict[tuple[str, int, str], str], order: Any, batch: int, tmp_path: Path
) -> None:
    rows = [f"{trace},{turn},{category},{label}" for (trace, turn, category), label in cells.items()]
    header = "trace_id,turn,category,label"
    first = golden(tmp_path, a="\n".join([header, *rows]))
    order.shuffle(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.readers.table.TEXT_BATCH_ROWS", batch)
        again = golden(tmp_path, a="\n".join([header, *rows]))
    assert first.sha256 == again.sha256
    for (trace, _, category), label in cells.items():
        found = labels(first)[trace][first.categories.index(category)]
        assert found == 1 or label != "1"
        assert found != 0 or label == "0"


# --- texts ---------------------------------------------------------------------------------------------------------


def test_texts_that_stand_again_with_other_content_are_refused_with_their_line(tmp_path: Path) -> None:
    found = files(tmp_path, a="trace_id,turn,text\nx,0,one\n", b="trace_id,turn,text\nx,0,two\nx,1,two\n")
    with pytest.raises(InputError, match=r"b\.csv:2: trace 'x', turn 0 stands here with other content"):
        load_texts(found)


def test_texts_of_files_with_other_columns_are_one_table(tmp_path: Path) -> None:
    found = load_texts(files(tmp_path, a="trace_id,text\nx,one\n", b="trace_id,turn,text,cluster\ny,3,two,k\n"))
    assert found["trace_id"].tolist() == ["x", "y"]
    assert found["turn"].tolist() == [0, 3]


# --- what a table is ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("trace_id,category,label\nx,hate,1\n", "golden"),
        ("trace_id,category,score\nx,hate,1\n", "scores"),
        ("trace_id,attribute,detected\nx,race,1\n", "detections"),
        ("trace_id,hate,sexual\nx,1,\ny,0,1.0\n", "golden"),
        ("trace_id,hate,topic\nx,1,words\n", "golden"),
        ("trace_id,hate,sexual\nx,0.25,\n", "scores"),
        ("trace_id,turn,hate,judge,cluster\nx,0,0.5,j,k\n", "scores"),
    ],
)
def test_a_table_is_told_by_its_header_and_else_by_its_cells(content: str, expected: str, tmp_path: Path) -> None:
    assert kind_of(files(tmp_path, a=content)) == expected


@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.decimal128(5, 2), pa.bool_(), pa.int8(), pa.null()])
def test_a_table_of_any_plain_type_is_told_and_checked(kind: Any, tmp_path: Path) -> None:
    values = pa.nulls(2, kind) if kind == pa.null() else pa.array([0, 1]).cast(pa.float32()).cast(kind)
    pq.write_table(pa.table({"trace_id": ["x", "y"], "hate": values}), tmp_path / "a.parquet")
    found = [InputFile(path=tmp_path / "a.parquet", name="a.parquet")]
    assert check(found, kind_of(found))["rows"] == 2


def test_a_check_says_what_is_in_a_table_of_scores(tmp_path: Path) -> None:
    content = "trace_id,turn,attempt,hate,sexual,state,judge,target,cluster\n" + "\n".join([
        "x,0,0,0.1,0.2,,j@1,t@1,k", "x,1,0,0.1,,,j@1,t@1,k", "x,0,1,,,judge_error,j@1,t@1,k", "y,4,0,0,0,,j@1,t@1,k",
    ])  # fmt: skip
    found = check(files(tmp_path, a=content), "scores")
    assert (found["rows"], found["traces"], found["units"], found["turns"], found["clusters"]) == (4, 2, 3, 4, 1)
    assert found["accounting"] == {"attempted": 3, "scored": 1, "judge_error": 1, "missing": 1}
    assert found["turns a unit"] == {"1": 2, "2": 1}
    assert found["categories"] == {"hate": {"units without a score": 1}, "sexual": {"units without a score": 2}}
    assert (found["judges"], found["targets"]) == (["j@1"], ["t@1"])


def test_a_check_of_detections_counts_them_on_the_trace(tmp_path: Path) -> None:
    content = "trace_id,turn,race,sex\nx,0,1,0\nx,1,0,1\ny,0,0,0\n"
    found = check(files(tmp_path, a=content), "detections")
    assert found["any detected"] == 1
    assert [row["detected"] for row in found["categories"].values()] == [1, 1]


# --- golden maxima ------------------------------------------------------------------------------------------------


def golden_table(clusters: tuple[str, ...] | None) -> GoldenTable:
    codes = cluster_codes(clusters or [None] * 4)
    return GoldenTable(
        trace_ids=("a", "b", "c", "d"),
        categories=("hate", "a category"),
        labels=np.array([[1, 0], [0, -1], [-1, 1], [0, 0]]),
        maxima=np.array([[0.9, 0.1], [0.25, -np.inf], [0.5, 1.0], [0.0, 0.125]]),
        missing=np.array([[False, False], [False, True], [True, False], [False, False]]),
        n_turns=np.array([1, 3, 2, 9]),
        cluster_names=clusters,
        clusters=codes,
        clustered=bool(np.bincount(codes).max() > 1),
        slices={"topic": ("x", None, "y", "x")},
        n_unmatched=2,
    )


@pytest.mark.parametrize("clusters", [None, ("t", "", "t", "u")])
@pytest.mark.parametrize("order", [("hate", "a category"), ("a category", "hate")])
def test_golden_maxima_are_read_back_as_they_were_in_any_order_of_categories(
    clusters: tuple[str, ...] | None, order: tuple[str, ...], tmp_path: Path
) -> None:
    table = golden_table(clusters)
    assert write_golden_maxima(table, tmp_path / "m.parquet") == 4
    file = InputFile(path=tmp_path / "m.parquet", name="m.parquet")
    found = read_golden_maxima(file, order, n_unmatched=2)
    columns = [table.categories.index(name) for name in order]
    assert (found.categories, found.trace_ids, found.slices) == (order, table.trace_ids, table.slices)
    assert found.labels.tolist() == table.labels[:, columns].tolist()
    assert found.missing.tolist() == table.missing[:, columns].tolist()
    scored = ~found.missing
    assert found.maxima[scored].tolist() == table.maxima[:, columns][scored].tolist()
    assert found.n_turns.tolist() == table.n_turns.tolist()
    assert found.clusters.tolist() == table.clusters.tolist()
    assert (found.cluster_names, found.clustered, found.n_unmatched) == (clusters, clusters is not None, 2)


def test_another_table_is_no_golden_maxima(tmp_path: Path) -> None:
    write_golden_maxima(golden_table(None), tmp_path / "m.parquet")
    (tmp_path / "text.parquet").write_text("not Parquet")
    for name, categories in (("m.parquet", ["violence"]), ("text.parquet", ["hate"])):
        with pytest.raises(InputError, match="is no golden_maxima file of"):
            read_golden_maxima(InputFile(path=tmp_path / name, name=name), categories)
