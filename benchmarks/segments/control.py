"""The non-temporal control: the same leaves in a tree by likeness alone (SegTreeMem, arXiv 2606.04555, App. F).

A leaf joins the lowest cluster whose leaves' mean vector it is most like, if that is at least `LIKE`, and else begins a cluster.
The clusters are below one root. Everything else is the segment tree's: leaves and their vectors, the summariser and its
requests, the embedder, and the index that ranks them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from kept import KeptVectors
from memforest.interval import from_ms
from memforest.memory.query.memories import SOURCE_TURNS
from memforest.search.budget import render_summary
from memforest.search.cache import SnapshotCache
from memforest.search.forest import INNER, EmbeddedForest, Forest, Inner
from memforest.search.forests import forest_of, put_forest
from memforest.search.snapshot import Snapshot
from memforest.search.vectors import VectorTable
from memforest.steps.base import Kept
from memforest.steps.local.summarise import LocalSummariser
from memforest.store.packing import NUMBER
from memforest.systems.relevance import leaf_spans
from memforest.systems.segtree.grow import KIND, OWNER
from memforest.systems.segtree.requests import LABEL
from memforest.types import SummaryRequest
from segments.ranked import Shown, World

__all__ = ["LIKE", "cluster", "with_clusters"]

LIKE = 0.45
"""Least cosine with the mean of a cluster's leaves (paper, App. F, tau_nt)."""

Ints = NDArray[np.int64]


def cluster(vectors: NDArray[np.float64], like: float = LIKE) -> list[int]:
    """Return the cluster of every leaf, numbered as they begin.

    Args:
        vectors: of the leaves in the order in which they come, of any length, shape (n, d).
        like: least cosine with the mean of a cluster.

    Example:
        >>> cluster(np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]]))
        [0, 1, 0]
    """
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    sums = np.zeros_like(units)
    found: list[int] = []
    clusters = 0
    for unit in units:
        lengths = np.linalg.norm(sums[:clusters], axis=1)
        likes = sums[:clusters] @ unit / np.maximum(lengths, 1e-12)
        best = int(likes.argmax()) if clusters and likes.max() >= like else clusters
        clusters += best == clusters
        sums[best] += unit
        found.append(best)
    return found


def with_clusters(world: World, embedder: KeptVectors) -> World:
    """Return the same memory with clusters in the place of its segment tree; its leaves come in the order of that tree."""
    tree = forest_of(world.tx, world.snapshot, OWNER)
    leaves = np.flatnonzero(tree.kind != INNER)
    leaves = leaves[np.argsort(leaf_spans(tree)[0][leaves])]
    vectors = np.stack([_mean(world, tree, row) for row in leaves.tolist()])
    joined = np.array(cluster(vectors.astype(np.float64)))
    order = np.argsort(joined, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(joined[order])) + 1)
    texts, means = _say(world, tree, [leaves[group] for group in groups], [vectors[g] for g in groups])
    rows = asyncio.run(embedder.embed([*texts[1], texts[0]]))
    for at, mean in enumerate(means):
        if mean is not None:
            rows[at] = mean
    snapshot = SnapshotCache().get(world.tx)
    made = replace(
        world, snapshot=snapshot, shown={k: v for k, v in world.shown.items() if isinstance(k, tuple)}
    )
    forest = _forest(snapshot, tree, leaves, groups)
    put_forest(snapshot, EmbeddedForest(forest, VectorTable.of(rows.astype(NUMBER).astype(np.float32))))
    for number, text in enumerate([*texts[1], texts[0]]):
        below = leaves[groups[number]] if number < len(groups) else leaves
        made.shown[int(forest.ids[forest.inner[number]])] = _shown(
            made, tree, below, text, 1 + number // len(groups)
        )
    return made


def _mean(world: World, tree: Forest, row: int) -> NDArray[np.float32]:
    turns = np.arange(tree.item[row], tree.item_end[row])
    found: NDArray[np.float32] = world.snapshot.turns.vectors[turns].mean(axis=0)
    return found


def _turns(tree: Forest, leaves: Ints) -> Ints:
    return np.concatenate([np.arange(tree.item[row], tree.item_end[row]) for row in leaves.tolist()])


def _say(
    world: World, tree: Forest, groups: Sequence[Ints], vectors: Sequence[NDArray[np.float32]]
) -> tuple[tuple[str, list[str]], list[NDArray[np.float32] | None]]:
    """Return what the root and the clusters say, and the vector of each cluster whose text is made of its leaves' unchanged."""
    summariser = LocalSummariser()

    def summary(inputs: Sequence[str], below: Ints, level: int, *, root: bool) -> str:
        said = world.snapshot.turns.said_ms[_turns(tree, below)]
        return summariser.summarise_one(
            SummaryRequest(
                kind=KIND,
                label=LABEL,
                start=from_ms(int(said.min())),
                end=from_ms(int(said.max()) + 1),
                inputs=tuple(inputs),
                level=level,
                root=root,
            )
        )

    texts: list[str] = []
    means: list[NDArray[np.float32] | None] = []
    for group, rows in zip(groups, vectors, strict=True):
        inputs = [
            "\n".join(world.lines[turn] for turn in _turns(tree, np.array([row])).tolist()) for row in group
        ]
        texts.append(inputs[0] if len(inputs) == 1 else summary(inputs, group, 1, root=False))
        mean = rows.mean(axis=0)
        kept = len(inputs) == 1 or isinstance(texts[-1], Kept)
        means.append(mean / max(float(np.linalg.norm(mean)), 1e-12) if kept else None)
    return (summary(texts, np.concatenate(groups), 2, root=True), texts), means


def _forest(snapshot: Snapshot, tree: Forest, leaves: Ints, groups: Sequence[Ints]) -> Forest:
    """Return the forest of clusters: the leaves in their order, the clusters as they began, the root."""
    count, clusters = len(leaves), len(groups)
    parent, place = np.full(count + clusters + 1, -1), np.zeros(count + clusters + 1, dtype=np.int64)
    for number, group in enumerate(groups):
        parent[group], place[group] = count + number, np.arange(len(group))
    parent[count : count + clusters], place[count : count + clusters] = count + clusters, np.arange(clusters)
    inner = np.arange(count, count + clusters + 1)
    nothing = np.full(len(inner), -1, dtype=np.int64)
    first = np.array([*(int(group.min()) for group in groups), 0])
    none = np.full(len(inner), None, dtype=np.object_)
    empty = np.full(len(inner), -1, dtype=np.int64)
    return Forest(
        owner=OWNER,
        ids=1_000_000_000 + np.arange(len(parent)),
        tree=np.zeros(len(parent), dtype=np.int64),
        level=np.r_[np.zeros(count), np.ones(clusters), 2].astype(np.int64),
        parent=parent,
        place=place,
        kind=np.r_[tree.kind[leaves], np.full(len(inner), INNER)].astype(np.int8),
        item=np.r_[tree.item[leaves], empty],
        item_end=np.r_[tree.item_end[leaves], empty],
        inner=inner,
        stored=Inner(nothing, nothing, first, nothing, none),
        tree_ids=np.array([1]),
        tree_kind=(KIND,),
        tree_scope=np.array([0]),
        tree_root=np.array([len(parent) - 1]),
        turns=snapshot.turns,
        facts=snapshot.facts,
    )


def _shown(world: World, tree: Forest, leaves: Ints, text: str, level: int) -> Shown:
    """Return what is shown of a cluster."""
    turns = np.sort(_turns(tree, leaves))
    said = world.snapshot.turns.said_ms[turns]
    about = [f"level {level}"]
    line = render_summary(1, from_ms(int(said.min())), from_ms(int(said.max()) + 1), about, len(turns), text)
    below = [world.turn_ids[turn] for turn in turns.tolist()]
    return world.summed(text, line, below[:SOURCE_TURNS], below, level)
