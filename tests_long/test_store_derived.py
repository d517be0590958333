"""Vectors, words and wordings: kept beside what they were made of, found by it, and gone when that is."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests_long.stored import empty_memory, put_fact, put_session, value

from memforest.store import artifacts, derived
from memforest.store import facts as word_digests
from memforest.store.artifacts import Artifact
from memforest.store.connections import Connection
from memforest.store.derived import CHANGES_KEPT, NUMBER

KINDS: tuple[Any, ...] = ("turn", "fact")
WORDED: tuple[Any, ...] = ("turn", "fact")


def unit(axis: int, dimension: int = 4) -> NDArray[np.float32]:
    """Return the unit vector of an axis."""
    found: NDArray[np.float32] = np.eye(dimension, dtype=np.float32)[axis]
    return found


def axes(found: dict[Any, NDArray[np.float32]]) -> dict[Any, int]:
    """Return the axis of each vector."""
    return {key: int(np.argmax(vector)) for key, vector in found.items()}


def test_vectors_are_read_with_the_means_that_stand_for_some(tx: Connection) -> None:
    """Many come in blocks; of what has none, or gets none, nothing is told."""
    many = [Artifact(n.to_bytes(16, "big"), "m", "x", ("own", "mean", "none")[n % 3]) for n in range(3000)]
    artifacts.put(tx, "summary", many)
    artifacts.put_vectors(tx, [(one.digest, unit(2)) for one in many[300:]])
    read = list(artifacts.vector_blocks(tx, 4))
    found = {key: (row.tolist(), bool(mean)) for keys, rows, means in read for key, row, mean in zip(keys, rows, means, strict=True)}  # fmt: skip
    own = {one.digest: (unit(2).tolist(), False) for one in many[300:] if one.vector == "own"}
    assert found == own | {one.digest: ([0.0] * 4, True) for one in many if one.vector == "mean"}
    assert len(read) > 1


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
    wanted = [b"fact", b"turn", b"none", b"fact"]
    assert axes(derived.vectors_by_digest(tx, wanted)) == {b"turn": 0, b"fact": 1}
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


def test_what_has_no_vector_yet_is_told_with_its_text(tx: Connection) -> None:
    """By id: turns with who spoke, and facts."""
    _, turns = put_session(tx, texts=["a", "b", "c"])
    put_fact(tx)
    assert derived.missing_vectors(tx, "turn") == [
        (turn, "Ana", text) for turn, text in zip(turns, "abc", strict=True)
    ]
    derived.put_vectors(tx, "turn", [(turns[1], b"d", unit(0))])
    assert [row[0] for row in derived.missing_vectors(tx, "turn")] == [turns[0], turns[2]]
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
                derived.clear_words(tx, kind, (item,))
                now[kind].pop(item, None)
            else:
                derived.put_words(tx, kind, [(item, " ".join(tokens))])
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
        derived.clear_words(tx, "turn", (1,))
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
            derived.put_words(tx, "turn", [(item, "a")])
        tx.execute("DELETE FROM derived_word_change WHERE seq = ?", (start + gone,))
        assert derived.changed_words(tx, "turn", start) is None
        assert derived.changed_words(tx, "turn", start + 3) == {}


def test_the_index_is_made_anew_from_its_rows(tx: Connection) -> None:
    """Words that were lost from it are found again, and no reader goes on with what it holds."""
    derived.put_words(tx, "turn", [(1, "porto")])
    derived.put_words(tx, "fact", [(1, "lima")])
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
    derived.put_words(tx, kind, [(1, "xylophone")])
    derived.put_words(tx, kind, [(2, "drum")])
    tx.commit()
    derived.clear_words(tx, kind, (1,))
    tx.commit()
    assert value(tx, held) > 0
    derived.purge_words(tx)
    assert value(tx, held) == 0
    assert derived.postings(tx, kind, "drum") == [(2, 1)]


def test_words_may_be_purged_any_number_of_times(tx: Connection) -> None:
    """SQLite 3.40 takes an index for damaged after some 1,000 of them; it is made anew before."""
    for number in range(2_000):
        derived.put_words(tx, "turn", [(number % 200, f"30 june 2026 ana drum {number % 100}a {number}")])
        derived.purge_words(tx)
        tx.commit()
    assert len(derived.postings(tx, "turn", "drum")) == 200
    assert derived.postings(tx, "turn", "1799") == []
    assert derived.words_of(tx, "turn", (0, 1)) == {
        0: "30 june 2026 ana drum 0a 1800",
        1: "30 june 2026 ana drum 1a 1801",
    }


def test_facts_are_found_by_how_they_are_worded(tx: Connection) -> None:
    """Each once, by row; the row that names the rules is no fact, even if it reads like one."""
    assert word_digests.wording_rules(tx) is None
    word_digests.drop_wordings(tx, b"rules")
    for fact, wording in ((9, b"a"), (2, b"b"), (5, b"a"), (3, b"c")):
        word_digests.put_wordings(tx, [(fact, wording)])
    assert list(word_digests.facts_worded(tx, [b"a", b"b", b"a", b"rules"])) == [2, 5, 9]
    word_digests.put_wordings(tx, [(9, b"c")])
    assert word_digests.facts_worded(tx, [b"a"]) == {5: b"a"}
    assert word_digests.facts_worded(tx, []) == {}
    assert word_digests.wording_rules(tx) == b"rules"
    word_digests.drop_wordings(tx, b"new")
    assert (word_digests.wording_rules(tx), word_digests.facts_worded(tx, [b"a", b"b", b"c"])) == (b"new", {})
