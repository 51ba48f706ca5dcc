"""Reader ``inspect``: logs of Inspect AI, ``.eval`` or ``.json``, of the versions 1 and 2.

Scores are read from the samples, never from the results. A trace is a sample's id as text, an attempt its epoch less 1
(attempts count from 0), a category the key of a score that is an object, else the scorer's name. Verified against
inspect_ai 0.3.285 and logs from 0.3.41 on; https://inspect.aisi.org.uk/eval-logs.html describes the format.

Rules
-----
- Letters and words are numbers as in Inspect: C 1, P 0.5, I and N 0, yes and true 1, no and false 0. They say
  *correct*; whether that is harm only the user knows, hence ``higher-is``.
- A value that is NaN or null, a text that is no grade, and a score whose reason says that the judge failed are
  ``unscored``, whatever the reason; reasons are counted. After a limit they are ``limit``.
- An error is ``target_error`` and an invalidation ``unscored``, in every category, even beside scores.
- Runs of one sample and epoch: equal outcomes are one; of different ones the only scored run stands, else the last.
  Two that are scored and differ are refused.
- With ``turns``, a value that is worse than each of its turns stands at the last of them that has a score: the judge
  said it of the conversation, and a list that differs must not make harm a pass.
- Samples that were planned and are absent are ``missing``. Old logs say how many, not which: those are ``(absent 1)``
  and so on.

Counts
------
``duplicates``, ``reruns``: runs that do not stand. ``failed_tries``: earlier tries of a sample that ended in an error.
``incomplete``: 1 for a log without an end. ``absent``: planned samples that are not there. ``invalidated``,
``scores_beside_errors``, ``edited_scores``, ``texts_that_are_no_grade``, ``reason ...``: scores and samples with that.
With ``turns``: scores whose metadata lists none (``turns_not_listed``: missing), lists of another length than the
target's messages (``turns_that_do_not_match``), values that no turn has as its worst (``values_unlike_their_turns``)
and, of those, worse ones that stand at a turn (``values_worse_than_their_turns``).
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from core.data.problems import nearest, quoted
from core.data.vocabulary import STATES, category_name
from core.errors import InputError, Problem
from tasks.readers.inspect_log import Grade, Sample, SampleParser, open_log, shown
from tasks.readers.verdicts import UNKNOWN, Cell, Headline, VerdictSource
from tasks.storage import InputFile

MAX_PLANNED = 1_000_000
"""Planned samples, times epochs."""

TOLERANCE = 1e-9
AVERAGES = ("mean", "accuracy")
"""Metrics that are a mean of scores, and so can stand beside ours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Verdict:
    """A score or state in one category of one turn."""

    category: str
    score: float | None
    state: str | None
    note: str | None


class _Run(NamedTuple):
    """What is remembered of a sample, since others may have its id and epoch."""

    place: int
    scored: bool
    outcome: int


class InspectSource(VerdictSource):
    """A log of Inspect AI.

    Parameters
    ----------
    file : InputFile
        Options: ``scorer``, ``turns``, ``cluster``, beside those that all readers of verdicts have.

    Raises
    ------
    InputError
        No log of a known version; one that holds no samples; samples that cannot be read; ids that are told apart
        only by being a number or a text; scorers whose categories have one name; a key that no sample has.
    """

    READER: ClassVar[str] = "inspect"
    TOOL: ClassVar[str] = "inspect_ai"
    OPTIONS: ClassVar[Mapping[str, str]] = {
        "scorer": "the scorer to read, where several have categories of one name",
        "turns": "key of a score's metadata that lists one value a turn; else a conversation is judged as one",
        "cluster": "key of a sample's metadata that names its cluster",
    }
    CANNOT_TELL: ClassVar[tuple[str, ...]] = (
        "whether a sample's error came from the target or from the scorer; both count as target_error",
        "whether a correct answer is the harm or its absence",
        "what a scorer's code does: its fingerprint covers its options, its grader and the release of inspect_ai",
        "which threshold makes a score a hit",
        "which turn a score belongs to, unless the scorer lists turns in its metadata",
    )
    unit = "row"

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self._log = open_log(file)
        self._spec: dict[str, Any] = self._log.header["eval"]
        self._results = _object(self._log.header.get("results"))
        self.tool_version = str(_object(self._spec.get("packages")).get("inspect_ai") or UNKNOWN)
        self.turn_scope = "all" if "turns" in self.options else "conversation"
        self._parser = SampleParser(
            turns_key=self.options.get("turns"),
            letters=self.scale == self.SCALE,
            legacy_scorer=_legacy_scorer(self._results),
        )
        survey = _Survey(self)
        self._dropped, self._collapsed = survey.dropped, survey.collapsed
        self._clusters, self._present = survey.clusters, survey.present
        self._scorers = self._chosen(survey)
        self._categories = [name for names in self._scorers.values() for name in names]
        self._absent = list(self._planned_and_absent(survey))
        self._collapsed.update(incomplete=not self._log.complete, absent=len(self._absent))
        self.target = str(self._spec.get("model") or UNKNOWN)
        self.judge, self.fingerprint = self._judge()

    def cells(self, problems: list[Problem]) -> Iterator[Cell]:
        """Yield verdicts of the samples that stand, then those of planned samples that are absent."""
        self.counts.update(self._collapsed)
        for sample in self._standing(problems):
            self._count(sample)
            for turn, verdicts in enumerate(self._verdicts(sample)):
                for verdict in verdicts:
                    yield self._cell(sample.place, sample.trace_id, sample.epoch, turn, verdict)
        for number, (trace_id, epoch) in enumerate(self._absent, start=self._present + 1):
            for category in self._categories:
                yield self._cell(number, trace_id, epoch, 0, _without(category, "missing"))

    def headlines(self) -> list[Headline]:
        """Set the results that the log brings beside the means of the scores that its samples hold."""
        tally = _Means()
        for sample in self._standing([]):
            tally.add(self._by_sample(sample))
        for _ in self._absent:
            tally.add([_without(category, "missing") for category in self._categories])
        return [*self._status(), self._samples(tally), *self._means(tally)]

    def samples(self, problems: list[Problem]) -> Iterator[Sample]:
        """Yield every sample of the log, duplicates and all; those that cannot be read become problems."""
        for place, item in self._log.samples():
            try:
                yield self._parser.parse(place, item)
            except ValueError as error:
                self.problem(problems, place, str(error))

    def _standing(self, problems: list[Problem]) -> Iterator[Sample]:
        return (sample for sample in self.samples(problems) if sample.place not in self._dropped)

    def _cell(self, place: int, trace_id: str, epoch: int, turn: int, verdict: _Verdict) -> Cell:
        return Cell(
            place=place,
            trace_id=trace_id,
            attempt=epoch - 1,
            turn=turn,
            category=verdict.category,
            score=verdict.score,
            state=verdict.state,
            rationale=verdict.note,
            cluster=self._clusters.get(trace_id),
            judge=self.judge,
            fingerprint=self.fingerprint,
            target=self.target,
        )

    # What a sample says.

    def _verdicts(self, sample: Sample) -> list[list[_Verdict]]:
        """Return a sample's verdicts by turn."""
        if "turns" not in self.options or sample.state or not self._graded(sample):
            return [self._by_sample(sample)]
        turns: list[list[_Verdict]] = []
        for scorer, grade in self._graded(sample):
            for turn, verdicts in enumerate(self._by_turn(sample, scorer, grade)):
                turns += [[]] if turn == len(turns) else []
                turns[turn] += verdicts
        return turns

    def _graded(self, sample: Sample) -> list[tuple[str, Grade]]:
        return [(name, sample.grades[name]) for name in self._scorers if name in sample.grades]

    def _by_sample(self, sample: Sample) -> list[_Verdict]:
        graded = self._graded(sample)
        if sample.state or not graded:
            state = sample.state or ("limit" if sample.limited else "missing")
            return [_without(category, state, sample.note) for category in self._categories]
        return [verdict for name, grade in graded for verdict in self._said(sample, name, grade.scores, grade.note)]

    def _said(
        self, sample: Sample, scorer: str, scores: Mapping[str, float | None], note: str | None
    ) -> list[_Verdict]:
        unscored = "limit" if sample.limited else "unscored"
        if not scores:
            return [_without(category, unscored, note) for category in self._scorers[scorer]]
        return [
            _Verdict(category=category, score=score, state=unscored if score is None else None, note=note)
            for category, score in scores.items()
        ]

    def _by_turn(self, sample: Sample, scorer: str, grade: Grade) -> list[list[_Verdict]]:
        """Return one scorer's verdicts by turn.

        A turn that the scorer's list does not reach is missing. A category that has no value as a whole has none in
        any turn: the judge did not stand by them. One whose value is worse than its turns has it at the last of them
        that is scored: at another it would hide that nobody judged that one.
        """
        if grade.turns is None:
            said = self._said(sample, scorer, grade.scores, grade.note)
            scored = [_without(verdict.category, verdict.state or "missing", grade.note) for verdict in said]
            return [scored for _ in range(max(1, sample.turns))]
        whole = grade.scores or dict.fromkeys(self._scorers[scorer])
        worse = self._worse(grade)
        turns = []
        for number, scores in enumerate(grade.turns):
            kept = {name: None if whole.get(name, 0.0) is None else score for name, score in scores.items()}
            kept |= {name: whole[name] for name, at in worse.items() if at == number}
            turns.append(self._said(sample, scorer, kept, grade.note))
        unreached = [_without(category, "missing") for category in self._scorers[scorer]]
        turns += [unreached for _ in range(max(1, sample.turns) - len(turns))]
        return turns

    def _count(self, sample: Sample) -> None:
        """Count what a pass collapses or passes over."""
        self.counts["failed_tries"] += sample.failed_tries
        self.counts["invalidated"] += sample.invalidated
        self.counts["scores_beside_errors"] += sample.dropped
        for _, grade in self._graded(sample):
            self.counts["edited_scores"] += grade.edited
            self.counts["texts_that_are_no_grade"] += grade.off_menu
            if grade.reason and not grade.scored:
                self.counts[f"reason {grade.reason[:40]}"] += 1
            if "turns" in self.options and grade.scored:
                self.counts["turns_not_listed"] += grade.turns is None
                self.counts["turns_that_do_not_match"] += grade.turns is not None and len(grade.turns) != sample.turns
                self.counts["values_unlike_their_turns"] += grade.turns is not None and bool(self._unlike(grade))
                self.counts["values_worse_than_their_turns"] += bool(self._worse(grade))

    def _unlike(self, grade: Grade) -> dict[str, tuple[float, dict[int, float]]]:
        """Return value and scores by turn of categories whose value is not that of their worst turn."""
        found = {}
        for category, value in grade.scores.items():
            listed = enumerate(grade.turns or ())
            turns = {turn: score for turn, scores in listed if (score := scores.get(category)) is not None}
            if value is not None and (not turns or abs(self._worst(turns.values()) - value) > TOLERANCE):
                found[category] = value, turns
        return found

    def _worse(self, grade: Grade) -> dict[str, int]:
        """Return the categories whose value is worse than that of each turn, with the last turn that has a score."""
        return {
            category: max(turns)
            for category, (value, turns) in self._unlike(grade).items()
            if turns and self._worst([value, *turns.values()]) == value
        }

    def _worst(self, scores: Iterable[float]) -> float:
        return min(scores) if self.higher_is == "better" else max(scores)

    # What the log says of itself.

    def _chosen(self, survey: _Survey) -> dict[str, tuple[str, ...]]:
        """Return the scorers to read, with their categories; those that nothing tells are named like the scorer."""
        named = {name.rpartition("/")[2]: entry for name, entry in self._entries().items()}
        known = list(survey.categories) or list(named) or _scorers_in(self._results)
        if not known:
            raise self.refuse("holds no scores and names no scorer, so there is nothing to read")
        asked = self.options.get("scorer")
        if asked is not None and asked not in (*known, *named):
            raise self.refuse(f"no scorer is called {quoted(asked)}; {nearest(asked, known)}")
        chosen = {}
        for scorer in known if asked is None else [asked]:
            names = survey.categories.get(scorer, {}) or _declared(named.get(scorer, {}), scorer, self._results)
            chosen[scorer] = tuple(names)
        self._refuse_collisions(chosen)
        return chosen

    def _refuse_collisions(self, chosen: Mapping[str, Sequence[str]]) -> None:
        owner: dict[str, str] = {}
        for scorer, names in chosen.items():
            for name in names:
                other = owner.setdefault(category_name(name), scorer)
                if other == scorer and [category_name(each) for each in names].count(category_name(name)) > 1:
                    raise self.refuse(
                        f"scorer {quoted(scorer)} has two categories called {quoted(category_name(name))}"
                    )
                if other != scorer:
                    raise self.refuse(
                        f"scorers {', '.join(map(quoted, chosen))} have categories of one name, such as "
                        f"{quoted(name)}; choose one: {self.READER},scorer={scorer}:{self.file.name}"
                    )

    def _entries(self) -> dict[str, dict[str, Any]]:
        listed = self._spec.get("scorers")
        entries = [_object(entry) for entry in listed] if isinstance(listed, list) else []
        return {entry["name"]: entry for entry in entries if isinstance(entry.get("name"), str)}

    def _judge(self) -> tuple[str, str]:
        """Return (name@version, fingerprint); several scorers are one judge."""
        entries = {name.rpartition("/")[2]: entry for name, entry in self._entries().items()}
        roles = _object(self._spec.get("model_roles"))
        names, configured = [], []
        for scorer in self._scorers:
            entry = entries.get(scorer)
            options = _object(entry and entry.get("options"))
            model = _model(options.get("model")) or (_model(roles.get("grader")) if "model" not in options else None)
            names.append(f"{scorer}({model})" if model else scorer)
            # Metrics are left out: they are computed from scores and change none.
            configured.append(entry and {key: value for key, value in entry.items() if key != "metrics"})
        version = self._spec.get("task_version")
        judge = f"{'+'.join(names)}@{UNKNOWN if version is None else version}"
        if not all(configured):
            return judge, UNKNOWN
        instrument = {"scorers": configured, "grader": roles.get("grader"), "inspect_ai": self.tool_version}
        try:
            text = json.dumps(instrument, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        except RecursionError:
            raise self.refuse("its scorers' options are nested too deep to be read") from None
        return judge, hashlib.sha256(text.encode()).hexdigest()

    def _planned_and_absent(self, survey: _Survey) -> Iterator[tuple[str, int]]:
        """Yield (trace id, epoch) of samples that were to be run and are not there.

        Old logs say how many there were to be, not which: such samples get names of their own.
        """
        dataset, config = _object(self._spec.get("dataset")), _object(self._spec.get("config"))
        epochs = _whole(config.get("epochs")) or 1
        ids = dataset.get("sample_ids")
        total = len(ids) * epochs if isinstance(ids, list) else self._planned_count(dataset, config, epochs)
        if total > MAX_PLANNED:
            raise self.refuse(f"plans {total} samples, which no log holds; at most {MAX_PLANNED} are read")
        if not isinstance(ids, list):
            yield from ((f"(absent {number})", 1) for number in range(1, total - survey.units + 1))
            return
        for trace_id in dict.fromkeys(str(item) for item in ids if isinstance(item, (int, str))):
            yield from ((trace_id, epoch) for epoch in range(1, epochs + 1) if not survey.has(trace_id, epoch))

    def _planned_count(self, dataset: Mapping[str, Any], config: Mapping[str, Any], epochs: int) -> int:
        total = _whole(self._results.get("total_samples"))
        if total is not None:
            return total
        if config.get("sample_id") is not None:
            return 0
        samples, limit = _whole(dataset.get("samples")) or 0, _whole(config.get("limit"))
        return min(samples, samples if limit is None else limit) * epochs

    # The tool's own figures.

    def _status(self) -> list[Headline]:
        status = str(self._log.header.get("status") or "no status")[:40] if self._log.complete else "unfinished"
        if status == "success" and not self._absent:
            return []
        there = self._present - len(self._dropped)
        why = "what was planned and is absent counts as missing" if self._absent else ""
        ours = f"{there} of {there + len(self._absent)} planned samples"
        return [Headline(what="status of the run", tool=status, ours=ours, why=why)]

    def _samples(self, tally: _Means) -> Headline:
        named = {"total": "total_samples", "completed": "completed_samples"}
        told = [f"{shown(self._results[key])} {what}" for what, key in named.items() if key in self._results]
        entries = _entries_in(self._results)
        counted = next((entry for entry in entries if entry.get("scored_samples") is not None), {})
        told += [
            f"{shown(counted[f'{what}_samples'])} {what}"
            for what in ("scored", "unscored")
            if f"{what}_samples" in counted
        ]
        return Headline(
            what="samples", tool=", ".join(told) or "no results", ours=tally.samples, why=self._why_counts(tally)
        )

    def _why_counts(self, tally: _Means) -> str:
        epochs = _whole(_object(self._spec.get("config")).get("epochs")) or 1
        reasons = []
        if not self._results:
            reasons.append("the log holds no results")
        if epochs > 1 and self._results:
            reasons.append(
                "the tool's total counts samples x epochs, its scored samples count ids, and those whose epochs all "
                "ended in an error are in neither scored nor unscored"
            )
        if tally.states and not tally.states["scored"]:
            reasons.append("no sample was scored, whatever the status says")
        return "; ".join(reasons)

    def _means(self, tally: _Means) -> Iterator[Headline]:
        for entry in _entries_in(self._results):
            name, scorer, reducer = (entry.get(key) for key in ("name", "scorer", "reducer"))
            for metric, held in _object(entry.get("metrics")).items():
                if metric.rpartition("/")[2] not in AVERAGES:
                    continue
                value = _object(held).get("value", held)
                beside = f", epochs by {reducer}" if reducer else ""
                what = f"{metric} of {name}" + (f" by {scorer}" if scorer not in (None, name) else "") + beside
                yield self._mean(tally, str(what), str(name), str(scorer or name), str(reducer or "mean"), value)

    def _mean(self, tally: _Means, what: str, name: str, scorer: str, reducer: str, value: Any) -> Headline:
        figure = _figure(value)
        told = shown(value) if figure is None else f"{figure:.6g}"
        if name not in self._scorers.get(scorer, ()):
            return Headline(
                what=what, tool=told, ours="not read", why="of another scorer, or of no category in a sample"
            )
        n, mean = tally.count[name], tally.mean(name)
        ours = "no score" if mean is None else f"{mean:.6g} over {n} scored"
        if mean is None or figure is None:
            return Headline(
                what=what,
                tool=told,
                ours=ours,
                why="the tool has no figure" if figure is None else "no sample has a score",
            )
        if abs(mean - figure) <= TOLERANCE:
            return Headline(what=what, tool=told, ours=ours)
        if reducer != "mean":
            why = f"the tool takes the {reducer} of a sample's epochs first; here every scored epoch counts by itself"
        elif tally.uneven:
            why = "the tool averages a sample's scored epochs first; here every scored epoch counts alike"
        else:
            why = "the tool's figure is not the mean of the scores that stand in the samples: were some edited?"
        return Headline(what=what, tool=told, ours=ours, why=why)


class _Survey:
    """A first pass: what there is in a log, and which of several runs of a sample stands.

    Attributes
    ----------
    categories : dict of str to dict
        Scorer -> its categories, in order.
    dropped : set of int
        Places of samples that do not stand.
    collapsed : Counter
    clusters : dict of str to str
        Trace -> cluster.
    present, units : int
        Samples; distinct ids and epochs.
    """

    def __init__(self, source: InspectSource) -> None:
        self._source = source
        self._cluster_key = source.options.get("cluster")
        self._problems: list[Problem] = []
        self._runs: dict[int, _Run] = {}
        self._ids: dict[bool, set[int]] = {False: set(), True: set()}
        self._uuids: dict[int, int] = {}
        self._lists: dict[str, None] = {}
        self._keys: dict[str, None] = {}
        self._listed = False
        self.categories: dict[str, dict[str, None]] = {}
        self.dropped: set[int] = set()
        self.collapsed: Counter[str] = Counter()
        self.clusters: dict[str, str] = {}
        self.present = 0
        for sample in source.samples(self._problems):
            self._add(sample)
        if self._problems:
            raise InputError(self._problems)
        self._check()

    @property
    def units(self) -> int:
        """Number of distinct ids and epochs."""
        return len(self._runs)

    def has(self, trace_id: str, epoch: int) -> bool:
        """Tell whether there is such a sample."""
        return hash((trace_id, epoch)) in self._runs

    def _add(self, sample: Sample) -> None:
        self.present = max(self.present, sample.place)
        trace = hash(sample.trace_id)
        self._ids[sample.numbered].add(trace)
        if trace in self._ids[not sample.numbered]:
            here, elsewhere = ("number", "text") if sample.numbered else ("text", "number")
            what = f"id {quoted(sample.trace_id)} is a {here} here and a {elsewhere} elsewhere; both would be one trace"
            self._refuse(sample, what)
        for scorer, grade in sample.grades.items():
            names = self.categories.setdefault(scorer, {})
            for scores in (grade.scores, *(grade.turns or ())):
                names.update(dict.fromkeys(scores))
            self._listed |= grade.turns is not None
            self._lists.update(dict.fromkeys(grade.lists))
        self._keys.update(dict.fromkeys(sample.metadata))
        self._cluster(sample)
        self._run(sample)

    def _cluster(self, sample: Sample) -> None:
        value = None if self._cluster_key is None else sample.metadata.get(self._cluster_key)
        if value is None:
            return
        if isinstance(value, (list, dict)):
            self._refuse(sample, f"its {quoted(self._cluster_key)} is a list or object; a cluster has a plain name")
            return
        cluster = str(value)
        if self.clusters.setdefault(sample.trace_id, cluster) != cluster:
            self._refuse(sample, f"trace {quoted(sample.trace_id)} is in another cluster elsewhere; a trace has one")

    def _run(self, sample: Sample) -> None:
        """Decide between runs of one sample and epoch."""
        key = hash((sample.trace_id, sample.epoch))
        if sample.uuid is not None and self._uuids.setdefault(hash(sample.uuid), key) != key:
            self._refuse(sample, f"its uuid {quoted(sample.uuid)} is that of another sample or epoch")
        scored = any(grade.scored for grade in sample.grades.values())
        run = _Run(place=sample.place, scored=scored, outcome=sample.outcome)
        before = self._runs.setdefault(key, run)
        if before is run:
            return
        if before.outcome == run.outcome:
            self.collapsed["duplicates"] += 1
            self.dropped.add(run.place)
        elif before.scored and run.scored:
            self._refuse(
                sample,
                f"sample {quoted(sample.trace_id)} has other scores for epoch {sample.epoch} in row {before.place}; "
                "which of them holds is not in the file",
            )
        else:
            self.collapsed["reruns"] += 1
            stands, falls = (before, run) if before.scored else (run, before)
            self.dropped.add(falls.place)
            self._runs[key] = stands

    def _check(self) -> None:
        source = self._source
        if not self.present:
            raise source.refuse("holds no samples, only the header of a log: there is nothing to read")
        turns = source.options.get("turns")
        if turns is not None and self.categories and not self._listed:
            here = f"lists there: {_some(self._lists)}"
            raise source.refuse(f"turns={turns}: no score's metadata lists turns under that key; {here}")
        if self._cluster_key is not None and not self.clusters:
            here = f"keys there: {_some(self._keys)}"
            raise source.refuse(f"cluster={self._cluster_key}: no sample's metadata has that key; {here}")

    def _refuse(self, sample: Sample, message: str) -> None:
        self._source.problem(self._problems, sample.place, message)


class _Means:
    """Means of scores, and counts of samples by what became of them.

    Attributes
    ----------
    count : Counter
        Scores by category.
    states : Counter
        Samples that are scored in every category, else by their first state.
    """

    def __init__(self) -> None:
        self.count: Counter[str] = Counter()
        self.states: Counter[str] = Counter()
        self._sums: dict[str, float] = {}

    def add(self, verdicts: Sequence[_Verdict]) -> None:
        """Count one sample."""
        found = {verdict.state for verdict in verdicts}
        self.states[next((state for state in STATES if state in found), "scored")] += 1
        for verdict in verdicts:
            if verdict.score is not None:
                self.count[verdict.category] += 1
                self._sums[verdict.category] = self._sums.get(verdict.category, 0.0) + verdict.score

    def mean(self, category: str) -> float | None:
        """Return the mean score of a category on the file's scale."""
        return self._sums[category] / self.count[category] if self.count[category] else None

    @property
    def uneven(self) -> bool:
        """Whether some samples have no score."""
        return any(state != "scored" for state in self.states)

    @property
    def samples(self) -> str:
        """The counts in words."""
        parts = [f"{self.states[state]} {state}" for state in ("scored", *STATES) if self.states[state]]
        return f"{sum(self.states.values())} = {' + '.join(parts)}"


def _without(category: str, state: str, note: str | None = None) -> _Verdict:
    return _Verdict(category=category, score=None, state=state, note=note)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _figure(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _model(value: Any) -> str | None:
    """Name a model, which newer logs describe by an object."""
    name = value.get("model") if isinstance(value, dict) else value
    return name if isinstance(name, str) and name else None


def _entries_in(results: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the results by scorer; logs of version 1 have those of one scorer at the top."""
    listed = results.get("scores")
    if isinstance(listed, list):
        return [_object(entry) for entry in listed]
    scorer = _object(results.get("scorer"))
    return [{**scorer, "metrics": results.get("metrics")}] if scorer else []


def _scorers_in(results: Mapping[str, Any]) -> list[str]:
    names = [entry.get("scorer", entry.get("name")) for entry in _entries_in(results)]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def _legacy_scorer(results: Mapping[str, Any]) -> str:
    return next(iter(_scorers_in(results)), "score")


def _declared(entry: Mapping[str, Any], scorer: str, results: Mapping[str, Any]) -> list[str]:
    """Name a scorer's categories where no sample does: by its metrics, the results, or itself."""
    metrics = entry.get("metrics")
    names: Iterable[Any] = [name for name in metrics if "*" not in name] if isinstance(metrics, dict) else ()
    reduced = [each.get("name") for each in _entries_in(results) if each.get("scorer") == scorer]
    return list(dict.fromkeys(name for name in (*names, *reduced) if isinstance(name, str))) or [scorer]


def _some(names: Iterable[str]) -> str:
    return ", ".join(map(quoted, list(names)[:12])) or "none"
