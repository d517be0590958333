"""Trees follow from their leaves alone, an early leaf renews few nodes, and each kind of damage is named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memforest.search.forest import FACT, Forest, mixed
from memforest.trees.kernel import Growth, packed, problems

Leaf = tuple[int, int]
"""The tree of a leaf and its number: its time, and what it is known by."""

LEAVES = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 400)), max_size=300)
K = np.array([2, 3, 4, 9])


def grown(leaves: Sequence[Leaf], k: Any = K, *, anchored: bool = True) -> Forest:
    """Return the trees of leaves that came in any order; a tree without leaves is left out."""
    found = sorted(leaves)
    trees = sorted({tree for tree, _ in found})
    tree = np.array([trees.index(one) for one, _ in found], dtype=np.int64)
    at = np.array([number for _, number in found], dtype=np.int64)
    growth = Growth("ix", SimpleNamespace(turns=None, facts=None), ["kind"] * len(trees), trees)  # type: ignore[arg-type]
    rows = growth.leaves(tree, FACT, at, at, at + 1, at + 1)
    growth.pack(rows, mixed(at.astype(np.uint64)), np.asarray(k)[trees], anchored=anchored)
    return growth.forest()


def shape(forest: Forest, row: int) -> Any:
    """Return a node's leaves, nested."""
    below = forest.children[row]
    return tuple(shape(forest, one) for one in below) if below else int(forest.item[row])


def shapes(forest: Forest) -> dict[int, Any]:
    """Return every tree by its scope."""
    roots = forest.tree_root.tolist()
    return {int(scope): shape(forest, roots[tree]) for tree, scope in enumerate(forest.tree_scope)}


def numbers(of: Any) -> list[int]:
    """Return the leaves of a nested tree in order."""
    return [of] if isinstance(of, int) else [leaf for one in of for leaf in numbers(one)]


@given(LEAVES, st.booleans(), st.randoms())
def test_equal_leaves_are_equal_trees(leaves: set[Leaf], anchored: bool, random: Random) -> None:
    """In whatever order they came, and whatever other trees stand beside them."""
    found = shapes(grown(random.sample(sorted(leaves), len(leaves)), anchored=anchored))
    assert found == shapes(grown(sorted(leaves), anchored=anchored))
    for tree in found:
        alone = [leaf for leaf in leaves if leaf[0] == tree]
        assert shapes(grown(alone, anchored=anchored)) == {tree: found[tree]}


@given(LEAVES, st.booleans())
def test_trees_keep_their_contract(leaves: set[Leaf], anchored: bool) -> None:
    """No node has more than k children, all leaves are there once and in order, and below one root."""
    forest = grown(sorted(leaves), anchored=anchored)
    assert problems(forest, disjoint=True) == []
    for tree, scope in enumerate(forest.tree_scope.tolist()):
        inner = forest.inner[forest.tree[forest.inner] == tree].tolist()
        assert max((len(forest.children[row]) for row in inner), default=1) <= K[scope]
        assert numbers(shape(forest, int(forest.tree_root[tree]))) == sorted(
            at for of, at in leaves if of == scope
        )
    assert np.bincount(forest.tree[forest.parent < 0], minlength=0).tolist() == [1] * len(forest.tree_kind)


@given(LEAVES)
def test_packed_from_the_left_all_nodes_but_the_last_are_full(leaves: set[Leaf]) -> None:
    """On each level, as in a tree that grows to the right; a tree of at most k is its root in either way."""
    full, anchored = (grown(sorted(leaves), anchored=how) for how in (False, True))
    for forest, scope in ((full, one) for one in full.tree_scope.tolist()):
        tree = forest.tree_scope.tolist().index(scope)
        for level in np.unique(forest.level[forest.tree == tree]).tolist()[1:]:
            rows = np.flatnonzero((forest.tree == tree) & (forest.level == level)).tolist()
            assert all(len(forest.children[row]) == K[scope] for row in rows[:-1])
        if sum(of == scope for of, _ in leaves) <= K[scope]:
            assert shapes(anchored)[scope] == shapes(full)[scope]


def test_a_node_ends_where_a_leaf_says_so() -> None:
    """Between such leaves nodes are filled; each tree has anchors of its own k."""
    marks = np.array([1, 48, 1, 1, 1, 1, 1, 24, 32, 1, 1], dtype=np.uint64)
    tree = np.array([0] * 6 + [1] * 5)
    assert packed(tree, marks, np.array([3, 4]), anchored=True).tolist() == [0, 0, 1, 1, 1, 2, 3, 3, 3, 4, 4]
    assert packed(tree, marks, np.array([3, 4]), anchored=False).tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 2, 3]


def nodes(leaves: Sequence[int], *, anchored: bool) -> set[Any]:
    """Return what each inner node of a tree has below it, by which a summary is known."""
    forest = grown([(0, leaf) for leaf in leaves], [10], anchored=anchored)
    said: list[Any] = forest.item.tolist()
    for row in forest.inner.tolist():
        said[row] = hash((int(forest.level[row]), *(said[one] for one in forest.children[row])))
    return {said[row] for row in forest.inner.tolist()}


WHOLE = range(0, 10_000, 2)
"""The numbers of 5,000 leaves, between any two of which there is room for one more."""


def test_a_change_anywhere_renews_few_nodes() -> None:
    """On average at most 15 of some 600 by an insert or a delete; packed from the left one at the front renews them all."""
    random, renewed, before = Random(7), [], nodes(WHOLE, anchored=True)
    full = nodes(WHOLE, anchored=False)
    for at in [0, 4999, *random.sample(range(5000), 30)]:
        inserted, deleted = (
            [*WHOLE[:at], 2 * at - 1, *WHOLE[at:]] if at else [*WHOLE, 9_999],
            [*WHOLE[:at], *WHOLE[at + 1 :]],
        )
        renewed += [len(nodes(now, anchored=True) - before) for now in (inserted, deleted)]
    assert sum(renewed) / len(renewed) <= 15
    assert len(nodes(WHOLE[1:], anchored=False) - full) > 500
    assert len(before) < 1.2 * len(full)  # they are as full, almost


DAMAGE: list[tuple[str, str, int, int]] = [
    ("parent", "has no children", 0, -1),
    ("parent", "is no root and has no parent", 0, -1),
    ("parent", "is a leaf with children", 8, 0),
    ("tree", "is of another tree than its parent", 1, 1),
    ("level", "is not below its parent's level", 0, 1),
    ("end_ms", "has an empty interval", 0, 0),
    ("start_ms", "is not covered by its parent", 0, -1),
    ("end_ms", "is not covered by its parent", 7, 999),
    ("start_ms", "stands behind a later one", 3, 1),
    ("end_ms", "overlaps its sibling", 0, 2),
]


@pytest.mark.parametrize(("column", "what", "row", "value"), DAMAGE)
def test_what_is_wrong_with_a_forest_is_named(column: str, what: str, row: int, value: int) -> None:
    """Eight leaves in a tree of three, and two in another: with the number of the node."""
    forest = grown([*((1, at) for at in range(8)), (2, 0), (2, 1)])
    assert problems(replace(forest), disjoint=True) == []
    changed = getattr(forest, column).copy()
    changed[row if what != "has no children" else [0, 1, 2]] = value
    object.__setattr__(forest, column, changed)  # as no index makes it
    assert any(what in one for one in problems(forest, disjoint=True))
