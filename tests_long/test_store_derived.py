"""Summaries, vectors, words and wordings: kept beside what they were made of, found by it, and gone when that is."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests_long.stored import chunk_of, empty_memory, leaf, plant, put_fact, put_session, value

from memforest.store import derived
from memforest.store import facts as word_digests
from memforest.store.connections import Connection
from memforest.store.derived import CHANGES_KEPT, NUMBER, MadeBy

KINDS: tuple[Any, ...] = ("turn", "fact", "node")
WORDED: tuple[Any, ...] = ("turn", "fact")


def unit(axis: int, dimension: int = 4) -> NDArray[np.float32]:
    """Return the unit vector of an axis."""
    found: NDArray[np.float32] = np.eye(dimension, dtype=np.float32)[axis]
    return found


def axes(found: dict[Any, NDArray[np.float32]]) -> dict[Any, int]:
    """Return the axis of each vector."""
    return {key: int(np.argmax(vector)) for key, vector in found.items()}


def nodes(tx: Connection, n: int = 3) -> list[int]:
    """Store a tree and return its inner nodes, the root last."""
    plant(tx, [put_fact(tx, f"f{at}", said_ms=at) for at in range(3 * n)])
    return [row[0] for row in tx.execute("SELECT id FROM node ORDER BY level, id")]


def test_a_summary_comes_back_and_gives_way_to_the_next(tx: Connection) -> None:
    """In every script, with who made it of what; nodes without one are left out."""
    one, two, *_ = nodes(tx)
    derived.put_summary(tx, one, "old", "m1", "own", b"1")
    derived.put_summary(tx, two, "", "m2", "none", b"")
    derived.put_summary(tx, one, "Zoë \U0001f98a\n" * 50, "m3", "mean", b"\x00\xff")
    assert derived.summaries(tx, [two, one, 999]) == {one: "Zoë \U0001f98a\n" * 50, two: ""}
    assert derived.summaries(tx, []) == {}
    assert derived.summary_makers(tx) == {
        one: MadeBy("m3", b"\x00\xff", "mean"),
        two: MadeBy("m2", b"", "none"),
    }
    assert value(tx, "SELECT vector FROM derived_summary WHERE node = ?", one) == "mean"


def test_a_text_is_kept_for_its_mean_until_there_is_a_vector(tx: Connection) -> None:
    """Of all nodes or of some; a summary with a vector of its own, or none at all, is not among them."""
    one, two, three, root = nodes(tx)
    for node, vector in ((one, "mean"), (two, "own"), (three, "none"), (root, "mean")):
        derived.put_summary(tx, node, f"text {node}", "m", vector, b"")  # type: ignore[arg-type]
    assert derived.kept_texts(tx) == {one: f"text {one}", root: f"text {root}"}
    assert derived.kept_texts(tx, [root, two]) == {root: f"text {root}"}
    assert derived.kept_texts(tx, []) == {}
    derived.put_vectors(tx, "node", [(root, b"d", unit(0))])
    assert derived.kept_texts(tx) == {one: f"text {one}"}


def test_what_a_dirty_node_says_is_dropped(tx: Connection) -> None:
    """With its vector; summaries and vectors of clean ones stay as they are."""
    ids = nodes(tx)
    tx.execute("UPDATE node SET dirty = id IN (?, ?)", (ids[0], ids[-1]))
    for node in ids:
        derived.put_summary(tx, node, f"text {node}", "m", "own", b"x")
        derived.put_vectors(tx, "node", [(node, b"d", unit(0))])
    derived.put_vectors(tx, "turn", [(ids[0], b"d", unit(0))])
    derived.drop_stale(tx)
    assert derived.summaries(tx, ids) == {node: f"text {node}" for node in ids[1:-1]}
    assert list(derived.summary_makers(tx).values()) == [MadeBy("m", b"x", "own")] * (len(ids) - 2)
    assert set(derived.vectors_of_items(tx, "node", ids)) == set(ids[1:-1])
    assert list(derived.vectors_of_items(tx, "turn", ids)) == [ids[0]]


def test_summaries_of_some_nodes_are_dropped(tx: Connection) -> None:
    """Dirty or not, with their vectors; those of others stay."""
    one, two, *_ = nodes(tx)
    for node in (one, two):
        derived.put_summary(tx, node, "text", "m", "own", None)
        derived.put_vectors(tx, "node", [(node, b"d", unit(0))])
    derived.drop_summaries(tx, [one])
    assert derived.summary_makers(tx) == {two: MadeBy("m", None, "own")}
    assert derived.summary_makers(tx, [one]) == {}
    assert set(derived.vectors_of_items(tx, "node", [one, two])) == {two}


@pytest.mark.parametrize("kind", KINDS)
def test_a_vector_is_its_items_alone(tx: Connection, kind: Any) -> None:
    """Put again it is another; it is found by item, and no other kind's item of that number has it."""
    vector = np.array([0.6, -0.8, 0, 0], dtype=np.float32)
    derived.put_vectors(tx, kind, [(7, b"a" * 8, unit(0)), (3, b"b" * 8, unit(1))])
    derived.put_vectors(tx, kind, [(7, b"c" * 8, vector)])
    found = derived.vectors_of_items(tx, kind, [3, 7, 9])
    assert set(found) == {3, 7}
    assert np.array_equal(found[7], vector.astype(NUMBER).astype(np.float32))
    for other in set(KINDS) - {kind}:
        assert derived.vectors_of_items(tx, other, [3, 7]) == {}
    assert axes(derived.vectors_by_digest(tx, [b"a" * 8, b"b" * 8, b"c" * 8])) == {b"b" * 8: 1, b"c" * 8: 0}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 4, 384])
def test_the_first_vector_says_how_long_all_are(tx: Connection, kind: Any, length: int) -> None:
    """Whatever it is of; a memory without any has no length."""
    assert derived.dimension(tx) is None
    derived.put_vectors(tx, kind, [(1, b"d", unit(0, length))])
    assert derived.dimension(tx) == length


def test_a_text_that_has_a_vector_anywhere_has_it_everywhere(tx: Connection) -> None:
    """Texts are asked for by digest, each once or more; one that nobody has is left out."""
    for axis, kind in enumerate(KINDS):
        derived.put_vectors(tx, kind, [(1, kind.encode(), unit(axis))])
    wanted = [b"fact", b"turn", b"none", b"fact", b"node"]
    assert axes(derived.vectors_by_digest(tx, wanted)) == {b"turn": 0, b"fact": 1, b"node": 2}
    assert derived.vectors_by_digest(tx, []) == {}


@settings(max_examples=15)
@given(st.sets(st.integers(1, 3000), max_size=40), st.none() | st.sets(st.integers(1, 3000), max_size=40))
def test_blocks_hold_every_vector_once_by_id(items: set[int], only: set[int] | None) -> None:
    """All of a kind or those of some items."""
    with closing(empty_memory()) as tx:
        derived.put_vectors(tx, "fact", [(item, b"d", unit(item % 4)) for item in items])
        derived.put_vectors(tx, "turn", [(5000, b"d", unit(0))])
        blocks = list(derived.vector_blocks(tx, "fact", only))
        expected = sorted(items if only is None else items & only)
        assert [item for ids, _ in blocks for item in ids.tolist()] == expected
        assert list(derived.vector_blocks(tx, "fact", ())) == []
        assert [int(np.argmax(row)) for _, rows in blocks for row in rows] == [item % 4 for item in expected]


def test_many_vectors_come_in_several_blocks(tx: Connection) -> None:
    """Each with as many ids as vectors, and none empty."""
    derived.put_vectors(tx, "turn", [(item, b"d", unit(item % 4)) for item in range(2500)])
    sizes = [(len(ids), rows.shape) for ids, rows in derived.vector_blocks(tx, "turn")]
    assert len(sizes) > 1
    assert sum(n for n, _ in sizes) == 2500
    assert all(shape == (n, 4) and n for n, shape in sizes)


def test_only_vectors_of_another_text_are_dropped(tx: Connection) -> None:
    """Those with the digest that is given stay, and so do items that nobody asks about."""
    derived.put_vectors(tx, "fact", [(item, bytes([item]), unit(0)) for item in range(4)])
    derived.drop_other_vectors(tx, "fact", ((item, b"\x01") for item in (0, 1, 2)))
    assert set(derived.vectors_of_items(tx, "fact", range(4))) == {1, 3}
    derived.drop_vectors(tx, "fact", iter([3, 9]))
    assert set(derived.vectors_of_items(tx, "fact", range(4))) == {1}


def test_the_vectors_of_a_leaf_are_those_of_its_turns(tx: Connection) -> None:
    """In the order of the session, of a chunk and of a run; none at all when one turn has none."""
    _, turns = put_session(tx, texts=list("abcde"), chunk=3)
    chunk = leaf(tx, 1, "chunk", chunk_of(tx, turns[0]))
    run, single = leaf(tx, 1, "turn", turns[1], turns[3]), leaf(tx, 1, "turn", turns[4])
    derived.put_vectors(tx, "turn", [(turn, b"d", unit(3 - n)) for n, turn in enumerate(turns[:4])])
    found = {
        one: [int(np.argmax(v)) for v in derived.vectors_of_leaf(tx, one)] for one in (chunk, run, single)
    }
    assert found == {chunk: [3, 2, 1], run: [2, 1, 0], single: []}
    derived.put_vectors(tx, "turn", [(turns[4], b"d", unit(0))])
    assert len(derived.vectors_of_leaf(tx, single)) == 1
    derived.drop_vectors(tx, "turn", [turns[2]])
    assert derived.vectors_of_leaf(tx, chunk) == derived.vectors_of_leaf(tx, run) == []
    assert derived.vectors_of_leaf(tx, leaf(tx, 1, "fact", put_fact(tx))) == []


def test_what_has_no_vector_yet_is_told_with_its_text(tx: Connection) -> None:
    """By id: turns with who spoke, facts, and nodes whose summary is to be embedded."""
    _, turns = put_session(tx, texts=["a", "b", "c"])
    ids = nodes(tx)
    for node, vector in zip(ids, ("own", "mean", "none", "own"), strict=True):
        derived.put_summary(tx, node, f"text {node}", "m", vector, b"")  # type: ignore[arg-type]
    assert derived.missing_vectors(tx, "turn") == [
        (turn, "Ana", text) for turn, text in zip(turns, "abc", strict=True)
    ]
    assert derived.missing_vectors(tx, "node") == [(node, "", f"text {node}") for node in (ids[0], ids[3])]
    derived.put_vectors(tx, "turn", [(turns[1], b"d", unit(0))])
    derived.put_vectors(tx, "node", [(ids[0], b"d", unit(0))])
    assert [row[0] for row in derived.missing_vectors(tx, "turn")] == [turns[0], turns[2]]
    assert [row[0] for row in derived.missing_vectors(tx, "node")] == [ids[3]]
    assert derived.missing_vectors(tx, "fact")[0] == (1, "", "Ana paints.")


WRITES = st.lists(
    st.tuples(st.sampled_from(WORDED), st.integers(1, 4), st.none() | st.lists(st.sampled_from(["a", "bb", "zoë", "犬", "3ˑ5"]), max_size=5)),
    max_size=15,
)  # fmt: skip


@settings(max_examples=25)
@given(WRITES, st.integers(0, 15))
def test_words_are_those_that_were_put_last(
    writes: list[tuple[Any, int, list[str] | None]], seen: int
) -> None:
    """Rows, counts and postings, and what has changed since any write, are those of a plain dict."""
    with closing(empty_memory()) as tx:
        now: dict[str, dict[int, list[str]]] = {"turn": {}, "fact": {}}
        mark = 0
        touched: set[tuple[str, int]] = set()
        for n, (kind, item, tokens) in enumerate(writes):
            if n == seen:
                mark, touched = derived.last_word_change(tx), set()
            touched.add((kind, item))
            if tokens is None:
                derived.clear_words(tx, kind, item)
                now[kind].pop(item, None)
            else:
                derived.put_words(tx, kind, item, tokens)
                now[kind][item] = tokens
        for kind in WORDED:
            assert {item: words.split() for item, words in derived.all_words(tx, kind)} == now[kind]
            assert [item for item, _ in derived.all_words(tx, kind)] == sorted(now[kind])
            assert derived.word_counts(tx, kind) == {item: len(tokens) for item, tokens in now[kind].items()}
            assert derived.word_counts(tx, kind, [2, 9]) == ({2: len(now[kind][2])} if 2 in now[kind] else {})
            for term in ("a", "bb", "zoë", "犬", "none"):
                holders = {item: Counter(tokens)[term] for item, tokens in now[kind].items()}
                assert derived.postings(tx, kind, term) == sorted((i, n) for i, n in holders.items() if n)
            changed = derived.changed_words(tx, kind, mark)
            items = sorted(item for of, item in touched if of == kind)
            assert changed is not None
            assert list(changed) == items
            assert all(changed[i] == (tuple(now[kind][i]) if i in now[kind] else None) for i in items)


def test_a_reader_who_is_too_far_behind_is_told(tx: Connection) -> None:
    """The log holds a bounded number of changes; within that every reader is served."""
    for _ in range(CHANGES_KEPT + 300):
        derived.clear_words(tx, "turn", 1)
    newest = derived.last_word_change(tx)
    assert newest == CHANGES_KEPT + 300
    assert derived.changed_words(tx, "turn", 10) is None
    assert derived.changed_words(tx, "turn", newest - CHANGES_KEPT) == {1: None}
    assert derived.changed_words(tx, "turn", newest) == {}
    assert derived.changed_words(tx, "turn", newest + 1) is None
    assert value(tx, "SELECT count(*) FROM derived_word_change") < CHANGES_KEPT + 300


def test_a_gap_in_the_log_of_changes_is_not_taken_for_nothing(tx: Connection) -> None:
    """At its beginning, in its middle or at its end."""
    for gone in (1, 2, 3):
        start = derived.last_word_change(tx)
        for item in (1, 2, 3):
            derived.put_words(tx, "turn", item, ["a"])
        tx.execute("DELETE FROM derived_word_change WHERE seq = ?", (start + gone,))
        assert derived.changed_words(tx, "turn", start) is None
        assert derived.changed_words(tx, "turn", start + 3) == {}


def test_the_index_is_made_anew_from_its_rows(tx: Connection) -> None:
    """Words that were lost from it are found again, and no reader goes on with what it holds."""
    derived.put_words(tx, "turn", 1, ["porto"])
    derived.put_words(tx, "fact", 1, ["lima"])
    before = derived.last_word_change(tx)
    for table in ("derived_turn_words", "derived_fact_words"):
        tx.execute(f"DELETE FROM {table}_data WHERE id > 10")
    derived.reindex_words(tx)
    assert (derived.postings(tx, "turn", "porto"), derived.postings(tx, "fact", "lima")) == (
        [(1, 1)],
        [(1, 1)],
    )
    assert derived.last_word_change(tx) > before
    assert derived.changed_words(tx, "turn", before) is None
    assert value(tx, "SELECT count(*) FROM derived_word_change") == 0


@pytest.mark.parametrize("kind", WORDED)
def test_a_deleted_word_is_purged_for_good(tx: Connection, kind: Any) -> None:
    """The index keeps deleted tokens until it is merged; then none of its pages holds them."""
    held = f"SELECT count(*) FROM derived_{kind}_words_data WHERE instr(block, CAST('xylophone' AS BLOB))"
    derived.put_words(tx, kind, 1, ["xylophone"])
    derived.put_words(tx, kind, 2, ["drum"])
    tx.commit()
    derived.clear_words(tx, kind, 1)
    tx.commit()
    assert value(tx, held) > 0
    derived.purge_words(tx)
    assert value(tx, held) == 0
    assert derived.postings(tx, kind, "drum") == [(2, 1)]


def test_facts_are_found_by_how_they_are_worded(tx: Connection) -> None:
    """Each once, by row; the row that names the rules is no fact, even if it reads like one."""
    assert word_digests.wording_rules(tx) is None
    word_digests.drop_wordings(tx, b"rules")
    for fact, wording in ((9, b"a"), (2, b"b"), (5, b"a"), (3, b"c")):
        word_digests.put_wordings(tx, [(fact, wording)])
    assert word_digests.facts_worded(tx, [b"a", b"b", b"a", b"rules"]) == [2, 5, 9]
    word_digests.put_wordings(tx, [(9, b"c")])
    assert word_digests.facts_worded(tx, [b"a"]) == [5]
    assert word_digests.facts_worded(tx, []) == []
    assert word_digests.wording_rules(tx) == b"rules"
    word_digests.drop_wordings(tx, b"new")
    assert (word_digests.wording_rules(tx), word_digests.facts_worded(tx, [b"a", b"b", b"c"])) == (b"new", [])
