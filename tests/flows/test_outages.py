"""What a service that is out of reach may stop is done in steps, which are tried again, and is told as an outage."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from core.errors import UnreachableError
from core.instrument.spec import InstrumentSpec, OptimismSpec
from flows.commands import run_flow
from flows.pipelines.calibration import run_calibration
from flows.pipelines.measurement import run_measurement
from tasks.archive import Written
from tasks.steps import Step
from tasks.storage import S3Url, find_inputs

T = TypeVar("T")

RECORD = S3Url.parse("s3://lab/record.json")


class Outages:
    """A runner in whose every step a service is down when it is asked first, and back when it is asked again."""

    def __init__(self) -> None:
        self.is_down = True
        self.survived: list[str] = []

    def __call__(self, step: Step, work: Callable[[], T]) -> T:
        try:
            return work()
        except UnreachableError:
            assert step.retries, step.name
            self.survived.append(step.name)
            self.is_down = False
            return work()
        finally:
            self.is_down = True

    def ask(self) -> None:
        if self.is_down:
            raise UnreachableError("no answer")


@pytest.fixture
def outages(monkeypatch: pytest.MonkeyPatch) -> Outages:
    """Inputs that are found, and a place for records that is looked at and written to, by such a service."""
    made = Outages()

    def found(arguments: Any, readers: Any) -> Any:
        made.ask()
        return find_inputs(arguments, readers)

    def written(document: Any, place: Any, _outputs: Any) -> Written:
        made.ask()
        return Written(document=document, path=place)

    for pipeline in ("calibration", "measurement"):
        monkeypatch.setattr(f"flows.pipelines.{pipeline}.find_inputs", found)
    monkeypatch.setattr("tasks.cache.check_writable", lambda _: made.ask())
    monkeypatch.setattr("tasks.cache.write_record", written)
    return made


ASKING = ["find the inputs", "see where the record goes", "write the record"]


def test_everything_that_a_calibration_asks_of_a_service_is_tried_again(outages: Outages, world: Any) -> None:
    spec = InstrumentSpec(name="small", optimism=OptimismSpec(method="none"))
    run_calibration([str(world.golden)], [str(world.scores)], None, spec, output=RECORD, run=outages)
    assert outages.survived == ASKING


def test_everything_that_a_measurement_asks_of_a_service_is_tried_again(
    outages: Outages, world: Any, tmp_path: Path
) -> None:
    labels = tmp_path / "labels.csv"
    labels.write_text("trace_id,hate,violence\n" + "".join(f"p{i},{i % 2},{i % 3 // 2}\n" for i in range(20)))
    run_measurement(
        [str(world.production)], calibration=str(world.calibration), labels=[str(labels)], output=RECORD, run=outages
    )
    assert outages.survived == ASKING


@pytest.mark.parametrize("told_by_prefect", [False, True])
def test_a_prefect_server_that_is_lost_on_the_way_is_an_outage_and_no_bug(told_by_prefect: bool) -> None:
    def lost(**_: Any) -> Written:
        error = httpx.ConnectError("All connection attempts failed")
        if told_by_prefect:
            raise RuntimeError("no slot for the step") from error
        raise error

    with pytest.raises(UnreachableError, match=r"Prefect server was lost on the way: All connection attempts failed\n"):
        run_flow(lost, None)
