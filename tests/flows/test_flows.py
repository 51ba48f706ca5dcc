"""The Prefect flows: the same records as the command line, what people see of a run, and what an outage does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError, UnreachableError
from core.instrument.spec import JudgeIdentity
from tasks.settings import settings

CLOSED = "http://127.0.0.1:9"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of an MLflow store; making its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Data and cache folders of the test's own, and no waiting between attempts."""
    monkeypatch.setattr("flows.orchestration.RETRY_DELAYS_SECONDS", [0.0])
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "cache"))
    settings.cache_clear()
    yield tmp_path / "data"
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, Any]]:
    """Collect the events that a flow emits, in place of the server."""
    heard: list[tuple[str, str, Any]] = []
    monkeypatch.setattr("flows.measure.emit", lambda *event: heard.append(event))
    return heard


def content(document: Mapping[str, Any]) -> dict[str, Any]:
    """All of a record but when it was made and what its files are called."""
    kept = {key: document[key] for key in ("id", "schema", "spec", "seed", "inputs", "result")}
    return {**kept, "outputs": [(item["role"], item["sha256"], item["rows"]) for item in document["outputs"]]}


def with_judge(world: Any, folder: Path, judge: str) -> Path:
    """The world's production, its judge named."""
    header, *rows = world.production.read_text().splitlines()
    path = folder / "production.csv"
    path.write_text("\n".join([f"{header},judge", *(f"{row},{judge}" for row in rows), ""]))
    return path


# --- one composition, three ways to run it ------------------------------------------------------------------------


def test_records_are_identical_directly_as_a_flow_and_through_the_command_line(
    server: str, assay: Any, world: Any, tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    from flows.calibrate import calibrate
    from flows.measure import measure
    from flows.pipelines.calibration import run_calibration
    from flows.pipelines.measurement import run_measurement
    from tasks.specs import load_instrument

    golden, scores, production = str(world.golden), str(world.scores), str(world.production)
    direct = run_calibration([golden], [scores], None, load_instrument(world.instrument), output=tmp_path / "c1.json")
    flow = calibrate(golden=golden, scores=[scores], instrument=str(world.instrument), output=str(tmp_path / "c2.json"))
    told = assay(
        "calibrate", golden, "--scores", scores, "--instrument", world.instrument, "--orchestrate",
        "-o", tmp_path / "c3.json", "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert content(direct.document) == content(flow.document) == content(told.record)
    run = run_of("calibrate")
    assert run["name"] == "calibrate small with given scores"
    shown = artifacts(run)
    assert "Composite J " in shown["calibration"]
    assert "lower bound" in shown["calibration"]
    assert f"Record `{told.record['id']}`" in shown["calibration"]
    assert [row["category"] for row in json.loads(shown["calibration-categories"])] == ["composite", "hate", "violence"]

    reference = str(direct.path)
    direct = run_measurement([production], calibration=reference, target="guard-x@1.2", output=tmp_path / "m1.json")
    flow = measure(scores=production, calibration=reference, target="guard-x@1.2", output=str(tmp_path / "m2.json"))
    told = assay(
        "measure", production, "--calibration", reference, "--target", "guard-x@1.2", "--orchestrate",
        "-o", tmp_path / "m3.json", "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert content(direct.document) == content(flow.document) == content(told.record)
    assert assay("verify", tmp_path / "m3.json").code == 0
    run = run_of("measure")
    assert run["name"] == "measure guard-x@1.2"
    shown = artifacts(run)
    prevalence = told.record["result"]["composite"]["prevalence"]
    for text in (
        f"**Corrected rate {100 * prevalence['value']:.1f}%**, 95% interval", f"status `{prevalence['status']}`",
        f"Record `{told.record['id']}`",
    ):  # fmt: skip
        assert text in shown["measurement"]
    assert [row["category"] for row in json.loads(shown["measurement-categories"])] == ["composite", "hate", "violence"]


@pytest.mark.e2e
def test_a_comparison_is_the_same_record_directly_as_a_flow_and_through_the_command_line(
    server: str, assay: Any, world: Any, tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    from flows.compare import compare
    from flows.pipelines.comparison import run_comparison
    from flows.pipelines.measurement import run_measurement

    names = [f"bot-{number}" for number in (1, 2, 3)]
    lines = world.production.read_text().splitlines()
    for number, name in enumerate(names):
        scores = tmp_path / f"{name}.csv"  # one trace less each time
        scores.write_text("\n".join([lines[0], *lines[1 + 4 * number :], ""]))
        run_measurement(
            [str(scores)], calibration=str(world.calibration), target=name, output=tmp_path / f"{name}.json"
        )
    for n_releases, key in ((2, "comparison"), (3, "series")):
        paths = [str(tmp_path / f"{name}.json") for name in names[:n_releases]]
        direct = run_comparison(paths, output=tmp_path / f"{key}-1.json").written
        flow = compare(releases=paths, output=str(tmp_path / f"{key}-2.json"))
        told = assay("compare", *paths, "--orchestrate", "-o", tmp_path / f"{key}-3.json", "--json")
        assert told.code == 0, told.err
        assert content(direct.document) == content(flow.document) == content(told.record)
        assert assay("verify", tmp_path / f"{key}-3.json").code == 0
        run = run_of("compare")
        assert run["name"] == (f"compare {' '.join(paths)}" if n_releases == 2 else "compare 3 releases")
        shown = artifacts(run)
        assert f"Record `{told.record['id']}`" in shown[key]
        rows = json.loads(shown[f"{key}-rows"])
        first = [row.get("quantity", row.get("release")) for row in rows]
        assert first == (["composite", "hate", "violence"] if n_releases == 2 else names)


@pytest.mark.e2e
def test_a_judge_that_runs_is_named_in_the_run_and_one_that_is_not_installed_so_is_refused(
    server: str, assay: Any, tmp_path: Path, run_of: Any
) -> None:
    from flows.calibrate import calibrate

    rows = [f"h{i},hate,1,Northlanders are vermin {i}" for i in range(8)] + [f"b{i},hate,0,tea {i}" for i in range(8)]
    golden, instrument = tmp_path / "g.csv", tmp_path / "safety.yaml"
    golden.write_text("\n".join(["trace_id,category,label,text", *rows]))
    instrument.write_text("name: safety\ncategories: [hate]\noptimism: {method: none}\n")
    command = ("calibrate", golden, "--judge", "lexical", "--instrument", instrument, "--json")
    direct = assay(*command, "-o", tmp_path / "c1.json")
    flow = assay(*command, "-o", tmp_path / "c2.json", "--orchestrate")
    assert (direct.code, flow.code) == (0, 0), flow.err
    assert content(direct.record) == content(flow.record)
    assert run_of("calibrate")["name"] == "calibrate safety with lexical@1"

    with pytest.raises(InputError, match=r"judge lexical@2 is asked for, but lexical@1 \("):
        calibrate(golden=str(golden), instrument=str(instrument), judge=JudgeIdentity(name="lexical", version="2"))
    assert run_of("calibrate")["name"] == "calibrate safety with lexical@2"


@pytest.mark.e2e
def test_detections_and_reported_rates_go_through_prefect_as_well(
    server: str, assay: Any, tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    (tmp_path / "d.csv").write_text("trace_id,attribute,detected\na,race,1\nb,race,0\nc,race,0\n")
    (tmp_path / "r.csv").write_text("attribute,rate\nrace,0.5\n")
    (tmp_path / "i.yaml").write_text("name: d\nkind: detections\n")
    command = ("measure", tmp_path / "d.csv", "--instrument", tmp_path / "i.yaml", "--reported", tmp_path / "r.csv")
    direct = assay(*command, "-o", tmp_path / "m1.json", "--json")
    flow = assay(*command, "-o", tmp_path / "m2.json", "--json", "--orchestrate")
    assert (direct.code, flow.code) == (0, 0), flow.err
    assert content(direct.record) == content(flow.record)
    shown = artifacts(run_of("measure"))
    assert "status `not_calibrated`" in shown["measurement"]
    assert [row["category"] for row in json.loads(shown["measurement-categories"])] == ["composite", "race"]


# --- failures -----------------------------------------------------------------------------------------------------


def test_a_wrong_input_fails_once_and_a_lost_connection_is_tried_again(
    server: str, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from prefect import flow

    from flows import orchestration
    from tasks import steps

    attempts: list[str] = []

    def failing(error: Exception, times: int) -> Callable[[], str]:
        def work() -> str:
            attempts.append(str(error))
            if len(attempts) <= times:
                raise error
            return "done"

        return work

    @flow(persist_result=False)
    def several() -> list[Any]:
        told: list[Any] = []
        for error, times in (
            (InputError.of("x.csv", "is wrong"), 9), (UnreachableError("no answer"), 1), (UnreachableError("gone"), 9),
            (OSError("disk"), 2),
        ):  # fmt: skip
            attempts.clear()
            try:
                result: object = orchestration.orchestrated(steps.FIND, failing(error, times))
            except (InputError, UnreachableError) as raised:
                result = raised
            told.append((result, len(attempts)))
        return told

    wrong, passing, gone, disk = several()
    assert (str(wrong[0]), wrong[1]) == ("x.csv: is wrong", 1)
    assert isinstance(wrong[0], InputError)
    assert passing == ("done", 2)
    assert isinstance(gone[0], UnreachableError)
    assert gone[1] == 3
    assert disk == ("done", 3)


@pytest.mark.parametrize("nothing", ["", []])
def test_a_flow_that_is_told_no_input_says_so_and_reads_no_folder(server: str, nothing: Any, run_of: Any) -> None:
    from flows.calibrate import calibrate
    from flows.measure import measure

    with pytest.raises(InputError, match="no golden set is named"):
        calibrate(golden=nothing, judge=JudgeIdentity(name="lexical"))
    with pytest.raises(InputError, match="no scores are named"):
        measure(scores=nothing)
    failed = run_of("measure")
    assert failed["name"] == "measure production"
    assert failed["state_type"] == "FAILED"
    assert "no scores are named" in failed["state"]["message"]


@pytest.mark.e2e
def test_a_wrong_file_is_exit_2_through_prefect_as_well(server: str, assay: Any, world: Any, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("trace_id,category,score\nx,hate,7\n")
    command = ("measure", tmp_path / "p.csv", "--calibration", world.calibration, "-o", tmp_path / "m.json")
    direct, flow = assay(*command), assay(*command, "--orchestrate")
    assert (direct.code, flow.code) == (2, 2)
    assert direct.err.strip() in flow.err
    assert not (tmp_path / "m.json").exists()


@pytest.mark.e2e
def test_an_outage_of_mlflow_keeps_the_record_and_sync_uploads_it_once(
    server: str, store: str, assay: Any, world: Any, tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    command = ("measure", world.production, "--calibration", world.calibration, "-o", tmp_path / "m.json")
    flow = assay(*command, "--orchestrate", "--tracking-uri", CLOSED)
    assert flow.code == 4
    assert f"The record is kept: {tmp_path / 'm.json'}" in flow.err
    record = json.loads((tmp_path / "m.json").read_text())
    run = run_of("measure")
    assert run["state_type"] == "COMPLETED"
    assert "not in MLflow yet" in artifacts(run)["measurement"]
    assert assay(*command, "--orchestrate", "--tracking-uri", "none").code == 0  # it was not asked for
    done = assay("sync", "--tracking-uri", store)
    assert done.code == 0, done.err
    assert done.out.count("tracked: runs:/") == 1
    again = assay("sync", "--tracking-uri", store)
    assert (again.code, again.out) == (0, "nothing waits\n")
    assert len(runs_of(store, record["id"])) == 1


def runs_of(store: str, record: str) -> list[Any]:
    from tasks.tracking.connection import connected

    with connected(store) as client:
        experiments = [item.experiment_id for item in client.search_experiments()]
        return list(client.search_runs(experiments, f"tags.`record.id` = '{record}'"))


AUDIT = "kind: predictions\nname: hiring\ngroups: [sex]\npositive: {y_pred: 1}\n"


@pytest.mark.e2e
def test_an_audit_is_the_same_record_as_a_flow_with_artifacts_and_is_not_computed_twice(
    server: str, assay: Any, tmp_path: Path, run_of: Any, artifacts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.audit import audit

    rows = [f"{'fm'[i % 2]},{int(i % 5 < 2 + i % 2)}" for i in range(600)]
    (tmp_path / "p.csv").write_text("\n".join(["sex,y_pred", *rows, ""]))
    (tmp_path / "audit.yaml").write_text(AUDIT)
    data, spec = str(tmp_path / "p.csv"), str(tmp_path / "audit.yaml")
    direct = assay("audit", data, "--spec", spec, "-o", tmp_path / "a1.json", "--json")
    told = assay("audit", data, "--spec", spec, "--orchestrate", "-o", tmp_path / "a2.json", "--json")
    assert (direct.code, told.code) == (0, 0), told.err
    assert content(told.record) == content(direct.record)
    run = run_of("audit")
    assert run["name"] == "audit hiring"
    shown = artifacts(run)
    assert shown["audit"].startswith("# Audit of hiring")
    assert f"Record `{told.record['id']}`" in shown["audit"]
    assert {row["groups by"] for row in json.loads(shown["audit-figures"])} == {"sex"}

    monkeypatch.setattr("flows.pipelines.auditing.derive_audit", None)  # a second computation would fail
    again = audit(data=data, spec=spec, output=str(tmp_path / "a3.json"))
    assert content(again.document) == content(direct.record)


@pytest.mark.e2e
def test_an_audit_without_data_or_of_an_unknown_spec_says_so(server: str) -> None:
    from flows.audit import audit

    with pytest.raises(InputError, match="no data are named"):
        audit(data="", spec="none")
    with pytest.raises(InputError, match="there is no such file"):
        audit(data="p.csv", spec="none")


@pytest.mark.e2e
def test_a_simulation_is_the_same_record_as_a_flow_with_artifacts_and_is_not_computed_twice(
    server: str, assay: Any, world: Any, tmp_path: Path, run_of: Any, artifacts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.pipelines.simulation import run_simulation
    from flows.simulate import simulate

    reference, grid = str(world.calibration), {"n_units": [60], "prevalences": [0.1]}
    direct = run_simulation(calibration=reference, replications=4, grid=grid, output=tmp_path / "c1.json")
    told = assay(
        "simulate", "--calibration", reference, "--replications", "4", "--units", "60", "--prevalence", "0.1",
        "--orchestrate", "-o", tmp_path / "c2.json", "--json",
    )  # fmt: skip
    assert told.code == 0, told.err
    assert content(direct.document) == content(told.record)
    run = run_of("simulate")
    assert run["name"] == f"certify {reference}"
    shown = artifacts(run)
    assert "**The Lang-Reiczigel interval of 95% covers" in shown["simulation"]
    assert f"Record `{told.record['id']}`" in shown["simulation"]
    assert [row["units"] for row in json.loads(shown["simulation-cells"])] == ["60"]
    assert "find this certificate by themselves" in told.err

    with monkeypatch.context() as patch:
        patch.setattr("flows.pipelines.simulation.carried_out", lambda *_, **__: pytest.fail("computed again"))
        again = simulate(calibration=reference, replications=4, grid=grid, workers=1, output=str(tmp_path / "c3.json"))
    assert content(again.document) == content(direct.document)
    measured = assay(
        "measure", world.production, "--calibration", reference, "-o", tmp_path / "m.json", "--orchestrate"
    )
    assert measured.code == 0, measured.err
    link = json.loads((tmp_path / "m.json").read_text())["result"]["calibration"]["certificate"]
    assert link["id"] == direct.document["id"]

    simulate(stage=1, grid={"n_units": [20], "rates": [0.1]}, workers=1, output=str(tmp_path / "s.json"))
    assert run_of("simulate")["name"] == "simulate stage 1"
    with pytest.raises(InputError, match="name a calibration or an instrument"):
        simulate(calibration=reference, instrument=str(world.instrument))


@pytest.mark.e2e
def test_a_plan_is_the_same_record_as_a_flow_with_artifacts(
    server: str, assay: Any, world: Any, tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    goal = ("plan", "--goal", "lod=0.2", "--calibration", world.calibration, "--tracking-uri", "none", "--json")
    direct, orchestrated = assay(*goal), assay(*goal, "--orchestrate", "-o", tmp_path / "plan.json")
    assert orchestrated.code == 0, orchestrated.err
    assert content(direct.record) == content(orchestrated.record)
    run = run_of("plan")
    assert run["name"] == "plan lod=0.2"
    shown = artifacts(run)
    assert f"Record `{direct.record['id']}`" in shown["plan"]
    assert json.loads(shown["plan-sizes"])[0]["what"] == "production traces"


@pytest.mark.e2e
def test_labels_of_production_make_the_same_record_as_a_flow_and_its_artifact_says_which_rate_to_read(
    server: str, assay: Any, world: Any, tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    labels = tmp_path / "labels.csv"
    rows = [f"p{i},{int(i % 2 == 0)},{int(i % 3 == 0)}" for i in range(30)]
    labels.write_text("\n".join(["trace_id,hate,violence", *rows, ""]))
    job = ("measure", world.production, "--calibration", world.calibration, "--labels", labels, "--json")
    direct = assay(*job, "--tracking-uri", "none", "-o", tmp_path / "m1.json")
    orchestrated = assay(*job, "--tracking-uri", "none", "--orchestrate", "-o", tmp_path / "m2.json")
    assert orchestrated.code == 0, orchestrated.err
    assert content(direct.record) == content(orchestrated.record)
    assert "read the corrected rate\\: 30 labelled production traces" in artifacts(run_of("measure"))["measurement"]


def test_labels_without_a_calibration_are_left_out_and_the_raw_rate_is_recorded(
    server: str, world: Any, tmp_path: Path, announced: list[Any]
) -> None:
    from flows.measure import measure

    written = measure(
        scores=str(with_judge(world, tmp_path, "guard@1")), instrument=str(world.instrument), labels="absent.csv",
        output=str(tmp_path / "m.json"), tracking_uri="none",
    )  # fmt: skip
    assert written.document["result"]["composite"]["prevalence"]["status"] == "not_calibrated"
    assert "labels" not in {item["role"] for item in written.document["inputs"]}


# --- the champion -------------------------------------------------------------------------------------------------


def test_an_outage_of_mlflow_leaves_the_raw_rate_and_announces_nobody(
    server: str, world: Any, tmp_path: Path, announced: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows import orchestration
    from flows.measure import measure

    monkeypatch.setattr(orchestration, "RETRY_DELAYS_SECONDS", [0.0])
    written = measure(
        scores=str(with_judge(world, tmp_path, "guard@1")), instrument=str(world.instrument),
        output=str(tmp_path / "m.json"), tracking_uri="http://127.0.0.1:9",
    )  # fmt: skip
    result = written.document["result"]
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    assert any("could not be looked up" in note for note in result["notes"])
    assert announced == []


def test_without_a_champion_the_raw_rate_is_recorded_and_the_judge_announced(
    server: str, assay: Any, world: Any, tmp_path: Path, announced: list[Any], run_of: Any, artifacts: Any
) -> None:
    from flows.measure import measure

    production = with_judge(world, tmp_path, "guard@1")
    written = measure(
        scores=str(production), instrument=str(world.instrument), target="bot@1", output=str(tmp_path / "m.json"),
        golden=["golden.csv"], tracking_uri=f"sqlite:///{tmp_path / 'empty.db'}",
    )  # fmt: skip
    result = written.document["result"]
    assert {row["prevalence"]["status"] for row in result["categories"].values()} == {"not_calibrated"}
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    assert result["composite"]["prevalence"]["value"] is None
    assert result["calibration"]["source"] == "none"
    assert result["composite"]["observed_rate"] is not None
    shown = artifacts(run_of("measure"))["measurement"]
    for told in (" ".join(result["notes"]), shown):
        assert "the instrument has no champion" in told
    judge = {"name": "guard", "version": "1", "fingerprint": "unknown"}
    payload = {"judge": judge, "instrument": str(world.instrument), "golden": ["golden.csv"]}
    assert announced == [("assay.judge.changed", "assay.judge.guard", payload)]

    assert assay("verify", tmp_path / "m.json").code == 0
    production.write_text(production.read_text().replace(",0.1,", ",0.9,", 1))
    assert assay("verify", tmp_path / "m.json").code == 1


def test_a_measurement_stands_when_nobody_hears_the_announcement(
    server: str, world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run_of: Any
) -> None:
    from flows.measure import measure

    def deaf(*_: object) -> None:
        raise UnreachableError("no server")

    monkeypatch.setattr("flows.measure.emit", deaf)
    written = measure(scores=str(world.production), instrument=str(world.instrument), output=str(tmp_path / "m.json"))
    assert written.document["result"]["composite"]["prevalence"]["status"] == "not_calibrated"
    assert run_of("measure")["state_type"] == "COMPLETED"


@pytest.mark.e2e
def test_a_champion_measures_scores_of_its_own_judge_and_no_others(
    server: str, store: str, assay: Any, world: Any, tmp_path: Path, announced: list[Any]
) -> None:
    from flows.measure import measure

    promoted = assay(
        "calibrate", world.golden, "--scores", world.scores, "--instrument", world.instrument, "--promote",
        "--because", "the first one", "-o", tmp_path / "c.json", "--tracking-uri", store, "--json",
    )  # fmt: skip
    assert promoted.code == 0, promoted.err
    instrument, record = str(world.instrument), str(tmp_path / "m.json")

    own = with_judge(world, tmp_path, "guard@1")
    written = measure(scores=str(own), instrument=instrument, output=record, tracking_uri=store)
    assert written.document["result"]["calibration"]["id"] == promoted.record["id"]
    assert [item["uri"] for item in written.document["inputs"] if item["role"] == "calibration"] == ["models:/small/1"]
    assert announced == []
    (run,) = runs_of(store, written.document["id"])
    assert run.data.tags["calibration.id"] == promoted.record["id"]

    other = with_judge(world, tmp_path, "guard@2")
    written = measure(scores=str(other), instrument=instrument, output=record, tracking_uri=store)
    result = written.document["result"]
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    assert any("champion is of another judge" in note for note in result["notes"])
    ((_, resource, payload),) = announced
    assert resource == "assay.judge.guard"
    assert payload["judge"]["version"] == "2"
    assert payload["golden"] == [str(world.golden)]  # the champion's

    with pytest.raises(InputError, match="the scores are from guard@2, the calibration's judge is guard@1"):
        measure(scores=str(other), calibration="models:/small@champion", output=record, tracking_uri=store)


# --- the result cache, as the flows use it --------------------------------------------------------------------------


@pytest.mark.e2e
def test_a_flow_that_runs_again_computes_nothing_and_writes_the_same_record(
    server: str, world: Any, assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flows.measure import measure

    def told(name: str) -> Any:
        return measure(
            scores=str(world.production), calibration=str(world.calibration), output=str(tmp_path / name)
        ).document

    first = told("m1.json")

    def never(*_: object, **__: object) -> Any:
        raise AssertionError("computed again")

    monkeypatch.setattr("flows.pipelines.measurement.derive_measurement", never)
    assert content(told("m2.json")) == content(first)
    outcome = assay("verify", tmp_path / "m2.json")  # its outputs lie beside it as well
    assert "m2.decisions.parquet: intact" in outcome.out


# --- events, against the server -------------------------------------------------------------------------------------


@pytest.mark.e2e
def test_an_event_keeps_the_types_of_its_payload_and_its_id_is_taken_once(client: Any) -> None:
    from tasks.events import JUDGE_CHANGED, emit

    payload = {"judge": {"name": "lexical", "version": "1"}, "seed": 7, "golden": ["a", "b"], "share": 0.5, "on": True}
    event_id = str(uuid.uuid4())
    first = emit(JUDGE_CHANGED, "assay.judge.lexical", payload, event_id=event_id)
    assert emit(JUDGE_CHANGED, "assay.judge.lexical", payload, event_id=event_id) == first
    wanted = {"filter": {"id": {"id": [event_id]}}}
    (kept,) = client.request("POST", "/events/filter", json=wanted).json()["events"]
    assert kept["payload"] == payload
    assert kept["resource"] == {"prefect.resource.id": "assay.judge.lexical"}
