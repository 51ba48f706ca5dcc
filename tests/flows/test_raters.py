"""Golden sets of several raters on the command line: what is read, shown, recorded and refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from flows.pipelines.verification import verify
from tests.flows.conftest import Assay, Workbench, World, labels


def rated(n: int = 60) -> str:
    """Three raters; the third contradicts the two others on every seventh trace and leaves out every fifth."""
    rows = []
    for i in range(n):
        for name, label in labels(i).items():
            for rater in ("ann", "bob", "cy"):
                given = 1 - label if rater == "cy" and i % 7 == 0 else label
                if rater != "cy" or i % 5:
                    rows.append(f"g{i},{name},{given},v{i % 30},{rater}")
    return "\n".join(["trace_id,category,label,cluster,rater", *rows, ""])


def test_a_calibration_on_votes_shows_agreement_records_it_and_verifies(
    assay: Assay, world: World, tmp_path: Path
) -> None:
    golden, record = tmp_path / "rated.csv", tmp_path / "c.json"
    golden.write_text(rated())
    done = assay(
        "calibrate", golden, "--scores", world.scores, "--instrument", world.instrument, "-o", record,
        "--tracking-uri", "none",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert "labels are majorities of 336 votes of 3 raters; 0 ties left without a label" in done.out
    (line,) = (line for line in done.out.splitlines() if line.strip().startswith("hate: alpha"))
    assert "of vote pairs differ; 0% of labels" in line
    result = json.loads(record.read_text())["result"]
    assert result["golden"]["raters"] == {"n_raters": 3, "n_votes": 336, "n_ties": 0}
    plain = json.loads(world.calibration.read_text())["result"]
    named = {**result["categories"]["hate"], "agreement": None}
    assert named == {**plain["categories"]["hate"], "agreement": None}  # the majority is the truth of the other file
    assert "agreement" not in plain["categories"]["hate"]
    assert result["golden"]["sha256"] != plain["golden"]["sha256"]
    assert verify(record).identical


def test_a_check_says_how_many_raters_and_ties_there_are(assay: Assay, bench: Workbench) -> None:
    path = bench.file("g.csv", "trace_id,hate,rater\nx,1,ann\nx,0,bob\ny,1,ann\ny,1,bob\nz,0,ann\n")
    done = assay("check", path, "--as", "golden")
    assert done.code == 0, done.err
    assert [line.split() for line in done.out.splitlines() if line.startswith(("  raters", "  ties"))] == [
        ["raters", "2"], ["ties", "1"],
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ("g0,hate,1,v0,ann\ng0,hate,0,v0,ann\n", "another label for hate by rater 'ann'"),
        ("g0,hate,2,v0,ann\n", "is not a label"),
        ("g0,hate,1,v0,ann\ng0,hate,1,v9,bob\n", "cluster"),
        ('g0,hate,1,v0,"a\x1b[31m"\ng0,hate,0,v0,"a\x1b[31m"\n', "by rater 'a\\x1b[31m'"),
    ],
)
def test_bad_votes_are_refused(bench: Workbench, rows: str, expected: str) -> None:
    path = bench.file("g.csv", f"trace_id,category,label,cluster,rater\n{rows}")
    bench.refused(bench.calibrate(golden=path), expected)


def test_votes_label_production_too(bench: Workbench) -> None:
    rows = [f"p{i},{labels(i)['hate']},{labels(i)['violence']},{rater}" for i in range(30) for rater in (1, 2, 3)]
    path = bench.file("labels.csv", "\n".join(["trace_id,hate,violence,rater", *rows, ""]))
    done = bench.measure(bench.world.production, options=("--labels", path, "--json"))
    assert done.code == 0, done.err
    assert done.record["result"]["labels"]["n_traces"] == 30
