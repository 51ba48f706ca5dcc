"""`assay verify`: 0 when every figure comes out again, 1 when something has changed, 2 when nothing can be said."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from core.records import record_id
from tasks.judges.lexical import LexicalJudge


class Archive:
    """A copy of the small world in which things may be changed; its records name their inputs here."""

    def __init__(self, assay: Any, folder: Path, world: Any) -> None:
        self.assay, self.folder = assay, folder
        for name in ("golden.csv", "scores.csv", "production.csv", "instrument.yaml"):
            shutil.copy(world.folder / name, folder)
        self.production, self.calibration = folder / "production.csv", folder / "calibration.json"
        self.calibrate()
        self.measurement = folder / "measurement.json"
        self.measure(self.calibration)

    def calibrate(self, *options: object) -> None:
        outcome = self.assay(
            "calibrate", self.folder / "golden.csv", "--scores", self.folder / "scores.csv",
            "--instrument", self.folder / "instrument.yaml", "-o", self.calibration, *options,
        )  # fmt: skip
        assert outcome.code == 0, outcome.err

    def measure(self, reference: object) -> None:
        outcome = self.assay("measure", self.production, "--calibration", reference, "-o", self.measurement)
        assert outcome.code == 0, outcome.err

    def verify(self, *options: object) -> Any:
        return self.assay("verify", self.measurement, *options)


@pytest.fixture
def archive(assay: Any, world: Any, tmp_path: Path) -> Archive:
    return Archive(assay, tmp_path, world)


def test_intact_records_verify(assay: Any, world: Any) -> None:
    for record in (world.calibration, world.measurement):
        outcome = assay("verify", record)
        assert outcome.code == 0, outcome.err
        assert "every figure re-derived, same id" in outcome.out
        assert ".parquet: intact" in outcome.out


@pytest.mark.parametrize("text", ["0.1", "0.10"])
def test_a_score_file_that_has_changed_is_a_mismatch(text: str, archive: Archive) -> None:
    archive.production.write_text(archive.production.read_text().replace(",0.1\n", f",{text}1\n", 1))
    outcome = archive.verify()
    assert outcome.code == 1
    assert f"{archive.production}: has changed since the record was made" in outcome.err


@pytest.mark.parametrize(
    ("old", "new"), [('"n_flagged": ', '"n_flagged": 1'), ('"target": "', '"target": "x'), ('"seed": ', '"seed": 1')]
)
def test_a_record_that_was_altered_is_a_mismatch(old: str, new: str, assay: Any, world: Any, tmp_path: Path) -> None:
    text = world.measurement.read_text()
    assert old in text
    (tmp_path / "m.json").write_text(text.replace(old, new, 1))
    outcome = assay("verify", tmp_path / "m.json")
    assert outcome.code == 1
    assert "its id does not fit its content" in outcome.err


def test_a_record_that_was_altered_and_given_a_fitting_id_is_still_a_mismatch(archive: Archive) -> None:
    document = json.loads(archive.measurement.read_text())
    document["result"]["composite"]["n_flagged"] -= 1
    document["id"] = record_id(document)
    archive.measurement.write_text(json.dumps(document))
    outcome = archive.verify()
    assert outcome.code == 1
    assert "1 figure(s) come out differently" in outcome.err
    assert "result.composite.n_flagged: recorded" in outcome.err


def test_a_record_may_be_moved_and_formatted_anew(archive: Archive) -> None:
    document = json.loads(archive.measurement.read_text())
    (archive.folder / "elsewhere").mkdir()
    archive.measurement = archive.folder / "elsewhere" / "m.json"
    archive.measurement.write_text(json.dumps(document))
    outcome = archive.verify()
    assert (outcome.code, "decisions.parquet: absent" in outcome.out) == (0, True)


def test_an_output_that_has_changed_is_a_mismatch_and_one_that_is_gone_is_not(archive: Archive) -> None:
    decisions = archive.folder / "measurement.decisions.parquet"
    decisions.write_bytes(decisions.read_bytes() + b"x")
    outcome = archive.verify()
    assert (outcome.code, "decisions.parquet: has changed" in outcome.err) == (1, True)
    decisions.unlink()
    assert archive.verify().code == 0


def test_a_missing_input_is_exit_2_until_its_folder_is_named(archive: Archive) -> None:
    moved = archive.folder / "archive" / "2026"
    moved.mkdir(parents=True)
    archive.production.rename(moved / "another name.csv")
    outcome = archive.verify()
    assert outcome.code == 2
    assert "production.csv: this input is not there; name a folder that holds it with --inputs" in outcome.err
    assert archive.verify("--inputs", archive.folder / "archive").code == 0


def test_moved_golden_sets_are_found_by_digest_too(archive: Archive) -> None:
    moved = archive.folder / "archive"
    moved.mkdir()
    for name in ("golden.csv", "scores.csv"):
        (archive.folder / name).rename(moved / f"old-{name}")
    archive.measurement = archive.calibration
    assert archive.verify().code == 2
    assert archive.verify("--inputs", moved).code == 0


@pytest.mark.parametrize("alias", [False, True])
def test_a_calibration_that_was_overwritten_is_found_by_its_id_or_said_to_be_gone(
    alias: bool, archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    if alias:
        link = archive.folder / "champion.json"
        link.symlink_to(archive.calibration)
        archive.measure(link)
    old = json.loads(archive.calibration.read_text())
    kept = archive.calibration.read_bytes()
    archive.calibrate("--confidence-level", "0.9")
    now = json.loads(archive.calibration.read_text())["id"]
    assert now != old["id"]

    outcome = archive.verify()
    assert outcome.code == 2
    assert f"calibration {old['id'][:12]}... is not to be found" in outcome.err
    assert f"now holds {now[:12]}..." in outcome.err

    elsewhere = archive.folder / "versions"
    elsewhere.mkdir()
    (elsewhere / "any name.json").write_bytes(kept)
    (elsewhere / "other.json").write_text("{}")
    assert archive.verify("--inputs", elsewhere).code == 0

    records = archive.folder / "data" / "records"
    records.mkdir(parents=True)
    (records / f"{old['id']}.json").write_bytes(kept)
    monkeypatch.setattr("tasks.finder.records_folder", lambda: records)
    assert archive.verify().code == 0


@pytest.mark.parametrize("content", ["", "not a record", '{"schema": "assay.calibration/9"}'])
def test_a_calibration_path_that_holds_something_else_by_now_does_not_end_the_search(
    content: str, archive: Archive
) -> None:
    kept = archive.calibration.read_bytes()
    archive.calibration.write_text(content)
    assert archive.verify().code == 2
    (archive.folder / "versions").mkdir()
    (archive.folder / "versions" / "c.json").write_bytes(kept)
    assert archive.verify("--inputs", archive.folder / "versions").code == 0


def test_an_alias_is_resolved_in_the_record(archive: Archive) -> None:
    link = archive.folder / "champion.json"
    link.symlink_to(archive.calibration)
    archive.measure(link)
    (item,) = (i for i in json.loads(archive.measurement.read_text())["inputs"] if i["role"] == "calibration")
    assert item["uri"] == str(archive.calibration.resolve())
    assert item["sha256"] == json.loads(archive.calibration.read_text())["id"]


def test_a_record_without_its_calibration_or_with_inputs_of_no_kind_is_exit_2(archive: Archive) -> None:
    for change in ("drop", "uri"):
        document = json.loads(archive.measurement.read_text())
        if change == "drop":
            document["inputs"] = [item for item in document["inputs"] if item["role"] != "calibration"]
        else:
            document["inputs"] = [{"role": item["role"], "sha256": "0" * 64} for item in document["inputs"]]
        document["id"] = record_id(document)
        changed = archive.folder / f"{change}.json"
        changed.write_text(json.dumps(document))
        outcome = archive.assay("verify", changed)
        assert outcome.code == 2, outcome
        assert outcome.err.startswith("error: ")


@pytest.mark.parametrize("outputs", [None, 3, ["x"], [None], [{"uri": "x"}], [{"sha256": "x", "uri": 3}]])
def test_outputs_of_no_kind_are_exit_2(outputs: Any, archive: Archive) -> None:
    document = json.loads(archive.measurement.read_text()) | {"outputs": outputs}
    archive.measurement.write_text(json.dumps(document))
    outcome = archive.verify()
    assert (outcome.code, "not a whole record" in outcome.err) == (2, True)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"schema": "assay.measurement/2"}', "name: x"])
def test_what_is_not_a_record_cannot_be_verified(content: str, assay: Any, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(content)
    outcome = assay("verify", tmp_path / "m.json")
    assert outcome.code == 2
    assert "m.json: " in outcome.err
    assert assay("verify", tmp_path / "none.json").code == 2
    assert assay("verify", tmp_path).code == 2


def test_a_declared_calibration_and_what_it_measured_verify(assay: Any, world: Any, tmp_path: Path) -> None:
    rates = "{threshold: 0.5, sensitivity: 0.85, n_positive: 200, specificity: 0.93, n_negative: 400, source: card}"
    spec = f"name: d\njudge: {{name: guard}}\ncategories:\n  hate: {rates}\n  violence: {rates}\n"
    (tmp_path / "d.yaml").write_text(spec)
    assert assay("calibrate", "--declared", tmp_path / "d.yaml", "-o", tmp_path / "c.json").code == 0
    outcome = assay(
        "measure", world.production, "--calibration", tmp_path / "c.json", "-o", tmp_path / "m.json", "--json"
    )
    assert outcome.record["result"]["calibration"]["source"] == "declared"
    for name in ("c.json", "m.json"):
        assert assay("verify", tmp_path / name).code == 0


def test_a_detection_measurement_and_its_report_verify(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("trace_id,attribute,detected\na,race,1\nb,race,0\nc,race,0\n")
    (tmp_path / "r.csv").write_text("attribute,rate\nrace,0.5\n")
    (tmp_path / "i.yaml").write_text("name: d\nkind: detections\n")
    record = tmp_path / "m.json"
    command = ("--instrument", tmp_path / "i.yaml", "--reported", tmp_path / "r.csv", "-o", record)
    assert assay("measure", tmp_path / "d.csv", *command).code == 0
    assert assay("verify", record).code == 0
    (tmp_path / "r.csv").write_text("attribute,rate\nrace,0.4\n")
    assert assay("verify", record).code == 1


def test_a_record_whose_judge_ran_verifies_while_the_judge_is_the_same(
    assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"h{i},hate,1,Northlanders are vermin {i}" for i in range(8)] + [f"b{i},hate,0,tea {i}" for i in range(8)]
    (tmp_path / "g.csv").write_text("\n".join(["trace_id,category,label,text", *rows]))
    (tmp_path / "i.yaml").write_text("name: x\ncategories: [hate]\noptimism: {resamples: 20}\n")
    record = tmp_path / "c.json"
    command = ("--judge", "lexical", "--instrument", tmp_path / "i.yaml", "-o", record)
    assert assay("calibrate", tmp_path / "g.csv", *command).code == 0
    assert assay("verify", record).code == 0
    judge = LexicalJudge()
    monkeypatch.setattr(judge, "fingerprint", "another")
    monkeypatch.setattr("flows.pipelines.verification.load_judge", lambda _: judge)
    outcome = assay("verify", record)
    assert (outcome.code, "has another fingerprint than the one that was calibrated" in outcome.err) == (2, True)


def test_a_file_name_that_is_not_text_is_recorded_and_found_again(archive: Archive) -> None:
    odd = archive.folder / os.fsdecode(b"production-\xff.csv")
    archive.production.rename(odd)
    archive.production = odd
    archive.measure(archive.calibration)
    assert archive.verify().code == 0
