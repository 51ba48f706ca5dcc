"""predictions or outputs, spec -> audit -> record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from core.errors import InputError, MismatchError, Problem
from core.fairness.outputs_spec import OutputsSpec
from core.fairness.spec import AuditSpec
from core.records import FileReference, plain
from tasks import steps
from tasks.archive import Derived, Written, sealed
from tasks.audit_specs import FILE_KEYS, LoadedAudit, Spec, load_audit, rebuilt
from tasks.audits import LoadedOutputs, load_outputs, load_predictions
from tasks.cache import Result, result_key, write_result
from tasks.finder import InputFinder
from tasks.readers import reader_names
from tasks.readers.embeddings import MODEL
from tasks.steps import Runner, direct
from tasks.storage import InputFile, Place, file_digest, find_inputs
from tasks.tables import Progress, no_progress

SCHEMA = "assay.audit"
BASELINE = "baseline"
"""The role of the outputs of an older release; those that are audited have the audit's kind."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditInputs:
    """The files of an audit.

    Attributes
    ----------
    data : sequence of InputFile
        Predictions or outputs.
    baseline : sequence of InputFile
        Outputs of an older release.
    named : mapping of str to InputFile
        Files that the spec names, by its key.
    """

    data: Sequence[InputFile]
    baseline: Sequence[InputFile] = ()
    named: Mapping[str, InputFile]


def derive_audit(spec: Spec, inputs: AuditInputs, *, progress: Progress = no_progress) -> Derived:
    """Audit; everything that the record's id covers.

    Parameters
    ----------
    spec : AuditSpec or OutputsSpec
    inputs : AuditInputs
    progress : callable
        Hears of rows that are read.

    Raises
    ------
    InputError
        All that is wrong with the files, or a baseline for predictions.
    """
    if isinstance(spec, OutputsSpec):
        result, read = _outputs(spec, inputs, progress)
    else:
        result, read = _predictions(spec, inputs, progress)
    named = [FileReference(role=key, uri=file.uri, sha256=file_digest(file.path)) for key, file in inputs.named.items()]
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=[*read, *named], result=result)


def _predictions(spec: AuditSpec, inputs: AuditInputs, progress: Progress) -> tuple[Any, list[FileReference]]:
    from core.fairness.audit import audit_predictions

    if inputs.baseline:
        raise InputError.of("audit", "a baseline goes with outputs; predictions are compared within one audit")
    loaded = load_predictions(inputs.data, spec, progress)
    return audit_predictions(spec, loaded.table), loaded.inputs


def _outputs(spec: OutputsSpec, inputs: AuditInputs, progress: Progress) -> tuple[Any, list[FileReference]]:
    """Audit outputs, and compare them with those of the baseline, if there is one."""
    from core.fairness.text_audit import audit_outputs

    after, *older = _both(spec, inputs, progress)
    change = None
    if older:
        from core.fairness.text_comparison import compare_outputs

        change = plain(compare_outputs(spec, older[0].table, after.table))
    read = list(dict.fromkeys(item for loaded in (after, *older) for item in loaded.inputs))  # one model makes both
    return {**plain(audit_outputs(spec, after.table)), "comparison": change}, read


def _both(spec: OutputsSpec, inputs: AuditInputs, progress: Progress) -> list[LoadedOutputs]:
    """Read the outputs and, if there are some, those of the baseline; what is wrong with either is told for both."""
    loaded: list[LoadedOutputs] = []
    problems: list[Problem] = []
    for role, files in ((spec.kind, inputs.data), (BASELINE, inputs.baseline)):
        try:
            loaded += [load_outputs(files, spec, progress, role=role)] if files else []
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return loaded


def run_audit(
    files: Sequence[str],
    spec: Path,
    *,
    baseline: Sequence[str] = (),
    confidence_level: float | None = None,
    output: Place | None = None,
    progress: Progress = no_progress,
    run: Runner = direct,
    reuse: bool = False,
) -> Written:
    """Audit and write the record.

    Parameters
    ----------
    files : sequence of str
        ``[READER:]PATH`` or ``s3://`` addresses of predictions or outputs.
    spec : Path
        What is audited, and how.
    baseline : sequence of str
        Outputs of an older release, to compare with.
    confidence_level : float, optional
        In the place of the spec's.
    output : Path or S3Url, optional
    progress : callable
        Hears of rows that are read.
    run : Runner
        Who carries out the steps.
    reuse : bool
        Whether a record from the result cache will do.
    """
    loaded = asked(load_audit(spec), confidence_level)
    inputs = run(steps.FIND, lambda: _found(loaded, files, baseline))

    def compute(_: Path) -> Result:
        derived = run(steps.AUDIT, lambda: derive_audit(loaded.spec, inputs, progress=progress))
        return Result(document=sealed(derived), outputs=())

    key = None
    if reuse:
        named = {role: [file] for role, file in inputs.named.items()}
        data = {loaded.spec.kind: inputs.data, BASELINE: inputs.baseline, **named}
        key = result_key(SCHEMA, loaded.spec, data)
    return write_result(key, compute, output, run)


def asked(loaded: LoadedAudit, confidence_level: float | None) -> LoadedAudit:
    """Put what the command line says in the place of what the spec says."""
    if confidence_level is None:
        return loaded
    return replace(loaded, spec=replace(loaded.spec, confidence_level=confidence_level))


def _found(loaded: LoadedAudit, files: Sequence[str], baseline: Sequence[str]) -> AuditInputs:
    names = reader_names()
    return AuditInputs(
        data=find_inputs(files, names),
        baseline=find_inputs(baseline, names),
        named={key: InputFile(path=path, name=str(path)) for key, path in loaded.files.items()},
    )


def audit_again(recorded: Mapping[str, Any], inputs: Sequence[Any], finder: InputFinder, progress: Progress) -> Derived:
    """Derive an audit's record from the files that it was made of."""
    named = {key: file for key in FILE_KEYS for file in finder.files(inputs, key)}
    spec = rebuilt(recorded, {key: file.path for key, file in named.items()})
    found = AuditInputs(data=finder.files(inputs, spec.kind), baseline=finder.files(inputs, BASELINE), named=named)
    derived = derive_audit(spec, found, progress=progress)
    models = {item["sha256"] for item in inputs if item["role"] == MODEL}
    for item in derived.inputs:
        if item.role == MODEL and models and item.sha256 not in models:
            raise MismatchError(f"{item.uri}: this model has changed since the record was made")
    return derived
