"""Real releases with a real judge: XSTest's five systems, GPT-4 as judge of refusals, human labels as the truth.

The judge's J differs between the systems (shared DATA.md: .873, .719, .679, .653, .106), which no calibration on their
mixture knows. What a comparison has to do then is to say how little of that it can bear.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

LABELS = {"1_full_compliance": 0, "2_full_refusal": 1, "3_partial_refusal": 1}
JUDGED = {"gpt4": 0.873, "llama2orig": 0.719, "llama2new": 0.679, "mistralguard": 0.653, "mistralinstruct": 0.106}

INSTRUMENT = 'name: refusal\njudge: {name: gpt4, version: "1"}\noptimism: {method: none}\n'


@pytest.fixture(scope="module")
def answers(shared: Path) -> pd.DataFrame:
    """One row an answer: system, prompt, the human label, and the judge's, missing where it is malformed."""
    read = pd.read_csv(shared / "data" / "golden" / "xstest" / "judge_vs_human.csv")
    return pd.DataFrame({
        "system": read["model"], "prompt": read["id"], "refused": read["human"].map(LABELS),
        "flagged": read["gpt4_label"].map(LABELS),
    })  # fmt: skip


def calibrated(assay: Any, answers: pd.DataFrame, folder: Path, name: str) -> Path:
    keys = {"trace_id": answers["system"] + ":" + answers["prompt"], "cluster": answers["prompt"]}
    pd.DataFrame({**keys, "refusal": answers["refused"]}).to_csv(folder / f"{name}.golden.csv", index=False)
    pd.DataFrame({**keys, "refusal": answers["flagged"]}).to_csv(folder / f"{name}.scores.csv", index=False)
    (folder / "refusal.yaml").write_text(INSTRUMENT)
    done = assay(
        "calibrate", folder / f"{name}.golden.csv", "--scores", folder / f"{name}.scores.csv",
        "--instrument", folder / "refusal.yaml", "-o", folder / f"{name}.json",
    )  # fmt: skip
    assert done.code == 0, done.err
    return folder / f"{name}.json"


def measured(assay: Any, answers: pd.DataFrame, folder: Path, calibration: Path) -> dict[str, Path]:
    places = {}
    for system, own in answers.groupby("system"):
        scores = folder / f"{calibration.stem}.{system}.csv"
        pd.DataFrame({"trace_id": own["prompt"], "refusal": own["flagged"]}).to_csv(scores, index=False)
        places[str(system)] = scores.with_suffix(".json")
        done = assay("measure", scores, "--calibration", calibration, "--target", system, "-o", places[str(system)])
        assert done.code == 0, done.err
    return places


@pytest.fixture(scope="module")
def rows(assay: Any, answers: pd.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> pd.DataFrame:
    """All pairs of systems, compared under one calibration on the mixture, beside what people say."""
    folder = tmp_path_factory.mktemp("xstest")
    places = measured(assay, answers, folder, calibrated(assay, answers, folder, "mixture"))
    scored = answers.dropna()
    truth = answers.groupby("system")["refused"].mean()
    sensitivity = scored[scored.refused.eq(1)].groupby("system")["flagged"].mean()
    specificity = 1 - scored[scored.refused.eq(0)].groupby("system")["flagged"].mean()
    found = []
    for one, other in itertools.combinations(sorted(places), 2):
        record = assay("compare", places[one], places[other], "--json").record
        row = record["result"]["composite"]
        guard = row["delta_j_guard"]
        assert row["n_pairs"] + row["n_pairs_unscored"] == 450
        found.append({
            "pair": f"{one} {other}", "verdict": row["verdict"], "difference": row["difference"],
            "true": truth[other] - truth[one],
            "sensitivity_bears": guard["sensitivity_points"], "specificity_bears": guard["specificity_points"],
            "sensitivity_moved": 100 * abs(sensitivity[other] - sensitivity[one]),
            "specificity_moved": 100 * abs(specificity[other] - specificity[one]), "note": guard["note"],
        })  # fmt: skip
    return pd.DataFrame(found).set_index("pair")


def test_the_judges_j_differs_between_the_systems_as_the_data_page_says(answers: pd.DataFrame) -> None:
    """There a malformed verdict counts as no refusal; here such a cell is missing."""
    filled = answers.fillna({"flagged": 0})
    rates = filled.groupby(["system", "refused"])["flagged"].mean().unstack()
    assert (rates[1] - rates[0]).to_dict() == pytest.approx(JUDGED, abs=0.001)


def test_large_changes_of_refusals_come_out_in_the_right_direction(rows: pd.DataFrame) -> None:
    large = rows[rows["true"].abs() > 0.15]
    assert len(large) == 7
    assert (large["verdict"] == large["true"].map(lambda change: "increase" if change > 0 else "decrease")).all()


def test_a_verdict_that_people_contradict_is_one_that_bears_less_than_the_judge_moved(rows: pd.DataFrame) -> None:
    """From gpt4 to mistralguard people see more refusals; the judge, which misses more of them there, sees fewer."""
    decided = rows[rows["verdict"].isin(["increase", "decrease"])]
    wrong = decided[decided["difference"] * decided["true"] < 0]
    assert list(wrong.index) == ["gpt4 mistralguard"]
    (row,) = wrong.itertuples()
    assert row.sensitivity_bears < 6
    assert row.sensitivity_moved > 20
    assert "sensitivity 5.5 points lower bring the interval to 0" in row.note


def test_a_verdict_that_bears_more_than_the_judge_moved_is_right(rows: pd.DataFrame) -> None:
    decided = rows[rows["verdict"].isin(["increase", "decrease"])]
    bears = (decided["sensitivity_bears"].fillna(100) > decided["sensitivity_moved"]) & (
        decided["specificity_bears"].fillna(100) > decided["specificity_moved"]
    )
    assert bears.sum() >= 3
    assert (decided[bears]["difference"] * decided[bears]["true"] > 0).all()


def test_a_judge_that_is_near_chance_on_a_system_compares_nothing(
    assay: Any, answers: pd.DataFrame, tmp_path: Path
) -> None:
    weak = calibrated(assay, answers[answers.system.eq("mistralinstruct")], tmp_path, "weak")
    places = measured(assay, answers, tmp_path, weak)
    found = assay("compare", places["gpt4"], places["mistralinstruct"])
    assert found.code == 0, found.err
    assert "not comparable (the baseline has no corrected rate: below_detection_floor" in " ".join(found.out.split())
