"""known truth -> drawn golden sets and production -> how often the intervals hold it -> record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from core.errors import InputError
from core.instrument.calibrated import Calibration
from core.instrument.spec import InstrumentSpec, OptimismSpec
from core.records import FileReference, plain
from core.simulation.spec import (
    CertificateSpec,
    ChainSpec,
    CorrectionSpec,
    GoldenSize,
    JudgeRates,
    ObservedRateSpec,
    SimulationSpec,
)
from tasks import steps
from tasks.archive import Derived, FoundCalibration, Written, find_calibration, sealed
from tasks.cache import Result, result_key, write_result
from tasks.certificates import MAXIMA, find_golden_maxima, note_certificate
from tasks.specs import build_simulation, build_spec
from tasks.steps import Runner, direct
from tasks.storage import InputFile, Place
from tasks.tables import Progress, no_progress, read_golden_maxima, references
from tasks.workers import Workers, carried_out, work_of

if TYPE_CHECKING:
    from core.simulation.stage import Stage

SCHEMA = "assay.simulation"

StageNumber = Literal[1, 2, 3]
Begin = Callable[[int], Progress]
"""Is told how many replications there are in all, and gives the callback that hears of each."""


def no_beginning(_: int) -> Progress:
    """Report to nobody."""
    return no_progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Certified:
    """What a certificate is made from: a calibration, and its golden maxima unless it is a declared one."""

    found: FoundCalibration
    maxima: InputFile | None

    @property
    def id(self) -> str:
        """The calibration's id."""
        return str(self.found.document["id"])


def derive_simulation(
    spec: SimulationSpec,
    certified: Certified | None = None,
    *,
    workers: Workers = 1,
    begin: Begin = no_beginning,
    run: Runner = direct,
) -> Derived:
    """Simulate; everything that the record's id covers.

    Parameters
    ----------
    spec : SimulationSpec
    certified : Certified, optional
        For a `CertificateSpec`.
    workers : Workers
        Who simulates; the result does not depend on it.
    begin : Begin
    run : Runner
    """
    stage, inputs = _stage(spec, certified, run)
    total = sum(map(work_of, stage.chunks()))
    result = run(steps.SIMULATE, lambda: stage.result(carried_out(stage, workers=workers, progress=begin(total))))
    return Derived(schema=SCHEMA, spec=spec, seed=spec.seed, inputs=inputs, result=result)


def _stage(spec: SimulationSpec, certified: Certified | None, run: Runner) -> tuple[Stage, list[FileReference]]:
    # Imported here: the stages bring all of the instrument with them, which looking at a record does not need.
    if not isinstance(spec, CertificateSpec):
        from core.simulation.stages import stage_of

        return stage_of(spec), []
    from core.simulation.certificate import certificate_stage

    if certified is None:
        raise InputError.of("simulate", "a certificate is of a calibration, and none is named")
    found, maxima = certified.found, certified.maxima
    calibration, inputs = found.calibration, [found.reference]
    if maxima is None:
        return certificate_stage(spec, calibration, certified.id, None, None), inputs
    n_unmatched = 0 if calibration.golden is None else calibration.golden.n_unmatched
    table = run(
        steps.READ_MAXIMA,
        lambda: read_golden_maxima(maxima, tuple(calibration.categories), n_unmatched=n_unmatched),
    )
    inputs += references(MAXIMA, [maxima], [len(table.trace_ids)])
    instrument = build_spec(found.document["spec"], InstrumentSpec, "the calibration's spec")
    return certificate_stage(spec, calibration, certified.id, table, instrument), inputs


def simulation_spec(
    stage: StageNumber | None,
    *,
    instrument: InstrumentSpec | None = None,
    calibration: Calibration | None = None,
    confidence_level: float | None = None,
    replications: int | None = None,
    seed: int | None = None,
    grid: Mapping[str, Any] | None = None,
) -> SimulationSpec:
    """Say what a simulation is asked for.

    Parameters
    ----------
    stage : {1, 2, 3}, optional
        3 by default; with a calibration that is its certificate.
    instrument : InstrumentSpec, optional
        Whose level, floor, optimism, interval and turn strata are simulated.
    calibration : Calibration, optional
        Whose judge and counts are simulated.
    confidence_level, replications, seed
        What is not given is the instrument's, the calibration's or the stage's own.
    grid : mapping
        Fields of the stage's spec, as plain data.

    Raises
    ------
    InputError
        What the stage does not have, or is out of range.
    """
    base = _base(stage or 3, instrument, calibration, confidence_level)
    asked = {**(grid or {}), "replications": replications, "seed": seed}
    data = {**plain(base), **plain({name: value for name, value in asked.items() if value is not None})}
    return build_simulation(data, "simulate")


def _base(
    stage: StageNumber,
    instrument: InstrumentSpec | None,
    calibration: Calibration | None,
    confidence_level: float | None,
) -> SimulationSpec:
    if instrument is not None and instrument.kind != "scores":
        raise InputError.of(
            f"instrument {instrument.name!r}",
            f"is of kind {instrument.kind}: no threshold is fitted, nothing to simulate; name the detector's "
            "--calibration for its certificate",
        )
    if calibration is not None and stage == 3:
        if confidence_level is not None:
            raise InputError.of("simulate", "a certificate is made at its calibration's own confidence level")
        return CertificateSpec()
    declares = calibration or instrument or ChainSpec().instrument
    level = declares.confidence_level if confidence_level is None else confidence_level
    if stage == 1:
        return ObservedRateSpec(confidence_level=level)
    if stage == 2:
        spec = CorrectionSpec(confidence_level=level, detection_floor=declares.detection_floor)
        return spec if calibration is None else _corrected_as(calibration, spec)
    return _chain(ChainSpec(), instrument, level)


def _corrected_as(calibration: Calibration, spec: CorrectionSpec) -> CorrectionSpec:
    """Take the composite's judge, and golden traces as many as its own are worth independent ones."""
    composite = calibration.composite
    if composite.sensitivity is None or composite.specificity is None or composite.effective is None:
        raise InputError.of(
            f"calibration of {calibration.instrument!r}", "its composite has no sensitivity and specificity to simulate"
        )
    judge = JudgeRates(sensitivity=composite.sensitivity, specificity=composite.specificity)
    positive, negative = (max(1, round(n)) for n in (composite.effective.n_positive, composite.effective.n_negative))
    return replace(spec, judges=(judge,), golden=(GoldenSize(n_positive=positive, n_negative=negative),))


def _chain(spec: ChainSpec, instrument: InstrumentSpec | None, level: float) -> ChainSpec:
    """Take what an instrument declares, but for what belongs to a golden set of its own.

    Its default of 1000 resamples becomes the simulation's own number: they only take noise out of the optimism, and
    every replication pays for them.
    """
    if instrument is None:
        return replace(spec, instrument=replace(spec.instrument, confidence_level=level))
    optimism = spec.instrument.optimism if instrument.optimism == OptimismSpec() else instrument.optimism
    simulated = replace(instrument, categories=None, judge=None, slices=(), optimism=optimism, confidence_level=level)
    n_categories = len(instrument.categories) if instrument.categories else spec.n_categories
    return replace(spec, instrument=simulated, n_categories=n_categories)


def run_simulation(
    *,
    stage: StageNumber | None = None,
    calibration: str | None = None,
    instrument: InstrumentSpec | None = None,
    confidence_level: float | None = None,
    replications: int | None = None,
    seed: int | None = None,
    grid: Mapping[str, Any] | None = None,
    workers: Workers = 1,
    output: Place | None = None,
    begin: Begin = no_beginning,
    tracking_uri: str | None = None,
    run: Runner = direct,
    reuse: bool = False,
) -> Written:
    """Simulate and write the record.

    Parameters
    ----------
    stage, instrument, confidence_level, replications, seed, grid
        See `simulation_spec`.
    calibration : str, optional
        A reference to the calibration that is simulated.
    workers : Workers
    output : Path or S3Url, optional
    begin : Begin
        Hears of replications.
    tracking_uri : str, optional
        Where the calibration's reference leads.
    run : Runner
        Who carries out the steps.
    reuse : bool
        Whether a record from the result cache will do.
    """
    found = None if calibration is None else run(steps.CHOOSE, lambda: find_calibration(calibration, tracking_uri))
    spec = simulation_spec(
        stage,
        instrument=instrument,
        calibration=None if found is None else found.calibration,
        confidence_level=confidence_level,
        replications=replications,
        seed=seed,
        grid=grid,
    )
    certified = None
    if found is not None and isinstance(spec, CertificateSpec):
        maxima = run(steps.FIND, lambda: find_golden_maxima(found, tracking_uri))
        certified = Certified(found=found, maxima=maxima)

    def compute(_: Path) -> Result:
        return Result(
            document=sealed(derive_simulation(spec, certified, workers=workers, begin=begin, run=run)), outputs=()
        )

    key = None
    if reuse:
        files = [] if certified is None or certified.maxima is None else [certified.maxima]
        key = result_key(SCHEMA, spec, {MAXIMA: files}, calibration=certified and certified.found.reference)
    written = write_result(key, compute, output, run)
    if certified is not None:
        run(steps.NOTE, lambda: note_certificate(written))
    return written
