"""The eleventh migration: what a statement's words of time mean, beside its text."""

from __future__ import annotations

from memforest.store.tx import Tx

__all__ = ["m0011_dates"]


def m0011_dates(tx: Tx) -> None:
    """Give facts and occurrences a column of dates. Older statements have theirs in their texts, and stay as they are."""
    tx.execute("ALTER TABLE fact ADD COLUMN dates TEXT NOT NULL DEFAULT '[]'")
    tx.execute("ALTER TABLE occurrence ADD COLUMN dates TEXT")  # none: those of the fact
