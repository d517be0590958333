"""The tree of the segtree index inside one write transaction: leaves come to its right end, and what changed leaves it.

A node is compared with a new leaf by the exact sum of the vectors of the leaves below it
(`memforest.trees.segtree_rows.leaf_vectors` says why it is exact). So a tree that is cut back and grown again is the tree
that it would have been, to the last bit. The sums stand in a node's own state (`memforest.trees.segment.own_state`): of
nodes of the frontier exactly, in float64; of others as a unit vector of half precision, by which neighbours are compared
when the node above them is cut.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from memforest.nodes import Node, TreeHead
from memforest.store import trees
from memforest.store.connections import Tx
from memforest.store.derived import NUMBER, unpack_ids
from memforest.store.indexes import inner_rows
from memforest.store.trees import SqliteArena
from memforest.trees import segtree_rows
from memforest.trees.index import Placed
from memforest.trees.segment import (
    Grown,
    NewLeaf,
    beside,
    choices,
    cut,
    cut_at,
    frontier,
    insert,
    own_state,
    remove,
    truncate,
    with_own_state,
)
from memforest.trees.segtree_rows import ExchangeRow, SegTreeSettings

Vector = NDArray[np.float64]

DECIMALS = 9
"""Of likenesses that are compared, as of scores everywhere: sums of one set of numbers in another order count as equal."""


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of any length, rounded; 0 if one of them is zero."""
    length = float(np.sqrt((one * one).sum()) * np.sqrt((other * other).sum()))
    return float(round((one * other).sum() / length, DECIMALS)) if length else 0.0


def needed(tau: float, height: int, fall: float) -> float:
    """Return how like one of its choices a leaf must be: less with each level of the tree.

    The first root is the first stretch of talk, which ends where the topic turns; a root above roots stands for everything,
    and a leaf that is like none of it should be rare. With a constant threshold the tree is a flat one below the first turn
    that is missed, or a comb (`scripts/calibrate_segments.py`).

    Args:
        tau: what a leaf needs below a root of height 1.
        height: of the tree, in levels above the leaves.
        fall: what is left of it with each further level; 1 is the paper's constant threshold.
    """
    return float(tau * fall ** max(height - 1, 0))


def backed(total: Vector, whole: Vector, count: int, backing: float) -> Vector:
    """Return what a node is compared by: the sum of its leaves, and of so many more that are like the whole.

    The mean of many leaves is nearer to anything than a single leaf is, so a root would win by its size. Drawing each mean
    to that of everything takes that away, as it is done with means of few observations (James & Stein 1961).

    Args:
        total: sum of the leaves below the node.
        whole: sum of all leaves.
        count: number of all leaves.
        backing: leaves like the whole; 0 is the paper's plain mean.
    """
    return total + whole * (backing / count) if backing and count else total


def nearest(vector: Vector, candidates: Sequence[Vector], least: float) -> int | None:
    """Return the candidate that a vector is most like, of equally like ones the lowest; None if it is like none of them.

    Args:
        vector: of the leaf, shape (d,).
        candidates: of the nodes, of any length.
        least: likeness below which it joins none.
    """
    if not len(candidates):
        return None
    rows = np.stack(candidates)
    lengths = np.sqrt((vector * vector).sum()) * np.sqrt((rows * rows).sum(axis=1))
    likes = np.round((rows * vector).sum(axis=1) / np.where(lengths, lengths, np.inf), DECIMALS)
    best = int(likes.argmax())
    return None if likes[best] < least else best


def weakest(children: Sequence[Vector | None]) -> int:
    """Return the child from which on a full node is cut: where neighbours are least alike, of equal places the first.

    Each part keeps a quarter of the children, so that what is cut once is not full again at once. Where vectors are
    missing it is the middle.
    """
    n = len(children)
    low = max(2, n // 4)
    places = range(low, n - low + 1)
    likes = {
        at: cosine(one, other)
        for at in places
        if (one := children[at - 1]) is not None and (other := children[at]) is not None
    }
    return min(likes, key=lambda at: (likes[at], at)) if len(likes) == len(places) else n // 2


_SUM, _UNIT = b"s", b"u"
"""What stands in front of a node's own state: of an exact sum, or of a unit vector of half precision."""


class Sums:
    """The sums of nodes inside one write transaction; `write` puts those of the frontier back."""

    def __init__(self, tx: Tx, arena: SqliteArena, settings: SegTreeSettings) -> None:
        self._tx, self._arena = tx, arena
        self._of_text = settings.leaf_vector == "text"
        self._cuts = settings.fan_out_max > 0
        self._known: dict[int, Vector | None] = {}
        """Of nodes of the frontier, as far as they were read or have changed; None where it is not known."""

    def of(self, node: Node) -> Vector | None:
        """Return the sum of the leaves below a node of the frontier; None where it is not known."""
        if node.id not in self._known:
            stored = own_state(node)
            self._known[node.id] = np.frombuffer(stored[1:], dtype="<f8") if stored[:1] == _SUM else None
        return self._known[node.id]

    def has(self, node: Node) -> bool:
        """Return whether the sum of a node was read or kept in this transaction."""
        return node.id in self._known

    def keep(self, node: Node, total: Vector | None) -> None:
        """Keep the sum of a node of the frontier, or that it is not known."""
        self._known[node.id] = total

    def forget(self) -> None:
        """Forget all sums that are not written."""
        self._known.clear()

    def close(self, node: Node, total: Vector | None) -> None:
        """Store the unit vector of a node that has left the frontier, by which neighbours are compared."""
        self._known.pop(node.id, None)
        kept = b""
        if total is not None and self._cuts:
            length = float(np.sqrt((total * total).sum()))
            kept = _UNIT + (total / length if length else total).astype(NUMBER).tobytes()
        self._arena.put(with_own_state(node, kept))

    def write(self, ends: Iterable[Node]) -> None:
        """Write the sums of the inner nodes of the frontier that have changed."""
        for node in ends:
            kept = self.of(node)
            state = b"" if kept is None else _SUM + kept.astype("<f8").tobytes()
            if state != own_state(node):
                self._arena.put(with_own_state(node, state))

    def neighbours(self, kids: Sequence[Node]) -> list[Vector | None]:
        """Return what neighbouring children are compared by; None where it is not known."""
        leaves = self.leaf_vectors(kids)
        found: list[Vector | None] = []
        for kid in kids:
            if not kid.level:
                found.append(leaves.get(kid.id))
            elif kid.id in self._known:
                found.append(self._known[kid.id])
            else:
                kept = own_state(kid)
                unit = np.frombuffer(kept[1:], dtype=NUMBER).astype(np.float64)
                found.append(unit if kept[:1] == _UNIT else None)
        return found

    def total(self, nodes: Sequence[Node]) -> Vector | None:
        """Return the exact sum of all leaves below some nodes, read one by one; None if a vector is missing."""
        leaves: list[Node] = []
        stack = list(nodes)
        while stack:
            inner = [one for one in stack if one.level]
            leaves += [one for one in stack if not one.level]
            try:
                stack = self._arena.get_many([child for one in inner for child in one.children])
            except KeyError:  # a leaf has gone with its turn
                return None
            if stack and max(one.level for one in stack) >= max(one.level for one in inner):
                return None  # no tree
        found = self.leaf_vectors(leaves)
        return None if len(found) < len(leaves) or not leaves else np.sum(list(found.values()), axis=0)

    def leaf_vectors(self, nodes: Sequence[Node]) -> dict[int, Vector]:
        """Return the vectors of leaves by the id of their node, those that there are."""
        turns = {node.item or 0: node.id for node in nodes if not node.level}
        exchanges = {one: turns[turn] for one, turn in segtree_rows.beginning_with(self._tx, turns).items()}
        found = segtree_rows.leaf_vectors(self._tx, exchanges, of_text=self._of_text)
        return {exchanges[one]: vector for one, vector in found.items()}

    def of_exchanges(self, exchanges: Collection[int], gone: Mapping[int, Vector | None]) -> Vector | None:
        """Return the sum of the vectors of exchanges; None if one of them is not known.

        Args:
            exchanges: each once.
            gone: vectors of those whose turns are not stored any more.
        """
        stored = [one for one in exchanges if one not in gone]
        found = segtree_rows.leaf_vectors(self._tx, stored, of_text=self._of_text)
        vectors = [*found.values(), *(known for one in exchanges if (known := gone.get(one)) is not None)]
        return np.sum(vectors, axis=0) if len(vectors) == len(exchanges) else None


OWNER = "segtree"
"""Name of the index, which owns the tree."""
KIND = "conversation"
"""Kind of its only tree."""
RUN = 5
"""Children of a node without vectors, where leaves are placed by their number alone: the branching that the paper has with
cosines (Table 5)."""


Decision = tuple[int | None, str]
"""Where a leaf is to go: the level that was picked, None for a new root, and what picked it."""


class SegTree:
    """The segment tree of one memory inside one write transaction; `close` writes it back."""

    def __init__(self, tx: Tx, settings: SegTreeSettings) -> None:
        self._tx, self._settings = tx, settings
        self._arena = SqliteArena(tx)
        self.head = trees.find_head(tx, OWNER, KIND, 0) or TreeHead(0, 0)
        self._ends: list[Node] | None = None
        self._sums = Sums(tx, self._arena, settings)
        self._last: Vector | None = None
        """The vector of the last leaf."""
        self._touched = False

    @property
    def ends(self) -> list[Node]:
        """The frontier: the last leaf first, the root last; empty in a tree without leaves."""
        if self._ends is None:
            self._ends = frontier(self._arena, self.head)
        return self._ends

    @property
    def token(self) -> tuple[int, int, int]:
        """What changes whenever the tree does: number of leaves, root, and the root's version."""
        if self.head.root is None:
            return 0, 0, 0
        return self.head.count, self.head.root, self._arena.get(self.head.root).version

    def choices(self) -> list[tuple[Node, int]]:
        """Return what a new leaf may join, and the level that picking it means, lowest level first."""
        return choices(self.ends) if self.ends else []

    def by_likeness(self, vector: Vector, tau: float) -> Decision:
        """Return where a leaf goes by the mean of the leaves below each node."""
        open_ = self.choices()
        if self._last is None:
            self._last = self.vector_of_last()
        seen = [self._last if not node.level else self._sums.of(node) for node, _ in open_]
        known = [one for one in seen if one is not None]
        whole = self._sums.of(self.ends[-1]) if self.head.height else None
        best = None
        if open_ and len(known) == len(open_) and whole is not None:
            means = [backed(one, whole, self.head.count, self._settings.backing) for one in known]
            best = nearest(vector, means, self.needed(tau))
        return self.at_most(None if best is None else open_[best][1]), "centroid"

    def by_count(self) -> Decision:
        """Return where a leaf goes in a memory without vectors: fixed runs of `RUN` children, level by level."""
        level, left = 1, self.head.count
        while left and left % RUN == 0:
            level, left = level + 1, left // RUN
        return (level if level <= self.head.height else self.at_most(None)), "runs"

    def at_most(self, level: int | None) -> int | None:
        """Bound the level picked for a leaf: at `height_max`, None becomes that level.

        Parts of a node that was cut are one stretch: who belongs to all of them joins the last. Else every cut of a root
        would leave one that fills with leaves again, and the tree would get higher with their number, not its logarithm.
        """
        highest = self._settings.height_max
        if level is None and 0 < highest <= self.head.height:
            level = highest
        if level is None or self.head.root is None:
            return level
        # The highest node of the frontier whose children are more than the parts of one that was cut. A root above
        # parts is marked, also when it is cut itself; the first part shows what its last one is of.
        whole, first = self.ends[-1], self.ends[-1]
        for end in self.ends[-2::-1]:
            if not (end.level and cut_at(first)):
                break
            whole, first = end, self._arena.get(first.children[0])
        return min(level, whole.level)

    def needed(self, tau: float) -> float:
        """Return how like a node a leaf must be to join it."""
        return needed(tau, self.head.height, self._settings.fall)

    def add(self, exchange: ExchangeRow, level: int | None, vector: Vector | None) -> list[Node]:
        """Add an exchange as the last leaf, and return the nodes above it, from the lowest up.

        Args:
            exchange: that comes behind all of the tree.
            level: that was picked; None for a new root.
            vector: of the leaf; None in a memory without vectors.
        """
        self._ensure_head()
        before = self.ends
        if vector is not None and self._last is None:
            self._last = self.vector_of_last()
        grown = insert(self._arena, self.head, _new_leaf(exchange), level, ends=before)
        self.head, self._ends = grown.head, [grown.leaf, *grown.above]
        if vector is not None:
            self._add_up(grown, before, vector)
        self._last = vector
        for node in grown.above:
            self._cut_if_full(self._arena.get(node.id), with_vectors=vector is not None)
        return self.ends[1:]

    def _add_up(self, grown: Grown, before: Sequence[Node], vector: Vector) -> None:
        """Bring the sums up to date with a leaf that has come."""
        known = {node.id: self._sums.of(node) for node in before if node.level}
        if before:
            known[before[0].id] = self._last
        made: dict[int, Vector | None] = {grown.leaf.id: vector}
        for node in grown.above:
            old = known.get(node.id)
            if node.id in known:
                made[node.id] = None if old is None else old + vector
            else:  # new: above nodes of the frontier before, or other new ones
                below = [made[child] if child in made else known[child] for child in node.children]
                vectors = [one for one in below if one is not None]
                made[node.id] = np.sum(vectors, axis=0) if len(vectors) == len(below) else None
        for node in grown.above:
            self._sums.keep(node, made[node.id])
        for node in grown.closed:
            if node.level:
                self._sums.close(node, known[node.id])

    def _cut_if_full(self, node: Node, *, with_vectors: bool) -> None:
        """Cut a node of the frontier that has too many children."""
        if not 0 < self._settings.fan_out_max < len(node.children):
            return
        kids = self._arena.get_many(node.children)
        at = weakest(self._sums.neighbours(kids) if with_vectors else [None] * len(kids))
        total = self._sums.of(node)
        right = None if total is None else self._sums.total(kids[at:])
        self.head = cut(self._arena, self.head, node.id, at)
        self._ends = None
        for one in self.ends[1:]:
            if one.level == node.level:
                self._sums.keep(one, right)
            elif one.level > node.level and not self._sums.has(one):
                self._sums.keep(one, total)  # a new root above both parts
        self._sums.close(self._arena.get(node.id), None if total is None or right is None else total - right)

    def vector_of_last(self) -> Vector | None:
        """Return the vector of the last leaf."""
        return next(iter(self._sums.leaf_vectors(self.ends[:1]).values()), None)

    def mark_above(self, at: int) -> list[int]:
        """Mark the nodes above a leaf as out of date, and return them.

        The leaf is read, so that it can be taken out when its turns are not stored any more.

        Args:
            at: the leaf's ordinal, from 1.
        """
        marked, low = [], 1
        node = self._arena.get(self.ends[-1].id)
        while node.level:
            node.version, node.dirty = node.version + 1, True
            self._arena.put(node)
            marked.append(node.id)
            above = node
            for kid in self._arena.get_many(node.children):
                node, high = kid, kid.span[1] if kid.span else low + 1
                if at < high:
                    break
                low = high
            if node.level >= above.level:
                raise ValueError(
                    f"node {above.id} of the segment tree has no node below it where leaf {at} is"
                )
        self._touched = True
        return marked

    def ordinals(self, exchanges: Collection[int]) -> dict[int, int]:
        """Return the ordinals of those of some exchanges that are in the tree."""
        return {
            one.id: self.head.count - segtree_rows.behind(self._tx, one.place, one.tie)
            for one in segtree_rows.places(self._tx, exchanges)
            if one.state == segtree_rows.PLACED
        }

    def cut_back(self, count: int, gone: Mapping[int, Vector | None]) -> None:
        """Keep the first leaves alone; the exchanges behind them wait.

        Args:
            count: leaves that stay.
            gone: vectors of exchanges whose turns are not stored any more.
        """
        self._ensure_head()
        dropped = segtree_rows.last_of(self._tx, self.head.count - count)
        if not dropped:
            return
        sums = {node.id: total for node in self.ends[1:] if (total := self._sums.of(node)) is not None}
        lost = self._sums.of_exchanges(dropped, gone)
        self.head = truncate(self._arena, self.head, count)
        self._ends, self._last = None, None
        self._sums.forget()
        segtree_rows.mark(self._tx, dropped, segtree_rows.WAITING)
        for node in self.ends[1:]:
            known = node.id in sums and lost is not None
            self._sums.keep(node, sums[node.id] - lost if known else self._sums.total([node]))  # type: ignore[operator]

    def take_out(self, at: int, vector: Vector | None) -> None:
        """Take one leaf out, and leave all others where they are."""
        around = {node.id: self._sums.of(node) for node in self.ends[1:] if node.span and node.span[0] <= at}
        self.head = remove(self._arena, self.head, at)
        self._ends, self._last = None, None
        for node in self.ends[1:]:
            total = around.get(node.id)
            if node.id in around and total is not None and vector is not None:
                self._sums.keep(node, total - vector)
            elif node.id in around or self._sums.of(node) is None:
                self._sums.keep(node, self._sums.total([node]))
        self._touched = True

    def put_beside(self, at: int, exchange: ExchangeRow, vector: Vector | None) -> list[Node]:
        """Put an exchange right behind the leaf at an ordinal, 0 for the first place; return the nodes above it."""
        self._ensure_head()
        ends = {node.id: self._sums.of(node) for node in self.ends[1:]}
        grown = beside(self._arena, self.head, at, _new_leaf(exchange))
        self.head = grown.head
        self._ends, self._last = None, None
        for node in grown.above:
            total = ends.get(node.id)
            if node.id in ends:
                self._sums.keep(node, None if total is None or vector is None else total + vector)
        return list(grown.above)

    def wrong_sums(self) -> list[int]:
        """Return the nodes of the frontier whose sum is not that of the leaves below them, as far as all have vectors."""
        made, wrong = self.vector_of_last(), []
        for node in self.ends[1:]:
            rest = self._arena.get_many(node.children[:-1])
            total = self._sums.total(rest) if rest else made
            if total is None or made is None:
                break
            made = made + total if rest else made
            kept = self._sums.of(node)
            if kept is None or not np.array_equal(kept, made):
                wrong.append(node.id)
        return wrong

    def _ensure_head(self) -> None:
        if self.head.tree == 0:
            self.head = trees.put_head(self._tx, OWNER, KIND, 0, self.head)
        self._touched = True

    def close(self) -> Placed:
        """Write everything back."""
        if not self._touched:
            return Placed()
        self._sums.write(self.ends[1:])
        if self.head.root is None:
            self._arena.flush()
            trees.drop_tree(self._tx, self.head)
            return Placed(self._arena.written)
        self._arena.flush()
        trees.put_head(self._tx, OWNER, KIND, 0, self.head)
        return Placed(self._arena.written, frozenset({self.head.tree}))


def _new_leaf(exchange: ExchangeRow) -> NewLeaf:
    return NewLeaf(
        (exchange.start_ms, exchange.tie),
        exchange.start_ms,
        exchange.end_ms,
        "turn",
        exchange.turn,
        None if exchange.turn == exchange.turn_last else exchange.turn_last,
    )


def shape_of(tx: Tx) -> dict[str, Any]:
    """Return the counts of the tree: nodes, leaves, height, depth of the leaves (maximum, mean, deviation) and branching.

    Depth is the number of edges from the root to a leaf; branching is the mean number of children of inner nodes.
    """
    head = trees.find_head(tx, OWNER, KIND, 0)
    inner: dict[int, tuple[int, ...]] = {}
    depths = np.zeros(0, dtype=np.int64)
    if head is not None and head.root is not None:
        inner = {row.id: unpack_ids(row.children) for row in inner_rows(tx, OWNER)}
        depths = np.array(_depths(inner, head.root))
    leaves = len(depths)
    return {
        "nodes": len(inner) + leaves,
        "leaves": leaves,
        "height": 0 if head is None else head.height,
        "depth_max": int(depths.max(initial=0)),
        "depth_mean": round(float(depths.mean()), 3) if leaves else 0.0,
        "depth_std": round(float(depths.std()), 3) if leaves else 0.0,
        "branching": round((len(inner) + leaves - 1) / len(inner), 3) if inner else 0.0,
    }


def _depths(inner: Mapping[int, Sequence[int]], root: int) -> list[int]:
    """Return the depths of all leaves."""
    found, level, at = [], [root], 0
    while level and at <= len(inner):  # a damaged tree may have circles
        found += [at for node in level if node not in inner]
        level = [child for node in level for child in inner.get(node, ())]
        at += 1
    return found
