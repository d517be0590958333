"""A small index: all facts are leaves of one tree, and a table says which leaf a fact has."""

from collections.abc import Mapping, Sequence

from memforest.nodes import Node, TreeHead
from memforest.records import SummaryRequest as Request
from memforest.store import corrections, meta, trees
from memforest.store.connections import Tx
from memforest.store.indexes import Items, Kind
from memforest.store.trees import placements
from memforest.times import from_ms
from memforest.trees.flat import FlatIndex
from memforest.trees.index import IndexProblem, Placed, Placing
from memforest.trees.node import check, delete, insert
from memforest.trees.refresh import NodeWork


class _Placing(Placing):
    def __init__(self, tx: Tx) -> None:
        self.tx, self.arena = tx, trees.SqliteArena(tx)
        found = trees.find_head(tx, "dummy", "all", 0)
        self.head = found or trees.put_head(tx, "dummy", "all", 0, TreeHead(0, 8))

    def leave(self, items: Items) -> None:
        for fact in items.get("fact", ()):
            for _, leaf in placements(self.tx, "dummy", "fact", fact):
                self.head = delete(self.arena, self.head, self.arena.get(leaf).key)
            self.tx.execute("DELETE FROM ix_dummy_place WHERE fact = ?", (fact,))

    def place(self, items: Items) -> None:
        for fact in corrections.shown_facts(self.tx, items.get("fact", ())).values():
            if not placements(self.tx, "dummy", "fact", fact.row):
                span = dict(zip(("start_ms", "end_ms"), fact.leaf_span, strict=True))
                place = {"key": fact.leaf_key, "item_kind": "fact", "item": fact.row}
                self.head, leaf = insert(self.arena, self.head, **place, **span)  # type: ignore[arg-type]
                self.tx.execute("INSERT INTO ix_dummy_place VALUES (?, ?)", (fact.row, leaf))
        meta.put(self.tx, "ix_dummy_leaves", str(self.head.count))

    def close(self) -> Placed:
        self.arena.flush()
        trees.put_head(self.tx, "dummy", "all", 0, self.head)
        return Placed(self.arena.written, frozenset({self.head.tree}))


class Dummy(FlatIndex):
    """Ranks as the flat index does."""

    name, follows = "dummy", frozenset[Kind]({"fact"})

    @staticmethod
    def make_tables(tx: Tx) -> None:  # noqa: D102
        tx.execute("CREATE TABLE ix_dummy_place (fact UNIQUE, leaf)")

    def placing(self, tx: Tx) -> _Placing:  # noqa: D102
        return _Placing(tx)

    def work(self, tx: Tx, nodes: Sequence[Node], inputs: Mapping[int, tuple[str, ...]]) -> list[NodeWork]:  # noqa: D102
        days = [(node, from_ms(node.start_ms), from_ms(node.end_ms)) for node in nodes]
        return [NodeWork(n.id, Request("all", "all", a, b, inputs[n.id], level=n.level)) for n, a, b in days]

    def check(self, tx: Tx) -> list[IndexProblem]:  # noqa: D102
        lost = "SELECT id FROM fact WHERE verdict < 2 AND id NOT IN (SELECT fact FROM ix_dummy_place)"
        head, arena = trees.find_head(tx, "dummy", "all", 0) or TreeHead(0, 8), trees.SqliteArena(tx)
        wrong = [IndexProblem("tree", message) for message in check(arena, head)]
        return wrong + [IndexProblem("placement", f"fact {row[0]} has no leaf") for row in tx.execute(lost)]
