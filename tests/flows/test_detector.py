"""A detector from the command line: calibrated, certified, measured, verified, tracked; kinds are not mixed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from core.instrument.calibrated import DetectorCalibration
from core.instrument.measured import CorrectedDetections, DetectionMeasurement
from core.records import build
from tasks.archive import find_calibration, load_record
from tasks.reporting.markdown import category_rows
from tasks.settings import settings
from tasks.tracking import facts

SPEC = 'name: fairness\nkind: detections\ncategories: [race, sex]\njudge: {name: lens, version: "1"}\n'


def truth(i: int) -> dict[str, int]:
    return {"race": int(i % 4 == 0), "sex": int(i % 5 == 0)}


def found(i: int, name: str) -> int:
    """Misses one in ten and raises one false alarm in twenty, each attribute on traces of its own."""
    wrong = i % 10 == (0 if name == "race" else 5) if truth(i)[name] else i % 20 == (1 if name == "race" else 3)
    return 1 - truth(i)[name] if wrong and i >= 20 else truth(i)[name]


def table(n: int, prefix: str, value: Any, header: str) -> str:
    rows = [f"{prefix}{i},{name},{value(i, name)}" for i in range(n) for name in ("race", "sex")]
    return "\n".join([header, *rows, ""])


@dataclass(frozen=True)
class Laboratory:
    golden: Path
    detections: Path
    production: Path
    instrument: Path
    calibration: Path
    measurement: Path


@pytest.fixture(scope="module")
def lab(assay: Any, tmp_path_factory: pytest.TempPathFactory) -> Laboratory:
    """A golden set, a detector's decisions on it and in production, and the two records."""
    folder = tmp_path_factory.mktemp("detector")
    names = ("golden.csv", "detections.csv", "production.csv", "fairness.yaml", "detector.json", "measurement.json")
    made = Laboratory(*(folder / name for name in names))
    made.golden.write_text(table(400, "g", lambda i, name: truth(i)[name], "trace_id,category,label"))
    made.detections.write_text(table(400, "g", found, "trace_id,attribute,detected"))
    made.production.write_text(table(300, "p", found, "trace_id,attribute,detected"))
    made.instrument.write_text(SPEC)
    calibrated = assay(
        "calibrate", made.golden, "--detections", made.detections, "--instrument", made.instrument,
        "-o", made.calibration,
    )  # fmt: skip
    assert calibrated.code == 0, calibrated.err
    measured = assay("measure", made.production, "--calibration", made.calibration, "-o", made.measurement)
    assert measured.code == 0, measured.err
    return made


@pytest.fixture(autouse=True)
def _own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A data folder of the test's own: no test finds the certificate of another."""
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.cache_clear()


def test_a_calibrated_detector_is_an_ordinary_calibration_of_kind_detections(lab: Laboratory) -> None:
    record = load_record(lab.calibration)
    assert record["schema"] == "assay.calibration/1"
    assert (record["spec"]["kind"], record["result"]["kind"]) == ("detections", "detections")
    assert record["spec"]["optimism"]["method"] == "none"
    assert {item["role"] for item in record["inputs"]} == {"golden", "detections"}
    assert isinstance(find_calibration(str(lab.calibration)).calibration, DetectorCalibration)


def test_production_is_corrected_and_attributes_stay_diagnostic(lab: Laboratory) -> None:
    record = load_record(lab.measurement)
    result = record["result"]
    calibrated = load_record(lab.calibration)["result"]["composite"]
    observed, prevalence = result["composite"]["observed_rate"], result["composite"]["prevalence"]
    j = calibrated["sensitivity"] + calibrated["specificity"] - 1
    assert prevalence["status"] == "measured"
    assert prevalence["value"] == pytest.approx((observed + calibrated["specificity"] - 1) / j)
    assert prevalence["interval"]["low"] < prevalence["value"] < prevalence["interval"]["high"]
    assert set(result["attributes"]["race"]) == {"n_units", "n_flagged", "rate", "prevalence"}
    assert result["attributes"]["race"]["rate"] == pytest.approx(sum(found(i, "race") for i in range(300)) / 300)
    assert "categories" not in result
    assert {item["role"] for item in record["inputs"]} == {"detections", "calibration"}
    assert build(CorrectedDetections, result).composite.n_units == 300


def test_both_records_verify_and_a_changed_detection_is_found(assay: Any, lab: Laboratory, tmp_path: Path) -> None:
    for record in (lab.calibration, lab.measurement):
        outcome = assay("verify", record)
        assert outcome.code == 0, outcome.err
        assert "every figure re-derived, same id" in outcome.out
    production, record = tmp_path / "p.csv", tmp_path / "m.json"
    production.write_text(lab.production.read_text())
    assert assay("measure", production, "--calibration", lab.calibration, "-o", record).code == 0
    assert load_record(record)["id"] == load_record(lab.measurement)["id"]
    production.write_text(production.read_text().replace("p7,race,0", "p7,race,1"))
    assert assay("verify", record).code == 1


def test_rates_that_the_detector_reports_stand_beside_the_corrected_ones(
    assay: Any, lab: Laboratory, tmp_path: Path
) -> None:
    (tmp_path / "r.csv").write_text("attribute,rate\nrace,0.9\n")
    command = ("--calibration", lab.calibration, "--reported", tmp_path / "r.csv", "-o", tmp_path / "m.json", "--json")
    result = assay("measure", lab.production, *command).record["result"]
    assert [row["agrees"] for row in result["reported"]] == [False]
    assert any(note.startswith("the detector reports 0.9 for race") for note in result["notes"])
    assert assay("verify", tmp_path / "m.json").code == 0


def test_a_record_from_before_detectors_were_calibrated_reads_and_verifies(assay: Any, lab: Laboratory) -> None:
    """Uncalibrated detections have the fields that they had, and no other."""
    record = lab.measurement.with_name("uncalibrated.json")
    outcome = assay("measure", lab.production, "--instrument", lab.instrument, "-o", record, "--json")
    result = outcome.record["result"]
    assert set(result["attributes"]["race"]) == {"n_units", "n_flagged", "rate"}
    assert not {"left_out", "kind"} & set(result)
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    assert build(DetectionMeasurement, result).attributes["race"].n_units == 300
    assert assay("verify", record).code == 0


# ---- the certificate


def test_the_certificate_of_a_detector_is_found_by_its_measurement(assay: Any, lab: Laboratory, tmp_path: Path) -> None:
    certificate, record = tmp_path / "certificate.json", tmp_path / "m.json"
    small = ("--replications", "20", "--units", "300", "--workers", "1")
    outcome = assay("simulate", "--calibration", lab.calibration, *small, "-o", certificate, "--json")
    assert outcome.code == 0, outcome.err
    result = outcome.record["result"]
    assert "decisions are drawn" in result["notes"][0]
    for fit in (result["calibration"]["categories"]["race"], result["calibration"]["categories"]["sex"]):
        assert fit["simulated_sensitivity"] == pytest.approx(fit["sensitivity"], abs=1e-3)
        assert fit["simulated_specificity"] == pytest.approx(fit["specificity"], abs=1e-3)
    assert result["coverage"] > 0.7
    command = ("--calibration", lab.calibration, "--certificate", certificate, "-o", record)
    assert assay("measure", lab.production, *command).code == 0
    assert load_record(record)["result"]["calibration"]["certificate"]["id"] == outcome.record["id"]
    for made in (certificate, record):
        assert assay("verify", made).code == 0


# ---- kinds are not mixed


@pytest.mark.parametrize("option", ["--scores", "--judge"])
def test_an_instrument_of_kind_detections_takes_detections(
    option: str, assay: Any, lab: Laboratory, tmp_path: Path
) -> None:
    given = lab.detections if option == "--scores" else "lexical"
    outcome = assay("calibrate", lab.golden, option, given, "--instrument", lab.instrument, "-o", tmp_path / "c.json")
    assert outcome.code == 2
    assert "instrument 'fairness' is of kind detections: --detections goes with" in outcome.err


def test_detections_need_an_instrument_that_says_so(assay: Any, lab: Laboratory, bench: Any) -> None:
    command = ("calibrate", lab.golden, "--detections", lab.detections, "-o", bench.out / "c.json")
    bench.refused(assay(*command), "without --instrument the kind is scores: --detections goes with")
    scores = bench.file("i.yaml", "name: safety\n")
    bench.refused(assay(*command, "--instrument", scores), "instrument 'safety' is of kind scores")
    both = (*command, "--scores", lab.detections, "--instrument", lab.instrument)
    bench.refused(assay(*both), "give either --scores FILE or --judge NAME, or --detections FILE")


def test_a_table_of_the_other_kind_is_refused(assay: Any, lab: Laboratory, bench: Any) -> None:
    out = ("-o", bench.out / "m.json")
    bench.refused(
        assay("measure", bench.world.production, "--calibration", lab.calibration, *out),
        "this is a table of scores; measure it with --calibration REF of a judge that scores",
    )
    bench.refused(
        assay("measure", lab.production, "--calibration", bench.world.calibration, *out),
        "this is a table of detections; measure it with --instrument SPEC.yaml (kind: detections) or the calibration",
    )
    wide = bench.file("w.csv", "trace_id,race,sex\na,0.4,0\n")
    bench.refused(assay("measure", wide, "--calibration", lab.calibration, *out), "race 0.4 is neither 0 nor 1")
    bench.refused(
        assay("measure", bench.world.production, "--calibration", bench.world.calibration, "--reported", wide, *out),
        "--reported goes with detections",
    )


def test_a_detector_has_no_optimism_to_ask_for(assay: Any, lab: Laboratory, bench: Any) -> None:
    spec = bench.file("i.yaml", f"{SPEC}optimism: {{method: holdout}}\n")
    command = ("--detections", lab.detections, "--instrument", spec, "-o", bench.out / "c.json")
    bench.refused(assay("calibrate", lab.golden, *command), "optimism.method = 'holdout'", "a detection is a decision")


def test_another_detector_is_refused_unless_accepted(assay: Any, lab: Laboratory, bench: Any) -> None:
    other = bench.file("d.csv", "trace_id,race,sex,judge\n" + "".join(f"x{i},1,0,prism@2\n" for i in range(9)))
    command = ("measure", other, "--calibration", lab.calibration)
    bench.refused(assay(*command, "-o", bench.out / "m.json"), "the calibration's judge is lens@1", "--accept-judge")
    accepted = assay(*command, "--accept-judge", "-o", bench.out / "m.json", "--json").record["result"]
    assert any("measured with prism@2, calibrated with lens@1" in note for note in accepted["notes"])


# ---- what is shown


def test_the_terminal_shows_a_decision_and_says_that_nothing_was_tuned(assay: Any, lab: Laboratory, bench: Any) -> None:
    command = ("--detections", lab.detections, "--instrument", lab.instrument, "-o", bench.out / "c.json")
    shown = assay("calibrate", lab.golden, *command).out
    assert "decision" in shown
    assert "no threshold was chosen on" in shown
    assert "apparent" not in shown
    measured = assay("measure", lab.production, "--calibration", lab.calibration, "-o", bench.out / "m.json").out
    assert "Composite rate, corrected:" in measured
    assert measured.count("diagnostic") == 2
    assert "uncorrected" not in measured


def test_markdown_and_mlflow_show_rates_and_no_threshold(lab: Laboratory) -> None:
    calibration, measurement = load_record(lab.calibration), load_record(lab.measurement)
    assert [row["threshold"] for row in category_rows(calibration)] == ["any", "decision", "decision"]
    assert {len(row) for row in category_rows(measurement)} == {7}
    metrics = facts.calibration_metrics(calibration).metrics
    assert "race.sensitivity" in metrics
    assert not any("threshold" in name for name in metrics)
    assert "| race | decision |" in facts.calibration_text(calibration)
    assert {"composite.prevalence", "race.observed_rate", "race.prevalence_low"} <= set(
        facts.measurement_metrics(measurement).metrics
    )


@pytest.mark.e2e
def test_a_calibrated_detector_is_tracked_and_measured_from_the_registry(
    assay: Any, lab: Laboratory, tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 'mlflow.db'}"
    command = ("--detections", lab.detections, "--instrument", lab.instrument, "--tracking-uri", store, "--promote")
    outcome = assay("calibrate", lab.golden, *command, "--because", "first", "-o", tmp_path / "c.json")
    assert outcome.code == 0, outcome.err
    measured = assay(
        "measure", lab.production, "--calibration", "models:/fairness@champion", "--tracking-uri", store,
        "-o", tmp_path / "m.json",
    )  # fmt: skip
    assert measured.code == 0, measured.err
    mine, known = (json.loads(path.read_text()) for path in (tmp_path / "m.json", lab.measurement))
    assert (mine["id"], mine["result"]) == (known["id"], known["result"])
