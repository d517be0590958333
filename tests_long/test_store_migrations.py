"""A file of an older version, row by row: after the upgrade it says what it said, and what it lacked is made of what it has."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import cache

import numpy as np
import pytest
from tests.table import each
from tests_long.stored import empty_memory, value

from memforest.store import (
    aliases,
    changes,
    checks,
    contradictions,
    derived,
    digests,
    facts,
    feed,
    indexes,
    meta,
    sessions,
    trees,
)
from memforest.store import wordings as word_digests
from memforest.store.connections import Connection, connect
from memforest.store.migrations import MIGRATIONS
from memforest.store.trees import SqliteArena

OLD = 5
"""How many migrations the file has had: it is of before digests, short keys and several indexes."""

LONG = [f"s\x1f000000\x1ff1:{n:08x}{'ab' * 12}" for n in range(4)]
SHORT = [f"s\x1f000000\x1f{n:08x}" for n in range(4)]
VECTOR = np.array([0.6, -0.8], dtype="<f4")


def ids(*numbers: int) -> bytes:
    """Return ids as nodes had them once: eight bytes each."""
    return np.array(numbers, dtype="<i8").tobytes()


ROWS: dict[str, list[tuple[object, ...]]] = {
    "meta": [("user_id", "u"), ("embedder", "m1"), ("session_k", "8"), ("entity_k", "16"), ("scenes", "1"), ("next:node", "9"), ("next:scene", "7")],
    "session": [(3, "s", "ingested", 1, 5, '{"a": 1}')],
    "turn": [(4, 3, 0, "t0", "Ana", None, "Mel paints.", 500, "given", 5, "{}"), (6, 3, 1, "t1", "Bob", "user", "Zoë \U0001f98a", 600, "given", 5, '{"k": 2}')],
    "cell": [(2, 3, 0, 0, 1, "extracted", None, "m", "[]")],
    "fact": [(n + 1, f"f1:{n:08x}{'ab' * 12}", f"Fact {n}.", "Ana", None if n else 90, 95 if not n else None, "day", 0, 500, LONG[n], "[]", 5) for n in range(3)],
    "occurrence": [
        (1, 1, 2, "Ana", "Fact 0.", "Mel paints.", 500, LONG[0], "[]", 0.5), (2, 1, 2, "Bob", "Mel sings.", "Mel", 500, LONG[3], '["x"]', None),
        (3, 2, 2, "Ana", "Fact 1.", "Mel paints. Zoë \U0001f98a", 500, LONG[1], "[]", None), (4, 3, 2, "Ana", "Fact 2.", "Zoë \U0001f98a", 600, "tie", "[]", None),
        (5, 3, 2, "Ana", "Fact 2.", "Zoë \U0001f98a", 600, LONG[2], "[]", None),
    ],
    "occurrence_turn": [(1, 4), (2, 4), (3, 4), (3, 6), (4, 6), (5, 4), (5, 6)],
    "entity": [(1, "ana", "Ana", "participant", 1), (2, "melanie", "Melanie", "unknown", 0), (5, "oslo", "Oslo", "place", 1), (6, "lost", "Lost", "unknown", 0)],
    "alias": [("mel", 2), ("o town", 5), ("nobody", 6)],
    "mention": [(1, 1, "speaker", 1), (1, 1, "object", 1), (1, 2, "subject", 1), (1, 2, "other", 2), (2, 5, "subject", 3), (2, 2, "speaker", 3), (3, 5, "speaker", 4), (3, 1, "object", 4)],
    "state": [(1, 1, 1, 2, "home", "Oslo", None, "is"), (2, 2, 3, 5, "home", "Rome", "Oslo", "start"), (3, 3, 4, 1, "job", "cook", None, "end")],
    "tree": [(1, "entity", 2, 16, 8, 1, 2), (2, "session", 3, 8, 5, 0, 1), (3, "scene", 6, 16, 7, 1, 1)],
    "node": [
        (3, 1, 0, 90, LONG[0], 90, 95, 1, b"", "fact", 1, 1, 0), (4, 1, 0, 500, LONG[1], 500, 501, 1, b"", "fact", 2, 1, 0),
        (5, 2, 0, 500, "s\x1f000000", 500, 601, 1, b"", "cell", 2, 1, 0), (6, 3, 0, 500, LONG[2], 500, 501, 1, b"", "fact", 3, 1, 0),
        (7, 3, 1, 500, LONG[2], 500, 501, 1, ids(6), None, None, 3, 1), (8, 1, 1, 90, LONG[0], 90, 501, 2, ids(3, 4), None, None, 4, 0),
    ],
    "placement": [("fact", 1, 1, 3), ("fact", 2, 1, 4), ("cell", 2, 2, 5), ("fact", 3, 3, 6)],
    "derived_summary": [(8, "Mel\n\U0001f98a", "words 1+kept"), (7, "A scene.", "words 1")],
    "derived_vector": [
        ("turn", 4, b"digest04........", "m1", 2, VECTOR.tobytes()), ("turn", 6, b"digest06........", "m0", 2, VECTOR.tobytes()),
        ("fact", 1, b"digest01........", "m1", 2, VECTOR.tobytes()), ("node", 8, b"digest08........", "m1", 2, (-VECTOR).tobytes()),
    ],
    "derived_wording": [(0, b"rules of sixteen"), (2, b"wording of sixtn")],
    "spent": [("ingest", "extract", 1, 0, 0, 10, 5, 0, 0, 0.5)],
    "scene": [(6, "m1", 1, b"centre")],
    "scene_member": [(3, 6, 1)],
}  # fmt: skip


@cache
def _written() -> Connection:
    tx = connect(":memory:", 1.0)
    for migration in MIGRATIONS[:OLD]:
        migration(tx)
    for table, rows in ROWS.items():
        tx.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)
    for kind, item, words in (("turn", 4, "mel paint"), ("turn", 6, "zoe"), ("fact", 2, "fact")):
        tx.execute(f"INSERT INTO derived_{kind}_words (rowid, words) VALUES (?, ?)", (item, words))
    return tx


def old_file(changed: Callable[[Connection], object] = lambda _: None) -> Connection:
    """Return such a file, changed and then upgraded."""
    tx = connect(":memory:", 1.0)
    _written().backup(tx)
    tx.execute("BEGIN")
    changed(tx)
    for migration in MIGRATIONS[OLD:]:
        migration(tx)
    tx.execute("COMMIT")
    return tx


@pytest.fixture(scope="module")
def tx() -> Iterator[Connection]:
    """The upgraded file, which nobody changes."""
    with closing(old_file()) as made:
        yield made


def test_the_schema_is_that_of_a_new_file(tx: Connection) -> None:
    """But for the tables that an index makes when it begins."""
    sql = "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%' AND name NOT LIKE 'ix\\_%' ESCAPE '\\' ORDER BY name"
    with closing(empty_memory()) as new:
        assert tx.execute(sql).fetchall() == new.execute(sql).fetchall()
        for (name,) in new.execute(sql).fetchall():
            columns = [one.execute(f"PRAGMA table_xinfo({name})").fetchall() for one in (tx, new)]
            assert [row[1:3] for row in columns[0]] == [row[1:3] for row in columns[1]]


def test_an_upgraded_file_is_sound(tx: Connection) -> None:
    """No row points at nothing, and none contradicts another."""
    assert tx.execute("PRAGMA foreign_key_check").fetchall() == []
    assert contradictions.cell_contradictions(tx) == contradictions.entity_contradictions(tx) == []
    assert contradictions.leaf_contradictions(tx) == []
    assert contradictions.setting_contradictions(tx) == checks.state_problems(tx) == []
    assert aliases.wrong_aliases(tx) == []
    assert digests.damaged_turns(tx) == {}


def test_what_was_said_reads_as_before(tx: Connection) -> None:
    """Turns with their metadata; occurrences with their words, quotes and places, though these are stored once."""
    assert [(row, turn.text, turn.role, dict(turn.metadata)) for row, turn in sessions.turns(tx, 3)] == [
        (4, "Mel paints.", None, {}), (6, "Zoë \U0001f98a", "user", {"k": 2}),
    ]  # fmt: skip
    found = facts.occurrences(tx, [1, 2, 3])
    assert [(one.row, one.text, one.quote, one.tie, one.turns) for of in found.values() for one in of] == [
        (1, "Fact 0.", "Mel paints.", SHORT[0], (4,)), (2, "Mel sings.", "Mel", SHORT[3], (4,)),
        (3, "Fact 1.", "Mel paints. Zoë \U0001f98a", SHORT[1], (4, 6)), (5, "Fact 2.", "Zoë \U0001f98a", SHORT[2], (4, 6)), (4, "Fact 2.", "Zoë \U0001f98a", "tie", (6,)),
    ]  # fmt: skip
    kept = tx.execute(
        "SELECT text IS NULL, quote IS NULL, tie IS NULL FROM occurrence ORDER BY id"
    ).fetchall()
    assert kept == [(1, 1, 1), (0, 0, 0), (1, 0, 1), (1, 1, 0), (1, 0, 1)]
    assert [(one.text, one.tie, one.start_ms) for one in facts.iter_facts(tx)] == [
        ("Fact 0.", SHORT[0], 90), ("Fact 1.", SHORT[1], None), ("Fact 2.", SHORT[2], None),
    ]  # fmt: skip


def test_whom_facts_name_and_what_they_assert_is_as_before(tx: Connection) -> None:
    """Several roles of one are one row; states are dated by their facts, or by when they were said."""
    assert facts.mentions_of(tx, 1) == [(1, "object"), (1, "speaker"), (2, "other"), (2, "subject")]
    assert facts.mentions_of(tx, 3) == [(1, "object"), (5, "speaker")]
    assert value(tx, "SELECT count(*) FROM mention") == 7
    assert tx.execute("SELECT id, at_ms, value, previous FROM state ORDER BY id").fetchall() == [
        (1, 90, "Oslo", None), (2, 500, "Rome", "Oslo"), (3, 600, "cook", None),
    ]  # fmt: skip
    assert sorted((one.row, one.kind) for one in facts.entities(tx)) == [
        (1, "participant"),
        (2, "unknown"),
        (5, "place"),
        (6, "unknown"),
    ]


def test_an_alias_is_used_by_whose_words_hold_it_or_else_by_every_mention(tx: Connection) -> None:
    """A speaker calls nobody; an alias that nothing can use is gone."""
    assert tx.execute("SELECT * FROM alias_use ORDER BY 1, 3").fetchall() == [
        ("mel", 2, 1),
        ("mel", 2, 2),
        ("o town", 5, 3),
    ]
    assert tx.execute("SELECT key, entity FROM alias ORDER BY 1").fetchall() == [("mel", 2), ("o town", 5)]


def test_trees_stand_as_they_did(tx: Connection) -> None:
    """Of the one index that there was; leaves stand at their items' times, and nodes keep versions and marks."""
    arena = SqliteArena(tx)
    root = arena.get(8)
    assert (root.children, root.key, root.start_ms, root.end_ms, root.version, root.dirty) == (
        (3, 4),
        (90, SHORT[0]),
        90,
        501,
        4,
        False,
    )
    assert [(node.key, node.end_ms, node.item) for node in arena.get_many(root.children)] == [
        ((90, SHORT[0]), 95, 1),
        ((500, SHORT[1]), 501, 2),
    ]
    cell = arena.get(5)
    assert (cell.key, cell.end_ms, cell.item_kind, cell.item) == ((500, "s\x1f000000"), 601, "cell", 2)
    assert [(kind, scope, head.root, head.k) for kind, scope, head in trees.heads(tx, "memforest")] == [
        ("entity", 2, 8, 16), ("session", 3, 5, 8), ("scene", 6, 7, 16),
    ]  # fmt: skip
    assert trees.dirty_children(tx) == {7: (6,)}
    assert (len(trees.heads(tx)), value(tx, "SELECT count(*) FROM node"), trees.node_count(tx)) == (
        3,
        2,
        (6, 1),
    )


def test_summaries_say_what_vector_they_have(tx: Connection) -> None:
    """One that kept its children's words has their mean, one of a scene has none."""
    assert derived.summaries(tx, [7, 8]) == {8: "Mel\n\U0001f98a", 7: "A scene."}
    assert {node: made[:2] for node, made in derived.summary_makers(tx).items()} == {
        8: ("words 1", None),
        7: ("words 1", None),
    }
    assert tx.execute("SELECT node, vector FROM derived_summary ORDER BY 1").fetchall() == [
        (7, "none"),
        (8, "mean"),
    ]


def test_vectors_of_the_memorys_own_embedder_are_kept(tx: Connection) -> None:
    """Rounded, with the head of the digest; those of another one are to be made anew."""
    assert tx.execute("SELECT item, digest FROM derived_turn_vector").fetchall() == [(4, b"digest04")]
    assert np.allclose(derived.vectors_of_items(tx, "fact", [1])[1], VECTOR, atol=1e-3)
    assert np.allclose(derived.vectors_by_digest(tx, [b"digest08"])[b"digest08"], -VECTOR, atol=1e-3)
    assert [row[0] for row in derived.missing_vectors(tx, "turn")] == [6]


def test_words_are_found_as_before(tx: Connection) -> None:
    """And so is how facts are worded, by half of the digest; the rules are not cut."""
    assert (derived.postings(tx, "turn", "paint"), derived.word_counts(tx, "turn")) == (
        [(4, 1)],
        {4: 2, 6: 1},
    )
    assert derived.postings(tx, "fact", "fact") == [(2, 1)]
    assert (word_digests.wording_rules(tx), word_digests.facts_worded(tx, [b"wording "])) == (
        b"rules of sixteen",
        [2],
    )


def test_the_one_index_has_what_was_its_own(tx: Connection) -> None:
    """Its settings, its scenes and whom it has trees of; it has placed all that there is."""
    [row] = indexes.rows(tx)
    assert (row.name, row.version, json.loads(row.settings), row.reason) == (
        "memforest",
        1,
        {"session_k": 8, "entity_k": 16},
        None,
    )
    assert row.cursor == feed.position(tx) > 0
    assert tx.execute("SELECT * FROM ix_memforest_active").fetchall() == [(1,), (5,)]
    assert tx.execute("SELECT * FROM ix_memforest_scene").fetchall() == [(6, "m1", 1, b"centre")]
    assert tx.execute("SELECT * FROM ix_memforest_scene_member").fetchall() == [(3, 6, 1)]
    assert [
        meta.get(tx, key) for key in ("ix_memforest_routed", "next:ix_memforest_scene", "session_k", "scenes")
    ] == ["1", "7", None, None]


def test_the_feed_begins_with_all_that_is_stored(tx: Connection) -> None:
    """So that an index that is added later is told of it; the change log begins anew."""
    items, end = feed.read(tx, 0)
    assert items == {"turn": (4, 6), "cell": (2,), "fact": (1, 2, 3)}
    assert end == feed.position(tx)
    assert changes.changes_since(tx, 0) is None


def test_no_id_is_given_again(tx: Connection) -> None:
    """The counters begin above every id that stands anywhere in the file."""
    found = {
        name: int(meta.get(tx, f"next:{name}") or 0)
        for name in ("session", "turn", "cell", "fact", "entity", "tree", "node")
    }
    assert found == {"session": 4, "turn": 7, "cell": 3, "fact": 4, "entity": 7, "tree": 4, "node": 9}


@each(
    ("left", "counter", "expected"),
    [
        ("INSERT INTO derived_vector VALUES ('turn', 40, x'01', 'm1', 2, x'')", "turn", 41),
        ("INSERT INTO derived_turn_words (rowid, words) VALUES (50, 'a')", "turn", 51),
        ("INSERT INTO change (kind, item) VALUES ('fact', 60)", "fact", 61),
        ("INSERT INTO placement VALUES ('cell', 70, 1, 3)", "cell", 71),
        ("INSERT INTO tree VALUES (80, 'session', 90, 8, NULL, 0, 0)", "session", 91),
        ("INSERT INTO derived_wording VALUES (95, x'00')", "fact", 96),
    ],
)  # fmt: skip
def test_an_id_of_what_is_gone_is_not_given_again(left: str, counter: str, expected: int) -> None:
    """Wherever it is still written: who holds it would take the new row for the old one."""
    with closing(old_file(lambda tx: tx.execute(left))) as tx:
        assert meta.get(tx, f"next:{counter}") == str(expected)


@pytest.mark.parametrize(
    ("change", "placed"),
    [
        ("SELECT 1", True),
        ("DELETE FROM meta WHERE key = 'scenes'", False),
        ("DELETE FROM meta WHERE key IN ('scenes', 'embedder')", True),
    ],
)
def test_a_memory_whose_facts_were_never_routed_is_placed_from_the_start(change: str, placed: bool) -> None:
    """It has vectors, and no scenes were made of them; without an embedder there are none to make."""
    with closing(old_file(lambda tx: tx.execute(change))) as tx:
        [row] = indexes.rows(tx)
        assert row.cursor == (feed.position(tx) if placed else 0)


def test_a_file_that_was_never_begun_has_no_index() -> None:
    """Its process ended before it said whose it is; whoever opens it begins it."""
    with closing(old_file(lambda tx: tx.execute("DELETE FROM meta WHERE key = 'user_id'"))) as tx:
        assert indexes.rows(tx) == []
        assert indexes.own_tables(tx) == []
