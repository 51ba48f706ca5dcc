"""What an audit of generated text is asked to do (SPEC 17.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from core.errors import UndefinedError
from core.fairness.bands import BANDS, METRICS, Bands
from core.fairness.harm import HARM_THRESHOLD, HARM_WEIGHTS
from core.fairness.representation import (
    MAX_OUT_OF_REFERENCE,
    RATIONALE_LENGTH,
    ReferenceKind,
)
from core.fairness.scenario_bootstrap import Sampling
from core.fairness.service import CAPS
from core.fairness.taxonomy import AXIS_ALIASES, TAXONOMIES, Taxonomy, label_name
from core.fairness.text_metric import MIN_COVERAGE

FORBID_UNKNOWN_KEYS = {"extra": "forbid"}
NOISE_FLOOR = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceSpec:
    """The distribution that representation is held against.

    Attributes
    ----------
    kind : {'uniform', 'real_world', 'aspirational'}
    rationale : str
        Why this one, in at least 20 characters.
    shares : mapping of str to float or None
        Only a uniform reference can do without, and is then uniform over the taxonomy.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    kind: ReferenceKind
    rationale: str
    shares: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        _check_rationale("reference.rationale", self.rationale)
        if self.shares is None and self.kind != "uniform":
            raise UndefinedError("reference.shares", None, f"a {self.kind} reference needs its shares")


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineSpec:
    """How often groups meet contexts outside the model.

    Attributes
    ----------
    rationale : str
        Where the figures come from and why they are the baseline, in at least 20 characters.
    contexts : mapping of str to (mapping of str to float)
        Context -> group -> share in (0, 1].
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    rationale: str
    contexts: Mapping[str, Mapping[str, float]]

    def __post_init__(self) -> None:
        _check_rationale("baseline.rationale", self.rationale)
        for context, shares in self.contexts.items():
            for group, share in shares.items():
                if not 0.0 < share <= 1.0:
                    raise UndefinedError(f"baselines.{context}.{group}", share, "must lie in (0, 1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputsSpec:
    """An audit of generated text.

    Attributes
    ----------
    kind : {'outputs'}
    name : str
    target : str or None
        The model, as ``name@version``.
    axes : tuple of str
        Axes for which the table has labels (columns ``group_<axis>``).
    taxonomies : mapping of str to Taxonomy
        For axes that are not built in, or are to be read differently.
    reference_distribution : ReferenceSpec or None
        For axes without an entry in ``references``. An axis without any has no RSI.
    references : mapping of str to ReferenceSpec
        By axis.
    baselines : mapping of str to BaselineSpec
        By axis; an axis without one has no SAR.
    rows : {'base', 'all'}
        Outputs that RSI, ODE and SAR look at: those to neutral prompts, or all. A prompt that names a group says
        nothing about whom the model has by default.
    min_coverage, max_out_of_reference : float in [0, 1]
    harm_weights : mapping of str to float in (0, 1]
    harm_threshold : float in (0, 1]
    caps : mapping of str to float
        Of DSI's components.
    bands : mapping of str to Bands
        By metric.
    noise_floor : float, at least 0
        Difference between two releases that is not called a change, whatever its p-value.
    confidence_level : float in (0, 1)
    resamples : int in [100, 100000]
    seed : int
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    kind: Literal["outputs"] = "outputs"
    name: str = "outputs"
    target: str | None = None
    axes: tuple[str, ...] = ("gender",)
    taxonomies: Mapping[str, Taxonomy] = field(default_factory=dict)
    reference_distribution: ReferenceSpec | None = None
    references: Mapping[str, ReferenceSpec] = field(default_factory=dict)
    baselines: Mapping[str, BaselineSpec] = field(default_factory=dict)
    rows: Literal["base", "all"] = "base"
    min_coverage: float = MIN_COVERAGE
    max_out_of_reference: float = MAX_OUT_OF_REFERENCE
    harm_weights: Mapping[str, float] = field(default_factory=lambda: dict(HARM_WEIGHTS))
    harm_threshold: float = HARM_THRESHOLD
    caps: Mapping[str, float] = field(default_factory=lambda: dict(CAPS))
    bands: Mapping[str, Bands] = field(default_factory=lambda: dict(BANDS))
    noise_floor: float = NOISE_FLOOR
    confidence_level: float = 0.95
    resamples: int = 2000
    seed: int = 20261129

    def __post_init__(self) -> None:
        axes = tuple(_axis(axis, self.taxonomies) for axis in self.axes)
        if not axes or len(set(axes)) < len(axes):
            raise UndefinedError("axes", list(self.axes), "needs at least one axis, each once")
        object.__setattr__(self, "axes", tuple(sorted(axes)))
        for name in ("references", "baselines"):
            named = {_axis(axis, self.taxonomies): value for axis, value in getattr(self, name).items()}
            if idle := sorted(set(named) - set(axes)):
                raise UndefinedError(name, idle, f"are for axes that are not audited: {', '.join(axes)}")
            object.__setattr__(self, name, named)
        for name in ("min_coverage", "max_out_of_reference"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise UndefinedError(name, getattr(self, name), "must lie in [0, 1]")
        if set(self.bands) != set(METRICS):
            raise UndefinedError("bands", sorted(self.bands), f"needs those of each metric: {', '.join(METRICS)}")
        if not 0.0 <= self.noise_floor < float("inf"):
            raise UndefinedError("noise_floor", self.noise_floor, "must be at least 0 and finite")
        self.sampling()

    def sampling(self) -> Sampling:
        """How the intervals are made."""
        return Sampling(confidence_level=self.confidence_level, resamples=self.resamples, seed=self.seed)

    def taxonomy(self, axis: str) -> Taxonomy:
        """Taxonomy of an audited axis."""
        return self.taxonomies[axis] if axis in self.taxonomies else TAXONOMIES[axis]

    def reference(self, axis: str) -> ReferenceSpec | None:
        """Reference of an audited axis."""
        return self.references.get(axis, self.reference_distribution)


def _axis(name: str, taxonomies: Mapping[str, Taxonomy]) -> str:
    if name in taxonomies:
        return name
    axis = AXIS_ALIASES.get(label_name(name), label_name(name))
    if axis not in TAXONOMIES and axis not in taxonomies:
        known = ", ".join([*TAXONOMIES, *taxonomies])
        raise UndefinedError("axes", name, f"has no taxonomy; there are {known}")
    return axis


def _check_rationale(name: str, text: str) -> None:
    if len(text.strip()) < RATIONALE_LENGTH:
        raise UndefinedError(name, text, f"is a choice: say why in at least {RATIONALE_LENGTH} characters")
