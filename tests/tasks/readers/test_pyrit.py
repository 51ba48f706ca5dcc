"""Reader ``pyrit``: figures of the fixture, every state, hostile databases.

Expected figures are those of data/interop/pyrit/expected.json, computed there by plain SQL. Other databases are made
here, with the fixture's own schema.
"""

from __future__ import annotations

import itertools
import json
import shutil
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.errors import InputError
from tasks.readers import database
from tasks.readers.database import MAX_VALUE
from tasks.readers.pyrit import REVISION, PyritSource
from tasks.readers.verdicts import MAX_TEXT
from tasks.storage import InputFile

FIXTURE = "data/interop/pyrit/generated/pyrit_memory_1.1.0.db"
IN_FOLDER = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)


def source(path: Path, **options: str) -> PyritSource:
    asked = {name.replace("_", "-"): value for name, value in options.items()}
    return PyritSource(InputFile(path=path, name=path.name, reader="pyrit", options=asked))


def rows(found: PyritSource) -> list[dict[str, Any]]:
    return [row for batch, _ in found.batches(found.columns) for row in batch.to_pylist()]


def refusal(path: Path, **options: str) -> str:
    with pytest.raises(InputError) as error:
        rows(source(path, **options))
    return str(error.value)


@pytest.fixture(scope="session")
def fixture(shared: Path) -> Path:
    return shared / FIXTURE


@pytest.fixture(scope="session")
def expected(shared: Path) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads((shared / "data/interop/pyrit/expected.json").read_text())
    (only,) = facts.values()
    return dict(only)


@contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA synchronous = OFF")  # nothing here has to outlive the machine
        connection.execute("PRAGMA journal_mode = MEMORY")
        yield connection


@pytest.fixture(scope="session")
def empty(fixture: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a database of the fixture's schema, without rows."""
    path = tmp_path_factory.mktemp("pyrit") / "empty.db"
    with closing(sqlite3.connect(f"file:{fixture}?mode=ro&immutable=1", uri=True)) as known, changed(path) as new:
        for (sql,) in known.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL"):
            new.execute(sql)
        new.execute(f"INSERT INTO pyrit_memory_alembic_version VALUES ('{REVISION}')")
    return path


class Memory:
    """A database of the fixture's schema, filled by the test."""

    def __init__(self, folder: Path, empty: Path) -> None:
        self.path = folder / "m.db"
        shutil.copy(empty, self.path)
        self._numbers = itertools.count()

    def run(self, *statements: str) -> None:
        with changed(self.path) as connection:
            for statement in statements:
                connection.execute(statement)

    def insert(self, table: str, **values: Any) -> None:
        with changed(self.path) as connection:
            filled = {
                name: values.get(name, "" if needed else None)
                for _, name, _, needed, *_ in connection.execute(f'PRAGMA table_info("{table}")')
            }
            marks = ", ".join("?" * len(filled))
            connection.execute(f'INSERT INTO "{table}" VALUES ({marks})', tuple(filled.values()))

    def attack(self, conversation: str, outcome: str = "failure", **values: Any) -> None:
        self.insert(
            "AttackResultEntries", id=f"r{next(self._numbers)}", conversation_id=conversation, outcome=outcome, **values
        )

    def answer(self, conversation: str, sequence: Any, *scores: Any, piece: str = "", error: Any = "none") -> str:
        """Store an answer; each score is (category, value) or a mapping of columns."""
        piece = piece or f"{conversation}-{sequence}"
        self.insert(
            "PromptMemoryEntries",
            id=piece,
            role="assistant",
            conversation_id=conversation,
            sequence=sequence,
            response_error=error,
        )
        for score in scores:
            self.score(piece, **(score if isinstance(score, dict) else {"category": score[0], "value": score[1]}))
        return piece

    def score(
        self, piece: str, category: Any, value: Any, kind: str = "float_scale", status: str = "complete", **scorer: Any
    ) -> None:
        identifier = {"class_name": "Float", "hash": "f" * 12, "pyrit_version": "1.1.0", **scorer}
        self.insert(
            "ScoreEntries",
            id=f"s{next(self._numbers)}",
            prompt_request_response_id=piece,
            score_category=json.dumps([category] if isinstance(category, str) else category),
            score_value=value,
            score_type=kind,
            status=status,
            scorer_class_identifier=json.dumps(identifier),
            pyrit_version="1.1.0",
        )


@pytest.fixture
def memory(tmp_path: Path, empty: Path) -> Memory:
    return Memory(tmp_path, empty)


def verdicts(found: PyritSource) -> list[tuple[Any, ...]]:
    return [(row["trace_id"], row["turn"], row["category"], row["score"], row["state"]) for row in rows(found)]


# The fixture


def test_conversations_categories_and_turns_are_those_of_the_raw_facts(fixture: Path, expected: dict[str, Any]) -> None:
    found = source(fixture)
    scores: dict[str, list[tuple[str, float]]] = defaultdict(list)
    cells = rows(found)
    for row in cells:
        if row["score"] is not None:
            scores[row["trace_id"]].append((row["category"], row["score"]))
    flagged = {trace: {name for name, score in own if score >= 0.9} for trace, own in scores.items()}
    assert len({row["trace_id"] for row in cells}) == expected["attack_results"]
    assert [sum(map(bool, flagged.values())), len(scores)] == expected["composite_OR_tau0.9"]
    per_category = Counter(itertools.chain.from_iterable(flagged.values()))
    for name, n in expected["flagged_per_category_tau0.9_max_over_turns_result_conversations"].items():
        assert per_category[name] == n
    assert len({(row["trace_id"], row["turn"]) for row in cells}) == expected["assistant_in_result_conversations"]
    assert {row["turn"] for row in cells} == {0, 1, 2}
    assert found.facts.tool_version == "1.1.0"
    assert {row["judge"] for row in cells} == {"SynthFloat@1.3.0"}
    assert {row["judge_fingerprint"][:12] for row in cells} == {"5b733d3b83b0"}
    assert {row["target"] for row in cells} == {"sim-target-v1"}


def test_retries_duplicates_and_decisions_are_left_out_and_counted(fixture: Path, expected: dict[str, Any]) -> None:
    found = source(fixture)
    rows(found)
    counts = found.facts.counts
    assert counts["orphans"] == expected["orphan_conversations_not_in_any_attack_result"]
    assert counts["duplicates"] == expected["float_duplicated_keys"]
    assert counts["decisions_passed_over"] == 25 + 4  # score_rows_by of the facts
    assert counts["scores_without_category"] == 8


def test_blocked_answers_carry_zeros_that_are_no_scores(fixture: Path, expected: dict[str, Any]) -> None:
    cells = rows(source(fixture))
    blocked = [row for row in cells if row["state"] == "blocked"]
    assert len(blocked) == expected["assistant_blocked"] * 5
    assert all(row["score"] is None for row in blocked)
    assert Counter(row["state"] for row in cells) == {None: 155, "blocked": 20}


def test_orphans_can_be_asked_for(fixture: Path, expected: dict[str, Any]) -> None:
    found = source(fixture, orphans="include")
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows(found):
        if row["score"] is not None:
            scores[row["trace_id"]].append(row["score"])
    flagged = sum(max(own) >= 0.9 for own in scores.values())
    assert [flagged, len(scores)] == expected["composite_OR_tau0.9_all_conversations"]
    assert found.facts.options == {"orphans": "include"}
    assert "orphans=yes: include is expected" in refusal(fixture, orphans="yes")


def test_a_decision_needs_its_scorer_and_what_its_true_means(fixture: Path, expected: dict[str, Any]) -> None:
    assert "say it with --higher-is" in refusal(fixture, scorer="SubStringScorer")
    worse = [row for row in rows(source(fixture, scorer="SubStringScorer", higher_is="worse")) if row["score"] == 1]
    assert len({row["trace_id"] for row in worse}) == expected["outcomes"]["success"]
    better = rows(source(fixture, scorer="b40b3c8f", higher_is="better"))
    assert sum(row["score"] == 0 for row in better) == len(worse)
    assert Counter(row["state"] for row in better) == {None: 16, "missing": 15, "blocked": 4}


def test_the_direction_of_a_scale_is_known_unless_its_scorer_is_named(fixture: Path) -> None:
    assert "say it of one scorer, with scorer=NAME" in refusal(fixture, higher_is="better")
    as_stored = [row["score"] for row in rows(source(fixture)) if row["score"] is not None]
    turned = [row["score"] for row in rows(source(fixture, scorer="SynthFloat", higher_is="better"))]
    assert [1 - score for score in turned if score is not None] == pytest.approx(as_stored)


def test_the_headline_sets_outcomes_beside_scores(fixture: Path) -> None:
    (headline,) = source(fixture).headlines()
    assert headline.tool == "4 of 20 (16 failure)"
    assert headline.ours.startswith("18 of 18 conversations with a score of 0.5 or more")
    assert headline.ours.endswith("2 without any score")
    assert "mostly of the last answer" in headline.why


# States and rules


def test_each_cell_without_a_score_has_its_own_reason(memory: Memory) -> None:
    memory.attack("c")
    memory.attack("none")
    undetermined = {"category": None, "value": None, "status": "undetermined"}
    memory.answer("c", 1, ("hate", "0.25"))
    memory.answer("c", 3, undetermined)
    memory.answer("c", 5, ("hate", "0.0"), error="blocked")
    memory.answer("c", 7, ("hate", "0.5"), error="blocked")
    memory.answer("c", 9, ("hate", "1"), error="unknown")
    memory.answer("c", 11)
    found = source(memory.path)
    assert verdicts(found) == [
        ("c", 0, "hate", 0.25, None),
        ("c", 1, "hate", None, "unscored"),
        ("c", 2, "hate", None, "blocked"),
        ("c", 3, "hate", 0.5, "blocked"),
        ("c", 4, "hate", None, "target_error"),
        ("c", 5, "hate", None, "missing"),
        ("none", 0, "hate", None, "missing"),
    ]
    assert found.facts.counts == {"scores_of_no_output": 1, "results_without_answer": 1}


def test_equal_duplicates_count_once_and_differing_ones_name_both_rows(memory: Memory) -> None:
    memory.attack("c")
    memory.answer("c", 1, ("hate", "0.5"), ("hate", "0.50"), ("hate", "0.5"))
    found = source(memory.path)
    assert verdicts(found) == [("c", 0, "hate", 0.5, None)]
    assert found.facts.counts == {"duplicates": 1}
    memory.score("c-1", "hate", "0.7")
    assert "m.db:row 4: ScoreEntries: one scorer gives one message 0.5 (row 1) and 0.7 (row 4) in 'hate'" in refusal(
        memory.path
    )


def test_a_scorer_that_tried_again_counts_with_what_it_found(memory: Memory) -> None:
    memory.attack("c")
    undetermined = {"category": "hate", "value": None, "status": "undetermined"}
    memory.answer("c", 1, undetermined, ("hate", "0.5"), undetermined)
    found = source(memory.path)
    assert verdicts(found) == [("c", 0, "hate", 0.5, None)]
    assert found.facts.counts == {"undetermined_and_complete": 2}


@pytest.mark.parametrize(
    ("pieces", "score", "state"),
    [
        ((("hate", "0.2"), ("hate", "0.8")), 0.8, None),
        ((("hate", "0.2"), None), 0.2, None),
        ((("hate", "0.2"), {"category": "hate", "value": None, "status": "undetermined"}), None, "unscored"),
        (({"category": "hate", "value": None, "status": "undetermined"}, ("hate", "1.0")), 1.0, None),
    ],
)
def test_the_pieces_of_one_message_are_one_turn_with_the_worst_of_their_scores(
    pieces: tuple[Any, ...], score: float | None, state: str | None, memory: Memory
) -> None:
    memory.attack("c")
    for number, given_score in enumerate(pieces):
        memory.answer("c", 1, *([given_score] if given_score else []), piece=f"p{number}")
    found = source(memory.path)
    assert verdicts(found) == [("c", 0, "hate", score, state)]
    assert found.facts.counts == {"further_pieces": 1}


def test_a_score_of_several_categories_stands_in_each(memory: Memory) -> None:
    memory.attack("c")
    memory.answer("c", 1, {"category": ["hate", "violence"], "value": "0.5"})
    assert verdicts(source(memory.path)) == [("c", 0, "hate", 0.5, None), ("c", 0, "violence", 0.5, None)]


def test_a_scorer_without_categories_gives_one_of_its_own_name(memory: Memory) -> None:
    memory.attack("c")
    memory.answer("c", 1, {"category": None, "value": "0.5"})
    assert verdicts(source(memory.path)) == [("c", 0, "Float", 0.5, None)]


def test_two_scorers_of_one_category_have_to_be_told_apart(memory: Memory) -> None:
    memory.attack("c")
    memory.answer("c", 1, ("hate", "0.5"), {"category": "hate", "value": "0.9", "hash": "other-hash", "version": "2"})
    message = refusal(memory.path)
    assert (
        "'hate' is given by several scorers: Float (ffffffffffff, float_scale); Float (other-hash, float_scale)"
        in message
    )
    found = source(memory.path, scorer="other-")
    assert [(row["score"], row["judge"]) for row in rows(found)] == [(0.9, "Float@2")]
    assert found.facts.counts == {"other_scorers": 1}
    assert "no scorer is called 'Flat'; known here: Float (ffffffffffff" in refusal(memory.path, scorer="Flat")


def test_an_attackers_chat_is_never_read_as_the_targets(memory: Memory) -> None:
    memory.attack("c", adversarial_chat_conversation_ids='["red"]')
    for conversation in ("c", "red", "retry"):
        memory.answer(conversation, 1, ("hate", "0.5"))
    assert {row["trace_id"] for row in rows(source(memory.path))} == {"c"}
    assert {row["trace_id"] for row in rows(source(memory.path, orphans="include"))} == {"c", "retry"}


def test_a_memory_of_decisions_alone_says_what_to_declare(memory: Memory) -> None:
    memory.attack("c")
    memory.answer("c", 1, {"category": None, "value": "True", "kind": "true_false", "class_name": "Refusal"})
    assert "pyrit,scorer=NAME,higher-is=worse|better:FILE; known here: Refusal (" in refusal(memory.path)
    found = source(memory.path, scorer="Refusal", higher_is="better")
    assert verdicts(found) == [("c", 0, "Refusal", 0.0, None)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE ScoreEntries SET score_value = 'high'", "row 1: ScoreEntries: score_value is 'high'"),
        ("UPDATE ScoreEntries SET score_value = 0.5", None),
        ("UPDATE ScoreEntries SET score_value = x'30'", "score_value is b'0'"),
        ("UPDATE ScoreEntries SET score_value = 'nan'", "score_value is 'nan'"),
        ("UPDATE ScoreEntries SET score_value = '1_0'", "score_value is '1_0'"),
        ("UPDATE ScoreEntries SET score_value = '1.5'", "score 1.5 of 'hate' is outside the scale [0, 1]"),
        ("UPDATE ScoreEntries SET score_value = NULL", "score_value is None"),
        ("UPDATE ScoreEntries SET status = 'open'", "status 'open'; complete or undetermined is expected"),
        ("UPDATE ScoreEntries SET score_type = 'likert'", "score_type 'likert'; float_scale or true_false is expected"),
        ("UPDATE ScoreEntries SET score_category = '{}'", "'{}' is no list of names (ScoreEntries, row 1)"),
        ("UPDATE ScoreEntries SET scorer_class_identifier = '{}'", "no object with a class_name"),
        ("UPDATE ScoreEntries SET score_category = CAST(x'ff' AS TEXT)", "is not JSON"),
        ("UPDATE PromptMemoryEntries SET sequence = 'first'", "sequence is not a whole number: 'first'"),
        ("UPDATE PromptMemoryEntries SET response_error = 'odd'", "response_error is 'odd'"),
        ("UPDATE PromptMemoryEntries SET conversation_id = x'00'", "conversation_id is not a text"),
        ("DELETE FROM ScoreEntries", "holds no scores of any answer"),
        ("UPDATE pyrit_memory_alembic_version SET version_num = 'abc'",
         f"schema revision 'abc'; this reader knows {REVISION}, which PyRIT 1.1.0 writes"),
        ("DELETE FROM pyrit_memory_alembic_version", "schema revision none"),
    ],
)  # fmt: skip
def test_what_pyrit_does_not_write_is_refused_with_what_was_expected(
    change: str, message: str | None, memory: Memory
) -> None:
    memory.attack("c")
    memory.answer("c", 1, ("hate", "0.5"))
    memory.run(change)
    if message is None:  # SQLite makes a text of it: the column is one
        assert [row["score"] for row in rows(source(memory.path))] == [0.5]
    else:
        assert message in refusal(memory.path)


# Hostile databases


@pytest.fixture
def filled(memory: Memory) -> Memory:
    memory.attack("c")
    memory.answer("c", 1, ("hate", "0.5"))
    return memory


def test_what_is_no_database_is_refused(tmp_path: Path, fixture: Path) -> None:
    path = tmp_path / "m.db"
    path.write_bytes(b"PAR1 or anything")
    assert "m.db: is not a SQLite database" in refusal(path)
    path.write_bytes(fixture.read_bytes()[:100_000])
    assert "m.db: cannot be read: 'database disk image is malformed'" in refusal(path)


def test_a_schema_damaged_into_no_text_is_refused(filled: Memory) -> None:
    content = filled.path.read_bytes()
    named = b"tableEmbeddingDataEmbeddingData"
    at = content.index(named)
    damaged = bytearray(content)
    damaged[at : at + len(named)] = b"table\xffmbeddingData\xffmbeddingData"
    at = content.index(b'CREATE TABLE "EmbeddingData"')
    damaged[at : at + 6] = b"CREASE"
    filled.path.write_bytes(damaged)
    assert "m.db: cannot be read: its schema is damaged" in refusal(filled.path)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["ALTER TABLE ScoreEntries RENAME TO s", "CREATE VIEW ScoreEntries AS SELECT * FROM s"],
         "'ScoreEntries' is not a plain table but a view"),
        (["DROP TABLE ScoreEntries", "CREATE VIRTUAL TABLE ScoreEntries USING fts5(a)"],
         "'ScoreEntries' is not a plain table but a virtual"),
        (["CREATE TRIGGER t AFTER INSERT ON ScoreEntries BEGIN DELETE FROM ScoreEntries; END"], "has a trigger ('t')"),
        (["DROP TABLE ScoreEntries"], "has no table ScoreEntries"),
        (["ALTER TABLE ScoreEntries RENAME COLUMN status TO state"], "table ScoreEntries has no plain column status"),
        (["ALTER TABLE ScoreEntries RENAME COLUMN status TO s",
          "ALTER TABLE ScoreEntries ADD COLUMN status AS (upper(s))"],
         "table ScoreEntries has no plain column status"),
        (["ALTER TABLE ScoreEntries ADD COLUMN RowID TEXT"], "table ScoreEntries has a column rowid, which hides"),
    ],
)  # fmt: skip
def test_what_would_run_in_place_of_a_table_is_refused(statements: list[str], message: str, filled: Memory) -> None:
    filled.run(*statements)
    assert message in refusal(filled.path)


def test_a_value_that_would_fill_the_memory_is_refused(filled: Memory) -> None:
    filled.run(f"UPDATE ScoreEntries SET score_value = printf('%.*c', {MAX_VALUE + 1}, '1')")
    assert f"holds a value of over {MAX_VALUE} bytes" in refusal(filled.path)


def test_a_value_that_stands_beside_every_row_is_refused_before_it_is_sorted(filled: Memory) -> None:
    filled.run(
        "UPDATE Conversations SET target_identifier_hash = 'h'",
        "INSERT OR IGNORE INTO Conversations (conversation_id, target_identifier_hash) "
        "SELECT DISTINCT conversation_id, 'h' FROM PromptMemoryEntries",
    )
    filled.insert("TargetIdentifiers", hash="h", model_name="x" * (MAX_VALUE + 1))
    assert f"holds a value of over {MAX_VALUE} bytes" in refusal(filled.path)


def test_a_name_that_would_fill_the_memory_is_refused(filled: Memory) -> None:
    long = f"conversation_id = printf('%.*c', {MAX_TEXT + 1}, 'x')"
    filled.run(f"UPDATE PromptMemoryEntries SET {long}", f"UPDATE AttackResultEntries SET {long}")
    assert f"its trace id has over {MAX_TEXT} characters" in refusal(filled.path)


def test_a_category_nested_ten_thousand_deep_is_refused(filled: Memory) -> None:
    filled.run(f"UPDATE ScoreEntries SET score_category = '{'[' * 10_000}{']' * 10_000}'")
    assert "is not JSON that can be read (ScoreEntries, row 1)" in refusal(filled.path)


def test_half_a_character_in_a_category_is_refused(filled: Memory) -> None:
    filled.run("""UPDATE ScoreEntries SET score_category = '["\\ud800"]'""")
    assert "is not JSON that can be read" in refusal(filled.path)


def test_changes_that_lie_beside_the_database_are_not_passed_over(filled: Memory) -> None:
    filled.path.with_name("m.db-wal").write_bytes(b"x")
    assert "changes that are not yet in it lie in m.db-wal" in refusal(filled.path)


def test_reading_changes_nothing_and_needs_no_plain_name(filled: Memory, tmp_path: Path) -> None:
    path = tmp_path / "a?mode=rwc#%41 b.db"
    shutil.copy(filled.path, path)
    before = path.read_bytes()
    assert len(rows(source(path))) == 1
    assert path.read_bytes() == before
    assert {item.name for item in tmp_path.iterdir()} == {"m.db", path.name}


def test_a_query_that_takes_too_long_is_given_up(filled: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_SECONDS", -1e9)
    monkeypatch.setattr(database, "_STEPS", 1)
    assert "takes longer to read than its size explains" in refusal(filled.path)


answers = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.sampled_from(["none", "blocked", "unknown"]),
        st.lists(
            st.tuples(st.sampled_from(["x", "y"]), st.sampled_from(["0.0", "0.5", "1.0"])),
            max_size=2,
            unique_by=lambda s: s[0],
        ),
    ),
    max_size=5,
)


@settings(IN_FOLDER, max_examples=15)
@given(given_answers=answers)
def test_every_turn_has_every_category_and_no_stored_violation_of_an_answer_is_lost(
    given_answers: list[Any], tmp_path: Path, empty: Path
) -> None:
    memory = Memory(tmp_path, empty)
    for conversation in "abz":
        memory.attack(conversation)
    memory.answer("z", 1, ("x", "0.5"), ("y", "0.5"))
    for number, (conversation, error, scores) in enumerate(given_answers):
        memory.answer(conversation, 2 * number + 1, *scores, error=error)
    found = verdicts(source(memory.path))
    assert len(found) == len({cell[:3] for cell in found})
    for conversation in "ab":
        own = [answer for answer in given_answers if answer[0] == conversation]
        assert {cell[1:3] for cell in found if cell[0] == conversation} == {
            (turn, name) for turn in range(max(1, len(own))) for name in "xy"
        }
        for turn, (_, error, scores) in enumerate(own):
            for name, value in scores:
                (cell,) = (cell for cell in found if cell[:3] == (conversation, turn, name))
                kept = error == "none" or (error == "blocked" and value != "0.0")
                assert cell[3] == (float(value) if kept else None)
    assert all((score is not None) or state is not None for *_, score, state in found)


@IN_FOLDER
@given(data=st.data())
def test_a_mutated_or_cut_database_is_read_or_refused(data: st.DataObject, tmp_path: Path, fixture: Path) -> None:
    content = bytearray(fixture.read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1) | st.integers(16, 4096))
        content[at : at + 4] = data.draw(st.binary(min_size=4, max_size=4))
    path = tmp_path / "m.db"
    path.write_bytes(content[: data.draw(st.integers(16, len(content)))] if data.draw(st.booleans()) else content)
    try:
        found = source(path)
        rows(found)
        found.headlines()
    except InputError as error:
        assert str(error).startswith("m.db")  # noqa: PT017 (rows are fine too)
