"""A second index with trees, for tests: leaves of every kind, spans, windows, states, and levels that are no heights.

For each session there is a tree of its turns two by two and of its chunks, in the order of the turns: ``root (level 7)
-> halves (level 3) -> leaves``, each inner node with its span of ordinals. For each calendar month in which something
was said there is a tree of the facts: ``month (level 2, window "2024-05") -> leaves``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from types import MappingProxyType

import numpy as np

from memforest.nodes import Node, TreeHead
from memforest.search.cache import forest_of
from memforest.search.filters import IndexResult, Search, TurnHit
from memforest.search.forest import FACT
from memforest.search.lexical import bm25
from memforest.search.snapshot import Snapshot
from memforest.store import corrections, sessions
from memforest.store import facts as fact_rows
from memforest.store import trees as tree_rows
from memforest.store.connections import Tx
from memforest.store.indexes import Items, Kind
from memforest.store.trees import SqliteArena, placements
from memforest.times import from_ms
from memforest.trees.index import Index, Placed, Placing
from memforest.trees.node import Contract

__all__ = ["NAME", "ShelfIndex"]

NAME = "shelf"


class ShelfPlacing(Placing):
    """Makes the trees of what has changed anew."""

    def __init__(self, tx: Tx, owner: str) -> None:
        self._tx, self._owner = tx, owner
        self._arena = SqliteArena(tx)
        self._stale: set[tuple[str, int]] = set()

    def leave(self, items: Items) -> None:
        """Note the trees in which the items stand; a turn may be the last of a leaf, which is found by its first."""
        self._stale |= {("session", session) for session in self._sessions(items.get("turn", ()))}
        for kind in ("turn", "chunk", "fact"):
            for item in items.get(kind, ()):
                for tree, _ in placements(self._tx, self._owner, kind, item):
                    self._stale.add(tree_rows.head_of(self._tx, tree)[:2])

    def place(self, items: Items) -> None:
        """Note the trees in which the items belong."""
        self.leave(items)
        for fact in fact_rows.facts_with_ids(self._tx, items.get("fact", ())).values():
            self._stale.add(("month", _month(fact.said_ms)))

    def close(self) -> Placed:
        """Make the noted trees."""
        for kind, scope in sorted(self._stale):
            if (head := tree_rows.find_head(self._tx, self._owner, kind, scope)) is not None:
                tree_rows.drop_tree(self._tx, head)
            kids = self._session(scope) if kind == "session" else self._facts(scope)
            if not kids:
                continue
            head = tree_rows.put_head(self._tx, self._owner, kind, scope, TreeHead(0, 0))
            root = self._grown(head.tree, kind, scope, kids)
            tree_rows.put_head(
                self._tx, self._owner, kind, scope, TreeHead(head.tree, 0, root.id, 2, len(kids))
            )
        self._arena.flush()
        return Placed(self._arena.written)

    def _sessions(self, turns: Collection[int]) -> set[int]:
        found = set()
        for turn in turns:
            row = self._tx.execute("SELECT session FROM turn WHERE id = ?", (turn,)).fetchone()
            found |= set() if row is None else {row[0]}
        return found

    def _session(self, session: int) -> list[Node]:
        """Return the leaves of a session: its first chunk, and then its turns two by two."""
        turns = sessions.turns(self._tx, session)
        chunks = sessions.chunks(self._tx, session)[:1]
        found = [self._leaf("chunk", chunk.row) for chunk in chunks]
        for at in range(chunks[0].last + 1 if chunks else 0, len(turns), 2):
            last = turns[min(at + 1, len(turns) - 1)][0]
            found.append(self._leaf("turn", turns[at][0], last))
        return found

    def _facts(self, month: int) -> list[Node]:
        shown = corrections.shown_facts(self._tx, [fact.row for fact in fact_rows.iter_facts(self._tx)])
        mine = [fact for fact in shown.values() if _month(fact.said_ms) == month]
        return [self._leaf("fact", fact.row) for fact in sorted(mine, key=lambda fact: fact.leaf_key)]

    def _leaf(self, kind: str, item: int, last: int | None = None) -> Node:
        return Node(self._arena.new_id(), 0, 0, (0, ""), 0, 1, 1, (), kind, item, 1, False, last)

    def _grown(self, tree: int, kind: str, scope: int, leaves: Sequence[Node]) -> Node:
        for leaf in leaves:
            leaf.tree = tree
            self._arena.put(leaf)
        stored = tree_rows.nodes_with_ids(self._tx, [leaf.id for leaf in leaves])
        placed = [stored[leaf.id] for leaf in leaves]
        if kind == "month":
            return self._above(tree, 2, placed, window=f"{scope // 100:04}-{scope % 100:02}")
        middle = (len(placed) + 1) // 2
        halves = [(0, placed[:middle]), (middle, placed[middle:])]
        made = [
            self._above(tree, 3, part, span=(low + 1, low + 1 + len(part)), state=bytes([low]))
            for low, part in halves
            if part
        ]
        return self._above(tree, 7, made, span=(1, 1 + len(placed)))

    def _above(
        self,
        tree: int,
        level: int,
        nodes: Sequence[Node],
        *,
        span: tuple[int, int] | None = None,
        window: str | None = None,
        state: bytes | None = None,
    ) -> Node:
        node = Node(
            id=self._arena.new_id(),
            tree=tree,
            level=level,
            key=nodes[0].key,
            start_ms=min(one.start_ms for one in nodes),
            end_ms=max(one.end_ms for one in nodes),
            count=sum(one.count for one in nodes),
            children=tuple(one.id for one in nodes),
            item_kind=None,
            item=None,
            version=1,
            dirty=False,
            span=span,
            window=window,
            state=state,
        )
        self._arena.put(node)
        return node


def _month(ms: int) -> int:
    at = from_ms(ms)
    return at.year * 100 + at.month


class ShelfIndex(Index):
    """Ranks turns by their words; each is found at the leaf that holds it, or the fact it supports."""

    name = NAME
    follows = frozenset[Kind]({"turn", "chunk", "fact"})
    contracts = MappingProxyType({"session": Contract("partition"), "month": Contract("contained")})

    def placing(self, tx: Tx) -> ShelfPlacing:
        """Begin to edit the trees."""
        return ShelfPlacing(tx, self.name)

    def search(self, tx: Tx, snapshot: Snapshot, request: Search) -> IndexResult:
        """Return every turn; those with a fact at the leaf of that fact, others at that of their run."""
        forest = forest_of(tx, snapshot, self.name)
        scores = bm25(tx, snapshot, "turn", request.tokens)
        leaf_of = np.full(len(scores), -1, dtype=np.int64)
        for row in np.flatnonzero(forest.kind != 0).tolist():
            item = int(forest.item[row])
            turns = range(item, int(forest.item_end[row]))
            leaf_of[list(snapshot.turns_of_fact[item] if forest.kind[row] == FACT else turns)] = row
        order = np.argsort(-scores, kind="stable").tolist()
        return IndexResult([TurnHit(i, -1, float(scores[i]), {}, int(leaf_of[i])) for i in order])
