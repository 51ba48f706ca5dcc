"""The command line itself: help, exit codes, what goes to which stream, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from core.errors import MismatchError
from flows.cli import COMMANDS

HEAVY = {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "prefect", "mlflow", "boto3", "pydantic", "rich", "yaml"}
RUN = "from flows.cli import main; import sys\ntry: main(sys.argv[1:])\nfinally: print(*sys.modules, file=sys.stderr)"


def loaded_by(*arguments: object) -> set[str]:
    command = [sys.executable, "-c", RUN, *map(str, arguments)]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in result.stderr.split()}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--help", "-h"])
def test_every_command_has_help(command: str, option: str, assay: Any) -> None:
    outcome = assay(command, option)
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith(f"Usage: assay {command} ")


def test_help_names_every_command_and_the_exit_codes(assay: Any) -> None:
    outcome = assay("--help")
    assert outcome.code == 0
    assert all(f"  {command} " in outcome.out for command in COMMANDS)
    assert "Exit codes:" in outcome.out


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_shows_no_markup_and_every_example_on_a_line_of_its_own(command: str, assay: Any) -> None:
    text = assay(*command.split(), "--help").out
    assert "\\" not in text
    assert "\b" not in text
    lines = [line for line in text.splitlines() if line.count("assay ") and not line.startswith("Usage")]
    assert all(line.startswith("    assay ") or "assay init mine" in line for line in lines if "`" not in line), lines
    examples = [line for line in lines if line.startswith("    assay ")]
    assert len(examples) == {"": 5, "demo": 0}.get(command, len(examples) or -1)


def test_help_and_version_load_no_library_that_computes() -> None:
    assert not loaded_by("--help") & HEAVY
    assert not loaded_by("--version") & HEAVY


def test_help_of_a_command_loads_no_library_that_computes() -> None:
    assert not loaded_by("measure", "--help") & HEAVY


def test_checking_a_file_loads_neither_scikit_learn_nor_a_service_library(world: Any) -> None:
    assert not loaded_by("check", world.production) & {"sklearn", "scipy", "prefect", "mlflow", "boto3"}


def test_no_command_shows_help_and_is_a_mistake(assay: Any) -> None:
    outcome = assay()
    assert outcome.code == 2
    assert "Commands:" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["mesure"], "No such command 'mesure'"),
        (["measure"], "Missing argument 'FILE...'"),
        (["measure", "a.csv", "--calibraton", "x"], "Did you mean '--calibration'?"),
        (["measure", "a.csv", "--calibration", "c", "--confidence-level", "1"], "not in the range 0<x<=0.9999"),
        (["measure", "a.csv", "--calibration", "c", "--attempts", "best"], "'best' is not one of"),
        (["calibrate"], "name the golden set, or give --declared"),
        (["calibrate", "g.csv"], "give either --scores FILE or --judge NAME"),
        (["calibrate", "g.csv", "--scores", "s", "--judge", "j"], "give either --scores FILE or --judge NAME"),
        (["calibrate", "g.csv", "--declared", "d"], "--declared stands alone"),
        (["verify", "m.json", "--inputs", "none"], "does not exist"),
        (["--log-format", "xml", "check", "a"], "'xml' is not one of 'text', 'json'"),
    ],
)
def test_a_wrong_usage_is_exit_2_with_a_pointer_to_help(arguments: list[str], expected: str, assay: Any) -> None:
    outcome = assay(*arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert expected in outcome.err


def test_a_usage_error_points_to_the_command_s_help(assay: Any) -> None:
    assert "see `assay measure --help`" in assay("measure").err


# --- streams ----------------------------------------------------------------------------------------------------


def test_json_is_the_record_and_nothing_else(assay: Any, world: Any, tmp_path: Path) -> None:
    record = tmp_path / "m.json"
    command = ("measure", world.production, "--calibration", world.calibration, "-o", record)
    outcome = assay(*command, "--json")
    assert outcome.code == 0
    assert outcome.out == record.read_text()
    assert f"record: {record}" in outcome.err
    shown = assay(*command)
    assert (shown.err, shown.out.splitlines()[-1]) == ("", f"record: {record}")
    assert "\x1b" not in shown.out


def test_calibrating_with_json_is_the_record_and_nothing_else(assay: Any, world: Any, tmp_path: Path) -> None:
    record = tmp_path / "c.json"
    outcome = assay(
        "calibrate", world.golden, "--scores", world.scores, "--instrument", world.instrument, "-o", record, "--json"
    )
    assert outcome.out == record.read_text()
    document = json.loads(outcome.out)
    assert document["schema"] == "assay.calibration/1"
    assert document["outputs"][0]["uri"] == "c.golden_maxima.parquet"


def test_checking_with_json_is_the_summary_and_nothing_else(assay: Any, world: Any) -> None:
    outcome = assay("check", world.golden, "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.record["composite"] == {"positive": 40, "negative": 20, "undecidable": 0}
    scores = assay("check", world.production, "--json").record
    assert (scores["kind"], scores["units"], scores["turns"]) == ("scores", 40, 80)


def test_errors_as_json_are_one_object_a_problem(assay: Any, bench: Any) -> None:
    path = bench.file("a.csv", "trace_id,hate,violence\nx,7,0\ny,0,8\n")
    command = ("measure", path, "--calibration", bench.world.calibration, "-o", bench.out / "m.json")
    for option in (("--log-format", "json"), ("--log-format=json",)):
        outcome = assay(*option, *command)
        rows = [json.loads(line) for line in outcome.err.splitlines()]
        assert [(row["level"], row["source"], row["line"]) for row in rows] == [
            ("error", str(path), 2), ("error", str(path), 3),
        ]  # fmt: skip
    (row,) = map(json.loads, assay("--log-format", "json", "measure").err.splitlines())
    assert row["message"].startswith("Missing argument")


def test_a_record_without_a_place_goes_to_the_user_s_data_under_its_id(
    assay: Any, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tasks.archive.settings", lambda: type("S", (), {"records": None, "records_dir": tmp_path / "records"})
    )
    outcome = assay("measure", world.production, "--calibration", world.calibration, "--json")
    identity = outcome.record["id"]
    assert {path.name for path in (tmp_path / "records").iterdir()} == {
        f"{identity}.json", f"{identity}.decisions.parquet",
    }  # fmt: skip
    command = ("calibrate", world.golden, "--scores", world.scores, "--instrument", world.instrument, "--json")
    calibration = assay(*command).record["id"]
    again = assay("measure", world.production, "--calibration", calibration, "--json")
    assert again.record["id"] == identity


def test_a_mismatch_is_exit_1(assay: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def differ(*_: Any, **__: Any) -> Any:
        raise MismatchError("a figure differs")

    monkeypatch.setattr("flows.pipelines.verification.verify", differ)
    outcome = assay("verify", world.measurement)
    assert (outcome.code, outcome.err) == (1, "error: a figure differs\n")


def test_a_disk_that_is_full_is_a_message_and_leaves_nothing(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("tasks.tables.pq.ParquetWriter", full)
    bench.refused(bench.measure(bench.world.production), "error: cannot read or write: ", "No space left on device")


def test_a_bug_is_neither_a_mismatch_nor_a_traceback(assay: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise KeyError("label")

    monkeypatch.setattr("flows.pipelines.verification.verify", fail)
    outcome = assay("verify", world.measurement)
    assert (outcome.code, outcome.out) == (70, "")
    assert outcome.err.startswith("error: this is a bug in assay: KeyError: 'label'; please report it with ")
    assert "ASSAY_DEBUG=1" in outcome.err
    assert "Traceback" not in outcome.err
    (row,) = map(json.loads, assay("--log-format", "json", "verify", world.measurement).err.splitlines())
    assert row["message"].startswith("this is a bug in assay: KeyError")
    monkeypatch.setenv("ASSAY_DEBUG", "1")
    assert "Traceback (most recent call last)" in assay("verify", world.measurement).err


def test_a_bug_s_traceback_holds_no_password(assay: Any, world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("cannot open postgresql://ada:s3cretpw@db/x")

    monkeypatch.setattr("flows.pipelines.verification.verify", fail)
    monkeypatch.setenv("ASSAY_DEBUG", "1")
    told = assay("verify", world.measurement).err
    assert "RuntimeError: cannot open postgresql://db/x" in told
    assert "s3cretpw" not in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("measure", "a.csv", "--calibration", "c", "--target", "bot\udcff"),
        ("read", "table", "a.csv", "-o", "o.parquet", "--category", "\udcff"),
        ("read", "table", "a.csv", "-o", "o.parquet", "--positive", "\udcff"),
        ("read", "table", "a.csv", "-o", "o.parquet", "--map", "a=\udcff"),
    ],
)
def test_a_name_that_is_not_text_is_refused(arguments: tuple[str, ...], assay: Any) -> None:
    outcome = assay(*arguments)
    assert outcome.code == 2
    assert "is not UTF-8 text" in outcome.err


def test_slices_are_in_the_report_of_a_calibration(bench: Any) -> None:
    header, *rows = bench.world.golden.read_text().splitlines()
    sliced = [f"{row},{'nl' if int(row[1 : row.index(',')]) % 3 else 'fy'}" for row in rows]
    golden = bench.file("g.csv", "\n".join([f"{header},language", *sliced]))
    spec = bench.file("i.yaml", f"{bench.world.instrument.read_text()}slices: [language]\n")
    outcome = bench.calibrate(golden=golden, instrument=spec)
    assert outcome.code == 0
    assert "Composite by language (2 slices, apparent)" in outcome.out


# --- interruption ---------------------------------------------------------------------------------------------------


WHERE = {
    "while counting": ("measure", "flows.pipelines.measurement.measure"),
    "while writing the data file": ("measure", "tasks.storage.file_digest"),
    "while writing the record": ("measure", "tasks.archive.dumped"),
    "while calibrating": ("calibrate", "flows.pipelines.calibration.calibrate"),
    "while reading a table": ("read", "tasks.convert._converted"),
    "while judging": ("judge", "flows.pipelines.judging.atomic"),
}


@pytest.mark.parametrize("moment", WHERE)
@pytest.mark.parametrize("existing", [False, True])
def test_an_interrupted_command_is_exit_130_and_leaves_nothing_half_written(
    moment: str, existing: bool, assay: Any, bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, place = WHERE[moment]
    texts = bench.file("t.csv", "trace_id,text\nx,words\n")
    output = bench.out / "new" / ("o.json" if command in ("measure", "calibrate") else "o.parquet")
    arguments = {
        "measure": (bench.world.production, "--calibration", bench.world.calibration),
        "calibrate": (bench.world.golden, "--scores", bench.world.scores, "--instrument", bench.world.instrument),
        "read": ("table", bench.world.production),
        "judge": ("lexical", texts, "--no-cache"),
    }[command]
    before = '{"schema": "assay.measurement/1"}' if output.suffix == ".json" else "PAR1 and more"
    if existing:
        output.parent.mkdir()
        output.write_text(before)

    def interrupt(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(place, interrupt)
    outcome = assay(command, *arguments, "-o", output)
    assert (outcome.code, outcome.out) == (130, "")
    assert outcome.err == "error: interrupted; nothing was written\n"
    left = [path.name for path in bench.out.rglob("*") if path.is_file()]
    assert left == ([output.name] if existing else [])
    assert not existing or output.read_text() == before
    assert existing or not output.parent.exists()


SLOW = """
import sys, time
import flows.pipelines.measurement as pipeline
measure = pipeline.measure
def slow(*arguments, **options):
    print("counting", flush=True)
    time.sleep(60)
    return measure(*arguments, **options)
pipeline.measure = slow
from flows.cli import main
main(sys.argv[1:])
"""


@pytest.mark.e2e
@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_process_leaves_no_record(stop: signal.Signals, world: Any, project: Path, tmp_path: Path) -> None:
    record = tmp_path / "out" / "m.json"
    arguments = ["measure", world.production, "--calibration", world.calibration, "-o", record]
    with subprocess.Popen(
        [sys.executable, "-c", SLOW, *map(str, arguments)], cwd=project, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "counting\n"
        os.kill(process.pid, stop)
        process.communicate(timeout=30)
    assert process.returncode == (-stop if stop == signal.SIGKILL else 130)
    assert not list(tmp_path.rglob("*.json"))
    assert not [path for path in tmp_path.rglob("*.parquet") if not path.parent.name.startswith(".assay-")]
    if stop != signal.SIGKILL:  # nobody can clean up after that one
        assert list(tmp_path.iterdir()) == []


@pytest.mark.e2e
def test_help_is_immediate(project: Path) -> None:
    best = 9.0
    for _ in range(3):
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "flows.cli", "--help"], cwd=project, check=True, capture_output=True)
        best = min(best, time.monotonic() - began)
    assert best < 0.5


@pytest.mark.e2e
def test_a_reader_that_closes_the_pipe_is_no_error(world: Any, project: Path) -> None:
    code = "import sys; from flows.cli import main; main(sys.argv[1:])"
    for arguments in (["--help"], ["check", str(world.golden)], ["check", "--json", str(world.golden)]):
        with subprocess.Popen(
            [sys.executable, "-c", code, *arguments], cwd=project, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            assert process.stderr.read() == b""
        assert process.returncode == 0
