"""What may be wrong between turns, exchanges, leaves, and the sums that leaves are compared with."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import zip_longest

from memforest.store import feed, indexes
from memforest.store import trees as tree_rows
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.base import IndexProblem
from memforest.systems.segtree import check_rows
from memforest.systems.segtree.grow import KIND, OWNER, SegTree
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.tree import Node, walk


def problems(tx: Tx, settings: SegTreeSettings, *, sound: bool) -> list[IndexProblem]:
    """Return what is wrong with the exchanges, and in a tree that is sound with the order of the leaves and the sums."""
    found = [IndexProblem("placement", message) for message in _of_exchanges(tx)]
    if found or not sound:
        return found
    return [IndexProblem("tree", message) for message in _of_leaves(tx, settings)]


def _of_exchanges(tx: Tx) -> Iterator[str]:
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor < feed.position(tx):
        return  # turns have come or gone, and it has not been told yet
    yield from _named(check_rows.stale(tx), "exchange(s) are of turns that are not stored as they say")
    yield from _named(check_rows.overlapping(tx), "exchange(s) hold turns of the one in front of them")
    yield from _named(check_rows.uncovered(tx), "turn(s) are in no exchange", "row")
    yield from _named(check_rows.unplaced(tx), "exchange(s) are said to be in the tree and have no leaf")


def _named(found: Collection[int], what: str, number: str = "exchange") -> Iterator[str]:
    if found:
        yield f"{len(found)} {what}; the first of them is {number} {min(found)}"


def _is_hull(node: Node, kids: Sequence[Node]) -> bool:
    hull = min(kid.start_ms for kid in kids), max(kid.end_ms for kid in kids)
    return (node.key, node.window, (node.start_ms, node.end_ms)) == (kids[0].key, None, hull)


def _of_leaves(tx: Tx, settings: SegTreeSettings) -> Iterator[str]:
    head = tree_rows.find_head(tx, OWNER, KIND, 0)
    if head is None:
        return
    arena = SqliteArena(tx)
    try:
        nodes = list(walk(arena, head))
        wrong = [
            node.id for node in nodes if node.level and not _is_hull(node, arena.get_many(node.children))
        ]
    except (KeyError, ValueError):
        return  # the tree is broken, and that is said
    if head.root is not None and arena.get(head.root).level != head.height:
        yield f"the tree's head has height {head.height}, which is not its root's level"
    yield from _named(wrong, "node(s) have another key or interval than their children, or a window", "node")
    stored = [(node.item, node.item_last or node.item) for node in nodes if not node.level]
    for at, (leaf, wanted) in enumerate(zip_longest(stored, check_rows.leaf_order(tx)), 1):
        if leaf != wanted:
            yield f"leaf {at} stands for turns {leaf}, and the exchanges have {wanted} there"
            return
    sums = SegTree(tx, settings).wrong_sums()
    yield from _named(sums, "node(s) have another sum than their leaves", "node")
