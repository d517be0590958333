"""Merging memories: what comes of it equals what ingesting everything into one memory gives, and nothing is extracted."""

from __future__ import annotations

import sys
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import (
    Session,
    differences,
    dump,
    eager_config,
    fast_config,
    make_sessions,
    rows,
    said,
    summaries,
)

from memforest import MemForest
from memforest.store.directory import file_name


def of(directory: Path, user: str) -> Path:
    """Return the file of a user's memory."""
    return directory / file_name(user)


def sessions_of(user: str, seed: int, count: int = 3, **how: Any) -> list[Session]:
    """Return a user's sessions, under ids of their own."""
    return [(f"{user}-{name}", turns) for name, turns in make_sessions(seed, sessions=count, **how)]


def fill(forest: MemForest, user: str, sessions: list[Session]) -> None:
    """Ingest sessions."""
    forest.register_user(user)
    for session_id, turns in sessions:
        forest.ingest_session(user, session_id, turns)


@settings(max_examples=8)
@given(st.integers(0, 10_000))
def test_merging_equals_ingesting_all_into_one(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    """Turns, facts by identity, occurrences, entities, states, words and vectors, and the leaves of trees, in order."""
    folder = tmp_path_factory.mktemp("merged")
    users = {"a": sessions_of("a", seed), "b": sessions_of("b", seed + 1), "c": sessions_of("c", seed + 2, 1)}
    with MemForest(folder, fast_config()) as forest:
        for user, made in users.items():
            fill(forest, user, made)
            fill(forest, "all", made)
        result = forest.merge_user_forests(["a", "b", "c"], "one")
        assert forest.user("one").verify().problems == ()
        assert result.facts_inserted == forest.user("one").stats().facts
    one, whole = dump(of(folder, "one")), dump(of(folder, "all"))
    assert differences(whole, one) == {}


def test_any_order_of_merging_gives_the_same_memory(folder: Path) -> None:
    """Of three users, into a fourth who has said something too."""
    users = {name: sessions_of(name, seed) for seed, name in enumerate("abcd", 5)}
    found = []
    with MemForest(folder, fast_config()) as forest:
        for user, made in users.items():
            fill(forest, user, made)
        for at, order in enumerate(permutations("abc")):
            fill(forest, f"into{at}", users["d"])
            forest.merge_user_forests(order, f"into{at}")
            assert forest.user(f"into{at}").verify().problems == ()
            found.append(dump(of(folder, f"into{at}")))
    for other in found[1:]:
        assert differences(found[0], other) == {}


def test_summaries_come_along(folder: Path) -> None:
    """A memory that had nothing before has all of them, with their vectors, and nothing is left to be made."""
    with MemForest(folder, eager_config()) as forest:
        fill(forest, "a", sessions_of("a", 3, 4, most_turns=12))
        forest.register_user("into")
        result = forest.user("into").merge("a", refresh=False)
        assert result.summaries_copied == len(summaries(of(folder, "a"))) > 9
        assert forest.user("into").stats().dirty_nodes == 0
        assert forest.user("into").verify().problems == ()
        assert forest.user("into").merge("a", refresh=False).summaries_copied == 0
    assert summaries(of(folder, "a")) == summaries(of(folder, "into"))


def test_only_what_both_tell_of_is_summarised_anew(folder: Path) -> None:
    """The nodes above what came from the other one, on the way to their roots; those of sessions are taken over."""
    facts = [f"I bought a lamp number {n} in Porto." for n in range(12)]
    with MemForest(folder, eager_config()) as forest:
        fill(forest, "a", [("a1", said(*facts, speaker="Ana"))])
        fill(
            forest, "b", [("b1", said("I moved to Oslo.", "I like it.", "It is cold.", speaker="Ana", day=2))]
        )
        before = {user: summaries(of(folder, user)) for user in "ab"}
        result = forest.user("a").merge("b", refresh=False)
        assert result.summaries_copied > 0
        assert 0 < forest.user("a").stats().dirty_nodes < len(before["a"])
        after = summaries(of(folder, "a"))
        for made in before.values():
            of_sessions = {node: told for node, told in made.items() if node.startswith("memforest/session")}
            assert of_sessions
            assert of_sessions.items() <= after.items()
        assert any(node.startswith("memforest/entity") for node in after)


def test_nothing_is_embedded_again(folder: Path) -> None:
    """Vectors come along; none is missing."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest, "a", sessions_of("a", 1))
        fill(forest, "b", sessions_of("b", 2))
        result = forest.user("a").merge("b")
        assert result.usage.embeds == {}
        assert forest.user("a").verify().problems == ()


def test_merging_again_brings_only_what_is_new(folder: Path) -> None:
    """New sessions, and the turns that a session has grown by; equal to a memory that has read all of it, but for its chunks."""
    before = sessions_of("b", 8)
    grown = [
        (name, [*turns, *said("I live in Kyoto.", "I work at Globex now.", day=28, speaker="Zoe")])
        for name, turns in before
    ]
    for _, turns in grown:
        for at, turn in enumerate(turns[-2:]):
            turn["timestamp"] = f"2025-05-0{at + 1}T10:00:00Z"
    new = sessions_of("later", 9, 1)
    with MemForest(folder, fast_config()) as forest:
        fill(forest, "b", before)
        forest.register_user("a")
        forest.user("a").merge("b")
        again = forest.user("a").merge("b")
        assert (again.sessions_same, again.turns_added, again.facts_inserted) == (3, 0, 0)
        fill(forest, "b", [*grown, *new])
        more = forest.user("a").merge("b")
        assert (more.sessions_grown, more.sessions_added) == (3, 1)
        assert more.turns_added == 6 + len(new[0][1])
        assert forest.user("a").verify().problems == ()
    one, whole = dump(of(folder, "a")), dump(of(folder, "b"))
    assert (
        differences(whole, one, [name for name in whole if name not in ("chunks", "occurrences", "trees")])
        == {}
    )


def test_a_session_on_both_sides_is_one(folder: Path) -> None:
    """Also when this side has more of it."""
    shared = sessions_of("s", 4)
    with MemForest(folder, fast_config()) as forest:
        fill(forest, "a", shared)
        fill(forest, "b", [(name, turns[:-1] or turns) for name, turns in shared])
        before = dump(of(folder, "a"))
        result = forest.user("a").merge("b")
        assert (result.sessions_same, result.sessions_added, result.facts_inserted) == (3, 0, 0)
    assert differences(before, dump(of(folder, "a"))) == {}


def test_a_taken_session_id_becomes_another_one(folder: Path) -> None:
    """Derived from where the session came from, said in the result, and found again: directly and by a third memory."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest, "a", [("s", said("I live in Davis.", speaker="Ana"))])
        fill(forest, "b", [("s", said("I live in Miami.", speaker="Bob"))])
        fill(forest, "c", [("s", said("I live in Oslo.", speaker="Carla"))])
        into = forest.user("a")
        renamed = into.merge("b").renamed
        assert list(renamed) == ["s"]
        assert renamed["s"].startswith("s~")
        assert into.merge("b").sessions_same == 1
        forest.user("c").merge("b")
        assert {one.session_id for one in forest.user("c").sessions()} == {"s", renamed["s"]}
        by_way = into.merge("c")
        assert (by_way.sessions_same, by_way.sessions_added) == (1, 1)
        assert forest.user("b").merge("c").sessions_same == 1  # its own session comes home
        for user in "abc":
            assert forest.user(user).verify().problems == ()


def test_where_turns_came_from_is_kept_over_two_merges(folder: Path) -> None:
    """The user and the id of the first memory; what comes home is the memory's own again."""
    with MemForest(folder, fast_config()) as forest:
        for name in "abc":
            fill(forest, name, sessions_of(name, ord(name), 1))
        forest.user("b").merge("c")
        forest.user("a").merge("b")
        assert {one.session_id: one.origin for one in forest.user("a").sessions()} == {
            "a-s0": None,
            "b-s0": "b",
            "c-s0": "c",
        }
        forest.user("c").merge("a")
        assert {one.session_id: one.origin for one in forest.user("c").sessions()} == {
            "a-s0": "a",
            "b-s0": "b",
            "c-s0": None,
        }
    origins = "SELECT DISTINCT o.memory FROM turn t JOIN origin o ON o.id = t.origin WHERE o.user_id = 'c'"
    assert rows(of(folder, "a"), origins) == rows(
        of(folder, "c"), "SELECT value FROM meta WHERE key = 'memory_id'"
    )


def test_a_merged_session_that_is_replaced_leaves_nothing(folder: Path) -> None:
    """What only it said is gone, as of any session."""
    with MemForest(folder, fast_config()) as forest:
        fill(forest, "a", sessions_of("a", 1, 2))
        before = dump(of(folder, "a"))
        fill(forest, "b", [("b1", said("I bought a zeppelin in Ghent.", "I live in Ghent.", speaker="Bob"))])
        forest.user("a").merge("b")
        forest.ingest_session("a", "b1", said("Hello.", speaker="Bob"), replace=True)
        assert forest.user("a").verify().problems == ()
        assert forest.user("a").list(filters={}).total == len(before["facts"])
        forest.save("a")
    assert b"zeppelin" not in of(folder, "a").read_bytes()
