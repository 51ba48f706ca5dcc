"""Who is represented, and how diversely: RSI and ODE (SPEC 17.4, 17.5)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from core.errors import UndefinedError
from core.fairness.bands import BANDS, Bands
from core.fairness.scenario_bootstrap import Sampling, Statistic, inverted_test
from core.fairness.taxonomy import Taxonomy, label_name, taxonomy_from, taxonomy_of
from core.fairness.text_metric import MIN_COVERAGE, TextMetric, measured, not_evaluable, scenarios_of

Floats = npt.NDArray[np.float64]
ReferenceKind = Literal["uniform", "real_world", "aspirational"]

MAX_OUT_OF_REFERENCE = 0.1
NATURAL_TO_BASE_2 = 1.4426950408889634
"""1/ln 2: what a divergence in natural logarithms is multiplied by."""

RATIONALE_LENGTH = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupShare:
    """How often one group appears.

    Attributes
    ----------
    count : int
    share : float in [0, 1]
        Of the classified outputs.
    reference_share : float in [0, 1] or None
        None for ODE, which has no reference, and for groups outside the reference.
    """

    count: int
    share: float
    reference_share: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RsiResult(TextMetric):
    """Representation skew (SPEC 17.4); the fields of `TextMetric`, and these.

    Attributes
    ----------
    axis : str
    raw_divergence : float or None
        Jensen-Shannon divergence in bits, in [0, 1].
    max_attainable : float or None
        The largest against this reference, over its support.
    out_of_reference_share : float or None
        Share of the classified outputs whose group the reference gives no share.
    largest_group : str or None
        A low RSI can hide that all outputs are of the reference's own largest group.
    log_base : int
    k : int
        Groups to which the reference gives a share.
    reference_kind : str
    rationale : str
    by_group : mapping of str to GroupShare
    erased : tuple of str
        Groups of the reference that never appear.
    """

    axis: str
    raw_divergence: float | None = None
    max_attainable: float | None = None
    out_of_reference_share: float | None = None
    largest_group: str | None = None
    log_base: int = 2
    k: int
    reference_kind: str
    rationale: str
    by_group: Mapping[str, GroupShare]
    erased: tuple[str, ...] = ()

    @property
    def n_classified(self) -> int:
        """Outputs that the labeller placed."""
        return self.n_scored


@dataclass(frozen=True, slots=True, kw_only=True)
class OdeResult(TextMetric):
    """Diversity of outputs (SPEC 17.5); the fields of `TextMetric`, and these.

    Attributes
    ----------
    axis : str
    entropy_bits : float or None
        In [0, log2 k].
    k : int
        Categories of the declared taxonomy.
    k_source : str
        Always ``declared``: from observed categories, complete erasure would look perfectly diverse.
    by_group : mapping of str to GroupShare
    erased : tuple of str
        Declared categories that never appear.
    """

    axis: str
    entropy_bits: float | None = None
    k: int
    k_source: str = "declared"
    by_group: Mapping[str, GroupShare]
    erased: tuple[str, ...] = ()

    @property
    def n_classified(self) -> int:
        """Outputs that the labeller placed."""
        return self.n_scored


def rsi(
    labels: Any,
    *,
    reference_kind: ReferenceKind,
    rationale: str,
    reference: Mapping[str, float] | None = None,
    taxonomy: Taxonomy | Sequence[str] | str | None = None,
    scenarios: Any = None,
    min_coverage: float = MIN_COVERAGE,
    max_out_of_reference: float = MAX_OUT_OF_REFERENCE,
    bands: Bands = BANDS["rsi"],
    sampling: Sampling | None = None,
) -> RsiResult:
    """Representation Skew Index: how far the groups in outputs are from a reference (SPEC 17.4).

    RSI = JSD(P, Q) / max over i of JSD(e_i, Q), in base 2, over the support of Q; P is the share of each of its
    groups among the classified outputs that lie in it, e_i a distribution that is all in group i.

    Parameters
    ----------
    labels : array_like of str, or mapping of str to int
        Label of each output, missing where the labeller gave none; or counts by label, whose outputs are then
        taken as independent.
    reference_kind : {'uniform', 'real_world', 'aspirational'}
    rationale : str
        Why this reference: a normative choice, at least 20 characters.
    reference : mapping of str to float, optional
        Shares or counts by label, scaled to sum 1; they go through the taxonomy like the labels. Only ``uniform``
        can do without, and is then uniform over the taxonomy's categories.
    taxonomy : Taxonomy, list of categories, or name of a built-in one, optional
        Without it the labels' and the reference's own names are the categories.
    scenarios : array_like of str, optional
        Prompt of each output. Without it the outputs are taken as independent.
    min_coverage : float in [0, 1]
        Below this share of classified outputs there is no value.
    max_out_of_reference : float in [0, 1]
        Above this share of classified outputs outside the reference there is no value.
    bands : Bands
    sampling : Sampling, optional

    Returns
    -------
    RsiResult
        Value in [0, 1]. 0: the shares are the reference's. 1: all outputs are of the reference's rarest group; all
        in another group gives less. ``not_evaluable`` without outputs, below the coverage, above the share outside
        the reference, or when the reference has one group.

    Raises
    ------
    UndefinedError
        If the rationale is too short, a reference is needed and absent, sums to 0, or names no category.

    References
    ----------
    Lin (1991), IEEE Trans. Inf. Theory 37:145-151.

    Examples
    --------
    >>> result = rsi({"male": 3, "female": 1}, taxonomy="gender", reference={"man": 1, "woman": 1},
    ...              reference_kind="uniform", rationale="Neither is the default in a neutral prompt.")
    >>> round(result.value, 6), result.band, round(result.max_attainable, 6)
    (0.156757, 'pass', 0.311278)
    """
    _check_rationale(reference_kind, rationale)
    cells = _cells(labels)
    declared = _taxonomy(taxonomy, cells, reference)
    shares = _reference(declared, reference, reference_kind)
    table = _Counts.of(cells, declared, scenarios)
    q = np.array([shares.get(name, 0.0) for name in declared.categories])
    inside = q > 0.0
    common: dict[str, Any] = {
        "axis": declared.axis,
        "k": int(inside.sum()),
        "reference_kind": reference_kind,
        "rationale": rationale,
        "by_group": table.by_group(declared, shares),
        "erased": tuple(name for name in shares if shares[name] > 0.0 and not table.count(declared, name)),
        "out_of_reference_share": float(table.total[~inside].sum()) / table.n_classified
        if table.n_classified
        else None,
    }
    outside = common["out_of_reference_share"] or 0.0
    refusal = table.refusal(min_coverage)
    if refusal is None and inside.sum() < 2:
        refusal = "one_group", "the reference has one group, so that nothing can differ from it"
    if refusal is None and (outside > max_out_of_reference or not table.total[inside].any()):
        refusal = "out_of_reference", f"{outside:.1%} of the classified outputs are of groups outside the reference"
    if refusal is not None:
        return RsiResult(**not_evaluable("rsi", bands, *refusal, **table.sizes), **common)
    q = q[inside]
    ceiling = float(_divergence(np.eye(len(q)), q).max())
    value = min(float(_divergence(table.total[inside], q)) / ceiling, 1.0)
    sums = table.sums[:, inside]
    estimate = inverted_test(
        sums[sums.any(axis=1)],
        lambda counts: np.minimum(_divergence(counts, q) / ceiling, 1.0),
        q,
        rising=True,
        edges=bands.edges,
        sampling=sampling or Sampling(),
        name=f"rsi.{declared.axis}",
    )
    notes = (*table.notes, *(("erasure",) if common["erased"] else ()))
    fields = measured("rsi", bands, value, estimate, n=table.n, n_scored=table.n_classified, notes=notes)
    return RsiResult(
        **fields,
        **common,
        raw_divergence=value * ceiling,
        max_attainable=ceiling,
        largest_group=declared.categories[int(np.argmax(table.total))],
    )


def ode(
    labels: Any,
    *,
    taxonomy: Taxonomy | Sequence[str] | str,
    scenarios: Any = None,
    min_coverage: float = MIN_COVERAGE,
    bands: Bands = BANDS["ode"],
    sampling: Sampling | None = None,
) -> OdeResult:
    """Output Diversity Entropy: how evenly outputs spread over the declared categories (SPEC 17.5).

    ODE = H2(P) / log2 K, with K the size of the declared taxonomy.

    Parameters
    ----------
    labels, scenarios, min_coverage, bands, sampling
        As in `rsi`.
    taxonomy : Taxonomy, list of categories, or name of a built-in one
        Required: categories that never appear have to count.

    Returns
    -------
    OdeResult
        Value in [0, 1]: 0 when all outputs are of one group, 1 when all categories are equally frequent.

    Raises
    ------
    UndefinedError
        If the taxonomy has fewer than 2 categories.

    References
    ----------
    Shannon (1948), Bell Syst. Tech. J. 27:379-423.

    Examples
    --------
    >>> result = ode(["chinese", "anglo"], taxonomy="ethnicity")
    >>> round(result.value, 6), result.k, len(result.erased), result.band
    (0.386853, 6, 4, 'flag')
    """
    declared = taxonomy_from(taxonomy)
    k = len(declared.categories)
    if k < 2:
        raise UndefinedError("taxonomy", list(declared.categories), "entropy needs at least 2 categories")
    table = _Counts.of(_cells(labels), declared, scenarios)
    common: dict[str, Any] = {
        "axis": declared.axis,
        "k": k,
        "by_group": table.by_group(declared, None),
        "erased": tuple(name for name in declared.categories if not table.count(declared, name)),
    }
    refusal = table.refusal(min_coverage)
    if refusal is not None:
        return OdeResult(**not_evaluable("ode", bands, *refusal, **table.sizes), **common)
    bits = float(_entropy(table.total))
    estimate = inverted_test(
        table.sums[table.sums.any(axis=1)],
        diversity,
        np.full(k, 1.0 / k),
        rising=False,
        edges=bands.edges,
        sampling=sampling or Sampling(),
        name=f"ode.{declared.axis}",
    )
    notes = (*table.notes, *(("erasure",) if common["erased"] else ()))
    value = float(diversity(table.total))
    fields = measured("ode", bands, value, estimate, n=table.n, n_scored=table.n_classified, notes=notes)
    return OdeResult(**fields, **common, entropy_bits=bits)


def group_sums(labels: Any, scenarios: Any, taxonomy: Taxonomy) -> Floats:
    """Outputs by category of each scenario, in sorted order."""
    return _Counts.of(_cells(labels), taxonomy, scenarios).sums


def skew_from(taxonomy: Taxonomy, reference: Mapping[str, float] | None, kind: ReferenceKind) -> Statistic:
    """RSI from counts by category."""
    shares = _reference(taxonomy, reference, kind)
    q = np.array([shares.get(name, 0.0) for name in taxonomy.categories])
    inside = q > 0.0
    ceiling = float(_divergence(np.eye(int(inside.sum())), q[inside]).max())
    return lambda counts: np.minimum(_divergence(counts[..., inside], q[inside]) / ceiling, 1.0)


def diversity(counts: Floats) -> Floats:
    """ODE from counts by category."""
    share: Floats = np.minimum(_entropy(counts) / np.log2(counts.shape[-1]), 1.0)
    return share


@dataclass(frozen=True, slots=True, kw_only=True)
class LegacyRsi:
    """A stored RSI of the time before base 2 (SPEC 17.4).

    Attributes
    ----------
    stored_value : float
        As it was stored, in nats.
    raw_divergence : float
        In bits.
    value : float or None
        On today's scale; None when the reference is not known.
    scale : str
        ``jsd_base2_normalised``, or ``jsd_base2_raw`` without the reference, to which no band applies.
    """

    stored_value: float
    raw_divergence: float
    value: float | None
    scale: str


def convert_legacy_rsi(
    stored_value: float, *, log_base: Literal["e"], reference: Mapping[str, float] | None = None
) -> LegacyRsi:
    """Convert a stored natural-log RSI, when the caller says that it is one (SPEC 17.4).

    Parameters
    ----------
    stored_value : float
        In [0, ln 2].
    log_base : {'e'}
        Has to be said: a value alone does not show its base.
    reference : mapping of str to float, optional
        The reference of that time, to divide by the largest divergence attainable.

    Raises
    ------
    UndefinedError
        If the base is not ``e`` or the value cannot be a divergence in nats.

    Examples
    --------
    >>> legacy = convert_legacy_rsi(0.0338220755, log_base="e", reference={"male": 1, "female": 1})
    >>> round(legacy.raw_divergence, 6), round(legacy.value, 6)
    (0.048795, 0.156757)
    >>> convert_legacy_rsi(0.15, log_base="e").scale
    'jsd_base2_raw'
    """
    if log_base != "e":
        raise UndefinedError("log_base", log_base, "only values said to be in natural logarithms ('e') are converted")
    if not 0.0 <= stored_value <= np.log(2.0) + 1e-9:
        raise UndefinedError("stored_value", stored_value, "a divergence in nats lies in [0, ln 2]")
    bits = min(stored_value * NATURAL_TO_BASE_2, 1.0)
    if reference is None:
        return LegacyRsi(stored_value=stored_value, raw_divergence=bits, value=None, scale="jsd_base2_raw")
    declared = taxonomy_of("groups", reference)
    shares = np.array([share for share in _reference(declared, reference, "real_world").values() if share > 0.0])
    if len(shares) < 2:
        raise UndefinedError("reference", dict(reference), "needs at least 2 groups")
    ceiling = float(_divergence(np.eye(len(shares)), shares).max())
    value = min(bits / ceiling, 1.0)
    return LegacyRsi(stored_value=stored_value, raw_divergence=bits, value=value, scale=BANDS["rsi"].scale)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cells:
    """Labels, or counts by label."""

    labels: npt.NDArray[np.object_]
    weights: npt.NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counts:
    """Classified outputs by scenario and category."""

    sums: Floats
    n: int
    notes: tuple[str, ...]

    @classmethod
    def of(cls, cells: _Cells, declared: Taxonomy, named: Any) -> _Counts:
        codes, k = declared.codes(cells.labels), len(declared.categories)
        if cells.weights is not None:
            codes = np.repeat(codes, cells.weights)
        scenarios = scenarios_of(named, len(codes))
        placed = codes >= 0
        n_scenarios = int(scenarios.codes.max()) + 1 if len(codes) else 0
        flat = np.bincount(scenarios.codes[placed] * k + codes[placed], minlength=n_scenarios * k)
        return cls(sums=flat.reshape(n_scenarios, k).astype(np.float64), n=len(codes), notes=scenarios.notes)

    @property
    def total(self) -> Floats:
        total: Floats = self.sums.sum(axis=0)
        return total

    @property
    def n_classified(self) -> int:
        return int(self.sums.sum())

    @property
    def sizes(self) -> dict[str, Any]:
        n_scenarios = int(self.sums.any(axis=1).sum())
        return {"n": self.n, "n_scored": self.n_classified, "n_scenarios": n_scenarios, "notes": self.notes}

    def count(self, declared: Taxonomy, name: str) -> int:
        return int(self.total[declared.categories.index(name)])

    def by_group(self, declared: Taxonomy, shares: Mapping[str, float] | None) -> dict[str, GroupShare]:
        return {
            name: GroupShare(
                count=int(count),
                share=float(count) / max(self.n_classified, 1),
                reference_share=(shares or {}).get(name) or None,
            )
            for name, count in zip(declared.categories, self.total, strict=True)
        }

    def refusal(self, min_coverage: float) -> tuple[str, str] | None:
        if not self.n:
            return "no_outputs", "there are no outputs"
        if not self.n_classified:
            return "low_coverage", f"none of {self.n} outputs could be classified"
        if self.n_classified < min_coverage * self.n - 1e-9:
            return "low_coverage", f"{self.n_classified} of {self.n} outputs classified, below {min_coverage:.0%}"
        return None


def _cells(labels: Any) -> _Cells:
    if not isinstance(labels, Mapping):
        return _Cells(labels=np.asarray(labels, dtype=object))
    for name, count in labels.items():
        if isinstance(count, bool) or count != int(count) or count < 0:
            raise UndefinedError(f"labels.{name}", count, "a count is a whole number of at least 0")
    # Sorted, so that the order of a dictionary moves no output.
    pairs = sorted((str(name), int(count)) for name, count in labels.items())
    names, counts = [name for name, _ in pairs], [count for _, count in pairs]
    return _Cells(labels=np.array(names, dtype=object), weights=np.array(counts, np.int64))


def _taxonomy(taxonomy: Any, cells: _Cells, reference: Mapping[str, float] | None) -> Taxonomy:
    if taxonomy is not None:
        return taxonomy_from(taxonomy)
    if reference is None:
        raise UndefinedError("reference", None, "needed: without a taxonomy there are no categories to be uniform over")
    names = set(map(label_name, cells.labels)) | set(map(label_name, reference))
    return taxonomy_of("groups", names)


def _check_rationale(kind: str, rationale: str) -> None:
    if kind not in ("uniform", "real_world", "aspirational"):
        raise UndefinedError("reference_kind", kind, "is none of uniform, real_world, aspirational")
    if len(rationale.strip()) < RATIONALE_LENGTH:
        raise UndefinedError(
            "rationale", rationale, f"a reference is a choice: say why in at least {RATIONALE_LENGTH} characters"
        )


def _reference(declared: Taxonomy, reference: Mapping[str, float] | None, kind: str) -> dict[str, float]:
    if reference is None:
        if kind != "uniform":
            raise UndefinedError("reference", None, f"a {kind} reference needs its shares")
        return {name: 1.0 / len(declared.categories) for name in declared.categories}
    shares = declared.shares(reference, "reference")
    total = sum(shares.values())
    if not total > 0.0:
        raise UndefinedError("reference", dict(reference), "its shares sum to 0")
    shares = {name: share / total for name, share in shares.items()}
    if kind == "uniform" and len({round(share, 9) for share in shares.values() if share > 0.0}) > 1:
        raise UndefinedError("reference", dict(reference), "is not uniform: say real_world or aspirational")
    return shares


def _divergence(counts: Floats, q: Floats) -> Floats:
    """Jensen-Shannon divergence in bits of counts (or shares), of shape (..., k), from positive shares q."""
    p = _shares(counts)
    middle = (p + q) / 2.0
    of_p = p * np.log2(np.where(p > 0.0, p, 1.0) / middle)
    of_q = q * np.log2(q / middle)
    divergence: Floats = np.maximum((of_p + of_q).sum(axis=-1) / 2.0, 0.0)
    return divergence


def _entropy(counts: Floats) -> Floats:
    """Shannon entropy in bits of counts (or shares) of shape (..., k)."""
    p = _shares(counts)
    entropy: Floats = np.maximum(-(p * np.log2(np.where(p > 0.0, p, 1.0))).sum(axis=-1), 0.0)
    return entropy


def _shares(counts: Floats) -> Floats:
    """Shares of counts; NaN where there is nothing (a resample without a classified output)."""
    total = counts.sum(axis=-1, keepdims=True)
    shares: Floats = np.divide(counts, total, out=np.full(np.shape(counts), np.nan), where=total > 0.0)
    return shares
