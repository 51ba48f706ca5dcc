"""golden set -> calibrated instrument -> record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from core.errors import InputError
from core.instrument.calibration import calibrate
from core.instrument.declared import declared_calibration
from core.instrument.golden_table import GoldenTable
from core.instrument.identity import judge_of_scores
from core.instrument.spec import UNKNOWN, DeclaredSpec, InstrumentSpec, JudgeIdentity, settled
from core.records import FileReference
from tasks import steps
from tasks.archive import Derived, Written, sealed, write_record
from tasks.cache import Result, result_key, write_result
from tasks.judges import AskingJudge, load_judge
from tasks.judges.run import judge_table
from tasks.readers import reader_names
from tasks.settings import settings
from tasks.steps import Runner, direct
from tasks.storage import InputFile, Place, find_inputs
from tasks.tables import (
    MemorySource,
    Progress,
    load_golden,
    load_golden_scores,
    no_progress,
    open_all,
    references,
    write_golden_maxima,
)

SCHEMA = "assay.calibration"


def derive_calibration(
    golden_files: Sequence[InputFile],
    score_files: Sequence[InputFile],
    judge_name: str | None,
    spec: InstrumentSpec,
    *,
    accept_judge: bool = False,
    progress: Progress = no_progress,
    run: Runner = direct,
    ask: bool = True,
    wanted: str = UNKNOWN,
) -> tuple[Derived, GoldenTable]:
    """Calibrate from files; everything that the record's id covers, and the table behind it.

    Without `ask`, a judge that asks a service is taken at its kept answers; they are of the `wanted` version.
    """
    spec = settled(spec)
    if judge_name is not None and spec.kind == "detections":
        raise InputError.of(
            f"instrument {spec.name!r}", "is of kind detections, and a registered judge gives scores: give --detections"
        )
    golden, reader, inputs = run(
        steps.READ_GOLDEN, lambda: load_golden(golden_files, categories=spec.categories, slices=spec.slices)
    )
    last_turn_only = spec.turn_scope == "last"
    if judge_name is None:
        scores, found = run(
            steps.READ_SCORES,
            lambda: load_golden_scores(open_all(score_files), golden, last_turn_only=last_turn_only, kind=spec.kind),
        )
        inputs = inputs + references(spec.kind, score_files, found.rows_by_file)
        judge, source, accepted = judge_of_scores(
            found.judges,
            found.fingerprints,
            spec.judge,
            accept=accept_judge,
            where=score_files[0].name,
            expected="the instrument's",
        )
    else:
        worker = load_judge(judge_name)
        judge = JudgeIdentity(name=worker.name, version=worker.version, fingerprint=worker.fingerprint)
        _accepted(spec, judge, accept_judge)  # before anything is paid for
        source = "ran"
        texts = reader.texts().rename(columns={"trace": "trace_id"})
        judgement = run(
            steps.JUDGE,
            lambda: judge_table(worker, texts, settings().cache_dir, progress, ask=ask, wanted=wanted),
        )
        judge = judgement.judge
        accepted = _accepted(spec, judge, accept_judge)  # its answers may be the first to say its version
        names = [name for name in golden.categories if name in worker.categories]
        judged = [MemorySource(f"judge {judge}", judgement.table.select(["trace_id", "turn", "state", *names]))]
        scores, found = load_golden_scores(judged, golden, last_turn_only=last_turn_only)
    calibration, golden_table = run(
        steps.CALIBRATE,
        lambda: calibrate(golden, scores, spec, judge=judge, judge_source=source, judge_accepted=accepted),
    )
    known = replace(calibration, sources=found.sources)
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=known), golden_table


def _accepted(spec: InstrumentSpec, judge: JudgeIdentity, accept_judge: bool) -> bool:
    """Whether the judge is another one than declared, and was accepted; refuses it where it was not."""
    other = spec.judge is not None and not spec.judge.agrees_with(judge)
    if other and not accept_judge:
        raise InputError.of("instrument", f"is declared for judge {spec.judge}, but {judge} is to run")
    return other


def derive_declared(spec: DeclaredSpec) -> Derived:
    """Make a calibration from declared rates; it has no inputs but its spec."""
    inputs: list[FileReference] = []
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=declared_calibration(spec))


def run_calibration(
    golden: Sequence[str],
    scores: Sequence[str],
    judge: str | None,
    spec: InstrumentSpec,
    *,
    confidence_level: float | None = None,
    accept_judge: bool = False,
    output: Place | None = None,
    progress: Progress = no_progress,
    run: Runner = direct,
    reuse: bool = False,
    wanted: str = UNKNOWN,
) -> Written:
    """Calibrate and write the record with its golden maxima.

    Parameters
    ----------
    golden, scores : sequence of str
        ``[READER:]PATH`` arguments; detections in place of scores, for an instrument of that kind.
    judge : str or None
        The registered judge to run on the golden set's texts, instead of scores.
    spec : InstrumentSpec
    confidence_level, accept_judge, output, progress
        As on the command line.
    run : Runner
        Who carries out the steps.
    reuse : bool
        Whether a record from the result cache will do.
    wanted : str
        The version of the judge that is to run, for one whose answers tell it.
    """
    if confidence_level is not None:
        spec = replace(spec, confidence_level=confidence_level)
    readers = reader_names()
    golden_files, score_files = run(steps.FIND, lambda: [find_inputs(named, readers) for named in (golden, scores)])

    def compute(folder: Path) -> Result:
        derived, table = derive_calibration(
            golden_files, score_files, judge, spec,
            accept_judge=accept_judge, progress=progress, run=run, wanted=wanted,
        )  # fmt: skip
        maxima = folder / "golden_maxima.parquet"
        rows = write_golden_maxima(table, maxima)
        return Result(document=sealed(derived), outputs=(("golden_maxima", maxima, rows),))

    key = None
    worker = load_judge(judge) if reuse and judge else None
    # A service may have failed on some texts: asking again is cheap (its answers are kept) and may mend that.
    if reuse and not isinstance(worker, AskingJudge):
        files = {"golden": golden_files, "scores": score_files}
        fingerprint = worker.fingerprint if worker else ""
        key = result_key(SCHEMA, spec, files, judge=[judge, fingerprint], accept=accept_judge)
    return write_result(key, compute, output, run)


def run_declared(spec: DeclaredSpec, *, confidence_level: float | None = None, output: Place | None = None) -> Written:
    """Write the record of a declared calibration."""
    if confidence_level is not None:
        spec = replace(spec, confidence_level=confidence_level)
    return write_record(sealed(derive_declared(spec)), output, [])
