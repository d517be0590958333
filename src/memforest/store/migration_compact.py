"""The seventh migration: observations that are found by their time, and shorter keys."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0007_compact"]

_LONG = f"*{chr(31)}f1:{'[0-9a-f]' * 32}"
"""A key that ends in a whole fact id."""

_COMPACT = (
    # An observation is found by its time, so that a write reads those around it and not all of an attribute.
    "ALTER TABLE state ADD COLUMN at_ms INTEGER NOT NULL DEFAULT 0",
    """UPDATE state SET at_ms = (SELECT coalesce(f.start_ms, o.said_ms) FROM fact f, occurrence o
        WHERE f.id = state.fact AND o.id = state.occurrence)""",
    "DROP INDEX state_entity",
    "CREATE INDEX state_entity ON state (entity, attribute, at_ms, value, previous)",
    # The key of a fact among those of one place ended in its whole id, in every leaf and in every node above one; eight
    # characters of it tell them apart as well, and in the same order.
    *(
        f"""UPDATE {table} SET {column} = substr({column}, 1, length({column}) - 35) || substr({column}, -32, 8)
            WHERE {column} GLOB '{_LONG}'"""
        for table, column in (("fact", "tie"), ("occurrence", "tie"), ("node", "key_tie"))
    ),
)


def m0007_compact(tx: Tx) -> None:
    """Date the observations of states, and shorten the keys of facts."""
    for statement in _COMPACT:
        tx.execute(statement)
