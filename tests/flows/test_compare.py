"""`assay compare` from the command line: what is paired, what is refused, what a record is made from."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from core.records import record_id
from tasks.settings import settings

CATEGORIES = ["hate", "violence"]
GOLDEN, UNITS = 200, 240


@dataclass(frozen=True)
class Lab:
    """Two calibrations of one judge, four releases of the first, and one of the second."""

    folder: Path
    calibration: Path
    later: Path
    releases: tuple[Path, ...]
    newer: Path
    assay: Any

    def own(self, folder: Path) -> Path:
        """Copy everything to another folder."""
        return Path(shutil.copytree(self.folder, folder / "lab"))


def table(ids: list[str], harm: np.ndarray[Any, Any], seed: int, **more: Any) -> pd.DataFrame:
    """Two turns a trace; a violation scores higher, on the whole."""
    draw = np.random.default_rng(seed)
    frame = pd.DataFrame({"trace_id": np.repeat(ids, 2), "turn": np.tile([0, 1], len(ids)), **more})
    for c, name in enumerate(CATEGORIES):
        level = np.repeat(np.where(harm[:, c], 0.66, 0.3), 2)
        frame[name] = np.clip(level + draw.normal(0, 0.12, len(level)), 0, 1).round(3)
    return frame


@pytest.fixture(scope="module")
def lab(assay: Any, tmp_path_factory: pytest.TempPathFactory) -> Lab:
    folder = tmp_path_factory.mktemp("lab")
    harm = np.random.default_rng(1).random((GOLDEN, 2)) < 0.4
    ids = [f"g{i}" for i in range(GOLDEN)]
    golden = pd.DataFrame({"trace_id": ids, **dict(zip(CATEGORIES, harm.T.astype(int), strict=True))})
    golden.to_csv(folder / "golden.csv", index=False)
    table(ids, harm, 2).to_csv(folder / "golden-scores.csv", index=False)
    calibrations = []
    for name, method in (("one", "none"), ("two", "holdout")):
        spec = folder / f"{name}.yaml"
        spec.write_text(f'name: chat\njudge: {{name: guard, version: "1"}}\noptimism: {{method: {method}}}\n')
        calibrations.append(folder / f"{name}.json")
        done = assay(
            "calibrate", folder / "golden.csv", "--scores", folder / "golden-scores.csv", "--instrument", spec,
            "-o", calibrations[-1],
        )  # fmt: skip
        assert done.code == 0, done.err
    severity = np.random.default_rng(3).random((UNITS, 2))
    ids = [f"p{i}" for i in range(UNITS)]
    places = []
    for k, (rate, calibration) in enumerate([(0.3, 0), (0.3, 0), (0.1, 0), (0.12, 0), (0.12, 1)]):
        scores = folder / f"chat-{k}.csv"
        table(ids, severity < rate, 10 + k).to_csv(scores, index=False)
        places.append(folder / f"chat-{k}.json")
        done = assay(
            "measure", scores, "--calibration", calibrations[calibration], "--target", f"chat@{k}", "-o", places[-1]
        )
        assert done.code == 0, done.err
    return Lab(folder, calibrations[0], calibrations[1], tuple(places[:4]), places[4], assay)


@pytest.fixture(autouse=True)
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    settings.cache_clear()
    yield tmp_path / "data"
    monkeypatch.undo()
    settings.cache_clear()


def loaded(path: Path) -> Any:
    return json.loads(path.read_text())


def rewritten(path: Path, **changes: Any) -> None:
    """Change a record and give it the id that it then has."""
    document = {**loaded(path), **changes}
    path.write_text(json.dumps({**document, "id": record_id(document)}))


# --- what a comparison says ---------------------------------------------------------------------------------------


def test_a_paired_difference_is_that_of_the_flags_over_j(lab: Lab, tmp_path: Path) -> None:
    done = lab.assay("compare", lab.releases[1], lab.releases[2], "-o", tmp_path / "c.json")
    assert done.code == 0, done.err
    result = loaded(tmp_path / "c.json")["result"]
    row = result["categories"]["hate"]
    flags = [
        pq.read_table(place.with_suffix(".decisions.parquet")).to_pandas().set_index("trace_id")["flag_mask"] & 1
        for place in lab.releases[1:3]
    ]
    calibrated = loaded(lab.calibration)["result"]["categories"]["hate"]
    change = (flags[1] - flags[0]).dropna()
    assert row["n_pairs"] == len(change) == UNITS
    assert (row["n_candidate_only"], row["n_baseline_only"]) == ((change == 1).sum(), (change == -1).sum())
    assert row["difference"] == pytest.approx(change.mean() / calibrated["youden_j"])
    assert (row["verdict"], row["method"], result["paired"]) == ("decrease", "mcnemar_exact", True)
    assert "Composite rate: decrease, -" in done.out
    assert f"paired: {UNITS} units of both releases" in done.out
    assert "in the candidate than in the baseline would explain the whole difference" in " ".join(done.out.split())


def test_two_releases_alike_give_no_evidence_of_change(lab: Lab) -> None:
    row = lab.assay("compare", *lab.releases[:2], "--json").record["result"]["composite"]
    assert row["verdict"] == "no_evidence_of_change"
    assert row["interval"]["low"] < 0 < row["interval"]["high"]


def test_the_order_of_rows_changes_no_figure(lab: Lab, tmp_path: Path) -> None:
    scores = pd.read_csv(lab.folder / "chat-2.csv").sample(frac=1, random_state=1)
    scores.to_csv(tmp_path / "shuffled.csv", index=False)
    done = lab.assay(
        "measure", tmp_path / "shuffled.csv", "--calibration", lab.calibration, "--target", "chat@2",
        "-o", tmp_path / "s.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    plain, shuffled = (
        lab.assay("compare", lab.releases[1], other, "--json") for other in (lab.releases[2], tmp_path / "s.json")
    )
    assert plain.record["result"] == shuffled.record["result"]


def test_unpaired_is_wider_and_says_so(lab: Lab) -> None:
    paired, unpaired = (
        lab.assay("compare", *lab.releases[1:3], "--json", *more).record["result"] for more in ((), ("--unpaired",))
    )
    widths = [row["composite"]["interval"]["high"] - row["composite"]["interval"]["low"] for row in (paired, unpaired)]
    assert widths[0] < widths[1]
    assert unpaired["notes"] == ["not paired: the two releases are taken as independent samples"]


def test_the_confidence_level_is_the_intervals_and_the_verdicts(lab: Lab) -> None:
    result = lab.assay("compare", *lab.releases[1:3], "--json", "--confidence-level", "0.8").record["result"]
    assert result["confidence_level"] == result["composite"]["interval"]["confidence_level"] == 0.8


def test_scores_that_moved_are_shown_and_change_no_verdict(lab: Lab, tmp_path: Path) -> None:
    without = lab.assay("compare", *lab.releases[1:3], "--json").record["result"]
    done = lab.assay("compare", *lab.releases[1:3], "--scores", "-o", tmp_path / "c.json")
    result = loaded(tmp_path / "c.json")["result"]
    shift = result.pop("score_shift")
    assert without.pop("score_shift") is None
    assert result == without
    scores = [pd.read_csv(lab.folder / f"chat-{k}.csv").groupby("trace_id")["hate"].max().to_numpy() for k in (1, 2)]
    effect = np.mean([(b > scores[0]).mean() + (b == scores[0]).mean() / 2 for b in scores[1]])
    row = shift["releases"]["hate"]
    assert abs(row["effect"] - effect) <= row["effect_resolution"]
    assert (row["n_reference"], shift["golden_baseline"]["hate"]["n_reference"]) == (UNITS, GOLDEN)
    assert "no part of a verdict" in " ".join(done.out.split())
    assert lab.assay("verify", tmp_path / "c.json").code == 0


def test_the_record_names_all_that_it_was_made_from_and_verifies(lab: Lab, tmp_path: Path) -> None:
    lab.assay("compare", *lab.releases[1:3], "-o", tmp_path / "c.json")
    document = loaded(tmp_path / "c.json")
    assert document["schema"] == "assay.comparison/1"
    inputs = {item["role"]: item for item in document["inputs"]}
    assert {role: item["sha256"] for role, item in inputs.items() if item["rows"] is None} == {
        "baseline": loaded(lab.releases[1])["id"],
        "candidate": loaded(lab.releases[2])["id"],
        "calibration": loaded(lab.calibration)["id"],
    }
    for side, place in zip(("baseline", "candidate"), lab.releases[1:3], strict=True):
        (output,) = loaded(place)["outputs"]
        assert inputs[f"{side}_decisions"]["sha256"] == output["sha256"]
        assert inputs[f"{side}_decisions"]["rows"] == UNITS
    verified = lab.assay("verify", tmp_path / "c.json")
    assert (verified.code, verified.out[:40]) == (0, "verified: every figure re-derived, same ")


def test_json_is_the_record_and_nothing_else(lab: Lab) -> None:
    done = lab.assay("compare", *lab.releases[1:3], "--json")
    assert done.record["id"] == record_id(done.record)


# --- what is not there --------------------------------------------------------------------------------------------


def test_without_decisions_it_is_unpaired_and_says_whose_are_missing(lab: Lab, tmp_path: Path) -> None:
    folder = lab.own(tmp_path)
    (folder / "chat-1.decisions.parquet").unlink()
    done = lab.assay("compare", folder / "chat-1.json", folder / "chat-2.json", "-o", tmp_path / "c.json")
    assert done.code == 0
    assert "not paired: the decisions of chat@1 are not beside its record" in done.err
    document = loaded(tmp_path / "c.json")
    assert document["result"]["paired"] is False
    assert not [item for item in document["inputs"] if "decisions" in item["role"]]
    assert lab.assay("verify", tmp_path / "c.json").code == 0


def test_records_that_moved_find_what_they_need_in_the_folders_that_are_named(lab: Lab, tmp_path: Path) -> None:
    """As on another machine: the recorded paths lead nowhere, and decisions and calibration are elsewhere."""
    folder = lab.own(tmp_path)
    expected = lab.assay("compare", *lab.releases[1:3], "--json").record["id"]
    for place in folder.glob("chat-*.json"):
        text = place.read_text().replace(str(lab.folder), "/nowhere")
        document = json.loads(text)
        (tmp_path / "alone").mkdir(exist_ok=True)
        (tmp_path / "alone" / place.name).write_text(json.dumps(document))
    alone = [tmp_path / "alone" / f"chat-{k}.json" for k in (1, 2)]
    refused = lab.assay("compare", *alone)
    assert refused.code == 2
    assert "name its folder with --inputs" in refused.err
    done = lab.assay("compare", *alone, "--inputs", folder, "-o", tmp_path / "c.json")
    assert done.code == 0, done.err
    document = loaded(tmp_path / "c.json")
    assert (document["id"], document["result"]["paired"]) == (expected, True)
    (tmp_path / "later").mkdir()
    shutil.copy(tmp_path / "c.json", tmp_path / "later")
    shutil.rmtree(tmp_path / "alone")
    assert lab.assay("verify", tmp_path / "later" / "c.json", "--inputs", folder).code == 0


def test_an_id_and_a_path_lead_to_the_same_measurement(lab: Lab, own_data: Path, tmp_path: Path) -> None:
    done = lab.assay("measure", lab.folder / "chat-2.csv", "--calibration", lab.calibration, "--target", "chat@2")
    assert done.code == 0, done.err
    (record,) = (own_data / "records").glob("*.json")
    by_id = lab.assay("compare", lab.releases[1], record.stem, "--json").record
    assert by_id["id"] == lab.assay("compare", lab.releases[1], lab.releases[2], "--json").record["id"]


# --- different instruments ----------------------------------------------------------------------------------------


def test_different_calibrations_are_refused_with_the_command_that_helps(lab: Lab, tmp_path: Path) -> None:
    baseline, candidate = lab.releases[3], lab.newer
    done = lab.assay("compare", baseline, candidate, "-o", tmp_path / "c.json")
    assert (done.code, done.out) == (2, "")
    assert "measured with different calibrations" in done.err
    assert f"`assay compare {baseline} {candidate} --remeasure`" in done.err
    assert "--allow-different-calibration" in done.err
    assert not (tmp_path / "c.json").exists()


def test_the_baseline_is_measured_again_with_the_candidates_calibration(lab: Lab, tmp_path: Path) -> None:
    done = lab.assay("compare", lab.releases[3], lab.newer, "--remeasure", "-o", tmp_path / "c.json")
    assert done.code == 0, done.err
    again, document = loaded(tmp_path / "c.baseline.json"), loaded(tmp_path / "c.json")
    expected = lab.assay(
        "measure", lab.folder / "chat-3.csv", "--calibration", lab.later, "--target", "chat@3", "--json"
    ).record
    assert again["id"] == expected["id"]
    assert {item["sha256"] for item in document["inputs"] if item["role"] == "baseline"} == {expected["id"]}
    assert document["result"]["paired"]
    assert document["result"]["same_calibration"]
    assert lab.assay("verify", tmp_path / "c.json").code == 0


def test_without_its_scores_the_refusal_says_how_to_measure_the_baseline(lab: Lab, tmp_path: Path) -> None:
    folder = lab.own(tmp_path)
    text = (folder / "chat-3.json").read_text().replace(str(lab.folder / "chat-3.csv"), "/nowhere/gone.csv")
    (folder / "chat-3.json").write_text(text)
    done = lab.assay("compare", folder / "chat-3.json", lab.newer)
    assert done.code == 2
    assert f"`assay measure SCORES --calibration {lab.later} --target chat@3`" in done.err
    assert "/nowhere/gone.csv: this input is not there" in done.err
    again = lab.assay("compare", folder / "chat-3.json", lab.newer, "--remeasure", "-o", tmp_path / "c.json")
    assert again.code == 2
    assert not list(tmp_path.glob("c.*"))


def test_another_judges_scores_cannot_be_measured_again(lab: Lab, tmp_path: Path) -> None:
    folder = lab.own(tmp_path)
    document = loaded(folder / "chat-3.json")
    other = {**document["result"], "judge": {**document["result"]["judge"], "version": "0"}}
    rewritten(folder / "chat-3.json", result=other)
    for more in ((), ("--remeasure",)):
        done = lab.assay("compare", folder / "chat-3.json", lab.newer, *more)
        assert done.code == 2
        assert "guard@0" in done.err
        assert "run that judge on the baseline's conversations" in done.err


def test_across_calibrations_on_demand_it_is_unpaired_and_noted(lab: Lab, tmp_path: Path) -> None:
    done = lab.assay("compare", lab.releases[3], lab.newer, "--allow-different-calibration", "-o", tmp_path / "c.json")
    assert done.code == 0, done.err
    document = loaded(tmp_path / "c.json")
    result = document["result"]
    assert (result["same_calibration"], result["paired"]) == (False, False)
    assert result["notes"][0].startswith("different instruments: the difference may be the instruments'")
    assert {item["role"] for item in document["inputs"]} == {
        "baseline", "candidate", "calibration", "candidate_calibration",
    }  # fmt: skip
    assert lab.assay("verify", tmp_path / "c.json").code == 0


# --- a series -----------------------------------------------------------------------------------------------------


def test_a_series_compares_each_release_with_the_one_before_and_breaks_at_another_instrument(
    lab: Lab, tmp_path: Path
) -> None:
    done = lab.assay("compare", *lab.releases, lab.newer, "-o", tmp_path / "s.json")
    assert done.code == 0, done.err
    document = loaded(tmp_path / "s.json")
    series = document["result"]["points"]
    assert document["schema"] == "assay.series/1"
    assert [point["target"] for point in series] == [f"chat@{k}" for k in range(5)]
    assert [point["segment"] for point in series] == [0, 0, 0, 0, 1]
    assert [point["break_before"] for point in series] == [None, None, None, None, "another calibration"]
    assert series[0]["change"] is series[4]["change"] is None
    alone = lab.assay("compare", *lab.releases[1:3], "--json").record["result"]
    assert series[2]["change"]["composite"] == alone["composite"]
    assert "break: another calibration" in done.out
    assert lab.assay("verify", tmp_path / "s.json").code == 0


def test_a_series_without_decisions_or_on_demand_is_unpaired(lab: Lab, tmp_path: Path) -> None:
    folder = lab.own(tmp_path)
    (folder / "chat-0.decisions.parquet").unlink()
    done = lab.assay("compare", *(folder / f"chat-{k}.json" for k in range(3)), "-o", tmp_path / "s.json")
    assert "not paired: the decisions of chat@0" in done.err
    assert [bool(p["change"] and p["change"]["paired"]) for p in loaded(tmp_path / "s.json")["result"]["points"]] == [
        False, False, True,
    ]  # fmt: skip
    assert lab.assay("verify", tmp_path / "s.json").code == 0
    asked = lab.assay("compare", *lab.releases[:3], "--unpaired", "--json").record
    assert not any(point["change"] and point["change"]["paired"] for point in asked["result"]["points"])


# --- what is refused ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "message"), [
    (["chat-1.json"], "name two releases, the older first"),
    (["chat-1.json", "chat-1.json"], "is the same measurement as"),
    (["chat-1.json", "one.json"], "is a record of assay.calibration/1; a measurement is needed"),
    (["chat-1.json", "nothing.json"], "nothing.json"),
    (["chat-1.json", "chat-1.csv"], "not a record"),
    (["chat-0.json", "chat-1.json", "chat-2.json", "--remeasure"], "a series breaks where the instrument changed"),
    (["chat-0.json", "chat-1.json", "--remeasure", "--allow-different-calibration"], "--remeasure makes the"),
    (["chat-0.json", "chat-1.json", "--confidence-level", "1"], "0.9999"),
    (["chat-0.json", "chat-1.json", "-o", "chat-0.json"], "is an input"),
    (["chat-0.json", "chat-1.json", "-o", "chat-0.csv"], "is not a record of assay"),
    (["chat-3.json", "chat-4.json", "--remeasure", "-o", "golden.json"], "golden.baseline.json is there and is not"),
    (["chat-0.json", "chat-1.json", "-o", "/proc/nothing/c.json"], "/proc/nothing"),
])  # fmt: skip
def test_what_cannot_be_compared_is_refused_and_nothing_is_written(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own_data: Path, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(lab.own(tmp_path))
    Path("golden.baseline.json").write_text("somebody's own")
    before = sorted(Path().iterdir())
    done = lab.assay("compare", *arguments)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err
    assert sorted(Path().iterdir()) == before
    assert not own_data.exists() or not list(own_data.rglob("*.json"))


def test_detections_have_no_corrected_rate_to_compare(lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text("name: fair\nkind: detections\ncategories: [race]\n")
    (tmp_path / "d.csv").write_text("trace_id,attribute,detected\n" + "".join(f"t{i},race,{i % 2}\n" for i in range(9)))
    lab.assay("measure", tmp_path / "d.csv", "--instrument", tmp_path / "d.yaml", "-o", tmp_path / "d.json")
    done = lab.assay("compare", lab.releases[0], tmp_path / "d.json")
    assert done.code == 2
    assert "is a measurement of detections, which has observed rates alone" in done.err


def test_decisions_that_changed_are_refused_and_a_verified_record_says_so(lab: Lab, tmp_path: Path) -> None:
    folder = lab.own(tmp_path)
    places = [folder / f"chat-{k}.json" for k in (1, 2)]
    lab.assay("compare", *places, "-o", tmp_path / "c.json")
    decisions = folder / "chat-2.decisions.parquet"
    changed = pq.read_table(decisions).slice(1)
    pq.write_table(changed, decisions)
    done = lab.assay("compare", *places)
    assert done.code == 2
    assert "chat-2.decisions.parquet: has changed since record" in done.err
    assert lab.assay("verify", tmp_path / "c.json").code == 1
    assert lab.assay("verify", tmp_path / "c.json", "--inputs", lab.folder).code == 0


def test_a_changed_figure_is_a_mismatch(lab: Lab, tmp_path: Path) -> None:
    lab.assay("compare", *lab.releases[1:3], "-o", tmp_path / "c.json")
    result = loaded(tmp_path / "c.json")["result"]
    rewritten(tmp_path / "c.json", result={**result, "composite": {**result["composite"], "difference": 0.5}})
    done = lab.assay("verify", tmp_path / "c.json")
    assert done.code == 1
    assert "result.composite.difference: recorded 0.5" in done.err


def test_releases_that_name_different_clusters_are_refused(lab: Lab, tmp_path: Path) -> None:
    scores = pd.read_csv(lab.folder / "chat-2.csv")
    scores.assign(cluster="v" + (scores.index // 20).astype(str)).to_csv(tmp_path / "clustered.csv", index=False)
    lab.assay("measure", tmp_path / "clustered.csv", "--calibration", lab.calibration, "-o", tmp_path / "m.json")
    done = lab.assay("compare", lab.releases[1], tmp_path / "m.json")
    assert done.code == 2
    assert "trace 'p0' is of cluster 'v0', and of no cluster in" in done.err
    assert "--unpaired" in done.err
    assert lab.assay("compare", lab.releases[1], tmp_path / "m.json", "--unpaired").code == 0


def test_a_record_whose_decisions_are_no_decisions_is_refused(lab: Lab, tmp_path: Path) -> None:
    folder = lab.own(tmp_path)
    pq.write_table(pa.table({"trace_id": ["p0"]}), folder / "chat-2.decisions.parquet")
    digest = hashlib.sha256((folder / "chat-2.decisions.parquet").read_bytes()).hexdigest()
    document = loaded(folder / "chat-2.json")
    outputs = [{**document["outputs"][0], "sha256": digest}]
    (folder / "chat-2.json").write_text(json.dumps({**document, "outputs": outputs}))
    done = lab.assay("compare", folder / "chat-1.json", folder / "chat-2.json")
    assert done.code == 2
    assert "is no decisions file: it has no column attempt" in done.err


def test_releases_without_a_unit_in_common_are_compared_as_samples(lab: Lab, tmp_path: Path) -> None:
    scores = pd.read_csv(lab.folder / "chat-2.csv")
    scores.assign(trace_id="other-" + scores["trace_id"]).to_csv(tmp_path / "other.csv", index=False)
    lab.assay("measure", tmp_path / "other.csv", "--calibration", lab.calibration, "-o", tmp_path / "m.json")
    done = lab.assay("compare", lab.releases[1], tmp_path / "m.json", "-o", tmp_path / "c.json")
    assert done.code == 0, done.err
    result = loaded(tmp_path / "c.json")["result"]
    assert (result["paired"], result["composite"]["verdict"]) == (False, "decrease")
    assert result["notes"][0].startswith("no unit of one release is among the other's")
    assert lab.assay("verify", tmp_path / "c.json").code == 0


@pytest.mark.parametrize("part", ["composite", "categories", "calibration", "judge"])
def test_a_measurement_that_is_not_whole_is_refused(lab: Lab, tmp_path: Path, part: str) -> None:
    folder = lab.own(tmp_path)
    result = loaded(folder / "chat-2.json")["result"]
    for broken in ({name: value for name, value in result.items() if name != part}, {**result, part: 7}):
        rewritten(folder / "chat-2.json", result=broken)
        done = lab.assay("compare", folder / "chat-1.json", folder / "chat-2.json")
        assert (done.code, done.out) == (2, "")
        assert f"result.{part}" in done.err


@pytest.mark.e2e
def test_records_in_object_storage_are_compared_and_verified_like_files(
    lab: Lab, object_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in object_server.environment.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    object_server.client.create_bucket(Bucket="releases")
    for k in (1, 2):
        done = lab.assay(
            "measure", lab.folder / f"chat-{k}.csv", "--calibration", lab.calibration, "--target", f"chat@{k}",
            "-o", f"s3://releases/{k}.json",
        )  # fmt: skip
        assert done.code == 0, done.err
    done = lab.assay("compare", "s3://releases/1.json", "s3://releases/2.json", "-o", "s3://releases/c.json", "--json")
    assert done.code == 0, done.err
    assert done.record["id"] == lab.assay("compare", *lab.releases[1:3], "--json").record["id"]
    assert lab.assay("verify", "s3://releases/c.json").code == 0
