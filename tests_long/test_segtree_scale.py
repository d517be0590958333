"""How a segment tree grows when there is much of the same, and the order of turns within a leaf."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests_long.worlds import fast_config, file_of, rows, said

from memforest import MemForest
from memforest.nodes import DictArena, TreeHead
from memforest.trees.segment import NewLeaf, cut, cut_at, insert
from memforest.trees.segtree import order_of_turns


def grown(folder: Path, *sessions: int, **settings: Any) -> MemForest:
    """Return a memory of sessions of so many turns, each a leaf."""
    own = {"leaves": "turns", "fan_out_max": 8, **settings}
    forest = MemForest(folder, fast_config(indexes=("segtree",), index_settings={"segtree": own}))
    for day, turns in enumerate(sessions, 1):
        texts = (f"word{n % 7} and word{n % 3} on {day}" for n in range(turns))
        forest.ingest_session("u", f"s{day}", said(*texts, day=day), infer=False)
    return forest


@pytest.mark.parametrize(("tau", "most"), [(-1.0, 5), (1.0, 3 + 4)])
def test_a_tree_gets_higher_as_the_logarithm_of_its_leaves(folder: Path, tau: float, most: int) -> None:
    """Neither leaves that all join something nor leaves that join nothing make a comb, and no node is over full."""
    with grown(folder, 400, tau=tau, height_max=3) as forest:
        stats = forest.user("u").stats().indexes["segtree"]
        assert stats["leaves"] == 400
        assert stats["height"] <= most
        assert stats["nodes"] <= 2 * 400 - 1
        assert forest.user("u").verify().problems == ()
    children = rows(file_of(folder), "SELECT children FROM node WHERE level > 0")
    fullest = max(len(row[0]) // 4 for row in children)
    assert fullest <= 8


def test_a_tree_of_parts_cut_back_is_the_tree_that_it_was(folder: Path, tmp_path: Path) -> None:
    """A memory that lost its last turns has the tree of one that never had them."""
    shape = "SELECT level, span_lo, span_hi, substr(state, 1, 8) FROM node WHERE level > 0 ORDER BY span_lo, level"
    with grown(folder, 100, 50, tau=-1.0) as forest:
        forest.user("u").delete(session_id="s2")
    with grown(tmp_path / "other", 100, tau=-1.0):
        pass
    assert rows(file_of(folder), shape) == rows(file_of(tmp_path / "other"), shape)


def test_a_root_above_the_parts_of_a_cut_one_is_marked() -> None:
    """A root that was made for a leaf of its own is not."""
    arena, head = DictArena(), TreeHead(1, 0)
    for number in range(1, 7):
        leaf = NewLeaf((number, ""), number, number + 1, "turn", number)
        head = insert(arena, head, leaf, 1 if number > 2 else None).head
    assert cut_at(arena.get(head.root or 0)) == 0
    head = cut(arena, head, head.root or 0, 3)
    assert cut_at(arena.get(head.root or 0)) == 6
    above = insert(arena, head, replace(leaf, key=(7, "")), None).head
    assert cut_at(arena.get(above.root or 0)) == 0


@dataclass(frozen=True, eq=False)
class Planted:
    """As much of a forest as the order looks at."""

    item: NDArray[np.int64]


def test_turns_of_one_leaf_stand_by_their_own_relevance() -> None:
    """Leaves stand by time; a turn without a leaf counts as one; equal turns stand by time."""
    random = Random(3)
    for _ in range(50):
        sizes = [random.randint(1, 4) for _ in range(6)]
        leaf_of = np.repeat(np.arange(6), sizes)
        leaf_of[random.randrange(len(leaf_of)) :] = -1
        starts = np.cumsum(sizes, dtype=np.int64) - np.array(sizes)
        places = np.array(random.sample(range(len(leaf_of)), len(leaf_of)))
        places[:] = np.argsort(np.argsort(places + 100 * np.repeat(np.arange(6), sizes)))
        for start, size in zip(starts, sizes, strict=True):
            places[start : start + size].sort()
        own = np.array([random.choice([0.1, 0.2, 0.3]) for _ in leaf_of])
        forest: Any = Planted(starts)
        want = sorted(
            range(len(leaf_of)),
            key=lambda turn: (
                (places[starts[leaf_of[turn]]], -own[turn], places[turn])
                if leaf_of[turn] >= 0
                else (places[turn], 0.0, 0)
            ),
        )
        assert np.argsort(order_of_turns(forest, places, leaf_of, own)).tolist() == want
