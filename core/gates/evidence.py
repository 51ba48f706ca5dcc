"""Reading a figure out of a record, with everything that keeps it from being evidence (SPEC 16.1, 16.3)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.gates.decision import Reading
from core.gates.paths import Place
from core.gates.policy import Policy, Rule, kind_of
from core.simulation.simulated import is_sufficient

STATUSES = frozenset({"measured", "defined", "evaluated"})
"""The states in which a figure is evidence; every other keeps its rule from passing and from failing."""

COUNTS = (
    "n", "n_min", "n_units", "n_traces", "n_rows", "n_outputs", "n_scored", "n_classified", "n_positive", "n_negative",
    "replications",
)  # fmt: skip
"""Names under which records count what is behind a figure."""

ERROR_BUDGET = 0.05
"""Share of units not scored that is allowed where neither the record nor the policy says."""

COVERAGES = ("classification_coverage", "coverage")
RELEASES = ("baseline", "candidate")
CATEGORIES = ("categories", "attributes")
"""Under these names a measurement and a comparison hold the figures of each category, or attribute of a detector."""

_INTERVALS = {
    "value": ("lang_reiczigel", "interval"),
    "difference": ("interval",),
    "observed_rate": ("observed_interval",),
}
"""Where the interval of a figure stands, by the figure's name; never that of another figure beside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """A figure, and why it may be none.

    Attributes
    ----------
    reading : Reading
    coverage : float or None
        Share of outputs that are classified.
    scale, metric_version : str or None
        As the record has them.
    problems : tuple of str
        Each alone makes the evidence insufficient.
    """

    reading: Reading
    coverage: float | None
    scale: str | None
    metric_version: str | None
    problems: tuple[str, ...]


def evidence(place: Place, rule: Rule, document: Mapping[str, Any]) -> Evidence:
    """Read the figure at a place."""
    if not place.chain:
        return Evidence(
            reading=Reading(), coverage=None, scale=None, metric_version=None, problems=(f"missing: {place.why}",)
        )
    holders = [node for node in reversed(place.chain) if isinstance(node, Mapping)]
    coverage = _number(_nearest(holders, COVERAGES))
    bindings = {name: _text(_nearest(holders, (name,))) for name in ("scale", "metric_version")}
    reading, why = _reading(place, rule, holders, document)
    problems = [
        *_states(holders), *why, *_bindings(rule, bindings), *_enough(rule, reading.n, coverage),
        *_uncovered(place, document["result"]),
    ]  # fmt: skip
    return Evidence(reading=reading, coverage=coverage, problems=tuple(problems), **bindings)


def _reading(
    place: Place, rule: Rule, holders: Sequence[Mapping[str, Any]], document: Mapping[str, Any]
) -> tuple[Reading, list[str]]:
    node, why = place.chain[-1], []
    figure = node.get("value") if isinstance(node, Mapping) else node
    value = _number(figure)
    if value is None:
        why.append(_no_number(node))
    low, high, level = None, None, None
    try:
        low, high, level = _interval(place, rule)
    except _NoIntervalError as error:
        if rule.bound != "point":
            why.append(str(error))
    if rule.bound != "point" and not why and {"low": low, "high": high}[rule.bound] is None:
        why.append("the record gives no interval")
    level = level or _number(_nearest([*holders, document.get("spec") or {}], ("confidence_level",)))
    return (
        Reading(
            value=value,
            low=low,
            high=high,
            confidence_level=level if level is not None and 0.0 < level < 1.0 else None,
            n=count_behind(holders),
            unit_share=_unit_share(holders[0] if holders else {}),
        ),
        why,
    )


def _no_number(node: Any) -> str:
    if isinstance(node, Mapping) and "value" not in node:
        return f"this is no figure but holds several: {', '.join(sorted(map(str, node))[:12])}"
    found = node["value"] if isinstance(node, Mapping) else node
    return "there is no value" if found is None else f"{str(found)[:40]!r} is no finite number"


class _NoIntervalError(Exception):
    """The interval that is there is none to rely on."""


def _interval(place: Place, rule: Rule) -> tuple[float | None, float | None, float | None]:
    """Return the ends of a figure's interval, and its level, as far as the record has them."""
    if isinstance(place.chain[-1], Mapping):
        holder, name = place.chain[-1], "value"
    elif len(place.chain) > 1 and isinstance(place.chain[-2], Mapping):
        holder, name = place.chain[-2], str(place.names[-1])
    else:
        return None, None, None
    names = (rule.interval,) if rule.interval is not None else (f"{name}_interval", *_INTERVALS.get(name, ()))
    for key in names:
        if isinstance(found := holder.get(key), Mapping):
            return _limits(found)
    if rule.interval is not None:
        raise _NoIntervalError(f"the record gives no interval {rule.interval!r} here")
    return _number(holder.get(f"{name}_low")), _number(holder.get(f"{name}_high")), None


def _limits(found: Mapping[str, Any]) -> tuple[float | None, float | None, float | None]:
    low, high = _number(found.get("low")), _number(found.get("high"))
    if (status := found.get("status")) is not None and not _is_evidence(status):
        raise _NoIntervalError(f"the interval is {status}")
    if found.get("degenerate") or (low is not None and low == high):
        raise _NoIntervalError("the interval has no width")
    if low is not None and high is not None and low > high:
        raise _NoIntervalError("the interval's ends are the wrong way round")
    return low, high, _number(found.get("confidence_level"))


def _states(holders: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Name every state on the way to a figure in which it is no evidence."""
    for holder in holders:
        status, verdict = holder.get("status"), holder.get("verdict")
        if status is not None and not _is_evidence(status):
            why = holder.get("reason")
            yield f"status {status}" + (f" ({why})" if isinstance(why, str) and why else "")
        if verdict == "not_comparable":
            yield "the releases are not comparable here"


def _is_evidence(status: object) -> bool:
    return isinstance(status, str) and status in STATUSES


def _bindings(rule: Rule, found: Mapping[str, str | None]) -> Iterator[str]:
    for name, wanted in (("scale", rule.scale), ("metric_version", rule.metric_version)):
        if wanted is not None and found[name] != str(wanted):
            has = "names none" if found[name] is None else f"has {found[name]!r}"
            yield f"refused: the threshold was set for {name} {str(wanted)!r}, and the record {has}"


def _enough(rule: Rule, n: int | None, coverage: float | None) -> Iterator[str]:
    if rule.min_n is not None and (n is None or n < rule.min_n):
        yield f"n = {'not recorded' if n is None else n}, and the policy asks for {rule.min_n}"
    if rule.min_coverage is not None and (coverage is None or coverage < rule.min_coverage):
        has = "not recorded" if coverage is None else f"{coverage:g}"
        yield f"coverage {has}, and the policy asks for {rule.min_coverage:g}"


def count_behind(holders: Sequence[Mapping[str, Any]]) -> int | None:
    """Return how many units are behind a figure: the smallest count of the nearest object that has any.

    Parameters
    ----------
    holders : sequence of mapping
        The objects that a figure stands in, the nearest first.
    """
    for holder in holders:
        counts = [_number(holder.get(name)) for name in COUNTS]
        sides = holder.get("sides")
        if isinstance(sides, Mapping):
            counts += [_number(side.get("n_units")) for side in sides.values() if isinstance(side, Mapping)]
        known = [count for count in counts if count is not None]
        if known:
            return math.floor(min(known))
    return None


def _unit_share(node: Mapping[str, Any]) -> float:
    """Return the share of a figure's variance that more units of production make smaller.

    From the variance's parts where the record has them (a comparison), else from the effective counts of a corrected
    rate, each proportion smoothed by one success and one failure; 1 where the record has neither.
    """
    parts = node.get("variance")
    if isinstance(parts, Mapping) and (flags := _number(parts.get("flags"))) is not None:
        judge = sum(_number(parts.get(name)) or 0.0 for name in ("sensitivity", "specificity"))
        return flags / (flags + judge) if flags + judge > 0.0 else 1.0
    effective, value = node.get("effective"), _number(node.get("value"))
    if not isinstance(effective, Mapping) or value is None:
        return 1.0
    pairs = (("n_flagged", "n_units"), ("true_positives", "n_positive"), ("true_negatives", "n_negative"))
    variances = []
    for hits, total in pairs:
        x, n = _number(effective.get(hits)), _number(effective.get(total))
        if x is None or n is None or not 0.0 <= x <= n:
            return 1.0
        p = (x + 1.0) / (n + 2.0)
        variances.append(p * (1.0 - p) / (n + 2.0))
    flags, sensitivity, specificity = variances
    return flags / (flags + value**2 * sensitivity + (1.0 - value) ** 2 * specificity)


def record_problems(document: Mapping[str, Any], policy: Policy) -> Iterator[str]:
    """Name what keeps a whole record from being evidence: its error budget, and its calibration's certificate."""
    parts = _parts(document["result"])
    yield from _over_budget(parts, policy, _number((document.get("spec") or {}).get("error_budget")))
    for calibration in _calibrations(document):
        yield from _uncertified(calibration.get("certificate"), policy)


def _parts(result: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return a result, and the releases of a comparison."""
    return [result, *(result[name] for name in RELEASES if isinstance(result.get(name), Mapping))]


def _over_budget(parts: Sequence[Mapping[str, Any]], policy: Policy, own: float | None) -> Iterator[str]:
    budget = min((limit for limit in (own, policy.error_budget) if limit is not None), default=ERROR_BUDGET)
    for part in parts:
        share = _number(part.get("unscored_share"))
        if part.get("error_budget_exceeded") or (share is not None and share > budget):
            unscored = "too many" if share is None else f"{share:.3g} (a share)"
            yield f"{unscored} of the units are not scored; the error budget is {budget:g}"


def _uncertified(certificate: Any, policy: Policy) -> Iterator[str]:
    if certificate is None:
        if policy.require_certificate:
            yield "the calibration has no coverage certificate, and the policy requires one"
        return
    found = certificate if isinstance(certificate, Mapping) else {}
    coverage = _number(found.get("coverage"))
    if coverage is None:
        yield "the calibration's certificate gives no coverage"
    elif found.get("sufficient") is False or not _covers(found, _level(found)):
        error = _number(found.get("mc_error"))
        known = "" if error is None else f" ± {error:.1g}"
        yield f"the calibration's certificate is not sufficient: its intervals cover {coverage:.3g}{known}"


def _uncovered(place: Place, result: Mapping[str, Any]) -> Iterator[str]:
    """Say where a certificate shows that the interval of the figure's own category does not cover.

    The certificate's ``coverage`` is the composite's, which may cover where a category does not. A figure that a
    comparison makes of two releases needs both.
    """
    if len(place.names) < 2 or place.names[0] not in CATEGORIES:
        return
    name = place.names[1]
    for part in _parts(result):
        certificate: Any = part
        for key in ("calibration", "certificate"):
            certificate = certificate.get(key) if isinstance(certificate, Mapping) else None
        each = certificate.get("categories") if isinstance(certificate, Mapping) else None
        if not isinstance(each, Mapping) or name not in each:
            continue
        found = each[name] if isinstance(each[name], Mapping) else {}
        coverage, error = _number(found.get("coverage")), _number(found.get("mc_error"))
        if coverage is None or error is None:
            yield f"the calibration's certificate gives no coverage of {name}"
        elif not _covers(found, _level(certificate)):
            yield (
                f"the calibration's certificate is not sufficient for {name}: "
                f"its intervals cover {coverage:.3g} ± {error:.1g}"
            )


def _covers(found: Mapping[str, Any], level: float) -> bool:
    coverage, error = _number(found.get("coverage")), _number(found.get("mc_error"))
    return coverage is not None and is_sufficient(coverage, level, error or 0.0)


def _level(certificate: Mapping[str, Any]) -> float:
    level = _number(certificate.get("confidence_level"))
    return 0.95 if level is None else level


def uncertified(document: Mapping[str, Any]) -> bool:
    """Whether a record rests on a calibration that has no certificate."""
    return any(item.get("id") and item.get("certificate") is None for item in _calibrations(document))


def _calibrations(document: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the calibrations that a record's figures rest on; a simulation's does not: it is what is certified."""
    if kind(document) == "simulation":
        return []
    found = [part.get("calibration") for part in _parts(document["result"])]
    return [item for item in found if isinstance(item, Mapping)]


def reviews(result: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Name every place in a result that asks for a person to look (``human_review``)."""
    found: list[tuple[str, ...]] = []
    ahead: list[tuple[tuple[str, ...], Any]] = [((), result)]
    while ahead:
        where, node = ahead.pop()
        if isinstance(node, Mapping):
            if node.get("human_review"):
                found.append((*where, "human_review"))
            ahead += [((*where, str(key)), item) for key, item in node.items()]
        elif isinstance(node, (list, tuple)):
            ahead += [((*where, str(i)), item) for i, item in enumerate(node)]
    return sorted(found)


def target_of(document: Mapping[str, Any]) -> str | None:
    """Return what a record is about: the measured target, or a comparison's candidate."""
    result = document["result"]
    candidate = result.get("candidate")
    found = result.get("target") or (candidate.get("target") if isinstance(candidate, Mapping) else None)
    return found if isinstance(found, str) else None


def kind(document: Mapping[str, Any]) -> str:
    """Return a record's kind."""
    return kind_of(str(document["schema"]))


def _nearest(holders: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Any:
    return next((holder[name] for holder in holders for name in names if holder.get(name) is not None), None)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _number(value: Any) -> float | None:
    """Return a finite number; None for everything else, truth values among them."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
