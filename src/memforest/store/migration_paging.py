"""The fifteenth migration: what pages are read by; and the sixteenth: what no merge brings back."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0015_paging", "m0016_deleted"]

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


def m0016_deleted(tx: Tx) -> None:
    """Make the table by which a merge knows what was deleted here: digests of turns, sentences and corrections, no words."""
    tx.execute("CREATE TABLE deleted (digest BLOB PRIMARY KEY) STRICT, WITHOUT ROWID")
