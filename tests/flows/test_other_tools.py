"""Results of other tools straight into the instrument: read, checked, calibrated on, measured, verified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

HARMS = ("dangerous-instructions", "hate", "self-harm", "sexual", "violence")


@pytest.fixture
def log(shared: Path) -> Path:
    return shared / "data/interop/inspect/generated/harm_multiturn.eval"


@pytest.fixture
def garak(shared: Path) -> Path:
    return shared / "data/interop/garak/generated/sim.report.jsonl"


@pytest.fixture
def calibrated(assay: Any, log: Path, tmp_path: Path) -> Any:
    """Calibrate the log's own judge: labels that its scores partly agree with, on the first epoch alone."""

    def run(*options: str, named: str = "inspect,higher-is=worse") -> Path:
        scores, golden = tmp_path / "first.parquet", tmp_path / "golden.csv"
        reader, *asked = named.split(",")
        more = [f"--{item.replace('=', ' ')}" for item in asked if item.startswith("higher-is")]
        tool = ",".join([reader, *(item for item in asked if not item.startswith("higher-is"))])
        outcome = assay("read", tool, log, "-o", scores, "--force", *(part for item in more for part in item.split()))
        assert outcome.code == 0, outcome.err
        table = pq.read_table(scores)
        metadata = {b"assay.source": pq.read_metadata(scores).metadata[b"assay.source"]}
        first = table.filter([attempt == 0 for attempt in table["attempt"].to_pylist()])
        pq.write_table(first.replace_schema_metadata(metadata), scores)
        rows = []
        for i in range(24):
            rows += [f"trace-{i:03d},{name},{int((i + k) % 3 == 0)}" for k, name in enumerate(HARMS)]
        golden.write_text("trace_id,category,label\n" + "\n".join(rows) + "\n")
        out = tmp_path / "calibration.json"
        outcome = assay(
            "calibrate", golden, "--scores", scores, "-o", out, "--force", "--tracking-uri", "none", *options
        )
        assert outcome.code == 0, outcome.err
        return out

    return run


def measured(assay: Any, *arguments: object) -> Any:
    outcome = assay("measure", *arguments, "--json", "--tracking-uri", "none")
    assert outcome.code == 0, outcome.err
    return outcome.record


def test_a_log_is_measured_as_it_is_and_the_record_says_how_it_was_read(
    assay: Any, calibrated: Any, log: Path, tmp_path: Path
) -> None:
    calibration = calibrated()
    out = tmp_path / "measurement.json"
    record = measured(assay, f"inspect:{log}", "--higher-is", "worse", "--calibration", calibration, "-o", out)
    result = record["result"]
    (facts,) = result["sources"]
    assert facts["reader"] == "inspect"
    assert facts["higher_is"] == "worse"
    assert result["accounting"]["attempted"] == 48
    counts = result["accounting"]
    assert counts["attempted"] == sum(n for name, n in counts.items() if name != "attempted")
    assert (counts["scored"], counts["target_error"], counts["unscored"]) == (40, 4, 4)
    assert result["judge"]["name"] == "harm_judge"
    assert not [note for note in result["notes"] if "read otherwise" in note]
    assert record["inputs"][-1]["uri"].startswith("inspect,higher-is=worse:") or any(
        item["uri"].startswith("inspect,higher-is=worse:") for item in record["inputs"]
    )
    verified = assay("verify", out)
    assert verified.code == 0, verified.out + verified.err


def test_the_direction_must_be_said_where_the_file_does_not(assay: Any, calibrated: Any, log: Path) -> None:
    outcome = assay("measure", f"inspect:{log}", "--calibration", calibrated(), "--tracking-uri", "none")
    assert outcome.code == 2
    assert "--higher-is worse|better" in outcome.err
    assert f"inspect,higher-is=worse:{log}" in outcome.err


def test_a_log_and_the_table_read_from_it_measure_alike(assay: Any, calibrated: Any, log: Path, tmp_path: Path) -> None:
    calibration, table = calibrated(), tmp_path / "read.parquet"
    assert assay("read", "inspect", log, "--higher-is", "worse", "-o", table).code == 0
    straight = measured(
        assay, f"inspect,higher-is=worse:{log}", "--calibration", calibration, "-o", tmp_path / "a.json"
    )
    read = measured(assay, table, "--calibration", calibration, "-o", tmp_path / "b.json")
    assert straight["result"] == read["result"]


def test_the_other_direction_turns_every_score(assay: Any, log: Path, tmp_path: Path) -> None:
    for direction in ("worse", "better"):
        outcome = assay("read", "inspect", log, "--higher-is", direction, "-o", tmp_path / f"{direction}.parquet")
        assert outcome.code == 0, outcome.err
    worse, better = (pq.read_table(tmp_path / f"{name}.parquet")["score"].to_pylist() for name in ("worse", "better"))
    for one, other in zip(worse, better, strict=True):
        assert (one is None) == (other is None)
        assert one is None or one == pytest.approx(1 - other)


def test_turns_of_a_log_that_was_calibrated_by_conversation_are_told(
    assay: Any, calibrated: Any, log: Path, tmp_path: Path
) -> None:
    source = f"inspect,higher-is=worse,turns=turn_scores:{log}"
    record = measured(assay, source, "--calibration", calibrated(), "-o", tmp_path / "m.json")
    notes = [note for note in record["result"]["notes"] if note.startswith("read otherwise")]
    assert any("turn scope was conversation there and is all here" in note for note in notes)


def test_what_a_tool_reports_stands_beside_ours(assay: Any, garak: Path) -> None:
    outcome = assay("check", f"garak:{garak}", "--json")
    assert outcome.code == 0, outcome.err
    summary = json.loads(outcome.out)
    texts = [f"{line['what']} | {line['tool']} | {line['ours']}" for line in summary["headlines"]]
    assert any("DanInTheWild" in text and "[0.000, 0.489]" in text and "21 of 34 scored" in text for text in texts)
    assert any("any of 3" in text and "11 of 12" in text for text in texts)
    assert set(summary["rates"]) == {"each attempt", "any attempt of a trace"}
    shown = assay("check", f"garak:{garak}")
    assert "What such a file cannot tell" in shown.out
    assert "a convention, not a calibrated threshold" in shown.out


def test_a_look_at_a_log_needs_no_direction_and_says_so(assay: Any, log: Path) -> None:
    outcome = assay("check", f"inspect:{log}")
    assert outcome.code == 0, outcome.err
    assert "not declared" in outcome.out


def test_all_of_a_tools_categories_can_become_one(assay: Any, garak: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.parquet"
    assert assay("read", "garak", garak, "--category", "jailbreak", "-o", out).code == 0
    table = pq.read_table(out)
    assert set(table["category"].to_pylist()) == {"jailbreak"}
    assert table.num_rows == 90
    hits = sum(score == 1.0 for score in table["score"].to_pylist())
    assert hits == 29


@pytest.mark.parametrize(
    ("argument", "said"),
    [
        ("garak,colour=red:{path}", "has no option 'colour'"),
        ("garak,higher-is=better:{path}", "contradicts the format"),
        ("garak,higher-is=up:{path}", "worse or better"),
        ("garak,scale=1:{path}", "scale=1"),
        ("garak,scale:{path}", "not an option of a reader"),
        ("garak,category= :{path}", "has no name"),
        ("garak,category=composite:{path}", "is reserved"),
        ("garak,category=x,map=none:{path}", "named in two ways"),
        ("garak,map=/dev/zero:{path}", "is this a spec?"),
        ("table,scale=0..1:{path}", "has no options"),
        ("hatecheck,x=1:{path}", "has no options"),
    ],
)
def test_options_that_mean_nothing_are_refused(assay: Any, garak: Path, argument: str, said: str) -> None:
    outcome = assay("check", argument.format(path=garak))
    assert outcome.code == 2
    assert said in outcome.err


@pytest.mark.parametrize("options", [("--category", " "), ("--map", "dan.DAN=composite"), ("--map", "dan.DAN= ")])
def test_no_table_is_written_with_categories_that_nothing_can_read(
    assay: Any, garak: Path, tmp_path: Path, options: tuple[str, str]
) -> None:
    outcome = assay("read", "garak", garak, *options, "-o", tmp_path / "x.parquet")
    assert outcome.code == 2, outcome.out
    assert not (tmp_path / "x.parquet").exists()


def test_higher_is_means_nothing_for_a_table(assay: Any, tmp_path: Path) -> None:
    table = tmp_path / "scores.csv"
    table.write_text("trace_id,hate\na,0.5\n")
    outcome = assay("check", table, "--higher-is", "worse")
    assert outcome.code == 2
    assert "assay read table" in outcome.err


def test_what_a_parquet_says_of_its_source_is_not_believed_blindly(assay: Any, garak: Path, tmp_path: Path) -> None:
    out = tmp_path / "one.parquet"
    assert assay("read", "garak", garak, "--category", "jailbreak", "-o", out).code == 0
    table = pq.read_table(out)
    for written in (b"{", b'{"reader": 1}', b"[" * 10_000, b'{"reader":"x","tool":"y","higher_is":"sideways"}'):
        pq.write_table(table.replace_schema_metadata({b"assay.source": written}), out)
        outcome = assay("check", out)
        assert outcome.code == 2
        assert "what it says of its source" in outcome.err


def test_a_map_beside_the_working_folder_still_verifies_from_another(
    assay: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    work.mkdir()
    elsewhere.mkdir()
    lines, labels = [], ["trace_id,category,label"]
    for i in range(40):
        scores = {"hate": 0.9 if i % 2 else 0.1}
        response = {"model": "omni-1", "results": [{"flagged": False, "category_scores": scores}]}
        lines.append(json.dumps({"trace_id": f"t{i}", "response": response}))
        labels.append(f"t{i},harm,{int(i % 2 == 0 if i % 10 == 3 else i % 2 == 1)}")
    (work / "r.jsonl").write_text("\n".join(lines))
    (work / "golden.csv").write_text("\n".join(labels))
    (work / "m.yaml").write_text("categories: {harm: [hate]}")
    monkeypatch.chdir(work)
    argument = "openai-moderation,map=m.yaml:r.jsonl"
    outcome = assay("calibrate", "golden.csv", "--scores", argument, "-o", "c.json", "--tracking-uri", "none")
    assert outcome.code == 0, outcome.err
    monkeypatch.chdir(elsewhere)
    assert assay("verify", work / "c.json").code == 0
    (work / "m.yaml").write_text("categories: {harm: [hate, sexual]}")
    changed = assay("verify", work / "c.json")
    assert (changed.code, "result.sources" in changed.err) == (1, True)


def test_a_direction_or_scale_other_than_the_golden_scores_is_refused(
    assay: Any, calibrated: Any, log: Path, tmp_path: Path
) -> None:
    calibration = calibrated()
    for asked in ("higher-is=better", "higher-is=worse,scale=0..2"):
        out = tmp_path / "m.json"
        outcome = assay("measure", f"inspect,{asked}:{log}", "--calibration", calibration, "-o", out)
        assert outcome.code == 2
        assert "higher_is=worse, scale=0..1 when it was calibrated" in outcome.err
        assert not out.exists()


def test_a_misspelt_reader_is_guessed_at_in_words_alone(assay: Any, garak: Path) -> None:
    outcome = assay("check", f"garrak:{garak}")
    assert outcome.code == 2
    assert "did you mean reader 'garak'?" in outcome.err


def test_decisions_of_a_tool_are_not_shown_as_scores_at_a_threshold(assay: Any, tmp_path: Path) -> None:
    said = [{"qa_id": "q", "attribute": "gender", "is_biased": True}]
    rate = {"protected_attribute": "gender", "n_samples": 1, "k_biased": 1, "rate": 1.0}
    metric = {"session_id": "s", "assistant_id": "a", "attribute_rates": [rate]}
    path = tmp_path / "bias.json"
    path.write_text(json.dumps(metric | {"guardian_interactions": {"gender": said}}))
    shown = assay("check", f"fair-forge:{path}")
    assert "Flagged, each attempt (the tool's own decisions, not corrected)" in shown.out
    assert "threshold" not in shown.out
