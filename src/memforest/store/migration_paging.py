"""The fifteenth migration: what pages are read by."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0015_paging"]

_PAGING = (
    # Where a fact stands in time order. Ties are sorted when a page is read: their texts are as long as session ids.
    "CREATE INDEX fact_time ON fact (coalesce(start_ms, said_ms))",
    # When a session begins.
    "CREATE INDEX turn_session ON turn (session, said_ms)",
)


def m0015_paging(tx: Tx) -> None:
    """Make the indexes by which a page of facts or sessions is found where the one before has ended."""
    for statement in _PAGING:
        tx.execute(statement)
