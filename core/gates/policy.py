"""What a policy is: rules on the figures of records, and the exceptions that somebody answers for (SPEC 16)."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, ClassVar, Literal

from core.errors import UndefinedError
from core.gates.paths import parse_metric
from core.instrument.spec import FORBID_UNKNOWN_KEYS

Bound = Literal["point", "low", "high"]
Op = Literal["<", "<=", ">", ">="]
Severity = Literal["block", "escalate"]

KINDS = ("audit", "calibration", "comparison", "measurement", "plan", "simulation")
"""Kinds of records that a rule can be about, without the prefix ``assay.``."""

MIN_REASON = 20
"""Characters of an exception's reason."""

_RECORD_ID = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One condition on one figure, or on each of several.

    Attributes
    ----------
    rule : str
        Its name in the policy.
    metric : str
        Where the figure stands in a record's result: names joined by dots, ``*`` for each of several, names that hold
        a dot in double quotes (``groups."U.S.".ratio``).
    bound : {'point', 'low', 'high'}
        What is held against the threshold: the value itself, or an end of its interval.
    op : {'<', '<=', '>', '>='}
        What it has to be.
    threshold : float
    severity : {'block', 'escalate'}
        Whether a failure fails the gate, or passes it with ``review_required``.
    min_n : int, at least 1, or None
        Units that have to be behind the figure.
    min_coverage : float in [0, 1] or None
        Share of outputs that have to be classified.
    schema : str or None
        Kind of record that the rule is about (``measurement``, ``audit``, ...); None: each record that is given.
    scale, metric_version : str or None
        What the threshold was set for; a figure on another scale, or of another version, is not held against it.
    interval : str or None
        Which of a figure's intervals is read (``lang_reiczigel``, ``melded``, ``delta``, ``interval``); None:
        Lang-Reiczigel's where there is one, else ``interval``.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    rule: str
    metric: str
    bound: Bound
    op: Op
    threshold: float
    severity: Severity = "block"
    min_n: int | None = None
    min_coverage: float | None = None
    schema: str | None = None
    scale: str | None = None
    metric_version: str | int | None = None
    interval: str | None = None

    def __post_init__(self) -> None:
        if not self.rule.strip():
            raise UndefinedError("rule", self.rule, "a rule needs a name")
        if not math.isfinite(self.threshold):
            raise UndefinedError("threshold", self.threshold, "must be a finite number")
        if self.min_n is not None and self.min_n < 1:
            raise UndefinedError("min_n", self.min_n, "must be at least 1")
        if self.min_coverage is not None and not 0.0 <= self.min_coverage <= 1.0:
            raise UndefinedError("min_coverage", self.min_coverage, "must lie in [0, 1]")
        parse_metric(self.metric)
        if self.schema is not None:
            kind = kind_of(self.schema)
            if kind not in KINDS:
                raise UndefinedError("schema", self.schema, f"is none of {', '.join(KINDS)}")
            object.__setattr__(self, "schema", kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleException:
    """Somebody's word that one record may break one rule, for a while.

    Attributes
    ----------
    rule : str
        Name of the rule.
    record : str
        Id of the record; an exception holds for no other.
    owner : str
        Who answers for it: a name or a role.
    reason : str
        At least 20 characters.
    expires : str
        ISO date; from that day on the exception no longer holds.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    rule: str
    record: str
    owner: str
    reason: str
    expires: str

    def __post_init__(self) -> None:
        if not _RECORD_ID.fullmatch(self.record):
            raise UndefinedError("record", self.record, "an exception names the id (64 hex digits) of one record")
        if not self.owner.strip():
            raise UndefinedError("owner", self.owner, "an exception needs somebody who answers for it")
        if len(" ".join(self.reason.split())) < MIN_REASON:
            raise UndefinedError("reason", self.reason, f"must have at least {MIN_REASON} characters")
        iso_date("expires", self.expires)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What has to hold before a release goes out.

    Attributes
    ----------
    name : str
    rules : tuple of Rule
        At least one, each with a name of its own.
    exceptions : tuple of RuleException
    error_budget : float in [0, 1] or None
        Share of units not scored above which a record is no evidence; the smaller of this and the record's own counts,
        and .05 where neither says.
    require_certificate : bool
        Whether a corrected rate is evidence only with a coverage certificate of its calibration.
    """

    __pydantic_config__: ClassVar[Mapping[str, Any]] = FORBID_UNKNOWN_KEYS
    name: str
    rules: tuple[Rule, ...]
    exceptions: tuple[RuleException, ...] = ()
    error_budget: float | None = None
    require_certificate: bool = False

    def __post_init__(self) -> None:
        if not self.name.strip():
            raise UndefinedError("name", self.name, "a policy needs a name")
        if not self.rules:
            raise UndefinedError("rules", [], "a policy without rules would pass everything")
        names = [rule.rule for rule in self.rules]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UndefinedError("rules", twice, "each rule needs a name of its own")
        if self.error_budget is not None and not 0.0 <= self.error_budget <= 1.0:
            raise UndefinedError("error_budget", self.error_budget, "must lie in [0, 1]")
        if unknown := sorted({item.rule for item in self.exceptions} - set(names)):
            raise UndefinedError("exceptions", unknown, f"the policy has no such rule; it has {', '.join(names)}")
        bound = [(item.rule, item.record) for item in self.exceptions]
        if twice := sorted({f"{rule} of {record[:12]}" for rule, record in bound if bound.count((rule, record)) > 1}):
            raise UndefinedError("exceptions", twice, "one exception a rule and record")


def kind_of(schema: str) -> str:
    """Return the kind of a record: its schema without prefix and version.

    Examples
    --------
    >>> kind_of("assay.measurement/1"), kind_of("audit")
    ('measurement', 'audit')
    """
    return schema.removeprefix("assay.").partition("/")[0]


def iso_date(field: str, text: str) -> date:
    """Read an ISO date, such as 2027-01-31.

    Raises
    ------
    UndefinedError
        It is none.
    """
    try:
        if len(text) != 10:
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise UndefinedError(field, text, "must be a date such as 2027-01-31") from None
