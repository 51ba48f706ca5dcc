"""The promotion rule at a real registry: who becomes champion, who said so, and what is left to people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from core.errors import InputError
from core.instrument.promotion import RULE
from core.instrument.spec import DeclaredRates, DeclaredSpec, InstrumentSpec, JudgeIdentity, OptimismSpec
from flows.pipelines.calibration import run_calibration, run_declared
from tasks.archive import Written
from tasks.tracking import Promotion, track
from tasks.tracking.connection import connected
from tasks.tracking.promotions import promote_by_rule, promote_version, waiting_challengers
from tests.tasks.tracking.conftest import Story


@pytest.fixture(scope="module")
def registry(story: Story, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two calibrations of one instrument: the first made champion by ada, the second the challenger."""
    uri = f"sqlite:///{tmp_path_factory.mktemp('registry') / 'mlflow.db'}"
    track(story.calibration, uri, register=True, promotion=word("ada", "the first one"))
    track(story.later, uri, register=True)
    return uri


def word(by: str, because: str, asked: str = "2126-01-01T00:00:00Z") -> Promotion:
    return Promotion(by=by, because=because, asked=asked)


def certificate(of: Written, coverage: float = 0.945) -> dict[str, Any]:
    """What the rule reads of a certificate's record."""
    calibration = {"id": of.document["id"], "instrument": of.document["result"]["instrument"]}
    figures = {"coverage": coverage, "mc_error": 0.004, "mean_coverage": 0.95, "confidence_level": 0.95}
    return {"id": "c" * 64, "result": {"calibration": calibration, **figures, "sufficient": coverage >= 0.93}}


def champion(uri: str) -> Any:
    with connected(uri) as client:
        return client.get_model_version_by_alias("safety", "champion")


def run_tags(uri: str, version: Any) -> dict[str, str]:
    with connected(uri) as client:
        return dict(client.get_run(version.run_id).data.tags)


def test_the_rule_and_people_take_turns_and_each_word_is_kept(registry: str, story: Story) -> None:
    """One story, since each step stands on the one before."""
    assert promote_by_rule(certificate(story.calibration), registry) is None  # the champion already
    (waiting,) = waiting_challengers("safety", story.calibration.document["id"], registry)
    assert (waiting.uri, waiting.certified) == ("models:/safety/2", False)

    refused = promote_by_rule(certificate(story.later, coverage=0.90), registry)
    assert refused is not None
    assert not refused.decision.promote
    assert "models:/safety/2 stays a challenger, and a person decides: the certificate's" in refused.told
    assert champion(registry).version == 1
    with connected(registry) as client:
        version = client.get_model_version("safety", "2")
    assert version.tags["promotion_rule"].startswith("a person decides: the certificate's coverage of 0.900")
    assert run_tags(registry, version)["promotion_rule"] == version.tags["promotion_rule"]

    promoted = promote_by_rule(certificate(story.later), registry)
    assert promoted is not None
    assert promoted.registered.champion
    now = champion(registry)
    assert (now.version, now.tags["promoted_by"], now.tags["promoted_over"]) == (2, RULE, "1")
    assert promote_by_rule(certificate(story.later), registry) is None  # twice is once

    # A person stands behind what the rule did, and then goes back to the judge of before.
    assert promote_version("models:/safety@champion", word("grace", "looked at it"), registry).champion
    assert champion(registry).tags["promoted_by"] == "grace"
    assert champion(registry).tags["promoted_over"] == "1"
    assert promote_version(str(story.calibration.path), word("ada", "back"), registry).uri == "models:/safety/1"
    back = champion(registry)
    assert (back.version, back.tags["promoted_because"], back.tags["promoted_over"]) == (1, "back", "2")
    assert run_tags(registry, back)["promoted_because"] == "back"


def test_a_declared_card_and_apparent_rates_are_left_to_a_person(registry: str, story: Story, tmp_path: Path) -> None:
    rates = DeclaredRates(
        sensitivity=0.99, n_positive=500, specificity=0.99, n_negative=500, threshold=0.5, source="the vendor's page"
    )
    judge = JudgeIdentity(name="vendor", version="1")
    card = run_declared(
        DeclaredSpec(name="card", judge=judge, categories={"hate": rates}, composite=rates), output=tmp_path / "d.json"
    )
    apparent = run_calibration(
        [str(story.folder / "golden.csv")], [str(story.folder / "golden-scores.csv")], None,
        InstrumentSpec(name="apparent", optimism=OptimismSpec(method="none")), output=tmp_path / "a.json",
    )  # fmt: skip
    for written, why in ((card, "its rates are declared"), (apparent, "the optimism of its thresholds is not taken")):
        track(written, registry, register=True)
        decided = promote_by_rule(certificate(written), registry)
        assert decided is not None
        assert not decided.decision.promote
        assert why in decided.told


def test_a_calibration_that_is_not_in_the_registry_is_none_of_the_rules_business(
    registry: str, story: Story, tmp_path: Path
) -> None:
    unknown = certificate(story.later)
    unknown["result"]["calibration"]["id"] = "0" * 64
    assert promote_by_rule(unknown, registry) is None
    assert promote_by_rule(certificate(story.later), "none") is None
    assert waiting_challengers("nobody's", "0" * 64, registry) == []


def test_a_wish_that_cannot_be_fulfilled_says_why(registry: str, story: Story) -> None:
    with pytest.raises(InputError, match="tracking is switched off"):
        promote_version(str(story.calibration.path), word("ada", "x"), "none")
    with pytest.raises(InputError, match="a calibration is needed"):
        promote_version(str(story.first.path), word("ada", "x"), registry)
