"""Nodes of a tree that its index keeps in a table of its own: marking them, and taking leaves away whose items are gone."""

from __future__ import annotations

from collections.abc import Collection

from memforest.store.leaves import drop_leaves
from memforest.store.tx import Tx


def drop_leaf_nodes(tx: Tx, nodes: Collection[int]) -> None:
    """Delete leaves that have summaries of their own, with all that is derived from them; their items may be gone already."""
    drop_leaves(tx, nodes)
    gone = [(node,) for node in nodes]
    tx.executemany("DELETE FROM node WHERE id = ?", gone)
    tx.executemany("DELETE FROM derived_node_vector WHERE item = ?", gone)


def mark_out_of_date(tx: Tx, nodes: Collection[int]) -> None:
    """Mark these nodes dirty, with a new version; who calls sees to those above them."""
    tx.executemany(
        "UPDATE node SET dirty = 1, version = version + 1 WHERE id = ?", [(node,) for node in sorted(nodes)]
    )


def mark_up_to_date(tx: Tx, nodes: Collection[int]) -> None:
    """Mark nodes clean that need no summary."""
    tx.executemany("UPDATE node SET dirty = 0 WHERE id = ?", [(node,) for node in sorted(nodes)])
