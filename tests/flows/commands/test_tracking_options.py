from __future__ import annotations

from pathlib import Path

import pytest

from flows.cli import main


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--scores", "s.csv", "--promote", "--tracking-uri", "sqlite:///x.db"], "--promote needs a registered instr"),
        (["--scores", "s.csv", "--instrument", "i.yaml", "--promote"], "tracking is switched off"),
        (["--scores", "s.csv", "--because", "x"], "--because goes with --promote"),
        (["--scores", "s.csv", "--tracking-uri", "localhost:5000"], "is no address of MLflow"),
    ],
)
def test_what_cannot_be_tracked_as_asked_is_refused_before_anything_is_read(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["calibrate", "golden.csv", *arguments])
    assert end.value.code == 2
    assert says in capsys.readouterr().err


def test_an_outage_has_exit_code_4_and_the_record_is_on_stdout_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rates = "{threshold: 0.5, sensitivity: 0.9, n_positive: 50, specificity: 0.9, n_negative: 50, source: card}"
    Path("d.yaml").write_text(f"name: vendor\njudge: {{name: v}}\ncategories: {{hate: {rates}}}\n")
    with pytest.raises(SystemExit) as end:
        main(["calibrate", "--declared", "d.yaml", "-o", "c.json", "--json", "--tracking-uri", "http://127.0.0.1:9"])
    assert end.value.code == 4
    told = capsys.readouterr()
    assert told.out == Path("c.json").read_text()
    assert "cannot be reached" in told.err
    assert "c.json" in told.err


def test_syncing_nothing_says_so(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from tasks.settings import settings

    for note in settings().pending_dir.glob("*.json"):
        note.unlink()
    with pytest.raises(SystemExit) as end:
        main(["sync"])
    assert end.value.code == 0
    assert "nothing waits" in capsys.readouterr().out
