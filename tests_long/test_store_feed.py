"""The feed: every write of a turn, chunk, fact or entity is noted, under a number that is never given again.

A random history of writes is compared with a plain list of what was noted, whatever was deleted, compacted, vacuumed or
opened again in between.
"""

from __future__ import annotations

import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import fast_config, fast_folder, file_of, make_sessions

from memforest import MemForest
from memforest.store import indexes, meta
from memforest.store.connections import Tx
from memforest.store.database import Database, ensure_schema
from memforest.store.upkeep import vacuum
from memforest.trees.attached import Attached

INDEX, OTHER = "memforest", "other"

INSERTS = {
    "turn": "INSERT INTO turn VALUES ({0}, 1, {0}, 't{0}', 'Ana', NULL, 'Hi.', 0, 'given', 0, '{{}}', x'', NULL)",
    "chunk": "INSERT INTO chunk (id, session, ordinal, first, last, status) VALUES ({0}, 1, {0}, 0, 0, 'pending')",
    "fact": "INSERT INTO fact VALUES ({0}, 'f{0}', 'x', 'Ana', NULL, NULL, '', 0, 0, '', '[]', 0, '[]', 0)",
    "entity": "INSERT INTO entity VALUES ({0}, 'e{0}', 'E{0}', 'unknown')",
}
CHANGES = {
    "chunk": "UPDATE chunk SET status = CASE status WHEN 'pending' THEN 'extracted' ELSE 'pending' END WHERE id = {0}",
    "fact": "UPDATE fact SET text = text || 'y' WHERE id = {0}",
    "entity": "UPDATE entity SET kind = CASE kind WHEN 'unknown' THEN 'participant' ELSE 'unknown' END WHERE id = {0}",
}
Noted = tuple[str, int]


def make(path: Path) -> None:
    """Write an empty memory with two indexes, which are never behind by themselves."""
    db = Database(path)
    ensure_schema(db)
    with db.write() as tx:
        tx.execute("INSERT INTO session VALUES (1, 's', 'received', 1, 0, '{}', 0)")
        Attached(fast_config()).begin(tx)
        (row,) = indexes.rows(tx)
        indexes.add(tx, row._replace(name=OTHER))
    db.close()


class File(bytes):
    """The bytes of a file, which are too many to be shown."""

    def __repr__(self) -> str:
        return f"<file of {len(self)} bytes>"


@pytest.fixture(scope="module")
def empty() -> Iterator[bytes]:
    """The bytes of such a memory."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        make(Path(folder) / "m.db")
        yield File((Path(folder) / "m.db").read_bytes())


@pytest.fixture
def db(empty: bytes, folder: Path) -> Iterator[Database]:
    """Such a memory."""
    (folder / "m.db").write_bytes(empty)
    made = Database(folder / "m.db")
    ensure_schema(made)
    yield made
    made.close()


def compact(tx: Tx) -> None:
    """Compact the feed at once."""
    meta.put(tx, "feed_compact_next", "0")
    indexes.compact(tx)


def noted(tx: Tx, after: int) -> set[Noted]:
    """Return what was noted after a number."""
    items, _ = indexes.read(tx, after)
    return {(kind, item) for kind, found in items.items() for item in found}


MAKE = "; ".join(INSERTS[kind].format(7) for kind in INSERTS)
OCCURRENCE = (
    "INSERT INTO occurrence VALUES (9, 7, 7, 'Ana', 0, '[]', NULL, NULL, 'x', NULL, NULL, NULL, NULL)"
)


@pytest.mark.parametrize(
    ("before", "statement", "expected"),
    [
        ("", INSERTS["turn"], {("turn", 7)}),
        ("", INSERTS["chunk"], {("chunk", 7)}),
        ("", INSERTS["fact"], {("fact", 7)}),
        (MAKE, "DELETE FROM turn", {("turn", 7)}),
        (MAKE, "DELETE FROM chunk", {("chunk", 7)}),
        (MAKE, "DELETE FROM fact", {("fact", 7)}),
        (MAKE, "DELETE FROM entity", {("entity", 7)}),
        (MAKE, CHANGES["chunk"], {("chunk", 7)}),
        (MAKE, CHANGES["entity"], {("entity", 7)}),
        *(
            (MAKE, f"UPDATE fact SET {change}", {("fact", 7)})
            for change in (
                "text = 'y'",
                "speaker = 'Bob'",
                "start_ms = 1",
                "end_ms = 1",
                "said_ms = 1",
                "tie = 'y'",
            )
        ),
        (MAKE, OCCURRENCE, {("fact", 7)}),
        (f"{MAKE}; {OCCURRENCE}", "DELETE FROM occurrence", {("fact", 7)}),
        (f"{MAKE}; {OCCURRENCE}", "DELETE FROM chunk", {("chunk", 7), ("fact", 7)}),
        (MAKE, "INSERT INTO derived_fact_vector VALUES (7, x'00', x'003c')", {("fact", 7)}),
        (MAKE, "DELETE FROM session", {("turn", 7), ("chunk", 7)}),
        (MAKE, "UPDATE fact SET text = text, speaker = speaker", set()),
        (MAKE, "UPDATE chunk SET maker = 'x', skipped = '[]'", set()),
        (MAKE, "UPDATE entity SET label = 'F'", set()),
        ("", INSERTS["entity"], set()),  # nothing names it yet
    ],
)
def test_a_write_of_what_indexes_follow_is_noted(
    db: Database, before: str, statement: str, expected: set[Noted]
) -> None:
    """Whatever wrote it, and by whatever cascade; what no index places leaves no note."""
    with db.write() as tx:
        for one in filter(None, before.format(7).split("; ")):
            tx.execute(one)
        start = indexes.feed_position(tx)
        tx.execute(statement.format(7))
        assert noted(tx, start) == expected
        assert (indexes.feed_position(tx) > start) == bool(expected)


def test_notes_of_one_item_in_a_row_are_one(db: Database) -> None:
    """A fact that is written word by word takes no more room than one that is written at once."""
    with db.write() as tx:
        tx.execute(INSERTS["fact"].format(7))
        for _ in range(5):
            tx.execute(CHANGES["fact"].format(7))
        assert tx.execute("SELECT count(*) FROM feed").fetchone() == (1,)


def test_a_bounded_read_ends_where_the_next_begins(db: Database) -> None:
    """Steps of any size give everything, in order; the last one ends at the end of the feed."""
    with db.write() as tx:
        for item in range(1, 11):
            tx.execute(INSERTS["fact"].format(item))
        for most in (1, 3, 10, 11):
            at, found = 0, list[int]()
            while at != indexes.feed_position(tx):
                items, at = indexes.read(tx, at, most)
                found += items["fact"]
            assert found == list(range(1, 11))


@dataclass
class History:
    """A memory, and by hand what its feed must know."""

    path: Path
    log: dict[Noted, int] = field(default_factory=dict)
    """The number under which an item was noted last."""
    stored: set[Noted] = field(default_factory=set)
    cursors: dict[str, int] = field(default_factory=lambda: {INDEX: 0, OTHER: 0})
    highest: int = 0

    def __post_init__(self) -> None:
        self.db = Database(self.path)
        ensure_schema(self.db)

    def write(self, kind: str, item: int, verb: str) -> None:
        """Insert, change or delete an item, where that can be done, and check the number of its note."""
        if (verb == "insert") == ((kind, item) in self.stored) or (verb == "change" and kind not in CHANGES):
            return
        statement = {"insert": INSERTS, "change": CHANGES}.get(verb, {}).get(
            kind, f"DELETE FROM {kind} WHERE id = {item}"
        )
        with self.db.write() as tx:
            tx.execute(statement.format(item))
            position = indexes.feed_position(tx)
        (self.stored.discard if verb == "delete" else self.stored.add)((kind, item))
        if (kind, verb) != ("entity", "insert"):
            assert position > self.highest, "a number was given again"
            self.log[kind, item] = self.highest = position

    def move(self, name: str, share: float) -> None:
        """Let an index place a share of what it lags behind."""
        with self.db.write() as tx:
            items, upto = indexes.read(tx, self.cursors[name], 1 + int(share * 10))
            del items
            indexes.move(tx, name, upto)
        self.cursors[name] = upto

    def compact(self) -> None:
        """Compact the feed, and check that it has one note of an item at most."""
        with self.db.write() as tx:
            compact(tx)
            assert tx.execute("SELECT 1 FROM feed GROUP BY kind, item HAVING count(*) > 1").fetchone() is None

    def vacuum(self) -> None:
        """Write the file anew."""
        vacuum(self.db)

    def reopen(self) -> None:
        """Close the file and open it again."""
        self.db.close()
        self.db = Database(self.path)
        ensure_schema(self.db)

    def check(self) -> None:
        """Compare what each index would be told with the history."""
        by_number = sorted(self.log, key=lambda one: self.log[one])
        with self.db.read() as tx:
            for cursor in {0, *self.cursors.values()}:
                items, end = indexes.read(tx, cursor)
                assert end == indexes.feed_position(tx) == self.highest
                for kind in INSERTS:
                    told = list(items.get(kind, ()))  # type: ignore[call-overload]
                    wanted = [item for one, item in by_number if one == kind and self.log[one, item] > cursor]
                    if cursor == 0:  # what is gone need not be told to who has never heard of it
                        told, wanted = (
                            [i for i in each if (kind, i) in self.stored] for each in (told, wanted)
                        )
                    assert told == wanted


KINDS, ITEMS = st.sampled_from(sorted(INSERTS)), st.integers(1, 4)
STEPS = st.one_of(
    st.tuples(st.just("write"), KINDS, ITEMS, st.sampled_from(["insert", "change", "delete"])),
    st.tuples(st.just("write"), KINDS, ITEMS, st.just("insert")),
    st.tuples(st.just("move"), st.sampled_from([INDEX, OTHER]), st.floats(0, 1)),
    st.tuples(st.sampled_from(["compact", "vacuum", "reopen"])),
)
GONE = [("write", "fact", 1, "insert"), ("write", "fact", 1, "delete")]


@settings(max_examples=60)
@given(st.lists(STEPS, min_size=5, max_size=40))
@example([GONE[0], ("write", "fact", 2, "insert"), ("write", "fact", 1, "change")])
@example([*GONE, ("move", INDEX, 1.0), ("move", OTHER, 1.0), ("compact",), ("vacuum",), ("reopen",), GONE[0]])
@example([GONE[0], ("move", INDEX, 1.0), GONE[1], ("move", OTHER, 1.0), ("compact",)])
def test_the_feed_tells_every_index_what_it_has_not_placed(
    empty: bytes, steps: list[tuple[str, ...]]
) -> None:
    """Numbers only grow; compaction keeps the newest note of what is stored, and of what is gone while an index needs it."""
    with tempfile.TemporaryDirectory(dir=fast_folder()) as folder:
        path = Path(folder) / "m.db"
        path.write_bytes(empty)
        history = History(path)
        try:
            for verb, *how in steps:
                getattr(history, verb)(*how)
                history.check()
        finally:
            history.db.close()


def test_what_is_gone_leaves_the_feed_when_every_index_has_passed_it(db: Database) -> None:
    """A memory that is written over and over keeps a feed as long as what it holds."""
    with db.write() as tx:
        for item in range(1, 21):
            tx.execute(INSERTS["fact"].format(item))
        tx.execute("DELETE FROM fact WHERE id > 5")
        end = indexes.feed_position(tx)
        indexes.move(tx, INDEX, end)
        indexes.move(tx, OTHER, end - 1)
        compact(tx)
        assert len(noted(tx, 0)) == 6  # the last one that is gone is still to be told
        indexes.move(tx, OTHER, end)
        compact(tx)
        assert noted(tx, 0) == {("fact", item) for item in range(1, 6)}
        assert indexes.feed_position(tx) == end


@pytest.mark.parametrize("key", ["feed_compacted", "feed_compact_next"])
def test_numbers_of_the_compaction_that_are_none_are_named(tmp_path: Path, key: str) -> None:
    """A write would stop at them, so `verify` finds them."""
    with MemForest(tmp_path, fast_config()) as forest:
        forest.ingest_session("u", *make_sessions(1, sessions=1)[0])
    with sqlite3.connect(file_of(tmp_path)) as conn:
        conn.execute(
            "INSERT INTO meta VALUES (?, 'soon') ON CONFLICT (key) DO UPDATE SET value = 'soon'", (key,)
        )
    conn.close()
    with MemForest(tmp_path, fast_config()) as forest:
        messages = [one.message for one in forest.user("u").verify().problems]
    assert any(key in message and "soon" in message for message in messages)
