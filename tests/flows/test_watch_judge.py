"""Watching a judge as a flow and as a command; what a change starts, and what it does not start twice."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError, UnknownJudgeError, UnreachableError
from core.instrument.spec import JudgeIdentity
from core.instrument.watched import WatchSpec
from flows.pipelines.calibration import run_calibration
from flows.pipelines.watching import run_watch
from tasks.judges import Verdict
from tasks.readers import reader_names
from tasks.recalibration import Started
from tasks.settings import settings
from tasks.specs import load_instrument
from tasks.storage import find_inputs
from tasks.tracking import promotion, track
from tasks.tracking.promotions import waiting_challengers
from tasks.watches import answers_now
from tests.tasks.judges.misbehaving_server import completion, ratings, running

TEXTS = 80


@dataclass
class Guard:
    """A judge whose answers a test changes: it flags what it is told to, and keeps what it was asked."""

    fingerprint: str = "f" * 64
    version: str = "1"
    misses: float = 0.0
    name: str = "guard"
    categories: tuple[str, ...] = ("hate",)
    asked: list[str] = field(default_factory=list)

    def score(self, texts: Sequence[str]) -> list[Verdict]:
        self.asked += texts
        return [Verdict(scores={"hate": self._of(text)}, rationale="told") for text in texts]

    def _of(self, text: str) -> float:
        number = int(text.rpartition(" ")[2])
        bad = text.startswith("bad") is (number % 9 != 0)
        return 0.2 if not bad or number < self.misses * TEXTS else 0.8


@pytest.fixture
def guard(monkeypatch: pytest.MonkeyPatch) -> Guard:
    """Register a judge, wherever one is looked up."""
    made = Guard()
    for module in ("tasks.watches", "flows.pipelines.calibration", "flows.calibrate", "flows.pipelines.verification"):
        monkeypatch.setattr(f"{module}.load_judge", lambda name: _registered(made, name))
    return made


def _registered(guard: Guard, name: str) -> Guard:
    if name != guard.name:
        raise UnknownJudgeError.of(f"judge {name!r}", "no such judge is registered")
    return guard


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("flows.orchestration.RETRY_DELAYS_SECONDS", [0.0])
    for module in ("calibrations", "measurements", "simulations", "comparisons"):  # figures are tried elsewhere
        monkeypatch.setattr(f"tasks.tracking.{module}._draw", lambda *_: None, raising=False)
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(tmp_path / "cache"))
    settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.cache_clear()


@dataclass(frozen=True)
class Lab:
    """An instrument, its golden texts, and where its registry is."""

    golden: Path
    instrument: Path
    store: str


@pytest.fixture
def lab(tmp_path: Path, template_store: Path) -> Lab:
    rows = [f"{word}{i},hate,{int(word == 'bad')},{word} {i}" for word in ("bad", "good") for i in range(TEXTS)]
    golden, instrument = tmp_path / "golden.csv", tmp_path / "safety.yaml"
    golden.write_text("\n".join(["trace_id,category,label,text", *rows, ""]))
    instrument.write_text("name: safety\ncategories: [hate]\noptimism: {resamples: 60}\n")
    store = tmp_path / "mlflow.db"
    store.write_bytes(template_store.read_bytes())
    return Lab(golden=golden, instrument=instrument, store=f"sqlite:///{store}")


@pytest.fixture(scope="module")
def template_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store without runs; making its tables takes seconds."""
    from tasks.tracking.connection import connected

    path = tmp_path_factory.mktemp("template") / "mlflow.db"
    with connected(f"sqlite:///{path}") as client:
        client.search_experiments()
    return path


def calibrated(
    lab: Lab, *, because: str | None = None, judge: str = "guard", scores: str | None = None, seed: int | None = None
) -> Any:
    """Calibrate a judge and register the result, the champion if there is a reason; without Prefect, for speed."""
    spec = load_instrument(lab.instrument)
    if seed is not None:
        spec = replace(spec, seed=seed)
    given, named = ([], judge) if scores is None else ([scores], None)
    written = run_calibration([str(lab.golden)], given, named, spec)
    track(written, lab.store, register=True, promotion=None if because is None else promotion(because))
    return written


def calibrated_by_flow(lab: Lab, **asked: Any) -> Any:
    """Calibrate the guard as the deployment does."""
    from flows.calibrate import calibrate

    asked = {"judge": JudgeIdentity(name="guard"), **asked}
    return calibrate(golden=str(lab.golden), instrument=str(lab.instrument), tracking_uri=lab.store, **asked)


def watched(lab: Lab, **asked: Any) -> Any:
    from flows.watch_judge import watch_judge

    return watch_judge(instrument=str(lab.instrument), tracking_uri=lab.store, **{"tolerance": 0.08, **asked})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, str]]:
    """Collect the calibrations that a watch asks for, in place of the server."""
    found: list[tuple[Any, str]] = []

    def start(parameters: Any, key: str) -> Started:
        found.append((parameters, key))
        return Started(outcome="started", run_id="1", run_name="calibrate safety")

    monkeypatch.setattr("flows.watch_judge.start_calibration", start)
    return found


# --- as a flow --------------------------------------------------------------------------------------------------------


def test_a_judge_that_did_not_change_is_the_same_and_starts_nothing(
    server: str, lab: Lab, guard: Guard, started: list[Any], run_of: Any, artifacts: Any, assay: Any
) -> None:
    calibration = calibrated(lab, because="the first one")
    asked = len(guard.asked)
    written = watched(lab)
    result = written.document["result"]
    assert (result["verdict"], result["causes"], result["fingerprint"]) == ("same", [], "same")
    assert result["calibration"] == calibration.document["id"]
    assert result["anchors"]["n"] == 2 * TEXTS
    assert len(guard.asked) == asked + 2 * TEXTS  # although every answer is cached
    assert started == []
    run = run_of("watch_judge")
    assert run["name"] == "watch the judge of safety"
    shown = artifacts(run)
    assert shown["watch"].startswith("# safety: same")
    assert json.loads(shown["watch-shifts"])[0]["quantity"] == "composite"
    told = assay("verify", str(written.path), "--tracking-uri", lab.store)
    assert told.code == 0, told.err


@pytest.mark.e2e
def test_an_instrument_without_a_champion_has_nothing_to_watch_and_the_run_ends_well(
    server: str, lab: Lab, guard: Guard, run_of: Any, artifacts: Any
) -> None:
    assert watched(lab) is None
    run = run_of("watch_judge")
    assert run["state_type"] == "COMPLETED"
    assert artifacts(run)["watch"] == "nothing to watch\\: safety has no champion"


@pytest.mark.e2e
def test_answers_that_changed_under_the_same_fingerprint_are_found_and_calibrated_anew_once(
    server: str, lab: Lab, guard: Guard, started: list[Any], run_of: Any, artifacts: Any
) -> None:
    first = calibrated(lab, because="the first one")
    guard.misses = 0.3
    written = watched(lab)
    assert written.document["result"]["causes"] == ["decisions", "scores"]
    ((parameters, key),) = started
    judge = {"name": "guard", "version": "1", "fingerprint": "f" * 64}
    assert parameters == {
        "golden": [str(lab.golden)], "instrument": str(lab.instrument), "judge": judge, "fresh": True,
        "accept_judge": False,
    }  # fmt: skip
    assert "a calibration was started" in artifacts(run_of("watch_judge"))["watch"]

    watched(lab)
    assert [again for _, again in started] == [key, key]  # one key, so that the server makes one run

    # The run that was started: the cached answers of before are not taken for those of now.
    parameters = {**parameters, "judge": JudgeIdentity(**judge)}
    second = calibrated_by_flow(lab, **{name: parameters[name] for name in ("judge", "fresh")})
    assert second.document["id"] != first.document["id"]
    lower = second.document["result"]["composite"]["apparent"]["sensitivity"]
    assert lower < first.document["result"]["composite"]["apparent"]["sensitivity"] - 0.2
    watched(lab)
    assert len(started) == 2
    told = artifacts(run_of("watch_judge"))["watch"]
    assert "models\\:/safety/2 is a calibration of this judge already, and waits to be promoted" in told


@pytest.mark.e2e
def test_another_fingerprint_is_a_change_and_the_announced_judge_is_the_installed_one(
    server: str, lab: Lab, guard: Guard, started: list[Any]
) -> None:
    calibrated(lab, because="the first one")
    guard.fingerprint = "e" * 64
    result = watched(lab).document["result"]
    assert (result["verdict"], result["causes"], result["fingerprint"]) == ("changed", ["fingerprint"], "differs")
    ((parameters, _),) = started
    assert parameters["judge"]["fingerprint"] == "e" * 64
    assert (parameters["fresh"], parameters["accept_judge"]) == (False, True)
    watched(lab, recalibrate=False)
    assert len(started) == 1


@pytest.mark.e2e
def test_a_judge_that_is_not_installed_is_watched_by_its_scores_or_by_who_it_is(
    server: str, lab: Lab, guard: Guard, started: list[Any], tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    calibrated(lab, because="the first one")
    guard.name = "another"
    with pytest.raises(InputError, match="judge 'guard' is not registered here; name its --scores"):
        watched(lab)
    result = watched(lab, judge=JudgeIdentity(name="guard", version="2")).document["result"]
    assert (result["verdict"], result["anchors"]) == ("changed", None)
    assert started == []
    assert "nobody here can ask this judge" in artifacts(run_of("watch_judge"))["watch"]

    guard.name = "guard"
    answers = answers_now(guard, find_inputs([str(lab.golden)], reader_names()))
    guard.name = "another"
    written = watched(lab, scores=answers.uri)
    assert written.document["result"]["verdict"] == "same"
    assert {item["role"] for item in written.document["inputs"]} == {"calibration", "golden_maxima", "scores"}


@pytest.mark.e2e
def test_watches_are_a_series_that_the_record_names_and_that_verifies(lab: Lab, guard: Guard, assay: Any) -> None:
    from tasks.tracking.connection import connected

    calibrated(lab, because="the first one")
    records = []
    for k in range(6):  # several within a second
        guard.misses = k / TEXTS
        found = run_watch("models:/safety@champion", spec=WatchSpec(tolerance=0.2), tracking_uri=lab.store)
        track(found.written, lab.store)
        records.append(found.written.document)
    last = records[-1]
    assert last["spec"]["earlier"] == [record["id"] for record in records[:-1]]
    assert last["spec"]["look"] == 6
    values = last["result"]["decay"]["positives"]["values"]
    assert values == sorted(values, reverse=True)
    assert last["result"]["decay"]["positives"]["p_value"] < 0.02
    told = assay("verify", last["id"], "--tracking-uri", lab.store)
    assert told.code == 0, told.err
    with connected(lab.store) as client:
        experiment = client.get_experiment_by_name("assay/watch")
        runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
    assert [run.data.tags["verdict"] for run in runs] == ["same"] * 6
    assert [run.data.metrics["positives.shift"] for run in runs] == values


@pytest.mark.e2e
def test_an_outage_of_the_prefect_server_is_told_and_the_watch_stands(
    server: str, lab: Lab, guard: Guard, monkeypatch: pytest.MonkeyPatch, run_of: Any, artifacts: Any
) -> None:
    def down(*_: object) -> Started:
        raise UnreachableError("the Prefect server has no deployment calibrate/calibrate")

    monkeypatch.setattr("flows.watch_judge.start_calibration", down)
    calibrated(lab, because="the first one")
    guard.fingerprint = "e" * 64
    assert watched(lab).document["result"]["verdict"] == "changed"
    run = run_of("watch_judge")
    assert run["state_type"] == "COMPLETED"
    assert "nothing was started" in artifacts(run)["watch"]


# --- one change, one calibration: without Prefect ---------------------------------------------------------------------


def reconciled(lab: Lab, monkeypatch: pytest.MonkeyPatch, scores: str | None = None) -> list[str]:
    """Watch the champion, and do what the flow does then."""
    from flows.watch_judge import _recalibrated

    monkeypatch.setattr("flows.watch_judge.orchestrated", lambda _, work: work())
    given = [] if scores is None else [scores]
    found = run_watch("models:/safety@champion", scores=given, spec=WatchSpec(tolerance=0.08), tracking_uri=lab.store)
    result = found.written.document["result"]
    assert result["verdict"] == "changed"
    waiting = waiting_challengers("safety", result["calibration"], lab.store)
    return _recalibrated(found, str(lab.instrument), [], given, waiting, lab.store)


def asked_anew(lab: Lab, guard: Guard) -> str:
    return answers_now(guard, find_inputs([str(lab.golden)], reader_names())).uri


def test_a_challenger_from_before_a_silent_change_is_no_calibration_of_the_judge_and_each_change_starts_one(
    lab: Lab, guard: Guard, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated(lab, because="the first one")
    calibrated(lab, seed=7)
    guard.misses = 0.3
    for _ in range(2):
        told, *_ = reconciled(lab, monkeypatch)
        assert told == "models:/safety/2 was made before this judge changed"
    calibrated(lab, scores=asked_anew(lab, guard))
    (told,) = reconciled(lab, monkeypatch)
    assert told == "models:/safety/3 is a calibration of this judge already, and waits to be promoted"
    guard.misses = 0.7
    told, *_ = reconciled(lab, monkeypatch)
    assert told == "models:/safety/3 was made before this judge changed"
    first, again, second = (key for _, key in started)
    assert first == again != second
    assert all(parameters["fresh"] for parameters, _ in started)


def test_answers_are_asked_anew_under_a_fingerprint_that_a_challenger_has_had(
    lab: Lab, guard: Guard, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated(lab, because="the first one")
    guard.fingerprint = "e" * 64
    calibrated(lab)
    assert "models:/safety/2 is a calibration of this judge already" in reconciled(lab, monkeypatch)[0]
    guard.misses = 0.3
    assert "was made before this judge changed" in reconciled(lab, monkeypatch)[0]
    ((parameters, _),) = started
    assert (parameters["fresh"], parameters["accept_judge"]) == (True, True)


def test_the_challenger_of_another_vendor_is_none_of_this_judge_though_neither_has_a_fingerprint(
    lab: Lab, guard: Guard, started: list[Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def scores(judge: str, misses: float) -> str:
        guard.misses = misses
        texts = [f"{word} {i}" for word in ("bad", "good") for i in range(TEXTS)]
        rows = [
            f"{text.replace(' ', '')},hate,{verdict.scores['hate']},{judge}"
            for text, verdict in zip(texts, guard.score(texts), strict=True)
        ]
        path = tmp_path / f"{judge}-{misses}.csv"
        path.write_text("\n".join(["trace_id,category,score,judge", *rows, ""]))
        return str(path)

    calibrated(lab, scores=scores("ours@1", 0.0), because="the first one")
    calibrated(lab, scores=scores("vendor@1", 0.3))
    (told,) = reconciled(lab, monkeypatch, scores("ours@1", 0.3))
    assert "a calibration was started" in told
    calibrated(lab, scores=scores("ours@1", 0.3), seed=7)
    (told,) = reconciled(lab, monkeypatch, scores("ours@1", 0.3))
    assert "models:/safety/3 is a calibration of this judge already" in told
    assert len(started) == 1


# --- a service that moves on to another model -------------------------------------------------------------------------


@dataclass
class Alias:
    """A language model behind a name that stays; every answer names the model of the day."""

    model: str = "guard-2026-01"
    asked: int = 0

    def reply(self, asked: Any) -> Any:
        self.asked += 1
        flagged = asked.text.startswith("bad") is (int(asked.text.rpartition(" ")[2]) % 9 != 0)
        return completion(ratings(hate=8 if flagged else 2), model=self.model)


@pytest.fixture
def alias(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Alias]:
    """Set up the judge `llm` with a real server."""
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(
        'name: r\nversion: "1"\ncategories: {hate: Demeans.}\ninstructions: Rate.\nscale: [0, 10]\nmodel: guard\n'
    )
    made = Alias()
    with running(made.reply) as service:
        monkeypatch.setenv("ASSAY_JUDGE_BASE_URL", service.url)
        monkeypatch.setenv("ASSAY_JUDGE_RUBRIC", str(rubric))
        settings.cache_clear()
        yield made


def test_a_snapshot_that_answers_tell_is_another_judge_and_is_asked_anew(
    lab: Lab, alias: Alias, started: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrated(lab, because="the first one", judge="llm")
    alias.model = "guard-2026-06"
    found = run_watch("models:/safety@champion", tracking_uri=lab.store)
    result = found.written.document["result"]
    assert (result["judge"]["version"], result["verdict"], result["causes"]) == (
        "guard-2026-06", "changed", ["fingerprint"],
    )  # fmt: skip
    reconciled(lab, monkeypatch)
    ((parameters, _),) = started
    assert parameters["judge"]["version"] == "guard-2026-06"
    assert (parameters["fresh"], parameters["accept_judge"]) == (True, True)
    for wanted in ("guard-2026-06", "guard-2026-01"):  # the kept answers are of the latter
        written = run_calibration([str(lab.golden)], [], "llm", load_instrument(lab.instrument), wanted=wanted)
        assert written.document["result"]["judge"]["version"] == wanted


@pytest.mark.e2e
def test_the_version_that_was_announced_is_the_one_that_is_calibrated_and_paid_for_once(
    server: str, lab: Lab, alias: Alias, assay: Any
) -> None:
    calibrated(lab, because="the first one", judge="llm")
    alias.model = "guard-2026-06"
    judge = JudgeIdentity(name="llm", version="guard-2026-06")
    for _ in range(2):  # each release that is measured announces it once more
        written = calibrated_by_flow(lab, judge=judge)
        assert written.document["result"]["judge"]["version"] == "guard-2026-06"
        assert alias.asked == 2 * 2 * TEXTS
    told = assay("verify", str(written.path), "--tracking-uri", lab.store)
    assert told.code == 0, told.err
    for fresh in (False, True):
        with pytest.raises(InputError, match="version guard-2026-05 is asked for, and the service answers as guard-2"):
            calibrated_by_flow(lab, judge=replace(judge, version="guard-2026-05"), fresh=fresh)
    assert alias.asked < 2 * 2 * TEXTS + 50  # seen by the first answers


# --- from calibration to champion -------------------------------------------------------------------------------------


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Collect what flows announce, in place of the server."""
    events: list[Any] = []
    monkeypatch.setattr(
        "flows.orchestration.emit", lambda *event, labels=None: events.append((*event, dict(labels or {})))
    )
    return events


@pytest.mark.e2e
def test_a_calibration_is_announced_certified_and_promoted_by_the_rule_which_starts_nothing_more(
    server: str, lab: Lab, guard: Guard, heard: list[Any], started: list[Any], run_of: Any, artifacts: Any
) -> None:
    from flows.simulate import simulate
    from tasks.tracking.connection import connected

    calibrated_by_flow(lab, promote=True, because="the first one")
    guard.fingerprint, guard.version = "e" * 64, "2"
    calibrated_by_flow(lab)
    assert [(name, resource, payload["calibration"]) for name, resource, payload, _ in heard] == [
        ("assay.calibration.made", "assay.calibration.safety", f"models:/safety/{version}") for version in (1, 2)
    ]
    heard.clear()
    small = {"replications": 200, "grid": {"n_units": [300], "prevalences": [0.2]}, "workers": 1}
    simulate(calibration="models:/safety/2", promote=False, tracking_uri=lab.store, **small)
    with connected(lab.store) as client:
        assert client.get_model_version_by_alias("safety", "champion").version == 1
    simulate(calibration="models:/safety/2", promote=True, tracking_uri=lab.store, **small)
    with connected(lab.store) as client:
        champion = client.get_model_version_by_alias("safety", "champion")
        run = client.get_run(champion.run_id)
    assert champion.version == 2
    for tags in (champion.tags, run.data.tags):
        assert tags["promoted_by"] == "rule"
        assert "the composite is measured" in tags["promoted_because"]
        assert tags["promoted_over"] == "1"
        assert tags["promotion_rule"] == tags["promoted_because"]
    assert "models\\:/safety/2 is the champion" in artifacts(run_of("simulate"))["simulation"]
    assert heard == []  # no loop
    assert watched(lab).document["result"]["verdict"] == "same"
    assert started == []


@pytest.mark.e2e
def test_where_the_rule_says_no_a_person_decides_and_their_word_is_kept(
    server: str, lab: Lab, guard: Guard, heard: list[Any], assay: Any, run_of: Any, artifacts: Any
) -> None:
    from flows.simulate import simulate
    from tasks.tracking.connection import connected

    calibrated(lab)
    small = {"replications": 20, "grid": {"n_units": [300], "prevalences": [0.2]}, "workers": 1}
    simulate(calibration="models:/safety/1", promote=True, tracking_uri=lab.store, **small)
    told = artifacts(run_of("simulate"))["simulation"]
    assert "a person decides" in told
    with connected(lab.store) as client:
        version = client.get_model_version("safety", "1")
        assert "promoted_by" not in version.tags
        assert "there is no champion to hold it against" in version.tags["promotion_rule"]

    assert assay("promote", "models:/safety/1", "--tracking-uri", lab.store).code == 2
    done = assay(
        "promote", "models:/safety@challenger", "--reason", "read with the red team", "--tracking-uri", lab.store
    )
    assert (done.code, done.out) == (0, "champion: models:/safety/1\n"), done.err
    with connected(lab.store) as client:
        version = client.get_model_version_by_alias("safety", "champion")
        run = client.get_run(version.run_id)
    for tags in (version.tags, run.data.tags):
        assert tags["promoted_because"] == "read with the red team"
        assert tags["promoted_by"] != "rule"


def test_a_calibration_that_was_never_registered_cannot_be_promoted(assay: Any, world: Any, lab: Lab) -> None:
    told = assay("promote", world.calibration, "--reason", "x", "--tracking-uri", lab.store)
    assert told.code == 2
    assert "is no version of the registered model 'small'" in told.err
    told = assay("promote", world.measurement, "--reason", "x", "--tracking-uri", lab.store)
    assert "a calibration is needed" in told.err


# --- from release to gate ---------------------------------------------------------------------------------------------

POLICY = """\
name: strict
rules:
  - rule: composite-rate
    metric: composite.prevalence
    bound: high
    op: "<="
    threshold: {threshold}
    severity: block
"""


@pytest.mark.e2e
def test_a_measurement_is_gated_and_a_gate_that_stops_a_release_is_announced(
    server: str, world: Any, heard: list[Any], tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    from flows.measure import measure

    for threshold, verdicts in ((1.0, set()), (0.0001, {"assay.gate.failed"})):
        policy = tmp_path / "strict.yaml"
        policy.write_text(POLICY.format(threshold=threshold))
        heard.clear()
        measure(
            scores=str(world.production), calibration=str(world.calibration), target="bot@2", policy=str(policy),
            output=str(tmp_path / "m.json"), tracking_uri="none",
        )  # fmt: skip
        made, *gates = heard
        assert made[0] == "assay.measurement.made"
        assert made[2]["baseline"] is None
        assert made[3] == {}
        assert {name for name, *_ in gates} == verdicts
        assert "Record `" in artifacts(run_of("measure"))["gate"]
    ((_, resource, payload, _),) = gates
    assert resource == "assay.gate.strict"
    assert (payload["verdict"], payload["target"], payload["policy"]) == ("fail", "bot@2", "strict")
    assert Path(payload["place"]).is_file()


@pytest.mark.e2e
def test_a_release_with_a_baseline_is_announced_for_comparison_and_gated_after_it(
    server: str, lab: Lab, guard: Guard, heard: list[Any], tmp_path: Path, run_of: Any, artifacts: Any
) -> None:
    from flows.compare import compare
    from flows.measure import measure
    from tasks.tracking.connection import connected

    calibrated(lab, because="the first one")
    for target, baseline in (("bot@1", None), ("bot@2", "bot@1"), ("bot@3", "bot@0")):
        scores = tmp_path / f"{target}.csv"
        rows = [f"p{i},hate,{0.8 if i % 5 < int(target[-1]) else 0.2}" for i in range(100)]
        scores.write_text("\n".join(["trace_id,category,score", *rows, ""]))
        measure(
            scores=str(scores), instrument=str(lab.instrument), target=target, baseline=baseline, policy=None,
            tracking_uri=lab.store,
        )  # fmt: skip
    made = {event[2]["target"]: event for event in heard if event[0] == "assay.measurement.made"}
    with connected(lab.store) as client:
        experiment = client.get_experiment_by_name("assay/measurement")
        (first,) = client.search_runs([experiment.experiment_id], "tags.target = 'bot@1' and tags.kind = 'release'")
    payload, labels = made["bot@2"][2:]
    assert payload["baseline"] == f"runs:/{first.info.run_id}"
    assert labels == {"assay.baseline": payload["baseline"]}
    assert made["bot@3"][2]["baseline"] is None  # bot@0 was never measured: told, and nothing to compare
    policy = tmp_path / "strict.yaml"
    policy.write_text(POLICY.format(threshold=0.0001))
    written = compare(
        releases=[payload["baseline"], payload["measurement"]],
        remeasure=True,
        policy=str(policy),
        tracking_uri=lab.store,
    )
    assert written.document["result"]["composite"]["verdict"] == "increase"
    name, _, told, _ = heard[-1]
    assert (name, told["target"]) == ("assay.gate.failed", "bot@2")
    assert "gate" in artifacts(run_of("compare"))


# --- as a command -----------------------------------------------------------------------------------------------------


def test_the_command_watches_a_record_on_disk_and_says_what_would_tell_more(
    assay: Any, world: Any, tmp_path: Path
) -> None:
    told = assay(
        "watch", world.calibration, "--scores", world.scores, "-o", tmp_path / "w.json", "--tracking-uri", "none"
    )
    assert told.code == 0, told.err
    assert "INSUFFICIENT" in told.out
    assert "anchors would tell a shift of 5 points from none" in told.out
    assert "the golden set has" in told.out
    assert assay("verify", tmp_path / "w.json").code == 0
    record = json.loads((tmp_path / "w.json").read_text())
    assert record["schema"] == "assay.watch/1"
    record["result"]["verdict"] = "same"
    (tmp_path / "w.json").write_text(json.dumps(record))
    assert assay("verify", tmp_path / "w.json").code == 1


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--scores", "s.csv", "--judge", "x@1"], 2, "leave --judge out"),
        (["--anchors", "3"], 2, "--anchors"),
        ([], 2, "is not registered here; name its --scores"),
        (["--judge", "llm@1"], 2, "ASSAY_JUDGE_RUBRIC: is not set"),
    ],
)
def test_what_cannot_be_watched_is_told(assay: Any, world: Any, options: list[str], code: int, says: str) -> None:
    told = assay("watch", world.calibration, "--tracking-uri", "none", *options)
    assert told.code == code
    assert says in " ".join(told.err.split())
