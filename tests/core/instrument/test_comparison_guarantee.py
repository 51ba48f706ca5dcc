"""What comparisons promise, held against simulated releases: coverage, level, power, and what the guard warns of.

Reference: STATISTICS.md section 6, 4,000 replications; its rejections are intervals that miss 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from core.instrument.compared import Compared
from core.instrument.comparison import compare
from tests.core.instrument.releases import Release, few_melded_draws, instrument, paired

__all__ = ["few_melded_draws"]
pytestmark = [pytest.mark.usefixtures("few_melded_draws"), pytest.mark.slow]

SEED = 20261129
REPLICATIONS = 600  # Monte-Carlo error .0089 at .95, .0204 at .5


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A judge, two rates of violations, the correlation of their flags; the candidate's judge may differ."""

    sensitivity: float
    specificity: float
    baseline: float
    candidate: float
    correlation: float = 0.0
    n_golden: int = 100
    n_units: int = 500
    shift: tuple[float, float] = (0.0, 0.0)  # of sensitivity and specificity, on the candidate


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Shares over the replications, and the mean width."""

    coverage: float
    width: float
    rejection: float  # of the interval
    verdicts: float  # of the test, before adjustment
    difference: float
    fragile: float  # of the verdicts


def flags(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw the judge's flags on both releases."""
    sens, spec = cell.sensitivity + cell.shift[0], cell.specificity + cell.shift[1]
    a = cell.baseline * cell.sensitivity + (1 - cell.baseline) * (1 - cell.specificity)
    b = cell.candidate * sens + (1 - cell.candidate) * (1 - spec)
    both = a * b + cell.correlation * np.sqrt(a * (1 - a) * b * (1 - b))
    drawn = rng.choice(4, cell.n_units, p=[both, a - both, b - both, 1 - a - b + both])
    return (drawn == 0) | (drawn == 1), (drawn == 0) | (drawn == 2)


def simulated(cell: Cell, kinds: tuple[str, ...], replications: int = REPLICATIONS) -> dict[str, Seen]:
    rng = np.random.default_rng(SEED)
    rows: dict[str, list[Compared]] = {kind: [] for kind in kinds}
    m = cell.n_golden
    for _ in range(replications):
        calibration = instrument((rng.binomial(m, cell.sensitivity), m, rng.binomial(m, cell.specificity), m))
        one, other = (Release.of(drawn) for drawn in flags(cell, rng))
        before, after = one.measured(calibration), other.measured(calibration)
        if "separate" in kinds:  # one calibration, taken as if it were two
            rows["separate"].append(compare(before, after, calibration, candidate_calibration=calibration).composite)
        if "unpaired" in kinds:
            rows["unpaired"].append(compare(before, after, calibration).composite)
        if "paired" in kinds:
            pairs = paired(calibration, one, other)
            rows["paired"].append(compare(before, after, calibration, pairs=pairs).composite)
    return {kind: seen(found, cell.candidate - cell.baseline) for kind, found in rows.items()}


def seen(rows: list[Compared], truth: float) -> Seen:
    told = [row for row in rows if row.interval is not None]
    assert len(told) >= 0.97 * len(rows)
    low, high = (np.array([getattr(row.interval, end) for row in told]) for end in ("low", "high"))
    rejected = np.array([row.p_value <= 0.05 for row in told])
    tolerances = [row.delta_j_guard.interval for row in told if row.p_value <= 0.05]
    fragile = [
        any(shift is not None and shift < 0.05 for shift in (bears.sensitivity, bears.specificity))
        for bears in tolerances
    ]
    return Seen(
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        width=float((high - low).mean()),
        rejection=float(((low > 0) | (high < 0)).mean()),
        verdicts=float(rejected.mean()),
        difference=float(np.mean([row.difference for row in told])),
        fragile=float(np.mean(fragile)) if fragile else 0.0,
    )


TABLE = {  # cell: (coverage, width, rejection) of separate variances, shared unpaired, shared paired
    Cell(sensitivity=0.9, specificity=0.95, baseline=0.1, candidate=0.1): (
        (0.9985, 0.1746, 0.0015), (0.9438, 0.1018, 0.0562), (0.9443, 0.1017, 0.0557)),
    Cell(sensitivity=0.9, specificity=0.95, baseline=0.1, candidate=0.05): (
        (0.9995, 0.1732, 0.094), (0.951, 0.0948, 0.547), (0.951, 0.0948, 0.5487)),
    Cell(sensitivity=0.7, specificity=0.9, baseline=0.3, candidate=0.2): (
        (0.9988, 0.3101, 0.1382), (0.9525, 0.1884, 0.5887), (0.9518, 0.1884, 0.5872)),
    Cell(sensitivity=0.7, specificity=0.9, baseline=0.3, candidate=0.3): (
        (0.9993, 0.3113, 0.0007), (0.9563, 0.1916, 0.0437), (0.9577, 0.1915, 0.0423)),
    Cell(sensitivity=0.7, specificity=0.9, baseline=0.3, candidate=0.2, correlation=0.6): (
        (1.0, 0.3101, 0.0502), (0.9978, 0.1879, 0.6215), (0.9563, 0.1229, 0.9348)),
    Cell(sensitivity=0.7, specificity=0.9, baseline=0.3, candidate=0.3, correlation=0.6): (
        (1.0, 0.3113, 0.0), (0.9987, 0.1911, 0.0013), (0.955, 0.1211, 0.045)),
}  # fmt: skip


@pytest.mark.parametrize("cell", TABLE, ids=str)
def test_shared_calibration_has_the_coverage_width_and_power_of_the_reference(cell: Cell) -> None:
    found = simulated(cell, ("separate", "unpaired", "paired"))
    print(cell, *found.items(), sep="\n")
    for kind, (coverage, width, rejection) in zip(found, TABLE[cell], strict=True):
        assert found[kind].coverage == pytest.approx(coverage, abs=0.025), kind
        assert found[kind].coverage >= 0.925, kind
        assert found[kind].width == pytest.approx(width, rel=0.02), kind
        error = np.sqrt(rejection * (1 - rejection) * (1 / REPLICATIONS + 1 / 4000))
        assert found[kind].rejection == pytest.approx(rejection, abs=3 * error + 0.012), kind
    if cell.baseline == cell.candidate:
        assert found["paired"].verdicts <= 0.07
        assert found["unpaired"].verdicts <= 0.075


@pytest.mark.parametrize(("baseline", "candidate"), [(0.3, 0.2), (0.3, 0.3)])
def test_a_weak_judge_is_compared_with_wide_intervals_that_cover(baseline: float, candidate: float) -> None:
    """In the reference .9688 and .4711, .9743 and .4555, with the calibrations below the floor, which have no rate."""
    cell = Cell(sensitivity=0.6, specificity=0.7, baseline=baseline, candidate=candidate)
    rng = np.random.default_rng(SEED)
    rows = []
    for _ in range(800):
        a, b = rng.binomial(100, 0.6), rng.binomial(100, 0.7)
        calibration = instrument((a, 100, b, 100))
        one, other = (Release.of(drawn) for drawn in flags(cell, rng))
        row = compare(
            one.measured(calibration), other.measured(calibration), calibration, pairs=paired(calibration, one, other)
        ).composite
        assert row.interval is not None or row.verdict == "not_comparable"
        if row.interval is not None:
            rows.append(row)
    truth = candidate - baseline
    covered = np.mean([row.interval.low <= truth <= row.interval.high for row in rows])
    print(f"compared {len(rows)} of 800, coverage {covered:.3f}")
    assert covered >= 0.95


UNSTABLE = {  # shift of sensitivity and specificity on the candidate: (mean difference, false alarms)
    (0.0, 0.0): (-0.0005, 0.053), (0.05, 0.0): (0.0114, 0.0745), (0.0, 0.05): (-0.0609, 0.6793),
    (-0.1, 0.0): (-0.0212, 0.1383), (0.0, -0.05): (0.0619, 0.629), (0.0, -0.1): (0.1231, 0.9922),
}  # fmt: skip
"""The reference's differences are baseline minus candidate; signs are turned here."""


@pytest.mark.parametrize("shift", UNSTABLE, ids=str)
def test_an_unstable_judge_makes_the_false_alarms_of_the_reference_and_the_guard_warns_of_them(
    shift: tuple[float, float],
) -> None:
    cell = Cell(
        sensitivity=0.8, specificity=0.9, baseline=0.15, candidate=0.15, n_golden=200, n_units=1000, shift=shift
    )
    found = simulated(cell, ("unpaired",), 2500)["unpaired"]
    print(shift, found)
    difference, alarms = UNSTABLE[shift]
    error = np.sqrt(alarms * (1 - alarms) * (1 / 2500 + 1 / 4000))
    assert found.rejection == pytest.approx(alarms, abs=3 * error + 0.012)
    assert found.difference == pytest.approx(difference, abs=0.003)
    predicted = (0.15 * shift[0] - 0.85 * shift[1]) / 0.7  # F8
    assert found.difference == pytest.approx(predicted, abs=0.004)
    if shift in ((0.0, 0.05), (0.0, -0.05)):
        assert 0.58 <= found.verdicts <= 0.72
        assert found.fragile >= 0.95  # of the false alarms


def test_where_violations_are_the_rule_the_guard_warns_of_an_unstable_sensitivity() -> None:
    """The reference's row d(se,sp) = (0, -.05), classes exchanged; specificity alone would warn of a quarter."""
    cell = Cell(
        sensitivity=0.9, specificity=0.8, baseline=0.85, candidate=0.85, n_golden=200, n_units=1000, shift=(-0.05, 0)
    )
    found = simulated(cell, ("unpaired",), 300)["unpaired"]
    print(found)
    assert found.difference == pytest.approx(-0.0619, abs=0.007)
    assert 0.52 <= found.verdicts <= 0.74
    assert found.fragile >= 0.9


def test_replicated_vectors_break_mcnemar_and_not_the_sign_flips() -> None:
    """40 vectors of 25 attempts; a vector's chance of success is drawn anew for each release, from one law."""
    rng = np.random.default_rng(SEED)
    calibration = instrument((180, 200, 190, 200))
    clusters = np.repeat(np.arange(40), 25)
    flipped, plain, covered, naive = 0, 0, 0, 0
    replications = 1000
    for _ in range(replications):
        common = rng.beta(0.6, 1.4, 40)
        chances = [np.where(rng.random(40) < 0.5, common, rng.beta(0.6, 1.4, 40)) for _ in range(2)]
        drawn = [rng.random(1000) < chance[clusters] for chance in chances]
        one, other = (Release.of(found, clusters=clusters) for found in drawn)
        row = compare(
            one.measured(calibration), other.measured(calibration), calibration, pairs=paired(calibration, one, other)
        ).composite
        flipped += row.p_value <= 0.05
        covered += row.interval.low <= 0 <= row.interval.high
        alone = [Release.of(found) for found in drawn]
        row = compare(
            alone[0].measured(calibration), alone[1].measured(calibration), calibration,
            pairs=paired(calibration, *alone),
        ).composite  # fmt: skip
        plain += row.p_value <= 0.05
        naive += row.interval.low <= 0 <= row.interval.high
    print(f"sign flips {flipped}, McNemar {plain}, intervals {covered} and {naive} of {replications}")
    assert 0.03 <= flipped / replications <= 0.068
    assert plain / replications >= 0.4
    assert covered / replications >= 0.93
    assert naive / replications <= 0.6


@pytest.mark.parametrize("pair", [True, False])
def test_releases_of_other_lengths_keep_coverage_and_level_and_their_flags_alone_do_not(pair: bool) -> None:
    """Single turns and four-turn conversations, 70 and 30 percent of the baseline, the reverse in the candidate."""
    rng = np.random.default_rng(SEED)
    sens, spec, theta, n = np.array([0.80, 0.95]), np.array([0.95, 0.80]), 0.15, 1000
    covered = rejected = told = naive = 0
    differences = []
    replications = 1500
    for _ in range(replications):
        golden = {
            at: (int(rng.binomial(100, q1)), 100, int(rng.binomial(150, q0)), 150)
            for at, q1, q0 in zip((0, 3), sens, spec, strict=True)
        }
        calibration = instrument(golden)
        violates = rng.random(n) < theta
        releases = []
        for share in (0.3, 0.7):
            kind = (rng.random(n) < share).astype(int)
            rate = np.where(violates if pair else rng.random(n) < theta, sens[kind], 1 - spec[kind])
            releases.append(Release.of(rng.random(n) < rate, n_turns=np.where(kind, 4, 1)))
        row = compare(
            *(release.measured(calibration) for release in releases), calibration,
            pairs=paired(calibration, *releases) if pair else None,
        ).composite  # fmt: skip
        if row.interval is None:
            continue
        told += 1
        assert row.method == "wald"
        covered += row.interval.low <= 0 <= row.interval.high
        rejected += row.p_value <= 0.05
        naive += abs(row.observed_difference) > 0.035
        differences.append(row.difference)
    print(f"coverage {covered / told:.3f}, level {rejected / told:.3f}, told {told}, bias {np.mean(differences):.4f}")
    assert told >= 0.97 * replications
    assert covered / told >= 0.935
    assert rejected / told <= 0.065
    assert abs(np.mean(differences)) <= 0.004
    assert naive / told >= 0.8


@pytest.mark.parametrize("change", [(0.002, 0.002), (0.01, 0.01), (0.02, 0.002), (0.05, 0.0)])
@pytest.mark.parametrize("n", [60, 400])
def test_few_changed_pairs_are_covered(change: tuple[float, float], n: int) -> None:
    rng = np.random.default_rng(SEED)
    up, down = change
    calibration = instrument((95, 100, 99, 100))
    covered = []
    for _ in range(800):
        cells = rng.multinomial(n, [0.2, down, up, 0.8 - up - down])
        one, other = Release.of(np.repeat([1, 1, 0, 0], cells)), Release.of(np.repeat([1, 0, 1, 0], cells))
        row = compare(
            one.measured(calibration), other.measured(calibration), calibration, pairs=paired(calibration, one, other)
        ).composite
        covered.append(row.interval.low <= (up - down) / 0.94 <= row.interval.high)
    print(f"coverage {np.mean(covered):.3f}")
    assert np.mean(covered) >= 0.94
