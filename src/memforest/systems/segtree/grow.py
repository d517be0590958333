"""The tree of the index inside one write transaction: leaves come to its right end, and what changed leaves it.

What nodes are compared by is kept beside (`memforest.systems.segtree.sums`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from memforest.store import trees as tree_rows
from memforest.store.trees import SqliteArena
from memforest.store.tx import Tx
from memforest.systems.base import Placed
from memforest.systems.segtree import rows
from memforest.systems.segtree.likeness import backed, nearest, needed, weakest
from memforest.systems.segtree.rows import Exchange
from memforest.systems.segtree.settings import SegTreeSettings
from memforest.systems.segtree.sums import Sums, Vector
from memforest.tree import Node, TreeHead
from memforest.tree.segment import (
    Choice,
    Grown,
    NewLeaf,
    beside,
    choices,
    cut,
    frontier,
    insert,
    remove,
    truncate,
)
from memforest.tree.segment_nodes import cut_at

OWNER = "segtree"
"""Name of the index, which owns the tree."""
KIND = "conversation"
"""Kind of its only tree."""
RUN = 5
"""Children of a node without vectors, where leaves are placed by their number alone: the branching that the paper has with
cosines (Table 5)."""


class Decision(NamedTuple):
    """Where a leaf is to go: the level that was picked, None for a new root, and what picked it."""

    level: int | None
    maker: str


class SegTree:
    """The segment tree of one memory inside one write transaction; `close` writes it back."""

    def __init__(self, tx: Tx, settings: SegTreeSettings) -> None:
        self._tx, self._settings = tx, settings
        self._arena = SqliteArena(tx)
        self.head = tree_rows.find_head(tx, OWNER, KIND, 0) or TreeHead(0, 0)
        self._ends: list[Node] | None = None
        self._sums = Sums(tx, self._arena, settings)
        self._last: Vector | None = None
        """The vector of the last leaf."""
        self._touched = False

    # -- the right end ------------------------------------------------------------------------

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

    def choices(self) -> list[Choice]:
        """Return what a new leaf may join, lowest level first."""
        return choices(self.ends) if self.ends else []

    def by_likeness(self, vector: Vector, tau: float) -> Decision:
        """Return where a leaf goes by the mean of the leaves below each node."""
        open_ = self.choices()
        if self._last is None:
            self._last = self.vector_of_last()
        seen = [self._last if not one.node.level else self._sums.of(one.node) for one in open_]
        known = [one for one in seen if one is not None]
        whole = self._sums.of(self.ends[-1]) if self.head.height else None
        best = None
        if open_ and len(known) == len(open_) and whole is not None:
            means = [backed(one, whole, self.head.count, self._settings.backing) for one in known]
            best = nearest(vector, means, self.needed(tau))
        return Decision(self.at_most(None if best is None else open_[best].level), "centroid")

    def by_count(self) -> Decision:
        """Return where a leaf goes in a memory without vectors: fixed runs of `RUN` children, level by level."""
        level, left = 1, self.head.count
        while left and left % RUN == 0:
            level, left = level + 1, left // RUN
        return Decision(level if level <= self.head.height else self.at_most(None), "runs")

    def at_most(self, level: int | None) -> int | None:
        """Return where a leaf goes of which a level was picked: at `height_max`, none means that level.

        Parts of a node that was cut are one stretch: who belongs to all of them joins the last. Else every cut of a root
        would leave one that fills with leaves again, and the tree would get higher with their number, not its logarithm.
        """
        highest = self._settings.height_max
        if level is None and 0 < highest <= self.head.height:
            level = highest
        whole = self._whole()
        return level if level is None or whole is None else min(level, whole.level)

    def _whole(self) -> Node | None:
        """Return the highest node of the frontier whose children are more than the parts of one that was cut.

        A root above parts is marked, also when it is cut itself; what its last part is of, its first one tells.
        """
        if self.head.root is None:
            return None
        last, first = self.ends[-1], self.ends[-1]
        for end in self.ends[-2::-1]:
            if not (end.level and cut_at(first)):
                break
            last, first = end, self._arena.get(first.children[0])
        return last

    def needed(self, tau: float) -> float:
        """Return how like a node a leaf must be to join it."""
        return needed(tau, self.head.height, self._settings.fall)

    # -- growing ------------------------------------------------------------------------------

    def add(self, exchange: Exchange, level: int | None, vector: Vector | None) -> list[Node]:
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
        if 0 < self._settings.fan_out_max < len(node.children):
            self._cut(node, with_vectors)

    def _cut(self, node: Node, with_vectors: bool) -> None:
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

    # -- leaving ------------------------------------------------------------------------------

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
            one.id: self.head.count - rows.behind(self._tx, one.place, one.tie)
            for one in rows.places(self._tx, exchanges)
            if one.state == rows.PLACED
        }

    def cut_back(self, count: int, gone: Mapping[int, Vector | None]) -> None:
        """Keep the first leaves alone; the exchanges behind them wait.

        Args:
            count: leaves that stay.
            gone: vectors of exchanges whose turns are not stored any more.
        """
        self._ensure_head()
        dropped = rows.last_of(self._tx, self.head.count - count)
        if not dropped:
            return
        sums = {node.id: total for node in self.ends[1:] if (total := self._sums.of(node)) is not None}
        lost = self._sums.of_exchanges(dropped, gone)
        self.head = truncate(self._arena, self.head, count)
        self._ends, self._last = None, None
        self._sums.forget()
        rows.mark(self._tx, dropped, rows.WAITING)
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

    def put_beside(self, at: int, exchange: Exchange, vector: Vector | None) -> list[Node]:
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

    # -- the end of the transaction -------------------------------------------------------------

    def _ensure_head(self) -> None:
        if self.head.tree == 0:
            self.head = tree_rows.put_head(self._tx, OWNER, KIND, 0, self.head)
        self._touched = True

    def close(self) -> Placed:
        """Write everything back."""
        if not self._touched:
            return Placed()
        self._sums.write(self.ends[1:])
        if self.head.root is None:
            self._arena.flush()
            tree_rows.drop_tree(self._tx, self.head)
            return Placed(self._arena.written)
        self._arena.flush()
        tree_rows.put_head(self._tx, OWNER, KIND, 0, self.head)
        return Placed(self._arena.written, frozenset({self.head.tree}))


def _new_leaf(exchange: Exchange) -> NewLeaf:
    return NewLeaf(
        (exchange.start_ms, exchange.tie),
        exchange.start_ms,
        exchange.end_ms,
        "turn",
        exchange.turn,
        None if exchange.turn == exchange.turn_last else exchange.turn_last,
    )
