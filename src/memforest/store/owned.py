"""Nodes by the index that owns their trees."""

from __future__ import annotations

from collections.abc import Collection

from memforest.store.dialect import AMONG
from memforest.store.tx import Tx


def nodes_without(tx: Tx, nodes: Collection[int], owners: Collection[str]) -> set[int]:
    """Return those of some nodes that may have a summary, and are of other indexes than the given ones."""
    rows = tx.execute(
        f"SELECT n.id FROM node n JOIN tree t ON t.id = n.tree WHERE n.id {AMONG} AND t.owner NOT {AMONG}",
        (tx.ids(nodes), tx.ids(owners)),
    )
    return {row[0] for row in rows}
