"""The promotion rule, as a table of cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from core.instrument.calibrated import Calibration
from core.instrument.measured import CertificateLink
from core.instrument.promotion import PromotionDecision, promotion_decision
from tests.core.instrument.watching import bench

CHAMPION = bench().calibration
COVERED = CertificateLink(
    id="c" * 64, coverage=0.945, mc_error=0.005, mean_coverage=0.95, confidence_level=0.95, sufficient=True
)
J, LOW = CHAMPION.composite.youden_j, CHAMPION.composite.youden_j_low


def challenger(**composite: Any) -> Calibration:
    return replace(CHAMPION, composite=replace(CHAMPION.composite, **composite))


def of_source(source: Any) -> Calibration:
    return replace(CHAMPION, calibration_source=source)


def decided(*given: Calibration | CertificateLink | None, corrected: bool = True) -> PromotionDecision:
    return promotion_decision(*given, corrected=corrected)  # type: ignore[arg-type]


def test_a_challenger_that_is_measured_certified_and_no_worse_is_promoted_with_the_reasons() -> None:
    found = decided(challenger(), COVERED, CHAMPION, CHAMPION)
    assert found.promote
    assert found.because == (
        "the composite is measured; the certificate's coverage of 0.945 is sufficient; "
        f"J {J:.3f} is not below the champion's lower bound, {LOW:.3f}"
    )


@pytest.mark.parametrize(
    ("found", "certificate", "champion", "why"),
    [
        (of_source("declared"), COVERED, CHAMPION, "its rates are declared, not measured"),
        (of_source("simulated"), COVERED, CHAMPION, "its rates are simulated, not"),
        (challenger(status="inconclusive"), COVERED, CHAMPION, "the composite is inconclusive, not measured"),
        (challenger(status="below_detection_floor"), COVERED, CHAMPION, "below_detection_floor, not measured"),
        (challenger(), None, CHAMPION, "it has no certificate"),
        (challenger(), replace(COVERED, coverage=0.9299, sufficient=False), CHAMPION, "0.930 is below 0.93"),
        (challenger(), replace(COVERED, mc_error=0.03, sufficient=False), CHAMPION, "0.945 ± 0.030 is not sufficient"),
        (challenger(), COVERED, None, "there is no champion to hold it against"),
        (challenger(youden_j=(LOW or 0) - 0.001), COVERED, CHAMPION, "the lower bound of the champion"),
        (challenger(youden_j=None), COVERED, CHAMPION, "it has no J"),
        (challenger(), COVERED, challenger(youden_j_low=None), "the champion has no lower bound of J"),
        (challenger(categories=("hate",)), COVERED, CHAMPION, "it does not span violence, which the champion does"),
    ],
)
def test_otherwise_a_person_decides_and_is_told_why(
    found: Calibration, certificate: CertificateLink | None, champion: Calibration | None, why: str
) -> None:
    decision = decided(found, certificate, champion)
    assert not decision.promote
    assert len(decision.reasons) == 1
    assert why in decision.because


def test_apparent_rates_are_left_to_a_person() -> None:
    decision = decided(challenger(), COVERED, CHAMPION, corrected=False)
    assert not decision.promote
    assert decision.because == "the optimism of its thresholds is not taken off"


def test_a_j_at_the_champions_lower_bound_is_still_promoted() -> None:
    assert decided(challenger(youden_j=LOW), COVERED, CHAMPION).promote


def test_a_judge_cannot_grow_worse_step_by_step() -> None:
    slipped = challenger(youden_j=LOW, youden_j_low=(LOW or 0) - 0.1)
    worse = challenger(youden_j=(LOW or 0) - 0.05)
    assert decided(worse, COVERED, slipped).promote
    decision = decided(worse, COVERED, slipped, CHAMPION)
    assert not decision.promote
    assert "the lower bound of the last champion that a person made" in decision.because


def test_every_reason_is_told_at_once() -> None:
    assert len(decided(challenger(status="inconclusive", youden_j=0.0), None, CHAMPION).reasons) == 3
