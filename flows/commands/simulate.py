"""``assay simulate``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from flows.commands import (
    check_tracked,
    confidence_option,
    counted_progress,
    force_option,
    json_option,
    orchestrate_option,
    output_option,
    refuse_overwriting,
    run_flow,
    show,
    through_prefect,
    track,
    tracking_option,
    workers_option,
)

if TYPE_CHECKING:
    from rich.text import Text

    from flows.pipelines.simulation import StageNumber
    from tasks.archive import Written
    from tasks.storage import Place
    from tasks.workers import Workers


def _size(text: str) -> int:
    size = int(text)
    if size < 1:
        raise ValueError(text)
    return size


def _share(text: str) -> float:
    share = float(text)
    if not 0.0 <= share <= 1.0:
        raise ValueError(text)
    return share


def _sizes_of_classes(text: str) -> tuple[int, int | None]:
    positive, colon, negative = text.partition(":")
    return _size(positive), _size(negative) if colon else None


def _cluster_sizes(text: str) -> dict[str, int]:
    golden, production = text.split(":")
    return {"golden_size": _size(golden), "production_size": _size(production)}


def _judge(text: str) -> dict[str, float]:
    sensitivity, specificity = map(_share, text.split(","))
    return {"sensitivity": sensitivity, "specificity": specificity}


def _values(what: str, read: Callable[[str], Any], *, split: bool = True) -> dict[str, Any]:
    """Make an option whose values stand with commas between them, or that is repeated."""

    def callback(_: click.Context, __: click.Parameter, texts: tuple[str, ...]) -> list[Any]:
        try:
            return [read(item.strip()) for text in texts for item in (text.split(",") if split else [text])]
        except (ValueError, OverflowError):
            raise click.BadParameter(f"{', '.join(texts)!r} is not {what}") from None

    return {"multiple": True, "callback": callback}


SHARES = _values("a number from 0 to 1, or several with commas", _share)
SIZES = _values("a whole number from 1, or several with commas", _size)
GOLDEN = _values("a whole number from 1 or POSITIVE:NEGATIVE, or several with commas", _sizes_of_classes)
CLUSTERS = _values("GOLDEN:PRODUCTION, two whole numbers from 1, or several with commas", _cluster_sizes)
JUDGE = _values("SENS,SPEC: two numbers from 0 to 1", _judge, split=False)

APPLIES: dict[str, tuple[int | str, ...]] = {
    "rate": (1,),
    "units": (1, 2, 3, "certificate"),
    "prevalence": (2, 3, "certificate"),
    "replications": (2, 3, "certificate"),
    "golden": (2, 3),
    "judge": (2,),
    "youden_j": (3,),
    "clusters": (3,),
    "categories": (3,),
    "unlabelled": (3,),
    "unscored": (3,),
}
"""The stages in which an option means something."""

FIELDS = {
    "rate": "rates",
    "units": "n_units",
    "prevalence": "prevalences",
    "judge": "judges",
    "youden_j": "youden_j",
    "clusters": "clusters",
    "categories": "n_categories",
    "unlabelled": "unlabelled",
    "unscored": "unscored",
}
"""What the options are called in the spec of a simulation."""


@click.command(name="simulate")
@click.option(
    "--calibration", metavar="REF",
    help="Simulate at this calibration's own judge and counts: without --stage, make its certificate.",
)  # fmt: skip
@click.option(
    "--instrument", type=click.Path(path_type=Path), metavar="SPEC.yaml",
    help="Simulate with this instrument's level, floor, interval, turn strata and optimism (its default of 1000 "
    "resamples becomes 200 a replication).",
)  # fmt: skip
@click.option(
    "--stage", type=click.Choice(["1", "2", "3"]),
    help="1: the observed rate's intervals. 2: the corrected rate, with sensitivity and specificity known. 3 (the "
    "default): the whole chain.",
)  # fmt: skip
@click.option("--replications", type=click.IntRange(1, 1_000_000), metavar="N", help="Of every cell (stages 2, 3).")
@click.option("--seed", type=click.IntRange(0), metavar="N", help="Of all random numbers; default: 20261129.")
@click.option("--prevalence", **SHARES, metavar="P,...",
              help="True rates of violations (stages 2, 3).")  # fmt: skip
@click.option("--rate", **SHARES, metavar="P,...",
              help="True rates at which the judge flags (stage 1).")  # fmt: skip
@click.option("--units", **SIZES, metavar="N,...",
              help="Sizes of production.")  # fmt: skip
@click.option("--golden", **GOLDEN, metavar="N,...",
              help="Golden traces: of each class, or POSITIVE:NEGATIVE (stage 2); in all (stage 3).")  # fmt: skip
@click.option("--judge", **JUDGE, metavar="SENS,SPEC",
              help="A judge's sensitivity and specificity (stage 2; repeatable).")  # fmt: skip
@click.option("--youden-j", **SHARES, metavar="J,...",
              help="The composite's true J (stage 3).")  # fmt: skip
@click.option("--clusters", **CLUSTERS, metavar="GOLDEN:PRODUCTION,...",
              help="Traces a template and attempts of an attack; 1:1 for independent ones (stage 3).")  # fmt: skip
@click.option("--categories", type=click.IntRange(1, 10), metavar="N", help="How many categories (stage 3).")
@click.option("--unlabelled", type=click.FloatRange(0, 1, max_open=True), metavar="P",
              help="Share of golden labels that are missing (stage 3).")  # fmt: skip
@click.option("--unscored", type=click.FloatRange(0, 1, max_open=True), metavar="P",
              help="Share of turns without a score (stage 3).")  # fmt: skip
@confidence_option
@workers_option("simulate", "the cores that are available")
@output_option
@force_option
@json_option
@tracking_option
@orchestrate_option
def command(
    calibration: str | None,
    instrument: Path | None,
    stage: str | None,
    confidence_level: float | None,
    replications: int | None,
    seed: int | None,
    workers: Workers | None,
    output: Place | None,
    force: bool,
    as_json: bool,
    tracking_uri: str | None,
    orchestrate: bool,
    **grid: Any,
) -> None:
    """Show by simulation, with a known truth, how often the intervals hold it; certify a calibration.

    With --calibration the result is that calibration's certificate, which measurements find by themselves and carry. A
    coverage under 93%, where 95% is promised, is said in every measurement. Grid options take the place of the
    stage's own values; a cell is a combination of them.

    \b
    Examples:
      assay simulate --calibration calibration.json
      assay simulate --calibration models:/safety@champion --prevalence 0.01,0.05 --units 1000
      assay simulate --stage 1 --units 50,500 --rate 0.01
      assay simulate --stage 2 --judge 0.9,0.95 --golden 50,200:400 --replications 2000
      assay simulate --stage 2 --calibration calibration.json
      assay simulate --instrument instrument.yaml --youden-j 0.45 --golden 200 --clusters 1:1,8:5
    """  # noqa: D301 (click wants the character)
    from flows.pipelines.simulation import run_simulation, simulation_spec
    from tasks.reporting.simulation import simulation_report
    from tasks.specs import load_instrument
    from tasks.workers import available_cores, workers_or

    if calibration is not None and instrument is not None:
        raise click.UsageError("give --calibration or --instrument: a calibration has its instrument's declarations")
    refuse_overwriting(output, [calibration, instrument], force=force)
    number = cast("StageNumber", int(stage or 3))
    fields = _fields(number, grid, replications, calibration=calibration, confidence_level=confidence_level)
    spec = None if instrument is None else load_instrument(instrument)
    if calibration is None:  # what is out of range is told before Prefect is started
        simulation_spec(number, instrument=spec, confidence_level=confidence_level, grid=fields)
    asked: dict[str, Any] = {
        "stage": number, "calibration": calibration, "confidence_level": confidence_level,
        "replications": replications, "seed": seed, "grid": fields,
    }  # fmt: skip
    if through_prefect(orchestrate):
        from flows.simulate import simulate

        path = None if instrument is None else str(instrument.resolve())
        place = None if output is None else str(output)
        written = run_flow(simulate, tracking_uri, instrument=path, workers=workers, output=place, **asked)
        show(written, simulation_report, as_json=as_json, more=_how_found(written))
        check_tracked(written, tracking_uri)
        return
    with counted_progress("cells" if number == 1 else "replications") as begin:
        written = run_simulation(
            instrument=spec,
            workers=workers_or(workers, available_cores()),
            output=output,
            begin=begin,
            tracking_uri=tracking_uri,
            **asked,
        )
    show(written, simulation_report, as_json=as_json, more=_how_found(written))
    track(written, tracking_uri, as_json=as_json)


def _fields(
    stage: int,
    grid: dict[str, Any],
    replications: int | None,
    *,
    calibration: str | None,
    confidence_level: float | None,
) -> dict[str, Any]:
    """Turn the grid's options into fields of the spec, and refuse those that this stage does not have."""
    kind: int | str = "certificate" if calibration is not None and stage == 3 else stage
    given = {name: value for name, value in grid.items() if value is not None and value != []}
    for name in [*given, *([] if replications is None else ["replications"])]:
        if kind not in APPLIES[name]:
            where = "a certificate" if kind == "certificate" else f"stage {stage}"
            raise click.UsageError(f"--{name.replace('_', '-')} means nothing in {where}")
    if kind == "certificate" and confidence_level is not None:
        raise click.UsageError("a certificate is made at its calibration's own level, without --confidence-level")
    if calibration is not None and stage == 2 and given.keys() & {"judge", "golden"}:
        raise click.UsageError("--calibration says which judge and golden set; leave --judge and --golden out")
    fields = {FIELDS[name]: value for name, value in given.items() if name in FIELDS}
    if "golden" in given:
        fields |= _golden(stage, given["golden"])
    return fields


def _golden(stage: int, sizes: list[tuple[int, int | None]]) -> dict[str, Any]:
    if stage == 2:
        return {"golden": [{"n_positive": a, "n_negative": a if b is None else b} for a, b in sizes]}
    if any(negative is not None for _, negative in sizes):
        raise click.UsageError("--golden is one number in stage 3: the golden set's traces, of both classes")
    return {"n_golden": [size for size, _ in sizes]}


def _how_found(written: Written) -> Callable[[Any], Text | None]:
    """Say how measurements find a simulation, if it is a certificate."""

    def line(document: Any) -> Text | None:
        from tasks.archive import is_certificate
        from tasks.certificates import is_noted
        from tasks.reporting.terminal import words

        if not is_certificate(document):
            return None
        if is_noted(written):
            return words("measurements with this calibration find this certificate by themselves")
        return words(f"measurements find this certificate with --certificate {written.path}")

    return line
