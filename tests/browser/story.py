"""What the walk-through shows: an instrument that is calibrated twice, and five releases."""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks.builtin.starter import INSTRUMENT, RELEASES, write_demo
from tests.e2e.stack import RunningStack

TARGETS = tuple(f"guard-y@2.{number}" for number in range(5))
POLICY = "release-safety"
FIRST_REASON = "first golden set, read with the red team"


@dataclass(frozen=True, slots=True, kw_only=True)
class Story:
    """The records that were made, the oldest first."""

    calibrations: list[dict[str, Any]]
    measurements: list[dict[str, Any]]


def tell(stack: RunningStack, folder: Path) -> Story:
    """Calibrate on half of the golden set and then on all of it; measure five releases with the first."""
    paths = write_demo(folder)
    golden = pq.read_table(paths["golden"])
    instrument = folder / "safety.yaml"
    instrument.write_text(INSTRUMENT)
    half = folder / "golden-half.parquet"
    pq.write_table(golden.filter(_in_half(golden["cluster"])), half)

    def calibrated(data: Path, *more: str) -> dict[str, Any]:
        return _made(stack, "calibrate", str(data), "--judge", "lexical", "--instrument", str(instrument), *more)

    calibrations = [calibrated(half, "--promote", "--because", FIRST_REASON), calibrated(paths["golden"])]
    scores = []
    for target in RELEASES:
        judged = folder / f"judged-{target}.parquet"
        stack.assay("judge", "lexical", str(paths[target]), "-o", str(judged))
        scores.append(pq.read_table(judged))
    measurements = []
    for number, target in enumerate(TARGETS):
        mixed = folder / f"{target}.parquet"
        pq.write_table(_mixed(scores[0], scores[1], number / (len(TARGETS) - 1), target), mixed)
        measurements.append(
            _made(stack, "measure", str(mixed), "--calibration", "models:/safety@champion", "--target", target)
        )
    return Story(calibrations=calibrations, measurements=measurements)


def _made(stack: RunningStack, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(stack.assay(*arguments, "--json"))
    return found


def _in_half(clusters: pa.ChunkedArray) -> pa.ChunkedArray:
    """Some half of the clusters, whole."""
    names = [name for name in set(clusters.to_pylist()) if zlib.crc32(name.encode()) % 2]
    return pc.is_in(clusters, pa.array(names))


def _mixed(old: pa.Table, new: pa.Table, share: float, target: str) -> pa.Table:
    """A release on its way: so many of its traces are those of the new one."""
    ids = sorted(set(old["trace_id"].to_pylist()))
    gone = {id_[-4:] for id_ in ids[: round(share * len(ids))]}
    kept = [table.filter(pa.array([(id_[-4:] in gone) == is_new for id_ in table["trace_id"].to_pylist()]))
            for table, is_new in ((old, False), (new, True))]  # fmt: skip
    both = pa.concat_tables(kept)
    return both.set_column(both.schema.get_field_index("target"), "target", pa.array([target] * both.num_rows))
