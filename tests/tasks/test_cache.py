"""The result cache: reused for the same inputs, spec and code, and for nothing else; damage is recomputed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from core.errors import RecordError
from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec
from flows.pipelines import calibration as calibration_pipeline
from flows.pipelines import measurement as measurement_pipeline
from flows.pipelines.calibration import run_calibration
from flows.pipelines.measurement import run_measurement
from tasks import cache
from tasks.archive import Written, load_record, write_record
from tasks.cache import code_digest
from tasks.judges.lexical import LexicalJudge
from tasks.settings import settings
from tasks.storage import InputFile

SPEC = InstrumentSpec(name="small", categories=("harm",), optimism=OptimismSpec(method="none"))


class Bench:
    """Small files, and the two jobs on them; counts how often something was computed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.computed = folder, 0
        self.golden, self.scores, self.production = (folder / f"{name}.csv" for name in ("golden", "scores", "prod"))
        labels = [(f"t{i}", i % 2) for i in range(40)]
        self.golden.write_text("\n".join(["trace_id,harm,text", *(f"{t},{label},tea {t}" for t, label in labels), ""]))
        rows = [f"{t},{0.9 if label != (i % 10 == 3) else 0.1}" for i, (t, label) in enumerate(labels)]
        self.scores.write_text("\n".join(["trace_id,harm", *rows, ""]))
        self.production.write_text("\n".join(["trace_id,harm", *rows[:20], ""]))
        self.record = folder / "calibration.json"
        run_calibration([str(self.golden)], [str(self.scores)], None, SPEC, output=self.record)

    def calibrate(self, spec: InstrumentSpec = SPEC, *, judge: str | None = None, **options: Any) -> Written:
        scores = [] if judge else [str(self.scores)]
        output = self.folder / "out" / "c.json"
        return run_calibration([str(self.golden)], scores, judge, spec, output=output, **{"reuse": True, **options})

    def measure(self, *, reuse: bool = True, output: str = "m.json", **options: Any) -> Written:
        return run_measurement(
            [str(options.pop("production", self.production))], calibration=str(options.pop("calibration", self.record)),
            output=self.folder / "out" / output, reuse=reuse, **options,
        )  # fmt: skip

    def counted(self, derive: Callable[..., Any]) -> Callable[..., Any]:
        def derived(*arguments: Any, **options: Any) -> Any:
            self.computed += 1
            return derive(*arguments, **options)

        return derived

    @property
    def entry(self) -> Path:
        (found,) = (settings().cache_dir / "results").iterdir()
        return found


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "cache"))
    settings.cache_clear()
    made = Bench(tmp_path)
    for module, name in ((calibration_pipeline, "derive_calibration"), (measurement_pipeline, "derive_measurement")):
        monkeypatch.setattr(module, name, made.counted(getattr(module, name)))
    yield made
    monkeypatch.undo()
    settings.cache_clear()


def without_place(document: Any) -> Any:
    return {**document, "outputs": [{**item, "uri": ""} for item in document["outputs"]]}


def test_the_same_job_is_computed_once_and_writes_the_same_record_and_outputs(bench: Bench) -> None:
    first, second = bench.measure(output="m1.json"), bench.measure(output="m2.json")
    assert bench.computed == 1
    assert without_place(first.document) == without_place(second.document)
    assert load_record(bench.folder / "out" / "m2.json") == second.document
    tables = [pq.read_table(bench.folder / "out" / f"m{i}.decisions.parquet") for i in (1, 2)]
    assert tables[0].equals(tables[1])
    assert bench.calibrate().document == bench.calibrate().document
    assert bench.computed == 2


def test_what_is_not_asked_to_reuse_neither_reads_nor_fills_the_cache(bench: Bench) -> None:
    bench.measure(reuse=False)
    assert not (settings().cache_dir / "results").exists()
    bench.measure()
    bench.measure(reuse=False)
    assert bench.computed == 3


def changed_production(bench: Bench) -> dict[str, Any]:
    bench.production.write_text(bench.production.read_text().replace("0.9", "0.8", 1))
    return {}


def moved_production(bench: Bench) -> dict[str, Any]:
    shutil.copy(bench.production, bench.folder / "elsewhere.csv")
    return {"production": bench.folder / "elsewhere.csv"}


def another_calibration(bench: Bench) -> dict[str, Any]:
    path = bench.folder / "other.json"
    run_calibration([str(bench.golden)], [str(bench.scores)], None, replace(SPEC, detection_floor=0.3), output=path)
    bench.computed -= 1
    return {"calibration": path}


@pytest.mark.parametrize(
    "change",
    [
        changed_production, moved_production, another_calibration,
        lambda _: {"target": "bot@1"}, lambda _: {"attempts": "any"}, lambda _: {"confidence_level": 0.9},
        lambda _: {"accept_judge": True},
    ],
    ids=["content", "place", "calibration", "target", "attempts", "confidence", "acceptance"],
)  # fmt: skip
def test_a_measurement_of_anything_else_is_computed(change: Callable[[Bench], dict[str, Any]], bench: Bench) -> None:
    bench.measure()
    options = change(bench)
    again = bench.measure(**options)
    assert bench.computed == 2
    assert without_place(again.document) == without_place(bench.measure(**options, reuse=False).document) | {
        "created": again.document["created"]
    }


@pytest.mark.parametrize(
    ("spec", "options"),
    [
        (replace(SPEC, seed=1), {}), (replace(SPEC, detection_floor=0.1), {}), (SPEC, {"confidence_level": 0.9}),
        (SPEC, {"accept_judge": True}),
    ],
)  # fmt: skip
def test_a_calibration_by_another_spec_is_computed(spec: InstrumentSpec, options: dict[str, Any], bench: Bench) -> None:
    bench.calibrate()
    bench.calibrate(spec, **options)
    assert bench.computed == 2


def test_a_judge_with_another_fingerprint_is_run_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(SPEC, categories=("hate",))
    bench.golden.write_text(bench.golden.read_text().replace("harm", "hate", 1))
    judge = LexicalJudge()
    monkeypatch.setattr(calibration_pipeline, "load_judge", lambda _: judge)
    for _ in range(2):
        bench.calibrate(spec, judge="lexical")
    assert bench.computed == 1
    monkeypatch.setattr(judge, "fingerprint", "another")
    assert bench.calibrate(spec, judge="lexical").document["result"]["judge"] == {
        "name": "lexical", "version": "1", "fingerprint": "another",
    }  # fmt: skip
    assert bench.computed == 2


# --- code ---------------------------------------------------------------------------------------------------------


def test_changed_code_is_computed_anew(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.measure()
    monkeypatch.setattr(cache, "code_digest", lambda: "changed")
    bench.measure()
    assert bench.computed == 2


def test_other_versions_of_the_libraries_that_compute_are_other_results(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.measure()
    monkeypatch.setattr(cache, "version", lambda name: "0")
    bench.measure()
    assert bench.computed == 2


@pytest.fixture
def copied(project: Path, tmp_path: Path) -> Path:
    """The project's code in another place."""
    for folder in ("core", "tasks", "flows"):
        shutil.copytree(project / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_same_code_elsewhere_has_the_same_digest(project: Path, copied: Path) -> None:
    (copied / "core" / "__pycache__").mkdir()
    (copied / "core" / "__pycache__" / "errors.cpython-311.pyc").write_bytes(b"x")
    (copied / "flows" / "cli.py").write_text("no figure depends on it")
    assert code_digest(copied) == code_digest(project)


@pytest.mark.parametrize(
    "file",
    [
        "core/inference/intervals.py", "core/instrument/uncalibrated.py", "tasks/tables.py",
        "tasks/judges/lexical.yaml", "flows/pipelines/measurement.py",
    ],
)  # fmt: skip
def test_one_changed_byte_in_what_computes_changes_the_digest(file: str, project: Path, copied: Path) -> None:
    path = copied / file
    content = path.read_bytes()
    path.write_bytes(content[:-1] + b" ")
    assert code_digest(copied) != code_digest(project)


# --- damage -------------------------------------------------------------------------------------------------------


def truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def altered(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"n_units": ', b'"n_units": 1', 1))


def grown(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"x")


def of_no_kind(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"role": "decisions"', b'"part": "decisions"', 1))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("record.json", truncated), ("record.json", altered), ("record.json", Path.unlink), ("record.json", of_no_kind),
        ("decisions.parquet", truncated), ("decisions.parquet", grown), ("decisions.parquet", Path.unlink),
    ],
)  # fmt: skip
def test_a_damaged_entry_is_computed_anew_and_mended(name: str, damage: Callable[[Path], None], bench: Bench) -> None:
    first = bench.measure()
    damage(bench.entry / name)
    again = bench.measure()
    assert bench.computed == 2
    assert again.document["id"] == first.document["id"]
    bench.measure()
    assert bench.computed == 2


def test_a_cache_that_cannot_be_written_costs_no_result(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.folder.joinpath("file").write_text("")
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(bench.folder / "file"))
    settings.cache_clear()
    written = bench.measure()
    assert load_record(bench.folder / "out" / "m.json") == written.document


def test_a_failed_attempt_to_write_leaves_what_the_next_one_needs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = iter([RecordError("lost"), None])

    def write(*arguments: Any) -> Written:
        written = write_record(*arguments)
        if (error := next(failures)) is not None:
            raise error
        return written

    def twice(step: Any, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except RecordError:
            return work()

    monkeypatch.setattr(cache, "write_record", write)
    written = bench.measure(run=twice)
    assert written.document["outputs"][0]["rows"] == 20


def test_what_a_record_says_of_its_judge_does_not_come_from_another_entry(bench: Bench) -> None:
    named = replace(SPEC, judge=JudgeIdentity(name="guard", version="2"))
    assert bench.calibrate().document["result"]["judge"]["name"] == "unknown"
    assert bench.calibrate(named).document["result"]["judge"]["name"] == "guard"


def test_another_map_or_model_is_another_result(tmp_path: Path) -> None:
    for name in ("data.csv", "map.yaml", "model/a.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    options = {"map": str(tmp_path / "map.yaml"), "model": str(tmp_path / "model")}
    file = InputFile(path=tmp_path / "data.csv", name="data.csv", reader="tool", options=options)
    keys = [cache.result_key("s", SPEC, {"scores": [file]})]
    for name in ("map.yaml", "model/a.json", "model/b.json"):
        (tmp_path / name).write_text("y")
        keys.append(cache.result_key("s", SPEC, {"scores": [file]}))
    assert len(set(keys)) == 4
