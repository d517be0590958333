"""Row by row, in any order: a snapshot, its forests and its postings that follow what is written are what reading all gives."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests_long.arrays import assert_equal, assert_same, plain
from tests_long.hand_made import forests_read
from tests_long.shelf import ShelfIndex
from tests_long.stored import (
    add_mention,
    add_state,
    add_turns,
    empty_memory,
    put_entity,
    put_fact,
    say,
    use_alias,
)

from memforest.records import State, Turn
from memforest.search.cache import (
    SnapshotCache,
    advance,
    carry_forests,
    digests_of,
    embedded_forest,
    forest_of,
)
from memforest.search.forest import EmbeddedForest, as_keys
from memforest.search.lexical import bm25, carry_words
from memforest.search.snapshot import Snapshot, load_snapshot, once_per_snapshot
from memforest.store import artifacts, derived, facts, meta, sessions
from memforest.store.artifacts import Artifact
from memforest.store.connections import Connection
from memforest.times import from_ms
from memforest.trees.index import Index
from memforest.trees.memforest import MemForestIndex

OWNERS: tuple[Index, ...] = (ShelfIndex(), MemForestIndex())
SPEAKERS = ("Ana", "Bob", "Zoë")


class World:
    """A memory that is written row by row; what a verb is to be done to is chosen by number from what there is."""

    def __init__(self, tx: Connection) -> None:
        self.tx = tx
        self.made = 0

    def pick(self, table: str, number: int) -> int:
        """Return the id of one of a table's rows, 0 when it has none."""
        ids = [row[0] for row in self.tx.execute(f"SELECT id FROM {table} ORDER BY id")]
        return ids[number % len(ids)] if ids else 0

    def session(self, a: int, b: int) -> None:
        """Store a session of one to four turns, somewhere in time, perhaps at the time of another."""
        self.made += 1
        row = sessions.add_session(
            self.tx, f"s{self.made * 7 % 10}-{self.made}", infer=True, stored_ms=0, metadata={}
        )
        said = [
            Turn(
                f"t{n}",
                SPEAKERS[(a + n * b) % 3],
                "Hm?" if n % 2 else "Hm.",
                from_ms(a * 100 + n % 2 * 50),
                n,
            )
            for n in range(1 + b % 4)
        ]
        ids = add_turns(self.tx, row, said, 0)
        sessions.add_chunks(self.tx, row, [(0, 0, len(said) - 1)])
        for n, turn in enumerate(ids):
            derived.put_words(self.tx, "turn", [(turn, " ".join(["hm"] * (n + 1)))])
        derived.put_vectors(self.tx, "turn", [(turn, b"d", unit(a + turn)) for turn in ids[: a % 4]])

    def end(self, a: int, b: int) -> None:
        """Delete a session."""
        sessions.delete_session(self.tx, self.pick("session", a * 6 + b))

    def fact(self, a: int, b: int) -> None:
        """Store a fact that one or two turns say once or twice, with whom it names and a state."""
        self.made += 1
        turns = sorted({self.pick("turn", a), self.pick("turn", b)})
        if not turns[0]:
            return
        if (
            len(
                {self.tx.execute("SELECT session FROM turn WHERE id = ?", (one,)).fetchone() for one in turns}
            )
            > 1
        ):
            turns = turns[:1]
        row = put_fact(
            self.tx,
            f"f{self.made:x}",
            said_ms=b * 10,
            start_ms=None if a % 2 else a * 90,
            tie=f"{b}{self.made}",
        )
        for n in range(1 + b % 2):
            where = say(self.tx, row, *turns, tie=f"{9 - b}{n}")
            who = put_entity(self.tx, f"e{a}", f"E{a}", "unknown")
            add_mention(self.tx, where, who, "subject")
            if a % 3 == n:
                add_state(self.tx, where, who, State("x", "home", f"v{b}"))
            if b % 3 == 0:
                use_alias(self.tx, f"a{b % 2}", who, where[1])
        derived.put_words(self.tx, "fact", [(row, " ".join(["paints"] * b))])
        if b % 2:
            derived.put_vectors(self.tx, "fact", [(row, b"d", unit(row))])

    def forget(self, a: int, b: int) -> None:
        """Delete a fact, or one of the places where it was said."""
        table = "occurrence" if a % 2 else "fact"
        keys = {row[0] for row in self.tx.execute("SELECT key FROM alias_use")}
        self.tx.execute(f"DELETE FROM {table} WHERE id = ?", (self.pick(table, b),))
        self.tx.execute("DELETE FROM mention WHERE occurrence NOT IN (SELECT id FROM occurrence)")
        derived.clear_words(self.tx, "fact", (0,))
        facts.resolve_aliases(self.tx, keys)

    def entity(self, a: int, b: int) -> None:
        """Let somebody take part, or none any more, or drop whom nothing names."""
        if a < 3:
            put_entity(self.tx, SPEAKERS[a].casefold(), SPEAKERS[a], "participant" if b % 2 else "place")
        else:
            facts.drop_entities(self.tx, facts.unnamed(self.tx, range(9)))

    def vector(self, a: int, b: int) -> None:
        """Give an item another vector, or take it away."""
        kind: Any = ("turn", "fact")[a % 2]
        item = self.pick(kind, b)
        if a < 3:
            derived.put_vectors(self.tx, kind, [(item, b"d", unit(a + b))] if item else [])
        else:
            derived.drop_vectors(self.tx, kind, [item])

    def tell(self, a: int, b: int) -> None:
        """Store what some nodes say, with a vector, with the mean of their children's, or without any; or take all back."""
        index, snapshot = OWNERS[a % 2], load_snapshot(self.tx)
        keys = as_keys(digests_of(self.tx, snapshot, index)[forest_of(self.tx, snapshot, index).told])[b:]
        of: Any = ("own", "mean", "none")[b % 3]
        artifacts.put(self.tx, "summary", [Artifact(key, "m", f"{a}", of) for key in keys])
        artifacts.put_vectors(self.tx, [(key, unit(a)) for key in keys])
        if a > 3:
            artifacts.keep(self.tx, keys[1:])


def unit(axis: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Return a unit vector."""
    found: np.ndarray[tuple[int], np.dtype[np.float32]] = np.eye(3, dtype=np.float32)[axis % 3]
    return found


def forest_contents(found: EmbeddedForest) -> dict[str, Any]:
    """Return all that a forest holds, with its vectors, by name."""
    told = {one.name: plain(getattr(found.forest, one.name)) for one in fields(found.forest)}
    told |= {"vectors": plain(found.vectors), "children": plain(found.forest.children)}
    return {name: value for name, value in told.items() if name not in ("turns", "facts", "kept")}


def check(tx: Connection, kept: Snapshot, owner: Index) -> None:
    """Compare a snapshot, the forest of one index and the words with what is read from nothing."""
    read = load_snapshot(tx)
    assert_equal(kept, read)
    assert_same(
        forest_contents(embedded_forest(tx, kept, owner)), forest_contents(embedded_forest(tx, read, owner))
    )
    for kind, word in (("turn", "hm"), ("fact", "paints")):
        assert bm25(tx, kept, kind, [word]).tolist() == bm25(tx, read, kind, [word]).tolist()  # type: ignore[arg-type]


VERBS = ["session", "session", "fact", "fact", "fact", "end", "forget", "entity", "vector", "tell", "tell"]
STEPS = st.lists(
    st.tuples(st.sampled_from(VERBS), st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=18
)
BEGIN = [("session", 2, 3), ("session", 4, 2), ("session", 0, 3), ("fact", 0, 1), ("fact", 1, 3), ("fact", 2, 0), ("tell", 0, 1), ("fact", 3, 1)]  # fmt: skip


@settings(max_examples=10)
@given(STEPS, st.integers(1, 3))
@example([*BEGIN, ("end", 0, 0), ("session", 1, 1)], 1)
@example([*BEGIN, ("tell", 0, 0), ("vector", 5, 0)], 1)
@example([("entity", 0, 1), ("vector", 2, 0), ("entity", 2, 0)], 1)
@example([("fact", 0, 5)], 1)
def test_what_follows_is_what_is_read(steps: list[tuple[str, int, int]], at_once: int) -> None:
    """After any writes, one by one or several at once, whoever asks for what and whenever."""
    with closing(empty_memory()) as tx:
        world, cache = World(tx), SnapshotCache()
        for verb, a, b in BEGIN:
            getattr(world, verb)(a, b)
        kept = cache.get(tx)
        for n, (verb, a, b) in enumerate(steps):
            getattr(world, verb)(a, b)
            if n % at_once == 0:
                meta.bump(tx)
                now = cache.get(tx)
                assert now.generation == meta.generation(tx)
                made = advance(tx, kept)
                if made is not None:
                    assert_equal(made, now)
                kept = now
                if b % 2:
                    check(tx, kept, OWNERS[a % 2])
        meta.bump(tx)
        for owner in OWNERS:
            check(tx, cache.get(tx), owner)


@once_per_snapshot
def token(snapshot: Snapshot) -> list[int]:
    """Return what is another object whenever it is computed."""
    return [snapshot.generation]


def test_a_memory_that_gets_its_first_vectors_is_read_anew() -> None:
    """No table of an older snapshot has room for them."""
    with closing(empty_memory()) as tx:
        world = World(tx)
        world.session(0, 3)
        cache = SnapshotCache()
        kept = cache.get(tx)
        assert (kept.dimension, kept.turns.vectors.dimension) == (0, 0)
        world.vector(0, 1)
        meta.bump(tx)
        assert advance(tx, kept) is None
        assert cache.get(tx).dimension == 3
        check(tx, cache.get(tx), OWNERS[0])


def test_a_forest_is_the_same_object_while_nothing_in_it_changes() -> None:
    """Whatever is said of its nodes, and however long nobody asked."""
    with closing(empty_memory()) as tx:
        world = World(tx)
        for verb, a, b in BEGIN:
            getattr(world, verb)(a, b)
        cache = SnapshotCache()
        first = cache.get(tx)
        kept, made = forest_of(tx, first, OWNERS[0]), token(first)
        for scope in (3, 5, 3):
            world.tell(scope, 0)
            meta.bump(tx)
            snapshot = cache.get(tx)
        assert forest_of(tx, snapshot, OWNERS[0]) is kept
        assert token(snapshot) is made
        assert forests_read(snapshot) == {"shelf"}


def test_what_was_not_asked_for_is_neither_grown_nor_forgotten() -> None:
    """A forest that nobody asks for over many writes is grown when it is, and is then that of what is stored."""
    with closing(empty_memory()) as tx:
        world = World(tx)
        for verb, a, b in [*BEGIN, ("tell", 1, 1), *[("fact", n, n) for n in range(5)]]:
            getattr(world, verb)(a, b)
        kept = load_snapshot(tx)
        for owner in OWNERS:
            forest_of(tx, kept, owner)
        assert forests_read(kept) == {owner.name for owner in OWNERS}
        for n in range(4):
            world.session(n, 2)
            meta.bump(tx)
            made = advance(tx, kept)
            assert made is not None
            carry_forests(kept, made)
            carry_words(kept, made)
            kept = made
            assert forests_read(kept) == set()
        assert forest_of(tx, kept, OWNERS[0]).ids is not None
        assert forests_read(kept) == {"shelf"}
        check(tx, kept, OWNERS[1])
