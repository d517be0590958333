"""What it costs to grow a segment tree over what is stored: in transactions of many leaves, and leaf by leaf."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from memforest.nodes import TreeHead
from memforest.store import indexes
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.database import Database
from memforest.trees import segtree_rows
from memforest.trees.attached import Attached
from memforest.trees.segtree_grow import KIND, OWNER, SegTree
from memforest.trees.segtree_place import BATCH, grow, receive
from memforest.trees.segtree_rows import SegTreeSettings
from scaling.memories import INDEX, TAU, config, path_of, settings_of

__all__ = ["INPUTS", "Grown", "grown"]

INPUTS = {"talk": TAU, "all NONE": 1.0, "never NONE": -1.0}
"""The likeness that a leaf needs; the vectors are the same."""
LAST = 8
"""Transactions before a size whose time counts."""
SINGLE = 60
"""Leaves that are taken back at a size and come again one by one."""


@dataclass(slots=True)
class Grown:
    """What was measured at one size. Times in ms."""

    input: str
    leaves: int
    ms_a_leaf: float
    """In transactions of `BATCH`, without the wait for the disk at their end."""
    ms_alone: float
    """One at a time, each by what is read from the file anew, likewise."""
    nodes_a_leaf: float
    """All nodes of the tree over its leaves."""
    height: int
    written_mean: float
    written_max: int
    """Nodes written or dropped by one insert, the leaf with them."""
    over_path: int
    """Inserts, of those with no cut, that wrote more than the leaf and the frontiers before and after it."""
    cut_back_ms: float
    """Taking `SINGLE` leaves back."""
    receive_ms: float
    """Making an exchange of a turn that is stored: the median of transactions of 512 notes."""


def grown(directory: Path, name: str, sizes: Sequence[int], dimension: int) -> list[Grown]:
    """Grow a tree over the turns of a memory that has none, and measure it at every size that there is.

    Args:
        directory: of the memory.
        name: of `INPUTS`.
        sizes: in leaves, ascending.
        dimension: of the vectors.
    """
    settings = settings_of(tau=INPUTS[name])
    db, found = Database(path_of(directory)), list[Grown]()
    try:
        with db.write() as tx:
            Attached(config(dimension)).add(tx, INDEX, settings)
        received = _received(db, settings)
        for size in sizes:
            took = _grow(db, settings, size)
            if took is None:
                break
            found.append(_measured(db, settings, name, took))
            found[-1].receive_ms = received
    finally:
        db.close()
    return found


def _received(db: Database, settings: SegTreeSettings) -> float:
    """Make exchanges of all that is said; return the time of one, in ms."""
    took, more = list[float](), True
    while more:
        with db.write() as tx:
            before, began = segtree_rows.count(tx, segtree_rows.WAITING), process_time()
            more = receive(tx, settings, indexes.feed_position(tx))
            spent = (process_time() - began) * 1000
            took.append(spent / max(segtree_rows.count(tx, segtree_rows.WAITING) - before, 1))
    return statistics.median(took)


def _grow(db: Database, settings: SegTreeSettings, size: int) -> list[float] | None:
    """Place exchanges until there are so many leaves; return the times of a leaf in the last transactions."""
    took, more, leaves = list[float](), True, 0
    while more and leaves < size:
        with db.write() as tx:
            began = process_time()
            more = grow(tx, settings)
            took.append((process_time() - began) * 1000 / BATCH)
            leaves = segtree_rows.count(tx, segtree_rows.PLACED)
    if leaves < size:
        return None
    return (
        took[-LAST:] if more or len(took) == 1 else took[-LAST - 1 : -1]
    )  # the last one may have placed less


def _measured(db: Database, settings: SegTreeSettings, name: str, took: Sequence[float]) -> Grown:
    """Take the last leaves back, let them come one by one, and tell what that cost."""
    with db.write() as tx:
        began = process_time()
        tree = SegTree(tx, settings)
        tree.cut_back(tree.head.count - SINGLE, {})
        tree.close()
        cut_back = (process_time() - began) * 1000
    with db.write() as tx:
        began = process_time()
        counts = [_insert(tx, settings) for _ in range(SINGLE)]
        alone = (process_time() - began) * 1000 / SINGLE
    with db.read() as tx:
        head = _head(tx)
        inner, leaves = tree_rows.sizes(tx)[OWNER][1:]
    return Grown(
        input=name,
        leaves=leaves,
        ms_a_leaf=statistics.median(took),
        ms_alone=alone,
        nodes_a_leaf=(inner + leaves) / leaves,
        height=head.height,
        written_mean=statistics.fmean(wrote for wrote, _ in counts),
        written_max=max(wrote for wrote, _ in counts),
        over_path=sum(wrote > path for wrote, path in counts),
        cut_back_ms=cut_back,
        receive_ms=0.0,
    )


def _insert(tx: Tx, settings: SegTreeSettings) -> tuple[int, int]:
    """Place one leaf as `grow` does, reading everything anew; return the nodes that it wrote, and those of both frontiers."""
    one = segtree_rows.waiting(tx, 1)[0]
    vector = segtree_rows.leaf_vectors(tx, [one.id], of_text=False)[one.id]
    tree = SegTree(tx, settings)
    before = {node.id for node in tree.ends}
    level, maker = tree.by_likeness(vector, settings.tau or 0.0)
    tree.add(one, level, vector)
    segtree_rows.mark_placed(tx, [(one.id, level, maker)])
    after = {node.id for node in tree.ends}
    return tree.close().nodes, len(before | after)


def _head(tx: Tx) -> TreeHead:
    head = tree_rows.find_head(tx, OWNER, KIND, 0)
    assert head is not None
    return head
