"""Migration 13: nodes that are out of date are found by their tree."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0013_dirty"]


def m0013_dirty(tx: Tx) -> None:
    """Have the index of nodes that are out of date by tree: a question asks for those of one index."""
    tx.execute("DROP INDEX IF EXISTS node_dirty")
    tx.execute("CREATE INDEX node_dirty ON node (tree, level) WHERE dirty")
