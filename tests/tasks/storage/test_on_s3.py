"""Against a real S3 server: inputs, records and outputs may all be objects."""

from __future__ import annotations

import contextlib
import gc
import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from flows.cli import main
from tasks.builtin.starter import write_starter
from tasks.storage import atomic, file_digest, find_inputs, pinned, place_of, read_bytes, s3, write_text
from tasks.storage.failures import ChangedError

pytestmark = pytest.mark.e2e


@pytest.fixture
def client(object_server: Any, use: Callable[..., None]) -> Any:
    """Client of the server, which the environment leads to."""
    use(**object_server.environment)
    return object_server.client


@pytest.fixture
def bucket(client: Any) -> str:
    """A new bucket."""
    name = f"lab-{uuid.uuid4().hex[:12]}"
    client.create_bucket(Bucket=name)
    return name


@pytest.fixture
def versioned(client: Any, bucket: str) -> str:
    """A new bucket that keeps versions."""
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def run(*arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return int(ended.value.code or 0)


def record(url: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(read_bytes(place_of(url), 10**7, "record"))
    return document


def calibrated_and_measured(client: Any, bucket: str, folder: Path) -> str:
    """Put the starter data into a bucket, calibrate and measure there; returns the bucket's address."""
    write_starter(folder)
    there = f"s3://{bucket}"
    for name in ("golden.csv", "conversations.csv"):
        client.upload_file(str(folder / name), bucket, f"in/{name}")
    instrument = str(folder / "instrument.yaml")
    assert run("judge", "lexical", f"{there}/in/conversations.csv", "-o", f"{there}/scores/1.parquet") == 0
    arguments = ["--judge", "lexical", "--instrument", instrument, "-o", f"{there}/records/calibration.json"]
    assert run("calibrate", f"{there}/in/golden.csv", *arguments) == 0
    calibration = f"{there}/records/calibration.json"
    assert run("measure", f"{there}/scores/", "--calibration", calibration, "-o", f"{there}/records/m.json") == 0
    return there


def test_everything_may_be_in_a_bucket_and_the_record_is_the_same_as_from_files(
    client: Any, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = calibrated_and_measured(client, bucket, tmp_path / "mine")
    assert run("verify", f"{there}/records/calibration.json") == 0
    assert run("verify", f"{there}/records/m.json") == 0
    assert "m.decisions.parquet: intact" in capsys.readouterr().out
    uris = {item["role"]: item["uri"] for item in record(f"{there}/records/m.json")["inputs"]}
    assert uris["scores"].startswith(f"{there}/scores/1.parquet#etag=")
    assert uris["calibration"].startswith(f"{there}/records/calibration.json#etag=")

    for key in ("scores/1.parquet", "records/calibration.json"):
        client.download_file(bucket, key, str(tmp_path / key.rpartition("/")[2]))
    local = ["measure", str(tmp_path / "1.parquet"), "--calibration", str(tmp_path / "calibration.json")]
    assert run(*local, "-o", str(tmp_path / "m.json")) == 0
    here = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert here["id"] == record(f"{there}/records/m.json")["id"]


def test_an_audit_may_be_in_a_bucket_and_is_the_same_record_as_from_files(
    client: Any, bucket: str, tmp_path: Path
) -> None:
    write_starter(tmp_path / "mine")
    table, spec = tmp_path / "mine" / "predictions.csv", str(tmp_path / "mine" / "predictions-audit.yaml")
    client.upload_file(str(table), bucket, "decisions/predictions.csv")
    there = f"s3://{bucket}"
    assert run("audit", f"{there}/decisions/", "--spec", spec, "-o", f"{there}/records/a.json") == 0
    assert run("audit", str(table), "--spec", spec, "-o", str(tmp_path / "a.json")) == 0
    here = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert here["id"] == record(f"{there}/records/a.json")["id"]
    assert run("verify", f"{there}/records/a.json") == 0


def test_verify_reads_the_recorded_versions_after_all_were_overwritten(
    client: Any, versioned: str, tmp_path: Path
) -> None:
    there = calibrated_and_measured(client, versioned, tmp_path / "mine")
    for key in ("scores/1.parquet", "records/calibration.json", "in/golden.csv"):
        client.put_object(Bucket=versioned, Key=key, Body=b"something else")
    assert run("verify", f"{there}/records/m.json") == 0


def test_verify_tells_an_overwritten_input_and_finds_it_elsewhere_by_its_digest(
    client: Any, bucket: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = calibrated_and_measured(client, bucket, tmp_path / "mine")
    kept = tmp_path / "kept"
    kept.mkdir()
    client.download_file(bucket, "scores/1.parquet", str(kept / "other-name.parquet"))
    client.put_object(Bucket=bucket, Key="scores/1.parquet", Body=b"something else")
    assert run("verify", f"{there}/records/m.json") == 1
    assert "has changed since the record was made" in capsys.readouterr().err
    assert run("verify", f"{there}/records/m.json", "--inputs", str(kept)) == 0
    client.delete_object(Bucket=bucket, Key="scores/1.parquet")
    assert run("verify", f"{there}/records/m.json") == 2


def test_verify_tells_an_output_that_was_overwritten(client: Any, bucket: str, tmp_path: Path) -> None:
    there = calibrated_and_measured(client, bucket, tmp_path / "mine")
    client.put_object(Bucket=bucket, Key="records/m.decisions.parquet", Body=b"something else")
    assert run("verify", f"{there}/records/m.json") == 1


def test_records_without_a_name_go_to_the_records_folder_and_are_written_once(
    client: Any,
    versioned: str,
    tmp_path: Path,
    use: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    there = calibrated_and_measured(client, versioned, tmp_path / "mine")
    use(ASSAY_RECORDS=f"{there}/archive")
    arguments = ["measure", f"{there}/scores/*.parquet", "--calibration", f"{there}/records/calibration.json"]
    written: list[str] = []
    put = s3.put_once

    def noted(path: Path, url: s3.S3Url) -> bool:
        written.append(url.suffix)
        return put(path, url)

    monkeypatch.setattr(s3, "put_once", noted)
    capsys.readouterr()
    assert run(*arguments, "--json") == 0
    assert written == [".parquet", ".json"]
    first = json.loads(capsys.readouterr().out)
    assert run(*arguments, "--json") == 0
    assert json.loads(capsys.readouterr().out) == first
    versions = client.list_object_versions(Bucket=versioned, Prefix="archive/")["Versions"]
    stem = f"archive/{first['id']}"
    assert sorted(item["Key"] for item in versions) == [f"{stem}.decisions.parquet", f"{stem}.json"]
    assert run("verify", f"{there}/{stem}.json") == 0
    calibration = record(f"{there}/records/calibration.json")
    client.copy_object(
        Bucket=versioned, Key=f"archive/{calibration['id']}.json",
        CopySource={"Bucket": versioned, "Key": "records/calibration.json"},
    )  # fmt: skip
    assert run("measure", f"{there}/scores/", "--calibration", calibration["id"]) == 0


def test_a_certificate_in_a_shared_records_folder_is_found_by_the_measurements_of_every_machine(
    client: Any, bucket: str, tmp_path: Path, use: Callable[..., None]
) -> None:
    there = calibrated_and_measured(client, bucket, tmp_path / "mine")
    use(ASSAY_RECORDS=f"{there}/shared/")
    calibration = f"{there}/records/calibration.json"
    options = ["--replications", "4", "--units", "60", "--workers", "1"]
    assert run("simulate", "--calibration", calibration, *options) == 0
    use(ASSAY_DATA_DIR=str(tmp_path / "another machine"), ASSAY_CACHE_DIR=str(tmp_path / "its cache"))
    assert run("measure", f"{there}/scores/", "--calibration", calibration, "-o", f"{there}/records/m2.json") == 0
    measured = record(f"{there}/records/m2.json")
    link = measured["result"]["calibration"]["certificate"]
    (reference,) = (item for item in measured["inputs"] if item["role"] == "certificate")
    assert reference["sha256"] == link["id"]
    assert reference["uri"].startswith(f"{there}/shared/{link['id']}.json#etag=")
    for url in (f"{there}/records/m2.json", f"{there}/shared/{link['id']}.json"):
        assert run("verify", url) == 0


def test_prefixes_and_patterns_name_data_files(client: Any, bucket: str) -> None:
    keys = ["a/1.csv", "a/2.csv", "a/b/3.csv", "a/_4.csv", "a/notes.txt", "ab/5.csv", "a/6[x].csv"]
    for key in keys:
        client.put_object(Bucket=bucket, Key=key, Body=b"trace_id\nt\n")

    def found(key: str) -> list[str]:
        return [item.name.removeprefix(f"s3://{bucket}/") for item in find_inputs([f"s3://{bucket}/{key}"], [])]

    assert found("a/") == found("a") == ["a/1.csv", "a/2.csv", "a/6[x].csv", "a/b/3.csv"]
    assert found("a/?.csv") == ["a/1.csv", "a/2.csv"]
    assert found("**/[35].csv") == ["a/b/3.csv", "ab/5.csv"]
    assert found("a/6[x].csv") == ["a/6[x].csv"]
    (file,) = find_inputs([f"hatecheck:s3://{bucket}/ab/5.csv"], ["hatecheck"])
    assert file.uri.startswith(f"hatecheck:s3://{bucket}/ab/5.csv#etag=")
    with pytest.raises(InputError, match="named twice"):
        find_inputs([f"s3://{bucket}/a/1.csv", f"s3://{bucket}/a/*.csv"], [])


def test_wrong_keys_and_a_missing_bucket_are_bad_input(
    client: Any, bucket: str, use: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    missing = f"s3://{bucket}-not"
    for argument in (f"{missing}/a.csv", f"{missing}/", f"{missing}/*.csv"):
        assert run("check", argument) == 2
        assert "there is no such bucket" in capsys.readouterr().err
    with pytest.raises(InputError, match="there is no such bucket"):
        write_text(place_of(f"{missing}/a.json"), "{}")
    use(AWS_SECRET_ACCESS_KEY="wrong")
    for argument in (f"s3://{bucket}/a.csv", f"s3://{bucket}/"):
        assert run("check", argument) == 2
        assert "access was refused (403" in capsys.readouterr().err


def test_an_object_overwritten_between_listing_and_reading_is_told(client: Any, versioned: str) -> None:
    client.put_object(Bucket=versioned, Key="a.csv", Body=b"trace_id\nold\n")
    (listed,) = s3.find(s3.S3Url.parse(f"s3://{versioned}/*.csv"))
    client.put_object(Bucket=versioned, Key="a.csv", Body=b"trace_id\nnew\n")
    with pytest.raises(ChangedError, match=r"a\.csv.*has changed since it was found"):
        s3.fetch([listed])


def test_an_object_overwritten_between_looking_it_up_and_reading_is_read_in_its_old_version(
    client: Any, versioned: str
) -> None:
    url = place_of(f"s3://{versioned}/a.csv")
    client.put_object(Bucket=versioned, Key="a.csv", Body=b"trace_id\nold\n")
    found = pinned(url)
    client.put_object(Bucket=versioned, Key="a.csv", Body=b"trace_id\nnew\n")
    (file,) = find_inputs([str(found)], [])
    assert file.path.read_bytes() == b"trace_id\nold\n"
    assert file.uri == str(found)
    assert "?versionId=" in file.uri


def test_a_download_goes_on_from_what_an_earlier_one_left(client: Any, bucket: str) -> None:
    content = bytes(range(256)) * 4096
    client.put_object(Bucket=bucket, Key="a.csv", Body=content)
    (file,) = find_inputs([f"s3://{bucket}/a.csv"], [])
    assert file.path.read_bytes() == content
    part = file.path.with_name(f"{file.path.name}.part")
    file.path.unlink()
    part.write_bytes(b"." * 1000)  # not what the object begins with: proof that only the rest is asked for
    (file,) = find_inputs([f"s3://{bucket}/a.csv"], [])
    assert file.path.read_bytes() == b"." * 1000 + content[1000:]
    assert not part.exists()


def test_copies_are_evicted_to_stay_within_the_bound(client: Any, bucket: str, use: Callable[..., None]) -> None:
    for name in "abc":
        client.put_object(Bucket=bucket, Key=f"{name}.csv", Body=name.encode() * 1000)
    use(ASSAY_CACHE_BYTES="2500")
    (a,) = find_inputs([f"s3://{bucket}/a.csv"], [])
    (b,) = find_inputs([f"s3://{bucket}/b.csv"], [])
    path = b.path
    del b
    gc.collect()
    (c,) = find_inputs([f"s3://{bucket}/c.csv"], [])
    assert (a.path.exists(), path.exists(), c.path.exists()) == (True, False, True)
    with pytest.raises(InputError, match="ASSAY_CACHE_BYTES"):
        find_inputs([f"s3://{bucket}/"], [])


def test_an_object_is_written_once_when_its_name_says_its_content(client: Any, bucket: str, tmp_path: Path) -> None:
    url = s3.S3Url.parse(f"s3://{bucket}/abc.json")
    (tmp_path / "one").write_bytes(b"one")
    assert s3.put_once(tmp_path / "one", url)
    assert not s3.put_once(tmp_path / "one", url)
    with atomic(url, once=True) as temporary:
        temporary.write_bytes(b"two")
    assert read_bytes(url, 10, "record") == b"one"
    with atomic(url) as temporary:
        temporary.write_bytes(b"two")
    assert read_bytes(url, 10, "record") == b"two"


def test_a_record_names_the_bytes_that_stand_there_when_another_machine_wrote_them(
    client: Any, bucket: str, tmp_path: Path, use: Callable[..., None]
) -> None:
    there = calibrated_and_measured(client, bucket, tmp_path / "mine")
    identity = record(f"{there}/records/m.json")["id"]
    client.put_object(Bucket=bucket, Key=f"archive/{identity}.decisions.parquet", Body=b"the same rows, other bytes")
    use(ASSAY_RECORDS=f"{there}/archive")
    assert run("measure", f"{there}/scores/", "--calibration", f"{there}/records/calibration.json") == 0
    assert run("verify", f"{there}/archive/{identity}.json") == 0


def test_nothing_appears_when_the_work_fails(client: Any, bucket: str) -> None:
    url = place_of(f"s3://{bucket}/a.json")
    with contextlib.suppress(ZeroDivisionError), atomic(url) as temporary:
        temporary.write_bytes(b"half")
        raise ZeroDivisionError
    assert "Contents" not in client.list_objects_v2(Bucket=bucket)


def test_a_large_object_is_sent_in_parts_and_comes_back_whole(
    client: Any, bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "SINGLE_PUT", 5 * 2**20)
    big = tmp_path / "big.csv"
    big.write_bytes(bytes(range(251)) * 50_000)
    url = s3.S3Url.parse(f"s3://{bucket}/big.csv")
    assert s3.put_once(big, url)
    (file,) = find_inputs([str(url)], [])
    assert file_digest(file.path) == file_digest(big)
    assert not s3.put_once(big, url)
    s3.put(big, url)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)
