"""Releases for tests of comparisons: judged units, as measurements and as pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from core.inference.clusters import cluster_sums
from core.inference.prevalence import Counts, PrevalenceInterval, melded_interval
from core.instrument.calibrated import Apparent, Calibrated, Calibration, CompositeCalibrated, EffectiveCounts
from core.instrument.measured import Measurement
from core.instrument.measurement import measure, measurement_spec
from core.instrument.pairing import DecisionBlock, PairCounts, PairTally, golden_bins
from core.instrument.spec import TURN_BINS, JudgeIdentity
from core.instrument.strata import Stratum
from core.instrument.tally import UnitCounts

JUDGE = JudgeIdentity(name="judge", version="1")
Golden = tuple[int, int, int, int]  # true positives, positives, true negatives, negatives


def instrument(
    *categories: Golden | dict[int, Golden], composite: Golden | dict[int, Golden] | None = None
) -> Calibration:
    """A calibration from golden counts: of each category by turn bin (bin 0 unless said), and of the composite."""
    judged = {f"c{i}": _judged(counts) for i, counts in enumerate(categories)}
    whole = _judged(categories[0] if composite is None else composite)
    return Calibration(
        instrument="i", judge=JUDGE, judge_source="scores", calibration_source="golden_set", confidence_level=0.95,
        detection_floor=0.2, interval="lang_reiczigel", turn_bins=TURN_BINS, seed=7, golden=None,
        categories={name: Calibrated(**figures) for name, figures in judged.items()},
        composite=CompositeCalibrated(**whole, categories=tuple(judged)), slices={},
    )  # fmt: skip


def _judged(counts: Golden | dict[int, Golden]) -> dict[str, Any]:
    by_bin = counts if isinstance(counts, dict) else {0: counts}
    a, m1, b, m0 = (sum(column) for column in zip(*by_bin.values(), strict=True))
    return {
        "status": "measured", "threshold": 0.5, "n_positive": m1, "n_negative": m0,
        "true_positives": a, "true_negatives": b, "sensitivity": a / m1, "specificity": b / m0,
        "youden_j": a / m1 + b / m0 - 1, "youden_j_low": 0.0,
        "effective": EffectiveCounts(n_positive=m1, n_negative=m0, positive_clusters=m1, negative_clusters=m0),
        "apparent": Apparent(threshold=0.5, sensitivity=a / m1, specificity=b / m0, youden_j=a / m1 + b / m0 - 1),
        "by_turns": tuple(
            Stratum(
                turns=str(at), bins=(at,), n_positive=row[1], true_positives=row[0], n_negative=row[3],
                true_negatives=row[2],
            )
            for at, row in by_bin.items()
        ),
    }  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Release:
    """The judge's masks on some units."""

    flags: np.ndarray
    n_turns: np.ndarray
    missing: np.ndarray
    clusters: np.ndarray | None = None

    @classmethod
    def of(cls, flags: Any, *, n_turns: Any = 1, missing: Any = 0, clusters: Any = None) -> Release:
        flags = np.asarray(flags, np.int64)
        return cls(
            flags=flags, n_turns=np.broadcast_to(n_turns, flags.shape).astype(np.int64),
            missing=np.broadcast_to(missing, flags.shape).astype(np.int64),
            clusters=None if clusters is None else np.asarray(clusters),
        )  # fmt: skip

    def measured(self, calibration: Calibration, *, calibration_id: str = "cal", **options: Any) -> Measurement:
        """Measure them."""
        k = len(calibration.composite.categories)
        n = len(self.flags)
        rows, times = np.unique(
            np.stack([self.flags, self.missing, np.searchsorted(TURN_BINS, self.n_turns)]), axis=1, return_counts=True
        )
        codes = np.arange(n) if self.clusters is None else self.clusters
        bits = [(1 << k) - 1, *(1 << c for c in range(k))]
        sums = [cluster_sums(codes[scored := self.missing & bit == 0], (self.flags & bit != 0)[scored]) for bit in bits]
        complete = int((self.missing == 0).sum())
        counts = UnitCounts(
            n_categories=k, n_traces=n, n_turns=int(self.n_turns.sum()), n_duplicates=0, n_gaps=0,
            histogram=tuple((*map(int, row), int(t)) for row, t in zip(rows.T, times, strict=True)),
            accounting={"attempted": n, "scored": complete, "missing": n - complete}, clusters=tuple(sums),
            clustered=self.clusters is not None,
        )  # fmt: skip
        judge = options.pop("judge", JUDGE)
        return measure(
            counts, calibration, measurement_spec(calibration, **options), calibration_id=calibration_id, judge=judge,
            judge_source="scores",
        )  # fmt: skip

    @property
    def block(self) -> DecisionBlock:
        """Their decisions."""
        return DecisionBlock(n_turns=self.n_turns, flags=self.flags, missing=self.missing)


def paired(calibration: Calibration, baseline: Release, candidate: Release) -> PairCounts:
    """Pair two releases unit by unit."""
    tally = PairTally(len(calibration.composite.categories), TURN_BINS, golden_bins(calibration))
    names = None if baseline.clusters is None else [f"k{code}" for code in baseline.clusters]
    tally.add(baseline.block, candidate.block, clusters=names)
    return tally.finish()


def _from_few_draws(
    counts: Counts, confidence_level: float, rng: np.random.Generator, draws: int
) -> PrevalenceInterval:
    del draws  # however many are asked for
    return melded_interval(counts, confidence_level, rng, draws=100)


@pytest.fixture
def few_melded_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """The melded interval is not what a comparison or a guarantee reads, and would take nearly all of the time."""
    monkeypatch.setattr("core.instrument.correction.melded_interval", _from_few_draws)
