"""Settings of the memory itself: its user, its embedder, its generation and counters."""

from __future__ import annotations

from memforest.store import changes
from memforest.store.tx import Tx


def get(tx: Tx, key: str) -> str | None:
    """Return a stored setting, or None."""
    row = tx.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def everything(tx: Tx) -> dict[str, str]:
    """Return all stored settings, by key."""
    return dict(tx.execute("SELECT key, value FROM meta ORDER BY key").fetchall())


def put(tx: Tx, key: str, value: str) -> None:
    """Store a setting."""
    tx.execute(
        "INSERT INTO meta VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", (key, value)
    )


def remove(tx: Tx, key: str) -> None:
    """Delete a stored setting, if there is one."""
    tx.execute("DELETE FROM meta WHERE key = ?", (key,))


def generation(tx: Tx) -> int:
    """Return the counter that every change of the memory raises; caches compare it."""
    return int(tx.execute("SELECT value FROM meta WHERE key = 'generation'").fetchone()[0])


def bump(tx: Tx) -> None:
    """Raise the generation; called by every transaction that changes what a query could see.

    The change log is cut to its bound on the way.
    """
    changes.prune(tx)
    tx.execute("UPDATE meta SET value = CAST(value AS INTEGER) + 1 WHERE key = 'generation'")


def take_ids(tx: Tx, name: str, n: int = 1) -> int:
    """Reserve `n` consecutive row ids of a table that are never given again, and return the first.

    SQLite gives the id of a deleted last row to the next one. Whoever holds an id across transactions (a vector
    that is being made, a snapshot, a refresh) would take the new row for the one that it read.
    """
    key = f"next:{name}"
    first = int(get(tx, key) or 1)
    put(tx, key, str(first + n))
    return first
