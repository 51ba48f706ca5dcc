"""Which calibration a measurement takes when it is not told one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError, UnreachableError
from core.instrument.spec import InstrumentSpec, JudgeIdentity, OptimismSpec
from flows.pipelines.calibration import run_calibration
from tasks import champion
from tasks.archive import load_record, read_calibration
from tasks.champion import Champion, champion_of

SPEC = InstrumentSpec(
    name="small", categories=("harm",), judge=JudgeIdentity(name="guard", version="1"),
    optimism=OptimismSpec(method="none"),
)  # fmt: skip


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("champion")
    rows = [(f"t{i}", i % 2) for i in range(20)]
    (folder / "golden.csv").write_text("\n".join(["trace_id,harm", *(f"{t},{label}" for t, label in rows), ""]))
    scores = [f"{t},{0.9 if label else 0.1}" for t, label in rows]
    (folder / "scores.csv").write_text("\n".join(["trace_id,harm", *scores, ""]))
    run_calibration(
        [str(folder / "golden.csv")], [str(folder / "scores.csv")], None, SPEC, output=folder / "calibration.json"
    )
    return folder / "calibration.json"


URI = "sqlite:///x.db"


@pytest.fixture
def asked(record: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What the registry is asked for; its answer is the record."""
    from dataclasses import replace

    seen: list[tuple[str, Any]] = []

    def found(name: str, tracking_uri: str | None) -> Any:
        seen.append((name, tracking_uri))
        calibration = read_calibration(load_record(record), record)
        return replace(calibration, reference=replace(calibration.reference, uri="models:/small/7"))

    monkeypatch.setattr(champion, "find_calibration", found)
    return seen


def production(folder: Path, **columns: str) -> list[str]:
    path = folder / "p.csv"
    path.write_text(f"{','.join(['trace_id', 'harm', *columns])}\n{','.join(['a', '0.9', *columns.values()])}\n")
    return [str(path)]


def test_the_champion_of_the_same_judge_is_taken_by_its_version(asked: Any, record: Path, tmp_path: Path) -> None:
    found = champion_of(SPEC, production(tmp_path, judge="guard@1"), "sqlite:///x.db")
    golden = str(record.with_name("golden.csv").resolve())
    assert found == Champion(reference="models:/small/7", golden=(golden,))
    assert asked == [("models:/small@champion", "sqlite:///x.db")]


def test_scores_that_do_not_name_their_judge_are_taken_as_the_champions(asked: Any, tmp_path: Path) -> None:
    assert champion_of(SPEC, production(tmp_path), URI).reference == "models:/small/7"


@pytest.mark.parametrize("judge", ["other@1", "guard@2"])
def test_another_judge_has_no_champion_but_its_golden_set(judge: str, asked: Any, record: Path, tmp_path: Path) -> None:
    found = champion_of(SPEC, production(tmp_path, judge=judge), URI)
    assert (found.reference, found.why_not) == (None, "other_judge")
    assert f"the scores are from {judge}, the champion's judge is guard@1" in found.detail
    assert found.golden == (str(record.with_name("golden.csv").resolve()),)


def test_with_tracking_switched_off_nothing_is_known_of_a_champion(asked: Any, tmp_path: Path) -> None:
    assert champion_of(SPEC, production(tmp_path), "none").why_not == "champion_unknown"
    assert asked == []


def test_an_instrument_without_a_champion_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(name: str, _: str | None) -> Any:
        raise InputError.of(name, "leads nowhere: no such alias\nmore")

    monkeypatch.setattr(champion, "find_calibration", none)
    found = champion_of(SPEC, production(tmp_path), URI)
    assert (found.reference, found.why_not) == (None, "no_champion")
    assert "leads nowhere" in found.detail


def test_a_registry_that_cannot_be_reached_is_an_outage_and_no_missing_champion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(*_: object) -> Any:
        raise UnreachableError("MLflow at x cannot be reached")

    monkeypatch.setattr(champion, "find_calibration", down)
    with pytest.raises(UnreachableError):
        champion_of(SPEC, production(tmp_path), URI)
