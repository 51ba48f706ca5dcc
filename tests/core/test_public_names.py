"""The names that notebooks rely on."""

from __future__ import annotations

import subprocess
import sys

import core


def test_every_public_name_is_there_and_listed() -> None:
    for name in core.__all__:
        assert getattr(core, name) is not None
    assert set(core.__all__) <= set(dir(core))


def test_errors_and_specs_are_reached_from_core_alone() -> None:
    code = (
        "import core\ntry: core.InstrumentSpec(name='')\nexcept core.errors.UndefinedError as error: print(error.field)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "name\n"
