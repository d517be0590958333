"""The forest after any history, against what the tables of facts and mentions say that it should be."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, make_history, make_sessions, rows, said

from memforest import MemForest

NAMED = """SELECT DISTINCT f.fact_id, e.key, s.id FROM mention m JOIN occurrence o ON o.id = m.occurrence JOIN fact f ON f.id = m.fact
    JOIN entity e ON e.id = m.entity JOIN chunk c ON c.id = o.chunk JOIN session s ON s.id = c.session"""
CHUNKS = """SELECT s.session_id, c.ordinal, group_concat(s.session_id || '/' || t.turn_id) FROM chunk c JOIN session s ON s.id = c.session
    JOIN turn t ON t.session = s.id AND t.ordinal BETWEEN c.first AND c.last WHERE c.status != 'pending' GROUP BY c.id"""
FACTS = "SELECT f.fact_id, count(v.item) FROM fact f LEFT JOIN derived_fact_vector v ON v.item = f.id GROUP BY f.id"


def leaves(shape: Any) -> list[str]:
    """Return the leaves below a node: the identity of a fact, or the names of a chunk's turns."""
    if isinstance(shape, str):
        return [shape]
    if isinstance(shape[0], str):
        return [",".join(shape)]
    return [leaf for child in shape[2:] for leaf in leaves(child)]


def trees(path: Path) -> dict[str, list[str]]:
    """Return the leaves of each tree in order, by its kind and what it is of."""
    found = {name.removeprefix("memforest/"): leaves(shape) for name, shape in dump(path)["trees"].items()}
    assert all(len(set(own)) == len(own) for own in found.values())
    return found


def should(path: Path, least_facts: int, least_sessions: int) -> dict[str, set[str]]:
    """Return the leaves that each session's and entity's tree should have."""
    wanted: dict[str, set[str]] = defaultdict(set)
    for session, _, turns in rows(path, CHUNKS):
        wanted[f"session {session}"].add(turns)
    named, sessions = defaultdict(set), defaultdict(set)
    for fact, entity, session in rows(path, NAMED):
        named[entity].add(fact)
        sessions[entity].add(session)
    participants = {row[0] for row in rows(path, "SELECT key FROM entity WHERE kind = 'participant'")}
    for entity, facts in named.items():
        enough = len(facts) >= least_facts and len(sessions[entity]) >= least_sessions
        if entity in participants or enough:
            wanted[f"entity {entity}"] = facts
    return dict(wanted)


def check(path: Path, least: tuple[int, int] = (3, 2)) -> None:
    """Check the trees of sessions and entities, and that every fact with a vector is in one scene or in two."""
    found = trees(path)
    scenes = [own for name, own in found.items() if name.startswith("scene ")]
    assert {name: set(own) for name, own in found.items() if not name.startswith("scene ")} == should(
        path, *least
    )
    times = Counter(fact for own in scenes for fact in own)
    assert set(times) == {fact for fact, vectors in rows(path, FACTS) if vectors}
    assert max(times.values(), default=1) <= 2


@pytest.mark.parametrize(
    ("seed", "settings", "least"),
    [(0, {}, (3, 2)), (2, {}, (3, 2)), (1, {"active_min_facts": 1, "active_min_sessions": 1}, (1, 1))],
)
def test_trees_are_those_that_facts_and_mentions_ask_for(
    folder: Path, seed: int, settings: dict[str, Any], least: tuple[int, int]
) -> None:
    """After each write: growing, repeated and overwritten sessions, with and without summaries."""
    final = make_sessions(seed, sessions=3, most_turns=4)
    with MemForest(folder, fast_config(indexes=("flat",))) as forest:
        forest.register_user("u")
        forest.user("u").add_index("memforest", settings)  # which the file keeps
        for session, turns, replace in make_history(seed, final):
            forest.ingest_session("u", session, turns, replace=replace, refresh=Random(seed).random() < 0.5)
            check(file_of(folder), least)
        forest.user("u").rebuild(index="memforest")
        check(file_of(folder), least)


def facts_of(path: Path, key: str) -> int | None:
    """Return the size of the tree of an entity, if it has one."""
    own = trees(path).get(f"entity {key}")
    return None if own is None else len(own)


@pytest.mark.parametrize(("facts", "sessions"), [(2, 2), (3, 1), (3, 2), (3, 3)])
def test_who_is_known_well_enough_gets_a_tree(folder: Path, facts: int, sessions: int) -> None:
    """Three facts of two sessions; the tree then holds all of them, and goes when one session takes its facts away."""
    told = ("Tom bought a canoe.", "Tom painted the house.", "Tom broke his wrist.")[:facts]
    with MemForest(folder, fast_config()) as forest:
        for number in range(sessions):
            forest.ingest_session(
                "u", f"s{number}", said(*told[number::sessions], "It rains.", day=number + 1)
            )
        known = rows(
            file_of(folder),
            "SELECT count(DISTINCT fact) FROM mention m JOIN entity e ON e.id = entity AND key = 'tom'",
        )
        assert known == [(facts,)]
        assert facts_of(file_of(folder), "tom") == (3 if facts == 3 and sessions > 1 else None)
        check(file_of(folder))
        forest.ingest_session("u", "s0", said("It snows."), replace=True)
        assert facts_of(file_of(folder), "tom") is None
        check(file_of(folder))


def test_a_participant_has_a_tree_at_once_and_keeps_it(folder: Path) -> None:
    """With the first fact; it goes with the last fact that names them."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", said("I own a red bike.", speaker="Ana"))
        forest.ingest_session("u", "b", said("I own a blue tent.", speaker="Bob"))
        assert facts_of(file_of(folder), "ana") == 1
        forest.ingest_session("u", "a", said("I own a green car.", speaker="Bob"), replace=True)
        assert facts_of(file_of(folder), "ana") is None
        assert facts_of(file_of(folder), "bob") == 2
        check(file_of(folder))


def test_who_is_mentioned_and_then_speaks_gets_what_was_said_before(folder: Path) -> None:
    """From one mention no tree; when they take part, it holds the facts of both sessions."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", said("Bob adopted two cats.", speaker="Ana"))
        assert facts_of(file_of(folder), "bob") is None
        forest.ingest_session("u", "b", said("I own a blue tent.", speaker="Bob", day=2))
        assert facts_of(file_of(folder), "bob") == 2
        check(file_of(folder))
        forest.ingest_session("u", "b", said("It rains.", speaker="Ana", day=2), replace=True)
        assert facts_of(file_of(folder), "bob") is None
        check(file_of(folder))


def test_leaves_of_an_entity_stand_in_the_order_in_which_things_were(folder: Path) -> None:
    """By stated time before the time of saying, whatever the order of arrival."""
    texts = ("I moved to Oslo on 3 March 2019.", "I bought a car on 5 May 2021.", "I own a red bike.")
    orders: list[list[str]] = []
    told: dict[str, str] = {}
    for name, order in (("one", (0, 1, 2)), ("other", (2, 1, 0))):
        with MemForest(folder / name, fast_config()) as forest:
            for at in order:
                forest.ingest_session("u", f"s{at}", said(texts[at], day=at + 1))
        path = file_of(folder / name)
        told |= dict(rows(path, "SELECT fact_id, text FROM fact"))
        orders.append([told[leaf] for leaf in trees(path)["entity ana"]])
    assert orders[0] == orders[1]
    assert ["Oslo" in orders[0][0], "car" in orders[0][1], "bike" in orders[0][2]] == [True] * 3
