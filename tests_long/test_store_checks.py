"""Rows that cannot be are named, one by one and up to their bounds; what could as well have been stored is not."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests_long.stored import (
    add_mention,
    add_state,
    empty_memory,
    finish_chunk,
    put_entities,
    put_entity,
    put_fact,
    put_session,
    say,
    use_alias,
)

from memforest.records import State
from memforest.store import checks, derived, meta, sessions
from memforest.store.connections import Connection, connect

EARLIEST, LATEST = -62135596800000, 253402300799999
"""The first and last millisecond of the years 1 to 9999."""


@pytest.fixture(scope="module")
def built() -> Iterator[Connection]:
    """A sound memory with a row or more of everything; rolled back by whoever changes it."""
    with closing(empty_memory()) as tx:
        meta.put_index(tx, meta.IndexRow("ix", "{}"))
        row, turns = put_session(tx, "s", ["Hi.", "Ho.", "He."], at_ms=500, chunk=2)
        tx.execute("UPDATE session SET status = 'ingested' WHERE id = ?", (row,))
        for chunk in sessions.chunks(tx, row):
            skipped = [(chunk.last, "why")]
            finish_chunk(tx, chunk.row, "extracted", maker="m", skipped=skipped)
        ana = put_entity(tx, "ana", "Ana", "participant")
        put_entities(tx, "oslo")
        rows = []
        for n in range(4):
            tie = f"s\x1f000000\x1f{n}"
            rows.append(put_fact(tx, f"f{n}", said_ms=500, tie=tie, topics=("a",)))
            where = say(tx, rows[n], *turns[:2], tie=tie, quote="Hi. Ho.", topics=("b",), cosine=0.5)
            add_mention(tx, where, ana, "subject")
        add_state(tx, where, ana, State("Ana", "home", "Oslo"))
        use_alias(tx, "an", ana, where[1])
        vector = np.array([0.6, 0.8], dtype=np.float32)
        for kind in ("turn", "fact"):
            derived.put_vectors(tx, kind, [(item, kind.encode(), vector) for item in (1, 2)])
        derived.put_words(tx, "turn", [(1, "hi")])
        tx.commit()
        yield tx


@pytest.fixture
def sound(built: Connection) -> Iterator[Connection]:
    """That memory, as it was."""
    built.execute("PRAGMA foreign_keys = off")
    built.execute("BEGIN")
    yield built
    built.execute("ROLLBACK")


def told(tx: Connection) -> list[str]:
    """Return all that SQL alone can tell."""
    return [
        *(one for part in checks.CHECKS for one in checks.contradictions(tx, part)), *checks.undecodable_texts(tx),
    ]  # fmt: skip


SOUND = [
    "UPDATE session SET infer = 0", f"UPDATE session SET stored_ms = {EARLIEST}", f"UPDATE fact SET stored_ms = {LATEST}",
    "UPDATE session SET metadata = '{\"a\": 1}'", "UPDATE chunk SET skipped = '[]'", "UPDATE chunk SET reason = 'x'",
    "UPDATE chunk SET skipped = '[[0, \"a\"], [1, \"\"]]' WHERE ordinal = 0", "UPDATE chunk SET status = 'verbatim'",
    "UPDATE chunk SET status = 'failed', reason = 'away'", "UPDATE fact SET negated = 1, precision = 'day'",
    "UPDATE fact SET topics = '[]'", "UPDATE occurrence SET cosine = -1.001", "UPDATE occurrence SET cosine = NULL",
    "UPDATE mention SET roles = 15", "UPDATE mention SET roles = 1", "UPDATE entity SET kind = 'place', label = ' '",
    "UPDATE meta SET value = '0' WHERE key = 'generation'",
    "INSERT INTO change VALUES (999, 'turn', 77)", "UPDATE meta SET value = '12' WHERE key = 'artifact_stamp'",
    "INSERT INTO meta VALUES ('display name', '-x')", "UPDATE fact SET start_ms = 500, end_ms = 501",
    "UPDATE session SET status = 'received'; UPDATE chunk SET status = 'pending', maker = NULL",
]  # fmt: skip


@pytest.mark.parametrize("change", ["SELECT 1", *SOUND])
def test_what_could_as_well_have_been_stored_is_not_named(sound: Connection, change: str) -> None:
    """Every value at its bounds; of what depends on another, both together."""
    for statement in change.split("; "):
        sound.execute(statement)
    assert told(sound) == []


NOT_SKIPPED: list[Any] = [
    {}, 1, [1], [[0]], [[0, "a", 1]], [["0", "a"]], [[0, 1]], [[2, "a"]], [[-1, "a"]], [[0, "a"], [5, "b"]],
]  # fmt: skip

CHUNKS = [
    ("UPDATE chunk SET first = 2, last = 1 WHERE ordinal = 0", "session 's': chunk 0 does not begin where"),
    ("UPDATE chunk SET first = 1 WHERE ordinal = 0", "session 's': chunk 0 does not begin where"),
    ("UPDATE chunk SET first = 0, last = 3 * ordinal - 1", "session 's': chunk 0 does not begin where"),
    ("UPDATE chunk SET first = 1 WHERE ordinal = 1", "session 's': chunk 1 does not begin where"),
    ("UPDATE chunk SET ordinal = 2 WHERE ordinal = 1", "session 's': chunk 2 does not begin where"),
    ("UPDATE session SET status = 'received'", "session 's' is received, which its chunks are not"),
    ("UPDATE chunk SET status = 'pending' WHERE ordinal = 1", "session 's' is ingested, which its chunks are not"),
    ("UPDATE chunk SET maker = NULL WHERE ordinal = 1", "session 's': chunk 1 does not say what read it"),
    ("UPDATE chunk SET status = 'failed' WHERE ordinal = 0", "session 's': chunk 0 does not say what read it"),
    ("UPDATE session SET infer = 2", "settings or metadata"), ("UPDATE session SET metadata = '[]'", "settings or metadata"),
    ("UPDATE session SET metadata = '{'", "settings or metadata"),
    (f"UPDATE session SET stored_ms = {EARLIEST - 1}", "settings or metadata"),
    (f"UPDATE session SET stored_ms = {LATEST + 1}", "settings or metadata"),
    ("UPDATE turn SET ordinal = 9 WHERE ordinal = 2", "session 's': 3 turns, numbered to 10, in chunks of 3"),
    ("DELETE FROM turn WHERE ordinal = 2", "session 's': 2 turns, numbered to 2, in chunks of 3"),
    *((f"UPDATE chunk SET skipped = '{json.dumps(skipped)}' WHERE ordinal = 0", "chunk 0 has skipped what is no turn")
      for skipped in NOT_SKIPPED),
    ("UPDATE chunk SET skipped = '[[' WHERE ordinal = 1", "chunk 1 has skipped what is no turn"),
]  # fmt: skip

FACTS = [
    *((f"UPDATE fact SET {change} WHERE id = 2", "f1: its times, topics or marks cannot be") for change in (
        "precision = 'Day'", "negated = 2", "negated = -1", "start_ms = 9, end_ms = 9", "start_ms = 9, end_ms = 8", "end_ms = 9",
        f"stored_ms = {EARLIEST - 1}", "topics = '{}'", "topics = '[1]'", "topics = '[\"a\", null]'", "topics = ''")),
    *((f"UPDATE occurrence SET {change} WHERE id = 2", "f1: occurrence 2 is not where and when") for change in (
        "said_ms = 501", "chunk = 2", "tie = 't' || char(31) || '000000' || char(31)", "tie = 's' || char(31) || '000001' || char(31)")),
    *((f"UPDATE occurrence SET {change} WHERE id = 2", "f1: occurrence 2 has topics, a likeness or a stored time") for change in (
        "topics = '[[]]'", "topics = 'x'", "cosine = 1.002", "cosine = -1.002")),
    ("DELETE FROM occurrence_turn WHERE occurrence = 2", "f1: occurrence 2 is not where and when"),
    ("UPDATE mention SET roles = 0 WHERE fact = 2", "f1: a mention is of occurrence 2"),
    ("UPDATE mention SET roles = 16 WHERE fact = 2", "f1: a mention is of occurrence 2"),
    ("UPDATE mention SET occurrence = 3 WHERE fact = 2", "f1: a mention is of occurrence 3"),
    ("UPDATE mention SET occurrence = 77 WHERE fact = 2", "f1: a mention is of occurrence 77"),
    ("UPDATE state SET entity = 2", "f3: a state ('home') is of an entity that the fact does not name"),
    ("UPDATE state SET occurrence = 1", "f3: a state ('home') is of an entity that the fact does not name"),
    ("UPDATE state SET attribute = ''", "f3: a state ('') is of"), ("UPDATE state SET value = ''", "or has no value"),
    ("UPDATE state SET at_ms = 499", "f3: the state of 'home' does not stand at the fact's time"),
    ("UPDATE state SET at_ms = 501", "f3: the state of 'home' does not stand at the fact's time"),
    ("UPDATE fact SET start_ms = 499 WHERE id = 4", "f3: the state of 'home' does not stand at the fact's time"),
    ("UPDATE entity SET kind = 'planet' WHERE id = 2", "entity 'Oslo': its kind"), ("UPDATE entity SET label = '' WHERE id = 1", "entity '': its"),
]  # fmt: skip

SETTINGS = [
    *((f"INSERT INTO meta VALUES ('{key}', '{wrong}') ON CONFLICT DO UPDATE SET value = excluded.value", f"the setting '{key}' is '{wrong}'")
      for key in ("generation", "chunk_turns", "artifact_stamp") for wrong in ("-1", "x", "01", "1.0", "")),
    *((f"UPDATE meta SET value = (SELECT max(id) FROM {table}) WHERE key = 'next:{table}'", f"{table} ") for table in
      ("session", "turn", "chunk", "fact", "entity")),
    ("DELETE FROM meta WHERE key = 'next:fact'", "fact 4 has an id that is still to be given"),
    ("INSERT INTO change VALUES (999, 'leaf', 1)", "the change log knows 'leaf'"),
]  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), [*CHUNKS, *FACTS, *SETTINGS])
def test_a_row_that_cannot_be_is_named(sound: Connection, damage: str, message: str) -> None:
    """What is wrong with which row; nothing is said of the rows beside it."""
    sound.execute(damage)
    assert sound.execute("SELECT changes()").fetchone()[0] > 0
    found = told(sound)
    assert any(message in one for one in found), found
    assert len(found) <= 3


@pytest.mark.parametrize(
    ("table", "column"), [("fact", "text"), ("entity", "label"), ("session", "metadata"), ("chunk", "reason"), ("alias", "key")]
)  # fmt: skip
def test_a_text_that_is_no_text_any_more_is_named_by_its_column(
    sound: Connection, table: str, column: str
) -> None:
    """However it reads; a turn's has its digest, and what is derived is made anew."""
    sound.execute(f"UPDATE {table} SET {column} = CAST(x'41ff42' AS TEXT)")
    assert checks.undecodable_texts(sound) == [f"{table}: there is a {column} that is no text any more"]
    sound.execute(f"UPDATE {table} SET {column} = 'Zoë \U0001f98a' || rowid") if table != "alias" else None
    sound.execute("UPDATE turn SET text = CAST(x'ff' AS TEXT)")
    sound.execute("UPDATE derived_word_change SET kind = CAST(x'ff' AS TEXT)")
    assert (checks.undecodable_texts(sound) == []) == (table != "alias")


def test_a_turn_of_another_session_supports_nothing_here(sound: Connection) -> None:
    """Even one that was said at the same time."""
    row, [turn] = put_session(sound, "o", at_ms=500)
    sound.execute("INSERT INTO occurrence_turn VALUES (2, ?)", (turn,))
    assert checks.contradictions(sound, "fact") == ["f1: occurrence 2 is not where and when its turns are"]
    assert row == 2


@pytest.mark.parametrize(
    ("damage", "file"),
    [
        ("SELECT 1", []),
        ("UPDATE state SET entity = 77", ["state 1 points at no entity"]),
    ],
)
def test_a_row_that_points_at_nothing_is_named(built: Connection, damage: str, file: list[str]) -> None:
    """With its table, its number and where it points; of a sound file there is nothing to report."""
    with closing(connect(":memory:", 1.0)) as tx:
        built.backup(tx)
        tx.execute(damage)
        tx.execute("BEGIN")
        assert checks.integrity(tx) == (file, [], None)


@pytest.mark.parametrize("kind", ["turn", "fact"])
def test_a_lexical_index_that_is_not_of_its_rows_is_named(built: Connection, kind: str) -> None:
    """Apart from what is wrong with the file; each by its table."""
    with closing(connect(":memory:", 1.0)) as tx:
        built.backup(tx)
        tx.execute(f"INSERT INTO derived_{kind}_words_content VALUES (9, 'lost')")
        tx.execute("BEGIN")
        file, index, note = checks.integrity(tx)
        assert (file, note) == ([], None)
        assert [f"derived_{kind}_words" in text for text in index] == [True]


def test_a_check_of_the_file_holds_up_no_writer(built: Connection, folder: Path) -> None:
    """Nor does one that writes stop the check; what could not be looked at for its sake is told."""
    with closing(connect(folder / "m.db", 0.0)) as tx, closing(connect(folder / "m.db", 0.0)) as other:
        built.backup(tx)
        tx.execute("PRAGMA journal_mode = wal")
        for _ in range(2):
            tx.execute("BEGIN")
            file, index, note = checks.integrity(tx)
            if not other.in_transaction:
                assert note is None
                other.execute("BEGIN IMMEDIATE")
            assert (file, index, tx.in_transaction) == ([], [], True)
            tx.execute("ROLLBACK")
        needs_to_write = sqlite3.sqlite_version_info < checks.CHECKS_INDEXES
        assert ("which needs to write: database is locked" in (note or "")) is needs_to_write


def test_quotes_come_with_what_their_turns_say(sound: Connection) -> None:
    """In order of the occurrences, with who spoke, who read it, and which turns those are."""
    sound.execute("UPDATE turn SET speaker = 'Bob' WHERE ordinal = 1")
    sound.execute("UPDATE chunk SET maker = NULL")
    found = list(checks.quotations(sound))
    assert [one.fact_id for one in found] == ["f0", "f1", "f2", "f3"]
    assert {one[1:] for one in found} == {
        ("Ana", "Hi. Ho.", "", "Hi. Ho.", frozenset({"Ana", "Bob"}), frozenset({1, 2}))
    }
    sound.execute("UPDATE chunk SET maker = 'reader 2'")
    sound.execute("UPDATE occurrence SET quote = NULL WHERE id = 1")
    sound.execute("DELETE FROM occurrence_turn WHERE occurrence = 1 AND turn = 2")
    first = next(iter(checks.quotations(sound)))
    assert (first.quote, first.text, first.maker, first.turns) == ("Hi.", "Hi.", "reader 2", frozenset({1}))


def test_what_vectors_and_words_are_made_of(sound: Connection) -> None:
    """Every turn and fact by row, every vector with its digest."""
    assert list(checks.indexed_texts(sound, "turn"))[1:] == [(2, "Ana", "Ho.", 1500), (3, "Ana", "He.", 2500)]
    assert next(checks.indexed_texts(sound, "fact")) == (1, "Ana", "Ana paints.", 500)
    assert sorted(checks.vector_digests(sound)) == [
        (kind, item, kind.encode()) for kind in ("fact", "turn") for item in (1, 2)
    ]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("vector = x'0000'", "has 2 bytes where most have 4"), ("vector = x'000000'", "has 3 bytes where most have 4"), ("vector = x'003c00000000'", "has 6 bytes where most have 4"),
        ("vector = x''", "has 0 bytes"), ("vector = x'00000000'", "is not of unit length"),
        ("vector = x'003c003c'", "is not of unit length"), ("vector = x'007e0000'", "is not of unit length"),
        ("vector = x'007c0000'", "is not of unit length"), ("vector = x'00bc0000'", None),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["turn", "fact"])
def test_a_vector_of_other_bytes_or_length_is_named(
    sound: Connection, kind: str, change: str, message: str | None
) -> None:
    """Measured by what most vectors have; whichever way a unit vector points."""
    assert checks.vector_problems(sound) == []
    sound.execute(f"UPDATE derived_{kind}_vector SET {change} WHERE item = 2")
    found = checks.vector_problems(sound)
    assert [one[:2] for one in found] == ([] if message is None else [(kind, 2)])
    assert all(message is None or message in text for _, _, text in found)


def test_vectors_of_half_a_number_are_wrong_even_when_all_are(sound: Connection) -> None:
    """A memory without any has no problem."""
    for kind in ("turn", "fact"):
        sound.execute(f"UPDATE derived_{kind}_vector SET vector = x'000000'")
    assert len(checks.vector_problems(sound)) == 4
    for kind in ("turn", "fact"):
        sound.execute(f"DELETE FROM derived_{kind}_vector")
    assert checks.vector_problems(sound) == []
