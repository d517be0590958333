"""Inner nodes as evidence: the turns beneath them, and whether they pass the time filters."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from memforest.search.forest import FACT, INNER, Forest
from memforest.search.snapshot import Snapshot, ranges
from memforest.store import derived
from memforest.store import trees as tree_rows
from memforest.store.tx import Tx
from memforest.systems.base import Search
from memforest.systems.filters import allowed

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def ready_nodes(tx: Tx, nodes: Collection[int]) -> set[int]:
    """Return those of some nodes, by id, whose text is there and up to date."""
    texts = derived.summaries(tx, nodes)
    return {
        one
        for one, node in tree_rows.nodes_with_ids(tx, list(texts)).items()
        if not node.dirty and texts[one]
    }


def turns_beneath(snapshot: Snapshot, forest: Forest, node: int) -> Ints:
    """Return the rows of the turns beneath a node, each once, by session and position.

    Beneath a leaf that stands for a fact are all turns that support the fact.

    Args:
        snapshot: of the memory.
        forest: one of its forests.
        node: row of the node in the forest.
    """
    leaves = leaves_beneath(forest, node)
    facts = forest.item[leaves[forest.kind[leaves] == FACT]]
    cells = leaves[forest.kind[leaves] != FACT]
    told = snapshot.turns_of_fact.of_rows(facts)
    return np.unique(np.concatenate([told, ranges(forest.item[cells], forest.item_end[cells])]))


def leaves_beneath(forest: Forest, node: int) -> Ints:
    """Return the rows of the leaves beneath a node; the node itself if it is one."""
    below, nodes = forest.children, np.array([node], dtype=np.int64)
    found = [nodes[:0]]
    while len(nodes):
        found.append(nodes[forest.kind[nodes] != INNER])
        nodes = below.of_rows(nodes)
    return np.concatenate(found)


def allowed_nodes(snapshot: Snapshot, forest: Forest, request: Search) -> Flags:
    """Return which nodes of a forest pass the time filters, by the leaves beneath them; shape (N,).

    A summary tells of all of its leaves. So `as_of_ms` keeps a node only if every leaf was so at that instant: a node
    with one later leaf would tell what came after. `during_ms` keeps a node if a leaf of it overlaps the window.
    A leaf that holds turns was so if all its turns pass, and all the facts that they support. Of an earlier moment no node
    is kept whose summary tells more than was held then.
    """
    kept = np.ones(len(forest.ids), dtype=np.bool_)
    kept[forest.torn] = False
    leaf = forest.kind != INNER
    if request.as_of_ms is not None:
        every, _ = _leaves_that_pass(snapshot, forest, replace(request, during_ms=None))
        kept &= forest.ascent.sums((leaf & ~every).astype(np.float64)) == 0
    if request.during_ms is not None:
        _, some = _leaves_that_pass(snapshot, forest, request)
        kept &= forest.ascent.sums((leaf & some).astype(np.float64)) > 0
    return kept


def _leaves_that_pass(snapshot: Snapshot, forest: Forest, request: Search) -> tuple[Flags, Flags]:
    """Return the leaves of which everything passes the filters, and those of which something does; False for inner nodes."""
    keep, pairs = allowed(snapshot, request), snapshot.facts.pairs
    whole = keep.turns.copy()
    whole[pairs[~keep.facts[pairs[:, 0]], 1]] = False
    every, some = np.zeros(len(forest.ids), dtype=np.bool_), np.zeros(len(forest.ids), dtype=np.bool_)
    leaf = forest.kind != INNER
    facts, cells = np.flatnonzero(forest.kind == FACT), np.flatnonzero(leaf & (forest.kind != FACT))
    every[facts] = some[facts] = keep.facts[forest.item[facts]]
    length = forest.item_end[cells] - forest.item[cells]
    every[cells] = _count(whole, forest, cells) == length
    some[cells] = _count(keep.turns, forest, cells) > 0
    return every, some


def _count(flags: Flags, forest: Forest, cells: Ints) -> Ints:
    """Return how many of the turns of each leaf are flagged."""
    before = np.r_[0, np.cumsum(flags)]
    found: Ints = before[forest.item_end[cells]] - before[forest.item[cells]]
    return found
