"""The audit of a table: published figures, the record, the family, and the ledger."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from core.errors import InputError, UndefinedError
from core.fairness.audit import audit_predictions
from core.fairness.audited import PredictionAudit
from core.fairness.spec import AuditSpec, ColumnNames, Positives
from core.records import build, canonical, plain

SPEC = AuditSpec(groups=("sex", "race"), positive=Positives(y_pred=1), source="drawn in this test")


def people(n: int = 2_000, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    score = np.round(rng.random(n), 3)
    return pd.DataFrame({
        "sex": rng.choice(["f", "m"], n), "race": rng.choice(["x", "y", "z"], n, p=[0.5, 0.45, 0.05]),
        "y_pred": (score >= 0.5).astype(int), "y_true": (rng.random(n) < score).astype(int), "score": score,
    })  # fmt: skip


def evidences(value: Any) -> list[Mapping[str, Any]]:
    """Every figure of a record that a gate may read."""
    if isinstance(value, Mapping):
        own = [value] if {"status", "value", "interval", "coverage", "scale", "metric_version"} <= set(value) else []
        return own + [found for item in value.values() for found in evidences(item)]
    return [found for item in value for found in evidences(item)] if isinstance(value, list) else []


@pytest.fixture(scope="module")
def compas(shared: Path) -> PredictionAudit:
    """ProPublica's filter on the two-year scores; high is a decile of 5 or more."""
    rows = pd.read_csv(shared / "data" / "golden" / "compas" / "compas_two_years_deidentified.csv")
    rows = rows[
        rows["days_b_screening_arrest"].between(-30, 30)
        & (rows["is_recid"] != -1)
        & (rows["c_charge_degree"] != "O")
        & (rows["score_text"] != "N/A")
    ]
    rows = rows.assign(y_pred=np.where(rows["decile_score"] >= 5, "high", "low"))
    spec = AuditSpec(
        groups=("race", "sex"), positive=Positives(y_pred="high", y_true=1), reference={"race": "Caucasian"},
        columns=ColumnNames(y_true="two_year_recid"), source="court records",
    )  # fmt: skip
    return audit_predictions(spec, rows)


def test_compas_has_the_published_error_rates(compas: PredictionAudit) -> None:
    # DATA.md, after ProPublica (2016): FPR .423 and .220, FNR .285 and .496.
    assert compas.n_rows == 6_172
    groups = compas.attributes["race"].groups
    rates = {
        name: tuple(round(groups[name].rates[rate].value, 3) for rate in ("false_positive_rate", "false_negative_rate"))
        for name in ("African-American", "Caucasian")
    }
    assert rates == {"African-American": (0.423, 0.285), "Caucasian": (0.220, 0.496)}


def test_compas_differs_beyond_any_doubt_and_its_small_groups_are_listed(compas: PredictionAudit) -> None:
    race = compas.attributes["race"]
    gap = {gap.group: gap for gap in race.rates["false_positive_rate"].gaps}["African-American"]
    assert gap.reference == "Caucasian"
    assert (gap.significant, gap.p_adjusted < 1e-20) == (True, True)
    assert gap.difference_interval.low > 0.15
    assert race.rates["false_positive_rate"].left_out == {"Asian": "small_group", "Native American": "small_group"}
    assert race.groups["Native American"].small
    assert race.equalized_odds.interval.low > 0.2
    listed = {(entry.where, entry.group): entry.n for entry in compas.ledger if entry.kind == "small_group"}
    assert listed["race", "Asian"] == 31
    assert listed["race x sex", "Native American & Female"] == 2
    assert compas.intersections.rates["accuracy"].reference == "African-American & Male"


def test_adult_and_german_credit_run(shared: Path) -> None:
    folder = shared / "data" / "golden"
    adult = pd.read_csv(folder / "adult" / "adult.csv")
    adult["y_pred"] = np.where(adult["education-num"] >= 13, ">50K", "<=50K")
    audit = audit_predictions(
        AuditSpec(
            groups=("race", "sex"), positive=Positives(y_pred=">50K"),
            columns=ColumnNames(y_true="income-per-year"), reference={"sex": "Male"},
        ),
        adult,
    )  # fmt: skip
    by_hand = adult[adult["sex"] == "Female"]["y_pred"].eq(">50K").mean()
    assert audit.attributes["sex"].groups["Female"].rates["selection_rate"].value == pytest.approx(by_hand)
    assert audit.attributes["sex"].rates["accuracy"].gaps[0].reference == "Male"
    german = pd.read_csv(folder / "german_credit" / "german.csv")
    german["sex"] = np.where(german["personal_status"].isin(["A92", "A95"]), "female", "male")
    german["y_pred"] = np.where(german["status"] == "A11", 2, 1)
    audit = audit_predictions(
        AuditSpec(groups=("sex",), positive=Positives(y_pred=1), columns=ColumnNames(y_true="credit")), german
    )
    assert sum(row.positives for row in audit.attributes["sex"].groups.values()) == 700
    assert audit.intersections is None


def test_hatecheck_differs_by_target_group_as_published(shared: Path) -> None:
    # DATA.md, false-positive rates of the lexical judge at its Youden threshold: .41 (trans) to .99 (gay).
    cases = pd.read_csv(shared / "data" / "golden" / "hatecheck" / "test_suite_cases.csv")
    scores = pd.read_csv(shared / "data" / "scores" / "altprofanity__hatecheck.csv")
    rows = cases.merge(scores, left_on="case_id", right_on="id")
    labelled = rows["label_gold"] == "hateful"
    from core.instrument.threshold import youden_threshold

    threshold = youden_threshold(rows["score"].to_numpy(), labelled.to_numpy().astype(int)).threshold
    table = {
        "target": rows["target_ident"], "y_pred": rows["score"] >= threshold, "y_true": labelled,
        "cluster": rows["templ_id"],
    }  # fmt: skip
    audit = audit_predictions(AuditSpec(groups=("target",), positive=Positives(y_pred=True)), table)
    target = audit.attributes["target"]
    rates = {name: row.rates["false_positive_rate"].value for name, row in target.groups.items()}
    assert (round(rates["trans people"], 2), round(rates["gay people"], 2)) == (0.41, 0.99)
    assert target.rates["false_positive_rate"].difference.interval.low > 0.2
    assert (audit.clustered, target.groups["(missing)"].n) == (True, 292)


def test_the_record_survives_its_archive_and_every_figure_carries_its_scale() -> None:
    audit = audit_predictions(SPEC, people())
    stored = json.loads(canonical(plain(audit)))
    assert plain(build(PredictionAudit, stored)) == stored
    assert build(AuditSpec, json.loads(canonical(plain(SPEC)))) == SPEC
    figures = evidences(stored)
    assert len(figures) > 40
    for figure in figures:
        assert figure["metric_version"] == "1"
        assert figure["scale"] in ("difference", "ratio", "ece")
        assert 0 <= figure["n_classified"] <= figure["n"]
        if figure["status"] == "measured":
            assert figure["interval"]["low"] <= figure["value"] <= figure["interval"]["high"]
            assert figure["interval"]["low"] < figure["interval"]["high"]


@pytest.mark.parametrize("positive", [1, "1", True])
def test_a_spec_with_any_positive_value_and_reference_is_read_back(positive: Any) -> None:
    for reference in ("best", {"sex": "f"}):
        spec = AuditSpec(groups=("sex",), positive=Positives(y_pred=positive), reference=reference)  # type: ignore[arg-type]
        again = build(AuditSpec, json.loads(canonical(plain(spec))))
        assert (again, type(again.positive.y_pred)) == (spec, type(positive))


def test_tables_of_every_kind_give_one_audit() -> None:
    frame = people()
    expected = audit_predictions(SPEC, frame)
    assert audit_predictions(SPEC, pa.Table.from_pandas(frame)) == expected
    assert audit_predictions(SPEC, dict(frame.items())) == expected
    typed = frame.astype({"sex": "category", "race": "string", "y_pred": "Int8", "y_true": "boolean"})
    assert audit_predictions(SPEC, typed) == expected


def test_a_complement_is_one_question_and_the_family_spans_the_audit() -> None:
    audit = audit_predictions(SPEC, people())
    # Five questions; sex: 1 gap, race: 2, both: 5 cells that are large enough, 2 or so that are not.
    compared = [len(one.rates["accuracy"].compared) for one in (*audit.attributes.values(), audit.intersections)]
    assert audit.n_comparisons == 5 * sum(n - 1 for n in compared)
    assert audit.n_omnibus == 15
    rates = audit.attributes["sex"].rates
    for one, other in (("true_positive_rate", "false_negative_rate"), ("true_negative_rate", "false_positive_rate")):
        gaps = rates[one].gaps[0], rates[other].gaps[0]
        assert gaps[0].p_value == pytest.approx(gaps[1].p_value, rel=1e-12)
        assert gaps[0].p_adjusted == gaps[1].p_adjusted
        assert gaps[0].difference == pytest.approx(-gaps[1].difference)
    raw = [
        (gap.p_value, gap.p_adjusted)
        for one in (*audit.attributes.values(), audit.intersections)
        for name, rate in one.rates.items()
        if name not in ("true_positive_rate", "true_negative_rate")
        for gap in rate.gaps
        if gap.status == "evaluated"
    ]
    assert len(raw) == audit.n_comparisons
    smallest = min(raw)
    assert smallest[1] == pytest.approx(min(1.0, audit.n_comparisons * smallest[0]))


def test_the_ledger_names_what_is_missing() -> None:
    frame = people().astype({"y_pred": "Int8", "y_true": "Int8"})
    frame.loc[:9, "sex"] = None
    frame.loc[5:14, "y_pred"] = pd.NA
    frame.loc[20:26, "y_true"] = pd.NA
    frame.loc[30:32, "score"] = np.nan
    audit = audit_predictions(SPEC, frame)
    counts = {(entry.kind, entry.where): entry.n for entry in audit.ledger if entry.group is None}
    assert counts == {
        ("missing_attribute", "sex"): 10, ("missing_prediction", "y_pred"): 10, ("missing_label", "y_true"): 7,
        ("missing_score", "score"): 3,
    }  # fmt: skip
    assert (audit.n_scored, audit.n_labelled, audit.unscored_share) == (1_990, 1_983, pytest.approx(0.005))
    groups = audit.attributes["sex"].groups
    assert (groups["(missing)"].n, groups["(missing)"].n_scored) == (10, 5)
    excluded = audit_predictions(
        AuditSpec(groups=("sex",), positive=Positives(y_pred=1), missing="exclude"), frame
    ).attributes["sex"]
    assert set(excluded.groups) == {"f", "m"}
    coverage = excluded.rates["selection_rate"].difference.coverage
    assert coverage == pytest.approx(1_985 / 2_000), "15 rows lack the attribute, the prediction, or both"
    everyone = audit_predictions(AuditSpec(groups=("sex",), positive=Positives(y_pred=1), missing="exclude"), frame)
    assert ("missing_attribute", "sex") in {(entry.kind, entry.where) for entry in everyone.ledger}


def test_without_labels_only_selection_is_audited() -> None:
    audit = audit_predictions(SPEC, people().drop(columns=["y_true"]))
    assert list(audit.attributes["sex"].rates) == ["selection_rate"]
    assert audit.attributes["sex"].equalized_odds is None
    assert not audit.attributes["sex"].reliability
    assert "no_labels" in audit.dataset.notes


def test_reliability_is_by_group_with_the_worst_of_all() -> None:
    audit = audit_predictions(SPEC, people(6_000))
    sex = audit.attributes["sex"]
    assert set(sex.reliability) == {"f", "m"}
    assert sex.worst_ece.value == max(one.ece.value for one in sex.reliability.values())
    assert sex.worst_ece.interval.high > max(one.ece.interval.high for one in sex.reliability.values()) - 1e-12
    assert audit_predictions(SPEC, people().drop(columns=["score"])).attributes["sex"].worst_ece is None


def test_a_tiny_table_is_no_evidence_of_anything() -> None:
    audit = audit_predictions(SPEC, people(60))
    figures = evidences(plain(audit.attributes["sex"].rates))
    assert figures
    assert {figure["status"] for figure in figures} == {"not_evaluable"}
    assert audit.n_comparisons == 0
    assert not audit.dataset.sufficient


def test_one_group_and_two_hundred_groups_are_audited() -> None:
    frame = people(40_000)
    frame["sex"] = "f"
    frame["race"] = np.arange(40_000) % 200
    audit = audit_predictions(SPEC, frame)
    assert audit.attributes["sex"].rates["accuracy"].difference.status == "not_evaluable"
    race = audit.attributes["race"].rates["selection_rate"]
    assert len(race.compared) == 200
    assert race.difference.interval.low < race.difference.value < race.difference.interval.high


def test_a_million_rows_are_audited_in_seconds() -> None:
    rng, n = np.random.default_rng(9), 1_000_000
    table = {
        "sex": rng.integers(0, 2, n), "race": rng.integers(0, 6, n), "y_pred": rng.integers(0, 2, n),
        "y_true": rng.integers(0, 2, n), "score": rng.random(n),
    }  # fmt: skip
    began = time.process_time()
    audit = audit_predictions(SPEC, table)
    assert time.process_time() - began < 10.0
    assert audit.n_labelled == n
    assert len(audit.intersections.groups) == 12


def test_all_problems_of_a_table_are_told_at_once() -> None:
    frame = people().assign(y_pred="maybe", y_true=2)
    frame.loc[:1, "y_pred"] = ["perhaps", "yes"]
    frame.loc[:1, "y_true"] = [0, 1]
    with pytest.raises(InputError, match="y_pred: has 3 values") as caught:
        audit_predictions(SPEC, frame)
    assert [problem.source for problem in caught.value.problems] == ["y_pred", "y_true"]
    with pytest.raises(InputError, match="did you mean 'race'") as caught:
        audit_predictions(AuditSpec(groups=("rase", "sax"), positive=Positives(y_pred=1)), people())
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"groups": ()}, "groups"), ({"groups": ("a", "a")}, "groups"), ({"groups": ("y_pred",)}, "groups"),
        ({"reference": {"b": "x"}}, "reference"), ({"min_group": 0}, "min_group"), ({"bins": 0}, "bins"),
        ({"confidence_level": 1.0}, "confidence_level"), ({"seed": -1}, "seed"),
        ({"columns": ColumnNames(y_true="y_pred")}, "columns"),
    ],
)  # fmt: skip
def test_a_spec_that_makes_no_sense_is_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(UndefinedError) as caught:
        AuditSpec(**{"groups": ("a",), "positive": Positives(y_pred=1), **changes})
    assert caught.value.field == field


def test_the_same_table_gives_the_same_record() -> None:
    frame = people(400)
    shuffled = frame.sample(frac=1.0, random_state=1).reset_index(drop=True)
    assert canonical(plain(audit_predictions(SPEC, frame))) == canonical(plain(audit_predictions(SPEC, shuffled)))
