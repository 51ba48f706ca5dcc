"""``assay read``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from core.data.vocabulary import RESERVED_CATEGORIES, category_name
from flows.commands import force_option, output_place, plain_name, refuse_overwriting

if TYPE_CHECKING:
    from tasks.convert import Conversion
    from tasks.storage import Place


def _pair(_: click.Context, __: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    pairs = [str(plain_name(_, __, value)).partition("=") for value in values]
    if not all(old and new for old, _, new in pairs):
        raise click.BadParameter("COLUMN=NAME is expected, such as id=trace_id")
    return {old: new for old, _, new in pairs}


def _scale(_: click.Context, __: click.Parameter, value: str | None) -> tuple[float, float] | None:
    if value is None:
        return None
    try:
        low, high = (float(part) for part in value.split(","))
    except ValueError:
        raise click.BadParameter("LO,HI is expected, such as 0,10") from None
    if not low < high < float("inf") or low == float("-inf"):
        raise click.BadParameter("LO must be below HI, both finite")
    return low, high


def _check_options(conversion: Conversion) -> None:
    """Refuse options that would be passed over without a word."""
    scaled = conversion.scale is not None or conversion.higher_is == "better"
    if conversion.positive is not None and scaled:
        raise click.UsageError("--positive says what counts as 1; --scale and --higher-is are for scores as numbers")
    if conversion.higher_is == "better" and conversion.kind != "scores":
        raise click.UsageError(
            f"--higher-is is for scores; for {conversion.kind} name with --positive what counts as 1"
        )
    if conversion.category is not None:
        name = category_name(conversion.category)
        if not name or name in RESERVED_CATEGORIES:
            raise click.UsageError("--category needs a name" + (f"; {name!r} is reserved" if name else ""))


@click.command(name="read")
@click.argument("tool")
@click.argument("file")
@click.option("-o", "--output", type=output_place, required=True, metavar="OUT.parquet")
@force_option
@click.option(
    "--as",
    "kind",
    type=click.Choice(["scores", "golden", "detections"]),
    help="What the table is; default: the reader's, else scores.",
)
@click.option(
    "--category", callback=plain_name, help="The category (or attribute) of all rows, when no column says it."
)
@click.option(
    "--map",
    "renamed",
    multiple=True,
    metavar="COLUMN=NAME",
    callback=_pair,
    help="Rename a column (repeatable).",
)
@click.option("--scale", metavar="LO,HI", callback=_scale, help="The judge's scale, brought to [0, 1].")
@click.option(
    "--higher-is",
    type=click.Choice(["worse", "better"]),
    help="Which end of the scale is harm; default: what the format says, for a table worse.",
)
@click.option(
    "--positive", metavar="VALUE", callback=plain_name, help="The label or decision that counts as 1; all others are 0."
)
def command(
    tool: str,
    file: str,
    output: Place,
    force: bool,
    kind: str | None,
    category: str | None,
    renamed: dict[str, str],
    scale: tuple[float, float] | None,
    higher_is: str | None,
    positive: str | None,
) -> None:
    """Turn another tool's FILE into a Parquet table of scores, golden labels or detections.

    TOOL is a registered reader: table (CSV, TSV, JSON Lines, Parquet), hatecheck, openai-moderation-golden, inspect,
    garak, pyrit, promptfoo, openai-moderation, perspective, llama-guard, azure-content-safety, fair-forge. For other
    tools' results --map names categories (TOOL'S=NAME; of several that become one the highest score counts),
    --category makes all of them one, and options of the reader follow its name: inspect,turns=turn_scores.

    \b
    Examples:
      assay read table judge.csv --category hate --map id=trace_id -o scores.parquet
      assay read table ratings.csv --scale 1,5 --higher-is better -o scores.parquet
      assay read table labels.csv --as golden --map label_gold=label --positive hateful -o golden.parquet
      assay read hatecheck test_suite_cases.csv -o golden.parquet
      assay read inspect run.eval --higher-is worse -o scores.parquet
      assay read garak garak.report.jsonl --category jailbreak -o scores.parquet
    """  # noqa: D301 (click wants the character)
    from dataclasses import replace
    from typing import Any, cast

    from core.data.problems import counted
    from core.errors import InputError
    from tasks.convert import Conversion, convert
    from tasks.readers import open_source, reader_names, takes_options
    from tasks.reporting.terminal import console, words
    from tasks.storage import atomic, find_inputs, split_reader

    if output.suffix != ".parquet":
        raise click.UsageError("tables are written as Parquet: name the output SOMETHING.parquet")
    names = reader_names()
    reader = split_reader(f"{tool}:", names)[0]
    if reader == "table" and tool != "table":
        raise InputError.of(tool, f"is not a registered reader; there are {', '.join(names)}")
    files = find_inputs([f"{tool}:{file}"], names)
    if len(files) > 1:
        raise click.UsageError("one file at a time")
    refuse_overwriting(output, [file], force=force, table=True)
    found = files[0]
    if takes_options(reader):  # such a reader brings verdicts to assay's scale and names itself
        declared = {} if higher_is is None else {"higher-is": higher_is}
        declared |= {} if scale is None else {"scale": f"{scale[0]:g}..{scale[1]:g}"}
        declared |= {} if category is None else {"category": category}
        found = replace(found, options={**found.options, **declared}, renamed=renamed)
        higher_is, scale, category, renamed = None, None, None, {}
    source = open_source(found)
    conversion = Conversion(
        kind=cast(Any, kind or source.kind or "scores"),
        category=category,
        renamed=renamed,
        scale=scale,
        higher_is=cast(Any, higher_is or "worse"),
        positive=positive,
    )
    _check_options(conversion)
    with atomic(output) as temporary:
        rows = convert(source, conversion, temporary)
    published = getattr(source, "published", None)
    known = {
        True: "; the published file, unaltered",
        False: "; NOT the published file: its digest differs",
        None: "",
    }
    console().print(words(f"{counted(rows, 'row')} of {conversion.kind}: {output}{known[published]}"), soft_wrap=True)
