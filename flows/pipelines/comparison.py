"""measurements -> units joined in pairs -> change under one calibration -> record; and the same for a series."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from core.errors import AssayError, InputError
from core.inference.drift import score_drift
from core.instrument.compared import Comparison, ScoreShift
from core.instrument.comparison import compare, series
from core.instrument.comparison_spec import ComparisonSpec, SeriesRelease, SeriesSpec
from core.instrument.pairing import PairCounts
from core.records import FileReference
from flows.pipelines.measurement import run_measurement
from tasks import steps
from tasks.archive import Derived, FoundCalibration, Written, sealed
from tasks.cache import Result, result_key, write_result
from tasks.certificates import MAXIMA, Tell, find_golden_maxima
from tasks.histograms import golden_histograms, score_histograms
from tasks.releases import DECISIONS, Release, decisions_reference, find_release, pairs_of
from tasks.steps import Runner, direct
from tasks.storage import InputFile, Place
from tasks.tables import Progress, no_progress, read_golden_maxima, references

SCHEMA, SERIES_SCHEMA = "assay.comparison", "assay.series"
BASELINE, CANDIDATE, RELEASE = "baseline", "candidate", "measurement"
NO_COMMON_UNITS = (
    "no unit of one release is among the other's: the same conversations, with the same trace_id in both, would be "
    "compared one by one"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A comparison that was written, and the baseline's new measurement if one was made."""

    written: Written
    remeasured: Written | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Two:
    """Two releases with all that their comparison is made from.

    Attributes
    ----------
    releases : (Release, Release)
    calibrations : (FoundCalibration, FoundCalibration)
        The same one twice, or two.
    decisions : (InputFile, InputFile) or None
        None compares unpaired.
    scores : ((InputFile, ...), (InputFile, ...)) or None
        To show whether the scores moved.
    maxima : InputFile or None
        The golden set's scores, beside those.
    """

    releases: tuple[Release, Release]
    calibrations: tuple[FoundCalibration, FoundCalibration]
    decisions: tuple[InputFile, InputFile] | None
    scores: tuple[Sequence[InputFile], Sequence[InputFile]] | None = None
    maxima: InputFile | None = None

    @property
    def one_calibration(self) -> bool:
        """Whether both were measured with the same instrument."""
        return bool(self.calibrations[0].document["id"] == self.calibrations[1].document["id"])


def derive_comparison(
    two: Two, spec: ComparisonSpec, *, progress: Progress = no_progress, run: Runner = direct
) -> Derived:
    """Compare; everything that the record's id covers."""
    (baseline, candidate), (first, second) = two.releases, two.calibrations
    inputs = [
        baseline.reference(BASELINE), candidate.reference(CANDIDATE), first.reference,
        *([] if two.one_calibration else [replace(second.reference, role="candidate_calibration")]),
    ]  # fmt: skip
    pairs: PairCounts | None = None
    if two.decisions is not None:
        one, other = two.decisions
        pairs = run(steps.PAIR, lambda: pairs_of(one, other, first, progress))
        inputs += [decisions_reference(one, f"{BASELINE}_{DECISIONS}")]
        inputs += [decisions_reference(other, f"{CANDIDATE}_{DECISIONS}")]
    common = pairs if pairs is not None and pairs.n_pairs else None
    result = run(
        steps.COMPARE,
        lambda: compare(
            baseline.measurement,
            candidate.measurement,
            first.calibration,
            pairs=common,
            candidate_calibration=None if two.one_calibration else second.calibration,
            confidence_level=spec.confidence_level,
            seed=spec.seed,
        ),
    )
    if pairs is not common:
        result = replace(result, notes=(NO_COMMON_UNITS, *result.notes))
    if two.scores is not None:
        shift, more = run(steps.HISTOGRAMS, lambda: _score_shift(two, result, progress))
        result, inputs = replace(result, score_shift=shift), [*inputs, *more]
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=result)


def _score_shift(two: Two, result: Comparison, progress: Progress) -> tuple[ScoreShift, list[FileReference]]:
    known = two.calibrations[1].calibration
    names, level = tuple(known.categories), result.confidence_level
    inputs: list[FileReference] = []
    found = []
    for role, files in zip((BASELINE, CANDIDATE), two.scores or (), strict=True):
        counted, rows = score_histograms(files, names, last_turn_only=known.turn_scope == "last", progress=progress)
        found.append(counted)
        inputs += references(f"{role}_scores", files, rows)
    golden = {}
    if two.maxima is not None:
        table = read_golden_maxima(two.maxima, names)
        golden = golden_histograms(table)
        inputs += references(MAXIMA, [two.maxima], [len(table.trace_ids)])
    shift = ScoreShift(
        releases=score_drift(*found, confidence_level=level),
        golden_baseline=score_drift(golden, found[0], confidence_level=level),
        golden_candidate=score_drift(golden, found[1], confidence_level=level),
    )
    return shift, inputs


def derive_series(
    releases: Sequence[Release],
    calibrations: Mapping[str, FoundCalibration],
    decisions: Sequence[InputFile | None],
    spec: SeriesSpec,
    *,
    progress: Progress = no_progress,
    run: Runner = direct,
) -> Derived:
    """Line up releases; everything that the record's id covers."""
    inputs = [release.reference(RELEASE) for release in releases]
    inputs += [found.reference for found in calibrations.values()]
    files = {}
    for file, named in zip(decisions, spec.releases, strict=True):
        if file is not None and named.decisions is not None:
            files[named.decisions] = file
    inputs += [decisions_reference(file, DECISIONS) for file in files.values()]

    def joined() -> list[PairCounts | None]:
        steps_of: list[PairCounts | None] = []
        for (a, b), (one, other) in zip(itertools.pairwise(releases), itertools.pairwise(decisions), strict=True):
            calibration = a.measurement.calibration.id
            pairs = None
            if one is not None and other is not None and calibration == b.measurement.calibration.id:
                pairs = pairs_of(one, other, calibrations[calibration], progress)
            steps_of.append(pairs if pairs is not None and pairs.n_pairs else None)
        return steps_of

    pairs = run(steps.PAIR, joined)
    result = run(
        steps.COMPARE,
        lambda: series(
            [(release.id, release.measurement) for release in releases],
            {name: found.calibration for name, found in calibrations.items()},
            pairs=pairs,
            confidence_level=spec.confidence_level,
            seed=spec.seed,
        ),
    )
    return Derived(schema=SERIES_SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=result)


def run_comparison(
    references: Sequence[str],
    *,
    allow_different_calibration: bool = False,
    confidence_level: float | None = None,
    unpaired: bool = False,
    remeasure: bool = False,
    scores: bool = False,
    folders: Sequence[Path] = (),
    output: Place | None = None,
    progress: Progress = no_progress,
    tracking_uri: str | None = None,
    tell: Tell = lambda _: None,
    run: Runner = direct,
    reuse: bool = False,
) -> Compared:
    """Compare two releases, or line up more of them, and write the record.

    Parameters
    ----------
    references : sequence of str
        To measurements, in the order of the releases.
    allow_different_calibration, confidence_level, unpaired, remeasure, scores, output, progress
        As on the command line.
    folders : sequence of Path
        Where to look for what the measurements were made from.
    tracking_uri : str, optional
        Where references lead.
    tell : callable
        Hears why a comparison is not paired.
    run : Runner
        Who carries out the steps.
    reuse : bool
        Whether a record from the result cache will do.
    """
    if len(references) < 2:
        raise InputError.of("compare", "name two releases, the older first, or more for a series")
    releases = run(
        steps.FIND_RELEASES, lambda: [find_release(reference, folders, tracking_uri) for reference in references]
    )
    _refuse_same(releases)
    if len(releases) > 2:
        if allow_different_calibration or remeasure or scores:
            raise InputError.of(
                "compare", "--allow-different-calibration, --remeasure and --scores are for two releases; a series "
                "breaks where the instrument changes",
            )  # fmt: skip
        return _run_series(
            releases, confidence_level, unpaired=unpaired, output=output, progress=progress, tell=tell, run=run,
            reuse=reuse,
        )  # fmt: skip
    baseline, candidate = releases
    remeasured = None
    if baseline.measurement.calibration.id != candidate.measurement.calibration.id and not allow_different_calibration:
        if not remeasure:
            raise _refusal(baseline, candidate, references)
        remeasured = _remeasured(baseline, candidate, output, progress, tracking_uri, run)
        again = str(remeasured.path)
        baseline = run(steps.FIND_RELEASES, lambda: find_release(again, folders, tracking_uri))
    two = run(steps.FIND, lambda: _all_of(baseline, candidate, unpaired, scores, tracking_uri, tell))
    spec = ComparisonSpec(
        confidence_level=confidence_level,
        allow_different_calibration=allow_different_calibration,
        unpaired=unpaired,
        scores=scores,
        seed=two.calibrations[0].calibration.seed,
    )

    def compute(_: Path) -> Result:
        return Result(document=sealed(derive_comparison(two, spec, progress=progress, run=run)), outputs=())

    key = None
    if reuse:
        key = result_key(
            SCHEMA, spec,
            {"decisions": two.decisions or (), "scores": [file for files in two.scores or () for file in files]},
            releases=[baseline.reference(BASELINE), candidate.reference(CANDIDATE)],
            calibrations=[found.reference for found in two.calibrations],
        )  # fmt: skip
    return Compared(written=write_result(key, compute, output, run), remeasured=remeasured)


def _run_series(
    releases: Sequence[Release],
    confidence_level: float | None,
    *,
    unpaired: bool,
    output: Place | None,
    progress: Progress,
    tell: Tell,
    run: Runner,
    reuse: bool,
) -> Compared:
    calibrations, decisions = run(steps.FIND, lambda: _all_of_series(releases, unpaired, tell))
    named = [None if file is None else decisions_reference(file, DECISIONS).sha256 for file in decisions]
    spec = SeriesSpec(
        releases=tuple(
            SeriesRelease(measurement=release.id, decisions=sha256)
            for release, sha256 in zip(releases, named, strict=True)
        ),
        confidence_level=confidence_level,
        unpaired=unpaired,
        seed=int(releases[0].document["seed"]),
    )

    def compute(_: Path) -> Result:
        derived = derive_series(releases, calibrations, decisions, spec, progress=progress, run=run)
        return Result(document=sealed(derived), outputs=())

    key = None
    if reuse:
        key = result_key(
            SERIES_SCHEMA, spec, {DECISIONS: [file for file in decisions if file is not None]},
            releases=[release.reference(RELEASE) for release in releases],
        )  # fmt: skip
    return Compared(written=write_result(key, compute, output, run))


def _refuse_same(releases: Sequence[Release]) -> None:
    seen: dict[str, str] = {}
    for release in releases:
        if release.id in seen:
            raise InputError.of(release.uri, f"is the same measurement as {seen[release.id]}; name each release once")
        seen[release.id] = release.uri


def _all_of(
    baseline: Release, candidate: Release, unpaired: bool, scores: bool, tracking_uri: str | None, tell: Tell
) -> Two:
    calibrations = baseline.calibration, candidate.calibration
    same = calibrations[0].document["id"] == calibrations[1].document["id"]
    decisions = None if unpaired or not same else _both_decisions(baseline, candidate, tell)
    if not scores:
        return Two(releases=(baseline, candidate), calibrations=calibrations, decisions=decisions)
    return Two(
        releases=(baseline, candidate),
        calibrations=calibrations,
        decisions=decisions,
        scores=(baseline.scores(), candidate.scores()),
        maxima=find_golden_maxima(calibrations[1], tracking_uri),
    )


def _both_decisions(baseline: Release, candidate: Release, tell: Tell) -> tuple[InputFile, InputFile] | None:
    one, other = baseline.decisions, candidate.decisions
    if one is not None and other is not None:
        return one, other
    for release in (baseline, candidate):
        if release.decisions is None:
            tell(f"not paired: the decisions of {release.name} are not beside its record, and in no folder of --inputs")
    return None


def _all_of_series(
    releases: Sequence[Release], unpaired: bool, tell: Tell
) -> tuple[dict[str, FoundCalibration], list[InputFile | None]]:
    calibrations: dict[str, FoundCalibration] = {}
    for release in releases:
        wanted = release.measurement.calibration.id
        if wanted not in calibrations:
            calibrations[wanted] = release.calibration
    if unpaired:
        return calibrations, [None] * len(releases)
    for release in releases:
        if release.decisions is None:
            tell(f"not paired: the decisions of {release.name} are not beside its record, and in no folder of --inputs")
    return calibrations, [release.decisions for release in releases]


def _refusal(baseline: Release, candidate: Release, references: Sequence[str]) -> InputError:
    """Say why two instruments are not compared, and what can be done with what is at hand."""
    ids = (release.measurement.calibration.id[:12] for release in (baseline, candidate))
    told = [(
        f"the releases were measured with different calibrations ({' and '.join(ids)}): a difference could be the "
        "instruments' and not the releases'"
    )]  # fmt: skip
    judges = baseline.measurement.judge, candidate.measurement.judge
    again = f"assay measure SCORES --calibration {candidate.calibration.place}"
    if baseline.measurement.target:
        again += f" --target {baseline.measurement.target}"
    if not judges[0].agrees_with(judges[1]):
        told.append(
            f"the baseline was scored by {judges[0]}, the candidate by {judges[1]}: run that judge on the baseline's "
            f"conversations, then `{again}`"
        )
    else:
        try:
            baseline.scores()
        except AssayError as error:
            told.append(f"measure the baseline again: `{again}` (its scores are not where they were: {error})")
        else:
            told.append(
                "the baseline's scores are at hand: "
                f"`assay compare {references[0]} {references[1]} --remeasure` measures it again with the candidate's "
                "calibration and compares"
            )
    told.append("--allow-different-calibration compares all the same: unpaired, wider, and with a note")
    return InputError.of("compare", "\n  ".join(told))


def remeasured_beside(output: Place) -> Place:
    """Say where the baseline's new measurement goes: beside the comparison."""
    return output.with_name(f"{output.stem}.baseline.json")


def _remeasured(
    baseline: Release,
    candidate: Release,
    output: Place | None,
    progress: Progress,
    tracking_uri: str | None,
    run: Runner,
) -> Written:
    """Measure the baseline's scores with the candidate's calibration."""
    judges = baseline.measurement.judge, candidate.measurement.judge
    if not judges[0].agrees_with(judges[1]):
        raise InputError.of(
            "compare", f"the baseline cannot be measured again: its scores are of {judges[0]}, and the candidate's "
            f"calibration is of {judges[1]}; run that judge on the baseline's conversations and measure its scores",
        )  # fmt: skip
    files = run(steps.REMEASURE, baseline.scores)
    spec = baseline.document["spec"]
    return run_measurement(
        [file.uri for file in files],
        calibration=str(candidate.calibration.place),
        target=baseline.measurement.target,
        attempts=candidate.document["spec"]["attempts"],
        accept_judge=bool(spec["accept_judge"]),
        output=None if output is None else remeasured_beside(output),
        progress=progress,
        tracking_uri=tracking_uri,
        run=run,
    )
