"""The change log: everything that a snapshot holds is noted, and what it no longer reaches is said to be so."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))


from memforest.store import artifacts, meta
from memforest.store.artifacts import Artifact
from memforest.store.database import Database, ensure_schema
from memforest.store.meta import bump, change_position, changes_since


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    """An empty memory."""
    made = Database(tmp_path / "m.db")
    ensure_schema(made)
    with made.write() as tx:
        tx.execute("INSERT INTO session VALUES (1, 's', 'received', 1, 0, '{}', 0)")
        tx.execute(
            "INSERT INTO chunk (id, session, ordinal, first, last, status) VALUES (1, 1, 0, 0, 0, 'pending')"
        )
        tx.execute(
            "INSERT INTO turn VALUES (5, 1, 0, 'a', 'Ana', NULL, 'Hi.', 0, 'given', 0, '{}', x'', NULL)"
        )
        tx.execute("INSERT INTO fact VALUES (7, 'f', 'x', 'Ana', NULL, NULL, '', 0, 0, '', '[]', 0, '[]', 0)")
        tx.execute("INSERT INTO entity VALUES (3, 'ana', 'Ana', 'person')")
        tx.execute(
            "INSERT INTO occurrence VALUES (9, 7, 1, 'Ana', 0, '[]', NULL, NULL, 'x', NULL, NULL, NULL, NULL)"
        )
        tx.execute("INSERT INTO derived_turn_vector VALUES (5, x'00', x'003c')")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("statement", "kind", "item"),
    [
        ("DELETE FROM turn WHERE id = 5", "turn", 5),
        ("UPDATE fact SET text = 'y' WHERE id = 7", "fact", 7),
        ("UPDATE fact SET speaker = 'Bob' WHERE id = 7", "fact", 7),
        ("DELETE FROM fact WHERE id = 7", "fact", 7),
        ("INSERT INTO mention VALUES (7, 3, 9, 2)", "fact", 7),
        ("INSERT INTO occurrence_turn VALUES (9, 5)", "fact", 7),
        ("INSERT INTO state VALUES (1, 7, 9, 3, 'home', 'Oslo', NULL, 'is', 0)", "fact", 7),
        ("DELETE FROM chunk WHERE id = 1", "fact", 7),  # by way of the occurrence
        ("UPDATE entity SET kind = 'participant' WHERE id = 3", "entity", 3),
        ("INSERT INTO alias VALUES ('an', 3)", "entity", 3),
        ("UPDATE derived_turn_vector SET vector = x'0000' WHERE item = 5", "turn", 5),
        ("DELETE FROM derived_turn_vector", "turn", 5),
    ],
)
def test_every_write_that_a_snapshot_would_show_is_noted(
    db: Database, statement: str, kind: str, item: int
) -> None:
    """Inserts, updates and deletions, cascades included, name the row that is to be read again."""
    with db.read() as tx:
        before = change_position(tx)
    with db.write() as tx:
        tx.execute(statement)
    with db.read() as tx:
        changed = changes_since(tx, before)
        assert changed is not None
        assert item in getattr(changed, kind)


def test_marks_that_no_query_sees_are_not_noted(db: Database) -> None:
    """What a model made, a chunk's status or a setting costs no reader anything."""
    with db.read() as tx:
        before = change_position(tx)
    with db.write() as tx:
        artifacts.put(tx, "summary", [Artifact(bytes(16), "m", "x")])
        tx.execute("UPDATE chunk SET status = 'extracted'")
        meta.put(tx, "label", "Ana")
    with db.read() as tx:
        assert change_position(tx) == before


def test_a_reader_too_far_behind_is_told(db: Database) -> None:
    """What the log no longer holds, or never did, is not passed off as no change."""
    with db.write() as tx:
        newest = change_position(tx)
        bump(tx, 3)
        assert changes_since(tx, newest - 3) is not None
        assert changes_since(tx, newest - 4) is None
        assert changes_since(tx, newest + 1) is None
        assert changes_since(tx, -1) is None
        bump(tx, 0)  # keeps one
        assert change_position(tx) == newest
        assert changes_since(tx, newest) == (frozenset(),) * 3


def test_a_row_is_noted_once_and_every_reader_hears_of_it(db: Database) -> None:
    """Of notes of one row that follow each other the last is kept, under a number that no reader has seen yet."""
    seen = []
    for text in ("y", "z"):
        with db.read() as tx:
            seen.append(change_position(tx))
        with db.write() as tx:
            tx.execute("UPDATE fact SET text = ? WHERE id = 7", (text,))
            tx.execute("UPDATE fact SET text = text")
    with db.read() as tx:
        assert tx.execute("SELECT count(*) FROM change WHERE seq > ?", (seen[0],)).fetchone() == (1,)
        for at in seen:
            found = changes_since(tx, at)
            assert found is None or found.fact == {7}
        assert changes_since(tx, seen[-1]) is not None
