"""The indexes of a memory: their settings, and cursors in the feed."""

from __future__ import annotations

from typing import NamedTuple

from memforest.store.tx import Tx


class IndexRow(NamedTuple):
    """An index of a memory.

    `settings` is JSON. `cursor` is the number up to which it has placed the feed. `began` is up to where notes of what
    is gone were missing when it last began from the start (`memforest.store.feed.compacted`). `reason` says why it
    stopped, if it did.
    """

    name: str
    settings: str
    cursor: int
    began: int
    reason: str | None


_COLUMNS = "name, settings, cursor, began, reason"


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


def change(tx: Tx, name: str, settings: str) -> None:
    """Write an index's settings, and clear the reason why it had stopped."""
    tx.execute("UPDATE index_ SET settings = ?, reason = NULL WHERE name = ?", (settings, name))


def move(tx: Tx, name: str, cursor: int) -> None:
    """Write an index's cursor in the feed."""
    tx.execute("UPDATE index_ SET cursor = ?, reason = NULL WHERE name = ?", (cursor, name))


def move_from(tx: Tx, name: str, before: int, cursor: int) -> bool:
    """Move an index's cursor in the feed if it is still where it was read before; return whether it was.

    For an index that reads notes in one transaction, asks a model, and writes in another: if this returns False
    another process has placed them, and nothing of it may be written.
    """
    sql = "UPDATE index_ SET cursor = ?, reason = NULL WHERE name = ? AND cursor = ?"
    return tx.execute(sql, (cursor, name, before)).rowcount == 1


def restart(tx: Tx, name: str, began: int, reason: str | None) -> None:
    """Move an index's cursor to the start of the feed, and store the reason."""
    tx.execute("UPDATE index_ SET cursor = 0, began = ?, reason = ? WHERE name = ?", (began, reason, name))


def stop(tx: Tx, name: str, reason: str) -> None:
    """Store why an index has stopped at its cursor."""
    tx.execute("UPDATE index_ SET reason = ? WHERE name = ?", (reason, name))


def go_on(tx: Tx, name: str) -> None:
    """Forget why an index had stopped: it has placed what it could not, and its cursor may stand where it stood."""
    tx.execute("UPDATE index_ SET reason = NULL WHERE name = ?", (name,))


def remove(tx: Tx, name: str) -> None:
    """Delete an index's row."""
    tx.execute("DELETE FROM index_ WHERE name = ?", (name,))


def own_tables(tx: Tx, name: str | None = None) -> list[str]:
    """Return an index's own tables, referencing ones before referenced ones; with None, those of every index.

    What SQLite keeps for a virtual table goes with that one.
    """
    begin = "ix_" if name is None else f"ix_{name}_"
    found = tx.execute(
        """SELECT m.name FROM sqlite_master m JOIN pragma_table_list t ON t.schema = 'main' AND t.name = m.name
           WHERE m.type = 'table' AND t.type IN ('table', 'virtual') AND substr(m.name, 1, ?) = ? ORDER BY m.rowid DESC""",
        (len(begin), begin),
    )
    return [row[0] for row in found]


def own_columns(tx: Tx, table: str) -> list[tuple[str, str, int]]:
    """Return (name, type, place in the primary key from 1 or 0) of the columns of a table."""
    return tx.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()


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


def strays(tx: Tx) -> set[str]:
    """Return the names of indexes that own trees or tables and that the memory does not have."""
    owners = {row[0] for row in tx.execute("SELECT DISTINCT owner FROM tree")}
    return (owners - {row.name for row in rows(tx)}) | stray_tables(tx)


def stray_tables(tx: Tx) -> set[str]:
    """Return the names of indexes that own tables and that the memory does not have."""
    return {table.split("_")[1] for table in own_tables(tx)} - {row.name for row in rows(tx)}
