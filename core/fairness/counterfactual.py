"""What is assumed when nothing is said: CDS (SPEC 17.6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from core.errors import UndefinedError
from core.fairness.bands import BANDS, Bands
from core.fairness.scenario_bootstrap import BootstrapInterval, Sampling, bca
from core.fairness.text_metric import (
    BASE,
    SHOWN_WORST,
    Bools,
    Floats,
    Ints,
    Scenarios,
    TextMetric,
    flags,
    measured,
    not_evaluable,
    scenarios_of,
    sorted_codes,
    variant_names,
)

LARGEST = 2.0
"""Cosine distance of opposite vectors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantDistance:
    """Distance of one variant from its base prompts: mean over the scenarios that have both."""

    value: float
    n_scenarios: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PairDistance:
    """Distance of one variant from the base prompt in one scenario."""

    scenario: str
    variant: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CdsResult(TextMetric):
    """Divergence of counterfactual outputs (SPEC 17.6); the fields of `TextMetric`, and these.

    Attributes
    ----------
    noise_floor : float or None
        Mean distance between replicates of one base prompt, in [0, 2]; None when no prompt has two. Chance alone
        moves outputs that far.
    excess : float or None
        CDS less the noise floor; may be negative.
    excess_interval : BootstrapInterval or None
    by_variant : mapping of str to VariantDistance
    n_pairs : int
        (scenario, variant) pairs compared.
    worst : tuple of PairDistance
        Up to five, from the largest.
    """

    noise_floor: float | None = None
    excess: float | None = None
    excess_interval: BootstrapInterval | None = None
    by_variant: Mapping[str, VariantDistance]
    n_pairs: int = 0
    worst: tuple[PairDistance, ...] = ()


def cds(
    embeddings: Any,
    *,
    scenarios: Any,
    variants: Any,
    axes: Any = None,
    refused: Any = None,
    bands: Bands = BANDS["cds"],
    sampling: Sampling | None = None,
) -> CdsResult:
    """Counterfactual Divergence Score: how far outputs move when an attribute is named (SPEC 17.6).

    Per scenario and variant the mean of 1 - cos over all pairs of a base and a counterfactual replicate; per
    scenario the mean over its variants; CDS is the mean over scenarios.

    Parameters
    ----------
    embeddings : array_like of float, shape (n, d), or sequence of (sequence of float or None)
        None or a zero vector: the output is unscored.
    scenarios, variants : array_like of str, shape (n,)
        An empty variant, or ``base``, is the neutral prompt.
    axes : array_like of str, shape (n,), optional
        Which attribute the variant swaps; variants are then named ``axis=variant``.
    refused : array_like of 0, 1 or missing, optional
        If all outputs are refusals their likeness is no virtue, and there is no value.
    bands : Bands
    sampling : Sampling, optional

    Returns
    -------
    CdsResult
        Value in [0, 2]. ``not_evaluable`` when no scenario has a base and a counterfactual output with an embedding.

    Raises
    ------
    UndefinedError
        If lengths differ, embeddings are of several sizes, or one is not finite.

    Examples
    --------
    >>> result = cds([[1, 0], [0.8, 0.6], [0, 1], [0.6, 0.8]], scenarios=["s"] * 4,
    ...              variants=["base", "base", "female", "female"])
    >>> round(result.value, 3), round(result.noise_floor, 3), round(result.excess, 3)
    (0.46, 0.2, 0.26)
    """
    unit, usable = _unit_vectors(embeddings)
    n = len(unit)
    named = scenarios_of(scenarios, n)
    groups, group_names = sorted_codes(variant_names(variants, axes))
    if len(groups) != n:
        raise UndefinedError("variants", len(groups), f"needs one for each of {n} outputs")
    refusals, known = flags(refused, n, "refused")
    sizes: dict[str, Any] = {
        "n": n, "n_scored": int(usable.sum()), "n_scenarios": len(np.unique(named.codes[usable])),
    }  # fmt: skip
    if n and (refusals & known).all():
        text = "every output is a refusal, and refusals are alike"
        return CdsResult(**not_evaluable("cds", bands, "all_refused", text, **sizes), by_variant={})
    pairs = _Pairs.of(
        unit[usable], named.codes[usable], groups[usable], group_names, int(named.codes.max(initial=-1)) + 1
    )
    if not len(pairs.distance):
        reason = ("no_outputs", "there are no outputs") if not n else ("unscored", "no output has an embedding")
        if usable.any():
            reason = "no_counterfactual", "no scenario has a base and a counterfactual output with embeddings"
        return CdsResult(**not_evaluable("cds", bands, *reason, **sizes), by_variant={})
    return _result(pairs, named, sizes, bands, sampling or Sampling())


def distance_sums(embeddings: Any, scenarios: Any, variants: Any, axes: Any) -> Floats:
    """Distance, whether there is one, noise floor, whether there is one: of each scenario, in sorted order."""
    unit, usable = _unit_vectors(embeddings)
    named = scenarios_of(scenarios, len(unit))
    groups, names = sorted_codes(variant_names(variants, axes))
    return _Pairs.of(unit[usable], named.codes[usable], groups[usable], names, len(named.names)).scenario_sums()


def _result(pairs: _Pairs, named: Scenarios, sizes: dict[str, Any], bands: Bands, sampling: Sampling) -> CdsResult:
    sums = pairs.scenario_sums()
    value = float(mean_distance(sums.sum(axis=0)))
    sums = sums[sums.any(axis=1)]
    scored = sums[sums[:, 1] > 0.0]
    options: dict[str, Any] = {"sampling": sampling, "rare": True}
    estimate = bca(scored, mean_distance, edges=bands.edges, bounds=(0.0, LARGEST), name="cds", **options)
    floor = excess = interval = None
    notes: tuple[str, ...] = ("no_noise_floor",)
    if sums[:, 3].any():
        floor = float(sums[:, 2].sum() / sums[:, 3].sum())
        excess, notes = value - floor, ()
        over = bca(sums, _mean_excess, edges=(), bounds=(-LARGEST, LARGEST), name="cds.excess", **options)
        interval = over.interval
    fields = measured("cds", bands, value, estimate, n=sizes["n"], n_scored=sizes["n_scored"], notes=notes)
    return CdsResult(
        **fields,
        noise_floor=floor,
        excess=excess,
        excess_interval=interval,
        by_variant=pairs.by_variant(),
        n_pairs=len(pairs.distance),
        worst=pairs.worst(named),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pairs:
    """Mean distance of each (scenario, variant) pair, and of the base replicates from each other."""

    scenario: Ints
    variant: Ints
    distance: Floats
    floor_scenario: Ints
    floor: Floats
    n_scenarios: int
    names: list[str]

    @classmethod
    def of(cls, unit: Floats, scenario: Ints, group: Ints, names: list[str], n_scenarios: int) -> _Pairs:
        base = names.index(BASE) if BASE in names else len(names)
        width = len(names) + 1
        cells, inverse, counts = np.unique(scenario * width + group, return_inverse=True, return_counts=True)
        # The mean over all pairs of unit vectors is the product of the two means: no pair is formed.
        order = np.argsort(inverse, kind="stable")
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.int64)
        totals = np.add.reduceat(unit[order], starts, axis=0) if len(unit) else unit
        cell_scenario, cell_group = cells // width, cells % width
        base_cell = np.full(n_scenarios, -1, np.int64)
        is_base = cell_group == base
        base_cell[cell_scenario[is_base]] = np.flatnonzero(is_base)
        pair = np.flatnonzero(~is_base & (base_cell[cell_scenario] >= 0))
        partner = base_cell[cell_scenario[pair]]
        cosine = (totals[pair] * totals[partner]).sum(axis=1) / (counts[pair] * counts[partner])
        several = np.flatnonzero(is_base & (counts > 1))
        k = counts[several]
        alike = ((totals[several] ** 2).sum(axis=1) - k) / (k * (k - 1.0))
        return cls(
            scenario=cell_scenario[pair],
            variant=cell_group[pair],
            distance=_distance(cosine),
            floor_scenario=cell_scenario[several],
            floor=_distance(alike),
            n_scenarios=n_scenarios,
            names=names,
        )

    def scenario_sums(self) -> Floats:
        """Per scenario: its distance and 1, its noise floor and 1; 0 where it has none."""
        size = self.n_scenarios
        counts = np.bincount(self.scenario, minlength=size)
        sums = np.zeros((size, 4))
        sums[:, 1] = counts > 0
        sums[:, 0] = np.bincount(self.scenario, self.distance, size) / np.maximum(counts, 1)
        sums[self.floor_scenario, 2] = self.floor
        sums[self.floor_scenario, 3] = 1.0
        return sums

    def by_variant(self) -> dict[str, VariantDistance]:
        counts = np.bincount(self.variant, minlength=len(self.names))
        totals = np.bincount(self.variant, self.distance, len(self.names))
        return {
            name: VariantDistance(value=float(total / count), n_scenarios=int(count))
            for name, total, count in zip(self.names, totals, counts, strict=True)
            if count
        }

    def worst(self, named: Scenarios) -> tuple[PairDistance, ...]:
        order = np.lexsort((self.variant, self.scenario, -self.distance.round(12)))[:SHOWN_WORST]
        return tuple(
            PairDistance(
                scenario=named.names[self.scenario[i]],
                variant=self.names[self.variant[i]],
                value=float(self.distance[i]),
            )
            for i in order
        )


def _distance(cosine: Floats) -> Floats:
    # Rounding leaves 1e-16 between equal vectors, which is no distance.
    return np.clip(np.round(1.0 - cosine, 14), 0.0, LARGEST)


def mean_distance(sums: Floats) -> Floats:
    """CDS from sums over scenarios."""
    return _ratio(sums[..., 0], sums[..., 1])


def _mean_excess(sums: Floats) -> Floats:
    return _ratio(sums[..., 0], sums[..., 1]) - _ratio(sums[..., 2], sums[..., 3])


def _ratio(total: Floats, count: Floats) -> Floats:
    ratio: Floats = np.divide(total, count, out=np.full(np.shape(total), np.nan), where=count > 0.0)
    return ratio


def _unit_vectors(embeddings: Any) -> tuple[Floats, Bools]:
    """Vectors of length 1, and which there are; zero vectors have no direction."""
    vectors = _matrix(embeddings)
    lengths: npt.NDArray[np.float64] = np.sqrt((vectors**2).sum(axis=1))
    usable = lengths > 0.0
    return vectors / np.where(usable, lengths, 1.0)[:, None], usable


def _matrix(embeddings: Any) -> Floats:
    if isinstance(embeddings, np.ndarray) and embeddings.ndim == 2 and embeddings.dtype.kind in "fiu":
        vectors = embeddings.astype(np.float64)
    else:
        vectors = _stacked(list(embeddings))
    if not np.isfinite(vectors).all():
        raise UndefinedError("embeddings", "NaN or infinity", "must be finite; a missing embedding is None")
    return _scaled(vectors)


def _scaled(vectors: Floats) -> Floats:
    """Bring lengths near 1 first: squares of very large or very small numbers have no place in a float."""
    largest = np.abs(vectors).max(axis=1, initial=0.0)
    return vectors / np.where(largest > 0.0, largest, 1.0)[:, None]


def _stacked(rows: list[Any]) -> Floats:
    given = [np.asarray(row, dtype=np.float64) for row in rows if not _missing(row)]
    lengths = {row.shape for row in given}
    if len(lengths) > 1 or any(len(shape) != 1 or not shape[0] for shape in lengths):
        raise UndefinedError("embeddings", sorted(map(str, lengths)), "all need one length, from one model")
    vectors = np.zeros((len(rows), given[0].shape[0] if given else 1))
    if given:
        vectors[[i for i, row in enumerate(rows) if not _missing(row)]] = np.stack(given)
    return vectors


def _missing(row: Any) -> bool:
    return row is None or bool(np.ndim(row) == 0 and pd.isna(row))
