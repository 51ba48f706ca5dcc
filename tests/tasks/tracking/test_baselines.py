"""The measurement of an earlier release, found by the release's name."""

from __future__ import annotations

from typing import Any

import pytest

from core.errors import InputError
from tasks.tracking import track
from tasks.tracking.baselines import baseline_of
from tests.tasks.tracking.conftest import Story


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A store of this file's own: in the shared one, measurements would come before their calibration."""
    return f"sqlite:///{tmp_path_factory.mktemp('baselines') / 'mlflow.db'}"


@pytest.fixture(scope="module")
def logged(story: Story, store: str) -> dict[str, Any]:
    return {name: track(written, store) for name, written in (("first", story.first), ("second", story.second))}


def test_a_release_is_found_by_its_name_among_those_of_the_instrument(
    logged: dict[str, Any], story: Story, store: str
) -> None:
    found = baseline_of("guard 'x'@1.1", story.second.document, store)
    assert found == f"runs:/{logged['first'].run_id}"


def test_a_release_that_was_never_measured_or_with_another_instrument_is_none(
    logged: dict[str, Any], story: Story, store: str
) -> None:
    with pytest.raises(InputError, match="has no measurement with a calibration of safety in MLflow"):
        baseline_of("guard@0", story.second.document, store)
    other = {"result": {**story.second.document["result"], "instrument": "other"}}
    with pytest.raises(InputError, match="of other in MLflow"):
        baseline_of("guard 'x'@1.1", other, store)


@pytest.mark.parametrize("reference", ["runs:/" + "a" * 32, "b" * 32, "m.json", "s3://lab/m.json"])
def test_a_reference_is_taken_as_it_is(reference: str, story: Story) -> None:
    assert baseline_of(reference, story.second.document, "none") == reference


def test_without_tracking_a_release_cannot_be_looked_up(story: Story) -> None:
    with pytest.raises(InputError, match="tracking is switched off"):
        baseline_of("guard@1", story.second.document, "none")
