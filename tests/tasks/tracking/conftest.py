"""One small instrument, measured twice, and one SQLite store for all tests of tracking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec
from flows.pipelines.calibration import run_calibration
from flows.pipelines.measurement import run_measurement
from tasks.archive import Written
from tasks.settings import settings

CATEGORIES = ("hate", "self-harm")


@dataclass(frozen=True)
class Story:
    """Files and records that the tests share."""

    folder: Path
    calibration: Written
    later: Written
    first: Written
    second: Written


def scores_of(n: int, seed: int, labels: np.ndarray[Any, Any] | None = None) -> pd.DataFrame:
    """Two turns a trace; a few cells have no score and a few traces have a hole in their turns."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({
        "trace_id": np.repeat([f"t{i}" for i in range(n)], 2),
        "turn": np.tile([0, 1], n),
    })  # fmt: skip
    for c, name in enumerate(CATEGORIES):
        harm = rng.random(n) < 0.3 if labels is None else labels[:, c] == 1
        level = np.where(harm, 0.65, 0.3)
        frame[name] = np.clip(np.repeat(level, 2) + rng.normal(0, 0.17, 2 * n), 0, 1).round(3)
    return frame


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    folder = tmp_path_factory.mktemp("story")
    rng = np.random.default_rng(1)
    labels = (rng.random((160, 2)) < 0.35).astype(int)
    golden = pd.DataFrame({"trace_id": [f"t{i}" for i in range(160)]})
    golden[list(CATEGORIES)] = labels
    golden["topic"] = np.where(np.arange(160) % 3, "work", "$home")
    golden.to_csv(folder / "golden.csv", index=False)
    scores_of(160, 2, labels).to_csv(folder / "golden-scores.csv", index=False)
    for number in (1, 2):
        release = scores_of(60, 10 + number)
        release.loc[3, "hate"] = None
        release.drop(index=[9]).to_csv(folder / f"release-{number}.csv", index=False)
    calibrations = [_calibrated(folder, resamples) for resamples in (20, 30)]
    first, second = (
        run_measurement(
            [str(folder / f"release-{number}.csv")],
            calibration=str(calibrations[0].path),
            target=f"guard 'x'@1.{number}",
            output=folder / f"measurement-{number}.json",
        )
        for number in (1, 2)
    )
    return Story(folder=folder, calibration=calibrations[0], later=calibrations[1], first=first, second=second)


def _calibrated(folder: Path, resamples: int) -> Written:
    spec = InstrumentSpec(
        name="safety",
        judge=JudgeIdentity(name="lexical", version="1"),
        optimism=OptimismSpec(resamples=resamples),
        slices=("topic",),
    )
    return run_calibration(
        [str(folder / "golden.csv")],
        [str(folder / "golden-scores.csv")],
        None,
        spec,
        output=folder / f"calibration-{resamples}.json",
    )


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Address of a SQLite store; making its tables takes seconds."""
    return f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}"


@pytest.fixture(scope="session")
def client(store: str) -> Any:
    from tasks.tracking.connection import connected

    with connected(store) as made:
        return made


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A data folder of the test's own."""
    monkeypatch.setenv("ASSAY_DATA_DIR", str(tmp_path / "data"))
    settings.cache_clear()
    yield tmp_path / "data"
    monkeypatch.undo()
    settings.cache_clear()
