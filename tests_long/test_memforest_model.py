"""The forest after any history, against what the tables of facts and mentions say that it should be."""

from __future__ import annotations

import sys
from collections import defaultdict
from datetime import datetime, timezone
from pathlib import Path
from random import Random
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.worlds import dump, fast_config, file_of, make_history, make_sessions, rows, said

from memforest import MemForest

FACTS = """SELECT f.id, coalesce(f.start_ms, f.said_ms), f.tie FROM fact f"""
NAMED = """SELECT m.fact, m.entity, s.id FROM mention m JOIN occurrence o ON o.id = m.occurrence JOIN chunk c ON c.id = o.chunk
    JOIN session s ON s.id = c.session"""
CHUNKS = """SELECT c.session, c.id, c.ordinal FROM chunk c WHERE c.status != 'pending'"""
LEAVES = """SELECT t.kind, t.scope, l.fact, l.chunk FROM leaf l JOIN tree t ON t.id = l.tree WHERE t.owner = 'memforest'"""


def should(path: Path, least_facts: int, least_sessions: int) -> dict[tuple[str, int], set[int]]:
    """Return the leaves that each session's and entity's tree should have."""
    trees: dict[tuple[str, int], set[int]] = defaultdict(set)
    for session, chunk, _ in rows(path, CHUNKS):
        trees["session", session].add(chunk)
    named, sessions = defaultdict(set), defaultdict(set)
    for fact, entity, session in rows(path, NAMED):
        named[entity].add(fact)
        sessions[entity].add(session)
    participants = {row[0] for row in rows(path, "SELECT id FROM entity WHERE kind = 'participant'")}
    for entity, facts in named.items():
        enough = len(facts) >= least_facts and len(sessions[entity]) >= least_sessions
        if entity in participants or enough:
            trees["entity", entity] = facts
    return dict(trees)


def stands(path: Path) -> tuple[dict[tuple[str, int], set[int]], dict[tuple[str, int], set[int]]]:
    """Return the leaves of the trees of sessions and entities, and those of scenes; a leaf twice is an error."""
    trees: dict[str, dict[tuple[str, int], set[int]]] = {"scene": {}, "": {}}
    for kind, scope, fact, chunk in rows(path, LEAVES):
        mine = trees["scene" if kind == "scene" else ""].setdefault((kind, scope), set())
        item = chunk if fact is None else fact
        assert item not in mine
        mine.add(item)
    return trees[""], trees["scene"]


def check(path: Path, least: tuple[int, int] = (3, 2)) -> None:
    """Check trees, heads and scenes of a memory."""
    own, scenes = stands(path)
    assert own == should(path, *least)
    counts = {
        (kind, scope): count for kind, scope, count in rows(path, "SELECT kind, scope, count FROM tree")
    }
    assert counts == {tree: len(leaves) for tree, leaves in (own | scenes).items()}
    active = {row[0] for row in rows(path, "SELECT entity FROM ix_memforest_active")}
    assert active == {scope for kind, scope in own if kind == "entity"}
    members = rows(path, "SELECT scene, fact, main FROM ix_memforest_scene_member")
    placed = {scene: {fact for one, fact, _ in members if one == scene} for scene, _, _ in members}
    assert {scope: leaves for (_, scope), leaves in scenes.items()} == placed
    main = [fact for _, fact, is_main in members if is_main]
    assert sorted(main) == sorted(row[0] for row in rows(path, "SELECT item FROM derived_fact_vector"))
    assert len(members) <= 2 * len(main)


@pytest.mark.parametrize(
    ("seed", "settings", "least"),
    [(0, {}, (3, 2)), (2, {}, (3, 2)), (1, {"active_min_facts": 1, "active_min_sessions": 1}, (1, 1))],
)
def test_trees_are_those_that_facts_and_mentions_ask_for(
    folder: Path, seed: int, settings: dict[str, Any], least: tuple[int, int]
) -> None:
    """After each write: growing, repeated and overwritten sessions, with and without summaries."""
    final = make_sessions(seed, sessions=3, most_turns=4)
    with MemForest(folder, fast_config(index_settings={"memforest": settings})) as forest:
        for session, turns, replace in make_history(seed, final):
            forest.ingest_session("u", session, turns, replace=replace, refresh=Random(seed).random() < 0.5)
            check(file_of(folder), least)
        forest.user("u").rebuild(index="memforest")
        check(file_of(folder), least)


def trees_of(path: Path, key: str) -> list[tuple[Any, ...]]:
    """Return the size of the tree of an entity, if it has one."""
    sql = (
        "SELECT t.count FROM tree t JOIN entity e ON e.id = t.scope AND t.kind = 'entity' WHERE e.key = '{}'"
    )
    return rows(path, sql.format(key))


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
        assert trees_of(file_of(folder), "tom") == ([(3,)] if facts == 3 and sessions > 1 else [])
        check(file_of(folder))
        forest.ingest_session("u", "s0", said("It snows."), replace=True)
        assert trees_of(file_of(folder), "tom") == []
        check(file_of(folder))


def test_a_participant_has_a_tree_at_once_and_keeps_it(folder: Path) -> None:
    """With the first fact; it goes with the last fact that names them."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", said("I own a red bike.", speaker="Ana"))
        forest.ingest_session("u", "b", said("I own a blue tent.", speaker="Bob"))
        assert trees_of(file_of(folder), "ana") == [(1,)]
        forest.ingest_session("u", "a", said("I own a green car.", speaker="Bob"), replace=True)
        assert trees_of(file_of(folder), "ana") == []
        assert trees_of(file_of(folder), "bob") == [(2,)]
        check(file_of(folder))


def test_who_is_mentioned_and_then_speaks_gets_what_was_said_before(folder: Path) -> None:
    """From one mention no tree; when they take part, it holds the facts of both sessions."""
    with MemForest(folder, fast_config()) as forest:
        forest.ingest_session("u", "a", said("Bob adopted two cats.", speaker="Ana"))
        assert trees_of(file_of(folder), "bob") == []
        forest.ingest_session("u", "b", said("I own a blue tent.", speaker="Bob", day=2))
        assert trees_of(file_of(folder), "bob") == [(2,)]
        check(file_of(folder))
        forest.ingest_session("u", "b", said("It rains.", speaker="Ana", day=2), replace=True)
        assert trees_of(file_of(folder), "bob") == []
        check(file_of(folder))


def test_leaves_of_an_entity_stand_in_the_order_in_which_things_were(folder: Path) -> None:
    """By stated time before the time of saying, whatever the order of arrival."""
    texts = ("I moved to Oslo on 3 March 2019.", "I bought a car on 5 May 2021.", "I own a red bike.")
    orders = []
    for name, order in (("one", (0, 1, 2)), ("other", (2, 1, 0))):
        with MemForest(folder / name, fast_config()) as forest:
            for at in order:
                forest.ingest_session("u", f"s{at}", said(texts[at], day=at + 1))
        orders.append([leaf[0] for leaf in dump(file_of(folder / name))["trees"]["entity ana"][2:]])
    years = [datetime.fromtimestamp(ms / 1000, timezone.utc).year for ms in orders[0]]
    assert (years, orders[1]) == ([2019, 2021, 2023], orders[0])
