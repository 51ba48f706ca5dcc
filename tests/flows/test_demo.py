"""The demo's jobs, run without Prefect: what is compared is set beside a truth that is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.pipelines.calibration import run_calibration
from flows.pipelines.comparison import run_comparison
from flows.pipelines.demo import run_demo
from flows.pipelines.measurement import run_measurement
from flows.pipelines.verification import verify
from tasks.archive import Written
from tasks.reporting.comparison import true_changes
from tasks.specs import load_instrument


class DirectJobs:
    def calibrate(self, golden: str, instrument: str, output: str) -> Written:
        return run_calibration([golden], [], "lexical", load_instrument(Path(instrument)), output=Path(output))

    def measure(self, scores: str, instrument: str, calibration: str, target: str, output: str) -> Written:
        assert Path(instrument).is_file()
        return run_measurement([scores], calibration=calibration, target=target, output=Path(output))

    def compare(self, baseline: str, candidate: str, output: str) -> Written:
        return run_comparison([baseline, candidate], output=Path(output)).written


@pytest.mark.e2e
def test_the_comparison_of_the_demos_releases_holds_the_known_truth(tmp_path: Path) -> None:
    """Nine points less, by construction: with a weak judge and 80 attack vectors that is within what chance may do."""
    told: list[str] = []
    found = run_demo(tmp_path, DirectJobs(), told.append)
    before, after = (item.truth for item in found.releases)
    assert after["composite"] - before["composite"] == pytest.approx(-0.09)
    result = found.comparison.document["result"]
    # Other conversations in each release, so that nothing can be paired.
    assert (result["paired"], result["clustered"]) == (False, True)
    for name, row in {"composite": result["composite"], **result["categories"]}.items():
        change = after[name] - before[name]
        assert row["interval"]["low"] <= change <= row["interval"]["high"], name
        assert row["difference"] < 0
    # Its p alone is .06: six quantities are tested together.
    assert result["composite"]["p_value"] == pytest.approx(0.059, abs=0.001)
    assert result["composite"]["verdict"] == "no_evidence_of_change"
    assert true_changes(found.comparison.document, before, after) == (
        "6 of 6 intervals hold the true change; the composite's is -9.0 points."
    )
    assert told[-1] == "comparing guard-x@1.1 with guard-x@1.2"
    assert verify(found.comparison.path).identical
