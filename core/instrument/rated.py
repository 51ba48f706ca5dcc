"""The raters behind golden labels: how far they agree in each category, and what that does to J (SPEC 13.6, 13.7)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from zlib import crc32

import numpy as np

from core.data.columns import Floats, Ints
from core.data.golden import Votes
from core.inference.agreement import label_noise, rater_agreement
from core.instrument.calibrated import Calibrated, GoldenRaters, LabelAgreement
from core.instrument.golden_table import GoldenTable
from core.instrument.spec import InstrumentSpec

STREAM = 136
"""Keeps these random numbers apart from those of the optimism."""


def raters_of(votes: Votes | None) -> GoldenRaters | None:
    """Count raters, votes and ties."""
    if votes is None:
        return None
    return GoldenRaters(n_raters=votes.n_raters, n_votes=int(votes.counts.sum()), n_ties=votes.n_ties)


def with_agreement(
    categories: Mapping[str, Calibrated], table: GoldenTable, spec: InstrumentSpec
) -> dict[str, Calibrated]:
    """Add to each category how far its raters agree; nothing where the golden set names no raters."""
    if table.votes is None:
        return dict(categories)
    return {
        name: replace(judged, agreement=_agreement(judged, table.votes.counts[:, c], name, spec))
        for c, (name, judged) in enumerate(categories.items())
    }


def _agreement(judged: Calibrated, votes: Ints, name: str, spec: InstrumentSpec) -> LabelAgreement:
    rng = np.random.default_rng([spec.seed, STREAM, crc32(name.encode("utf-8", "surrogatepass"))])
    found = rater_agreement(ratings_of(votes), confidence_level=spec.confidence_level, rng=rng)
    labelled = votes[votes[:, 0] != votes[:, 1]]
    noise = None
    if judged.youden_j is not None and found.disagreement is not None and len(labelled):
        noise = label_noise(
            judged.youden_j,
            disagreement=found.disagreement,
            votes_per_unit=labelled.sum(axis=1),
            positive_share=float((labelled[:, 1] > labelled[:, 0]).mean()),
            detection_floor=spec.detection_floor,
        )
    return LabelAgreement(raters=found, label_noise=noise)


def ratings_of(votes: Ints) -> Floats:
    """Lay votes out as ratings: who cast them does not matter to agreement.

    Examples
    --------
    >>> ratings_of(np.array([[1, 2], [1, 0]])).tolist()
    [[0.0, 1.0, 1.0], [0.0, nan, nan]]
    """
    sizes = votes.sum(axis=1)
    place = np.arange(max(1, int(sizes.max(initial=0))))
    ratings = np.where(place < votes[:, :1], 0.0, 1.0)
    return np.where(place < sizes[:, None], ratings, np.nan)
