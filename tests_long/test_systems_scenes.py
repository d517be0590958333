"""Scenes of a memory: every fact in one or two, the same whatever came when, small enough, and no model asked."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import Fact, Said, Tree, hand_made, planted, searching
from tests_long.worlds import differences, dump, fast_config, file_of, make_sessions, summaries

from memforest import MemForest
from memforest.errors import NotFoundError
from memforest.search.cache import embedded_forest
from memforest.search.context_scores import base_scores
from memforest.search.forest import FACT
from memforest.search.snapshot import Facts, load_snapshot
from memforest.search.vectors import VectorTable
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.trees import memforest_grow
from memforest.trees.memforest import MemForestIndex
from memforest.trees.memforest_grow import MAX_SIZE, MemForestSettings, Scenes, SceneThresholds, derive
from memforest.trees.memforest_recall import fact_blocks, nearness_by, recall

RULES = SceneThresholds(join=0.3, second=0.6, time=0.1)
DAY = 86_400_000


def facts_of(vectors: NDArray[np.float32], start: Sequence[int], keys: Sequence[int]) -> Facts:
    """Return facts with these unit vectors, times and numbers."""
    rows = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    blank = hand_made([Said("Ana", 1)], [Fact((0,)) for _ in start]).facts
    at = np.array(start, dtype=np.int64)
    return replace(
        blank,
        vectors=VectorTable.of(rows.astype(np.float32)),
        start_ms=at,
        said_ms=at,
        key=np.array(keys, dtype=np.int64),
    )


def scenes(facts: Facts, rules: SceneThresholds, places: NDArray[np.int64]) -> Scenes:
    """Return the scenes of facts, from the start."""
    return derive(facts, rules, places)[0]


def made(seed: int, count: int, topics: int = 6) -> tuple[NDArray[np.float32], list[int], list[int]]:
    """Return random facts of some topics that come up and fade."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(topics, 16))
    of = np.sort(rng.integers(0, topics, count))
    vectors = rng.normal(size=16) + centres[of] + 0.4 * rng.normal(size=(count, 16))
    return (
        vectors.astype(np.float32),
        [int(at) * DAY for at in range(count)],
        rng.permutation(10**6)[:count].tolist(),
    )


def members(found: Scenes, keys: Sequence[int]) -> list[tuple[int, list[int]]]:
    """Return each scene's pivot and facts, by their numbers."""
    return sorted(
        (keys[pivot], sorted(keys[row] for row in found.facts[found.scene == scene].tolist()))
        for scene, pivot in enumerate(found.pivots.tolist())
    )


@pytest.mark.parametrize("seed", range(8))
def test_scenes_follow_from_the_facts_alone(seed: int) -> None:
    """In any order of rows the same; each fact with a vector has one main scene, at most one more, and a pivot its own."""
    vectors, start, keys = made(seed, 300)
    vectors[::17] = 0  # nothing is known of these
    found = scenes(facts_of(vectors, start, keys), RULES, np.arange(300))
    order = np.random.default_rng(seed).permutation(300)
    places = np.argsort(np.argsort([start[row] for row in order]))
    turned = scenes(
        facts_of(vectors[order], [start[r] for r in order], [keys[r] for r in order]), RULES, places
    )
    assert members(found, keys) == members(turned, [keys[row] for row in order])
    known = np.flatnonzero(vectors.any(axis=1)).tolist()
    assert sorted(found.facts[found.main].tolist()) == known
    assert max(Counter(found.facts.tolist()).values()) <= 2
    assert len(set(zip(found.facts.tolist(), found.scene.tolist(), strict=True))) == len(found.facts)
    main = dict(zip(found.facts[found.main].tolist(), found.scene[found.main].tolist(), strict=True))
    assert [main[pivot] for pivot in found.pivots.tolist()] == list(range(len(found.pivots)))
    assert len(found.pivots) > 1
    assert [start[pivot] for pivot in found.pivots.tolist()] == sorted(
        start[p] for p in found.pivots.tolist()
    )


def test_a_fact_more_moves_few_others() -> None:
    """Of many, on average; one that is like nothing gets a scene of its own."""
    vectors, start, keys = made(3, 400, topics=30)
    found = scenes(facts_of(vectors[:-1], start[:-1], keys[:-1]), RULES, np.arange(399))
    later = scenes(facts_of(vectors, start, keys), RULES, np.arange(400))
    before, after = (
        {row: pivot for pivot, own in members(one, keys) for row in own} for one in (found, later)
    )
    assert sum(before[row] != after[row] for row in before) < 40
    alone = np.vstack([vectors[:-1], -50 * vectors[:-1].mean(axis=0)])
    odd = scenes(facts_of(alone, start, keys), RULES, np.arange(400))
    assert [own for _, own in members(odd, keys) if keys[-1] in own] == [[keys[-1]]]


def test_likeness_joins_and_time_decides_between_like_scenes() -> None:
    """Above 1 nothing joins, at -1 everything does; of two scenes that are as like, the nearer one in time is joined."""
    vectors, start, keys = made(1, 60)
    facts = facts_of(vectors, start, keys)
    assert len(scenes(facts, SceneThresholds(2.0, 2.0, 0.0), np.arange(60)).pivots) == 60
    assert len(scenes(facts, SceneThresholds(-1.0, 2.0, 0.0), np.arange(60)).pivots) == 1
    middle = np.array([[1, 0], [0, 1], [0.5**0.5, 0.5**0.5]], dtype=np.float32)
    for near in (0, 1):
        at = np.array([0, 400 * DAY, 400 * DAY * near + DAY])
        compare = memforest_grow._Comparing(middle, at, at + 1, np.array([7, 8, 9]), 0.1)
        _, top, score = compare.tops(np.array([0, 1]), None, compare.marks)
        assert top.tolist() == [[7, 8], [8, 7], [7 + near, 8 - near]]
        assert score[2] == pytest.approx([0.5**0.5 + 0.1, 0.5**0.5], abs=0.01)


def test_large_scenes_are_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until they are small enough; there are never more than may be."""
    vectors, start, keys = made(2, 600, topics=2)
    sizes = np.bincount(scenes(facts_of(vectors, start, keys), RULES, np.arange(600)).scene)
    assert np.median(sizes) <= MAX_SIZE
    monkeypatch.setattr(memforest_grow, "ROUNDS", 0)
    plain = np.bincount(scenes(facts_of(vectors, start, keys), RULES, np.arange(600)).scene)
    assert plain.max() > sizes.max()
    monkeypatch.setattr(memforest_grow, "MAX_SCENES", 5)
    monkeypatch.setattr(memforest_grow, "ROUNDS", 4)
    few = scenes(facts_of(vectors, start, keys), SceneThresholds(2.0, 2.0, 0.0), np.arange(600))
    assert (len(few.pivots), len(set(few.facts.tolist()))) == (5, 600)


def grown(folder: Path, sessions: Any = None) -> MemForest:
    """Return a forest whose user ``u`` has many facts."""
    forest = MemForest(folder, fast_config())
    for session_id, turns in make_sessions(1, sessions=12, most_turns=10) if sessions is None else sessions:
        forest.ingest_session("u", session_id, turns)
    forest.flush("u")
    return forest


def test_every_fact_has_a_scene_and_every_scene_a_tree(folder: Path) -> None:
    """Counts agree in what `stats` tells, after every session, a replacement and a deletion."""
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")

        def check() -> None:
            found = user.stats()
            assert found.indexes["memforest"]["facts_in_no_scene"] == 0
            assert found.indexes["memforest"]["facts_in_scenes"] == found.facts
            assert found.indexes["memforest"]["scenes"] == found.trees["memforest"].get("scene", 0)
            assert user.verify().problems == ()

        for session_id, turns in make_sessions(2, sessions=8, most_turns=12):
            forest.ingest_session("u", session_id, turns)
            check()
        forest.ingest_session("u", "s1", make_sessions(3)[0][1], replace=True)
        check()
        user.delete(session_id="s2")
        check()
        assert user.stats().notes == ()


def test_scenes_ask_no_model_for_a_vector(folder: Path) -> None:
    """Their nodes have summaries, and none of these is embedded."""
    with grown(folder):
        made = {
            name: vector
            for name, (_, vector) in summaries(file_of(folder)).items()
            if name.startswith("memforest/scene")
        }
        assert made
        assert set(made.values()) == {None}


def test_scenes_do_not_depend_on_what_came_when(folder: Path) -> None:
    """Backwards, with something between that was deleted again, or made anew: the same trees and summaries."""
    sessions = make_sessions(1, sessions=12, most_turns=10)
    grown(folder / "a").close()
    with grown(folder / "b", sessions[:6:-1]) as forest:
        forest.ingest_session("u", "gone", make_sessions(9, sessions=1)[0][1])
        for session_id, turns in sessions[:7]:
            forest.ingest_session("u", session_id, turns)
        forest.user("u").delete(session_id="gone")
        forest.flush("u")
    parts = [
        {"trees": dump(path)["trees"], "summaries": summaries(path)}
        for path in map(file_of, (folder / "a", folder / "b"))
    ]
    assert differences(parts[0], parts[1]) == {}
    with MemForest(folder / "a", fast_config()) as forest:
        assert forest.user("u").rebuild().embeds == {}
    assert dump(file_of(folder / "a"))["trees"] == parts[0]["trees"]


def test_without_an_embedder_there_are_no_scenes_and_that_is_said(folder: Path) -> None:
    """`stats` and `verify` name the reason; with an embedder, `resume` makes the scenes."""
    sessions = make_sessions(3)
    with MemForest(folder, fast_config(embedder="none")) as forest:
        for session_id, turns in sessions:
            forest.ingest_session("u", session_id, turns)
        found, report = forest.user("u").stats(), forest.user("u").verify()
        assert "scene" not in found.trees["memforest"]
        assert found.notes == report.notes
        assert "no embedder" in found.notes[0]
        assert report.ok
    with MemForest(folder, fast_config()) as forest:
        forest.resume()
        found = forest.user("u").stats()
        assert found.indexes["memforest"]["facts_in_scenes"] == found.facts > 0
        assert forest.user("u").verify().ok


def test_scenes_are_found_by_number(folder: Path) -> None:
    """`tree` lists scenes with what they are about, and unfolds one down to its facts."""
    with grown(folder) as forest:
        user = forest.user("u")
        listed = [view for view in user.tree(depth=0) if view.title.startswith("scene ")]
        largest = max(listed, key=lambda view: view.leaves)
        assert largest.summary
        name, _, about = largest.title.partition(": ")
        assert about
        (view,) = user.tree(name, depth=9)
        assert (view.title, view.leaves) == (largest.title, largest.leaves)
        assert len(view.children) > 1
        with pytest.raises(NotFoundError):
            user.tree("scene 100000")


def test_nodes_of_scenes_are_as_near_as_the_facts_below_them_are_on_average(folder: Path) -> None:
    """A scene's node has no vector: recall gives it the mean similarity of the facts below it."""
    grown(folder).close()
    db = Database(folder / file_name("u"))
    try:
        with db.read() as tx:
            snapshot = load_snapshot(tx)
            found = embedded_forest(tx, snapshot, MemForestIndex())
    finally:
        db.close()
    forest, fact = found.forest, np.random.default_rng(7).random(len(snapshot.facts.ids))
    leaves = np.flatnonzero(forest.kind == FACT)
    similarity = np.full(len(forest), -5.0)
    similarity[leaves] = fact[forest.item[leaves]]
    nearness_by(found, similarity, snapshot.facts.vectors[0], MemForestSettings())

    def below(node: int) -> list[int]:
        return [fact for child in forest.children[node] for fact in below(child)] or [int(forest.item[node])]

    checked = 0
    for root in forest.tree_root.tolist():
        if forest.tree_kind[forest.tree[root]] == "scene" and forest.children[root]:
            for node in (root, *[child for child in forest.children[root] if forest.children[child]]):
                assert similarity[node] == pytest.approx(fact[below(node)].mean())
                checked += 1
        elif forest.children[root]:
            assert similarity[root] == -5.0
    assert checked > 5


def talk(*trees: Tree) -> tuple[list[Said], list[Fact], list[Tree]]:
    """Return four turns with a fact each; the first fact is what is asked for."""
    said = [Said("Ana", day, session=day) for day in (1, 2, 3, 4)]
    facts = [Fact((i,), axis=0 if i == 0 else -1) for i in range(4)]
    return said, facts, list(trees)


def test_a_scene_with_the_number_of_a_speaker_is_not_the_speakers_tree() -> None:
    """Scopes of different kinds are numbered apart: only entity trees are read as participants'."""
    tree = Tree("scene", 1, (("fact", 0), ("fact", 1)))
    assert (fact_blocks(planted(hand_made(*talk(tree))).forest) < 0).all()


def test_a_scene_of_one_fact_is_not_browsed() -> None:
    """It has nothing to descend, so it must not push out the trees that have."""
    lone, pair = Tree("scene", 1, ("fact", 0)), Tree("scene", 2, (("fact", 0), ("fact", 1)))
    snapshot = hand_made(*talk(lone, pair))
    request = searching(axis=0)
    base = base_scores(snapshot, request, np.zeros(4), np.zeros(4))
    assert [tree for tree, _ in recall(snapshot, planted(snapshot), base, request.vector).trees] == [1]


@pytest.mark.parametrize("seed", range(12))
def test_what_was_compared_before_changes_nothing(seed: int) -> None:
    """Facts come and go, one or many: the scenes that go on from the ones before are those from the start."""
    rng = np.random.default_rng(seed)
    vectors, start, keys = made(seed, 700, topics=3 + seed)
    vectors[::97] = 0
    facts = facts_of(vectors, start, keys)
    rules = replace(RULES, join=0.1 + 0.05 * (seed % 5), time=0.1 * (seed % 2))
    there, old, reused = np.arange(500), None, 0
    for _ in range(25):
        gone = rng.choice(there, rng.choice((0, 1, 1, 30)), replace=False)
        free = np.setdiff1d(np.arange(700), there)
        there = np.union1d(
            np.setdiff1d(there, gone), rng.choice(free, min(len(free), rng.choice((0, 1, 1, 30))))
        )
        part = replace(
            facts, **{name: getattr(facts, name)[there] for name in ("ids", "key", "start_ms", "end_ms", "stated")},
            vectors=VectorTable.of(np.asarray(facts.vectors.rows)[there]),
        )  # fmt: skip
        reused += old is not None and old.base[0] == derive(part, rules, np.arange(len(there)))[1].base[0]  # type: ignore[union-attr]
        found, old = derive(part, rules, np.arange(len(there)), old)
        wanted = scenes(part, rules, np.arange(len(there)))
        for name in ("facts", "scene", "main", "pivots"):
            assert getattr(found, name).tolist() == getattr(wanted, name).tolist(), name
    assert reused
