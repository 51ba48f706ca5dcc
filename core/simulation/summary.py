"""The cells of a simulation in a few figures: how each interval did over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from core.simulation.simulated import Cell, Coverage, MethodSummary, Simulation, is_sufficient


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


def summarised(
    stage: int,
    method: str,
    confidence_level: float,
    coverages: Mapping[str, Sequence[Coverage]],
    categories: Mapping[str, Sequence[Coverage]] | None = None,
    *,
    cells: Sequence[Cell],
    replications: int,
    notes: Sequence[str],
) -> Simulation:
    """Put cells and what they come to together.

    Parameters
    ----------
    stage : int
    method : str
        The interval whose worst cell is the simulation's figure.
    confidence_level : float in (0, 1)
    coverages : mapping
        How each interval did in every cell that has it.
    categories : mapping, optional
        How the interval `method` did for each category.
    cells, replications, notes
        As the record holds them.
    """
    worst = lowest(coverages[method])
    methods = {name: summary_of(found, confidence_level) for name, found in coverages.items()}
    return Simulation(
        stage=stage,
        method=method,
        confidence_level=confidence_level,
        coverage=worst.coverage,
        mc_error=worst.mc_error,
        mean_coverage=methods[method].mean,
        sufficient=is_sufficient(worst.coverage, confidence_level, worst.mc_error),
        n_cells=len(coverages[method]),
        replications=replications,
        methods=methods,
        categories={name: lowest(found) for name, found in (categories or {}).items()},
        cells=tuple(cells),
        notes=tuple(notes),
    )
