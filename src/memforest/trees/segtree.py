"""The segtree index: a segment tree over all exchanges of a memory, and relevance that flows along it.

Nodes are ranked as a whole: a leaf stands for its turns, which are the evidence, and an inner node for its summary.
What is not in the tree yet counts by itself. Of one score, leaves come by time, and the turns of one leaf by their own
relevance. Source: SegTreeMem (arXiv 2606.04555) §4.3, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.records import SummaryRequest
from memforest.search.cache import embedded_forest, forest_of
from memforest.search.context_scores import Base, cosine_relevance, fused, fused_relevance, read_base
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
from memforest.search.forest import INNER, TURNS, Digests, Forest, as_keys, mixed
from memforest.search.scores import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.store import artifacts, meta
from memforest.store.artifacts import Artifact
from memforest.store.connections import Tx
from memforest.times import from_ms
from memforest.trees.index import Host, Index, leaf_of_turn
from memforest.trees.kernel import Growth, problems
from memforest.trees.refresh import IndexPlan, NodeWork
from memforest.trees.segtree_grow import (
    KIND,
    MOST_TURNS,
    OWNER,
    Fold,
    Kept,
    Node,
    SegTreeSettings,
    Vector,
    exchanges_of,
    folded,
    forest_of_fold,
    least_likeness,
    nearest,
    needed,
)
from memforest.trees.texts import hashed, inner_digest

Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]

FEW = 8
"""Leaves that a node may have in any case: of a short conversation the stated share is less than a leaf."""
ALPHA = 0.10
"""What is propagated over k edges counts alpha to the power of k (paper §5.3)."""
HORIZON = 2
"""Most edges that relevance is propagated along (paper §5.3)."""
LABEL = "of all sessions"
"""Name of the scope of the only tree."""


class ByText:
    """Places leaves by what nodes say (paper, compatibility i): where they went before, up to the first that is not known.

    Args:
        asked: `hashed` of how the nodes of the tree are asked for.
        forest: the exchanges as leaves, without anything above them.
        leaves: their digests, shape (n, 2).
        placed: where leaves went, by the digest of tree and leaf.
    """

    def __init__(
        self, asked: tuple[int, int], forest: Forest, leaves: Digests, placed: Mapping[bytes, str]
    ) -> None:
        self._asked, self._forest, self.leaves, self._placed = asked, forest, leaves, placed
        self._known: dict[Node, tuple[Digests, int, int]] = {}
        self.keys = set[bytes]()
        """The digests of all places that were looked up."""
        self.next: tuple[bytes, Fold, Vector] | None = None
        """Of the first leaf without a place: the digest of its place, the tree before it, and its vector."""

    def __call__(self, fold: Fold, vector: Vector) -> int | Literal[False] | None:
        """Return the level that a leaf joins; False if nobody has placed it yet."""
        whole = self._digest(fold.ends[-1])[0] if fold.ends else np.zeros((1, 2), dtype=np.uint64)
        leaf = self.leaves[fold.count : fold.count + 1]
        pair = [mixed(whole[:, lane] ^ np.uint64(lane + 1), leaf[:, lane]) for lane in range(2)]
        [key] = as_keys(np.stack(pair, axis=1))
        self.keys.add(key)
        told = self._placed.get(key)
        if told is None:
            self.next = key, fold, vector
            return False
        return None if told == "root" else int(told)

    def key_of(self, node: Node) -> bytes:
        """Return the digest of what a node says."""
        return as_keys(self._digest(node)[0])[0]

    def _digest(self, node: Node) -> tuple[Digests, int, int]:
        """Return digest, start and end of a node."""
        if not node.kids:
            start, end = self._forest.start_ms[node.first], self._forest.end_ms[node.first]
            return self.leaves[node.first : node.first + 1], int(start), int(end)
        if node not in self._known:
            told, starts, ends = zip(*map(self._digest, node.kids), strict=True)
            start, end = min(starts), max(ends)
            made = inner_digest(np.concatenate(told), self._asked, node.level, start, end)
            self._known[node] = made, start, end
        return self._known[node]


class SegTreeIndex(Index):
    """One segment tree of everything that was said, by exchanges in their order."""

    name = OWNER
    roots_differ = False
    Settings = SegTreeSettings

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the tree of a snapshot."""
        kept, _ = self._grown(tx, snapshot, old)
        return forest_of_fold(snapshot, kept, leaves_told=self.settings.leaf_vector == "text")

    def _grown(self, tx: Tx, snapshot: Snapshot, old: Forest | None = None) -> tuple[Kept, ByText | None]:
        """Return the tree, and what has placed its leaves by texts, if that is set and the memory has vectors."""
        settings, model = self.settings, meta.get(tx, "embedder")
        tau: float = settings.tau
        if tau is None:
            tau = 0.0 if model is None else least_likeness(model, settings.placer, settings.leaf_vector)
        by_text, texts = None, None
        if self.grows_by_artifacts and len(snapshot.turns.ids):
            found = exchanges_of(snapshot, settings, None)
            growth = Growth(OWNER, snapshot, [KIND], [0])
            growth.runs(np.zeros(len(found.first), dtype=np.int64), TURNS, found.first, found.end)
            forest = growth.forest()
            digests = super().digests(tx, snapshot, forest)
            if settings.leaf_vector == "text":
                stored = artifacts.vectors(tx, set(keys := as_keys(digests)))
                if all(key in stored for key in keys):
                    texts = np.array([stored[key] for key in keys])
            if settings.placer == "cosine" and snapshot.dimension:
                asked = hashed(self.name, *self.asked(), KIND, LABEL)
                places = artifacts.texts(tx, artifacts.known(tx, ["place"]))
                by_text, old = ByText(asked, forest, digests, places), None
        return folded(snapshot, settings, old, tau, by_text, texts), by_text

    def asks_for(self, tx: Tx, snapshot: Snapshot) -> set[bytes]:
        """Return the digests of summaries, and of where leaves were placed."""
        _, by_text = self._grown(tx, snapshot) if self.settings.placer == "cosine" else (None, None)
        placed = set() if by_text is None else by_text.keys.union(as_keys(by_text.leaves))
        return super().asks_for(tx, snapshot) | placed

    async def ready(self, host: Host) -> Sequence[str]:
        """Have made what the tree is grown by: vectors of leaves' texts, and where leaves go by what nodes say, one by one."""
        late: list[str] = []
        if self.settings.leaf_vector == "text":
            late += await host.ensure_fresh(self, lambda tx, snapshot, forest: forest.summarised.tolist())
        while self.settings.placer == "cosine" and not late:
            kept, by_text = await host.read(self._grown)
            if by_text is None or by_text.next is None:
                break
            key, fold, vector = by_text.next
            late += await host.ensure_fresh(self)
            open_ = fold.choices()
            wanted = {node: by_text.key_of(node) for node, _ in open_ if node.kids}
            told = await host.read(partial(self._vectors, wanted=set(wanted.values())))
            if len(told) < len(set(wanted.values())):
                return late or ["what a stretch says could not be made, and leaves wait for their place"]
            compared = [told[wanted[node]] if node.kids else node.total for node, _ in open_]
            best = nearest(vector, compared, needed(kept.tau, fold.height, self.settings.fall))
            level = "root" if best is None else str(open_[best][1])
            await host.write(partial(artifacts.put, step="place", made=[Artifact(key, OWNER, level)]))
        return late

    def _vectors(
        self, tx: Tx, snapshot: Snapshot, wanted: Collection[bytes]
    ) -> dict[bytes, NDArray[np.float32]]:
        """Return the vectors of what nodes say, by digest; of one that keeps its children's texts it is the mean of theirs."""
        found = artifacts.vectors(tx, wanted)
        if len(found) < len(wanted):
            trees = embedded_forest(tx, snapshot, self)
            keys = as_keys(trees.digests)
            rows = [at for at, key in enumerate(keys) if key in wanted and key not in found]
            made = trees.vectors[np.array(rows, dtype=np.int64)]
            found |= {keys[at]: one for at, one in zip(rows, made, strict=True) if one.any()}
        return found

    def asked(self) -> tuple[object, ...]:
        """Return whether every node's text is made anew."""
        return (self.settings.summarise,)

    @property
    def grows_by_artifacts(self) -> bool:
        """Whether leaves are placed by what was made of them."""
        return bool(self.settings.placer == "cosine" or self.settings.leaf_vector == "text")

    def names(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return what the tree is of."""
        return [LABEL] * len(forest.tree_kind)

    def requests(self, tx: Tx, plan: IndexPlan, rows: Sequence[int], *, remote: bool) -> list[NodeWork]:
        """Return the summary requests of stretches, made of the texts below them, in order; a leaf keeps its own text."""
        compared = "cosine" in (self.settings.scorer, self.settings.placer)
        made, forest = [], plan.forest
        for row in rows:
            leaf = forest.level[row] == 0
            request = SummaryRequest(
                kind=KIND,
                label=LABEL,
                start=from_ms(int(forest.start_ms[row])),
                end=from_ms(int(forest.end_ms[row])),
                inputs=plan.inputs(row),
                level=int(forest.level[row]),
                summarise=self.settings.summarise,
            )
            # A summary that is compared with nothing needs no vector.
            made.append(NodeWork(row, request, vector=bool(leaf or compared), kept=bool(leaf)))
        return made

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn and node, best first (Algorithm 2)."""
        if not len(snapshot.turns.ids):
            return IndexResult(())
        settings, forest = self.settings, forest_of(tx, snapshot, self)
        base = read_base(tx, snapshot, request)
        legs = fused(snapshot, request, base).total
        of_nodes, of_turns, scorer, warnings = self._relevance(tx, snapshot, request, base, legs)
        # The shares of relevance are propagated and multiplied by the sum of all relevance again, so that scores of
        # different questions are alike; the order is that of the shares.
        shares, whole = relevance_shares(of_nodes), float(of_nodes.sum())
        left = 1.0 if settings.propagate == "none" else 1.0 / decay_sum(ALPHA, HORIZON)
        node = propagate(shares, forest.parent, settings.propagate, decay=ALPHA, horizon=HORIZON) * whole
        node_own = shares * whole * left
        admitted, leaf_of = self._admitted(forest), leaf_of_turn(forest)
        placed = np.flatnonzero(leaf_of >= 0)
        turn, turn_own = of_turns * left, of_turns * left  # what is not in the tree counts by itself
        turn[placed], turn_own[placed] = node[leaf_of[placed]], node_own[leaf_of[placed]]
        places = turn_places(snapshot)
        # Of one score leaves come by time, and the turns of one leaf by their own relevance.
        begins = places.copy()
        begins[placed] = places[forest.item[leaf_of[placed]]]
        keys = [places, -np.round(legs, 9), begins]
        keep = allowed(snapshot, request)
        speaks = best_facts(snapshot, keep, base.fact, base.fact_lexical)
        if settings.expand:
            # Of the turns of one node those of its best leaf come first. A turn has its own relevance and what came to its
            # leaf, or the score of a stretch above it if that is more: what was said beside it would come with it each time.
            keys.append(-np.round(turn, 9))
            turn, turn_own = of_turns * left + turn - turn_own, of_turns * left
            stretch = _best_above(forest, np.where(admitted, node, 0.0))
            turn[placed] = np.maximum(turn[placed], stretch[leaf_of[placed]])
        else:
            speaks = np.full_like(speaks, -1)  # a leaf is what was said in it
        order = np.lexsort(keys)
        ties = np.empty(len(order), dtype=np.int64)
        ties[order] = np.arange(len(order))
        if waits := forest.kept.waiting:
            warnings = (
                *warnings,
                f"{waits} exchange(s) wait for their place in the tree, and count by themselves",
            )
        trace = {"scorer": scorer, "policy": settings.propagate, "alpha": ALPHA, "horizon": HORIZON}
        hits = (
            TurnHit(row, int(speaks[row]), float(turn[row]), _parts(turn, turn_own, row), int(leaf_of[row]))
            for row in best_first(turn, ties, keep.turns)
        )
        nodes = () if settings.expand else _nodes(forest, node, node_own, admitted)
        notes = {"filters": filter_notes(keep), "propagation": trace}
        return IndexResult(hits, notes=notes, nodes=nodes, warnings=warnings, forest=forest)

    def _relevance(
        self, tx: Tx, snapshot: Snapshot, request: Search, base: Base, legs: Scores
    ) -> tuple[Scores, Scores, str, tuple[str, ...]]:
        """Return how relevant nodes and turns are by themselves, at least 0 and on one scale, by what, and warnings."""
        warnings: tuple[str, ...] = ()
        if self.settings.scorer == "cosine":
            if request.vector is not None and snapshot.dimension > 0:
                trees = embedded_forest(tx, snapshot, self)
                relevance = cosine_relevance(trees, request.vector, base.turn, base.fact)
                # Leaves with a text of their own are compared by its vector, and not by those of their turns.
                leaves = trees.forest.summarised
                own = trees.cosines_at(leaves, request.vector)
                relevance[leaves[own != 0]] = np.maximum(own[own != 0], 0.0)
                return relevance, np.maximum(base.turn, 0.0), "cosine", ()
            warnings = ("scorer='cosine' needs vectors, and there are none; ranked by words",)
        relevance = fused_relevance(forest_of(tx, snapshot, self), legs)
        return relevance, np.maximum(legs, 0.0), "fused", warnings

    def _admitted(self, forest: Forest) -> Flags:
        """Return which nodes may be evidence, shape (N,)."""
        leaves, share = int(forest.counts.max(initial=1)), {"all": 1.0, "leaves": 0.0}
        least = min(1.0, max(self.settings.share_max, FEW / leaves))
        return bounded(forest.counts, leaves, share.get(self.settings.admissible, least))

    async def prepare(self, host: Host, request: Search) -> Prepared:
        """Have the summaries made that the ranking reads or shows."""
        late = list(await self.ready(host)) if self.grows_by_artifacts else []
        prepared = await super().prepare(host, request)
        if not self.settings.expand:
            prepared = replace(prepared, request=replace(request, leaf_turns=MOST_TURNS))
        shown = self.settings.admissible != "leaves" and not self.settings.expand
        if shown or self.settings.scorer == "cosine":
            late += await host.ensure_fresh(self, self._shown)
        return replace(prepared, warnings=(*late, *prepared.warnings)) if late else prepared

    def _shown(self, tx: Tx, snapshot: Snapshot, forest: Forest) -> Collection[int]:
        """Return the nodes whose summaries the ranking reads, or may show."""
        told = forest.told
        if self.settings.scorer != "cosine":
            told = told[self._admitted(forest)[told]]
        return list(told.tolist())

    def check(self, forest: Forest) -> list[str]:
        """Return what is wrong with the tree."""
        return problems(forest, contained=True)

    def stats(self, tx: Tx, snapshot: Snapshot) -> dict[str, Any]:
        """Return the shape of the tree as the paper's Table 5 has it, exchanges that wait, and who has placed the others."""
        forest = forest_of(tx, snapshot, self)
        kept: Kept = forest.kept
        return {
            **shape_of(forest),
            "waiting": kept.waiting,
            "placed_by": {kept.placer: kept.fold.count} if kept.fold.count else {},
        }

    def notes(self, tx: Tx) -> list[str]:
        """Return why a tree is not one of likeness."""
        if meta.get(tx, "embedder") is None:
            return [
                "the tree of 'segtree' is of fixed runs, as this memory has no embedder; rebuild(embedder=True) makes "
                "one by likeness"
            ]
        return []


def _best_above(forest: Forest, scores: Scores) -> Scores:
    """Return the best score of an inner node at or above each node, at least 0."""
    best = np.where(forest.kind == INNER, scores, 0.0)
    for level in np.unique(forest.level)[::-1][1:]:
        at = np.flatnonzero((forest.level == level) & (forest.parent >= 0))
        best[at] = np.maximum(best[at], best[forest.parent[at]])
    return best


def _nodes(forest: Forest, scores: Scores, own: Scores, admitted: Flags) -> Iterator[NodeHit]:
    """Yield the inner nodes that may be evidence, best first; of equal ones the earlier, then the lower."""
    rows = forest.inner[admitted[forest.inner] & (scores[forest.inner] > 0)]
    rows = rows[np.lexsort((forest.level[rows], forest.first[rows]))]
    for at in best_first(scores[rows], np.arange(len(rows)), np.ones(len(rows), dtype=np.bool_)):
        row = int(rows[at])
        yield NodeHit(row, float(scores[row]), _parts(scores, own, row))


def _parts(scores: Scores, own: Scores, row: int) -> dict[str, float]:
    """Return the parts of a score: what own relevance counts, and what came along edges."""
    return {"relevance": float(own[row]), "propagated": float(scores[row] - own[row])}


def shape_of(forest: Forest) -> dict[str, Any]:
    """Return the counts of a tree: nodes, leaves, height, depth of the leaves (maximum, mean, deviation) and branching."""
    depth = np.zeros(len(forest), dtype=np.int64)
    for level in np.unique(forest.level)[::-1].tolist():
        rows = np.flatnonzero((forest.level == level) & (forest.parent >= 0))
        depth[rows] = depth[forest.parent[rows]] + 1
    depths = depth[forest.kind != INNER]
    leaves, inner = len(depths), len(forest.inner)
    return {
        "nodes": len(forest),
        "leaves": leaves,
        "height": int(forest.level.max(initial=0)),
        "depth_max": int(depths.max(initial=0)),
        "depth_mean": round(float(depths.mean()), 3) if leaves else 0.0,
        "depth_std": round(float(depths.std()), 3) if leaves else 0.0,
        "branching": round((inner + leaves - 1) / inner, 3) if inner else 0.0,
    }
