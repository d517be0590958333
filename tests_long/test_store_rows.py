"""Indexes, settings, counters, what was spent and the log as rows: each verb writes into whose row it says, and no other."""

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
    put_entities,
    put_entity,
    put_fact,
    put_session,
    say,
    value,
)

from memforest.records import StepUsage
from memforest.store import artifacts, derived, meta, sessions
from memforest.store.artifacts import Artifact
from memforest.store.connections import Connection, connect
from memforest.store.meta import IndexRow

ONE, TWO = IndexRow("ix", '{"ü": 1}'), IndexRow("other", "{}")


@pytest.fixture
def both(tx: Connection) -> Connection:
    """A memory with two indexes."""
    for row in (TWO, ONE):
        meta.put_index(tx, row)
    return tx


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (lambda tx: meta.put_index(tx, meta.IndexRow("ix", "[]")), ONE._replace(settings="[]")),
        (lambda tx: meta.remove_index(tx, "ix"), None),
    ],
)  # fmt: skip
def test_each_verb_writes_its_own_values_of_one_index(both: Connection, verb, expected) -> None:  # type: ignore[no-untyped-def]
    """All other values stay, and so does the other index."""
    assert meta.index_rows(both) == [ONE, TWO]
    verb(both)
    assert meta.index_rows(both) == ([] if expected is None else [expected]) + [TWO]


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
            meta.add_spent(tx, operation, steps)
            for step, used in steps.items():
                own = expected.setdefault(operation, {})
                own[step] = own.get(step, StepUsage()).plus(used)
        assert meta.total_spent(tx) == expected


def test_every_count_is_of_its_own_rows(tx: Connection) -> None:
    """Rows by table, entities by kind, vectors by kind of item, and what made things."""
    assert set(meta.count_rows(tx).values()) == {0}
    assert (meta.vectors_by_kind(tx), meta.entities_by_kind(tx)) == ({}, {})
    row, turns = put_session(tx, texts=["a", "b", "c"], chunk=1)
    put_session(tx, "t")
    names = put_entity(tx, "ana", "Ana", "participant"), *put_entities(tx, "x", "y")
    rows = [put_fact(tx, f"f{n}") for n in range(5)]
    where = [say(tx, rows[n], turns[0]) for n in (0, 0, 1)]
    for at, who in ((0, 1), (1, 1), (2, 1), (2, 2)):
        add_mention(tx, where[at], names[who], "other")
    add_relation(tx, where[2], names[1], "met", names[2])
    assert meta.count_rows(tx) == {
        "session": 2, "turn": 4, "chunk": 4, "fact": 5, "occurrence": 3, "entity": 3, "mention": 4, "state": 0,
        "relation": 1,
    }  # fmt: skip
    assert meta.entities_by_kind(tx) == {"participant": 1, "unknown": 2}
    one = np.ones(2, dtype=np.float32)
    artifacts.put(
        tx, "summary", [Artifact(bytes(16), "m 1", "x", "own"), Artifact(bytes(15) + b"1", "m 1", "x")]
    )
    artifacts.put(tx, "place", [Artifact(bytes(15) + b"2", "ix", "1")])
    artifacts.put_vectors(tx, [(bytes(16), one)])
    derived.put_vectors(tx, "turn", [(item, b"d", one) for item in range(3)])
    assert meta.vectors_by_kind(tx) == {"node": 1, "turn": 3}
    assert (sessions.waiting(tx), meta.count_failed_chunks(tx), meta.makers(tx)) == (
        2,
        0,
        {"chunks": {}, "summaries": {"m 1": 2}},
    )
    tx.execute("UPDATE session SET status = 'ingested' WHERE id = ?", (row,))
    for chunk, status, maker in zip(
        sessions.chunks(tx, row), ("extracted", "failed", "extracted"), "bab", strict=True
    ):
        finish_chunk(tx, chunk.row, status, maker=maker, reason="x")
    assert (sessions.waiting(tx), meta.count_failed_chunks(tx)) == (1, 1)
    assert meta.makers(tx) == {"chunks": {"a": 1, "b": 2}, "summaries": {"m 1": 2}}


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


def test_the_change_log_keeps_so_many_numbers(tx: Connection) -> None:
    """A reader within them is told all, one beyond is not served."""
    tx.executemany(
        "INSERT INTO change (seq, kind, item) VALUES (?, 'turn', ?)", [(n, n) for n in range(201, 231)]
    )
    meta.bump(tx, 10)
    assert meta.change_position(tx) == 230
    found = meta.changes_since(tx, 220)
    assert found is not None
    assert found.turn == set(range(221, 231))
    assert meta.changes_since(tx, 219) is None


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
