"""Notes of what waits: one a record and address, and no wish in them gets lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from core.errors import UnreachableError
from flows.commands import check_tracked
from tasks.settings import settings
from tasks.storage import S3Url
from tasks.tracking import Promotion, Upload, outbox, sync, track
from tests.tasks.tracking.conftest import Story

CLOSED = "http://127.0.0.1:9"


def wish(asked: str) -> Promotion:
    return Promotion(by="ada", because="a test", asked=asked)


def upload(story: Story, uri: str = CLOSED, *, register: bool = False, promotion: Promotion | None = None) -> Upload:
    record = story.calibration
    return Upload(
        document=record.document, record=str(record.path), uri=uri, register=register, promotion=promotion
    )  # fmt: skip


def test_a_later_call_without_wishes_keeps_those_that_wait(story: Story, own_data: Path) -> None:
    outbox.put(upload(story, register=True, promotion=wish("2026-01-01")))
    merged = outbox.put(upload(story))
    (note,) = outbox.pending()
    assert outbox.read(note) == merged == upload(story, register=True, promotion=wish("2026-01-01"))


@pytest.mark.parametrize("order", [("2026-01-01", "2026-02-01"), ("2026-02-01", "2026-01-01")])
def test_of_two_promotions_the_newer_counts(order: tuple[str, str], story: Story, own_data: Path) -> None:
    for asked in order:
        merged = outbox.put(upload(story, register=True, promotion=wish(asked)))
    assert merged.promotion == wish("2026-02-01")


def test_an_address_has_one_note_whatever_the_password(story: Story, own_data: Path) -> None:
    for address in ("http://ada:old@127.0.0.1:9", "http://ada:new@127.0.0.1:9", CLOSED):
        outbox.put(upload(story, address))
    assert outbox.pending() == [outbox.note_of(story.calibration.document["id"], CLOSED)]


def test_a_success_at_one_address_leaves_the_note_meant_for_another(story: Story, store: str, own_data: Path) -> None:
    with pytest.raises(UnreachableError):
        track(story.calibration, CLOSED)
    track(story.calibration, store)
    assert outbox.pending() == [outbox.note_of(story.calibration.document["id"], CLOSED)]


def test_a_command_reports_only_what_waits_for_the_address_in_force(
    story: Story, store: str, own_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outbox.put(upload(story))
    check_tracked(story.calibration, store)
    check_tracked(story.calibration, "none")
    check_tracked(story.first, CLOSED)
    with pytest.raises(UnreachableError, match="The record is kept"):
        check_tracked(story.calibration, CLOSED)
    monkeypatch.setenv("ASSAY_TRACKING_URI", CLOSED)
    settings.cache_clear()
    with pytest.raises(UnreachableError, match="The record is kept"):
        check_tracked(story.calibration, None)


def test_a_note_named_after_its_record_alone_is_still_synced(story: Story, store: str, own_data: Path) -> None:
    outbox.put(upload(story, store))
    (note,) = outbox.pending()
    note.rename(note.with_name(f"{story.calibration.document['id']}.json"))
    assert [item.record for item in sync().tracked] == [story.calibration.document["id"]]
    assert outbox.pending() == []


def test_a_record_in_object_storage_that_is_down_as_well_is_noted_all_the_same(story: Story, own_data: Path) -> None:
    elsewhere = replace(story.calibration, path=S3Url.parse("s3://lab/c.json"))
    with pytest.raises(UnreachableError, match="MLflow at http://127"):
        track(elsewhere, CLOSED)
    (note,) = outbox.pending()
    assert outbox.read(note).record == "s3://lab/c.json"


def test_a_note_that_cannot_be_read_is_written_anew(story: Story, own_data: Path) -> None:
    outbox.put(upload(story))
    (note,) = outbox.pending()
    note.write_text("not json")
    outbox.put(upload(story))
    assert outbox.read(note) == upload(story)
