import json
from dataclasses import replace

import pytest

from core.data.facts import SourceFacts, contradiction, merged, reading_notes
from core.errors import UndefinedError
from core.records import build, plain

GARAK = SourceFacts(
    reader="garak", tool="garak", tool_version="0.17.1", higher_is="worse", turn_scope="last", counts={"earlier": 30}
)


def test_files_that_were_read_alike_become_one_entry_with_their_counts_added_up():
    other = replace(GARAK, counts={"earlier": 2, "retries": 1})
    (entry,) = merged([GARAK, other])
    assert entry.counts == {"earlier": 32, "retries": 1}
    assert merged([other, GARAK])[0].counts == entry.counts


@pytest.mark.parametrize(
    "difference", [{"tool_version": "0.18"}, {"higher_is": "better"}, {"map": {"hate": ("a", "b")}}, {"scale": (0, 7)}]
)
def test_files_that_were_read_otherwise_stay_apart(difference):
    assert len(merged([GARAK, replace(GARAK, **difference)])) == 2


def test_a_scale_needs_a_lower_and_a_higher_end():
    for scale in [(1, 1), (1, 0), (0, float("inf")), (float("nan"), 1)]:
        with pytest.raises(UndefinedError, match="scale"):
            replace(GARAK, scale=scale)


def test_facts_survive_a_record():
    full = replace(GARAK, map={"hate": ("H", "H2")}, left_out=("X",), options={"turns": "t"}, cannot_tell=("who",))
    assert build(SourceFacts, json.loads(json.dumps(plain(full)))) == full


@pytest.mark.parametrize(
    ("difference", "named"),
    [
        ({"reader": "inspect"}, "reader was garak there and is inspect here"),
        ({"turn_scope": "all"}, "turn scope was last there and is all here"),
        ({"map": {"jailbreak": ("DAN",)}}, "map was none there and is jailbreak=DAN here"),
        ({"scale": (0.0, 7.0)}, "scale was 0.0 + 1.0 there and is 0.0 + 7.0 here"),
        ({"higher_is": "better"}, "higher is was worse there and is better here"),
    ],
)
def test_production_that_is_read_otherwise_than_the_golden_scores_is_told(difference, named):
    (note,) = reading_notes([GARAK], [replace(GARAK, **difference)])
    assert named in note


def test_what_says_nothing_of_its_reading_is_not_held_against_anything():
    newer = replace(GARAK, tool_version="0.18", counts={})
    one, other = (replace(GARAK, map={"hate": names}, left_out=names) for names in (("a", "b"), ("b", "a")))
    assert reading_notes([one], [other]) == [], "in what order a map names categories means nothing"
    assert reading_notes([GARAK], [newer]) == []
    assert reading_notes([], [GARAK]) == reading_notes([GARAK], []) == []


def test_one_reader_in_two_directions_is_a_contradiction_and_two_readers_are_none():
    turned = replace(GARAK, higher_is="better")
    assert "higher_is=worse" in contradiction([GARAK], [turned])
    assert "scale=0..7" in contradiction([GARAK], [GARAK, replace(GARAK, scale=(0.0, 7.0))])
    assert contradiction([GARAK], [replace(turned, reader="promptfoo")]) is None
    assert contradiction([GARAK, turned], [turned]) is None
    assert contradiction([], [turned]) is contradiction([GARAK], []) is None
