"""The cells of a simulation in a few figures: how each interval did over all of them."""

from __future__ import annotations

from collections.abc import Sequence

from core.simulation.simulated import Coverage, MethodSummary, is_sufficient


def summary_of(coverages: Sequence[Coverage], confidence_level: float) -> MethodSummary:
    """Sum up one interval over the cells, which count alike; at least one cell.

    Examples
    --------
    >>> cells = [Coverage(coverage=share, mc_error=0.005, low_above=0.0, high_below=1.0 - share, mean_width=0.1,
    ...                   zero_width=0.0) for share in (0.92, 0.96)]
    >>> summary = summary_of(cells, 0.95)
    >>> round(summary.mean, 2), summary.minimum, summary.below
    (0.94, 0.92, 1)
    """
    shares = [each.coverage for each in coverages]
    widths = [each.mean_width for each in coverages if each.mean_width is not None]
    return MethodSummary(
        mean=sum(shares) / len(shares),
        minimum=min(shares),
        below=sum(not is_sufficient(share, confidence_level) for share in shares),
        mean_width=sum(widths) / len(widths) if widths else None,
        zero_width=sum(each.zero_width for each in coverages) / len(coverages),
    )


def lowest(coverages: Sequence[Coverage]) -> Coverage:
    """Return the cell with the lowest coverage; of equals the first."""
    return min(coverages, key=lambda each: each.coverage)
