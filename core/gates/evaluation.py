"""A policy held against records: pass, fail, or insufficient evidence (SPEC 16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from core.errors import UndefinedError
from core.gates.decision import Needed, Reading, Verdict, decide, minimum_detectable_effect, needed
from core.gates.evidence import Evidence, evidence, kind, record_problems, reviews, target_of, uncertified
from core.gates.paths import Place, parse_metric, places, shown
from core.gates.policy import Bound, Op, Policy, Rule, RuleException, Severity, iso_date

SHOWN_REVIEWS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleVerdict:
    """One rule on one figure of one record.

    Attributes
    ----------
    rule : str
    record : str or None
        Id of the record; None where none was given that the rule is about.
    metric : str
        The figure's path, wildcards replaced.
    value, low, high : float or None
        The figure and its interval, as the record has them.
    bound, op, threshold, severity
        Of the rule.
    read : float or None
        The number that was held against the threshold.
    n : int or None
        Units behind the figure.
    coverage : float or None
    scale, metric_version : str or None
        As the record names them.
    verdict : {'pass', 'fail', 'insufficient_evidence'}
        What the evidence says, whatever the severity and the exceptions.
    counts_as : {'pass', 'fail', 'insufficient_evidence'}
        What it is for the gate.
    review : bool
        Whether it passes only with a review.
    reason : str
    minimum_detectable_effect : float or None
        Distance from the threshold that this much evidence can tell (SPEC 16.4).
    needed : Needed or None
        What would decide.
    """

    rule: str
    record: str | None
    metric: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    bound: Bound
    op: Op
    threshold: float
    severity: Severity
    read: float | None = None
    n: int | None = None
    coverage: float | None = None
    scale: str | None = None
    metric_version: str | None = None
    verdict: Verdict
    counts_as: Verdict
    review: bool = False
    reason: str
    minimum_detectable_effect: float | None = None
    needed: Needed | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedException:
    """An exception of the policy, and what became of it.

    Attributes
    ----------
    state : {'applied', 'refused'}
    why : str
        Why it was refused, or what it did.
    """

    rule: str
    record: str
    owner: str
    reason: str
    expires: str
    state: Literal["applied", "refused"]
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedRecord:
    """A record that was held against the policy."""

    id: str
    schema: str
    target: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """The result of a gate.

    Attributes
    ----------
    policy : str
        Its name.
    verdict : {'pass', 'fail', 'insufficient_evidence'}
        ``fail`` if any rule counts so, else ``insufficient_evidence`` if any does, else ``pass``.
    review_required : bool
        Whether a person has to look before the release goes out.
    reviews : tuple of str
        Why.
    n_pass, n_fail, n_insufficient : int
        Figures by what they count as.
    rules : tuple of RuleVerdict
        One a rule, record and figure.
    exceptions : tuple of JudgedException
    records : tuple of GatedRecord
    notes : tuple of str
    """

    policy: str
    verdict: Verdict
    review_required: bool
    reviews: tuple[str, ...]
    n_pass: int
    n_fail: int
    n_insufficient: int
    rules: tuple[RuleVerdict, ...]
    exceptions: tuple[JudgedException, ...]
    records: tuple[GatedRecord, ...]
    notes: tuple[str, ...] = ()


def evaluate(policy: Policy, documents: Iterable[Mapping[str, Any]], *, today: str | None = None) -> Gate:
    """Hold a policy against records (SPEC 16).

    Parameters
    ----------
    policy : Policy
    documents : iterable of mapping
        Records: ``id``, ``schema``, ``spec``, ``result``. Their order does not matter, and one that is given twice
        counts once.
    today : str, optional
        ISO date by which exceptions are judged; needed only by a policy that has some.

    Raises
    ------
    UndefinedError
        No record, or exceptions without a date to judge them by.

    Examples
    --------
    >>> from core.gates.policy import Rule
    >>> rule = Rule(rule="rate", metric="composite.prevalence", bound="high", op="<=", threshold=0.05, min_n=100)
    >>> figure = {"status": "measured", "value": 0.02, "interval": {"low": 0.01, "high": 0.04}}
    >>> record = {"id": "0" * 64, "schema": "assay.measurement/1", "spec": {},
    ...           "result": {"composite": {"n_units": 400, "prevalence": figure}}}
    >>> evaluate(Policy(name="release", rules=(rule,)), [record]).verdict
    'pass'
    >>> record["result"]["composite"]["prevalence"] = {"status": "unit_mismatch", "value": None}
    >>> evaluate(Policy(name="release", rules=(rule,)), [record]).rules[0].reason
    'status unit_mismatch; there is no value'
    """
    if policy.exceptions and today is None:
        raise UndefinedError("today", None, "exceptions expire: the date is needed")
    given = sorted({str(item["id"]): item for item in documents}.values(), key=lambda d: (d["schema"], d["id"]))
    if not given:
        raise UndefinedError("records", 0, "a gate needs at least one record")
    rows = [row for rule in policy.rules for row in _rows(rule, given, policy)]
    exceptions = tuple(_judged(item, rows, today or "") for item in policy.exceptions)
    applied = {(item.rule, item.record) for item in exceptions if item.state == "applied"}
    rows = [_counted(row, (row.rule, row.record) in applied) for row in rows]
    found = [row.counts_as for row in rows]
    why = (*_reviews(rows), *(f"{document['id'][:12]}: {shown(path)}" for document, path in _flagged(given)))
    return Gate(
        policy=policy.name,
        verdict="fail" if "fail" in found else "pass" if set(found) == {"pass"} else "insufficient_evidence",
        review_required=bool(why),
        reviews=why,
        n_pass=found.count("pass"),
        n_fail=found.count("fail"),
        n_insufficient=found.count("insufficient_evidence"),
        rules=tuple(rows),
        exceptions=exceptions,
        records=tuple(
            GatedRecord(id=str(item["id"]), schema=str(item["schema"]), target=target_of(item)) for item in given
        ),
        notes=tuple(_notes(policy, given, rows)),
    )


def _rows(rule: Rule, documents: Sequence[Mapping[str, Any]], policy: Policy) -> Iterator[RuleVerdict]:
    """Judge every figure that a rule is about; a rule that is about nothing has one row, which says so."""
    about = [item for item in documents if rule.schema in (None, kind(item))]
    if not about:
        yield _row(rule, rule.metric, None, (f"no record of kind {rule.schema} was given",))
    path = parse_metric(rule.metric)
    for document in about:
        whole = tuple(record_problems(document, policy))
        for place in places(document["result"], path):
            yield _judge(rule, place, document, whole)


def _judge(rule: Rule, place: Place, document: Mapping[str, Any], whole: tuple[str, ...]) -> RuleVerdict:
    found = evidence(place, rule, document)
    problems = (*found.problems, *whole)
    if problems:
        return _row(rule, place.metric, document, problems, found)
    reading = found.reading
    verdict = decide(reading, bound=rule.bound, op=rule.op, threshold=rule.threshold)
    row = _row(rule, place.metric, document, (), found)
    return replace(
        row,
        verdict=verdict,
        counts_as=verdict,
        reason=_reason(rule, reading, verdict),
        needed=needed(reading, bound=rule.bound, op=rule.op, threshold=rule.threshold),
    )


def _row(
    rule: Rule,
    metric: str,
    document: Mapping[str, Any] | None,
    problems: Sequence[str],
    found: Evidence | None = None,
) -> RuleVerdict:
    reading = Reading() if found is None else found.reading
    return RuleVerdict(
        rule=rule.rule,
        record=None if document is None else str(document["id"]),
        metric=metric,
        value=reading.value,
        low=reading.low,
        high=reading.high,
        bound=rule.bound,
        op=rule.op,
        threshold=rule.threshold,
        severity=rule.severity,
        read=reading.at(rule.bound),
        n=reading.n,
        coverage=None if found is None else found.coverage,
        scale=None if found is None else found.scale,
        metric_version=None if found is None else found.metric_version,
        verdict="insufficient_evidence",
        counts_as="insufficient_evidence",
        reason="; ".join(problems),
        minimum_detectable_effect=minimum_detectable_effect(reading, op=rule.op),
        needed=_missing_units(rule, reading),
    )


def _missing_units(rule: Rule, reading: Reading) -> Needed | None:
    if rule.min_n is None or reading.n is None or reading.n >= rule.min_n:
        return None
    more = rule.min_n - reading.n
    return Needed(says=f"{more} more units, so that it is looked at", n=reading.n, n_more=more)


def _reason(rule: Rule, reading: Reading, verdict: Verdict) -> str:
    told = {"point": "value", "low": "low end", "high": "high end"}[rule.bound]
    read = f"{told} {reading.at(rule.bound):.6g}"
    asked = f"{rule.op} {rule.threshold:g}"
    if verdict == "pass":
        return f"{read} is {asked}"
    if verdict == "fail" and rule.bound == "point":
        return f"{read} is not {asked}"
    if verdict == "fail":
        return f"nothing in the interval is {asked}: {read}, value {reading.value:.6g}"
    return f"the interval holds values on both sides: {read} is not {asked}, and others in it are"


def _counted(row: RuleVerdict, excepted: bool) -> RuleVerdict:
    """Say what a row is for the gate: an exception lowers a failure by one step, and touches nothing else."""
    if row.verdict != "fail" or (row.severity == "block" and not excepted):
        return row
    return replace(row, counts_as="pass", review=not (excepted and row.severity == "escalate"))


def _judged(item: RuleException, rows: Sequence[RuleVerdict], today: str) -> JudgedException:
    state, why = _exception_state(item, rows, today)
    return JudgedException(
        rule=item.rule, record=item.record, owner=item.owner, reason=item.reason, expires=item.expires,
        state=state, why=why,
    )  # fmt: skip


def _exception_state(
    item: RuleException, rows: Sequence[RuleVerdict], today: str
) -> tuple[Literal["applied", "refused"], str]:
    verdicts = [row.verdict for row in rows if (row.rule, row.record) == (item.rule, item.record)]
    if not any(row.record == item.record for row in rows):
        return "refused", "it names a record that is not among these"
    if not verdicts:
        return "refused", "the rule is not about this kind of record"
    if iso_date("today", today) >= iso_date("expires", item.expires):
        return "refused", f"it expired on {item.expires}"
    if "fail" not in verdicts:
        missing = "insufficient_evidence" in verdicts
        return "refused", (
            "evidence is missing, which no exception stands in for" if missing else "the rule passes without it"
        )
    severity = next(row.severity for row in rows if row.rule == item.rule)
    return "applied", "passes with a review" if severity == "block" else "passes"


def _reviews(rows: Iterable[RuleVerdict]) -> Iterator[str]:
    for row in rows:
        if row.review:
            how = "fails and escalates" if row.severity == "escalate" else "fails, and is excepted"
            yield f"{row.rule}: {row.metric} {how}"


def _flagged(documents: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], tuple[str, ...]]]:
    for document in documents:
        for path in reviews(document["result"])[:SHOWN_REVIEWS]:
            yield document, path


def _notes(policy: Policy, documents: Sequence[Mapping[str, Any]], rows: Sequence[RuleVerdict]) -> Iterator[str]:
    for document in documents:
        if uncertified(document) and not policy.require_certificate:
            yield f"{document['id'][:12]}: its calibration has no coverage certificate (`assay simulate` makes one)"
        dataset = document["result"].get("dataset")
        if isinstance(dataset, Mapping) and dataset.get("sufficient") is False:
            yield f"{document['id'][:12]}: the check of its data set finds shortfalls; groups may be left out"
    unbound = {rule.rule for rule in policy.rules if rule.scale is None}
    for name in dict.fromkeys(row.rule for row in rows if row.scale is not None and row.rule in unbound):
        scale = next(row.scale for row in rows if row.rule == name and row.scale is not None)
        yield f"{name}: the figure is on scale {scale!r}, and the rule does not say which its threshold is on"
    for item in documents:
        if not any(row.record == item["id"] for row in rows):
            yield f"{item['id'][:12]}: no rule is about this record"
