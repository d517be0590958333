"""Recall of trees and beam browse on hand-made forests."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests_long.hand_made import DIMENSION, Fact, Said, Tree, hand_made, planted, searching

from memforest.search.context_scores import Base, base_scores
from memforest.search.snapshot import Snapshot
from memforest.trees.memforest_grow import MemForestSettings
from memforest.trees.memforest_recall import browse, leaf_similarity, recall

QUESTION = np.eye(DIMENSION, dtype=np.float32)[0]


def based(snapshot: Snapshot) -> Base:
    """Return base scores without a lexical leg."""
    request = searching(axis=0)
    return base_scores(
        snapshot, request, np.zeros(len(snapshot.turns.ids)), np.zeros(len(snapshot.facts.ids))
    )


def two_trees() -> Snapshot:
    """Two sessions: the first's root is near the question, the second holds the turn that is."""
    turns = [Said("Ana", 1), Said("Ana", 1), Said("Ana", 2, session=2, axis=0), Said("Ana", 2, session=2)]
    near = Tree("session", 1, (("turns", 0, 1), ("turns", 1, 2)), axes={2: 0})
    far = Tree("session", 2, (("turns", 2, 3), ("turns", 3, 4)), axes={5: 1})
    return hand_made(turns, trees=[near, far])


def test_a_leaf_is_as_near_as_its_item() -> None:
    """A chunk is as near as its best turn, a fact's leaf as its fact; inner nodes are not scored here."""
    turns = [Said("Ana", 1, axis=1), Said("Ana", 1, axis=0)]
    trees = [Tree("session", 1, (("turns", 0, 2),)), Tree("entity", 1, (("fact", 0),), axes={3: 0})]
    snapshot = hand_made(turns, [Fact((0,), axis=0)], trees)
    assert leaf_similarity(snapshot, planted(snapshot), based(snapshot), QUESTION).tolist() == [1, 0, 1, 0]


def test_trees_are_recalled_by_root_and_by_leaf() -> None:
    """The score is the root's similarity plus the best leaf's: either way in is enough."""
    snapshot = two_trees()
    found = recall(snapshot, planted(snapshot), based(snapshot), QUESTION)
    assert found.trees == ((0, 1.0), (1, 1.0))  # equal scores: by tree


def test_top_limits_the_trees() -> None:
    """Only the best trees are browsed, and only their leaves are reached."""
    snapshot = two_trees()
    settings = MemForestSettings(recall_trees=1)
    found = recall(snapshot, planted(snapshot), based(snapshot), QUESTION, settings)
    assert found.trees == ((0, 1.0),)
    assert set(found.leaves) == {0, 1}


def test_nothing_to_recall_by() -> None:
    """Without an embedder, or without trees, the result is empty."""
    snapshot = two_trees()
    assert recall(snapshot, planted(snapshot), based(snapshot), None).trees == ()
    bare = hand_made([Said("Ana", 1)])
    assert recall(bare, planted(bare), based(bare), QUESTION).leaves == {}


def test_a_node_of_a_scene_is_as_near_as_its_facts_on_average() -> None:
    """It has no vector: the root is compared by all facts below, and browse by those below each node."""
    turns = [Said("Ana", 1)] * 4
    facts = [Fact((0,), axis=0), Fact((1,), axis=0), Fact((2,), axis=1), Fact((3,), axis=0)]
    shape = ((("fact", 0), ("fact", 1)), (("fact", 2), ("fact", 3)))
    snapshot = hand_made(turns, facts, [Tree("scene", 1, shape)])
    found = recall(snapshot, planted(snapshot), based(snapshot), QUESTION)
    assert found.trees == ((0, 0.75 + 1.0),)  # the mean of all four, and the best leaf
    paths = {int(planted(snapshot).forest.item[leaf]): value * 3 for leaf, value in found.leaves.items()}
    assert paths == {0: 0.75 + 1 + 1, 1: 0.75 + 1 + 1, 2: 0.75 + 0.5 + 0, 3: 0.75 + 0.5 + 1}


def test_browse_goes_by_the_node_and_not_by_the_way_to_it() -> None:
    """Of the nodes of one level the nearest are kept, however near those above them are."""
    shape = ((("turns", 0, 1), ("turns", 1, 2)), (("turns", 2, 3), ("turns", 3, 4)))
    snapshot = hand_made([Said("Ana", 1)] * 4, trees=[Tree("session", 1, shape)])
    near = {6: 0.5, 2: 0.9, 5: 0.1, 0: 0.2, 1: 0.3, 3: 0.4, 4: 0.0}
    assert set(browse(planted(snapshot).forest, lambda nodes: [near[node] for node in nodes], 6, beam=2)) == {
        1,
        3,
    }


def test_the_beam_keeps_the_best_nodes_of_a_level() -> None:
    """With one place per level, browse ends at the best leaf below the best inner node."""
    shape = ((("turns", 0, 1), ("turns", 1, 2)), (("turns", 2, 3), ("turns", 3, 4)))
    turns = [Said("Ana", 1, axis=0), Said("Ana", 1), Said("Ana", 1), Said("Ana", 1, axis=0)]
    snapshot = hand_made(turns, trees=[Tree("session", 1, shape, axes={2: 1, 5: 0, 6: 0})])
    similarity = np.zeros(len(planted(snapshot).forest.ids))
    similarity[planted(snapshot).forest.inner] = planted(snapshot).vectors.cosines(QUESTION)
    similarity += leaf_similarity(snapshot, planted(snapshot), based(snapshot), QUESTION) * (
        planted(snapshot).forest.kind != 0
    )
    near = lambda nodes: similarity[nodes].tolist()  # noqa: E731  # shorter than a function
    assert browse(planted(snapshot).forest, near, 6, beam=1) == {4: 1.0}  # the mean along root, node, leaf
    assert set(browse(planted(snapshot).forest, near, 6, beam=4)) == {0, 1, 3, 4}


def test_leaves_at_different_depths_are_all_reached() -> None:
    """A leaf high in an uneven tree is not lost when the beam moves on."""
    shape = (("turns", 0, 1), (("turns", 1, 2), ("turns", 2, 3)))
    snapshot = hand_made([Said("Ana", 1)] * 3, trees=[Tree("session", 1, shape)])
    assert set(browse(planted(snapshot).forest, lambda nodes: [0.0] * len(nodes), 4)) == {0, 1, 2}
