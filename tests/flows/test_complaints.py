"""What people complain of in other tools, and what assay does instead: one test or group of tests a complaint.

R1 to R20 are the requirements of the formats digest (section 5); behind them come the inputs on which competitors were
seen to print wrong numbers (section 4 of the survey). Most of it is tested at length elsewhere; here it can be read as
a list. Figures are derived by hand: the judge of `lab` flags 90 of 100 violating golden traces and passes 95 of 100
clean ones, so J = .85.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import clopper_pearson_interval, corrected_prevalence, wilson_interval
from tasks.settings import settings
from tests.flows.conftest import Outcome, run_assay
from tests.tasks.judges.conftest import RUBRIC_YAML
from tests.tasks.judges.misbehaving_server import MisbehavingServer, completion, ratings, running

INSTRUMENT = 'name: simple\ncategories: [harm]\njudge: {name: guard, version: "1"}\noptimism: {method: none}\n'
LENIENT = "name: release\nrules:\n  - {rule: r, metric: composite.prevalence, bound: high, op: '<=', threshold: 0.99}\n"
Z2 = 1.959963984540054**2
J = 0.85


def golden(positive: int = 100, negative: int = 100) -> str:
    return "trace_id,category,label\n" + "".join(f"g{i},harm,{int(i < positive)}\n" for i in range(positive + negative))


def scored(n: int, flagged: Iterable[int] = (), prefix: str = "p") -> str:
    high = set(flagged)
    return "trace_id,category,score\n" + "".join(f"{prefix}{i},harm,{0.9 if i in high else 0.1}\n" for i in range(n))


def judged(hits: int, passes: int, each: int = 100) -> str:
    """Scores of a golden set: so many of its violating traces flagged, so many of its clean ones passed."""
    return scored(2 * each, [*range(hits), *range(each, 2 * each - passes)], "g")


@dataclass(frozen=True)
class Lab:
    """A folder, and the commands on what is in it."""

    folder: Path
    calibration: Path

    def file(self, name: str, content: str | bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def calibrate(self, golden_set: str, scores: str, name: str = "c") -> Outcome:
        return run_assay(
            "calibrate", self.file(f"{name}-golden.csv", golden_set), "--scores", self.file(f"{name}.csv", scores),
            "--instrument", self.file("i.yaml", INSTRUMENT), "-o", self.folder / f"{name}.json",
        )  # fmt: skip

    def measure(self, scores: str | Path, *options: object, calibration: Path | None = None, name: str = "m") -> Any:
        """Measure and return the record's result, which is also in NAME.json."""
        path = self.file(f"{name}.csv", scores) if isinstance(scores, str) else scores
        outcome = self.tried(path, *options, calibration=calibration, name=name)
        assert outcome.code == 0, outcome.err
        return outcome.record["result"]

    def tried(self, path: Path, *options: object, calibration: Path | None = None, name: str = "m") -> Outcome:
        known = calibration or self.calibration
        return run_assay(
            "measure", path, "--calibration", known, "-o", self.folder / f"{name}.json", "--json", *options
        )


@pytest.fixture(scope="module")
def calibration(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lab = Lab(tmp_path_factory.mktemp("complaints"), Path())
    outcome = lab.calibrate(golden(), judged(90, 95))
    assert outcome.code == 0, outcome.err
    return lab.folder / "c.json"


@pytest.fixture
def lab(calibration: Path, tmp_path: Path) -> Lab:
    return Lab(tmp_path, calibration)


@pytest.fixture
def interop(shared: Path) -> Path:
    return shared / "data/interop"


def checked(source: str) -> Any:
    outcome = run_assay("check", source, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.record


def refused(outcome: Outcome, *expected: str) -> None:
    """Exit 2 and a message that says all that is expected, without a traceback."""
    assert outcome.code == 2, outcome
    assert "Traceback" not in outcome.err
    assert outcome.out == ""
    for text in expected:
        assert text in outcome.err


# --- R1 to R20 --------------------------------------------------------------------------------------------------------

# Source, units by state, and how many are flagged in some category, fully scored or not: inspect 4 in the first epoch
# and 9 in the second; garak's hits; pyrit's conversations with any score; promptfoo 6 fails and 9 passes that score .5;
# llama-guard's conversations with an "unsafe".
FIXTURES = {
    "inspect": (
        "inspect:{}/inspect/generated/harm_multiturn.eval", {"scored": 40, "unscored": 4, "target_error": 4}, 13,
    ),
    "garak": ("garak,category=harm:{}/garak/generated/sim.report.jsonl", {"scored": 81, "target_error": 9}, 29),
    "pyrit": ("pyrit:{}/pyrit/generated/pyrit_memory_1.1.0.db", {"scored": 16, "blocked": 4}, 18),
    "promptfoo": (
        "promptfoo,category=harm:{}/promptfoo/generated/single_turn_repeat2.json",
        {"scored": 45, "judge_error": 6, "target_error": 6, "unscored": 3}, 15,
    ),
    "llama-guard": (
        "llama-guard,category=harm:{}/moderation/generated/llama_guard.jsonl", {"scored": 6, "unscored": 2}, 6,
    ),
}  # fmt: skip


@pytest.mark.parametrize("tool", FIXTURES, ids=lambda tool: f"R1-{tool}")
def test_r1_what_was_attempted_is_the_sum_of_disjoint_counts(tool: str, interop: Path) -> None:
    """Complaint: failures vanish from the denominator. Every attempt is in one count, and bounds are of all."""
    source, expected, flagged = FIXTURES[tool]
    found = checked(source.format(interop))
    attempted = sum(expected.values())
    assert found["accounting"] == {"attempted": attempted, **expected}
    each = found["rates"]["each attempt"]
    row = each.get("any category") or each["harm"]
    assert row["scored"] == expected["scored"]
    highest = attempted - (row["scored"] - row["flagged"])  # all but those that were judged and not flagged
    assert row["worst case"] == [pytest.approx(flagged / attempted), pytest.approx(highest / attempted)]


def test_r1_a_report_bounds_what_the_unscored_could_be(lab: Lab) -> None:
    """Complaint: errors become passes or violations. They are neither, and the worst case says what they could be."""
    states = ("judge_error", "target_error", "blocked", "refused", "limit", "unscored", "missing", "")
    rows = [f"p{i},harm,,{state}" for i, state in enumerate(states)]
    path = lab.file("a.csv", "\n".join(["trace_id,category,score,state", *rows, "p8,harm,0.9,", "p9,harm,0.1,", ""]))
    result = lab.measure(path)
    accounting, composite = result["accounting"], result["composite"]
    assert accounting["attempted"] == 10 == sum(n for name, n in accounting.items() if name != "attempted")
    assert (accounting["scored"], accounting["missing"]) == (2, 2)
    assert (composite["n_units"], composite["n_flagged"], composite["observed_rate"]) == (2, 1, 0.5)
    assert composite["worst_case"] == {"low": 0.1, "high": 0.9}
    told = run_assay("measure", path, "--calibration", lab.calibration, "-o", lab.folder / "t.json").out
    assert "if none or all of the undecided violate, the observed rate is [10.0%, 90.0%]" in " ".join(told.split())


@pytest.mark.parametrize(
    ("n_errors", "code", "status"),
    [
        pytest.param(2, 0, "measured", id="R2-within-the-budget"),
        pytest.param(3, 3, "measured", id="R2-beyond-the-budget"),
        pytest.param(40, 3, "insufficient_data", id="R2-all-errored"),
    ],
)
def test_r2_more_errors_than_the_budget_are_no_evidence(n_errors: int, code: int, status: str, lab: Lab) -> None:
    """Complaint: a run of errors alone is a success. Above 5% unscored no gate passes; without a score no rate is."""
    rows = [
        f"p{i},harm,{'' if i < n_errors else 0.9 if i % 4 == 0 else 0.1},{'judge_error' * (i < n_errors)}"
        for i in range(40)
    ]
    result = lab.measure("\n".join(["trace_id,category,score,state", *rows, ""]))
    assert result["accounting"]["judge_error"] == n_errors
    assert result["composite"]["prevalence"]["status"] == status
    assert (result["composite"]["prevalence"]["value"] is None) == (n_errors == 40)
    outcome = run_assay(
        "gate", lab.folder / "m.json", "--policy", lab.file("p.yaml", LENIENT), "-o", lab.folder / "g.json"
    )
    assert outcome.code == code, outcome.out
    assert ("of the units are not scored" in " ".join(outcome.out.split())) == (code == 3)


@pytest.mark.parametrize(
    ("source", "worse"),
    [
        pytest.param("garak:{}/garak/generated/sim.report.jsonl", True, id="R3-garak"),
        pytest.param("openai-moderation:{}/moderation/generated/openai_moderation.jsonl", True, id="R3-openai"),
        pytest.param("llama-guard:{}/moderation/generated/llama_guard.jsonl", True, id="R3-llama-guard"),
        pytest.param("azure-content-safety:{}/moderation/generated/azure_content_safety.jsonl", True, id="R3-azure"),
        pytest.param("pyrit:{}/pyrit/generated/pyrit_memory_1.1.0.db", True, id="R3-pyrit"),
        pytest.param("promptfoo:{}/promptfoo/generated/single_turn_repeat2.json", False, id="R3-promptfoo"),
    ],
)
def test_r3_a_polarity_that_contradicts_the_format_is_refused(source: str, worse: bool, interop: Path) -> None:
    """Complaint: good and bad are mixed up silently. What a format says of its scale stands, and is shown."""
    source = source.format(interop)
    said = f"higher is {'worse' if worse else 'better'}"
    assert said in checked(source)["read by"][0]
    outcome = run_assay("check", source, "--higher-is", "better" if worse else "worse")
    refused(outcome, f"higher-is={'better' if worse else 'worse'}")
    assert "contradicts the format" in outcome.err or "PyRIT's scorers of harm give more for worse" in outcome.err


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("inspect:{}/inspect/generated/harm_multiturn.eval", id="R3-inspect"),
        pytest.param("pyrit,scorer=SubStringScorer:{}/pyrit/generated/pyrit_memory_1.1.0.db", id="R3-pyrit-refusals"),
    ],
)
def test_r3_a_polarity_that_no_file_says_is_asked_for_and_turns_every_score(
    source: str, interop: Path, tmp_path: Path
) -> None:
    """Complaint: correct is taken for harmless, a refusal for harm. Nobody guesses; inverted, every score turns."""
    reader, _, path = source.format(interop).partition(":")
    refused(run_assay("read", reader, path, "-o", tmp_path / "a.parquet"), "--higher-is worse|better")
    scores = {}
    for end in ("worse", "better"):
        out = tmp_path / f"{end}.parquet"
        assert run_assay("read", reader, path, "--higher-is", end, "-o", out).code == 0
        scores[end] = pq.read_table(out)["score"].to_pylist()
    assert any(score is not None for score in scores["worse"])
    for one, other in zip(scores["worse"], scores["better"], strict=True):
        assert (other is None) if one is None else other == pytest.approx(1 - one)


def test_r3_an_inverted_table_gives_the_same_rate(lab: Lab) -> None:
    """Complaint: an importer's polarity is untested. Scores 5 (good) to 1 (bad) measure like 0.1 and 0.9."""
    rows = "".join(f"p{i},{1 if i < 47 else 5}\n" for i in range(200))
    turned = lab.folder / "turned.parquet"
    command = ("--category", "harm", "--scale", "1,5", "--higher-is", "better", "-o", turned)
    assert run_assay("read", "table", lab.file("stars.csv", f"trace_id,score\n{rows}"), *command).code == 0
    straight = lab.measure(scored(200, range(47)), name="straight")
    assert lab.measure(turned)["composite"] == straight["composite"]
    assert straight["composite"]["n_flagged"] == 47


@given(data=st.data())
def test_r4_the_interval_of_a_rate_holds_it(data: st.DataObject) -> None:
    """Complaint: garak's raw rate lies outside the corrected interval beside it. Here both are of one quantity."""
    sizes = [data.draw(st.integers(1, 400)) for _ in range(3)]
    flagged, hits, passes = (data.draw(st.integers(0, n)) for n in sizes)
    found = corrected_prevalence(
        n_flagged=flagged, n_traces=sizes[0], true_positives=hits, n_positive=sizes[1], true_negatives=passes,
        n_negative=sizes[2],
    )  # fmt: skip
    assert (found.value is None) == (found.interval is None) == (found.status not in ("measured", "inconclusive"))
    if found.interval is not None:
        assert 0 <= found.interval.low <= found.value <= found.interval.high <= 1
        assert found.interval.low < found.interval.high


def test_r4_a_tools_interval_that_misses_its_own_rate_is_shown_beside_ours(interop: Path) -> None:
    """Complaint: 61.8% with the interval [0, 48.9%]. Both are shown with the reason; ours holds the rate it is of."""
    found = checked(f"garak:{interop}/garak/generated/sim.report.jsonl")
    (line,) = (line for line in found["headlines"] if "[0.000, 0.489]" in line["tool"])
    assert "21 of 34" in line["ours"]
    assert "does not hold the point" in line["why"]
    rows = [row for rates in found["rates"].values() for row in rates.values() if row["interval"] is not None]
    assert rows
    assert all(row["interval"][0] <= row["rate"] <= row["interval"][1] for row in rows)


def test_r5_corrected_and_uncorrected_figures_have_different_names(lab: Lab) -> None:
    """Complaint: one field for both. `observed_rate` is the judge's, `prevalence` corrected, the source is named."""
    result = lab.measure(scored(200, range(47)))
    assert result["calibration"]["source"] == "golden_set"
    assert result["composite"]["observed_rate"] == 0.235
    assert result["composite"]["prevalence"]["value"] == pytest.approx((0.235 - 0.05) / J)


def test_r5_an_unknown_judge_is_never_taken_for_perfect(lab: Lab) -> None:
    """Complaint: no calibration means no error. Without one there is no corrected rate, and the report says so."""
    spec = lab.file("d.yaml", "name: fair\nkind: detections\ncategories: [race]\n")
    table = lab.file("d.csv", "trace_id,attribute,detected\n" + "".join(f"a{i},race,{int(i < 3)}\n" for i in range(30)))
    out = lab.folder / "d.json"
    outcome = run_assay("measure", table, "--instrument", spec, "-o", out)
    assert outcome.code == 0
    assert "calibration source: none" in outcome.out
    result = json.loads(out.read_text())["result"]
    assert result["composite"]["observed_rate"] == 0.1
    assert result["composite"]["prevalence"]["status"] == "not_calibrated"
    assert result["composite"]["prevalence"]["value"] is None
    scores = lab.file("s.csv", scored(20))
    refused(run_assay("measure", scores, "-o", lab.folder / "s.json"), "give --calibration REF (scores)")


def test_r6_a_judge_below_the_floor_gives_no_rate(lab: Lab) -> None:
    """Complaint: J = .1 falls back silently to the raw rate. It is a status of its own, without rate or interval."""
    assert lab.calibrate(golden(), judged(55, 55), "weak").code == 0
    outcome = lab.tried(lab.file("m.csv", scored(200, range(47))), calibration=lab.folder / "weak.json")
    assert outcome.code == 0
    prevalence = outcome.record["result"]["composite"]["prevalence"]
    assert (prevalence["status"], prevalence["value"], prevalence["interval"]) == ("below_detection_floor", None, None)


@pytest.mark.parametrize(
    ("flagged", "raw", "status"),
    [
        pytest.param(0, -0.05 / J, "incompatible", id="R6-none-flagged"),
        pytest.param(200, 0.95 / J, "incompatible", id="R6-all-flagged"),
        pytest.param(8, -0.01 / J, "measured", id="R6-within-chance"),
    ],
)
def test_r6_an_impossible_correction_is_flagged_and_has_no_interval_of_width_zero(
    flagged: int, raw: float, status: str, lab: Lab
) -> None:
    """Complaint: fewer flags than false alarms become [0, 0]. Beyond chance no rate; within it 0, with an interval."""
    prevalence = lab.measure(scored(200, range(flagged)))["composite"]["prevalence"]
    assert prevalence["status"] == status
    assert prevalence["raw"] == pytest.approx(raw)
    if status == "incompatible":
        assert (prevalence["value"], prevalence["interval"]) == (None, None)
    else:
        assert (prevalence["value"], prevalence["clipped"], prevalence["interval"]["low"]) == (0.0, True, 0.0)
        assert prevalence["interval"]["high"] > 0.02


def test_r7_the_golden_sets_own_sampling_is_in_the_interval(lab: Lab) -> None:
    """Complaint: sensitivity and specificity are taken as known. Their variance is propagated, and their n stored."""
    narrow = lab.calibrate(golden(1000, 1000), judged(900, 950, 1000), "large")
    assert narrow.code == 0, narrow.err
    small = lab.measure(scored(200, range(47)))["composite"]["prevalence"]
    large = lab.measure(scored(200, range(47)), calibration=lab.folder / "large.json")["composite"]["prevalence"]
    assert small["value"] == pytest.approx(large["value"])
    rate = (0.235 - 0.05) / J
    for n, found in ((100, small), (1000, large)):
        assert (found["effective"]["n_positive"], found["effective"]["n_negative"]) == (n, n)
        golden_part = (rate**2 * 0.9 * 0.1 + (1 - rate) ** 2 * 0.95 * 0.05) / n
        by_hand = (0.235 * 0.765 / 200 + golden_part) / J**2
        assert found["apparent"]["delta"]["variance"] == pytest.approx(by_hand)
    assert width(small["interval"]) > width(large["interval"]) > 0


def width(interval: Any) -> float:
    return float(interval["high"] - interval["low"])


@pytest.mark.parametrize("n", [pytest.param(n, id=f"R8-{n}") for n in (2, 40, 200)])
def test_r8_no_interval_has_width_zero_at_none_or_all(n: int, lab: Lab) -> None:
    """Complaint: 0 of 100 is [0, 0]. At 0 of n it ends at z^2/(n + z^2), at n of n it begins as far from 1."""
    none, all_ = wilson_interval(0, n), wilson_interval(n, n)
    assert (none.low, none.high) == (0.0, pytest.approx(Z2 / (n + Z2)))
    assert (all_.low, all_.high) == (pytest.approx(n / (n + Z2)), 1.0)
    observed = lab.measure(scored(n))["composite"]["observed_interval"]
    assert (observed["low"], observed["high"]) == (0.0, pytest.approx(Z2 / (n + Z2)))


def test_r8_one_trace_has_an_exact_interval_and_no_rate(lab: Lab) -> None:
    """Complaint: n = 1 is NaN, or certain. The exact interval of 1 of 1 begins at 2.5%; no rate is corrected."""
    exact = clopper_pearson_interval(1, 1)
    assert (exact.low, exact.high) == (pytest.approx(0.025), 1.0)
    composite = lab.measure(scored(1, [0]))["composite"]
    assert composite["prevalence"]["status"] == "insufficient_data"
    assert (composite["prevalence"]["value"], composite["prevalence"]["interval"]) == (None, None)
    assert (composite["observed_rate"], composite["observed_interval"]["status"]) == (1.0, "undefined")
    assert "NaN" not in (lab.folder / "m.json").read_text()


def test_r9_attempts_are_clustered_or_reduced_by_the_rule_that_is_named(lab: Lab) -> None:
    """Complaint: repeats count as independent, pass@k as pass@1. Each is clustered by trace; any is named any."""
    rows = [f"p{i},{a},{0.9 if i < 2 + a else 0.1}" for i in range(20) for a in (0, 1)]
    text = "\n".join(["trace_id,attempt,harm", *rows, ""])
    each = lab.measure(text, "--attempts", "each")
    assert (each["attempts"], each["clustered"]) == ("each", True)
    assert (each["composite"]["n_units"], each["composite"]["n_flagged"]) == (40, 5)
    observed = each["composite"]["observed_interval"]
    assert observed["n_effective"] < 40
    assert width(observed) > width(observed["independent"])
    any_ = lab.measure(text, "--attempts", "any", name="any")
    assert (any_["attempts"], any_["composite"]["n_units"], any_["composite"]["n_flagged"]) == ("any", 20, 3)
    assert any_["composite"]["prevalence"]["status"] == "unit_mismatch"


def test_r9_a_tools_rate_of_any_attempt_is_not_mixed_with_that_of_each(interop: Path) -> None:
    """Complaint: the pooled rate and any-of-k have one name. 21 of 34 outputs and 11 of 12 prompts stand apart."""
    rates = checked(f"garak,probe=dan.DanInTheWild:{interop}/garak/generated/sim.report.jsonl")["rates"]
    assert set(rates) == {"each attempt", "any attempt of a trace"}
    (each,), (any_,) = (rows.values() for rows in rates.values())
    assert (each["flagged"], each["scored"]) == (21, 34)
    assert any_["worst case"][0] * 12 == pytest.approx(11)
    assert (any_["flagged"], any_["scored"]) == (10, 10)  # the eleventh had a hit and an output that failed


DECLARED = (
    "name: vendor\njudge: {{name: v}}\ncategories: {{harm: "
    "{{threshold: {}, sensitivity: 0.9, n_positive: 50, specificity: 0.9, n_negative: 50, source: card}}}}\n"
)


@pytest.mark.parametrize(
    "threshold", [pytest.param(t, id=f"R10-{t}") for t in ("0", "-0.1", ".nan", ".inf", "1.0000001")]
)
def test_r10_a_threshold_outside_its_range_is_refused(threshold: str, lab: Lab) -> None:
    """Complaint: a threshold of NaN or 0 passes (or flags) everything. It is a number in (0, 1]."""
    spec = lab.file("d.yaml", DECLARED.format(threshold))
    refused(run_assay("calibrate", "--declared", spec, "-o", lab.folder / "d.json"), "threshold", "must lie in (0, 1]")


def test_r10_a_score_at_the_threshold_is_flagged_and_the_threshold_is_recorded(lab: Lab) -> None:
    """Complaint: > here, >= there. The threshold of the record is inclusive; 1 is one too."""
    assert (
        run_assay("calibrate", "--declared", lab.file("d.yaml", DECLARED.format(1)), "-o", lab.folder / "d.json").code
        == 0
    )
    document = json.loads(lab.calibration.read_text())
    assert document["result"]["categories"]["harm"]["threshold"] == 0.9
    rows = "".join(f"p{i},{score}\n" for i, score in enumerate(["0.9", "0.8999999999", "0.9000000001", "0.9", "0.1"]))
    result = lab.measure(f"trace_id,harm\n{rows}")
    assert (result["composite"]["n_units"], result["composite"]["n_flagged"]) == (5, 3)
    assert result["calibration"]["id"] == document["id"]


def test_r11_an_early_violation_is_not_erased_and_a_missing_turn_is_no_zero(lab: Lab) -> None:
    """Complaint: the last turn decides, a lost turn is harmless. Any turn flags; a hole leaves a trace undecided."""
    rows = ["p0,0,0.9", "p0,1,0.1", "p1,0,0.1", "p1,2,0.1", "p2,0,0.1", "p2,1,", "p3,0,0.1", "p3,1,0.1"]
    result = lab.measure("\n".join(["trace_id,turn,harm", *rows, ""]))
    assert (result["composite"]["n_units"], result["composite"]["n_flagged"]) == (2, 1)
    assert (result["n_turn_gaps"], result["accounting"]["missing"]) == (1, 2)


def test_r11_an_attack_that_succeeded_early_stays_whatever_the_tool_calls_the_row(
    interop: Path, tmp_path: Path
) -> None:
    """Complaint: promptfoo calls 3 of 4 conversations with a successful attack a success. All 4 are violations."""
    path = interop / "promptfoo/generated/multi_turn.json"
    found = checked(f"promptfoo,category=harm:{path}")
    assert (found["collapsed"]["rows_with_attacks"], found["collapsed"]["attacks_called_success"]) == (4, 3)
    assert found["collapsed"]["attacks_in_earlier_turns_called_success"] == 2
    assert found["verdicts"] == {"scored": 16, "judge_error": 1, "unscored": 3}
    assert (found["rates"]["each attempt"]["harm"]["flagged"], found["turn gaps"]) == (7, 0)  # three by score
    out = tmp_path / "a.parquet"
    assert run_assay("read", "promptfoo", path, "--category", "harm", "-o", out).code == 0
    table = pq.read_table(out).to_pandas()
    assert table[table["score"] == 1.0]["trace_id"].nunique() == 4


def red_teamed(lab: Lab, name: str, attacked: Iterable[int], n: int) -> Path:
    """Write conversations of five turns that end well; in those that are named an attack succeeded in the second."""
    found = set(attacked)
    rows = [
        {
            "vars": {"id": f"{name}{i}"}, "promptIdx": 0, "provider": {"id": "bot"}, "success": True,
            "failureReason": 0, "response": {"output": "o"},
            "gradingResult": {"componentResults": [
                {"pass": True, "score": 1, "assertion": {"type": "promptfoo:redteam:harmful"}}
            ]},
            "metadata": {
                "pluginId": "harmful", "redteamHistory": [{}] * 5,
                "successfulAttacks": [{"turn": 2}] if i in found else [],
            },
        }
        for i in range(n)
    ]  # fmt: skip
    path = lab.file(f"{name}.json", json.dumps({"results": {"version": 3, "results": rows}}))
    return Path(f"promptfoo,category=harm:{path}")


def test_r11_an_attack_that_succeeded_early_is_in_the_rate_and_before_the_gate(lab: Lab) -> None:
    """Complaint: the conversation ended well, so it passes. 36 of 800 are 4.5%, none is missing, and the gate fails."""
    result = lab.measure(red_teamed(lab, "p", range(36), 800), "--accept-judge")
    row = result["composite"]
    assert (row["n_units"], row["n_flagged"], result["n_turn_gaps"]) == (800, 36, 0)
    assert result["accounting"]["missing"] == 0
    policy = lab.file(
        "p.yaml", LENIENT.replace("prevalence, bound: high", "observed_rate, bound: low").replace("0.99", "0.03")
    )
    assert run_assay("gate", lab.folder / "m.json", "--policy", policy, "-o", lab.folder / "g.json").code == 1


def test_r11_golden_conversations_with_an_early_attack_are_positives_that_the_judge_found(lab: Lab) -> None:
    """Complaint: the same loss in a golden set makes a judge that finds them look blind."""
    source = red_teamed(lab, "g", range(90), 200)
    read = lab.folder / "g.parquet"
    assert run_assay("read", "promptfoo", lab.folder / "g.json", "--category", "harm", "-o", read).code == 0
    traces = pq.read_table(read)["trace_id"].to_pylist()
    labels = "trace_id,category,label\n" + "".join(f"{t},harm,{int(i < 100)}\n" for i, t in enumerate(traces))
    outcome = run_assay(
        "calibrate", lab.file("golden.csv", labels), "--scores", source, "--instrument",
        lab.file("i.yaml", INSTRUMENT), "--accept-judge", "-o", lab.folder / "c.json",
    )  # fmt: skip
    assert outcome.code == 0, outcome.err
    row = json.loads((lab.folder / "c.json").read_text())["result"]["categories"]["harm"]
    assert (row["sensitivity"], row["specificity"]) == (0.9, 1.0)


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        pytest.param(
            "pyrit:{}/pyrit/generated/pyrit_memory_1.1.0.db", {"duplicates": 125, "orphans": 9}, id="R12-pyrit"
        ),
        pytest.param("garak:{}/garak/generated/sim.report.jsonl", {"earlier_states": 30}, id="R12-garak"),
        pytest.param(
            "openai-moderation:{}/moderation/generated/openai_moderation.jsonl", {"retries": 1}, id="R12-openai"
        ),
        pytest.param("inspect:{}/inspect/generated/harm_multiturn.eval", {"failed_tries": 6}, id="R12-inspect"),
    ],
)
def test_r12_retries_duplicates_and_orphans_are_collapsed_and_counted(
    source: str, counts: dict[str, int], interop: Path
) -> None:
    """Complaint: retries and copies inflate n. They collapse by the format's declared rule, with their number."""
    collapsed = checked(source.format(interop))["collapsed"]
    assert {name: collapsed.get(name) for name in counts} == counts


def test_r13_a_judge_is_its_content_and_another_one_is_refused_or_labelled(lab: Lab) -> None:
    """Complaint: a prompt or snapshot changes under one name. The digest is the identity; other scores are refused."""
    rows = [f"g{i},{0.9 if i < 90 or 100 <= i < 105 else 0.1},guard@1,{'a' * 64}" for i in range(200)]
    text = "\n".join(["trace_id,harm,judge,judge_fingerprint", *rows, ""])
    assert lab.calibrate(golden(), text, "named").code == 0
    other = lab.file("b.csv", text.replace("a" * 64, "b" * 64))
    named = lab.folder / "named.json"
    refused(lab.tried(other, calibration=named), "guard@1 (bbbbbbbbbbbb)", "guard@1 (aaaaaaaaaaaa)", "--accept-judge")
    result = lab.measure(other, "--accept-judge", calibration=named)
    assert result["judge_accepted"] is True
    assert any("accepted by the user" in note for note in result["notes"])


def test_r13_versions_measured_with_different_calibrations_are_not_compared_unasked(lab: Lab) -> None:
    """Complaint: two versions, two instruments, one chart. It is refused, or labelled as possibly the instruments'."""
    assert lab.calibrate(golden(), judged(80, 95), "later").code == 0
    lab.measure(scored(200, range(47)), "--target", "bot@1", name="one")
    lab.measure(scored(200, range(40)), "--target", "bot@2", name="two", calibration=lab.folder / "later.json")
    releases = lab.folder / "one.json", lab.folder / "two.json"
    refused(run_assay("compare", *releases, "--json"), "measured with different calibrations")
    outcome = run_assay("compare", *releases, "--allow-different-calibration", "--json")
    assert outcome.code == 0, outcome.err
    assert outcome.record["result"]["same_calibration"] is False
    assert outcome.record["result"]["notes"][0].startswith("different instruments")


@pytest.fixture
def compared(lab: Lab) -> Callable[..., Any]:
    """Compare two releases on the same traces: 20 flagged in the first alone, 13 in the second alone."""
    lab.measure(scored(200, range(47)), "--target", "bot@1", name="one")
    lab.measure(scored(200, range(20, 60)), "--target", "bot@2", name="two")

    def run(*options: str) -> Any:
        outcome = run_assay("compare", lab.folder / "one.json", lab.folder / "two.json", "--json", *options)
        assert outcome.code == 0, outcome.err
        return outcome.record["result"]

    return run


def test_r14_common_traces_are_paired_else_it_is_said_and_tests_are_adjusted(compared: Callable[..., Any]) -> None:
    """Complaint: unpaired tests on the same items, dozens of them. Paired by trace, and adjusted by Holm's rule."""
    paired = compared()
    row = paired["categories"]["harm"]
    assert (paired["paired"], row["n_pairs"], row["method"]) == (True, 200, "mcnemar_exact")
    assert (row["n_baseline_only"], row["n_candidate_only"]) == (20, 13)
    exact = 2 * sum(math.comb(33, k) for k in range(14)) / 2**33
    assert row["p_value"] == pytest.approx(exact)
    assert (paired["family"], row["p_adjusted"]) == ("holm", pytest.approx(2 * exact))  # the composite and harm
    unpaired = compared("--unpaired")
    assert unpaired["paired"] is False
    assert any(note.startswith("not paired") for note in unpaired["notes"])
    assert width(unpaired["composite"]["interval"]) > width(paired["composite"]["interval"])


def test_r15_an_old_calibration_needs_no_service_and_an_edited_one_is_refused(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Complaint: a calibration changes, or goes with its service. It is a file with a digest of its own."""

    def no_network(*_: object) -> None:
        raise AssertionError("a service was asked")

    monkeypatch.setattr("socket.socket.connect", no_network)
    before = lab.calibration.read_bytes()
    assert lab.measure(scored(200, range(47)))["composite"]["n_flagged"] == 47
    assert lab.calibration.read_bytes() == before
    edited = lab.file("edited.json", before.replace(b'"sensitivity": 0.9,', b'"sensitivity": 0.99,'))
    assert edited.read_bytes() != before
    refused(
        lab.tried(lab.file("a.csv", scored(20)), calibration=edited), "edited.json: its id does not fit its content"
    )


@pytest.mark.parametrize(
    ("labelled", "choice"),
    [
        pytest.param(range(0, 200, 2), "ppi", id="R16-a-random-part"),
        pytest.param(range(100), "refused", id="R16-no-random-part"),
    ],
)
def test_r16_labels_of_production_show_that_a_calibration_no_longer_holds(
    labelled: range, choice: str, lab: Lab
) -> None:
    """Complaint: a calibration is used for ever. Of 80 violating traces 47 are flagged now: sensitivity differs."""
    labels = lab.file("labels.csv", "trace_id,harm\n" + "".join(f"p{i},{int(i < 80)}\n" for i in labelled))
    transport = lab.measure(scored(200, range(47)), "--labels", labels)["composite"]["transport"]
    violating = [i for i in labelled if i < 80]
    here = sum(i < 47 for i in violating) / len(violating)
    assert (transport["sensitivity"]["reference"], transport["sensitivity"]["found"]) == (0.9, pytest.approx(here))
    assert (transport["sensitivity"]["finding"], transport["choice"]) == ("differs", choice)


def test_r16_a_comparison_says_which_drift_of_the_judge_would_explain_it(compared: Callable[..., Any]) -> None:
    """Complaint: a judge's drift is read as a change. A fall of .035 flagged is told in sensitivity and specificity."""
    guard, rate = compared()["composite"]["delta_j_guard"], (0.235 - 0.05) / J
    assert guard["point"] == {
        "sensitivity": pytest.approx(0.035 / rate), "specificity": pytest.approx(0.035 / (1 - rate)),
    }  # fmt: skip


def test_r17_agreement_of_raters_and_labels_of_one_vote_stand_beside_the_judge(lab: Lab) -> None:
    """Complaint: labels are the truth. Krippendorff's alpha and the share of labels by one vote are in the record.

    Three raters, the third against the others on every tenth of 200 traces: 300 votes of each class, disagreement
    20 x 2/600, expected 2 x 300 x 300 / (600 x 599), so alpha = 1 - 599/4500.
    """
    header = "trace_id,category,label,rater\n"
    three = [(i, r, int((i < 100) != (r == "cy" and i % 10 == 0))) for i in range(200) for r in ("ann", "bob", "cy")]
    two = [(i, r, int(i < 100)) for i in range(200) for r in ("ann", "bob") if r == "ann" or i % 2]
    found = []
    for name, votes in (("three", three), ("two", two)):
        text = header + "".join(f"g{i},harm,{label},{rater}\n" for i, rater, label in votes)
        outcome = lab.calibrate(text, judged(90, 95), name)
        assert outcome.code == 0, outcome.err
        result = json.loads((lab.folder / f"{name}.json").read_text())["result"]
        assert (result["categories"]["harm"]["sensitivity"], result["categories"]["harm"]["specificity"]) == (0.9, 0.95)
        found.append(result["categories"]["harm"]["agreement"]["raters"])
    assert (found[0]["alpha"], found[0]["single_vote_share"]) == (pytest.approx(1 - 599 / 4500), 0.0)
    assert (found[1]["alpha"], found[1]["single_vote_share"]) == (1.0, 0.5)


PEAK = """
import re, sys
from pathlib import Path
from flows.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    status = Path("/proc/self/status").read_text()  # not ru_maxrss, which starts from the parent's
    print(end.code, re.search(r"VmHWM:\\s+(\\d+)", status)[1], file=sys.stderr)
"""


def peak(*command: object) -> float:
    """Run a command in a process of its own; returns the most memory that it had, in MB."""
    run = [sys.executable, "-c", PEAK, *map(str, command)]
    done = subprocess.run(run, capture_output=True, text=True, cwd=Path(__file__).parents[2], env={**os.environ})
    code, memory = done.stderr.split()[-2:]
    assert code == "0", done.stderr
    return int(memory) / 1024


CATEGORY_SCORES = dict.fromkeys(
    ("harassment", "hate", "illicit", "self-harm", "sexual", "violence", "violence/graphic"), 0.1
)


def moderation(n: int, filler: str) -> Iterator[str]:
    """One response a trace, with the text that was moderated beside it."""
    response = {"model": "omni-moderation-2024-09-26", "results": [{"category_scores": CATEGORY_SCORES}]}
    rest = f'"turn": 0, "input": "{filler}", "response": {json.dumps(response)}}}\n'
    yield from (f'{{"trace_id": "t{i}", {rest}' for i in range(n))


def report(n: int, filler: str) -> Iterator[str]:
    """A garak report with one judged attempt a trace."""
    yield '{"entry_type": "start_run setup", "plugins.target_type": "t", "plugins.target_name": "m"}\n'
    yield '{"entry_type": "init", "garak_version": "0.17.1", "run": "r"}\n'
    answer = {"text": filler}
    turns = [{"role": "user", "content": {"text": "q"}}, {"role": "assistant", "content": answer}]
    rest = {
        "probe_classname": "p.P", "outputs": [answer], "detector_results": {"d.D": [0.0]},
        "conversations": [{"turns": turns}],
    }  # fmt: skip
    tail = json.dumps(rest)[1:]
    yield from (f'{{"entry_type": "attempt", "uuid": "u{i}", "seq": {i}, "status": 2, {tail}\n' for i in range(n))
    yield '{"entry_type": "completion", "run": "r"}\n'


LARGE: dict[str, tuple[Callable[[int, str], Iterator[str]], int]] = {
    "openai-moderation": (moderation, 1_250),
    "garak": (report, 600),  # an answer stands there twice
}
HAS_PROC = Path("/proc/self/status").exists()


def growth(reader: str, command: str, n: int, filler: str, folder: Path) -> tuple[float, int]:
    """Run a command on n rows and on 10; returns the growth of its memory in MB and the large file's bytes."""
    peaks, size = [], 0
    for count in (10, n):
        path, out = folder / f"{count}.jsonl", folder / f"{count}.parquet"
        with path.open("w") as file:
            file.writelines(LARGE[reader][0](count, filler))
        size = path.stat().st_size
        arguments = ("check", f"{reader}:{path}") if command == "check" else ("read", reader, path, "-o", out)
        peaks.append(peak(*arguments))
        if command == "read":
            assert len(set(pq.read_table(out)["trace_id"].to_pylist())) == count
        path.unlink()
    return peaks[1] - peaks[0], size


@pytest.mark.e2e
@pytest.mark.skipif(not HAS_PROC, reason="peak memory is read from /proc")
def test_r18_200_000_rows_are_imported_in_bounded_memory(tmp_path: Path) -> None:
    """Complaint: an import holds the whole file. 200,000 rows (40,000 responses of 5 categories) pass through."""
    grown, _ = growth("openai-moderation", "read", 40_000, "", tmp_path)
    assert pq.read_metadata(tmp_path / "40000.parquet").num_rows == 200_000
    assert grown < 128


@pytest.mark.slow
@pytest.mark.skipif(not HAS_PROC, reason="peak memory is read from /proc")
@pytest.mark.parametrize("command", ["read", "check"])
@pytest.mark.parametrize("reader", LARGE, ids=lambda reader: f"R18-{reader}")
def test_r18_a_large_file_is_streamed(reader: str, command: str, tmp_path: Path) -> None:
    """Complaint: a large file fills the memory. 300 MB, 200,000 traces: under 128 MB more than for ten traces."""
    grown, size = growth(reader, command, 200_000, "x" * LARGE[reader][1], tmp_path)
    assert size > 290e6
    assert grown < 128


def test_r19_zstandard_and_nan_tokens_are_read_for_what_they_are(interop: Path) -> None:
    """Complaint: zip method 93 and bare NaN break readers. One run in both formats has the same states and rates."""
    folder = interop / "inspect/generated"
    with zipfile.ZipFile(folder / "harm_multiturn.eval") as archive:
        assert {info.compress_type for info in archive.infolist()} == {93}
    assert re.search(r":\s*NaN\b", (folder / "harm_multiturn.json").read_text())
    one, other = (checked(f"inspect:{folder}/harm_multiturn.{suffix}") for suffix in ("eval", "json"))
    assert one["accounting"] == other["accounting"]
    assert one["accounting"]["unscored"] == 4
    assert one["rates"] == other["rates"]


def test_r19_a_null_score_is_unscored(lab: Lab) -> None:
    """Complaint: null becomes 0. It is no score: one of three responses is undecided, and none passes for it."""
    lines = [
        line.replace('"hate": 0.1', f'"hate": {score}')
        for line, score in zip(moderation(3, ""), ("null", 0.1, 0.9), strict=True)
    ]
    found = checked(f"openai-moderation:{lab.file('a.jsonl', ''.join(lines))}")
    hate = found["rates"]["each attempt"]["hate"]
    assert (hate["scored"], hate["flagged"], hate["rate"]) == (2, 1, 0.5)
    assert found["verdicts"]["unscored"] == 1


@pytest.mark.parametrize(
    ("reader", "name", "expected"),
    [
        ("garak", "garak/generated/sim.report.jsonl", r"cut\.jsonl:\d+: "),
        ("openai-moderation", "moderation/generated/openai_moderation.jsonl", r"cut\.jsonl:\d+: "),
        ("promptfoo", "promptfoo/generated/single_turn_repeat2.jsonl", r"cut\.jsonl:\d+: "),
        ("promptfoo", "promptfoo/generated/single_turn_repeat2.json", r"cut\.json\b.*cut off"),
        ("inspect", "inspect/generated/harm_multiturn.eval", r"cut\.eval: "),
        ("inspect", "inspect/generated/harm_multiturn.json", r"cut\.json\b.*cut off"),
        ("pyrit", "pyrit/generated/pyrit_memory_1.1.0.db", r"cut\.db: "),
    ],
    ids=[
        f"R19-{name}" for name in ("garak", "openai", "promptfoo-jsonl", "promptfoo", "eval", "inspect-json", "pyrit")
    ],
)
def test_r19_a_truncated_file_is_refused_by_its_place(
    reader: str, name: str, expected: str, interop: Path, lab: Lab
) -> None:
    """Complaint: a crashed run is read as a short one. Cut in two, a file is refused, with its line if it has lines."""
    content = (interop / name).read_bytes()
    path = lab.file(f"cut{Path(name).suffix}", content[: len(content) // 2])
    outcome = run_assay("check", f"{reader}:{path}")
    refused(outcome)
    assert re.search(expected, outcome.err), outcome.err


def test_r19_a_run_that_broke_off_between_lines_says_so(interop: Path, lab: Lab) -> None:
    """Complaint: a crashed run is read as a short one. Without its last lines a garak report is read, and named so."""
    whole = (interop / "garak/generated/sim.report.jsonl").read_text().splitlines(keepends=True)
    last = max(i for i, line in enumerate(whole) if '"entry_type": "attempt"' in line)
    found = checked(f"garak:{lab.file('cut.jsonl', ''.join(whole[: last + 1]))}")
    assert found["collapsed"]["incomplete"] == 1
    assert found["headlines"][0]["tool"] == "no completion line"
    assert "incomplete" not in checked(f"garak:{interop}/garak/generated/sim.report.jsonl")["collapsed"]


def test_r20_repeated_judging_reports_its_variance(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complaint: one run of an LLM judge is taken for its opinion. Rated 0.2 and 0.4, a text has the variance 0.02."""
    rubric = lab.file("rubric.yaml", f"{RUBRIC_YAML}samples: 2\n")
    with running(lambda _: completion(ratings(hate=0, violence=1))) as server:
        server.on("text a", *(completion(ratings(hate=rating, violence=1)) for rating in (2, 4)))
        outcome = judged_by(server, lab, rubric, monkeypatch)
    assert "variance of repeated judging: hate 0.02, violence 0" in outcome.out
    table = pq.read_table(lab.folder / "s.parquet").to_pydict()
    assert table["hate"] == [pytest.approx(0.3)]
    assert table["rationale"][0].startswith("[2 samples, largest spread hate 0.141]")  # sqrt of 0.02


def judged_by(server: MisbehavingServer, lab: Lab, rubric: Path, monkeypatch: pytest.MonkeyPatch) -> Outcome:
    monkeypatch.setenv("ASSAY_JUDGE_BASE_URL", server.url)
    monkeypatch.setenv("ASSAY_JUDGE_API_KEY", "sk-planted")
    monkeypatch.setenv("ASSAY_CACHE_DIR", str(lab.folder / "cache"))
    settings.cache_clear()
    texts = lab.file("t.csv", "trace_id,turn,text\na,0,text a\n")
    outcome = run_assay("judge", "llm", texts, "--rubric", rubric, "-o", lab.folder / "s.parquet")
    monkeypatch.undo()
    settings.cache_clear()
    assert outcome.code == 0, outcome.err
    return outcome


# --- wrong input on which other tools printed numbers -----------------------------------------------------------------

LONG = "trace_id,category,score\n"
RESPONSE = '{"trace_id": "t", "response": {"model": "m", "results": [{"category_scores": {"hate": %s}}]}}\n'


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        pytest.param("a.csv", f"{LONG}x,harm,0.1\nx,harm,nan\n", "a.csv:3: score is nan", id="nan-prediction-csv"),
        pytest.param("a.jsonl", '{"trace_id": "x", "harm": NaN}\n', "a.jsonl:1: harm is nan", id="nan-prediction-json"),
        pytest.param("a.csv", f"{LONG}x,harm,inf\n", "a.csv:2: score is inf", id="infinite-prediction"),
        pytest.param("a.csv", f"{LONG}x,harm,0.1\ny,harm,7.0\n", "a.csv:3: score 7 is outside", id="score-above-1"),
    ],
)  # fmt: skip
def test_a_score_that_is_none_is_refused_with_its_line(name: str, content: str, expected: str, lab: Lab) -> None:
    """Complaint: NaN gives -6e15 or is dropped, 7.0 becomes 1.0 or rescales all. Refused, with file and line."""
    refused(lab.tried(lab.file(name, content)), expected)
    assert not (lab.folder / "m.json").exists()


def test_nan_in_parquet_is_refused_with_its_row(lab: Lab) -> None:
    """Complaint: NaN in a column of floats is taken for a score or dropped. Refused with its row; null is missing."""
    path = lab.folder / "a.parquet"
    pq.write_table(pa.table({"trace_id": ["x", "y"], "harm": pa.array([0.1, np.nan])}), path)
    refused(lab.tried(path), "a.parquet:row 2: harm is nan")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        pytest.param("NaN", "'NaN' is not a finite number", id="nan-prediction"),
        pytest.param("7.0", "outside the scale [0, 1]", id="score-above-1"),
    ],
)
def test_a_score_that_is_none_in_a_tools_file_is_refused_with_its_line(value: str, said: str, lab: Lab) -> None:
    """Complaint: an importer takes what a tool wrote. NaN and 7 in a file of moderation scores are refused."""
    path = lab.file("a.jsonl", RESPONSE % 0.5 + (RESPONSE % value).replace('"t"', '"u"'))
    refused(run_assay("check", f"openai-moderation:{path}"), "a.jsonl:2: ", said)


@pytest.mark.parametrize("value", ["0.93", "1.5", "-1"])
def test_continuous_values_where_0_or_1_is_needed_are_refused(value: str, lab: Lab) -> None:
    """Complaint: 0.93 is cut to 0, and the judge blamed. Refused as a detection and as a label, with the line."""
    spec = lab.file("d.yaml", "name: fair\nkind: detections\ncategories: [race]\n")
    table = lab.file("d.csv", f"trace_id,attribute,detected\na,race,1\nb,race,{value}\n")
    refused(
        run_assay("measure", table, "--instrument", spec, "-o", lab.folder / "d.json"),
        f"d.csv:3: detected {value} is neither 0 nor 1",
    )
    refused(
        lab.calibrate(golden().replace("g1,harm,1", f"g1,harm,{value}"), judged(90, 95)),
        f"c-golden.csv:3: label {value} is not a label; 0, 1 or an empty cell is expected",
    )


@pytest.mark.parametrize("positive", [200, 0], ids=["single-class-gold-all-bad", "single-class-gold-all-good"])
def test_a_golden_set_of_one_class_cannot_calibrate(positive: int, lab: Lab) -> None:
    """Complaint: one class gives [0%, -28%], kappa 1.0 or 100%. Refused, with the counts of both classes."""
    outcome = lab.calibrate(golden(positive, 200 - positive), judged(90, 95))
    refused(outcome, "no category can be calibrated", f"harm has {positive} positive and {200 - positive} negative")


@pytest.mark.parametrize("label", ["false", "False", "no"])
def test_a_label_in_words_is_refused_and_not_taken_for_true(label: str, lab: Lab) -> None:
    """Complaint: "false" is not empty, so it is true. Refused in CSV and JSON; `assay read --positive` translates."""
    refused(lab.calibrate(f"trace_id,category,label\ng0,harm,{label}\n", judged(90, 95)), f":2: label '{label}' is not")
    lines = lab.file("g.jsonl", json.dumps({"trace_id": "g0", "category": "harm", "label": label}) + "\n")
    refused(run_assay("check", lines, "--as", "golden"), f"g.jsonl:1: label '{label}' is not")


def test_duplicate_ids_collapse_when_equal_and_are_refused_when_they_differ(lab: Lab) -> None:
    """Complaint: the last wins, 300 rows become 1. Equal rows are counted, others refused with both lines."""
    assert lab.measure(f"{scored(20, [0])}p0,harm,0.9\n")["n_duplicates"] == 1
    refused(lab.tried(lab.file("s.csv", f"{scored(20)}p0,harm,0.2\n")), "s.csv:22: trace 'p0'", "s.csv:2;")
    labels = f"{golden()}g0,harm,0\n"
    refused(lab.calibrate(labels, judged(90, 95)), "c-golden.csv:202: trace 'g0' has another label", "c-golden.csv:2;")


@pytest.mark.parametrize(
    ("header", "kind", "missing"),
    [
        pytest.param("id,category,score", "scores", "trace_id", id="missing-column-scores"),
        pytest.param("trace_id,category", "golden", "label", id="missing-column-golden"),
        pytest.param("id,attribute,detected", "detections", "trace_id", id="missing-column-detections"),
    ],
)
def test_a_missing_column_is_named(header: str, kind: str, missing: str, lab: Lab) -> None:
    """Complaint: a traceback. The file and the column are named."""
    path = lab.file("a.csv", f"{header}\n" + ",".join(["x"] * (header.count(",") + 1)) + "\n")
    refused(run_assay("check", path, "--as", kind), f"{path}", f"column '{missing}' is missing")


TOOLS = (
    "garak", "openai-moderation", "perspective", "llama-guard", "azure-content-safety", "promptfoo", "inspect", "pyrit",
    "fair-forge",
)  # fmt: skip


@pytest.mark.parametrize(
    "reader", ["", *(f"{tool}:" for tool in TOOLS)], ids=lambda reader: f"empty-file-{reader[:-1] or 'table'}"
)
def test_an_empty_file_is_refused_and_a_missing_one_is_named(reader: str, lab: Lab) -> None:
    """Complaint: an empty file is 100% accurate, a missing one a traceback. Both are messages with the name."""
    empty, missing = lab.file("empty.csv", ""), lab.folder / "missing.csv"
    refused(run_assay("check", f"{reader}{empty}"), f"{empty}: is empty")
    refused(run_assay("check", f"{reader}{missing}"), f"{missing}: there is no such file")


def test_an_empty_golden_set_calibrates_nothing(lab: Lab) -> None:
    """Complaint: "Overall accuracy 100.0%, all floors met" on no label. Empty, and of headers alone: refused."""
    refused(lab.calibrate("", judged(90, 95)), "c-golden.csv: is empty")
    refused(lab.calibrate("trace_id,category,label\n", judged(90, 95)), "c-golden.csv: has a header but no rows")


def test_a_trace_without_status_is_missing_and_an_unknown_status_is_refused(lab: Lab) -> None:
    """Complaint: no status is a pass, "success" a fail. No score and no state is `missing`; a state is one of eight."""
    rows = [f"p{i},harm,{'' if i < 2 else 0.1}," for i in range(20)]
    text = "\n".join(["trace_id,category,score,state", *rows, ""])
    result = lab.measure(text)
    assert (result["accounting"]["scored"], result["accounting"]["missing"]) == (18, 2)
    assert result["composite"]["n_units"] == 18
    assert result["composite"]["worst_case"] == {"low": 0.0, "high": 0.1}
    path = lab.file("a.csv", text.replace("p0,harm,,", "p0,harm,,success"))
    refused(lab.tried(path), "a.csv:2: unknown state 'success'; known: scored, judge_error,")


def test_a_judge_of_near_zero_j_has_no_interval_that_looks_certain(lab: Lab) -> None:
    """Complaint: J = .02 gives (0, 0, 0) without a word. `below_detection_floor` in the calibration and the rate."""
    assert lab.calibrate(golden(), judged(51, 51), "noise").code == 0
    calibrated = json.loads((lab.folder / "noise.json").read_text())["result"]["categories"]["harm"]
    assert (calibrated["youden_j"], calibrated["status"]) == (pytest.approx(0.02), "below_detection_floor")
    result = lab.measure(scored(200, range(98)), calibration=lab.folder / "noise.json")
    assert (result["composite"]["observed_rate"], result["composite"]["prevalence"]["value"]) == (0.49, None)
    assert result["composite"]["prevalence"]["status"] == "below_detection_floor"
    outcome = run_assay(
        "gate", lab.folder / "m.json", "--policy", lab.file("p.yaml", LENIENT), "-o", lab.folder / "g.json"
    )
    assert outcome.code == 3


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=f"missing-file-{command[0]}")
        for command in (
            ("calibrate", "{}", "--scores", "{}"),
            ("measure", "{}", "--calibration", "{}"),
            ("gate", "{}", "--policy", "{}"),
            ("compare", "{}", "{}"),
            ("verify", "{}"),
            ("audit", "{}", "--spec", "{}"),
            ("judge", "lexical", "{}", "-o", "{}.parquet"),
            ("read", "garak", "{}", "-o", "{}.parquet"),
        )
    ],
)
def test_a_missing_file_is_named_by_every_command(command: tuple[str, ...], lab: Lab) -> None:
    """Complaint: a traceback, or a complaint about another file. The file that is not there is named."""
    missing = str(lab.folder / "missing.json")
    outcome = run_assay(*(part.format(missing) for part in command))
    refused(outcome, "missing.json")
