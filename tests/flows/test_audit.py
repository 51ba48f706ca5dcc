"""`assay audit` through the command line: record, verification, verdicts of the shipped policies, published figures."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tasks.builtin.outputs_sample import MODELS, outputs_sample

SPEC = """\
kind: predictions
name: hiring
groups: [sex, race]
positive: {y_pred: "yes"}
reference: {race: x}
source: drawn in this test
"""


def people(n: int, *, biased: bool, seed: int = 3) -> pd.DataFrame:
    """Seed 004's three metrics at once: y_pred, y_true and the model's confidence that y_pred is right."""
    rng = np.random.default_rng(seed)
    sex, race = rng.choice(["f", "m"], n), rng.choice(["x", "y"], n)
    truth = rng.random(n) < 0.5
    wrong = rng.random(n) < (np.where(sex == "f", 0.3, 0.1) if biased else np.full(n, 0.1))
    chosen = np.where(wrong, ~truth & (sex == "m") if biased else ~truth, truth)
    return pd.DataFrame({
        "sex": sex, "race": race, "y_pred": np.where(chosen, "yes", "no"), "y_true": np.where(truth, "yes", "no"),
        "score": np.round(np.where(chosen, 0.9, 0.1), 3),
    })  # fmt: skip


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "audit.yaml"
    path.write_text(SPEC, encoding="utf-8")
    return path


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(frame: pd.DataFrame, name: str = "predictions.csv") -> Path:
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, project: Path) -> Path:
    """The built-in sample's two models, and its spec."""
    folder = tmp_path_factory.mktemp("sample")
    for model in MODELS:
        pq.write_table(outputs_sample(model), folder / f"{model.name}.parquet")
    text = (project / "tasks" / "builtin" / "fairness" / "sample.yaml").read_text(encoding="utf-8")
    (folder / "sample.yaml").write_text(text, encoding="utf-8")
    return folder


# --- seed 004's pipeline: evaluate, parity, equalized odds, intersections, aggregate, fail if any fails --------------


@pytest.mark.parametrize(
    ("frame", "code", "verdict"),
    [
        (people(4000, biased=True), 1, "fail"),
        (people(12_000, biased=False), 0, "pass"),
        (people(160, biased=False), 3, "insufficient_evidence"),
    ],
    ids=["biased", "fair", "tiny"],
)
def test_the_pipeline_of_seed_004_stops_the_biased_model_passes_the_fair_one_and_asks_for_more_of_the_tiny_one(
    frame: pd.DataFrame, code: int, verdict: str, assay: Any, written: Any, spec: Path, tmp_path: Path, project: Path
) -> None:
    record, gated = tmp_path / "audit.json", tmp_path / "gate.json"
    assert assay("audit", written(frame), "--spec", spec, "-o", record).code == 0
    policies = project / "deployments" / "policies"
    found = assay("gate", record, "--policy", policies / "high-stakes.yaml", "-o", gated)
    assert found.code == code, found.out
    result = json.loads(gated.read_text())["result"]
    assert result["verdict"] == verdict
    for name in ("four-fifths", "equalized-odds", "accuracy-gap"):
        alone = assay("gate", record, "--policy", policies / f"{name}.yaml")
        assert alone.code in ({0} if code == 0 else {3} if code == 3 else {0, 1, 3}), alone.out
    if code == 1:
        failed = {rule["metric"] for rule in result["rules"] if rule["verdict"] == "fail"}
        assert "attributes.sex.equalized_odds" in failed
        assert not any(metric.startswith("attributes.race") for metric in failed)


# --- the record ------------------------------------------------------------------------------------------------------


def test_an_audit_is_a_record_with_its_inputs_and_spec_and_verifies(
    assay: Any, written: Any, spec: Path, tmp_path: Path
) -> None:
    table, record = written(people(1200, biased=True)), tmp_path / "audit.json"
    outcome = assay("audit", table, "--spec", spec, "-o", record, "--confidence-level", "0.9")
    assert outcome.code == 0, outcome.err
    document = json.loads(record.read_text())
    assert document["schema"] == "assay.audit/1"
    assert [(item["role"], item["rows"]) for item in document["inputs"]] == [("predictions", 1200)]
    assert document["spec"]["confidence_level"] == 0.9
    assert document["result"]["confidence_level"] == 0.9
    verified = assay("verify", record)
    assert (verified.code, "same id" in verified.out) == (0, True)

    table.write_text(table.read_text().replace("yes", "no", 1))
    assert assay("verify", record).code == 1


def test_a_figure_edited_with_a_fitting_id_is_a_mismatch(assay: Any, written: Any, spec: Path, tmp_path: Path) -> None:
    from core.records import record_id

    record = tmp_path / "audit.json"
    assay("audit", written(people(600, biased=True)), "--spec", spec, "-o", record)
    document = json.loads(record.read_text())
    document["result"]["attributes"]["sex"]["rates"]["selection_rate"]["ratio"]["value"] = 1.0
    document["id"] = record_id(document)
    record.write_text(json.dumps(document))
    outcome = assay("verify", record)
    assert outcome.code == 1
    assert "attributes.sex.rates.selection_rate.ratio.value" in outcome.err


def test_json_is_the_record_alone_and_any_format_gives_the_same_result(
    assay: Any, written: Any, spec: Path, tmp_path: Path
) -> None:
    frame = people(800, biased=True)
    paths = [written(frame), tmp_path / "p.parquet", tmp_path / "p.jsonl"]
    frame.astype({"sex": "category"}).to_parquet(paths[1])
    frame.to_json(paths[2], orient="records", lines=True)
    half = tmp_path / "halves"
    half.mkdir()
    frame[:300].to_csv(half / "a.csv", index=False)
    frame[300:].to_parquet(half / "b.parquet")
    outcomes = [assay("audit", path, "--spec", spec, "--json") for path in (*paths, half)]
    assert [outcome.code for outcome in outcomes] == [0] * 4, outcomes[-1].err
    results = [outcome.record["result"] for outcome in outcomes]
    assert all(result == results[0] for result in results)
    assert len({outcome.record["id"] for outcome in outcomes}) == 4


def test_the_terminal_names_gaps_and_never_calls_a_model_fair(assay: Any, written: Any, spec: Path) -> None:
    outcome = assay("audit", written(people(1500, biased=True)), "--spec", spec)
    assert outcome.code == 0
    for told in ("by sex", "by race", "by sex x race", "groups differ", "Equalized odds", "lower", "1500 rows"):
        assert told in outcome.out
    assert "no evidence" in outcome.out
    for word in ("unbiased", " fair", "accurate", "safe"):
        assert word not in outcome.out.lower()


# --- what is wrong, all at once --------------------------------------------------------------------------------------


def test_all_that_is_wrong_with_predictions_is_told_at_once(assay: Any, written: Any, tmp_path: Path) -> None:
    spec = tmp_path / "audit.yaml"
    spec.write_text("kind: predictions\ngroups: [rase, sex]\npositive: {y_pred: yes}\nreference: {sex: w}\n")
    frame = people(40, biased=False).astype({"score": object})
    frame.loc[3, "score"], frame.loc[4, "sex"] = 1.5, "NaN"
    outcome = assay("audit", written(frame), "--spec", spec, "-o", tmp_path / "a.json")
    assert outcome.code == 2
    for told in (
        "has no column 'rase'; did you mean 'race'?",
        "column 'y_pred': its values are 'no', 'yes'; none of them is the positive one, 'true'",
        "put the word in quotes",
        "predictions.csv:5: score 1.5 is outside [0, 1]",
        "predictions.csv:6: sex is NaN; an empty cell means missing",
        "reference 'w' is no group of column 'sex'",
    ):
        assert told in outcome.err, outcome.err
    assert not (tmp_path / "a.json").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("groups: [sex]\n", "key 'kind' is missing; it is one of predictions, outputs"),
        ("kind: output\n", "did you mean 'outputs'?"),
        ("kind: predictions\ngroup: [sex]\npositive: {y_pred: 1}\n", "did you mean 'groups'?"),
        ("kind: predictions\ngroups: [sex]\n", "key 'positive' is missing"),
        ("kind: predictions\ngroups: [sex]\npositive: {y_pred: 1}\nmin_group: 0\n", "must be at least 1"),
        ("- kind\n", "mapping of keys"),
    ],
)
def test_a_wrong_spec_is_told_before_anything_is_read(
    text: str, said: str, assay: Any, spec: Path, tmp_path: Path
) -> None:
    spec.write_text(text)
    outcome = assay("audit", tmp_path / "absent.csv", "--spec", spec)
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


def test_all_that_is_wrong_with_outputs_is_told_at_once(assay: Any, sample: Path, tmp_path: Path) -> None:
    rows = [
        "id,scenario_id,variant,harm_slur,is_refusal,helpfulness",
        "a,s,base,0,maybe,9",
        "a,,female,0,1,3",
    ]
    (tmp_path / "o.csv").write_text("\n".join([*rows, ""]))
    outcome = assay("audit", tmp_path / "o.csv", "--spec", sample / "sample.yaml")
    assert outcome.code == 2
    for told in (
        "did you mean 'harm_slurs'?", "o.csv:2: is_refusal 'maybe'", "o.csv:2: helpfulness 9",
        "o.csv:3: scenario_id is empty", "o.csv:3: id 'a' stands already at",
    ):  # fmt: skip
        assert told in outcome.err, outcome.err
    older = ("--baseline", tmp_path / "older.csv")
    (tmp_path / "older.csv").write_text("id,scenario_id,variant,helpfulness\na,s,base,0\n")
    outcome = assay("audit", tmp_path / "o.csv", "--spec", sample / "sample.yaml", *older)
    assert (outcome.code, "o.csv:2: helpfulness 9" in outcome.err) == (2, True)
    assert "older.csv:2: helpfulness 0 is outside [1, 5]" in outcome.err
    (tmp_path / "p.csv").write_text("scenario,variant\ns,base\n")
    outcome = assay("audit", tmp_path / "p.csv", "--spec", sample / "sample.yaml")
    assert (outcome.code, "has no column 'scenario_id'; did you mean 'scenario'?" in outcome.err) == (2, True)


def test_a_baseline_goes_with_outputs_alone_and_an_output_never_takes_an_inputs_place(
    assay: Any, written: Any, spec: Path
) -> None:
    table = written(people(200, biased=False))
    outcome = assay("audit", table, "--spec", spec, "--baseline", table)
    assert (outcome.code, "a baseline goes with outputs" in outcome.err) == (2, True)
    for path in (table, spec):
        assert assay("audit", table, "--spec", spec, "-o", path, "--force").code == 2


# --- generated text --------------------------------------------------------------------------------------------------


def test_the_samples_audit_has_record_and_gate_verdict_and_verifies(
    assay: Any, sample: Path, tmp_path: Path, project: Path
) -> None:
    policy = project / "deployments" / "policies" / "fairbench-bands.yaml"
    verdicts = {}
    for model in MODELS:
        record = tmp_path / f"{model.name}.json"
        outcome = assay("audit", sample / f"{model.name}.parquet", "--spec", sample / "sample.yaml", "-o", record)
        assert outcome.code == 0, outcome.err
        assert "Harm and service belong together" in outcome.out
        assert assay("verify", record).code == 0
        verdicts[model.name] = assay("gate", record, "--policy", policy).code
    # lantern@2 refuses women half of the time: its disparate service blocks it. The first slights them instead.
    assert verdicts == {"lantern@1": 1, "lantern@2": 1}


def test_a_baseline_is_compared_metric_by_metric_and_verifies(assay: Any, sample: Path, tmp_path: Path) -> None:
    record = tmp_path / "o.json"
    outcome = assay(
        "audit", sample / "lantern@2.parquet", "--spec", sample / "sample.yaml",
        "--baseline", sample / "lantern@1.parquet", "-o", record,
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    document = json.loads(record.read_text())
    assert [item["role"] for item in document["inputs"]] == ["baseline", "outputs"]
    changes = document["result"]["comparison"]["metrics"]
    assert {name: changes[name]["verdict"] for name in ("hsi", "dsi")} == {"hsi": "decrease", "dsi": "increase"}
    for told in ("paired by prompt", "adjusted by Holm", "noise\n", "increase: worse", "decrease: better"):
        assert told.strip() in outcome.out
    assert assay("verify", record).code == 0


def test_hate_speech_calls_for_a_person_loudly_whatever_the_bands_say(
    assay: Any, sample: Path, tmp_path: Path, project: Path
) -> None:
    table = pq.read_table(sample / "lantern@2.parquet")
    scores = [0.1, *[0.0] * (len(table) - 1)]
    place = table.column_names.index("harm_hate_speech")
    path, record = tmp_path / "o.parquet", tmp_path / "o.json"
    pq.write_table(table.set_column(place, "harm_hate_speech", pa.array(scores)), path)
    outcome = assay("audit", path, "--spec", sample / "sample.yaml", "-o", record)
    assert "HUMAN REVIEW REQUIRED: 1 output with hate speech or dehumanisation above 0" in outcome.out
    assert json.loads(record.read_text())["result"]["hsi"]["band"] == "pass"
    gate = tmp_path / "gate.json"
    assay("gate", record, "--policy", project / "deployments" / "policies" / "fairbench-bands.yaml", "-o", gate)
    result = json.loads(gate.read_text())["result"]
    assert result["review_required"]
    assert any("human_review" in review for review in result["reviews"])


def test_files_that_a_spec_names_are_inputs_and_a_changed_one_is_a_mismatch(
    assay: Any, sample: Path, tmp_path: Path
) -> None:
    (tmp_path / "gender.yaml").write_text("axis: gender\ncategories: [female, male, neutral]\n")
    (tmp_path / "reference.yaml").write_text("kind: uniform\nrationale: chosen for this test alone\n")
    spec, record = tmp_path / "spec.yaml", tmp_path / "o.json"
    spec.write_text("kind: outputs\ntaxonomy: gender.yaml\nreference_distribution: reference.yaml\n")
    outcome = assay("audit", sample / "lantern@1.parquet", "--spec", spec, "-o", record)
    assert outcome.code == 0, outcome.err
    document = json.loads(record.read_text())
    assert [item["role"] for item in document["inputs"]] == ["outputs", "reference_distribution", "taxonomy"]
    assert assay("verify", record).code == 0
    (tmp_path / "gender.yaml").write_text("axis: gender\ncategories: [female, male]\n")
    assert assay("verify", record).code == 1


# --- published data, read in place -----------------------------------------------------------------------------------


def test_compas_has_the_published_error_rates(assay: Any, shared: Path, written: Any, spec: Path) -> None:
    """DATA.md, after ProPublica (2016): FPR .423 and .220, FNR .285 and .496."""
    rows = pd.read_csv(shared / "data" / "golden" / "compas" / "compas_two_years_deidentified.csv")
    rows = rows[
        rows["days_b_screening_arrest"].between(-30, 30)
        & (rows["is_recid"] != -1)
        & (rows["c_charge_degree"] != "O")
        & (rows["score_text"] != "N/A")
    ]
    spec.write_text(
        "kind: predictions\ngroups: [race, sex]\npositive: {y_pred: high, y_true: 1}\nreference: {race: Caucasian}\n"
        "columns: {y_true: two_year_recid}\nsource: court records\n"
    )
    table = written(rows.assign(y_pred=np.where(rows["decile_score"] >= 5, "high", "low")))
    result = assay("audit", table, "--spec", spec, "--json").record["result"]
    assert result["n_rows"] == 6_172
    groups = result["attributes"]["race"]["groups"]
    rates = {
        name: tuple(round(groups[name]["rates"][rate]["value"], 3) for rate in
                    ("false_positive_rate", "false_negative_rate"))
        for name in ("African-American", "Caucasian")
    }  # fmt: skip
    assert rates == {"African-American": (0.423, 0.285), "Caucasian": (0.220, 0.496)}


def test_adult_and_german_credit_are_audited(assay: Any, shared: Path, written: Any, spec: Path) -> None:
    folder = shared / "data" / "golden"
    adult = pd.read_csv(folder / "adult" / "adult.csv")
    adult["y_pred"] = np.where(adult["education-num"] >= 13, ">50K", "<=50K")
    spec.write_text(
        'kind: predictions\ngroups: [race, sex]\npositive: {y_pred: ">50K"}\nreference: {sex: Male}\n'
        "columns: {y_true: income-per-year}\nsource: census\n"
    )
    result = assay("audit", written(adult), "--spec", spec, "--json").record["result"]
    rate = result["attributes"]["sex"]["groups"]["Female"]["rates"]["selection_rate"]["value"]
    assert rate == pytest.approx(adult[adult["sex"] == "Female"]["y_pred"].eq(">50K").mean())

    german = pd.read_csv(folder / "german_credit" / "german.csv")
    german["sex"] = np.where(german["personal_status"].isin(["A92", "A95"]), "female", "male")
    german["y_pred"] = np.where(german["status"] == "A11", 2, 1)
    spec.write_text("kind: predictions\ngroups: [sex]\npositive: {y_pred: 1}\ncolumns: {y_true: credit}\n")
    result = assay("audit", written(german), "--spec", spec, "--json").record["result"]
    assert sum(row["positives"] for row in result["attributes"]["sex"]["groups"].values()) == 700
    assert result["intersections"] is None


def test_hatechecks_target_groups_get_the_published_false_positive_rates(
    assay: Any, shared: Path, written: Any, spec: Path, tmp_path: Path, project: Path
) -> None:
    """DATA.md: the lexical judge at its Youden threshold, false-positive rates from .41 (trans) to .99 (gay)."""
    scores = pd.read_csv(shared / "data" / "scores" / "altprofanity__hatecheck.csv")
    table = scores.assign(trace_id=scores["id"], category="hate")[["trace_id", "category", "score"]]
    instrument, calibration = tmp_path / "hatecheck.yaml", tmp_path / "calibration.json"
    instrument.write_text(
        "name: hatecheck\ncategories: [hate]\nslices: [target_group]\noptimism: {method: bootstrap, resamples: 20}\n"
    )
    cases = f"hatecheck:{shared / 'data' / 'golden' / 'hatecheck' / 'test_suite_cases.csv'}"
    outcome = assay(
        "calibrate", cases, "--scores", written(table, "scores.csv"), "--instrument", instrument, "-o", calibration
    )
    assert outcome.code == 0, outcome.err
    threshold = json.loads(calibration.read_text())["result"]["categories"]["hate"]["threshold"]
    maxima = pd.read_parquet(tmp_path / "calibration.golden_maxima.parquet")
    decided = written(pd.DataFrame({
        "target": maxima["slice.target_group"], "y_pred": (maxima["hate"] >= threshold).astype(int),
        "y_true": maxima["label.hate"], "cluster": maxima["cluster"],
    }))  # fmt: skip

    text = "kind: predictions\ngroups: [target]\npositive: {y_pred: 1}\nsource: HateCheck\n"
    record = tmp_path / "audit.json"
    policy = project / "deployments" / "policies" / "equalized-odds.yaml"
    # The 292 cases about nobody have no hate among them: as a group of their own they leave the odds incomplete.
    for missing, code in (("group", 3), ("exclude", 1)):
        spec.write_text(f"{text}missing: {missing}\n")
        outcome = assay("audit", decided, "--spec", spec, "-o", record)
        assert outcome.code == 0, outcome.err
        target = json.loads(record.read_text())["result"]["attributes"]["target"]
        rates = {
            name: round(row["rates"]["false_positive_rate"]["value"], 2)
            for name, row in target["groups"].items()
            if name != "(missing)"
        }
        assert (min(rates, key=rates.get), min(rates.values())) == ("trans people", 0.41)
        assert (max(rates, key=rates.get), max(rates.values())) == ("gay people", 0.99)
        assert target["equalized_odds"]["interval"]["low"] > 0.2
        gated = assay("gate", record, "--policy", policy)
        assert gated.code == code, gated.out


# --- the starter folder ----------------------------------------------------------------------------------------------


def test_the_starter_folders_audits_run_and_its_policy_stops_the_lender(assay: Any, tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert assay("init", folder).code == 0
    record = folder / "audit.json"
    outcome = assay("audit", folder / "predictions.csv", "--spec", folder / "predictions-audit.yaml", "-o", record)
    assert outcome.code == 0, outcome.err
    assert "listed, not compared, under the minimum size" in outcome.out
    gated = assay("gate", record, "--policy", folder / "audit-policy.yaml", "-o", folder / "gate.json")
    assert (gated.code, "attributes.gender" in gated.out) == (1, True)
    outcome = assay("audit", folder / "outputs.parquet", "--spec", folder / "outputs-audit.yaml", "--json")
    assert outcome.record["result"]["n_outputs"] == 480


# --- assay check -----------------------------------------------------------------------------------------------------


def test_check_says_what_is_in_predictions_and_outputs(assay: Any, written: Any, sample: Path, tmp_path: Path) -> None:
    outcome = assay("check", written(people(60, biased=False)))
    assert (outcome.code, "read as predictions" in outcome.out) == (0, True)
    outcome = assay("check", sample / "lantern@1.parquet", "--json")
    summary = outcome.record
    assert (summary["kind"], summary["rows"], summary["scenarios"]) == ("outputs", 480, 40)
    assert summary["columns"]["harm_slurs"] == {"given": "480 of 480"}
    (tmp_path / "bad.csv").write_text("sex,pred\nf,1\n")
    outcome = assay("check", tmp_path / "bad.csv", "--as", "predictions")
    assert (outcome.code, "did you mean 'pred'?" in outcome.err) == (2, True)
