"""``assay check`` of another tool's results: its own figures beside ours, and what such a file cannot tell."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from core.data.facts import SourceFacts, merged
from core.data.scores import VALUE_COLUMN, Kind
from core.data.vocabulary import SCORED
from core.instrument.measured import Measured, Prevalence
from core.instrument.production import observed, sample_of
from core.instrument.spec import TURN_BINS, Attempts, MeasurementSpec
from core.instrument.tally import UnitCounts
from core.instrument.uncalibrated import RAW_THRESHOLD
from tasks.readers import Source, open_source
from tasks.readers.verdicts import VerdictSource
from tasks.tables import Progress, ScoreScan, count_units

POOLED, ANY = "each attempt", "any attempt of a trace"
"""Two rates that tools give one name: of attempts, and of traces with a hit in any attempt."""

NOT_DECLARED = "not declared: scores are shown as if higher were worse; say it with --higher-is worse|better"


def directed(sources: Sequence[Source]) -> tuple[list[Source], bool]:
    """Open again what nobody has said the direction of, as if higher were worse; tell whether that was needed.

    A look at a file must not need to know what it is going to show; a measurement must.
    """
    opened = [
        open_source(replace(source.file, options={**source.file.options, "higher-is": "worse"}))
        if isinstance(source, VerdictSource) and source.higher_is is None
        else source
        for source in sources
    ]
    return opened, any(one is not other for one, other in zip(opened, sources, strict=True))


def tool_summary(
    sources: Sequence[Source], kind: Kind, categories: Sequence[str], *, undirected: bool, progress: Progress
) -> dict[str, Any]:
    """Say what other tools' files hold, as pooled and any-of-k rates, and how the tools themselves put it.

    Rates are of fully scored units, at `RAW_THRESHOLD`, a convention; the worst case is over all.
    """
    facts = merged(item for source in sources if (item := source.facts) is not None)
    tools = [source for source in sources if isinstance(source, VerdictSource)]
    return {
        **({"read by": [_shown(item, undirected=undirected) for item in facts]} if facts else {}),
        **(_as_tools_say(sources, tools, kind, categories, progress) if tools else {}),
    }


def _as_tools_say(
    sources: Sequence[Source], tools: Sequence[VerdictSource], kind: Kind, categories: Sequence[str], progress: Progress
) -> dict[str, Any]:
    pooled = _counts(sources, kind, categories, "each", progress)
    repeated = pooled.accounting["attempted"] > pooled.n_traces
    ways = {POOLED: pooled}
    if repeated:
        ways[ANY] = _counts(sources, kind, categories, "any", progress)
    facts = merged(source.facts for source in tools)
    return {
        "options": [f"{name}={value}" for item in facts for name, value in item.options.items()],
        "verdicts": _verdicts(tools),
        "collapsed": {name: count for item in facts for name, count in item.counts.items()},
        "left out": sorted({name for item in facts for name in item.left_out}),
        "flagged at": RAW_THRESHOLD if kind == "scores" else 1,
        "rates": {way: _rates(counts, kind, categories) for way, counts in ways.items()},
        "headlines": [asdict(line) for source in tools for line in source.headlines()],
        "cannot tell": list(dict.fromkeys(text for item in facts for text in item.cannot_tell)),
    }


def _verdicts(tools: Sequence[VerdictSource]) -> dict[str, int]:
    """Count verdicts by state: a tool may judge a trace in one category alone, so that no unit is fully scored."""
    found: Counter[str] = Counter()
    for source in tools:
        value = VALUE_COLUMN["detections" if source.kind == "detections" else "scores"]
        for batch, _ in source.batches((value, "state")):
            scored = len(batch) - batch.column(value).null_count
            found[SCORED] += scored
            for entry in batch.column("state").filter(batch.column(value).is_null()).value_counts().to_pylist():
                found[entry["values"]] += entry["counts"]
    return dict(sorted(found.items(), key=lambda item: (item[0] != SCORED, item[0])))


def _shown(facts: SourceFacts, *, undirected: bool) -> str:
    low, high = facts.scale
    direction = NOT_DECLARED if undirected else f"higher is {facts.higher_is}"
    judged = {"all": "each turn", "last": "the last turn alone", "conversation": "conversations as one"}
    return (
        f"{facts.reader}: written by {facts.tool} {facts.tool_version}, scale [{low:g}, {high:g}], {direction}, "
        f"judged: {judged[facts.turn_scope]}"
    )


def _counts(
    sources: Sequence[Source], kind: Kind, categories: Sequence[str], attempts: Attempts, progress: Progress
) -> UnitCounts:
    scan = ScoreScan(sources, kind, categories, progress)
    counts, _ = count_units(
        scan,
        [RAW_THRESHOLD if kind == "scores" else 1.0] * len(categories),
        n_composite=len(categories),
        turn_bins=TURN_BINS,
        attempts=attempts,
        last_turn_only=False,
        decisions=None,
    )
    scan.check(())
    return counts


def _rates(counts: UnitCounts, kind: Kind, categories: Sequence[str]) -> dict[str, Any]:
    spec = MeasurementSpec(kind=kind, instrument="check", seed=0)
    raw = Prevalence(status="not_calibrated")
    found = {name: observed(sample_of(counts, c), counts, spec, raw) for c, name in enumerate(categories)}
    if len(categories) > 1:
        found["any category"] = observed(sample_of(counts, None), counts, spec, raw)
    return {name: _rate(row) for name, row in found.items()}


def _rate(row: Measured) -> dict[str, Any]:
    interval = row.observed_interval
    return {
        "scored": row.n_units,
        "flagged": row.n_flagged,
        "rate": row.observed_rate,
        "interval": None if interval.low is None else [interval.low, interval.high],
        "worst case": [row.worst_case.low, row.worst_case.high],
    }
