"""Indexes, settings, counters, what was spent and the two logs as rows: each verb writes into whose row it says, and no other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_long.stored import (
    add_mention,
    add_relation,
    empty_memory,
    finish_chunk,
    leaf,
    plant,
    put_entities,
    put_entity,
    put_fact,
    put_session,
    say,
    value,
)

from memforest.records import StepUsage
from memforest.store import derived, indexes, meta, sessions
from memforest.store.connections import Connection, connect
from memforest.store.indexes import IndexRow

ONE, TWO = IndexRow("ix", '{"ü": 1}', 7, 2, "why"), IndexRow("other", "{}", 0, 0, None)


@pytest.fixture
def both(tx: Connection) -> Connection:
    """A memory with two indexes."""
    for row in (TWO, ONE):
        indexes.add(tx, row)
    return tx


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (lambda tx: indexes.change(tx, "ix", "[]"), ONE._replace(settings="[]", reason=None)),
        (lambda tx: indexes.move(tx, "ix", 9), ONE._replace(cursor=9, reason=None)),
        (lambda tx: indexes.restart(tx, "ix", 5, "new"), ONE._replace(cursor=0, began=5, reason="new")),
        (lambda tx: indexes.restart(tx, "ix", 5, None), ONE._replace(cursor=0, began=5, reason=None)),
        (lambda tx: indexes.stop(tx, "ix", "ß"), ONE._replace(reason="ß")),
        (lambda tx: indexes.remove(tx, "ix"), None),
    ],
)  # fmt: skip
def test_each_verb_writes_its_own_values_of_one_index(both: Connection, verb, expected) -> None:  # type: ignore[no-untyped-def]
    """All other values stay, and so does the other index."""
    assert indexes.rows(both) == [ONE, TWO]
    verb(both)
    assert indexes.find(both, "ix") == expected
    assert indexes.rows(both) == ([] if expected is None else [expected]) + [TWO]
    assert indexes.find(both, "IX") is None


def test_of_two_that_place_the_same_notes_one_is_first(both: Connection) -> None:
    """Who read from where the index does not stand any more moves nothing."""
    assert indexes.move_from(both, "ix", 7, 12)
    assert not indexes.move_from(both, "ix", 7, 13)
    assert not indexes.move_from(both, "none", 0, 1)
    assert indexes.rows(both) == [ONE._replace(cursor=12, reason=None), TWO]


def test_an_index_is_rid_of_what_is_its_own_alone(both: Connection) -> None:
    """Its tables, those first that point at others, and its keys of `meta`; not those of one whose name begins alike."""
    for name in ("ix_ix_b", "ix_ix2_a", "ix_ix"):
        both.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY) STRICT")
    both.execute("CREATE TABLE ix_ix_a (b INTEGER REFERENCES ix_ix_b (id)) STRICT")
    both.execute("CREATE VIRTUAL TABLE ix_ix_words USING fts5 (words)")
    both.execute("CREATE INDEX ix_ix_by_b ON ix_ix_a (b)")
    both.execute("INSERT INTO ix_ix_b VALUES (1)")
    both.execute("INSERT INTO ix_ix_a VALUES (1)")
    keys = ("ix_ix_k", "next:ix_ix_b", "ix_ix2_k", "next:ix_ix2", "Xix_ix_k")
    for key in keys:
        meta.put(both, key, "5")
    assert indexes.own_tables(both, "ix") == ["ix_ix_words", "ix_ix_a", "ix_ix_b"]
    assert set(indexes.own_tables(both)) == {"ix_ix_words", "ix_ix_a", "ix_ix_b", "ix_ix2_a", "ix_ix"}
    indexes.empty_tables(both, "ix")
    assert value(both, "SELECT (SELECT count(*) FROM ix_ix_a) + (SELECT count(*) FROM ix_ix_b)") == 0
    assert [meta.get(both, key) for key in keys] == [None, "5", "5", "5", "5"]
    meta.put(both, "ix_ix_k", "5")
    indexes.drop_tables(both, "ix")
    assert indexes.own_tables(both, "ix") == []
    assert set(indexes.own_tables(both)) == {"ix_ix2_a", "ix_ix"}
    assert [meta.get(both, key) for key in keys] == [None, None, "5", "5", "5"]


def test_what_is_of_an_index_that_the_memory_does_not_have_is_a_stray(both: Connection) -> None:
    """Trees or tables; those of its own indexes are none."""
    plant(both, [])
    both.execute("CREATE TABLE ix_ix_a (id INTEGER PRIMARY KEY) STRICT")
    assert indexes.strays(both) == indexes.stray_tables(both) == set()
    plant(both, [], owner="gone")
    both.execute("CREATE TABLE ix_lost_a (id INTEGER PRIMARY KEY) STRICT")
    assert (indexes.strays(both), indexes.stray_tables(both)) == ({"gone", "lost"}, {"lost"})


def test_a_setting_is_what_was_put_last(tx: Connection) -> None:
    """One that was never put is None; others stay."""
    for text in ("", "Zoë \x1f", "x"):
        meta.put(tx, "name", text)
        assert meta.get(tx, "name") == text
    assert (meta.get(tx, "Name"), meta.get(tx, "generation")) == (None, "0")


def test_the_generation_grows_by_one(tx: Connection) -> None:
    """Past where numbers read as texts would be in another order; the change log is kept short on the way."""
    for n in range(12):
        assert meta.generation(tx) == n
        meta.bump(tx)
    tx.execute("INSERT INTO change VALUES (1, 'turn', 1), (?, 'turn', 2)", (meta.KEPT + 1000,))
    meta.bump(tx)
    assert meta.changes_since(tx, 0) is None


@given(st.lists(st.integers(1, 5), max_size=8))
@settings(max_examples=15)
def test_ids_are_given_one_after_the_other_and_never_again(sizes: list[int]) -> None:
    """However many at a time, and whatever is taken of another table in between."""
    with closing(empty_memory()) as tx:
        seen: list[int] = []
        for n in sizes:
            first = meta.take_ids(tx, "thing", n)
            seen += range(first, first + n)
            meta.take_ids(tx, "other", 3)
        assert seen == list(range(1, 1 + sum(sizes)))
        assert meta.take_ids(tx, "thing") == 1 + sum(sizes)


USED = st.lists(st.integers(0, 10**9), min_size=8, max_size=8).map(
    lambda n: StepUsage(n[0], n[1], n[2], n[3], n[4], n[5], n[6], n[7] / 8)
)
SPENT = st.lists(
    st.tuples(
        st.sampled_from(["ingest", "query"]), st.dictionaries(st.sampled_from(["extract", "plan"]), USED)
    ),
    max_size=6,
)


@settings(max_examples=20)
@given(SPENT)
def test_what_was_spent_is_summed_by_operation_and_step(
    spendings: list[tuple[str, dict[str, StepUsage]]],
) -> None:
    """Every number apart; an operation that spent nothing is not there."""
    with closing(empty_memory()) as tx:
        expected: dict[str, dict[str, StepUsage]] = {}
        for operation, steps in spendings:
            meta.add(tx, operation, steps)
            for step, used in steps.items():
                own = expected.setdefault(operation, {})
                own[step] = own.get(step, StepUsage()).plus(used)
        assert meta.total(tx) == expected


def test_every_count_is_of_its_own_rows(tx: Connection) -> None:
    """Rows by table, entities by kind, trees by index, vectors by kind of item, and what made things."""
    assert set(meta.count_rows(tx).values()) == {0}
    assert (meta.vectors_by_kind(tx), meta.entities_by_kind(tx), meta.trees_by_index(tx)) == (
        {},
        {},
        {},
    )
    row, turns = put_session(tx, texts=["a", "b", "c"], chunk=1)
    put_session(tx, "t")
    names = put_entity(tx, "ana", "Ana", "participant"), *put_entities(tx, "x", "y")
    rows = [put_fact(tx, f"f{n}") for n in range(5)]
    where = [say(tx, rows[n], turns[0]) for n in (0, 0, 1)]
    for at, who in ((0, 1), (1, 1), (2, 1), (2, 2)):
        add_mention(tx, where[at], names[who], "other")
    add_relation(tx, where[2], names[1], "met", names[2])
    for kind, scope in (("entity", 1), ("entity", 2), ("scene", 1)):
        plant(tx, rows if scope == 2 else [], kind=kind, scope=scope)
    leaf(tx, 1, "fact", 1)
    assert meta.count_rows(tx) == {
        "session": 2, "turn": 4, "chunk": 4, "fact": 5, "occurrence": 3, "entity": 3, "mention": 4, "state": 0,
        "relation": 1, "tree": 3, "node": 3, "leaf": 6,
    }  # fmt: skip
    assert meta.entities_by_kind(tx) == {"participant": 1, "unknown": 2}
    assert meta.trees_by_index(tx) == {"ix": {"entity": 2, "scene": 1}}
    for kind, n in (("turn", 3), ("node", 1)):
        derived.put_vectors(tx, kind, [(item, b"d", np.ones(2, dtype=np.float32)) for item in range(n)])  # type: ignore[arg-type]
    assert meta.vectors_by_kind(tx) == {"node": 1, "turn": 3}
    assert (sessions.waiting(tx), meta.count_failed_chunks(tx), meta.makers(tx)) == (
        2,
        0,
        {"chunks": {}, "summaries": {}},
    )
    sessions.set_status(tx, row, "ingested")
    for chunk, status, maker in zip(
        sessions.chunks(tx, row), ("extracted", "failed", "extracted"), "bab", strict=True
    ):
        finish_chunk(tx, chunk.row, status, maker=maker, reason="x")
    derived.put_summary(tx, value(tx, "SELECT max(id) FROM node"), "x", "m 1", "none", b"")
    assert (sessions.waiting(tx), meta.count_failed_chunks(tx)) == (1, 1)
    assert meta.makers(tx) == {"chunks": {"a": 1, "b": 2}, "summaries": {"m 1": 1}}


def test_the_most_named_come_first(tx: Connection) -> None:
    """By how many facts name them, not how often; then by key, and those that nothing names last."""
    _, [turn] = put_session(tx)
    who = dict(zip("dcba", put_entities(tx, *"dcba"), strict=True))
    for fact, named in (("f1", "cd"), ("f2", "c"), ("f3", "b")):
        row = put_fact(tx, fact)
        for _ in range(1 if fact != "f3" else 3):
            for name in named:
                add_mention(tx, say(tx, row, turn), who[name], "other")
    assert meta.most_named(tx, 9) == ["C", "B", "D", "A"]
    assert meta.most_named(tx, 2) == ["C", "B"]
    assert meta.most_named(tx, 0) == []


def test_a_file_is_as_large_as_its_pages_and_its_log(tmp_path: Path) -> None:
    """What was deleted is unused, not gone."""
    path = tmp_path / "m.db"
    with closing(connect(path, 1.0)) as tx:
        tx.execute("PRAGMA journal_mode = wal")
        tx.execute("CREATE TABLE big (text TEXT) STRICT")
        tx.executemany("INSERT INTO big VALUES (?)", [("x" * 4000,)] * 60)
        log = path.with_name("m.db-wal")
        assert meta.size_bytes(tx) == path.stat().st_size + log.stat().st_size > path.stat().st_size
        share, size = meta.free_share(tx)
        tx.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        assert (share, size) == (0, path.stat().st_size)
        tx.execute("DELETE FROM big")
        share, after = meta.free_share(tx)
        assert after == size
        assert 0.8 < share < 1
        tx.execute("VACUUM")
        assert meta.free_share(tx)[0] == 0


def test_a_read_of_the_feed_has_bounds_of_its_own(tx: Connection) -> None:
    """After one number and up to another, that one included; noted twice, an item stands where it was noted last."""
    tx.executemany(
        "INSERT INTO feed (seq, kind, item) VALUES (?, ?, ?)",
        [(2, 2, 5), (4, 2, 6), (5, 0, 1), (7, 2, 5), (9, 3, 8)],
    )
    assert indexes.read(tx, 0) == ({"turn": (1,), "fact": (6, 5), "entity": (8,)}, 9)
    assert indexes.read(tx, 2, until=7) == ({"turn": (1,), "fact": (6, 5)}, 7)
    assert indexes.read(tx, 2, until=6) == ({"turn": (1,), "fact": (6,)}, 6)
    assert indexes.read(tx, 0, 2) == ({"fact": (5, 6)}, 4)
    assert indexes.read(tx, 5, 2, until=7) == ({"fact": (5,)}, 7)
    assert indexes.read(tx, 9, 3) == ({}, 9)
    assert [indexes.waiting(tx, at) for at in (0, 2, 8, 9)] == [5, 4, 1, 0]


@pytest.mark.parametrize(("until_next", "compacts"), [(0, True), (1, False)])
def test_the_feed_is_compacted_when_its_number_has_come(
    both: Connection, until_next: int, compacts: bool
) -> None:
    """Then a least of numbers passes, or a quarter of what is left; up to where notes may be missing is written down."""
    indexes.move(both, "other", 5)
    both.executemany(
        "INSERT INTO feed (kind, item) VALUES (2, ?)", [(item,) for item in (1, 1, 2, 2, 3, 3, 4, 4)]
    )
    put_fact(both)  # the fact 1, number 9
    meta.put(both, "feed_compact_next", str(indexes.feed_position(both) + until_next))
    indexes.compact(both)
    left = [row[0] for row in both.execute("SELECT seq FROM feed ORDER BY seq")]
    assert left == ([6, 8, 9] if compacts else list(range(1, 10)))
    assert indexes.compacted(both) == (5 if compacts else 0)
    assert (meta.get(both, "feed_compact_next") == str(9 + indexes.COMPACTED)) is compacts


def test_a_short_feed_is_left_as_it_is(tx: Connection) -> None:
    """To look for what repeats would cost more than it gives."""
    tx.executemany("INSERT INTO feed (kind, item) VALUES (2, ?)", [(1,), (2,), (1,)])
    indexes.compact(tx)
    assert (indexes.waiting(tx, 0), meta.get(tx, "feed_compact_next")) == (3, None)


def test_the_mark_of_a_compaction_never_goes_back(both: Connection) -> None:
    """An index that began anew stands before it, and has not to be told what went before."""
    meta.put(both, "feed_compacted", "6")
    meta.put(both, "feed_compact_next", "0")
    indexes.compact(both)
    assert indexes.compacted(both) == 6


@pytest.mark.parametrize("damaged", ["soon", "-5", "", "1.5"])
def test_a_damaged_number_of_the_compaction_is_read_as_none(tx: Connection, damaged: str) -> None:
    """No write stops at it."""
    for key in ("feed_compacted", "feed_compact_next"):
        meta.put(tx, key, damaged)
    assert indexes.compacted(tx) == 0
    indexes.compact(tx)


@pytest.mark.parametrize(("indexes_", "kept"), [(0, 10), (1, 10), (2, 20)])
def test_the_change_log_keeps_so_many_numbers_for_each_index(
    tx: Connection, indexes_: int, kept: int
) -> None:
    """A reader within them is told all, one beyond is not served."""
    for n in range(indexes_):
        indexes.add(tx, TWO._replace(name=f"i{n}"))
    tx.executemany(
        "INSERT INTO change (seq, kind, item) VALUES (?, 'turn', ?)", [(n, n) for n in range(201, 231)]
    )
    meta.bump(tx, 10)
    assert meta.change_position(tx) == 230
    found = meta.changes_since(tx, 230 - kept)
    assert found is not None
    assert found.turn == set(range(231 - kept, 231))
    assert meta.changes_since(tx, 229 - kept) is None


@pytest.mark.parametrize(
    ("newest", "merged"), [(4096, True), (4096 + 127, True), (4096 + 128, False), (4095, False)]
)
def test_now_and_then_only_the_last_note_of_a_row_is_kept(tx: Connection, newest: int, merged: bool) -> None:
    """A reader who has missed one of the others hears of the row by the last."""
    tx.executemany(
        "INSERT INTO change (seq, kind, item) VALUES (?, ?, ?)",
        [
            (newest - 4, "turn", 1),
            (newest - 3, "fact", 1),
            (newest - 2, "turn", 1),
            (newest - 1, "fact", 2),
            (newest, "turn", 2),
        ],
    )
    meta.bump(tx)
    assert value(tx, "SELECT count(*) FROM change") == (4 if merged else 5)
    found = meta.changes_since(tx, newest - 4)
    assert found is not None
    assert found.turn == found.fact == frozenset({1, 2})
