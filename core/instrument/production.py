"""Production as one quantity sees it: its counts, their observed rate, and how they lie over the golden strata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from core.data.problems import counted
from core.data.vocabulary import SCORED
from core.inference.clusters import (
    DESIGN_EFFECT_FLOOR,
    FEW_CLUSTERS,
    ZERO_VARIANCE,
    ClusterSums,
    EffectiveSample,
    effective_sample,
)
from core.inference.intervals import clopper_pearson, jeffreys, modified_wilson, normal_quantile, wilson_interval
from core.instrument.measured import Limits, Measured, ObservedInterval, Prevalence, TurnShare
from core.instrument.spec import JudgeIdentity, MeasurementSpec
from core.instrument.strata import Stratum, bin_labels, production_weights
from core.instrument.tally import UnitCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One quantity's counts in production."""

    n_units: int
    n_flagged: int
    n_attempted: int
    n_any_flag: int
    n_flag_or_undecided: int
    by_bin: Mapping[int, tuple[int, int]]  # turn bin -> (fully scored units, flagged)
    clusters: ClusterSums


def sample_of(counts: UnitCounts, position: int | None) -> Sample:
    """Count one category (by bit position), or the composite (None)."""
    bit = (1 << counts.n_categories) - 1 if position is None else 1 << position
    rows = np.array(counts.histogram, np.int64).reshape(-1, 4)
    flagged, undecided, n = (rows[:, 0] & bit) != 0, (rows[:, 1] & bit) != 0, rows[:, 3]
    inside = ~undecided
    by_bin = {
        int(b): (int(n[inside & (rows[:, 2] == b)].sum()), int(n[inside & flagged & (rows[:, 2] == b)].sum()))
        for b in np.unique(rows[inside, 2])
    }
    return Sample(
        n_units=int(n[inside].sum()),
        n_flagged=int(n[inside & flagged].sum()),
        n_attempted=int(n.sum()),
        n_any_flag=int(n[flagged].sum()),
        n_flag_or_undecided=int(n[flagged | undecided].sum()),
        by_bin=by_bin,
        clusters=counts.clusters[0 if position is None else position + 1],
    )


def survey(
    counts: UnitCounts, spec: MeasurementSpec, *, judge: JudgeIdentity, judge_source: str, judge_accepted: bool = False
) -> dict[str, Any]:
    """Return the fields of a `Survey` that counts, spec and judge give."""
    attempted = counts.accounting["attempted"]
    unscored = (attempted - counts.accounting[SCORED]) / attempted if attempted else 0.0  # 2 of 40 is .05, no more
    return {
        "instrument": spec.instrument,
        "target": spec.target,
        "judge": judge,
        "judge_source": judge_source,
        "judge_accepted": judge_accepted,
        "attempts": spec.attempts,
        "n_traces": counts.n_traces,
        "n_units": attempted,
        "n_turns": counts.n_turns,
        "n_duplicates": counts.n_duplicates,
        "n_turn_gaps": counts.n_gaps,
        "clustered": counts.clustered,
        "accounting": counts.accounting,
        "unscored_share": unscored,
        "error_budget_exceeded": unscored > spec.error_budget,
    }


def observed(sample: Sample, counts: UnitCounts, spec: MeasurementSpec, prevalence: Prevalence) -> Measured:
    """Put a quantity's observed rate, its interval and worst case (SPEC 2.2-2.3, 7.2) beside its corrected rate."""
    return Measured(
        n_units=sample.n_units,
        n_flagged=sample.n_flagged,
        observed_rate=sample.n_flagged / sample.n_units if sample.n_units else None,
        observed_interval=observed_interval(sample, counts.clustered, spec.confidence_level),
        worst_case=Limits(
            low=sample.n_any_flag / sample.n_attempted if sample.n_attempted else 0.0,
            high=sample.n_flag_or_undecided / sample.n_attempted if sample.n_attempted else 1.0,
        ),
        prevalence=prevalence,
    )


def observed_interval(sample: Sample, clustered: bool, confidence_level: float) -> ObservedInterval:
    """Return the modified Wilson interval (SPEC 7.2), on effective counts when units are clustered.

    Clopper-Pearson and Jeffreys (SPEC 7.3, 7.4) stand beside it, on the same counts.
    """
    if sample.n_units < 2:
        return ObservedInterval(status="undefined")
    plain = wilson_interval(sample.n_flagged, sample.n_units, confidence_level=confidence_level)
    rate = sample.n_flagged / sample.n_units
    if not clustered:
        return ObservedInterval(
            status="defined", low=plain.low, high=plain.high, method="modified_wilson",
            **_beside(rate, float(sample.n_units), confidence_level),
        )  # fmt: skip
    independent = Limits(low=plain.low, high=plain.high)
    effective = effective_sample(sample.clusters, clustered=True, confidence_level=confidence_level)
    if effective.n_effective <= 1.0:
        return ObservedInterval(status="undefined", n_effective=effective.n_effective, independent=independent)
    low, high = modified_wilson(rate, effective.n_effective, z=normal_quantile(confidence_level))
    return ObservedInterval(
        status="defined", low=low, high=high, method="modified_wilson_effective", independent=independent,
        **_beside(rate, effective.n_effective, confidence_level),
    )  # fmt: skip


def _beside(rate: float, n_effective: float, confidence_level: float) -> dict[str, Any]:
    exact = clopper_pearson(rate, n_effective, confidence_level=confidence_level)
    central = jeffreys(rate, n_effective, confidence_level=confidence_level)
    return {
        "n_effective": n_effective,
        "clopper_pearson": Limits(low=exact[0], high=exact[1]),
        "jeffreys": Limits(low=central[0], high=central[1]),
    }


def turn_shares(
    sample: Sample, strata: Sequence[Stratum] | None, turn_bins: Sequence[int]
) -> tuple[tuple[TurnShare, ...], Sample]:
    """Lay production's units over the golden strata; return their shares and the counts inside them."""
    if strata is None:
        return (), sample
    units = {b: n for b, (n, _) in sample.by_bin.items()}
    _, inside, outside = production_weights(units, strata)
    known = {b for stratum in strata for b in stratum.bins}
    shares = [
        TurnShare(
            turns=stratum.turns,
            n_units=(n := sum(units.get(b, 0) for b in stratum.bins)),
            share=n / sample.n_units,
        )
        for stratum in strata
    ]
    if outside:
        labels = bin_labels(turn_bins)
        names = ", ".join(labels[b] for b in sorted(units) if b not in known)
        shares.append(TurnShare(turns=f"outside: {names}", n_units=outside, share=outside / sample.n_units))
    flagged = sum(x for b, (_, x) in sample.by_bin.items() if b in known)
    return tuple(shares), Sample(
        n_units=inside,
        n_flagged=flagged,
        n_attempted=sample.n_attempted,
        n_any_flag=sample.n_any_flag,
        n_flag_or_undecided=sample.n_flag_or_undecided,
        by_bin={b: counts for b, counts in sample.by_bin.items() if b in known},
        clusters=sample.clusters,
    )


def production_notes(production: EffectiveSample) -> list[str]:
    """Say what a reader has to know of production's clusters."""
    found = counted(production.n_clusters, "cluster" if production.clustered else "unit")
    notes = []
    if production.n_clusters < FEW_CLUSTERS:
        notes.append(f"only {found} in production: under {FEW_CLUSTERS} the interval may be too narrow")
    if ZERO_VARIANCE in production.notes:
        notes.append(
            f"all units in production are judged alike: they count as {production.n_clusters} independent units, "
            "one a cluster"
        )
    if DESIGN_EFFECT_FLOOR in production.notes:
        notes.append(
            "the rarer decision in production sits in few clusters: design effect floored at "
            f"{production.design_effect:.2f}"
        )
    return notes
