"""Scenes of a stored memory: one tree each, nobody left out, canonical when derived, and no model asked."""

from __future__ import annotations

import atexit
import shutil
import sqlite3
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import Fact, Said, Tree, hand_made, planted, searching
from tests_long.worlds import (
    differences,
    dump,
    fast_config,
    fast_folder,
    file_of,
    make_sessions,
    rows,
)

from memforest import MemForest
from memforest.errors import NotFoundError
from memforest.search.cache import forest_of
from memforest.search.context_scores import base_scores
from memforest.search.snapshot import load_snapshot
from memforest.store.database import Database
from memforest.store.directory import file_name
from memforest.trees.memforest_recall import fact_blocks, recall, similarity_of_scenes
from memforest.trees.scenes import YOUNG


@lru_cache(maxsize=2)
def ingested(backwards: bool) -> Path:
    """Return the directory of a memory, made once, with more facts than a young one; not to be written to."""
    kept = tempfile.TemporaryDirectory(dir=fast_folder())
    atexit.register(kept.cleanup)
    sessions = make_sessions(1, sessions=16, most_turns=12)
    with MemForest(kept.name, fast_config()) as forest:
        for session_id, turns in sessions[::-1] if backwards else sessions:
            forest.ingest_session("u", session_id, turns)
        assert forest.user("u").stats().facts > YOUNG
    return Path(kept.name)


def grown(folder: Path, *, backwards: bool = False) -> MemForest:
    """Return a forest whose user ``u`` has more facts than a young memory."""
    shutil.copytree(ingested(backwards), folder, dirs_exist_ok=True)
    return MemForest(folder, fast_config())


def broken(folder: Path, sql: str) -> list[str]:
    """Change a closed memory's file behind its back, and return what `verify` says about scenes."""
    with sqlite3.connect(file_of(folder)) as conn:
        conn.execute("PRAGMA foreign_keys=ON")
        conn.execute(sql)
    conn.close()
    with MemForest(folder, fast_config()) as forest:
        return [one.message for one in forest.user("u").verify().problems if one.part == "scene"]


def test_every_fact_has_a_scene_and_every_scene_a_tree(folder: Path) -> None:
    """Counts agree in what `stats` tells, while the memory is young and after."""
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")
        for session_id, turns in make_sessions(2, sessions=16, most_turns=12):
            forest.ingest_session("u", session_id, turns)
            found = user.stats()
            assert found.indexes["memforest"]["facts_in_no_scene"] == 0
            assert found.indexes["memforest"]["facts_in_scenes"] == found.facts
            assert found.indexes["memforest"]["scenes"] == found.trees["memforest"].get("scene", 0)
        assert found.facts > YOUNG
        assert found.notes == ()
        report = user.verify()
        assert report.problems == ()


def test_scenes_ask_no_model_for_a_vector(folder: Path) -> None:
    """No summary of a scene's node is embedded, neither when it is made nor when vectors are filled in."""
    with grown(folder) as forest:
        forest.resume()
        count = "SELECT count(*) FROM derived_{} d JOIN node n ON n.id = d.{} JOIN tree t ON t.id = n.tree WHERE t.kind = 'scene'"
        (summaries,) = rows(file_of(folder), count.format("summary", "node"))
        (vectors,) = rows(file_of(folder), count.format("node_vector", "item"))
        assert summaries[0] > 0
        assert vectors == (0,)


def test_the_derived_scenes_do_not_depend_on_the_order_of_sessions(folder: Path) -> None:
    """Two memories that came to the same sessions in opposite orders have equal scenes after a rebuild."""
    for name, backwards in (("a", False), ("b", True)):
        with grown(folder / name, backwards=backwards) as forest:
            forest.user("u").rebuild(scopes=True)
            assert forest.user("u").verify().ok
            assert forest.user("u").stats().dirty_nodes == 0
    assert differences(dump(file_of(folder / "a")), dump(file_of(folder / "b"))) == {}


def test_a_rebuild_of_what_is_canonical_changes_nothing(folder: Path) -> None:
    """Rebuilding twice moves no fact, and embeds no turn and no fact again."""
    with grown(folder) as forest:
        forest.rebuild("u", scopes=True)
        before = dump(file_of(folder))
        usage = forest.user("u").rebuild(scopes=True)
        assert usage.embeds.keys() <= {"node"}
    assert differences(before, dump(file_of(folder))) == {}


def test_a_rebuild_makes_lost_summaries_and_words_again(folder: Path) -> None:
    """What is derived can be lost; scenes stay as they are without `scopes`."""
    with grown(folder) as forest:
        forest.user("u").rebuild()  # once, as rebuilt texts may differ from those of earlier nodes in nothing
    before = dump(file_of(folder))
    with sqlite3.connect(file_of(folder)) as conn:
        conn.execute("DELETE FROM derived_summary")
        conn.execute("DELETE FROM derived_fact_words")
        conn.execute("DELETE FROM derived_node_vector")
    conn.close()
    with MemForest(folder, fast_config()) as forest:
        forest.user("u").rebuild()
        assert forest.user("u").verify().ok
        (left,) = rows(file_of(folder), "SELECT count(*) FROM node WHERE dirty AND level > 0")
        assert left == (0,)
    assert differences(before, dump(file_of(folder))) == {}


def test_a_replaced_session_leaves_its_scenes(folder: Path) -> None:
    """Facts that go are taken out of members, trees and centroids."""
    with grown(folder) as forest:
        before = forest.user("u").stats().indexes["memforest"]["facts_in_scenes"]
        for number in range(5):
            turn = {"speaker": "Ana", "content": "I bought a boat.", "timestamp": f"2024-01-0{number + 1}"}
            forest.ingest_session("u", f"s{number}", [turn], replace=True)
        assert forest.user("u").stats().indexes["memforest"]["facts_in_scenes"] < before
        assert forest.user("u").verify().ok


def test_a_young_memory_derives_its_scenes_anew_when_something_goes(folder: Path) -> None:
    """What a deletion leaves has the scenes that a rebuild gives it."""
    with MemForest(folder, fast_config()) as forest:
        user = forest.user("u")
        for session_id, turns in make_sessions(6, sessions=5, most_turns=12):
            forest.ingest_session("u", session_id, turns)
        for one in [view.session_id for view in user.sessions()][:3]:
            assert 0 < user.stats().facts <= YOUNG
            user.delete(session_id=one)
            forest.flush()
            before = dump(file_of(folder))
            user.rebuild(scopes=True)
            assert differences(before, dump(file_of(folder))) == {}


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


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "UPDATE ix_memforest_scene SET size = size + 1 WHERE id = (SELECT min(id) FROM ix_memforest_scene)",
            "size",
        ),
        ("UPDATE ix_memforest_scene SET model = 'other'", "other"),
        ("UPDATE ix_memforest_scene_member SET main = 0", "main scenes"),
        (
            "DELETE FROM ix_memforest_scene_member WHERE fact = (SELECT min(fact) FROM ix_memforest_scene_member)",
            "is in no scene",
        ),
        ("DELETE FROM tree WHERE kind = 'scene'", "has no tree"),
        (
            "UPDATE ix_memforest_scene SET centroid = (SELECT s.centroid FROM ix_memforest_scene s WHERE s.id != ix_memforest_scene.id ORDER BY s.id)",
            "centroid",
        ),
        ("UPDATE tree SET scope = scope + 1000 WHERE kind = 'scene'", "which is none"),
    ],
)
def test_verify_finds_damage(folder: Path, sql: str, said: str) -> None:
    """Each way in which scenes, members, trees and centroids can disagree is reported."""
    grown(folder).close()
    assert broken(folder, "SELECT 1") == []
    assert any(said in message for message in broken(folder, sql))


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
            forest = forest_of(tx, snapshot, "memforest")
    finally:
        db.close()
    fact = np.random.default_rng(7).random(len(snapshot.facts.ids))
    similarity = np.full(len(forest.ids), -5.0)
    similarity_of_scenes(forest, fact, similarity)

    def below(node: int) -> list[int]:
        return [fact for child in forest.children[node] for fact in below(child)] or [int(forest.item[node])]

    checked = 0
    for root in forest.roots.tolist():
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
