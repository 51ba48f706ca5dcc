"""a calibration, the judge now -> its answers on anchors, then and now -> same, changed or insufficient -> record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from core.errors import InputError, RecordError
from core.instrument.anchors import Anchors
from core.instrument.golden_table import GoldenTable
from core.instrument.spec import JudgeIdentity
from core.instrument.watch import identity_change, watch
from core.instrument.watched import Verdict, Watched, WatchSpec
from core.records import Document, FileReference, build
from tasks import steps
from tasks.archive import Derived, FoundCalibration, Written, find_calibration, sealed, write_record
from tasks.certificates import MAXIMA, find_golden_maxima
from tasks.finder import InputFinder
from tasks.readers import reader_names
from tasks.specs import build_spec
from tasks.steps import Runner, direct
from tasks.storage import InputFile, Place, find_inputs
from tasks.tables import Progress, no_progress, references
from tasks.watches import (
    WATCH,
    Answers,
    Earlier,
    anchors_of,
    ask_again,
    earlier_watches,
    golden_table,
    identity_of,
    installed,
    read_answers,
)

SCHEMA = "assay.watch"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """A watch that was written, and what a calibration that follows it is made from.

    Attributes
    ----------
    written : Written
    golden : tuple of str
        The golden set of the calibration that was watched.
    can_calibrate : {'judge', 'scores', None}
        Whether the registered judge can be asked about all of it, the given scores cover it, or neither.
    """

    written: Written
    golden: tuple[str, ...]
    can_calibrate: Literal["judge", "scores"] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Now:
    """The judge as it is now: who it is, what it answered, if it was asked, and whether it can be asked more."""

    judge: JudgeIdentity
    answers: Answers | None = None
    can_calibrate: Literal["judge", "scores"] | None = None


def derive_watch(
    found: FoundCalibration,
    table: GoldenTable | None,
    maxima: InputFile | None,
    answers: Answers | None,
    spec: WatchSpec,
    earlier: Earlier,
) -> Derived:
    """Hold the judge against its calibration; everything that the record's id covers.

    Parameters
    ----------
    found : FoundCalibration
    table, maxima : GoldenTable, InputFile or None
        What the judge answered then, and its file.
    answers : Answers or None
        What it answers now; None compares identities alone.
    spec : WatchSpec
    earlier : Earlier
        The watches that the spec names.
    """
    result = watch(
        found.calibration,
        table,
        None if answers is None else answers.scores,
        spec,
        calibration_id=str(found.document["id"]),
        earlier=earlier.watches,
    )
    inputs = [found.reference, *earlier.references]
    if table is not None and maxima is not None and answers is not None:
        inputs += [*references(MAXIMA, [maxima], [len(table.trace_ids)]), *answers.references]
    return Derived(schema=SCHEMA, spec=spec, seed=found.calibration.seed, inputs=inputs, result=result)


def run_watch(
    calibration: str,
    *,
    scores: Sequence[str] = (),
    judge: JudgeIdentity | None = None,
    spec: WatchSpec | None = None,
    output: Place | None = None,
    progress: Progress = no_progress,
    tracking_uri: str | None = None,
    tell: Tell = lambda _: None,
    run: Runner = direct,
) -> Watch:
    """Watch a judge and write the record.

    Parameters
    ----------
    calibration : str
        A reference to the calibration that it is held against.
    scores : sequence of str
        ``[READER:]PATH`` arguments: its scores on golden traces now. Without them the registered judge is asked.
    judge : JudgeIdentity, optional
        Who it is now, where neither scores nor a registered judge say so.
    spec : WatchSpec, optional
        What is asked for; judge and series are filled in.
    output : Path or S3Url, optional
    progress : callable
        Hears of texts that are judged.
    tracking_uri : str, optional
        Where the reference leads, and where the watches before are.
    tell : callable
        Hears why answers are left out.
    run : Runner
        Who carries out the steps.
    """
    asked = spec or WatchSpec()
    found = run(steps.CHOOSE, lambda: find_calibration(calibration, tracking_uri))
    maxima = run(steps.FIND, lambda: find_golden_maxima(found, tracking_uri))
    table = None if maxima is None else run(steps.READ_MAXIMA, lambda: golden_table(found, maxima))
    anchors = None if table is None else anchors_of(found, table, asked.anchors)
    now = _now(found, table, anchors, scores, judge, progress, tell, run)
    earlier = Earlier()
    if anchors is not None and now.answers is not None:
        earlier = run(steps.FIND_WATCHES, lambda: earlier_watches(found, anchors, tracking_uri))
    asked = replace(
        asked, judge=now.judge, earlier=tuple(item.sha256 for item in earlier.references), look=earlier.n + 1
    )
    derived = run(steps.WATCH, lambda: derive_watch(found, table, maxima, now.answers, asked, earlier))
    written = run(steps.WRITE, lambda: write_record(sealed(derived), output, []))
    golden = tuple(str(item["uri"]) for item in found.document["inputs"] if item["role"] == "golden")
    return Watch(written=written, golden=golden, can_calibrate=now.can_calibrate)


def _now(
    found: FoundCalibration,
    table: GoldenTable | None,
    anchors: Anchors | None,
    scores: Sequence[str],
    judge: JudgeIdentity | None,
    progress: Progress,
    tell: Tell,
    run: Runner,
) -> Now:
    """Find out who the judge is now, and ask it about the anchors where that can be done."""
    if scores:
        if table is None:
            raise InputError.of(str(found.place), "has no golden answers that scores could be held against")
        files = run(steps.FIND, lambda: find_inputs(scores, reader_names()))
        answers = run(steps.READ_SCORES, lambda: read_answers(files, found, table))
        whole = set(table.trace_ids) <= set(answers.scores.trace_ids)
        return Now(judge=answers.judge, answers=answers, can_calibrate="scores" if whole else None)
    name = (judge or found.calibration.judge).name
    worker = installed(name)
    if judge is not None and (worker is None or not judge.agrees_with(identity_of(worker))):
        tell(f"{judge} is not installed here: only who it is was compared")
        return Now(judge=judge)
    if worker is None:
        raise InputError.of("watch", f"judge {name!r} is not registered here; name its --scores on the golden set")
    here = identity_of(worker)
    if table is None or anchors is None:
        return Now(judge=here, can_calibrate="judge")
    try:
        ids = [table.trace_ids[row] for row in anchors.rows]
        file = run(steps.ASK_AGAIN, lambda: ask_again(worker, found, ids, progress))
        answers = run(steps.READ_SCORES, lambda: read_answers([file], found, table))
        return Now(judge=answers.judge, answers=answers, can_calibrate="judge")  # its answers may tell its version
    except InputError as error:
        if identity_change(found.calibration.judge, here) != "differs":
            raise
        tell(f"only who the judge is was compared: {error}")
        return Now(judge=here)


def watched_again(document: Document, finder: InputFinder) -> Derived:
    """Derive a watch from what its record names."""
    spec = build_spec(document["spec"], WatchSpec, "the record's spec")
    inputs: list[Any] = document["inputs"]
    found = finder.calibration(inputs)
    maxima = finder.golden_maxima(inputs, found)
    table = None if maxima is None else golden_table(found, maxima)
    answers = None
    if table is not None:
        answers = read_answers(_answer_files(inputs, finder), found, table)
    return derive_watch(found, table, maxima, answers, spec, _earlier(spec, inputs, finder))


def _answer_files(inputs: Sequence[Any], finder: InputFinder) -> list[InputFile]:
    return [file for kind in ("scores", "detections") for file in finder.files(inputs, kind)]


def held_against(watched: Written, reference: str, tracking_uri: str | None = None) -> Verdict | None:
    """Hold the answers of a watch against what another calibration stored.

    Parameters
    ----------
    watched : Written
        The watch.
    reference : str
        To a calibration of the same judge.
    tracking_uri : str, optional
        Where it leads.

    Returns
    -------
    {'same', 'changed', 'insufficient'} or None
        ``insufficient`` for a watch without answers; None where the calibration has none that they could be held
        against.
    """
    document = watched.document
    if document["result"]["anchors"] is None:
        return "insufficient"
    spec = build_spec(document["spec"], WatchSpec, "the record's spec")
    try:
        found = find_calibration(reference, tracking_uri)
        maxima = find_golden_maxima(found, tracking_uri)
        if maxima is None or not found.calibration.composite.categories:
            return None
        table = golden_table(found, maxima)
        answers = read_answers(_answer_files(document["inputs"], InputFinder(watched.path, ())), found, table)
    except (InputError, RecordError):
        return None
    # All traces that were answered take part, and that the others were not asked about is no failure.
    every = replace(spec, anchors=max(spec.anchors, len(table.trace_ids)), error_budget=1.0, earlier=(), look=1)
    return watch(found.calibration, table, answers.scores, every).verdict


def _earlier(spec: WatchSpec, inputs: Sequence[Any], finder: InputFinder) -> Earlier:
    """Find the earlier watches in the order that the spec names them."""
    by_id = {item["sha256"]: item for item in inputs if item["role"] == WATCH}
    watches, named = [], []
    for record in spec.earlier:
        if record not in by_id:
            raise InputError.of("the record", f"names watch {record[:12]} in its spec, and not among its inputs")
        document, place = finder.recorded(by_id[record])
        watches.append(build(Watched, document["result"], where=f"{place}: result"))
        named.append(FileReference(role=WATCH, uri=str(by_id[record]["uri"]), sha256=record))
    return Earlier(watches=tuple(watches), references=tuple(named), n=spec.look - 1)
