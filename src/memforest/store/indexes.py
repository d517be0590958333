"""Which indexes a memory has: their versions and settings, and up to where in the feed they are."""

from __future__ import annotations

from typing import NamedTuple

from memforest.store.db import Tx

__all__ = [
    "IndexRow",
    "add",
    "change",
    "drop_tables",
    "empty_tables",
    "find",
    "move",
    "own_tables",
    "remove",
    "rows",
]


class IndexRow(NamedTuple):
    """An index of a memory. `settings` is JSON; `reason` says why it stopped, if it did."""

    name: str
    version: int
    settings: str
    cursor: int
    reason: str | None


_COLUMNS = "name, version, settings, cursor, reason"


def rows(tx: Tx) -> list[IndexRow]:
    """Return the indexes of a memory, by name."""
    return [IndexRow(*row) for row in tx.execute(f"SELECT {_COLUMNS} FROM index_ ORDER BY name")]


def find(tx: Tx, name: str) -> IndexRow | None:
    """Return an index of a memory, or None."""
    row = tx.execute(f"SELECT {_COLUMNS} FROM index_ WHERE name = ?", (name,)).fetchone()
    return None if row is None else IndexRow(*row)


def add(tx: Tx, row: IndexRow) -> None:
    """Insert an index."""
    tx.execute(f"INSERT INTO index_ ({_COLUMNS}) VALUES (?, ?, ?, ?, ?)", row)


def change(tx: Tx, name: str, *, version: int, settings: str) -> None:
    """Write an index's version and settings."""
    tx.execute("UPDATE index_ SET version = ?, settings = ? WHERE name = ?", (version, settings, name))


def move(tx: Tx, name: str, cursor: int, reason: str | None = None) -> None:
    """Write up to where in the feed an index is, and why it stopped there."""
    tx.execute("UPDATE index_ SET cursor = ?, reason = ? WHERE name = ?", (cursor, reason, name))


def remove(tx: Tx, name: str) -> None:
    """Delete an index's row."""
    tx.execute("DELETE FROM index_ WHERE name = ?", (name,))


def own_tables(tx: Tx, name: str) -> list[str]:
    """Return the tables that are an index's own, those first that point at others."""
    found = tx.execute(
        r"SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE ? ESCAPE '\' ORDER BY rowid DESC",
        ("ix\\_" + name.replace("\\", r"\\").replace("_", r"\_").replace("%", r"\%") + r"\_%",),
    )
    return [row[0] for row in found]


def drop_tables(tx: Tx, name: str) -> None:
    """Drop an index's own tables, and what it keeps in `meta`."""
    for table in own_tables(tx, name):
        tx.execute(f'DROP TABLE "{table}"')
    for begin in (f"ix_{name}_", f"next:ix_{name}_"):
        tx.execute("DELETE FROM meta WHERE substr(key, 1, ?) = ?", (len(begin), begin))


def empty_tables(tx: Tx, name: str) -> None:
    """Delete the rows of an index's own tables, and what it keeps in `meta` but for its counters."""
    for table in own_tables(tx, name):
        tx.execute(f'DELETE FROM "{table}"')
    begin = f"ix_{name}_"
    tx.execute("DELETE FROM meta WHERE substr(key, 1, ?) = ?", (len(begin), begin))
