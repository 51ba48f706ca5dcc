"""A judge that scores the same texts again: with new noise, and with a change where a test asks for one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from core.data.golden import GoldenSet
from core.instrument.anchors import choose_anchors
from core.instrument.calibrated import Calibration
from core.instrument.calibration import calibrate
from core.instrument.golden_table import GoldenScores, GoldenTable
from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec
from core.instrument.watch import watch
from core.instrument.watched import Watched, WatchSpec

GUARD = JudgeIdentity(name="guard", version="1", fingerprint="f" * 64)
CATEGORIES = ("hate", "violence")


@dataclass(frozen=True)
class Bench:
    """A calibrated judge, what it thinks of each golden trace, and how much its answers vary from call to call."""

    calibration: Calibration
    table: GoldenTable
    thought: Any
    noise: float

    def answers(self, rng: np.random.Generator, *, by_label: tuple[float, float] = (0.0, 0.0)) -> GoldenScores:
        """Score all golden traces again; harmless and violating ones moved by so much."""
        moved = np.where(self.table.labels == 1, by_label[1], by_label[0])
        maxima = np.clip(self.thought + moved + rng.normal(0.0, self.noise, self.thought.shape), 0.0, 1.0)
        return scores_of(self.table.trace_ids, maxima)

    def watch(self, answers: GoldenScores | None, *, earlier: tuple[Watched, ...] = (), **asked: Any) -> Watched:
        before = tuple(map(str, range(len(earlier))))
        asked = {"anchors": 200, "judge": GUARD, **asked}
        spec = WatchSpec(earlier=before, look=len(earlier) + 1, **asked)
        return watch(self.calibration, self.table, answers, spec, calibration_id="c" * 64, earlier=earlier)


def scores_of(trace_ids: tuple[str, ...], maxima: Any) -> GoldenScores:
    return GoldenScores(
        trace_ids=trace_ids, n_turns=np.ones(len(trace_ids), np.int64), maxima=maxima, missing=~np.isfinite(maxima)
    )


def bench(
    n: int = 400,
    *,
    seed: int = 1,
    noise: float = 0.0,
    share: float = 0.3,
    cluster_size: int = 1,
    strength: float = 0.16,
) -> Bench:
    """Calibrate a judge on n traces, thresholds chosen on its first answers as they are in practice."""
    rng = np.random.default_rng(seed)
    labels = (rng.random((n, len(CATEGORIES))) < share).astype(np.int64)
    ids = tuple(f"t{i:05d}" for i in range(n))
    names = tuple(f"v{i // cluster_size}" for i in range(n)) if cluster_size > 1 else None
    together = np.repeat(rng.normal(0.0, 0.08, -(-n // cluster_size)), cluster_size)[:n, None] if names else 0.0
    thought = np.clip(0.35 + 0.3 * labels + rng.normal(0.0, strength, labels.shape) + together, 0.02, 0.98)
    first = np.clip(thought + rng.normal(0.0, noise, thought.shape), 0.0, 1.0)
    golden = GoldenSet(
        trace_ids=ids, categories=CATEGORIES, labels=labels, clusters=names, slices={}, n_rows=n, n_duplicates=0
    )
    spec = InstrumentSpec(name="safety", optimism=OptimismSpec(method="none"))
    calibration, table = calibrate(golden, scores_of(ids, first), spec, judge=GUARD)
    return Bench(calibration=calibration, table=table, thought=thought, noise=noise)


def anchors_of(made: Bench, n: int) -> Any:
    return choose_anchors(made.table, made.calibration, n, seed=made.calibration.seed)
