"""The way down a tree that somebody steers: what is kept, what a leaf is worth, and how near nodes are."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.table import each
from tests_long.hand_made import DIMENSION, Fact, Said, Tree, hand_made, planted

from memforest.search.forest import Forest
from memforest.trees.browse import UNASKED, Descent, browse_by, merged, split
from memforest.trees.memforest_recall import nearness_to

AXES = np.eye(DIMENSION, dtype=np.float32)
TWO_BY_TWO = ((("turns", 0, 1), ("turns", 1, 2)), (("turns", 2, 3), ("turns", 3, 4)))
"""Leaves 0 and 1 below node 2, leaves 3 and 4 below node 5, root 6."""


def four_forest(shape: tuple[object, ...] = TWO_BY_TWO) -> Forest:
    """A session of four turns with one tree."""
    return planted(hand_made([Said("Ana", 1)] * 4, trees=[Tree("session", 1, shape)])).forest


def test_a_leaf_is_worth_the_mean_of_its_places() -> None:
    """1 - place / beam on every ordered level: first and first 1, second and second with a beam of 2 a half."""
    way = Descent(four_forest(), 6, beam=2)
    assert way.below == [2, 5]
    way.keep([5, 2], ordered=True)
    assert way.below == [0, 1, 3, 4]
    way.keep([3, 1, 4, 0], ordered=True)
    assert way.below == []
    assert way.reached == {3: 1.0, 1: (0.5 + 0.5) / 2}
    assert way.levels == 2


def test_a_level_that_fits_says_nothing() -> None:
    """It counts a half, so that a leaf on whose way nobody was asked is worth that."""
    way = Descent(four_forest(), 6, beam=4)
    assert way.fits
    way.keep(way.below, ordered=False)
    way.keep([1, 0], ordered=True)
    assert way.reached == {1: (0.5 + 1) / 2, 0: (0.5 + 0.75) / 2}
    alone = Descent(four_forest(), 6)
    while alone.below:
        alone.keep(alone.below, ordered=False)
    assert alone.reached == dict.fromkeys((0, 1, 3, 4), UNASKED)


def test_nothing_chosen_ends_the_way() -> None:
    """An empty choice prunes the tree."""
    way = Descent(four_forest(), 6)
    way.keep([], ordered=True)
    assert (way.below, way.reached, way.levels) == ([], {}, 1)


def test_a_root_that_is_a_leaf_is_reached() -> None:
    """A tree of one leaf has no way down, and its leaf is there at once."""
    snapshot = hand_made([Said("Ana", 1)], trees=[Tree("session", 1, (("turns", 0, 1),))])
    leaf = int(np.flatnonzero(planted(snapshot).forest.kind == 1)[0])
    assert Descent(planted(snapshot).forest, leaf).reached == {leaf: UNASKED}


def test_a_leaf_high_in_an_uneven_tree_is_kept() -> None:
    """It is reached on its own level, and the others go on."""
    way = Descent(four_forest((("turns", 0, 1), (("turns", 1, 2), ("turns", 2, 4)))), 4)
    way.keep(way.below, ordered=True)
    assert list(way.reached) == [0]
    way.keep(way.below, ordered=True)
    assert set(way.reached) == {0, 1, 2}


def test_children_are_shown_in_time_order_whatever_was_preferred() -> None:
    """The later node was chosen first, and its leaves still stand behind the earlier one's."""
    way = Descent(four_forest(), 6)
    way.keep([5, 2], ordered=True)
    assert way.below == [0, 1, 3, 4]


@each("n", [0, 1, 24, 25, 48, 49, 100])
def test_long_lists_are_split_evenly(n: int) -> None:
    """As few runs as there can be, none above 24, none much shorter than another, nothing lost."""
    runs = split(list(range(n)))
    assert [row for run in runs for row in run] == list(range(n))
    assert len(runs) == -(-n // 24)
    assert max(map(len, runs), default=0) - min(map(len, runs), default=0) <= 1


def test_choices_of_several_runs_are_merged_by_place() -> None:
    """The first of each run, then the second of each; ties by node."""
    assert merged([[9, 2], [], [4, 7, 1]]) == [4, 9, 2, 7, 1]


def test_nodes_are_as_near_as_in_recall() -> None:
    """A chunk by its best turn, a fact by itself, an inner node by its summary, one of a scene by its facts' mean."""
    turns = [Said("Ana", 1, axis=0), Said("Ana", 1, axis=1), Said("Ana", 1), Said("Ana", 1)]
    facts = [Fact((2,), axis=1), Fact((3,), axis=0), Fact((0,), axis=2)]
    trees = [
        Tree("session", 1, (("turns", 0, 2), ("turns", 2, 4)), axes={2: 0}),
        Tree("scene", 1, (("fact", 0), ("fact", 1))),
        Tree("entity", 1, (("fact", 2), ("fact", 0)), axes={8: 3}),
    ]
    snapshot = hand_made(turns, facts, trees)
    near = nearness_to(snapshot, planted(snapshot), AXES[0], AXES[1])
    kinds = planted(snapshot).forest.kind.tolist()
    assert kinds == [1, 1, 0, 2, 2, 0, 2, 2, 0]
    assert near(range(9)) == [1, 0, 1, 1, 0, 0.5, 0, 1, 0]
    assert near([]) == []


def test_browse_by_nearness_orders_every_level() -> None:
    """The nearest leaf of the nearest node is worth 1; equal ones stand by node."""
    way = Descent(four_forest(), 6, beam=2)
    near = {2: 0.1, 5: 0.9, 0: 0.5, 1: 0.5, 3: 0.5, 4: 0.2}
    browse_by(way, lambda rows: [near[row] for row in rows])
    assert way.reached == {0: (0.5 + 1) / 2, 1: (0.5 + 0.5) / 2}
