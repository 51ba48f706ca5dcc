"""`assay simulate`, and what a certificate does to the measurements of its calibration."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.instrument.spec import InstrumentSpec, OptimismSpec
from core.records import record_id
from core.simulation.spec import CertificateSpec, ChainSpec, CorrectionSpec, ObservedRateSpec
from flows.pipelines.simulation import simulation_spec
from tasks.archive import find_calibration
from tasks.settings import settings

SMALL = ("--replications", "4", "--units", "60", "--workers", "1")

DECLARED = """\
name: vendor
calibration_source: declared
judge: {name: vendor-guard, version: "1"}
categories:
  hate: {threshold: 0.5, sensitivity: 0.9, n_positive: 80, specificity: 0.9, n_negative: 90, source: card}
composite: {sensitivity: 0.85, n_positive: 80, specificity: 0.9, n_negative: 90, source: card}
"""


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder of the test's own: certificates are found through it."""
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    settings.cache_clear()
    yield tmp_path / "data"
    monkeypatch.undo()
    settings.cache_clear()


class Folder:
    """A copy of the small world's calibration, for one test, and what is simulated and measured with it."""

    def __init__(self, assay: Any, folder: Path, world: Any) -> None:
        self.assay, self.folder, self.world = assay, folder, world
        for path in world.folder.glob("calibration.*"):
            shutil.copy(path, folder)
        self.calibration = folder / "calibration.json"

    def certify(self, *options: object, code: int = 0) -> Any:
        outcome = self.assay("simulate", "--calibration", self.calibration, *SMALL, *options)
        assert outcome.code == code, outcome.err
        return outcome

    def measure(self, *options: object, code: int = 0) -> Any:
        outcome = self.assay(
            "measure", self.world.production, "--calibration", self.calibration, "-o", self.folder / "m.json", *options
        )
        assert outcome.code == code, outcome.err
        return outcome

    @property
    def measurement(self) -> Any:
        return json.loads((self.folder / "m.json").read_text())

    @property
    def certificate(self) -> Any:
        return self.measurement["result"]["calibration"]["certificate"]


@pytest.fixture
def place(assay: Any, tmp_path: Path, world: Any) -> Folder:
    return Folder(assay, tmp_path, world)


@pytest.fixture(scope="module")
def certified(assay: Any, world: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A certificate of the small world's calibration; what is asked of it shows in each test."""
    path = tmp_path_factory.mktemp("certified") / "certificate.json"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_DATA_DIR", str(path.parent / "data"))
        settings.cache_clear()
        outcome = assay("simulate", "--calibration", world.calibration, *SMALL, "-o", path, "--json")
    settings.cache_clear()
    assert outcome.code == 0, outcome.err
    return path


def changed(document: Any, **result: Any) -> str:
    """A record with other figures and an id that fits them."""
    document = {**document, "result": {**document["result"], **result}}
    return json.dumps({**document, "id": record_id(document)})


# --- the stages -----------------------------------------------------------------------------------------------------


def test_stage_1_enumerates_and_its_record_verifies(assay: Any, tmp_path: Path) -> None:
    outcome = assay("simulate", "--stage", "1", "--units", "20,40", "--rate", "0.1", "-o", tmp_path / "s.json")
    assert outcome.code == 0, outcome.err
    assert "2 cells, enumerated" in outcome.out
    document = json.loads((tmp_path / "s.json").read_text())
    assert document["schema"] == "assay.simulation/1"
    assert document["spec"] | {"seed": 0} == {
        "stage": 1, "n_units": [20, 40], "rates": [0.1], "confidence_level": 0.95, "seed": 0,
    }  # fmt: skip
    assert (document["inputs"], document["outputs"]) == ([], [])
    verified = assay("verify", tmp_path / "s.json")
    assert (verified.code, "same id" in verified.out) == (0, True)


def test_stage_2_takes_judges_golden_sets_and_level_from_the_command_line(assay: Any) -> None:
    outcome = assay(
        "simulate", "--stage", "2", "--judge", "0.9,0.95", "--judge", "0.7,0.9", "--golden", "30,40:50",
        "--prevalence", "0.1", "--units", "80", "--replications", "5", "--confidence-level", "0.9", "--seed", "7",
        "--workers", "1", "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    document = outcome.record
    assert document["seed"] == 7
    assert document["result"]["confidence_level"] == 0.9
    assert {
        (cell["sensitivity"], cell["n_positive"], cell["n_negative"]) for cell in document["result"]["cells"]
    } == {(0.9, 30, 30), (0.9, 40, 50), (0.7, 30, 30), (0.7, 40, 50)}  # fmt: skip


def test_stage_3_is_the_default_and_simulates_the_given_instrument(assay: Any, world: Any) -> None:
    outcome = assay(
        "simulate", "--instrument", world.instrument, "--youden-j", "0.7", "--golden", "80", "--clusters", "1:1",
        "--prevalence", "0.2", *SMALL, "--json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    spec = outcome.record["spec"]
    assert spec["stage"] == 3
    assert spec["instrument"]["name"] == "small"
    assert spec["instrument"]["optimism"]["method"] == "none"
    assert spec["n_categories"] == 2
    (cell,) = outcome.record["result"]["cells"]
    assert list(cell["production"][0]["categories"]) == ["harm-1", "harm-2"]


@pytest.mark.e2e
def test_a_record_does_not_depend_on_the_workers(place: Folder) -> None:
    options = ("--replications", "60", "--json")
    one, two = (place.certify(*options, "--workers", n, "-o", place.folder / f"{n}.json").record for n in (1, 2))
    assert one["id"] == two["id"]
    assert one["result"] == two["result"]


def test_the_report_is_readable_at_100_columns_lowest_coverage_first(assay: Any, tmp_path: Path) -> None:
    from rich.console import Console

    from tasks.reporting.simulation import simulation_report

    outcome = assay("simulate", "--stage", "2", "--replications", "4", "--units", "100", "--workers", "1", "--json")
    screen = Console(width=100, record=True, file=io.StringIO())
    screen.print(simulation_report(outcome.record))
    text = screen.export_text()
    assert "…" not in text
    assert "Coverage: the share of replications whose interval holds the true rate" in text
    assert "24 more cells are in the record" in text


# --- what is refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--stage", "4"], "'4' is not one of"),
        (["--stage", "1", "--replications", "5"], "--replications means nothing in stage 1"),
        (["--stage", "2", "--youden-j", "0.5"], "--youden-j means nothing in stage 2"),
        (["--stage", "2", "--judge", "0.9"], "is not SENS,SPEC"),
        (["--stage", "2", "--judge", "1.1,0.9"], "is not SENS,SPEC"),
        (["--stage", "2", "--golden", "5:x"], "POSITIVE:NEGATIVE"),
        (["--golden", "50:60"], "--golden is one number in stage 3"),
        (["--golden", "5"], "needs whole numbers from 10"),
        (["--clusters", "8"], "GOLDEN:PRODUCTION"),
        (["--prevalence", "2"], "is not a number from 0 to 1"),
        (["--prevalence", "nan"], "is not a number from 0 to 1"),
        (["--units", "0"], "is not a whole number from 1"),
        (["--units", "1e3"], "is not a whole number from 1"),
        (["--youden-j", "1"], "must lie in [0, 1)"),
        (["--workers", "0"], "--workers"),
        (["--replications", "0"], "--replications"),
        (["--seed", "-1"], "--seed"),
        (["--confidence-level", "1"], "--confidence-level"),
        (["--calibration", "c.json", "--instrument", "i.yaml"], "give --calibration or --instrument"),
        (["--calibration", "c.json", "--confidence-level", "0.9"], "at its calibration's own level"),
        (["--calibration", "c.json", "--golden", "50"], "--golden means nothing in a certificate"),
        (["--calibration", "c.json", "--stage", "2", "--judge", "0.9,0.9"], "leave --judge and --golden out"),
        (["--calibration", "nothing.json"], "there is no such file"),
        (["--instrument", "nothing.yaml"], "there is no such file"),
    ],
)
def test_a_wrong_option_is_exit_2_before_anything_is_simulated(
    options: list[str], says: str, assay: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("flows.pipelines.simulation.carried_out", lambda *_, **__: pytest.fail("it was simulated"))
    outcome = assay("simulate", *options, "-o", "out.json")
    assert outcome.code == 2
    assert says in outcome.err
    assert list(tmp_path.iterdir()) == []


def test_an_output_that_is_the_calibration_or_another_file_is_refused(place: Folder, tmp_path: Path) -> None:
    assert "is an input" in place.certify("-o", place.calibration, "--force", code=2).err
    (tmp_path / "mine.txt").write_text("mine")
    assert "is not a record of assay" in place.certify("-o", tmp_path / "mine.txt", code=2).err


def test_a_detector_has_nothing_to_fit_and_is_simulated_by_its_calibration() -> None:
    detector = InstrumentSpec(name="fairness", kind="detections")
    with pytest.raises(InputError, match="name the detector's --calibration for its certificate"):
        simulation_spec(None, instrument=detector)
    with pytest.raises(InputError, match="only scores have thresholds to fit"):
        simulation_spec(3, grid={"instrument": {"kind": "detections"}})


def test_an_unknown_field_of_a_grid_is_told_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="did you mean 'prevalences'"):
        simulation_spec(3, grid={"prevalence": [0.1]})


def test_a_golden_set_that_has_changed_since_is_refused(place: Folder) -> None:
    maxima = place.folder / "calibration.golden_maxima.parquet"
    maxima.write_bytes(maxima.read_bytes() + b"x")
    assert "has changed since the calibration was made" in place.certify(code=2).err
    maxima.unlink()
    assert "calibration.golden_maxima.parquet: is not there" in place.certify(code=2).err


@pytest.mark.e2e
def test_an_interrupted_simulation_leaves_nothing_behind(place: Folder, own_data: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("assay")), "simulate", "--calibration", str(place.calibration),
        "--replications", "100000", "--workers", "2", "-o", str(place.folder / "out" / "c.json"),
    ]  # fmt: skip
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    time.sleep(6)
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C: to the workers as well
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, "", "error: interrupted; nothing was written\n")
    assert not (place.folder / "out").exists()
    assert not own_data.exists()


# --- what is asked for ----------------------------------------------------------------------------------------------


def test_with_a_calibration_stage_2_takes_its_judge_and_what_its_golden_traces_are_worth(world: Any) -> None:
    calibration = find_calibration(str(world.calibration)).calibration
    spec = simulation_spec(2, calibration=calibration)
    assert isinstance(spec, CorrectionSpec)
    (judge,), (golden,) = spec.judges, spec.golden
    effective = calibration.composite.effective
    assert effective is not None
    assert (judge.sensitivity, judge.specificity) == (
        calibration.composite.sensitivity, calibration.composite.specificity,
    )  # fmt: skip
    assert (golden.n_positive, golden.n_negative) == (round(effective.n_positive), round(effective.n_negative))
    assert simulation_spec(1, calibration=calibration) == ObservedRateSpec()
    assert simulation_spec(3, calibration=calibration) == CertificateSpec()


def test_an_instruments_declarations_are_simulated_and_its_default_resamples_are_fewer() -> None:
    named = InstrumentSpec(
        name="mine", confidence_level=0.9, detection_floor=0.3, interval="melded", turn_bins=(1, 5),
        categories=("a", "b", "c"), slices=("topic",),
    )  # fmt: skip
    spec = simulation_spec(None, instrument=named)
    assert isinstance(spec, ChainSpec)
    simulated = spec.instrument
    assert (simulated.confidence_level, simulated.detection_floor, simulated.interval) == (0.9, 0.3, "melded")
    assert (simulated.turn_bins, simulated.slices, spec.n_categories) == ((1, 5), (), 3)
    assert simulated.optimism == ChainSpec().instrument.optimism
    own = simulation_spec(None, instrument=InstrumentSpec(optimism=OptimismSpec(resamples=70)))
    assert isinstance(own, ChainSpec)
    assert own.instrument.optimism.resamples == 70


# --- certificates ---------------------------------------------------------------------------------------------------


def test_a_certificate_names_its_calibration_and_golden_maxima_and_verifies(
    assay: Any, world: Any, certified: Path, tmp_path: Path
) -> None:
    document = json.loads(certified.read_text())
    calibration = json.loads(world.calibration.read_text())
    (maxima,) = calibration["outputs"]
    assert document["spec"]["stage"] == "certificate"
    assert document["result"]["calibration"]["id"] == calibration["id"]
    assert {item["role"]: (item["sha256"], item["rows"]) for item in document["inputs"]} == {
        "calibration": (calibration["id"], None), "golden_maxima": (maxima["sha256"], 60),
    }  # fmt: skip
    outcome = assay("verify", certified, "--workers", "1")
    assert (outcome.code, "same id" in outcome.out) == (0, True), outcome.err
    altered = tmp_path / "altered.json"
    altered.write_text(changed(document, mean_coverage=0.5))
    outcome = assay("verify", altered, "--workers", "1")
    assert outcome.code == 1
    assert "result.mean_coverage: recorded 0.5" in outcome.err


def test_a_certificate_verifies_where_its_inputs_have_moved_to(place: Folder) -> None:
    place.certify("-o", place.folder / "c.json")
    moved = place.folder / "moved"
    moved.mkdir()
    for path in place.folder.glob("calibration.*"):
        path.rename(moved / path.name)
    missing = place.assay("verify", place.folder / "c.json", "--workers", "1")
    assert (missing.code, "name its folder with --inputs" in missing.err) == (2, True)
    found = place.assay("verify", place.folder / "c.json", "--workers", "1", "--inputs", moved)
    assert found.code == 0, found.err


def test_measurements_find_the_newest_certificate_through_the_note_in_the_records_folder(
    place: Folder, own_data: Path
) -> None:
    place.measure()
    assert place.certificate is None
    outcome = place.certify()
    assert "measurements with this calibration find this certificate by themselves" in outcome.out
    place.certify("--seed", "3", "-o", place.folder / "elsewhere.json")
    newest = json.loads((place.folder / "elsewhere.json").read_text())
    shown = place.measure().out
    assert f"certificate {newest['id'][:12]}" in shown
    assert place.certificate["id"] == newest["id"]
    assert place.certificate["coverage"] == newest["result"]["coverage"]
    assert {"role": "certificate", "sha256": newest["id"], "rows": None} in [
        {key: item[key] for key in ("role", "sha256", "rows")} for item in place.measurement["inputs"]
    ]
    assert place.assay("verify", place.folder / "m.json").code == 0
    (place.folder / "elsewhere.json").unlink()
    assert place.assay("verify", place.folder / "m.json").code == 2
    place.measure()  # it goes on without
    assert place.certificate is None


def test_a_certificate_beside_the_calibration_counts_before_the_note(place: Folder) -> None:
    place.certify("--seed", "3")
    beside = place.folder / "calibration.certificate.json"
    place.certify("-o", beside)
    place.certify("--seed", "4")
    place.measure()
    assert place.certificate["id"] == json.loads(beside.read_text())["id"]
    place.measure("--certificate", "none")
    assert place.certificate is None


def test_a_certificate_of_another_calibration_is_refused_when_named_and_left_out_when_come_across(
    place: Folder, certified: Path
) -> None:
    document = json.loads(certified.read_text())
    other = {**document["result"]["calibration"], "id": "0" * 64}
    beside = place.folder / "calibration.certificate.json"
    beside.write_text(changed(document, calibration=other))
    refused = place.measure("--certificate", beside, code=2)
    assert "is the certificate of calibration 000000000000" in refused.err
    assert not (place.folder / "m.json").exists()
    told = place.measure()
    assert "a certificate was left out" in told.err
    assert place.certificate is None
    assert "is no certificate" in place.measure("--certificate", place.world.measurement, code=2).err
    unnamed = place.assay("measure", place.world.production, "--instrument", "i.yaml", "--certificate", certified)
    assert (unnamed.code, "--certificate goes with --calibration" in unnamed.err) == (2, True)


@pytest.mark.parametrize(("coverage", "sufficient"), [(0.88, False), (0.94, True)])
def test_a_coverage_that_is_not_sufficient_is_said_in_every_measurement(
    coverage: float, sufficient: bool, place: Folder, certified: Path
) -> None:
    document = json.loads(certified.read_text())
    path = place.folder / "told.json"
    path.write_text(changed(document, coverage=coverage, sufficient=sufficient))
    shown = " ".join(place.measure("--certificate", path).out.split())  # lines are wrapped anywhere
    said = "the interval of this instrument covered"
    assert place.certificate["sufficient"] is sufficient
    assert (said in shown) is not sufficient
    assert any(said in note for note in place.measurement["result"]["notes"]) is not sufficient


def test_a_certificate_of_another_level_is_carried_and_that_is_said(place: Folder, certified: Path) -> None:
    place.measure("--certificate", certified, "--confidence-level", "0.9")
    assert place.certificate is not None
    assert any("the certificate was made at 95%" in note for note in place.measurement["result"]["notes"])
    place.measure("--certificate", certified)
    assert not any("the certificate was made at" in note for note in place.measurement["result"]["notes"])


def test_without_a_certificate_the_measurement_says_how_to_make_one_and_imports_no_mlflow(
    place: Folder, project: Path
) -> None:
    code = (
        "import sys; from flows.cli import main\ntry:\n    main(sys.argv[1:])\nexcept SystemExit as end:\n"
        "    assert not end.code, end.code\nprint({'mlflow', 'prefect'} & set(sys.modules))"
    )
    command = [sys.executable, "-c", code, "measure", place.world.production, "--calibration", place.calibration]
    shown = subprocess.run([*command, "-o", place.folder / "m.json"], cwd=project, capture_output=True, text=True)
    assert f"no certificate: `assay simulate --calibration {place.calibration}`" in shown.stdout
    assert shown.stdout.endswith("set()\n"), shown.stderr


def test_a_note_that_is_none_is_told_and_the_measurement_goes_on(place: Folder, own_data: Path) -> None:
    place.certify()
    (note,) = (own_data / "records" / "certificates").glob("*.json")
    note.write_text("[]")
    assert "not a note of assay" in place.measure().err
    assert place.certificate is None


def test_a_records_folder_that_takes_no_note_does_not_fail_the_certificate(place: Folder, own_data: Path) -> None:
    own_data.mkdir()
    (own_data / "records").write_text("in the way")
    outcome = place.certify("-o", place.folder / "c.json")
    assert f"find this certificate with --certificate {place.folder / 'c.json'}" in outcome.out


def test_a_declared_calibration_is_certified_from_its_counts_alone(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "vendor.yaml").write_text(DECLARED)
    assert assay("calibrate", "--declared", tmp_path / "vendor.yaml", "-o", tmp_path / "d.json").code == 0
    outcome = assay("simulate", "--calibration", tmp_path / "d.json", *SMALL, "-o", tmp_path / "c.json")
    assert outcome.code == 0, outcome.err
    document = json.loads((tmp_path / "c.json").read_text())
    assert [item["role"] for item in document["inputs"]] == ["calibration"]
    assert document["result"]["calibration"]["instrument"] == "vendor"
    assert assay("verify", tmp_path / "c.json", "--workers", "1").code == 0


def test_a_calibration_without_a_composite_has_nothing_to_certify(assay: Any, tmp_path: Path) -> None:
    (tmp_path / "vendor.yaml").write_text("\n".join(DECLARED.splitlines()[:-1]))
    assert assay("calibrate", "--declared", tmp_path / "vendor.yaml", "-o", tmp_path / "d.json").code == 0
    for options in ((), ("--stage", "2")):
        outcome = assay("simulate", "--calibration", tmp_path / "d.json", *SMALL, *options, "-o", tmp_path / "c.json")
        assert outcome.code == 2, outcome
        assert "composite" in outcome.err
    assert not (tmp_path / "c.json").exists()
