"""The segtree index: a segment tree over all exchanges of a memory, and relevance that flows along it.

Nodes are ranked as a whole: a leaf stands for its turns, which are the evidence, and an inner node for its summary.
What is not in the tree yet counts by itself. Of one score, leaves come by time, and the turns of one leaf by their own
relevance. Source: SegTreeMem (arXiv 2606.04555) §4.3, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.nodes import Node
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.context_scores import (
    Base,
    LeafScores,
    cosine_relevance,
    fused,
    fused_relevance,
    read_base,
)
from memforest.search.filters import (
    IndexResult,
    NodeHit,
    Prepared,
    Search,
    TurnHit,
    allowed,
    best_facts,
    filter_notes,
    turn_places,
)
from memforest.search.flow import bounded, decay_sum, propagate, relevance_shares
from memforest.search.forest import INNER, Forest, once_per_forest
from memforest.search.scores import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.store import indexes, meta, trees
from memforest.store.connections import Tx
from memforest.store.indexes import Kind
from memforest.store.trees import SqliteArena
from memforest.trees import segtree_rows
from memforest.trees.index import Host, Index, IndexProblem, leaf_counts, leaf_of_turn
from memforest.trees.node import Contract, walk
from memforest.trees.refresh import NodeWork
from memforest.trees.segtree_grow import KIND, OWNER, SegTree, shape_of
from memforest.trees.segtree_place import LABEL, TAU, SegTreePlacing, advance, request_of
from memforest.trees.segtree_rows import SegTreeSettings, least_likeness


def _of_exchanges(tx: Tx) -> Iterator[str]:
    row = indexes.find(tx, OWNER)
    if row is None or row.cursor < indexes.feed_position(tx):
        return  # turns have come or gone, and it has not been told yet
    yield from _named(segtree_rows.stale(tx), "exchange(s) are of turns that are not stored as they say")
    yield from _named(segtree_rows.overlapping(tx), "exchange(s) hold turns of the one in front of them")
    yield from _named(segtree_rows.uncovered(tx), "turn(s) are in no exchange", "row")
    yield from _named(segtree_rows.unplaced(tx), "exchange(s) are said to be in the tree and have no leaf")


def _named(found: Collection[int], what: str, number: str = "exchange") -> Iterator[str]:
    if found:
        yield f"{len(found)} {what}; the first of them is {number} {min(found)}"


def _of_leaves(tx: Tx, settings: SegTreeSettings) -> Iterator[str]:
    head = trees.find_head(tx, OWNER, KIND, 0)
    if head is None:
        return
    arena = SqliteArena(tx)
    try:
        nodes = list(walk(arena, head))
        wrong = []
        for node in nodes:
            kids = arena.get_many(node.children)
            hull = [(min(kid.start_ms for kid in kids), max(kid.end_ms for kid in kids))] if kids else []
            first = [kid.key for kid in kids[:1]]
            if node.level and ([node.key], [(node.start_ms, node.end_ms)], node.window) != (
                first,
                hull,
                None,
            ):
                wrong.append(node.id)
    except (KeyError, ValueError):
        return  # the tree is broken, and that is said
    if head.root is not None and arena.get(head.root).level != head.height:
        yield f"the tree's head has height {head.height}, which is not its root's level"
    yield from _named(wrong, "node(s) have another key or interval than their children, or a window", "node")
    stored = [(node.item, node.item_last or node.item) for node in nodes if not node.level]
    for at, (leaf, wanted) in enumerate(zip_longest(stored, segtree_rows.leaf_order(tx)), 1):
        if leaf != wanted:
            yield f"leaf {at} stands for turns {leaf}, and the exchanges have {wanted} there"
            return
    sums = SegTree(tx, settings).wrong_sums()
    yield from _named(sums, "node(s) have another sum than their leaves", "node")


def order_of_turns(forest: Forest, places: Ints, leaf_of: Ints, own: Scores) -> Ints:
    """Return the place of every turn among those of the same score, shape (n,).

    A leaf stands where its first turn stands in time; of its turns the most relevant one comes first, of equally relevant
    ones the earlier. A turn without a leaf counts as one.

    Args:
        forest: the tree.
        places: of every turn in time; each has its own.
        leaf_of: the row of every turn's leaf, -1 without one.
        own: the relevance of every turn by itself; equal to 9 decimals is equal.
    """
    place, pairs = _layout(forest, places, leaf_of)
    if not pairs:
        return place
    score, place = np.round(own, 9), place.copy()
    for first, second in pairs:
        beaten = score[second] > score[first]
        np.add.at(place, first[beaten], 1)
        np.add.at(place, second[beaten], -1)
    return place


@once_per_forest
def _layout(forest: Forest, places: Ints, leaf_of: Ints) -> tuple[Ints, Sequence[tuple[Ints, Ints]]]:
    """Return the places of turns if no leaf's turns were sorted, and all pairs of turns of one leaf: earlier and later ones."""
    first = places.copy()
    placed = np.flatnonzero(leaf_of >= 0)
    first[placed] = places[forest.item[leaf_of[placed]]]
    ordered = np.lexsort((places, first))
    place = np.empty(len(places), dtype=np.int64)
    place[ordered] = np.arange(len(ordered))
    leaf, pairs = leaf_of[ordered], list[tuple[Ints, Ints]]()
    for apart in range(1, len(ordered)):
        one = np.flatnonzero((leaf[apart:] == leaf[:-apart]) & (leaf[apart:] >= 0))
        if not len(one):
            break
        pairs.append((ordered[one], ordered[one + apart]))
    return place, pairs


Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FEW = 8
"""Leaves that a node may have in any case: of a short conversation the stated share is less than a leaf."""
ALPHA = 0.10
"""What is propagated over k edges counts alpha to the power of k (paper §5.3)."""
HORIZON = 2
"""Most edges that relevance is propagated along (paper §5.3)."""


def share_of(settings: SegTreeSettings, leaves: int) -> float:
    """Return the share of all leaves that a node of a tree may have to be evidence."""
    if settings.admissible == "all":
        return 1.0
    if settings.admissible == "leaves" or not leaves:
        return 0.0
    return min(1.0, max(settings.share_max, FEW / leaves))


@dataclass(frozen=True, slots=True, eq=False)
class _Scores:
    """Scores with their parts, which sum to them; shapes (N,) of nodes or (n,) of turns."""

    total: Scores
    parts: dict[str, Scores]
    """``"relevance"``: what own relevance counts; ``"propagated"``: what came along edges."""

    def at(self, row: int) -> dict[str, float]:
        """Return the parts of one row."""
        return {name: float(part[row]) for name, part in self.parts.items()}


@dataclass(frozen=True, slots=True, eq=False)
class Heard:
    """How relevant everything is to a question by itself, before relevance goes anywhere; see `hear`."""

    base: Base
    fused: LeafScores
    """Of every turn."""
    scorer: Literal["fused", "cosine"]
    node: Scores
    """Of every node of the tree, at least 0."""
    turn: Scores
    """Of every turn, at least 0, on the same scale."""
    warnings: tuple[str, ...] = ()


def hear(tx: Tx, snapshot: Snapshot, request: Search, settings: SegTreeSettings) -> Heard:
    """Return how relevant the nodes and turns of a memory that is not empty are; of the settings, `scorer` counts."""
    base = read_base(tx, snapshot, request)
    legs = fused(snapshot, request, base)
    if settings.scorer == "cosine" and request.vector is not None and snapshot.dimension > 0:
        trees = embedded_forest(tx, snapshot, OWNER)
        relevance = cosine_relevance(trees, request.vector, base.turn, base.fact)
        turns, vectors = segtree_rows.text_vectors(tx) if settings.leaf_vector == "text" else ((), ())
        if len(turns):
            # A leaf that was held as a whole is compared by the vector of its text, and not by those of its turns.
            forest = trees.forest
            leaves = np.setdiff1d(np.flatnonzero(forest.kind != INNER), forest.torn)
            wanted = snapshot.turns.ids[forest.item[leaves]]
            places = np.searchsorted(turns, wanted)
            places[places == len(turns)] = 0
            here = turns[places] == wanted
            relevance[leaves[here]] = np.maximum(vectors[places[here]] @ request.vector, 0.0)
        return Heard(base, legs, "cosine", relevance, np.maximum(base.turn, 0.0))
    warnings: tuple[str, ...] = ()
    if settings.scorer == "cosine":
        warnings = ("scorer='cosine' needs vectors, and there are none; ranked by words",)
    relevance = fused_relevance(forest_of(tx, snapshot, OWNER), legs.total)
    return Heard(base, legs, "fused", relevance, np.maximum(legs.total, 0.0), warnings)


def rank(tx: Tx, snapshot: Snapshot, request: Search, settings: SegTreeSettings, heard: Heard) -> IndexResult:
    """Return every candidate turn and node by what was heard of a question, best first.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, which is not empty.
        request: the question.
        settings: all that are read when a question is asked, but `scorer`.
        heard: of the question, by `hear`.
    """
    forest, policy = forest_of(tx, snapshot, OWNER), settings.propagate
    # The shares of relevance are propagated and multiplied by the sum of all relevance again, so that scores of
    # different questions are alike; the order is that of the shares.
    shares, whole = relevance_shares(heard.node), float(np.maximum(heard.node, 0.0).sum())
    total = propagate(shares, forest.parent, policy, decay=ALPHA, horizon=HORIZON) * whole
    kept = shares * whole * (1.0 if policy == "none" else 1.0 / decay_sum(ALPHA, HORIZON))
    node = _Scores(total, {"relevance": kept, "propagated": total - kept})
    counts = leaf_counts(forest)
    leaves = int(counts.max()) if len(counts) else 0
    admitted = bounded(counts, leaves, share_of(settings, leaves))
    leaf_of = leaf_of_turn(forest)
    alone = heard.turn if policy == "none" else heard.turn / decay_sum(ALPHA, HORIZON)
    turn = _of_turns(leaf_of, node, alone)
    keep, base = allowed(snapshot, request), heard.base
    places = order_of_turns(forest, turn_places(snapshot), leaf_of, heard.fused.total)
    if settings.expand:
        # Of the turns of one node those of its best leaf come first.
        by_leaf = np.lexsort((places, -np.round(turn.total, 9)))
        places = np.empty(len(places), dtype=np.int64)
        places[by_leaf] = np.arange(len(places))
        turn = _expanded(forest, leaf_of, np.where(admitted, node.total, 0.0), turn, alone)
    speaks = best_facts(snapshot, keep, base.fact, base.fact_lexical)
    if not settings.expand:
        speaks = np.full_like(speaks, -1)  # a leaf is what was said in it
    waits = segtree_rows.count(tx, segtree_rows.WAITING)
    late = (
        (f"{waits} exchange(s) wait for their place in the tree, and count by themselves",) if waits else ()
    )
    trace = {"scorer": heard.scorer, "policy": policy, "alpha": ALPHA, "horizon": HORIZON}
    return IndexResult(
        (
            TurnHit(row, int(speaks[row]), float(turn.total[row]), turn.at(row), int(leaf_of[row]))
            for row in best_first(turn.total, places, keep.turns)
        ),
        notes={"filters": filter_notes(keep), "propagation": trace},
        nodes=() if settings.expand else _nodes(forest, node, admitted),
        warnings=(*heard.warnings, *late),
    )


def _of_turns(leaf_of: Ints, node: _Scores, alone: Scores) -> _Scores:
    """Return the scores of turns: of the leaf of each, or what it has `alone`."""
    placed = np.flatnonzero(leaf_of >= 0)
    total, parts = alone.copy(), {name: np.zeros(len(alone)) for name in node.parts}
    parts["relevance"] = alone.copy()
    total[placed] = node.total[leaf_of[placed]]
    for name, part in node.parts.items():
        parts[name][placed] = part[leaf_of[placed]]
    return _Scores(total, parts)


def _nodes(forest: Forest, node: _Scores, admitted: Flags) -> Iterator[NodeHit]:
    """Yield the inner nodes that may be evidence, best first; of equal ones the earlier, then the lower."""
    rows = forest.inner[admitted[forest.inner] & (node.total[forest.inner] > 0)]
    places = np.searchsorted(forest.inner, rows)
    ties = np.empty(len(rows), dtype=np.int64)
    ties[np.lexsort((forest.level[rows], forest.stored.span_lo[places]))] = np.arange(len(rows))
    for at in best_first(node.total[rows], ties, np.ones(len(rows), dtype=np.bool_)):
        row = int(rows[at])
        yield NodeHit(int(forest.ids[row]), float(node.total[row]), node.at(row))


def _expanded(forest: Forest, leaf_of: Ints, stretch: Scores, turn: _Scores, alone: Scores) -> _Scores:
    """Let every turn have its own relevance and what came to its leaf, or the score of a stretch above it if that is more.

    Of a leaf as a whole only the best turn is relevant: what was said beside it would come with it each time.
    """
    best = np.zeros(len(forest.ids))
    best[forest.inner] = stretch[forest.inner]
    for level in np.unique(forest.level)[::-1][1:]:
        at = np.flatnonzero((forest.level == level) & (forest.parent >= 0))
        best[at] = np.maximum(best[at], best[forest.parent[at]])
    placed = np.flatnonzero(leaf_of >= 0)
    parts = {**turn.parts, "relevance": alone}
    total = np.sum(list(parts.values()), axis=0)
    total[placed] = np.maximum(total[placed], best[leaf_of[placed]])
    parts["propagated"] = parts["propagated"] + total - np.sum(list(parts.values()), axis=0)
    return _Scores(total, parts)


class SegTreeIndex(Index):
    """One segment tree of everything that was said, by exchanges in their order."""

    name = OWNER
    follows = frozenset[Kind]({"turn"})
    deferred = True
    make_tables = staticmethod(segtree_rows.make_tables)
    Settings = SegTreeSettings
    contracts: Mapping[str, Contract] = MappingProxyType({KIND: Contract("partition", unary=False)})
    carried: Mapping[str, str] | None = MappingProxyType(
        {
            "ix_segtree_exchange.session": "session",
            "ix_segtree_exchange.turn": "turn",
            "ix_segtree_exchange.turn_last": "turn",
        }
    )

    def placing(self, tx: Tx) -> SegTreePlacing:
        """Begin to take exchanges out inside a write transaction."""
        return SegTreePlacing(tx, self.settings)

    async def advance(self, host: Host, until: int) -> None:
        """Place what the feed has noted; see `memforest.trees.segtree_place`."""
        await advance(host, self.settings, until)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:
        """Return the summary requests of nodes."""
        return [request_of(node, inputs[node.id], self.settings) for node in nodes]

    def labels(self, tx: Tx, trees: Collection[int]) -> dict[int, str]:
        """Return what the tree is of."""
        return dict.fromkeys(trees, LABEL)

    def check(self, tx: Tx) -> list[IndexProblem]:
        """Return what is wrong with the tree, the exchanges, and the sums that leaves are compared with."""
        found = super().check(tx)
        placed = [IndexProblem("placement", message) for message in _of_exchanges(tx)]
        if found or placed:
            return found + placed
        return [IndexProblem("tree", message) for message in _of_leaves(tx, self.settings)]

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn and node, best first."""
        if not len(snapshot.turns.ids):
            return IndexResult(())
        return rank(tx, snapshot, request, self.settings, hear(tx, snapshot, request, self.settings))

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Have the summaries made that the ranking reads or shows."""
        prepared = await super().prepare(host, request)
        if not self.settings.expand:
            prepared = replace(prepared, request=replace(request, leaf_turns=segtree_rows.MOST_TURNS))
        shown = self.settings.admissible != "leaves" and not self.settings.expand
        if shown or self.settings.scorer == "cosine":
            late = await host.ensure_fresh(self._shown)
            prepared = replace(prepared, warnings=(*late, *prepared.warnings))
        return prepared

    def _shown(self, tx: Tx) -> Collection[int]:
        """Return the nodes that are out of date and whose summaries the ranking reads, or may show."""
        dirty = trees.dirty_children(tx, owner=OWNER)
        if self.settings.scorer == "cosine":
            return dirty
        found = trees.nodes_with_ids(tx, dirty)
        head = trees.find_head(tx, OWNER, KIND, 0)
        leaves = 0 if head is None else head.count
        most = share_of(self.settings, leaves) * leaves
        return [node.id for node in found.values() if node.count <= most]

    def stats(self, tx: Tx) -> dict[str, Any]:
        """Return the shape of the tree as the paper's Table 5 has it, exchanges that wait, and who has placed the others."""
        return {
            **shape_of(tx),
            "waiting": segtree_rows.count(tx, segtree_rows.WAITING),
            "placed_by": segtree_rows.makers(tx),
        }

    def outdated(self, tx: Tx) -> str | None:
        """Return that leaves were placed with another threshold than is measured for the embedder now, if they were."""
        begun, model = meta.get(tx, TAU), meta.get(tx, "embedder")
        if begun is None or model is None or self.settings.tau is not None or self.settings.reads_texts:
            return None
        now = least_likeness(model, "centroid", self.settings.leaf_vector)
        return None if float(begun) == now else f"its leaves were placed with tau {begun}, which is {now} now"

    def notes(self, tx: Tx) -> list[str]:
        """Return why exchanges wait."""
        found = []
        if waits := segtree_rows.count(tx, segtree_rows.WAITING):
            found.append(
                f"{waits} exchange(s) wait for their place in the tree of 'segtree'; resume() places them"
            )
        if segtree_rows.makers(tx).get("runs"):
            found.append(
                "the tree of 'segtree' is of fixed runs, as this memory has no embedder; rebuild(embedder=True) makes "
                "one by likeness"
            )
        return found
