"""Turn strata (SPEC 5): sensitivity and specificity weighted to production's number of turns.

A maximum over more turns flags more. So calibration keeps its confusion counts by stratum of turn count, and
measurement weights them to the turn counts that it finds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

SMALL_STRATUM = 10
"""A stratum with fewer golden traces of a class is merged with its neighbour (STATISTICS decision 14)."""

OUTSIDE_ALLOWED = 0.01
"""Share of production units outside the strata up to which they are left out; above it there is no corrected rate."""


def bin_of(n_turns: npt.ArrayLike, turn_bins: Sequence[int]) -> Ints:
    """Return the stratum of each number of turns: the first whose upper edge is not exceeded."""
    return np.searchsorted(np.asarray(turn_bins), np.asarray(n_turns)).astype(np.int64)


def bin_labels(turn_bins: Sequence[int]) -> list[str]:
    """Name the strata.

    Examples
    --------
    >>> bin_labels([1, 2, 4, 8])
    ['1', '2', '3-4', '5-8', '9+']
    """
    low = [1, *(edge + 1 for edge in turn_bins)]
    high = [*turn_bins, None]
    return [f"{a}+" if b is None else str(a) if a == b else f"{a}-{b}" for a, b in zip(low, high, strict=True)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stratum:
    """Golden counts of the traces with some numbers of turns, at the deployed threshold.

    Attributes
    ----------
    turns : str
        The turn counts, such as ``1`` or ``3-4, 5-8``.
    bins : tuple of int
        The strata of `turn_bins` that were merged into this one.
    n_positive, true_positives, n_negative, true_negatives : int
    """

    turns: str
    bins: tuple[int, ...]
    n_positive: int
    true_positives: int
    n_negative: int
    true_negatives: int

    @property
    def is_small(self) -> bool:
        """Whether a class has too few traces to stand alone."""
        return min(self.n_positive, self.n_negative) < SMALL_STRATUM

    def merged(self, right: Stratum) -> Stratum:
        """Return this stratum and the one to its right as one."""
        return Stratum(
            turns=f"{self.turns}, {right.turns}",
            bins=(*self.bins, *right.bins),
            n_positive=self.n_positive + right.n_positive,
            true_positives=self.true_positives + right.true_positives,
            n_negative=self.n_negative + right.n_negative,
            true_negatives=self.true_negatives + right.true_negatives,
        )


def strata_of(bins: Ints, truth: Ints, flagged: npt.NDArray[np.bool_], turn_bins: Sequence[int]) -> tuple[Stratum, ...]:
    """Count the golden traces by stratum and merge small strata.

    A stratum without golden traces stays outside the instrument. Going from the right, one with fewer than 10
    traces of a class joins its left neighbour; the first, if small, its right one.

    Parameters
    ----------
    bins, truth : int arrays of shape (n_traces,)
        Stratum, and 0 or 1; traces without truth are left out before.
    flagged : bool array of shape (n_traces,)
    turn_bins : sequence of int
    """
    labels = bin_labels(turn_bins)
    cells = np.bincount(4 * bins + 2 * truth + flagged, minlength=4 * len(labels)).reshape(-1, 4).tolist()
    strata = [_counted(b, labels[b], *cell) for b, cell in enumerate(cells) if any(cell)]
    for i in range(len(strata) - 1, 0, -1):
        if strata[i].is_small:
            strata[i - 1 : i + 1] = [strata[i - 1].merged(strata[i])]
    if len(strata) > 1 and strata[0].is_small:
        strata[0:2] = [strata[0].merged(strata[1])]
    return tuple(strata)


def _counted(number: int, label: str, passed: int, flagged_wrongly: int, missed: int, hits: int) -> Stratum:
    return Stratum(
        turns=label,
        bins=(number,),
        n_positive=missed + hits,
        true_positives=hits,
        n_negative=passed + flagged_wrongly,
        true_negatives=passed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Weighted:
    """A rate of the judge, weighted to production's turn counts.

    Attributes
    ----------
    rate : float
        q = sum_k w_k c_k / n_k, apparent (at the deployed threshold), in [0, 1].
    n_effective : float
        What the weighted rate is worth in independent traces.
    """

    rate: float
    n_effective: float


def production_weights(units_by_bin: Mapping[int, int], strata: Sequence[Stratum]) -> tuple[list[float], int, int]:
    """Return each stratum's share of the units inside the strata, their number, and the number outside."""
    counts = [sum(units_by_bin.get(b, 0) for b in stratum.bins) for stratum in strata]
    inside, total = sum(counts), sum(units_by_bin.values())
    shares = [count / inside for count in counts] if inside else [0.0 for _ in counts]
    return shares, inside, total - inside


def weighted_rate(
    shares: Sequence[float],
    counts: Sequence[tuple[int, int]],
    *,
    n: int,
    n_effective: float,
) -> Weighted:
    """Weight a rate to production's turn counts (SPEC 5.2).

    q = sum w_k c_k/n_k; with s_k = (c_k + 1/2)/(n_k + 1) and q~ = sum w_k s_k it is worth
    q~(1-q~) / sum w_k^2 s_k(1-s_k)/n_k traces, at most n, times the cluster factor n_effective/n.

    Parameters
    ----------
    shares : sequence of float
        w_k, production's share of each stratum.
    counts : sequence of (int, int)
        c_k of n_k golden traces of the class judged rightly. A stratum with n_k = 0 must have w_k = 0.
    n : int
        All golden traces of the class.
    n_effective : float
        What they are worth in independent traces, clusters and t quantile included.
    """
    used = [(w, c, m) for w, (c, m) in zip(shares, counts, strict=True) if w > 0]
    rate = sum(w * c / m for w, c, m in used)
    smooth = [(w, (c + 0.5) / (m + 1), m) for w, c, m in used]
    mean = sum(w * s for w, s, _ in smooth)
    variance = sum(w * w * s * (1 - s) / m for w, s, m in smooth)
    worth = min(mean * (1 - mean) / variance, float(n))
    return Weighted(rate=min(max(rate, 0.0), 1.0), n_effective=worth * n_effective / n)
