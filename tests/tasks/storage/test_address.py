"""Addresses are read as they are written, behave like paths, and never hold credentials."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from core.errors import InputError
from flows.cli import main
from tasks.storage import S3Url, find_inputs, place_of
from tasks.storage.s3 import _pattern


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("s3://lab/a.csv", ("lab", "a.csv", None, None)),
        ("s3://lab", ("lab", "", None, None)),
        ("s3://lab/runs/", ("lab", "runs/", None, None)),
        ("s3://lab/a.csv?versionId=v.1", ("lab", "a.csv", "v.1", None)),
        ("s3://lab/a.csv#etag=0f-2", ("lab", "a.csv", None, "0f-2")),
        ("s3://lab/run?.csv", ("lab", "run?.csv", None, None)),
        ("s3://lab/a#b c.csv", ("lab", "a#b c.csv", None, None)),
    ],
)
def test_an_address_is_read_into_its_parts(text: str, parts: tuple[str, str, str | None, str | None]) -> None:
    url = S3Url.parse(text)
    assert (url.bucket, url.key, url.version, url.etag) == parts
    assert str(url) == (text if "/" in text[5:] else f"{text}/")


def test_an_address_has_the_parts_of_a_path() -> None:
    url = S3Url.parse("s3://lab/runs/1/m.json?versionId=7")
    assert (url.name, url.stem, url.suffix) == ("m.json", "m", ".json")
    assert str(url.parent) == "s3://lab/runs/1"
    assert str(url.with_name("m.decisions.parquet")) == "s3://lab/runs/1/m.decisions.parquet"
    assert str(url.latest) == "s3://lab/runs/1/m.json"
    assert str(S3Url.parse("s3://lab") / "a.json") == str(S3Url.parse("s3://lab/") / "a.json") == "s3://lab/a.json"
    assert str(S3Url.parse("s3://lab/a.json").with_name("b")) == "s3://lab/b"


@pytest.mark.parametrize(
    "text",
    [
        "s3://AKIAKEY:hush@lab/a.csv",
        "s3://AKIAKEY:hu/sh@lab/a.csv",
        "s3://hush@lab/a.csv",
        "s3://lab/a.csv?X-Amz-Credential=hush&X-Amz-Signature=hush",
        "s3://lab/a.csv?AWSAccessKeyId=hush",
        "https://me:hush@example.org/a.csv",
    ],
)
def test_an_address_with_credentials_is_refused_and_they_are_not_repeated(text: str) -> None:
    with pytest.raises(InputError) as refused:
        place_of(text)
    assert "hush" not in str(refused.value)
    assert "AKIAKEY" not in str(refused.value)
    with pytest.raises(InputError) as refused:
        find_inputs([text], ["table"])
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("text", ["s3://", "s3:///a.csv", "s3://la b/a.csv"])
def test_an_address_without_a_bucket_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        S3Url.parse(text)


@pytest.mark.parametrize("output", ["s3://lab", "s3://lab/", "s3://lab/runs/", "s3://lab/a.json?versionId=7"])
def test_an_output_needs_the_name_of_an_object(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", "golden.csv", "--judge", "lexical", "-o", output])
    assert ended.value.code == 2
    assert "names no object" in capsys.readouterr().err


def test_an_output_must_not_be_an_input_in_object_storage_either(capsys: pytest.CaptureFixture[str]) -> None:
    url = "s3://lab/a.parquet"
    with pytest.raises(SystemExit) as ended:
        main(["judge", "lexical", f"table:{url}", "-o", url])
    assert ended.value.code == 2
    assert "is an input" in capsys.readouterr().err


def test_anything_without_a_scheme_is_a_path() -> None:
    assert place_of("runs/a.csv") == Path("runs/a.csv")


@pytest.mark.parametrize(
    ("glob", "key", "matches"),
    [
        ("runs/*.parquet", "runs/a.parquet", True),
        ("runs/*.parquet", "runs/b/a.parquet", False),
        ("runs/**/*.parquet", "runs/b/c/a.parquet", True),
        ("runs/**/*.parquet", "runs/a.parquet", True),
        ("runs/**", "runs/b/a.parquet", True),
        ("r?ns/[ab].csv", "runs/a.csv", True),
        ("r?ns/[!ab].csv", "runs/a.csv", False),
        ("a+b/*.csv", "aab/x.csv", False),
    ],
)
def test_a_pattern_matches_keys_as_it_would_match_paths(glob: str, key: str, matches: bool) -> None:
    import re

    assert bool(re.fullmatch(_pattern(glob), key)) is matches


def test_local_work_does_not_import_boto3(project: Path) -> None:
    code = (
        "import sys, tasks.archive, tasks.finder, tasks.tables, tasks.storage as s; s.find_inputs(['README.md'], []); "
        "print(sorted(name for name in sys.modules if name.startswith('boto')))"
    )
    result = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True)
    assert (result.stdout.strip(), result.stderr) == ("[]", "")
