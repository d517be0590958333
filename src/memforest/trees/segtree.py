"""The segtree index: a segment tree over all exchanges of a memory, and relevance that flows along it.

Nodes are ranked as a whole: a leaf stands for its turns, which are the evidence, and an inner node for its summary.
What is not in the tree yet counts by itself. Of one score, leaves come by time, and the turns of one leaf by their own
relevance. Source: SegTreeMem (arXiv 2606.04555) §4.3, Algorithm 2.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from memforest.records import SummaryRequest
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
from memforest.search.forest import INNER, TURNS, Digests, Forest, as_keys, mixed, once_per_forest
from memforest.search.scores import Scores, best_first
from memforest.search.snapshot import Snapshot
from memforest.store import artifacts, meta
from memforest.store.artifacts import Artifact
from memforest.store.connections import Tx
from memforest.times import from_ms
from memforest.trees.index import Host, Index, leaf_of_turn
from memforest.trees.kernel import Growth, problems
from memforest.trees.refresh import NodeWork
from memforest.trees.segtree_grow import (
    KIND,
    MOST_TURNS,
    OWNER,
    Fold,
    Kept,
    Kid,
    SegmentNode,
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


def hear(tx: Tx, snapshot: Snapshot, request: Search, index: SegTreeIndex) -> Heard:
    """Return how relevant the nodes and turns of a memory that is not empty are; of the settings, `scorer` counts."""
    base, settings = read_base(tx, snapshot, request), index.settings
    legs = fused(snapshot, request, base)
    if settings.scorer == "cosine" and request.vector is not None and snapshot.dimension > 0:
        trees = embedded_forest(tx, snapshot, index)
        relevance = cosine_relevance(trees, request.vector, base.turn, base.fact)
        leaves = (
            trees.forest.summarised
        )  # compared by the vectors of their texts, and not by those of their turns
        if len(leaves):
            own = trees.cosines_at(leaves, request.vector)
            relevance[leaves[own != 0]] = np.maximum(own[own != 0], 0.0)
        return Heard(base, legs, "cosine", relevance, np.maximum(base.turn, 0.0))
    warnings: tuple[str, ...] = ()
    if settings.scorer == "cosine":
        warnings = ("scorer='cosine' needs vectors, and there are none; ranked by words",)
    relevance = fused_relevance(forest_of(tx, snapshot, index), legs.total)
    return Heard(base, legs, "fused", relevance, np.maximum(legs.total, 0.0), warnings)


def rank(tx: Tx, snapshot: Snapshot, request: Search, index: SegTreeIndex, heard: Heard) -> IndexResult:
    """Return every candidate turn and node by what was heard of a question, best first.

    Args:
        tx: a read transaction of the snapshot's state.
        snapshot: of the memory, which is not empty.
        request: the question.
        index: whose tree is searched.
        heard: of the question, by `hear`.
    """
    settings, forest = index.settings, forest_of(tx, snapshot, index)
    policy = settings.propagate
    # The shares of relevance are propagated and multiplied by the sum of all relevance again, so that scores of
    # different questions are alike; the order is that of the shares.
    shares, whole = relevance_shares(heard.node), float(np.maximum(heard.node, 0.0).sum())
    total = propagate(shares, forest.parent, policy, decay=ALPHA, horizon=HORIZON) * whole
    kept = shares * whole * (1.0 if policy == "none" else 1.0 / decay_sum(ALPHA, HORIZON))
    node = _Scores(total, {"relevance": kept, "propagated": total - kept})
    counts = forest.counts
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
    waits = waiting(forest)
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
        forest=forest,
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
    ties = np.empty(len(rows), dtype=np.int64)
    ties[np.lexsort((forest.level[rows], forest.first[rows]))] = np.arange(len(rows))
    for at in best_first(node.total[rows], ties, np.ones(len(rows), dtype=np.bool_)):
        row = int(rows[at])
        yield NodeHit(row, float(node.total[row]), node.at(row))


def _expanded(forest: Forest, leaf_of: Ints, stretch: Scores, turn: _Scores, alone: Scores) -> _Scores:
    """Let every turn have its own relevance and what came to its leaf, or the score of a stretch above it if that is more.

    Of a leaf as a whole only the best turn is relevant: what was said beside it would come with it each time.
    """
    best = np.zeros(len(forest))
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


LABEL = "of all sessions"
"""Name of the scope of the only tree."""

_Step = tuple[bytes, Vector, list[tuple[bytes, int, Vector | None]], float]
"""The digest of a place, the leaf's vector, what it may join (digest, level, and the vector if it is a leaf), and how like
that it must be."""


def waiting(forest: Forest) -> int:
    """Return how many exchanges have no place in the tree yet."""
    return int(len(forest.kept.exchanges.first) - forest.kept.fold.count)


@dataclass(slots=True, eq=False)
class ByText:
    """Places leaves by what nodes say: reads where they went before, and notes what the first that is not known needs.

    Args:
        index: whose tree.
        leaves: digests of the exchanges as leaves, shape (n, 2).
        times: start and end of each, UTC ms.
        placed: where leaves went, by the digest of tree and leaf.
    """

    index: SegTreeIndex
    leaves: Digests
    times: tuple[Ints, Ints]
    placed: Mapping[bytes, str]
    next: tuple[bytes, int, list[tuple[bytes, int, Vector | None]]] | None = None
    """Of the first leaf without a place: the digest of its place, its number, and what it may join, as `_Step` has it."""
    asked: set[bytes] = field(default_factory=set)
    """The digests of all places that were looked up."""
    _known: dict[int, tuple[Digests, int, int]] = field(default_factory=dict)
    _alive: list[SegmentNode] = field(default_factory=list)

    def __call__(self, fold: Fold, leaf: int) -> int | Literal[False] | None:
        """Return the level that a leaf joins; False if nobody has placed it yet."""
        frontier = {id(node): self._digest(node, fresh=True)[0] for node in fold.ends}
        whole = frontier[id(fold.ends[-1])] if fold.ends else np.zeros((1, 2), dtype=np.uint64)
        key = as_keys(mixed_pair(whole, self.leaves[leaf : leaf + 1]))[0]
        self.asked.add(key)
        told = self.placed.get(key)
        if told is None:
            open_ = fold.choices()
            own = {id(node): fold.vector(node) for node, _ in open_ if isinstance(node, int)}
            keyed = [(as_keys(frontier[id(node)])[0], level, own.get(id(node))) for node, level in open_]
            self.next = key, leaf, keyed
            return False
        return None if told == "root" else int(told)

    def _digest(self, node: Kid, *, fresh: bool = False) -> tuple[Digests, int, int]:
        """Return digest, start and end of a node; of the frontier anew, as it grows."""
        if isinstance(node, int):
            return self.leaves[node : node + 1], int(self.times[0][node]), int(self.times[1][node])
        if fresh or id(node) not in self._known:
            last = node.kids[-1]
            kids = [*(self._digest(kid) for kid in node.kids[:-1]), self._digest(last, fresh=fresh)]
            start, end = min(kid[1] for kid in kids), max(kid[2] for kid in kids)
            made = inner_digest(
                np.concatenate([kid[0] for kid in kids]), self.index.asked_hash, node.level, start, end
            )
            self._known[id(node)] = made, start, end
            self._alive.append(node)  # so that its id is nobody else's
        return self._known[id(node)]


def mixed_pair(one: Digests, other: Digests) -> Digests:
    """Return digests of pairs."""
    return np.stack([mixed(one[:, lane] ^ np.uint64(lane + 1), other[:, lane]) for lane in range(2)], axis=1)


class SegTreeIndex(Index):
    """One segment tree of everything that was said, by exchanges in their order."""

    name = OWNER
    roots_differ = False
    Settings = SegTreeSettings

    @property
    def asked_hash(self) -> tuple[int, int]:
        """How the nodes of the tree are asked for; see `memforest.trees.texts.inner_digest`."""
        return hashed(self.name, *self.asked(), KIND, LABEL)

    def grow(self, tx: Tx, snapshot: Snapshot, old: Forest | None) -> Forest:
        """Return the tree of a snapshot."""
        return self._grown(tx, snapshot, old, self._by_text(tx, snapshot))

    def _grown(self, tx: Tx, snapshot: Snapshot, old: Forest | None, by_text: ByText | None) -> Forest:
        model = meta.get(tx, "embedder")
        tau = self.settings.tau
        if tau is None:
            tau = (
                0.0
                if model is None
                else least_likeness(model, self.settings.placer, self.settings.leaf_vector)
            )
        texts = self._text_vectors(tx, snapshot) if self.settings.leaf_vector == "text" else None
        kept = folded(snapshot, self.settings, None if by_text else old, tau, by_text, texts)
        return forest_of_fold(snapshot, kept, leaves_told=self.settings.leaf_vector == "text")

    def _leaves(self, tx: Tx, snapshot: Snapshot) -> tuple[Forest, Digests]:
        """Return the exchanges as leaves without anything above them, and their digests."""
        found = exchanges_of(snapshot, self.settings, None)
        growth = Growth(OWNER, snapshot, [KIND], [0])
        growth.runs(np.zeros(len(found.first), dtype=np.int64), TURNS, found.first, found.end)
        forest = growth.forest()
        return forest, Index.digests(self, tx, snapshot, forest)

    def _text_vectors(self, tx: Tx, snapshot: Snapshot) -> NDArray[np.float32] | None:
        """Return the vectors of the texts of exchanges, in their order; None as long as one is missing."""
        _, digests = self._leaves(tx, snapshot)
        found = artifacts.vectors(tx, set(keys := as_keys(digests)))
        return np.array([found[key] for key in keys]) if keys and len(found) == len(set(keys)) else None

    def _by_text(self, tx: Tx, snapshot: Snapshot) -> ByText | None:
        """Return what places leaves by what nodes say, if that is set and the memory has vectors."""
        if not self.settings.reads_texts or not snapshot.dimension or not len(snapshot.turns.ids):
            return None
        forest, digests = self._leaves(tx, snapshot)
        return ByText(self, digests, (forest.start_ms, forest.end_ms), artifacts.placements(tx))

    def asks_for(self, tx: Tx, snapshot: Snapshot) -> set[bytes]:
        """Return the digests of summaries, and of where leaves were placed."""
        found = super().asks_for(tx, snapshot)
        if self.settings.leaf_vector == "text" and len(snapshot.turns.ids):
            found |= set(as_keys(self._leaves(tx, snapshot)[1]))
        by_text = self._by_text(tx, snapshot)
        if by_text is not None:
            self._grown(tx, snapshot, None, by_text)
            found |= by_text.asked
        return found

    async def ready(self, host: Host) -> Sequence[str]:
        """Have made what the tree is grown by: vectors of leaves' texts, and where leaves go by what nodes say, one by one."""
        late: list[str] = []
        if self.settings.leaf_vector == "text":
            late += await host.ensure_fresh(self, lambda tx, snapshot, forest: forest.summarised.tolist())
        while self.settings.reads_texts and not late:
            step = await host.read(self._look)
            if step is None:
                break
            key, vector, open_, least = step
            late += await host.ensure_fresh(self)
            wanted = {one for one, _, own in open_ if own is None}
            told = await host.read(partial(self._vectors, wanted=wanted))
            if len(told) < len(wanted):
                return late or ["what a stretch says could not be made, and leaves wait for their place"]
            compared = [told[one].astype(np.float64) if own is None else own for one, _, own in open_]
            best = nearest(vector, compared, least)
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
            rows = np.array(
                [at for at, key in enumerate(keys) if key in wanted and key not in found], dtype=np.int64
            )
            found |= {
                keys[at]: one for at, one in zip(rows.tolist(), trees.vectors[rows], strict=True) if one.any()
            }
        return found

    def _look(self, tx: Tx, snapshot: Snapshot) -> _Step | None:
        """Return the first leaf without a place, and what it may join; None if there is none."""
        by_text = self._by_text(tx, snapshot)
        if by_text is None:
            return None
        fold = self._grown(tx, snapshot, None, by_text).kept.fold
        if by_text.next is None:
            return None
        key, leaf, open_ = by_text.next
        vector, tau = fold.vector(leaf), fold.settings.tau
        if vector is None:
            return None
        if tau is None:
            tau = least_likeness(meta.get(tx, "embedder") or "", "cosine", self.settings.leaf_vector)
        return key, vector, open_, needed(tau, fold.height, self.settings.fall)

    def asked(self) -> tuple[object, ...]:
        """Return whether every node's text is made anew."""
        return (self.settings.summarise,)

    @property
    def grows_by_artifacts(self) -> bool:
        """Whether leaves are placed by what was made of them."""
        return bool(self.settings.reads_texts or self.settings.leaf_vector == "text")

    def names(self, snapshot: Snapshot, forest: Forest) -> list[str]:
        """Return what the tree is of."""
        return [LABEL] * len(forest.tree_kind)

    def requests(
        self,
        tx: Tx,
        snapshot: Snapshot,
        forest: Forest,
        rows: Sequence[int],
        inputs: Mapping[int, tuple[str, ...]],
        texts: Mapping[int, str],
        *,
        remote: bool,
    ) -> list[NodeWork]:
        """Return the summary requests of stretches, made of the texts below them, in order; a leaf keeps its own text."""
        compared = "cosine" in (self.settings.scorer, self.settings.placer)
        made = []
        for row in rows:
            leaf = forest.level[row] == 0
            request = SummaryRequest(
                kind=KIND,
                label=LABEL,
                start=from_ms(int(forest.start_ms[row])),
                end=from_ms(int(forest.end_ms[row])),
                inputs=inputs[row],
                level=int(forest.level[row]),
                summarise=self.settings.summarise,
            )
            # A summary that is compared with nothing needs no vector.
            made.append(NodeWork(row, request, vector=bool(leaf or compared), kept=bool(leaf)))
        return made

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every candidate turn and node, best first."""
        if not len(snapshot.turns.ids):
            return IndexResult(())
        return rank(tx, snapshot, request, self, hear(tx, snapshot, request, self))

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
        if self.settings.scorer == "cosine":
            return list(forest.told.tolist())
        leaves = int(forest.counts.max(initial=0))
        return list(
            forest.told[forest.counts[forest.told] <= share_of(self.settings, leaves) * leaves].tolist()
        )

    def check(self, forest: Forest) -> list[str]:
        """Return what is wrong with the tree."""
        return problems(forest, contained=True)

    def stats(self, tx: Tx, snapshot: Snapshot) -> dict[str, Any]:
        """Return the shape of the tree as the paper's Table 5 has it, exchanges that wait, and who has placed the others."""
        forest = forest_of(tx, snapshot, self)
        kept: Kept = forest.kept
        return {
            **shape_of(forest),
            "waiting": waiting(forest),
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
