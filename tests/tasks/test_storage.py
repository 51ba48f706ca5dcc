"""Files: found in a fixed order, written whole or not at all, never replacing what is no file."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.records import FileReference, seal
from tasks.archive import dumped, load_record, scratch_beside, write_record
from tasks.storage import atomic, file_digest, find_inputs, format_of, write_text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.parquet", "sub/c.jsonl.gz", "sub/deep/D.TSV", "notes.txt", ".hidden.csv", "_temporary.csv",
                 ".git/x.csv", "_delta/y.parquet"):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    return tmp_path


def names(folder: Path, *arguments: str, readers: tuple[str, ...] = ("table", "hatecheck")) -> list[str]:
    found = find_inputs([argument.replace("~", str(folder)) for argument in arguments], readers)
    return [f"{item.reader}:{item.path.relative_to(folder)}" for item in found]


def test_a_folder_is_all_its_data_files_in_order_and_none_that_are_hidden(folder: Path) -> None:
    expected = ["table:a.parquet", "table:b.csv", "table:sub/c.jsonl.gz", "table:sub/deep/D.TSV"]
    assert names(folder, "~") == expected
    assert names(folder, "hatecheck:~/sub") == ["hatecheck:sub/c.jsonl.gz", "hatecheck:sub/deep/D.TSV"]


def test_a_pattern_is_all_that_it_matches_in_order(folder: Path) -> None:
    assert names(folder, "~/[ab]*", "~/**/*.TSV") == ["table:a.parquet", "table:b.csv", "table:sub/deep/D.TSV"]


def test_a_name_with_pattern_characters_is_a_name_when_there_is_such_a_file(folder: Path) -> None:
    (folder / "a[1].csv").write_text("x")
    assert names(folder, "~/a[1].csv") == ["table:a[1].csv"]


def test_a_colon_names_a_reader_only_when_there_is_such_a_reader(folder: Path) -> None:
    (folder / "other:b.csv").write_text("x")
    assert names(folder, "~/other:b.csv", "hatecheck:~/b.csv") == ["table:other:b.csv", "hatecheck:b.csv"]


def test_all_that_cannot_be_read_is_told_at_once(folder: Path) -> None:
    (folder / "empty.csv").write_text("")
    (folder / "broken.csv").symlink_to(folder / "gone")
    (folder / "loop.csv").symlink_to(folder / "loop.csv")
    with pytest.raises(InputError) as error:
        names(
            folder,
            "~/empty.csv",
            "~/broken.csv",
            "~/loop.csv",
            "~/none.csv",
            "~/*.nothing",
            "gs://bucket/x",
            "~/b.csv",
            "~/b.csv",
        )
    assert [problem.message for problem in error.value.problems] == [
        "no file matches the pattern", "only local paths and s3://BUCKET/KEY are known", "is empty",
        "there is no such file", "cannot be read: Too many levels of symbolic links", "there is no such file",
        "is named twice; each file counts once",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.csv", ".csv"), ("A.CSV.GZ", ".csv"), ("a.b.jsonl", ".jsonl"), ("a.gz", None), ("csv", None), ("a.xlsx", None)],
)
def test_the_format_is_read_off_the_name(name: str, expected: str | None) -> None:
    assert format_of(Path(name)) == expected


def test_a_digest_is_that_of_the_bytes(folder: Path) -> None:
    assert file_digest(folder / "b.csv") == hashlib.sha256(b"x").hexdigest()


def test_a_file_takes_its_place_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "a.txt"
    with atomic(path) as temporary:
        temporary.write_text("one")
        assert not path.exists()
        assert temporary.parent == path.parent
    assert path.read_text() == "one"
    write_text(path, "two")
    assert [item.name for item in path.parent.iterdir()] == ["a.txt"]
    assert path.read_text() == "two"


def test_a_written_file_has_the_permissions_of_any_other(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_text(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


@pytest.mark.parametrize("error", [KeyboardInterrupt, InputError.of("a", "b"), OSError(28, "No space left on device")])
def test_what_fails_leaves_the_old_file_and_no_new_folder(error: Any, tmp_path: Path) -> None:
    def fail(path: Path) -> None:
        with atomic(path) as temporary:
            temporary.write_text("half")
            raise error

    (tmp_path / "old.txt").write_text("old")
    for name in ("old.txt", "new/deep/a.txt"):
        expected = KeyboardInterrupt if error is KeyboardInterrupt else InputError
        with pytest.raises(expected, match="No space left" if isinstance(error, OSError) else None):
            fail(tmp_path / name)
    assert [(item.name, item.read_text()) for item in tmp_path.iterdir()] == [("old.txt", "old")]


def test_a_folder_that_something_else_stands_in_by_now_is_kept(tmp_path: Path) -> None:
    def interrupted() -> None:
        with atomic(tmp_path / "new" / "a.txt") as temporary:
            (temporary.parent / "theirs.txt").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [item.name for item in (tmp_path / "new").iterdir()] == ["theirs.txt"]


def test_what_is_no_file_is_not_replaced(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "folder"):
        with pytest.raises(InputError, match="is there and is not a file"):
            write_text(tmp_path / name, "x")
    assert {item.name for item in tmp_path.iterdir()} == {"pipe", "folder"}


# --- records on disk --------------------------------------------------------------------------------------------


def document(uri: str = "here") -> dict[str, Any]:
    reference = FileReference(role="scores", sha256="a" * 64, rows=1, uri=uri)
    result = {"n": 1}
    return seal("assay.measurement", spec={}, seed=1, inputs=[reference], result=result, created="", software={})


def test_a_record_is_written_with_its_data_files_and_read_back(tmp_path: Path) -> None:
    record = tmp_path / "out" / "a.json"
    with scratch_beside(record) as folder:
        assert folder.parent == record.parent
        (folder / "d.parquet").write_bytes(b"data")
        written = write_record(document(), record, [("decisions", folder / "d.parquet", 7)])
    assert load_record(record) == written.document
    assert written.document["outputs"] == [
        {"role": "decisions", "uri": "a.decisions.parquet", "sha256": hashlib.sha256(b"data").hexdigest(), "rows": 7}
    ]
    assert {item.name for item in record.parent.iterdir()} == {"a.json", "a.decisions.parquet"}


def test_the_scratch_folder_is_gone_afterwards_and_so_is_the_folder_made_for_it(tmp_path: Path) -> None:
    def interrupted() -> None:
        with scratch_beside(tmp_path / "new" / "a.json") as folder:
            (folder / "x").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_not_utf_8_is_written_as_an_escape_and_comes_back(tmp_path: Path) -> None:
    uri = os.fsdecode(b"/data/\xff.csv")
    sealed = document(uri)
    dumped(sealed).encode("utf-8")
    write_record(sealed, tmp_path / "a.json", [])
    assert load_record(tmp_path / "a.json")["inputs"][0]["uri"] == uri


def test_a_huge_file_is_not_read_as_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tasks.archive.MAX_RECORD_BYTES", 10)
    (tmp_path / "a.json").write_text(" " * 11)
    with pytest.raises(InputError, match=r"is larger than 10 bytes; is this a record\?"):
        load_record(tmp_path / "a.json")


def test_a_place_that_an_option_names_is_whole_in_records_and_other_values_stay(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def options(*asked: str) -> dict[str, str]:
        (file,) = find_inputs([",".join(["tool", *asked]) + ":b.csv"], ["tool"])
        return dict(file.options)

    monkeypatch.chdir(folder)
    for name in ("m.yaml", "none", "worse"):
        (folder / name).write_text("x")
    (folder / "a,b").mkdir()
    assert options("map=m.yaml", "model=sub") == {"map": str(folder / "m.yaml"), "model": str(folder / "sub")}
    assert options("map=none", "higher-is=worse") == {"map": "none", "higher-is": "worse"}
    assert options("map=gone.yaml") == {"map": "gone.yaml"}
    monkeypatch.chdir(folder / "a,b")
    (folder / "a,b" / "m.yaml").write_text("x")
    (folder / "a,b" / "b.csv").write_text("x")
    assert options("map=m.yaml") == {"map": "m.yaml"}, "an option cannot hold a comma"
