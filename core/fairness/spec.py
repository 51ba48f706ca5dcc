"""What an audit of predictions is asked for: the frozen spec of its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from core.errors import UndefinedError

FORBID_UNKNOWN_KEYS = {"extra": "forbid"}

MIN_GROUP = 100
"""Rows that a group needs to be compared (seed 004: at least 100 a group)."""

Family = Literal["holm", "benjamini_hochberg", "none"]
Outcome = Literal["positive", "correct"]
Positive = str | int | bool
"""A value as it stands in a column: a positive outcome, or a group."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Positives:
    """Which value of each outcome column is the positive one; it is declared, never guessed.

    Attributes
    ----------
    y_pred : str, int or bool
    y_true : str, int, bool or None
        None: the same as `y_pred`.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    y_pred: Positive
    y_true: Positive | None = None

    @property
    def truth(self) -> Positive:
        """Positive value of ``y_true``."""
        return self.y_pred if self.y_true is None else self.y_true


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnNames:
    """Names of the columns of a table of predictions; ``y_true``, ``score`` and ``cluster`` need not be there."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    y_pred: str = "y_pred"
    y_true: str = "y_true"
    score: str = "score"
    cluster: str = "cluster"

    @property
    def all(self) -> tuple[str, ...]:
        """All four names."""
        return (self.y_pred, self.y_true, self.score, self.cluster)


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditSpec:
    """An audit of predictions.

    Attributes
    ----------
    groups : tuple of str
        Columns of protected attributes, at least one.
    positive : Positives
    name : str
    kind : {'predictions'}
    intersections : bool
        Whether the cells of all columns together are audited beside each column.
    reference : mapping of str to label, or {'largest', 'best'}
        Group that the others are compared with: by column (``race: Caucasian``; columns not named take the largest),
        the largest group, or per rate the best one. An intersection's reference is the cell of its columns'
        references if they are all named, else the largest cell.
    family : {'holm', 'benjamini_hochberg', 'none'}
        How p-values are adjusted over all comparisons of the audit.
    min_group : int
        Rows under which a group is listed but not compared.
    missing : {'group', 'exclude'}
        Rows with a missing attribute are a group of their own, or are left out of that attribute's groups and counted.
    bins : int
        Equal bins of [0, 1] in which reliability is looked at.
    score_means : {'positive', 'correct'}
        What the score is the probability of: that the truth is positive, or that the prediction is correct.
    columns : ColumnNames
    confidence_level : float in (0, 1)
    source : str or None
        Where the data set comes from; an audit without it says so.
    seed : int
        Of the permutations that small cells need.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    groups: tuple[str, ...]
    positive: Positives
    name: str = "audit"
    kind: Literal["predictions"] = "predictions"
    intersections: bool = True
    reference: Mapping[str, Positive] | Literal["largest", "best"] = "largest"
    family: Family = "holm"
    min_group: int = MIN_GROUP
    missing: Literal["group", "exclude"] = "group"
    bins: int = 10
    score_means: Outcome = "positive"
    columns: ColumnNames = field(default_factory=ColumnNames)
    confidence_level: float = 0.95
    source: str | None = None
    seed: int = 20261129

    def __post_init__(self) -> None:
        if not self.groups or len(set(self.groups)) < len(self.groups):
            raise UndefinedError("groups", list(self.groups), "name at least one column, each once")
        if taken := set(self.groups) & set(self.columns.all):
            raise UndefinedError("groups", sorted(taken), "a column is a group or an outcome, not both")
        if len(set(self.columns.all)) < len(self.columns.all):
            raise UndefinedError("columns", list(self.columns.all), "each needs a column of its own")
        if not isinstance(self.reference, str) and (unknown := set(self.reference) - set(self.groups)):
            raise UndefinedError("reference", sorted(unknown), f"its keys are among the groups: {list(self.groups)}")
        if self.min_group < 1:
            raise UndefinedError("min_group", self.min_group, "must be at least 1")
        if not 1 <= self.bins <= 1_000:
            raise UndefinedError("bins", self.bins, "must lie in [1, 1000]")
        if not 0.0 < self.confidence_level < 1.0:
            raise UndefinedError("confidence_level", self.confidence_level, "must lie between 0 and 1")
        if self.seed < 0:
            raise UndefinedError("seed", self.seed, "must not be negative")
